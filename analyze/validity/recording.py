"""Rules about any recording: whether what it holds suffices for what is said of it."""

from typing import Final

from iotrace.analyze.stats.histogram import is_printable
from iotrace.analyze.units import format_bytes, format_count, format_duration_ns, format_share
from iotrace.schemas import LOAD_OPS
from iotrace.schemas.host import IoLimit
from iotrace.schemas.manifest import ENDED_EARLY, HEAVY_LOSS, OF_THE_TIME, SHARED_TIME
from iotrace.schemas.tables import KEYS
from iotrace.schemas.vocabulary import counted, listed

from .subject import ANY, CAPTURED, Finding, Rule, Subject

SHORT_NS: Final = 30_000_000_000
"""Shorter runs miss cache flushes, checkpoints and garbage collection, which come by the half minute and more."""
SHORT_CELL_NS: Final = 5_000_000_000
"""A cell of a characterization offers an even load after a warm-up, and settles sooner."""

_CLOCK_STEPS: Final = 10
_UNFINISHED: Final = 0.001
_LACKING: Final = 0.001
"""A share that the moments at which counters were read and I/Os ended do not explain."""
_EDGE: Final = 0.05
"""Of what a disk moved in a second, how much may fall on the other side of that second's border."""
_GAP: Final = 0.1
"""Share of a second's bytes that the recording lacks where it has a gap."""
_OFFSET_NS: Final = 1_000_000
_LIMITS_TOLD: Final = 3


def nothing_recorded(subject: Subject) -> Finding | None:
    """A whole file of the wrong kind is intact, and no ground to judge storage on."""
    held = set(subject.recording.table_names()) - KEYS.keys()
    if any(subject.recording.row_count(name) for name in held):
        return None
    return Finding(
        "nothing-recorded",
        "warning",
        "it holds nothing to judge storage by",
        "no I/Os, counters, waits, events or results of a test",
        "record disk I/O: iotrace capture plan shows how on each system",
    )


def limited_by_cgroup(subject: Subject) -> Finding | None:
    """Linux holds I/Os back for a cgroup's limit before it queues them, where the block layer's clock begins."""
    limits = subject.recording.manifest.host.io_limits
    if not limits:
        return None
    told = [_limit_words(limit) for limit in limits[:_LIMITS_TOLD]]
    if rest := len(limits) - len(told):
        told.append(f"{format_count(rest)} more in manifest.json")
    return Finding(
        "limited-by-cgroup",
        "warning",
        "a cgroup limits I/O, and block latencies leave out the wait for it",
        f"{'; '.join(told)}. Linux holds back what exceeds this before the block layer, so programs in the cgroup may "
        "wait far longer than these latencies say, and a kernel worker may count as the program of what had to wait",
        "record the filesystem layer as well, whose latency includes this wait (--layers filesystem,block,device), "
        "measure at SQL Server (sys.dm_io_virtual_file_stats), or lift the limit and record again",
    )


def _limit_words(limit: IoLimit) -> str:
    allowed = [f"{counted(limit.read_iops, 'read')}/s"] if limit.read_iops is not None else []
    allowed += [f"{counted(limit.write_iops, 'write')}/s"] if limit.write_iops is not None else []
    for rate, what in ((limit.read_bytes_per_s, "reads"), (limit.write_bytes_per_s, "writes")):
        allowed += [f"{format_bytes(rate)}/s of {what}"] if rate is not None else []
    return f"cgroup {limit.cgroup} has {listed(allowed)} at most on {limit.device}"


def data_lost(subject: Subject) -> Finding | None:
    """Events that were lost are missing from every count, and slow moments lose most."""
    quality = subject.recording.manifest.quality
    reasons = [
        reason
        for reason in quality.reasons
        if not reason.endswith((SHARED_TIME, OF_THE_TIME))
        # That a run was stopped early is another rule's.
        and not (subject.played.stopped_early and reason.startswith(ENDED_EARLY))
    ]
    if quality.verdict == "good" or (quality.reasons and not reasons):
        return None
    hint = {
        "captured": "record again with larger buffers",
        "replay": "replay again",
        "characterization": "run characterize again",
        "tested": "import the tool's whole output",
    }["tested" if subject.is_tested else subject.scope]
    if quality.left_out and not quality.buffers_lost:
        hint = "export the source again so that all of it can be read"
    return Finding(
        "data-lost",
        "invalid" if quality.verdict == "poor" else "warning",
        f"it was recorded {quality.words}{f': {reasons[0]}' if reasons else ''}",
        "; ".join(reasons) or "no reason is given",
        f"{hint}; until then counts are lower bounds and tails are uncertain",
    )


def trace_lacks_ios(subject: Subject) -> Finding | None:
    """What the disks counted and the recording lacks was not traced, whatever else is said of the trace."""
    lacking = {}
    for device, rows in subject.disk_counts.items():
        # The first sample may have begun before tracing did.
        inner = rows[1:]
        if not inner:
            continue
        count = sum(row["counted_bytes"] for row in inner)
        own = [row["own_bytes"] for row in inner]
        missing = count - sum(row["recorded_bytes"] for row in inner) - sum(own)
        edges = _EDGE * (inner[0]["counted_bytes"] + inner[-1]["counted_bytes"]) + max(own)
        if missing > max(_LACKING * count, edges):
            lacking[device] = (missing, count, inner)
    if not lacking:
        return None
    missing = sum(entry[0] for entry in lacking.values())
    count = sum(entry[1] for entry in lacking.values())
    gaps = [
        (row["from_ns"], row["until_ns"])
        for *_, inner in lacking.values()
        for row in inner
        if row["counted_bytes"] - row["recorded_bytes"] - row["own_bytes"] > _GAP * row["counted_bytes"]
    ]
    start_ns = subject.recording.manifest.window_start_ns
    when = (
        f", most of it from {format_duration_ns(min(gaps)[0] - start_ns)} to "
        f"{format_duration_ns(max(gap[1] for gap in gaps) - start_ns)} after its start"
        if gaps
        else ""
    )
    return Finding(
        "trace-lacks-ios",
        "invalid" if missing >= HEAVY_LOSS * count else "warning",
        "the trace lacks I/Os that the disks counted",
        f"{', '.join(sorted(lacking))} moved {format_bytes(count)} by the kernel's own counters, and "
        f"{format_bytes(missing)} ({format_share(missing / count)}) of it is not in the recording{when}",
        "look for what switched tracing off (tracing_on of the recorder's instance), and record again; until then "
        "counts are lower bounds, and I/Os that begin or end beside the gap are missing or paired wrongly",
    )


def sources_apart(subject: Subject) -> Finding | None:
    """What one source shows explains nothing of what another shows at another time."""
    quality = subject.recording.manifest.quality
    if not (quality.shared_time or quality.part_recorded):
        return None
    return Finding(
        "sources-apart",
        "invalid" if quality.source_gaps else "warning",
        "its sources do not cover the same time",
        "; ".join(map(str, (*quality.shared_time, *quality.part_recorded))),
        "import them into recordings of their own, or correct the dates and time zones that they state",
    )


def too_short(subject: Subject) -> Finding | None:
    """Short runs see one state of the storage."""
    is_cell = subject.scope == "characterization"
    duration_ns, least_ns = subject.length_ns, SHORT_CELL_NS if is_cell else SHORT_NS
    if duration_ns is None or duration_ns >= least_ns or subject.is_empty:
        return None
    if format_duration_ns(duration_ns) == format_duration_ns(least_ns):
        return None  # a step of 30 s ends with its last I/O, a moment earlier
    return Finding(
        "too-short",
        "warning",
        "too short to be typical",
        f"{format_duration_ns(duration_ns)} long: "
        + (
            f"an even load takes {format_duration_ns(least_ns)} at the very least to settle"
            if is_cell
            else "caches, checkpoints and garbage collection need "
            f"{format_duration_ns(least_ns)} at the very least to show"
        ),
        "give every run more --seconds" if is_cell else f"{subject.again} several minutes",
    )


def too_few_ios(subject: Subject) -> Finding | None:
    """A tail of a few I/Os is an anecdote."""
    few = {
        op: counts["io_count"] - counts["failed_count"]
        for op, counts in subject.counts.items()
        if op in LOAD_OPS and not is_printable(counts["io_count"] - counts["failed_count"], subject.quantile)
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
        (
            "give every run more --seconds"
            if subject.scope == "characterization"
            else f"{subject.again} longer"
        )
        + ", or quote a lower quantile",
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


def unfinished_ios(subject: Subject) -> Finding | None:
    """An I/O whose end was not seen is more often a slow one than a fast one."""
    unfinished = subject.unfinished_count
    total = sum(counts["io_count"] for counts in subject.counts.values())
    if unfinished <= _UNFINISHED * total:
        return None
    if unfinished == total:
        return Finding(
            "unfinished-ios",
            "warning",
            "no I/O has a latency",
            f"none of {format_count(total)} has an end: the source names none, or its completions were lost",
            "rates, sizes and places hold, and it can be replayed; for latencies record with another source",
        )
    return Finding(
        "unfinished-ios",
        "warning",
        "I/Os were not seen to end",
        f"{format_count(unfinished)} of {format_count(total)} ({format_share(unfinished / total)}) have no latency; "
        "those still in flight at the end, or whose completion was lost, are the slow ones more often than not",
        f"{subject.again} until the storage is quiet, and take tails as lower bounds",
    )


def coarse_clock(subject: Subject) -> Finding | None:
    """A clock in whole milliseconds tells nothing of latencies below them."""
    resolution_ns = subject.recording.manifest.clock.resolution_ns
    if resolution_ns < 10_000:
        return None
    counts = sum(count for count, _ in subject.fifths)
    mean_ns = sum(count * mean for count, mean in subject.fifths) / counts if counts else 0.0
    if not counts or mean_ns >= _CLOCK_STEPS * resolution_ns:
        return None
    return Finding(
        "coarse-clock",
        "warning",
        "the clock is too coarse for these latencies",
        f"it counts in steps of {format_duration_ns(resolution_ns)}, and the mean latency is "
        f"{format_duration_ns(mean_ns)}: quantiles are no finer than a step, and short I/Os show as 0",
        "record with a source of a finer clock (ETW, the Linux recorder)",
    )


def clocks_not_aligned(subject: Subject) -> Finding | None:
    """Sources whose clocks were not measured against one another may be apart by more than what is looked for."""
    loose = [
        source
        for source in subject.recording.manifest.sources
        if source.alignment is not None
        and source.alignment.method == "utc"
        and (source.alignment.uncertainty_ns is None or source.alignment.uncertainty_ns > _OFFSET_NS)
    ]
    if not loose:
        return None
    apart = ", ".join(
        f"{source.name} ("
        + (
            "unknown"
            if source.alignment is None or source.alignment.uncertainty_ns is None
            else f"± {format_duration_ns(source.alignment.uncertainty_ns)}"
        )
        + ")"
        for source in loose
    )
    return Finding(
        "clocks-not-aligned",
        "warning",
        "the sources' clocks were not measured against one another",
        f"placed by the UTC they state: {apart}; what came first across sources cannot be told more finely than that, "
        "durations within a source are not touched",
        "record sources that see the same I/Os, which aligns their clocks",
    )


RULES: Final = (
    Rule(
        "nothing-recorded",
        "it holds no I/Os, counters, waits, events or results of a test",
        "the sources are intact, but of another kind: nothing can be said of storage",
        CAPTURED,
        nothing_recorded,
    ),
    Rule(
        "limited-by-cgroup",
        "a cgroup of Linux limited I/O on a recorded disk when the recording began or ended",
        "I/Os wait for it before the block layer: latencies of that layer and the device's leave this wait out",
        CAPTURED,
        limited_by_cgroup,
    ),
    Rule(
        "data-lost",
        "the recording has flaws or heavy loss (lost events, lines that could not be read, cut off, clock steps)",
        "counts are lower bounds, and slow moments lose most; invalid if 1 % or a whole buffer is lost",
        ANY,
        data_lost,
    ),
    Rule(
        "trace-lacks-ios",
        "the kernel's own counters of the disks show over 0.1 % more bytes than the recording",
        "something switched the trace off for a while: counts are lower bounds; invalid from 1 % on",
        CAPTURED,
        trace_lacks_ios,
    ),
    Rule(
        "sources-apart",
        "sources in one recording share no time, or less than half of the shorter one's; or a layer was recorded for "
        "less than nine tenths of it",
        "rates over the whole are too low, and one source explains nothing of the other; invalid if they "
        "share none",
        CAPTURED,
        sources_apart,
    ),
    Rule(
        "too-short",
        "it lasted less than 30 s (a run of a characterization: 5 s)",
        "checkpoints, cache flushes and garbage collection come more rarely than that",
        ANY,
        too_short,
    ),
    Rule(
        "too-few-ios",
        "fewer than 100 reads or writes lie beyond the highest quantile quoted",
        "such a quantile depends on a few I/Os, and is not printed",
        ANY,
        too_few_ios,
    ),
    Rule(
        "failed-ios",
        "an I/O ended with an error",
        "no latency includes failed I/Os; invalid above 1 %",
        ANY,
        failed_ios,
    ),
    Rule(
        "unfinished-ios",
        "over 0.1 % of the I/Os have no completion",
        "such I/Os are mostly slow ones: tails are lower bounds; "
        "if no I/O has one, the source names no latencies",
        ANY,
        unfinished_ios,
    ),
    Rule(
        "coarse-clock",
        "the mean latency is less than ten steps of the recording's clock",
        "quantiles are no finer than a step of the clock",
        CAPTURED,
        coarse_clock,
    ),
    Rule(
        "clocks-not-aligned",
        "a source was aligned by its UTC alone, to no better than 1 ms",
        "the order of events across sources is not known; durations within a source are right",
        CAPTURED,
        clocks_not_aligned,
    ),
)
