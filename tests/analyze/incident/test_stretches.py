"""The normal curve around slow stretches, through points that are planted."""

import numpy as np
import pytest

from iotrace.analyze.incident.stretches import _curve


@pytest.mark.parametrize(("normal_slots", "follows"), [(20, False), (60, True)])
def test_points_within_a_tenth_of_the_reach_are_a_level_and_no_slope(normal_slots, follows):
    """The curve looks 90 slots to each side. Two blocks of ten points lie within a tenth of that, six do not."""
    at = np.arange(200)
    values = 14 + 0.01 * at
    level, _ = _curve(at, values, at < normal_slots, np.ones(200))
    blocks = np.arange(normal_slots // 10) * 10 + 4.5
    expected = 14 + 0.01 * (blocks if follows else np.full(2, 9.5))
    assert np.interp(blocks, at, level) == pytest.approx(expected, abs=0.005)
