"""The answer on what was slow on many hosts: what they share first, then each host's own."""

from collections.abc import Iterator
from typing import Final

from iotrace.analyze.present import Answer, Cell, Column, Duration, Instant, Ratio, Section, Sentence
from iotrace.analyze.present.answer import section
from iotrace.analyze.units import format_duration_ns, format_moment
from iotrace.schemas import counted
from iotrace.schemas.text import shortened

from .incidents import FleetIncidents
from .presentation import hosts_text
from .shared import SharedIncident

_NS_PER_S: Final = 1_000_000_000
_SHARED_SHOWN: Final = 3
_HOSTS_SHOWN: Final = 40
_HOST_CHARACTERS: Final = 24


def fleet_incidents_answer(found: FleetIncidents) -> Answer:
    """The whole answer."""
    return Answer(opening=[*_disqualified(found), *_opening(found)], sections=list(_sections(found)))


def _disqualified(found: FleetIncidents) -> Iterator[Sentence]:
    for one in found.unread:
        yield Sentence(f"Left out: {one.problem}", "bad")
    spoilt = [one for one in found.hosts if one.spoilt_by]
    if spoilt:
        yield Sentence(
            f"Not to be relied on: {hosts_text([one.host for one in spoilt])} ({spoilt[0].spoilt_by[0]})",
            "bad",
        )


def _opening(found: FleetIncidents) -> Iterator[Sentence]:
    slow = [one for one in found.hosts if one.windows]
    dated = len(found.hosts) - len(found.undated)
    if not found.shared:
        apart = (
            "no more of them at one moment than by chance" if dated > 1 else "none to compare its clock with"
        )
        yield Sentence(
            f"{counted(len(found.hosts), 'host')}: {len(slow)} with slow windows, {apart}"
            if slow
            else f"{counted(len(found.hosts), 'host')}: no slow window on any of them",
            "answer",
        )
    for one in found.shared[:_SHARED_SHOWN]:
        yield Sentence(_sentence(one), "answer")
    if (more := len(found.shared) - _SHARED_SHOWN) > 0:
        yield Sentence(f"{more} more that hosts share, below")
    if found.shared and not found.kinds:
        yield Sentence(
            "--groups HOSTS.csv says what the hosts share (array, hypervisor): then the answer names it",
            "aside",
        )
    if found.undated:
        yield Sentence(f"No date, so nothing to share: {hosts_text(found.undated)}", "doubt")


def _sentence(one: SharedIncident) -> str:
    when = f"{format_moment(round(one.start_s * _NS_PER_S))}, for {format_duration_ns((one.end_s - one.start_s) * 1e9)}"
    count, group = len(one.hosts), one.group
    if group is None:
        who = (
            f"All {count} hosts" if count == one.recorded_count else f"{count} of {one.recorded_count} hosts"
        )
        what = "" if count == one.recorded_count else "; nothing known tells them from the others"
    else:
        who = f"{group.slow_count} of {group.host_count} hosts on {group.kind} {group.name}"
        alike = f" (or {' or '.join(group.alike)}: the same hosts)" if group.alike else ""
        what = f"{alike}; {group.others_slow_count or 'none'} of {counted(group.others_count, 'other')}"
    driven = one.load_driven_count
    load = f"; on {'all' if driven == count else driven} of them their own load grew" if driven else ""
    return f"{who} slowed together, {when}{what}{load}"


def _sections(found: FleetIncidents) -> Iterator[Section]:
    for number, one in enumerate(found.shared, start=1):
        rows: list[tuple[Cell, ...]] = [
            (
                shortened(host.host, _HOST_CHARACTERS),
                Ratio(host.window.factor),
                host.window.layer,
                Instant(round(host.window.start_s * _NS_PER_S)),
                Duration((host.window.end_s - host.window.start_s) * 1e9),
                host.window.cause,
            )
            for host in one.hosts
        ]
        heads = (
            Column("host", is_text=True), Column("slower"), Column("layer"), Column("from"), Column("for"),
            Column("cause", detail=True),
        )  # fmt: skip
        by_chance = f"chance alone would make {one.chance:.1g} such incidents of these slow windows"
        yield from section(f"Shared {number}", heads, rows, shown=_HOSTS_SHOWN, notes=[by_chance])
    clocks = [
        f"{one.host}: {abs(one.offset_s):.1f} s {'behind' if one.offset_s > 0 else 'ahead of'} the others "
        f"[{one.low_s:+.1f}, {one.high_s:+.1f}], by {one.incident_count} shared windows"
        for one in found.clocks
    ]
    if clocks:
        yield Section("Clocks", sentences=[Sentence(one) for one in clocks], detail=True)
    yield from _each(found)


def _each(found: FleetIncidents) -> Iterator[Section]:
    shared = {(host.host, host.window) for one in found.shared for host in one.hosts}
    rows: list[tuple[Cell, ...]] = []
    for one in sorted(found.hosts, key=lambda one: -len(one.windows)):
        own = [window for window in one.windows if (one.host, window) not in shared]
        worst = max(own, key=lambda window: window.factor, default=None)
        rows.append(
            (
                shortened(one.host, _HOST_CHARACTERS),
                str(len(one.windows)),
                str(len(own)),
                Ratio(worst.factor if worst else None),
                Instant(round(worst.start_s * _NS_PER_S) if worst and one.start_s else 0),
            )
        )
    heads = (
        Column("host", is_text=True), Column("slow windows"), Column("of its own"), Column("worst"), Column("from"),
    )  # fmt: skip
    notes = (
        ["iotrace incident RECORDING says more of a host's own"]
        if any(one.windows for one in found.hosts)
        else []
    )
    yield from section("Each host", heads, rows, shown=_HOSTS_SHOWN, notes=notes)
