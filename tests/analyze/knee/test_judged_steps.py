"""What a sweep may say when steps are left out, disturbed, short, or lived on saved credits."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.knee.judged_steps import Sorted, _is_contradicted, _rate_without_credits, left_out_words
from iotrace.analyze.knee.presentation import knee_answer
from iotrace.analyze.knee.series import knee, knee_of_sweep
from iotrace.analyze.knee.step import measure
from iotrace.analyze.knee.sweep import knee_of
from iotrace.analyze.units import format_duration_ns
from iotrace.analyze.validity.sweep import check_sweep
from iotrace.schemas import IotraceError, Recording, SweepWriter

from . import knee_simulator as simulator

RATE = 2000
GIB = 1 << 30


def bucket(saved):
    """Storage that carries 2,000 a second, and ``saved`` I/Os more."""
    return lambda random, arrival_s: simulator.throttled(random, arrival_s, RATE, saved)


def server(random, arrival_s):
    return simulator.first_come_first_served(arrival_s, np.full(len(arrival_s), 1 / RATE))


def steps_of(folder, device, loads, *, seconds=6, replay=None):
    """Steps at ``loads`` a second of the given length; ``replay`` adds to the manifest of a load."""
    steps = []
    for index, load in enumerate(loads):
        random = np.random.default_rng([3, index])
        arrival = simulator.poisson(random, load, int(load * seconds))
        more = (replay or {}).get(load, {})
        steps.append(
            simulator.write_step(
                folder, arrival, device(random, arrival), scale=load / 500, name=f"{index}", replay=more
            )
        )
    return steps


@pytest.mark.parametrize("seconds_saved", [1, 2, 5])
def test_credits_are_told_from_what_is_sustained(tmp_path, seconds_saved):
    answer = knee(steps_of(tmp_path, bucket(RATE * seconds_saved), [500, 1000, 1800, 2700, 4000, 8000]))
    assert answer.state == "reached"
    assert answer.sustained_iops.low <= RATE <= answer.sustained_iops.high
    assert answer.iops.high <= 1.02 * RATE
    assert answer.highest_kept_up_iops <= 1.02 * RATE
    assert answer.credits.ios == pytest.approx(RATE * seconds_saved, rel=0.1)
    assert answer.credits.size_bytes == pytest.approx(answer.credits.ios * 8192)
    assert answer.credits.burst_iops > 1.3 * RATE
    # At twice the rate credits of so many seconds last as long; before they are spent nothing breaks.
    twice = next(step for step in answer.steps if step.offered_iops == pytest.approx(2 * RATE, rel=0.02))
    assert twice.break_s == pytest.approx(seconds_saved, rel=0.1)
    assert answer.steps[0].break_s is None
    assert "credits" in answer.sentence


@pytest.mark.parametrize(
    ("rates", "kept_up", "sustained"),
    [
        ((2000, 2090), [0, 3], 2045),
        ((2000, 2110), [0, 3], None),
        # One alone may have been disturbed; and where nothing above kept up, that is the wall.
        ((2000,), [0, 3], None),
        ((2000, 2090), [0], None),
    ],
)
def test_two_that_fell_behind_at_one_rate_below_one_that_kept_up_show_credits(rates, kept_up, sustained):
    """Within a twentieth of each other they are one rate."""
    behind = {1 + at: float(rate) for at, rate in enumerate(rates)}
    steps = [SimpleNamespace(sustained_iops=behind.get(at), credits_ios=None) for at in range(4)]
    assert _rate_without_credits(steps, Sorted(kept_up=kept_up, fell_behind=list(behind))) == sustained


@pytest.mark.parametrize(("brief_s", "sustained"), [(4.9, 2000), (5.0, 2500)])
def test_a_step_that_was_busy_for_less_than_half_as_long_tells_no_sustained_rate(brief_s, sustained):
    """The longer one is watched, the less of what it carried was saved before."""
    steps = [
        SimpleNamespace(
            sustained_iops=rate, credits_ios=900.0, busy_s=busy_s, offered_iops=9000.0, started_utc_ns=0
        )
        for rate, busy_s in ((2000.0, 10.0), (3000.0, brief_s))
    ]
    assert _rate_without_credits(steps, Sorted(kept_up=[], fell_behind=[0, 1])) == sustained


@pytest.mark.parametrize(
    ("carried_iops", "sustained_iops", "kept_up", "is_contradicted"),
    [
        (1500, None, True, True),
        (1050, None, True, False),
        (1500, 900, False, False),
        (1500, 1500, False, True),
    ],
)
def test_what_a_later_step_carried_or_sustained_contradicts_a_step_that_broke(
    carried_iops, sustained_iops, kept_up, is_contradicted
):
    broke, later = (
        SimpleNamespace(
            offered_iops=2000, achieved_iops=achieved, sustained_iops=sustained, busy_s=5, duration_s=10,
            started_utc_ns=started, credits_ios=credit,
        )
        for achieved, sustained, started, credit in (
            (1200, 1000, 0, 500), (carried_iops, sustained_iops, 1, None),
        )
    )  # fmt: skip
    found = Sorted(kept_up=[1] if kept_up else [], fell_behind=[0] if kept_up else [0, 1])
    assert _is_contradicted([broke, later], 0, found, [0] if kept_up else [0, 1]) is is_contradicted


def test_a_step_that_broke_against_a_later_one_is_set_aside_and_shows_no_credits():
    """It sustained 1,000 after it broke; as much was offered later, and all 2,000 carried for as long."""
    broke, later = (
        SimpleNamespace(
            offered_iops=2000, achieved_iops=achieved, sustained_iops=sustained, busy_s=5, duration_s=10,
            started_utc_ns=started, credits_ios=credit, set_aside=[],
        )
        for achieved, sustained, started, credit in ((1200, 1000, 0, 500), (2000, None, 1, None))
    )  # fmt: skip
    found = Sorted(kept_up=[1], fell_behind=[0])

    assert _rate_without_credits([broke, later], found) is None
    assert found.fell_behind == []
    assert broke.set_aside == ["it fell behind in its course although a later step carried more for as long"]


def test_credits_that_no_step_spends_are_not_excluded(tmp_path):
    answer = knee(steps_of(tmp_path, bucket(RATE * 5), [500, 1000, 1500, 2000, 2500]))
    assert answer.state == "not_reached"
    assert "for 6 s" in answer.sentence
    assert "cannot be excluded" in answer.sentence
    assert "for 6 s" in answer.headroom


def test_that_all_was_carried_is_said_for_as_long_as_the_highest_load_ran(tmp_path):
    steps = []
    for load, seconds in ((500, 4), (1000, 9), (1500, 6)):
        (tmp_path / str(load)).mkdir()
        steps += steps_of(tmp_path / str(load), bucket(RATE * 5), [load], seconds=seconds)
    answer = knee(steps)
    assert answer.state == "not_reached"
    assert answer.watched_s == pytest.approx(6, rel=0.02)


def test_no_credits_are_told_of_a_step_that_carried_less_than_another_load(tmp_path):
    """Storage that at 2,000 a second goes down from 1,600 to 700; 1,680 it carried, though the generator was late."""

    def collapsing(random, arrival_s):
        taken = np.where(np.arange(len(arrival_s)) < 3200, 1 / 1600, 1 / 700)
        return simulator.first_come_first_served(arrival_s, taken)

    (tmp_path / "below").mkdir()
    late = {load: {"generator_limited": True} for load in (500, 1000, 1680)}
    below = steps_of(tmp_path / "below", bucket(4000), [500, 1000, 1680], replay=late)
    answer = knee([*below, *steps_of(tmp_path, collapsing, [2000, 4000])])
    assert answer.state == "reached"
    assert answer.sustained_iops.low < 720
    assert 1680 <= answer.sustained_iops.high < 1.05 * 2000
    assert answer.credits is None
    assert "credits lasted" not in answer.sentence


def test_a_step_that_lived_on_credits_meets_no_objective(tmp_path):
    answer = knee(steps_of(tmp_path, bucket(RATE * 2), [500, 1000, 1800, 2200, 8000]), slo="p95<5ms")
    (objective,) = answer.objectives
    assert answer.steps[3].is_on_credits
    assert objective.state == "crossed"
    assert objective.iops.high <= 1.02 * RATE


def test_an_answer_takes_two_judged_steps_and_half_of_the_loads(tmp_path):
    late = {load: {"generator_limited": True} for load in (1000, 2000, 4000, 8000)}
    steps = steps_of(tmp_path, bucket(40), [500, 1000, 2000, 4000, 8000], replay=late)
    answer = knee(steps, slo="p95<15ms")
    assert answer.state == "not_judged"
    assert answer.headroom == ""
    assert answer.objectives[0].state == "not_judged"
    assert "1 can be used" in answer.sentence
    assert "2x, 4x, 8x, 16x: the load generator was late" in answer.sentence
    opening = knee_answer(answer, "sweep.iotrace", steps, check_sweep(steps)).opening
    assert "the load generator was late" in opening[0].text
    del late[8000], late[4000]
    assert knee(steps_of(tmp_path, bucket(40), [500, 1000, 2000, 4000, 8000], replay=late)).state == "reached"


def late_steps(folder, loads, *, late_s):
    """I/Os issued up to ``late_s`` late to storage that carries 2,000 a second; and the p99 had they been punctual."""
    punctual_p99 = []
    for index, load in enumerate(loads):
        random = np.random.default_rng([5, index])
        due = simulator.poisson(random, load, load * 8)
        issued = np.maximum.accumulate(due + random.uniform(0, late_s, len(due)))
        service = random.exponential(1 / RATE, len(due))
        punctual = simulator.first_come_first_served(due, service) - due
        ended = simulator.first_come_first_served(issued, service)
        assert (ended - due >= punctual - 1e-9).all()
        punctual_p99.append(np.quantile(punctual, 0.99))
        simulator.write_step(
            folder,
            due,
            ended,
            scale=load / 500,
            name=f"{index}",
            issued_s=issued,
            replay={"generator_limited": True},
        )
    return [Recording.open(folder / f"{index}.iotrace") for index in range(len(loads))], punctual_p99


def test_what_a_late_replay_saw_carried_is_said_and_no_less_than_the_storage_takes(tmp_path):
    steps, punctual_p99 = late_steps(tmp_path, [500, 1000, 1500], late_s=0.002)
    answer = knee(steps)
    assert answer.state == "not_judged"
    p99 = answer.steps[-1].response_ns["p99"]
    assert p99 >= 1e9 * punctual_p99[-1]
    carried = f"carried even so up to 3x (1,5.. IOPS) for 8 s, and the p99 response there was {format_duration_ns(p99)}"
    assert re.search(re.escape(carried).replace(r"\.\.", r"\d\d"), answer.sentence)
    assert answer.headroom == ""


def test_a_late_replay_shows_nothing_carried_above_a_load_that_was_not(tmp_path):
    steps, _ = late_steps(tmp_path, [500, 1000, 4000], late_s=0.002)
    assert "even so up to 2x" in knee(steps).sentence
    assert "even so" not in knee(steps[2:]).sentence


def test_a_late_replay_that_was_cut_off_shows_nothing_carried(tmp_path):
    """What is still under way at the end is in no response."""
    random = np.random.default_rng(1)
    due = simulator.poisson(random, 1500, 1500 * 8)
    ended = due + simulator.device_latency_s(random, len(due))
    ended[-90:] += 20
    late = {"generator_limited": True}
    step = simulator.write_step(tmp_path, due, ended, scale=3, name="cut", replay=late)
    assert "up to 3x" not in knee([*late_steps(tmp_path, [500], late_s=0.002)[0], step]).sentence


def uneven(random, arrival_s):
    """Storage that serves most of the load's I/Os, larger ones, at 1,300 a second and the others at 6,000."""
    share = np.arange(len(arrival_s)) / len(arrival_s)
    large = (share > 0.1) & (share < 0.8)
    return simulator.first_come_first_served(arrival_s, np.where(large, 1 / 1300, 1 / 6000))


def test_a_knee_lies_below_a_load_that_fell_behind_whatever_storage_carries_on_average(tmp_path):
    answer = knee(steps_of(tmp_path, uneven, [250, 500, 900, 1200, 1450, 4000, 8000], seconds=10))
    kept, failed = (
        max(step.offered_iops for step in answer.steps if not step.is_saturated),
        min(step.offered_iops for step in answer.steps if step.is_saturated),
    )
    assert answer.sustained_iops.value > failed
    assert kept < answer.iops.value < failed
    assert "a higher load falls behind" in answer.sentence
    assert "carries no more" not in answer.sentence
    assert answer.iops.low <= 1300 <= answer.iops.high
    assert answer.onset_iops is None or answer.onset_iops.value <= answer.iops.value


def test_headroom_says_how_long_the_slowest_take_at_the_highest_load_carried(tmp_path):
    """At the highest load that is carried, one I/O in thirty waits for 300 ms, and no other waits."""

    def waiting(random, arrival_s):
        in_burst = (arrival_s % 10 > 4) & (arrival_s % 10 < 4.3)
        free = arrival_s + simulator.device_latency_s(random, len(arrival_s))
        return np.where(in_burst & (len(arrival_s) > 1500 * 20), free + 0.3, free)

    def limited(random, arrival_s):
        return np.maximum(waiting(random, arrival_s), simulator.throttled(random, arrival_s, RATE))

    loads = [500, 1000, 1600, 3000, 6000]
    answer = knee(steps_of(tmp_path, limited, loads, seconds=20))
    assert re.search(
        r"a headroom of \S+x( \[.*?\])?; 2x would be .* %\. At 3\.2x .* p99 response is already 30\d ms",
        answer.headroom,
    )
    calm = knee(
        steps_of(tmp_path, lambda random, at: simulator.throttled(random, at, RATE), loads, seconds=20)
    )
    assert "already" not in calm.headroom


@pytest.mark.parametrize("ended", [None, "the loads were done"])
def test_a_sweep_that_never_came_to_its_end_says_so(tmp_path, ended):
    writer = SweepWriter(tmp_path / "sweep.iotrace", title="planted", source_uuid=None)
    steps = steps_of(writer.sweep.path / "steps", bucket(40), [500, 1000, 2000])
    for step in steps:
        writer.add(step.manifest.replay.scale, step)
    if ended:
        writer.end(ended)
    notes = knee_of_sweep(writer.sweep).notes
    assert any("not finished" in note and "3 steps so far" in note for note in notes) == (ended is None)


def test_each_step_is_left_out_for_its_own_reason(tmp_path):
    steps = steps_of(tmp_path, server, [500, 1000, 1200, 1500], replay={1000: {"generator_limited": True}})
    random = np.random.default_rng(1)
    arrival = simulator.poisson(random, 800, 4000)
    completed = server(random, arrival)
    completed[-36:] += 20
    steps.append(simulator.write_step(tmp_path, arrival, completed, scale=1.6, name="cut"))
    answer = knee(steps)
    words = " ".join(answer.notes)
    assert "2x: the load generator was late" in words
    assert "1.6x: Little's law is off by" in words
    assert [step.name for step in answer.steps if "Little" in " ".join(step.notes)] == ["cut"]
    assert "failed" not in words


def test_a_step_too_short_to_tell_is_left_out_as_such(tmp_path):
    answer = knee(steps_of(tmp_path, server, [30, 500, 1000, 1500], seconds=3))
    assert answer.steps[0].is_too_short
    assert "0.06x: it was too short: 90 I/Os, and it takes 100" in " ".join(answer.notes)
    assert not any(step.is_too_short for step in answer.steps[1:])


def filling(full_s):
    """A cache that takes I/Os in 0.2 ms until it is full, and in 1 ms after."""
    return lambda random, arrival_s: (
        arrival_s + simulator.device_latency_s(random, len(arrival_s)) * np.where(arrival_s < full_s, 1, 5)
    )


def test_latency_that_breaks_while_all_is_carried_is_said(tmp_path):
    answer = knee(steps_of(tmp_path, filling(4), [500, 1000]))
    said = [note for note in answer.notes if "stayed there" in note]
    assert len(said) == 2
    broke = answer.steps[1].latency_break
    assert broke.at_share * answer.steps[1].duration_s == pytest.approx(4, abs=0.3)
    assert (broke.before_ns, broke.after_ns) == (pytest.approx(2e5, rel=0.03), pytest.approx(1e6, rel=0.03))


def test_a_step_whose_latency_broke_gives_way_to_the_same_load_run_after_it(tmp_path):
    measured = [measure(step) for step in steps_of(tmp_path, filling(4), [500, 1000])]
    (later,) = steps_of(tmp_path, filling(0), [1000])
    measured.append(measure(later))
    measured[-1][0].started_utc_ns += 60 * 10**9
    answer = knee_of(measured, seed=0)
    kept = [step for step in answer.steps if step.scale == 2 and step.is_judged]
    assert [step.latency_break for step in kept] == [None]
    assert "the load was run again after it" in " ".join(answer.notes)


@pytest.mark.parametrize("device", [server, bucket(20)])
@pytest.mark.parametrize("highest", [1400, 1850])
def test_a_sweep_that_stops_short_has_no_knee(tmp_path, device, highest):
    answer = knee(steps_of(tmp_path, device, np.geomspace(300, highest, 6)))
    assert answer.state in {"onset", "not_reached"}
    assert answer.iops is None
    assert answer.votes == []
    if answer.state == "onset":
        assert "knee" not in answer.sentence
        if device is server:
            # Of M/D/1 the mean is s (1 + r / 2 (1 - r)): twice that at 300 a second, r = 0.15, is at r = 0.703.
            assert answer.doubled_iops.value == pytest.approx(0.703 * RATE, rel=0.06)


def written_by_others(amount):
    moved = {
        "before": {"read_bytes": 0, "written_bytes": 0},
        "after": {"read_bytes": amount, "written_bytes": 0},
    }
    return {"device_counters": {"sdb": moved}}


def test_a_step_that_others_disturbed_is_left_out_and_no_objective_missed(tmp_path):
    def disturbed(random, arrival_s):
        slow = len(arrival_s) < 500 * 20.5
        return arrival_s + random.exponential(0.02 if slow else 0.0005, len(arrival_s))

    counters = {load: written_by_others(load * 20 * 8192) for load in (1000, 1300, 1600)}
    counters[500] = written_by_others(2 * GIB)
    for known in (counters, {}):
        steps = steps_of(tmp_path, disturbed, [500, 1000, 1300, 1600], seconds=20, replay=known)
        answer = knee(steps, slo="p99<5ms")
        assert not answer.steps[0].is_judged
        assert answer.objectives[0].state == "met_everywhere"
        why = "others moved 1.9 GiB" if known else "contradicts"
        assert why in " ".join(answer.notes)


def test_steps_left_out_are_told_by_their_first_reason_and_a_repeated_load_once():
    left_out = [
        ("1x", ["late", "others moved 1 GiB"]),
        ("1x", ["late", "others moved 2 GiB"]),
        ("2x", ["late"]),
    ]
    steps = [
        SimpleNamespace(is_judged=not why, load_text=load, left_out_because=why)
        for load, why in [*left_out, ("4x", []), ("8x", ["failed"])]
    ]
    assert left_out_words(steps) == "1x (2 times), 2x: late; 8x: failed"


def test_an_objective_missed_below_and_met_above_is_no_answer(tmp_path):
    def uneven(random, arrival_s):
        slower = 1.6 if len(arrival_s) < 900 * 20 else 1.0
        return arrival_s + simulator.device_latency_s(random, len(arrival_s), 0.004 * slower)

    steps = steps_of(tmp_path, uneven, [600, 1000, 1400], seconds=20)
    answer = knee(steps, slo="p50<5ms")
    assert answer.objectives[0].state == "contradicted"
    assert "cannot be told" in answer.objectives[0].sentence
    assert answer.objectives_met is None


def test_storage_that_collapses_may_have_had_credits(tmp_path):
    def collapsing(random, arrival_s):
        overload = len(arrival_s) / arrival_s[-1] > 1.05 * RATE
        return simulator.throttled(random, arrival_s, 1500 if overload else RATE)

    answer = knee(steps_of(tmp_path, collapsing, [500, 1000, 1900, 4000]))
    assert answer.sustained_iops.low <= 1510
    assert answer.sustained_iops.high >= 1900
    assert any("the interval spans both" in note for note in answer.notes)


def test_what_is_no_sweep_is_refused(tmp_path, make_recording):
    io = {"issued_ns": np.arange(100) * 1_000_000, "completed_ns": np.arange(100) * 1_000_000 + 500_000}
    hosts = [make_recording(io) for _ in range(3)]
    with pytest.raises(IotraceError, match="not replayed") as refused:
        knee(hosts)
    assert "iotrace compare" in refused.value.hint
    (step,) = steps_of(tmp_path, server, [500])
    with pytest.raises(IotraceError, match="given twice"):
        knee([step, Recording.open(step.path)])
    for one, other, word in (
        ({"source_uuid": "a"}, {"source_uuid": "b"}, "recordings that were replayed differ"),
        ({"targets": [{"name": "/dev/a"}]}, {"targets": [{"name": "/dev/b"}]}, "targets differ"),
    ):
        with pytest.raises(IotraceError, match=word):
            knee(steps_of(tmp_path, server, [500, 1000], replay={500: one, 1000: other}))
    with pytest.raises(IotraceError, match="no load to find a knee over"):
        knee(steps_of(tmp_path, server, [500, 500]))


@pytest.mark.parametrize(("times", "is_refused"), [(5_100, False), (5_400, True)])
def test_an_io_that_ends_thousands_of_loads_later_is_refused_not_reserved_room_for(
    make_recording, times, is_refused
):
    """1,000 reads in 10 s make 800 slots; the last one's end may ask for 2**22, which is 5,242 times as long."""
    at = np.arange(1000) * 10_000_000
    completed = at + 1_000_000
    completed[-1] = times * 10_000_000_000
    step = make_recording(
        {"intended_ns": at, "issued_ns": at, "completed_ns": completed},
        window_ns=int(completed[-1]),
        kind="replayed",
        replay={"scale": 1.0},
    )
    if is_refused:
        with pytest.raises(IotraceError, match="took over 5,242 times as long"):
            measure(step)
    else:
        assert measure(step)[0].io_count == 1000
