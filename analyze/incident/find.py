"""Puts the parts together: series, their slow stretches, the windows these make, and each window's account."""

from dataclasses import replace
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt

from iotrace.schemas import IotraceError, Recording, counted

from .. import library
from ..describe import LAYER_ORDER, workload_layer
from ..units import format_duration_ns, format_ratio_with_interval
from .beside import counters_beside, markers_beside, waits_beside
from .blame import Blame, Names
from .drive import Drive, judge_drive
from .factor import Factor, factor_of
from .from_means import CANNOT_KNOW, mean_slots
from .groups import Group, windows_of
from .result import Incidents, Interval, SeenIn, Sensitivity, SlowWindow, Timeline
from .series import Floats, LayerSlots, Stream, read_slots, series_of
from .stretches import Judged, Stretch, judge
from .where import layer_times, slowest_layer

Flags = npt.NDArray[np.bool_]

_SENSITIVITY_SLOTS: Final = (3, 10, 60)
_WINDOWS_MAX: Final = 50
_TOGETHER_LATENCIES: Final = 10
_TOGETHER_NS: Final = (1_000_000, 100_000_000)
"""I/Os within so many normal latencies of each other, but within these bounds, begin together."""
_AROUND_SLOTS: Final = 600


def incident(recording: Recording) -> Incidents:
    """Find the slow windows of ``recording``, from its I/Os or, where it has none, from the means of its counters.

    Raises `IotraceError` if its data cannot be read, or it holds neither I/Os nor counters of latency.
    """
    with library.opened(recording) as connection:
        return _Finder(recording, connection).incidents()


class _Finder:
    def __init__(self, recording: Recording, connection: duckdb.DuckDBPyConnection) -> None:
        self.recording, self.connection = recording, connection
        manifest = recording.manifest
        layers = library.run(connection, "layers").to_pylist()
        self.is_means = not layers
        self.span_ns = (manifest.window_start_ns, manifest.window_end_ns)
        if layers and self.span_ns[1] <= self.span_ns[0]:
            self.span_ns = (
                min(row["first_issued_ns"] for row in layers),
                max(row["last_seen_ns"] for row in layers) + 1,
            )
        if self.is_means:
            self.slots = mean_slots(connection, self.span_ns)
            if not self.slots.layers:
                raise IotraceError(
                    f"'{recording.path}' has no I/Os and no counters of latency: there is nothing to find incidents in",
                    hint="iotrace describe shows what it holds; a counter log needs Avg. Disk sec/Read or sec/Write",
                )
            self.load_layer = workload_layer(self.slots.layers) or next(iter(self.slots.layers))
        else:
            self.slots = read_slots(connection, self.span_ns)
            self.load_layer = workload_layer(self.slots.layers) or LAYER_ORDER[0]
        self.names = Names(recording)
        self._factors: dict[tuple[str, Stream | None, int], Factor] = {}

    def incidents(self) -> Incidents:
        manifest = self.recording.manifest
        found = Incidents(
            title=manifest.title or self.recording.name,
            uuid=manifest.uuid,
            kind=manifest.kind,
            quality_verdict=manifest.quality.verdict,
            quality_reasons=list(manifest.quality.reasons),
            start_ns=self.slots.start_ns,
            end_ns=self.slots.at_ns(self.slots.count),
            slot_ns=self.slots.slot_ns,
            basis="means" if self.is_means else "I/Os",
            load_layer=self.load_layer,
            notes=list(CANNOT_KNOW) if self.is_means else [],
        )
        judged = self._judged()
        if not judged:
            found.notes.append("too few slots hold I/Os to say what is normal: nothing was looked for")
            return found
        groups = windows_of(judged)
        found.timelines = [self._timeline(entry) for entry in judged if entry.series.stream is None]
        found.sensitivity = self._sensitivity(judged)
        found.notes += self._notes(groups)
        found.windows = self._windows(groups[:_WINDOWS_MAX])
        return found

    def _judged(self) -> list[Judged]:
        series = [entry for layer in self.slots.layers.values() for entry in series_of(layer)]
        extra = 2 * float(np.log(max(len(series), 1)))
        return [judge(entry, extra_penalty=extra) for entry in series if len(entry.at) >= 8]

    def _windows(self, groups: list[Group]) -> list[SlowWindow]:
        if not groups:
            return []
        is_normal = np.ones(self.slots.count, dtype=bool)
        for group in groups:
            is_normal[group.first : group.end] = False
        spans = [(self.slots.at_ns(group.first), self.slots.at_ns(group.end)) for group in groups]
        blame = (
            None
            if self.is_means
            else Blame(self.names, self.connection, self.load_layer, self.span_ns, spans)
        )
        windows = [self._window(index, group, is_normal, blame) for index, group in enumerate(groups)]
        windows.sort(key=lambda window: -window.lost_ns)
        return [_numbered(window, number) for number, window in enumerate(windows, 1)]

    def _window(self, index: int, group: Group, is_normal: Flags, blame: Blame | None) -> SlowWindow:
        best, stretch = group.strongest
        window = (group.first, group.end)
        span_ns = (self.slots.at_ns(group.first), self.slots.at_ns(group.end))
        streams = _streams(group)
        factor, interval = self._factor(best, stretch)
        drive = self._drive(best, streams, window, is_normal, factor)
        times = layer_times(self.slots, window, is_normal, streams)
        layer = slowest_layer(times)
        inside = (best.series.at >= group.first) & (best.series.at < group.end)
        normal_ns = float(np.exp(np.average(best.normal[inside], weights=best.series.measured_count[inside])))
        low, high = best.spread
        rows = blame.of(index, by_load=drive.is_more_load) if blame else []
        length = group.end - group.first
        return SlowWindow(
            number=0,
            start_ns=span_ns[0],
            end_ns=span_ns[1],
            layer=layer or best.series.layer,
            cause=drive.cause,
            headline=_headline(
                format_ratio_with_interval(factor, interval),
                f"most of it in the {layer} layer" if layer else f"seen in the {best.series.layer} layer",
                drive,
                length * self.slots.slot_ns,
            ),
            factor=factor,
            factor_interval=interval,
            normal_ns=normal_ns,
            normal_range_ns=(normal_ns * float(np.exp(low)), normal_ns * float(np.exp(high))),
            slow_ns=normal_ns * factor,
            lost_ns=self._lost_ns(window, is_normal),
            evidence=drive.evidence,
            load=drive.changes,
            layers=times,
            seen_in=self._seen_in(group),
            blame=rows,
            markers=markers_beside(self.connection, span_ns),
            waits=waits_beside(self.connection, span_ns, self.span_ns),
            counters=[] if self.is_means else counters_beside(self.connection, span_ns),
            blamed_by="load" if drive.is_more_load else "time",
            is_most_of_recording=length > self.slots.count / 2,
            caveats=_caveats(interval, is_most=length > self.slots.count / 2),
        )

    def _factor(self, judged: Judged, stretch: Stretch) -> tuple[float, Interval]:
        """How slow, and the 95 % interval; a window's strongest series is asked for twice."""
        key = (judged.series.layer, judged.series.stream, stretch.first)
        found = self._factors.get(key)
        if found is None:
            found = self._factors[key] = factor_of(judged, stretch)
        return found.value, (found.low, found.high)

    def _drive(
        self, best: Judged, streams: list[Stream], window: tuple[int, int], is_normal: Flags, factor: float
    ) -> Drive:
        """Judge by everything that shares the devices of what is slow; they may be known at this layer only."""
        load, what = self._load(best.series.layer, streams)
        excess = np.full(self.slots.count, np.nan)
        excess[best.series.at] = best.series.values - best.normal
        return judge_drive(
            load,
            window,
            is_normal,
            excess,
            factor,
            slot_ns=self.slots.slot_ns,
            what=what,
            together=None if self.is_means else self._together(load, window, best),
            is_mean=self.is_means,
        )

    def _together(self, load: LayerSlots, window: tuple[int, int], best: Judged) -> Floats:
        """How many I/Os begin together in each slot in and around the window, as an I/O sees it; NaN elsewhere."""
        latency_ns = float(np.exp(np.median(best.normal)))
        bin_ns = int(np.clip(_TOGETHER_LATENCIES * latency_ns, *_TOGETHER_NS))
        first, end = max(window[0] - _AROUND_SLOTS, 0), min(window[1] + _AROUND_SLOTS, self.slots.count)
        table = library.run(
            self.connection,
            "incident_bursts",
            layer=load.layer,
            from_ns=self.slots.at_ns(first),
            until_ns=self.slots.at_ns(end),
            slot_ns=self.slots.slot_ns,
            bin_ns=bin_ns,
        )
        devices = {stream.device_id for stream in load.streams}
        chosen = np.array([device in devices for device in table["device_id"].to_pylist()], dtype=bool)
        slot = table["slot"].to_numpy()[chosen] + first
        counts, together = (
            np.bincount(slot, table[name].to_numpy()[chosen], minlength=self.slots.count)
            for name in ("io_count", "together_count")
        )
        return np.where(counts > 0, together / np.maximum(counts, 1), np.nan)

    def _load(self, layer: str, streams: list[Stream]) -> tuple[LayerSlots, str]:
        load = self.slots.layers[self.load_layer]
        if self.is_means:
            load = self.slots.layers[layer]
            instances = {stream.instance for stream in streams}
            rows = [index for index, stream in enumerate(load.streams) if stream.instance in instances]
            named = ", ".join(sorted(str(name) for name in instances if name))
            return (load.chosen(rows), named) if rows and len(named) < 40 else (load, f"the {layer} layer")
        devices = {stream.device_id for stream in streams}
        if devices and None not in devices:
            rows = [index for index, stream in enumerate(load.streams) if stream.device_id in devices]
            if rows and len(rows) < len(load.streams):
                named = ", ".join(
                    sorted(self.names.devices.get(device, "?") for device in devices if device is not None)
                )
                return load.chosen(rows), named if len(named) < 40 else counted(len(devices), "device")
        return load, f"the {self.load_layer} layer"

    def _lost_ns(self, window: tuple[int, int], is_normal: Flags) -> float:
        layer = self.slots.layers[self.load_layer]
        lost = 0.0
        for index in range(len(layer.streams)):
            sums, counts = layer.latency_sum_ns[index], layer.begun_count[index]
            usual = counts[is_normal].sum()
            if usual:
                mine = counts[slice(*window)].sum()
                lost += float(sums[slice(*window)].sum() - mine * sums[is_normal].sum() / usual)
        return max(lost, 0.0)

    def _seen_in(self, group: Group) -> list[SeenIn]:
        found = []
        for entry, stretch in sorted(group.parts, key=lambda part: -part[1].evidence):
            stream = entry.series.stream
            factor, interval = self._factor(entry, stretch)
            found.append(
                SeenIn(
                    entry.series.layer,
                    self._stream_name(stream),
                    stream.op if stream else None,
                    stream.role if stream else None,
                    self.names.files.get(stream.file_id) if stream else None,
                    (stream.instance or self.names.devices.get(stream.device_id)) if stream else None,
                    self.slots.at_ns(stretch.first),
                    self.slots.at_ns(stretch.end),
                    factor,
                    interval,
                )
            )
        return found

    def _stream_name(self, stream: Stream | None) -> str | None:
        if stream is None:
            return None
        where = stream.instance or self.names.files.get(stream.file_id)
        if where is None:
            role = "" if stream.role == "unattributed" else stream.role
            device = self.names.devices.get(stream.device_id)
            where = " ".join(part for part in (role, f"on {device}" if device else "") if part)
        return f"{stream.op} {where}".strip()

    def _timeline(self, entry: Judged) -> Timeline:
        count, layer = self.slots.count, self.slots.layers[entry.series.layer]
        latency: list[float | None] = [None] * count
        normal: list[float | None] = [None] * count
        for at, value, usual in zip(entry.series.at, entry.series.values, entry.normal, strict=True):
            latency[at], normal[at] = float(np.exp(value)), float(np.exp(usual))
        low, high = entry.spread
        seconds = self.slots.slot_seconds
        return Timeline(
            layer=layer.layer,
            at_ns=[self.slots.at_ns(slot) for slot in range(count)],
            latency_ns=latency,
            normal_ns=normal,
            normal_range=(float(np.exp(low)), float(np.exp(high))),
            ios_per_s=(layer.io_count.sum(axis=0) / seconds).tolist(),
            bytes_per_s=(layer.size_bytes.sum(axis=0) / seconds).tolist(),
            in_flight=layer.in_flight.sum(axis=0).tolist(),
        )

    def _sensitivity(self, judged: list[Judged]) -> list[Sensitivity]:
        return [
            Sensitivity(
                entry.series.layer, slots * self.slots.slot_ns, float(np.exp(entry.least_excess(slots)))
            )
            for entry in judged
            if entry.series.stream is None
            for slots in _SENSITIVITY_SLOTS
            if slots < len(entry.series.at) / 2
        ]

    def _notes(self, groups: list[Group]) -> list[str]:
        notes = []
        if self.slots.slot_ns > 1_000_000_000:
            notes.append(
                f"looked at in steps of {format_duration_ns(self.slots.slot_ns)}; what is shorter is not seen"
            )
        if len(groups) > _WINDOWS_MAX:
            notes.append(
                f"{len(groups):,} slow windows were found; the {_WINDOWS_MAX} clearest are accounted for"
            )
        return notes


def _streams(group: Group) -> list[Stream]:
    """The streams that were slow themselves; empty where only whole layers were."""
    return [entry.series.stream for entry, _ in group.parts if entry.series.stream is not None]


def _headline(slower: str, where: str, drive: Drive, length_ns: int) -> str:
    why = {
        "load-driven": "load grew" if drive.is_more_load else "as many I/Os came in bursts",
        "service-driven": "the storage was slower at the same load",
        "cannot tell": "load or storage, the recording cannot tell",
    }[drive.cause]
    return f"{slower} slower than normal for {format_duration_ns(length_ns)}, {where}: {why}"


def _caveats(interval: Interval, *, is_most: bool) -> list[str]:
    caveats = []
    if interval[0] <= 1:
        caveats.append("the interval holds 1: it may have been no slower than normal")
    if is_most:
        caveats.append(
            "it lasted for more than half of the recording: which level is normal, the recording cannot tell"
        )
    return caveats


def _numbered(window: SlowWindow, number: int) -> SlowWindow:
    return replace(window, number=number)
