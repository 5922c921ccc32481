"""Stretches in which a series is slow, and what is normal around them.

Normal is not one figure: load and caches move latency over hours. So the normal level is a curve through what is left
when slow stretches are taken out, and a stretch counts as slow only if it stands above that curve **and** begins or
ends with a jump. A slow drift has segments, but no jumps.

1. `change_points` cuts the series into segments.
2. The jump at each border is taken from the points next to it, so that a drift between two borders is no jump. The sum
   of the jumps so far is a level without drift; the fastest such level held for a quarter of the time is normal.
3. A local line through the normal segments (Cleveland 1979, tricube weights on medians of blocks) is the curve.
4. Segments a quarter above the curve are slow; runs of them with a jump at an edge are stretches. Steps 3 and 4 are
   done three times, since each knows better what the other needs.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .change_points import Floats, Segmentation, segment, without_single_outliers
from .series import Ints, Series, weighted_median

Flags = npt.NDArray[np.bool_]

LEAST_FACTOR: Final = 1.25
"""What is less than a quarter slower than normal is not called slow, however sure it is."""

_LEAST: Final = float(np.log(LEAST_FACTOR))
_JUMP: Final = float(np.log(1.15))
_JUMP_POINTS: Final = 8
_NORMAL_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Stretch:
    """Slots ``first`` to ``end`` (not included) in which a series is slow."""

    first: int
    end: int
    excess: float
    """Mean of ln(latency / normal)."""
    excess_error: float
    """Standard error of ``excess``."""
    evidence: float
    """What the stretch explains, in units of the noise's variance."""


@dataclass(slots=True)
class Judged:
    """A series with its slow stretches and its normal curve."""

    series: Series
    stretches: list[Stretch]
    normal: Floats
    """ln of the normal latency at each of the series' slots."""
    segmentation: Segmentation
    slow: Flags

    @property
    def spread(self) -> tuple[float, float]:
        """The middle 90 % of the normal slots, as ln(latency / normal)."""
        rest = (self.series.values - self.normal)[~self.slow]
        if not len(rest):
            return (0.0, 0.0)
        low, high = np.quantile(rest, [0.05, 0.95])
        return float(low), float(high)

    def least_excess(self, slots: int) -> float:
        """The ln of the factor from which on a stretch of ``slots`` slots would have been found, borders and all."""
        typical = float(np.median(self.segmentation.weight))
        return max(float(np.sqrt(2 * self.segmentation.penalty / (typical * slots))), _LEAST)


def judge(series: Series, *, extra_penalty: float = 0.0) -> Judged:
    """Find the slow stretches of ``series``. ``extra_penalty`` pays for looking at several series."""
    cut = segment(series.values, series.within_variance, extra_penalty=extra_penalty)
    borders = np.array(cut.borders)
    values = without_single_outliers(series.values, cut.weight)
    jumps = _jumps(values, cut)
    slow_segments = _first_guess(jumps, borders)
    normal = np.full(len(values), float(np.median(values)))
    for _ in range(3):
        slow = np.repeat(slow_segments, np.diff(borders))
        if slow.all():
            break
        normal = _curve(series.at, values, ~slow, cut.weight)
        slow_segments = _between_edges(_excess(values - normal, cut), jumps)
    slow = np.repeat(slow_segments, np.diff(borders))
    above = series.values - normal
    stretches = [
        _stretch(series, above, cut, int(borders[first]), int(borders[end]))
        for first, end in _runs(slow_segments)
    ]
    return Judged(series, stretches, normal, cut, slow)


def _jumps(values: Floats, cut: Segmentation) -> Floats:
    """At each inner border the rise from the points just before it to those just after; 0 where it is no clear jump."""
    found = np.zeros(max(len(cut.borders) - 2, 0))
    for index, (start, border, end) in enumerate(
        zip(cut.borders, cut.borders[1:], cut.borders[2:], strict=False)
    ):
        left = slice(max(start, border - _JUMP_POINTS), border)
        right = slice(border, min(end, border + _JUMP_POINTS))
        rise = np.average(values[right], weights=cut.weight[right]) - np.average(
            values[left], weights=cut.weight[left]
        )
        error = np.sqrt(cut.inflation * (1 / cut.weight[left].sum() + 1 / cut.weight[right].sum()))
        if abs(rise) >= max(_JUMP, 2.5 * error):
            found[index] = rise
    return found


def _first_guess(jumps: Floats, borders: Ints) -> Flags:
    level = np.concatenate([[0.0], np.cumsum(jumps)])
    normal = weighted_median(level, np.diff(borders).astype(np.float64), _NORMAL_SHARE)
    return level - normal >= _LEAST


def _curve(at: Ints, values: Floats, is_normal: Flags, weight: Floats) -> Floats:
    """Local lines through medians of blocks of the normal points, read off at every point."""
    chosen = np.flatnonzero(is_normal)
    size = max(10, len(chosen) // 400)
    blocks = np.array_split(chosen, max(len(chosen) // size, 1))
    x = np.array([float(np.mean(at[block])) for block in blocks])
    y = np.array([float(np.median(values[block])) for block in blocks])
    w = np.array([float(weight[block].sum()) for block in blocks])
    reach = max(90.0, 0.15 * float(at[-1] - at[0] + 1))
    level = np.empty(len(x))
    for index, here in enumerate(x):
        # A reach that spans a long stretch without normal points grows until it has some to stand on.
        distance = np.abs(x - here)
        span = max(reach, float(np.sort(distance)[min(4, len(x) - 1)]) * 1.5)
        kernel = w * np.clip(1 - (distance / span) ** 3, 0, None) ** 3
        total = kernel.sum()
        centre = (kernel @ x) / total
        moment = kernel @ (x - centre) ** 2
        slope = (kernel @ ((x - centre) * y)) / moment if moment > (0.1 * span) ** 2 * total else 0.0
        level[index] = (kernel @ y) / total + slope * (here - centre)
    return np.interp(at, x, level)


def _excess(above: Floats, cut: Segmentation) -> Floats:
    starts = np.array(cut.borders[:-1])
    return np.add.reduceat(above * cut.weight, starts) / np.add.reduceat(cut.weight, starts)


def _between_edges(excess: Floats, jumps: Floats) -> Flags:
    """Slow segments from a rise to a fall.

    Of a run of slow segments what lies before its first rise and after its last fall is drift, unless the recording
    begins or ends there, or there is no such jump: storage may recover slowly. A run without either is all drift. A
    jump counts if it makes up half of the height it leads to.
    """
    kept = np.zeros(len(excess), dtype=bool)
    for first, end in _runs(excess >= _LEAST):
        borders = range(max(first, 1), min(end, len(excess) - 1) + 1)
        rises = [border for border in borders if border < end and jumps[border - 1] >= 0.5 * excess[border]]
        falls = [
            border for border in borders if border > first and -jumps[border - 1] >= 0.5 * excess[border - 1]
        ]
        if rises or falls:
            kept[
                rises[0] if rises else first : falls[-1]
                if falls and falls[-1] > (rises or [first])[0]
                else end
            ] = True
    return kept


def _runs(flags: Flags) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def _stretch(series: Series, above: Floats, cut: Segmentation, first: int, end: int) -> Stretch:
    mine, weight = above[first:end], cut.weight[first:end]
    excess = float(np.average(mine, weights=weight))
    return Stretch(
        int(series.at[first]),
        int(series.at[end - 1]) + 1,
        excess,
        mean_error(mine, weight),
        float(excess**2 * weight.sum()),
    )


def mean_error(values: Floats, weight: Floats) -> float:
    """Standard error of a weighted mean of a series (Newey & West 1987, Bartlett weights up to the cube root of n)."""
    count = len(values)
    if count < 2:
        return float("inf")
    share = weight / weight.sum()
    rest = (values - share @ values) * share
    total = float(rest @ rest)
    lags = min(round(count ** (1 / 3)), count - 1)
    for lag in range(1, lags + 1):
        total += 2 * (1 - lag / (lags + 1)) * float(rest[lag:] @ rest[:-lag])
    return float(np.sqrt(max(total, float(rest @ rest) / 2) * count / (count - 1)))
