"""Where a sweep steps next: up by doubling until the storage falls behind, then halving the gap around the knee.

First the gap between the highest load that was carried and the lowest that was not is closed in on: throughput ends
there. Then, where latency climbs clearly below that (bursts queue although on average the storage keeps up), the gap
in which it does.

A step that others disturbed, or whose latency contradicts higher loads, is run again. One that was too short to tell is
run for longer, and so is one that broke within its length, at once: what the storage had saved is spent then. In the
end the highest load that was held is run for `PROOF_TIMES` as long, so that it is not held by saved credits alone.

The decision is a pure function of the steps done, so that a sweep can be stopped and resumed, and the same steps always
lead to the same next one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from iotrace.schemas import Recording

from .judged_steps import BEYOND_SUSTAINED, CONTRADICTS, is_disturbed
from .step import Step, is_carried, measure

LATENCY_FACTOR: Final = 3.0
"""Latency this many times that of the lowest load has begun to climb."""
BEND_RESOLUTION: Final = 0.15
WELL_BEYOND: Final = 1.5
"""What is carried at most is measured at this many times the highest load held, at least."""
RESOLUTION: Final = 0.05
STEPS_MAX: Final = 12
PROOF_TIMES: Final = 3.0
"""The load that is said to be held is held for this many times the length of a step."""
Wall = Callable[[float, float], float | None]
"""Between a load that was held and one that was not, the highest that a prediction says will be held; None: unknown."""
_LONGER: Final = 2.0
_STEPS_WITH_PROOF: Final = 6
"""Of so many steps the last is kept for the proof."""
_RUNS_MAX: Final = 3
"""A step is run this often at most."""


@dataclass(frozen=True, slots=True)
class StepSummary:
    """What the walk needs to know of a step. ``latency_ns`` is the median response, or the mean with under 200 I/Os."""

    scale: float
    offered_iops: float
    achieved_iops: float
    latency_ns: float
    is_saturated: bool
    is_steady: bool
    generator_limited: bool
    is_disturbed: bool = False
    """Others used the device."""
    is_too_short: bool = False
    """Run for longer, it would tell more."""
    broke: bool = False
    """At first it carried more, or the same in less time."""
    sustained_iops: float | None = None
    """What it carried while never idle, after it broke if it did."""
    times: float = 1.0
    """Its length, in ordinary steps."""
    response_ns_p50: float | None = None
    """0 where a model states no latency."""


def summarise_step(recording: Recording, scale: float | None = None, *, times: float = 1.0) -> StepSummary:
    """Measure a finished step. ``scale`` defaults to what the replay noted, or 1; ``times`` is its length in steps."""
    return summary_of(measure(recording, scale)[0], times=times)


def summary_of(step: Step, *, times: float = 1.0) -> StepSummary:
    """The summary of a step that is measured already."""
    return StepSummary(
        step.scale if step.scale is not None else 1.0,
        step.offered_iops,
        step.achieved_iops,
        float(step.response_ns["p50"] or step.response_ns_mean),
        step.is_saturated,
        step.is_steady or step.is_warming,
        step.generator_limited,
        is_disturbed(step),
        step.is_too_short,
        step.credits_ios is not None or step.latency_break is not None,
        step.sustained_iops,
        times,
        step.response_ns["p50"],
    )


@dataclass(frozen=True, slots=True)
class NextStep:
    """A step to run: its scale, and its length in ordinary steps."""

    scale: float
    times: float = 1.0


def is_too_much(step: StepSummary) -> bool:
    """Whether the storage did not hold this step: it fell behind, or grew ever slower."""
    return step.is_saturated or not step.is_steady or not is_carried(step.achieved_iops, step.offered_iops)


def next_step(
    done: Sequence[StepSummary],
    *,
    scales: Sequence[float] | None = None,
    scale_max: float | None = None,
    resolution: float = RESOLUTION,
    steps_max: int = STEPS_MAX,
    wall: Wall | None = None,
) -> NextStep | None:
    """The next step of a sweep, or None when it is done: what to run again, then `next_scale`, then the proof.

    With ``scales`` those are climbed, and none between them is tried.
    """
    if len(done) >= steps_max:
        return None
    again = _again(done)
    if again is not None:
        return again
    sound = _sound(done)
    scale = next_scale(
        sound,
        scales=scales,
        scale_max=scale_max,
        resolution=resolution,
        steps_max=steps_max - (len(done) - len(sound)) - (scales is None and steps_max >= _STEPS_WITH_PROOF),
        refine=scales is None,
        wall=wall,
    )
    if scale is not None:
        return NextStep(scale)
    held, _, _ = _bounds(sound)
    at_held = [step for step in sound if step.scale == held]
    if held is None or any(step.times > 1 or step.is_disturbed for step in at_held):
        return None
    return NextStep(held, PROOF_TIMES)


def why_ended(
    done: Sequence[StepSummary],
    *,
    scales: Sequence[float] | None = None,
    scale_max: float | None = None,
    steps_max: int = STEPS_MAX,
) -> str:
    """What ended a sweep for which `next_step` is None, in words."""
    _, failed, limited = _bounds(_sound(done))
    if failed is not None:
        return f"the storage did not hold {failed:g}x"
    if limited is not None:
        return f"the load generator could not drive {limited:g}x"
    if len(done) >= steps_max:
        return f"the most steps were run, {steps_max}"
    if scales is not None:
        return "all loads that were asked for were run"
    return f"the highest load that was asked for, {scale_max:g}x, was run" if scale_max is not None else ""


def _again(done: Sequence[StepSummary]) -> NextStep | None:
    """The step that has to be run once more; None where all can stand."""
    if not done:
        return None
    last = done[-1]
    runs = [step.scale for step in done]
    if last.is_disturbed and runs.count(last.scale) < _RUNS_MAX:
        return NextStep(last.scale, last.times)
    if (last.broke or last.is_too_short) and runs.count(last.scale) < _RUNS_MAX:
        return NextStep(last.scale, _LONGER * last.times)
    held = [
        step
        for step in done
        if not step.is_disturbed and not is_too_much(step) and not step.generator_limited
    ]
    for step in held:
        higher = [one for one in held if one is not step and one.scale >= step.scale]
        below = [one for one in higher if CONTRADICTS * one.latency_ns < step.latency_ns]
        if len(below) >= 2 and 2 * len(below) > len(higher) and runs.count(step.scale) < 2:
            return NextStep(step.scale)
    return None


def _sound(done: Sequence[StepSummary]) -> list[StepSummary]:
    """What the walk goes by: without disturbed steps, unless the load was disturbed as often as it was run.

    Nor with those that were too short and were run for longer.
    """
    done = [
        step
        for step in done
        if not step.is_too_short or all(one.scale != step.scale or one.times <= step.times for one in done)
    ]
    disturbed = Counter(step.scale for step in done if step.is_disturbed)
    return _without_credits(
        [
            step
            for place, step in enumerate(done)
            if not step.is_disturbed
            or (disturbed[step.scale] >= _RUNS_MAX and all(one.scale != step.scale for one in done[:place]))
        ]
    )


def _without_credits(done: Sequence[StepSummary]) -> list[StepSummary]:
    """The steps, with those that held more than a later overload sustained as not held: credits may have carried them.

    Unless a step held more after that overload: then it is overload that costs throughput.
    """
    over = [place for place, step in enumerate(done) if is_too_much(step) and step.sustained_iops is not None]
    if not over:
        return list(done)
    most = BEYOND_SUSTAINED * min(done[place].sustained_iops or 0.0 for place in over)
    above = [place for place, step in enumerate(done) if not is_too_much(step) and step.achieved_iops > most]
    if any(place > over[0] for place in above) and not any(done[place].broke for place in over):
        return list(done)
    return [replace(step, is_saturated=True) if place in above else step for place, step in enumerate(done)]


def next_scale(
    done: Sequence[StepSummary],
    *,
    scales: Sequence[float] | None = None,
    start: float = 1.0,
    factor: float = 2.0,
    scale_max: float | None = None,
    resolution: float = RESOLUTION,
    bend_resolution: float = BEND_RESOLUTION,
    steps_max: int = STEPS_MAX,
    latency_factor: float = LATENCY_FACTOR,
    refine: bool = True,
    wall: Wall | None = None,
) -> float | None:
    """The scale of the next step, or None when the sweep is done.

    Without ``scales`` the load starts at ``start`` and goes up by ``factor``, at most to ``scale_max`` if there is
    one, until a step is too much for the storage (see `is_too_much`) or for the load generator. With ``scales`` those
    are taken in rising order instead, likewise no further than the first that is too much. If the very first is too
    much, it is halved, down to a sixteenth. Then the gap between the highest scale that was held and the lowest that
    was not is halved (in ratio) until it is within ``resolution`` (0.05: 5 %), or, where ``wall`` says where between
    them it lies, cut just below that and just above; if no step offered `WELL_BEYOND` times what was held, one does
    (not with ``scales``); after it the gap in which latency first passes ``latency_factor`` times that of the lowest
    load, until within ``bend_resolution``; never more than ``steps_max`` steps in all. With ``refine`` False only the
    ladder is climbed. A scale that the generator could not drive bounds the walk from above but is no bend: the gap
    below it is halved down to a quarter at most.
    """
    if len(done) >= steps_max:
        return None
    ladder = sorted(set(scales)) if scales else None
    first = ladder[0] if ladder else start
    if not done:
        return first
    held, failed, limited = _bounds(done)
    ceiling = min((bound for bound in (failed, limited) if bound is not None), default=None)
    if ceiling is None:
        higher = _above(held, ladder, factor, scale_max)
        return (
            higher
            if higher is not None or not refine
            else _around_bend(done, latency_factor, bend_resolution)
        )
    if not refine:
        return None
    if held is None:
        lower = ceiling / 2
        return lower if lower >= first / 16 * (1 - 1e-9) else None
    goal = resolution if ceiling == failed else max(resolution, 0.25)
    return (
        _beside_wall(held, ceiling, goal, wall if ceiling == failed else None)
        or (_well_beyond(done, held) if ladder is None and ceiling == failed else None)
        or _around_bend(done, latency_factor, bend_resolution)
    )


def _well_beyond(done: Sequence[StepSummary], held: float) -> float | None:
    """A scale at which the storage is never idle: just beyond the wall, bursts still leave it pauses for a while."""
    beyond = float(f"{WELL_BEYOND * held:.3g}")
    return None if max(step.scale for step in done) >= beyond * (1 - 1e-9) else beyond


def _around_bend(done: Sequence[StepSummary], latency_factor: float, resolution: float) -> float | None:
    """A scale between the last step whose latency is near that of the lowest and the first held one far above it."""
    held = sorted(
        (one for one in done if not one.generator_limited and not is_too_much(one)), key=lambda one: one.scale
    )
    climbed = next(
        (index for index, one in enumerate(held) if one.latency_ns > latency_factor * held[0].latency_ns),
        None,
    )
    if not climbed:
        return None
    return _between(held[climbed - 1].scale, held[climbed].scale, resolution)


def _bounds(done: Sequence[StepSummary]) -> tuple[float | None, float | None, float | None]:
    """Highest scale held below every failure, lowest scale that failed, lowest that only the generator failed."""
    judged = [step for step in done if not step.generator_limited]
    late = [step for step in done if step.generator_limited]
    carried = [step for step in late if is_carried(step.achieved_iops, step.offered_iops)]
    limited = min((step.scale for step in late if step not in carried), default=None)
    failed = min((step.scale for step in judged if is_too_much(step)), default=None)
    # A generator that is late by a hair spoils the latencies of fast storage, but the storage did carry the load.
    held = max(
        (step.scale for step in (*judged, *carried) if failed is None or step.scale < failed), default=None
    )
    if limited is not None and held is not None and limited <= held:
        limited = None
    return held, failed, limited


def _above(
    held: float | None, ladder: list[float] | None, factor: float, scale_max: float | None
) -> float | None:
    assert held is not None
    if ladder is not None:
        return next((scale for scale in ladder if scale > held * (1 + 1e-9)), None)
    if scale_max is None:
        return held * factor
    return None if held >= scale_max * (1 - 1e-9) else min(held * factor, scale_max)


def _beside_wall(held: float, ceiling: float, goal: float, wall: Wall | None) -> float | None:
    """A load just below the wall that is predicted between two, then one just above; else one in the middle."""
    middle = _between(held, ceiling, goal)
    expected = wall(held, ceiling) if wall is not None and middle is not None else None
    if expected is None:
        return middle
    apart = 1 + goal / 2
    for guess in (float(f"{expected / apart**0.9:.3g}"), float(f"{expected * apart**0.9:.3g}")):
        if held * apart**0.5 < guess < ceiling / apart**0.5:
            return guess
    return middle


def _between(held: float, ceiling: float, goal: float) -> float | None:
    if ceiling / held <= 1 + goal + 1e-9:
        return None
    middle = (held * ceiling) ** 0.5
    # Three digits are what a person reads; the gap is far wider.
    rounded = float(f"{middle:.3g}")
    return rounded if held < rounded < ceiling else middle
