"""Whether sources were taken at the same time, and of how much of it both tell.

Sources that share no time describe no common hour: rates over the whole are too low, and what one shows is no cause of
what another shows. Pieces of one kind that follow one another (a session's next file, the next day's snapshots) are one
source here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from iotrace.schemas import IotraceError
from iotrace.schemas.text import format_share

from .alignment import span_text

CONTINUES_SHARE: Final = 0.05
"""A piece continues another one if the time between them is no longer than this share of the longer of both."""
CONTINUES_NS: Final = 60 * 10**9
LITTLE_SHARE: Final = 0.5
"""With less than this share of the shorter one in common, two sources are told to share little of their time."""
NEARLY_ALL_SHARE: Final = 0.9
NAMED_MAX: Final = 5
OPTION: Final = "--apart-in-time"

_QUARTER_HOUR_NS: Final = 900 * 10**9
_ZONES_NS: Final = 14 * 4 * _QUARTER_HOUR_NS


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when a source tells anything, in ns of one clock; ``kind`` is equal for pieces of one source."""

    name: str
    kind: object
    start_ns: int
    end_ns: int
    uncertainty_ns: int = 0
    """How far both may be off."""

    @property
    def length_ns(self) -> int:
        """How long that is."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class SharedTime:
    """What sources share of their time: sentences, by how bad that is."""

    apart: list[str]
    """Of sources that share none."""
    little: list[str]
    part: list[str]

    def refuse(self) -> None:
        """Raise `IotraceError` if any share none."""
        if self.apart:
            more = f"; and {len(self.apart) - 1} more such pairs" if len(self.apart) > 1 else ""
            raise IotraceError(
                f"{self.apart[0]}{more}",
                hint="import each into a recording of its own; if they do belong together check the dates and time "
                f"zones that they state; to put them into one recording all the same, add {OPTION}",
            )


def shared_time(spans: Iterable[Span]) -> SharedTime:
    """Look at every pair of sources, pieces of one source taken together."""
    found = SharedTime([], [], [])
    for one, other in combinations(_sources(list(spans)), 2):
        first, second = sorted((one, other), key=lambda pieces: pieces[0].start_ns)
        gap_ns, early, late = min(
            ((max(a.start_ns, b.start_ns) - min(a.end_ns, b.end_ns), a, b) for a in first for b in second),
            key=lambda entry: entry[0],
        )
        common_ns = sum(
            max(min(a.end_ns, b.end_ns) - max(a.start_ns, b.start_ns), 0) for a in first for b in second
        )
        shorter = min(first, second, key=_length_ns)
        is_moment = not _length_ns(shorter)
        slack_ns = early.uncertainty_ns + late.uncertainty_ns
        if gap_ns > slack_ns or (gap_ns == slack_ns and not is_moment):
            before, after = sorted((early, late), key=lambda span: (span.start_ns, span.end_ns))
            found.apart.append(
                f"'{after.name}' begins {span_text(gap_ns)} after '{before.name}' ends: they share no time"
                f"{_zone_words(after, before)}"
            )
            continue
        share = common_ns / _length_ns(shorter) if _length_ns(shorter) else 1.0
        sentence = (
            f"'{first[0].name}' and '{second[0].name}' were both recording for {span_text(common_ns)}, "
            f"{format_share(share)} of the {span_text(_length_ns(shorter))} of '{shorter[0].name}'"
        )
        if share < LITTLE_SHARE:
            found.little.append(sentence)
        elif share < NEARLY_ALL_SHARE:
            found.part.append(sentence)
    return found


def _sources(spans: Sequence[Span]) -> list[list[Span]]:
    """Pieces that continue one another, in order of time."""
    found: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.start_ns, span.end_ns)):
        home = next((pieces for pieces in reversed(found) if _continues(pieces, span)), None)
        if home is None:
            found.append([span])
        else:
            home.append(span)
    return found


def _continues(pieces: Sequence[Span], span: Span) -> bool:
    if span.kind != pieces[0].kind:
        return False
    gap_ns = span.start_ns - max(piece.end_ns for piece in pieces)
    longer_ns = max(span.length_ns, *(piece.length_ns for piece in pieces))
    return gap_ns <= max(CONTINUES_SHARE * longer_ns, CONTINUES_NS)


def _length_ns(pieces: Sequence[Span]) -> int:
    """The time that any of them covers."""
    covered_ns, end_ns = 0, pieces[0].start_ns
    for piece in pieces:
        covered_ns += max(piece.end_ns - max(piece.start_ns, end_ns), 0)
        end_ns = max(end_ns, piece.end_ns)
    return covered_ns


def _zone_words(after: Span, before: Span) -> str:
    """Whether a time zone that one of them got wrong would explain it."""
    least_ns, most_ns = after.start_ns - before.end_ns, after.end_ns - before.start_ns
    quarters = range(
        -(-max(least_ns, 1) // _QUARTER_HOUR_NS), min(most_ns, _ZONES_NS) // _QUARTER_HOUR_NS + 1
    )
    hours = next((quarter / 4 for quarter in quarters if quarter % 4 == 0), None)
    if hours is None:
        return ""
    return f"; with {hours:g} h between their time zones they would"
