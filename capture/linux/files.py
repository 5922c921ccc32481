"""The filesystem layer: calls on the files of a recorded device, and which file a block I/O belongs to.

Calls are system calls of the processes that use a recorded file system, matched with what the file system itself tells
of the file they reached; asynchronous direct I/O is taken from the file system alone. A block I/O belongs to the file
whose extent holds its first byte: extents are looked up once before the recording and followed from then on, as the
file system gives space to files. Its own structures are the files ``[journal]`` and ``[metadata]`` below the mount
point.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture import roles
from iotrace.capture._recorder import BlockTrace, FileTrace
from iotrace.schemas import IotraceError, Layer, Quality, Role, conform
from iotrace.schemas.text import format_share

from .devices import BlockDevice, Selection, mounts, partitions
from .tracefs import TraceInstance, reading_the_trace

LAYERS: Final = (Layer.FILESYSTEM, Layer.BLOCK, Layer.DEVICE)
"""Those that a Linux host can be asked for."""

_EXT: Final = ("ext2", "ext3", "ext4")  # one driver, and its events, for all three
_SCAN_SECONDS: Final = 10.0
_CHANGES_BUFFER_BYTES: Final = 8 << 20
_UNUSED: frozenset[str] = frozenset()
"""Events not to be used, as on a kernel that lacks them."""
_NOBODY: Final = "0"
"""Stands in a list of threads that, were it empty, would mean everybody."""


@dataclass(frozen=True, slots=True)
class MountedFilesystem:
    """A file system on a recorded disk whose files can be told apart."""

    point: str
    number: int
    """Kernel number of the disk or partition it lies on."""
    kind: str
    """ext4 or xfs."""
    device_id: int
    start_bytes: int
    end_bytes: int


class FilesystemLayer:
    """Context manager: traces calls on files while it is open.

    Entering it looks up the extents of all files, which takes up to ten seconds where there are very many.
    """

    def __init__(self, selection: Selection, *, first_file_id: int) -> None:
        """Raises `IotraceError` if none of the selected devices holds a file system that can be followed."""
        self.mounted, self._notes = find_filesystems(selection)
        self._first_file_id = first_file_id
        self._instances: list[_Instance] = []
        self._exits = ExitStack()
        self._saved_files = -1
        self._trace: FileTrace | None = None

    def __enter__(self) -> Self:
        with self._exits:
            calls = self._exits.enter_context(_Instance("calls", self.mounted))
            changes = self._exits.enter_context(_Instance("changes", self.mounted))
            self._instances = [calls, changes]
            changes.start()
            with reading_the_trace():
                self._trace = FileTrace(
                    str(calls.folder),
                    str(changes.folder),
                    enabled=[*calls.names, *changes.names],
                    mounted=[
                        (one.point, one.number, one.kind, one.device_id, one.start_bytes, one.end_bytes)
                        for one in self.mounted
                    ],
                    first_file_id=self._first_file_id,
                    own_process=os.getpid(),
                    scan_seconds=_SCAN_SECONDS,
                )
            self._exits.callback(self._trace.close)
            changes.enable_late()
            calls.start()
            self._exits = self._exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def begin(self, blocks: BlockTrace, start_ns: int) -> None:
        """The recording begins at ``start_ns`` on ``CLOCK_MONOTONIC``; its processes are those of ``blocks``."""
        self._open().begin(blocks, start_ns)

    def stop(self) -> None:
        """Let no more events in."""
        for instance in self._instances:
            instance.stop()

    def add_to(self, blocks: pa.RecordBatch, *, last: bool = False) -> pa.Table:
        """Rows of ``io``: those of ``blocks``, just read, with their files, and the calls that have ended since."""
        trace = self._open()
        with reading_the_trace():
            calls = trace.read(last=last)
        return pa.Table.from_batches([calls, trace.attribute(blocks)])

    def files(self) -> pa.Table:
        """Rows of ``files``: those that saw I/O, with roles guessed from their paths."""
        self._saved_files = self._open().statistics()["files"]
        batch = self._open().files()
        found = [_role(path) for path in batch["path"].to_pylist()]
        batch = batch.append_column("role", pa.array([str(role) for role, _ in found], pa.string()))
        batch = batch.append_column("database", pa.array([database for _, database in found], pa.string()))
        return conform(batch, "files")

    def has_new_files(self) -> bool:
        """Whether files saw their first I/O since `files` was last asked for."""
        return self._open().statistics()["files"] != self._saved_files

    def events(self) -> int:
        """Events read so far."""
        return self._open().statistics()["events"]

    def judge(self, quality: Quality) -> None:
        """Add what the layer lost, could not pair, and could not tell."""
        counts = self._open().statistics()
        quality.events_lost += counts["events_lost"]
        quality.damaged_buffers += counts["damaged_pages"]
        quality.unpaired_issues += counts["unpaired_issues"]
        quality.unpaired_completions += counts["unpaired_completions"]
        quality.notes += [*self._notes, *_notes(counts)]

    def _open(self) -> FileTrace:
        assert self._trace is not None, "entered"
        return self._trace


def check_layers(layers: Sequence[str]) -> None:
    """Raises `IotraceError` for a word that is no layer of a Linux host, or none at all."""
    for layer in layers:
        if layer not in LAYERS:
            raise IotraceError(
                f"'{layer}' is not a layer that a Linux host shows", hint=f"layers are {', '.join(LAYERS)}"
            )
    if not layers:
        raise IotraceError("no layer to record", hint=f"layers are {', '.join(LAYERS)}")


def keep_layers(io: pa.Table, layers: Sequence[str]) -> pa.Table:
    """The rows of those layers; ``layer`` holds positions in the word list."""
    if set(layers) == set(LAYERS):
        return io
    wanted = pa.array([list(Layer).index(Layer(layer)) for layer in layers], pa.int8())
    return io.filter(pc.is_in(io["layer"], value_set=wanted))


def find_filesystems(selection: Selection) -> tuple[list[MountedFilesystem], list[str]]:
    """The file systems on what was asked for, and notes about those whose files cannot be told apart.

    Raises `IotraceError` if there is none.
    """
    found: list[MountedFilesystem] = []
    notes: list[str] = []
    by_number = {_kernel_number(mount.number): mount for mount in reversed(mounts())}
    for position, disk in enumerate(selection.disks):
        for device in _asked(selection, disk):
            mount = by_number.get(device.number)
            if mount is None:
                continue
            if mount.filesystem != "xfs" and mount.filesystem not in _EXT:
                notes.append(
                    f"files on {mount.point} ({mount.filesystem}) cannot be told apart: it is not ext4 or XFS"
                )
                continue
            start = device.start_sector * 512
            found.append(
                MountedFilesystem(
                    mount.point,
                    device.number,
                    "xfs" if mount.filesystem == "xfs" else "ext4",
                    position,
                    start,
                    start + device.sectors * 512,
                )
            )
    if not found:
        words = ", ".join(selection.words)
        raise IotraceError(
            f"no mounted ext4 or XFS file system lies on '{words}'",
            hint="mount it first, or leave filesystem out of --layers",
        )
    return found, notes


def _asked(selection: Selection, disk: BlockDevice) -> Iterator[BlockDevice]:
    """The disk and its partitions, as far as they were asked for."""
    asked = {device.number for device in selection.words.values()}
    for device in (disk, *partitions(disk)):
        if device.number in asked or disk.number in asked:
            yield device


def _kernel_number(number: int) -> int:
    return os.major(number) << 20 | os.minor(number)


def _role(path: str) -> tuple[Role, str | None]:
    if path.endswith(("/[journal]", "/[metadata]")):
        return Role.SYSTEM, None
    return roles.classify(path)


def _notes(counts: dict[str, int]) -> Iterator[str]:
    if counts["ios"]:
        yield (
            f"{_percent(counts['attributed_ios'], counts['ios'])} of the block layer's reads and writes and "
            f"{_percent(counts['attributed_bytes'], counts['bytes'])} of their bytes led to a file, "
            "the journal or metadata"
        )
    if counts["scan_is_cut"]:
        yield (
            f"only {counts['files_scanned']:,} files were looked up before the recording began: "
            "block I/O of others, unless they grew, leads to no file"
        )
    if not counts["newcomers_are_seen"]:
        yield "calls of processes that opened their first file after the recording began were not recorded"
    if counts["own"]:
        yield f"{counts['own']:,} calls of iotrace itself left out"
    if counts["empty"]:
        yield f"{counts['empty']:,} calls that moved no bytes (reads at the end of a file) left out"
    if counts["would_block"]:
        yield f"{counts['would_block']:,} calls that would have had to wait were turned away and retried"


def _percent(part: int, whole: int) -> str:
    return format_share(part / whole) if whole else "none"


class _Instance(TraceInstance):
    """One of the layer's two tracing instances."""

    def __init__(self, kind: str, mounted: Sequence[MountedFilesystem]) -> None:
        super().__init__()
        self.names: list[str] = []
        """Events that were found on this kernel."""
        self._kind, self._mounted = kind, mounted
        self._late: list[str] = []
        if kind == "changes":
            self.buffer_bytes_max = _CHANGES_BUFFER_BYTES

    def enable_events(self) -> None:
        """Those of this kind that the kernel has, for the recorded file systems only."""
        if self._kind == "calls":
            self.write("set_event_pid", _NOBODY)
            self.write("options/event-fork", "1")
        for kind, group, name, field, condition, filesystem in FileTrace.sources():
            event = f"events/{group}/{name}"
            numbers = [one.number for one in self._mounted if filesystem in {None, one.kind}]
            is_there = (self.folder / event).is_dir()
            if kind != self._kind or name in _UNUSED or not numbers or not is_there:
                continue
            if field is not None:
                limits = " || ".join(f"{field} == {number}" for number in numbers)
                self.write(f"{event}/filter", f"({limits}) && {condition}" if condition else limits)
            self.names.append(name)
            if self._kind == "changes" and group == "iomap":
                self._late.append(event)  # would fill the buffer while nobody reads it yet
            else:
                self.write(f"{event}/enable", "1")

    def enable_late(self) -> None:
        """What is only wanted once the buffers are read."""
        for event in self._late:
            self.write(f"{event}/enable", "1")
