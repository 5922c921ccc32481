"""The normal curve around slow stretches, through points that are planted."""

import numpy as np
import pytest

from iotrace.analyze.incident.change_points import Segmentation
from iotrace.analyze.incident.series import Series
from iotrace.analyze.incident.stretches import Judged, _curve, _far_out


@pytest.mark.parametrize(("normal_slots", "follows"), [(20, False), (60, True)])
def test_points_within_a_tenth_of_the_reach_are_a_level_and_no_slope(normal_slots, follows):
    """The curve looks 90 slots to each side. Two blocks of ten points lie within a tenth of that, six do not."""
    at = np.arange(200)
    values = 14 + 0.01 * at
    level, _ = _curve(at, values, at < normal_slots, np.ones(200))
    blocks = np.arange(normal_slots // 10) * 10 + 4.5
    expected = 14 + 0.01 * (blocks if follows else np.full(2, 9.5))
    assert np.interp(blocks, at, level) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(
    ("slots", "factor", "is_far"),
    [(6, 1000, False), (7, 1000, True), (7, 9.9, False), (19, 9.9, False), (20, 9.9, True), (20, 1.9, False)],
)
def test_a_single_slot_far_out_is_slow_if_enough_others_are_known(slots, factor, is_far):
    """Of fewer than 20 slots it has to stand out by a power of ten, of fewer than 7 nothing does."""
    above = np.log([*np.ones(slots - 1), factor])
    cut = Segmentation([0, slots], np.full(slots, 1000.0), 15.0)
    assert _far_out(above, np.zeros(slots, dtype=bool), cut) == ([slots - 1] if is_far else [])


@pytest.mark.parametrize(
    ("weight", "slots", "least"),
    [
        # A mean of thirty points on either side of its edge: of variance 3 / 20 / 30 each, 0.01 together.
        (20, 60, 1.5 * 3 * 0.1),
        # Ten points have three times the variance of thirty: 0.02 together.
        (20, 10, 1.5 * 3 * np.sqrt(0.02)),
        # Of one the change itself costs more: two penalties of 15 against a weight of 20.
        (20, 1, 1.5 * np.sqrt(1.5)),
        # Where a slot has next to no noise, a quarter slower and twice the error of 75 slots.
        (40_000, 75, np.log(1.25) + 2 * 0.001),
    ],
)
def test_the_least_that_is_found_is_what_a_change_an_edge_and_a_quarter_ask_for(weight, slots, least):
    at = np.arange(200)
    nothing = np.zeros(200)
    cut = Segmentation([0, 200], np.full(200, float(weight)), 15.0, 3.0)
    judged = Judged(Series("block", None, at, nothing, nothing, nothing), [], nothing, cut, at < 0)
    assert judged.least_excess(slots) == pytest.approx(least)
