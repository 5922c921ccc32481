"""Latency that breaks within a step although all of the load is carried: on levels planted by hand."""

import numpy as np
import pytest

from iotrace.analyze.knee.step import latency_break

LOAD = np.full(48, 1000.0)


def medians(*levels, seed=1):
    """48 stretches, as many of each level as there is room for, with 5 % of noise."""
    random = np.random.default_rng(seed)
    return np.repeat(np.array(levels, dtype=float), 48 // len(levels)) * np.exp(random.normal(0, 0.05, 48))


@pytest.mark.parametrize("times", [2.5, 10])
def test_the_moment_and_both_levels_are_found(times):
    found = latency_break(medians(2e5, 2e5, 2e5 * times), LOAD)
    assert found.at_share == pytest.approx(2 / 3, abs=1 / 24)
    assert found.before_ns == pytest.approx(2e5, rel=0.05)
    assert found.after_ns == pytest.approx(2e5 * times, rel=0.05)


def test_a_spell_that_ends_is_no_break():
    assert latency_break(medians(2e5, 8e5, 2e5), LOAD) is None
    assert latency_break(medians(8e5, 2e5, 2e5), LOAD) is None


def test_a_little_slower_is_no_break():
    assert latency_break(medians(2e5, 3e5), LOAD) is None


def test_latency_that_follows_the_load_is_no_break():
    assert latency_break(medians(2e5, 8e5), np.repeat([500.0, 1000.0], 24)) is None


def test_noise_alone_seldom_breaks():
    random = np.random.default_rng(2)
    rows = 2e5 * np.exp(random.normal(0, 0.3, (200, 48)))
    assert sum(latency_break(row, LOAD) is not None for row in rows) <= 1
