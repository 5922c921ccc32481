"""A recording shared out among several load generators, by whole streams.

Every generator finds the shares for itself: the same recording, options and weights give the same, so that each I/O is
played by exactly one. A log is one stream, whoever wrote to it, and keeps its order; all others are as in `streams`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.options import ReplayOptions, Shard
from iotrace.schemas import IotraceError

from .log_stream import is_log
from .rows import Rows
from .scale import Cycle
from .schedule import cycle_of
from .selection import log_files
from .source import Source
from .streams import Keys, StreamCounts, stream_keys

_LOG = 3 << 60
"""Kinds of streams are told apart by the bits from 60 on; `streams` has 0 to 2."""

Keeps = Callable[[Rows], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Shares:
    """Who plays which stream. ``cycle`` is the stretch of time that all of them play, whole recording or window."""

    keys: Keys
    """Rising."""
    owners: npt.NDArray[np.int64]
    """Of each key, the generator's number."""
    ios: npt.NDArray[np.int64]
    """I/Os of the recording that each generator plays."""
    cycle: Cycle
    keys_of: Callable[[Rows], Keys]

    def keeper(self, number: int) -> Keeps:
        """Tells which rows the generator ``number`` plays."""

        def keeps(rows: Rows) -> npt.NDArray[np.bool_]:
            places = np.searchsorted(self.keys, self.keys_of(rows))
            return np.asarray(self.owners[places] == number, np.bool_)

        return keeps


@dataclass(slots=True)
class _Seen:
    """What the length of a pass is made of, as `Survey` has it."""

    ios: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def add(self, rows: Rows) -> None:
        self.first_ns = int(rows.at_ns[0]) if not self.ios else self.first_ns
        self.last_ns = int(rows.at_ns[-1])
        self.ios += len(rows)


def share_out(source: Source, options: ReplayOptions, weights: tuple[float, ...]) -> Shares:
    """Read through ``source`` once and give each stream to a generator.

    The stream with the most I/Os comes first; each goes to the generator that is furthest below its share (Graham 1969,
    longest processing time first). Raises `IotraceError` where a generator would get nothing.
    """
    log_ids = log_files(source.recording)
    counts, seen = StreamCounts(), _Seen()

    def keys_of(rows: Rows) -> Keys:
        keys = stream_keys(rows, counts.slots)
        return np.where(is_log(rows, log_ids), _LOG | rows.file_id.astype(np.int64), keys)

    for rows in source.rows(columns=("thread_id",)):
        seen.add(rows)
        counts.add(rows, keys_of(rows))
    owners = np.zeros(len(counts.keys), np.int64)
    taken = np.zeros(len(weights), np.int64)
    shares = np.array(weights) / sum(weights)
    for stream in np.lexsort((counts.keys, -counts.ios)):
        owner = int(np.argmin((taken + counts.ios[stream]) / shares))
        owners[stream] = owner
        taken[owner] += counts.ios[stream]
    if not taken.all():
        raise IotraceError(
            f"'{source.recording.path}' has {len(counts.keys):,} streams, too few for {len(weights)} generators",
            hint="use fewer generators: a stream (a thread, a log, or a file) stays whole",
        )
    return Shares(counts.keys, owners, taken, cycle_of(source, seen, options), keys_of)


def narrow(source: Source, options: ReplayOptions, shard: Shard) -> Cycle:
    """Leave in ``source`` what ``shard`` plays; returns the stretch of time that all shards play."""
    shares = share_out(source, options, shard.weights)
    source.keeps = shares.keeper(shard.number)
    return shares.cycle
