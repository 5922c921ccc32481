"""Logs of sp_WhoIsActive, made by hand as the procedure describes its columns; no real log was at hand."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

FIXTURES = Path(__file__).parents[3] / "fixtures"

LOG = (FIXTURES / "dmv" / "whoisactive.csv").read_bytes().decode()
NAMES = LOG.split("\r\n")[0]
FIRST, SECOND = "2026-03-13 12:00:00.000", "2026-03-13 12:00:30.000"


@pytest.fixture
def imported(tmp_path):
    def run(text, encoding="utf-8"):
        path = tmp_path / "who.csv"
        path.write_bytes(text.encode(encoding))
        recording = import_files([path], tmp_path / "x.iotrace", overwrite=True, timezone="UTC")
        assert not validate(recording.path)
        return recording

    return run


def values(recording):
    rows = recording.read("counters").to_pylist()
    return {(row["at_ns"] // 10**9, row["instance"], row["counter"]): row["value"] for row in rows}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("brackets", [False, True])
def test_what_tasks_wait_for_at_each_moment(imported, encoding, brackets):
    log = LOG.replace(NAMES, ",".join(f"[{name}]" for name in NAMES.split(","))) if brackets else LOG
    assert values(imported(log, encoding)) == {
        (0, None, "sessions"): 4,
        (0, None, "sessions blocked by another"): 1,
        (0, None, "tasks waiting for I/O"): 6,
        (0, None, "longest wait for I/O"): 1500,
        (0, "PAGEIOLATCH_SH", "tasks waiting"): 4,
        (0, "PAGEIOLATCH_SH", "longest wait"): 1500,
        (0, "WRITELOG", "tasks waiting"): 2,
        (0, "WRITELOG", "longest wait"): 90,
        (0, "CXPACKET", "tasks waiting"): 1,
        (0, "CXPACKET", "longest wait"): 7,
        (0, "LCK_M_X", "tasks waiting"): 1,
        (0, "LCK_M_X", "longest wait"): 30000,
        (30, None, "sessions"): 1,
        (30, None, "sessions blocked by another"): 0,
        (30, None, "tasks waiting for I/O"): 0,
    }


def test_no_text_of_a_query_and_no_name_is_kept(imported):
    recording = imported(LOG)
    tables = [pq.read_table(path).to_pylist() for path in recording.path.rglob("*.parquet")]
    stored = repr(tables) + (recording.path / "manifest.json").read_text()
    assert "PAGEIOLATCH_SH" in stored
    assert not [word for word in ("secret_table", "people", "PC7") if word in stored]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_cut_log_loses_its_last_row_and_says_so(imported, encoding):
    """``12:00`` for ``12:00:30.000`` would be a time, too."""
    recording = imported(LOG[:-9], encoding)
    assert recording.manifest.quality.truncated_tail
    assert {at for at, *_ in values(recording)} == {0}


def test_newest_first_is_the_same(imported):
    lines = LOG.replace(FIRST, "LATER").replace(SECOND, FIRST).replace("LATER", SECOND)
    found = values(imported(lines))
    assert found[30, None, "tasks waiting for I/O"] == 6
    assert found[0, None, "sessions"] == 1


def test_output_without_the_time_of_its_moments_is_refused(imported):
    with pytest.raises(IotraceError, match="sp_WhoIsActive without the time") as refused:
        imported(LOG.replace("collection_time", "start_time"))
    assert "@destination_table" in refused.value.hint


def test_an_empty_first_line_is_passed_over(imported):
    assert values(imported("\r\n" + LOG)) == values(imported(LOG))
