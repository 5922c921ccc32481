"""A transaction log stays one sequential stream, however many copies of a workload write to it.

A server under twice the load has one log that grows twice as fast, not two logs. So the log writes of all copies are
strung together in order of time: each begins where the one before it ended, less the overlap that it had with its own
predecessor in the recording, for databases that write the last page again until it is full. What the log touched in
the recording is used round and round. Reads of the log stay where they were.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from iotrace.schemas.arrays import Int64s

from .rows import WRITE, Rows

OVERLAP_BYTES_MAX = 1 << 20
"""A write that begins further back than this before the log's end is no rewrite of its tail but a jump."""


def is_log(rows: Rows, log_ids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Which rows go to a transaction log, by the keys of the log files."""
    return np.isin(rows.file_id, log_ids) if len(log_ids) else np.zeros(len(rows), np.bool_)


def log_key(rows: Rows) -> Int64s:
    """One number per log file and address space it lies in."""
    return (rows.file_id.astype(np.int64) << 32) | (rows.space.astype(np.int64) & 0xFFFFFFFF)


def _groups(keys: Int64s, chosen: npt.NDArray[np.bool_]) -> list[tuple[int, npt.NDArray[np.intp]]]:
    """Positions of the chosen rows of each key, rising."""
    return [(int(one), np.flatnonzero(chosen & (keys == one))) for one in np.unique(keys[chosen])]


@dataclass(slots=True)
class Overlaps:
    """Follows the log writes of one copy: how far each reaches back into what was just written."""

    _ends: dict[int, int] = field(default_factory=dict)

    def note(self, rows: Rows, logs: npt.NDArray[np.bool_]) -> Rows:
        """The rows with the overlap of each log write with its predecessor; 0 after a jump."""
        overlap = np.zeros(len(rows), np.int64)
        for one, mine in _groups(log_key(rows), logs & (rows.op == WRITE)):
            ends = rows.offset_bytes[mine] + rows.size_bytes[mine]
            before = np.concatenate([[self._ends.get(one, int(rows.offset_bytes[mine[0]]))], ends[:-1]])
            back = before - rows.offset_bytes[mine]
            overlap[mine] = np.where((back > 0) & (back <= OVERLAP_BYTES_MAX), back, 0)
            self._ends[one] = int(ends[-1])
        return rows.changed(overlap_bytes=overlap)


@dataclass(slots=True)
class Share:
    """Lets a fixed share of the log's I/Os through, evenly: the log of a smaller load, not a random part of one."""

    share: float
    _seen: dict[int, int] = field(default_factory=dict)

    def keeps(self, rows: Rows, logs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of the log I/Os to play; false for all others. Flushes, reads and writes are shared out apart."""
        kept = np.zeros(len(rows), np.bool_)
        for one, mine in _groups((log_key(rows) << 2) | rows.op, logs):
            first = self._seen.get(one, 0)
            number = np.arange(first, first + len(mine) + 1)
            kept[mine] = np.diff(np.floor(number * self.share)) > 0
            self._seen[one] = first + len(mine)
        return kept


@dataclass(slots=True)
class Ring:
    """The stretches of one log, rising and disjoint, written one after the other and round again."""

    starts: Int64s
    ends: Int64s
    stretch: int = 0
    end: int = -1
    """Where the last write ended; -1 before the first."""

    def place(self, size_bytes: Int64s, overlap_bytes: Int64s) -> Int64s:
        """The offset of each write. One that a stretch has no room for opens the next."""
        placed = np.zeros(len(size_bytes), np.int64)
        steps = size_bytes - np.minimum(overlap_bytes, size_bytes)
        if self.end < 0:
            self.end = int(self.starts[self.stretch])
        done = 0
        while done < len(size_bytes):
            begins = np.maximum(
                self.end + np.cumsum(steps[done:]) - size_bytes[done:], self.starts[self.stretch]
            )
            beyond = begins + size_bytes[done:] > self.ends[self.stretch]
            fit = int(np.argmax(beyond)) if beyond.any() else len(beyond)
            placed[done : done + fit] = begins[:fit]
            done += fit
            if fit:
                self.end = int(placed[done - 1] + size_bytes[done - 1])
            if done < len(size_bytes):
                self._turn(int(size_bytes[done]))
                placed[done] = self.end
                self.end += int(size_bytes[done])
                done += 1
        return placed

    def _turn(self, size_bytes: int) -> None:
        """To the start of the next stretch that is large enough; the source's own writes each fitted in one."""
        for _ in range(len(self.starts)):
            self.stretch = (self.stretch + 1) % len(self.starts)
            if self.ends[self.stretch] - self.starts[self.stretch] >= size_bytes:
                break
        self.end = int(self.starts[self.stretch])


@dataclass(slots=True)
class LogStream:
    """The rings of all logs, by file."""

    rings: dict[int, Ring]
    """By `log_key`."""

    def string(self, rows: Rows, logs: npt.NDArray[np.bool_]) -> Rows:
        """The rows, log writes strung together."""
        offset = rows.offset_bytes.copy()
        for one, mine in _groups(log_key(rows), logs & (rows.op == WRITE)):
            offset[mine] = self.rings[one].place(rows.size_bytes[mine], rows.overlap_bytes[mine])
        return rows.changed(offset_bytes=offset)
