"""Latency against what was normal, layer by layer over time, with the slow windows shaded."""

import math
from collections.abc import Sequence

from iotrace.analyze.incident import Incidents
from iotrace.analyze.incident.result import Timeline
from iotrace.analyze.units import DASH, format_duration_ns

from .axes import elapsed, logarithmic
from .charts import Band, Chart, Key, Line, Panel, Readout, Table, line_of
from .charts_time import Marked

_POINTS_MAX = 240
_PANELS_MAX = 4
_NAMED_MAX = 12
"""Windows with their number beside them; more would overlap."""


def marked(found: Incidents) -> list[Marked]:
    """The slow windows as stretches to point out; the ones that cost most carry their number."""
    return [
        Marked(one.start_ns, one.end_ns, f"slow {one.number}" if one.number <= _NAMED_MAX else "")
        for one in [*found.windows, *found.drifts]
    ]


def incident_chart(found: Incidents) -> Chart | None:
    """A panel for each layer; None where no layer has a course of latency."""
    shown = [_Course(one, found.start_ns) for one in found.timelines[:_PANELS_MAX]]
    shown = [one for one in shown if one.values]
    if not shown:
        return None
    bands = [
        Band("slow", (one.from_ns - found.start_ns) / 1e9, (one.until_ns - found.start_ns) / 1e9, one.words)
        for one in marked(found)
    ]
    unlabelled = [Band(band.style, band.low, band.high) for band in bands]
    first = shown[0]
    kept = "the slowest slot" if first.step > 1 else "each slot"
    length = format_duration_ns(found.slot_ns * first.step)
    worst = max([*found.windows, *found.drifts], key=lambda one: one.factor, default=None)
    said = (
        f"At most {worst.factor:.3g} times as slow as normal, in window {worst.number}."
        if worst
        else "No window stands out."
    )
    return Chart(
        "slow-windows",
        "Latency against normal over time",
        f"Typical latency (geometric mean, corrected for the mix of I/Os) of {kept} in stretches of {length}, and what "
        f"was normal at that time, by layer. {said}",
        elapsed(found.end_ns - found.start_ns),
        tuple(
            Panel(
                logarithmic(f"{one.layer} (ms)", min(one.values), max(one.values)),
                (
                    *(bands if one is first else unlabelled),
                    Line("other", line_of(one.normal_ms, one.middles_s)),
                    Line("read", line_of(one.latency_ms, one.middles_s), is_stepped=True),
                ),
                170,
            )
            for one in shown
        ),
        _table(shown),
        (
            Key("read", "latency"),
            Key("other", "normal"),
            *((Key("slow", "slow windows", "box"),) if bands else ()),
        ),
        _readouts(shown),
    )


class _Course:
    """A timeline of at most `_POINTS_MAX` points: of several slots the slowest, so that no slow one is lost."""

    def __init__(self, timeline: Timeline, start_ns: int) -> None:
        self.layer = timeline.layer
        self.step = max(math.ceil(len(timeline.at_ns) / _POINTS_MAX), 1)
        self.at_s: list[float] = []
        slots = len(timeline.at_ns)
        self.width_s = self.step * (timeline.at_ns[1] - timeline.at_ns[0]) / 1e9 if slots > 1 else 0.0
        self.latency_ms: list[float | None] = []
        self.normal_ms: list[float | None] = []
        for first in range(0, len(timeline.at_ns), self.step):
            part = slice(first, first + self.step)
            latency = [value for value in timeline.latency_ns[part] if value]
            normal = [value for value in timeline.normal_ns[part] if value]
            self.at_s.append((timeline.at_ns[first] - start_ns) / 1e9)
            self.latency_ms.append(max(latency) / 1e6 if latency else None)
            self.normal_ms.append(sum(normal) / len(normal) / 1e6 if normal else None)
        self.middles_s = [at_s + self.width_s / 2 for at_s in self.at_s]
        self.values = [value for value in (*self.latency_ms, *self.normal_ms) if value]


def _table(shown: Sequence[_Course]) -> Table:
    first = shown[0]
    rows = []
    for index, at_s in enumerate(first.at_s):
        cells = [format_duration_ns(at_s * 1e9)]
        for one in shown:
            known = index < len(one.at_s)
            cells += [_cell(one.latency_ms[index]), _cell(one.normal_ms[index])] if known else [DASH, DASH]
        rows.append(tuple(cells))
    columns = ["from", *(f"{one.layer}{words}" for one in shown for words in ("", ", normally"))]
    return Table("Latency and what was normal", tuple(columns), tuple(rows))


def _cell(value_ms: float | None) -> str:
    return DASH if value_ms is None else format_duration_ns(value_ms * 1e6)


def _readouts(shown: Sequence[_Course]) -> tuple[Readout, ...]:
    first = shown[0]
    if len(first.at_s) < 2:
        return ()
    found = []
    for index, at_s in enumerate(first.at_s):
        parts = [
            f"{one.layer} {_cell(one.latency_ms[index])}, normally {_cell(one.normal_ms[index])}"
            for one in shown
            if index < len(one.at_s)
        ]
        found.append(
            Readout(at_s, at_s + first.width_s, f"from {format_duration_ns(at_s * 1e9)}: {'; '.join(parts)}")
        )
    return tuple(found)
