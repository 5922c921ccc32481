"""What only the order of I/Os tells: sequential share, gaps between arrivals, and how many were in flight.

Method: time is cut into slices of about a million I/Os. Each slice is summarised on its own (sorting in memory what the
queries ``issued_in_slice`` and ``completed_in_slice`` return), and summaries of neighbouring slices are joined
exactly: an I/O that continues one of the slice before, a gap across the border, I/Os still in flight at the border.
So memory stays flat, slices can be summarised in any order on any machine, and the result is that of one sweep over
all starts (+1) and ends (-1).

Limits: an I/O is in flight in [issued, completed): of an end and a start at the same nanosecond the end comes first.
I/Os whose end was not seen take part in arrivals and sequences but are never in flight.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Recording

from . import library

_SLICE_IOS: Final = 1 << 20
_FIRST_NS: Final = -(1 << 62)
_LAST_NS: Final = 1 << 62
_OPS: Final = ("read", "write", "flush", "discard")

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stream:
    """I/Os that could continue one another: one device, one file, one operation. Ids are None where unknown."""

    device_id: int | None
    file_id: int | None
    role: str
    op: str


@dataclass(slots=True)
class Gaps:
    """Sums over the times between neighbouring arrivals, enough for their mean and variance; joined in time order."""

    count: int = 0
    sum_ns: float = 0.0
    square_sum_ns2: float = 0.0
    first_ns: int | None = None
    last_ns: int | None = None

    def join(self, later: "Gaps") -> None:
        """Take in the gaps of the slice that follows."""
        if later.first_ns is None:
            return
        if self.last_ns is not None:
            gap = float(later.first_ns - self.last_ns)
            self.count += 1
            self.sum_ns += gap
            self.square_sum_ns2 += gap * gap
        else:
            self.first_ns = later.first_ns
        self.count += later.count
        self.sum_ns += later.sum_ns
        self.square_sum_ns2 += later.square_sum_ns2
        self.last_ns = later.last_ns

    @property
    def coefficient_of_variation(self) -> float | None:
        """Standard deviation over mean: 1 for random (Poisson) arrivals, 0 for a metronome; None below 100 gaps."""
        if self.count < 100 or self.sum_ns <= 0:
            return None
        mean = self.sum_ns / self.count
        return float(np.sqrt(max(self.square_sum_ns2 / self.count - mean * mean, 0.0)) / mean)


@dataclass(slots=True)
class Flight:
    """I/Os in flight over a stretch of time, relative to those in flight when it begins."""

    net: int = 0
    """Starts less ends."""
    peak: int = 0
    """Most above the beginning."""
    integral_ns: int = 0
    """Time-integral of the number in flight above the beginning, over the stretch."""
    length_ns: int = 0

    def join(self, later: "Flight") -> None:
        """Take in the stretch that follows."""
        self.peak = max(self.peak, self.net + later.peak)
        self.integral_ns += later.integral_ns + self.net * later.length_ns
        self.length_ns += later.length_ns
        self.net += later.net


@dataclass(slots=True)
class OrderedFigures:
    """The figures of a stretch of time; `join` with the stretch that follows.

    ``sequential`` counts, per stream, I/Os starting where the stream's previous one ended. ``gaps`` is per (device_id,
    role), a None role standing for the whole device; ``flight`` is per device_id; a None device_id is an unknown
    device. The ``all_`` ones are over everything.
    """

    sequential: dict[Stream, int] = field(default_factory=dict)
    gaps: dict[tuple[int | None, str | None], Gaps] = field(default_factory=dict)
    flight: dict[int | None, Flight] = field(default_factory=dict)
    all_gaps: Gaps = field(default_factory=Gaps)
    all_flight: Flight = field(default_factory=Flight)
    ends: dict[Stream, tuple[int, int]] = field(default_factory=dict)
    """Per stream: offset of its first I/O, and where its last one ended, in bytes."""

    def join(self, later: "OrderedFigures") -> None:
        """Take in the stretch that follows."""
        for stream, (first, last) in later.ends.items():
            before = self.ends.get(stream)
            continued = int(before is not None and before[1] == first)
            self.sequential[stream] = self.sequential.get(stream, 0) + later.sequential[stream] + continued
            self.ends[stream] = (before[0] if before else first, last)
        for group, gaps in later.gaps.items():
            self.gaps.setdefault(group, Gaps()).join(gaps)
        self.all_gaps.join(later.all_gaps)
        for device_id, flight in later.flight.items():
            self.flight.setdefault(device_id, Flight(length_ns=self.all_flight.length_ns)).join(flight)
        self.all_flight.join(later.all_flight)


def measure(
    connection: duckdb.DuckDBPyConnection,
    recording: Recording,
    layer: str,
    streams: Sequence[Stream],
    window_ns: tuple[int, int],
) -> OrderedFigures:
    """Sweep one layer of the recording attached to ``connection``.

    ``streams`` names every combination that occurs (query ``streams``). I/Os in flight are counted inside
    ``window_ns``, those that were in flight when it began included. Raises `IotraceError` for damaged data.
    """
    coder = _Coder(streams)
    borders = _borders(recording, window_ns)
    slices = list(pairwise(borders))
    figures = OrderedFigures()

    def summarise(piece: tuple[int, int]) -> OrderedFigures:
        with library.cursor(connection) as cursor:
            return _summarise(cursor, layer, coder, *piece)

    # Two at a time: one waits for DuckDB while the other sorts. map keeps the order.
    with ThreadPoolExecutor(2) as pool:
        for (start, end), summary in zip(slices, pool.map(summarise, slices), strict=True):
            if end <= window_ns[0]:
                for flight in (summary.all_flight, *summary.flight.values()):
                    flight.peak, flight.integral_ns, flight.length_ns = flight.net, 0, 0
            elif start >= window_ns[1]:
                summary.flight, summary.all_flight = {}, Flight()
            figures.join(summary)
    return figures


class _Coder:
    """Turns the queries' stream keys into positions in ``streams``, and those into groups."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.streams = streams
        self.file_stride = (
            max((stream.file_id for stream in streams if stream.file_id is not None), default=-1) + 2
        )
        keys = np.array([self._key(stream) for stream in streams], dtype=np.int64)
        self._order = np.argsort(keys)
        self._sorted_keys = keys[self._order]
        self._table: Int64s | None = None
        if len(keys) and self._sorted_keys[-1] < 1 << 20:
            self._table = np.zeros(
                int(self._sorted_keys[-1]) + 1, dtype=np.int16 if len(keys) < 1 << 15 else np.int32
            )
            self._table[keys] = np.arange(len(keys))
        groups = sorted({(_id(stream.device_id), stream.role) for stream in streams})
        self.group_of_stream = np.array(
            [groups.index((_id(stream.device_id), stream.role)) for stream in streams], dtype=np.int32
        )
        self.roles: dict[int, list[tuple[int, str]]] = {}
        """Per device its roles and their group numbers, which are neighbours."""
        for group, (device, role) in enumerate(groups):
            self.roles.setdefault(device, []).append((group, role))
        self.moves_data = np.array([stream.op in {"read", "write"} for stream in streams], dtype=bool)

    def codes(self, keys: Int64s) -> npt.NDArray[np.integer]:
        """Position in ``streams`` of each key."""
        if self._table is not None:
            return self._table[keys]
        return self._order[np.searchsorted(self._sorted_keys, keys)]

    def _key(self, stream: Stream) -> int:
        device, file = _id(stream.device_id) + 1, _id(stream.file_id) + 1
        return (device * self.file_stride + file) * 4 + _OPS.index(stream.op)


def _id(value: int | None) -> int:
    return -1 if value is None else value


def _borders(recording: Recording, window_ns: tuple[int, int]) -> list[int]:
    """Times to cut at: where row groups begin, about a million rows apart, and the window's ends."""
    starts: list[tuple[int, int]] = []
    try:
        for path in recording.parquet_paths("io"):
            metadata = pq.read_metadata(path)
            column = metadata.schema.to_arrow_schema().get_field_index("issued_ns")
            for index in range(metadata.num_row_groups):
                group = metadata.row_group(index)
                statistics = group.column(column).statistics
                if statistics is not None and statistics.has_min_max:
                    starts.append((int(statistics.min), group.num_rows))
    except (OSError, pa.ArrowException) as problem:
        raise IotraceError(
            f"'{recording.path}' has a damaged table io: {str(problem).splitlines()[0][:200]}",
            hint=f"iotrace validate {recording.path} tells what is left of it",
        ) from problem
    borders = {_FIRST_NS, window_ns[0], window_ns[1], _LAST_NS}
    rows = 0
    for start, count in sorted(starts):
        if rows + count > _SLICE_IOS:
            borders.add(start)
            rows = 0
        rows += count
    return sorted(borders)


def _summarise(
    cursor: duckdb.DuckDBPyConnection, layer: str, coder: _Coder, from_ns: int, until_ns: int
) -> OrderedFigures:
    issued = library.run(
        cursor,
        "issued_in_slice",
        layer=layer,
        from_ns=from_ns,
        until_ns=until_ns,
        file_stride=coder.file_stride,
    )
    times = issued["issued_ns"].to_numpy()
    columns = [
        issued[name].to_numpy() for name in ("offset_bytes", "size_bytes", "is_finished", "stream_key")
    ]
    if np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
        times, columns = times[order], [column[order] for column in columns]
    offsets, sizes, finished, keys = columns
    codes = coder.codes(keys)
    figures = OrderedFigures(all_gaps=_gaps(times))
    _count_sequential(figures, coder, codes, offsets, sizes)
    completed = library.run(cursor, "completed_in_slice", layer=layer, from_ns=from_ns, until_ns=until_ns)
    ends, end_devices = completed["completed_ns"].to_numpy(), completed["device_key"].to_numpy()
    all_finished = bool(finished.all())
    figures.all_flight = _flight(times if all_finished else times[finished], ends, from_ns, until_ns)
    groups = coder.group_of_stream[codes]
    for device, roles in coder.roles.items():
        if len(coder.roles) == 1:
            mine, my_groups, flight = times, groups, replace(figures.all_flight)
        else:
            member = (groups >= roles[0][0]) & (groups <= roles[-1][0])
            mine, my_groups = times[member], groups[member]
            starts = mine if all_finished else times[member & finished]
            flight = _flight(starts, ends[end_devices == device], from_ns, until_ns)
        figures.flight[_name(device)] = flight
        figures.gaps[_name(device), None] = _gaps(mine)
        for group, role in roles:
            alone = len(roles) == 1
            figures.gaps[_name(device), role] = _gaps(mine if alone else mine[my_groups == group])
    return figures


def _name(device: int) -> int | None:
    return None if device < 0 else device


def _gaps(times: Int64s) -> Gaps:
    if not len(times):
        return Gaps()
    gaps = np.diff(times).astype(np.float64)
    return Gaps(len(gaps), float(gaps.sum()), float(np.dot(gaps, gaps)), int(times[0]), int(times[-1]))


def _count_sequential(
    figures: OrderedFigures, coder: _Coder, codes: npt.NDArray[np.integer], offsets: Int64s, sizes: Int64s
) -> None:
    """I/Os of unknown place and those that move no data are not part of any sequence."""
    placed = (offsets >= 0) & coder.moves_data[codes]
    if not placed.all():
        codes, offsets, sizes = codes[placed], offsets[placed], sizes[placed]
    order = np.argsort(codes, kind="stable")
    codes, offsets = codes[order], offsets[order]
    ends = offsets + sizes[order]
    same = codes[1:] == codes[:-1]
    continued = codes[1:][same & (offsets[1:] == ends[:-1])]
    counts = np.bincount(continued, minlength=len(coder.streams))
    firsts = np.flatnonzero(np.concatenate([[True], ~same])) if len(codes) else np.zeros(0, dtype=np.int64)
    lasts = np.append(firsts[1:], len(codes)) - 1
    for first, last in zip(firsts, lasts, strict=False):
        stream = coder.streams[codes[first]]
        figures.sequential[stream] = int(counts[codes[first]])
        figures.ends[stream] = (int(offsets[first]), int(ends[last]))


def _flight(starts: Int64s, ends: Int64s, from_ns: int, until_ns: int) -> Flight:
    """The sweep over starts and ends in [from_ns, until_ns), in any order."""
    # The last bit of an event says which it is, so that plain sorting puts ends before starts of the same nanosecond.
    events = np.concatenate([starts * 2 + 1, ends * 2])
    events.sort()
    depth = np.cumsum((events & 1).astype(np.int32) * 2 - 1, dtype=np.int32)
    integral = 0
    if from_ns > _FIRST_NS and until_ns < _LAST_NS:
        integral = _exact_sum(until_ns - starts) - _exact_sum(until_ns - ends)
    return Flight(
        net=len(starts) - len(ends),
        peak=max(int(depth.max()), 0) if len(depth) else 0,
        integral_ns=integral,
        length_ns=until_ns - from_ns,
    )


def _exact_sum(distances: Int64s) -> int:
    """Sum in two halves: a million distances of a day each overflow int64."""
    return (int((distances >> 31).sum()) << 31) + int((distances & ((1 << 31) - 1)).sum())
