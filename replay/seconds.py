"""How a run went, second by second, as counters of the recording: rate, load on the generator, lateness."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

_SECOND_NS: Final = 1_000_000_000
_SOURCE: Final = "iotrace replay"

_COUNTERS: Final = (
    ("issued", "issued", "per second"),
    ("completed", "completed", "per second"),
    ("failed", "failed", "per second"),
    ("delayed", "delayed", "per second"),
    ("bytes", "transferred", "bytes per second"),
    ("lateness_ns_p50", "lateness p50", "ns"),
    ("lateness_ns_p99", "lateness p99", "ns"),
    ("lateness_ns_max", "lateness max", "ns"),
    ("processor_ns", "processor time", "ns per second"),
)
"""Name in the tally, counter, unit."""


def counters_table(seconds: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of ``counters`` from the tally's ``seconds``; ``at_ns`` is where the second ends."""
    rows = [
        (second["second"], counter, float(second[name]), unit)
        for second in seconds
        for name, counter, unit in _COUNTERS
        if second[name] is not None
    ]
    return pa.table(
        {
            "at_ns": pa.array([(row[0] + 1) * _SECOND_NS for row in rows], pa.int64()),
            "interval_ns": pa.array([_SECOND_NS] * len(rows), pa.int64()),
            "source": pa.array([_SOURCE] * len(rows), pa.string()),
            "object": pa.array(["generator"] * len(rows), pa.string()),
            "counter": pa.array([row[1] for row in rows], pa.string()),
            "value": pa.array([row[2] for row in rows], pa.float64()),
            "unit": pa.array([row[3] for row in rows], pa.string()),
        }
    )
