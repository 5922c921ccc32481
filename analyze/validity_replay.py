"""Rules about replays: what in a run makes its figures no property of the storage."""

from typing import Final

from .units import format_bytes, format_count, format_duration_ns, format_share
from .validity_subject import Finding, Rule, Subject

CACHE_BYTES: Final = 8 << 30
"""RAID controllers come with caches of 1 to 8 GiB, arrays with more: a smaller footprint may never reach the media."""


def cache_not_bypassed(subject: Subject) -> Finding | None:
    """Memory answers instead of the storage."""
    targets = [one["name"] for one in subject.replay.get("targets", []) if one.get("direct") is False]
    if subject.replay.get("direct") is not False and not targets:
        return None
    return Finding(
        "cache-not-bypassed",
        "invalid",
        "the host's cache was in the way",
        f"I/O went through the page cache{' of ' + ', '.join(targets) if targets else ''}: "
        "reads may come from memory, writes may only have reached it",
        "replay without --buffered",
    )


def generator_limited(subject: Subject) -> Finding | None:
    """The replay itself was too slow to offer the load."""
    if not subject.replay.get("generator_limited"):
        return None
    lateness: dict[str, int] = subject.replay.get("generator_lateness_ns") or {}
    response: dict[str, int] = subject.replay.get("generator_response_ns") or {}
    return Finding(
        "generator-limited",
        "invalid",
        "the replay itself ran late",
        f"lateness p50 {format_duration_ns(lateness.get('p50'))}, p99 {format_duration_ns(lateness.get('p99'))}; "
        f"response p50 {format_duration_ns(response.get('p50'))}, p99 {format_duration_ns(response.get('p99'))}: "
        "that much of it shows this machine, not the storage",
        "replay from an idle machine with more processors, or at a lower scale",
    )


def target_not_filled(subject: Subject) -> Finding | None:
    """Storage answers reads of blocks never written without touching media."""
    empty = [one["name"] for one in subject.replay.get("targets", []) if one.get("filled") is False]
    if not empty or not subject.counts.get("read", {}).get("io_count"):
        return None
    return Finding(
        "target-not-filled",
        # A replay that writes plays on a target given up for it, which is new storage more often than not.
        "invalid" if subject.counts.get("write", {}).get("io_count") else "warning",
        "the target was never filled",
        f"{', '.join(empty)} may hold blocks never written, which arrays and thin volumes read without touching media",
        "let replay fill the target first",
    )


def small_footprint(subject: Subject) -> Finding | None:
    """A footprint that fits a controller's cache measures the cache."""
    touched = subject.working_set_bytes
    if touched >= CACHE_BYTES or not touched:
        return None
    return Finding(
        "small-footprint",
        "warning",
        "the footprint may fit the storage's own cache",
        f"{format_bytes(touched)} were touched; controller caches hold up to {format_bytes(CACHE_BYTES)}, arrays more, "
        "and whether one answered cannot be seen from here",
        "replay a longer part of the recording, which touches more of the storage",
    )


def interrupted(subject: Subject) -> Finding | None:
    """A run that stopped early lacks what came after."""
    issued, planned = subject.figure("issued_ios"), subject.figure("planned_ios")
    if not subject.replay.get("interrupted") and issued >= planned:
        return None
    return Finding(
        "interrupted",
        "warning",
        "the replay did not run to its end",
        f"{format_count(issued)} of {format_count(planned)} planned I/Os were issued",
        "run it again to the end before judging by it",
    )


def threads_backend(subject: Subject) -> Finding | None:
    """Threads cost more and wake later than a ring."""
    if subject.replay.get("backend") != "threads":
        return None
    return Finding(
        "threads-backend",
        "warning",
        "threads played the I/O, not io_uring",
        f"{subject.replay.get('backend_reason') or 'the threads backend was chosen'}: latencies of some tens of "
        "microseconds more, and fewer I/Os per second, are the replay's own",
        "use --backend io_uring on a Linux that allows it",
    )


def delayed_by_cap(subject: Subject) -> Finding | None:
    """I/Os held back did not reach the storage when they should have."""
    delayed = subject.figure("delayed_ios")
    if not delayed:
        return None
    return Finding(
        "delayed-by-cap",
        "warning",
        "the cap on I/Os in flight held some back",
        f"{format_count(delayed)} I/Os ({format_share(subject.share('delayed_ios'))}) waited because "
        f"{format_count(subject.figure('max_in_flight'))} were in flight: response counts that wait, service does not",
        "raise --max-in-flight, or read it as saturation",
    )


def not_as_recorded(subject: Subject) -> Finding | None:
    """A replay that left out or changed many I/Os is another workload."""
    changed = {name: subject.figure(f"{name}_ios") for name in ("skipped", "adjusted")}
    share = sum(changed.values()) / max(subject.figure("issued_ios") + changed["skipped"], 1.0)
    if share <= 0.01:
        return None
    return Finding(
        "not-as-recorded",
        "warning",
        "not everything was replayed as recorded",
        f"{format_count(changed['skipped'])} I/Os were left out and {format_count(changed['adjusted'])} moved or "
        f"resized, {format_share(share)} together",
        "use a target whose size and logical block fit the recording",
    )


def other_io(subject: Subject) -> Finding | None:
    """Somebody else used the device; only visible where the target is a whole device or its file's device is known."""
    counters = subject.replay.get("device_counters")
    if not isinstance(counters, dict) or not counters:
        return None
    seen = 0
    for entry in counters.values():
        before, after = (entry.get("before"), entry.get("after")) if isinstance(entry, dict) else (None, None)
        if not before or not after:
            return None
        seen += sum(after[name] - before[name] for name in ("read_bytes", "written_bytes"))
    own = sum(subject.counts.get(op, {}).get("size_bytes", 0) for op in ("read", "write"))
    other = seen - own
    # Journals and metadata of a file system are part of any run on a file.
    if other <= max(0.02 * own, 16 << 20):
        return None
    return Finding(
        "other-io",
        "warning",
        "others used the device during the replay",
        f"its counters moved by {format_bytes(seen)}, the replay by {format_bytes(own)}",
        "replay again while nothing else uses the device",
    )


def processor_slowed(subject: Subject) -> Finding | None:
    """A processor that clocks down when idle adds to every latency."""
    host = subject.recording.manifest.host
    if "cpu_governor" not in host or host["cpu_governor"] == "performance":
        return None
    governor = host["cpu_governor"]
    return Finding(
        "processor-slowed",
        "warning",
        "the processor may have clocked down" if governor else "the processor's power plan is unknown",
        f"frequency governor: {governor or 'unknown'}; a processor waking from a low clock adds to every latency",
        "set the governor to performance (Windows: power plan High Performance) and run again",
    )


RULES: Final = (
    Rule("cache-not-bypassed", cache_not_bypassed, replays_only=True),
    Rule("generator-limited", generator_limited, replays_only=True),
    Rule("target-not-filled", target_not_filled, replays_only=True),
    Rule("small-footprint", small_footprint, replays_only=True),
    Rule("interrupted", interrupted, replays_only=True),
    Rule("threads-backend", threads_backend, replays_only=True),
    Rule("delayed-by-cap", delayed_by_cap, replays_only=True),
    Rule("not-as-recorded", not_as_recorded, replays_only=True),
    Rule("other-io", other_io, replays_only=True),
    Rule("processor-slowed", processor_slowed, replays_only=True),
)
