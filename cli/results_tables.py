"""Results of other tools' tests on the screen."""

from collections.abc import Iterable
from typing import Any, Final

from iotrace.analyze.units import DASH, format_bytes, format_count, format_duration_ns
from iotrace.schemas import Recording

from . import console

_BEYOND_MIN: Final = 100
"""A quantile needs at least so many I/Os beyond it; tools print them with fewer."""
_NEW_ORDER: Final = "NEWORD"

Row = dict[str, Any]


def results_of(recordings: Iterable[Recording]) -> list[Row]:
    """Rows of ``results`` of all recordings that have some."""
    return [
        row | {"step": step}
        for step, recording in enumerate(recordings)
        if "results" in recording.table_names()
        for row in recording.read("results").to_pylist()
    ]


def print_results(rows: list[Row]) -> None:
    """What was run, and a table for tests of storage and one for tests of a database, where there are any."""
    runs: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        runs.setdefault(_run(row), []).append(row)
    if not runs:
        return
    console.heading(f"Results of {', '.join(sorted({row['tool'] for row in rows}))}")
    for number, of_run in enumerate(runs.values(), 1):
        console.paragraph(f"{number}  {of_run[0]['test']}: {_legend(of_run[0])}")
    numbered = list(enumerate(runs.values(), 1))
    _storage([one for one in numbered if not _is_database(one[1])])
    _databases([one for one in numbered if _is_database(one[1])])


def _run(row: Row) -> tuple[object, ...]:
    return tuple(
        row[name] for name in ("step", "run", "test", "virtual_users", "outstanding", "offered_iops")
    )


def _is_database(rows: list[Row]) -> bool:
    return any(row["new_orders_per_minute"] is not None or row["transactions"] is not None for row in rows)


def _legend(row: Row) -> str:
    """What was run, and under which load."""
    words = [f"{row['tool']} {row['tool_version'] or ''}".strip()]
    size = row["size_bytes"]
    if row["access"] or size:
        pattern = f"{row['access'] or ''} {format_bytes(size).replace('.0 ', ' ') if size else ''}"
        words.append(pattern.strip())
    if row["offered_iops"] is not None:
        words.append(f"{row['offered_iops']:,.0f} IOPS asked for")
    elif row["outstanding"] is not None:
        words.append(f"{row['outstanding']:,} outstanding")
    if row["virtual_users"] is not None:
        words.append(f"{row['virtual_users']:,} virtual users")
    if row["duration_ns"] is not None:
        words.append(format_duration_ns(row["duration_ns"]))
    return ", ".join(words)


def _storage(runs: list[tuple[int, list[Row]]]) -> None:
    columns = ["run", "op", "IOPS", "MB/s", "mean", "p50", "p99", "max"]
    shown = []
    for number, rows in runs:
        first = str(number)
        for row in rows:
            if not row["iops"] or _repeats(row, rows):
                continue
            rate = row["bytes_per_second"]
            latencies = (
                row["latency_ns_mean"],
                quantile_ns(row, 0.5),
                quantile_ns(row, 0.99),
                row["latency_ns_max"],
            )
            shown.append(
                [
                    first,
                    row["op"],
                    format_count(row["iops"]),
                    DASH if rate is None else f"{rate / 1e6:,.1f}",
                    *(format_duration_ns(value) for value in latencies),
                ]
            )
            first = ""
    if shown:
        console.table(columns, shown, left=2)


def _repeats(row: Row, rows: list[Row]) -> bool:
    """Whether a total only says what the one op that did something says already."""
    return row["op"] == "total" and sum(bool(other["iops"]) for other in rows if other["op"] != "total") == 1


def quantile_ns(row: Row, quantile: float) -> int | None:
    """A quantile that the tool gives, where enough I/Os or transactions lie beyond it to mean something."""
    count = row["ios"] if row["ios"] is not None else row["transactions"]
    if count is not None and count * (1 - quantile) < _BEYOND_MIN:
        return None
    return next(
        (entry["latency_ns"] for entry in row["quantiles"] or [] if entry["quantile"] == quantile), None
    )


def _databases(runs: list[tuple[int, list[Row]]]) -> None:
    columns = ["run", "users", "NOPM", "TPM", "new order p50", "p95", "p99", "max"]
    shown = []
    for number, rows in runs:
        total = next((row for row in rows if row["op"] == "total"), rows[0])
        order = next((row for row in rows if row["op"] == _NEW_ORDER), None)
        latencies = [quantile_ns(order, quantile) for quantile in (0.5, 0.95, 0.99)] if order else [None] * 3
        counts = (
            total[name] for name in ("virtual_users", "new_orders_per_minute", "transactions_per_minute")
        )
        shown.append(
            [
                str(number),
                *(format_count(value) for value in counts),
                *(format_duration_ns(value) for value in latencies),
                format_duration_ns(order["latency_ns_max"] if order else None),
            ]
        )
    if shown:
        console.table(columns, shown)
