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

_ROOM_LEAST = 1 << 12
_PART = 1 << 15

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
    starts, ends = np.sort(starts), np.sort(ends)
    count = _join(starts, ends)
    return starts[:count], ends[:count]


def _join(starts: Places, ends: Places) -> int:
    """`union` in place of sorted starts and sorted ends, at least one of each; gives how many stretches there are.

    Part by part, in the processor's cache: fresh memory for the whole would cost more than the sorting.
    """
    last = len(starts) - 1
    found = 0
    for begin in range(0, last, _PART):
        end = min(begin + _PART, last)
        apart = starts[begin + 1 : end + 1] > ends[begin:end]
        more = int(np.count_nonzero(apart))
        ends[found : found + more] = ends[begin:end][apart]
        starts[found + 1 : found + 1 + more] = starts[begin + 1 : end + 1][apart]
        found += more
    ends[found] = ends[last]
    return found + 1


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
    """Gathers stretches: transfers as they come, all united once there is no room for more.

    Two buffers are used over and over: fresh memory for each union costs more than the sorting.
    """

    _starts: Places = field(default_factory=lambda: np.empty(_ROOM_LEAST, np.int64))
    _ends: Places = field(default_factory=lambda: np.empty(_ROOM_LEAST, np.int64))
    _count: int = 0
    _united: bool = True

    def add(
        self,
        slot: npt.NDArray[np.int64],
        offset_bytes: npt.NDArray[np.int64],
        size_bytes: npt.NDArray[np.int64],
    ) -> None:
        """Add transfers of at least a byte."""
        done = 0
        while done < len(slot):
            if self._count == len(self._starts):
                self._make_room()
            part = slice(done, done + len(self._starts) - self._count)
            starts = place(slot[part], offset_bytes[part])
            room = slice(self._count, self._count + len(starts))
            self._starts[room] = starts
            self._ends[room] = place(slot[part], offset_bytes[part] + (size_bytes[part] - 1)) + 1
            self._count += len(starts)
            self._united = False
            done += len(starts)

    def stretches(self) -> tuple[Places, Places]:
        """First places and the places after the last, disjoint and rising. Valid until the next `add`."""
        if not self._united:
            starts, ends = self._starts[: self._count], self._ends[: self._count]
            starts.sort()
            ends.sort()
            self._count = _join(starts, ends)
            if self._count > EXTENTS_MAX:
                found = _bounded(starts[: self._count], ends[: self._count])
                self._count = len(found[0])
                self._starts[: self._count], self._ends[: self._count] = found
            self._united = True
        return self._starts[: self._count], self._ends[: self._count]

    def _make_room(self) -> None:
        self.stretches()
        if self._count * 2 > len(self._starts):
            wider = np.empty((2, len(self._starts) * 2), np.int64)
            wider[0, : self._count], wider[1, : self._count] = self.stretches()
            self._starts, self._ends = wider

    @property
    def bytes(self) -> int:
        """Bytes touched at least once, in whole granules."""
        starts, ends = self.stretches()
        return int((ends - starts).sum()) * GRANULE_BYTES


def _bounded(starts: Places, ends: Places) -> tuple[Places, Places]:
    """More than `EXTENTS_MAX` stretches made fewer: those nearest one another are joined. Spaces stay apart."""
    excess = len(starts) - EXTENTS_MAX
    gaps = starts[1:] - ends[:-1]
    # Half of what is allowed is left, so that this happens seldom.
    widest = np.partition(gaps, excess + EXTENTS_MAX // 2 - 1)[excess + EXTENTS_MAX // 2 - 1]
    split = (gaps > widest) | (slot_of(starts[1:]) != slot_of(starts[:-1]))
    return starts[np.concatenate([[True], split])], ends[np.concatenate([split, [True]])]
