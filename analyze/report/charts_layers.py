"""Where the time goes: mean latencies as a waterfall, layer by layer from the bottom, residuals with their sign."""

from collections.abc import Mapping, Sequence

from iotrace.analyze.compare.comparison import WaterfallStep
from iotrace.analyze.units import (
    DASH,
    format_count,
    format_duration_ns,
    format_duration_with_interval,
    format_share,
    format_share_with_interval,
)

from .charts import Chart, Table
from .plot import LIGHT, Row, Trace, figure, linear, number, words

_ROW_PX = 34
_STYLES = (
    ("third", "the lowest layer's own time", ""),
    ("fourth", "added by the layer named", "/"),
    ("other", "not to be believed", "x"),
)
"""Colour, meaning and hatching of the bars."""


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
            linear("mean service time (ms)", range=[0, number(highest * 1.35)]),
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
        "text": [words(_value(step)) for *_, step in rows],
        "textposition": "outside",
        "cliponaxis": False,
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
