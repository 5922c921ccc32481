"""Rare, very slow I/Os and stalls decide where quantiles do not show them; heavy tails alone do not."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.compare.class_latency import DOUBLINGS, ClassLatency, SlotCounts
from iotrace.analyze.compare.comparison import ClassComparison, Figure
from iotrace.analyze.compare.rare import rare_ios
from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.compare.words import _mean_apart, verdicts
from iotrace.analyze.stats.histogram import Histogram
from iotrace.schemas.manifest import Quality

SECOND = 1_000_000_000
SLOTS = 240
USUAL_BITS, SLOW_BITS = 20, 30


def _recording(make_recording, seed, latency_s, *, count=60_000, length_s=200, **manifest):
    """Latencies that are no number never end."""
    source = np.random.default_rng(seed)
    at_s = np.sort(source.uniform(0, length_s, count))
    took_s = latency_s(source, at_s)
    at_ns, hangs = (at_s * SECOND).astype(np.int64), np.isnan(took_s)
    ended_ns = at_ns + (np.where(hangs, 0, took_s) * SECOND).astype(np.int64)
    return make_recording(
        {
            "issued_ns": at_ns,
            "completed_ns": pa.array(ended_ns, mask=hangs) if hangs.any() else ended_ns,
            "offset_bytes": source.integers(0, 1 << 20, count) * 8192,
        },
        window_ns=length_s * SECOND,
        **manifest,
    )


def usual(source, at_s):
    return 0.001 * source.lognormal(0, 0.6, len(at_s))


def one_in_a_thousand_a_second_more(source, at_s):
    return usual(source, at_s) + (source.uniform(size=len(at_s)) < 0.001)


def one_in_two_thousand_five_seconds_more(source, at_s):
    return usual(source, at_s) + 5 * (source.uniform(size=len(at_s)) < 0.0005)


def some_hang(one_in):
    """So many never end, and have waited for 10 s at the least."""

    def latency_s(source, at_s):
        hangs = (source.uniform(size=len(at_s)) < 1 / one_in) & (at_s < 190)
        return np.where(hangs, np.nan, usual(source, at_s))

    return latency_s


def in_flight_at_the_end(source, at_s):
    """A second in which nothing is answered, and then the recording ends."""
    return np.where(at_s > 199, np.nan, usual(source, at_s))


def silent_two_seconds_a_minute(source, at_s):
    return usual(source, at_s) + np.maximum(2 - at_s % 60, 0)


def wide(source, at_s):
    return 0.001 * source.lognormal(0, 1.5, len(at_s))


def without_a_mean_to_rely_on(source, at_s):
    return 0.0003 * (1 + source.pareto(1.2, len(at_s)))


@pytest.mark.parametrize("slow", [one_in_a_thousand_a_second_more, one_in_two_thousand_five_seconds_more])
def test_a_storage_whose_rare_ios_take_seconds_is_slower(make_recording, slow):
    good, bad = _recording(make_recording, 1, usual), _recording(make_recording, 2, slow)
    (slower,), (faster,) = compare(good, bad).verdicts, compare(bad, good).verdicts
    assert (slower.direction, slower.quantity, faster.direction) == ("slower", "mean", "faster")
    assert slower.sentence.startswith("Reads: B is slower: ")
    assert "or longer, none of A's 60,000, whose longest took" in slower.sentence
    assert "or longer, none of B's 60,000, whose longest took" in faster.sentence
    assert "; mean service " in slower.sentence
    assert "; p99 service " in slower.sentence


@pytest.mark.parametrize("one_in", [1000, 30])
def test_a_storage_on_which_ios_hang_is_slower(make_recording, one_in):
    """Without an end they are in no mean and no quantile, however many they are."""
    good, bad = _recording(make_recording, 1, usual), _recording(make_recording, 2, some_hang(one_in))
    hung = bad.read("io")["completed_ns"].null_count
    assert hung == pytest.approx(57_000 / one_in, rel=0.3)
    (slower,), (faster,) = compare(good, bad).verdicts, compare(bad, good).verdicts
    assert (slower.direction, faster.direction) == ("slower", "faster")
    assert slower.sentence.startswith(f"Reads: B is slower: {hung:,} of B's 60,000 took ")
    assert (
        "or longer (all of them without an end, and so in no mean or p99), none of A's 60,000"
        in slower.sentence
    )
    assert faster.sentence.startswith(f"Reads: B is faster: {hung:,} of A's 60,000 took ")


def test_ios_whose_ends_may_have_been_lost_decide_nothing(make_recording):
    good = _recording(make_recording, 1, usual)
    bad = _recording(make_recording, 2, some_hang(1000), quality=Quality(events_lost=50).judge(60_000))
    for pair in ((good, bad), (bad, good)):
        (verdict,) = compare(*pair).verdicts
        assert verdict.direction == "unknown"
        assert verdict.sentence.startswith(
            "Reads: whether B is faster or slower cannot be told: p99 service "
        )
        assert verdict.sentence.endswith(
            "; ends may have been lost, so how long I/Os without one took is not known."
        )


def test_lost_ends_are_said_beside_a_clear_difference(make_recording):
    good = _recording(make_recording, 1, usual)
    slow = _recording(
        make_recording,
        2,
        lambda source, at_s: 1.5 * some_hang(1000)(source, at_s),
        quality=Quality(events_lost=50).judge(60_000),
    )
    (verdict,) = compare(good, slow).verdicts
    assert verdict.sentence.startswith("Reads: B is slower: p99 service ")
    assert "; ends may have been lost" in verdict.sentence


def test_slow_ios_that_ended_decide_whatever_was_lost(make_recording):
    good = _recording(make_recording, 1, usual)
    bad = _recording(
        make_recording,
        2,
        lambda source, at_s: some_hang(1000)(source, at_s) + 60 * (source.uniform(size=len(at_s)) < 0.001),
        quality=Quality(events_lost=50).judge(60_000),
    )
    (verdict,) = compare(good, bad).verdicts
    assert verdict.direction == "slower"
    assert "without an end" not in verdict.sentence


@pytest.mark.parametrize("latency_s", [usual, in_flight_at_the_end])
def test_ios_in_flight_at_the_end_are_no_slow_ones(make_recording, latency_s):
    """300 in one second are one stall."""
    pair = _recording(make_recording, 1, usual), _recording(make_recording, 2, latency_s)
    for one in (compare(*pair), compare(*reversed(pair))):
        assert one.classes[0].rare is None
        assert one.verdicts[0].direction == "no difference"


def test_stalls_are_said_by_the_mean_first(make_recording):
    """Of two seconds in which nothing was answered, an I/O waits one in the mean: 2 s of 60, 33 ms more."""
    good = _recording(make_recording, 1, usual)
    bad = _recording(make_recording, 2, silent_two_seconds_a_minute)
    (verdict,) = compare(good, bad).verdicts
    assert verdict.direction == "slower"
    assert "Reads: B is slower: " in verdict.sentence
    assert "mean service " in verdict.sentence.split("; p9")[0]


@pytest.mark.parametrize("latency_s", [usual, wide, without_a_mean_to_rely_on])
def test_one_distribution_has_no_more_rare_ios_on_either_side(make_recording, latency_s):
    for seed in range(0, 6, 2):
        pair = (_recording(make_recording, seed + side, latency_s, count=20_000) for side in (0, 1))
        assert compare(*pair).classes[0].rare is None


def _counted(slow, *, ios_per_slot=500, bits=SLOW_BITS):
    """A whole operation: ``slow`` I/Os in each slot."""
    counts = np.zeros((SLOTS, DOUBLINGS))
    counts[:, bits] = slow
    counts[:, USUAL_BITS] = ios_per_slot - counts.sum(axis=1)
    total = int(counts.sum())
    histogram = Histogram(
        np.array([1 << USUAL_BITS]), np.array([total]), total << USUAL_BITS, 1 << USUAL_BITS
    )
    course = SlotCounts(counts.sum(axis=1), counts.sum(axis=1), np.zeros((SLOTS, 3)), counts)
    return ClassLatency(histogram, course)


def _spread(number):
    """``number`` I/Os, one to a slot, at random."""
    slow = np.zeros(SLOTS)
    slow[np.random.default_rng(number).choice(SLOTS, number, replace=False)] = 1
    return slow


def test_how_many_single_slow_ios_are_clear():
    """Of n that fell to one of two by chance, all are of the same one in 2 of 2 to the n: 16 are beyond all doubt."""
    none = _counted(np.zeros(SLOTS))
    assert rare_ios(none, _counted(_spread(8))) is None
    found = rare_ios(none, _counted(_spread(16)))
    assert (found.direction, found.a_io_count, found.b_io_count) == ("slower", 0, 16)
    assert found.at_least_ns == 1 << (SLOW_BITS - 1)
    assert rare_ios(_counted(_spread(16)), none).direction == "faster"


def test_ios_of_few_stalls_are_little_evidence():
    """1,000 I/Os in four stalls are four, not 1,000."""
    slow = np.zeros(SLOTS)
    slow[[20, 90, 150, 170]] = 250
    assert rare_ios(_counted(np.zeros(SLOTS)), _counted(slow)) is None


@pytest.mark.parametrize(("slow", "is_rare"), [(9.0, True), (11.0, False)])
def test_what_more_than_one_in_a_hundred_reach_is_left_to_quantiles(slow, is_rare):
    """Of both together: 9 or 11 of the 500 of b in each slot, or 0.9 and 1.1 of 100 with the 500 of a."""
    found = rare_ios(_counted(np.zeros(SLOTS)), _counted(np.full(SLOTS, slow)))
    assert (found is not None) == is_rare


@pytest.mark.parametrize(("shorter", "is_rare"), [(1, False), (2, True)])
def test_ios_of_half_the_time_on_the_other_side_are_no_other_tail(shorter, is_rare):
    """40 that took half as long are what a storage twice as slow makes of them; a quarter is no such tail."""
    found = rare_ios(_counted(_spread(41), bits=SLOW_BITS - shorter), _counted(_spread(40)))
    assert (found is not None) == is_rare


def _figure(quantity, ratio, reach):
    interval = (ratio / reach, ratio * reach)
    return Figure(quantity, 1e6, ratio * 1e6, (ratio - 1) * 1e6, None, ratio, interval)


def _verdict(**figures):
    given = [_figure(name, *figures[name]) for name in ("mean", "p50", "p95", "p99") if name in figures]
    entry = ClassComparison("read", None, None, "all sizes", "service", "service", 9000, 9000, given)
    return verdicts("B", [entry], "service", [])[0]


@pytest.mark.parametrize(
    ("mean", "median", "direction"),
    [
        # The interval's lower end lies as far from 1 as it is wide to that side, or hardly not.
        ((1.22, 1.1), (1.3, 1.1), "slower"),
        ((1.20, 1.1), (1.3, 1.1), "no difference"),
        # Only the few longest I/Os make the mean.
        ((1.50, 1.1), (1.0, 1.1), "no difference"),
        ((1 / 1.22, 1.1), (0.7, 1.1), "faster"),
        ((1 / 1.20, 1.1), (0.7, 1.1), "no difference"),
    ],
)
def test_a_mean_decides_where_it_is_clear_and_the_median_agrees(mean, median, direction):
    assert _verdict(mean=mean, p50=median, p99=(1.0, 1.05)).direction == direction


@pytest.mark.parametrize(
    ("mean", "p99", "first"),
    [(1.36, 1.1, "p99"), (1.39, 1.1, "mean"), (0.65, 0.8, "p99"), (0.63, 0.8, "mean")],
)
def test_a_mean_a_quarter_farther_than_the_quantile_comes_first(mean, p99, first):
    verdict = _verdict(mean=(mean, 1.01), p99=(p99, 1.01))
    assert f"B is {'slower' if mean > 1 else 'faster'}: {first} service" in verdict.sentence
    assert "p99 service" in verdict.sentence


@pytest.mark.parametrize(("reach", "first"), [(1.9, "mean"), (2.1, "p99")])
def test_a_mean_whose_interval_holds_1_does_not_come_first(reach, first):
    sentence = _verdict(mean=(2.0, reach), p99=(1.1, 1.01)).sentence
    assert f"B is slower: {first} service" in sentence


@pytest.mark.parametrize(
    ("mean", "said"),
    [
        ((1.4, 1.5), "which may be chance"),
        ((1.4, 1.3), "which a few long I/Os may explain"),
        ((1.2, 1.1), ""),
    ],
)
def test_what_the_interval_of_a_mean_excludes_is_not_called_chance(mean, said):
    sentence = _verdict(mean=mean, p50=(1.0, 1.05), p99=(1.0, 1.1)).sentence
    assert ("the mean is" in sentence) is bool(said)
    assert said in sentence


@pytest.mark.parametrize(("ratio", "said"), [(1.4, "the replay itself"), (0.6, "a few long I/Os"), (1.2, "")])
def test_a_late_replay_explains_a_slower_mean_and_no_faster_one(ratio, said):
    given = [_figure("mean", ratio, 1.1)]
    entry = ClassComparison("read", None, None, "all sizes", "service", "response", 9000, 9000, given)
    apart = _mean_apart(entry, "unknown", is_late=True)
    assert (said in apart, bool(apart)) == (True, bool(said))
    assert _mean_apart(entry, "unknown", is_late=False) == ""


def test_a_mean_that_may_be_chance_is_said_beside_no_difference():
    apart = [_verdict(mean=(ratio, 2.0), p99=(1.0, 1.1)).sentence for ratio in (1.24, 1.26, 0.81, 0.79)]
    assert [("which may be chance" in sentence) for sentence in apart] == [False, True, False, True]


@pytest.mark.parametrize("short", [0, 1])
def test_a_side_of_a_few_slots_decides_nothing(short):
    pair = [_counted(np.zeros(SLOTS)), _counted(_spread(16))]
    io_count = pair[short].course.io_count.copy()
    io_count[5:] = 0
    pair[short] = replace(pair[short], course=replace(pair[short].course, io_count=io_count))
    assert rare_ios(*pair) is None
