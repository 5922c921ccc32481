"""The native tally of I/Os in order of time (see tally/src/tally.rs)."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]

class Tally:
    """One pass: `add` rows and `advance` in turn, `finish`, then ask. Work is done without the interpreter's lock."""

    def __init__(
        self,
        streams: Sequence[
            tuple[int, int, int | None, int | None, bool, int, tuple[int, int, int, int | None] | None]
        ],
        *,
        metrics: list[str],
        window_ns: tuple[int, int],
        cuts_ns: list[int],
        room_bytes: int,
        is_work_only: bool = False,
    ) -> None:
        """Nothing counted yet.

        ``streams`` names every combination that occurs: positions of layer and operation in the vocabulary, ids of
        device and file or None, whether it is a transaction log, the group its latencies are counted in, and for
        streams of the layer whose load is described the numbers of its group (device and role), its device, its area
        (where equal offsets are the same block) and its kind (role and operation, None for operations that move no
        data). All are numbered from 0 without a gap.

        ``metrics`` are service, response and lateness. I/Os in flight are counted in ``window_ns``. ``cuts_ns`` is
        where each slice of time but the first begins, 29 at most. Where notes on blocks would take more than
        ``room_bytes``, blocks are made larger. With ``is_work_only`` there are only the footprint, the sequences and
        the arrivals of all I/Os; all else stays at 0.

        Raises ``ValueError`` for numbers that are none of these.
        """

    def add(
        self,
        *,
        op: Bytes,
        issued_ns: Int64s,
        completed_ns: Int64s,
        offset_bytes: UInt64s,
        size_bytes: UInt32s,
        device_id: Int32s,
        file_id: Int32s,
        layer: Bytes | None = None,
        error: Int32s | None = None,
        intended_ns: Int64s | None = None,
    ) -> None:
        """Take in rows in any order; of equal times those that come first go first.

        Arrays are of one length and read-only: nobody may write to them meanwhile. ``layer`` and ``op`` are positions
        in the vocabulary. Null is the least int64 in times, the least int32 in ids, 2**64 - 1 in offsets. Columns
        that are not given say the same of all rows: the first stream's layer, no error, nothing intended.

        Raises ``ValueError`` and ``BufferError`` for other arrays, and ``ValueError`` for a stream that was not named.
        """

    def advance(self, until_ns: int) -> None:
        """Count what was issued before ``until_ns``. Raises ``ValueError`` if some of it precedes what was counted."""

    def finish(self) -> None:
        """Count the rest."""

    def arrivals(
        self,
    ) -> tuple[
        list[tuple[int, float | None, list[float | None]]],
        list[tuple[int, float | None, list[float | None]]],
        tuple[int, float | None, list[float | None]],
    ]:
        """Per group, per device and of all: how many reads and writes, and how they arrived.

        That is the coefficient of variation of the gaps between them, and how many times the mean the fullest 10 ms,
        100 ms and 1 s hold. See schemas/load/src/arrivals.rs.
        """

    def flight(self) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """Per device and of all: most in flight at once, and the time-integral of their number in nanoseconds."""

    def group_flight_ns(self) -> list[int]:
        """Per group: the time-integral of the number in flight."""

    def busiest(self) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
        """Per length of window, in ns: where the one with the most reads and writes begins, and how many; with bytes.

        Of all windows wherever they begin; 0 where there was none.
        """

    def sequences(self) -> list[tuple[int, int]]:
        """Per stream: I/Os with a place, and those of them that are sequential. See schemas/load/src/sequence.rs."""

    def histogram(self, metric: str) -> bytes:
        """int64, five to a row: group, bucket_ns, io_count, latency_sum_ns, latency_max_ns.

        The last two stand in the first row of a group and are 0 in the others.
        """

    def seconds(self) -> bytes:
        """int64, seven to a row: layer (position), then the columns of query ``io_per_second``."""

    def block_bytes(self) -> int:
        """How large blocks are, in the end."""

    def slices(self) -> list[tuple[int, int, int, float | None]]:
        """Per slice of time: I/Os that moved data, bytes touched, bytes touched for the first time, and a share.

        Bytes are in whole 4 KiB. The share is that of the I/Os which began in the busiest hundredth of the blocks in
        which any began, None below 100 blocks.
        """

    def touched_bytes(self, kinds: list[int], areas: list[int] | None) -> int:
        """Different bytes that any of ``kinds`` touched, in some areas or in all, in whole 4 KiB."""

    def share_of_busiest(self) -> float | None:
        """As in `slices`, over all of them."""

    def hot_pages(self, most: int) -> list[tuple[int, int, int, list[int]]]:
        """Where most I/Os began, by pages of 256 blocks: area, offset, I/Os, and these by slice of time."""

class Classes:
    """Latencies by class of I/Os, from rows in any order; `add`, then ask. Works without the interpreter's lock.

    Classes are numbered (operation * ``role_count`` + role) * 10 + size class: powers of two from 4 KiB to 1 MiB, then
    what is larger.
    """

    def __init__(
        self,
        roles: Sequence[tuple[int, int]],
        role_count: int,
        *,
        layer: int,
        is_response: bool,
        span_ns: tuple[int, int],
        slots: tuple[int, int, int] | None = None,
        limits_ns: Sequence[tuple[int, Sequence[int]]] = (),
    ) -> None:
        """Nothing counted yet.

        ``roles`` are ids of files with the number of their role, which is 0 for all other files; ``layer`` is its
        position in the vocabulary. What was issued in ``span_ns`` counts, its end not included; it took from when it
        was issued, or from when it was due if ``is_response``. With ``slots`` (start, length, how many) their course
        is counted instead of histograms, of the classes with six ``limits_ns`` each.

        Raises ``ValueError`` for numbers that are none of these.
        """

    def add(
        self,
        *,
        op: Bytes,
        issued_ns: Int64s,
        completed_ns: Int64s,
        size_bytes: UInt32s,
        file_id: Int32s,
        layer: Bytes | None = None,
        error: Int32s | None = None,
        intended_ns: Int64s | None = None,
    ) -> None:
        """Take in rows, arrays and nulls as in `Tally.add`; without ``layer`` all are of the chosen one.

        Raises ``ValueError`` and ``BufferError`` for others.
        """

    def histogram(self) -> bytes:
        """int64, four to a row: class, bucket_ns, io_count, latency_sum_ns; the last in the first row of a class."""

    def course(self) -> bytes:
        """int64, ten to a row: class, slot, io_count, latency_sum_ns, and I/Os that did not exceed each limit."""

    def doublings(self) -> bytes:
        """int64, four to a row, of courses: operation, slot, bits of a latency, and I/Os whose latency has as many."""

class Course:
    """Load and latency of one layer over slots of time, from rows in any order; works without the lock."""

    def __init__(self, layer: int, span_ns: tuple[int, int], slot_ns: int) -> None:
        """Nothing counted yet; ``layer`` is its position in the vocabulary, slots of ``slot_ns`` cover the span.

        Raises ``ValueError`` for no slots, or a million of them.
        """

    def add(
        self,
        *,
        op: Bytes,
        issued_ns: Int64s,
        completed_ns: Int64s,
        size_bytes: UInt32s,
        layer: Bytes,
        error: Int32s,
        intended_ns: Int64s | None = None,
    ) -> None:
        """Take in rows, arrays and nulls as in `Tally.add`. Raises ``ValueError`` and ``BufferError`` for others."""

    def before(self) -> int:
        """I/Os that began before the first slot and ended in or after it."""

    def slots(self) -> bytes:
        """int64, nine to a slot: the columns of query ``report_timeline``, then ``longest_ns`` of the other."""

    def bands(self) -> bytes:
        """uint32, 380 to a slot: I/Os by band of latency, as query ``report_heat_map`` counts them."""

class StreamSlots:
    """Load and latency of every stream over slots of time, from rows in any order; works without the lock."""

    def __init__(
        self,
        streams: Sequence[tuple[int, int, int | None, int | None, int]],
        *,
        span_ns: tuple[int, int],
        slot_ns: int,
        longest_slots: int,
    ) -> None:
        """Nothing counted yet.

        ``streams`` names every combination of layer, operation (positions in the vocabulary), device and file that
        occurs, and the number of the group that counts its I/Os. Slots of ``slot_ns`` cover the span; an I/O counts in
        so many slots after its own at most.

        Raises ``ValueError`` for no slots, a million of them, or groups that are not numbered from 0.
        """

    def add(
        self,
        *,
        op: Bytes,
        issued_ns: Int64s,
        completed_ns: Int64s,
        size_bytes: UInt32s,
        device_id: Int32s,
        file_id: Int32s,
        layer: Bytes | None = None,
        error: Int32s | None = None,
        intended_ns: Int64s | None = None,
    ) -> None:
        """Take in rows, arrays and nulls as in `Tally.add`. Raises ``ValueError`` and ``BufferError`` for others."""

    def merge(self, other: StreamSlots) -> None:
        """Add what ``other``, made alike, has counted; it has nothing afterwards."""

    def cells(self) -> tuple[bytes, bytes]:
        """What each group has in each slot, where anything is.

        int64, twelve to a row: group, slot, io_count, size_bytes, ended_count, measured_count, latency_sum_ns,
        begun_count, in_flight_ns, waiting_count, waiting_sum_ns, waiting_in_flight_ns; and float64, four to a row:
        log_latency_sum, log_latency_square_sum, waiting_log_sum, waiting_log_square_sum. Query ``incident_seconds``
        says what they are.
        """

class LayerSlots:
    """Latency of every layer over slots of time, from rows in any order; works without the lock."""

    def __init__(self, only_layer: int, span_ns: tuple[int, int], slot_ns: int) -> None:
        """Nothing counted yet; ``only_layer`` is the position of that of rows that do not say theirs.

        Raises ``ValueError`` for no slots, or a million of them.
        """

    def add(
        self,
        *,
        op: Bytes,
        issued_ns: Int64s,
        completed_ns: Int64s,
        layer: Bytes | None = None,
        error: Int32s | None = None,
    ) -> None:
        """Take in rows, arrays and nulls as in `Tally.add`. Raises ``ValueError`` and ``BufferError`` for others."""

    def slots(self) -> bytes:
        """int64, five to a row: layer, operation, slot, io_count, latency_sum_ns, as query ``layer_slots`` has them."""

def best_borders(values: Floats, weight: Floats, *, penalty: float, longest: int) -> list[int]:
    """Borders that minimise weighted squared deviations plus ``penalty`` per change, the first 0, the last the length.

    ``values`` and ``weight`` have one length, two or more. Segments have two points or more, and at most ``longest``.
    Raises ``ValueError`` otherwise.
    """
