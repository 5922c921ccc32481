"""Which I/O waited for which: what mode ``think`` keeps.

An I/O issued after a completion on the same thread, or on the same log file, is taken to have waited for it; the time
between the two is thought, and divided by the scale. Of several completions it is the last one before the issue. What
nothing came before on its thread, and what has no thread, stays on the clock.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from iotrace.schemas.arrays import Int64s
from iotrace.schemas.run import Dependencies as DependencyFacts

from .log_stream import is_log
from .rows import NEVER, NO_ID, Rows

DISTANCE_MAX = 1 << 20
"""How many rows back a dependency may reach; the engine forgets completions beyond."""

_LOG_TAG = 1 << 60
_NO_STREAM = -1


def waiting_streams(rows: Rows, log_ids: npt.NDArray[np.int32]) -> Int64s:
    """The thread or log file of each row as one number; -1 for neither."""
    thread = np.where(rows.thread_id == NO_ID, _NO_STREAM, rows.thread_id.astype(np.int64) & 0xFFFFFFFF)
    return np.where(is_log(rows, log_ids), _LOG_TAG | rows.file_id.astype(np.int64), thread)


@dataclass(slots=True)
class Dependencies:
    """Feed it the rows in order; it remembers the completions that later rows may have waited for."""

    log_ids: npt.NDArray[np.int32]
    waiting: int = 0
    """I/Os that wait for another."""
    clocked: int = 0
    """I/Os that keep a deadline of their own."""
    think_ns: int = 0
    """Time thought in all, undivided."""
    _stream: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    _completed_ns: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    _row: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    def infer(self, rows: Rows, first_row: int) -> tuple[npt.NDArray[np.uint32], Int64s]:
        """For each row how many rows back the one it waited for is, 0 for none, and how long it thought, in ns.

        Times are the source's own; ``first_row`` is the number of the first in the plan.
        """
        count = len(rows)
        number = np.arange(first_row, first_row + count)
        stream = waiting_streams(rows, self.log_ids)
        ended = (rows.completed_ns != NEVER) & (rows.completed_ns >= rows.issued_ns) & (stream != _NO_STREAM)
        done_stream = np.concatenate([self._stream, stream[ended]])
        done_ns = np.concatenate([self._completed_ns, rows.completed_ns[ended]])
        done_row = np.concatenate([self._row, number[ended]])

        # Issues and completions of each stream in order of time; an issue goes before a completion of the same instant.
        is_done = np.repeat([False, True], [count, len(done_row)])
        order = np.lexsort(
            (is_done, np.concatenate([rows.issued_ns, done_ns]), np.concatenate([stream, done_stream]))
        )
        position = np.arange(len(order))
        last_done = np.maximum.accumulate(np.where(is_done[order], position, -1))
        issue = ~is_done[order]
        row_of, found = order[issue], last_done[issue]
        done = order[np.maximum(found, 0)] - count
        usable = (found >= 0) & (stream[row_of] != _NO_STREAM)
        done = np.where(usable, done, 0)
        if len(done_row):
            usable &= done_stream[done] == stream[row_of]
            distance = number[row_of] - done_row[done]
            usable &= (distance > 0) & (distance <= DISTANCE_MAX)
        after = np.zeros(count, np.uint32)
        think_ns = np.zeros(count, np.int64)
        waits = row_of[usable]
        if len(waits):
            after[waits] = distance[usable]
            think_ns[waits] = rows.issued_ns[waits] - done_ns[done[usable]]
        self.waiting += len(waits)
        self.clocked += count - len(waits)
        self.think_ns += int(think_ns.sum())
        if count:
            self._remember(done_stream, done_ns, done_row, int(rows.issued_ns[-1]), first_row + count)
        return after, think_ns

    def _remember(self, stream: Int64s, done_ns: Int64s, row: Int64s, now_ns: int, next_row: int) -> None:
        """Keep what is still to complete, and of each stream the last completion so far."""
        order = np.lexsort((done_ns, stream))
        stream, done_ns, row = stream[order], done_ns[order], row[order]
        # A row to come may be issued at this very instant: it waited for what ended before, not now.
        to_come = done_ns >= now_ns
        next_to_come = np.concatenate([to_come[1:], [True]])
        next_other = np.concatenate([stream[1:] != stream[:-1], [True]])
        kept = (to_come | next_other | next_to_come) & (row >= next_row - DISTANCE_MAX)
        self._stream, self._completed_ns, self._row = stream[kept], done_ns[kept], row[kept]

    def forget(self) -> None:
        """Start anew: nothing waits across the passes of a loop."""
        nothing = np.zeros(0, np.int64)
        self._stream, self._completed_ns, self._row = nothing, nothing, nothing

    def describe(self) -> DependencyFacts:
        """For the manifest."""
        return DependencyFacts(
            self.waiting, self.clocked, self.think_ns / self.waiting if self.waiting else None
        )
