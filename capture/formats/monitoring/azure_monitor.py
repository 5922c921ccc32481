"""Azure Monitor's metrics of disks, as ``az monitor metrics list`` and its REST interface answer (JSON).

A value's time is the start of its interval, which the answer names (``interval``: PT1M). Per second, queue depth and
latency are averages; bytes are totals of an interval.

Sources: Microsoft's reference of the metrics of Microsoft.Compute/virtualMachines and /disks; Metrics - List (REST).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from iotrace.capture.counters.names import Meaning
from iotrace.capture.formats.counters_trace import (
    NANOSECONDS,
    Counters,
    Reading,
    Sample,
    json_of,
    meaning,
    objects_in,
    plain,
    real,
)

_LAYER: Final = "array"
_KINDS: Final[tuple[tuple[str, str, Meaning], ...]] = (
    (r"read operations/sec", "average", meaning("read_iops", _LAYER)),
    (r"write operations/sec", "average", meaning("write_iops", _LAYER)),
    (r"read bytes/sec", "average", meaning("read_bytes_per_second", _LAYER)),
    (r"write bytes/sec", "average", meaning("write_bytes_per_second", _LAYER)),
    (r"disk read bytes", "total", meaning("read_bytes_per_second", _LAYER)),
    (r"disk write bytes", "total", meaning("write_bytes_per_second", _LAYER)),
    (r"queue depth", "average", meaning("queue_length", _LAYER)),
    (r"disk latency", "average", meaning("latency_ns", _LAYER, 1e6)),
)
"""End of a metric's name, the aggregation it is read from, and what it is."""

_INTERVAL: Final = re.compile(r"P(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,7})M)?(?:(\d{1,9})S)?)?")
_INSTANCES: Final = ("lun", "diskname", "disk")


def _recognises(head: bytes, _path: Path) -> bool:
    return b'"timeseries"' in head and b'"timespan"' in head and b'"value"' in head


def _samples(reading: Reading) -> Iterator[Sample]:
    unknown: set[str] = set()
    for answer in objects_in(json_of(reading.path, reading.name), "timespan"):
        metrics = answer.get("value")
        for metric in metrics if isinstance(metrics, list) else ():
            if not isinstance(metric, dict):
                reading.left_out += 1
                continue
            found = _kind(_text(metric.get("name")))
            if found is None:
                unknown.add(_text(metric.get("name")))
                continue
            yield from _metric(metric, found, _seconds(answer.get("interval")), reading)
    if unknown:
        reading.notes.append(f"left out, no metric of disks: {', '.join(sorted(unknown))[:300]}")


def _metric(
    metric: dict[str, Any], kind: tuple[str, Meaning], interval_s: int, reading: Reading
) -> Iterator[Sample]:
    aggregation, sense = kind
    name, resource = _text(metric.get("name")), _resource(str(metric.get("id", "")))
    series = metric.get("timeseries")
    for one in series if isinstance(series, list) else ():
        data = one.get("data") if isinstance(one, dict) else None
        instance = " ".join(part for part in (resource, name.rpartition(" Disk ")[0], _instance(one)) if part)
        for row in data if isinstance(data, list) else ():
            at_ns = reading.times.utc_ns(str(row.get("timeStamp"))) if isinstance(row, dict) else None
            if at_ns is None:
                reading.left_out += 1
                continue
            told, meant, counter = row.get(aggregation), sense, name
            if told is None and (other := next((key for key in ("maximum", "minimum", "total", "average", "count")
                                                if row.get(key) is not None), None)):  # fmt: skip
                told, meant, counter = (
                    row[other],
                    plain(str(metric.get("unit", "1")), _LAYER),
                    f"{name} ({other})",
                )
            value = real(told)
            if value is None:
                continue  # an interval without a value: null, or no aggregation at all
            if aggregation == "total" and meant is sense:
                if not interval_s:
                    reading.left_out += 1
                    continue
                value /= interval_s
            yield Sample(
                at_ns + interval_s * NANOSECONDS,
                interval_s * NANOSECONDS,
                instance or None,
                counter,
                value,
                meant,
            )


def _kind(name: str) -> tuple[str, Meaning] | None:
    low = name.lower()
    return next(((aggregation, sense) for end, aggregation, sense in _KINDS if low.endswith(end)), None)


def _text(name: object) -> str:
    """A name: an object with the word and its translation, or the word."""
    return str(name.get("value", "")) if isinstance(name, dict) else str(name or "")


def _resource(path: str) -> str:
    """The machine or disk in a metric's id, ``/subscriptions/…/virtualMachines/NAME/providers/…``."""
    found = re.search(r"/(?:virtualMachines|disks|virtualMachineScaleSets)/([^/]+)", path, re.IGNORECASE)
    return found[1] if found else ""


def _instance(series: object) -> str:
    values = series.get("metadatavalues") if isinstance(series, dict) else None
    for entry in values if isinstance(values, list) else ():
        if isinstance(entry, dict) and _text(entry.get("name")).lower() in _INSTANCES:
            return f"{_text(entry.get('name'))} {entry.get('value')}"
    return ""


def _seconds(interval: object) -> int:
    """Seconds of an ISO 8601 duration; 0 where there is none."""
    found = _INTERVAL.fullmatch(str(interval)) or _INTERVAL.fullmatch("P")
    assert found is not None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


FORMAT: Final = Counters(
    "azure-monitor",
    "Azure disk",
    "Azure Monitor, intervals",
    60 * NANOSECONDS,
    _samples,
    ("counters are means over an interval, not single I/Os",),
    "ask for metrics of disks, such as Data Disk Read Operations/Sec",
).format(_recognises)
