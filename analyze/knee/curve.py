"""A latency-load curve with its bootstrap replicates.

Bootstrap of quantiles and rates by resampling whole stretches of a step.

Neighbouring I/Os share bursts and queues, so they are not independent; stretches of a fiftieth of the step nearly are
(non-overlapping block bootstrap: Carlstein 1986, Annals of Statistics 14:1171). Intervals are the 2.5 and 97.5 %
points of the replicates.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from iotrace.analyze.stats.estimate import Estimate
from iotrace.schemas.arrays import Floats

from .estimators import LATENCY_NOISE, knees_on_grid
from .step import Samples, Selection, Step

REPLICATES: Final = 400
_BIN: Final = 0.005
"""Width of the bootstrap's bins in log latency: 0.5 %."""


def log_quantiles(
    samples: Samples, selection: Selection, quantile: float, random: np.random.Generator
) -> Floats:
    """Natural log of the quantile in ns: the step's own first, then `REPLICATES` resampled ones. NaN without I/Os.

    A quantile that another tool printed has replicates that scatter by `LATENCY_NOISE`.
    """
    if samples.summary_ns is not None:
        noise = random.normal(0, LATENCY_NOISE, REPLICATES)
        return np.asarray(np.log(samples.summary_ns[quantile]) + np.concatenate([[0.0], noise]))
    values, counts = samples.by_block(selection)
    if not counts.sum():
        return np.full(REPLICATES + 1, np.nan)
    log_values = np.log(np.maximum(values, 1))
    bins, position = np.unique(np.floor(log_values / _BIN).astype(np.int64), return_inverse=True)
    coarse = np.zeros((len(counts), len(bins)))
    np.add.at(coarse.T, position, counts.T.astype(np.float64))
    blocks = len(counts)
    weights = random.multinomial(blocks, np.full(blocks, 1 / blocks), REPLICATES).astype(np.float64)
    weights = np.vstack([np.ones(blocks), weights])
    cumulative = np.cumsum(weights @ coarse, axis=1)
    totals = cumulative[:, -1:]
    index = np.argmax(cumulative >= np.ceil(quantile * totals - 1e-9).clip(min=1), axis=1)
    logs = (bins[index] + 0.5) * _BIN
    rank = max(int(np.ceil(quantile * counts.sum() - 1e-9)), 1)
    logs[0] = log_values[np.searchsorted(np.cumsum(counts.sum(axis=0)), rank)]
    return np.asarray(np.where(totals[:, 0] > 0, logs, logs[0]))


def rates(per_block: Floats, random: np.random.Generator) -> Floats:
    """Resampled mean of a rate over its own mean: 1 first, then `REPLICATES` factors around it."""
    if not per_block.any():
        return np.ones(REPLICATES + 1)
    blocks = len(per_block)
    weights = random.multinomial(blocks, np.full(blocks, 1 / blocks), REPLICATES)
    return np.concatenate([[1.0], (weights @ per_block) / blocks / per_block.mean()])


def steady_part(per_block: Floats) -> Floats:
    """The blocks without what a step began with: the truncation of least marginal standard error, at most a half.

    MSER (White 1997, An effective truncation heuristic for bias reduction in simulation output, Simulation 69:323).
    """
    blocks = len(per_block)
    if blocks < 8:
        return per_block
    cuts = range(blocks // 2 + 1)
    errors = [float(per_block[cut:].var()) / (blocks - cut) for cut in cuts]
    return per_block[int(np.argmin(errors)) :]


def widened(estimate: Estimate, share: float) -> Estimate:
    """The estimate with an interval of at least ``share`` of its value to either side."""
    low, high = estimate.value * (1 - share), estimate.value * (1 + share)
    return Estimate(estimate.value, min(estimate.low, low), max(estimate.high, high))


def interval(replicates: Floats, value: float | None = None) -> Estimate:
    """Estimate from replicates whose first is the point itself; the interval always holds the point."""
    point = float(replicates[0]) if value is None else value
    low, high = np.quantile(replicates[1:], [0.025, 0.975])
    return Estimate(point, min(float(low), point), max(float(high), point))


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
    groups = np.concatenate([[0], np.cumsum(np.diff(load) > 0.005 * load[:-1])])
    order = [groups == group for group in np.unique(groups)]
    merged = np.array([load[mask].mean() for mask in order])
    ascending = np.argsort(merged)
    return merged[ascending], np.array([logs[mask].mean(axis=0) for mask in order])[ascending]
