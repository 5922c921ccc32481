"""Who else uses a file or device that a replay is to write: loop devices, swap, mounts, open files, locks.

What is found is said in words that follow "is not written: ". Where the system does not let us look, that is said, too,
and counts as a use.
"""

import errno
import os
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from . import block_device
from .signatures import signature_of

if sys.platform != "win32":
    import fcntl

_LOOP_GET_STATUS64: Final = 0x4C05
_LOOP_INFO: Final = struct.Struct("=QQQ208x")
"""linux/loop.h: struct loop_info64, of which file system, inode and, of a device, number of what is behind."""
_FLOCK: Final = struct.Struct("@hhqqi4x")
"""fcntl.h: struct flock."""
_TRIES: Final = 10
_TRY_SECONDS: Final = 0.1
"""Indexers, virus scanners and udev open files for a moment."""
_CANNOT_TELL: Final = "who else has it open cannot be found out here"

_SYSTEMS_OWN: Final = frozenset({
    "autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
    "efivarfs", "functionfs", "fusectl", "mqueue", "nfsd", "nsfs", "proc", "pstore", "resctrl",
    "rpc_pipefs", "securityfs", "selinuxfs", "smackfs", "sysfs", "tracefs",
})  # fmt: skip
"""File systems in which writing to a file sets or starts something."""
_LAYERED: Final = frozenset({"aufs", "overlay"})


def use_of_file(file: int) -> str | None:
    """Why the open file must not be written, in words, or None.

    What can be locked is locked then, until it is closed.
    """
    found = os.fstat(file)
    if (kind := block_device.filesystem_with(found.st_dev)) in _SYSTEMS_OWN:
        return f"it is not data but a system setting ({kind})"
    if device := _loop_on(found):
        return f"it is the disk behind the loop device {device}"
    if _is_swap(found):
        return "it is swap space in use"
    if point := _mount_of(found):
        return f"it is mounted on {point} as a file"
    return _lock(file) or _other_opener(file, found)


def unseen_use_of_file(file: int) -> str | None:
    """Why nobody can tell who uses the open file, in words, or None."""
    kind = block_device.filesystem_with(os.fstat(file).st_dev)
    if kind in _LAYERED:
        return f"it lies on {kind}, where programs that use the layers below cannot be seen"
    return None


def use_of_device(number: int, path: Path) -> str | None:
    """Why the block device must not be written, in words, or None.

    Asks `standing_use` first.
    """
    if reason := standing_use(number) or _use_below(number):
        return reason
    for _ in range(_TRIES):
        if (reason := _writer(path.stat(), "it")) is None:
            return None
        time.sleep(_TRY_SECONDS)
    return reason


def standing_use(number: int) -> str | None:
    """What the system itself does with the block device, in words, or None: mounts, swap, holders, loop devices."""
    if reason := block_device.use(number):
        return reason
    behind = {backing.number: name for name, backing in _loop_devices() if backing.number}
    for part, label in block_device.overlapping(number):
        if name := behind.get(block_device.number_of(part) or 0):
            return f"{label} is the disk behind the loop device {name}"
    return None


def _writer(found: os.stat_result, what: str) -> str | None:
    openers = _openers(found, writers_only=True)
    if openers is None:
        return f"{_CANNOT_TELL}: that takes root"
    return f"{openers[0]} has {what} open for writing" if openers else None


def loop_on(file: int) -> str | None:
    """The loop device whose disk the open file is, if any."""
    return _loop_on(os.fstat(file))


def _use_below(number: int, depth: int = 0) -> str | None:
    """What a loop device, or a device built on one, lies on may be used by another way."""
    folder = block_device.folder_of(number)
    disk = folder.parent if (folder / "partition").exists() else folder
    if depth < 8:
        for slave in sorted((disk / "slaves").glob("*")):
            below = block_device.number_of(slave)
            if below and (reason := _use_below(below, depth + 1)):
                return f"what it is built on, {slave.name}: {reason}"
    return _use_behind(disk, depth) if (disk / "loop").is_dir() else None


def _use_behind(disk: Path, depth: int) -> str | None:
    """The same of the file or device behind a loop device."""
    backing = block_device.word(disk / "loop/backing_file") or "?"
    try:
        found = Path(backing).stat()
    except OSError as problem:
        return f"the disk behind it, '{backing}', cannot be looked at: {problem.strerror}"
    if stat.S_ISBLK(found.st_mode):
        below = block_device.use(found.st_rdev) or _use_below(found.st_rdev, depth + 1)
        return f"it is another name of '{backing}': {below or 'name that'}"
    if (other := _loop_on(found, but=disk.name)) is not None:
        return f"the disk behind it, '{backing}', serves the loop device {other}, too"
    if _is_swap(found):
        return f"the disk behind it, '{backing}', is swap space in use"
    return _writer(found, f"the disk behind it, '{backing}',") or _image_around(disk, backing)


def _image_around(disk: Path, backing: str) -> str | None:
    """A loop device at an offset shows a part of a disk image: what that holds as a whole counts."""
    if block_device.word(disk / "loop/offset") in {None, "0"}:
        return None
    try:
        file = os.open(backing, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mark = signature_of(file, os.fstat(file).st_size)
        finally:
            os.close(file)
    except OSError as problem:
        return f"the disk behind it, '{backing}', cannot be looked at: {problem.strerror}"
    return f"it lies within '{backing}', which holds {mark}" if mark else None


def _loop_on(found: os.stat_result, but: str = "") -> str | None:
    wanted = (found.st_dev, found.st_ino)
    return next((name for name, backing in _loop_devices() if name != but and backing[:2] == wanted), None)


class _Backing(NamedTuple):
    """What is behind a loop device; ``number`` is 0 unless that is a device itself."""

    filesystem: int
    inode: int
    number: int


def _loop_devices() -> Iterator[tuple[str, _Backing]]:
    for told in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        name = told.parent.parent.name
        if backing := _backing_of(name, told):
            yield name, backing


def _backing_of(name: str, told: Path) -> _Backing | None:
    """The file or device behind a loop device; as its driver knows it where it may be asked."""
    try:
        device = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            answer = bytearray(_LOOP_INFO.size)
            fcntl.ioctl(device, _LOOP_GET_STATUS64, answer)
        finally:
            os.close(device)
        filesystem, inode, number = _LOOP_INFO.unpack(answer)
        return _Backing(_device_number(filesystem), inode, _device_number(number))
    except OSError:
        try:
            found = Path(told.read_text().removesuffix("\n")).stat()
        except OSError:
            return None  # gone, or hidden: the lease tells whether it is this file
        return _Backing(found.st_dev, found.st_ino, found.st_rdev)


def _device_number(packed: int) -> int:
    """The kernel packs major and minor unlike the C library."""
    return os.makedev((packed >> 8) & 0xFFF, (packed & 0xFF) | ((packed >> 12) & 0xFFF00))


def _is_swap(found: os.stat_result) -> bool:
    for path in block_device.swap_files():
        try:
            told = path.stat()
        except OSError:
            continue
        if (told.st_dev, told.st_ino) == (found.st_dev, found.st_ino):
            return True
    return False


def _mount_of(found: os.stat_result) -> str | None:
    """Where the file stands for another: containers are given single files so."""
    number = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
    for device, point in block_device.mount_points():
        if device != number:
            continue
        try:
            told = Path(point).lstat()
        except OSError:
            continue
        if (told.st_dev, told.st_ino) == (found.st_dev, found.st_ino):
            return point
    return None


def _lock(file: int) -> str | None:
    """Take the lock that keeps off all who lock by POSIX; it goes with the open file."""
    wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except OSError as problem:
        if problem.errno not in {errno.EAGAIN, errno.EACCES}:
            return None  # a file system without locks
        told = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, wanted))
        return f"{_process(told[4]) if told[4] > 0 else 'another program'} has locked it"
    return None


def _other_opener(file: int, found: os.stat_result) -> str | None:
    """Who has it open besides us, reading or writing, as the kernel knows from asking for a lease."""
    for _ in range(_TRIES):
        try:
            # Should somebody open it while we have the lease, we are not to be killed by the signal that says so.
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as problem:
            if problem.errno in {errno.EACCES, errno.EPERM}:
                return f"{_CANNOT_TELL}: it belongs to another user, and only that one and root may ask"
            if problem.errno != errno.EAGAIN:
                return _seen_opener(found)
            time.sleep(_TRY_SECONDS)
        else:
            return None
    openers = _openers(found)
    return f"{openers[0] if openers else 'another program, or the system itself,'} has it open"


def _seen_opener(found: os.stat_result) -> str | None:
    """The same where the file system has no leases."""
    openers = _openers(found)
    if openers is None:
        return f"{_CANNOT_TELL}: its file system has no leases, and looking at other programs takes root"
    return f"{openers[0]} has it open" if openers else None


def _openers(found: os.stat_result, *, writers_only: bool = False) -> list[str] | None:
    """Other processes that have the file or device open; None where not all of them may be looked at."""
    openers = []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            files = list((process / "fd").iterdir())
        except PermissionError:
            return None
        except OSError:
            continue  # it has ended
        if any(_is_same(file, found) and not (writers_only and _only_reads(file)) for file in files):
            openers.append(_process(int(process.name)))
    return openers


def _is_same(file: Path, found: os.stat_result) -> bool:
    try:
        if not os.readlink(file).startswith("/"):  # noqa: PTH115 - pipes and sockets are no paths
            return False
        told = file.stat()
    except OSError:
        return False
    if stat.S_ISBLK(found.st_mode):
        return stat.S_ISBLK(told.st_mode) and told.st_rdev == found.st_rdev
    return (told.st_dev, told.st_ino) == (found.st_dev, found.st_ino)


def _only_reads(file: Path) -> bool:
    try:
        lines = (file.parent.parent / "fdinfo" / file.name).read_text().splitlines()
    except OSError:
        return True  # closed by now
    return not any(line.startswith("flags:") and int(line.split()[1], 8) & os.O_ACCMODE for line in lines)


def _process(number: int) -> str:
    name = block_device.word(Path(f"/proc/{number}/comm"))
    return f"process {number} ({name})" if name else f"process {number}"
