"""Where does more I/O in flight stop giving more I/O? The saturation point of a series of closed loops.

Each step keeps a fixed number N of I/Os in flight, so load is N and throughput X(N) is what comes of it. Until
something is saturated throughput grows with N; after, it stays and, by Little's law, latency grows as N does. The
saturation point is the corner of `saturation`: the number in flight that the storage can work on at a time.

Its interval covers the fit's residuals and, where the steps hold single I/Os, the bootstrap of their throughput
(`curve`). A corner that lies surely near a power of two (`sure_depth`) that was tested and carries everything is given
as that number: queue depths are powers of two.

Where throughput levels off without a corner, the asymptotes of a closed system bound the point instead: it lies
between where they cross, N* = X_max R (Lazowska et al. 1984, Quantitative System Performance, ch. 5), and the first
step that carries 95 % of X_max. Saturation counts as reached only when a step with at least 1.5 times as much in
flight gained no more. Without one, throughput that grew less than N did has queued all the same (X(N) <= N X(1):
Denning & Buzen 1978), and the storage is not called unsaturated.

Beyond some load throughput may fall. Those loads say nothing of the corner, and are left out of the fit; the words tell
of them.

Where more in flight stops giving more: a curve of throughput that grows, and then is flat.

The pure estimator, on arrays: what a load test prints (outstanding I/Os or threads, and IOPS or MB/s) is enough.

X(N) = lambda m / (1 + sigma (m - 1)) with m = min(N, knee): throughput is what the first ``knee`` in flight give,
however many more wait. Below the knee it grows as Amdahl's law lets it (see `estimators`); with sigma 0, it is the pair
of asymptotes of a closed queueing system (Denning & Buzen 1978, Computing Surveys 10:225, §5). lambda, sigma >= 0 and
the knee are those of least relative error, the knee on a grid: a segmented regression like `estimators`'s.

The interval is that of the profile likelihood (Bates & Watts 1988, Nonlinear Regression Analysis, ch. 6): every knee
whose best fit is not significantly worse. Points repeat to `NOISE` at best; where the residuals are larger, they count,
for what the plateau carries, too, by Student's t.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from iotrace.analyze.stats.estimate import Estimate, worse_at_95
from iotrace.analyze.units import format_figure
from iotrace.schemas.arrays import Floats
from iotrace.schemas.vocabulary import listed

from .curve import interval, rates, widened
from .step import Samples, Step

NOISE: Final = 0.015
"""Relative spread of one throughput between two runs that differ in nothing, where nothing else is known."""
NOISE_SPREAD: Final = worse_at_95(0.0, 0, NOISE) ** 0.5
"""How far one throughput may then lie from the truth at 95 %."""
GRID: Final = 320
COLLAPSE_SHARE: Final = 0.95
"""Less than this share of the most carried, at a higher load, is overload: what was carried below stands."""
QUEUED_SHARE: Final = 0.9
"""Less than this share of the most throughput for each one in flight is no growth in proportion."""
CLEAR_SHARE: Final = 0.8
"""Less than this share of another throughput is clearly less, however much runs scatter."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """Result of `fit_plateau`; loads and throughputs in the units given."""

    knee: Estimate
    throughput: Estimate
    """What is carried on the plateau."""
    sigma: float
    """Contention below the knee."""
    is_flat: bool
    """Whether the plateau is real: significantly better than growth that goes on to the highest load."""
    misfit: float
    """Root mean square of the relative residuals, for the degrees of freedom left."""
    spread: float
    """How far one throughput may lie from the curve, relative, at 95 %."""
    is_scatter_known: bool
    """Whether there are points enough to tell how much they scatter."""


def fit_plateau(load: npt.ArrayLike, throughput: npt.ArrayLike, *, noise: float = NOISE) -> Plateau | None:
    """Fit points (N, X), N ascending and distinct, all above zero. None with fewer than three.

    ``noise`` is the relative spread that a throughput is known to, at best.
    """
    n = np.asarray(load, dtype=np.float64)
    x = np.asarray(throughput, dtype=np.float64)
    if len(n) < 3:
        return None
    knees = _knee_grid(n)
    squares, sigmas, level = (one[0] for one in _profile(n, x[None, :], knees))
    best = int(np.argmin(squares))
    # Among knees equally good to a hundredth of the noise, a whole number, and the earliest: all carry the same.
    equal = squares <= squares[best] + 0.01 * noise**2
    whole = equal & (knees == np.round(knees))
    best = int(np.argmax(whole if whole.any() else equal))
    freedom = len(n) - 3
    worse = worse_at_95(float(squares[best]), freedom, noise)
    good = squares <= squares[best] + worse
    interval = Estimate(float(knees[best]), float(knees[good].min()), float(knees[good].max()))
    carried = float(level[best])
    spread = worse**0.5
    reach = spread / float(np.count_nonzero(n >= knees[best] * (1 - 1e-9))) ** 0.5
    return Plateau(
        interval,
        Estimate(carried, carried * (1 - reach), carried * (1 + reach)),
        float(sigmas[best]),
        not bool(good[-1]),
        float(np.sqrt(squares[best] / max(freedom, 1))),
        spread,
        freedom >= 1,
    )


def plateau_knees(load: Floats, throughput: Floats) -> Floats:
    """The knee of each row of ``throughput`` [replicates, points] over ``load`` [points]."""
    knees = _knee_grid(load)
    squares, _, _ = _profile(load, throughput, knees)
    return np.asarray(knees[np.argmin(squares, axis=1)])


def _knee_grid(load: Floats) -> Floats:
    """Candidates from the lowest load to the highest, the loads themselves and small whole numbers among them."""
    even = np.geomspace(load[0], load[-1], GRID)
    whole = np.arange(np.ceil(load[0]), min(load[-1], GRID))
    return np.unique(np.concatenate([even[1:-1], load, whole]))


def _profile(load: Floats, throughput: Floats, knees: Floats) -> tuple[Floats, Floats, Floats]:
    """Least squares [rows, knees] of each row of ``throughput`` for each candidate, with its sigma and its plateau.

    For a given knee m / X = 1/lambda + (sigma/lambda) (m - 1) is a straight line in m, fitted to least relative error.
    """
    reached = np.minimum(load[None, :], knees[:, None])
    one, more = 1 / reached, 1 - 1 / reached
    square = throughput**2
    oo, om, mm = square @ (one**2).T, square @ (one * more).T, square @ (more**2).T
    o, m = throughput @ one.T, throughput @ more.T
    determinant = oo * mm - om**2
    regular = determinant > 1e-12 * oo * np.maximum(mm, 1e-300)
    slope = np.where(regular, (oo * m - om * o) / np.where(regular, determinant, 1.0), 0.0).clip(min=0.0)
    start = (o - om * slope) / oo
    squares = np.maximum(len(load) - start * o - slope * m, 0.0)
    return squares, slope / start, knees / (start + slope * (knees - 1))


GAIN_SHARE: Final = 0.95
BEYOND_FACTOR: Final = 1.5
_CARRIES_ALL: Final = 0.97
_APART: Final = 1.1
"""Loads nearer to each other than this are not worth a run each."""
DEPTH_FACTOR: Final = 1.25
"""How far a knee's interval may reach from a power of two that is called its queue depth."""

State = Literal["reached", "at_lowest", "onset", "not_reached", "not_judged"]


@dataclass(frozen=True, slots=True)
class Units:
    """How the words call the load and the throughput."""

    load: str = "outstanding"
    throughput: str = "IOPS"


@dataclass(frozen=True, slots=True)
class Saturation:
    """Where a series saturates.

    ``state``: reached, at ``outstanding``; at_lowest: already at the lowest tested, which ``outstanding`` then is;
    onset: I/Os queue at the highest, but no step shows that throughput stops; not_reached: throughput still grew in
    proportion at the highest; not_judged: too few steps tell of the storage.
    """

    state: State
    outstanding: Estimate | None
    iops: Estimate | None
    """Most that was carried, in I/Os per second or what `Units` says."""
    sentence: str
    is_corner: bool = False
    """Whether throughput stops at a corner; else it levels off, or was not seen to stop."""
    sigma: float | None = field(default=None, repr=False)
    """Contention below the corner."""
    falls_from: float | None = None
    """The lowest load tested from which on throughput falls; None where it does not."""


def saturation(measured: Sequence[tuple[int, Step, Samples]], *, seed: int = 0) -> Saturation:
    """The saturation point of steps with their numbers outstanding, in any order."""
    steps = sorted((one for one in measured if one[1].is_judged), key=lambda one: one[0])
    random = np.random.default_rng(seed)
    carried = [step.achieved_iops * rates(samples.completed_iops, random) for _, step, samples in steps]
    return saturation_of([count for count, _, _ in steps], np.array(carried))


def saturation_of(
    load: npt.ArrayLike, throughput: npt.ArrayLike, *, units: Units | None = None
) -> Saturation:
    """The saturation point of a table: loads N, ascending and distinct, and throughput X(N), both above zero.

    ``throughput`` is [points], or [points, replicates] with the point estimates first, where it was resampled.
    """
    units = units or Units()
    n = np.asarray(load, dtype=np.float64)
    if len(n) < 2:
        return Saturation("not_judged", None, None, "Too few steps to tell where it saturates.")
    carried = np.asarray(throughput, dtype=np.float64)
    carried = carried[:, None] if carried.ndim == 1 else carried
    kept = _before_fall(n, carried[:, 0])
    falls_from = float(n[kept]) if kept < len(n) else None
    x, held = carried[:kept, 0], n[:kept]
    best = int(np.argmax(x))
    plateau = fit_plateau(held, x)
    spread = NOISE_SPREAD if plateau is None else plateau.spread
    seen = interval(carried[best]) if carried.shape[1] > 1 else _exactly(x[best])
    most = widened(seen, spread)
    more = _more_in_flight(n, carried[:, 0], kept, units)
    is_beyond = falls_from is not None or n[-1] >= BEYOND_FACTOR * n[0]
    if x[0] >= GAIN_SHARE * x[best] and is_beyond:
        words = f"Saturated already at {n[0]:g} {units.load}, the least tested, with {_rate(most, units)}: {more}."
        return Saturation("at_lowest", _exactly(n[0]), most, words, falls_from=falls_from)
    corner = plateau if plateau is not None and plateau.is_flat else None
    full = x[best] if corner is None else min(corner.throughput.value, x[best])
    first = int(np.argmax(x >= GAIN_SHARE * full))
    if falls_from is None and n[-1] < BEYOND_FACTOR * n[first]:
        return _not_stopped(n, x, first, most, plateau, units)
    if corner is not None:
        found, most = _corner(held, carried[:kept], corner), _carried(corner, seen)
    else:
        found = _levelled(held, carried[:kept], first, best, spread)
    words = (
        f"Saturates at {found.value:.3g} {units.load} [{found.low:.3g}, {found.high:.3g}] with {_rate(most, units)}: "
        f"{more}."
    )
    return Saturation(
        "reached",
        found,
        most,
        words,
        corner is not None,
        None if corner is None else corner.sigma,
        falls_from,
    )


def _before_fall(load: Floats, throughput: Floats) -> int:
    """How many of the loads come before throughput falls, for good: each beyond carries clearly less."""
    best = int(np.argmax(throughput))
    kept = len(load)
    while throughput[kept - 1] < COLLAPSE_SHARE * throughput[best]:
        kept -= 1
    # What noise may have lowered is on the plateau still.
    while kept < len(load):
        plateau = fit_plateau(load[:kept], throughput[:kept])
        level, share = float(throughput[best]), CLEAR_SHARE
        if plateau is not None and plateau.is_scatter_known:
            level = plateau.throughput.value
            share = max(min(COLLAPSE_SHARE, 1 - 2**0.5 * plateau.spread), CLEAR_SHARE)
        if throughput[kept] < share * level:
            break
        kept += 1
    return kept


def _more_in_flight(load: Floats, throughput: Floats, kept: int, units: Units) -> str:
    """What more in flight than saturates it does, in words."""
    if kept == len(load):
        return "more in flight adds latency only"
    best, least = int(np.argmax(throughput)), kept + int(np.argmin(throughput[kept:]))
    return (
        f"from {load[kept]:g} {units.load} on, more in flight does harm: {units.throughput} fall, from "
        f"{throughput[best]:,.0f} at {load[best]:g} to {throughput[least]:,.0f} at {load[least]:g}, "
        f"{100 * throughput[least] / throughput[best]:.0f} % of it"
    )


def _not_stopped(
    load: Floats, throughput: Floats, first: int, most: Estimate, plateau: Plateau | None, units: Units
) -> Saturation:
    """No load shows that throughput stops: I/Os queue where it grew clearly less than they did, else they do not."""
    for_each = throughput / load
    noise = 0.0 if plateau is None else 1.96 * 2**0.5 * plateau.misfit
    if for_each[-1] >= max(min(QUEUED_SHARE, 1 - noise), CLEAR_SHARE) * for_each.max():
        grew = f"{units.throughput} still grew at {load[-1]:g} {units.load}, the most tested"
        return Saturation("not_reached", None, most, f"Not saturated: {grew}.")
    below, top = max(first - 1, 0), float(load[-1])
    where = (
        f"Saturates between {load[below]:g} and {top:g} {units.load}"
        if plateau is not None and plateau.is_flat
        else f"Where it saturates cannot be told from these runs, but there is a queue at {top:g} {units.load}"
    )
    gain, times = throughput[-1] / throughput[below], top / load[below]
    words = (
        f"{where}: from {load[below]:g} to {top:g}, {units.throughput} grew {format_figure(gain)} times for "
        f"{format_figure(times)} times as many {units.load}, so that latency grew {format_figure(times / gain)} times. "
        f"To know where, run {_next_loads(load[below], top, gain)} {units.load} as well."
    )
    return Saturation("onset", None, most, words)


def _next_loads(below: float, top: float, gain: float) -> str:
    """Which loads between two, and beyond them, would tell where throughput stops that grew ``gain`` times."""
    # X(N) <= N X(1): so much takes at least so many in flight.
    least = below * gain
    doubled = below * 2.0 ** np.arange(1, np.log2(top / below))
    between = [
        one for one in (least, *doubled[doubled >= _APART * least]) if _APART * below <= one <= top / _APART
    ]
    return listed([f"{one:.0f}" for one in [*between, 2 * top]])


def _exactly(value: float) -> Estimate:
    return Estimate(float(value), float(value), float(value))


def _corner(load: Floats, carried: Floats, plateau: Plateau) -> Estimate:
    low, high = plateau.knee.low, plateau.knee.high
    if carried.shape[1] > 1:
        knees = plateau_knees(load, np.maximum(carried, 1e-9).T)
        low, high = (
            min(low, float(np.quantile(knees[1:], 0.025))),
            max(high, float(np.quantile(knees[1:], 0.975))),
        )
    for count, rate in zip(load, carried[:, 0], strict=True):
        found = Estimate(float(count), low, high)
        if sure_depth(found) and rate >= _CARRIES_ALL * plateau.throughput.value:
            return found
    return Estimate(plateau.knee.value, low, high)


def sure_depth(knee: Estimate) -> bool:
    """Whether a knee is a power of two, and surely so: no number like 12 or 24 is as likely as 16."""
    depth = knee.value
    is_round = depth >= 2 and float(np.log2(depth)).is_integer()
    return is_round and depth / DEPTH_FACTOR <= knee.low <= depth <= knee.high <= DEPTH_FACTOR * depth


def _levelled(load: Floats, carried: Floats, first: int, best: int, spread: float) -> Estimate:
    below, upper = float(load[first - 1]), float(load[first])
    crossing = below * carried[best] / carried[first - 1]
    point = float(min(crossing[0], upper))
    # Beyond the first saturated step the asymptotes contradict what was measured, and bound nothing.
    least = np.quantile(crossing, 0.025) * (1 - 2**0.5 * spread)
    low = below if crossing[0] > upper else float(np.clip(least, below, point))
    return Estimate(point, low, upper)


def _carried(plateau: Plateau, most: Estimate) -> Estimate:
    """What the plateau carries; the best step is its high end, for it did carry that."""
    one = plateau.throughput
    return Estimate(one.value, min(one.low, most.low), max(one.high, most.high))


def batch_means(samples: Samples) -> tuple[float, float] | None:
    """95 % interval of a step's throughput, in IOPS, by batch means over its stretches; None with too few of them.

    Student's t over the stretches' rates (Law & Kelton, Simulation Modeling and Analysis, §9.5.3).
    """
    per_block = samples.completed_iops
    if len(per_block) < 5:
        return None
    from scipy import special  # noqa: PLC0415 - as in `step`

    mean, error = per_block.mean(), per_block.std(ddof=1) / len(per_block) ** 0.5
    reach = float(special.stdtrit(len(per_block) - 1, 0.975)) * error
    return float(mean - reach), float(mean + reach)


@dataclass(frozen=True, slots=True)
class BestSize:
    """The smallest size that moves at least 95 % of what the best does; None where the largest is still better."""

    size_bytes: int | None
    larger_than_bytes: int | None
    """The largest tested size that moves less; None where the smallest tested suffices."""
    mb_per_s: float
    sentence: str


def best_size(measured: Sequence[tuple[int, Step, Samples]]) -> BestSize | None:
    """The size beyond which nothing is gained, of steps with their sizes; None where too few tell of the storage."""
    steps = sorted((one for one in measured if one[1].is_judged), key=lambda one: one[0])
    if len(steps) < 2:
        return None
    moved = [step.achieved_mb_per_s for _, step, _ in steps]
    most = max(moved)
    first = next(index for index, one in enumerate(moved) if one >= GAIN_SHARE * most)
    size = steps[first][0]
    smaller = steps[first - 1][0] if first else None
    if steps[-1][0] < BEYOND_FACTOR * size:
        words = f"MB/s still grew at {_size(steps[-1][0])}, the largest tested: {most:,.1f} MB/s."
        return BestSize(None, smaller, most, words)
    return BestSize(size, smaller, most, f"Nothing is gained beyond {_size(size)}: {most:,.1f} MB/s.")


def _size(size_bytes: int) -> str:
    return f"{size_bytes // 1024}K" if size_bytes % 1024 == 0 else str(size_bytes)


def _rate(carried: Estimate, units: Units) -> str:
    rate = f"{carried.value:,.0f} {units.throughput}"
    return rate if carried.low == carried.high else f"{rate} [{carried.low:,.0f}, {carried.high:,.0f}]"
