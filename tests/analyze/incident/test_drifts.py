"""The parts of the search for slow changes, where it is known what they must say."""

from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.incident import drifts
from iotrace.analyze.incident.change_points import Segmentation
from iotrace.analyze.incident.drifts import Blocks, _blocks, _course, _error_as_shaped, _judged_course, _lasts
from iotrace.analyze.incident.find import _Finder
from iotrace.analyze.incident.series import Series
from iotrace.analyze.incident.stretches import Course, Judged


def course(start, risen, falling, end):
    return Course(start, risen, falling, end, 14.0, 0.5, 0.1, 0.1, has_rise=True, has_fall=True)


@pytest.mark.parametrize(
    ("knots", "lasts"),
    [
        # At half of its height or more from slot 15 to slot 25, eleven of them.
        ((10, 20, 20, 30), True),
        ((10.2, 20, 20, 29.8), False),
        # High from one look at it to the next, and at neither.
        ((40.1, 40.2, 40.3, 40.4), False),
    ],
)
def test_a_change_lasts_where_it_is_high_for_half_of_the_least_length(knots, lasts):
    assert _lasts(course(*knots), np.arange(60), 22) == lasts


def test_a_change_is_high_for_no_time_where_nothing_was_measured_meanwhile():
    assert not _lasts(course(10, 20, 30, 40), np.array([0, 5, 50]), 1)


@pytest.mark.parametrize(("hours", "slots"), [(1, 5), (5.5, 5), (6, 6), (28, 26)])
def test_a_recording_of_any_length_is_looked_at_in_four_thousand_blocks_at_most(hours, slots):
    """Of five seconds each, or longer ones: 28 hours are 100,800 s, and a 4,000th of that is 25.2 s."""
    count = int(hours * 3600)
    at = np.arange(count)
    series = Series("block", None, at, np.full(count, 14.0), np.zeros(count), np.ones(count))
    cut = Segmentation([0, count], np.full(count, 100.0), 15.0)
    blocks, _ = _blocks(Judged(series, [], series.values, cut, at < 0), [], 1.0)
    assert blocks.slots == slots
    assert len(blocks.at) == -(-count // slots) <= 4000


@pytest.mark.parametrize(
    ("usual", "done"),
    [
        # A twentieth of a thousand slots is before it; or else what lies below a tenth of its height, or below 0.35.
        (50, 0.0),
        (49, 0.1),
    ],
)
def test_normal_is_what_was_before_a_change_if_that_is_a_twentieth_of_the_recording(usual, done):
    finder = SimpleNamespace(slots=SimpleNamespace(count=1000))
    change = course(usual - 1, 1000 + usual - 1, 3000, 4000)
    group = SimpleNamespace(strongest=(None, SimpleNamespace(course=change)))
    chosen = _Finder._before_change(finder, group, np.ones(1000, dtype=bool))
    share = change.shape(np.arange(1000.0))
    assert chosen.tolist() == (share <= done).tolist()
    assert chosen.sum() == usual + 1000 * done


def test_of_a_short_recording_ten_slots_at_least_are_normal():
    finder = SimpleNamespace(slots=SimpleNamespace(count=60))
    for before, done in ((10, 0.0), (9, 0.1)):
        group = SimpleNamespace(
            strongest=(None, SimpleNamespace(course=course(before - 1, before + 49, 900, 999)))
        )
        chosen = _Finder._before_change(finder, group, np.ones(60, dtype=bool))
        assert chosen.sum() == before + 50 * done


def test_a_creep_that_began_before_the_recording_is_told_by_what_the_recording_shows():
    """From 14 up by 0.01 each second, and the recording has seconds 20 to 79 of the hundred of the rise."""
    x = np.arange(60.0)
    found = _judged_course(x, 14 + 0.01 * x, 1.0, np.array([-20.0, 80.0, 200.0, 300.0]), (True, False))
    assert found.base == pytest.approx(14.0)
    assert found.height == pytest.approx(0.59)


@pytest.mark.parametrize(
    ("knots", "by_load"),
    [
        # High in the second half, in which load adds 0.3 to the latency.
        ((29, 30, 100, 110), 0.3),
        # High all the time, or between two looks only: there is nothing to hold it against.
        ((-20, -10, 100, 110), 0.0),
        ((30.1, 30.2, 30.3, 30.4), 0.0),
    ],
)
def test_what_load_adds_to_a_change_is_held_against_the_rest_of_the_time(knots, by_load, monkeypatch):
    monkeypatch.setattr(drifts, "_fitted", lambda *_: course(*knots))
    at = np.arange(60.0)
    effect = np.where(at >= 30, 0.3, 0.0)
    found = _course(Blocks(1, at, at, at, effect), at * 0, lambda _length: 0.0, at >= 0)
    assert found.by_load == pytest.approx(by_load)


def test_a_change_of_a_single_block_has_the_error_of_a_mean_against_one_value():
    """Eight blocks that scatter by 0.1, and one of which nothing else is known: s^2 = 0.08 / 7, times 1 + 1 / 8."""
    levels = np.array([1.0, *[0.1, -0.1] * 4])
    share = np.array([1.0, *[0.0] * 8])
    assert _error_as_shaped(levels, share) == pytest.approx(np.sqrt(0.08 / 7 * 9 / 8))
