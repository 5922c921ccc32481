"""A DuckDB database with snapshots of SQL Server's I/O and wait totals, as PerformanceMonitor Lite keeps them.

Each table of files or of waits is read as `dmv` reads a file of them; of two tables of one kind the first counts.
Source: the schema of erikdarlingdata/PerformanceMonitor, whose tables are ``file_io_stats`` and ``wait_stats``.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.capture.formats.duckdb_files import is_database
from iotrace.capture.formats.format import Format, Outcome, Progress
from iotrace.schemas import IotraceError, Quality

from . import dmv
from .dmv_lines import Layout, layouts_in_database


def recognises(head: bytes, path: Path) -> bool:
    """Whether it is a database with such tables; of a damaged one, and of one in a zip, `read` tells."""
    if not is_database(head):
        return False
    try:
        return not path.is_file() or bool(layouts_in_database(path, path.name))
    except IotraceError:
        return True


def read(path: Path, name: str, progress: Progress) -> "DmvDatabaseTrace":
    """Open the database at ``path``."""
    return DmvDatabaseTrace(path, name, progress)


def inspect(path: Path, name: str) -> dict[str, Any]:
    """What `dmv.inspect` tells of each table that is read."""
    kept, _ = _tables(path, name)
    return {"format": "dmv-duckdb", "tables": {one.table: dmv.inspected(path, name, one) for one in kept}}


FORMAT: Final = Format("dmv-duckdb", recognises, read, inspect, has_ios=False, knows_files=True)


class DmvDatabaseTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress) -> None:
        kept, self._others = _tables(path, name)
        self._parts = [dmv.DmvTrace(path, name, progress, layout) for layout in kept]
        self._share_clock()
        self.host = self._parts[0].host

    def settle_zone(self, timezone: str | None) -> None:
        """See `iotrace.capture.formats.format.LocalTimes`."""
        for part in self._parts:
            part.settle_zone(timezone)
        self._share_clock()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Counters and files of one table after the other."""
        for part in self._parts:
            yield from part.batches()

    def outcome(self) -> Outcome:
        """The window runs from the first snapshot of any table to the last."""
        outcomes = [part.outcome() for part in self._parts]
        notes = list(dict.fromkeys(note for one in outcomes for note in one.quality.notes))
        if self._others:
            notes.append(
                f"left out, tables of a kind that another table has: {', '.join(self._others)[:300]}"
            )
        return Outcome(
            min(one.window_start_ns for one in outcomes),
            max(one.window_end_ns for one in outcomes),
            Quality(
                events_lost=sum(one.quality.events_lost for one in outcomes),
                clock_steps=sum(one.quality.clock_steps for one in outcomes),
                left_out=[words for one in outcomes for words in one.quality.left_out],
                notes=notes,
            ),
            sum(one.events for one in outcomes),
        )

    def _share_clock(self) -> None:
        first = min((part.clock for part in self._parts), key=lambda clock: clock.start_utc_ns)
        for part in self._parts:
            part.clock = replace(part.clock, start_utc_ns=first.start_utc_ns)
        self.clock = first


def _tables(path: Path, name: str) -> tuple[list[Layout], list[str]]:
    """The tables to read, one of a kind, and names of others. An empty one is none."""
    kept: dict[str, Layout] = {}
    others: list[str] = []
    for layout in layouts_in_database(path, name):
        if layout.kind in kept:
            others.append(layout.table)
        else:
            kept[layout.kind] = layout
    if not kept:
        raise IotraceError(
            f"'{name}' is a DuckDB database without snapshots of files or waits",
            hint="it takes tables such as PerformanceMonitor Lite's file_io_stats and wait_stats; docs/formats.md has"
            " their columns",
        )
    return list(kept.values()), others
