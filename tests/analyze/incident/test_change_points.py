"""Change points: the optimum, checked against trying every segmentation; what is no change; drift, jumps and steps."""

import itertools

import numpy as np
import pytest

from iotrace.analyze._tally import best_borders
from iotrace.analyze.incident.change_points import segment
from iotrace.analyze.incident.series import Series
from iotrace.analyze.incident.stretches import judge


def cost(values, weight, borders, penalty):
    total = penalty * (len(borders) - 2)
    for start, end in itertools.pairwise(borders):
        x, w = values[start:end], weight[start:end]
        total += float(np.sum(w * (x - np.average(x, weights=w)) ** 2))
    return total


def every_segmentation(count):
    """Every list of borders whose segments have two points or more."""
    for number in range(count // 2):
        for inner in itertools.combinations(range(2, count - 1), number):
            borders = [0, *inner, count]
            if all(end - start >= 2 for start, end in itertools.pairwise(borders)):
                yield borders


@pytest.mark.parametrize("seed", range(30))
def test_borders_are_the_best_of_all_segmentations(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(4, 13))
    values = random.normal(0, 1, count) + 3 * (random.random(count) < 0.4)
    weight = random.uniform(0.3, 3, count)
    penalty = float(random.uniform(0.5, 6))
    best = min(cost(values, weight, borders, penalty) for borders in every_segmentation(count))
    borders = best_borders(values, weight, penalty=penalty, longest=count)
    assert cost(values, weight, borders, penalty) == pytest.approx(best)


def best_segmentation(values, weight, penalty, longest):
    """Borders of least cost, by trying every start of a last segment for every end."""
    best, before = {0: -penalty}, {}
    for end in range(2, len(values) + 1):
        costs = {}
        for start in (start for start in best if 2 <= end - start <= longest):
            x, w = values[start:end], weight[start:end]
            costs[start] = best[start] + penalty + float(w @ x**2 - (w @ x) ** 2 / w.sum())
        before[end] = min(costs, key=costs.get)
        best[end] = costs[before[end]]
    borders = [len(values)]
    while borders[-1]:
        borders.append(before[borders[-1]])
    return borders[::-1]


@pytest.mark.parametrize("seed", range(8))
def test_borders_of_a_longer_series_are_the_best_that_a_plain_search_finds(seed):
    random = np.random.default_rng(seed)
    levels = np.repeat(random.normal(0, 2, 60), random.integers(1, 12, 60))[:300]
    values = levels + random.standard_t(3, len(levels))
    weight = random.uniform(0.3, 3, len(values))
    penalty = float(random.choice([1, 6, 20]))
    longest = int(random.choice([20, 300]))
    expected = best_segmentation(values, weight, penalty, longest)
    assert best_borders(values, weight, penalty=penalty, longest=longest) == expected


def noise(random, count=400):
    return random.normal(0, 0.1, count)


def test_a_step_is_dated_exactly_where_it_stands_out():
    values = noise(np.random.default_rng(1))
    values[150:190] += 1.6
    assert segment(values, np.zeros(400)).borders == [0, 150, 190, 400]


def test_noise_has_no_change_points_nor_has_one_slow_second():
    for seed in range(50):
        values = noise(np.random.default_rng(seed))
        values[200] += 4
        assert segment(values, np.zeros(400)).borders == [0, 400]


def test_two_slow_seconds_are_a_change():
    values = noise(np.random.default_rng(1))
    values[200:202] += 2
    assert segment(values, np.zeros(400)).borders == [0, 200, 202, 400]


def series(values):
    count = len(values)
    return Series("block", None, np.arange(count), values + 13, np.zeros(count), np.full(count, 100.0))


def test_a_drift_is_normal_and_what_stands_out_of_it_is_not():
    random = np.random.default_rng(2)
    drift = 0.5 * np.sin(2 * np.pi * np.arange(3600) / 3600) + random.normal(0, 0.1, 3600)
    assert judge(series(drift)).stretches == []
    drift[900:960] += np.log(2)
    judged = judge(series(drift))
    assert [(stretch.first, stretch.end) for stretch in judged.stretches] == [(900, 960)]
    (found,) = judged.stretches
    assert abs(found.excess - np.log(2)) < 2 * found.excess_error


def test_what_stays_slow_until_the_recording_ends_is_slow():
    values = noise(np.random.default_rng(3), 600)
    values[250:] += np.log(3)
    assert [(stretch.first, stretch.end) for stretch in judge(series(values)).stretches] == [(250, 600)]


def test_storage_that_recovers_slowly_is_slow_from_the_jump_on():
    values = noise(np.random.default_rng(4), 600)
    values[200:] += 2 * np.exp(-np.arange(400) / 20)
    (found,) = judge(series(values)).stretches
    assert found.first == 200
    assert 220 <= found.end <= 260


def test_idle_seconds_are_no_values():
    values = noise(np.random.default_rng(5), 300)
    values[100:120] += 1
    sparse = series(values)
    sparse.at = sparse.at * 3
    assert [(stretch.first, stretch.end) for stretch in judge(sparse).stretches] == [(300, 358)]


def test_a_constant_series_has_no_stretch():
    assert judge(series(np.zeros(100))).stretches == []


@pytest.mark.parametrize("slots", [3, 60])
def test_what_is_said_to_be_found_is_found(slots):
    """In nine of ten cases, as is said."""
    found = 0
    for seed in range(30):
        values = np.random.default_rng(seed).normal(0, 0.5, 400)
        excess = judge(series(values)).least_excess(slots)
        values[200 : 200 + slots] += excess
        found += any(s.first < 200 + slots and s.end > 200 for s in judge(series(values)).stretches)
    assert found >= 27
