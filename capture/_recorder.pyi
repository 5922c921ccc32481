"""Reads the kernel's block trace events and pairs them into I/Os (Linux; elsewhere only `is_debug_build`)."""

from collections.abc import Mapping, Sequence
from typing import final

import pyarrow as pa

def is_debug_build() -> bool:
    """Whether this module was built without optimisation."""

@final
class BlockTrace:
    """The open buffers of one tracing instance."""

    def __init__(
        self,
        instance: str,
        *,
        numbers: Mapping[int, int],
        devices: Sequence[tuple[int, int | None]],
        start_ns: int,
        own_process: int,
    ) -> None:
        """Open the buffers of the tracing instance in the folder ``instance``.

        ``numbers`` leads from kernel device numbers (major << 20 | minor) to positions in ``devices``, which holds
        each disk's (device_id, file_id or None). ``start_ns`` is the recording's start on ``CLOCK_MONOTONIC``; the I/O
        of process ``own_process`` is left out. Raises ``OSError`` when a file cannot be read, ``ValueError`` when the
        kernel's record layouts are not as expected.
        """

    @staticmethod
    def clock_ahead_seconds() -> int:
        """How far this process's monotonic clock is ahead of its kernel's; not 0 in some containers only."""

    @staticmethod
    def event_names() -> list[str]:
        """Names of the block events that have to be enabled."""

    @staticmethod
    def thread_event_names() -> list[tuple[str, str]]:
        """(group, name) of the events about threads that have to be enabled, without a filter."""

    def read(self, timeout_ms: int, *, last: bool = False) -> pa.RecordBatch:
        """Wait up to ``timeout_ms`` for events; the I/Os that have ended since, as rows of ``io``.

        ``layer`` and ``op`` are positions in their word lists. ``last``: tracing is off, do not wait, and count what is
        still under way as unpaired.
        """

    def processes(self) -> pa.RecordBatch:
        """Rows of ``processes`` for everyone seen so far."""

    def statistics(self) -> dict[str, int]:
        """Counts so far.

        ``events``, ``events_lost`` (no room in the kernel's buffers, or too close to such a gap), ``damaged_pages``,
        ``unpaired_issues``, ``unpaired_completions``, ``own`` (I/Os of this process, left out), ``would_block`` (I/Os
        turned away and asked for again).
        """

    def ended(self) -> list[dict[str, int]]:
        """What ended so far, by position in ``devices``, iotrace's own included; flushes are no ``requests``.

        ``requests``, ``request_bytes``, ``empty_flushes`` (asked for without data), ``bio_bytes``; and of iotrace's
        own, which became no rows, ``own_request_bytes`` and ``own_bio_bytes``.
        """

    def close(self) -> None:
        """Let go of the buffers, so that the instance can be removed."""

@final
class FileTrace:
    """The open buffers of the filesystem layer's two tracing instances."""

    def __init__(
        self,
        calls: str,
        changes: str,
        *,
        enabled: Sequence[str],
        mounted: Sequence[tuple[str, int, str, int, int, int]],
        first_file_id: int,
        own_process: int,
        scan_seconds: float,
    ) -> None:
        """Look up the files of the ``mounted`` file systems, and limit the instance ``calls`` to who uses them.

        ``calls`` and ``changes`` are folders of instances, ``enabled`` the names of the events enabled there. A mounted
        file system is (mount point, kernel device number, "ext4" or "xfs", device_id of its disk, first byte and end on
        that disk). Files are numbered from ``first_file_id``. The look-up of each file system ends after
        ``scan_seconds``. Raises ``OSError`` when a file cannot be read, ``ValueError`` for unexpected record layouts.
        """

    @staticmethod
    def sources() -> list[tuple[str, str, str, str | None, str | None, str | None]]:
        """Events to enable where the kernel has them.

        (instance, group, name, field that holds the device number, further condition, file system it is of).
        """

    def begin(self, blocks: BlockTrace, start_ns: int) -> None:
        """Rows begin at ``start_ns`` on ``CLOCK_MONOTONIC`` and refer to the processes of ``blocks``."""

    def read(self, *, last: bool = False) -> pa.RecordBatch:
        """The calls that have ended since, as rows of ``io``, without waiting. ``last``: tracing is off."""

    def attribute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch``, as `BlockTrace.read` returned it before the last `read`, with ``file_id`` where it is known."""

    def files(self) -> pa.RecordBatch:
        """Rows of ``files`` for those that saw I/O: ``file_id``, ``path``, ``device_id``, ``size_bytes``."""

    def statistics(self) -> dict[str, int]:
        """Counts so far.

        As `BlockTrace.statistics`, and ``files`` (that saw I/O), ``files_scanned``, ``scan_is_cut``,
        ``newcomers_are_seen``, ``empty`` (calls that moved nothing), and of the block layer's reads and writes ``ios``
        and ``bytes``, and how many of them led to a file: ``attributed_ios``, ``attributed_bytes``.
        """

    def close(self) -> None:
        """Let go of the buffers, so that the instances can be removed."""
