"""What a step carried while never idle, and whether it broke: on flows worked out by hand."""

import numpy as np
import pytest

from iotrace.analyze.knee.flow import Flow, _last_regime, _was_as_slow, carried

SLOT_S = 0.01
BASE_S = 0.0005


def flow(wanted_per_s, capacity_per_s):
    """A server that carries at most ``capacity_per_s`` in each slot of what is wanted and waits; then it drains."""
    wanted = np.asarray(wanted_per_s, dtype=float) * SLOT_S
    capacity = np.asarray(capacity_per_s, dtype=float) * SLOT_S
    waiting, ends, slot = 0.0, [], 0
    while slot < len(wanted) or waiting > 1e-9:
        waiting += wanted[slot] if slot < len(wanted) else 0.0
        ends.append(min(waiting, capacity[min(slot, len(capacity) - 1)]))
        waiting -= ends[-1]
        slot += 1
    wanted = np.concatenate([wanted, np.zeros(len(ends) - len(wanted))])
    return Flow(SLOT_S, wanted, np.array(ends), np.array(ends) * 8192)


def found(one):
    return carried({"read": one}, one, BASE_S)


def test_storage_that_is_never_behind_shows_no_capacity():
    assert found(flow(np.full(1000, 1900), [2000])) is None


def test_overload_shows_the_capacity_and_no_credits():
    seen = found(flow(np.full(1000, 2300), [2000]))
    assert seen.iops == pytest.approx(2000)
    assert not seen.is_break


def test_storage_is_watched_until_99_percent_have_completed():
    """40,000 at once, of which each slot carries 100: busy from the second slot to the 396th."""
    seen = found(flow([4_000_000], [10_000]))
    assert seen.busy_s == pytest.approx(395 * SLOT_S)
    assert seen.iops == pytest.approx(10_000)


@pytest.mark.parametrize("offered", [2500, 4000, 9000])
@pytest.mark.parametrize("limit", [3000, 6000])
def test_credits_are_seen_wherever_the_burst_was_limited(offered, limit):
    # The bucket holds 3,000: what passes above 2,000 a second until then, 6,000 at most.
    burst = min(offered, limit)
    lasts = round(3000 / (burst - 2000) / SLOT_S)
    seen = found(flow(np.full(1000, offered), [limit] * lasts + [2000]))
    assert seen.iops == pytest.approx(2000, rel=0.01)
    assert seen.burst_iops == pytest.approx(burst, rel=0.02)
    assert seen.credits_ios == pytest.approx(3000, rel=0.05)


def test_storage_that_slows_down_and_recovers_has_no_credits():
    seen = found(flow(np.full(1000, 2300), [2000] * 300 + [600] * 200 + [2000]))
    assert not seen.is_break


def test_storage_that_goes_up_and_down_has_no_credits():
    seen = found(flow(np.full(1200, 2600), ([2600] * 150 + [1400] * 150) * 20))
    assert not seen.is_break


def test_load_that_swings_below_the_capacity_is_no_burst():
    offered = 1800 + 1500 * np.sin(np.arange(1500) / 40)
    assert not getattr(found(flow(offered, [2000])), "is_break", False)


def test_cache_of_writes_limits_the_mix_at_the_share_of_writes():
    # Half are writes, of which 500 a second are drained once the cache is full: 1,000 a second of the mix.
    reads = flow(np.full(1000, 2000), [9000])
    writes = flow(np.full(1000, 2000), [9000] * 200 + [500])
    count = max(len(reads.wanted), len(writes.wanted))

    def padded(one):
        columns = [np.pad(column, (0, count - len(column))) for column in (one.wanted, one.completed)]
        return Flow(SLOT_S, *columns, columns[1] * 8192)

    flows = {"read": padded(reads), "write": padded(writes)}
    seen = carried(flows, Flow.sum(flows.values()), BASE_S)
    assert seen.limited_op == "write"
    assert seen.iops == pytest.approx(1000, rel=0.02)
    assert seen.burst_iops == pytest.approx(4000, rel=0.02)
    assert seen.bytes_per_s.mean() == pytest.approx(1000 * 8192, rel=0.02)
    assert seen.credits_ios == pytest.approx(3000, rel=0.05)


@pytest.mark.parametrize(("times", "is_break"), [(1, False), (1.9, False), (2.2, True), (10, True)])
def test_credits_are_proven_by_five_standard_deviations_of_a_count(times, is_break):
    """Of 200 in the first ten slots 50 are beyond the rate after; 5 deviations of a Poisson count of 200 are 71."""
    burst, after = 2000 * times, 1500 * times
    one = found(flow([50_000 * times] + [0] * 29, [burst] * 10 + [after]))
    assert one.is_break == is_break
    if is_break:
        assert one.iops == pytest.approx(after, rel=0.02)
        assert one.credits_ios == pytest.approx(50 * times)


@pytest.mark.parametrize(("ios", "is_known"), [(50, False), (65, True)])
def test_fewer_than_fifty_while_busy_show_no_capacity(ios, is_known):
    """All at once, one carried in each slot: not busy in the first of them, nor in the last few."""
    assert (found(flow([ios / SLOT_S], [1 / SLOT_S])) is not None) is is_known


@pytest.mark.parametrize(
    ("completed", "slots", "was_as_slow"),
    [
        ([9.0], 1, True),
        ([9.0], 0, True),
        ([12.0], 1, False),
        ([], 0, False),
        ([9.0], 2, False),
        ([15, 6, 6], 2, True),
    ],
)
def test_a_rate_was_as_low_before_if_it_was_for_as_many_slots(completed, slots, was_as_slow):
    assert _was_as_slow(np.array(completed), 10.0, slots) is was_as_slow


@pytest.mark.parametrize(
    ("levels", "begins"),
    [
        ([400], 0),
        ([400, 200], 1000),
        ([200, 400], 0),
        ([400, 200, 400], 0),
        ([400, 300, 150], 1000),
        ([400, 0, 400], 0),
        ([400, 390], 0),
    ],
)
def test_the_last_regime_begins_where_the_rate_fell_for_good(levels, begins):
    random = np.random.default_rng(1)
    completed = np.concatenate([random.poisson(level, 1000) for level in levels]).astype(float)
    assert _last_regime(completed) == pytest.approx(begins, abs=30)
