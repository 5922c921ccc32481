"""Opening what a replay plays on: a file, made and filled if need be, or a block device.

What it must not write is refused in `refusals`. A replay that only reads opens read-only and needs no permission.
"""

import errno
import mmap
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotrace.schemas import IotraceError

from . import blockdevice, fill
from .blockdevice import DeviceFacts
from .refusals import (
    Permission,
    opening_error,
    refuse_database_name,
    refuse_device_by_name,
    refuse_device_in_use,
    refuse_foreign_file,
    refuse_memory,
)


@dataclass(slots=True)
class Target:
    """An open target. ``name`` is the user's word for it; close it when done."""

    name: str
    kind: str
    file: int
    bytes: int
    direct: bool
    writable: bool
    filled: bool
    """Whether iotrace made it and filled it with incompressible data."""
    device_number: int
    facts: DeviceFacts
    filesystem: str | None
    block_bytes: int
    """Unit that offsets and sizes must be multiples of."""

    def close(self) -> None:
        """Close it, and renew the mark of a file of iotrace's own that was written."""
        if self.filled and self.writable:
            fill.mark(self.file)
        os.close(self.file)

    def describe(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "name": self.name,
            "kind": self.kind,
            "bytes": self.bytes,
            "direct": self.direct,
            "logical_block_bytes": self.block_bytes,
            "filesystem": self.filesystem,
            "filled": self.filled,
            "device": self.facts.name or None,
            "model": self.facts.model,
            "write_cache": self.facts.write_cache,
            "rotational": self.facts.rotational,
        }


def open_target(
    name: str,
    *,
    writes: bool,
    permission: Permission,
    direct: bool,
    needed_bytes: int,
    file_bytes: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Target:
    """Open the target ``name``, which the replay writes to if ``writes``; make and fill it if it does not exist.

    A file made here holds ``file_bytes``, or ``needed_bytes`` where that is None; one of iotrace's own that is too
    small, or not of the size asked for, is made anew. Raises `IotraceError` naming ``name`` for whatever is refused.
    """
    path = Path(name)
    found = _look(path, name)
    if found is None:
        return _open_new(path, name, permission, writes=writes, direct=direct, size_bytes=file_bytes or needed_bytes,
                         seed=seed, progress=progress)  # fmt: skip
    if stat.S_ISDIR(found.st_mode):
        raise IotraceError(
            f"target '{name}' is a folder", hint=f"name a file in it: {path / 'iotrace.target'}"
        )
    if stat.S_ISBLK(found.st_mode):
        return _open_device(path, name, permission, writes=writes, direct=direct)
    if not stat.S_ISREG(found.st_mode):
        raise IotraceError(
            f"target '{name}' is neither a file nor a block device", hint="choose a file or a disk"
        )
    own = _is_own_file(path)
    if own and (found.st_size < needed_bytes or file_bytes not in {None, found.st_size}):
        _discard_own(path, name)
        return _open_new(path, name, permission, writes=writes, direct=direct, size_bytes=file_bytes or needed_bytes,
                         seed=seed, progress=progress)  # fmt: skip
    return _open_file(path, name, permission, writes=writes, direct=direct)


def _look(path: Path, name: str) -> os.stat_result | None:
    """What is there, following links; None if nothing is."""
    try:
        return path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise IotraceError(
                f"target '{name}' is a symbolic link that leads nowhere", hint="name the file itself"
            ) from None
        return None
    except OSError as problem:
        raise opening_error(name, problem) from problem


def _open_new(
    path: Path,
    name: str,
    permission: Permission,
    *,
    writes: bool,
    direct: bool,
    size_bytes: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Target:
    refuse_database_name(path, name, permission)
    if path.parent.is_dir():
        refuse_memory(path.parent, name, direct=direct)
    fill.create(path, max(size_bytes, 4096), direct=direct, seed=seed, progress=progress)
    return _open_file(path, name, permission, writes=writes, direct=direct)


def _open_file(path: Path, name: str, permission: Permission, *, writes: bool, direct: bool) -> Target:
    file = _open(path, name, writes=writes, direct=direct, extra=os.O_NOFOLLOW if writes else 0)
    try:
        found = os.fstat(file)
        _refuse_swapped(name, same_kind=stat.S_ISREG(found.st_mode))
        own = fill.is_ours(file)
        if writes:
            refuse_foreign_file(file, path, name, found, permission, own=own)
            fill.lock(file, name)
        refuse_memory(path, name, direct=direct)
        facts = blockdevice.facts(found.st_dev)
        block_bytes = _probe(file, name, facts.logical_block_bytes, found.st_size, direct=direct)
        return Target(
            name=name,
            kind="file",
            file=file,
            bytes=found.st_size,
            direct=direct,
            writable=writes,
            filled=own,
            device_number=found.st_dev,
            facts=facts,
            filesystem=blockdevice.filesystem_of(path),
            block_bytes=block_bytes,
        )
    except BaseException:
        os.close(file)
        raise


def _open_device(path: Path, name: str, permission: Permission, *, writes: bool, direct: bool) -> Target:
    if writes:
        refuse_device_by_name(path, name, permission)
    # O_EXCL: the kernel itself refuses what is mounted, swapped on or held by a volume manager.
    file = _open(path, name, writes=writes, direct=direct, extra=os.O_NOFOLLOW | os.O_EXCL if writes else 0)
    try:
        found = os.fstat(file)
        _refuse_swapped(name, same_kind=stat.S_ISBLK(found.st_mode))
        size_bytes = os.lseek(file, 0, os.SEEK_END)
        if writes:
            refuse_device_in_use(file, name, found, size_bytes)
        facts = blockdevice.facts(found.st_rdev)
        return Target(
            name=name,
            kind="partition" if facts.partition else "disk",
            file=file,
            bytes=size_bytes,
            direct=direct,
            writable=writes,
            filled=False,
            device_number=found.st_rdev,
            facts=facts,
            filesystem=None,
            block_bytes=_probe(file, name, facts.logical_block_bytes, size_bytes, direct=direct),
        )
    except BaseException:
        os.close(file)
        raise


def _refuse_swapped(name: str, *, same_kind: bool) -> None:
    if not same_kind:
        raise IotraceError(f"target '{name}' changed while it was opened", hint="find out who else uses it")


def _is_own_file(path: Path) -> bool:
    """Whether the path is, without following a link, a file that iotrace made."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return fill.is_ours(file) and os.fstat(file).st_nlink == 1
    finally:
        os.close(file)


def _discard_own(path: Path, name: str) -> None:
    """Remove a file of iotrace's own to make it anew, unless a replay is on it."""
    file = _open(path, name, writes=False, direct=False, extra=os.O_NOFOLLOW)
    try:
        fill.lock(file, name)
        opened, named = os.fstat(file), path.lstat()
        if fill.is_ours(file) and (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino):
            path.unlink()
    except OSError as problem:
        raise opening_error(name, problem) from problem
    finally:
        os.close(file)


def _open(path: Path, name: str, *, writes: bool, direct: bool, extra: int = 0) -> int:
    flags = (os.O_RDWR if writes else os.O_RDONLY) | os.O_CLOEXEC | extra | (os.O_DIRECT if direct else 0)
    try:
        return os.open(path, flags)
    except OSError as problem:
        raise opening_error(name, problem) from problem


def _probe(file: int, name: str, block_bytes: int, size_bytes: int, *, direct: bool) -> int:
    """Read one block to see that the target answers, and return the unit that its I/Os must be multiples of."""
    if size_bytes < block_bytes:
        raise IotraceError(
            f"target '{name}' is empty", hint="choose a new file, which iotrace creates and fills"
        )
    with mmap.mmap(-1, 65536) as page:
        while True:
            with memoryview(page) as view, view[:block_bytes] as block:
                try:
                    os.preadv(file, [block], 0)
                except OSError as problem:
                    if direct and problem.errno == errno.EINVAL and block_bytes < 65536:
                        block_bytes *= 2
                        continue
                    raise opening_error(name, problem) from problem
            return block_bytes
