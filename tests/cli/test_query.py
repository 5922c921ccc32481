"""The query command: tables, JSON and CSV, the library, steps of a sweep."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from iotrace.cli import console
from iotrace.schemas import Recording, SweepWriter

from ..recordings import write_recording
from .conftest import Result, make_recording

WIDE = "SELECT * FROM io LIMIT 2"


def test_a_table_lines_up_and_keeps_every_digit_in_a_pipe(
    iotrace: Callable[..., Result], reads: Recording
) -> None:
    lines = iotrace("query", reads.path, WIDE).out.splitlines()
    assert len(lines) == 3
    assert lines[0].split()[:4] == ["layer", "op", "intended_ns", "issued_ns"]
    assert "…" not in "".join(lines)
    first = json.loads(iotrace("query", reads.path, WIDE, "--json").out)[0]
    assert str(first["issued_ns"]) in lines[1]


def test_rows_too_wide_for_the_screen_stand_below_one_another(
    iotrace: Callable[..., Result], reads: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Console(width=80, force_terminal=True, no_color=True, markup=False, highlight=False)
    monkeypatch.setattr(console, "data", screen)
    shown = iotrace("query", reads.path, WIDE).out
    assert "row 2" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80 + len("\x1b[2m\x1b[0m")


def test_a_limit_is_said(iotrace: Callable[..., Result], reads: Recording) -> None:
    question = "SELECT issued_ns FROM io"
    shown = iotrace("query", reads.path, question).out
    assert len(shown.splitlines()) == 42
    assert "the first 40 rows" in shown
    assert len(iotrace("query", reads.path, question, "--limit", 0).out.splitlines()) == 801
    assert "first" not in iotrace("query", reads.path, question + " LIMIT 40").out
    assert "no rows" in iotrace("query", reads.path, question + " WHERE FALSE").out


def test_json_and_csv_give_all_rows(iotrace: Callable[..., Result], reads: Recording) -> None:
    question = (
        "SELECT op, sum(size_bytes) AS size_bytes, NULL AS nothing, 'a,\"b\"' AS text FROM io GROUP BY op"
    )
    assert json.loads(iotrace("query", reads.path, question, "--json").out) == [
        {"op": "read", "size_bytes": 800 * 8192, "nothing": None, "text": 'a,"b"'}
    ]
    rows = list(csv.reader(io.StringIO(iotrace("query", reads.path, question, "--csv").out)))
    assert rows == [["op", "size_bytes", "nothing", "text"], ["read", str(800 * 8192), "", 'a,"b"']]
    formula = "SELECT '=1+1' AS \"@a\", -5 AS number, '-5' AS text"
    assert iotrace("query", reads.path, formula, "--csv").out == "'@a,number,text\n'=1+1,-5,-5\n"
    assert json.loads(iotrace("query", reads.path, "SELECT 1 WHERE FALSE", "--json").out) == []
    assert len(json.loads(iotrace("query", reads.path, "SELECT * FROM io", "--json").out)) == 800


def test_the_library_is_listed_and_asked_by_name(iotrace: Callable[..., Result], reads: Recording) -> None:
    listed = json.loads(iotrace("query", "--list", "--json").out)
    names = [entry["name"] for entry in listed]
    shown = iotrace("query", "--list").out
    assert all(name in shown for name in names)
    assert "How often was each transfer size asked for" in shown
    answer = json.loads(iotrace("query", reads.path, "size_distribution", "layer=block", "--json").out)
    assert answer == [
        {"device_id": 0, "role": "unattributed", "op": "read", "size_bytes": 8192, "io_count": 800}
    ]
    assert iotrace("query", reads.path, "size_distribution", "block").status == 2
    assert iotrace("query", reads.path, "SELECT 1", "layer=block").status == 2


def test_a_sweep_is_asked_by_its_step(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    writer = SweepWriter(tmp_path / "s.iotrace", title="s", source_uuid=None)
    for scale in (1.0, 2.5):
        writer.add(scale, make_recording(writer.step_path(scale), reads_per_second=100 * scale))
    question = (tmp_path / "s.iotrace", "SELECT count(*) AS n FROM io", "--json")
    assert json.loads(iotrace("query", *question, "--step", "2.5x").out) == [{"n": 500}]
    assert json.loads(iotrace("query", *question, "--step", "1").out) == [{"n": 200}]
    for arguments, word in ((question, "--step: 1, 2.5"), ((*question, "--step", "3x"), "3x")):
        refused = iotrace("query", *arguments)
        assert refused.status == 2
        assert word in refused.err


def test_a_mistake_in_sql_is_an_error_with_a_hint(iotrace: Callable[..., Result], reads: Recording) -> None:
    refused = iotrace("query", reads.path, "SELECT * FROM iox")
    assert (refused.status, refused.out) == (2, "")
    assert "iox" in refused.err
    assert "hint: " in refused.err


@pytest.mark.parametrize("form", ["EXPLAIN ANALYZE {}", "EXPLAIN {}", "{}"])
def test_no_question_writes_into_the_recording(
    iotrace: Callable[..., Result], reads: Recording, form: str
) -> None:
    """Its files may be opened, and DuckDB then lets a COPY write them, which EXPLAIN ANALYZE carries out."""
    path = reads.path / "io.parquet"
    before = path.read_bytes()
    copy = f"COPY (SELECT 1 AS a) TO '{path}' (FORMAT parquet, USE_TMP_FILE false)"
    refused = iotrace("query", reads.path, form.format(copy))
    assert refused.status == 2
    assert "only a single SELECT" in refused.err
    assert path.read_bytes() == before


def test_a_folder_of_recordings_is_one_table_with_a_column_host(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    counts = {}
    for name, rate in (("db01", 100.0), ("db'02", 300.0)):
        counts[name] = make_recording(tmp_path / "all" / f"{name}.iotrace", reads_per_second=rate).row_count(
            "io"
        )
    sql = "SELECT host, count(*) AS n, any_value(uuid) IS NOT NULL AS known FROM io JOIN hosts USING (host) GROUP BY 1"
    found = json.loads(iotrace("query", tmp_path / "all", sql, "--json").out)
    assert {row["host"]: row["n"] for row in found} == counts
    assert all(row["known"] for row in found)


def test_nothing_but_the_recordings_of_a_folder_can_be_read(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        make_recording(tmp_path / "all" / f"{name}.iotrace")
    other = tmp_path / "other.csv"
    other.write_text("secret\n1\n")
    found = iotrace("query", tmp_path / "all", f"SELECT * FROM read_csv('{other}')")
    assert found.status == 2
    assert "does not run" in found.err


@pytest.mark.parametrize("sql", ["SELECT TOP 5 * FROM io", "select distinct top (5) op from io"])
def test_who_asks_as_of_sql_server_is_told_of_limit(
    iotrace: Callable[..., Result], reads: Recording, sql: str
) -> None:
    found = iotrace("query", reads.path, sql)
    assert found.status == 2
    assert "hint: DuckDB's SQL has LIMIT: SELECT … LIMIT 5" in found.err


def test_a_question_of_the_library_is_asked_of_each_recording(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        make_recording(tmp_path / "all" / f"{name}.iotrace")
    rows = json.loads(iotrace("query", tmp_path / "all", "layers", "--json").out)
    alone = json.loads(iotrace("query", tmp_path / "all" / "a.iotrace", "layers", "--json").out)
    assert rows == [{"host": name} | row for name in ("a", "b") for row in alone]
    refused = iotrace("query", tmp_path / "all", "layer")
    assert refused.status == 2
    assert "the library has no query 'layer'" in refused.err


@pytest.mark.parametrize(
    ("question", "is_warned"),
    [
        ("SELECT op, count(*) FROM io GROUP BY op", True),
        ("SELECT op, count(*) FROM IO WHERE layer = 'block' GROUP BY op", False),
        ("SELECT count(*) FROM devices", False),
        ("size_distribution", False),
    ],
)
@pytest.mark.parametrize("layers", [("block", "device"), ("block",)])
def test_who_counts_an_io_once_for_each_layer_is_told(
    iotrace: Callable[..., Result], tmp_path: Path, question: str, is_warned: bool, layers: tuple[str, ...]
) -> None:
    issued_ns = [1000 * number for number in range(100) for _ in layers]
    columns = {
        "layer": [layer for _ in range(100) for layer in layers],
        "issued_ns": issued_ns,
        "completed_ns": [at + 500 for at in issued_ns],
    }
    recording = write_recording(tmp_path / "layers.iotrace", columns)
    said = iotrace("query", recording.path, question).err
    assert ("io has a row for the same I/O at each layer" in said) is (is_warned and len(layers) > 1)
