"""Runs the command line as far as a Windows Python would let it, on Linux: ``python windows_like.py [ARGUMENTS…]``.

What a Python for Windows lacks is taken away before iotrace is imported: modules, functions and constants of ``os`` and
others, and the recorder. What only Windows has is there by name, and does nothing. What is open cannot be renamed.
Other people's packages are imported first; they have Windows editions of their own. Without arguments every module of
iotrace that Windows has a use for is imported, and its name printed.
"""

import ctypes
import errno
import importlib
import os
import pathlib
import pkgutil
import signal
import sys
import time
import zoneinfo
from collections.abc import Callable
from types import ModuleType
from unittest.mock import MagicMock

THIRD_PARTY = """
    duckdb jinja2 numpy psutil pyarrow.compute pyarrow.csv pyarrow.ipc pydantic
    pyarrow.parquet rich.console rich.live rich.progress rich.table scipy.optimize scipy.special scipy.stats typer
"""
MODULES = "fcntl grp posix pty pwd resource syslog termios tty"
"""Absent from Python for Windows, by the "Availability" notes of the library reference; so are the names below."""
OS_NAMES = """
    O_CLOEXEC O_DIRECT O_DIRECTORY O_DSYNC O_NOATIME O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC O_TMPFILE chown confstr fchmod
    fchown fdatasync fork fstatvfs getegid geteuid getgid getloadavg getpgid getpriority getuid getxattr lchown
    listxattr lockf major makedev minor mkfifo mknod nice posix_fadvise posix_fallocate pread preadv pwrite pwritev
    readv removexattr sched_getaffinity sched_setaffinity sched_yield sendfile setxattr statvfs sync sysconf uname
    writev
"""
SIGNAL_NAMES = "SIGALRM SIGHUP SIGKILL SIGQUIT SIGUSR1 SIGUSR2 pthread_sigmask setitimer"
TIME_NAMES = "CLOCK_MONOTONIC CLOCK_REALTIME clock_getres clock_gettime"
ROOMS = ("schemas", "capture", "replay", "analyze", "cli")
LINUX_ONLY = "iotrace.capture.linux."


def become_windows() -> None:
    """Hide what Windows has not, and name what only it has."""
    for name in THIRD_PARTY.split():
        importlib.import_module(name)
    sys.platform, os.name = "win32", "nt"
    pathlib.WindowsPath = pathlib.PosixPath  # a Path asks os.name what it is
    sys.modules["msvcrt"] = ModuleType("msvcrt")
    zoneinfo.reset_tzpath(to=())  # a Windows Python has time zones from the package tzdata alone
    ctypes.WinDLL = MagicMock()  # type: ignore[attr-defined]
    for name in (*MODULES.split(), "iotrace.capture._recorder"):
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, OS_NAMES), (signal, SIGNAL_NAMES), (time, TIME_NAMES)):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    os.rename, os.replace = unless_open(os.rename), unless_open(os.replace)


def unless_open(
    rename: Callable[[str | os.PathLike[str], str | os.PathLike[str]], None],
) -> Callable[..., None]:
    """Windows refuses to rename a file that is open, or a folder that holds one, and to replace one."""

    def refusing(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        taken = [os.path.realpath(path) for path in (source, target)]
        for link in pathlib.Path("/proc/self/fd").iterdir():
            held = os.path.realpath(link)
            if any(held == path or held.startswith(f"{path}/") for path in taken):
                raise PermissionError(errno.EACCES, "Sharing violation", os.fspath(source))
        rename(source, target)

    return refusing


def import_everything() -> None:
    """Import what a user of Windows can reach, and print it."""
    rooms = (
        importlib.import_module(f"iotrace.{room}")
        for room in ("schemas", "capture", "replay", "analyze", "cli")
    )
    for room in rooms:
        print(room.__name__)
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            native = found.name.rpartition(".")[2].startswith("_")
            reachable = not found.name.startswith(LINUX_ONLY) or found.name.endswith(".not_linux")
            if reachable and not native:
                importlib.import_module(found.name)
                print(found.name)


if __name__ == "__main__":
    become_windows()
    if len(sys.argv) == 1:
        import_everything()
    else:
        from iotrace.cli.main import run

        sys.exit(run(sys.argv[1:]))
