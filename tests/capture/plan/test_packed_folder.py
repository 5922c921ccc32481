"""What collect.ps1 packs, iotrace imports in one go: every kind of file that a plan brings home, on one clock."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from iotrace.capture.importing.anonymizing import Anonymizer
from iotrace.capture.importing.inspecting import inspect_path
from iotrace.capture.importing.recognition import recognise
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

from .conftest import FIXTURES, etl_build, perfmon_build, plan_of, text_of, xel_build

SECOND_TICKS = 10_000_000
# 2026-03-01 12:00 UTC as a FILETIME: everything was recorded in the same quarter of an hour.
NOON = (
    (datetime(2026, 3, 1, 12, tzinfo=UTC) - datetime(1601, 1, 1, tzinfo=UTC))
    // timedelta(microseconds=1)
    * 10
)
LENGTH_S, EVERY_S = 900, 15
"""Counters and snapshots are taken all the while that traces run, as the plan has it."""
SALES = "D:\\data\\Sales.mdf"

KERNEL_SALES = "\\Device\\HarddiskVolume4\\data\\Sales.mdf"
VOLUMES = 'volume_device,volume_path\r\n"\\Device\\HarddiskVolume4","D:\\"\r\n'


def kernel_trace(offset: int = 4096, path: str = KERNEL_SALES) -> bytes:
    done, end = etl_build.T0 + SECOND_TICKS, etl_build.T0 + LENGTH_S * SECOND_TICKS
    read = etl_build.transfer(offset=offset, size=8192, key=0xABC, irp=5)
    return etl_build.log(
        [
            etl_build.extension(etl_build.T0, 0x303),
            etl_build.perfinfo(etl_build.READ, done, read),
            # Names of files that were open all along come when the session stops.
            etl_build.perfinfo(etl_build.FILE_RUNDOWN, end, etl_build.name(0xABC, path)),
        ],
        start=NOON,
        end=NOON + LENGTH_S * SECOND_TICKS,
    )


def storport_trace() -> bytes:
    done = etl_build.T0 + SECOND_TICKS
    dispatch = etl_build.request_dispatch(irp=6, block=8, original=5)
    timed = etl_build.request_timed(duration=4_000, irp=6, original=5)
    return etl_build.log(
        [
            etl_build.manifest(etl_build.STORPORT_GUID, 202, done - 5_000, dispatch, version=2),
            etl_build.manifest(etl_build.STORPORT_GUID, 201, done, timed, version=2),
        ],
        start=NOON,
        end=NOON + LENGTH_S * SECOND_TICKS,
    )


def extended_events(monkeypatch: pytest.MonkeyPatch, path: str = SALES) -> bytes:
    monkeypatch.setattr(xel_build, "BASE", NOON)
    io = {"database_id": 7, "file_id": 1, "size": 8192, "duration": 3, "path": path, "offset": 0}
    events = [
        xel_build.event("file_read_completed", second * SECOND_TICKS, io, {"event_sequence": second})
        for second in (1, LENGTH_S - 1)
    ]
    return xel_build.file(events)


def counter_log(monkeypatch: pytest.MonkeyPatch) -> bytes:
    local = NOON + 3600 * SECOND_TICKS
    monkeypatch.setattr(perfmon_build, "START_UTC", NOON)
    monkeypatch.setattr(perfmon_build, "LOCAL", local)
    rate = 0x10410400
    entry = perfmon_build.entry(rate, "PhysicalDisk", "Disk Reads/sec", instance="0 D:", hertz=SECOND_TICKS)
    samples = [
        [
            perfmon_build.single(
                10 * second, (700 + second) * SECOND_TICKS, local=local + second * SECOND_TICKS
            )
        ]
        for second in range(0, LENGTH_S + 1, EVERY_S)
    ]
    end = NOON + LENGTH_S * SECOND_TICKS
    return perfmon_build.samples_log([entry], samples, step=EVERY_S * SECOND_TICKS, end=end)


def cell(value: object) -> str:
    return '"' + str(value).replace('"', '""') + '"'


def file_stats(reads: int, second: int, path: str = SALES) -> str:
    at = f"2026-03-01T12:{second // 60:02}:{second % 60:02}.1234567"
    row = [at, "SQL01", "2026-02-01T06:00:00.123", 7, 1, 1000 * second, reads,
           reads * 8192, reads * 2, "", 0, 0, 0, "", 1 << 30, "ROWS", "Sales", path]  # fmt: skip
    return ",".join(cell(value) for value in row) + "\r\n"


def snapshots_csv(plan, path: str = SALES) -> str:
    """As Add-Snapshot in sql.ps1 writes it: names of the columns once, every cell quoted, NULL empty, CR LF."""
    script = text_of(plan, "sql.ps1")
    assert "($names -join ',') + \"`r`n\"" in script
    assert """'"' + (Format-Cell $row[$_]).Replace('"', '""') + '"'""" in script
    from iotrace.capture.formats.windows.dmv_columns import FILE_STATS_COLUMNS

    rows = "".join(
        file_stats(reads, at, path) for reads, at in ((1000, 0), (3000, EVERY_S), (3001, LENGTH_S))
    )
    return ",".join(FILE_STATS_COLUMNS) + "\r\n" + rows


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A folder as collect.ps1 leaves it."""
    plan = plan_of("default")
    collect = text_of(plan, "collect.ps1")
    assert "$_.Extension -in '.etl', '.blg', '.csv'" in collect
    assert "-Filter '*.xel'" in collect
    assert "Move-Item -LiteralPath $FactsFolder -Destination $packed" in collect
    folder = tmp_path / "iotrace_0a1b2c-SQL01-20260301-1300"
    (folder / "facts").mkdir(parents=True)
    (folder / "kernel.etl").write_bytes(kernel_trace())
    (folder / "storport.etl").write_bytes(storport_trace())
    (folder / "sql_0_134000000000000000.xel").write_bytes(extended_events(monkeypatch))
    (folder / "counters_000001.blg").write_bytes(counter_log(monkeypatch))
    (folder / "file-stats.csv").write_bytes(snapshots_csv(plan).encode())
    (folder / "wait-stats.csv").write_bytes((FIXTURES / "dmv" / "waits_ssms.csv").read_bytes())
    script = text_of(plan, "facts.ps1")
    assert VOLUMES.startswith("volume_device,volume_path\r\n")
    assert "$lines = @('volume_device,volume_path')" in script
    assert """\'"{0}","{1}"\' -f $device, $place""" in script
    facts = {
        "volumes-before.csv": VOLUMES,
        "volumes-after.csv": VOLUMES,
        "host-before.json": '{"power_plan": ["Balanced"]}',
        "session-losses.txt": "capture_utc,dropped_event_count,dropped_buffer_count\r\n2026-03-01T12:00:00,0,0\r\n",
        "losses.txt": "kernel.etl: 0 events and 0 buffers lost\r\n",
        "log.txt": "2026-03-01 12:00:00 UTC  D: has 90,000 MB free; this plan writes 17,408 MB at most\r\n",
        "kernel-session.txt": "Name:                 NT Kernel Logger\r\n",
    }
    for name, text in facts.items():
        (folder / "facts" / name).write_text(text)
    return folder


def test_everything_a_plan_brings_home_becomes_one_recording(packed, tmp_path):
    recording = import_files([packed], tmp_path / "production.iotrace")
    assert validate(recording.path) == []
    layers = {(row["layer"], row["op"], row["size_bytes"]) for row in recording.read("io").to_pylist()}
    assert layers == {("block", "read", 8192), ("device", "read", 8192), ("sql", "read", 8192)}
    kinds = {source.kind for source in recording.manifest.sources}
    assert kinds == {"etl", "xel", "blg", "dmv", "volumes"}
    assert recording.manifest.clock.start_utc_ns == (NOON - 116_444_736_000_000_000) * 100
    # The kernel's trace, the events and the snapshots tell of one file: SQL Server and the kernel name it differently.
    (file,) = recording.read("files").to_pylist()
    assert (file["path"], file["role"], file["database"]) == (SALES, "data", "Sales")
    of_layers = {(row["layer"], row["file_id"]) for row in recording.read("io").to_pylist()}
    assert of_layers >= {("block", file["file_id"]), ("sql", file["file_id"])}
    notes = recording.manifest.quality.notes
    assert [note for note in notes if "left out, not a trace" in note and "host-before.json" in note]
    # The traces overlap, but each is of a layer of its own.
    assert not [note for note in notes if "counts twice" in note]
    # 2,000 reads of 2 ms each in 15 s, from the snapshots.
    means = [
        row["value"]
        for row in recording.read("counters").to_pylist()
        if row["counter"] == "mean read latency" and row["value"]
    ]
    assert 2e6 in means


def test_the_zip_of_it_is_taken_too(packed, tmp_path):
    """As collect.ps1 -Zip makes it: without the folder itself."""
    archive = shutil.make_archive(str(packed), "zip", packed)
    recording = import_files([archive], tmp_path / "production.iotrace")
    assert {row["layer"] for row in recording.read("io").to_pylist()} == {"block", "device", "sql"}


def test_nothing_unpacked_is_open_when_it_is_removed(packed, tmp_path, monkeypatch):
    """Windows removes no open file; on Linux one is seen among the process's own."""
    remove, still_open = shutil.rmtree, []

    def look_and_remove(folder, **options):
        found = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
        if "-spill-" in Path(folder).name:
            still_open.append([path.name for path in found if path.is_relative_to(folder)])
        remove(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", look_and_remove)
    archive = shutil.make_archive(str(packed), "zip", packed)
    import_files([archive], tmp_path / "production.iotrace")
    assert [] in still_open
    assert not [names for names in still_open if names]


def test_two_traces_of_one_layer_are_told_to_count_twice(packed, tmp_path):
    (packed / "kernel-again.etl").write_bytes(kernel_trace(offset=8192))
    notes = import_files([packed], tmp_path / "production.iotrace").manifest.quality.notes
    (note,) = [note for note in notes if "counts twice" in note]
    assert "kernel.etl" in note
    assert "kernel-again.etl" in note


def test_facts_are_taken_for_no_trace(packed):
    for path in (packed / "facts").iterdir():
        found = recognise(path.read_bytes(), path)
        assert (found and found.name) == ("volumes" if path.name.startswith("volumes-") else None)


MOUNTED = "C:\\mnt\\log\\Sales.dat"


@pytest.fixture
def mounted(packed, monkeypatch):
    """The file's volume has a drive of its own and a folder: SQL Server uses the folder, and calls the file a log."""
    volumes = (
        VOLUMES + '"\\Device\\HarddiskVolume3","C:\\"\r\n"\\Device\\HarddiskVolume4","C:\\mnt\\log\\"\r\n'
    )
    (packed / "facts" / "volumes-after.csv").write_text(volumes)
    (packed / "kernel.etl").write_bytes(kernel_trace(path="\\DEVICE\\HarddiskVolume4\\Sales.dat"))
    for path in packed.glob("*.xel"):
        path.write_bytes(extended_events(monkeypatch, MOUNTED))
    snapshots = snapshots_csv(plan_of("default"), MOUNTED).replace('"ROWS"', '"LOG"')
    (packed / "file-stats.csv").write_bytes(snapshots.encode())
    return packed


def test_what_sql_server_says_of_a_file_goes_before_guesses(mounted, tmp_path):
    """The name says nothing, the events guess by the file's number, the snapshots know. Also where they begin last."""
    text = (mounted / "file-stats.csv").read_text("utf-8")
    later = text.replace("T12:00:00", "T12:00:20").replace("T12:00:15", "T12:00:35")
    (mounted / "file-stats.csv").write_bytes(later.encode())
    (file,) = import_files([mounted], tmp_path / "x.iotrace").read("files").to_pylist()
    assert (file["path"], file["role"], file["database"]) == (MOUNTED, "log", "Sales")


def test_volumes_are_for_their_own_folder_alone(mounted, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (mounted / "kernel.etl").rename(other / "kernel.etl")
    files = import_files([mounted, other], tmp_path / "x.iotrace").read("files").to_pylist()
    assert {file["path"] for file in files} == {MOUNTED, "\\DEVICE\\HarddiskVolume4\\Sales.dat"}


def test_a_volume_known_by_no_path_keeps_the_kernels_name(packed, tmp_path):
    for path in (packed / "facts").glob("volumes-*"):
        path.write_text('volume_device,volume_path\r\n"\\Device\\HarddiskVolume40","D:\\"\r\nnonsense\r\n')
    files = import_files([packed], tmp_path / "x.iotrace").read("files").to_pylist()
    assert {file["path"] for file in files} == {SALES, KERNEL_SALES}


def test_anonymizing_hides_translated_paths(mounted, tmp_path):
    recording = import_files([mounted], tmp_path / "x.iotrace", anonymizer=Anonymizer("key"))
    (file,) = recording.read("files").to_pylist()
    assert file["path"].startswith("C:\\")
    assert file["role"] == "log"
    told = (recording.path / "manifest.json").read_text("utf-8") + str(file)
    assert not [word for word in ("Sales", "mnt", "HarddiskVolume") if word in told]


def test_volumes_without_a_trace_are_no_recording(packed, tmp_path):
    with pytest.raises(IotraceError, match="holds no I/O"):
        import_files([packed / "facts" / "volumes-before.csv"], tmp_path / "x.iotrace")
    facts = inspect_path(packed / "facts" / "volumes-before.csv").traces[0].facts
    assert facts == {"format": "volumes", "whole": True, "volumes": 1, "lines_left_out": 0}


def busy_trace() -> bytes:
    """10 reads a second for five minutes, from a minute after noon."""
    reads = [
        etl_build.perfinfo(
            etl_build.READ,
            etl_build.T0 + SECOND_TICKS // 20 + number * SECOND_TICKS // 10,
            etl_build.transfer(offset=8192 * number, size=8192, irp=number),
        )
        for number in range(3000)
    ]
    return etl_build.log(
        [etl_build.extension(etl_build.T0, 0x303), *reads],
        start=NOON + 60 * SECOND_TICKS,
        end=NOON + 360 * SECOND_TICKS,
    )


def test_rates_are_over_the_time_in_which_ios_were_recorded(packed, tmp_path):
    """Counters and snapshots begin a minute before the traces do, and may end later."""
    for path in (*packed.glob("*.xel"), packed / "storport.etl"):
        path.unlink()
    (packed / "kernel.etl").write_bytes(busy_trace())
    recording = import_files([packed], tmp_path / "x.iotrace")
    manifest = recording.manifest
    assert manifest.clock.start_utc_ns == (NOON + 60 * SECOND_TICKS - 116_444_736_000_000_000) * 100
    assert manifest.window_start_ns == 0
    assert 3000 / (manifest.window_end_ns / 1e9) == pytest.approx(10, rel=0.001)
    # The clock and the host are those of the trace: counters count milliseconds and know less of the host.
    assert manifest.clock.resolution_ns < 1000
    assert manifest.host.processors
    times = recording.read("counters")["at_ns"].to_pylist()
    assert min(times) == (EVERY_S - 60) * SECOND_TICKS * 100
    assert validate(recording.path) == []


def test_without_any_io_the_window_is_that_of_the_counters(packed, tmp_path):
    """A trace of a minute in which nothing happened must not cut the quarter of an hour that snapshots tell of."""
    for path in (*packed.glob("*.xel"), packed / "storport.etl"):
        path.unlink()
    nothing = [etl_build.extension(etl_build.T0, 0x303)]
    end = NOON + 60 * SECOND_TICKS
    (packed / "kernel.etl").write_bytes(etl_build.log(nothing, start=NOON + 30 * SECOND_TICKS, end=end))
    recording = import_files([packed], tmp_path / "x.iotrace")
    times = recording.read("counters")["at_ns"].to_pylist()
    manifest = recording.manifest
    assert manifest.rows["io"] == 0
    assert manifest.window_start_ns <= min(times)
    assert max(times) <= manifest.window_end_ns


def test_a_layer_that_was_recorded_for_a_part_is_named(packed, tmp_path, monkeypatch):
    """The session of Extended Events ended after 1 s of 300: a restart of SQL Server ends it."""
    (packed / "kernel.etl").write_bytes(busy_trace())
    (packed / "storport.etl").unlink()
    monkeypatch.setattr(xel_build, "BASE", NOON + 60 * SECOND_TICKS)
    io = {"database_id": 7, "file_id": 1, "size": 8192, "duration": 3, "path": SALES, "offset": 0}
    events = [
        xel_build.event("file_read_completed", second * SECOND_TICKS, io, {"event_sequence": second})
        for second in (1, 2)
    ]
    for path in packed.glob("*.xel"):
        path.write_bytes(xel_build.file(events))
    (part,) = import_files([packed], tmp_path / "x.iotrace").manifest.quality.part_recorded
    assert str(part) == "layer sql was recorded for 1.0 s of 299.9 s: its rates over the whole are too low"
