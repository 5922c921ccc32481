"""An answer: what is said first, then sections of sentences and a table each, the most important ones first.

Figures in tables are cells: each keeps its value and its interval, and is printed in the unit that people use for it.
None, as a value, prints as a dash. Intervals are 95 %, in the unit of the value.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_with_interval,
    format_moment,
    format_rate,
    format_ratio_with_interval,
    format_share,
    format_share_with_interval,
)

Interval = tuple[float, float]
Tone = Literal["plain", "answer", "good", "doubt", "bad", "aside"]
"""What a sentence is to the reader: the answer itself, a reservation, a reason not to believe it, a remark."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A latency or a length of time, in nanoseconds."""

    ns: float | None
    interval_ns: Interval | None = None

    def __str__(self) -> str:
        return format_duration_with_interval(self.ns, self.interval_ns)


@dataclass(frozen=True, slots=True)
class Offset:
    """Time since the recording's start, in nanoseconds: ``+0:02:35``, as --window takes it."""

    ns: int

    def __str__(self) -> str:
        minutes, seconds = divmod(abs(self.ns) // 1_000_000_000, 60)
        return f"{'-' if self.ns < 0 else '+'}{minutes // 60}:{minutes % 60:02}:{seconds:02}"


@dataclass(frozen=True, slots=True)
class Instant:
    """Date and time, in nanoseconds since 1970; a dash where the sources named no date."""

    utc_ns: int

    def __str__(self) -> str:
        return format_moment(self.utc_ns) or DASH


@dataclass(frozen=True, slots=True)
class Rate:
    """Events, or with ``unit`` ``B`` bytes, a second."""

    per_second: float | None
    unit: str = ""

    def __str__(self) -> str:
        return format_rate(self.per_second, self.unit)


@dataclass(frozen=True, slots=True)
class Bytes:
    """An amount of bytes, or an offset of so many."""

    size: float | None

    def __str__(self) -> str:
        return format_bytes(self.size)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of 1."""

    of_1: float | None
    interval: Interval | None = None

    def __str__(self) -> str:
        if self.interval is None:
            return format_share(self.of_1)
        return format_share_with_interval(self.of_1, self.interval)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times one figure is another."""

    times: float | None
    interval: Interval | None = None

    def __str__(self) -> str:
        return format_ratio_with_interval(self.times, self.interval)


@dataclass(frozen=True, slots=True)
class Count:
    """How many."""

    number: float | None

    def __str__(self) -> str:
        return format_count(self.number)


@dataclass(frozen=True, slots=True)
class Number:
    """A figure whose unit stands at the head of its column."""

    value: float | None
    decimals: int = 0

    def __str__(self) -> str:
        if self.value is None or not math.isfinite(self.value):
            return DASH
        return f"{self.value:,.{self.decimals}f}"


Cell = str | Duration | Offset | Instant | Rate | Bytes | Share | Ratio | Count | Number


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words to be read as they stand."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """``unit`` follows the name, as in ``reads /s``; columns with ``detail`` are for those who ask for everything."""

    name: str
    unit: str = ""
    is_text: bool = False
    detail: bool = False

    @property
    def head(self) -> str:
        """Name and unit."""
        return f"{self.name} {self.unit}".strip()


def columns(*heads: str, text: int = 1) -> tuple[Column, ...]:
    """Columns by their heads; the first ``text`` hold words, a ``+`` before a head marks a detail."""
    return tuple(
        Column(head.removeprefix("+"), is_text=place < text, detail=head.startswith("+"))
        for place, head in enumerate(heads)
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns. The columns stand in the order of their importance: the last ones give way first.

    Columns of text at the beginning name the row. ``shown`` is how many rows are enough for most readers.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    shown: int | None = None

    @property
    def text_columns(self) -> int:
        """How many columns at the beginning hold words."""
        return next((place for place, one in enumerate(self.columns) if not one.is_text), len(self.columns))


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of bars over time: from 0 to 1, None for a gap; those that are ``marked`` stand out."""

    heights: Sequence[float | None]
    marked: Sequence[bool]
    labels: str
    """One sign below each bar."""
    axis: str = ""
    """Times below the first bar and the last."""


@dataclass(frozen=True, slots=True)
class Section:
    """A question answered: ``sentences`` before the table, ``notes`` on how to read it below."""

    heading: str
    table: Table | None = None
    sentences: Sequence[Sentence] = ()
    notes: Sequence[str] = ()
    detail: bool = False
    strip: Strip | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """``opening`` answers in at most five lines: what and when, how busy, how slow, whose, whether to trust it."""

    opening: Sequence[Sentence]
    sections: Sequence[Section]


def notes_section(notes: Iterable[str]) -> list[Section]:
    """What to know of the figures; none where there is nothing."""
    said = [Sentence(f"- {note}") for note in notes]
    return [Section("Notes", sentences=said)] if said else []


def section(
    heading: str,
    heads: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    shown: int | None = None,
    sentences: Sequence[Sentence] = (),
    notes: Sequence[str] = (),
    detail: bool = False,
) -> Iterable[Section]:
    """A section that is a table; none where it has no rows."""
    if found := list(rows):
        yield Section(heading, Table(tuple(heads), found, shown), sentences, notes, detail=detail)
