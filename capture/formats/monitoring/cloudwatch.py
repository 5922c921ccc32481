"""CloudWatch's metrics of EBS volumes, as ``aws cloudwatch get-metric-statistics`` and ``get-metric-data`` print them.

A datapoint's time is the start of its period. The period is told by neither: it is the shortest time between two
datapoints. Metrics of operations, bytes and times are sums over a period (statistic Sum): their rate is the sum by the
period; of the total time of reads that is the mean number of reads in flight (Little's law). A mean latency CloudWatch
tells itself, since 2024 (VolumeAvgReadLatency, ms).

Sources: AWS' documentation "Amazon CloudWatch metrics for Amazon EBS"; the reference of both commands.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
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
_SUMS: Final = {
    "VolumeReadOps": meaning("read_iops", _LAYER),
    "VolumeWriteOps": meaning("write_iops", _LAYER),
    "VolumeReadBytes": meaning("read_bytes_per_second", _LAYER),
    "VolumeWriteBytes": meaning("write_bytes_per_second", _LAYER),
    "VolumeTotalReadTime": meaning("read_queue_length", _LAYER),
    "VolumeTotalWriteTime": meaning("write_queue_length", _LAYER),
    "VolumeIdleTime": meaning("idle_percent", _LAYER, 100.0),
}
_AVERAGES: Final = {
    "VolumeQueueLength": meaning("queue_length", _LAYER),
    "VolumeAvgReadLatency": meaning("read_latency_ns", _LAYER, 1e6),
    "VolumeAvgWriteLatency": meaning("write_latency_ns", _LAYER, 1e6),
    "BurstBalance": plain("%", _LAYER),
    "VolumeThroughputPercentage": plain("%", _LAYER),
}
_METRIC: Final = re.compile(r"\b(Volume[A-Za-z]+|BurstBalance)\b")
_VOLUME: Final = re.compile(r"\bvol-[0-9a-f]{8,17}\b")
_STATISTIC: Final = re.compile(r"\b(Sum|Average|Minimum|Maximum|SampleCount)\b")


@dataclass(slots=True)
class _Points:
    """Values of one metric and volume. ``statistic`` is None where nothing tells it."""

    metric: str
    volume: str | None
    statistic: str | None
    values: list[tuple[int, float]]

    def samples(self) -> Iterator[Sample]:
        self.values.sort()
        moments = [at_ns for at_ns, _ in self.values]
        steps = [later - at_ns for at_ns, later in pairwise(moments) if later > at_ns]
        period_ns = min(steps, default=0)
        for at_ns, value in self.values:
            counter, told, sense = self._sense(value, period_ns)
            yield Sample(at_ns + period_ns, period_ns, self.volume, counter, told, sense)

    def _sense(self, value: float, period_ns: int) -> tuple[str, float, Meaning]:
        if self.statistic == "Sum" and self.metric in _SUMS and period_ns:
            return self.metric, value * NANOSECONDS / period_ns, _SUMS[self.metric]
        if self.statistic == "Average" and self.metric in _AVERAGES:
            return self.metric, value, _AVERAGES[self.metric]
        return f"{self.metric} ({self.statistic or 'statistic not told'})", value, plain("1", _LAYER)


def _recognises(head: bytes, _path: Path) -> bool:
    is_one = b'"MetricDataResults"' in head or (b'"Datapoints"' in head and b'"Timestamp"' in head)
    return is_one and _METRIC.search(head.decode("utf-8", "replace")) is not None


def _samples(reading: Reading) -> Iterator[Sample]:
    data = json_of(reading.path, reading.name)
    untold = 0
    for points in (*_statistics(data, reading), *_metric_data(data, reading)):
        untold += points.statistic is None
        yield from points.samples()
    if untold:
        reading.notes.append(
            "get-metric-data does not tell which statistic its values are: such values are kept as they are; name it in"
            " the label: ${PROP('Dim.VolumeId')} ${PROP('MetricName')} ${PROP('Stat')}"
        )


def _statistics(data: object, reading: Reading) -> Iterator[_Points]:
    """Answers of get-metric-statistics: one metric each, the volume only where somebody wrote it beside."""
    for answer in objects_in(data, "Datapoints"):
        label = str(answer.get("Label", ""))
        found = _METRIC.search(label)
        rows = answer["Datapoints"] if isinstance(answer["Datapoints"], list) else []
        for statistic in ("Sum", "Average", "Minimum", "Maximum"):
            values = list(_values(((row.get("Timestamp"), row.get(statistic)) for row in rows
                                   if isinstance(row, dict) and statistic in row), reading))  # fmt: skip
            if values and found:
                yield _Points(found[1], _volume(answer, label, reading), statistic, values)


def _metric_data(data: object, reading: Reading) -> Iterator[_Points]:
    for answer in objects_in(data, "MetricDataResults"):
        results = answer["MetricDataResults"]
        for one in results if isinstance(results, list) else ():
            if not isinstance(one, dict) or not (found := _METRIC.search(str(one.get("Label", "")))):
                reading.left_out += 1
                continue
            told = _STATISTIC.search(str(one["Label"]))
            moments, values = one.get("Timestamps"), one.get("Values")
            if isinstance(moments, list) and isinstance(values, list):
                pairs = list(_values(zip(moments, values, strict=False), reading))
                yield _Points(found[1], _volume(one, str(one["Label"]), reading), told and told[1], pairs)


def _volume(answer: Mapping[str, Any], label: str, reading: Reading) -> str | None:
    """The volume that an answer is of: by its label, a dimension written beside it, or the file's name."""
    texts = (label, str(answer.get("Dimensions", "")), str(answer.get("Id", "")), reading.name)
    return next((found[0] for text in texts if (found := _VOLUME.search(text))), None)


def _values(pairs: Iterator[tuple[object, object]], reading: Reading) -> Iterator[tuple[int, float]]:
    for moment, value in pairs:
        at_ns = reading.times.utc_ns(str(moment)) if not isinstance(moment, int | float) else _epoch(moment)
        number = real(value)
        if at_ns is None or number is None:
            reading.left_out += 1
        else:
            yield at_ns, number


def _epoch(moment: float) -> int | None:
    return round(moment * 1000) * 1_000_000 if 0 < moment < 4e9 else None


FORMAT: Final = Counters(
    "cloudwatch",
    "EBS volume",
    "CloudWatch, periods",
    60 * NANOSECONDS,
    _samples,
    (
        "counters are sums or means over a period, not single I/Os",
        "the period is taken to be the shortest time between two datapoints: CloudWatch does not print it",
    ),
    "ask for a metric of a volume, such as VolumeReadOps with the statistic Sum",
).format(_recognises)
