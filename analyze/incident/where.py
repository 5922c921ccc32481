"""In which layer a slow window spent its time.

Each layer's growth is the mean latency of a typical slot in the window less that of a normal one, operation by
operation, weighted by the window's mix, so that a changed mix is no growth. What a layer added itself is its growth
less that of the layer below (`waterfall` has the same differences of means, and the same limits: both layers have to
see the same I/Os). Means of counters are held against one another over the same time: only slots count whose samples,
in every layer, lie wholly in the window or wholly outside all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iotrace.schemas.arrays import Floats

from .change_points import Flags
from .result import LayerTime
from .series import LayerSlots, Slots, Stream

TOP_DOWN: Final = ("sql", "filesystem", "block", "device")
_COUNT_TOLERANCE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Grown:
    """A layer's mean latency outside all windows and in one, and how many I/Os that one had."""

    layer: str
    normal_ns: float
    slow_ns: float
    count: float

    @property
    def growth_ns(self) -> float:
        """How much longer an I/O took."""
        return self.slow_ns - self.normal_ns


def layer_times(
    slots: Slots, window: tuple[int, int], is_normal: Flags, streams: Sequence[Stream]
) -> list[LayerTime]:
    """Layers from the top down, over the ``streams`` that were slow (everything, if none is named).

    A layer that does not tell those streams apart is taken by their operations. Layers without I/Os in the window or
    outside all windows are left out.
    """
    grown: list[_Grown] = []
    mix: dict[str, float] = {}
    is_mine = np.zeros(len(is_normal), dtype=bool)
    is_mine[slice(*window)] = True
    layers = [slots.layers[name] for name in TOP_DOWN if name in slots.layers]
    whole = [_wholly(layers, flags) for flags in (is_mine, is_normal)]
    is_shared = all(flags.any() for flags in whole)
    if is_shared:
        is_mine, is_normal = whole
    for name in TOP_DOWN:
        means = _means(slots.layers[name], is_mine, is_normal, streams) if name in slots.layers else {}
        mix = mix or {op: count for op, (_, _, count) in means.items()}
        shared = {op: mix[op] for op in means if op in mix}
        total = sum(shared.values())
        if total:
            normal, slow = (
                sum(means[op][at] * count for op, count in shared.items()) / total for at in (0, 1)
            )
            grown.append(_Grown(name, normal, slow, sum(means[op][2] for op in shared)))
    times = [_time(entry, grown[index + 1 : index + 2], grown[0]) for index, entry in enumerate(grown)]
    if is_shared or len(times) < 2:
        return times
    problem = (
        "no samples of all layers lie wholly in the window at one time: what each layer added cannot be told"
    )
    return [replace(time, share=None, problem=problem) for time in times]


def _wholly(layers: Sequence[LayerSlots], flags: Flags) -> Flags:
    """The slots of ``flags`` in which every layer's samples, where it is made of means, lie within ``flags``."""
    others = np.concatenate([[0], np.cumsum(~flags)])
    found = flags.copy()
    for layer in layers:
        if layer.sample_first is not None and layer.sample_end is not None:
            has_sample = layer.sample_end > np.arange(len(flags))
            found &= has_sample & (others[layer.sample_end] == others[layer.sample_first])
    return found


def _means(
    layer: LayerSlots, is_mine: Flags, is_normal: Flags, wanted: Sequence[Stream]
) -> dict[str, tuple[float, float, float]]:
    """Per operation: a typical slot's mean latency outside all windows and in this one, in ns, and the I/Os here."""
    keys = {(stream.op, stream.file_id, stream.role, stream.instance) for stream in wanted}
    ops = {stream.op for stream in wanted} or {stream.op for stream in layer.streams}
    chosen = [
        index
        for index, stream in enumerate(layer.streams)
        if (stream.op, stream.file_id, stream.role, stream.instance) in keys
    ] or [index for index, stream in enumerate(layer.streams) if stream.op in ops]
    found = {}
    for op in sorted({layer.streams[index].op for index in chosen}):
        rows = [index for index in chosen if layer.streams[index].op == op]
        sums, counts = layer.latency_sum_ns[rows].sum(axis=0), layer.begun_count[rows].sum(axis=0)
        normal, slow = _typical(sums, counts, is_normal), _typical(sums, counts, is_mine)
        if normal is not None and slow is not None:
            found[op] = (normal, slow, float(counts[is_mine].sum()))
    return found


def _typical(sums: Floats, counts: Floats, flags: Flags) -> float | None:
    """Geometric mean over slots of each slot's mean latency: one slot that is far off does not make the level."""
    chosen = flags & (counts > 0) & (sums > 0)
    return float(np.exp(np.log(sums[chosen] / counts[chosen]).mean())) if chosen.any() else None


def _time(entry: _Grown, lower: list[_Grown], top: _Grown) -> LayerTime:
    below = lower[0] if lower else None
    added = entry.growth_ns - (below.growth_ns if below else 0.0)
    problem = None
    if below and abs(below.count - entry.count) > _COUNT_TOLERANCE * max(below.count, entry.count):
        problem = (
            f"{entry.layer} saw {entry.count:,.0f} I/Os, {below.layer} {below.count:,.0f}: not the same I/Os"
        )
    elif below and added < -0.1 * abs(top.growth_ns):
        problem = f"{entry.layer} cannot have grown less than {below.layer} within it: the clocks or the I/Os differ"
    share = added / top.growth_ns if top.growth_ns > 0 else None
    return LayerTime(
        entry.layer, entry.normal_ns, entry.slow_ns, below.layer if below else None, added, share, problem
    )


def slowest_layer(times: Sequence[LayerTime]) -> str | None:
    """The layer that added most of the growth; None where nothing grew, or the layers share no time to be compared."""
    if len(times) > 1 and all(time.problem for time in times):
        return None
    grown = [time for time in times if time.added_here_ns > 0]
    return max(grown, key=lambda time: time.added_here_ns).layer if grown else None
