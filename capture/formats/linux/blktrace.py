"""Linux block-layer events: blktrace's binary files, blkparse's text, and ``perf script`` of block tracepoints.

A bio's way from Q to C is a row of layer block, a request's from D to C a row of layer device. blktrace names
threads, so the rows of ``processes`` are threads. Of a binary trace in one file per processor (``NAME.blktrace.0``,
``.1``, …) the whole family is read when one of it is named, because an I/O may end on another processor than it began.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture import _readers
from iotrace.capture.formats.format import Family, Format, Outcome, Progress, naming, undated
from iotrace.capture.formats.text_blocks import head_lines, inspect_text
from iotrace.schemas import Clock, IotraceError, Layer, Quality, counted
from iotrace.schemas.host import Host

_BATCH_ROWS: Final = 1 << 18
_LAYERS: Final = list(Layer)
_ANCHOR_NS: Final = 1_000
"""The kernel reads the wall clock and its trace clock one after the other with interrupts off."""
# The fourth byte is the version; another than 7 is recognised too, to be refused by its name.
_MAGIC: Final = 0x656174
_MEMBER: Final = re.compile(r"(.+\.blktrace\.)([0-9]{1,6})")
_TEXT: Final = re.compile(r"\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d{9}\s+\d+\s+[A-Z]{1,2}\s+.*")
_PERF: Final = re.compile(r"\s*\S.*\s\d+(/\d+)?\s+(\[\d+\]\s+)?\d+\.\d+:\s+block:block_\w+:\s.*")
_PERF_OTHER: Final = re.compile(r"^#|^\s+[0-9a-f]{8,16} |^$")


def _recognises_binary(head: bytes, _path: Path) -> bool:
    orders = {int.from_bytes(head[:4], "little") >> 8, int.from_bytes(head[:4], "big") >> 8}
    return len(head) >= 48 and _MAGIC in orders


def _recognises_blkparse(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 3)
    return bool(lines) and all(_TEXT.fullmatch(line) for line in lines)


def _recognises_perf(head: bytes, _path: Path) -> bool:
    events = [line for line in head_lines(head, 60) if not _PERF_OTHER.match(line)][:3]
    return bool(events) and all(_PERF.fullmatch(line) for line in events)


def _member(name: str) -> tuple[str, int] | None:
    """One file for each processor: ``sda.blktrace.0``, ``sda.blktrace.1``, …"""
    match = _MEMBER.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def _read_binary(paths: Sequence[Path], names: Sequence[str], progress: Progress) -> "BlockTrace":
    return BlockTrace(list(paths), names[0], progress, "blktrace")


def _reading(kind: str) -> Any:  # noqa: ANN401 - a Format's own type
    return lambda path, name, progress: BlockTrace([path], name, progress, kind)


class BlockTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, paths: list[Path], name: str, progress: Progress, kind: str) -> None:
        self.name = name
        self._paths, self._progress, self._kind = paths, progress, kind
        with naming(name):
            self._native = _readers.read_block_events(paths, kind)
        counts = self._native.counts()
        if counts["first_ns"] is None:
            raise IotraceError(
                f"'{name}' holds no complete event of the block layer",
                hint="check that the trace was stopped and copied completely",
            )
        offset = counts["utc_offset_ns"]
        self._has_date = offset is not None
        self.clock = Clock(
            (counts["first_ns"] or 0) + offset if offset else 0,
            1.0,
            f"Linux {kind}",
            _ANCHOR_NS if offset else None,
        )
        self.host = Host(system="Linux")
        self._unended: Counter[str] = Counter()
        """I/Os without an end on each layer: one that hangs is a row of both."""

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """For each stretch of I/O the disks and threads it is the first to name, then the I/Os as they end."""
        total = sum(path.stat().st_size for path in self._paths)
        while True:
            with naming(self.name):
                rows = self._native.next_io(_BATCH_ROWS)
            yield from self._devices(self._native.new_devices())
            yield "processes", _processes(pa.record_batch(self._native.new_processes()))
            if rows is None:
                break
            batch = pa.record_batch(rows)
            unended = batch["layer"].filter(pc.is_null(batch["completed_ns"]))
            self._unended.update(_LAYERS[code] for code in unended.to_pylist())
            yield "io", batch
            self._progress(f"reading {self.name}", min(self._native.counts()["position"], total), total)
        partitions = self._native.partitions()
        if partitions:
            yield (
                "devices",
                _device_rows(
                    [
                        (identity, number, "partition", parent, start)
                        for identity, number, parent, start in partitions
                    ]
                ),
            )

    def outcome(self) -> Outcome:
        """The window runs from the first event to the last."""
        counts = self._native.counts()
        quality = Quality(
            events_lost=counts["lost"] + counts["rejected"],
            unpaired_issues=counts["unpaired_issues"],
            unpaired_completions=counts["unpaired_completions"],
            truncated_tail=counts["truncated"],
            notes=list(self._notes(counts)),
        )
        end_ns = counts["last_ns"] - (counts["first_ns"] or 0)
        return Outcome(0, end_ns, quality, counts["events"])

    def _devices(self, devices: list[tuple[int, int]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        if devices:
            yield (
                "devices",
                _device_rows([(identity, number, "disk", None, None) for identity, number in devices]),
            )

    def _notes(self, counts: dict[str, Any]) -> Iterator[str]:
        if not self._has_date:
            yield undated("event")
        if counts["truncated"]:
            yield "the end is cut off inside a record, which is left out"
        for count, words in (
            ("lost", "events are missing by their sequence numbers"),
            (
                "repeated",
                "events are there a second time and are left out: the file holds the same trace twice",
            ),
            ("rejected", "records or lines cannot be understood and are left out"),
            ("passthrough", "events of commands that read and write no sectors are left out"),
            ("requeues", "requests were issued again: their device time starts at the last issue"),
            (
                "sent_on",
                "I/Os that a volume sent on to its disks count once on the block layer, as the volume's",
            ),
            ("would_block", "I/Os were refused because their caller would not wait, and are left out"),
            ("backwards", "events are earlier than the event before them"),
        ):
            if counts[count]:
                yield f"{counts[count]:,} {words}"
        if unended := self._unended[Layer.BLOCK] or self._unended[Layer.DEVICE]:
            what = counted(unended, "I/O has", "I/Os have")
            yield f"{what} no completion in the trace, so when they ended is unknown"


def _device_rows(devices: list[tuple[int, int, str, int | None, int | None]]) -> pa.RecordBatch:
    count = len(devices)
    return pa.RecordBatch.from_pydict(
        {
            "device_id": pa.array([identity for identity, *_ in devices], pa.int32()),
            "name": pa.array([f"{number >> 20},{number & 0xFFFFF}" for _, number, *_ in devices]),
            "kind": pa.array([kind for _, _, kind, *_ in devices]),
            "parent_device_id": pa.array([parent for *_, parent, _ in devices], pa.int32()),
            "start_bytes": pa.array([start for *_, start in devices], pa.uint64()),
            "size_bytes": pa.nulls(count, pa.uint64()),
            "model": pa.nulls(count, pa.string()),
        }
    )


def _processes(threads: pa.RecordBatch) -> pa.RecordBatch:
    count = len(threads)
    return pa.RecordBatch.from_arrays(
        [*threads.columns, pa.nulls(count, pa.int64())],
        names=[*threads.schema.names, "started_ns"],
    )


def _inspect_binary(paths: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    trace = _read_binary(paths, names, lambda *_: None)
    rows = sum(len(batch) for table, batch in trace.batches() if table == "io")
    counts = trace._native.counts()  # noqa: SLF001 - this module's own class
    return {
        "format": "blktrace",
        "files": len(paths),
        "events": counts["events"],
        "io_rows": rows,
        "events_lost": counts["lost"],
        "whole": not counts["truncated"],
        "starts_utc_ns": trace.clock.start_utc_ns or None,
    }


BINARY: Final = Format(
    "blktrace",
    _recognises_binary,
    lambda path, name, progress: _read_binary([path], [name], progress),
    lambda path, name: _inspect_binary([path], [name]),
    Family(_member, _read_binary, _inspect_binary),
)
BLKPARSE: Final = Format(
    "blkparse",
    _recognises_blkparse,
    _reading("blkparse"),
    lambda path, name: inspect_text(path, name, "blkparse"),
)
PERF: Final = Format(
    "perf", _recognises_perf, _reading("perf"), lambda path, name: inspect_text(path, name, "perf script")
)
