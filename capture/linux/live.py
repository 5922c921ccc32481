"""Records block devices live: a tracing instance, its reader, and the recording they are written to.

The block layer's clock runs from the moment a bio is queued to its completion; the device layer's from the moment a
request is issued to the driver to its completion. Roles are attributed by device: everything on a device that was
given a role belongs to that role's one row of ``files``.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from iotrace.capture._recorder import BlockTrace
from iotrace.schemas import (
    Clock,
    GrowingRecording,
    IotraceError,
    Kind,
    Layer,
    Manifest,
    OutputError,
    Quality,
    Recording,
    Source,
    counted,
)
from iotrace.schemas.host import Host

from .cgroups import asked_disks, io_limits
from .counters import CounterSampler, KernelCounts
from .devices import Selection, devices_table, files_table, resolve, select
from .files import FilesystemLayer, check_layers, keep_layers
from .host import ClockWatch, DeviceWatch, host_facts
from .limits import Keeper, Priority, ends_on_signals
from .metrics import Metrics
from .tracefs import BlockInstance, reading_the_trace


class ProgressMeter:
    """Differences since the last report; each I/O is counted once, on the block layer."""

    def __init__(self) -> None:
        self._last_ns = 0
        self._before: dict[str, int] = {}

    def report(self, at_ns: int, counts: dict[str, int], size_bytes: int) -> dict[str, Any]:
        """Elapsed time, I/Os so far, and rates and mean latency since the last report (None without I/O).

        ``counts`` are those of `BlockTrace.statistics`. Keys: ``elapsed_ns``, ``ios``, ``read_iops``, ``write_iops``,
        ``bytes_per_second``, ``latency_ns_mean``, ``events_lost``, ``size_bytes`` (of the recording on disk so far).
        """
        seconds = max(at_ns - self._last_ns, 1) / 1e9
        change = {name: number - self._before.get(name, 0) for name, number in counts.items()}
        self._last_ns, self._before = at_ns, dict(counts)
        return {
            "elapsed_ns": at_ns,
            "ios": counts["ios"],
            "read_iops": change["reads"] / seconds,
            "write_iops": change["writes"] / seconds,
            "bytes_per_second": change["bytes"] / seconds,
            "latency_ns_mean": change["latency_ns"] / change["ios"] if change["ios"] else None,
            "events_lost": counts["events_lost"],
            "size_bytes": size_bytes,
        }


_POLL_MS = 250
_SAMPLE_NS = 1_000_000_000
_LATE_NS = 1_000_000_000
"""Kept waiting for so long, the recorder no longer gives way."""
_TOO_LARGE = "it had reached its greatest size"
_CUT_OFF = "the recorder was killed, or the machine went down"

Markers = Callable[[Clock, int], pa.Table]
Progress = Callable[[dict[str, Any]], None]


def record(
    devices: Sequence[str],
    output: Path | str,
    *,
    seconds: float | None,
    overwrite: bool = False,
    title: str | None = None,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
    roles: Mapping[str, str] | None = None,
    markers: Markers | None = None,
    host_name: str | None = None,
    max_bytes: int | None = None,
    ring_seconds: float | None = None,
    layers: Sequence[str] = (Layer.BLOCK, Layer.DEVICE),
    metrics: Metrics | None = None,
) -> Recording:
    """Record the I/O of block devices until ``seconds`` are over, ``stop`` is set, or a signal asks to end.

    ``devices``: paths of disks or partitions, mount points, or files on them. ``roles``: device → role (data, log, …),
    attributed by device. ``progress`` is called about once a second with what `ProgressMeter.report` returns.
    ``markers`` is called once at the end with the recording's clock and length in nanoseconds, and returns rows for
    ``markers``. ``host_name`` stands in for the machine's own name. ``max_bytes`` bounds the disk: reaching it ends the
    recording, or with ``ring_seconds``, which keeps only the last so many seconds, drops the oldest of it. I/Os that
    come at once and do not fit are left out, and the window ends before them. Beyond the bound go only the reserve of
    32 MiB while it grows, and what ``processes`` and ``files`` gain in the last second if they more than double in it.
    ``layers`` are those to keep; with ``filesystem`` I/O is attributed to files, and their roles are guessed from their
    paths. ``metrics`` counts what is recorded, for whoever watches meanwhile.

    The first Ctrl-C or SIGTERM ends the recording and keeps it. So do a device that vanishes and a full disk. Whatever
    kills the recorder, what it saved up to a second or two before is left for `recover`. Raises `IotraceError` for
    devices that are none, a machine that cannot be traced, and an output that cannot be written.
    """
    selection = select(devices, roles)
    check_layers(layers)
    ended = stop or threading.Event()
    with (
        GrowingRecording.create(output, overwrite=overwrite) as growing,
        Priority() as priority,
        ends_on_signals(ended),
    ):
        ring_ns = None if ring_seconds is None else int(ring_seconds * 1e9)
        keeper = Keeper(growing, max_bytes=max_bytes, ring_ns=ring_ns)
        try:
            with ExitStack() as stack:
                files = None
                if Layer.FILESYSTEM in layers:
                    files = stack.enter_context(
                        FilesystemLayer(selection, first_file_id=len(selection.roles))
                    )
                instance = stack.enter_context(BlockInstance(selection))
                live = stack.enter_context(_Live(selection, growing, keeper, instance, files))
                live.layers = layers
                if metrics is not None:
                    metrics.begin(selection, layers)
                    live.metrics = metrics
                live.title = title or f"I/O of {', '.join(devices)}"
                live.host = host_facts(host_name)
                live.look_for_limits()
                live.run(seconds, ended, progress, priority)
                manifest = live.finish(markers)
        except BaseException:
            if not any(growing.rows.values()):
                growing.discard()
            raise
        return growing.commit(manifest)


class _Live:
    """A recording being made. Context manager: leaving it lets go of the trace."""

    def __init__(
        self,
        selection: Selection,
        growing: GrowingRecording,
        keeper: Keeper,
        instance: BlockInstance,
        files: FilesystemLayer | None,
    ) -> None:
        self.title = ""
        self.layers: Sequence[str] = ()
        self.metrics: Metrics | None = None
        self.host = Host()
        self._selection, self._growing, self._keeper, self._instance = selection, growing, keeper, instance
        self._files = files
        self._ended = "normally"
        self._notes = _notes(selection, growing.folder)
        self._clocks = ClockWatch()
        self._devices = DeviceWatch(selection.disks)
        self._start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._end_ns = 0
        self._clock = Clock(
            self._start_ns + self._clocks.start_offset_ns,
            1.0,
            "CLOCK_MONOTONIC (ftrace mono)",
            self._clocks.uncertainty_ns,
        )
        self._kernel = KernelCounts(selection)
        self._is_over = False
        self._sampler = CounterSampler([disk.name for disk in selection.disks], self._now_ns())
        self._meter = ProgressMeter()
        self._saved_processes: pa.RecordBatch | None = None
        with reading_the_trace():
            self._trace = BlockTrace(
                str(instance.folder),
                numbers=selection.positions(),
                devices=_ids(selection),
                start_ns=self._start_ns,
                own_process=os.getpid(),
            )
        if files is not None:
            files.begin(self._trace, self._start_ns)

    def look_for_limits(self) -> None:
        """Note which cgroups limit the recorded disks; one that was changed since the last look is noted again."""
        for limit in io_limits(asked_disks(self._selection)):
            if limit not in self.host.io_limits:
                self.host.io_limits.append(limit)

    def run(
        self, seconds: float | None, ended: threading.Event, progress: Progress | None, priority: Priority
    ) -> None:
        """Record until something ends it."""
        next_look_ns = 0
        self._growing.replace("devices", devices_table(self._selection))
        self._save_files()
        self._instance.start()
        # On a busy host seconds may have passed since the clock began, of which nothing was recorded.
        self._keeper.window_start_ns = self._now_ns()
        length_ns = None if seconds is None else self._keeper.window_start_ns + int(seconds * 1e9)
        self._kernel.begin()
        try:
            while not ended.is_set() and self._ended == "normally":
                at_ns = self._now_ns()
                if at_ns >= next_look_ns:
                    if at_ns >= next_look_ns + _LATE_NS:
                        priority.restore()
                    next_look_ns = at_ns - at_ns % _SAMPLE_NS + _SAMPLE_NS
                    self._look(at_ns, progress)
                if length_ns is not None and at_ns >= length_ns:
                    break
                left_ms = (min(next_look_ns, length_ns or next_look_ns) - self._now_ns()) // 1_000_000 + 1
                self._read(max(1, min(_POLL_MS, left_ms)))
        finally:
            self._kernel.end()
            self._instance.stop()
            if self._files is not None:
                self._files.stop()
        self._end_ns = self._now_ns()
        self._read(0, last=True)
        self._is_over = True
        self._growing.append("counters", self._sample(self._end_ns))
        self._report(self._end_ns, progress)

    def finish(self, markers: Markers | None) -> Manifest:
        """Save what was gathered; the manifest of the whole."""
        self._growing.release_reserve()
        self._clocks.look(self._end_ns)
        self.look_for_limits()
        self._save_tables()
        self._save_files()
        self._growing.replace("devices", devices_table(self._selection))
        if markers is not None:
            self._growing.replace("markers", markers(self._clock, self._end_ns))
        manifest = self._manifest(self._end_ns, self._ended)
        self._growing.flush(manifest)
        return manifest

    def _read(self, timeout_ms: int, *, last: bool = False) -> None:
        try:
            with reading_the_trace():
                batch = self._trace.read(timeout_ms, last=last)
            rows = (
                pa.Table.from_batches([batch])
                if self._files is None
                else self._files.add_to(batch, last=last)
            )
        except IotraceError as problem:
            self._ended = problem.message
            return
        rows = keep_layers(rows, self.layers)
        if self.metrics is not None:
            self.metrics.count(rows)
        try:
            rows = self._keeper.admit(rows)
        except OutputError as problem:
            self._end_if_full(problem)
        if self._keeper.left_out and self._ended == "normally":
            self._ended = _TOO_LARGE
        self._growing.append_fast("io", rows)

    def _look(self, at_ns: int, progress: Progress | None) -> None:
        """Once a second: counters, what happens to the host, and everything so far made safe."""
        if at_ns >= _SAMPLE_NS // 2:
            self._growing.append("counters", self._sample(at_ns))
        self._clocks.look(at_ns)
        if gone := self._devices.vanished():
            self._ended = f"{' and '.join(gone)} vanished"
        try:
            self._save_tables()
            self._keeper.keep(at_ns, self._manifest(at_ns, _CUT_OFF))
        except OutputError as problem:
            self._end_if_full(problem)
        if self._keeper.is_full:
            self._ended = _TOO_LARGE
        self._report(at_ns, progress)

    def _end_if_full(self, problem: OutputError) -> None:
        if not problem.is_full:
            raise problem
        self._ended = "the disk that the recording is written to was full"
        self._growing.release_reserve()

    def _sample(self, at_ns: int) -> pa.Table:
        return self._sampler.sample(at_ns, self._kernel.own(self._trace.ended()))

    def _report(self, at_ns: int, progress: Progress | None) -> None:
        if self.metrics is not None:
            self.metrics.note(self._trace.statistics(), self._growing.size_bytes)
        if progress is not None:
            progress(self._meter.report(at_ns, self._trace.statistics(), self._growing.size_bytes))

    def _save_tables(self) -> None:
        """What rows refer to is saved before them."""
        processes = self._trace.processes()
        if self._saved_processes is None or not processes.equals(self._saved_processes):
            self._growing.replace("processes", processes)
            self._saved_processes = processes
        if self._files is not None and self._files.has_new_files():
            self._save_files()

    def _save_files(self) -> None:
        tables = [files_table(self._selection)]
        if self._files is not None:
            tables.append(self._files.files())
        self._growing.replace("files", pa.concat_tables(tables))

    def _manifest(self, at_ns: int, ended: str) -> Manifest:
        counts = self._trace.statistics()
        quality = Quality(ended=ended, clock_steps=self._clocks.steps)
        quality.notes = [*self._notes, *self._clocks.notes]
        quality.notes.append(
            f"start in UTC known to within {self._clocks.uncertainty_ns} ns of this host's clock"
        )
        _count(quality, counts)
        if self._is_over:  # until then events are still on their way
            self._kernel.hold(self._trace.ended(), quality)
        if self._keeper.left_out:
            quality.notes.append(
                f"{counted(self._keeper.left_out, 'row')} of io left out at the greatest size: "
                "the window ends before them"
            )
        name = ", ".join(self._selection.words)
        sources = [Source(name=name, kind="ftrace block events", events=counts["events"])]
        if self._files is not None:
            self._files.judge(quality)
            sources.append(Source(name=name, kind="ftrace file events", events=self._files.events()))
        quality.judge(self._growing.rows.get("io", 0))
        return Manifest(
            kind=Kind.CAPTURED,
            title=self.title,
            clock=self._clock,
            window_start_ns=self._keeper.window_start_ns,
            window_end_ns=at_ns if self._keeper.end_ns is None else min(at_ns, self._keeper.end_ns),
            host=self.host,
            sources=sources,
            quality=quality,
        )

    def _now_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self._start_ns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._trace.close()


def _ids(selection: Selection) -> list[tuple[int, int | None]]:
    """(device_id, file_id) of each disk, numbered as `devices_table` and `files_table` number them."""
    attributed = sorted(selection.roles)
    return [
        (position, attributed.index(position) if position in attributed else None)
        for position in range(len(selection.disks))
    ]


def _notes(selection: Selection, folder: Path) -> list[str]:
    notes = []
    for word, device in selection.words.items():
        if names := ", ".join(part.name for part in selection.beneath.get(word, ())):
            notes.append(
                f"{word} takes bios, not requests: its device layer is that of {names}, with all that goes on there"
            )
        elif not device.takes_requests:
            notes.append(f"{word} takes bios, not requests, and lies on no disk: it has no device layer")
    if selection.roles:
        notes.append("roles are attributed by device: all I/O of a device belongs to its role")
    if _disk_number(folder) in {disk.number for disk in selection.disks}:
        notes.append("the recording was written to a recorded device, and its write-back is part of it")
    return notes


def _disk_number(folder: Path) -> int | None:
    """Kernel number of the disk a folder lies on; None where there is none."""
    try:
        return resolve(str(folder)).disk_number
    except IotraceError:
        return None


def _count(quality: Quality, counts: Mapping[str, int]) -> None:
    quality.events_lost = counts["events_lost"]
    quality.damaged_buffers = counts["damaged_pages"]
    quality.unpaired_issues = counts["unpaired_issues"]
    quality.unpaired_completions = counts["unpaired_completions"]
    if counts["own"]:
        quality.notes.append(f"{counted(counts['own'], 'I/O')} of iotrace itself left out")
    if counts["would_block"]:
        quality.notes.append(
            f"{counted(counts['would_block'], 'I/O')} would have had to wait: turned away and retried"
        )
