"""The section on slow windows: what happened, by load or by the storage, and what would have been seen."""

from dataclasses import replace

import duckdb

from iotrace.analyze.incident import Incidents, NoLatencyError, incident
from iotrace.analyze.incident.presentation import incident_sections
from iotrace.analyze.incident.words import sensitivity_sentences
from iotrace.analyze.units import format_duration_ns, format_moment
from iotrace.schemas import Recording

from .charts import Table
from .charts_incident import TOLD_MAX, anchor, incident_chart
from .charts_time import SLOTS_MAX
from .section import Section
from .tables import page_tables
from .time_axis import TimeAxis


def find_incidents(recording: Recording, connection: duckdb.DuckDBPyConnection) -> Incidents | None:
    """Slow windows of a recording; None where it has neither I/Os nor counters of latency, or is a closed loop."""
    if recording.manifest.is_closed_loop:
        return None
    try:
        return incident(recording, connection)
    except NoLatencyError:
        return None


def incident_sentence(found: Incidents) -> str:
    """The costliest window and the costliest slow change in a sentence each, what recurs, or that there is nothing."""
    said = []
    if found.windows:
        worst = found.windows[0]
        count = {1: "once", 2: "twice"}.get(len(found.windows), f"{len(found.windows)} times")
        said.append(
            f"It was slow {count}; the window that cost most began "
            f"{format_duration_ns(worst.start_ns - found.start_ns)} after the start: {worst.headline}."
        )
    if found.drifts:
        worst = found.drifts[0]
        words = f"{worst.headline[:1].upper()}{worst.headline[1:]}"
        said.append(
            f"{words}; it began {format_duration_ns(worst.start_ns - found.start_ns)} after the start."
        )
    said += [f"It was slow {pattern.headline}." for pattern in found.periodic]
    if not said:
        said = ["No slow window stands out.", *sensitivity_sentences(found)]
    return " ".join(said)


def worst_sentence(found: Incidents) -> str:
    """When the costliest window or slow change of a slow recording began, how much slower it was, and for how long."""
    slow = [*found.windows[:1], *found.drifts[:1]]
    if not slow:
        return f"It was slow {found.periodic[0].headline}."
    short = slow[0].headline.partition(", most of it in ")[0]
    return f"From {format_duration_ns(slow[0].start_ns - found.start_ns)} after the start: {short}."


def incident_section(
    recording: Recording, found: Incidents, *, prefix: str = "", group: str = "", points_max: int = SLOTS_MAX
) -> Section | None:
    """The windows with their evidence; None where nothing stood out of single I/Os.

    ``prefix`` begins what its tables are linked by; figures of one ``group`` share their time axis.
    """
    slow = [*found.windows[:TOLD_MAX], *found.drifts[:TOLD_MAX]]
    if not slow and not found.periodic and found.basis == "I/Os":
        return None
    start_utc_ns = recording.manifest.clock.start_utc_ns
    points = []
    for one in slow:
        at = format_moment(start_utc_ns + one.start_ns)
        evidence = "; ".join([*one.caveats, *one.evidence])
        points.append(
            f"Window {one.number}{f', {at}' if at else ''}: {one.headline}"
            f"{f' ({evidence})' if evidence else ''}."
        )
    time = TimeAxis(found.start_ns, found.end_ns - found.start_ns, start_utc_ns)
    chart = incident_chart(found, time, prefix=prefix, group=group, points_max=points_max)
    return Section(
        f"Slow windows: {found.title}",
        incident_sentence(found),
        points=points,
        notes=list(found.notes),
        charts=[chart] if chart else [],
        tables=_anchored(page_tables(incident_sections(found, start_utc_ns)), prefix),
    )


def _anchored(tables: list[Table], prefix: str) -> list[Table]:
    """The tables, the first one and the first of each window named so that charts can lead to them."""
    found = [
        replace(table, anchor=anchor(prefix, 0)) if not place else table for place, table in enumerate(tables)
    ]
    for number in range(1, 2 * TOLD_MAX + 100):
        first = next(
            (at for at, table in enumerate(found) if table.caption.startswith(f"Window {number}:")), None
        )
        if first is not None:
            found[first] = replace(found[first], anchor=anchor(prefix, number))
    return found
