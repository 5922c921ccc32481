"""The planted sweeps keep the laws they are planted by."""

import math

import numpy as np
import pytest

from iotrace.schemas import Recording, validate

from ..planted_truth import sweeps
from ..planted_truth.devices import Bucketed, OneServer, Servers, SlcCache
from ..planted_truth.laws import TokenBucket, erlang_c, many_servers, md1_mean_s, mmc_mean_s, one_server
from ..planted_truth.loads import ARRIVALS, Mix, arrivals, poisson
from ..planted_truth.scoring import headroom_is_false, holds, knee_is_false, share_that_holds

PAGES = Mix(1.0)


def served(device, rate, seconds, seed=1, mix=PAGES):
    rng = np.random.default_rng(seed)
    at = poisson(rng, rate, seconds)
    is_read, size = mix.draw(rng, len(at))
    return at, size, device.serve(rng, at, is_read, size)


def test_one_server_is_the_queue_worked_by_hand():
    at, service = np.array([0.0, 1.0, 1.5, 9.0]), np.array([2.0, 1.0, 1.0, 0.5])
    assert one_server(at, service).tolist() == [2.0, 3.0, 4.0, 9.5]
    assert one_server(at, service, free_at_s=5.0).tolist() == [7.0, 8.0, 9.0, 9.5]
    assert many_servers(at, service, [0.0, 0.0]).tolist() == [2.0, 2.0, 3.0, 9.5]


def test_erlang_c_of_one_server_is_its_utilisation():
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    # A published value: 2 servers at 1 erlang wait with probability 1/3.
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("servers", [1, 4])
def test_mean_response_of_many_servers_is_erlangs(share, servers):
    rate = share * servers / 0.004
    at, _, ends = served(Servers(0.004, servers), rate, 200_000 / rate)
    assert (ends - at).mean() == pytest.approx(mmc_mean_s(rate, 0.004, servers), rel=0.05)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_mean_response_of_one_server_is_pollaczeks(share):
    at, _, ends = served(OneServer(0.001), share * 1000, 300)
    assert (ends - at).mean() == pytest.approx(md1_mean_s(share * 1000, 0.001), rel=0.05)


def test_mean_doubles_at_two_thirds_of_one_server_and_half_of_an_exponential_one():
    assert OneServer(0.001).mean_doubles_iops(PAGES) == pytest.approx(1000 * 2 / 3)
    assert Servers(0.001, 1).mean_doubles_iops(PAGES) == pytest.approx(500)


@pytest.mark.parametrize("window_s", [0.05, 0.5, 5.0])
def test_no_window_passes_more_than_the_rate_and_the_burst(window_s):
    bucket = TokenBucket(2000, 2000)
    at = poisson(np.random.default_rng(1), 3500, 20)
    passed = bucket.admit(at, np.ones(len(at)))
    in_window = np.searchsorted(passed, passed + window_s, side="left") - np.arange(len(passed))
    assert in_window.max() <= 2000 * window_s + 2000 + 1
    assert (passed >= at).all()


def test_credits_last_as_long_as_they_should():
    # 3,000/s on 2,000/s with 2,000 saved: nothing waits for two seconds, then the queue grows by 1,000/s.
    at = np.arange(0, 10, 1 / 3000)
    waited = TokenBucket(2000, 2000).admit(at, np.ones(len(at))) - at
    assert at[np.argmax(waited > 1e-3)] == pytest.approx(2.0, abs=0.02)
    assert waited[-1] == pytest.approx((10 - 2) * 1000 / 2000, rel=0.01)


def test_a_bucket_refills_while_the_disk_rests():
    bucket = TokenBucket(2000, 4000)
    at = np.arange(0, 10, 1 / 3000)
    passed = bucket.admit(at, np.ones(len(at)))
    assert bucket.tokens(passed[-1]) == pytest.approx(0, abs=2)
    assert bucket.tokens(passed[-1] + 1) == pytest.approx(2000, abs=2)
    assert bucket.tokens(passed[-1] + 5) == 4000


def test_a_write_cache_takes_its_size_at_once_and_then_what_drains():
    mix = Mix(0.0)
    device = Bucketed(1e-4, 0.0, TokenBucket(8192e3, 8192e3), 1e6, "write_bytes")
    _, size, ends = served(device, 3000, 10, mix=mix)
    written = np.cumsum(size)
    assert (written <= 8192e3 * (1 + ends) + 8192).all()
    assert written[-1] / ends[-1] == pytest.approx(8192e3, rel=0.12)


def test_slow_cells_take_over_when_the_fast_ones_are_full_and_recover_in_rest():
    mix = Mix(0.0)
    device = SlcCache(1e-4, 0.0, 80e6, 80e6, 8.192e6, 40e6)
    at, size, ends = served(device, 5000, 10, mix=mix)
    took = ends - at
    full = int(np.searchsorted(np.cumsum(size), 80e6))
    assert took[: full - 1].max() < 0.01 < took[full + 200]
    assert np.diff(ends[full + 10 :]).mean() == pytest.approx(1e-3, rel=0.01)
    assert device.credits(ends[-1]) < 8192
    assert device.credits(ends[-1] + 2.0) == pytest.approx(40e6, abs=2e4)  # a second of rest, then 40 MB/s


@pytest.mark.parametrize("kind", ARRIVALS)
@pytest.mark.parametrize("rate", [300, 2500])
def test_arrivals_come_at_the_rate(kind, rate):
    at = arrivals(np.random.default_rng(3), kind, rate, 20.0)
    assert (np.diff(at) >= 0).all()
    assert len(at) / at[-1] == pytest.approx(rate, rel=0.05)
    assert at[-1] >= 19


def test_bundled_shape_is_the_same_at_every_load():
    slow, fast = (arrivals(np.random.default_rng(3), "bundled", rate, 20.0) for rate in (500, 1000))
    assert fast[: len(slow)] * 2 == pytest.approx(slow)


def test_compressed_bursts_are_no_poisson_process():
    gaps = np.diff(arrivals(np.random.default_rng(3), "bursty", 1000, 60.0))
    assert gaps.std() / gaps.mean() > 1.3


FAMILIES = sweeps.WITH_CREDITS | sweeps.SATURATING | {"flat": sweeps.flat, "short": sweeps.short}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sweep_is_whole_and_keeps_littles_law(family, tmp_path):
    sweep, truth = FAMILIES[family](tmp_path / "s.iotrace", 5, step_seconds=5.0)
    assert [step.scale for step in sweep.steps] == [step.scale for step in truth.steps]
    for recording, told in zip(sweep.recordings(), truth.steps, strict=True):
        assert validate(recording.path) == []
        io = recording.read("io")
        issued, ended = io["issued_ns"].to_numpy(), io["completed_ns"].to_numpy()
        assert (issued >= io["intended_ns"].to_numpy()).all()
        assert len(issued) / told.seconds == pytest.approx(told.offered_iops)
        edges = np.concatenate([issued, ended])
        steps = np.concatenate([np.ones(len(issued), int), -np.ones(len(ended), int)])
        order = np.lexsort((steps, edges))
        in_flight = np.cumsum(steps[order])
        span = edges[order[-1]] - edges[order[0]]
        mean_in_flight = (in_flight[:-1] * np.diff(edges[order])).sum() / span
        assert mean_in_flight == pytest.approx(len(issued) / span * (ended - issued).mean(), rel=1e-6)
        assert in_flight.max() <= 1024 + 5
        assert recording.manifest.replay.generator_limited is False
    starts = [recording.manifest.clock.start_utc_ns for recording in sweep.recordings()]
    ends = [
        one + recording.manifest.window_end_ns
        for one, recording in zip(starts, sweep.recordings(), strict=True)
    ]
    assert all(end < start for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.parametrize("seconds", [1, 2, 5])
def test_full_buckets_carry_a_load_that_empty_ones_do_not(seconds, tmp_path):
    settings = {
        "credits_seconds": seconds,
        "step_seconds": 10.0,
        "arrival": "poisson",
        "loads": [0.5, 2.0, 1.3, 0.9],
    }
    _, full = sweeps.token_bucket(tmp_path / "full.iotrace", 1, refill="full", **settings)
    assert [step.credits_before for step in full.steps] == [2000 * seconds] * 4
    # Two seconds' credits carry 1.3x for 6.7 s, five seconds' for 16.7 s.
    assert [step.backlog_s > 0.1 for step in full.steps] == [False, True, seconds < 3, False]
    _, emptied = sweeps.token_bucket(tmp_path / "back.iotrace", 1, refill="back_to_back", **settings)
    assert emptied.steps[2].credits_before == pytest.approx(2000 * min(seconds, 2), abs=5)  # saved in 2 s
    assert emptied.shows_saturation
    assert emptied.knee_between_iops[0] < 2000 < emptied.knee_between_iops[1]


def test_what_credits_hide_is_called_so(tmp_path):
    _, truth = sweeps.token_bucket(
        tmp_path / "s.iotrace", 1, credits_seconds=30, step_seconds=5.0, refill="full", arrival="poisson",
        loads=[0.5, 1.5],
    )  # fmt: skip
    assert truth.credits_hide_it
    assert not truth.shows_saturation
    assert headroom_is_false(3000, truth)
    assert not headroom_is_false(3000, truth, names_credits=True)
    assert not headroom_is_false(1000, truth)
    assert knee_is_false((2500, 3100), truth)


def test_the_disks_own_counters_show_what_others_wrote(tmp_path):
    sweep, truth = sweeps.disturbed(tmp_path / "s.iotrace", 2, step=1)
    for recording, told in zip(sweep.recordings(), truth.steps, strict=True):
        io = recording.read("io")
        (looks,) = recording.manifest.replay.device_counters.values()
        moved = looks.after.read_bytes - looks.before.read_bytes
        moved += looks.after.written_bytes - looks.before.written_bytes
        own = int(io["size_bytes"].to_numpy().astype(np.int64).sum())
        assert (moved > 3 * own) == (told.not_judged == "disturbed")
        assert told.not_judged or moved == own
    response = [p99_response_ns(recording) for recording in sweep.recordings()]
    assert response[1] > 3 * max(response[0], response[2])


def p99_response_ns(recording: Recording) -> float:
    io = recording.read("io")
    return float(np.quantile(io["completed_ns"].to_numpy() - io["intended_ns"].to_numpy(), 0.99))


def test_a_late_generator_is_marked_and_only_where_it_is_late(tmp_path):
    sweep, truth = sweeps.generator_limited(tmp_path / "s.iotrace", 4)
    marked = [recording.manifest.replay.generator_limited for recording in sweep.recordings()]
    assert marked == [step.not_judged == "generator-limited" for step in truth.steps]
    assert True in marked
    assert False in marked


@pytest.mark.parametrize("capacity", [900, 800, 500])
def test_overload_grows_by_what_is_not_carried(capacity, tmp_path):
    recording, told, _ = sweeps.overload(
        tmp_path / "s.iotrace", 1, capacity=capacity, step_seconds=20.0, arrival="poisson"
    )
    assert told.unanswered == pytest.approx((told.offered_iops - capacity) * 20, abs=60)
    assert recording.manifest.window_end_ns / 1e9 == pytest.approx(
        20 * told.offered_iops / capacity, rel=0.01
    )


def test_short_sweeps_and_flat_devices_have_no_knee(tmp_path):
    for seed in range(6):
        _, truth = sweeps.short(tmp_path / f"{seed}.iotrace", seed, step_seconds=5.0)
        assert truth.knee_between_iops is None
        assert knee_is_false((truth.sustained_iops * 0.6, truth.sustained_iops), truth)
        assert not knee_is_false(None, truth)
    _, truth = sweeps.flat(tmp_path / "flat.iotrace", 1)
    assert math.isinf(truth.sustained_iops)
    assert not truth.shows_saturation


def test_intervals_are_scored_on_whether_they_hold_the_truth():
    assert holds((1, 2), 2)
    assert not holds((1, 2), 2.1)
    assert not holds(None, 2)
    assert share_that_holds([((1, 2), 1.5), (None, 1), ((1, 2), 3), ((0, 9), 3)]) == 0.5
