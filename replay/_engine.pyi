"""The native engine: plays a plan of I/Os at exact times (see engine/src/pacer.rs for the method)."""

from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa

class Engine:
    """A run. `offer` the plan, `start`, then `wait` and `take` in turn; nothing here blocks but `wait`."""

    def __init__(
        self,
        files: list[int],
        *,
        in_flight_max: int,
        read_bytes_max: int,
        write_bytes_max: int,
        paced: bool = True,
        issue_for_ns: int | None = None,
        errors_max: int | None = None,
        drain_ns: int | None = None,
        stall_ns: int | None = None,
        backend: Literal["auto", "io_uring", "threads", "completion_port"] = "auto",
        submitters: int = 1,
        seed: int = 0,
        pacing: Literal["precise", "gentle"] = "precise",
        batch: int | None = None,
        simulate: Mapping[str, Any] | None = None,
        direct: bool = True,
    ) -> None:
        """A run on the open file descriptors ``files``, which must stay open until it is over.

        ``paced=False`` is a closed loop: deadlines are ignored and ``in_flight_max`` I/Os kept in flight, so that
        ``intended_ns`` comes back equal to ``issued_ns``. Nothing is issued after ``issue_for_ns``. The run ends once
        more than ``errors_max`` I/Os failed, or when a target with I/Os in flight completes nothing for ``stall_ns``
        (by default 120 s), and waits ``drain_ns`` (30 s) at its end for what is in flight. ``submitters`` threads
        issue: every region of 64 MiB of a target, and every stream, belongs to one of them, in which the plan's order
        is kept.

        ``pacing`` is what is done between two deadlines: spin, or sleep.

        ``simulate`` plays in simulated time on a simulated disk of ``servers`` servers whose ``service`` is constant,
        exponential (of ``service_ns``) or never; with ``fail_every`` (n, errno), ``stall_ns`` (at, for),
        ``removed_at_ns``, ``breaks_after`` (so many I/Os it takes no more) and ``hangs_after`` (the call that hands
        it more never returns, in real time).

        On Windows ``files`` are values of open handles, which the engine opens again for itself: past the cache if
        ``direct``. Elsewhere that is a property of the descriptor.

        Raises ``ValueError`` for words that mean nothing.
        """

    def offer(self, plan: pa.RecordBatch) -> None:
        """More of the plan, before or after `start`.

        Columns: intended_ns int64 (rising over all batches), offset_bytes uint64, size_bytes uint32 (at most
        ``read_bytes_max`` or ``write_bytes_max``), op uint8 (0 read, 1 write, 2 flush), target uint16 (position in
        ``files``), durable bool. Where they have a meaning: preflush bool (a flush goes before the write and belongs to
        it), stream uint16 (I/Os of the same, other than 0, keep their order wherever they go), after uint32 and
        think_ns int64 (0, or due ``think_ns`` after the row ``after`` rows earlier has completed; needs a single
        submitter). Other columns come back untouched.

        Raises ``ValueError`` for a plan that cannot be played.
        """

    def wanted(self) -> int:
        """Rows to offer now so that the plan is known far enough ahead (about a million rows)."""

    def end_plan(self) -> None:
        """The plan is complete."""

    def start(self, at_ns: int | None = None) -> None:
        """Get ready and let the clock run. Raises ``OSError`` when the backend cannot be had.

        The run's 0 is when the system's monotonic clock reads ``at_ns``; at once where it is None or over by then.
        """

    def wait(self, seconds: float) -> bool:
        """Wait for the end; true once the run is over."""

    def take(self) -> pa.RecordBatch | None:
        """The next batch of the plan of which all I/Os have completed, in order; once the run is over, also the others.

        It has the columns of the plan, ``intended_ns`` being when an I/O really was due, and issued_ns int64,
        completed_ns int64 (null: not seen), error int32 and delayed bool (held back because too many
        were in flight, or the disk's own queue was full). Rows never issued are left out. None where there is none.
        """

    def snapshot(self) -> dict[str, int]:
        """Counters now.

        elapsed_ns, due, issued, completed, failed, delayed, starved (times the plan was not offered soon enough),
        waits_for_room (times the kernel made a submitter wait, because the queue of a disk was full), bytes,
        response_ns_sum, service_ns_sum, spun_ns (time that the submitters spun before deadlines).
        """

    def set_up(self) -> dict[str, Any]:
        """How the run was set up.

        backend; reason (why not the best there is, or None); unregistered (why memory could not be registered with the
        kernel, or None); start_utc_ns; start_ns (the monotonic clock at the run's 0); in_flight_max;
        preferred (whether the submitters go before others, which takes
        root and precise pacing); submitters.
        """

    def stop(self) -> None:
        """Issue nothing more, wait for what is in flight."""

    def abandon(self) -> None:
        """End now, whatever is in flight."""

    def ended(self) -> dict[str, Any]:
        """How the run ended.

        word: normally, stopped, too_many_errors, stalled (on ``target``, a position), hung (a system call did not
        return) or broken (for ``reason``); threads_left_behind in the kernel.
        """

    def tally(self) -> dict[str, Any]:
        """What everything taken so far adds up to.

        issued, completed, failed, delayed, bytes, first_issued_ns, last_issued_ns, last_completed_ns (None where there
        is nothing), errors (errno to count); lateness, response, service, own_lateness and own_response (``own``: of
        those that too many in flight did not hold back; response and service of those without error), each with count,
        mean_ns, max_ns, p50_ns, p90_ns, p99_ns and p999_ns (within 0.1 %); seconds: one dict for each second of the run
        with issued, completed, failed, delayed, bytes, lateness_ns_p50, lateness_ns_p99, lateness_ns_max and
        processor_ns (of the whole process).
        """

class Times:
    """A distribution of times within 0.1 %, as those of `Engine.tally`. Memory does not grow with their number."""

    def __init__(self) -> None: ...
    def add(self, times: pa.RecordBatch) -> None:
        """Add the column ns, int64 without nulls."""

    def figures(self) -> dict[str, Any]:
        """count, mean_ns, max_ns, p50_ns, p90_ns, p99_ns and p999_ns; None where there is nothing."""

class Shape:
    """Counts what the figures on the shape of a load are made of (see schemas/load)."""

    def __init__(self) -> None: ...
    def add(self, rows: pa.RecordBatch) -> None:
        """Add I/Os, each issued no earlier than the one before.

        Columns: at_ns, space, offset_bytes and size_bytes int64, file_id int32, op uint8 (position in the vocabulary),
        is_log uint8 (not 0 for I/Os of a transaction log) and, if what is touched is counted by something else than
        the slot of the space, medium int64. Raises ``ValueError`` for more than 262,144 spaces.
        """

    def counts(self) -> dict[str, Any]:
        """Figures so far.

        ios, first_ns and last_ns of I/Os of any kind; of reads and writes moved_bytes, span_ns (from the first to the
        last), rate_per_s, cv_interarrival, peak_to_mean (10 ms, 100 ms and 1 s), transfers (how many), sequential (how
        many of them are) and footprint_bytes.
        """

    def spaces(self) -> list[int]:
        """Address spaces that reads and writes went to, in order of first sight: the position is the slot."""

    def stretches(self, most: int) -> pa.RecordBatch:
        """As `Footprint.stretches`."""

class Footprint:
    """What transfers touch, by slot, in granules of 4 KiB."""

    def __init__(self) -> None: ...
    def add(self, transfers: pa.RecordBatch) -> None:
        """Add transfers: slot, offset_bytes and size_bytes, int64."""

    def bytes(self) -> int:
        """Bytes touched, each once."""

    def stretches(self, most: int) -> pa.RecordBatch:
        """Disjoint stretches, rising: start and end int64, see `addresses.place`.

        Of more than ``most`` those nearest one another in a slot are joined.
        """

class Sequences:
    """Tells which transfers are sequential (see schemas/load/src/sequence.rs)."""

    def __init__(self) -> None: ...
    def add(self, transfers: pa.RecordBatch) -> bytes:
        """A byte for each transfer, in order of time: 1 if it is sequential.

        Columns: space, offset_bytes and size_bytes int64, file_id int32, is_write and is_log uint8.
        """

def try_waiting(seconds: float) -> dict[str, int]:
    """What waiting costs on this host, tried for so long without any I/O (see engine/src/trial.rs).

    In nanoseconds, each as its p50, p90 and p99 (``lateness_ns_p50``): lateness (how late a sleeper wakes),
    others_beside_sleeper (how long a thread that was woken waits to run), others_beside_spinner (the same while the one
    that woke it spins). Raises ``OSError`` where no thread can be made.
    """

def is_debug_build() -> bool:
    """Whether this module was built without optimisation."""
