"""Day and month of dates with slashes. Expected: what a person of either country meant."""

import pytest

from iotrace.capture.formats.text_times import TextTimes
from iotrace.schemas import IotraceError

MARCH_5 = 1_772_668_800 * 10**9
"""5 March 2026 00:00 UTC, by ``date -u -d 2026-03-05 +%s``."""
SECOND = 10**9


def read(*texts: str, **how: bool) -> list[int | None]:
    times = TextTimes("UTC")
    times.learn(texts, "files.csv", **how)
    return [times.utc_ns(text) for text in texts]


@pytest.mark.parametrize(
    "texts",
    [
        ("5/03/2026 2:00:00 PM", "5/03/2026 2:00:15 PM"),
        ("3/5/2026 2:00:00 PM", "3/5/2026 2:00:15 PM"),
        ("3/5/2026 14:00:00", "3/5/2026 14:00:15"),
        ("3/5/2026 14:00:00", "4/5/2026 14:00:00"),
    ],
    ids=["Australian", "American", "24 hours", "a day or a month apart"],
)
def test_what_can_be_read_two_ways_is_refused(texts):
    with pytest.raises(
        IotraceError, match=r"'files.csv' has dates such as \d+/\d+/2026 .*, which can be read two ways"
    ):
        read(*texts)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("4/03/2026 11:59:50 PM", "5/03/2026 12:00:05 AM"),
        ("3/4/2026 11:59:50 PM", "3/5/2026 12:00:05 AM"),
        ("04/03/2026 23:59:50", "05/03/2026 00:00:05"),
        ("05/03/2026 00:00:05", "04/03/2026 23:59:50"),
    ],
    ids=["Australian", "American", "24 hours", "newest first"],
)
def test_a_log_that_goes_past_midnight_shows_its_days(first, second):
    assert sorted(read(first, second)) == [MARCH_5 - 10 * SECOND, MARCH_5 + 5 * SECOND]


def test_programs_of_linux_write_am_and_pm_with_month_first_dates():
    text = "03/05/2026 12:00:05 AM"
    assert read(text, from_c_library=True) == [MARCH_5 + 5 * SECOND]
    with pytest.raises(IotraceError):
        read("03/05/26 12:00:05 AM", from_c_library=True)  # en_IN puts the day first
