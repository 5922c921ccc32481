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


def test_doubling_slots(trace):
    """10 ns have 4 bits, 30 and 40 have 5 and 6, 2,880 have 12."""
    assert ask(trace, "doubling_slots", layer="block", metric="service", slot_ns=100, **WHOLE) == [
        ("read", 0, 4, 2),
        ("read", 0, 5, 1),
        ("read", 1, 6, 1),
        ("read", 1, 12, 1),
    ]


def test_doubling_slots_of_responses_begin_when_ios_were_due(make_recording):
    replayed = make_recording(
        [
            {"intended_ns": 0, "issued_ns": 95, "completed_ns": 110},
            {"intended_ns": 10, "issued_ns": 10, "completed_ns": 10},
        ]
    )
    found = ask(replayed, "doubling_slots", layer="block", metric="response", slot_ns=90, **WHOLE)
    assert found == [("read", 0, 0, 1), ("read", 0, 7, 1)]


def test_unfinished(make_recording):
    recording = make_recording(
        [
            *TRACE,
            {"issued_ns": 150, "completed_ns": None, "file_id": 0},
            {"issued_ns": 199, "completed_ns": None, "op": "write"},
            {"issued_ns": 190, "intended_ns": 120, "completed_ns": None, "op": "write"},
            {"issued_ns": 160, "completed_ns": None, "layer": "device"},
            {"issued_ns": 1000, "completed_ns": None},
        ]
    )
    where = {"layer": "block", "slot_ns": 100, "ended_ns": 200, **WHOLE}
    assert ask(recording, "unfinished", metric="service", **where) == [
        ("read", "data", 1, 50, 1),
        ("read", "data", 1, 70, 1),
        ("write", "unattributed", 1, 1, 1),
        ("write", "unattributed", 1, 10, 1),
    ]
    assert ask(recording, "unfinished", metric="response", **where) == [("write", "unattributed", 1, 80, 1)]


def test_layer_slots(trace):
    assert ask(trace, "layer_slots", slot_ns=100, **WHOLE) == [
        ("block", "read", 0, 3, 50),
        ("block", "read", 1, 2, 2920),
        ("device", "read", 0, 1, 1),
    ]


def test_paired_slots(make_recording):
    """Two reads at one address: first with first. What failed, or lies outside the span, has no counterpart."""
    recorded = [
        {"issued_ns": 0, "completed_ns": 10, "offset_bytes": 0},
        {"issued_ns": 30, "completed_ns": 50, "offset_bytes": 0},
        {"issued_ns": 40, "completed_ns": 80, "offset_bytes": 8192},
        {"issued_ns": 60, "completed_ns": 70, "offset_bytes": 16384, "op": "write"},
        {"issued_ns": 70, "completed_ns": 75, "offset_bytes": 24576, "error": 5},
        {"issued_ns": 80, "completed_ns": 90, "offset_bytes": 32768},
    ]
    played = [
        {"issued_ns": 1000, "completed_ns": 1020, "offset_bytes": 0},
        {"issued_ns": 1030, "completed_ns": 1110, "offset_bytes": 0},
        {"issued_ns": 1040, "completed_ns": 1080, "offset_bytes": 8192},
        {"issued_ns": 1060, "completed_ns": 1065, "offset_bytes": 16384, "op": "write"},
        {"issued_ns": 1070, "completed_ns": 1075, "offset_bytes": 24576},
        {"issued_ns": 5000, "completed_ns": 5010, "offset_bytes": 32768},
    ]
    span = {"recorded_from_ns": 0, "recorded_until_ns": 100, "from_ns": 1000, "until_ns": 1100, "slot_ns": 50}
    with library.connected() as connection:
        library.attach(connection, make_recording(recorded), "r0")
        library.attach(connection, make_recording(played), "r1")
        library.lend(connection, "r0", "r1", "io", "recorded_io")

        def pairs(**words):
            table = library.run(
                connection, "paired_slots", prefix="r1", layer="block", **span | words
            ).to_pylist()
            return [tuple(row.values()) for row in table]

        two = 0.6931471805599453
        assert pairs(by_place=True) == [
            ("read", 0, 3, pytest.approx(3 * two), 70, 140),
            ("write", 1, 1, pytest.approx(-two), 10, 5),
        ]
        # By order alone the fourth good read of one is the fourth good read of the other.
        assert [row[:3] for row in pairs(by_place=False)] == [("read", 0, 3), ("read", 1, 1), ("write", 1, 1)]
