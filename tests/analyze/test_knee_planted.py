"""Sweeps that walk themselves over devices of a planted capacity: the knee's interval has to hold it."""

import sys
from pathlib import Path

import numpy as np
import pytest

from iotrace.analyze.knee import knee_of
from iotrace.analyze.knee_step import measure
from iotrace.analyze.walk import next_scale, summary_of

sys.path.insert(0, str(Path(__file__).parent))
import knee_simulator as simulator


def throttle(random, arrival_s, capacity):
    return simulator.throttled(random, arrival_s, capacity)


def constant_server(random, arrival_s, capacity):
    return simulator.first_come_first_served(arrival_s, np.full(len(arrival_s), 1 / capacity))


def exponential_server(random, arrival_s, capacity):
    return simulator.first_come_first_served(arrival_s, random.exponential(1 / capacity, len(arrival_s)))


DEVICES = [throttle, constant_server, exponential_server]
ARRIVALS = [simulator.poisson, simulator.bursty]


def walked(folder, number, *, count, steps_max):
    """The knee of one sweep, and the capacity that was planted: 1,500 to 4,500 IOPS at 2.5 to 7 times the load."""
    random = np.random.default_rng([7, number])
    capacity = float(random.uniform(1500, 4500))
    rate_1x = capacity / float(random.uniform(2.5, 7))
    device, arrivals = DEVICES[number % 3], ARRIVALS[number // 3 % 2]
    measured, done = [], []
    while (scale := next_scale(done, steps_max=steps_max)) is not None:
        random = np.random.default_rng([7, number, len(done)])
        arrival = arrivals(random, rate_1x * scale, max(count, int(2 * rate_1x * scale)))
        step = simulator.write_step(folder, arrival, device(random, arrival, capacity), scale=scale)
        measured.append(measure(step, scale))
        done.append(summary_of(measured[-1][0]))
    return knee_of(measured), capacity


def covered(folder, runs, **options):
    hits = 0
    for number in range(runs):
        found, capacity = walked(folder, number, **options)
        hits += found.state == "reached" and found.iops.low <= capacity <= found.iops.high
        # An interval of everything would hold the truth, too.
        assert found.iops is None or found.iops.high <= 1.35 * found.iops.low
    return hits


def test_the_interval_covers_the_planted_capacity(tmp_path):
    assert covered(tmp_path, 6, count=2000, steps_max=8) >= 5


@pytest.mark.slow
def test_the_interval_covers_the_planted_capacity_in_a_hundred_runs(tmp_path):
    assert covered(tmp_path, 100, count=4000, steps_max=12) >= 90


def test_a_bend_in_latency_without_a_wall_is_covered(tmp_path):
    """A cache that holds up to 1,600 IOPS: beyond, latency doubles with every 400 more, and all is carried."""
    hits = 0
    for number in range(4):
        measured = []
        for index, load in enumerate([400, 700, 1000, 1300, 1600, 1900, 2200, 2500]):
            random = np.random.default_rng([9, number, index])
            # Evenly, so that the load is the one planted and no sample of it.
            arrival = (np.arange(1500) + random.uniform(0, 1, 1500)) / load
            slower = 2.0 ** (max(0.0, load - 1600) / 400)
            completed = arrival + simulator.device_latency_s(random, len(arrival)) * slower
            measured.append(measure(simulator.write_step(tmp_path, arrival, completed, scale=load / 400)))
        found = knee_of(measured)
        hits += found.basis == "latency" and found.iops.low <= 1600 <= found.iops.high
    assert hits >= 3
