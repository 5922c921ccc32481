"""Exit status of the knee command: an answer that cannot be told is none."""

import numpy as np

from ..analyze.knee import knee_simulator as simulator


def sweep(folder, device, loads, *, seconds, late=()):
    """Steps at ``loads`` a second, by paths; the generator was late at those in ``late``."""
    for load in loads:
        random = np.random.default_rng([3, load])
        arrival = simulator.poisson(random, load, load * seconds)
        yield simulator.write_step(
            folder, arrival, device(random, arrival), scale=load / 500, name=f"{load}",
            replay={"generator_limited": True} if load in late else {},
        ).path  # fmt: skip


def test_too_few_judged_steps_are_no_answer_and_no_headroom(iotrace, tmp_path):
    def steady(random, arrival_s):
        return arrival_s + simulator.device_latency_s(random, len(arrival_s))

    steps = sweep(tmp_path, steady, [500, 1000, 2000], seconds=6, late={1000, 2000})
    told = iotrace("knee", *steps)
    said = " ".join(told.out.split())
    assert told.status == 1
    assert "Where the storage breaks cannot be judged: of 3 steps 1 can be used." in said
    assert "the load generator was late" in said
    assert "kept up" not in said
    assert "of what the storage" not in said


def test_an_objective_missed_below_and_met_above_is_no_answer(iotrace, tmp_path):
    def uneven(random, arrival_s):
        slower = 1.6 if len(arrival_s) < 900 * 20 else 1.0
        return arrival_s + simulator.device_latency_s(random, len(arrival_s), 0.004 * slower)

    steps = list(sweep(tmp_path, uneven, [600, 1000, 1400], seconds=20))
    assert iotrace("knee", *steps).status == 0
    told = iotrace("knee", *steps, "--slo", "p50<5ms")
    assert told.status == 1
    assert "cannot be told" in " ".join(told.out.split())
