"""What the answer says of planted incidents: who was hit, which are one, and when it was storage."""

import heapq
from dataclasses import dataclass

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.change_points import Segmentation
from iotrace.analyze.incident.find import against_what_it_left
from iotrace.analyze.incident.groups import windows_of
from iotrace.analyze.incident.presentation import incident_answer
from iotrace.analyze.incident.series import Series, Stream
from iotrace.analyze.incident.stretches import Course, Judged, Stretch

S = 1_000_000_000
SECONDS = 600


@dataclass
class Ios:
    """I/Os in order of time, 70 % reads, on disks without a queue: tests change ``latency_s``."""

    at_s: np.ndarray
    disk: np.ndarray
    latency_s: np.ndarray

    def during(self, start_s, end_s, disk):
        return (self.at_s >= start_s) & (self.at_s < end_s) & (self.disk == disk)


def ios_of(random, at_s, disks):
    at_s = np.sort(at_s)
    return Ios(at_s, random.integers(0, disks, len(at_s)), 0.001 * random.lognormal(0, 0.5, len(at_s)))


def poisson(random, per_s, start_s=0, end_s=SECONDS):
    return random.uniform(start_s, end_s, random.poisson(per_s * (end_s - start_s)))


def recorded(make_recording, random, ios):
    disks = range(int(ios.disk.max()) + 1)
    issued = np.round(ios.at_s * S).astype(np.int64)
    columns = {
        "issued_ns": issued,
        "completed_ns": issued + np.round(ios.latency_s * S).astype(np.int64),
        "op": np.where(random.random(len(issued)) < 0.7, "read", "write"),
        "device_id": ios.disk,
    }
    devices = [{"device_id": disk, "name": f"sd{'abcd'[disk]}", "kind": "disk"} for disk in disks]
    return make_recording(columns, SECONDS * S, tables={"devices": devices})


def opening_of(recording):
    answer = incident_answer(incident(recording), 0, recording.name, recording.manifest.quality, [])
    return [sentence.text for sentence in answer.opening]


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_that_got_slow_is_named_and_not_reads(seed, make_recording):
    """One disk of four takes three times as long for 20 s; no file is known."""
    random = np.random.default_rng(seed)
    ios = ios_of(random, poisson(random, 400), 4)
    ios.latency_s[ios.during(300, 320, 2)] *= 3
    assert any(
        said.startswith("Hit hardest: device sdc, ")
        for said in opening_of(recorded(make_recording, random, ios))
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_disk_that_load_came_from_is_named_and_not_reads(seed, make_recording):
    """Two disks of one server; I/Os of one of them are six times as many for 40 s."""
    random = np.random.default_rng(seed)
    at_s, more_s = poisson(random, 350), poisson(random, 500, 300, 340)
    ios = ios_of(random, np.concatenate([at_s, more_s]), 1)
    ios.disk[:] = np.where(np.isin(ios.at_s, more_s) | (random.random(len(ios.at_s)) < 0.3), 1, 0)
    ios.latency_s[:] = served_s(ios.at_s, random.exponential(0.001, len(ios.at_s)))
    assert any(
        said.startswith("Load from: device sdb, ")
        for said in opening_of(recorded(make_recording, random, ios))
    )


def served_s(at_s, service_s):
    """How long each takes that one server answers one after another (Lindley's recursion, in its closed form)."""
    total = np.cumsum(service_s)
    return total + np.maximum.accumulate(at_s - total + service_s) - at_s


@pytest.mark.parametrize("seed", range(3))
def test_where_all_got_slow_alike_reads_are_not_blamed(seed, make_recording):
    random = np.random.default_rng(seed)
    ios = ios_of(random, poisson(random, 400), 1)
    ios.latency_s[ios.during(300, 320, 0)] *= 3
    said = opening_of(recorded(make_recording, random, ios))
    assert said[1].startswith("Slow once")
    assert not any("operation" in line for line in said)


def spans_of(found):
    """Device of the series that a window's figures are of, times in whole seconds."""
    return sorted(
        (round(one.start_ns / S), round(one.end_ns / S), one.seen_in[0].device)
        for one in [*found.windows, *found.drifts]
    )


def slowed(make_recording, seed, *slow, per_s=600, disks=3):
    """``disks`` of which each of ``slow`` is slower by a factor between two times."""
    random = np.random.default_rng(seed)
    ios = ios_of(random, poisson(random, per_s), disks)
    for start_s, end_s, disk, factor in slow:
        ios.latency_s[ios.during(start_s, end_s, disk)] *= factor
    return incident(recorded(make_recording, random, ios))


@pytest.mark.parametrize("seed", range(4))
def test_disks_that_were_slow_at_other_times_have_a_window_each(seed, make_recording):
    """With its own times and factor, and none is told again as a slow change."""
    found = slowed(make_recording, seed, (200, 260, 0, 4), (230, 300, 2, 3))
    assert spans_of(found) == [(200, 260, "sda"), (230, 300, "sdc")]
    for window, factor in zip(sorted(found.windows, key=lambda one: one.start_ns), (4, 3), strict=True):
        assert window.factor == pytest.approx(factor, rel=0.05)
        assert window.cause == "service-driven"


@pytest.mark.parametrize(
    ("second", "count"),
    [
        ((200, 260), 1), ((203, 262), 1), ((210, 270), 1), ((200, 245), 1),
        ((215, 275), 2), ((200, 232), 2), ((255, 320), 2),
    ],
)  # fmt: skip
def test_disks_slow_for_two_thirds_of_the_time_together_are_one_incident(second, count, make_recording):
    """Two of three disks, one of them from 200 to 260 s."""
    found = slowed(make_recording, 1, (200, 260, 0, 3), (*second, 2, 3))
    assert len(found.windows) == count
    assert found.drifts == []


def test_a_disk_that_was_slow_twice_while_another_was_has_two_windows(make_recording):
    """They are linked by the other's window only."""
    found = slowed(make_recording, 1, (200, 230, 0, 3), (225, 265, 2, 3), (260, 300, 0, 3))
    assert spans_of(found) == [(200, 230, "sda"), (225, 265, "sdc"), (260, 300, "sda")]


def test_a_disk_hardly_slower_does_not_lengthen_the_window_of_another(make_recording):
    found = slowed(make_recording, 1, (200, 260, 0, 4), (240, 310, 2, 1.35))
    assert spans_of(found) == [(200, 260, "sda")]


def test_a_disk_that_was_idle_for_half_of_an_incident_shares_it(make_recording):
    """Both are slow from 200 to 260 s; from 200 to 230 s nobody asks the second for anything."""
    random = np.random.default_rng(1)
    ios = ios_of(random, poisson(random, 600), 3)
    kept = ~ios.during(200, 230, 2)
    ios = Ios(ios.at_s[kept], ios.disk[kept], ios.latency_s[kept])
    for disk in (0, 2):
        ios.latency_s[ios.during(200, 260, disk)] *= 3
    found = incident(recorded(make_recording, random, ios))
    assert [(start_s, end_s) for start_s, end_s, _ in spans_of(found)] == [(200, 260)]


def test_what_is_normal_leaves_out_time_in_two_windows_once(make_recording):
    """Each disk gets 200 I/Os a second, in the windows and outside of them."""
    found = slowed(make_recording, 2, (200, 260, 0, 4), (230, 300, 2, 3))
    rows = [row for window in found.windows for row in window.blame if row.dimension == "device"]
    assert len(rows) >= 4
    assert [row.normal_ios_per_s for row in rows] == pytest.approx([200] * len(rows), rel=0.03)


def closed_loop(random, sessions, *, service_s, think_s=0.004):
    """Sessions that wait for each I/O of one server; each of ``sessions`` goes on from one time to another."""
    due = [(start_s + random.exponential(think_s), end_s) for start_s, end_s in sessions]
    heapq.heapify(due)
    at_s, latency_s, free_s = [], [], 0.0
    while due:
        now_s, end_s = heapq.heappop(due)
        if now_s >= end_s:
            continue
        free_s = max(now_s, free_s) + service_s(now_s)
        at_s.append(now_s)
        latency_s.append(free_s - now_s)
        heapq.heappush(due, (free_s + random.exponential(think_s), end_s))
    return Ios(np.array(at_s), np.zeros(len(at_s), int), np.array(latency_s))


@pytest.mark.parametrize("seed", range(3))
def test_more_sessions_on_storage_at_its_limit_are_not_called_slower_storage(seed, make_recording):
    """From 4 sessions to 16 for a minute, on a server that takes 2 ms as ever: 452/s become 500/s, its limit."""
    random = np.random.default_rng(seed)
    sessions = [(0, SECONDS)] * 4 + [(300, 360)] * 12
    ios = closed_loop(random, sessions, service_s=lambda _: random.exponential(0.002))
    (window,) = incident(recorded(make_recording, random, ios)).windows
    assert window.cause != "service-driven"
    assert "it served more than ever in as long" in window.evidence[-1]


@pytest.mark.parametrize("seed", range(3))
def test_storage_that_slows_under_waiting_sessions_stays_storage(seed, make_recording):
    """As many sessions are served less."""
    random = np.random.default_rng(seed)
    ios = closed_loop(
        random,
        [(0, SECONDS)] * 8,
        service_s=lambda now_s: random.exponential(0.006 if 300 <= now_s < 360 else 0.002),
    )
    (window,) = incident(recorded(make_recording, random, ios)).windows
    assert window.cause == "service-driven"


@pytest.mark.parametrize("seed", range(3))
def test_storage_that_slows_under_a_load_that_does_not_wait_stays_storage(seed, make_recording):
    """Three times as many are in flight, but as many come and are served as ever."""
    random = np.random.default_rng(seed)
    at_s = np.sort(poisson(random, 200))
    service_s = random.exponential(0.0015, len(at_s)) * np.where((at_s >= 300) & (at_s < 360), 3, 1)
    (window,) = incident(
        recorded(make_recording, random, Ios(at_s, np.zeros(len(at_s), int), served_s(at_s, service_s)))
    ).windows
    assert window.cause == "service-driven"


@pytest.mark.parametrize("seed", range(3))
def test_what_stays_slow_to_the_end_is_held_against_what_was_before(seed, make_recording):
    """From 120 s on three times as slow: so it is in the picture, and seconds with as much load were normal."""
    found = slowed(make_recording, seed, (120, SECONDS, 0, 3), per_s=300, disks=1)
    (timeline,) = found.timelines
    ratio = np.array(timeline.latency_ns) / np.array(timeline.normal_ns)
    assert np.median(ratio[:118]) == pytest.approx(1, abs=0.05)
    assert np.median(ratio[125:]) == pytest.approx(3, abs=0.15)
    assert np.ptp(timeline.normal_ns) < 0.1 * timeline.normal_ns[0]
    (change,) = found.drifts
    (same,) = [words for words in change.evidence if "normal slots with as much load" in words]
    assert float(same.split(": ")[1].split("x")[0]) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("slow_slots", "normal"), [(50, 15.0), (51, 14.0)])
def test_what_was_before_is_normal_where_a_change_lasts_for_most(slow_slots, normal):
    """14 is the level that the longest of two changes left, 15 that of the faster slots of all."""
    longest, other = (Course(0, 0, 0, 0, base, 1.0, 0.1, 0.1, True, False) for base in (14.0, 13.0))
    stretches = [Stretch(0, 10, 1.0, 0.1, 9.0, other), Stretch(20, 60, 1.0, 0.1, 5.0, longest)]
    changed = Judged(None, stretches, np.full(100, 15.0), None, np.arange(100) < slow_slots)
    assert against_what_it_left(changed, 15.0).normal == pytest.approx(np.full(100, normal))


def test_a_stream_that_takes_longer_to_recover_makes_no_second_window():
    """Both disks froze for five seconds; the sparse reads of one are slow for eight more."""

    def part(device, op, first, end, evidence):
        at = np.arange(60)
        series = Series(
            "device", Stream("device", op, device, None, "data"), at, at * 0.0, at * 0.0, at + 1.0
        )
        stretch = Stretch(first, end, 5.0, 0.1, evidence)
        cut = Segmentation([0, 60], np.ones(60), 10.0)
        return Judged(series, [stretch], at * 0.0, cut, (at >= first) & (at < end))

    steady = [part(device, "write", 20, 25, 100.0) for device in (0, 0, 1)]
    (window,) = windows_of([*steady, part(0, "read", 20, 33, 30.0)])
    assert (window.first, window.end) == (20, 25)
    assert len(window.parts) == 4
