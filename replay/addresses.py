"""Where on the targets the source's addresses go.

``identity``: the same address, where the target is large enough; several source spaces on one target lie side by
side. ``compact``: the stretches that the workload touches, packed densely in their old order, so that neighbours
stay neighbours and each address keeps its place within 4 KiB. A transfer that does not fit the target's logical block
is widened outwards and flagged adjusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.schemas import IotraceError

from .scale import extents

_SPACE_ALIGNMENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SpaceMap:
    """Stretches of one address space, and where each begins on the target. Arrays of equal length, rising."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    bases: npt.NDArray[np.int64]

    def place(self, offset_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Addresses on the target. Each offset must lie in a stretch."""
        index = np.searchsorted(self.starts, offset_bytes, side="right") - 1
        placed: npt.NDArray[np.int64] = offset_bytes - self.starts[index] + self.bases[index]
        return placed


@dataclass(frozen=True, slots=True)
class Layout:
    """How the spaces of one target lie on it: ``mode`` identity or compact, and the bytes they take up."""

    mode: str
    bytes: int
    spaces: Mapping[int, SpaceMap]

    def describe(self, space: int) -> dict[str, Any]:
        """For the manifest: mode, first address, stretches and bytes of one space."""
        part = self.spaces[space]
        return {
            "mode": self.mode,
            "base_bytes": int(part.bases[0]) if len(part.bases) else 0,
            "extents": len(part.starts) if self.mode == "compact" else None,
            "touched_bytes": int((part.ends - part.starts).sum()) if self.mode == "compact" else None,
        }


@dataclass(frozen=True, slots=True)
class Footprint:
    """The stretches one target's spaces touch, in whole granules; the input of both layouts."""

    granule_bytes: int
    extents: Mapping[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]

    @property
    def compact_bytes(self) -> int:
        """What a target needs for everything packed."""
        return sum(int((ends - starts).sum()) for starts, ends in self.extents.values())

    @property
    def identity_bytes(self) -> int:
        """What a target needs for every address to stay where it is."""
        reaches = [int(ends[-1]) if len(ends) else 0 for _, ends in self.extents.values()]
        return sum(_align(reach) for reach in reaches[:-1]) + (reaches[-1] if reaches else 0)


def footprint(
    space: npt.NDArray[np.int32],
    offset_bytes: npt.NDArray[np.uint64],
    size_bytes: npt.NDArray[np.uint32],
    logical_block_bytes: int,
) -> Footprint:
    """Stretches touched per space. Granules are 4 KiB, or the target's logical block where that is larger."""
    granule = max(4096, logical_block_bytes)
    return Footprint(
        granule,
        {
            int(one): extents(offset_bytes[space == one], size_bytes[space == one], granule)
            for one in np.unique(space)
        },
    )


def lay_out(touched: Footprint, target_bytes: int, target_name: str) -> Layout:
    """Identity if the target holds it, else compact. Raises `IotraceError` if even that is too large."""
    if touched.identity_bytes <= target_bytes:
        spaces, base = {}, 0
        for space, (_, ends) in touched.extents.items():
            reach = int(ends[-1]) if len(ends) else 0
            spaces[space] = SpaceMap(np.array([0]), np.array([reach]), np.array([base]))
            base += _align(reach)
        return Layout("identity", touched.identity_bytes, spaces)
    needed = touched.compact_bytes
    if needed > target_bytes:
        raise IotraceError(
            f"target '{target_name}' is too small: the workload touches {needed:,} bytes, it has {target_bytes:,}",
            hint="choose a larger target, replay a shorter window, or spread the source's devices with --map",
        )
    spaces, base = {}, 0
    for space, (starts, ends) in touched.extents.items():
        lengths = ends - starts
        spaces[space] = SpaceMap(
            starts, ends, base + np.concatenate([[0], np.cumsum(lengths)[:-1]])[: len(starts)]
        )
        base += int(lengths.sum())
    return Layout("compact", needed, spaces)


def align(
    offset_bytes: npt.NDArray[np.int64], size_bytes: npt.NDArray[np.int64], block_bytes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Widen transfers to whole blocks: new offsets, new sizes, and which were changed."""
    starts = offset_bytes // block_bytes * block_bytes
    ends = -(-(offset_bytes + size_bytes) // block_bytes) * block_bytes
    sizes = ends - starts
    return starts, sizes, (starts != offset_bytes) | (sizes != size_bytes)


def _align(size: int) -> int:
    return -(-size // _SPACE_ALIGNMENT_BYTES) * _SPACE_ALIGNMENT_BYTES
