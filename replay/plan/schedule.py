"""The plan the engine plays: every I/O with its deadline, its target, and its address there, made as it is played.

See docs/decisions/0013-a-plan-is-a-stream.md for what the batches hold.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay.options import ReplayOptions
from iotrace.replay.targets.target import Target
from iotrace.schemas import IoFlags, IotraceError
from iotrace.schemas.run import LoadShape, MappedSpace, Scaling

from .addresses import AddressMap, Layout, lay_out
from .assignment import Assignment, copies_in_addresses
from .dependencies import Dependencies
from .log_stream import is_log
from .rows import WRITE, Rows, rebatch
from .scale import Compressed, Cycle, Ramp, Superposed, divided
from .source import Source
from .survey import Shape, Survey

PER_SUBMITTER_PER_S: Final = 200_000
"""I/Os a second that one thread is trusted with: a submission costs it 2 to 3 µs, a completion about one."""


def allowed_processors() -> int:
    """Processors this process may run on; where the system cannot tell, those there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def submitters_for(options: ReplayOptions, shape: LoadShape, *, processors: int | None = None) -> int:
    """Threads for a load of ``shape`` (see `Shape.result`) as recorded, to be played with ``options``.

    The fullest second counts. Each submitter may spin on a processor of its own; half of them are left to the storage
    and to the rest of the replay, so a host with three or fewer gets one. I/Os that wait for others have one in any
    case.
    """
    if options.submitters is not None:
        return options.submitters
    if options.mode == "think" or not shape.rate_per_s:
        return 1
    fullest_per_s: float = shape.rate_per_s * (shape.peak_to_mean["1s"] or 1.0) * options.scale
    most = max(1, (processors or allowed_processors()) // 2)
    return min(most, math.ceil(fullest_per_s / PER_SUBMITTER_PER_S))


CARRIED_FLAGS = (
    IoFlags.PAGING | IoFlags.SYNCHRONOUS | IoFlags.WRITE_THROUGH | IoFlags.PREFLUSH | IoFlags.READAHEAD
    | IoFlags.METADATA | IoFlags.BACKGROUND | IoFlags.PRIORITY_LOW | IoFlags.PRIORITY_HIGH
)  # fmt: skip
"""What the source meant by an I/O. How it travelled there (split, merged, cached) is no fact about the replay."""

_LOAD_ERROR_NOTED = 0.1

PASSES_MAX = 1_000_000
"""Of a loop for a time: each pass reads the recording again."""

_ENGINE_FIELDS = [
    pa.field("intended_ns", pa.int64(), nullable=False),
    pa.field("offset_bytes", pa.uint64(), nullable=False),
    pa.field("size_bytes", pa.uint32(), nullable=False),
    pa.field("op", pa.uint8(), nullable=False),
    pa.field("target", pa.uint16(), nullable=False),
    pa.field("durable", pa.bool_(), nullable=False),
    pa.field("preflush", pa.bool_(), nullable=False),
]
_WAITING_FIELDS = [
    pa.field("after", pa.uint32(), nullable=False),
    pa.field("think_ns", pa.int64(), nullable=False),
]
_STREAM_FIELDS = [pa.field("stream", pa.uint16(), nullable=False)]
_CARRIED_FIELDS = [
    pa.field("flags", pa.uint32(), nullable=False),
    pa.field("file_id", pa.int32()),
    pa.field("process_id", pa.int32()),
    pa.field("thread_id", pa.int32()),
    pa.field("copy", pa.uint16(), nullable=False),
]


@dataclass(slots=True)
class Schedule:
    """A plan. `batches` makes it, once; what the other attributes gather is complete when it has run dry."""

    source: Source
    survey: Survey
    assignment: Assignment
    options: ReplayOptions
    cycle: Cycle
    layouts: Sequence[Layout]
    addresses: AddressMap
    passes: Compressed | Superposed
    shape: Shape = field(default_factory=Shape)
    """Of the load as planned, the time of a ramp left out."""
    dependencies: Dependencies | None = None
    submitters: int = 1
    """Threads that will issue it."""
    planned_ios: int = 0
    adjusted_ios: int = 0
    last_ns: int = 0
    """Deadline of the last I/O planned so far."""
    planned_by_op: dict[str, int] = field(default_factory=dict)
    _came_due_ns: list[npt.NDArray[np.int64]] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the batches."""
        waiting = _WAITING_FIELDS if self.options.mode == "think" else []
        streams = _STREAM_FIELDS if self._has_streams else []
        return pa.schema([*_ENGINE_FIELDS, *waiting, *streams, *_CARRIED_FIELDS])

    @property
    def _has_streams(self) -> bool:
        """Whether logs have to be kept together: several submitters share the plan out by address otherwise."""
        return self.submitters > 1 and self.survey.log_ios > 0

    @property
    def repeat(self) -> int:
        """How often the recording is played, the last time perhaps not to its end."""
        if self.options.loop_seconds is None:
            return self.options.repeat
        return max(1, math.ceil(self.options.loop_seconds * 1e9 / max(1, self.passes.pass_ns)))

    @property
    def length_ns(self) -> int:
        """How long the plan lasts, about."""
        if self.options.loop_seconds is not None:
            whole = round(self.options.loop_seconds * 1e9)
        else:
            whole = self.passes.pass_ns * self.options.repeat
        return whole if self._ramp is None else int(self._ramp.apply(np.array([whole]))[0])

    @property
    def ios_estimate(self) -> int:
        """How many I/Os the plan has, about: fractions of a copy and of a pass are not counted out."""
        load = self.options.scale if self.options.mode == "superpose" else 1.0
        if self.options.loop_seconds is not None:
            return round(
                self.survey.ios * load * self.options.loop_seconds * 1e9 / max(1, self.passes.pass_ns)
            )
        return round(self.survey.ios * load * self.options.repeat)

    @property
    def read_bytes_max(self) -> int:
        """No read of the plan is larger."""
        return self._widest(self.survey.read_bytes_max)

    @property
    def write_bytes_max(self) -> int:
        """No write of the plan is larger."""
        return self._widest(self.survey.write_bytes_max)

    def _widest(self, size: int) -> int:
        block = int(self.addresses.block_bytes.max(initial=512))
        return -(-(size + block - 1) // block) * block if size else 0

    @property
    def _ramp(self) -> Ramp | None:
        return Ramp(round(self.options.ramp_seconds * 1e9)) if self.options.ramp_seconds else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The plan from its start, batch by batch. Nothing is planned twice; memory does not grow."""
        for rows in rebatch(self._timed()):
            yield self._planned(rows)

    def _timed(self) -> Iterator[Rows]:
        """The rows of all passes on the run's clock, before any ramp."""
        end_ns = None if self.options.loop_seconds is None else round(self.options.loop_seconds * 1e9)
        for number in range(self.repeat):
            start_ns = number * self.passes.pass_ns
            for rows in self.passes.one_pass():
                at_ns = rows.at_ns + start_ns
                if end_ns is not None and at_ns[-1] >= end_ns:
                    within = at_ns < end_ns
                    yield rows[within].changed(at_ns=at_ns[within])
                    return
                yield rows.changed(at_ns=at_ns)
            if self.dependencies is not None:
                self.dependencies.forget()

    def _planned(self, rows: Rows) -> pa.RecordBatch:
        at_ns = rows.at_ns if self._ramp is None else self._ramp.apply(rows.at_ns)
        transfers = rows.transfers
        target = self._target_of(rows.space)
        offset, size = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        adjusted = np.zeros(len(rows), np.bool_)
        where = np.flatnonzero(transfers)
        copy = self._copy_of(rows)
        apart = copy if copies_in_addresses(self.options) > 1 else np.zeros_like(copy)
        if len(where):
            slot = self.survey.slots.of(rows.space[where])
            offset[where], size[where], adjusted[where] = self.addresses.map(
                slot, target[where], apart[where], rows.offset_bytes[where], rows.size_bytes[where]
            )
        self._note(rows, at_ns, target, copy, offset, size, adjusted)
        flags = (rows.flags & np.uint32(CARRIED_FLAGS)) | np.where(
            adjusted, np.uint32(IoFlags.ADJUSTED), np.uint32(0)
        )
        waiting = []
        if self.dependencies is not None:
            after, think_ns = self.dependencies.infer(rows, self.planned_ios - len(rows))
            waiting = [after, divided(think_ns, self.options.scale)]
        streams = [self._streams(rows)] if self._has_streams else []
        columns = [
            at_ns, offset.astype(np.uint64), size.astype(np.uint32), rows.op, target.astype(np.uint16),
            _written_with(rows, IoFlags.WRITE_THROUGH), _written_with(rows, IoFlags.PREFLUSH), *waiting,
            *streams, flags, _nullable(rows.file_id), _nullable(rows.process_id), _nullable(rows.thread_id), rows.copy,
        ]  # fmt: skip
        return pa.record_batch([pa.array(column) for column in columns], schema=self.schema)

    def _note(
        self,
        rows: Rows,
        at_ns: npt.NDArray[np.int64],
        target: npt.NDArray[np.int64],
        copy: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        size: npt.NDArray[np.int64],
        adjusted: npt.NDArray[np.bool_],
    ) -> None:
        self.planned_ios += len(rows)
        self.adjusted_ios += int(np.count_nonzero(adjusted))
        self.last_ns = int(at_ns[-1])
        for op, count in enumerate(np.bincount(rows.op, minlength=3)[:3]):
            word = ("read", "write", "flush")[op]
            self.planned_by_op[word] = self.planned_by_op.get(word, 0) + int(count)
        first = 0 if self._ramp is None else int(np.searchsorted(at_ns, self._ramp.length_ns))
        steady = slice(first, None)
        spaces = rows.space.astype(np.int64) + (copy << 32)
        played = rows.changed(at_ns=at_ns, offset_bytes=offset, size_bytes=size)[steady]
        logs = is_log(played, self.survey.log_ids)
        self.shape.add(played, is_log=logs, space=spaces[steady], medium=target[steady])

    def _streams(self, rows: Rows) -> npt.NDArray[np.uint16]:
        """A number for the rows of each log, 0 for all others."""
        logs = is_log(rows, self.survey.log_ids)
        number = 1 + np.searchsorted(self.survey.log_ids, rows.file_id) % np.iinfo(np.uint16).max
        return np.where(logs, number, 0).astype(np.uint16)

    def _target_of(self, space: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        known, targets = self.assignment.arrays
        return targets[np.searchsorted(known, space)]

    def _copy_of(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The copy of the workload that each row belongs to; logs are shared by all, as the first copy's."""
        return np.where(is_log(rows, self.survey.log_ids), 0, rows.copy.astype(np.int64))

    def note_played(self, intended_ns: npt.NDArray[np.int64]) -> None:
        """Tell when I/Os came due. In mode ``think`` no plan knows that before: 8 bytes of memory each."""
        if self.dependencies is not None:
            self._came_due_ns.append(intended_ns)

    def notes(self) -> list[str]:
        """What the reader of a result must know of the plan."""
        thinning = self.passes.thinning if isinstance(self.passes, Superposed) else None
        if thinning is None or not thinning.ios_of:
            return []
        load = self.options.scale + thinning.ios / thinning.ios_of - thinning.asked
        if abs(load / self.options.scale - 1) <= _LOAD_ERROR_NOTED:
            return []
        return [f"whole streams make {load:.3g}x of the load where {self.options.scale:g}x were asked for"]

    def describe(self) -> dict[str, Any]:
        """For the manifest: what scaling did to the load, as far as the plan has been made."""
        after = self.shape.result()
        if self._came_due_ns:
            after = self.shape.retimed(np.sort(np.concatenate(self._came_due_ns)))
        thinning = self.passes.thinning if isinstance(self.passes, Superposed) else None
        return {
            "scaling": Scaling(self.survey.shape, after),
            "copies": len(self.passes.shifts_ns) if isinstance(self.passes, Superposed) else 1,
            "footprint": self.options.footprint if isinstance(self.passes, Superposed) else None,
            "thinning": thinning.describe() if thinning else None,
            "dependencies": self.dependencies.describe() if self.dependencies else None,
            "planned_by_op": dict(self.planned_by_op),
            "log_ios": self.survey.log_ios,
            "repeat": self.repeat,
            "loop_seconds": self.options.loop_seconds,
            "ramp_seconds": self.options.ramp_seconds,
        }


def schedule(
    source: Source,
    survey: Survey,
    names: Mapping[int, str],
    assignment: Assignment,
    targets: Sequence[Target],
    options: ReplayOptions,
) -> tuple[Schedule, list[MappedSpace]]:
    """The plan, and for the manifest where each source space went.

    Raises `IotraceError` when a target is too small.
    """
    copies = copies_in_addresses(options)
    layouts, mapping = [], []
    for index, target in enumerate(targets):
        layout = lay_out(
            assignment.stretches[index],
            target.bytes,
            target.name,
            mode=options.addresses,
            copies=copies,
            block_bytes=target.block_bytes,
        )
        layouts.append(layout)
        for space in assignment.spaces_of(index):
            name = names.get(space, f"unknown {space}")
            mapping.append(MappedSpace(space, name, target.name, **layout.spaces.get(space, {})))
    cycle = cycle_of(source, survey, options)
    passes: Compressed | Superposed
    if options.mode == "superpose":
        passes = Superposed.of(source, cycle, survey, options.scale, options.seed)
    else:
        passes = Compressed(source, cycle, options.scale)
    plan = Schedule(
        source=source,
        survey=survey,
        assignment=assignment,
        options=options,
        cycle=cycle,
        layouts=layouts,
        addresses=AddressMap.of(layouts, [target.block_bytes for target in targets]),
        passes=passes,
        dependencies=Dependencies(survey.log_ids) if options.mode == "think" else None,
        submitters=submitters_for(options, survey.shape),
    )
    return plan, mapping


def refuse_endless_loop(source: Source, survey: Survey, options: ReplayOptions) -> None:
    """Raise `IotraceError` where a part is as good as a moment: it has no rate to be repeated at."""
    if options.loop_seconds is None:
        return
    speed = 1.0 if options.mode == "superpose" else options.scale
    pass_seconds = max(1.0, cycle_of(source, survey, options).length_ns / speed) / 1e9
    if options.loop_seconds / pass_seconds > PASSES_MAX:
        raise IotraceError(
            f"to loop for {options.loop_seconds:g} s, what lasts {pass_seconds:.3g} s would be played more "
            f"than {PASSES_MAX:,} times",
            hint="give it a length with --window, idle time included, or loosen the filters",
        )


class Extent(Protocol):
    """What the length of a pass is made of."""

    @property
    def ios(self) -> int:
        """I/Os of it."""

    @property
    def first_ns(self) -> int:
        """When the first was wanted, on the source's clock."""

    @property
    def last_ns(self) -> int:
        """When the last was."""


def cycle_of(source: Source, survey: Extent, options: ReplayOptions) -> Cycle:
    """The stretch of the source's clock that one pass plays.

    The window asked for; or from the first I/O, idle time before it left out, to the last and one mean gap more, so
    that repeated passes do not run into one another. A replayed recording is played from its own start on.
    """
    if options.window_ns is not None:
        return Cycle(*options.window_ns)
    first, last = survey.first_ns, survey.last_ns
    gap = max(1, (last - first) // max(1, survey.ios - 1))
    return Cycle(min(0, first) if source.recording.manifest.is_played else first, last + gap)


def _written_with(rows: Rows, flag: IoFlags) -> npt.NDArray[np.bool_]:
    """Which rows are writes that the source gave ``flag``."""
    return np.asarray((rows.op == WRITE) & ((rows.flags & np.uint32(flag)) != 0), np.bool_)


def _nullable(ids: npt.NDArray[np.int32]) -> pa.Array:
    return pa.array(ids, mask=ids < 0)
