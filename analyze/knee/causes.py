"""What saturated: rules that name a cause where the measurements show it, and stay silent where they do not.

Each rule is a pure function of a few figures. A cause is the likely one, and its sentence says what would settle it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from iotrace.analyze.stats.estimate import Estimate
from iotrace.analyze.units import format_duration_ns, format_figure
from iotrace.schemas.arrays import Floats

from .answer import Cause, Knee
from .layers import Layers
from .saturation import Saturation, sure_depth
from .step import Samples, Step, is_carried


def causes(answer: Knee, saturated: Sequence[Samples]) -> list[Cause]:
    """Causes that the steps of ``answer`` show, the layer first. ``saturated`` are the samples at the wall."""
    found = [_layer(answer), _ceiling(saturated), _generator(answer)]
    return [cause for cause in found if cause is not None]


def closed_causes(
    found: Saturation, steps: Sequence[Step], samples: Sequence[Samples], *, unit: str = "outstanding"
) -> list[Cause]:
    """Causes that closed loops show, which saturate as ``found`` says.

    ``steps`` and, where single I/Os are known, their ``samples`` are those that are judged, by rising load. A generator
    without processor time left explains the plateau by itself, so that nothing is said of the storage then.
    """
    if found.outstanding is None or found.state not in {"reached", "at_lowest"}:
        return []
    falls_from = float("inf") if found.falls_from is None else found.falls_from
    at = [
        index
        for index, step in enumerate(steps)
        if found.outstanding.value <= (step.outstanding or 0) < falls_from
    ]
    busy = [steps[index].generator_busy_share or 0.0 for index in at]
    if busy and min(busy) >= BUSY_SHARE:
        return [busy_generator(steps[at[0]].load_text, min(busy))]
    depth = None
    if found.state == "reached" and found.falls_from is None:
        loads = [float(step.outstanding or 0) for step in steps]
        depth = queue_depth(found.outstanding, loads, is_corner=found.is_corner, unit=unit)
    ceiling = _ceiling([samples[index] for index in at]) if samples else None
    return [cause for cause in (depth, ceiling) if cause is not None]


def ceilings_by_size(plateaus: Iterable[tuple[Hashable, int, float]]) -> list[Cause]:
    """Ceilings that show only in series beside one another: (what but size they have in common, size, IOPS) of each.

    ``size`` is in bytes, IOPS are those on the plateau.
    """
    alike: dict[Hashable, list[tuple[int, float]]] = defaultdict(list)
    for kind, size_bytes, iops in plateaus:
        alike[kind].append((size_bytes, iops))
    found = [ceiling_by_size(one) for one in alike.values()]
    return list(dict.fromkeys(cause for cause in found if cause is not None))


def _layer(answer: Knee) -> Cause | None:
    """From the least loaded step to the first that did not hold; without one, to the highest."""
    shown = [step for step in answer.steps if step.layers is not None]
    judged = [step for step in shown if step.is_judged]
    # Layers' clocks start when an I/O is issued, so that a late generator does not spoil them while all was carried.
    held = [
        step for step in shown if not step.is_saturated and is_carried(step.achieved_iops, step.offered_iops)
    ]
    if not held or answer.state not in {"reached", "onset"}:
        return None
    beyond = [step for step in judged if step.is_saturated and step.offered_iops > held[0].offered_iops]
    low, high = held[0].layers, (beyond or held)[0 if beyond else -1].layers
    return layer(low, high) if low is not None and high is not None else None


def _ceiling(saturated: Sequence[Samples]) -> Cause | None:
    return ceiling_in_time([(one.completed_iops, one.completed_bytes_per_s) for one in saturated])


def _generator(answer: Knee) -> Cause | None:
    """The lowest load at which only the generator gave out, where the storage was not seen to do so."""
    if any(step.is_judged and step.is_saturated for step in answer.steps):
        return None
    late = [step for step in answer.steps if _gave_out(step, answer)]
    return generator(late[0].load_text) if late else None


def _gave_out(step: Step, answer: Knee) -> bool:
    above = step.offered_iops > (answer.highest_kept_up_iops or 0.0)
    is_short = not is_carried(step.achieved_iops, step.offered_iops)
    return step.generator_limited and above and (is_short or answer.state == "not_judged")


DEVICE_SLOWER: Final = 2.0
"""A device that answers this many times more slowly under load than without is no longer flat."""
CLIMB_MIN: Final = 2.0
"""Latency has to climb this many times from the lowest step before a layer can be blamed."""
FULL_SHARE: Final = 0.75
"""A device whose average in flight is this share of its most is full: it is never given more."""
LAYER_SHARE: Final = 0.6
"""A layer that took this share of the climb is where the time went."""
_FLAT_TIMES: Final = 2.0
_VARIES_MIN: Final = 0.02
_STRETCHES_MIN: Final = 10
BUSY_SHARE: Final = 0.9
"""Threads that spend this share of their time on a processor have none left."""
_SAME_WITHIN: Final = 0.1
_DIFFER_BY: Final = 1.5


def queue_depth(
    knee: Estimate, load: Sequence[float], *, is_corner: bool, unit: str = "outstanding"
) -> Cause | None:
    """A plateau that begins at a power of two that was tested: a queue of that many slots.

    Needs a corner that is surely there, and two loads beyond it.
    """
    depth = knee.value
    beyond = sum(count > depth for count in load)
    if not (is_corner and beyond >= 2 and sure_depth(knee)):
        return None
    return Cause(
        "queue_depth",
        None,
        f"the plateau from {depth:g} {unit} on is the mark of a queue depth of {depth:g}",
        f"Throughput is flat from {depth:g} {unit} on, a round number: a queue depth of {depth:g} on the way to the "
        "storage is the likely limit. Raise it (driver, HBA, LUN) and run again: if the plateau stays, it is the "
        "storage.",
    )


def ceiling_by_size(plateaus: Sequence[tuple[int, float]]) -> Cause | None:
    """From (size in bytes, IOPS on the plateau) of series alike but for size: what is the same at each is the ceiling.

    None where neither the MB/s nor the IOPS of the sizes lie within 10 % of each other, or the other does not differ by
    half.
    """
    if len({size for size, _ in plateaus}) < 2:
        return None
    rates = np.array([iops for _, iops in plateaus])
    moved = np.array([size * iops / 1e6 for size, iops in plateaus])
    if _is_same(moved) and _differs(rates):
        return _bandwidth(float(moved.mean()), "at every size, while IOPS differ with it")
    if _is_same(rates) and _differs(moved):
        return _iops(float(rates.mean()), "at every size, while MB/s differ with it")
    return None


def ceiling_in_time(stretches: Sequence[tuple[Floats, Floats]]) -> Cause | None:
    """From (I/Os per second, bytes per second) completed in each stretch of each saturated step.

    Where sizes vary from stretch to stretch, what the ceiling is on stays flat, and the other moves with the sizes.
    """
    pairs = [
        (ios, size)
        for ios, size in stretches
        if len(ios) >= _STRETCHES_MIN and ios.min() > 0 and size.min() > 0
    ]
    if not pairs:
        return None
    ios = np.concatenate([np.log(one) - np.log(one).mean() for one, _ in pairs])
    moved = np.concatenate([np.log(one) - np.log(one).mean() for _, one in pairs])
    spread_ios, spread_moved = float(ios.std()), float(moved.std())
    if spread_ios >= max(_FLAT_TIMES * spread_moved, _VARIES_MIN):
        rate = float(np.mean([one.mean() for _, one in pairs])) / 1e6
        return _bandwidth(
            rate, f"to {_percent(spread_moved)}, while IOPS moved by {_percent(spread_ios)} with sizes"
        )
    if spread_moved >= max(_FLAT_TIMES * spread_ios, _VARIES_MIN):
        rate = float(np.mean([one.mean() for one, _ in pairs]))
        return _iops(
            rate, f"to {_percent(spread_ios)}, while MB/s moved by {_percent(spread_moved)} with sizes"
        )
    return None


def layer(low: Layers, high: Layers) -> Cause | None:
    """Which layer's own time grew from the step ``low``, unsaturated, to ``high``, at the knee or beyond.

    A device that answers at least `DEVICE_SLOWER` times more slowly is named: a queue that forms above it, once all its
    slots are taken, is its doing. Where it answers as before and the time above it grew, the host holds I/Os back.
    """
    if high.total_ns < CLIMB_MIN * low.total_ns or not (low.device_ns and high.device_ns):
        return None
    climb = high.total_ns - low.total_ns
    if high.device_ns >= DEVICE_SLOWER * low.device_ns:
        rest = high.total_ns - high.device_ns
        full = ""
        if rest > high.device_ns:
            in_flight = format_figure(high.device_in_flight)
            full = f" It had {in_flight} in flight; the rest of the wait is the queue above it."
        return Cause(
            "device",
            "device",
            "the device layer saturates",
            f"The device layer saturates: it took {format_duration_ns(low.device_ns)} at {low.name} and "
            f"{format_duration_ns(high.device_ns)} at {high.name}.{full}",
        )
    queued = max(high.block_ns - high.device_ns, 0.0) - max(low.block_ns - low.device_ns, 0.0)
    above = (high.total_ns - high.block_ns) - (low.total_ns - low.block_ns)
    # Where no slot is free, an I/O may wait before the block layer has it: asynchronous submission does not block.
    is_full = high.device_in_flight >= FULL_SHARE * high.device_in_flight_max
    if queued >= LAYER_SHARE * climb or (is_full and queued + above >= LAYER_SHARE * climb):
        return Cause(
            "host_queue",
            "block",
            "the block layer above the device saturates",
            "The block layer above the device saturates, which is the host's own queue: at "
            f"{high.name} an I/O took {format_duration_ns(high.total_ns)}, of which the device had it for "
            f"{format_duration_ns(high.device_ns)} ({format_duration_ns(low.device_ns)} at {low.name}), hardly ever "
            f"more than {high.device_in_flight_max:,} at a time. Look at the queue depth and the scheduler.",
        )
    if above >= LAYER_SHARE * climb:
        return Cause(
            "above_block",
            "above block",
            "the time goes above the block layer",
            f"The time goes above the block layer: of {format_duration_ns(high.total_ns)} at {high.name} block and "
            f"device took {format_duration_ns(high.block_ns)} ({format_duration_ns(low.block_ns)} at {low.name}). A "
            "limit on the process (cgroup, container, VM) or the file system holds I/Os back.",
        )
    return None


def generator(load: str) -> Cause:
    """The load generator gave out before the storage did."""
    return Cause(
        "generator",
        None,
        "the load generator gave out before the storage did",
        f"At {load} the load generator was late, not the storage: the run is generator-limited there. Give it "
        "processor time (fewer other programs, a host with more cores) before the storage is judged at such loads.",
    )


def busy_generator(load: str, busy_share: float) -> Cause:
    """The plateau of a closed loop is the load generator's own: it had no processor time left to issue more."""
    return Cause(
        "generator",
        None,
        "the load generator had no processor time left for more",
        f"The load generator spent {_percent(busy_share)} of its time on the processor at {load}: the plateau is its "
        "own, and the storage may carry more. Give it a faster or less busy processor, or larger I/Os.",
    )


def _bandwidth(mb_per_s: float, how: str) -> Cause:
    return Cause(
        "bandwidth",
        None,
        f"a bandwidth ceiling of {mb_per_s:,.0f} MB/s",
        f"MB/s are flat at {mb_per_s:,.0f} {how}: a bandwidth ceiling (link, bus, controller, or a limit that "
        "was set).",
    )


def _iops(rate: float, how: str) -> Cause:
    return Cause(
        "iops",
        None,
        f"a ceiling of {rate:,.0f} IOPS whatever their size",
        f"IOPS are flat at {rate:,.0f} {how}: a ceiling on operations (media, processors, or a limit that was set).",
    )


def _is_same(values: Floats) -> bool:
    return float(values.max() / values.min()) <= 1 + _SAME_WITHIN


def _differs(values: Floats) -> bool:
    return float(values.max() / values.min()) >= _DIFFER_BY


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
