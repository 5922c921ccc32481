"""The columns of DMV snapshot files, and the queries that write them: the one place where both are told.

A snapshot file is text with one line for each file (or wait type) and snapshot, snapshots one after the other. Columns
are found by the names in its header, in any order, further ones being ignored; without a header they must be all
of these in this order. Names that other tools and people's own queries give them (`ALIASES`) do as well, and so do
JSON and Parquet with the same columns. Separators may be comma, semicolon, tab or ``|``; UTF-8 or UTF-16. Header lines
in between, dashes under them and row counts, as sqlcmd writes them, do no harm. Repeat the query every 5 to 60 s,
appending to one file, e.g. ``sqlcmd -E -C -W -s "|" -i files.sql >> files.csv``.

Names of others: the tables that sp_BlitzFirst writes (FirstResponderKit) and its views of differences, the collections
of erikdarlingdata's PerformanceMonitor, DBA Dash's tables, sqlwatch, dbatools, Telegraf, fn_virtualfilestats, and
queries in public repositories.

Sources: documentation of sys.dm_io_virtual_file_stats (totals since the instance started; ``sample_ms`` counts from the
computer's start and was a 32-bit number until SQL Server 2014; the queued stalls came with 2014), sys.dm_os_wait_stats,
sys.dm_os_sys_info and sys.master_files.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from iotrace.schemas.units import KIB, MIB

CAPTURE_COLUMN: Final = "capture_utc"
"""When the snapshot was taken, in UTC, ISO 8601 (``2026-03-01 12:00:05.1234567`` or with a T)."""

START_COLUMN: Final = "sqlserver_start_time"
"""When the instance started, by the server's own clock; another value means another start."""

LOGICAL_COLUMN: Final = "logical_name"
"""A file's name within its database."""

FILE_COUNTS: Final = (
    "num_of_reads",
    "num_of_bytes_read",
    "io_stall_read_ms",
    "num_of_writes",
    "num_of_bytes_written",
    "io_stall_write_ms",
)
FILE_BYTES: Final = ("num_of_bytes_read", "num_of_bytes_written")
"""Those of the counts that many people's own queries leave out: rates and latencies are known without them."""

FILE_STATS_COLUMNS: Final = (
    CAPTURE_COLUMN,
    "server_name",
    START_COLUMN,
    "database_id",
    "file_id",
    "sample_ms",
    "num_of_reads",
    "num_of_bytes_read",
    "io_stall_read_ms",
    "io_stall_queued_read_ms",
    "num_of_writes",
    "num_of_bytes_written",
    "io_stall_write_ms",
    "io_stall_queued_write_ms",
    "size_on_disk_bytes",
    "type_desc",
    "database_name",
    "physical_name",
)
FILE_STATS_REQUIRED: Final = frozenset(
    {CAPTURE_COLUMN, "database_id", "file_id", *FILE_COUNTS} - {*FILE_BYTES}
)
FILE_NAMES: Final = (
    ("physical_name",),
    ("database_name", LOGICAL_COLUMN),
    ("database_name", "file_id"),
    ("database_id", LOGICAL_COLUMN),
)
"""What tells a file from others where there are not both numbers of it."""
FILE_STATS_QUERY: Final = """\
SET NOCOUNT ON;
SELECT CONVERT(varchar(33), SYSUTCDATETIME(), 126) AS capture_utc,
       CONVERT(nvarchar(128), SERVERPROPERTY('ServerName')) AS server_name,
       CONVERT(varchar(33), i.sqlserver_start_time, 126) AS sqlserver_start_time,
       v.database_id, v.file_id, v.sample_ms,
       v.num_of_reads, v.num_of_bytes_read, v.io_stall_read_ms, v.io_stall_queued_read_ms,
       v.num_of_writes, v.num_of_bytes_written, v.io_stall_write_ms, v.io_stall_queued_write_ms,
       v.size_on_disk_bytes, m.type_desc, DB_NAME(v.database_id) AS database_name, m.physical_name
FROM sys.dm_io_virtual_file_stats(NULL, NULL) AS v
CROSS JOIN sys.dm_os_sys_info AS i
LEFT JOIN sys.master_files AS m ON m.database_id = v.database_id AND m.file_id = v.file_id;
"""
"""For SQL Server 2014 and later."""

FILE_STATS_QUERY_2012: Final = FILE_STATS_QUERY.replace(
    "v.io_stall_queued_read_ms", "CONVERT(bigint, NULL) AS io_stall_queued_read_ms"
).replace("v.io_stall_queued_write_ms", "CONVERT(bigint, NULL) AS io_stall_queued_write_ms")
"""For SQL Server 2012, which does not count delays by Resource Governor: the same columns, these two empty."""

WAIT_COUNTS: Final = ("waiting_tasks_count", "wait_time_ms", "signal_wait_time_ms")
WAIT_STATS_COLUMNS: Final = (
    CAPTURE_COLUMN,
    "server_name",
    START_COLUMN,
    "wait_type",
    "waiting_tasks_count",
    "wait_time_ms",
    "max_wait_time_ms",
    "signal_wait_time_ms",
)
IO_WAITS: Final = (
    "PAGEIOLATCH_SH",
    "PAGEIOLATCH_EX",
    "PAGEIOLATCH_UP",
    "PAGEIOLATCH_DT",
    "PAGEIOLATCH_KP",
    "PAGEIOLATCH_NL",
    "WRITELOG",
    "LOGBUFFER",
    "IO_COMPLETION",
    "ASYNC_IO_COMPLETION",
    "WRITE_COMPLETION",
    "BACKUPIO",
    "HADR_SYNC_COMMIT",
)
"""Waits that a session waits for I/O in, or for a replica's: page reads, log flushes, other I/O, backups."""

WAIT_STATS_REQUIRED: Final = frozenset({CAPTURE_COLUMN, "wait_type", *WAIT_COUNTS})
WAIT_STATS_QUERY: Final = """\
SET NOCOUNT ON;
SELECT CONVERT(varchar(33), SYSUTCDATETIME(), 126) AS capture_utc,
       CONVERT(nvarchar(128), SERVERPROPERTY('ServerName')) AS server_name,
       CONVERT(varchar(33), i.sqlserver_start_time, 126) AS sqlserver_start_time,
       w.wait_type, w.waiting_tasks_count, w.wait_time_ms, w.max_wait_time_ms, w.signal_wait_time_ms
FROM sys.dm_os_wait_stats AS w
CROSS JOIN sys.dm_os_sys_info AS i;
"""


def folded(name: str) -> str:
    """A column's name without what people write in different ways: case, blanks, underscores, brackets."""
    return "".join(character for character in name.lower() if character.isalnum())


ALIASES: Final[dict[str, str]] = {
    folded(alias): column
    for column, aliases in {
        "server_name": "server, sql_server, instance_name, sql_instance, instance",
        START_COLUMN: "server_start_time, sql_start_time, instance_start_time",
        "database_id": "db_id, dbid",
        "file_id": "fileid, database_file_id",
        "sample_ms": "sample_milliseconds",
        "num_of_reads": "num_reads, reads, number_reads, number_of_reads, total_reads, read_count, total_read_count",
        "num_of_bytes_read": "num_bytes_read, bytes_read, read_bytes, total_bytes_read, number_of_bytes_read",
        "io_stall_read_ms": "io_stall_reads_ms, io_stall_read, read_stall_ms, stall_read_ms, io_stall_reads",
        "io_stall_queued_read_ms": "stall_queued_read_ms",
        "num_of_writes": "num_writes, writes, number_writes, number_of_writes, total_writes, write_count, "
        "total_write_count",
        "num_of_bytes_written": "num_bytes_written, bytes_written, write_bytes, total_bytes_written, "
        "number_of_bytes_written",
        "io_stall_write_ms": "io_stall_writes_ms, io_stall_write, write_stall_ms, stall_write_ms, io_stall_writes",
        "io_stall_queued_write_ms": "stall_queued_write_ms",
        "size_on_disk_bytes": "size_bytes, bytes_on_disk, file_size_bytes",
        "type_desc": "file_type_desc, file_type",
        "database_name": "db_name, database, db",
        "physical_name": "physical_file_name, file_path, full_path, physical_path, database_file_name, "
        "physical_location",
        LOGICAL_COLUMN: "file_name, logical_name, logical_file_name, file_logical_name, database_file_details",
        "wait_type": "wait_name",
        "waiting_tasks_count": "waiting_tasks, wait_count, waits",
        "wait_time_ms": "wait_ms, total_wait_time_ms",
        "signal_wait_time_ms": "signal_wait_ms, signal_ms",
    }.items()
    for alias in (column, *aliases.split(", "))
}
"""Folded names of columns, and the column that each of them is."""

WEAK_ALIASES: Final = {"name": LOGICAL_COLUMN, "file": LOGICAL_COLUMN}
"""Folded names that are a column only where no other one is it."""

_TIME_NAMES: Final = """
capture_time capture_date capture_date_time captured_at date_captured time_captured collection_time
collection_date collection_date_time collect_date collect_time collected_at date_collected check_date
check_time check_date_time snapshot_time snapshot_date snapshot_date_time snap_time snap_date sample_time
sample_date sample_date_time sampled_at poll_time poll_date poll_date_time polled_at log_date log_time
log_date_time logged_at run_date run_time run_date_time stat_date stats_date record_date record_time
recorded_at recorded_date_time baseline_date insert_date insert_time inserted_at created_at create_date
created_date date_added event_time event_date date_stamp time_stamp date_time current_time current_date
getdate sysdatetime now time date dt ts zeit zeitpunkt zeitstempel datum fecha horodatage время дата
"""
TIME_ALIASES: Final = tuple(map(folded, _TIME_NAMES.split()))
"""Names of the column that tells when a snapshot was taken; it may have UTC before or behind. The first counts."""

_LIKE_A_TIME: Final = re.compile(r"(?:date|time|datetime|stamp|dt)\Z|\A(?:date|time|when)")
_NO_MOMENT: Final = re.compile(r"wait|stall|latency|restart|start|boot|avg|uptime|updated?\Z")


def like_a_time(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that nobody listed and that may be the time of a snapshot all the same."""
    return [
        name
        for name in names
        if _LIKE_A_TIME.search(folded(name))
        and not _NO_MOMENT.search(folded(name))
        and folded(name) not in ALIASES
    ]


SCALED: Final[dict[str, tuple[str, int]]] = {
    folded(alias): (column, factor)
    for column, factor, aliases in (
        ("num_of_bytes_read", KIB, "kbytes_read kb_read read_kb kilobytes_read num_of_kb_read"),
        ("num_of_bytes_written", KIB, "kbytes_written kb_written write_kb written_kb kilobytes_written"),
        (
            "num_of_bytes_read",
            MIB,
            "mbytes_read mb_read read_mb megabytes_read num_of_mb_read total_mb_read",
        ),
        (
            "num_of_bytes_written",
            MIB,
            "mbytes_written mb_written write_mb written_mb megabytes_written num_of_mb_written total_mb_written",
        ),
        ("size_on_disk_bytes", MIB, "size_on_disk_mb size_mb file_size_mb"),
    )
    for alias in aliases.split()
}
"""Folded names of columns in KB or MB as SQL Server's people reckon them (1,024), what each is, and bytes in one."""


@dataclass(frozen=True, slots=True)
class OtherTable:
    """A table of somebody's tool that means something by its columns that their names alone do not say."""

    whose: str
    marks: frozenset[str]
    """Folded names of columns that this table has, and no other."""
    is_utc: bool = False
    """Whether its times are UTC without saying so."""
    elapsed: str = ""
    """Folded name of the column with the length of the interval, where counts are differences already."""
    elapsed_ms: int = 1
    """How many milliseconds one of ``elapsed`` is."""
    has_sums: bool = False
    """Whether rows with the file -1 are sums over others, and whole hours the start of an hour, not an end."""
    aliases: dict[str, str] = field(default_factory=dict)


OTHER_TABLES: Final = (
    OtherTable("PerformanceMonitor Lite", frozenset({"serverid", "deltareads"}), is_utc=True),
    OtherTable("PerformanceMonitor Lite", frozenset({"serverid", "deltawaittimems"}), is_utc=True),
    OtherTable(
        "DBA Dash", frozenset({"samplemsdiff"}), is_utc=True, elapsed="samplemsdiff", has_sums=True,
        aliases={"instanceid": "server_name"},
    ),
    OtherTable(
        "sp_BlitzFirst's view of differences", frozenset({"elapsedseconds", "joinkey"}), elapsed="elapsedseconds",
        elapsed_ms=1000, aliases={
            "waittimemsdelta": "wait_time_ms", "signalwaittimemsdelta": "signal_wait_time_ms",
            "waitingtaskscountdelta": "waiting_tasks_count",
        },
    ),
    OtherTable(
        "GatherVirtualFileStats", frozenset({"intervalinmilliseconds", "readsfromstart"}),
        elapsed="intervalinmilliseconds", aliases={
            "iostallreadsinmilliseconds": "io_stall_read_ms", "iostallwritesinmilliseconds": "io_stall_write_ms",
        },
    ),
    OtherTable(
        "Telegraf", frozenset({"physicalfilename", "logicalfilename", "readlatencyms", "writelatencyms"}),
        aliases={
            "readlatencyms": "io_stall_read_ms", "writelatencyms": "io_stall_write_ms",
            "rgreadstallms": "io_stall_queued_read_ms", "rgwritestallms": "io_stall_queued_write_ms",
        },
    ),
)  # fmt: skip
ELAPSED_COLUMN: Final = "elapsed_ms"
"""Milliseconds that a line's differences are about."""


def other_table(names: Iterable[str]) -> OtherTable | None:
    """The tool whose table a header with these names is."""
    plain = {folded(name) for name in names}
    return next((table for table in OTHER_TABLES if table.marks <= plain), None)
