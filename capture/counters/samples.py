"""Raw values of counters made into rows of ``counters``: each against that of the sample before."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from iotrace.schemas import counted
from iotrace.schemas.arrays import Floats

from .cooking import cook, is_instant, lacks_clock
from .series import Integers, Series


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
