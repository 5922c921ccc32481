"""Slow windows and changes on the screen: a picture of the latency, the list, and an account of each."""

from datetime import UTC, datetime
from typing import Final

import numpy as np
from rich.text import Text

from iotrace.analyze.incident import Incidents, SlowWindow
from iotrace.analyze.incident.result import BlameRow, Periodic, Timeline
from iotrace.analyze.incident.words import sensitivity_sentences
from iotrace.analyze.units import (
    DASH,
    format_duration_ns,
    format_figure,
    format_quantity,
    format_rate,
    format_ratio_with_interval,
    format_share,
)

from . import console

_CELLS: Final = 64
_BARS: Final = "▁▂▃▄▅▆▇█"
_SHOWN: Final = 5
_TEXT_CELLS: Final = 56
_NAME_CELLS: Final = 28
_DAY_NS: Final = 86_400 * 10**9
_ONE_NORMAL: Final = 1.25
"""Normal latency that stays within a quarter is printed as one figure."""


def print_incidents(found: Incidents, start_utc_ns: int) -> None:
    """Print the windows of ``found``; `Incidents.to_dict` has the rest."""
    length = format_duration_ns(found.end_ns - found.start_ns)
    console.heading(f"{found.title}  ({found.kind}, {length})")
    for timeline in found.timelines:
        _picture(found, timeline)
    slow = [*found.windows, *found.drifts]
    if slow:
        _list("Slow windows, the costliest first", found.windows, found, start_utc_ns)
        _list("Slow changes, the costliest first", found.drifts, found, start_utc_ns)
        for window in [*found.windows[:_SHOWN], *found.drifts[:_SHOWN]]:
            _account(window, found, start_utc_ns)
        more = max(len(found.windows) - _SHOWN, 0) + max(len(found.drifts) - _SHOWN, 0)
        if more:
            console.paragraph(f"the {more} others: --json", style="dim")
    elif found.timelines:
        also = " besides what recurs" if found.periodic else ""
        console.paragraph(f"No slow window was found{also}.", style="green")
    for pattern in found.periodic:
        _pattern(pattern)
    for sentence in sensitivity_sentences(found):
        console.paragraph(sentence, style="dim")
    for note in found.notes:
        console.paragraph(f"note: {note}")


def _picture(found: Incidents, timeline: Timeline) -> None:
    """Latency over normal in each of a row of cells, worst slot of each; below it the numbers of the windows."""
    ratio = np.array(
        [np.nan if value is None or usual is None else np.log(value / usual)
         for value, usual in zip(timeline.latency_ns, timeline.normal_ns, strict=True)]
    )  # fmt: skip
    cells = np.array_split(np.arange(len(ratio)), min(_CELLS, len(ratio)))
    worst = [float(np.nanmax(ratio[cell])) if np.isfinite(ratio[cell]).any() else None for cell in cells]
    top = max([value for value in worst if value is not None], default=0.0)
    scale = max(top, float(np.log(3)))
    line = Text("  ")
    for cell, value in zip(cells, worst, strict=True):
        last_ns = timeline.at_ns[int(cell[-1])] + found.slot_ns
        slow = any(
            window.start_ns < last_ns and window.end_ns > timeline.at_ns[int(cell[0])]
            for window in [*found.windows, *found.drifts]
        )
        height = " " if value is None else _BARS[int(np.clip(value / scale, 0, 0.999) * len(_BARS))]
        line.append(height, style="bold red" if slow else "")
    console.heading(f"Latency at the {timeline.layer} layer, against normal")
    console.paragraph(
        f"normally {_normal_words(timeline)}; the slowest {format_duration_ns(found.slot_ns)}: "
        f"{format_figure(float(np.exp(top)))} times that",
        indent=2,
    )
    console.data.print(line)
    marks = [" "] * len(cells)
    for window in reversed([*found.windows, *found.drifts]):
        middle = (window.start_ns + window.end_ns) / 2
        share = (middle - found.start_ns) / max(found.end_ns - found.start_ns, 1)
        position = min(int(share * len(cells)), len(cells) - 1)
        for offset, digit in enumerate(str(window.number)):
            if position + offset < len(cells):
                marks[position + offset] = digit
    if "".join(marks).strip():
        console.data.print(Text("  " + "".join(marks).rstrip(), style="bold red"))


def _normal_words(timeline: Timeline) -> str:
    """The typical latency of normal slots, or from which to which it goes with the load."""
    normal = np.array([value for value in timeline.normal_ns if value is not None])
    low, high = (float(value) for value in np.quantile(normal, [0.05, 0.95]))
    if high / low < _ONE_NORMAL:
        return format_duration_ns(float(np.median(normal)))
    return f"{format_duration_ns(low)} to {format_duration_ns(high)}, by the time"


def _list(title: str, windows: list[SlowWindow], found: Incidents, start_utc_ns: int) -> None:
    if not windows:
        return
    console.heading(title)
    rows = [
        [
            str(window.number),
            _when(window.start_ns, found, start_utc_ns),
            window.layer,
            window.cause,
            format_duration_ns(window.end_ns - window.start_ns),
            format_ratio_with_interval(window.factor, window.factor_interval),
        ]
        for window in windows
    ]
    console.table(["", "from", "layer", "cause", "length", "slower"], rows, left=4)


def _account(window: SlowWindow, found: Incidents, start_utc_ns: int) -> None:
    first, last = (_when(at, found, start_utc_ns) for at in (window.start_ns, window.end_ns))
    console.heading(f"{window.number}. {first} to {last}: {window.cause}")
    console.paragraph(window.headline, indent=2)
    for caveat in window.caveats:
        console.paragraph(caveat, style="yellow", indent=2)
    for sentence in window.evidence:
        console.paragraph(f"- {sentence}", indent=2)
    _layers(window)
    _blame(window)
    _beside(window, found, start_utc_ns)


def _layers(window: SlowWindow) -> None:
    if len(window.layers) < 2:
        return
    rows = [
        [f"  {time.layer}", format_duration_ns(time.slow_ns - time.normal_ns), format_duration_ns(time.added_here_ns),
         format_share(time.share)]
        for time in window.layers
    ]  # fmt: skip
    console.table(["  mean by layer", "longer by", "of it added here", "share"], rows)
    for time in window.layers:
        if time.problem:
            console.paragraph(time.problem, style="yellow", indent=2)


def _pattern(pattern: Periodic) -> None:
    console.heading(
        f"Recurs every {format_duration_ns(pattern.period_ns)}: {pattern.cause}, {pattern.layer} layer"
    )
    console.paragraph(pattern.headline, indent=2)
    cost = pattern.lost_ns / len(pattern.starts_ns)
    console.paragraph(
        f"I/Os waited {format_duration_ns(cost)} longer each time, all of them together; "
        "what does not fit the pattern is a slow window of its own",
        indent=2,
    )
    _blame(pattern)


def _blame(window: SlowWindow | Periodic) -> None:
    rows = [
        [
            f"  {row.dimension}",
            _short(row.name, _NAME_CELLS),
            format_rate(row.normal_ios_per_s),
            format_rate(row.slow_ios_per_s),
            _slower(row),
            format_share(row.growth_share),
        ]
        for row in _worth_showing(window.blame)
    ]
    if rows:
        grew = window.blamed_by
        console.table(["  whose", "", "normal", "window", "slower", f"of more {grew}"], rows, left=2)


def _worth_showing(rows: list[BlameRow]) -> list[BlameRow]:
    """The first two of each dimension that have a part in it worth a line."""
    shown: list[BlameRow] = []
    for row in rows:
        of_its_kind = sum(other.dimension == row.dimension for other in shown)
        is_told = any(_figures(other) == _figures(row) for other in shown)
        if of_its_kind < 2 and row.growth_share >= 0.05 and not is_told:
            shown.append(row)
    return shown


def _figures(row: BlameRow) -> tuple[float, ...]:
    """What a device with one file says twice."""
    return (row.normal_ios_per_s, row.slow_ios_per_s, row.slow_bytes_per_s, row.growth_share)


def _slower(row: BlameRow) -> str:
    if not row.normal_latency_ns or row.slow_latency_ns is None:
        return DASH
    return f"{row.slow_latency_ns / row.normal_latency_ns:.2f}x"


def _beside(window: SlowWindow, found: Incidents, start_utc_ns: int) -> None:
    for marker in window.markers[:4]:
        lasted = f" ({format_duration_ns(marker.duration_ns)})" if marker.duration_ns else ""
        text = f": {_short(marker.text)}" if marker.text else ""
        at = _when(marker.start_ns, found, start_utc_ns)
        console.paragraph(f"marker {at} {marker.kind}{lasted}{text}", indent=2)
    for wait in window.waits[:4]:
        usual = f", normally {wait.normal_per_s:.2g}" if wait.ratio else ", otherwise never"
        console.paragraph(
            f"wait {wait.wait_type}: {wait.slow_per_s:.2g} s waited per second{usual}", indent=2
        )
    for counter in window.counters[:4]:
        where = " ".join(part for part in (counter.layer, counter.object, counter.instance) if part)
        slow, normal = (format_quantity(value, counter.unit) for value in (counter.slow, counter.normal))
        console.paragraph(f"counter {_short(where)} {counter.counter}: {slow}, normally {normal}", indent=2)


def _when(at_ns: int, found: Incidents, start_utc_ns: int) -> str:
    """Time of day in UTC, with the date in a recording of over a day; seconds since the start where UTC is unknown."""
    if not start_utc_ns:
        return f"{at_ns / 1e9:,.0f} s"
    at = datetime.fromtimestamp((start_utc_ns + at_ns) / 1e9, UTC)
    return f"{at:%m-%d %H:%M:%S}" if found.end_ns - found.start_ns > _DAY_NS else f"{at:%H:%M:%S}"


def _short(text: str, cells: int = _TEXT_CELLS) -> str:
    """The end of a long name says most."""
    text = " ".join(text.split())
    return text if len(text) <= cells else f"…{text[-cells + 1 :]}"
