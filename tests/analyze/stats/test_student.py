"""Quantiles of Student's t distribution are SciPy's."""

import pytest
from scipy import stats

from iotrace.analyze.stats.bootstrap import t_quantile


@pytest.mark.parametrize("degrees", [1.0, 1.5, 2.0, 5.0, 7.3, 30.0, 239.0, 1e4])
@pytest.mark.parametrize("share", [0.5, 0.6, 0.9, 0.975, 0.995])
def test_it_is_scipys(share: float, degrees: float) -> None:
    assert t_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-9, abs=1e-12)


def test_it_is_the_printed_tables() -> None:
    assert [round(t_quantile(0.975, degrees), 3) for degrees in (1, 2, 5, 10, 30, 120)] == [
        12.706, 4.303, 2.571, 2.228, 2.042, 1.980,
    ]  # fmt: skip
