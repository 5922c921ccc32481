"""Whole streams: what a fraction of a workload is made of.

A stream is what one thread issued; where threads are unknown, what went to one file; where files are unknown too, what
went to one stretch of 64 MiB. Leaving out single I/Os instead would tear sequences and bursts apart and leave a load
that nobody has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from iotrace.schemas.run import Thinning as ThinningFacts

from .addresses import Slots
from .rows import Rows

_TAG_SHIFT = 60
_REGION_SHIFT = 26
KINDS = ("thread", "file", "stretch of 64 MiB")

Keys = npt.NDArray[np.int64]


def stream_keys(rows: Rows, slots: Slots) -> Keys:
    """One number per row, the same for rows of one stream. The thread's number is unique within a system."""
    region = (slots.of(rows.space) << 30) | (rows.offset_bytes >> _REGION_SHIFT)
    by_file = (1 << _TAG_SHIFT) | rows.file_id.astype(np.int64)
    by_thread = rows.thread_id.astype(np.int64) & 0xFFFFFFFF
    unthreaded = np.where(rows.file_id >= 0, by_file, (2 << _TAG_SHIFT) | region)
    return np.where(rows.thread_id != -1, by_thread, unthreaded)


@dataclass(slots=True)
class StreamCounts:
    """I/Os and bytes of every stream, gathered in one pass."""

    slots: Slots = field(default_factory=Slots)
    keys: Keys = field(default_factory=lambda: np.zeros(0, np.int64))
    ios: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    bytes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, rows: Rows, keys: Keys | None = None) -> None:
        """Count ``rows``, whose streams are ``keys`` where those are not `stream_keys`."""
        keys = np.concatenate([self.keys, stream_keys(rows, self.slots) if keys is None else keys])
        ios = np.concatenate([self.ios, np.ones(len(rows), np.int64)])
        sizes = np.concatenate([self.bytes, rows.size_bytes])
        self.keys, which = np.unique(keys, return_inverse=True)
        self.ios = np.zeros(len(self.keys), np.int64)
        self.bytes = np.zeros(len(self.keys), np.int64)
        np.add.at(self.ios, which, ios)
        np.add.at(self.bytes, which, sizes)


@dataclass(frozen=True, slots=True)
class Thinning:
    """The streams kept to play a fraction of a workload. Logs are not among them; see `log_stream`."""

    asked: float
    keys: Keys
    """Rising."""
    streams: int
    """Streams there are to choose from."""
    ios: int
    ios_of: int
    bytes: int
    bytes_of: int
    kinds: Mapping[str, int]
    """Streams kept by what they are."""

    def keeps(self, rows: Rows, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which rows belong to a stream that is kept."""
        return np.isin(stream_keys(rows, slots), self.keys)

    def describe(self) -> ThinningFacts:
        """For the manifest: shares achieved, and how far off the one of I/Os is, relative to what was asked."""
        share = self.ios / self.ios_of if self.ios_of else None
        return ThinningFacts(
            asked_share=self.asked,
            achieved_share=share,
            achieved_share_of_bytes=self.bytes / self.bytes_of if self.bytes_of else None,
            error=share / self.asked - 1 if share is not None else None,
            streams=self.streams,
            streams_kept=len(self.keys),
            streams_are=dict(self.kinds),
        )


def thin(counts: StreamCounts, share: float, seed: int) -> Thinning:
    """Choose streams in random order until their I/Os make up ``share`` of all, as nearly as whole streams can.

    Streams that would overshoot are passed over; at the end the one stream that brings the share nearest is added.
    """
    goal = share * int(counts.ios.sum())
    order = np.random.default_rng([seed, 1]).permutation(len(counts.keys))
    kept, total = [], 0
    passed_over = []
    for stream in order:
        ios = int(counts.ios[stream])
        if total + ios <= goal:
            kept.append(stream)
            total += ios
        else:
            passed_over.append(stream)
    nearest = min(passed_over, key=lambda stream: abs(total + int(counts.ios[stream]) - goal), default=None)
    if nearest is not None and abs(total + int(counts.ios[nearest]) - goal) < abs(total - goal):
        kept.append(nearest)
        total += int(counts.ios[nearest])
    chosen = np.array(sorted(kept), np.int64)
    keys = counts.keys[chosen]
    tags = keys >> _TAG_SHIFT
    return Thinning(
        asked=share,
        keys=keys,
        streams=len(counts.keys),
        ios=total,
        ios_of=int(counts.ios.sum()),
        bytes=int(counts.bytes[chosen].sum()),
        bytes_of=int(counts.bytes.sum()),
        kinds={kind: int((tags == tag).sum()) for tag, kind in enumerate(KINDS) if bool((tags == tag).any())},
    )
