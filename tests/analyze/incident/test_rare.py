"""Few I/Os that are very slow while the others are as fast as ever."""

import re

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.incident import incident, rare
from iotrace.analyze.incident.presentation import incident_answer
from iotrace.analyze.incident.rare import rare_slow
from iotrace.analyze.incident.series import LayerSlots, Slots, Stream

MS, S = 1_000_000, 1_000_000_000
SLOTS = 600


def host(make_recording, latency_ns, seconds, per_s):
    """So many reads a second, evenly spaced, each of which takes what ``latency_ns`` has for it."""
    issued = np.arange(len(latency_ns)) * S // per_s
    rows = [
        {"issued_ns": int(at), "completed_ns": int(at + took), "offset_bytes": 8192 * number}
        for number, (at, took) in enumerate(zip(issued, latency_ns, strict=True))
    ]
    return make_recording(rows, window_ns=seconds * S)


def test_one_in_a_hundred_that_takes_a_second_is_a_window(make_recording):
    """50 reads a second of 1 ms or so; from second 300 to 420 every hundredth takes 1 s: 11 ms on average."""
    latency_ns = MS * np.random.default_rng(1).lognormal(0, 0.3, 30_000)
    latency_ns[300 * 50 : 420 * 50 : 100] = S
    recording = host(make_recording, latency_ns, 600, 50)
    found = incident(recording)
    (window,) = found.windows
    assert window.is_mean
    opening = incident_answer(found, 0, "a", recording.manifest.quality, []).opening
    assert any(line.text.startswith("Why: few I/Os were very slow (mean 11.0") for line in opening)
    assert (window.start_ns / S, window.end_ns / S) == (pytest.approx(300, abs=5), pytest.approx(420, abs=5))
    mean, usual = latency_ns[15_000:21_000].mean(), np.delete(latency_ns, np.s_[15_000:21_000]).mean()
    assert window.factor == pytest.approx(mean / usual, rel=0.03)
    assert window.factor_interval[0] < mean / usual < window.factor_interval[1]
    assert window.normal_ns == pytest.approx(usual, rel=0.02)
    assert window.lost_ns == pytest.approx((mean - usual) * 6000, rel=0.03)
    assert window.cause == "service-driven"
    assert "slower than normal on average" in window.headline
    assert re.search("6[0-9] of 6,000 I/Os took longer than", window.headline)
    assert "half of them 1.00 s or more, and 9 of the other 24,000" in window.headline


@pytest.mark.parametrize("tail", ["lognormal", "Pareto", "Pareto with few I/Os"])
def test_tails_that_are_always_heavy_are_no_incident(tail, make_recording):
    for seed in range(3):
        random = np.random.default_rng(seed)
        per_s = 5 if tail == "Pareto with few I/Os" else 50
        count = 600 * per_s
        shape = random.lognormal(0, 1.5, count) if tail == "lognormal" else 1 + random.pareto(1.2, count)
        found = incident(host(make_recording, MS * shape, 600, per_s))
        assert [window.headline for window in found.windows if window.is_mean] == []


def slots_of(counts, sums_ns, log_level, **more):
    """A layer of one stream: I/Os and their latencies by slot of a second, ``log_level`` the mean of their ln."""
    counts, sums_ns = (np.atleast_2d(np.asarray(cells, dtype=float)) for cells in (counts, sums_ns))
    streams = [Stream("block", "read", number, None, "data") for number in range(len(counts))]
    cells = np.broadcast_to(np.asarray(log_level, dtype=float), counts.shape).copy()
    within = 0.1 / np.maximum(counts, 1)
    layer = LayerSlots(
        "block", streams, counts, counts * 8192, counts, cells, within, sums_ns, counts, counts * 0
    )
    return Slots(0, S, counts.shape[1], {"block": layer}, **more)


def slowest_of(*latencies_ns):
    """The answer of query ``incident_slowest``, from pairs of second and latency."""
    rows = sorted(latencies_ns, key=lambda row: -row[1])
    table = pa.table(
        {
            "issued_ns": pa.array([int(at * S) for at, _ in rows], pa.int64()),
            "latency_ns": pa.array([int(took) for _, took in rows], pa.int64()),
        }
    )
    return lambda _layer: table


def planted(extra_ns=9 * MS, noise=0.02, first=300, end=360):
    """100 I/Os of 1 ms a second; from second ``first`` on they take ``extra_ns`` more on average for a while."""
    counts = np.full(SLOTS, 100.0)
    sums = counts * MS * np.exp(np.random.default_rng(2).normal(0, noise, SLOTS))
    sums[first:end] += 100 * extra_ns
    return slots_of(counts, sums, np.log(MS))


SLOW = [(at, 900 * MS) for at in range(300, 360)]
SPREAD = [(300 + 6 * at, 900 * MS) for at in range(10)]
OTHERS = [(at, 20 * MS + at) for at in range(0, 100, 5)]


def test_what_is_told_is_counted_against_the_tenth_slowest_of_the_rest():
    (found,) = rare_slow(planted(), slowest_of(*SLOW, *OTHERS), [])
    assert (found.stretch.first, found.stretch.end) == (300, 360)
    assert found.factor == pytest.approx(10, rel=0.02)
    assert found.interval[0] < found.factor < found.interval[1] < 1.05 * found.factor
    assert (found.count, found.of, found.other_count, found.other_of) == (60, 6000, 9, 54_000)
    assert (found.longer_than_ns, found.median_ns, found.is_least) == (20 * MS + 50, 900 * MS, False)
    assert found.lost_ns == pytest.approx(6000 * 9 * MS, rel=0.02)


@pytest.mark.parametrize(("extra_ns", "is_found"), [(1.1 * MS, True), (0.9 * MS, False)])
def test_the_mean_has_to_grow_by_twice_what_the_typical_io_does(extra_ns, is_found):
    assert bool(rare_slow(planted(extra_ns), slowest_of(*SLOW, *OTHERS), [])) == is_found


def test_what_slows_every_io_is_not_rare():
    slots = planted()
    slots.layers["block"].log_latency[:, 300:360] += np.log(10)
    assert rare_slow(slots, slowest_of(*SLOW, *OTHERS), []) == []


@pytest.mark.parametrize(("slow", "is_found"), [(10, True), (9, False)])
def test_ten_ios_have_to_be_slow(slow, is_found):
    assert bool(rare_slow(planted(), slowest_of(*SPREAD[:slow], *OTHERS), [])) == is_found


@pytest.mark.parametrize(("length", "is_found"), [(105, True), (113, False)])
def test_they_have_to_be_five_times_as_many_as_the_rest_lets_expect(length, is_found):
    """Of the rest nine are as slow in 600 less ``length`` seconds; in the stretch ten."""
    slots = planted(end=300 + length)
    expected = 9 * length / (SLOTS - length)
    assert (5 * expected <= 10) == is_found
    assert (
        bool(
            rare_slow(
                slots, slowest_of(*[(300 + at * length / 10, 900 * MS) for at in range(10)], *OTHERS), []
            )
        )
        == is_found
    )


@pytest.mark.parametrize(
    ("told", "is_found"),
    [
        ([(300, 331, 6.0)], False),
        ([(300, 329, 6.0)], True),
        ([(300, 360, 4.9)], True),
        ([(300, 360, 5.1)], False),
    ],
)
def test_what_is_told_already_is_not_told_again(told, is_found):
    assert bool(rare_slow(planted(), slowest_of(*SLOW, *OTHERS), told)) == is_found


@pytest.mark.parametrize(
    ("blocks", "each", "length", "is_found"),
    [
        (3, 4, 20, True),
        (2, 6, 20, False),
        (3, 4, 30, True),
        (2, 6, 30, False),
        (5, 2, 60, False),
        (6, 2, 60, True),
        (9, 2, 150, False),
        (10, 2, 150, True),
    ],
)
def test_the_slow_ios_lie_in_half_of_the_blocks_of_five_seconds(blocks, each, length, is_found):
    slow = [(300 + 5 * block + 2, 900 * MS) for block in range(blocks) for _ in range(each)]
    found = rare_slow(planted(end=300 + length), slowest_of(*slow, *[(at, 20 * MS) for at in range(10)]), [])
    assert bool(found) == is_found


def test_one_event_in_two_layers_is_told_once_where_it_cost_most():
    slots, other = planted(), planted(extra_ns=8 * MS)
    slots.layers["device"] = other.layers["block"]
    slots.layers["device"].layer = "device"
    (found,) = rare_slow(slots, slowest_of(*SLOW, *OTHERS), [])
    assert found.judged.series.layer == "block"


def test_where_only_the_slowest_are_known_there_may_be_more(monkeypatch):
    monkeypatch.setattr(rare, "SLOWEST_MAX", 60)
    (found,) = rare_slow(planted(), slowest_of(*SLOW[:59], (5, 20 * MS)), [])
    assert (found.count, found.longer_than_ns, found.is_least) == (59, 20 * MS, True)
    monkeypatch.setattr(rare, "SLOWEST_MAX", 61)
    (found,) = rare_slow(planted(), slowest_of(*SLOW[:59], *OTHERS[:1]), [])
    assert not found.is_least


@pytest.mark.parametrize(("per_s", "first", "end"), [(100, 305, 335), (2, 300, 700)])
def test_time_is_looked_at_in_blocks_of_five_seconds_or_two_hundred_ios(per_s, first, end):
    """Of 2 I/Os a second a block is a hundred seconds long."""
    counts = np.full(4000, float(per_s))
    sums = counts * MS
    sums[first:end] *= 10
    slow = [(at, 900 * MS) for at in range(first, end)]
    (found,) = rare_slow(slots_of(counts, sums, np.log(MS)), slowest_of(*slow, (0, 20 * MS)), [])
    assert (found.stretch.first, found.stretch.end) == (first, end)


@pytest.mark.parametrize("slots", [1, 3, 20])
def test_of_a_short_recording_nothing_is_told(slots):
    counts = np.full(slots, 100.0)
    assert rare_slow(slots_of(counts, counts * MS, np.log(MS)), slowest_of(*SLOW), []) == []
    assert rare_slow(slots_of(counts * 0, counts * 0, np.nan), slowest_of(), []) == []


def test_how_slow_is_told_against_the_mean_of_the_rest_of_the_time():
    """A fifth of the blocks is twice as slow: the rest takes 1.2 ms on average, and the stretch ten times that."""
    slots = planted(extra_ns=0, noise=0.0)
    sums = slots.layers["block"].latency_sum_ns[0]
    sums.reshape(-1, 25)[:, :5] *= 2
    usual_ns = np.delete(sums, np.s_[300:360]).sum() / 54_000
    sums[300:360] = 100 * 10 * usual_ns
    (found,) = rare_slow(slots, slowest_of(*SLOW, *OTHERS), [])
    assert usual_ns == pytest.approx(1.2 * MS, rel=0.02)
    assert found.factor == pytest.approx(10, rel=0.01)
    assert found.lost_ns == pytest.approx(6000 * 9 * usual_ns, rel=0.01)


def test_one_stall_elsewhere_is_part_of_the_rest():
    """Ten I/Os of it took longer than any in the stretch, which shows nothing that the rest does not."""
    slots = planted()
    slots.layers["block"].latency_sum_ns[0, 100:105] *= 20
    stall = [(100 + at / 2, 950 * MS) for at in range(10)]
    assert rare_slow(slots, slowest_of(*SLOW, *stall, *OTHERS), []) == []


def test_a_mix_that_moves_to_slower_operations_is_not_rare():
    """Stream 0 takes 1 ms, stream 1 takes 20: the share of the second grows from a fiftieth to a half."""
    counts = np.full((2, SLOTS), 98.0)
    counts[1] = 2
    counts[:, 300:360] = 50
    sums = counts * np.array([[MS], [20 * MS]])
    slots = slots_of(counts, sums, np.log(MS))
    slots.layers["block"].log_latency[1] = np.log(20 * MS)
    assert rare_slow(slots, slowest_of(*SLOW, *OTHERS), []) == []


@pytest.mark.parametrize(("end", "is_found"), [(395, True), (405, False)])
def test_what_lasts_for_most_of_a_recording_is_what_is_usual_there(end, is_found):
    slow = [(at, 900 * MS) for at in range(100, end)]
    found = rare_slow(planted(first=100, end=end), slowest_of(*slow, (0, 20 * MS)), [])
    assert bool(found) == is_found


@pytest.mark.parametrize(("in_flight", "is_found"), [(1.4, True), (1.6, False)])
def test_where_ios_from_earlier_hang_the_two_means_are_not_of_the_same_ios(in_flight, is_found):
    slots = planted()
    layer = slots.layers["block"]
    layer.measured_count = layer.measured_count.copy()
    layer.measured_count[:, 300:360] *= in_flight
    assert bool(rare_slow(slots, slowest_of(*SLOW, *OTHERS), [])) == is_found
