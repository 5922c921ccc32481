"""The stretches of storage that a workload touches, gathered in one pass and bounded memory.

A place is one int64: the address space's slot above, the number of its 4 KiB granule below. That keeps thousands of
spaces in one sorted array, and every step a whole-array operation.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

GRANULE_BYTES = 4096
_GRANULE_BITS = 44
_SPACES_MAX = 1 << (62 - _GRANULE_BITS)
EXTENTS_MAX = 1 << 21
"""More stretches than this are joined across the smallest gaps: packing stays exact, but less tight."""

_UNITED_AT_ONCE = 1 << 20

Places = npt.NDArray[np.int64]


def place(slot: npt.NDArray[np.int64], offset_bytes: npt.NDArray[np.int64]) -> Places:
    """The place of the granule that holds each offset, below 2^55, of the space with the given slot."""
    return (slot << _GRANULE_BITS) | (offset_bytes >> 12)


def slot_of(places: Places) -> npt.NDArray[np.int64]:
    """The slot of the space a place lies in."""
    return places >> _GRANULE_BITS


def granule_of(places: Places) -> npt.NDArray[np.int64]:
    """The granule's number within its space."""
    return places & ((1 << _GRANULE_BITS) - 1)


def union(starts: Places, ends: Places) -> tuple[Places, Places]:
    """The disjoint, rising stretches that intervals cover; those that touch or overlap are one.

    A stretch begins where everything that began earlier has ended: sorting starts and ends apart tells where.
    """
    if not len(starts):
        return starts, ends
    lengths = ends - starts
    starts = np.sort(starts)
    ends = starts + lengths[0] if (lengths == lengths[0]).all() else np.sort(ends)
    apart = np.flatnonzero(starts[1:] > ends[:-1])
    return starts[np.concatenate([[0], apart + 1])], ends[np.concatenate([apart, [len(ends) - 1]])]


@dataclass(slots=True)
class Slots:
    """Small numbers for address spaces, in order of first sight."""

    ids: list[int] = field(default_factory=list)
    _sorted: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _slots: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def of(self, space: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """The slot of each space; new ones are added."""
        if not len(space):
            return np.zeros(0, np.int64)
        position = np.minimum(np.searchsorted(self._sorted, space), max(0, len(self._sorted) - 1))
        if not len(self._sorted) or not (known := self._sorted[position] == space).all():
            strangers = np.unique(space if not len(self._sorted) else space[~known])
            self.ids += [int(stranger) for stranger in strangers]
            if len(self.ids) > _SPACES_MAX:
                raise ValueError(f"more than {_SPACES_MAX} address spaces")
            order = np.argsort(self.ids)
            self._sorted, self._slots = np.array(self.ids, np.int64)[order], order.astype(np.int64)
            position = np.searchsorted(self._sorted, space)
        return self._slots[position]


@dataclass(slots=True)
class Touched:
    """Gathers stretches: transfers as they come, until there are as many as stretches, and then all united."""

    _starts: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    _ends: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    _pending: list[tuple[Places, Places]] = field(default_factory=list)
    _pending_count: int = 0

    def add(
        self,
        slot: npt.NDArray[np.int64],
        offset_bytes: npt.NDArray[np.int64],
        size_bytes: npt.NDArray[np.int64],
    ) -> None:
        """Add transfers of at least a byte."""
        if not len(slot):
            return
        self._pending.append((place(slot, offset_bytes), place(slot, offset_bytes + (size_bytes - 1)) + 1))
        self._pending_count += len(slot)
        if self._pending_count >= max(_UNITED_AT_ONCE, len(self._starts)):
            self.stretches()

    def stretches(self) -> tuple[Places, Places]:
        """First places and the places after the last, disjoint and rising."""
        if self._pending:
            starts, ends = zip(*self._pending, strict=True)
            united = union(np.concatenate([self._starts, *starts]), np.concatenate([self._ends, *ends]))
            self._starts, self._ends = _bounded(*united)
            self._pending, self._pending_count = [], 0
        return self._starts, self._ends

    @property
    def bytes(self) -> int:
        """Bytes touched at least once, in whole granules."""
        starts, ends = self.stretches()
        return int((ends - starts).sum()) * GRANULE_BYTES


def _bounded(starts: Places, ends: Places) -> tuple[Places, Places]:
    """At most `EXTENTS_MAX` stretches, those with the smallest gaps between them joined. Spaces stay apart."""
    excess = len(starts) - EXTENTS_MAX
    if excess <= 0:
        return starts, ends
    gaps = starts[1:] - ends[:-1]
    # Half of what is allowed is left, so that this happens seldom.
    widest = np.partition(gaps, excess + EXTENTS_MAX // 2 - 1)[excess + EXTENTS_MAX // 2 - 1]
    split = (gaps > widest) | (slot_of(starts[1:]) != slot_of(starts[:-1]))
    return starts[np.concatenate([[True], split])], ends[np.concatenate([split, [True]])]
