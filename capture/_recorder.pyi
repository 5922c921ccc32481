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
    def event_names() -> list[str]:
        """Names of the block events that have to be enabled."""

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

    def close(self) -> None:
        """Let go of the buffers, so that the instance can be removed."""
