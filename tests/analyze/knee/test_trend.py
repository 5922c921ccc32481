"""A queue that grows within a step, one that settles, and latency that follows the load."""

import numpy as np
import pytest

from iotrace.analyze.knee.step import measure

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
