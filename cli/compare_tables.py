"""A comparison on the screen: the answer first, then whether the work was the same, latencies, and where time goes."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from iotrace.analyze.compare.comparison import ClassComparison, Comparison, Figure, Side
from iotrace.analyze.compare.same_work import work_value_text
from iotrace.analyze.compare.words import without_interval
from iotrace.analyze.units import (
    format_count,
    format_duration_ns,
    format_duration_with_interval,
    format_rate,
    format_ratio_with_interval,
    format_share_with_interval,
)

from . import console
from .findings import IF_RELIED_ON


def print_comparisons(found: Sequence[Comparison], spoiled: AbstractSet[str] = frozenset()) -> None:
    """Print all recordings, the answer for each but the first, and the evidence.

    ``spoiled`` are the labels of those whose figures must not be relied on.
    """
    sides = _sides(found)
    console.heading("What is compared")
    console.table(
        ["", "layer", "I/Os", "rate", "length"],
        [
            [f"{side.label}: {side.title}", side.layer, format_count(sum(side.io_count.values())),
             format_rate(side.ios_per_s), format_duration_ns(side.span_ns)]
            for side in sides
        ],
    )  # fmt: skip
    for words in dict.fromkeys(words for one in found for words in one.basis):
        console.paragraph(words, style="dim")
    _answers(found, spoiled)
    for show in (_paired, _work):
        for one in found:
            show(one)
    metrics = dict.fromkeys((one.headline_metric for one in found), None)
    others = dict.fromkeys(entry.b_metric for one in found for entry in one.classes)
    for metric in metrics | others:
        if len(found) == 1:
            _classes(found[0], metric)
        else:
            _classes_of_several(found, metric)
        if metric in metrics:
            console.paragraph(
                next(one.headline_reason for one in found if one.headline_metric == metric), style="dim"
            )
    _no_intervals(found)
    for side in sides:
        _waterfall(side)
    for one in found:
        if one.unmatched:
            console.paragraph(
                f"not compared, since only one of a (A) and b ({one.b.label}) has them: "
                + "; ".join(one.unmatched),
                style="dim",
            )


def _answers(found: Sequence[Comparison], spoiled: AbstractSet[str]) -> None:
    for heading, chosen in (
        ("The answer", [one for one in found if one.b.label not in spoiled]),
        (
            IF_RELIED_ON,
            [one for one in found if one.b.label in spoiled],
        ),
    ):
        if chosen:
            console.heading(heading)
            for one in chosen:
                _verdicts(one)


def print_headline(found: Comparison) -> None:
    """Print whole operations only, by the headline metric, and what keeps the two from being alike."""
    for warning in found.warnings:
        console.paragraph(f"warning: {warning}", style="yellow")
    _classes(found, found.headline_metric, whole_only=True)


def _sides(found: Sequence[Comparison]) -> list[Side]:
    """The base over each span that it was looked at, then the others."""
    bases: dict[tuple[str, int, int], Side] = {}
    for one in found:
        bases.setdefault((one.a.layer, one.a.span_ns, sum(one.a.io_count.values())), one.a)
    return [*bases.values(), *(one.b for one in found)]


def _verdicts(found: Comparison) -> None:
    if not found.verdicts:
        console.paragraph(
            f"A and {found.b.label} have too few I/Os of one operation in common for an answer",
            style="yellow",
        )
    for verdict in found.verdicts:
        console.paragraph(verdict.sentence, style="yellow" if verdict.reservation else "")


def _paired(found: Comparison) -> None:
    """Each I/O against itself, where a recorder watched the replay."""
    for words in found.unpaired:
        console.paragraph(words, style="yellow")
    if not found.paired:
        return
    label = found.b.label
    console.heading(f"Each I/O of A against the same one of {label}, as recorded beside the replay")
    rows = [
        [
            f"{one.layer} {one.op}",
            f"{format_count(one.pair_count)} of {format_count(one.recorded_count)}",
            one.by,
            format_ratio_with_interval(one.ratio, one.ratio_interval),
            format_duration_with_interval(one.difference_ns, one.difference_interval_ns),
        ]
        for one in found.paired
    ]
    console.table(["", "paired", "by", f"typical {label} / A", "mean difference"], rows, left=1)


def _work(found: Comparison) -> None:
    label = found.b.label
    console.heading(f"Did {label} do the same work? {'Yes' if found.same_work else 'No'}")
    asked = found.is_replay_of_a
    rows = []
    for aspect in found.work:
        values = [aspect.a, *([aspect.expected] if asked else []), aspect.b]
        rows.append(
            [
                aspect.name,
                *(work_value_text(aspect, value) for value in values),
                "differs" if aspect.differs else "",
            ]
        )
    console.table(["", "A", *(["asked for"] if asked else []), label, ""], rows)
    for warning in found.warnings:
        console.paragraph(f"warning: {warning}", style="yellow")


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
            for position, figure in enumerate(_given(entry))
        ]
    if not rows:
        return
    label = found.b.label
    console.heading(
        f"Latency: A's {_a_metric([found], metric)} against {label}'s {metric}, 95 % interval of the ratio"
    )
    console.table(["", "", "A", label, f"{label} / A"], rows, left=2)


def _classes_of_several(found: Sequence[Comparison], metric: str) -> None:
    """One line per recording, so that any number of them lines up."""
    grouped: dict[tuple[str, str], list[tuple[str, Figure]]] = {}
    for one in found:
        for entry in one.classes:
            if entry.b_metric == metric:
                for figure in _given(entry):
                    grouped.setdefault((_class_name(entry), figure.quantity), []).append(
                        (one.b.label, figure)
                    )
    rows, last = [], ""
    for (name, quantity), figures in grouped.items():
        first = figures[0][1]
        rows.append([name if name != last else "", quantity, "A", format_duration_ns(first.a_ns), ""])
        last = name
        rows += [
            ["", "", label, format_duration_ns(figure.b_ns),
             format_ratio_with_interval(figure.ratio, figure.ratio_interval)]
            for label, figure in figures
        ]  # fmt: skip
    if rows:
        console.heading(
            f"Latency: A's {_a_metric(found, metric)} against the others' {metric}, 95 % interval of the ratio"
        )
        console.table(["", "", "", "latency", "over A's"], rows, left=3)


def _a_metric(found: Sequence[Comparison], metric: str) -> str:
    return ", ".join(sorted({e.a_metric for one in found for e in one.classes if e.b_metric == metric}))


def _given(entry: ClassComparison) -> list[Figure]:
    return [figure for figure in entry.figures if figure.ratio is not None]


def _class_name(entry: ClassComparison) -> str:
    parts = [entry.role or "", entry.op, entry.size_class if entry.size_class_bytes is not None else ""]
    return " ".join(part for part in parts if part)


def _no_intervals(found: Sequence[Comparison]) -> None:
    words = without_interval([entry for one in found for entry in one.classes])
    if words:
        console.paragraph(words, style="dim")


def _waterfall(side: Side) -> None:
    if len({step.layer for step in side.waterfall}) < 2:
        return
    rows = [
        [
            step.layer,
            step.op,
            format_duration_ns(step.mean_ns),
            format_duration_with_interval(step.residual_ns, step.residual_interval_ns)
            if step.below
            else format_duration_with_interval(step.mean_ns, step.mean_interval_ns),
            format_share_with_interval(step.share, step.share_interval),
        ]
        for step in side.waterfall
    ]
    console.heading(f"Where the time goes in {side.label}: what each layer adds to the one below it")
    console.table(["layer", "op", "mean", "adds", "share"], rows, left=2)
    for step in side.waterfall:
        if step.problem:
            console.paragraph(f"{step.layer} {step.op}: {step.problem}", style="yellow")
