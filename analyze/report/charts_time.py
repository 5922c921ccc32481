"""What happened over time: latency, its heat map, throughput, I/Os in flight, waits and counters on one time axis.

However long the recording, it is cut into a bounded number of stretches, each added up. The slow windows that
cost most are cut again, into stretches of 10 ms where that is few enough, for whoever zooms into them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from iotrace.analyze import _tally as tally
from iotrace.analyze import library
from iotrace.analyze.rows import LAYERS, RowGroup, count_in_threads, decode, readable, row_groups
from iotrace.analyze.stats.histogram import quantile_ns
from iotrace.analyze.units import format_count, format_duration_ns, format_figure, format_rate
from iotrace.schemas import Recording
from iotrace.schemas.arrays import Floats, Int64s

from .parts import Chart, Level, Link, Table
from .plot import HEAT_LIGHT, Mark, Row, TimeAxis, Trace, figure, line, numbers

COURSE: Final = "over-time"
"""Name of the chart of a recording over time."""
SLOTS_MAX: Final = 3600
"""Stretches of time in a chart: the seconds of an hour."""
TABLE_ROWS_MAX: Final = 72
_OVERVIEW_MAX: Final = 360
"""Steps that are seen apart on a screen; more of them are shown to whoever zooms in."""
_HEAT_COLUMNS_MAX: Final = 240
_DETAILED_MAX: Final = 3
"""Slow windows, the costliest first, that are told in finer steps."""
_DETAIL_SLOTS_MAX: Final = 3000
_DETAIL_NS: Final = 10_000_000
BANDS_PER_DECADE: Final = 20
"""As the tally cuts latency: neighbours differ by 12 %."""
_BANDS: Final = 380
_SLOT_FIGURES: Final = 9
_COLUMNS: Final = ("layer", "op", "issued_ns", "completed_ns", "size_bytes", "error")
_BANDS_PER_ROW: Final = 2
_WAITS_MAX: Final = 4
_COUNTERS_MAX: Final = 4
_IOS_FOR_P95: Final = 20
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
_LATENCIES: Final = (("median", "sixth"), ("p95", "fourth"), ("longest", "fifth"))
Grid = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Marked:
    """A stretch of the recording to point out, in ns since its start, what to call it, and where it is told of."""

    from_ns: int
    until_ns: int
    words: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class CounterName:
    """Which counter is meant."""

    object: str
    instance: str | None
    counter: str


def slot_ns(window_ns: int, slots_max: int = SLOTS_MAX) -> int:
    """Length of a slot: round, and at most ``slots_max`` of them in the window."""
    wanted = max(window_ns, 1) / slots_max
    return next(
        (nice for nice in _NICE_NS if nice >= wanted),
        math.ceil(wanted / 86_400_000_000_000) * 86_400_000_000_000,
    )


@dataclass(frozen=True, slots=True)
class Course:
    """Load and latency of a stretch of a recording, slot by slot; arrays of one length, the last slot maybe shorter."""

    start_ns: int
    window_ns: int
    width_ns: int
    read_iops: Floats
    write_iops: Floats
    read_bytes_per_s: Floats
    written_bytes_per_s: Floats
    in_flight: Floats
    """Mean number under way."""
    longest_ns: Floats
    """0 where no I/O began."""
    grid: Grid
    """I/Os by band of latency, from ``band_low`` up, and slot."""
    band_low: int

    @property
    def count(self) -> int:
        """Slots."""
        return len(self.in_flight)

    def lengths_s(self) -> Floats:
        """The recorded part of each slot in seconds."""
        return _lengths_s(self.window_ns, self.width_ns, self.count)

    def edges_ns(self) -> Floats:
        """Borders of the bands of latency."""
        edges: Floats = 10 ** ((self.band_low + np.arange(len(self.grid) + 1)) / BANDS_PER_DECADE)
        return edges

    def coarser(self, slots_max: int) -> "Course":
        """The same in at most so many slots, of a round length if one is a multiple of these."""
        wanted = math.ceil(self.count / slots_max)
        multiples = (nice // self.width_ns for nice in _NICE_NS if nice % self.width_ns == 0)
        per_slot = next((times for times in multiples if wanted <= times <= 3 * wanted), wanted)
        firsts = np.arange(0, self.count, per_slot)
        seconds = self.lengths_s()
        lengths = np.add.reduceat(seconds, firsts)

        def mean(values: Floats) -> Floats:
            added: Floats = np.add.reduceat(values * seconds, firsts) / lengths
            return added

        return Course(
            self.start_ns,
            self.window_ns,
            self.width_ns * per_slot,
            mean(self.read_iops),
            mean(self.write_iops),
            mean(self.read_bytes_per_s),
            mean(self.written_bytes_per_s),
            mean(self.in_flight),
            np.maximum.reduceat(self.longest_ns, firsts),
            np.add.reduceat(self.grid, firsts, axis=1) if len(self.grid) else self.grid[:, : len(firsts)],
            self.band_low,
        )

    def quantile_ns(self, share: float, ios_min: int = 1) -> Floats:
        """The upper end of the band that holds a quantile, never above the longest; NaN with fewer I/Os."""
        if not len(self.grid):
            return np.full(self.count, np.nan)
        cumulated = np.cumsum(self.grid, axis=0)
        total = cumulated[-1]
        rank = np.maximum(np.ceil(share * total - 1e-9), 1)
        band = np.argmax(cumulated >= rank, axis=0)
        found = np.minimum(self.edges_ns()[1:][band], self.longest_ns)
        return np.where(total >= ios_min, found, np.nan)

    def latencies_ms(self) -> list[Floats]:
        """The lines of `_LATENCIES`."""
        longest = np.where(self.longest_ns > 0, self.longest_ns, np.nan)
        return [one / 1e6 for one in (self.quantile_ns(0.5), self.quantile_ns(0.95, _IOS_FOR_P95), longest)]

    def words(self, index: int) -> str:
        """When a slot begins, since the start."""
        return format_duration_ns(index * self.width_ns)


def read_course(recording: Recording, layer: str, window: tuple[int, int], width_ns: int) -> Course | None:
    """The course of ``recording``, ``window`` being start and length; None without I/Os.

    Raises `IotraceError` if it cannot be read.
    """
    start_ns, window_ns = window[0], max(window[1], 1)
    carried, slots, bands = _counted(recording, layer, (start_ns, start_ns + window_ns), width_ns)
    if not carried and not slots.any():
        return None
    seconds = _lengths_s(window_ns, width_ns, len(slots))
    reads, writes, read_bytes, written_bytes, begun, begun_rest_ns, ended, ended_rest_ns, longest_ns = slots.T
    filled = np.flatnonzero(bands.any(axis=0))
    low, end = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)
    return Course(
        start_ns,
        window_ns,
        width_ns,
        reads / seconds,
        writes / seconds,
        read_bytes / seconds,
        written_bytes / seconds,
        _in_flight(carried, begun - ended, begun_rest_ns - ended_rest_ns, seconds, width_ns),
        longest_ns.astype(np.float64),
        np.ascontiguousarray(bands[:, low:end].T).astype(np.int64),
        low,
    )


def _counted(
    recording: Recording, layer: str, span_ns: tuple[int, int], width_ns: int
) -> tuple[int, Int64s, npt.NDArray[np.uint32]]:
    """What queries ``report_timeline`` and ``report_heat_map`` ask, counted in native code, which takes less time.

    How many began before the first slot and ended later; the columns of the one and the longest, by slot; I/Os by slot
    and band.
    """
    columns = [*_COLUMNS, *(["intended_ns"] if recording.manifest.is_played else [])]

    def count(groups: Iterator[RowGroup]) -> tally.Course:
        course = tally.Course(LAYERS.index(layer), span_ns, width_ns)
        for group in groups:
            course.add(**decode(group.read()))
        return course

    with readable(recording):
        groups = row_groups(recording, columns)
        within = [one for one in groups if one.ended_ns >= span_ns[0] and one.begun_ns < span_ns[1]]
        parts = count_in_threads(within, count)
    slots = np.array([np.frombuffer(one.slots(), np.int64).reshape(-1, _SLOT_FIGURES) for one in parts])
    bands = [np.frombuffer(one.bands(), np.uint32).reshape(-1, _BANDS) for one in parts]
    added = slots.sum(axis=0)
    added[:, -1] = slots[:, :, -1].max(axis=0)
    return sum(one.before() for one in parts), added, np.sum(bands, axis=0, dtype=np.uint32)


def _lengths_s(window_ns: int, width_ns: int, count: int) -> Floats:
    ends = np.minimum(np.arange(1, count + 1) * width_ns, window_ns)
    lengths: Floats = (ends - np.arange(count) * width_ns) / 1e9
    return lengths


def _in_flight(carried: int, change: Int64s, rest_ns: Int64s, seconds: Floats, width_ns: int) -> Floats:
    """Mean number under way in each slot, from starts less ends and the time that these leave in it."""
    at_start = carried + np.concatenate([[0.0], np.cumsum(change)[:-1]])
    mean: Floats = np.maximum(at_start + rest_ns / width_ns, 0.0)
    # The last slot may be only partly recorded: nothing counts beyond the window's end.
    beyond = width_ns - seconds[-1] * 1e9
    if beyond > 0:
        whole = mean[-1] * width_ns - (at_start[-1] + change[-1]) * beyond
        mean[-1] = max(whole / (width_ns - beyond), 0.0)
    return mean


def time_charts(
    recording: Recording,
    connection: duckdb.DuckDBPyConnection,
    layer: str,
    time: TimeAxis,
    metric: str,
    marked: Sequence[Marked] = (),
    *,
    counters: Sequence[CounterName] = (),
    group: str = "",
    slots_max: int = SLOTS_MAX,
) -> list[Chart]:
    """The chart of ``recording``, which ``connection`` has open; ``metric`` is what its latency is called."""
    fine = read_course(recording, layer, (time.start_ns, time.window_ns), slot_ns(time.window_ns, slots_max))
    if fine is None:
        return []
    course = fine.coarser(_OVERVIEW_MAX)
    levels = [fine] if fine.count > course.count else []
    for one in marked[:_DETAILED_MAX]:
        found = _closer(recording, layer, fine, one)
        levels += [found] if found else []
    beside = [*_wait_rows(connection, time, course), *_counter_rows(connection, time, counters)]
    return [_chart(course, levels, layer, time, metric, marked, beside, group, table_rows(slots_max))]


def _chart(
    course: Course,
    finer: Sequence[Course],
    layer: str,
    time: TimeAxis,
    metric: str,
    marked: Sequence[Marked],
    beside: list[Row],
    group: str,
    rows_max: int,
) -> Chart:
    rows, names = _rows(course, time, metric)
    width = format_duration_ns(course.width_ns)
    total = course.read_iops + course.write_iops
    seconds = course.lengths_s()
    busiest, fullest = int(total.argmax()), int(course.in_flight.argmax())
    slowest = int(course.longest_ns.argmax())

    def at(slot: int) -> str:
        return time.words(course.start_ns + slot * course.width_ns)

    shaded = " Shaded: slow windows; a click on one leads to its tables." if marked else ""
    closer = " Zoomed in, it shows finer steps." if finer else ""
    return Chart(
        COURSE,
        "Latency, load and I/Os in flight over time",
        f"Reads and writes at the {layer} layer, in steps of {width}: {(total * seconds).sum() / seconds.sum():,.0f} "
        f"IOPS on average and {total[busiest]:,.0f} in the busiest step, which begins {at(busiest)}; "
        f"{format_figure((course.in_flight * seconds).sum() / seconds.sum())} in flight on average and "
        f"{format_figure(course.in_flight[fullest])} in the fullest, {at(fullest)}. The longest I/O "
        f"took {format_duration_ns(course.longest_ns[slowest])}, {at(slowest)}. Median and p95 are "
        f"at most what is drawn, within 12 %.{shaded}{closer}",
        figure(
            [*rows, *beside],
            time.axis(),
            [Mark("slow", time.at(one.from_ns), time.at(one.until_ns), one.words) for one in marked],
        ),
        _table(course, rows_max),
        tuple(
            Link(time.at(one.from_ns), time.at(one.until_ns), one.words, one.anchor)
            for one in marked
            if one.anchor
        ),
        tuple(course_level(one, time, names) for one in finer),
        group,
    )


def _rows(course: Course, time: TimeAxis, metric: str) -> tuple[list[Row], list[str]]:
    """The rows, and what each of their traces shows, in the figure's order."""
    x0 = time.at(course.start_ns + course.width_ns / 2)
    along = {"x0": x0, "dx": time.length(course.width_ns)}
    rows: list[Row] = []
    shown: list[str] = []
    if len(course.grid):
        latencies = course.latencies_ms()
        lines = [
            line(style, name, y=numbers(values.tolist()), hovertemplate="%{y:.4~g} ms", **along)
            for (name, style), values in zip(_LATENCIES, latencies, strict=True)
        ]
        rows.append(Row(f"{metric} time (ms)", 130, lines, is_log=True))
        rows.append(Row(f"I/Os by {metric} time (ms)", 110, [_heat_map(course, time)], is_log=True))
        shown += [name for name, _ in _LATENCIES] + ["heat"]
    step = {"mode": "lines", **along}
    for title, pairs in (
        ("IOPS", (("read", "reads", course.read_iops), ("write", "writes", course.write_iops))),
        (
            "MB/s",
            (
                ("read", "MB/s read", course.read_bytes_per_s / 1e6),
                ("write", "MB/s written", course.written_bytes_per_s / 1e6),
            ),
        ),
    ):
        lines = [
            line(style, name, y=numbers(values.tolist()), hovertemplate="%{y:,.4~g}", **step)
            for style, name, values in pairs
        ]
        for one in lines:
            one["line"]["shape"] = "hvh"
            one["line"]["dash"] = "solid"
        rows.append(Row(title, 64, lines))
        shown += [name for _, name, _ in pairs]
    flight = line(
        "third", "in flight", y=numbers(course.in_flight.tolist()), hovertemplate="%{y:.4~g}", **step
    )
    flight["line"] |= {"shape": "hvh", "dash": "solid"}
    flight |= {"fill": "tozeroy", "fillcolor": "rgba(0,122,89,0.15)"}
    rows.append(Row("in flight", 60, [flight]))
    shown.append("in flight")
    return rows, shown


def _values(course: Course) -> dict[str, Any]:
    """What each trace of `_rows` shows of a stretch, by its name; the heat map has steps of its own."""
    named = dict(zip([name for name, _ in _LATENCIES], course.latencies_ms(), strict=True))
    named |= {
        "reads": course.read_iops,
        "writes": course.write_iops,
        "MB/s read": course.read_bytes_per_s / 1e6,
        "MB/s written": course.written_bytes_per_s / 1e6,
        "in flight": course.in_flight,
    }
    return {name: numbers(values.tolist()) for name, values in named.items()}


def course_level(course: Course, time: TimeAxis, names: Sequence[str]) -> Level:
    """A stretch in finer steps; ``names`` are the figure's traces in their order."""
    values = _values(course)
    kept = [(place, values[name]) for place, name in enumerate(names) if name in values]
    return Level(
        time.at(course.start_ns),
        time.at(course.start_ns + course.window_ns),
        time.at(course.start_ns + course.width_ns / 2),
        time.length(course.width_ns),
        tuple(place for place, _ in kept),
        tuple(some for _, some in kept),
    )


def _closer(recording: Recording, layer: str, fine: Course, one: Marked) -> Course | None:
    """A slow window and a quarter of it on each side, in finer steps; None where they would not be finer."""
    around = (one.until_ns - one.from_ns) // 4
    start = max(one.from_ns - around, fine.start_ns)
    end = min(one.until_ns + around, fine.start_ns + fine.window_ns)
    width = max(_DETAIL_NS, slot_ns(end - start, _DETAIL_SLOTS_MAX))
    if end <= start or width >= fine.width_ns:
        return None
    return read_course(recording, layer, (start, end - start), width)


def _heat_map(course: Course, time: TimeAxis) -> Trace:
    """Cells that each hold two bands; colours grow with the logarithm of the count."""
    course = course.coarser(_HEAT_COLUMNS_MAX)
    shift = course.band_low % _BANDS_PER_ROW
    low = course.band_low - shift
    rows = math.ceil((len(course.grid) + shift) / _BANDS_PER_ROW)
    whole = np.zeros((rows * _BANDS_PER_ROW, course.count), np.int64)
    whole[shift : shift + len(course.grid)] = course.grid
    cells = whole.reshape(rows, _BANDS_PER_ROW, course.count).sum(axis=1)
    edges_ms = 10 ** ((low + np.arange(rows + 1) * _BANDS_PER_ROW) / BANDS_PER_DECADE) / 1e6
    top = max(int(cells.max()), 2)
    scale: list[list[object]] = [[0.0, HEAT_LIGHT[0]]]
    scale += [
        [min(top ** ((place + 1) / len(HEAT_LIGHT)) / top, 1.0), colour]
        for place, colour in enumerate(HEAT_LIGHT)
    ]
    return {
        "type": "heatmap",
        "name": "I/Os",
        "x0": time.at(course.start_ns + course.width_ns / 2),
        "dx": time.length(course.width_ns),
        "y": numbers(edges_ms.tolist()),
        "z": [[count or None for count in row] for row in cells.tolist()],
        "zmin": 0,
        "zmax": top,
        "colorscale": scale,
        "showscale": False,
        "hoverongaps": False,
        "hovertemplate": "%{z:,} I/Os of about %{y:.3~g} ms<extra></extra>",
    }


def table_rows(slots_max: int) -> int:
    """Rows of a table beside a chart of so many steps: fewer where many recordings share the page."""
    return max(min(TABLE_ROWS_MAX, slots_max // 50), 12)


def _table(course: Course, rows_max: int) -> Table:
    """The same in few rows."""
    few = course.coarser(rows_max)
    edges = few.edges_ns()[1:]
    return Table(
        f"Load and latency per {format_duration_ns(few.width_ns)}; quantiles within 12 %, where 100 I/Os lie beyond",
        ("from", "reads/s", "writes/s", "read", "written", "mean in flight", "p50", "p95", "p99", "longest"),
        tuple(
            (
                few.words(row),
                format_count(few.read_iops[row]),
                format_count(few.write_iops[row]),
                format_rate(few.read_bytes_per_s[row], "B"),
                format_rate(few.written_bytes_per_s[row], "B"),
                format_figure(few.in_flight[row]),
                *_quantiles(few.grid[:, row], edges),
                format_duration_ns(few.longest_ns[row] or None),
            )
            for row in range(few.count)
        ),
        kept=frozenset(),
    )


def _quantiles(counts: Int64s, upper_ns: Floats) -> list[str]:
    if not counts.any():
        return [format_duration_ns(None)] * 3
    values = upper_ns.astype(np.int64)
    return [format_duration_ns(quantile_ns(values, counts, share)) for share in (0.5, 0.95, 0.99)]


def _wait_rows(connection: duckdb.DuckDBPyConnection, time: TimeAxis, course: Course) -> list[Row]:
    """Seconds waited per second by type of wait, the types that cost most."""
    found = _columns(
        library.run(
            connection,
            "report_waits",
            start_ns=course.start_ns,
            end_ns=course.start_ns + course.window_ns,
            slot_ns=course.width_ns,
            types_max=_WAITS_MAX,
        )
    )
    lines = []
    seconds = course.lengths_s()
    kinds = [str(kind) for kind in found["wait_type"]]
    for place, kind in enumerate(dict.fromkeys(kinds)):
        of_kind = np.array([one == kind for one in kinds])
        values = np.zeros(course.count)
        values[found["slot"][of_kind].astype(np.int64)] = found["waited_ns"][of_kind].astype(np.float64) / 1e9
        style = ("fifth", "sixth", "fourth", "other")[place % 4]
        one = line(
            style,
            kind,
            x0=time.at(course.start_ns + course.width_ns / 2),
            dx=time.length(course.width_ns),
            y=numbers((values / seconds).tolist()),
            hovertemplate="%{y:.4~g} s/s",
        )
        one["line"]["shape"] = "hvh"
        lines.append(one)
    return [Row("waits (seconds waited per second, by when they ended)", 80, lines)] if lines else []


def _counter_rows(
    connection: duckdb.DuckDBPyConnection, time: TimeAxis, counters: Sequence[CounterName]
) -> list[Row]:
    """A row for each counter named."""
    rows = []
    for one in counters[:_COUNTERS_MAX]:
        found = _columns(
            library.run(
                connection,
                "report_counter",
                object=one.object,
                instance=one.instance or "",
                counter=one.counter,
                start_ns=time.start_ns,
                end_ns=time.start_ns + time.window_ns,
                points_max=SLOTS_MAX,
            )
        )
        if not len(found["at_ns"]):
            continue
        unit = next((str(unit) for unit in found["unit"] if unit is not None), "")
        values = found["value"].astype(np.float64)
        if unit == "ns":
            values, unit = values / 1e6, "ms"
        name = " ".join(part for part in (one.object, one.instance, one.counter) if part)
        trace = line(
            "sixth",
            name,
            x=[time.at(float(at)) for at in found["at_ns"]],
            y=numbers(values.tolist()),
            showlegend=False,
            hovertemplate="%{y:.4~g}",
        )
        trace["line"]["shape"] = "vh"
        rows.append(Row(f"{name}{f' ({unit})' if unit else ''}", 60, [trace]))
    return rows


def _columns(table: Any) -> dict[str, Any]:  # noqa: ANN401 - a pyarrow.Table
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
