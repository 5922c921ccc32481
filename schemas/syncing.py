"""Forces what a growing recording holds to the disk, at a rhythm, and without holding its writer up."""

import threading
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from .durable import create_private_folder, replacing, sync_file, sync_folder

SYNC_SECONDS: Final = 10
"""What was recorded this long ago, and as long as the disk takes to write it, is there after a power cut."""

SYNCED: Final = "synced"
"""Folder with the last copy of each small file that is known to be on the disk.

The files themselves are replaced about once a second by renaming, of which a power cut may leave an empty file.
"""


class BackgroundSync:
    """One thread at a time syncs files, then the small files of ``folder``, whose copies it puts into `SYNCED`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread: threading.Thread | None = None
        self._due_at = 0.0
        self._problem: OSError | None = None
        self._synced: set[Path] = set()
        self._copied: dict[str, tuple[int, int]] = {}

    def is_due(self) -> bool:
        """Whether it is time for the next `begin`. Raises ``OSError`` that the last one ran into."""
        if self._thread is not None and self._thread.is_alive():
            return False
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        return time.monotonic() >= self._due_at

    def begin(self, files: Collection[Path]) -> None:
        """Start to sync ``files``; those that are removed meanwhile do not matter."""
        self._due_at = time.monotonic() + SYNC_SECONDS
        self._thread = threading.Thread(target=self._run, args=(set(files),), daemon=True)
        self._thread.start()

    def take_synced(self) -> set[Path]:
        """Files that are on the disk as they were when `begin` was called, each told once."""
        if self._thread is not None and self._thread.is_alive():
            return set()
        synced, self._synced = self._synced, set()
        return synced

    def wait(self) -> None:
        """Let what was begun come to its end."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, files: set[Path]) -> None:
        try:
            sync_files(files)
            self._copy_small_files()
            self._synced |= files
        except OSError as problem:
            self._problem = problem

    def _copy_small_files(self) -> None:
        """Tables first, then the manifest, so that nothing it speaks of is missing."""
        folder = self._folder / SYNCED
        if not folder.is_dir():
            create_private_folder(folder)
            sync_folder(self._folder.parent)
        files = [path for path in self._folder.glob("*.parquet") if not path.name.startswith(".")]
        for path in [*files, self._folder / "manifest.json"]:
            with suppress(FileNotFoundError), path.open("rb") as file:
                found = path.stat()
                mark = (found.st_ino, found.st_mtime_ns)
                if self._copied.get(path.name) == mark:
                    continue
                content = file.read()
                with replacing(folder / path.name, private=True) as new:
                    new.write_bytes(content)
                self._copied[path.name] = mark


def sync_files(files: Collection[Path]) -> None:
    """Wait until files and their names are on the disk; those that are gone do not matter. Raises ``OSError``."""
    for path in files:
        with suppress(FileNotFoundError):
            sync_file(path)
    for folder in {path.parent for path in files}:
        with suppress(FileNotFoundError):
            sync_folder(folder)
            sync_folder(folder.parent)
