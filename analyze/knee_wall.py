"""The wall: the greatest throughput that is carried where more is offered."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from .estimate import Estimate
from .knee_plateau import COLLAPSE_SHARE
from .knee_resample import interval, rates, steady_part, widened
from .knee_step import CARRIED_SHARE_MIN, Samples, Step

PRECISION: Final = 0.005
"""No throughput is claimed to be known better than to half a percent: one more run would differ as much."""

Floats = npt.NDArray[np.float64]


def wall_of(
    samples: Sequence[Samples],
    saturated: list[int],
    floor: float,
    random: np.random.Generator,
) -> Floats | None:
    """Greatest throughput carried where more was offered, in IOPS, with replicates; None without saturation."""
    if not saturated:
        return None
    carried = {index: steady_part(samples[index].completed_iops) for index in saturated}
    best = max(saturated, key=lambda index: float(carried[index].mean()))
    wall = np.asarray(carried[best].mean() * rates(carried[best], random))
    # A device can carry less once it is overloaded; what it did carry below stands.
    return np.maximum(wall, floor) if is_collapse(wall, floor) else wall


def is_collapse(wall: Floats, floor: float) -> bool:
    """Whether overload carried clearly less than a step below, ``floor``; less clearly, it is a burst let through."""
    return bool(wall[0] < COLLAPSE_SHARE * floor)


def carried_by_late_steps(steps: Sequence[Step], saturated: list[int]) -> list[float]:
    """Throughput, in IOPS, of steps below saturation that a late generator offered and the storage carried."""
    below = steps[: saturated[0]] if saturated else []
    return [
        step.achieved_iops
        for step in below
        if step.generator_limited and step.achieved_iops >= CARRIED_SHARE_MIN * step.offered_iops
    ]


def sustained(wall: Floats, floor: float, too_much_iops: float) -> Estimate:
    """Most that is carried; where overload carried less than a step below, it lies between that and the overload.

    ``floor`` is the most a step carried that kept up, ``too_much_iops`` the least offered to one that did not.
    """
    if wall[0] == floor:
        return widened(Estimate(floor, floor, max(floor, too_much_iops)), PRECISION)
    found = interval(wall)
    return widened(Estimate(found.value, found.low, max(found.high, floor)), PRECISION)
