"""The walk on simulated devices: it finds the bend, stays near it, and ends."""

import pytest

from iotrace.analyze.walk import StepSummary, next_scale


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
