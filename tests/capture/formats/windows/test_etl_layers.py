"""File operations, port driver requests and manifest twins: no public trace shows them; every value here is planted."""

import importlib.util
from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IoFlags, validate

_SPEC = importlib.util.spec_from_file_location(
    "etl_build", Path(__file__).parents[3] / "fixtures" / "etl" / "build.py"
)
etl = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(etl)
T0 = etl.T0
IO_DEVICE_ERROR = 0xC0000185 - (1 << 32)
END_OF_FILE = 0xC0000011 - (1 << 32)


@pytest.fixture
def imported(tmp_path):
    """Import events as one log; returns the recording."""

    def run(events, name="trace", **options):
        path = tmp_path / f"{name}.etl"
        path.write_bytes(etl.log(events, **options))
        recording = import_files([path], tmp_path / f"{name}.iotrace")
        assert validate(recording.path) == []
        return recording

    return run


def rows(recording, layer):
    return [row for row in recording.read("io").to_pylist() if row["layer"] == layer]


def start(kind, at, *, version=3, pointer=8, header_thread=5, process=9, **fields):
    payload = etl.operation(kind, version=version, pointer=pointer, **fields)
    return etl.system(
        etl.OPERATIONS[kind], T0 + at, payload, version=version, pointer=pointer, thread=header_thread,
        process=process,
    )  # fmt: skip


def end(irp, at, *, version=3, pointer=8, **fields):
    payload = etl.operation_end(irp, pointer=pointer, **fields)
    return etl.system(etl.OPERATION_END, T0 + at, payload, version=version, pointer=pointer)


@pytest.mark.parametrize("pointer", [4, 8])
@pytest.mark.parametrize(("version", "extra"), [(2, False), (3, False), (3, True)])
def test_operations_in_every_version(imported, version, extra, pointer):
    """A version 2 read and a version 3 read with its extra word both have 48 bytes: only the version tells."""
    form = {"version": version, "pointer": pointer}
    sizes = {
        len(etl.operation("read", version=2)),
        len(etl.operation("read", version=3, extra=True)),
    }
    assert sizes == {48}
    fields = {"key": 11, "opened": 22, "thread": 77}
    events = [
        start("read", 10, irp=1, offset=1 << 40, size=8192, flags=0x60043, extra=extra, **fields, **form),
        end(1, 30, moved=8192, **form),
        start("write", 40, irp=2, offset=12_345, size=100, extra=extra, **fields, **form),
        end(2, 45, moved=100, **form),
        start("flush", 50, irp=3, **fields, **form),
        end(3, 90, **form),
        etl.system(etl.FILE_RUNDOWN, T0 + 99, etl.name(11, "\\x\\A.mdf", pointer=pointer), pointer=pointer),
    ]
    recording = imported(events, pointer=pointer)
    read, write, flush = rows(recording, "filesystem")
    assert (read["op"], read["offset_bytes"], read["size_bytes"], read["issued_ns"], read["completed_ns"]) == (
        "read", 1 << 40, 8192, 1_000, 3_000,
    )  # fmt: skip
    assert read["flags"] == IoFlags.NO_CACHE | IoFlags.PAGING | IoFlags.SYNCHRONOUS
    assert (write["op"], write["offset_bytes"], write["size_bytes"], write["completed_ns"]) == (
        "write", 12_345, 100, 4_500,
    )  # fmt: skip
    assert not write["flags"]  # a file may be written at any byte
    assert (flush["op"], flush["offset_bytes"], flush["size_bytes"], flush["completed_ns"]) == (
        "flush", None, 0, 9_000,
    )  # fmt: skip
    assert {row["thread_id"] for row in (read, write, flush)} == {77}
    assert {row["file_id"] for row in (read, write, flush)} == {0}
    assert recording.read("files")["path"].to_pylist() == ["\\x\\A.mdf"]
    processes = {row["process_id"]: row["os_process_id"] for row in recording.read("processes").to_pylist()}
    assert processes[read["process_id"]] == 9  # no event names the thread: the header's process


def test_ends_pair_with_the_latest_operation_of_their_irp(imported):
    """A read that failed, one that moved less, one whose Irp a create took over, one still open at the end."""
    events = [
        end(1, 1, moved=7),
        start("read", 10, irp=1, offset=0, size=100),
        end(1, 12, status=0xC0000011),
        start("read", 20, irp=1, offset=4096, size=100),
        end(1, 21, moved=60),
        start("write", 30, irp=1, offset=8192, size=100),
        start("create", 40, irp=1, path="\\y"),
        end(1, 45),
        start("write", 50, irp=2, offset=12_288, size=100),
    ]
    recording = imported(events)
    told = [(row["offset_bytes"], row["completed_ns"], row["error"]) for row in rows(recording, "filesystem")]
    assert told == [(0, 1_200, END_OF_FILE), (4096, 2_100, 0), (8192, None, 0), (12_288, None, 0)]
    quality = recording.manifest.quality
    assert (quality.unpaired_issues, quality.unpaired_completions) == (2, 0)
    assert "1 file operation failed" in quality.notes
    assert "1 file operation moved 40 bytes less than asked for" in quality.notes


def test_without_ends_operations_have_no_duration(imported):
    recording = imported([start("read", at, irp=at, offset=at) for at in range(1, 50)])
    table = rows(recording, "filesystem")
    assert [row["offset_bytes"] for row in table] == list(range(1, 50))
    assert {row["completed_ns"] for row in table} == {None}
    assert any("no durations" in note for note in recording.manifest.quality.notes)
    assert recording.manifest.quality.unpaired_issues == 0


def test_a_create_names_the_file_and_how_it_is_written(imported):
    """Its object has a path where its key has no name; options 0x2 write-through, 0x8 unbuffered."""
    path = "\\Device\\HarddiskVolume3\\SQL\\Sales_log.ldf"
    events = [
        etl.mapping(T0, "\\Device\\HarddiskVolume3\\", "E:\\"),
        etl.system(etl.LOGICAL_DISK, T0 + 1, etl.logical_disk(1, 2, 1 << 20, 1 << 30, "E:")),
        start("create", 5, irp=1, opened=50, path=path, options=0x5000000A),
        end(1, 6),
        start("write", 10, irp=2, opened=50, key=999, offset=512, size=512),
        end(2, 12, moved=512),
        start("create", 20, irp=3, opened=50, path="\\Device\\HarddiskVolume3\\b"),
        end(3, 21),
        start("write", 30, irp=4, opened=50, key=998),
        end(4, 31),
    ]
    recording = imported(events)
    files = recording.read("files").to_pylist()
    assert [(row["path"], row["role"], row["device_id"]) for row in files] == [
        ("E:\\SQL\\Sales_log.ldf", "log", 1),
        ("E:\\b", "other", 1),
    ]
    first, second = rows(recording, "filesystem")
    assert first["flags"] == IoFlags.WRITE_THROUGH | IoFlags.NO_CACHE
    assert (first["file_id"], second["file_id"], second["flags"], first["device_id"]) == (0, 1, 0, 1)
    partition = recording.read("devices").to_pylist()[1]
    assert (partition["device_id"], partition["mount"], partition["parent_device_id"]) == (1, "E:", 0)


def test_one_file_in_two_layers_is_one_file(imported):
    events = [
        start("read", 10, irp=1, key=5, offset=0, size=512),
        etl.perfinfo(etl.READ, T0 + 20, etl.transfer(key=5, offset=1 << 21, size=512, response=5)),
        end(1, 25, moved=512),
        etl.system(etl.FILE_RUNDOWN, T0 + 30, etl.name(5, "\\x")),
    ]
    recording = imported(events)
    assert {
        (row["layer"], row["file_id"], row["offset_bytes"]) for row in recording.read("io").to_pylist()
    } == {
        ("filesystem", 0, 0),
        ("block", 0, 1 << 21),
    }
    assert len(recording.read("files")) == 1


def kernel_disk(event_id, at, payload, **options):
    return etl.manifest(etl.KERNEL_DISK_GUID, event_id, T0 + at, payload, thread=12, process=34, **options)


@pytest.mark.parametrize("pointer", [4, 8])
@pytest.mark.parametrize("extended", [False, True])
def test_disk_events_of_the_manifest_provider(imported, pointer, extended):
    items = etl.item(1, bytes(16), follows=True) + etl.item(11, b"abc") if extended else b""
    form = {"version": 2, "pointer": pointer}
    events = [
        kernel_disk(10, 30, etl.transfer(offset=4096, response=10, **form), pointer=pointer, extended=items),
        kernel_disk(11, 40, etl.transfer(offset=8192, size=512, response=10, **form), pointer=pointer),
        kernel_disk(14, 50, etl.flush(response=20, **form), pointer=pointer),
    ]
    recording = imported(events, pointer=pointer)
    table = rows(recording, "block")
    assert [(row["op"], row["offset_bytes"], row["size_bytes"], row["issued_ns"]) for row in table] == [
        ("read", 4096, 8192, 2_000),
        ("write", 8192, 512, 3_000),
        ("flush", None, 0, 3_000),
    ]
    # The header's thread is whoever ran at completion.
    assert {(row["thread_id"], row["process_id"]) for row in table} == {(None, None)}
    assert any("Microsoft-Windows-Kernel-Disk" in note for note in recording.manifest.quality.notes)


def test_classic_disk_events_silence_their_twins(imported):
    twins = [
        kernel_disk(10, at, etl.transfer(offset=512 * at, response=1, version=2)) for at in range(10, 20)
    ]
    classic = [
        etl.perfinfo(etl.READ, T0 + at, etl.transfer(offset=512 * at, response=1)) for at in range(20, 30)
    ]
    table = rows(imported([*twins, *classic]), "block")
    assert [row["offset_bytes"] // 512 for row in table] == list(range(20, 30))


@pytest.mark.parametrize("pointer", [4, 8])
@pytest.mark.parametrize("version", [0, 1])
def test_file_events_of_the_manifest_provider(imported, version, pointer):
    """Version numbers shifted by two: 0 has the classic layouts of version 2."""

    def event(event_id, at, payload):
        return etl.manifest(
            etl.KERNEL_FILE_GUID, event_id, T0 + at, payload, version=version, pointer=pointer, process=9
        )

    form = {"version": version + 2, "pointer": pointer}
    events = [
        event(10, 1, etl.name(5, "\\x\\tempdb.mdf", pointer=pointer)),
        event(
            15,
            10,
            etl.operation("read", irp=1, key=5, offset=7, size=9, thread=6, extra=version == 1, **form),
        ),
        event(24, 15, etl.operation_end(1, moved=9, pointer=pointer)),
        event(16, 20, etl.operation("write", irp=1, key=5, offset=8, size=9, thread=6, **form)),
        event(24, 26, etl.operation_end(1, moved=9, pointer=pointer)),
        event(21, 30, etl.operation("flush", irp=1, key=5, thread=6, **form)),
        event(24, 37, etl.operation_end(1, pointer=pointer)),
    ]
    recording = imported(events, pointer=pointer)
    table = rows(recording, "filesystem")
    told = [(row["op"], row["offset_bytes"], row["completed_ns"] - row["issued_ns"]) for row in table]
    assert told == [("read", 7, 500), ("write", 8, 600), ("flush", None, 700)]
    assert {(row["thread_id"], row["file_id"]) for row in table} == {(6, 0)}
    assert recording.read("files")["role"].to_pylist() == ["tempdb_data"]


def storport(event_id, at, payload, *, version, pointer=8, **options):
    return etl.manifest(
        etl.STORPORT_GUID, event_id, T0 + at, payload, version=version, pointer=pointer, **options
    )


@pytest.mark.parametrize("pointer", [4, 8])
@pytest.mark.parametrize("event_id", [200, 201])
def test_timed_requests_and_their_dispatch(imported, event_id, pointer):
    """Durations are in 100 ns whatever the counter's frequency; blocks are of the disk at the SCSI address."""
    form = {"pointer": pointer}
    assert len(etl.request_timed(duration=1)) == 51
    where = (2, 0, 1, 3)
    disks = [
        etl.system(etl.PHYSICAL_DISK, T0 + 1, etl.physical_disk(0, address=(0, 0, 0, 0))),
        etl.system(etl.PHYSICAL_DISK, T0 + 1, etl.physical_disk(4, sector=4096, address=where)),
    ]
    events = [
        *disks,
        storport(202, 10, etl.request_dispatch(irp=1, block=10, blocks=2, **form), version=2, **form),
        storport(
            event_id, 100, etl.request_timed(irp=1, duration=25, address=where, **form), version=2, **form
        ),
        storport(203, 110, etl.request_dispatch(irp=1, command=0x8A, block=1 << 33, **form), version=2, **form),
        storport(
            event_id, 200,
            etl.request_timed(irp=1, duration=7, command=0x8A, address=where, status=4, **form),
            version=2, **form,
        ),
        storport(
            event_id, 210,
            etl.request_timed(irp=1, duration=9, command=0x35, address=where, size=0, **form),
            version=2, **form,
        ),
        storport(event_id, 220, etl.request_timed(irp=1, duration=9, command=0x12, **form), version=2, **form),
    ]  # fmt: skip
    recording = imported(events, frequency=2_000_000)
    read, write, flush = rows(recording, "device")
    assert (read["op"], read["completed_ns"], read["completed_ns"] - read["issued_ns"]) == (
        "read",
        50_000,
        2_500,
    )
    assert (read["offset_bytes"], read["size_bytes"], read["device_id"], read["error"]) == (
        40_960,
        8192,
        1,
        0,
    )
    assert (write["op"], write["offset_bytes"], write["error"]) == ("write", 4096 << 33, IO_DEVICE_ERROR)
    assert (flush["op"], flush["offset_bytes"], flush["size_bytes"]) == ("flush", None, 0)
    assert any("neither read, write, flush nor discard" in note for note in recording.manifest.quality.notes)


def test_a_request_lies_where_its_disk_io_does(imported):
    """Joined by the Irp it names as its original; a part of a split I/O gets the file and disk but no position."""
    events = [
        etl.system(etl.THREAD_DC_START, T0, etl.thread(8, 77)),
        storport(201, 95, etl.request_timed(irp=1, original=50, duration=60, size=8192), version=2),
        etl.perfinfo(
            etl.READ, T0 + 100, etl.transfer(irp=50, disk=3, key=5, offset=1 << 21, response=80, thread=77)
        ),
        storport(201, 195, etl.request_timed(irp=1, original=50, duration=60, size=4096), version=2),
        storport(201, 196, etl.request_timed(irp=2, original=50, duration=60, size=4096), version=2),
        etl.perfinfo(
            etl.READ, T0 + 200, etl.transfer(irp=50, disk=3, key=5, offset=0, response=80, thread=77)
        ),
        storport(201, 300, etl.request_timed(irp=2, original=51, duration=60), version=2),
        etl.system(etl.FILE_RUNDOWN, T0 + 400, etl.name(5, "\\x")),
    ]
    recording = imported(events)
    whole, *parts, alone = rows(recording, "device")
    assert (whole["issued_ns"], whole["completed_ns"]) == (3_500, 9_500)
    assert (whole["offset_bytes"], whole["device_id"], whole["file_id"], whole["thread_id"]) == (
        1 << 21,
        0,
        0,
        77,
    )
    assert whole["process_id"] is not None
    assert [(row["offset_bytes"], row["device_id"], row["file_id"]) for row in parts] == [(None, 0, 0)] * 2
    assert (alone["offset_bytes"], alone["device_id"], alone["file_id"]) == (None, None, None)
    assert len(rows(recording, "block")) == 2


def test_a_request_told_twice_counts_once(imported):
    events = [
        storport(202, 10, etl.request_dispatch(irp=1, block=8), version=2),
        storport(208, 40, etl.request_done(irp=1, status=0xC000000E, request_status=4), version=1),
        storport(200, 41, etl.request_timed(irp=1, duration=20), version=2),
        storport(201, 42, etl.request_timed(irp=1, duration=30), version=2),
    ]
    recording = imported(events)
    assert len(rows(recording, "device")) == 1
    row = rows(recording, "device")[0]
    assert (row["issued_ns"], row["completed_ns"]) == (1_200, 4_200)
    assert any("lower driver stack" in note for note in recording.manifest.quality.notes)


@pytest.mark.parametrize("pointer", [4, 8])
@pytest.mark.parametrize("event_id", [202, 203, 204, 205, 206, 207])
def test_dispatches_and_completions_without_times(imported, event_id, pointer):
    form = {"pointer": pointer}
    events = [
        storport(event_id, 10, etl.request_dispatch(irp=1, block=100, blocks=3, **form), version=2, **form),
        storport(208, 40, etl.request_done(irp=1, status=0xC000000E, **form), version=1, **form),
        storport(210, 50, etl.request_flush(irp=2, **form), version=1, **form),
        storport(211, 75, etl.request_done(irp=2, **form), version=1, **form),
        storport(208, 80, etl.request_done(irp=3, **form), version=1, **form),
    ]
    read, flush = rows(imported(events), "device")
    assert (read["op"], read["offset_bytes"], read["size_bytes"]) == ("read", 51_200, 1536)
    assert (read["issued_ns"], read["completed_ns"], read["error"]) == (1_000, 4_000, 0xC000000E - (1 << 32))
    assert (flush["op"], flush["issued_ns"], flush["completed_ns"]) == ("flush", 5_000, 7_500)


@pytest.mark.parametrize("event_id", [222, 223])
def test_requests_with_their_whole_command(imported, event_id):
    """Their duration has no stated unit, so theirs runs from the dispatch; the position is in the command."""
    read10 = bytes([0x28, 0, 0, 0, 1, 0, 0, 0, 4, 0])
    write16 = bytes([0x8A, 0]) + (1 << 34).to_bytes(8, "big") + (2).to_bytes(4, "big") + bytes(2)
    events = [
        storport(202, 10, etl.request_dispatch(irp=1), version=2),
        storport(event_id, 40, etl.request_detailed(command=read10, irp=1), version=1),
        storport(event_id, 50, etl.request_detailed(command=write16, irp=2), version=1),
    ]
    read, write = rows(imported(events), "device")
    assert (read["offset_bytes"], read["size_bytes"], read["issued_ns"], read["completed_ns"]) == (
        256 * 512, 2048, 1_000, 4_000,
    )  # fmt: skip
    assert (write["offset_bytes"], write["size_bytes"], write["completed_ns"]) == (512 << 34, 1024, None)


def test_requests_that_cannot_be_used_are_said(imported):
    events = [
        storport(201, 10, etl.request_timed(duration=20), version=3),
        storport(201, 10, etl.request_timed(duration=20)[:-1], version=2),
        storport(13, 11, bytes(30), version=1),
        storport(504, 12, bytes(90), version=3),
        storport(201, 20, etl.request_timed(duration=1 << 60), version=2),
    ]
    recording = imported(events)
    (row,) = rows(recording, "device")
    assert row["completed_ns"] is None
    quality = recording.manifest.quality
    assert quality.latencies_dropped == 1
    notes = " ".join(quality.notes)
    assert "2 kernel events left out" in notes
    assert "Windows 7 form" in notes
    assert "summaries" in notes
