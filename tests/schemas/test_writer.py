"""A recording appears whole or not at all."""

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.schemas import Clock, IotraceError, Manifest, Recording, RecordingWriter, validate
from iotrace.schemas.recording import GROUP_ROWS_MAX


def manifest(title: str = "test") -> Manifest:
    return Manifest(
        kind="synthetic", title=title, clock=Clock(1_700_000_000_000_000_000, 1, "test"), window_end_ns=100
    )


def io(issued_ns: list[int]) -> pa.Table:
    return pa.table(
        {
            "layer": ["block"] * len(issued_ns),
            "op": ["read"] * len(issued_ns),
            "issued_ns": issued_ns,
            "completed_ns": [ns + 5 for ns in issued_ns],
            "offset_bytes": [4096] * len(issued_ns),
            "size_bytes": [8192] * len(issued_ns),
        }
    )


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.append("io", io([1, 2]))
        writer.append("io", io([3]))
        writer.commit(manifest("A title"))

    recording = Recording.open(tmp_path / "a.iotrace")

    assert recording.read("io")["issued_ns"].to_pylist() == [1, 2, 3]
    assert recording.manifest.title == "A title"
    assert recording.manifest.rows == {"io": 3} | dict.fromkeys(
        ["devices", "files", "processes", "waits", "counters", "markers"], 0
    )
    assert validate(recording.path) == []


def test_long_inputs_are_split_into_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iotrace.schemas.writer.ROW_GROUP_ROWS", 10)
    monkeypatch.setattr("iotrace.schemas.writer._PART_ROWS", 20)
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        for start in range(0, 55, 11):
            writer.append("io", io(list(range(start, start + 11))))
        recording = writer.commit(manifest())

    parts = recording.parquet_paths("io")

    assert [path.name for path in parts] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert [pq.read_metadata(path).num_rows for path in parts] == [20, 20, 15]
    assert recording.read("io")["issued_ns"].to_pylist() == list(range(55))
    assert validate(recording.path) == []


def test_row_groups_are_an_eighth_of_what_a_reader_takes(tmp_path: Path) -> None:
    size = GROUP_ROWS_MAX // 8
    notes = pa.table({"at_ns": range(2 * size + 5)}).append_column("kind", [pa.repeat("note", 2 * size + 5)])
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        for start in range(0, notes.num_rows, 200_000):
            writer.append("markers", notes.slice(start, 200_000))
        recording = writer.commit(manifest())

    (path,) = recording.parquet_paths("markers")
    told = pq.read_metadata(path)
    assert [told.row_group(number).num_rows for number in range(told.num_row_groups)] == [size, size, 5]


def test_nothing_stays_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="half way"), RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.append("io", io([1]))
        raise RuntimeError("half way")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_with_a_hint_and_leaves_nothing(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device here is always full")
    with pytest.raises(IotraceError) as caught, RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.append("io", io([1]))
        hidden = next(tmp_path.glob(".a.iotrace.partial-*"))
        (hidden / "io").mkdir()
        (hidden / "io" / "part-00000.parquet").symlink_to("/dev/full")
        writer.commit(manifest())
    assert "a.iotrace': " in caught.value.message
    assert "No space left on device" in caught.value.message
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_caller_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), RecordingWriter(tmp_path / "a.iotrace"):
        (tmp_path / "nowhere").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    script = (
        "import sys, time; from iotrace.schemas import RecordingWriter\n"
        "writer = RecordingWriter(sys.argv[1]); print('started', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.iotrace")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "a.iotrace").exists()


def test_an_existing_recording_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.iotrace"
    with RecordingWriter(path) as writer:
        writer.commit(manifest("old"))

    with pytest.raises(IotraceError, match=r"a\.iotrace' exists already"):
        RecordingWriter(path)
    with RecordingWriter(path, overwrite=True) as writer:
        assert Recording.open(path).manifest.title == "old"
        writer.commit(manifest("new"))

    assert Recording.open(path).manifest.title == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.iotrace"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_is_not_a_recording_is_never_replaced(tmp_path: Path, make: object) -> None:
    path = tmp_path / "precious"
    make(path)  # type: ignore[operator]
    with pytest.raises(IotraceError, match="not a recording and is not overwritten"):
        RecordingWriter(path, overwrite=True)
    assert path.exists()


def test_a_name_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with (
        pytest.raises(IotraceError, match="exists already"),
        RecordingWriter(tmp_path / "a.iotrace") as writer,
    ):
        (tmp_path / "a.iotrace").mkdir()
        writer.commit(manifest())
    assert list((tmp_path / "a.iotrace").iterdir()) == []
