"""Writing what a power cut must not take: a file is on the disk before its name, and its name before it is said so.

On ext4, XFS and btrfs a rename may reach the disk before the content of what was renamed, which leaves an empty file
under the new name. Everything that iotrace says is written goes through these functions.

What holds recordings is *private*: folders 0700 and files 0600 whatever the umask, since a recording names hosts,
files, programs and databases. Reports and exports are made to be passed on, and get what the user's umask gives.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, cast

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A name to write to; what is written there is on the disk as ``path`` when the context ends without an error.

    Otherwise ``path`` is as it was. Raises ``OSError``.
    """
    new = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        if private:
            create_private(new)
        yield new
        sync_file(new)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_text(path: Path, text: str, *, private: bool = False) -> None:
    """Make ``text`` all that ``path`` holds, on the disk when this returns. Raises ``OSError``, ``path`` as it was."""
    with replacing(path, private=private) as new:
        new.write_text(text, "utf-8", newline="\n")


def open_private(path: Path, mode: str) -> IO[bytes]:
    """Open a file, unbuffered, that only its owner may read if it is created. Raises ``OSError``."""
    return cast("IO[bytes]", open(path, mode, buffering=0, opener=_private))


def _private(path: str, flags: int) -> int:
    handle = os.open(path, flags, FILE_MODE)
    if os.name != "nt":
        os.fchmod(handle, FILE_MODE)  # the umask may have taken from it what the owner needs
    return handle


def create_private(path: Path) -> None:
    """Create an empty file that only its owner may read, for programs that open it by name. Raises ``OSError``."""
    open_private(path, "xb").close()


def create_private_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, and those above it that are missing. Raises ``OSError``."""
    create_folder(path.parent, exist_ok=True)
    path.mkdir(FOLDER_MODE)
    if os.name != "nt":
        path.chmod(FOLDER_MODE)
    sync_folder(path.parent)


def create_folder(path: Path, *, exist_ok: bool = False) -> None:
    """Create a folder and those above it that are missing, all of them on the disk. Raises ``OSError``."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        if folder is path and exist_ok and path.is_dir():
            continue
        folder.mkdir(exist_ok=folder is not path or exist_ok)
        sync_folder(folder.parent)


def sync_tree(folder: Path) -> None:
    """Wait until everything below ``folder`` is on the disk. Raises ``OSError``."""
    for root, _, names in os.walk(folder):
        for name in names:
            sync_file(Path(root) / name)
        sync_folder(Path(root))


def sync_file(path: Path) -> None:
    """Wait until a file's content is on the disk. Raises ``OSError``."""
    _sync(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises ``OSError``."""
    if os.name == "nt":
        return  # Windows cannot open a folder for syncing; NTFS keeps names in its journal
    try:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as problem:
        if problem.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:  # some network file systems cannot, either
            raise


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
