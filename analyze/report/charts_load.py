"""Load over time: throughput, I/Os in flight, and the heat map of latency."""

import math
from typing import Any, Final

import duckdb
import numpy as np

from .. import library
from ..units import format_count, format_duration_ns, format_rate
from .charts import GREEN, OP_COLOURS, Chart, Table, axis, figures, latency_axis, legend_below

SLOTS_MAX: Final = 160
"""Stretches of time in a chart; more than a screen shows are of no use."""
_NICE_NS: Final = tuple(step * 10**power for power in range(6, 15) for step in (1, 2, 5))


def slot_ns(window_ns: int) -> int:
    """A round length of time that cuts the window into at most `SLOTS_MAX` slots."""
    return next((nice for nice in _NICE_NS if window_ns / nice <= SLOTS_MAX), max(window_ns // SLOTS_MAX, 1))


def load_charts(
    connection: duckdb.DuckDBPyConnection, layer: str, window: tuple[int, int], metric: str
) -> list[Chart]:
    """Charts of the recording open in ``connection``; ``window`` is its start and length in ns."""
    start_ns, window_ns = window
    width_ns = slot_ns(max(window_ns, 1))
    count = max(math.ceil(window_ns / width_ns), 1)
    where: dict[str, Any] = {"layer": layer, "start_ns": start_ns, "slot_ns": width_ns}
    timeline = library.run(connection, "report_timeline", **where).to_pydict()
    heat = library.run(connection, "report_heat_map", **where).to_pydict()
    charts = []
    if timeline["slot"]:
        charts += [
            _throughput(timeline, count, width_ns, window_ns),
            _in_flight(timeline, count, width_ns, window_ns, layer),
        ]
    if heat["slot"]:
        charts.append(_heat_map(heat, count, width_ns, f"{metric} time at the {layer} layer"))
    return charts


def _dense(columns: dict[str, list[Any]], name: str, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = np.zeros(count)
    slots = np.asarray(columns["slot"])
    inside = (slots >= 0) & (slots < count)
    values[slots[inside]] = np.asarray(columns[name], dtype=np.float64)[inside]
    return values


def _seconds(count: int, width_ns: int) -> list[float | None]:
    return figures([(index + 0.5) * width_ns / 1e9 for index in range(count)], 6)


def _throughput(timeline: dict[str, list[Any]], count: int, width_ns: int, window_ns: int) -> Chart:
    at_s = _seconds(count, width_ns)
    per_s = 1e9 / width_ns
    rates = {op: _dense(timeline, f"begun_{op}_count", count) * per_s for op in ("read", "write")}
    moved = {
        "read": _dense(timeline, "read_bytes", count) * per_s,
        "write": _dense(timeline, "written_bytes", count) * per_s,
    }
    data = []
    for op in ("read", "write"):
        for axis_name, values, unit in (("y", rates[op], "IOPS"), ("y2", moved[op] / 1e6, "MB/s")):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{op}s",
                    "legendgroup": op,
                    "showlegend": axis_name == "y",
                    "x": at_s,
                    "y": figures(values.tolist()),
                    "yaxis": axis_name,
                    "line": {"color": OP_COLOURS[op], "width": 1.6, "shape": "hvh"},
                    "hovertemplate": f"%{{x:.4~g}} s: %{{y:,.4~g}} {unit}<extra>{op}s</extra>",
                }
            )
    rows = tuple(
        (
            format_duration_ns(width_ns * index),
            format_count(rates["read"][index]),
            format_count(rates["write"][index]),
            format_rate(moved["read"][index], "B"),
            format_rate(moved["write"][index], "B"),
        )
        for index in range(count)
    )
    total = rates["read"] + rates["write"]
    # The last slot may be only partly recorded, so the mean is over the window, not over the slots.
    total_mean = total.sum() * width_ns / max(window_ns, 1)
    slot = format_duration_ns(width_ns)
    return Chart(
        "throughput",
        "Throughput over time",
        f"Reads and writes wanted per second, in stretches of {slot}: {total_mean:,.0f} IOPS on average, "
        f"{total.max():,.0f} in the busiest stretch. Above IOPS, below the bytes they moved.",
        data,
        {
            "xaxis": axis("time since the start (s)", rangemode="tozero", anchor="y2"),
            "yaxis": axis("IOPS", rangemode="tozero", domain=[0.56, 1]),
            "yaxis2": axis("MB/s", rangemode="tozero", domain=[0, 0.44]),
            "legend": legend_below(),
        },
        Table(
            f"Throughput per {slot}",
            ("from", "reads/s", "writes/s", "read", "written"),
            rows,
        ),
        440,
    )


def _in_flight(
    timeline: dict[str, list[Any]], count: int, width_ns: int, window_ns: int, layer: str
) -> Chart:
    slots = np.asarray(timeline["slot"])
    begun, ended = (np.asarray(timeline[name], dtype=np.float64) for name in ("begun_count", "ended_count"))
    before = slots < 0
    carried = float((begun - ended)[before].sum())
    begun_in, ended_in = _dense(timeline, "begun_count", count), _dense(timeline, "ended_count", count)
    at_start = carried + np.concatenate([[0.0], np.cumsum(begun_in - ended_in)[:-1]])
    rest = _dense(timeline, "begun_rest_ns", count) - _dense(timeline, "ended_rest_ns", count)
    mean = np.maximum(at_start + rest / width_ns, 0.0)
    mean_of_all = mean.sum() * width_ns / max(window_ns, 1)
    slot = format_duration_ns(width_ns)
    return Chart(
        "in-flight",
        "I/Os in flight over time",
        f"Mean number of I/Os under way at the {layer} layer in stretches of {slot}: {mean_of_all:,.3g} on average, "
        f"{mean.max():,.3g} in the fullest stretch.",
        [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "in flight",
                "x": _seconds(count, width_ns),
                "y": figures(mean.tolist()),
                "fill": "tozeroy",
                "fillcolor": "rgba(0,158,115,0.15)",
                "line": {"color": GREEN, "width": 1.6, "shape": "hvh"},
                "hovertemplate": "%{x:.4~g} s: %{y:.4~g} in flight<extra></extra>",
            }
        ],
        {
            "xaxis": axis("time since the start (s)", rangemode="tozero"),
            "yaxis": axis("I/Os in flight", rangemode="tozero"),
            "showlegend": False,
        },
        Table(
            f"I/Os in flight per {slot}",
            ("from", "mean in flight"),
            tuple((format_duration_ns(width_ns * index), f"{mean[index]:.3g}") for index in range(count)),
        ),
        280,
    )


def _heat_map(heat: dict[str, list[Any]], count: int, width_ns: int, what: str) -> Chart:
    slots, bands = np.asarray(heat["slot"]), np.asarray(heat["band"])
    counts = np.asarray(heat["io_count"], dtype=np.int64)
    inside = (slots >= 0) & (slots < count)
    slots, bands, counts = slots[inside], bands[inside], counts[inside]
    low, high = int(bands.min()), int(bands.max())
    grid = np.zeros((high - low + 1, count), dtype=np.int64)
    grid[bands - low, slots] = counts
    edges_ms = [10 ** ((band + 0.5) / 10 - 6) for band in range(low, high + 1)]
    shade = [[None if not value else round(math.log10(value), 2) for value in row] for row in grid.tolist()]
    top = int(grid.max())
    ticks = [10**power for power in range(len(str(top)))]
    rows = tuple(
        (
            f"{format_duration_ns(10 ** (band / 10))} to {format_duration_ns(10 ** ((band + 1) / 10))}",
            format_count(int(grid[band - low].sum())),
        )
        for band in range(low, high + 1)
    )
    return Chart(
        "heat-map",
        "Latency over time",
        f"Each column is {format_duration_ns(width_ns)}; the darker a cell, the more I/Os had that {what}. "
        f"They took {format_duration_ns(10 ** (low / 10))} to {format_duration_ns(10 ** ((high + 1) / 10))}.",
        [
            {
                "type": "heatmap",
                "x": _seconds(count, width_ns),
                "y": figures(edges_ms),
                "z": shade,
                "customdata": grid.tolist(),
                "colorscale": "heat",
                "zmin": 0,
                "zmax": max(math.log10(top), 0.3),
                "hoverongaps": False,
                "colorbar": {
                    "title": {"text": "I/Os", "side": "top"},
                    "tickvals": [math.log10(tick) for tick in ticks],
                    "ticktext": [f"{tick:,}" for tick in ticks],
                    "thickness": 12,
                    "outlinewidth": 0,
                },
                "hovertemplate": "%{x:.4~g} s, about %{y:.3~g} ms: %{customdata:,} I/Os<extra></extra>",
            }
        ],
        {
            "xaxis": axis("time since the start (s)", showgrid=False),
            "yaxis": latency_axis("latency (ms)", 10 ** (low / 10 - 6), 10 ** ((high + 1) / 10 - 6))
            | {"showgrid": False},
        },
        Table(f"I/Os by {what}", ("latency", "I/Os"), rows),
        380,
    )
