"""Shared incidents with a planted truth: which hosts were slow together, since when, and what they share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from iotrace.analyze.fleet.shared import (
    HostIncidents,
    HostWindow,
    SharedIncident,
    clock_offsets,
    shared_incidents,
)

DAY_S = 86_400.0
NIGHT_S = 1_767_400_000.0
CLOCK_ERROR_S = 2.0
"""No host's clock is off by more."""
CASES = 100


@dataclass(frozen=True)
class Shared:
    """An incident that several hosts feel, in true time; ``end_jitter`` is a share of its length."""

    start_s: float
    length_s: float
    members: frozenset[str]
    member_slow: float = 1.0
    """Probability that a member is slow."""
    end_jitter: float = 0.2


@dataclass(frozen=True)
class Case:
    """Recordings, what their hosts share, and the truth."""

    hosts: list[HostIncidents]
    groups: dict[str, dict[str, str]]
    shared: Shared

    @property
    def tolerance_s(self) -> float:
        """No host's window begins further from the true time than this."""
        return CLOCK_ERROR_S + max(host.slot_s for host in self.hosts)

    @property
    def slow(self) -> set[str]:
        """The members that were slow then."""
        return {
            host.host
            for host in self.hosts
            if host.host in self.shared.members
            and any(abs(one.start_s - self.shared.start_s) <= self.tolerance_s for one in host.windows)
        }

    def found(self) -> list[SharedIncident]:
        """What begins when the planted incident does."""
        found = shared_incidents(self.hosts, self.groups)
        return [one for one in found if abs(one.start_s - self.shared.start_s) <= self.tolerance_s]


def members_of(groups: dict[str, dict[str, str]]) -> dict[tuple[str, str], frozenset[str]]:
    pairs = {pair for described in groups.values() for pair in described.items()}
    return {pair: frozenset(h for h in groups if pair in groups[h].items()) for pair in sorted(pairs)}


def fourteen_hosts(random: np.random.Generator) -> dict[str, dict[str, str]]:
    """Three arrays of 3 to 6 hosts, two fabrics, four hypervisors; no two groups have the same hosts."""
    while True:
        arrays = np.repeat(
            ["A", "B", "C"], random.permutation([(3, 5, 6), (4, 4, 6), (4, 5, 5)][random.integers(3)])
        )
        on_first = random.integers(6, 9)
        fabrics = random.permutation(np.repeat(["1", "2"], [on_first, 14 - on_first]))
        hypervisors = random.permutation(np.repeat(["esx1", "esx2", "esx3", "esx4"], [3, 3, 4, 4]))
        groups = {
            f"sql{number:02}": {"array": str(array), "fabric": str(fabric), "hypervisor": str(hypervisor)}
            for number, (array, fabric, hypervisor) in enumerate(
                zip(arrays, fabrics, hypervisors, strict=True), 1
            )
        }
        members = list(members_of(groups).values())
        if len(set(members)) == len(members):
            return groups


def window(start_s: float, end_s: float, factor: float = 3.0) -> HostWindow:
    return HostWindow(start_s, end_s, factor, "device", "service-driven", "I/O was slow.")


def recording(
    host: str, start_s: float, end_s: float, *windows: HostWindow, slot_s: float = 1.0
) -> HostIncidents:
    return HostIncidents(host, f"{host}.iotrace", f"/traces/{host}.iotrace", start_s, end_s, slot_s, windows)


def hours(host: str, *starts_s: float, count: float = 24, slot_s: float = 1.0) -> HostIncidents:
    """Recorded for ``count`` hours; slow for 30 s from each second after NIGHT_S."""
    windows = (window(NIGHT_S + start_s, NIGHT_S + start_s + 30) for start_s in starts_s)
    return recording(host, NIGHT_S, NIGHT_S + count * 3600, *windows, slot_s=slot_s)


def log_uniform(random: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def slots(random: np.random.Generator, count: int) -> np.ndarray:
    """0.5 to 5 s; every fifth fleet has counters of 15 s on half of its hosts."""
    fine = random.uniform(0.5, 5.0, count)
    return np.where(random.random(count) < 0.5, 15.0, fine) if random.random() < 0.2 else fine


def on_slots(
    random: np.random.Generator, empty: HostIncidents, start_s: float, length_s: float
) -> HostWindow:
    """A window begins with the slot in which the host became slow, or with the next one."""
    slot = np.floor((start_s - empty.start_s) / empty.slot_s) + random.integers(2)
    begins = empty.start_s + max(slot, 0) * empty.slot_s
    ends = min(begins + max(np.round(length_s / empty.slot_s), 1) * empty.slot_s, empty.end_s)
    return window(float(begins), float(ends), log_uniform(random, 1.3, 30))


def apart(windows: list[HostWindow]) -> tuple[HostWindow, ...]:
    """In the order of time; a window that meets an earlier one of the list is left out."""
    kept: list[HostWindow] = []
    for one in windows:
        if one.end_s > one.start_s and all(one.start_s > k.end_s or one.end_s < k.start_s for k in kept):
            kept.append(one)
    return tuple(sorted(kept, key=lambda one: one.start_s))


def recorded(
    random: np.random.Generator, empty: HostIncidents, clock_s: float, shared: list[Shared]
) -> HostIncidents:
    """What a host whose clock is ahead by ``clock_s`` felt of the shared incidents, and up to 3 windows of its own."""
    windows = []
    for one in shared:
        if empty.host in one.members and random.random() < one.member_slow:
            length_s = one.length_s * random.uniform(1 - one.end_jitter, 1 + one.end_jitter)
            windows.append(on_slots(random, empty, one.start_s + clock_s, length_s))
    starts_s = random.uniform(empty.start_s, empty.end_s, min(random.poisson(1.5), 3))
    windows.extend(on_slots(random, empty, start_s, log_uniform(random, 2, 120)) for start_s in starts_s)
    return replace(empty, windows=apart(windows))


def fleet(seed: int, kind: str | None) -> Case:
    """An incident on one group of the kind (None: on all hosts); with kind "nothing", on no host."""
    random = np.random.default_rng(seed)
    groups = fourteen_hosts(random)
    on = [pair for pair in members_of(groups) if pair[0] == kind]
    if kind == "fabric":
        on = [pair for pair in on if 6 <= len(members_of(groups)[pair]) <= 8]
    members = frozenset(groups) if kind is None else frozenset()
    if on:
        members = members_of(groups)[on[random.integers(len(on))]]
    shared = Shared(
        NIGHT_S + random.uniform(0, DAY_S), log_uniform(random, 20, 1200), members, random.uniform(0.9, 1)
    )
    hosts = []
    for host, slot_s in zip(groups, slots(random, len(groups)), strict=True):
        length_s = max(log_uniform(random, 1200, DAY_S), shared.length_s + 120)
        start_s = shared.start_s - 60 - random.uniform(0, length_s - shared.length_s - 90)
        empty = recording(host, start_s, start_s + length_s, slot_s=slot_s)
        hosts.append(recorded(random, empty, random.uniform(-CLOCK_ERROR_S, CLOCK_ERROR_S), [shared]))
    return Case(hosts, groups, shared)


def named(case: Case, kind: str) -> str:
    [name] = [
        pair[1]
        for pair, members in members_of(case.groups).items()
        if pair[0] == kind and members == case.shared.members
    ]
    return name  # fmt: skip


@pytest.mark.parametrize("kind", ["array", "hypervisor", "fabric"])
def test_the_group_that_was_slow_is_named(kind):
    def right(case: Case) -> bool:
        groups = [one.group for one in case.found() if one.group]
        return any((group.kind, group.name) == (kind, named(case, kind)) for group in groups)

    wrong = [seed for seed in range(CASES) if not right(fleet(seed, kind))]
    assert len(wrong) <= 5, wrong


def test_no_group_is_named_where_all_hosts_are_slow():
    def right(case: Case) -> bool:
        return any(one.group is None and len(one.hosts) >= len(case.slow) - 1 for one in case.found())

    wrong = [seed for seed in range(CASES) if not right(fleet(seed, None))]
    assert len(wrong) <= 5, wrong


def test_hosts_that_are_slow_at_times_of_their_own_share_nothing():
    def quiet(case: Case) -> bool:
        return not shared_incidents(case.hosts, case.groups)

    wrong = [seed for seed in range(CASES) if not quiet(fleet(seed, "nothing"))]
    assert len(wrong) <= 2, wrong


def scheduled(seed: int, phases_s: np.ndarray, hours_recorded: float = 4, every_s: float = 600) -> Case:
    """14 hosts with a job of half a minute; each begins at its phase of the period."""
    random = np.random.default_rng(seed)
    groups = fourteen_hosts(random)
    hosts = []
    for host, phase_s, slot_s in zip(groups, phases_s, random.uniform(0.5, 5.0, len(groups)), strict=True):
        start_s = NIGHT_S - random.uniform(60, every_s / 2)
        empty = recording(host, start_s, start_s + hours_recorded * 3600, slot_s=slot_s)
        begins = np.arange(NIGHT_S + phase_s, empty.end_s - 60, every_s)
        jobs = [on_slots(random, empty, begin, random.uniform(20, 40)) for begin in begins]
        hosts.append(replace(empty, windows=apart(jobs)))
    return Case(hosts, groups, Shared(NIGHT_S, 30, frozenset(groups)))


def test_jobs_of_the_same_period_and_different_phase_share_nothing():
    def quiet(seed: int) -> bool:
        case = scheduled(seed, np.random.default_rng([seed, 1]).uniform(0, 600, 14))
        return not shared_incidents(case.hosts, case.groups)

    wrong = [seed for seed in range(CASES) if not quiet(seed)]
    assert len(wrong) <= 4, wrong


def test_jobs_at_the_same_minute_of_all_hosts_are_shared_by_no_group():
    """Every hour for eight hours: eight shared incidents."""
    for seed in range(20):
        clocks_s = np.random.default_rng([seed, 1]).uniform(-CLOCK_ERROR_S, CLOCK_ERROR_S, 14)
        case = scheduled(seed, clocks_s, 7.9, 3600)
        found = shared_incidents(case.hosts, case.groups)
        starts_s = np.array(sorted(one.start_s for one in found))
        assert len(found) == 8, seed
        assert np.all(np.abs(starts_s - NIGHT_S - 3600 * np.arange(8)) <= case.tolerance_s), seed
        assert all(one.group is None and len(one.hosts) >= 13 for one in found), seed


def test_two_hosts_slow_at_the_same_second_of_a_day():
    [one] = shared_incidents([hours("sql01", 40_000), hours("sql02", 40_001)], {})
    assert {slow.host: slow.from_first_s for slow in one.hosts} == {"sql01": 0, "sql02": 1}
    assert NIGHT_S + 40_000 <= one.start_s <= NIGHT_S + 40_001
    assert (one.recorded_count, one.group) == (2, None)


def test_what_all_recorded_hosts_share_does_not_tell_them_apart():
    groups = {host: {"array": "A"} for host in ("sql01", "sql02")}
    [one] = shared_incidents([hours("sql01", 40_000), hours("sql02", 40_000)], groups)
    assert one.group is None


def test_three_windows_each_in_ten_minutes_meet_by_chance():
    two = [hours("sql01", 60, 250, 430, count=1 / 6), hours("sql02", 75, 251, 445, count=1 / 6)]
    assert shared_incidents(two, {}) == []


def test_windows_that_overlap_but_begin_minutes_apart_are_not_shared():
    late = recording("sql02", NIGHT_S, NIGHT_S + DAY_S, window(NIGHT_S + 40_300, NIGHT_S + 41_000))
    early = recording("sql01", NIGHT_S, NIGHT_S + DAY_S, window(NIGHT_S + 40_000, NIGHT_S + 41_000))
    assert shared_incidents([early, late], {}) == []


def test_one_host_shares_nothing_with_itself():
    again = replace(hours("sql01", 40_000), recording="again.iotrace", path="/traces/again.iotrace")
    assert shared_incidents([hours("sql01", 40_000), again], {}) == []


def test_hosts_without_a_date_take_no_part():
    undated = [recording(f"old{number}", 0, DAY_S, window(40_000, 40_030)) for number in range(3)]
    assert shared_incidents(undated, {}) == []
    odd = recording("old", 0, DAY_S, window(NIGHT_S + 40_000, NIGHT_S + 40_030))
    [one] = shared_incidents([hours("sql01", 40_000), hours("sql02", 40_000), odd], {})
    assert sorted(slow.host for slow in one.hosts) == ["sql01", "sql02"]
    assert one.recorded_count == 2


def test_hosts_not_recorded_then_were_not_quick():
    """Of six hosts on array A two were recorded the day before only; six on array B were not slow."""
    on_a = [hours(f"a{number}", 40_000) for number in range(4)]
    before = [recording(f"a{number}", NIGHT_S - DAY_S, NIGHT_S - 1) for number in (4, 5)]
    on_b = [hours(f"b{number}") for number in range(6)]
    hosts = on_a + before + on_b
    [one] = shared_incidents(hosts, {host.host: {"array": host.host[0].upper()} for host in hosts})
    assert one.group is not None
    assert (one.group.kind, one.group.name) == ("array", "A")
    assert (one.group.slow_count, one.group.host_count) == (4, 4)
    assert (one.group.others_slow_count, one.group.others_count) == (0, 6)
    assert one.recorded_count == 10


def test_groups_with_the_same_hosts_cannot_be_told_apart():
    hosts = [hours(f"a{number}", 40_000) for number in range(4)] + [
        hours(f"b{number}") for number in range(6)
    ]
    groups = {host.host: {"array": host.host[0], "room": f"cellar {host.host[0]}"} for host in hosts}
    [one] = shared_incidents(hosts, groups)
    assert one.group is not None
    assert one.group.name in ("a", "cellar a")
    assert len(one.group.alike) == 1


def test_hosts_of_which_nothing_is_known_are_others():
    hosts = [hours(f"a{number}", 40_000) for number in range(4)] + [
        hours(f"b{number}") for number in range(6)
    ]
    [one] = shared_incidents(
        hosts, {f"a{number}": {"array": "A"} for number in range(4)} | {"gone": {"array": "A"}}
    )
    assert one.group is not None
    assert (one.group.name, one.group.host_count, one.group.others_count) == ("A", 4, 6)


@pytest.mark.parametrize(
    "hosts", [[], [hours("sql01")], [hours("sql01"), hours("sql02")], [hours("sql01", 40_000)]]
)
def test_nothing_to_share(hosts):
    assert shared_incidents(hosts, {}) == []
    assert list(clock_offsets([])) == []


def test_a_recording_and_a_window_without_length_change_nothing():
    at = NIGHT_S + 40_000
    odd = [
        recording("sql03", at, at, window(at, at)),
        recording("sql04", NIGHT_S, NIGHT_S + DAY_S, window(at + 9_000, at + 9_000)),
    ]
    [one] = shared_incidents([hours("sql01", 40_000), hours("sql02", 40_000), *odd], {})  # fmt: skip
    assert {"sql01", "sql02"} <= {slow.host for slow in one.hosts}


def test_identical_windows_of_one_host_count_once():
    assert shared_incidents([hours("sql01", *[40_000] * 5), hours("sql02")], {}) == []
    [one] = shared_incidents([hours("sql01", *[40_000] * 5), hours("sql02", 40_000)], {})
    assert sorted(slow.host for slow in one.hosts) == ["sql01", "sql02"]


def test_three_hundred_hosts_with_twenty_windows_each():
    """Those of one array of 20 are slow together once."""
    random = np.random.default_rng(0)
    hosts = [hours(f"sql{number:03}", *random.uniform(0, 80_000, 20)) for number in range(300)]
    groups = {host.host: {"array": f"array {number // 20}"} for number, host in enumerate(hosts)}
    slow = window(NIGHT_S + 84_000, NIGHT_S + 84_060)
    hosts[40:60] = [replace(host, windows=(*host.windows, slow)) for host in hosts[40:60]]
    [one] = shared_incidents(hosts, groups)
    assert one.group is not None
    assert (one.group.name, one.group.slow_count) == ("array 2", 20)


def clocks(seed: int, offsets_s: np.ndarray, finest_s: float, coarsest_s: float) -> list[SharedIncident]:
    """What is found of four incidents in a day that all hosts feel."""
    random = np.random.default_rng([seed, 1])
    names = [f"sql{number:02}" for number in range(1, len(offsets_s) + 1)]
    incidents = [Shared(NIGHT_S + 3600 * hour, 60, frozenset(names)) for hour in (3, 8, 14.3, 20)]
    hosts = []
    for name, offset_s in zip(names, offsets_s, strict=True):
        start_s = NIGHT_S - random.uniform(0, 600)
        empty = recording(name, start_s, start_s + DAY_S, slot_s=random.uniform(finest_s, coarsest_s))
        hosts.append(recorded(random, empty, offset_s, incidents))
    return shared_incidents(hosts, {})


def offset_ranges(finest_s: float, coarsest_s: float) -> Iterator[tuple[int, str, bool]]:
    """Of 30 fleets: seed, host and whether the range holds its offset against the median host's clock."""
    for seed in range(30):
        offsets_s = np.random.default_rng(seed).uniform(-CLOCK_ERROR_S, CLOCK_ERROR_S, 14)
        from_median_s = offsets_s - np.median(offsets_s)
        for one in clock_offsets(clocks(seed, offsets_s, finest_s, coarsest_s)):
            yield seed, one.host, one.low_s <= from_median_s[int(one.host[3:]) - 1] <= one.high_s


@pytest.mark.parametrize(("finest_s", "coarsest_s"), [(0.1, 0.2), (0.5, 1), (0.5, 5)])
def test_the_range_of_a_clock_offset_holds_the_planted_one(finest_s, coarsest_s):
    held = list(offset_ranges(finest_s, coarsest_s))
    wrong = [(seed, host) for seed, host, holds in held if not holds]
    assert held
    assert len(wrong) <= 0.05 * len(held), (len(wrong), len(held), wrong)


def test_a_clock_that_is_off_is_found_and_the_others_are_not():
    """One of 14 clocks is 2 s ahead, the others are right."""
    missed, false = [], []
    for seed in range(20):
        given = {one.host: one for one in clock_offsets(clocks(seed, np.r_[2.0, np.zeros(13)], 0.1, 0.2))}
        ahead = given.pop("sql01", None)
        if ahead is None or ahead.incident_count != 4 or not ahead.low_s <= 2.0 <= ahead.high_s:
            missed.append(seed)
        false.extend((seed, host) for host in given)
    assert len(missed) <= 1, missed
    assert len(false) <= 0.05 * 20 * 13, false
