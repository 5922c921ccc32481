"""What a page is made of: sections, charts and tables.

A chart is a Plotly figure, a sentence that says what it shows, and its table. The figure is plain data (`plot`).
Whoever cannot see it, or forbids scripts, has the sentence and the table.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under named columns; the first ``text_columns`` are read, the others compared."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    anchor: str = ""
    """What links to the table name it by; letters, digits and dashes."""
    points: tuple[str, ...] = ()
    """A list between the caption and the rows."""
    kept: frozenset[int] | None = None
    """Of rows over time, those that stay first where not all fit; None where the first rows are the ones to keep."""


@dataclass(frozen=True, slots=True)
class Link:
    """A stretch of the horizontal axis that a click follows to ``anchor``, and that a button zooms to."""

    low: float
    high: float
    label: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Level:
    """Traces of a stretch in finer steps than the whole figure: values of each, from ``x0`` on every ``dx``.

    ``traces`` are places in the figure's data, ``values`` what stands there instead: ``y``, or ``z`` of a heat map.
    """

    low: float
    high: float
    x0: float
    dx: float
    traces: tuple[int, ...]
    values: tuple[list[Any], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the report. ``shows`` is its caption and its text alternative: a sentence with figures."""

    name: str
    title: str
    shows: str
    figure: dict[str, Any]
    table: Table
    links: tuple[Link, ...] = ()
    levels: tuple[Level, ...] = ()
    group: str = ""
    """Figures of one group share their horizontal axis: who zooms into one sees the same stretch of all."""


def plain(text: str) -> str:
    r"""Text from a trace as a page may show it: what would be invisible or turn the text round is spelled out.

    Control and format characters (marks that change the direction among them), half characters and unassigned ones
    become ``\u202e``; line ends, tabs and blanks of any width become spaces.
    """
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\n\r\t" or unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@dataclass(frozen=True, slots=True)
class Point:
    """A sentence, and what supports it."""

    text: str
    evidence: tuple[str, ...]


@dataclass(slots=True)
class Section:
    """``lead`` stands before the charts, ``tables`` after them; ``points`` answer, ``notes`` qualify."""

    heading: str
    sentence: str
    points: Sequence[str | Point] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lead: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
