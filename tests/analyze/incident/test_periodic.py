"""Windows that follow one another: what makes a pattern, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.incident.periodic import _chain, patterns_of


def window(first, length=5, excess=1.0):
    strongest = (None, SimpleNamespace(excess=excess))
    return SimpleNamespace(first=first, end=first + length, strongest=strongest)


def test_five_alike_are_a_pattern_and_what_comes_between_is_none():
    odd = window(130)
    every = [window(60 * index) for index in range(5)]
    (pattern,), rest = patterns_of([*every, odd], 300)
    assert (pattern.members, rest) == (every, [odd])
    assert pattern.period == pytest.approx(60)


def test_four_alike_and_a_longer_one_are_none():
    every = [window(0), window(60), window(120, length=50), window(180), window(240)]
    assert patterns_of(every, 300) == ([], every)


def test_what_is_longer_or_slower_breaks_the_pattern():
    long, slow = window(120, length=50), window(240, excess=3.0)
    every = [window(0), window(60), long, window(180), slow, window(300), window(360), window(420)]
    (pattern,), rest = patterns_of(every, 480)
    assert len(pattern.members) == 6
    assert rest == [long, slow]


def test_what_recurs_for_less_than_half_of_the_recording_is_no_pattern():
    every = [window(20 * index) for index in range(5)]
    assert patterns_of(every, 300) == ([], every)
    assert len(patterns_of(every, 190)[0]) == 1


def at_random(seed, count, slots=60_000):
    chance = np.random.default_rng(seed)
    starts = np.sort(chance.integers(0, slots, count))
    return [window(int(first), int(chance.integers(2, 7))) for first in starts]


@pytest.mark.parametrize("count", [6, 12, 40, 100])
def test_windows_at_random_moments_have_no_period(count):
    """Some always happen to lie a whole number of any periods apart: of 100 windows, most of them."""
    claimed = sum(bool(patterns_of(at_random(seed, count), 60_000)[0]) for seed in range(50))
    assert claimed <= 2


@pytest.mark.parametrize("others", [0, 10, 40])
def test_a_period_among_windows_at_random_moments_is_found(others):
    """Every 3,000 slots, give or take 2 % from one to the next."""
    for seed in range(10):
        steps = np.random.default_rng(1000 + seed).normal(3000, 60, 20)
        every = [window(int(first)) for first in np.cumsum(steps) - 2000]
        pattern = patterns_of([*every, *at_random(seed, others)], 60_000)[0][0]
        assert abs(pattern.period / 3000 - 1) < 0.03
        assert len([one for one in pattern.members if one in every]) >= 17


def test_a_checkpoint_every_minute_of_a_whole_day_is_one_pattern():
    every = [window(30 * index + index % 3, length=2) for index in range(1440)]
    (pattern,), rest = patterns_of(every, 43_200)
    assert (len(pattern.members), rest) == (1440, [])


@pytest.mark.parametrize("sixteenth", [False, True])
def test_cycles_without_a_window_may_be_seven_in_ten(sixteenth):
    """Of 22 minutes six or seven have a window, at whole minutes and nowhere else: 27 % or 32 %."""
    minutes = [0, 1, 6, 10, 15, *([16] if sixteenth else []), 21]
    every = [window(1000 * minute) for minute in minutes]
    patterns, rest = patterns_of(every, 22_000)
    assert [one.members for one in patterns] == ([every] if sixteenth else [])
    assert rest == ([] if sixteenth else every)


@pytest.mark.parametrize(("later", "off"), [(0, 0), (2, 2)])
def test_how_far_off_a_chain_is_is_the_most_that_a_start_is_from_where_it_is_due(later, off):
    chain = _chain([0, 60, 120, 180, 240 + later], 1, 60)
    assert (chain.members, chain.cycles, chain.off) == ([0, 1, 2, 3, 4], 4, off)
