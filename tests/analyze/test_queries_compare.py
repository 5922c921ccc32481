"""The questions that a comparison asks: trace, question, expected table."""

import pytest

from iotrace.analyze import library


def ask(recording, query_name, **parameters):
    with library.opened(recording) as connection:
        return [tuple(row.values()) for row in library.run(connection, query_name, **parameters).to_pylist()]


WHOLE = {"from_ns": 0, "until_ns": 1000}
TRACE = [
    {"issued_ns": 0, "completed_ns": 10, "size_bytes": 512, "file_id": 0},
    {"issued_ns": 10, "completed_ns": 20, "size_bytes": 4096, "file_id": 0},
    {"issued_ns": 20, "completed_ns": 50, "size_bytes": 4097, "file_id": 0},
    {"issued_ns": 100, "completed_ns": 140, "size_bytes": 8192, "file_id": 1},
    {"issued_ns": 120, "completed_ns": 3000, "size_bytes": (1 << 20) + 1},
    {"issued_ns": 130, "completed_ns": None, "size_bytes": 4096, "file_id": 0},
    {"issued_ns": 140, "completed_ns": 150, "size_bytes": 4096, "file_id": 0, "error": 5},
    {"issued_ns": 1000, "completed_ns": 1010, "size_bytes": 4096, "file_id": 0},
    {"issued_ns": 5, "completed_ns": 6, "size_bytes": 4096, "layer": "device"},
]


@pytest.fixture
def trace(make_recording):
    return make_recording(TRACE)


def test_class_latency(trace):
    rows = ask(trace, "class_latency", layer="block", metric="service", with_roles=True, **WHOLE)
    assert rows == [
        ("data", "read", 4096, 10, 2, 20),
        ("data", "read", 8192, 30, 1, 30),
        ("log", "read", 8192, 40, 1, 40),
        ("unattributed", "read", 0, 2881, 1, 2880),
    ]


def test_class_latency_without_roles(trace):
    rows = ask(trace, "class_latency", layer="block", metric="service", with_roles=False, **WHOLE)
    assert {row[0] for row in rows} == {"unattributed"}
    assert [row[2:5] for row in rows] == [(0, 2881, 1), (4096, 10, 2), (8192, 30, 1), (8192, 40, 1)]


def test_class_slots(trace):
    classes = [
        {"class_key": 0, "role": "data", "op": "read", "size_class_bytes": 4096,
         "limits_ns": [9, 10, 11], "op_limits_ns": [10, 30, 40]},
        {"class_key": 1, "role": "unattributed", "op": "read", "size_class_bytes": 0,
         "limits_ns": [1, 2880, 2881], "op_limits_ns": [10, 30, 40]},
    ]  # fmt: skip
    rows = ask(
        trace,
        "class_slots",
        layer="block",
        metric="service",
        with_roles=True,
        slot_ns=100,
        classes=classes,
        **WHOLE,
    )
    assert rows == [
        (0, 0, 2, 20, [0, 2, 2], [2, 2, 2]),
        (1, 1, 1, 2880, [0, 1, 1], [0, 0, 0]),
    ]


def test_class_slots_of_a_replay_are_those_in_which_ios_were_due(make_recording):
    """Held up for 95 ns, the first I/O still belongs to the slot it was due in; its response counts the wait."""
    replayed = make_recording([{"intended_ns": 0, "issued_ns": 95, "completed_ns": 110}])
    classes = [
        {"class_key": 0, "role": "unattributed", "op": "read", "size_class_bytes": 8192,
         "limits_ns": [15, 110, 111], "op_limits_ns": [0, 0, 0]}
    ]  # fmt: skip
    for metric, expected in (("response", (0, 0, 1, 110, [0, 1, 1])), ("service", (0, 0, 1, 15, [1, 1, 1]))):
        (row,) = ask(
            replayed,
            "class_slots",
            layer="block",
            metric=metric,
            with_roles=True,
            slot_ns=90,
            classes=classes,
            **WHOLE,
        )
        assert row[:5] == expected


def test_layer_slots(trace):
    assert ask(trace, "layer_slots", slot_ns=100, **WHOLE) == [
        ("block", "read", 0, 3, 50),
        ("block", "read", 1, 2, 2920),
        ("device", "read", 0, 1, 1),
    ]


def test_work_order(make_recording):
    """Two copies of a sequential stream, writes in between, one of them of unknown place; 20, 50 and 10 ns apart."""
    rows = [
        {"issued_ns": 0, "offset_bytes": 0, "copy": 0},
        {"issued_ns": 20, "offset_bytes": 0, "copy": 1},
        {"issued_ns": 40, "offset_bytes": 8192, "copy": 0},
        {"issued_ns": 60, "offset_bytes": 8192, "copy": 1},
        {"issued_ns": 80, "offset_bytes": 8192, "op": "write", "copy": 0},
        {"issued_ns": 130, "offset_bytes": 16384, "copy": 0},
        {"issued_ns": 140, "offset_bytes": None, "copy": 0, "op": "write"},
        {"issued_ns": 150, "offset_bytes": 16384, "copy": 0, "op": "write"},
    ]
    recording = make_recording([row | {"completed_ns": row["issued_ns"] + 5} for row in rows])
    assert ask(recording, "work_order", layer="block", **WHOLE) == [
        ("read", 5, 5, 3, 4, 110.0, 3 * 400.0 + 2500.0),
        ("write", 3, 2, 1, 3, 40.0, 400.0 + 2 * 100.0),
    ]


def test_work_footprint(make_recording):
    """Overlaps count once; a read of 8 MiB reaches over three words of 62 blocks; a flush touches nothing."""
    rows = [
        {"offset_bytes": 0, "size_bytes": 8 << 20},
        {"offset_bytes": 65536, "size_bytes": 8192, "op": "write"},
        {"offset_bytes": (8 << 20) - 1, "size_bytes": 2, "op": "write"},
        {"offset_bytes": 1 << 30, "size_bytes": 0, "op": "flush"},
        {"offset_bytes": 1 << 40, "size_bytes": 4096, "issued_ns": 1000},
    ]
    recording = make_recording(
        [{"issued_ns": 1, "device_id": 0} | row | {"completed_ns": 2000} for row in rows]
    )
    assert ask(recording, "work_footprint", layer="block", block_bytes=65536, **WHOLE) == [(129, 128, 3)]
