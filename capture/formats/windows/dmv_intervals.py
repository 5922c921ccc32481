# ruff: noqa: S608 - the names in the queries are constants of this project, never words of a file
"""Snapshots of running totals as what happened between them, in DuckDB: block by block where the file is in order.

Where it is not, all of it is differenced at once, and DuckDB spills to disk what memory cannot hold.

A difference is only taken between neighbouring snapshots of one file or wait type. It is left out where the totals
began again: where any of them fell, the instance's start time changed, or the computer's uptime fell.
"""

import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from iotrace.schemas import IotraceError

from .dmv_columns import (
    CAPTURE_COLUMN,
    FILE_COUNTS,
    FILE_STATS_REQUIRED,
    START_COLUMN,
    WAIT_COUNTS,
    WAIT_STATS_REQUIRED,
)

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
)
_FILE_TEXTS: Final = ("server_name", START_COLUMN, "type_desc", "database_name", "physical_name")
_WAIT_NUMBERS: Final = WAIT_COUNTS
_WAIT_TEXTS: Final = ("server_name", START_COLUMN, "wait_type")

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


def _change(column: str, name: str) -> str:
    return f"{column} - lag({column}) OVER one AS {name}"


_FILE_CHANGES: Final = (
    _change("num_of_reads", "reads"),
    _change("num_of_bytes_read", "read_bytes"),
    _change("io_stall_read_ms", "read_stall_ms"),
    _change("io_stall_queued_read_ms", "read_queued_ms"),
    _change("num_of_writes", "writes"),
    _change("num_of_bytes_written", "write_bytes"),
    _change("io_stall_write_ms", "write_stall_ms"),
    _change("io_stall_queued_write_ms", "write_queued_ms"),
    _change("sample_ms", "uptime_ms"),
)
_WAIT_CHANGES: Final = (
    _change("waiting_tasks_count", "waits"),
    _change("wait_time_ms", "wait_ms"),
    _change("signal_wait_time_ms", "signal_ms"),
    "CAST(NULL AS BIGINT) AS uptime_ms",
)


class Snapshots:
    """The lines of one file, as they come: `add` some, `difference` them, ask for their `counters`, add more.

    Of what is differenced only the last snapshot of each file or wait type is kept, so lines have to come in order of
    time from one call of `difference` to the next; between two calls in any order.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, kind: str, columns: tuple[str, ...]) -> None:
        self._connection, self._columns = connection, columns
        self._is_files = kind == "file_stats"
        self._key = "server_name, database_id, file_id" if self._is_files else "server_name, wait_type"
        self.lines_left_out = 0
        numbers, texts = (_FILE_NUMBERS, _FILE_TEXTS) if self._is_files else (_WAIT_NUMBERS, _WAIT_TEXTS)
        definitions = [f"{name} BIGINT" for name in numbers] + [f"{name} VARCHAR" for name in texts]
        columns_of_seen = f"at_utc_ns BIGINT, {', '.join(definitions)}"
        # `seen` is not differenced yet; `last` is the end of what was.
        connection.execute(f"CREATE TABLE seen ({columns_of_seen}); CREATE TABLE last ({columns_of_seen})")
        if self._is_files:
            known = ", ".join(f"{name} {kind}" for name, kind in _KNOWN_OF_FILES.items())
            connection.execute(f"CREATE TABLE known ({known}, at_utc_ns BIGINT)")
        self._resets: list[tuple[int, bool, int]] = []
        self._servers: set[str] = set()
        self._counts = dict.fromkeys(("lines", "snapshots", "clock_steps", "changes"), 0)
        self._first_utc_ns = self._last_utc_ns = 0
        select = [self._number(name) for name in numbers] + [self._text(name) for name in texts]
        needed = FILE_STATS_REQUIRED if self._is_files else WAIT_STATS_REQUIRED
        present = " AND ".join(
            f"{'at_utc_ns' if name == CAPTURE_COLUMN else name} IS NOT NULL" for name in sorted(needed)
        )
        self._insert = (
            f"INSERT INTO seen SELECT * FROM (SELECT {_AT_UTC_NS} AS at_utc_ns, "
            f"{', '.join(select)} FROM piece) WHERE {present} AND at_utc_ns > 0"
        )
        # Repeated headers and the dashes under them are no loss.
        self._lines = (
            f"SELECT count(*) FROM piece WHERE NOT regexp_matches({CAPTURE_COLUMN}, '^[ \"-]*$') "
            f"AND lower(trim({CAPTURE_COLUMN}, ' \"')) <> '{CAPTURE_COLUMN}'"
        )

    def add(self, cells: pa.RecordBatch) -> None:
        """Take a block of cells, all text. Lines whose time or totals are no numbers are left out and counted."""
        connection = self._connection
        connection.register("piece", pa.Table.from_batches([cells]))
        self.lines_left_out += self._one(self._lines) - self._one(self._insert)
        connection.unregister("piece")

    def difference(self, *, to_the_end: bool = True) -> None:
        """Work out the changes between neighbouring snapshots. Of the last one, more lines may come: it waits.

        ``to_the_end``: no more lines come.
        """
        horizon = "true" if to_the_end else "at_utc_ns < (SELECT max(at_utc_ns) FROM seen)"
        changes = _FILE_CHANGES if self._is_files else _WAIT_CHANGES
        totals = (
            ["reads", "read_bytes", "read_stall_ms", "writes", "write_bytes", "write_stall_ms"]
            if self._is_files
            else ["waits", "wait_ms", "signal_ms"]
        )
        instance = (
            "coalesce(physical_name, format('database {} file {}', database_id, file_id))"
            if self._is_files
            else "wait_type"
        )
        fell = " OR ".join(f"{name} < 0" for name in totals)
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE settled AS SELECT * FROM seen WHERE {horizon};
            DELETE FROM seen WHERE {horizon};
            CREATE OR REPLACE TABLE change AS
            WITH lines AS (
              SELECT *, true AS is_new FROM settled UNION ALL BY NAME SELECT *, false AS is_new FROM last
            ), pairs AS (
              SELECT at_utc_ns, server_name, {instance} AS instance, {", ".join(changes)},
                {_change("at_utc_ns", "interval_ns")},
                {START_COLUMN} <> lag({START_COLUMN}) OVER one AS is_restart, is_new
              FROM lines
              WINDOW one AS (PARTITION BY {self._key} ORDER BY at_utc_ns)
            ), judged AS (
              SELECT *, coalesce(is_restart, false) OR {fell}
                  OR coalesce(uptime_ms < 0, false) AS is_reset,
                coalesce(uptime_ms > 0 AND abs(uptime_ms * 1e6 - interval_ns) > 1e9 + interval_ns / 100, false)
                  AS is_clock_step
              FROM pairs
              WHERE interval_ns > 0 AND is_new
            )
            SELECT *, CASE WHEN is_clock_step THEN uptime_ms / 1e3 ELSE interval_ns / 1e9 END AS seconds
            FROM judged
        """)
        self._remember()

    def _remember(self) -> None:
        """Keep of what is differenced what later lines and questions need."""
        run = self._connection.execute
        ((lines, snapshots, first, last, servers),) = run(
            "SELECT count(*), count(DISTINCT at_utc_ns), min(at_utc_ns), max(at_utc_ns), "
            "list(DISTINCT server_name) FILTER (server_name IS NOT NULL) FROM settled"
        ).fetchall()
        if not lines:
            return
        self._first_utc_ns, self._last_utc_ns = self._first_utc_ns or first, last
        self._servers.update(servers or [])
        ((changes, steps),) = run(
            "SELECT count(*), count(DISTINCT at_utc_ns) FILTER (is_clock_step AND NOT is_reset) FROM change"
        ).fetchall()
        for name, count in zip(self._counts, (lines, snapshots, steps, changes), strict=True):
            self._counts[name] += count
        self._resets += run(
            "SELECT at_utc_ns, bool_or(coalesce(is_restart, false)), count(*) FROM change WHERE is_reset "
            "GROUP BY at_utc_ns ORDER BY at_utc_ns"
        ).fetchall()
        if self._is_files:
            latest = ", ".join(f"arg_max({name}, at_utc_ns) AS {name}" for name in _TOLD_OF_FILES)
            names = ", ".join((*_KNOWN_OF_FILES, "at_utc_ns"))
            run(
                f"CREATE OR REPLACE TABLE known AS SELECT {self._key}, {latest}, max(at_utc_ns) AS at_utc_ns "
                f"FROM (SELECT {names} FROM known UNION ALL SELECT {names} FROM settled) GROUP BY ALL"
            )
        run(
            "CREATE OR REPLACE TABLE last AS "
            "SELECT * FROM (SELECT * FROM last UNION ALL BY NAME SELECT * FROM settled) "
            f"QUALIFY row_number() OVER (PARTITION BY {self._key} ORDER BY at_utc_ns DESC) = 1; DROP TABLE settled"
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
              FROM (SELECT * FROM change WHERE NOT is_reset {idle} ORDER BY at_utc_ns, server_name, instance)
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

    def resets(self) -> list[tuple[int, bool, int]]:
        """Snapshots before which totals began again: moment in UTC ns, whether the instance restarted, of how many."""
        return self._resets

    def files(self) -> list[dict[str, Any]]:
        """Each database file with its last known path, type, database and size."""
        if not self._is_files:
            return []
        rows = self._connection.execute(f"SELECT * EXCLUDE (at_utc_ns) FROM known ORDER BY {self._key}")
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
            "repeated": self._counts["lines"] - keys - self._counts["changes"],
        }

    def _one(self, query: str) -> int:
        ((value,),) = self._connection.execute(query).fetchall()
        return int(value)

    def _number(self, name: str) -> str:
        if name not in self._columns:
            return f"CAST(NULL AS BIGINT) AS {name}"
        # The 32-bit uptime of old servers turns negative after 24.8 days: unknown, then.
        number = f"TRY_CAST(trim({name}, ' \"') AS BIGINT)"
        return f"CASE WHEN {number} BETWEEN 0 AND {_NUMBER_MAX} THEN {number} END AS {name}"

    def _text(self, name: str) -> str:
        if name not in self._columns:
            return f"CAST(NULL AS VARCHAR) AS {name}"
        return f"nullif(nullif(trim({name}, ' \"'), ''), 'NULL') AS {name}"


def in_order(connection: duckdb.DuckDBPyConnection, blocks: Iterable[pa.RecordBatch]) -> bool:
    """Whether no block of lines begins before the one before it ends, by their times (the first column) alone."""
    end_utc_ns = 0
    for block in blocks:
        connection.register("piece", pa.Table.from_batches([block]))
        ((first, last),) = connection.execute(
            f"SELECT min(at_utc_ns), max(at_utc_ns) FROM (SELECT {_AT_UTC_NS} AS at_utc_ns FROM piece) "
            "WHERE at_utc_ns > 0"
        ).fetchall()
        connection.unregister("piece")
        if last is not None:
            if first < end_utc_ns:
                return False
            end_utc_ns = last
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
