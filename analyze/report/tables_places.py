"""Where the I/O goes, in tables: databases, hot spots, the working set over time, and what counters say of drives."""

from typing import Final

from iotrace.analyze.describe.description import Description
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_ns,
    format_figure,
    format_rate,
    format_share,
)
from iotrace.schemas.text import shortened

from .charts import Table

_ROWS_MAX: Final = 24


def place_tables(described: Description) -> list[Table]:
    """Databases, the hottest places and what was touched over time; those that are known."""
    tables = (_databases(described), _hot_spots(described), _touched(described))
    return [table for table in tables if table.rows]


def drive_tables(described: Description) -> list[Table]:
    """What counters show for each drive or file; means over their intervals, never of single I/Os."""
    rows = tuple(
        (
            shortened(f"{row['object']} {row['instance'] or ''}".strip()),
            str(row["layer"] or DASH),
            format_rate(row["ios_per_s"]),
            format_rate(row["peak_ios_per_s"]),
            format_rate(row["read_bytes_per_s"], "B"),
            format_rate(row["written_bytes_per_s"], "B"),
            DASH if row["queue_length_mean"] is None else format_figure(row["queue_length_mean"]),
            format_duration_ns(row["read_latency_mean_ns"]),
            format_duration_ns(row["write_latency_mean_ns"]),
            format_duration_ns(row["read_latency_max_ns"]),
            format_duration_ns(row["write_latency_max_ns"]),
        )
        for row in described.drives[:_ROWS_MAX]
    )
    columns = ("drive or file", "layer", "I/Os", "most in an interval", "read", "written", "queue", "read latency",
               "write latency", "highest mean, reads", "writes")  # fmt: skip
    return (
        [Table(f"What counters say of each drive{_more(len(described.drives))}", columns, rows, 2)]
        if rows
        else []
    )


def _databases(described: Description) -> Table:
    rows = tuple(
        (
            shortened(str(row["database"] or "no database known")),
            format_count(row["file_count"]),
            format_count(row["read_count"]),
            format_count(row["write_count"]),
            format_bytes(row["read_bytes"]),
            format_bytes(row["written_bytes"]),
            format_duration_ns(row["read_latency_mean_ns"]),
            format_duration_ns(row["write_latency_mean_ns"]),
        )
        for row in described.top_databases
    )
    columns = ("database", "files", "reads", "writes", "read", "written", "read latency", "write latency")
    known = any(row["database"] for row in described.top_databases)
    return Table("Databases with the most I/O", columns, rows if known else ())


def _hot_spots(described: Description) -> Table:
    rows = tuple(
        (
            shortened(spot.path or spot.device or "place not known"),
            format_bytes(spot.offset_bytes),
            format_bytes(spot.size_bytes),
            format_count(spot.io_count),
            format_share(spot.share),
        )
        for spot in described.hot_spots[:_ROWS_MAX]
    )
    busiest = described.busiest_hundredth_share
    said = (
        ""
        if busiest is None
        else f"; the busiest hundredth of what was touched takes {format_share(busiest)}"
    )
    return Table(f"Hot spots{said}", ("where", "from", "length", "I/Os", "share"), rows)


def _touched(described: Description) -> Table:
    start_ns = described.window_start_ns
    rows = tuple(
        (
            format_duration_ns(one.from_ns - start_ns),
            format_duration_ns(one.until_ns - start_ns),
            format_count(one.io_count),
            format_bytes(one.touched_bytes),
            format_bytes(one.new_bytes),
            format_share(one.hottest_share),
        )
        for one in described.touched_slices[:_ROWS_MAX]
        if one.io_count
    )
    columns = ("from", "until", "I/Os", "touched", "of that for the first time", "share of its hottest place")
    return Table("Working set over time", columns, rows, 1)


def _more(count: int) -> str:
    return f"; the first {_ROWS_MAX} of {count}, --json has them all" if count > _ROWS_MAX else ""
