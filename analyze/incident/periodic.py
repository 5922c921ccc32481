"""Slow windows that recur: a checkpoint every minute is one answer, not twenty.

Starts of windows are a pattern if they lie a whole number of periods apart, each within an eighth of a period of where
the one before it puts it: so the period may wander, as that of checkpoints does. Of all distances between two starts
the one that links most windows is the period. What lasts much longer or is much slower than the others of a pattern
breaks it, and stays a window of its own; so does what lies between.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .groups import Group

_TOLERANCE: Final = 0.125
_MEMBERS_LEAST: Final = 5
_SPANNED: Final = 0.5
_FILLED: Final = 0.6
_MEMBERS_SPARSE: Final = 6
_FILLED_SPARSE: Final = 0.3
_GAPS_MAX: Final = 3
_GROUPS_MAX: Final = 400
_LONGER: Final = 1.75
_SLOWER: Final = float(np.log(1.75))


@dataclass(frozen=True, slots=True)
class Pattern:
    """Groups that recur, in order of time, and the slots from one start to the next."""

    members: list[Group]
    period: float


def patterns_of(groups: list[Group], slots: int) -> tuple[list[Pattern], list[Group]]:
    """The patterns among ``groups``, the one with most members first, and the groups that belong to none.

    A pattern goes on for half of the recording's ``slots`` at least.
    """
    rest = list(groups)
    found = []
    while len(rest) >= _MEMBERS_LEAST:
        pattern = _longest(sorted(rest, key=lambda group: group.first)[:_GROUPS_MAX], slots)
        if pattern is None:
            break
        typical = _typical(pattern.members)
        pattern = Pattern(typical, pattern.period)
        if len(typical) < _MEMBERS_LEAST:
            break
        chosen = {id(group) for group in typical}
        rest = [group for group in rest if id(group) not in chosen]
        found.append(pattern)
    return found, rest


def _longest(groups: list[Group], slots: int) -> Pattern | None:
    starts = [group.first for group in groups]
    gaps = sorted(
        {
            later - start
            for index, start in enumerate(starts)
            for later in starts[index + 1 : index + 1 + _GAPS_MAX]
        }
    )
    best: tuple[float, list[int], float] | None = None
    for gap in gaps:
        if gap < 3:
            continue
        for anchor in range(min(len(starts), 2 * _GAPS_MAX)):
            members, period = _chain(starts, anchor, gap)
            count = len(members)
            if count < _MEMBERS_LEAST or starts[members[-1]] - starts[members[0]] + period < _SPANNED * slots:
                continue
            filled = count / (round((starts[members[-1]] - starts[members[0]]) / period) + 1)
            is_pattern = filled >= _FILLED or (
                count >= _MEMBERS_SPARSE and filled >= _FILLED_SPARSE and count >= 0.75 * len(groups)
            )
            score = count * filled
            if is_pattern and (best is None or score > best[0]):
                best = (score, members, period)
    return Pattern([groups[index] for index in best[1]], best[2]) if best else None


def _chain(starts: list[int], anchor: int, period: float) -> tuple[list[int], float]:
    """Positions of the starts that follow one another at whole multiples of ``period``, and the period they have."""
    members, cycles = [anchor], [0]
    last = float(starts[anchor])
    for index in range(anchor + 1, len(starts)):
        steps = round((starts[index] - last) / period)
        off = abs(starts[index] - last - steps * period)
        if 1 <= steps <= 2 * _GAPS_MAX and off <= max(1.0, _TOLERANCE * period):
            members.append(index)
            cycles.append(cycles[-1] + steps)
            last = float(starts[index])
    if len(members) >= _MEMBERS_LEAST:
        slope = float(np.polyfit(cycles, [starts[index] for index in members], 1)[0])
        return members, max(slope, 1.0)
    return members, period


def _typical(members: list[Group]) -> list[Group]:
    """Those that are neither much longer nor much slower than most."""
    lengths = np.array([group.end - group.first for group in members], dtype=np.float64)
    heights = np.array([group.strongest[1].excess for group in members])
    usual, height = float(np.median(lengths)), float(np.median(heights))
    wide = max(_SLOWER, 4 * float(np.median(np.abs(heights - height))))
    return [
        group
        for group, length, mine in zip(members, lengths, heights, strict=True)
        if length <= _LONGER * usual + 2 and mine <= height + wide
    ]
