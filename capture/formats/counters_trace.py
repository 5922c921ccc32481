"""Counters from any source that tells them one by one: here they become a trace. A reader gives `Sample`s, no more.

For readers of a disk's totals since the host started, the rates and mean latencies between two moments. Fields:
Documentation/admin-guide/iostats.rst of the kernel. Read and write times are summed over I/Os in milliseconds
(node_exporter: seconds), the weighted time is I/Os in flight times milliseconds, sectors are of 512 bytes. Times are
numbers of 32 bits there, and in a kernel of 32 bits all of them: they wrap.

For readers of histograms, what can be said of means and quantiles where only the bins are known that values fell into.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.capture.counters.names import METRICS, Meaning
from iotrace.capture.counters.series import Series
from iotrace.schemas import Clock, IotraceError, Quality, counted
from iotrace.schemas.host import Host
from iotrace.schemas.units import SECOND_NS, SECTOR_BYTES

from .format import Format, Outcome, Progress, naming, unreported
from .text_blocks import text_encoding
from .text_times import UTC_NS_MAX, MayBeLocal, TextTimes

_BATCH_VALUES: Final = 1 << 17
_JSON_BYTES_MAX: Final = 128 << 20
_LAYER: Final = "block"
QUANTILES: Final = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Sample:
    """A value at a moment. ``interval_ns`` is the time before it that it is about; 0 where that is not told."""

    at_utc_ns: int
    interval_ns: int
    instance: str | None
    counter: str
    value: float
    meaning: Meaning
    source: str = ""
    """The host it is of, where the file says so."""


@dataclass(slots=True)
class Reading:
    """One pass over a file: what the reader needs, and what it has to say."""

    path: Path
    name: str
    times: TextTimes
    progress: Progress = unreported
    notes: list[str] = field(default_factory=list)
    left_out: int = 0
    """Values or lines that were not understood."""
    cut: bool = False


def meaning(metric: str, layer: str, factor: float = 1.0, *, is_instant: bool = False) -> Meaning:
    """What a counter is that has a common metric: ``factor`` brings its values to that metric's unit."""
    return Meaning(METRICS[metric][0], layer, metric, factor, is_instant=is_instant)


def plain(unit: str, layer: str | None) -> Meaning:
    """What a counter is that has none."""
    return Meaning(unit, layer, None, 1.0, is_instant=False)


@dataclass(frozen=True, slots=True)
class Counters:
    """A kind of file with counters. ``samples`` reads one from its start; it is asked more than once."""

    name: str
    object: str
    """What a row is about, as people call it."""
    clock_name: str
    anchor_ns: int | None
    samples: Callable[[Reading], Iterator[Sample]]
    notes: tuple[str, ...]
    without: str
    """What to do about a file without a value."""
    system: str | None = None

    def format(self, recognises: Callable[[bytes, Path], bool]) -> Format:
        """The format, which the folder's table names."""

        def read(path: Path, name: str, progress: Progress) -> "CountersTrace":
            return CountersTrace(self, path, name, progress)

        def inspect(path: Path, name: str) -> dict[str, Any]:
            trace = read(path, name, unreported)
            values = sum(len(batch) for _, batch in trace.batches())
            quality = trace.outcome().quality
            return {
                "format": self.name,
                "instances": sorted({name or "" for name in trace.series.instances}),
                "counters": sorted(set(trace.series.counters)),
                "values": values,
                "whole": not quality.truncated_tail,
                "notes": quality.notes,
            }

        return Format(self.name, recognises, read, inspect, has_ios=False)


class CountersTrace(MayBeLocal):
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, kind: Counters, path: Path, name: str, progress: Progress) -> None:
        self._kind, self._path, self._name, self._progress = kind, path, name, progress
        self._reading = Reading(path, name, TextTimes())
        self.series = Series(name)
        self.host = Host(system=kind.system)
        self._begin_ns = self._end_ns = self._values = 0
        self.clock = self._first_clock()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Counters in the order of the file."""
        self.series, self._values, self._begin_ns, self._end_ns = Series(self._name), 0, 0, 0
        numbers: dict[tuple[str, str | None, str], int] = {}
        rows: list[tuple[int, int, int, float]] = []
        for sample in self._samples(self._progress):
            key = (sample.source, sample.instance, sample.counter)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = self.series.add(
                    sample.source or self._name,
                    self._kind.object,
                    sample.instance,
                    sample.counter,
                    sample.meaning,
                )
            at_ns = sample.at_utc_ns - self.clock.start_utc_ns
            self._begin_ns = min(self._begin_ns, at_ns - sample.interval_ns)
            self._end_ns = max(self._end_ns, at_ns)
            self._values += 1
            rows.append((at_ns, sample.interval_ns, number, sample.value))
            if len(rows) >= _BATCH_VALUES:
                yield "counters", self._rows(rows)
                rows = []
        if rows:
            yield "counters", self._rows(rows)

    def outcome(self) -> Outcome:
        """The window runs from the first interval's start to the last value."""
        reading = self._reading
        notes = [*self._kind.notes, *reading.notes, *self._zone_notes()]
        if reading.left_out:
            notes.append(
                f"{counted(reading.left_out, 'value or line', 'values or lines')} left out: not understood"
            )
        quality = Quality(truncated_tail=reading.cut, notes=notes)
        return Outcome(self._begin_ns, self._end_ns, quality, self._values)

    def _rows(self, rows: list[tuple[int, int, int, float]]) -> pa.RecordBatch:
        at_ns, interval_ns, numbers, values = zip(*rows, strict=True)
        return self.series.rows(
            np.array(at_ns, np.int64),
            np.array(interval_ns, np.int64),
            np.array(numbers, np.int64),
            np.array(values, np.float64),
        )

    def _samples(self, progress: Progress) -> Iterator[Sample]:
        self._reading = reading = Reading(self._path, self._name, TextTimes(self._zone), progress)
        with naming(self._name):
            for sample in self._kind.samples(reading):
                if 0 < sample.at_utc_ns < UTC_NS_MAX and abs(sample.value) < 1e300:
                    yield sample
                else:
                    reading.left_out += 1

    def _first_clock(self) -> Clock:
        first = next(self._samples(unreported), None)
        if first is None:
            raise IotraceError(f"'{self._name}' holds no value that can be read", hint=self._kind.without)
        self._is_local = self._reading.times.local
        return Clock(first.at_utc_ns - first.interval_ns, 1e9, self._kind.clock_name, self._kind.anchor_ns)


def json_of(path: Path, name: str) -> Any:  # noqa: ANN401 - JSON is anything
    """A whole file of JSON. Raises `IotraceError` naming it for what is none, and for one that is too big."""
    if path.stat().st_size > _JSON_BYTES_MAX:
        raise IotraceError(
            f"'{name}' is over {_JSON_BYTES_MAX >> 20} MiB of JSON",
            hint="export a shorter time, several files if need be",
        )
    data = path.read_bytes()
    try:
        return json.loads(data.decode(text_encoding(data), "replace").lstrip("\ufeff"))
    except (ValueError, RecursionError) as problem:
        raise IotraceError(
            f"'{name}' is not complete JSON: {str(problem)[:200]}", hint="check that it was copied completely"
        ) from problem


def objects_in(value: object, key: str, depth: int = 4) -> Iterator[Mapping[str, Any]]:
    """Objects that have ``key``, in lists and objects around them."""
    if isinstance(value, dict) and key in value:
        yield value
    elif depth and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from objects_in(inner, key, depth - 1)


def real(value: object) -> float | None:
    """A finite number from JSON or text; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e300 else None


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

_WRAP: Final = 1 << 32
_ONE_OF: Final = {"reads": 1.0, "writes": 1.0, "read_bytes": SECTOR_BYTES, "write_bytes": SECTOR_BYTES}
"""What one step of the kernel's own counter is; of the times it is a millisecond."""
_MS: Final = 1e-3

Totals = Mapping[str, float]


@dataclass(slots=True)
class Differences:
    """Turns totals of disks, in order of time, into samples. ``restarts`` counts how often those of a disk fell."""

    restarts: int = 0
    wraps: int = 0
    """Counters of 32 bits that passed their end while the disk's others went on."""
    _restarted: set[tuple[str, int]] = field(default_factory=set)
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
            unwrapped = _unwrapped(gone, before[1])
            if unwrapped is None:
                self.restarts += 1
                self._restarted.add((source, at_utc_ns))
                return
            self.wraps += sum(value < 0 for value in gone.values())
            gone = dict(unwrapped)
        interval_ns = at_utc_ns - before[0]
        for counter, value, sense in _figures(gone, interval_ns / SECOND_NS):
            yield Sample(at_utc_ns, interval_ns, disk, counter, value, sense, source)

    def notes(self) -> Iterator[str]:
        """What happened to totals that fell."""
        if self.restarts:
            yield (
                f"totals fell {counted(len(self._restarted), 'time')} ({counted(self.restarts, 'disk')}): the host "
                "started again, or disks were attached anew"
            )
        if self.wraps:
            yield (
                f"{counted(self.wraps, 'time')} a counter of 32 bits passed its end and began at 0, while others of "
                "the disk went on: it is taken to go on"
            )


def _unwrapped(gone: Totals, before: Totals) -> Totals | None:
    """The differences with 2^32 steps more where a counter has passed its end; None where totals began again.

    At a start all totals begin again. A counter that wrapped was near its end, while another of the same disk rose.
    """
    ends = {name: _WRAP * _ONE_OF.get(name, _MS) for name in gone}
    fell = [name for name, value in gone.items() if value < 0]
    if not any(value > 0 for value in gone.values()):
        return None
    for name in fell:
        is_beyond = before[name] >= ends[name]
        if is_beyond or before[name] < ends[name] / 2 or gone[name] + ends[name] > ends[name] / 2:
            return None
    return {name: value + (ends[name] if value < 0 else 0) for name, value in gone.items()}


def _figures(gone: Totals, seconds: float) -> Iterator[tuple[str, float, Meaning]]:
    for name, (counter, sense) in _RATES.items():
        if name in gone:
            yield counter, gone[name] / seconds, sense
    for name, (of, counter, sense) in _MEANS.items():
        if name in gone and gone.get(of):
            yield counter, gone[name] / gone[of], sense


@dataclass(frozen=True, slots=True)
class Bin:
    """``count`` values, each of at least ``least`` and at most ``most``."""

    least: float
    most: float
    count: int


def mean_bounds(bins: Sequence[Bin]) -> tuple[float, float]:
    """The least and the most that the mean can be. The bins must hold a value."""
    total = sum(one.count for one in bins)
    return (
        sum(one.least * one.count for one in bins) / total,
        sum(one.most * one.count for one in bins) / total,
    )


def quantile_bounds(bins: Sequence[Bin]) -> Iterator[tuple[float, float, float]]:
    """Each of `QUANTILES` with the bounds of the bin it lies in. Bins in ascending order; they must hold a value."""
    total = sum(one.count for one in bins)
    for quantile in QUANTILES:
        passed = 0
        for one in bins:
            passed += one.count
            if passed >= quantile * total:
                yield quantile, one.least, one.most
                break
