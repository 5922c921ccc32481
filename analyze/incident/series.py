"""Latency and load slot by slot, for each layer and for the streams within it: what incidents are looked for in.

A slot is a second, or more where a recording is longer than a day or has hundreds of streams. A stream is what should
have one speed: one operation on one file of one device, the busiest files each by themselves, the others of a role
together. Its level in a slot is the mean of the logarithms of its latencies (their geometric mean), of the I/Os that
began in the slot or hung all through it. A layer's level is the mean over its streams of how far each is from its own
median level, weighted by I/Os: so a layer does not look slow because more of its I/Os are of the slower kind.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.analyze import library
from iotrace.analyze.describe.one_pass import streams_of
from iotrace.schemas import Recording
from iotrace.schemas.arrays import Floats, Int64s
from iotrace.schemas.units import SECOND_NS
from iotrace.schemas.vocabulary import UNATTRIBUTED

from .stream_slots import stream_slots

SLOTS_MAX: Final = 100_000
_LENGTHS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_LONGEST_SLOTS: Final = 600
_CELLS_MAX: Final = 3_000_000
_LAYER_CELLS_MAX: Final = 6_000_000
"""Some 100 bytes each: 60 streams over a month in slots of 30 s."""
_FILES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Stream:
    """I/Os that should have one speed. ``file_id`` is None for the files of a role taken together."""

    layer: str
    op: str
    device_id: int | None = None
    file_id: int | None = None
    role: str = UNATTRIBUTED
    instance: str | None = None
    """What a counter log calls it, where that is the source."""


@dataclass(slots=True)
class LayerSlots:
    """One layer, slot by slot. Arrays have a row per stream and a column per slot."""

    layer: str
    streams: list[Stream]
    io_count: Floats
    """I/Os that began."""
    size_bytes: Floats
    measured_count: Floats
    log_latency: Floats
    """Mean of ln(latency in ns); NaN where no I/O has one."""
    within_variance: Floats
    """Variance of ``log_latency`` for having come from few I/Os."""
    latency_sum_ns: Floats
    begun_count: Floats
    """I/Os that ``latency_sum_ns`` adds up."""
    in_flight: Floats
    """Mean number in flight."""
    samples: tuple[Int64s, Int64s] | None = None
    """Where it is made of means, per slot: the first slot of the samples that reach into it, and their end.

    The end is no later than the slot itself begins if it has none.
    """

    def chosen(self, streams: list[int]) -> "LayerSlots":
        """The rows of some streams only."""
        arrays = {
            name: getattr(self, name)[streams]
            for name in self.__dataclass_fields__
            if name not in {"layer", "streams", "samples"}
        }
        return LayerSlots(
            self.layer, [self.streams[index] for index in streams], **arrays, samples=self.samples
        )


@dataclass(slots=True)
class Slots:
    """All layers of a recording, cut into slots of ``slot_ns`` from ``start_ns`` on."""

    start_ns: int
    slot_ns: int
    count: int
    layers: dict[str, LayerSlots]
    waiting: dict[str, Floats] = field(default_factory=dict)
    """By layer, how many I/Os without an end had begun by each slot's end."""
    end_ns: int | None = None
    """Where the recording ends, which may be within the last slot; None: at that slot's end."""

    def at_ns(self, slot: int) -> int:
        """When a slot begins, since the recording's start; of the one after the last, when the recording ends."""
        at_ns = self.start_ns + slot * self.slot_ns
        return at_ns if self.end_ns is None else min(at_ns, self.end_ns)

    @property
    def slot_seconds(self) -> float:
        """Length of a slot."""
        return self.slot_ns / SECOND_NS


@dataclass(slots=True)
class Series:
    """One level over time, of a layer (``stream`` is None) or of a stream: ``values`` at the slots ``at``."""

    layer: str
    stream: Stream | None
    at: Int64s
    """Slots with a value, rising."""
    values: Floats
    """ln of the latency: absolute for a stream; for a layer, against each stream's median, plus ``reference``."""
    within_variance: Floats
    measured_count: Floats
    samples: tuple[Int64s, Int64s] | None = None
    """As those of `LayerSlots`: per slot of the recording."""
    is_mean: bool = False
    """Whether ``values`` are logarithms of means of I/Os, and not means of logarithms."""

    @property
    def slots_per_sample(self) -> int:
        """How far into time one value typically reaches."""
        if self.samples is None:
            return 1
        first, end = self.samples
        return int(np.median((end - first)[self.at]))

    def slots(self, points: slice) -> tuple[int, int]:
        """The first slot of ``points`` and their end; all that their samples reach into, where they are means."""
        first, end = int(self.at[points][0]), int(self.at[points][-1])
        if self.samples is None:
            return first, end + 1
        return int(self.samples[0][first]), max(int(self.samples[1][end]), end + 1)


def read_slots(
    connection: duckdb.DuckDBPyConnection,
    recording: Recording,
    span_ns: tuple[int, int],
    layers: Sequence[str],
    *,
    has_losses: bool = False,
) -> Slots:
    """One pass over the I/Os at ``layers`` of ``recording``, which ``connection`` has open, between the two times.

    An I/O without an end waits until the span ends. Where the recording ``has_losses`` its end may have been lost, so
    that it is only believed to wait if no later I/O of its device has an end. Raises `IotraceError` for damaged data.
    """
    start_ns, end_ns = span_ns
    busiest: Counter[int] = Counter()
    streams = 1
    for layer in layers:
        rows = library.run(connection, "streams", layer=layer).to_pylist()
        streams = max(streams, len({(row["device_id"], row["role"], row["op"]) for row in rows}))
        for row in rows:
            if row["file_id"] is not None:
                busiest[row["file_id"]] += row["io_count"]
    slot_ns = slot_length_ns(end_ns - start_ns, streams)
    count = max(-(-(end_ns - start_ns) // slot_ns), 1)
    room = int(min(max(_CELLS_MAX // (count * max(len(layers), 1) * 2), 2), _FILES_MAX))
    kept = sorted(file_id for file_id, _ in busiest.most_common(room))
    every = streams_of(recording, partial(library.run, connection))
    table = stream_slots(recording, every, span_ns, slot_ns, kept_files=kept, longest_slots=_LONGEST_SLOTS)
    found = Slots(start_ns, slot_ns, count, {}, end_ns=end_ns)
    for layer in layers:
        found.layers[layer], found.waiting[layer] = _layer_slots(
            table, layer, count, slot_ns, has_losses=has_losses
        )
    return found


def slot_length_ns(length_ns: int, streams: int = 1) -> int:
    """A second, or the first longer round time that needs no more than `SLOTS_MAX` slots.

    Fewer of them where there are many ``streams``: each has a cell in every slot, and cells take memory.
    """
    slots = max(min(SLOTS_MAX, _LAYER_CELLS_MAX // streams), 1)
    for seconds in _LENGTHS_S:
        if length_ns <= slots * seconds * SECOND_NS:
            return seconds * SECOND_NS
    return -(-length_ns // slots)


def series_of(layer: LayerSlots, *, least_slots: int = 20) -> list[Series]:
    """The layer's own series first, then one for each stream with values in at least ``least_slots`` slots."""
    found = []
    pooled = pooled_series(layer)
    if pooled is not None and len(pooled.at) >= min(least_slots, 4):
        found.append(pooled)
    if len(layer.streams) > 1:
        for index, stream in enumerate(layer.streams):
            at = np.flatnonzero(np.isfinite(layer.log_latency[index]))
            if len(at) >= least_slots:
                values = layer.log_latency[index, at]
                found.append(
                    Series(
                        layer.layer,
                        stream,
                        at,
                        values,
                        layer.within_variance[index, at],
                        layer.measured_count[index, at],
                        layer.samples,
                    )
                )
    return found


def pooled_series(layer: LayerSlots) -> Series | None:
    """A layer's level: each stream against its own median, weighted by I/Os, plus the medians' own weighted mean."""
    if not layer.streams:
        return None
    weights = layer.measured_count
    totals = weights.sum(axis=0)
    at = np.flatnonzero(totals > 0)
    if not len(at):
        return None
    medians = np.array(
        [weighted_median(row, weight) for row, weight in zip(layer.log_latency, weights, strict=True)]
    )
    shift = np.nan_to_num(layer.log_latency - medians[:, None])[:, at]
    chosen = weights[:, at]
    known = weights.sum(axis=1) > 0
    reference = float(np.average(medians[known], weights=weights.sum(axis=1)[known]))
    values = (chosen * shift).sum(axis=0) / totals[at]
    variance = (chosen**2 * np.nan_to_num(layer.within_variance[:, at])).sum(axis=0) / totals[at] ** 2
    return Series(layer.layer, None, at, values + reference, variance, totals[at], layer.samples)


def weighted_median(values: Floats, weights: Floats, share: float = 0.5) -> float:
    """The value below which a ``share`` of the weight lies; NaN where there is no weight."""
    known = np.isfinite(values) & (weights > 0)
    if not known.any():
        return float("nan")
    order = np.argsort(values[known], kind="stable")
    cumulative = np.cumsum(weights[known][order])
    position = int(np.searchsorted(cumulative, share * cumulative[-1]))
    return float(values[known][order][min(position, len(order) - 1)])


def _layer_slots(
    table: pa.Table, layer: str, slots: int, slot_ns: int, *, has_losses: bool
) -> tuple[LayerSlots, Floats]:
    mine = table.filter(pa.compute.equal(table["layer"], layer))
    keys = ("device_id", "file_id", "role", "op")
    numbered = mine.select(keys).append_column("row", pa.array(np.arange(len(mine))))
    distinct = (
        numbered.group_by(list(keys))
        .aggregate([("row", "list")])
        .sort_by([(name, "ascending") for name in keys])
    )
    streams = [_stream(layer, row) for row in distinct.select(keys).to_pylist()]
    which = np.empty(len(mine), dtype=np.int64)
    for position, rows in enumerate(distinct["row_list"]):
        which[rows.values.to_numpy()] = position
    slot = mine["slot"].to_numpy()

    def grid(name: str) -> Floats:
        cells = np.zeros((len(streams), slots))
        cells[which, slot] = mine[name].to_numpy()
        return cells

    begun = grid("begun_count")
    is_believed = _none_later_ended(streams, begun) if has_losses else np.ones((len(streams), 1), dtype=bool)

    any_waits = bool(pa.compute.any(pa.compute.greater(mine["waiting_count"], 0)).as_py())

    def waiting(name: str) -> Floats:
        return np.where(is_believed, grid(name), 0.0) if any_waits else np.zeros((len(streams), 1))

    # What waits to the end is in flight all through every later slot, with all that it has waited.
    hung = waiting("waiting_count").cumsum(axis=1)
    measured = grid("measured_count") + hung
    logs = grid("log_latency_sum") + waiting("waiting_log_sum").cumsum(axis=1)
    squares = grid("log_latency_square_sum") + waiting("waiting_log_square_sum").cumsum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.where(measured > 0, logs / measured, np.nan)
        inside = squares - np.nan_to_num(logs * level)
        spare = np.maximum(measured - 1, 0).sum(axis=1)
        spread = np.where(spare > 0, np.maximum(inside.sum(axis=1), 0) / spare, 0.5)
        within = np.where(measured > 0, spread[:, None] / measured, np.nan)
    in_flight_ns = grid("in_flight_ns") + waiting("waiting_in_flight_ns")
    if any_waits:
        in_flight_ns[:, 1:] += hung[:, :-1] * slot_ns
    found = LayerSlots(
        layer,
        streams,
        io_count=grid("io_count"),
        size_bytes=grid("size_bytes"),
        measured_count=measured,
        log_latency=level,
        within_variance=within,
        latency_sum_ns=grid("latency_sum_ns") + waiting("waiting_sum_ns"),
        begun_count=begun + waiting("waiting_count"),
        in_flight=in_flight_ns / slot_ns,
    )
    return found, hung.sum(axis=0) if any_waits else np.zeros(slots)


def _none_later_ended(streams: list[Stream], begun: Floats) -> npt.NDArray[np.bool_]:
    """Slots of each stream after which nothing began on its device that has an end."""
    found = np.zeros(begun.shape, dtype=bool)
    for device in {stream.device_id for stream in streams}:
        rows = [index for index, stream in enumerate(streams) if stream.device_id == device]
        at = np.flatnonzero(begun[rows].any(axis=0))
        found[rows, (int(at[-1]) if len(at) else 0) :] = True
    return found


def _stream(layer: str, row: dict[str, Any]) -> Stream:
    return Stream(layer, row["op"], row["device_id"], row["file_id"], row["role"])
