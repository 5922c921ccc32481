"""Which of the rules of `knee_cause` apply to a knee."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

from . import knee_cause
from .knee_answer import Cause, Knee
from .knee_step import CARRIED_SHARE_MIN, Samples, Step
from .saturation import Saturation


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
    at = [index for index, step in enumerate(steps) if (step.outstanding or 0) >= found.outstanding.value]
    busy = [steps[index].generator_busy_share or 0.0 for index in at]
    if busy and min(busy) >= knee_cause.BUSY_SHARE:
        return [knee_cause.busy_generator(steps[at[0]].load_text, min(busy))]
    depth = None
    if found.state == "reached":
        loads = [float(step.outstanding or 0) for step in steps]
        depth = knee_cause.queue_depth(found.outstanding, loads, is_corner=found.is_corner, unit=unit)
    ceiling = _ceiling([samples[index] for index in at]) if samples else None
    return [cause for cause in (depth, ceiling) if cause is not None]


def ceilings_by_size(plateaus: Iterable[tuple[Hashable, int, float]]) -> list[Cause]:
    """Ceilings that show only in series beside one another: (what but size they have in common, size, IOPS) of each.

    ``size`` is in bytes, IOPS are those on the plateau.
    """
    alike: dict[Hashable, list[tuple[int, float]]] = defaultdict(list)
    for kind, size_bytes, iops in plateaus:
        alike[kind].append((size_bytes, iops))
    found = [knee_cause.ceiling_by_size(one) for one in alike.values()]
    return list(dict.fromkeys(cause for cause in found if cause is not None))


def _layer(answer: Knee) -> Cause | None:
    """From the least loaded step to the first that did not hold; without one, to the highest."""
    shown = [step for step in answer.steps if step.layers is not None]
    judged = [step for step in shown if step.is_judged]
    # Layers' clocks start when an I/O is issued, so that a late generator does not spoil them while all was carried.
    held = [
        step
        for step in shown
        if not step.is_saturated and step.achieved_iops >= CARRIED_SHARE_MIN * step.offered_iops
    ]
    if not held or answer.state not in {"reached", "onset"}:
        return None
    beyond = [step for step in judged if step.is_saturated and step.offered_iops > held[0].offered_iops]
    low, high = held[0].layers, (beyond or held)[0 if beyond else -1].layers
    return knee_cause.layer(low, high) if low is not None and high is not None else None


def _ceiling(saturated: Sequence[Samples]) -> Cause | None:
    return knee_cause.ceiling_in_time([(one.completed_iops, one.completed_bytes_per_s) for one in saturated])


def _generator(answer: Knee) -> Cause | None:
    """The lowest load at which only the generator gave out, where the storage was not seen to do so."""
    if any(step.is_judged and step.is_saturated for step in answer.steps):
        return None
    late = [step for step in answer.steps if _gave_out(step, answer)]
    return knee_cause.generator(late[0].load_text) if late else None


def _gave_out(step: Step, answer: Knee) -> bool:
    above = step.offered_iops > (answer.highest_kept_up_iops or 0.0)
    is_short = step.achieved_iops < CARRIED_SHARE_MIN * step.offered_iops
    return step.generator_limited and above and (is_short or answer.state == "not_judged")
