"""The rows of ``io`` as native code takes them: row groups in threads, in any order, or all of them in order of time.

In order of time row groups are read once, in the order of their first I/O; with each goes the time until when nothing
that was issued earlier can follow, so that whoever takes them can put in order what overlaps. Where they overlap by
more than memory should hold (several traces of one night, one after another), DuckDB sorts the table first, on disk
where it must.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Layer, Op, Recording

T = TypeVar("T")
Columns = dict[str, npt.NDArray[Any]]
"""Columns of ``io`` as numbers; nulls and words as `_tally.Tally.add` says."""
Piece = tuple[Columns, int]
"""Rows in any order, and the time before which everything has been given out with them."""

_NEVER_NS: Final = -(1 << 63)
_NOWHERE: Final = (1 << 64) - 1
_NOBODY: Final = -(1 << 31)
_KINDS: Final = {
    "issued_ns": (pa.int64(), 0), "completed_ns": (pa.int64(), _NEVER_NS), "intended_ns": (pa.int64(), _NEVER_NS),
    "offset_bytes": (pa.uint64(), _NOWHERE), "size_bytes": (pa.uint32(), 0), "device_id": (pa.int32(), _NOBODY),
    "file_id": (pa.int32(), _NOBODY), "error": (pa.int32(), 0),
}  # fmt: skip
"""Type, and what stands for null."""
LAYERS: Final = tuple(Layer)
OPS: Final = tuple(Op)
_WORDS: Final = {"layer": LAYERS, "op": OPS}
_ALWAYS: Final = (
    "op", "issued_ns", "completed_ns", "offset_bytes", "size_bytes", "device_id", "file_id"
)  # fmt: skip
_FIRST_NS: Final = -(1 << 62)
_LAST_NS: Final = 1 << 62
_OVERLAP_ROWS_MAX: Final = 1 << 23
_READ_AHEAD: Final = 2
_THREADS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Where rows can be read, with the times of the first and last issue."""

    first_ns: int
    last_ns: int
    row_count: int
    read: Callable[[], pa.Table]
    begun_ns: int = _FIRST_NS
    """No I/O in it was due or issued before that."""
    ended_ns: int = _LAST_NS
    """No I/O in it ended after that."""


def pieces(
    recording: Recording, connection: duckdb.DuckDBPyConnection, more_columns: Sequence[str]
) -> Iterator[Piece]:
    """The I/Os of ``recording``, whose tables ``connection`` has, with what columns are needed beside the usual ones.

    Raises `IotraceError` for words that the vocabulary lacks, and what pyarrow and DuckDB raise for damaged files.
    """
    columns = [*_ALWAYS, *more_columns]
    groups = row_groups(recording, columns)
    if _overlap_rows(groups) > _OVERLAP_ROWS_MAX:
        yield from _sorted_by_duckdb(connection, columns)
    else:
        yield from _in_order(groups)


def row_groups(recording: Recording, columns: list[str]) -> list[RowGroup]:
    """Row groups of ``io`` in the order of their first I/O, to be read with these columns.

    Raises what pyarrow raises for damaged files, and ``ValueError`` for columns that are missing.
    """
    found = []
    for path in recording.parquet_paths("io"):
        metadata = pq.read_metadata(path)
        names = metadata.schema.to_arrow_schema().names
        missing = [name for name in columns if name not in names]
        if missing:
            raise ValueError(f"it has no column {', '.join(missing)}")
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            first, last = _bounds(group, names, "issued_ns")
            due = _bounds(group, names, "intended_ns")[0] if "intended_ns" in columns else first
            ended = _bounds(group, names, "completed_ns")[1]
            found.append(
                RowGroup(
                    first,
                    last,
                    group.num_rows,
                    _reader(path, metadata, index, columns),
                    begun_ns=min(first, due),
                    ended_ns=ended,
                )
            )
    return sorted(found, key=lambda group: group.first_ns)


def _bounds(group: pq.RowGroupMetaData, names: list[str], column: str) -> tuple[int, int]:
    """Least and greatest value, as the file states them; what is null has none, so it may be anything."""
    statistics = group.column(names.index(column)).statistics
    is_known = statistics is not None and statistics.has_min_max and statistics.null_count == 0
    return (int(statistics.min), int(statistics.max)) if is_known else (_FIRST_NS, _LAST_NS)


def count_in_threads(groups: Sequence[RowGroup], count: Callable[[Iterator[RowGroup]], T]) -> list[T]:
    """What ``count`` made of the row groups, which threads share in no order: one result a thread."""
    shared = iter(groups)
    threads = min(os.cpu_count() or 1, _THREADS_MAX, max(len(groups), 1))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(count, [shared] * threads))


def _reader(path: Path, metadata: pq.FileMetaData, index: int, columns: list[str]) -> Callable[[], pa.Table]:
    def read() -> pa.Table:
        with pq.ParquetFile(path, metadata=metadata) as file:
            return file.read_row_group(index, columns=columns, use_threads=False)

    return read


def _overlap_rows(groups: list[RowGroup]) -> int:
    """The most rows that have to be held at once to give them out in order."""
    changes = [(group.first_ns, group.row_count) for group in groups]
    changes += [(group.last_ns + 1, -group.row_count) for group in groups]
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def _in_order(groups: list[RowGroup]) -> Iterator[Piece]:
    ends = [group.first_ns for group in groups[1:]] + [_LAST_NS]

    def decoded(group: RowGroup) -> Columns:
        return decode(group.read())

    with ThreadPoolExecutor(1) as pool:
        ahead: deque[tuple[Future[Columns], int]] = deque()
        for group, end in zip(groups, ends, strict=True):
            ahead.append((pool.submit(decoded, group), end))
            if len(ahead) > _READ_AHEAD:
                future, until = ahead.popleft()
                yield future.result(), until
        for future, until in ahead:
            yield future.result(), until


def _sorted_by_duckdb(connection: duckdb.DuckDBPyConnection, columns: list[str]) -> Iterator[Piece]:
    names = ", ".join(columns)
    with connection.cursor() as cursor:
        reader = cursor.sql(f"SELECT {names} FROM io ORDER BY issued_ns").to_arrow_reader(1 << 19)  # noqa: S608
        for batch in reader:
            if len(batch):
                # I/Os of the same nanosecond may follow in the next batch.
                yield decode(pa.Table.from_batches([batch])), batch.column("issued_ns")[-1].as_py()


def decode(table: pa.Table) -> Columns:
    """Columns of ``io`` as numbers."""
    return {
        name: _positions(table[name], _WORDS[name], name)
        if name in _WORDS
        else _numbers(table[name], *_KINDS[name])
        for name in table.column_names
    }


def _numbers(column: pa.ChunkedArray, kind: pa.DataType, null: int) -> npt.NDArray[Any]:
    column = column.cast(kind)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(null, kind))
    return _frozen(column.to_numpy())


def _positions(column: pa.ChunkedArray, words: Sequence[str], name: str) -> npt.NDArray[Any]:
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
        places = np.array([words.index(word) for word in own], dtype=np.uint8)
        # Clipping, of what cannot lie outside, is what makes this quick.
        parts.append(
            places.take(coded.indices.to_numpy(zero_copy_only=False), mode="clip") if own else parts[0]
        )
    return _frozen(np.concatenate(parts))


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values = np.ascontiguousarray(values)
    values.flags.writeable = False
    return values


@contextmanager
def readable(recording: Recording) -> Iterator[None]:
    """Turn complaints about rows that cannot be read or taken in into an error for users."""
    try:
        yield
    except (OSError, ValueError, BufferError, pa.ArrowException, duckdb.IOException) as problem:
        raise IotraceError(
            f"'{recording.path}' has a damaged table io: {str(problem).splitlines()[0][:200]}",
            hint=f"iotrace validate {recording.path} tells what is left of it",
        ) from problem
