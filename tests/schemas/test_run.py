"""What a run says of itself: the same after it was written and read, and readable by other versions."""

import json
from dataclasses import asdict

import pytest

from iotrace.schemas import Recording
from iotrace.schemas.contract import ContractError
from iotrace.schemas.run import (
    Cell,
    ClosedLoop,
    DeviceCounters,
    DeviceLook,
    LoadShape,
    ModelFacts,
    Pacing,
    Replay,
    Scaling,
    TargetFacts,
    run_of,
)

from ..recordings import write_recording

SHAPE = LoadShape(ios=10, span_ns=5, rate_per_s=2.0, peak_to_mean={"10ms": 3.0, "1s": None})
OPEN = Replay(
    targets=[TargetFacts("/dev/sdb", bytes=1 << 30)],
    scale=2.0,
    window_ns=[0, 5],
    errors={"EIO": 3},
    device_counters={"sdb": DeviceLook(DeviceCounters(reads=1), None)},
    scaling=Scaling(SHAPE, SHAPE),
    pacing=Pacing("auto", "gentle", "few processors", trial={"late_p90_ns": 9}),
    model=ModelFacts("m", seconds=0.5),
)
CLOSED = ClosedLoop(loop="closed", cell=Cell("random", 0.6, 8192, 16, durable=True), seconds=10.0)


@pytest.mark.parametrize("run", [OPEN, CLOSED, Replay()], ids=["replay", "characterize", "nothing known"])
def test_a_run_is_the_same_after_it_was_written_and_read(run, tmp_path):
    written = write_recording(tmp_path / "r.iotrace", kind="replayed", replay=run)
    read = Recording.open(written.path).manifest
    assert read.replay == run
    assert read.is_closed_loop is isinstance(run, ClosedLoop)
    assert run_of(json.loads(json.dumps(asdict(run)))) == run


def test_an_older_run_lacks_facts_and_a_newer_one_has_more():
    assert run_of({}) == Replay()
    assert run_of({"scale": 2.0, "of a later version": [1]}) == Replay(scale=2.0)


@pytest.mark.parametrize(
    ("facts", "where"),
    [
        ({"scale": "twice"}, "scale"),
        ({"targets": [{"kind": "disk"}]}, "targets.0.name"),
        ({"loop": "closed", "cell": {"pattern": "random"}}, "cell.read_share"),
        ({"pacing": {"asked": "auto", "used": "fast", "reason": ""}}, "pacing.used"),
    ],
)
def test_what_breaks_the_contract_is_named(facts, where):
    with pytest.raises(ContractError) as caught:
        run_of(facts)
    assert caught.value.where == where
