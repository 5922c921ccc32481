"""As many digits of a scale as its interval bears."""

from types import SimpleNamespace

import pytest

from iotrace.analyze.knee.estimators import Estimate
from iotrace.analyze.knee.words import _level, scale_text


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (Estimate(3.61, 3.32, 3.93), "3.6x [3.3, 3.9]"),
        (Estimate(1.052, 1.041, 1.063), "1.05x [1.04, 1.06]"),
        (Estimate(36.42, 36.11, 36.73), "36.4x [36.1, 36.7]"),
        (Estimate(36.42, 36.41, 36.43), "36.4x"),
    ],
)
def test_a_scale_has_the_digits_that_its_interval_bears(scale, words):
    assert scale_text(scale) == words


@pytest.mark.parametrize(
    ("medians_ns", "words"),
    [
        ([0, 0], "the model states no latency"),
        ([200_000, 300_000, 400_000], "median response 0.20 ms at the lowest load judged, 0.40 ms there"),
        ([200_000], "median response 0.20 ms"),
        ([], "latency not known"),
    ],
)
def test_the_median_of_the_lowest_load_is_said_with_that_of_the_highest_kept_up(medians_ns, words):
    kept = [SimpleNamespace(is_saturated=False, response_ns={"p50": median}) for median in medians_ns]
    others = [
        SimpleNamespace(is_saturated=True, response_ns={"p50": 9_000_000}),
        SimpleNamespace(is_saturated=False, response_ns={"p50": None}),
    ]
    assert _level([*kept, *others]) == words
