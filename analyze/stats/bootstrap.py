"""Uncertainty of sums over time: a circular block bootstrap whose intervals know how few blocks there were.

What is resampled is a series: one figure per slot of time, such as how many I/Os of that slot lie below a latency.
Neighbouring slots depend on one another, so they are drawn in blocks of consecutive ones (Künsch 1989, The jackknife
and the bootstrap for general stationary observations) from the circle that the slots form (Politis & Romano 1992).

- Length of a block: chosen from the series by Politis & White 2004, Automatic block-length selection for the
  dependent bootstrap, as corrected by Patton, Politis & White 2009, and half as long again: that length makes the
  variance most exact, intervals cover better with longer blocks. At least the cube root of the number of slots.
- Few blocks: the variance over blocks is itself uncertain. Draws are widened from the normal to the t distribution,
  whose degrees of freedom come from the spectrum of the block kernel (Satterthwaite 1946; the idea of Shao & Politis
  2013, Fixed b subsampling and the block bootstrap) and are lowered where a few blocks make up most of the variance
  (Box 1953, Non-normality and tests on variances: by the kurtosis of the block sums).

Limits: changes slower than about a tenth of the recording are not in the interval; a recording is one night, not all
nights. docs/experiments/describe-and-compare.md says in what conditions how many 95 % intervals held the truth.
"""

import math
from functools import cache
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.schemas.arrays import Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
SLOTS_MAX: Final = 240
SLOTS_MIN: Final = 20
"""Fewer slots with I/Os than this give no interval."""
REPLICATES: Final = 2000


_COVERAGE: Final = 0.95
_LONGER: Final = 1.5
DEGREES_MIN: Final = 5.0
"""What is left when one stretch of time makes up all of the variance."""


def t_quantile(share: float, degrees: float) -> float:
    """The value below which a ``share`` (one half or more) of the t distribution lies; ``degrees``: 1 to 10,000, real.

    With t = sqrt(n) tan(a) its density becomes cos(a) ** (n - 1) over B(1/2, n/2), which is smooth: what lies between
    0 and a is integrated by Gauss and Legendre's rule, and a found by bisection. SciPy has the same (``stats.t.ppf``),
    but would have to be there wherever a replay says how like its recording it was.
    """
    whole = math.exp(math.lgamma(0.5) + math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2))
    wanted = (share - 0.5) * whole

    def below(angle: float) -> float:
        logs = (degrees - 1) * np.log(np.cos(angle * (_NODES + 1) / 2))
        return float(angle / 2 * (_WEIGHTS @ np.exp(logs)))

    # Nearly all lies within some standard deviations, 1 / sqrt(n) each: beyond, the rule's nodes would be too few.
    low, high = 0.0, min(math.pi / 2, 40 / math.sqrt(degrees))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < wanted else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def resampled_errors(series: npt.ArrayLike, generator: np.random.Generator) -> Floats:
    """Draws of the sampling error of the series' sums, `REPLICATES` of them.

    ``series`` is one row of slots in time order, or several rows that are resampled together (the same stretches of
    time for all of them); the result is of shape [replicates] or [rows, replicates]. An error is a resampled sum less
    the sum, widened for the number of blocks there are.
    """
    rows = np.atleast_2d(np.asarray(series, dtype=np.float64))
    length = max(block_slots(row) for row in rows)
    sums = block_sums(rows, length)
    factors = np.array([widening(row, length) for row in sums])
    drawn = resampled_sums(sums, length, generator) * factors[:, None]
    return np.asarray(drawn[0] if np.ndim(series) == 1 else drawn)


def block_sums(rows: Floats, length: int) -> Floats:
    """Sums of ``length`` consecutive slots starting at each, around the circle, less their mean; [rows, slots]."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    around = np.cumsum(np.concatenate([centred, centred[:, : length - 1]], axis=1), axis=1)
    around = np.concatenate([np.zeros((len(rows), 1)), around], axis=1)
    return np.asarray(around[:, length:] - around[:, :-length])


def resampled_sums(sums: Floats, length: int, generator: np.random.Generator) -> Floats:
    """Sums of blocks drawn at random, as many as make up the series, the same for all rows; [rows, replicates]."""
    slots = sums.shape[1]
    count = round(slots / length)
    starts = generator.integers(0, slots, (REPLICATES, count))
    # Blocks of a circle scatter about its mean, not about the truth, by 1 - length/slots less.
    exact = np.sqrt(slots / (count * length) / (1 - length / slots))
    return np.asarray(sums[:, starts].sum(axis=2) * exact)


def widening(sums: Floats, length: int) -> float:
    """From the normal to the t distribution of as many degrees of freedom as the variance of block sums has."""
    slots = len(sums)
    degrees = degrees_of_freedom(slots, length)
    variance = float(np.mean(sums**2))
    if variance > 0:
        excess = max(float(np.mean(sums**4)) / variance**2 - 3.0, 0.0)
        degrees = max(2 * degrees / (2 + excess * degrees * length / slots), DEGREES_MIN)
    point = (1 + _COVERAGE) / 2
    return t_quantile(point, degrees) / NormalDist().inv_cdf(point)


def interval(replicates: Floats) -> tuple[float, float]:
    """The middle 95 % of replicates (percentile interval)."""
    low, high = np.quantile(replicates, [(1 - _COVERAGE) / 2, (1 + _COVERAGE) / 2])
    return float(low), float(high)


def block_slots(series: npt.ArrayLike) -> int:
    """Length of a block in slots: what the autocorrelation of the series asks for, at most a quarter of it."""
    values = np.asarray(series, dtype=np.float64)
    shortest = len(values) ** (1 / 3)
    return max(min(int(np.ceil(max(_LONGER * optimal_block(values), shortest))), len(values) // 4), 1)


def optimal_block(series: npt.ArrayLike) -> float:
    """Optimal block length of the circular bootstrap (Politis & White 2004, section 3.2; constants of Patton 2009).

    A cut-off beyond which autocorrelations are not noticeable gives a flat-top lag window, that window the spectrum at
    zero, and the two the length. 1 for a constant series.
    """
    values = np.asarray(series, dtype=np.float64)
    count = len(values)
    centred = values - values.mean()
    if count < 8 or not centred @ centred > 1e-18 * (values @ values):
        return 1.0
    in_a_row = max(5, int(np.ceil(np.sqrt(np.log10(count)))))
    longest = int(np.ceil(np.sqrt(count))) + in_a_row
    spectrum = np.fft.rfft(centred, 2 * count)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum))[: longest + 1] / count
    noticeable = np.abs(covariance[1:]) >= 2 * np.sqrt(np.log10(count) / count) * covariance[0]
    runs = np.convolve(noticeable, np.ones(in_a_row), "valid")
    quiet = np.flatnonzero(runs == 0)
    cut = int(quiet[0]) if len(quiet) else longest
    width = min(2 * max(cut, 1), longest)
    lags = np.arange(1, width + 1)
    window = np.minimum(1.0, 2 * (1 - lags / width))
    weighted = window * covariance[1 : width + 1]
    at_zero = covariance[0] + 2 * weighted.sum()
    if at_zero <= 0:
        return 1.0
    bend = 2 * (weighted * lags).sum()
    length = (2 * bend**2 / (4 / 3 * at_zero**2)) ** (1 / 3) * count ** (1 / 3)
    return float(min(max(length, 1.0), np.ceil(min(3 * np.sqrt(count), count / 3))))


@cache
def degrees_of_freedom(slots: int, length: int) -> float:
    """Of the variance of circular block sums of independent slots: frequencies count by the kernel's power there."""
    frequency = np.pi * np.arange(1, slots) / slots
    power = (np.sin(length * frequency) / np.sin(frequency)) ** 2
    return float(power.sum() ** 2 / (power**2).sum())
