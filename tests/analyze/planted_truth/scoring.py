"""Is what a detector says true? On plain numbers, so that it depends on no detector."""

import math
from collections.abc import Iterable, Sequence

from .incidents import IncidentTruth
from .sweeps import SweepTruth

Interval = tuple[float, float]


def holds(interval: Interval | None, value: float) -> bool:
    """Whether an interval was given and holds the truth."""
    return interval is not None and interval[0] <= value <= interval[1]


def knee_is_false(knee_iops: Interval | None, truth: SweepTruth) -> bool:
    """Whether a knee was named where nothing showed one, or one that does not reach the loads that it lies between."""
    if knee_iops is None:
        return False
    between = truth.knee_between_iops
    return (
        not truth.shows_saturation
        or between is None
        or knee_iops[1] < between[0]
        or knee_iops[0] > between[1]
    )


def headroom_is_false(
    kept_up_to_iops: float | None, truth: SweepTruth, *, names_credits: bool = False
) -> bool:
    """Whether a load was called carried that is not carried for ever, without saying that credits may have done it.

    2 % of grace: a step's own rate is not exact.
    """
    return kept_up_to_iops is not None and kept_up_to_iops > 1.02 * truth.sustained_iops and not names_credits


def share_that_holds(pairs: Iterable[tuple[Interval | None, float]]) -> float:
    """Share of intervals that hold their truth; none given counts as a miss. NaN of nothing."""
    held = [holds(interval, value) for interval, value in pairs]
    return sum(held) / len(held) if held else math.nan


def common_s(first: Iterable[Interval], second: Iterable[Interval]) -> float:
    """How long the two sets of spans have in common; the spans of each do not overlap one another."""
    others = list(second)
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in others)


def union(spans: Iterable[Interval]) -> list[Interval]:
    """The same time in spans that do not overlap, rising."""
    found: list[Interval] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def is_found(reported: Iterable[Interval], truth: IncidentTruth, *, slack_s: float = 10.0) -> bool:
    """Whether an incident was seen: half of its time was reported, or one report began while it came.

    ``slack_s`` is what the form's resolution costs: an interval of its counters, at least. A report that is mostly
    other time finds nothing, or the whole recording would find everything.
    """
    mine = union(reported)
    for start, end in truth.spans:
        common = common_s(mine, [(start - slack_s, end + slack_s)])
        if common >= 0.5 * (end - start) and common >= 0.5 * sum(
            b - a for a, b in mine if b > start and a < end
        ):
            return True
        until = truth.built_s if truth.built_s is not None else start
        if any(start - slack_s <= a <= until + slack_s and b > a for a, b in mine):
            return True
    return False


def false_windows(
    reported: Sequence[Interval], truth: IncidentTruth, *, slack_s: float = 10.0
) -> list[Interval]:
    """Reports of storage that got slower while nothing was wrong. Leave load-driven windows out of ``reported``."""
    wrong = [(start - slack_s, end + slack_s) for start, end in truth.spans]
    return [span for span in reported if common_s([span], union(wrong)) == 0]
