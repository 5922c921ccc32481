"""The shape of a load: its rate, burstiness, sequentiality and footprint, gathered from I/Os in order of time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .extents import Slots, Touched

WIDTHS_NS = {"10ms": 10_000_000, "100ms": 100_000_000, "1s": 1_000_000_000}


@dataclass(slots=True)
class _Peak:
    """The fullest window of one width. Windows lie side by side from the first I/O on."""

    width_ns: int
    most: int = 0
    _window: int = -1
    _count: int = 0

    def add(
        self, windows: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Add I/Os per window, window numbers rising; gives them with each window once."""
        starts = np.concatenate([[0], np.flatnonzero(np.diff(windows)) + 1])
        windows, counts = windows[starts], np.add.reduceat(counts, starts)
        carried = counts.copy()
        if windows[0] == self._window:
            carried[0] += self._count
        self.most = max(self.most, int(carried.max()))
        self._window, self._count = int(windows[-1]), int(carried[-1])
        return windows, counts

    def to_mean(self, count: int, span_ns: int) -> float | None:
        """How much fuller it is than the mean window; None for a load that fills less than two."""
        if span_ns // self.width_ns < 2:
            return None
        return self.most / (count / (span_ns / self.width_ns))


@dataclass(slots=True)
class Shape:
    """Add I/Os in order of time, in pieces of any size; then ask."""

    count: int = 0
    transfers: int = 0
    moved_bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0
    slots: Slots = field(default_factory=Slots)
    touched: Touched = field(default_factory=Touched)
    _square_ns2: float = 0.0
    _follows: int = 0
    _peaks: dict[str, _Peak] = field(
        default_factory=lambda: {name: _Peak(width_ns) for name, width_ns in WIDTHS_NS.items()}
    )
    _ends: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(
        self,
        at_ns: npt.NDArray[np.int64],
        space: npt.NDArray[np.integer[Any]],
        offset_bytes: npt.NDArray[np.int64],
        size_bytes: npt.NDArray[np.int64],
        transfers: npt.NDArray[np.bool_],
        medium: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Add I/Os issued at ``at_ns``; those that are no ``transfers`` count for time alone.

        Sequences run within a ``space``. What is touched is counted by ``medium`` where several spaces share one.
        """
        if not len(at_ns):
            return
        if not self.count:
            self.first_ns = self.last_ns = int(at_ns[0])
        gaps = np.diff(at_ns, prepend=self.last_ns).astype(np.float64)
        self._square_ns2 += float(gaps @ gaps)
        self.count += len(at_ns)
        self.last_ns = int(at_ns[-1])
        self._count_windows(at_ns - self.first_ns)
        if not transfers.all():
            space, offset_bytes, size_bytes = space[transfers], offset_bytes[transfers], size_bytes[transfers]
            medium = None if medium is None else medium[transfers]
        if not len(space):
            return
        self.transfers += len(space)
        self.moved_bytes += int(size_bytes.sum())
        slot = self.slots.of(space)
        self.touched.add(slot if medium is None else medium, offset_bytes, size_bytes)
        self._count_follows(slot, offset_bytes, size_bytes)

    def _count_windows(self, since_ns: npt.NDArray[np.int64]) -> None:
        # Runs of equal window numbers, not a histogram: a long idle recording has more windows than I/Os. Wider
        # windows are made of the narrower ones.
        narrowest, *wider = self._peaks.values()
        windows, counts = since_ns // narrowest.width_ns, np.ones(len(since_ns), np.int64)
        windows, counts = narrowest.add(windows, counts)
        width_ns = narrowest.width_ns
        for peak in wider:
            windows, counts = peak.add(windows // (peak.width_ns // width_ns), counts)
            width_ns = peak.width_ns

    def _count_follows(
        self,
        slot: npt.NDArray[np.int64],
        offset_bytes: npt.NDArray[np.int64],
        size_bytes: npt.NDArray[np.int64],
    ) -> None:
        if len(self.slots.ids) > len(self._ends):
            unknown = np.full(len(self.slots.ids) - len(self._ends), -1)
            self._ends = np.concatenate([self._ends, unknown])
        ends = offset_bytes + size_bytes
        if len(self.slots.ids) > 1:
            # Sixteen bits are sorted by radix, which is linear.
            narrow = slot.astype(np.uint16) if len(self.slots.ids) <= 1 << 16 else slot
            order = np.argsort(narrow, kind="stable")
            slot, offset_bytes, ends = slot[order], offset_bytes[order], ends[order]
        first = np.concatenate([[True], slot[1:] != slot[:-1]])
        before = np.concatenate([[0], ends[:-1]])
        before[first] = self._ends[slot[first]]
        self._follows += int(np.count_nonzero(offset_bytes == before))
        last = np.concatenate([first[1:], [True]])
        self._ends[slot[last]] = ends[last]

    def retimed(self, at_ns: npt.NDArray[np.int64]) -> dict[str, Any]:
        """`result` with the I/Os at other times, rising; places and their order as they were added."""
        times = Shape()
        nothing = np.zeros(len(at_ns), np.int64)
        times.add(at_ns, nothing, nothing, nothing, np.zeros(len(at_ns), np.bool_))
        found = times.result()
        span_ns = found["span_ns"]
        timed = ("ios", "span_ns", "rate_per_s", "cv_interarrival", "peak_to_mean")
        rate = {"rate_bytes_per_s": self.moved_bytes * 1e9 / span_ns if span_ns else None}
        return self.result() | {name: found[name] for name in timed} | rate

    def result(self) -> dict[str, Any]:
        """The figures.

        ``cv_interarrival`` is the coefficient of variation of the times between arrivals (0 a metronome, 1 Poisson).
        ``peak_to_mean`` compares the fullest window of each width with the mean, for widths the load fills at least
        twice. ``sequential_share`` is the share of transfers that begin where the one before in the same address
        space ended. ``footprint_bytes`` counts each byte touched once, in whole 4 KiB. Null where there is too
        little to say.
        """
        span_ns = self.last_ns - self.first_ns
        gaps = self.count - 1
        mean = span_ns / gaps if gaps > 0 else 0.0
        variance = max(0.0, self._square_ns2 / gaps - mean * mean) if gaps > 0 else 0.0
        return {
            "ios": self.count,
            "span_ns": span_ns,
            "rate_per_s": gaps * 1e9 / span_ns if span_ns else None,
            "rate_bytes_per_s": self.moved_bytes * 1e9 / span_ns if span_ns else None,
            "cv_interarrival": variance**0.5 / mean if mean else None,
            "peak_to_mean": {name: peak.to_mean(self.count, span_ns) for name, peak in self._peaks.items()},
            "sequential_share": self._follows / (self.transfers - 1) if self.transfers > 1 else None,
            "footprint_bytes": self.touched.bytes,
        }
