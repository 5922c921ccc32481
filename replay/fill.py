"""File targets of iotrace's own: made of incompressible data, marked as made, recognised again.

An array may answer reads of never-written or zero blocks without touching its media, so a file is written in full
before it is played on. It comes into being under its name only when it is whole. The mark is an extended attribute
that names device, inode, size and time of last change: a copy, a replacement, or a file that somebody else has
written to since is not recognised, and so never written.
"""

import contextlib
import errno
import importlib
import json
import mmap
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np

from iotrace.schemas import IotraceError

MARK = "user.iotrace.target"
_CHUNK_BYTES = 4 << 20
_BLOCK_BYTES = 4096


def create(
    path: Path,
    size_bytes: int,
    *,
    direct: bool,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Make the file ``path`` of at least ``size_bytes`` (whole 4 KiB) of incompressible data, allocated in full.

    ``progress`` is told bytes done and bytes in all. Nothing is left behind on any failure. Raises `IotraceError`
    naming ``path`` when something is there already, the disk is full, or the folder cannot be written.
    """
    size_bytes = -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
    try:
        file, partial = _open_nameless(path, direct=direct)
    except OSError as problem:
        raise creation_error(path, problem) from problem
    try:
        _write(file, path, size_bytes, seed, progress)
        _name(file, partial, path)
        if partial is not None:
            partial.unlink()
            partial = None
        mark(file)
    except OSError as problem:
        raise creation_error(path, problem) from problem
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
        os.close(file)


def mark(file: int) -> bool:
    """Note on the open file that iotrace made it and left it as it is now. False where the system has no such notes."""
    found = os.fstat(file)
    text = json.dumps(
        {
            "version": 1,
            "device": found.st_dev,
            "inode": found.st_ino,
            "bytes": found.st_size,
            "changed_ns": found.st_mtime_ns,
            "fill": "incompressible",
        }
    )
    try:
        os.setxattr(file, MARK, text.encode())
    except OSError:
        return False
    return True


def is_ours(file: int) -> bool:
    """Whether iotrace made this open file, and nobody has changed it since."""
    try:
        noted = json.loads(os.getxattr(file, MARK))
    except (OSError, ValueError):
        return False
    found = os.fstat(file)
    return (
        stat.S_ISREG(found.st_mode)
        and isinstance(noted, dict)
        and noted
        == noted
        | {
            "version": 1,
            "device": found.st_dev,
            "inode": found.st_ino,
            "bytes": found.st_size,
            "changed_ns": found.st_mtime_ns,
            "fill": "incompressible",
        }
    )


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
        return IotraceError(f"target '{path}' lies below something that is no folder", hint="check the path")
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


def _write(
    file: int, path: Path, size_bytes: int, seed: int, progress: Callable[[int, int], None] | None
) -> None:
    try:
        os.posix_fallocate(file, 0, size_bytes)
        random = np.random.default_rng([seed, secrets.randbits(64)])
        with mmap.mmap(-1, _CHUNK_BYTES) as chunk:  # page-aligned, as direct I/O wants it
            done = 0
            while done < size_bytes:
                length = min(_CHUNK_BYTES, size_bytes - done)
                chunk[:length] = random.bytes(length)
                with memoryview(chunk) as view, view[:length] as part:
                    done += os.pwrite(file, part, done)
                if progress is not None:
                    progress(done, size_bytes)
        os.fsync(file)
    except OSError as problem:
        if problem.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise
        free = os.fstatvfs(file)
        os.ftruncate(file, 0)
        raise IotraceError(
            f"no room for target '{path}': it needs {size_bytes:,} bytes, "
            f"{free.f_bavail * free.f_frsize:,} are free",
            hint="choose another place, or replay a shorter window",
        ) from problem
    allocated = os.fstat(file).st_blocks * 512
    if allocated < size_bytes:
        raise IotraceError(
            f"target '{path}' was written but only {allocated:,} of {size_bytes:,} bytes are allocated",
            hint="the file system compresses or deduplicates: choose one that does not, or switch it off",
        )
    with contextlib.suppress(OSError):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
