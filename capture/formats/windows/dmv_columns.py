"""The columns of DMV snapshot files, and the queries that write them: the one place where both are told.

A snapshot file is text with one line for each file (or wait type) and snapshot, snapshots one after the other. Columns
are found by the names in its header, in any order, further ones being ignored; without a header they must be all
of these in this order. Separators may be comma, semicolon, tab or ``|``; UTF-8 or UTF-16. Header lines in between,
dashes under them and row counts, as sqlcmd writes them, do no harm. Repeat the query every 5 to 60 s, appending to one
file, e.g. ``sqlcmd -E -C -W -s "|" -i files.sql >> files.csv``.

Sources: documentation of sys.dm_io_virtual_file_stats (totals since the instance started; ``sample_ms`` counts from the
computer's start and was a 32-bit number until SQL Server 2014; the queued stalls came with 2014), sys.dm_os_wait_stats,
sys.dm_os_sys_info and sys.master_files.
"""

from typing import Final

CAPTURE_COLUMN: Final = "capture_utc"
"""When the snapshot was taken, in UTC, ISO 8601 (``2026-03-01 12:00:05.1234567`` or with a T)."""

START_COLUMN: Final = "sqlserver_start_time"
"""When the instance started, by the server's own clock; another value means another start."""

FILE_COUNTS: Final = (
    "num_of_reads",
    "num_of_bytes_read",
    "io_stall_read_ms",
    "num_of_writes",
    "num_of_bytes_written",
    "io_stall_write_ms",
)
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
FILE_STATS_REQUIRED: Final = frozenset({CAPTURE_COLUMN, "database_id", "file_id", *FILE_COUNTS})
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
