"""Raw values of counters made into rows of ``counters``: each against that of the sample before.

Those of Windows become the values that Performance Monitor shows. Formulas: the "Counter Types" pages of the
Performance Counters documentation, one for each PERF_ type of winperf.h. Two samples in a row give one value; a
denominator that did not move gives 0 for a mean per operation, as PDH does; a numerator or a clock that went backwards
gives none. Scale factors of the display are not applied. The agent streams raw values, too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from iotrace.schemas import counted
from iotrace.schemas.arrays import Floats

from .names import meaning
from .series import Flags, Integers, Series

RAW_COUNTERS: Final = pa.schema(
    [
        ("sample", pa.int64()),
        ("at_ns", pa.int64()),
        ("stamp_100ns", pa.int64()),
        ("source", pa.string()),
        ("object", pa.string()),
        ("instance", pa.string()),
        ("counter", pa.string()),
        ("counter_type", pa.uint32()),
        ("hertz", pa.int64()),
        ("first", pa.int64()),
        ("second", pa.int64()),
        ("multi_count", pa.uint32()),
    ]
)
"""Columns of the stream: ``PDH_RAW_COUNTER`` of pdh.h, one a row.

Rows of one ``sample`` were collected together and stand in one batch, those of one counter side by side. ``at_ns``
is the recording's time of ``stamp_100ns``, Windows' own (FILETIME of local time); ``counter_type`` is a PERF_ type of
winperf.h; ``hertz`` are ticks per second of the counter's clock, 0 where it has none. Only ``instance`` may be null.
"""


class Rule(IntEnum):
    """How a value is made of N (first raw value), D (second: a base or a clock) and F (ticks per second)."""

    NONE = 0
    RAW = 1
    RAW_FRACTION = 2
    ELAPSED = 3
    DELTA = 4
    RATE = 5
    PER_CLOCK = 6
    PERCENT_OF_CLOCK = 7
    PERCENT_OF_CLOCK_INVERSE = 8
    PERCENT_OF_BASE = 9
    AVERAGE_SECONDS = 10
    AVERAGE = 11


class Second(IntEnum):
    """Where a whole-object block keeps a counter's second value."""

    NONE = 0
    BASE = 1
    PERF_CLOCK = 2
    CLOCK_100NS = 3
    OBJECT_CLOCK = 4


RULES: Final[dict[int, tuple[Rule, Second]]] = {
    0x00000000: (Rule.RAW, Second.NONE),  # PERF_COUNTER_RAWCOUNT_HEX
    0x00000100: (Rule.RAW, Second.NONE),  # PERF_COUNTER_LARGE_RAWCOUNT_HEX
    0x00010000: (Rule.RAW, Second.NONE),  # PERF_COUNTER_RAWCOUNT
    0x00010100: (Rule.RAW, Second.NONE),  # PERF_COUNTER_LARGE_RAWCOUNT
    0x20020400: (Rule.RAW_FRACTION, Second.BASE),  # PERF_RAW_FRACTION
    0x20020500: (Rule.RAW_FRACTION, Second.BASE),  # PERF_LARGE_RAW_FRACTION
    0x30240500: (Rule.ELAPSED, Second.OBJECT_CLOCK),  # PERF_ELAPSED_TIME
    0x00400400: (Rule.DELTA, Second.NONE),  # PERF_COUNTER_DELTA
    0x00400500: (Rule.DELTA, Second.NONE),  # PERF_COUNTER_LARGE_DELTA
    0x10410400: (Rule.RATE, Second.PERF_CLOCK),  # PERF_COUNTER_COUNTER
    0x10410500: (Rule.RATE, Second.PERF_CLOCK),  # PERF_COUNTER_BULK_COUNT
    0x00410400: (Rule.RATE, Second.PERF_CLOCK),  # PERF_SAMPLE_COUNTER
    0x00450400: (Rule.PER_CLOCK, Second.PERF_CLOCK),  # PERF_COUNTER_QUEUELEN_TYPE
    0x00450500: (Rule.PER_CLOCK, Second.PERF_CLOCK),  # PERF_COUNTER_LARGE_QUEUELEN_TYPE
    0x00550500: (Rule.PER_CLOCK, Second.CLOCK_100NS),  # PERF_COUNTER_100NS_QUEUELEN_TYPE
    0x00650500: (Rule.PER_CLOCK, Second.OBJECT_CLOCK),  # PERF_COUNTER_OBJ_TIME_QUEUELEN_TYPE
    0x20410500: (Rule.PERCENT_OF_CLOCK, Second.PERF_CLOCK),  # PERF_COUNTER_TIMER
    0x20510500: (Rule.PERCENT_OF_CLOCK, Second.CLOCK_100NS),  # PERF_100NSEC_TIMER
    0x20610500: (Rule.PERCENT_OF_CLOCK, Second.OBJECT_CLOCK),  # PERF_OBJ_TIME_TIMER
    0x21410500: (Rule.PERCENT_OF_CLOCK_INVERSE, Second.PERF_CLOCK),  # PERF_COUNTER_TIMER_INV
    0x21510500: (Rule.PERCENT_OF_CLOCK_INVERSE, Second.CLOCK_100NS),  # PERF_100NSEC_TIMER_INV
    0x20C20400: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_SAMPLE_FRACTION
    0x20470500: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_PRECISION_SYSTEM_TIMER
    0x20570500: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_PRECISION_100NS_TIMER
    0x20670500: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_PRECISION_OBJECT_TIMER
    0x30020400: (Rule.AVERAGE_SECONDS, Second.BASE),  # PERF_AVERAGE_TIMER
    0x40020500: (Rule.AVERAGE, Second.BASE),  # PERF_AVERAGE_BULK
}

_INSTANT: Final = (Rule.RAW, Rule.RAW_FRACTION, Rule.ELAPSED)
_NEEDS_HERTZ: Final = (Rule.ELAPSED, Rule.RATE, Rule.AVERAGE_SECONDS)


def is_base(counter_type: int) -> bool:
    """Whether a definition only holds the second value of the one before it (PERF_COUNTER_BASE)."""
    return counter_type & 0x00070C00 == 0x00030400 and counter_type not in RULES


def is_instant(rules: Integers) -> Flags:
    """Which rules give the state at a moment, from one sample alone."""
    return np.isin(rules, [int(rule) for rule in _INSTANT])


def lacks_clock(rules: Integers, hertz: Floats) -> Flags:
    """Where a value takes ticks per second and none are told."""
    return np.isin(rules, [int(rule) for rule in _NEEDS_HERTZ]) & (hertz <= 0)


def cook(
    rules: Integers,
    numerator: Integers,
    second: Integers,
    hertz: Floats,
    before: tuple[Integers, Integers],
    is_next: Flags,
) -> tuple[Floats, Flags]:
    """Values for raw values ``numerator``, ``second`` and those ``before`` them, and where there is one.

    All arrays have one length; ``is_next`` is set where ``before`` comes from the sample just before. ``hertz`` are
    ticks per second of the numerator (mean times) or the clock (rates).
    """
    # Differences wrap as the counters do; as integers they are exact, as doubles they would not be.
    delta_numerator = (numerator - before[0]).astype(np.float64)
    delta_second = (second - before[1]).astype(np.float64)
    n, d = numerator.astype(np.float64), second.astype(np.float64)
    values = np.full(len(rules), np.nan)
    with np.errstate(all="ignore"):
        share = np.where(delta_second == 0, 0.0, delta_numerator / delta_second)
        for rule, result in (
            (Rule.RAW, n),
            (Rule.RAW_FRACTION, np.where(d == 0, 0.0, 100.0 * n / d)),
            (Rule.ELAPSED, (second - numerator).astype(np.float64) / hertz),
            (Rule.DELTA, delta_numerator),
            (Rule.RATE, delta_numerator / (delta_second / hertz)),
            (Rule.PER_CLOCK, delta_numerator / delta_second),
            (Rule.PERCENT_OF_CLOCK, 100.0 * (delta_numerator / delta_second)),
            (Rule.PERCENT_OF_CLOCK_INVERSE, 100.0 * (1.0 - delta_numerator / delta_second)),
            (Rule.PERCENT_OF_BASE, 100.0 * share),
            (Rule.AVERAGE_SECONDS, np.where(delta_second == 0, 0.0, delta_numerator / hertz / delta_second)),
            (Rule.AVERAGE, share),
        ):
            values = np.where(rules == rule, result, values)
    forwards = (delta_numerator >= 0) & ((delta_second >= 0) | (rules == Rule.DELTA))
    valid = np.isfinite(values) & ~lacks_clock(rules, hertz) & (is_instant(rules) | (is_next & forwards))
    return values, valid


@dataclass(frozen=True, slots=True)
class Sample:
    """Raw values that were taken together; arrays of one length, with the time of each value."""

    at_ns: Integers
    numbers: Integers
    rules: Integers
    first: Integers
    second: Integers
    hertz: Integers


class Cooker:
    """Makes values of samples that come in order of time; counts those that cannot be."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._last: Sample | None = None
        self.backwards = self.without_clock = 0

    def rows(self, samples: Sequence[Sample]) -> pa.RecordBatch:
        """Rows for the next samples, at least one: of the first sample of all, only what one sample alone tells."""
        carried = len(self._last.numbers) if self._last else 0
        samples = [*([self._last] if self._last else []), *samples]
        self._last = samples[-1]
        at_ns = np.concatenate([sample.at_ns for sample in samples])
        numbers = np.concatenate([sample.numbers for sample in samples])
        rules = np.concatenate([sample.rules for sample in samples])
        first = np.concatenate([sample.first for sample in samples])
        second = np.concatenate([sample.second for sample in samples])
        hertz: Floats = np.concatenate([sample.hertz for sample in samples]).astype(np.float64)
        position = np.repeat(np.arange(len(samples)), [len(sample.numbers) for sample in samples])
        if not len(numbers):
            return self._series.rows(at_ns, at_ns, numbers, hertz)
        order = np.lexsort((position, numbers))
        before = np.empty_like(order)
        before[order[1:]] = order[:-1]
        before[order[0]] = order[0]
        is_next = (numbers[before] == numbers) & (position[before] == position - 1)
        values, valid = cook(rules, first, second, hertz, (first[before], second[before]), is_next)
        instant = is_instant(rules)
        is_new = np.arange(len(numbers)) >= carried
        unclocked = is_new & (is_next | instant) & lacks_clock(rules, hertz)
        self.without_clock += int(np.count_nonzero(unclocked))
        self.backwards += int(np.count_nonzero(is_new & is_next & ~valid & ~instant & ~unclocked))
        kept = is_new & valid
        interval_ns = np.where(instant, 0, at_ns - at_ns[before])
        return self._series.rows(at_ns[kept], interval_ns[kept], numbers[kept], values[kept])

    def notes(self, unknown_types: Iterable[int]) -> Iterator[str]:
        """What was left out and why, with the types that no formula is known for."""
        if self.backwards:
            yield (
                f"{counted(self.backwards, 'value')} left out: the counter or clock went backwards, as at the end of "
                "an instance"
            )
        if self.without_clock:
            yield f"{counted(self.without_clock, 'value')} left out: the ticks per second of their clock are not known"
        if types := ", ".join(f"{kind:#010x}" for kind in sorted(unknown_types)[:8]):
            yield f"counters of types that iotrace cannot compute are left out ({types})"


def numbered(names: Iterable[str | None]) -> Iterator[str | None]:
    """Tell instances of one name apart as Windows does: ``sqlservr``, ``sqlservr#1``, …"""
    seen: Counter[str | None] = Counter()
    for name in names:
        yield f"{name}#{seen[name]}" if seen[name] else name
        seen[name] += 1


class RawCounters:
    """Rows of ``counters`` for rows of `RAW_COUNTERS`, in the order in which they were written."""

    def __init__(self, log_name: str) -> None:
        self._series = Series(log_name)
        self._cooker = Cooker(self._series)
        self._numbers: dict[tuple[str, str, str | None, str], int] = {}
        self._names: pa.RecordBatch | None = None
        self._of_names: Integers = np.empty(0, np.int64)
        self._unknown_types: set[int] = set()

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows for one batch. Raises ValueError or `pa.ArrowException` if its columns are not `RAW_COUNTERS`."""
        missing = [name for name in RAW_COUNTERS.names if name not in batch.schema.names]
        if missing:
            raise ValueError(f"column '{missing[0]}' is missing")
        batch = batch.select(RAW_COUNTERS.names).cast(RAW_COUNTERS)
        for name in RAW_COUNTERS.names:
            if name != "instance" and batch.column(name).null_count:
                raise ValueError(f"column '{name}' has nulls")
        samples = batch.column("sample").to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(samples)) + 1).tolist(), len(batch)]
        return self._cooker.rows(
            [self._sample(batch.slice(start, end - start)) for start, end in pairwise(starts)]
        )

    def notes(self) -> Iterator[str]:
        """What was left out of the rows so far, and why."""
        yield from self._cooker.notes(self._unknown_types)

    def _sample(self, batch: pa.RecordBatch) -> Sample:
        types = batch.column("counter_type").to_pylist()
        self._unknown_types |= set(types) - RULES.keys()
        rules = np.array([RULES.get(kind, (Rule.NONE, Second.NONE))[0] for kind in types], np.int64)
        kept = rules != Rule.NONE
        at_ns, first, second, hertz = (
            batch.column(name).to_numpy()[kept] for name in ("at_ns", "first", "second", "hertz")
        )
        return Sample(at_ns, self._series_of(batch)[kept], rules[kept], first, second, hertz)

    def _series_of(self, batch: pa.RecordBatch) -> Integers:
        """Numbers of the rows' series; samples in a row mostly have the same ones."""
        names = batch.select(["source", "object", "instance", "counter"])
        if self._names is None or not names.equals(self._names):
            self._names = names
            self._of_names = np.array(list(self._told_apart(names)), np.int64)
        return self._of_names

    def _told_apart(self, names: pa.RecordBatch) -> Iterator[int]:
        keys = zip(*(column.to_pylist() for column in names.columns), strict=True)
        for (source, object_name, counter), rows in groupby(keys, lambda key: (key[0], key[1], key[3])):
            for instance in numbered(key[2] for key in rows):
                yield self._number(source, object_name, instance, counter)

    def _number(self, source: str, object_name: str, instance: str | None, counter: str) -> int:
        key = (source, object_name, instance, counter)
        number = self._numbers.get(key)
        if number is None:
            number = self._series.add(*key, meaning(object_name, counter))
            self._numbers[key] = number
        return number
