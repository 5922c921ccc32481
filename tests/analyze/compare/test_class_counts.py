"""The native count of classes against the queries that ask the same, which DuckDB answers."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze import library, rows
from iotrace.analyze.compare.class_counts import Chosen, class_latency, class_slots
from iotrace.schemas import Clock, Manifest, RecordingWriter
from iotrace.schemas.run import Replay

SECOND = 10**9
PARTS = 5
ROLES = ["data", "log", "other", "backup"]
FILES = [0, 7, 90_000, -3]
"""Ids may be anything: in a list, beyond it, below it."""


@pytest.fixture(params=[False, True], ids=["captured", "replayed"])
def recording(request, tmp_path, monkeypatch):
    """A second of I/Os at two layers, in several row groups that overlap; some fail, some never end."""
    monkeypatch.setattr("iotrace.schemas.writer.ROW_GROUP_ROWS", 2000)
    random = np.random.default_rng(11)
    with RecordingWriter(tmp_path / "x.iotrace") as writer:
        writer.append("files", pa.table({"file_id": FILES, "path": list("abcd"), "role": ROLES}))
        for _ in range(PARTS):
            count = 3000
            issued = random.integers(-SECOND // 10, SECOND, count)
            took = random.lognormal(np.log(200_000), 2, count).astype(np.int64)
            never = random.random(count) < 0.05
            columns = {
                "layer": pa.DictionaryArray.from_arrays(
                    random.integers(0, 2, count).astype(np.int8), ["block", "device"]
                ),
                "op": pa.DictionaryArray.from_arrays(
                    random.integers(0, 3, count).astype(np.int8), ["read", "write", "flush"]
                ),
                "issued_ns": issued,
                "completed_ns": pa.array(issued + took - 50_000, mask=never),
                "size_bytes": random.choice([0, 512, 4096, 4097, 65536, 1 << 20, (1 << 20) + 1], count),
                "offset_bytes": random.integers(0, 1 << 30, count),
                "file_id": pa.array(random.choice([*FILES, 5], count).astype(np.int32), mask=never),
                "error": (random.random(count) < 0.05).astype(np.int32),
            }
            if request.param:
                due = issued - random.integers(0, 10_000_000, count)
                columns["intended_ns"] = pa.array(due, mask=random.random(count) < 0.05)
            writer.append("io", pa.table(columns))
        replay = Replay(scale=1.0) if request.param else None
        kind = "replayed" if request.param else "captured"
        return writer.commit(Manifest(kind, "x", Clock(0, 1.0, "test"), window_end_ns=SECOND, replay=replay))


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
