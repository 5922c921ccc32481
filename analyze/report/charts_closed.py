"""IOPS by I/Os outstanding, of a series of closed loops."""

from typing import Any

from ..knee_answer import Knee
from ..units import format_count, format_duration_ns
from .charts import BLUE, GREEN, GREY, Chart, Table, axis, figures, legend_below


def outstanding_chart(knee: Knee) -> Chart:
    """Throughput over the number in flight, with the interval of the saturation point."""
    data: list[dict[str, Any]] = []
    for name, colour, symbol, judged in (
        ("carried", BLUE, "circle", True),
        ("not judged", GREY, "circle-open", False),
    ):
        steps = [step for step in knee.steps if step.is_judged is judged]
        if steps:
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if judged else "markers",
                    "name": name,
                    "x": [step.outstanding for step in steps],
                    "y": figures([step.achieved_iops for step in steps], 6),
                    "line": {"color": colour, "width": 2},
                    "marker": {"color": colour, "size": 8, "symbol": symbol},
                    "hovertemplate": "%{x} outstanding: %{y:,.0f} IOPS<extra></extra>",
                }
            )
    shapes = []
    if knee.outstanding is not None:
        shapes.append(
            {
                "type": "rect",
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "x0": knee.outstanding.low,
                "x1": knee.outstanding.high,
                "fillcolor": GREEN,
                "opacity": 0.2,
                "line": {"color": GREEN, "width": 1},
            }
        )
    return Chart(
        "carried",
        "IOPS by I/Os outstanding",
        f"Where the line turns flat, more outstanding I/Os only wait longer. {knee.sentence}",
        data,
        {
            "xaxis": axis("I/Os outstanding", type="log", tickvals=[step.outstanding for step in knee.steps]),
            "yaxis": axis("IOPS", rangemode="tozero"),
            "legend": legend_below(),
            "shapes": shapes,
        },
        Table(
            "IOPS and latency by I/Os outstanding",
            ("outstanding", "IOPS", "MB/s", "mean latency", "p99"),
            tuple(
                (
                    format_count(step.outstanding),
                    format_count(step.achieved_iops),
                    f"{step.achieved_mb_per_s:,.3g}",
                    format_duration_ns(step.response_ns_mean),
                    format_duration_ns(step.service_ns["p99"]),
                )
                for step in knee.steps
            ),
        ),
        320,
    )
