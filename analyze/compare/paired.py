"""A load that was recorded, played again and recorded again: each I/O is held against itself.

Sizes, addresses and bursts are the same in both, so most of what makes latencies differ from one I/O to the next
cancels: the mean logarithm of played over recorded latency has a much narrower interval than a ratio of two means or
quantiles. Its exponential is the factor by which a typical I/O became slower. It says little of the tail; quantiles do.

Counterparts have the same operation, size and address, the first with the first and so on. Where addresses were moved,
so that under `_BY_PLACE_MIN` of the I/Os find theirs, operation, size and order alone decide. A recorder that lost
events leaves I/Os without a counterpart; below `_PAIRED_MIN` of them nothing is paired, and `pair_up` says so.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow.compute as pc

from iotrace.analyze import library
from iotrace.analyze.stats.bootstrap import SLOTS_MAX, SLOTS_MIN, interval, resampled_errors
from iotrace.analyze.units import format_share
from iotrace.schemas import Layer, Recording, counted
from iotrace.schemas.run import Replay
from iotrace.schemas.sweep import watched_path

from .comparison import Paired

_BY_PLACE_MIN: Final = 0.5
_PAIRED_MIN: Final = 0.9
"""Below this share of the recorded I/Os with a counterpart, too many are missing for the rest to speak for them."""
_PAIRS_MIN: Final = 200


@dataclass(frozen=True, slots=True)
class Pairs:
    """One row per layer and operation, the lowest layer first; and in words, what could not be paired and why."""

    found: list[Paired] = field(default_factory=list)
    unpaired: list[str] = field(default_factory=list)


def replay_facts(recording: Recording) -> Replay:
    """What is known of the replay that a recording shows: its own, or the one that it was recorded beside."""
    manifest = recording.manifest
    return manifest.watched.replay if manifest.watched else manifest.open_replay


def watched_beside(recording: Recording) -> Recording | None:
    """What a recorder saw of the target while ``recording`` was played; itself if it is that."""
    if recording.manifest.watched is not None:
        return recording
    path = watched_path(recording.path)
    if not (path / "manifest.json").is_file():
        return None
    seen = Recording.open(path)
    watched = seen.manifest.watched
    return seen if watched and watched.replay_uuid == recording.manifest.uuid else None


def pair_up(
    connection: duckdb.DuckDBPyConnection,
    base: tuple[str, int, int],
    seen: Recording,
    prefix: str,
    *,
    seed: int,
) -> Pairs:
    """Each I/O of ``base`` (its prefix and span) held against its counterpart in ``seen``, attached as ``prefix``."""
    base_prefix, from_ns, until_ns = base
    assert seen.manifest.watched is not None
    load_ns = seen.manifest.watched.load_ns
    library.lend(connection, base_prefix, prefix, "io", "recorded_io")
    counts = [
        {row["layer"]: row["io_count"] for row in library.run(connection, "layers", prefix=one).to_pylist()}
        for one in (base_prefix, prefix)
    ]
    slot_ns = max(-(-(until_ns - from_ns) // SLOTS_MAX), 1)
    pairs = Pairs()
    for layer in (Layer.DEVICE, Layer.BLOCK):
        if not all(layer in one for one in counts):
            continue
        totals = _by_op(connection, base_prefix, layer, from_ns, until_ns)
        for by_place in (True, False):
            table = library.run(
                connection,
                "paired_slots",
                prefix=prefix,
                layer=layer,
                by_place=by_place,
                recorded_from_ns=from_ns,
                recorded_until_ns=until_ns,
                from_ns=load_ns[0],
                until_ns=load_ns[1],
                slot_ns=slot_ns,
            )
            paired = sum(table["pair_count"].to_pylist())
            if paired >= _BY_PLACE_MIN * sum(totals.values()):
                break
        for op, total in sorted(totals.items()):
            one = table.filter(pc.equal(table["op"], op))
            count = sum(one["pair_count"].to_pylist())
            if count >= max(_PAIRS_MIN, _PAIRED_MIN * total):
                pairs.found.append(_paired(one, layer, op, total, by_place, seed))
            elif total >= _PAIRS_MIN:
                lost = seen.manifest.quality.events_lost
                pairs.unpaired.append(
                    f"{op}s at the {layer} layer are not held against themselves: of {total:,}, {count:,} have a "
                    f"counterpart in what was recorded beside the replay, and {format_share(_PAIRED_MIN, 0)} would "
                    "have to" + (f"; that recorder lost {counted(lost, 'event')}" if lost else "")
                )
    if not pairs.found and not pairs.unpaired:
        pairs.unpaired.append(
            "no I/O is held against itself: the two recordings share no layer below the file system with "
            f"{_PAIRS_MIN} I/Os of one operation"
        )
    return pairs


def _by_op(
    connection: duckdb.DuckDBPyConnection, prefix: str, layer: str, from_ns: int, until_ns: int
) -> dict[str, int]:
    mix = library.run(connection, "work_mix", prefix=prefix, layer=layer, from_ns=from_ns, until_ns=until_ns)
    counts = mix.group_by("op").aggregate([("io_count", "sum")])
    return dict(zip(counts["op"].to_pylist(), counts["io_count_sum"].to_pylist(), strict=True))


def _paired(table: Any, layer: str, op: str, total: int, by_place: bool, seed: int) -> Paired:  # noqa: ANN401, FBT001
    slots = table["slot"].to_numpy()
    columns = ("pair_count", "log_ratio_sum", "recorded_sum_ns", "played_sum_ns")
    courses = np.zeros((len(columns), int(slots.max()) + 1))
    for row, name in zip(courses, columns, strict=True):
        row[slots] = table[name].to_numpy()
    count, log_ratio, recorded_ns, played_ns = courses
    pairs = int(count.sum())
    mean_log, mean_ns = log_ratio.sum() / pairs, (played_ns - recorded_ns).sum() / pairs
    ratio_interval = difference_interval = None
    if np.count_nonzero(count) >= SLOTS_MIN:
        generator = np.random.default_rng([seed, pairs])
        errors = resampled_errors(
            [(log_ratio - mean_log * count) / pairs, (played_ns - recorded_ns - mean_ns * count) / pairs],
            generator,
        )
        low, high = interval(mean_log + errors[0])
        ratio_interval = (float(np.exp(low)), float(np.exp(high)))
        difference_interval = interval(mean_ns + errors[1])
    return Paired(
        layer=str(layer),
        op=op,
        by="address, size and order" if by_place else "size and order",
        pair_count=pairs,
        recorded_count=total,
        ratio=float(np.exp(mean_log)),
        ratio_interval=ratio_interval,
        difference_ns=float(mean_ns),
        difference_interval_ns=difference_interval,
    )
