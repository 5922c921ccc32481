"""Keeps what is recorded safe as it comes, within bounds of disk and time, when the host has a moment for it."""

from collections import deque
from pathlib import Path
from typing import Final

from iotrace.schemas import GrowingRecording, Manifest

_SEAL_BYTES: Final = 48 << 20
"""Some 450,000 I/Os on both layers."""
_RING_PIECES: Final = 20
_RING_PIECE_NS_MIN: Final = 5_000_000_000
_WAITING_BYTES_MAX: Final = 2 << 30
_IDLE_SHARE: Final = 0.15


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
        self._growing = growing
        self._max_bytes, self._ring_ns = max_bytes, ring_ns
        self._seal_bytes = _SEAL_BYTES if max_bytes is None else max(1, min(_SEAL_BYTES, max_bytes // 8))
        self._pieces: deque[tuple[int, int]] = deque()
        """Number and end of every sealed part."""
        self._sealed_ns = 0
        self._size_bytes = 0
        self._load = _ProcessorLoad()

    def keep(self, at_ns: int, manifest: Manifest) -> None:
        """Make everything up to ``at_ns`` survive. Raises `IotraceError` when the disk takes no more."""
        growing = self._growing
        growing.flush(manifest)
        if growing.open_bytes >= self._seal_bytes or at_ns - self._sealed_ns >= self._piece_ns:
            self._pieces.append((growing.seal(), at_ns))
            self._sealed_ns = at_ns
        waiting_max = min(_WAITING_BYTES_MAX, (self._max_bytes or _WAITING_BYTES_MAX * 4) // 4)
        if self._load.idle_share() > _IDLE_SHARE or growing.sealed_bytes > waiting_max:
            growing.encode_one()
        while self._ring_ns is not None and self._pieces and self._pieces[0][1] < at_ns - self._ring_ns:
            self._drop_oldest()
        self._bound_size()

    @property
    def _piece_ns(self) -> float:
        return (
            float("inf") if self._ring_ns is None else max(_RING_PIECE_NS_MIN, self._ring_ns // _RING_PIECES)
        )

    def _bound_size(self) -> None:
        if self._max_bytes is None:
            return
        # Headroom for what comes until the next look, and for a part beside the tail it is made from.
        size = self._growing.size_bytes
        growth = max(0, size - self._size_bytes)
        bound = self._max_bytes - self._seal_bytes - 2 * growth
        while (size := self._growing.size_bytes) > bound:
            if self._growing.encode_one():
                continue
            if self._ring_ns is None or not self._pieces:
                self.is_full = True
                break
            self._drop_oldest()
        self._size_bytes = size

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
