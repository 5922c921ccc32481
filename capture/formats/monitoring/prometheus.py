"""Answers of Prometheus to a range query of node_exporter's or windows_exporter's disk metrics, as JSON.

The totals themselves are wanted (``{__name__=~"node_disk_.+"}``): rates and mean latencies are made here from what
lies between two values, so both sides of a mean are of the same time. What the expression language made of them
(``rate(…)``) names no metric and cannot be known.

Sources: Prometheus' documentation of its HTTP API ("Expression query result formats"), node_exporter's diskstats
collector and windows_exporter's logical_disk and physical_disk collectors.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from iotrace.capture.formats.counters_trace import (
    Counters,
    Differences,
    Reading,
    Sample,
    json_of,
    objects_in,
    real,
)
from iotrace.schemas import IotraceError

_NODE: Final = {
    "reads_completed_total": "reads",
    "writes_completed_total": "writes",
    "read_bytes_total": "read_bytes",
    "written_bytes_total": "write_bytes",
    "read_time_seconds_total": "read_s",
    "write_time_seconds_total": "write_s",
    "io_time_seconds_total": "busy_s",
    "io_time_weighted_seconds_total": "weighted_s",
    "io_now": "in_flight",
}
_WINDOWS: Final = {
    "reads_total": "reads",
    "writes_total": "writes",
    "read_bytes_total": "read_bytes",
    "write_bytes_total": "write_bytes",
    "read_latency_seconds_total": "read_s",
    "write_latency_seconds_total": "write_s",
    "idle_seconds_total": "idle_s",
    "requests_queued": "in_flight",
}
_METRICS: Final = {
    **{f"node_disk_{name}": field for name, field in _NODE.items()},
    **{
        f"windows_{kind}_disk_{name}": field
        for kind in ("logical", "physical")
        for name, field in _WINDOWS.items()
    },
}
_LABELS: Final = ("device", "volume", "disk")
_TIME_MAX_S: Final = 4e9


def _recognises(head: bytes, _path: Path) -> bool:
    start = head[:65536].replace(b" ", b"").replace(b"\n", b"")
    return b'"resultType":"' in start and b'"data":' in start and b'"result":' in start


def _samples(reading: Reading) -> Iterator[Sample]:
    answers = list(objects_in(json_of(reading.path, reading.name), "resultType"))
    totals: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    unknown: set[str] = set()
    for answer in answers:
        for series in answer["result"] if isinstance(answer.get("result"), list) else ():
            labels = series.get("metric") if isinstance(series, dict) else None
            if not isinstance(labels, dict):
                reading.left_out += 1
                continue
            name = str(labels.get("__name__", ""))
            if name not in _METRICS:
                unknown.add(name)
                continue
            disk = next((str(labels[label]) for label in _LABELS if label in labels), "")
            moments = totals.setdefault((str(labels.get("instance", "")), disk), {})
            for at_utc_ns, value in _values(series, reading):
                moments.setdefault(at_utc_ns, {})[_METRICS[name]] = value
    if not totals:
        raise _nothing(reading.name, unknown)
    differences = Differences()
    for (source, disk), moments in totals.items():
        for at_utc_ns in sorted(moments):
            yield from differences.samples(at_utc_ns, source, disk, moments[at_utc_ns])
    reading.notes += (
        [f"left out, not metrics of disks: {', '.join(sorted(unknown - {''}))[:300]}"]
        if unknown - {""}
        else []
    )
    reading.notes += differences.notes()


def _values(series: dict[str, Any], reading: Reading) -> Iterator[tuple[int, float]]:
    values = series.get("values")
    for pair in values if isinstance(values, list) else [series.get("value")]:
        at_s, value = (
            (real(pair[0]), real(pair[1])) if isinstance(pair, list) and len(pair) == 2 else (None, None)
        )
        if at_s is None or value is None or not 0 < at_s < _TIME_MAX_S:
            reading.left_out += 1
        else:
            yield round(at_s * 1000) * 1_000_000, value


def _nothing(name: str, unknown: set[str]) -> IotraceError:
    if "" in unknown:
        return IotraceError(
            f"'{name}' is an answer of Prometheus to an expression: it does not say what its values are",
            hint='ask for the metrics themselves, over a range: {__name__=~"node_disk_.+"}',
        )
    told = f": it has {', '.join(sorted(unknown))[:200]}" if unknown else ""
    return IotraceError(
        f"'{name}' is an answer of Prometheus without metrics of disks{told}",
        hint="ask for node_exporter's or windows_exporter's, over a range: {__name__=~\"node_disk_.+\"}",
    )


FORMAT: Final = Counters(
    "prometheus",
    "disk",
    "Prometheus, milliseconds",
    None,
    _samples,
    ("counters are differences of totals between two scrapes, not single I/Os",),
    "a range query with two values at least is needed: /api/v1/query_range",
).format(_recognises)
