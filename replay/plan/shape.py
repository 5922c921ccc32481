"""The shape of a load: its rate, burstiness, sequentiality and footprint, gathered from I/Os in order of time."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _engine
from iotrace.schemas.run import LoadShape

from .extents import EXTENTS_MAX, Places, Slots
from .rows import READ, Rows

_WIDTHS: Final = ("10ms", "100ms", "1s")


@dataclass(slots=True)
class Shape:
    """Add I/Os in order of time, in pieces of any size; then ask. The figures are defined in schemas/load."""

    _native: _engine.Shape = field(default_factory=_engine.Shape)

    def add(
        self,
        rows: Rows,
        *,
        is_log: npt.NDArray[np.bool_] | None = None,
        space: npt.NDArray[np.int64] | None = None,
        medium: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Add I/Os; of what neither reads nor writes only the number and the times are kept.

        Sequences run within a file of a ``space``, that of the rows where none is given. What is touched is counted by
        ``medium`` where several spaces share one. Raises ``ValueError`` for more than 262,144 spaces.
        """
        columns = {
            "at_ns": rows.at_ns,
            "op": rows.op,
            "is_log": np.zeros(len(rows), np.uint8) if is_log is None else is_log.astype(np.uint8),
            "space": rows.space.astype(np.int64) if space is None else space,
            "file_id": rows.file_id,
            "offset_bytes": rows.offset_bytes,
            "size_bytes": rows.size_bytes,
        } | ({} if medium is None else {"medium": medium})
        self._native.add(pa.record_batch(columns))

    @property
    def counts(self) -> dict[str, Any]:
        """What was counted: see `_engine.Shape.counts`."""
        return self._native.counts()

    @property
    def slots(self) -> Slots:
        """The address spaces that transfers went to."""
        return Slots.of_ids(self._native.spaces())

    def stretches(self) -> tuple[Places, Places]:
        """What transfers touched, by slot (or medium): first places and the places after the last, disjoint, rising."""
        found = self._native.stretches(EXTENTS_MAX)
        return found["start"].to_numpy(), found["end"].to_numpy()

    def retimed(self, at_ns: npt.NDArray[np.int64]) -> LoadShape:
        """`result` with the I/Os at other times, rising; places and their order as they were added."""
        times, nothing = _engine.Shape(), np.zeros(len(at_ns), np.int64)
        columns = dict.fromkeys(("space", "offset_bytes", "size_bytes"), nothing) | {
            "at_ns": at_ns,
            "op": np.full(len(at_ns), READ, np.uint8),
            "is_log": np.zeros(len(at_ns), np.uint8),
            "file_id": np.zeros(len(at_ns), np.int32),
        }
        times.add(pa.record_batch(columns))
        found = Shape(times).result()
        return replace(
            self.result(),
            ios=found.ios,
            span_ns=found.span_ns,
            rate_per_s=found.rate_per_s,
            rate_bytes_per_s=self.counts["moved_bytes"] * 1e9 / found.span_ns if found.span_ns else None,
            cv_interarrival=found.cv_interarrival,
            peak_to_mean=found.peak_to_mean,
        )

    def result(self) -> LoadShape:
        """The figures, of reads and writes but for ``ios``, which counts what else there is, too.

        ``cv_interarrival`` is the coefficient of variation of the times between arrivals (0 a metronome, 1 Poisson).
        ``peak_to_mean`` compares the fullest stretch of each width with the mean, for widths the load fills at least
        ten times. ``sequential_share`` is the share that begins where one of the last 16 of its operation in the same
        address space ended, or writes a log's end again. ``footprint_bytes`` counts each byte touched once, in whole
        4 KiB. Null where there is too little to say.
        """
        counts = self.counts
        span_ns, transfers = counts["span_ns"], counts["transfers"]
        return LoadShape(
            ios=counts["ios"],
            span_ns=span_ns,
            rate_per_s=counts["rate_per_s"],
            rate_bytes_per_s=counts["moved_bytes"] * 1e9 / span_ns if span_ns else None,
            cv_interarrival=counts["cv_interarrival"],
            peak_to_mean=dict(zip(_WIDTHS, counts["peak_to_mean"], strict=True)),
            sequential_share=counts["sequential"] / transfers if transfers else None,
            footprint_bytes=counts["footprint_bytes"],
        )
