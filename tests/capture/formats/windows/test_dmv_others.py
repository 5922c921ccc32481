"""Snapshots of DMVs as other tools and people's own queries write them: the same planted totals in every clothing.

Columns: the tables that sp_BlitzFirst creates, ``file_io_stats`` of erikdarlingdata's PerformanceMonitor Lite, queries
as public repositories have them.
"""

import io
import json
import zipfile

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.capture.formats.windows import dmv, dmv_database
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


# Columns of tables and queries in public repositories, in their order; the file is told in one way or another.
SHAPES = {
    "marcingminski/sqlwatch": (
        (
            "database_name,logical_file_name,type_desc,logical_disk,num_of_reads,num_of_bytes_read,io_stall_read_ms,"
            "num_of_writes,num_of_bytes_written,io_stall_write_ms,size_on_disk_bytes,snapshot_time"
        ),
        "sales,sales_data,ROWS,D:,{reads},{bytes},{stall},0,0,0,8192,{local}",
    ),
    "emilefraser/PyroSQL FileStatsHistory": (
        (
            "FileStatsHistoryID,FileStatsID,FileStatsDateStamp,DBName,DBID,FileID,FileName,LogicalFileName,VLFCount,"
            "NumberReads,KBytesRead,NumberWrites,KBytesWritten,IoStallReadMS,IoStallWriteMS,Cum_IO_GB"
        ),
        "1,1,{local},sales,5,1,D:\\x.mdf,x,3,{reads},{kbytes}.00,0,0.00,{stall},0,0.00",
    ),
    "AaronMorelli/ChiRho": (
        (
            "UTCCaptureTime,LocalCaptureTime,database_id,file_id,num_of_reads,num_of_bytes_read,io_stall_read_ms,"
            "io_stall_queued_read_ms,num_of_writes,num_of_bytes_written,io_stall_write_ms,io_stall_queued_write_ms,io_stall"
        ),
        "{utc},{local},5,1,{reads},{bytes},{stall},,0,0,0,,0",
    ),
    "adminTools tbl_IO_Virtual_File_Stats": (
        (
            "RecordID,database_id,file_id,sample_ms,num_of_reads,num_of_bytes_read,io_stall_read_ms,num_of_writes,"
            "num_of_bytes_written,io_stall_write_ms,io_stall,dt"
        ),
        "1,5,1,{uptime},{reads},{bytes},{stall},0,0,0,0,{local}",
    ),
    "#IOStats of a job": (
        (
            "Sampling,SampleTime,database_name,DatabaseFilename,io_stall_read_ms,io_stall_write_ms,num_of_reads,"
            "num_of_bytes_read,num_of_writes,num_of_bytes_written"
        ),
        "1,{local},sales,D:\\x.mdf,{stall},0,{reads},{bytes},0,0",
    ),
    "dbo.IO_VirtualFileStats": (
        (
            "DatabaseName,SampleDate,FileId,FileName,sample_ms,num_of_reads,num_of_bytes_read,io_stall_read_ms,"
            "num_of_writes,num_of_bytes_written,io_stall_write_ms,io_stall,size_on_disk_bytes"
        ),
        "sales,{local},1,x,{uptime},{reads},{bytes},{stall},0,0,0,0,8192",
    ),
    "camel case": (
        (
            "ioStallReadMs,ioStallWriteMs,ioStall,numOfReads,numOfWrites,numOfBytesRead,numOfBytesWritten,drive,dbName,"
            "filePath,fileType,statDate"
        ),
        "{stall},0,0,{reads},0,{bytes},0,D:,sales,D:\\x.mdf,1,{local}",
    ),
    "drsql #baseline": (
        (
            "databaseName,physical_name,num_of_reads,num_of_bytes_read,io_stall_read_ms,num_of_writes,"
            "num_of_bytes_written,io_stall_write_ms,io_stall,size_on_disk_bytes,baselineDate"
        ),
        "sales,D:\\x.mdf,{reads},{bytes},{stall},0,0,0,0,8192,{local}",
    ),
    "fn_virtualfilestats": (
        (
            "DbId,FileId,TimeStamp,NumberReads,BytesRead,IoStallReadMS,NumberWrites,BytesWritten,IoStallWriteMS,IoStallMS,"
            "BytesOnDisk,FileHandle,RunDate"
        ),
        "5,1,{uptime},{reads},{bytes},{stall},0,0,0,{stall},8192,0x0000,{local}",
    ),
    "dbatools' Get-DbaIoLatency": (
        (
            "ComputerName,InstanceName,SqlInstance,DatabaseId,DatabaseName,FileId,PhysicalName,NumberOfReads,IoStallRead,"
            "NumberOfwrites,IoStallWrite,IoStall,NumberOfBytesRead,NumberOfBytesWritten,SampleMilliseconds,SizeOnDiskBytes,When"
        ),
        "h,i,h,5,sales,1,D:\\x.mdf,{reads},{stall},0,0,0,{bytes},0,{uptime},8192,{local}",
    ),
    "Telegraf's sqlserver_database_io": (
        (
            "time,measurement,sql_instance,database_name,physical_filename,logical_filename,file_type,read_latency_ms,reads,"
            "read_bytes,write_latency_ms,writes,write_bytes,rg_read_stall_ms,rg_write_stall_ms"
        ),
        "{zoned},sqlserver_database_io,S,sales,D:\\x.mdf,x,ROWS,{stall},{reads},{bytes},0,0,0,,",
    ),
    "numbers with groups, as Excel shows them": (
        (
            "Capture Time\tdatabase_id\tfile_id\tnum_of_reads\tnum_of_bytes_read\tio_stall_read_ms\tnum_of_writes\t"
            "num_of_bytes_written\tio_stall_write_ms"
        ),
        "{local}\t5\t1\t{reads}\t{grouped}\t{stall}\t0\t0\t0",
    ),
}


def lines(header, row, local="2026-03-13 13:00:{second:02}"):
    written = [header]
    for place, counts in enumerate(COUNTS):
        second = 10 * place
        count = counts["num_of_bytes_read"]
        written.append(
            row.format(
                reads=counts["num_of_reads"], bytes=count, kbytes=count // 1024, grouped=f"{count:,}",
                stall=counts["io_stall_read_ms"], uptime=5_000_000 + second * 1000,
                local=local.format(second=second), utc=f"2026-03-13 12:00:{second:02}",
                zoned=f"2026-03-13T12:00:{second:02}Z",
            )
        )  # fmt: skip
    return ("\r\n".join(written) + "\r\n").encode()


@pytest.mark.parametrize("shape", SHAPES)
def test_tables_of_public_repositories(imported, shape):
    recording = imported(lines(*SHAPES[shape]), timezone="Europe/Berlin")
    (name,) = {row["instance"] for row in recording.read("counters").to_pylist()}
    held(recording, name)


def test_counts_without_bytes_give_rates_and_latencies(imported):
    """DBA_IO_Stall_Stats and other people's own tables have none."""
    header = "SnapshotTime,DatabaseName,PhysicalName,io_stall_read_ms,num_of_reads,avg,io_stall_write_ms,num_of_writes"
    recording = imported(lines(header, "{local},sales,D:\\x.mdf,{stall},{reads},0.1,0,0"), timezone="+0100")
    found = {row["counter"]: row["value"] for row in recording.read("counters").to_pylist()}
    assert found == {name: value for name, value in CHANGES.items() if "byte" not in name}
    assert any("counts no bytes" in note for note in recording.manifest.quality.notes)


def test_rounded_numbers_are_left_out(imported):
    """Excel shows 1,638,400,000,000 as 1.6384E+12 in a narrow column, and that is what is copied."""
    header, row = SHAPES["dbo.IO_VirtualFileStats"]
    with pytest.raises(IotraceError, match="holds no snapshot") as problem:
        imported(lines(header, row.replace("{bytes}", "1.6384E+12")), timezone="+0100")
    assert "1.2E+12" in problem.value.hint


DASH = (
    "InstanceID,DatabaseID,Drive,FileID,SnapshotDate,num_of_reads,num_of_writes,num_of_bytes_read,"
    "num_of_bytes_written,io_stall_read_ms,io_stall_write_ms,sample_ms_diff"
)


def test_dba_dash_keeps_differences(imported):
    """100 reads in 10 s to each snapshot, and sums over all files that count for nothing."""
    rows = [f"1,{db},{drive},{file},2026-03-13 12:00:{second}.25,100,0,819200,0,500,0,10000"
            for second in (10, 20) for db, drive, file in ((7, "D", 4), (-1, "*", -1))]  # fmt: skip
    recording = imported(
        "\n".join([DASH + ",size_on_disk_bytes", *(row + ",8192" for row in rows), ""]).encode()
    )
    counters = recording.read("counters").to_pylist()
    assert len(counters) == 2 * len(CHANGES)
    assert all(row["value"] == CHANGES[row["counter"]] for row in counters)
    start_utc_ns = recording.manifest.clock.start_utc_ns
    ends = {start_utc_ns + row["at_ns"] - NOON_UTC_NS for row in counters}
    assert ends == {10_250_000_000, 20_250_000_000}
    assert {row["interval_ns"] for row in counters} == {10 * SECOND}
    assert any("2 lines left out: sums over files" in note for note in recording.manifest.quality.notes)
    with pytest.raises(IotraceError, match="sums over files only"):
        imported("\n".join([DASH, rows[1], rows[3], ""]).encode())


def test_hours_of_dba_dash_are_named_after_their_start(imported):
    row = "1,7,D,4,2026-03-13 12:00:00.00,36000,0,294912000,0,180000,0,3599990"
    recording = imported(f"{DASH}\n{row}\n".encode())
    counters = {row["counter"]: row for row in recording.read("counters").to_pylist()}
    reads = counters["reads per second"]
    assert reads["value"] == pytest.approx(36000 / 3599.99)
    assert recording.manifest.clock.start_utc_ns + reads["at_ns"] == NOON_UTC_NS + 3600 * SECOND
    assert reads["interval_ns"] == 3_599_990_000_000


def test_differences_of_sp_blitzfirst_s_views(imported):
    """BlitzFirst_FileStats_Deltas: megabytes with six digits, whole seconds."""
    header = (
        "ServerName,CheckDate,DatabaseID,DatabaseName,FileID,FileLogicalName,TypeDesc,PhysicalName,SizeOnDiskMB,"
        "ElapsedSeconds,SizeOnDiskMBgrowth,io_stall_read_ms,io_stall_read_ms_average,num_of_reads,megabytes_read,"
        "io_stall_write_ms,io_stall_write_ms_average,num_of_writes,megabytes_written,JoinKey"
    )
    row = f"SQL1,2026-03-13 13:00:10 +01:00,5,sales,1,x,ROWS,{PATH},100,10,0,500,5,100,0.781250,0,0,0,0.000000,x"
    recording = imported(f"{header}\n{row}\n".encode())
    counters = recording.read("counters").to_pylist()
    assert {row["counter"]: row["value"] for row in counters} == CHANGES
    assert {row["instance"] for row in counters} == {PATH}
    (file,) = recording.read("files").to_pylist()
    assert file["size_bytes"] == 100 << 20
    waits = (
        "ServerName,CheckDate,wait_type,WaitCategory,Ignorable,ElapsedSeconds,wait_time_ms_delta,"
        "wait_time_minutes_delta,wait_time_minutes_per_minute,signal_wait_time_ms_delta,waiting_tasks_count_delta,JoinKey\n"
        "SQL1,2026-03-13 13:00:10 +01:00,WRITELOG,Tran Log IO,0,20,4000,0.06,0.2,0,40,x\n"
    )
    found = {row["counter"]: row["value"] for row in imported(waits.encode()).read("counters").to_pylist()}
    assert (found["mean wait"], found["waits per second"]) == (100_000_000, 2)


@pytest.mark.parametrize(
    ("change", "words", "way_out"),
    [
        ({"SampleDate": None}, "without the time of each snapshot", "SYSUTCDATETIME"),
        (
            {"io_stall_read_ms": "io_stalls_reading_ms"},
            "without io_stall_read_ms",
            "'io_stalls_reading_ms' io_stall_read_ms?",
        ),
        ({"num_of_reads": None, "num_of_writes": None}, "without num_of_reads", "docs/formats.md"),
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


def test_a_time_of_an_unusual_name_is_found_where_it_is_the_only_one(imported):
    rows = [
        {"BatchStamp" if key == "SampleDate" else key: value for key, value in row.items()} for row in GERMAN
    ]
    held(imported(text(rows), timezone="+0100"), "database 5 file 1")
    with pytest.raises(IotraceError, match="without the time of each snapshot") as problem:
        imported(text([row | {"ValidDate": "13.03.2026 13:00:00"} for row in rows]), timezone="+0100")
    assert "batchstamp" in problem.value.hint.lower()


def test_inspect_says_that_times_are_local(tmp_path):
    path = tmp_path / "files.csv"
    path.write_bytes(text(GERMAN))
    assert dmv.inspect(path, "files.csv")["times"] == "local"


def database(path, *tables):
    """A database as PerformanceMonitor Lite makes it, and a view that would read another file."""
    with duckdb.connect(str(path)) as connection:
        for name, rows in tables:
            connection.register("rows", pa.Table.from_pylist(rows))
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * "
                "REPLACE (CAST(collection_time AS TIMESTAMP) AS collection_time) FROM rows"
            )
            connection.unregister("rows")
        connection.execute("CREATE TABLE memory_stats (collection_time TIMESTAMP, used_mb INTEGER)")
        connection.execute("CREATE VIEW v_file_io_stats AS SELECT * FROM read_csv('/etc/passwd')")
    return path.read_bytes()


LITE_WAITS = [
    {"collection_time": f"2026-03-13 12:00:{second:02}", "server_id": 3, "server_name": "SQL1", "wait_type": "WRITELOG",
     "waiting_tasks_count": count, "wait_time_ms": total, "signal_wait_time_ms": 0, "delta_wait_time_ms": 0}
    for second, total, count in ((0, 100, 10), (20, 4100, 50))
]  # fmt: skip


def test_a_database_of_performance_monitor_lite(imported, tmp_path):
    data = database(tmp_path / "made.duckdb", ("file_io_stats", LITE), ("wait_stats", LITE_WAITS))
    recording = imported(data, "monitor.duckdb")
    assert recording.manifest.clock.start_utc_ns == NOON_UTC_NS
    rows = recording.read("counters").to_pylist()
    files = {row["counter"]: row["value"] for row in rows if row["instance"] == PATH}
    waits = {row["counter"]: row["value"] for row in rows if row["instance"] == "WRITELOG"}
    assert files == CHANGES
    assert (waits["mean wait"], waits["waits per second"]) == (100_000_000, 2)
    (file,) = recording.read("files").to_pylist()
    assert (file["path"], file["role"], file["database"]) == (PATH, "data", "sales")
    assert dmv_database.inspect(tmp_path / "monitor.duckdb", "x")["tables"].keys() == {
        "file_io_stats",
        "wait_stats",
    }


def test_a_database_in_a_zip(imported, tmp_path):
    data = database(tmp_path / "made.duckdb", ("file_io_stats", LITE))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("monitor.duckdb", data)
    held(imported(packed.getvalue(), "monitor.zip"), PATH)


def test_databases_that_hold_no_snapshots_are_named(imported, tmp_path):
    with pytest.raises(IotraceError, match="a DuckDB database") as problem:
        imported(database(tmp_path / "made.duckdb"), "other.duckdb")
    assert "file_io_stats" in problem.value.hint
    data = database(tmp_path / "second.duckdb", ("file_io_stats", LITE))
    with pytest.raises(IotraceError, match="cannot be read as a DuckDB database"):
        imported(data[: len(data) // 3], "cut.duckdb")


def test_archived_parquet_in_a_zip(imported):
    data = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(LITE), data)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("archive/202603_file_io_stats.parquet", data.getvalue())
    held(imported(packed.getvalue(), "archive.zip"), PATH)


def test_waits_of_dba_dash_need_their_names(imported):
    header = (
        "InstanceID,SnapshotDate,{},waiting_tasks_count,wait_time_ms,signal_wait_time_ms,sample_ms_diff\n"
    )
    row = "1,2026-03-13 12:00:20.5,{},40,4000,0,20000\n"
    with pytest.raises(IotraceError, match="without wait_type") as problem:
        imported((header.format("WaitTypeID") + row.format(7)).encode())
    assert "dbo.WaitType" in problem.value.hint
    rows = (
        imported((header.format("WaitType") + row.format("WRITELOG")).encode()).read("counters").to_pylist()
    )
    found = {row["counter"]: row["value"] for row in rows}
    assert (found["mean wait"], found["waits per second"]) == (100_000_000, 2)
    assert {(row["instance"], row["interval_ns"]) for row in rows} == {("WRITELOG", 20 * SECOND)}


@pytest.mark.parametrize(
    ("names", "instance"),
    [
        ({"database_name": "sales", "file_id": 1}, "sales 1"),
        ({"database_id": 7, "logical_name": "sales_data"}, "7 sales_data"),
        ({"Database": "sales", "File": "sales_data"}, "sales sales_data"),
        ({"Database": "sales", "File": PATH}, PATH),
        ({"Database": "sales", "File": "/var/opt/mssql/sales.mdf"}, "/var/opt/mssql/sales.mdf"),
    ],
)
def test_a_file_is_told_by_whatever_names_it(imported, names, instance):
    rows = rows_of(("2026-03-13T12:00:00Z", "2026-03-13T12:00:10Z"), {"time": "capture_time"}, **names)
    held(imported(text(rows)), instance)


def test_files_of_two_databases_with_the_same_number_are_two(imported):
    times = ("2026-03-13T12:00:00Z", "2026-03-13T12:00:10Z")
    rows = [
        row
        for name in ("sales", "tempdb")
        for row in rows_of(times, {"time": "capture_time"}, database_name=name, file_id=1)
    ]
    recording = imported(text(rows))
    assert {(row["path"], row["database"]) for row in recording.read("files").to_pylist()} == {
        ("sales 1", "sales"),
        ("tempdb 1", "tempdb"),
    }
    rates = {
        row["instance"]: row["value"]
        for row in recording.read("counters").to_pylist()
        if row["counter"] == "reads per second"
    }
    assert rates == {"sales 1": 10, "tempdb 1": 10}


@pytest.mark.parametrize(
    "times",
    [
        ("2026/3/13 13:00:00", "2026/3/13 13:00:10"),
        ("2026.3.13 13:00:00", "2026.3.13 13:00:10"),
        ("2026-03-13 1:00:00 PM", "2026-03-13 1:00:10 PM"),
        ("2026-03-13 01:00:00 p.m.", "2026-03-13 01:00:10 p.m."),
    ],
    ids=["Japan", "Hungary", "Canada", "Canada, newer"],
)
def test_dates_as_regions_write_them(imported, times):
    rows = [row | {"SampleDate": at} for row, at in zip(GERMAN, times, strict=True)]
    held(imported(text(rows), timezone="+0100"), "database 5 file 1")


def test_a_number_that_is_one_or_a_thousand_of_it_is_neither(imported):
    """15.000 is fifteen in English and fifteen thousand in German: its line is left out, and what is plain counts."""
    head = "Zeitpunkt;wait_type;waiting_tasks_count;wait_time_ms;signal_wait_time_ms"
    lines = ["13.03.2026 13:00:00;WRITELOG;0;0;0", "13.03.2026 13:00:05;WRITELOG;1;15.000;0",
             "13.03.2026 13:00:10;WRITELOG;100.0;1.234.000;0"]  # fmt: skip
    recording = imported("\r\n".join([head, *lines, ""]).encode(), timezone="+0100")
    told = {
        row["counter"]: (row["interval_ns"], row["value"]) for row in recording.read("counters").to_pylist()
    }
    assert told["mean wait"] == (10 * SECOND, 1_234_000 / 100 * 1_000_000)
    assert any(note.startswith("1 line left out") for note in recording.manifest.quality.notes)
