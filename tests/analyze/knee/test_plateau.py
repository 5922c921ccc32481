"""Plateaus of published load tests, and of curves whose corner is planted."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.knee.causes import closed_causes, queue_depth
from iotrace.analyze.knee.saturation import Units, best_size, fit_plateau, saturation_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from published import DISKSPD_128K_READS, SQLIO_64K_RANDOM_READS

DOUBLING = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_published_reads_saturate_at_the_queue_depth_of_the_hba():
    """As published: no increase beyond 32 outstanding, because 32 is the HBA's queue depth."""
    table = SQLIO_64K_RANDOM_READS

    found = saturation_of(table["outstanding"], table["iops"])

    assert found.state == "reached"
    assert found.outstanding.value == 32
    assert 16 < found.outstanding.low < 32 < found.outstanding.high < 48
    assert found.iops.value == pytest.approx(2400, rel=0.02)
    cause = queue_depth(found.outstanding, table["outstanding"], is_corner=found.is_corner)
    assert "queue depth of 32" in cause.sentence


def test_published_threads_have_their_knee_between_twenty_and_forty():
    """As published: at 20 threads approaching the knee, at 40 past it, with no more throughput than 3,200 MB/s."""
    table = DISKSPD_128K_READS

    found = saturation_of(table["threads"], table["mb_per_s"], units=Units("threads", "MB/s"))

    assert found.state == "reached"
    assert 20 < found.outstanding.value < 40
    assert found.outstanding.high < 40
    assert "threads" in found.sentence
    assert found.iops.value == pytest.approx(3200, rel=0.01)
    assert queue_depth(found.outstanding, table["threads"], is_corner=found.is_corner) is None


def grown(load, corner, sigma):
    """One in flight gives 1,000; contention ``sigma`` below the corner, nothing more above it."""
    reached = np.minimum(load, corner)
    return 1000 * reached / (1 + sigma * (reached - 1))


@pytest.mark.parametrize("sigma", [0.0, 0.02, 0.08])
@pytest.mark.parametrize("corner", [5, 12, 32, 50])
def test_a_corner_is_found_whether_or_not_it_was_tested(corner, sigma):
    load = np.array(DOUBLING)
    found = fit_plateau(load, grown(load, corner, sigma))

    assert found.is_flat
    assert found.knee.low <= corner <= found.knee.high
    assert found.knee.value == pytest.approx(corner, rel=0.03)
    assert found.throughput.value == pytest.approx(grown(np.array([corner]), corner, sigma)[0], rel=0.02)
    assert found.sigma == pytest.approx(sigma, abs=0.01)


def test_contention_is_never_below_zero():
    """Throughput that grows faster than the load, as with merging, is no contention of less than nothing."""
    assert fit_plateau([1, 2, 4, 8], [100, 230, 530, 1220]).sigma == 0


def test_a_corner_near_a_power_of_two_is_not_that_power():
    """13 is within a quarter of 16, and known better than that."""
    load = np.array(DOUBLING)
    found = saturation_of(load, grown(load, 13, 0.0))

    assert found.outstanding.value == pytest.approx(13, rel=0.01)
    assert closed_causes(found, steps_at(load), []) == []


def steps_at(load):
    return [SimpleNamespace(outstanding=int(count), generator_busy_share=None) for count in load]


def corners_covered(runs):
    hits = 0
    for seed in range(runs):
        random = np.random.default_rng([11, seed])
        corner, sigma = float(random.uniform(4, 60)), float(random.choice([0, 0.01, 0.04, 0.08]))
        load = np.array(DOUBLING)
        noisy = grown(load, corner, sigma) * np.exp(
            random.normal(0, random.choice([0.003, 0.01, 0.02]), len(load))
        )
        found = fit_plateau(load, noisy)
        hits += found.knee.low <= corner <= found.knee.high
    return hits


def test_the_interval_covers_the_planted_corner():
    assert corners_covered(20) >= 18


@pytest.mark.slow
def test_the_interval_covers_the_planted_corner_in_a_hundred_runs():
    assert corners_covered(100) >= 90


def test_throughput_that_grows_in_proportion_to_the_end_is_not_saturated():
    load = np.array([1, 2, 4, 8, 16, 32])

    assert not fit_plateau(load, 100.0 * load).is_flat
    assert saturation_of(load, 100.0 * load).state == "not_reached"


def test_contention_without_a_corner_queues_and_is_not_said_to_saturate():
    """Amdahl's law with sigma 0.03: at 32 in flight latency has grown 1 + 0.03 * 31 times."""
    load = np.array([1, 2, 4, 8, 16, 32])
    found = saturation_of(load, 100 * load / (1 + 0.03 * (load - 1)))

    assert found.state == "onset"
    assert found.sentence.startswith("Where it saturates cannot be told")
    assert found.sentence.endswith("To know where, run 24 and 64 outstanding as well.")


def servers(load, count, rate=1000.0):
    """So many servers, each of ``rate``: X(N) = min(N, count) times it."""
    return rate * np.minimum(load, count)


@pytest.mark.parametrize("loads", [[1, 64], [1, 32], [2, 256], [1, 4, 64], [1, 2, 64], [1, 2, 4, 64]])
def test_a_last_run_far_beyond_the_corner_is_not_called_unsaturated(loads):
    """Eight servers of 1,000 a second; between the last two runs latency grows to N / 8 ms."""
    load = np.array(loads)
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(0, 0.01, len(load))
        found = saturation_of(load, servers(load, 8) * np.exp(noise))

        assert found.state == "onset"
        assert "Not saturated" not in found.sentence
        assert f"from {loads[-2]} to {loads[-1]}, IOPS grew" in found.sentence
        # Eight at least are worked on at a time, so that the runs to make begin there.
        assert "run 8, 16" in found.sentence
        assert f" and {2 * loads[-1]} outstanding as well" in found.sentence


@pytest.mark.parametrize("corner", [12, 14])
def test_a_corner_within_the_last_gap_is_said_to_lie_there(corner):
    load = np.array([1, 2, 4, 8, 16])
    found = saturation_of(load, servers(load, corner))

    assert found.state == "onset"
    assert found.sentence.startswith("Saturates between 8 and 16 outstanding: from 8 to 16, IOPS grew ")
    assert found.sentence.endswith(f"To know where, run {corner} and 32 outstanding as well.")


@pytest.mark.parametrize(("share", "state"), [(0.89, "onset"), (0.91, "not_reached")])
def test_growth_a_tenth_short_of_proportion_is_a_queue(share, state):
    load = np.array([4, 8])
    assert saturation_of(load, [4000, share * 8000]).state == state


@pytest.mark.parametrize(("last", "state"), [(0.87, "not_reached"), (0.85, "onset")])
def test_growth_within_the_scatter_of_the_runs_is_no_queue_unless_a_fifth_is_missing(last, state):
    """Runs that lie 8 % off a line to either side; the last is held against the best of them, 1.08."""
    load = np.array([1, 2, 4, 8, 16, 32, 64])
    scatter = np.array([1.08, 0.92, 1.08, 0.92, 1.08, 0.92, last])
    assert saturation_of(load, 1000 * load * scatter).state == state


def test_loads_to_run_are_not_close_to_those_that_were():
    """Contention of 5 % from 128 to 256: 136 in flight could carry as much, and tell nothing that 128 did not."""
    load = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])
    found = saturation_of(load, 1000 * load / (1 + 0.05 * (load - 1)))
    assert found.sentence.endswith("To know where, run 512 outstanding as well.")


def test_noise_on_a_line_is_no_plateau():
    load, flat = np.array(DOUBLING), 0
    for seed in range(100):
        noise = np.random.default_rng(seed).normal(0, 0.015, len(load))
        found = saturation_of(load, 100 * load * np.exp(noise))
        flat += found.state == "reached"
    assert flat <= 2


def test_throughput_that_levels_off_is_bounded_by_its_asymptotes():
    """Eight disks, every I/O on any of them (balanced queues): N / (N + 7) of their sum, with no corner anywhere."""
    load = np.array([*DOUBLING, 512])
    found = saturation_of(load, 8 * load / (load + 7))

    assert found.state == "reached"
    assert not found.is_corner
    assert 8 <= found.outstanding.low <= found.outstanding.high <= 256
    assert queue_depth(found.outstanding, load, is_corner=found.is_corner) is None


def test_throughput_that_collapses_keeps_what_was_carried_before():
    load = np.array([1, 2, 4, 8, 16, 32, 64])
    carried = np.array([100, 200, 400, 800, 800, 600, 400.0])
    found = saturation_of(load, carried)

    assert found.outstanding.value == 8
    assert found.iops.value == pytest.approx(800, rel=0.01)
    assert found.falls_from == 32
    assert found.sentence.endswith(
        ": from 32 outstanding on, more in flight does harm: IOPS fall, from 800 at 8 to 400 at 64, 50 % of it."
    )


FALLING = [1, 2, 4, 8, 16, 32, 64, 128]


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_a_fall_beyond_the_corner_is_told_and_is_no_queue_depth(noise):
    """Eight servers that carry (16 / N)^0.7 of it beyond 16 in flight: 62 % at 32, 23 % at 128."""
    load = np.array(FALLING)
    carried = servers(load, 8) * np.minimum(1, (16 / load) ** 0.7)
    for seed in range(40):
        found = saturation_of(load, carried * np.exp(np.random.default_rng(seed).normal(0, noise, len(load))))

        assert found.falls_from == 32
        assert "does harm: IOPS fall" in found.sentence
        assert "latency only" not in found.sentence
        assert closed_causes(found, steps_at(load), []) == []


def test_the_universal_scalability_law_falls_beyond_its_peak():
    """sigma 0.02, kappa 0.0004: the most at sqrt(0.98 / 0.0004) = 49.5; 75 % of that at 128, 47 % at 256."""
    load = np.array(DOUBLING)
    found = saturation_of(load, 1000 * load / (1 + 0.02 * (load - 1) + 0.0004 * load * (load - 1)))

    assert found.state == "reached"
    assert found.falls_from == 128
    assert "at 256, 48 % of it" in found.sentence


def test_storage_that_only_falls_is_saturated_by_the_lowest_load():
    found = saturation_of([1, 2, 4, 8], [1000, 1000, 700, 400])

    assert found.state == "at_lowest"
    assert found.falls_from == 4
    assert saturation_of([8, 10], [1000, 700]).state == "at_lowest"


@pytest.mark.parametrize(("share", "falls_from"), [(0.94, 64), (0.96, None)])
def test_a_fall_is_less_than_95_percent_where_runs_repeat(share, falls_from):
    load = np.array([1, 2, 4, 8, 16, 32, 64])
    carried = servers(load, 8)
    carried[-1] *= share
    assert saturation_of(load, carried).falls_from == falls_from


@pytest.mark.parametrize(("share", "falls_from"), [(0.78, 64), (0.82, None)])
def test_a_fall_is_less_than_80_percent_where_runs_scatter_or_are_too_few(share, falls_from):
    scattered = np.array([1050, 1900, 4200, 7600, 8400, 7600, 8000.0 * share])
    assert saturation_of([1, 2, 4, 8, 16, 32, 64], scattered).falls_from == falls_from
    assert saturation_of([1, 8, 64], [1000, 8000, 8000 * share]).falls_from == falls_from


def test_one_low_run_before_others_that_carry_all_is_no_fall():
    found = saturation_of([1, 2, 4, 8, 16, 32, 64], [1000, 2000, 4000, 8000, 5000, 8000, 8000])
    assert found.falls_from is None


def rates_covered(runs, noise, seed):
    """Twelve servers of 1,000 a second: how many intervals hold 12,000, and how many are called a queue depth."""
    load, held, marked = np.array([1, 2, 4, 8, 16, 32, 64]), 0, 0
    for run in range(runs):
        random = np.random.default_rng([seed, run])
        found = saturation_of(load, servers(load, 12) * (1 + random.normal(0, noise, len(load))))
        held += found.iops.low <= 12_000 <= found.iops.high
        marked += queue_depth(found.outstanding, load, is_corner=found.is_corner) is not None
    return held, marked


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_the_interval_of_throughput_holds_the_truth_as_often_as_it_says_whatever_the_noise(noise):
    held, marked = rates_covered(60, noise, 23)

    # Of 60 intervals at 95 %, fewer than 52 hold the truth once in 170 times.
    assert held >= 52
    assert marked == 0


def test_the_interval_of_throughput_is_no_wider_than_the_noise_makes_it():
    """Four runs on the plateau that repeat to 1.5 %: 1.96 * 1.5 % / sqrt(4) to either side."""
    load = np.array([1, 2, 4, 8, 16, 32, 64])
    found = saturation_of(load, servers(load, 8)).iops
    assert (found.low, found.high) == pytest.approx((8000 * (1 - 0.0147), 8000 * (1 + 0.0147)), rel=1e-4)


def test_a_rate_without_a_plateau_is_known_as_well_as_one_run_is():
    found = saturation_of([16, 128], [8000, 8000]).iops
    assert (found.low, found.high) == pytest.approx((8000 * (1 - 0.0294), 8000 * (1 + 0.0294)), rel=1e-4)


@pytest.mark.parametrize(
    ("size_bytes", "words"), [(512, "512"), (1024, "1K"), (1536, "1536"), (3072, "3K"), (65536, "64K")]
)
def test_a_size_is_told_in_whole_kibibytes_or_in_bytes(size_bytes, words):
    steps = [
        (size, SimpleNamespace(is_judged=True, achieved_mb_per_s=moved), None)
        for size, moved in ((size_bytes // 2, 60.0), (size_bytes, 99.0), (2 * size_bytes, 100.0))
    ]
    assert best_size(steps).sentence == f"Nothing is gained beyond {words}: 100.0 MB/s."
