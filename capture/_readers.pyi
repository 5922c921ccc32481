"""Native readers of trace files. Messages name no path: the caller knows the user's word."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Protocol

class ArrowBatch(Protocol):
    """A record batch behind the Arrow C data interface: ``pyarrow.record_batch`` takes it without a copy."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Schema and array capsules."""

class UnreadableError(Exception):
    """A file that cannot be read. ``args`` are what is wrong (the rest of "'FILE' …") and a hint."""

class EtlTrace:
    """A log read into memory (80 to 110 bytes for each disk I/O); its tables are taken out batch by batch.

    Words are positions in the format's word lists, times nanoseconds since the log's start, ids dense from 0.
    """

    def next_io(self, rows: int) -> ArrowBatch | None:
        """The next at most ``rows`` I/Os in order of issue; None after the last."""

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
    path: str | PathLike[str], *, threads: int = 0, progress: Callable[[int, int], None] | None = None
) -> EtlTrace:
    """Read a Windows event trace log.

    ``threads`` 0: one per processor, up to 8. ``progress`` gets bytes done and in all.
    Raises `UnreadableError`, ``OSError``, and whatever ``progress`` raises.
    """

def read_etl_header(path: str | PathLike[str]) -> dict[str, Any]:
    """Facts of a log's header: buffer_bytes, os_build, processors, mode, circular, compression, losses, clock …

    Raises `UnreadableError` for what is no readable event trace, ``OSError``.
    """

def inspect_etl(path: str | PathLike[str]) -> dict[str, Any]:
    """Count every event of a log on one thread.

    Keys: header, buffers, compressed_buffers, damaged_buffers, truncated, payload_bytes, payload_crc32 (of all payloads
    in file order), events, by_header_type (type byte → events), by_hook (group << 8 | type → events), first_event_ns,
    last_event_ns, holes ([first missing number, how many]), first_buffers (sizes and checksums of up to 8).
    Raises `UnreadableError`, ``OSError``.
    """
