"""Snapshots of SQL Server's own I/O and wait totals as text: means for each file between two snapshots.

The views count reads, bytes and stalls (whole milliseconds) since the instance started; their differences give rates
and mean latencies of the sql layer. A mean hides everything that a quantile shows, and an I/O counts where it ends.
`dmv_columns` tells the columns and holds the queries.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from iotrace.capture.formats.format import HEAD_BYTES, SYSTEM_TICK_NS, Format, Outcome, Progress, naming
from iotrace.capture.formats.text_times import MayBeLocal
from iotrace.capture.roles import TEMPDB_ID, classify
from iotrace.schemas import Clock, IotraceError, Quality, Role, counted
from iotrace.schemas.host import Host

from .dmv_columns import CAPTURE_COLUMN, FILE_BYTES, FILE_STATS_COLUMNS, WAIT_STATS_COLUMNS
from .dmv_intervals import Break, Reset, Snapshots, connected, in_order
from .dmv_lines import Layout, Lines, layout_of, missing_of

_RESOLUTION_NS: Final = 1e6
_LOG_TYPE: Final = "LOG"
_NAMED_RESETS: Final = 1000
_LITE_PARQUET: Final = re.compile(r"(?:file_io|wait)_stats.*\.parquet\Z", re.IGNORECASE)


def recognises(head: bytes, path: Path) -> bool:
    """Whether ``head`` has the header of a snapshot file, or lines in the order of its columns."""
    if head.startswith(b"PAR1") and not path.is_file():
        # In an archive its columns cannot be seen before it is unpacked: PerformanceMonitor Lite's names tell.
        return _LITE_PARQUET.search(path.name) is not None
    return layout_of(head, path) is not None


def read(path: Path, name: str, progress: Progress) -> "DmvTrace":
    """Open the snapshots at ``path``: looks for the first whole line, by which the clock starts."""
    layout = _layout(path, name)
    return DmvTrace(path, name, progress, layout)


def almost(head: bytes) -> tuple[str, str] | None:
    """What a file that begins with ``head`` is and what it lacks, if it is nearly one that `read` takes."""
    found = missing_of(head)
    if found is None:
        return None
    kind, missing, near = found
    view = "sys.dm_io_virtual_file_stats" if kind == "file_stats" else "sys.dm_os_wait_stats"
    lacks = ", ".join("the time of each snapshot" if name == CAPTURE_COLUMN else name for name in missing)
    first = f"is '{next(iter(near))}' {near[next(iter(near))]}? Rename it in the header" if near else ""
    hint = first or f"run the query of docs/formats.md, or add {missing[0]} to your own"
    if "waittypeid" in near:
        hint = "its wait types are numbers: join DBA Dash's dbo.WaitType to it and export the column WaitType too"
    if CAPTURE_COLUMN in missing:
        hint = "add SYSUTCDATETIME() AS capture_utc to the query, and take at least two snapshots"
        if time := next((name for name, column in near.items() if column == CAPTURE_COLUMN), None):
            hint = f"is it '{time}'? Call it capture_time in the header; else {hint}"
    return f"a table of {view} without {lacks}", hint


def inspect(path: Path, name: str) -> dict[str, Any]:
    """What the snapshots are of, how many there are and from when to when, and what is left out."""
    return inspected(path, name, _layout(path, name))


def inspected(path: Path, name: str, layout: Layout) -> dict[str, Any]:
    """The same of one table of a file."""
    with connected() as connection:
        snapshots = Snapshots(connection, layout)
        lines, times = _lines(path, name, layout, None)
        for _ in _differences(connection, snapshots, lines, times, path, lambda _what, _done, _total: None):
            pass
        facts, resets = snapshots.facts(), snapshots.resets()
    return {
        "format": "dmv",
        "view": f"sys.dm_{'io_virtual_file_stats' if layout.kind == 'file_stats' else 'os_wait_stats'}",
        "whole": not (lines.is_cut or lines.left_out or snapshots.lines_left_out),
        **facts,
        "columns_absent": _absent(layout),
        "times": "local" if lines.times.local else "UTC",
        "lines_left_out": lines.left_out + snapshots.lines_left_out,
        "cut": lines.is_cut,
        "resets": len(resets),
    }


FORMAT: Final = Format("dmv", recognises, read, inspect, has_ios=False, knows_files=True, almost=almost)


class DmvTrace(MayBeLocal):
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress, layout: Layout) -> None:
        self._path, self._name, self._progress, self._layout = path, name, progress, layout
        self._facts: dict[str, Any] = {}
        self._resets: list[Reset] = []
        self._left_out: list[str] = []
        self._lines_lost, self._has_twice = 0, False
        self._lines_left_out, self._sums_left_out, self._is_cut = 0, 0, False
        self.clock = self._first_clock()
        self.host = Host(database="SQL Server")

    def _first_clock(self) -> Clock:
        start_utc_ns, self._is_local = _first_moment(self._path, self._name, self._layout, self._zone)
        uncertainty_ns = SYSTEM_TICK_NS + int(_RESOLUTION_NS)
        return Clock(start_utc_ns, _RESOLUTION_NS, self._layout.time_name, uncertainty_ns)

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Counters in order of time, files, and a marker for each moment at which totals began again."""
        start_utc_ns = self.clock.start_utc_ns
        with connected() as connection:
            snapshots = Snapshots(connection, self._layout)
            lines, times = _lines(self._path, self._name, self._layout, self._zone)
            for _ in _differences(connection, snapshots, lines, times, self._path, self._progress):
                # A name of a file may be no text; what stands in a table is.
                source = Path(self._name).name.encode("utf-8", "replace").decode()
                for batch in snapshots.counters(start_utc_ns, source):
                    yield "counters", batch
            self._lines_left_out = lines.left_out + snapshots.lines_left_out
            self._has_twice = lines.has_twice
            self._lines_lost = lines.left_out + snapshots.unread.lost()
            self._left_out = list(snapshots.unread.sentences())
            if lines.left_out:
                self._left_out.append(
                    f"{counted(lines.left_out, 'line')} with more or fewer cells than columns"
                )
            self._sums_left_out, self._is_cut = snapshots.sums_left_out, lines.is_cut
            self._facts, self._resets = snapshots.facts(), snapshots.resets()
            if files := snapshots.files():
                yield "files", _files(files)
        if self._resets:
            yield "markers", _markers(self._resets[:_NAMED_RESETS], start_utc_ns)

    def outcome(self) -> Outcome:
        """The window runs from the first snapshot to the last."""
        facts, start_utc_ns = self._facts, self.clock.start_utc_ns
        quality = Quality(
            events_lost=self._lines_lost,
            clock_steps=facts["clock_steps"],
            truncated_tail=self._is_cut,
            left_out=self._left_out,
            notes=list(self._notes()),
        )
        quality.notes += self._zone_notes()
        return Outcome(
            facts["first_utc_ns"] - start_utc_ns, facts["last_utc_ns"] - start_utc_ns, quality, facts["lines"]
        )

    def _notes(self) -> Iterator[str]:
        facts, layout = self._facts, self._layout
        if layout.kind == "file_stats":
            yield "latencies are means between snapshots, from stalls in whole ms: no quantile follows from them"
        else:
            yield "waits are totals between snapshots; a wait type's first appearance has no interval"
        if layout.kind == "file_stats" and not {*FILE_BYTES} <= {*layout.columns}:
            yield "the file counts no bytes: rates and latencies are known, sizes and throughput are not"
        if layout.differences and layout.other is not None:
            yield f"its counts are differences already, as in {layout.other.whose}: they are taken as they are"
        if self._sums_left_out:
            yield f"{counted(self._sums_left_out, 'line')} left out: sums over files that have lines of their own"
        if facts["snapshots"] < 2 and not layout.differences:
            yield "there is one snapshot only: differences need two"
        yield from self._notes_of_change()
        if facts["repeated"]:
            yield f"{counted(facts['repeated'], 'line')} with the moment of another: nothing is added"
        if len(facts["servers"]) > 1:
            yield f"the file mixes {len(facts['servers'])} servers: {', '.join(facts['servers'])}"
        if self._lines_left_out:
            yield f"{counted(self._lines_left_out, 'line')} left out: {'; '.join(self._left_out)}"
        if self._is_cut:
            yield "the last line is cut off and is left out"

    def _notes_of_change(self) -> Iterator[str]:
        """Where totals began again or the clock was set, and what cannot be known of it."""
        if self._has_twice:
            yield "clocks went back an hour as daylight saving ended: the order of the lines tells which time is meant"
        if self._resets:
            causes = Counter(reset.cause for reset in self._resets)
            words = [
                f", {counted(causes[cause], 'time')} {words}"
                for cause, words in (
                    (Break.RESTART, "by a restart of SQL Server"),
                    (Break.OTHER_FILE, "because other files have the same numbers from there on"),
                )
                if causes[cause]
            ]
            snapshots = f"{len(self._resets):,} of the snapshots"
            yield f"totals began again before {snapshots}{''.join(words)}; these intervals are left out"
        if "sqlserver_start_time" not in self._layout.columns and not self._layout.differences:
            yield "sqlserver_start_time is not in the file: a restart shows only where totals fell"
        if self._facts["clock_steps"]:
            yield (
                "where the clock stepped, rates are over the computer's uptime instead"
                if "sample_ms" in self._layout.columns
                else "the clock was set back, as the order of the lines shows: the interval across it has no length, "
                "and is left out"
            )


def _layout(path: Path, name: str) -> Layout:
    with naming(name), path.open("rb") as file:
        layout = layout_of(file.read(HEAD_BYTES), path)
    if layout is None:
        raise IotraceError(
            f"'{name}' has no header of DMV snapshots",
            hint=f"its columns are {', '.join(FILE_STATS_COLUMNS[:5])}, … or {', '.join(WAIT_STATS_COLUMNS[:5])}, …",
        )
    return layout


def _first_moment(path: Path, name: str, layout: Layout, zone: str | None) -> tuple[int, bool]:
    """The time of the first whole line, and whether it was a local one."""
    with connected() as connection, naming(name):
        snapshots = Snapshots(connection, layout)
        lines = Lines(path, name, layout, zone=zone)
        for cells, _ in lines.blocks():
            snapshots.add(cells)
            ((first_utc_ns,),) = connection.execute("SELECT min(at_utc_ns) FROM seen").fetchall()
            if first_utc_ns is not None:
                return int(first_utc_ns), lines.times.local
        if snapshots.sums_left_out:
            raise IotraceError(
                f"'{name}' holds sums over files only",
                hint="export the rows of files too: those with a FileID above 0",
            )
    raise IotraceError(
        f"'{name}' holds no snapshot",
        hint=f"{layout.time_name} must look like 2026-03-01 12:00:05.123 and the totals be whole numbers (a sheet that"
        " shows 1.2E+12 has rounded them: widen its columns)",
    )


def _lines(path: Path, name: str, layout: Layout, zone: str | None) -> tuple[Lines, Lines]:
    """All columns, and the times alone."""
    return Lines(path, name, layout, zone=zone), Lines(path, name, layout, (CAPTURE_COLUMN,), zone)


def _differences(
    connection: duckdb.DuckDBPyConnection,
    snapshots: Snapshots,
    lines: Lines,
    times: Lines,
    path: Path,
    progress: Progress,
) -> Iterator[None]:
    """Fill ``snapshots`` from ``lines``, pausing wherever some of them are differenced."""
    with naming(lines.name):
        total = path.stat().st_size
        is_ordered = in_order(
            connection, _counted(times.blocks(), f"looking through {lines.name}", total, progress)
        )
        snapshots.goes_back = not is_ordered
        for cells in _counted(lines.blocks(), f"reading {lines.name}", total, progress):
            snapshots.add(cells)
            if is_ordered:
                snapshots.difference(to_the_end=False)
                yield
        snapshots.difference()
        yield


def _counted(
    blocks: Iterator[tuple[pa.RecordBatch, int]], what: str, total: int, progress: Progress
) -> Iterator[pa.RecordBatch]:
    for cells, done in blocks:
        yield cells
        progress(what, done, total)


def _absent(layout: Layout) -> list[str]:
    known = FILE_STATS_COLUMNS if layout.kind == "file_stats" else WAIT_STATS_COLUMNS
    return [column for column in known if column not in layout.columns]


def _files(files: list[dict[str, Any]]) -> pa.RecordBatch:
    rows = [_file(file) for file in files]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(len(rows)), pa.int32()),
            pa.array([path for path, _, _ in rows], pa.string()),
            pa.array([str(role) for _, role, _ in rows], pa.string()),
            pa.array([database for _, _, database in rows], pa.string()),
            pa.array([file["size_on_disk_bytes"] for file in files], pa.uint64()),
        ],
        names=["file_id", "path", "role", "database", "size_bytes"],
    )


def _file(file: dict[str, Any]) -> tuple[str, Role, str | None]:
    """Path, role and database: by sys.master_files, and by the path where that is silent."""
    path, kind = file["physical_name"], file["type_desc"]
    guessed_role, guessed_database = classify(path) if path else (Role.OTHER, None)
    is_log = kind == _LOG_TYPE if kind else guessed_role in {Role.LOG, Role.TEMPDB_LOG}
    role = guessed_role
    if file["database_id"] == TEMPDB_ID:
        role = Role.TEMPDB_LOG if is_log else Role.TEMPDB_DATA
    elif kind:
        # FILESTREAM containers and full-text catalogues hold data too.
        role = Role.LOG if is_log else Role.DATA
    name = path or f"database {file['database_id']} file {file['file_id']}"
    known = "tempdb" if file["database_id"] == TEMPDB_ID else None
    return name, role, file["database_name"] or known or guessed_database


def _markers(resets: list[Reset], start_utc_ns: int) -> pa.RecordBatch:
    texts = [
        f"{reset.cause} before this snapshot ({reset.keys:,} files or wait types)"
        if reset.cause != Break.OTHER_FILE
        else f"{reset.cause} from this snapshot on ({reset.keys:,} of them)"
        for reset in resets
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([reset.at_utc_ns - start_utc_ns for reset in resets], pa.int64()),
            pa.array(["note"] * len(resets), pa.string()),
            pa.array(texts, pa.string()),
        ],
        names=["at_ns", "kind", "text"],
    )
