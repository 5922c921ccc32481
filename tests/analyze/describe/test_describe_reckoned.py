"""The figures of describe that depend on what counts, held against a plain reckoning with numpy.

Flushes once counted as arrivals (a gap CV of 1.73 where reads and writes have 1.03), failed I/Os were in one figure of
the queue and not in the other (28.7 and 0.099 in one file), and the busiest minute was cut on a grid.
"""

from importlib import resources
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from iotrace.analyze.describe.recording import describe
from iotrace.schemas import Recording

SECOND = 1_000_000_000


def bundled():
    return Recording.open(Path(str(resources.files("iotrace.cli.bundled") / "pgbench.iotrace")))


def random_recording(make_recording, seed):
    """Bursts on two devices over four minutes; a flush with every second write, failed I/Os that hang for long."""
    random = np.random.default_rng(seed)
    count = 30_000
    issued = np.sort(
        random.choice([random.uniform(0, 240, count), random.normal(111.3, 17, count)], axis=0).clip(0, 239)
    )
    issued = (issued * SECOND).astype(np.int64)
    op = random.choice(["read", "write", "flush", "discard"], count, p=[0.5, 0.3, 0.19, 0.01])
    error = (random.random(count) < 0.05).astype(np.int32) * 5
    took = random.lognormal(13, 1, count).astype(np.int64) + error.astype(np.int64) * 200_000_000
    size = np.where(op == "flush", 0, random.choice([512, 8192, 1 << 20], count))
    return make_recording(
        {
            "issued_ns": issued, "completed_ns": issued + took, "op": op.tolist(), "error": error, "size_bytes": size,
            "device_id": random.choice([0, 1], count), "file_id": random.choice([0, 1], count),
        },
        window_ns=240 * SECOND,
    )  # fmt: skip


@pytest.fixture(params=["bundled", 1, 2])
def recording(request, make_recording):
    return bundled() if request.param == "bundled" else random_recording(make_recording, request.param)


def test_gaps_peaks_queue_and_busiest_are_those_of_plain_counting(recording):
    found = describe(recording)
    start, end = recording.manifest.window_start_ns, recording.manifest.window_end_ns
    io = pl.DataFrame(pl.from_arrow(recording.read("io")))
    io = io.filter(pl.col("layer") == found.workload_layer).sort("issued_ns", maintain_order=True)
    for load in found.workloads:
        if load.role is not None:
            continue
        mine = io if load.is_total else io.filter(pl.col("device_id") == load.device_id)
        moves = mine.filter(pl.col("op").cast(str).is_in(["read", "write"]))
        at = moves["issued_ns"].to_numpy()
        gaps = np.diff(at)
        if load.interarrival_cv is not None:
            assert load.interarrival_cv == pytest.approx(gaps.std() / gaps.mean())
        for name, width in (("10ms", SECOND // 100), ("1s", SECOND)):
            if load.peak_to_mean[name] is not None:
                fullest = (np.searchsorted(at, at + width) - np.arange(len(at))).max()
                mean = len(gaps) * width / (at[-1] - at[0])
                assert load.peak_to_mean[name] == pytest.approx(fullest / mean)
        ended = mine.filter(pl.col("completed_ns").is_not_null())
        completed_ns, issued_ns = ended["completed_ns"].to_numpy(), ended["issued_ns"].to_numpy()
        inside = np.minimum(completed_ns, end) - np.maximum(issued_ns, start)
        in_flight = inside.clip(min=0).sum() / (end - start)
        assert load.queue_length_mean == pytest.approx(in_flight)
        assert (load.flush_count, load.discard_count) == (
            (mine["op"].cast(str) == "flush").sum(),
            (mine["op"].cast(str) == "discard").sum(),
        )
    assert found.in_flight[0].mean == found.total.queue_length_mean
    moves = io.filter(pl.col("op").cast(str).is_in(["read", "write"]))
    at, sizes = moves["issued_ns"].to_numpy(), moves["size_bytes"].to_numpy().astype(np.int64)
    reached = np.concatenate([[0], np.cumsum(sizes)])
    for window in (SECOND, 60 * SECOND):
        last = np.searchsorted(at, at + window, side="left")
        most = {
            "io_count": (last - np.arange(len(at))).max(),
            "size_bytes": (reached[last] - reached[:-1]).max(),
        }
        rows = {row["ranked_by"]: row for row in found.busiest if row["window_ns"] == window}
        for name, amount in most.items():
            row = rows[name]
            inside = (at >= row["from_ns"]) & (at < row["from_ns"] + window)
            assert row[name] == amount
            assert (row["io_count"], row["size_bytes"]) == (inside.sum(), sizes[inside].sum())
    assert sum(load.queue_length_mean for load in found.workloads if load.role) == pytest.approx(
        found.total.queue_length_mean
    )


def test_flushes_are_stated_beside(recording):
    flushes = describe(recording).total.flush_count
    (note,) = [note for note in describe(recording).notes if "flush" in note]
    assert f"{flushes:,} flush" in note
