"""What a replay must not write, and the words that say so.

Nothing that iotrace did not create is ever written without ``allow_writes`` and, for a device, its path repeated in
``destroy_data``. Even then what somebody uses, what bears the mark of a file system, a database or the like, a
symbolic link, a file of several names and one named like a database's are refused; and they are refused before
permissions are spoken of, so that no hint says how to destroy them. What can be decided on the open file is decided
there and not on its path. A path may be given to another file at any moment, so what it names is compared with what is
open after the opening, again before the first write, and once more after the last.
"""

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from iotrace.schemas import IotraceError
from iotrace.schemas.plain_files import without_working_folder
from iotrace.schemas.writer import is_output

from . import block_device
from .fill import plain_view
from .signatures import signature_of

DATABASE_SUFFIXES = (
    ".mdf", ".ndf", ".ldf",  # SQL Server
    ".ibd", ".frm", ".myd", ".myi", ".mad", ".mai", "aria_log_control",  # MySQL, MariaDB: rows of MyISAM have no mark
    ".dbf", ".wt",  # Oracle, MongoDB
)  # fmt: skip
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
"""They take direct I/O or its flag, and have no disk below."""


class DirectIoRefusedError(IotraceError):
    """The place of a target lets no I/O past the cache; ``buffered`` plays on it all the same."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What the user allows: writing to what iotrace did not make, and the devices whose data may be destroyed."""

    allow_writes: bool = False
    destroy_data: tuple[str, ...] = ()


def is_database_name(path: Path) -> bool:
    """Whether a file is named like a database's."""
    return path.name.lower().endswith(DATABASE_SUFFIXES)


def refuse_database_name(path: Path, name: str) -> None:
    """A file named like a database's is not written, nor made, whatever is permitted: a test needs none."""
    if is_database_name(path):
        raise IotraceError(
            f"target '{name}' is named like a database file, and is not written", hint="choose another name"
        )


def refuse_output_as_target(targets: Iterable[str], output: Path) -> None:
    """Refuse a target where the result is to go: found out at the end, all that was measured would be lost."""
    # Of storage that does not answer nothing may be asked yet, and of some names of Windows nothing ever.
    place = Path(os.path.abspath(output))  # noqa: PTH100
    for name in targets:
        target = Path(os.path.abspath(name))  # noqa: PTH100
        if place == target or place in target.parents:
            raise IotraceError(
                f"target '{name}' is where the result is to go, '{output}'",
                hint="choose another name for one of them: --target is played on, -o is written",
            )


def refuse_recording(name: str) -> None:
    """Refuse a target that is or lies in a recording or sweep, which is no place for test data."""
    try:
        target = Path(name).resolve()
    except FileNotFoundError as problem:
        raise without_working_folder(name) from problem
    except (OSError, RuntimeError) as problem:  # a circle of links, or one replaced while it is followed
        raise changed_while_opened(name) from problem
    if folder := recording_around(target):
        what = "is" if folder == target else f"lies in '{folder}',"
        raise IotraceError(
            f"target '{name}' {what} a recording of iotrace's, and is never a target",
            hint="--target names the file or disk to play on; a new file is made and filled",
        )


def recording_around(path: Path) -> Path | None:
    """The recording or sweep that ``path`` is or lies in, if any."""
    return next((folder for folder in (path, *path.parents) if is_output(folder)), None)


def refuse_foreign_file(name: str, permission: Permission, *, own: bool, marked: bool) -> None:
    """Refuse an open file that iotrace did not make as it now is.

    ``own``: it carries a mark that holds. ``marked``: it carries one at all.
    """
    if own or permission.allow_writes:
        return
    if marked:
        raise IotraceError(
            f"target '{name}' was changed since iotrace made it, and is not written",
            hint="delete it if nobody needs it; iotrace makes it anew",
        )
    raise IotraceError(
        f"target '{name}' was not made by iotrace, and is not written",
        hint="choose a new file, which iotrace creates; or --allow-writes if its contents may be destroyed",
    )


def refuse_several_names(name: str, found: os.stat_result) -> None:
    """Refuse a file that has other names, under which somebody may know it."""
    if found.st_nlink != 1:
        raise IotraceError(
            f"target '{name}' is one of {found.st_nlink} names of the same file, and is not written",
            hint="choose a new file; iotrace creates it",
        )


def refuse_content(
    file: int, name: str, found: os.stat_result, size_bytes: int, *, wiping: str | None = None
) -> None:
    """Refuse an open file or device that bears the mark of a file system, a database or the like.

    ``wiping``: what the user may do who has given up its data by name.
    """
    try:
        with plain_view(file) as plain:
            if (os.fstat(plain).st_dev, os.fstat(plain).st_ino) != (found.st_dev, found.st_ino):
                raise changed_while_opened(name)
            mark = signature_of(plain, size_bytes)
    except OSError as problem:
        raise IotraceError(
            f"target '{name}' is not written: what it holds cannot be read ({problem.strerror or problem})",
            hint="choose another target, or a new file, which iotrace creates",
        ) from problem
    if mark:
        raise IotraceError(
            f"target '{name}' is not written: it holds {mark}",
            hint=wiping or "choose another target, or a new file, which iotrace creates",
        )


def refuse_use(name: str, reason: str | None) -> None:
    """Refuse what somebody else uses; ``reason`` in words, None if nobody does."""
    if reason:
        raise IotraceError(
            f"target '{name}' is not written: {reason}", hint="choose a file or device that nobody uses"
        )


def changed_while_opened(name: str) -> IotraceError:
    """The user's words for a path that came to mean something else."""
    return IotraceError(f"target '{name}' changed while it was opened", hint="find out who else uses it")


def refuse_device_by_name(path: Path, name: str, permission: Permission) -> None:
    """Refuse a device: a link, or one whose data was not given up. Whether it is used is looked at before."""
    if path.is_symlink():
        raise IotraceError(
            f"target '{name}' is a symbolic link, and is not written",
            hint=f"name the device itself: {path.resolve()}",
        )
    if not permission.allow_writes:
        raise IotraceError(
            f"target '{name}' is a device and the replay writes",
            hint=f"to destroy what it holds: --allow-writes --destroy-data {name}; or play the reads with --reads-only",
        )
    if name not in permission.destroy_data:
        raise IotraceError(
            f"target '{name}' is a device whose data you have not given up by name",
            hint=f"to destroy what it holds, repeat its name: --destroy-data {name}",
        )


def refuse_memory(place: Path, name: str, *, direct: bool) -> None:
    """Refuse direct I/O to a file system that lives in memory."""
    kind = block_device.filesystem_of(place)
    if direct and kind in _IN_MEMORY:
        raise DirectIoRefusedError(
            f"target '{name}' lies on {kind}, which keeps its files in memory: there is no disk to measure",
            hint="choose another place, or play on memory knowingly with --buffered",
        )


def opening_error(name: str, problem: OSError) -> IotraceError:
    """The user's words for a target that the system does not open."""
    match problem.errno:
        case errno.ELOOP:
            return IotraceError(
                f"target '{name}' is a symbolic link, and is not written", hint="name the file itself"
            )
        case errno.EBUSY:
            return IotraceError(
                f"target '{name}' is not written: the system is using it",
                hint="choose a device that nobody uses",
            )
        case errno.EINVAL:
            return DirectIoRefusedError(
                f"target '{name}' lies on a file system without direct I/O",
                hint="choose another place, or play through the cache knowingly with --buffered",
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return IotraceError(
                f"target '{name}' cannot be opened: {problem.strerror}",
                hint="check its permissions; disks need root",
            )
        case _:
            return IotraceError(
                f"target '{name}' cannot be opened: {problem.strerror}", hint="check the path"
            )
