"""How I/Os arrived: the gaps between them, and how many came in the fullest stretches of some lengths.

Both are summaries of neighbouring stretches of time that `join` exactly.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from .rows import Int64s

BINS_NS: Final = (10_000_000, 100_000_000, 1_000_000_000)
"""Lengths in which arrivals are counted, aligned to the recording's start; each divides the next."""


@dataclass(slots=True)
class Bins:
    """Arrivals per bin of one length: the fullest one, and the first and the last, which a neighbour may share."""

    peak: int = 0
    first: tuple[int, int] | None = None
    """Number of the first bin, and arrivals in it."""
    last: tuple[int, int] | None = None

    def join(self, later: "Bins") -> None:
        """Take in the bins of the stretch that follows."""
        if later.first is None or later.last is None:
            return
        first, last = later.first, later.last
        if self.last is not None and self.last[0] == first[0]:
            shared = (first[0], self.last[1] + first[1])
            self.peak = max(self.peak, shared[1])
            if self.first is not None and self.first[0] == shared[0]:
                self.first = shared
            if last[0] == shared[0]:
                last = shared
        elif self.first is None:
            self.first = first
        self.last = last
        self.peak = max(self.peak, later.peak)


@dataclass(slots=True)
class Arrivals:
    """Sums over the gaps between neighbouring arrivals, enough for their mean and variance, and arrivals per bin."""

    count: int = 0
    """Gaps, one less than arrivals."""
    sum_ns: float = 0.0
    square_sum_ns2: float = 0.0
    first_ns: int | None = None
    last_ns: int | None = None
    bins: tuple[Bins, ...] = field(default_factory=lambda: tuple(Bins() for _ in BINS_NS))

    @classmethod
    def of(cls, times_ns: Int64s) -> "Arrivals":
        """Summarise arrivals at ascending times."""
        if not len(times_ns):
            return cls()
        gaps = np.diff(times_ns)
        return cls(
            len(gaps),
            float(times_ns[-1] - times_ns[0]),
            float(np.square(gaps, dtype=np.float64).sum()),
            int(times_ns[0]),
            int(times_ns[-1]),
            _bins(times_ns),
        )

    def join(self, later: "Arrivals") -> None:
        """Take in the arrivals of the stretch that follows."""
        if later.first_ns is None:
            return
        if self.last_ns is not None:
            gap = float(later.first_ns - self.last_ns)
            self.count += 1
            self.sum_ns += gap
            self.square_sum_ns2 += gap * gap
        else:
            self.first_ns = later.first_ns
        self.count += later.count
        self.sum_ns += later.sum_ns
        self.square_sum_ns2 += later.square_sum_ns2
        self.last_ns = later.last_ns
        for mine, theirs in zip(self.bins, later.bins, strict=True):
            mine.join(theirs)

    @property
    def coefficient_of_variation(self) -> float | None:
        """Standard deviation over mean: 1 for random (Poisson) arrivals, 0 for a metronome; None below 100 gaps."""
        if self.count < 100 or self.sum_ns <= 0:
            return None
        mean = self.sum_ns / self.count
        return float(np.sqrt(max(self.square_sum_ns2 / self.count - mean * mean, 0.0)) / mean)

    @property
    def peak_counts(self) -> dict[int, int]:
        """Arrivals in the fullest bin of each of `BINS_NS`."""
        return {bin_ns: bins.peak for bin_ns, bins in zip(BINS_NS, self.bins, strict=True)}


def counted(times_ns: Int64s, bin_ns: int) -> tuple[Int64s, Int64s]:
    """Numbers of the bins with arrivals, and where in ``times_ns``, which ascend, each begins."""
    first, last = int(times_ns[0]) // bin_ns, int(times_ns[-1]) // bin_ns
    if last - first < len(times_ns) // 8:
        # Few bins: look each one up instead of dividing every time.
        edges = np.arange(first, last + 2, dtype=np.int64)
        places = np.searchsorted(times_ns, edges * bin_ns)
        is_filled = places[1:] > places[:-1]
        return edges[:-1][is_filled], places[:-1][is_filled]
    numbers = times_ns // bin_ns
    starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    return numbers[starts], starts


def _bins(times_ns: Int64s) -> tuple[Bins, ...]:
    numbers, starts = counted(times_ns, BINS_NS[0])
    counts = np.diff(np.append(starts, len(times_ns)))
    found, width_ns = [], BINS_NS[0]
    for bin_ns in BINS_NS:
        if bin_ns != width_ns:
            numbers = numbers // (bin_ns // width_ns)
            starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
            numbers, counts, width_ns = numbers[starts], np.add.reduceat(counts, starts), bin_ns
        first, last = (int(numbers[0]), int(counts[0])), (int(numbers[-1]), int(counts[-1]))
        found.append(Bins(int(counts.max()), first, last))
    return tuple(found)
