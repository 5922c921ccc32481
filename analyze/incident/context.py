"""What else happened at the time: markers, waits, and counters that left their usual range."""

from typing import Final

import duckdb

from iotrace.analyze import library

from .result import CounterBeside, MarkerBeside, WaitBeside

LEAD_NS: Final = 10_000_000_000
_WAITS: Final = 8
_COUNTERS: Final = 12
_MARKERS: Final = 12


def markers_beside(connection: duckdb.DuckDBPyConnection, window_ns: tuple[int, int]) -> list[MarkerBeside]:
    """Markers under way in the window or up to ten seconds before it: first those that began nearest its beginning."""
    rows = library.run(
        connection, "incident_markers", from_ns=window_ns[0], until_ns=window_ns[1], lead_ns=LEAD_NS
    ).to_pylist()
    # A log is flushed all the time.
    rows.sort(key=lambda row: (row["kind"] == "log_flush", abs(row["at_ns"] - window_ns[0])))
    return [
        MarkerBeside(row["kind"], row["text"], row["at_ns"], row["duration_ns"]) for row in rows[:_MARKERS]
    ]


def waits_beside(
    connection: duckdb.DuckDBPyConnection, window_ns: tuple[int, int], span_ns: tuple[int, int]
) -> list[WaitBeside]:
    """Wait types of the window, the longest first, against the rest of the recording."""
    slow_ns = window_ns[1] - window_ns[0]
    rest_ns = span_ns[1] - span_ns[0] - slow_ns
    rows = library.run(connection, "incident_waits", from_ns=window_ns[0], until_ns=window_ns[1]).to_pylist()
    found = []
    for row in rows[:_WAITS]:
        slow = row["slow_sum_ns"] / slow_ns
        normal = row["normal_sum_ns"] / rest_ns if rest_ns > 0 else 0.0
        found.append(
            WaitBeside(row["wait_type"], row["slow_count"], normal, slow, slow / normal if normal else None)
        )
    return found


def counters_beside(connection: duckdb.DuckDBPyConnection, window_ns: tuple[int, int]) -> list[CounterBeside]:
    """Counters whose mean in the window lies outside the middle 90 % of their other values, those of an array first."""
    rows = library.run(
        connection, "incident_counters", from_ns=window_ns[0], until_ns=window_ns[1]
    ).to_pylist()
    outside = [
        row
        for row in rows
        if not row["normal_low"] <= row["slow_mean"] <= row["normal_high"]
        and _changed(row["slow_mean"], row["normal_median"])
    ]
    outside.sort(key=lambda row: (row["layer"] != "array", -_distance(row)))
    return [
        CounterBeside(
            row["object"],
            row["instance"],
            row["counter"],
            row["unit"],
            row["layer"],
            row["normal_median"],
            row["slow_mean"],
        )
        for row in outside[:_COUNTERS]
    ]


def _changed(slow: float, normal: float) -> bool:
    return abs(slow - normal) > 0.2 * max(abs(slow), abs(normal))


def _distance(row: dict[str, float]) -> float:
    """How far outside, in widths of the usual range."""
    width = row["normal_high"] - row["normal_low"]
    away = max(row["slow_mean"] - row["normal_high"], row["normal_low"] - row["slow_mean"])
    return away / width if width > 0 else float("inf")
