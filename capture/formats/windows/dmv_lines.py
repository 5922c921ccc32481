"""Lines of a DMV snapshot file: which columns it has, and its cells as text, block by block."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
from pyarrow import csv

from iotrace.schemas import IotraceError

from .dmv_columns import FILE_STATS_COLUMNS, FILE_STATS_REQUIRED, WAIT_STATS_COLUMNS, WAIT_STATS_REQUIRED

_SEPARATORS: Final = (",", "|", "\t", ";")
_LINES_LOOKED_AT: Final = 20
_LINE_BYTES_MAX: Final = 1 << 20
_BLOCK_BYTES: Final = 1 << 23
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_KINDS: Final = {
    "file_stats": (FILE_STATS_COLUMNS, FILE_STATS_REQUIRED),
    "wait_stats": (WAIT_STATS_COLUMNS, WAIT_STATS_REQUIRED),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a snapshot file is written."""

    kind: str
    """file_stats or wait_stats."""
    encoding: str
    separator: str
    columns: tuple[str, ...]


def layout_of(head: bytes) -> Layout | None:
    """The layout of a file that begins with ``head``; None if it is no snapshot file."""
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    for line in head.decode(encoding, "replace").splitlines()[:_LINES_LOOKED_AT]:
        for separator in _SEPARATORS:
            if found := _layout_of_line(line, separator, encoding):
                return found
    return None


def _layout_of_line(line: str, separator: str, encoding: str) -> Layout | None:
    cells = [cell.strip().strip('"') for cell in line.split(separator)]
    names = tuple(cell.lower() for cell in cells)
    for kind, (columns, required) in _KINDS.items():
        if required <= set(names) and len(set(names)) == len(names):
            return Layout(kind, encoding, separator, names)
        if len(cells) == len(columns) and _TIME.match(cells[0]):
            position = columns.index("database_id" if kind == "file_stats" else "waiting_tasks_count")
            if cells[position].isdigit():
                return Layout(kind, encoding, separator, columns)
    return None


class Lines:
    """Reads a snapshot file once, all its columns or ``only`` some.

    ``left_out`` and ``is_cut`` are final when `blocks` is exhausted.
    """

    def __init__(self, path: Path, name: str, layout: Layout, only: tuple[str, ...] = ()) -> None:
        self._path, self.name, self._layout = path, name, layout
        self._only = list(only or layout.columns)
        self.left_out = 0
        """Lines with more or fewer cells than columns; words of sqlcmd between the lines do not count."""
        self.is_cut = False
        """The last line had no end: it may lack digits and is left out."""

    def blocks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield cells, all as text, and how many bytes are read. Raises `IotraceError` for what is no text."""
        columns = list(self._layout.columns)
        with self._path.open("rb") as file:
            lines = _WholeLines(file, self._layout.encoding, self.name)
            try:
                reader = csv.open_csv(
                    pa.PythonFile(io.BufferedReader(lines, 1 << 20), mode="r"),
                    read_options=csv.ReadOptions(
                        column_names=columns, block_size=_BLOCK_BYTES, use_threads=False
                    ),
                    parse_options=csv.ParseOptions(
                        delimiter=self._layout.separator, invalid_row_handler=self._left_out
                    ),
                    convert_options=csv.ConvertOptions(
                        column_types=dict.fromkeys(columns, pa.string()),
                        strings_can_be_null=False,
                        include_columns=self._only,
                    ),
                )
                for batch in reader:
                    yield batch, file.tell()
            except pa.ArrowInvalid as problem:
                raise IotraceError(
                    f"'{self.name}' cannot be read as text in columns: {str(problem).splitlines()[0][:200]}",
                    hint="check that it was copied completely and not edited",
                ) from problem
            self.is_cut = lines.is_cut

    def _left_out(self, row: csv.InvalidRow) -> Literal["skip"]:
        self.left_out += row.actual_columns > 1
        return "skip"


class _WholeLines(io.RawIOBase):
    """The file as UTF-8, without a last line that has no end."""

    def __init__(self, file: io.BufferedReader, encoding: str, name: str) -> None:
        self._text = io.TextIOWrapper(file, encoding, "replace", newline="")
        self._name = name
        self._ready = memoryview(b"")
        self._rest = ""
        self.is_cut = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed and not self._text.closed:
            self._text.detach()
        super().close()

    def readinto(self, into: "memoryview") -> int:  # type: ignore[override]
        while not self._ready:
            piece = self._text.read(1 << 20)
            if not piece:
                self.is_cut = bool(self._rest.strip("\x00\x1a \t\r\n"))
                return 0
            whole, end, rest = (self._rest + piece).rpartition("\n")
            if len(rest) > _LINE_BYTES_MAX:
                raise IotraceError(
                    f"'{self._name}' has a line over 1 MiB", hint="check that it was copied completely"
                )
            self._ready = memoryview((whole + end).encode())
            self._rest = rest
        count = min(len(into), len(self._ready))
        into[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
