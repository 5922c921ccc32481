"""The knee of a series of closed loops: load is the number in flight, and saturation says where it lies."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from iotrace.analyze.slo import Objective
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.run import Cell, ClosedLoop

from .agreement import agreement, closed_votes
from .answer import Knee, State
from .causes import closed_causes
from .objective import slo_knee
from .saturation import Saturation, Units, saturation
from .step import Samples, Step, measure
from .words import describe_slo

_STATES: Final[dict[str, State]] = {
    "reached": "reached",
    "at_lowest": "before_range",
    "onset": "onset",
    "not_reached": "not_reached",
    "not_judged": "not_judged",
}

_WORK: Final = ("pattern", "read_share", "size_bytes", "durable")


def is_closed(recording: Recording) -> bool:
    """Whether the load was a number in flight, not a rate: nothing was offered beyond what was carried."""
    return recording.manifest.is_closed_loop


def knee_closed(steps: Sequence[Recording], *, objectives: Sequence[Objective] = (), seed: int) -> Knee:
    """`knee.knee` of closed loops that differ in their numbers outstanding only.

    Raises `IotraceError` where they differ in more than that, or some are no closed loops.
    """
    measured = sorted(((_outstanding(one), *measure(one)) for one in steps), key=lambda one: one[0])
    if len({_kind(one) for one in steps}) > 1 or len({count for count, _, _ in measured}) < len(measured):
        raise IotraceError(
            "these runs do not vary the outstanding I/Os, so they have no knee",
            hint="name the runs of one pattern, op and size; iotrace report shows each run by itself",
        )
    answer = knee_of_closed(measured, seed=seed)
    cell = _cell(steps[0])
    answer.work = {name: getattr(cell, name) for name in _WORK}
    _add_objectives(answer, measured, objectives, seed)
    mark_saturated(answer)
    return answer


def knee_of_closed(measured: Sequence[tuple[int, Step, Samples]], *, seed: int = 0) -> Knee:
    """`closed_loop` of steps that are measured already, by rising number outstanding; without objectives."""
    for count, step, _ in measured:
        step.outstanding = count
    judged = [samples for _, step, samples in measured if step.is_judged]
    return closed_answer(
        saturation(measured, seed=seed), [step for _, step, _ in measured], Units(), samples=judged
    )


def closed_answer(
    found: Saturation,
    steps: list[Step],
    units: Units,
    *,
    rates: Sequence[float] | None = None,
    samples: Sequence[Samples] = (),
) -> Knee:
    """The answer for ``steps``, ascending, whose throughput (``rates``, by default their IOPS) saturates so.

    ``samples`` are those of the steps that are judged, where single I/Os are known.
    """
    lowest, highest = steps[0].offered_iops, steps[-1].offered_iops
    is_known = found.state in {"reached", "at_lowest"}
    iops = found.iops if is_known and rates is None else None
    answer = Knee(
        _STATES[found.state], "throughput" if found.state == "reached" else None, iops, None, None, None,
        iops, None if found.state == "onset" else highest, None, lowest, highest, None, steps,
    )  # fmt: skip
    answer.outstanding, answer.load_word, answer.sentence = found.outstanding, units.load, found.sentence
    if rates is not None:
        answer.per_minute, answer.per_minute_word = found.iops, units.throughput
    if iops is not None and lowest:
        answer.mb_per_s = iops.scaled(steps[0].offered_mb_per_s / lowest)
    judged = [index for index, step in enumerate(steps) if step.is_judged]
    loads = np.array([float(steps[index].outstanding or 0) for index in judged])
    carried = np.array([steps[index].achieved_iops if rates is None else rates[index] for index in judged])
    if rates is None:
        answer.causes = closed_causes(found, [steps[index] for index in judged], samples, unit=units.load)
    if answer.causes:
        answer.sentence = f"{found.sentence.rstrip('.')}; {answer.causes[0].clause}."
    if len(judged) >= 3:
        answer.votes, answer.usl = closed_votes(
            answer.outstanding, found.iops if is_known else None, loads, carried
        )
        if answer.outstanding is not None:
            answer.agreement = agreement(
                answer.votes, f"{answer.outstanding.value:.3g} {units.load}", units.load, units.throughput
            )
    return answer


def mark_saturated(answer: Knee) -> None:
    """Mark the steps beyond the knee. A closed loop bounds its own queue, so objectives are judged before this."""
    if answer.outstanding is not None:
        for step in answer.steps:
            step.is_saturated = (step.outstanding or 0) > answer.outstanding.high
    elif answer.state == "onset":
        next(step for step in reversed(answer.steps) if step.is_judged).is_saturated = True


def _add_objectives(
    answer: Knee, measured: Sequence[tuple[int, Step, Samples]], objectives: Sequence[Objective], seed: int
) -> None:
    samples = [one for _, _, one in measured]
    for objective in objectives:
        one = slo_knee(objective, answer.steps, samples, sustained_iops=None, iops_at_1x=None, seed=seed)
        one.sentence = describe_slo(one, answer)
        answer.objectives.append(one)


def _outstanding(recording: Recording) -> int:
    return _cell(recording).outstanding


def _kind(recording: Recording) -> tuple[object, ...]:
    cell = _cell(recording)
    return tuple(getattr(cell, name) for name in _WORK)


def _cell(recording: Recording) -> Cell:
    run = recording.manifest.replay
    cell = run.cell if isinstance(run, ClosedLoop) else None
    if cell is None:
        raise IotraceError(
            f"'{recording.path}' is not a run of characterize, so it has no number outstanding",
            hint="do not mix runs of characterize with replays",
        )
    return cell
