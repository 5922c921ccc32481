"""Mergeable latency histograms with three significant digits.

Rule (after HdrHistogram by Gil Tene): values below 2,048 ns are their own bucket. Above, each doubling
is cut into 1,024 buckets of equal width, and a bucket is named by the value in its middle; so a value read back from
a histogram is within 1/2,048 (0.05 %) of the one that went in. Histograms with this rule merge by adding the counts
of equal ``bucket_ns``; nothing else ever needs averaging.

The same rule is the SQL macro ``latency_bucket_ns(value_ns)``. It takes the logarithm in double precision: above
2^45 ns (nearly ten hours) the topmost value of a doubling may be put into a bucket twice as wide.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas.arrays import Int64s

IOS_BEYOND_MIN: Final = 100
"""A quantile is given only where at least this many I/Os lie beyond it."""

QUANTILES: Final[dict[str, float]] = {
    "p50": 0.5,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
}
MACRO_SQL: Final = """
CREATE OR REPLACE MACRO latency_bucket_ns(value_ns) AS CASE
  WHEN value_ns < 2048 THEN greatest(value_ns, 0)
  ELSE (value_ns >> (floor(log2(value_ns))::BIGINT - 10) << (floor(log2(value_ns))::BIGINT - 10))
    + (1::BIGINT << (floor(log2(value_ns))::BIGINT - 11))
END
"""


def latency_bucket_ns(values_ns: npt.ArrayLike) -> Int64s:
    """Bucket of each value, in nanoseconds, by the rule of this module. Negative values count as 0."""
    values = np.maximum(np.asarray(values_ns, dtype=np.int64), 0)
    # frexp gives the exponent e with 2**(e-1) <= v < 2**e, exact below 2**53.
    exponent = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(exponent - 11, 0)
    return np.asarray(((values >> shift) << shift) + ((np.int64(1) << shift) >> 1), dtype=np.int64)


def bucket_limits_ns(bucket_ns: npt.ArrayLike) -> tuple[Int64s, Int64s]:
    """Lowest and highest value of each bucket, in nanoseconds; ``bucket_ns`` are names by the rule of this module."""
    names = np.asarray(bucket_ns, dtype=np.int64)
    exponent = np.frexp(names.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(exponent - 11, 0)
    lowest = (names >> shift) << shift
    return lowest, lowest + (np.int64(1) << shift) - 1


def merge(histograms: Iterable[pa.Table]) -> pa.Table:
    """Add histograms up: tables of ``bucket_ns`` and ``io_count``, in and out, ascending."""
    joined = pa.concat_tables([table.select(["bucket_ns", "io_count"]) for table in histograms])
    summed = (
        joined.group_by("bucket_ns")
        .aggregate([("io_count", "sum")])
        .rename_columns(["bucket_ns", "io_count"])
    )
    return summed.sort_by("bucket_ns")


def quantile_ns(bucket_ns: npt.ArrayLike, io_count: npt.ArrayLike, quantile: float) -> int | None:
    """The latency that a share ``quantile`` of the I/Os does not exceed, or None where too few lie beyond it.

    ``bucket_ns`` ascends, ``io_count`` holds its counts. The result is the smallest bucket whose cumulative count
    reaches quantile x total (the inverse of the empirical distribution: Hyndman & Fan 1996, type 1).
    """
    counts = np.asarray(io_count, dtype=np.int64)
    total = int(counts.sum())
    if not is_printable(total, quantile):
        return None
    rank = min(max(int(np.ceil(quantile * total - 1e-9)), 1), total)
    return int(np.asarray(bucket_ns)[np.searchsorted(np.cumsum(counts), rank)])


def is_printable(io_count: int, quantile: float) -> bool:
    """Whether ``io_count`` I/Os leave at least 100 beyond the quantile, on its thinner side."""
    return io_count * min(quantile, 1 - quantile) >= IOS_BEYOND_MIN - 1e-6


def quantiles_ns(bucket_ns: npt.ArrayLike, io_count: npt.ArrayLike) -> dict[str, int | None]:
    """All of `QUANTILES` of one histogram, in nanoseconds; None where not printable."""
    return {name: quantile_ns(bucket_ns, io_count, quantile) for name, quantile in QUANTILES.items()}


@dataclass(frozen=True, slots=True)
class Histogram:
    """Latencies of some I/Os: ascending ``bucket_ns`` with ``io_count`` in each, and the exact sum and maximum."""

    bucket_ns: Int64s
    io_count: Int64s
    latency_sum_ns: int
    latency_max_ns: int

    @property
    def total(self) -> int:
        """I/Os in the histogram."""
        return int(self.io_count.sum())


def added_up(histograms: Iterable[Histogram]) -> Histogram:
    """One histogram of all I/Os, as exact as each of them."""
    parts = list(histograms)
    none = np.zeros(0, np.int64)
    return Histogram(
        *_summed(
            np.concatenate([none, *(part.bucket_ns for part in parts)]),
            np.concatenate([none, *(part.io_count for part in parts)]),
        ),
        sum(part.latency_sum_ns for part in parts),
        max((part.latency_max_ns for part in parts), default=0),
    )


class Histograms:
    """The result of query ``latency_histogram``, from which any merged histogram can be taken."""

    def __init__(self, table: pa.Table) -> None:
        self._keys = {name: _codes(table[name]) for name in ("layer", "device_id", "role", "op")}
        self._numbers = {
            name: table[name].to_numpy()
            for name in ("bucket_ns", "io_count", "latency_sum_ns", "latency_max_ns")
        }
        devices, codes = self._keys["device_id"]
        order = np.argsort(codes, kind="stable")
        borders = np.searchsorted(codes[order], np.arange(1, len(devices)))
        self._of_device = dict(zip(devices, np.split(order, borders), strict=True)) if devices else {}
        """Rows of each device: of thousands, each is asked for alone."""

    def merged(self, **where: object) -> Histogram:
        """Merge all histograms that match: any of ``layer``, ``device_id``, ``role`` and ``op``; the rest is summed."""
        if "device_id" in where:
            chosen = self._of_device.get(where.pop("device_id"), np.zeros(0, np.int64))
        else:
            chosen = np.arange(len(self._numbers["bucket_ns"]))
        for name, value in where.items():
            values, codes = self._keys[name]
            chosen = chosen[codes[chosen] == (values.index(value) if value in values else -1)]
        return Histogram(
            *_summed(self._numbers["bucket_ns"][chosen], self._numbers["io_count"][chosen]),
            int(self._numbers["latency_sum_ns"][chosen].sum()),
            int(self._numbers["latency_max_ns"][chosen].max(initial=0)),
        )


def _summed(bucket_ns: Int64s, io_count: Int64s) -> tuple[Int64s, Int64s]:
    """Ascending buckets, each once, and the counts of each added up."""
    buckets, places = np.unique(bucket_ns, return_inverse=True)
    counts = np.zeros(len(buckets), dtype=np.int64)
    np.add.at(counts, places, io_count)
    return buckets, counts


def _codes(column: pa.ChunkedArray) -> tuple[list[object], Int64s]:
    """Distinct values, None among them, and each row's position in them."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
