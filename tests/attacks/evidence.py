"""What lies on a disk, told so exactly that nothing can be written, exchanged or removed unseen."""

import hashlib
import os
import stat
from pathlib import Path


def evidence(*folders: Path) -> dict[str, str]:
    """Everything below ``folders`` by path: its kind and numbers, and the SHA-256 of what it holds."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in (folder, *sorted(folder.rglob("*"))):
            found[str(path)] = evidence_of(path)
    return found


def evidence_of(path: Path) -> str:
    """The same of one path, links not followed."""
    told = path.lstat()
    what = f"{stat.filemode(told.st_mode)} {told.st_ino}"
    if stat.S_ISLNK(told.st_mode):
        return f"{what} to {path.readlink()}"
    if stat.S_ISREG(told.st_mode):
        with path.open("rb") as file:
            return f"{what} of {told.st_size}: {hashlib.file_digest(file, 'sha256').hexdigest()}"
    return f"{what} {told.st_rdev}"


def device_sum(device: str | Path) -> str:
    """The SHA-256 of all that a block device holds on its medium."""
    with Path(device).open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()
