"""Snapshot files with planted totals, and what was imported from them; for the tests of all modules of `dmv`."""

from datetime import UTC, datetime, timedelta

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

COLUMNS = (
    "capture_utc", "database_id", "file_id", "database_name", "physical_name", "num_of_reads", "io_stall_read_ms",
    "num_of_bytes_read", "num_of_writes", "io_stall_write_ms", "num_of_bytes_written",
)  # fmt: skip
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
INTERVAL_S = 10


def at(second):
    return (START + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S")


def line(second, reads, file=1, database=5, name="sales", path=None, **cells):
    """A file that reads 8 KiB in 4 ms each time; ``cells`` replace what stands in a column."""
    row = (second if isinstance(second, str) else at(second), database, file, name)
    row += (path or f"D:\\{name}{file}.mdf", reads, 4 * reads, 8192 * reads, 0, 0, 0)
    return ",".join(str(cells.get(column, cell)) for column, cell in zip(COLUMNS, row, strict=True))


def imported(tmp_path, lines, header=COLUMNS, **options):
    path = tmp_path / "files.csv"
    path.write_text("".join(f"{one}\n" for one in (",".join(header), *lines)))
    recording = import_files([path], tmp_path / "x.iotrace", overwrite=True, **options)
    assert not validate(recording.path)
    return recording


def read_rates(recording):
    """{path: [(second, reads per second), …]}."""
    found = {}
    for row in recording.read("counters").to_pylist():
        if row["metric"] == "read_iops":
            found.setdefault(row["instance"], []).append((row["at_ns"] / 1e9, row["value"]))
    return found
