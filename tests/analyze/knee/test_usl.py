"""The Universal Scalability Law: parameters that are planted, and the laws it contains."""

import numpy as np
import pytest

from iotrace.analyze.knee.estimators import _estimate, fit_usl

LOAD = np.array([1, 2, 4, 8, 12, 16, 24, 32, 48, 64])


def law(load, rate, sigma, kappa):
    return rate * load / (1 + sigma * (load - 1) + kappa * load * (load - 1))


@pytest.mark.parametrize(
    ("sigma", "kappa"), [(0.02, 0.0005), (0.1, 0.0001), (0.0, 0.002), (0.05, 0.0), (0.0, 0.0)]
)
def test_planted_parameters_are_found(sigma, kappa):
    found = fit_usl(LOAD, law(LOAD, 900, sigma, kappa))

    assert found.rate_of_one.value == pytest.approx(900, rel=1e-6)
    assert found.sigma.value == pytest.approx(sigma, abs=1e-6)
    assert found.kappa.value == pytest.approx(kappa, abs=1e-8)
    assert found.misfit < 1e-6
    assert found.throughput(LOAD) == pytest.approx(law(LOAD, 900, sigma, kappa))


def test_peak_lies_where_the_law_has_it():
    """Gunther 2007, eq. 4.33: N of greatest throughput is sqrt((1 - sigma) / kappa)."""
    found = fit_usl(LOAD, law(LOAD, 900, 0.02, 0.0005))

    assert found.peak_at == pytest.approx((0.98 / 0.0005) ** 0.5)
    many = np.linspace(1, 200, 20_000)
    assert found.ceiling.value == pytest.approx(law(many, 900, 0.02, 0.0005).max(), rel=1e-6)


def test_balanced_queues_are_contained_in_it():
    """N on M equal stations carry N / (N + M - 1) of M (Lazowska et al. 1984): sigma = 1/M, and M is the ceiling."""
    found = fit_usl(LOAD, 8 * LOAD / (LOAD + 7))

    assert found.sigma.value == pytest.approx(1 / 8)
    assert found.kappa.value == pytest.approx(0, abs=1e-9)
    assert found.peak_at is None
    assert found.ceiling.value == pytest.approx(8)


def test_an_open_mm1_queue_has_its_capacity_as_ceiling():
    """With rho / (1 - rho) in the system on average, throughput is capacity N / (1 + N)."""
    utilisation = np.array([0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95])
    found = fit_usl(utilisation / (1 - utilisation), 2000 * utilisation)

    assert found.ceiling.value == pytest.approx(2000, rel=1e-6)


def test_growth_without_end_has_no_ceiling():
    assert fit_usl(LOAD, 100.0 * LOAD).ceiling is None


def parameters_covered(runs):
    sigmas = kappas = 0
    for seed in range(runs):
        random = np.random.default_rng([5, seed])
        sigma, kappa = float(random.uniform(0.01, 0.1)), float(random.uniform(1e-4, 1e-3))
        noise = np.exp(random.normal(0, 0.02, len(LOAD)))
        found = fit_usl(LOAD, law(LOAD, 900, sigma, kappa) * noise)
        sigmas += found.sigma.low <= sigma <= found.sigma.high
        kappas += found.kappa.low <= kappa <= found.kappa.high
    return sigmas, kappas


def test_intervals_cover_the_planted_parameters():
    assert min(parameters_covered(20)) >= 16


@pytest.mark.slow
def test_intervals_cover_the_planted_parameters_in_a_hundred_runs():
    assert min(parameters_covered(100)) >= 90


def test_a_corner_does_not_fit():
    """Ten times the load beyond a queue depth of 4: nothing smooth goes through it."""
    load = np.array([1, 2, 3, 4, 6, 8, 12, 16, 32, 40])
    assert not fit_usl(load, 1000.0 * np.minimum(load, 4)).fits


@pytest.mark.parametrize(
    ("load", "rate"), [([1, 2, 4], [1, 2, 3]), ([2, 2, 2, 2], [1, 1, 1, 1]), ([0, 1, 2, 4], [1] * 4)]
)
def test_too_little_is_not_fitted(load, rate):
    assert fit_usl(load, rate) is None
    assert fit_usl(LOAD[:4], law(LOAD[:4], 900, 0.02, 0.0005)) is not None


def test_an_interval_holds_its_figure_though_no_draw_came_near_it():
    draws = np.linspace(8, 9, 100)
    low, high = (_estimate(np.array([figure, *draws])) for figure in (5.0, 12.0))
    assert (low.low, high.high) == (5, 12)
    assert low.high < 9
    assert high.low > 8
