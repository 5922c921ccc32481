"""Where the time goes, by layer: planted shares are found and covered, and clocks that cannot be right are named."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.signal import lfilter

from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.compare.waterfall import _steps, waterfall, waterfall_with_intervals
from iotrace.analyze.stats.histogram import Histograms

MS = 1_000_000
SECOND = 1_000_000_000
SLOTS = 240
ADDED_NS = {"filesystem": 20_000, "block": 130_000, "device": 350_000}
"""Mean time that each layer adds to the one below: 4, 26 and 70 % of what the file system sees."""


def _latencies(seed, count=6000, correlation=0.8):
    """Times, and per layer the latency of every I/O: exponential parts, slow moments in common."""
    source = np.random.default_rng(seed)
    times = np.sort(source.integers(0, 20 * SECOND, count))
    noise = source.normal(0, np.sqrt(1 - correlation**2), count)
    slow = np.exp(0.6 * lfilter([1.0], [1.0, -correlation], noise) - 0.18)
    total, found = np.zeros(count), {}
    for layer in ("device", "block", "filesystem"):
        total = total + ADDED_NS[layer] * slow * source.exponential(1, count)
        found[layer] = np.round(total).astype(np.int64)
    return times, found


def _slots(times, latencies):
    slot = times * SLOTS // (20 * SECOND)
    names = ("layer", "op", "slot", "io_count", "latency_sum_ns")
    rows = [
        (layer, "read", index, count, total)
        for layer, latency in latencies.items()
        for index, (count, total) in enumerate(
            zip(np.bincount(slot, minlength=SLOTS), np.bincount(slot, latency, SLOTS), strict=True)
        )
        if count
    ]
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def _covered(trials):
    """How often the interval of each layer's share holds the planted one."""
    hits = dict.fromkeys(ADDED_NS, 0)
    for trial in range(trials):
        steps = waterfall_with_intervals(_slots(*_latencies(trial)), SLOTS, np.random.default_rng(trial))
        for step in steps:
            low, high = step.share_interval
            hits[step.layer] += low <= ADDED_NS[step.layer] / sum(ADDED_NS.values()) <= high
    return {layer: count / trials for layer, count in hits.items()}


@pytest.mark.slow
def test_intervals_of_layer_shares_cover_93_to_97_percent_of_1000_trials():
    covered = _covered(1000)
    assert all(0.93 <= share <= 0.97 for share in covered.values()), covered


def test_intervals_of_layer_shares_cover_what_chance_allows():
    covered = _covered(100)
    assert all(0.88 <= share <= 0.999 for share in covered.values()), covered


def test_a_load_that_changes_says_nothing_against_means_that_do_not():
    """Every I/O of a layer takes as long as any other: how many there are in a slot of time makes no uncertainty."""
    times, _ = _latencies(1)
    told = {"block": np.full(len(times), 500_000), "device": np.full(len(times), 300_000)}
    block, device = waterfall_with_intervals(_slots(times, told), SLOTS, np.random.default_rng(1))
    assert block.mean_interval_ns == pytest.approx((500_000, 500_000), rel=1e-9)
    assert device.share_interval == pytest.approx((0.6, 0.6), rel=1e-9)


def test_of_ios_that_took_no_time_no_layer_has_a_share():
    times, _ = _latencies(1)
    told = {"block": np.zeros(len(times), dtype=np.int64), "device": np.zeros(len(times), dtype=np.int64)}
    for step in waterfall_with_intervals(_slots(times, told), SLOTS, np.random.default_rng(1)):
        assert (step.mean_ns, step.mean_interval_ns) == (0, (0, 0))
        assert (step.share, step.share_interval, step.problem) == (None, None, None)


def test_a_mean_that_may_be_none_at_all_has_no_interval_of_shares():
    """The means are 100 and 50; with an error greater than it the upper one would be less than nothing."""
    errors = np.stack([np.linspace(-100.5, 100.5, 200)] * 2)
    uncertain = _steps("read", [("block", 10, 1000), ("device", 10, 500)], errors)
    assert [step.share_interval for step in uncertain] == [None, None]
    surer = _steps("read", [("block", 10, 1000), ("device", 10, 500)], errors / 2)
    assert all(step.share_interval is not None for step in surer)


def test_where_nothing_was_read_the_writes_are_told():
    columns = {"layer": ["block"] * 2, "op": ["write"] * 2, "slot": [0, 1], "io_count": [5, 5]}
    table = pa.table(columns | {"latency_sum_ns": [50, 70]})
    (step,) = waterfall_with_intervals(table, 2, np.random.default_rng(0))
    assert (step.op, step.io_count, step.mean_ns) == ("write", 10, 12)


def test_a_layer_that_took_no_time_has_no_share_of_what_did():
    steps = _steps("read", [("block", 10, 100), ("device", 10, 0)], None)
    assert [step.share for step in steps] == [1.0, 0.0]


def test_planted_shares_are_found_in_a_recording(make_recording):
    times, latencies = _latencies(1, count=12_000)
    rows = {
        name: np.concatenate(columns)
        for name, columns in {
            "issued_ns": [times] * 3,
            "completed_ns": [times + latencies[layer] for layer in ADDED_NS],
            "layer": [np.full(len(times), layer) for layer in ADDED_NS],
        }.items()
    }
    recording = make_recording(rows, window_ns=20 * SECOND)
    steps = compare(recording, recording).a.waterfall
    assert [step.layer for step in steps] == list(ADDED_NS)
    assert sum(step.share for step in steps) == pytest.approx(1)
    assert steps[0].mean_ns == pytest.approx(latencies["filesystem"].mean())
    for step in steps:
        low, high = step.share_interval
        assert low < ADDED_NS[step.layer] / 500_000 < high
        assert high - low < 0.05
        assert step.problem is None


def test_of_whole_histograms_reads_come_before_writes_and_each_from_the_top_layer_down():
    """Reads take 5 us in the file system, of which the block layer below has 4; writes are seen by that one alone."""
    seen = [("block", "write", 9_000, 2), ("block", "read", 4_000, 10), ("filesystem", "read", 5_000, 10)]
    table = pa.Table.from_pylist(
        [
            {"layer": layer, "device_id": 0, "role": "data", "op": op, "bucket_ns": taken, "io_count": count,
             "latency_sum_ns": taken * count, "latency_max_ns": taken}
            for layer, op, taken, count in seen
        ]
    )  # fmt: skip
    steps = waterfall(Histograms(table), ["block", "filesystem"])
    assert [(step.op, step.layer, step.mean_ns, step.residual_ns) for step in steps] == [
        ("read", "filesystem", 5_000, 1_000), ("read", "block", 4_000, None), ("write", "block", 9_000, None),
    ]  # fmt: skip


def test_it_adds_up_and_a_negative_residual_is_a_clock_error(make_recording):
    def recording(device_ns):
        rows = [
            {"issued_ns": i * MS, "completed_ns": i * MS + length, "layer": layer}
            for i in range(100)
            for layer, length in (("filesystem", 900), ("block", 700), ("device", device_ns))
        ]
        return make_recording(rows, window_ns=SECOND)

    found = compare(recording(300), recording(800))
    assert [(s.layer, s.mean_ns, s.residual_ns, s.problem) for s in found.a.waterfall] == [
        ("filesystem", 900, 200, None),
        ("block", 700, 400, None),
        ("device", 300, None, None),
    ]
    assert [s.residual_ns for s in found.b.waterfall] == [200, -100, None]
    assert [s.share for s in found.b.waterfall] == pytest.approx([200 / 900, -100 / 900, 800 / 900])
    assert found.b.waterfall[1].residual_interval_ns == (-100, -100)
    assert found.b.waterfall[1].problem.startswith("clock error")


def test_layers_that_saw_different_ios_are_not_subtracted_in_silence(make_recording):
    rows = [{"issued_ns": i * MS, "completed_ns": i * MS + 10, "layer": "filesystem"} for i in range(100)]
    rows += [{"issued_ns": i * MS, "completed_ns": i * MS + 900, "layer": "block"} for i in range(10)]
    found = compare(make_recording(rows), make_recording(rows))
    assert "not the same I/Os" in found.a.waterfall[0].problem
    assert found.a.waterfall[0].residual_interval_ns is None


def test_a_slow_request_that_was_split_is_no_clock_error(make_recording):
    """Found in a recording of a database: 37,123 reads became 37,235 for the device, whose mean was 4 µs higher."""
    rows = [
        {"issued_ns": i * MS, "completed_ns": i * MS + length, "layer": layer}
        for i in range(100)
        for layer, length in (("block", 110), ("device", 100))
    ]
    rows += [{"issued_ns": SECOND, "completed_ns": SECOND + 9000, "layer": "block"}]
    rows += [{"issued_ns": SECOND, "completed_ns": SECOND + 8900, "layer": "device"}] * 2
    step = compare(make_recording(rows), make_recording(rows)).a.waterfall[0]
    assert step.residual_ns < 0
    assert "split or merged" in step.problem
    assert "clock error" not in step.problem
