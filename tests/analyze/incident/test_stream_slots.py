"""The native count of streams over time against the query that asks the same, which DuckDB answers."""

from functools import partial

import pytest

from iotrace.analyze import library
from iotrace.analyze.describe.one_pass import streams_of
from iotrace.analyze.incident.stream_slots import stream_slots

SECOND = 10**9
KEYS = ("layer", "device_id", "file_id", "role", "op", "slot")


def told(rows):
    """Rows by what they are of, without their order; sums of logarithms to the last decimal that is added up."""
    found = {tuple(row[key] for key in KEYS): row for row in rows}
    assert len(found) == len(rows)
    return {
        key: {name: round(value, 9) for name, value in row.items() if name not in KEYS}
        for key, row in found.items()
    }


@pytest.mark.parametrize(
    ("from_ns", "until_ns", "slot_ns", "longest_slots"),
    [
        (-SECOND, 3 * SECOND, SECOND // 10, 600),
        (SECOND // 5, SECOND // 2 + 7, 999_983, 600),
        (0, 3 * SECOND, SECOND // 50, 2),
    ],
)
def test_counts_are_those_of_the_query(unordered, from_ns, until_ns, slot_ns, longest_slots):
    kept = [7, 90_000]
    with library.opened(unordered) as connection:
        theirs = library.run(
            connection,
            "incident_seconds",
            from_ns=from_ns,
            until_ns=until_ns,
            slot_ns=slot_ns,
            kept_files=kept,
            longest_slots=longest_slots,
        ).to_pylist()
        streams = streams_of(unordered, partial(library.run, connection))
    ours = stream_slots(
        unordered, streams, (from_ns, until_ns), slot_ns, kept_files=kept, longest_slots=longest_slots
    ).to_pylist()
    assert len(theirs) > 50
    assert sum(row["measured_count"] - row["begun_count"] for row in theirs) > 3
    assert sum(row["waiting_count"] for row in theirs) > 10 or until_ns < 2 * SECOND
    assert told(ours) == told(theirs)
