"""Two recordings side by side: how many times as long matched I/Os took, with 95 % intervals."""

import math

from iotrace.analyze.compare.comparison import ClassComparison, Comparison, Figure
from iotrace.analyze.units import DASH, format_count, format_duration_ns, format_ratio_with_interval

from .parts import Chart, Table
from .plot import LIGHT, SYMBOLS, Mark, Row, Trace, figure, logarithmic, number, numbers, words

_ROWS_MAX = 16
_TABLE_ROWS_MAX = 200
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_STYLES = (("read", "reads"), ("write", "writes"), ("third", "other"))
Compared = tuple[ClassComparison, Figure]


def ratio_chart(found: Comparison) -> Chart | None:
    """Ratios of the headline latency, whole operations first; None where no class has enough I/Os in both."""
    rows: list[Compared] = [
        (entry, figure)
        for entry in found.classes
        if entry.b_metric == found.headline_metric
        for figure in entry.figures
        if figure.ratio is not None and figure.ratio > 0
    ]
    if not rows:
        return None
    shown = rows[:_ROWS_MAX]
    names = [f"{class_name(entry)} {figure.quantity}" for entry, figure in shown]
    places = [float(len(shown) - 1 - index) for index in range(len(shown))]
    traces = [
        _points(style, said, some)
        for style, said in _STYLES
        if (
            some := [
                (*row, place) for row, place in zip(shown, places, strict=True) if _style(row[0]) == style
            ]
        )
    ]
    left_out = f" {len(rows) - len(shown)} more are in the table." if len(rows) > len(shown) else ""
    return Chart(
        "ratios",
        "How many times as long",
        f"{shown[0][0].b_metric.capitalize()} time of {found.b.label} over {shown[0][0].a_metric} time of "
        f"{found.a.label}, by operation, role and size; the line is the 95 % interval, a ring has none. Left of 1 is "
        f"faster. {_said(shown)}{left_out}",
        figure(
            [
                Row(
                    "",
                    24 * len(shown) + 10,
                    traces,
                    ticks=_ticks(places, names),
                    limits=(-0.6, len(shown) - 0.4),
                )
            ],
            _ratio_axis(shown),
            [Mark("other", 1.0, 1.0, "equal")],
            hover="closest",
        ),
        _table(found),
    )


def _style(entry: ClassComparison) -> str:
    return entry.op if entry.op in ("read", "write") else "third"


def _ticks(places: list[float], names: list[str]) -> tuple[tuple[float, str], ...]:
    return tuple(sorted(zip(places, names, strict=True)))


def _points(style: str, name: str, rows: list[tuple[ClassComparison, Figure, float]]) -> Trace:
    """Ratios with their intervals; an open symbol has none."""
    ratios = [figure.ratio or 1.0 for _, figure, _ in rows]
    ends = [
        figure.ratio_interval or (ratio, ratio) for (_, figure, _), ratio in zip(rows, ratios, strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": numbers(ratios),
        "y": [place for *_, place in rows],
        "marker": {
            "color": LIGHT[style],
            "size": 9,
            "symbol": [
                f"{SYMBOLS[style]}{'-open' if figure.ratio_interval is None else ''}" for _, figure, _ in rows
            ],
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [number(high - ratio) for (_, high), ratio in zip(ends, ratios, strict=True)],
            "arrayminus": [number(ratio - low) for (low, _), ratio in zip(ends, ratios, strict=True)],
            "color": LIGHT[style],
        },
        "customdata": [
            words(
                f"{class_name(entry)} {figure.quantity}: {format_duration_ns(figure.a_ns)} → "
                f"{format_duration_ns(figure.b_ns)}, {format_ratio_with_interval(figure.ratio, figure.ratio_interval)}"
            )
            for entry, figure, _ in rows
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _said(rows: list[Compared]) -> str:
    """The slowest-grown and the most improved figure of those shown."""
    lowest, highest = (pick(rows, key=lambda row: row[1].ratio or 1.0) for pick in (min, max))
    return " ".join(
        f"The {words} is {format_ratio_with_interval(figure.ratio, figure.ratio_interval)}, {figure.quantity} of "
        f"{class_name(entry)}."
        for words, (entry, figure) in (("lowest", lowest), ("highest", highest))
    )


def class_name(entry: ClassComparison) -> str:
    """``data read 8 KiB``; of all roles and sizes ``read``."""
    role = (entry.role or "").replace("_", " ")
    size = entry.size_class if entry.size_class_bytes is not None or entry.role is not None else ""
    return " ".join(part for part in (role, entry.op, size) if part)


def _table(found: Comparison) -> Table:
    every = [
        (entry, figure) for entry in found.classes for figure in entry.figures if figure.a_ns is not None
    ]
    rows = tuple(
        (
            class_name(entry),
            figure.quantity,
            entry.a_metric if entry.a_metric == entry.b_metric else f"{entry.a_metric} → {entry.b_metric}",
            format_count(entry.a_io_count),
            format_count(entry.b_io_count),
            format_duration_ns(figure.a_ns),
            format_duration_ns(figure.b_ns),
            format_ratio_with_interval(figure.ratio, figure.ratio_interval),
            _difference(figure),
        )
        for entry, figure in every[:_TABLE_ROWS_MAX]
    )
    more = f"; the first {_TABLE_ROWS_MAX} of {len(every)}" if len(every) > _TABLE_ROWS_MAX else ""
    columns = ("I/Os", "quantity", "time", "I/Os in A", "I/Os in B", "A", "B", "B / A", "B - A")
    return Table(f"Latency of A and B, 95 % intervals{more}", columns, rows, 3)


def _difference(figure: Figure) -> str:
    if figure.difference_ns is None:
        return DASH
    words = format_duration_ns(figure.difference_ns)
    if figure.difference_interval_ns is None:
        return words
    low, high = figure.difference_interval_ns
    return f"{words} [{format_duration_ns(low)}, {format_duration_ns(high)}]"


def _ratio_axis(rows: list[Compared]) -> dict[str, object]:
    ends = [1.0]
    for _, one in rows:
        ends += [one.ratio or 1.0, *(one.ratio_interval or ())]
    low = max(min(end for end in ends if end > 0) / 1.15, 1e-3)
    high = min(max(ends) * 1.15, 1e4)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    if math.log10(high / low) < 0.8:
        ticks = [number / 10 for number in range(1, 80) if low <= number / 10 <= high]
        step = max(len(ticks) // 8, 1)
        ticks = [tick for tick in ticks if round(tick * 10) % step == 0 or tick == 1]
    return logarithmic(
        "B over A",
        tickmode="array",
        tickvals=ticks,
        ticktext=[f"{tick:g}x" for tick in ticks],
        range=[math.log10(low), math.log10(high)],
    )
