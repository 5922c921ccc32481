"""A recording that grows: what a killed writer leaves at any moment becomes a recording."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.capture.linux import recover
from iotrace.schemas import Clock, GrowingRecording, IotraceError, Manifest, Recording, growing, validate
from iotrace.schemas.growing import OutputError, _link_or_copy, is_growing, unfinished_folder
from iotrace.schemas.streams import stream_bytes
from iotrace.schemas.tables import OPTIONAL_TABLES, TABLES
from iotrace.schemas.writer import GROWING_LOCK

WRITER = """
import os, sys
import pyarrow as pa
from iotrace.schemas import Clock, GrowingRecording, Manifest
growing = GrowingRecording.create(sys.argv[1])
disk = {"device_id": 0, "name": "sda", "kind": "disk", "size_bytes": 1 << 30, "logical_block_bytes": 512}
growing.replace("devices", pa.Table.from_pylist([disk]))
row = {"layer": "block", "op": "read", "issued_ns": 5, "completed_ns": 9, "offset_bytes": 0, "size_bytes": 4096}
growing.append("io", pa.Table.from_pylist([row | {"device_id": 0}]))
growing.flush(Manifest("captured", "killed", Clock(0, 1.0, "test"), window_end_ns=10))
os._exit(1)
"""


@pytest.mark.parametrize("name", ["manifest.json", "devices.parquet", "io/part-00000000.parquet"])
def test_killed_while_a_small_file_is_replaced(name, tmp_path):
    """The file that was to take its place is there, whole or not."""
    path = tmp_path / "r.iotrace"
    subprocess.run([sys.executable, "-c", WRITER, path], check=False)
    whole = path.with_name("r.iotrace.unfinished") / name
    whole.parent.mkdir(exist_ok=True)
    whole.with_name(f".{whole.name}.new").write_bytes(b"{")
    recovered = recover(path)
    assert recovered.read("io", ["completed_ns"])["completed_ns"].to_pylist() == [9]
    assert validate(path) == []
    assert not [file for file in path.rglob("*") if file.name.startswith(".")]


def test_whether_its_writer_lives_is_said_to_who_wants_its_name(tmp_path):
    path = tmp_path / "r.iotrace"
    alive = GrowingRecording.create(path)
    with pytest.raises(IotraceError, match="is being recorded just now"):
        GrowingRecording.create(path)
    alive.discard()
    subprocess.run([sys.executable, "-c", WRITER, path], check=False)
    with pytest.raises(IotraceError, match="was cut off"):
        GrowingRecording.create(path)


def test_a_copy_on_another_file_system_is_made_where_links_cannot_be(tmp_path, monkeypatch):
    """What cannot be linked is copied; what has gone meanwhile is said to have."""

    def no_link(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    (tmp_path / "part.parquet").write_bytes(b"rows")
    _link_or_copy(tmp_path / "part.parquet", tmp_path / "copy.parquet")
    assert (tmp_path / "copy.parquet").read_bytes() == b"rows"
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        _link_or_copy(tmp_path / "gone.parquet", tmp_path / "other.parquet")


def manifest(title="t"):
    return Manifest("captured", title, Clock(0, 1.0, "test"), window_end_ns=100)


def io(*issued_ns):
    rows = [
        {
            "layer": "block", "op": "read", "issued_ns": at, "completed_ns": at + 4, "offset_bytes": 0,
            "size_bytes": 4096, "device_id": 0,
        }
        for at in issued_ns
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def names_in(folder):
    return sorted(entry.relative_to(folder).as_posix() for entry in folder.rglob("*") if entry.is_file())


@pytest.fixture
def one(tmp_path):
    made = GrowingRecording.create(tmp_path / "r.iotrace")
    yield made
    made.seal()
    made.discard()


def test_what_grows_is_private_and_keeps_room_to_finish_in(one):
    assert one.folder.name == "r.iotrace.unfinished"
    assert stat.S_IMODE(one.folder.stat().st_mode) == 0o700
    reserve = one.folder / "reserve"
    assert stat.S_IMODE(reserve.stat().st_mode) == 0o600
    assert reserve.stat().st_size == 32 << 20
    assert one.size_bytes == 0
    one.release_reserve()
    one.release_reserve()
    assert not reserve.exists()


@pytest.mark.parametrize(
    ("free", "kept"), [(0, 1), (8, 1), (80, 10), (8 * (32 << 20), 32 << 20), (8 * (32 << 20) + 8, 32 << 20)]
)
def test_an_eighth_of_what_is_free_is_kept_for_finishing(tmp_path, monkeypatch, free, kept):
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=free))
    growing._reserve_room(tmp_path)
    assert (tmp_path / "reserve").stat().st_size == kept


def test_without_the_means_to_keep_room_it_just_starts(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", fails)
    GrowingRecording.create(tmp_path / "a.iotrace").discard()
    monkeypatch.delattr(os, "posix_fallocate")
    GrowingRecording.create(tmp_path / "a.iotrace").discard()
    assert list(tmp_path.iterdir()) == []


def test_a_path_without_a_name_is_refused():
    with pytest.raises(IotraceError) as caught:
        unfinished_folder("/")
    assert caught.value.message == "'/' is not the name of a recording"
    assert caught.value.hint == "name it as its -o did: NAME.iotrace"


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def fails(_path):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(growing, "create_private_folder", fails)
    with pytest.raises(IotraceError) as caught:
        GrowingRecording.create(tmp_path / "a.iotrace")
    assert caught.value.message == f"cannot write '{tmp_path / 'a.iotrace'}': Read-only file system"
    assert caught.value.hint == "choose a folder you may write to with -o"


def test_who_wants_the_name_is_told_what_to_do(tmp_path):
    path = tmp_path / "r.iotrace"
    alive = GrowingRecording.create(path)
    assert is_growing(alive.folder)
    for begin in (GrowingRecording.create, lambda name: GrowingRecording.resume(name, alive.folder)):
        with pytest.raises(IotraceError) as caught:
            begin(path)
        assert caught.value.message == f"'{path}' is being recorded just now"
        assert f"iotrace capture snapshot {path} -o OTHER.iotrace" in caught.value.hint
    with alive:
        alive.append("io", io(1))
        alive.flush(manifest())
    assert not is_growing(alive.folder)
    with pytest.raises(IotraceError) as caught:
        GrowingRecording.create(path)
    assert (
        caught.value.message
        == f"a recording of '{path}' was cut off, and what it saved is in '{alive.folder}'"
    )
    assert f"iotrace capture recover {path}" in caught.value.hint


def test_rows_are_counted_from_when_they_are_flushed_until_they_are_dropped(one):
    assert (one.rows, one.open_bytes, one.sealed_bytes, one.pending_bytes) == ({}, 0, 0, 0)
    one.append("io", io(1, 2))
    assert (one.rows, one.pending_bytes) == ({"io": 0}, stream_bytes(growing.conform(io(1, 2), "io")))
    told = manifest()
    one.flush(told)
    assert (told.rows, one.rows, one.pending_bytes) == ({"io": 2}, {"io": 2}, 0)
    tail = one.folder / "io/tail-00000000.arrows"
    assert one.open_bytes == tail.stat().st_size > 0
    one._sync.wait()
    # The manifest has a copy that is on the disk.
    assert one.size_bytes == tail.stat().st_size + 2 * (one.folder / "manifest.json").stat().st_size
    assert one.seal() == 0
    assert (one.open_bytes, one.sealed_bytes) == (0, tail.stat().st_size)
    one.append("io", io(3))
    one.append("io", io(1).slice(1))
    one.flush(told)
    one.flush(told)
    assert (one.rows, one.seal()) == ({"io": 3}, 1)
    one.drop(0)
    assert one.rows == {"io": 1}
    assert names_in(one.folder / "io") == ["tail-00000001.arrows"]
    assert one.commit(told).read("io")["issued_ns"].to_pylist() == [3]


def test_tails_become_parts_in_order_and_go_once_those_are_on_the_disk(one):
    assert not one.encode_one()
    assert not one.settle()
    for at in (5, 7):
        one.append("io", io(at + 1, at))
        one.append("markers", pa.table({"at_ns": [at], "kind": ["note"]}))
        one.flush(manifest())
        one.seal()
    one.append("io", io(9))
    one.flush(manifest())
    assert one.encode_one()
    assert names_in(one.folder / "io") == [
        "part-00000000.parquet", "tail-00000000.arrows", "tail-00000001.arrows", "tail-00000002.arrows",
    ]  # fmt: skip
    assert pq.read_table(one.folder / "io/part-00000000.parquet")["issued_ns"].to_pylist() == [5, 6]
    assert one.settle()
    assert "tail-00000000.arrows" not in names_in(one.folder / "io")
    while one.encode_one():
        pass
    assert names_in(one.folder / "io")[-1] == "tail-00000002.arrows"
    done = one.commit(manifest())
    assert done.read("io")["issued_ns"].to_pylist() == [5, 6, 7, 8, 9]
    assert done.read("markers")["at_ns"].to_pylist() == [5, 7]
    assert done.manifest.rows["io"] == 5
    assert names_in(done.path / "io") == [f"part-0000000{number}.parquet" for number in range(3)]


def test_a_tail_stays_where_only_itself_is_on_the_disk_and_not_its_part(one, monkeypatch):
    """A power cut would else take the part, and its rows with it."""
    one.append("io", io(5))
    one.flush(manifest())
    one.seal()
    one.encode_one()
    tail, part = one.folder / "io/tail-00000000.arrows", one.folder / "io/part-00000000.parquet"
    for on_disk, is_left in (({tail}, True), ({part}, False), ({part}, False)):
        monkeypatch.setattr(one._sync, "take_synced", lambda files=on_disk: files)
        one.flush(manifest())
        assert tail.exists() == is_left
    assert part.exists()


def test_files_that_somebody_removed_are_let_go_of_all_the_same(one, monkeypatch):
    one.append("io", io(5))
    one.flush(manifest())
    one.seal()
    one.encode_one()
    tail, part = one.folder / "io/tail-00000000.arrows", one.folder / "io/part-00000000.parquet"
    tail.unlink()
    monkeypatch.setattr(one._sync, "take_synced", lambda: {part})
    one.flush(manifest())
    part.unlink()
    one.drop(0)
    assert one.rows == {"io": 0}
    one.append("io", io(7))
    assert one.commit(manifest()).read("io")["issued_ns"].to_pylist() == [7]


def test_a_lock_file_that_somebody_removed_does_no_harm(one):
    one.append("io", io(5))
    (one.folder / GROWING_LOCK).unlink()
    assert one.commit(manifest()).read("io")["issued_ns"].to_pylist() == [5]


def test_a_finished_recording_is_as_one_that_was_written_at_once(one):
    one.append_fast("io", io(2, 1))
    one.append_fast("io", io(4).to_batches()[0])
    one.replace("devices", pa.Table.from_pylist([{
        "device_id": 0, "name": "sda", "kind": "disk", "size_bytes": 1 << 30, "logical_block_bytes": 512,
    }]))  # fmt: skip
    one.replace("own", pa.table({"a": [1]}))
    (one.folder / ".waits.parquet.new").write_text("x")
    (one.folder / "synced").mkdir(exist_ok=True)
    (one.folder / "synced" / ".manifest.json.partial-0123abcd").write_text("x")
    done = one.commit(manifest())
    assert done.path == one.path
    assert names_in(done.path) == sorted(
        ["manifest.json", "own.parquet", *(f"{name}.parquet" for name in set(TABLES) - OPTIONAL_TABLES)]
    )
    assert [entry for entry in done.path.iterdir() if entry.is_dir()] == []
    assert Recording.open(done.path).manifest.rows["own"] == 1
    assert done.read("io")["issued_ns"].to_pylist() == [1, 2, 4]
    assert validate(done.path) == []
    assert not one.folder.exists()


@pytest.mark.parametrize("name", [".notes", "synced/mine.txt", "notes.txt"])
def test_what_somebody_put_beside_it_stays(one, name):
    one.append_fast("io", io(1))
    (one.folder / "synced").mkdir(exist_ok=True)
    (one.folder / name).write_text("ten years of work")
    done = one.commit(manifest())
    assert (done.path / name).read_text() == "ten years of work"
    assert Recording.open(done.path).read("io")["issued_ns"].to_pylist() == [1]


def test_a_table_of_somebodys_is_no_reason_to_remove_it(tmp_path):
    path = tmp_path / "r.iotrace"
    subprocess.run([sys.executable, "-c", WRITER, path], check=False)
    mine = path.with_name("r.iotrace.unfinished") / "mydata.parquet"
    mine.write_text("ten years of work")
    with pytest.raises(IotraceError, match=r"holds 'mydata.parquet', which no recorder wrote"):
        recover(path)
    assert mine.read_text() == "ten years of work"


def test_what_somebody_put_into_one_that_is_given_up_stays(one):
    one.append_fast("io", io(1))
    one.flush(manifest())
    (one.folder / "notes.txt").write_text("ten years of work")
    one.discard()
    assert names_in(one.folder) == ["notes.txt"]


def test_fast_rows_of_a_wrong_kind_are_refused_at_once(one):
    with pytest.raises(ValueError, match="size_bytes"):
        one.append_fast("io", io(1).drop_columns(["size_bytes"]))
    one.append_fast("io", io(1))
    with pytest.raises(ValueError, match="size_bytes"):
        one.append_fast("io", io(1).drop_columns(["size_bytes"]))


def test_what_finishing_takes_is_foretold(one):
    """Rows to come and the largest part beside its tail, small tables three times, and 48 KiB."""
    least = 48 << 10
    assert one.finish_bytes() == least
    assert one.finish_bytes(1000) == least + 2000
    one.append("io", io(*range(50)))
    waiting = one.pending_bytes
    assert one.finish_bytes() == least + 2 * waiting
    one.flush(manifest())
    small = (one.folder / "manifest.json").stat().st_size
    assert one.finish_bytes() == least + one.open_bytes + 3 * small
    assert one.finish_bytes(7) == least + 7 + one.open_bytes + 7 + 3 * small
    one.seal()
    one.append("io", io(1))
    one.flush(manifest())
    small = (one.folder / "manifest.json").stat().st_size
    assert one.open_bytes < one.sealed_bytes
    assert one.finish_bytes() == least + one.sealed_bytes + 3 * small
    one.replace("own", pa.table({"a": [1]}))
    small += (one.folder / "own.parquet").stat().st_size
    assert one.finish_bytes() == least + one.sealed_bytes + 3 * small


@pytest.mark.parametrize(
    ("problem", "reason", "is_full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device", True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded", True),
        (OSError(errno.EIO, "Input/output error"), "Input/output error", False),
        (OSError("Arrow: No space left\nmore"), "Arrow: No space left", True),
        (OSError("y" * 300), "y" * 200, False),
    ],
)
def test_after_an_error_of_the_disk_rows_still_wait(one, monkeypatch, problem, reason, is_full):
    def fails(*_):
        raise problem

    one.append("io", io(1))
    with monkeypatch.context() as patched, pytest.raises(OutputError) as caught:
        patched.setattr(growing.StreamFile, "write", fails)
        one.flush(manifest())
    assert caught.value.message == f"cannot write '{one.path}': {reason}"
    remedy = "make room" if is_full else "see to the disk"
    assert caught.value.hint == f"nothing was saved yet: {remedy}, and record again"
    assert caught.value.is_full == is_full
    one.append("io", io(2))
    one.flush(manifest())
    assert one.rows == {"io": 2}
    with monkeypatch.context() as patched, pytest.raises(OutputError) as caught:
        patched.setattr(growing.StreamFile, "write", fails)
        one.append("io", io(3))
        one.flush(manifest())
    kept = "what was recorded so far is" if is_full else "what has reached the disk is"
    assert caught.value.hint == f"{kept} kept: {remedy}, then iotrace capture recover {one.path}"
    assert one.commit(manifest()).read("io")["issued_ns"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["mine.parquet", "waits.parquet", "io/mine.txt", "io/tail-00000099.arrows"])
def test_a_snapshot_leaves_out_what_somebody_else_put_there(one, tmp_path, name):
    one.append("io", io(1))
    one.flush(manifest())
    (one.folder / name).write_text("mine")
    found = GrowingRecording.snapshot(tmp_path / "s.iotrace", one.folder).commit(manifest())
    assert found.read("io")["issued_ns"].to_pylist() == [1]
    assert not list(found.path.rglob("mine*"))
    assert (one.folder / name).read_text() == "mine"


def test_a_file_in_the_place_of_its_folder_is_in_the_way(tmp_path):
    (tmp_path / "r.iotrace.unfinished").write_text("mine")
    with pytest.raises(IotraceError):
        GrowingRecording.create(tmp_path / "r.iotrace")
    assert (tmp_path / "r.iotrace.unfinished").read_text() == "mine"


def test_what_a_recovery_finds_is_kept_where_the_disk_is_full(one, monkeypatch):
    with one:
        one.append("io", io(1))
        one.flush(manifest())
    with GrowingRecording.resume(one.path, one.folder) as again:
        monkeypatch.setattr(
            growing, "sync_files", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
        )
        with pytest.raises(OutputError) as caught:
            again.commit(manifest())
    assert caught.value.hint.startswith("what was recorded so far is kept: make room")


def test_a_start_that_saved_nothing_is_in_nobodys_way(tmp_path):
    path = tmp_path / "r.iotrace"
    with GrowingRecording.create(path) as failed:
        left = {entry.name for entry in failed.folder.iterdir()}
    assert left <= {"writer.lock", "reserve"}
    with GrowingRecording.create(path) as one:
        one.append("io", io(1))
        assert one.commit(manifest()).read("io")["issued_ns"].to_pylist() == [1]


@pytest.mark.parametrize(
    "name",
    [
        "mine.parquet",
        "waits.parquet",
        "io/mine.txt",
        "io/tail-00000099.arrows",
        "io/tail-00000001.arrows",
        "io/part-00000000.parquet",
        "io/part-00000099.parquet",
        "counters/part-00000000.parquet",
    ],
)
def test_somebody_elses_file_does_not_become_a_part_of_it(one, name):
    """It is named and stays as it is; once it is gone, what was recorded can be recovered."""
    one.append("io", io(1))
    one.flush(manifest())
    foreign = one.folder / name
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("mine")
    one.seal()
    one.encode_one()
    one.append("io", io(2))
    with one, pytest.raises(IotraceError) as caught:
        one.commit(manifest())
    assert f"holds '{name}', which no recorder wrote" in caught.value.message
    assert caught.value.hint.endswith(f"move that away, then iotrace capture recover {one.path}")
    assert foreign.read_text() == "mine"
    foreign.unlink()
    if foreign.parent.name == "counters":
        foreign.parent.rmdir()
    with GrowingRecording.resume(one.path, one.folder) as again:
        assert again.commit(manifest()).read("io")["issued_ns"].to_pylist() == [1, 2]


def test_a_small_table_that_cannot_be_replaced_is_as_it_was(one, monkeypatch):
    one.replace("own", pa.table({"a": [1]}))

    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched, pytest.raises(OutputError):
        patched.setattr(pq.ParquetWriter, "write_table", fails)
        one.replace("own", pa.table({"a": [2]}))
    assert pq.read_table(one.folder / "own.parquet")["a"].to_pylist() == [1]
    assert not list(one.folder.glob(".*"))


def test_leaving_keeps_what_was_recorded_for_another_to_finish(tmp_path):
    with GrowingRecording.create(tmp_path / "r.iotrace") as first:
        for at in (1, 2):
            first.append("io", io(at))
            first.flush(manifest(f"until {at}"))
            first.seal()
        first.encode_one()
    with GrowingRecording.resume(tmp_path / "r.iotrace", first.folder) as second:
        assert second.manifest().title == "until 2"
        assert second.damaged == []
        second.append("io", io(3))
        second.flush(second.manifest())
        assert names_in(second.folder / "io")[-1] == "tail-00000002.arrows"
        done = second.commit(second.manifest())
    assert done.read("io")["issued_ns"].to_pylist() == [1, 2, 3]
    assert done.manifest.rows["io"] == 3


def test_what_was_cut_off_before_anything_was_saved_says_so(tmp_path):
    with GrowingRecording.create(tmp_path / "r.iotrace") as first:
        pass
    with GrowingRecording.resume(tmp_path / "r.iotrace", first.folder) as second:
        with pytest.raises(IotraceError) as caught:
            second.manifest()
        assert caught.value.message == f"'{tmp_path / 'r.iotrace'}' was cut off before anything was saved"
        assert caught.value.hint == f"delete '{first.folder}'"
        second.discard()


def test_a_damaged_part_is_left_out_and_told(tmp_path):
    with GrowingRecording.create(tmp_path / "r.iotrace") as first:
        for at in (1, 2):
            first.append("io", io(at))
            first.flush(manifest())
            first.seal()
        while first.encode_one():
            first.settle()
    (first.folder / "io/part-00000000.parquet").write_bytes(b"")
    with GrowingRecording.resume(tmp_path / "r.iotrace", first.folder) as second:
        assert second.damaged == ["io/part-00000000.parquet"]
        assert second.commit(manifest()).read("io")["issued_ns"].to_pylist() == [2]


def test_a_snapshot_is_of_what_there_is_and_its_source_goes_on(tmp_path):
    source = GrowingRecording.create(tmp_path / "r.iotrace")
    for at in (1, 2):
        source.append("io", io(at))
        source.flush(manifest())
        source.seal()
    source.encode_one()
    source.settle()
    source.replace("devices", TABLES["devices"].empty_table())
    (source.folder / ".hidden.json").write_text("x")
    copy = GrowingRecording.snapshot(tmp_path / "s.iotrace", source.folder)
    part = "io/part-00000000.parquet"
    assert (copy.folder / part).stat().st_ino == (source.folder / part).stat().st_ino
    tail = "io/tail-00000001.arrows"
    assert (copy.folder / tail).stat().st_ino != (source.folder / tail).stat().st_ino
    assert {"manifest.json", "devices.parquet", part, tail} <= set(names_in(copy.folder))
    assert ".hidden.json" not in names_in(copy.folder)
    assert stat.S_IMODE((copy.folder / "io").stat().st_mode) == 0o700
    assert stat.S_IMODE((copy.folder / tail).stat().st_mode) == 0o600
    source.append("io", io(3))
    source.flush(manifest())
    assert copy.commit(copy.manifest()).read("io")["issued_ns"].to_pylist() == [1, 2]
    assert source.commit(manifest()).read("io")["issued_ns"].to_pylist() == [1, 2, 3]


def test_a_snapshot_looks_again_for_what_went_while_it_was_copied(tmp_path, monkeypatch):
    """A tail that became a part meanwhile is taken as that part."""
    source = GrowingRecording.create(tmp_path / "r.iotrace")
    source.append("io", io(1))
    source.flush(manifest())
    source.seal()
    real, met = growing._copy, []

    def meanwhile(file, copy):
        if file.suffix == ".arrows" and not met:
            met.append(file)
            source.encode_one()
            source.settle()
        real(file, copy)

    monkeypatch.setattr(growing, "_copy", meanwhile)
    copy = GrowingRecording.snapshot(tmp_path / "s.iotrace", source.folder)
    assert names_in(copy.folder / "io") == ["part-00000000.parquet"]
    assert copy.commit(manifest()).read("io")["issued_ns"].to_pylist() == [1]
    source.discard()


def test_a_snapshot_that_fails_leaves_nothing(tmp_path, monkeypatch):
    source = GrowingRecording.create(tmp_path / "r.iotrace")

    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(growing, "_copy_growing", fails)
    with pytest.raises(OutputError, match="Input/output error"):
        GrowingRecording.snapshot(tmp_path / "s.iotrace", source.folder)
    source.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_cannot_be_made_because_the_file_is_gone_is_no_copy(tmp_path):
    with pytest.raises(FileNotFoundError):
        _link_or_copy(tmp_path / "gone", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("taken", [False, True])
def test_a_name_that_was_taken_meanwhile_is_not_overwritten(tmp_path, taken):
    path = tmp_path / "r.iotrace"
    with GrowingRecording.create(path) as one:
        one.append("io", io(1))
        if taken:
            path.mkdir()
            with pytest.raises(IotraceError, match="exists already"):
                one.commit(manifest())
            assert one.folder.is_dir()
        else:
            one.commit(manifest())
    assert path.is_dir()
    assert one.folder.exists() == taken


def test_what_is_discarded_leaves_no_file_and_none_open(tmp_path):
    """An open one is a warning here, and a folder that stays on Windows."""
    discarded = GrowingRecording.create(tmp_path / "r.iotrace")
    discarded.append(
        "io", pa.table({"layer": ["block"], "op": ["read"], "issued_ns": [1], "size_bytes": [512]})
    )
    discarded.flush(Manifest("captured", "growing", Clock(0, 1.0, "test")))
    discarded.discard()
    assert list(tmp_path.iterdir()) == []
    del discarded
