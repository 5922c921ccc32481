"""Slow windows on the screen: a picture of the latency, the list, and an account of each."""

from datetime import UTC, datetime
from typing import Final

import numpy as np
from rich.text import Text

from iotrace.analyze.incident import Incidents, SlowWindow
from iotrace.analyze.incident.result import BlameRow, Timeline
from iotrace.analyze.units import (
    DASH,
    format_duration_ns,
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


def print_incidents(found: Incidents, start_utc_ns: int) -> None:
    """Print the windows of ``found``; `Incidents.to_dict` has the rest."""
    length = format_duration_ns(found.end_ns - found.start_ns)
    console.heading(f"{found.title}  ({found.kind}, {length})")
    for timeline in found.timelines:
        _picture(found, timeline)
    if found.windows:
        _list(found, start_utc_ns)
        for window in found.windows[:_SHOWN]:
            _account(window, found, start_utc_ns)
        if len(found.windows) > _SHOWN:
            console.paragraph(f"the {len(found.windows) - _SHOWN} other windows: --json", style="dim")
    elif found.timelines:
        console.paragraph("No slow window was found.", style="green")
    _sensitivity(found)
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
        middle_ns = timeline.at_ns[int(cell[len(cell) // 2])]
        slow = any(window.start_ns <= middle_ns < window.end_ns for window in found.windows)
        height = " " if value is None else _BARS[int(np.clip(value / scale, 0, 0.999) * len(_BARS))]
        line.append(height, style="bold red" if slow else "")
    worst_words = f"worst {np.exp(top):.2g}x normal"
    console.heading(f"Latency at the {timeline.layer} layer, against normal ({worst_words})")
    console.data.print(line)
    marks = [" "] * len(cells)
    for window in reversed(found.windows):
        middle = (window.start_ns + window.end_ns) / 2
        share = (middle - found.start_ns) / max(found.end_ns - found.start_ns, 1)
        position = min(int(share * len(cells)), len(cells) - 1)
        for offset, digit in enumerate(str(window.number)):
            if position + offset < len(cells):
                marks[position + offset] = digit
    if found.windows:
        console.data.print(Text("  " + "".join(marks).rstrip(), style="bold red"))


def _list(found: Incidents, start_utc_ns: int) -> None:
    console.heading("Slow windows, the costliest first")
    rows = [
        [
            str(window.number),
            _when(window.start_ns, found, start_utc_ns),
            window.layer,
            window.cause,
            format_duration_ns(window.end_ns - window.start_ns),
            format_ratio_with_interval(window.factor, window.factor_interval),
            format_duration_ns(window.normal_ns),
        ]
        for window in found.windows
    ]
    console.table(["", "from", "layer", "cause", "length", "slower", "normal"], rows, left=4)


def _account(window: SlowWindow, found: Incidents, start_utc_ns: int) -> None:
    first, last = (_when(at, found, start_utc_ns) for at in (window.start_ns, window.end_ns))
    console.heading(f"{window.number}. {first} to {last}: {window.cause}")
    console.paragraph(window.headline, indent=2)
    low, high = window.normal_range_ns
    console.paragraph(
        f"normal then: {format_duration_ns(window.normal_ns)}, 90 % of normal slots within "
        f"{format_duration_ns(low)} to {format_duration_ns(high)}; in the window: {format_duration_ns(window.slow_ns)}",
        indent=2,
    )
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
        [f"  {time.layer}", format_duration_ns(time.normal_ns), format_duration_ns(time.slow_ns),
         format_duration_ns(time.added_here_ns), format_share(time.share)]
        for time in window.layers
    ]  # fmt: skip
    console.table(["  mean by layer", "normal", "window", "added here", "share"], rows)
    for time in window.layers:
        if time.problem:
            console.paragraph(time.problem, style="yellow", indent=2)


def _blame(window: SlowWindow) -> None:
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
        unit = f" {counter.unit}" if counter.unit else ""
        console.paragraph(
            f"counter {_short(where)} {counter.counter}: {counter.slow:,.4g}{unit}, normally {counter.normal:,.4g}",
            indent=2,
        )


def _sensitivity(found: Incidents) -> None:
    lines = []
    for timeline in found.timelines:
        mine = [entry for entry in found.sensitivity if entry.layer == timeline.layer]
        if mine:
            words = ", ".join(
                f"{format_duration_ns(entry.length_ns)} at {entry.factor:.2f}x" for entry in mine
            )
            lines.append(f"{timeline.layer} {words}")
    if lines:
        console.paragraph("would have been found: " + "; ".join(lines), style="dim")


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
