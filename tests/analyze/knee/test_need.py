"""Does the storage carry N times the load? Storage whose rate is known, asked for less, more and the same."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.knee.need import _Limit, _why, is_no, need
from iotrace.analyze.knee.series import knee
from iotrace.analyze.stats.estimate import Estimate

from . import knee_simulator as simulator

RATE = 2000
AT_1X = 500


def server(random, arrival_s):
    """One server that takes half a millisecond for each I/O: it carries 2,000 a second."""
    return simulator.first_come_first_served(arrival_s, np.full(len(arrival_s), 1 / RATE))


def steps_of(folder, loads, *, seconds=8):
    steps = []
    for index, load in enumerate(loads):
        random = np.random.default_rng([7, index])
        arrival = simulator.poisson(random, load, int(load * seconds))
        steps.append(
            simulator.write_step(
                folder, arrival, server(random, arrival), scale=load / AT_1X, name=f"{index}"
            )
        )
    return steps


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Loads up to 6x of storage that carries 4x."""
    return steps_of(tmp_path_factory.mktemp("need"), [500, 1000, 1500, 1800, 2400, 3000])


@pytest.mark.parametrize(
    ("scale", "verdict"), [(1, "yes"), (2, "yes"), (3, "yes"), (5, "no"), (8, "no"), (100, "no")]
)
def test_below_what_is_carried_it_is_yes_and_above_it_is_no(swept, scale, verdict):
    answer = need(knee(swept), scale)
    assert answer.verdict == verdict
    assert answer.headroom.low <= RATE / AT_1X / scale <= answer.headroom.high
    assert answer.sentence.startswith(f"{verdict.upper()}: {scale}x (")
    said = re.search(r"\), ([\d.]+) \[([\d.]+), ([\d.]+)\]", answer.sentence)
    value, low, high = (float(one) for one in said.groups())
    assert low - 0.01 <= RATE / AT_1X / scale <= high + 0.01
    assert low <= value <= high


def test_an_objective_that_every_load_meets_is_met_at_1x(swept):
    found = knee(swept[:3], slo="p50<100ms")
    assert found.objectives_met is True
    assert need(found, 2).verdict == "yes"
    assert "at least 1.5" in need(found, 2).sentence
    assert knee(swept[:3], slo="p50<0.1ms").objectives_met is False


def test_at_what_is_carried_it_cannot_be_told(swept):
    found = knee(swept)
    answer = need(found, found.scale.value)
    assert answer.verdict == "cannot_tell"
    assert answer.headroom is None
    assert "--step-seconds" in answer.sentence


def test_an_objective_can_end_it_earlier(swept):
    # M/D/1 waits rho / (2 (1 - rho)) services on average: at 3.6x nine times as long as at 2x.
    found = knee(swept, slo="p50<1.2ms")
    assert need(found, 1).verdict == "yes"
    answer = need(found, 3.9)
    assert answer.verdict == "no"
    assert "p50 response passes 1.2 ms at" in answer.sentence


def test_an_objective_missed_at_the_lowest_load_is_missed_above(swept):
    found = knee(swept, slo="p50<0.1ms")
    assert need(found, 2).verdict == "no"
    below = need(found, 0.5)
    assert below.verdict == "cannot_tell"
    assert "--scales 0.5x" in below.sentence


def test_above_the_highest_load_that_was_run_it_cannot_be_told(tmp_path):
    found = knee(steps_of(tmp_path, [500, 700, 1000]))
    inside = need(found, 2)
    assert inside.verdict == "yes"
    assert inside.headroom is None
    assert inside.headroom_at_least == pytest.approx(1, rel=0.02)
    assert "was carried for 8 s" in inside.sentence
    assert "cannot be excluded" in inside.sentence
    above = need(found, 3)
    assert above.verdict == "cannot_tell"
    assert "--max-scale 3.6x" in above.sentence


def test_higher_loads_that_were_run_and_tell_nothing_are_named(tmp_path):
    steps = steps_of(tmp_path, [500, 700, 1000])
    arrival = simulator.poisson(np.random.default_rng(1), 1500, 90)
    steps.append(simulator.write_step(tmp_path, arrival, arrival + 0.0005, scale=3, name="short"))
    answer = need(knee(steps), 3)
    assert answer.verdict == "cannot_tell"
    assert "the highest load that can be judged, 2x" in answer.sentence
    assert "of those above it, 3x: it was too short: 90 I/Os, and it takes 100" in answer.sentence
    assert "--step-seconds" in answer.sentence
    assert "--max-scale" not in answer.sentence


def test_below_a_range_that_was_too_much_it_cannot_be_told(tmp_path):
    found = knee(steps_of(tmp_path, [2600, 3200, 4000]))
    assert found.state == "before_range"
    assert need(found, 6).verdict == "no"
    assert need(found, 2).verdict == "cannot_tell"
    # Within the interval of what was carried at most it is not too much.
    assert need(found, found.sustained_iops.value / AT_1X).verdict == "cannot_tell"


@pytest.mark.parametrize(
    ("state", "met", "iops_at_1x", "is_a_no"),
    [
        ("crossed", True, 500.0, False),
        ("crossed", False, 500.0, True),
        ("crossed", None, 500.0, True),
        ("crossed", False, None, False),
        ("crossed", None, None, False),
        # Missed at every load, it is missed at any that is meant.
        ("missed_at_lowest", None, None, True),
    ],
)
def test_an_objective_that_does_not_hold_at_1x_or_cannot_be_told_there_is_a_no(
    state, met, iops_at_1x, is_a_no
):
    objective = SimpleNamespace(state=state)
    knee = SimpleNamespace(objectives=[objective], objectives_met=met, iops_at_1x=iops_at_1x, state="reached")
    assert is_no(knee, None, is_spoiled=False) is is_a_no


def test_figures_that_must_not_be_used_answer_nothing(swept):
    answer = need(knee(swept), 2, spoiled=["the page cache was in the way"])
    assert answer.verdict == "cannot_tell"
    assert "the page cache was in the way" in answer.sentence


def test_a_yes_says_the_latency_that_comes_with_it(swept):
    found = knee(swept)
    said = re.search(r"At 2x the median response was ([\d.]+) ms", need(found, 2).sentence)
    # M/D/1 at half its capacity: a service of 0.5 ms, and for half of the I/Os hardly a wait.
    assert 0.5 <= float(said[1]) < 0.75
    assert "median response" not in need(knee(swept, slo="p50<100ms"), 2).sentence


def test_bursts_that_queue_are_no_yes(tmp_path):
    """Half a second at five times the rate, then two of silence: at 1x 3,000/s meet storage of 2,000/s."""
    steps = [
        simulator.write_step(tmp_path, arrival, server(random, arrival), scale=scale, name=f"{scale}x")
        for scale in (1, 2, 3, 5)
        for random in [np.random.default_rng([11, scale])]
        for arrival in [simulator.bursty(random, 600 * scale, 600 * scale * 20, burst_s=0.5)]
    ]
    found = knee(steps)
    assert found.iops.low <= RATE <= found.iops.high
    answer = need(found, 2)
    assert answer.verdict == "cannot_tell"
    assert "one in twenty took over" in answer.sentence
    assert "--slo" in answer.hint
    assert "leaves no headroom that can be counted on" in found.headroom
    # Who says how long an I/O may wait is answered.
    assert need(knee(steps, slo="p95<2s"), 1).verdict == "yes"
    assert need(knee(steps, slo="p95<20ms"), 2).verdict == "no"


@pytest.mark.parametrize(
    ("quick_s", "slow_s", "verdict"),
    [
        (0.001, 0.108, "cannot_tell"),
        (0.001, 0.093, "yes"),  # under a tenth of a second the figure is enough
        (0.005, 0.108, "cannot_tell"),
        (0.006, 0.108, "yes"),  # slow storage is slow without a queue
    ],
)
def test_what_counts_as_waiting(tmp_path, quick_s, slow_s, verdict):
    """Every fourth quarter of a second is slow; the rest is not."""
    steps = []
    for load in (500, 1000):
        arrival = np.arange(load * 10) / load
        took_s = np.where(np.floor(4 * arrival) % 4 == 3, slow_s, quick_s)
        steps.append(
            simulator.write_step(tmp_path, arrival, arrival + took_s, scale=load / AT_1X, name=f"{load}")
        )
    assert need(knee(steps), 1).verdict == verdict


@pytest.mark.parametrize(
    ("kept_iops", "missed_iops", "iops", "verdict"),
    [(None, 100.0, 100.0, "no"), (None, 100.0, 99.5, "no"), (None, 100.0, 98.0, "cannot_tell"),
     (None, None, 100.0, "cannot_tell"), (None, None, 102.0, "no"), (None, 100.0, 79.0, "yes"),
     (95.0, None, 95.9, "yes"), (95.0, None, 96.1, "cannot_tell"), (95.0, 97.0, 95.9, "yes"),
     (None, None, 95.9, "cannot_tell")],
)  # fmt: skip
def test_what_a_load_that_was_run_showed_beyond_doubt_counts_however_wide_the_crossing(
    kept_iops, missed_iops, iops, verdict
):
    limit = _Limit("it", at=Estimate(90.0, 80.0, 101.0), kept_iops=kept_iops, missed_iops=missed_iops)
    assert limit.verdict(iops) == verdict


def test_where_nothing_was_run_no_load_is_a_yes_however_low():
    assert _Limit("it").verdict(0.5) == "cannot_tell"


@pytest.mark.parametrize(("scale", "most"), [(0.5, "1x"), (0.9, "1.1x"), (2.0, "2.4x")])
def test_the_load_to_run_up_to_is_a_fifth_beyond_what_is_needed_and_1x_at_least(scale, most):
    assert _why(_Limit("it"), scale) == f"it; run a sweep with --max-scale {most}"
