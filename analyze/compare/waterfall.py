"""Where the time goes, layer by layer: mean latencies and what each layer adds to the one below it.

A residual is a difference of means, so it needs no matching of single I/Os across layers; but it means what it seems to
only where both layers saw the same I/Os. Where the counts differ (a cache answered, requests were merged or split) that
is said instead of believing the difference. A negative residual between equal counts cannot be: an I/O spends no less
time in a layer than in the one below. It is a clock error. With even slightly different counts it may also be that a
request was split: its parts each count below, and slow large ones weigh more there.

Intervals come from a block bootstrap over slots of time (`bootstrap`) in which all layers are resampled together: a
slow minute is slow in every layer, and most of it cancels in the difference.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from iotrace.analyze.stats.bootstrap import SLOTS_MIN, interval, resampled_errors
from iotrace.analyze.stats.histogram import Histograms
from iotrace.schemas import Layer
from iotrace.schemas.arrays import Floats

from .comparison import WaterfallStep

_COUNT_TOLERANCE: Final = 0.05


def waterfall(histograms: Histograms, layers: Iterable[str]) -> list[WaterfallStep]:
    """Steps from the top layer down, for reads, then for writes; from result of query ``latency_histogram``."""
    present = set(layers)
    steps = []
    for op in ("read", "write"):
        merged = {
            layer: histograms.merged(layer=layer, op=op) for layer in map(str, Layer) if layer in present
        }
        seen = [(layer, one.total, one.latency_sum_ns) for layer, one in merged.items() if one.total]
        steps += _steps(op, seen, None)
    return steps


def waterfall_with_intervals(
    table: pa.Table, slots: int, generator: np.random.Generator
) -> list[WaterfallStep]:
    """The same with 95 % intervals, from result of query ``layer_slots`` over ``slots`` slots of time."""
    layer, op = (np.asarray(table[name].to_pylist(), dtype=object) for name in ("layer", "op"))
    slot, count, latency = (table[name].to_numpy() for name in ("slot", "io_count", "latency_sum_ns"))
    steps: list[WaterfallStep] = []
    for wanted in ("read", "write"):
        seen, series = [], []
        for one in map(str, Layer):
            chosen = (layer == one) & (op == wanted)
            if not chosen.any():
                continue
            total, sum_ns = int(count[chosen].sum()), int(latency[chosen].sum())
            counts, sums = (np.bincount(slot[chosen], column[chosen], slots) for column in (count, latency))
            seen.append((one, total, sum_ns))
            series.append((sums - sum_ns / total * counts) / total)
        if not seen:
            continue
        shortest = min(len(np.unique(slot[(layer == one) & (op == wanted)])) for one, *_ in seen)
        errors = resampled_errors(np.array(series), generator) if shortest >= SLOTS_MIN else None
        steps += _steps(wanted, seen, errors)
    return steps


def _steps(op: str, seen: list[tuple[str, int, int]], errors: Floats | None) -> list[WaterfallStep]:
    """One step per layer; ``seen`` is layer, I/Os and summed latency, top down; ``errors`` are those of the means."""
    means = [sum_ns / total for _, total, sum_ns in seen]
    many = None if errors is None else np.array(means)[:, None] + errors
    steps = []
    for index, (layer, total, _) in enumerate(seen):
        is_lowest = index + 1 == len(seen)
        below = None if is_lowest else seen[index + 1]
        own_ns = means[index] - (0 if is_lowest else means[index + 1])
        mean_interval = own_interval = share_interval = None
        if many is not None:
            own_many = many[index] - (0 if is_lowest else many[index + 1])
            mean_interval, own_interval = interval(many[index]), interval(own_many)
            if many[0].min() > 0:
                share_interval = interval(own_many / many[0])
        steps.append(
            WaterfallStep(
                layer=layer,
                op=op,
                io_count=total,
                mean_ns=means[index],
                below=None if below is None else below[0],
                residual_ns=None if is_lowest else own_ns,
                problem=None if below is None else _problem(op, layer, total, below[0], below[1], own_ns),
                mean_interval_ns=mean_interval,
                residual_interval_ns=None if is_lowest else own_interval,
                share=own_ns / means[0] if means[0] > 0 else None,
                share_interval=share_interval,
            )
        )
    return steps


def _problem(op: str, layer: str, total: int, below: str, below_total: int, residual_ns: float) -> str | None:
    counts = f"{layer} saw {total:,} {op}s, {below} {below_total:,}"
    if abs(total - below_total) > _COUNT_TOLERANCE * max(total, below_total):
        return f"{counts}: not the same I/Os"
    if residual_ns >= 0:
        return None
    if total == below_total:
        return f"clock error: {layer} cannot take less time than {below} within it"
    return f"{counts}: requests were split or merged, or the clocks disagree"
