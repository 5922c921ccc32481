"""Several traces on one clock: times shifted, ids re-keyed, and what they share made one."""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.clocks.alignment import Placement, SharedTime
from iotrace.capture.formats.format import Outcome
from iotrace.schemas import Layer, Quality, counted
from iotrace.schemas.manifest import PartRecorded
from iotrace.schemas.tables import KEYS, REFERENCES, TIME_COLUMNS

_OVERLAP_SHARE: Final = 0.05
_COVERED_SHARE: Final = 0.9
_YEAR_NS: Final = 365.2425 * 86_400 * 10**9
_AGENT_EVENTS: Final = re.compile(r"(^|[\\/])iotrace_agent_[^\\/]*\.xel$", re.IGNORECASE)
"""Files of the event session that the Windows agent makes."""

_Identity = tuple[Any, ...]


class Merger:
    """Hands out the recording's ids. Two traces of one host share disks, files and processes."""

    def __init__(self) -> None:
        self.known: dict[str, dict[_Identity, int]] = {name: {} for name in KEYS}
        self.next_id = dict.fromkeys(KEYS, 0)

    def knows_file(self, host: object, path: str) -> bool:
        """Whether a trace of ``host`` brought a file of this path."""
        return (host, *_file_identity(path)) in self.known["files"]

    def trace(self, host: object, shift: "Shift") -> "TraceMerger":
        """Begin with another trace of ``host``, whose times go where ``shift`` puts them."""
        return TraceMerger(self, host, shift)


@dataclass(frozen=True, slots=True)
class Shift:
    """What makes a trace's own times the recording's, and which of its I/Os another trace shows too.

    Recording's time = own + ``add_ns`` + ``drift`` * (own - ``pivot_ns``). I/Os of a layer of ``repeated`` that end
    (or, without an end, begin) within its stretch of the recording's time are left out.
    """

    add_ns: int = 0
    drift: float = 0.0
    pivot_ns: int = 0
    repeated: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, placement: Placement, start_utc_ns: int) -> "Shift":
        """For a recording that starts at ``start_utc_ns``."""
        repeated = {
            layer: (first_ns - start_utc_ns, last_ns - start_utc_ns)
            for layer, (first_ns, last_ns) in placement.repeated.items()
        }
        return cls(placement.start_utc_ns - start_utc_ns, placement.drift, placement.pivot_ns, repeated)

    def __call__(self, column: pa.Array, moments: pa.Array) -> pa.Array:
        """Times of ``column`` as the recording's, by the drift up to ``moments``: durations between columns stay."""
        if self.drift:
            # Whole nanoseconds: what floats round off is far below what a drift can be known to.
            away = pc.subtract(moments, pa.scalar(self.pivot_ns, pa.int64())).cast(pa.float64(), safe=False)
            drifted = pc.round(pc.multiply(away, self.drift)).cast(pa.int64())
            column = pc.add_checked(column, drifted)
        return pc.add_checked(column, pa.scalar(self.add_ns, pa.int64())) if self.add_ns else column


class TraceMerger:
    """Brings the batches of one trace into the recording."""

    def __init__(self, merger: Merger, host: object, shift: Shift) -> None:
        self._merger, self._host, self._shift = merger, host, shift
        self._ids: dict[str, list[int]] = {name: [] for name in KEYS}
        self._seen: set[tuple[str, int]] = set()
        self._repeated = 0

    def rekey(self, table_name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of ``batch`` with the recording's times and ids, without those that an earlier trace brought already."""
        is_new: list[bool] | None = None
        if table_name in KEYS:
            is_new = self._identify(table_name, batch)
        columns = [self._column(name, batch) for name in batch.schema.names]
        result = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        if table_name == "io" and self._shift.repeated:
            return self._once(result)
        return result if is_new is None else result.filter(pa.array(is_new, pa.bool_()))

    def notes(self, name: str) -> list[str]:
        """What was left out because another trace brought it."""
        return (
            [f"{counted(self._repeated, 'I/O')} left out that {name} shows a second time"]
            if self._repeated
            else []
        )

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(name)
        if name in TIME_COLUMNS:
            is_io = "issued_ns" in batch.schema.names
            return self._shift(column, batch.column("issued_ns") if is_io else column)
        if name in REFERENCES:
            return pc.take(pa.array(self._ids[REFERENCES[name]], pa.int32()), column)
        return column

    def _once(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        layers = batch.column("layer")
        if pa.types.is_integer(layers.type):
            layers = pa.array(list(Layer), pa.string()).take(layers)
        moment = pc.coalesce(batch.column("completed_ns"), batch.column("issued_ns"))
        keep = pa.repeat(True, len(batch))  # noqa: FBT003 - a value
        for layer, (first_ns, last_ns) in self._shift.repeated.items():
            within = pc.and_(pc.greater_equal(moment, first_ns), pc.less_equal(moment, last_ns))
            keep = pc.and_not(keep, pc.and_(pc.equal(layers.cast(pa.string()), layer), within))
        kept = batch.filter(keep)
        self._repeated += len(batch) - len(kept)
        return kept

    def _identify(self, table_name: str, batch: pa.RecordBatch) -> list[bool]:
        known, ids = self._merger.known[table_name], self._ids[table_name]
        is_new = []
        for row in batch.to_pylist():
            identity = (self._host, *self._identity(table_name, row))
            key = known.get(identity)
            # Within one trace equal rows are different things: its reader knows them apart.
            is_new.append(key is None or (table_name, key) in self._seen)
            if is_new[-1]:
                key = self._merger.next_id[table_name]
                self._merger.next_id[table_name] += 1
                known[identity] = key
            assert key is not None
            self._seen.add((table_name, key))
            ids.append(key)
        return is_new

    def _identity(self, table_name: str, row: dict[str, Any]) -> _Identity:
        if table_name == "devices":
            return row["name"], row["kind"], row["start_bytes"], row["size_bytes"], row["model"]
        if table_name == "files":
            return _file_identity(row["path"])
        started_ns = row["started_ns"]
        # A process that starts in this trace is no process of an earlier one.
        moment = None if started_ns is None else started_ns + self._shift.add_ns
        return row["os_process_id"], row["name"], moment


def _file_identity(path: str) -> _Identity:
    # Windows knows paths in any case.
    return (path.casefold() if "\\" in path else path,)


def merge_quality(
    outcomes: list[tuple[str, int, Outcome]],
    layers: Mapping[str, AbstractSet[str]],
    compared: AbstractSet[str],
    shared: SharedTime,
) -> Quality:
    """One quality for all traces: counts added up, notes naming the trace where there are several.

    ``layers`` are those of the I/Os that each brought, by its name. Overlapping traces of one host bring the I/Os of
    one layer twice, unless what they share is known: ``compared``. ``shared`` is how much of their time they share.
    """
    merged = Quality()
    for name, shift_ns, outcome in outcomes:
        quality = outcome.quality
        merged.losses += [replace(loss, at_ns=loss.at_ns + shift_ns) for loss in quality.losses]
        for count in (
            "events_lost",
            "buffers_lost",
            "sequence_holes",
            "unpaired_issues",
            "unpaired_completions",
            "latencies_dropped",
            "clock_steps",
            "damaged_buffers",
            "counted_ios",
            "missing_ios",
            "counted_bytes",
            "missing_bytes",
        ):
            setattr(merged, count, getattr(merged, count) + getattr(quality, count))
        merged.truncated_tail |= quality.truncated_tail
        if merged.ended == "normally":
            merged.ended = quality.ended
        merged.notes += [note if len(outcomes) == 1 else f"{name}: {note}" for note in quality.notes]
    merged.events_lost -= _told_twice(outcomes)
    of_io = [entry for entry in outcomes if entry[0] in layers]
    steps = list(_steps(of_io))
    merged.clock_steps += len(steps)
    merged.source_gaps += len(shared.apart)
    merged.shared_time += [*shared.apart, *shared.little]
    if not shared.apart:  # which says as much
        merged.part_recorded += _partly(of_io, layers)
    merged.notes += [*steps, *_overlaps(of_io, layers, compared), *shared.part]
    return merged


def _told_twice(outcomes: list[tuple[str, int, Outcome]]) -> int:
    """Lost events of SQL Server that the agent was told of and that the files of its event session show missing."""
    asked = sum(
        loss.events
        for _, _, outcome in outcomes
        for loss in outcome.quality.losses
        if loss.source == "Extended Events"
    )
    missing = sum(
        outcome.quality.events_lost for name, _, outcome in outcomes if _AGENT_EVENTS.search(name) is not None
    )
    return max(min(asked, missing), 0)


def window_of(outcomes: list[tuple[str, int, Outcome]]) -> tuple[int, int]:
    """From when to when the recording's I/Os were recorded, by the traces that brought them: rates are over that."""
    return (
        min(shift + outcome.window_start_ns for _, shift, outcome in outcomes),
        max(shift + outcome.window_end_ns for _, shift, outcome in outcomes),
    )


def _partly(
    outcomes: list[tuple[str, int, Outcome]], layers: Mapping[str, AbstractSet[str]]
) -> Iterator[PartRecorded]:
    """Layers that were recorded for a part of the window alone."""
    if not outcomes:
        return
    first_ns, last_ns = window_of(outcomes)
    for layer in Layer:
        covered_ns, end_ns = 0, first_ns
        spans = [window_of([entry]) for entry in outcomes if layer in layers[entry[0]]]
        for begin_ns, until_ns in sorted(spans):
            covered_ns += max(until_ns - max(begin_ns, end_ns), 0)
            end_ns = max(end_ns, until_ns)
        if spans and covered_ns < _COVERED_SHARE * (last_ns - first_ns):
            yield PartRecorded(layer, covered_ns, last_ns - first_ns)


def _steps(outcomes: list[tuple[str, int, Outcome]]) -> Iterator[str]:
    """Traces of single I/Os that span more than any is taken for."""
    for name, _, outcome in outcomes:
        span_ns = outcome.window_end_ns - outcome.window_start_ns
        if span_ns > _YEAR_NS:
            yield (
                f"{name} spans {span_ns / _YEAR_NS:,.1f} years: its clock was set while it was taken, or some of its "
                "times are damaged"
            )


def _overlaps(
    outcomes: list[tuple[str, int, Outcome]],
    layers: Mapping[str, AbstractSet[str]],
    compared: AbstractSet[str],
) -> Iterator[str]:
    told = set()
    for layer in Layer:
        spans = sorted(
            (shift + outcome.window_start_ns, shift + outcome.window_end_ns, name)
            for name, shift, outcome in outcomes
            if layer in layers[name]
        )
        for (begin_ns, end_ns, name), (start_ns, last_ns, other) in pairwise(spans):
            # Files that a session rolled over into overlap by what was in its buffers.
            shorter_ns = min(end_ns - begin_ns, last_ns - start_ns)
            known = (name in compared and other in compared) or (name, other) in told
            if not known and min(end_ns, last_ns) - start_ns > _OVERLAP_SHARE * shorter_ns:
                told.add((name, other))
                yield f"{name} and {other} overlap in time: if both are of one host, its I/O counts twice"


def layers_in(ios: pa.RecordBatch) -> set[str]:
    """The layers of the rows of a table ``io``, whose words may still be positions in the list of them."""
    found = pc.unique(ios.column("layer")).to_pylist()
    return {str(list(Layer)[layer]) if isinstance(layer, int) else layer for layer in found}
