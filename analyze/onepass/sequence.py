"""Which I/Os continue an earlier one of their stream: the one before, or one of the last few.

Several sequential readers of one file take turns, so that hardly any I/O continues the one just before it; looking back
over some more shows them (windowed seek distance: Ahmad, "Easy and Efficient Disk I/O Workload Characterization in
VMware ESX Server", IISWC 2007).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .rows import Int64s
from .streams import Ints

LOOK_BACK_IOS: Final = 16
"""How many I/Os of the same device, file and operation are looked back over."""

_NOWHERE: Final = -1
_NO_END: Final = -2


@dataclass(slots=True)
class Sequence:
    """I/Os that continue another, per stream, and what is needed to join neighbouring stretches of time."""

    next_count: Int64s
    """Per stream: I/Os that begin where the one before ended."""
    near_count: Int64s
    """Per stream: I/Os that begin where one of the last `LOOK_BACK_IOS` ended."""
    present: Int64s
    """Streams with I/Os in the stretch; one row of ``heads``, ``near_heads`` and ``tails`` each."""
    heads: Int64s
    """Offset of the first I/O of each present stream."""
    near_heads: Int64s
    """Offsets of the first I/Os that continue nothing in this stretch, by position; -1 for those that do."""
    tails: Int64s
    """Where the last I/Os ended, the last one in the last column; -2 where there were fewer."""

    @classmethod
    def empty(cls, stream_count: int) -> "Sequence":
        """No I/O yet."""
        none = np.zeros(0, dtype=np.int64)
        wide = np.zeros((0, LOOK_BACK_IOS), dtype=np.int64)
        zeros = np.zeros(stream_count, dtype=np.int64)
        return cls(zeros, zeros.copy(), none, none, wide, wide)

    @classmethod
    def of(cls, numbers: Ints, borders: Int64s, offsets: Int64s, ends: Int64s) -> "Sequence":
        """Summarise I/Os sorted by stream, in order of issue within it; stream k has [borders[k], borders[k + 1])."""
        count, rows = len(borders) - 1, len(numbers)
        found = cls.empty(count)
        if not rows:
            return found
        is_near = np.zeros(rows, dtype=bool)
        for lag in range(1, min(LOOK_BACK_IOS, rows - 1) + 1):
            continued = offsets[lag:] == ends[:-lag]
            continued &= numbers[lag:] == numbers[:-lag]
            if lag == 1:
                found.next_count = np.bincount(numbers[1:][continued], minlength=count)
            is_near[lag:] |= continued
        found.near_count = np.bincount(numbers[is_near], minlength=count)
        found.present = np.flatnonzero(np.diff(borders))
        firsts, lasts = borders[found.present], borders[found.present + 1]
        found.heads = offsets[firsts]
        places = firsts[:, None] + np.arange(LOOK_BACK_IOS)
        within = places < lasts[:, None]
        places = np.minimum(places, rows - 1)
        found.near_heads = np.where(within & ~is_near[places], offsets[places], _NOWHERE)
        places = lasts[:, None] - LOOK_BACK_IOS + np.arange(LOOK_BACK_IOS)
        found.tails = np.where(places >= firsts[:, None], ends[np.maximum(places, 0)], _NO_END)
        return found

    def join(self, later: "Sequence") -> None:
        """Take in the stretch that follows."""
        self.next_count = self.next_count + later.next_count
        self.near_count = self.near_count + later.near_count
        both, mine, theirs = np.intersect1d(
            self.present, later.present, assume_unique=True, return_indices=True
        )
        tails, near_heads = self.tails[mine], later.near_heads.copy()
        self.next_count[both] += later.heads[theirs] == tails[:, -1]
        for place in range(LOOK_BACK_IOS):
            is_near = (tails[:, place:] == near_heads[theirs, place, None]).any(axis=1)
            self.near_count[both] += is_near
            near_heads[theirs[is_near], place] = _NOWHERE
        present = np.union1d(self.present, later.present)
        before, after = np.searchsorted(present, self.present), np.searchsorted(present, later.present)
        heads = np.full(len(present), _NOWHERE, dtype=np.int64)
        heads[after] = later.heads
        heads[before] = self.heads
        old_tails = _spread(self.tails, before, len(present), _NO_END)
        new_tails = _spread(later.tails, after, len(present), _NO_END)
        old_count, new_count = ((part != _NO_END).sum(axis=1)[:, None] for part in (old_tails, new_tails))
        columns = np.arange(LOOK_BACK_IOS)
        # First come those before, then the later ones; at the end the later ones, and before them those before.
        near = np.concatenate([_spread(self.near_heads, before, len(present), _NOWHERE),
                               _spread(near_heads, after, len(present), _NOWHERE)], axis=1)  # fmt: skip
        taken = np.where(columns < old_count, columns, LOOK_BACK_IOS + columns - old_count)
        self.near_heads = np.take_along_axis(near, taken, axis=1)
        ends = np.concatenate([old_tails, new_tails], axis=1)
        is_new = columns >= LOOK_BACK_IOS - new_count
        taken = np.where(is_new, LOOK_BACK_IOS + columns, columns + new_count)
        self.tails = np.take_along_axis(ends, taken, axis=1)
        self.present, self.heads = present, heads


def _spread(part: Int64s, at: Ints, count: int, filler: int) -> Int64s:
    """Rows of ``part`` at their places among ``count`` rows."""
    whole = np.full((count, part.shape[1]), filler, dtype=np.int64)
    whole[at] = part
    return whole
