"""Whatever a trace calls things, the terminal shows it harmlessly and a program gets it whole."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.schemas import Recording

from ..hostile_names import INVALID_UTF8, assert_harmless, assert_harmless_json, write_recording
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
