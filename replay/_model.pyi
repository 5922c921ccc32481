"""Storage in virtual time (see model/src/simulator.rs for the method)."""

from typing import Any

import pyarrow as pa

class Simulator:
    """A model at rest. `offer` arrivals, `take` what came of them, `end`."""

    def __init__(
        self, spec: str, *, in_flight_max: int, seed: int = 0, classes: int = 1, keep: bool = True
    ) -> None:
        """A model as `iotrace.replay.virtual.compiled` writes it (model/src/spec.rs).

        An I/O is issued when it is due, or, with ``in_flight_max`` under way, when one of them completes. With ``keep``
        the outcome is kept row by row until it is taken, and counted by second. Raises ``ValueError`` for a model that
        makes no sense.
        """

    def offer(self, arrivals: pa.RecordBatch) -> None:
        """Play more arrivals, until the last of them is issued.

        Columns: intended_ns int64 (rising over all batches), offset_bytes uint64, size_bytes uint32, op uint8 (0 read,
        1 write, 2 flush), target uint16 (position of the volume); where they have a meaning durable bool and class
        uint8 (below ``classes``). Where I/Os wait for one another, in all batches, after uint32 (for the one so many
        rows earlier, at most 2^20; 0 for none: due at intended_ns) and think_ns int64 (due so long after it completed);
        it then plays only until 2^20 rows are known that were not issued, since a later row may be due earlier.
        Others are not looked at. Raises ``ValueError`` for arrivals that cannot be played.
        """

    def take(self) -> pa.RecordBatch | None:
        """Outcome of the first batch offered and not taken, once all of it has completed; else None.

        issued_ns and completed_ns int64, delayed bool (held back because too many were in flight), row by row; where
        I/Os wait for one another also intended_ns, when each came due.
        """

    def end(self) -> None:
        """Play to the end of all I/Os."""

    def figures(self) -> dict[str, Any]:
        """What the run adds up to.

        issued, completed, delayed, bytes, first_issued_ns, last_issued_ns, last_completed_ns (None where there is
        nothing); response, service, lateness and own_response (of those that were issued when due), each with count,
        mean_ns, max_ns, p50_ns, p90_ns, p95_ns, p99_ns and p999_ns (within 0.1 %); seconds: second, issued, completed,
        delayed, bytes (empty without ``keep``); gates: waited (I/Os), wait_ns_sum, wait_ns_max, throttled_ns (time
        during which any waited) and buckets: the same of each for the I/O at the head of the queue, with tokens_least,
        tokens_end and demand: tokens asked for as sum over so many seconds, as busiest in the fullest busiest_seconds
        (60, or all), and as points of step_s seconds each, at most 4,096; disks: busy_ns (sum over servers),
        in_flight_max and beyond_ios (whose size, or number in flight, lies beyond what was measured).
        """

    def count_of(self, classes: list[int]) -> int:
        """I/Os that several classes have together."""

    def response_ns_of(self, classes: list[int], shares: list[float]) -> list[int | None]:
        """Quantiles of the response of several classes together."""
