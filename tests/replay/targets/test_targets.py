"""Attempts to make a replay destroy what it must not, one rule at a time."""

import errno
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from iotrace.replay.targets import block_device, fill, target
from iotrace.replay.targets.refusals import Permission
from iotrace.replay.targets.target import Target, check_target, open_target
from iotrace.schemas import IotraceError

MIB = 1 << 20
CONTENT = b"somebody's only copy\n" * 1000


def asked(path: Path | str, options: dict[str, Any]) -> dict[str, Any]:
    """Through the cache: these rules do not depend on it."""
    given = {"writes": True, "permission": Permission(), "direct": False, "needed_bytes": MIB}
    return {"name": str(path)} | given | options


def opened(path: Path | str, **options: object) -> Target:
    """What can be opened is not refused beforehand, and is left as it is by asking."""
    before = Path(path).exists()
    check_target(**asked(path, options))
    assert Path(path).exists() == before
    return open_target(**asked(path, options))


def refused(path: Path | str, message: str, *, is_foretold: bool = True, **options: object) -> IotraceError:
    with pytest.raises(IotraceError, match=message) as caught:
        open_target(**asked(path, options))
    if is_foretold:
        with pytest.raises(IotraceError) as foretold:
            check_target(**asked(path, options))
        assert (foretold.value.message, foretold.value.hint) == (caught.value.message, caught.value.hint)
    assert f"'{path}'" in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file that iotrace made."""
    path = tmp_path / "own"
    opened(path).close()
    return path


def test_a_new_file_is_made_filled_and_allocated(tmp_path: Path) -> None:
    target = opened(tmp_path / "new", needed_bytes=3 * MIB + 1)
    found = os.fstat(target.file)
    assert found.st_size == 3 * MIB + 4096
    assert found.st_blocks * 512 >= found.st_size
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert target.filled
    target.close()
    content = (tmp_path / "new").read_bytes()
    assert all(len(set(content[at : at + 4096])) > 200 for at in range(0, len(content), 4096))
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def test_the_smallest_file_holds_a_block_of_any_disk(tmp_path: Path) -> None:
    """A disk's block has 4 KiB at most, so that there is one to play on."""
    with closing(opened(tmp_path / "t", writes=True, needed_bytes=1)) as target:
        assert target.bytes == 4096


def test_an_own_file_is_used_again_as_it_is(own: Path) -> None:
    before = own.stat().st_ino, own.read_bytes()
    target = opened(own)
    assert target.filled
    os.pwrite(target.file, b"replayed", 4096)
    target.close()
    opened(own).close()
    assert own.stat().st_ino == before[0]
    assert own.read_bytes() == before[1][:4096] + b"replayed" + before[1][4104:]


def test_an_own_file_that_is_too_small_is_made_anew(own: Path) -> None:
    opened(own, needed_bytes=2 * MIB).close()
    assert own.stat().st_size == 2 * MIB
    opened(own, file_bytes=3 * MIB).close()
    assert own.stat().st_size == 3 * MIB


@pytest.mark.parametrize("content", [CONTENT, b""], ids=["full", "empty"])
def test_a_foreign_file_is_not_written(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    refused(path, "was not made by iotrace, and is not written")
    assert path.read_bytes() == content


def test_a_foreign_file_is_written_with_permission_and_never_resized(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(CONTENT)
    target = opened(path, permission=Permission(allow_writes=True))
    assert not target.filled
    target.close()
    assert path.read_bytes() == CONTENT


def test_a_foreign_file_is_read_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "production.mdf"
    path.write_bytes(CONTENT)
    target = opened(path, writes=False)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(target.file, b"x", 0)
    target.close()
    assert path.read_bytes() == CONTENT


def test_a_copy_of_an_own_file_is_foreign_even_with_its_attributes(own: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copy2(own, copy)
    assert os.getxattr(copy, fill.MARK) == os.getxattr(own, fill.MARK)
    refused(copy, "was changed since iotrace made it")


def test_a_file_moved_over_an_own_one_is_foreign(own: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(bytes(MIB))
    other.replace(own)
    refused(own, "was not made by iotrace")


@pytest.mark.parametrize("size", [MIB, MIB - 1, 2 * MIB])
def test_an_own_file_that_somebody_wrote_to_is_foreign(own: Path, size: int) -> None:
    """As `cp precious own` does: same inode, same attributes, another's data."""
    with own.open("wb") as file:
        file.write(b"p" * size)
    refused(own, "was changed since iotrace made it")
    refused(own, "was changed since iotrace made it", needed_bytes=10 * MIB)
    assert own.read_bytes() == b"p" * size


def test_a_forged_mark_does_not_help_another_file(own: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(bytes(MIB))
    os.setxattr(foreign, fill.MARK, b"[]")
    refused(foreign, "was changed since")
    os.setxattr(foreign, fill.MARK, b"\xff{")
    refused(foreign, "was changed since")


def test_a_symbolic_link_is_not_written_wherever_it_leads(own: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(own)
    refused(link, "is a symbolic link, and is not written")
    refused(link, "is a symbolic link, and is not written", permission=Permission(allow_writes=True))
    opened(link, writes=False).close()


def test_a_dangling_link_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused(tmp_path / "link", "is a symbolic link to nothing")
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_of_two_names_is_not_written(own: Path, tmp_path: Path) -> None:
    (tmp_path / "second").hardlink_to(own)
    refused(own, "is one of 2 names of the same file")
    refused(own, "is one of 2 names of the same file", permission=Permission(allow_writes=True))


@pytest.mark.parametrize(
    "suffix", [".mdf", ".NDF", ".ldf", ".ibd", ".MYD", ".MAD", ".MAI", "-aria_log_control", ".DBF", ".wt"]
)
def test_a_database_file_is_neither_made_nor_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"sales{suffix}"
    for permission in (Permission(), Permission(allow_writes=True)):
        refused(path, "is named like a database file", permission=permission)
        assert not path.exists()
    path.write_bytes(CONTENT)
    for permission in (Permission(), Permission(allow_writes=True)):
        refused(path, "is named like a database file", permission=permission)
    assert path.read_bytes() == CONTENT


def test_a_folder(tmp_path: Path) -> None:
    refused(tmp_path, "is a folder")


def test_a_missing_folder(tmp_path: Path) -> None:
    error = refused(tmp_path / "no" / "target", "lies in a folder that does not exist")
    assert error.hint == f"mkdir -p {tmp_path / 'no'}"


def test_below_a_file(own: Path) -> None:
    refused(own / "target", "cannot be opened: Not a directory")


def test_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is neither a file nor a block device")


def test_an_empty_file_cannot_be_read_from(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", "is empty", writes=False)


def test_a_file_another_replay_writes_to(own: Path) -> None:
    first = opened(own)
    refused(own, "is in use by another replay")
    refused(own, "is in use by another replay", needed_bytes=2 * MIB)
    first.close()
    opened(own).close()


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    error = refused(tmp_path / "new", "no room for target", is_foretold=False, needed_bytes=5 * MIB)
    assert "it needs 5,242,880 bytes" in error.message
    assert list(tmp_path.iterdir()) == []


def test_a_target_without_room_takes_none_of_what_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Allocation takes all there is before it fails, so it is not even tried."""

    def take(*_: object) -> None:
        raise AssertionError("allocated")

    monkeypatch.setattr(os, "posix_fallocate", take)
    there = os.statvfs(tmp_path)
    free = there.f_bavail * there.f_frsize
    error = refused(tmp_path / "new", "no room for target", needed_bytes=free + (8 << 30))
    figure = re.search(r"([\d,]+) are free", error.message)
    assert figure
    assert int(figure[1].replace(",", "")) == pytest.approx(free, abs=4 << 30)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_keeps_no_marks_is_refused_before_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    monkeypatch.setattr(fill, "_write", unsupported)
    error = refused(tmp_path / "new", "without extended attributes")
    assert "--allow-writes" in error.hint
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_keeps_no_marks_can_be_read_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    opened(tmp_path / "new", writes=False).close()
    opened(tmp_path / "new", permission=Permission(allow_writes=True)).close()


@pytest.mark.parametrize("nameless", [True, False], ids=["nameless", "hidden name"])
@pytest.mark.parametrize("failing", ["the storage", "the user"])
def test_a_failure_while_filling_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, *, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(os, "O_TMPFILE", 1 << 30)  # no such flag: what a file system without it answers
        _refuse_flag(monkeypatch, 1 << 30)

    done_bytes = 0
    really_write = os.write

    def stop(done: int, total: int) -> None:
        nonlocal done_bytes
        done_bytes = done
        if done >= 8 * MIB and failing == "the user":
            raise KeyboardInterrupt

    def write(file: int, data: memoryview) -> int:
        if done_bytes >= 8 * MIB and failing == "the storage":
            raise OSError(errno.EIO, "Input/output error")
        return really_write(file, data)

    monkeypatch.setattr(os, "write", write)
    expected = KeyboardInterrupt if failing == "the user" else IotraceError
    with pytest.raises(expected):
        fill.create(tmp_path / "new", 32 * MIB, direct=False, seed=0, progress=stop)
    assert done_bytes == 8 * MIB
    assert list(tmp_path.iterdir()) == []


def test_filling_without_nameless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", 1 << 30)
    _refuse_flag(monkeypatch, 1 << 30)
    opened(tmp_path / "new").close()
    opened(tmp_path / "new").close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def _refuse_flag(monkeypatch: pytest.MonkeyPatch, flag: int) -> None:
    real = os.open

    def open_(path: object, flags: int, *rest: object, **more: object) -> int:
        if flags & flag:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_)


def test_something_that_turns_up_while_filling_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new"

    def race(done: int, total: int) -> None:
        path.write_bytes(CONTENT)

    with pytest.raises(IotraceError, match="exists already"):
        fill.create(path, MIB, direct=False, seed=0, progress=race)
    assert path.read_bytes() == CONTENT


def test_a_limit_on_the_size_of_files_is_named_not_the_disk(tmp_path: Path) -> None:
    """As `ulimit -f` sets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, hard))
    try:
        error = refused(tmp_path / "new", "no room for target", needed_bytes=2 * MIB)
        opened(tmp_path / "small", needed_bytes=MIB).close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.message.endswith(
        "it needs 2,097,152 bytes, and a file may have 1,048,576 at most (ulimit -f)"
    )
    assert "ulimit -f unlimited" in error.hint
    assert [one.name for one in tmp_path.iterdir()] == ["small"]


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EDQUOT])
def test_a_limit_that_turns_up_while_filling_is_named_as_the_system_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The greatest file of a file system, or a quota: there is room on the disk."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    error = refused(tmp_path / "new", "no room for target", is_foretold=False, needed_bytes=5 * MIB)
    assert error.message.endswith(f"it needs 5,242,880 bytes, and the system says: {os.strerror(number)}")
    assert list(tmp_path.iterdir()) == []


def test_memory_is_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Path("/dev/shm")
    if block_device.filesystem_of(memory) != "tmpfs":
        pytest.skip("no tmpfs at /dev/shm")
    path = memory / f"iotrace-test-{os.getpid()}"
    with pytest.raises(IotraceError, match="lies on tmpfs, which keeps its files in memory") as caught:
        open_target(str(path), writes=True, permission=Permission(), direct=True, needed_bytes=4096)
    assert "--buffered" in caught.value.hint
    assert not path.exists()


@pytest.fixture
def spare_device(tmp_path: Path) -> Iterator[Path]:
    """An empty block device that nobody uses."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("losetup") is None:
        pytest.skip("loop devices need root and losetup")
    image = tmp_path / "spare.img"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop device to be had: {made.stderr.strip()}")
    yield Path(made.stdout.strip())
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


@pytest.mark.parametrize(
    ("permission", "message"),
    [
        (Permission(), "is a device and the replay writes"),
        (Permission(destroy_data=("DEVICE",)), "is a device and the replay writes"),
        (Permission(allow_writes=True), "is a device whose data you have not given up by name"),
        (Permission(allow_writes=True, destroy_data=("/dev/another",)), "you have not given up by name"),
    ],
)
def test_a_device_needs_both_permissions(permission: Permission, message: str, spare_device: Path) -> None:
    device = spare_device
    named = Permission(
        permission.allow_writes,
        tuple(name.replace("DEVICE", str(device)) for name in permission.destroy_data),
    )
    refused(device, message, permission=named)


def test_a_device_given_up_by_name_is_opened_and_one_that_is_only_read_needs_no_permission(
    spare_device: Path,
) -> None:
    given_up = Permission(allow_writes=True, destroy_data=(str(spare_device),))
    for writes, permission in ((True, given_up), (False, Permission())):
        with closing(opened(spare_device, writes=writes, permission=permission)) as target:
            assert (target.kind, target.bytes, target.writable) == ("disk", 16 << 20, writes)
            assert not target.filled


def test_the_disk_of_the_root_file_system_is_never_written() -> None:
    number = Path("/").stat().st_dev
    name = block_device.facts(number).name
    path = Path("/dev") / name
    if not name or not path.is_block_device():
        pytest.skip("the root file system lies on no device that can be named")
    everything = Permission(allow_writes=True, destroy_data=(str(path),))
    refused(path, "is mounted on /", permission=everything)


def test_a_link_to_a_device_is_not_written(tmp_path: Path, spare_device: Path) -> None:
    link = tmp_path / "disk"
    link.symlink_to(spare_device)
    refused(link, "is a symbolic link", permission=Permission(allow_writes=True, destroy_data=(str(link),)))


@pytest.mark.parametrize("taken_bytes", [512, 8192, 65536])
def test_a_disk_that_takes_larger_blocks_only_is_asked_for_those(
    own: Path, monkeypatch: pytest.MonkeyPatch, taken_bytes: int
) -> None:
    def preadv(_file: int, buffers: list[memoryview], _offset: int) -> int:
        if len(buffers[0]) < taken_bytes:
            raise OSError(errno.EINVAL, "Invalid argument")
        return len(buffers[0])

    monkeypatch.setattr(os, "preadv", preadv)
    with own.open("rb") as file:
        assert target._probe(file.fileno(), "own", 512, MIB, direct=True) == taken_bytes


@pytest.mark.parametrize(("direct", "taken_bytes"), [(True, 131072), (False, 8192)])
def test_a_disk_that_takes_no_block_of_ours_is_refused_with_its_name(
    own: Path, monkeypatch: pytest.MonkeyPatch, direct: bool, taken_bytes: int
) -> None:
    """The page cache takes blocks of any size: an error there is no matter of their size."""
    asked = []

    def preadv(_file: int, buffers: list[memoryview], _offset: int) -> int:
        asked.append(len(buffers[0]))
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "preadv", preadv)
    with own.open("rb") as file, pytest.raises(IotraceError, match="'own'"):
        target._probe(file.fileno(), "own", 512, MIB, direct=direct)
    assert asked[-1] == taken_bytes // 2 if direct else asked == [512]
