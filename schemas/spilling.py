"""Private folders for what does not fit in memory, and for what is unpacked: gone afterwards, or at the next start.

A killed process cannot clean up. Its folder is known by its name and a lock that goes with the process, and the next
command that needs such a folder in the same place removes it.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from .durable import FOLDER_MODE
from .locking import FileLock

_PREFIX: Final = ".iotrace-spill-"
_LOCK: Final = "in-use"


@contextmanager
def private_room(parent: Path | None = None) -> Iterator[Path]:
    """A new folder of mode 0700 in ``parent``, by default the system's for temporary files. Raises ``OSError``."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    _remove_leftovers(place)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    folder.chmod(FOLDER_MODE)
    try:
        with _in_use(folder):
            room = folder / "room"
            room.mkdir(FOLDER_MODE)
            yield room
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """Tells others that a process has ``folder``."""
    if os.name == "nt":  # locks tell nothing there, and an open file cannot be renamed
        yield
        return
    lock = FileLock.take(folder / f"{_LOCK}.new")
    try:
        (folder / f"{_LOCK}.new").rename(folder / _LOCK)  # seen by others only when it is held
        yield
    finally:
        lock.release()


def _remove_leftovers(place: Path) -> None:
    """Only folders of this user, and only those whose process is gone."""
    if os.name == "nt":
        return  # nothing there tells whose process is gone
    for folder in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if is_own and (folder / _LOCK).is_file() and FileLock.is_free(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)
