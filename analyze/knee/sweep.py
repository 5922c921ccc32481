"""Where does the storage break? The knee of a sweep: an interval, or the plain answer that it was not reached.

Method. Load is IOPS carried; latency is the median response of all reads and writes (the median, because a step
seldom has the 10,000 I/Os a p99 needs, and because everything queues behind a saturated device; the p99 is fitted as
well, and is what ``slo`` is for). Log latency over load is fitted with two segments (`estimators`).

A saturated step, one that carried under 97 % of what was offered or whose backlog was still growing, has no latency
of its own: it grows with the step's length. All such steps together are one point: the wall, at the greatest
throughput that was carried. The bend is looked for below the wall and, among fits that are equally good, as late as
possible. Where it lies within 15 % of the wall, and so does its interval, the knee is the interval from the bend to
the wall. Where latency bends clearly earlier (bursts queue, although on average the storage keeps up), or may, the knee
is the wall, and the bend is reported beside it as the onset, from which headroom is counted.

Storage that lives on saved credits (`flow`, `judged_steps`) carries more for a while: a step that broke counts from
there on, and steps that kept up above the rate then seen are no part of the curve. Without a saturated step there is no
knee, however latency climbs: where it has doubled, that is the onset of queueing.

Intervals are 95 %: block bootstrap within steps (`curve`), widened to hold the answers found with any one
inner step left out. They hold for this workload on this storage on that day. Kneedle, the Universal Scalability Law,
peak power and the fit of the tail vote (`agreement`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from iotrace.analyze import slo as slo_module
from iotrace.analyze.stats.estimate import Estimate
from iotrace.schemas.arrays import Floats

from .agreement import agreement, open_votes
from .answer import Credits, Knee
from .causes import causes
from .curve import REPLICATES, Curve, interval, rates, steady_part, widened
from .judged_steps import BEYOND_SUSTAINED, Sorted, has_enough, is_carried_late, left_out_words, sort_out
from .objective import slo_knee
from .saturation import COLLAPSE_SHARE
from .step import Samples, Step, scales_relative, unloaded_ns
from .words import credits_caveat, describe_knee, describe_slo, headroom, latency_breaks

NEAR_WALL: Final = 0.85
_DOUBLED: Final = 2.0
NEVER_IDLE_BEYOND: Final = 1.25
"""Steps that offered this many times the most carried were never idle, however bursty the load."""
EQUAL_SHARE: Final = 0.97
"""Steps that carried at least this share of the most carried did so all the same."""
WATCHED_SHARE: Final = 0.25
"""Steps that were never idle for less than this share of the longest such time say little beside it."""
PRECISION: Final = 0.005
"""No throughput is claimed to be known better than to half a percent: one more run would differ as much."""


def knee_of(
    measured: Sequence[tuple[Step, Samples]],
    *,
    objectives: Sequence[slo_module.Objective] = (),
    baseline: str = "1x",
    seed: int,
) -> Knee:
    """The knee of steps that are measured; the words of `series.knee` say what the arguments are."""
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
    found = sort_out(steps)
    words = left_out_words(steps)
    if words:
        left_out = sum(not step.is_judged for step in steps)
        answer.notes.append(f"{left_out} of {len(steps)} steps are left out. {words}")
    is_enough = has_enough(steps, found)
    if is_enough:
        _judge(answer, steps, samples, found, seed)
    _convert(answer)
    answer.causes = causes(answer, [samples[index] for index in found.fell_behind])
    for objective in objectives:
        one = slo_knee(
            objective,
            steps,
            samples,
            sustained_iops=answer.sustained_iops.value if answer.sustained_iops else None,
            iops_at_1x=answer.iops_at_1x,
            seed=seed,
        )
        if not is_enough:
            one = replace(one, state="not_judged", iops=None, scale=None)
        one.sentence = describe_slo(one, answer)
        answer.objectives.append(one)
    answer.notes += latency_breaks(steps)
    answer.sentence = describe_knee(answer)
    if not is_enough and words:
        answer.sentence += f" Left out are {words}."
        answer.notes.clear()
    least = [unloaded_ns(one) for step, one in zip(steps, samples, strict=True) if step.is_judged]
    answer.unloaded_ns = min((one for one in least if one is not None), default=None)
    answer.headroom = headroom(answer)
    caveat = credits_caveat(answer)
    if caveat:
        answer.notes.append(caveat)
    return answer


def _judge(answer: Knee, steps: Sequence[Step], samples: Sequence[Samples], found: Sorted, seed: int) -> None:
    random = np.random.default_rng(seed)
    kept_up, saturated = found.kept_up, found.fell_behind
    below = steps[: saturated[0]] if saturated else []
    late = [step.achieved_iops for step in below if is_carried_late(step)]
    carried = max([*(steps[index].achieved_iops for index in kept_up), *late], default=0.0)
    wall = wall_of(steps, samples, found.at_wall, carried, random)
    if kept_up:
        answer.highest_kept_up_iops = steps[kept_up[-1]].offered_iops
        answer.highest_kept_up_scale = steps[kept_up[-1]].scale
        answer.doubled_iops = _doubled([steps[index] for index in kept_up])
    if wall is not None:
        top = sustained(wall, carried, steps[saturated[0]].offered_iops)
        over = overloaded(steps, samples, found.at_wall, random)
        if (
            not found.on_credits
            and over.value < top.low
            and not _holds_after_overload(steps, found, over.value)
        ):
            top = Estimate(top.value, over.low, top.high)
            answer.notes.append(
                f"overload carried only {over.value:,.0f} IOPS, less than a load below it: either overload costs "
                "throughput, or the load below lived on saved credits; the interval spans both"
            )
        answer.sustained_iops = top
        answer.credits = _credits(steps, found, top.value)
    watched = [steps[index].busy_s or steps[index].duration_s for index in saturated]
    answer.watched_s = max(watched or [steps[index].duration_s for index in kept_up[-1:]], default=None)
    if wall is None:
        answer.state = "onset" if answer.doubled_iops is not None else "not_reached"
    elif kept_up:
        curve = Curve(steps, samples, kept_up, saturated, wall, random)
        _judge_saturated(answer, curve, wall)
        _vote(answer, curve, _tail(steps, samples, kept_up, saturated, wall, random))
    else:
        _judge_without_latency(answer, is_bounded=carried > 0)
    if kept_up and saturated:
        _keep_below(answer, steps[kept_up[-1]].offered_iops, steps[saturated[0]].offered_iops)


def _keep_below(answer: Knee, kept_iops: float, failed_iops: float) -> None:
    """A knee lies between the highest load that kept up and the lowest that fell behind, wherever the rest points.

    What storage carries on average, when it is never idle, may be more than a load in bursts that already fell behind.
    """
    if answer.iops is None or answer.iops.value <= failed_iops or kept_iops >= failed_iops:
        return
    knee = answer.iops
    answer.iops = Estimate((kept_iops + failed_iops) / 2, min(knee.low, kept_iops), knee.high)
    onset = answer.onset_iops
    if onset is not None and onset.value > answer.iops.value:
        answer.onset_iops = Estimate(answer.iops.value, min(onset.low, answer.iops.value), onset.high)


def _holds_after_overload(steps: Sequence[Step], found: Sorted, overload_iops: float) -> bool:
    """Whether a step that ran after an overload carried clearly more than the overload did, so without credits."""
    first = min(steps[index].started_utc_ns for index in found.fell_behind)
    return any(
        steps[index].started_utc_ns > first
        and steps[index].achieved_iops > (1 + PRECISION) * overload_iops / NEAR_WALL
        for index in found.kept_up
    )


def _credits(steps: Sequence[Step], found: Sorted, rate: float) -> Credits | None:
    """What was carried beyond the sustained ``rate``: until a step broke, or all through one that kept up above it."""
    seen = [
        (step.burst_iops or 0.0, step.credits_ios or 0.0, step)
        for step in (steps[index] for index in found.fell_behind)
        if step.credits_ios is not None
    ]
    seen += [
        (step.achieved_iops, (step.achieved_iops - rate) * step.duration_s, step)
        for step in (steps[index] for index in found.on_credits)
    ]
    # A step that carried less than another load did was disturbed: no credits show in it.
    seen = [one for one in seen if one[0] > BEYOND_SUSTAINED * rate]
    if not seen:
        return None
    most, ios, step = max(rate for rate, _, _ in seen), *max(seen, key=lambda one: one[1])[1:]
    moved = step.achieved_mb_per_s * 1e6 / step.achieved_iops
    return Credits(most, ios, ios * moved, next((one.limited_op for *_, one in seen if one.limited_op), None))


def _doubled(kept_up: Sequence[Step]) -> Estimate | None:
    """Load from which on mean response is twice the lowest of any load: between two loads, log latency a line there."""
    load = np.array([step.achieved_iops for step in kept_up])
    if any(step.response_ns["p50"] == 0 for step in kept_up):
        # A model that states no time of the storage: nothing is twice that.
        return None
    log_mean = np.log([max(step.response_ns_mean, 1.0) for step in kept_up])
    limit = float(log_mean.min() + np.log(_DOUBLED))
    below = np.flatnonzero(log_mean < limit)
    last = int(below[-1])
    if last == len(load) - 1:
        return None
    share = (limit - log_mean[last]) / (log_mean[last + 1] - log_mean[last])
    value = load[last] + share * (load[last + 1] - load[last])
    return Estimate(float(value), float(load[last]), float(load[last + 1]))


def _judge_saturated(answer: Knee, curve: Curve, wall: Floats) -> None:
    knees = np.minimum(curve.knees(), curve.load[-1])
    # With no bend before it, the knee is the wall itself and moves with it.
    at_wall = knees >= curve.load[-1] * (1 - 1e-9)
    knees = np.where(at_wall, wall, knees)
    bend = widened(_widened(interval(knees), curve.without_one()), PRECISION)
    top = answer.sustained_iops
    assert top is not None
    answer.state = "reached"
    if bend.low >= NEAR_WALL * top.value:
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
    """Let the other estimators speak."""
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


__all__ = ["REPLICATES", "Knee", "knee_of"]


def wall_of(
    steps: Sequence[Step],
    samples: Sequence[Samples],
    saturated: list[int],
    floor: float,
    random: np.random.Generator,
) -> Floats | None:
    """Greatest throughput carried where more was offered, in IOPS, with replicates; None without saturation."""
    if not saturated:
        return None
    longest = max(steps[index].busy_s for index in saturated)
    carried = {
        index: steady_part(samples[index].completed_iops)
        for index in saturated
        if steps[index].busy_s >= WATCHED_SHARE * longest
    }
    most = max(float(one.mean()) for one in carried.values())
    # The best of several steps is best by luck, too; and one barely beyond the wall still had pauses between bursts.
    beyond = [one for index, one in carried.items() if steps[index].offered_iops >= NEVER_IDLE_BEYOND * most]
    if not beyond or np.mean([one.mean() for one in beyond]) < COLLAPSE_SHARE * most:
        beyond = [one for one in carried.values() if one.mean() >= EQUAL_SHARE * most]
    wall: Floats = np.mean([one.mean() * rates(one, random) for one in beyond], axis=0)
    if len(beyond) > 1:
        spread = float(np.std([one.mean() for one in beyond], ddof=1)) / len(beyond) ** 0.5
        wall[1:] += random.normal(0, spread, len(wall) - 1)
    if error := float(np.median([samples[index].rate_error for index in carried])):
        wall[1:] *= 1 + random.normal(0, error, len(wall) - 1)
    # A device can carry less once it is overloaded; what it did carry below stands. Not so of a part of the I/Os: a
    # step has so few of them that it may well hold by chance what is too much, and overload tells it better.
    if is_collapse(wall, floor) and not any(steps[index].slow_part for index in saturated):
        return np.maximum(wall, floor)
    return wall


def is_collapse(wall: Floats, floor: float) -> bool:
    """Whether overload carried clearly less than a step below, ``floor``; less clearly, it is a burst let through."""
    return bool(wall[0] < COLLAPSE_SHARE * floor)


def overloaded(
    steps: Sequence[Step], samples: Sequence[Samples], saturated: Sequence[int], random: np.random.Generator
) -> Estimate:
    """The least that overload left, in IOPS: what the steps at the wall carried while never idle."""
    least = min(saturated, key=lambda index: _left(steps[index]))
    return widened(interval(_left(steps[least]) * rates(samples[least].completed_iops, random)), PRECISION)


def _left(step: Step) -> float:
    return step.sustained_iops or step.achieved_iops


def sustained(wall: Floats, floor: float, too_much_iops: float) -> Estimate:
    """Most that is carried; where overload carried less than a step below, it lies between that and the overload.

    ``floor`` is the most a step carried that kept up, ``too_much_iops`` the least offered to one that did not.
    """
    if wall[0] == floor:
        return widened(Estimate(floor, floor, max(floor, too_much_iops)), PRECISION)
    found = interval(wall)
    return widened(Estimate(found.value, found.low, max(found.high, floor)), PRECISION)
