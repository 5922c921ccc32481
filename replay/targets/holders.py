"""Who else uses a file or device that a replay is to write: loop devices, swap, mounts, open files, locks.

What is found is said in words that follow "is not written: ". Where the system does not let us look, that is said, too,
and counts as a use.
"""

import contextlib
import ctypes
import errno
import os
import platform
import re
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from iotrace.schemas.plain_files import kernel_lines

from . import block_device
from .refusals import is_database_name, recording_around
from .signatures import signature_of

if sys.platform != "win32":
    import fcntl

_LOOP_GET_STATUS64: Final = 0x4C05
_LOOP_INFO: Final = struct.Struct("=QQQ208x")
"""linux/loop.h: struct loop_info64, of which file system, inode and, of a device, number of what is behind."""
_FLOCK: Final = struct.Struct("@hhqqi4x")
"""fcntl.h: struct flock."""
_KCMP: Final = {"x86_64": 312, "aarch64": 272}
"""kcmp(2), for which the C library has no name; it answers 0 if two threads share their descriptors."""
_KCMP_FILES: Final = 2
_CLOSED_AFTER_WRITING: Final = 0x8
"""inotify(7): IN_CLOSE_WRITE."""
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
_Identity = tuple[int, ...]
"""The number of a device; file system and inode of anything else."""
_LAYERED: Final = frozenset({"aufs", "ecryptfs", "overlay"})
_FIRST_PROCESSES: Final = "pid:[4026531836]"
"""linux/proc_ns.h: PROC_PID_INIT_INO. In any other namespace of processes, those outside are not to be seen."""


def use_of_file(file: int) -> str | None:
    """Why the open file must not be written, in words, or None.

    What can be locked is locked then, until it is closed.
    """
    found = os.fstat(file)
    return _standing_use_of_file(found) or _lock(file) or _other_opener(file, found)


def _standing_use_of_file(found: os.stat_result, but: str = "") -> str | None:
    """What the system itself does with the file, in words, or None; ``but``: a loop device that may be on it."""
    if (kind := block_device.filesystem_with(found.st_dev)) in _SYSTEMS_OWN:
        return f"it is not data but a system setting ({kind})"
    if device := _loop_on(found, but):
        return f"it is the disk behind the loop device {device}"
    if _is_swap(found):
        return "it is swap space in use"
    if place := _mount_of(found):
        return f"it is mounted on {place} as a file"
    return None


def use_since(file: int) -> str | None:
    """The same of a file that was looked at by `use_of_file` and has been open since; its lock is held already."""
    found = os.fstat(file)
    return _standing_use_of_file(found) or _other_opener(file, found)


class ClosedWriters:
    """Notices who opens a file for writing and closes it again, whom no list of openers shows afterwards (inotify(7)).

    Where the system has no watch to give, nobody is noticed. Not for devices: programs that only ask for a disk's
    health open it for writing, too.
    """

    def __init__(self, file: int) -> None:
        libc = ctypes.CDLL(None)
        self._events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._had_any = False
        if self._events >= 0:
            libc.inotify_add_watch(self._events, f"/proc/self/fd/{file}".encode(), _CLOSED_AFTER_WRITING)

    def had_any(self) -> bool:
        """Whether there has been one since the watch began."""
        with contextlib.suppress(OSError):  # nothing to read, or no watch
            self._had_any |= bool(os.read(self._events, 4096))
        return self._had_any

    def close(self) -> None:
        """End the watch."""
        if self._events >= 0:
            os.close(self._events)


def unseen_use_of_file(file: int) -> str | None:
    """Why nobody can tell who uses the open file, in words, or None."""
    kind = block_device.filesystem_with(os.fstat(file).st_dev)
    if kind in _LAYERED or ((kind is not None and kind.startswith("fuse")) and kind != "fuseblk"):
        return f"it lies on {kind}, where programs that use what lies below cannot be seen"
    return None


def use_of_device(number: int, path: Path) -> str | None:
    """Why the block device must not be written, in words, or None.

    Asks `standing_use` first.
    """
    if reason := standing_use(number) or _use_below(number):
        return reason
    for _ in range(_TRIES):
        if (reason := _writer(path.stat().st_rdev)) is None:
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


def _writer(number: int) -> str | None:
    """Who may write to the device, a part of it or its disk."""
    labels: dict[_Identity, str] = {
        (own,): label
        for part, label in block_device.overlapping(number)
        if (own := block_device.number_of(part)) is not None
    }
    openers = _openers(labels, writers_only=True)
    if openers is None:
        return f"{_CANNOT_TELL}: that takes root, outside of any container"
    return f"{openers[0][0]} has {openers[0][1]} open for writing" if openers else None


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
    """The same of the file or device behind a loop device; a file is held to the rules for files that are targets."""
    try:
        backing = (disk / "loop/backing_file").read_text(errors="surrogateescape").removesuffix("\n")
    except OSError:
        return "the disk behind it was taken away"
    said = f"the disk behind it, '{backing}'"
    try:
        found = Path(backing).stat()
        if stat.S_ISBLK(found.st_mode):
            below = block_device.use(found.st_rdev) or _use_below(found.st_rdev, depth + 1)
            return f"it is another name of '{backing}': {below or 'name that'}"
        known = _backing_of(disk.name, disk / "loop/backing_file")
        if known and known[:2] != (found.st_dev, found.st_ino):
            return f"{said}, cannot be looked at: its name now belongs to another file"
        if reason := _standing_use_of_file(found, but=disk.name) or _rule_by_name(Path(backing), found):
            return f"{said}: {reason}"
        file = os.open(backing, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            reason = _use_of_file_behind(file, found, disk)
        finally:
            os.close(file)
    except OSError as problem:
        return f"{said}, cannot be looked at: {problem.strerror}"
    return f"{said}: {reason}" if reason else None


def _rule_by_name(path: Path, found: os.stat_result) -> str | None:
    if is_database_name(path):
        return "it is named like a database file"
    if found.st_nlink != 1:
        return f"it is one of {found.st_nlink} names of the same file"
    return "it is part of a recording of iotrace's" if recording_around(path) else None


def _use_of_file_behind(file: int, found: os.stat_result, disk: Path) -> str | None:
    """What can be told of the open file only; a lease tells nothing, for the loop device has it open, too."""
    if reason := unseen_use_of_file(file) or _lock(file):
        return reason
    for _ in range(_TRIES):
        openers = _openers({_identity(found): "it"})
        if not openers:
            break
        time.sleep(_TRY_SECONDS)
    if openers is None:
        return f"{_CANNOT_TELL}: that takes root, outside of any container"
    if openers:
        return f"{openers[0][0]} has it open"
    shown = int(block_device.word(disk / "size") or 0) * 512
    if block_device.word(disk / "loop/offset") == "0" and shown == found.st_size:
        return None  # it is the device that is looked into then
    mark = signature_of(file, found.st_size)
    return f"as a whole it holds {mark}" if mark else None


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
    for viewer in ("self", *_viewers_of_other_mounts()):
        try:
            # Those of btrfs are numbered unlike its files.
            points = [
                point
                for device, point, kind in block_device.mount_points(viewer)
                if device == number or kind == "btrfs"
            ]
        except OSError:
            continue  # it has ended, or may not be looked into
        for point in points:
            try:
                told = os.lstat(f"/proc/{viewer}/root{point}")
            except OSError:
                continue
            if _identity(told) == _identity(found):
                return point if viewer == "self" else f"{point} for {_process(int(viewer))}"
    return None


def _viewers_of_other_mounts() -> Iterator[str]:
    """A thread of each mount namespace and root folder but ours: what lies outside of its root a thread is not told."""
    seen = {_view_of("self")}
    for process in os.listdir("/proc"):  # noqa: PTH208
        try:
            threads = os.listdir(f"/proc/{process}/task") if process.isdigit() else []  # noqa: PTH208
            for thread in threads:
                view = _view_of(thread)
                if view not in seen:
                    seen.add(view)
                    yield thread
        except OSError:
            continue  # it has ended, or may not be looked into


def _view_of(thread: str) -> tuple[str, str]:
    """What decides which mounts a thread sees. Raises ``OSError``."""
    return os.readlink(f"/proc/{thread}/ns/mnt"), os.readlink(f"/proc/{thread}/root")  # noqa: PTH115


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
    openers = _openers({_identity(found): "it"})
    return f"{openers[0][0] if openers else 'another program, or the system itself,'} has it open"


def _seen_opener(found: os.stat_result) -> str | None:
    """The same where the file system has no leases."""
    openers = _openers({_identity(found): "it"})
    if openers is None:
        return (
            f"{_CANNOT_TELL}: its file system has no leases, and looking at other programs takes root, outside of any "
            "container"
        )
    return f"{openers[0][0]} has it open" if openers else None


def _identity(found: os.stat_result) -> _Identity:
    return (found.st_rdev,) if stat.S_ISBLK(found.st_mode) else (found.st_dev, found.st_ino)


def _openers(wanted: Mapping[_Identity, str], *, writers_only: bool = False) -> list[tuple[str, str]] | None:
    """Other processes that have something wanted open or mapped, and the word for it.

    None where not all of them may be looked at.
    """
    if os.readlink("/proc/self/ns/pid") != _FIRST_PROCESSES:  # noqa: PTH115
        return None
    openers = []
    for process in os.listdir("/proc"):  # noqa: PTH208 - of many thousands of names
        if not process.isdigit() or int(process) == os.getpid():
            continue
        try:
            threads = os.listdir(f"/proc/{process}/task")  # noqa: PTH208
        except OSError:
            continue  # it has ended
        try:
            for link in _open_files(threads):
                label = wanted.get(_identity_behind(link) or ())
                if label and not (writers_only and _only_reads(link)):
                    openers.append((_process(int(process)), label))
                    break
        except PermissionError:
            return None
    return openers


def _open_files(threads: list[str]) -> Iterator[str]:
    """Links to all that the threads of a process have open, which each may have for itself, and to what is mapped.

    A mapping outlives the closing of its file, and so does what io_uring was told to keep.
    """
    yield from _descriptors(threads)
    yield from _mappings(threads)


def _descriptors(threads: list[str]) -> Iterator[str]:
    for thread in _with_own_descriptors(threads):
        try:
            names = os.listdir(f"/proc/{thread}/fd")  # noqa: PTH208
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        for name in names:
            leads = _leads_to(f"/proc/{thread}/fd/{name}")
            if leads.startswith("/"):  # pipes and sockets are no paths
                yield f"/proc/{thread}/fd/{name}"
            elif leads == "anon_inode:[io_uring]":
                yield from _registered(thread, name)


def _mappings(threads: list[str]) -> Iterator[str]:
    for thread in threads:
        try:
            lines = kernel_lines(Path(f"/proc/{thread}/maps"))
        except OSError:
            continue  # it has ended, or even root may not look into it here
        for line in lines:
            span, permissions, _, _, inode = line.split(maxsplit=5)[:5]
            if inode != "0" and permissions.endswith("s"):
                start, end = span.split("-")
                yield f"/proc/{thread}/map_files/{int(start, 16):x}-{int(end, 16):x}"
        if lines:
            return  # threads share their memory; those that have ended have none


def _with_own_descriptors(threads: list[str]) -> Iterator[str]:
    """The first thread, and those that do not share its descriptors; where the system cannot tell, all.

    SQL Server has thousands of both, and a million descriptors take seven seconds to look at.
    """
    number = _KCMP.get(platform.machine())
    # Numbers of threads are the system's own to compare only where /proc is of the same namespace.
    can_tell = number is not None and os.readlink("/proc/self") == str(os.getpid())  # noqa: PTH115
    ask = ctypes.CDLL(None).syscall if can_tell else None
    for thread in threads:
        first = int(threads[0])
        shared = ask is not None and ask(number, first, int(thread), _KCMP_FILES, 0, 0) == 0
        if int(thread) == first or not shared:
            yield thread


def _leads_to(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return ""  # closed by now, or of a process that even root may not look into here


def _registered(thread: str, ring: str) -> Iterator[str]:
    """The files that an io_uring keeps without a descriptor, as the thread's root and ours call them."""
    try:
        lines = kernel_lines(Path(f"/proc/{thread}/fdinfo/{ring}"))
    except OSError:
        return  # closed by now
    for line in lines:
        if kept := re.fullmatch(r" *\d+: (.+)", line):
            path = block_device.unescaped(kept[1])
            if path.startswith("/"):
                yield from (path, f"/proc/{thread}/root{path}")
            else:
                yield f"/dev/{path}"  # older kernels tell the last part only


def _identity_behind(link: str) -> _Identity | None:
    try:
        return _identity(os.stat(link))  # noqa: PTH116
    except OSError:
        return (
            None  # closed by now, or of a process that even root may not look into here: a container's first
        )


def _only_reads(link: str) -> bool:
    """The mode of such a link tells how the file was opened; of what io_uring keeps nothing does."""
    if re.match(r"/proc/\d+/(fd|map_files)/", link) is None:
        return False
    try:
        return not os.lstat(link).st_mode & stat.S_IWUSR
    except OSError:
        return True  # closed by now


def _process(number: int) -> str:
    name = block_device.word(Path(f"/proc/{number}/comm"))
    return f"process {number} ({name})" if name else f"process {number}"
