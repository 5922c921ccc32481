"""CloudWatch's metrics of EBS volumes: JSON and text of ``aws cloudwatch``, and CSV as its console gives graphs.

A datapoint's time is the start of its period. Where the period is not told, it is the shortest time between two
datapoints. Metrics of operations, bytes and times are sums over a period (statistic Sum): their rate is the sum by the
period; of the total time of reads that is the mean number of reads in flight (Little's law). A mean latency CloudWatch
tells itself, since 2024 (VolumeAvgReadLatency, ms).

Sources: AWS' documentation "Amazon CloudWatch metrics for Amazon EBS"; the reference of both commands.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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

_SUMS: Final = {
    "VolumeReadOps": of_array("read_iops"),
    "VolumeWriteOps": of_array("write_iops"),
    "VolumeReadBytes": of_array("read_bytes_per_second"),
    "VolumeWriteBytes": of_array("write_bytes_per_second"),
    "VolumeTotalReadTime": of_array("read_queue_length"),
    "VolumeTotalWriteTime": of_array("write_queue_length"),
    "VolumeIdleTime": of_array("idle_percent", 100.0),
}
_AVERAGES: Final = {
    "VolumeQueueLength": of_array("queue_length"),
    "VolumeAvgReadLatency": of_array("read_latency_ns", 1e6),
    "VolumeAvgWriteLatency": of_array("write_latency_ns", 1e6),
    "BurstBalance": untold("%"),
    "VolumeThroughputPercentage": untold("%"),
}
_METRIC: Final = re.compile(r"(?<![A-Za-z])(Volume(?!Id)[A-Z][A-Za-z]+|BurstBalance)\b")
_VOLUME: Final = re.compile(r"\bvol-[0-9a-f]{8,17}\b")
_STATISTIC: Final = re.compile(r"\b(Sum|Average|Minimum|Maximum|SampleCount)\b")


_NAMES: Final = {"Sum": "total", "Average": "average", "Minimum": "minimum", "Maximum": "maximum"}


@dataclass(slots=True)
class _Points:
    """Values of one metric and volume."""

    metric: str
    volume: str | None
    series: MetricSeries

    def samples(self) -> Iterator[Sample]:
        period_ns = self.series.step_ns()
        for at_ns, value in self.series.points:
            counter, told, sense = self._sense(value, period_ns)
            yield Sample(at_ns + period_ns, period_ns, self.volume, counter, told, sense)

    def _sense(self, value: float, period_ns: int) -> tuple[str, float, Meaning]:
        statistic = self.series.statistic
        if statistic == "total" and self.metric in _SUMS and period_ns:
            return self.metric, value * SECOND_NS / period_ns, _SUMS[self.metric]
        if statistic == "average" and self.metric in _AVERAGES:
            return self.metric, value, _AVERAGES[self.metric]
        said = next((word for word, name in _NAMES.items() if name == statistic), "statistic not told")
        return f"{self.metric} ({said})", value, untold("1")


def _recognises(head: bytes, _path: Path) -> bool:
    if is_table(head, _METRIC):
        return True
    is_one = b'"MetricDataResults"' in head or (b'"Datapoints"' in head and b'"Timestamp"' in head)
    return is_one and _METRIC.search(head.decode("utf-8", "replace")) is not None


def _samples(reading: Reading) -> Iterator[Sample]:
    with reading.path.open("rb") as file:
        is_text = is_table(file.read(HEAD_BYTES), _METRIC)
    without = 0
    for points in _columns(reading) if is_text else _answers(reading):
        without += points.series.statistic is None
        yield from points.samples()
    if without:
        reading.notes.append(
            "the file does not say which statistic its values are: they are kept as they are; name it in"
            " the label: ${PROP('Dim.VolumeId')} ${PROP('MetricName')} ${PROP('Stat')}"
        )


def _answers(reading: Reading) -> Iterator[_Points]:
    data = json_of(reading.path, reading.name)
    yield from _statistics(data, reading)
    yield from _metric_data(data, reading)


def _columns(reading: Reading) -> Iterator[_Points]:
    """Columns of a table; one of another metric is left out."""
    others = 0
    for series in series_in(reading):
        found = _METRIC.search(series.words)
        if found is None:
            others += 1
            continue
        volume = _VOLUME.search(series.words) or _VOLUME.search(reading.name)
        yield _Points(found[1], volume and volume[0], series)
    if others:
        reading.notes.append(f"{counted(others, 'column')} left out: not a metric of a volume")


def _statistics(data: object, reading: Reading) -> Iterator[_Points]:
    """Answers of get-metric-statistics: one metric each, the volume only where somebody wrote it beside."""
    for answer in objects_in(data, "Datapoints"):
        label = str(answer.get("Label", ""))
        found = _METRIC.search(label)
        rows = answer["Datapoints"] if isinstance(answer["Datapoints"], list) else []
        for statistic in _NAMES:
            values = list(_values(((row.get("Timestamp"), row.get(statistic)) for row in rows
                                   if isinstance(row, dict) and statistic in row), reading))  # fmt: skip
            if values and found:
                series = MetricSeries(label, _NAMES[statistic], 0, values)
                yield _Points(found[1], _volume(answer, label, reading), series)


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
                series = MetricSeries(str(one["Label"]), told and _NAMES.get(told[1]), 0, pairs)
                yield _Points(found[1], _volume(one, str(one["Label"]), reading), series)


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
    60 * SECOND_NS,
    _samples,
    (
        "counters are sums or means over a period, not single I/Os",
        "where no period is given, it is taken to be the shortest time between two datapoints",
    ),
    "ask for a metric of a volume, such as VolumeReadOps with the statistic Sum",
).format(_recognises)
