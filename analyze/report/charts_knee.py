"""Curves of sweeps: latency and carried load over offered load, and IOPS by I/Os outstanding of closed loops."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.knee.step import Step
from iotrace.analyze.units import format_count, format_duration_ns, format_figure, interval_text
from iotrace.schemas import counted

from .parts import Chart, Table
from .plot import SERIES, Mark, Row, Trace, figure, line, linear, logarithmic, number, numbers, points, words

_CURVES: Final = (("p50", "median", "read"), ("p95", "p95", "fourth"), ("p99", "p99", "write"))
_SERIES_MAX = len(SERIES)
_CURVE_POINTS = 40


def knee_charts(knee: Knee, need: float | None = None) -> list[Chart]:
    """Charts of one sweep; ``need`` is the load that is to be carried, relative to the recorded one."""
    judged = [step for step in knee.steps if step.is_judged]
    charts = []
    # A model that states no latency answers at once until its limit: on a logarithmic axis such a step has no place.
    if any(step.response_ns[name] for step in judged for name, _, _ in _CURVES):
        charts.append(_latency(knee, judged, need))
    if all(step.outstanding is not None for step in knee.steps):
        charts.append(outstanding_chart(knee))
    else:
        charts.append(_carried(knee, is_alone=not charts))
    return charts


def steps_table(knee: Knee) -> Table:
    """Every step in figures, those that are not judged included and named."""
    rows = tuple(
        (
            step.load_text,
            _state(step),
            format_count(step.offered_iops),
            format_count(step.achieved_iops),
            format_figure(step.offered_mb_per_s),
            format_figure(step.achieved_mb_per_s),
            format_figure(step.in_flight_mean),
            # No storage answers in no time: a model that states none does.
            *(format_duration_ns(step.response_ns[name] or None) for name in ("p50", "p95", "p99", "p99_9")),
            *(format_duration_ns(step.service_ns[name] or None) for name in ("p50", "p99")),
            f"{step.littles_law_ratio:.3f}",
            format_count(step.delayed_count),
            format_count(step.io_count),
        )
        for step in knee.steps
    )
    return Table(
        "Steps of the sweep, by offered load",
        (
            "load",
            "judged as",
            "offered IOPS",
            "carried IOPS",
            "offered MB/s",
            "carried MB/s",
            "mean in flight",
            "response p50",
            "p95",
            "p99",
            "p99.9",
            "service p50",
            "p99",
            "Little's law",
            "held back",
            "I/Os",
        ),
        rows,
        2,
    )


def _state(step: Step) -> str:
    if not step.is_judged:
        return f"not judged: {'; '.join(step.left_out_because)}"
    if step.lives_on_credits:
        return "kept up on saved credits"
    if step.is_saturated:
        return "saturated" if step.is_steady else "saturated, still getting slower"
    return "kept up"


def _latency(knee: Knee, judged: list[Step], need: float | None) -> Chart:
    traces: list[Trace] = []
    for name, said, style in _CURVES:
        steps = [step for step in judged if step.response_ns[name] is not None]
        if steps:
            traces.append(
                points(
                    style,
                    said,
                    symbols=["x" if step.is_saturated else "circle" for step in steps],
                    x=[number(step.offered_iops) for step in steps],
                    y=numbers([(step.response_ns[name] or 0) / 1e6 or None for step in steps]),
                    customdata=[_named(step) for step in steps],
                    hovertemplate="%{y:.4~g} ms<br>%{customdata}",
                )
            )
    others = [step for step in knee.steps if not step.is_judged and step.response_ns["p50"] is not None]
    if others:
        medians_ms = [(step.response_ns["p50"] or 0) / 1e6 for step in others]
        traces.append(_not_judged(others, medians_ms, "median, not judged"))
    marks = [_at_load(knee, 1.0, "1x, as recorded")] if knee.iops_at_1x else []
    if knee.iops_at_1x and need is not None and need != 1.0:
        marks.append(_at_load(knee, need, f"{need:g}x, as needed"))
    marks += knee_marks(knee)
    limits: dict[float, list[str]] = {}
    for one in knee.objectives:
        limits.setdefault(one.objective.limit_ns / 1e6, []).append(str(one.objective))
    across = [
        Mark("other", limit_ms, limit_ms, ", ".join(names), is_across=True)
        for limit_ms, names in sorted(limits.items())
    ]
    is_closed = all(step.outstanding is not None for step in judged)
    saturated = (
        " Crosses mark saturated steps, whose latency grows with the length of the step."
        if any(step.is_saturated for step in judged) and not is_closed
        else ""
    )
    left_out = " Open circles are steps that were not judged; the table says why." if others else ""
    if any(step.response_ns[name] == 0 for step in judged for name, _, _ in _CURVES):
        left_out += " There is no point where no limit of the model held so many I/Os up."
    # A closed loop offers no load of its own: it carries what the storage completes.
    load = "load carried" if is_closed else "load offered"
    return Chart(
        "knee",
        "Latency over load",
        f"Response time of all reads and writes over the {load}: a point for each of {counted(len(judged), 'step')} "
        f"up to {format_count(max(step.offered_iops for step in judged))} IOPS.{saturated}{left_out}",
        figure(
            [Row("response time (ms)", 340, traces, is_log=True, marks=across)],
            linear(f"{load} (IOPS)"),
            marks,
            hover="closest",
        ),
        steps_table(knee),
    )


def knee_marks(knee: Knee) -> list[Mark]:
    """Where latency starts to climb and where the knee lies, each with its interval."""
    found = []
    if knee.onset_iops is not None:
        onset = knee.onset_iops
        found.append(Mark("onset", onset.low, onset.high, "climb starts", onset.value))
    if knee.iops is not None:
        found.append(Mark("knee", knee.iops.low, knee.iops.high, "knee, 95 % interval", knee.iops.value))
    return found


def _at_load(knee: Knee, scale: float, label: str) -> Mark:
    iops = (knee.iops_at_1x or 0.0) * scale
    return Mark("other", iops, iops, label)


def _named(step: Step) -> str:
    """A step as it is named beside its point."""
    why = f": {_state(step)}" if not step.is_judged or step.is_saturated else ""
    return words(
        f"{step.load_text}, {step.offered_iops:,.0f} IOPS offered, {step.achieved_iops:,.0f} carried{why}"
    )


def _not_judged(steps: list[Step], values: list[float], name: str) -> Trace:
    return points(
        "other",
        name,
        joined=False,
        symbols="circle-open",
        x=[number(step.offered_iops) for step in steps],
        y=numbers(values),
        customdata=[_named(step) for step in steps],
        hovertemplate="%{y:,.4~g}<br>%{customdata}",
    )


def _carried(knee: Knee, *, is_alone: bool) -> Chart:
    judged = [step for step in knee.steps if step.is_judged]
    others = [step for step in knee.steps if not step.is_judged]
    top = max(step.offered_iops for step in knee.steps)
    everything = line(
        "other", "all that is offered", x=[0, number(top)], y=[0, number(top)], hoverinfo="skip"
    )
    traces: list[Trace] = [everything]
    if judged:
        traces.append(
            points(
                "read",
                "carried",
                symbols=["x" if step.is_saturated else "circle" for step in judged],
                x=[number(step.offered_iops) for step in judged],
                y=numbers([step.achieved_iops for step in judged]),
                customdata=[_named(step) for step in judged],
                hovertemplate="%{y:,.0f} IOPS<br>%{customdata}",
            )
        )
    if others:
        traces.append(_not_judged(others, [step.achieved_iops for step in others], "not judged"))
    said = "The storage carried all that was offered at every load judged." if judged else ""
    if knee.sustained_iops is not None:
        most = knee.sustained_iops
        value, low, high = (f"{one:,.0f}" for one in (most.value, most.low, most.high))
        said = f"It carried at most {value} IOPS{interval_text(value, low, high)}."
    rows = tuple(
        (step.load_text, format_count(step.offered_iops), format_count(step.achieved_iops))
        for step in knee.steps
    )
    table = Table("Load offered and carried", ("step", "offered IOPS", "carried IOPS"), rows)
    return Chart(
        "carried",
        "Load carried over load offered",
        f"Where the line leaves the diagonal, the storage falls behind. {said}",
        figure(
            [Row("load carried (IOPS)", 260, traces)],
            linear("load offered (IOPS)"),
            knee_marks(knee),
            hover="closest",
        ),
        steps_table(knee) if is_alone else table,
    )


def outstanding_chart(knee: Knee) -> Chart:
    """Throughput over the number in flight, with the interval of the saturation point."""
    traces: list[Trace] = []
    for label, style, judged in (("carried", "read", True), ("not judged", "write", False)):
        steps = [step for step in knee.steps if step.is_judged is judged]
        if steps:
            traces.append(
                points(
                    style,
                    label,
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
