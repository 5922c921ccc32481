"""Latency that breaks within a step although the step carries all of its load.

A write cache or an SLC cache that fills up below what the slow medium carries slows every I/O down, and no backlog
shows it. The medians of a step's stretches are split into levels (`incident.change_points`); the step broke where every
level from there on is at least twice every one before. Storage that slows down and recovers did not break, nor did a
step whose load rose meanwhile.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from .incident.change_points import segment

TIMES_MIN: Final = 2.0
"""A level this many times the one before is another; below, caches and neighbours vary as much."""
SHARE_MIN: Final = 0.1
"""A level lasts for this share of the step at least: less is an incident, or a beginning."""
_LOAD_RISE_MAX: Final = 1.2
_STRETCHES_MIN: Final = 12

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LatencyBreak:
    """From ``at_share`` of the step on its median response was ``after_ns``, before it ``before_ns``."""

    at_share: float
    before_ns: float
    after_ns: float


def latency_break(median_ns: Floats, wanted_per_s: Floats) -> LatencyBreak | None:
    """Where latency broke, from the median response and the load of each stretch in turn [stretches]; None if nowhere.

    Stretches without an I/O have a median of 0 and do not count.
    """
    filled = np.flatnonzero(median_ns > 0)
    if len(filled) < _STRETCHES_MIN:
        return None
    medians, load = median_ns[filled], wanted_per_s[filled]
    borders = segment(np.log(medians), np.zeros(len(medians))).borders
    levels = [float(np.exp(np.log(medians[begin:end]).mean())) for begin, end in pairwise(borders)]
    for place in range(1, len(levels)):
        at = borders[place]
        is_long = SHARE_MIN * len(medians) <= at <= (1 - SHARE_MIN) * len(medians)
        is_slower = min(levels[place:]) >= TIMES_MIN * max(levels[:place])
        if is_long and is_slower and load[at:].mean() <= _LOAD_RISE_MAX * load[:at].mean():
            return LatencyBreak(
                float(filled[at]) / len(median_ns),
                float(np.median(medians[:at])),
                float(np.median(medians[at:])),
            )
    return None
