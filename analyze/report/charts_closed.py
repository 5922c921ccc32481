"""IOPS by I/Os outstanding: of one series of closed loops, and of several beside one another."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.knee.step import Step
from iotrace.analyze.units import format_count, format_duration_ns, format_figure

from .charts import Chart, Table
from .plot import SERIES, Mark, Row, Trace, figure, line, logarithmic, numbers, points

_SERIES_MAX = len(SERIES)
_CURVE_POINTS = 40


def outstanding_chart(knee: Knee) -> Chart:
    """Throughput over the number in flight, with the interval of the saturation point."""
    traces: list[Trace] = []
    for words, style, judged in (("carried", "read", True), ("not judged", "write", False)):
        steps = [step for step in knee.steps if step.is_judged is judged]
        if steps:
            traces.append(
                points(
                    style,
                    words,
                    joined=judged,
                    symbols="circle" if judged else "circle-open",
                    x=[step.outstanding or 1 for step in steps],
                    y=numbers([step.achieved_iops for step in steps]),
                    customdata=[format_duration_ns(step.response_ns_mean) for step in steps],
                    hovertemplate="%{x:,} outstanding: %{y:,.0f} IOPS, mean %{customdata}",
                )
            )
    marks = []
    if knee.outstanding is not None:
        where = knee.outstanding
        marks.append(Mark("knee", where.low, where.high, "saturates, 95 % interval", where.value))
    if knee.usl is not None and knee.usl.fits:
        places = sorted({float(step.outstanding or 1) for step in knee.steps})
        curve = np.geomspace(places[0], places[-1], _CURVE_POINTS)
        law = knee.usl.throughput(curve)
        traces.append(
            line(
                "other",
                "Universal Scalability Law",
                x=numbers(curve.tolist()),
                y=numbers(law.tolist()),
                hoverinfo="skip",
            )
        )
    return Chart(
        "carried",
        "IOPS by I/Os outstanding",
        f"Where the line turns flat, more outstanding I/Os only wait longer. {knee.sentence}",
        figure([Row("IOPS", 300, traces)], _outstanding_axis(knee.steps), marks, hover="closest"),
        Table(
            "IOPS and latency by I/Os outstanding",
            ("outstanding", "IOPS", "MB/s", "mean latency", "p99"),
            tuple(
                (
                    format_count(step.outstanding),
                    format_count(step.achieved_iops),
                    format_figure(step.achieved_mb_per_s),
                    format_duration_ns(step.response_ns_mean),
                    format_duration_ns(step.service_ns["p99"]),
                )
                for step in knee.steps
            ),
        ),
    )


def series_chart(series: Sequence[tuple[str, Knee]]) -> Chart | None:
    """Several series of closed loops, IOPS and mean latency over the number in flight; None for fewer than two."""
    shown = series[:_SERIES_MAX]
    if len(shown) < 2:
        return None
    steps = [step for _, knee in shown for step in knee.steps]
    iops = [_line(style, name, knee, "iops") for style, (name, knee) in zip(SERIES, shown, strict=False)]
    latency = [_line(style, name, knee, "ms") for style, (name, knee) in zip(SERIES, shown, strict=False)]
    left_out = f" {len(series) - len(shown)} more are in the table." if len(series) > len(shown) else ""
    best, most = max(
        ((name, max(step.achieved_iops for step in knee.steps)) for name, knee in shown),
        key=lambda pair: pair[1],
    )
    return Chart(
        "series",
        "The series beside one another",
        f"IOPS, and mean latency below, by I/Os outstanding. The most IOPS, {most:,.0f}, came from {best}.{left_out}",
        figure(
            [Row("IOPS", 200, iops), Row("mean latency (ms)", 140, latency)],
            _outstanding_axis(steps),
            hover="closest",
        ),
        Table(
            "Where each series saturates",
            ("series", "saturates at", "IOPS there", "most IOPS", "most MB/s"),
            tuple(
                (
                    name,
                    "not within the range"
                    if knee.outstanding is None
                    else f"{knee.outstanding.value:,.0f} outstanding",
                    format_count(None if knee.iops is None else knee.iops.value),
                    format_count(max(step.achieved_iops for step in knee.steps)),
                    format_figure(max(step.achieved_mb_per_s for step in knee.steps)),
                )
                for name, knee in series
            ),
            2,
        ),
    )


def _line(style: str, name: str, knee: Knee, what: str) -> Trace:
    judged = [step for step in knee.steps if step.is_judged]
    is_iops = what == "iops"
    return points(
        style,
        name,
        x=[step.outstanding or 1 for step in judged],
        y=numbers([step.achieved_iops if is_iops else step.response_ns_mean / 1e6 for step in judged]),
        legendgroup=style,
        showlegend=is_iops,
        hovertemplate="%{x:,} outstanding: %{y:,.4~g} " + ("IOPS" if is_iops else "ms"),
    )


def _outstanding_axis(steps: Sequence[Step]) -> dict[str, Any]:
    places = sorted({float(step.outstanding or 1) for step in steps})
    return logarithmic(
        "I/Os outstanding",
        tickmode="array",
        tickvals=places,
        ticktext=[f"{place:,.0f}" for place in places],
        range=[math.log10(places[0] / 1.1), math.log10(places[-1] * 1.1)],
    )
