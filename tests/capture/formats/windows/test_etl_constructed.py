"""What no public trace shows, built byte by byte: every expected value is planted."""

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


@pytest.fixture
def imported(tmp_path):
    """Import the bytes of a log; returns the recording."""

    def run(data, name="trace"):
        path = tmp_path / f"{name}.etl"
        path.write_bytes(data)
        recording = import_files([path], tmp_path / f"{name}.iotrace")
        assert validate(recording.path) == []
        return recording

    return run


def rows(recording, table="io"):
    return recording.read(table).to_pylist()


@pytest.mark.parametrize("pointer", [4, 8])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("form", ["perfinfo", "system", "compact", "full"])
def test_every_version_pointer_size_and_header_form(imported, form, version, pointer):
    ios = {
        etl.READ: etl.transfer(
            offset=4096, size=512, response=30, thread=77, version=version, pointer=pointer
        ),
        etl.WRITE: etl.transfer(
            offset=1 << 40, size=1 << 20, response=40, thread=78, version=version, pointer=pointer
        ),
        etl.FLUSH: etl.flush(response=50, thread=79, version=version, pointer=pointer),
    }

    def event(hook, ticks, payload):
        if form == "full":
            return etl.full(etl.DISK_GUID, hook & 0xFF, ticks, payload, version=version, pointer=pointer)
        return getattr(etl, form)(hook, ticks, payload, version=version, pointer=pointer)

    events = [
        event(hook, T0 + 1000 * (number + 1), payload) for number, (hook, payload) in enumerate(ios.items())
    ]
    table = rows(imported(etl.log(events, pointer=pointer)))
    assert [row["op"] for row in table] == ["read", "write", "flush"]
    assert [row["layer"] for row in table] == ["block"] * 3
    assert [row["completed_ns"] for row in table] == [100_000, 200_000, 300_000]
    assert [row["issued_ns"] for row in table] == [97_000, 196_000, 295_000]
    assert [row["offset_bytes"] for row in table] == [4096, 1 << 40, None]
    assert [row["size_bytes"] for row in table] == [512, 1 << 20, 0]
    assert [row["thread_id"] for row in table] == ([77, 78, 79] if version == 3 else [None] * 3)


def test_a_version_2_completion_gets_the_thread_of_its_start(imported):
    events = [
        etl.system(etl.READ_INIT, T0 + 10, etl.init(9, version=2), version=2, thread=123),
        etl.perfinfo(etl.READ, T0 + 50, etl.transfer(irp=9, response=40, version=2), version=2),
        etl.system(etl.WRITE_INIT, T0 + 60, etl.init(9, version=2), version=2, thread=124),
        etl.system(etl.WRITE, T0 + 90, etl.transfer(irp=9, response=30, version=2), version=2, thread=5),
    ]
    assert [row["thread_id"] for row in rows(imported(etl.log(events)))] == [123, 5]


def test_the_payload_names_the_thread_that_asked_not_the_one_that_ran(imported):
    events = [
        etl.system(etl.READ_INIT, T0 + 10, etl.init(9, thread=44), thread=412),
        etl.perfinfo(etl.READ, T0 + 50, etl.transfer(irp=9, response=40, thread=44)),
    ]
    assert rows(imported(etl.log(events)))[0]["thread_id"] == 44


def test_extended_perfinfo_headers_and_longer_payloads(imported):
    payload = etl.transfer(offset=512, response=10) + bytes(12)
    table = rows(imported(etl.log([etl.perfinfo(etl.READ, T0 + 50, payload, extensions=3)])))
    assert (table[0]["offset_bytes"], table[0]["issued_ns"]) == (512, 4_000)


@pytest.mark.parametrize(
    ("clock", "ticks", "completed_ns"),
    [
        (1, T0 + 2_000_000, 1_000_000_000),
        (2, etl.START_FILETIME + 10_000_000, 1_000_000_000),
        (3, T0 + 3_000_000_000, 1_000_000_000),
    ],
    ids=["counter", "system time", "cycles"],
)
def test_clock_types(imported, clock, ticks, completed_ns):
    """A response time counts performance counter ticks whatever the clock: 4 ms at 2 MHz."""
    t0 = etl.START_FILETIME if clock == 2 else T0
    events = [etl.perfinfo(etl.READ, ticks, etl.transfer(response=8_000))]
    recording = imported(etl.log(events, clock=clock, frequency=2_000_000, mhz=3_000, t0=t0))
    (row,) = rows(recording)
    assert (row["issued_ns"], row["completed_ns"]) == (completed_ns - 4_000_000, completed_ns)
    assert recording.manifest.clock.start_utc_ns == etl.START_UTC_NS


def test_weeks_at_ten_megahertz_do_not_overflow(imported):
    ticks = 30 * 86_400 * 10_000_000
    (row,) = rows(imported(etl.log([etl.perfinfo(etl.READ, T0 + ticks, etl.transfer(response=0))])))
    assert row["completed_ns"] == 30 * 86_400 * 1_000_000_000


def test_an_io_in_flight_at_the_start_has_a_negative_issue(imported):
    (row,) = rows(imported(etl.log([etl.perfinfo(etl.READ, T0 + 10, etl.transfer(response=30))])))
    assert (row["issued_ns"], row["completed_ns"]) == (-2_000, 1_000)


def test_file_names_hold_forwards_and_backwards(imported):
    """Both directions, and a key that is reused: A until its deletion, B from its creation, C by rundown."""
    key = 0xFFFFF8A0028E0140
    read = [
        etl.perfinfo(etl.READ, T0 + at, etl.transfer(key=key, offset=512 * at, response=1))
        for at in (10, 20, 40, 70)
    ]
    other = etl.perfinfo(etl.READ, T0 + 71, etl.transfer(key=7, offset=512 * 71, response=1))
    unnamed = etl.perfinfo(etl.READ, T0 + 72, etl.transfer(key=8, offset=512 * 72, response=1))
    events = [
        read[0],
        etl.system(etl.FILE_DELETE, T0 + 20, etl.name(key, "A")),
        read[1],
        etl.system(etl.FILE_CREATE, T0 + 30, etl.name(key, "B")),
        read[2],
        etl.system(etl.FILE_DELETE, T0 + 50, etl.name(key, "B")),
        read[3],
        other,
        unnamed,
        etl.system(etl.FILE_RUNDOWN, T0 + 90, etl.name(key, "C")),
        etl.system(etl.NAME, T0 + 71, etl.name(7, "D")),
    ]
    recording = imported(etl.log(events))
    paths = {row["file_id"]: row["path"] for row in rows(recording, "files")}
    assert [paths.get(row["file_id"]) for row in rows(recording)] == ["A", "A", "B", "C", "D", None]


def test_a_reused_process_number_makes_two_processes(imported):
    def io(at, thread):
        return etl.perfinfo(etl.WRITE, T0 + at, etl.transfer(offset=512 * at, response=1, thread=thread))

    events = [
        etl.system(
            etl.PROCESS_DC_START, T0 + 1, etl.process(8, "old.exe", key=1, command="old -x"), version=4
        ),
        etl.system(etl.THREAD_DC_START, T0 + 1, etl.thread(8, 100)),
        io(10, 100),
        etl.system(etl.THREAD_END, T0 + 20, etl.thread(8, 100)),
        etl.system(etl.PROCESS_END, T0 + 20, etl.process(8, "old.exe", key=1), version=4),
        etl.system(etl.PROCESS_START, T0 + 30, etl.process(8, "new.exe", key=2), version=4),
        etl.system(etl.THREAD_START, T0 + 30, etl.thread(8, 100)),
        io(40, 100),
        io(41, 200),
        io(42, 300),
        etl.system(etl.THREAD_DC_END, T0 + 90, etl.thread(9, 200)),
        etl.system(etl.PROCESS_DC_END, T0 + 90, etl.process(8, "new.exe", key=2), version=4),
    ]
    recording = imported(etl.log(events))
    processes = rows(recording, "processes")
    told = [
        (row["os_process_id"], row["name"], row["command_line"], row["started_ns"], row["ended_ns"])
        for row in processes
    ]
    assert told == [
        (8, "old.exe", None, None, 2_000),
        (8, "new.exe", None, 3_000, None),
        (9, None, None, None, None),
    ]
    assert [row["process_id"] for row in rows(recording)] == [0, 1, 2, None]


@pytest.mark.parametrize("pointer", [4, 8])
@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("sid", [True, False])
def test_process_payloads(imported, version, pointer, sid):
    payload = etl.process(8, "sqlservr.exe", command="-s X", version=version, pointer=pointer, sid=sid)
    event = etl.system(etl.PROCESS_DC_START, T0 + 1, payload, version=version, pointer=pointer)
    (row,) = rows(imported(etl.log([event], pointer=pointer)), "processes")
    assert (row["name"], row["command_line"], row["os_parent_process_id"]) == ("sqlservr.exe", None, 4)


def test_disks_partitions_and_drive_letters(imported):
    key = 5
    events = [
        etl.mapping(T0, "\\Device\\HarddiskVolume3\\", "E:\\"),
        etl.system(
            etl.PHYSICAL_DISK, T0 + 1, etl.physical_disk(1, sector=4096, cylinders=10, model="Array LUN 7")
        ),
        etl.system(etl.LOGICAL_DISK, T0 + 1, etl.logical_disk(1, 2, 1 << 20, 1 << 30, "E:")),
        etl.perfinfo(etl.WRITE, T0 + 9, etl.transfer(disk=1, key=key, offset=1 << 21, response=1)),
        etl.perfinfo(etl.READ, T0 + 10, etl.transfer(disk=3, offset=0, response=1)),
        etl.perfinfo(etl.READ, T0 + 11, etl.transfer(disk=1, offset=512, response=1)),
        etl.system(
            etl.FILE_RUNDOWN, T0 + 99, etl.name(key, "\\device\\harddiskvolume3\\Data\\Sales_log.ldf")
        ),
    ]
    recording = imported(etl.log(events))
    disk, bare, partition = rows(recording, "devices")
    assert (disk["name"], disk["kind"], disk["model"], disk["logical_block_bytes"], disk["write_cache"]) == (
        "disk 1", "disk", "Array LUN 7", 4096, True,
    )  # fmt: skip
    assert disk["size_bytes"] == 10 * 255 * 63 * 4096
    assert (bare["name"], bare["size_bytes"], bare["logical_block_bytes"]) == ("disk 3", None, None)
    assert (partition["kind"], partition["parent_device_id"], partition["mount"], partition["filesystem"]) == (
        "partition", 0, "E:", "NTFS",
    )  # fmt: skip
    (file,) = rows(recording, "files")
    assert (file["path"], file["role"], file["database"], file["device_id"]) == (
        r"E:\Data\Sales_log.ldf",
        "log",
        "Sales",
        2,
    )
    table = rows(recording)
    assert [row["device_id"] for row in table] == [0, 1, 0]
    assert [bool(row["flags"] & IoFlags.UNALIGNED) for row in table] == [False, False, True]


def test_an_unmerged_log_gets_its_drive_letters_from_where_its_io_fell(imported):
    """Volume 2 lies in E: and volume 3 in F:. Volumes 4 (both), 5 (outside) and shadow copies keep theirs."""
    volumes = {2: [0], 3: [10], 4: [1, 11], 5: [90]}
    mebibytes = [(volume, at) for volume, moments in volumes.items() for at in moments]
    events = [
        etl.system(etl.LOGICAL_DISK, T0 + 1, etl.logical_disk(0, 1, 0, 10 << 20, "E:")),
        etl.system(etl.LOGICAL_DISK, T0 + 1, etl.logical_disk(0, 2, 10 << 20, 10 << 20, "F:")),
        *(
            etl.perfinfo(etl.READ, T0 + 10 + at, etl.transfer(key=volume, offset=at << 20, response=1))
            for volume, at in mebibytes
        ),
        etl.perfinfo(etl.READ, T0 + 200, etl.transfer(key=9, offset=0, response=1)),
        *(
            etl.system(etl.FILE_RUNDOWN, T0 + 300, etl.name(at, f"\\Device\\HarddiskVolume{at}\\x.mdf"))
            for at in volumes
        ),
        etl.system(etl.FILE_RUNDOWN, T0 + 300, etl.name(9, "\\Device\\HarddiskVolumeShadowCopy1\\x.mdf")),
    ]
    recording = imported(etl.log(events))
    assert {row["path"] for row in rows(recording, "files")} == {
        "E:\\x.mdf",
        "F:\\x.mdf",
        "\\Device\\HarddiskVolume4\\x.mdf",
        "\\Device\\HarddiskVolume5\\x.mdf",
        "\\Device\\HarddiskVolumeShadowCopy1\\x.mdf",
    }
    assert any("inferred" in note for note in recording.manifest.quality.notes)


def test_flags_of_the_irp_become_flags_of_the_recording(imported):
    meanings = {
        0x60043: IoFlags.NO_CACHE | IoFlags.PAGING | IoFlags.SYNCHRONOUS,
        0x20002: IoFlags.PAGING | IoFlags.PRIORITY_LOW,
        0x4 | 4 << 17: IoFlags.SYNCHRONOUS | IoFlags.PRIORITY_HIGH,
        0x400: IoFlags(0),
        0x8: IoFlags.SPLIT,
    }
    events = [
        etl.perfinfo(etl.READ, T0 + 9 + at, etl.transfer(flags=flags, response=1))
        for at, flags in enumerate(meanings)
    ]
    assert [row["flags"] for row in rows(imported(etl.log(events)))] == list(meanings.values())


def test_sizes_and_offsets_that_cannot_be_replayed_are_kept_and_flagged(imported):
    events = [
        etl.perfinfo(etl.READ, T0 + 9, etl.transfer(size=0, response=1)),
        etl.perfinfo(etl.READ, T0 + 10, etl.transfer(offset=-512, response=1)),
    ]
    table = rows(imported(etl.log(events)))
    assert [(row["offset_bytes"], row["flags"] & IoFlags.UNALIGNED) for row in table] == [
        (1 << 20, IoFlags.UNALIGNED),
        (None, IoFlags.UNALIGNED),
    ]


def test_implausible_latencies(imported):
    """Replaced by the time since the start event where there is one; else dropped and counted."""
    day = 86_400 * 10_000_000
    events = [
        etl.system(etl.READ_INIT, T0 + 100, etl.init(1)),
        etl.perfinfo(etl.READ, T0 + 150, etl.transfer(irp=1, response=-7)),
        etl.perfinfo(etl.READ, T0 + 2 * day, etl.transfer(irp=2, response=day + 1)),
        etl.perfinfo(etl.READ, T0 + 2 * day + 10, etl.transfer(irp=3, response=day)),
    ]
    recording = imported(etl.log(events))
    replaced, longest, dropped = rows(recording)
    assert (replaced["issued_ns"], replaced["completed_ns"]) == (10_000, 15_000)
    assert (dropped["issued_ns"], dropped["completed_ns"]) == (2 * day * 100, None)
    assert longest["completed_ns"] - longest["issued_ns"] == day * 100
    assert recording.manifest.quality.latencies_dropped == 1
    assert any("replaced" in note for note in recording.manifest.quality.notes)


def test_halves_without_the_other_are_counted(imported):
    events = [
        etl.perfinfo(etl.READ, T0 + 5, etl.transfer(irp=1, response=1)),
        etl.system(etl.READ_INIT, T0 + 10, etl.init(2)),
        etl.perfinfo(etl.READ, T0 + 20, etl.transfer(irp=2, response=10)),
        etl.system(etl.WRITE_INIT, T0 + 30, etl.init(3)),
    ]
    quality = imported(etl.log(events)).manifest.quality
    assert (quality.unpaired_completions, quality.unpaired_issues, quality.verdict) == (1, 1, "good")


def test_processors_interleave_in_the_file_but_not_in_the_recording(imported):
    def reads(*moments):
        return [etl.perfinfo(etl.READ, T0 + at, etl.transfer(offset=512 * at, response=1)) for at in moments]

    data = etl.log(reads(50, 60), reads(10, 55), reads(5, 70), sequences=[3, 1, 2])
    recording = imported(data)
    assert [row["offset_bytes"] // 512 for row in rows(recording)] == [5, 10, 50, 55, 60, 70]
    assert recording.manifest.quality.sequence_holes == 0


def test_losses_and_holes_reach_the_manifest(imported):
    read = etl.perfinfo(etl.READ, T0 + 10, etl.transfer(response=1))
    quality = imported(
        etl.log([read], [read], sequences=[1, 3], events_lost=7, buffers_lost=2)
    ).manifest.quality
    assert (quality.events_lost, quality.buffers_lost, quality.sequence_holes, quality.verdict) == (
        7,
        2,
        1,
        "poor",
    )


def test_marks_of_losses_count_where_the_header_knows_none(imported):
    read = etl.perfinfo(etl.READ, T0 + 10, etl.transfer(response=1))
    lost = etl.full("6a399ae0-4bc6-4de9-870b-3657f8947e7e", 32, T0 + 11, b"")
    flagged = bytearray(etl.log([read, lost], [read]))
    flagged[2 * 65_536 + 0x34] |= 0x02
    quality = imported(bytes(flagged)).manifest.quality
    assert (quality.events_lost, quality.verdict) == (2, "poor")
    assert len(quality.notes) == 3


def test_a_circular_log_may_begin_with_any_buffer(imported):
    read = etl.perfinfo(etl.READ, T0 + 1000, etl.transfer(response=1))
    recording = imported(etl.log([read], [read], sequences=[70, 71], mode=0x2))
    assert recording.manifest.quality.sequence_holes == 0
    assert (recording.manifest.window_start_ns, recording.manifest.window_end_ns) == (100_000, 100_000)


def test_the_window_ends_with_the_log_or_its_last_io(imported):
    def end_ns(**header):
        read = etl.perfinfo(etl.READ, T0 + 1000, etl.transfer(response=1))
        late = etl.system(0x008, T0 + 9000, b"")
        name = f"end-{header.get('end', 0)}"
        return imported(etl.log([read, late], **header), name).manifest.window_end_ns

    assert end_ns() == 900_000
    assert end_ns(end=etl.START_FILETIME + 5000) == 500_000
    assert end_ns(end=etl.START_FILETIME + 500) == 100_000


def test_compressed_buffers_lie_unaligned(imported):
    reads = [
        etl.perfinfo(etl.READ, T0 + at, etl.transfer(offset=512 * at, response=1)) for at in range(1, 40)
    ]
    data = etl.log(
        reads[:20],
        [*reads[20:], etl.system(0x0B01, T0 + 99, b"odd")],
        reads[:1],
        compression=etl.literal_xpress,
    )
    assert len(imported(data).read("io")) == 40


def test_a_damaged_buffer_costs_only_itself(imported):
    read = etl.perfinfo(etl.READ, T0 + 10, etl.transfer(response=1))
    whole = etl.log([read], [read], [read])
    broken_event = bytearray(whole)
    broken_event[65_536 * 2 + 72 + 3] = 0
    broken_header = bytearray(whole)
    broken_header[65_536 * 2 : 65_536 * 2 + 4] = b"\x07\0\0\0"
    for number, data in enumerate((broken_event, broken_header)):
        recording = imported(bytes(data), f"damaged-{number}")
        assert len(recording.read("io")) == 2
        assert recording.manifest.quality.damaged_buffers == 1
        assert recording.manifest.quality.verdict == "usable"


def test_a_cut_tail_keeps_what_is_whole(imported):
    read = etl.perfinfo(etl.READ, T0 + 10, etl.transfer(response=1))
    recording = imported(etl.log([read], [read])[:-1000])
    assert len(recording.read("io")) == 1
    assert recording.manifest.quality.truncated_tail


def test_a_preallocated_tail_is_no_damage(imported):
    read = etl.perfinfo(etl.READ, T0 + 10, etl.transfer(response=1))
    quality = imported(etl.log([read]) + bytes(300_000)).manifest.quality
    assert (quality.truncated_tail, quality.damaged_buffers, quality.verdict) == (False, 0, "good")


def test_foreign_events_between_are_skipped(imported):
    read = etl.perfinfo(etl.READ, T0 + 10, etl.transfer(response=1))
    message = bytes([24, 0, 0, 0x90]) + bytes(20)  # WPP trace message of 24 bytes
    timed = bytes([16, 0, 0x0C, 0xC0]) + bytes(12)
    recording = imported(etl.log([message, read, timed, read]))
    assert len(recording.read("io")) == 2
    assert recording.manifest.sources[0].events == 5


def test_disk_events_of_server_2003_are_left_out_and_said(imported):
    recording = imported(etl.log([etl.perfinfo(etl.READ, T0 + 10, etl.transfer(), version=0)]))
    assert len(recording.read("io")) == 0
    assert any("form" in note for note in recording.manifest.quality.notes)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0x7, "taken without disk I/O (group mask 0x7 lacks 0x100)"),
        (0x100, "asked for disk I/O (group mask 0x100) but holds none"),
        (0, "taken without disk I/O (it is no kernel trace)"),
    ],
)
def test_why_there_is_no_disk_io(imported, mask, words):
    recording = imported(etl.log([etl.extension(T0 + 1, mask), etl.extension(T0 + 2, 0)]))
    assert len(recording.read("io")) == 0
    assert words in recording.manifest.quality.notes[0]
