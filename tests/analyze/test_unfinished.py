"""I/Os without an end count for as long as they waited, those in flight at the end change nothing."""

from functools import partial

import numpy as np
import pytest

from iotrace.analyze import library
from iotrace.analyze.stats.histogram import Histogram
from iotrace.analyze.unfinished import ends_may_be_lost, unfinished
from iotrace.schemas.manifest import PartRecorded, Quality

SECOND = 1_000_000_000
MS = 1_000_000
COUNT = 20_000
"""Reads, 100 a second for 200 s, each 2 ms."""


def _recording(make_recording, hung, **manifest):
    """``hung`` says of the number of each I/O whether it has no end; the recording ends 1 ms after the last began."""
    issued_ns = np.arange(COUNT) * 10 * MS
    ended = np.where(hung(np.arange(COUNT)), -1, issued_ns + 2 * MS)
    return make_recording(
        {"issued_ns": issued_ns, "completed_ns": [None if end < 0 else int(end) for end in ended]},
        window_ns=int(issued_ns[-1]) + MS,
        **manifest,
    )


def _found(recording, **where):
    with library.opened(recording) as connection:
        return unfinished(partial(library.run, connection), recording.manifest, "block", "service", **where)


def _bounds(recording, quantile=0.99):
    found = _found(recording)
    ended = COUNT - (0 if found.rows is None else sum(found.rows["io_count"].to_pylist()))
    latencies = Histogram(np.array([2 * MS]), np.array([ended]), ended * 2 * MS, 2 * MS)
    return found.bounds(latencies, quantile, ["read", "write"], None)


def early(one_in, until=10_000):
    """One I/O in so many of the first half hangs: it waits for 100 s at the least."""
    return lambda number: (number % one_in == 7) & (number < until)


def test_what_hangs_beyond_the_quantile_is_what_the_quantile_is_at_least(make_recording):
    bounds = _bounds(_recording(make_recording, early(40)))
    assert bounds.unfinished_count == 250
    assert bounds.at_least_ns > 100 * SECOND
    assert bounds.is_within(15 * MS) is False
    assert bounds.is_within(1000 * SECOND) is None


def test_less_than_lies_beyond_the_quantile_changes_nothing(make_recording):
    bounds = _bounds(_recording(make_recording, early(60)))
    assert (bounds.at_least_ns, bounds.at_most_ns) == (2 * MS, 2 * MS)
    assert bounds.is_within(15 * MS) is True
    assert bounds.is_within(MS) is False


@pytest.mark.parametrize(("in_flight", "is_within"), [(1, True), (32, True), (300, None)])
def test_ios_in_flight_at_the_end_have_waited_for_hardly_any_time(make_recording, in_flight, is_within):
    """300 of them, begun within the last 3 s, are enough to decide, and have not waited for 5 s."""
    recording = _recording(make_recording, lambda number: number >= COUNT - in_flight)
    assert _bounds(recording).is_within(5 * SECOND) is is_within


def test_ends_that_may_have_been_lost_decide_nothing(make_recording):
    lost = Quality(events_lost=5).judge(COUNT)
    many = _bounds(_recording(make_recording, early(40), quality=lost))
    assert many.is_within(15 * MS) is None
    assert many.is_within(MS) is False, "most of them ended, and later than that"
    assert _bounds(_recording(make_recording, early(60), quality=lost)).is_within(15 * MS) is True


def test_a_source_without_ends_has_no_waits(make_recording):
    found = _found(_recording(make_recording, lambda number: number >= 0))
    assert found.rows is None


def test_only_ios_of_the_span_count_each_in_its_slot(make_recording):
    recording = _recording(make_recording, lambda number: np.isin(number, [100, 5_000, 15_000]))
    found = _found(recording, span_ns=(10 * SECOND, 160 * SECOND), slot_ns=SECOND)
    waits = [(row["op"], row["role"], row["slot"], row["io_count"]) for row in found.rows.to_pylist()]
    assert waits == [("read", "unattributed", 40, 1), ("read", "unattributed", 140, 1)]
    waited_s = [row["bucket_ns"] / SECOND for row in found.rows.to_pylist()]
    assert waited_s == pytest.approx([149.991, 49.991], rel=0.0005)


def test_of_a_layer_that_was_recorded_for_a_part_its_last_event_is_the_end(make_recording):
    hung = lambda number: number == 19_000  # noqa: E731
    whole = PartRecorded("block", 200 * SECOND, 3600 * SECOND)
    (row,) = _found(
        _recording(make_recording, hung, quality=Quality(part_recorded=[whole]).judge(COUNT))
    ).rows.to_pylist()
    assert row["bucket_ns"] / SECOND == pytest.approx(9.99, rel=0.001)


@pytest.mark.parametrize(
    ("quality", "is_lost"),
    [
        (Quality(), False),
        (Quality(ended="the recorder was killed"), False),
        (Quality(shared_time=["two sources"], source_gaps=1), False),
        (Quality(events_lost=1), True),
        (Quality(buffers_lost=1), True),
        (Quality(latencies_dropped=1), True),
        (Quality(clock_steps=1), True),
        (Quality(truncated_tail=True), True),
    ],
)
def test_which_losses_may_be_of_ends(quality, is_lost):
    assert ends_may_be_lost(quality.judge(1000)) is is_lost
