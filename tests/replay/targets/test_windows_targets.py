"""Which files a replay on Windows makes, takes for its own, and leaves alone; on a stand-in for Windows' own calls."""

import importlib
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from iotrace.replay.targets.fill import Fill
from iotrace.replay.targets.refusals import Permission
from iotrace.schemas import IotraceError

from .windows_stand_in import WindowsFiles

KIB = 1024
SIZE = 64 * KIB
MARK = ".iotrace-mark"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> WindowsFiles:
    stand_in = WindowsFiles()
    monkeypatch.setitem(sys.modules, "iotrace.replay.targets.windows_files", stand_in)
    monkeypatch.setattr("iotrace.replay.targets.windows_files", stand_in, raising=False)
    return stand_in


@pytest.fixture
def targets(files: WindowsFiles, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`windows_targets`, imported as on Windows."""
    monkeypatch.delitem(sys.modules, "iotrace.replay.targets.windows_targets", raising=False)
    with monkeypatch.context() as windows:
        windows.setattr(sys, "platform", "win32")
        found = importlib.import_module("iotrace.replay.targets.windows_targets")
    monkeypatch.delitem(sys.modules, "iotrace.replay.targets.windows_targets")
    monkeypatch.setattr(found, "_attributes", lambda _found: files.attributes)
    return found


def play_on(
    targets: ModuleType,
    path: Path,
    *,
    writes: bool = True,
    needed_bytes: int = SIZE,
    fill_with: Fill = Fill(),  # noqa: B008 - frozen
    **allowed: bool,
) -> bytes:
    """Open and close a target, writing to it in between; what it held."""
    target = targets.open_target(
        str(path),
        writes=writes,
        permission=Permission(**allowed),
        direct=True,
        needed_bytes=needed_bytes,
        fill_with=fill_with,
    )
    assert (target.bytes, target.block_bytes, target.writable) == (path.stat().st_size, 512, writes)
    held = path.read_bytes()
    if writes:
        os.pwrite(target.file, b"played", 0)
    target.close()
    return held


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(targets: ModuleType, path: Path, words: str, **more: bool) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(IotraceError, match=words) as caught:
        play_on(targets, path, **more)
    assert caught.value.hint
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_file_is_made_filled_marked_and_taken_for_its_own_again(
    targets: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "target"
    made = play_on(targets, path)
    assert len(made) == SIZE
    assert len(set(made)) == 256
    assert names(tmp_path) == ["target", "target" + MARK]
    assert play_on(targets, path) == b"played" + made[6:]


@pytest.mark.parametrize("more", [{"needed_bytes": 2 * SIZE}, {"fill_with": Fill(compressible=2.0)}], ids=str)
def test_its_own_file_is_made_anew_where_it_does_not_do(
    targets: ModuleType, tmp_path: Path, more: dict[str, int]
) -> None:
    path = tmp_path / "target"
    first = play_on(targets, path)
    assert play_on(targets, path, **more)[6:SIZE] != first[6:]  # type: ignore[arg-type]
    assert play_on(targets, path, **more)[:6] == b"played"  # type: ignore[arg-type]


def test_a_foreign_file_is_read_and_written_only_when_allowed(targets: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(b"x" * SIZE)
    assert play_on(targets, path, writes=False) == b"x" * SIZE
    refused(targets, path, "was not made by iotrace")
    assert play_on(targets, path, allow_writes=True) == b"x" * SIZE
    # What was allowed once does not make it iotrace's own.
    refused(targets, path, "was not made by iotrace")


def test_a_file_that_somebody_wrote_to_is_no_longer_its_own(targets: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "target"
    play_on(targets, path)
    with path.open("r+b") as file:
        file.write(b"precious")
    os.utime(path, ns=(1, 1))
    refused(targets, path, "was changed since iotrace made it")


def test_a_copy_with_its_mark_is_not_its_own(targets: ModuleType, tmp_path: Path) -> None:
    path, copy = tmp_path / "target", tmp_path / "copy"
    play_on(targets, path)
    shutil.copy2(path, copy)
    shutil.copy2(f"{path}{MARK}", f"{copy}{MARK}")
    refused(targets, copy, "was changed since iotrace made it")


def test_a_file_of_two_names_is_not_written_even_when_allowed(targets: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "target"
    play_on(targets, path)
    os.link(path, tmp_path / "other name")
    refused(targets, path, "one of 2 names", allow_writes=True)
    refused(targets, path, "one of 2 names", needed_bytes=2 * SIZE)


def test_a_file_open_elsewhere_is_not_written(
    targets: ModuleType, files: WindowsFiles, tmp_path: Path
) -> None:
    path = tmp_path / "target"
    play_on(targets, path)
    files.open_elsewhere.add(path)
    refused(targets, path, "is in use: another program or replay has it open", allow_writes=True)


def test_a_file_that_another_replay_plays_on_is_neither_written_nor_made_anew(
    targets: ModuleType, files: WindowsFiles, tmp_path: Path
) -> None:
    path = tmp_path / "target"
    play_on(targets, path)
    found = path.stat()
    files.locked.add((found.st_dev, found.st_ino))
    refused(targets, path, "in use by another replay")
    refused(targets, path, "in use by another replay", needed_bytes=2 * SIZE)


def test_names_of_databases_are_neither_made_nor_written_behind_another_name(
    targets: ModuleType, files: WindowsFiles, tmp_path: Path
) -> None:
    refused(targets, tmp_path / "sales.MDF", "named like a database file")
    assert names(tmp_path) == []
    path = tmp_path / "harmless"
    path.write_bytes(b"x" * SIZE)
    files.real_name = tmp_path / "sales.ldf"
    refused(targets, path, "named like a database file")


@pytest.mark.parametrize(
    ("attributes", "words"), [(0x400, "reparse point"), (0x800, "compressed"), (0x200, "sparse")]
)
def test_attributes_are_looked_at_on_the_open_file(
    targets: ModuleType, files: WindowsFiles, tmp_path: Path, attributes: int, words: str
) -> None:
    path = tmp_path / "target"
    play_on(targets, path)
    files.attributes = attributes
    refused(targets, path, words)


def test_a_place_that_keeps_no_marks_is_refused_before_anything_is_made(
    targets: ModuleType, files: WindowsFiles, tmp_path: Path
) -> None:
    files.filesystem = "exFAT"
    refused(targets, tmp_path / "target", "exFAT")
    assert names(tmp_path) == []


def test_a_file_that_is_not_allocated_in_full_leaves_nothing(
    targets: ModuleType, files: WindowsFiles, tmp_path: Path
) -> None:
    files.missing_bytes = 4096
    refused(targets, tmp_path / "target", "only 61,440 of 65,536 bytes are allocated")
    assert names(tmp_path) == []


def test_somebody_elses_file_where_the_mark_would_go_stays(targets: ModuleType, tmp_path: Path) -> None:
    (tmp_path / f"target{MARK}").write_text("mine")
    refused(targets, tmp_path / "target", "which is not iotrace's")
    assert names(tmp_path) == [f"target{MARK}"]
    assert (tmp_path / f"target{MARK}").read_text() == "mine"


def test_no_room_is_said_before_anything_is_written(
    targets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets.shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(100, 90, 10))
    refused(targets, tmp_path / "target", "no room .*: it needs 65,536 bytes, 10 are free")
    assert names(tmp_path) == []


def test_folders_and_links_that_lead_nowhere_are_refused(targets: ModuleType, tmp_path: Path) -> None:
    refused(targets, tmp_path, "is a folder")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    refused(targets, tmp_path / "link", "to nothing")
    empty = tmp_path / "empty"
    empty.touch()
    refused(targets, empty, "is empty", allow_writes=True)
