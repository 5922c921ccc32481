"""Totals of a disk since the host started, at one moment and a later one: rates and mean latencies between them.

Fields: Documentation/admin-guide/iostats.rst of the kernel. Read and write times are summed over I/Os in milliseconds
(node_exporter: seconds), the weighted time is I/Os in flight times milliseconds, sectors are of 512 bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from iotrace.capture.counters.names import Meaning

from .counters_trace import NANOSECONDS, Sample, meaning

_LAYER: Final = "block"
_RATES: Final = {
    "reads": ("reads/s", meaning("read_iops", _LAYER)),
    "writes": ("writes/s", meaning("write_iops", _LAYER)),
    "read_bytes": ("bytes read/s", meaning("read_bytes_per_second", _LAYER)),
    "write_bytes": ("bytes written/s", meaning("write_bytes_per_second", _LAYER)),
    "busy_s": ("busy", meaning("busy_percent", _LAYER, 100.0)),
    "idle_s": ("idle", meaning("idle_percent", _LAYER, 100.0)),
    "weighted_s": ("in flight, mean", meaning("queue_length", _LAYER)),
}
_MEANS: Final = {
    "read_s": ("reads", "time per read", meaning("read_latency_ns", _LAYER, 1e9)),
    "write_s": ("writes", "time per write", meaning("write_latency_ns", _LAYER, 1e9)),
}
_IN_FLIGHT: Final = meaning("in_flight", _LAYER, is_instant=True)
FIELDS: Final = frozenset({*_RATES, *_MEANS, "in_flight"})
"""Totals that are known, in s, bytes and I/Os; ``in_flight`` is no total."""

Totals = Mapping[str, float]


@dataclass(slots=True)
class Differences:
    """Turns totals of disks, in order of time, into samples. ``restarts`` counts totals that fell."""

    restarts: int = 0
    _before: dict[tuple[str, str], tuple[int, Totals]] = field(default_factory=dict)

    def samples(self, at_utc_ns: int, source: str, disk: str, totals: Totals) -> Iterator[Sample]:
        """What happened at ``disk`` since it was seen last."""
        before = self._before.get((source, disk))
        if before is not None and at_utc_ns <= before[0]:
            return
        self._before[source, disk] = (at_utc_ns, totals)
        if "in_flight" in totals:
            yield Sample(at_utc_ns, 0, disk, "in flight", totals["in_flight"], _IN_FLIGHT, source)
        if before is None:
            return
        gone = {
            name: totals[name] - before[1][name]
            for name in totals
            if name in before[1] and name != "in_flight"
        }
        if any(value < 0 for value in gone.values()):
            self.restarts += 1
            return
        interval_ns = at_utc_ns - before[0]
        for counter, value, sense in _figures(gone, interval_ns / NANOSECONDS):
            yield Sample(at_utc_ns, interval_ns, disk, counter, value, sense, source)


def _figures(gone: Totals, seconds: float) -> Iterator[tuple[str, float, Meaning]]:
    for name, (counter, sense) in _RATES.items():
        if name in gone:
            yield counter, gone[name] / seconds, sense
    for name, (of, counter, sense) in _MEANS.items():
        if name in gone and gone.get(of):
            yield counter, gone[name] / gone[of], sense
