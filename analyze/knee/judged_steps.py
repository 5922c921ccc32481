"""Which steps of a sweep tell of the storage, and of what: sorted by what the others say of them.

A step by itself knows whether the generator was late, I/Os failed, or it was out of balance (`step`). Only beside
the others it shows that somebody else used the device, that it contradicts its neighbours, or that it lived on credits:
it carried more than another step, with the credits spent, was seen to sustain.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from iotrace.analyze.units import format_bytes, format_duration_ns

from .flow import BREAK_SHARE
from .step import CARRIED_SHARE_MIN, Step, is_carried

JUDGED_MIN: Final = 2
"""With one step there is nothing to compare it with."""
CONTRADICTS: Final = 3.0
"""Latency this many times that at two higher loads is not the load's."""
OTHERS_TIMES: Final = 4.0
OTHERS_SHARE: Final = 0.25
OTHERS_BYTES_MIN: Final = 16 << 20
BEYOND_SUSTAINED: Final = 1.02
"""Carrying this many times what is sustained takes credits; less is within what a step's own rate is known to."""
_LONG_SHARE: Final = 0.5
"""A step that broke says little beside one that was busy for over twice as long."""
_AGREE: Final = 0.05


@dataclass(slots=True)
class Sorted:
    """Indices of the steps that kept up, that live on credits, and that fell behind, from below.

    ``at_wall`` are those of the last that show what is sustained: where credits were spent, not the steps that saved
    and spent some again in the pauses of their load.
    """

    kept_up: list[int] = field(default_factory=list)
    on_credits: list[int] = field(default_factory=list)
    fell_behind: list[int] = field(default_factory=list)
    at_wall: list[int] = field(default_factory=list)


def sort_out(steps: Sequence[Step]) -> Sorted:
    """Sort the steps, which ascend by offered load. What is left out gets its reason in ``set_aside``."""
    _leave_out_disturbed(steps)
    _leave_out_broken(steps)
    _leave_out_contradicting(steps)
    found = Sorted()
    judged = [index for index, step in enumerate(steps) if step.is_judged]
    found.kept_up = [index for index in judged if not steps[index].is_saturated]
    found.fell_behind = [index for index in judged if steps[index].is_saturated]
    rate = _rate_without_credits(steps, found)
    if rate is not None:
        found.on_credits = [
            index for index in found.kept_up if steps[index].achieved_iops > BEYOND_SUSTAINED * rate
        ]
        for index in found.on_credits:
            steps[index].is_on_credits = True
        found.kept_up = [index for index in found.kept_up if index not in found.on_credits]
    top = found.kept_up[-1] if found.kept_up else -1
    for index in found.fell_behind:
        if index < top:
            steps[index].set_aside.append("it fell behind although a higher load did not")
    found.fell_behind = [index for index in found.fell_behind if index > top]
    found.at_wall = _at_wall(steps, found.fell_behind)
    return found


def left_out_words(steps: Sequence[Step]) -> str:
    """The steps that are left out, by the first of their reasons, which is enough; empty where none is."""
    by_reason: dict[str, Counter[str]] = {}
    for step in steps:
        if not step.is_judged:
            by_reason.setdefault(step.left_out_because[0], Counter())[step.load_text] += 1
    return "; ".join(
        f"{', '.join(f'{load} ({times} times)' if times > 1 else load for load, times in loads.items())}: {why}"
        for why, loads in by_reason.items()
    )


def has_enough(steps: Sequence[Step], found: Sorted) -> bool:
    """Whether enough steps are judged for an answer: two, and at least half of the loads that were run.

    A load that was run again counts once. What a late generator offered and the storage carried counts where a higher
    load fell behind: then throughput is known, although latency is not.
    """
    judged = {round(step.offered_iops, -1): step for step in steps if step.is_judged}
    loads = {step.load_text for step in steps}
    told = {step.load_text for step in judged.values()}
    if found.fell_behind:
        told |= {step.load_text for step in steps[: found.fell_behind[0]] if is_carried_late(step)}
    return len(told) >= JUDGED_MIN and 2 * len(told) >= len(loads)


def is_carried_late(step: Step) -> bool:
    """Whether the generator was late but the storage carried all the same what it offered."""
    return step.generator_limited and is_carried(step.achieved_iops, step.offered_iops)


def _leave_out_disturbed(steps: Sequence[Step]) -> None:
    """Somebody else moved more on the device than the step did, or much more than in the other steps."""
    known = [(step, step.others_bytes) for step in steps if step.others_bytes is not None]
    rates = [others / step.duration_s for step, others in known]
    usual = float(np.median(rates)) if rates else None
    for step, others in known:
        if is_disturbed(step, usual):
            step.set_aside.append(
                f"others moved {format_bytes(others)} on the device meanwhile, the replay "
                f"{format_bytes(_own_bytes(step))}"
            )


def is_disturbed(step: Step, usual_bytes_per_s: float | None = None) -> bool:
    """Whether others moved more on the device than the step did.

    A quarter of it is enough where that is far more than others usually do, ``usual_bytes_per_s``.
    """
    others = step.others_bytes or 0
    if others <= OTHERS_BYTES_MIN:
        return False
    if usual_bytes_per_s is None or others > _own_bytes(step):
        return others > _own_bytes(step)
    return others > max(OTHERS_SHARE * _own_bytes(step), OTHERS_TIMES * usual_bytes_per_s * step.duration_s)


def _leave_out_broken(steps: Sequence[Step]) -> None:
    """A step whose latency broke is half one storage and half another; the same load run after it is the second."""
    for step in steps:
        broke = step.latency_break
        again = [
            other
            for other in steps
            if other.load_text == step.load_text
            and other.started_utc_ns > step.started_utc_ns
            and other.is_judged
            and other.latency_break is None
        ]
        if broke is not None and not step.is_saturated and again:
            step.set_aside.append(
                f"its median response rose from {format_duration_ns(broke.before_ns)} to "
                f"{format_duration_ns(broke.after_ns)} in its course, and the load was run again after it"
            )


def _own_bytes(step: Step) -> float:
    return step.achieved_mb_per_s * 1e6 * step.duration_s


def _leave_out_contradicting(steps: Sequence[Step]) -> None:
    """Latency does not fall with load: a step far above two that offered as much or more was disturbed."""
    kept = [step for step in steps if step.is_judged and not step.is_saturated]
    for name in ("p50", "p99"):
        known = [(step, value) for step in kept if (value := step.response_ns[name]) is not None]
        for step, value in known:
            higher = [
                other
                for one, other in known
                if one is not step and one.offered_iops >= CARRIED_SHARE_MIN * step.offered_iops
            ]
            below = [other for other in higher if CONTRADICTS * other < value]
            if step.is_judged and len(below) >= 2 and 2 * len(below) > len(higher):
                step.set_aside.append(
                    f"its {name} of {format_duration_ns(value)} contradicts "
                    f"{format_duration_ns(max(below))} and less at loads as high or higher"
                )


def _rate_without_credits(steps: Sequence[Step], found: Sorted) -> float | None:
    """The rate that steps sustained once credits were spent; None where nothing shows that there are any.

    Shown they are by a step that broke, or by two steps that fell behind at one rate although a higher load kept up:
    two disturbances that leave the same rate are not likely.
    """
    known = [index for index in found.fell_behind if steps[index].sustained_iops is not None]
    broke = [index for index in known if steps[index].credits_ios is not None]
    for index in broke:
        if _is_contradicted(steps, index, found, known):
            steps[index].set_aside.append(
                "it fell behind in its course although a later step carried more for as long"
            )
            found.fell_behind.remove(index)
            known.remove(index)
    broke = [index for index in broke if index in known]
    rates = [rate for index in known if (rate := steps[index].sustained_iops) is not None]
    if broke:
        # The longer one is watched, the less of what it carried was saved before.
        longest = max(steps[index].busy_s for index in broke)
        watched = [steps[index] for index in broke if steps[index].busy_s >= _LONG_SHARE * longest]
        return float(np.median([step.sustained_iops for step in watched]))
    is_below = any(index < other for index in known for other in found.kept_up)
    if len(rates) >= 2 and is_below and max(rates) <= (1 + _AGREE) * min(rates):
        return float(np.median(rates))
    return None


def _at_wall(steps: Sequence[Step], fell_behind: Sequence[int]) -> list[int]:
    """Without the steps that carried more than one that broke sustained, and were busy for a shorter time than it."""
    broke = [steps[index] for index in fell_behind if steps[index].break_s is not None]
    longest = max(broke, key=lambda step: step.busy_s, default=None)
    if longest is None:
        return list(fell_behind)
    most = BEYOND_SUSTAINED * (longest.sustained_iops or 0.0)
    return [
        index
        for index in fell_behind
        if steps[index].busy_s > longest.busy_s or (steps[index].sustained_iops or 0.0) <= most
    ]


def _is_contradicted(steps: Sequence[Step], index: int, found: Sorted, known: Sequence[int]) -> bool:
    """Whether a later step carried clearly more than this one sustained after it broke, for at least as long."""
    step = steps[index]
    rate = step.sustained_iops or 0.0
    later = [
        other
        for other in (*found.kept_up, *known)
        if other != index
        and steps[other].offered_iops > CARRIED_SHARE_MIN * step.offered_iops
        and step.started_utc_ns < steps[other].started_utc_ns
    ]
    return any(
        (steps[other].sustained_iops or steps[other].achieved_iops) > rate / BREAK_SHARE
        and (steps[other].busy_s if other in known else steps[other].duration_s) >= step.busy_s
        and steps[other].credits_ios is None
        for other in later
    )
