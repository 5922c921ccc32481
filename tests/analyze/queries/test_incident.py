"""Each query of the incident analysis: a trace, the question, and the answer worked out by hand."""

import math

import numpy as np
import pytest

from iotrace.analyze import library

MS = 1_000_000
SECOND = 1_000_000_000


def ask(recording, name, **parameters):
    with library.opened(recording) as connection:
        return library.run(connection, name, **parameters).to_pylist()


def test_incident_seconds(make_recording):
    """File 0 is asked about by itself, file 1 only by its role."""
    data, log = {"file_id": 0, "device_id": 0}, {"file_id": 1, "device_id": 1, "op": "write"}
    recording = make_recording(
        [
            {"issued_ns": 100 * MS, "completed_ns": 102 * MS, **data},
            {"issued_ns": 500 * MS, "completed_ns": 508 * MS, **data},
            {"issued_ns": 600 * MS, "completed_ns": 601 * MS, "error": 5, **data},
            # Waits when the span ends; one that has waited for less than a second is merely cut off.
            {"issued_ns": 700 * MS, "completed_ns": None, **data},
            {"issued_ns": 2400 * MS, "completed_ns": None, **data},
            # From second 0 all through 1 into 2.
            {"issued_ns": 900 * MS, "completed_ns": 2400 * MS, "size_bytes": 512, **log},
            # In flight when the span begins; beyond its end nothing counts.
            {"issued_ns": -500 * MS, "completed_ns": 300 * MS, "size_bytes": 512, **log},
            {"issued_ns": 3100 * MS, "completed_ns": 3200 * MS, **log},
        ]
    )
    rows = ask(
        recording,
        "incident_seconds",
        from_ns=0,
        until_ns=3 * SECOND,
        slot_ns=SECOND,
        kept_files=[0],
        longest_slots=10,
    )
    names = (
        "device_id", "file_id", "role", "op", "slot", "io_count", "size_bytes", "ended_count", "measured_count",
        "latency_sum_ns", "begun_count", "in_flight_ns", "waiting_count", "waiting_sum_ns", "waiting_in_flight_ns",
    )  # fmt: skip
    assert [tuple(row[name] for name in names) for row in rows] == [
        (0, 0, "data", "read", 0, 4, 4 * 8192, 2, 2, 10 * MS, 2, 10 * MS, 1, 2300 * MS, 300 * MS),
        (0, 0, "data", "read", 2, 1, 8192, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, None, "log", "write", 0, 1, 512, 1, 1, 1500 * MS, 1, 400 * MS, 0, 0, 0),
        (1, None, "log", "write", 1, 0, 0, 0, 1, 0, 0, 1000 * MS, 0, 0, 0),
        (1, None, "log", "write", 2, 0, 0, 1, 0, 0, 0, 400 * MS, 0, 0, 0),
    ]
    assert rows[0]["log_latency_sum"] == pytest.approx(math.log(2 * MS) + math.log(8 * MS))
    assert rows[0]["log_latency_square_sum"] == pytest.approx(math.log(2 * MS) ** 2 + math.log(8 * MS) ** 2)
    assert rows[0]["waiting_log_sum"] == pytest.approx(math.log(2300 * MS))
    assert rows[0]["waiting_log_square_sum"] == pytest.approx(math.log(2300 * MS) ** 2)
    assert rows[3]["log_latency_sum"] == pytest.approx(math.log(1500 * MS))


def test_incident_bursts(make_recording):
    """Three I/Os within 10 ms, of which one is another device's, and one alone; then one in the next second."""
    at = [(0, 0), (1, 0), (9, 1), (10, 0), (1500, 0)]
    recording = make_recording(
        [{"issued_ns": ms * MS, "completed_ns": ms * MS + 1, "device_id": device} for ms, device in at]
    )
    rows = ask(
        recording,
        "incident_bursts",
        layer="block",
        from_ns=0,
        until_ns=2 * SECOND,
        slot_ns=SECOND,
        bin_ns=10 * MS,
        issued_ns=[0, 2 * SECOND],
    )
    assert [(row["device_id"], row["slot"], row["io_count"], row["together_count"]) for row in rows] == [
        (0, 0, 3, 2 * 2 + 1),
        (0, 1, 1, 1),
        (1, 0, 1, 1),
    ]


def test_incident_seconds_answers_a_replay_from_when_it_meant_to_issue(make_recording):
    recording = make_recording(
        [{"intended_ns": 900 * MS, "issued_ns": 1100 * MS, "completed_ns": 1200 * MS}], kind="replayed"
    )
    rows = ask(
        recording,
        "incident_seconds",
        from_ns=0,
        until_ns=2 * SECOND,
        slot_ns=SECOND,
        kept_files=[],
        longest_slots=10,
    )
    assert [(row["slot"], row["io_count"], row["latency_sum_ns"], row["in_flight_ns"]) for row in rows] == [
        (0, 1, 300 * MS, 100 * MS),
        (1, 0, 0, 200 * MS),
    ]


def test_incident_seconds_counts_a_hung_io_in_so_many_slots_at_most(make_recording):
    recording = make_recording([{"issued_ns": 0, "completed_ns": 100 * SECOND}])
    rows = ask(
        recording,
        "incident_seconds",
        from_ns=0,
        until_ns=200 * SECOND,
        slot_ns=SECOND,
        kept_files=[],
        longest_slots=3,
    )
    assert [row["slot"] for row in rows] == [0, 1, 2, 3]


@pytest.fixture
def work(make_recording):
    backup = {"file_id": 1, "device_id": 1, "process_id": None, "size_bytes": 2 << 20}
    return make_recording(
        [
            {"issued_ns": 0, "completed_ns": 2 * MS, "file_id": 0, "device_id": 0, "process_id": 0},
            {"issued_ns": 5 * MS, "completed_ns": 9 * MS, "file_id": 0, "device_id": 0, "process_id": 0},
            {"issued_ns": 6 * MS, "completed_ns": 9 * MS, "error": 5, **backup},
            {"issued_ns": 7 * MS, "completed_ns": 8 * MS, **backup},
            {"issued_ns": 10 * MS, "completed_ns": 11 * MS, "file_id": 0, "device_id": 0, "process_id": 0},
            {"issued_ns": 7 * MS, "completed_ns": 8 * MS, "layer": "device"},
        ]
    )


def test_incident_work(work):
    span = {"span_until_ns": 2 * SECOND, "has_losses": False}
    rows = ask(work, "incident_work", layer="block", from_ns=5 * MS, until_ns=10 * MS, **span)
    assert [tuple(row.values()) for row in rows] == [
        # device, file, role, process, op, size class, I/Os, bytes, measured, latency, its square, waiting, how long
        (0, 0, "data", 0, "read", 8192, 1, 8192, 1, 4 * MS, 16 * MS**2, 0, 0),
        (1, 1, "log", None, "read", None, 2, 4 << 20, 1, 1 * MS, MS**2, 0, 0),
    ]


@pytest.mark.parametrize(("has_losses", "waiting"), [(False, [(1, 9), (2, 15)]), (True, [(0, 0), (2, 15)])])
def test_incident_work_of_what_has_no_end(make_recording, has_losses, waiting):
    """Where events were lost, what a later I/O of its device overtook is no longer believed to wait."""
    recording = make_recording(
        [
            {"issued_ns": 1 * SECOND, "completed_ns": None, "device_id": 0},
            {"issued_ns": 9 * SECOND, "completed_ns": 9 * SECOND + MS, "device_id": 0},
            {"issued_ns": 1 * SECOND, "completed_ns": 1 * SECOND + MS, "device_id": 1},
            {"issued_ns": 2 * SECOND, "completed_ns": None, "device_id": 1},
            {"issued_ns": 3 * SECOND, "completed_ns": None, "device_id": 1},
            # Cut off by the end, no more.
            {"issued_ns": 9 * SECOND + 500 * MS, "completed_ns": None, "device_id": 1},
        ]
    )
    rows = ask(
        recording,
        "incident_work",
        layer="block",
        from_ns=0,
        until_ns=10 * SECOND,
        span_until_ns=10 * SECOND,
        has_losses=has_losses,
    )
    assert [(row["waiting_count"], row["waiting_sum_ns"] / SECOND) for row in rows] == waiting


def test_incident_work_adds_up_squares(make_recording):
    """What no integer of 64 bits holds: two I/Os of a minute. Clocks that differ make no negative latency."""
    io = [
        {"issued_ns": at, "completed_ns": at + took}
        for at, took in ((1, 60 * SECOND), (2, 60 * SECOND), (3, -2))
    ]
    (row,) = ask(
        make_recording(io),
        "incident_work",
        layer="block",
        from_ns=0,
        until_ns=SECOND,
        span_until_ns=SECOND,
        has_losses=False,
    )
    assert row["latency_square_sum"] == pytest.approx(2 * (60 * SECOND) ** 2)


def test_incident_work_whole(work):
    rows = ask(work, "incident_work_whole", layer="block")
    assert [tuple(row.values()) for row in rows] == [
        (0, 0, "data", 0, "read", 8192, 3, 3 * 8192, 3, 7 * MS),
        (1, 1, "log", None, "read", None, 2, 4 << 20, 1, 1 * MS),
    ]


def test_incident_markers(make_recording):
    markers = [
        {"at_ns": 0, "duration_ns": 10, "kind": "backup", "text": "over before"},
        {"at_ns": 0, "duration_ns": 80, "kind": "checkpoint"},
        {"at_ns": 85, "duration_ns": None, "kind": "autogrow", "text": "shortly before"},
        {"at_ns": 150, "duration_ns": None, "kind": "note", "text": "in it"},
        {"at_ns": 200, "duration_ns": 5, "kind": "note", "text": "after it"},
    ]
    recording = make_recording([{"issued_ns": 0, "completed_ns": 10}], tables={"markers": markers})
    rows = ask(recording, "incident_markers", from_ns=100, until_ns=200, lead_ns=20)
    assert [(row["kind"], row["at_ns"]) for row in rows] == [
        ("checkpoint", 0),
        ("autogrow", 85),
        ("note", 150),
    ]


def test_incident_waits(make_recording):
    waits = [
        {"at_ns": 50, "wait_type": "WRITELOG", "duration_ns": 7},
        {"at_ns": 120, "wait_type": "WRITELOG", "duration_ns": 30},
        {"at_ns": 130, "wait_type": "PAGEIOLATCH_SH", "duration_ns": 90},
        {"at_ns": 140, "wait_type": "WRITELOG", "duration_ns": 40},
        {"at_ns": 250, "wait_type": "LCK_M_X", "duration_ns": 500},
    ]
    recording = make_recording([{"issued_ns": 0, "completed_ns": 10}], tables={"waits": waits})
    rows = ask(recording, "incident_waits", from_ns=100, until_ns=200)
    assert [tuple(row.values()) for row in rows] == [("PAGEIOLATCH_SH", 1, 90, 0), ("WRITELOG", 2, 70, 7)]


def counter(at_s, value, *, name="Avg. Disk sec/Read", metric="read_latency_ns", instance="0 D:"):
    return {
        "at_ns": at_s * SECOND, "interval_ns": SECOND, "source": "HOST", "object": "PhysicalDisk",
        "instance": instance, "counter": name, "value": float(value), "unit": "ns", "layer": "block", "metric": metric,
    }  # fmt: skip


def test_incident_counters(make_recording):
    values = [10, 10, 90, 70, 20, 10]
    rows = [counter(at, value) for at, value in enumerate(values, 1)]
    recording = make_recording([{"issued_ns": 0, "completed_ns": 10}], tables={"counters": rows})
    found = ask(recording, "incident_counters", from_ns=2 * SECOND, until_ns=4 * SECOND)
    assert [(row["slow_mean"], row["normal_median"], row["normal_low"]) for row in found] == [(80, 10, 10)]


def test_incident_counter_means(make_recording):
    """A rate of each second beside a latency of every second one; what is not a number or has no layer is left out."""
    rows = [
        counter(2, 5) | {"interval_ns": 2 * SECOND},
        counter(1, 7, metric="iops", name="Disk Transfers/sec"),
        counter(2, 8, metric="iops", name="Disk Transfers/sec"),
        counter(2, 9, metric=None, name="Split IO/Sec"),
        counter(3, float("nan")),
        counter(4, 1, instance="1 E:"),
        counter(4, 1) | {"layer": None},
    ]
    recording = make_recording([{"issued_ns": 0, "completed_ns": 10}], tables={"counters": rows})
    names = (
        "instance",
        "instance_number",
        "from_ns",
        "until_ns",
        "read_latency_ns",
        "read_latency_until_ns",
        "iops",
    )
    found = ask(recording, "incident_counter_means")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("0 D:", 1, 0, SECOND, 5, 2 * SECOND, 7),
        ("0 D:", 1, SECOND, 2 * SECOND, 5, 2 * SECOND, 8),
        ("1 E:", 2, 3 * SECOND, 4 * SECOND, 1, 4 * SECOND, None),
    ]


def test_sums_are_the_same_whichever_thread_is_first(make_recording):
    random = np.random.default_rng(17)
    count = 3 << 19  # three row groups, all of one slot: threads take them in any order
    issued_ns = np.sort(random.integers(0, 10_000_000_000, count))
    recording = make_recording(
        {"issued_ns": issued_ns, "completed_ns": issued_ns + random.integers(1, 10**7, count)}
    )
    asked = {"from_ns": 0, "until_ns": 10**10, "slot_ns": 10**10, "kept_files": [], "longest_slots": 60}
    told = []
    for threads in (1, 4, 4):
        with library.opened(recording, threads=threads) as connection:
            told.append(library.run(connection, "incident_seconds", **asked))
    assert told[0].num_rows == 1
    assert told[0].equals(told[1])
    assert told[0].equals(told[2])


def test_incident_slowest(make_recording):
    """Of a played I/O the time counts from when it was due; what failed, has no end or lies outside does not count."""
    recording = make_recording(
        [
            {"issued_ns": 10 * MS, "completed_ns": 14 * MS},
            {"issued_ns": 20 * MS, "completed_ns": 22 * MS, "intended_ns": 15 * MS},
            {"issued_ns": 30 * MS, "completed_ns": 36 * MS},
            {"issued_ns": 40 * MS, "completed_ns": 41 * MS},
            {"issued_ns": 50 * MS, "completed_ns": 90 * MS, "error": 5},
            {"issued_ns": 60 * MS, "completed_ns": None},
            {"issued_ns": 70 * MS, "completed_ns": 95 * MS, "layer": "device"},
            {"issued_ns": 9 * MS, "completed_ns": 99 * MS},
            {"issued_ns": 80 * MS, "completed_ns": 99 * MS},
        ]
    )
    rows = ask(recording, "incident_slowest", layer="block", from_ns=10 * MS, until_ns=80 * MS, row_limit=3)
    assert [(row["issued_ns"] // MS, row["latency_ns"] // MS) for row in rows] == [(15, 7), (30, 6), (10, 4)]
