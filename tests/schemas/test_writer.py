"""A recording appears whole or not at all."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.schemas import Clock, IotraceError, Manifest, Recording, RecordingWriter, SweepWriter, validate
from iotrace.schemas import writer as writing
from iotrace.schemas.growing import GrowingRecording
from iotrace.schemas.recording import GROUP_ROWS_MAX
from iotrace.schemas.replacing import unseal_folder


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


class OutOfReachError(OSError):
    """As Arrow raises it: without a number, and with words of several lines."""

    def __init__(self) -> None:
        super().__init__("x" * 300 + "\ndetails of no use")


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded"), (OutOfReachError(), "x" * 200)],
)
def test_an_error_of_the_disk_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: OSError, reason: str
) -> None:
    def fails(*_: object) -> None:
        raise problem

    path = tmp_path / "a.iotrace"
    with RecordingWriter(path) as writer:
        monkeypatch.setattr(writing, "parquet_writer", fails)
        with pytest.raises(IotraceError) as caught:
            writer.commit(manifest())
    assert caught.value.message == f"cannot write '{path}': {reason}"
    assert caught.value.hint == "free some room or choose another folder with -o"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(OSError(errno.EROFS, "Read-only file system"), "Read-only file system"), (OSError("gone"), "gone")],
)
def test_a_manifest_that_cannot_be_renewed_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: OSError, reason: str
) -> None:
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        recording = writer.commit(manifest("old"))
    recording.manifest.title = "new"

    def fails(*_: object, **__: object) -> None:
        raise problem

    with monkeypatch.context() as patched, pytest.raises(IotraceError) as caught:
        patched.setattr(writing, "replace_text", fails)
        writing.rewrite_manifest(recording)
    assert caught.value.message == f"cannot write '{recording.path}': {reason}"
    assert caught.value.hint == "free some room or choose another folder with -o"
    assert Recording.open(recording.path).manifest.title == "old"
    assert writing.rewrite_manifest(recording) is recording
    assert Recording.open(recording.path).manifest.title == "new"
    assert stat.S_IMODE((recording.path / "manifest.json").stat().st_mode) == 0o600


def test_rows_so_far(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        assert writer.rows("io") == 0
        writer.append("io", io([1, 2]))
        writer.append("io", io([3]).to_batches()[0])
        assert writer.rows("io") == 3
        assert writer.rows("markers") == 0


def test_rows_of_one_call_are_put_in_order_of_issue(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.append("io", io([5, 3, 4]))
        writer.append("io", io([2, 1]))
        recording = writer.commit(manifest())
    assert recording.read("io")["issued_ns"].to_pylist() == [3, 4, 5, 1, 2]


def test_tables_of_others_are_kept_as_they_come(tmp_path: Path) -> None:
    other = pa.table({"b": [2, 1], "a": ["x", "y"]})
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.append("own", other)
        writer.append("own", other.to_batches()[0])
        recording = writer.commit(manifest())
    assert pq.read_table(recording.path / "own.parquet").equals(pa.concat_tables([other, other]))


def test_a_table_that_fills_its_row_groups_has_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotrace.schemas.writer.ROW_GROUP_ROWS", 10)
    for rows in (0, 9, 10, 11, 20):
        with RecordingWriter(tmp_path / f"{rows}.iotrace") as writer:
            writer.append("io", io(list(range(rows))))
            recording = writer.commit(manifest())
        told = pq.read_metadata(recording.path / "io.parquet")
        groups = [told.row_group(number).num_rows for number in range(told.num_row_groups)]
        assert groups == [10] * (rows // 10) + ([rows % 10] if rows % 10 or not rows else [])
        assert {entry.name for entry in recording.path.iterdir() if entry.is_dir()} == set()


def test_rows_are_written_as_soon_as_they_fill_a_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotrace.schemas.writer.ROW_GROUP_ROWS", 10)
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        (hidden,) = tmp_path.glob(".a.iotrace.partial-*")
        writer.append("io", io(list(range(9))))
        assert not (hidden / "io").exists()
        writer.append("io", io([9]))
        assert stat.S_IMODE((hidden / "io").stat().st_mode) == 0o700
        assert stat.S_IMODE((hidden / "io/part-00000.parquet").stat().st_mode) == 0o600


def test_times_are_kept_as_differences_and_words_as_numbers(tmp_path: Path) -> None:
    """An I/O of a recording takes 16 bytes or less (docs/format)."""
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.append("io", io(list(range(0, 3_000_000, 1000))))
        recording = writer.commit(manifest())
    told = pq.read_metadata(recording.path / "io.parquet").row_group(0)
    columns = {told.column(at).path_in_schema: told.column(at) for at in range(told.num_columns)}
    for name in ("issued_ns", "completed_ns", "offset_bytes"):
        assert "DELTA_BINARY_PACKED" in columns[name].encodings
        assert not columns[name].has_dictionary_page
    for name in ("layer", "op", "size_bytes"):
        assert columns[name].has_dictionary_page
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert all(column.has_offset_index and column.has_column_index for column in columns.values())


class TestWhatIsReadIsNotWrittenOver:
    """`refuse_over_source`."""

    def make(self, path: Path) -> Path:
        with RecordingWriter(path) as writer:
            writer.commit(manifest())
        return path

    def test_the_source_itself_by_any_name(self, tmp_path: Path) -> None:
        source, other = self.make(tmp_path / "a.iotrace"), tmp_path / "other"
        (tmp_path / "link").symlink_to(source)
        for name in (source, tmp_path / "link", tmp_path / "x/../a.iotrace"):
            with pytest.raises(IotraceError) as caught:
                writing.refuse_over_source(name, [other, source])
            assert caught.value.message == f"'{name}' is what is read, and is not overwritten"
            assert caught.value.hint == "choose another name with -o"

    @pytest.mark.root
    @pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="mounting takes root")
    def test_the_source_mounted_in_another_place(self, tmp_path: Path) -> None:
        source = self.make(tmp_path / "a" / "a.iotrace")
        other = tmp_path / "other"
        other.mkdir()
        subprocess.run(["mount", "--bind", source.parent, other], check=True)
        again = other / source.name
        try:
            for output, read, words in (
                (again, source, "is what is read"), (source, again, "is what is read"),
                (other, source, "holds what is read"), (source.parent, again, "holds what is read"),
                (again / "x", source, "lies in"), (source / "x", again, "lies in"),
            ):  # fmt: skip
                with pytest.raises(IotraceError, match=words):
                    writing.refuse_over_source(output, [read])
        finally:
            subprocess.run(["umount", other], check=True)

    def test_what_holds_the_source(self, tmp_path: Path) -> None:
        source = self.make(tmp_path / "deep/er/a.iotrace")
        with pytest.raises(IotraceError) as caught:
            writing.refuse_over_source(tmp_path / "deep", [source])
        assert caught.value.message == f"'{tmp_path / 'deep'}' holds what is read, and is not overwritten"

    def test_a_place_in_the_recording_that_is_read(self, tmp_path: Path) -> None:
        source = self.make(tmp_path / "a.iotrace")
        with pytest.raises(IotraceError) as caught:
            writing.refuse_over_source(source / "x/b.iotrace", [source])
        assert caught.value.message == f"'{source / 'x/b.iotrace'}' lies in the recording that is read"
        assert caught.value.hint == "choose another place with -o"

    def test_a_place_beside_it_or_in_a_mere_folder(self, tmp_path: Path) -> None:
        source = self.make(tmp_path / "a.iotrace")
        writing.refuse_over_source(tmp_path / "b.iotrace", [source])
        writing.refuse_over_source(tmp_path / "b.iotrace", [tmp_path])
        writing.refuse_over_source(tmp_path / "b.iotrace", [])


def test_what_tells_our_folders_from_others(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.commit(manifest())
    SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    assert writing.is_output(tmp_path / "a.iotrace")
    assert writing.is_output(tmp_path / "s.iotrace")
    assert not writing.is_output(tmp_path)
    for name, keys in (
        ("manifest.json", ["format_version", "uuid", "kind"]),
        ("sweep.json", ["format_version", "steps"]),
    ):
        for text, is_ours in (
            (json.dumps(dict.fromkeys(keys)), True),
            (json.dumps(dict.fromkeys([*keys, "more"])), True),
            (json.dumps(dict.fromkeys(keys[1:])), False),
            (json.dumps(keys), False),
            ("{", False),
            ("[" * 100_000, False),
            ("", False),
        ):
            (tmp_path / "b").mkdir(exist_ok=True)
            (tmp_path / "b" / name).write_text(text)
            assert writing.is_output(tmp_path / "b") == is_ours, text[:100]
        (tmp_path / "b" / name).unlink()


class TestWhatMayBeReplaced:
    """A recording of which anything is not as it was written stays."""

    def make(self, path: Path) -> Path:
        with RecordingWriter(path) as writer:
            writer.append("io", io([1, 2]))
            writer.commit(manifest())
        return path

    def test_as_it_was_written(self, tmp_path: Path) -> None:
        path = self.make(tmp_path / "a.iotrace")
        (path / "writer.lock").touch()
        writing.check_replaceable(path, overwrite=True)
        writing.check_replaceable(tmp_path / "free", overwrite=False)

    def test_a_table_with_other_rows(self, tmp_path: Path) -> None:
        path = self.make(tmp_path / "a.iotrace")
        pq.write_table(pa.table({"a": [1]}), path / "io.parquet")
        with pytest.raises(IotraceError, match=r"holds 'io\.parquet', which is not as iotrace wrote it"):
            writing.check_replaceable(path, overwrite=True)

    def test_a_table_that_cannot_be_read(self, tmp_path: Path) -> None:
        path = self.make(tmp_path / "a.iotrace")
        (path / "io.parquet").write_bytes(b"mine")
        with pytest.raises(IotraceError, match=r"holds 'io\.parquet'"):
            writing.check_replaceable(path, overwrite=True)

    def test_a_table_that_is_a_link(self, tmp_path: Path) -> None:
        path = self.make(tmp_path / "a.iotrace")
        (path / "io.parquet").rename(tmp_path / "io.parquet")
        (path / "io.parquet").symlink_to(tmp_path / "io.parquet")
        with pytest.raises(IotraceError, match=r"holds 'io\.parquet'"):
            writing.check_replaceable(path, overwrite=True)

    def test_a_lock_that_somebody_wrote_into(self, tmp_path: Path) -> None:
        path = self.make(tmp_path / "a.iotrace")
        (path / "writer.lock").write_text("mine")
        with pytest.raises(IotraceError, match=r"holds 'writer\.lock'"):
            writing.check_replaceable(path, overwrite=True)

    def test_a_manifest_that_names_a_place_elsewhere(self, tmp_path: Path) -> None:
        path = self.make(tmp_path / "a.iotrace")
        told = json.loads((path / "manifest.json").read_text())
        told["rows"]["../b"] = 1
        (path / "manifest.json").write_text(json.dumps(told))
        unseal_folder(path)  # as a copy comes
        pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
        assert set(writing._written_in(path) or {}) == {
            "manifest.json",
            "writer.lock",
            *(f"{name}.parquet" for name in told["rows"] if name != "../b"),
        }

    @pytest.mark.parametrize("text", ["{}", "[]", "nothing", "\N{NO-BREAK SPACE}"])
    def test_a_manifest_that_is_none(self, tmp_path: Path, text: str) -> None:
        path = self.make(tmp_path / "a.iotrace")
        (path / "manifest.json").write_text(text, "latin-1")
        with pytest.raises(IotraceError, match="is not a recording and is not overwritten"):
            writing.check_replaceable(path, overwrite=True)

    @pytest.mark.parametrize("steps", [3, [3], [{}], {"a": 1}, None])
    def test_a_sweep_whose_steps_are_none(self, tmp_path: Path, steps: object) -> None:
        path = tmp_path / "s.iotrace"
        SweepWriter(path, title="t", source_uuid=None)
        told = json.loads((path / "sweep.json").read_text())
        (path / "sweep.json").write_text(json.dumps(told | {"steps": steps}))
        with pytest.raises(IotraceError, match="is not a recording and is not overwritten"):
            writing.check_replaceable(path, overwrite=True)

    def test_a_sweep_with_its_steps_and_who_watched(self, tmp_path: Path) -> None:
        path = tmp_path / "s.iotrace"
        sweep = SweepWriter(path, title="t", source_uuid=None)
        step = self.make(sweep.step_path(1))
        sweep.add(1, Recording.open(step))
        self.make(path / "steps/000-1x.watched.iotrace")
        writing.check_replaceable(path, overwrite=True)
        (path / "steps/000-1x.watched.iotrace/mine").touch()
        with pytest.raises(IotraceError, match=r"holds 'steps/000-1x\.watched\.iotrace/mine'"):
            writing.check_replaceable(path, overwrite=True)

    def test_a_sweep_in_which_a_recorder_was_killed(self, tmp_path: Path) -> None:
        """What it left may go; what one that lives is writing may not."""
        path = tmp_path / "s.iotrace"
        sweep = SweepWriter(path, title="t", source_uuid=None)
        sweep.add(1, Recording.open(self.make(sweep.step_path(1))))
        recorder = GrowingRecording.create(path / "steps/000-1x.watched.iotrace")
        with pytest.raises(IotraceError, match=r"holds 'steps/000-1x\.watched\.iotrace\.unfinished"):
            writing.check_replaceable(path, overwrite=True)
        recorder._lock.release()  # the lock of a process ends with it
        writing.check_replaceable(path, overwrite=True)
