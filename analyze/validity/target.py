"""Rules about what a replay or a characterization played on: where something else than storage may have answered."""

from typing import Final

from iotrace.analyze.units import format_bytes
from iotrace.schemas import LOAD_OPS
from iotrace.schemas.models import tested_words

from .subject import CELLS, PACED, REPLAYS, RUNS, Finding, Rule, Subject, others_bytes

CACHE_BYTES: Final = 8 << 30
"""RAID controllers come with caches of 1 to 8 GiB, arrays with more: a smaller footprint may never reach the media."""


def answered_by_a_model(subject: Subject) -> Finding | None:
    """No storage took part."""
    model = subject.recording.manifest.model
    if model is None:
        return None
    return Finding(
        "answered-by-a-model",
        "warning",
        "a model answered, not storage",
        f"every time is {tested_words(model)}",
        "replay on the storage itself before it counts; docs/virtual-replay.md says what a model cannot see",
    )


def cache_not_bypassed(subject: Subject) -> Finding | None:
    """Memory answers instead of the storage."""
    targets = [one.name for one in subject.played.targets if one.direct is False]
    if subject.played.direct is not False and not targets:
        return None
    return Finding(
        "cache-not-bypassed",
        "invalid",
        "the host's cache was in the way",
        f"I/O went through the page cache{' of ' + ', '.join(targets) if targets else ''}: "
        "reads may come from memory, writes may only have reached it",
        f"{subject.again} without --buffered",
    )


def target_not_filled(subject: Subject) -> Finding | None:
    """Storage answers reads of blocks never written without touching media."""
    empty = [one.name for one in subject.played.targets if one.filled is False]
    if not empty or not subject.counts.get("read", {}).get("io_count"):
        return None
    return Finding(
        "target-not-filled",
        # What writes plays on a target given up for it, which is new storage more often than not.
        "invalid" if subject.counts.get("write", {}).get("io_count") else "warning",
        "the target was never filled",
        f"{', '.join(empty)} may hold blocks never written, which arrays and thin volumes read without touching media",
        "write all of it once before, or play on a file, which iotrace fills first",
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


def small_target(subject: Subject) -> Finding | None:
    """Places drawn from all of a target that fits a cache are answered by the cache."""
    small = [one for one in subject.played.targets if one.bytes and one.bytes < CACHE_BYTES]
    if not small:
        return None
    sizes = ", ".join(f"{one.name} has {format_bytes(one.bytes or 0)}" for one in small)
    return Finding(
        "target-smaller-than-cache",
        "warning",
        "the target may fit the storage's own cache",
        f"{sizes}; controller caches hold up to {format_bytes(CACHE_BYTES)}, arrays more, and whether one answered "
        "cannot be seen from here",
        f"run characterize on a target of more than {format_bytes(CACHE_BYTES)}: --file-size makes a file of that size",
    )


def addresses_folded(subject: Subject) -> Finding | None:
    """A workload folded onto less room comes back to the same blocks sooner."""
    folded = [one.name for one in subject.played.targets if one.addresses == "fold"]
    if not folded:
        return None
    return Finding(
        "addresses-folded",
        "warning",
        "the workload was folded onto a smaller target",
        f"on {', '.join(folded)} different places of the recording share one: caches hold more of it than they will "
        "of the real workload",
        "replay on a target that holds all that the recording touched",
    )


def other_io(subject: Subject) -> Finding | None:
    """Somebody else used the device; only visible where the target is a whole device or its file's device is known."""
    own = sum(subject.counts.get(op, {}).get("size_bytes", 0) for op in LOAD_OPS)
    other = others_bytes(subject.played, own)
    # Journals and metadata of a file system are part of any run on a file.
    if other is None or other <= max(0.02 * own, 16 << 20):
        return None
    return Finding(
        "other-io",
        "warning",
        f"others used the device during the {subject.run}",
        f"its counters moved by {format_bytes(own + other)}, the {subject.run} by {format_bytes(own)}",
        f"{subject.again} again while nothing else uses the device",
    )


RULES: Final = (
    Rule(
        "answered-by-a-model",
        "it was played on a model (`--target model:`)",
        "no storage took part: times are only as good as the model; the sentence says how the model was "
        "tested",
        PACED,
        answered_by_a_model,
    ),
    Rule(
        "cache-not-bypassed",
        "I/O went through the host's page cache (`--buffered`)",
        "memory may have answered, so the figures say nothing about the storage",
        RUNS,
        cache_not_bypassed,
    ),
    Rule(
        "target-not-filled",
        "reads were played on a target that iotrace has not filled",
        "arrays and thin volumes answer reads of blocks never written without touching media; invalid if "
        "writes were played too, because the target is then likely new",
        RUNS,
        target_not_filled,
    ),
    Rule(
        "small-footprint",
        "a replay touched less than 8 GiB",
        "a controller's cache may hold all of it and answer instead of the media",
        REPLAYS,
        small_footprint,
    ),
    Rule(
        "target-smaller-than-cache",
        "a characterization ran on a target of less than 8 GiB",
        "a controller's cache may hold all of it and answer instead of the media",
        CELLS,
        small_target,
    ),
    Rule(
        "addresses-folded",
        "a replay folded addresses onto a smaller target",
        "caches hold a larger part of this workload than of the real one",
        REPLAYS,
        addresses_folded,
    ),
    Rule(
        "other-io",
        "the device's own counters moved by 2 % and 16 MiB more than the run's own I/O",
        "other I/O took part of the device's capacity",
        RUNS,
        other_io,
    ),
)
