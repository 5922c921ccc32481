"""The queries behind the report's charts: a trace, the question, and the answer worked out by hand."""

import pytest

from iotrace.analyze import library

MS = 1_000_000
SLOTS = {"layer": "block", "start_ns": 0, "end_ns": 31 * MS, "slot_ns": 10 * MS}


def ask(recording, name, **parameters):
    with library.opened(recording) as connection:
        return library.run(connection, name, **parameters).to_pylist()


@pytest.fixture
def trace(make_recording):
    """One in flight when recording began, one failed, one never seen to end, one that ends too late, one elsewhere."""
    return make_recording(
        [
            {"issued_ns": -5 * MS, "completed_ns": 1 * MS},
            {"issued_ns": 2 * MS, "completed_ns": 4 * MS},
            {"issued_ns": 3 * MS, "completed_ns": 13 * MS, "op": "write", "size_bytes": 65536},
            {"issued_ns": 14 * MS, "completed_ns": 15 * MS, "op": "write", "size_bytes": 512, "error": 5},
            {"issued_ns": 21 * MS, "completed_ns": None},
            {"intended_ns": 22 * MS, "issued_ns": 31 * MS, "completed_ns": 32 * MS},
            {"issued_ns": 25 * MS, "completed_ns": 26 * MS, "op": "flush", "size_bytes": 0},
            {"issued_ns": 2 * MS, "completed_ns": 3 * MS, "layer": "device"},
        ]
    )


def test_report_timeline(trace):
    rows = ask(trace, "report_timeline", **SLOTS)
    assert [tuple(row.values()) for row in rows] == [
        # slot; reads, writes, bytes of each; begun, ms from there to the slot's end; ended, ms to the slot's end
        (-1, 1, 0, 8192, 0, 1, 5 * MS, 0, 0),
        (0, 1, 1, 8192, 65536, 2, (8 + 7) * MS, 2, (9 + 6) * MS),
        (1, 0, 1, 0, 512, 1, 6 * MS, 2, (7 + 5) * MS),
        (2, 2, 0, 16384, 0, 2, (8 + 5) * MS, 1, 4 * MS),
    ]


def test_report_heat_map(trace):
    rows = ask(trace, "report_heat_map", **SLOTS)
    assert [tuple(row.values()) for row in rows] == [
        # slot, twentieth of a decade (6 ms: 135; 2 ms: 126; 10 ms: 140), I/Os, longest; from when it was due
        (-1, 135, 1, 6 * MS),
        (0, 126, 1, 2 * MS),
        (0, 140, 1, 10 * MS),
        (2, 140, 1, 10 * MS),
    ]


def test_what_had_ended_before_the_first_slot_counts_nowhere(trace):
    later = SLOTS | {"start_ns": 20 * MS}
    rows = ask(trace, "report_timeline", **later)
    assert [(row["slot"], row["begun_count"], row["ended_count"]) for row in rows] == [(0, 2, 1)]
    assert [(row["slot"], row["io_count"]) for row in ask(trace, "report_heat_map", **later)] == [(0, 1)]


def wait(at_ms, kind, length_ms):
    return {"at_ns": at_ms * MS, "wait_type": kind, "duration_ns": length_ms * MS}


def test_report_waits(make_recording):
    waits = [
        wait(5, "WRITELOG", 3),
        wait(6, "WRITELOG", 4),
        wait(15, "PAGEIOLATCH_SH", 9),
        wait(25, "ASYNC_IO", 1),
        wait(31, "WRITELOG", 100),
    ]
    recording = make_recording([{"issued_ns": 0, "completed_ns": 1}], tables={"waits": waits})
    where = {name: value for name, value in SLOTS.items() if name != "layer"}
    rows = ask(recording, "report_waits", types_max=2, **where)
    assert [tuple(row.values()) for row in rows] == [("PAGEIOLATCH_SH", 1, 9 * MS), ("WRITELOG", 0, 7 * MS)]


def test_report_counter(make_recording):
    def value(at_s, value, instance="0 D:"):
        return {"at_ns": at_s * 1000 * MS, "source": "host", "object": "PhysicalDisk", "instance": instance,
                "counter": "Avg. Disk sec/Read", "value": value, "unit": "ns"}  # fmt: skip

    counters = [value(1, 10.0), value(2, 20.0), value(3, 60.0), value(4, 80.0), value(2, 999.0, "1 L:")]
    recording = make_recording([{"issued_ns": 0, "completed_ns": 1}], tables={"counters": counters})
    rows = ask(
        recording, "report_counter", object="PhysicalDisk", instance="0 D:", counter="Avg. Disk sec/Read",
        start_ns=0, end_ns=4000 * MS + 1, points_max=2,
    )  # fmt: skip
    assert [tuple(row.values()) for row in rows] == [(2000 * MS, 15.0, "ns"), (4000 * MS, 70.0, "ns")]


def test_report_ios(trace):
    rows = ask(trace, "report_ios", layer="block", start_ns=2 * MS, end_ns=23 * MS, row_limit=10)
    assert [(row["begun_ns"], row["latency_ns"], row["op"], row["size_bytes"]) for row in rows] == [
        (2 * MS, 2 * MS, "read", 8192),
        (3 * MS, 10 * MS, "write", 65536),
        (22 * MS, 10 * MS, "read", 8192),
    ]
    assert len(ask(trace, "report_ios", layer="block", start_ns=2 * MS, end_ns=23 * MS, row_limit=2)) == 2
