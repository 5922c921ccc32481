"""Where on the targets the source's addresses go, and which stretches of storage a workload touches.

``identity``: the same address, where the target is large enough; several source spaces on one target lie side by
side. ``compact``: the stretches that the workload touches, packed densely in their old order, so that neighbours
stay neighbours and each address keeps its place within 4 KiB. ``fold``: packed, and what lies beyond the target's end
starts over at its beginning. Superposed copies lie one behind the other. A transfer that does not fit the target's
logical block is widened outwards and flagged adjusted.

The stretches are gathered in one pass. A place is one int64: the address space's slot above, the number of its 4 KiB
granule below. That keeps thousands of spaces in one sorted array, and every step a whole-array operation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _engine
from iotrace.schemas import IotraceError
from iotrace.schemas.arrays import Int64s

from .rows import constant

GRANULE_BYTES = 4096
_GRANULE_BITS = 44
_SPACES_MAX = 1 << (62 - _GRANULE_BITS)
EXTENTS_MAX = 1 << 21

Places = npt.NDArray[np.int64]
_SPACE_ALIGNMENT_BYTES = 1 << 20


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


@dataclass(frozen=True, slots=True)
class Stretches:
    """What is touched of one address space: places, rising and disjoint. ``bytes`` is the space's size if known."""

    space: int
    slot: int
    starts: Places
    ends: Places
    bytes: int = 0

    @property
    def reach_bytes(self) -> int:
        """From the space's start to the end of the last stretch, or of the space where that is further."""
        reach = int(granule_of(self.ends[-1:] - 1)[0] + 1) * GRANULE_BYTES if len(self.ends) else 0
        return max(reach, self.bytes)

    @property
    def touched_bytes(self) -> int:
        """Bytes in the stretches."""
        return int((self.ends - self.starts).sum()) * GRANULE_BYTES

    def widened(self, block_bytes: int) -> "Stretches":
        """The stretches in whole blocks, for targets whose logical block is larger than a granule."""
        granules = block_bytes // GRANULE_BYTES
        if granules <= 1:
            return self
        starts, ends = union(self.starts // granules * granules, -(-self.ends // granules) * granules)
        return Stretches(self.space, self.slot, starts, ends, self.bytes)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the spaces of one target lie on it."""

    mode: str
    starts: Places
    bases: Int64s
    """First address on the target of each stretch in ``starts``."""
    copy_bytes: int
    """Distance of one superposed copy from the next."""
    bytes: int
    """What all copies take up."""
    capacity_bytes: int
    """Where folding starts over; 0 where nothing is folded."""
    spaces: Mapping[int, dict[str, Any]]
    """For the manifest, by space: mode, base_bytes, extents, touched_bytes."""


def identity_bytes(spaces: Sequence[Stretches]) -> int:
    """What a target needs for every address to stay where it is."""
    reaches = [space.reach_bytes for space in spaces]
    return sum(_align(reach) for reach in reaches[:-1]) + (reaches[-1] if reaches else 0)


def compact_bytes(spaces: Sequence[Stretches]) -> int:
    """What a target needs for everything packed."""
    return sum(space.touched_bytes for space in spaces)


def copies_bytes(one_bytes: int, copies: int) -> int:
    """What ``copies`` of something take up, each starting on a whole MiB."""
    return _align(one_bytes) * (copies - 1) + one_bytes


def lay_out(
    spaces: Sequence[Stretches],
    target_bytes: int,
    target_name: str,
    *,
    mode: str = "auto",
    copies: int = 1,
    block_bytes: int = 512,
) -> Layout:
    """Lay ``spaces`` out on a target in ``mode``; ``auto`` is identity if the target holds it, else compact.

    Raises `IotraceError` if the target is too small for what is asked.
    """
    spaces = [space.widened(block_bytes) for space in sorted(spaces, key=lambda space: space.space)]
    identity, compact = identity_bytes(spaces), compact_bytes(spaces)
    if mode == "auto":
        mode = "identity" if copies_bytes(identity, copies) <= target_bytes else "compact"
    one_bytes = identity if mode == "identity" else compact
    needed = copies_bytes(one_bytes, copies)
    if mode != "fold" and needed > target_bytes:
        raise _too_small(target_name, target_bytes, needed, mode, copies)
    capacity = target_bytes // max(block_bytes, GRANULE_BYTES) * max(block_bytes, GRANULE_BYTES)
    if mode == "fold" and not capacity:
        raise _too_small(target_name, target_bytes, GRANULE_BYTES, mode, copies)
    starts, bases, described = [], [], {}
    base = 0
    for space in spaces:
        if mode == "identity":
            starts.append(place(np.array([space.slot], np.int64), np.array([0], np.int64)))
            bases.append(np.array([base], np.int64))
            described[space.space] = {
                "mode": mode,
                "base_bytes": base,
                "extents": None,
                "touched_bytes": None,
            }
            base += _align(space.reach_bytes)
            continue
        lengths = (space.ends - space.starts) * GRANULE_BYTES
        starts.append(space.starts)
        bases.append(base + np.cumsum(lengths) - lengths)
        described[space.space] = {
            "mode": mode,
            "base_bytes": base,
            "extents": len(space.starts),
            "touched_bytes": space.touched_bytes,
        }
        base += space.touched_bytes
    nothing = np.zeros(0, np.int64)
    return Layout(
        mode=mode,
        starts=np.concatenate([nothing, *starts]),
        bases=np.concatenate([nothing, *bases]),
        copy_bytes=_align(one_bytes),
        bytes=needed,
        capacity_bytes=capacity if mode == "fold" else 0,
        spaces=described,
    )


@dataclass(frozen=True, slots=True)
class AddressMap:
    """All layouts at once: arrays over stretches, rising by place, and arrays over targets."""

    starts: Places
    bases: Int64s
    block_bytes: Int64s
    copy_bytes: Int64s
    capacity_bytes: Int64s

    @classmethod
    def of(cls, layouts: Sequence[Layout], block_bytes: Sequence[int]) -> "AddressMap":
        """Put together the layouts of all targets, in their order."""
        nothing = np.zeros(0, np.int64)
        starts = np.concatenate([nothing, *(layout.starts for layout in layouts)])
        bases = np.concatenate([nothing, *(layout.bases for layout in layouts)])
        order = np.argsort(starts)
        return cls(
            starts[order],
            bases[order],
            np.array(block_bytes, np.int64),
            np.array([layout.copy_bytes for layout in layouts], np.int64),
            np.array([layout.capacity_bytes for layout in layouts], np.int64),
        )

    def map(
        self, slot: Int64s, target: Int64s, copy: Int64s, offset_bytes: Int64s, size_bytes: Int64s
    ) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
        """New offsets and sizes of transfers, and which were changed to fit. Each must lie in a stretch."""
        starts, sizes, changed = align(offset_bytes, size_bytes, self.block_bytes[target])
        places = place(slot, starts)
        index = np.searchsorted(self.starts, places, side="right") - 1
        placed = (places - self.starts[index]) * GRANULE_BYTES + (starts & (GRANULE_BYTES - 1))
        placed += self.bases[index] + copy * self.copy_bytes[target]
        if self.capacity_bytes.any():
            capacity = self.capacity_bytes[target]
            folded = capacity > 0
            fitting = np.where(folded, np.minimum(sizes, capacity), sizes)
            turned = np.where(folded, placed % np.maximum(capacity, 1), placed)
            moved = np.where(folded, np.minimum(turned, capacity - fitting), turned)
            changed |= (moved != turned) | (fitting != sizes)
            placed, sizes = moved, fitting
        return placed, sizes, changed


def align(
    offset_bytes: Int64s, size_bytes: Int64s, block_bytes: Int64s | int
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Widen transfers to whole blocks: new offsets, new sizes, and which were changed."""
    starts = offset_bytes // block_bytes * block_bytes
    ends = -(-(offset_bytes + size_bytes) // block_bytes) * block_bytes
    sizes = ends - starts
    return starts, sizes, (starts != offset_bytes) | (sizes != size_bytes)


def _too_small(name: str, has: int, needs: int, mode: str, copies: int) -> IotraceError:
    what = "the workload touches" if mode == "compact" else f"{mode} addresses need"
    times = f", {copies} copies of it" if copies > 1 else ""
    more = ", or superpose with --footprint same" if copies > 1 else ""
    other = "let --addresses compact pack it, or " if mode == "identity" else ""
    return IotraceError(
        f"target '{name}' is too small: {what} {needs:,} bytes{times}, it has {has:,}",
        hint=f"{other}choose a larger target, a shorter --window, several targets with --map, "
        f"or fold it onto this one with --addresses fold{more}",
    )


def _align(size: int) -> int:
    return -(-size // _SPACE_ALIGNMENT_BYTES) * _SPACE_ALIGNMENT_BYTES
