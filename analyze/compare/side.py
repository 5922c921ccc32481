"""One recording of a comparison: what it did and how long it took, at one layer, over one span of time.

Everything comes back as counts and sums per class, bucket or slot of time, so memory does not grow with the recording.
One pass over the I/Os tells what depends on order, as in describe, the latencies of each class and those of each layer;
another the course of each class, whose limits rest on the first.
"""

import zlib
from collections.abc import Callable, Container
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.analyze import library
from iotrace.analyze.describe.figures import Measured
from iotrace.analyze.describe.one_pass import Subject, measure, streams_of
from iotrace.analyze.stats.bootstrap import SLOTS_MAX
from iotrace.analyze.stats.histogram import Histogram
from iotrace.analyze.unfinished import Unfinished, unfinished
from iotrace.schemas import LOAD_OPS, IotraceError, Recording
from iotrace.schemas.run import Replay
from iotrace.schemas.vocabulary import UNATTRIBUTED, load_layer

from .class_counts import Chosen, LatencyCount, LayerCount, class_latency, class_slots
from .class_latency import (
    ClassKey,
    ClassLatency,
    SlotCounts,
    Waiting,
    histograms_by_class,
    limits_ns,
    slots_by_class,
    waiting_of,
)
from .comparison import Side, WaterfallStep
from .course import Course
from .paired import replay_facts
from .same_work import Work
from .waterfall import waterfall_with_intervals

_SLOT_NS_MIN: Final = 1_000_000

Ask = Callable[..., pa.Table]
"""`library.run` on one recording: the name of a query and its parameters."""
Span = tuple[str, int, int]
"""A layer, and from when until when (not included) on the recording's clock, in nanoseconds."""


def span_of(ask: Ask, recording: Recording, among: Container[str] = ()) -> Span:
    """The layer load is counted at and the span of its I/Os. Raises `IotraceError` if there are none.

    Of the layers ``among`` which it is to be sought, if the recording has one of them.
    """
    layers = {row["layer"]: row for row in ask("layers").to_pylist()}
    layer = load_layer([one for one in layers if one in among]) or load_layer(layers)
    if layer is None:
        raise IotraceError(
            f"'{recording.path}' holds no I/Os", hint="compare needs recordings of single I/Os"
        )
    load_ns = recording.manifest.watched and recording.manifest.watched.load_ns
    if load_ns:
        # Before and after it the replay looked at its target.
        played = replay_facts(recording).layer
        layer = str(played) if played in layers else layer
        return layer, int(load_ns[0]), int(load_ns[1])
    return layer, layers[layer]["first_issued_ns"], layers[layer]["last_seen_ns"] + 1


def replayed_span(ask: Ask, recording: Recording, replay: Replay) -> Span:
    """What of ``recording`` a replay played: one layer, and a window if one was chosen."""
    layer, from_ns, until_ns = span_of(ask, recording)
    layers = ask("layers")["layer"].to_pylist()
    if replay.layer in layers:
        layer = str(replay.layer)
    window = replay.window_ns
    if isinstance(window, list | tuple) and len(window) == 2 and window[0] < window[1]:
        from_ns, until_ns = int(window[0]), int(window[1])
    return layer, from_ns, until_ns


def headline_metric(recording: Recording) -> str:
    """The latency that is compared first: where I/Os were due at some time, from then on.

    A closed loop without pauses has no such times.
    """
    manifest = recording.manifest
    return "response" if manifest.is_played and not manifest.is_closed_loop else "service"


def is_in_step(replay: Replay) -> bool:
    """Whether each I/O of a replay was due at its recorded time divided by the scale, once."""
    return (
        replay.mode in {"compress", None}
        and not (replay.loop_seconds or replay.ramp_seconds or replay.thinning)
        and replay.repeat == replay.copies == 1
    )


class ComparedSide:
    """Figures of one recording over one span; each is asked for once."""

    def __init__(
        self,
        ask: Ask,
        recording: Recording,
        span: Span,
        *,
        seed: int,
        number: int,
        alongside: "ComparedSide | None" = None,
    ) -> None:
        """``number`` is the recording's place among those compared: with ``seed`` it makes its random draws.

        ``alongside`` is the side that this one replays in step, if it does: its slots are the same I/Os.
        """
        self._run, self.recording, self.span = ask, recording, span
        self.layer, self.from_ns, self.until_ns = span
        self._seed = (seed, number)
        self._kept: dict[Any, Any] = {}
        self.is_paired = alongside is not None
        manifest = recording.manifest
        self.span_ns = self.until_ns - self.from_ns
        self._is_whole = span[1:] in {span_of(ask, recording)[1:], span_of(ask, recording, {self.layer})[1:]}
        if alongside is None:
            self.slot_ns = max(-(-(self.until_ns - self.from_ns) // SLOTS_MAX), _SLOT_NS_MIN)
            self.slots = -(-(self.until_ns - self.from_ns) // self.slot_ns)
        else:
            scale = replay_facts(recording).scale or 1.0
            if manifest.watched is None:
                self.from_ns = min(self.from_ns, 0)
            self.slots = alongside.slots
            self.slot_ns = max(round(alongside.slot_ns / scale), 1)

    def work(self) -> Work:
        """What was asked of the storage."""
        if "work" not in self._kept:
            measured = self._measured()
            self._kept["work"] = Work(
                title=self.recording.manifest.title or self.recording.name,
                layer=self.layer,
                span_ns=self.span_ns,
                mix=self._mix(),
                footprint_bytes=measured.touched_bytes(None, None, LOAD_OPS, is_total=True),
                sequential_share=measured.sequential_shares(),
                interarrival_cv=measured.all_arrivals.coefficient_of_variation,
                course=self._course(),
                roles=self._roles(),
            )
        found: Work = self._kept["work"]
        return found

    def histograms(self, metric: str, *, with_roles: bool) -> dict[ClassKey, Histogram]:
        """Latencies of each class, and of each operation."""
        if (metric, with_roles) == (headline_metric(self.recording), True):
            self._measured()
        key = ("histograms", metric, with_roles)
        if key not in self._kept:
            table = class_latency(self.recording, self._chosen(metric, with_roles=with_roles))
            self._kept[key] = histograms_by_class(table) if table.num_rows else {}
        found: dict[ClassKey, Histogram] = self._kept[key]
        return found

    def latency(self, metric: str, key: ClassKey, *, with_roles: bool) -> ClassLatency:
        """One class: its histogram and its course over time."""
        is_whole = key.role is None and key.size_class_bytes is None
        return ClassLatency(
            self.histograms(metric, with_roles=with_roles)[key],
            self._courses(metric, with_roles=with_roles)[key],
            self._waiting(metric, key.op) if is_whole else None,
        )

    def seed(self, key: ClassKey, quantity: str) -> list[int]:
        """Of the random draws for a figure of a class: the same whatever else is compared."""
        return [*self._seed, zlib.crc32(repr((*key, quantity)).encode())]

    def figures(self, label: str) -> Side:
        """The side as it is shown."""
        work, manifest = self.work(), self.recording.manifest
        return Side(
            label=label,
            title=work.title,
            uuid=manifest.uuid,
            kind=manifest.kind,
            layer=self.layer,
            quality_verdict=manifest.quality.verdict,
            span_ns=self.span_ns,
            io_count=work.io_count(),
            size_bytes=work.size_bytes(),
            ios_per_s=work.ios_per_s(),
            footprint_bytes=work.footprint_bytes or 0,
            sequential_share=work.sequential_share,
            interarrival_cv=work.interarrival_cv,
            waterfall=self._waterfall(),
        )

    def _course(self) -> Course:
        """Reads and writes in each slot of the layer's span; its first and last slot are not whole."""
        table = self._kept["layer slots"]
        wanted = pc.and_(
            pc.equal(table["layer"], self.layer), pc.is_in(table["op"], pa.array([*LOAD_OPS], pa.string()))
        )
        mine = table.filter(wanted)
        _, slot_ns, slots = self._waterfall_slots()
        counts = np.bincount(mine["slot"].to_numpy(), mine["io_count"].to_numpy(), slots).astype(np.float64)
        busy = np.flatnonzero(counts)
        return Course(counts[busy[0] + 1 : busy[-1]] if len(busy) else counts, slot_ns)

    def _waterfall(self) -> list[WaterfallStep]:
        """Of all layers over the span, and of a whole recording over all of it: layers need not begin together."""
        self._measured()
        *_, slots = self._waterfall_slots()
        return waterfall_with_intervals(
            self._kept["layer slots"], slots, np.random.default_rng([*self._seed, 0])
        )

    def _waterfall_slots(self) -> tuple[tuple[int, int], int, int]:
        """The span, the length of a slot and how many there are."""
        from_ns, until_ns = self.from_ns, self.until_ns
        if self._is_whole:
            layers = self._run("layers")
            from_ns = pc.min(layers["first_issued_ns"]).as_py()
            until_ns = pc.max(layers["last_seen_ns"]).as_py() + 1
        slot_ns = max(-(-(until_ns - from_ns) // SLOTS_MAX), _SLOT_NS_MIN)
        return (from_ns, until_ns), slot_ns, -(-(until_ns - from_ns) // slot_ns)

    def _mix(self) -> dict[tuple[str, int], int]:
        """I/Os by operation and size; where the span leaves out none of the layer, they have been added up already."""
        of_layer = next((row for row in self._run("layers").to_pylist() if row["layer"] == self.layer), None)
        if (
            of_layer
            and self.from_ns <= of_layer["first_issued_ns"] <= of_layer["last_seen_ns"] < self.until_ns
        ):
            rows = self._run("size_distribution", layer=self.layer).to_pylist()
        else:
            rows = self._ask("work_mix", layer=self.layer).to_pylist()
        mix: dict[tuple[str, int], int] = {}
        for row in rows:
            key = row["op"], row["size_bytes"]
            mix[key] = mix.get(key, 0) + row["io_count"]
        return mix

    def _roles(self) -> dict[tuple[str, str], int] | None:
        roles: dict[tuple[str, str], int] = {}
        for key, histogram in self.histograms(headline_metric(self.recording), with_roles=True).items():
            if key.role is not None:
                roles[key.op, key.role] = roles.get((key.op, key.role), 0) + histogram.total
        return roles if {role for _, role in roles} - {UNATTRIBUTED} else None

    def _ask(self, query_name: str, **parameters: Any) -> pa.Table:  # noqa: ANN401 (whatever DuckDB can bind)
        return self._run(query_name, from_ns=self.from_ns, until_ns=self.until_ns, **parameters)

    def _chosen(self, metric: str, *, with_roles: bool) -> Chosen:
        layers = self._run("layers").to_pylist()
        return Chosen(
            self.layer,
            metric,
            (self.from_ns, self.until_ns),
            with_roles=with_roles,
            is_only_layer=len(layers) == 1,
            has_errors=any(row["failed_count"] for row in layers),
        )

    def _courses(self, metric: str, *, with_roles: bool) -> dict[ClassKey, SlotCounts]:
        key = ("courses", metric, with_roles)
        if key not in self._kept:
            histograms = self.histograms(metric, with_roles=with_roles)
            classes = [
                {
                    "class_key": position,
                    "role": one.role,
                    "op": one.op,
                    "size_class_bytes": one.size_class_bytes,
                    "limits_ns": limits_ns(histogram),
                    "op_limits_ns": limits_ns(histograms[ClassKey(one.op, None, None)]),
                }
                for position, (one, histogram) in enumerate(histograms.items())
                if one.role is not None
            ]
            chosen = self._chosen(metric, with_roles=with_roles)
            counted = class_slots(self.recording, chosen, self.slot_ns, self.slots, classes)
            self._kept[key] = slots_by_class(*counted, classes, self.slots)
        found: dict[ClassKey, SlotCounts] = self._kept[key]
        return found

    def _waiting(self, metric: str, op: str) -> Waiting | None:
        key = ("waiting", metric)
        if key not in self._kept:
            self._kept[key] = unfinished(
                self._run,
                self.recording.manifest,
                self.layer,
                metric,
                span_ns=(self.from_ns, self.until_ns),
                slot_ns=self.slot_ns,
            )
        found: Unfinished = self._kept[key]
        return waiting_of(found.of([op]), self.slots, may_have_ended=found.may_have_ended)

    def _measured(self) -> Measured:
        """What the pass over the I/Os finds out; it keeps latencies of classes and of layers."""
        if "measured" in self._kept:
            kept: Measured = self._kept["measured"]
            return kept
        metric = headline_metric(self.recording)
        chosen = self._chosen(metric, with_roles=True)
        latencies = LatencyCount(self.recording, chosen)
        layers = LayerCount(self.layer, *self._waterfall_slots()[:2])
        subject = Subject(
            self.layer,
            chosen.span_ns,
            (metric,),
            has_errors=chosen.has_errors,
            span_ns=chosen.span_ns,
            is_work_only=True,
        )
        streams = streams_of(self.recording, self._run)
        with library.opened(self.recording) as connection:
            found = measure(connection, self.recording, streams, subject, [latencies.add, layers.add])
        table = latencies.table()
        self._kept |= {
            "measured": found,
            "layer slots": layers.table(),
            ("histograms", metric, True): histograms_by_class(table) if table.num_rows else {},
        }
        return found
