"""Windows event trace logs (.etl): I/O of the file system, the disks and the port driver, with files and processes.

Block layer: an I/O's row begins when the partition manager got it (completion less ``HighResResponseTime``) and ends
with its completion. A response time that cannot be (negative, over a day, or from before the counter began) is replaced
by the time since the I/O's Init event; where there is none, the row keeps the completion's moment as its ``issued_ns``,
``completed_ns`` is null, and ``quality.latencies_dropped`` counts it. Microsoft-Windows-Kernel-Disk and -File tell the
same as the kernel logger and are used only where that is silent.

Filesystem layer: reads, writes and flushes of files from their start to their OperationEnd; offsets are in the file,
sizes as asked for, a negative NtStatus is the error. Without an end the row stays, with ``completed_ns`` null.

Device layer: requests of the port driver (Microsoft-Windows-StorPort). Their times are the driver's own, in 100 ns;
their position comes from the dispatch of the same Irp or from the disk I/O they were made for.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.capture import _readers
from iotrace.capture.formats.format import SYSTEM_TICK_NS, Format, Outcome, Progress, naming
from iotrace.capture.roles import classify
from iotrace.schemas import Clock, Quality, counted
from iotrace.schemas.host import Host

from .volumes import Volumes

_BATCH_ROWS: Final = 1 << 17
_MASK_DISK_IO: Final = 0x100
_MASK_DISK_FILE_NAMES: Final = 0x200
_BUFFER_BYTES_MAX: Final = 1 << 26
_GROUPS: Final = {
    0x00: "header",
    0x01: "disk I/O",
    0x03: "process",
    0x04: "file I/O",
    0x05: "thread",
    0x0B: "system configuration",
}
_UNCLOSED: Final = "its session was never closed: it still ran, or the machine went down"
_WINDOWS: Final = {(6, 1): "Windows 7 / Server 2008 R2", (6, 2): "Windows 8 / Server 2012"}


def recognises(head: bytes, _path: Path) -> bool:
    """Whether ``head`` begins like the container of event traces: a buffer header, then a log header event."""
    if len(head) < 104:
        return False
    (buffer_bytes,) = struct.unpack_from("<I", head, 0)
    kind, flags = head[74], head[75]
    (hook,) = struct.unpack_from("<H", head, 78)
    return 72 <= buffer_bytes <= _BUFFER_BYTES_MAX and kind in {1, 2} and flags & 0xC0 == 0xC0 and hook == 0


def read(path: Path, name: str, progress: Progress) -> "EtlTrace":
    """Open the log at ``path``. Memory grows with the files, threads and processes it names, not with its I/O."""
    with naming(name):
        return EtlTrace(path, name, progress, _readers.read_etl_header(path))


def inspect(path: Path, name: str) -> dict[str, Any]:
    """Header, buffers, events by kind, time span and losses of the log at ``path``; every buffer is looked at.

    ``whole`` is false where something is known to be missing; ``problems`` says what.
    """
    with naming(name):
        found = _readers.inspect_etl(path)
    header = found["header"]
    groups: dict[str, int] = {}
    for hook, count in found["by_hook"].items():
        group = _GROUPS.get(hook >> 8)
        if group:
            groups[group] = groups.get(group, 0) + count
    problems = list(_problems(found))
    return {
        "format": "etl",
        "whole": not problems,
        "problems": problems,
        "os": _system(header),
        "processors": header["processors"],
        "session": header["session"],
        "clock": header["clock"],
        "start_utc_ns": header["start_utc_ns"],
        "first_event_ns": found["first_event_ns"],
        "last_event_ns": found["last_event_ns"],
        "end_ns": header["end_ns"],
        "circular": header["circular"],
        "compression": header["compression_name"],
        "buffers": found["buffers"],
        "compressed_buffers": found["compressed_buffers"],
        "damaged_buffers": found["damaged_buffers"],
        "truncated": found["truncated"],
        "events_lost": header["events_lost"],
        "buffers_lost": header["buffers_lost"],
        "sequence_holes": len(found["holes"]),
        "events": found["events"],
        "events_by_group": groups,
        "events_by_provider": found["by_provider"],
        "other_events": found["events"] - sum(groups.values()) - sum(found["by_provider"].values()),
    }


def _problems(found: dict[str, Any]) -> Iterator[str]:
    header = found["header"]
    if header["unclosed"]:
        yield _UNCLOSED
    if found["truncated"]:
        yield "the file ends inside a buffer"
    for count, noun, rest in (
        (header["events_lost"], "event", " lost"),
        (header["buffers_lost"], "buffer", " lost"),
        (len(found["holes"]), "hole", " in the buffer sequence"),
        (found["damaged_buffers"], "damaged buffer", ""),
    ):
        if count:
            yield f"{counted(count, noun)}{rest}"


def _system(header: dict[str, Any]) -> str:
    version = (header["os_major"], header["os_minor"])
    return f"{_WINDOWS.get(version, 'Windows {}.{}'.format(*version))} build {header['os_build']}"


FORMAT: Final = Format("etl", recognises, read, inspect)


class EtlTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress, header: dict[str, Any]) -> None:
        self._path, self._name, self._progress, self._header = path, name, progress, header
        self._counts: dict[str, Any] = {}
        self._has_files = False
        self._volumes, self._translated = Volumes(), 0
        self._is_known: Callable[[str], bool] = lambda _path: False
        self.clock = Clock(
            self._header["start_utc_ns"],
            self._header["clock_resolution_ns"],
            f"Windows {self._header['clock']}",
            # The header pairs the counter with the system time at the start.
            SYSTEM_TICK_NS,
        )
        self.host = Host(
            system=_system(header),
            processors=self._header["processors"],
            boot_utc_ns=self._header["boot_utc_ns"],
            utc_bias_minutes=self._header["utc_bias_minutes"],
        )

    def use_volumes(self, volumes: Volumes, is_known: Callable[[str], bool]) -> None:
        """Let paths that are the kernel's follow ``volumes``; ``is_known`` as in `Volumes.user_path`."""
        self._volumes, self._is_known = volumes, is_known

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Devices, then for each stretch of I/O the files and processes it is the first to name."""
        with naming(self._name):
            native = _readers.read_etl(
                self._path, progress=lambda done, total: self._progress(f"reading {self._name}", done, total)
            )
        counts = native.counts()
        total = _io_events(counts)
        done = files = processes = 0
        yield "devices", pa.record_batch(native.devices())
        while True:
            rows = native.next_io(_BATCH_ROWS)
            new_files = pa.record_batch(native.files(files))
            new_processes = pa.record_batch(native.processes(processes))
            files, processes = files + len(new_files), processes + len(new_processes)
            self._has_files = files > 0
            yield "files", _with_roles(self._with_user_paths(new_files))
            yield "processes", new_processes
            if rows is None:
                break
            io = pa.record_batch(rows)
            done += len(io)
            yield "io", io
            self._progress(f"writing {self._name}", done, total)
        self._counts = native.counts()

    def outcome(self) -> Outcome:
        """The window runs from the log's start (of a circular log: from its oldest event left) to its end."""
        header, counts = self._header, self._counts
        start_ns, last_event_ns = 0, counts["last_event_ns"] or 0
        if header["circular"]:
            start_ns = counts["first_event_ns"] or 0
        # Merging adds facts after the end, and an unclosed log names no end: the earlier of the two is the end.
        end_ns = min(last_event_ns, header["end_ns"]) if header["end_ns"] else last_event_ns
        end_ns = max(end_ns, start_ns, counts["last_completed_ns"] or 0)
        return Outcome(start_ns, end_ns, self._quality(counts), counts["events"])

    def _with_user_paths(self, files: pa.RecordBatch) -> pa.RecordBatch:
        if not self._volumes:
            return files
        told = files["path"].to_pylist()
        paths = [self._volumes.user_path(path, self._is_known) for path in told]
        self._translated += sum(path != kernel for path, kernel in zip(paths, told, strict=True))
        return files.set_column(files.schema.get_field_index("path"), "path", pa.array(paths, pa.string()))

    def _quality(self, counts: dict[str, Any]) -> Quality:
        # Each mark in the stream stands for one loss at least; the header's total may miss them.
        marks = counts["loss_flags"] + counts["loss_events"]
        return Quality(
            events_lost=max(self._header["events_lost"], marks),
            buffers_lost=self._header["buffers_lost"],
            sequence_holes=counts["hole_count"],
            unpaired_issues=counts["unpaired_inits"] + counts["unended_operations"],
            unpaired_completions=counts["unpaired_completions"],
            latencies_dropped=counts["responses_dropped"],
            damaged_buffers=counts["damaged_buffers"],
            truncated_tail=counts["truncated"],
            ended=_UNCLOSED if self._header["unclosed"] else "normally",
            notes=list(self._notes(counts)),
        )

    def _notes_on_names(self, counts: dict[str, Any], mask: int) -> Iterator[str]:
        if not any(counts["rows"]):
            yield _why_no_disk_io(counts, mask)
        elif not self._has_files:
            asked = "" if mask & _MASK_DISK_FILE_NAMES else ": it was taken without disk file names"
            yield f"no I/O has a file name{asked}"
        elif counts["inferred_letters"]:
            yield "the log maps no drive letters; they are inferred from the partitions its I/O fell into"
        elif self._translated:
            yield "the log maps no drive letters; its paths follow the volumes that the folder's facts name"
        elif not counts["volume_mappings"]:
            yield "paths are the kernel's (\\Device\\HarddiskVolume…): the log is unmerged and maps no drive letters"

    def _notes(self, counts: dict[str, Any]) -> Iterator[str]:
        mask = counts["group_masks"][0]
        yield from self._notes_on_names(counts, mask)
        if counts["reads"] + counts["writes"] + counts["flushes"] == counts["manifest_disk_events"] > 0:
            yield "disk I/O is from Microsoft-Windows-Kernel-Disk, which names no threads: it has no processes"
        if counts["operations"] and not counts["operation_ends"]:
            yield "file operations have no durations: the trace was taken without their ends"
        yield from _notes_on_requests(counts)
        if short := counts["short_operations"]:
            yield f"{counted(short, 'file operation')} moved {counts['short_bytes']:,} bytes less than asked for"
        if self._header["circular"]:
            yield "the log is circular: only the end of its session is left"
        for count, one, many, rest in (
            ("loss_flags", "buffer", "", " flagged with losses"),
            ("loss_events", "event marks", "events mark", " losses in delivery"),
            ("failed_operations", "file operation", "", " failed"),
            (
                "responses_replaced",
                "implausible latency",
                "implausible latencies",
                " replaced by the time since the I/O's start event",
            ),
            ("unplaceable", "I/O", "", " left out: the time cannot be expressed"),
            ("rejected_events", "kernel event", "", " left out: shorter than the form, or of an unknown one"),
            ("old_disk_events", "disk event", "", " left out: the form is that of Windows Server 2003"),
            ("optical_events", "event", "", " of optical drives left out"),
        ):
            if counts[count]:
                yield f"{counted(counts[count], one, many)}{rest}"


def _io_events(counts: dict[str, Any]) -> int:
    blocks = counts["reads"] + counts["writes"] + counts["flushes"]
    requests = max(
        counts[f"requests_{kind}"] for kind in ("timed_in_stack", "timed_in_device", "detailed", "done")
    )
    return int(blocks + counts["operations"] + requests)


def _notes_on_requests(counts: dict[str, Any]) -> Iterator[str]:
    if counts["requests_timed_in_stack"] and counts["requests_timed_in_device"]:
        yield "the device layer shows the time in the lower driver stack; the time in the target is left out"
    elif counts["requests_timed_in_device"]:
        yield "the device layer shows the time in the target device, without the driver's"
    elif counts["requests_detailed"] and not counts["requests_timed_in_stack"]:
        yield "requests of the port driver carry durations of no stated unit: theirs run from their dispatch"
    for count, words in (
        (
            "requests_of_windows_7",
            "requests of the port driver left out: without position or unit (Windows 7 form)",
        ),
        ("requests_summed_up", "summaries of slow or failed I/O left out: they describe no single I/O"),
        ("other_requests", "requests of the port driver left out: neither read, write, flush nor discard"),
    ):
        if counts[count]:
            yield f"{counts[count]:,} {words}"


def _why_no_disk_io(counts: dict[str, Any], mask: int) -> str:
    if counts["old_disk_events"]:
        return "iotrace does not read the form of the disk I/O in this trace"
    if mask & _MASK_DISK_IO:
        return f"this trace asked for disk I/O (group mask {mask:#x}) but holds none"
    if any(counts["group_masks"]):
        return f"this trace was taken without disk I/O (group mask {mask:#x} lacks {_MASK_DISK_IO:#x})"
    return "this trace was taken without disk I/O (it is no kernel trace)"


def _with_roles(files: pa.RecordBatch) -> pa.RecordBatch:
    guesses = [classify(path) for path in files["path"].to_pylist()]
    return pa.RecordBatch.from_arrays(
        [
            *files.columns,
            pa.array([str(role) for role, _ in guesses], pa.string()),
            pa.array([database for _, database in guesses], pa.string()),
        ],
        names=[*files.schema.names, "role", "database"],
    )
