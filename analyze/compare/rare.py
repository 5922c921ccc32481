"""Rare, very slow I/Os: of which of two recordings more I/Os took longer than a latency that hardly any reached.

No quantile that can be given need show them: one I/O in a thousand that takes a second doubles a mean of a millisecond
and leaves the p99 as it was. What is held against one another is how many I/Os took at least a latency, never how
long they took: a mean of heavy-tailed latencies rests on a few I/Os, and its interval does not know that, while counts
do not care how heavy the tail is. The latencies are powers of two of nanoseconds, beyond the p99 of both together. A
storage that takes 1.2 times as long throughout has a heavier tail as well, and quantiles say so: what one has beyond a
latency must be more than what the other has beyond half of it.

Slow I/Os come in clumps, so the variance of a count is that of its block sums (`bootstrap`), at least that of single
I/Os. It is taken from both recordings together, as if they were of one storage: five stalls in one and none in the
other are little evidence, however many I/Os stood in them.

An I/O without an end is slower than all: it counts for as long as it had waited (`iotrace.analyze.unfinished`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from iotrace.analyze.stats.bootstrap import block_slots, block_sums, degrees_of_freedom, t_quantile
from iotrace.schemas.arrays import Floats

from .class_latency import DOUBLINGS, ClassLatency
from .comparison import RareIos

_SHARE_MAX: Final = 0.01
"""Of both together: quantiles show what more I/Os reach."""
_CONFIDENCE: Final = 0.999
"""Far more than that of an interval, as many latencies are tried, and beside the quantiles."""


def rare_ios(a: ClassLatency, b: ClassLatency) -> RareIos | None:
    """The longest latency beyond which one of the two clearly has more I/Os; None where there is none.

    Where ends may have been lost, it is said whether the I/Os without an end make a difference.
    """
    found = _rare_ios(a, b)
    sure = [
        replace(one, waiting=None) if one.waiting and one.waiting.may_have_ended else one for one in (a, b)
    ]
    if sure[0] is a and sure[1] is b:
        return found
    without = _rare_ios(*sure)
    if found is None or without is None or found.direction != without.direction:
        told = found or without
        return told and replace(told, may_have_ended=True)
    return without


def _rare_ios(a: ClassLatency, b: ClassLatency) -> RareIos | None:
    counts = [one.course.doubling_count for one in (a, b) if one.course.doubling_count is not None]
    if len(counts) < 2 or not (a.is_long_enough() and b.is_long_enough()):
        return None
    waits = [
        one.waiting.doubling_count if one.waiting else np.zeros_like(ended)
        for one, ended in zip((a, b), counts, strict=True)
    ]
    # By how many bits a latency lacks of the most there can be: I/Os of each slot with as many bits, or more.
    ended, open_ = ([np.cumsum(one[:, ::-1], axis=1) for one in each] for each in (counts, waits))
    beyond = [one + other for one, other in zip(ended, open_, strict=True)]
    ios = [one.course.io_count + wait.sum(axis=1) for one, wait in zip((a, b), waits, strict=True)]
    longest_ns = [
        max(one.histogram.latency_max_ns, one.waiting.longest_ns if one.waiting else 0) for one in (a, b)
    ]
    for lacking in range(DOUBLINGS - 2):
        # No quantile shows I/Os without an end, however many they are.
        if sum(one[:, lacking].sum() for one in ended) > _SHARE_MAX * sum(one.sum() for one in ios):
            return None
        for slow, quick in ((0, 1), (1, 0)):
            rows = beyond[quick][:, lacking + 1], beyond[slow][:, lacking]
            if _is_more(*rows, ios[quick], ios[slow]):
                lacking += _further_waits(open_[slow], (*ended, open_[quick]), lacking)  # noqa: PLW2901
                (a_count, a_open), (b_count, b_open) = (
                    (int(one[:, lacking].sum()), int(wait[:, lacking].sum()))
                    for one, wait in zip(beyond, open_, strict=True)
                )
                return RareIos(
                    at_least_ns=2 ** (DOUBLINGS - 2 - lacking),
                    a_io_count=a_count,
                    b_io_count=b_count,
                    a_longest_ns=longest_ns[0],
                    b_longest_ns=longest_ns[1],
                    direction="slower" if slow else "faster",
                    a_unfinished_count=a_open,
                    b_unfinished_count=b_open,
                )
    return None


def _further_waits(waits: Floats, others: Sequence[Floats], lacking: int) -> int:
    """For how many doublings below a latency there are I/Os without an end, and no others down to half of it.

    Of what hangs, each has waited for another time by the end.
    """
    totals, *other_totals = (one.sum(axis=0) for one in (waits, *others))
    further = 0
    while lacking + further + 2 < DOUBLINGS:
        at = lacking + further
        if totals[at + 1] == totals[at] or any(one[at + 2] > one[lacking] for one in other_totals):
            break
        further += 1
    return further


def _is_more(few: Floats, many: Floats, few_ios: Floats, many_ios: Floats) -> bool:
    """Whether ``many`` of ``many_ios`` is clearly a larger share than ``few`` of ``few_ios``; all of them by slot."""
    of_few, of_many = few_ios.sum(), many_ios.sum()
    more = many.sum() / of_many - few.sum() / of_few
    if more <= 0:
        return False
    share = (few.sum() + many.sum()) / (of_few + of_many)
    variance, degrees = 0.0, np.inf
    for row, ios in ((few, few_ios), (many, many_ios)):
        series, slots = row - share * ios, len(row)
        length = block_slots(series)
        sums = block_sums(series[None], length)[0]
        variance += max(float(np.mean(sums**2)) * slots / length / (1 - length / slots), row.sum())
        degrees = min(degrees, degrees_of_freedom(slots, length))
    error = np.sqrt(variance / (of_few + of_many) * (1 / of_few + 1 / of_many))
    return bool(more > t_quantile((1 + _CONFIDENCE) / 2, degrees) * error)
