"""Real logs against what other readers say of them: check values, counts per event, and every disk row they print."""

import math
import re
import uuid
import zipfile
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from iotrace.capture import _readers
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

A = "perfview_net.4.5.2.x64"
B = "perfview_net.4.5.x86"
MEMBERS = {A: "net.4.5.2.x64.etl", B: "PerfViewData.etl"}

# Kernel events by the baseline's name for them: group and type as the log numbers them.
HOOKS = {
    "DiskIO/Read": 0x10A,
    "DiskIO/Write": 0x10B,
    "DiskIO/ReadInit": 0x10C,
    "DiskIO/WriteInit": 0x10D,
    "DiskIO/FlushBuffers": 0x10E,
    "DiskIO/FlushInit": 0x10F,
    "Process/Start": 0x301,
    "Process/Stop": 0x302,
    "Process/DCStart": 0x303,
    "Process/DCStop": 0x304,
    "Thread/Start": 0x501,
    "Thread/Stop": 0x502,
    "SystemConfig/PhyDisk": 0xB0B,
    "SystemConfig/LogDisk": 0xB0C,
}


@pytest.fixture(scope="module")
def log(samples, tmp_path_factory):
    """Path of an unpacked sample."""
    folder = tmp_path_factory.mktemp("etl")

    def unpack(name):
        path = folder / f"{name}.etl"
        if not path.exists():
            with zipfile.ZipFile(samples / "etl" / f"{name}.etl.zip") as archive:
                path.write_bytes(archive.read(MEMBERS[name]))
        return path

    return unpack


@pytest.fixture(scope="module")
def imported(samples, tmp_path_factory):
    """A sample, imported as the user would: the zip as it is."""
    folder = tmp_path_factory.mktemp("imported")
    known = {}

    def get(name):
        if name not in known:
            known[name] = import_files([samples / "etl" / f"{name}.etl.zip"], folder / f"{name}.iotrace")
            assert validate(known[name].path) == []
        return known[name]

    return get


@pytest.fixture(scope="module")
def ask(imported):
    """One row of figures over the I/O of a sample."""

    def run(name, select, where="true"):
        io = imported(name).path / "io.parquet"
        return duckdb.execute(f"SELECT {select} FROM '{io}' WHERE {where}").fetchone()

    return run


def assert_moment(utc_ns, text):
    """Published moments have six decimals, some cut off and some rounded: they agree to less than a microsecond."""
    microseconds = (
        datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    ) // timedelta(microseconds=1)
    assert abs(utc_ns - microseconds * 1000) < 1000


def test_container_of_a(log):
    found = _readers.inspect_etl(log(A))
    header = found["header"]
    assert found["buffers"] == 360
    assert header["mode"] == 0x04010001
    assert header["compression"] == 3
    assert (header["os_build"], header["processors"], header["pointer_bytes"]) == (9200, 8, 8)
    assert (header["counter_hz"], header["clock"], header["start_ticks"]) == (
        10_000_000,
        "performance counter",
        1942608875,
    )
    assert (header["events_lost"], header["buffers_lost"]) == (0, 0)
    assert found["payload_bytes"] == 23_016_672
    assert found["payload_crc32"] == 0x67F84A11
    second = found["first_buffers"][1]
    assert (second["stored_bytes"], second["payload_bytes"]) == (14_944, 65_384)
    assert (second["stored_crc32"], second["payload_crc32"]) == (0x539386CD, 0xC72A3352)
    assert found["events"] == 179_474
    assert found["by_header_type"] == {
        0x01: 2, 0x02: 3_189, 0x0A: 27, 0x11: 100_157, 0x12: 33_378, 0x13: 34_765, 0x14: 7_956,
    }  # fmt: skip
    assert (found["holes"], found["damaged_buffers"], found["truncated"]) == ([], 0, False)


def test_events_of_a_by_kind(log):
    by_hook = _readers.inspect_etl(log(A))["by_hook"]
    expected = {
        0x10A: 1_208, 0x10C: 1_208, 0x10B: 21, 0x10D: 21, 0x10E: 2, 0x10F: 2,
        0x420: 16, 0x423: 14, 0x424: 3_054,
        0x301: 1, 0x302: 1, 0x303: 32, 0x304: 32,
        0x501: 9, 0x502: 15, 0x503: 670, 0x504: 664,
    }  # fmt: skip
    assert {hook: by_hook[hook] for hook in expected} == expected


def test_times_of_a(imported, log):
    recording = imported(A)
    end_ns = _readers.inspect_etl(log(A))["last_event_ns"]
    start_ns = recording.manifest.clock.start_utc_ns
    assert_moment(start_ns, "2020-07-29T00:07:00.623616")
    assert_moment(start_ns + recording.manifest.window_end_ns, "2020-07-29T00:07:10.693592")
    assert_moment(start_ns + end_ns, "2020-07-29T00:07:13.205182")


@pytest.mark.parametrize(
    ("op", "count", "total_bytes", "smallest", "largest", "first_offset", "last_offset"),
    [
        ("read", 1_208, 19_564_544, 1_024, 32_768, 402_100_224, 13_952_356_352),
        ("write", 21, 286_720, 4_096, 57_344, 602_198_016, 68_500_865_024),
    ],
)
def test_sizes_and_offsets_of_a(ask, op, count, total_bytes, smallest, largest, first_offset, last_offset):
    select = (
        "count(*), sum(size_bytes), min(size_bytes), max(size_bytes), min(offset_bytes), max(offset_bytes)"
    )
    assert ask(A, select, f"op = '{op}'") == (
        count,
        total_bytes,
        smallest,
        largest,
        first_offset,
        last_offset,
    )


@pytest.mark.parametrize(
    ("op", "least", "lower_median", "upper_median", "most", "total"),
    [
        ("read", 906, 1_827, 1_827, 4_045_865, 20_132_323),
        ("write", 4_550, 10_445, 10_445, 622_766, 1_714_923),
        ("flush", 786_839, 786_839, 1_097_765, 1_097_765, 786_839 + 1_097_765),
    ],
)
def test_response_times_of_a(ask, op, least, lower_median, upper_median, most, total):
    """In ticks of 100 ns, of which a recording's nanoseconds lose none."""
    ticks = "((completed_ns - issued_ns) // 100)"
    select = f"list_sort(list({ticks}))"
    (found,) = ask(A, select, f"op = '{op}'")
    middle = (len(found) - 1) / 2
    medians = found[math.floor(middle)], found[math.ceil(middle)]
    assert (found[0], found[-1], sum(found)) == (least, most, total)
    if op == "read":
        assert lower_median in medians
    else:
        assert medians == (lower_median, upper_median)


def test_flushes_of_a_name_the_threads_that_asked(imported):
    """The oracle prints the low half of the response time instead (786839, 1097765)."""
    flushes = [row for row in imported(A).read("io").to_pylist() if row["op"] == "flush"]
    assert [row["thread_id"] for row in flushes] == [960, 44]


@pytest.mark.parametrize(
    ("op", "first", "last"), [("read", 1955368307, 2041836503), ("write", 1955107211, 2041438255)]
)
def test_first_and_last_of_a(ask, op, first, last):
    assert ask(A, "min(completed_ns), max(completed_ns)", f"op = '{op}'") == (
        (first - 1942608875) * 100,
        (last - 1942608875) * 100,
    )


def test_first_and_last_read_of_a_in_utc(imported, ask):
    first, last = ask(A, "min(completed_ns), max(completed_ns)", "op = 'read'")
    start_ns = imported(A).manifest.clock.start_utc_ns
    assert_moment(start_ns + first, "2020-07-29T00:07:01.899560")
    assert_moment(start_ns + last, "2020-07-29T00:07:10.546380")


def test_first_rows_of_a(imported):
    """Raw stamp, disk, size, offset, ticks and thread of the first read and write, as published."""
    io = imported(A).read("io").to_pylist()
    for op, expected in (
        ("read", (1955368307, 0, 16384, 849788928, 258208, 44)),
        ("write", (1955107211, 0, 4096, 6109835264, 9284, 44)),
    ):
        row = min((row for row in io if row["op"] == op), key=lambda row: row["completed_ns"])
        assert expected == (
            row["completed_ns"] // 100 + 1942608875,
            row["device_id"],
            row["size_bytes"],
            row["offset_bytes"],
            (row["completed_ns"] - row["issued_ns"]) // 100,
            row["thread_id"],
        )


def test_flags_of_reads_of_a(ask):
    """Published IrpFlags 0x20403, 0x60043, 0x6000A and 0x20002, in the recording's bits; whether metadata aside."""
    (counts,) = ask(A, "histogram(flags - (flags & 32))", "op = 'read'")
    low, no_cache, paging, synchronous, split = 0x1000, 0x1, 0x2, 0x4, 0x100
    assert counts == {
        low | no_cache | paging: 1_057,
        no_cache | paging | synchronous: 148,
        paging | split: 2,
        low | paging: 1,
    }


def test_pairing_and_mappings_of_a(log):
    trace = _readers.read_etl(log(A))
    while trace.next_io(1000) is not None:
        pass
    counts = trace.counts()
    assert counts["paired"] == 1_229 + 2  # the check value leaves flushes aside
    assert (counts["unpaired_inits"], counts["unpaired_completions"]) == (0, 0)
    assert counts["volume_mappings"] == 9


def test_io_in_flight_of_a(imported):
    rows = [row for row in imported(A).read("io").to_pylist() if row["op"] != "flush"]
    changes = [(row["completed_ns"], -1) for row in rows] + [(row["issued_ns"], 1) for row in rows]
    depth = most = 0
    for _, change in sorted(changes):
        depth += change
        most = max(most, depth)
    assert most == 4


def test_names_of_a(imported):
    recording = imported(A)
    io = [row for row in recording.read("io").to_pylist() if row["op"] != "flush"]
    files = {row["file_id"]: row for row in recording.read("files").to_pylist()}
    processes = {row["process_id"]: row for row in recording.read("processes").to_pylist()}
    assert sum(row["file_id"] is not None for row in io) == 1_229
    assert len(files) == 38

    def figures(chosen):
        sizes = [row["size_bytes"] for row in chosen]
        return len(sizes), sum(sizes)

    busiest = r"C:\Windows\Microsoft.NET\Framework64\v4.0.30319\clr.dll"
    assert figures(row for row in io if files[row["file_id"]]["path"] == busiest) == (670, 10_977_280)
    by_process = {
        (processes[key]["name"], processes[key]["os_process_id"]): figures(
            row for row in io if row["process_id"] == key
        )
        for key in processes
    }
    assert by_process["MsMpEng.exe", 1632] == (1_060, 16_936_960)
    assert by_process["System", 4] == (19, 290_816)
    assert (
        len(processes) == 33
    )  # 32 there at the start, one started: nothing doubled by the rundown at the end


def test_disks_of_a(imported):
    disk, partition = imported(A).read("devices").to_pylist()
    assert (disk["name"], disk["model"], disk["logical_block_bytes"]) == (
        "disk 0",
        "Virtual HD ATA Device",
        512,
    )
    assert disk["size_bytes"] == 63 * 255 * 16_578 * 512
    assert disk["write_cache"]
    assert (partition["start_bytes"], partition["size_bytes"]) == (368_050_176, 135_996_112_896)
    assert (partition["mount"], partition["filesystem"], partition["parent_device_id"]) == ("C:", "NTFS", 0)


def test_quality_of_both(imported):
    for name, unpaired in ((A, 0), (B, 1)):
        quality = imported(name).manifest.quality
        assert quality.verdict == "good"
        # PerfView packs symbols and a log beside the trace.
        assert [note for note in quality.notes if not note.startswith("left out, not a trace")] == []
        assert (quality.unpaired_issues, quality.unpaired_completions) == (unpaired, 0)


def test_sources_of_a(imported):
    archive, trace = imported(A).manifest.sources
    assert (archive.kind, archive.bytes) == ("zip", 3_846_762)
    assert archive.sha256 == "7ff6701d6efe27f755678d009e78c765ae7cdf2255610863ddf4605cff29cbc8"
    assert (trace.kind, trace.bytes, trace.events) == ("etl", 4_879_401, 179_474)
    assert trace.sha256 == "50da7f725f80f88a7622b37f9826844a790cb0c4f64e351fa1f38cf24916889a"


@pytest.mark.parametrize("name", [A, B])
def test_kernel_events_as_often_as_the_baseline_counts(samples, log, name):
    text = (samples / "etl" / f"{name}.baseline.txt").read_text("utf-8-sig")
    counts = {
        key: int(value)
        for key, value in re.findall(r"^COUNT Windows Kernel/(\S+):(\d+)$", text, re.MULTILINE)
    }
    by_hook = _readers.inspect_etl(log(name))["by_hook"]
    expected = {hook: counts[key] for key, hook in HOOKS.items() if key in counts}
    assert {hook: by_hook.get(hook, 0) for hook in expected} == expected
    assert len(expected) >= 11


def _baseline_rows(samples, name):
    """The completed disk I/Os the baseline prints, as dictionaries of its own words."""
    for line in (samples / "etl" / f"{name}.baseline.txt").read_text("utf-8-sig").splitlines():
        found = re.match(r"EVENT ([\d,.]+): Windows Kernel/DiskIO/(Read|Write|FlushBuffers) (.*)", line)
        if found:
            fields = dict(pair.split("=", 1) for pair in found[3].rstrip("; ").split("; "))
            yield float(found[1].replace(",", "")), found[2], fields


def _number(text):
    return int(text.replace(",", ""))


@pytest.mark.parametrize(("name", "printed"), [(A, 12), (B, 15)])
def test_every_disk_row_of_the_baseline(samples, imported, name, printed):
    """Field by field. Its milliseconds have three decimals; half-way cases round either way, hence 0.0005 ms.

    Version 2 events (B) name no thread; there the oracle, too, takes the paired Init's.
    """
    recording = imported(name)
    io = recording.read("io").to_pylist()
    files = {row["file_id"]: row["path"] for row in recording.read("files").to_pylist()}
    processes = {row["process_id"]: row for row in recording.read("processes").to_pylist()}
    count = 0
    for at_ms, kind, fields in _baseline_rows(samples, name):
        op = {"Read": "read", "Write": "write", "FlushBuffers": "flush"}[kind]
        near = [
            row for row in io if row["op"] == op and abs(row["completed_ns"] / 1e6 - at_ms) <= 0.0005 + 1e-9
        ]
        assert len(near) == 1, (at_ms, kind, near)
        (row,) = near
        count += 1
        assert row["device_id"] == _number(fields["DiskNumber"])
        elapsed_ms = (row["completed_ns"] - row["issued_ns"]) / 1e6
        assert elapsed_ms == pytest.approx(
            float(fields["ElapsedTimeMSec"].replace(",", "")), abs=0.0005 + 1e-9
        )
        if op != "flush":
            assert row["size_bytes"] == _number(fields["TransferSize"])
            assert row["offset_bytes"] == _number(fields["ByteOffset"])
            assert files[row["file_id"]].startswith(fields["FileName"].removesuffix("..."))
            assert bool(row["flags"] & 0x1) == ("Nocache" in fields["IrpFlags"])
            assert bool(row["flags"] & 0x2) == ("MountComple" in fields["IrpFlags"])
            assert bool(row["flags"] & 0x1000) == (fields["Priority"] in {"Verylow", "Low"})
        if op == "flush" and name == A:
            continue  # the oracle takes a flush's thread from the wrong place
        process = processes[row["process_id"]]
        assert (row["thread_id"], process["os_process_id"]) == (
            _number(fields["TID"]),
            _number(fields["PID"]),
        )
        assert process["name"].removesuffix(".exe") == fields["PName"]
    assert count == printed


@pytest.mark.parametrize(
    ("name", "buffers", "events", "holes"),
    [
        ("tx_Process", 182, 10_344, [(175, 1), (181, 1)]),
        ("etlparser_lxcore_kernel", 3, 4, []),
        ("krabsetw_powershell", 26, 114, []),
    ],
)
def test_logs_without_disk_io_are_empty_recordings_that_say_so(
    samples, tmp_path, name, buffers, events, holes
):
    """Counts are published for the first two; the third's are only its header's own number of buffers, and ours."""
    path = samples / "etl" / f"{name}.etl"
    found = _readers.inspect_etl(path)
    assert (found["buffers"], found["events"], found["holes"]) == (buffers, events, holes)
    assert found["header"]["buffers_written"] == buffers
    recording = import_files([path], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    assert recording.manifest.rows["io"] == 0
    assert recording.manifest.quality.sequence_holes == len(holes)
    assert "this trace was taken without disk I/O" in recording.manifest.quality.notes[0]


def test_first_and_last_event_of_a_log_with_an_odd_frequency(samples):
    found = _readers.inspect_etl(samples / "etl" / "tx_Process.etl")
    start_ns = found["header"]["start_utc_ns"]

    assert found["header"]["counter_hz"] == 2_109_960
    assert_moment(start_ns + found["first_event_ns"], "2010-10-29T19:07:49.659636")
    assert_moment(start_ns + found["last_event_ns"], "2010-10-29T19:10:20.120352")
    assert_moment(start_ns + found["header"]["end_ns"], "2010-10-29T19:10:20.173234")


def test_inferred_drive_letters_are_those_the_log_tells(log, imported, tmp_path):
    """The same log with its mappings made unrecognisable: where the I/O fell leads to the same paths."""
    guid = uuid.UUID("9b79ee91-b5fd-41c0-a243-4248e266e9d0").bytes_le
    data = log(B).read_bytes()
    assert data.count(guid) >= 8
    path = tmp_path / "unmerged.etl"
    path.write_bytes(data.replace(guid, bytes(16)))
    inferred = import_files([path], tmp_path / "unmerged.iotrace")
    assert inferred.read("files", ["path"]) == imported(B).read("files", ["path"])
    assert any("inferred" in note for note in inferred.manifest.quality.notes)


def test_threads_change_nothing(log):
    def table(threads):
        import pyarrow as pa

        trace = _readers.read_etl(log(B), threads=threads)
        return pa.record_batch(trace.next_io(1 << 20)).to_pylist()

    assert table(1) == table(2) == table(5)


def test_the_counter_log_of_the_samples_is_no_trace_of_disk_io(samples):
    with pytest.raises(_readers.UnreadableError, match=r"is a counter log"):
        _readers.read_etl(samples / "perfmon" / "tx_BasicPerfCounters.blg")


def test_rows_do_not_depend_on_what_is_decoded_twice(log):
    """All events kept, none kept, some kept: the same rows, on one thread or several."""
    import pyarrow as pa

    def table(kept_events, threads):
        trace = _readers.read_etl(log(A), kept_events=kept_events, threads=threads)
        return pa.record_batch(trace.next_io(1 << 20)).to_pylist()

    whole = table(1 << 20, 1)
    assert len(whole) == 1_231
    assert table(0, 1) == table(0, 2) == table(700, 2) == whole


def test_inspection_of_a(samples, log):
    from iotrace.capture.formats.windows import etl

    found = etl.inspect(log(A), "a.etl")
    assert (found["whole"], found["problems"], found["buffers"], found["events"]) == (True, [], 360, 179_474)
    assert (found["os"], found["compression"]) == ("Windows 8 / Server 2012 build 9200", "Xpress")
    assert found["events_by_group"]["disk I/O"] >= 2 * (1_208 + 21 + 2)
