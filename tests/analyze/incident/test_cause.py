"""Load or storage, where recordings are mostly idle and where slots are long: what is said has to be so."""

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.cause import _arrived, _most_served, judge_drive
from iotrace.analyze.incident.series import LayerSlots, Stream

from . import incident_generator as generator

SLOTS, WINDOW = 300, (200, 230)


def judged(arrivals, *, slot_ns=10**9, size=8192.0, together=None, in_flight=0.0):
    """The drive of a window in which latency trebles, with so many arrivals in each slot."""
    counts = np.array([arrivals], dtype=float)
    zero = np.zeros_like(counts)
    load = LayerSlots(
        "block",
        [Stream("block", "read")],
        counts,
        counts * size,
        counts,
        zero,
        zero,
        zero,
        counts,
        zero + in_flight,
    )
    is_normal = np.ones(SLOTS, dtype=bool)
    is_normal[slice(*WINDOW)] = False
    excess = np.where(is_normal, 0.0, np.log(3.0))
    return judge_drive(
        load, WINDOW, is_normal, excess, 3.0, slot_ns=slot_ns, what="disk 0", together=together
    )


def arrivals_of(normal, window, *, every=1):
    """Arrivals that vary a little; ``every`` so many normal slots has any."""
    random = np.random.default_rng(3)
    arrivals = np.where(np.arange(SLOTS) % every == 0, normal, 0.0)
    arrivals[slice(*WINDOW)] = window
    return np.round(arrivals * np.exp(random.normal(0, 0.05, SLOTS)))


@pytest.mark.parametrize("every", [1, 3, 10, 30])
def test_a_storm_on_an_idle_disk_is_load(every):
    found = judged(arrivals_of(20, 1000, every=every))
    assert found.cause == "load-driven"
    assert found.is_more_load


@pytest.mark.parametrize(("before", "after"), [(50, 0), (50, 1500), (60, 3000)])
def test_what_stood_still_and_then_caught_up_is_no_more_load(before, after):
    """For 28 s no I/O comes, as clients wait for those that hang; then they come all at once, and closer together."""
    arrivals = arrivals_of(50, 0)
    arrivals[WINDOW[0]], arrivals[WINDOW[1] - 2 : WINDOW[1]] = before, after / 2
    together = np.where(arrivals > 0, 2.0, np.nan)
    together[WINDOW[1] - 2 : WINDOW[1]] = 9.0
    together[WINDOW[0]] = 5.0
    found = judged(arrivals, together=together, in_flight=9.0)
    assert found.cause == "service-driven"
    assert found.evidence[-1].startswith("no I/O arrived for 2")
    # The layer of the load was not recorded.
    assert "no I/O arrived" not in judged(arrivals, together=together, in_flight=0.0).evidence[-1]


@pytest.mark.parametrize("first", [WINDOW[0] - 1, WINDOW[0], WINDOW[0] + 1])
def test_a_burst_that_clients_wait_for_is_load(first):
    """So many come within two seconds that the disk is busy with them for half a minute, and nothing else comes."""
    arrivals = arrivals_of(50, 0)
    arrivals[first : first + 2] = 1000
    together = np.where(arrivals > 500, 90.0, np.where(arrivals > 0, 2.0, np.nan))
    assert "no I/O arrived" not in judged(arrivals, together=together, in_flight=9.0).evidence[-1]


@pytest.mark.parametrize("every", [6, 10])
def test_bursts_with_nothing_between_them_are_no_pause(every):
    """As many I/Os as ever, of six or ten seconds at once."""
    arrivals = arrivals_of(50, 0)
    arrivals[WINDOW[0] : WINDOW[1] : every] = 50 * every
    together = np.where(np.arange(SLOTS) // 30 * 30 == WINDOW[0] // 30 * 30, 40.0, 2.0)
    assert judged(arrivals, together=together, in_flight=9.0).cause != "service-driven"


@pytest.mark.parametrize("every", [1, 10])
def test_a_disk_that_slows_at_the_same_few_ios_is_storage(every):
    arrivals = arrivals_of(20, 0, every=every)
    arrivals[WINDOW[0] : WINDOW[1] : every] = 20
    found = judged(arrivals)
    assert found.cause == "service-driven"


def test_more_seconds_with_as_many_ios_each_are_no_same_load():
    """One second in ten had 20 I/Os, now each has: ten times the load, or one busy spell like any other."""
    found = judged(arrivals_of(20, 20, every=10))
    assert found.cause == "cannot tell"


def test_a_disk_that_is_asked_for_next_to_nothing_is_not_under_load():
    """It hung: one second of thirty had new I/Os, when it answered again."""
    arrivals = arrivals_of(100, 0)
    arrivals[WINDOW[0] + 2 : WINDOW[0] + 4] = 400
    found = judged(arrivals)
    assert found.cause == "service-driven"


@pytest.mark.parametrize(
    ("more", "busy", "flight", "cause"),
    [
        (1.04, 1.0, 3.1, "cannot tell"),
        (1.02, 1.0, 3.1, "service-driven"),
        (1.04, 1.06, 3.1, "service-driven"),
        (1.10, 1.0, 1.7, "cannot tell"),
        (1.10, 1.0, 1.6, "service-driven"),
    ],
    ids=["never so many", "chance", "so many before", "half shows in flight", "less does"],
)
def test_storage_that_serves_more_than_ever_may_be_full(more, busy, flight, cause):
    """Latency trebles while arrivals grow by ``more``; for as long before they had been higher by ``busy``."""
    arrivals = 10_000.0 + 10 * (np.arange(SLOTS) % 3)
    arrivals[slice(*WINDOW)] *= more
    arrivals[50:80] *= busy
    in_flight = np.ones(SLOTS)
    in_flight[slice(*WINDOW)] = flight
    assert judged(arrivals, in_flight=in_flight).cause == cause


def test_where_nothing_lasted_as_long_nobody_knows_what_is_more_than_ever():
    assert _most_served(np.full(10, 5.0), 4, np.arange(10) % 4 > 0) is None
    assert _most_served(np.arange(10.0), 3, np.arange(10) < 6) == 4.0


def test_what_is_not_known_is_not_denied():
    """Without sizes nobody knows whether I/Os were larger, without I/Os' times not whether they came in bursts."""
    found = judged(arrivals_of(100, 100), size=0.0)
    assert found.evidence[-1].startswith("no more I/Os arrived: ")
    assert judged(arrivals_of(100, 100)).evidence[-1].startswith("neither more nor larger I/Os arrived: ")


@pytest.mark.parametrize(
    ("later_slots", "words"),
    [(0, "no later than latency"), (1, "within 10.0 s of latency"), (5, "only 50.0 s after latency did")],
)
def test_the_reason_agrees_with_the_evidence(later_slots, words):
    """What grew one slot after latency did not grow no later than it; and slots of ten seconds are no seconds."""
    arrivals = arrivals_of(100, 300)
    arrivals[WINDOW[0] : WINDOW[0] + later_slots] = 100
    found = judged(arrivals, slot_ns=10 * 10**9)
    assert words in found.evidence[-1]
    assert "same second" not in " ".join(found.evidence)
    if not later_slots:
        assert "growing in the same 10.0 s as latency" in found.evidence[0]


def test_a_factor_that_may_be_one_is_called_so(tmp_path):
    """An I/O every few seconds says little about what is normal."""
    for seed in range(4):
        random = np.random.default_rng(seed)
        seconds = 900
        load = generator.joined(
            generator.base_load(random, seconds, 0.3),
            generator.load_of(random, 400, 460, 1000, process=1),
        )
        done = generator.served(load, generator.service_times(random, load, seconds))
        found = incident(generator.write(tmp_path / "storm.iotrace", load, done, seconds))
        for window in found.windows:
            assert bool(window.caveats) == (window.factor_interval[0] <= 1)
            assert window.cause != "service-driven"
        if any(window.caveats for window in found.windows):
            return
    pytest.fail("no window whose interval holds 1 was made")


def test_what_a_frozen_disk_answers_at_once_is_no_more_load():
    """Counters count what ended: 1,000/s came all along, of which ten seconds ended at once after 8.3 s of nothing."""
    slot_ns, at = 5 * 10**9, WINDOW[0]
    ended = np.round(arrivals_of(5_000, 5_000))
    ended[at - 2 : at + 1] = 3_300, 0, 11_700
    latency_ns = np.full(SLOTS, 1.4e6)
    latency_ns[at] = 4.2e9
    one = ended[None, :]
    zero = np.zeros_like(one)
    load = LayerSlots(
        "block", [Stream("block", "read")], one, one * 8192.0, one, zero, zero, one * latency_ns, one, zero
    )
    is_normal = np.arange(SLOTS) != at
    excess = np.where(is_normal, 0.0, 8.0)
    window = (at, at + 1)
    found = judge_drive(load, window, is_normal, excess, 3000.0, slot_ns=slot_ns, what="disk 0", is_mean=True)
    assert found.cause == "service-driven"


def test_a_disk_that_hangs_is_blamed_and_not_the_one_that_answers(make_recording):
    """Its clients wait, so that next to none of its I/Os come, and none of those that came ends."""
    random = np.random.default_rng(5)
    at = np.sort(random.integers(0, 120 * 10**9, (2, 6_000)), axis=1)
    took = np.round(np.exp(random.normal(np.log(1e6), 0.4, at.shape))).astype(np.int64)
    hung = at[0] > 112 * 10**9
    kept = ~hung | (np.cumsum(hung) <= 20)
    ends = np.where(hung, None, at[0] + took[0])[kept]
    recording = make_recording(
        {
            "issued_ns": np.concatenate([at[0][kept], at[1]]),
            "completed_ns": [*ends.tolist(), *(at[1] + took[1]).tolist()],
            "device_id": np.repeat([0, 1], [kept.sum(), at.shape[1]]),
        },
        120 * 10**9,
    )
    (window,) = incident(recording).windows
    most = max((row for row in window.blame if row.dimension == "device"), key=lambda row: row.growth_share)
    assert most.growth_share > 0.99
    assert most.slow_latency_ns == pytest.approx(8e9, rel=0.1)


def test_what_ended_late_had_arrived_before_whether_or_not_its_size_is_told():
    """30 I/Os ended in the third second after one second on the mean: they came evenly from the first one on."""
    ended = np.array([[0.0, 0.0, 30.0, 0.0]])
    zero = np.zeros_like(ended)
    load = LayerSlots(
        "block", [Stream("block", "read")], ended, zero, ended, zero, zero, ended * 1e9, ended, zero
    )
    ios, size_bytes = _arrived(load, 10**9)
    assert ios == pytest.approx([10, 10, 10, 0])
    assert size_bytes == pytest.approx([0, 0, 0, 0])


@pytest.mark.parametrize(("slowed", "factor"), [(1, 8.0), (6, 2.0)])
def test_means_of_latency_without_a_rate_are_as_sure_as_they_are_steady(make_recording, slowed, factor):
    """How many I/Os a mean is of is not known then; the series itself shows how much it varies."""
    latency_ns = 1.4e6 * np.exp(np.random.default_rng(3).normal(0, 0.05, 240))
    latency_ns[100 : 100 + slowed] *= factor
    end_ns = (np.arange(240) + 1) * 15 * 10**9
    common = {
        "source": "h",
        "object": "PhysicalDisk",
        "instance": "0 D:",
        "counter": "Avg. Disk sec/Read",
        "unit": "s",
    }
    rows = [
        {
            "at_ns": int(at),
            "interval_ns": 15 * 10**9,
            **common,
            "value": value,
            "layer": "block",
            "metric": "read_latency_ns",
        }
        for at, value in zip(end_ns, latency_ns, strict=True)
    ]
    nothing = {"issued_ns": np.array([], dtype=np.int64)}
    (window,) = incident(make_recording(nothing, 3600 * 10**9, tables={"counters": rows})).windows
    assert window.factor == pytest.approx(factor, rel=0.1)
    assert window.start_ns == 1500 * 10**9
