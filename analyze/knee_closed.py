"""The knee of a series of closed loops: load is the number in flight, and saturation says where it lies."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from iotrace.schemas import IotraceError, Recording

from .knee_answer import Knee, State
from .knee_cause import queue_depth
from .knee_slo import slo_knee
from .knee_step import Samples, Step, measure
from .knee_votes import agreement, closed_votes
from .knee_words import describe_slo
from .saturation import saturation
from .slo import Objective

_STATES: Final[dict[str, State]] = {
    "reached": "reached",
    "at_lowest": "before_range",
    "not_reached": "not_reached",
    "not_judged": "not_judged",
}


def is_closed(recording: Recording) -> bool:
    """Whether the load was a number in flight, not a rate: nothing was offered beyond what was carried."""
    return (recording.manifest.replay or {}).get("loop") == "closed"


def knee_closed(steps: Sequence[Recording], *, objectives: Sequence[Objective] = (), seed: int = 0) -> Knee:
    """`knee.knee` of closed loops that differ in their numbers outstanding only.

    Raises `IotraceError` where they differ in more than that, or some are no closed loops.
    """
    measured = sorted(((_outstanding(one), *measure(one)) for one in steps), key=lambda one: one[0])
    if len({_kind(one) for one in steps}) > 1 or len({count for count, _, _ in measured}) < len(measured):
        raise IotraceError(
            "these runs are no series by outstanding I/Os, so they have no knee",
            hint="name the runs of one pattern, op and size; iotrace report shows each run by itself",
        )
    for count, step, _ in measured:
        step.outstanding = count
    found = saturation(measured, seed=seed)
    ordered = [step for _, step, _ in measured]
    lowest, highest = ordered[0].offered_iops, ordered[-1].offered_iops
    answer = Knee(
        _STATES[found.state], "throughput" if found.state == "reached" else None, found.iops, None, None, None,
        found.iops if found.state in {"reached", "at_lowest"} else None, highest, None, lowest, highest, None, ordered,
    )  # fmt: skip
    answer.outstanding = found.outstanding
    if found.state not in {"reached", "at_lowest"}:
        answer.iops = None
    if answer.iops is not None and ordered[0].offered_iops:
        answer.mb_per_s = answer.iops.scaled(ordered[0].offered_mb_per_s / ordered[0].offered_iops)
    answer.sentence = found.sentence
    if found.outstanding is not None and found.state == "reached":
        loads = [float(count) for count, step, _ in measured if step.is_judged]
        depth = queue_depth(found.outstanding, loads, is_corner=found.is_corner)
        answer.causes = [depth] if depth is not None else []
    _vote(answer)
    _add_objectives(answer, measured, objectives, seed)
    if found.outstanding is not None:
        for count, step, _ in measured:
            # A closed loop bounds its own queue: response says how long it is, so objectives were judged before.
            step.is_saturated = count > found.outstanding.high
    return answer


def _vote(answer: Knee) -> None:
    judged = [step for step in answer.steps if step.is_judged and step.outstanding]
    if len(judged) < 3:
        return
    load = np.array([float(step.outstanding or 0) for step in judged])
    carried = np.array([step.achieved_iops for step in judged])
    answer.votes, answer.usl = closed_votes(answer.outstanding, answer.iops, load, carried)
    if answer.outstanding is not None:
        answer.agreement = agreement(answer.votes, f"{answer.outstanding.value:.3g} in flight")


def _add_objectives(
    answer: Knee, measured: Sequence[tuple[int, Step, Samples]], objectives: Sequence[Objective], seed: int
) -> None:
    samples = [one for _, _, one in measured]
    for objective in objectives:
        one = slo_knee(objective, answer.steps, samples, sustained_iops=None, iops_at_1x=None, seed=seed)
        one.sentence = describe_slo(one, answer)
        answer.objectives.append(one)


def _outstanding(recording: Recording) -> int:
    return int(_cell(recording)["outstanding"])


def _kind(recording: Recording) -> tuple[object, ...]:
    cell = _cell(recording)
    return tuple(cell.get(name) for name in ("pattern", "read_share", "size_bytes", "durable"))


def _cell(recording: Recording) -> dict[str, Any]:
    cell = (recording.manifest.replay or {}).get("cell")
    if not is_closed(recording) or not isinstance(cell, dict) or not isinstance(cell.get("outstanding"), int):
        raise IotraceError(
            f"'{recording.path}' is no run of characterize, so it has no number outstanding",
            hint="do not mix runs of characterize with replays",
        )
    return cell
