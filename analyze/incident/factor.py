"""How many times slower than normal a stretch was, and the interval that holds it.

ln(latency) around the stretch is taken for a normal level, plus a drift, plus the storage's speed that wanders from
slot to slot, plus the scatter of a slot's mean, plus one step for the stretch: a linear mixed model (Harville 1977,
"Maximum likelihood approaches to variance component estimation", JASA 72). The drift is a sum of Legendre polynomials
of random height, the wandering an Ornstein-Uhlenbeck process (AR(1), for slots that need not be neighbours), the
scatter is independent.

How strong each is has to be learnt from the same few minutes, and what is taken for drift or wandering is not free to
be incident. So no one value is settled on: the step is averaged over a grid of them, weighted by restricted likelihood
(Hoeting et al. 1999, "Bayesian model averaging", Statistical Science 14), and the interval is that of the mixture.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import legvander

from iotrace.schemas.arrays import Floats

from .change_points import without_single_outliers
from .stretches import Judged, Stretch

_NEAR_POINTS: Final = 300
"""Normal slots looked at on each side, or twice as many as the stretch has, if that is more."""
_NEAR_POINTS_MAX: Final = 1000
_MEMORY_SLOTS: Final = (0.7, 1.5, 3.0, 6.0, 15.0, 40.0, 100.0)
_WANDERING_SHARES: Final = (0.03, 0.2, 0.4, 0.6, 0.8, 0.95)
_DRIFT_HEIGHTS: Final = (0.0, 0.3, 1.0, 3.0, 10.0)
"""Of the polynomial of degree one, in standard deviations of the noise; that of degree k is k^2 times lower."""
_DRIFT_DEGREES: Final = 8
_OUTLIER_LIMIT: Final = 5.0
_NOISE_PRIOR_POINTS: Final = 8


@dataclass(frozen=True, slots=True)
class Factor:
    """A geometric mean of latency over normal latency, and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Steps:
    """The step under each setting of the model: its estimate, standard error and weight (adding up to one)."""

    value: Floats
    error: Floats
    weight: Floats
    freedom: int

    def quantile(self, share: float) -> float:
        """The value below which a ``share`` of the mixture of t distributions lies, by bisection."""
        from scipy.special import stdtr, stdtrit  # noqa: PLC0415 - it takes long to import, and every command would wait for it

        reach = float(stdtrit(self.freedom, 0.5 + abs(share - 0.5))) * self.error
        low, high = float((self.value - reach).min()), float((self.value + reach).max())
        for _ in range(60):
            middle = (low + high) / 2
            below = float(self.weight @ stdtr(self.freedom, (middle - self.value) / self.error))
            low, high = (middle, high) if below < share else (low, middle)
        return (low + high) / 2


def factor_of(judged: Judged, stretch: Stretch) -> Factor:
    """How slow ``stretch`` of ``judged`` was, with a 95 % interval.

    The slots it begins and ends in belong to it only in part and are left out, where it has others.
    """
    at, inside = _slots(judged, stretch)
    values = without_single_outliers(judged.series.values, judged.segmentation.weight, limit=_OUTLIER_LIMIT)
    values = np.where(inside, judged.series.values[at], values[at]) if inside.sum() == 1 else values[at]
    slots = judged.series.at[at].astype(np.float64)
    scatter = 1 / judged.segmentation.weight[at]
    if len(at) - int(inside.sum()) < 4:
        reach = 1.96 * stretch.excess_error
        return _as_factor(stretch.excess, stretch.excess - reach, stretch.excess + reach)
    steps = _steps(slots, values, inside, scatter / float(np.median(scatter)))
    return _as_factor(float(steps.weight @ steps.value), steps.quantile(0.025), steps.quantile(0.975))


def _as_factor(value: float, low: float, high: float) -> Factor:
    value, low, high = (float(np.exp(np.clip(one, -20, 20))) for one in (value, low, high))
    return Factor(value, low, high)


def _slots(judged: Judged, stretch: Stretch) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Positions in the series of the stretch's inner points and of the normal ones near it, and which are which."""
    at = judged.series.at
    first, end = np.searchsorted(at, [stretch.first, stretch.end])
    inner = np.arange(first + 1, end - 1) if end - first >= 3 else np.arange(first, end)
    normal = ~judged.slow
    normal[max(first - 1, 0) : end + 1] = False
    near = min(max(_NEAR_POINTS, 2 * len(inner)), _NEAR_POINTS_MAX)
    before = np.flatnonzero(normal[:first])[-near:]
    after = np.flatnonzero(normal[end:])[:near] + end
    chosen = np.concatenate([before, inner, after])
    return chosen, (chosen >= first) & (chosen < end)


def _steps(slots: Floats, values: Floats, inside: npt.NDArray[np.bool_], scatter: Floats) -> _Steps:
    """The step at ``inside`` under each setting. All arrays have one length; ``scatter`` is a relative variance."""
    scale = np.where(inside, np.sqrt(_noise_ratio(values, inside, scatter)), 1.0)
    x = 2 * (slots - slots[0]) / (slots[-1] - slots[0]) - 1
    degrees = np.arange(1, _DRIFT_DEGREES + 1)
    drift = legvander(x, _DRIFT_DEGREES)[:, 1:] * np.sqrt(2 * degrees + 1) / degrees**2
    fixed = np.stack([np.ones(len(x)), inside.astype(np.float64)], axis=1)
    columns = np.column_stack([fixed, drift, values]) / scale[:, None]
    grams, log_determinants = _grams(slots, columns, scatter)
    found = [_step(grams, log_determinants, height, len(x)) for height in _DRIFT_HEIGHTS]
    value, error, likelihood = (np.concatenate(one) for one in zip(*found, strict=True))
    weight = np.exp(likelihood - likelihood.max())
    return _Steps(value, error, weight / weight.sum(), len(x) - 2)


def _noise_ratio(values: Floats, inside: npt.NDArray[np.bool_], scatter: Floats) -> float:
    """How much more slots vary inside than outside, from differences of neighbours; near one where few are inside."""
    squares = np.diff(values) ** 2 / (scatter[1:] + scatter[:-1])
    both, neither = inside[1:] & inside[:-1], ~(inside[1:] | inside[:-1])
    if not neither.any() or not both.any():
        return 1.0
    usual = float(squares[neither].mean())
    count = int(both.sum())
    mine = float(squares[both].mean()) / usual if usual > 0 else 1.0
    return (_NOISE_PRIOR_POINTS + count * mine) / (_NOISE_PRIOR_POINTS + count)


def _grams(slots: Floats, columns: Floats, scatter: Floats) -> tuple[Floats, Floats]:
    """For each memory and share of wandering: columns' inner products under the noise, and its log determinant.

    The noise is a * R + (1 - a) * D, R that of the wandering with a tridiagonal inverse, D diagonal, so by Woodbury's
    identity everything takes time linear in the number of slots.
    """
    from scipy.linalg import cho_solve_banded, cholesky_banded  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    grams, log_determinants = [], []
    for memory in _MEMORY_SLOTS:
        kept = np.exp(-np.diff(slots) / memory)
        fresh = 1 - kept**2
        banded = np.zeros((2, len(slots)))
        banded[1] = np.concatenate([[1.0], 1 / fresh])
        banded[1, :-1] += kept**2 / fresh
        banded[0, 1:] = -kept / fresh
        for share in _WANDERING_SHARES:
            own = (1 - share) * scatter
            inner = banded / share
            inner[1] += 1 / own
            factor = cholesky_banded(inner)
            scaled = columns / own[:, None]
            gram = columns.T @ scaled - scaled.T @ cho_solve_banded((factor, False), scaled)
            grams.append(gram)
            log_determinants.append(
                2 * np.log(factor[1]).sum()
                + np.log(own).sum()
                + np.log(fresh).sum()
                + len(slots) * np.log(share)
            )
    return np.array(grams), np.array(log_determinants)


def _step(
    grams: Floats, log_determinants: Floats, height: float, count: int
) -> tuple[Floats, Floats, Floats]:
    """The step, its standard error and the restricted log likelihood by each of ``grams``, with drift of ``height``."""
    drift = slice(2, 2 + _DRIFT_DEGREES)
    rest = np.array([0, 1, grams.shape[-1] - 1])
    reduced = grams[:, rest[:, None], rest]
    if height:
        inner = grams[:, drift, drift] + np.eye(_DRIFT_DEGREES) / height**2
        reduced = reduced - grams[:, rest, drift] @ np.linalg.solve(inner, grams[:, drift, rest])
        log_determinants = (
            log_determinants + np.linalg.slogdet(inner)[1] + 2 * _DRIFT_DEGREES * float(np.log(height))
        )
    inverse = np.linalg.inv(reduced[:, :2, :2])
    estimate = (inverse @ reduced[:, :2, 2, None])[..., 0]
    squares = np.maximum(reduced[:, 2, 2] - (reduced[:, :2, 2] * estimate).sum(axis=1), 1e-12)
    freedom = count - 2
    error = np.sqrt(inverse[:, 1, 1] * squares / freedom)
    likelihood = (
        -0.5 * log_determinants
        - 0.5 * np.linalg.slogdet(reduced[:, :2, :2])[1]
        - 0.5 * freedom * np.log(squares)
    )
    return estimate[:, 1], error, likelihood
