"""Compares two recordings, like with like: the same role, operation and size class, with 95 % intervals.

A replay is held against what it replays by its response time (completed - intended), and by its service time beside it.
Response is the headline: a disk that falls behind makes later I/Os wait before they are issued, and only response
counts that wait. Intervals come from a block bootstrap over slots of time (`bootstrap`), the two recordings resampled
independently; with the same ``seed`` they are the same to the last digit.
"""

from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.schemas import IotraceError, Recording

from . import library
from .bootstrap import SLOTS_MAX, SlotHistograms, interval
from .comparison import ClassComparison, Comparison, Figure, Side
from .describe import workload_layer
from .histogram import Histograms, is_printable
from .same_work import Work, check_same_work
from .waterfall import waterfall

QUANTITIES: Final[dict[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_SLOT_NS_MIN: Final = 1_000_000
_CLASS_IOS_MIN: Final = 200
"""Classes below this have not even a median to show on either side; they are only counted."""

Key = tuple[str, str | None, int | None]
"""Operation, role (None for all), size class (None for larger than 1 MiB, -1 for all)."""


def compare(a: Recording, b: Recording, *, seed: int = 0) -> Comparison:
    """Compare ``b`` with ``a``. Raises `IotraceError` if either holds no I/Os or cannot be read."""
    with library.connected() as connection:
        sides = {}
        for prefix, recording in (("a", a), ("b", b)):
            library.attach(connection, recording, prefix)
            sides[prefix] = _Side(connection, prefix, recording)
        replay: dict[str, Any] = b.manifest.replay or {}
        is_replay_of_a = replay.get("source_uuid") == a.manifest.uuid
        if is_replay_of_a:
            sides["a"].narrow(replay)
        works = {prefix: side.work() for prefix, side in sides.items()}
        mix_distance, warnings = check_same_work(works["a"], works["b"], replay if is_replay_of_a else None)
        pairs = _metric_pairs(a, b)
        classes: list[ClassComparison] = []
        unmatched: list[str] = []
        for a_metric, b_metric in pairs:
            left, right = sides["a"].classes(a_metric), sides["b"].classes(b_metric)
            if _roles_unknown(left) != _roles_unknown(right):
                left, right = _without_roles(left), _without_roles(right)
            classes += _compare_classes(left, right, a_metric, b_metric, seed)
            if (a_metric, b_metric) == pairs[0]:
                unmatched = _unmatched(left, right)
        return Comparison(
            a=sides["a"].figures(works["a"]),
            b=sides["b"].figures(works["b"]),
            is_replay_of_a=is_replay_of_a,
            scale=float(replay["scale"]) if is_replay_of_a and replay.get("scale") is not None else None,
            headline_metric=pairs[0][1],
            headline_reason=_headline_reason(pairs[0]),
            mix_distance=mix_distance,
            same_work=not warnings,
            warnings=warnings,
            classes=classes,
            unmatched=unmatched,
        )


class _Side:
    """One recording, at its workload layer, over the span to compare."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, prefix: str, recording: Recording) -> None:
        self.connection, self.prefix, self.recording = connection, prefix, recording
        self.layers = self.ask("layers").to_pylist()
        layer = workload_layer(row["layer"] for row in self.layers)
        if layer is None:
            raise IotraceError(
                f"'{recording.path}' holds no I/Os", hint="compare needs recordings of single I/Os"
            )
        self.layer = layer
        row = next(row for row in self.layers if row["layer"] == layer)
        self.from_ns, self.until_ns = row["first_issued_ns"], row["last_seen_ns"] + 1
        manifest = recording.manifest
        self.span_ns = manifest.duration_ns if manifest.duration_ns > 0 else self.until_ns - self.from_ns

    def ask(self, query_name: str, **parameters: Any) -> pa.Table:  # noqa: ANN401
        return library.run(self.connection, query_name, prefix=self.prefix, **parameters)

    def narrow(self, replay: dict[str, Any]) -> None:
        """Look only at what was replayed: one layer, and a window if one was chosen."""
        if replay.get("layer") in {row["layer"] for row in self.layers}:
            self.layer = str(replay["layer"])
        window = replay.get("window_ns")
        if isinstance(window, list | tuple) and len(window) == 2 and window[0] < window[1]:
            self.from_ns, self.until_ns = int(window[0]), int(window[1])
            self.span_ns = self.until_ns - self.from_ns

    def work(self) -> Work:
        rows = self.ask(
            "work_mix", layer=self.layer, from_ns=self.from_ns, until_ns=self.until_ns
        ).to_pylist()
        mix = {(row["op"], row["size_bytes"]): row["io_count"] for row in rows}
        return Work(self.recording.manifest.title or self.recording.name, self.layer, self.span_ns, mix)

    def classes(self, metric: str) -> dict[Key, SlotHistograms]:
        slot_ns = max(-(-(self.until_ns - self.from_ns) // SLOTS_MAX), _SLOT_NS_MIN)
        slots = -(-(self.until_ns - self.from_ns) // slot_ns)
        table = self.ask(
            "latency_slots",
            layer=self.layer,
            metric=metric,
            from_ns=self.from_ns,
            until_ns=self.until_ns,
            slot_ns=slot_ns,
        )
        classes: dict[Key, SlotHistograms] = {}
        for op in pc.unique(table["op"]).to_pylist():
            of_op = table.filter(pc.equal(table["op"], op))
            classes[op, None, -1] = _slot_histograms(of_op, slots)
            if op not in {"read", "write"}:
                continue
            for row in of_op.group_by(["role", "size_class_bytes"]).aggregate([]).sort_by("role").to_pylist():
                size = row["size_class_bytes"]
                same_size = (
                    pc.is_null(of_op["size_class_bytes"])
                    if size is None
                    else pc.fill_null(pc.equal(of_op["size_class_bytes"], size), fill_value=False)
                )
                chosen = of_op.filter(pc.and_(pc.equal(of_op["role"], row["role"]), same_size))
                classes[op, row["role"], size] = _slot_histograms(chosen, slots)
        return classes

    def figures(self, work: Work) -> Side:
        histograms = Histograms(self.ask("latency_histogram", metric="service"))
        manifest = self.recording.manifest
        return Side(
            title=work.title,
            uuid=manifest.uuid,
            kind=manifest.kind,
            layer=self.layer,
            quality_verdict=manifest.quality.verdict,
            span_ns=self.span_ns,
            io_count=work.io_count(),
            size_bytes=work.size_bytes(),
            ios_per_s=work.ios_per_s(),
            waterfall=waterfall(histograms, [row["layer"] for row in self.layers]),
        )


def _metric_pairs(a: Recording, b: Recording) -> list[tuple[str, str]]:
    """Which latency of a is held against which of b; the headline first."""
    a_replayed, b_replayed = a.manifest.kind == "replayed", b.manifest.kind == "replayed"
    headline = ("response" if a_replayed else "service", "response" if b_replayed else "service")
    return [headline] if headline == ("service", "service") else [headline, ("service", "service")]


def _headline_reason(pair: tuple[str, str]) -> str:
    if "response" not in pair:
        return "both were recorded as they happened: service time (completed - issued) is all there is"
    return (
        "response (completed - intended) counts the wait of an I/O that could not be issued in time; "
        "service (completed - issued) hides it when the storage falls behind"
    )


def _slot_histograms(table: pa.Table, slots: int) -> SlotHistograms:
    slot, bucket, count = (table[name].to_numpy() for name in ("slot", "bucket_ns", "io_count"))
    return SlotHistograms(slot, bucket, count, slots)


def _roles_unknown(classes: dict[Key, SlotHistograms]) -> bool:
    return all(role in {None, "unattributed"} for _, role, _ in classes)


def _without_roles(classes: dict[Key, SlotHistograms]) -> dict[Key, SlotHistograms]:
    """Join the roles where only one of the two recordings knows them."""
    joined: dict[Key, SlotHistograms] = {}
    for (op, role, size), histograms in classes.items():
        key = (op, role and "unattributed", size)
        before = joined.get(key)
        if before is not None:
            histograms = SlotHistograms(  # noqa: PLW2901
                np.concatenate([before.slot, histograms.slot]),
                np.concatenate([before.bucket_ns, histograms.bucket_ns]),
                np.concatenate([before.io_count, histograms.io_count]),
                histograms.slots,
            )
        joined[key] = histograms
    return joined


def _compare_classes(
    left: dict[Key, SlotHistograms], right: dict[Key, SlotHistograms], a_metric: str, b_metric: str, seed: int
) -> list[ClassComparison]:
    entries = []
    for key in sorted(left.keys() & right.keys(), key=_order):
        op, role, size = key
        a, b = left[key], right[key]
        a_count, b_count = int(a.io_count.sum()), int(b.io_count.sum())
        figures = _figures(a, b, seed) if min(a_count, b_count) >= _CLASS_IOS_MIN else []
        entries.append(
            ClassComparison(
                op=op,
                role=role,
                size_class_bytes=None if size == -1 else size,
                size_class=size_class_name(size),
                a_metric=a_metric,
                b_metric=b_metric,
                a_io_count=a_count,
                b_io_count=b_count,
                figures=figures,
            )
        )
    return entries


def _figures(a: SlotHistograms, b: SlotHistograms, seed: int) -> list[Figure]:
    quantiles = list(QUANTITIES.values())
    sides = [
        side.estimate(quantiles, np.random.default_rng([seed, number])) for number, side in enumerate((a, b))
    ]
    (a_estimate, a_resamples), (b_estimate, b_resamples) = sides
    counts = [int(side.io_count.sum()) for side in (a, b)]
    figures = []
    for index, quantity in enumerate(["mean", *QUANTITIES]):
        quantile = QUANTITIES.get(quantity)
        if quantile is not None and not all(is_printable(count, quantile) for count in counts):
            figures.append(Figure(quantity, None, None, None, None, None, None))
            continue
        a_ns, b_ns = float(a_estimate[index]), float(b_estimate[index])
        difference_interval = ratio_interval = None
        if a_resamples is not None and b_resamples is not None:
            a_many, b_many = a_resamples[:, index], b_resamples[:, index]
            difference_interval = interval(b_many - a_many)
            if a_many.min() > 0:
                ratio_interval = interval(b_many / a_many)
        ratio = b_ns / a_ns if a_ns > 0 else None
        figures.append(Figure(quantity, a_ns, b_ns, b_ns - a_ns, difference_interval, ratio, ratio_interval))
    return figures


def _unmatched(left: dict[Key, SlotHistograms], right: dict[Key, SlotHistograms]) -> list[str]:
    return [
        f"only {'a' if key in left else 'b'} has {key[0]}s of {size_class_name(key[2])} ({key[1] or 'all roles'})"
        for key in sorted(left.keys() ^ right.keys(), key=_order)
    ]


def _order(key: Key) -> tuple[bool, str, str, int]:
    op, role, size = key
    return (role is not None, op, role or "", size if size is not None else 1 << 62)


def size_class_name(size_class_bytes: int | None) -> str:
    """A size class in words: its largest size; classes are the powers of two from 4 KiB to 1 MiB."""
    if size_class_bytes == -1:
        return "all sizes"
    if size_class_bytes is None:
        return "> 1 MiB"
    kib = size_class_bytes // 1024
    name = f"{kib} KiB" if kib < 1024 else "1 MiB"
    return f"≤ {name}" if kib == 4 else name
