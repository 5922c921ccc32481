"""Rules about any recording, and about a comparison of two."""

from typing import Final

from .histogram import is_printable
from .units import format_count, format_duration_ns, format_share
from .validity_subject import Finding, Rule, Subject

SHORT_NS: Final = 30_000_000_000
"""Shorter runs miss cache flushes, checkpoints and garbage collection, which come by the half minute and more."""

UNLIKE_MIX: Final = 0.20
"""From here on two mixes of operations and sizes are different workloads."""


def data_lost(subject: Subject) -> Finding | None:
    """Events that were lost are missing from every count, and slow moments lose most."""
    quality = subject.recording.manifest.quality
    if quality.verdict == "good":
        return None
    return Finding(
        "data-lost",
        "invalid" if quality.verdict == "poor" else "warning",
        f"the recording's quality is {quality.verdict}",
        "; ".join(quality.reasons) or "no reason is given",
        "record again with larger buffers; until then counts are lower bounds and tails are uncertain",
    )


def too_short(subject: Subject) -> Finding | None:
    """Short runs see one state of the storage."""
    duration_ns = subject.recording.manifest.duration_ns
    if duration_ns >= SHORT_NS:
        return None
    return Finding(
        "too-short",
        "warning",
        "too short to be typical",
        f"{format_duration_ns(duration_ns)} long: caches, checkpoints and garbage collection need "
        f"{format_duration_ns(SHORT_NS)} at the very least to show",
        "record or replay several minutes",
    )


def too_few_ios(subject: Subject) -> Finding | None:
    """A tail of a few I/Os is an anecdote."""
    few = {
        op: counts["io_count"] - counts["failed_count"]
        for op, counts in subject.counts.items()
        if op in {"read", "write"}
        and not is_printable(counts["io_count"] - counts["failed_count"], subject.quantile)
    }
    if not few:
        return None
    words = " and ".join(f"{format_count(count)} {op}s" for op, count in sorted(few.items()))
    needed = 100 / min(subject.quantile, 1 - subject.quantile)
    return Finding(
        "too-few-ios",
        "warning",
        f"too few I/Os for a p{subject.quantile * 100:g}",
        f"{words}; it takes {format_count(needed)} for 100 to lie beyond it",
        "record or replay longer, or quote a lower quantile",
    )


def failed_ios(subject: Subject) -> Finding | None:
    """Failed I/Os have no latency, and a device that fails them is not well."""
    failed = sum(counts["failed_count"] for counts in subject.counts.values())
    total = sum(counts["io_count"] for counts in subject.counts.values())
    if not failed:
        return None
    return Finding(
        "failed-ios",
        "invalid" if failed > 0.01 * total else "warning",
        "I/Os failed",
        f"{format_count(failed)} of {format_count(total)} ({format_share(failed / total)}) ended with an error and "
        "are in no latency figure",
        'look at io.error: iotrace query RECORDING "SELECT error, count(*) FROM io GROUP BY error"',
    )


def unlike_work(subject: Subject) -> Finding | None:
    """Latencies of different work differ because of the work."""
    comparison = subject.comparison
    if comparison is None or comparison.same_work:
        return None
    return Finding(
        "unlike-work",
        "invalid" if comparison.mix_distance > UNLIKE_MIX else "warning",
        "the two did not do the same work",
        "; ".join(comparison.warnings),
        "compare a recording with a replay of it, over the same window",
    )


def clock_error(subject: Subject) -> Finding | None:
    """An I/O cannot spend less time in a layer than in the one below."""
    if subject.comparison is None:
        return None
    problems = [
        f"{side.title}: {step.problem}"
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
    Rule("data-lost", data_lost, replays_only=False),
    Rule("too-short", too_short, replays_only=False),
    Rule("too-few-ios", too_few_ios, replays_only=False),
    Rule("failed-ios", failed_ios, replays_only=False),
    Rule("unlike-work", unlike_work, replays_only=False),
    Rule("clock-error", clock_error, replays_only=False),
)
