"""How hard to play: the factor, and what each mode makes of a recording.

``compress`` divides all times by the factor: same order, footprint and pattern, bursts that many times sharper.
``superpose`` plays so many copies of the recording at once, each turned round in time; a fraction of a copy is made of
whole streams. ``think`` keeps what waited for what and divides only the time between a completion and the next I/O.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.options import ReplayOptions
from iotrace.schemas import IotraceError

from .log_stream import LogStream, Overlaps, Share, is_log
from .rows import Rows, merge
from .source import Source
from .streams import Thinning, thin
from .survey import Survey

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ramp:
    """The load climbs evenly from nothing to its full height over ``length_ns``.

    At the instant t the plan is played at t / length of its speed, so what was planned for p comes at
    sqrt(2 · length · p) while that is below the length, and half a length later than planned from then on.
    """

    length_ns: int

    def apply(self, at_ns: Times) -> Times:
        """The deadlines with the climb in front of them."""
        half = self.length_ns / 2
        climbing = np.sqrt(2.0 * self.length_ns * np.clip(at_ns, 0, None).astype(np.float64))
        climbed = np.rint(np.minimum(climbing, self.length_ns)).astype(np.int64)
        return np.where(at_ns < half, climbed, at_ns + round(half))


def divided(since_ns: Times, scale: float) -> Times:
    """Times divided by the factor: exact at 1x, to the nanosecond elsewhere."""
    return since_ns if scale == 1.0 else np.rint(since_ns / scale).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Cycle:
    """The stretch of the source's clock that one pass plays: start included, end not."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        """How long one pass lasts at 1x."""
        return self.end_ns - self.start_ns

    def shifted(self, shift_ns: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """The cycle turned by ``shift_ns``: two windows of the source in their new order, and what to add to each.

        Added to a time on the source's clock it gives the time since the start of the pass.
        """
        turn = self.end_ns - shift_ns
        return (turn, self.end_ns, -turn), (self.start_ns, turn, shift_ns - self.start_ns)


def parse_scale(text: str) -> float:
    """The factor meant by ``2x``, ``0.25x``, ``1.5x`` or ``2``. Raises `IotraceError` naming the text."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+|[0-9]+\.)\s*[xX]?\s*", text)
    factor = float(match[1]) if match else math.nan
    if not 1e-4 <= factor <= 1e4:
        raise IotraceError(f"'{text}' is not a scale", hint="a scale is a factor such as 2x, 1.5x or 0.25x")
    return factor


def whole_and_part(scale: float) -> tuple[int, float]:
    """Whole copies, and the fraction of one more: 1.5 is 1 and 0.5. A thousandth more or less is none."""
    whole = math.floor(scale + 1e-3)
    part = scale - whole
    return whole, part if part > 1e-3 else 0.0


def needs_streams(options: ReplayOptions) -> bool:
    """Whether the survey has to count streams: only a fraction of a copy is made of them."""
    return options.mode == "superpose" and whole_and_part(options.scale)[1] > 0


def thinned(survey: Survey, scale: float, seed: int) -> Thinning | None:
    """The streams that the fraction of a copy is made of; None for whole copies only.

    Raises `IotraceError` when no stream is small enough.
    """
    _, part = whole_and_part(scale)
    if not part:
        return None
    if survey.streams is None:
        raise ValueError("a fraction needs a survey with streams")
    found = thin(survey.streams, part, seed)
    if not found.ios and found.ios_of:
        raise IotraceError(
            f"no whole stream is as small as {part:g} of this workload",
            hint=f"it has {found.streams:,} streams; choose another scale, or --mode compress, which changes time",
        )
    return found


@dataclass(frozen=True, slots=True)
class Compressed:
    """The recording with all times divided; think's deadlines are made like this too."""

    source: Source
    cycle: Cycle
    scale: float

    def one_pass(self) -> Iterator[Rows]:
        """One pass; ``at_ns`` counts from its start."""
        for rows in self.source.rows(window_ns=(self.cycle.start_ns, self.cycle.end_ns)):
            yield rows.changed(at_ns=divided(rows.at_ns - self.cycle.start_ns, self.scale))

    @property
    def pass_ns(self) -> int:
        """How long one pass lasts."""
        return round(self.cycle.length_ns / self.scale)


@dataclass(frozen=True, slots=True)
class Superposed:
    """Copies of the recording at once. ``thinning`` says what the last of them leaves out."""

    source: Source
    cycle: Cycle
    survey: Survey
    shifts_ns: tuple[int, ...]
    """How far each copy is turned round in time; 0 for the first."""
    thinning: Thinning | None
    logs: LogStream

    @classmethod
    def of(cls, source: Source, cycle: Cycle, survey: Survey, scale: float, seed: int) -> "Superposed":
        """``scale`` copies; shifts are random, one in each equal part of the cycle, so that copies keep apart."""
        whole, part = whole_and_part(scale)
        copies = whole + (part > 0)
        thinning = thinned(survey, scale, seed)
        jitter = np.random.default_rng([seed, 2]).random(copies)
        shifts = [0, *(int((copy + jitter[copy]) * cycle.length_ns / copies) for copy in range(1, copies))]
        return cls(source, cycle, survey, tuple(shifts), thinning, LogStream(survey.rings()))

    @property
    def pass_ns(self) -> int:
        """How long one pass lasts."""
        return self.cycle.length_ns

    def one_pass(self) -> Iterator[Rows]:
        """One pass; ``at_ns`` counts from its start. Memory: a row group of the recording for each copy."""
        if len(self.shifts_ns) == 1 and self.thinning is None:
            yield from Compressed(self.source, self.cycle, 1.0).one_pass()
            return
        for rows in merge([self._copy(number) for number in range(len(self.shifts_ns))]):
            yield self.logs.string(rows, is_log(rows, self.survey.log_ids))

    def _copy(self, number: int) -> Iterator[Rows]:
        overlaps = Overlaps()
        thinning = self.thinning if number == len(self.shifts_ns) - 1 else None
        share = Share(thinning.asked) if thinning is not None else None
        for first, last, add in self.cycle.shifted(self.shifts_ns[number]):
            for read in self.source.rows(window_ns=(first, last)):
                logs = is_log(read, self.survey.log_ids)
                rows = overlaps.note(read, logs)
                if thinning is not None and share is not None and self.survey.streams is not None:
                    slots = self.survey.streams.slots
                    rows = rows[np.where(logs, share.keeps(rows, logs), thinning.keeps(rows, slots))]
                copy = np.full(len(rows), number, np.uint16) if len(self.shifts_ns) > 1 else rows.copy
                yield rows.changed(at_ns=rows.at_ns + add, copy=copy)
