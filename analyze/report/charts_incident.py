"""Latency against what was normal, layer by layer over time, with the slow windows shaded."""

import math

from iotrace.analyze.incident import Incidents
from iotrace.analyze.incident.result import Timeline
from iotrace.analyze.units import DASH, format_duration_ns

from .charts import Chart, Link, Table
from .charts_time import SLOTS_MAX, CounterName, Marked, table_rows
from .plot import Mark, Row, figure, line, numbers
from .time_axis import TimeAxis

_PANELS_MAX = 4
_NAMED_MAX = 12
"""Windows with their number beside them; more would overlap."""
TOLD_MAX = 3
"""Windows, the costliest first, that have tables of their own."""


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
    worst = max([*found.windows, *found.drifts], key=lambda one: one.factor, default=None)
    said = (
        f"At most {worst.factor:.3g} times as slow as normal, in window {worst.number}."
        if worst
        else "No window stands out."
    )
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
    return Table(caption, tuple(columns), tuple(rows))


def _cell(value_ms: float | None) -> str:
    return DASH if value_ms is None else format_duration_ns(value_ms * 1e6)
