"""Which of two a local time is in the hour that clocks go through twice, by the order of a file's times.

Within that hour times run up to its end and begin again: what stands above the step back is the first pass, what stands
below it the second. A file that has one pass alone tells which by its neighbours: snapshots are taken at intervals, and
the pass that leaves an hour out on its one side is the other one. Where neither says it, nothing is said.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from iotrace.schemas.units import SECOND_NS

Time = int | tuple[int, int]
"""UTC, or both times that a local one may be, the earlier first."""

_STEP_BACK_NS: Final = 25 * 60 * SECOND_NS
"""Snapshots of several servers are seconds apart in either order; an hour less an interval is more than this."""
_INTERVALS: Final = 2.5
_NEAR_MAX_NS: Final = 30 * 60 * SECOND_NS


@dataclass(slots=True)
class _Part:
    """Times of the hour that follow one another, with the ones beside the whole run of such times."""

    run: int
    times: list[int]
    before: int | None
    after: int | None = None


class TwiceHour:
    """Knows the parts of one file; `settled` then goes through its times again, in the same order."""

    def __init__(self, times: Iterable[Time]) -> None:
        all_times = [time for time, _ in groupby(times)]
        plain = [time if isinstance(time, int) else time[0] for time in all_times]
        # No single step decides: neither the one back nor a long gap.
        steps = (
            max(-_STEP_BACK_NS, min(later - earlier, _STEP_BACK_NS)) for earlier, later in pairwise(plain)
        )
        self._direction = -1 if sum(steps) < 0 else 1
        parts = list(self._parts(all_times))
        self._folds = [
            fold for _, run in groupby(parts, lambda part: part.run) for fold in self._folds_of(list(run))
        ]
        self._part = -1
        self._last: int | None = None

    def settled(self, time: Time) -> int | None:
        """UTC of the next time of the file; None if its order does not tell."""
        if isinstance(time, int):
            self._last = None
            return time
        if self._begins(time[0], self._last):
            self._part += 1
        self._last = time[0]
        fold = self._folds[self._part]
        return None if fold is None else time[fold]

    def _begins(self, time: int, last: int | None) -> bool:
        return last is None or (time - last) * self._direction < -_STEP_BACK_NS

    def _parts(self, times: list[Time]) -> Iterator[_Part]:
        run, of_run, last, before = 0, list[_Part](), None, None
        for time in times:
            if isinstance(time, int):
                for part in of_run:
                    part.after = time
                yield from of_run
                run, of_run, last, before = run + 1, [], None, time
                continue
            if self._begins(time[0], last):
                of_run.append(_Part(run, [], before))
            last = time[0]
            of_run[-1].times.append(last)
        yield from of_run

    def _folds_of(self, parts: list[_Part]) -> list[int | None]:
        passes: list[int | None] = [0, 1]
        if len(parts) == 2:
            return passes[:: self._direction]
        if len(parts) > 2:
            return [None] * len(parts)
        (part,) = parts
        steps = [abs(later - earlier) for earlier, later in pairwise(part.times)]
        near_ns = min(_INTERVALS * max(steps), _NEAR_MAX_NS) if steps else _NEAR_MAX_NS
        ends = part.before, part.after
        earlier, later = ends[:: self._direction]
        follows = earlier is not None and 0 <= min(part.times) - earlier <= near_ns
        # Of the second pass, which is an hour later.
        precedes = later is not None and 0 <= later - (max(part.times) + 3600 * SECOND_NS) <= near_ns
        return [None if follows == precedes else 0 if follows else 1]
