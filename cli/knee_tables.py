"""A knee on the screen: the sentence first, then the steps it stands on."""

from iotrace.analyze.knee_answer import Knee
from iotrace.analyze.knee_step import Step
from iotrace.analyze.units import DASH, format_duration_ns

from . import console


def print_knee(found: Knee) -> None:
    """Print the verdict, the objectives, the steps and what the other estimators say."""
    console.heading("Knee")
    for sentence in (found.sentence, found.headroom, *(one.sentence for one in found.objectives)):
        if sentence:
            console.paragraph(sentence)
    console.heading("Steps")
    print_steps(found.steps)
    votes = [
        f"{vote.method} {DASH if vote.iops is None else f'{vote.iops:,.0f} IOPS'}" for vote in found.votes
    ]
    if votes:
        console.paragraph("other estimators: " + "; ".join(votes), style="dim")
    for note in found.notes:
        console.paragraph(f"note: {note}")


def print_steps(steps: list[Step]) -> None:
    """One line a step, by rising load. Response is completed - intended and cannot hide queueing."""
    rows = [
        [
            _load(step),
            f"{step.offered_iops:,.0f}",
            f"{step.achieved_iops:,.0f}",
            f"{step.achieved_mb_per_s:,.1f}",
            f"{step.in_flight_mean:,.1f}",
            format_duration_ns(step.response_ns["p50"]),
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
        "response\np50",
        "\np99",
        "service\np99",
        "state",
    ]
    console.table(heads, rows)


def _load(step: Step) -> str:
    if step.outstanding is not None:
        return f"o{step.outstanding}"
    return DASH if step.scale is None else f"{step.scale:g}x"


def _state(step: Step) -> str:
    if step.generator_limited:
        return "generator"
    if not step.is_judged:
        return "errors"
    if step.is_saturated:
        return "saturated"
    return "held" if step.is_steady else "unsteady"
