"""The plan the engine plays: every I/O with its deadline, its target, and its address there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas import IotraceError

from . import addresses
from .options import ReplayOptions
from .plan import Rows, durable
from .scale import compress, load_shape
from .targets import Target


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which target each address space goes to. ``names`` are the targets in order of first use."""

    names: tuple[str, ...]
    of_space: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Schedule:
    """One pass of the plan, arrays of equal length in order of deadline, and the time one pass takes."""

    intended_ns: npt.NDArray[np.int64]
    target: npt.NDArray[np.uint16]
    offset_bytes: npt.NDArray[np.uint64]
    size_bytes: npt.NDArray[np.uint32]
    adjusted: npt.NDArray[np.bool_]
    pass_ns: int
    mapping: list[dict[str, Any]]
    """For the manifest: where each source space went."""

    def batch(self, rows: Rows, repeat: int) -> pa.RecordBatch:
        """What the engine takes: ``repeat`` passes, back to back."""
        starts = np.repeat(np.arange(repeat, dtype=np.int64) * self.pass_ns, len(self.intended_ns))
        return pa.record_batch(
            {
                "intended_ns": np.tile(self.intended_ns, repeat) + starts,
                "offset_bytes": np.tile(self.offset_bytes, repeat),
                "size_bytes": np.tile(self.size_bytes, repeat),
                "op": np.tile(rows.op, repeat),
                "target": np.tile(self.target, repeat),
                "durable": pa.array(np.tile(durable(rows), repeat)),
            }
        )

    def load_shapes(self, rows: Rows) -> dict[str, Any]:
        """The load as recorded and as planned; see `load_shape`."""
        transfers = rows.transfers
        after = load_shape(
            self.intended_ns, self.target.astype(np.int32), self.offset_bytes, self.size_bytes, transfers
        )
        before = load_shape(rows.issued_ns, rows.space, rows.offset_bytes, rows.size_bytes, transfers)
        return {"before": before, "after": after}


def assign(spaces: Mapping[int, str], options: ReplayOptions) -> Assignment:
    """Find the target of every address space. ``spaces`` gives their names.

    Raises `IotraceError` for a map that names no source device, a device without a target, and a target that nothing
    goes to.
    """
    words = {**{name: space for space, name in spaces.items()}, **{str(space): space for space in spaces}}
    mapped: dict[int, str] = {}
    for source, target in options.maps.items():
        if str(source) not in words:
            raise IotraceError(
                f"the recording has no I/O on a device '{source}'",
                hint="it has " + ", ".join(f"{space} ({name})" for space, name in spaces.items()),
            )
        mapped[words[str(source)]] = target
    names: list[str] = []
    of_space: dict[int, int] = {}
    for space, name in spaces.items():
        target = mapped.get(space) or next(iter(options.targets), "")
        if not target:
            raise IotraceError(
                f"source device {space} ({name}) has no target",
                hint=f"--map {space}=PATH, or --target PATH for all",
            )
        if target not in names:
            names.append(target)
        of_space[space] = names.index(target)
    for target in (*options.targets[1:], *options.destroy_data):
        if target not in names:
            raise IotraceError(
                f"nothing is played on '{target}'", hint="--map DEVICE=PATH sends a source device to it"
            )
    return Assignment(tuple(names), of_space)


def touched(rows: Rows, assignment: Assignment, target: int, block_bytes: int) -> addresses.Footprint:
    """The stretches that rows of one target touch."""
    chosen = rows.transfers & np.isin(rows.space, _spaces_of(assignment, target))
    return addresses.footprint(
        rows.space[chosen], rows.offset_bytes[chosen], rows.size_bytes[chosen], block_bytes
    )


def schedule(
    rows: Rows,
    spaces: Mapping[int, str],
    assignment: Assignment,
    targets: Sequence[Target],
    options: ReplayOptions,
) -> Schedule:
    """Give each row its deadline and its place. Raises `IotraceError` when a target is too small."""
    count = len(rows)
    offset, size = np.zeros(count, np.int64), np.zeros(count, np.int64)
    target_of = np.zeros(count, np.uint16)
    adjusted = np.zeros(count, np.bool_)
    mapping: list[dict[str, Any]] = []
    for index, target in enumerate(targets):
        layout = addresses.lay_out(
            touched(rows, assignment, index, target.block_bytes), target.bytes, target.name
        )
        for space in _spaces_of(assignment, index):
            target_of[rows.space == space] = index
            entry = {"device_id": space, "name": spaces[space], "target": target.name}
            if space in layout.spaces:
                where = np.flatnonzero((rows.space == space) & rows.transfers)
                starts, sizes, changed = addresses.align(
                    rows.offset_bytes[where].astype(np.int64),
                    rows.size_bytes[where].astype(np.int64),
                    target.block_bytes,
                )
                offset[where], size[where] = layout.spaces[space].place(starts), sizes
                adjusted[where] = changed
                entry |= layout.describe(space)
            mapping.append(entry)
    start_ns, end_ns = window_of(rows, options)
    return Schedule(
        intended_ns=compress(rows.issued_ns, start_ns, options.scale),
        target=target_of,
        offset_bytes=offset.astype(np.uint64),
        size_bytes=size.astype(np.uint32),
        adjusted=adjusted,
        pass_ns=round((end_ns - start_ns) / options.scale),
        mapping=mapping,
    )


def window_of(rows: Rows, options: ReplayOptions) -> tuple[int, int]:
    """The stretch of the source's clock that one pass plays.

    The window asked for; or from the first I/O, idle time before it left out, to the last and one mean gap more, so
    that repeated passes do not run into one another.
    """
    if options.window_ns is not None:
        return options.window_ns
    first, last = int(rows.issued_ns[0]), int(rows.issued_ns[-1])
    return first, last + max(1, (last - first) // max(1, len(rows) - 1))


def _spaces_of(assignment: Assignment, target: int) -> list[int]:
    return [space for space, index in assignment.of_space.items() if index == target]
