"""What a run shows of an objective beyond doubt, on latencies whose true quantile is known."""

from dataclasses import replace

import numpy as np
import pytest

from iotrace.analyze import slo
from iotrace.analyze.knee.objective import slo_knee
from iotrace.analyze.knee.series import knee
from iotrace.analyze.knee.step import measure

from . import knee_simulator as simulator

AT_1X = 500
LIMIT_S = 0.005
P95_OF_LOGNORMAL = np.exp(1.6449 * 0.25)


@pytest.mark.parametrize(
    ("lower", "upper", "sweeps", "at_least", "at_most"),
    [
        pytest.param(0.97, 1.03, 4, {"met": 4, "missed": 4}, {}, id="clear-of-the-limit"),
        pytest.param(0.5, 1.0, 20, {}, {"missed": 2}, id="the-upper-load-just-at-it"),
        pytest.param(1.0, 2.0, 20, {}, {"met": 2}, id="the-lower-load-just-at-it"),
    ],
)
def test_beyond_doubt_is_hardly_ever_said_of_a_load_just_at_its_limit(
    lower, upper, sweeps, at_least, at_most, tmp_path
):
    """True p95s are ``lower`` and ``upper`` times the limit. Of one just at it, it is said 2 and 4 times in 100."""
    said = {"met": 0, "missed": 0}
    for seed in range(sweeps):
        steps = []
        for load, times in ((500, lower), (1000, upper)):
            random = np.random.default_rng([seed, load])
            arrival = np.arange(load * 10) / load
            median_s = times * LIMIT_S / P95_OF_LOGNORMAL
            took_s = simulator.device_latency_s(random, len(arrival), median_s, 0.25)
            name = f"{seed}-{load}"
            steps.append(
                simulator.write_step(tmp_path, arrival, arrival + took_s, scale=load / AT_1X, name=name)
            )
        (one,) = knee(steps, slo="p95<5ms").objectives
        said["met"] += one.surely_met_iops is not None
        said["missed"] += one.surely_missed_iops is not None
    assert all(said[word] >= count for word, count in at_least.items()), said
    assert all(said[word] <= count for word, count in at_most.items()), said


def test_a_load_that_was_run_and_missed_counts_though_it_saturated_and_more_may_be_sustained(tmp_path):
    """What is sustained is an interval, and may hold the load that missed; the wait that was measured is no less."""
    measured = []
    for load, took_s in ((500, 0.001), (1000, 0.050)):
        arrival = np.arange(load * 10) / load
        path = simulator.write_step(tmp_path, arrival, arrival + took_s, scale=load / AT_1X, name=f"{load}")
        measured.append(measure(path, scale=load / AT_1X))
    (kept, low), (missed, high) = measured
    steps = [kept, replace(missed, is_saturated=True)]
    (objective,) = slo.parse("p95<5ms")
    found = slo_knee(objective, steps, [low, high], sustained_iops=1010.0, iops_at_1x=500.0, seed=0)
    assert found.iops.high == pytest.approx(1000, rel=0.01)
    assert found.surely_missed_iops == missed.offered_iops
