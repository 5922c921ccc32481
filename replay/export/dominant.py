"""The few classes that make up most of a workload, and how much of it they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .workload import LoadClass, Workload

ENOUGH = 0.95
"""Share of I/Os and of bytes beyond which no further class is added."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a workload an export carries."""

    ios: float
    """Share of the I/Os."""
    bytes: float
    """Share of the bytes."""


def dominant(workload: Workload, most: int, enough: float = ENOUGH) -> list[LoadClass]:
    """The classes with the largest shares of I/Os and bytes together, until ``enough`` of both or ``most`` classes."""
    chosen: list[LoadClass] = []
    ios = size = 0
    for one in sorted(
        workload.classes, key=lambda one: -(one.ios / workload.ios + one.bytes / workload.bytes)
    ):
        if len(chosen) == most or (ios >= enough * workload.ios and size >= enough * workload.bytes):
            break
        chosen.append(one)
        ios += one.ios
        size += one.bytes
    return chosen


def coverage(workload: Workload, chosen: Sequence[LoadClass]) -> Coverage:
    """What share of the workload the classes ``chosen`` are."""
    return Coverage(
        sum(one.ios for one in chosen) / workload.ios, sum(one.bytes for one in chosen) / workload.bytes
    )


def outstanding(in_flight: float, *, most: int = 256) -> int:
    """I/Os to allow in flight: four times what the recording had on average, in a power of two, at least 4.

    A tool that issues the next I/O only when another ends needs room above the mean to hold its rate through bursts.
    """
    return min(most, 1 << max(2, math.ceil(math.log2(max(1.0, 4 * in_flight)))))
