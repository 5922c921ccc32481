"""What the wall is taken from: planted steps of an even rate, so that the mean over the right ones is the answer."""

from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.knee import sweep
from iotrace.analyze.knee.sweep import wall_of


def wall(*steps):
    """Of steps as (offered, carried, seconds never idle), all of them saturated."""
    told = [SimpleNamespace(offered_iops=offered, busy_s=busy_s) for offered, _, busy_s in steps]
    samples = [
        SimpleNamespace(completed_iops=np.full(10, float(carried)), rate_error=0.0) for _, carried, _ in steps
    ]
    found = wall_of(told, samples, list(range(len(steps))), 0.0, np.random.default_rng(0))
    return found[0]


@pytest.mark.parametrize(
    ("steps", "carried"),
    [
        # Loads a quarter beyond the most that was carried count; those that are nearer do not.
        ([(1240, 1000, 10), (1260, 990, 10)], 990),
        ([(1260, 1000, 10), (1270, 990, 10)], 995),
        # Where such loads broke what the storage carries, the best steps count: those within 3 % of the best.
        ([(1100, 1000, 10), (1110, 980, 10), (1120, 960, 10), (4000, 300, 10)], 990),
        # A step that was busy for less than a quarter of the longest says little.
        ([(2000, 1000, 10), (2000, 900, 2.4)], 1000),
        ([(2000, 1000, 10), (2000, 900, 2.6)], 950),
    ],
)
def test_the_wall_is_what_those_steps_carried_that_show_it(steps, carried):
    assert wall(*steps) == pytest.approx(carried)


def test_without_a_saturated_step_there_is_no_wall():
    assert wall_of([], [], [], 0.0, np.random.default_rng(0)) is None


@pytest.mark.parametrize(
    ("bend", "has_wall", "points", "found"),
    [
        (300.0, False, 4, 300.0),
        (400.0, True, 4, 400.0),
        # At the highest load, with nothing above it, nothing has bent.
        (400.0, False, 4, None),
        (300.0, True, 3, None),
    ],
)
def test_a_tail_bends_below_the_highest_load_or_at_the_wall(monkeypatch, bend, has_wall, points, found):
    curve = SimpleNamespace(
        load=[100.0, 200.0, 300.0, 400.0][-points:], has_wall=has_wall, knees=lambda: [bend]
    )
    monkeypatch.setattr(sweep, "Curve", lambda *_: curve)
    steps = [SimpleNamespace(response_ns={"p99": 9})] * points
    assert sweep._tail(steps, [], list(range(points)), [], None, np.random.default_rng(0)) == ("p99", found)
