"""Whether several load generators played one load: all of them, and at the same time."""

from typing import Final

from iotrace.analyze.units import format_duration_ns, format_share
from iotrace.schemas.run import Replay

APART_SHARE_MAX: Final = 0.01
"""Of a run's length: for so long at each end the load is not that of all of them."""


def lost(run: Replay) -> str | None:
    """Which generators' I/Os are missing, in words; None where none are."""
    gone = [shard.host for shard in run.shards if shard.ended == "lost"]
    if not gone:
        return None
    return f"what {' and '.join(gone)} played is not in it ({len(gone)} of {len(run.shards)} generators)"


def apart(run: Replay) -> str | None:
    """How far the starts lie apart, in words, where that is too far or not known; None where it is near enough.

    From the earliest start that is possible to the latest, with the bounds that hold whatever the network did.
    """
    started = [shard for shard in run.shards if shard.ended != "lost"]
    if len(started) < 2:
        return None
    spread_ns = spread(run)
    if spread_ns is None:
        return "the clocks of the generators could not be compared, so when each began is not known"
    if spread_ns <= APART_SHARE_MAX * run.duration_ns:
        return None
    share = format_share(spread_ns / max(run.duration_ns, 1))
    return f"their starts may lie {format_duration_ns(spread_ns)} apart, {share} of the run"


def spread(run: Replay) -> int | None:
    """The most that two generators' starts may lie apart; None where a clock could not be compared."""
    earliest, latest = [], []
    for shard in run.shards:
        if shard.ended == "lost":
            continue
        if shard.start_skew_ns is None or shard.start_skew_bound_ns is None:
            return None
        earliest.append(shard.start_skew_ns - shard.start_skew_bound_ns)
        latest.append(shard.start_skew_ns + shard.start_skew_bound_ns)
    return max(latest) - min(earliest) if earliest else None
