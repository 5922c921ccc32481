"""What happened over time: throughput, I/Os in flight, and the heat map of latency.

However long the recording, it is cut into at most `SLOTS_MAX` stretches, each added up by DuckDB.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from iotrace.analyze import library
from iotrace.analyze.incident.change_points import runs
from iotrace.analyze.stats.histogram import quantile_ns
from iotrace.analyze.units import format_count, format_duration_ns, format_figure, format_rate
from iotrace.schemas.arrays import Floats

from .axes import elapsed, linear, logarithmic
from .charts import Band, Box, Boxes, Chart, Key, Line, Panel, Readout, Table, line_of

SLOTS_MAX: Final = 140
"""Stretches of time in a chart; more than a screen shows are of no use."""
_NICE_NS: Final = tuple(step * 10**power for power in range(6, 10) for step in (1, 2, 5)) + tuple(
    seconds * 1_000_000_000
    for seconds in (
        10,
        15,
        20,
        30,
        60,
        120,
        300,
        600,
        900,
        1200,
        1800,
        3600,
        7200,
        10800,
        21600,
        43200,
        86400,
    )
)
_SHADES: Final = 8
Columns = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Marked:
    """A stretch of the recording to point out, in ns since its start, and what to call it."""

    from_ns: int
    until_ns: int
    words: str


def slot_ns(window_ns: int) -> int:
    """A round length of time that cuts the window into at most `SLOTS_MAX` slots."""
    return next((nice for nice in _NICE_NS if window_ns / nice <= SLOTS_MAX), -(-window_ns // SLOTS_MAX))


@dataclass(frozen=True, slots=True)
class _Slots:
    """The cut of the window: ``count`` slots of ``width_ns``, the last of which may reach beyond it."""

    window_ns: int
    width_ns: int
    count: int

    def dense(self, columns: Columns, name: str) -> Floats:
        values = np.zeros(self.count)
        slots = np.asarray(columns["slot"])
        inside = (slots >= 0) & (slots < self.count)
        values[slots[inside]] = np.asarray(columns[name], dtype=np.float64)[inside]
        return values

    def lengths_s(self) -> Floats:
        """The recorded part of each slot in seconds."""
        ends = np.minimum(np.arange(1, self.count + 1) * self.width_ns, self.window_ns)
        return (ends - np.arange(self.count) * self.width_ns) / 1e9

    def middles_s(self) -> list[float]:
        return [(index + 0.5) * self.width_ns / 1e9 for index in range(self.count)]

    def edges_s(self, index: int) -> tuple[float, float]:
        return index * self.width_ns / 1e9, min((index + 1) * self.width_ns, self.window_ns) / 1e9

    def words(self, index: int) -> str:
        return format_duration_ns(index * self.width_ns)


def time_charts(
    connection: duckdb.DuckDBPyConnection,
    layer: str,
    window: tuple[int, int],
    metric: str,
    marked: Sequence[Marked] = (),
) -> list[Chart]:
    """Charts of the recording open in ``connection``; ``window`` is its start and length in ns."""
    start_ns, window_ns = window[0], max(window[1], 1)
    width_ns = slot_ns(window_ns)
    slots = _Slots(window_ns, width_ns, max(math.ceil(window_ns / width_ns), 1))
    where: dict[str, Any] = {
        "layer": layer,
        "start_ns": start_ns,
        "end_ns": start_ns + window_ns,
        "slot_ns": width_ns,
    }
    timeline = library.run(connection, "report_timeline", **where).to_pydict()
    heat = library.run(connection, "report_heat_map", **where).to_pydict()
    bands = tuple(
        Band("slow", (one.from_ns - start_ns) / 1e9, (one.until_ns - start_ns) / 1e9, one.words)
        for one in marked
    )
    charts = []
    if timeline["slot"]:
        charts.append(_load(timeline, slots, layer, bands))
    if any(0 <= slot < slots.count for slot in heat["slot"]):
        charts.append(_heat_map(heat, slots, f"{metric} time at the {layer} layer", bands))
    return charts


def _load(timeline: Columns, slots: _Slots, layer: str, bands: tuple[Band, ...]) -> Chart:
    seconds = slots.lengths_s()
    iops = {op: slots.dense(timeline, f"begun_{op}_count") / seconds for op in ("read", "write")}
    moved = {
        "read": slots.dense(timeline, "read_bytes") / seconds,
        "write": slots.dense(timeline, "written_bytes") / seconds,
    }
    flight = _in_flight(timeline, slots)
    total = iops["read"] + iops["write"]
    mean_iops = float((total * seconds).sum() / seconds.sum())
    mean_flight = float((flight * seconds).sum() / seconds.sum())
    busiest, fullest = int(total.argmax()), int(flight.argmax())
    width = format_duration_ns(slots.width_ns)
    marks = " Shaded: slow windows." if bands else ""
    middles = slots.middles_s()
    return Chart(
        "load",
        "Throughput and I/Os in flight over time",
        f"Reads and writes wanted, and the mean number under way at the {layer} layer, in stretches of {width}: "
        f"{mean_iops:,.0f} IOPS on average and {total[busiest]:,.0f} in the busiest stretch, which begins at "
        f"{slots.words(busiest)}; {format_figure(mean_flight)} in flight on average and "
        f"{format_figure(flight[fullest])} in the fullest, "
        f"from {slots.words(fullest)}.{marks}",
        elapsed(slots.window_ns),
        (
            _rates("IOPS", {op: iops[op] for op in iops}, middles, bands),
            _rates("MB/s", {op: moved[op] / 1e6 for op in moved}, middles, tuple(_wordless(bands))),
            Panel(
                linear("in flight", max(float(flight.max()), 1e-3), ticks_wanted=4),
                (
                    *_wordless(bands),
                    Line("third", line_of(flight.tolist(), middles), is_stepped=True, is_filled=True),
                ),
                110,
            ),
        ),
        Table(
            f"Throughput and I/Os in flight per {width}",
            ("from", "reads/s", "writes/s", "read", "written", "mean in flight"),
            tuple(
                (
                    slots.words(index),
                    format_count(iops["read"][index]),
                    format_count(iops["write"][index]),
                    format_rate(moved["read"][index], "B"),
                    format_rate(moved["write"][index], "B"),
                    format_figure(flight[index]),
                )
                for index in range(slots.count)
            ),
        ),
        (Key("read", "reads"), Key("write", "writes"), Key("third", "in flight"), *_slow_key(bands)),
        tuple(
            Readout(
                *slots.edges_s(index),
                f"from {slots.words(index)}: {iops['read'][index]:,.0f} reads/s, {iops['write'][index]:,.0f} writes/s, "
                f"{format_figure(moved['read'][index] / 1e6)} + {format_figure(moved['write'][index] / 1e6)} MB/s, "
                f"{format_figure(flight[index])} in flight",
            )
            for index in range(slots.count)
        ),
    )


def _rates(title: str, by_op: dict[str, Floats], middles: list[float], bands: tuple[Band, ...]) -> Panel:
    top = max(float(values.max()) for values in by_op.values())
    lines = tuple(
        Line(op, line_of(values.tolist(), middles), is_stepped=True) for op, values in by_op.items()
    )
    return Panel(linear(title, max(top, 1e-3), ticks_wanted=4), (*bands, *lines), 130)


def _wordless(bands: tuple[Band, ...]) -> list[Band]:
    return [Band(band.style, band.low, band.high) for band in bands]


def _slow_key(bands: tuple[Band, ...]) -> tuple[Key, ...]:
    return (Key("slow", "slow windows", "box"),) if bands else ()


def _in_flight(timeline: Columns, slots: _Slots) -> Floats:
    """Mean number under way in each slot, from counts of starts and ends and the time they leave in their slot."""
    at = np.asarray(timeline["slot"])
    begun, ended = (np.asarray(timeline[name], dtype=np.float64) for name in ("begun_count", "ended_count"))
    carried = float((begun - ended)[at < 0].sum())
    change = slots.dense(timeline, "begun_count") - slots.dense(timeline, "ended_count")
    at_start = carried + np.concatenate([[0.0], np.cumsum(change)[:-1]])
    rest_ns = slots.dense(timeline, "begun_rest_ns") - slots.dense(timeline, "ended_rest_ns")
    mean: Floats = np.maximum(at_start + rest_ns / slots.width_ns, 0.0)
    # The last slot may be only partly recorded: nothing counts beyond the window's end.
    beyond = slots.width_ns - slots.lengths_s()[-1] * 1e9
    if beyond > 0:
        whole = mean[-1] * slots.width_ns - (at_start[-1] + change[-1]) * beyond
        mean[-1] = max(whole / (slots.width_ns - beyond), 0.0)
    return mean


def _heat_map(heat: Columns, slots: _Slots, what: str, marked: tuple[Band, ...]) -> Chart:
    slot, band = np.asarray(heat["slot"]), np.asarray(heat["band"])
    counts = np.asarray(heat["io_count"], dtype=np.int64)
    inside = (slot >= 0) & (slot < slots.count)
    slot, band, counts = slot[inside], band[inside], counts[inside]
    low, high = int(band.min()), int(band.max())
    grid = np.zeros((high - low + 1, slots.count), dtype=np.int64)
    grid[band - low, slot] = counts
    edges_ns = 10 ** (np.arange(low, high + 2) / 10)
    shades = _shades(int(grid.max()))
    level = np.digitize(grid, [first for first, _ in shades])
    width = format_duration_ns(slots.width_ns)
    longest = int(np.argmax(np.where(grid > 0, np.arange(high - low + 1)[:, None], -1).max(axis=0)))
    return Chart(
        "heat-map",
        "Latency over time",
        f"Each column is {width}, each row a tenth of a decade of latency; the stronger a cell stands out, the more "
        f"I/Os had that {what}. They took {format_duration_ns(edges_ns[0])} to {format_duration_ns(edges_ns[-1])}, the "
        f"longest in the stretch that begins at {slots.words(longest)}.",
        elapsed(slots.window_ns),
        (
            Panel(
                logarithmic("latency (ms)", edges_ns[0] / 1e6, edges_ns[-1] / 1e6),
                (
                    *marked,
                    *(
                        Boxes(f"heat{number}", _runs(level == number, slots, edges_ns / 1e6))
                        for number in range(1, len(shades) + 1)
                    ),
                ),
                340,
            ),
        ),
        Table(
            f"I/Os by {what}, per {width}; quantiles are the upper ends of rows of the chart",
            ("from", "I/Os", "p50 at most", "p95 at most", "p99 at most", "longest at most"),
            tuple(
                (
                    slots.words(index),
                    format_count(int(grid[:, index].sum())),
                    *_column(grid[:, index], edges_ns[1:]),
                )
                for index in range(slots.count)
            ),
        ),
        (
            *(
                Key(
                    f"heat{number}",
                    f"{_range(first, last)} {'I/O' if last == 1 else 'I/Os'}"
                    if number == 1
                    else _range(first, last),
                    "box",
                )
                for number, (first, last) in enumerate(shades, 1)
            ),
            *_slow_key(marked),
        ),
        tuple(
            Readout(
                *slots.edges_s(index), f"from {slots.words(index)}: {_spoken(grid[:, index], edges_ns[1:])}"
            )
            for index in range(slots.count)
        ),
    )


def _shades(top: int) -> list[tuple[int, int]]:
    """Ranges of counts, each about as many times the one before, up to ``top``."""
    firsts = sorted({max(round(top ** (number / _SHADES)), 1) for number in range(_SHADES)})
    lasts = [first - 1 for first in firsts[1:]] + [top]
    return list(zip(firsts, lasts, strict=True))


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _runs(cells: npt.NDArray[np.bool_], slots: _Slots, edges_ms: Floats) -> tuple[Box, ...]:
    """Boxes that cover the cells, neighbours of a row in one."""
    boxes = []
    for row in range(cells.shape[0]):
        for first, end in runs(cells[row]):
            boxes.append(
                (
                    slots.edges_s(first)[0],
                    slots.edges_s(end - 1)[1],
                    float(edges_ms[row]),
                    float(edges_ms[row + 1]),
                )
            )
    return tuple(boxes)


def _column(counts: npt.NDArray[np.int64], upper_ns: Floats) -> list[str]:
    if not counts.any():
        return [format_duration_ns(None)] * 4
    found = [quantile_ns(upper_ns.astype(np.int64), counts, share) for share in (0.5, 0.95, 0.99)]
    longest = float(upper_ns[np.flatnonzero(counts)[-1]])
    return [format_duration_ns(value) for value in (*found, longest)]


def _spoken(counts: npt.NDArray[np.int64], upper_ns: Floats) -> str:
    if not counts.any():
        return "no I/Os"
    median, _, p99, longest = _column(counts, upper_ns)
    parts = [f"{int(counts.sum()):,} I/Os"]
    parts += [
        f"{name} {value}"
        for name, value in (("p50", median), ("p99", p99))
        if value != format_duration_ns(None)
    ]
    return ", ".join([*parts, f"longest {longest}"])
