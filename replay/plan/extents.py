"""The stretches of storage that a workload touches, gathered in one pass.

A place is one int64: the address space's slot above, the number of its 4 KiB granule below. That keeps thousands of
spaces in one sorted array, and every step a whole-array operation.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _engine

from .rows import constant

GRANULE_BYTES = 4096
_GRANULE_BITS = 44
_SPACES_MAX = 1 << (62 - _GRANULE_BITS)
EXTENTS_MAX = 1 << 21

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
    starts, ends = np.sort(starts), np.sort(ends)
    apart = starts[1:] > ends[:-1]
    return starts[np.concatenate([[True], apart])[: len(starts)]], ends[
        np.concatenate([apart, [True]])[: len(ends)]
    ]


@dataclass(slots=True)
class Slots:
    """Small numbers for address spaces, in order of first sight."""

    ids: list[int] = field(default_factory=list)
    _sorted: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _slots: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of_ids(cls, ids: list[int]) -> "Slots":
        """With the slots that the spaces have in this list."""
        order = np.argsort(np.array(ids, np.int64))
        return cls(list(ids), np.array(ids, np.int64)[order], order.astype(np.int64))

    def of(self, space: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """The slot of each space; new ones are added."""
        if not len(space):
            return np.zeros(0, np.int64)
        if len(self.ids) == 1 and (space == self.ids[0]).all():
            return constant(np.int64(0), len(space))
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
    """What transfers touch, gathered in one pass (schemas/load/src/footprint.rs)."""

    _native: _engine.Footprint = field(default_factory=_engine.Footprint)

    def add(
        self,
        slot: npt.NDArray[np.int64],
        offset_bytes: npt.NDArray[np.int64],
        size_bytes: npt.NDArray[np.int64],
    ) -> None:
        """Add transfers of at least a byte."""
        columns = {"slot": slot, "offset_bytes": offset_bytes, "size_bytes": size_bytes}
        self._native.add(pa.record_batch(columns))

    def stretches(self) -> tuple[Places, Places]:
        """First places and the places after the last, disjoint and rising.

        Of more than `EXTENTS_MAX` those nearest one another are joined: packing stays exact, but less tight.
        """
        found = self._native.stretches(EXTENTS_MAX)
        return found["start"].to_numpy(), found["end"].to_numpy()

    @property
    def bytes(self) -> int:
        """Bytes touched at least once, in whole granules."""
        return self._native.bytes()
