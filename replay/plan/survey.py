"""The first pass over a recording: what will be played, in sums. Memory does not grow with the number of I/Os.

The shape of a load is its rate, burstiness, sequentiality and footprint, gathered from I/Os in order of time.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _engine
from iotrace.replay.options import ReplayOptions
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.run import PEAK_WIDTHS, LoadShape

from .addresses import EXTENTS_MAX, Places, Slots, Touched, granule_of
from .log_stream import Ring, is_log, log_key
from .rows import NO_ID, READ, WRITE, Rows
from .selection import log_files, select
from .source import Source
from .streams import StreamCounts


@dataclass(slots=True)
class Shape:
    """Add I/Os in order of time, in pieces of any size; then ask. The figures are defined in schemas/load."""

    _native: _engine.Shape = field(default_factory=_engine.Shape)

    def add(
        self,
        rows: Rows,
        *,
        is_log: npt.NDArray[np.bool_] | None = None,
        space: npt.NDArray[np.int64] | None = None,
        medium: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Add I/Os; of what neither reads nor writes only the number and the times are kept.

        Sequences run within a file of a ``space``, that of the rows where none is given. What is touched is counted by
        ``medium`` where several spaces share one. Raises ``ValueError`` for more than 262,144 spaces.
        """
        columns = {
            "at_ns": rows.at_ns,
            "op": rows.op,
            "is_log": np.zeros(len(rows), np.uint8) if is_log is None else is_log.astype(np.uint8),
            "space": rows.space.astype(np.int64) if space is None else space,
            "file_id": rows.file_id,
            "offset_bytes": rows.offset_bytes,
            "size_bytes": rows.size_bytes,
        } | ({} if medium is None else {"medium": medium})
        self._native.add(pa.record_batch(columns))

    @property
    def counts(self) -> dict[str, Any]:
        """What was counted: see `_engine.Shape.counts`."""
        return self._native.counts()

    @property
    def slots(self) -> Slots:
        """The address spaces that transfers went to."""
        return Slots.of_ids(self._native.spaces())

    def stretches(self) -> tuple[Places, Places]:
        """What transfers touched, by slot (or medium): first places and the places after the last, disjoint, rising."""
        found = self._native.stretches(EXTENTS_MAX)
        return found["start"].to_numpy(), found["end"].to_numpy()

    def retimed(self, at_ns: npt.NDArray[np.int64]) -> LoadShape:
        """`result` with the I/Os at other times, rising; places and their order as they were added."""
        times, nothing = _engine.Shape(), np.zeros(len(at_ns), np.int64)
        columns = dict.fromkeys(("space", "offset_bytes", "size_bytes"), nothing) | {
            "at_ns": at_ns,
            "op": np.full(len(at_ns), READ, np.uint8),
            "is_log": np.zeros(len(at_ns), np.uint8),
            "file_id": np.zeros(len(at_ns), np.int32),
        }
        times.add(pa.record_batch(columns))
        found = Shape(times).result()
        return replace(
            self.result(),
            ios=found.ios,
            span_ns=found.span_ns,
            rate_per_s=found.rate_per_s,
            rate_bytes_per_s=self.counts["moved_bytes"] * 1e9 / found.span_ns if found.span_ns else None,
            cv_interarrival=found.cv_interarrival,
            peak_to_mean=found.peak_to_mean,
        )

    def result(self) -> LoadShape:
        """The figures, of reads and writes but for ``ios``, which counts what else there is, too.

        ``cv_interarrival`` is the coefficient of variation of the times between arrivals (0 a metronome, 1 Poisson).
        ``peak_to_mean`` compares the fullest stretch of each width with the mean, for widths the load fills at least
        ten times. ``sequential_share`` is the share that begins where one of the last 16 of its operation in the same
        address space ended, or writes a log's end again. ``footprint_bytes`` counts each byte touched once, in whole
        4 KiB. Null where there is too little to say.
        """
        counts = self.counts
        span_ns, transfers = counts["span_ns"], counts["transfers"]
        return LoadShape(
            ios=counts["ios"],
            span_ns=span_ns,
            rate_per_s=counts["rate_per_s"],
            rate_bytes_per_s=counts["moved_bytes"] * 1e9 / span_ns if span_ns else None,
            cv_interarrival=counts["cv_interarrival"],
            peak_to_mean=dict(zip(PEAK_WIDTHS, counts["peak_to_mean"], strict=True)),
            sequential_share=counts["sequential"] / transfers if transfers else None,
            footprint_bytes=counts["footprint_bytes"],
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass of the recording holds."""

    ios: int
    first_ns: int
    last_ns: int
    skipped: Mapping[str, int]
    shape: LoadShape
    """See `Shape.result`."""
    slots: Slots
    """The number under which ``starts`` and ``ends`` know each address space."""
    starts: Places
    ends: Places
    written: frozenset[int]
    """Address spaces that writes go to."""
    spaces: tuple[int, ...]
    """All address spaces, those that only flushes name included."""
    read_bytes_max: int
    write_bytes_max: int
    streams: StreamCounts | None
    log_ids: npt.NDArray[np.int32]
    """Keys of the transaction logs' files, rising."""
    log_ios: int
    unattributed_ios: int
    """I/Os whose file is unknown."""
    _log_touched: Mapping[int, tuple[Slots, Touched]]

    def rings(self) -> dict[int, Ring]:
        """For each log what its writes touched, in bytes; new ones on every call."""
        rings = {}
        for key, (_, touched) in self._log_touched.items():
            starts, ends = touched.stretches()
            rings[key] = Ring(granule_of(starts) * 4096, granule_of(starts) * 4096 + (ends - starts) * 4096)
        return rings


def survey(
    source: Source,
    *,
    count_streams: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Survey:
    """Read through ``source`` once. ``progress`` is told the I/Os seen so far.

    Raises `IotraceError` when nothing is left to play.
    """
    skipped: dict[str, int] = {}
    shape = Shape()
    streams = StreamCounts() if count_streams else None
    log_ids = log_files(source.recording)
    written: set[int] = set()
    spaces: set[int] = set()
    log_touched: dict[int, tuple[Slots, Touched]] = {}
    largest = [0, 0]
    log_ios = unattributed = seen = 0
    # Reading, counting and the rest go side by side.
    with ThreadPoolExecutor(1, "iotrace-shape") as helper:
        shaping: Future[None] | None = None
        for rows in source.rows(skipped, columns=("thread_id",) if count_streams else ()):
            seen += len(rows)
            logs = is_log(rows, log_ids)
            if shaping is not None:
                shaping.result()
            shaping = helper.submit(shape.add, rows, is_log=logs)
            spaces |= set(_distinct(rows.space))
            writes = rows.op == WRITE
            if writes.any():
                written |= set(_distinct(rows.space[writes]))
            for op in (READ, WRITE):
                largest[op] = max(largest[op], int(rows.size_bytes.max(initial=0, where=rows.op == op)))
            unattributed += int(np.count_nonzero(rows.file_id == NO_ID))
            if logs.any():
                log_ios += int(np.count_nonzero(logs))
                _touch_logs(rows[logs & writes], log_touched)
            if streams is not None:
                streams.add(rows[~logs])
            if progress is not None:
                progress(seen)
        if shaping is not None:
            shaping.result()
    counts = shape.counts
    if not counts["ios"]:
        raise _nothing(source, skipped)
    starts, ends = shape.stretches()
    return Survey(
        ios=counts["ios"],
        first_ns=counts["first_ns"],
        last_ns=counts["last_ns"],
        skipped=skipped,
        shape=shape.result(),
        slots=shape.slots,
        starts=starts,
        ends=ends,
        written=frozenset(written),
        spaces=tuple(sorted(spaces)),
        read_bytes_max=largest[READ],
        write_bytes_max=largest[WRITE],
        streams=streams,
        log_ids=log_ids,
        log_ios=log_ios,
        unattributed_ios=unattributed,
        _log_touched=log_touched,
    )


def shape_of(recording: Recording, options: ReplayOptions | None = None) -> LoadShape | None:
    """The shape of what a recording holds, as ``options`` choose of it; None where it cannot be told."""
    try:
        return survey(Source.open(recording, select(recording, options or ReplayOptions()))).shape
    except IotraceError:
        return None


def _distinct(values: npt.NDArray[np.int32]) -> list[int]:
    return [int(values[0])] if (values == values[0]).all() else np.unique(values).tolist()


def _touch_logs(rows: Rows, touched: dict[int, tuple[Slots, Touched]]) -> None:
    keys = log_key(rows)
    for one in np.unique(keys):
        mine = rows[keys == one]
        slots, extents = touched.setdefault(int(one), (Slots(), Touched()))
        extents.add(slots.of(mine.space), mine.offset_bytes, mine.size_bytes)


def _nothing(source: Source, skipped: Mapping[str, int]) -> IotraceError:
    path, layer, window = source.recording.path, source.selection.layer, source.selection.window_ns
    if skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        return IotraceError(
            f"nothing in '{path}' can be replayed: {reasons}",
            hint="choose another layer, or loosen the filters",
        )
    where = f" from {window[0] / 1e9:,.6g} s to {window[1] / 1e9:,.6g} s since its start" if window else ""
    return IotraceError(f"'{path}' has no I/O of the layer '{layer}'{where}", hint="choose another window")
