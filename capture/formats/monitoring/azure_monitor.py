"""Azure Monitor's metrics of disks: JSON and tables of ``az monitor metrics list``, and CSV of the portal's charts.

A value's time is the start of its interval, which an answer names (``interval``: PT1M); of a table it is the shortest
time between two values. Per second, queue depth and
latency are averages; bytes are totals of an interval.

Sources: Microsoft's reference of the metrics of Microsoft.Compute/virtualMachines and /disks; Metrics - List (REST).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from iotrace.capture.counters.names import Meaning
from iotrace.capture.formats.counters_trace import (
    Counters,
    Reading,
    Sample,
    json_of,
    objects_in,
    real,
)
from iotrace.capture.formats.format import HEAD_BYTES
from iotrace.schemas import counted
from iotrace.schemas.units import SECOND_NS

from .tables import MetricSeries, is_table, of_array, series_in, untold

_KINDS: Final[tuple[tuple[str, str, Meaning], ...]] = (
    (r"read operations/sec", "average", of_array("read_iops")),
    (r"write operations/sec", "average", of_array("write_iops")),
    (r"read bytes/sec", "average", of_array("read_bytes_per_second")),
    (r"write bytes/sec", "average", of_array("write_bytes_per_second")),
    (r"disk read bytes", "total", of_array("read_bytes_per_second")),
    (r"disk write bytes", "total", of_array("write_bytes_per_second")),
    (r"queue depth", "average", of_array("queue_length")),
    (r"disk latency", "average", of_array("latency_ns", 1e6)),
)
"""End of a metric's name, the aggregation it is read from, and what it is."""

_INTERVAL: Final = re.compile(r"P(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,7})M)?(?:(\d{1,9})S)?)?")
_INSTANCES: Final = ("lun", "diskname", "disk")


_METRIC: Final = re.compile(
    r"\b((?:OS |Data |Temp )?"
    r"(?:Disk (?:Read|Write) (?:Operations/Sec|Bytes(?:/sec)?)|Disk Queue Depth|Disk Latency)"
    r"|(?:OS|Data|Temp) Queue Depth)",
    re.IGNORECASE,
)
_LUN: Final = re.compile(r"\bLUN\W{0,4}(\d{1,4})\b|\b(?:disk name|diskname)\W{1,4}([\w.-]+)", re.IGNORECASE)


def _recognises(head: bytes, _path: Path) -> bool:
    if is_table(head, _METRIC):
        return True
    return b'"timeseries"' in head and b'"timespan"' in head and b'"value"' in head


def _samples(reading: Reading) -> Iterator[Sample]:
    with reading.path.open("rb") as file:
        is_text = is_table(file.read(HEAD_BYTES), _METRIC)
    yield from _columns(reading) if is_text else _answers(reading)


def _columns(reading: Reading) -> Iterator[Sample]:
    """Columns of a table; one of another metric is left out."""
    others = 0
    for series in series_in(reading):
        found = _METRIC.search(series.words)
        kind = _kind(found[1]) if found else None
        if found is None or kind is None:
            others += 1
            continue
        yield from _column(series, found[1], kind)
    if others:
        reading.notes.append(f"{counted(others, 'column')} left out: not a metric of disks")


def _column(series: MetricSeries, name: str, kind: tuple[str, Meaning]) -> Iterator[Sample]:
    aggregation, sense = kind
    step_ns = series.step_ns()
    lun = _LUN.search(series.words)
    disk = re.split(r"(?i) ?\b(?:disk (?:read|write|queue|latency)|queue depth)", name)[0]
    where = " ".join(part for part in (disk, f"LUN {lun[1]}" if lun and lun[1] else lun and lun[2]) if part)
    is_it = series.statistic == aggregation and (aggregation == "average" or step_ns > 0)
    counter = name if is_it else f"{name} ({series.statistic or 'aggregation not told'})"
    for at_ns, value in series.points:
        told = value * SECOND_NS / step_ns if is_it and aggregation == "total" else value
        yield Sample(at_ns + step_ns, step_ns, where or None, counter, told, sense if is_it else untold("1"))


def _answers(reading: Reading) -> Iterator[Sample]:
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
        reading.notes.append(f"left out, not metrics of disks: {', '.join(sorted(unknown))[:300]}")


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
                    untold(str(metric.get("unit", "1"))),
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
                at_ns + interval_s * SECOND_NS,
                interval_s * SECOND_NS,
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
    60 * SECOND_NS,
    _samples,
    ("counters are means over an interval, not single I/Os",),
    "ask for metrics of disks, such as Data Disk Read Operations/Sec",
).format(_recognises)
