"""The rows of ``io``, stretch of time by stretch of time, as numbers.

Row groups are read once, in the order of their first I/O, and cut where the next one begins; so each stretch
holds all I/Os issued in it, in order of issue, though row groups overlap. Where they overlap by more than memory
should hold (several traces of one night, one after another), DuckDB sorts the table first, on disk where it must.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Recording

from .streams import LAYERS, OPS, Ints, Streams

Int64s = npt.NDArray[Any]

FIRST_NS: Final = -(1 << 62)
LAST_NS: Final = 1 << 62
NEVER_NS: Final = np.iinfo(np.int64).min
"""Stands for the end of an I/O whose end was not seen."""

_COLUMNS: Final = (
    "layer", "op", "issued_ns", "completed_ns", "offset_bytes", "size_bytes", "device_id", "file_id", "error"
)  # fmt: skip
_OFFSET_MAX: Final = 1 << 62
_OVERLAP_ROWS_MAX: Final = 1 << 23
_READ_AHEAD: Final = 2
_STRETCH_ROWS: Final = 1 << 17
"""What fits a processor's cache is summarised faster."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of some I/Os, in order of issue: ``stream`` says which device, file and operation, see `Streams`.

    Offsets are -1 where unknown; ``intended_ns`` is there for replays only, and `NEVER_NS` where null.
    """

    stream: Ints
    issued_ns: Int64s
    completed_ns: Int64s
    offset_bytes: Int64s
    size_bytes: Ints
    error: Ints
    intended_ns: Int64s

    def __len__(self) -> int:
        return len(self.issued_ns)

    def take(self, which: slice | npt.NDArray[np.bool_] | Ints) -> "Rows":
        """Some of the rows, in the order asked for."""
        return Rows(*(getattr(self, entry.name)[which] for entry in fields(self)))

    @staticmethod
    def joined(parts: list["Rows"]) -> "Rows":
        """Rows of several pieces, one after another."""
        if len(parts) == 1:
            return parts[0]
        return Rows(
            *(np.concatenate([getattr(part, entry.name) for part in parts]) for entry in fields(Rows))
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """All I/Os issued in [from_ns, until_ns), in order of issue."""

    from_ns: int
    until_ns: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class _Piece:
    """Where rows can be read: a row group, with the times of its first and last issue."""

    first_ns: int
    last_ns: int
    row_count: int
    read: Callable[[], pa.Table]


def stretches(
    recording: Recording,
    connection: duckdb.DuckDBPyConnection,
    streams: Streams,
    cuts_ns: Iterable[int],
    *,
    intended: bool = False,
    without: Collection[str] = (),
) -> Iterator[Stretch]:
    """The I/Os of ``recording``, stretch by stretch in order of time; also cut at each of ``cuts_ns``.

    ``connection`` has the recording's tables. Columns in ``without`` are not read and are 0: layer where there is one
    only, error where nothing failed. Raises `IotraceError` for damaged data.
    """
    columns = [name for name in (*_COLUMNS, "intended_ns") if name not in without]
    if not intended:
        columns.remove("intended_ns")
    try:
        pieces = _row_groups(recording, columns)
        if _overlap_rows(pieces) > _OVERLAP_ROWS_MAX:
            parts = _sorted_by_duckdb(connection, columns, streams)
        else:
            parts = _in_order(pieces, streams)
        yield from _cut(parts, sorted(set(cuts_ns)))
    except (OSError, pa.ArrowException, duckdb.IOException) as problem:
        raise IotraceError(
            f"'{recording.path}' has a damaged table io: {str(problem).splitlines()[0][:200]}",
            hint=f"iotrace validate {recording.path} tells what is left of it",
        ) from problem


def _row_groups(recording: Recording, columns: list[str]) -> list[_Piece]:
    pieces = []
    for path in recording.parquet_paths("io"):
        metadata = pq.read_metadata(path)
        column = metadata.schema.to_arrow_schema().get_field_index("issued_ns")
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            statistics = group.column(column).statistics
            known = statistics is not None and statistics.has_min_max
            first, last = (int(statistics.min), int(statistics.max)) if known else (FIRST_NS, LAST_NS)
            pieces.append(_Piece(first, last, group.num_rows, _reader(path, index, columns)))
    return sorted(pieces, key=lambda piece: piece.first_ns)


def _reader(path: Path, index: int, columns: list[str]) -> Callable[[], pa.Table]:
    def read() -> pa.Table:
        with pq.ParquetFile(path) as file:
            return file.read_row_group(index, columns=columns, use_threads=False)

    return read


def _overlap_rows(pieces: list[_Piece]) -> int:
    """The most rows that have to be held at once to give them out in order."""
    changes = [(piece.first_ns, piece.row_count) for piece in pieces]
    changes += [(piece.last_ns + 1, -piece.row_count) for piece in pieces]
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def _in_order(pieces: list[_Piece], streams: Streams) -> Iterator[tuple[Rows, int]]:
    """Rows of each piece, and until when everything has been given out with it."""
    ends = [piece.first_ns for piece in pieces[1:]] + [LAST_NS]

    def decoded(piece: _Piece) -> Rows:
        return decode(piece.read(), streams)

    with ThreadPoolExecutor(1) as pool:
        ahead: deque[tuple[Future[Rows], int]] = deque()
        for piece, end in zip(pieces, ends, strict=True):
            ahead.append((pool.submit(decoded, piece), end))
            if len(ahead) > _READ_AHEAD:
                future, until = ahead.popleft()
                yield future.result(), until
        for future, until in ahead:
            yield future.result(), until


def _sorted_by_duckdb(
    connection: duckdb.DuckDBPyConnection, columns: list[str], streams: Streams
) -> Iterator[tuple[Rows, int]]:
    names = ", ".join(columns)
    with connection.cursor() as cursor:
        reader = cursor.sql(f"SELECT {names} FROM io ORDER BY issued_ns").to_arrow_reader(1 << 19)  # noqa: S608
        for batch in reader:
            rows = decode(pa.Table.from_batches([batch]), streams)
            if len(rows):
                # I/Os of the same nanosecond may follow in the next batch.
                yield rows, int(rows.issued_ns[-1])
    yield rows.take(slice(0)), LAST_NS


def _cut(parts: Iterator[tuple[Rows, int]], cuts_ns: list[int]) -> Iterator[Stretch]:
    """Give out what is complete, cut at ``cuts_ns``, and hold back what a later piece may precede."""
    held: list[Rows] = []
    from_ns = FIRST_NS
    cuts = deque(cuts_ns)
    for part, until_ns in parts:
        rows = Rows.joined([*held, part])
        times = rows.issued_ns
        if np.any(times[1:] < times[:-1]):
            rows = rows.take(np.argsort(times, kind="stable"))
        while cuts and cuts[0] <= from_ns:
            cuts.popleft()
        while cuts and cuts[0] < until_ns:
            cut = cuts.popleft()
            here = int(np.searchsorted(rows.issued_ns, cut))
            yield Stretch(from_ns, cut, rows.take(slice(here)))
            rows, from_ns = rows.take(slice(here, None)), cut
        while len(rows) > 2 * _STRETCH_ROWS and from_ns < int(rows.issued_ns[_STRETCH_ROWS]) < until_ns:
            cut = int(rows.issued_ns[_STRETCH_ROWS])
            here = int(np.searchsorted(rows.issued_ns, cut))
            yield Stretch(from_ns, cut, rows.take(slice(here)))
            rows, from_ns = rows.take(slice(here, None)), cut
        if until_ns > from_ns:
            here = len(rows) if until_ns == LAST_NS else int(np.searchsorted(rows.issued_ns, until_ns))
            yield Stretch(from_ns, until_ns, rows.take(slice(here)))
            rows, from_ns = rows.take(slice(here, None)), until_ns
        held = [rows] if len(rows) else []


def decode(table: pa.Table, streams: Streams) -> Rows:
    """Columns of ``io`` as numbers; those that are not there are 0, and ``intended_ns`` `NEVER_NS`."""
    names, count = set(table.column_names), table.num_rows

    def numbers(name: str, null: int, kind: type[np.integer]) -> Ints:
        return _numbers(table[name], null, kind) if name in names else _constant(0, count, kind)

    return Rows(
        stream=streams.numbers(
            _positions(table["layer"], LAYERS, "layer") if "layer" in names else None,
            _positions(table["op"], OPS, "op"),
            numbers("device_id", -1, np.int32),
            numbers("file_id", -1, np.int32),
        ),
        issued_ns=numbers("issued_ns", 0, np.int64),
        completed_ns=numbers("completed_ns", NEVER_NS, np.int64),
        offset_bytes=_offsets(table["offset_bytes"]),
        size_bytes=numbers("size_bytes", 0, np.uint32),
        error=numbers("error", 0, np.int32),
        intended_ns=numbers("intended_ns", NEVER_NS, np.int64)
        if "intended_ns" in names
        else _constant(NEVER_NS, count, np.int64),
    )


def _constant(value: int, count: int, kind: type[np.integer]) -> Ints:
    return np.broadcast_to(np.array(value, dtype=kind), count)


def _numbers(column: pa.ChunkedArray, null: int, kind: type[np.integer]) -> Ints:
    if column.null_count == len(column):
        return np.full(len(column), null, dtype=kind)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(null, column.type))
    return np.asarray(column.to_numpy(), dtype=kind)


def _offsets(column: pa.ChunkedArray) -> Int64s:
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(np.iinfo(np.uint64).max, pa.uint64()))
    offsets = np.asarray(column.to_numpy()).astype(np.uint64, copy=False)
    if len(offsets) and int(offsets.max()) > _OFFSET_MAX:
        offsets = np.where(offsets > _OFFSET_MAX, np.iinfo(np.uint64).max, offsets)
    # The largest uint64 is -1 as int64: unknown, as is an offset that no device can have.
    return offsets.view(np.int64)


def _positions(column: pa.ChunkedArray, words: tuple[str, ...], name: str) -> Ints:
    """Positions of a word column in the vocabulary."""
    parts = [np.zeros(0, dtype=np.uint8)]
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.cast(pa.string()).dictionary_encode()
        own = coded.dictionary.to_pylist()
        if any(word not in words for word in own):
            strange = next(word for word in own if word not in words)
            raise IotraceError(
                f"the recording's io has a {name} '{strange}' that this iotrace does not know",
                hint="update iotrace on this machine; iotrace validate checks a recording",
            )
        if coded.null_count:
            raise IotraceError(
                f"the recording's io has rows without {name}", hint="iotrace validate checks a recording"
            )
        indices = coded.indices.to_numpy(zero_copy_only=False)
        lookup = np.array([words.index(word) for word in own], dtype=np.uint8)
        is_same = np.array_equal(lookup, np.arange(len(lookup)))
        parts.append(indices.astype(np.uint8, copy=False) if is_same else lookup[indices])
    return np.concatenate(parts)
