"""Which transfers carry on where another left off, found among the last few of the same kind in the same place.

Looking at the one before alone would call two scans that take turns random. Looking at all would call chance order:
in a file of N blocks, a random block follows one of the last `WITHIN` with a chance of about `WITHIN` / N.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

WITHIN = 32
"""How many transfers of its stream back the end may lie that a transfer begins at."""
_KEPT_MAX = 1 << 20
"""Ends remembered between pieces, of all streams together: the latest."""

_Int64s = npt.NDArray[np.int64]


def _nothing() -> _Int64s:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class Following:
    """Give transfers in order of time, in pieces of any size, to `of`."""

    _streams: _Int64s = field(default_factory=_nothing)
    _ends: _Int64s = field(default_factory=_nothing)

    def of(self, stream: _Int64s, offset_bytes: _Int64s, size_bytes: _Int64s) -> npt.NDArray[np.bool_]:
        """Which of these begin where one of the `WITHIN` before them, of the same ``stream``, ended."""
        count, before = len(stream), len(self._ends)
        if not count:
            return np.zeros(0, np.bool_)
        streams = np.concatenate([self._streams, stream])
        ends = np.concatenate([self._ends, offset_bytes + size_bytes])
        rank, to_come = _ranks(streams)
        # Ends and starts in one list, by place and then by time; the end that stands last before a start is the latest.
        of_places = np.concatenate([ends, offset_bytes])
        of_streams = np.concatenate([streams, stream])
        of_ranks = np.concatenate([rank, rank[before:]])
        is_start = np.repeat([False, True], [before + count, count])
        order = np.lexsort((is_start, of_ranks, of_places, of_streams))
        is_end = order < before + count
        latest = np.maximum.accumulate(np.where(is_end, np.arange(len(order)), -1))
        starts = np.flatnonzero(~is_end & (latest >= 0))
        start, end = order[starts], order[latest[starts]]
        follows = (
            (of_streams[start] == of_streams[end])
            & (of_places[start] == of_places[end])
            & (of_ranks[start] - of_ranks[end] <= WITHIN)
        )
        found = np.zeros(count, np.bool_)
        found[start[follows] - before - count] = True
        kept = np.flatnonzero(to_come < WITHIN)[-_KEPT_MAX:]
        self._streams, self._ends = streams[kept], ends[kept]
        return found


def _ranks(streams: _Int64s) -> tuple[_Int64s, _Int64s]:
    """How many of its own stream come before each, and how many after it."""
    order = np.argsort(streams, kind="stable")
    _, first, counts = np.unique(streams[order], return_index=True, return_counts=True)
    before = np.empty(len(streams), np.int64)
    before[order] = np.arange(len(streams)) - np.repeat(first, counts)
    after = np.empty(len(streams), np.int64)
    after[order] = np.repeat(counts, counts) - 1 - before[order]
    return before, after
