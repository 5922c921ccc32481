"""The verdict follows from what is known to be missing."""

import pytest

from iotrace.schemas import Quality


@pytest.mark.parametrize(
    ("quality", "events", "verdict", "reason"),
    [
        (Quality(), 1000, "good", None),
        (Quality(unpaired_issues=3), 1000, "good", None),
        (Quality(events_lost=1), 1000, "usable", "1 event lost (0.10%)"),
        (Quality(events_lost=10), 990, "poor", "10 events lost (1.00%)"),
        (Quality(buffers_lost=1), 10**6, "poor", "1 buffer lost"),
        (Quality(sequence_holes=2), 1000, "usable", "2 holes in the buffer sequence"),
        (Quality(truncated_tail=True), 1000, "usable", "the end of the source is cut off"),
        (Quality(ended="the disk was full"), 1000, "usable", "recording ended early: the disk was full"),
    ],
)
def test_verdict(quality: Quality, events: int, verdict: str, reason: str | None) -> None:
    quality.judge(events)
    assert quality.verdict == verdict
    assert quality.reasons == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 pair of sources without"), (2, "2 pairs of sources without")]
)
def test_one_of_a_kind_is_no_plural(count: int, words: str) -> None:
    assert Quality(source_gaps=count).judge(10).reasons[0].startswith(words)


def test_lost_events_are_a_share_of_all_events_not_of_the_ios_among_them() -> None:
    """3 of 24 events, none of them an I/O, were once told as 100 %."""
    assert Quality(events_lost=3).judge(0, 21).reasons == ["3 events lost (12.50%)"]
    assert Quality(events_lost=3).judge(0).reasons == ["3 events lost"]
