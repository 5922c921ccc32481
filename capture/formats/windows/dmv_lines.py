"""Lines of a DMV snapshot file: which columns it has, and its cells as text, block by block."""

import difflib
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from iotrace.capture.formats.duckdb_files import base_tables, has_rows, opened, rows_of
from iotrace.capture.formats.text_times import TextTimes
from iotrace.capture.formats.twice_hour import Time, TwiceHour
from iotrace.capture.roles import TEMPDB_ID
from iotrace.schemas import IotraceError

from .dmv_columns import (
    ALIASES,
    CAPTURE_COLUMN,
    ELAPSED_COLUMN,
    FILE_BYTES,
    FILE_COUNTS,
    FILE_NAMES,
    FILE_STATS_COLUMNS,
    LOGICAL_COLUMN,
    SCALED,
    TIME_ALIASES,
    WAIT_COUNTS,
    WAIT_STATS_COLUMNS,
    WEAK_ALIASES,
    OtherTable,
    folded,
    like_a_time,
    other_table,
)
from .dmv_unread import NO_TIME, TIME_COMES_TWICE

_SEPARATORS: Final = (",", "|", "\t", ";")
_LINES_LOOKED_AT: Final = 20
_LINE_BYTES_MAX: Final = 1 << 20
_BLOCK_BYTES: Final = 1 << 23
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_OBJECTS: Final = re.compile(r"\s*[\[{]")
_ROWS_A_BATCH: Final = 1 << 16
_JSON_BYTES_MAX: Final = 1 << 28
_FIRST_MADE_UP: Final = 1_000_000
"""Numbers of databases and files of which only names are known begin here."""


Container = Literal["text", "json", "parquet", "duckdb"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a snapshot file is written."""

    kind: str
    """file_stats or wait_stats."""
    encoding: str
    separator: str
    """Empty where rows are no lines: see ``container``."""
    columns: tuple[str, ...]
    """What each column is, by the names of `dmv_columns`; others as the file has them, in lower case."""
    names: tuple[str, ...] = ()
    """The names in the header; empty without one."""
    is_utc: bool = True
    """Whether times without an offset are known to be UTC."""
    container: Container = "text"
    table: str = ""
    """Of a database: which of its tables."""

    @property
    def other(self) -> OtherTable | None:
        """The tool whose own table it is, if that matters."""
        return other_table(self.names)

    @property
    def differences(self) -> bool:
        """Whether its counts are differences already, not totals."""
        return ELAPSED_COLUMN in self.columns

    @property
    def scales(self) -> dict[str, int]:
        """Columns that are in another unit than the view's, and what one of theirs is in it."""
        named = zip(self.names, self.columns, strict=True) if self.names else ()
        scales = {
            column: SCALED[folded(name)][1]
            for name, column in named
            if folded(name) in SCALED and SCALED[folded(name)][0] == column
        }
        if self.differences and self.other is not None:
            scales[ELAPSED_COLUMN] = self.other.elapsed_ms
        return scales

    @property
    def told(self) -> tuple[str, ...]:
        """The columns that `Lines` gives, those that it makes up included."""
        numbered = set(self.columns) >= {"database_id", "file_id"} or self.kind != "file_stats"
        made_up = () if numbered else ("database_id", "file_id", "physical_name")
        return (*self.columns, *(name for name in made_up if name not in self.columns))

    @property
    def time_name(self) -> str:
        """The header's name for the time of a snapshot."""
        return self.names[self.columns.index(CAPTURE_COLUMN)] if self.names else CAPTURE_COLUMN


def layout_of(head: bytes, path: Path | None = None) -> Layout | None:
    """The layout of a file at ``path`` that begins with ``head``; None if it is no snapshot file."""
    if head.startswith(b"PAR1"):
        return _layout_of_parquet(path)
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    text = head.decode(encoding, "replace")
    if _OBJECTS.match(text):
        return _layout_of_json(text, encoding)
    for line in text.splitlines()[:_LINES_LOOKED_AT]:
        for separator in _SEPARATORS:
            if found := _layout_of_line(line, separator, encoding):
                return found
    return None


def missing_of(head: bytes) -> tuple[str, list[str], dict[str, str]] | None:
    """For a header that is nearly one of snapshots: of which kind, what is missing, and names that may mean that."""
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    for line in head.decode(encoding, "replace").splitlines()[:_LINES_LOOKED_AT]:
        for separator in _SEPARATORS:
            names = [cell.strip().strip('"[]') for cell in line.split(separator)]
            columns = list(meanings(names))
            for kind, own, least in (
                ("file_stats", FILE_COUNTS, 3),
                ("wait_stats", ("wait_type", *WAIT_COUNTS), 2),
            ):
                keys = ("database_id", "file_id") if kind == "file_stats" else ()
                missing = [
                    name
                    for name in (CAPTURE_COLUMN, *keys, *own)
                    if name not in columns and name not in FILE_BYTES
                ]
                if len(set(own) & set(columns)) >= least and missing:
                    return kind, missing, _nearest(names, columns, missing)
    return None


def _nearest(names: Sequence[str], columns: Sequence[str], missing: Sequence[str]) -> dict[str, str]:
    unknown = [
        name
        for name, column in zip(names, columns, strict=True)
        if column not in {CAPTURE_COLUMN, *ALIASES.values()}
    ]
    near: dict[str, str] = {}
    for column in missing:
        if column == CAPTURE_COLUMN:
            near |= dict.fromkeys(like_a_time(unknown)[:1], column)
            continue
        if found := difflib.get_close_matches(column, [name.lower() for name in unknown], 1, 0.7):
            near[found[0]] = column
    return near


def _layout_of_parquet(path: Path | None) -> Layout | None:
    try:
        names = pq.read_schema(path).names if path is not None and path.is_file() else []
    except (pa.ArrowException, OSError):
        return None
    return _layout_of_names(names, "", "", "parquet")


def layouts_in_database(path: Path, name: str) -> list[Layout]:
    """The tables of a DuckDB database that are snapshots. Raises `IotraceError` naming it by ``name``."""
    with opened(path, name) as connection:
        tables = base_tables(connection)
        rows = {table: has_rows(connection, table) for table in tables}
    found = (
        _layout_of_names(columns, "", "", "duckdb", table) for table, columns in tables.items() if rows[table]
    )
    return [layout for layout in found if layout is not None]


def _layout_of_json(text: str, encoding: str) -> Layout | None:
    for start in list(re.finditer(r"\{", text[: 1 << 14]))[:4]:
        try:
            row, _ = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and (found := _layout_of_names(list(row), encoding, "", "json")):
            return found
    return None


def _layout_of_line(line: str, separator: str, encoding: str) -> Layout | None:
    cells = [cell.strip().strip('"[]') for cell in line.split(separator)]
    if found := _layout_of_names(cells, encoding, separator, "text"):
        return found
    for kind, columns in (("file_stats", FILE_STATS_COLUMNS), ("wait_stats", WAIT_STATS_COLUMNS)):
        if len(cells) == len(columns) and _TIME.match(cells[0]):
            position = columns.index("database_id" if kind == "file_stats" else "waiting_tasks_count")
            if cells[position].isdigit():
                return Layout(kind, encoding, separator, columns)
    return None


def _layout_of_names(
    names: Sequence[str], encoding: str, separator: str, container: Container, table: str = ""
) -> Layout | None:
    if len(names) < len(WAIT_COUNTS) + 2:  # fewer cannot do, and most lines of other files have fewer
        return None
    columns = list(meanings(names))
    known = set(columns)
    is_utc = CAPTURE_COLUMN in known and _is_utc(names, columns)
    has_file = {"database_id", "file_id"} <= known or any(known.issuperset(some) for some in FILE_NAMES)
    kind = None
    if known.issuperset({CAPTURE_COLUMN, *FILE_COUNTS} - {*FILE_BYTES}) and has_file:
        kind = "file_stats"
    elif known.issuperset({CAPTURE_COLUMN, "wait_type", *WAIT_COUNTS}):
        kind = "wait_stats"
    if kind is None:
        return None
    return Layout(kind, encoding, separator, tuple(columns), tuple(names), is_utc, container, table)


def meanings(names: Sequence[str]) -> Iterator[str]:
    """What each column of a header is; of two that are the same the first is it, and the others keep their names."""
    exact = {name.lower() for name in names}
    plain = [folded(name) for name in names]
    table = other_table(names)
    aliases = ALIASES | (table.aliases if table else {})
    if table and table.elapsed:
        aliases |= {table.elapsed: ELAPSED_COLUMN}
    told = {aliases.get(name) for name in plain}
    weak = WEAK_ALIASES | {name: column for name, (column, _) in SCALED.items()}
    aliases |= {name: column for name, column in weak.items() if column not in told}
    time = _place_of_time(names, plain)
    meant = set(aliases.values())
    taken: set[str] = set()
    for place, name in enumerate(names):
        column = CAPTURE_COLUMN if place == time else aliases.get(plain[place])
        if column is None or column in taken or (column in exact and name.lower() != column):
            own = name.lower()
            column = f"{name} {place}" if own in taken or own in meant else own
        taken.add(column)
        yield column


def _place_of_time(names: Sequence[str], plain: Sequence[str]) -> int | None:
    """Which column tells when a snapshot was taken: the one that says so in UTC, else the first of the usual names."""
    if "captureutc" in plain:
        return plain.index("captureutc")
    bare = [name.removesuffix("utc").removeprefix("utc") for name in plain]
    for alias in TIME_ALIASES:
        places = [place for place, name in enumerate(bare) if name == alias]
        if places:
            return max(places, key=lambda place: "utc" in plain[place])
    near = like_a_time(names)
    return list(names).index(near[0]) if len(near) == 1 else None


def _is_utc(names: Sequence[str], columns: Sequence[str]) -> bool:
    table = other_table(names)
    return "utc" in folded(names[columns.index(CAPTURE_COLUMN)]) or (table is not None and table.is_utc)


class Lines:
    """Reads a snapshot file once, all its columns or ``only`` some.

    ``left_out`` and ``is_cut`` are final when `blocks` is exhausted.
    """

    def __init__(
        self, path: Path, name: str, layout: Layout, only: tuple[str, ...] = (), zone: str | None = None
    ) -> None:
        self._path, self.name, self._layout = path, name, layout
        self._only = list(only or layout.columns)
        self.times = TextTimes(zone, is_utc=layout.is_utc)
        self._learnt = False
        self._twice: TwiceHour | None = None
        self.has_twice = False
        """Whether times came twice, as clocks went back, and the order of the lines told which they are."""
        self._made_up: tuple[dict[str, int], dict[tuple[str, str], int]] = ({}, {})
        self.left_out = 0
        """Lines with more or fewer cells than columns; words of sqlcmd between the lines do not count."""
        self.is_cut = False
        """The last line had no end: it may lack digits and is left out."""

    def blocks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield cells, all as text, and how many bytes are read. Raises `IotraceError` for what is no text."""
        for cells, done in self._as_written():
            yield self._told(cells), done

    def _as_written(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        read = {
            "text": self._text_blocks,
            "json": self._json_blocks,
            "parquet": self._parquet_blocks,
            "duckdb": self._duckdb_blocks,
        }
        yield from read[self._layout.container]()

    def _told(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """The cells with times in UTC, and with numbers for files of which only names are told."""
        columns = {name: cells.column(name) for name in cells.schema.names}
        if self._layout.names and self._layout.time_name.lower() != CAPTURE_COLUMN:
            columns[CAPTURE_COLUMN] = self._utc_text(columns[CAPTURE_COLUMN])
        if self._layout.kind == "file_stats" and len(self._only) > 1:
            columns |= self._numbered(columns)
        return pa.RecordBatch.from_pydict(columns)

    def _utc_text(self, column: pa.Array) -> pa.Array:
        codes = pc.fill_null(column, "").dictionary_encode()
        texts = codes.dictionary.to_pylist()
        if not self._learnt:
            self.times.learn(texts, self.name)
            self._learnt = any(self.times.utc_ns(text) is not None for text in texts)
        either = [self.times.either_ns(text) for text in texts]
        if self._twice is None and any(either):
            self._twice = TwiceHour(self._times_of_all())
        moments = pa.array([self._moment(text, self.times.utc_ns(text)) for text in texts], pa.string())
        if self._twice is None:
            return moments.take(codes.indices)
        return pa.array(self._settled(texts, codes.indices.to_pylist(), moments.to_pylist()), pa.string())

    def _settled(self, texts: list[str], places: list[int], moments: list[str]) -> Iterator[str]:
        """The moment of each line, where some come twice."""
        assert self._twice is not None
        for place in places:
            either, utc_ns = self.times.either_ns(texts[place]), self.times.utc_ns(texts[place])
            if either is None:
                if utc_ns is not None:
                    self._twice.settled(utc_ns)
                yield moments[place]
                continue
            found = self._twice.settled(either)
            self.has_twice |= found is not None
            yield TIME_COMES_TWICE + texts[place] if found is None else self._moment(texts[place], found)

    def _times_of_all(self) -> Iterator[Time]:
        """The times of all lines, in the order of the file."""
        whole = Lines(self._path, self.name, self._layout, (CAPTURE_COLUMN,), self.times.zone)
        for cells, _ in whole._as_written():
            for text in pc.fill_null(cells.column(CAPTURE_COLUMN), "").to_pylist():
                time = self.times.utc_ns(text) or self.times.either_ns(text)
                if time is not None:
                    yield time

    def _moment(self, text: str, utc_ns: int | None) -> str:
        if utc_ns is None:
            # Repeated headers and the dashes under them are no loss.
            is_heading = folded(text) in {"", folded(self._layout.time_name)}
            return "" if is_heading else f"{NO_TIME}{text}"
        moment = datetime.fromtimestamp(utc_ns // 10**9, UTC).replace(tzinfo=None)
        return f"{moment.isoformat(' ')}.{utc_ns % 10**9:09d}"

    def _numbered(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        if {"database_id", "file_id"} <= columns.keys():
            return {}
        count = len(columns[CAPTURE_COLUMN])
        empty = pa.repeat("", count)
        names = columns.get("database_name", columns.get("database_id", empty)).to_pylist()
        logical = columns.get(LOGICAL_COLUMN, columns.get("file_id", empty)).to_pylist()
        paths = columns.get("physical_name", empty).to_pylist()
        databases, files = self._made_up
        of_database = [
            databases.setdefault(
                name or "", TEMPDB_ID if name == "tempdb" else _FIRST_MADE_UP + len(databases)
            )
            for name in names
        ]
        own = [path or file or "" for path, file in zip(paths, logical, strict=True)]
        of_file = [
            files.setdefault((name or "", file), _FIRST_MADE_UP + len(files))
            for name, file in zip(names, own, strict=True)
        ]
        shown = [
            path or (file if set(file or "") & {"/", "\\"} else f"{name} {file}")
            for path, name, file in zip(paths, names, logical, strict=True)
        ]
        return {
            "database_id": pa.array(map(str, of_database), pa.string()),
            "file_id": pa.array(map(str, of_file), pa.string()),
            "physical_name": pa.array(shown, pa.string()),
        }

    def _parquet_blocks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        layout = self._layout
        sources = [layout.names[layout.columns.index(column)] for column in self._only]
        try:
            with pq.ParquetFile(self._path) as file:
                for batch in file.iter_batches(_ROWS_A_BATCH, columns=sources):
                    cells = [pc.fill_null(batch.column(name).cast(pa.string()), "") for name in sources]
                    yield pa.RecordBatch.from_arrays(cells, names=self._only), 0
        except pa.ArrowException as problem:
            raise IotraceError(
                f"'{self.name}' cannot be read as Parquet: {str(problem).splitlines()[0][:200]}",
                hint="export it again, or as CSV",
            ) from problem

    def _duckdb_blocks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        layout = self._layout
        sources = [layout.names[layout.columns.index(column)] for column in self._only]
        with opened(self._path, self.name) as connection:
            for batch in rows_of(connection, layout.table, sources, _ROWS_A_BATCH):
                cells = [pc.fill_null(column.cast(pa.string()), "") for column in batch.columns]
                yield pa.RecordBatch.from_arrays(cells, names=self._only), 0

    def _json_blocks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        layout = self._layout
        rows = list(_json_rows(self._path, layout.encoding, self.name))
        sources = [layout.names[layout.columns.index(column)] for column in self._only]
        for start in range(0, len(rows), _ROWS_A_BATCH):
            part = rows[start : start + _ROWS_A_BATCH]
            cells = [pa.array([_json_text(row.get(name)) for row in part], pa.string()) for name in sources]
            yield pa.RecordBatch.from_arrays(cells, names=self._only), 0

    def _text_blocks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
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


def _json_rows(path: Path, encoding: str, name: str) -> Iterator[dict[str, object]]:
    """Objects of an array, of an array in an object, or one after the other."""
    if path.stat().st_size > _JSON_BYTES_MAX:
        raise IotraceError(
            f"'{name}' is over 256 MiB of JSON", hint="export it as CSV, which is read line by line"
        )
    text = path.read_text(encoding, "replace")
    decoder, at = json.JSONDecoder(), 0
    try:
        while found := re.compile(r"\S").search(text, at):
            value, at = decoder.raw_decode(text, found.start())
            inner = value
            if isinstance(value, dict):
                lists = [one for one in value.values() if isinstance(one, list)]
                inner = lists[0] if lists else [value]
            if isinstance(inner, list):
                yield from (row for row in inner if isinstance(row, dict))
            at += len(text) > at and text[at] == ","
    except (ValueError, RecursionError) as problem:
        raise IotraceError(
            f"'{name}' is not complete JSON: {problem}", hint="check that it was copied completely"
        ) from problem


def _json_text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


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
