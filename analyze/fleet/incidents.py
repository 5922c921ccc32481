"""Slow windows of many hosts: each host's own, and those that several share."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from iotrace.analyze import validity
from iotrace.analyze.incident import Incidents, NoLatencyError, incident
from iotrace.analyze.present.trust import disqualifying
from iotrace.analyze.units import is_dated
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.sections import read_text
from iotrace.schemas.stored import Place, brought
from iotrace.schemas.units import SECOND_NS

from .shared import ClockOffset, HostIncidents, HostWindow, SharedIncident, clock_offsets, shared_incidents
from .summary import Unread, distinct_hosts

_HINT: Final = "write a table with a column host and one for each thing shared: host,array,hypervisor"


@dataclass(frozen=True, slots=True)
class FleetIncidents:
    """What was slow on many hosts, and together."""

    shared: list[SharedIncident]
    """The one of most hosts first."""
    hosts: list[HostIncidents]
    clocks: list[ClockOffset]
    undated: list[str]
    """Hosts whose recordings have no date: what they share with others cannot be told."""
    unread: list[Unread]
    kinds: list[str]
    """What is known of what hosts share: array, fabric, …"""


def incidents_of(place: Place) -> HostIncidents | Unread:
    """The slow windows of one recording. What is wrong with it is the result, so that the others' are not lost."""
    try:
        with brought(place) as path:
            recording = Recording.open(path)
            found = _found(recording)
            spoilt_by = tuple(entry.title for entry in disqualifying(validity.check(recording)))
    except IotraceError as problem:
        return Unread(str(place), problem.message)
    manifest = recording.manifest
    zero_ns = manifest.clock.start_utc_ns
    zero_s = zero_ns / SECOND_NS if is_dated(zero_ns) else 0.0
    start_ns, end_ns = (
        (found.start_ns, found.end_ns) if found else (manifest.window_start_ns, manifest.window_end_ns)
    )
    return HostIncidents(
        host=manifest.host.name or "",
        recording=recording.name,
        path=str(place),
        start_s=zero_s + start_ns / SECOND_NS if zero_s else 0.0,
        end_s=zero_s + end_ns / SECOND_NS if zero_s else 0.0,
        slot_s=found.slot_ns / SECOND_NS if found else 0.0,
        windows=_windows(found, zero_s) if found else (),
        spoilt_by=spoilt_by,
        is_told=bool(found and found.timelines),
        has_latency=found is not None,
    )


def _found(recording: Recording) -> Incidents | None:
    """None where it has no latency to judge by."""
    try:
        return incident(recording)
    except NoLatencyError:
        return None


def _windows(found: Incidents, zero_s: float) -> tuple[HostWindow, ...]:
    return tuple(
        HostWindow(
            zero_s + one.start_ns / SECOND_NS,
            zero_s + one.end_ns / SECOND_NS,
            one.factor,
            one.layer,
            one.cause,
            one.headline,
        )
        for one in (*found.windows, *found.drifts)
    )


def incident_fleet(
    found: Sequence[HostIncidents | Unread], groups: Mapping[str, Mapping[str, str]]
) -> FleetIncidents:
    """Put together what was found on each host; ``groups`` says what hosts share (`read_groups`).

    Raises `IotraceError` where no recording could be read, or ``groups`` knows none of the hosts.
    """
    unread = [one for one in found if isinstance(one, Unread)]
    read = [one for one in found if isinstance(one, HostIncidents)]
    if not read:
        raise IotraceError(
            f"none of {len(unread)} recordings can be read; {unread[0].problem}",
            hint="iotrace validate RECORDING tells what is left of one",
        )
    names = distinct_hosts([(one.host, one.recording, one.path) for one in read])
    # What the user says of a host is true of all its recordings.
    known = {
        name: groups.get(name) or groups.get(one.host) or groups.get(one.recording, {})
        for name, one in zip(names, read, strict=True)
    }
    if groups and not any(known.values()):
        raise IotraceError(
            f"none of the hosts is one that the groups name: {', '.join(list(groups)[:3])}",
            hint=f"the hosts are {', '.join(names[:3])}",
        )
    hosts = [
        replace(one, host=name, own_host=one.host or name) for one, name in zip(read, names, strict=True)
    ]
    shared = shared_incidents([one for one in hosts if one.is_told], known)
    return FleetIncidents(
        shared=shared,
        hosts=hosts,
        clocks=list(clock_offsets(shared)),
        undated=[one.host for one in hosts if one.start_s == 0],
        unread=unread,
        kinds=list(dict.fromkeys(kind for one in known.values() for kind in one)),
    )


def read_groups(path: Path) -> dict[str, dict[str, str]]:
    """What hosts share, by host: a CSV with a column ``host`` and a column for each kind. Raises `IotraceError`."""
    text = read_text(path, what="table of hosts", hint=_HINT).removeprefix("\ufeff")
    first = text.splitlines()[0] if text.strip() else ""
    rows = csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=first.count), strict=True)
    found: dict[str, dict[str, str]] = {}
    try:
        heads = {(head or "").strip().lower(): head for head in rows.fieldnames or ()}
        if "host" not in heads or len(heads) < 2:
            raise IotraceError(f"'{path}' has no column host, or nothing beside it", hint=_HINT)
        for row in rows:
            host = (row[heads["host"]] or "").strip()
            if host in found:
                raise IotraceError(f"'{path}' names the host '{host}' twice", hint="give each host one line")
            found[host] = {
                head: value.strip()
                for head, name in heads.items()
                if head not in {"host", ""} and (value := row.get(name) or "").strip()
            }
    except csv.Error as problem:
        raise IotraceError(f"'{path}' is not a table: {problem}", hint=_HINT) from problem
    found.pop("", None)
    return found
