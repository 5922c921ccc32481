"""Draws a chart as SVG: once, when the report is written, so that nothing has to run where it is read.

Lengths are in the unit of the view box, 1,000 wide. Colours come from the style sheet by class, so one drawing serves
light, dark and paper. What the pointer shows is text that is there already and becomes visible.
"""

from collections.abc import Callable, Iterable
from typing import Final

from markupsafe import Markup, escape

from .axes import Axis
from .charts import (
    STYLES,
    Band,
    Boxes,
    Chart,
    Key,
    Limit,
    Line,
    Mark,
    Note,
    Panel,
    Point,
    Readout,
    Symbol,
    plain,
)

WIDTH: Final = 1000
_CHAR: Final = 7.2
"""Width of a character of 13 px, on the wide side; fonts differ between machines."""
_RIGHT: Final = 14
_HEAD: Final = 24
"""Above a panel: room for what the pointer shows, and for the upper half of the top tick."""
_TICKS: Final = 24
_AXIS_TITLE: Final = 22
_R: Final = 4.2
_Height = Callable[[float], float]


def drawn(chart: Chart) -> Markup:
    """The chart as an ``svg`` element whose name for screen readers is its title and what it shows."""
    left = _left(chart)
    place = _Place(chart.axis, left, WIDTH - _RIGHT)
    first_top = _HEAD
    bottom_of_all = sum(_HEAD + panel.height_px for panel in chart.panels)
    parts = list(_ticks_across(chart.axis, place, first_top, bottom_of_all))
    top = 0.0
    for panel in chart.panels:
        top += _HEAD
        bottom = top + panel.height_px
        parts += _panel(panel, place, top, bottom)
        top = bottom
    parts += _readouts(chart, place, first_top, top)
    height = top + _TICKS + (_AXIS_TITLE if chart.axis.title else 0)
    name = escape(plain(f"{chart.title}. {chart.shows}"))
    return Markup(  # noqa: S704 - every text in it is escaped
        f'<svg class="chart" viewBox="0 0 {WIDTH} {_n(height)}" role="img" aria-label="{name}">'
        f"{''.join(parts)}</svg>"
    )


def swatch(key: Key) -> Markup:
    """The sample of a legend's entry."""
    style = escape(key.style)
    if key.shape == "box":
        inside = f'<rect class="box {style}" x="1" y="2" width="24" height="10"/>'
    else:
        look = STYLES.get(key.style)
        symbol = _symbol(look.symbol, 13, 7) if look and key.shape == "points" else ""
        inside = f'<g class="{style}"><path class="line"{_dash(key.style)} d="M0 7H26"/>{symbol}</g>'
    return Markup(  # noqa: S704 - it holds the name of a style, escaped
        f'<svg class="swatch" viewBox="0 0 26 14" aria-hidden="true">{inside}</svg>'
    )


class _Place:
    """From the units of two axes to the drawing's."""

    def __init__(self, axis: Axis, left: float, right: float) -> None:
        self.axis, self.left, self.right = axis, left, right

    def x(self, value: float) -> float:
        return self.left + self.axis.position(value) * (self.right - self.left)


def _left(chart: Chart) -> float:
    words = [len(text) for panel in chart.panels for _, text in panel.axis.ticks]
    titled = any(panel.axis.title for panel in chart.panels)
    return max(words, default=1) * _CHAR + 10 + (20 if titled else 0)


def _panel(panel: Panel, place: _Place, top: float, bottom: float) -> Iterable[str]:
    axis = panel.axis

    def y(value: float) -> float:
        return bottom - axis.position(value) * (bottom - top)

    for value, words in axis.ticks:
        at = _n(y(value))
        if axis.has_grid:
            yield f'<path class="grid" d="M{_n(place.left)} {at}H{_n(place.right)}"/>'
        yield f'<text class="tick end" x="{_n(place.left - 7)}" y="{_n(y(value) + 4.5)}">{_text(words)}</text>'
    if axis.title:
        middle = _n((top + bottom) / 2)
        yield f'<text class="title" transform="translate(13 {middle})rotate(-90)">{_text(axis.title)}</text>'
    # Bands lie below everything; words stand above it.
    order = {Band: 0, Boxes: 1, Limit: 2, Line: 3, Note: 4}
    bands = 0
    limits = 0
    for mark in sorted(panel.marks, key=lambda mark: order[type(mark)]):
        if isinstance(mark, Band):
            yield from _band(mark, place, top, bottom, bands)
            bands += bool(mark.words)
        elif isinstance(mark, Limit):
            yield from _limit(mark, place, y, top, bottom, limits)
            limits += 1
        else:
            yield from _mark(mark, place, y, bottom)
    yield f'<path class="frame" d="M{_n(place.left)} {_n(top)}V{_n(bottom)}H{_n(place.right)}"/>'


def _mark(mark: Mark, place: _Place, y: _Height, bottom: float) -> Iterable[str]:
    if isinstance(mark, Line):
        yield from _line(
            mark, [None if at is None else (place.x(at[0]), y(at[1])) for at in mark.points], bottom
        )
    elif isinstance(mark, Boxes):
        outline = "".join(_box(place.x(x0), place.x(x1), y(y1), y(y0)) for x0, x1, y0, y1 in mark.boxes)
        yield f'<path class="box {escape(mark.style)}" d="{outline}"/>'
    elif isinstance(mark, Note):
        x, at = place.x(mark.at[0]), y(mark.at[1])
        yield f'<text class="note" x="{_n(x + 6)}" y="{_n(at + 4.5)}">{_text(mark.words)}</text>'


def _line(mark: Line, points: list[Point | None], bottom: float) -> Iterable[str]:
    yield f'<g class="{escape(mark.style)}">'
    runs: list[list[Point]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    runs = [_stepped(run) if mark.is_stepped else run for run in runs if run]
    paths = ["M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in run) for run in runs]
    if mark.is_filled:
        closed = "".join(
            f"{path}V{_n(bottom)}H{_n(run[0][0])}Z" for path, run in zip(paths, runs, strict=True)
        )
        yield f'<path class="area" d="{closed}"/>'
    if mark.is_joined:
        yield f'<path class="line"{_dash("" if mark.is_solid else mark.style)} d="{"".join(paths)}"/>'
    if mark.symbols is not None:
        symbols = (mark.symbols,) * len(points) if isinstance(mark.symbols, str) else mark.symbols
        for point, symbol in zip(points, symbols, strict=True):
            if point is not None:
                yield _symbol(symbol, *point)
    yield "</g>"


def _stepped(run: list[Point]) -> list[Point]:
    """Each value holds to the middle between it and its neighbours."""
    if len(run) < 2:
        return [(run[0][0] - 2, run[0][1]), (run[0][0] + 2, run[0][1])]
    half = (run[1][0] - run[0][0]) / 2
    steps: list[Point] = []
    for x, y in run:
        for point in ((x - half, y), (x + half, y)):
            # What lies on a level needs no points of its own.
            if len(steps) > 1 and steps[-1][1] == steps[-2][1] == point[1]:
                steps[-1] = point
            else:
                steps.append(point)
    return steps


def _band(band: Band, place: _Place, top: float, bottom: float, number: int) -> Iterable[str]:
    low, high = place.x(band.low), place.x(band.high)
    width = max(high - low, 2)
    style = escape(band.style)
    yield (
        f'<rect class="band {style}" x="{_n(low)}" y="{_n(top)}" width="{_n(width)}" '
        f'height="{_n(bottom - top)}"/>'
    )
    if band.value is not None:
        yield f'<path class="edge {style}" d="M{_n(place.x(band.value))} {_n(top)}V{_n(bottom)}"/>'
    if band.words:
        # Words stand beside the band on the side that has room, each a line lower than those before.
        at_left = low - place.left > len(band.words) * _CHAR + 10
        x, anchor = (low - 5, "end") if at_left else (low + width + 5, "")
        at = top + 15 + 17 * (number % 4)
        yield f'<text class="note {anchor}" x="{_n(x)}" y="{_n(at)}">{_text(band.words)}</text>'


def _limit(limit: Limit, place: _Place, y: _Height, top: float, bottom: float, number: int) -> Iterable[str]:
    if limit.is_vertical:
        x = place.x(limit.value)
        yield f'<path class="limit" d="M{_n(x)} {_n(top)}V{_n(bottom)}"/>'
        beside, anchor = (x - 5, "end") if x > (place.left + place.right) / 2 else (x + 5, "")
        yield f'<text class="note {anchor}" x="{_n(beside)}" y="{_n(top - 6)}">{_text(limit.words)}</text>'
        return
    at = y(limit.value)
    yield f'<path class="limit" d="M{_n(place.left)} {_n(at)}H{_n(place.right)}"/>'
    # Neighbouring limits are named at opposite ends, so that their names never overlap.
    x, anchor = (place.left + 6, "") if number % 2 == 0 else (place.right - 6, "end")
    yield f'<text class="note {anchor}" x="{_n(x)}" y="{_n(at - 5)}">{_text(limit.words)}</text>'


def _ticks_across(axis: Axis, place: _Place, top: float, bottom: float) -> Iterable[str]:
    edge = -1e9
    for value, words in axis.ticks:
        x = place.x(value)
        room = len(words) * _CHAR / 2 + 4
        if axis.has_grid:
            yield f'<path class="grid" d="M{_n(x)} {_n(top)}V{_n(bottom)}"/>'
        if x - room < edge:
            continue
        edge = x + room
        anchor = "end" if x + room > WIDTH else "middle"
        yield f'<text class="tick {anchor}" x="{_n(min(x, WIDTH))}" y="{_n(bottom + 18)}">{_text(words)}</text>'
        yield f'<path class="frame" d="M{_n(x)} {_n(bottom)}v4"/>'
    if axis.title:
        middle = (place.left + place.right) / 2
        yield f'<text class="title" x="{_n(middle)}" y="{_n(bottom + _TICKS + 15)}">{_text(axis.title)}</text>'


def _readouts(chart: Chart, place: _Place, top: float, bottom: float) -> Iterable[str]:
    panel = chart.panels[0]
    for readout in chart.readouts:
        if readout.is_across:
            upper = top + panel.height_px * (1 - panel.axis.position(readout.high))
            lower = top + panel.height_px * (1 - panel.axis.position(readout.low))
            area = (place.left, place.right, upper, lower)
        else:
            area = (place.x(readout.low), place.x(readout.high), top, bottom)
        yield from _readout(readout, area, place)


def _readout(readout: Readout, area: tuple[float, float, float, float], place: _Place) -> Iterable[str]:
    x0, x1, y0, y1 = area
    width, height = max(x1 - x0, 1), y1 - y0
    yield (
        f'<g class="hit"><rect x="{_n(x0)}" y="{_n(y0)}" width="{_n(width)}" height="{_n(height)}"/>'
        f'<text class="end" x="{_n(place.right)}" y="14">{_text(readout.words)}</text></g>'
    )


def _symbol(symbol: Symbol, x: float, y: float) -> str:
    r = _R
    if symbol in ("circle", "ring"):
        return f'<circle class="{symbol}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}"/>'
    outline = {
        "square": f"M{_n(x - r)} {_n(y - r)}h{2 * r:g}v{2 * r:g}h{-2 * r:g}z",
        "triangle": f"M{_n(x)} {_n(y - r - 1)}l{r + 1:g} {2 * r:g}h{-2 * r - 2:g}z",
        "diamond": f"M{_n(x)} {_n(y - r - 1)}l{r + 1:g} {r + 1:g}l{-r - 1:g} {r + 1:g}l{-r - 1:g} {-r - 1:g}z",
        "cross": f"M{_n(x - r)} {_n(y - r)}l{2 * r:g} {2 * r:g}m0 {-2 * r:g}l{-2 * r:g} {2 * r:g}",
    }[symbol]
    return f'<path class="{"stroke" if symbol == "cross" else "solid"}" d="{outline}"/>'


def _box(x0: float, x1: float, y0: float, y1: float) -> str:
    return f"M{_n(x0)} {_n(y0)}H{_n(x1)}V{_n(y1)}H{_n(x0)}Z"


def _dash(style: str) -> str:
    look = STYLES.get(style)
    return f' stroke-dasharray="{look.dash}"' if look and look.dash else ""


def _text(words: str) -> Markup:
    return escape(plain(words))


def _n(value: float) -> str:
    """A length with one decimal, as short as can be."""
    return f"{value:.1f}".removesuffix(".0")
