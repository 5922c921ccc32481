"""Where does more I/O in flight stop to give more I/O? The saturation point of a series of closed loops.

Each step keeps a fixed number N of I/Os in flight, so load is N and throughput X(N) is what comes of it. Until a
station is saturated the mean response stays R and, by Little's law, X = N/R; after, X stays at the station's capacity
and R grows. The two asymptotes cross at N* = X_max R (Denning & Buzen 1978, Computing Surveys 10:225, §5; Lazowska et
al. 1984, Quantitative System Performance, ch. 5): the number in flight that the storage can work on at a time.

R is taken from the last step below saturation, X_max is the greatest throughput of any. A step is saturated when it
carries at least 95 % of X_max. The interval runs from the lower end of the bootstrap of N* (`knee_resample`) to the
first saturated step; from the step before it where the asymptotes cross only beyond that, as with a noisy step.
Saturation counts as reached only when a step with at least 1.5 times as much in flight gained no more.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from .knee_answer import Estimate
from .knee_resample import interval, rates
from .knee_step import Samples, Step

GAIN_SHARE: Final = 0.95
BEYOND_FACTOR: Final = 1.5

State = Literal["reached", "at_lowest", "not_reached", "not_judged"]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Saturation:
    """Where a series saturates.

    ``state``: reached, at ``outstanding``; at_lowest: already at the lowest tested, which ``outstanding`` then is;
    not_reached: throughput still grew at the highest; not_judged: too few steps tell of the storage.
    """

    state: State
    outstanding: Estimate | None
    iops: Estimate | None
    """Most that was carried."""
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def saturation(measured: Sequence[tuple[int, Step, Samples]], *, seed: int = 0) -> Saturation:
    """The saturation point of steps with their numbers outstanding, in any order."""
    steps = sorted((one for one in measured if one[1].is_judged), key=lambda one: one[0])
    if len(steps) < 2:
        return Saturation("not_judged", None, None, "Too few steps to tell where it saturates.")
    random = np.random.default_rng(seed)
    carried = [step.achieved_iops * rates(samples.completed_iops, random) for _, step, samples in steps]
    outstanding = [count for count, _, _ in steps]
    best = int(np.argmax([one[0] for one in carried]))
    most = interval(carried[best])
    first = next(index for index, one in enumerate(carried) if one[0] >= GAIN_SHARE * most.value)
    highest = outstanding[-1]
    if highest < BEYOND_FACTOR * outstanding[first]:
        return Saturation(
            "not_reached",
            None,
            most,
            f"Not saturated: IOPS still grew at {highest} outstanding, the most tested.",
        )
    if first == 0:
        at = float(outstanding[0])
        words = f"Saturated already at {outstanding[0]} outstanding, the least tested, with {_rate(most)}."
        return Saturation("at_lowest", Estimate(at, at, at), most, words)
    below, upper = float(outstanding[first - 1]), float(outstanding[first])
    crossing = below * carried[best] / carried[first - 1]
    point = float(min(crossing[0], upper))
    # Beyond the first saturated step the asymptotes contradict what was measured, and bound nothing.
    low = below if crossing[0] > upper else float(np.clip(np.quantile(crossing[1:], 0.025), below, point))
    found = Estimate(point, low, upper)
    words = (
        f"Saturates at {point:.3g} outstanding [{low:.3g}, {upper:g}] with {_rate(most)}: "
        "more in flight adds latency only."
    )
    return Saturation("reached", found, most, words)


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


def _rate(iops: Estimate) -> str:
    return f"{iops.value:,.0f} IOPS [{iops.low:,.0f}, {iops.high:,.0f}]"
