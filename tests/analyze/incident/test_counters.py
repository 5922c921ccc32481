"""What counters tell of each drive, from a table whose rows are planted."""

import pyarrow as pa
import pytest

from iotrace.analyze import library
from iotrace.analyze.incident.counters import _instances, mean_slots

UNTIL = ("read_latency_until_ns", "write_latency_until_ns", "latency_until_ns")


def table(*rows):
    """Rows of an instance, its number, and from when until when it had which latency of a read."""
    return pa.Table.from_pylist(
        [
            {"layer": "sql", "object": "PhysicalDisk", "source": "host", "instance": instance,
             "instance_number": number, "from_ns": begin, "until_ns": end, "read_latency_ns": float(latency)}
            | dict.fromkeys(UNTIL, end)
            for instance, number, begin, end, latency in rows
        ]
    )  # fmt: skip


ROWS = (
    ("0 C:", 1, 0, 10, 3),
    ("0 C:", 1, 10, 20, 4),
    ("1 D:", 2, 0, 10, 5),
    ("1 D:", 2, 10, 20, 6),
    ("1 D:", 2, 20, 30, 7),
    (" _Total", 3, 0, 10, 8),
    ("2 E:", 4, 5, 6, 9),
    ("3 F:", 5, 5, 7, 10),
)


@pytest.mark.parametrize(
    ("span_ns", "expected"),
    [
        # Of the sum of all of them nothing is told, nor of a moment.
        ((0, 0), {"0 C:": [3, 4], "1 D:": [5, 6, 7], "3 F:": [10]}),
        ((0, 30), {"0 C:": [3, 4], "1 D:": [5, 6, 7], "3 F:": [10]}),
        ((8, 19), {"0 C:": [3, 4], "1 D:": [5, 6]}),
        ((9, 22), {"0 C:": [4], "1 D:": [6, 7]}),
        ((19, 40), {"1 D:": [7]}),
    ],
)
def test_each_instance_has_its_own_rows_within_the_span(span_ns, expected):
    found = _instances(table(*ROWS), span_ns)
    assert {who[1]: segments.values["read_latency_ns"].tolist() for *_, who, segments in found} == expected
    assert {(layer, name, who[0]) for layer, name, who, _ in found} == {("sql", "PhysicalDisk", "host")}
    for *_, segments in found:
        begin, end = span_ns if span_ns[1] else (0, 30)
        assert (segments.from_ns >= begin).all()
        assert (segments.until_ns <= end).all()


def test_without_rows_nothing_is_told():
    assert _instances(table(), (0, 0)) == []


def test_how_late_a_log_begins_makes_its_slots_no_longer(monkeypatch):
    """Ten seconds of a log, two days and more after the recording's beginning: a slot is a second, as a sample is."""
    second = 10**9
    late = [("0 C:", 1, at * second, (at + 1) * second, 5) for at in range(200_000, 200_010)]
    rows = table(*late)
    for name in (
        "read_iops", "write_iops", "iops", "read_bytes_per_second", "write_bytes_per_second", "bytes_per_second",
        "queue_length", "in_flight", "write_latency_ns", "latency_ns",
    ):  # fmt: skip
        rows = rows.append_column(name, pa.nulls(len(rows), pa.float64()))
    monkeypatch.setattr(library, "run", lambda *_: rows)
    slots = mean_slots(None, (0, 0))
    assert (slots.start_ns, slots.slot_ns, slots.count) == (200_000 * second, second, 10)
