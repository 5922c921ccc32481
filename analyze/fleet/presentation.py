"""The answers on a fleet: how busy and how slow all of it is, or what was slow; then a row for each host."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from iotrace.analyze.describe.description import Latency
from iotrace.analyze.present import Answer, Cell, Column, Duration, Instant, Number, Ratio, Section, Sentence
from iotrace.analyze.present.answer import section
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_duration_ns,
    format_figure,
    format_moment,
    format_ratio_with_interval,
    format_share,
)
from iotrace.schemas import counted
from iotrace.schemas.text import HOST_CHARACTERS, shortened
from iotrace.schemas.units import SECOND_NS

from .description import PEAK_SECONDS, Fleet, Host
from .incidents import FleetIncidents
from .shared import SharedIncident
from .summary import Unread

_SHOWN: Final = 40
_NAMED: Final = 3
_DATE_CHARACTERS: Final = len("2026-01-03")
_SHARED_SHOWN: Final = 3
_HOSTS_SHOWN: Final = 40


def fleet_answer(found: Fleet) -> Answer:
    """The whole answer."""
    first, *rest = _opening(found)
    return Answer(opening=[first, *_disqualified(found), *rest, *_trust(found)], sections=list(_hosts(found)))


def _disqualified(found: Fleet) -> Iterator[Sentence]:
    yield from left_out(found.unread)
    spoilt = [one for one in found.hosts if one.spoilt_by]
    if spoilt:
        first = spoilt[0]
        yield Sentence(
            f"Not to be relied on: {hosts_text([one.host for one in spoilt])}"
            f" ({first.spoilt_by[0]}{'' if len(spoilt) == 1 else '; others below'})",
            "bad",
        )


def left_out(unread: Sequence[Unread]) -> Iterator[Sentence]:
    """Why recordings were left out: of many the first few."""
    for one in unread[:_NAMED]:
        yield Sentence(f"Left out: {one.problem}", "bad")
    if more := unread[_NAMED:]:
        yield Sentence(f"Left out, too: {hosts_text([Path(one.path).name for one in more])}", "bad")


def _opening(found: Fleet) -> Iterator[Sentence]:
    yield Sentence(f"{counted(len(found.hosts), 'recording')}{_when(found)}", "answer")
    if len(found.hosts) > 1 and len({one.own_host for one in found.hosts}) == 1:
        together = "" if found.together_most > 1 else ", at different times"
        yield Sentence(
            f"All are recordings of one machine{together}: what is summed is not the load of several hosts",
            "doubt",
        )
    if found.undated:
        yield Sentence(f"No date, so not in the peak: {hosts_text(found.undated)}", "doubt")
    yield from _counted(found)
    if not found.io_count:
        if all(one.counted_ios_per_s is None for one in found.hosts):
            yield Sentence("They hold no reads or writes")
        return
    if_together = "" if found.together_most == len(found.hosts) else ", if all ran at once"
    yield Sentence(
        f"Load{if_together}: {format_figure(found.ios_per_s)} I/Os/s of "
        f"{format_bytes(found.size_bytes / found.io_count)}, "
        f"{100 * (found.read_share_of_ios or 0):.0f} % reads, {format_figure(found.bytes_per_s / 1e6)} MB/s"
    )
    if found.peak is not None:
        at = format_moment(found.peak.utc_s * SECOND_NS)
        yield Sentence(
            f"Peak: {format_figure(found.peak.ios_per_s)} I/Os/s, from {at}, when "
            f"{found.recorded_at_peak} of the {len(found.hosts)} were being recorded throughout"
            if found.coincidence is None
            else f"Peak: {format_figure(found.peak.ios_per_s)} I/Os/s at {at}, {format_share(found.coincidence, 0)} of "
            "the hosts' peaks summed"
        )
    said = [
        f"{op}s {_took(latency)}" for op, latency in (("read", found.read), ("write", found.write)) if latency
    ]
    if said:
        yield Sentence(f"{'Response' if found.metric == 'response' else 'Latency'}: {'; '.join(said)}")
    if found.outliers:
        slower: dict[str, list[str]] = {}
        for one in found.outliers:
            words = f"{one.op}s {format_ratio_with_interval(one.times_median)}"
            slower.setdefault(one.host, []).append(words)
        named = [f"{shortened(host, HOST_CHARACTERS)} ({', '.join(words)})" for host, words in slower.items()]
        yield Sentence(f"Slower than the median host: {_first(named)}", "doubt")


def _counted(found: Fleet) -> Iterator[Sentence]:
    """Hosts whose I/Os nobody recorded: they are in no sum."""
    counted_only = [one for one in found.hosts if one.counted_ios_per_s is not None]
    if not counted_only:
        return
    rate = f"{format_figure(sum(one.counted_ios_per_s or 0 for one in counted_only))} I/Os/s"
    if found.io_count:
        names = hosts_text([one.host for one in counted_only])
        yield Sentence(f"Not in these figures, because only counters were recorded: {names}, {rate}", "doubt")
    else:
        yield Sentence(
            f"Load by counters: {rate}; counters know means only, no peaks of seconds and no percentiles"
        )


def _when(found: Fleet) -> str:
    dated = [one for one in found.hosts if one.start_utc_ns is not None]
    if not dated:
        return ", none of known date"
    first = min(one.start_utc_ns or 0 for one in dated)
    last = max((one.start_utc_ns or 0) + one.window_ns for one in dated)
    begin, end = format_moment(first), format_moment(last)
    if begin[:_DATE_CHARACTERS] == end[:_DATE_CHARACTERS]:
        begin, end = begin.removesuffix(" UTC"), end[_DATE_CHARACTERS + 1 :]
    most = "all" if found.together_most == len(found.hosts) else f"at most {found.together_most}"
    return f", {begin} to {end}, {most} recorded at the same time"


def _trust(found: Fleet) -> Iterator[Sentence]:
    if any(one.spoilt_by for one in found.hosts) or found.unread:
        return
    flawed = [one.host for one in found.hosts if one.quality != "good"]
    if flawed:
        yield Sentence(f"Trust: recorded with losses or flaws: {hosts_text(flawed)}", "doubt")
    else:
        yield Sentence("Trust: recorded without known loss, all of them", "good")


def hosts_text(hosts: Sequence[str]) -> str:
    """The first few of them, and how many more."""
    return _first([shortened(one, HOST_CHARACTERS) for one in hosts])


def _first(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return f"{', '.join(words[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _took(latency: Latency) -> str:
    p99 = latency.quantiles_ns["p99"]
    return f"{format_duration_ns(latency.mean_ns)}" + (
        f", p99 {format_duration_ns(p99)}" if p99 is not None else ""
    )


def _hosts(found: Fleet) -> Iterator[Section]:
    heads = (
        Column("host", is_text=True), Column("I/Os", "/s"), Column("read", "mean"), Column("write", "mean"),
        Column("read", "p99"), Column("write", "p99"), Column("peak", "I/Os/s"), Column("MB/s"), Column("reads", "%"),
        Column("queue", detail=True), Column("began", detail=True), Column("lasted", detail=True),
        Column("recorded", detail=True),
    )  # fmt: skip
    notes = (
        [f"peak: the busiest {PEAK_SECONDS} s of that host"] if any(one.peak for one in found.hosts) else []
    )
    notes += [
        f"{one.host}: not to be relied on: {'; '.join(one.spoilt_by)}" for one in found.hosts if one.spoilt_by
    ]
    yield from section(
        "Each host, the busiest first", heads, [_row(one) for one in found.hosts], shown=_SHOWN, notes=notes
    )


def _row(one: Host) -> tuple[Cell, ...]:
    return (
        shortened(one.host, HOST_CHARACTERS),
        Number(one.ios_per_s if one.io_count else one.counted_ios_per_s),
        _mean(one.read),
        _mean(one.write),
        _p99(one.read),
        _p99(one.write),
        Number(one.peak.ios_per_s if one.peak else None),
        Number(one.bytes_per_s / 1e6 if one.io_count else None, 1),
        Number(None if one.read_share_of_ios is None else 100 * one.read_share_of_ios),
        Number(one.queue_length_mean if one.io_count else None, 2),
        Instant(one.start_utc_ns or 0),
        Duration(one.window_ns),
        one.quality,
    )


def _mean(latency: Latency | None) -> Duration:
    return Duration(latency.mean_ns if latency else None)


def _p99(latency: Latency | None) -> Duration:
    return Duration(latency.quantiles_ns["p99"] if latency else None)


def fleet_incidents_answer(found: FleetIncidents) -> Answer:
    """The whole answer."""
    return Answer(
        opening=[*_incidents_disqualified(found), *_incidents_opening(found)], sections=list(_sections(found))
    )


def _incidents_disqualified(found: FleetIncidents) -> Iterator[Sentence]:
    yield from left_out(found.unread)
    spoilt = [one for one in found.hosts if one.spoilt_by]
    if spoilt:
        yield Sentence(
            f"Not to be relied on: {hosts_text([one.host for one in spoilt])} ({spoilt[0].spoilt_by[0]})",
            "bad",
        )


def _incidents_opening(found: FleetIncidents) -> Iterator[Sentence]:
    slow = [one for one in found.hosts if one.windows]
    untold = [one.host for one in found.hosts if not one.is_told]
    without = [one.host for one in found.hosts if not one.has_latency]
    too_few = [one.host for one in found.hosts if one.has_latency and not one.is_told]
    if not found.shared:
        hosts = counted(len(found.hosts), "host")
        if slow:
            yield Sentence(f"{hosts}: {len(slow)} with slow windows, {_apart(found)}", "answer")
        elif len(untold) == len(found.hosts):
            yield Sentence(f"{hosts}: whether they were slow cannot be told", "answer")
        else:
            others = " of the others" if untold else " of them"
            yield Sentence(f"{hosts}: no slow window on any{others}", "answer")
    if without:
        yield Sentence(f"No latencies to judge by: {hosts_text(without)}", "doubt")
    if too_few:
        yield Sentence(f"Too few I/Os to say what is normal: {hosts_text(too_few)}", "doubt")
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


def _apart(found: FleetIncidents) -> str:
    """What is known of slow windows that no hosts share."""
    dated = [one for one in found.hosts if one.start_s]
    if len(dated) < 2:
        return "none to compare its clock with"
    if len({one.own_host for one in dated}) == 1:
        return "but all are recordings of one machine"
    times = sorted((window.start_s, window.end_s, one.own_host) for one in dated for window in one.windows)
    ended_s: dict[str, float] = {}
    for start_s, end_s, host in times:
        if any(other != host and start_s < until_s for other, until_s in ended_s.items()):
            return "some at the same moment, but no more than chance may make"
        ended_s[host] = max(ended_s.get(host, end_s), end_s)
    return "no two at the same moment"


def _sentence(one: SharedIncident) -> str:
    when = f"{format_moment(round(one.start_s * SECOND_NS))}, for {format_duration_ns((one.end_s - one.start_s) * 1e9)}"
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
                shortened(host.host, HOST_CHARACTERS),
                Ratio(host.window.factor),
                host.window.layer,
                Instant(round(host.window.start_s * SECOND_NS)),
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
                shortened(one.host, HOST_CHARACTERS),
                str(len(one.windows)) if one.is_told else DASH,
                str(len(own)) if one.is_told else DASH,
                Ratio(worst.factor if worst else None),
                Instant(round(worst.start_s * SECOND_NS) if worst and one.start_s else 0),
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
