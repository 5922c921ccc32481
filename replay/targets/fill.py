"""File targets of iotrace's own: made of data of a stated kind, marked as made, recognised again.

An array may answer reads of never-written or zero blocks without touching its media, so a file is written in full
before it is played on. It comes into being under its name only when it is whole. The mark is an extended attribute
that names device, inode, size, times of last change, and a checksum of parts of the content: a copy, a replacement,
or a file that somebody else has written to since is not recognised, and so never written. One of these times is the
kernel's own (ctime), which nobody can set back; the checksum covers the places where file systems and databases begin.
"""

import contextlib
import errno
import hashlib
import importlib
import json
import mmap
import os
import secrets
import stat
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.replay.options import RATIO_MAX
from iotrace.schemas import IotraceError
from iotrace.schemas.plain_files import file_bytes_max

from .silent_storage import PATIENCE_SECONDS, Report, patiently

# linux/fiemap.h: FS_IOC_FIEMAP, struct fiemap and struct fiemap_extent, and the flags that mean "no data there yet".
_FS_IOC_FIEMAP = 0xC020660B
_HEADER = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQ16xI12x")
_FLAG_SYNC = 0x1
_LAST, _UNKNOWN, _DELAYED, _UNWRITTEN = 0x1, 0x2, 0x4, 0x800
_EXTENTS_AT_ONCE = 512


def unallocated_bytes(file: int) -> int:
    """Bytes of the open file that have no data on the disk: holes, and space reserved but never written.

    Asks for holes (SEEK_HOLE) and, where the file system tells, for its map of extents (FIEMAP).
    """
    size = os.fstat(file).st_size
    return max(_holes_bytes(file, size), _unwritten_bytes(file, size))


def _holes_bytes(file: int, size: int) -> int:
    holes, at = 0, 0
    try:
        while at < size:
            hole = os.lseek(file, at, os.SEEK_HOLE)
            if hole >= size:
                break
            try:
                at = os.lseek(file, hole, os.SEEK_DATA)
            except OSError:  # ENXIO: no data behind it
                at = size
            holes += min(at, size) - hole
    except OSError:
        return 0  # this file system tells nothing of holes
    return holes


def _unwritten_bytes(file: int, size: int) -> int:
    fcntl = importlib.import_module("fcntl")  # not at the top: other systems import this package too
    written, at = 0, 0
    while at < size:
        request = bytearray(_HEADER.size + _EXTENTS_AT_ONCE * _EXTENT.size)
        _HEADER.pack_into(request, 0, at, size - at, _FLAG_SYNC, 0, _EXTENTS_AT_ONCE, 0)
        try:
            fcntl.ioctl(file, _FS_IOC_FIEMAP, request)
        except OSError:
            return 0  # this file system tells nothing of its extents
        count = _HEADER.unpack_from(request, 0)[3]
        last = count == 0
        for number in range(count):
            start, _, length, flags = _EXTENT.unpack_from(request, _HEADER.size + number * _EXTENT.size)
            end = min(start + length, size)
            if not flags & (_UNKNOWN | _DELAYED | _UNWRITTEN):
                written += max(0, end - max(start, at))
            at = max(at, end)
            last |= bool(flags & _LAST)
        if last:
            break
    return size - written


MARK = "user.iotrace.target"
_MARK_VERSION = 2
_MARK_TRIES = 5
_MARK_NS_MAX = 1_000_000_000
"""Noting when the mark was made changes that very time: so much later it may have become."""
_EDGE_BYTES = 128 << 10
_SAMPLES = 64
_CHUNK_BYTES = 4 << 20
_BLOCK_BYTES = 4096
_STEP_BYTES = 64 << 20
"""So much is reserved, and of what goes through the cache written out, at once: a step takes seconds, not hours."""


@dataclass(frozen=True, slots=True)
class Fill:
    """What a file is made of.

    ``compressible``: how many bytes a compressor makes one of, in each 4 KiB: that much of them is random, the rest
    repeats one byte. ``dedupe``: bytes in all for each in blocks unlike any other. The file repeats its first so many
    bytes, so copies of a block are far apart and aligned for any block of up to 64 KiB.
    """

    compressible: float = 1.0
    dedupe: float = 1.0

    @property
    def random_bytes(self) -> int:
        """Random bytes in each block."""
        return _BLOCK_BYTES if self.compressible == 1.0 else max(16, round(_BLOCK_BYTES / self.compressible))

    def unique_bytes(self, size_bytes: int) -> int:
        """After how many bytes a file of ``size_bytes`` starts over."""
        if self.dedupe == 1.0:
            return size_bytes
        return max(1, round(size_bytes / self.dedupe / DEDUPE_UNIT_BYTES)) * DEDUPE_UNIT_BYTES

    def describe(self) -> str:
        """In words; also what the mark on a file says."""
        kind = "incompressible" if self.compressible == 1.0 else f"compressible {self.compressible:g}:1"
        return kind if self.dedupe == 1.0 else f"{kind}, dedupe {self.dedupe:g}:1"


DEDUPE_UNIT_BYTES = 64 << 10


def create(
    path: Path,
    size_bytes: int,
    *,
    direct: bool,
    seed: int,
    fill_with: Fill = Fill(),
    progress: Report | None = None,
    to_be_known: bool = False,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Make the file ``path`` of at least ``size_bytes`` (whole 4 KiB) of data, allocated in full.

    ``progress`` is told bytes done and bytes in all. Nothing is left behind on any failure but that of storage which
    does not answer at all. Raises `IotraceError` naming ``path`` when something is there already, the disk has no room,
    the folder cannot be written, or nothing is written for ``patience_seconds``; and where its mark cannot be kept, if
    it is ``to_be_known`` again.
    """
    size_bytes = -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES

    def work(report: Report) -> None:
        _create(path, size_bytes, direct, seed, fill_with, report, to_be_known=to_be_known)

    patiently(str(path), work, progress=progress, patience_seconds=patience_seconds)


def _create(
    path: Path,
    size_bytes: int,
    direct: bool,  # noqa: FBT001
    seed: int,
    fill_with: Fill,
    report: Report,
    *,
    to_be_known: bool,
) -> None:
    try:
        file, partial = _open_nameless(path, direct=direct)
    except OSError as problem:
        raise creation_error(path, problem) from problem
    try:
        _refuse_unmarkable(file, path, fill_with, to_be_known=to_be_known)
        _write(file, path, Data(fill_with, size_bytes, seed), size_bytes, report, direct=direct)
        _name(file, partial, path)
        if partial is not None:
            partial.unlink()
            partial = None
        mark(file, fill_with)
    except OSError as problem:
        raise creation_error(path, problem) from problem
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
        os.close(file)


def refuse_uncreatable(
    path: Path, size_bytes: int, *, direct: bool, fill_with: Fill, to_be_known: bool
) -> None:
    """Raise `IotraceError` where `create` would before it writes: nothing is left behind."""
    try:
        file, partial = _open_nameless(path, direct=direct)
    except OSError as problem:
        raise creation_error(path, problem) from problem
    try:
        _refuse_unmarkable(file, path, fill_with, to_be_known=to_be_known)
        _refuse_without_room(file, path, size_bytes)
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
        os.close(file)


def _refuse_unmarkable(file: int, path: Path, fill_with: Fill, *, to_be_known: bool) -> None:
    if not mark(file, fill_with) and to_be_known:
        raise IotraceError(
            f"target '{path}' lies on a file system without extended attributes or with times in whole seconds: "
            "iotrace could not know the file again that it may write",
            hint="choose another place, or make the file yourself and pass --allow-writes",
        )


def mark(file: int, fill_with: Fill) -> bool:
    """Note on the open file that iotrace made it and left it as it is now. False where the system has no such notes."""
    try:
        if _has_coarse_times(file):
            return False
        os.setxattr(file, MARK, note(file, fill_with))
        for _ in range(_MARK_TRIES):
            marked_ns = os.fstat(file).st_ctime_ns
            os.setxattr(file, MARK, note(file, fill_with, marked_ns))
            if os.fstat(file).st_ctime_ns - marked_ns < _MARK_NS_MAX:
                return True
    except OSError:
        pass
    return False


def _has_coarse_times(file: int) -> bool:
    """Whether a change in the same second would not show, as on ext4 with inodes of 128 bytes."""
    found = os.fstat(file)
    return found.st_ctime_ns % 10**9 == 0 and found.st_mtime_ns % 10**9 == 0


def fill_of(file: int) -> Fill | None:
    """What iotrace filled this open file with; None if it did not make it, or somebody has changed it since."""
    try:
        return noted_fill(os.getxattr(file, MARK), file, is_timed=True)
    except OSError:
        return None


def note(file: int, fill_with: Fill, marked_ns: int | None = None) -> bytes:
    """What a mark says: that iotrace made this open file of ``fill_with`` and left it as it is now.

    ``marked_ns``: the time of last change that nobody can set (ctime), where the system has it. Raises ``OSError``.
    """
    return json.dumps(_state(file, fill_with) | {"marked_ns": marked_ns, "content": _sample(file)}).encode()


def noted_fill(text: bytes, file: int, *, is_timed: bool = False) -> Fill | None:
    """What the mark ``text`` says the open file is filled with; None if it speaks of another file or another state.

    ``is_timed``: it has to say when it was made, and nothing may have changed since.
    """
    try:
        noted = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(noted, dict) or not stat.S_ISREG(os.fstat(file).st_mode):
        return None
    ratios = [noted.get(name, 1.0) for name in ("compressible", "dedupe")]
    if not all(isinstance(ratio, float | int) and 1 <= ratio <= RATIO_MAX for ratio in ratios):
        return None
    found, marked_ns = Fill(*map(float, ratios)), noted.get("marked_ns")
    if is_timed and (
        not isinstance(marked_ns, int)
        or not 0 <= os.fstat(file).st_ctime_ns - marked_ns < _MARK_NS_MAX
        or _has_coarse_times(file)
    ):
        return None
    if noted != noted | _state(file, found) or noted.get("content") != _sample(file):
        return None
    return found


def is_note(text: bytes) -> bool:
    """Whether ``text`` is the mark of any file of iotrace's, valid or not."""
    try:
        noted = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(noted, dict) and {"version", "device", "inode", "changed_ns", "fill"} <= noted.keys()


def _state(file: int, fill_with: Fill) -> dict[str, Any]:
    found = os.fstat(file)
    return {
        "version": _MARK_VERSION,
        "device": found.st_dev,
        "inode": found.st_ino,
        "bytes": found.st_size,
        "changed_ns": found.st_mtime_ns,
        "fill": fill_with.describe(),
        "compressible": fill_with.compressible,
        "dedupe": fill_with.dedupe,
    }


def _sample(file: int) -> str:
    """A checksum of both ends of the open file, where file systems and databases leave marks, and parts between."""
    size_bytes = os.fstat(file).st_size
    step = max(_BLOCK_BYTES, size_bytes // _SAMPLES // _BLOCK_BYTES * _BLOCK_BYTES)
    places = [(0, _EDGE_BYTES), (max(0, size_bytes - _EDGE_BYTES), _EDGE_BYTES)]
    places += [(offset, _BLOCK_BYTES) for offset in range(0, size_bytes, step)]
    found = hashlib.sha256()
    with plain_view(file) as plain:
        for offset, length in places:
            os.lseek(plain, offset, os.SEEK_SET)
            found.update(os.read(plain, length))
    return found.hexdigest()


@contextlib.contextmanager
def plain_view(file: int) -> Iterator[int]:
    """A second descriptor of the very file or device that is open, to read it through the cache at any offset.

    Raises ``OSError``.
    """
    if sys.platform == "win32":
        yield file
        return
    plain = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield plain
    finally:
        os.close(plain)


def was_ours(file: int) -> bool:
    """Whether the file carries a mark at all, valid or not: tells changed from foreign in messages."""
    try:
        return bool(os.getxattr(file, MARK))
    except OSError:
        return False


def lock(file: int, path: str) -> None:
    """Keep other replays off the file while it is open. Raises `IotraceError` if one is on it."""
    fcntl = importlib.import_module(
        "fcntl"
    )  # not at the top: other systems read recordings with this package too
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        raise IotraceError(
            f"target '{path}' is in use by another replay", hint="wait for it, or choose another file"
        ) from problem
    except OSError:
        return  # no locks on this file system


def creation_error(path: Path, problem: OSError) -> IotraceError:
    """The user's words for a failure to make a target file."""
    folder = path.parent
    if problem.errno == errno.ENOENT:
        return IotraceError(
            f"target '{path}' lies in a folder that does not exist", hint=f"mkdir -p {folder}"
        )
    if problem.errno == errno.ENOTDIR:
        return IotraceError(f"a part of the path of target '{path}' is not a folder", hint="check the path")
    if problem.errno == errno.EEXIST:
        return IotraceError(f"target '{path}' exists already", hint="choose another name, or delete it")
    if problem.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return IotraceError(
            f"target '{path}' cannot be created: {problem.strerror}", hint="choose a folder you may write to"
        )
    if problem.errno == errno.EINVAL:
        return IotraceError(
            f"target '{path}' lies on a file system without direct I/O",
            hint="choose another place, or play through the cache knowingly with --buffered",
        )
    return IotraceError(f"target '{path}' cannot be filled: {problem.strerror}", hint="choose another place")


def _open_nameless(path: Path, *, direct: bool) -> tuple[int, Path | None]:
    """A file that vanishes unless it is given a name; with a hidden name where the file system cannot do that."""
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)
    try:
        return os.open(path.parent, flags | os.O_TMPFILE, 0o600), None
    except OSError as problem:
        if problem.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}:
            raise
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        return os.open(partial, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), partial
    except OSError:
        partial.unlink(missing_ok=True)  # a refusal of direct I/O comes after the file was made
        raise


def _name(file: int, partial: Path | None, path: Path) -> None:
    """Give the finished file its name, unless something has it by now: rename would replace it, link does not."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Only with a folder's descriptor does Python ask for the link to be followed, to the nameless file itself.
        source = str(partial or f"/proc/self/fd/{file}")
        os.link(source, path.name, dst_dir_fd=folder, follow_symlinks=partial is None)
        os.fsync(folder)
    finally:
        os.close(folder)


class Data:
    """The bytes of a file, from any 64 KiB on: a counter-based generator, so that no copy has to be kept."""

    def __init__(self, fill_with: Fill, size_bytes: int, seed: int) -> None:
        self._fill = fill_with
        self._unique_bytes = fill_with.unique_bytes(size_bytes)
        self._key = np.random.SeedSequence([seed, secrets.randbits(64)]).generate_state(2, np.uint64)

    def at(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, a multiple of 64 KiB."""
        pieces = []
        while length > 0:
            start = offset % self._unique_bytes
            piece = min(length, self._unique_bytes - start)
            pieces.append(self._unique(start, piece))
            offset, length = offset + piece, length - piece
        return b"".join(pieces)

    def _unique(self, start: int, length: int) -> bytes:
        # Each step of Philox's counter gives 32 bytes.
        generator = np.random.Philox(key=self._key, counter=start // 32)
        words: npt.NDArray[np.uint64] = generator.random_raw(-(-length // 8))
        if self._fill.compressible == 1.0:
            return words.tobytes()[:length]
        blocks = np.resize(words.view(np.uint8), (-(-length // _BLOCK_BYTES), _BLOCK_BYTES))
        blocks[:, self._fill.random_bytes :] = blocks[:, :1]
        return blocks.tobytes()[:length]


def _write(file: int, path: Path, data: Data, size_bytes: int, report: Report, *, direct: bool) -> None:
    # Asked first: allocation takes what there is before it fails, and others write to the same disk.
    _refuse_without_room(file, path, size_bytes)
    written_out = 0

    def note(done: int, total: int) -> None:
        nonlocal written_out
        if not direct and done - written_out >= _STEP_BYTES:
            os.fdatasync(file)
            written_out = done
        report(done, total)

    try:
        for start in range(0, size_bytes, _STEP_BYTES):
            os.posix_fallocate(file, start, min(_STEP_BYTES, size_bytes - start))
            report(0, size_bytes)
        write(file, data, size_bytes, note)
        os.fsync(file)
    except OSError as problem:
        if problem.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise
        os.ftruncate(file, 0)
        raise _full(file, path, size_bytes, problem) from problem
    allocated = min(os.fstat(file).st_blocks * 512, size_bytes - unallocated_bytes(file))
    if allocated < size_bytes:
        raise IotraceError(
            f"target '{path}' was written but only {allocated:,} of {size_bytes:,} bytes are allocated",
            hint="the file system compresses or deduplicates: choose one that does not, or switch it off",
        )
    with contextlib.suppress(OSError):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _refuse_without_room(file: int, path: Path, size_bytes: int) -> None:
    found, most = os.fstatvfs(file), file_bytes_max()
    is_beyond_disk = found.f_blocks > 0 and size_bytes > found.f_bavail * found.f_frsize
    if is_beyond_disk or (most is not None and size_bytes > most):
        raise _full(file, path, size_bytes)


def _full(file: int, path: Path, size_bytes: int, problem: OSError | None = None) -> IotraceError:
    free = os.fstatvfs(file)
    return no_room(str(path), size_bytes, free.f_bavail * free.f_frsize, problem)


def no_room(name: str, size_bytes: int, free_bytes: int, problem: OSError | None = None) -> IotraceError:
    """The user's words for a disk that is too full, or a limit; ``problem`` is what the system said of it."""
    most = file_bytes_max()
    hint = "choose another place, or replay a shorter window"
    if most is not None and most < min(size_bytes, free_bytes):
        bound = f"and a file may have {most:,} at most (ulimit -f)"
        hint = "raise that limit (ulimit -f unlimited), or replay a shorter window"
    elif problem is not None and problem.strerror and size_bytes <= free_bytes:  # such as a quota
        bound = f"and the system says: {problem.strerror}"
    else:
        bound = f"{free_bytes:,} are free"
    return IotraceError(f"no room for target '{name}': it needs {size_bytes:,} bytes, {bound}", hint=hint)


def write(file: int, data: Data, size_bytes: int, progress: Report | None = None) -> None:
    """Write so much of ``data`` to an open file from where it stands."""
    with mmap.mmap(-1, _CHUNK_BYTES) as chunk:  # page-aligned, as direct I/O wants it
        done = 0
        while done < size_bytes:
            length = min(_CHUNK_BYTES, size_bytes - done)
            chunk[:length] = data.at(done, length)
            with memoryview(chunk) as view, view[:length] as part:
                done += os.write(file, part)
            if progress is not None:
                progress(done, size_bytes)
