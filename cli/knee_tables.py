"""A knee on the screen: the sentence first, then the steps it stands on."""

import math
from typing import Final

from iotrace.analyze.knee.agreement import place, usl_text
from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.knee.step import Step
from iotrace.analyze.units import DASH, format_duration_ns

from . import console
from .findings import IF_RELIED_ON

VERDICT_STYLES: Final = {"yes": "bold green", "no": "bold red", "cannot_tell": "bold yellow"}


def print_knee(found: Knee, *, is_spoiled: bool = False) -> None:
    """Print the verdict, the objectives, the steps and what the other estimators say.

    ``is_spoiled``: a rule forbids to use the figures, which was said before (`print_disqualification`).
    """
    # That nothing can be said is said whatever the figures are worth.
    console.heading(IF_RELIED_ON if is_spoiled and found.state != "not_judged" else "Knee")
    causes = [cause.sentence for cause in found.causes]
    spare = f"{found.headroom}." if found.headroom else ""
    for sentence in (found.sentence, *causes, spare, *(one.sentence for one in found.objectives)):
        if sentence:
            console.paragraph(sentence)
    console.heading("Steps")
    if found.per_minute is None:
        print_steps(found.steps)
    else:
        print_transactions(found.steps)
    if found.agreement:
        console.paragraph(found.agreement)
    if found.votes:
        units = (_in_flight(found.load_word), found.per_minute_word or "IOPS")
        said = [f"{vote.method} {place(vote, *units)}" for vote in found.votes]
        console.paragraph("other estimators: " + "; ".join(said), style="dim")
    if found.usl is not None:
        console.paragraph(usl_text(found.usl), style="dim")
    for note in found.notes:
        console.paragraph(f"note: {note}")


def print_steps(steps: list[Step]) -> None:
    """One line a step, by rising load. Response is completed - intended and cannot hide queueing.

    Where no step has a median, as with tools that print means, the column is the mean.
    """
    means_only = all(step.response_ns["p50"] is None for step in steps)
    rows = [
        [
            _load(step),
            f"{step.offered_iops:,.0f}",
            f"{step.achieved_iops:,.0f}",
            f"{step.achieved_mb_per_s:,.1f}",
            _figure(step.in_flight_mean, ",.1f"),
            _figure(step.littles_law_ratio, ".2f"),
            format_duration_ns((step.response_ns_mean or None) if means_only else step.response_ns["p50"]),
            format_duration_ns(step.response_ns["p99"]),
            format_duration_ns(step.service_ns["p99"]),
            _state(step),
        ]
        for step in steps
    ]
    heads = [
        "load",
        "offered\nIOPS",
        "done\nIOPS",
        "\nMB/s",
        "in\nflight",
        "Little\nlaw",
        "response\nmean" if means_only else "response\np50",
        "\np99",
        "service\np99",
        "state",
    ]
    console.table(heads, rows)


def print_transactions(steps: list[Step]) -> None:
    """One line a run, by rising number of virtual users; latencies are those of a new order."""
    rows = [
        [
            f"{step.outstanding:,}",
            _figure(step.transactions.new_orders_per_minute, ",.0f"),
            _figure(step.transactions.transactions_per_minute, ",.0f"),
            *(format_duration_ns(step.response_ns[name]) for name in ("p50", "p95", "p99")),
            _state(step),
        ]
        for step in steps
        if step.transactions is not None
    ]
    console.table(["virtual\nusers", "\nNOPM", "\nTPM", "NEWORD\np50", "\np95", "\np99", "state"], rows)


def _in_flight(load_word: str) -> str:
    return "in flight" if load_word == "outstanding" else load_word


def _figure(value: float | None, form: str) -> str:
    return DASH if value is None or math.isnan(value) else format(value, form)


def _load(step: Step) -> str:
    if step.outstanding is not None:
        return f"{step.load_word[0]}{step.outstanding}"
    return DASH if step.scale is None else f"{step.scale:g}x"


def _state(step: Step) -> str:
    if step.generator_limited:
        return "generator"
    if step.has_few_ios:
        return "too short"
    if step.set_aside:
        return "left out"
    if step.is_judged:
        return "on credits" if step.is_on_credits else "saturated" if step.is_saturated else "held"
    if step.is_warming:
        return "settling"
    return "errors" if step.littles_law_holds else "cut off"
