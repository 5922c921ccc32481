"""A latency-load curve with its bootstrap replicates."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .knee_fit import knees_on_grid
from .knee_resample import log_quantiles
from .knee_step import Samples, Selection, Step

Floats = npt.NDArray[np.float64]


class Curve:
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


def _merge_equal(load: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Steps within 0.5 % of each other are one point, at their means; repeated steps weigh no more than single ones."""
    groups = (
        np.concatenate([[0], np.cumsum(np.diff(load) > 0.005 * load[:-1])]) if len(load) > 1 else np.zeros(1)
    )
    order = [groups == group for group in np.unique(groups)]
    merged = np.array([load[mask].mean() for mask in order])
    ascending = np.argsort(merged)
    return merged[ascending], np.array([logs[mask].mean(axis=0) for mask in order])[ascending]
