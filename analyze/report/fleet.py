"""A report on many hosts: what they come to together, what slowed together, and a row for each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from iotrace.analyze.fleet import (
    FleetIncidents,
    HostTold,
    Unread,
    describe_fleet,
    distinct_hosts,
    fleet_answer,
    fleet_incidents_answer,
    incident_fleet,
)
from iotrace.analyze.fleet.description import all_seconds, without_misfits
from iotrace.analyze.fleet.presentation import hosts_text
from iotrace.analyze.fleet.summary import HostSummary, Seconds
from iotrace.analyze.present import Answer
from iotrace.analyze.units import format_count, format_duration_ns, format_moment
from iotrace.analyze.validity import danger
from iotrace.schemas import counted
from iotrace.schemas.replacing import check_file, new_file
from iotrace.schemas.units import SECOND_NS

from .chromium import installed
from .facts import FindingFacts, Origin, ReportFacts, facts_of
from .parts import Chart, Section, Table
from .plot import Mark, Row, TimeAxis, figure, line, numbers
from .tables import page_tables
from .write import kind_of, write_page

_SLOTS_MAX: Final = 900
_ROWS_MAX: Final = 60
_HOSTS_MAX: Final = 2_000
_ROWS_AT_ONCE: Final = 25


def check_fleet_report(output: Path, *, overwrite: bool, kind: str | None) -> None:
    """Raises `IotraceError`, before many recordings are read, where ``output`` cannot be written."""
    check_file(output, overwrite=overwrite)
    if kind_of(output, kind) == "pdf":
        installed()


def write_fleet_report(
    output: Path,
    found: Sequence[HostTold | Unread],
    groups: Mapping[str, Mapping[str, str]],
    *,
    title: str | None = None,
    overwrite: bool = False,
    kind: str | None = None,
) -> ReportFacts:
    """Write one file on many hosts and return what it says; ``groups`` as `incident_fleet` takes it.

    Raises `IotraceError` as `describe_fleet` and `incident_fleet` do, and for an ``output`` that is taken.
    """
    fitting = without_misfits([one.summary if isinstance(one, HostTold) else one for one in found])
    summaries = [one for one in fitting if isinstance(one, HostSummary)]
    unread = [one for one in fitting if isinstance(one, Unread)]
    of_summary = {id(one.summary): one.slow for one in found if isinstance(one, HostTold)}
    told = [of_summary[id(one)] for one in summaries]
    slow = incident_fleet([*told, *unread], groups)
    described = fleet_answer(describe_fleet(fitting))
    shared = fleet_incidents_answer(slow)
    sections = [
        _section("The hosts", counted(len(summaries), "recording"), described, load_charts(summaries, slow)),
        _section("Slow together", _shared_words(slow), shared, []),
    ]
    # How many and when comes before what was left out.
    said = sorted([*described.opening, *shared.opening], key=lambda one: one.tone != "answer")
    names = distinct_hosts([(one.host, one.recording, one.path) for one in summaries])
    findings = findings_of_many(
        [
            facts_of(name, finding)
            for name, one in zip(names, summaries, strict=True)
            for finding in one.findings
        ]
    )
    facts = ReportFacts(
        title=title or counted(len(summaries), "host"),
        created_utc=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        verdict=said[0].text,
        also=list(dict.fromkeys(one.text for one in said[1:] if one.tone != "aside")),
        is_enough=None,
        findings=findings,
        origins=[_origin(one) for one in summaries],
    )
    with new_file(output, overwrite=overwrite) as partial:
        write_page(partial, kind_of(output, kind), facts, sections)
    facts.path, facts.size_bytes = output, output.stat().st_size
    return facts


def findings_of_many(findings: Sequence[FindingFacts]) -> list[FindingFacts]:
    """One finding for each rule, of all that it fired on, and what it says of the first of them."""
    rules: dict[tuple[str, str], list[FindingFacts]] = {}
    for one in findings:
        rules.setdefault((one.level, one.rule), []).append(one)
    found = []
    for alike in rules.values():
        first = alike[0]
        if len(alike) > 1:
            of_all = len({one.detail for one in alike}) == 1
            name = f"{counted(len(alike), 'recording')} ({hosts_text([one.name for one in alike])})"
            detail = first.detail if of_all else f"in {first.name} {first.detail}"
            first = replace(first, name=name, detail=detail)
        found.append(first)
    return sorted(found, key=lambda one: danger(one.level, one.rule))


def _section(heading: str, sentence: str, answer: Answer, charts: list[Chart]) -> Section:
    """What the verdict has said is not said again: the first table stands at once where it fits on a screen."""
    tables = page_tables(answer.sections, _HOSTS_MAX)
    at_once = 1 if tables and len(tables[0].rows) <= _ROWS_AT_ONCE else 0
    return Section(
        heading,
        sentence,
        points=[one.text for part in answer.sections if part.table is None for one in part.sentences],
        lead=tables[:at_once],
        charts=charts,
        tables=tables[at_once:],
    )


def _shared_words(slow: FleetIncidents) -> str:
    if not slow.shared:
        return "No slow window that hosts share beyond chance."
    return f"{counted(len(slow.shared), 'slow window')} that hosts share beyond chance."


def load_charts(summaries: Sequence[HostSummary], slow: FleetIncidents) -> list[Chart]:
    """The load of all dated hosts over time, and how many of them were being recorded; what they share is marked.

    None where no recording is as long as a point of it.
    """
    dated = [one for one in summaries if one.start_utc_ns is not None]
    seconds = all_seconds(dated)
    if not len(seconds.utc_s):
        return []
    first_s = min(one.start_utc_ns or 0 for one in dated) // SECOND_NS
    last_s = max((one.start_utc_ns or 0) + one.window_ns for one in dated) // SECOND_NS + 1
    axis = TimeAxis(0, int(last_s - first_s) * SECOND_NS, int(first_s) * SECOND_NS)
    step_s = -(-int(last_s - first_s) // _SLOTS_MAX)
    if step_s * SECOND_NS > max(one.window_ns for one in dated):
        # Years between recordings of minutes: a picture of nothing.
        return []
    per_s = _per_second(seconds, int(first_s), int(last_s), step_s)
    middles_ns = (np.arange(len(per_s)) + 0.5) * step_s * SECOND_NS
    at = [axis.at(float(one)) for one in middles_ns]
    utc_ns = first_s * SECOND_NS + middles_ns
    recorded = [
        sum((one.start_utc_ns or 0) <= now < (one.start_utc_ns or 0) + one.window_ns for one in dated)
        for now in utc_ns
    ]
    marks = [
        Mark(
            "slow",
            axis.at(one.start_s * SECOND_NS - first_s * SECOND_NS),
            axis.at(one.end_s * SECOND_NS - first_s * SECOND_NS),
            str(number),
        )
        for number, one in enumerate(slow.shared, start=1)
    ]
    most = int(np.argmax(per_s))
    rows = [
        Row("I/Os a second, all hosts", 200, [line("read", "all hosts", x=at, y=numbers(per_s.tolist()))]),
        Row(
            "hosts being recorded",
            80,
            [line("other", "hosts", x=at, y=numbers([float(n) for n in recorded]))],
        ),
    ]
    table = [
        (format_moment(int(utc_ns[place])), format_count(float(per_s[place])), str(recorded[place]))
        for place in range(0, len(per_s), -(-len(per_s) // _ROWS_MAX))
    ]
    shaded = (
        f"; {counted(len(marks), 'stretch', 'stretches')} in which hosts slowed together are shaded"
        if marks
        else ""
    )
    return [
        Chart(
            "fleet-load",
            "Load of all hosts over time",
            f"Means over {format_duration_ns(step_s * SECOND_NS)} of reads and writes of all hosts, most "
            f"{format_count(float(per_s[most]))} a second{shaded}.",
            figure(rows, axis.axis(), marks, legend=False),
            Table("Load of all hosts, some of its steps", ("from", "I/Os/s", "hosts recorded"), tuple(table)),
        )
    ]


def _per_second(seconds: Seconds, first_s: int, last_s: int, step_s: int) -> np.ndarray:
    slots = (seconds.utc_s - first_s) // step_s
    inside = (slots >= 0) & (seconds.utc_s < last_s)
    counts = np.bincount(slots[inside], seconds.io_count[inside], minlength=-(-(last_s - first_s) // step_s))
    return counts / step_s


def _origin(one: HostSummary) -> Origin:
    return Origin(
        one.recording,
        one.uuid,
        one.kind,
        one.host,
        format_moment(one.start_utc_ns) or "unknown",
        one.window_ns,
        one.host,
        one.quality_words,
        [],
        "",
        {},
        [],
    )
