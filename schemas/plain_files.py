"""Looking at files that a user or a stranger's recording names, and at the kernel's own that hold such names."""

import errno
import os
import stat
import sys
from pathlib import Path

from .errors import IotraceError


def resolved(path: Path) -> Path:
    """Where ``path`` leads. Raises `IotraceError` for links that lead in a circle, and where no working folder is."""
    try:
        found = path.resolve()
    except FileNotFoundError as problem:  # of the working folder: what else is not there yet is no error
        raise without_working_folder(str(path)) from problem
    except (OSError, RuntimeError) as problem:
        raise _circle(path) from problem
    if found.is_symlink():  # from Python 3.13 on, a circle is no error above
        raise _circle(path)
    return found


def _circle(path: Path) -> IotraceError:
    return IotraceError(
        f"'{path}' leads nowhere: it is a link that leads back to itself",
        hint="remove the link, or choose another name",
    )


def without_working_folder(name: str | None = None) -> IotraceError:
    """The user's words where the working folder was deleted, so that ``name``, if it is known, leads from nowhere."""
    gone = "the working folder was deleted"
    return IotraceError(
        gone if name is None else f"'{name}' leads nowhere: {gone}",
        hint="change to a folder that is there (cd), or give whole paths",
    )


def has_working_folder() -> bool:
    """Tell whether names that are no whole paths lead anywhere."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def file_bytes_max() -> int | None:
    """What the shell, service or container lets a file grow to (``ulimit -f``); None where it sets no limit."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - Windows has none

    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if most == resource.RLIM_INFINITY else most


def read_plain(path: Path, bytes_max: int) -> bytes:
    """What a plain file holds, or its first ``bytes_max`` + 1 bytes if that is more.

    Nothing of files that the kernel makes as they are read, some of which never end: they have no size. Raises
    ``OSError``, also for what is not a regular file; a FIFO is not waited for.
    """
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    if not stat.S_ISREG(path.stat().st_mode):  # opening a device may do something
        raise OSError(errno.EINVAL, "it is not a regular file")
    with os.fdopen(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(min(found.st_size, bytes_max + 1))


def kernel_lines(path: Path, errors: str = "surrogateescape") -> list[str]:
    """The lines of a text file of the kernel, in which blanks part the columns. Raises ``OSError``.

    They end in a line feed and in nothing else. Names of paths in them may hold whatever else Python ends a line with
    or takes for a blank, such as a carriage return: whoever may mount or map a file chooses them.
    """
    text = path.read_bytes().decode("utf-8", errors)
    return text.removesuffix("\n").split("\n") if text else []
