"""How a load comes over the seconds: what differs is said, and the same load drawn again is the same work."""

import numpy as np
import pytest

from iotrace.analyze.compare.comparison import WorkAspect
from iotrace.analyze.compare.course import Course, rates_differ, variations
from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.compare.same_work import Work, check_same_work
from iotrace.analyze.compare.words import _reservation

SECOND = 1_000_000_000


def _queue(make_recording, seed, rate_per_s, *, service_s, length_s=100):
    """Arrivals at random at ``rate_per_s`` of each second, served one after another: an M/M/1 queue."""
    source = np.random.default_rng(seed)
    rates = np.broadcast_to(rate_per_s, length_s)
    at_s = np.concatenate(
        [second + np.sort(source.uniform(size=source.poisson(rate))) for second, rate in enumerate(rates)]
    )
    free_s, took_s = 0.0, []
    for due_s, needed_s in zip(at_s, source.exponential(service_s, len(at_s)), strict=True):
        free_s = max(free_s, due_s) + needed_s
        took_s.append(free_s - due_s)
    at_ns = (at_s * SECOND).astype(np.int64)
    return make_recording(
        {
            "issued_ns": at_ns,
            "completed_ns": at_ns + (np.array(took_s) * SECOND).astype(np.int64),
            "offset_bytes": source.integers(0, 1 << 30, len(at_s)) * 8192,
        },
        window_ns=length_s * SECOND,
    )


def _differ(found):
    return [aspect.name for aspect in found.work if aspect.differs]


IN_TURN = np.where(np.arange(100) // 10 % 2, 400, 200)


def test_spells_of_more_load_are_other_work(make_recording):
    steady = _queue(make_recording, 1, 300, service_s=0.002)
    spells = _queue(make_recording, 2, IN_TURN, service_s=0.002)
    found = compare(steady, spells)
    assert _differ(found) == ["rate over time"]
    (aspect,) = [one for one in found.work if one.name == "rate over time"]
    # 200 and 400 in turn are 100 on either side of 300.
    assert aspect.b == pytest.approx(1 / 3, abs=0.03)
    assert aspect.a < 0.05
    assert not found.same_work
    assert found.verdicts[0].reservation.startswith("B had it harder (rate over time): this may be why")
    (back,) = compare(spells, steady).verdicts
    assert back.direction == "faster"
    assert back.reservation == "B had it easier (rate over time): this may flatter it."


def test_a_few_percent_more_close_to_a_limit_are_other_work(make_recording):
    found = compare(
        _queue(make_recording, 1, 900, service_s=0.001), _queue(make_recording, 2, 940, service_s=0.001)
    )
    assert _differ(found) == ["rate"]
    assert "I/Os per second instead of" in found.warnings[0]
    assert (
        "B had it harder (rate): this may be why; close to a limit of the storage"
        in found.verdicts[0].reservation
    )


@pytest.mark.parametrize("rate_per_s", [5, 300, IN_TURN], ids=["few", "steady", "in turn"])
def test_one_load_drawn_again_is_the_same_work(rate_per_s):
    source = np.random.default_rng(7)
    rates = np.broadcast_to(rate_per_s, 100)
    pairs = [[Course(source.poisson(rates).astype(float), SECOND) for _ in "ab"] for _ in range(100)]
    found = [check_same_work(*(_work(course) for course in pair), None, label="B").aspects for pair in pairs]
    assert sum(one.differs for aspects in found for one in aspects if one.name == "rate over time") == 0


def _work(course):
    return Work("w", "block", 100 * SECOND, {("read", 8192): int(course.io_count.sum())}, course=course)


def _at_random(seed, rate, *, slots=240, slot_ns=SECOND):
    return Course(np.random.default_rng(seed).poisson(rate, slots).astype(float), slot_ns)


@pytest.mark.parametrize(("more", "is_clear"), [(1.01, False), (1.04, True)])
def test_rates_differ_where_they_differ_by_more_than_chance(more, is_clear):
    """24,000 arrivals at random are uncertain by 0.65 %, a ratio by 0.9 %: 4 % are over four times that."""
    assert rates_differ(_at_random(1, 100), _at_random(2, 100 * more)) == is_clear


def test_rates_of_spells_are_uncertain_by_their_spells():
    """Two of twelve spells more make 5 % more load, which says little of the next recording."""
    rates = [np.where(np.arange(240) // 20 % 12 < busy, 300, 100) for busy in (5, 6)]
    assert rates[1].mean() > 1.05 * rates[0].mean()
    assert not rates_differ(*(_at_random(seed, one) for seed, one in enumerate(rates)))


def test_too_few_slots_tell_nothing():
    many, few = _at_random(1, 1000, slots=20), _at_random(2, 2000, slots=19)
    assert not rates_differ(many, few)
    assert variations(many, few) is None
    assert rates_differ(many, _at_random(2, 2000, slots=20))
    assert variations(many, _at_random(2, 2000, slots=20)) is not None


def test_courses_are_held_against_each_other_in_slots_of_one_length():
    """By seconds the rate changes; in slots of twice that it does not."""
    quick = Course(np.resize([50.0, 150.0], 240), SECOND)
    assert variations(quick, _at_random(2, 100)).a == pytest.approx(0.5, abs=0.02)
    assert variations(quick, _at_random(2, 200, slot_ns=2 * SECOND)).a == 0
    assert quick.in_slots_of(2 * SECOND).io_count.tolist() == [200.0] * 120
    assert quick.in_slots_of(2 * SECOND).slot_ns == 2 * SECOND


@pytest.mark.parametrize(
    ("a_cv", "b_cv", "differs"),
    [(0, 0.08, False), (0, 0.12, True), (0.6, 0.78, False), (0.6, 0.86, True), (0.86, 0.6, True)],
)
def test_how_far_variations_may_lie_apart(a_cv, b_cv, differs):
    """A tenth at least, and a quarter of the larger one."""
    half = np.resize([-1.0, 1.0], 24).repeat(10)
    a, b = (Course(10_000 * (1 + cv * half), SECOND) for cv in (a_cv, b_cv))
    (aspect,) = [
        one for one in check_same_work(_work(a), _work(b), None).aspects if one.name == "rate over time"
    ]
    assert aspect.differs == differs


@pytest.mark.parametrize(("b_rate", "differs"), [(101.5, False), (102.6, True), (97.3, True), (98.5, False)])
def test_a_clear_difference_of_rates_counts_from_2_percent(b_rate, differs):
    a, b = (
        Work(
            "w",
            "block",
            240 * SECOND,
            {("read", 8192): int(rate * 240_000)},
            course=_at_random(seed, rate * 1000),
        )
        for seed, rate in enumerate((100, b_rate))
    )
    (aspect,) = [one for one in check_same_work(a, b, None).aspects if one.name == "rate"]
    assert aspect.differs == differs


@pytest.mark.parametrize(("b_rate", "is_little"), [(109, True), (112, False), (95, False)])
def test_what_little_more_load_may_do_is_said(b_rate, is_little):
    rate = WorkAspect("rate", "I/Os per second", 100, 100, b_rate, differs=True, favours="a")
    assert ("close to a limit" in _reservation("B", "slower", [rate])) == is_little


def test_of_the_aspects_that_differ_the_rate_tells_of_a_limit():
    length = WorkAspect("length", "ns", 10.0, 10.0, 30.0, differs=True, meaning="x")
    rate = WorkAspect("rate", "I/Os per second", 900.0, 900.0, 940.0, differs=True, meaning="y", favours="a")
    assert "4.4 % more I/Os per second" in _reservation("B", "slower", [length, rate])
    assert "close to a limit" not in _reservation("B", "slower", [length])


def test_rates_that_vary_alike_are_not_apart_however_much_they_vary():
    wave = np.where(np.arange(120) % 2, 200.0, 400.0)
    found = variations(Course(wave, SECOND), Course(wave[::-1].copy(), SECOND))
    assert found.a == pytest.approx(found.b)
    assert found.a > 0.3
    assert not found.are_apart
