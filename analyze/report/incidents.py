"""The section on slow windows: what happened, by load or by the storage, and what would have been seen.

Its chart shows latency against what was normal, layer by layer over time, with the slow windows shaded.
"""

import math
from dataclasses import replace

import duckdb

from iotrace.analyze.incident import Incidents, NoLatencyError, incident
from iotrace.analyze.incident.presentation import incident_sections
from iotrace.analyze.incident.result import SlowWindow, Timeline
from iotrace.analyze.incident.words import sensitivity_sentences, slower_words
from iotrace.analyze.units import DASH, format_duration_ns, format_moment
from iotrace.schemas import Recording, counted
from iotrace.schemas.vocabulary import listed

from .charts_time import SLOTS_MAX, CounterName, Marked, table_rows
from .parts import Chart, Link, Point, Section, Table
from .plot import Mark, Row, TimeAxis, figure, line, numbers
from .tables import page_tables

_PANELS_MAX = 4
_NAMED_MAX = 12
"""Windows with their number beside them; more would overlap."""
TOLD_MAX = 3
"""Windows, the costliest first, that have tables of their own."""


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
    points: list[str | Point] = []
    for one in slow:
        at = format_moment(start_utc_ns + one.start_ns)
        said = f"Window {one.number}{f', {at}' if at else ''}: {one.headline}."
        points.append(Point(said, (*one.caveats, *one.evidence)))
    time = TimeAxis(found.start_ns, found.end_ns - found.start_ns, start_utc_ns)
    chart = incident_chart(found, time, prefix=prefix, group=group, points_max=points_max)
    return Section(
        f"Slow windows: {found.title}",
        _how_many(found) if slow else incident_sentence(found),
        points=points,
        notes=list(found.notes),
        charts=[chart] if chart else [],
        tables=_anchored(page_tables(incident_sections(found, start_utc_ns)), prefix),
    )


def _how_many(found: Incidents) -> str:
    """How many windows and slow changes there are, each of which is told of below, and what recurs, which is not."""
    counts = [
        counted(len(some), what)
        for some, what in ((found.windows, "slow window"), (found.drifts, "slow change"))
        if some
    ]
    recurring = [f"It was slow {pattern.headline}." for pattern in found.periodic]
    return " ".join(
        [f"{listed(counts)}{', the costliest first' if len(found.windows) > 1 else ''}.", *recurring]
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


def anchor(prefix: str, number: int) -> str:
    """What the tables of a window are linked by."""
    return f"{prefix}window-{number}"


def marked(found: Incidents, prefix: str = "") -> list[Marked]:
    """The slow windows as stretches to point out; the ones that cost most carry their number and lead to tables."""
    told = {one.number for one in [*found.windows[:TOLD_MAX], *found.drifts[:TOLD_MAX]]}
    return [
        Marked(
            one.start_ns,
            one.end_ns,
            f"slow {one.number}" if one.number <= _NAMED_MAX else "",
            anchor(prefix, one.number) if one.number in told else anchor(prefix, 0),
        )
        for one in [*found.windows, *found.drifts]
    ]


def counters_beside(found: Incidents) -> list[CounterName]:
    """The counters that stood out in slow windows, those of the costliest one first."""
    names = [
        CounterName(counter.object, counter.instance, counter.counter)
        for one in [*found.windows, *found.drifts]
        for counter in one.counters
    ]
    return list(dict.fromkeys(names))


def incident_chart(
    found: Incidents,
    time: TimeAxis,
    *,
    prefix: str = "",
    group: str = "",
    points_max: int = SLOTS_MAX,
) -> Chart | None:
    """A panel for each layer; None where no layer has a course of latency."""
    shown = [_Course(one, found.start_ns, points_max) for one in found.timelines[:_PANELS_MAX]]
    shown = [one for one in shown if one.values]
    if not shown:
        return None
    first = shown[0]
    kept = "the slowest slot" if first.step > 1 else "each slot"
    length = format_duration_ns(found.slot_ns * first.step)
    worst = max([*found.windows, *found.drifts], key=lambda one: one.lost_ns, default=None)
    said = f"{_how_slow(worst, found)}." if worst else "No window stands out."
    windows = marked(found, prefix)
    return Chart(
        "slow-windows",
        "Latency against normal over time",
        f"Typical latency (geometric mean, corrected for the mix of I/Os) of {kept} in stretches of {length}, and what "
        f"was normal at that time, by layer. {said}",
        figure(
            [_row(one, time, is_first=one is first) for one in shown],
            time.axis(),
            [Mark("slow", time.at(one.from_ns), time.at(one.until_ns), one.words) for one in windows],
        ),
        _table(found, points_max),
        tuple(Link(time.at(one.from_ns), time.at(one.until_ns), one.words, one.anchor) for one in windows),
        group=group,
    )


def _how_slow(window: SlowWindow, found: Incidents) -> str:
    """How slow a window was over all of it, and in its slowest slot, as the chart shows it layer by layer."""
    most = []
    for one in found.timelines[:_PANELS_MAX]:
        slots = [
            (latency / normal, normal)
            for at_ns, latency, normal in zip(one.at_ns, one.latency_ns, one.normal_ns, strict=True)
            if latency and normal and window.start_ns <= at_ns < window.end_ns
        ]
        if slots:
            most.append(f"{slower_words(*max(slots))} in {one.layer}")
    whole = f"{slower_words(window.factor, window.normal_ns)} over window {window.number}"
    slowest = f"in its slowest {format_duration_ns(found.slot_ns)} {listed(most)}"
    return f"{whole}; {slowest}" if most else whole


def _row(one: "_Course", time: TimeAxis, *, is_first: bool) -> Row:
    middles = [time.at(at_ns + one.width_ns / 2) for at_ns in one.at_ns]
    normal = line(
        "other",
        "normal",
        x=middles,
        y=numbers(one.normal_ms),
        legendgroup="normal",
        showlegend=is_first,
        hovertemplate="%{y:.4~g} ms",
    )
    latency = line(
        "read",
        "latency",
        x=middles,
        y=numbers(one.latency_ms),
        legendgroup="latency",
        showlegend=is_first,
        hovertemplate="%{y:.4~g} ms",
    )
    latency["line"]["shape"] = "hvh"
    return Row(f"{one.layer} (ms)", 170, [normal, latency], is_log=True)


class _Course:
    """A timeline of at most ``points_max`` points: of several slots the slowest, so that no slow one is lost."""

    def __init__(self, timeline: Timeline, start_ns: int, points_max: int) -> None:
        self.layer = timeline.layer
        slots = len(timeline.at_ns)
        self.step = max(math.ceil(slots / points_max), 1)
        self.start_ns = start_ns
        self.width_ns = self.step * (timeline.at_ns[1] - timeline.at_ns[0]) if slots > 1 else 0
        self.at_ns: list[int] = []
        self.latency_ms: list[float | None] = []
        self.normal_ms: list[float | None] = []
        for first in range(0, slots, self.step):
            part = slice(first, first + self.step)
            latency = [value for value in timeline.latency_ns[part] if value]
            normal = [value for value in timeline.normal_ns[part] if value]
            self.at_ns.append(timeline.at_ns[first])
            self.latency_ms.append(max(latency) / 1e6 if latency else None)
            self.normal_ms.append(sum(normal) / len(normal) / 1e6 if normal else None)
        self.values = [value for value in (*self.latency_ms, *self.normal_ms) if value]


def _table(found: Incidents, points_max: int) -> Table:
    """The same in fewer rows."""
    rows_max = table_rows(points_max)
    coarse = [_Course(one, found.start_ns, rows_max) for one in found.timelines[:_PANELS_MAX]]
    shown = [one for one in coarse if one.values]
    first = shown[0]
    rows = []
    for index, at_ns in enumerate(first.at_ns):
        cells = [format_duration_ns(at_ns - found.start_ns)]
        for one in shown:
            known = index < len(one.at_ns)
            cells += [_cell(one.latency_ms[index]), _cell(one.normal_ms[index])] if known else [DASH, DASH]
        rows.append(tuple(cells))
    columns = ["from", *(f"{one.layer}{words}" for one in shown for words in ("", ", normally"))]
    caption = "Latency and what was normal, the slowest slot of each stretch"
    kept = frozenset(
        index
        for index, at_ns in enumerate(first.at_ns)
        if any(
            one.start_ns < at_ns + first.width_ns and at_ns < one.end_ns
            for one in [*found.windows, *found.drifts]
        )
    )
    return Table(caption, tuple(columns), tuple(rows), kept=kept)


def _cell(value_ms: float | None) -> str:
    return DASH if value_ms is None else format_duration_ns(value_ms * 1e6)
