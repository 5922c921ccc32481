"""The bootstrap against laws, another tool's figures, and planted truth: intervals cover as often as they say."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from iotrace.analyze.compare.class_latency import QUANTITIES, estimate, estimate_together
from iotrace.analyze.stats import bootstrap

from ..planted import HEAVY, LOGNORMAL, Planted

QUANTILES = list(QUANTITIES)


def _autoregressive(seed, correlation, count):
    return lfilter([1.0], [1.0, -correlation], np.random.default_rng(seed).normal(size=count))


@pytest.mark.parametrize(("correlation", "count"), [(0.5, 1000), (0.7, 1000), (0.5, 4000)])
def test_block_length_is_what_theory_gives_for_an_autoregression(correlation, count):
    """Politis & White 2004, with the constant of 2009: (3/2 (2 r / (1 - r^2))^2)^(1/3) n^(1/3) for an AR(1)."""
    theory = (1.5 * (2 * correlation / (1 - correlation**2)) ** 2) ** (1 / 3) * count ** (1 / 3)
    found = [bootstrap.optimal_block(_autoregressive(seed, correlation, count)) for seed in range(200)]
    assert np.median(found) == pytest.approx(theory, rel=0.15)


@pytest.mark.parametrize(
    ("seed", "correlation", "count", "expected"),
    [
        (1, 0.0, 240, 2.658902035118187),
        (4, 0.95, 240, 24.543245600779176),
        (7, 0.9, 1000, 48.650325254213826),
    ],
)
def test_block_length_equals_that_of_the_package_arch(seed, correlation, count, expected):
    """arch 8.0.0, optimal_block_length()["circular"]; only where its cut-off, one lag further, changes nothing."""
    assert bootstrap.optimal_block(_autoregressive(seed, correlation, count)) == pytest.approx(expected)


@pytest.mark.parametrize("length", [1, 8, 40])
def test_variance_of_block_sums_has_the_degrees_of_freedom_it_is_given(length):
    """A variance with nu degrees of freedom has a relative variance of 2/nu, and 1 - length/slots of the mean."""
    rows = np.random.default_rng(length).normal(size=(4000, 240))
    variances = (bootstrap.block_sums(rows, length) ** 2).mean(axis=1) / length
    assert variances.mean() == pytest.approx(1 - length / 240, rel=0.02)
    relative = variances.var() / variances.mean() ** 2
    assert relative == pytest.approx(2 / bootstrap.degrees_of_freedom(240, length), rel=0.1)


def test_errors_have_the_variance_of_the_sum():
    """The sum of n of an AR(1) has variance n / (1 - r)^2, in blocks of l 2r / (1 - r^2) / l less (Künsch 1989)."""
    generator = np.random.default_rng(0)
    for correlation in (0.0, 0.5):
        rows = np.array([_autoregressive(seed, correlation, 960) for seed in range(200)])
        drawn = bootstrap.resampled_sums(bootstrap.block_sums(rows, 24), 24, generator)
        seen = (1 - 2 * correlation / (1 - correlation**2) / 24) / (1 - correlation) ** 2
        assert drawn.var(axis=1).mean() / 960 == pytest.approx(seen, rel=0.05)


def test_a_stretch_that_makes_up_everything_widens_most():
    quiet, spell = np.random.default_rng(1).normal(size=240), np.zeros(240)
    spell[100] = 1000.0
    factors = [bootstrap.widening(bootstrap.block_sums(row[None], 7)[0], 7) for row in (quiet, spell)]
    most = stats.t.ppf(0.975, bootstrap.DEGREES_MIN) / stats.norm.ppf(0.975)
    assert factors[0] < 1.1 < factors[1] == pytest.approx(most)


def _coverage(planted, trials, *, shared=None):
    """Share of 95 % intervals of the ratio of two recordings, one planted twice as slow, that hold 2; per quantile.

    Hardly any pair may be without one. With ``shared`` the two are in step, and that much of their normal scores'
    correlation comes from the common load.
    """
    hits, given = np.zeros(len(QUANTILES)), np.zeros(len(QUANTILES))
    for trial in range(trials):
        scores = [None, None]
        if shared is not None:
            source = np.random.default_rng([trial, 9])
            load = planted.scores(source)
            scores = [shared * load + np.sqrt(1 - shared**2) * planted.scores(source) for _ in range(2)]
        one, other = (
            planted.class_latency(
                *planted.draw([trial, 0 if shared else number], factor, scores=scores[number])
            )
            for number, factor in enumerate((1.0, 2.0))
        )
        for index, quantity in enumerate(QUANTILES):
            if shared is None:
                pair = estimate(one, quantity, [trial, 0]), estimate(other, quantity, [trial, 1])
            else:
                pair = estimate_together(one, other, quantity, [trial])
            if pair[0].replicates_ns is not None and pair[1].replicates_ns is not None:
                low, high = bootstrap.interval(pair[1].replicates_ns / pair[0].replicates_ns)
                hits[index] += low <= 2 <= high
                given[index] += 1
    assert (given >= 0.99 * trials).all(), given
    return hits / given


CONDITIONS = {
    "independent, log-normal": (Planted(LOGNORMAL), None),
    "independent, heavy tail": (Planted(HEAVY), None),
    "correlation 0.9, log-normal": (Planted(LOGNORMAL, 0.9), None),
    "correlation 0.9, heavy tail": (Planted(HEAVY, 0.9), None),
    "correlation 0.97, 60,000 I/Os": (Planted(LOGNORMAL, 0.97, 60_000), None),
    "in step, correlation 0.9, log-normal": (Planted(LOGNORMAL, 0.9), 0.9),
    "in step, correlation 0.9, heavy tail": (Planted(HEAVY, 0.9), 0.9),
}
"""20,000 I/Os on each side unless said otherwise; the correlation is that of neighbouring I/Os."""


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_95_percent_interval_covers_93_to_97_percent_of_1000_trials(condition):
    planted, shared = CONDITIONS[condition]
    coverage = _coverage(planted, 1000, shared=shared)
    assert ((coverage >= 0.93) & (coverage <= 0.97)).all(), dict(zip(QUANTILES, coverage, strict=True))


@pytest.mark.parametrize("condition", ["independent, heavy tail", "in step, correlation 0.9, log-normal"])
def test_intervals_cover_in_a_hundred_trials_what_chance_allows(condition):
    """Of 100 intervals that cover 95 %, fewer than 88 or more than 99.9 cover once in 500 runs."""
    planted, shared = CONDITIONS[condition]
    coverage = _coverage(planted, 100, shared=shared)
    assert ((coverage >= 0.88) & (coverage <= 0.999)).all(), dict(zip(QUANTILES, coverage, strict=True))


def test_recordings_in_step_leave_out_what_the_load_did_to_both():
    """Nine tenths of the score come from the load: the ratio is known far better than the latencies."""
    planted = Planted(LOGNORMAL, 0.99)
    source = np.random.default_rng(5)
    load = planted.scores(source)
    scores = [0.95 * load + np.sqrt(1 - 0.95**2) * planted.scores(source) for _ in range(2)]
    one, other = (planted.class_latency(*planted.draw(3, 1.0, scores=score)) for score in scores)
    widths = []
    for pair in (
        (estimate(one, "p50", [1]), estimate(other, "p50", [2])),
        estimate_together(one, other, "p50", [1]),
    ):
        low, high = bootstrap.interval(pair[1].replicates_ns / pair[0].replicates_ns)
        widths.append(high - low)
    assert widths[1] < 0.6 * widths[0]


def test_a_tail_that_one_spell_made_has_no_interval():
    """All of the slowest 2 % come from one stretch: how slow the next such stretch is, nobody knows."""
    planted = Planted(LOGNORMAL)
    times, latency = planted.draw(1)
    spell = (times > planted.length_ns * 0.50) & (times < planted.length_ns * 0.52)
    found = {
        quantity: estimate(
            planted.class_latency(times, np.where(spell, latency * 50, latency)), quantity, [1]
        )
        for quantity in QUANTILES
    }
    assert found["p50"].replicates_ns is not None
    assert found["p99"].value_ns > 5_000_000
    assert found["p99"].replicates_ns is None


def test_latencies_in_whole_milliseconds_keep_an_interval_of_whole_milliseconds():
    planted = Planted()
    times, latency = planted.draw(4)
    rounded = np.maximum(latency // 1_000_000, 1) * 1_000_000
    found = estimate(planted.class_latency(times, rounded), "p50", [1])
    assert bootstrap.interval(found.replicates_ns) == pytest.approx((1_000_000, 1_000_000), rel=0.001)
