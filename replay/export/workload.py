"""A recording as other load tools can be told of it: classes of transfers, each with its rate."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _engine
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.addresses import Slots, Touched, align
from iotrace.replay.plan.log_stream import is_log
from iotrace.replay.plan.rows import FLUSH, NEVER, WRITE, Rows
from iotrace.replay.plan.selection import log_files, select
from iotrace.replay.plan.source import Source, space_names
from iotrace.schemas import IotraceError, Recording

SECTOR_BYTES = 512
"""Unbuffered I/O goes in whole sectors, so transfers of other sizes are widened to them."""
_SIZE_BITS = 40


@dataclass(frozen=True, slots=True)
class LoadClass:
    """Transfers of one size, operation and pattern in one group of files."""

    group: str
    """The role of the files, or the device's name where no file is known."""
    op: str
    size_bytes: int
    sequential: bool
    ios: int
    in_flight: float
    """How many of them were in flight on average: arrivals times latency (Little 1961); 0 where no end was seen."""

    @property
    def bytes(self) -> int:
        """Bytes moved, all transfers together."""
        return self.ios * self.size_bytes

    @property
    def pattern(self) -> str:
        """``sequential`` or ``random``."""
        return "sequential" if self.sequential else "random"


@dataclass(frozen=True)
class Workload:
    """What one layer of a recording asked for, in sums."""

    recording: Recording
    layer: str
    window_ns: tuple[int, int] | None
    seconds: float
    """Length of the window asked for; else from the first I/O to the last and one mean gap more, or that of the
    recording where there is one moment only."""
    classes: tuple[LoadClass, ...]
    """The most frequent first."""
    touched_bytes: Mapping[str, int]
    """By group: bytes touched at least once, in whole 4 KiB."""
    widened_ios: int
    """Transfers that were no whole sectors."""
    left_out: Mapping[str, int]
    """I/Os that no load tool can be told of, by reason."""

    @cached_property
    def ios(self) -> int:
        """Transfers of all classes."""
        return sum(one.ios for one in self.classes)

    @cached_property
    def bytes(self) -> int:
        """Bytes of all classes."""
        return sum(one.bytes for one in self.classes)

    @property
    def groups(self) -> list[str]:
        """Groups in order of their I/Os."""
        return list(dict.fromkeys(one.group for one in self.classes))

    @property
    def read_share(self) -> float:
        """Share of reads among the transfers."""
        return sum(one.ios for one in self.classes if one.op == "read") / self.ios


def measure(
    recording: Recording,
    *,
    layer: str | None = None,
    window_ns: tuple[int, int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Workload:
    """Sum up one layer of ``recording`` in one pass; memory does not grow with the number of I/Os.

    ``progress`` is told the I/Os seen so far. Raises `IotraceError` if the layer or window holds no reads or writes.
    """
    chosen = select(recording, ReplayOptions(layer=layer, window_ns=window_ns))
    source = Source.open(recording, chosen, file_by_file=True)
    left_out: dict[str, int] = {}
    sums = _Sums(group_names(recording, source), log_files(recording), recording.manifest.duration_ns)
    for rows in source.rows(left_out, columns=("completed_ns",)):
        sums.add(rows)
        if progress is not None:
            progress(sums.seen)
    if not sums.count:
        raise IotraceError(
            f"'{recording.path}' has no reads or writes to export on the layer '{chosen.layer}'",
            hint="choose another --layer or --window; iotrace describe shows what there is",
        )
    if sums.flushes:
        left_out["flushes"] = sums.flushes
    return Workload(
        recording=recording,
        layer=chosen.layer,
        window_ns=window_ns,
        seconds=sums.seconds(window_ns),
        classes=sums.classes(window_ns),
        touched_bytes=sums.touched_bytes(),
        widened_ios=sums.widened,
        left_out=left_out,
    )


def group_names(recording: Recording, source: Source) -> dict[int, str]:
    """The group of each address space: the role of the file, or the device."""
    files = recording.read("files", ["file_id", "role"])
    names = space_names(source)
    roles = zip(files["file_id"].to_pylist(), files["role"].cast(pa.string()).to_pylist(), strict=True)
    return names | {int(key): str(role) for key, role in roles}


@dataclass(slots=True)
class _Sums:
    names: Mapping[int, str]
    """Of groups, by address space."""
    log_ids: npt.NDArray[np.int32]
    recorded_ns: int
    """Length of the recording."""
    seen: int = 0
    count: int = 0
    flushes: int = 0
    widened: int = 0
    first_ns: int = 0
    last_ns: int = 0
    _groups: dict[str, int] = field(default_factory=dict)
    _slots: Slots = field(default_factory=Slots)
    _touched: list[Touched] = field(default_factory=list)
    """By group."""
    _members: list[int] = field(default_factory=list)
    """Address spaces of each group."""
    _group_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """By slot; so, too, the next."""
    _place_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _sequences: _engine.Sequences = field(default_factory=_engine.Sequences)
    _ios: dict[int, int] = field(default_factory=dict)
    _latency_ns: dict[int, float] = field(default_factory=dict)
    _measured: dict[int, int] = field(default_factory=dict)

    def add(self, rows: Rows) -> None:
        self.seen += len(rows)
        moves = rows.transfers
        if not moves.all():
            self.flushes += int(np.count_nonzero(rows.op == FLUSH))
            rows = rows[moves]
        if not len(rows):
            return
        if not self.count:
            self.first_ns = int(rows.at_ns[0])
        self.count += len(rows)
        self.last_ns = int(rows.at_ns[-1])
        slot = self._slots.of(rows.space)
        write = (rows.op == WRITE).astype(np.int64)
        follows = self._sequential(rows, write)
        offset, size, widened = align(rows.offset_bytes, rows.size_bytes, SECTOR_BYTES)
        self.widened += int(np.count_nonzero(widened))
        self._number_spaces()
        group, place = self._group_of[slot], self._place_of[slot]
        order = np.argsort(group, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            self._touched[int(group[mine[0]])].add(place[mine], offset[mine], size[mine])
        self._count((((group * 2 + write) * 2 + follows) << _SIZE_BITS) | size, rows)

    def _sequential(self, rows: Rows, write: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """1 for each transfer that is sequential, 0 for the others."""
        columns = {
            "space": rows.space.astype(np.int64),
            "file_id": rows.file_id,
            "is_write": write.astype(np.uint8),
            "is_log": is_log(rows, self.log_ids).view(np.uint8),
            "offset_bytes": rows.offset_bytes,
            "size_bytes": rows.size_bytes,
        }
        found = self._sequences.add(pa.record_batch(columns))
        return np.frombuffer(found, np.uint8).astype(np.int64)

    def _number_spaces(self) -> None:
        """Give each new address space the number of its group, and its own within that, so that groups stay small."""
        spaces = self._slots.ids[len(self._group_of) :]
        if not spaces:
            return
        groups, places = [], []
        for space in spaces:
            name = self.names.get(space, "unknown device")
            group = self._groups.setdefault(name, len(self._groups))
            if group == len(self._touched):
                self._touched.append(Touched())
                self._members.append(0)
            groups.append(group)
            places.append(self._members[group])
            self._members[group] += 1
        self._group_of = np.concatenate([self._group_of, np.array(groups, np.int64)])
        self._place_of = np.concatenate([self._place_of, np.array(places, np.int64)])

    def _count(self, keys: npt.NDArray[np.int64], rows: Rows) -> None:
        found, which = np.unique(keys, return_inverse=True)
        ended = rows.completed_ns != NEVER
        latency_ns = np.where(ended, np.maximum(rows.completed_ns - rows.issued_ns, 0), 0)
        counts = np.bincount(which, minlength=len(found))
        measured = np.bincount(which[ended], minlength=len(found))
        latencies = np.bincount(which, latency_ns.astype(np.float64), minlength=len(found))
        for key, ios, known, sum_ns in zip(
            found.tolist(), counts.tolist(), measured.tolist(), latencies.tolist(), strict=True
        ):
            self._ios[key] = self._ios.get(key, 0) + ios
            self._measured[key] = self._measured.get(key, 0) + known
            self._latency_ns[key] = self._latency_ns.get(key, 0.0) + sum_ns

    def seconds(self, window_ns: tuple[int, int] | None) -> float:
        if window_ns is not None:
            return (window_ns[1] - window_ns[0]) / 1e9
        span_ns = self.last_ns - self.first_ns
        if not span_ns:
            return max(self.recorded_ns, 1) / 1e9
        return (span_ns + span_ns // max(1, self.count - 1)) / 1e9

    def classes(self, window_ns: tuple[int, int] | None) -> tuple[LoadClass, ...]:
        names = {number: name for name, number in self._groups.items()}
        seconds = self.seconds(window_ns)
        found = []
        for key, ios in self._ios.items():
            kind, measured = key >> _SIZE_BITS, self._measured[key]
            found.append(
                LoadClass(
                    group=names[kind >> 2],
                    op="write" if kind >> 1 & 1 else "read",
                    size_bytes=key & ((1 << _SIZE_BITS) - 1),
                    sequential=bool(kind & 1),
                    ios=ios,
                    in_flight=ios / seconds * (self._latency_ns[key] / measured / 1e9) if measured else 0.0,
                )
            )
        return tuple(sorted(found, key=lambda one: (-one.ios, one.group, one.op, one.size_bytes)))

    def touched_bytes(self) -> dict[str, int]:
        return {name: self._touched[number].bytes for name, number in self._groups.items()}


ENOUGH = 0.95
"""Share of I/Os and of bytes beyond which no further class is added."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a workload an export carries."""

    ios: float
    """Share of the I/Os."""
    bytes: float
    """Share of the bytes."""


def dominant(workload: Workload, most: int, enough: float = ENOUGH) -> list[LoadClass]:
    """The classes with the largest shares of I/Os and bytes together, until ``enough`` of both or ``most`` classes."""
    chosen: list[LoadClass] = []
    ios = size = 0
    for one in sorted(
        workload.classes, key=lambda one: -(one.ios / workload.ios + one.bytes / workload.bytes)
    ):
        if len(chosen) == most or (ios >= enough * workload.ios and size >= enough * workload.bytes):
            break
        chosen.append(one)
        ios += one.ios
        size += one.bytes
    return chosen


def coverage(workload: Workload, chosen: Sequence[LoadClass]) -> Coverage:
    """What share of the workload the classes ``chosen`` are."""
    return Coverage(
        sum(one.ios for one in chosen) / workload.ios, sum(one.bytes for one in chosen) / workload.bytes
    )


def outstanding(in_flight: float, *, most: int = 256) -> int:
    """I/Os to allow in flight: four times what the recording had on average, in a power of two, at least 4.

    A tool that issues the next I/O only when another ends needs room above the mean to hold its rate through bursts.
    """
    return min(most, 1 << max(2, math.ceil(math.log2(max(1.0, 4 * in_flight)))))
