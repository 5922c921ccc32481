"""In which layer a slow window spent its time.

Each layer's growth is the mean latency of a typical slot in the window less that of a normal one, operation by
operation, weighted by the window's mix, so that a changed mix is no growth. What a layer added itself is its growth
less that of the layer below (`waterfall` has the same differences of means, and the same limits: both layers have to
see the same I/Os). Means of counters are held against one another over the same time: only slots count whose samples,
in every layer, lie wholly in the window or wholly outside all of them.

Whose share changed: files, processes, roles, operations, sizes and devices, in a window against normal.

What is normal is everything outside all windows: sums over the whole recording less those over the windows, which may
overlap.
``growth_share`` is a row's part of what grew, rows that shrank left out: of load (bytes per second, where bytes grew,
else I/Os per second) where more load drove a window. Otherwise it is of the time that I/Os took longer than their like
(`hit`), in the layer where the time went: in layers below it I/Os were as fast as ever, and only noise grew there. A
share says who asked or who waited, which need not be who is to blame for slow storage.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final, Literal

import duckdb
import numpy as np

from iotrace.analyze import library
from iotrace.analyze.units import format_bytes
from iotrace.schemas import Layer, Recording
from iotrace.schemas.arrays import Floats

from .change_points import Flags
from .hit import Hit, Usual, wander_of
from .result import BlameRow, LayerTime
from .series import LayerSlots, Slots, Stream

_TOP: Final = 5
_CHANGED_SHARE: Final = 0.02

Dimension = Literal["file", "process", "role", "operation", "size", "device"]
Row = dict[str, Any]
_DIMENSIONS: Final[tuple[Dimension, ...]] = ("file", "process", "role", "operation", "size", "device")


@dataclass(slots=True)
class _Sum:
    """What a group asked for and took."""

    io_count: int = 0
    size_bytes: int = 0
    measured_count: int = 0
    latency_sum_ns: int = 0

    def add(self, row: Row, sign: int = 1) -> None:
        """Take in a row of ``incident_work``, or out again."""
        self.io_count += sign * row["io_count"]
        self.size_bytes += sign * row["size_bytes"]
        self.measured_count += sign * row["measured_count"]
        self.latency_sum_ns += sign * row["latency_sum_ns"]

    def add_waiting(self, row: Row) -> None:
        """Take in what of a row of ``incident_work`` never ended: its waiting so far is its latency."""
        self.measured_count += row["waiting_count"]
        self.latency_sum_ns += row["waiting_sum_ns"]

    @property
    def latency_ns(self) -> float | None:
        """Mean latency."""
        return self.latency_sum_ns / self.measured_count if self.measured_count else None


class Names:
    """What files, processes and devices are called."""

    def __init__(self, recording: Recording) -> None:
        files = recording.read("files", ["file_id", "path"]).to_pylist()
        self.files = {row["file_id"]: row["path"] for row in files}
        processes = recording.read("processes", ["process_id", "name", "os_process_id"]).to_pylist()
        self.processes = {
            row["process_id"]: row["name"] or f"process {row['os_process_id']}" for row in processes
        }
        devices = recording.read("devices", ["device_id", "name", "mount"]).to_pylist()
        self.devices = {row["device_id"]: row["mount"] or row["name"] for row in devices}

    def of(self, dimension: Dimension, row: Row) -> str:
        """The group a row belongs to."""
        match dimension:
            case "file":
                return str(self.files.get(row["file_id"], "unknown file"))
            case "process":
                return str(self.processes.get(row["process_id"], "unknown process"))
            case "device":
                return str(self.devices.get(row["device_id"], "unknown device"))
            case "role":
                return str(row["role"])
            case "operation":
                return str(row["op"])
            case "size":
                size = row["size_class_bytes"]
                return f"up to {format_bytes(size)}" if size else "over 1.0 MiB"


def disjoint(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time in spans that do not overlap, in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


class Blame:
    """Sums over the whole span and over each window, from which any window's blame is told."""

    def __init__(
        self,
        names: Names,
        connection: duckdb.DuckDBPyConnection,
        slots: Slots,
        load_layer: str,
        span_ns: tuple[int, int],
        windows_ns: Sequence[tuple[int, int]],
        *,
        has_losses: bool = False,
    ) -> None:
        self._names = names
        self._connection = connection
        self._slots = slots
        self._load_layer = load_layer
        self._span_ns = span_ns
        self._windows_ns = windows_ns
        self._slow_ns = disjoint(windows_ns)
        self._has_losses = has_losses
        self._normal_s = max(span_ns[1] - span_ns[0] - _length_ns(self._slow_ns), 1) / 1e9
        self._works: dict[str, _Work] = {}

    def layer_of(self, slowest: str, *, by_load: bool) -> str:
        """The layer whose I/Os tell: that of the load, unless time went in one above it."""
        above = takewhile(lambda name: name != self._load_layer, map(str, Layer))
        return slowest if not by_load and slowest in set(above) else self._load_layer

    def of(self, indices: Sequence[int], *, by_load: bool, layer: str) -> list[BlameRow]:
        """Rows of these windows whose part of the growth or share of the I/Os changed, the greatest first.

        ``layer`` is as `layer_of` has it.
        """
        seconds = sum(self._windows_ns[index][1] - self._windows_ns[index][0] for index in indices) / 1e9
        work = self._work(layer)
        wander = {} if by_load else self._wander(layer, seconds)
        found: list[BlameRow] = []
        for dimension in _DIMENSIONS:
            slow, normal = self._sums(work, dimension, indices)
            if len(slow.keys() | normal.keys()) < 2:
                continue
            grown = (
                _load_growth(slow, normal, seconds, self._normal_s)
                if by_load
                else _time_growth(slow, normal, self._hits(work, dimension, indices), wander)
            )
            found += _rows(dimension, slow, normal, seconds, self._normal_s, grown)
        return found

    def _work(self, layer: str) -> "_Work":
        if layer not in self._works:
            rows: dict[tuple[int, int], list[Row]] = {
                (start, end): library.run(
                    self._connection,
                    "incident_work",
                    layer=layer,
                    from_ns=start,
                    until_ns=end,
                    span_until_ns=self._span_ns[1],
                    has_losses=self._has_losses,
                ).to_pylist()
                for start, end in {*self._windows_ns, *self._slow_ns}
            }
            slow = [row for span in self._slow_ns for row in rows[span]]
            whole = library.run(self._connection, "incident_work_whole", layer=layer).to_pylist()
            self._works[layer] = _Work(
                [rows[span] for span in self._windows_ns], slow, whole, Usual(whole, slow)
            )
        return self._works[layer]

    def _wander(self, layer: str, seconds: float) -> dict[int | None, float]:
        slots = self._slots
        is_normal = np.ones(slots.count, dtype=bool)
        for start, end in self._slow_ns:
            is_normal[
                (start - slots.start_ns) // slots.slot_ns : -(-(end - slots.start_ns) // slots.slot_ns)
            ] = False
        return wander_of(slots.layers[layer], is_normal, round(seconds / slots.slot_seconds))

    def _sums(
        self, work: "_Work", dimension: Dimension, indices: Sequence[int]
    ) -> tuple[dict[str, _Sum], dict[str, _Sum]]:
        slow: dict[str, _Sum] = defaultdict(_Sum)
        normal: dict[str, _Sum] = defaultdict(_Sum)
        for index in indices:
            for row in work.windows[index]:
                group = slow[self._names.of(dimension, row)]
                group.add(row)
                group.add_waiting(row)
        for row in work.whole:
            normal[self._names.of(dimension, row)].add(row)
        for row in work.slow:
            normal[self._names.of(dimension, row)].add(row, -1)
        return slow, normal

    def _hits(self, work: "_Work", dimension: Dimension, indices: Sequence[int]) -> dict[str, Hit]:
        hits: dict[str, Hit] = defaultdict(Hit)
        for index in indices:
            for row in work.windows[index]:
                hits[self._names.of(dimension, row)].take_in(row, work.usual)
        return hits


@dataclass(frozen=True, slots=True)
class _Work:
    """Rows of one layer: of each window, of the time in any of them, and of the whole span."""

    windows: list[list[Row]]
    slow: list[Row]
    whole: list[Row]
    usual: Usual


def _length_ns(spans: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


@dataclass(frozen=True, slots=True)
class _Growth:
    """A group's part of what grew, and what its part would be if all grew alike."""

    share: float
    usual_share: float


def _load_growth(
    slow: dict[str, _Sum], normal: dict[str, _Sum], slow_s: float, normal_s: float
) -> dict[str, _Growth]:
    """Of bytes per second where these grew, else of I/Os per second."""
    empty = _Sum()
    bytes_slow = sum(entry.size_bytes for entry in slow.values()) / slow_s
    bytes_normal = sum(entry.size_bytes for entry in normal.values()) / normal_s
    quantity = "size_bytes" if bytes_slow > bytes_normal else "io_count"

    def growth(name: str) -> float:
        mine = float(getattr(slow.get(name, empty), quantity))
        return max(mine / slow_s - float(getattr(normal.get(name, empty), quantity)) / normal_s, 0.0)

    names = slow.keys() | normal.keys()
    whole = sum(growth(name) for name in sorted(names))
    usual_whole = sum(getattr(entry, quantity) for entry in normal.values())
    return {
        name: _Growth(
            growth(name) / whole if whole else 0.0,
            getattr(normal.get(name, empty), quantity) / usual_whole if usual_whole else 0.0,
        )
        for name in names
    }


def _time_growth(
    slow: dict[str, _Sum], normal: dict[str, _Sum], hits: dict[str, Hit], wander: dict[int | None, float]
) -> dict[str, _Growth]:
    """Of the time that I/Os took longer than their like; no part for a group that chance may have slowed."""
    whole = sum(max(hit.added_ns, 0.0) for hit in hits.values())
    expected = sum(hit.expected_ns for hit in hits.values())

    def is_hit(name: str) -> bool:
        now, before = (sums[name].latency_ns if name in sums else None for sums in (slow, normal))
        # A mix of faster I/Os may hide it in the mean that is shown, which would then seem to say the opposite.
        is_shown_slower = now is None or before is None or now > before
        return is_shown_slower and hits[name].is_clear(wander)

    return {
        name: _Growth(
            hits[name].added_ns / whole if whole and name in hits and is_hit(name) else 0.0,
            hits[name].expected_ns / expected if expected and name in hits else 0.0,
        )
        for name in slow.keys() | normal.keys()
    }


def _rows(
    dimension: Dimension,
    slow: dict[str, _Sum],
    normal: dict[str, _Sum],
    slow_s: float,
    normal_s: float,
    grown: dict[str, _Growth],
) -> list[BlameRow]:
    slow_total = max(sum(entry.io_count for entry in slow.values()), 1)
    normal_total = max(sum(entry.io_count for entry in normal.values()), 1)
    names = sorted(slow.keys() | normal.keys())
    empty = _Sum()
    found = []
    for name in names:
        mine, usual = slow.get(name, empty), normal.get(name, empty)
        row = BlameRow(
            dimension,
            name,
            normal_share=usual.io_count / normal_total,
            slow_share=mine.io_count / slow_total,
            normal_ios_per_s=usual.io_count / normal_s,
            slow_ios_per_s=mine.io_count / slow_s,
            normal_bytes_per_s=usual.size_bytes / normal_s,
            slow_bytes_per_s=mine.size_bytes / slow_s,
            normal_latency_ns=usual.latency_ns,
            slow_latency_ns=mine.latency_ns,
            growth_share=grown[name].share,
            usual_share=grown[name].usual_share,
        )
        if row.growth_share >= _CHANGED_SHARE or abs(row.slow_share - row.normal_share) >= _CHANGED_SHARE:
            found.append(row)
    found.sort(key=lambda row: (-row.growth_share, -abs(row.slow_share - row.normal_share), row.name))
    return found[:_TOP]


_COUNT_TOLERANCE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Grown:
    """A layer's mean latency outside all windows and in one, and how many I/Os that one had."""

    layer: str
    normal_ns: float
    slow_ns: float
    count: float

    @property
    def growth_ns(self) -> float:
        """How much longer an I/O took."""
        return self.slow_ns - self.normal_ns


def layer_times(
    slots: Slots, window: tuple[int, int], is_normal: Flags, streams: Sequence[Stream]
) -> list[LayerTime]:
    """Layers from the top down, over the ``streams`` that were slow (everything, if none is named).

    A layer that does not tell those streams apart is taken by their operations. Layers without I/Os in the window or
    outside all windows are left out.
    """
    grown: list[_Grown] = []
    mix: dict[str, float] = {}
    is_mine = np.zeros(len(is_normal), dtype=bool)
    is_mine[slice(*window)] = True
    layers = [slots.layers[name] for name in map(str, Layer) if name in slots.layers]
    whole = [_wholly(layers, flags) for flags in (is_mine, is_normal)]
    is_shared = all(flags.any() for flags in whole)
    if is_shared:
        is_mine, is_normal = whole
    for name in map(str, Layer):
        means = _means(slots.layers[name], is_mine, is_normal, streams) if name in slots.layers else {}
        mix = mix or {op: count for op, (_, _, count) in means.items()}
        shared = {op: mix[op] for op in means if op in mix}
        total = sum(shared.values())
        if total:
            normal, slow = (
                sum(means[op][at] * count for op, count in shared.items()) / total for at in (0, 1)
            )
            grown.append(_Grown(name, normal, slow, sum(means[op][2] for op in shared)))
    times = [_time(entry, grown[index + 1 : index + 2], grown[0]) for index, entry in enumerate(grown)]
    if is_shared or len(times) < 2:
        return times
    problem = (
        "no samples of all layers lie wholly in the window at one time: what each layer added is not known"
    )
    return [replace(time, share=None, problem=problem) for time in times]


def _wholly(layers: Sequence[LayerSlots], flags: Flags) -> Flags:
    """The slots of ``flags`` in which every layer's samples, where it is made of means, lie within ``flags``."""
    others = np.concatenate([[0], np.cumsum(~flags)])
    found = flags.copy()
    for layer in layers:
        if layer.samples is not None:
            first, end = layer.samples
            found &= (end > np.arange(len(flags))) & (others[end] == others[first])
    return found


def _means(
    layer: LayerSlots, is_mine: Flags, is_normal: Flags, wanted: Sequence[Stream]
) -> dict[str, tuple[float, float, float]]:
    """Per operation: a typical slot's mean latency outside all windows and in this one, in ns, and the I/Os here."""
    keys = {(stream.op, stream.file_id, stream.role, stream.instance) for stream in wanted}
    ops = {stream.op for stream in wanted} or {stream.op for stream in layer.streams}
    chosen = [
        index
        for index, stream in enumerate(layer.streams)
        if (stream.op, stream.file_id, stream.role, stream.instance) in keys
    ] or [index for index, stream in enumerate(layer.streams) if stream.op in ops]
    found = {}
    for op in sorted({layer.streams[index].op for index in chosen}):
        rows = [index for index in chosen if layer.streams[index].op == op]
        sums, counts = layer.latency_sum_ns[rows].sum(axis=0), layer.begun_count[rows].sum(axis=0)
        normal, slow = _typical(sums, counts, is_normal), _typical(sums, counts, is_mine)
        if normal is not None and slow is not None:
            found[op] = (normal, slow, float(counts[is_mine].sum()))
    return found


def _typical(sums: Floats, counts: Floats, flags: Flags) -> float | None:
    """Geometric mean over slots of each slot's mean latency: one slot that is far off does not make the level."""
    chosen = flags & (counts > 0) & (sums > 0)
    return float(np.exp(np.log(sums[chosen] / counts[chosen]).mean())) if chosen.any() else None


def _time(entry: _Grown, lower: list[_Grown], top: _Grown) -> LayerTime:
    below = lower[0] if lower else None
    added = entry.growth_ns - (below.growth_ns if below else 0.0)
    problem = None
    if below and abs(below.count - entry.count) > _COUNT_TOLERANCE * max(below.count, entry.count):
        problem = (
            f"{entry.layer} saw {entry.count:,.0f} I/Os, {below.layer} {below.count:,.0f}: not the same I/Os"
        )
    elif below and added < -0.1 * abs(top.growth_ns):
        problem = f"{entry.layer} cannot have grown less than {below.layer} within it: the clocks or the I/Os differ"
    share = added / top.growth_ns if top.growth_ns > 0 else None
    return LayerTime(
        entry.layer, entry.normal_ns, entry.slow_ns, below.layer if below else None, added, share, problem
    )


def slowest_layer(times: Sequence[LayerTime]) -> str | None:
    """The layer that added most of the growth; None where nothing grew, or the layers share no time to be compared."""
    if len(times) > 1 and all(time.problem for time in times):
        return None
    grown = [time for time in times if time.added_here_ns > 0]
    return max(grown, key=lambda time: time.added_here_ns).layer if grown else None
