"""Rules about a comparison: whether the difference is one of the storage."""

from typing import Final

from .subject import COMPARISONS, Finding, Rule, Subject

UNLIKE_MIX: Final = 0.20
"""From here on two mixes of operations and sizes are different workloads."""
UNLIKE_RATE: Final = 0.50
"""With less than half the load, or over twice of it, latencies are of another point of the storage's curve."""


def unlike_work(subject: Subject) -> Finding | None:
    """Latencies of different work differ because of the work."""
    comparison = subject.comparison
    if comparison is None or comparison.same_work:
        return None
    rate = next((one for one in comparison.work if one.name == "rate" and one.differs), None)
    other_load = rate is not None and min(rate.b or 0, rate.expected or 0) < UNLIKE_RATE * max(
        rate.b or 0, rate.expected or 0
    )
    label = comparison.b.label
    said = comparison.warnings[:1]
    if more := len(comparison.warnings) - len(said):
        said = [*said, f"{more} more {'aspect differs' if more == 1 else 'aspects differ'}"]
    return Finding(
        "unlike-work",
        "invalid" if comparison.mix_distance > UNLIKE_MIX or other_load else "warning",
        f"A and {label} did not do the same work",
        "; ".join(said),
        "compare a recording with a replay of it, over the same window",
    )


def unlike_layers(subject: Subject) -> Finding | None:
    """Two layers' clocks start and stop at different places."""
    comparison = subject.comparison
    if comparison is None or comparison.a.layer == comparison.b.layer:
        return None
    return Finding(
        "unlike-layers",
        "warning",
        f"A and {comparison.b.label} were measured at different layers",
        f"A at the {comparison.a.layer} layer, {comparison.b.label} at the {comparison.b.layer} layer: what lies "
        "between the two clocks is part of every difference",
        "record both at one layer; a replay measures the block layer",
    )


def same_recording(subject: Subject) -> Finding | None:
    """A recording is like itself."""
    comparison = subject.comparison
    if comparison is None or comparison.a.uuid != comparison.b.uuid:
        return None
    return Finding(
        "same-recording",
        "warning",
        f"A and {comparison.b.label} are one and the same recording",
        "there is no difference to find; the intervals only show how far two such recordings might lie apart",
        "name two different recordings",
    )


def clock_error(subject: Subject) -> Finding | None:
    """An I/O cannot spend less time in a layer than in the one below."""
    if subject.comparison is None:
        return None
    problems = [
        f"{side.label}: {step.problem}"
        for side in (subject.comparison.a, subject.comparison.b)
        for step in side.waterfall
        if step.problem and step.problem.startswith("clock error")
    ]
    if not problems:
        return None
    return Finding(
        "clock-error",
        "invalid",
        "clocks of different layers disagree",
        "; ".join(problems),
        "trust each layer alone, not the difference; record all layers with one tool",
    )


RULES: Final = (
    Rule(
        "unlike-work",
        "mix, rate, sizes, footprint, sequentiality, gaps CV or length differ (by 5 % or 5 points; "
        "footprint 10 %, gaps CV 25 %, length 50 %), or a replay did not do what was planned",
        "latencies differ because of the work; invalid if the mix differs by 20 % or the rate by a factor "
        "of two",
        COMPARISONS,
        unlike_work,
    ),
    Rule(
        "unlike-layers",
        "the recordings compared were measured at different layers",
        "every difference includes the time between the two clocks",
        COMPARISONS,
        unlike_layers,
    ),
    Rule(
        "same-recording",
        "a recording is compared with itself",
        "there is no difference to find",
        COMPARISONS,
        same_recording,
    ),
    Rule(
        "clock-error",
        "a layer took less time than the one below it, over the same number of I/Os",
        "the clocks of the layers disagree: no difference between them can be used",
        COMPARISONS,
        clock_error,
    ),
)
