"""The answer of `incident`: when it was slow and how much, by load or by the storage, and whose it was."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from iotrace.analyze.present import (
    Answer,
    Bytes,
    Cell,
    Duration,
    Instant,
    Number,
    Offset,
    Rate,
    Ratio,
    Section,
    Sentence,
    Share,
    Strip,
)
from iotrace.analyze.present.answer import columns, notes_section, section
from iotrace.analyze.present.trust import disqualified, findings_section, trust
from iotrace.analyze.units import (
    DASH,
    format_duration_ns,
    format_figure,
    format_moment,
    format_quantity,
    format_ratio_with_interval,
    format_share,
)
from iotrace.analyze.validity import Finding
from iotrace.schemas import Quality
from iotrace.schemas.text import beginning, shortened

from .result import BlameRow, Change, Incidents, Periodic, SlowWindow, Timeline
from .words import (
    TOO_FEW,
    beside_words,
    is_none,
    layer_words,
    level_words,
    normal_words,
    sensitivity_sentences,
    slower_words,
)

_STRIP_CELLS: Final = 64
_TOLD: Final = 5
"""Windows, the costliest first, that are told of one by one."""
_BLAMED: Final = 10
_BESIDE: Final = 6
_BESIDE_CHARACTERS: Final = 80
_CONCENTRATED: Final = 0.2
"""Nats from which on what grew is not shared out as ever: reads that usually have 70 % of it had 88 % of what grew."""
_USUAL_LEAST: Final = 0.01
"""What usually had less counts as if it had so much: shares of next to nothing do not outbid one another."""
_ONE_NORMAL: Final = 1.25
"""Normal latency that stays within a quarter is printed as one figure."""
_TYPICAL: Final = "typical is the geometric mean, which a few slow I/Os hardly move; tables have means"
_FEW: Final = "few I/Os were very slow"
_WHY: Final = {
    "load-driven": "there was more load",
    "service-driven": "slower at the same load",
    "cannot tell": "cannot be told from what was recorded",
}
_LOAD_WORDS: Final = {
    "in_flight": "in flight", "bytes": "bytes per second", "size": "mean size", "bursts": "begun together"
}  # fmt: skip


def incident_answer(
    found: Incidents, start_utc_ns: int, name: str, quality: Quality, findings: Sequence[Finding]
) -> Answer:
    """The whole answer on a recording called ``name``, whose nanosecond 0 is at ``start_utc_ns``."""
    return Answer(
        opening=[
            *disqualified({name: findings}),
            *_opening(found, start_utc_ns),
            *trust(quality, findings, is_judged=found.basis == "I/Os" or bool(findings)),
        ],
        sections=[
            *(_picture(found, timeline, start_utc_ns) for timeline in found.timelines),
            *incident_sections(found, start_utc_ns),
            *_sensitivity(found),
            *notes_section(note for note in found.notes if note != TOO_FEW),
            *findings_section(name, quality, findings),
        ],
    )


def incident_sections(found: Incidents, start_utc_ns: int) -> list[Section]:
    """All windows, then what happened in the costliest of them, and what recurs."""
    told = [*found.windows[:_TOLD], *found.drifts[:_TOLD]]
    return [
        *_list("Slow windows, the costliest first", found.windows, found, start_utc_ns),
        *_list("Slow changes, the costliest first", found.drifts, found, start_utc_ns),
        *(part for window in told for part in _account(window, found, start_utc_ns)),
        *(part for pattern in found.periodic for part in _pattern(pattern)),
    ]


def _opening(found: Incidents, start_utc_ns: int) -> Iterator[Sentence]:
    when = format_moment(start_utc_ns + found.start_ns) or "at no known date"
    length = format_duration_ns(found.end_ns - found.start_ns)
    yield Sentence(f"{beginning(found.title, 34)}: {found.kind} {when}, {length}", "answer")
    slow = [*found.windows, *found.drifts]
    if not slow:
        if found.timelines:
            also = " besides what recurs" if found.periodic else ""
            yield Sentence(f"No slow window was found{also}{_least_found(found)}", "good")
        else:
            yield Sentence(f"Whether it was slow cannot be told: {TOO_FEW}", "doubt")
        return
    worst = max(slow, key=lambda window: window.lost_ns)
    count = {1: "once", 2: "twice"}.get(len(slow), f"{len(slow)} times")
    lasted = format_duration_ns(worst.end_ns - worst.start_ns)
    at = _words(worst.start_ns, found, start_utc_ns)
    yield Sentence(
        f"Slow {count}; worst {at}, {lasted}, {slower_words(worst.factor, worst.normal_ns)}", "doubt"
    )
    mean = "mean " if worst.is_mean else ""
    levels = "" if is_none(worst.normal_ns) else f" ({mean}{level_words(worst.factor, worst.normal_ns)})"
    why = _FEW if worst.is_mean and worst.cause == "service-driven" else _WHY[worst.cause]
    at_layer = layer_words(worst.layer, worst.layers, worst.unseen)
    yield Sentence(f"Why: {why}{levels}; {at_layer}")
    beside = beside_words(worst.markers, (worst.start_ns, worst.end_ns), _BESIDE_CHARACTERS)
    if beside and worst.blamed_by != "load":
        # Who may have done it says more than who was hit.
        yield Sentence(f"{beside[:1].upper()}{beside[1:]}")
    elif row := _telling(worst.blame):
        grew = f"{format_share(row.growth_share)} of the added {_added(worst)}"
        said = "Load from" if worst.blamed_by == "load" else "Hit hardest"
        yield Sentence(f"{said}: {row.dimension} {shortened(row.name, 28)}, {grew}")
    elif known := [one for one in worst.seen_in if one.stream]:
        # Means name no process: what was slowest of that which they do name.
        most = max(known, key=lambda one: one.factor)
        yield Sentence(
            f"Slowest: {shortened(most.stream or '', 40)}, {format_ratio_with_interval(most.factor)} slower"
        )


def _least_found(found: Incidents) -> str:
    """From how much on a sudden slowdown of the shortest length would have been found, which a clean bill rests on."""
    sudden = [
        entry for entry in found.sensitivity if entry.shape == "sudden" and entry.layer == found.load_layer
    ]
    if not sudden:
        return ""
    least = min(sudden, key=lambda entry: entry.length_ns)
    slower, lasted = format_ratio_with_interval(least.factor), format_duration_ns(least.length_ns)
    return f"; one of {slower} for {lasted} would have been"


def _sensitivity(found: Incidents) -> list[Section]:
    """From how much on it would have been seen: part of the answer where nothing was."""
    said = [Sentence(words) for words in sensitivity_sentences(found)]
    is_told = bool(found.windows or found.drifts)
    return [Section("What would have been found", sentences=said, detail=is_told)] if said else []


def _words(at_ns: int, found: Incidents, start_utc_ns: int) -> str:
    """Date and time, and the time since the recording's start."""
    since = str(Offset(at_ns - found.start_ns))
    at = format_moment(start_utc_ns + at_ns)
    return f"{at} ({since})" if at else f"{since} after the start"


def _axis(found: Incidents, start_utc_ns: int, cells: int) -> str:
    """When the strip begins and ends."""
    ends = [_clock(at_ns, found, start_utc_ns) for at_ns in (found.start_ns, found.end_ns)]
    return f"{ends[0]}{ends[1].rjust(cells - len(ends[0]))}" if cells > sum(map(len, ends)) else ""


def _picture(found: Incidents, timeline: Timeline, start_utc_ns: int) -> Section:
    """Latency over normal, the worst slot of each stretch; below it the numbers of the windows."""
    ratio = np.array(
        [np.nan if value is None or usual is None else np.log(value / usual)
         for value, usual in zip(timeline.latency_ns, timeline.normal_ns, strict=True)]
    )  # fmt: skip
    # Every layer has the same slots, so that a column is the same stretch of time in all strips.
    count = min(_STRIP_CELLS, len(ratio))
    edges = np.arange(count + 1) * len(ratio) // count
    cells = [np.arange(first, end) for first, end in itertools.pairwise(edges)]
    worst = [float(np.nanmax(ratio[cell])) if np.isfinite(ratio[cell]).any() else None for cell in cells]
    top = max([value for value in worst if value is not None], default=0.0)
    scale = max(top, float(np.log(3)))
    slow = [*found.windows, *found.drifts]
    marked = [
        any(
            window.start_ns < timeline.at_ns[int(cell[-1])] + found.slot_ns
            and window.end_ns > timeline.at_ns[int(cell[0])]
            for window in slow
        )
        for cell in cells
    ]
    marks = [" "] * len(cells)
    for window in reversed(slow):
        middle = (window.start_ns + window.end_ns) / 2
        share = (middle - found.start_ns) / max(found.end_ns - found.start_ns, 1)
        position = min(int(share * len(cells)), len(cells) - 1)
        for offset, digit in enumerate(str(window.number)):
            if position + offset < len(cells):
                marks[position + offset] = digit
    normal = _normal_words(timeline)
    slowest = max((value for value in timeline.latency_ns if value is not None), default=0.0)
    most = (
        format_duration_ns(slowest)
        if normal == normal_words(0)
        else f"{format_ratio_with_interval(float(np.exp(top)))} that"
    )
    words = f"normally {normal}; {most} in the slowest {format_duration_ns(found.slot_ns)}"
    words += _unseen(timeline, found, start_utc_ns, (found.end_ns - found.start_ns) / len(cells))
    heights = [None if value is None else value / scale for value in worst]
    return Section(
        f"Latency at the {timeline.layer} layer, against normal",
        sentences=[Sentence(f"  {words}")],
        strip=Strip(heights, marked, "".join(marks).rstrip(), axis=_axis(found, start_utc_ns, len(cells))),
        notes=[_TYPICAL] if timeline is found.timelines[0] and slow else [],
    )


def _unseen(timeline: Timeline, found: Incidents, start_utc_ns: int, least_ns: float) -> str:
    """From when to when a layer was seen, where that is not the whole recording: the rest of its strip is blank."""
    seen = [at for at, value in zip(timeline.at_ns, timeline.latency_ns, strict=True) if value is not None]
    if not seen:
        return ""
    what = "sample" if found.basis == "means" else "I/O"
    parts = []
    if seen[0] - found.start_ns > least_ns:
        parts.append(f"before {_clock(seen[0], found, start_utc_ns)}")
    if found.end_ns - (end_ns := seen[-1] + found.slot_ns) > least_ns:
        parts.append(f"after {_clock(end_ns, found, start_utc_ns)}")
    return f"; no {what} {' or '.join(parts)}" if parts else ""


def _clock(at_ns: int, found: Incidents, start_utc_ns: int) -> str:
    """The time of day, or where no date is known the time since the recording's start."""
    return format_moment(start_utc_ns + at_ns)[11:] or str(Offset(at_ns - found.start_ns))


def _normal_words(timeline: Timeline) -> str:
    """The typical latency of normal slots, or from which to which it goes with the load."""
    normal = np.array([value for value in timeline.normal_ns if value is not None])
    low, high = (float(value) for value in np.quantile(normal, [0.05, 0.95]))
    if high / low < _ONE_NORMAL:
        return normal_words(float(np.median(normal)))
    return f"{normal_words(low)} to {format_duration_ns(high)}, by the time"


def _list(title: str, windows: list[SlowWindow], found: Incidents, start_utc_ns: int) -> Iterable[Section]:
    is_dated = bool(format_moment(start_utc_ns))
    rows: list[tuple[Cell, ...]] = [
        (
            str(window.number),
            Instant(start_utc_ns + window.start_ns) if is_dated else Offset(window.start_ns - found.start_ns),
            Duration(window.end_ns - window.start_ns),
            Ratio(window.factor, window.factor_interval),
            window.cause,
            window.layer,
            Offset(window.start_ns - found.start_ns),
            Duration(window.slow_ns),
        )
        for window in windows
    ]
    heads = columns("", "from", "for", "slower", "cause", "layer", "+after", "+slow")
    return section(title, heads, rows, shown=20)


def _account(window: SlowWindow, found: Incidents, start_utc_ns: int) -> Iterator[Section]:
    length = format_duration_ns(window.end_ns - window.start_ns)
    heading = f"{window.number}. {_words(window.start_ns, found, start_utc_ns)}, for {length}: {window.cause}"
    said = [Sentence(f"  {window.headline}"), *(Sentence(f"  {words}", "doubt") for words in window.caveats)]
    yield Section(heading, sentences=[*said, *(Sentence(f"  - {words}") for words in window.evidence)])
    yield from _layers(window)
    yield from _load(window)
    whose = "where the load came from" if window.blamed_by == "load" else "what it hit"
    # The rates of I/Os are another layer's then than those of the load.
    at = f", {window.blamed_at} layer" if window.blamed_at not in {None, found.load_layer} else ""
    yield from _blame(f"Window {window.number}: {whose}{at}", window)
    yield from _beside(window, found)


def _layers(window: SlowWindow) -> Iterable[Section]:
    if len(window.layers) < 2:
        return []
    rows: list[tuple[Cell, ...]] = [
        (
            layer.layer,
            Duration(layer.normal_ns),
            Duration(layer.slow_ns),
            Duration(layer.slow_ns - layer.normal_ns),
            Duration(layer.added_here_ns),
            Share(layer.share),
        )
        for layer in window.layers
    ]
    heads = columns("mean by layer", "normally", "in it", "longer by", "of it added here", "share of it")
    problems = list(dict.fromkeys(layer.problem for layer in window.layers if layer.problem))
    return section(f"Window {window.number}: where the time went", heads, rows, notes=problems)


def _load(window: SlowWindow) -> Iterable[Section]:
    rows: list[tuple[Cell, ...]] = [
        (
            _LOAD_WORDS.get(change.quantity, change.quantity),
            _amount(change, change.normal),
            _amount(change, change.slow),
            Ratio(change.ratio, change.ratio_interval),
            Duration(change.lead_ns),
        )
        for change in window.load
    ]
    heads = columns("typical load", "normally", "in it", "ratio", "grew earlier by")
    return section(f"Window {window.number}: whether the load grew", heads, rows, detail=True)


def _amount(change: Change, value: float) -> Cell:
    if change.quantity == "size":
        return Bytes(value)
    if change.quantity == "bytes":
        return Rate(value, "B")
    return Rate(value) if change.quantity == "arrivals" else format_figure(value)


def _blame(heading: str, window: SlowWindow | Periodic) -> Iterable[Section]:
    worth = _worth_showing(window.blame)
    others = sorted((row for row in window.blame if row not in worth), key=lambda row: -abs(row.growth_share))
    rows: list[tuple[Cell, ...]] = [
        (
            row.dimension,
            row.name,
            Share(row.growth_share),
            Rate(row.normal_ios_per_s),
            Rate(row.slow_ios_per_s),
            _slower(row),
            Duration(row.normal_latency_ns),
            Duration(row.slow_latency_ns),
        )
        for row in [*worth, *others][: max(_BLAMED, len(worth))]
    ]
    heads = ("", "", f"of the added {_added(window)}", "mean I/Os normally", "in it", "slower (mean)",
             "+mean latency normally", "+mean latency in it")  # fmt: skip
    # Where nobody has a share, the table is no answer, only figures for those who ask for all.
    return section(heading, columns(*heads, text=2), rows, shown=len(worth), detail=not worth)


def _added(window: SlowWindow | Periodic) -> str:
    """What ``growth_share`` is a share of: time in flight, or of load bytes where these grew, else I/Os."""
    if window.blamed_by == "time":
        return "time"
    rows = [row for row in window.blame if row.dimension == "operation"] or window.blame
    grew = sum(row.slow_bytes_per_s - row.normal_bytes_per_s for row in rows)
    return "bytes" if grew > 0 else "I/Os"


def _telling(rows: list[BlameRow]) -> BlameRow | None:
    """The one whose part of the growth exceeds its usual share most, by the information in that (Kullback & Leibler).

    Where all got more alike, the first file or process, which a DBA can look into; no operation, size or device.
    """
    shown = _worth_showing(rows)
    if most := max(shown, key=_concentration, default=None):
        if _concentration(most) >= _CONCENTRATED:
            return most
        return next((row for row in shown if row.dimension in {"file", "process"}), None)
    return None


def _concentration(row: BlameRow) -> float:
    """How many nats its part of the growth contributes to the difference from usual shares."""
    return row.growth_share * float(np.log(row.growth_share / max(row.usual_share, _USUAL_LEAST)))


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


def _slower(row: BlameRow) -> Cell:
    if not row.normal_latency_ns or row.slow_latency_ns is None:
        return DASH
    return Ratio(row.slow_latency_ns / row.normal_latency_ns)


def _beside(window: SlowWindow, found: Incidents) -> Iterator[Section]:
    """Markers, which say most and whole, then waits and counters of that time."""
    told = []
    for marker in window.markers[:_BESIDE]:
        lasted = "" if marker.duration_ns is None else f", for {format_duration_ns(marker.duration_ns)}"
        text = f": {' '.join(marker.text.split())}" if marker.text else ""
        told.append(
            Sentence(
                f"  - {Offset(marker.start_ns - found.start_ns)}{lasted}: {marker.kind}{shortened(text, 160)}"
            )
        )
    rows: list[tuple[Cell, ...]] = [
        (f"wait {wait.wait_type}, s/s", Number(wait.normal_per_s, 2), Number(wait.slow_per_s, 2))
        for wait in window.waits[:_BESIDE]
    ]
    rows += [
        (
            " ".join(
                part for part in (counter.layer, counter.object, counter.instance, counter.counter) if part
            ),
            *(format_quantity(value, counter.unit) for value in (counter.normal, counter.slow)),
        )
        for counter in window.counters[:_BESIDE]
    ]
    heading = f"Window {window.number}: what else happened then"
    if rows:
        yield from section(heading, columns("", "normally", "in it"), rows, sentences=told)
    elif told:
        yield Section(heading, sentences=told)


def _pattern(pattern: Periodic) -> Iterator[Section]:
    cost = pattern.lost_ns / len(pattern.starts_ns)
    yield Section(
        f"Recurs every {format_duration_ns(pattern.period_ns)}: {pattern.cause}, {pattern.layer} layer",
        sentences=[
            Sentence(f"  {pattern.headline}"),
            Sentence(
                f"  I/Os waited {format_duration_ns(cost)} longer each time, all of them together; what does not fit "
                "the pattern is a slow window of its own"
            ),
        ],
    )
    yield from _blame("Whose it was", pattern)
