"""Where the clock of a trace was set back, by the order in which its I/Os stand.

A file in order of issue or of completion has no I/O that ended before an earlier line began. Where a whole row of lines
did, on disks known from before, either the clock was set back or the file holds several traces one after the other.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.schemas.units import SECOND_NS

_Integers = npt.NDArray[np.int64]

_STEP_NS_MIN: Final = SECOND_NS
"""Clocks that are kept in time by NTP move by less; and what several threads write at once is not that far apart."""
_LINES_MIN: Final = 20
"""So many lines must follow the step before one goes back up: a few late lines are no clock."""
_STEPS_MAX: Final = 10
"""A file with more is in no order at all."""


@dataclass(slots=True)
class _Candidate:
    at_ns: int
    by_ns: int
    lines: int = 0
    is_of_known_disks: bool = False


@dataclass(slots=True)
class StepsBack:
    """Takes in I/Os in the file's order, batch by batch."""

    _found: list[tuple[int, int]] = field(default_factory=list)
    _top_ns: int | None = None
    """The latest that any line since the last step began."""
    _disks: set[int] = field(default_factory=set)
    _candidate: _Candidate | None = None
    _is_without_order: bool = False
    _tried: int = 0

    def found(self) -> list[tuple[int, int]]:
        """When, on the clock before, and by how much in nanoseconds; nothing where there is no order."""
        return [] if self._is_without_order or len(self._found) > _STEPS_MAX else self._found

    def see(self, issued_ns: _Integers, ended_ns: _Integers, disk: _Integers) -> None:
        """The next I/Os; ``ended_ns`` is when each was issued where its end is not known."""
        first, count = 0, len(issued_ns)
        while first < count and not self._is_without_order:
            start_ns = issued_ns[first] if self._top_ns is None else self._top_ns
            top_ns = np.maximum.accumulate(np.concatenate([[start_ns], issued_ns[first:]]))
            is_back = ended_ns[first:] < top_ns[:-1] - _STEP_NS_MIN
            until = first + int(is_back.argmax()) if is_back.any() else count
            self._go_on(issued_ns[first:until], top_ns, disk[first:until])
            if until < count:
                self._candidate = _Candidate(self._top_ns or 0, int(top_ns[until - first] - issued_ns[until]))
                self._top_ns = int(issued_ns[until])
                self._tried += 1
                self._is_without_order = self._tried > 100 * _STEPS_MAX
            first = until

    def _go_on(self, issued_ns: _Integers, top_ns: _Integers, disk: _Integers) -> None:
        """Lines without a step among them."""
        if not len(issued_ns):
            return
        step, self._candidate = self._candidate, None
        if step is not None:
            here = slice(0, _LINES_MIN - step.lines)
            rises = np.diff(top_ns[: len(issued_ns) + 1])[here]
            if rises.max(initial=0) < step.by_ns / 2:
                step.lines += len(rises)
                step.is_of_known_disks |= not self._disks.isdisjoint(disk[here].tolist())
                if step.lines < _LINES_MIN:
                    self._candidate = step
                elif step.is_of_known_disks:
                    self._found.append((step.at_ns, step.by_ns))
        if self._candidate is None:
            self._disks.update(np.unique(disk).tolist())
        self._top_ns = int(top_ns[len(issued_ns)])
