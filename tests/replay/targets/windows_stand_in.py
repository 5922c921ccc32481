"""What `windows_files` asks of Windows, answered by this system: enough to try the rules built on it."""

import errno
import os
from pathlib import Path
from types import ModuleType

SHARING_VIOLATION = 32


class SharingViolationError(OSError):
    """As Windows says that somebody else has a file open."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "The process cannot access the file")
        self.winerror = SHARING_VIOLATION


class WindowsFiles(ModuleType):
    """Open files are known by their numbers here, so that deleting by handle is deleting what is open."""

    def __init__(self) -> None:
        super().__init__("iotrace.replay.targets.windows_files")
        self.filesystem = "NTFS"
        self.attributes = 0
        self.open_elsewhere: set[Path] = set()
        self.locked: set[tuple[int, int]] = set()
        self.missing_bytes = 0
        """How much of a file the volume does not allocate."""
        self.real_name: Path | None = None
        self._paths: dict[int, Path] = {}

    def open_file(
        self,
        path: Path,
        *,
        writes: bool = False,
        new: bool = False,
        follow: bool = False,
        alone: bool = False,
        delete: bool = False,
        direct: bool = False,
    ) -> int:
        if (alone or delete) and path in self.open_elsewhere:
            raise SharingViolationError
        flags = (os.O_RDWR if writes else os.O_RDONLY) | (os.O_CREAT | os.O_EXCL if new else 0)
        del follow, direct
        file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._paths[file] = path
        return file

    def handle_of(self, file: int) -> int:
        return file

    def lock(self, file: int) -> None:
        found = os.fstat(file)
        if (found.st_dev, found.st_ino) in self.locked:
            raise SharingViolationError

    def reserve(self, file: int, size_bytes: int) -> None:
        os.posix_fallocate(file, 0, size_bytes)
        os.ftruncate(file, 0)

    def delete(self, file: int) -> None:
        self._paths[file].unlink()

    def allocated_bytes(self, file: int) -> int:
        return os.fstat(file).st_size - self.missing_bytes

    def sector_bytes(self, _file: int) -> tuple[int, int] | None:
        return 512, 4096

    def final_path(self, file: int) -> Path:
        return self.real_name or self._paths[file]

    def filesystem_of(self, _path: Path) -> str | None:
        return self.filesystem
