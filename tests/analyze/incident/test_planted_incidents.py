"""The planted hosts keep the laws they are planted by, and their counters add up to their I/Os."""

import math

import numpy as np
import pyarrow.compute as pc
import pytest

from iotrace.schemas import validate

from ..planted_truth import counters, incidents
from ..planted_truth.hosts import Disk, Host, normal_ios
from ..planted_truth.incidents import CALM, FORMS, INCIDENTS, right_layer
from ..planted_truth.loads import Mix
from ..planted_truth.scoring import common_s, false_windows, is_found, union

SHORT = {"iops": 120.0}


def took_s(ios, layer):
    return ios.ends_s - ios.started_s(layer)


@pytest.mark.parametrize("utilisation", [0.2, 0.5, 0.8])
def test_latency_follows_the_mean_of_processor_sharing(utilisation):
    disk = Disk("0 D:", "D:", "D:\\a.mdf", "data", "a", Mix(1.0), 800, 1e-3, 1e-3, math.inf, utilisation)
    ios = normal_ios(np.random.default_rng(1), disk, 300, noise=0.0, burstiness=0.0, sigma=0.2)
    assert took_s_of_device(ios) == pytest.approx(1e-3 / (1 - utilisation) * math.exp(0.2**2 / 2), rel=0.01)


def took_s_of_device(ios):
    ios.settle()
    return took_s(ios, "device").mean()


@pytest.mark.parametrize("layer", ["filesystem", "block", "device"])
def test_mean_in_flight_is_rate_times_mean_latency(layer):
    host, truth = incidents.quiet(3, seconds=300, devices=1, **SHORT)
    (ios,) = host.devices
    at = np.array([0.0, truth.seconds + 60.0])
    both = [counters.totals(host, 0, reads=reads, layer=layer, edges_s=at) for reads in (True, False)]
    count = len(ios.at_s)
    mean_in_flight = sum(one.in_flight_s[0] for one in both) / at[1]
    assert mean_in_flight == pytest.approx(count / at[1] * took_s(ios, layer).mean(), rel=1e-9)
    assert sum(one.ios[0] for one in both) == count
    assert sum(one.latency_s[0] for one in both) == pytest.approx(took_s(ios, layer).sum())


@pytest.mark.parametrize("family", INCIDENTS | CALM)
def test_every_form_of_every_family_is_a_whole_recording(family, tmp_path):
    host, truth = (INCIDENTS | CALM)[family](11, iops=30.0)
    assert truth.is_incident == (family in INCIDENTS)
    assert all(0 <= start < end <= truth.seconds for start, end in truth.spans)
    for form in FORMS:
        recording = incidents.write(tmp_path / f"{form}.iotrace", host, form)
        assert validate(recording.path) == []
        assert recording.manifest.window_end_ns == truth.seconds * 1_000_000_000
        assert (recording.row_count("io") > 0) == (form == "ios")


@pytest.mark.parametrize("interval_s", [5.0, 15.0])
def test_counters_are_sums_of_the_ios(interval_s, tmp_path):
    host, _ = incidents.jump(7, devices=2, **SHORT)
    recording = incidents.write(tmp_path / "ios.iotrace", host)
    io = recording.read("io")
    block = io.filter(pc.and_(pc.equal(io["layer"].cast("string"), "block"), pc.is_valid(io["completed_ns"])))
    shown = counters.perfmon(host, interval_s)
    edges_ns = np.round(counters.edges(host, interval_s) * 1e9).astype(np.int64)
    for number, name in enumerate(("0 D:", "1 L:")):
        for word, op in (("Read", "read"), ("Write", "write")):
            mine = block.filter(
                pc.and_(pc.equal(block["device_id"], number), pc.equal(block["op"].cast("string"), op))
            )
            done, issued = mine["completed_ns"].to_numpy(), mine["issued_ns"].to_numpy()
            ios, _ = np.histogram(done, edges_ns)
            spent_ns, _ = np.histogram(done, edges_ns, weights=done - issued)
            np.testing.assert_allclose(shown[name, f"Disk {word}s/sec"] * interval_s, ios, atol=1)
            mean = np.divide(spent_ns, ios, out=np.zeros(len(ios)), where=ios > 0)
            some = ios > 20
            np.testing.assert_allclose(
                shown[name, f"Avg. Disk sec/{word}"][some] * 1e9, mean[some], rtol=1e-3, atol=1e3
            )
    idle = shown["0 D:", "% Idle Time"]
    assert idle.min() >= -1e-9
    assert idle.max() <= 100


def test_total_is_the_sum_of_the_disks():
    host, _ = incidents.quiet(4, seconds=300, devices=3, **SHORT)
    shown = counters.perfmon(host, 15.0)
    for counter in (
        "Disk Reads/sec",
        "Disk Write Bytes/sec",
        "Avg. Disk Queue Length",
        "Current Disk Queue Length",
    ):
        disks = sum(shown[name, counter] for name in ("0 D:", "1 L:", "2 T:"))
        np.testing.assert_allclose(shown["_Total", counter], disks)


def test_a_mean_over_nothing_is_shown_as_zero_and_means_nothing(tmp_path):
    host, truth = incidents.freeze(3, length_s=30.0, all_devices=True, layer="device", devices=1, **SHORT)
    rows = incidents.write(tmp_path / "p.iotrace", host, "perfmon 5 s").read("counters").to_pylist()
    ((start, end),) = truth.spans
    inside = [row for row in rows if start + 5 < row["at_ns"] / 1e9 < end - 1 and row["instance"] == "0 D:"]
    means = [row for row in inside if row["counter"] == "Avg. Disk sec/Read"]
    assert {(row["value"], row["metric"]) for row in means} == {(0.0, None)}
    queue = [row["value"] for row in inside if row["counter"] == "Current Disk Queue Length"]
    assert min(queue) == max(queue) >= 16
    after = [
        row["value"] for row in rows if row["at_ns"] / 1e9 > end and row["counter"] == "Avg. Disk sec/Read"
    ]
    assert after[0] > 1e9


def test_snapshots_of_files_count_the_stalls_in_whole_ms():
    host, _ = incidents.quiet(4, seconds=300, devices=1, **SHORT)
    totals = counters.dmv_totals(host, 15.0)[0]
    (ios,) = host.devices
    reads = ios.is_read & (ios.ends_s <= 300)
    assert totals["reads"][-1] - 1000 == reads.sum()
    spent_ms = (ios.ends_s - ios.at_s)[reads].sum() * 1e3
    assert totals["read_stall_ms"][-1] - 5000 == math.floor(spent_ms)


@pytest.mark.parametrize("layer", ["filesystem", "block"])
def test_a_stall_above_the_device_leaves_the_device_as_it_was(layer):
    host, truth = incidents.stall_above(5, layer=layer, sudden=True, **SHORT)
    assert truth.layer == layer
    below = {"filesystem": ("block", "device"), "block": ("device",)}[layer]
    for ios in host.devices:
        for name in below:
            np.testing.assert_allclose(took_s(ios, name), ios.normal_s(name), rtol=1e-6, atol=1e-9)
    assert right_layer(truth, "ios") == layer
    assert right_layer(truth, "perfmon 5 s") == (None if layer == "filesystem" else "block")
    assert right_layer(truth, "dmv 15 s") == "sql"


@pytest.mark.parametrize("family", ["ramp", "creep", "jump", "stall_above"])
@pytest.mark.parametrize("seed", range(4))
def test_the_planted_factor_is_what_the_ios_show(family, seed):
    host, truth = INCIDENTS[family](seed, iops=100.0)
    for ios in host.devices:
        hit = ios.disk.name in truth.devices
        chosen = ios.is_read if truth.op == "read" else np.ones(len(ios.at_s), bool)
        factor = took_s(ios, truth.layer) / ios.normal_s(truth.layer)
        (start, end), built = truth.spans[0], truth.built_s
        before = ios.at_s < start
        np.testing.assert_allclose(factor[before], 1, rtol=1e-6)
        near = (
            (ios.at_s >= built) & (ios.at_s < min(end, built + 5))
            if truth.shape != "creep"
            else ios.at_s > 0.99 * end
        )
        if hit:
            assert factor[near & chosen].max() == pytest.approx(truth.factor, rel=0.02)
            assert (
                took_s(ios, truth.layer)[near & chosen].mean()
                > 1.2 * ios.normal_s(truth.layer)[near & chosen].mean()
            )
        np.testing.assert_allclose(factor[~chosen | np.full(len(chosen), not hit)], 1, rtol=1e-6)


@pytest.mark.parametrize("layer", ["filesystem", "block", "device"])
def test_nothing_ends_in_a_freeze_and_all_of_it_after(layer):
    host, truth = incidents.freeze(2, layer=layer, all_devices=True, **SHORT)
    ((start, _),) = truth.spans
    for ios in host.devices:
        grace = ios.normal_s("filesystem").max()  # what had passed the layer already ends as ever
        released = np.sort(ios.ends_s[ios.ends_s > start + (0 if layer == "device" else grace)])
        assert released[0] - start >= 4.9 - grace
        assert np.isfinite(ios.ends_s).all()
        waiting = ios.at_s[(ios.at_s > start) & (ios.at_s < released[0])]
        assert len(waiting) <= 256


@pytest.mark.parametrize("layer", ["block", "device"])
def test_a_hang_is_never_answered(layer, tmp_path):
    host, truth = incidents.hang(6, last_s=30.0, layer=layer, all_devices=True, **SHORT)
    recording = incidents.write(tmp_path / "h.iotrace", host)
    io = recording.read("io")
    block = io.filter(pc.equal(io["layer"].cast("string"), "block"))
    open_ = block.filter(pc.is_null(block["completed_ns"]))
    assert open_.num_rows == recording.manifest.quality.unpaired_issues >= len(host.devices)
    ((start, _),) = truth.spans
    assert pc.max(block["completed_ns"]).as_py() / 1e9 <= start + host.devices[0].normal_device_s.max()
    asked = io.filter(pc.and_(pc.equal(io["layer"].cast("string"), "device"), pc.is_null(io["completed_ns"])))
    assert (asked.num_rows > 0) == (layer == "device")


def test_a_quiet_recording_is_cut_off_like_any_other(tmp_path):
    recording = incidents.write(tmp_path / "q.iotrace", incidents.quiet(1, seconds=300)[0])
    assert recording.manifest.quality.unpaired_issues < 20
    assert recording.manifest.quality.verdict == "good"


@pytest.mark.parametrize("broken", ["", "longer", "slower", "between"])
def test_checkpoints_recur_and_only_the_odd_one_is_wrong(broken):
    host, truth = incidents.checkpoints(9, broken=broken, period_s=60.0, **SHORT)
    data = host.devices[0]
    assert np.diff(truth.period_starts_s) == pytest.approx(60, abs=5)
    slower = took_s(data, "device") > 1.3 * data.normal_device_s
    allowed = [*truth.explained, *truth.spans]
    in_one = np.zeros(len(slower), bool)
    for start, end in allowed:
        in_one |= (data.at_s >= start) & (data.at_s < end)
    assert not (slower & ~in_one).any()
    assert not (slower & ~data.is_read).any()
    assert bool(truth.spans) == bool(broken)
    first = truth.explained[0]
    inside = (data.at_s >= first[0]) & (data.at_s < first[1])
    assert (~data.is_read[inside]).sum() > 3 * (~data.is_read).sum() / truth.seconds * (first[1] - first[0])


def test_the_same_seed_plants_the_same():
    (first, one), (second, other) = (incidents.ramp(5, **SHORT) for _ in range(2))
    assert one == other
    np.testing.assert_array_equal(first.devices[0].ends_s, second.devices[0].ends_s)


@pytest.mark.parametrize("family", CALM)
def test_calm_hosts_show_no_layer_above_its_normal_but_for_checkpoints(family):
    host, truth = CALM[family](2, **SHORT)
    assert isinstance(host, Host)
    for ios in host.devices:
        slower = took_s(ios, "block") > 1.01 * ios.normal_s("block") + 1e-7
        for start, end in truth.explained:
            slower &= ~((ios.at_s >= start - 1) & (ios.at_s < end + 1))
        assert not slower.any()


def test_scores():
    _, truth = incidents.ramp(5, build_s=60.0, back=False, **SHORT)
    ((start, end),) = truth.spans
    assert is_found([(start + 30, end)], truth)
    assert is_found([(start + 65, start + 70)], truth)
    assert not is_found([(0, start - 20)], truth)
    assert not is_found([], truth)
    assert not is_found([(0, truth.seconds)], incidents.jump(5, length_s=20.0, stays=False, **SHORT)[1])
    assert false_windows([(0, 10), (start, end)], truth) == [(0, 10)]
    assert common_s([(0, 5), (8, 10)], [(4, 9)]) == 2
    assert union([(3, 4), (0, 1), (1, 2)]) == [(0, 2), (3, 4)]
