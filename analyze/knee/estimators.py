"""Estimators of a bend in a latency-load curve, each a pure function of a few points.

The first is a continuous two-segment line through log latency (the "broken stick"; Muggeo 2003, Estimating regression
models with unknown break-points, Statistics in Medicine 22:3055): log y = a + b x + c max(0, x - knee), c > 0, the knee
found on a grid. The others are votes: Kneedle (Satopää, Albrecht, Irwin & Raghavan 2011, Finding a "Kneedle" in a
haystack) and the load of greatest power (Kleinrock 1979, Power and deterministic rules of thumb).

Limits: a smooth queueing curve has no corner, so a broken stick through it depends on where the steps lie; it is exact
only for what it assumes. Where throughput stops climbing is measured apart and bounds the knee from above.

The Universal Scalability Law: what contention and coherence leave of N times the throughput of one.

X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)): sigma is the share of the work that has to queue for something
shared, kappa the cost of keeping pairs of workers consistent (Gunther 1993, A simple capacity model of massively
parallel transaction systems, CMG; 2007, Guerrilla Capacity Planning, ch. 4 to 6). With kappa 0 it is Amdahl's law, and
exactly the throughput of balanced queues (N / (N + M - 1): Lazowska et al. 1984, ch. 5).

Divided through, N / X is linear in 1/lambda, sigma/lambda and kappa/lambda, so that the fit of least relative error
with no parameter below zero is a non-negative least squares problem, solved exactly (Lawson & Hanson 1974, ch. 23).

The law is smooth: where throughput stops at a corner, as at a queue depth or a throttle, it does not fit, and says so
by its misfit. Beyond the loads tested it is an extrapolation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.analyze.present.program import figure
from iotrace.analyze.stats.estimate import Estimate
from iotrace.schemas.arrays import Floats

MISFIT_MAX: Final = 0.1
"""Typical relative distance of the points from the law above which it says nothing of them."""
NOISE_MIN: Final = 0.01
"""No throughput repeats more exactly than to 1 %."""
REPLICATES: Final = 400
_POINTS_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Usl:
    """The law's parameters with 95 % intervals. Throughput is in the unit it was given in, N in workers or I/Os."""

    rate_of_one: Estimate
    """lambda: throughput with one in flight."""
    sigma: Estimate
    kappa: Estimate
    peak_at: float | None
    """N of greatest throughput, sqrt((1 - sigma) / kappa); None where the law only levels off."""
    ceiling: Estimate | None
    """Greatest throughput, at ``peak_at`` or as N grows without end; None where the points do not bound it."""
    misfit: float
    """Root mean square of the relative residuals, for the degrees of freedom left."""

    @figure
    def fits(self) -> bool:
        """Whether the points follow the law at all."""
        return self.misfit <= MISFIT_MAX

    def throughput(self, load: npt.ArrayLike) -> Floats:
        """X(N) of the fitted law."""
        n = np.asarray(load, dtype=np.float64)
        bottom = 1 + self.sigma.value * (n - 1) + self.kappa.value * n * (n - 1)
        return np.asarray(self.rate_of_one.value * n / bottom)


def fit_usl(load: npt.ArrayLike, throughput: npt.ArrayLike, *, seed: int = 0) -> Usl | None:
    """Fit the law to points (N, X), both above zero; None with fewer than four of them, or all at one N.

    Intervals are a parametric bootstrap: points of the fitted law with the relative noise of the residuals (1 % at
    least), widened by Student's t for the few degrees of freedom, fitted again.
    """
    n, x = np.asarray(load, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    if len(n) < _POINTS_MIN or np.ptp(n) <= 0 or np.any(n <= 0) or np.any(x <= 0):
        return None
    from scipy import special  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    terms = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)]) / n[:, None]
    found = _solve(terms, x)
    expected = 1 / (terms @ found)
    freedom = len(n) - 3
    misfit = float(np.sqrt(np.sum((x / expected - 1) ** 2) / freedom))
    noise = max(misfit, NOISE_MIN) * float(special.stdtrit(freedom, 0.975)) / 1.96
    # Noise as large as the signal would make throughputs below zero.
    draws = np.random.default_rng(seed).normal(0, min(noise, 0.5), (REPLICATES, len(n)))
    again = np.array([found, *(_solve(terms, expected * np.exp(row)) for row in draws)])
    rate, sigma, kappa = 1 / again[:, 0], again[:, 1] / again[:, 0], again[:, 2] / again[:, 0]
    peak_at = _peak_at(float(sigma[0]), float(kappa[0]))
    ceilings = np.array([_ceiling(*row) for row in zip(rate, sigma, kappa, strict=True)])
    # A ceiling that a fortieth of the replicates does not have is not established.
    bounded = bool(np.isfinite(ceilings[0]) and np.isfinite(ceilings[1:]).mean() >= 0.975)
    ceiling = _estimate(np.minimum(ceilings, np.finfo(float).max / 4)) if bounded else None
    return Usl(_estimate(rate), _estimate(sigma), _estimate(kappa), peak_at, ceiling, misfit)


def _solve(terms: Floats, throughput: Floats) -> Floats:
    """1/lambda, sigma/lambda, kappa/lambda of least relative error."""
    from scipy import optimize  # noqa: PLC0415 - as above

    solve: Callable[[Floats, Floats], tuple[Floats, float]] = optimize.nnls
    # Columns of like size: N (N - 1) reaches 10^5 where 1 is 1.
    size = np.maximum(np.abs(terms).max(axis=0), 1e-300)
    found, _ = solve(terms / size * throughput[:, None], np.ones(len(throughput)))
    weights: Floats = found / size
    weights[0] = max(weights[0], 1e-12 / float(throughput.max()))
    return weights


def _peak_at(sigma: float, kappa: float) -> float | None:
    return float(np.sqrt((1 - sigma) / kappa)) if kappa > 0 and sigma < 1 else None


def _ceiling(rate: float, sigma: float, kappa: float) -> float:
    peak = _peak_at(sigma, kappa)
    if peak is not None:
        return rate * peak / (1 + sigma * (peak - 1) + kappa * peak * (peak - 1))
    return rate / sigma if sigma > 0 else float("inf")


def _estimate(values: Floats) -> Estimate:
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return Estimate(float(values[0]), min(float(low), float(values[0])), max(float(high), float(values[0])))


GRID: Final = 240
LATENCY_NOISE: Final = 0.03
"""Relative spread of one latency between two runs that differ in nothing."""
WIGGLE: Final = 0.05
"""Deviations of latency from a line by 5 % are no bend: among equally good knees the last one is taken."""


def knees_on_grid(x: Floats, log_y: Floats) -> Floats:
    """Knee of each row of ``log_y`` [replicates, points] over the loads ``x`` [points], ascending and distinct.

    The knee lies strictly between the second load from below (or the first, with three points) and the last one. Where
    no bend upwards improves on a line by more than `WIGGLE`, the highest load is returned: no bend before it.
    """
    count = len(x)
    if count < 3:
        return np.full(len(np.atleast_2d(log_y)), x[-1])
    candidates, residuals = _residuals(x, np.atleast_2d(log_y))
    best = residuals.min(axis=0)
    good = residuals <= best + WIGGLE**2 * count
    last = len(candidates) - 1 - np.argmax(good[::-1], axis=0)
    return np.asarray(candidates[last])


def _residuals(x: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Candidate knees, and the sum of squared residuals of each for each row [candidates, rows]."""
    count = len(x)
    candidates = np.linspace(x[0], x[-1], GRID + 2)[1:]
    residuals = np.full((len(candidates), len(rows)), np.inf)
    for index, knee in enumerate(candidates):
        design = np.column_stack([np.ones(count), x, np.maximum(0.0, x - knee)])
        if index == len(candidates) - 1 or np.count_nonzero(x < knee) < min(2, count - 2):
            design = design[:, :2]
        weights, *_ = np.linalg.lstsq(design, rows.T, rcond=None)
        error = ((rows.T - design @ weights) ** 2).sum(axis=0)
        if design.shape[1] == 3:
            error = np.where(weights[2] > 0, error, np.inf)
        residuals[index] = error
    return candidates, residuals


def kneedle(x: Floats, y: Floats) -> float | None:
    """Load of the knee of an increasing convex curve by Kneedle, S = 1; None if the curve has none.

    Both axes are scaled to a length of 1, the curve is mirrored to a concave one and the highest local maximum of its
    distance to the diagonal is taken, if the distance falls below the threshold d - S * mean spacing before the curve
    ends.
    """
    if len(x) < 4 or x[-1] <= x[0] or y.max() <= y.min():
        return None
    # Only differences of either count, so that where an axis begins does not.
    across = x / (x[-1] - x[0])
    up = y / (y.max() - y.min())
    # Mirrored in both axes, a convex rise becomes a concave one that starts at the steep end.
    distance = (across - up)[::-1]
    spacing = float(np.mean(np.diff(across)))
    best: tuple[float, int] | None = None
    for index in range(1, len(x) - 1):
        here = float(distance[index])
        if not (here >= distance[index - 1] and here > distance[index + 1]):
            continue
        if np.any(distance[index + 1 :] < here - spacing) and (best is None or here > best[0]):
            best = (here, index)
    return None if best is None else float(x[::-1][best[1]])


def kneedle_concave(x: Floats, y: Floats) -> float | None:
    """`kneedle` of a rising curve that flattens, such as throughput over I/Os in flight."""
    mirrored = kneedle(x[-1] - x[::-1], y.max() - y[::-1])
    return None if mirrored is None else float(x[-1] - mirrored)


def peak_power(x: Floats, throughput: Floats, latency: Floats) -> float:
    """Load at which throughput over mean latency is greatest: for M/M/1 at half the capacity."""
    # A model without service times answers at once.
    return float(x[int(np.argmax(throughput / np.maximum(latency, 1e-12)))])
