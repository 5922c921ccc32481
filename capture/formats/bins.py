"""Histograms: what can be said of means and quantiles where only the bins are known that values fell into."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

QUANTILES: Final = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Bin:
    """``count`` values, each of at least ``least`` and at most ``most``."""

    least: float
    most: float
    count: int


def mean_bounds(bins: Sequence[Bin]) -> tuple[float, float]:
    """The least and the most that the mean can be. The bins must hold a value."""
    total = sum(one.count for one in bins)
    return (
        sum(one.least * one.count for one in bins) / total,
        sum(one.most * one.count for one in bins) / total,
    )


def quantile_bounds(bins: Sequence[Bin]) -> Iterator[tuple[float, float, float]]:
    """Each of `QUANTILES` with the bounds of the bin it lies in. Bins in ascending order; they must hold a value."""
    total = sum(one.count for one in bins)
    for quantile in QUANTILES:
        passed = 0
        for one in bins:
            passed += one.count
            if passed >= quantile * total:
                yield quantile, one.least, one.most
                break
