"""Several threads issue where one cannot keep up: how many, and what they leave as it was."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay import ReplayOptions, _engine, replay
from iotrace.replay.plan.schedule import submitters_for
from iotrace.schemas import IotraceError, validate
from iotrace.schemas.run import LoadShape

from ..conftest import MakeRecording
from .planning import plan_of

REGION_BYTES = 64 << 20


@pytest.mark.parametrize(
    ("rate", "peak", "scale", "processors", "expected"),
    [
        (10_000, 1.0, 1.0, 64, 1),
        (150_000, 1.0, 2.0, 64, 2),
        (150_000, 4.0, 1.0, 64, 3),  # the fullest second holds 600,000
        (150_000, None, 1.0, 64, 1),  # too short for a fullest second
        (1_000_000, 1.0, 1.0, 4, 2),  # half of the processors
        (1_000_000, 1.0, 1.0, 1, 1),
        (None, None, 1.0, 64, 1),
    ],
)
def test_the_fullest_second_decides(
    rate: float | None, peak: float | None, scale: float, processors: int, expected: int
) -> None:
    shape = LoadShape(0, 0, rate_per_s=rate, peak_to_mean={"1s": peak})
    options = ReplayOptions(targets=("t",), scale=scale)
    assert submitters_for(options, shape, processors=processors) == expected


def test_what_the_user_says_holds_and_waiting_plans_have_one() -> None:
    shape = LoadShape(0, 0, rate_per_s=1e6, peak_to_mean={"1s": 1.0})
    assert submitters_for(ReplayOptions(targets=("t",), submitters=5), shape, processors=2) == 5
    assert submitters_for(ReplayOptions(targets=("t",), mode="think"), shape, processors=64) == 1
    with pytest.raises(IotraceError, match="one thread issues them all"):
        ReplayOptions(targets=("t",), mode="think", submitters=2).check()
    with pytest.raises(IotraceError, match="65 submitters are not possible"):
        ReplayOptions(targets=("t",), submitters=65).check()


def test_three_submitters_play_every_io_once_and_each_place_in_its_order(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    rows = 6000
    offsets = random.integers(0, 256 << 20, rows) // 8192 * 8192
    recording = make_recording(
        issued_ns=np.sort(random.integers(0, 1_000_000_000, rows)),
        offset_bytes=offsets,
        size_bytes=[8192] * rows,
    )
    target = disk / "target"
    options = ReplayOptions(
        targets=(str(target),), buffered=True, submitters=3, file_bytes=256 << 20, addresses="identity"
    )
    out = replay(recording, tmp_path / "out.iotrace", options)
    assert out.manifest.replay is not None
    assert out.manifest.replay.submitters == 3
    assert out.manifest.replay.completed_ios == rows
    assert validate(out.path) == []
    io = out.read("io").sort_by("intended_ns")
    assert io["offset_bytes"].to_pylist() == offsets.tolist()
    region, issued_ns = io["offset_bytes"].to_numpy() // REGION_BYTES, io["issued_ns"].to_numpy()
    for one in np.unique(region):
        assert (np.diff(issued_ns[region == one]) >= 0).all()


def test_a_log_that_crosses_regions_is_planned_as_one_stream(make_recording: MakeRecording) -> None:
    recording = make_recording(
        op=["write", "read", "write", "flush", "write", "write"],
        offset_bytes=[0, 0, REGION_BYTES, 0, 2 * REGION_BYTES, 5 * REGION_BYTES],
        files=[("L:\\one.ldf", "log"), ("D:\\a.mdf", "data"), ("L:\\two.ldf", "log")],
        file_id=[0, 1, 0, 0, 2, 1],
    )
    _, plan = plan_of(recording, submitters=3)
    one, none, again, flush, other, last = plan["stream"].to_pylist()
    assert one == again == flush != other
    assert none == last == 0 not in {one, other}
    assert "stream" not in plan_of(recording, submitters=1)[1].schema.names


@pytest.mark.parametrize("streams", [True, False])
def test_a_stream_is_issued_in_order_wherever_it_goes(tmp_path: Path, streams: bool) -> None:
    """Twenty bursts of 300 reads round and round over six regions; without a stream the order of a burst is lost."""
    rows = 6000
    file = os.open(tmp_path / "sparse", os.O_RDWR | os.O_CREAT)
    os.truncate(file, 6 * REGION_BYTES)
    plan = {
        "intended_ns": np.arange(rows) // 300 * 10_000_000,
        "offset_bytes": (np.arange(rows) % 6 * REGION_BYTES + np.arange(rows) * 512).astype(np.uint64),
        "size_bytes": np.full(rows, 512, np.uint32),
        "op": np.zeros(rows, np.uint8),
        "target": np.zeros(rows, np.uint16),
        "durable": pa.array(np.zeros(rows, np.bool_)),
        "stream": np.full(rows, 7 if streams else 0, np.uint16),
    }
    engine = _engine.Engine([file], in_flight_max=256, read_bytes_max=512, write_bytes_max=0, submitters=3)
    engine.offer(pa.record_batch(plan))
    engine.end_plan()
    engine.start()
    while not engine.wait(1.0):
        pass
    os.close(file)
    outcome = engine.take()
    assert outcome is not None
    assert outcome.num_rows == rows
    assert outcome["completed_ns"].null_count == 0
    assert not outcome["error"].to_numpy().any()
    in_order = (np.diff(outcome["issued_ns"].to_numpy()) >= 0).all()
    assert in_order == streams
