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
inner step left out. They hold for this workload on this storage on that day. Kneedle, peak power and the fit of the
tail vote.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.schemas import IotraceError, Recording

from . import slo as slo_module
from .knee_answer import Estimate, Knee, Vote
from .knee_closed import is_closed, knee_closed
from .knee_fit import kneedle, knees_on_grid, peak_power, two_segments
from .knee_resample import REPLICATES, interval, log_quantiles, rates
from .knee_slo import slo_knee
from .knee_step import CARRIED_SHARE_MIN, Samples, Selection, Step, measure, scales_relative
from .knee_words import describe_knee, describe_slo, headroom

RISE_MIN: Final = 2.0
"""Without saturation, latency has to climb this many times to speak of a knee."""
NEAR_WALL: Final = 0.85
VOTE_SHARE: Final = 0.25
_P_VALUE_MAX: Final = 0.01
_FIT_POINTS_MIN: Final = 5

Floats = npt.NDArray[np.float64]


def knee(
    steps: Sequence[Recording],
    *,
    slo: str | Sequence[slo_module.Objective] | None = None,
    scales: Sequence[float] | None = None,
    seed: int = 0,
) -> Knee:
    """Find the knee of a sweep's steps, in any order, and the load at which each objective of ``slo`` is crossed.

    ``slo`` is text as `slo.parse` takes it, or its result. ``scales`` are the steps' loads relative to the recording
    they replay; by default what each replay noted. Runs of closed loops go by their numbers outstanding instead
    (`knee_closed`). The same steps and ``seed`` give the same answer. Raises
    `IotraceError` for no steps, unreadable ones, or a bad objective.
    """
    objectives = slo_module.parse(slo) if isinstance(slo, str) else tuple(slo or ())
    if not steps:
        raise IotraceError(
            "there is no step to find a knee in", hint="iotrace sweep writes one recording per step"
        )
    if scales is not None and len(scales) != len(steps):
        raise ValueError(f"{len(scales)} scales for {len(steps)} steps")
    if any(is_closed(one) for one in steps):
        return knee_closed(steps, objectives=objectives, seed=seed)
    measured = [measure(one, None if scales is None else scales[index]) for index, one in enumerate(steps)]
    return knee_of(measured, objectives=objectives, seed=seed)


def knee_of(
    measured: Sequence[tuple[Step, Samples]],
    *,
    objectives: Sequence[slo_module.Objective] = (),
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
    )
    kept_up, saturated = _sort_out(steps, answer)
    random = np.random.default_rng(seed)
    carried = [steps[index].achieved_iops for index in kept_up] + _carried_by_late_steps(steps, saturated)
    wall = _wall(steps, samples, saturated, max(carried, default=0.0), random)
    if kept_up:
        answer.highest_kept_up_iops = steps[kept_up[-1]].offered_iops
        answer.highest_kept_up_scale = steps[kept_up[-1]].scale
    if wall is not None:
        answer.sustained_iops = _sustained(wall, max(carried, default=0.0), steps[saturated[0]].offered_iops)
    if kept_up:
        curve = _Curve(steps, samples, kept_up, saturated, wall, random)
        if wall is not None:
            _judge_saturated(answer, curve, wall)
        else:
            _judge_kept_up(answer, curve)
        _vote(answer, curve, _tail(steps, samples, kept_up, saturated, wall, random))
    elif wall is not None:
        _judge_without_latency(answer, is_bounded=bool(carried))
    _convert(answer)
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


class _Curve:
    """Points of a latency-load curve with their bootstrap replicates, the wall last if there is one."""

    def __init__(
        self,
        steps: Sequence[Step],
        samples: Sequence[Samples],
        kept_up: list[int],
        saturated: list[int],
        wall: Floats | None,
        random: np.random.Generator,
        quantile: float = 0.5,
    ) -> None:
        everything = Selection()
        load = [steps[index].achieved_iops for index in kept_up]
        logs = [log_quantiles(samples[index], everything, quantile, random) for index in kept_up]
        self.load, self.logs = _merge_equal(np.array(load), np.array(logs))
        self.has_wall = wall is not None
        if wall is not None:
            # One point for all: the mildest overload says least about how long the step was.
            at_wall = log_quantiles(samples[saturated[0]], everything, quantile, random)
            position = max(float(wall[0]), self.load[-1] * 1.001)
            self.load = np.append(self.load, position)
            self.logs = np.vstack([self.logs, at_wall])

    def knees(self) -> Floats:
        """The point estimate, then the replicates."""
        return knees_on_grid(self.load, self.logs.T)

    def without_one(self) -> Floats:
        """Point estimates with each inner point left out in turn; empty with fewer than six points."""
        if len(self.load) < 6:
            return np.empty(0)
        inner = range(1, len(self.load) - 1)
        return np.array(
            [
                knees_on_grid(np.delete(self.load, index), np.delete(self.logs[:, 0], index))[0]
                for index in inner
            ]
        )


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


def _wall(
    steps: Sequence[Step],
    samples: Sequence[Samples],
    saturated: list[int],
    floor: float,
    random: np.random.Generator,
) -> Floats | None:
    """Greatest throughput carried where more was offered, in IOPS, with replicates; None without saturation."""
    if not saturated:
        return None
    best = max(saturated, key=lambda index: steps[index].achieved_iops)
    factors = rates(samples[best].completed_iops, random)
    # A device can carry less once it is overloaded; what it did carry below stands.
    return np.maximum(steps[best].achieved_iops * factors, floor)


def _carried_by_late_steps(steps: Sequence[Step], saturated: list[int]) -> list[float]:
    """Throughput, in IOPS, of steps below saturation that a late generator offered and the storage carried."""
    below = steps[: saturated[0]] if saturated else []
    return [
        step.achieved_iops
        for step in below
        if step.generator_limited and step.achieved_iops >= CARRIED_SHARE_MIN * step.offered_iops
    ]


def _sustained(wall: Floats, floor: float, too_much_iops: float) -> Estimate:
    """Most that is carried; where overload carried less than a step below, it lies between that and the overload."""
    if wall[0] > floor:
        return interval(wall)
    return Estimate(floor, floor, max(floor, too_much_iops))


def _judge_saturated(answer: Knee, curve: _Curve, wall: Floats) -> None:
    knees = np.minimum(curve.knees(), curve.load[-1])
    # With no bend before it, the knee is the wall itself and moves with it.
    at_wall = knees >= curve.load[-1] * (1 - 1e-9)
    knees = np.where(at_wall, np.maximum(wall, curve.load[-2]), knees)
    bend = _widened(interval(knees), curve.without_one())
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


def _judge_kept_up(answer: Knee, curve: _Curve) -> None:
    answer.state = "not_reached"
    log_y = curve.logs[:, 0]
    climbed = float(np.exp(log_y[-1] - log_y.min()))
    if len(curve.load) < _FIT_POINTS_MIN:
        if climbed >= RISE_MIN:
            answer.state = "unresolved"
        return
    fit = two_segments(curve.load, log_y)
    knees = curve.knees()
    is_bend = fit.p_value < _P_VALUE_MAX and fit.slope_after > 2 * max(fit.slope_before, 0.0)
    if is_bend and fit.rise >= RISE_MIN and knees[0] < curve.load[-1]:
        answer.state, answer.basis = "reached", "latency"
        answer.iops = _widened(interval(knees), curve.without_one())
    elif climbed >= RISE_MIN:
        answer.state = "unresolved"


def _tail(
    steps: Sequence[Step],
    samples: Sequence[Samples],
    kept_up: list[int],
    saturated: list[int],
    wall: Floats | None,
    random: np.random.Generator,
) -> tuple[str, _Curve] | None:
    used = [*kept_up, *saturated[:1]]
    for name, quantile in (("p99", 0.99), ("p95", 0.95)):
        if all(steps[index].response_ns[name] is not None for index in used):
            return name, _Curve(steps, samples, kept_up, saturated, wall, random, quantile)
    return None


def _vote(answer: Knee, curve: _Curve, tail: tuple[str, _Curve] | None) -> None:
    """Let the other estimators speak, and say so where they contradict a knee that rests on latency alone."""
    load = curve.load
    votes: list[tuple[str, float | None]] = []
    if tail is not None:
        name, points = tail
        bend = float(points.knees()[0])
        seen = bend < points.load[-1] or points.has_wall
        votes.append((f"two segments through {name}", bend if seen and len(points.load) >= 4 else None))
    votes.append(("Kneedle", kneedle(load, np.exp(curve.logs[:, 0]))))
    steps = [step for step in answer.steps if step.is_judged]
    carried = np.array([step.achieved_iops for step in steps])
    latency = np.array([step.response_ns_mean for step in steps])
    # At an end of the range tested the greatest power is only the greatest so far.
    power = peak_power(carried, carried, latency) if len(steps) >= 3 else None
    inside = power is not None and carried.min() < power and (power < carried.max() or curve.has_wall)
    votes.append(("peak power", power if inside else None))
    answer.votes = [Vote(method, value, _agrees(answer.iops, value, load)) for method, value in votes]
    against = [vote for vote in answer.votes if vote.agrees is False and vote.method != "peak power"]
    if against:
        said = ", ".join(f"{vote.method} at {vote.iops:,.0f} IOPS" for vote in against)
        answer.notes.append(f"other estimators see it elsewhere: {said}")
        if len(against) >= 2 and not curve.has_wall:
            answer.state = "disagree"


def _agrees(knee_iops: Estimate | None, vote: float | None, load: Floats) -> bool | None:
    if knee_iops is None or vote is None:
        return None
    position = int(np.searchsorted(load, knee_iops.value))
    low = min(load[max(position - 2, 0)], knee_iops.low, knee_iops.value * (1 - VOTE_SHARE))
    high = max(load[min(position + 1, len(load) - 1)], knee_iops.high, knee_iops.value * (1 + VOTE_SHARE))
    return bool(low <= vote <= high)


def _widened(estimate: Estimate, others: Floats) -> Estimate:
    values = [estimate.low, estimate.high, *others.tolist()]
    return Estimate(estimate.value, min(values), max(values))


def _merge_equal(load: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Steps within 0.5 % of each other are one point, at their means; repeated steps weigh no more than single ones."""
    groups = (
        np.concatenate([[0], np.cumsum(np.diff(load) > 0.005 * load[:-1])]) if len(load) > 1 else np.zeros(1)
    )
    order = [groups == group for group in np.unique(groups)]
    merged = np.array([load[mask].mean() for mask in order])
    ascending = np.argsort(merged)
    return merged[ascending], np.array([logs[mask].mean(axis=0) for mask in order])[ascending]


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
