"""Slow windows that several hosts share in time, and what those hosts have in common.

Two hosts' windows belong together where they begin within what their clocks may be apart and overlap. That so many
begin together is held against chance: a host that had k other windows in D seconds has one within w seconds of a given
moment with probability 1 - exp(-(k + 1/2) w / D), and the number of such hosts is taken as Poisson. Windows that are
alike in length, too, are told from chance by how rare that is among all windows. Where it is known what hosts share,
the members of each group are looked at by themselves as well, since few others can then begin with them by chance. What
the slow hosts have in common is the group whose members were slow most clearly more often than the others (likelihood
ratio; Fisher's exact test says whether it is more than chance).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from iotrace.analyze.present.program import figure

CLOCKS_APART_S: Final = 4.0
"""Two clocks that are each within 2 s of the true time."""
_CHANCE_MAX: Final = 0.02
"""Expected number of sets of hosts that begin together by chance, above which they are none."""
_CHANCE_IN_GROUPS_MAX: Final = 0.04
"""The same of sets within what hosts are known to share."""
_GROUP_CHANCE_MAX: Final = 0.15
_SHORTEST_S: Final = 1e-3
_OFFSETS_MIN: Final = 2
"""Shared incidents from which a clock's offset is told."""


@dataclass(frozen=True, slots=True)
class HostWindow:
    """A slow window of one host, in seconds of UTC by that host's clock."""

    start_s: float
    end_s: float
    factor: float
    layer: str
    cause: str
    headline: str


@dataclass(frozen=True, slots=True)
class HostIncidents:
    """What was slow on one host while it was recorded."""

    host: str
    recording: str
    path: str
    start_s: float
    """Of the recording, in seconds of UTC; 0 where it has no date."""
    end_s: float
    slot_s: float
    """How finely windows begin."""
    windows: tuple[HostWindow, ...]
    own_host: str = ""
    """The host's own name; of several recordings of one host, which share nothing, it is the same."""
    spoilt_by: tuple[str, ...] = ()
    """Titles of the validity rules that say that its figures must not be used."""
    is_told: bool = True
    """Whether enough of it holds I/Os or samples to say what is normal, and so what is slow."""
    has_latency: bool = True
    """Whether it has any: of its I/Os, or in its counters."""


@dataclass(frozen=True, slots=True)
class Group:
    """What hosts share: ``kind`` is a column of what the user said of them, such as array, and ``name`` its value."""

    kind: str
    name: str
    slow_count: int
    host_count: int
    """Members that were being recorded."""
    others_slow_count: int
    others_count: int
    alike: tuple[str, ...] = ()
    """Other groups with the very same hosts: the windows cannot tell them apart."""


@dataclass(frozen=True, slots=True)
class SlowHost:
    """One host in a shared incident."""

    host: str
    window: HostWindow
    from_first_s: float
    """How much later than on the first host it began, by the hosts' own clocks."""
    slot_s: float
    """How finely that is known."""


@dataclass(frozen=True, slots=True)
class SharedIncident:
    """Hosts that became slow together."""

    start_s: float
    """Median of the hosts' clocks."""
    end_s: float
    hosts: list[SlowHost]
    recorded_count: int
    """Hosts that were being recorded then."""
    group: Group | None
    """What the slow ones have in common and the others have not; None where nothing known tells them apart."""
    chance: float
    """How many sets of so many hosts would begin together by chance in all of what was recorded."""

    @figure
    def load_driven_count(self) -> int:
        """On how many of them the host's own load explains it."""
        return sum(one.window.cause == "load-driven" for one in self.hosts)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How much later than the others' a host's clock has what they share; the range is that of the incidents."""

    host: str
    offset_s: float
    low_s: float
    high_s: float
    incident_count: int


@dataclass(frozen=True, slots=True)
class _Slow:
    """A window, and the places of its host and of its recording."""

    host: int
    recording: int
    window: HostWindow
    slack_s: float


def shared_incidents(
    hosts: Sequence[HostIncidents], groups: Mapping[str, Mapping[str, str]]
) -> list[SharedIncident]:
    """Sets of windows that begin together on more hosts than by chance; the one of most hosts first.

    ``groups`` has, by host, what it shares with others: the value of each kind. Hosts without a date take no part.
    """
    dated = [one for one in hosts if one.start_s > 0]
    chances = _Chances(dated, groups)
    left = sorted(
        (
            _Slow(chances.host_of[number], number, window, one.slot_s)
            for number, one in enumerate(dated)
            for window in one.windows
        ),
        key=lambda one: one.window.start_s,
    )
    found = []
    while len(left) > 1:
        best = min(
            _sets(left, chances), key=lambda one: (one.times_allowed, -len(one.together)), default=None
        )
        if best is None or best.times_allowed > 1:
            break
        # Found within a group or not: who else began with them is told, too.
        together = _together(best.anchor, left)
        found.append(_incident(dated, together, groups, best.expected))
        left = [one for one in left if one not in together]
    return sorted(found, key=lambda one: (-len(one.hosts), one.start_s))


@dataclass(frozen=True, slots=True)
class _Set:
    """Windows that begin with ``anchor``, and how many such sets chance makes; that over how many are allowed."""

    anchor: _Slow
    together: list[_Slow]
    expected: float
    times_allowed: float


def _sets(slow: Sequence[_Slow], chances: "_Chances") -> Iterator[_Set]:
    """For each window, in order of their starts, those that begin with it: of all hosts, and of each group it is in."""
    starts = np.array([one.window.start_s for one in slow])
    reach_s = CLOCKS_APART_S + max((one.slack_s for one in slow), default=0.0)
    first = np.searchsorted(starts, starts - reach_s)
    last = np.searchsorted(starts, starts + reach_s, "right")
    for anchor, begin, end in zip(slow, first, last, strict=True):
        together = _together(anchor, slow[begin:end])
        if len(together) < 2:
            continue
        # Each of a set's windows finds it again.
        expected = chances.of(anchor, together) * chances.window_count / len(together)
        yield _Set(anchor, together, expected, expected / _CHANCE_MAX)
        for members in chances.groups_of[anchor.host]:
            inside = [one for one in together if one.host in members]
            if len(inside) > 1:
                tries = chances.window_count * chances.kind_count / len(inside)
                expected = chances.of(anchor, inside, members) * tries
                yield _Set(anchor, inside, expected, expected / _CHANCE_IN_GROUPS_MAX)


def _together(anchor: _Slow, slow: Sequence[_Slow]) -> list[_Slow]:
    """The windows, at most one a host, that begin with ``anchor`` and are under way with it; itself among them."""
    nearest: dict[int, _Slow] = {}
    for one in slow:
        apart_s = abs(one.window.start_s - anchor.window.start_s)
        slack_s = CLOCKS_APART_S + max(one.slack_s, anchor.slack_s)
        begun_s = max(one.window.start_s, anchor.window.start_s)
        overlaps = min(one.window.end_s, anchor.window.end_s) + slack_s > begun_s
        best = nearest.get(one.host)
        is_nearer = best is None or apart_s < abs(best.window.start_s - anchor.window.start_s)
        if apart_s <= slack_s and overlaps and is_nearer:
            nearest[one.host] = one
    nearest[anchor.host] = anchor
    return list(nearest.values())


class _Chances:
    """How likely windows of hosts that have nothing to do with one another begin together."""

    def __init__(self, recordings: Sequence[HostIncidents], groups: Mapping[str, Mapping[str, str]]) -> None:
        names = list(dict.fromkeys(_own(one) for one in recordings))
        self.host_of = [names.index(_own(one)) for one in recordings]
        self._host_of = np.array(self.host_of, np.int64)
        self._start_s = np.array([one.start_s for one in recordings])
        self._end_s = np.array([one.end_s for one in recordings])
        self._slack_s = np.array([one.slot_s for one in recordings])
        self._windows = np.array([len(one.windows) for one in recordings], np.float64)
        self._log_lengths = np.array([_log_length(window) for one in recordings for window in one.windows])
        self.window_count = len(self._log_lengths)
        members: dict[tuple[str, str], set[int]] = {}
        for one, host in zip(recordings, self.host_of, strict=True):
            for pair in groups.get(one.host, {}).items():
                members.setdefault(pair, set()).add(host)
        some = {pair: inside for pair, inside in members.items() if 1 < len(inside) < len(names)}
        self.kind_count = len({kind for kind, _ in some})
        self.groups_of = [
            {frozenset(inside) for inside in some.values() if host in inside} for host in range(len(names))
        ]
        """By host: the members of each group that it is in."""

    def of(self, anchor: _Slow, together: Sequence[_Slow], members: frozenset[int] | None = None) -> float:
        """That as many other hosts (of ``members``) as in ``together`` have a window that begins with ``anchor``.

        By chance, that is. The number of such hosts is taken as Poisson, which has the longer tail (Hoeffding 1956).
        """
        from scipy.special import pdtrc  # noqa: PLC0415 - it takes long to import, and every command would wait for it

        others = self._windows.copy()
        others[[one.recording for one in together]] -= 1
        # As far as they are apart: hosts that begin within a second say more than hosts that begin within four.
        spread_s = max(abs(one.window.start_s - anchor.window.start_s) for one in together)
        width_s = 2 * (spread_s + np.maximum(self._slack_s, anchor.slack_s))
        length_s = np.maximum(self._end_s - self._start_s, width_s)
        begins = -np.expm1(-(others + 0.5) * width_s / length_s)
        at_s = anchor.window.start_s
        counts = (self._start_s - CLOCKS_APART_S <= at_s) & (at_s <= self._end_s + CLOCKS_APART_S)
        counts &= self._host_of != anchor.host
        if members is not None:
            counts &= np.isin(self._host_of, list(members))
        mean = begins[counts].sum()
        alike = self._alike(anchor, together)
        # Two things were looked at, starts and lengths: the product of two uniform variables is below x more often
        # than x, by 1 - ln.
        return float(
            min(
                pdtrc(len(together) - 2, mean),
                pdtrc(len(together) - 2, mean * alike) * (1 - np.log(alike)),
            )
        )

    def _alike(self, anchor: _Slow, together: Sequence[_Slow]) -> float:
        """The share of all windows whose length is as near to that of ``anchor`` as those of ``together`` are."""
        length = _log_length(anchor.window)
        apart = 0.0
        for one in together:
            if one is not anchor:
                # A slot more or less says nothing.
                slack_s = max(one.slack_s, anchor.slack_s)
                known = slack_s / max(float(np.exp(length)), slack_s, _SHORTEST_S)
                apart = max(apart, abs(_log_length(one.window) - length) + known)
        near = int((np.abs(self._log_lengths - length) <= apart).sum())
        return (max(near - len(together), 0) + 1) / (max(self.window_count - len(together), 0) + 1)


def _log_length(window: HostWindow) -> float:
    return float(np.log(max(window.end_s - window.start_s, _SHORTEST_S)))


def _own(one: HostIncidents) -> str:
    return one.own_host or one.host


def _is_recorded(host: HostIncidents, at_s: float) -> bool:
    return host.start_s - CLOCKS_APART_S <= at_s <= host.end_s + CLOCKS_APART_S


def _incident(
    hosts: Sequence[HostIncidents],
    together: Sequence[_Slow],
    groups: Mapping[str, Mapping[str, str]],
    chance: float,
) -> SharedIncident:
    starts = [one.window.start_s for one in together]
    start_s = float(np.median(starts))
    slow = {hosts[one.recording].host for one in together}
    own = {_own(hosts[one.recording]) for one in together}
    # Of a host that was recorded twice at once, the recording that shows it.
    recorded = [
        one.host for one in hosts if _is_recorded(one, start_s) and (one.host in slow or _own(one) not in own)
    ]
    return SharedIncident(
        start_s=start_s,
        end_s=float(np.median([one.window.end_s for one in together])),
        hosts=sorted(
            (
                SlowHost(hosts[one.recording].host, one.window, one.window.start_s - min(starts), one.slack_s)
                for one in together
            ),
            key=lambda one: one.from_first_s,
        ),
        recorded_count=len(recorded),
        group=common_group(slow, recorded, groups),
        chance=chance,
    )


def common_group(
    slow: set[str], recorded: Sequence[str], groups: Mapping[str, Mapping[str, str]]
) -> Group | None:
    """The group that tells the ``slow`` hosts best from the others of those ``recorded``; None where none does."""
    members: dict[frozenset[str], list[tuple[str, str]]] = {}
    for kind in dict.fromkeys(kind for host in recorded for kind in groups.get(host, {})):
        names = {host: groups.get(host, {}).get(kind, "") for host in recorded}
        for name in sorted(set(names.values()) - {""}):
            inside = frozenset(host for host in recorded if names[host] == name)
            if 1 < len(inside) < len(recorded):
                members.setdefault(inside, []).append((kind, name))
    found = [
        Group(
            *named[0],
            slow_count=len(slow & inside),
            host_count=len(inside),
            others_slow_count=len(slow - inside),
            others_count=len(recorded) - len(inside),
            alike=tuple(f"{kind} {name}" for kind, name in named[1:]),
        )
        for inside, named in members.items()
    ]
    best = max(found, key=_told_apart, default=None)
    if best is None or _by_chance(best, [one.host_count for one in found]) > _GROUP_CHANCE_MAX:
        return None
    return best


def _told_apart(group: Group) -> float:
    """Log likelihood ratio of two shares, in the group and beside it, against one; negative if fewer of it are."""
    slow, count = group.slow_count + group.others_slow_count, group.host_count + group.others_count
    ratio = (
        _log_likelihood(group.slow_count, group.host_count)
        + _log_likelihood(group.others_slow_count, group.others_count)
        - _log_likelihood(slow, count)
    )
    return (
        ratio
        if group.slow_count * group.others_count > group.others_slow_count * group.host_count
        else -ratio
    )


def _log_likelihood(hits: int, count: int) -> float:
    parts = [part * np.log(part / count) for part in (hits, count - hits) if part]
    return float(sum(parts))


def _by_chance(group: Group, sizes: Sequence[int]) -> float:
    """That some group, of groups of these ``sizes``, is told apart as clearly by chance (Fisher's exact test)."""
    from scipy.stats import hypergeom  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    count, slow = group.host_count + group.others_count, group.slow_count + group.others_slow_count
    limit = hypergeom.sf(group.slow_count - 1, count, slow, group.host_count) * (1 + 1e-9)
    return float(
        sum(
            max(
                (tail for tail in hypergeom.sf(np.arange(-1, size), count, slow, size) if tail <= limit),
                default=0,
            )
            for size in sizes
        )
    )


def clock_offsets(found: Sequence[SharedIncident]) -> Iterator[ClockOffset]:
    """What the shared incidents say of the clocks, as far as they agree that one is before or after the others.

    The range is that of the incidents, a slot wider on either side: a window begins with a slot.
    """
    late: dict[str, list[float]] = {}
    slack_s: dict[str, float] = {}
    for one in found:
        for host in one.hosts:
            late.setdefault(host.host, []).append(host.window.start_s - one.start_s)
            slack_s[host.host] = max(slack_s.get(host.host, 0.0), host.slot_s)
    for name, offsets in sorted(late.items()):
        low, high = min(offsets) - slack_s[name], max(offsets) + slack_s[name]
        if len(offsets) >= _OFFSETS_MIN and (low > 0 or high < 0):
            yield ClockOffset(name, float(np.median(offsets)), low, high, len(offsets))
