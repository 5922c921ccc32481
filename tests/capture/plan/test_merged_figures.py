"""Every figure of a plan's own files after they were merged, against what was planted in them, reckoned by hand.

A quarter of an hour on two disks, D: with Sales.mdf and L: with its log; counters and snapshots every 450 s.
"""

import pytest

from iotrace.capture.formats.windows.dmv_columns import FILE_STATS_COLUMNS
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

from .conftest import etl_build, perfmon_build, xel_build
from .test_packed_folder import LENGTH_S, NOON, SECOND_TICKS, cell

DATA, LOG = "D:\\data\\Sales.mdf", "L:\\log\\Sales.ldf"
VOLUMES = 'volume_device,volume_path\r\n"\\Device\\HarddiskVolume4","D:\\"\r\n"\\Device\\HarddiskVolume5","L:\\"\r\n'
MS_TICKS = 10_000
MIB = 1 << 20
RATE, MEAN = 0x10410400, 0x30020400
WAITS_HEAD = (
    "capture_utc,server_name,sqlserver_start_time,wait_type,waiting_tasks_count,wait_time_ms,"
    "max_wait_time_ms,signal_wait_time_ms\r\n"
)


def at(second):
    return etl_build.T0 + second * SECOND_TICKS


def log_of(*events):
    return etl_build.log(list(events), start=NOON, end=NOON + LENGTH_S * SECOND_TICKS)


def kernel():
    read = etl_build.transfer(disk=0, offset=MIB, size=65_536, key=0xA, irp=5, response=5 * MS_TICKS)
    write = etl_build.transfer(disk=1, offset=4096, size=4096, key=0xB, irp=7, response=3000)
    names = {
        0xA: "\\Device\\HarddiskVolume4\\data\\Sales.mdf",
        0xB: "\\Device\\HarddiskVolume5\\log\\Sales.ldf",
    }
    return log_of(
        etl_build.extension(at(0), 0x303),
        etl_build.perfinfo(etl_build.READ, at(10), read),
        etl_build.perfinfo(etl_build.WRITE, at(20), write),
        *(
            etl_build.perfinfo(etl_build.FILE_RUNDOWN, at(LENGTH_S), etl_build.name(key, path))
            for key, path in names.items()
        ),
    )


def storport():
    dispatch = etl_build.request_dispatch(irp=6, block=MIB // 512, blocks=128, original=5)
    timed = etl_build.request_timed(duration=4 * MS_TICKS, irp=6, original=5, size=65_536)
    return log_of(
        etl_build.manifest(etl_build.STORPORT_GUID, 202, at(10) - 4 * MS_TICKS, dispatch, version=2),
        etl_build.manifest(etl_build.STORPORT_GUID, 201, at(10), timed, version=2),
    )


def events():
    read = {"database_id": 7, "file_id": 1, "size": 65_536, "duration": 6, "path": DATA, "offset": 81_920}
    write = {"database_id": 7, "file_id": 2, "size": 4096, "duration": 1, "path": LOG, "offset": 512}
    return xel_build.file([
        xel_build.event("file_read_completed", 10 * SECOND_TICKS, read, {"event_sequence": 1}),
        xel_build.event("file_write_completed", 20 * SECOND_TICKS, write, {"event_sequence": 2}),
    ])  # fmt: skip


def counters():
    """4,500 reads of 5 ms on D:, then 9,000 of 2 ms; on L: 900 writes, then 450."""
    local = NOON + 3600 * SECOND_TICKS
    entries = [
        perfmon_build.entry(kind, "PhysicalDisk", counter, instance=disk, hertz=SECOND_TICKS)
        for kind, counter, disk in (
            (RATE, "Disk Reads/sec", "0 D:"),
            (MEAN, "Avg. Disk sec/Read", "0 D:"),
            (RATE, "Disk Writes/sec", "1 L:"),
        )
    ]
    totals = ((0, 0, 0), (4500, 22_500, 900), (13_500, 40_500, 1350))
    samples = []
    for number, (reads, read_ms, writes) in enumerate(totals):
        second = 450 * number
        told = local + second * SECOND_TICKS
        ticks = (700 + second) * SECOND_TICKS
        samples.append([
            perfmon_build.single(reads, ticks, local=told),
            perfmon_build.single(read_ms * MS_TICKS, reads, local=told),
            perfmon_build.single(writes, ticks, local=told),
        ])  # fmt: skip
    return perfmon_build.samples_log(
        entries, samples, step=450 * SECOND_TICKS, end=NOON + LENGTH_S * SECOND_TICKS
    )


def snapshots():
    lines = [",".join(FILE_STATS_COLUMNS)]
    totals = {
        (1, "ROWS", DATA): ((1000, 2000, 0, 0), (5500, 29_000, 0, 0), (14_500, 56_000, 0, 0)),
        (2, "LOG", LOG): ((0, 0, 100, 100), (0, 0, 550, 550), (0, 0, 1000, 1450)),
    }
    for number in range(3):
        minutes, seconds = divmod(450 * number, 60)
        for (file, kind, path), counts in totals.items():
            reads, read_ms, writes, write_ms = counts[number]
            row = [f"2026-03-01T12:{minutes:02}:{seconds:02}.0000000", "SQL01", "2026-02-01T06:00:00.123", 7, file,
                   450_000 * number, reads, reads * 8192, read_ms, "", writes, writes * 4096, write_ms, "", 1 << 30,
                   kind, "Sales", path]  # fmt: skip
            lines.append(",".join(map(cell, row)))
    return "\r\n".join([*lines, ""])


def waits():
    totals = ((100, 5000, 10), (550, 5450, 55), (1450, 7250, 145))
    lines = [
        f"2026-03-01T12:{450 * number // 60:02}:{450 * number % 60:02},SQL01,2026-02-01T06:00:00.123,WRITELOG,"
        f"{tasks},{wait_ms},900,{signal_ms}\r\n"
        for number, (tasks, wait_ms, signal_ms) in enumerate(totals)
    ]
    return WAITS_HEAD + "".join(lines)


@pytest.fixture
def brought(tmp_path, monkeypatch):
    monkeypatch.setattr(xel_build, "BASE", NOON)
    monkeypatch.setattr(perfmon_build, "START_UTC", NOON)
    monkeypatch.setattr(perfmon_build, "LOCAL", NOON + 3600 * SECOND_TICKS)
    folder = tmp_path / "iotrace_0a1b2c-SQL01-20260301-1300"
    (folder / "facts").mkdir(parents=True)
    (folder / "kernel.etl").write_bytes(kernel())
    (folder / "storport.etl").write_bytes(storport())
    (folder / "sql_0_134000000000000000.xel").write_bytes(events())
    (folder / "counters_000001.blg").write_bytes(counters())
    (folder / "file-stats.csv").write_text(snapshots(), newline="")
    (folder / "wait-stats.csv").write_text(waits(), newline="")
    (folder / "facts" / "volumes-after.csv").write_text(VOLUMES, newline="")
    return folder


def test_every_io(brought, tmp_path):
    recording = import_files([brought], tmp_path / "production.iotrace")
    assert validate(recording.path) == []
    paths = {row["file_id"]: row["path"] for row in recording.read("files").to_pylist()} | {None: None}
    disks = {row["device_id"]: row["name"] for row in recording.read("devices").to_pylist()} | {None: None}
    ms = 1_000_000
    rows = {
        (row["layer"], row["op"], row["completed_ns"], row["completed_ns"] - row["issued_ns"], row["offset_bytes"],
         row["size_bytes"], disks[row["device_id"]], paths[row["file_id"]])
        for row in recording.read("io").to_pylist()
    }  # fmt: skip
    assert rows == {
        ("block", "read", 10_000 * ms, 5 * ms, MIB, 65_536, "disk 0", DATA),
        ("block", "write", 20_000 * ms, 300_000, 4096, 4096, "disk 1", LOG),
        ("device", "read", 10_000 * ms, 4 * ms, MIB, 65_536, None, None),
        ("sql", "read", 10_000 * ms, 6 * ms, 81_920, 65_536, None, DATA),
        ("sql", "write", 20_000 * ms, 1 * ms, 512, 4096, None, LOG),
    }
    assert {(row["path"], row["role"], row["database"]) for row in recording.read("files").to_pylist()} == {
        (DATA, "data", "Sales"),
        (LOG, "log", "Sales"),
    }


def test_every_counter(brought, tmp_path):
    recording = import_files([brought], tmp_path / "production.iotrace")
    found = {
        (row["instance"], row["counter"], row["at_ns"] / 1e9): row["value"]
        for row in recording.read("counters").to_pylist()
    }
    expected = {
        ("0 D:", "Disk Reads/sec"): (10, 20),
        ("0 D:", "Avg. Disk sec/Read"): (5e6, 2e6),
        ("1 L:", "Disk Writes/sec"): (2, 1),
        (DATA, "reads per second"): (10, 20),
        (DATA, "read bytes per second"): (81_920, 163_840),
        (DATA, "mean read latency"): (6e6, 3e6),
        (DATA, "writes per second"): (0, 0),
        (DATA, "write bytes per second"): (0, 0),
        (LOG, "reads per second"): (0, 0),
        (LOG, "read bytes per second"): (0, 0),
        (LOG, "writes per second"): (1, 1),
        (LOG, "write bytes per second"): (4096, 4096),
        (LOG, "mean write latency"): (1e6, 2e6),
        ("WRITELOG", "waits per second"): (1, 2),
        ("WRITELOG", "waiting tasks"): (0.001, 0.004),
        ("WRITELOG", "mean wait"): (1e6, 2e6),
        ("WRITELOG", "mean wait for a processor"): (1e5, 1e5),
    }
    reckoned = {
        (instance, counter, second): value
        for (instance, counter), values in expected.items()
        for second, value in zip((450.0, 900.0), values, strict=True)
    }
    assert found == pytest.approx(reckoned)
