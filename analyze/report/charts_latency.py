"""How long I/Os took: the share of them within a time, and the mean layer by layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from iotrace.analyze.compare.comparison import WaterfallStep
from iotrace.analyze.stats.histogram import IOS_BEYOND_MIN, Histogram
from iotrace.analyze.units import (
    DASH,
    format_count,
    format_duration_ns,
    format_duration_with_interval,
    format_share,
    format_share_with_interval,
)
from iotrace.schemas.arrays import Floats

from .parts import Chart, Table, plain
from .plot import LIGHT, SERIES, Row, Trace, figure, line, linear, logarithmic, number, numbers, words

_TICKS: Final = (0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
_POINTS_PER_DECADE: Final = 24
_CURVES_MAX: Final = len(SERIES) - 1
_ROW_PX = 40
_STYLES = (
    ("third", "the lowest layer's own time", ""),
    ("fourth", "added by the layer named", "/"),
    ("other", "not to be believed", "x"),
)
"""Colour, meaning and hatching of the bars."""


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    style: str
    histogram: Histogram

    @property
    def top(self) -> float:
        """The highest share of I/Os with enough of them beyond."""
        return 1 - IOS_BEYOND_MIN / self.histogram.total

    def at_ns(self, shares: Floats) -> Floats:
        counts = np.asarray(self.histogram.io_count, dtype=np.int64)
        ranks = np.clip(np.ceil(shares * counts.sum() - 1e-9), 1, counts.sum())
        values: Floats = np.asarray(self.histogram.bucket_ns, dtype=np.float64)
        found: Floats = values[np.searchsorted(np.cumsum(counts), ranks)]
        return found

    def trace(self, **more: object) -> Trace:
        """Latency in ms against how many decades of I/Os lie beyond: 1 is 90 %, 2 is 99 %."""
        decades = -np.log10(1 - self.top)
        even = np.linspace(0, decades, max(int(decades * _POINTS_PER_DECADE), 8))
        # The few fastest I/Os differ most, so the curve is drawn finer at its beginning.
        places = np.union1d(even, even[1] * np.array([0.01, 0.03, 0.1, 0.2, 0.4, 0.7]))
        shares = 1 - 10**-places
        return line(
            self.style,
            self.name,
            x=numbers((self.at_ns(shares) / 1e6).tolist()),
            y=numbers(places.tolist()),
            customdata=[f"{share * 100:.5f}".rstrip("0").rstrip(".") for share in shares.tolist()],
            hovertemplate="%{customdata} % within %{x:.4~g} ms",
            **more,
        )


def percentile_chart(histograms: Mapping[str, Histogram], metric: str, layer: str) -> Chart | None:
    """One curve for each named histogram with enough I/Os, the largest ones; None without any."""
    curves = _curves(histograms, SERIES)
    if not curves:
        return None
    left_out = sum(1 for histogram in histograms.values() if histogram.total) - len(curves)
    said = "; ".join(_said(curve) for curve in curves)
    note = f" {left_out} with too few I/Os or the least of them not drawn." if left_out else ""
    return Chart(
        "percentiles",
        f"{metric.capitalize()} time by percentile",
        f"How long the given share of I/Os took at most at the {layer} layer: {said}. The higher, the rarer; a "
        f"curve ends where fewer than {IOS_BEYOND_MIN} I/Os lie beyond.{note}",
        figure(
            [_row("share of I/Os within (%)", curves, 320)],
            logarithmic(f"{metric} time (ms)"),
            hover="closest",
        ),
        _table(curves, f"{metric.capitalize()} time by percentile"),
    )


def pair_chart(
    pairs: Mapping[str, tuple[Histogram, Histogram]], names: tuple[str, str], metrics: tuple[str, str]
) -> Chart | None:
    """Curves of two recordings, a panel for each operation that both have; ``names`` stand in the legend."""
    drawn = {}
    for op, (before, after) in pairs.items():
        curves = _curves({f"{op}s, {names[0]}": before, f"{op}s, {names[1]}": after}, ("other", op))
        if len(curves) == 2:
            drawn[op] = curves
    if not drawn:
        return None
    everything = [curve for curves in drawn.values() for curve in curves]
    said = "; ".join(_said(curve) for curve in everything)
    clocks = f"{metrics[0]} time" if metrics[0] == metrics[1] else f"{metrics[0]} against {metrics[1]} time"
    return Chart(
        "percentile-pairs",
        "The two by percentile",
        f"How long the given share of I/Os took at most, {clocks}: {said}.",
        figure(
            [_row(f"share of {op}s within (%)", curves, 210) for op, curves in drawn.items()],
            logarithmic("latency (ms)"),
            hover="closest",
        ),
        _table(everything, "Latency by percentile"),
    )


def _curves(histograms: Mapping[str, Histogram], styles: Sequence[str]) -> list[_Curve]:
    enough = [name for name, one in histograms.items() if one.total >= 2 * IOS_BEYOND_MIN]
    most = sorted(enough, key=lambda name: -histograms[name].total)[:_CURVES_MAX]
    kept = [name for name in histograms if name in most]
    return [_Curve(name, style, histograms[name]) for name, style in zip(kept, styles, strict=False)]


def _row(title: str, curves: Sequence[_Curve], height_px: int) -> Row:
    widest = max(curve.top for curve in curves)
    ticks = tuple(
        (float(-np.log10(1 - share)), f"{share * 100:g}") for share in _TICKS if share <= widest + 1e-12
    )
    return Row(title, height_px, [curve.trace() for curve in curves], ticks=ticks)


def _table(curves: Sequence[_Curve], caption: str) -> Table:
    widest = max(curve.top for curve in curves)
    shares = [share for share in _TICKS[1:] if share <= widest + 1e-12]
    rows = tuple(
        (
            curve.name,
            *(
                format_duration_ns(float(curve.at_ns(np.array([share]))[0]))
                if share <= curve.top + 1e-12
                else DASH
                for share in shares
            ),
        )
        for curve in curves
    )
    return Table(caption, ("I/Os", *(f"p{share * 100:g}" for share in shares)), rows)


def _said(curve: _Curve) -> str:
    share = max((share for share in (0.5, 0.9, 0.95, 0.99) if share <= curve.top + 1e-12), default=0.5)
    half, most = curve.at_ns(np.array([0.5, share]))
    tail = f", {share * 100:g} % within {format_duration_ns(float(most))}" if share > 0.5 else ""
    return f"half of the {curve.name} within {format_duration_ns(float(half))}{tail}"


def layer_chart(waterfalls: Mapping[str, Sequence[WaterfallStep]]) -> Chart | None:
    """One waterfall for each name (empty for a single recording); None unless some operation has two layers."""
    rows: list[tuple[str, WaterfallStep]] = []
    for name, steps in waterfalls.items():
        for op in dict.fromkeys(step.op for step in steps):
            of_op = [step for step in steps if step.op == op]
            if len(of_op) > 1:
                # Steps come from the top layer down; time is added up from the bottom.
                rows += [(name, step) for step in reversed(of_op)]
    if not rows:
        return None
    # Beside a bar there is no room for its value on a narrow page.
    names = [f"{plain(_row_name(name, step))}\n{_value(step)}" for name, step in rows]
    places = [len(rows) - 1 - index for index in range(len(rows))]
    highest = max(step.mean_ns for _, step in rows) / 1e6
    traces = [
        _bars(style, said, pattern, some)
        for style, said, pattern in _STYLES
        if (
            some := [
                (place, *row) for place, row in zip(places, rows, strict=True) if _style(row[1]) == style
            ]
        )
    ]
    problems = [step.problem for _, step in rows if step.problem]
    said = f" Not to be believed where grey: {'; '.join(dict.fromkeys(problems))}." if problems else ""
    return Chart(
        "layers",
        "Where the time goes, by layer",
        f"Mean service time, from the lowest layer recorded up: each layer adds the time spent between its clock and "
        f"that of the layer below. {_largest(rows)}{said}",
        figure(
            [
                Row(
                    "",
                    _ROW_PX * len(rows) + 8,
                    traces,
                    ticks=tuple(sorted(zip(map(float, places), names, strict=True))),
                    limits=(-0.6, len(rows) - 0.4),
                )
            ],
            linear("mean service time (ms)", range=[0, number(highest * 1.05)]),
            hover="closest",
        ),
        Table(
            "Mean service time by layer",
            ("I/Os", "layer", "remark", "count", "mean", "added to the layer below", "share of the top"),
            tuple(
                (
                    f"{name} {step.op}s".strip(),
                    step.layer,
                    step.problem or "",
                    format_count(step.io_count),
                    format_duration_ns(step.mean_ns),
                    DASH
                    if step.residual_ns is None
                    else format_duration_with_interval(step.residual_ns, step.residual_interval_ns),
                    format_share_with_interval(step.share, step.share_interval),
                )
                for name, step in rows
            ),
            3,
        ),
    )


def _style(step: WaterfallStep) -> str:
    return "third" if step.residual_ns is None else "other" if step.problem else "fourth"


def _bars(style: str, name: str, pattern: str, rows: Sequence[tuple[int, str, WaterfallStep]]) -> Trace:
    """Each layer's own time, beginning where the layer below ends."""
    own = [step.mean_ns if step.residual_ns is None else step.residual_ns for *_, step in rows]
    begin = [step.mean_ns - part for (*_, step), part in zip(rows, own, strict=True)]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [place for place, *_ in rows],
        "x": [number(part / 1e6) for part in own],
        "base": [number(value / 1e6) for value in begin],
        "width": 0.64,
        "marker": {
            "color": LIGHT[style],
            "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": LIGHT["paper"], "size": 6},
        },
        "customdata": [
            words(f"{_row_name(name, step)}: mean {format_duration_ns(step.mean_ns)}")
            for _, name, step in rows
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def signed(duration_ns: float) -> str:
    """A difference with its sign: ``+0.12 ms``."""
    return f"+{format_duration_ns(duration_ns)}" if duration_ns >= 0 else format_duration_ns(duration_ns)


def _value(step: WaterfallStep) -> str:
    if step.residual_ns is None:
        return format_duration_ns(step.mean_ns)
    return f"{signed(step.residual_ns)} → {format_duration_ns(step.mean_ns)}"


def _row_name(name: str, step: WaterfallStep) -> str:
    prefix = f"{name} " if name else ""
    return f"{prefix}{step.op}s: {step.layer}"


def _largest(rows: Sequence[tuple[str, WaterfallStep]]) -> str:
    parts = []
    for name, op in dict.fromkeys((name, step.op) for name, step in rows):
        of_op = [step for other, step in rows if (other, step.op) == (name, op)]
        top = of_op[-1]
        lowest = of_op[0]
        share = lowest.mean_ns / top.mean_ns if top.mean_ns else 0.0
        who = f"{name} {op}s".strip()
        if top.problem is None and share <= 1:
            parts.append(
                f"of {format_duration_ns(top.mean_ns)} that {who} take at the {top.layer} layer, "
                f"{format_share(share, 0)} are spent in the {lowest.layer} layer"
            )
    words = "; ".join(parts)
    return f"{words[:1].upper()}{words[1:]}." if words else ""
