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
"""

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
    """The longest latency beyond which one of the two clearly has more I/Os; None where there is none."""
    counts = [one.course.doubling_count for one in (a, b)]
    if counts[0] is None or counts[1] is None or not (a.is_long_enough() and b.is_long_enough()):
        return None
    # By how many bits a latency lacks of the most there can be: I/Os of each slot with as many bits, or more.
    beyond = [np.cumsum(one[:, ::-1], axis=1) for one in (counts[0], counts[1])]
    ios = [one.course.io_count for one in (a, b)]
    for lacking in range(DOUBLINGS - 2):
        totals = [int(one[:, lacking].sum()) for one in beyond]
        if sum(totals) > _SHARE_MAX * sum(one.sum() for one in ios):
            return None
        for slow, quick in ((0, 1), (1, 0)):
            rows = beyond[quick][:, lacking + 1], beyond[slow][:, lacking]
            if _is_more(*rows, ios[quick], ios[slow]):
                return RareIos(
                    at_least_ns=2 ** (DOUBLINGS - 2 - lacking),
                    a_io_count=totals[0],
                    b_io_count=totals[1],
                    a_longest_ns=a.histogram.latency_max_ns,
                    b_longest_ns=b.histogram.latency_max_ns,
                    direction="slower" if slow else "faster",
                )
    return None


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
