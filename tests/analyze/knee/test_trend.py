"""A queue that grows within a step, one that settles, and latency that follows the load."""

import numpy as np
import pytest

from iotrace.analyze.knee.step import _trend, measure

from . import knee_simulator as simulator

EVEN = [200] * 20
RISING = np.linspace(100, 300, 20).astype(int)
UP, LEVEL = np.linspace(0.01, 0.3, 20), np.full(20, 0.1)


@pytest.mark.parametrize(
    ("per_second", "latency_s", "is_steady", "is_warming"),
    [
        (EVEN, UP, False, False), (EVEN, UP[::-1], False, True), (EVEN, LEVEL, True, False),
        (RISING, UP, True, False), (RISING[::-1], UP, False, False), (RISING[::-1], UP[::-1], True, False),
        (EVEN, 0.01 * UP, True, False),
    ],
    ids=["grows", "settles", "stays", "follows", "grows as load falls", "falls with the load", "by far too little"],
)  # fmt: skip
def test_latency_that_moves_by_itself_makes_a_step_unsteady(
    tmp_path, per_second, latency_s, is_steady, is_warming
):
    at = np.concatenate([second + np.arange(count) / count for second, count in enumerate(per_second)])
    lasts = latency_s[at.astype(int)] * np.random.default_rng(1).lognormal(0, 0.1, len(at))
    step, _ = measure(simulator.write_step(tmp_path, at, at + lasts, scale=1.0))
    assert (step.is_steady, step.is_warming) == (is_steady, is_warming)
    # What settles would tell more if it were longer; what a queue does to an overload would not.
    assert step.is_too_short is is_warming


@pytest.mark.parametrize(
    ("medians_ms", "trend"),
    [
        (range(1, 13), 1),
        (range(12, 0, -1), -1),
        # Of eight stretches nothing is said.
        (range(1, 9), 0),
        # The last third is slower, but so unevenly that chance does it one time in eight (Kendall's tau 0.44).
        ([1, 4, 2, 6, 3, 5, 22, 2.5, 21], 0),
    ],
)
def test_a_trend_is_one_of_at_least_nine_stretches_that_chance_does_not_make(medians_ms, trend):
    """One I/O in each of them, under an even load, in a step of a second."""
    buckets = (np.array(medians_ms) * 1e6).astype(np.int64)
    order = np.argsort(buckets)
    counts = np.eye(len(buckets), dtype=np.int64)[:, order]
    found, _ = _trend(buckets[order], counts, np.ones(len(buckets)), 10**9)
    assert found == trend
