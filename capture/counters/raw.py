"""Raw values of Windows performance counters, as the agent streams them, made into rows of ``counters``."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from .cooking import RULES, Rule, Second
from .names import meaning
from .samples import Cooker, Sample, numbered
from .series import Integers, Series

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
