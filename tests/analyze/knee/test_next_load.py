"""The walk on simulated devices: it finds the bend, stays near it, and ends."""

import numpy as np
import pytest

from iotrace.analyze.knee.next_load import (
    PROOF_TIMES,
    NextStep,
    StepSummary,
    next_scale,
    next_step,
    summarise_step,
    summary_of,
    why_ended,
)
from iotrace.analyze.knee.step import measure

from .knee_simulator import write_step


def step(scale, capacity_iops, *, rate_1x=500.0, latency_ns=200_000.0, limited_above=None):
    offered = scale * rate_1x
    over = offered > capacity_iops
    limited = limited_above is not None and scale > limited_above
    return StepSummary(
        scale,
        offered,
        min(offered, capacity_iops, limited_above * rate_1x if limited else offered),
        latency_ns * (1000 if over else 1),
        is_saturated=offered > capacity_iops * 1.03,
        is_steady=not over,
        generator_limited=limited,
    )


def walk(capacity_iops, limited_above=None, **options):
    done = []
    while (scale := next_scale(done, **options)) is not None:
        assert len(done) < 50, "the walk does not end"
        done.append(step(scale, capacity_iops, limited_above=limited_above))
    return [one.scale for one in done]


@pytest.mark.parametrize("capacity_iops", [700, 2000, 2600, 9999, 15000])
def test_bend_is_closed_in_to_five_percent(capacity_iops):
    scales = walk(capacity_iops)
    knee = capacity_iops / 500
    held = max(scale for scale in scales if scale <= knee)
    failed = min(scale for scale in scales if scale > knee)
    assert failed / held <= 1.05 + 1e-9
    assert max(scales) <= 2 * knee, "one doubling past the knee, never more"
    assert len(scales) <= 12


@pytest.mark.parametrize("capacity_iops", [1990, 2100, 3000, 3900])
def test_one_step_is_well_beyond_the_wall(capacity_iops):
    assert max(walk(capacity_iops)) >= 1.4 * capacity_iops / 500


def test_load_rises_geometrically_while_the_storage_keeps_up():
    assert walk(1e9, scale_max=32) == [1, 2, 4, 8, 16, 32]


def test_users_list_is_climbed_in_order_and_refined_at_the_bend():
    scales = walk(2100, scales=[8, 1, 3, 5], resolution=0.2)
    assert scales[:3] == [1, 3, 5]
    assert 8 not in scales
    assert all(3 < scale < 5 for scale in scales[3:])


def test_without_refinement_the_list_is_all():
    assert walk(2100, scales=[1, 3, 5, 8], refine=False) == [1, 3, 5]
    assert walk(1e9, scales=[1, 3, 5, 8], refine=False) == [1, 3, 5, 8]


def test_too_slow_at_the_first_load_walks_down():
    scales = walk(110)
    assert scales[:4] == [1, 0.5, 0.25, 0.125]
    assert (
        min(scale for scale in scales if scale > 0.22) / max(scale for scale in scales if scale < 0.22) < 1.06
    )


def test_hopeless_storage_ends_the_walk():
    assert walk(1) == [1, 0.5, 0.25, 0.125, 0.0625]


def test_step_budget_is_kept():
    assert len(walk(2000, steps_max=5)) == 5
    # A sweep may have run more already than it may by now.
    assert next_scale([step(scale, 1e9) for scale in (1, 2, 4)], steps_max=2) is None


def test_load_generator_at_its_end_is_not_taken_for_the_storage():
    scales = walk(1e9, limited_above=5)
    assert max(scales) == 8
    held = max(scale for scale in scales if scale <= 5)
    assert 1.0 < min(scale for scale in scales if scale > 5) / held <= 1.26


def test_late_generator_that_still_drives_the_load_goes_on_up():
    # On storage of 40 us, a generator late by 5 us is late by the rule; lowering the load would not help.
    late = [StepSummary(scale, 500 * scale, 500 * scale, 40_000, False, True, True) for scale in (1, 2)]
    assert next_scale(late) == 4
    assert 2 < next_scale([*late, step(4, 1000)]) < 4


def test_latency_that_climbs_below_the_wall_is_closed_in_on_after_it():
    """Bursts queue from 1.3x on, the storage carries up to 3x: both are bracketed, the wall more closely."""
    done = []
    while (scale := next_scale(done)) is not None:
        done.append(step(scale, 1500, latency_ns=200_000 if scale < 1.3 else 900_000))
    scales = [one.scale for one in done]
    assert scales[:3] == [1, 2, 4]
    assert all(scale > 2 for scale in scales[3:6]), "the wall first"
    for at, within in ((3, 1.05), (1.3, 1.15)):
        above = min(scale for scale in scales if scale > at)
        assert above / max(scale for scale in scales if scale <= at) <= within + 1e-9
    assert len(scales) <= 12


def test_latency_that_climbs_is_closed_in_on_where_no_wall_is_reached():
    scales, done = [], []
    while (scale := next_scale(done, scale_max=8)) is not None:
        done.append(step(scale, 1e9, latency_ns=200_000 if scale < 5 else 900_000))
        scales.append(scale)
    assert scales[:4] == [1, 2, 4, 8]
    assert min(scale for scale in scales if scale > 5) / max(scale for scale in scales if scale < 5) <= 1.15


class Saving:
    """Storage that carries 2,000 a second, and as many more as it has saved; back to back, so that nothing is saved."""

    def __init__(self, saved):
        self.saved = saved

    def step(self, scale, times, rate_1x=500.0):
        offered, seconds = scale * rate_1x, 10 * times
        spent = (offered - 2000) * seconds
        held = spent <= self.saved
        broke = not held and self.saved > 0
        self.saved = max(self.saved - max(spent, 0), 0)
        carried = offered if held else 2000
        sustained = None if held else 2000.0
        return StepSummary(
            scale,
            offered,
            carried,
            2e5,
            not held,
            held,
            False,
            broke=broke,
            sustained_iops=sustained,
            times=times,
        )


def sweep(play, **options):
    done = []
    while (following := next_step(done, steps_max=24, **options)) is not None:
        done.append(play(following.scale, following.times))
        assert len(done) <= 24
    return done


@pytest.mark.parametrize("saved", [0, 1000, 10_000, 30_000])
def test_a_sweep_ends_at_what_is_sustained_however_much_was_saved(saved):
    done = sweep(Saving(saved).step)
    last = done[-1]
    assert last.times == PROOF_TIMES, "the load that is held is held for longer"
    assert 0.94 * 2000 <= last.offered_iops <= 2000
    assert not last.is_saturated
    if saved:
        place = next(place for place, one in enumerate(done) if one.broke)
        assert done[place + 1].scale == done[place].scale, "what broke is run again at once"
        assert done[place + 1].times > done[place].times
    assert (
        why_ended(done)
        == f"the storage did not hold {min(o.scale for o in done if o.offered_iops > 2000):g}x"
    )


def test_credits_that_carry_the_last_load_are_found_by_running_it_for_longer():
    done = sweep(Saving(22_000).step, scale_max=8)
    assert any(one.times > 1 and one.broke for one in done)
    assert done[-1].offered_iops <= 2000


def test_storage_that_overload_slows_down_is_not_taken_for_one_with_credits():
    def collapsing(scale, times):
        over = scale > 4
        carried = 1500.0 if over else 500 * scale
        return StepSummary(
            scale,
            500 * scale,
            carried,
            2e5,
            over,
            not over,
            False,
            sustained_iops=1500.0 if over else None,
            times=times,
        )

    assert 3.8 <= sweep(collapsing)[-1].scale <= 4


def test_a_sweep_climbs_until_something_ends_it():
    def free(scale, times):
        return StepSummary(scale, 500 * scale, 500 * scale, 2e5, False, True, False, times=times)

    done = sweep(free)
    assert max(one.scale for one in done) > 1024
    assert why_ended(done, steps_max=24) == "the most steps were run, 24"
    limited = sweep(free, scale_max=100)
    assert max(one.scale for one in limited) == 100
    assert (limited[-1].scale, limited[-1].times) == (100, PROOF_TIMES)
    assert why_ended(limited, scale_max=100) == "the highest load that was asked for, 100x, was run"
    listed = sweep(free, scales=[1, 3])
    assert [(one.scale, one.times) for one in listed] == [(1, 1), (3, 1), (3, PROOF_TIMES)]
    assert why_ended(done[:2], scales=[1, 3]) == "all loads that were asked for were run"
    late = [
        StepSummary(1, 500, 500, 2e5, False, True, False),
        StepSummary(2, 1000, 700, 2e5, False, True, True),
    ]
    assert why_ended(late) == "the load generator could not drive 2x"


def test_a_disturbed_step_is_run_again_and_one_that_contradicts_higher_loads_too():
    runs = []

    def disturbed_once(scale, times):
        runs.append(scale)
        again = runs.count(scale) > 1
        return StepSummary(
            scale, 500 * scale, 500 * scale, 2e7 if scale == 2 and not again else 2e5, False, True, False,
            is_disturbed=scale == 1 and not again, times=times,
        )  # fmt: skip

    sweep(disturbed_once, scale_max=16)
    assert runs[:4] == [1, 1, 2, 4]
    assert runs.count(1) == 2
    assert runs.count(2) == 2

    def always(scale, times):
        return StepSummary(scale, 500, 500, 2e5, False, True, False, is_disturbed=True, times=times)

    assert len(sweep(always, scales=[1, 2])) <= 6


@pytest.mark.parametrize(("faster_above", "is_run_again"), [(1, False), (2, True)])
def test_two_higher_loads_contradict_a_step_and_one_alone_does_not(faster_above, is_run_again):
    """A hundred times the latency of one higher load, or of two."""
    done = [
        StepSummary(scale, 500 * scale, 500 * scale, 2e7 if scale == 1 else 2e5, False, True, False)
        for scale in (1, 2, 4)[: 1 + faster_above]
    ]
    following = next_step(done, scales=[1, 2, 4, 8])
    assert (following.scale == 1) is is_run_again


@pytest.mark.parametrize("scales", [None, [1, 2, 4, 8]])
def test_a_step_that_was_too_short_is_run_for_longer(scales):
    """At 1x latency settles only after 15 s, and a step lasts 10; then 2,000 a second are carried."""

    def settling(scale, times):
        offered = 500 * scale
        over = offered > 2000
        is_short = scale == 1 and times * 10 < 15
        return StepSummary(
            scale, offered, min(offered, 2000), 2e7 if is_short else 2e5, over, not over, False,
            is_too_short=is_short, times=times,
        )  # fmt: skip

    done = sweep(settling, scales=scales)
    assert [(one.scale, one.times) for one in done[:3]] == [(1, 1), (1, 2), (2, 1)]
    assert (done[-1].scale, done[-1].times) == (4, PROOF_TIMES)

    def never_long_enough(scale, times):
        return StepSummary(scale, 500, 500, 2e5, False, True, False, is_too_short=True, times=times)

    assert [one.times for one in sweep(never_long_enough, scales=[1])] == [1, 2, 4]


def test_a_listed_load_that_broke_is_run_again_on_spent_credits_and_the_one_below_is_proven():
    done = sweep(Saving(10_000).step, scales=[1, 2, 3, 4, 5, 6])
    broke = next(place for place, one in enumerate(done) if one.broke)
    assert done[broke + 1].scale == done[broke].scale
    assert done[broke + 1].times > done[broke].times
    assert (done[-1].scale, done[-1].times) == (4, PROOF_TIMES)


def test_the_step_well_beyond_the_wall_is_run_once_however_its_scale_is_rounded():
    scales = walk(99.5 * 500, steps_max=24)
    assert len(scales) == len(set(scales))
    assert max(scales) >= 1.49 * max(scale for scale in scales if scale <= 99.5)


@pytest.mark.parametrize("capacity_iops", [700, 2600, 9999, 15000])
def test_a_wall_that_is_predicted_saves_steps_and_finds_the_same(capacity_iops):
    knee = capacity_iops / 500
    scales = walk(capacity_iops, wall=lambda _held, _failed: knee)
    held = max(scale for scale in scales if scale <= knee)
    failed = min(scale for scale in scales if scale > knee)
    assert failed / held <= 1.05 + 1e-9
    assert len(scales) < len(walk(capacity_iops))


@pytest.mark.parametrize(
    ("predicted", "following"),
    [(0.98, 1.41), (1.005, 1.03), (1.5, 1.47), (1.97, 1.93), (1.99, 1.95), (2.03, 1.41)],
)
def test_beside_a_predicted_wall_the_next_load_is_well_within_what_is_known(predicted, following):
    """1x held and 2x did not: a load hardly above the one or below the other tells nothing, their middle does."""
    done = [step(1, 950), step(2, 950)]
    assert next_scale(done, wall=lambda _held, _failed: predicted) == following


@pytest.mark.parametrize("wrong", [0.8, 1.3])
def test_a_wall_that_is_predicted_wrongly_is_left_behind(wrong):
    """Of the walls that are predicted the walk believes what its steps do not refute."""
    scales = walk(2600, wall=lambda _held, _failed: wrong * 5.2, steps_max=40)
    held = max(scale for scale in scales if scale <= 5.2)
    failed = min(scale for scale in scales if scale > 5.2)
    assert failed / held <= 1.05 + 1e-9


def test_a_step_of_which_no_length_is_said_is_an_ordinary_one(tmp_path):
    arrival = np.arange(3000) / 1000
    step = write_step(tmp_path, arrival, arrival + 0.0002, scale=1)
    told = (NextStep(2.0), StepSummary(1, 500, 500, 2e5, False, True, False), summarise_step(step))
    assert [one.times for one in told] == [1, 1, 1]
    assert summary_of(measure(step)[0]).times == 1
