"""Which slow stretches are no more than what chance makes of the load.

A disk that is busy most of the time makes its I/Os wait for one another, by chance and for long: the relaxation time of
a queue grows as 1 / (1 - utilisation)^2 (Cohen 1982, "The Single Server Queue"). So latency wanders further
and for longer in the busy part of a recording than elsewhere, and no one noise holds for all of it. A stretch is
therefore held against the means of as many other points of the same recording that saw as much load. Their upper tail
is taken to fall off exponentially, as that of a wait does; a stretch has to be higher than what the highest of so many
would be.

Stretches are left out of what they are held against. One that turns out to be chance is normal, and the others are held
against it, too.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from iotrace.schemas.arrays import Floats

from .change_points import Flags
from .stretches import Judged

_AS_MUCH: Final = (0.8, 1.25)
_PEERS_LEAST: Final = 8.0
"""So many lengths of the stretch, or of a quarter of it, have to be left at as much load, or nothing is known."""
_PARTS: Final = (1, 2, 4)
"""Means of a half or a quarter of the points stand in where too few of all of them are left."""
_FALSE_SHARE: Final = 0.05
"""Of recordings whose highest stretch of a length, in one of its series, passes though nothing happened."""
_ROUNDS_MAX: Final = 8
_LOADS_ASKED: Final = (0.1, 0.5, 0.9)


class Chance:
    """What means of neighbouring normal points of a series come to, by their number and their load."""

    def __init__(self, judged: Judged, load: Floats, slow: Flags) -> None:
        """``load`` is that of each of the series' points, those that are ``slow`` are left out."""
        normal = ~slow
        weight = judged.segmentation.weight[normal]
        above = (judged.series.values - judged.normal)[normal]
        self._count = len(slow)
        self._weight, self._above, self._load = (
            np.concatenate([[0.0], np.cumsum(values)]) for values in (weight, weight * above, load[normal])
        )

    def limit(self, points: int, load: float) -> float | None:
        """The ln(latency / normal) that the mean of so many points under such a load does not reach by chance.

        None where too few are known.
        """
        known = self._spread(points, load)
        return None if known is None else self._limit(points, known)

    def _limit(self, points: int, spread: tuple[float, float, float]) -> float:
        _, middle, high = spread
        # Half of them lie above the middle, a tenth that much higher; so many lengths, one of them reaches the limit.
        tail = np.log(0.5 * (self._count / points) / _FALSE_SHARE)
        return float(middle + (high - middle) / np.log(5) * max(tail, 1.0))

    def least_excess(self, points: int) -> float:
        """The ln of the factor from which on a stretch of so many points passes nine times in ten, under any load."""
        if points > len(self._load) - 1:
            return 0.0
        loads = (self._load[points:] - self._load[:-points]) / points
        spreads = [self._spread(points, float(load)) for load in np.quantile(loads, _LOADS_ASKED)]
        return max((self._limit(points, spread) - spread[0] for spread in spreads if spread), default=0.0)

    def _spread(self, points: int, load: float) -> tuple[float, float, float] | None:
        """The 10th, 50th and 90th percentile of means of so many points, or of fewer: longer ones spread no more."""
        for parts in _PARTS:
            peers = self._peers(max(points // parts, 1), load)
            if peers is not None:
                low, middle, high = np.quantile(peers, [0.1, 0.5, 0.9])
                return float(low), float(middle), float(high)
        return None

    def _peers(self, points: int, load: float) -> Floats | None:
        loads, above, weight = (
            sums[points:] - sums[:-points] for sums in (self._load, self._above, self._weight)
        )
        alike = (loads >= _AS_MUCH[0] * load * points) & (loads <= _AS_MUCH[1] * load * points)
        if alike.sum() < _PEERS_LEAST * points:
            return None
        peers: Floats = above[alike] / weight[alike]
        return peers


def without_chance(judged: Judged, load: Floats) -> Judged:
    """The series without the stretches that chance explains; ``load`` is what arrived in each slot of the recording."""
    at = judged.series.at
    mine = load[at]
    kept, slow = list(judged.stretches), judged.slow.copy()
    for _ in range(_ROUNDS_MAX):
        chance = Chance(judged, mine, slow)
        passing = []
        for stretch in kept:
            inside = (at >= stretch.first) & (at < stretch.end)
            limit = chance.limit(int(inside.sum()), float(mine[inside].mean()))
            if limit is None or stretch.excess >= limit:
                passing.append(stretch)
            else:
                slow[inside] = False
        if len(passing) == len(kept):
            break
        kept = passing
    return replace(judged, stretches=kept, slow=slow)
