"""Results of other tools' tests as tables of text, for the screen and for the page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from iotrace.analyze.units import DASH, format_bytes, format_count, format_duration_ns
from iotrace.schemas import Recording

BEYOND_MIN: Final = 100
"""A quantile needs at least so many I/Os beyond it to be shown; tools print them with fewer."""
_WHOLE_MS: Final = "sqlio"
_NEW_ORDER: Final = "NEWORD"
_STORAGE: Final = ("run", "op", "IOPS", "MB/s", "mean", "p50", "p99", "max")
_DATABASE: Final = ("run", "users", "NOPM", "TPM", "new order p50", "p95", "p99", "max")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResultTables:
    """``legends`` say what each numbered run was; ``storage`` and ``database`` are rows under their columns."""

    tools: str
    legends: list[str]
    storage: list[tuple[str, ...]]
    database: list[tuple[str, ...]]
    storage_columns: tuple[str, ...] = _STORAGE
    database_columns: tuple[str, ...] = _DATABASE


def results_of(recordings: Iterable[Recording]) -> list[Row]:
    """Rows of ``results`` of all recordings that have some; ``step`` is the recording's place."""
    return [
        row | {"step": step}
        for step, recording in enumerate(recordings)
        if "results" in recording.table_names()
        for row in recording.read("results").to_pylist()
    ]


def result_tables(rows: Sequence[Row]) -> ResultTables | None:
    """Tables of ``rows`` as `results_of` gives them; None where there are none."""
    runs: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        runs.setdefault((row["step"], row["run"]), []).append(row)
    if not runs:
        return None
    numbered = list(enumerate(runs.values(), 1))
    return ResultTables(
        ", ".join(sorted({row["tool"] for row in rows})),
        [f"{number}  {of_run[0]['test']}: {_legend(of_run[0])}" for number, of_run in numbered],
        [
            line
            for number, of_run in numbered
            if not _is_database(of_run)
            for line in _storage(number, of_run)
        ],
        [_database(number, of_run) for number, of_run in numbered if _is_database(of_run)],
    )


def quantile_ns(row: Row, quantile: float) -> int | None:
    """A quantile that the tool gives, where enough I/Os or transactions lie beyond it to mean something."""
    count = row["ios"] if row["ios"] is not None else row["transactions"]
    if count is not None and count * (1 - quantile) < BEYOND_MIN:
        return None
    return next(
        (entry["latency_ns"] for entry in row["quantiles"] or [] if entry["quantile"] == quantile), None
    )


def _is_database(rows: Sequence[Row]) -> bool:
    return any(row["new_orders_per_minute"] is not None or row["transactions"] is not None for row in rows)


def _legend(row: Row) -> str:
    """What was run, and under which load."""
    size = row["size_bytes"]
    pattern = " ".join([*([row["access"]] if row["access"] else []), *([_short_size(size)] if size else [])])
    words = [f"{row['tool']} {row['tool_version'] or ''}".strip(), *([pattern] if pattern else [])]
    if row["offered_iops"] is not None:
        words.append(f"{row['offered_iops']:,.0f} IOPS asked for")
    elif row["outstanding"] is not None:
        words.append(f"{row['outstanding']:,} outstanding")
    if row["virtual_users"] is not None:
        words.append(f"{row['virtual_users']:,} virtual user{'' if row['virtual_users'] == 1 else 's'}")
    if row["duration_ns"] is not None:
        words.append(format_duration_ns(row["duration_ns"]))
    return ", ".join(words)


def _short_size(size_bytes: int) -> str:
    return format_bytes(size_bytes).replace(".0 ", " ")


def _storage(number: int, rows: Sequence[Row]) -> Iterable[tuple[str, ...]]:
    first = str(number)
    busy = [row for row in rows if row["iops"]]
    for row in busy:
        # A total only repeats the one op that did something.
        if row["op"] == "total" and len(busy) == 2:
            continue
        rate = row["bytes_per_second"]
        latencies = (
            row["latency_ns_mean"],
            quantile_ns(row, 0.5),
            quantile_ns(row, 0.99),
            row["latency_ns_max"],
        )
        yield (
            first,
            row["op"],
            format_count(row["iops"]),
            DASH if rate is None else f"{rate / 1e6:,.1f}",
            *(_latency_text(row, value) for value in latencies),
        )
        first = ""


def _latency_text(row: Row, latency_ns: float | None) -> str:
    """SQLIO cuts latencies off to whole milliseconds, and none takes 0."""
    return "< 1 ms" if latency_ns == 0 and row["tool"] == _WHOLE_MS else format_duration_ns(latency_ns)


def _database(number: int, rows: Sequence[Row]) -> tuple[str, ...]:
    total = next((row for row in rows if row["op"] == "total"), rows[0])
    order = next((row for row in rows if row["op"] == _NEW_ORDER), None)
    quantiles = [quantile_ns(order, quantile) for quantile in (0.5, 0.95, 0.99)] if order else [None] * 3
    counts = (total[name] for name in ("virtual_users", "new_orders_per_minute", "transactions_per_minute"))
    return (
        str(number),
        *(format_count(value) for value in counts),
        *(format_duration_ns(value) for value in quantiles),
        format_duration_ns(order["latency_ns_max"] if order else None),
    )
