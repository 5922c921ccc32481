"""The parts of the search for slow changes, where it is known what they must say."""

from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.incident import drifts
from iotrace.analyze.incident.change_points import Segmentation
from iotrace.analyze.incident.drifts import (
    Blocks,
    _abrupt_parts,
    _blocks,
    _course,
    _error_as_shaped,
    _judged_course,
    _lasts,
    drifting,
    told_alike,
    told_apart,
)
from iotrace.analyze.incident.find import _Finder
from iotrace.analyze.incident.series import Series
from iotrace.analyze.incident.stretches import Course, Judged, Stretch, judge


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


def judged_of(values, stretches, borders=()):
    """A series of a value per second that was judged to be slow in these stretches, cut at these borders."""
    count = len(values)
    at = np.arange(count)
    series = Series("block", None, at, values, np.zeros(count), np.ones(count))
    cut = Segmentation([0, *borders, count], np.full(count, 100.0), 15.0)
    slow = np.zeros(count, dtype=bool)
    for first, end in stretches:
        slow[first:end] = True
    found = [Stretch(first, end, 0.3, 0.01, 100.0) for first, end in stretches]
    return Judged(series, found, np.full(count, 14.0), cut, slow)


def stairs(*steps):
    """Levels, each for so many seconds."""
    return np.concatenate([np.full(seconds, 14.0 + level) for level, seconds in steps])


@pytest.mark.parametrize(
    ("rise", "fall", "is_abrupt"),
    [(1.0, 1.0, True), (0.52, 0.52, True), (0.48, 1.0, False), (1.0, 0.48, False)],
)
def test_what_rises_and_falls_at_once_by_half_of_its_height_is_abrupt(rise, fall, is_abrupt):
    """1.0 high for a minute; the rest of its rise and fall takes the ten seconds before and after."""
    values = stairs((0, 300), (1 - rise, 10), (1, 60), (1 - fall, 10), (0, 300))
    judged = judged_of(values, [(310, 370)])
    assert _abrupt_parts(judged, judged.stretches[0], 1.0) == ([slice(310, 370)] if is_abrupt else [])


def test_what_only_chance_makes_look_abrupt_is_not():
    """The noise of single seconds is a fifth of the height: edges of medians vary by three fifths, at three sigmas."""
    noise = np.random.default_rng(1).normal(0, 0.2, 660)
    values = stairs((0, 300), (1, 60), (0, 300))
    for scale, is_abrupt in ((0.0, True), (0.5, True), (1.5, False)):
        judged = judged_of(values + scale * noise, [(300, 360)])
        assert bool(_abrupt_parts(judged, judged.stretches[0], 1.0)) == is_abrupt


def test_a_recording_that_begins_or_ends_in_a_freeze_has_one_edge_of_it():
    values = stairs((1, 60), (0, 600), (1, 60))
    judged = judged_of(values, [(0, 60), (660, 720)])
    assert [_abrupt_parts(judged, one, 1.0) for one in judged.stretches] == [
        [slice(0, 60)],
        [slice(660, 720)],
    ]
    judged = judged_of(stairs((1, 60)), [(0, 60)])
    assert _abrupt_parts(judged, judged.stretches[0], 1.0) == [], "of nothing but slow times nothing is known"


@pytest.mark.parametrize(("cuts", "is_found"), [(0, True), (3, True), (4, False)])
def test_a_freeze_inside_of_a_slow_stretch_may_be_cut_into_four(cuts, is_found):
    values = 14 + np.interp(np.arange(720), [300, 360, 420], [0, 0.6, 0])
    values[350:370] += 4
    judged = judged_of(
        values, [(300, 420)], [300, 350, *(350 + 4 * (cut + 1) for cut in range(cuts)), 370, 420]
    )
    assert _abrupt_parts(judged, judged.stretches[0], 1.0) == ([slice(350, 370)] if is_found else [])


def test_of_what_is_abrupt_within_what_is_the_whole_is_told():
    values = stairs((0, 300), (1, 30), (4, 20), (1, 30), (0, 300))
    judged = judged_of(values, [(300, 380)], [300, 330, 350, 380])
    assert _abrupt_parts(judged, judged.stretches[0], 1.0) == [slice(300, 380)]


def test_a_drift_before_a_freeze_takes_nothing_from_its_edge():
    """Five seconds before it latency is as high as in it; what counts is what lies right beside it."""
    values = stairs((0, 300), (1, 30), (0, 4), (1, 60), (0, 300))
    judged = judged_of(values, [(334, 394)])
    assert _abrupt_parts(judged, judged.stretches[0], 1.0) == [slice(334, 394)]


@pytest.mark.parametrize(("slot_s", "is_abrupt"), [(1.0, True), (5.0, False)])
def test_an_edge_is_looked_at_for_seconds_however_few_samples_they_are(slot_s, is_abrupt):
    """Up within five samples, as nothing is that falls at once: of a second each they are an edge."""
    ramp = np.linspace(0, 1, 7)[1:-1]
    values = 14 + np.concatenate([np.zeros(100), ramp, np.ones(40), np.zeros(100)])
    judged = judged_of(values, [(100, 145)])
    assert bool(_abrupt_parts(judged, judged.stretches[0], slot_s)) == is_abrupt


@pytest.mark.parametrize(
    ("frozen_s", "factor"), [((1200, 1220), 300), ((300, 330), 1000), ((690, 710), 100), ((650, 660), 30)]
)
def test_a_freeze_beside_a_slow_change_or_in_it_hides_neither(frozen_s, factor):
    """Half an hour: up to 2.5x from second 600 to 700, back from 760 to 860; and frozen for a while."""
    at = np.arange(1800)
    values = 14 + np.random.default_rng(3).normal(0, 0.1, 1800)
    values += np.log(2.5) * np.interp(at, [600, 700, 760, 860], [0, 1, 1, 0])
    values[slice(*frozen_s)] += np.log(factor)
    series = Series("block", None, at, values, np.full(1800, 0.01), np.full(1800, 100.0))
    drift = drifting(judge(series), [np.full(1800, 100.0)], 1.0)
    sudden, gradual = told_apart(drift, 1.0)
    assert [(one.first, one.end) for one in sudden.stretches] == [frozen_s]
    assert sudden.stretches[0].excess == pytest.approx(np.log(factor), abs=1.0)
    assert sudden.slow.sum() == frozen_s[1] - frozen_s[0]
    (change,) = gradual.stretches
    assert (change.first, change.end) == (pytest.approx(650, abs=15), pytest.approx(810, abs=15))
    assert np.exp(change.excess) == pytest.approx(2.5, rel=0.05)


def ramped(seed, knots, height, sigma):
    """Ten minutes, up and down in straight lines; ``sigma`` is the scatter of a second's level."""
    at = np.arange(600)
    values = 14 + np.random.default_rng(seed).normal(0, sigma, 600)
    values += height * np.interp(at, knots, [0, 1, 1, 0])
    series = Series("block", None, at, values, np.full(600, sigma**2), np.full(600, 100.0))
    return drifting(judge(series), [np.full(600, 100.0)], 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_change_that_looks_like_an_edge_in_one_stream_is_one(seed):
    """Twenty seconds up and down; of a few I/Os a second it looks like ten."""
    clear = ramped(seed, [200, 220, 330, 350], np.log(2.5), 0.05)
    sparse = ramped(seed + 10, [206, 216, 334, 344], np.log(2.5), 0.2)
    assert told_apart(sparse, 1.0)[0].stretches
    (_, slow), (sudden, other) = told_alike([clear, sparse], 1.0)
    assert [len(each.stretches) for each in (slow, sudden, other)] == [1, 0, 1]
    assert np.exp(other.stretches[0].excess) == pytest.approx(2.5, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("knots", [[200, 201, 330, 331], [60, 61, 120, 121]])
def test_a_jump_stays_one_beside_a_slow_change_of_a_few_ios_or_of_another_time(seed, knots):
    jump = ramped(seed, knots, np.log(2.5), 0.05)
    slow = ramped(seed + 10, [190, 215, 320, 345], np.log(2.5), 0.2)
    (sudden, gradual), _ = told_alike([jump, slow], 1.0)
    assert [(one.first, one.end) for one in sudden.stretches] == [(knots[1], knots[3])]
    assert gradual.stretches == []
