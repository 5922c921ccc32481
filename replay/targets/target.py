"""Opening what a replay plays on: a file, made and filled if need be, or a block device.

What it must not write is refused in `refusals`. A replay that only reads opens read-only and needs no permission.
"""

import errno
import mmap
import os
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrace.schemas import IotraceError
from iotrace.schemas.run import TargetFacts

from . import block_device, fill, holders
from .block_device import DeviceFacts
from .refusals import (
    Permission,
    changed_while_opened,
    opening_error,
    refuse_content,
    refuse_database_name,
    refuse_device_by_name,
    refuse_foreign_file,
    refuse_memory,
    refuse_several_names,
    refuse_use,
)
from .signatures import signature_of
from .silent_storage import PATIENCE_SECONDS

_CLOSE_PATIENCE_SECONDS = 10.0


@dataclass(slots=True)
class Target:
    """An open target. ``name`` is the user's word for it; close it when done."""

    name: str
    kind: str
    file: int
    bytes: int
    direct: bool
    writable: bool
    fill: fill.Fill | None
    """What iotrace filled it with; None if it did not make it."""
    device_number: int
    facts: DeviceFacts
    filesystem: str | None
    block_bytes: int
    """Unit that offsets and sizes must be multiples of."""
    sequence: int | None = None
    """Which of the disks that have had this device's number it is."""
    others: holders.ClosedWriters | None = None
    """Who else has written since to a file that is written to."""

    @property
    def filled(self) -> bool:
        """Whether iotrace made it and filled it."""
        return self.fill is not None

    @property
    def engine_file(self) -> int:
        """What the engine knows it by."""
        return self.file

    def change(self) -> str | None:
        """What has happened since it was opened to what is written to, in words; None if nothing."""
        if not self.writable:
            return None
        try:
            opened, named = os.fstat(self.file), Path(self.name).lstat()
        except OSError as problem:
            return f"its name no longer leads anywhere: {problem.strerror}"
        if self.kind != "file":
            if not stat.S_ISBLK(named.st_mode) or named.st_rdev != opened.st_rdev:
                return "its name now belongs to another device"
            if block_device.sequence(opened.st_rdev) != self.sequence:
                return "the disk was exchanged"
            return holders.use_of_device(opened.st_rdev, Path(self.name))
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            return "its name now belongs to another file"
        if named.st_nlink != 1:
            return f"it has {named.st_nlink} names now"
        if opened.st_size != self.bytes:
            return "its size was changed"
        if device := holders.loop_on(self.file):
            return f"it became the disk behind the loop device {device}"
        return holders.use_since(self.file) or self._gone_writer()

    def _gone_writer(self) -> str | None:
        if self.others is not None and self.others.had_any():
            return "another program opened it for writing, and has closed it again"
        return None

    def close(self) -> None:
        """Close it, and renew the mark of a file of iotrace's own that was written, if it still is one.

        On storage that does not answer, a frozen file system say, both can take for ever. They are then left behind,
        so that what was measured is kept; the file counts as changed by somebody else.
        """
        closing = threading.Thread(target=self._close, name=f"close {self.name}", daemon=True)
        closing.start()
        closing.join(_CLOSE_PATIENCE_SECONDS)

    def _close(self) -> None:
        if self.fill is not None and self.writable and self.change() is None and not self._is_marked():
            fill.mark(self.file, self.fill)
        _close_all(self.file, self.others)

    def _is_marked(self) -> bool:
        try:
            with fill.plain_view(self.file) as plain:
                return signature_of(plain, self.bytes) is not None
        except OSError:
            return True

    def describe(self) -> TargetFacts:
        """For the manifest."""
        return TargetFacts(
            name=self.name,
            kind=self.kind,
            bytes=self.bytes,
            direct=self.direct,
            logical_block_bytes=self.block_bytes,
            filesystem=self.filesystem,
            filled=self.filled,
            fill=self.fill.describe() if self.fill else None,
            device=self.facts.name or None,
            model=self.facts.model,
            write_cache=self.facts.write_cache,
            rotational=self.facts.rotational,
        )


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of a target, for the functions below."""

    path: Path
    name: str
    writes: bool
    permission: Permission
    direct: bool


def open_target(
    name: str,
    *,
    writes: bool,
    permission: Permission,
    direct: bool,
    needed_bytes: int,
    least_bytes: int | None = None,
    file_bytes: int | None = None,
    fill_with: fill.Fill = fill.Fill(),  # noqa: B008 - frozen
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Target:
    """Open the target ``name``, which the replay writes to if ``writes``; make and fill it if it does not exist.

    A file made here holds ``file_bytes``, or ``needed_bytes`` where that is None; one of iotrace's own that is smaller
    than ``least_bytes`` (default ``needed_bytes``), not of the size asked for or filled with something else is made
    anew. Raises `IotraceError` naming ``name`` for whatever is refused, and where filling comes to a halt for
    ``patience_seconds``.
    """
    wanted = _Request(Path(name), name, writes, permission, direct)

    def make() -> Target:
        size_bytes = _size_of_new(file_bytes, needed_bytes)
        return _open_new(wanted, size_bytes, fill_with, seed, progress, patience_seconds)

    found = look(wanted.path, name)
    if found is None:
        return make()
    if stat.S_ISBLK(found.st_mode):
        return _open_device(wanted, found)
    if not stat.S_ISREG(found.st_mode):
        raise IotraceError(
            f"target '{name}' is neither a file nor a block device", hint="choose a file or a disk"
        )
    own = _own_fill(wanted.path)
    too_small = found.st_size < (needed_bytes if least_bytes is None else least_bytes)
    if own is not None and (too_small or file_bytes not in {None, found.st_size} or own != fill_with):
        _discard_own(wanted.path, name)
        return make()
    return _open_file(wanted, found)


def check_target(
    name: str,
    *,
    writes: bool,
    permission: Permission,
    direct: bool,
    needed_bytes: int,
    file_bytes: int | None = None,
    fill_with: fill.Fill = fill.Fill(),  # noqa: B008 - frozen
    **_ignored: object,
) -> None:
    """Refuse what `open_target` would, and leave everything as it is: nothing is made, filled or removed.

    What only matters to a file that is made takes no part.
    """
    wanted = _Request(Path(name), name, writes, permission, direct)
    found = look(wanted.path, name)
    if found is None:
        _refuse_new(wanted)
        fill.refuse_uncreatable(
            wanted.path,
            _size_of_new(file_bytes, needed_bytes),
            direct=direct,
            fill_with=fill_with,
            to_be_known=writes and not permission.allow_writes,
        )
        return
    if not stat.S_ISBLK(found.st_mode) and not stat.S_ISREG(found.st_mode):
        raise IotraceError(
            f"target '{name}' is neither a file nor a block device", hint="choose a file or a disk"
        )
    is_device = stat.S_ISBLK(found.st_mode)
    target = _open_device(wanted, found) if is_device else _open_file(wanted, found)
    _close_all(target.file, target.others)


def _size_of_new(file_bytes: int | None, needed_bytes: int) -> int:
    return max(file_bytes or needed_bytes, 4096)


def _refuse_new(wanted: _Request) -> None:
    refuse_database_name(wanted.path, wanted.name)
    if wanted.path.parent.is_dir():
        refuse_memory(wanted.path.parent, wanted.name, direct=wanted.direct)


def look(
    path: Path, name: str, in_words: Callable[[str, OSError], IotraceError] = opening_error
) -> os.stat_result | None:
    """What is there, following links; None if nothing is. Raises `IotraceError` for a folder and a dead link."""
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise IotraceError(
                f"target '{name}' is a symbolic link to nothing", hint="name the file itself"
            ) from None
        return None
    except OSError as problem:
        raise in_words(name, problem) from problem
    if stat.S_ISDIR(found.st_mode):
        raise IotraceError(
            f"target '{name}' is a folder", hint=f"name a file in it: {path / 'iotrace.target'}"
        )
    return found


def refuse_changed(targets: Sequence[Target]) -> None:
    """Refuse to write the first byte where a target is not what it was when it was opened and looked at."""
    for target in targets:
        if reason := target.change():
            raise IotraceError(
                f"target '{target.name}' is not written: {reason}", hint="find out who else uses it"
            )


def changes_of(targets: Sequence[Target]) -> list[str]:
    """What happened to the targets while they were played on: a sentence for each to which something did."""
    return [
        f"target '{target.name}' was changed while it was played on: {reason}"
        for target in targets
        if (reason := target.change())
    ]


def refuse_empty(name: str, size_bytes: int, block_bytes: int) -> None:
    """Refuse a target without a single block."""
    if size_bytes < block_bytes:
        raise IotraceError(
            f"target '{name}' is empty", hint="choose a new file, which iotrace creates and fills"
        )


def _open_new(
    wanted: _Request,
    size_bytes: int,
    fill_with: fill.Fill,
    seed: int,
    progress: Callable[[int, int], None] | None,
    patience_seconds: float,
) -> Target:
    _refuse_new(wanted)
    fill.create(
        wanted.path,
        size_bytes,
        direct=wanted.direct,
        seed=seed,
        fill_with=fill_with,
        progress=progress,
        to_be_known=wanted.writes and not wanted.permission.allow_writes,
        patience_seconds=patience_seconds,
    )
    return _open_file(wanted, None)


def _open_file(wanted: _Request, seen: os.stat_result | None) -> Target:
    """Open a file; ``seen`` is what lay there when the path was looked at."""
    path, name, writes, direct = wanted.path, wanted.name, wanted.writes, wanted.direct
    file = _open(path, name, writes=writes, direct=direct, extra=os.O_NOFOLLOW if writes else 0)
    others = None
    try:
        found = os.fstat(file)
        same = seen is None or (seen.st_dev, seen.st_ino) == (found.st_dev, found.st_ino)
        _refuse_swapped(name, same=same and stat.S_ISREG(found.st_mode))
        own = fill.fill_of(file)
        if writes:
            _refuse_named_otherwise(file, path, name, found)
            fill.lock(file, name)
            refuse_use(name, holders.use_of_file(file))
            others = holders.ClosedWriters(file)  # before its content is looked at
            refuse_content(file, name, found, found.st_size)
            marked = fill.was_ours(file)
            if own is None:
                refuse_use(name, holders.unseen_use_of_file(file))
            refuse_foreign_file(name, wanted.permission, own=own is not None, marked=marked)
        refuse_memory(path, name, direct=direct)
        facts = block_device.facts(found.st_dev)
        block_bytes = _probe(file, name, facts.logical_block_bytes, found.st_size, direct=direct)
        return Target(
            name=name,
            kind="file",
            file=file,
            bytes=found.st_size,
            direct=direct,
            writable=writes,
            fill=own,
            device_number=found.st_dev,
            facts=facts,
            filesystem=block_device.filesystem_of(path),
            block_bytes=block_bytes,
            others=others,
        )
    except BaseException:
        _close_all(file, others)
        raise


def _open_device(wanted: _Request, seen: os.stat_result) -> Target:
    """Open a device; ``seen`` is what the path named when it was looked at."""
    path, name, writes, direct = wanted.path, wanted.name, wanted.writes, wanted.direct
    sequence = block_device.sequence(seen.st_rdev)
    wiping = None
    if writes:
        refuse_use(name, holders.use_of_device(seen.st_rdev, path))
        _look_into_device(path, name)
        refuse_device_by_name(path, name, wanted.permission)
        wiping = f"if nobody needs that, remove it yourself first: wipefs --all {name}"
    # O_EXCL: the kernel itself refuses what is mounted, swapped on or held by a volume manager.
    file = _open(path, name, writes=writes, direct=direct, extra=os.O_NOFOLLOW | os.O_EXCL if writes else 0)
    try:
        found = os.fstat(file)
        same = stat.S_ISBLK(found.st_mode) and found.st_rdev == seen.st_rdev
        _refuse_swapped(name, same=same and block_device.sequence(found.st_rdev) == sequence)
        size_bytes = os.lseek(file, 0, os.SEEK_END)
        if writes:
            refuse_use(name, holders.use_of_device(found.st_rdev, path))
            refuse_content(file, name, found, size_bytes, wiping=wiping)
        facts = block_device.facts(found.st_rdev)
        return Target(
            name=name,
            kind="partition" if facts.partition else "disk",
            file=file,
            bytes=size_bytes,
            direct=direct,
            writable=writes,
            fill=None,
            device_number=found.st_rdev,
            facts=facts,
            filesystem=None,
            block_bytes=_probe(file, name, facts.logical_block_bytes, size_bytes, direct=direct),
            sequence=sequence,
        )
    except BaseException:
        os.close(file)
        raise


def _close_all(file: int, others: holders.ClosedWriters | None) -> None:
    if others is not None:
        others.close()
    os.close(file)


def _refuse_swapped(name: str, *, same: bool) -> None:
    if not same:
        raise changed_while_opened(name)


def _refuse_named_otherwise(file: int, path: Path, name: str, opened: os.stat_result) -> None:
    """Refuse an open file unless, at one moment, ``path`` is its name, its only one, and no database's.

    Name and number of names come from one call: between two, a file could lose one name and get another.
    """
    try:
        named = path.lstat()
    except OSError as problem:
        raise opening_error(name, problem) from problem
    refuse_several_names(
        name, named if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) else opened
    )
    _refuse_swapped(name, same=(named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino))
    refuse_database_name(path, name)
    refuse_database_name(Path(f"/proc/self/fd/{file}").readlink(), name)


def _look_into_device(path: Path, name: str) -> None:
    """Refuse a device that holds something, whatever is permitted."""
    file = _open(path, name, writes=False, direct=False, extra=os.O_NONBLOCK)
    try:
        refuse_content(file, name, os.fstat(file), os.lseek(file, 0, os.SEEK_END))
    finally:
        os.close(file)


def _own_fill(path: Path) -> fill.Fill | None:
    """What iotrace filled the file at ``path`` with; None for links, and for what it did not make."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return fill.fill_of(file) if os.fstat(file).st_nlink == 1 else None
    finally:
        os.close(file)


def _discard_own(path: Path, name: str) -> None:
    """Remove a file of iotrace's own to make it anew, unless a replay is on it."""
    file = _open(path, name, writes=True, direct=False, extra=os.O_NOFOLLOW)
    try:
        fill.lock(file, name)
        refuse_use(name, holders.use_of_file(file))
        opened, named = os.fstat(file), path.lstat()
        if fill.fill_of(file) is not None and (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino):
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
    refuse_empty(name, size_bytes, block_bytes)
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
