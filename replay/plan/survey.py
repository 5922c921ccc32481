"""The first pass over a recording: what will be played, in sums. Memory does not grow with the number of I/Os."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.schemas import IotraceError
from iotrace.schemas.run import LoadShape

from .extents import Places, Slots, Touched, granule_of
from .log_stream import Ring, is_log, log_key
from .rows import NO_ID, READ, WRITE, Rows
from .selection import log_files
from .shape import Shape
from .source import Source
from .streams import StreamCounts


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
