"""Native readers of trace files. Messages name no path: the caller knows the user's word."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

class ArrowBatch(Protocol):
    """A record batch behind the Arrow C data interface: ``pyarrow.record_batch`` takes it without a copy."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Schema and array capsules."""

class UnreadableError(Exception):
    """A file that cannot be read. ``args`` are what is wrong (the rest of "'FILE' …") and a hint."""

class EtlTrace:
    """A log whose names are read; its I/O is gone through batch by batch, in memory that its length does not change.

    Words are positions in the format's word lists, times nanoseconds since the log's start, ids dense from 0.
    """

    def next_io(self, rows: int) -> ArrowBatch | None:
        """The next at most ``rows`` I/Os of all layers in order of completion; None after the last.

        File operations without an end come when that is known, at the latest behind all others.
        """

    def devices(self) -> ArrowBatch:
        """All disks and partitions."""

    def files(self, first: int) -> ArrowBatch:
        """Files from row ``first`` on that the I/O handed out so far names: file_id, path, device_id."""

    def processes(self, first: int) -> ArrowBatch:
        """Processes from row ``first`` on; handing out I/O may add some."""

    def counts(self) -> dict[str, Any]:
        """Counts of what was read, left out, lost and unpaired; final once all I/O is handed out."""

def is_debug_build() -> bool:
    """Whether this module was built without optimisation."""

def read_etl(
    path: str | PathLike[str],
    *,
    threads: int = 0,
    kept_events: int = 524288,
    progress: Callable[[int, int], None] | None = None,
) -> EtlTrace:
    """Read a Windows event trace log.

    ``threads`` 0: one per processor, up to 8. ``kept_events``: how many events of I/O may be kept in memory (72 bytes
    each); buffers with others are decoded again when their time comes. ``progress`` gets bytes done and in all of the
    first reading.
    Raises `UnreadableError`, ``OSError``, and whatever ``progress`` raises.
    """

def read_etl_header(path: str | PathLike[str]) -> dict[str, Any]:
    """Facts of a log's header: buffer_bytes, os_build, processors, mode, circular, compression, losses, clock …

    Raises `UnreadableError` for what is no readable event trace, ``OSError``.
    """

def inspect_etl(path: str | PathLike[str]) -> dict[str, Any]:
    """Count every event of a log on one thread.

    Keys: header, buffers, compressed_buffers, damaged_buffers, truncated, payload_bytes, payload_crc32 (of all payloads
    in file order), events, by_header_type (type byte → events), by_hook (group << 8 | type → events), by_provider
    (manifest providers that are read → events), first_event_ns, last_event_ns, holes ([first missing number, how
    many]), first_buffers (sizes and checksums of up to 8).
    Raises `UnreadableError`, ``OSError``.
    """

class BlockEvents:
    """Linux block-layer events being read; memory grows with what is in flight. Words are positions in word lists.

    Times in tables are nanoseconds since the first event; device numbers are the kernel's (major << 20 | minor).
    """

    def next_io(self, rows: int) -> ArrowBatch | None:
        """About ``rows`` further I/Os in the order they ended; None after the last."""

    def new_devices(self) -> list[tuple[int, int]]:
        """Id and number of each device that the I/O handed out so far is the first to name."""

    def partitions(self) -> list[tuple[int, int, int, int]]:
        """Id, number, disk's id and first byte of each partition that remaps told of, once all I/O is handed out."""

    def new_processes(self) -> ArrowBatch:
        """Threads that the I/O handed out so far is the first to name: process_id, os_process_id, name."""

    def counts(self) -> dict[str, Any]:
        """Counts of what was read, left out and lost; final once all I/O is handed out."""

def read_block_events(paths: list[Path], kind: str) -> BlockEvents:
    """Read files of one ``kind`` (blktrace, blkparse or perf) in one order of time.

    Raises `UnreadableError` for a file that is no such trace, ``OSError``.
    """

class XelTrace:
    """A file of an Extended Events session, walked over once; its rows are taken out batch by batch.

    Words are positions in the format's word lists, times nanoseconds since the file's first event.
    """

    def next(self, events: int) -> list[tuple[str, ArrowBatch]] | None:
        """Rows of the next at most ``events`` events, by table: xevents, io, waits, markers; None after the last."""

    def files(self) -> list[tuple[int | None, int | None, str | None, str | None]]:
        """Files that I/O names, in order of ``file_id``: database_id, file number, path, database name."""

    def facts(self) -> dict[str, Any]:
        """Keys: start_utc_ns, span_utc_ns, clock_base_utc_ns, clock_hz, bytes, packages, kinds (of events)."""

    def counts(self) -> dict[str, Any]:
        """Counts of what was read, left out and lost; final once all rows are handed out."""

def read_xel(path: str | PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> XelTrace:
    """Open a SQL Server Extended Events file.

    ``progress`` gets bytes done and in all. Raises `UnreadableError`, ``OSError``, and whatever ``progress`` raises.
    """
