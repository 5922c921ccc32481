"""Records block devices live: a tracing instance, its reader, and the recording they are written to.

The block layer's clock runs from the moment a bio is queued to its completion; the device layer's from the moment a
request is issued to the driver to its completion. Roles are attributed by device: everything on a device that was
given a role belongs to that role's one row of ``files``.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from iotrace.schemas import Clock, IotraceError, Kind, Manifest, Quality, Recording, RecordingWriter, Source

from .._recorder import BlockTrace
from .counters import CounterSampler
from .devices import Selection, devices_table, files_table, resolve, select
from .host import host_facts, utc_offset_ns
from .progress import ProgressMeter
from .tracefs import TraceInstance, reading_the_trace

_POLL_MS = 100
_SAMPLE_NS = 1_000_000_000
_BATCH_ROWS = 1 << 15
_NICENESS = 5
_CLOCK_STEP_NS = 1_000_000

Markers = Callable[[Clock, int], pa.Table]


def record(
    devices: Sequence[str],
    output: Path | str,
    *,
    seconds: float | None,
    overwrite: bool = False,
    title: str | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
    roles: Mapping[str, str] | None = None,
    markers: Markers | None = None,
    host_name: str | None = None,
) -> Recording:
    """Record the I/O of block devices until ``seconds`` are over, ``stop`` is set, or a signal asks to end.

    ``devices``: paths of disks or partitions, mount points, or files on them. ``roles``: device → role (data, log, …),
    attributed by device. ``progress`` is called about once a second with what `ProgressMeter.report` returns.
    ``markers`` is called once at the end with the recording's clock and length in nanoseconds, and returns rows for
    ``markers``. ``host_name`` stands in for the machine's own name. The first Ctrl-C or SIGTERM ends the recording and
    keeps it; a second one gives it up. Raises `IotraceError` for devices that are none, a machine that cannot be
    traced, and an output that cannot be written.
    """
    selection = select(devices, roles)
    ended = stop or threading.Event()
    with (
        RecordingWriter(output, overwrite=overwrite) as writer,
        _lower_priority(),
        _ends_on_signals(ended),
        TraceInstance(selection) as instance,
    ):
        quality = Quality(notes=_notes(selection, Path(output)))
        offset_ns, uncertainty_ns = utc_offset_ns()
        start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        clock = Clock(start_ns + offset_ns, 1.0, "CLOCK_MONOTONIC (ftrace mono)")
        with reading_the_trace():
            trace = BlockTrace(
                str(instance.folder),
                numbers=selection.positions(),
                devices=_ids(selection),
                start_ns=start_ns,
                own_process=os.getpid(),
            )
        try:
            end_ns = _run(instance, trace, writer, selection, start_ns, seconds, ended, progress)
            counts = trace.statistics()
            writer.append("processes", trace.processes())
        finally:
            trace.close()
        writer.append("devices", devices_table(selection))
        writer.append("files", files_table(selection))
        if markers is not None:
            writer.append("markers", markers(clock, end_ns))
        stepped_ns = utc_offset_ns()[0] - offset_ns
        if abs(stepped_ns) > max(_CLOCK_STEP_NS, end_ns // 2000):
            quality.notes.append(
                f"UTC moved by {stepped_ns / 1e6:+.1f} ms against the recording's clock meanwhile"
            )
        quality.notes.append(f"start in UTC known to within {uncertainty_ns} ns of this host's clock")
        _judge(quality, counts, writer.rows("io"))
        return writer.commit(
            Manifest(
                kind=Kind.CAPTURED,
                title=title or f"I/O of {', '.join(devices)}",
                clock=clock,
                window_end_ns=end_ns,
                host=host_facts(host_name),
                sources=[
                    Source(name=", ".join(devices), kind="ftrace block events", events=counts["events"])
                ],
                quality=quality,
            )
        )


def _run(
    instance: TraceInstance,
    trace: BlockTrace,
    writer: RecordingWriter,
    selection: Selection,
    start_ns: int,
    seconds: float | None,
    ended: threading.Event,
    progress: Callable[[dict[str, Any]], None] | None,
) -> int:
    """Read until the end; the recording's length in nanoseconds."""
    gathered: list[pa.RecordBatch] = []

    def take(batch: pa.RecordBatch, *, all_of_it: bool = False) -> None:
        meter.add(batch)
        gathered.append(batch)
        if all_of_it or sum(piece.num_rows for piece in gathered) >= _BATCH_ROWS:
            writer.append("io", pa.Table.from_batches(gathered).combine_chunks())
            gathered.clear()

    def read(timeout_ms: int, *, last: bool = False) -> pa.RecordBatch:
        with reading_the_trace():
            return trace.read(timeout_ms, last=last)

    def now_ns() -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start_ns

    length_ns = None if seconds is None else int(seconds * 1e9)
    meter = ProgressMeter()
    sampler = CounterSampler([disk.name for disk in selection.disks], now_ns())
    next_sample_ns = _SAMPLE_NS
    instance.start()
    try:
        while not ended.is_set():
            at_ns = now_ns()
            if length_ns is not None and at_ns >= length_ns:
                break
            left_ms = _POLL_MS if length_ns is None else min(_POLL_MS, (length_ns - at_ns) // 1_000_000 + 1)
            take(read(left_ms))
            at_ns = now_ns()
            if at_ns >= next_sample_ns:
                next_sample_ns = at_ns - at_ns % _SAMPLE_NS + _SAMPLE_NS
                writer.append("counters", sampler.sample(at_ns))
                if progress is not None:
                    progress(meter.report(at_ns, trace.statistics()))
    finally:
        instance.stop()
    end_ns = now_ns()
    take(read(0, last=True), all_of_it=True)
    writer.append("counters", sampler.sample(end_ns))
    if progress is not None:
        progress(meter.report(end_ns, trace.statistics()))
    return end_ns


def _ids(selection: Selection) -> list[tuple[int, int | None]]:
    """(device_id, file_id) of each disk, numbered as `devices_table` and `files_table` number them."""
    attributed = sorted(selection.roles)
    return [
        (position, attributed.index(position) if position in attributed else None)
        for position in range(len(selection.disks))
    ]


def _notes(selection: Selection, output: Path) -> list[str]:
    notes = [
        f"{word} takes bios, not requests: it has no device layer; record the disks beneath it for that"
        for word, device in selection.words.items()
        if not device.takes_requests
    ]
    if selection.roles:
        notes.append("roles are attributed by device: all I/O of a device belongs to its role")
    if _disk_number(output.absolute().parent) in {disk.number for disk in selection.disks}:
        notes.append("the recording was written to a recorded device, and its write-back is part of it")
    return notes


def _disk_number(folder: Path) -> int | None:
    """Kernel number of the disk a folder lies on; None where there is none."""
    try:
        return resolve(str(folder)).disk_number
    except IotraceError:
        return None


def _judge(quality: Quality, counts: Mapping[str, int], rows: int) -> None:
    quality.events_lost = counts["events_lost"]
    quality.damaged_buffers = counts["damaged_pages"]
    quality.unpaired_issues = counts["unpaired_issues"]
    quality.unpaired_completions = counts["unpaired_completions"]
    if counts["own"]:
        quality.notes.append(f"{counts['own']:,} I/Os of iotrace itself left out")
    if counts["would_block"]:
        quality.notes.append(
            f"{counts['would_block']:,} I/Os that would have had to wait were turned away and retried"
        )
    quality.judge(rows)


@contextmanager
def _lower_priority() -> Iterator[None]:
    """The recorder gives way to what it records; the kernel's buffers bridge the time."""
    thread = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, thread)
    os.setpriority(os.PRIO_PROCESS, thread, min(19, before + _NICENESS))
    try:
        yield
    finally:
        with suppress(PermissionError):  # only root may take priority back; nobody else gets to trace
            os.setpriority(os.PRIO_PROCESS, thread, before)


@contextmanager
def _ends_on_signals(ended: threading.Event) -> Iterator[None]:
    """The first signal sets ``ended``; the next one does what it would have done without us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def end(number: int, _frame: object) -> None:
        ended.set()
        signal.signal(number, signal.default_int_handler)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
