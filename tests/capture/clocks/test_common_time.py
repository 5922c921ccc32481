"""Sources of different times in one recording: refused, unless that is meant, and told with how much they share.

An .etl and a .blg three years apart once became one recording, "good", with clocks "within 31 ms".
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.capture.clocks.alignment import Span, shared_time
from iotrace.schemas import IotraceError

S = 10**9


def span(name, kind, start_s, end_s, **more):
    return Span(name, kind, int(start_s * S), int(end_s * S), **more)


@pytest.mark.parametrize(
    ("spans", "apart", "little", "part"),
    [
        # Counters over the whole day hold a trace of five minutes.
        ([span("a", "blg", 0, 86_400), span("b", "etl", 600, 900)], 0, 0, 0),
        ([span("a", "blg", 0, 600), span("b", "etl", 600, 900)], 1, 0, 0),
        ([span("a", "blg", 0, 600), span("b", "etl", 590, 900)], 0, 1, 0),
        ([span("a", "blg", 0, 600), span("b", "etl", 449, 749)], 0, 0, 1),
        ([span("a", "blg", 0, 600), span("b", "etl", 320, 620)], 0, 0, 0),
        # Both may be off by a second: they may have touched.
        ([span("a", "blg", 0, 600), span("b", "etl", 601, 900, uncertainty_ns=2 * S)], 0, 1, 0),
        # Files of one session that follow one another are one source, but not those of another machine or kind.
        ([span("a", "etl", 0, 600), span("b", "etl", 620, 900), span("c", "blg", 0, 900)], 0, 0, 0),
        ([span("a", "etl", 0, 600), span("b", "etl", 700, 900)], 1, 0, 0),
        ([span("a", "day", 0, 86_400), span("b", "day", 86_400 + 4_000, 172_800)], 0, 0, 0),
        # The trace ran in the gap between two logs.
        ([span("a", "blg", 0, 100), span("b", "blg", 500, 600), span("c", "etl", 200, 400)], 3, 0, 0),
        # A single snapshot within, and one without.
        ([span("a", "etl", 0, 100), span("b", "dmv", 50, 50)], 0, 0, 0),
        ([span("a", "etl", 0, 100), span("b", "dmv", 150, 150)], 1, 0, 0),
    ],
)
def test_pairs(spans, apart, little, part):
    for order in (spans, spans[::-1]):
        found = shared_time(order)
        assert (len(found.apart), len(found.little), len(found.part)) == (apart, little, part)


def test_the_share_is_said():
    found = shared_time([span("a.etl", "etl", 0, 600), span("b.blg", "blg", 588, 3600)])
    assert found.little == [
        "'a.etl' and 'b.blg' were both recording for 12.000 s, 2.0 % of the 10.00 min of 'a.etl'"
    ]


@pytest.mark.parametrize(("hours", "told"), [(7, "with 7 h between"), (13, "with 13 h"), (24 * 1096, "")])
def test_refusal_tells_of_time_zones_that_would_explain_it(hours, told):
    found = shared_time(
        [span("a.etl", "etl", 0, 600), span("b.csv", "csv", hours * 3600 + 60, hours * 3600 + 300)]
    )
    with pytest.raises(IotraceError, match="they share no time") as problem:
        found.refuse()
    assert told in problem.value.message
    assert ("time zones they would" in problem.value.message) == bool(told)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), min_size=2, max_size=2))
def test_shares_are_those_of_seconds_counted_one_by_one(pair):
    (a, first), (b, second) = pair
    one, other = (np.zeros(600, dtype=bool) for _ in range(2))
    one[a : a + first] = other[b : b + second] = True
    found = shared_time([span("a", "x", a, a + first), span("b", "y", b, b + second)])
    share = (one & other).sum() / min(first, second)
    assert bool(found.apart) == (share == 0)
    assert bool(found.little) == (0 < share < 0.5)
    assert bool(found.part) == (0.5 <= share < 0.9)
