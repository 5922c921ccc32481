"""How hard to play: the factor, what it does to the deadlines, and the load's shape before and after.

Mode ``compress`` divides all times by the factor: same order, footprint and pattern, bursts that many times sharper.
"""

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.schemas import IotraceError

MODES = ("compress",)
_WINDOWS_NS = {"10ms": 10_000_000, "100ms": 100_000_000, "1s": 1_000_000_000}


def parse_scale(text: str) -> float:
    """The factor meant by ``2x``, ``0.25x``, ``1.5x`` or ``2``. Raises `IotraceError` naming the text."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+|[0-9]+\.)\s*[xX]?\s*", text)
    factor = float(match[1]) if match else math.nan
    if not 1e-4 <= factor <= 1e4:
        raise IotraceError(f"'{text}' is not a scale", hint="a scale is a factor such as 2x, 1.5x or 0.25x")
    return factor


def compress(issued_ns: npt.NDArray[np.int64], start_ns: int, scale: float) -> npt.NDArray[np.int64]:
    """Deadlines from the run's start for I/Os issued at ``issued_ns``: exact at 1x, to the nanosecond elsewhere."""
    since = issued_ns - start_ns
    return since if scale == 1.0 else np.rint(since / scale).astype(np.int64)


def load_shape(
    at_ns: npt.NDArray[np.int64],
    space: npt.NDArray[np.int32],
    offset_bytes: npt.NDArray[np.uint64],
    size_bytes: npt.NDArray[np.uint32],
    transfers: npt.NDArray[np.bool_],
) -> dict[str, Any]:
    """Rate, burstiness, sequentiality and footprint of a load whose I/Os are in order of ``at_ns``.

    ``cv_interarrival`` is the coefficient of variation of the times between arrivals (0 a metronome, 1 Poisson).
    ``peak_to_mean`` compares the fullest window of each width with the mean, for widths the load fills at least
    twice. ``sequential_share`` is the share of transfers that begin where the one before in the same address space
    ended. ``footprint_bytes`` counts each byte touched once, in whole 4 KiB. Null where there is too little to say.
    """
    count = len(at_ns)
    span_ns = int(at_ns[-1] - at_ns[0]) if count else 0
    gaps = np.diff(at_ns)
    mean_gap = float(gaps.mean()) if len(gaps) else 0.0
    moved = int(size_bytes[transfers].sum(dtype=np.uint64))
    return {
        "ios": count,
        "span_ns": span_ns,
        "rate_per_s": (count - 1) * 1e9 / span_ns if span_ns else None,
        "rate_bytes_per_s": moved * 1e9 / span_ns if span_ns else None,
        "cv_interarrival": float(gaps.std()) / mean_gap if mean_gap else None,
        "peak_to_mean": {name: _peak_to_mean(at_ns, width) for name, width in _WINDOWS_NS.items()},
        "sequential_share": _sequential_share(
            space[transfers], offset_bytes[transfers], size_bytes[transfers]
        ),
        "footprint_bytes": footprint_bytes(space[transfers], offset_bytes[transfers], size_bytes[transfers]),
    }


def _peak_to_mean(at_ns: npt.NDArray[np.int64], width_ns: int) -> float | None:
    span_ns = int(at_ns[-1] - at_ns[0]) if len(at_ns) else 0
    windows = span_ns // width_ns
    if windows < 2:
        return None
    # Runs of equal window numbers, not a histogram: a long idle recording has more windows than I/Os.
    _, counts = np.unique((at_ns - at_ns[0]) // width_ns, return_counts=True)
    return float(counts.max()) / (len(at_ns) / (span_ns / width_ns))


def _sequential_share(
    space: npt.NDArray[np.int32], offset_bytes: npt.NDArray[np.uint64], size_bytes: npt.NDArray[np.uint32]
) -> float | None:
    if len(space) < 2:
        return None
    order = np.argsort(space, kind="stable")
    starts, ends, spaces = offset_bytes[order], offset_bytes[order] + size_bytes[order], space[order]
    follows = (starts[1:] == ends[:-1]) & (spaces[1:] == spaces[:-1])
    return float(follows.sum()) / (len(space) - 1)


def footprint_bytes(
    space: npt.NDArray[np.int32], offset_bytes: npt.NDArray[np.uint64], size_bytes: npt.NDArray[np.uint32]
) -> int:
    """Bytes touched at least once, in whole 4 KiB."""
    return sum(
        int((ends - starts).sum())
        for one in np.unique(space)
        for starts, ends in [extents(offset_bytes[space == one], size_bytes[space == one], 4096)]
    )


def extents(
    offset_bytes: npt.NDArray[np.uint64], size_bytes: npt.NDArray[np.uint32], granule_bytes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Starts and ends of the disjoint, rising stretches that transfers touch, rounded out to whole granules.

    Stretches that touch or overlap are one.
    """
    starts = offset_bytes.astype(np.int64) // granule_bytes * granule_bytes
    ends = -(-(offset_bytes.astype(np.int64) + size_bytes.astype(np.int64)) // granule_bytes) * granule_bytes
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    if not len(starts):
        return starts, ends
    first = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return starts[first], ends[last]
