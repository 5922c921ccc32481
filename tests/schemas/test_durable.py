"""What is said to be written was forced to the disk first: content, then its name, then the name's folder."""

import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.schemas import Clock, Kind, Manifest, RecordingWriter, SweepWriter, durable, partials

from ..recordings import write_recording

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows cannot open a folder for syncing")


@pytest.fixture
def calls(monkeypatch):
    """What was synced and renamed, in order: ("sync" | "rename", path)."""
    seen = []
    fsync, rename = os.fsync, os.rename

    def noting_fsync(handle):
        seen.append(("sync", str(Path(f"/proc/self/fd/{handle}").readlink())))
        fsync(handle)

    def noting_rename(source, target, **options):
        seen.append(("rename", os.fspath(source), os.fspath(target)))
        rename(source, target, **options)

    def noting_replace(source, target, **options):
        noting_rename(source, target, **options)

    exchanging = partials._rename

    def noting_renameat2(source, target, flags):
        seen.append(("rename", os.fspath(source), os.fspath(target)))
        return exchanging(source, target, flags)

    monkeypatch.setattr(partials, "_rename", noting_renameat2)
    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "rename", noting_rename)
    monkeypatch.setattr(os, "replace", noting_replace)
    return seen


def index(calls, kind, path):
    return max(number for number, call in enumerate(calls) if call[0] == kind and call[1] == str(path))


def test_replaced_text_is_on_the_disk_before_its_name(calls, tmp_path):
    path = tmp_path / "small.json"
    durable.replace_text(path, "new")
    new = next(call[1] for call in calls if call[0] == "rename")
    assert index(calls, "sync", new) < index(calls, "rename", new) < index(calls, "sync", tmp_path)
    assert path.read_text("utf-8") == "new"


def test_a_failed_replacement_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "small.json"
    path.write_text("old", "utf-8")

    def refuse(_handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output"):
        durable.replace_text(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["small.json"]
    assert path.read_text("utf-8") == "old"


def test_every_file_of_a_recording_is_on_the_disk_before_its_name(calls, tmp_path):
    recording = write_recording(tmp_path / "new" / "deep" / "r.iotrace")
    moved = next(
        number for number, call in enumerate(calls) if call[0] == "rename" and call[2] == str(recording.path)
    )
    partial = calls[moved][1]
    synced = {call[1] for call in calls[:moved] if call[0] == "sync"}
    assert {f"{partial}/{file.name}" for file in recording.path.iterdir()} | {partial} <= synced
    assert index(calls, "sync", recording.path.parent) > moved
    # Folders that were made on the way: each one's name lies in the one above it.
    assert {str(tmp_path), str(tmp_path / "new")} <= synced


def test_a_step_is_noted_on_the_disk(calls, tmp_path):
    with SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None) as writer:
        writer.add(1.0, write_recording(writer.step_path(1.0)))
        index_path = tmp_path / "s.iotrace" / "sweep.json"
        renames = [n for n, call in enumerate(calls) if call[0] == "rename" and call[2] == str(index_path)]
        new = calls[renames[-1]][1]
        assert index(calls, "sync", new) < renames[-1] < index(calls, "sync", tmp_path / "s.iotrace")


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_what_holds_recordings_is_its_owners_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None) as writer:
            with RecordingWriter(writer.step_path(1.0)) as one:
                one.append("processes", pa.table({"process_id": [0], "os_process_id": [1]}))
                one.append("extra", pa.table({"n": [1]}))
                recording = one.commit(Manifest(Kind.CAPTURED, "t", Clock(0, 1.0, "planted")))
            writer.add(1.0, recording)
    finally:
        os.umask(before)
    modes = {
        entry.relative_to(tmp_path): stat.S_IMODE(entry.lstat().st_mode) for entry in tmp_path.rglob("*")
    }
    assert len(modes) > 8
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_file()} == {0o600}
