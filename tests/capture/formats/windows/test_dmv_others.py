"""Snapshots of DMVs as other tools and people's own queries write them: the same planted totals in every clothing.

Columns: the tables that sp_BlitzFirst creates, ``file_io_stats`` of erikdarlingdata's PerformanceMonitor Lite, queries
as public repositories have them.
"""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.capture.formats.windows import dmv
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

SECOND = 1_000_000_000
PATH = "D:\\data\\sales.mdf"
NOON_UTC_NS = 1_773_403_200 * SECOND  # 2026-03-13T12:00:00Z

# 100 reads of 8 KiB and 1,000 ms in all, then 100 more and 500 ms in 10 s; nothing written.
COUNTS = (
    {"num_of_reads": 100, "num_of_bytes_read": 819_200, "io_stall_read_ms": 1000},
    {"num_of_reads": 200, "num_of_bytes_read": 1_638_400, "io_stall_read_ms": 1500},
)
WRITES = {"num_of_writes": 0, "num_of_bytes_written": 0, "io_stall_write_ms": 0}
CHANGES = {"reads per second": 10, "read bytes per second": 81_920, "mean read latency": 5_000_000,
           "writes per second": 0, "write bytes per second": 0}  # fmt: skip


def rows_of(times, names, **rest):
    """Both snapshots with their columns called so; ``names`` has no entry for those that are called as in the view."""
    return [
        {names.get(key, key): value for key, value in {"time": at, **rest, **counts, **WRITES}.items()}
        for at, counts in zip(times, COUNTS, strict=True)
    ]


def text(rows, separator=",", encoding="utf-8"):
    lines = [separator.join(rows[0]), *(separator.join(str(cell) for cell in row.values()) for row in rows)]
    return ("\r\n".join(lines) + "\r\n").encode(encoding)


BLITZ = rows_of(
    ("2026-03-13 14:00:00.0000000 +02:00", "2026-03-13 14:00:10.0000000 +02:00"),
    {"time": "CheckDate", "num_of_bytes_read": "bytes_read", "num_of_bytes_written": "bytes_written"},
    ID=1, ServerName="SQL1", DatabaseID=5, FileID=1, DatabaseName="sales", FileLogicalName="sales_data",
    TypeDesc="ROWS", PhysicalName=PATH,
)  # fmt: skip
LITE = rows_of(
    ("2026-03-13 12:00:00", "2026-03-13 12:00:10"),
    {"time": "collection_time", "num_of_bytes_read": "read_bytes", "num_of_bytes_written": "write_bytes"},
    server_id=3, server_name="SQL1", database_name="sales", file_name="sales_data", file_type="ROWS",
    physical_name=PATH, delta_reads=0,
)  # fmt: skip
OWN = rows_of(
    ("3/13/2026 1:00:00 PM", "3/13/2026 1:00:10 PM"),
    {"time": "Capture Time", "num_of_reads": "[num_of_reads]"},
    DBName="sales", logical_name="sales_data",
)  # fmt: skip
GERMAN = rows_of(("13.03.2026 13:00:00", "13.03.2026 13:00:10"), {"time": "SampleDate"}, dbid=5, fileid=1)


@pytest.fixture
def imported(tmp_path):
    def run(data, name="files.csv", **how):
        path = tmp_path / name
        path.write_bytes(data)
        recording = import_files([path], tmp_path / "x.iotrace", overwrite=True, **how)
        assert not validate(recording.path)
        return recording

    return run


def held(recording, instance):
    rows = recording.read("counters").to_pylist()
    assert {row["counter"]: row["value"] for row in rows} == CHANGES
    assert {(row["instance"], row["at_ns"], row["interval_ns"]) for row in rows} == {
        (instance, 10 * SECOND, 10 * SECOND)
    }
    assert recording.manifest.clock.start_utc_ns == NOON_UTC_NS


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_tables_of_sp_blitzfirst(imported, separator, encoding):
    recording = imported(text(BLITZ, separator, encoding))
    held(recording, PATH)
    (file,) = recording.read("files").to_pylist()
    assert (file["path"], file["role"], file["database"]) == (PATH, "data", "sales")


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(BLITZ).encode(),
        json.dumps({"rows": BLITZ}, indent=2).encode("utf-16"),
        "\n".join(map(json.dumps, BLITZ)).encode(),
    ],
    ids=["array", "in an object", "a line each"],
)
def test_json_of_them(imported, data):
    held(imported(data, "export.json"), PATH)


def test_json_dates_of_powershell_5(imported):
    rows = [row | {"CheckDate": f"/Date({(NOON_UTC_NS + 10 * SECOND * place) // 10**6})/"}
            for place, row in enumerate(BLITZ)]  # fmt: skip
    held(imported(json.dumps(rows).encode(), "export.json"), PATH)


def test_collections_of_performance_monitor_lite_are_utc_and_come_as_parquet_too(imported):
    held(imported(text(LITE)), PATH)
    table = pa.Table.from_pylist(LITE)
    times = table.column("collection_time").cast(pa.timestamp("us"))
    data = io.BytesIO()
    pq.write_table(table.set_column(0, "collection_time", times), data)
    held(imported(data.getvalue(), "file_io_stats.parquet"), PATH)


def test_local_times_need_a_zone(imported):
    """GETDATE() of Berlin in winter; only names of the files, two of them in the header with brackets and blanks."""
    with pytest.raises(IotraceError, match="local times") as problem:
        imported(text(OWN, "\t"))
    assert "--timezone" in problem.value.hint
    recording = imported(text(OWN, "\t"), timezone="Europe/Berlin")
    held(recording, "sales sales_data")
    assert any(
        "local times are taken as those of Europe/Berlin" in note for note in recording.manifest.quality.notes
    )
    held(imported(text(GERMAN, ";"), timezone="+0100"), "database 5 file 1")


def test_dates_that_can_be_read_two_ways_are_refused(imported):
    rows = [
        row | {"Capture Time": at}
        for row, at in zip(OWN, ("3/4/2026 13:00:00", "3/4/2026 13:00:10"), strict=True)
    ]
    with pytest.raises(IotraceError, match="can be read two ways"):
        imported(text(rows), timezone="+0100")


def test_waits_of_sp_blitzfirst(imported):
    rows = [
        {"ID": 1, "ServerName": "SQL1", "CheckDate": f"2026-03-13 12:00:{second:02} +00:00", "wait_type": "WRITELOG",
         "wait_time_ms": total, "signal_wait_time_ms": 0, "waiting_tasks_count": count}
        for second, total, count in ((0, 100, 10), (20, 4100, 50))
    ]  # fmt: skip
    found = {row["counter"]: row["value"] for row in imported(text(rows)).read("counters").to_pylist()}
    assert found["mean wait"] == 100_000_000
    assert found["waits per second"] == 2


def test_differences_are_no_totals(imported):
    rows = [row | {"sample_ms_diff": 10_000} for row in GERMAN]
    with pytest.raises(IotraceError, match="differences, not totals"):
        imported(text(rows), timezone="+0100")


@pytest.mark.parametrize(
    ("change", "words", "way_out"),
    [
        ({"SampleDate": None}, "without the time of each snapshot", "SYSUTCDATETIME"),
        (
            {"io_stall_read_ms": "io_stalls_reading_ms"},
            "without io_stall_read_ms",
            "'io_stalls_reading_ms' io_stall_read_ms?",
        ),
        (
            {"num_of_bytes_read": None, "num_of_bytes_written": None},
            "without num_of_bytes_read",
            "docs/formats.md",
        ),
    ],
    ids=["no time", "a name that is near", "columns that are not there"],
)
def test_what_is_missing_is_named(imported, change, words, way_out):
    rows = [{change.get(key, key): value for key, value in row.items()} for row in GERMAN]
    rows = [{key: value for key, value in row.items() if key is not None} for row in rows]
    with pytest.raises(IotraceError) as problem:
        imported(text(rows))
    assert words in problem.value.message
    assert way_out in problem.value.hint


def test_inspect_says_that_times_are_local(tmp_path):
    path = tmp_path / "files.csv"
    path.write_bytes(text(GERMAN))
    assert dmv.inspect(path, "files.csv")["times"] == "local"
