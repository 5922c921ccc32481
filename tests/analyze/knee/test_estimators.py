"""The estimators on curves whose bend is known by construction or by law."""

import numpy as np
import pytest

from iotrace.analyze.knee import estimators


def bent(x, knee, slope=0.001, steeper=0.02):
    return slope * x + steeper * np.maximum(0, x - knee)


@pytest.mark.parametrize("knee", [300.0, 510.0, 777.0])
def test_the_corner_of_two_lines_is_found(knee):
    x = np.linspace(50, 1000, 12)
    found = estimators.knees_on_grid(x, bent(x, knee))[0]
    # Of corners that are equally good within `WIGGLE` the last is taken: later than planted, if anything.
    assert knee - 1000 / estimators.GRID <= found <= knee + 0.25 * (x[1] - x[0])


def test_a_straight_line_has_no_bend():
    x = np.linspace(50, 1000, 12)
    noise = np.random.default_rng(1).normal(0, 0.02, (200, 12))
    knees = estimators.knees_on_grid(x, 0.001 * x + noise)
    assert np.mean(knees == x[-1]) > 0.95


def test_a_downward_bend_is_not_a_knee():
    x = np.linspace(50, 1000, 12)
    assert estimators.knees_on_grid(x, -bent(x, 500))[0] == x[-1]


def test_kneedle_finds_the_corner_of_a_hockey_stick():
    x = np.linspace(0, 100, 21)
    assert estimators.kneedle(x, 1 + 10 * np.maximum(0, x - 70)) == 70


def test_kneedle_sees_no_knee_in_a_line():
    x = np.linspace(0, 100, 21)
    assert estimators.kneedle(x, 2 * x) is None


def test_kneedle_agrees_with_the_papers_example():
    # Satopää et al. 2011, figure 2: y = -1/(x + 0.1) + 5 on [0, 1] with 10 points has its knee at x = 0.22.
    # The paper's curve is concave; mirrored in both axes it is the convex rise that this function takes.
    x = np.linspace(0, 1, 10)
    y = -1 / (x + 0.1) + 5
    assert 1 - estimators.kneedle(1 - x[::-1], -y[::-1]) == pytest.approx(0.22, abs=0.01)


def test_power_of_an_mm1_queue_peaks_at_half_its_capacity():
    # Kleinrock 1979: rho / (1 / (1 - rho)) is greatest at rho = 1/2.
    utilisation = np.linspace(0.05, 0.95, 19)
    latency = 1 / (1 - utilisation)
    assert estimators.peak_power(utilisation, utilisation, latency) == pytest.approx(0.5)


def test_storage_that_answers_at_once_has_its_greatest_power_where_it_last_does():
    """As a model without service times does, up to where its throttle lets I/Os wait."""
    load = np.array([1.0, 2.0, 3.0, 4.0])
    assert estimators.peak_power(load, load, np.zeros(4)) == 4
    assert estimators.peak_power(load, load, np.array([0.0, 0.0, 0.0, 1e6])) == 3
