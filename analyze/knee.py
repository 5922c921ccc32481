"""Where does the storage break? The knee of a sweep: an interval, or the plain answer that it was not reached.

Method. Load is IOPS carried; latency is the median response of all reads and writes (the median, because a step
seldom has the 10,000 I/Os a p99 needs, and because everything queues behind a saturated device; the p99 is fitted as
well, and is what ``slo`` is for). Log latency over load is fitted with two segments (`knee_fit`).

A saturated step, one that carried under 97 % of what was offered or whose backlog was still growing, has no latency
of its own: it grows with the step's length. All such steps together are one point: the wall, at the greatest
throughput that was carried. The bend is looked for below the wall and, among fits that are equally good, as late as
possible. Where it lies within 15 % of the wall, the knee is the interval from the bend to the wall. Where latency
bends clearly earlier (bursts queue, although on average the storage keeps up), the knee is the wall, and the bend is
reported beside it as the onset, from which headroom is counted.

Without a saturated step a knee needs a bend that an F-test confirms (p < 0.01) and a latency that at least doubles;
otherwise it was not reached.

Intervals are 95 %: block bootstrap within steps (`knee_resample`), widened to hold the answers found with any one
inner step left out. They hold for this workload on this storage on that day. Kneedle, the Universal Scalability Law,
peak power and the fit of the tail vote (`knee_votes`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.schemas import IotraceError, Recording

from . import slo as slo_module
from .estimate import Estimate
from .knee_answer import Knee
from .knee_causes import causes
from .knee_closed import is_closed, knee_closed
from .knee_curve import Curve
from .knee_fit import knee_range, two_segments
from .knee_resample import REPLICATES, interval, widened
from .knee_results import is_tested, knee_results
from .knee_slo import slo_knee
from .knee_step import Samples, Step, measure, scales_relative
from .knee_votes import PEAK_POWER, agreement, open_votes
from .knee_wall import PRECISION, carried_by_late_steps, sustained, wall_of
from .knee_words import describe_knee, describe_slo, headroom

RISE_MIN: Final = 2.0
"""Without saturation, latency has to climb this many times to speak of a knee."""
NEAR_WALL: Final = 0.85
_P_VALUE_MAX: Final = 0.01
_FIT_POINTS_MIN: Final = 5

Floats = npt.NDArray[np.float64]


def knee(
    steps: Sequence[Recording],
    *,
    slo: str | Sequence[slo_module.Objective] | None = None,
    scales: Sequence[float] | None = None,
    watched: Sequence[Recording | None] | None = None,
    baseline: str = "1x",
    seed: int = 0,
) -> Knee:
    """Find the knee of a sweep's steps, in any order, and the load at which each objective of ``slo`` is crossed.

    ``slo`` is text as `slo.parse` takes it, or its result. ``scales`` are the steps' loads relative to the recording
    they replay; by default what each replay noted. ``watched`` has for each step what a recorder saw of its target
    meanwhile, if anything; it shows which layer saturated. ``baseline`` says what 1x is. Runs of closed loops go by
    their numbers outstanding instead (`knee_closed`), imported results by what they differ in (`knee_results`). The
    same steps and ``seed`` give the same answer. Raises `IotraceError` for no steps, unreadable ones, or a bad
    objective.
    """
    objectives = slo_module.parse(slo) if isinstance(slo, str) else tuple(slo or ())
    if not steps:
        raise IotraceError(
            "there is no step to find a knee in", hint="iotrace sweep writes one recording per step"
        )
    if scales is not None and len(scales) != len(steps):
        raise ValueError(f"{len(scales)} scales for {len(steps)} steps")
    watched = watched or [None] * len(steps)
    if any(is_tested(one) for one in steps):
        return knee_results(steps, objectives=objectives, seed=seed)
    if any(is_closed(one) for one in steps):
        return knee_closed(steps, objectives=objectives, seed=seed)
    measured = [
        measure(one, None if scales is None else scales[index], beside)
        for index, (one, beside) in enumerate(zip(steps, watched, strict=True))
    ]
    return knee_of(measured, objectives=objectives, baseline=baseline, seed=seed)


def knee_of(
    measured: Sequence[tuple[Step, Samples]],
    *,
    objectives: Sequence[slo_module.Objective] = (),
    baseline: str = "1x",
    seed: int = 0,
) -> Knee:
    """`knee` of steps that are measured already."""
    ordered = sorted(measured, key=lambda pair: pair[0].offered_iops)
    steps = [step for step, _ in ordered]
    samples = [one for _, one in ordered]
    answer = Knee(
        "not_judged",
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        steps[0].offered_iops,
        steps[-1].offered_iops,
        scales_relative(steps),
        steps,
        baseline=baseline,
    )
    kept_up, saturated = _sort_out(steps, answer)
    random = np.random.default_rng(seed)
    carried = [steps[index].achieved_iops for index in kept_up] + carried_by_late_steps(steps, saturated)
    wall = wall_of(steps, samples, saturated, max(carried, default=0.0), random)
    if kept_up:
        answer.highest_kept_up_iops = steps[kept_up[-1]].offered_iops
        answer.highest_kept_up_scale = steps[kept_up[-1]].scale
    if wall is not None:
        answer.sustained_iops = sustained(wall, max(carried, default=0.0), steps[saturated[0]].offered_iops)
    if kept_up:
        curve = Curve(steps, samples, kept_up, saturated, wall, random)
        if wall is not None:
            _judge_saturated(answer, curve, wall)
        else:
            _judge_kept_up(answer, curve)
        _vote(answer, curve, _tail(steps, samples, kept_up, saturated, wall, random))
    elif wall is not None:
        _judge_without_latency(answer, is_bounded=bool(carried))
    _convert(answer)
    answer.causes = causes(answer, [samples[index] for index in saturated])
    for objective in objectives:
        answer.objectives.append(
            slo_knee(
                objective,
                steps,
                samples,
                sustained_iops=answer.sustained_iops.value if answer.sustained_iops else None,
                iops_at_1x=answer.iops_at_1x,
                seed=seed,
            )
        )
        answer.objectives[-1].sentence = describe_slo(answer.objectives[-1], answer)
    answer.sentence = describe_knee(answer)
    answer.headroom = headroom(answer)
    return answer


def _sort_out(steps: Sequence[Step], answer: Knee) -> tuple[list[int], list[int]]:
    """Indices of steps that kept up and of those at the wall, from below; the rest is noted and left out."""
    judged = [index for index, step in enumerate(steps) if step.is_judged]
    dropped = len(steps) - len(judged)
    if dropped:
        answer.notes.append(
            f"{dropped} of {len(steps)} steps are left out: the load generator was late or I/Os failed"
        )
    kept_up = [index for index in judged if not steps[index].is_saturated]
    top = kept_up[-1] if kept_up else -1
    disturbed = [index for index in judged if steps[index].is_saturated and index < top]
    if disturbed:
        loads = ", ".join(f"{steps[index].offered_iops:,.0f}" for index in disturbed)
        answer.notes.append(
            f"the storage fell behind at {loads} IOPS but not at a higher load: disturbed, or unsteady"
        )
    return kept_up, [index for index in judged if steps[index].is_saturated and index > top]


def _judge_saturated(answer: Knee, curve: Curve, wall: Floats) -> None:
    knees = np.minimum(curve.knees(), curve.load[-1])
    # With no bend before it, the knee is the wall itself and moves with it.
    at_wall = knees >= curve.load[-1] * (1 - 1e-9)
    knees = np.where(at_wall, wall, knees)
    bend = widened(_widened(interval(knees), curve.without_one()), PRECISION)
    top = answer.sustained_iops or interval(wall)
    answer.state = "reached"
    if bend.value >= NEAR_WALL * top.value:
        answer.basis = "saturation"
        answer.iops = Estimate(bend.value, bend.low, max(top.high, bend.value))
        is_early = False
    else:
        answer.basis = "throughput"
        answer.iops = top
        answer.onset_iops = bend
        is_early = True
    gap_from, gap_to = curve.load[-2], curve.load[-1]
    if gap_from < 0.9 * gap_to and not is_early:
        answer.notes.append(
            f"no load between {gap_from:,.0f} and {gap_to:,.0f} IOPS kept up or was tested: "
            "latency may start to climb anywhere between them"
        )


def _judge_without_latency(answer: Knee, *, is_bounded: bool) -> None:
    """No step below the wall has latencies to speak of; that a late generator's load was carried is still known."""
    if not is_bounded:
        answer.state = "before_range"
        return
    answer.state, answer.basis = "reached", "throughput"
    answer.iops = answer.sustained_iops
    answer.notes.append("latency below the knee is not judged: it may start to climb earlier")


def _judge_kept_up(answer: Knee, curve: Curve) -> None:
    answer.state = "not_reached"
    log_y = curve.logs[:, 0]
    climbed = float(np.exp(log_y[-1] - log_y.min()))
    if len(curve.load) < _FIT_POINTS_MIN:
        if climbed >= RISE_MIN:
            answer.state = "unresolved"
        return
    fit = two_segments(curve.load, log_y)
    knees = curve.knees(latest=False)
    is_bend = fit.p_value < _P_VALUE_MAX and fit.slope_after > 2 * max(fit.slope_before, 0.0)
    if is_bend and fit.rise >= RISE_MIN and knees[0] < curve.load[-1]:
        answer.state, answer.basis = "reached", "latency"
        others = np.append(curve.without_one(latest=False), knee_range(curve.load, log_y))
        answer.iops = _widened(interval(knees), others)
    elif climbed >= RISE_MIN:
        answer.state = "unresolved"


def _tail(
    steps: Sequence[Step],
    samples: Sequence[Samples],
    kept_up: list[int],
    saturated: list[int],
    wall: Floats | None,
    random: np.random.Generator,
) -> tuple[str, float | None] | None:
    """The highest quantile that all steps have, and the load at which it bends; None for that where it does not."""
    used = [*kept_up, *saturated[:1]]
    for name, quantile in (("p99", 0.99), ("p95", 0.95)):
        if all(steps[index].response_ns[name] is not None for index in used):
            points = Curve(steps, samples, kept_up, saturated, wall, random, quantile)
            bend = float(points.knees()[0])
            seen = bend < points.load[-1] or points.has_wall
            return name, bend if seen and len(points.load) >= 4 else None
    return None


def _vote(answer: Knee, curve: Curve, tail: tuple[str, float | None] | None) -> None:
    """Let the other estimators speak; where two contradict a knee that rests on latency alone, it does not stand."""
    steps = [step for step in answer.steps if step.is_judged]
    points = [(step.in_flight_mean, step.achieved_iops, step.response_ns_mean) for step in steps]
    in_flight, carried, mean_ns = np.array(points).T
    marks = [mark for mark in (answer.iops, answer.onset_iops) if mark is not None]
    answer.votes, answer.usl = open_votes(
        marks,
        curve.load,
        np.exp(curve.logs[:, 0]),
        (in_flight, carried, mean_ns),
        has_wall=curve.has_wall,
        tail=tail,
    )
    if answer.iops is not None:
        answer.agreement = agreement(answer.votes, f"{answer.iops.value:,.0f} IOPS")
    against = [vote for vote in answer.votes if vote.agrees is False and vote.method != PEAK_POWER]
    if len(against) >= 2 and not curve.has_wall:
        answer.state = "disagree"


def _widened(estimate: Estimate, others: Floats) -> Estimate:
    values = [estimate.low, estimate.high, *others.tolist()]
    return Estimate(estimate.value, min(values), max(values))


def _convert(answer: Knee) -> None:
    if answer.iops is None:
        return
    carried = sum(step.achieved_mb_per_s for step in answer.steps) / sum(
        step.achieved_iops for step in answer.steps
    )
    answer.mb_per_s = answer.iops.scaled(carried)
    if answer.iops_at_1x:
        answer.scale = answer.iops.scaled(1 / answer.iops_at_1x)


__all__ = ["REPLICATES", "Knee", "knee", "knee_of"]
