"""Whatever a trace calls things, the terminal shows it harmlessly and a program gets it whole."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.schemas import Recording, SweepWriter

from ..hostile_names import (
    HOSTILE_NAMES,
    INVALID_UTF8,
    LONE_SURROGATE,
    assert_harmless,
    assert_harmless_json,
    write_recording,
)
from .conftest import Result

LINES_MAX = 400


@pytest.mark.parametrize(
    "command", ["describe {}", "compare {} {}", "validate {}",
                *(f"query {{}} 'SELECT * FROM {table}'" for table in (
                    "devices", "files", "processes", "waits", "markers", "counters"))]
)  # fmt: skip
def test_tables_show_hostile_names_harmlessly(
    iotrace: Callable[..., Result], hostile_recording: Recording, command: str
) -> None:
    arguments = [word.replace("{}", str(hostile_recording.path)) for word in shlex.split(command)]
    shown = iotrace(*arguments)
    assert shown.status in (0, 1), shown.err
    assert_harmless(shown.out + shown.err)
    assert len(shown.out.splitlines()) < LINES_MAX
    as_json = iotrace(*arguments, "--json")
    assert as_json.status == shown.status
    assert_harmless_json(as_json.out)


def test_a_knee_of_steps_with_hostile_names_is_shown_harmlessly(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    title = HOSTILE_NAMES["lines of its own"] + HOSTILE_NAMES["escape sequences"] + LONE_SURROGATE
    writer = SweepWriter(
        tmp_path / "s.iotrace", title=title.encode("utf-8", "replace").decode(), source_uuid=None
    )
    for scale in (1.0, 2.0, 4.0):
        writer.add(scale, write_recording(writer.step_path(scale)))
    shown = iotrace("knee", tmp_path / "s.iotrace")
    assert_harmless(shown.out + shown.err)
    assert "itself went wrong" not in shown.err


@pytest.mark.parametrize("command", ["inspect", "describe", "validate", "query"])
def test_a_hostile_file_name_is_told_harmlessly(
    iotrace: Callable[..., Result], tmp_path: Path, command: str
) -> None:
    path = tmp_path / "[red]\x1b[2J\nquality of prod: good\u202e.etl"
    path.write_bytes(bytes(range(256)))
    question = ["SELECT 1"] if command == "query" else []
    shown = iotrace(command, path, *question)
    assert shown.status == 2
    assert_harmless(shown.out + shown.err)
    assert "[red]" in shown.err


@pytest.fixture
def careless(tmp_path: Path) -> Recording:
    """A recording whose files were written by a program that takes any bytes for text."""
    recording = write_recording(tmp_path / "careless.iotrace")
    files = recording.read("files")
    raw = pa.array([INVALID_UTF8, *files["path"].cast(pa.binary()).to_pylist()[1:]], pa.binary())
    paths = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    position = files.column_names.index("path")
    pq.write_table(
        files.set_column(position, files.schema.field("path"), paths), recording.path / "files.parquet"
    )
    return recording


@pytest.mark.parametrize("command", ["describe", "validate", "query"])
def test_text_that_is_no_utf8_is_named_as_damage(
    iotrace: Callable[..., Result], careless: Recording, command: str
) -> None:
    question = ["SELECT * FROM files"] if command == "query" else []
    shown = iotrace(command, careless.path, *question)
    assert shown.status in (1, 2)
    assert_harmless(shown.out + shown.err)
    assert "files" in shown.out + shown.err
    assert "UTF" in shown.out + shown.err
    assert "Traceback" not in shown.err
