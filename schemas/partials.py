"""Hidden names under which results are written until they are whole, and what killed commands left under such names.

A killed process cannot clean up. What it was writing is known by its name, ``.NAME.partial-01234567``, by a mark that
went on together with a lock, and by that lock, which goes with the process. The next command that writes NAME removes
what in it has a name that iotrace gives, and nothing that is mounted there. Where the file system keeps no marks or no
locks, and on Windows, it stays.
"""

import ctypes
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

from .durable import create_folder, create_private_folder
from .errors import IotraceError
from .tables import TABLES

if os.name == "posix":
    import fcntl

MARK: Final = "user.iotrace.partial"
UNFINISHED: Final = b"unfinished"
"""The mark's value on what has its own name already while it is written, and an earlier result beside it."""
LEFT_NAME: Final = re.compile(r"\.(.+)\.partial-[0-9a-f]{8}")
"""A hidden name, and what it is to become."""
_TABLE: Final = f"({'|'.join(TABLES)})"
_RECORDING: Final = (
    rf"manifest\.json|writer\.lock|reserve|{_TABLE}(\.parquet|/(part-\d+\.parquet|tail-\d+\.arrows))"
    rf"|synced/(manifest\.json|{_TABLE}\.parquet)"
)
_SWEEP: Final = rf"sweep\.json|steps/\d+-[^/]+\.iotrace(\.unfinished)?/({_RECORDING})"
_GROWING: Final = re.compile(rf"{_SWEEP}|characterization\.json|[^/]+\.iotrace/({_SWEEP})")
_GIVEN: Final = re.compile(
    rf"{_GROWING.pattern}|([^/]+\.iotrace/)?({_RECORDING})"
    r"|export\.json|README\.txt|workload\.fio|replay\.(fio|iolog)|profile\.xml|command-lines\.txt"
    r"|plan\.json|README\.md|counters\.txt|kernel\.wprp|[a-z0-9-]+\.ps1|sql/[a-z0-9-]+\.sql"
)
"""Paths of the files in folders that iotrace writes. What is growing has its own name, where people see and use it."""
_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_RENAME_EXCHANGE: Final = 2
_UNKNOWN_TO_FILE_SYSTEM: Final = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


def beside(path: Path, word: str) -> Path:
    """A hidden name that nothing has."""
    return path.with_name(f".{path.name}.{word}-{secrets.token_hex(4)}")


class Claim:
    """A mark and a lock on a file or folder: whoever finds the mark without the lock knows that its maker is gone."""

    def __init__(self, path: Path) -> None:
        """Claim what this process has made, or is about to replace. Raises ``OSError``."""
        self._handle: int | None = None
        self._locked: tuple[int, int] | None = None
        if os.name != "posix":
            return
        self._handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # without a lock there is to be no mark
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(self._handle)
            self._locked = (found.st_dev, found.st_ino)
            _claimed.add(self._locked)
            if hasattr(os, "setxattr"):
                os.setxattr(self._handle, MARK, b"")

    def mark_unfinished(self) -> None:
        """It is about to get its own name, and is not finished."""
        if self._handle is not None and hasattr(os, "setxattr"):
            with suppress(OSError):
                os.setxattr(self._handle, MARK, UNFINISHED, os.XATTR_REPLACE)

    def unmark(self) -> None:
        """It has its own name, or has it again. The lock stays until `release`."""
        if self._handle is not None and hasattr(os, "removexattr"):
            with suppress(OSError):
                os.removexattr(self._handle, MARK)

    def release(self) -> None:
        """Let go; more than once does no harm."""
        if self._handle is not None:
            if self._locked is not None:  # a second claim of this process has no lock to give up
                _claimed.discard(self._locked)
            os.close(self._handle)
            self._handle = self._locked = None


_claimed: set[tuple[int, int]] = set()
"""What this process has claimed: its own locks are as closed to it as those of others."""


def is_claimed_elsewhere(folder: Path) -> bool:
    """Whether another process writes the folder just now."""
    if os.name != "posix":
        return False
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(handle)
        if (found.st_dev, found.st_ino) not in _claimed:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # a file system without locks
    finally:
        os.close(handle)
    return False


class Partial:
    """A context with a new file or folder at `path`, hidden beside ``target``; what is left there at its end goes.

    What killed commands left of ``target`` is removed first. Raises `IotraceError`.
    """

    def __init__(self, path: Path) -> None:
        """Use `folder` or `file`."""
        self.path = path
        self.claim: Claim | None = Claim(path)
        """None once it is somebody else's to let go."""

    @classmethod
    def folder(cls, target: Path, *, private: bool) -> Self:
        """An empty folder; folders above a private one are made where they are missing."""
        with _named(target):
            if private:
                create_folder(target.parent, exist_ok=True)
            remove_leftovers(target)
            path = beside(target, "partial")
            if private:
                create_private_folder(path)
            else:
                path.mkdir()
            return cls(path)

    @classmethod
    def file(cls, target: Path) -> Self:
        """An empty file with the mode that the umask gives."""
        with _named(target):
            remove_leftovers(target)
            path = beside(target, "partial")
            path.open("xb").close()
            return cls(path)

    def close(self) -> None:
        """Remove what is still there under this name; more than once does no harm."""
        if self.path.is_dir():
            _remove_tree(self.path, lambda _name: True)
        else:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        if self.claim is not None:
            self.claim.unmark()
            self.claim.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _named(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{target}': {problem.strerror}", hint="choose a folder you may write to with -o"
        ) from problem


def remove_leftovers(target: Path) -> None:
    """Remove what killed commands of this user were writing to become ``target``.

    An earlier result that lies there under such a name is left to `check_folder`.
    """
    for path in left_behind(target):
        if LEFT_NAME.fullmatch(path.name):
            remove_if_left(path)


def remove_if_left(path: Path) -> None:
    """Remove a folder or file that a killed command of this user was writing."""
    with taken_over(path) as is_ours:
        if is_ours and path.is_dir():
            remove_given_names(path)
        elif is_ours:
            with suppress(OSError):
                path.unlink()


def remove_given_names(folder: Path, *, in_sight: bool = False) -> None:
    """Remove files below ``folder`` whose paths are such as iotrace gives, and folders that are empty then.

    ``in_sight``: only what a sweep or a characterization is made of, which alone grow under their own names.
    """
    given = _GROWING if in_sight else _GIVEN
    _remove_tree(folder, lambda path: given.fullmatch(path) is not None)


def _remove_tree(folder: Path, may_go: Callable[[str], bool]) -> None:
    with suppress(OSError):
        _remove_below(folder, "", mounted_as(folder), may_go)


def _remove_below(folder: Path, within: str, mounted: tuple[int, str], may_go: Callable[[str], bool]) -> None:
    for entry in list(os.scandir(folder)):
        path, partial = Path(entry.path), LEFT_NAME.fullmatch(entry.name)
        name = f"{within}{partial[1] if partial else entry.name}"
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if mounted_as(path) == mounted:
                    _remove_below(path, f"{name}/", mounted, may_go)
            elif may_go(name):
                path.unlink()
    with suppress(OSError):
        folder.rmdir()


def mounted_as(folder: Path) -> tuple[int, str]:
    """The device and, on Linux, the mount that ``folder`` lies on: a folder may be mounted in another of its device.

    Raises ``OSError``.
    """
    if not hasattr(os, "O_PATH"):
        return folder.lstat().st_dev, ""
    handle = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            told = Path(f"/proc/self/fdinfo/{handle}").read_text("ascii")
        except OSError:
            told = ""
        found = re.search(r"^mnt_id:\s*(\d+)", told, re.MULTILINE)
        return os.fstat(handle).st_dev, found[1] if found else ""
    finally:
        os.close(handle)


def left_behind(target: Path) -> list[Path]:
    """Names under which something may lie that was to become ``target``, or was it, whoever has them."""
    own = re.escape(target.name)
    name = re.compile(rf"\.{own}\.(partial|old)-[0-9a-f]{{8}}|{own}\.unfinished")
    try:
        return [Path(entry.path) for entry in os.scandir(target.parent) if name.fullmatch(entry.name)]
    except OSError:
        return []


def is_unfinished(path: Path) -> bool:
    """Whether ``path`` was still being written under its own name; see `taken_over` for whether its writer is gone."""
    try:
        return hasattr(os, "getxattr") and os.getxattr(path, MARK, follow_symlinks=False) == UNFINISHED
    except OSError:
        return False


@contextmanager
def taken_over(path: Path) -> Iterator[bool]:
    """Whether ``path`` is what a process of this user claimed that is gone; its lock is held meanwhile."""
    if os.name != "posix" or not hasattr(os, "getxattr"):
        yield False
        return
    handle = None
    try:
        # A FIFO would wait for its other end, a device may do anything.
        kind = stat.S_IFMT(path.lstat().st_mode)
        if kind in {stat.S_IFREG, stat.S_IFDIR}:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(handle)
            os.getxattr(handle, MARK)
            is_ours = found.st_uid == os.geteuid() and os.path.samestat(found, path.lstat())
        else:
            is_ours = False
    except OSError:
        is_ours = False
    try:
        yield is_ours
    finally:
        if handle is not None:
            os.close(handle)


def exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; False where the system or the file system cannot. Raises ``OSError``."""
    return _rename(one, other, _RENAME_EXCHANGE)


def rename_to_free(path: Path, target: Path) -> None:
    """Rename ``path`` where nothing has the name; where the system cannot tell, an empty folder or a file is replaced.

    Raises ``OSError``.
    """
    if not _rename(path, target, _RENAME_NOREPLACE):
        path.rename(target)


def _rename(one: Path, other: Path, flags: int) -> bool:
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN_TO_FILE_SYSTEM:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


@cache
def _renameat2() -> Callable[..., int] | None:
    """The C library's function; None where there is none."""
    if os.name != "posix":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return cast("Callable[..., int]", function)
