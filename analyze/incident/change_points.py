"""Where the level of a noisy series changes: penalised least squares, solved exactly.

The method is optimal partitioning (Jackson et al. 2005, "An algorithm for optimal partitioning of data on an interval",
IEEE Signal Processing Letters 12; `_tally.best_borders`), for changes of the mean of a Gaussian series with known,
unequal variances. Three things are added, because latencies are not Gaussian:

- A single point that stands out from both its neighbours is set back to their median before the search (Hampel's
  filter of width three), so one slow second is no level. Two of them are.
- The noise is measured robustly, around a running median, so that the changes looked for do not count as noise.
- The penalty is 3 ln(n) and is raised by what a first search leaves over: by (1 + r) / (1 - r) for residuals whose
  neighbours correlate by r (the variance of a mean of an AR(1) series), and by their variance where tails are heavy.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.analyze._tally import best_borders
from iotrace.schemas.arrays import Floats

Flags = npt.NDArray[np.bool_]

_SPAN_POINTS: Final = 21
_LONGEST_POINTS: Final = 2048
"""Segments are cut at this length, so that time grows with the series and not with its square; a cut without a jump is
no change to anyone."""
_NOISE_FLOOR: Final = 0.03
"""Levels that repeat within 3 % differ by nothing anyone would call slow."""
_MAD_TO_SIGMA: Final = 1.4826


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Segments of a series: ``borders`` are positions, first 0 and last the length."""

    borders: list[int]
    weight: Floats
    """One over the variance of each point."""
    penalty: float
    """What a change has to save to be one, in units of the noise's variance."""
    inflation: float = 1.0
    """How much more the mean of neighbouring points varies than that of independent ones."""


def segment(values: Floats, within_variance: Floats, *, extra_penalty: float = 0.0) -> Segmentation:
    """Segments of ``values``, at least two points each.

    ``within_variance`` is what is known of each point's variance (that of a mean over few I/Os); what points vary
    beyond it is estimated. ``extra_penalty`` pays for looking at several series.
    """
    count = len(values)
    if count < 4:
        return Segmentation([0, count], np.ones(count), 0.0)
    local = values - running_median(values, _SPAN_POINTS)
    beyond = max(
        robust_sigma(local - np.median(local)) ** 2 - float(np.median(within_variance)), _NOISE_FLOOR**2
    )
    weight = 1 / (beyond + within_variance)
    scaled = local * np.sqrt(weight)
    weight /= max(robust_sigma(scaled - np.median(scaled)) ** 2, 0.25)
    smooth = without_single_outliers(values, weight)
    penalty = 3 * float(np.log(count)) + extra_penalty
    borders = best_borders(smooth, weight, penalty=penalty, longest=_LONGEST_POINTS)
    inflation = _inflation(smooth, weight, borders)
    if inflation > 1.05:
        borders = best_borders(smooth, weight, penalty=penalty * inflation, longest=_LONGEST_POINTS)
    return Segmentation(borders, weight, penalty * inflation, inflation)


def running_median(values: Floats, span: int) -> Floats:
    """Median of ``span`` (odd) neighbours of each point; at the ends of the nearest whole span's, mirrored."""
    half = min(span // 2, (len(values) - 1) // 2)
    padded = np.pad(values, half, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.median(windows, axis=1)


def without_single_outliers(values: Floats, weight: Floats, *, limit: float = 3.0) -> Floats:
    """Set points that stand out from the median of themselves and both neighbours back to it."""
    padded = np.pad(values, 1, mode="reflect")
    median = np.median(np.lib.stride_tricks.sliding_window_view(padded, 3), axis=1)
    return np.where(np.abs(values - median) * np.sqrt(weight) > limit, median, values)


def _inflation(values: Floats, weight: Floats, borders: list[int]) -> float:
    """How much more a mean of residuals varies than independent ones of variance one would; 1 to 8."""
    lengths = np.diff(borders)
    piece = np.repeat(np.arange(len(lengths)), lengths)
    level = np.bincount(piece, values * weight) / np.bincount(piece, weight)
    rest = np.clip((values - level[piece]) * np.sqrt(weight), -5, 5)
    variance = float(rest @ rest) / max(len(rest) - len(lengths), 1)
    if variance <= 0:
        return 1.0
    inside = piece[1:] == piece[:-1]
    correlation = float((rest[1:] * rest[:-1])[inside].sum()) / float(rest @ rest)
    correlation = min(max(correlation, 0.0), 0.75)
    return float(np.clip(max(variance, 1.0) * (1 + correlation) / (1 - correlation), 1.0, 8.0))


def robust_sigma(deviations: Floats) -> float:
    """Standard deviation by the median of absolute deviations, as it is of normal ones."""
    return _MAD_TO_SIGMA * float(np.median(np.abs(deviations)))


def runs(flags: Flags) -> list[tuple[int, int]]:
    """First and end (not included) of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]
