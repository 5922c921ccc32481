"""The knee on queues whose capacity is planted: a throttled device, M/D/1, M/M/1, and devices that never give in."""

import numpy as np
import pytest

from iotrace.analyze.knee import step as knee_step
from iotrace.analyze.knee.next_load import next_scale, summarise_step
from iotrace.analyze.knee.series import knee
from iotrace.analyze.present import plain
from iotrace.schemas import IotraceError

from . import knee_simulator as simulator

CAPACITY_IOPS = 2000
REFINED = [1, 2, 3, 3.5, 3.8, 4.2, 5, 8]


def throttled(random, arrival_s):
    return simulator.throttled(random, arrival_s, CAPACITY_IOPS)


def unthrottled(random, arrival_s):
    return simulator.throttled(random, arrival_s, None)


def deterministic_server(random, arrival_s):
    return simulator.first_come_first_served(arrival_s, np.full(len(arrival_s), 1 / CAPACITY_IOPS))


def exponential_server(random, arrival_s):
    service_s = random.exponential(1 / CAPACITY_IOPS, len(arrival_s))
    return simulator.first_come_first_served(arrival_s, service_s)


@pytest.mark.parametrize("scales", [REFINED, [1, 2, 4, 8], [1, 2, 3, 5]], ids=["refined", "doubling", "four"])
@pytest.mark.parametrize("arrivals", [simulator.poisson, simulator.bursty], ids=["poisson", "bursty"])
def test_throttled_device_breaks_at_its_throttle(tmp_path, scales, arrivals):
    answer = knee(simulator.sweep_of(tmp_path, throttled, scales, rate_1x=500, arrivals=arrivals))
    assert answer.state == "reached"
    assert answer.iops.value == pytest.approx(CAPACITY_IOPS, rel=0.1)
    assert answer.iops.low >= 0.9 * CAPACITY_IOPS
    assert answer.iops.high <= 1.1 * CAPACITY_IOPS
    assert answer.scale.value == pytest.approx(4, rel=0.1)
    assert answer.sustained_iops.value == pytest.approx(CAPACITY_IOPS, rel=0.02)


@pytest.mark.parametrize("arrivals", [simulator.poisson, simulator.bursty], ids=["poisson", "bursty"])
def test_sweep_walked_by_itself_ends_at_the_throttle(tmp_path, arrivals):
    steps, done = [], []
    while (scale := next_scale(done)) is not None:
        random = np.random.default_rng(len(done))
        arrival = arrivals(random, 300 * scale, int(3000 * scale))
        completed = throttled(random, arrival)
        steps.append(simulator.write_step(tmp_path, arrival, completed, scale=scale, name=f"{scale:g}x"))
        done.append(summarise_step(steps[-1]))
    assert max(summary.scale for summary in done) <= 16
    answer = knee(steps)
    assert answer.state == "reached"
    assert (
        0.9 * CAPACITY_IOPS <= answer.iops.low <= answer.iops.value <= answer.iops.high <= 1.1 * CAPACITY_IOPS
    )


@pytest.mark.parametrize("scales", [REFINED, [1, 2, 4, 8]])
def test_same_loads_unthrottled_do_not_reach_it(tmp_path, scales):
    answer = knee(simulator.sweep_of(tmp_path, unthrottled, scales, rate_1x=500))
    assert answer.state == "not_reached"
    assert answer.iops is None
    assert answer.sustained_iops is None
    assert answer.highest_kept_up_scale == 8
    assert "not reached" in answer.sentence


@pytest.mark.parametrize("device", [deterministic_server, exponential_server])
def test_queue_breaks_between_its_first_climb_and_its_capacity(tmp_path, device):
    answer = knee(simulator.sweep_of(tmp_path, device, REFINED, rate_1x=500))
    assert answer.state == "reached"
    assert 0.8 * CAPACITY_IOPS < answer.iops.value <= 1.02 * CAPACITY_IOPS
    assert answer.sustained_iops.value == pytest.approx(CAPACITY_IOPS, rel=0.04)


@pytest.mark.parametrize("device", [deterministic_server, exponential_server])
def test_queue_at_forty_percent_is_not_at_its_knee(tmp_path, device):
    scales = [0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6]
    answer = knee(simulator.sweep_of(tmp_path, device, scales, rate_1x=500))
    assert answer.state == "not_reached"


def test_more_than_it_can_carry_from_the_start(tmp_path):
    answer = knee(simulator.sweep_of(tmp_path, throttled, [5, 6, 8], rate_1x=500))
    assert answer.state == "before_range"
    assert answer.iops is None
    assert answer.sustained_iops.value == pytest.approx(CAPACITY_IOPS, rel=0.02)
    assert "below the lowest load tested, 5x (2,5" in answer.sentence


def test_means_follow_from_queueing_theory(tmp_path):
    # M/M/1: mean response 1 / (capacity - load), number in the system rho / (1 - rho). M/D/1 (Pollaczek-Khinchine):
    # mean response = service + rho * service / (2 * (1 - rho)).
    for device, expected_s in ((exponential_server, 1 / 1000), (deterministic_server, 0.0005 + 0.5 * 0.0005)):
        (recording,) = simulator.sweep_of(tmp_path, device, [2], rate_1x=500, count=60_000)
        step, _ = knee_step.measure(recording)
        assert step.offered_iops == pytest.approx(1000, rel=0.02)
        assert step.achieved_iops == pytest.approx(step.offered_iops, rel=0.002)
        assert step.response_ns_mean / 1e9 == pytest.approx(expected_s, rel=0.06)
        assert step.in_flight_mean == pytest.approx(1000 * expected_s, rel=0.08)
        assert step.littles_law_ratio == pytest.approx(1, abs=0.01)
        assert step.is_steady
        assert not step.is_saturated


def test_quantiles_are_numpys_and_scarce_ones_are_left_out(tmp_path):
    random = np.random.default_rng(3)
    arrival = simulator.poisson(random, 1000, 12_000)
    completed = unthrottled(random, arrival)
    step, _ = knee_step.measure(simulator.write_step(tmp_path, arrival, completed, scale=1))
    response = np.round(completed * 1e9).astype(np.int64) - np.round(arrival * 1e9).astype(np.int64)
    for name, quantile in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        expected = np.quantile(response, quantile, method="inverted_cdf")
        assert step.response_ns[name] == pytest.approx(expected, rel=0.0006)
    assert step.response_ns["p99_9"] is None


def test_growing_backlog_is_not_steady(tmp_path):
    (recording,) = simulator.sweep_of(tmp_path, deterministic_server, [4.08], rate_1x=500, count=20_000)
    step, _ = knee_step.measure(recording)
    assert step.achieved_iops > 0.95 * step.offered_iops
    assert step.is_saturated


def test_load_that_grows_is_not_held_against_the_storage(tmp_path):
    random = np.random.default_rng(5)
    quiet = simulator.poisson(random, 300, 1500)
    busy = quiet[-1] + simulator.poisson(random, 1800, 9000)
    arrival = np.concatenate([quiet, busy])
    step, _ = knee_step.measure(
        simulator.write_step(tmp_path, arrival, exponential_server(random, arrival), scale=1)
    )
    assert step.is_steady


def test_late_generator_is_never_judged_as_storage(tmp_path):
    steps = simulator.sweep_of(tmp_path, throttled, [1, 2], rate_1x=500)
    random = np.random.default_rng(9)
    arrival = simulator.poisson(random, 4000, 6000)
    issued = arrival + random.exponential(0.05, len(arrival))
    completed = issued + simulator.device_latency_s(random, len(arrival))
    late = simulator.write_step(tmp_path, arrival, completed, scale=8, name="late", issued_s=issued)
    answer = knee([*steps, late])
    assert answer.steps[-1].generator_limited
    assert answer.state == "not_reached"
    assert answer.highest_kept_up_scale == 2
    assert any("left out" in note for note in answer.notes)


def test_load_carried_by_a_late_generator_still_bounds_the_knee(tmp_path):
    # Storage of 40 us and a generator late by 20 us: latencies below the knee mean nothing, throughput does.
    steps = []
    for index, scale in enumerate([1, 2, 8]):
        random = np.random.default_rng(index)
        arrival = simulator.poisson(random, 500 * scale, 6000)
        issued = arrival + random.exponential(0.00002, len(arrival))
        completed = simulator.token_bucket(issued, CAPACITY_IOPS, 40) + 0.00004
        steps.append(
            simulator.write_step(tmp_path, arrival, completed, scale=scale, name=f"{scale}x", issued_s=issued)
        )
    answer = knee(steps)
    assert [step.generator_limited for step in answer.steps] == [True, True, False]
    assert answer.state == "reached"
    assert answer.basis == "throughput"
    assert answer.iops.value == pytest.approx(CAPACITY_IOPS, rel=0.05)
    assert any("not judged" in note for note in answer.notes)


def test_device_that_collapses_beyond_its_knee_is_bracketed(tmp_path):
    steps = simulator.sweep_of(tmp_path, throttled, [1, 2, 3, 3.8], rate_1x=500)
    for index, scale in enumerate([4.2, 8]):
        random = np.random.default_rng(50 + index)
        arrival = simulator.poisson(random, 500 * scale, 6000)
        completed = simulator.throttled(random, arrival, 1500)
        steps.append(simulator.write_step(tmp_path, arrival, completed, scale=scale, name=f"{scale}x"))
    answer = knee(steps)
    assert answer.state == "reached"
    assert answer.iops.low <= 3.8 * 500 * 1.02
    assert 3.8 * 500 * 0.98 <= answer.iops.high <= 4.2 * 500 * 1.02
    assert answer.sustained_iops.value == pytest.approx(1900, rel=0.02)


def test_manifest_says_that_the_generator_was_late(tmp_path):
    random = np.random.default_rng(9)
    arrival = simulator.poisson(random, 400, 3000)
    step = simulator.write_step(
        tmp_path, arrival, unthrottled(random, arrival), scale=1, replay={"generator_limited": True}
    )
    answer = knee([step])
    assert answer.state == "not_judged"
    assert "late" in answer.sentence


def test_step_that_filled_the_cap_in_flight_is_saturated_not_late(tmp_path):
    # A replay holds back I/Os when too many are in flight. They are issued late because the storage is slow.
    random = np.random.default_rng(9)
    arrival = simulator.poisson(random, 4000, 8000)
    completed = simulator.first_come_first_served(arrival, np.full(len(arrival), 1 / CAPACITY_IOPS))
    cap = 256
    issued = arrival.copy()
    issued[cap:] = np.maximum(arrival[cap:], completed[:-cap])
    capped = simulator.write_step(
        tmp_path,
        arrival,
        completed,
        scale=8,
        name="capped",
        issued_s=issued,
        flags=np.where(issued > arrival, 0x400, 0),
    )
    step, _ = knee_step.measure(capped)
    assert step.delayed_count > 5000
    assert not step.generator_limited
    assert step.is_saturated
    assert step.achieved_iops == pytest.approx(CAPACITY_IOPS, rel=0.02)


def test_objective_is_crossed_where_theory_says(tmp_path):
    # M/M/1: response is exponential with mean 1 / (capacity - load), so p95 = 2.9957 / (capacity - load): 5 ms at
    # 2000 - 2.9957 / 0.005 = 1401 IOPS.
    scales = [1, 1.5, 2, 2.5, 2.75, 3, 3.25]
    steps = simulator.sweep_of(tmp_path, exponential_server, scales, rate_1x=500, count=30_000)
    answer = knee(steps, slo="p95<5ms, p95<100ms, p95<1ms, p99.9<1s, log p50<1s, log write p50<1s")
    crossed, met, missed, scarce, absent, _ = answer.objectives
    assert crossed.state == "crossed"
    assert crossed.iops.value == pytest.approx(1401, rel=0.06)
    assert met.state == "met_everywhere"
    assert met.highest_met_scale == 3.25
    assert missed.state == "missed_at_lowest"
    assert scarce.state == "too_few_ios"
    assert absent.state == "no_such_io"
    assert answer.objectives_met is False


def test_objective_of_one_role_counts_only_its_own(tmp_path):
    steps = []
    for index, scale in enumerate([1, 2, 3, 3.5]):
        random = np.random.default_rng(index)
        arrival = simulator.poisson(random, 500 * scale, 12_000)
        roles = (np.arange(len(arrival)) % 2).astype(np.int64)
        completed = arrival + 0.001
        completed[roles == 1] = arrival[roles == 1] + 0.0001 * scale
        steps.append(
            simulator.write_step(tmp_path, arrival, completed, scale=scale, name=f"{scale}x", roles=roles)
        )
    answer = knee(steps, slo="log write p95<250us, data read p95<2ms")
    log, data = answer.objectives
    assert log.state == "crossed"
    assert 2 < log.scale.value < 3
    assert data.state == "met_everywhere"


def test_same_steps_and_seed_give_the_same_answer(tmp_path):
    steps = simulator.sweep_of(tmp_path, throttled, [1, 2, 4, 6], rate_1x=500)
    assert plain(knee(steps, slo="p95<5ms")) == plain(knee(list(reversed(steps)), slo="p95<5ms"))


def test_no_steps_is_an_error():
    with pytest.raises(IotraceError):
        knee([])
