"""What a power cut or a killed writer leaves of a growing recording: forcing keeps the loss small, mending opens it.

A thread forces what the recording holds to the disk, at a rhythm, and without holding its writer up. Any file may then
be there in an earlier state, empty, or with stretches of zeros where its content never reached the disk. Each exists
twice until one of the two is known to be on the disk (`growing`): here the better one is taken.
"""

import re
import shutil
import stat
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from .durable import create_private_folder, replacing, sync_file, sync_folder
from .errors import UNREADABLE, IotraceError
from .manifest import Manifest
from .recording import UNFINISHED_SUFFIX, misfit_values
from .streams import read_about, read_stream
from .tables import TABLES, misfit

SYNC_SECONDS: Final = 10
"""What was recorded this long ago, and as long as the disk takes to write it, is there after a power cut."""

SYNCED: Final = "synced"
"""Folder with the last copy of each small file that is known to be on the disk.

The files themselves are replaced about once a second by renaming, of which a power cut may leave an empty file.
"""
_HIDDEN: Final = r"\.{}\.(new|partial-[0-9a-f]{{8}})"
_SMALL: Final = rf"(manifest\.json|({'|'.join(TABLES)})\.parquet)"
SMALL: Final = re.compile(_SMALL)
_PIECE: Final = r"((part|tail)-\d{8}\.(parquet|arrows))"
LEFT_IN_FOLDER: Final = re.compile(rf"{_SMALL}|{_HIDDEN.format(_SMALL)}|writer\.lock|reserve")
_LEFT_IN_TABLE: Final = re.compile(rf"{_PIECE}|{_HIDDEN.format(_PIECE)}")


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
        files = [path for path in self._folder.glob("*.parquet") if SMALL.fullmatch(path.name)]
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


def refuse_strangers(folder: Path) -> None:
    """Raise `IotraceError` if something lies in the folder of a growing recording that no writer leaves there."""
    try:
        strangers = list(_strangers(folder))
    except OSError as problem:
        raise IotraceError(
            f"what is in '{folder}' cannot be looked at: {problem.strerror}", hint="check its permissions"
        ) from problem
    refuse(folder, strangers)


def refuse(folder: Path, strangers: Sequence[str]) -> None:
    """Raise `IotraceError` if there are ``strangers``, names in the folder of a growing recording."""
    if strangers:
        name = str(folder).removesuffix(UNFINISHED_SUFFIX)
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise IotraceError(
            f"'{folder}' holds '{strangers[0]}'{more}, which no recorder wrote, and is left alone",
            hint=f"what was recorded is kept: move that away, then iotrace capture recover {name}",
        )


def _strangers(folder: Path) -> Iterator[str]:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        yield "."
        return
    for entry in sorted(folder.iterdir()):
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode):
            allowed = LEFT_IN_FOLDER if entry.name == SYNCED else _LEFT_IN_TABLE
            for file in sorted(entry.iterdir()):
                if not stat.S_ISREG(file.lstat().st_mode) or not allowed.fullmatch(file.name):
                    yield f"{entry.name}/{file.name}"
        elif not stat.S_ISREG(mode) or not LEFT_IN_FOLDER.fullmatch(entry.name):
            yield entry.name


def mend_small_tables(folder: Path) -> None:
    """Of ``TABLE.parquet`` and its synced copy keep the one with more rows: a small table only ever grows.

    What cannot be read is removed: a table that is missing is known how to be dealt with. Raises ``OSError``.
    """
    for name in {path.name for where in (folder, folder / SYNCED) for path in where.glob("*.parquet")}:
        table_name = name.removesuffix(".parquet")
        best = max((folder / name, folder / SYNCED / name), key=lambda path: _sound_rows(path, table_name))
        rows = _sound_rows(best, table_name)
        parts = folder / table_name
        if rows < 0:
            (folder / name).unlink(missing_ok=True)
        elif best.parent != folder:
            shutil.copyfile(best, folder / name)
        elif parts.is_dir():
            shutil.rmtree(parts)  # the writer had made one file of it


def mend_parts(folder: Path) -> list[str]:
    """Leave of one table only whole parts, and tails that are no part yet; names of damaged parts, which are removed.

    A tail is removed only once its part is on the disk, so where both are there the part may be damaged. Raises
    ``OSError``.
    """
    damaged = []
    for leftover in folder.glob(".*"):
        leftover.unlink()
    for part in sorted(folder.glob("part-*.parquet")):
        tail = part.with_name(part.name.replace("part-", "tail-")).with_suffix(".arrows")
        if not tail.exists():
            if _sound_rows(part, folder.name) < 0:
                part.unlink()
                damaged.append(part.name)
        elif _whole_rows(part) < _stream_rows(tail):
            part.unlink()
        else:
            tail.unlink()
    return damaged


def find_manifest(folder: Path) -> Manifest | None:
    """The newest manifest of a growing recording that can be read: its own, the synced copy, one kept in a stream."""
    found = list(_manifests(folder))
    return max(found, key=lambda manifest: manifest.window_end_ns, default=None)


def _manifests(folder: Path) -> Iterator[Manifest]:
    for path in (folder / "manifest.json", folder / SYNCED / "manifest.json"):
        with suppress(OSError, UnicodeDecodeError, IotraceError):
            yield Manifest.from_json(path.read_text("utf-8"), str(folder))
    for path in folder.glob("*/tail-*.arrows"):
        with suppress(OSError, IotraceError):
            if text := read_about(path):
                yield Manifest.from_json(text, str(folder))


def _sound_rows(path: Path, table_name: str) -> int:
    """Rows of a Parquet file as its footer tells; -1 if that cannot be read, or is not of the table ``table_name``."""
    try:
        told = pq.read_metadata(path)
        wrong = misfit(told.schema.to_arrow_schema(), table_name) or misfit_values(path, told, table_name)
        return -1 if wrong else int(told.num_rows)
    except UNREADABLE:
        return -1


def _whole_rows(path: Path) -> int:
    """Rows of a Parquet file, all of which can be read; -1 otherwise."""
    try:
        return int(pq.read_table(path).num_rows)
    except UNREADABLE:
        return -1


def _stream_rows(path: Path) -> int:
    table = read_stream(path)
    return 0 if table is None else int(table.num_rows)
