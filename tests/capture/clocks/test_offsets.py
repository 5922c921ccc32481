"""The offset of two clocks from I/Os that both saw, against offsets, drifts and jitters planted by a simulation."""

import numpy as np
import pytest

from iotrace.capture.clocks.offsets import NO_TIME, ClockOffset, IoSample, NoOffset, measure

UTC_NS = 1_772_000_000 * 10**9
SECOND = 10**9
HOUR = 3600 * SECOND


def workload(rng, count=2000, seconds=60, pages=10**7):
    """Random reads with exponential gaps: keys, starts and durations."""
    issued = np.sort(rng.integers(0, seconds * SECOND, count)) + UTC_NS
    key = rng.integers(0, pages, count).astype(np.uint64)
    return key, issued, rng.exponential(400_000, count).astype(np.int64) + 50_000


def seen(key, issued, completed, *, offset=0, drift=0.0, step=1):
    """The I/Os on a clock that is ``offset`` behind, runs slower by ``drift`` and tells whole ``step``s."""

    def stamp(moments):
        own = moments - offset - np.rint(drift * (moments - UTC_NS)).astype(np.int64)
        return own // step * step

    return IoSample(key, stamp(issued), stamp(completed))


def truth(found, offset, drift=0.0):
    """What should be added at the moment that was measured."""
    own = found.at_ns - UTC_NS
    return (own + offset) / (1 - drift) - own


@pytest.mark.parametrize("offset", [0, 1_234_567_891, -5 * 3600 * SECOND, 26 * 3600 * SECOND])
def test_one_layer_seen_twice(offset):
    """Jitter of 20 us, one clock in whole microseconds: 30 seeds, and the interval misses the offset in 2 at most."""
    missed, widths = 0, []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        key, issued, taken = workload(rng)
        jitter = rng.normal(0, 20_000, len(key)).astype(np.int64)
        half = rng.random(len(key)) < 0.5
        other = seen(
            key[half], (issued + jitter)[half], (issued + taken + jitter)[half], offset=offset, step=1000
        )
        found = measure(seen(key, issued, issued + taken), other)
        assert isinstance(found, ClockOffset)
        missed += abs(found.offset_ns - offset) > found.uncertainty_ns
        widths.append(found.uncertainty_ns)
    assert missed <= 2
    # 95 % of a normal jitter lie within 1.96 standard deviations; the steps and few samples add to it.
    assert 39_000 < np.median(widths) < 70_000


@pytest.mark.parametrize("delay_ns", [0, 5_000, 2_000_000])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_layer_above_another(delay_ns, swapped):
    """What lies between the layers takes its time on the way down and up: no bias comes from it."""
    missed, widths = 0, []
    offset = 3_700 * SECOND + 1
    for seed in range(30):
        rng = np.random.default_rng(seed)
        key, issued, taken = workload(rng)
        down = rng.exponential(delay_ns, len(key)).astype(np.int64) + 2_000
        up = rng.exponential(3 * delay_ns, len(key)).astype(np.int64) + 3_000
        upper = seen(key, issued - down, issued + taken + up)
        lower = seen(key, issued, issued + taken, offset=offset)
        found = measure(lower, upper, height=-1) if swapped else measure(upper, lower, height=1)
        assert isinstance(found, ClockOffset)
        missed += abs(found.offset_ns - (-offset if swapped else offset)) > found.uncertainty_ns
        widths.append(found.uncertainty_ns)
    assert missed <= 2
    # With 50 I/Os in a stretch the quickest of each way bounds the offset to some hundredths of the mean delay.
    assert np.median(widths) < 5_000 + delay_ns


def test_durations_in_whole_milliseconds_widen_the_interval_and_no_more():
    """As Extended Events tell them: completions are stamped, starts follow from durations cut off to milliseconds."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        key, issued, taken = workload(rng)
        completed = issued + taken + 40_000
        durations = (completed - (issued - 30_000)) // 1_000_000 * 1_000_000
        durations[0] += 1_000_000
        above = IoSample(key, completed - durations, completed)
        found = measure(above, seen(key, issued, issued + taken, offset=777_777), height=1)
        assert isinstance(found, ClockOffset)
        assert abs(found.offset_ns - 777_777) <= found.uncertainty_ns <= 1_100_000


@pytest.mark.parametrize("drift", [40e-6, -90e-6])
@pytest.mark.parametrize("height", [0, 1])
def test_drift_is_measured_and_taken_off(drift, height):
    """An hour at 40 or 90 millionths: 144 or 324 ms between its ends."""
    missed_offset = missed_drift = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        key, issued, taken = workload(rng, count=5000, seconds=3600)
        jitter = rng.normal(0, 10_000, len(key)).astype(np.int64) if height == 0 else 0
        above = seen(key, issued - 8_000 * height, issued + taken + 8_000 * height)
        other = seen(key, issued + jitter, issued + taken + jitter, offset=SECOND, drift=drift)
        found = measure(above, other, height=height)
        assert isinstance(found, ClockOffset)
        missed_offset += abs(found.offset_ns - truth(found, SECOND, drift)) > found.uncertainty_ns
        missed_drift += abs(found.drift - drift / (1 - drift)) > found.drift_uncertainty + 1e-12
        assert found.told_drift != 0
        assert found.uncertainty_ns < 100_000
    assert missed_offset <= 2
    assert missed_drift <= 4


def test_no_drift_is_told_where_there_is_none():
    told = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        key, issued, taken = workload(rng)
        jitter = rng.normal(0, 20_000, len(key)).astype(np.int64)
        found = measure(
            seen(key, issued, issued + taken), seen(key, issued + jitter, issued + taken + jitter, offset=5)
        )
        told += found.told_drift != 0
    assert told <= 4


def test_other_io_beside_the_common_one():
    """Nine of ten I/Os of either source are not in the other; hot pages come back often."""
    missed = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        key, issued, taken = workload(rng, count=1000, pages=10**6)
        samples = []
        for offset in (0, -400_000_000):
            more_key, more_issued, more_taken = workload(rng, count=9000, pages=3000)
            samples.append(
                seen(
                    np.concatenate([key, more_key]),
                    np.concatenate([issued, more_issued]),
                    np.concatenate([issued + taken, more_issued + more_taken]),
                    offset=offset,
                )
            )
        found = measure(*samples)
        assert isinstance(found, ClockOffset)
        missed += abs(found.offset_ns + 400_000_000) > found.uncertainty_ns
    assert missed <= 2


def test_without_ends_the_starts_of_one_layer_tell():
    rng = np.random.default_rng(1)
    key, issued, _ = workload(rng)
    never = np.full(len(key), NO_TIME)
    found = measure(IoSample(key, issued, never), IoSample(key, issued - 5000, never))
    assert (found.offset_ns, found.matched) == (5000, 2000)
    refused = measure(IoSample(key, issued, never), IoSample(key, issued - 5000, never), height=1)
    assert isinstance(refused, NoOffset)
    assert "when its I/Os ended" in refused.reason


def test_a_pattern_that_repeats_is_refused():
    """The same 100 pages every 10 s: the second round fits the first nearly as well."""
    issued = (
        np.concatenate([np.arange(30) * 100_000_000 + round_ * 10 * SECOND for round_ in range(6)]) + UTC_NS
    )
    key = np.tile(np.arange(30), 6).astype(np.uint64)
    refused = measure(seen(key, issued, issued + 10), seen(key, issued, issued + 10, offset=7))
    assert isinstance(refused, NoOffset)
    assert "repeats" in refused.reason


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_clock_that_was_set_meanwhile(share):
    """Half before and half after: refused. A small part: the offset of the rest, and the other one is told."""
    rng = np.random.default_rng(3)
    key, issued, taken = workload(rng)
    stepped = np.where(np.arange(len(key)) < share * len(key), issued, issued + 3600 * SECOND)
    found = measure(seen(key, issued, issued + taken), IoSample(key, stepped, stepped + taken))
    if share == 0.5:
        assert isinstance(found, NoOffset)
        assert "clock was set" in found.reason
    else:
        assert abs(found.offset_ns) <= found.uncertainty_ns
        assert abs(found.rival_offset_ns + 3600 * SECOND) < SECOND


def test_strangers_have_no_offset():
    """Two unrelated workloads over the same few pages: 60 seeds, none is taken for related."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        samples = []
        for _ in range(2):
            key, issued, taken = workload(rng, count=3000, pages=1500)
            samples.append(seen(key, issued, issued + taken))
        assert isinstance(measure(*samples), NoOffset), seed


def test_too_few_in_common():
    rng = np.random.default_rng(0)
    key, issued, taken = workload(rng, count=19)
    refused = measure(seen(key, issued, issued + taken), seen(key, issued, issued + taken))
    assert isinstance(refused, NoOffset)
    assert refused.matched == 19
    empty = IoSample(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
    assert isinstance(measure(empty, empty), NoOffset)


def test_two_scans_at_different_speeds_are_not_the_same_io():
    """Both read the first megabytes in order, one twice as fast: where they start, their differences lie close."""
    key = np.arange(100).astype(np.uint64)
    slow, fast = np.arange(100) * 100_000 + UTC_NS, np.arange(100) * 50_000 + UTC_NS + HOUR
    refused = measure(IoSample(key, slow, slow + 10), IoSample(key, fast, fast + 10))
    assert isinstance(refused, NoOffset)
    assert "speeds" in refused.reason
