"""IOPS by I/Os outstanding: of one series of closed loops, and of several beside one another."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.knee.step import Step
from iotrace.analyze.units import format_count, format_duration_ns, format_figure

from .axes import Axis, linear
from .charts import SERIES, STYLES, Band, Chart, Key, Line, Mark, Panel, Readout, Table

_SERIES_MAX = len(SERIES)
_CURVE_POINTS = 40


def outstanding_chart(knee: Knee) -> Chart:
    """Throughput over the number in flight, with the interval of the saturation point."""
    marks: list[Mark] = []
    keys: list[Key] = []
    highest = max(step.achieved_iops for step in knee.steps)
    for words, style, judged in (("carried", "read", True), ("not judged", "write", False)):
        points = tuple(
            (float(step.outstanding or 1), step.achieved_iops)
            for step in knee.steps
            if step.is_judged is judged
        )
        if points:
            marks.append(Line(style, points, "circle" if judged else "ring", is_joined=judged))
            keys.append(Key(style, words, "points"))
    if knee.outstanding is not None:
        where = knee.outstanding
        marks.append(Band("knee", where.low, where.high, "saturates", where.value))
        keys.append(Key("knee", "saturation, 95 % interval", "box"))
    if knee.usl is not None and knee.usl.fits:
        places = sorted({float(step.outstanding or 1) for step in knee.steps})
        curve = np.geomspace(places[0], places[-1], _CURVE_POINTS)
        law = knee.usl.throughput(curve)
        highest = max(highest, float(law.max()))
        marks.append(Line("other", tuple(zip(curve.tolist(), law.tolist(), strict=True))))
        keys.append(Key("other", "Universal Scalability Law"))
    return Chart(
        "carried",
        "IOPS by I/Os outstanding",
        f"Where the line turns flat, more outstanding I/Os only wait longer. {knee.sentence}",
        _outstanding_axis(knee.steps),
        (Panel(linear("IOPS", highest), tuple(marks), 300),),
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
        tuple(keys),
        _readouts(
            [
                (
                    float(step.outstanding or 1),
                    (
                        f"{step.outstanding} outstanding: {step.achieved_iops:,.0f} IOPS, "
                        f"mean {format_duration_ns(step.response_ns_mean)}"
                    ),
                )
                for step in knee.steps
            ]
        ),
    )


def series_chart(series: Sequence[tuple[str, Knee]]) -> Chart | None:
    """Several series of closed loops, IOPS and mean latency over the number in flight; None for fewer than two."""
    shown = series[:_SERIES_MAX]
    if len(shown) < 2:
        return None
    steps = [step for _, knee in shown for step in knee.steps]
    iops = [_line(style, knee, "iops") for style, (_, knee) in zip(SERIES, shown, strict=False)]
    latency = [_line(style, knee, "ms") for style, (_, knee) in zip(SERIES, shown, strict=False)]
    left_out = f" {len(series) - len(shown)} more are in the table." if len(series) > len(shown) else ""
    best, most = max(
        ((name, max(step.achieved_iops for step in knee.steps)) for name, knee in shown),
        key=lambda pair: pair[1],
    )
    return Chart(
        "series",
        "The series beside one another",
        f"IOPS, and mean latency below, by I/Os outstanding. The most IOPS, {most:,.0f}, came from {best}.{left_out}",
        _outstanding_axis(steps),
        (
            Panel(linear("IOPS", max(step.achieved_iops for step in steps)), tuple(iops), 200),
            Panel(
                linear("mean (ms)", max(step.response_ns_mean for step in steps) / 1e6), tuple(latency), 140
            ),
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
        tuple(Key(style, name, "points") for style, (name, _) in zip(SERIES, shown, strict=False)),
    )


def _line(style: str, knee: Knee, what: str) -> Line:
    points = tuple(
        (float(step.outstanding or 1), step.achieved_iops if what == "iops" else step.response_ns_mean / 1e6)
        for step in knee.steps
        if step.is_judged
    )
    return Line(style, points, STYLES[style].symbol)


def _outstanding_axis(steps: Sequence[Step]) -> Axis:
    places = sorted({float(step.outstanding or 1) for step in steps})
    ticks = tuple((place, f"{place:,.0f}") for place in places)
    return Axis("I/Os outstanding", places[0] / 1.1, places[-1] * 1.1, ticks, is_log=True)


def _readouts(said: list[tuple[float, str]]) -> tuple[Readout, ...]:
    middles = [math.sqrt(before[0] * after[0]) for before, after in pairwise(said)]
    edges = [said[0][0] / 1.1, *middles, said[-1][0] * 1.1]
    return tuple(
        Readout(low, high, words) for (_, words), low, high in zip(said, edges, edges[1:], strict=False)
    )
