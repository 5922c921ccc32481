"""The laws of scaling: what each mode must keep, and what it must multiply."""

import math

import numpy as np
import pyarrow.compute as pc
import pytest

from iotrace.replay import ReplayOptions
from iotrace.schemas import IotraceError, Recording

from ..conftest import MakeRecording
from .planning import plan_of

SECOND = 10**9
DATA, LOG = ("D:\\data.mdf", "data"), ("L:\\log.ldf", "log")


@pytest.fixture
def busy(make_recording: MakeRecording) -> Recording:
    """20 s of a database: 60 threads in bursts on two data files, and a log written 8 KiB by 8 KiB."""
    random = np.random.default_rng(11)
    starts = np.repeat(np.sort(random.integers(0, 20 * SECOND, 600)), 20)
    data_at = starts + random.integers(0, 2_000_000, len(starts))
    log_at = np.arange(2000) * 10_000_000 + 5
    at = np.concatenate([data_at, log_at])
    rows, logs = len(at), len(log_at)
    order = np.argsort(at, kind="stable")
    columns = {
        "issued_ns": at,
        "completed_ns": at + 200_000,
        "offset_bytes": np.concatenate(
            [random.integers(0, 4000, rows - logs) * 8192, (1 << 30) + np.arange(logs) * 8192]
        ),
        "file_id": np.concatenate([random.integers(0, 2, rows - logs), np.full(logs, 2)]),
        "thread_id": np.concatenate([random.integers(1000, 1060, rows - logs), np.full(logs, 7)]),
        "op": np.array(["read"] * (rows - logs) + ["write"] * logs),
    }
    return make_recording(
        files=[DATA, ("E:\\more.ndf", "data"), LOG],
        **{name: values[order].tolist() for name, values in columns.items()},
    )


def log_writes(table: object) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and ends of the writes to file 2, in the order of the plan."""
    chosen = table.filter(pc.and_(pc.equal(table["file_id"], 2), pc.equal(table["op"], 1)))  # type: ignore[attr-defined]
    offset = chosen["offset_bytes"].to_numpy().astype(np.int64)
    return offset, offset + chosen["size_bytes"].to_numpy()


@pytest.mark.parametrize("scale", [0.25, 1.5, 2.0, 7.0])
def test_compress_keeps_order_and_variation_and_multiplies_the_rate(busy: Recording, scale: float) -> None:
    once, plain = plan_of(busy)
    plan, table = plan_of(busy, scale=scale)
    before, after = once.shape.result(), plan.shape.result()
    for name in ("op", "offset_bytes", "size_bytes", "file_id", "thread_id", "target"):
        assert table[name].equals(plain[name])
    exact = plain["intended_ns"].to_numpy() / scale
    assert np.abs(table["intended_ns"].to_numpy() - exact).max() <= 0.5
    assert after.rate_per_s == pytest.approx(scale * before.rate_per_s, rel=1e-6)
    assert after.cv_interarrival == pytest.approx(before.cv_interarrival, rel=1e-4)
    assert after.footprint_bytes == before.footprint_bytes
    assert after.sequential_share == before.sequential_share


def test_one_copy_is_the_recording_itself(busy: Recording) -> None:
    plain = plan_of(busy)[1]
    assert plan_of(busy, mode="superpose")[1].equals(plain)


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("footprint", ["disjoint", "same"])
def test_copies_multiply_the_rate_and_each_has_every_io_once(
    busy: Recording, copies: int, footprint: str
) -> None:
    once, plain = plan_of(busy)
    plan, table = plan_of(busy, mode="superpose", scale=float(copies), footprint=footprint)
    assert table.num_rows == copies * plain.num_rows
    assert (np.diff(table["intended_ns"].to_numpy()) >= 0).all()
    cycle_ns = plan.cycle.length_ns
    data = pc.not_equal(table["file_id"], 2)
    at_plain = plain.filter(pc.not_equal(plain["file_id"], 2))
    places = []
    for copy in range(copies):
        mine = table.filter(pc.and_(data, pc.equal(table["copy"], copy)))
        turned = (mine["intended_ns"].to_numpy() - plan.passes.shifts_ns[copy]) % cycle_ns
        order = np.argsort(turned, kind="stable")
        assert turned[order].tolist() == at_plain["intended_ns"].to_pylist()
        assert mine["thread_id"].to_numpy()[order].tolist() == at_plain["thread_id"].to_pylist()
        offsets = mine["offset_bytes"].to_numpy().astype(np.int64)[order]
        places.append(offsets - at_plain["offset_bytes"].to_numpy().astype(np.int64))
    if footprint == "same":
        assert all((place == 0).all() for place in places)
        assert plan.shape.result().footprint_bytes == once.shape.result().footprint_bytes
    else:
        assert [np.unique(place).tolist() for place in places] == [
            [copy * plan.layouts[0].copy_bytes] for copy in range(copies)
        ]
        alone = once.shape.result().footprint_bytes - 2000 * 8192
        assert plan.shape.result().footprint_bytes == copies * alone + 2000 * 8192
    rate = plan.shape.result().rate_per_s / once.shape.result().rate_per_s
    assert rate == pytest.approx(
        copies, rel=0.01
    )  # turned copies may fill the cycle a little further than one alone


def test_many_copies_of_bursts_tend_to_poisson(make_recording: MakeRecording) -> None:
    """Palm and Khinchin: the sum of many independent sparse streams is Poisson, whose gaps have a variation of 1.

    Each copy has 200 bursts of 5 within a second: alone a variation of 2. Of 64 copies, bursts remain but gaps within
    one are mostly filled by others.
    """
    random = np.random.default_rng(2)
    at = np.sort(np.repeat(random.integers(0, 10 * SECOND, 200), 5) + np.tile(np.arange(5) * 5_000_000, 200))
    recording = make_recording(issued_ns=at.tolist())
    variation = [
        plan_of(recording, mode="superpose", scale=float(copies))[0].shape.result().cv_interarrival
        for copies in (1, 8, 64)
    ]
    assert variation[0] > 1.5
    assert variation[0] > variation[1] > variation[2]
    assert variation[2] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("options", [
    {"scale": 2.0}, {"mode": "superpose", "scale": 2.0}, {"mode": "superpose", "scale": 3.0, "footprint": "same"},
    {"mode": "superpose", "scale": 0.25}, {"mode": "superpose", "scale": 1.5}, {"mode": "think", "scale": 2.0},
    {"mode": "superpose", "scale": 4.0, "repeat": 2}, {"addresses": "compact", "scale": 2.0},
])  # fmt: skip
def test_a_log_stays_one_sequential_stream(busy: Recording, options: dict[str, object]) -> None:
    """Each write begins where the last one ended, but for the turn when the log's space is used up."""
    plan, table = plan_of(busy, **options)
    offset, end = log_writes(table)
    load = float(str(options["scale"])) if options.get("mode") == "superpose" else 1.0
    repeat = int(str(options.get("repeat", 1)))
    assert len(offset) == pytest.approx(2000 * load * repeat, abs=1)
    breaks = np.flatnonzero(offset[1:] != end[:-1])
    assert len(breaks) <= math.ceil(load * repeat) - 1
    assert set(offset[1:][breaks].tolist()) <= {int(offset.min())}
    span = plan_of(busy, addresses=str(options.get("addresses", "auto")))[1]
    assert (offset.min(), end.max()) == (log_writes(span)[0].min(), log_writes(span)[1].max()) or load < 1
    assert plan.survey.log_ios == 2000


def test_a_log_page_written_again_until_it_is_full_keeps_its_overlap(make_recording: MakeRecording) -> None:
    """PostgreSQL's way: 8 KiB pages, each written three times; two copies still write each page three times."""
    offsets = np.repeat(np.arange(50) * 8192, 3)
    recording = make_recording(
        files=[LOG], file_id=[0] * 150, op=["write"] * 150, offset_bytes=offsets.tolist()
    )
    _, table = plan_of(recording, mode="superpose", scale=2.0)
    offset = table["offset_bytes"].to_numpy().astype(np.int64)
    forward = np.diff(offset)
    assert set(forward.tolist()) <= {0, 8192, -int(offset.max())}
    assert (forward == 8192).sum() == pytest.approx(100, abs=3)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.8])
def test_thinning_keeps_whole_streams_and_says_what_it_reached(busy: Recording, share: float) -> None:
    _, plain = plan_of(busy)
    plan, table = plan_of(busy, mode="superpose", scale=share)
    not_log = table.filter(pc.not_equal(table["file_id"], 2))
    whole = plain.filter(pc.not_equal(plain["file_id"], 2))
    kept = set(not_log["thread_id"].to_pylist())
    assert 0 < len(kept) < 60
    expected = whole.filter(pc.is_in(whole["thread_id"], value_set=not_log["thread_id"].unique()))
    assert not_log["intended_ns"].to_pylist() == expected["intended_ns"].to_pylist()
    assert not_log["offset_bytes"].to_pylist() == expected["offset_bytes"].to_pylist()
    said = plan.describe()["thinning"]
    achieved = not_log.num_rows / whole.num_rows
    assert said.achieved_share == pytest.approx(achieved)
    assert said.error == pytest.approx(achieved / share - 1)
    assert abs(said.error) < 0.05  # sixty streams of much the same size
    assert (said.streams, said.streams_kept) == (60, len(kept))
    assert said.streams_are == {"thread": len(kept)}


def test_one_and_a_half_is_a_whole_copy_and_half_of_the_streams(busy: Recording) -> None:
    _, table = plan_of(busy, mode="superpose", scale=1.5)
    first, second = (table.filter(pc.equal(table["copy"], copy)) for copy in (0, 1))
    assert first.num_rows == plan_of(busy)[1].num_rows
    assert second.num_rows / first.num_rows == pytest.approx(0.5, abs=0.03)


def test_a_fraction_that_no_stream_fits_into_is_refused(make_recording: MakeRecording) -> None:
    recording = make_recording(thread_id=[5] * 100)
    with pytest.raises(IotraceError, match=r"no whole stream is as small as 0\.25") as caught:
        plan_of(recording, mode="superpose", scale=0.25)
    assert "compress" in caught.value.hint


def test_a_plan_does_not_depend_on_anything_but_its_seed(busy: Recording) -> None:
    first = plan_of(busy, mode="superpose", scale=2.5, seed=3)[1]
    assert plan_of(busy, mode="superpose", scale=2.5, seed=3)[1].equals(first)
    assert not plan_of(busy, mode="superpose", scale=2.5, seed=4)[1].equals(first)


def test_a_ramp_climbs_evenly_and_plays_everything(make_recording: MakeRecording) -> None:
    """1,000 reads a second for 20 s, ramped for 10: half the I/Os of that time, 1/4 in its first half, 3/4 then."""
    recording = make_recording(issued_ns=np.arange(20_000) * 1_000_000)
    plan, table = plan_of(recording, ramp_seconds=10.0)
    at = table["intended_ns"].to_numpy()
    assert table.num_rows == 20_000
    counts = np.histogram(at, bins=np.arange(26) * SECOND)[0]
    assert counts[:10].sum() == pytest.approx(5000, abs=1)
    assert counts[:5].sum() == pytest.approx(1250, abs=1)
    assert counts[:10] == pytest.approx(np.arange(10) * 100 + 50, abs=1)
    assert (counts[10:24] == 1000).all()
    assert plan.shape.result().rate_per_s == pytest.approx(1000, rel=1e-6)
    assert plan.length_ns == 25 * SECOND


def test_a_loop_goes_on_until_its_time_is_up(make_recording: MakeRecording) -> None:
    recording = make_recording(issued_ns=np.arange(10) * 100_000_000)
    plan, table = plan_of(recording, loop_seconds=2.55)
    assert table["intended_ns"].to_pylist() == [n * 100_000_000 for n in range(26)]
    assert plan.repeat == 3
    assert plan_of(recording, repeat=2)[1].num_rows == 20


def test_several_devices_go_to_several_targets_in_one_order(make_recording: MakeRecording) -> None:
    recording = make_recording(device_id=[0, 1, 2] * 20)
    _, table = plan_of(recording, targets=(), maps={0: "a", "sdb": "b", "2": "a"})
    assert table["target"].to_pylist() == [0, 1, 0] * 20
    assert (np.diff(table["intended_ns"].to_numpy()) >= 0).all()


def test_folding_onto_a_small_target_says_what_it_moved(make_recording: MakeRecording) -> None:
    recording = make_recording(
        op=["read"] * 100, size_bytes=[12288] * 100, offset_bytes=np.arange(100) * 16384
    )
    plan, table = plan_of(recording, target_bytes=32768, addresses="fold")
    ends = table["offset_bytes"].to_numpy() + table["size_bytes"].to_numpy()
    assert ends.max() <= 32768
    moved = (
        np.array(plan_of(recording, addresses="compact")[1]["offset_bytes"].to_pylist()) % 32768 + 12288
        > 32768
    )
    assert plan.adjusted_ios == moved.sum() > 0
    assert plan.layouts[0].mode == "fold"


def test_batches_are_small_and_rise_from_one_to_the_next(make_recording: MakeRecording) -> None:
    recording = make_recording(issued_ns=np.arange(200_000) * 1000)
    plan, _ = plan_of(recording, mode="superpose", scale=2.0)
    batches = list(plan.batches())
    assert max(batch.num_rows for batch in batches) <= 1 << 16
    last = -1
    for batch in batches:
        assert batch["intended_ns"][0].as_py() >= last
        last = batch["intended_ns"][-1].as_py()


def test_more_copies_than_make_sense() -> None:
    with pytest.raises(IotraceError, match="300 copies are too many"):
        ReplayOptions(targets=("t",), mode="superpose", scale=300.0).check()
