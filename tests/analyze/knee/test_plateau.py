"""Plateaus of published load tests, and of curves whose corner is planted."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.knee.causes import queue_depth
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


@pytest.mark.parametrize("curve", [lambda n: 100.0 * n, lambda n: 100 * n / (1 + 0.03 * (n - 1))])
def test_throughput_that_grows_to_the_end_has_no_plateau(curve):
    load = np.array([1, 2, 4, 8, 16, 32])

    assert not fit_plateau(load, curve(load)).is_flat
    assert saturation_of(load, curve(load)).state == "not_reached"


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


@pytest.mark.parametrize(
    ("size_bytes", "words"), [(512, "512"), (1024, "1K"), (1536, "1536"), (3072, "3K"), (65536, "64K")]
)
def test_a_size_is_told_in_whole_kibibytes_or_in_bytes(size_bytes, words):
    steps = [
        (size, SimpleNamespace(is_judged=True, achieved_mb_per_s=moved), None)
        for size, moved in ((size_bytes // 2, 60.0), (size_bytes, 99.0), (2 * size_bytes, 100.0))
    ]
    assert best_size(steps).sentence == f"Nothing is gained beyond {words}: 100.0 MB/s."
