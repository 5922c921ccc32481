"""The same slots from counters alone: what perfmon, DMV snapshots or an array tell of each interval.

A counter is a mean over its interval, so a slot is as long as the intervals are: those of the layer that was sampled
most often, where layers differ. Amounts (I/Os, bytes, time spent waiting) are spread over the slots that an interval
covers, in proportion, so that they add up to what was counted whatever the intervals are; a latency is one value for
one interval and stands in the slot of its middle, so that it counts as one. A stream is an operation on an instance of
the counter object: a disk, a volume, a database file. Counters that add others up (``_Total``) and second views of the
same I/O (LogicalDisk beside PhysicalDisk) are left out.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from iotrace.analyze import library
from iotrace.schemas.arrays import Floats, Int64s
from iotrace.schemas.units import SECOND_NS

from .change_points import runs
from .series import LayerSlots, Slots, Stream, slot_length_ns

CANNOT_KNOW: Final = (
    "made from means of counters: quantiles cannot be known, nor how slow the slowest I/O was",
    "there are no single I/Os: what is shorter than a counter's interval is seen diluted or not at all",
    "which file or process asked is known only as far as the counters' instances tell",
    "where a counter log has no queue length, I/Os in flight come from Little's law: rate times mean latency",
)

_PREFERRED: Final = (
    "physicaldisk",
    "logicaldisk",
    "diskstats",
    "sys.dm_io_virtual_file_stats",
    "resource pool stats",
)
_OPS: Final = ("read", "write")
_EVERY_OP: Final = (*_OPS, "transfer")
_QUEUED_LEAST: Final = 0.5
"""I/Os in flight on the mean of an interval in which none ended: it is no idleness."""
_LOG_VARIANCE_PER_IO: Final = 1.0
"""Variance of ln of a mean of n latencies is about 1 / n when their standard deviation is their mean."""

_NEVER: Final = np.iinfo(np.int64).max
_WORDS: Final = frozenset({"layer", "object", "source", "instance"})

Who = tuple[str, str]
"""Source and instance."""


@dataclass(slots=True)
class _Grid:
    """Slots of equal length, in which amounts are added up."""

    start_ns: int
    slot_ns: int
    count: int

    def spread(self, segments: "_Segments", per_s: Floats) -> Floats:
        """How much of a rate falls into each slot; unknown (NaN) is none. Sums are those of the segments."""
        length_s = (segments.until_ns - segments.from_ns) / 1e9
        total = np.cumsum(np.nan_to_num(per_s) * length_s)
        moments = np.stack([segments.from_ns, segments.until_ns], axis=1).ravel() - self.start_ns
        reached = np.stack([np.concatenate([[0.0], total[:-1]]), total], axis=1).ravel()
        borders = np.arange(self.count + 1, dtype=np.int64) * self.slot_ns
        return np.diff(np.interp(borders, moments, reached)) if len(total) else np.zeros(self.count)

    def slot(self, at_ns: Int64s) -> Int64s:
        """The slots that moments lie in."""
        return np.clip((at_ns - self.start_ns) // self.slot_ns, 0, self.count - 1)


@dataclass(slots=True)
class _Segments:
    """Rows of query ``counter_segments`` of one instance, in order of time; NaN where a counter has no sample."""

    from_ns: Int64s
    until_ns: Int64s
    values: dict[str, Floats]
    """By metric."""
    ends: dict[str, Int64s]
    """By operation: where the sample of its mean latency ends, which tells samples of equal latency apart."""

    def timed(self, metric: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Where a latency is told: of an interval without I/O the tools say 0, or nothing."""
        return self.values[metric] > 0


def mean_slots(connection: duckdb.DuckDBPyConnection, span_ns: tuple[int, int]) -> Slots:
    """Slots from the counters within the span (all of them, where it is empty); no layers if none tells of latency."""
    table = library.run(connection, "incident_counter_means")
    by_layer: dict[str, dict[str, dict[Who, _Segments]]] = defaultdict(lambda: defaultdict(dict))
    for layer, object_name, who, segments in _instances(table, span_ns):
        by_layer[layer][object_name][who] = segments
    layers = {layer: _best_view(objects) for layer, objects in by_layer.items()}
    layers = {layer: instances for layer, instances in layers.items() if instances}
    if not layers:
        return Slots(span_ns[0], SECOND_NS, 1, {})
    every = [segments for instances in layers.values() for segments in instances.values()]
    start_ns = min(int(segments.from_ns[0]) for segments in every)
    end_ns = max(int(segments.until_ns[-1]) for segments in every)
    typical_ns = {layer: _typical_sample_ns(instances) for layer, instances in layers.items()}
    slot_ns = max(round(min(typical_ns.values()) / SECOND_NS), 1) * SECOND_NS
    streams = sum(len(_ops(segments)) for segments in every)
    slot_ns = max(slot_ns, slot_length_ns(end_ns - start_ns, streams))
    grid = _Grid(start_ns, slot_ns, max(-(-(end_ns - start_ns) // slot_ns), 1))
    found = {name: _layer(name, instances, grid) for name, instances in layers.items()}
    return Slots(start_ns, slot_ns, grid.count, found, end_ns=end_ns)


def _instances(table: pa.Table, span_ns: tuple[int, int]) -> list[tuple[str, str, Who, _Segments]]:
    """What each instance's counters tell within the span, from the result of query ``incident_counter_means``."""
    if not len(table):
        return []
    keys = [table[name].to_pylist() for name in ("layer", "object", "source", "instance")]
    number = table["instance_number"].to_numpy()
    borders = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    columns = {name: _numbers(table[name]) for name in table.column_names if name not in _WORDS}
    found = []
    for first, end in itertools.pairwise(borders):
        layer, object_name, source, instance = (column[first] for column in keys)
        if _adds_up(instance):
            continue
        rows = {name: column[first:end] for name, column in columns.items()}
        segments = _within(rows, span_ns)
        if len(segments.from_ns):
            found.append((layer, object_name, (source, instance), segments))
    return found


def _numbers(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    if pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    return np.asarray(column.fill_null(_NEVER).to_numpy(), dtype=np.int64)


def _within(rows: dict[str, np.ndarray[Any, Any]], span_ns: tuple[int, int]) -> _Segments:
    """What lies within the span, if it is one. Values of moments, which stand for no time, are left out."""
    from_ns, until_ns = rows["from_ns"], rows["until_ns"]
    if span_ns[1] > span_ns[0]:
        from_ns, until_ns = np.maximum(from_ns, span_ns[0]), np.minimum(until_ns, span_ns[1])
    kept = until_ns - from_ns > 1
    metrics = [name for name, column in rows.items() if column.dtype == np.float64]
    return _Segments(
        from_ns[kept],
        until_ns[kept],
        {name: rows[name][kept] for name in metrics},
        {op: rows[f"{_metric(op, 'latency')}_until_ns"][kept] for op in _EVERY_OP},
    )


def _adds_up(instance: str) -> bool:
    return instance.strip().lower() in {"_total", "total"}


def _best_view(objects: dict[str, dict[Who, _Segments]]) -> dict[Who, _Segments]:
    """Instances of the object that is the best view of the layer, of those that tell latency."""

    def rank(name: str) -> tuple[int, str]:
        word = name.lower().rsplit(":", 1)[-1]
        return (_PREFERRED.index(word) if word in _PREFERRED else len(_PREFERRED), name)

    telling = [name for name, instances in objects.items() if any(map(_ops, instances.values()))]
    return objects[min(telling, key=rank)] if telling else {}


def _ops(segments: _Segments) -> list[str]:
    """Operations whose latency is told; of both together where neither is told alone."""
    return [op for op in _OPS if segments.timed(f"{op}_latency_ns").any()] or (
        ["transfer"] if segments.timed("latency_ns").any() else []
    )


def _metric(op: str, quantity: str) -> str:
    """The metric's name: ``read_latency`` of a read, ``latency`` of a transfer."""
    return quantity if op == "transfer" else f"{op}_{quantity}"


@dataclass(slots=True)
class _Samples:
    """Means of latency of one stream, each one value over its own interval."""

    from_ns: Int64s
    until_ns: Int64s
    latency_ns: Floats
    io_count: Floats
    """0 where no rate is known."""

    @classmethod
    def of(cls, segments: _Segments, op: str, rate: Floats) -> "_Samples":
        """The samples whose stretches ``segments`` holds."""
        metric = _metric(op, "latency_ns")
        latency, at = segments.values[metric], np.flatnonzero(segments.timed(metric))
        first = np.flatnonzero(np.diff(segments.ends[op][at], prepend=-1))
        last = np.append(first, len(at))[1:] - 1
        length_s = (segments.until_ns - segments.from_ns) / 1e9
        counts = np.add.reduceat((np.nan_to_num(rate) * length_s)[at], first)
        return cls(segments.from_ns[at[first]], segments.until_ns[at[last]], latency[at[first]], counts)


def _typical_sample_ns(instances: dict[Who, _Segments]) -> float:
    lengths = []
    for segments in instances.values():
        for op in _ops(segments):
            samples = _Samples.of(segments, op, np.zeros(len(segments.from_ns)))
            lengths.append(samples.until_ns - samples.from_ns)
    return float(np.median(np.concatenate(lengths)))


def _layer(name: str, instances: dict[Who, _Segments], grid: _Grid) -> LayerSlots:
    several = len({source for source, _ in instances}) > 1
    streams: list[Stream] = []
    columns: dict[str, list[Floats]] = defaultdict(list)
    first, end = np.arange(grid.count), np.arange(grid.count)
    for (source, instance), told in sorted(instances.items()):
        who = f"{source} {instance}".strip() if several else instance
        ops = _ops(told)
        if not ops:
            continue
        hung, segments = _hung(told, ops, grid), _with_unanswered(told, ops)
        for op in ops:
            rate = segments.values[_metric(op, "iops")]
            latency = segments.values[_metric(op, "latency_ns")]
            has_latency = np.isfinite(latency) & (latency > 0)
            # Where no rate is told, a mean counts by the time it stands for.
            weight = rate if np.isfinite(rate).any() else np.full(len(rate), 1e9 / grid.slot_ns)
            samples = _Samples.of(segments, op, weight)
            columns["io_count"].append(grid.spread(segments, rate))
            columns["size_bytes"].append(
                grid.spread(segments, segments.values[_metric(op, "bytes_per_second")])
            )
            columns["begun_count"].append(grid.spread(segments, np.where(has_latency, weight, 0.0)))
            waiting = np.where(has_latency, weight * np.nan_to_num(latency), 0.0)
            columns["latency_sum_ns"].append(grid.spread(segments, waiting))
            columns["in_flight"].append(_in_flight(segments, op, ops, rate, grid))
            levels = _levels(samples, grid, is_rate_known=bool(np.isfinite(rate).any()))
            if len(samples.from_ns):
                hung.mark(levels, columns["begun_count"][-1], columns["latency_sum_ns"][-1], grid.slot_ns)
            for column, values in levels.items():
                columns[column].append(values)
            _mark_samples(samples, grid, first, end)
            streams.append(Stream(name, op, instance=who or None))
    amounts = {column: np.vstack(arrays) for column, arrays in columns.items()}
    return LayerSlots(name, streams, **amounts, samples=(first, end))


def _with_unanswered(segments: _Segments, ops: list[str]) -> _Segments:
    """The same, but latencies are the time in the queue per I/O that ended (Little 1961), where that is more.

    A mean latency is that of I/Os that ended. While some have no answer the queue holds more than those account for.
    """
    length_s = (segments.until_ns - segments.from_ns) / 1e9
    rates, latencies = ([segments.values[_metric(op, of)] for op in ops] for of in ("iops", "latency_ns"))
    ended = np.sum([np.nan_to_num(rate * ns) for rate, ns in zip(rates, latencies, strict=True)], axis=0)
    ended, queued = ended / 1e9 * length_s, segments.values["queue_length"] * length_s
    first = np.flatnonzero(np.any([np.diff(segments.ends[op], prepend=-1) for op in ops], axis=0))
    of_sample = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(ended))))
    with np.errstate(invalid="ignore", divide="ignore"):
        more = (np.add.reduceat(queued, first) / np.add.reduceat(ended, first))[of_sample]
    is_told = np.all(
        [(rate == 0) | np.isfinite(rate * ns) for rate, ns in zip(rates, latencies, strict=True)], axis=0
    )
    more = np.where(is_told & np.isfinite(more), np.maximum(more, 1.0), 1.0)
    scaled = {_metric(op, "latency_ns"): segments.values[_metric(op, "latency_ns")] * more for op in ops}
    return replace(segments, values=segments.values | scaled)


@dataclass(slots=True)
class _Hung:
    """Slots in which nothing ended while I/Os were queued: how long that went on, 0 elsewhere; and how many waited."""

    waited_ns: Floats
    queued: Floats

    def mark(
        self, levels: dict[str, Floats], begun_count: Floats, latency_sum_ns: Floats, slot_ns: int
    ) -> None:
        """Count the waiting so far as the latency of as many I/Os as were queued."""
        at = np.flatnonzero((self.waited_ns > 0) & ~np.isfinite(levels["log_latency"]))
        levels["log_latency"][at] = np.log(self.waited_ns[at])
        levels["measured_count"][at] = np.maximum(self.queued[at], 1.0)
        levels["within_variance"][at] = _LOG_VARIANCE_PER_IO / levels["measured_count"][at]
        # Those that waited all through several slots are as many I/Os in all, not as many in each.
        begun_count[at] += self.queued[at] * slot_ns / self.waited_ns[at]
        latency_sum_ns[at] += self.queued[at] * slot_ns


def _hung(segments: _Segments, ops: list[str], grid: _Grid) -> _Hung:
    """Nothing is said to hang where a rate or the queue is not told.

    A mean queue length may count what ended only, as that of Windows does (rate times latency). What was in flight when
    an interval began in which nothing ended has waited all through it.
    """
    nothing = np.zeros(grid.count)
    rates = [segments.values[_metric(op, "iops")] for op in ops]
    queue = np.fmax(segments.values["queue_length"], segments.values["in_flight"])
    if not np.isfinite(queue).any() or not all(np.isfinite(rate).any() for rate in rates):
        return _Hung(nothing, nothing)
    queued = _mean(segments, queue, grid)
    ended = np.sum([grid.spread(segments, rate) for rate in rates], axis=0)
    told_s, queued_s = (
        grid.spread(segments, flags.astype(np.float64))
        for flags in (np.isfinite(np.sum(rates, axis=0)), queue >= _QUEUED_LEAST)
    )
    is_hung = (ended <= 1e-9) & (told_s > 0) & (queued_s >= 0.99 * told_s)
    waited_ns = nothing.copy()
    for first, end in runs(is_hung):
        waited_ns[first:end] = float(end - first) * grid.slot_ns
    return _Hung(waited_ns, queued)


def _in_flight(segments: _Segments, op: str, ops: list[str], rate: Floats, grid: _Grid) -> Floats:
    """Mean number in flight: the counter of it, in the first operation's row, else by Little's law."""
    queue = segments.values["queue_length"]
    if not np.isfinite(queue).any():
        queue = rate * segments.values[_metric(op, "latency_ns")] / 1e9
    elif op != ops[0]:
        return np.zeros(grid.count)
    return _mean(segments, queue, grid)


def _mean(segments: _Segments, values: Floats, grid: _Grid) -> Floats:
    """Mean over the time of each slot in which it is known; 0 where it never is."""
    known_s = grid.spread(segments, np.isfinite(values).astype(np.float64))
    return np.divide(grid.spread(segments, values), known_s, out=np.zeros(grid.count), where=known_s > 0)


def _levels(samples: _Samples, grid: _Grid, *, is_rate_known: bool) -> dict[str, Floats]:
    """The level in the slots that hold the middle of a sample, NaN elsewhere; and what it weighs there.

    Without a rate nobody knows how many I/Os a mean is of: its variance is what the series shows, and none is added.
    """
    per_io = _LOG_VARIANCE_PER_IO if is_rate_known else 0.0
    chosen = samples.io_count > 0
    middle = grid.slot((samples.from_ns + (samples.until_ns - samples.from_ns) // 2)[chosen])
    count = np.bincount(middle, samples.io_count[chosen], grid.count)
    summed = np.bincount(middle, (samples.io_count * samples.latency_ns)[chosen], grid.count)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.log(summed / count)
        variance = np.where(count > 0, per_io / np.maximum(count, 1.0), np.nan)
    return {"log_latency": level, "within_variance": variance, "measured_count": count}


def _mark_samples(samples: _Samples, grid: _Grid, first: Int64s, end: Int64s) -> None:
    """Widen ``first`` and ``end`` of each slot to those of the samples that cover it."""
    begin, stop = grid.slot(samples.from_ns), grid.slot(samples.until_ns - 1) + 1
    for step in range(int((stop - begin).max(initial=0))):
        reach = begin + step < stop
        at = (begin + step)[reach]
        np.minimum.at(first, at, begin[reach])
        np.maximum.at(end, at, stop[reach])
