"""Latencies of one class of I/Os: its whole histogram, its course over slots of time, and what follows for quantiles.

A quantile's uncertainty is taken where it is simplest, in shares and not in nanoseconds: how far the share of I/Os
below the quantile moves when stretches of time are resampled (`bootstrap`). Going back through the whole histogram
turns a share into a latency (the idea of Woodruff 1952, Confidence intervals for medians and other position measures).
So every replicate is as smooth as the histogram is fine, and only one count per slot and quantile has to be kept.

Limits: a quantile whose uncertainty reaches past the last I/O has no interval; it takes more, or more independent, I/Os
beyond it. Latencies recorded in whole milliseconds have quantiles in whole milliseconds, and so have their intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.analyze.stats.bootstrap import (
    SLOTS_MIN,
    block_slots,
    block_sums,
    resampled_errors,
    resampled_sums,
    widening,
)
from iotrace.analyze.stats.histogram import Histogram, bucket_limits_ns, is_printable
from iotrace.schemas.arrays import Floats, Int64s

QUANTITIES: Final[dict[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
DOUBLINGS: Final = 64
_OUTSIDE_MAX: Final = 0.01
"""Replicates that may point past the first or last I/O before there is no interval."""


class ClassKey(NamedTuple):
    """What is compared with its like. Role and size class are None for all of an operation; 0 is over 1 MiB."""

    op: str
    role: str | None
    size_class_bytes: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure in nanoseconds and its replicates; None where the recording is too short for an interval."""

    value_ns: float
    replicates_ns: Floats | None


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """The course of a class over slots of time; ``below_count`` [slots, quantiles] did not exceed each quantile."""

    io_count: Floats
    latency_sum_ns: Floats
    below_count: Floats
    doubling_count: Floats | None = None
    """[slots, `DOUBLINGS`] of a whole operation: I/Os by how many bits their latency in nanoseconds has."""


def histograms_by_class(table: pa.Table) -> dict[ClassKey, Histogram]:
    """Histograms of each class, and of each operation as a whole; from the result of query ``class_latency``."""
    names = ("role", "op", "size_class_bytes")
    keys = [table[name].combine_chunks().dictionary_encode() for name in names]
    codes = np.stack([key.indices.to_numpy() for key in keys], axis=1)
    numbers = {name: table[name].to_numpy() for name in ("bucket_ns", "io_count", "latency_sum_ns")}
    found: dict[ClassKey, Histogram] = {}
    for code in np.unique(codes, axis=0):
        role, op, size = (
            key.dictionary[int(position)].as_py() for key, position in zip(keys, code, strict=True)
        )
        found[ClassKey(op, role, size)] = _histogram(numbers, (codes == code).all(axis=1))
    ops = keys[1].dictionary.to_pylist()
    for position, op in enumerate(ops):
        found[ClassKey(op, None, None)] = _histogram(numbers, codes[:, 1] == position)
    return found


def _histogram(numbers: dict[str, Int64s], chosen: npt.NDArray[np.bool_]) -> Histogram:
    buckets, inverse = np.unique(numbers["bucket_ns"][chosen], return_inverse=True)
    counts = np.zeros(len(buckets), dtype=np.int64)
    np.add.at(counts, inverse, numbers["io_count"][chosen])
    return Histogram(
        buckets, counts, int(numbers["latency_sum_ns"][chosen].sum()), int(buckets.max(initial=0))
    )


def limits_ns(histogram: Histogram) -> list[int]:
    """The longest latency that still belongs to the bucket of each of `QUANTITIES`, for query ``class_slots``."""
    return [int(bucket_limits_ns(_point(histogram, quantile))[1]) for quantile in QUANTITIES.values()]


def slots_by_class(
    table: pa.Table, doublings: pa.Table, classes: list[dict[str, Any]], slots: int
) -> dict[ClassKey, SlotCounts]:
    """Courses of each class, and of each operation.

    ``table`` is the result of query ``class_slots`` with these ``classes``, ``doublings`` that of ``doubling_slots``.
    """
    position = table["class_key"].to_numpy()
    slot = np.clip(table["slot"].to_numpy(), 0, slots - 1)
    numbers = np.stack([table[name].to_numpy() for name in ("io_count", "latency_sum_ns")], axis=1)
    below, below_op = (
        table[name].combine_chunks().flatten().to_numpy().reshape(-1, len(QUANTITIES))
        for name in ("below_class_count", "below_op_count")
    )
    found: dict[ClassKey, SlotCounts] = {}
    for op in sorted({entry["op"] for entry in classes}):
        mine = [entry["class_key"] for entry in classes if entry["op"] == op]
        found[ClassKey(op, None, None)] = replace(
            _course(np.isin(position, mine), slot, numbers, below_op, slots),
            doubling_count=_doublings(doublings.filter(pc.equal(doublings["op"], op)), slots),
        )
    for entry in classes:
        key = ClassKey(entry["op"], entry["role"], entry["size_class_bytes"])
        found[key] = _course(position == entry["class_key"], slot, numbers, below, slots)
    return found


def _doublings(table: pa.Table, slots: int) -> Floats:
    slot, bits, io_count = (table[name].to_numpy() for name in ("slot", "latency_bits", "io_count"))
    place = np.clip(slot, 0, slots - 1) * DOUBLINGS + bits
    return np.bincount(place, io_count, slots * DOUBLINGS).astype(np.float64).reshape(slots, DOUBLINGS)


def _course(
    chosen: npt.NDArray[np.bool_], slot: Int64s, numbers: Int64s, below: Int64s, slots: int
) -> SlotCounts:
    def summed(column: Int64s) -> Floats:
        return np.bincount(slot[chosen], column[chosen], slots).astype(np.float64)

    return SlotCounts(
        summed(numbers[:, 0]),
        summed(numbers[:, 1]),
        np.stack([summed(below[:, index]) for index in range(below.shape[1])], axis=1),
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """I/Os of an operation that have no end, which are in no histogram: see `iotrace.analyze.unfinished`."""

    doubling_count: Floats
    """[slots, `DOUBLINGS`]: by how many bits their wait so far has in nanoseconds."""
    longest_ns: int
    may_have_ended: bool


def waiting_of(rows: pa.Table | None, slots: int, *, may_have_ended: bool) -> Waiting | None:
    """From rows of query ``unfinished`` of one operation; None where there are none."""
    if rows is None:
        return None
    waited_ns = rows["bucket_ns"].to_numpy()
    bits = np.frexp(waited_ns.astype(np.float64))[1].astype(np.int64)
    table = pa.table({"slot": rows["slot"], "latency_bits": bits, "io_count": rows["io_count"]})
    return Waiting(_doublings(table, slots), int(waited_ns.max()), may_have_ended)


@dataclass(frozen=True, slots=True)
class ClassLatency:
    """A class of one recording: its histogram and its course over time."""

    histogram: Histogram
    course: SlotCounts
    waiting: Waiting | None = None
    """Of a whole operation."""

    def is_long_enough(self) -> bool:
        """Whether enough slots have I/Os for an interval."""
        return bool(np.count_nonzero(self.course.io_count) >= SLOTS_MIN)

    def is_at_the_end(self, quantity: str) -> bool:
        """Whether a quantile is the slowest bucket of several: how far its share may move is not known there."""
        if quantity == "mean" or len(self.histogram.bucket_ns) < 2:
            return False
        return bool(_point(self.histogram, QUANTITIES[quantity]) == self.histogram.bucket_ns[-1])

    def value_ns(self, quantity: str) -> float | None:
        """The mean or a quantile; None where too few I/Os lie beyond it."""
        if quantity == "mean":
            return self.histogram.latency_sum_ns / self.histogram.total
        if not is_printable(self.histogram.total, QUANTITIES[quantity]):
            return None
        return float(_point(self.histogram, QUANTITIES[quantity]))

    def series(self, quantity: str) -> Floats:
        """What each slot adds to the error: of the mean in nanoseconds, of a quantile in share of the I/Os."""
        course, total = self.course, self.histogram.total
        if quantity == "mean":
            return (course.latency_sum_ns - self.histogram.latency_sum_ns / total * course.io_count) / total
        below = course.below_count[:, list(QUANTITIES).index(quantity)]
        share, quantile = below.sum() / total, QUANTITIES[quantity]
        if not 0 < share < 1:
            return np.zeros(len(below))
        # Where many I/Os took equally long, more than the quantile lie below it: errors are those of another share.
        scale = np.sqrt(quantile * (1 - quantile) / (share * (1 - share)))
        # Downwards: fewer I/Os below the quantile make it larger.
        return np.asarray(-(below - share * course.io_count) / total * scale)

    def steepness(self, quantity: str, spread: float) -> float:
        """Relative change of the figure for one unit of error, around errors of about ``spread``."""
        if quantity == "mean":
            return self.histogram.total / max(self.histogram.latency_sum_ns, 1)
        quantile = QUANTITIES[quantity]
        low, high = max(quantile - spread, 1e-9), min(quantile + spread, 1 - 1e-9)
        if high <= low:
            return 0.0
        below, above = np.log(np.maximum(_latency_of_rank(self.histogram, np.array([low, high])), 1.0))
        return float((above - below) / (high - low))

    def replicates_ns(self, quantity: str, errors: Floats) -> Floats | None:
        """The figure under each error; None where errors reach past what was recorded."""
        if quantity == "mean":
            means = self.histogram.latency_sum_ns / self.histogram.total + errors
            return means if means.min() > 0 else None
        ranks = QUANTITIES[quantity] + errors
        if np.mean((ranks <= 0) | (ranks >= 1)) > _OUTSIDE_MAX:
            return None
        return _latency_of_rank(self.histogram, ranks)


def estimate(one: ClassLatency, quantity: str, seed: Sequence[int]) -> Estimate | None:
    """A figure of one recording. ``seed`` makes the draws; None where too few I/Os lie beyond the quantile."""
    value_ns = one.value_ns(quantity)
    if value_ns is None:
        return None
    if not one.is_long_enough() or one.is_at_the_end(quantity):
        return Estimate(value_ns, None)
    errors = resampled_errors(one.series(quantity), np.random.default_rng([*seed]))
    return Estimate(value_ns, one.replicates_ns(quantity, errors))


def estimate_together(
    one: ClassLatency, other: ClassLatency, quantity: str, seed: Sequence[int]
) -> tuple[Estimate | None, Estimate | None]:
    """The same figure of two recordings whose slots are the same stretches of one workload.

    The same stretches are drawn for both: what the workload did to both of them cancels in the ratio. Draws are widened
    by what is left of the blocks' variance in the ratio.
    """
    pair = (one, other)
    value_ns, other_ns = one.value_ns(quantity), other.value_ns(quantity)
    is_known = all(side.is_long_enough() and not side.is_at_the_end(quantity) for side in pair)
    if value_ns is None or other_ns is None or not is_known:
        left, right = (None if value is None else Estimate(value, None) for value in (value_ns, other_ns))
        return left, right
    rows = np.array([side.series(quantity) for side in pair])
    length = max(block_slots(row) for row in rows)
    sums = block_sums(rows, length)
    errors = resampled_sums(sums, length, np.random.default_rng([*seed]))
    slopes = [side.steepness(quantity, float(row.std())) for side, row in zip(pair, errors, strict=True)]
    errors *= widening(slopes[1] * sums[1] - slopes[0] * sums[0], length)
    return (
        Estimate(value_ns, one.replicates_ns(quantity, errors[0])),
        Estimate(other_ns, other.replicates_ns(quantity, errors[1])),
    )


def _point(histogram: Histogram, quantile: float) -> int:
    rank = int(np.ceil(quantile * histogram.total - 1e-9))
    return int(histogram.bucket_ns[np.searchsorted(np.cumsum(histogram.io_count), rank)])


def _latency_of_rank(histogram: Histogram, ranks: Floats) -> Floats:
    """Latency below which a share of the I/Os lies, evenly spread within a bucket."""
    lowest, highest = bucket_limits_ns(histogram.bucket_ns)
    until = np.cumsum(histogram.io_count)
    wanted = np.clip(ranks, 0, 1) * until[-1]
    index = np.searchsorted(until, wanted)
    inside = (wanted - (until[index] - histogram.io_count[index])) / histogram.io_count[index]
    return np.asarray(lowest[index] + inside * (highest[index] - lowest[index]))
