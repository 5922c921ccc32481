"""The knee curve: latency over load with the knee's interval and the objectives, and carried over offered load."""

import math
from typing import Any, Final

from ..knee_answer import Estimate, Knee
from ..knee_step import Step
from ..units import DASH, format_count, format_duration_ns
from .charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    Chart,
    Table,
    axis,
    figures,
    latency_axis,
    legend_below,
)
from .charts_closed import outstanding_chart

_CURVES: Final = (("p50", "median", BLUE), ("p95", "p95", ORANGE), ("p99", "p99", VERMILLION))


def knee_charts(knee: Knee) -> list[Chart]:
    """Charts of one sweep."""
    judged = [step for step in knee.steps if step.is_judged]
    charts = []
    if any(step.response_ns["p50"] is not None for step in judged):
        charts.append(_latency(knee, judged))
    if all(step.outstanding is not None for step in knee.steps):
        charts.append(outstanding_chart(knee))
    else:
        charts.append(_carried(knee, is_alone=not charts))
    return charts


def steps_table(knee: Knee) -> Table:
    """Every step in figures, those that are not judged included and named."""
    rows = tuple(
        (
            DASH if step.scale is None and step.outstanding is None else _step_name(step),
            _state(step),
            format_count(step.offered_iops),
            format_count(step.achieved_iops),
            f"{step.offered_mb_per_s:,.3g}",
            f"{step.achieved_mb_per_s:,.3g}",
            f"{step.in_flight_mean:,.3g}",
            *(format_duration_ns(step.response_ns[name]) for name in ("p50", "p95", "p99", "p99_9")),
            *(format_duration_ns(step.service_ns[name]) for name in ("p50", "p99")),
            f"{step.littles_law_ratio:.3f}",
            format_count(step.delayed_count),
            format_count(step.io_count),
        )
        for step in knee.steps
    )
    return Table(
        "Steps of the sweep, by offered load",
        (
            "scale",
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
    if step.generator_limited:
        return "not judged: generator late"
    if not step.is_judged:
        return "not judged: I/Os failed"
    if step.is_saturated:
        return "saturated" if step.is_steady else "saturated, still getting slower"
    return "kept up"


def _latency(knee: Knee, judged: list[Step]) -> Chart:
    data: list[dict[str, Any]] = []
    seen_ms: list[float] = []
    for name, words, colour in _CURVES:
        points = [step for step in judged if step.response_ns[name] is not None]
        if not points:
            continue
        latency_ms = [(step.response_ns[name] or 0) / 1e6 for step in points]
        seen_ms += latency_ms
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": words,
                "x": figures([step.offered_iops for step in points], 6),
                "y": figures(latency_ms),
                "customdata": [_step_name(step) for step in points],
                "line": {"color": colour, "width": 2},
                "marker": {
                    "color": colour,
                    "size": 8,
                    "symbol": ["x" if step.is_saturated else "circle" for step in points],
                },
                "hovertemplate": f"%{{customdata}}: {words} %{{y:.3~g}} ms at %{{x:,.0f}} IOPS offered<extra></extra>",
            }
        )
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    if knee.onset_iops is not None:
        _band(shapes, annotations, knee.onset_iops, PURPLE, "climb starts")
    if knee.iops is not None:
        _band(shapes, annotations, knee.iops, GREEN, "knee")
    limits: dict[float, list[str]] = {}
    for one in knee.objectives:
        limits.setdefault(one.objective.limit_ns / 1e6, []).append(str(one.objective).replace("<", " &lt; "))
    for position, (limit_ms, names) in enumerate(sorted(limits.items())):
        seen_ms.append(limit_ms)
        shapes.append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": limit_ms,
                "y1": limit_ms,
                "line": {"color": GREY, "width": 1.5, "dash": "dash"},
            }
        )
        # Neighbouring limits are named at opposite ends, so that their names never overlap.
        x, anchor = (0.01, "left") if position % 2 == 0 else (0.99, "right")
        annotations.append(_note(", ".join(names), "paper", x, limit_ms, anchor, "bottom", GREY))
    saturated = (
        " Crosses mark saturated steps, whose latency grows with the length of the step."
        if any(step.is_saturated and step.outstanding is None for step in judged)
        else ""
    )
    # A closed loop offers no load of its own: it carries what the storage completes.
    load = "load carried" if all(step.outstanding is not None for step in judged) else "load offered"
    return Chart(
        "knee",
        "Latency over load",
        f"Response time of all reads and writes over the {load}, one point per step. {knee.sentence}{saturated}",
        data,
        {
            "xaxis": axis(f"{load} (IOPS)", range=_range(judged)),
            "yaxis": latency_axis("response time (ms)", min(seen_ms), max(seen_ms)),
            "legend": legend_below(),
            "shapes": shapes,
            "annotations": annotations,
        },
        steps_table(knee),
        420,
    )


def _carried(knee: Knee, *, is_alone: bool) -> Chart:
    judged = [step for step in knee.steps if step.is_judged]
    others = [step for step in knee.steps if not step.is_judged]
    top = max(step.offered_iops for step in knee.steps)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "all that is offered",
            "x": [0, figures([top])[0]],
            "y": [0, figures([top])[0]],
            "line": {"color": GREY, "width": 1, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
    for steps, name, colour, symbol in (
        (judged, "carried", BLUE, "circle"),
        (others, "not judged", GREY, "circle-open"),
    ):
        if steps:
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if steps is judged else "markers",
                    "name": name,
                    "x": figures([step.offered_iops for step in steps], 6),
                    "y": figures([step.achieved_iops for step in steps], 6),
                    "customdata": [_step_name(step) for step in steps],
                    "line": {"color": colour, "width": 2},
                    "marker": {"color": colour, "size": 8, "symbol": symbol},
                    "hovertemplate": "%{customdata}: %{y:,.0f} of %{x:,.0f} IOPS<extra></extra>",
                }
            )
    said = "The storage carried all that was offered at every load judged." if judged else ""
    if knee.sustained_iops is not None:
        most = knee.sustained_iops
        said = f"It carried at most {most.value:,.0f} IOPS [{most.low:,.0f}, {most.high:,.0f}]."
    return Chart(
        "carried",
        "Load carried over load offered",
        f"Where the line leaves the diagonal, the storage falls behind. {said}",
        data,
        {
            "xaxis": axis("load offered (IOPS)", rangemode="tozero"),
            "yaxis": axis("load carried (IOPS)", rangemode="tozero"),
            "legend": legend_below(),
        },
        steps_table(knee)
        if is_alone
        else Table(
            "Load offered and carried",
            ("step", "offered IOPS", "carried IOPS"),
            tuple(
                (_step_name(step), format_count(step.offered_iops), format_count(step.achieved_iops))
                for step in knee.steps
            ),
        ),
        320,
    )


def _band(
    shapes: list[dict[str, Any]], annotations: list[dict[str, Any]], where: Estimate, colour: str, words: str
) -> None:
    shapes.append(
        {
            "type": "rect",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": figures([where.low], 6)[0],
            "x1": figures([where.high], 6)[0],
            "fillcolor": colour,
            "opacity": 0.18,
            "line": {"width": 0},
            "layer": "below",
        }
    )
    shapes.append(
        {
            "type": "line",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": figures([where.value], 6)[0],
            "x1": figures([where.value], 6)[0],
            "line": {"color": colour, "width": 1.5},
        }
    )
    low = len(annotations) % 2
    annotations.append(
        _note(words, "x", figures([where.value], 6)[0] or 0.0, 0.98 - 0.09 * low, "right", "top", colour)
        | {"yref": "paper", "xshift": -4}
    )


def _note(
    words: str, xref: str, x: float, y: float, xanchor: str, yanchor: str, colour: str
) -> dict[str, Any]:
    # Plotly wants logarithms for annotations on a log axis, though not for shapes.
    return {
        "text": words,
        "xref": xref,
        "x": x,
        "y": math.log10(y) if xref == "paper" else y,
        "xanchor": xanchor,
        "yanchor": yanchor,
        "showarrow": False,
        "font": {"color": colour, "size": 12},
    }


def _range(steps: list[Step]) -> list[float]:
    top = max(step.offered_iops for step in steps)
    return [0, float(f"{1.05 * top:.4g}")]


def _step_name(step: Step) -> str:
    if step.outstanding is not None:
        return f"{step.outstanding} outstanding"
    return f"{step.offered_iops:,.0f} IOPS" if step.scale is None else f"{step.scale:g}x"
