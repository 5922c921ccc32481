"""Estimators of a bend in a latency-load curve, each a pure function of a few points.

The first is a continuous two-segment line through log latency (the "broken stick"; Muggeo 2003, Estimating regression
models with unknown break-points, Statistics in Medicine 22:3055): log y = a + b x + c max(0, x - knee), c > 0, the knee
found on a grid. The others are votes: Kneedle (Satopää, Albrecht, Irwin & Raghavan 2011, Finding a "Kneedle" in a
haystack) and the load of greatest power (Kleinrock 1979, Power and deterministic rules of thumb).

Limits: a smooth queueing curve has no corner, so a broken stick through it depends on where the steps lie; it is exact
only for what it assumes. Where throughput stops climbing is measured apart and bounds the knee from above.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

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

    Both axes are scaled to 0…1, the curve is mirrored to a concave one and the highest local maximum of its distance
    to the diagonal is taken, if the distance falls below the threshold d - S * mean spacing before the curve ends.
    """
    if len(x) < 4 or x[-1] <= x[0] or y.max() <= y.min():
        return None
    across = (x - x[0]) / (x[-1] - x[0])
    up = (y - y.min()) / (y.max() - y.min())
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
    return float(x[int(np.argmax(throughput / latency))])
