"""Rules about the load that a replay or a characterization offered: whether it was the load it is taken for."""

from itertools import pairwise
from typing import Final

from iotrace.analyze.units import format_count, format_duration_ns, format_share
from iotrace.schemas import counted

from .subject import CELLS, PACED, REPLAYS, RUNS, SIMULATIONS, Finding, Rule, Subject, apart, lost

STEADY_RANGE: Final = 0.20
STEADY_SLOPE: Final = 0.10
"""Steady state after SNIA's Solid State Storage Performance Test Specification: throughput stays within 20 % of its
mean, and a straight line through it rises or falls by at most 10 %."""

_RISE: Final = 2.0
_SAME_LOAD: Final = 0.25
_ASKED: Final = 0.05
_CHANGED: Final = 0.01


def generator_limited(subject: Subject) -> Finding | None:
    """The replay itself was too slow to offer the load."""
    if not subject.played.generator_limited:
        return None
    lateness, response = subject.replay.generator_lateness_ns, subject.replay.generator_response_ns
    return Finding(
        "generator-limited",
        "invalid",
        "the replay itself ran late",
        f"lateness p50 {format_duration_ns(lateness.p50)}, p99 {format_duration_ns(lateness.p99)}; "
        f"response p50 {format_duration_ns(response.p50)}, p99 {format_duration_ns(response.p99)}: "
        "that much of it shows this machine, not the storage",
        "replay from an idle machine with more processors, or at a lower scale",
    )


def not_together(subject: Subject) -> Finding | None:
    """Several generators played, but not one load: one of them is missing, or they began apart."""
    detail = lost(subject.replay) or apart(subject.replay)
    if detail is None:
        return None
    return Finding(
        "not-together",
        "invalid",
        "the generators did not play together",
        detail,
        "replay again with all of them, for longer, or nearer to one another",
    )


def interrupted(subject: Subject) -> Finding | None:
    """A run that stopped early lacks what came after."""
    issued, planned = subject.played.issued_ios, subject.played.planned_ios
    if not subject.played.stopped_early:
        return None
    title, detail = f"the {subject.run} did not run to its end", f"it ended after {format_count(issued)} I/Os"
    is_partial = 0 <= issued < planned and subject.scope != "characterization"
    if is_partial:
        title = f"stopped early: {format_share(issued / planned)} of the load was played"
        detail = (
            f"{format_count(issued)} of {format_count(planned)} planned I/Os were issued: the rest may be busier or of "
            "another kind, so no figure stands for the whole load"
        )
    return Finding(
        "interrupted",
        "invalid" if is_partial else "warning",
        title,
        detail,
        f"{subject.again} again to the end before judging by it",
    )


def delayed_by_cap(subject: Subject) -> Finding | None:
    """I/Os held back did not reach the storage when they should have."""
    delayed = subject.played.delayed_ios
    if not delayed:
        return None
    waits = subject.played.waits_for_room
    full = f", or the disk's own queue was full ({counted(waits, 'time')})" if waits else ""
    return Finding(
        "delayed-by-cap",
        "warning",
        "the cap on I/Os in flight or a full disk queue held some back",
        f"{counted(delayed, 'I/O')} ({format_share(delayed / max(subject.played.issued_ios, 1))}) waited because "
        f"{format_count(subject.played.max_in_flight)} were in flight{full}: response counts that wait, service "
        "does not",
        "read it as saturation; only if the storage can take more, raise --max-in-flight",
    )


def not_as_recorded(subject: Subject) -> Finding | None:
    """A replay that left out or changed many I/Os is another workload."""
    skipped = subject.played.skipped_ios - _discards(subject)
    adjusted = subject.played.adjusted_ios
    share = (skipped + adjusted) / max(subject.played.issued_ios + skipped, 1.0)
    if share <= _CHANGED:
        return None
    return Finding(
        "not-as-recorded",
        "warning",
        "not everything was replayed as recorded",
        f"{format_count(skipped)} I/Os were left out{_reasons(subject)} and {format_count(adjusted)} moved or "
        f"resized, {format_share(share)} together",
        "use a target whose size and logical block fit the recording, and no filters",
    )


def discards_not_replayed(subject: Subject) -> Finding | None:
    """Discards cost some storage dearly, and none were played."""
    count = _discards(subject)
    share = count / max(subject.played.issued_ios + count, 1.0)
    if share <= _CHANGED:
        return None
    return Finding(
        "discards-not-replayed",
        "warning",
        "discards were not replayed",
        f"{format_count(count)} discards of the recording ({format_share(share)} of its I/Os) are not in the load; "
        "flash and thin volumes may slow down reads and writes while they work on them",
        "judge storage that gets many discards by a test of its own",
    )


def _reasons(subject: Subject) -> str:
    skipped = subject.replay.skipped
    reasons = [f"{count:,} {why}" for why, count in skipped.items() if not why.startswith("discard")]
    return f" ({', '.join(reasons)})" if reasons else ""


def _discards(subject: Subject) -> float:
    skipped = subject.replay.skipped
    return float(sum(count for reason, count in skipped.items() if reason.startswith("discard")))


def load_not_as_asked(subject: Subject) -> Finding | None:
    """Another rate than the scale says: streams are kept whole, and a run may take longer than planned."""
    problems = []
    thinning = subject.replay.thinning
    error = (thinning.error if thinning else None) or 0.0
    if abs(error) > _ASKED:
        problems.append(
            f"whole streams make {1 + error:.2f} times the part of the workload that was asked for"
        )
    planned, span = subject.replay.planned_duration_ns, subject.replay.issued_span_ns
    # A closed loop takes as long as the storage makes it take; what was cut short is another rule's.
    on_its_own = subject.replay.mode != "think" and not subject.played.interrupted
    if on_its_own and planned and span > (1 + _ASKED) * planned:
        problems.append(
            f"issuing took {format_duration_ns(span)} where {format_duration_ns(planned)} were planned"
        )
    if not problems:
        return None
    return Finding(
        "load-not-as-asked",
        "warning",
        "the load was not the one that was asked for",
        "; ".join(problems),
        "read the achieved rate beside the scale; a lower scale or a larger --max-in-flight may be carried in time",
    )


def closed_loop(subject: Subject) -> Finding | None:
    """A storage that slows its own load down hides how far it is from carrying it."""
    if subject.replay.mode != "think":
        return None
    return Finding(
        "closed-loop",
        "warning",
        "the load waited for the storage",
        "in mode think a slow storage slows its own load, so latency rises less near saturation: this run, and a knee "
        "from such runs, cannot be held against ones that were paced by the clock",
        "compare it with other runs of mode think only, or replay in mode compress",
    )


def threads_backend(subject: Subject) -> Finding | None:
    """Threads cost more and wake later than a ring."""
    if subject.played.backend != "threads":
        return None
    return Finding(
        "threads-backend",
        "warning",
        "threads played the I/O, not io_uring",
        f"{subject.played.backend_reason or 'the threads backend was chosen'}: latencies of some tens of "
        f"microseconds more, and fewer I/Os per second, are the {subject.run}'s own",
        "use --backend io_uring on a Linux that allows it",
    )


def processor_slowed(subject: Subject) -> Finding | None:
    """A processor that clocks down when idle adds to every latency."""
    governor = subject.recording.manifest.host.cpu_governor
    if governor is None or governor == "performance":
        return None
    return Finding(
        "processor-slowed",
        "warning",
        "the processor may have clocked down" if governor else "the processor's power plan is unknown",
        f"frequency governor: {governor or 'unknown'}; a processor waking from a low clock adds to every latency",
        "set the governor to performance (Windows: power plan High Performance) and run again",
    )


def backlog_grew(subject: Subject) -> Finding | None:
    """Overloaded storage gets slower for as long as the run lasts."""
    fifths = subject.fifths
    counts, means = [count for count, _ in fifths], [mean for _, mean in fifths]
    if not counts or min(counts) < 100 or max(counts) - min(counts) > _SAME_LOAD * sum(counts) / len(counts):
        return None
    climbs = all(later >= earlier for earlier, later in pairwise(means))
    if not climbs or means[-1] <= _RISE * means[0]:
        return None
    return Finding(
        "backlog-grew",
        "warning",
        "latency rose from the beginning to the end",
        f"mean response was {format_duration_ns(means[0])} in the first fifth and {format_duration_ns(means[-1])} "
        "in the last, at an even load: such figures tell how long the run lasted",
        "read it as overload, and replay at a lower scale for a latency",
    )


def not_steady(subject: Subject) -> Finding | None:
    """Throughput of a closed loop that still changes is not what the storage sustains."""
    counts = [count for count, _ in subject.fifths]
    mean = sum(counts) / len(counts) if counts else 0.0
    if mean < 100:
        return None
    spread = (max(counts) - min(counts)) / mean
    # Least squares over five equidistant points; the change is from the first to the last of them.
    slope = sum((place - 2) * count for place, count in enumerate(counts)) / 10 * 4 / mean
    if spread <= STEADY_RANGE and abs(slope) <= STEADY_SLOPE:
        return None
    return Finding(
        "not-steady",
        "warning",
        "throughput had not settled",
        f"I/Os per fifth of the run spread over {format_share(spread)} of their mean and changed by "
        f"{slope * 100:+.0f} % from first to last; {format_share(STEADY_RANGE)} and {format_share(STEADY_SLOPE)} are "
        "the most for a steady state",
        "run characterize with a longer --warm-up, longer cells, and nothing else on the device",
    )


RULES: Final = (
    Rule(
        "interrupted",
        "a run ended before its plan did",
        "no figure covers the rest of the plan; invalid if a part of the load was not played",
        RUNS | SIMULATIONS,
        interrupted,
    ),
    Rule(
        "generator-limited",
        "lateness caused by the replay itself exceeds a tenth of response, at the median or the p99",
        "the replaying machine was too slow: response says nothing about the storage",
        REPLAYS,
        generator_limited,
    ),
    Rule(
        "not-together",
        "one of several generators was lost, or their starts may lie more than 1 % of the run apart",
        "the storage was not under the load that the figures describe",
        REPLAYS,
        not_together,
    ),
    Rule(
        "delayed-by-cap",
        "the cap on I/Os in flight, or a full queue of the disk, held an I/O back",
        "the storage fell behind; service does not include that wait, response does",
        PACED,
        delayed_by_cap,
    ),
    Rule(
        "not-as-recorded",
        "over 1 % of the I/Os were left out (discards aside), moved or resized",
        "the workload played is not the one recorded",
        PACED,
        not_as_recorded,
    ),
    Rule(
        "discards-not-replayed",
        "over 1 % of the recording's I/Os are discards",
        "discards are never played, and some storage is slower because of them",
        PACED,
        discards_not_replayed,
    ),
    Rule(
        "load-not-as-asked",
        "thinning missed its share by over 5 %, or issuing took over 5 % longer than planned",
        "the figures belong to another load than the scale says",
        PACED,
        load_not_as_asked,
    ),
    Rule(
        "closed-loop",
        "a replay ran in mode think",
        "slow storage slows its own load: do not compare latencies and knees with paced ones",
        PACED,
        closed_loop,
    ),
    Rule(
        "threads-backend",
        "threads played the I/O",
        "tens of microseconds of every latency come from the replay",
        RUNS,
        threads_backend,
    ),
    Rule(
        "processor-slowed",
        "the frequency governor is known, and not `performance`",
        "a processor waking from a low clock adds to every latency",
        RUNS,
        processor_slowed,
    ),
    Rule(
        "backlog-grew",
        "mean response at least doubled from the first to the last fifth of a replay, rising in each, at a load even "
        "within 25 %",
        "the storage was overloaded: latency shows how long the run lasted, not how fast the storage is",
        PACED,
        backlog_grew,
    ),
    Rule(
        "not-steady",
        "throughput of a characterization's cell, by fifths, spreads over 20 % of its mean or drifts by over 10 % "
        "(SNIA's criterion)",
        "the figure shows a transition, not a rate that the storage sustains",
        CELLS,
        not_steady,
    ),
)
