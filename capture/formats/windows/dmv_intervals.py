# ruff: noqa: S608 - the names in the queries are constants of this project, never words of a file
"""Snapshots of running totals as what happened between them, in DuckDB: block by block where the file is in order.

Where it is not, all of it is differenced at once, and DuckDB spills to disk what memory cannot hold.

A difference is only taken between neighbouring snapshots of one file or wait type. It is left out where the totals
began again: where any of them fell, the instance's start time changed, or the computer's uptime fell. Nor is one taken
where the name or path of a file changed under the same numbers: its totals are those of another file. Tables of tools
that keep differences themselves (with the length of each interval) are taken as they are.
"""

import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from iotrace.schemas import IotraceError

from .dmv_columns import (
    CAPTURE_COLUMN,
    ELAPSED_COLUMN,
    FILE_BYTES,
    FILE_COUNTS,
    FILE_STATS_REQUIRED,
    START_COLUMN,
    WAIT_COUNTS,
    WAIT_STATS_REQUIRED,
)
from .dmv_lines import Layout
from .dmv_order import number_eras, take_out_passing
from .dmv_unread import CAME_BACK, Unread

_MEMORY: Final = "256 MiB"
_NUMBER_MAX: Final = 1 << 62
_BATCH_ROWS: Final = 1 << 17

_FILE_NUMBERS: Final = (
    "database_id",
    "file_id",
    "sample_ms",
    *FILE_COUNTS,
    "io_stall_queued_read_ms",
    "io_stall_queued_write_ms",
    "size_on_disk_bytes",
    ELAPSED_COLUMN,
)
_FILE_TEXTS: Final = ("server_name", START_COLUMN, "type_desc", "database_name", "physical_name")
_WAIT_NUMBERS: Final = (*WAIT_COUNTS, ELAPSED_COLUMN)
_WAIT_TEXTS: Final = ("server_name", START_COLUMN, "wait_type")

_NAMES: Final = ("physical_name", "database_name")
_TOLD_OF_FILES: Final = ("type_desc", "database_name", "physical_name", "size_on_disk_bytes")
_KNOWN_OF_FILES: Final = {
    "server_name": "VARCHAR",
    "database_id": "BIGINT",
    "file_id": "BIGINT",
    "type_desc": "VARCHAR",
    "database_name": "VARCHAR",
    "physical_name": "VARCHAR",
    "size_on_disk_bytes": "BIGINT",
}

_FILE_COUNTERS: Final = """
  {counter: 'reads per second', value: reads / seconds, unit: '1/s', metric: 'read_iops'},
  {counter: 'read bytes per second', value: read_bytes / seconds, unit: 'bytes/s', metric: 'read_bytes_per_second'},
  {counter: 'mean read latency', value: read_stall_ms * 1e6 / nullif(reads, 0), unit: 'ns', metric: 'read_latency_ns'},
  {counter: 'mean read delay by resource governor', value: read_queued_ms * 1e6 / nullif(reads, 0), unit: 'ns',
   metric: NULL},
  {counter: 'writes per second', value: writes / seconds, unit: '1/s', metric: 'write_iops'},
  {counter: 'write bytes per second', value: write_bytes / seconds, unit: 'bytes/s', metric: 'write_bytes_per_second'},
  {counter: 'mean write latency', value: write_stall_ms * 1e6 / nullif(writes, 0), unit: 'ns',
   metric: 'write_latency_ns'},
  {counter: 'mean write delay by resource governor', value: write_queued_ms * 1e6 / nullif(writes, 0), unit: 'ns',
   metric: NULL}
"""
_WAIT_COUNTERS: Final = """
  {counter: 'waits per second', value: waits / seconds, unit: '1/s', metric: NULL},
  {counter: 'waiting tasks', value: wait_ms / 1e3 / seconds, unit: 'tasks', metric: NULL},
  {counter: 'mean wait', value: wait_ms * 1e6 / nullif(waits, 0), unit: 'ns', metric: NULL},
  {counter: 'mean wait for a processor', value: signal_ms * 1e6 / nullif(waits, 0), unit: 'ns', metric: NULL}
"""


_TIME: Final = f"regexp_replace(trim({CAPTURE_COLUMN}, ' \"'), '(Z| ?\\+00:00)$', '')"
_AT_UTC_NS: Final = f"epoch_ns(TRY_CAST({_TIME} AS TIMESTAMP_NS))"


_HOUR_NS: Final = 3_600_000_000_000
_FILE_CHANGES: Final = {
    "reads": "num_of_reads",
    "read_bytes": "num_of_bytes_read",
    "read_stall_ms": "io_stall_read_ms",
    "read_queued_ms": "io_stall_queued_read_ms",
    "writes": "num_of_writes",
    "write_bytes": "num_of_bytes_written",
    "write_stall_ms": "io_stall_write_ms",
    "write_queued_ms": "io_stall_queued_write_ms",
    "uptime_ms": "sample_ms",
}
_WAIT_CHANGES: Final = {
    "waits": "waiting_tasks_count",
    "wait_ms": "wait_time_ms",
    "signal_ms": "signal_wait_time_ms",
    "uptime_ms": "CAST(NULL AS BIGINT)",
}
"""What happened between two snapshots, and the total whose difference it is."""


class Break(StrEnum):
    """Why totals of a snapshot cannot be subtracted from those before."""

    RESTART = "SQL Server restarted"
    FELL = "totals began again"
    OTHER_FILE = "other files have the same numbers"


class Reset(NamedTuple):
    """A snapshot before which totals began again, and of how many files or wait types."""

    at_utc_ns: int
    cause: Break
    keys: int


class Snapshots:
    """The lines of one file, as they come: `add` some, `difference` them, ask for their `counters`, add more.

    Of what is differenced only the last snapshot of each file or wait type is kept, so lines have to come in order of
    time from one call of `difference` to the next; between two calls in any order.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, layout: Layout) -> None:
        kind = layout.kind
        self._connection, self._columns, self._scales = connection, layout.told, layout.scales
        self._differences, other = layout.differences, layout.other
        self._has_sums = self._differences and other is not None and other.has_sums
        self._hour_starts: bool | None = None if self._has_sums else False
        self._is_files = kind == "file_stats"
        self._key = "server_name, database_id, file_id" if self._is_files else "server_name, wait_type"
        self.lines_left_out = self.sums_left_out = 0
        self.goes_back = False
        """Whether times go back from one line to a later one: then all lines are to be differenced at once."""
        self._lines_seen = 0
        numbers, texts = (_FILE_NUMBERS, _FILE_TEXTS) if self._is_files else (_WAIT_NUMBERS, _WAIT_TEXTS)
        definitions = [f"{name} BIGINT" for name in numbers] + [f"{name} VARCHAR" for name in texts]
        columns_of_seen = f"line BIGINT, era BIGINT, at_utc_ns BIGINT, {', '.join(definitions)}"
        # `seen` is not differenced yet; `last` is the end of what was.
        connection.execute(f"CREATE TABLE seen ({columns_of_seen}); CREATE TABLE last ({columns_of_seen})")
        if self._is_files:
            known = ", ".join(f"{name} {kind}" for name, kind in _KNOWN_OF_FILES.items())
            connection.execute(f"CREATE TABLE known ({known}, at_utc_ns BIGINT)")
        self._totals = FILE_COUNTS if self._is_files else WAIT_COUNTS
        key_types = "database_id BIGINT, file_id BIGINT" if self._is_files else "wait_type VARCHAR"
        shown = dict(zip(layout.columns, layout.names, strict=False))
        self.unread = Unread(connection, self._key, f"server_name VARCHAR, {key_types}", shown)
        self._resets: list[Reset] = []
        self._servers: set[str] = set()
        self._counts = dict.fromkeys(("lines", "snapshots", "clock_steps", "changes"), 0)
        self._first_utc_ns = self._last_utc_ns = 0
        select = [self._number(name) for name in numbers] + [self._text(name) for name in texts]
        # Bytes may be missing as columns, but not in a line: then its cell is no whole number.
        counted = FILE_STATS_REQUIRED | ({*FILE_BYTES} & {*self._columns})
        needed = counted if self._is_files else WAIT_STATS_REQUIRED
        present = " AND ".join(
            f"{'at_utc_ns' if name == CAPTURE_COLUMN else name} IS NOT NULL" for name in sorted(needed)
        )
        is_good = f"{present} AND at_utc_ns > 0"
        parsed = f"{_AT_UTC_NS} AS at_utc_ns, {', '.join(select)}"
        self._insert = (
            f"INSERT INTO seen SELECT * FROM (SELECT line, 0 AS era, {parsed} FROM piece) WHERE {is_good}"
        )
        self._parsed, self._is_good = parsed, is_good
        self._needed = sorted(needed - {CAPTURE_COLUMN})
        # Repeated headers and the dashes under them are no loss.
        self._is_line = (
            f"NOT regexp_matches({CAPTURE_COLUMN}, '^[ \"-]*$') "
            f"AND lower(trim({CAPTURE_COLUMN}, ' \"')) <> '{CAPTURE_COLUMN}'"
        )

    def add(self, cells: pa.RecordBatch) -> None:
        """Take a block of cells, all text. Lines whose time or totals are no numbers are left out and counted."""
        connection = self._connection
        numbers = np.arange(self._lines_seen, self._lines_seen + len(cells))
        self._lines_seen += len(cells)
        piece = pa.Table.from_batches([cells]).append_column("line", pa.array(numbers, pa.int64()))
        connection.register("piece", piece)
        is_line, sums = self._is_line, 0
        if self._has_sums and "file_id" in self._columns:
            is_sum = "trim(file_id, ' \"') = '-1'"
            sums = self._one(f"SELECT count(*) FROM piece WHERE {is_sum}")
            is_line = f"{is_line} AND NOT {is_sum}"
        lines = self._one(f"SELECT count(*) FROM piece WHERE {is_line}")
        if left_out := lines - self._one(self._insert):
            self.lines_left_out += left_out
            self.unread.add(self._parsed, self._needed, self._instance, f"NOT ({self._is_good})", is_line)
        self.sums_left_out += sums
        if self._hour_starts is None:
            found = connection.execute(f"SELECT bool_and(at_utc_ns % {_HOUR_NS} = 0) FROM seen").fetchall()
            self._hour_starts = found[0][0]
        connection.unregister("piece")

    def difference(self, *, to_the_end: bool = True) -> None:
        """Work out the changes between neighbouring snapshots. Of the last one, more lines may come: it waits.

        ``to_the_end``: no more lines come.
        """
        if self.goes_back and to_the_end and not self._differences:
            number_eras(self._connection, self._key, self._totals)
        # The one before the last one waits too: the snapshot after it may show that it is of something else.
        last_two = "SELECT DISTINCT at_utc_ns FROM seen ORDER BY at_utc_ns DESC LIMIT 2"
        horizon = "true" if to_the_end else f"at_utc_ns < (SELECT min(at_utc_ns) FROM ({last_two}))"
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE settled AS SELECT * FROM seen WHERE {horizon};
            DELETE FROM seen WHERE {horizon};
        """)
        if not self._differences:
            self._complete()
        instance = self._instance
        changes = _FILE_CHANGES if self._is_files else _WAIT_CHANGES
        if self._differences:
            told = ", ".join(f"{column} AS {name}" for name, column in changes.items() if name != "uptime_ms")
            late_ns = _HOUR_NS if self._hour_starts else 0
            self._connection.execute(f"""
                CREATE OR REPLACE TABLE change AS
                SELECT at_utc_ns + {late_ns} AS at_utc_ns, server_name, {instance} AS instance, {told},
                  {ELAPSED_COLUMN} * 1000000 AS interval_ns, false AS is_restart, false AS is_reset,
                  false AS is_clock_step, false AS is_other_file, {ELAPSED_COLUMN} / 1e3 AS seconds
                FROM settled WHERE {ELAPSED_COLUMN} > 0
            """)
        else:
            self._change(instance, changes)
        self._remember()

    @property
    def _instance(self) -> str:
        if not self._is_files:
            return "wait_type"
        return "coalesce(physical_name, format('database {} file {}', database_id, file_id))"

    def _complete(self) -> None:
        """Give lines of ``settled`` the names that lines above them have, and take out those of something else."""
        named = [name for name in _NAMES if name in self._columns]
        run = self._connection.execute
        if self._is_files and named:
            empty = " OR ".join(f"{name} IS NULL" for name in named)
            if self._one(f"SELECT count(*) FROM settled WHERE {empty}"):
                # A database that is being restored has no name for a while; its file is the same as before.
                filled = ", ".join(f"last_value({name} IGNORE NULLS) OVER above AS {name}" for name in named)
                run(f"""
                    CREATE OR REPLACE TABLE settled AS SELECT * EXCLUDE (is_new) FROM (
                      SELECT * REPLACE ({filled}) FROM (
                        SELECT *, true AS is_new FROM settled UNION ALL BY NAME SELECT *, false AS is_new FROM last
                      ) WINDOW above AS (PARTITION BY {self._key} ORDER BY era, at_utc_ns, line
                        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
                    ) WHERE is_new
                """)
        take_out_passing(self._connection, self._key, self._totals)
        if passing := self._one("SELECT count(*) FROM passing"):
            self.lines_left_out += passing
            run(
                f"INSERT INTO unread SELECT line, {self._key}, {self._instance}, '{CAME_BACK}', '' FROM passing"
            )

    def _change(self, instance: str, changes: dict[str, str]) -> None:
        """Fill the table ``change`` with differences of totals."""

        def differences(*pairs: tuple[str, str]) -> str:
            return ", ".join(f"{column} - lag({column}) OVER one AS {name}" for name, column in pairs)

        totals = [name for name in changes if "queued" not in name and name != "uptime_ms"]
        fell = " OR ".join(f"coalesce({name} < 0, false)" for name in totals)
        other = " OR ".join(
            f"coalesce(lower({name}) <> lower(lag({name}) OVER one), false)" for name in _NAMES
        )
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE change AS
            WITH lines AS (
              SELECT *, true AS is_new FROM settled UNION ALL BY NAME SELECT *, false AS is_new FROM last
            ), pairs AS (
              SELECT at_utc_ns, server_name, {instance} AS instance,
                {differences(*changes.items(), ("interval_ns", "at_utc_ns"))},
                {START_COLUMN} <> lag({START_COLUMN}) OVER one AS is_restart,
                {f"{other} AS is_renamed, database_id" if self._is_files else "false AS is_renamed, 0 AS database_id"},
                coalesce(era > lag(era) OVER one, false) AS is_set_back, is_new
              FROM lines
              WINDOW one AS (PARTITION BY {self._key} ORDER BY era, at_utc_ns)
            ), named AS (
              -- Files of several databases that change at once: another instance answered, and all totals are its own.
              SELECT *, is_renamed OR coalesce(
                  min(database_id) FILTER (is_renamed) OVER snapshot
                    < max(database_id) FILTER (is_renamed) OVER snapshot, false) AS is_other_file
              FROM pairs WINDOW snapshot AS (PARTITION BY server_name, at_utc_ns)
            ), judged AS (
              SELECT *, coalesce(is_restart, false) OR is_other_file OR {fell}
                  OR coalesce(uptime_ms < 0, false) AS is_reset,
                is_set_back
                  OR coalesce(uptime_ms > 0 AND abs(uptime_ms * 1e6 - interval_ns) > 1e9 + interval_ns / 100, false)
                  AS is_clock_step
              FROM named
              WHERE is_new AND (interval_ns > 0 OR is_set_back)
            )
            SELECT *, CASE WHEN is_clock_step THEN uptime_ms / 1e3 ELSE interval_ns / 1e9 END AS seconds
            FROM judged
        """)

    def _remember(self) -> None:
        """Keep of what is differenced what later lines and questions need."""
        run = self._connection.execute
        ((lines, snapshots, first, last, servers),) = run(
            "SELECT count(*), count(DISTINCT at_utc_ns), min(at_utc_ns), max(at_utc_ns), "
            "list(DISTINCT server_name) FILTER (server_name IS NOT NULL) FROM settled"
        ).fetchall()
        if not lines:
            return
        if self._differences:
            ((first, last),) = run(
                "SELECT coalesce(min(at_utc_ns - interval_ns), $first), coalesce(max(at_utc_ns), $last) FROM change",
                {"first": first, "last": last},
            ).fetchall()
            first = min(first, self._first_utc_ns or first)
            self._first_utc_ns = 0
        self._first_utc_ns, self._last_utc_ns = self._first_utc_ns or first, last
        self._servers.update(servers or [])
        ((changes, steps),) = run(
            "SELECT count(*), count(DISTINCT at_utc_ns) FILTER (is_clock_step AND NOT is_reset) FROM change"
        ).fetchall()
        for name, count in zip(self._counts, (lines, snapshots, steps, changes), strict=True):
            self._counts[name] += count
        self._resets += [
            Reset(at_utc_ns, cause, count)
            for at_utc_ns, is_restart, is_other, count in run(
                "SELECT at_utc_ns, bool_or(coalesce(is_restart, false)), bool_and(is_other_file), count(*) FROM change "
                "WHERE is_reset GROUP BY at_utc_ns ORDER BY at_utc_ns"
            ).fetchall()
            for cause in [Break.RESTART if is_restart else Break.OTHER_FILE if is_other else Break.FELL]
        ]
        self.unread.good("settled")
        if self._is_files:
            latest = ", ".join(f"arg_max({name}, at_utc_ns) AS {name}" for name in _TOLD_OF_FILES)
            names = ", ".join((*_KNOWN_OF_FILES, "at_utc_ns"))
            run(
                f"CREATE OR REPLACE TABLE known AS SELECT {self._key}, {latest}, max(at_utc_ns) AS at_utc_ns "
                f"FROM (SELECT {names} FROM known UNION ALL SELECT {names} FROM settled) "
                f"GROUP BY {self._key}, lower(physical_name)"
            )
        run(
            "CREATE OR REPLACE TABLE last AS "
            "SELECT * FROM (SELECT * FROM last UNION ALL BY NAME SELECT * FROM settled) "
            f"QUALIFY row_number() OVER (PARTITION BY {self._key} ORDER BY era DESC, at_utc_ns DESC) = 1; "
            "DROP TABLE settled"
        )

    def counters(self, start_utc_ns: int, source: str) -> Iterator[pa.RecordBatch]:
        """Rows of ``counters`` in order of time; a mean without anything to take it over has no row."""
        idle = "" if self._is_files else "AND (waits > 0 OR wait_ms > 0)"
        reader = self._connection.sql(
            f"""
            SELECT at_utc_ns - $start AS at_ns, CAST(round(seconds * 1e9) AS BIGINT) AS interval_ns,
              coalesce(server_name, $source) AS source, $object AS object, instance,
              entry.counter AS counter, entry.value AS value, entry.unit AS unit,
              CAST($layer AS VARCHAR) AS layer, CAST(entry.metric AS VARCHAR) AS metric
            FROM (
              SELECT at_utc_ns, server_name, instance, seconds,
                unnest([{_FILE_COUNTERS if self._is_files else _WAIT_COUNTERS}]) AS entry
              FROM (
                SELECT * FROM change WHERE NOT is_reset AND seconds > 0 {idle}
                ORDER BY at_utc_ns, server_name, instance
              )
            )
            WHERE entry.value IS NOT NULL
            """,
            params={
                "start": start_utc_ns,
                "source": source,
                "object": f"sys.dm_{'io_virtual_file_stats' if self._is_files else 'os_wait_stats'}",
                "layer": "sql" if self._is_files else None,
            },
        ).to_arrow_reader(_BATCH_ROWS)
        yield from reader

    def resets(self) -> list[Reset]:
        """Snapshots before which totals began again, in order of time."""
        return self._resets

    def files(self) -> list[dict[str, Any]]:
        """Each database file with its last known path, type, database and size."""
        if not self._is_files:
            return []
        # Lines above the first with a name are of the file that the others name.
        rows = self._connection.execute(
            f"SELECT * EXCLUDE (at_utc_ns) FROM known "
            f"QUALIFY physical_name IS NOT NULL OR count(*) OVER (PARTITION BY {self._key}) = 1 "
            f"ORDER BY {self._key}, at_utc_ns"
        )
        names = [column[0] for column in rows.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]

    def facts(self) -> dict[str, Any]:
        """Lines, snapshots, keys (files or wait types), first and last moment, clock steps, servers."""
        keys = self._one("SELECT count(*) FROM last")
        return {
            "lines": self._counts["lines"],
            "snapshots": self._counts["snapshots"],
            "keys": keys,
            "first_utc_ns": self._first_utc_ns,
            "last_utc_ns": self._last_utc_ns,
            "servers": sorted(self._servers),
            "clock_steps": self._counts["clock_steps"],
            # Each line but a key's first ends an interval; those of length 0 are not kept.
            "repeated": 0 if self._differences else self._counts["lines"] - keys - self._counts["changes"],
        }

    def _one(self, query: str) -> int:
        ((value,),) = self._connection.execute(query).fetchall()
        return int(value)

    def _number(self, name: str) -> str:
        if name not in self._columns:
            return f"CAST(NULL AS BIGINT) AS {name}"
        word = f"trim({name}, ' \"')"
        scale = self._scales.get(name, 1)
        if scale > 1:
            parts = (
                f"CASE WHEN regexp_full_match({word}, '\\d+([.,]\\d+)?') THEN replace({word}, ',', '.') END"
            )
            number = f"CAST(round(TRY_CAST({parts} AS DECIMAL(38, 9)) * {scale}) AS HUGEINT)"
        else:
            # As Excel and people write them: 1,234,567. What was rounded to 1.2E+12 is no total any more, and 15.000
            # may be 15 or, where points part off thousands, 15,000.
            groups = "\\d{1,3}(,\\d{3})+|\\d{1,3}([ .''\u00a0\u202f]\\d{3}){2,}"
            digits = (
                f"CASE WHEN regexp_full_match({word}, '\\d+(\\.(0|00|0000+))?') "
                f"THEN regexp_replace({word}, '\\..*', '') "
                f"WHEN regexp_full_match({word}, '{groups}') THEN regexp_replace({word}, '\\D', '', 'g') END"
            )
            number = f"TRY_CAST({digits} AS BIGINT)"
        # The 32-bit uptime of old servers turns negative after 24.8 days: unknown, then.
        return f"CASE WHEN {number} BETWEEN 0 AND {_NUMBER_MAX} THEN {number} END AS {name}"

    def _text(self, name: str) -> str:
        if name not in self._columns:
            return f"CAST(NULL AS VARCHAR) AS {name}"
        return f"nullif(nullif(trim({name}, ' \"'), ''), 'NULL') AS {name}"


def in_order(connection: duckdb.DuckDBPyConnection, blocks: Iterable[pa.RecordBatch]) -> bool:
    """Whether no line has an earlier time than one above it; blocks hold the times alone."""
    end_utc_ns = 0
    for block in blocks:
        connection.register("piece", pa.Table.from_batches([block]))
        found = connection.execute(
            f"SELECT at_utc_ns FROM (SELECT {_AT_UTC_NS} AS at_utc_ns FROM piece) WHERE at_utc_ns > 0"
        ).fetchnumpy()["at_utc_ns"]
        connection.unregister("piece")
        if len(found):
            if found[0] < end_utc_ns or (np.diff(found) < 0).any():
                return False
            end_utc_ns = int(found[-1])
    return True


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty DuckDB in memory that spills to the temporary folder, closed on leaving."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": _MEMORY,
            "temp_directory": str(Path(tempfile.gettempdir()) / f"iotrace-spill-{secrets.token_hex(6)}"),
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
            "threads": 2,
        },
    )
    try:
        # DuckDB draws its own bar over long queries, in the midst of what the program says.
        connection.execute("SET enable_progress_bar = false")
        yield connection
    except (duckdb.OutOfMemoryException, duckdb.IOException) as problem:
        raise IotraceError(
            f"the snapshots do not fit into memory and the temporary folder: {str(problem).splitlines()[0][:200]}",
            hint="free some room there, or import fewer snapshots at a time",
        ) from problem
    finally:
        connection.close()
