"""Sweeps over storage of a planted capacity or sustained rate: the interval has to hold it; no knee is made up.

Some walk themselves over simulated devices; those of `planted_truth` were written without sight of the detector.
"""

from itertools import product

import numpy as np
import pytest

from iotrace.analyze.knee.next_load import next_scale, summary_of
from iotrace.analyze.knee.series import knee
from iotrace.analyze.knee.step import measure
from iotrace.analyze.knee.sweep import knee_of

from ..planted_truth import scoring, sweeps
from . import knee_simulator as simulator


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
    return knee_of(measured, seed=0), capacity


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


def test_latency_that_may_climb_early_leaves_the_end_of_throughput_known(tmp_path):
    """Bursts of five times the load queue from a third of the capacity on: where latency bends is not known at all."""
    found, capacity = walked(tmp_path, 15, count=4000, steps_max=12)
    assert found.iops.low <= capacity <= found.iops.high <= 1.03 * found.iops.low
    assert found.onset_iops.low < 0.5 * capacity
    assert "latency climbs there, or already from 1.4x" in found.sentence


def test_latency_that_climbs_without_a_wall_is_an_onset_and_no_knee(tmp_path):
    """A cache that holds up to 1,600 IOPS: beyond, latency doubles with every 400 more, and all is carried."""
    for number in range(2):
        measured = []
        for index, load in enumerate([400, 700, 1000, 1300, 1600, 1900, 2200, 2500]):
            random = np.random.default_rng([9, number, index])
            # Evenly, so that the load is the one planted and no sample of it.
            arrival = (np.arange(1500) + random.uniform(0, 1, 1500)) / load
            slower = 2.0 ** (max(0.0, load - 1600) / 400)
            completed = arrival + simulator.device_latency_s(random, len(arrival)) * slower
            measured.append(measure(simulator.write_step(tmp_path, arrival, completed, scale=load / 400)))
        found = knee_of(measured, seed=0)
        assert (found.state, found.iops) == ("onset", None)
        assert found.doubled_iops.low <= 2000 <= found.doubled_iops.high
        assert found.doubled_iops.value == pytest.approx(2000, rel=0.02)
        assert "knee" not in found.sentence


WITH_CREDITS = [
    *(
        (f"token bucket of {seconds} s", sweeps.token_bucket, {"credits_seconds": seconds})
        for seconds in (1, 2, 5)
    ),
    ("write cache", sweeps.write_cache, {}),
    ("SLC cache", sweeps.slc_cache, {}),
]


def answered(folder, family, seed, **settings):
    sweep, truth = family(folder / f"{len(list(folder.iterdir()))}.iotrace", seed, **settings)
    answer = knee(sweep.recordings(), scales=[step.scale for step in sweep.steps])
    return answer, truth


def judge_credits(folder, seeds):
    """Of sweeps over storage with saved credits: the intervals that hold what is sustained, and false headroom."""
    held, false = {}, []
    for (name, family, settings), refill, seed in product(WITH_CREDITS, ("full", "back_to_back"), seeds):
        answer, truth = answered(folder, family, seed, refill=refill, **settings)
        if truth.shows_saturation:
            found = answer.sustained_iops
            interval = None if found is None else (found.low, found.high)
            held.setdefault(name, []).append(scoring.holds(interval, truth.sustained_iops))
        names_credits = "credits" in answer.sentence
        kept_up = answer.highest_kept_up_iops if answer.state in {"not_reached", "onset"} else None
        if scoring.headroom_is_false(kept_up, truth, names_credits=names_credits) or (
            truth.shows_saturation and kept_up is not None
        ):
            false.append((name, refill, seed, truth.may_say))
    return held, false


def judge_without_saturation(folder, seeds):
    """Flat, short and disturbed sweeps that got a knee."""
    named = []
    for family, seed in product((sweeps.flat, sweeps.short, sweeps.disturbed), seeds):
        answer, _ = answered(folder, family, seed)
        if answer.iops is not None or answer.state in {"reached", "before_range"}:
            named.append((family.__name__, seed, answer.sentence))
    return named


def test_credits_are_told_from_what_is_sustained_in_planted_sweeps(tmp_path):
    held, false = judge_credits(tmp_path, [1])
    assert not false
    assert sum(map(sum, held.values())) >= 0.8 * sum(map(len, held.values()))


@pytest.mark.parametrize(
    ("family", "seed", "settings"),
    [
        (sweeps.token_bucket, 9, {"credits_seconds": 2, "refill": "full"}),
        (sweeps.token_bucket, 105, {"credits_seconds": 5, "refill": "back_to_back"}),
        (sweeps.write_cache, 1005, {"refill": "full"}),
    ],
)
def test_what_is_saved_again_in_the_pauses_of_a_load_is_not_taken_for_sustained(
    family, seed, settings, tmp_path
):
    answer, truth = answered(tmp_path, family, seed, **settings)
    assert truth.arrivals == "bundled"
    found = answer.sustained_iops
    assert found.low <= truth.sustained_iops <= found.high
    assert found.high <= 1.03 * found.low


def test_flat_short_and_disturbed_sweeps_get_no_knee(tmp_path):
    assert judge_without_saturation(tmp_path, [1]) == []


def test_bursts_that_overrun_the_storage_at_a_load_below_its_rate_show_no_knee(tmp_path):
    answer, truth = answered(tmp_path, sweeps.short, 135)
    assert (truth.arrivals, truth.shows_saturation) == ("bursty", False)
    assert (answer.state, answer.iops) == ("onset", None)


@pytest.mark.slow
def test_the_sustained_rate_is_held_in_nine_of_ten_planted_sweeps_with_credits(tmp_path):
    held, false = judge_credits(tmp_path, range(100, 120))
    assert not false
    assert {name: sum(one) / len(one) for name, one in held.items() if sum(one) < 0.85 * len(one)} == {}
    assert sum(map(sum, held.values())) >= 0.9 * sum(map(len, held.values()))


@pytest.mark.slow
def test_no_flat_short_or_disturbed_sweep_of_many_gets_a_knee(tmp_path):
    assert judge_without_saturation(tmp_path, range(100, 140)) == []
