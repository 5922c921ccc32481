"""Each query: a trace, the question, and the answer worked out by hand."""

import random

import pytest

from iotrace.analyze import library

MS = 1_000_000


def ask(recording, name, **parameters):
    with library.opened(recording) as connection:
        return library.run(connection, name, **parameters).to_pylist()


@pytest.fixture
def trace(make_recording):
    """Six I/Os of two files on two devices; one fails, one never ends, one was in flight when recording began."""
    data = {"file_id": 0, "device_id": 0}
    log = {"file_id": 1, "device_id": 1, "op": "write", "size_bytes": 512}
    return make_recording(
        [
            {"issued_ns": -5 * MS, "completed_ns": 1 * MS, "offset_bytes": 0, "process_id": 0, **data},
            {"issued_ns": 2 * MS, "completed_ns": 4 * MS, "offset_bytes": 8192, "process_id": 0, **data},
            {
                "issued_ns": 3 * MS,
                "completed_ns": 9 * MS,
                "offset_bytes": 0,
                "op": "write",
                "size_bytes": 65536,
                **data,
            },
            {"issued_ns": 12 * MS, "completed_ns": 13 * MS, "offset_bytes": 0, **log},
            {"issued_ns": 14 * MS, "completed_ns": 15 * MS, "offset_bytes": 512, "error": 5, **log},
            {"issued_ns": 112 * MS, "completed_ns": None, "offset_bytes": 1 << 20, "device_id": 1},
        ]
    )


def test_layers(trace):
    assert ask(trace, "layers") == [
        {"layer": "block", "io_count": 6, "first_issued_ns": -5 * MS, "last_seen_ns": 112 * MS, "failed_count": 1,
         "unfinished_count": 1},
    ]  # fmt: skip


def test_streams(trace):
    rows = ask(trace, "streams", layer="block")
    assert [tuple(row.values()) for row in rows] == [
        # device, file, role, op, I/Os, bytes, failed, unfinished
        (0, 0, "data", "read", 2, 16384, 0, 0),
        (0, 0, "data", "write", 1, 65536, 0, 0),
        (1, 1, "log", "write", 2, 1024, 1, 0),
        (1, None, "unattributed", "read", 1, 8192, 0, 1),
    ]


def test_size_distribution(trace):
    rows = ask(trace, "size_distribution", layer="block")
    assert [tuple(row.values()) for row in rows] == [
        (0, "data", "read", 8192, 2),
        (0, "data", "write", 65536, 1),
        (1, "log", "write", 512, 2),
        (1, "unattributed", "read", 8192, 1),
    ]


def test_latency_histogram_leaves_out_what_failed_or_never_ended(trace):
    rows = ask(trace, "latency_histogram", metric="service")
    assert [
        (row["device_id"], row["op"], row["io_count"], row["latency_sum_ns"], row["latency_max_ns"])
        for row in rows
    ] == [
        (0, "read", 1, 2 * MS, 2 * MS),
        (0, "read", 1, 6 * MS, 6 * MS),
        (0, "write", 1, 6 * MS, 6 * MS),
        (1, "write", 1, 1 * MS, 1 * MS),
    ]
    assert all(row["bucket_ns"] == pytest.approx(row["latency_sum_ns"], rel=0.0005) for row in rows)


def test_latency_histogram_by_metric(make_recording):
    recording = make_recording([{"intended_ns": 0, "issued_ns": 100, "completed_ns": 1000}], kind="replayed")
    found = {
        metric: [row["bucket_ns"] for row in ask(recording, "latency_histogram", metric=metric)]
        for metric in ("service", "response", "lateness")
    }
    assert found == {"service": [900], "response": [1000], "lateness": [100]}


def test_io_per_second(trace):
    rows = ask(trace, "io_per_second")
    assert [tuple(row.values()) for row in rows] == [
        # layer, second, I/Os, bytes, reads, with a latency, their sum
        ("block", -1, 1, 8192, 1, 1, 6 * MS),
        ("block", 0, 5, 8192 + 65536 + 512 + 512 + 8192, 2, 3, 9 * MS),
    ]


def test_load_per_second(make_recording):
    recording = make_recording(
        [
            {"issued_ns": 0, "completed_ns": 4, "size_bytes": 4096, "op": "write"},
            {"issued_ns": 300_000_000, "completed_ns": 300_000_009, "error": 5},
            {"issued_ns": 300_000_001, "completed_ns": 300_000_009, "op": "flush", "size_bytes": 0},
            {"issued_ns": 300_000_002, "completed_ns": 300_000_009, "op": "discard"},
            {"issued_ns": 300_000_003, "completed_ns": 300_000_009, "layer": "device"},
        ]
    )
    # The recording begins 0.7 s into second 1000, so that 0.3 s later is second 1001.
    rows = ask(recording, "load_per_second", layer="block", zero_utc_ns=1_000_700_000_000)
    assert [tuple(row.values()) for row in rows] == [(1000, 1, 4096), (1001, 1, 8192)]


def test_window_load(make_recording):
    recording = make_recording(
        [
            {"issued_ns": 0, "completed_ns": 4, "size_bytes": 1 << 20, "op": "write"},
            {"issued_ns": 10, "completed_ns": 12},
            {"issued_ns": 11, "completed_ns": 17},
            {"issued_ns": 12, "completed_ns": 99, "error": 5},
            {"issued_ns": 13, "completed_ns": 99, "op": "flush", "size_bytes": 0},
            {"issued_ns": 14, "completed_ns": None},
            {"issued_ns": 20, "completed_ns": 22},
        ]
    )
    (row,) = ask(recording, "window_load", layer="block", from_ns=10, until_ns=20)
    assert row == {"io_count": 4, "size_bytes": 4 * 8192, "read_count": 4, "latency_mean_ns": 4}


def test_top_files_and_processes(trace):
    files = ask(trace, "top_files", layer="block", row_limit=2)
    assert [
        (row["path"], row["read_count"], row["written_bytes"], row["read_latency_mean_ns"]) for row in files
    ] == [
        ("D:\\sales.mdf", 2, 65536, 4 * MS),
        (None, 1, 0, None),
    ]
    processes = ask(trace, "top_processes", layer="block", row_limit=5)
    assert [(row["name"], row["read_count"], row["write_count"]) for row in processes] == [
        (None, 1, 3),
        ("sqlservr.exe", 2, 0),
    ]


def test_top_databases(make_recording):
    files = [
        {"file_id": 0, "path": "a.mdf", "role": "data", "database": "sales"},
        {"file_id": 1, "path": "a.ldf", "role": "log", "database": "sales"},
        {"file_id": 2, "path": "b.bak", "role": "backup", "database": None},
    ]
    ios = [
        {"issued_ns": 0, "completed_ns": 4, "file_id": 0},
        {"issued_ns": 1, "completed_ns": 9, "file_id": 0},
        {"issued_ns": 2, "completed_ns": 3, "file_id": 1, "op": "write", "size_bytes": 512},
        {"issued_ns": 3, "completed_ns": 9, "file_id": 2, "op": "write", "size_bytes": 4096},
        {"issued_ns": 3, "completed_ns": None, "file_id": None, "size_bytes": 1},
    ]
    rows = ask(make_recording(ios, tables={"files": files}), "top_databases", layer="block", row_limit=5)
    assert [tuple(row.values()) for row in rows] == [
        # database, files, reads, writes, bytes read, bytes written, mean read, mean write
        ("sales", 2, 2, 1, 16384, 512, 6.0, 1.0),
        (None, 1, 1, 1, 1, 4096, None, 6.0),
    ]


def _counters(rows, **fixed):
    """Rows of (end in s, length in s, metric, value) of one drive."""
    common = {
        "source": "h",
        "object": "PhysicalDisk",
        "instance": "0 D:",
        "counter": "c",
        "layer": "block",
    } | fixed
    second = 1_000_000_000
    return [
        common
        | {"at_ns": int(at * second), "interval_ns": int(length * second), "metric": metric, "value": value}
        for at, length, metric, value in rows
    ]


def test_counter_drives_weigh_latencies_by_their_ios_and_rates_by_time(make_recording):
    """10 s of 100 reads/s at 2 ms and 8 KiB, then 30 s of 20/s at 10 ms and 64 KiB: 1,600 reads."""
    busy = [
        (10, 10, "read_iops", 100.0),
        (10, 10, "read_bytes_per_second", 100 * 8192.0),
        (10, 10, "read_latency_ns", 2e6),
        (10, 10, "queue_length", 4.0),
        (10, 10, "write_latency_ns", 1e6),
    ]
    calm = [
        (40, 30, "read_iops", 20.0),
        (40, 30, "read_bytes_per_second", 20 * 65536.0),
        (40, 30, "read_latency_ns", 10e6),
        (40, 30, "queue_length", 0.0),
        (40, 30, "write_latency_ns", 5e6),
    ]
    recording = make_recording([{"issued_ns": 0}], tables={"counters": _counters(busy + calm)})
    (row,) = ask(recording, "counter_drives")
    assert row["read_ios_per_s"] == pytest.approx(40)
    assert row["read_bytes_per_s"] == pytest.approx((10 * 100 * 8192 + 30 * 20 * 65536) / 40)
    assert row["read_size_bytes"] == pytest.approx((1000 * 8192 + 600 * 65536) / 1600)
    assert row["read_latency_mean_ns"] == pytest.approx((1000 * 2e6 + 600 * 10e6) / 1600)
    assert row["read_latency_max_ns"] == 10e6
    assert row["queue_length_mean"] == pytest.approx(1)
    assert row["sampled_ns"] == 40_000_000_000
    # Without a rate of writes a mean per write cannot be had: over time.
    assert row["write_latency_mean_ns"] == pytest.approx((10 * 1e6 + 30 * 5e6) / 40)
    assert row["write_ios_per_s"] is row["ios_per_s"] is None


def test_counter_segments(make_recording):
    """A rate of 2 s, then nothing for 1 s, then a rate of 2 s; a latency of the whole 5 s beside them."""
    rows = _counters([(2, 2, "read_iops", 10.0), (5, 2, "read_iops", 30.0), (5, 5, "read_latency_ns", 7.0)])
    found = ask(make_recording([{"issued_ns": 0}], tables={"counters": rows}), "counter_segments")
    names = ("from_ns", "until_ns", "read_iops", "read_latency_ns", "read_latency_until_ns", "write_iops")
    second = 1_000_000_000
    assert [tuple(row[name] for name in names) for row in found] == [
        (0, 2 * second, 10, 7, 5 * second, None),
        (2 * second, 3 * second, None, 7, 5 * second, None),
        (3 * second, 5 * second, 30, 7, 5 * second, None),
    ]


def test_counter_drives_leave_an_interval_without_io_out_of_means_per_io(make_recording):
    rows = _counters([(1, 1, "write_iops", 0.0), (2, 1, "write_iops", 50.0), (2, 1, "write_latency_ns", 3e6),
                      (2, 1, "write_size_bytes", 4096.0)])  # fmt: skip
    (row,) = ask(make_recording([{"issued_ns": 0}], tables={"counters": rows}), "counter_drives")
    assert (row["write_ios_per_s"], row["write_latency_mean_ns"], row["write_size_bytes"]) == (25, 3e6, 4096)


def test_working_set_counts_each_block_once(make_recording):
    block = 65536
    recording = make_recording(
        [
            {"issued_ns": 0, "offset_bytes": 0, "size_bytes": 1, "device_id": 0, "file_id": 0},
            {"issued_ns": 1, "offset_bytes": block - 1, "size_bytes": 2, "device_id": 0, "file_id": 1},
            {
                "issued_ns": 2,
                "offset_bytes": 0,
                "size_bytes": block,
                "device_id": 0,
                "file_id": 0,
                "op": "write",
            },
            # These touch nothing.
            {"issued_ns": 3, "offset_bytes": 40 * block, "size_bytes": 0, "device_id": 0, "op": "read"},
            {
                "issued_ns": 3,
                "offset_bytes": 41 * block,
                "size_bytes": block,
                "device_id": 0,
                "op": "discard",
            },
            {"issued_ns": 3, "offset_bytes": None, "size_bytes": block, "device_id": 0},
            # Straddles the words of 62 blocks that the query counts with.
            {"issued_ns": 3, "offset_bytes": 60 * block, "size_bytes": 130 * block, "device_id": 1},
        ]
    )
    rows = ask(recording, "working_set", layer="block", block_bytes=block)
    assert [tuple(row.values()) for row in rows] == [
        # scope, device, role, touched, read, written
        ("device", 0, None, 2, 2, 1),
        ("device", 1, None, 130, 130, 0),
        ("role", 0, "data", 1, 1, 1),
        ("role", 0, "log", 2, 2, 0),
        ("role", 1, "unattributed", 130, 130, 0),
    ]


def test_working_set_is_that_of_a_plain_set(make_recording):
    """Against the definition: the set of blocks, one by one."""
    source = random.Random(5)
    ios = [
        {
            "issued_ns": i,
            "offset_bytes": source.randrange(1 << 24),
            "size_bytes": source.choice([512, 8192, 1 << 20, 1 << 23]),
            "op": source.choice(["read", "write"]),
            "device_id": 0,
        }
        for i in range(300)
    ]
    block = 4096
    touched = {op: set() for op in ("read", "write")}
    for io in ios:
        last = (io["offset_bytes"] + io["size_bytes"] - 1) // block
        touched[io["op"]].update(range(io["offset_bytes"] // block, last + 1))
    row = ask(make_recording(ios), "working_set", layer="block", block_bytes=block)[0]
    assert row["read_touched_count"] == len(touched["read"])
    assert row["written_touched_count"] == len(touched["write"])
    assert row["touched_count"] == len(touched["read"] | touched["write"])


def test_offsets_in_different_files_are_different_places_above_the_block_layer(make_recording):
    ios = [
        {"issued_ns": i, "offset_bytes": 0, "layer": "filesystem", "file_id": i, "device_id": 0}
        for i in range(2)
    ]
    rows = ask(make_recording(ios), "working_set", layer="filesystem", block_bytes=65536)
    assert [row["touched_count"] for row in rows if row["scope"] == "device"] == [2]


def test_work_mix(trace):
    rows = ask(trace, "work_mix", layer="block", from_ns=0, until_ns=100 * MS)
    assert [tuple(row.values()) for row in rows] == [
        ("read", 8192, 1),
        ("write", 512, 2),
        ("write", 65536, 1),
    ]


def test_slices_hold_what_starts_and_what_ends_in_them(trace):
    issued = ask(trace, "issued_in_slice", layer="block", from_ns=2 * MS, until_ns=12 * MS, file_stride=3)
    assert [(row["issued_ns"], row["is_finished"]) for row in issued] == [(2 * MS, True), (3 * MS, True)]
    assert [row["stream_key"] % 4 for row in issued] == [0, 1]
    completed = ask(trace, "completed_in_slice", layer="block", from_ns=1 * MS, until_ns=9 * MS)
    assert [tuple(row.values()) for row in completed] == [(1 * MS, 0), (4 * MS, 0)]


def test_io_rollup_adds_up(trace):
    rows = ask(trace, "io_rollup")
    assert sum(row["io_count"] for row in rows) == 6
    assert sum(row["measured_count"] for row in rows) == 4
    assert sum(row["latency_sum_ns"] for row in rows) == 15 * MS


def test_busiest_window(trace):
    assert ask(trace, "busiest_window", layer="block", seconds_after=0) == [{"start_ns": 0, "io_count": 5}]


def test_counter_summary_weights_by_interval(make_recording):
    counter = {"source": "h", "object": "PhysicalDisk", "instance": "0 D:", "counter": "Avg. Disk sec/Read"}
    samples = [
        {"at_ns": 10, "interval_ns": 10, "value": 1.0, **counter},
        {"at_ns": 40, "interval_ns": 30, "value": 5.0, **counter},
    ]
    rows = ask(make_recording([{"issued_ns": 0}], tables={"counters": samples}), "counter_summary")
    assert [(r["sample_count"], r["value_mean"], r["value_min"], r["value_max"]) for r in rows] == [
        (2, 4.0, 1.0, 5.0)
    ]


def test_disk_counts(make_recording):
    """A disk that counts 24 KiB in its second, of which one I/O of 8 KiB and 4 KiB of the recorder's own are known."""
    names = ("at_ns", "object", "instance", "counter", "value", "layer")
    rows = [
        dict(zip(names, values, strict=True))
        | {"interval_ns": 1_000_000_000, "source": "host", "unit": "bytes/s"}
        for values in (
            (1_000_000_000, "diskstats", "sdx", "read bytes per second", 16384.0, "block"),
            (1_000_000_000, "diskstats", "sdx", "write bytes per second", 8192.0, "block"),
            (1_000_000_000, "recorder", "sdx", "own bytes per second", 4096.0, "block"),
        )
    ]
    io = [{"issued_ns": 0, "completed_ns": 500_000_000, "device_id": 0, "size_bytes": 8192}]
    tables = {"devices": [{"device_id": 0, "name": "sdx", "kind": "disk"}], "counters": rows}
    assert ask(make_recording(io, tables=tables), "disk_counts") == [
        {
            "device_id": 0, "device": "sdx", "from_ns": 0, "until_ns": 1_000_000_000, "counted_bytes": 24576.0,
            "recorded_bytes": 8192.0, "own_bytes": 4096.0, "has_own": True,
        }
    ]  # fmt: skip


def test_waits_and_events_by_kind(make_recording):
    waits = [
        {"at_ns": 5 * MS, "wait_type": "PAGEIOLATCH_SH", "duration_ns": 3 * MS, "signal_ns": 1 * MS},
        {"at_ns": 6 * MS, "wait_type": "WRITELOG", "duration_ns": 10 * MS},
        {"at_ns": 7 * MS, "wait_type": "PAGEIOLATCH_SH", "duration_ns": 4 * MS, "signal_ns": 0},
    ]
    markers = [
        {"at_ns": 9 * MS, "kind": "checkpoint", "text": "db 5"},
        {"at_ns": 2 * MS, "kind": "checkpoint", "text": "db 4", "duration_ns": 6 * MS},
        {"at_ns": 1 * MS, "kind": "backup", "text": "full"},
    ]
    recording = make_recording([], 20 * MS, tables={"waits": waits, "markers": markers})
    assert [tuple(row.values()) for row in ask(recording, "wait_types")] == [
        ("WRITELOG", 1, 10 * MS, 10 * MS, None),
        ("PAGEIOLATCH_SH", 2, 7 * MS, 4 * MS, 1 * MS),
    ]
    assert [tuple(row.values()) for row in ask(recording, "marker_kinds")] == [
        ("checkpoint", 2, 2 * MS, 9 * MS, 6 * MS, "db 4"),
        ("backup", 1, 1 * MS, 1 * MS, None, "full"),
    ]
