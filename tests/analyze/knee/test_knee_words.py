"""As many digits of a scale as its interval bears."""

import pytest

from iotrace.analyze.knee.estimators import Estimate
from iotrace.analyze.knee.words import scale_text


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
