"""Slow windows in tables: when and how slow, whose it was, and what happened beside it."""

from iotrace.analyze.incident import Incidents, SlowWindow
from iotrace.analyze.incident.result import BlameRow, Change
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_ns,
    format_figure,
    format_moment,
    format_quantity,
    format_rate,
    format_ratio_with_interval,
    format_share,
)
from iotrace.schemas.text import shortened

from .charts import Table

_WINDOWS_MAX = 20
_TOLD_MAX = 3
"""Windows, the costliest first, that get tables of their own."""
_BLAMED_MAX = 10
_BESIDE_MAX = 6


def incident_tables(found: Incidents, start_utc_ns: int) -> list[Table]:
    """All windows, then for the costliest of them the layers, the load, the blame and what was beside it."""
    tables = [
        _windows(title, windows, found, start_utc_ns)
        for title, windows in (("Slow windows", found.windows), ("Slow changes", found.drifts))
        if windows
    ]
    for one in [*found.windows[:_TOLD_MAX], *found.drifts[:_TOLD_MAX]]:
        tables += [
            table
            for table in (_layers(one), _load(one), _blame(one), _beside(one, found.start_ns))
            if table.rows
        ]
    return tables


def _windows(title: str, windows: list[SlowWindow], found: Incidents, start_utc_ns: int) -> Table:
    rows = tuple(
        (
            str(one.number),
            one.cause,
            one.layer,
            format_moment(start_utc_ns + one.start_ns) or DASH,
            format_duration_ns(one.start_ns - found.start_ns),
            format_duration_ns(one.end_ns - one.start_ns),
            format_ratio_with_interval(one.factor, one.factor_interval),
            format_duration_ns(one.slow_ns),
        )
        for one in windows[:_WINDOWS_MAX]
    )
    more = f"; {_WINDOWS_MAX} of {len(windows)}, --json has them all" if len(windows) > _WINDOWS_MAX else ""
    columns = ("window", "driven by", "layer", "at", "from", "for", "slower", "slow")
    return Table(f"{title}, the one that cost most first{more}", columns, rows, 4)


def _layers(one: SlowWindow) -> Table:
    rows = tuple(
        (
            layer.layer,
            layer.problem or "",
            format_duration_ns(layer.normal_ns),
            format_duration_ns(layer.slow_ns),
            format_duration_ns(layer.added_here_ns),
            format_share(layer.share),
        )
        for layer in one.layers
    )
    columns = ("layer", "remark", "mean normally", "mean in it", "growth added here", "share of the growth")
    return Table(f"Window {one.number}: where the time went", columns, rows, 2)


def _load(one: SlowWindow) -> Table:
    rows = tuple(
        (
            {
                "in_flight": "in flight",
                "bytes": "bytes per second",
                "size": "mean size",
                "bursts": "begun together",
            }.get(change.quantity, change.quantity),
            _amount(change, change.normal),
            _amount(change, change.slow),
            format_ratio_with_interval(change.ratio, change.ratio_interval),
            DASH if change.lead_ns is None else format_duration_ns(change.lead_ns),
        )
        for change in one.load
    )
    columns = ("load", "normally", "in it", "ratio", "grew earlier by")
    return Table(f"Window {one.number}: whether the load grew", columns, rows)


def _amount(change: Change, value: float) -> str:
    if change.quantity == "size":
        return format_bytes(value)
    if change.quantity == "bytes":
        return format_rate(value, "B")
    return format_rate(value) if change.quantity == "arrivals" else format_figure(value)


def _blame(one: SlowWindow) -> Table:
    rows = tuple(
        (
            row.dimension,
            shortened(row.name),
            format_share(row.growth_share),
            format_rate(row.normal_ios_per_s),
            format_rate(row.slow_ios_per_s),
            format_duration_ns(row.normal_latency_ns),
            format_duration_ns(row.slow_latency_ns),
        )
        for row in _most(one.blame)
    )
    columns = ("", "whose", "share of the growth", "I/Os normally", "in it", "latency normally", "in it")
    return Table(f"Window {one.number}: whose it was", columns, rows, 2)


def _most(rows: list[BlameRow]) -> list[BlameRow]:
    return sorted(rows, key=lambda row: -abs(row.growth_share))[:_BLAMED_MAX]


def _beside(one: SlowWindow, start_ns: int) -> Table:
    rows = [
        (
            f"marker: {shortened(marker.kind)}",
            shortened(marker.text or ""),
            f"from {format_duration_ns(marker.start_ns - start_ns)}",
            DASH if marker.duration_ns is None else f"for {format_duration_ns(marker.duration_ns)}",
        )
        for marker in one.markers[:_BESIDE_MAX]
    ]
    rows += [
        (
            f"wait: {shortened(wait.wait_type)}",
            f"{format_count(wait.slow_count)} ended in it",
            f"{wait.normal_per_s:.3g} s/s normally",
            f"{wait.slow_per_s:.3g} s/s in it",
        )
        for wait in one.waits[:_BESIDE_MAX]
    ]
    rows += [
        (
            f"counter: {shortened(counter.object)}",
            shortened(f"{counter.counter} {counter.instance or ''}".strip()),
            f"{format_quantity(counter.normal, counter.unit)} normally",
            f"{format_quantity(counter.slow, counter.unit)} in it",
        )
        for counter in one.counters[:_BESIDE_MAX]
    ]
    return Table(f"Window {one.number}: beside it", ("what", "", "", "value"), tuple(rows), 3)
