"""Windows that follow one another: what makes a pattern, by hand."""

from types import SimpleNamespace

from iotrace.analyze.incident.periodic import patterns_of


def window(first, length=5, excess=1.0):
    strongest = (None, SimpleNamespace(excess=excess))
    return SimpleNamespace(first=first, end=first + length, strongest=strongest)


def test_five_alike_are_a_pattern_and_what_comes_between_is_none():
    odd = window(130)
    every = [window(60 * index) for index in range(5)]
    (pattern,), rest = patterns_of([*every, odd], 300)
    assert (pattern.members, pattern.period, rest) == (every, 60, [odd])


def test_four_alike_and_a_longer_one_are_none():
    every = [window(0), window(60), window(120, length=50), window(180), window(240)]
    assert patterns_of(every, 300) == ([], every)


def test_what_is_longer_or_slower_breaks_the_pattern():
    long, slow = window(120, length=50), window(240, excess=3.0)
    every = [window(0), window(60), long, window(180), slow, window(300), window(360), window(420)]
    (pattern,), rest = patterns_of(every, 480)
    assert len(pattern.members) == 6
    assert rest == [long, slow]


def test_what_recurs_for_less_than_half_of_the_recording_is_no_pattern():
    every = [window(20 * index) for index in range(5)]
    assert patterns_of(every, 300) == ([], every)
    assert len(patterns_of(every, 190)[0]) == 1
