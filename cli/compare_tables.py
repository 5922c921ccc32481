"""A comparison on the screen: the headline latency first, then where the time goes."""

from iotrace.analyze.comparison import ClassComparison, Comparison, Side
from iotrace.analyze.units import (
    format_count,
    format_duration_ns,
    format_rate,
    format_ratio_with_interval,
)

from . import console


def print_comparison(found: Comparison) -> None:
    """Print the two sides, the classes by the headline metric, and the layers."""
    console.heading("What is compared")
    console.table(
        ["", "layer", "I/Os", "rate", "length"],
        [
            [f"{name}: {side.title}", side.layer, format_count(sum(side.io_count.values())),
             format_rate(side.ios_per_s), format_duration_ns(side.span_ns)]
            for name, side in (("A", found.a), ("B", found.b))
        ],
    )  # fmt: skip
    for warning in found.warnings:
        console.paragraph(f"warning: {warning}", style="yellow")
    _classes(found, found.headline_metric)
    console.paragraph(found.headline_reason, style="dim")
    others = {entry.b_metric for entry in found.classes} - {found.headline_metric}
    for metric in sorted(others):
        _classes(found, metric)
    for name, side in (("A", found.a), ("B", found.b)):
        _waterfall(name, side)
    if found.unmatched:
        console.paragraph(
            "not compared, since only one side has them: " + "; ".join(found.unmatched), style="dim"
        )


def print_headline(found: Comparison) -> None:
    """Print whole operations only, by the headline metric, and what keeps the two from being alike."""
    for warning in found.warnings:
        console.paragraph(f"warning: {warning}", style="yellow")
    _classes(found, found.headline_metric, whole_only=True)


def _classes(found: Comparison, metric: str, *, whole_only: bool = False) -> None:
    rows = []
    for entry in found.classes:
        if entry.b_metric != metric or (whole_only and entry.role is not None):
            continue
        rows += [
            [
                _class_name(entry) if not position else "",
                figure.quantity,
                format_duration_ns(figure.a_ns),
                format_duration_ns(figure.b_ns),
                format_ratio_with_interval(figure.ratio, figure.ratio_interval),
            ]
            for position, figure in enumerate(entry.figures)
            if figure.ratio is not None
        ]
    if not rows:
        return
    metrics = {(entry.a_metric, entry.b_metric) for entry in found.classes if entry.b_metric == metric}
    a_metric = ", ".join(sorted({pair[0] for pair in metrics}))
    console.heading(f"Latency: A's {a_metric} against B's {metric}, 95 % interval of the ratio")
    console.table(["", "", "A", "B", "B / A"], rows, left=2)


def _class_name(entry: ClassComparison) -> str:
    parts = [entry.role or "", entry.op, entry.size_class if entry.size_class_bytes is not None else ""]
    return " ".join(part for part in parts if part)


def _waterfall(name: str, side: Side) -> None:
    if len({step.layer for step in side.waterfall}) < 2:
        return
    rows = [
        [
            step.layer,
            step.op,
            format_duration_ns(step.mean_ns),
            format_duration_ns(step.residual_ns),
            "" if step.below is None else f"spent above {step.below}",
        ]
        for step in side.waterfall
    ]
    console.heading(f"Where the time goes in {name}")
    console.table(["layer", "op", "mean", "of that", ""], rows, left=2)
    for step in side.waterfall:
        if step.problem:
            console.paragraph(f"{step.layer} {step.op}: {step.problem}", style="yellow")
