"""Few very slow I/Os: what no typical latency shows.

Where a path times out or a disk tries again, one I/O in a hundred takes a second and the others are as fast as ever.
Windows are sought in logarithms of latency, which hardly move then, though the mean is a multiple. Sought here is the
distance between the two: in blocks of time, the mean latency of each stream against that which is usual for it, over
the geometric mean of the same I/Os likewise. Neither load nor queueing moves it much, for they slow all I/Os. A stretch
in which it is clearly greater is told if ten of its I/Os at least took longer than the tenth slowest of the rest, and
five times as many as the rest lets expect, and not in one clump: in tails however heavy, that is no chance.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from iotrace.schemas.arrays import Floats, Int64s

from .change_points import Flags
from .result import Interval
from .series import LayerSlots, Series, Slots, weighted_median
from .stretches import Judged, Stretch, judge, mean_error

_BLOCK_S: Final = 5.0
_BLOCK_IOS: Final = 200.0
"""A block has so many I/Os on the mean: one in a hundred of fewer is none."""
_FACTOR_LEAST: Final = 2.0
"""The mean grew so many times as much as the geometric mean: less is the shape of the latencies, and nothing rare."""
SLOWEST_MAX: Final = 2_000
"""So many of a layer's slowest I/Os are looked at."""
_OTHERS: Final = 10
_SPREAD_BLOCKS: Final = (3, 10)
"""They lie in half of a stretch's blocks, but in three at least, or in ten: one stall of a queue is in one or two."""
_MORE_TIMES: Final = 5.0
_IN_FLIGHT_MAX: Final = 1.5


@dataclass(frozen=True, slots=True)
class RareSlow:
    """A stretch of slots in which few I/Os were very slow, at one layer."""

    judged: Judged
    """The layer's mean latency in blocks, with this stretch alone."""
    stretch: Stretch
    factor: float
    """Mean latency over that of the rest of the time, operations and devices taken as they were."""
    interval: Interval
    lost_ns: float
    count: int
    of: int
    """I/Os of the stretch that took longer than ``longer_than_ns``, and all of them."""
    longer_than_ns: int
    median_ns: int
    """Half of these I/Os took so long at least."""
    other_count: int
    other_of: int
    """The same of the rest of the time."""
    is_least: bool
    """Whether there may be more than ``count``: only so many were looked at."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """I/Os that took longer than the tenth slowest of the rest of the time, or than all that are known."""

    count: int
    other_count: int
    longer_than_ns: int
    median_ns: int
    is_least: bool


@dataclass(slots=True)
class _Blocks:
    """A layer in blocks of slots: first slot and end of each, and sums over its streams."""

    edges: Int64s
    ios: Floats
    latency_ns: Floats
    expected_ns: Floats
    """What its I/Os would have taken at the usual mean of their streams."""
    log_shift: Floats
    """Mean of ln(latency) against the streams' usual."""
    is_comparable: Flags
    """Whether the two means are of about the same I/Os: logarithms also count those in flight from earlier on."""

    def times_usual(self, chosen: Flags) -> float:
        """Mean latency of some blocks against what is usual."""
        return float(self.latency_ns[chosen].sum() / self.expected_ns[chosen].sum())


def rare_slow(
    slots: Slots, slowest: Callable[[str], pa.Table], told: Iterable[tuple[int, int, float]]
) -> list[RareSlow]:
    """Stretches of any layer in which few I/Os were very slow, that of the most time lost first.

    ``slowest`` gives a layer's slowest I/Os (query ``incident_slowest``). ``told`` are slots of what has been found
    already, with how many times slower: a stretch that lies mostly in one that is half as slow at least is left out.
    """
    known = list(told)
    found = []
    for layer in slots.layers.values():
        found += _of_layer(layer, _blocks(layer, slots.slot_seconds), slots, slowest, known)
    found.sort(key=lambda one: -one.lost_ns)
    kept: list[RareSlow] = []
    for one in found:
        # What one layer shows is the same event in the next.
        if all(_shared(one.stretch, (other.stretch.first, other.stretch.end)) == 0 for other in kept):
            kept.append(one)
    return kept


def _blocks(layer: LayerSlots, slot_s: float) -> _Blocks:
    slots = layer.begun_count.shape[1]
    total = float(layer.begun_count.sum())
    length = int(max(_BLOCK_S // slot_s, np.ceil(_BLOCK_IOS * slots / max(total, 1.0)), 1))
    edges = np.append(np.arange(0, slots, length), slots)

    def summed(cells: Floats) -> Floats:
        return np.add.reduceat(np.nan_to_num(cells), edges[:-1], axis=1)

    ios, latency_ns = summed(layer.begun_count), summed(layer.latency_sum_ns)
    measured, logs = summed(layer.measured_count), summed(layer.log_latency * layer.measured_count)
    with np.errstate(divide="ignore", invalid="ignore"):
        means, levels = latency_ns / ios, logs / measured
    usual = np.array([weighted_median(row, weight) for row, weight in zip(means, ios, strict=True)])
    level = np.array([weighted_median(row, weight) for row, weight in zip(levels, measured, strict=True)])
    shift = np.nan_to_num(levels - level[:, None]) * measured
    with np.errstate(divide="ignore", invalid="ignore"):
        log_shift = shift.sum(axis=0) / measured.sum(axis=0)
    expected_ns = (ios * np.nan_to_num(usual)[:, None]).sum(axis=0)
    is_comparable = np.isfinite(log_shift) & (measured.sum(axis=0) <= _IN_FLIGHT_MAX * ios.sum(axis=0))
    return _Blocks(edges, ios.sum(axis=0), latency_ns.sum(axis=0), expected_ns, log_shift, is_comparable)


def _of_layer(
    layer: LayerSlots,
    blocks: _Blocks,
    slots: Slots,
    slowest: Callable[[str], pa.Table],
    known: list[tuple[int, int, float]],
) -> list[RareSlow]:
    filled = np.flatnonzero((blocks.ios > 0) & (blocks.expected_ns > 0) & blocks.is_comparable)
    if not len(filled):
        return []
    first, end = blocks.edges[:-1][filled], blocks.edges[1:][filled]
    log_mean = np.log(blocks.latency_ns[filled] / blocks.expected_ns[filled])
    spans = (np.zeros(slots.count, np.int64), np.zeros(slots.count, np.int64))
    at = (first + end) // 2
    spans[0][at], spans[1][at] = first, end
    ios = blocks.ios[filled]
    tail = judge(
        Series(layer.layer, None, at, log_mean - blocks.log_shift[filled], 1 / ios, ios, spans),
        with_single=False,
    )
    stretches = [one for one in tail.stretches if one.excess >= np.log(_FACTOR_LEAST)]
    inside = np.zeros(len(blocks.ios), dtype=bool)
    for one in stretches:
        inside |= (blocks.edges[:-1] < one.end) & (blocks.edges[1:] > one.first)
    # Of what lasts for most of the recording nobody knows which is the usual.
    if not stretches or blocks.ios[~inside].sum() < blocks.ios[inside].sum():
        return []
    usual = blocks.times_usual(~inside)
    usual_ns = float(blocks.latency_ns[~inside].sum() / blocks.ios[~inside].sum())
    table: pa.Table | None = None
    found = []
    for one in stretches:
        mine = (blocks.edges[:-1] < one.end) & (blocks.edges[1:] > one.first)
        factor = blocks.times_usual(mine) / usual
        if any(_shared(one, span) > 0.5 and 2 * slower >= factor for *span, slower in known):
            continue
        table = slowest(layer.layer) if table is None else table
        spans_of = [(each.first, each.end) for each in stretches]
        counted = _counted(table, slots, blocks.edges, (one.first, one.end), spans_of)
        of, other_of = int(blocks.ios[mine].sum()), int(blocks.ios[~inside].sum())
        expected = counted.other_count * of / max(other_of, 1) if counted else 0.0
        if counted is None or counted.count < _MORE_TIMES * expected:
            continue
        level = float(np.log(usual_ns))
        values = log_mean - np.log(usual) + level
        series = Series(layer.layer, None, at, values, 1 / ios, ios, spans, is_mean=True)
        error = _error(blocks, mine, factor * usual) / (factor * usual)
        as_mean = Stretch(one.first, one.end, float(np.log(factor)), error, one.evidence)
        slow = (at >= one.first) & (at < one.end)
        judged = Judged(series, [as_mean], np.full(len(at), level), tail.segmentation, slow)
        found.append(
            RareSlow(
                judged,
                as_mean,
                factor,
                (factor * max(1 - 1.96 * error, 0.0), factor * (1 + 1.96 * error)),
                float(blocks.latency_ns[mine].sum() - usual * blocks.expected_ns[mine].sum()),
                counted.count,
                of,
                counted.longer_than_ns,
                counted.median_ns,
                counted.other_count,
                other_of,
                counted.is_least,
            )
        )
    return found


def _error(blocks: _Blocks, mine: Flags, level: float) -> float:
    """Standard error of the mean of blocks, each weighted by what its I/Os usually take."""
    ratio = blocks.latency_ns[mine] / np.maximum(blocks.expected_ns[mine], 1.0)
    return mean_error(ratio, blocks.expected_ns[mine]) if mine.sum() > 1 else level


def _counted(
    table: pa.Table, slots: Slots, edges: Int64s, span: tuple[int, int], spans: list[tuple[int, int]]
) -> _Counted | None:
    """The slowest I/Os of a stretch, against those of the time outside all ``spans``; None of fewer than ten."""
    slot = (table["issued_ns"].to_numpy() - slots.start_ns) // slots.slot_ns
    latency_ns = table["latency_ns"].to_numpy()
    is_mine = (slot >= span[0]) & (slot < span[1])
    is_other = np.ones(len(slot), dtype=bool)
    for first, end in spans:
        is_other &= (slot < first) | (slot >= end)
    others = np.sort(latency_ns[is_other])[::-1]
    is_known = len(others) >= _OTHERS or len(latency_ns) < SLOWEST_MAX
    least_ns = int(
        others[_OTHERS - 1] if len(others) >= _OTHERS else np.min(latency_ns, initial=np.iinfo(np.int64).max)
    )
    mine = latency_ns[is_mine & (latency_ns > least_ns)]
    first, end = np.searchsorted(edges, span)
    spread = len(np.unique(np.searchsorted(edges, slot[is_mine & (latency_ns > least_ns)], side="right")))
    if len(mine) < _OTHERS or spread < np.clip((end - first) / 2, *_SPREAD_BLOCKS):
        return None
    return _Counted(
        len(mine), int((others > least_ns).sum()), least_ns, int(np.median(mine)), is_least=not is_known
    )


def _shared(stretch: Stretch, span: Iterable[int]) -> float:
    """The share of a stretch that lies within a span of slots."""
    first, end = span
    return max(min(stretch.end, end) - max(stretch.first, first), 0) / max(stretch.end - stretch.first, 1)
