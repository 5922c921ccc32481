"""Targets that become something else: while they are opened, before the first write, while they are played on."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay import ReplayOptions, replay
from iotrace.replay.run import replay as run_module
from iotrace.replay.targets import fill
from iotrace.replay.targets.refusals import Permission
from iotrace.replay.targets.target import open_target
from iotrace.schemas import IotraceError, Recording

from .. import recordings
from ..recordings import SDA
from .evidence import evidence_of
from .playing_on import MIB, attached, everything, mounted, opened, overwrite, own_file, run
from .test_overwrite import write_recording

CONTENT = b"somebody's only copy\n" * 60_000


def precious(folder: Path) -> Path:
    path = folder / "prod.mdf"
    path.write_bytes(CONTENT)
    return path


def write_writes(path: Path) -> Recording:
    """Like `write_recording`, all writes."""
    io = {
        "op": "write", "issued_ns": np.arange(40) * 1_000_000, "completed_ns": np.arange(40) * 1_000_000 + 5000,
        "offset_bytes": np.arange(40) * 8192, "device_id": 0,
    }  # fmt: skip
    return recordings.write_recording(path, io, tables={"devices": SDA}, window_end_ns=40 * 1_000_000)


def relink(target: Path, other: Path) -> None:
    """The name is given to another file, which keeps its own."""
    target.unlink()
    os.link(other, target)


def exchange(target: Path, other: Path) -> None:
    other.rename(target)


def vanish(target: Path, _other: Path) -> None:
    target.unlink()


def gain_a_name(target: Path, _other: Path) -> None:
    os.link(target, target.with_name("second name"))


def become_a_database(target: Path, _other: Path) -> None:
    target.rename(target.with_name("new.mdf"))


def become_a_link(target: Path, other: Path) -> None:
    target.unlink()
    target.symlink_to(other)


def shrink(target: Path, _other: Path) -> None:
    os.truncate(target, 8192)


CHANGES = [relink, exchange, vanish, gain_a_name, become_a_database, become_a_link, shrink]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changes_before_the_first_write_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    recording, target, other = (
        write_writes(tmp_path / "w.iotrace"),
        own_file(tmp_path / "t"),
        precious(tmp_path),
    )
    real, held = run_module.schedule, os.open(target, os.O_RDONLY | os.O_PATH)

    def late(*words: object, **more: object) -> object:
        change(target, other)  # type: ignore[operator]
        return real(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(run_module, "schedule", late)
    plain = Path(f"/proc/self/fd/{held}").read_bytes()
    plan = ReplayOptions(targets=(str(target),), buffered=True)
    with pytest.raises(IotraceError, match="is not written") as caught:
        replay(recording, tmp_path / "out.iotrace", plan)
    assert f"'{target}'" in caught.value.message
    after = Path(f"/proc/self/fd/{held}").read_bytes()
    assert plain.startswith(after)
    assert not (tmp_path / "out.iotrace").exists()
    os.close(held)
    if other.exists():
        assert other.read_bytes() == CONTENT


@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: change.__name__)
def test_what_changes_while_it_is_played_on_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    recording, target, other = (
        write_writes(tmp_path / "w.iotrace"),
        own_file(tmp_path / "t"),
        precious(tmp_path),
    )
    real = run_module.play

    def played(*words: object, **more: object) -> object:
        done = real(*words, **more)  # type: ignore[arg-type]
        change(target, other)  # type: ignore[operator]
        return done

    monkeypatch.setattr(run_module, "play", played)
    out = replay(recording, tmp_path / "out.iotrace", ReplayOptions(targets=(str(target),), buffered=True))
    assert any("was changed while it was played on" in note for note in out.manifest.quality.notes)
    for path in tmp_path.iterdir():
        if path.is_file() and path.read_bytes() == CONTENT:
            break
    else:
        pytest.fail("the precious content is gone")
    # What became of it is no file of iotrace's own.
    if target.exists() and not target.is_symlink():
        with pytest.raises(IotraceError):
            opened(target, Permission())


def test_a_replay_says_nothing_where_nothing_changed(tmp_path: Path) -> None:
    recording, target = write_writes(tmp_path / "w.iotrace"), own_file(tmp_path / "t")
    out = replay(recording, tmp_path / "out.iotrace", ReplayOptions(targets=(str(target),), buffered=True))
    assert not any("changed" in note for note in out.manifest.quality.notes)
    opened(target, Permission()).close()


@pytest.mark.root
@pytest.mark.xdist_group("root")
def test_a_loop_device_laid_on_it_before_the_first_write(tmp_path: Path) -> None:
    path = own_file(tmp_path / "t")
    target = opened(path, Permission())
    before = evidence_of(path)
    with attached(path), pytest.raises(IotraceError, match="became the disk behind the loop device"):
        overwrite(target)
    assert evidence_of(path) == before
    target.close()


SWAPPER = """
import os, sys, time
folder, seconds = sys.argv[1], float(sys.argv[2])
os.chdir(folder)
print("ready", flush=True)
end = time.time() + seconds
while time.time() < end:
    os.link("prod.mdf", "next"); os.rename("next", "t")
    os.unlink("t")
    os.link("own", "next"); os.rename("next", "t")
    os.unlink("t")
    os.symlink("prod.mdf", "next"); os.rename("next", "t")
    os.rename("own", "t"); os.rename("t", "own")
"""


@pytest.mark.slow
@pytest.mark.parametrize("allow_writes", [False, True])
def test_a_name_that_changes_thousands_of_times_a_second(tmp_path: Path, allow_writes: bool) -> None:
    """Between an own file, a hard link to a database and a symbolic one, while it is opened and written."""
    other = precious(tmp_path)
    own_file(tmp_path / "own")
    words = [sys.executable, "-c", SWAPPER, str(tmp_path), "6"]
    tries = written = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while process.poll() is None:
            tries += 1
            try:
                target = open_target(
                    str(tmp_path / "t"), writes=True, permission=Permission(allow_writes=allow_writes), direct=False,
                    needed_bytes=4096,
                )  # fmt: skip
            except IotraceError:
                continue
            try:
                overwrite(target)
                written += 1
            except IotraceError:
                pass
            target.close()
    assert tries
    assert other.read_bytes() == CONTENT


@pytest.mark.root
@pytest.mark.xdist_group("root")
def test_a_device_whose_name_leads_elsewhere_before_the_first_write(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_bytes(bytes(8 * MIB))
    with attached(tmp_path / "one") as one, attached(tmp_path / "other") as other:
        node = tmp_path / "disk"
        os.mknod(node, 0o600 | 0o060000, Path(one).stat().st_rdev)
        target = opened(node, everything(node))
        node.unlink()
        os.mknod(node, 0o600 | 0o060000, Path(other).stat().st_rdev)
        with pytest.raises(IotraceError, match="now belongs to another device"):
            overwrite(target)
        target.close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes() == bytes(8 * MIB)


# ---- own files that are not any more ---------------------------------------------------------------------------------


def restored(path: Path, before: os.stat_result) -> None:
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def reformat(program: str, *words: str) -> object:
    def act(path: Path, _folder: Path) -> None:
        run(program, *words, path)

    return act


def mount_and_use(path: Path, folder: Path) -> None:
    with attached(path) as device:
        run("mkfs.ext4", "-q", "-F", device)
        with mounted(device, folder / "mount") as place:
            (place / "precious").write_bytes(CONTENT[:100_000])


def write_at(offset: int, content: bytes) -> object:
    def act(path: Path, _folder: Path) -> None:
        with path.open("r+b") as file:
            file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
            file.write(content)

    return act


def write_mapped(path: Path, _folder: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[5 * MIB : 5 * MIB + 5] = b"notes"


def restore_from_a_copy(path: Path, folder: Path) -> None:
    (folder / "copy").write_bytes(path.read_bytes()[::-1])
    with path.open("r+b") as file:
        file.write((folder / "copy").read_bytes())


MISUSES = {
    "ext4": reformat("mkfs.ext4", "-q", "-F"),
    "xfs": reformat("mkfs.xfs", "-q", "-f"),
    "vfat": reformat("mkfs.vfat"),
    "swap": reformat("mkswap"),
    "mounted and used": mount_and_use,
    "page in the middle": write_at(7 * MIB + 12345, b"ten years of work"),
    "one byte": write_at(3 * MIB + 1, b"x"),
    "boot page": write_at(9 * 8192, b"\1\r" + bytes(94)),
    "end": write_at(-600, b"conectix"),
    "mapped": write_mapped,
    "restored": restore_from_a_copy,
}


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.xdist_group("root")
@pytest.mark.parametrize("misuse", MISUSES)
def test_an_own_file_that_was_used_for_something_with_its_old_time(tmp_path: Path, misuse: str) -> None:
    path = tmp_path / "own"
    open_target(
        str(path),
        writes=True,
        permission=Permission(),
        direct=False,
        needed_bytes=320 * MIB if misuse == "xfs" else 16 * MIB,
    ).close()
    before = path.stat()
    time.sleep(1.1)  # what is done within a second of the marking is told by the content alone
    MISUSES[misuse](path, tmp_path)  # type: ignore[operator]
    restored(path, before)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    told = evidence_of(path)
    for needed_bytes in (4096, 400 * MIB):
        with pytest.raises(IotraceError, match="is not written"):
            open_target(
                str(path), writes=True, permission=Permission(), direct=False, needed_bytes=needed_bytes
            )
    assert evidence_of(path) == told


@pytest.mark.parametrize("misuse", ["ext4", "boot page", "swap", "end"])
def test_the_same_at_once_with_the_clock_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, misuse: str
) -> None:
    """The content tells where no time does."""
    path = own_file(tmp_path / "own")
    before = path.stat()
    monkeypatch.setattr(fill, "_MARK_NS_MAX", 1 << 62)
    MISUSES[misuse](path, tmp_path)  # type: ignore[operator]
    restored(path, before)
    told = evidence_of(path)
    with pytest.raises(IotraceError, match="is not written"):
        opened(path, Permission())
    assert evidence_of(path) == told


def test_what_it_became_while_it_was_played_on_is_not_marked_again(tmp_path: Path) -> None:
    path = own_file(tmp_path / "own")
    target = opened(path, Permission())
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], capture_output=True, check=True)
    target.close()
    with pytest.raises(IotraceError, match="it holds an ext2/3/4 file system"):
        opened(path, Permission())


def test_reading_needs_none_of_this(tmp_path: Path) -> None:
    """A file that everybody uses can still be read from."""
    other, recording = precious(tmp_path), write_recording(tmp_path / "r.iotrace", 20)
    os.link(other, tmp_path / "second")
    with other.open("rb"):
        plan = ReplayOptions(targets=(str(other),), reads_only=True, buffered=True, addresses="fold")
        assert replay(recording, tmp_path / "out.iotrace", plan).manifest.rows["io"] == 20
    assert other.read_bytes() == CONTENT
