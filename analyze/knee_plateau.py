"""Where more in flight stops to give more: a curve of throughput that grows, and then is flat.

The pure estimator, on arrays: what a load test prints (outstanding I/Os or threads, and IOPS or MB/s) is enough.

X(N) = lambda m / (1 + sigma (m - 1)) with m = min(N, knee): throughput is what the first ``knee`` in flight give,
however many more wait. Below the knee it grows as Amdahl's law lets it (see `knee_usl`); with sigma 0, it is the pair
of asymptotes of a closed queueing system (Denning & Buzen 1978, Computing Surveys 10:225, §5). lambda, sigma >= 0 and
the knee are those of least relative error, the knee on a grid: a segmented regression like `knee_fit`'s.

The interval is that of the profile likelihood (Bates & Watts 1988, Nonlinear Regression Analysis, ch. 6): every knee
whose best fit is not significantly worse. Points repeat to `NOISE` at best; where the residuals are larger, they count.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .estimate import Estimate
from .profile_likelihood import worse_at_95

Floats = npt.NDArray[np.float64]

NOISE: Final = 0.015
"""Relative spread of one throughput between two runs that differ in nothing, where nothing else is known."""
GRID: Final = 320
COLLAPSE_SHARE: Final = 0.95
"""Less than this share of the most carried, at a higher load, is overload: what was carried below stands."""


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
    """Root mean square of the relative residuals."""


def fit_plateau(load: npt.ArrayLike, throughput: npt.ArrayLike, *, noise: float = NOISE) -> Plateau | None:
    """Fit points (N, X), N ascending and distinct, all above zero. None with fewer than three.

    ``noise`` is the relative spread that a throughput is known to, at best.
    """
    n = np.asarray(load, dtype=np.float64)
    x = envelope(np.asarray(throughput, dtype=np.float64))
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
    flat = x[n >= knees[best] * (1 - 1e-9)]
    carried = float(level[best])
    reach = noise / max(len(flat), 1) ** 0.5 * 1.96
    return Plateau(
        interval,
        Estimate(carried, carried * (1 - reach), carried * (1 + reach)),
        float(sigmas[best]),
        not bool(good[-1]),
        float(np.sqrt(squares[best] / len(n))),
    )


def plateau_knees(load: Floats, throughput: Floats) -> Floats:
    """The knee of each row of ``throughput`` [replicates, points] over ``load`` [points]."""
    knees = _knee_grid(load)
    squares, _, _ = _profile(load, throughput, knees)
    return np.asarray(knees[np.argmin(squares, axis=1)])


def envelope(throughput: Floats) -> Floats:
    """Throughput without collapse: what was carried at a lower load, where a higher one carries clearly less."""
    most = np.maximum.accumulate(throughput)
    return np.where(throughput < COLLAPSE_SHARE * most, most, throughput)


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
