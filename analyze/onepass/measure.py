"""The pass itself: stretch by stretch, two at a time, and what they say joined in order of time."""

import threading
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Listed
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas import Recording

from .arrivals import Arrivals, counted
from .flight import Flight, flights_of
from .latencies import LatencyCounts
from .rows import NEVER_NS, Int64s, Rows, Stretch, stretches
from .sequence import Sequence
from .streams import LAYERS, Ints, Stream, Streams, sorted_by
from .touched import SLICES_MAX, Touched

_WORKERS: Final = 2
_SECOND_NS: Final = 1_000_000_000
_MOVING: Final = ("read", "write")

Group = tuple[int | None, str | None]
"""A device, None where unknown, and a role on it, None for all of them."""
LatencyGroup = tuple[str, int | None, str, str]
"""Layer, device, role and operation."""


@dataclass(slots=True)
class Measured:
    """What one pass finds out of a recording; figures of load are those of one layer.

    ``arrivals`` are per device and role, ``flight`` per device, ``sequence`` per stream in the order of ``streams``.
    ``seconds`` has columns layer, second, io_count, size_bytes, read_count, measured_count and latency_sum_ns.
    """

    streams: list[Stream]
    arrivals: dict[Group, Arrivals] = field(default_factory=dict)
    all_arrivals: Arrivals = field(default_factory=Arrivals)
    flight: dict[int | None, Flight] = field(default_factory=dict)
    all_flight: Flight = field(default_factory=Flight)
    sequence: Sequence = field(default_factory=lambda: Sequence.empty(0))
    latencies: dict[str, LatencyCounts] = field(default_factory=dict)
    """By metric: service, of a replay also response and lateness; groups in the order of ``latency_groups``."""
    latency_groups: list[LatencyGroup] = field(default_factory=list)
    seconds: pa.Table = field(default_factory=lambda: _added_up([]))
    touched: Touched = field(default_factory=lambda: Touched(0, 0, np.zeros(1, np.int64)))
    places: list[tuple[int | None, int | None]] = field(default_factory=list)
    """Places of ``touched``: device, and above the block layer file."""
    roles: list[str] = field(default_factory=list)

    def histogram_table(self, metric: str) -> pa.Table:
        """As query ``latency_histogram``, but for sums and maxima, which stand in the first row of a group."""
        counts = self.latencies[metric]
        columns: dict[str, list[npt.ArrayLike]] = {name: [] for name in (
            "group", "bucket_ns", "io_count", "latency_sum_ns", "latency_max_ns")}  # fmt: skip
        for number in range(len(self.latency_groups)):
            buckets, found = counts.of(number)
            if len(buckets):
                once = np.zeros(len(buckets), dtype=np.int64)
                once[0] = 1
                columns["group"].append(np.full(len(buckets), number))
                columns["bucket_ns"].append(buckets)
                columns["io_count"].append(found)
                columns["latency_sum_ns"].append(once * counts.sums_ns[number])
                columns["latency_max_ns"].append(once * counts.maxima_ns[number])
        joined = {
            name: np.concatenate([np.zeros(0, dtype=np.int64), *parts]) for name, parts in columns.items()
        }
        group = pa.array(joined.pop("group"))
        layers, devices, roles, ops = (
            zip(*self.latency_groups, strict=True) if self.latency_groups else ([],) * 4
        )
        words = {"layer": pa.array(layers, pa.string()), "device_id": pa.array(devices, pa.int32()),
                 "role": pa.array(roles, pa.string()), "op": pa.array(ops, pa.string())}  # fmt: skip
        return pa.table({name: column.take(group) for name, column in words.items()} | joined)

    def touched_bytes(
        self, device_id: int | None, role: str | None, ops: Listed[str], *, is_total: bool
    ) -> int:
        """Bytes of the blocks that were touched, by one role or by all, on one device or on all."""
        roles = [role] if role is not None else self.roles
        kinds = [self.roles.index(one) * len(_MOVING) + _MOVING.index(op) for one in roles for op in ops]
        mine = None if is_total else {
            number for number, (device, _) in enumerate(self.places) if device == device_id
        }  # fmt: skip
        return self.touched.touched_blocks(kinds, mine) * self.touched.block_bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked: the layer load is counted at, the window, the metrics, and what the recording holds."""

    layer: str
    window_ns: tuple[int, int]
    metrics: tuple[str, ...]
    has_errors: bool
    has_unfinished: bool


def measure(
    connection: duckdb.DuckDBPyConnection, recording: Recording, streams: Listed[Stream], subject: Subject
) -> Measured:
    """Pass over the recording attached to ``connection``; ``streams`` names every combination that occurs.

    I/Os in flight are counted inside the window, those that were in flight when it began included. Raises
    `IotraceError` for damaged data.
    """
    work = _Work(list(streams), subject)
    has_layers = len({stream.layer for stream in streams}) > 1
    without = ([] if has_layers else ["layer"]) + ([] if subject.has_errors else ["error"])
    parts = stretches(
        recording,
        connection,
        work.streams,
        subject.window_ns,
        intended="response" in subject.metrics,
        without=without,
    )
    found = work.empty()
    carried: tuple[Int64s, Ints] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))
    with ThreadPoolExecutor(_WORKERS) as pool:
        ahead: deque[tuple[Stretch, Future[_Summary]]] = deque()
        for stretch in parts:
            mine = work.of_layer(stretch.rows)
            ends, carried = work.ended(mine, carried, stretch.until_ns)
            ahead.append((stretch, pool.submit(work.summarise, stretch, mine, ends)))
            work.touch(mine)
            if len(ahead) > _WORKERS:
                _join(found, *_result(ahead.popleft()), subject.window_ns)
        for entry in ahead:
            _join(found, *_result(entry), subject.window_ns)
    work.finish(found)
    return found


def _result(entry: "tuple[Stretch, Future[_Summary]]") -> "tuple[Stretch, _Summary]":
    return entry[0], entry[1].result()


@dataclass(slots=True)
class _Summary:
    """What one stretch says."""

    arrivals: dict[Group, Arrivals]
    all_arrivals: Arrivals
    flight: dict[int | None, Flight]
    all_flight: Flight
    sequence: Sequence


def _join(found: Measured, stretch: Stretch, summary: _Summary, window_ns: tuple[int, int]) -> None:
    flights = (summary.all_flight, *summary.flight.values())
    if stretch.until_ns <= window_ns[0]:
        for flight in flights:
            flight.peak, flight.integral_ns, flight.length_ns = flight.net, 0, 0
    if stretch.from_ns < window_ns[1]:
        found.all_flight.join(summary.all_flight)
        for device, flight in summary.flight.items():
            found.flight[device].join(flight)
    for group, arrivals in summary.arrivals.items():
        found.arrivals[group].join(arrivals)
    found.all_arrivals.join(summary.all_arrivals)
    found.sequence.join(summary.sequence)


class _Work:
    """Number tables for a pass, and what is added up in no particular order."""

    def __init__(self, streams: list[Stream], subject: Subject) -> None:
        self.subject = subject
        self.streams = Streams(streams)
        self._of_layer = LAYERS.index(subject.layer)
        self._is_only = len({stream.layer for stream in streams}) == 1
        self.roles = sorted({stream.role for stream in streams})
        mine = [stream for stream in streams if stream.layer == subject.layer]
        self.groups = sorted({(stream.device_id, stream.role) for stream in mine}, key=_nulls_first)
        self.devices = sorted(
            {stream.device_id for stream in mine}, key=lambda device: -1 if device is None else device
        )
        is_in_file = subject.layer in ("sql", "filesystem")
        places = {(s.device_id, s.file_id if is_in_file else None): None for s in mine}
        self.places = list(places)
        self.latency_groups = list(
            dict.fromkeys((stream.layer, stream.device_id, stream.role, stream.op) for stream in streams)
        )
        group_of = {group: number for number, group in enumerate(self.groups)}
        place_of = {place: number for number, place in enumerate(self.places)}
        latency_of = {group: number for number, group in enumerate(self.latency_groups)}
        self._group = _table(streams, lambda s: group_of.get((s.device_id, s.role), 0), len(self.groups))
        self._device = _table(
            streams,
            lambda s: self.devices.index(s.device_id) if s.device_id in self.devices else 0,
            len(self.devices),
        )
        self._place = _table(
            streams,
            lambda s: place_of.get((s.device_id, s.file_id if is_in_file else None), 0),
            len(self.places),
        )
        self._kind = _table(
            streams,
            lambda s: self.roles.index(s.role) * len(_MOVING) + _MOVING.index(s.op) if s.op in _MOVING else 0,
            len(self.roles) * len(_MOVING),
        )
        self._latency_group = _table(
            streams,
            lambda s: latency_of[s.layer, s.device_id, s.role, s.op],
            len(self.latency_groups),
        )
        self._layer = _table(streams, lambda s: LAYERS.index(s.layer), len(LAYERS))
        self._moves = np.array([stream.op in _MOVING for stream in streams], dtype=bool)
        self._is_read = np.array([stream.op == "read" for stream in streams], dtype=bool)
        self._only_moving = all(stream.op in _MOVING for stream in streams)
        self.touched = Touched(len(self.places), len(self.roles) * len(_MOVING), _slices(subject.window_ns))
        self._local = threading.local()
        self._latencies: list[dict[str, LatencyCounts]] = []
        self._seconds: list[dict[str, npt.NDArray[np.generic]]] = []

    def empty(self) -> Measured:
        """Nothing found yet."""
        return Measured(
            self.streams.streams,
            arrivals={(device, role): Arrivals() for device, role in self.groups}
            | {(device, None): Arrivals() for device in self.devices},
            flight={device: Flight() for device in self.devices},
            sequence=Sequence.empty(len(self.streams)),
            latency_groups=self.latency_groups,
            places=self.places,
            roles=self.roles,
        )

    def finish(self, found: Measured) -> None:
        """Put what was added up into ``found``."""
        found.latencies = {metric: LatencyCounts(0) for metric in self.subject.metrics}
        for counts in self._latencies:
            for metric, part in counts.items():
                if len(found.latencies[metric].sums_ns):
                    found.latencies[metric].join(part)
                else:
                    found.latencies[metric] = part
        for metric in self.subject.metrics:
            if not len(found.latencies[metric].sums_ns):
                found.latencies[metric] = LatencyCounts(len(self.latency_groups))
        found.seconds = _added_up(self._seconds)
        self.touched.finish()
        found.touched = self.touched

    def of_layer(self, rows: Rows) -> Rows:
        """The rows load is counted in."""
        return (
            rows if self._is_only else rows.take(np.flatnonzero(self._layer[rows.stream] == self._of_layer))
        )

    def ended(
        self, rows: Rows, carried: tuple[Int64s, Ints], until_ns: int
    ) -> tuple[tuple[Int64s, Ints], tuple[Int64s, Ints]]:
        """Ends before ``until_ns`` with their devices, and those still to come."""
        ends, devices = rows.completed_ns, self._device[rows.stream]
        if self.subject.has_unfinished:
            is_finished = ends != NEVER_NS
            ends, devices = ends[is_finished], devices[is_finished]
        if len(carried[0]):
            ends, devices = np.concatenate([carried[0], ends]), np.concatenate([carried[1], devices])
        is_late = ends >= until_ns
        if not is_late.any():
            return (ends, devices), (ends[:0], devices[:0])
        return (ends[~is_late], devices[~is_late]), (ends[is_late], devices[is_late])

    def touch(self, rows: Rows) -> None:
        """Note what blocks the I/Os touched. Has to be called in order of time."""
        is_moving = rows.offset_bytes >= 0
        is_moving &= rows.size_bytes > 0
        if not self._only_moving:
            is_moving &= self._moves[rows.stream]
        if not is_moving.all():
            rows = rows.take(is_moving)
        places, kinds = self._place[rows.stream], self._kind[rows.stream]
        self.touched.add(rows.issued_ns, places, kinds, rows.offset_bytes, rows.size_bytes)

    def summarise(self, stretch: Stretch, mine: Rows, ends: tuple[Int64s, Ints]) -> _Summary:
        """Everything else that a stretch says. May run in any order and in several threads."""
        self._count(stretch.rows)
        arrivals = self._arrivals(mine.issued_ns, mine.stream)
        all_arrivals = arrivals[self.groups[0]] if len(self.groups) == 1 else Arrivals.of(mine.issued_ns)
        flight, all_flight = self._flight(mine, ends, stretch)
        return _Summary(arrivals, _copied(all_arrivals), flight, all_flight, self._sequence(mine))

    def _count(self, rows: Rows) -> None:
        """Latencies, and sums per second, of all layers."""
        counts = getattr(self._local, "latencies", None)
        if counts is None:
            counts = {metric: LatencyCounts(len(self.latency_groups)) for metric in self.subject.metrics}
            self._local.latencies = counts
            self._latencies.append(counts)
        groups = self._latency_group[rows.stream]
        is_measured = self._measured(rows)
        for metric in self.subject.metrics:
            begun = rows.issued_ns if metric == "service" else rows.intended_ns
            ended = rows.issued_ns if metric == "lateness" else rows.completed_ns
            which = is_measured
            if metric != "service":
                is_intended = rows.intended_ns != NEVER_NS
                which = is_intended if which is None else which & is_intended
            if which is None:
                counts[metric].add(groups, np.maximum(ended - begun, 0))
            else:
                counts[metric].add(groups[which], np.maximum(ended[which] - begun[which], 0))
        layers = None if self._is_only else self._layer[rows.stream]
        for layer in [self._of_layer] if layers is None else np.unique(layers).tolist():
            of_layer = rows if layers is None else rows.take(layers == layer)
            if len(of_layer):
                is_read = self._is_read[of_layer.stream]
                self._seconds.append(_seconds(of_layer, layer, is_read, self._measured(of_layer)))

    def _measured(self, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Which I/Os succeeded and were seen to end; None for all of them."""
        found = None
        if self.subject.has_unfinished:
            found = rows.completed_ns != NEVER_NS
        if self.subject.has_errors:
            found = rows.error == 0 if found is None else found & (rows.error == 0)
        return found

    def _arrivals(self, times: Int64s, numbers: Ints) -> dict[Group, Arrivals]:
        found: dict[Group, Arrivals] = {}
        order, borders = sorted_by(self._group[numbers], len(self.groups))
        ordered = times[order]
        for number, group in enumerate(self.groups):
            found[group] = Arrivals.of(ordered[borders[number] : borders[number + 1]])
        if len(self.groups) == len(self.devices):
            return found | {(device, None): _copied(found[device, role]) for device, role in self.groups}
        if len(self.devices) == 1:
            return found | {(self.devices[0], None): Arrivals.of(times)}
        order, borders = sorted_by(self._device[numbers], len(self.devices))
        ordered = times[order]
        for number, device in enumerate(self.devices):
            found[device, None] = Arrivals.of(ordered[borders[number] : borders[number + 1]])
        return found

    def _flight(
        self, rows: Rows, ended: tuple[Int64s, Ints], stretch: Stretch
    ) -> tuple[dict[int | None, Flight], Flight]:
        starts, devices = rows.issued_ns, self._device[rows.stream]
        if self.subject.has_unfinished:
            is_finished = rows.completed_ns != NEVER_NS
            starts, devices = starts[is_finished], devices[is_finished]
        whole, found = flights_of(
            starts, devices, *ended, len(self.devices), stretch.from_ns, stretch.until_ns
        )
        return dict(zip(self.devices, found, strict=True)), whole

    def _sequence(self, rows: Rows) -> Sequence:
        """I/Os of unknown place and those that move no data are not part of any sequence."""
        is_placed = rows.offset_bytes >= 0
        if not self._only_moving:
            is_placed &= self._moves[rows.stream]
        numbers, offsets, sizes = rows.stream, rows.offset_bytes, rows.size_bytes
        if not is_placed.all():
            numbers, offsets, sizes = numbers[is_placed], offsets[is_placed], sizes[is_placed]
        order, borders = sorted_by(numbers, len(self.streams))
        offsets = offsets[order]
        return Sequence.of(numbers[order], borders, offsets, offsets + sizes[order])


def _copied(arrivals: Arrivals) -> Arrivals:
    """A copy that can be joined to without changing the first."""
    return replace(arrivals, bins=tuple(replace(bins) for bins in arrivals.bins))


def _seconds(
    rows: Rows, layer: int, is_read: npt.NDArray[np.bool_], is_measured: npt.NDArray[np.bool_] | None
) -> dict[str, npt.NDArray[np.generic]]:
    seconds, starts = counted(rows.issued_ns, _SECOND_NS)
    latencies = np.maximum(rows.completed_ns - rows.issued_ns, 0)
    if is_measured is not None:
        latencies *= is_measured
    counts = np.diff(np.append(starts, len(rows)))
    return {
        "layer": np.full(len(starts), layer),
        "second": seconds,
        "io_count": counts,
        "size_bytes": np.add.reduceat(rows.size_bytes, starts, dtype=np.int64),
        "read_count": np.add.reduceat(is_read, starts, dtype=np.int64),
        "measured_count": counts
        if is_measured is None
        else np.add.reduceat(is_measured, starts, dtype=np.int64),
        "latency_sum_ns": np.add.reduceat(latencies, starts),
    }


def _added_up(parts: list[dict[str, npt.NDArray[np.generic]]]) -> pa.Table:
    names = ("layer", "second", "io_count", "size_bytes", "read_count", "measured_count", "latency_sum_ns")
    none = np.zeros(0, dtype=np.int64)
    table = pa.table({name: np.concatenate([none, *(part[name] for part in parts)]) for name in names})
    summed = table.group_by(["layer", "second"]).aggregate([(name, "sum") for name in names[2:]])
    summed = summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])
    words = pa.array([str(layer) for layer in LAYERS]).take(summed["layer"].combine_chunks())
    return summed.set_column(summed.column_names.index("layer"), "layer", words).sort_by(
        [("layer", "ascending"), ("second", "ascending")]
    )


def _slices(window_ns: tuple[int, int]) -> Int64s:
    """Borders of slices of time, of a length people like: 1, 2, 5, 10, 15, 30 s, minutes, hours."""
    length = max(window_ns[1] - window_ns[0], 1)
    nice = [s * _SECOND_NS for m in (1, 60, 3600) for s in (m, 2 * m, 5 * m, 10 * m, 15 * m, 30 * m)]
    step = next((step for step in nice if length <= step * SLICES_MAX), -(-length // SLICES_MAX))
    borders = np.arange(window_ns[0], window_ns[1], step, dtype=np.int64)
    return np.append(borders, window_ns[1])


def _table(streams: list[Stream], number_of: Callable[[Stream], int], count: int) -> Ints:
    kind = np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.uint32
    return np.array([number_of(stream) for stream in streams], dtype=kind)


def _nulls_first(group: tuple[int | None, str]) -> tuple[int, str]:
    return (-1 if group[0] is None else group[0], group[1])
