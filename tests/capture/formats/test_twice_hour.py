"""The hour that comes twice: local times made from known moments, in several orders, and the moments found again."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from iotrace.capture.clocks.zones import either_ns, settled_ns
from iotrace.capture.formats.text_times import TextTimes
from iotrace.capture.formats.twice_hour import TwiceHour

ENDS = datetime(2026, 10, 25, 1, tzinfo=UTC)  # 03:00 in Berlin becomes 02:00
SECOND = 10**9


def moments(first_minute, last_minute, every):
    """UTC in nanoseconds, from minutes before or after the change."""
    return [
        round((ENDS + timedelta(minutes=minute)).timestamp()) * SECOND
        for minute in range(first_minute, last_minute + 1, every)
    ]


def as_local(utc_ns, zone="Europe/Berlin"):
    local = datetime.fromtimestamp(utc_ns / SECOND, ZoneInfo(zone)).replace(tzinfo=UTC)
    return round(local.timestamp()) * SECOND


def read(utc):
    """What is known of each time before its neighbours are looked at."""
    local = [as_local(one) for one in utc]
    return [settled_ns(one, "Europe/Berlin") or either_ns(one, "Europe/Berlin") for one in local]


def found(utc):
    times = read(utc)
    hour = TwiceHour(times)
    return [hour.settled(time) for time in times]


@pytest.mark.parametrize("every", [1, 5, 7, 15, 20, 30])
@pytest.mark.parametrize("span", [(-120, 120), (-60, 90), (-180, 59)])
@pytest.mark.parametrize("direction", [1, -1], ids=["as taken", "newest first"])
def test_both_passes(every, span, direction):
    utc = moments(*span, every)[::direction]
    assert found(utc) == utc


@pytest.mark.parametrize("every", [1, 5])
def test_a_file_that_lies_within_both_passes(every):
    utc = moments(-30, 29, every)
    assert found(utc) == utc


def test_lines_of_one_snapshot_and_of_two_servers_seconds_apart():
    utc = [one + shift * SECOND for one in moments(-90, 90, 5) for shift in (3, 3, 0, 0)]
    assert found(utc) == utc


@pytest.mark.parametrize("span", [(-120, -1), (-120, -20), (-63, -31)])
def test_the_first_pass_alone_follows_what_stands_above_it(span):
    utc = moments(*span, 1)
    assert found(utc) == utc


@pytest.mark.parametrize("span", [(0, 120), (20, 61), (40, 70)])
def test_the_second_pass_alone_leads_to_what_stands_below_it(span):
    utc = moments(*span, 1)
    assert found(utc) == utc


@pytest.mark.parametrize(
    "utc",
    [
        pytest.param(moments(-50, -10, 5), id="nothing else"),
        pytest.param(moments(10, 50, 5), id="nothing else, the second"),
        pytest.param(moments(-240, 240, 60), id="hourly"),
        pytest.param(moments(-120, -1, 1) + moments(60, 90, 1), id="the second pass was not recorded"),
    ],
)
def test_where_neither_side_tells_nothing_is_said(utc):
    times = read(utc)
    assert [one for one, time in zip(found(utc), times, strict=True) if isinstance(time, tuple)] == [
        None
    ] * sum(isinstance(time, tuple) for time in times)


def test_the_hour_that_spring_leaves_out_does_not_come_twice():
    gone = round(datetime(2026, 3, 29, 2, 30, tzinfo=UTC).timestamp()) * SECOND
    assert either_ns(gone, "Europe/Berlin") is None
    assert either_ns(gone, "+0100") is None


def test_text_times_tell_both():
    times = TextTimes("Europe/Berlin")
    first = moments(-30, -30, 1)[0]
    assert times.utc_ns("2026-10-25T02:30:00") is None
    assert times.either_ns("2026-10-25T02:30:00") == (first, first + 3600 * SECOND)
    assert times.either_ns("2026-10-25T03:30:00") is None
