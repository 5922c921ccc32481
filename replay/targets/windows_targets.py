"""Opening a file to play on, on Windows: the rules of `targets` for files, with what Windows offers to keep them.

Disks and volumes are refused. The mark of iotrace's own files lies beside them, as ``NAME.iotrace-mark``. It names
volume, file, size, time of last change and a checksum of parts of the content: a copy, a replacement, or a file that
somebody else has written to since is not recognised, and so never written.
"""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from iotrace.schemas import IotraceError

from . import fill, windows_files
from .block_device import DeviceFacts
from .refusals import (
    Permission,
    refuse_content,
    refuse_database_name,
    refuse_foreign_file,
    refuse_several_names,
)
from .silent_storage import PATIENCE_SECONDS, Report, patiently
from .target import Target, look, refuse_empty
from .windows_rules import refuse_attributes, refuse_changed_bytes, refuse_filesystem, refuse_name

assert sys.platform == "win32"  # for the type checker

MARK_SUFFIX = ".iotrace-mark"
_BLOCK_BYTES = 4096
_IN_USE = frozenset({32, 33})
"""ERROR_SHARING_VIOLATION and ERROR_LOCK_VIOLATION."""


class WindowsTarget(Target):
    """An open file; ``file`` is a descriptor, of which the engine gets the handle."""

    __slots__ = ()

    @property
    def engine_file(self) -> int:
        """The handle, which the engine opens again for itself."""
        return windows_files.handle_of(self.file)

    def change(self) -> str | None:
        """Nothing: nobody can delete or rename a file that is open like this. It can get a further name, though."""
        names = os.fstat(self.file).st_nlink
        return f"it has {names} names now" if self.writable and names != 1 else None

    def close(self) -> None:
        """Close it, and renew the mark of a file of iotrace's own that was written."""
        before = os.fstat(self.file)
        os.close(self.file)
        if self.fill is not None and self.writable:
            # Windows tells the time of last change for certain only when all who wrote have closed the file.
            with contextlib.suppress(OSError, IotraceError):
                _mark(Path(self.name), self.fill, before)


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
    """As `targets.open_target`, for files. Raises `IotraceError` naming ``name`` for whatever is refused."""
    refuse_name(name)
    path = Path(name)

    def make() -> Target:
        refuse_database_name(path, name)
        size_bytes = max(file_bytes or needed_bytes, _BLOCK_BYTES)

        def work(report: Report) -> None:
            _create(path, name, size_bytes, fill_with, direct=direct, seed=seed, progress=report)

        patiently(name, work, progress=progress, patience_seconds=patience_seconds)
        return _open(path, name, writes=writes, direct=direct, permission=permission)

    found = look(path, name, _error)
    if found is None:
        return make()
    _refuse_irregular(name, found)
    too_small = found.st_size < (needed_bytes if least_bytes is None else least_bytes)
    if _discard_own(
        path,
        name,
        lambda own: too_small or file_bytes not in {None, found.st_size} or own != fill_with,
    ):
        return make()
    return _open(path, name, writes=writes, direct=direct, permission=permission)


def _open(path: Path, name: str, *, writes: bool, direct: bool, permission: Permission) -> Target:
    """Open a file. What may not be written is found out on the open file, which nobody can rename or delete then."""
    try:
        if writes:  # Fails while anybody else writes to it, a database server for one.
            os.close(windows_files.open_file(path, writes=True, alone=True))
        file = windows_files.open_file(path, writes=writes, follow=not writes)
    except OSError as problem:
        raise _error(name, problem) from problem
    try:
        found = os.fstat(file)
        refuse_attributes(name, _attributes(found), writes=writes, direct=direct)
        own, filesystem = _fill_of(file, path), windows_files.filesystem_of(path)
        if writes:
            refuse_filesystem(name, filesystem)
            refuse_database_name(path, name)
            refuse_database_name(windows_files.final_path(file), name)
            marked = _mark_path(path).exists()
            refuse_several_names(name, found)
            _lock(file, name)
            refuse_content(file, name, found, found.st_size)
            refuse_foreign_file(name, permission, own=own is not None, marked=marked)
        logical, physical = windows_files.sector_bytes(file) or (_BLOCK_BYTES, None)
        _refuse_irregular(name, found)
        refuse_empty(name, found.st_size, logical)
        return WindowsTarget(
            name=name,
            kind="file",
            file=file,
            bytes=found.st_size,
            direct=direct,
            writable=writes,
            fill=own,
            device_number=found.st_dev,
            facts=DeviceFacts("", logical, physical, None, None, None, partition=False),
            filesystem=filesystem,
            block_bytes=logical,
        )
    except OSError as problem:
        os.close(file)
        raise _error(name, problem) from problem
    except BaseException:
        os.close(file)
        raise


def _refuse_irregular(name: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise IotraceError(f"target '{name}' is no file", hint="choose a file")


def _lock(file: int, name: str) -> None:
    try:
        windows_files.lock(file)
    except OSError as problem:
        raise IotraceError(
            f"target '{name}' is in use by another replay", hint="wait for it, or choose another file"
        ) from problem


def _discard_own(path: Path, name: str, unwanted: Callable[[fill.Fill], bool]) -> bool:
    """Delete the file if it is iotrace's own, no replay is on it, and it is ``unwanted``. What is open is what goes."""
    try:
        file = windows_files.open_file(path, delete=True)
    except OSError:
        return False  # opening it says why
    try:
        own = _fill_of(file, path)
        if own is None or os.fstat(file).st_nlink != 1 or not unwanted(own):
            return False
        _lock(file, name)
        windows_files.delete(file)
    except OSError as problem:
        raise _error(name, problem) from problem
    finally:
        os.close(file)
    return True


def _create(
    path: Path,
    name: str,
    size_bytes: int,
    fill_with: fill.Fill,
    *,
    direct: bool,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Make a file of at least ``size_bytes``, under its name only when it is whole; nothing is left on a failure."""
    size_bytes = -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
    if path.parent.is_dir():
        refuse_filesystem(name, windows_files.filesystem_of(path.parent.resolve()))
        _refuse_taken_mark(path, name)
        free = shutil.disk_usage(path.parent).free
        if free < size_bytes:
            raise fill.no_room(name, size_bytes, free)
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        file = windows_files.open_file(partial, writes=True, new=True, alone=True, direct=direct)
    except OSError as problem:
        raise fill.creation_error(path, problem) from problem
    try:
        try:
            with contextlib.suppress(OSError):  # a help against fragments; writing tells if there is no room
                windows_files.reserve(file, size_bytes)
            fill.write(file, fill.Data(fill_with, size_bytes, seed), size_bytes, progress)
            os.fsync(file)
            found = os.fstat(file)
            refuse_changed_bytes(name, _attributes(found), found.st_size, windows_files.allocated_bytes(file))
        finally:
            os.close(file)
        partial.rename(path)  # unlike on Linux, this fails where the name is taken
    except OSError as problem:
        if problem.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise fill.no_room(name, size_bytes, shutil.disk_usage(path.parent).free, problem) from problem
        raise fill.creation_error(path, problem) from problem
    finally:
        partial.unlink(missing_ok=True)
    try:
        _mark(path, fill_with, found)
    except OSError as problem:
        raise fill.creation_error(_mark_path(path), problem) from problem


def _mark_path(path: Path) -> Path:
    return path.with_name(path.name + MARK_SUFFIX)


def _fill_of(file: int, path: Path) -> fill.Fill | None:
    """What iotrace filled the open file with, by the mark beside it."""
    try:
        with _mark_path(path).open("rb") as mark:
            return fill.noted_fill(mark.read(65536), file)
    except OSError:
        return None


def _mark(path: Path, fill_with: fill.Fill, before: os.stat_result) -> None:
    """Note beside the file that iotrace left it as it now is, if it is still the one it was.

    Nobody else writes meanwhile.
    """
    file = windows_files.open_file(path, alone=True)
    try:
        found = os.fstat(file)
        if (found.st_dev, found.st_ino, found.st_size) != (before.st_dev, before.st_ino, before.st_size):
            return
        _refuse_taken_mark(path, str(path))
        mark = _mark_path(path)
        partial = mark.with_name(f".{mark.name}.partial-{secrets.token_hex(4)}")
        try:
            with partial.open("xb") as note:
                note.write(fill.note(file, fill_with))
                note.flush()
                os.fsync(note.fileno())
            partial.replace(mark)
        finally:
            partial.unlink(missing_ok=True)
    finally:
        os.close(file)


def _refuse_taken_mark(path: Path, name: str) -> None:
    """Refuse to lay a mark over somebody's file."""
    mark = _mark_path(path)
    try:
        with mark.open("rb") as there:
            if fill.is_note(there.read(65536)):
                return
    except FileNotFoundError:
        return
    raise IotraceError(
        f"beside target '{name}' lies '{mark.name}', which is not iotrace's: its mark would go there",
        hint="choose another name for the target",
    )


def _attributes(found: os.stat_result) -> int:
    return int(getattr(found, "st_file_attributes", 0))


def _error(name: str, problem: OSError) -> IotraceError:
    """The user's words for what Windows does not open."""
    if getattr(problem, "winerror", None) in _IN_USE:
        return IotraceError(
            f"target '{name}' is in use: another program or replay has it open",
            hint="choose a file that nobody uses",
        )
    if isinstance(problem, PermissionError):
        return IotraceError(
            f"target '{name}' cannot be opened: {problem.strerror}", hint="check its permissions"
        )
    return IotraceError(f"target '{name}' cannot be opened: {problem.strerror}", hint="check the path")
