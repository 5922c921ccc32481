"""Slow windows that recur: a checkpoint every minute is one answer, not twenty.

Starts of windows are a pattern if they lie a whole number of periods apart, each within an eighth of a period of where
the one before it puts it: so the period may wander, as that of checkpoints does. Where windows are many, some always
happen to lie so. What is no chance counts: that as many starts lie as near to where they are due must have a
probability below `_CHANCE_MAX` for windows that come at random at the same rate, times the periods tried (Bonferroni).
Of all distances between two starts the one that links most windows is the period. What lasts much longer or is much
slower than the others of a pattern breaks it, and stays a window of its own; so does what lies between.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import numpy as np

from .groups import Group

_TOLERANCE: Final = 0.125
_MEMBERS_LEAST: Final = 5
_SPANNED: Final = 0.5
_FILLED: Final = 0.3
_MISSED_MAX: Final = 6
"""Cycles without a window, one after the other, that a pattern outlives; and windows between two that belong to it."""
_CHANCE_MAX: Final = 0.01
_ANCHORS_MAX: Final = 60
_GROUPS_MAX: Final = 5000
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
    pairs = [
        (anchor, other)
        for anchor in range(0, len(starts), len(starts) // _ANCHORS_MAX + 1)
        for other in range(anchor + 1, min(anchor + 1 + _MISSED_MAX, len(starts)))
        if starts[other] - starts[anchor] >= 3
    ]
    chains = [_chain(starts, anchor, starts[other] - starts[anchor]) for anchor, other in pairs]
    fit = [
        chain
        for chain in chains
        if len(chain.members) >= _MEMBERS_LEAST
        and (chain.cycles + 1) * chain.period >= _SPANNED * slots
        and chain.filled >= _FILLED
        and len(pairs) * chain.chance(len(starts) / slots) < _CHANCE_MAX
    ]
    best = max(fit, key=lambda chain: len(chain.members) * chain.filled, default=None)
    return Pattern([groups[index] for index in best.members], best.period) if best else None


@dataclass(frozen=True, slots=True)
class _Chain:
    """Starts that follow one another at whole multiples of a period."""

    members: list[int]
    period: float
    cycles: int
    """Periods from the first member to the last."""
    off: float
    """The most slots that one lies from where its neighbour puts it."""

    @property
    def filled(self) -> float:
        return len(self.members) / (self.cycles + 1)

    def chance(self, starts_per_slot: float) -> float:
        """That random starts fill as many cycles, each as near to where it is due; two of them gave the period."""
        from scipy.special import bdtrc  # noqa: PLC0415 - it takes long to import, and every command would wait for it

        near = -np.expm1(-starts_per_slot * (2 * self.off + 1))
        return float(bdtrc(len(self.members) - 3, self.cycles - 1, near))


def _chain(starts: list[int], anchor: int, period: float) -> _Chain:
    before, after = (_linked(starts, anchor, way * period) for way in (-1, 1))
    linked = [*((index, -cycle, off) for index, cycle, off in reversed(before)), (anchor, 0, 0.0), *after]
    members, cycles, offs = (list(column) for column in zip(*linked, strict=True))
    if len(members) >= _MEMBERS_LEAST:
        period = max(float(np.polyfit(cycles, [starts[index] for index in members], 1)[0]), 1.0)
    return _Chain(members, period, cycles[-1] - cycles[0], max(offs))


def _linked(starts: list[int], anchor: int, step: float) -> list[tuple[int, int, float]]:
    """From ``anchor`` on, later or earlier: positions of the starts, their cycles, and how far off each is."""
    found = []
    reach = max(1.0, _TOLERANCE * abs(step))
    last, cycle, missed = starts[anchor], 0, 0
    while missed < _MISSED_MAX:
        missed += 1
        due = last + missed * step
        after = bisect_left(starts, due)
        index = min((max(after - 1, 0), min(after, len(starts) - 1)), key=lambda at: abs(starts[at] - due))
        off = abs(starts[index] - due)
        if off <= reach:
            cycle, last, missed = cycle + missed, starts[index], 0
            found.append((index, cycle, off))
    return found


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
