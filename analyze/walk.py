"""Where a sweep steps next: up by doubling until the storage falls behind, then halving the gap around the knee.

First the gap between the highest load that was carried and the lowest that was not is closed in on: throughput ends
there. Then, where latency climbs clearly below that (bursts queue although on average the storage keeps up), the gap
in which it does.

The decision is a pure function of the steps done, so that a sweep can be stopped and resumed, and the same steps always
lead to the same next one.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from iotrace.schemas import Recording

from .knee_step import Step, measure

CARRIED_SHARE_MIN: Final = 0.95
LATENCY_FACTOR: Final = 3.0
"""Latency this many times that of the lowest load has begun to climb."""
BEND_RESOLUTION: Final = 0.15
WELL_BEYOND: Final = 1.5
"""What is carried at most is measured at this many times the highest load held, at least."""
RESOLUTION: Final = 0.05
STEPS_MAX: Final = 12


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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def summarise_step(recording: Recording, scale: float | None = None) -> StepSummary:
    """Measure a finished step. ``scale`` defaults to what the replay noted, or 1."""
    return summary_of(measure(recording, scale)[0])


def summary_of(step: Step) -> StepSummary:
    """The summary of a step that is measured already."""
    return StepSummary(
        step.scale if step.scale is not None else 1.0,
        step.offered_iops,
        step.achieved_iops,
        float(step.response_ns["p50"] or step.response_ns_mean),
        step.is_saturated,
        step.is_steady or step.is_warming,
        step.generator_limited,
    )


def is_too_much(step: StepSummary) -> bool:
    """Whether the storage did not hold this step: it fell behind, or grew ever slower."""
    return step.is_saturated or not step.is_steady or not _is_carried(step)


def next_scale(
    done: Sequence[StepSummary],
    *,
    scales: Sequence[float] | None = None,
    start: float = 1.0,
    factor: float = 2.0,
    scale_max: float = 64.0,
    resolution: float = RESOLUTION,
    bend_resolution: float = BEND_RESOLUTION,
    steps_max: int = STEPS_MAX,
    latency_factor: float = LATENCY_FACTOR,
    refine: bool = True,
) -> float | None:
    """The scale of the next step, or None when the sweep is done.

    Without ``scales`` the load starts at ``start`` and goes up by ``factor``, at most to ``scale_max``, until a step is
    too much for the storage (see `is_too_much`) or for the load generator. With ``scales`` those are taken in rising
    order instead, likewise no further than the first that is too much. If the very first is too much, it is halved,
    down to a sixteenth. Then the gap between the highest scale that was held and the lowest that was not is halved (in
    ratio) until it is within ``resolution`` (0.05: 5 %); if no step offered `WELL_BEYOND` times what was held, one does
    (not with ``scales``); after it the gap in which latency first passes
    ``latency_factor`` times that of the lowest load, until within ``bend_resolution``; never more than ``steps_max``
    steps in all. With ``refine`` False only the ladder is climbed. A scale that the generator could not drive bounds
    the walk from above but is no bend: the gap below it is halved down to a quarter at most.
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
        _between(held, ceiling, goal)
        or (_well_beyond(done, held) if ladder is None and ceiling == failed else None)
        or _around_bend(done, latency_factor, bend_resolution)
    )


def _well_beyond(done: Sequence[StepSummary], held: float) -> float | None:
    """A scale at which the storage is never idle: just beyond the wall, bursts still leave it pauses for a while."""
    highest = max(step.scale for step in done)
    return None if highest >= WELL_BEYOND * held * (1 - 1e-9) else float(f"{WELL_BEYOND * held:.3g}")


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
    carried = [step for step in done if step.generator_limited and _is_carried(step)]
    limited = min(
        (step.scale for step in done if step.generator_limited and not _is_carried(step)), default=None
    )
    failed = min((step.scale for step in judged if is_too_much(step)), default=None)
    # A generator that is late by a hair spoils the latencies of fast storage, but the storage did carry the load.
    held = max(
        (step.scale for step in (*judged, *carried) if failed is None or step.scale < failed), default=None
    )
    if limited is not None and held is not None and limited <= held:
        limited = None
    return held, failed, limited


def _is_carried(step: StepSummary) -> bool:
    return step.achieved_iops >= CARRIED_SHARE_MIN * step.offered_iops


def _above(held: float | None, ladder: list[float] | None, factor: float, scale_max: float) -> float | None:
    assert held is not None
    if ladder is not None:
        return next((scale for scale in ladder if scale > held * (1 + 1e-9)), None)
    if held >= scale_max * (1 - 1e-9):
        return None
    return min(held * factor, scale_max)


def _between(held: float, ceiling: float, goal: float) -> float | None:
    if ceiling / held <= 1 + goal + 1e-9:
        return None
    middle = (held * ceiling) ** 0.5
    # Three digits are what a person reads; the gap is far wider.
    rounded = float(f"{middle:.3g}")
    return rounded if held < rounded < ceiling else middle
