"""A lock on a file that goes with its process, however that ends."""

import os
from pathlib import Path
from typing import IO, Self

from .durable import open_private

if os.name == "posix":
    import fcntl


class FileLock:
    """Held until `release`, or the end of the process."""

    def __init__(self, file: IO[bytes]) -> None:
        """Use `take`."""
        self._file = file

    @classmethod
    def take(cls, path: Path) -> Self:
        """Create the file and lock it. Raises ``OSError`` if another process holds it."""
        file = open_private(path, "ab")
        if os.name == "posix":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise
        return cls(file)

    @staticmethod
    def is_free(path: Path) -> bool:
        """Whether nobody holds the lock on ``path``."""
        try:
            FileLock.take(path).release()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let go; more than once does no harm."""
        self._file.close()
