"""Describes a recording: what was asked of the storage, how it came, and how long it took.

Figures of load come from one layer, the uppermost storage layer there is (block, else device, filesystem, sql), so an
I/O seen by several layers counts once. Latency is given for each layer, over I/Os that succeeded and were seen to end.
Rates are over the recording's window. Memory does not grow with the recording: counts and sums are added up by DuckDB,
and what depends on order or takes a histogram is found in one pass over the rows in order of time (`one_pass`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import duckdb
import pyarrow as pa

from iotrace.analyze import library
from iotrace.analyze.stats.histogram import Histogram, Histograms
from iotrace.analyze.units import format_duration_ns, format_share
from iotrace.schemas import LOAD_OPS, Recording, counted
from iotrace.schemas.vocabulary import UNATTRIBUTED, load_layer

from .description import (
    Description,
    Flow,
    HotSpot,
    InFlight,
    Latency,
    LayerCount,
    LayerLatency,
    OpCount,
    SizeCount,
    Workload,
)
from .figures import FIRST_BLOCK_BYTES, Flight, Measured, is_coarse_clock
from .one_pass import Subject, measure, streams_of
from .results import results_of

_TOP: Final = 10
_COUNTERS_LONGER: Final = 1.1

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Survey:
    """A description, and what can be added up with that of other recordings."""

    description: Description
    latency: dict[str, Histogram]
    """By operation: the headline metric of the reads and of the writes at the workload layer."""
    seconds: pa.Table | None
    """As query ``load_per_second``; None where there are no I/Os."""


def describe(recording: Recording) -> Description:
    """Describe ``recording``. Raises `IotraceError` if its data cannot be read."""
    with library.opened(recording) as connection:
        return describe_opened(recording, connection)[0]


def describe_opened(
    recording: Recording, connection: duckdb.DuckDBPyConnection
) -> tuple[Description, dict[str, Histograms]]:
    """As `describe`, of a recording that is open, with the histograms of its latencies by metric; none without I/Os."""
    describer = _Describer(recording, connection)
    return describer.description(), describer.histograms


def survey(recording: Recording) -> Survey:
    """Describe ``recording`` as one of many. Raises `IotraceError` if its data cannot be read."""
    with library.opened(recording) as connection:
        return _Describer(recording, connection).survey()


class _Describer:
    """Holds what several figures are made from."""

    def __init__(self, recording: Recording, connection: duckdb.DuckDBPyConnection) -> None:
        self.recording = recording
        self.connection = connection
        manifest = recording.manifest
        self.metrics = ("service", "response", "lateness") if manifest.is_played else ("service",)
        self.layers = self.ask("layers")
        self.layer = load_layer(row["layer"] for row in self.layers)
        self.start_ns, self.end_ns = manifest.window_start_ns, manifest.window_end_ns
        self.notes: list[str] = []
        self.histograms: dict[str, Histograms] = {}
        if self.end_ns <= self.start_ns and self.layer:
            row = next(row for row in self.layers if row["layer"] == self.layer)
            self.start_ns, self.end_ns = row["first_issued_ns"], row["last_seen_ns"] + 1
            self.notes.append(
                "the recording states no window: rates are over the time from first to last I/O"
            )
        self.window_ns = max(self.end_ns - self.start_ns, 0)

    def ask(self, query_name: str, **parameters: Any) -> list[Row]:  # noqa: ANN401
        rows: list[Row] = library.run(self.connection, query_name, **parameters).to_pylist()
        return rows

    def survey(self) -> Survey:
        description = self.description()
        if self.layer is None:
            return Survey(description, {}, None)
        histograms = self.histograms[description.headline_metric]
        zero_utc_ns = self.recording.manifest.clock.start_utc_ns
        return Survey(
            description,
            {op.value: histograms.merged(op=op.value, layer=self.layer) for op in LOAD_OPS},
            library.run(self.connection, "load_per_second", layer=self.layer, zero_utc_ns=zero_utc_ns),
        )

    def description(self) -> Description:
        manifest = self.recording.manifest
        description = Description(
            title=manifest.title or self.recording.name,
            uuid=manifest.uuid,
            kind=manifest.kind,
            start_utc_ns=manifest.clock.start_utc_ns + self.start_ns,
            quality_verdict=manifest.quality.verdict,
            quality_reasons=list(manifest.quality.reasons),
            window_start_ns=self.start_ns,
            window_ns=self.window_ns,
            workload_layer=self.layer,
            headline_metric="response" if manifest.is_played else "service",
            block_bytes=FIRST_BLOCK_BYTES,
            drives=self.ask("counter_drives"),
            counters=self.ask("counter_summary"),
            waits=self.ask("wait_types"),
            markers=self.ask("marker_kinds"),
            results=results_of([self.recording]),
            shared_time=[*manifest.quality.shared_time, *self._load_in_part()],
            notes=self.notes,
        )
        if self.layer is None:
            if not description.results:
                words = "the recording holds no I/Os"
                means = f"{words}, only counters: means over intervals, from which no percentile can come"
                self.notes.append(means if description.counters else words)
            return description
        self.streams = self.ask("streams", layer=self.layer)
        self.measured = self._measure()
        description = replace(
            description,
            block_bytes=self.measured.block_bytes,
            touched_slices=self.measured.touched_slices(),
            busiest_hundredth_share=self.measured.busiest_hundredth_share(),
        )
        self.histograms = {
            metric: Histograms(self.measured.histogram_table(metric)) for metric in self.metrics
        }
        library.provide(self.connection, "io_per_second", self.measured.seconds())
        self.devices = {row["device_id"]: row for row in self.recording.read("devices").to_pylist()}
        self.mounted_parts: dict[int, list[Row]] = {}
        for row in self.devices.values():
            if row["parent_device_id"] is not None and row["mount"]:
                self.mounted_parts.setdefault(row["parent_device_id"], []).append(row)
        for row in self.layers:
            names = ("layer", "io_count", "failed_count", "unfinished_count")
            description.layers.append(LayerCount(*(row[name] for name in names)))
        for op in dict.fromkeys(row["op"] for row in self.streams):
            mine = [row for row in self.streams if row["op"] == op]
            sums = (sum(row[name] for row in mine) for name in ("io_count", "failed_count", "size_bytes"))
            description.operations.append(OpCount(op, *sums))
        self._note_clock()
        self._note_gaps()
        self._note_counters(description.drives)
        description.workloads.extend(self._workloads())
        description.sizes.extend(SizeCount(**row) for row in self.ask("size_distribution", layer=self.layer))
        description.in_flight.extend(self._in_flight())
        description.layer_latencies.extend(self._layer_latencies())
        description.busiest.extend(self._busiest())
        description.top_files.extend(self.ask("top_files", layer=self.layer, row_limit=_TOP))
        description.top_processes.extend(self.ask("top_processes", layer=self.layer, row_limit=_TOP))
        databases = self.ask("top_databases", layer=self.layer, row_limit=_TOP)
        description.top_databases.extend(databases if any(row["database"] for row in databases) else [])
        description.hot_spots.extend(self._hot_spots())
        return description

    def _measure(self) -> Measured:
        streams = streams_of(self.recording, partial(library.run, self.connection))
        subject = Subject(
            self.layer or "",
            (self.start_ns, self.end_ns),
            self.metrics,
            has_errors=any(row["failed_count"] for row in self.layers),
        )
        self.number_of = {
            (stream.device_id, stream.file_id, stream.role, stream.op): number
            for number, stream in enumerate(streams)
            if stream.layer == self.layer
        }
        return measure(self.connection, self.recording, streams, subject)

    def _busiest(self) -> Iterable[Row]:
        for window_ns, by_ios, by_bytes in self.measured.busiest:
            for ranked_by, (from_ns, amount) in (("io_count", by_ios), ("size_bytes", by_bytes)):
                if self.window_ns >= window_ns and amount:
                    until_ns = from_ns + window_ns
                    (carried,) = self.ask("window_load", layer=self.layer, from_ns=from_ns, until_ns=until_ns)
                    yield {"ranked_by": ranked_by, "from_ns": from_ns, "window_ns": window_ns} | carried

    def _note_counters(self, drives: list[Row]) -> None:
        """Counters may go on for a day beside an hour of I/Os; their means are not to be held against the I/Os then."""
        sampled_ns = max((row["sampled_ns"] for row in drives), default=0)
        if sampled_ns > _COUNTERS_LONGER * self.window_ns:
            self.notes.append(
                f"counters were sampled for {format_duration_ns(sampled_ns)}, I/Os recorded for "
                f"{format_duration_ns(self.window_ns)}: means of counters are over their own time"
            )

    def _note_clock(self) -> None:
        step_ns, arrivals = self.recording.manifest.clock.resolution_ns, self.measured.all_arrivals
        if is_coarse_clock(step_ns, arrivals.count, self.window_ns):
            self.notes.append(
                f"the source's clock counts in steps of {format_duration_ns(step_ns)}, which several I/Os share: how "
                "bursty they are within that cannot be told"
            )

    def _note_gaps(self) -> None:
        layer = next(row for row in self.layers if row["layer"] == self.layer)
        if layer["unfinished_count"] == layer["io_count"]:
            self.notes.append("no I/O has an end: neither latencies nor queue lengths are known")
        elif layer["unfinished_count"]:
            self.notes.append(
                f"{layer['unfinished_count']:,} I/Os were not seen to end: they count as load, have no latency "
                "and no part in the queue, which is a lower bound"
            )
        if layer["failed_count"]:
            self.notes.append(
                f"{layer['failed_count']:,} I/Os failed: they count as load and in the queue, and have no latency"
            )
        beside = {op: _count(self.streams, op) for op in ("flush", "discard")}
        told = " and ".join(
            counted(count, op, f"{op}es" if op == "flush" else "") for op, count in beside.items() if count
        )
        if told:
            self.notes.append(
                f"{told} beside the load: the queue counts them, too; rates, gaps, peaks and the busiest stretches "
                "count reads and writes alone"
            )
        if any(row["role"] == UNATTRIBUTED for row in self.streams):
            count = sum(row["io_count"] for row in self.streams if row["role"] == UNATTRIBUTED)
            self.notes.append(
                f"{count:,} I/Os ({format_share(count / layer['io_count'])}) belong to no known file: "
                "their role is called unattributed"
            )
        transfers = sum(_count(self.streams, op) for op in LOAD_OPS)
        unplaced = transfers - int(self.measured.sequence.placed_count.sum())
        if unplaced:
            told = "those of the others" if unplaced < transfers else "not known"
            self.notes.append(
                f"{unplaced:,} reads and writes ({format_share(unplaced / transfers)}) have no known place: "
                f"sequential share, working set and hot spots are {told}"
            )

    def _workloads(self) -> Iterable[Workload]:
        yield self._workload(self.streams, None, None, is_total=True)
        by_device = self._rows_by_device()
        for device_id, mine in by_device.items():
            yield self._workload(mine, device_id, None)
        for device_id, mine in by_device.items():
            for role in sorted({row["role"] for row in mine}):
                yield self._workload([row for row in mine if row["role"] == role], device_id, role)

    def _rows_by_device(self) -> dict[int | None, list[Row]]:
        rows: dict[int | None, list[Row]] = {}
        for row in self.streams:
            rows.setdefault(row["device_id"], []).append(row)
        return dict(sorted(rows.items(), key=lambda entry: _nulls_last(entry[0])))

    def _workload(
        self, rows: list[Row], device_id: int | None, role: str | None, *, is_total: bool = False
    ) -> Workload:
        where: dict[str, object] = {"layer": self.layer}
        if not is_total:
            where["device_id"] = device_id
        if role is not None:
            where["role"] = role
        device = self.devices.get(device_id, {})
        read, write = (self._flow(rows, op, where) for op in ("read", "write"))
        transfers, moved = read.io_count + write.io_count, read.size_bytes + write.size_bytes
        arrivals = self.measured.all_arrivals if is_total else self.measured.arrivals[device_id, role]
        both, reads, writes = (
            self.measured.touched_bytes(device_id, role, ops, is_total=is_total)
            for ops in (("read", "write"), ("read",), ("write",))
        )
        return Workload(
            device_id=device_id,
            device=device.get("name"),
            mount=self._mount(device_id),
            role=role,
            is_total=is_total,
            read=read,
            write=write,
            flush_count=_count(rows, "flush"),
            discard_count=_count(rows, "discard"),
            ios_per_s=self._per_s(transfers),
            bytes_per_s=self._per_s(moved),
            bytes_per_transfer=moved / transfers if transfers else None,
            queue_length_mean=self._flight_ns(device_id, role, is_total=is_total) / max(self.window_ns, 1),
            read_share_of_ios=read.io_count / transfers if transfers else None,
            read_share_of_bytes=read.size_bytes / moved if moved else None,
            interarrival_cv=arrivals.coefficient_of_variation,
            peak_to_mean=arrivals.peak_to_mean,
            working_set_bytes=both,
            read_working_set_bytes=reads,
            written_working_set_bytes=writes,
        )

    def _load_in_part(self) -> list[str]:
        """Whether the layer of the load was recorded for a part of the time alone."""
        return [
            str(part) for part in self.recording.manifest.quality.part_recorded if part.layer == self.layer
        ]

    def _flight_ns(self, device_id: int | None, role: str | None, *, is_total: bool) -> int:
        """Time in flight within the window, of all I/Os that were seen to end, failed ones too."""
        if is_total:
            return self.measured.all_flight.integral_ns
        if role is None:
            return self.measured.flight[device_id].integral_ns
        return self.measured.group_flight_ns[device_id, role]

    def _mount(self, device_id: int | None) -> str | None:
        """Where the device, or each of its partitions, is mounted: ``E:``, or ``C: D:`` of a disk with two."""
        if device_id is None:
            return None
        parts = self.mounted_parts.get(device_id, [])
        letters = [row["mount"] for row in sorted(parts, key=lambda row: row["start_bytes"] or 0)]
        return self.devices.get(device_id, {}).get("mount") or " ".join(letters) or None

    def _flow(self, rows: list[Row], op: str, where: dict[str, object]) -> Flow:
        mine = [row for row in rows if row["op"] == op]
        count, size_bytes = _count(mine, op), sum(row["size_bytes"] for row in mine)
        numbers = [self.number_of[row["device_id"], row["file_id"], row["role"], row["op"]] for row in mine]
        sequence = self.measured.sequence
        placed = int(sequence.placed_count[numbers].sum())
        return Flow(
            io_count=count,
            size_bytes=size_bytes,
            failed_count=sum(row["failed_count"] for row in mine),
            ios_per_s=self._per_s(count),
            bytes_per_s=self._per_s(size_bytes),
            bytes_per_transfer=size_bytes / count if count else None,
            sequential_share=int(sequence.sequential_count[numbers].sum()) / placed if placed else None,
            latency={
                metric: Latency.of(self.histograms[metric].merged(op=op, **where), metric)
                for metric in self.metrics
            },
        )

    def _per_s(self, amount: float) -> float:
        return amount * 1e9 / self.window_ns if self.window_ns else 0.0

    def _in_flight(self) -> Iterable[InFlight]:
        yield self._in_flight_of(self.streams, None, self.measured.all_flight, is_total=True)
        if len(self.measured.flight) > 1:
            by_device = self._rows_by_device()
            for device_id in sorted(self.measured.flight, key=_nulls_last):
                yield self._in_flight_of(
                    by_device.get(device_id, []), device_id, self.measured.flight[device_id]
                )

    def _in_flight_of(
        self, rows: list[Row], device_id: int | None, flight: Flight, *, is_total: bool = False
    ) -> InFlight:
        where = {"layer": self.layer} | ({} if is_total else {"device_id": device_id})
        measured = self.histograms["service"].merged(**where)
        mean = flight.integral_ns / flight.length_ns if flight.length_ns else 0.0
        arrivals_per_s = self._per_s(sum(row["io_count"] for row in rows))
        latency_mean_ns = measured.latency_sum_ns / measured.total if measured.total else None
        littles_law = None if latency_mean_ns is None else arrivals_per_s * latency_mean_ns / 1e9
        return InFlight(
            device_id=device_id,
            device=self.devices.get(device_id, {}).get("name"),
            is_total=is_total,
            mean=mean,
            peak=flight.peak,
            arrivals_per_s=arrivals_per_s,
            latency_mean_ns=latency_mean_ns,
            littles_law=littles_law,
            difference_share=(littles_law - mean) / mean if littles_law is not None and mean > 0 else None,
        )

    def _hot_spots(self) -> Iterable[HotSpot]:
        total = sum(entry.io_count for entry in self.measured.touched_slices())
        paths = {
            row["file_id"]: row["path"]
            for row in self.recording.read("files", ["file_id", "path"]).to_pylist()
        }
        for page in self.measured.hot_pages(_TOP):
            yield HotSpot(
                device_id=page.device_id,
                device=self.devices.get(page.device_id, {}).get("name"),
                file_id=page.file_id,
                path=paths.get(page.file_id),
                offset_bytes=page.offset_bytes,
                size_bytes=page.size_bytes,
                io_count=page.io_count,
                share=page.io_count / total,
                io_count_by_slice=page.io_count_by_slice,
            )

    def _layer_latencies(self) -> Iterable[LayerLatency]:
        for layer in (row["layer"] for row in self.layers):
            for op in ("read", "write", "flush", "discard"):
                for metric in self.metrics:
                    latency = Latency.of(self.histograms[metric].merged(layer=layer, op=op), metric)
                    if latency.io_count:
                        yield LayerLatency(layer, op, metric, latency)


def _count(rows: list[Row], op: str) -> int:
    return sum(row["io_count"] for row in rows if row["op"] == op)


def _nulls_last(device_id: int | None) -> tuple[bool, int]:
    return (device_id is None, device_id or 0)
