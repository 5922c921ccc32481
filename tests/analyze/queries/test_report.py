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
        # slot, tenth of a decade (6 ms: 67; 2 ms: 63; 10 ms: 70), I/Os; response counts from when it was due
        (-1, 67, 1),
        (0, 63, 1),
        (0, 70, 1),
        (2, 70, 1),
    ]
