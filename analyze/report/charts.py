"""What a chart is: marks on panels that share one horizontal axis, a sentence that says what it shows, and its table.

A style is a word that the style sheet gives a colour, for light and dark pages; `STYLES` adds what is told apart
without colour: the dash of a line, its symbol, the hatching of an area (`svg`). Roles and operations keep theirs.
"""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .axes import Axis

Symbol = Literal["circle", "square", "triangle", "diamond", "cross", "ring"]
Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""x0, x1, y0, y1 in the units of the axes."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a series is told from others without its colour."""

    dash: str
    symbol: Symbol


STYLES: Final[dict[str, Style]] = {
    "read": Style("", "circle"),
    "write": Style("7 3", "square"),
    "third": Style("2 3", "triangle"),
    "fourth": Style("9 3 2 3", "diamond"),
    "fifth": Style("12 4", "circle"),
    "sixth": Style("4 2", "square"),
    "other": Style("1 4", "ring"),
}
"""In the order in which series that are no operation take them."""
SERIES: Final = tuple(STYLES)


@dataclass(frozen=True, slots=True)
class Line:
    """A series. ``points`` may hold None for a gap; ``symbols`` are drawn at the points, one for all or one each."""

    style: str
    points: tuple[Point | None, ...]
    symbols: Symbol | tuple[Symbol, ...] | None = None
    is_stepped: bool = False
    is_filled: bool = False
    is_joined: bool = True
    is_solid: bool = False
    """Not dashed, whatever the style: the whisker of an interval."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Bars, or the cells of a heat map (styles ``heat1`` … ``heat8``)."""

    style: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of the horizontal axis from top to bottom, with a line at ``value`` and words at its top."""

    style: str
    low: float
    high: float
    words: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """A line across, or with ``is_vertical`` from top to bottom, with what it stands for."""

    value: float
    words: str
    is_vertical: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Words to the right of a point."""

    at: Point
    words: str


Mark = Line | Boxes | Band | Limit | Note


@dataclass(frozen=True, slots=True)
class Panel:
    """One vertical axis and the marks on it."""

    axis: Axis
    marks: tuple[Mark, ...]
    height_px: int = 220


@dataclass(frozen=True, slots=True)
class Readout:
    """Words shown while the pointer is within a stretch of the horizontal axis, or of the vertical one."""

    low: float
    high: float
    words: str
    is_across: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend: a style, shown as a line, a line with its symbol or a box, and what it means."""

    style: str
    words: str
    shape: Literal["line", "points", "box"] = "line"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under named columns; the first ``text_columns`` are read, the others compared."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the report. ``shows`` is its caption and its text alternative: a sentence with figures."""

    name: str
    title: str
    shows: str
    axis: Axis
    panels: tuple[Panel, ...]
    table: Table
    legend: tuple[Key, ...] = ()
    readouts: tuple[Readout, ...] = ()


def figure(value: float | None) -> float | None:
    """A number that can be drawn, or None."""
    return None if value is None or not math.isfinite(value) else value


def line_of(values: Sequence[float | None], places: Sequence[float]) -> tuple[Point | None, ...]:
    """Points of a line, None where there is no figure."""
    return tuple(
        None if figure(value) is None else (place, value or 0.0)
        for place, value in zip(places, values, strict=True)
    )


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
