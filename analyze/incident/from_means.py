"""The same slots from counters alone: what perfmon, DMV snapshots or an array tell of each interval.

A counter is a mean over its interval, so a slot is as long as the intervals are. A stream is an operation on an
instance of the counter object: a disk, a volume, a database file. Counters that add others up (``_Total``) and second
views of the same I/O (LogicalDisk beside PhysicalDisk) are left out.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import duckdb
import numpy as np

from .. import library
from .series import LayerSlots, Slots, Stream, slot_length_ns

CANNOT_KNOW: Final = (
    "made from means of counters: quantiles cannot be known, nor how slow the slowest I/O was",
    "there are no single I/Os: what is shorter than a counter's interval is seen diluted or not at all",
    "which file or process asked is known only as far as the counters' instances tell",
    "where a counter log has no queue length, I/Os in flight come from Little's law: rate times mean latency",
)

_PREFERRED: Final = (
    "physicaldisk",
    "logicaldisk",
    "diskstats",
    "sys.dm_io_virtual_file_stats",
    "resource pool stats",
)
_OPS: Final = ("read", "write")
_LOG_VARIANCE_PER_IO: Final = 1.0
"""Variance of ln of a mean of n latencies is about 1 / n when their standard deviation is their mean."""

Row = dict[str, Any]
Key = tuple[str, str, str]


def mean_slots(connection: duckdb.DuckDBPyConnection, span_ns: tuple[int, int]) -> Slots:
    """Slots from the counters within the span (all of them, where it is empty); no layers if none tells of latency."""
    has_window = span_ns[1] > span_ns[0]
    rows: list[Row] = library.run(
        connection,
        "incident_counter_means",
        from_ns=span_ns[0] - 1 if has_window else -(1 << 62),
        until_ns=span_ns[1] if has_window else 1 << 62,
    ).to_pylist()
    rows = [
        row for row in rows if row["interval_ns"] and row["interval_ns"] > 0 and not _adds_up(row["instance"])
    ]
    if not rows:
        return Slots(span_ns[0], 1_000_000_000, 1, {})
    interval_ns = float(np.median([row["interval_ns"] for row in rows]))
    first_ns = min(row["at_ns"] - row["interval_ns"] for row in rows)
    last_ns = max(row["at_ns"] for row in rows)
    start_ns = max(first_ns, span_ns[0]) if has_window else first_ns
    second = 1_000_000_000
    slot_ns = max(round(interval_ns / second), 1) * second
    streams = len({(row["layer"], row["source"], row["instance"], _split(row["metric"])[0]) for row in rows})
    slot_ns = max(slot_ns, slot_length_ns(last_ns - start_ns, streams))
    count = max(-(-(last_ns - start_ns) // slot_ns), 1)
    by_layer: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        row["slot"] = min(
            max(int((row["at_ns"] - row["interval_ns"] / 2 - start_ns) // slot_ns), 0), count - 1
        )
        by_layer[row["layer"]].append(row)
    layers = {name: _layer(name, _one_object(mine), count, slot_ns) for name, mine in by_layer.items()}
    return Slots(
        start_ns, slot_ns, count, {name: layer for name, layer in layers.items() if layer is not None}
    )


def _adds_up(instance: str) -> bool:
    return instance.strip().lower() in {"_total", "total"}


def _one_object(rows: list[Row]) -> list[Row]:
    """Rows of the object that is the best view of the layer, of those that tell latency."""
    objects = {row["object"] for row in rows if row["metric"].endswith("latency_ns")}

    def rank(name: str) -> tuple[int, str]:
        word = name.lower().rsplit(":", 1)[-1]
        return (_PREFERRED.index(word) if word in _PREFERRED else len(_PREFERRED), name)

    chosen = min(objects, key=rank, default=None)
    return [row for row in rows if row["object"] == chosen]


def _layer(name: str, rows: Iterable[Row], slots: int, slot_ns: int) -> LayerSlots | None:
    sums: dict[Key, np.ndarray[Any, np.dtype[np.float64]]] = {}
    hits: dict[Key, np.ndarray[Any, np.dtype[np.float64]]] = {}
    sources = {row["source"] for row in rows}
    for row in rows:
        who = row["instance"] if len(sources) == 1 else f"{row['source']} {row['instance']}".strip()
        key = (who, *_split(row["metric"]))
        sums.setdefault(key, np.zeros(slots))[row["slot"]] += row["value"]
        hits.setdefault(key, np.zeros(slots))[row["slot"]] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        means = {key: np.where(hits[key] > 0, total / hits[key], np.nan) for key, total in sums.items()}
    seconds = slot_ns / 1e9
    streams: list[Stream] = []
    columns: dict[str, list[np.ndarray[Any, np.dtype[np.float64]]]] = defaultdict(list)
    nothing = np.full(slots, np.nan)
    for who in sorted({key[0] for key in means}):
        ops = [op for op in _OPS if (who, op, "latency_ns") in means] or ["transfer"]
        for op in ops:
            latency = means.get((who, op, "latency_ns"))
            if latency is None:
                continue
            iops = np.nan_to_num(means.get((who, op, "iops"), nothing))
            rate_known = (who, op, "iops") in means
            count = iops * seconds
            seen = np.isfinite(latency) & (latency > 0) & ((count > 0) if rate_known else True)
            weight = np.where(seen, np.maximum(count, 1e-3) if rate_known else 1.0, 0.0)
            with np.errstate(invalid="ignore", divide="ignore"):
                columns["log_latency"].append(np.where(seen, np.log(np.where(seen, latency, 1.0)), np.nan))
                columns["within_variance"].append(
                    np.where(seen, _LOG_VARIANCE_PER_IO / np.maximum(weight, 1.0), np.nan)
                )
            columns["io_count"].append(count)
            columns["size_bytes"].append(
                np.nan_to_num(means.get((who, op, "bytes_per_second"), nothing)) * seconds
            )
            columns["measured_count"].append(weight)
            columns["latency_sum_ns"].append(np.where(seen, latency, 0.0) * weight)
            columns["begun_count"].append(weight)
            queue = means.get((who, "transfer", "queue_length")) if op == ops[0] else np.zeros(slots)
            if (who, "transfer", "queue_length") not in means:
                queue = iops * np.where(seen, latency, 0.0) / 1e9
            columns["in_flight"].append(np.nan_to_num(queue if queue is not None else nothing))
            streams.append(Stream(name, op, instance=who or None))
    if not streams:
        return None
    return LayerSlots(name, streams, **{column: np.vstack(arrays) for column, arrays in columns.items()})


def _split(metric: str) -> tuple[str, str]:
    """Operation and quantity: ``read_latency_ns`` is (read, latency_ns); ``iops`` is (transfer, iops)."""
    op, _, quantity = metric.partition("_")
    return (op, quantity) if op in _OPS else ("transfer", metric)
