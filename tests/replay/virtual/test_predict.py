"""Predictions before anything is played: the intervals hold what was planted, and nothing is said beyond it."""

import heapq

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay.options import ReplayOptions
from iotrace.replay.virtual.fit import fit, held_out, ratio_interval
from iotrace.replay.virtual.predict import Predictor, predict
from iotrace.replay.virtual.service import caps, run_of
from iotrace.schemas import IotraceError, Kind
from iotrace.schemas.run import Cell, ClosedLoop, Replay, TargetFacts

from ...recordings import write_recording

SECOND = 1_000_000_000
RATE = 500
COUNT = 5_000
SERVERS = 4


def record(path, at, took, *, kind=Kind.REPLAYED, replay=None, size=8192, threads=None):
    """Reads that were due, and issued, at ``at`` and ended ``took`` later."""
    count = len(at)
    columns = {
        "layer": pa.array(["block"] * count).dictionary_encode(),
        "op": pa.array(["read"] * count).dictionary_encode(),
        "device_id": np.zeros(count, np.int32),
        "offset_bytes": (np.arange(count) % 1000 * 8192).astype(np.uint64),
        "size_bytes": np.full(count, size, np.uint32),
        "issued_ns": at,
        "completed_ns": at + took,
    }
    if kind == Kind.REPLAYED:
        columns["intended_ns"] = at
    if threads is not None:
        columns["thread_id"] = threads
    window_ns = int(max((at + took).max() + 1, COUNT / RATE * SECOND))
    devices = [{"device_id": 0, "name": "sdx", "kind": "disk", "size_bytes": 1 << 40}]
    return write_recording(
        path,
        columns,
        tables={"devices": devices},
        kind=kind,
        title=path.stem,
        window_end_ns=window_ns,
        replay=replay,
    )


def arrivals():
    """Poisson, for ten seconds."""
    return np.sort((np.random.default_rng(3).random(COUNT) * COUNT / RATE * SECOND).astype(np.int64))


def served(at, *, mean_ns=1_000_000, seed=1):
    """What four servers of exponential times, first come, first served, make of arrivals: M/M/4."""
    random = np.random.default_rng(seed)
    free = np.zeros(SERVERS)
    took = np.empty(len(at), np.int64)
    for number, (due, work) in enumerate(zip(at, random.exponential(mean_ns, len(at)), strict=True)):
        server = int(free.argmin())
        free[server] = max(free[server], due) + work
        took[number] = free[server] - due
    return took


def step_of(folder, source_at, scale, *, repeat=1, seed=1):
    """The source at a load, on the planted device."""
    length = COUNT / RATE * SECOND
    at = (np.concatenate([source_at + number * length for number in range(repeat)]) / scale).astype(np.int64)
    facts = Replay(scale=scale, targets=[TargetFacts("/dev/sdx")])
    return record(folder / f"{scale:g}-{seed}", at, served(at, seed=seed), replay=facts)


@pytest.fixture
def source(tmp_path):
    at = arrivals()
    return record(tmp_path / "source", at, served(at), kind=Kind.CAPTURED), at


def test_twice_the_load_is_predicted_from_the_load_as_it_was(source, tmp_path):
    recording, at = source
    predictor = Predictor(recording, ReplayOptions(targets=("/dev/sdx",)))
    predictor.learn(step_of(tmp_path, at, 1.0), 1.0)
    said = predictor.predict(2.0, 2)
    assert said.refused == ""
    truth = run_of(step_of(tmp_path, at, 2.0, repeat=2, seed=5)).service_ns
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        known = getattr(said, f"response_ns_{name}")
        assert known.low <= np.quantile(truth, share) <= known.high
        assert known.high < 4 * known.low, "an interval of everything says nothing"


def sessions_on(scale, *, seed):
    """12 sessions that think 14 ms and read, on four servers of 1 ms, all exponential: when, how long, and whose.

    At a higher scale they think in proportion less.
    """
    thinks = np.random.default_rng(11).exponential(14_000_000, (12, 600))
    random = np.random.default_rng(seed)
    free = [0] * SERVERS
    due = [(int(thinks[session, 0] / scale), session, 0) for session in range(12)]
    heapq.heapify(due)
    found = []
    while due:
        at, session, number = heapq.heappop(due)
        end = max(at, heapq.heappop(free)) + int(random.exponential(1_000_000))
        heapq.heappush(free, end)
        found.append((at, end - at, session))
        if number + 1 < thinks.shape[1]:
            heapq.heappush(due, (end + int(thinks[session, number + 1] / scale), session, number + 1))
    at, took, session = np.array(found).T
    return at, took, session.astype(np.int32)


def test_sessions_that_think_are_predicted_as_they_would_wait(tmp_path):
    """At 2x, where by the clock more would meet in flight than was measured, and the p99 be refused."""
    at, took, session = sessions_on(1.0, seed=1)
    recording = record(tmp_path / "sessions", at, took, kind=Kind.CAPTURED, threads=session)
    predictor = Predictor(recording, ReplayOptions(targets=("/dev/sdx",), mode="think"))
    at, took, _ = sessions_on(1.0, seed=2)
    facts = Replay(mode="think", targets=[TargetFacts("/dev/sdx")])
    predictor.learn(record(tmp_path / "step", at, took, replay=facts), 1.0)
    said = predictor.predict(2.0)
    assert said.refused == ""
    truth = sessions_on(2.0, seed=5)[1]
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        known = getattr(said, f"response_ns_{name}")
        assert known.low <= np.quantile(truth, share) <= known.high
        assert known.high < 4 * known.low, "an interval of everything says nothing"


def test_a_load_that_meets_more_in_flight_than_was_measured_is_refused(source, tmp_path):
    """Four servers of 1 ms carry 4,000 a second; at 16x 8,000 come."""
    recording, at = source
    predictor = Predictor(recording, ReplayOptions(targets=("/dev/sdx",)))
    predictor.learn(step_of(tmp_path, at, 1.0), 1.0)
    said = predictor.predict(16.0)
    assert (said.response_ns_p50, said.response_ns_p99) == (None, None)
    assert "more in flight, than was measured" in said.refused


def test_the_wall_lies_where_the_servers_are_full(source, tmp_path):
    """Once both sides of it were played: 4,000 a second are 8x."""
    recording, at = source
    predictor = Predictor(recording, ReplayOptions(targets=("/dev/sdx",)))
    for scale in (1.0, 2.0, 4.0, 16.0):
        predictor.learn(step_of(tmp_path, at, scale, repeat=int(scale)), scale)
    assert predictor.wall(4.0, 16.0) == pytest.approx(8.0, rel=0.15)


def test_before_the_first_step_nothing_is_said(source):
    assert (
        Predictor(source[0], ReplayOptions(targets=("/dev/sdx",))).predict(2.0).refused
        == "nothing was played"
    )


def test_another_mix_than_was_tested_is_refused(tmp_path):
    at = arrivals()
    model = fit([step_of(tmp_path, at, scale, seed=seed) for scale, seed in ((1.0, 1), (2.0, 2))])
    run = run_of(step_of(tmp_path, at, 1.0, seed=3))
    assert predict(model, run).response_ns_p50 is not None
    run.op[: COUNT // 2] = 1
    assert "50 % of the I/Os are reads" in predict(model, run).refused


def test_a_model_without_tests_has_no_intervals(tmp_path):
    at = arrivals()
    with pytest.raises(IotraceError, match="no intervals"):
        predict(fit([step_of(tmp_path, at, 1.0)]), run_of(step_of(tmp_path, at, 2.0)))


def test_nine_in_ten_intervals_hold_what_comes_next():
    """Ratios that are log-normal: the interval from eight of them holds the ninth as often as it says."""
    random = np.random.default_rng(2)
    held = 0
    for _ in range(2000):
        *known, following = np.exp(random.normal(0, 0.3, 9))
        low, high = ratio_interval(known)
        held += low <= following <= high
    assert held / 2000 == pytest.approx(0.9, abs=0.025)


def loop(folder, outstanding, rate, size=8192):
    """A closed loop on a device that takes 0.2 ms, behind a cap that lets so many go at the start of every 100 ms."""
    place = np.arange(round(rate / 10))
    ends = np.concatenate(
        [number * 100_000_000 + (1 + place // outstanding) * 200_000 for number in range(50)]
    )
    issued = np.concatenate([np.zeros(outstanding, np.int64), ends[:-outstanding]])
    facts = ClosedLoop(
        loop="closed", cell=Cell("random", 1.0, size, outstanding), targets=[TargetFacts("/dev/sdx")]
    )
    return record(folder / f"loop {outstanding} {size}", issued, ends - issued, replay=facts, size=size)


def test_a_cap_and_its_slices_are_told_from_the_device(tmp_path):
    """The same rate from runs of 1 to 8 in flight and two sizes: a cap of I/Os. What it holds is no service."""
    recordings = [
        loop(tmp_path, outstanding, 1000, size) for outstanding in (1, 2, 8) for size in (8192, 65536)
    ]
    (limit,) = caps([run_of(one) for one in recordings])
    assert (limit.ops, limit.mb_per_s) == ("read", None)
    assert limit.iops == pytest.approx(1000, rel=0.01)
    assert limit.slice_ms == pytest.approx(100)
    model = fit(recordings)
    slowest = max(max(cell.quantiles_us) for cell in model.disks[0].service.cells)
    assert slowest < 10_000


def test_runs_that_come_to_different_rates_show_no_cap(tmp_path):
    at = arrivals()
    runs = [run_of(step_of(tmp_path, at, scale)) for scale in (1.0, 2.0)]
    assert caps(runs) == ()
    assert held_out(runs, "x").runs == 2


def test_a_recording_too_large_to_plan_in_time_is_refused(source, tmp_path):
    recording, at = source
    recording.manifest.rows["io"] = 20_000_000
    predictor = Predictor(recording, ReplayOptions(targets=("/dev/sdx",)))
    predictor.learn(step_of(tmp_path, at, 1.0), 1.0)
    assert predictor.predict(2.0).refused == "too many I/Os were recorded to predict in time"
    assert predictor.wall(1.0, 8.0) is None
