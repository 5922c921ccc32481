"""Puts the parts together: series, their slow stretches, the windows these make, and each window's account."""

from collections import Counter
from dataclasses import replace
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from iotrace.analyze import library
from iotrace.analyze.units import format_duration_ns
from iotrace.schemas import IotraceError, Layer, Recording, counted
from iotrace.schemas.arrays import Floats
from iotrace.schemas.vocabulary import UNATTRIBUTED, load_layer

from .attribution import Blame, Names, disjoint, layer_times, slowest_layer
from .cause import Drive, explained_by_load, judge_drive
from .chance import Chance, without_chance
from .change_points import Flags
from .context import counters_beside, markers_beside, waits_beside
from .counters import CANNOT_KNOW, mean_slots
from .drifts import Drifting, drifting, least_mean_excess, left_by_load, told_alike
from .factor import Factor, factor_of
from .groups import Group, windows_of
from .periodic import Pattern, patterns_of
from .rare import SLOWEST_MAX, RareSlow, rare_slow
from .result import Change, Gradual, Incidents, Interval, Periodic, SeenIn, Sensitivity, SlowWindow, Timeline
from .series import LayerSlots, Series, Stream, pooled_series, read_slots, series_of
from .stretches import Course, Judged, Stretch, judge, levelled
from .words import TOO_FEW, caveats, headline, periodic_headline, rare_words, what_slowed, where

_SENSITIVITY_SLOTS: Final = (3, 10, 60)
_SENSITIVITY_S: Final = (60, 300)
_WINDOWS_MAX: Final = 50
_EVER_NS: Final = (-(1 << 63), (1 << 63) - 1)
_DRIFTS_MAX: Final = 10
_SEEN_IN_MAX: Final = 20
_PERIODS_LOOKED_AT: Final = 12
"""Windows of a pattern that are accounted for, spread over it."""
_EXPLAINED: Final = float(np.log(1.2))
"""What a window is slower than its load by, or half of its excess if that is more: then the load explains it."""
_EXPLAINED_CLEAR: Final = 3.5
_FACTOR_LEAST: Final = 1.2
_MOST: Final = 0.5
_MORE_LOAD: Final = 1.1
_DRIVEN_LEAST: Final = 3
_LOST_LEAST: Final = float(np.log(1.05))
"""What is less than a twentieth slower on the whole of its devices cost nobody anything."""
_TOLD_SHARE: Final = 0.8
_TOGETHER_LATENCIES: Final = 10
_TOGETHER_NS: Final = (1_000_000, 100_000_000)
"""I/Os within so many normal latencies of each other, but within these bounds, begin together."""
_AROUND_SLOTS: Final = 600
_BESIDE_SLOTS: Final = 5


class NoLatencyError(IotraceError):
    """The recording holds neither I/Os nor counters of latency."""


def incident(recording: Recording, connection: duckdb.DuckDBPyConnection | None = None) -> Incidents:
    """Find the slow windows of ``recording``, from its I/Os or, where it has none, from the means of its counters.

    ``connection`` has it open, where somebody asked it before and knows some of it already.
    Raises `NoLatencyError` where it has neither, and `IotraceError` if its data cannot be read.
    """
    if connection is not None:
        return _Finder(recording, connection).incidents()
    with library.opened(recording) as opened:
        return _Finder(recording, opened).incidents()


class _Finder:
    def __init__(self, recording: Recording, connection: duckdb.DuckDBPyConnection) -> None:
        self.recording, self.connection = recording, connection
        manifest = recording.manifest
        layers = library.run(connection, "layers").to_pylist()
        # A source without latencies leaves I/Os without an end: these do not hang until it ends.
        timed = [row["layer"] for row in layers if row["unfinished_count"] < row["io_count"]]
        self.is_means = not timed
        self.has_losses = bool(manifest.quality.events_lost or manifest.quality.buffers_lost)
        self.span_ns = (manifest.window_start_ns, manifest.window_end_ns)
        if layers and self.span_ns[1] <= self.span_ns[0]:
            self.span_ns = (
                min(row["first_issued_ns"] for row in layers),
                max(row["last_seen_ns"] for row in layers) + 1,
            )
        if self.is_means:
            self.slots = mean_slots(connection, self.span_ns)
            if not self.slots.layers:
                lacks = "none of its I/Os has a latency, and it has" if layers else "it has no I/Os and"
                raise NoLatencyError(
                    f"incidents cannot be found in '{recording.path}': {lacks} no counters of latency",
                    hint="iotrace describe shows what it holds; a counter log needs Avg. Disk sec/Read or sec/Write",
                )
        else:
            self.slots = read_slots(connection, recording, self.span_ns, timed, has_losses=self.has_losses)
        self.load_layer = load_layer(self.slots.layers) or next(iter(self.slots.layers))
        self.names = Names(recording)
        self._factors: dict[tuple[str, Stream | None, int], Factor] = {}
        self._levels: dict[tuple[str, tuple[int, ...]], Series | None] = {}
        self._loads_of: dict[tuple[str, int | None, str | None], list[Floats]] = {}

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
            found.notes.append(TOO_FEW)
            return found
        drifts = {id(entry): self._drifting(entry) for entry in judged}
        sudden, gradual = [], []
        known = [drift for drift in drifts.values() if drift is not None]
        told_of = dict(zip(map(id, known), told_alike(known, self.slots.slot_seconds), strict=True))
        for entry in judged:
            drift = drifts[id(entry)]
            both = told_of[id(drift)] if drift else (entry, None)
            is_changed = bool(both[1] and both[1].stretches)
            sudden.append(both[0] if is_changed else levelled(both[0]))
            gradual += [against_what_it_left(both[1], drift.base)] if drift and both[1] and is_changed else []
        patterns, groups = patterns_of(windows_of(sudden), self.slots.count)
        changes = windows_of(gradual)[:_DRIFTS_MAX]
        found.sensitivity = self._sensitivity(judged, [drifts[id(entry)] for entry in judged])
        found.notes += self._notes(groups, [drifts[id(entry)] for entry in judged])
        usual = np.ones(self.slots.count, dtype=bool)
        told = [*groups, *changes, *(one for pattern in patterns for one in pattern.members)]
        for group in told:
            usual[group.first : group.end] = False
        found.windows = self._with_rare(self._windows(groups[:_WINDOWS_MAX], usual), told, usual)
        found.drifts = self._drifts(changes, usual, found.windows)
        found.periodic = [self._periodic(pattern, usual) for pattern in patterns]
        # A slow change that is told stands out of what is normal, which else follows it.
        changed = {entry.series.layer: entry for entry in gradual if entry.series.stream is None}
        found.timelines = [
            self._timeline(changed.get(entry.series.layer, entry) if found.drifts else entry)
            for entry in sudden
            if entry.series.stream is None
        ]
        return found

    def _judged(self) -> list[Judged]:
        series = [entry for layer in self.slots.layers.values() for entry in series_of(layer)]
        extra = 2 * float(np.log(max(len(series), 1)))
        judged = [
            judge(entry, extra_penalty=extra, with_single=self.is_means or entry.stream is None)
            for entry in series
            if len(entry.at) >= 8
        ]
        return [without_chance(entry, self._loads(entry)[0]) for entry in judged]

    def _drifting(self, judged: Judged) -> Drifting | None:
        return drifting(judged, self._loads(judged), self.slots.slot_seconds)

    def _loads(self, judged: Judged) -> list[Floats]:
        """I/Os and their mean size in each slot, of what shares the devices of a series."""
        stream = judged.series.stream
        key = (judged.series.layer, *((stream.device_id, stream.instance) if stream else (None, None)))
        if key not in self._loads_of:
            load, _ = self._load(judged.series.layer, [stream] if stream else [])
            ios, size_bytes = load.io_count.sum(axis=0), load.size_bytes.sum(axis=0)
            self._loads_of[key] = [ios, np.divide(size_bytes, ios, out=np.zeros_like(ios), where=ios > 0)]
        return self._loads_of[key]

    def _blame(self, groups: list[Group]) -> Blame | None:
        if self.is_means or not groups:
            return None
        spans = [(self.slots.at_ns(group.first), self.slots.at_ns(group.end)) for group in groups]
        return Blame(
            self.names,
            self.connection,
            self.slots,
            self.load_layer,
            self.span_ns,
            spans,
            has_losses=self.has_losses,
        )

    def _windows(self, groups: list[Group], is_normal: Flags) -> list[SlowWindow]:
        """The windows, the costliest first; one in which nothing was lost is none."""
        blame = self._blame(groups)
        windows = [self._window(index, group, is_normal, blame) for index, group in enumerate(groups)]
        driven = [window for window in windows if window.cause == "load-driven"]
        for index, group in enumerate(groups):
            if windows[index] not in driven and _is_like(windows[index], driven):
                windows[index] = self._window(index, group, is_normal, blame, is_load=True)
        windows = [window for window in windows if window.lost_ns > 0 and window.factor >= _FACTOR_LEAST]
        windows.sort(key=lambda window: -window.lost_ns)
        return [_numbered(window, number) for number, window in enumerate(windows, 1)]

    def _with_rare(self, windows: list[SlowWindow], told: list[Group], is_normal: Flags) -> list[SlowWindow]:
        """The windows, and stretches in which few I/Os were very slow, instead of such windows as tell too little."""
        if self.is_means:
            return windows

        def slowest(layer: str) -> pa.Table:
            from_ns, until_ns = self.span_ns
            return library.run(
                self.connection,
                "incident_slowest",
                layer=layer,
                from_ns=from_ns,
                until_ns=until_ns,
                row_limit=SLOWEST_MAX,
            )

        known = [(one.first, one.end, float(np.exp(one.strongest[1].excess))) for one in told]
        rare = [self._rare(one, is_normal) for one in rare_slow(self.slots, slowest, known)]
        windows = [one for one in windows if not any(_is_inside(one, other) for other in rare)]
        windows = sorted([*windows, *rare], key=lambda window: -window.lost_ns)
        return [_numbered(window, number) for number, window in enumerate(windows, 1)]

    def _rare(self, one: RareSlow, is_normal: Flags) -> SlowWindow:
        stretch = one.stretch
        usual = is_normal.copy()
        usual[stretch.first : stretch.end] = False
        group = Group([(one.judged, stretch)], stretch.first, stretch.end)
        window = self._window(0, group, usual, self._blame([group]), rare=rare_words(one))
        return replace(window, lost_ns=one.lost_ns, is_mean=True)

    def _drifts(self, groups: list[Group], is_normal: Flags, windows: list[SlowWindow]) -> list[SlowWindow]:
        """The slow changes that are not told already, as one of the ``windows``."""
        blame = self._blame(groups)
        found = []
        for index, group in enumerate(groups):
            window = self._window(index, group, self._before_change(group, is_normal), blame)
            if window.lost_ns > 0 and window.cause != "load-driven" and not is_told(window, windows):
                found.append(window)
        found.sort(key=lambda window: -window.lost_ns)
        return [_numbered(window, number) for number, window in enumerate(found, len(windows) + 1)]

    def _before_change(self, group: Group, is_normal: Flags) -> Flags:
        """Normal slots outside a change; where it fills the recording, those in which it had done least."""
        course = group.strongest[1].course
        if course is None:
            return is_normal
        share = course.shape(np.arange(self.slots.count, dtype=np.float64))
        for least in (0.0, 0.1, 0.35):
            chosen = is_normal & (share <= least)
            if chosen.sum() >= max(10, 0.05 * self.slots.count):
                return chosen
        return is_normal

    def _periodic(self, pattern: Pattern, is_normal: Flags) -> Periodic:
        step = max(len(pattern.members) // _PERIODS_LOOKED_AT, 1)
        members = pattern.members[::step]
        blame = self._blame(members)
        windows = [self._window(index, group, is_normal, None) for index, group in enumerate(members)]
        causes = Counter(window.cause for window in windows)
        cause = causes.most_common(1)[0][0]
        usual = sorted(windows, key=lambda window: window.factor)[len(windows) // 2]
        kinds = Counter(kind for window in windows for kind in {marker.kind for marker in window.markers})
        by_load = cause == "load-driven"
        slot_ns = self.slots.slot_ns
        length_ns = int(np.median([group.end - group.first for group in pattern.members])) * slot_ns
        lost_ns = sum(window.lost_ns for window in windows) * len(pattern.members) / len(windows)
        at = blame.layer_of(usual.layer, by_load=by_load) if blame else None
        rows = blame.of(range(len(members)), by_load=by_load, layer=at) if blame and at else []
        markers = [kind for kind, count in kinds.most_common() if count >= len(windows) / 2]
        return Periodic(
            period_ns=round(pattern.period * slot_ns),
            length_ns=length_ns,
            factor=usual.factor,
            layer=usual.layer,
            cause=cause,
            headline=periodic_headline(
                len(pattern.members), round(pattern.period * slot_ns), length_ns, usual.factor, markers, rows
            ),
            lost_ns=lost_ns,
            starts_ns=[self.slots.at_ns(group.first) for group in pattern.members],
            blame=rows,
            blamed_by="load" if by_load else "time",
            markers=markers,
            blamed_at=at,
        )

    def _window(
        self,
        index: int,
        group: Group,
        is_normal: Flags,
        blame: Blame | None,
        *,
        is_load: bool = False,
        rare: str = "",
    ) -> SlowWindow:
        best, stretch = group.strongest
        course = stretch.course
        window = (group.first, group.end)
        span = (group.first, group.end)
        if course is not None:
            whole = (max(int(course.start), 0), min(int(np.ceil(course.end)), self.slots.count))
            span = (min(whole[0], span[0]), max(whole[1], span[1]))
        span_ns = (self.slots.at_ns(span[0]), self.slots.at_ns(span[1]))
        streams = _streams(group)
        factor, interval = self._factor(best, stretch)
        drive = self._drive(best, streams, window, is_normal, factor)
        drive = explained_by_load(drive) if is_load else drive
        times = layer_times(self.slots, window, is_normal, streams)
        told_by = self._hanging(window) or slowest_layer(times) or self._hung_in(window)
        layer = told_by or best.series.layer
        unseen = self._unseen(layer, window)
        inside = (best.series.at >= group.first) & (best.series.at < group.end)
        normal_ns = float(np.exp(np.average(best.normal[inside], weights=best.series.measured_count[inside])))
        gradual = None if course is None else self._gradual(course, best)
        normal_ns = gradual.from_ns if gradual else normal_ns
        low, high = best.spread
        hung = self._hung(best.series.layer, window)
        is_most = span[1] - span[0] > _MOST * self.slots.count
        markers = markers_beside(self.connection, span_ns)
        at = blame.layer_of(layer, by_load=drive.is_more_load) if blame else None
        return SlowWindow(
            number=0,
            start_ns=span_ns[0],
            end_ns=span_ns[1],
            layer=layer,
            cause=drive.cause,
            headline=headline(
                factor, interval, normal_ns, span_ns, gradual, drive, what_slowed(layer, times),
                subject=self._stream_name(best.series.stream),
                where=where(best.series.layer, None if unseen else told_by),
                markers=markers,
                rare=rare,
            ),
            factor=factor,
            factor_interval=interval,
            normal_ns=normal_ns,
            normal_range_ns=(normal_ns * float(np.exp(low)), normal_ns * float(np.exp(high))),
            slow_ns=normal_ns * factor,
            lost_ns=self._lost_ns(
                best.series.layer, streams, window, is_normal, is_gradual=course is not None
            ),
            evidence=[*([hung] if hung else []), *drive.evidence],
            load=drive.changes,
            layers=times,
            seen_in=self._seen_in(group),
            blame=blame.of([index], by_load=drive.is_more_load, layer=at) if blame and at else [],
            markers=markers,
            waits=waits_beside(self.connection, span_ns, self.span_ns),
            counters=[] if self.is_means else counters_beside(self.connection, span_ns),
            blamed_by="load" if drive.is_more_load else "time",
            is_most_of_recording=is_most,
            caveats=caveats(interval, is_most=is_most, unseen=unseen),
            gradual=gradual,
            blamed_at=at,
            unseen=unseen,
        )  # fmt: skip

    def _gradual(self, course: Course, best: Judged) -> Gradual:
        """Its times, and the latencies it led from and to, at the load that it met at its height."""
        high = (share := course.shape(best.series.at.astype(np.float64))) >= 0.9 * share.max()
        load = float(np.median(best.normal[high] - best.normal.min())) if high.any() else 0.0
        from_ns = float(np.exp(course.base + load))
        at_ns = [
            self.slots.start_ns + round(knot * self.slots.slot_ns) for knot in (course.risen, course.falling)
        ]
        return Gradual(
            from_ns,
            from_ns * float(np.exp(course.height)),
            min(at_ns[0], self.slots.at_ns(self.slots.count)) if course.has_rise else None,
            at_ns[1] if course.has_fall else None,
        )

    def _hung(self, layer: str, window: tuple[int, int]) -> str | None:
        waiting = self.slots.waiting.get(layer)
        if waiting is None or window[1] < self.slots.count - 1 or not waiting[window[1] - 1]:
            return None
        words = counted(int(waiting[-1]), "I/O")
        return f"{words} had no answer when the recording ended; how long they had waited by then counts"

    @staticmethod
    def _hung_through(slots: LayerSlots, rows: list[int]) -> Floats:
        """How many I/Os of some streams waited from the beginning of each slot to its end."""
        hung: Floats = np.maximum(slots.measured_count[rows] - slots.begun_count[rows], 0.0).sum(axis=0)
        return hung

    def _hung_in(self, window: tuple[int, int]) -> str | None:
        """The lowest layer in which I/Os waited through most of a window in which next to none began."""
        if self.is_means:
            return None
        found = None
        for name in map(str, Layer):
            if name in self.slots.layers:
                slots = self.slots.layers[name]
                hung = self._hung_through(slots, [*range(len(slots.streams))])[slice(*window)]
                found = name if (hung > 0).mean() > _MOST else found
        return found

    def _unseen(self, layer: str, window: tuple[int, int]) -> list[str]:
        """Layers below one that were not recorded during a window: they have no I/O then, nor beside it.

        What was held up above them reaches them afterwards, and is beside it.
        """
        order = [name for name in map(str, Layer) if name in self.slots.layers]
        near = slice(max(window[0] - _BESIDE_SLOTS, 0), window[1] + _BESIDE_SLOTS)
        below = order[order.index(layer) + 1 :] if layer in order else []
        return [name for name in below if not self.slots.layers[name].begun_count[:, near].any()]

    def _hanging(self, window: tuple[int, int]) -> str | None:
        """The lowest layer in which I/Os wait from the window's beginning to the recording's end: it has them."""
        if window[1] < self.slots.count - 1:
            return None
        by = min(window[0] + 1, self.slots.count - 1)
        below = [
            name
            for name in map(str, Layer)
            if name in self.slots.waiting and self.slots.waiting[name][by] > 0
        ]
        return below[-1] if below else None

    def _factor(self, judged: Judged, stretch: Stretch) -> tuple[float, Interval]:
        """How slow, and the 95 % interval; a window's strongest series is asked for twice."""
        if stretch.course is not None or judged.series.is_mean:
            reach = 1.96 * stretch.excess_error
            value, low, high = (float(np.exp(stretch.excess + step)) for step in (0.0, -reach, reach))
            return value, (low, high)
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
        is_gradual = any(stretch.course is not None for stretch in best.stretches)
        excess = np.full(self.slots.count, np.nan)
        excess[best.series.at] = best.series.values - best.normal
        drive = judge_drive(
            load,
            window,
            is_normal,
            excess,
            factor,
            slot_ns=self.slots.slot_ns,
            what=what,
            together=None if self.is_means or is_gradual else self._together(load, window, best),
            is_mean=self.is_means,
        )
        if drive.cause == "load-driven" or is_gradual:
            return drive
        if _more_load(drive.changes) < _MORE_LOAD:
            return drive  # what is no more than ever explains nothing
        left, wander = left_by_load(best, self._loads(best), window, is_normal)
        inside = excess[slice(*window)]
        most = float(np.nanmean(inside)) if np.isfinite(inside).any() else 0.0
        is_explained = left < max(_EXPLAINED, most / 2, _EXPLAINED_CLEAR * wander)
        return explained_by_load(drive) if is_explained else drive

    def _together(self, load: LayerSlots, window: tuple[int, int], best: Judged) -> Floats:
        """How many I/Os begin together in each slot in and around the window, as an I/O sees it; NaN elsewhere."""
        latency_ns = float(np.exp(np.median(best.normal)))
        bin_ns = int(np.clip(_TOGETHER_LATENCIES * latency_ns, *_TOGETHER_NS))
        first, end = max(window[0] - _AROUND_SLOTS, 0), min(window[1] + _AROUND_SLOTS, self.slots.count)
        from_ns, until_ns = self.slots.at_ns(first), self.slots.at_ns(end)
        # What a replay issued was due at another time.
        is_played = self.recording.manifest.is_played
        table = library.run(
            self.connection,
            "incident_bursts",
            layer=load.layer,
            from_ns=from_ns,
            until_ns=until_ns,
            slot_ns=self.slots.slot_ns,
            bin_ns=bin_ns,
            issued_ns=[*_EVER_NS] if is_played else [from_ns, until_ns - 1],
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
            # Streams of other layers see the same I/Os under other names.
            names = sorted({name for index in rows if (name := load.streams[index].instance)})
            named = ", ".join(f'"{name}"' for name in names)
            noun = {"block": "disk", "sql": "file"}.get(layer, "")
            what = f"{noun}{'s' if noun and len(names) > 1 else ''} {named}".lstrip()
            return (load.chosen(rows), what) if named and len(named) < 40 else (load, f"the {layer} layer")
        devices = {stream.device_id for stream in streams}
        if devices and None not in devices:
            rows = [index for index, stream in enumerate(load.streams) if stream.device_id in devices]
            if rows and len(rows) < len(load.streams):
                named = ", ".join(
                    sorted(self.names.devices.get(device, "?") for device in devices if device is not None)
                )
                return load.chosen(rows), named if len(named) < 40 else counted(len(devices), "device")
        return load, f"the {self.load_layer} layer"

    def _lost_ns(
        self,
        layer: str,
        streams: list[Stream],
        window: tuple[int, int],
        is_normal: Flags,
        *,
        is_gradual: bool = False,
    ) -> float:
        """I/Os of the window on the devices that were slow, times what a typical one of them took longer.

        0 where these devices as a whole were hardly slower: then nothing was lost.
        """
        slots = self.slots.layers[layer]
        mine = {(stream.device_id, stream.instance) for stream in streams}
        rows = [
            index
            for index, stream in enumerate(slots.streams)
            if not mine or (stream.device_id, stream.instance) in mine
        ]
        key = (layer, tuple(rows))
        if key not in self._levels:
            self._levels[key] = pooled_series(slots.chosen(rows))
        level = self._levels[key]
        if level is None:
            return 0.0
        inside = (level.at >= window[0]) & (level.at < window[1])
        outside = is_normal[level.at]
        if not inside.any() or not outside.any():
            return 0.0
        weight = level.measured_count
        normal = float(np.average(level.values[outside], weights=weight[outside]))
        excess = float(np.average(level.values[inside], weights=weight[inside])) - normal
        if excess < _LOST_LEAST:
            return 0.0
        lost_ns = float(slots.begun_count[rows, slice(*window)].sum() * np.exp(normal) * (np.exp(excess) - 1))
        if not is_gradual:
            # What hangs may have begun just before the window, and be few of many I/Os: then its time in flight tells.
            hung = self._hung_through(slots, rows)
            more = float((hung[slice(*window)] - hung[is_normal].mean()).sum())
            lost_ns = max(lost_ns, more * self.slots.slot_ns)
        if self._hung(layer, window) is None:
            return lost_ns
        flight = slots.in_flight[rows].sum(axis=0)
        more = float((flight[slice(*window)] - flight[is_normal].mean()).sum())
        return max(lost_ns, more * self.slots.slot_ns)

    def _seen_in(self, group: Group) -> list[SeenIn]:
        found = []
        for entry, stretch in sorted(group.parts, key=lambda part: -part[1].evidence)[:_SEEN_IN_MAX]:
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
            role = "" if stream.role == UNATTRIBUTED else stream.role
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

    def _sensitivity(self, judged: list[Judged], drifts: list[Drifting | None]) -> list[Sensitivity]:
        found = []
        slot_ns = self.slots.slot_ns
        for entry, drift in zip(judged, drifts, strict=True):
            if entry.series.stream is not None:
                continue
            layer, many = entry.series.layer, len(entry.series.at)
            chance = Chance(entry, self._loads(entry)[0][entry.series.at], entry.slow)
            found += [
                Sensitivity(
                    layer,
                    slots * slot_ns,
                    float(np.exp(max(entry.least_excess(slots), chance.least_excess(slots)))),
                )
                for slots in _SENSITIVITY_SLOTS
                if slots < many / 2
            ]
            if drift is not None:
                found += [
                    Sensitivity(layer, seconds * 1_000_000_000, float(np.exp(excess)), "any")
                    for seconds in _SENSITIVITY_S
                    if seconds * 1e9 < slot_ns * many / 2
                    and (excess := least_mean_excess(drift, seconds / self.slots.slot_seconds)) is not None
                ]
        return found

    def _notes(self, groups: list[Group], drifts: list[Drifting | None]) -> list[str]:
        notes = []
        if self.slots.slot_ns > 1_000_000_000:
            notes.append(
                f"looked at in steps of {format_duration_ns(self.slots.slot_ns)}; what is shorter is not seen"
            )
        if len(groups) > _WINDOWS_MAX:
            notes.append(
                f"{len(groups):,} slow windows were found; the {_WINDOWS_MAX} clearest are accounted for"
            )
        for drift in drifts:
            if drift is None or drift.judged.series.stream is not None:
                continue
            low, high = np.quantile(drift.effect, [0.05, 0.95])
            if high - low >= np.log(1.25):
                notes.append(
                    f"{drift.judged.series.layer}: latency follows the load, up to {np.exp(high - low):.2f}x between "
                    "its lowest and its highest; that is taken as normal where it comes and goes slowly, and what "
                    "changes along with it by less is not told"
                )
        return notes


def against_what_it_left(changed: Judged, base: float) -> Judged:
    """The same with the level that its longest change left as normal, instead of ``base``, where most of it is slow.

    Then ``base``, that of the faster slots, is of the change itself.
    """
    longest = max(changed.stretches, key=lambda stretch: stretch.end - stretch.first)
    if longest.course is None or changed.slow.mean() <= _MOST:
        return changed
    return replace(changed, normal=changed.normal - base + longest.course.base)


def is_told(change: SlowWindow, windows: list[SlowWindow]) -> bool:
    """Whether most of a slow change is windows of slower storage: one series looks like this, another like that.

    Of the change counts the time above half of its height, because where it begins and ends is not sure.
    """
    gradual = change.gradual
    risen_ns = change.start_ns if gradual is None or gradual.risen_ns is None else gradual.risen_ns
    falling_ns = change.end_ns if gradual is None or gradual.falling_ns is None else gradual.falling_ns
    start_ns, end_ns = (change.start_ns + risen_ns) // 2, (change.end_ns + falling_ns) // 2
    told_ns = sum(
        max(min(end, end_ns) - max(start, start_ns), 0)
        for start, end in disjoint(
            [(one.start_ns, one.end_ns) for one in windows if one.cause != "load-driven"]
        )
    )
    return told_ns >= _TOLD_SHARE * (end_ns - start_ns)


def _streams(group: Group) -> list[Stream]:
    """The streams that were slow themselves; empty where only whole layers were."""
    return [entry.series.stream for entry, _ in group.parts if entry.series.stream is not None]


def _is_like(window: SlowWindow, driven: list[SlowWindow]) -> bool:
    """Whether load drove several windows, most of them under no more load, and one as slow as this may have been."""
    if len(driven) < _DRIVEN_LEAST:
        return False
    usual = float(np.median([_more_load(one.load) for one in driven]))
    is_as_slow = window.factor_interval[0] <= max(one.factor for one in driven)
    return is_as_slow and _more_load(window.load) >= usual


def _more_load(changes: list[Change]) -> float:
    """How many times more I/Os or bytes there were."""
    return max((c.ratio or 0.0 for c in changes if c.quantity in {"arrivals", "bytes"}), default=0.0)


def _is_inside(window: SlowWindow, other: SlowWindow) -> bool:
    """Whether most of a window lies in another one that is more than twice as slow."""
    shared = min(window.end_ns, other.end_ns) - max(window.start_ns, other.start_ns)
    return 2 * shared > window.end_ns - window.start_ns and 2 * window.factor < other.factor


def _numbered(window: SlowWindow, number: int) -> SlowWindow:
    return replace(window, number=number)
