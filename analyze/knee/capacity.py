"""The wall: the greatest throughput that is carried where more is offered."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from iotrace.analyze.stats.estimate import Estimate
from iotrace.schemas.arrays import Floats

from .curve import interval, rates, steady_part, widened
from .saturation import COLLAPSE_SHARE
from .step import Samples, Step

WELL_BEYOND: Final = 1.25
"""Steps that offered this many times the most carried were never idle, however bursty the load."""
EQUAL_SHARE: Final = 0.97
"""Steps that carried at least this share of the most carried did so all the same."""
WATCHED_SHARE: Final = 0.25
"""Steps that were never idle for less than this share of the longest such time say little beside it."""
PRECISION: Final = 0.005
"""No throughput is claimed to be known better than to half a percent: one more run would differ as much."""


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
    beyond = [one for index, one in carried.items() if steps[index].offered_iops >= WELL_BEYOND * most]
    if not beyond or np.mean([one.mean() for one in beyond]) < COLLAPSE_SHARE * most:
        beyond = [one for one in carried.values() if one.mean() >= EQUAL_SHARE * most]
    wall: Floats = np.mean([one.mean() * rates(one, random) for one in beyond], axis=0)
    if len(beyond) > 1:
        spread = float(np.std([one.mean() for one in beyond], ddof=1)) / len(beyond) ** 0.5
        wall[1:] += random.normal(0, spread, len(wall) - 1)
    # A device can carry less once it is overloaded; what it did carry below stands.
    return np.maximum(wall, floor) if is_collapse(wall, floor) else wall


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
