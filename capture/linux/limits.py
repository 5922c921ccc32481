"""Keeps what is recorded safe as it comes, within bounds of disk and time, when the host has a moment for it.

The recorder gives way to what it records, and ends when it is asked to.
"""

import os
import signal
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import psutil
import pyarrow as pa

from iotrace.schemas import GrowingRecording, Manifest, stopping
from iotrace.schemas.streams import stream_bytes

_SEAL_BYTES: Final = 48 << 20
"""Some 450,000 I/Os on both layers."""
_RING_PIECES: Final = 20
_RING_PIECE_NS_MIN: Final = 5_000_000_000
_WAITING_BYTES_MAX: Final = 2 << 30
_IDLE_SHARE: Final = 0.15
_NICENESS: Final = 10


class Keeper:
    """Flushes, seals, encodes and drops.

    Rows go to Arrow streams at once, which costs next to nothing. They become Parquet when processors are idle, when
    too much is waiting, or at the end.
    """

    def __init__(self, growing: GrowingRecording, *, max_bytes: int | None, ring_ns: int | None) -> None:
        """``max_bytes``: bound on the disk; ``ring_ns``: how much of the past is kept."""
        self.window_start_ns = 0
        self.is_full = False
        """The bound is reached, and there is nothing to drop."""
        self.left_out = 0
        """Rows that came when there was no room for them any more."""
        self.end_ns: int | None = None
        """When the first I/O that was left out ended: the recording is whole until then."""
        self._growing = growing
        self._max_bytes, self._ring_ns = max_bytes, ring_ns
        self._seal_bytes = _SEAL_BYTES if max_bytes is None else max(1, min(_SEAL_BYTES, max_bytes // 8))
        self._pieces: deque[tuple[int, int]] = deque()
        """Number and end of every sealed part."""
        self._sealed_ns = 0
        self._size_bytes = 0
        self._load = _ProcessorLoad()

    def admit(self, io: pa.Table) -> pa.Table:
        """The rows of ``io``, just read, that there is room for; in a ring the oldest parts make way for them.

        Called before rows are appended, so that the bound holds however many come at once: where they do not fit,
        those that ended first are taken, and none after them. Raises `IotraceError` when the disk takes no more.
        """
        if (
            self._max_bytes is None
            or not len(io)
            or (not self.left_out and self._make_room(stream_bytes(io)))
        ):
            return io
        self.is_full = True
        in_order = io.sort_by("completed_ns")
        fitting = 0 if self.left_out else self._count_fitting(in_order)
        self.left_out += len(io) - fitting
        if self.end_ns is None:
            self.end_ns = max(self.window_start_ns, in_order["completed_ns"][fitting].as_py())
        return in_order.slice(0, fitting)

    def keep(self, at_ns: int, manifest: Manifest) -> None:
        """Make everything up to ``at_ns`` survive. Raises `IotraceError` when the disk takes no more."""
        growing = self._growing
        growth = growing.pending_bytes
        growing.flush(manifest)
        if growing.open_bytes >= self._seal_bytes or at_ns - self._sealed_ns >= self._piece_ns:
            self._pieces.append((growing.seal(), at_ns))
            self._sealed_ns = at_ns
        waiting_max = min(_WAITING_BYTES_MAX, (self._max_bytes or _WAITING_BYTES_MAX * 4) // 4)
        if self._load.idle_share() > _IDLE_SHARE or growing.sealed_bytes > waiting_max:
            growing.encode_one()
        while self._ring_ns is not None and self._pieces and self._pieces[0][1] < at_ns - self._ring_ns:
            self._drop_oldest()
        self._bound_size(growth)

    @property
    def _piece_ns(self) -> float:
        return (
            float("inf") if self._ring_ns is None else max(_RING_PIECE_NS_MIN, self._ring_ns // _RING_PIECES)
        )

    def _bound_size(self, growth: int) -> None:
        if self._max_bytes is None:
            return
        # Headroom to end in order, for what comes until the next look and after it.
        if not self._make_room(2 * growth):
            self.is_full = True

    def _make_room(self, more: int) -> bool:
        """Whether ``more`` bytes of rows fit, after encoding and dropping what it takes."""
        self._size_bytes = self._growing.size_bytes
        while not self._fits(more):
            if not (self._growing.settle() or self._growing.encode_one()):
                if self._ring_ns is None or not self._pieces:
                    return False
                self._drop_oldest()
            self._size_bytes = self._growing.size_bytes
        return True

    def _fits(self, more: int) -> bool:
        needed = self._size_bytes + self._growing.finish_bytes(more)
        return self._max_bytes is None or needed <= self._max_bytes

    def _count_fitting(self, io: pa.Table) -> int:
        """How many of the first rows fit."""
        return bisect_right(
            range(1, len(io) + 1),
            0,
            key=lambda rows: int(not self._fits(stream_bytes(io.slice(0, rows)))),
        )

    def _drop_oldest(self) -> None:
        number, end_ns = self._pieces.popleft()
        self._growing.drop(number)
        self.window_start_ns = end_ns


class _ProcessorLoad:
    """The share of time in which processors had nothing to do (``man 5 proc_stat``)."""

    def __init__(self) -> None:
        self._before = self._read()

    def idle_share(self) -> float:
        """Since the last call."""
        now = self._read()
        change = [after - before for before, after in zip(self._before, now, strict=True)]
        self._before = now
        return (change[3] + change[4]) / max(1, sum(change))

    @staticmethod
    def _read() -> list[int]:
        line = Path("/proc/stat").read_text("ascii").partition("\n")[0]
        return [int(word) for word in line.split()[1:9]]


class Priority:
    """Context manager: processor and disk go to others first; the kernel's buffers bridge the time.

    For the thread that enters it. Restored afterwards, if allowed.
    """

    def __enter__(self) -> Self:
        self._thread = threading.get_native_id()
        self._before = os.getpriority(os.PRIO_PROCESS, self._thread)
        os.setpriority(os.PRIO_PROCESS, self._thread, min(19, self._before + _NICENESS))
        self._disk = _lower_disk_priority()
        self._disk.__enter__()
        return self

    def restore(self) -> None:
        """Take the processor as others do: whoever gives way for too long loses events."""
        with suppress(PermissionError):  # only root may take priority back
            os.setpriority(os.PRIO_PROCESS, self._thread, self._before)

    def __exit__(self, *_: object) -> None:
        self.restore()
        self._disk.__exit__(None, None, None)


@contextmanager
def _lower_disk_priority() -> Iterator[None]:
    """For the main thread, the only one that can be named to the kernel from here."""
    process = psutil.Process()
    if threading.get_native_id() != process.pid:
        yield
        return
    before = process.ionice()
    with suppress(psutil.Error, OSError):
        process.ionice(psutil.IOPRIO_CLASS_BE, 7)
    try:
        yield
    finally:
        with suppress(psutil.Error, OSError, ValueError):
            process.ionice(before.ioclass, before.value)


@contextmanager
def ends_on_signals(ended: threading.Event) -> Iterator[None]:
    """The first signal sets ``ended``. After it only Ctrl-C raises ``KeyboardInterrupt``, for who will not wait."""

    def end(number: int, count: int) -> None:
        ended.set()
        if count > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt

    with stopping.on_request(end):
        yield
