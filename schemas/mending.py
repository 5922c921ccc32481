"""Makes sense of what a killed writer or a power cut left of a growing recording.

Any file may be there in an earlier state, empty, or with stretches of zeros where its content never reached the disk.
Each exists twice until one of the two is known to be on the disk (`growing`, `syncing`): here the better one is taken.
"""

import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from .errors import UNREADABLE, IotraceError
from .manifest import Manifest
from .streams import read_about, read_stream
from .syncing import SYNCED

_HIDDEN: Final = r"\.{}\.(new|partial-[0-9a-f]{{8}})"
_SMALL: Final = r"(manifest\.json|[A-Za-z_]\w*\.parquet)"
_PIECE: Final = r"((part|tail)-\d{8}\.(parquet|arrows))"
_LEFT_IN_FOLDER: Final = re.compile(rf"{_SMALL}|{_HIDDEN.format(_SMALL)}|writer\.lock|reserve")
_LEFT_IN_TABLE: Final = re.compile(rf"{_PIECE}|{_HIDDEN.format(_PIECE)}")


def refuse_strangers(folder: Path) -> None:
    """Raise `IotraceError` if something lies in the folder of a growing recording that no writer leaves there."""
    try:
        strangers = list(_strangers(folder))
    except OSError as problem:
        raise IotraceError(
            f"what is in '{folder}' cannot be looked at: {problem.strerror}", hint="check its permissions"
        ) from problem
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise IotraceError(
            f"'{folder}' holds '{strangers[0]}'{more}, which no recorder wrote, and is left alone",
            hint="move that away, and recover again",
        )


def _strangers(folder: Path) -> Iterator[str]:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        yield "."
        return
    for entry in sorted(folder.iterdir()):
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode):
            allowed = _LEFT_IN_FOLDER if entry.name == SYNCED else _LEFT_IN_TABLE
            for file in sorted(entry.iterdir()):
                if not stat.S_ISREG(file.lstat().st_mode) or not allowed.fullmatch(file.name):
                    yield f"{entry.name}/{file.name}"
        elif not stat.S_ISREG(mode) or not _LEFT_IN_FOLDER.fullmatch(entry.name):
            yield entry.name


def mend_small_tables(folder: Path) -> None:
    """Of ``TABLE.parquet`` and its synced copy keep the one with more rows: a small table only ever grows.

    What cannot be read is removed: a table that is missing is known how to be dealt with. Raises ``OSError``.
    """
    for name in {path.name for where in (folder, folder / SYNCED) for path in where.glob("*.parquet")}:
        best = max((folder / name, folder / SYNCED / name), key=_readable_rows)
        rows = _readable_rows(best)
        parts = folder / name.removesuffix(".parquet")
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
            if _readable_rows(part) < 0:
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


def _readable_rows(path: Path) -> int:
    """Rows of a Parquet file as its footer tells; -1 if it has none that can be read."""
    try:
        return int(pq.read_metadata(path).num_rows)
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
