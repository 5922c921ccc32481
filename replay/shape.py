"""The shape of a load: its rate, burstiness, sequentiality and footprint, gathered from I/Os in order of time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import _engine
from .extents import EXTENTS_MAX, GRANULE_BYTES, Places, Slots

WIDTHS_NS = {"10ms": 10_000_000, "100ms": 100_000_000, "1s": 1_000_000_000}


@dataclass(slots=True)
class Shape:
    """Add I/Os in order of time, in pieces of any size; then ask. engine/src/shape.rs does the counting."""

    _native: _engine.Shape = field(default_factory=lambda: _engine.Shape(EXTENTS_MAX))

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
        Raises ``ValueError`` for more than 262,144 spaces.
        """
        columns = {
            "at_ns": at_ns,
            "space": space.astype(np.int64, copy=False),
            "offset_bytes": offset_bytes,
            "size_bytes": size_bytes,
            "transfers": transfers.view(np.uint8),
        } | ({} if medium is None else {"medium": medium})
        self._native.add(pa.record_batch(columns))

    @property
    def counts(self) -> dict[str, Any]:
        """What was counted, in sums: see `_engine.Shape.counts`."""
        return self._native.counts()

    @property
    def slots(self) -> Slots:
        """The address spaces that transfers went to."""
        return Slots.of_ids(self._native.spaces())

    def stretches(self) -> tuple[Places, Places]:
        """What transfers touched, by slot (or medium): first places and the places after the last, disjoint, rising."""
        found = self._native.stretches()
        return found["start"].to_numpy(), found["end"].to_numpy()

    def retimed(self, at_ns: npt.NDArray[np.int64]) -> dict[str, Any]:
        """`result` with the I/Os at other times, rising; places and their order as they were added."""
        times = Shape()
        nothing = np.zeros(len(at_ns), np.int64)
        times.add(at_ns, nothing, nothing, nothing, np.zeros(len(at_ns), np.bool_))
        found = times.result()
        span_ns = found["span_ns"]
        timed = ("ios", "span_ns", "rate_per_s", "cv_interarrival", "peak_to_mean")
        moved_bytes = self.counts["moved_bytes"]
        rate = {"rate_bytes_per_s": moved_bytes * 1e9 / span_ns if span_ns else None}
        return self.result() | {name: found[name] for name in timed} | rate

    def result(self) -> dict[str, Any]:
        """The figures.

        ``cv_interarrival`` is the coefficient of variation of the times between arrivals (0 a metronome, 1 Poisson).
        ``peak_to_mean`` compares the fullest window of each width with the mean, for widths the load fills at least
        twice. ``sequential_share`` is the share of transfers that begin where the one before in the same address
        space ended. ``footprint_bytes`` counts each byte touched once, in whole 4 KiB. Null where there is too
        little to say.
        """
        counts = self.counts
        span_ns = counts["last_ns"] - counts["first_ns"]
        gaps = counts["ios"] - 1
        mean = span_ns / gaps if gaps > 0 else 0.0
        variance = max(0.0, counts["square_ns2"] / gaps - mean * mean) if gaps > 0 else 0.0
        transfers = counts["transfers"]
        starts, ends = self.stretches()
        return {
            "ios": counts["ios"],
            "span_ns": span_ns,
            "rate_per_s": gaps * 1e9 / span_ns if span_ns else None,
            "rate_bytes_per_s": counts["moved_bytes"] * 1e9 / span_ns if span_ns else None,
            "cv_interarrival": variance**0.5 / mean if mean else None,
            "peak_to_mean": {
                name: _to_mean(most, width_ns, counts["ios"], span_ns)
                for (name, width_ns), most in zip(WIDTHS_NS.items(), counts["most"], strict=True)
            },
            "sequential_share": counts["follows"] / (transfers - 1) if transfers > 1 else None,
            "footprint_bytes": int((ends - starts).sum()) * GRANULE_BYTES,
        }


def _to_mean(most: int, width_ns: int, count: int, span_ns: int) -> float | None:
    """How much fuller the fullest window is than the mean; None for a load that fills less than two."""
    return most / (count / (span_ns / width_ns)) if span_ns // width_ns >= 2 else None
