"""The native count of classes against the queries that ask the same, which DuckDB answers."""

from collections import Counter

import numpy as np
import pytest

from iotrace.analyze import library, rows
from iotrace.analyze.compare.class_counts import Chosen, class_latency, class_slots

SECOND = 10**9


@pytest.fixture
def recording(unordered):
    return unordered


def asked(recording, query_name, **parameters):
    with library.opened(recording) as connection:
        return library.run(connection, query_name, **parameters).to_pylist()


@pytest.mark.parametrize("with_roles", [True, False])
@pytest.mark.parametrize("span_ns", [(-SECOND, SECOND), (SECOND // 5, SECOND // 2)])
def test_counts_are_those_of_the_queries(recording, with_roles, span_ns):
    for metric in ("service", "response") if recording.manifest.is_played else ("service",):
        chosen = Chosen("block", metric, span_ns, with_roles=with_roles)
        where = {
            "layer": "block", "metric": metric, "with_roles": with_roles,
            "from_ns": span_ns[0], "until_ns": span_ns[1],
        }  # fmt: skip
        theirs = asked(recording, "class_latency", **where)
        assert len(theirs) > 100
        assert _latencies(class_latency(recording, chosen).to_pylist()) == _latencies(theirs)

        kinds = sorted({(row["role"], row["op"], row["size_class_bytes"]) for row in theirs})
        classes = [
            {
                "class_key": number, "role": role, "op": op, "size_class_bytes": size,
                "limits_ns": [100_000, 200_000 + number, 900_000], "op_limits_ns": [0, 150_000, 800_000],
            }
            for number, (role, op, size) in enumerate(kinds)
        ]  # fmt: skip
        slot_ns, slots = SECOND // 20, 12
        ours = class_slots(recording, chosen, slot_ns, slots, classes).to_pylist()
        theirs = asked(recording, "class_slots", slot_ns=slot_ns, classes=classes, **where)
        for row in theirs:
            row["slot"] = min(max(row["slot"], 0), slots - 1)
        assert _courses(ours) == _courses(theirs)


def test_threads_share_the_row_groups(recording, monkeypatch):
    chosen = Chosen("block", "service", (-SECOND, SECOND), with_roles=True)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(rows.os, "cpu_count", lambda threads=threads: threads)
        found.append(_latencies(class_latency(recording, chosen).to_pylist()))
    assert found[0] == found[1]


def _latencies(rows):
    counts, sums = Counter(), Counter()
    for row in rows:
        kind = (row["role"], row["op"], row["size_class_bytes"])
        counts[*kind, row["bucket_ns"]] += row["io_count"]
        sums[kind] += row["latency_sum_ns"]
    return counts, sums


def _courses(rows):
    found = {}
    for row in rows:
        values = [row["io_count"], row["latency_sum_ns"], *row["below_class_count"], *row["below_op_count"]]
        key = (row["class_key"], row["slot"])
        found[key] = (np.array(values) + found.get(key, 0)).tolist()
    return found
