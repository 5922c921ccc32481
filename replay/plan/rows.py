"""I/Os in columns: what the steps between a recording and the engine hand to one another."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

READ, WRITE, FLUSH, DISCARD = range(4)
NO_ID = -1
NEVER = np.iinfo(np.int64).max
"""``completed_ns`` of an I/O that was never seen to end."""

BATCH_ROWS = 1 << 16


@dataclass(slots=True)
class Rows:
    """Some I/Os, one array element each, in order of ``at_ns``.

    ``at_ns`` is when the I/O is wanted: on the source's clock as read, on the run's clock once scaled. ``space`` is
    the address space an offset lies in: the source's device for the block and device layers, its file for filesystem
    and sql; -1 where the recording does not tell. ``process_id`` and the like are -1 where unknown. ``copy`` is the
    superposed copy of the workload that the I/O belongs to.
    """

    at_ns: npt.NDArray[np.int64]
    issued_ns: npt.NDArray[np.int64]
    """When the source issued it (for a replayed source: meant to), on the source's clock like ``completed_ns``."""
    completed_ns: npt.NDArray[np.int64]
    op: npt.NDArray[np.uint8]
    space: npt.NDArray[np.int32]
    offset_bytes: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint32]
    file_id: npt.NDArray[np.int32]
    process_id: npt.NDArray[np.int32]
    thread_id: npt.NDArray[np.int32]
    copy: npt.NDArray[np.uint16]
    overlap_bytes: npt.NDArray[np.int64]
    """How far a log write reaches back into the one before it; see `log_stream`."""

    def __len__(self) -> int:
        return len(self.at_ns)

    def __getitem__(self, chosen: Any) -> "Rows":  # noqa: ANN401 - whatever numpy takes: mask, slice, positions
        """The rows chosen."""
        count = len(self.at_ns[chosen]) if isinstance(chosen, slice) else _count(chosen)
        done: dict[int, Column] = {}
        for column in map(self.__getattribute__, NAMES):
            # The same array under two names is picked from once, and what is the same in all rows stays so.
            if id(column) not in done:
                done[id(column)] = constant(column[0], count) if _is_constant(column) else column[chosen]
        return Rows(**{name: done[id(getattr(self, name))] for name in NAMES})

    @property
    def transfers(self) -> npt.NDArray[np.bool_]:
        """Which rows move data: reads and writes."""
        return self.op <= WRITE

    def changed(self, **columns: npt.NDArray[Any]) -> "Rows":
        """The same rows with other ``columns``."""
        return Rows(**{name: columns.get(name, getattr(self, name)) for name in NAMES})


NAMES = tuple(field.name for field in fields(Rows))
Column = npt.NDArray[Any]


def constant(value: np.generic, count: int) -> Column:
    """A column that holds ``value`` in all of ``count`` rows, in the memory of one; it cannot be written to."""
    return np.broadcast_to(value, count)


def _is_constant(column: Column) -> bool:
    return column.strides == (0,) and len(column) > 0


def _count(chosen: Any) -> int:  # noqa: ANN401 - mask or positions
    return int(np.count_nonzero(chosen)) if chosen.dtype == np.bool_ else len(chosen)


def concatenate(pieces: list[Rows]) -> Rows:
    """One after the other."""
    if len(pieces) == 1:
        return pieces[0]
    done: dict[tuple[int, ...], Column] = {}
    found: dict[str, Column] = {}
    for name in NAMES:
        columns = [getattr(piece, name) for piece in pieces]
        key = tuple(map(id, columns))
        if key not in done:
            done[key] = _one_after_the_other(columns)
        found[name] = done[key]
    return Rows(**found)


def _one_after_the_other(columns: list[Column]) -> Column:
    if all(_is_constant(column) and column[0] == columns[0][0] for column in columns):
        return constant(columns[0][0], sum(map(len, columns)))
    return np.concatenate(columns)


def in_order(rows: Rows) -> Rows:
    """By ``at_ns``; rows of the same time keep their order."""
    if not len(rows) or (rows.at_ns[1:] >= rows.at_ns[:-1]).all():
        return rows
    return rows[np.argsort(rows.at_ns, kind="stable")]


def merge(streams: Iterable[Iterator[Rows]]) -> Iterator[Rows]:
    """Merge streams, each in order of ``at_ns``, into one. Holds one piece of each."""
    waiting = [(stream, piece) for stream in streams if (piece := _next(stream)) is not None]
    while len(waiting) > 1:
        until_ns = min(int(piece.at_ns[-1]) for _, piece in waiting)
        ready, kept = [], []
        for stream, piece in waiting:
            cut = int(np.searchsorted(piece.at_ns, until_ns, side="right"))
            ready.append(piece[:cut])
            rest = piece[cut:] if cut < len(piece) else _next(stream)
            if rest is not None:
                kept.append((stream, rest))
        yield in_order(concatenate(ready))
        waiting = kept
    for stream, piece in waiting:
        yield piece
        yield from stream


def _next(stream: Iterator[Rows]) -> Rows | None:
    return next((piece for piece in stream if len(piece)), None)


def rebatch(pieces: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows in pieces of at most `BATCH_ROWS`, none of them empty."""
    for piece in pieces:
        for start in range(0, len(piece), BATCH_ROWS):
            yield piece[start : start + BATCH_ROWS]
