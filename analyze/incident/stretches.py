"""Stretches in which a series is slow, and what is normal around them.

Normal is not one figure: load and caches move latency over hours. So the normal level is a curve through what is left
when slow stretches are taken out, and a stretch counts as slow only if it stands above that curve **and** begins or
ends with a jump. A slow drift has segments, but no jumps.

1. `change_points` cuts the series into segments.
2. The jump at each border is taken from the points next to it on either side, so that a drift is no jump. The sum of
   the jumps so far is a level without drift; the fastest such level held for a quarter of the time is normal.
3. A local line through the normal segments (Cleveland 1979, tricube weights on medians of blocks) is the curve.
4. Segments a quarter above the curve are slow; runs of them with a jump at an edge are stretches. Steps 3 and 4 are
   done three times, since each knows better what the other needs.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iotrace.schemas.arrays import Floats, Int64s

from .change_points import Flags, Segmentation, runs, segment, without_single_outliers
from .series import Series, weighted_median

_LEAST: Final = float(np.log(1.25))
"""What is less than a quarter slower than normal is not called slow, however sure it is."""

_JUMP: Final = float(np.log(1.15))
_JUMP_POINTS: Final = 40
_LINE_POINTS: Final = 12
_MEAN_POINTS: Final = 30
_MEAN_JUMP: Final = float(np.log(1.2))
_CLEAR: Final = 3.0
_STEP_POINTS: Final = 60
_STEP_GAIN: Final = 20.0
_NORMAL_SHARE: Final = 0.25
_FAR_OUT_LEAST: Final = float(np.log(2))
_FAR_OUT_TIMES: Final = 4.0
_FAR_OUT_CLEAR: Final = 6.0
_FAR_OUT_POINTS: Final = 20
_FAR_OUT_POINTS_FEW: Final = 7
_FAR_OUT_LEAST_OF_FEW: Final = float(np.log(10))
"""What stands out among few points has to do so by a power of ten."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a slow change went, in slots: normal until ``start``, high from ``risen`` to ``falling``, over at ``end``."""

    start: float
    risen: float
    falling: float
    end: float
    base: float
    """ln of the latency that it left, less what load explains."""
    height: float
    """ln of the factor at its height."""
    error: float
    """Standard error of ``height``."""
    shape_error: float
    """The same with the four times taken as known."""
    has_rise: bool
    """False where the recording begins in it."""
    has_fall: bool
    """False where the recording ends in it."""
    by_load: float = 0.0
    """How much higher than at other times the ln of the latency is that load adds while it is high."""

    def shape(self, slots: Floats) -> Floats:
        """Share of the height at each slot."""
        return trapezoid(slots, np.array([self.start, self.risen, self.falling, self.end]))


def trapezoid(slots: Floats, knots: Floats) -> Floats:
    """0 up to the first knot, 1 from the second to the third, 0 from the last on; straight lines in between.

    ``knots`` has four in its last dimension; the result has that of ``slots`` in its place.
    """
    start, risen, falling, end = np.moveaxis(knots, -1, 0)[..., None]
    rise = np.clip((slots - start) / np.maximum(risen - start, 1e-9), 0.0, 1.0)
    fall = np.clip((end - slots) / np.maximum(end - falling, 1e-9), 0.0, 1.0)
    shape: Floats = np.minimum(rise, fall)
    return shape


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
    course: Course | None = None
    """How it went, where it is a slow change."""


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
        """The ln of the factor from which on a stretch of ``slots`` slots would have been found nine times in ten.

        That is half as much again as the bare limits of change points and jumps.
        """
        typical, inflation = float(np.median(self.segmentation.weight)), self.segmentation.inflation
        change = np.sqrt(2 * self.segmentation.penalty / (typical * slots))
        edge = _CLEAR * np.sqrt(inflation * (1 / min(slots, _MEAN_POINTS) + 1 / _MEAN_POINTS) / typical)
        level = _LEAST + 2 * np.sqrt(inflation / (typical * slots))
        return max(1.5 * float(change), 1.5 * float(edge), float(level))


def judge(series: Series, *, extra_penalty: float = 0.0, with_single: bool = True) -> Judged:
    """Find the slow stretches of ``series``. ``extra_penalty`` pays for looking at several series.

    ``with_single`` looks for single slots that are far out, too.
    """
    cut = segment(series.values, series.within_variance, extra_penalty=extra_penalty)
    borders = np.array(cut.borders)
    values = without_single_outliers(series.values, cut.weight)
    jumps = _jumps(values, cut)
    slow_segments = _first_guess(values, jumps, cut, _reach(series.at))
    normal, normal_variance = np.full(len(values), float(np.median(values))), np.zeros(len(values))
    for _ in range(3):
        slow = np.repeat(slow_segments, np.diff(borders))
        if not slow.all():
            normal, normal_variance = _curve(series.at, values, ~slow, cut.weight)
            slow_segments = _between_edges(
                _excess(values - normal, cut), jumps, values, cut, _reach(series.at)
            )
    slow = np.repeat(slow_segments, np.diff(borders))
    above = series.values - normal
    pieces = [slice(int(borders[first]), int(borders[end])) for first, end in runs(slow_segments)]
    for position in _far_out(above, slow, cut) if with_single else []:
        slow[position] = True
        pieces.append(slice(position, position + 1))
    stretches = [
        _stretch(series.slots(points), above[points], cut, points, float(normal_variance[points].mean()))
        for points in pieces
    ]
    return Judged(series, stretches, normal, cut, slow)


def levelled(judged: Judged) -> Judged:
    """The same with one normal level, where the curve stays within so little that nobody would call it a change."""
    rest = ~judged.slow
    if not rest.any():
        return judged
    low, high = np.quantile(judged.normal, [0.02, 0.98])
    if high - low >= _LEAST:
        return judged
    level = float(np.median(judged.series.values[rest]))
    return replace(judged, normal=np.full(len(judged.normal), level))


def _far_out(above: Floats, slow: Flags, cut: Segmentation) -> list[int]:
    """Single points that are slow beyond doubt, although no neighbour is.

    They are twice the normal latency, and four times as far above it (in logarithms) as one point in twenty is: with
    tails that fall off exponentially, as ln of a power law does, one point in 160,000 is.
    """
    rest = above[~slow]
    if len(rest) < _FAR_OUT_POINTS_FEW:
        return []
    limit = max(_FAR_OUT_LEAST, _FAR_OUT_TIMES * float(np.quantile(rest, 0.95)))
    if len(rest) < _FAR_OUT_POINTS:
        # A twentieth of few points is none of them: the greatest but one stands for it.
        limit = max(_FAR_OUT_LEAST_OF_FEW, _FAR_OUT_TIMES * float(np.sort(rest)[-2]))
    is_far = ~slow & (above >= limit) & (above * np.sqrt(cut.weight / cut.inflation) >= _FAR_OUT_CLEAR)
    return [int(position) for position in np.flatnonzero(is_far)]


def _jumps(values: Floats, cut: Segmentation) -> Floats:
    """The rise at each inner border; 0 where it is no clear jump.

    Either the means of the half minute on its two sides differ by more than a drift moves in that time, or the levels
    do that lines through them lead to.
    """
    found = np.zeros(max(len(cut.borders) - 2, 0))
    for index, (start, border, end) in enumerate(
        zip(cut.borders, cut.borders[1:], cut.borders[2:], strict=False)
    ):
        for level, points, least in ((_mean, _MEAN_POINTS, _MEAN_JUMP), (_level_at_end, _JUMP_POINTS, _JUMP)):
            before = slice(max(start, border - points), border)
            after = slice(border, min(end, border + points))
            left, left_variance = level(values[before][::-1], cut.weight[before][::-1])
            right, right_variance = level(values[after], cut.weight[after])
            error = np.sqrt(cut.inflation * (left_variance + right_variance))
            if abs(right - left) >= max(least, _CLEAR * error):
                found[index] = right - left
                break
    return found


def _mean(values: Floats, weight: Floats) -> tuple[float, float]:
    total = float(weight.sum())
    return float(weight @ values) / total, 1 / total


def _level_at_end(values: Floats, weight: Floats) -> tuple[float, float]:
    """The level to which points lead, the nearest first, and its variance: by a line, or their mean if they are few."""
    mean, variance = _mean(values, weight)
    if len(values) < _LINE_POINTS:
        return mean, variance
    x = np.arange(len(values)) + 0.5
    centre = float(weight @ x) * variance
    moment = float(weight @ (x - centre) ** 2)
    slope = float(weight @ ((x - centre) * values)) / moment
    return mean - slope * centre, variance + centre * centre / moment


def _first_guess(values: Floats, jumps: Floats, cut: Segmentation, reach: float) -> Flags:
    """Segments above the normal level by the sum of jumps, or above both neighbours and too short for a drift."""
    lengths = np.diff(cut.borders).astype(np.float64)
    level = np.concatenate([[0.0], np.cumsum(jumps)])
    high = level - weighted_median(level, lengths, _NORMAL_SHARE) >= _LEAST
    means = _excess(values, cut)
    above = np.minimum(means[1:-1] - means[:-2], means[1:-1] - means[2:])
    high[1:-1] |= (above >= _LEAST) & (lengths[1:-1] <= reach)
    return high


def _curve(at: Int64s, values: Floats, is_normal: Flags, weight: Floats) -> tuple[Floats, Floats]:
    """Local lines through medians of blocks of the normal points, read off at every point, and their variance."""
    chosen = np.flatnonzero(is_normal)
    size = max(10, len(chosen) // 400)
    count = max(len(chosen) // size, 1)
    # As even as can be: the first blocks have a point more than the rest.
    longer, points = len(chosen) % count, len(chosen) // count
    first = longer * (points + 1)
    pieces = [
        piece
        for piece in (
            chosen[:first].reshape(longer, points + 1),
            chosen[first:].reshape(count - longer, points),
        )
        if piece.size
    ]
    x = np.concatenate([np.mean(at[piece], axis=1) for piece in pieces])
    y = np.concatenate([np.median(values[piece], axis=1) for piece in pieces])
    w = np.concatenate([weight[piece].sum(axis=1) for piece in pieces])
    reach = _reach(at)
    # A reach that spans a long stretch without normal points grows until it has some to stand on.
    distance = np.abs(x[:, None] - x)
    some = np.partition(distance, min(4, len(x) - 1), axis=1)[:, min(4, len(x) - 1)]
    span = np.maximum(reach, some * 1.5)
    kernel = w * np.clip(1 - (distance / span[:, None]) ** 3, 0, None) ** 3
    total = kernel.sum(axis=1)
    centre = kernel @ x / total
    off = x - centre[:, None]
    moment = (kernel * off**2).sum(axis=1)
    is_line = moment > (0.1 * span) ** 2 * total
    slope = np.where(is_line, (kernel * off) @ y / np.where(is_line, moment, 1.0), 0.0)
    level = kernel @ y / total + slope * (x - centre)
    variance = (kernel**2 / w).sum(axis=1) / total**2
    return np.interp(at, x, level), np.interp(at, x, variance)


def _reach(at: Int64s) -> float:
    """How far, in slots, the normal curve looks to each side: what changes more slowly is drift."""
    return max(90.0, 0.08 * float(at[-1] - at[0] + 1))


def _excess(above: Floats, cut: Segmentation) -> Floats:
    starts = np.array(cut.borders[:-1])
    return np.add.reduceat(above * cut.weight, starts) / np.add.reduceat(cut.weight, starts)


def _between_edges(excess: Floats, jumps: Floats, values: Floats, cut: Segmentation, reach: float) -> Flags:
    """Slow segments from a rise to a fall.

    Of a run of slow segments what lies before its first rise and after its last fall is drift. A jump counts if it
    makes up half of the height it leads to. A run with only one of the two (the recording begins or ends in it, or
    storage recovers slowly) has to be too short for a drift, or look more like a step there than like a bend; one
    without either is all drift.
    """
    kept = np.zeros(len(excess), dtype=bool)
    for first, end in runs(excess >= _LEAST):
        borders = range(max(first, 1), min(end, len(excess) - 1) + 1)
        rises = [at for at in borders if at < end and jumps[at - 1] >= 0.5 * excess[at]]
        falls = [at for at in borders if at > first and -jumps[at - 1] >= 0.5 * excess[at - 1]]
        if rises and falls and falls[-1] > rises[0]:
            start, stop = _without_drift(excess, rises, falls, cut.borders, reach)
            kept[start:stop] = True
            continue
        is_short = first > 0 and end < len(excess) and cut.borders[end] - cut.borders[first] <= reach
        if rises and (is_short or _is_step(values, cut, cut.borders[rises[0]])):
            kept[rises[0] : end] = True
        elif falls and (is_short or _is_step(values, cut, cut.borders[falls[-1]])):
            kept[first : falls[-1]] = True
    return kept


def _without_drift(
    excess: Floats, rises: list[int], falls: list[int], borders: list[int], reach: float
) -> tuple[int, int]:
    """From the first rise to the last fall, less what a long and much lower part before or after the rest adds."""
    start, stop = rises[0], falls[-1]
    for fall in falls[:-1]:
        lower = start < fall and excess[fall:stop].max() < 0.5 * excess[start:fall].max()
        if lower and borders[stop] - borders[fall] > reach:
            stop = fall
            break
    for rise in reversed(rises[1:]):
        lower = rise < stop and excess[start:rise].max() < 0.5 * excess[rise:stop].max()
        if lower and borders[rise] - borders[start] > reach:
            start = rise
            break
    return start, stop


def _is_step(values: Floats, cut: Segmentation, border: int) -> bool:
    """Whether a line with a step at ``border`` fits the points around it clearly better than a cubic curve does."""
    chosen = slice(max(border - _STEP_POINTS, 0), min(border + _STEP_POINTS, len(values)))
    root = np.sqrt(cut.weight[chosen])
    x = (np.arange(chosen.start, chosen.stop) - border + 0.5) / _STEP_POINTS
    step = np.stack([np.ones(len(x)), x, x > 0], axis=1)
    cubic = np.stack([np.ones(len(x)), x, x**2, x**3], axis=1)
    rest = []
    for shape in (step, cubic):
        weighted = shape * root[:, None]
        fit = np.linalg.lstsq(weighted, values[chosen] * root, rcond=None)[0]
        rest.append(float(np.sum((values[chosen] * root - weighted @ fit) ** 2)))
    return rest[1] - rest[0] >= _STEP_GAIN * cut.inflation


def _stretch(
    slots: tuple[int, int], above: Floats, cut: Segmentation, points: slice, normal_variance: float
) -> Stretch:
    """Its error is that of its own mean, by its residuals or by the noise elsewhere, and that of the normal curve."""
    weight = cut.weight[points]
    excess = float(np.average(above, weights=weight))
    total = float(weight.sum())
    own = max(mean_error(above, weight) ** 2 if len(above) > 2 else 0.0, cut.inflation / total)
    error = float(np.sqrt(own + cut.inflation * normal_variance))
    return Stretch(*slots, excess, error, excess**2 * total)


def stretch_of(judged: Judged, points: slice) -> Stretch:
    """These points of a judged series as a stretch of their own."""
    above = (judged.series.values - judged.normal)[points]
    return _stretch(judged.series.slots(points), above, judged.segmentation, points, 0.0)


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
