"""Where the time goes: mean latencies as a waterfall, layer by layer from the bottom, residuals with their sign."""

from collections.abc import Mapping, Sequence

from iotrace.analyze.compare.comparison import WaterfallStep
from iotrace.analyze.units import (
    DASH,
    format_count,
    format_duration_ns,
    format_duration_with_interval,
    format_share_with_interval,
)

from .axes import categories, linear
from .charts import Box, Boxes, Chart, Key, Note, Panel, Readout, Table

_ROW_PX = 30


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
    names = [_row_name(name, step) for name, step in rows]
    boxes: dict[str, list[Box]] = {"third": [], "added": [], "other": []}
    notes, readouts = [], []
    highest = max(step.mean_ns for _, step in rows) / 1e6
    for number, (_, step) in enumerate(rows):
        place = len(rows) - 1 - number
        residual = step.mean_ns if step.residual_ns is None else step.residual_ns
        ends = sorted((step.mean_ns / 1e6, (step.mean_ns - residual) / 1e6))
        style = "third" if step.residual_ns is None else "other" if step.problem else "added"
        boxes[style].append((ends[0], ends[1], place - 0.32, place + 0.32))
        notes.append(Note((ends[1], place), _value(step)))
        readouts.append(
            Readout(
                place - 0.5,
                place + 0.5,
                f"{names[number]}: mean {format_duration_ns(step.mean_ns)}",
                is_across=True,
            )
        )
    problems = [step.problem for _, step in rows if step.problem]
    said = f" Not to be believed where grey: {'; '.join(dict.fromkeys(problems))}." if problems else ""
    return Chart(
        "layers",
        "Where the time goes, by layer",
        f"Mean service time, from the lowest layer recorded up: each layer adds the time spent between its clock and "
        f"that of the layer below. {_largest(rows)}{said}",
        linear("mean service time (ms)", highest * 1.35),
        (
            Panel(
                categories("", list(reversed(names))),
                (*(Boxes(style, tuple(some)) for style, some in boxes.items() if some), *notes),
                _ROW_PX * len(rows) + 8,
            ),
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
        (
            Key("third", "the lowest layer's own time", "box"),
            Key("added", "added by the layer named", "box"),
            *((Key("other", "not to be believed", "box"),) if problems else ()),
        ),
        tuple(readouts),
    )


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
                f"of {format_duration_ns(top.mean_ns)} that {who} take at the {top.layer} layer, {share:.0%} are spent "
                f"in the {lowest.layer} layer"
            )
    words = "; ".join(parts)
    return f"{words[:1].upper()}{words[1:]}." if words else ""
