"""Series of counters, numbered as they are met, and their values as rows of the table ``counters``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas import IotraceError
from iotrace.schemas.arrays import Floats

from .names import PER_IO_METRICS, Meaning

SERIES_MAX: Final = 1 << 20

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Series:
    """Every series of one log: number → source, object, instance, counter and meaning."""

    log_name: str
    sources: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    instances: list[str | None] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    meanings: list[Meaning] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.objects)

    def add(self, source: str, object_name: str, instance: str | None, counter: str, sense: Meaning) -> int:
        """Number of a new series. Raises `IotraceError` past a million of them: no machine has so many."""
        if len(self.objects) >= SERIES_MAX:
            raise IotraceError(
                f"'{self.log_name}' names more than {SERIES_MAX:,} counters",
                hint="it is damaged; copy it again, or record fewer counters",
            )
        self.sources.append(source)
        self.objects.append(object_name)
        self.instances.append(instance)
        self.counters.append(counter)
        self.meanings.append(sense)
        return len(self.objects) - 1

    def has_untranslated(self) -> bool:
        """Whether a counter kept a localized name, so has no metric."""
        return any(
            not name.isascii() and sense.layer is None
            for name, sense in zip(self.counters, self.meanings, strict=True)
        )

    def rows(
        self, at_ns: Integers, interval_ns: Integers, numbers: Integers, values: Floats
    ) -> pa.RecordBatch:
        """Rows for values of the series ``numbers``; an interval below 1 is null.

        Values come in the source's unit and leave in the metric's.
        """
        used, places = np.unique(numbers, return_inverse=True)
        meanings = [self.meanings[number] for number in used]
        factors = np.array([sense.factor for sense in meanings], np.float64)
        per_io = np.array([sense.metric in PER_IO_METRICS for sense in meanings], np.bool_)
        positions = pa.array(places.astype(np.int32))
        # A mean over no I/O is shown as 0 by Windows; it is no latency and no size.
        meant = pa.array(places.astype(np.int32), mask=per_io[places] & (values == 0))

        def words(column: list[str | None], indices: pa.Array = positions) -> pa.Array:
            return pa.DictionaryArray.from_arrays(indices, pa.array(column, pa.string())).cast(pa.string())

        return pa.record_batch(
            {
                "at_ns": pa.array(at_ns),
                "interval_ns": pa.array(interval_ns, mask=interval_ns < 1),
                "source": words([self.sources[number] for number in used]),
                "object": words([self.objects[number] for number in used]),
                "instance": words([self.instances[number] for number in used]),
                "counter": words([self.counters[number] for number in used]),
                "value": pa.array(values * factors[places]),
                "unit": words([sense.unit for sense in meanings]),
                "layer": words([sense.layer for sense in meanings]),
                "metric": words([sense.metric for sense in meanings], meant),
            }
        )


def median_of_counts(counts: Mapping[int, int]) -> int | None:
    """The median of values of which ``counts`` says how often each occurs; None without any."""
    total, passed = sum(counts.values()), 0
    for value in sorted(counts):
        passed += counts[value]
        if 2 * passed >= total:
            return value
    return None


def utc_text(utc_ns: int) -> str:
    """A moment as ISO 8601 in UTC, to the millisecond, which is as exact as counter logs are."""
    return datetime.fromtimestamp(utc_ns / 1e9, UTC).isoformat(timespec="milliseconds")
