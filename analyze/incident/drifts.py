"""Slow changes: storage that gets slower over half a minute or over the whole recording, without a jump.

A series is looked at in blocks of five seconds. What load explains (`drifts`) is taken off. Normal is the level of
the faster times of the whole recording, which a slow stretch cannot move, however it builds up. The stretch whose sum
of excess over normal is greatest (the maximal scoring segment: a CUSUM, Page 1954) is a slow change if its mean excess
is clear of how far means of as many blocks wander by themselves, and the search goes on in what is left. How far they
wander is measured at every length by the Hadamard deviation (Baugh 1971), robustly: the second differences of
neighbouring means, to which a slow change adds nothing but where it bends.

How a change went is a trapezoid fitted by least squares: normal until it begins, up to its height, and back, or to the
end of the recording. A factor's error is that of the fit with correlated residuals, or that of such means, whichever is
greater.

How much of a slow change of latency the load explains.

More work makes a disk slower, and a day's swing of the load is no incident. What load explains is therefore part of
what is normal: for each load, the latency that the recording shows at that load **or a greater one** in its faster
times. So a load explains slowness only if it never went with less; storage that slowed while clients waited for it, and
so asked for less, is not explained away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iotrace.schemas.arrays import Floats, Int64s

from .change_points import Flags, robust_sigma, running_median, without_single_outliers
from .stretches import Course, Judged, Stretch, stretch_of, trapezoid

_CHANGED: Final = float(np.log(1.2))
"""A load that stays within a fifth explains nothing."""
_BIN: Final = float(np.log(1.15))
_BINS_MAX: Final = 12
_BIN_LEAST: Final = 5
_FAST_SHARE: Final = 0.3


def load_effect(values: Floats, loads: list[Floats]) -> Floats:
    """The ln of the latency that each of ``loads`` (ln of a quantity, as long as ``values``) adds.

    Loads are taken one after another, each for what those before it leave.
    """
    effect = np.zeros(len(values))
    for load in loads:
        effect += _one(values - effect, load)
    return effect


def _one(values: Floats, load: Floats) -> Floats:
    chosen = np.flatnonzero(np.isfinite(load) & np.isfinite(values))
    if len(chosen) < 4 * _BIN_LEAST:
        return np.zeros(len(values))
    low, high = np.quantile(load[chosen], [0.05, 0.95])
    if high - low < _CHANGED:
        return np.zeros(len(values))
    chosen = chosen[np.argsort(load[chosen], kind="stable")]
    width = max(_BIN, float(high - low) / _BINS_MAX)
    least = max(_BIN_LEAST, len(chosen) // 40)
    centres, levels = [], []
    first = 0
    while first < len(chosen):
        end = int(np.searchsorted(load[chosen], load[chosen[first]] + width, side="right"))
        end = max(end, first + least)
        if len(chosen) - end < least:
            end = len(chosen)
        piece = chosen[first:end]
        centres.append(float(np.median(load[piece])))
        levels.append(float(np.quantile(values[piece], _FAST_SHARE)))
        first = end
    # No load explains more than what the storage did in its fast times under that load or a greater one.
    explained = np.minimum.accumulate(np.array(levels)[::-1])[::-1]
    known = np.where(np.isfinite(load), load, np.median(load[chosen]))
    effect: Floats = np.interp(known, centres, explained - explained[0])
    return effect


BLOCK_S: Final = 5.0
_BLOCKS_MAX: Final = 4000
_BLOCKS_LEAST: Final = 16
_LEAST: Final = float(np.log(1.2))
"""What gets less than a fifth slower is not called a slow change, however sure it is."""

_MEAN_LEAST: Final = float(np.log(1.1))
_CLEAR: Final = 5.0
_HEIGHT_CLEAR: Final = 4.0
_SHAPE_CLEAR: Final = 6.0
"""By so many of its errors a change has to be there whose shape is taken as known: it was chosen among many."""
_LENGTH_LEAST_S: Final = 20.0
_NEAR: Final = float(np.log(1.12))
_CHANGES_MAX: Final = 8
_AROUND_BLOCKS: Final = 24
_GRID: Final = 20
_ROUNDING: Final = 1e-9
_EDGE_S: Final = 15.0
_SUDDEN_SHARE: Final = 0.5
_SMOOTH_SLOTS: Final = 30
_OUTSIDE_LEAST: Final = 20
_ABRUPT_SHARE: Final = 0.5
"""A stretch is abrupt where both of its edges are surely this share of its height."""
_ABRUPT_CLEAR: Final = 3.0
_ABRUPT_SEGMENTS_MAX: Final = 4
"""Segments that an abrupt part of a stretch may be cut into."""
_SAME_TIME: Final = 2 / 3
"""Share of the time in which either of two was high, in which both were: from there on it is one event."""


@dataclass(slots=True)
class Blocks:
    """A series in blocks of slots: arrays have one element per block with a value."""

    slots: int
    """Slots in a block."""
    at: Floats
    """Middle, in slots."""
    values: Floats
    weight: Floats
    """One over the variance, as far as it is known."""
    effect: Floats
    """What load explains."""


@dataclass(slots=True)
class Drifting:
    """What is normal for a series over the whole recording, and its slow changes."""

    judged: Judged
    base: float
    """ln of the normal latency at the least load."""
    effect: Floats
    """What load adds to it, at each of the series' slots."""
    changes: list[Course]
    wander: "Wander"
    block_slots: int

    @property
    def normal(self) -> Floats:
        """The ln of the normal latency at each of the series' slots."""
        return self.base + self.effect


class Wander:
    """How far means of neighbouring blocks wander by themselves, by length: the Hadamard deviation, robustly."""

    def __init__(self, values: Floats, weight: Floats) -> None:
        self._lengths, self._sigmas = [], []
        length = 1
        while len(values) // length >= 10 or length == 1:
            count = len(values) // length
            means = values[: count * length].reshape(count, length).mean(axis=1)
            sigma = robust_sigma(np.diff(means, 2)) / np.sqrt(6)
            known = np.sqrt(1 / max(float(np.median(weight)) * length, 1e-12))
            self._lengths.append(float(length))
            self._sigmas.append(max(sigma, known))
            length *= 2
        self._slope = 0.0
        if len(self._lengths) >= 3:
            fit = np.polyfit(np.log(self._lengths[-4:]), np.log(self._sigmas[-4:]), 1)
            self._slope = float(np.clip(fit[0], -0.5, 0.0))

    def __call__(self, length: float) -> float:
        """Standard deviation of a mean over so many blocks; what is too long to be measured goes on as it went."""
        known = float(np.interp(np.log(length), np.log(self._lengths), self._sigmas))
        return float(known * max(length / self._lengths[-1], 1.0) ** self._slope)


def drifting(judged: Judged, loads: list[Floats], slot_s: float) -> Drifting | None:
    """Slow changes of a series, and what is normal for it; ``loads`` are per slot of the recording, zero where idle.

    None where the series is too short to say.
    """
    found = _blocks(judged, loads, slot_s)
    if found is None:
        return None
    blocks, effect = found
    wander = Wander(blocks.values - blocks.effect, blocks.weight)
    rest = blocks.values - blocks.effect
    base = _base(rest, wander(1))
    least = max(int(np.ceil(_LENGTH_LEAST_S / (blocks.slots * slot_s))), 3)
    free = np.ones(len(rest), dtype=bool)
    changes = []
    for _ in range(_CHANGES_MAX):
        first, end = _greatest(np.where(free, rest - base - _MEAN_LEAST / 2, -1e9))
        if end - first < 1:
            break
        mean = float(np.mean(rest[first:end] - base))
        is_clear = mean >= max(_MEAN_LEAST, _CLEAR * wander(end - first))
        if is_clear and end - first >= least:
            pad = max(end - first, _AROUND_BLOCKS)
            near = np.zeros(len(rest), dtype=bool)
            near[max(first - pad, 0) : end + pad] = True
            course = _course(blocks, rest, wander, near & free)
            if course is not None and _lasts(course, judged.series.at, least * blocks.slots):
                changes.append(course)
        free[first:end] = False
    if not changes:
        # A creep from the first minute to the last is high above normal for a part of it only.
        course = _course(blocks, rest, wander, np.ones(len(rest), dtype=bool))
        changes = (
            [course] if course is not None and _lasts(course, judged.series.at, least * blocks.slots) else []
        )
    return Drifting(judged, base, effect, changes, wander, blocks.slots)


def told_alike(drifts: Sequence[Drifting], slot_s: float) -> list[tuple[Judged, Judged]]:
    """`told_apart` for each of several series, which call one event the same.

    Of two ways in which series took it, the one with most evidence is right: a ramp of twenty seconds may look like an
    edge in a stream of few I/Os. Told as that stream's sudden window, the event would have its times and its factor.
    """
    told = [told_apart(drift, slot_s) for drift in drifts]
    sudden, gradual = ([one for parts in told for one in parts[index].stretches] for index in (0, 1))

    def is_slow_change(course: Course) -> bool:
        slow, jump = (
            max((one.evidence for one in each if _is_same(course, one)), default=0.0)
            for each in (gradual, sudden)
        )
        return slow > jump

    return [
        told_apart(drift, slot_s, is_slow_change) if drift.changes else parts
        for drift, parts in zip(drifts, told, strict=True)
    ]


def _is_same(course: Course, stretch: Stretch) -> bool:
    """Whether most of the time in which either is above half of its height is that of both."""
    first, end = (course.start + course.risen) / 2, (course.falling + course.end) / 2
    shared = min(end, stretch.end) - max(first, stretch.first)
    return shared >= _SAME_TIME * (max(end, stretch.end) - min(first, stretch.first))


def told_apart(
    drift: Drifting, slot_s: float, is_slow_change: Callable[[Course], bool] = lambda _: False
) -> tuple[Judged, Judged]:
    """The sudden stretches of a series, and its slow changes: each once, as what it looks like.

    A change with an edge, most of which is a sudden stretch, is that stretch, unless it ``is_slow_change``. Of the
    stretches in any other those are left that stand out of it.
    """
    judged, at = drift.judged, drift.judged.series.at.astype(np.float64)
    sudden, slow = list(judged.stretches), judged.slow.copy()
    gradual, high = [], np.zeros(len(at), dtype=bool)
    abrupt = np.zeros(len(at), dtype=bool)
    for stretch in judged.stretches:
        # A freeze is no part of the change after it, and has a thousand times its excess.
        for part in _abrupt_parts(judged, stretch, slot_s):
            abrupt[part] = True
    for course in drift.changes:
        shape = course.shape(at)
        excess = np.clip(judged.series.values - drift.normal, 0.0, None) * (shape > 0) * ~abrupt
        edge = _EDGE_S / slot_s + 1
        has_edge = not is_slow_change(course) and (
            (course.has_rise and course.risen - course.start <= edge)
            or (course.has_fall and course.end - course.falling <= edge)
        )
        total = float(excess.sum())
        if total <= 0 or (has_edge and float(excess[judged.slow].sum()) >= _SUDDEN_SHARE * total):
            continue
        kept = []
        for stretch in sudden:
            inside = (at >= stretch.first) & (at < stretch.end)
            is_part = float(np.mean(shape[inside] > 0)) >= 0.5
            over = judged.series.values - course.base - drift.effect - course.height * shape
            if not is_part:
                kept.append(stretch)
                continue
            parts = _abrupt_parts(judged, stretch, slot_s)
            standing = [stretch] if not parts else [stretch_of(judged, part) for part in parts]
            slow[inside] = False
            for one in standing:
                points = (at >= one.first) & (at < one.end)
                if float(np.mean(over[points])) >= np.log(1.25):
                    kept.append(one)
                    slow[points] = True
        sudden = kept
        high |= shape >= 0.5
        gradual.append(_as_stretch(course, judged))
    return replace(judged, stretches=sudden, slow=slow), Judged(
        judged.series, gradual, drift.normal, judged.segmentation, high
    )


def _lasts(course: Course, at: Int64s, slots: int) -> bool:
    """Whether it is above half of its height for half of ``slots``, as a triangle is, of those with a value (``at``).

    The last block may have one slot only, and a trapezoid that rises in it and ends outside would explain that slot.
    """
    high = at[course.shape(at.astype(np.float64)) >= 0.5]
    return len(high) > 0 and int(high[-1] - high[0]) + 1 >= slots / 2


def _as_stretch(course: Course, judged: Judged) -> Stretch:
    """Where the change is above half of its height."""
    at = judged.series.at
    share = course.shape(at.astype(np.float64))
    high = share >= 0.5
    evidence = course.height**2 * float(judged.segmentation.weight[high].sum())
    chosen = at[high]
    return Stretch(int(chosen[0]), int(chosen[-1]) + 1, course.height, course.error, evidence, course)


def least_mean_excess(drift: Drifting, slots: float) -> float:
    """The ln of the mean factor over so many slots from which on a slow change is found nine times in ten.

    Its height has to pass the limits of `_course` although it may be found lower by 1.3 standard errors, which are
    about twice what a mean of as many blocks wanders by: the level it left and its borders are estimated, too.
    """
    error = 2 * drift.wander(slots / drift.block_slots)
    return max(_LEAST + 1.3 * error, _MEAN_LEAST + 3.3 * error, (_HEIGHT_CLEAR + 1.3) * error)


def left_by_load(
    judged: Judged, loads: list[Floats], window: tuple[int, int], is_normal: Flags
) -> tuple[float, float]:
    """The ln of the factor by which a window is slower than its load is slow at other times, and how far that wanders.

    By means over as many slots as the window has (30 at most), since a second's own I/Os say little about the load of
    that second where they are few. The wandering is that of such means under as much load, robustly.
    """
    from scipy.ndimage import uniform_filter1d  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    series = judged.series
    width = int(np.clip(window[1] - window[0], 1, _SMOOTH_SLOTS))
    smooth = uniform_filter1d(series.values, width, mode="nearest")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(uniform_filter1d(load, width, mode="nearest"))[series.at] for load in loads]
    rest = smooth - load_effect(smooth, logs)
    inside = (series.at >= window[0]) & (series.at < window[1])
    outside = is_normal[series.at]
    if not inside.any() or outside.sum() < _OUTSIDE_LEAST:
        return float("inf"), 0.0
    alike = outside & (logs[0] >= float(np.median(logs[0][inside])) + np.log(0.8))
    other = rest[alike if alike.sum() >= _OUTSIDE_LEAST else outside]
    middle = float(np.median(other))
    left = float(np.average(rest[inside], weights=series.measured_count[inside])) - middle
    return left, robust_sigma(other - middle)


def _blocks(judged: Judged, loads: list[Floats], slot_s: float) -> tuple[Blocks, Floats] | None:
    series = judged.series
    slots = max(round(BLOCK_S / slot_s), 1, -(-int(series.at[-1] + 1) // _BLOCKS_MAX))
    values = without_single_outliers(series.values, judged.segmentation.weight)
    which = series.at // slots
    count = int(which[-1]) + 1
    weight = judged.segmentation.weight.copy()
    for stretch in judged.stretches:
        for part in _abrupt_parts(judged, stretch, slot_s):
            weight[part] = 0.0
    total: Floats = np.bincount(which, weight, minlength=count).astype(np.float64)
    filled = total > 0
    if filled.sum() < _BLOCKS_LEAST:
        return None
    level = np.bincount(which, weight * values, minlength=count)[filled] / total[filled]
    at: Floats = (np.arange(count, dtype=np.float64)[filled] + 0.5) * slots
    effect = load_effect(level, [_per_block(load, slots, count)[filled] for load in loads])
    blocks = Blocks(slots, at, level, total[filled], effect)
    return blocks, np.interp(series.at + 0.5, at, effect)


def _abrupt_parts(judged: Judged, stretch: Stretch, slot_s: float) -> list[slice]:
    """Points of a stretch that rise and fall at once, as a freeze does: the whole of it, or segments inside it.

    Beside a slow change, or within one, they have no part in it.
    """
    at, values = judged.series.at, judged.series.values
    first, end = (int(point) for point in np.searchsorted(at, (stretch.first, stretch.end)))
    inner = [border for border in judged.segmentation.borders if first < border < end]
    borders = [first, *inner, end]
    usual = float(np.quantile(values, _FAST_SHARE))
    # What is looked at of an edge is shorter than the rise of a slow change.
    near, beside = (max(int(seconds // slot_s), 1) for seconds in (_EDGE_S / 2, _EDGE_S / 4))
    chance = _ABRUPT_CLEAR * robust_sigma(np.diff(values)) / np.sqrt(min(beside, 2))
    found: list[slice] = []
    for count in (len(borders) - 1, *range(min(_ABRUPT_SEGMENTS_MAX, len(borders) - 2), 0, -1)):
        for start, stop in zip(borders, borders[count:], strict=False):
            inside, before, after = values[start:stop], values[:start], values[stop:]
            edges = [
                float(np.quantile(inner, 0.75) - np.median(outer))
                for inner, outer in ((inside[:near], before[-beside:]), (inside[-near:], after[:beside]))
                if len(outer)
            ]
            height = max(float(np.median(inside)) - usual, stretch.excess)
            is_apart = all(stop <= one.start or start >= one.stop for one in found)
            if is_apart and edges and min(edges) - chance >= _ABRUPT_SHARE * height:
                found.append(slice(start, stop))
    return found


def _per_block(load: Floats, slots: int, count: int) -> Floats:
    """The ln of the mean of a load over each block's slots that have any; NaN where none has."""
    padded = np.zeros(count * slots)
    size = min(len(load), len(padded))
    padded[:size] = np.nan_to_num(load[:size])
    cells = padded.reshape(count, slots)
    seen = (cells > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.where(seen > 0, cells.sum(axis=1) / seen, np.nan))


def _base(rest: Floats, sigma: float) -> float:
    """The level of the faster times: the middle of what lies near the lower third of the smoothed blocks."""
    smooth = running_median(rest, 5)
    level = float(np.quantile(smooth, _FAST_SHARE))
    for _ in range(10):
        near = np.abs(smooth - level) <= max(_NEAR, 2.5 * sigma)
        level = float(np.median(smooth[near])) if near.any() else level
    return level


def _greatest(score: Floats) -> tuple[int, int]:
    """First and end of the stretch with the greatest sum (Kadane's algorithm); an empty one where none is positive."""
    total = np.concatenate([[0.0], np.cumsum(score)])
    lowest = np.minimum.accumulate(total)
    end = int(np.argmax(total - lowest))
    first = int(np.argmin(total[: end + 1]))
    return first, end


def _course(blocks: Blocks, rest: Floats, wander: Wander, chosen: Flags) -> Course | None:
    """The trapezoid that fits the ``chosen`` blocks best; None where it is not clearly a fifth higher than normal."""
    best = _fitted(blocks.at[chosen], rest[chosen], float(blocks.slots))
    if best is None:
        return None
    share = best.shape(blocks.at[chosen])
    own = max(wander(max(int(count), 1)) for count in ((share > 0.5).sum(), (share < 0.5).sum()))
    # How high the very top is may be uncertain, as of a creep that the recording ends in, and the change be sure.
    as_shaped = max(_error_as_shaped(rest[chosen], share), own)
    during = best.shape(blocks.at) > 0.5
    by_load = (
        float(blocks.effect[during].mean() - blocks.effect[~during].mean())
        if 0 < during.sum() < len(rest)
        else 0.0
    )
    best = replace(best, error=max(best.error, own), shape_error=as_shaped, by_load=by_load)
    is_clear = any(
        best.height >= max(_MEAN_LEAST + 2 * error, clear * error)
        for error, clear in ((best.error, _HEIGHT_CLEAR), (as_shaped, _SHAPE_CLEAR))
    )
    return best if is_clear and best.height >= _LEAST else None


def _error_as_shaped(y: Floats, share: Floats) -> float:
    """Standard error of the height of a change whose shape is taken as known."""
    share = (share - share.min()) / max(float(share.max() - share.min()), 1e-9)
    square = len(share) * float(share.var())
    if square <= 0:
        return float("inf")
    return float(np.sqrt(_variance(_fit(y, share)[0], 2) / square))


def _fitted(x: Floats, y: Floats, step: float) -> Course | None:
    """The trapezoid with the least squares left over, of those with a rise, a fall or both, by their number of knots.

    Height and base follow from the knots; rise and fall are looked for in turn, over every pair of a grid that gets
    finer around the best.
    """
    if len(x) < 8:
        return None
    smooth = running_median(y, 5)
    limit = 4 * robust_sigma(y - smooth) + 1e-6
    y = np.clip(y, smooth - limit, smooth + limit)
    running = _RunningSums(x, y)
    low, high = float(x[0]) - step / 2, float(x[-1]) + step / 2
    best: tuple[float, Floats, tuple[bool, bool]] | None = None
    for has in ((True, False), (False, True), (True, True)):
        knots = np.array([low - 2 * step, low - step, high + step, high + 2 * step])
        left = np.inf
        for width in (high - low, (high - low) / 8, (high - low) / 40, (high - low) / 200):
            for _ in range(3):
                for part in (0, 2):
                    if has[part // 2]:
                        left, knots = _best_pair(x, y, running, knots, part, width, (low, high), step)
        count = 2 + 2 * sum(has)
        inflation = _inflation(_fit(y, trapezoid(x, knots))[0])
        score = len(x) * np.log(max(left, 1e-12)) / inflation + count * np.log(len(x))
        if best is None or score < best[0]:
            best = (score, knots, has)
    return None if best is None else _judged_course(x, y, step, best[1], best[2])


def _judged_course(x: Floats, y: Floats, step: float, knots: Floats, has: tuple[bool, bool]) -> Course:
    """The change with these knots, and the error of its height, their own uncertainty included."""
    shape = trapezoid(x, knots)
    residual, base, height = _fit(y, shape)
    columns = [np.ones(len(x)), shape]
    for index, knot in enumerate(knots):
        if has[index // 2]:
            moved = [np.array(knots) for _ in range(2)]
            moved[0][index], moved[1][index] = knot - step, knot + step
            columns.append(height * (trapezoid(x, moved[1]) - trapezoid(x, moved[0])) / (2 * step))
    jacobian = np.stack(columns, axis=1)
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * _variance(residual, jacobian.shape[1])
    # What is asked for is how much higher its highest block is than its lowest: knots beyond the data are not known.
    # The middle one of the highest, as the first is next to a knot.
    lowest, highest = float(shape.min()), float(shape.max())
    top, bottom = (np.flatnonzero(np.abs(shape - level) < 1e-9) for level in (highest, lowest))
    contrast = jacobian[top[len(top) // 2]] - jacobian[bottom[len(bottom) // 2]]
    start, risen, falling, end = (float(knot) for knot in knots)
    error = float(np.sqrt(max(contrast @ covariance @ contrast, 0.0)))
    return Course(
        start,
        risen,
        falling,
        end,
        base + height * lowest,
        height * (highest - lowest),
        error,
        error,
        has[0],
        has[1],
    )


def _best_pair(
    x: Floats,
    y: Floats,
    running: "_RunningSums",
    knots: Floats,
    part: int,
    width: float,
    limits: tuple[float, float],
    step: float,
) -> tuple[float, Floats]:
    """The best two knots of the rise (``part`` 0) or fall (2) within ``width`` of what they are, the others fixed."""
    low, high = limits
    around = [
        np.clip(np.linspace(knot - width, knot + width, _GRID), low, high)
        if width < high - low
        else np.linspace(low, high, _GRID)
        for knot in knots[part : part + 2]
    ]
    first, second = (grid.ravel() for grid in np.meshgrid(*around, indexing="ij"))
    keep = second - first >= step / 2
    keep &= (second <= knots[2]) if part == 0 else (first >= knots[1])
    pairs = np.stack([first[keep], second[keep]], axis=1)
    trial = np.tile(knots, (len(pairs) + 1, 1))
    trial[1:, part : part + 2] = pairs
    about = running.gain(trial)
    centred = y - y.mean()
    total = float(centred @ centred)
    # Running sums round; which of those that nearly gain the most does so is found by the points themselves.
    trial = trial[about >= about.max() - _ROUNDING * total]
    shape = trapezoid(x, trial)
    shape -= shape.mean(axis=1, keepdims=True)
    gain = _gain(shape @ centred, (shape**2).sum(axis=1))
    chosen = int(np.argmax(gain))
    return (total - float(gain[chosen])) / len(x), trial[chosen]


def _gain(product: Floats, square: Floats) -> Floats:
    """What shapes take off the sum of squares, by their inner products with the values and themselves, both centred."""
    return np.where((product > 0) & (square > 1e-9), product**2 / np.maximum(square, 1e-9), 0.0)


class _RunningSums:
    """Of points: what any trapezoid takes off their sum of squares, in a time that does not grow with their number."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self._x, self._origin = x, float(x[0])
        here, centred = x - x[0], y - y.mean()
        self._sums = np.zeros((5, len(x) + 1))
        columns = (np.ones(len(x)), here, here**2, centred, here * centred)
        np.cumsum(np.stack(columns), axis=1, out=self._sums[:, 1:])

    def gain(self, knots: Floats) -> Floats:
        """Of each row of ``knots``, as `trapezoid` takes them, rising."""
        bounds = np.searchsorted(self._x, knots)
        sums = np.diff(self._sums[:, bounds], axis=2)
        start, risen, falling, end = (knots - self._origin).T
        total = np.stack([sums[0, :, 1], sums[0, :, 1], sums[3, :, 1]])
        for piece, zero, length in ((0, start, risen - start), (2, end, falling - end)):
            count, first, second, value, both = sums[:, :, piece]
            with np.errstate(divide="ignore", invalid="ignore"):
                found = (
                    (first - zero * count) / length,
                    (second - 2 * zero * first + zero**2 * count) / length**2,
                    (both - zero * value) / length,
                )
            total += np.where(count > 0, np.stack(found), 0.0)
        return _gain(total[2], total[1] - total[0] ** 2 / len(self._x))


def _fit(y: Floats, shape: Floats) -> tuple[Floats, float, float]:
    """What a shape leaves over, its base and its height, by least squares."""
    centred = shape - shape.mean()
    square = float(centred @ centred)
    height = float(centred @ y) / square if square > 1e-9 else 0.0
    base = float(y.mean() - height * shape.mean())
    return y - base - height * shape, base, height


def _variance(residual: Floats, parameters: int) -> float:
    """Variance of the residuals of a fit with so many parameters, greater the more they correlate."""
    return float(residual @ residual) / max(len(residual) - parameters, 1) * _inflation(residual)


def _inflation(rest: Floats) -> float:
    square = float(rest @ rest)
    correlation = float(rest[1:] @ rest[:-1]) / square if square > 0 else 0.0
    correlation = min(max(correlation, 0.0), 0.9)
    return (1 + correlation) / (1 - correlation)
