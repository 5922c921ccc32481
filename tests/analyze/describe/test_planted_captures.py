"""Planted merges and captures keep the sums they are planted by."""

import math

import numpy as np
import pyarrow.compute as pc
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

from ..planted_truth import counters, described, incidents, merges

FEW = {"iops": 120.0, "devices": 2, "seconds": 300}


def sums(recording, layer, op, window_s):
    """I/Os and mean latency of the recording's own counters within a window."""
    table = recording.read("counters")
    inside = pc.and_(
        pc.equal(table["layer"], layer),
        pc.and_(
            pc.greater(table["at_ns"], round(window_s[0] * 1e9)),
            pc.less_equal(table["at_ns"], round(window_s[1] * 1e9)),
        ),
    )
    rows = [row for row in table.filter(inside).to_pylist() if row["instance"] != "_Total"]
    iops = {(r["instance"], r["at_ns"]): r["value"] for r in rows if r["metric"] == f"{op}_iops"}
    lengths = {
        (r["instance"], r["at_ns"]): r["interval_ns"] / 1e9 for r in rows if r["metric"] == f"{op}_iops"
    }
    means = {(r["instance"], r["at_ns"]): r["value"] for r in rows if r["metric"] == f"{op}_latency_ns"}
    ios = {key: value * lengths[key] for key, value in iops.items()}
    return sum(ios.values()), sum(ios[key] * mean for key, mean in means.items()) / sum(
        ios[key] for key in means
    )


@pytest.mark.parametrize("op", ["read", "write"])
def test_counters_of_both_intervals_add_up_to_the_same_ios(op, tmp_path):
    recording, truth = merges.merged_recording(tmp_path / "m.iotrace", 3, **FEW)
    assert validate(recording.path) == []
    for layer in ("sql", "block"):
        ios, mean_ns = sums(recording, layer, op, truth.window_s)
        told = getattr(truth, layer)[op]
        assert ios == pytest.approx(told.ios, abs=0.5)
        assert mean_ns == pytest.approx(told.mean_ns, rel=1e-3)
    assert truth.same_ios
    assert truth.sql[op].ios == pytest.approx(truth.block[op].ios, abs=3)
    assert truth.above_block_ns[op] == pytest.approx(4e6, rel=0.02)


def test_the_text_files_say_what_the_rows_say(tmp_path):
    perfmon, dmv, truth = merges.counters_of_two_intervals(tmp_path / "t", 3, **FEW)
    for path, layer in ((perfmon, "block"), (dmv, "sql")):
        recording = import_files([path], tmp_path / f"{layer}.iotrace")
        for op in ("read", "write"):
            ios, mean_ns = sums(recording, layer, op, truth.window_s)
            told = getattr(truth, layer)[op]
            assert ios == pytest.approx(told.ios, abs=0.5)
            assert mean_ns == pytest.approx(told.mean_ns, rel=1e-3)


def test_another_programs_writes_are_counted_by_the_disk_alone(tmp_path):
    _, truth = merges.merged_recording(tmp_path / "m.iotrace", 3, another_program=True, **FEW)
    assert not truth.same_ios
    assert truth.block["write"].ios > 1.5 * truth.sql["write"].ios
    assert truth.block["read"].ios == pytest.approx(truth.sql["read"].ios, abs=3)


def test_looks_at_other_moments_narrow_the_window(tmp_path):
    _, _, truth = merges.counters_of_two_intervals(
        tmp_path / "t", 3, perfmon_first_s=20.0, dmv_first_s=4.0, **FEW
    )
    assert truth.window_s == (34.0, 289.0)


@pytest.mark.parametrize("gap_s", [3 * 365 * 86400, 3600, -150])
def test_sources_lie_as_far_apart_as_planted(gap_s, tmp_path):
    perfmon, dmv, together = merges.apart(tmp_path / "a", 3, gap_s=gap_s, **FEW)
    first, second = (
        import_files([path], tmp_path / f"{number}.iotrace").manifest
        for number, path in enumerate((perfmon, dmv))
    )
    ended = first.clock.start_utc_ns + first.window_end_ns
    assert (second.clock.start_utc_ns - ended) / 1e9 == pytest.approx(gap_s, abs=0.1)
    assert together == (gap_s < 0)


def test_flushes_are_no_load(tmp_path):
    recording, truth = described.flushes(tmp_path / "f.iotrace", 1)
    assert validate(recording.path) == []
    assert (truth.reads, truth.flushes) == (0, truth.writes)
    assert truth.gap_cv == pytest.approx(1, abs=0.03)
    issued = np.sort(recording.read("io")["issued_ns"].to_numpy())
    assert np.diff(issued).std() / np.diff(issued).mean() > 1.5  # what counting flushes would say


def test_failed_ios_are_in_flight_too(tmp_path):
    recording, truth = described.failures(tmp_path / "f.iotrace", 1)
    io = recording.read("io")
    assert pc.sum(pc.not_equal(io["error"], 0)).as_py() == truth.failed > 0.8 * truth.reads
    took = io["completed_ns"].to_numpy() - io["issued_ns"].to_numpy()
    assert truth.mean_in_flight == pytest.approx(took.sum() / recording.manifest.window_end_ns)
    good = io["error"].to_numpy() == 0
    assert took[good].sum() / recording.manifest.window_end_ns < truth.mean_in_flight / 50


@pytest.mark.parametrize("seed", range(5))
def test_the_busiest_window_lies_off_the_grid(seed, tmp_path):
    recording, truth = described.busiest_off_the_grid(tmp_path / "b.iotrace", seed)
    at = np.sort(recording.read("io")["issued_ns"].to_numpy()) / 1e9
    start, ios = truth.busiest[60.0]
    assert ios == ((at >= start) & (at < start + 60)).sum()
    on_grid = max(((at >= minute) & (at < minute + 60)).sum() for minute in range(0, 240, 60))
    assert ios > 1.1 * on_grid
    assert all(((at >= other) & (at < other + 60)).sum() <= ios for other in np.arange(0, 180, 0.25))


def test_the_fullest_window_worked_by_hand():
    assert described.fullest(np.array([0.0, 1.0, 1.5, 1.9, 5.0]), 1.0) == (1.0, 3)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_what_the_trace_lacks_the_disk_has_counted(share, tmp_path):
    recording, truth = described.gap_in_the_trace(tmp_path / "g.iotrace", 2, share=share)
    assert recording.manifest.quality.verdict == "good"
    table = recording.read("counters")
    counted = sum(row["value"] for row in table.to_pylist() if row["metric"] in {"read_iops", "write_iops"})
    assert counted - (truth.reads + truth.writes) == pytest.approx(truth.lost, abs=2)
    assert truth.lost == pytest.approx(share * 300 * 20, rel=0.1)


def test_a_hang_shows_in_perfmon_as_a_queue_and_not_in_what_ended():
    host, truth = incidents.hang(3, last_s=30.0, all_devices=True, layer="device", iops=100.0, devices=1)
    shown = counters.perfmon(host, 5.0)
    late = counters.edges(host, 5.0)[1:] > truth.spans[0][0] + 6
    assert shown["0 D:", "Disk Transfers/sec"][late].max() == 0
    assert shown["0 D:", "Current Disk Queue Length"][late].min() >= 16
    assert math.isclose(shown["0 D:", "% Idle Time"][late].max(), 0, abs_tol=1e-9)
