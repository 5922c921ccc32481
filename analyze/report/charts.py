"""What a chart is: a Plotly figure as plain data, a sentence that says what it shows, and the table behind it.

Colours are Okabe and Ito's (2008), which people with any colour vision tell apart; roles and operations keep theirs
throughout. Plotly reads some HTML in labels, so every word that comes from a trace goes through `label`.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
VERMILLION: Final = "#D55E00"
SKY: Final = "#56B4E9"
PURPLE: Final = "#CC79A7"
GREY: Final = "#8A8F98"
OP_COLOURS: Final = {"read": BLUE, "write": VERMILLION, "flush": PURPLE, "discard": GREY}
SERIES: Final = (BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, GREY)
_LABEL_CHARS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under named columns; the first ``text_columns`` are read, the others compared."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the report. ``shows`` is its caption and its text alternative."""

    name: str
    title: str
    shows: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    table: Table
    height_px: int = 360


def label(text: str) -> str:
    """Text from a trace as Plotly may show it: no tags, no line breaks, not too long."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(plain) > _LABEL_CHARS_MAX:
        plain = plain[: _LABEL_CHARS_MAX - 1] + "…"
    return html.escape(plain, quote=False)


def axis(title: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - Plotly's own vocabulary
    """An axis with a title that keeps clear of its ticks."""
    return {"title": {"text": title, "standoff": 8}, "automargin": True, "zeroline": False} | more


def latency_axis(title: str, low_ms: float, high_ms: float) -> dict[str, Any]:
    """A log axis in milliseconds whose ticks read 0.01, 0.1, 1 … instead of powers."""
    low = math.floor(math.log10(max(low_ms, 1e-6)))
    high = math.ceil(math.log10(max(high_ms, 1e-6)) + 1e-9)
    ticks = [float(f"1e{power}") for power in range(low - 1, high + 2)]
    return axis(
        title,
        type="log",
        range=[math.log10(max(low_ms, 1e-6)) - 0.12, math.log10(max(high_ms, 1e-6)) + 0.12],
        tickvals=ticks,
        ticktext=[f"{tick:,.10g}" for tick in ticks],
    )


def figures(values: Sequence[float | None], digits: int = 4) -> list[float | None]:
    """Numbers with as many digits as a chart can show, None for what is missing."""
    return [
        None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")
        for value in values
    ]


def legend_below() -> dict[str, Any]:
    """A legend that takes no width, above the plot."""
    return {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
