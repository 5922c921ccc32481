"""Puts charts together as Plotly figures: rows of one horizontal axis each, in colours for light pages.

A figure is the plain data that ``plotly.graph_objects.Figure`` takes; it is drawn in the reader's browser. Plotly reads
a language of tags, entities and templates in every text. Words from traces pass through `words`, which leaves nothing
of it; templates (``hovertemplate``) are written here and hold no words from traces. `TimeAxis` is the axis of figures
over time: the date in UTC where the recording knows it, else seconds since its start.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from iotrace.analyze.units import format_duration_ns, format_moment
from iotrace.schemas.text import shortened

from .parts import plain

Trace = dict[str, Any]
Figure = dict[str, Any]

LIGHT: Final = {
    "ink": "#1c2128",
    "soft": "#57606a",
    "line": "#d0d7de",
    "grid": "#e6eaee",
    "paper": "#ffffff",
    "read": "#0067a3",
    "write": "#c24e00",
    "third": "#007a59",
    "fourth": "#8a5b00",
    "fifth": "#9c3d7c",
    "sixth": "#5a4fb0",
    "other": "#6a737d",
    "slow": "#c24e01",
    "knee": "#007a5a",
    "onset": "#9c3d7d",
}
"""Colours by what they stand for. No two are the same, so that `DARK` can be told from them."""
DARK: Final = {
    "ink": "#e3e8ed",
    "soft": "#a7b1bb",
    "line": "#3a434c",
    "grid": "#2a3138",
    "paper": "#14181d",
    "read": "#56b4f0",
    "write": "#f58b45",
    "third": "#2cc79b",
    "fourth": "#e6b040",
    "fifth": "#e39bc4",
    "sixth": "#a79df5",
    "other": "#9aa3ad",
    "slow": "#f58b46",
    "knee": "#2cc79c",
    "onset": "#e39bc5",
}
HEAT_LIGHT: Final = ("#d6e6f2", "#b5d3e9", "#8dbbdc", "#5f9fcd", "#3b82b8", "#23669d", "#124b7d", "#08305c")
HEAT_DARK: Final = ("#1b3650", "#204a70", "#2a6293", "#3a7db5", "#5b9acf", "#86b8e2", "#b3d5f0", "#e2f1fc")
SERIES: Final = ("read", "write", "third", "fourth", "fifth", "sixth", "other")
"""Colours of series that are no operation, in the order in which they take them."""
DASHES: Final = dict(
    zip(
        SERIES, ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "4px,2px,1px,2px"), strict=True
    )
)
SYMBOLS: Final = dict(
    zip(
        SERIES, ("circle", "square", "triangle-up", "diamond", "pentagon", "star", "circle-open"), strict=True
    )
)
"""What tells series apart without colour."""

_GAP_PX: Final = 30
_BOTTOM_PX: Final = 46
_LEGEND_PX: Final = 34
_TOP_PX: Final = 24
_CHARACTERS_MAX: Final = 80
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def words(text: str) -> str:
    """Text for a figure: shown as it is, whatever it holds."""
    return shortened(plain(text), _CHARACTERS_MAX).translate(_ENTITIES)


def dark_of_light() -> dict[str, str]:
    """Which colour stands on dark pages for each one of light pages."""
    pairs = {LIGHT[name]: DARK[name] for name in LIGHT}
    return pairs | dict(zip(HEAT_LIGHT, HEAT_DARK, strict=True))


def number(value: float | None) -> float | None:
    """A figure as short as a drawing needs it: six digits; None where there is none."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def numbers(values: Sequence[float | None]) -> list[float | None]:
    """The same for many."""
    return [number(value) for value in values]


@dataclass(slots=True)
class Row:
    """One vertical axis with its traces; ``ticks`` are places and the lines written there, from the lowest up."""

    title: str
    height_px: int
    traces: list[Trace]
    is_log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None
    has_zero: bool = True
    marks: list["Mark"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of the horizontal axis (``is_across``: of the vertical one), or a line where it has no length."""

    style: str
    low: float
    high: float
    label: str = ""
    value: float | None = None
    """Where a line stands within the stretch."""
    is_across: bool = False


def line(style: str, name: str, **more: object) -> Trace:
    """A line in the colour and the dash of ``style``; ``more`` are its points and whatever else Plotly knows."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": words(name),
        "line": {"color": LIGHT[style], "dash": DASHES.get(style, "solid"), "width": 1.8},
        **more,
    }


def points(style: str, name: str, *, joined: bool = True, symbols: object = None, **more: object) -> Trace:
    """Points with the symbol of ``style`` or those given, joined by a line unless told otherwise."""
    found = line(style, name, **more)
    found["mode"] = "lines+markers" if joined else "markers"
    found["marker"] = {"color": LIGHT[style], "symbol": symbols or SYMBOLS[style], "size": 9}
    return found


def figure(
    rows: Sequence[Row],
    across: Mapping[str, Any],
    marks: Sequence[Mark] = (),
    *,
    hover: str = "x unified",
    legend: bool = True,
) -> Figure:
    """A figure of ``rows`` from the top down over one horizontal axis; ``marks`` go through all of them.

    ``across`` is that axis as Plotly knows it. Lengths are in pixels of a page that is wide enough.
    """
    top = _TOP_PX + (_LEGEND_PX if legend else 0)
    inner = sum(row.height_px for row in rows) + _GAP_PX * (len(rows) - 1)
    height = top + inner + _BOTTOM_PX
    layout: dict[str, Any] = {
        "height": height,
        "margin": {"l": 58, "r": 14, "t": top, "b": _BOTTOM_PX},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": LIGHT["ink"], "size": 13},
        "hovermode": hover,
        "hoversubplots": "axis",
        "hoverlabel": {
            "namelength": -1,
            "bgcolor": LIGHT["paper"],
            "bordercolor": LIGHT["line"],
            "align": "left",
        },
        "showlegend": legend,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1 + 22 / inner, "yanchor": "bottom"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": LIGHT["soft"], "activecolor": LIGHT["ink"]},
        "uirevision": "kept",
        "shapes": [],
        "annotations": [],
        "xaxis": _axis(across) | {"anchor": f"y{len(rows)}" if len(rows) > 1 else "y"},
    }
    data: list[Trace] = []
    upper = float(inner)
    for place, row in enumerate(rows, 1):
        name = "y" if place == 1 else f"y{place}"
        lower = upper - row.height_px
        domain = [max(lower / inner, 0.0), min(upper / inner, 1.0)]
        layout[name.replace("y", "yaxis")] = _vertical(row) | {"domain": domain, "anchor": "x"}
        if row.title:
            layout["annotations"].append(_heading(row.title, domain[1]))
        data += [trace | {"yaxis": name} for trace in row.traces]
        for mark in row.marks:
            _mark(layout, mark, name if mark.is_across else f"{name} domain", 0, is_log=row.is_log)
        upper = lower - _GAP_PX
    labelled = 0
    for mark in marks:
        _mark(layout, mark, "paper", labelled, is_log=across.get("type") == "log")
        labelled += bool(mark.label)
    return {"data": data, "layout": layout}


def linear(title: str, **more: object) -> dict[str, Any]:
    """A horizontal axis from 0."""
    return {"title": {"text": words(title)}, "rangemode": "tozero", **more}


def logarithmic(title: str, **more: object) -> dict[str, Any]:
    """A horizontal axis of powers of ten; positions of marks on it are logarithms too."""
    return {"title": {"text": words(title)}, "type": "log", "dtick": "D2", **more}


def _axis(axis: Mapping[str, Any]) -> dict[str, Any]:
    title = dict(axis.get("title", {}))
    title |= {"font": {"color": LIGHT["soft"], "size": 13}, "standoff": 8}
    return {
        "gridcolor": LIGHT["grid"],
        "linecolor": LIGHT["line"],
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": LIGHT["line"],
        "tickfont": {"color": LIGHT["soft"], "size": 12},
        # Figures as the sentences write them: 20,000 and 0.2, not 20k and a small 2.
        "separatethousands": True,
        "exponentformat": "none",
        "minorloglabels": "complete",
        **axis,
        "title": title,
    }


def _vertical(row: Row) -> dict[str, Any]:
    axis: dict[str, Any] = {"fixedrange": False, "nticks": max(3, min(6, row.height_px // 18))}
    if row.is_log:
        # Plain decades, and 2 and 5 where they are few.
        axis |= {"type": "log", "dtick": 1 if _decades(row) > 2.6 else "D2"}
    elif row.has_zero:
        axis["rangemode"] = "tozero"
    if row.ticks:
        axis |= {
            "tickmode": "array",
            "tickvals": [place for place, _ in row.ticks],
            "ticktext": ["<br>".join(map(words, text.split("\n"))) for _, text in row.ticks],
            "automargin": True,
        }
    if row.limits:
        low, high = row.limits
        axis["range"] = [math.log10(low), math.log10(high)] if row.is_log else [low, high]
    return _axis(axis)


def _decades(row: Row) -> float:
    seen = [
        value
        for trace in row.traces
        for value in trace.get("y", ())
        if isinstance(value, int | float) and value > 0
    ]
    return math.log10(max(seen) / min(seen)) if seen else 1.0


def _heading(text: str, top: float) -> dict[str, Any]:
    return {
        "text": f"<b>{words(text)}</b>",
        "font": {"color": LIGHT["soft"], "size": 12},
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": top,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }


def _mark(layout: dict[str, Any], mark: Mark, ref: str, lane: int, *, is_log: bool) -> None:
    along, over = ("y", "x") if mark.is_across else ("x", "y")
    over_ref = "x domain" if mark.is_across else ref
    along_ref = ref if mark.is_across else "x"
    colour = LIGHT[mark.style]

    def shape(kind: str, low: object, high: object, look: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": kind,
            f"{along}ref": along_ref,
            f"{over}ref": over_ref,
            f"{along}0": low,
            f"{along}1": high,
            f"{over}0": 0,
            f"{over}1": 1,
            **look,
        }

    if mark.low != mark.high:
        edge = {"color": colour, "width": 1, "dash": "dot"}
        look = {"fillcolor": colour, "opacity": 0.18, "line": edge, "layer": "below"}
        layout["shapes"].append(shape("rect", mark.low, mark.high, look))
    at = mark.value if mark.value is not None else mark.low if mark.low == mark.high else None
    if at is not None:
        look = {"line": {"color": colour, "width": 1.6, "dash": "dash" if mark.is_across else "solid"}}
        layout["shapes"].append(shape("line", at, at, look))
    if mark.label:
        place = mark.high if at is None else at
        # Plotly takes shapes on a logarithmic axis by their value, but words by its logarithm.
        label = _label(mark, along_ref, over_ref, math.log10(place) if is_log else place, lane)
        layout["annotations"].append(label)


def _label(mark: Mark, along_ref: str, over_ref: str, place: float, lane: int) -> dict[str, Any]:
    label = {
        "text": words(mark.label),
        "font": {"color": LIGHT[mark.style], "size": 12},
        "showarrow": False,
        "bgcolor": LIGHT["paper"],
        "opacity": 0.9,
        "borderpad": 1,
    }
    if mark.is_across:
        return label | {
            "xref": "paper",
            "yref": along_ref,
            "x": 0.004,
            "y": place,
            "xanchor": "left",
            "yanchor": "bottom",
        }
    return label | {
        "xref": along_ref,
        "yref": over_ref,
        "x": place,
        "y": 1,
        "yshift": -17 * (lane % 3),
        "xanchor": "left",
        "xshift": 3,
        "yanchor": "top",
    }


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Places on a figure for times of a recording, whose window begins ``start_ns`` after its clock's zero.

    ``start_utc_ns`` is that zero in UTC. Places are milliseconds since 1970 where it is a date, else seconds since the
    start of the window.
    """

    start_ns: int
    window_ns: int
    start_utc_ns: int | None

    @property
    def has_date(self) -> bool:
        """Whether the sources named a date."""
        return bool(format_moment(self.start_utc_ns))

    def at(self, time_ns: float) -> float:
        """The place of a time of the recording."""
        if self.has_date:
            assert self.start_utc_ns is not None
            whole, rest = divmod(self.start_utc_ns, 1_000_000)
            return float(whole) + (rest + time_ns) / 1e6
        return (time_ns - self.start_ns) / 1e9

    def time_ns(self, place: float) -> float:
        """The time of the recording that a place stands for: `at`, the other way about."""
        if self.has_date:
            assert self.start_utc_ns is not None
            whole, rest = divmod(self.start_utc_ns, 1_000_000)
            return (place - whole) * 1e6 - rest
        return place * 1e9 + self.start_ns

    def words(self, time_ns: float) -> str:
        """When that was, by the clock that the axis shows."""
        if self.has_date:
            return f"at {format_moment(int((self.start_utc_ns or 0) + time_ns))[len('2026-01-03 ') :]}"
        return f"{format_duration_ns(time_ns - self.start_ns)} after the start"

    def length(self, duration_ns: float) -> float:
        """A length of time in the units of the axis."""
        return duration_ns / (1e6 if self.has_date else 1e9)

    def axis(self) -> dict[str, Any]:
        """The horizontal axis as Plotly knows it."""
        whole = [self.at(self.start_ns), self.at(self.start_ns + max(self.window_ns, 1))]
        if self.has_date:
            return {
                "type": "date",
                "range": whole,
                "title": {"text": "time (UTC)"},
                "hoverformat": "%Y-%m-%d %H:%M:%S.%3f UTC",
                "showgrid": False,
            }
        return {
            "range": whole,
            "title": {"text": "seconds since the start"},
            "hoverformat": ",.6~f",
            "showgrid": False,
        }
