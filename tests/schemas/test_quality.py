"""The verdict follows from what is known to be missing."""

import pytest

from iotrace.schemas import Quality


@pytest.mark.parametrize(
    ("quality", "events", "verdict", "reason"),
    [
        (Quality(), 1000, "good", None),
        (Quality(unpaired_issues=3), 1000, "good", None),
        (Quality(events_lost=1), 1000, "usable", "1 event lost (0.10 %)"),
        (Quality(events_lost=10), 990, "poor", "10 events lost (1.00 %)"),
        (Quality(events_lost=10), 991, "usable", "10 events lost (1.00 %)"),
        (Quality(events_lost=1), 0, "poor", "1 event lost"),
        (Quality(buffers_lost=1), 10**6, "poor", "1 buffer lost"),
        (Quality(sequence_holes=2), 1000, "usable", "2 holes in the buffer sequence"),
        (Quality(sequence_holes=1), 1000, "usable", "1 hole in the buffer sequence"),
        (Quality(damaged_buffers=1), 1000, "usable", "1 damaged buffer skipped"),
        (Quality(damaged_buffers=2), 1000, "usable", "2 damaged buffers skipped"),
        (Quality(latencies_dropped=1), 1000, "usable", "1 implausible latency dropped"),
        (Quality(latencies_dropped=3), 1000, "usable", "3 implausible latencies dropped"),
        (Quality(clock_steps=1), 1000, "usable", "1 clock step"),
        (Quality(clock_steps=2), 1000, "usable", "2 clock steps"),
        (Quality(source_gaps=2), 1000, "usable", "2 pairs of sources without time in common"),
        (Quality(shared_time=["a"]), 1000, "usable", "1 pair of sources with little time in common"),
        (Quality(shared_time=["a", "b"]), 1000, "usable", "2 pairs of sources with little time in common"),
        (Quality(unpaired_completions=10), 100, "good", None),
        (Quality(unpaired_completions=11), 100, "usable", "11 completions without their start"),
        (Quality(unpaired_completions=20), 20_000, "good", None),
        (Quality(unpaired_completions=21), 20_999, "usable", "21 completions without their start"),
        (Quality(unpaired_completions=21), 21_000, "good", None),
        (Quality(truncated_tail=True), 1000, "usable", "the source file is truncated"),
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
    assert Quality(events_lost=3).judge(0, 21).reasons == ["3 events lost (12.50 %)"]
    assert Quality(events_lost=3).judge(0).reasons == ["3 events lost"]


def test_pairs_without_time_in_common_are_not_told_again_as_pairs_with_little():
    apart = Quality(source_gaps=1, shared_time=["a"]).judge(10)
    assert apart.reasons == ["1 pair of sources without time in common"]
    both = Quality(source_gaps=1, shared_time=["a", "b", "c"]).judge(10)
    assert both.reasons == [
        "1 pair of sources without time in common",
        "2 pairs of sources with little time in common",
    ]


NOT_THERE = "that the kernel's own counters of the disks show are not in the trace"


@pytest.mark.parametrize(
    ("missing", "verdict", "words"),
    [
        ({"missing_ios": 10, "counted_ios": 1000}, "poor", "10 I/Os and 0 bytes (1.00 %)"),
        ({"missing_ios": 9, "counted_ios": 1000}, "usable", "9 I/Os and 0 bytes (0.90 %)"),
        ({"missing_ios": 1, "counted_ios": 1000}, "usable", "1 I/O and 0 bytes (0.10 %)"),
        ({"missing_bytes": 4096, "counted_bytes": 409_600}, "poor", "4,096 bytes (1.00 %)"),
        ({"missing_bytes": 4095, "counted_bytes": 409_600}, "usable", "4,095 bytes (1.00 %)"),
        (
            {"missing_ios": 1, "counted_ios": 100, "missing_bytes": 512, "counted_bytes": 5120},
            "poor",
            "1 I/O and 512 bytes (10.00 %)",
        ),
        ({"missing_ios": 2, "counted_ios": 0}, "poor", "2 I/Os and 0 bytes (200.00 %)"),
        ({"missing_bytes": 2, "counted_bytes": 0}, "poor", "2 bytes (200.00 %)"),
    ],
)
def test_what_the_kernel_counted_and_the_trace_lacks(missing, verdict, words):
    told = Quality(**missing).judge(1000)
    assert (told.verdict, told.reasons) == (verdict, [f"{words} {NOT_THERE}"])


def test_whose_lines_are_lost_stands_beside_how_many_and_what_is_bridged_behind():
    told = Quality(events_lost=10, left_out=["10 lines of a", "1 line of b"]).judge(0, 90)
    assert (told.verdict, told.reasons) == (
        "poor",
        ["10 events lost (10.00 %): 10 lines of a", "1 line of b"],
    )
    assert told.left_out == ["10 lines of a", "1 line of b"]
    bridged = Quality(left_out=["1 line of b"]).judge(0, 90)
    assert (bridged.verdict, bridged.reasons) == ("usable", ["1 line of b"])


def test_the_worst_comes_first_and_a_second_look_forgets_the_first():
    told = Quality(clock_steps=1, buffers_lost=2).judge(10)
    assert (told.verdict, told.words) == ("poor", "with heavy loss")
    assert told.reasons == ["2 buffers lost", "1 clock step"]
    told.buffers_lost = 0
    assert (told.judge(10).verdict, told.words) == ("usable", "with flaws")
    told.clock_steps = 0
    assert (told.judge(10).verdict, told.words, told.reasons) == ("good", "without known loss", [])


def test_a_share_is_of_what_was_kept_where_that_is_more_than_was_recorded():
    assert Quality(events_lost=10).judge(90, 20).reasons == ["10 events lost (10.00 %)"]
