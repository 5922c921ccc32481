"""The native count of classes against the queries that ask the same, which DuckDB answers."""

from collections import Counter
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np
import pytest

from iotrace.analyze import library, rows
from iotrace.analyze.compare.class_counts import Chosen, LatencyCount, LayerCount, class_latency, class_slots
from iotrace.analyze.describe.one_pass import Subject, measure, streams_of

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
        counted = class_slots(recording, chosen, slot_ns, slots, classes)
        ours = counted.classes.to_pylist()
        theirs = asked(recording, "class_slots", slot_ns=slot_ns, classes=classes, **where)
        for row in theirs:
            row["slot"] = min(max(row["slot"], 0), slots - 1)
        assert _courses(ours) == _courses(theirs)

        names = ("layer", "metric", "from_ns", "until_ns")
        theirs = asked(recording, "doubling_slots", slot_ns=slot_ns, **{name: where[name] for name in names})
        for row in theirs:
            row["slot"] = min(max(row["slot"], 0), slots - 1)
        assert _doublings(counted.doublings.to_pylist()) == _doublings(theirs)


def test_threads_share_the_row_groups(recording, monkeypatch):
    chosen = Chosen("block", "service", (-SECOND, SECOND), with_roles=True)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(rows.os, "cpu_count", lambda threads=threads: threads)
        found.append(_latencies(class_latency(recording, chosen).to_pylist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("span_ns", [(-SECOND, 2 * SECOND), (SECOND // 5, SECOND // 2)])
def test_one_pass_tells_the_work_the_latencies_and_the_layers(recording, span_ns):
    metric = "response" if recording.manifest.is_played else "service"
    chosen = Chosen("block", metric, span_ns, with_roles=True)
    latencies, layers = LatencyCount(recording, chosen), LayerCount("block", span_ns, SECOND // 100)
    subject = Subject("block", span_ns, (metric,), has_errors=True, span_ns=span_ns)
    with library.opened(recording) as connection:
        streams = streams_of(recording, partial(library.run, connection))
        whole = measure(connection, recording, streams, subject)
        counted = [latencies.add, layers.add]
        work = measure(connection, recording, streams, replace(subject, is_work_only=True), counted)
    assert _latencies(latencies.table().to_pylist()) == _latencies(
        class_latency(recording, chosen).to_pylist()
    )
    theirs = asked(recording, "layer_slots", from_ns=span_ns[0], until_ns=span_ns[1], slot_ns=SECOND // 100)
    order = itemgetter("layer", "op", "slot")
    assert len(theirs) > 100
    assert sorted(layers.table().to_pylist(), key=order) == sorted(theirs, key=order)

    assert work.all_arrivals == whole.all_arrivals
    assert work.all_arrivals.count > 1000
    assert work.sequential_shares() == whole.sequential_shares()
    for ops in (["read"], ["write"], ["read", "write"]):
        touched = [one.touched_bytes(None, None, ops, is_total=True) for one in (work, whole)]
        assert touched[0] == touched[1] > 0


def test_what_all_rows_have_alike_need_not_be_read(make_recording):
    rows = [{"issued_ns": at, "completed_ns": at + 70 * at % 1000, "op": "write"} for at in range(1, 300)]
    chosen = Chosen("block", "service", (0, SECOND), with_roles=True)
    found = [
        _latencies(class_latency(make_recording(rows), one).to_pylist())
        for one in (chosen, replace(chosen, is_only_layer=True, has_errors=False))
    ]
    assert found[0] == found[1]
    assert found[0][0].total() == len(rows)


def _latencies(rows):
    counts, sums = Counter(), Counter()
    for row in rows:
        kind = (row["role"], row["op"], row["size_class_bytes"])
        counts[*kind, row["bucket_ns"]] += row["io_count"]
        sums[kind] += row["latency_sum_ns"]
    return counts, sums


def _doublings(rows):
    counts = Counter()
    for row in rows:
        counts[row["op"], row["slot"], row["latency_bits"]] += row["io_count"]
    return counts


def _courses(rows):
    found = {}
    for row in rows:
        values = [row["io_count"], row["latency_sum_ns"], *row["below_class_count"], *row["below_op_count"]]
        key = (row["class_key"], row["slot"])
        found[key] = (np.array(values) + found.get(key, 0)).tolist()
    return found
