"""What a plan records by name: counters, Extended Events, waits. Sources: documentation of the objects and events."""

from typing import Final

_DISK: Final = (
    "Disk Reads/sec",
    "Disk Writes/sec",
    "Disk Read Bytes/sec",
    "Disk Write Bytes/sec",
    "Avg. Disk sec/Read",
    "Avg. Disk sec/Write",
    "Avg. Disk Bytes/Read",
    "Avg. Disk Bytes/Write",
    "Current Disk Queue Length",
    "Avg. Disk Queue Length",
    "Split IO/Sec",
    "% Idle Time",
)

HOST_COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "PhysicalDisk(*)": _DISK,
    # Volumes mounted in folders appear here as instances.
    "LogicalDisk(*)": (*_DISK, "Free Megabytes"),
    "Processor(_Total)": ("% Processor Time", "% Privileged Time"),
    "System": ("Processor Queue Length", "Context Switches/sec"),
    "Memory": ("Available MBytes", "Pages/sec"),
}

SQL_COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "Process(sqlservr*)": (
        "IO Read Operations/sec",
        "IO Write Operations/sec",
        "IO Read Bytes/sec",
        "IO Write Bytes/sec",
    ),
    "SQLServer:Buffer Manager": (
        "Page reads/sec",
        "Page writes/sec",
        "Readahead pages/sec",
        "Checkpoint pages/sec",
        "Background writer pages/sec",
        "Lazy writes/sec",
        "Free list stalls/sec",
        "Page life expectancy",
        "Buffer cache hit ratio",
    ),
    "SQLServer:Databases(*)": (
        "Log Flushes/sec",
        "Log Bytes Flushed/sec",
        "Log Flush Waits/sec",
        "Log Flush Wait Time",
        "Backup/Restore Throughput/sec",
        "Transactions/sec",
    ),
    "SQLServer:SQL Statistics": ("Batch Requests/sec",),
}
"""Objects of the default instance; a named one has ``MSSQL$NAME:`` in place of ``SQLServer:``."""

FILE_EVENTS: Final = (
    {"name": "file_read_completed", "what": "read"},
    {"name": "file_write_completed", "what": "write"},
)
RARE_EVENTS: Final = (
    "database_file_size_change",
    "long_io_detected",
    "backup_restore_progress_trace",
)


def counter_paths(*, of_sql_server: bool) -> list[str]:
    """Paths of the counter log, in English, for the default instance."""
    objects = HOST_COUNTERS | (SQL_COUNTERS if of_sql_server else {})
    return [f"\\{name}\\{counter}" for name, counters in objects.items() for counter in counters]
