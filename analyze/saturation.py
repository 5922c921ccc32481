"""Where does more I/O in flight stop to give more I/O? The saturation point of a series of closed loops.

Each step keeps a fixed number N of I/Os in flight, so load is N and throughput X(N) is what comes of it. Until
something is saturated throughput grows with N; after, it stays and, by Little's law, latency grows as N does. The
saturation point is the corner of `knee_plateau`: the number in flight that the storage can work on at a time.

Its interval covers the fit's residuals and, where the steps hold single I/Os, the bootstrap of their throughput
(`knee_resample`). A corner within whose interval lies a power of two that was tested and carries everything is given
as that number: queue depths are powers of two.

Where throughput levels off without a corner, the asymptotes of a closed system bound the point instead: it lies
between where they cross, N* = X_max R (Lazowska et al. 1984, Quantitative System Performance, ch. 5), and the first
step that carries 95 % of X_max. Saturation counts as reached only when a step with at least 1.5 times as much in
flight gained no more.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from .estimate import Estimate
from .knee_plateau import Plateau, envelope, fit_plateau, plateau_knees
from .knee_resample import interval, rates
from .knee_step import Samples, Step

GAIN_SHARE: Final = 0.95
BEYOND_FACTOR: Final = 1.5
_CARRIES_ALL: Final = 0.97

State = Literal["reached", "at_lowest", "not_reached", "not_judged"]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Units:
    """How the words call the load and the throughput."""

    load: str = "outstanding"
    throughput: str = "IOPS"


@dataclass(frozen=True, slots=True)
class Saturation:
    """Where a series saturates.

    ``state``: reached, at ``outstanding``; at_lowest: already at the lowest tested, which ``outstanding`` then is;
    not_reached: throughput still grew at the highest; not_judged: too few steps tell of the storage.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


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
    x = carried[:, 0]
    best = int(np.argmax(x))
    most = interval(carried[best]) if carried.shape[1] > 1 else _exactly(x[best])
    if x[0] >= GAIN_SHARE * x[best] and n[-1] >= BEYOND_FACTOR * n[0]:
        words = f"Saturated already at {n[0]:g} {units.load}, the least tested, with {_rate(most, units)}."
        return Saturation("at_lowest", _exactly(n[0]), most, words)
    first = int(np.argmax(x >= GAIN_SHARE * x[best]))
    if n[-1] < BEYOND_FACTOR * n[first]:
        grew = f"{units.throughput} still grew at {n[-1]:g} {units.load}, the most tested"
        return Saturation("not_reached", None, most, f"Not saturated: {grew}.")
    plateau = fit_plateau(n, x)
    if plateau is not None and plateau.is_flat:
        found, most = _corner(n, carried, plateau), _carried(plateau, most)
    else:
        plateau = None
        found = _levelled(n, carried, first, best)
    words = (
        f"Saturates at {found.value:.3g} {units.load} [{found.low:.3g}, {found.high:.3g}] with {_rate(most, units)}: "
        "more in flight adds latency only."
    )
    return Saturation(
        "reached", found, most, words, plateau is not None, None if plateau is None else plateau.sigma
    )


def _exactly(value: float) -> Estimate:
    return Estimate(float(value), float(value), float(value))


def _corner(load: Floats, carried: Floats, plateau: Plateau) -> Estimate:
    low, high = plateau.knee.low, plateau.knee.high
    if carried.shape[1] > 1:
        knees = plateau_knees(load, np.apply_along_axis(envelope, 0, np.maximum(carried, 1e-9)).T)
        low, high = (
            min(low, float(np.quantile(knees[1:], 0.025))),
            max(high, float(np.quantile(knees[1:], 0.975))),
        )
    for count, rate in zip(load, carried[:, 0], strict=True):
        is_depth = count >= 2 and float(np.log2(count)).is_integer()
        if is_depth and low <= count <= high and rate >= _CARRIES_ALL * plateau.throughput.value:
            return Estimate(float(count), low, high)
    return Estimate(plateau.knee.value, low, high)


def _levelled(load: Floats, carried: Floats, first: int, best: int) -> Estimate:
    below, upper = float(load[first - 1]), float(load[first])
    crossing = below * carried[best] / carried[first - 1]
    point = float(min(crossing[0], upper))
    # Beyond the first saturated step the asymptotes contradict what was measured, and bound nothing.
    low = below if crossing[0] > upper else float(np.clip(np.quantile(crossing, 0.025), below, point))
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
    from scipy import special  # noqa: PLC0415 - as in `knee_step`

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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


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
