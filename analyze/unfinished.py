"""I/Os without an end, which are in no latency: each waited at least until the recording ended.

What is judged by latencies counts them with that wait, so that storage which hangs is not taken for storage that is
fast. Those in flight at the end, as in any recording, have waited for hardly any time, and so they change nothing. If
ends may have been lost, an I/O without one may have ended at any time, and nothing can be told from it.

A source that names no ends has I/Os that do not wait. So has a layer without any latency.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.schemas import Manifest
from iotrace.schemas.manifest import ENDED_EARLY, OF_THE_TIME, SHARED_TIME, Quality

from .stats.histogram import Histogram, added_up, quantile_ns

FOREVER_NS: Final = 2**63 - 1
_ANY_TIME: Final = (-(2**62), 2**62)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a quantile is at least and at most, with the I/Os that have no end; None where too few lie beyond it."""

    at_least_ns: int | None
    at_most_ns: int | None
    unfinished_count: int
    may_have_ended: bool

    def is_within(self, limit_ns: int) -> bool | None:
        """Whether it keeps to a limit; None where that cannot be told."""
        if self.at_least_ns is None or self.at_most_ns is None:
            return None
        if self.at_least_ns > limit_ns:
            return False
        return True if self.at_most_ns <= limit_ns else None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """I/Os of one layer and span without an end: rows of query ``unfinished``, or no rows."""

    rows: pa.Table | None
    may_have_ended: bool
    """Whether their ends may have been lost."""

    def of(self, ops: Sequence[str], role: str | None = None) -> pa.Table | None:
        """Those of some operations, and of one role if it is given; None where there are none."""
        if self.rows is None:
            return None
        wanted = pc.is_in(self.rows["op"], pa.array([*ops], pa.string()))
        if role is not None:
            wanted = pc.and_(wanted, pc.equal(self.rows["role"], role))
        found = self.rows.filter(wanted)
        return found if found.num_rows else None

    def bounds(self, latencies: Histogram, quantile: float, ops: Sequence[str], role: str | None) -> Bounds:
        """Between what a quantile must lie, of I/Os that ended with ``latencies`` and of those without an end."""
        waiting = self.of(ops, role)
        if waiting is None:
            known_ns = (
                quantile_ns(latencies.bucket_ns, latencies.io_count, quantile) if latencies.total else None
            )
            return Bounds(known_ns, known_ns, 0, self.may_have_ended)
        waited_ns, counts = waiting["bucket_ns"].to_numpy(), waiting["io_count"].to_numpy()
        least_ns = np.zeros_like(waited_ns) if self.may_have_ended else waited_ns
        forever_ns = np.full_like(waited_ns, FOREVER_NS)
        at_least_ns, at_most_ns = (
            # The exact sum is of no use here: what never ends has none.
            quantile_ns(both.bucket_ns, both.io_count, quantile)
            for both in (added_up([latencies, Histogram(ns, counts, 0, 0)]) for ns in (least_ns, forever_ns))
        )
        return Bounds(at_least_ns, at_most_ns, int(counts.sum()), self.may_have_ended)


def unfinished(
    ask: Callable[..., pa.Table],
    manifest: Manifest,
    layer: str,
    metric: str,
    *,
    span_ns: tuple[int, int] = _ANY_TIME,
    slot_ns: int = 2**62,
) -> Unfinished:
    """The I/Os of a layer that have no end, issued within a span. ``ask`` runs a query on the recording.

    Those that are there only because the source names no ends do not count.
    """
    known = next((row for row in ask("layers").to_pylist() if row["layer"] == layer), None)
    may_have_ended = ends_may_be_lost(manifest.quality)
    if known is None or not 0 < known["unfinished_count"] < known["io_count"]:
        return Unfinished(None, may_have_ended)
    ended_ns = known["last_seen_ns"] + 1
    is_part = manifest.quality.shared_time or any(
        one.layer == layer for one in manifest.quality.part_recorded
    )
    if not is_part and manifest.window_end_ns > manifest.window_start_ns:
        ended_ns = manifest.window_end_ns
    rows = ask(
        "unfinished",
        layer=layer,
        metric=metric,
        from_ns=span_ns[0],
        until_ns=span_ns[1],
        slot_ns=slot_ns,
        ended_ns=ended_ns,
    )
    return Unfinished(rows, may_have_ended)


def ends_may_be_lost(quality: Quality) -> bool:
    """Whether what is known to be missing may be ends. A recorder that was stopped early, or began late, lost none."""
    others = (SHARED_TIME, OF_THE_TIME)
    return bool(quality.events_lost or quality.buffers_lost) or any(
        not reason.endswith(others) and not reason.startswith(ENDED_EARLY) for reason in quality.reasons
    )
