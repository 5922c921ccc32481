"""Captures whose description is known: flushes beside the load, failed I/Os, a busiest window off the grid, losses."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas import Clock, Kind, Manifest, Op, Quality, Recording, RecordingWriter, Source
from iotrace.schemas.host import Host

from .hosts import START_UTC_NS
from .laws import Floats
from .loads import at_rates, poisson

Integers = npt.NDArray[np.int64]
_EIO = 5


@dataclass(frozen=True, slots=True)
class DescribeTruth:
    """What is true of a capture. The load is reads and writes; flushes and discards are none."""

    reads: int
    writes: int
    flushes: int
    failed: int
    """Of the reads and writes; they took time and were in flight like all."""
    gap_cv: float
    """Coefficient of variation of the time between arrivals of the load: exactly, of these arrivals."""
    mean_in_flight: float
    """Of the load over the recorded window, failed I/Os included: sum of the time in flight / window."""
    busiest: dict[float, tuple[float, int]]
    """Window's length in seconds → where the fullest window of the load begins (the first of them) and its I/Os."""
    lost: int = 0
    """I/Os of the load that the disk counted and the trace lacks."""
    lost_span_s: tuple[float, float] | None = None


def fullest(at_s: Floats, length_s: float) -> tuple[float, int]:
    """The window [start, start + length) that holds most of ``at_s``, which rises; it begins at an arrival."""
    held = np.searchsorted(at_s, at_s + length_s, side="left") - np.arange(len(at_s))
    first = int(held.argmax())
    return float(at_s[first]), int(held[first])


def flushes(
    path: Path, seed: int, *, rate: float = 80.0, seconds: int = 200
) -> tuple[Recording, DescribeTruth]:
    """A log device: Poisson writes, and a flush 30 µs after each ended, so that arrivals come in pairs."""
    rng = np.random.default_rng([seed, 31])
    at = poisson(rng, rate, seconds)
    took = 1e-4 * np.exp(0.3 * rng.standard_normal(len(at)))
    flush_at = at + took + 3e-5
    flush_took = 1.2e-4 * np.exp(0.3 * rng.standard_normal(len(at)))
    op = np.concatenate([np.ones(len(at), np.int8), np.full(len(at), 2, np.int8)])
    size = np.concatenate([np.full(len(at), 16384), np.zeros(len(at), np.int64)])
    return _write(path, seconds, np.concatenate([at, flush_at]), np.concatenate([took, flush_took]), op, size)


def failures(
    path: Path, seed: int, *, share: float = 0.9, seconds: int = 120
) -> tuple[Recording, DescribeTruth]:
    """Reads of which a ``share`` fails, after half a second each: what is in flight is nearly all theirs."""
    rng = np.random.default_rng([seed, 32])
    at = poisson(rng, 60, seconds - 2)
    fails = rng.random(len(at)) < share
    took = np.where(fails, rng.uniform(0.4, 0.6, len(at)), rng.uniform(5e-4, 2e-3, len(at)))
    return _write(path, seconds, at, took, np.zeros(len(at), np.int8), np.full(len(at), 8192), fails)


def busiest_off_the_grid(
    path: Path, seed: int, *, seconds: int = 240, length_s: float = 60.0
) -> tuple[Recording, DescribeTruth]:
    """A busy minute that begins some seconds before a full minute: no window on the grid holds it whole."""
    rng = np.random.default_rng([seed, 33])
    start = int(rng.integers(1, seconds // 60 - 1)) * 60 + int(rng.integers(15, 46))
    rates = np.full(seconds, 100.0)
    rates[start : start + round(length_s)] = 600.0
    at = at_rates(rng, rates, 1.0)
    op = (rng.random(len(at)) < 0.3).astype(np.int8)
    return _write(
        path, seconds, at, rng.uniform(2e-4, 2e-3, len(at)), op, np.full(len(at), 8192), windows=(length_s,)
    )


def gap_in_the_trace(
    path: Path, seed: int, *, seconds: int = 120, gap_s: float = 20.0, share: float = 1.0
) -> tuple[Recording, DescribeTruth]:
    """For a while the trace lacks a ``share`` of what the disk counted, and calls no event lost."""
    rng = np.random.default_rng([seed, 34])
    at = poisson(rng, 300, seconds)
    took = rng.uniform(2e-4, 2e-3, len(at))
    op = (rng.random(len(at)) < 0.3).astype(np.int8)
    start = float(rng.uniform(0.2, 0.6) * seconds)
    gone = (at >= start) & (at < start + gap_s) & (rng.random(len(at)) < share)
    size = np.full(len(at), 8192)
    counters = _diskstats(seconds, at + took, took, op, size)
    kept = ~gone
    recording, truth = _write(path, seconds, at[kept], took[kept], op[kept], size[kept], counters=counters)
    return recording, DescribeTruth(
        truth.reads, truth.writes, 0, 0, truth.gap_cv, truth.mean_in_flight, truth.busiest, int(gone.sum()),
        (start, start + gap_s),
    )  # fmt: skip


def _write(
    path: Path,
    seconds: int,
    at: Floats,
    took: Floats,
    op: npt.NDArray[np.int8],
    size: Integers,
    fails: npt.NDArray[np.bool_] | None = None,
    *,
    windows: tuple[float, ...] = (1.0, 10.0, 60.0),
    counters: pa.Table | None = None,
) -> tuple[Recording, DescribeTruth]:
    inside = at + took < seconds
    fails = np.zeros(len(at), np.bool_) if fails is None else fails
    at, took, op, size, fails = (one[inside] for one in (at, took, op, size, fails))
    issued = np.round(at * 1e9).astype(np.int64)
    done = issued + np.maximum(1, np.round(took * 1e9).astype(np.int64))
    with RecordingWriter(path) as writer:
        writer.append("io", pa.table({
            "layer": ["block"] * len(at),
            "op": pa.DictionaryArray.from_arrays(pa.array(op), pa.array([str(one) for one in Op])),
            "issued_ns": issued, "completed_ns": done,
            "offset_bytes": (np.arange(len(at), dtype=np.int64) * 2_654_435_761 % (1 << 20) * 8192).astype(np.uint64),
            "size_bytes": size.astype(np.uint32), "device_id": np.zeros(len(at), np.int32),
            "error": np.where(fails, _EIO, 0).astype(np.int32),
        }))  # fmt: skip
        writer.append(
            "devices",
            pa.table({"device_id": [0], "name": ["sdb"], "kind": ["disk"], "size_bytes": [1 << 36]}),
        )
        if counters is not None:
            writer.append("counters", counters)
        recording = writer.commit(Manifest(
            kind=Kind.CAPTURED, title="planted", clock=Clock(START_UTC_NS, 1.0, "CLOCK_MONOTONIC (ftrace mono)"),
            window_end_ns=seconds * 1_000_000_000, host=Host("planted", "Linux"),
            sources=[Source("/dev/sdb", "ftrace block events", events=2 * len(at))],
            quality=Quality().judge(len(at)),
        ))  # fmt: skip
    load = op <= 1
    order = np.argsort(issued[load], kind="stable")
    arrivals = issued[load][order] / 1e9
    gaps = np.diff(arrivals)
    spent_s = float((done - issued)[load].sum()) / 1e9
    return recording, DescribeTruth(
        int((op == 0).sum()), int((op == 1).sum()), int((op == 2).sum()), int(fails.sum()),
        float(gaps.std() / gaps.mean()), spent_s / seconds, {length: fullest(arrivals, length) for length in windows},
    )  # fmt: skip


def _diskstats(
    seconds: int, ends: Floats, took: Floats, op: npt.NDArray[np.int8], size: Integers
) -> pa.Table:
    """The kernel's own counters of the disk, a row a second, as the live recorder writes them."""
    edges = np.arange(seconds + 1.0)
    rows: list[dict[str, Any]] = []
    for word, number in (("read", 0), ("write", 1)):
        mine = op == number
        done, _ = np.histogram(ends[mine], edges)
        moved, _ = np.histogram(ends[mine], edges, weights=size[mine])
        spent, _ = np.histogram(ends[mine], edges, weights=took[mine])
        for second in range(seconds):
            told = [
                (f"{word}s per second", done[second], "1/s", f"{word}_iops"),
                (f"{word} bytes per second", moved[second], "bytes/s", f"{word}_bytes_per_second"),
            ]
            if done[second]:
                told.append(
                    (f"{word} latency", spent[second] * 1e9 / done[second], "ns", f"{word}_latency_ns")
                )
            rows += [
                {"at_ns": (second + 1) * 1_000_000_000, "interval_ns": 1_000_000_000, "source": "host",
                 "object": "diskstats", "instance": "sdb", "counter": counter, "value": float(value), "unit": unit,
                 "layer": "block", "metric": metric}
                for counter, value, unit, metric in told
            ]  # fmt: skip
    return pa.Table.from_pylist(rows).sort_by("at_ns")
