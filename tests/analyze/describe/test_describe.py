"""Describe, held against laws and against slow definitions written out here."""

import json
import random

import numpy as np
import pytest

from iotrace.analyze import library, units, validity
from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.describe.description import grade
from iotrace.analyze.describe.one_pass import Subject, measure
from iotrace.analyze.describe.presentation import describe_answer
from iotrace.analyze.describe.recording import describe
from iotrace.analyze.describe.streams import Stream
from iotrace.analyze.present import plain
from iotrace.schemas import Clock, Quality, writer

MS = 1_000_000
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("mean_ms", "word"),
    [(0.99, "excellent"), (1, "very good"), (5, "good"), (9.9, "good"), (10, "poor"), (20, "bad"), (99, "bad"),
     (100, "shockingly bad"), (499, "shockingly bad"), (500, "wow")],
)  # fmt: skip
def test_grades_are_those_of_the_cheat_sheet(mean_ms, word):
    assert grade(mean_ms * MS) == word


def test_perfmon_table(make_recording):
    """Ten seconds: 100 reads of 8 KiB in 2 ms each, 50 writes of 64 KiB in 4 ms each."""
    place = {"device_id": 0, "file_id": 0}
    reads = [
        {"issued_ns": at, "completed_ns": at + 2 * MS, "offset_bytes": i * 8192, **place}
        for i, at in enumerate(range(0, 10 * SECOND, 100 * MS))
    ]
    scattered = {"op": "write", "size_bytes": 65536, **place}
    writes = [
        {"issued_ns": at, "completed_ns": at + 4 * MS, "offset_bytes": (7 * i % 50) << 20, **scattered}
        for i, at in enumerate(range(0, 10 * SECOND, 200 * MS))
    ]
    found = describe(make_recording(reads + writes, window_ns=10 * SECOND))
    total = found.total
    assert (total.read.ios_per_s, total.write.ios_per_s) == (10, 5)
    assert (total.read.bytes_per_s, total.write.bytes_per_s) == (81920, 327680)
    assert total.bytes_per_transfer == pytest.approx((81920 + 327680) / 15)
    assert total.queue_length_mean == pytest.approx(10 * 0.002 + 5 * 0.004)
    assert total.read.latency["service"].mean_ns == 2 * MS
    assert total.write.latency["service"].grade == "very good"
    assert total.read_share_of_ios == pytest.approx(2 / 3)
    assert total.read_share_of_bytes == pytest.approx(0.2)
    assert total.read.sequential_share == 0.99
    assert total.write.sequential_share == 0
    assert found.workloads[1].mount == "D:"
    assert [w.role for w in found.workloads] == [None, None, "data"]
    json.dumps(plain(found))


def test_quantiles_are_withheld_not_invented(make_recording):
    found = describe(
        make_recording([{"issued_ns": i, "completed_ns": i + 1000} for i in range(250)], window_ns=SECOND)
    )
    quantiles = found.total.read.latency["service"].quantiles_ns
    assert quantiles["p50"] == 1000
    assert quantiles["p90"] is quantiles["p99"] is None


def test_an_io_seen_at_several_layers_counts_once(make_recording):
    ios = [
        {"issued_ns": i * MS - lead, "completed_ns": i * MS + length, "layer": layer}
        for i in range(10)
        for layer, lead, length in (("filesystem", 200, 900), ("block", 100, 800), ("device", 0, 700))
    ]
    found = describe(make_recording(ios, window_ns=SECOND))
    assert found.workload_layer == "block"
    assert found.total.read.io_count == 10
    assert {entry.layer: entry.latency.mean_ns for entry in found.layer_latencies} == {
        "filesystem": 1100,
        "block": 900,
        "device": 700,
    }


def test_a_disk_is_called_by_the_letters_of_its_partitions(make_recording):
    devices = [
        {
            "device_id": 0,
            "name": "disk 0",
            "kind": "disk",
            "parent_device_id": None,
            "start_bytes": None,
            "mount": None,
        },
        {
            "device_id": 1,
            "name": "2",
            "kind": "partition",
            "parent_device_id": 0,
            "start_bytes": 1 << 30,
            "mount": "D:",
        },
        {
            "device_id": 2,
            "name": "1",
            "kind": "partition",
            "parent_device_id": 0,
            "start_bytes": 0,
            "mount": "C:",
        },
    ]
    found = describe(make_recording([{"issued_ns": 1, "device_id": 0}], SECOND, tables={"devices": devices}))
    assert [load.mount for load in found.workloads if load.device_id == 0 and load.role is None] == ["C: D:"]


def test_a_replay_gives_response_service_and_lateness(make_recording):
    ios = [{"intended_ns": i * MS, "issued_ns": i * MS + 10, "completed_ns": i * MS + 110} for i in range(10)]
    found = describe(make_recording(ios, window_ns=SECOND, kind="replayed"))
    assert found.headline_metric == "response"
    assert {name: latency.mean_ns for name, latency in found.total.read.latency.items()} == {
        "response": 110,
        "service": 100,
        "lateness": 10,
    }


def test_no_io_is_no_crash(make_recording):
    recording = make_recording({"issued_ns": np.array([], dtype=np.int64)})
    found = describe(recording)
    assert found.workload_layer is None
    assert found.total is None
    assert found.notes == ["the recording holds no I/Os"]


def _random_ios(seed, count=1500):
    source = random.Random(seed)
    ios, now = [], 0
    for _ in range(count):
        now += int(source.expovariate(1 / 100_000))
        file = source.choice([0, 1, None])
        ios.append(
            {
                "issued_ns": now,
                "completed_ns": None if source.random() < 0.01 else now + int(source.lognormvariate(13, 1)),
                "offset_bytes": source.randrange(40) * 8192,
                "op": source.choice(["read", "write"]),
                "device_id": source.choice([0, 1]),
                "file_id": file,
            }
        )
    return ios


@pytest.mark.parametrize("row_group_ios", [20, 300, 1 << 20])
def test_one_pass_finds_what_one_plain_sweep_finds(make_recording, monkeypatch, row_group_ios):
    """The definitions, in plain loops over all I/Os, for any size of row groups."""
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", row_group_ios)
    ios = _random_ios(4)
    recording = make_recording(ios)
    window = (ios[50]["issued_ns"] + 3, ios[-50]["issued_ns"] + 3)
    with library.opened(recording) as connection:
        rows = library.run(connection, "streams", layer="block").to_pylist()
        streams = [Stream("block", r["device_id"], r["file_id"], r["role"], r["op"]) for r in rows]
        subject = Subject("block", window, ("service",), has_errors=False)
        found = measure(connection, recording, streams, subject)

    ends, sequential = {}, {}
    for io in ios:
        key = (io["device_id"], io["file_id"], io["op"])
        last = ends.setdefault(key, [])
        # File 1 is a log, of which a write may begin within the one before it.
        rewrites = key[1:] == (1, "write") and last and last[-1] - 8192 <= io["offset_bytes"] < last[-1]
        sequential[key] = sequential.get(key, 0) + bool(io["offset_bytes"] in last[-16:] or rewrites)
        last.append(io["offset_bytes"] + 8192)
    keys = [(stream.device_id, stream.file_id, stream.op) for stream in streams]
    assert dict(zip(keys, found.sequence.sequential_count, strict=True)) == sequential

    for device in (None, 0, 1):
        mine = [io for io in ios if device is None or io["device_id"] == device]
        at = np.array([io["issued_ns"] for io in mine])
        gaps = np.diff(at)
        measured = found.all_arrivals if device is None else found.arrivals[device, None]
        assert measured.coefficient_of_variation == pytest.approx(gaps.std() / gaps.mean())
        for width, peak in zip((10 * MS, 100 * MS, SECOND), measured.peak_to_mean.values(), strict=True):
            fullest = max(np.sum((at >= begin) & (at < begin + width)) for begin in at)
            stretches = (at[-1] - at[0]) / width
            assert peak == (pytest.approx(fullest * stretches / len(gaps)) if stretches >= 10 else None)
        events = [(io["issued_ns"], 1) for io in mine if io["completed_ns"] is not None]
        events += [(io["completed_ns"], -1) for io in mine if io["completed_ns"] is not None]
        depth = peak = integral = 0
        last = window[0]
        for at, step in sorted(events):
            clipped = min(max(at, window[0]), window[1])
            integral += depth * (clipped - last)
            last = clipped
            depth += step
            if window[0] <= at < window[1]:
                peak = max(peak, depth)
        flight = found.all_flight if device is None else found.flight[device]
        assert (flight.peak, flight.integral_ns) == (peak, integral)
        assert flight.length_ns == window[1] - window[0]


def test_littles_law_holds(make_recording):
    """Arrival rate times mean latency is the mean number in flight, but for what the window's ends cut."""
    ios = [io for io in _random_ios(9) if io["completed_ns"] is not None]
    found = describe(make_recording(ios, window_ns=ios[-1]["issued_ns"]))
    assert abs(found.in_flight[0].difference_share) < 0.02
    assert found.in_flight[0].mean == found.total.queue_length_mean


def test_poisson_arrivals_have_a_coefficient_of_variation_of_one(make_recording):
    times = np.cumsum(np.random.default_rng(6).exponential(50_000, 20_000)).astype(np.int64)
    found = describe(
        make_recording({"issued_ns": times, "completed_ns": times + 9}, window_ns=int(times[-1]) + 1)
    )
    assert found.total.interarrival_cv == pytest.approx(1, abs=0.03)


def test_a_metronome_has_none_and_a_burst_shows_as_peak_to_mean(make_recording):
    steady = np.arange(1001) * 10 * MS
    found = describe(make_recording({"issued_ns": steady, "completed_ns": steady + 9}, window_ns=99 * SECOND))
    assert found.total.interarrival_cv == 0
    assert found.total.peak_to_mean == {"10ms": 1, "100ms": 1, "1s": 1}
    bursts = np.append(np.repeat(np.arange(10) * SECOND, 100), 10 * SECOND)
    found = describe(make_recording({"issued_ns": bursts, "completed_ns": bursts + 9}, window_ns=99 * SECOND))
    assert found.total.peak_to_mean == {"10ms": 100, "100ms": 10, "1s": 1}
    assert found.in_flight[0].peak == 100


def test_sequential_readers_that_take_turns_are_sequential(make_recording):
    """Three readers of one file, each from its own place: no I/O continues the one before it."""
    ios = [
        {"issued_ns": 3 * i + reader, "completed_ns": 3 * i + reader + 1, "device_id": 0, "file_id": 0,
         "offset_bytes": (reader << 30) + i * 8192}
        for i in range(100)
        for reader in range(3)
    ]  # fmt: skip
    read = describe(make_recording(ios, window_ns=SECOND)).total.read
    assert read.sequential_share == pytest.approx(297 / 300)


def test_the_working_set_over_time_and_its_hot_spots(make_recording):
    """Ten seconds over one MiB, 4 KiB of each 64, then ten over the next; a third of all I/Os at one place of these."""
    mib = 1 << 20
    ios = [
        {
            "issued_ns": int(i * SECOND / 100),
            "completed_ns": int(i * SECOND / 100) + 5,
            "device_id": 0,
            "file_id": 0,
            "offset_bytes": i % 16 * 65536 + (mib if i >= 1000 else 0),
            "size_bytes": 4096,
        }
        for i in range(2000)
    ]
    ios += [io | {"offset_bytes": 640 * mib} for io in ios[1000:]]
    found = describe(make_recording(ios, window_ns=20 * SECOND))
    assert [entry.io_count for entry in found.touched_slices] == [100] * 10 + [200] * 10
    assert [entry.touched_bytes for entry in found.touched_slices] == [mib // 16] * 10 + [
        mib // 16 + 4096
    ] * 10
    news = [entry.new_bytes for entry in found.touched_slices]
    assert news == [mib // 16] + [0] * 9 + [mib // 16 + 4096] + [0] * 9
    first, second = found.hot_spots
    assert (first.device, first.offset_bytes, first.size_bytes, first.io_count) == ("sda", 0, 16 * mib, 2000)
    assert (second.offset_bytes, second.share) == (640 * mib, pytest.approx(1 / 3))
    assert second.io_count_by_slice == [0] * 10 + [100] * 10
    json.dumps(plain(found))


def test_offsets_that_no_device_can_have_are_no_place(make_recording):
    places = [(2**63 - 1, 4096), (2**63 - 10, 2**32 - 1), (0, 8192), (2**62 - 1, 1), (8192, 512)]
    ios = [
        {"issued_ns": i, "completed_ns": i + 5, "device_id": 0, "offset_bytes": offset, "size_bytes": size}
        for i, (offset, size) in enumerate(places)
    ]
    ios.append({"issued_ns": 1 << 60, "completed_ns": 1 << 61, "device_id": 0, "offset_bytes": 8704})
    found = describe(make_recording(ios, window_ns=SECOND))
    total = found.total
    assert total.read.io_count == 6
    # From 0 to 16,896 bytes, and one byte far away.
    assert total.working_set_bytes == (5 + 1) * 4096
    # Two of the four that have a place begin where an earlier one ended.
    assert total.read.sequential_share == pytest.approx(2 / 4)
    assert any(note.startswith("2 reads and writes (33.3 %) have no known place") for note in found.notes)


def test_ios_of_unknown_place_make_a_stream_no_less_sequential(make_recording):
    """Two sources saw the same stream, one of them without offsets; what is said has to agree with a comparison."""
    ios = [
        {"issued_ns": i * MS, "completed_ns": i * MS + 5, "device_id": 0, "size_bytes": 8192,
         "offset_bytes": i // 2 * 8192 if i % 2 == 0 else None}
        for i in range(200)
    ]  # fmt: skip
    recording = make_recording(ios, window_ns=SECOND)
    total = describe(recording).total
    assert total.read.sequential_share == pytest.approx(99 / 100)
    assert compare(recording, recording).a.sequential_share == {"read": pytest.approx(99 / 100)}


def test_counters_alone_give_the_table_of_drives(make_recording):
    """Two seconds of a drive and of a file, as perfmon and the DMVs have them."""
    common = {
        "interval_ns": SECOND,
        "source": "h",
        "object": "PhysicalDisk",
        "counter": "c",
        "layer": "block",
    }
    values = {
        "read_iops": 200.0, "read_bytes_per_second": 200 * 16384.0, "read_latency_ns": 15e6, "queue_length": 3.0
    }  # fmt: skip
    counters = [
        common | {"at_ns": at * SECOND, "instance": instance, "metric": metric, "value": value}
        for at in (1, 2)
        for instance in ("0 D:", "_Total")
        for metric, value in values.items()
    ]
    found = describe(
        make_recording({"issued_ns": np.array([], dtype=np.int64)}, 2 * SECOND, tables={"counters": counters})
    )
    assert [row["instance"] for row in found.drives] == ["0 D:", "_Total"]
    drive = found.drives[0]
    assert (drive["read_ios_per_s"], drive["read_size_bytes"], drive["read_latency_mean_ns"]) == (
        200,
        16384,
        15e6,
    )
    assert (drive["queue_length_mean"], drive["write_ios_per_s"]) == (3, None)
    assert "only counters" in found.notes[0]


def test_a_log_of_queues_alone_names_the_counters_that_it_lacks(make_recording):
    """Two samples of 2 and 4 in flight on one drive, 1 and 1 on another."""
    place = {"interval_ns": SECOND, "source": "HOST", "object": "PhysicalDisk", "counter": "", "unit": "",
             "layer": "block", "metric": "queue_length"}  # fmt: skip
    rows = [
        {"at_ns": at * SECOND, "instance": drive, "value": value, **place}
        for drive, values in (("0 C:", (1.0, 1.0)), ("1 D:", (2.0, 4.0)))
        for at, value in enumerate(values, 1)
    ]
    found = describe(make_recording([], window_ns=2 * SECOND, tables={"counters": rows}))
    answer = describe_answer(found, "name", Quality(), [])
    told = [one.text for one in answer.opening]
    assert told[1] == "Load: 3.00 I/Os in flight on 1 D: on average"
    assert told[2].startswith(
        "Not logged: Disk Reads/sec, Disk Writes/sec, Avg. Disk sec/Read and Avg. Disk sec/Write;"
    )
    assert [head.head for head in answer.sections[0].table.columns] == ["", "queue"]


@pytest.mark.parametrize(("op", "other"), [("read", "Write"), ("write", "Read")])
def test_a_log_of_one_direction_tells_its_load_and_lacks_the_other_alone(make_recording, op, other):
    """500 reads (writes) a second of 40 ms on 0 D:, 20 on 1 E:; 4 MB/s are read and 4 MB/s are written."""
    place = {"at_ns": SECOND, "interval_ns": SECOND, "source": "HOST", "object": "PhysicalDisk", "counter": "",
             "layer": "block"}  # fmt: skip
    rows = [
        place | {"instance": drive, "metric": metric, "value": value}
        for drive, rate in (("0 D:", 500.0), ("1 E:", 20.0))
        for metric, value in (
            (f"{op}_iops", rate),
            (f"{op}_latency_ns", 40e6),
            ("read_bytes_per_second", 4e6),
            ("write_bytes_per_second", 4e6),
        )
    ]
    found = describe(make_recording([], window_ns=SECOND, tables={"counters": rows}))
    told = [one.text for one in describe_answer(found, "name", Quality(), []).opening]
    assert told[1] == f"Load: most on 0 D:, 500 {op}s/s, 4 MB/s"
    assert told[2].startswith(f"Latency there: {op}s bad, 40.00 ms;")
    assert told[3].startswith(f"Not logged: Disk {other}s/sec and Avg. Disk sec/{other};")


def test_failed_and_unfinished_ios_are_load_without_latency_and_said_so(make_recording):
    ios = [{"issued_ns": 0, "completed_ns": 5, "error": 5}, {"issued_ns": 1, "completed_ns": None}]
    found = describe(make_recording(ios, window_ns=SECOND))
    assert found.total.read.io_count == 2
    assert found.total.read.latency["service"].mean_ns is None
    assert len(found.notes) == 4
    assert any("not seen to end" in note and "lower bound" in note for note in found.notes)
    assert found.notes[-1].endswith(
        "have no known place: sequential share, working set and hot spots are not known"
    )


def test_a_source_without_latencies_has_no_queue_either(make_recording):
    ios = [{"issued_ns": at * MS, "completed_ns": None} for at in range(1000)]
    found = describe(make_recording(ios, window_ns=SECOND))
    answer = describe_answer(found, "it", Quality().judge(len(ios)), [])
    assert "Latency: the recording holds none" in [one.text for one in answer.opening]
    queue = [one.name for one in answer.sections[0].table.columns].index("queue")
    assert {str(row[queue]) for row in answer.sections[0].table.rows} == {units.DASH}
    assert {row["latency_mean_ns"] for row in found.busiest} == {None}
    assert "In flight" not in "".join(one.heading for one in answer.sections)


@pytest.mark.parametrize(
    ("formatted", "words"),
    [
        (units.format_duration_ns(850), "850 ns"),
        (units.format_duration_ns(12_340), "12.3 µs"),
        (units.format_duration_ns(310_000), "0.31 ms"),
        (units.format_duration_ns(235 * MS), "235 ms"),
        (units.format_duration_ns(-2 * MS), "-2.00 ms"),
        (units.format_duration_ns(1.2 * SECOND), "1.20 s"),
        (units.format_duration_ns(245 * SECOND), "4 min 05 s"),
        (units.format_duration_ns(3 * 3600 * SECOND), "3 h 00 min"),
        (units.format_duration_ns(None), "–"),  # noqa: RUF001
        (units.format_duration_ns(float("inf")), "–"),  # noqa: RUF001
        (units.format_duration_ns(float("nan")), "–"),  # noqa: RUF001
        (units.format_bytes(512), "512 B"),
        (units.format_bytes(8192), "8.0 KiB"),
        (units.format_bytes((1 << 20) - 1), "1.0 MiB"),
        (units.format_count(1_234_567), "1,234,567"),
        (units.format_rate(1250), "1,250/s"),
        (units.format_rate(110_100_480, "B"), "110 MB/s"),
        (units.format_rate(1_036_288, "B"), "1.04 MB/s"),
        (units.format_rate(512, "B"), "0.512 kB/s"),
        (units.format_rate(0, "B"), "0 MB/s"),
        (units.format_quantity(602_700, "ns"), "0.60 ms"),
        (units.format_quantity(110_100_480, "bytes/s"), "110 MB/s"),
        (units.format_quantity(12.34, "percent"), "12.3 %"),
        (units.format_quantity(0.2344, "I/Os"), "0.234 I/Os"),
        (units.format_quantity(4660, None), "4,660"),
        (units.format_moment(1_767_406_445_000_000_000), "2026-01-03 02:14:05 UTC"),
        (units.format_moment(86_400_000_000_000), ""),
        (units.format_moment(None), ""),
        (units.format_figure(4660.4), "4,660"),
        (units.format_figure(99.96), "100"),
        (units.format_figure(20.73), "20.7"),
        (units.format_share(0.123), "12.3 %"),
        (units.format_ratio_with_interval(1.52, (1.41, 1.66)), "1.52x [1.41, 1.66]"),
        (units.format_share(-0.0003), "0.0 %"),
        (units.format_share(-0.0123), "-1.2 %"),
        (units.format_ratio_with_interval(0.00052, (0.00048, 0.0951)), "0.00052x [0.00048, 0.10]"),
        (units.format_ratio_with_interval(688.48, (99.994, 1234.5)), "688x [99.99, 1,234]"),
        (units.format_ratio_with_interval(43.48, (0.0, 4.9e8)), "43.48x [0.00, 4.9e+08]"),
        (units.format_ratio_with_interval(999_999, (9e5, 2e6)), "999,999x [900,000, 2.0e+06]"),
        (units.format_ratio_with_interval(1e6, (9e5, 2e6)), "over 1,000,000x"),
        (units.format_ratio_with_interval(1.0, (1.0, 1.0)), "1.00x [1.00, 1.00]"),
        (units.format_share_with_interval(0.251, (0.246, 0.254)), "25 %"),
        (units.format_share_with_interval(0.251, (0.246, 0.256)), "25 % [25, 26]"),
        (units.format_duration_with_interval(52_200, (52_150, 52_240)), "52.2 µs [52.1, 52.2]"),
        (units.format_duration_with_interval(52_200, (52_160, 52_240)), "52.2 µs"),
        (units.format_ratio_with_interval(None), "–"),  # noqa: RUF001
    ],
)
def test_figures_read_as_people_say_them(formatted, words):
    assert formatted == words


@pytest.mark.parametrize(("seconds", "is_told"), [(10, False), (60, True)])
def test_counters_that_go_on_beyond_the_ios_are_told(make_recording, seconds, is_told):
    """A counter log of a day beside a trace of an hour: its means are not those of the hour."""
    rows = [
        {"at_ns": (at + 1) * 10**9, "interval_ns": 10**9, "source": "H", "object": "PhysicalDisk", "instance": "0 D:",
         "counter": "Disk Reads/sec", "value": 5.0, "unit": "1/s", "layer": "block", "metric": "read_iops"}
        for at in range(seconds)
    ]  # fmt: skip
    io = [{"issued_ns": 0, "completed_ns": 10**6}]
    found = describe(make_recording(io, window_ns=10 * 10**9, tables={"counters": rows}))
    told = "counters were sampled for 60.0 s, I/Os recorded for 10.0 s: means of counters are over their own time"
    assert (told in found.notes) is is_told
    assert any("counters were" in note for note in found.notes) is is_told


def test_without_ios_it_tells_of_waits_and_events(make_recording):
    """The first line says what and when; nothing is said of a length that only load would need."""
    tables = {
        "waits": [{"at_ns": 1, "wait_type": "WRITELOG", "duration_ns": 40_000_000}],
        "markers": [{"at_ns": 2, "kind": kind, "text": ""} for kind in ("backup", "backup", "log_flush")],
    }
    recording = make_recording([], 10**9, tables=tables)
    found = describe(recording)
    findings = validity.check(recording)
    answer = describe_answer(found, "night.iotrace", recording.manifest.quality, findings)
    held = "holds no reads or writes, only 1 wait and 3 events"
    assert answer.opening[0].text == f"{found.title} {held}: at no known date, 1.00 s"
    rows = {one.heading: [str(row[0]) for row in one.table.rows] for one in answer.sections if one.table}
    assert rows == {"Waits": ["WRITELOG"], "Events": ["backup", "log flush"]}
    assert not findings


@pytest.mark.parametrize(
    ("step_ns", "told"),
    [(100, {"cv", "10ms", "100ms", "1s"}), (10**6, {"cv", "10ms", "100ms", "1s"}), (2 * 10**6, {"10ms", "100ms", "1s"}),
     (15_625_000, {"100ms", "1s"}), (10**9, set())],
)  # fmt: skip
def test_what_the_steps_of_a_clock_hide_is_not_told(make_recording, step_ns, told):
    """A thousand reads a second at random."""
    issued = np.sort(np.random.default_rng(4).integers(0, 30 * 10**9, 29_000)) // step_ns * step_ns
    recording = make_recording(
        {"issued_ns": issued, "completed_ns": issued + 1000},
        window_ns=30 * 10**9,
        clock=Clock(0, float(step_ns), "x"),
    )
    found = describe(recording)
    shown = {"cv": found.total.interarrival_cv} | found.total.peak_to_mean
    assert {name for name, figure in shown.items() if figure is not None} == told
    assert any("which several I/Os share" in note for note in found.notes) is ("cv" not in told)
