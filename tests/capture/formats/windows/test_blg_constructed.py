"""Counter logs made of planted raw values: every form of record, every rule, and what can be wrong with a log."""

import importlib.util
import json
import math
import struct
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.capture.counters.samples import RULES, is_base
from iotrace.capture.formats.windows import blg
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

_SPEC = importlib.util.spec_from_file_location(
    "perfmon_build", Path(__file__).parents[3] / "fixtures" / "perfmon" / "build.py"
)
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)

RATE, LARGE_RATE, AVERAGE_TIMER, QUEUE, RAW = 0x10410400, 0x10410500, 0x30020400, 0x00550500, 0x00010100
BASE, PRECISION, LARGE_BASE = 0x40030402, 0x20570500, 0x40030500


def silent(*_):
    pass


@pytest.fixture
def read(tmp_path):
    """Write a log, read all of it; its rows and its trace."""

    def rows(data):
        path = tmp_path / "a.blg"
        path.write_bytes(data)
        trace = blg.read(path, "a.blg", silent)
        batches = [batch for _, batch in trace.batches()]
        return (pa.Table.from_batches(batches).to_pylist() if batches else []), trace

    return rows


def test_a_rate_in_single_records(read):
    """50, then 150 reads in a second of a clock of 10 MHz."""
    entries = [build.entry(RATE, "PhysicalDisk", "Disk Reads/sec", instance="0 C:", hertz=10_000_000)]
    clock = 7 * 10**9
    blocks = [[build.single(total, clock + number * 10**7)] for number, total in enumerate((100, 150, 300))]
    rows, _ = read(build.samples_log(entries, blocks))
    assert rows[0] == {
        "at_ns": 10**9, "interval_ns": 10**9, "source": "HOST", "object": "PhysicalDisk", "instance": "0 C:",
        "counter": "Disk Reads/sec", "value": 50.0, "unit": "1/s", "layer": "block", "metric": "read_iops",
    }  # fmt: skip
    assert [row["value"] for row in rows] == [50.0, 150.0]


def test_a_mean_time_in_single_records_is_stored_in_nanoseconds(read):
    """20 reads that took 80,000 ticks of 10 MHz: 0.4 ms each. Then none: Windows shows 0, which is no latency."""
    entries = [build.entry(AVERAGE_TIMER, "LogicalDisk", "Avg. Disk sec/Read", instance="E:")]
    rows, _ = read(
        build.samples_log(entries, [[build.single(*pair)] for pair in ((0, 0), (80_000, 20), (80_000, 20))])
    )
    assert [(row["value"], row["unit"], row["metric"]) for row in rows] == [
        (pytest.approx(400_000), "ns", "read_latency_ns"),
        (0.0, "ns", None),
    ]


def test_wildcard_items_are_matched_by_name(read):
    """Instances come, go and change places; one that was away begins anew."""
    entries = [build.entry(RAW, "Process", "Handle Count", instance="*", kind=1)] * 1
    rates = [build.entry(LARGE_RATE, "Process", "IO Read Bytes/sec", instance="*", kind=1)]
    second = 10**7
    blocks = [
        [build.wildcard([("a", 5, 0)]), build.wildcard([("a", 100, 0), ("b", 1000, 0)])],
        [build.wildcard([("a", 6, 0)]), build.wildcard([("b", 1300, second), ("a", 107, second)])],
        [build.wildcard([]), build.wildcard([("a", 114, 2 * second)])],
        [build.wildcard([("a", 7, 0)]), build.wildcard([("a", 121, 3 * second), ("b", 9, 3 * second)])],
    ]
    rows, _ = read(build.samples_log(entries + rates, blocks))
    found = [
        (row["at_ns"] // 10**9, row["instance"], row["value"])
        for row in rows
        if row["counter"] != "Handle Count"
    ]
    assert found == [(1, "b", 300.0), (1, "a", 7.0), (2, "a", 7.0), (3, "a", 7.0)]
    gauges = [(row["value"], row["interval_ns"]) for row in rows if row["counter"] == "Handle Count"]
    assert gauges == [(5.0, None), (6.0, None), (7.0, None)]


def test_equal_names_are_numbered(read):
    entries = [build.entry(RAW, "Process", "Handle Count", instance="*", kind=1)]
    rows, _ = read(build.samples_log(entries, [[build.wildcard([("s", 1, 0), ("s", 2, 0), ("s", 3, 0)])]]))
    assert [row["instance"] for row in rows] == ["s", "s#1", "s#2"]


def disk_object(reads, ticks, operations, *, perf, utc, title=234):
    """Disk Reads/sec and Avg. Disk sec/Read of one disk."""
    definitions = [(214, RATE, 4), (208, AVERAGE_TIMER, 8), (208, BASE, 4)]
    return build.whole_object(title, definitions, [("0 C:", (reads, ticks, operations))], perf=perf, utc=utc)


def whole_object_log(names=None, **header):
    events = [build.event(0x24, build.LOCAL, build.names("\\\\HOST", names))] if names else []
    entry = build.entry(0x10, "PhysicalDisk", "*", instance="*", kind=0x10)
    events.append(build.event(0x20, build.LOCAL, build.catalog(entry)))
    for number, (reads, ticks) in enumerate([(10, 0), (30, 40_000)]):
        second = number * build.SECOND
        block = disk_object(reads, ticks, reads, perf=second, utc=build.START_UTC + second)
        events += build.split(0x22, build.LOCAL + second, build.sample(block))
    return build.log(events, **header)


def test_whole_objects(read):
    rows, trace = read(
        whole_object_log({234: "PhysicalDisk", 214: "Disk Reads/sec", 208: "Avg. Disk sec/Read"})
    )
    assert [(row["object"], row["counter"], row["value"]) for row in rows] == [
        ("PhysicalDisk", "Disk Reads/sec", 20.0),
        (
            "PhysicalDisk",
            "Avg. Disk sec/Read",
            pytest.approx(200_000),
        ),  # 40,000 ticks of 10 MHz over 20 reads
    ]
    assert trace.outcome().quality.notes == []


def test_localized_titles_keep_their_name_and_get_their_meaning(read):
    """Title numbers are the same in every language; the names here are Hungarian and in no table of translations."""
    rows, trace = read(whole_object_log({234: "Fizikai lemez", 214: "Olvasás/s", 208: "Átlagos olvasás"}))
    assert [(row["object"], row["counter"], row["metric"]) for row in rows] == [
        ("Fizikai lemez", "Olvasás/s", "read_iops"),
        ("Fizikai lemez", "Átlagos olvasás", "read_latency_ns"),
    ]
    assert trace.outcome().quality.notes == []


def test_titles_without_a_table_of_names(read):
    rows, _ = read(whole_object_log())
    assert [row["counter"] for row in rows] == ["Disk Reads/sec", "Avg. Disk sec/Read"]


def test_a_localized_counter_that_is_not_known_is_kept_and_said(read):
    entries = [build.entry(RAW, "Fizikai lemez", "Várakozási sor", instance="0 C:")]
    rows, trace = read(build.samples_log(entries, [[build.single(4, 0)]]))
    assert [(row["counter"], row["value"], row["metric"]) for row in rows] == [("Várakozási sor", 4.0, None)]
    assert any("localized" in note for note in trace.outcome().quality.notes)


def test_instances_are_named_after_their_parents(read):
    """Threads have numbers for names; their processes stand in another block of the sample."""
    definitions = [(198, 0x00010000, 4)]
    processes = build.whole_object(230, definitions, [("sqlservr", (1,)), ("lsass", (2,))])
    threads = build.whole_object(232, definitions, [("0", (3,)), ("1", (4,))], parent=(230, 1))
    entries = [build.entry(0x10, name, "*", instance="*", kind=0x10) for name in ("Process", "Thread")]
    rows, _ = read(build.samples_log(entries, [[processes, threads]]))
    assert [(row["instance"], row["value"]) for row in rows] == [
        ("sqlservr", 1.0),
        ("lsass", 2.0),
        ("lsass/0", 3.0),
        ("lsass/1", 4.0),
    ]


def test_four_byte_values_are_not_read_past_their_end(read):
    """The builder pads short values with 0xDEADBEEF."""
    definitions = [(198, 0x00010000, 4)]
    block = build.whole_object(234, definitions, [("0", (0xFFFFFFF0,))])
    entry = build.entry(0x10, "PhysicalDisk", "*", kind=0x10)
    rows, _ = read(build.samples_log([entry], [[block]]))
    assert [row["value"] for row in rows] == [float(0xFFFFFFF0)]


def test_local_time_is_brought_to_utc_by_the_clock_inside(read):
    """The header's zone says one hour, the samples' own clock two: a log of another machine, or of summer."""
    entries = [build.entry(QUEUE, "PhysicalDisk", "Avg. Disk Queue Length", instance="_Total")]
    clock = build.LOCAL - 2 * 3600 * build.SECOND
    blocks = [[build.single(0, clock)], [build.single(5 * 10**6, clock + build.SECOND)]]
    rows, trace = read(build.samples_log(entries, blocks))
    assert trace.clock.start_utc_ns == build.START_UTC_NS - 3600 * 10**9
    assert [row["value"] for row in rows] == [0.5]


@pytest.mark.parametrize(("shift_days", "hours"), [(0, 1), (180, 2)])
def test_local_time_is_brought_to_utc_by_the_rule_of_the_zone(read, shift_days, hours):
    """Central Europe: daylight saving from the last Sunday of March to that of October."""
    entries = [build.entry(RAW, "Memory", "Available MBytes")]
    local = build.LOCAL + shift_days * 86_400 * build.SECOND
    events = [build.event(0x20, local, build.catalog(*entries))]
    events.append(build.event(0x22, local, build.sample(build.single(1, 0))))
    zone = {"standard": (0, 10, 0, 5, 3, 0, 0, 0), "daylight": (0, 3, 0, 5, 2, 0, 0, 0)}
    _, trace = read(build.log(events, **zone))
    local_ns = build.START_UTC_NS + 3600 * 10**9 + shift_days * 86_400 * 10**9
    assert trace.clock.start_utc_ns == local_ns - hours * 3600 * 10**9
    assert any("daylight saving" in note for note in trace.outcome().quality.notes)


def test_a_counter_that_goes_backwards_gives_no_value(read):
    entries = [build.entry(RATE, "Process", "Page Faults/sec", instance="a")]
    blocks = [[build.single(total, number * 10**7)] for number, total in enumerate((100, 40, 41))]
    rows, trace = read(build.samples_log(entries, blocks))
    assert [(row["at_ns"], row["value"]) for row in rows] == [(2 * 10**9, 1.0)]
    assert any(note.startswith("1 value left out") for note in trace.outcome().quality.notes)


def test_values_that_windows_marks_invalid_are_left_out(read):
    entries = [build.entry(RAW, "Memory", "Available MBytes")]
    rows, trace = read(
        build.samples_log(entries, [[build.single(5, 0, status=0x800007D5)], [build.single(6, 0)]])
    )
    assert [row["value"] for row in rows] == [6.0]
    assert any("invalid" in note for note in trace.outcome().quality.notes)


def test_types_that_are_not_cooked_are_named(read):
    entries = [build.entry(0x22410500, "X", "multi"), build.entry(RAW, "Memory", "Available MBytes")]
    rows, trace = read(build.samples_log(entries, [[build.single(1, 1), build.single(2, 0)]]))
    assert [row["counter"] for row in rows] == ["Available MBytes"]
    assert any("0x22410500" in note for note in trace.outcome().quality.notes)


@pytest.mark.parametrize("kind", [0x40030401, 0x40030402, 0x40030403, 0x40030500, 0x42030500])
def test_bases_are_no_counters(kind):
    assert is_base(kind)
    assert not any(is_base(other) for other in RULES)


def test_samples_longer_than_an_event_are_joined(read):
    items = [(f"process number {number}", number, 0) for number in range(400)]
    entries = [build.entry(RAW, "Process", "Handle Count", instance="*", kind=1)]
    rows, _ = read(build.samples_log(entries, [[build.wildcard(items)]]))
    assert [(row["instance"], row["value"]) for row in rows] == [
        (name, float(value)) for name, value, _ in items
    ]


def two_buffers(**options):
    entries = [build.entry(RAW, "Memory", "Available MBytes")]
    first = [build.event(0x20, build.LOCAL, build.catalog(*entries))]
    buffers = [first, *([] for _ in range(3))]
    for number in range(4):
        at = build.LOCAL + number * build.SECOND
        buffers[number].append(build.event(0x22, at, build.sample(build.single(number, 0))))
    return build.log(*buffers, **options)


def test_a_circular_log_is_read_in_the_order_of_its_buffers(read):
    """The second buffer of the file was written last."""
    data = two_buffers()
    head, first, *rest = (data[start : start + 65_536] for start in range(0, len(data), 65_536))
    later = bytearray(
        build.buffer([build.event(0x22, build.LOCAL + 9 * build.SECOND, build.sample(build.single(9, 0)))], 5)
    )
    rows, trace = read(head + first + bytes(later) + b"".join(rest[1:]))
    assert [row["value"] for row in rows] == [0.0, 2.0, 3.0, 9.0]
    quality = trace.outcome().quality
    assert (quality.clock_steps, quality.sequence_holes) == (0, 0)
    assert any("circular" in note for note in quality.notes)


def test_a_log_cut_in_its_last_buffer_keeps_what_is_whole(read):
    data = two_buffers()
    rows, trace = read(data[: -65_536 + 200])
    assert [row["value"] for row in rows] == [0.0, 1.0, 2.0, 3.0][: len(rows)]
    assert len(rows) >= 3
    assert trace.outcome().quality.truncated_tail
    assert trace.outcome().quality.judge(0).verdict == "usable"


def test_a_log_cut_between_buffers_is_noticed_by_the_headers_count(read):
    data = two_buffers(written=5)
    _, trace = read(data)
    assert not trace.outcome().quality.truncated_tail
    rows, trace = read(data[:-65_536])
    assert len(rows) == 3
    assert trace.outcome().quality.truncated_tail


def test_a_log_that_was_not_closed_says_so(read):
    _, trace = read(two_buffers(end=0))
    assert any("not closed" in note for note in trace.outcome().quality.notes)


def test_a_missing_buffer_is_a_hole(read):
    data = two_buffers()
    rows, trace = read(data[: 2 * 65_536] + data[3 * 65_536 :])
    assert [row["value"] for row in rows] == [0.0, 2.0, 3.0]
    assert trace.outcome().quality.sequence_holes == 1


def test_a_damaged_buffer_is_counted_and_the_rest_read(read):
    data = bytearray(two_buffers())
    struct.pack_into("<I", data, 2 * 65_536 + 0x30, 0xFFFFFFFF)
    rows, trace = read(bytes(data))
    assert [row["value"] for row in rows] == [0.0, 2.0, 3.0]
    assert trace.outcome().quality.damaged_buffers == 1


def test_losses_in_the_header_are_told(read):
    _, trace = read(two_buffers(lost=7))
    assert trace.outcome().quality.events_lost == 7


def test_a_log_without_samples_says_so(tmp_path):
    path = tmp_path / "a.blg"
    path.write_bytes(build.log([build.event(0x20, build.LOCAL, build.catalog())]))
    recording = import_files([path], tmp_path / "a.iotrace")
    assert recording.manifest.rows["counters"] == 0
    assert any("no sample" in note for note in recording.manifest.quality.notes)
    assert validate(tmp_path / "a.iotrace") == []
    json.dumps(blg.inspect(path, "a.blg"))


def test_a_counter_log_out_of_a_zip(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/a.blg", two_buffers())
    recording = import_files([path], tmp_path / "a.iotrace")
    assert recording.manifest.rows["counters"] == 4
    assert [source.kind for source in recording.manifest.sources] == ["zip", "blg"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"This is BibTeX, Version 0.99d (TeX Live 2022)\nThe top-level auxiliary file: a.aux\n", "BibTeX"),
        (b"[0] Config.pm:307> INFO - This is Biber 2.17\n" * 3, "BibTeX"),
        ("PDH-BIN".encode("utf-16-le") + bytes(200), "NT 4"),
    ],
)
def test_other_files_called_blg_are_named(tmp_path, data, words):
    path = tmp_path / "a.blg"
    path.write_bytes(data)
    with pytest.raises(IotraceError, match=words) as caught:
        import_files([path], tmp_path / "a.iotrace")
    assert f"'{path}'" in caught.value.message
    assert caught.value.hint
    with pytest.raises(IotraceError, match=words):
        blg.inspect(path, "a.blg")


def test_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    """Batches are of bounded size: 40,000 samples of 20 counters come in several."""
    entries = [build.entry(RAW, "X", f"n{number}") for number in range(20)]
    body = build.sample(*[build.single(number, 0) for number in range(20)])
    first = [build.event(0x20, build.LOCAL, build.catalog(*entries))]
    per_buffer = 60_000 // (len(body) + 80)
    count = 40_000
    stamps = [build.event(0x22, build.LOCAL + number * build.SECOND, body) for number in range(count)]
    buffers = [stamps[start : start + per_buffer] for start in range(0, count, per_buffer)]
    path = tmp_path / "a.blg"
    path.write_bytes(build.log(first, *buffers))
    trace = blg.read(path, "a.blg", silent)
    sizes = [batch.num_rows for _, batch in trace.batches()]
    assert sum(sizes) == 20 * count
    assert len(sizes) == math.ceil(20 * count / (1 << 18))
