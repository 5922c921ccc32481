"""The native engine: plays a plan of I/Os at exact times (see engine/src/pacer.rs for the method)."""

from typing import Any, Literal

import pyarrow as pa

class Engine:
    """A run under way on a thread of its own."""

    def __init__(
        self,
        plan: pa.RecordBatch,
        files: list[int],
        *,
        in_flight_max: int,
        errors_max: int | None = None,
        drain_ns: int = ...,
        backend: Literal["auto", "io_uring", "threads"] = "auto",
        seed: int = 0,
        spin_ns: int | None = None,
        batch: int | None = None,
    ) -> None:
        """Start playing ``plan`` on the open file descriptors ``files``, which must stay open until `finish`.

        ``plan`` has the columns intended_ns int64 (rising), offset_bytes uint64, size_bytes uint32, op uint8 (0 read,
        1 write, 2 flush), target uint16 (position in ``files``) and durable bool. The run stops once more than
        ``errors_max`` I/Os failed, and waits ``drain_ns`` at the end for what is in flight.

        Raises ``ValueError`` for a plan that cannot be played and ``OSError`` when the backend cannot start.
        """

    def wait(self, seconds: float) -> bool:
        """Wait for the end; true once the run is over."""

    def snapshot(self) -> dict[str, int]:
        """Counters now: elapsed_ns, due, issued, completed, failed, delayed, bytes, response_ns_sum, service_ns_sum."""

    def set_up(self) -> dict[str, Any]:
        """How the run was set up.

        backend; reason (why not io_uring, or None); start_utc_ns; in_flight_max; preferred (whether the pacer's thread
        goes before others, which takes root).
        """

    def stop(self) -> None:
        """Issue nothing more, wait for what is in flight."""

    def abandon(self) -> None:
        """End now, whatever is in flight."""

    def finish(self) -> tuple[pa.RecordBatch, str, str | None]:
        """Wait for the end and take the outcome, once.

        The batch has the columns intended_ns, issued_ns, completed_ns (null: not seen), error and flags; row n is
        row n of the plan, and rows never issued are missing at the end. The words tell how the run ended: normally,
        stopped, too_many_errors or broken, and for the last one why.
        """

def is_debug_build() -> bool:
    """Whether this module was built without optimisation."""
