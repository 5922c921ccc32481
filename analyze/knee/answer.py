"""The answer to "where is the knee?" as data."""

from dataclasses import dataclass, field
from typing import Any, Literal

from iotrace.analyze.present.program import figure
from iotrace.analyze.slo import Objective
from iotrace.analyze.stats.estimate import Estimate

from .estimators import Usl
from .predicted import Predicted
from .step import Step, Transactions

State = Literal["reached", "onset", "not_reached", "before_range", "not_judged"]
SloState = Literal[
    "crossed", "met_everywhere", "missed_at_lowest", "contradicted", "too_few_ios", "no_such_io", "not_judged"
]


@dataclass(frozen=True, slots=True)
class Cause:
    """What saturated, by one of the rules of `causes`. ``clause`` fits into a sentence."""

    kind: Literal["queue_depth", "bandwidth", "iops", "device", "host_queue", "above_block", "generator"]
    layer: str | None
    """The saturated layer, where the measurements name one."""
    clause: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Vote:
    """What another estimator says. ``iops`` is None where it sees no knee."""

    method: str
    iops: float | None
    agrees: bool | None
    """Whether it lies within a step or 25 % of the knee; None where there is nothing to compare."""
    outstanding: float | None = None
    """Where it sees the knee of closed loops, in flight."""


@dataclass(frozen=True, slots=True)
class Credits:
    """What was carried while saved credits lasted: tokens of a throttle, free space of a write cache or an SLC cache.

    How many can be saved is known only as a lower bound: a step may have begun with fewer.
    """

    burst_iops: float
    """Most that was carried meanwhile."""
    ios: float
    """I/Os beyond the sustained rate."""
    size_bytes: float
    """The same in bytes, at the mean size."""
    limited_op: str | None
    """The operation that is held back without them, where it is one only."""


@dataclass(slots=True)
class SloKnee:
    """The highest load at which one objective holds.

    ``crossed``: between two loads, at ``iops``; ``met_everywhere``: up to ``highest_met_iops``, the highest judged;
    ``missed_at_lowest``: at no load tested; ``contradicted``: missed at a load and met at a higher one;
    ``too_few_ios``: the quantile has under 100 I/Os beyond it; ``no_such_io``: no I/O is covered; ``not_judged``: too
    few steps tell of the storage.
    """

    objective: Objective
    state: SloState
    iops: Estimate | None
    scale: Estimate | None
    highest_met_iops: float | None
    highest_met_scale: float | None
    quantile_ns: list[int | None]
    """The objective's quantile at each step of the knee's ``steps``; None where too few I/Os lie beyond it."""
    sentence: str = ""
    surely_missed_iops: float | None = None
    """Where ``crossed``: the lowest load run that misses it, if the whole interval of its quantile does."""
    surely_met_iops: float | None = None
    """Where ``crossed``: the highest load run below, if the whole interval of its quantile meets it."""


@dataclass(slots=True)
class Knee:
    """Where the storage's latency starts to climb and its throughput stops climbing, and how that is known.

    ``state``
        reached; not_reached (up to ``highest_kept_up_iops``); onset (nor was it reached, but I/Os queue: latency has
        doubled, at ``doubled_iops``; in closed loops it grew, and throughput not in proportion); before_range (even the
        lowest load was too much); not_judged (too few steps tell of the storage).
    ``basis``
        saturation: latency bends where throughput stops climbing; throughput: it stops climbing there, but latency
        bends clearly earlier, at ``onset_iops``, or could not be judged below.
    ``sustained_iops``
        Most that was carried where more was offered, once saved credits were spent; None unless a step was saturated.
    """

    state: State
    basis: Literal["saturation", "throughput"] | None
    iops: Estimate | None
    mb_per_s: Estimate | None
    scale: Estimate | None
    onset_iops: Estimate | None
    sustained_iops: Estimate | None
    highest_kept_up_iops: float | None
    highest_kept_up_scale: float | None
    lowest_offered_iops: float
    highest_offered_iops: float
    iops_at_1x: float | None
    steps: list[Step]
    """By rising offered load."""
    votes: list[Vote] = field(default_factory=list)
    objectives: list[SloKnee] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sentence: str = ""
    headroom: str = ""
    outstanding: Estimate | None = None
    """Where a series of closed loops saturates, in I/Os in flight or what ``load_word`` says."""
    load_word: str = "outstanding"
    per_minute: Estimate | None = None
    """Most transactions of a test of transactions, in ``per_minute_word``: NOPM or TPM."""
    per_minute_word: str = ""
    usl: Usl | None = None
    """The Universal Scalability Law through the steps."""
    agreement: str = ""
    """Whether the votes agree with the knee, in words; empty where none sees one."""
    causes: list[Cause] = field(default_factory=list)
    """What saturated, where the measurements show it."""
    baseline: str = "1x"
    """What 1x is, in words."""
    doubled_iops: Estimate | None = None
    """Where mean response is twice the lowest of any load; the interval are the two loads run to either side."""
    credits: Credits | None = None
    """What the storage carried beyond its sustained rate, if it has saved credits."""
    watched_s: float | None = None
    """Longest stretch of time that the highest load was carried, or storage at its limit was watched: credits that last
    longer would not have shown."""
    predicted: Predicted | None = None
    """How good what was said of the steps before they were played was, where it was said."""
    unloaded_ns: int | None = None
    """Lowest median response of a stretch of any judged step, unloaded storage as near as it was seen; None where
    single I/Os are not known."""
    work: dict[str, Any] = field(default_factory=dict)
    """What every I/O of a series of closed loops was: pattern, read_share, size_bytes, durable."""

    @figure
    def saturated_layer(self) -> str | None:
        """The layer that saturated, where one is named."""
        return next((cause.layer for cause in self.causes if cause.layer is not None), None)

    @figure
    def objectives_met(self) -> bool | None:
        """Whether every objective holds at 1x; None without objectives, without scales or where one is not judged."""
        if not self.objectives or self.iops_at_1x is None:
            return None
        verdicts = [_holds_at(one, self.iops_at_1x) for one in self.objectives]
        if any(verdict is False for verdict in verdicts):
            return False
        return None if any(verdict is None for verdict in verdicts) else True


def _holds_at(one: SloKnee, iops: float) -> bool | None:
    # Steps at 1x never offer exactly the IOPS of the median step, hence the 1 %.
    if one.state == "crossed":
        return one.iops is not None and one.iops.value >= 0.99 * iops
    if one.state == "met_everywhere":
        return True if (one.highest_met_iops or 0) >= 0.99 * iops else None
    return False if one.state == "missed_at_lowest" else None


__all__ = ["Estimate", "Knee", "SloKnee", "SloState", "State", "Transactions", "Vote"]
