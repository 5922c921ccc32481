"""A knee on the screen: the sentence first, then the steps it stands on."""

from iotrace.analyze.knee_answer import Knee, Vote
from iotrace.analyze.knee_step import Step
from iotrace.analyze.knee_votes import usl_text
from iotrace.analyze.units import DASH, format_duration_ns

from . import console


def print_knee(found: Knee) -> None:
    """Print the verdict, the objectives, the steps and what the other estimators say."""
    console.heading("Knee")
    causes = [cause.sentence for cause in found.causes]
    for sentence in (found.sentence, *causes, found.headroom, *(one.sentence for one in found.objectives)):
        if sentence:
            console.paragraph(sentence)
    console.heading("Steps")
    print_steps(found.steps)
    if found.agreement:
        console.paragraph(found.agreement)
    if found.votes:
        console.paragraph("other estimators: " + "; ".join(_vote(vote) for vote in found.votes), style="dim")
    if found.usl is not None:
        console.paragraph(usl_text(found.usl), style="dim")
    for note in found.notes:
        console.paragraph(f"note: {note}")


def _vote(vote: Vote) -> str:
    if vote.outstanding is not None:
        return f"{vote.method} {vote.outstanding:,.3g} in flight"
    return f"{vote.method} {DASH if vote.iops is None else f'{vote.iops:,.0f} IOPS'}"


def print_steps(steps: list[Step]) -> None:
    """One line a step, by rising load. Response is completed - intended and cannot hide queueing."""
    rows = [
        [
            _load(step),
            f"{step.offered_iops:,.0f}",
            f"{step.achieved_iops:,.0f}",
            f"{step.achieved_mb_per_s:,.1f}",
            f"{step.in_flight_mean:,.1f}",
            f"{step.littles_law_ratio:.2f}",
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
        "Little's\nlaw",
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
    if step.is_saturated and step.is_judged:
        return "saturated"
    if step.is_warming:
        return "settling"
    if not step.littles_law_holds:
        return "cut off"
    return "held" if step.is_judged else "errors"
