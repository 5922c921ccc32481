"""Which transfers carry on where another left off, found among the last few of the same kind in the same place.

Looking at the one before alone would call two scans that take turns random. Looking at all would call chance order:
in a file of N blocks, a random block follows one of the last `WITHIN` with a chance of about `WITHIN` / N.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

WITHIN = 32
"""How many transfers back the end may lie that a transfer begins at."""

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
        positions = np.arange(before + count)
        # Ends and starts in one list, by place and then by time; the end that stands last before a start is the latest.
        of_places = np.concatenate([ends, offset_bytes])
        of_streams = np.concatenate([streams, stream])
        of_positions = np.concatenate([positions, positions[before:]])
        order = np.lexsort((of_positions, of_places, of_streams))
        is_end = order < before + count
        latest = np.maximum.accumulate(np.where(is_end, np.arange(len(order)), -1))
        starts = np.flatnonzero(~is_end & (latest >= 0))
        start, end = order[starts], order[latest[starts]]
        follows = (
            (of_streams[start] == of_streams[end])
            & (of_places[start] == of_places[end])
            & (of_positions[start] - of_positions[end] <= WITHIN)
        )
        found = np.zeros(count, np.bool_)
        found[of_positions[start[follows]] - before] = True
        self._streams, self._ends = streams[-WITHIN:], ends[-WITHIN:]
        return found
