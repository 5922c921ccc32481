"""A recording made by a replay is replayed as the same plan."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import Recording

from ..conftest import MakeRecording
from ..plan.planning import plan_of

SAME = [
    "intended_ns",
    "offset_bytes",
    "size_bytes",
    "op",
    "durable",
    "file_id",
    "process_id",
    "thread_id",
    "copy",
]


@pytest.fixture
def mixed(make_recording: MakeRecording) -> Recording:
    """600 I/Os of two devices, many at the same instant, some out of line, some durable."""
    random = np.random.default_rng(8)
    rows = 600
    offsets = random.integers(0, 500, rows) * 8192
    offsets[::10] += 100
    return make_recording(
        op=random.choice(["read", "write", "flush"], rows, p=[0.6, 0.35, 0.05]).tolist(),
        issued_ns=np.sort(random.integers(0, 300, rows) * 1_000_000),
        offset_bytes=offsets,
        device_id=random.integers(0, 2, rows).tolist(),
        files=[("D:\\a.mdf", "data"), ("L:\\a.ldf", "log")],
        file_id=random.integers(0, 2, rows).tolist(),
        thread_id=random.integers(100, 104, rows).tolist(),
        flags=random.choice([0, 8, 16, 64, 72], rows).tolist(),
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale": 2.0},
        {"scale": 2.0, "mode": "superpose"},
        {"window_ns": (30_500_000, 200_000_000)},
        {"repeat": 2, "scale": 3.0},
        {"ramp_seconds": 0.2},
        {"addresses": "identity"},
        {"addresses": "compact"},
        {"addresses": "fold", "file_bytes": 1 << 20},
        {"scale": 0.3},
        {"scale": 0.5, "mode": "superpose"},
        {"scale": 2.5, "mode": "superpose", "footprint": "same"},
        {"scale": 1.5, "mode": "superpose", "addresses": "fold", "file_bytes": 1 << 20},
        {"scale": 2.0, "mode": "superpose", "window_ns": (30_500_000, 200_000_000), "loop_seconds": 0.4},
        {"scale": 2.0, "loop_seconds": 0.4},
        {"window_ns": (30_500_000, 200_000_000), "repeat": 2, "ramp_seconds": 0.1},
        {"roles": ("log",)},
        {"ops": ("write", "flush")},
        {"reads_only": True},
    ],
    ids=str,
)
def test_replaying_a_replay_plans_the_same(
    mixed: Recording, disk: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    asked = ReplayOptions(targets=(str(disk / "target"),), buffered=True, **options)  # type: ignore[arg-type]
    first = replay(mixed, tmp_path / "first.iotrace", asked)
    target_bytes = (disk / "target").stat().st_size
    plan, planned = plan_of(mixed, **({"target_bytes": target_bytes} | options))
    _, again = plan_of(first, target_bytes=target_bytes)
    assert planned.num_rows > 10
    for name in SAME:
        assert again[name].to_pylist() == planned[name].to_pylist(), name
    # What was moved to fit is in its place now.
    assert plan.adjusted_ios > 0
    adjusted = pa.compute.not_equal(pa.compute.bit_wise_and(again["flags"], 0x800), 0)
    assert not pa.compute.any(adjusted).as_py()


def test_what_two_submitters_issued_is_the_same_but_for_the_order_within_an_instant(
    mixed: Recording, disk: Path, tmp_path: Path
) -> None:
    asked = ReplayOptions(targets=(str(disk / "target"),), buffered=True, submitters=2)
    first = replay(mixed, tmp_path / "first.iotrace", asked)
    target_bytes = (disk / "target").stat().st_size
    plans = [plan_of(one, target_bytes=target_bytes)[1].select(SAME) for one in (mixed, first)]
    assert plans[0]["intended_ns"].to_pylist() == plans[1]["intended_ns"].to_pylist()
    assert sorted(map(str, plans[0].to_pylist())) == sorted(map(str, plans[1].to_pylist()))


def test_what_went_to_two_targets_goes_there_again(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    asked = ReplayOptions(
        targets=(str(disk / "target"),),
        maps={"sdb": str(disk / "other")},
        buffered=True,
        addresses="identity",
    )
    first = replay(mixed, tmp_path / "first.iotrace", asked)
    _, planned = plan_of(mixed, maps={"sdb": "other"})
    _, again = plan_of(first, maps={1: "other"})
    assert set(planned["target"].to_pylist()) == {0, 1}
    for name in [*SAME, "target"]:
        assert again[name].to_pylist() == planned[name].to_pylist(), name


def test_what_waited_for_other_ios_comes_when_it_came(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    """A plan of mode think has no deadlines of its own: those that it came to are the plan of its recording."""
    asked = ReplayOptions(targets=(str(disk / "target"),), buffered=True, mode="think", scale=2.0)
    first = replay(mixed, tmp_path / "first.iotrace", asked)
    _, planned = plan_of(mixed, mode="think", scale=2.0, target_bytes=(disk / "target").stat().st_size)
    played = first.read("io", [*(name for name in SAME if name != "durable"), "flags"])
    _, again = plan_of(first, target_bytes=(disk / "target").stat().st_size)
    order = np.argsort(played["intended_ns"].to_numpy(), kind="stable")
    for name in ("intended_ns", "offset_bytes", "size_bytes", "file_id", "thread_id"):
        assert again[name].to_pylist() == played[name].take(order).to_pylist(), name
    # Each thread does what the source's thread did.
    for thread in range(100, 104):
        mine = [
            table.filter(pa.compute.equal(table["thread_id"], thread)).select(
                ["offset_bytes", "size_bytes", "op"]
            )
            for table in (planned, again)
        ]
        assert sorted(map(str, mine[0].to_pylist())) == sorted(map(str, mine[1].to_pylist()))


def test_a_recording_of_a_replay_of_a_replay_is_no_different(
    mixed: Recording, disk: Path, tmp_path: Path
) -> None:
    """Through the engine twice: what was meant, what was asked and where is the same to the last row."""
    asked = ReplayOptions(targets=(str(disk / "target"),), buffered=True)
    first = replay(mixed, tmp_path / "first.iotrace", asked)
    second = replay(first, tmp_path / "second.iotrace", asked)
    for name in ("intended_ns", "op", "offset_bytes", "size_bytes", "file_id", "thread_id"):
        assert second.read("io")[name].to_pylist() == first.read("io")[name].to_pylist(), name
