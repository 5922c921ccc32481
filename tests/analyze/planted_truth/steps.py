"""One step of a sweep: a load played on a simulated device, written as a replay writes it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay.plan.rows import NAMES, READ, Rows, constant
from iotrace.replay.plan.survey import Shape
from iotrace.replay.run.result import counters_table, is_generator_limited
from iotrace.schemas import Clock, IoFlags, Kind, Manifest, Quality, Recording, RecordingWriter, Source
from iotrace.schemas.host import Host
from iotrace.schemas.run import run_of

from .devices import Device
from .laws import Floats, one_server
from .loads import Mix

TARGET = "/data/test.bin"
DISK = "sdb"
TARGET_BYTES = 32 << 30
IN_FLIGHT_MAX = 1024
START_UTC_NS = 1_790_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Others:
    """What somebody else does to the disk meanwhile: writes of ``size_bytes``, ``rate`` a second, not recorded."""

    rate: float
    size_bytes: int = 65536


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one step; times are seconds since the step's start, the columns one entry an I/O."""

    intended_s: Floats
    issued_s: Floats
    completed_s: Floats
    is_read: npt.NDArray[np.bool_]
    size_bytes: npt.NDArray[np.int64]
    delayed: npt.NDArray[np.bool_]
    busy_s: float
    """How long the disk had at least one I/O, those of others included."""
    others_ios: int
    others_bytes: int

    @property
    def planned_seconds(self) -> float:
        return float(self.intended_s[-1])

    @property
    def ended_s(self) -> float:
        return float(self.completed_s.max())

    @property
    def offered_iops(self) -> float:
        return len(self.intended_s) / self.planned_seconds

    @property
    def unanswered_at_the_end(self) -> int:
        """I/Os that were due and not done when the last one became due."""
        return int((self.completed_s > self.intended_s[-1]).sum())


def play(
    rng: np.random.Generator,
    device: Device,
    intended_s: Floats,
    mix: Mix,
    *,
    starts_s: float = 0.0,
    generator_iops: float | None = None,
    others: Others | None = None,
    in_flight_max: int = IN_FLIGHT_MAX,
) -> Step:
    """Play a load from ``starts_s`` of the device's clock.

    ``generator_iops``: the replay itself cannot issue more, so that its I/Os are late. At most ``in_flight_max`` are in
    flight; those that the cap holds back are issued when another ends, which changes nothing of when a device that
    always has that many waiting completes them.
    """
    count = len(intended_s)
    is_read, size_bytes = mix.draw(rng, count)
    sent = np.maximum.accumulate(
        intended_s + np.minimum(4e-6 * np.exp(0.5 * rng.standard_normal(count)), 1e-4)
    )
    if generator_iops is not None:
        sent = one_server(sent, np.full(count, 1 / generator_iops))
    at, read, size, own = sent, is_read, size_bytes, np.ones(count, np.bool_)
    if others is not None:
        theirs = np.sort(rng.uniform(0, intended_s[-1], rng.poisson(others.rate * intended_s[-1])))
        at = np.concatenate([at, theirs])
        order = np.argsort(at, kind="stable")
        at, own = at[order], order < count
        read = np.concatenate([read, np.zeros(len(theirs), np.bool_)])[order]
        size = np.concatenate([size, np.full(len(theirs), others.size_bytes)])[order]
    ends = device.serve(rng, at + starts_s, read, size) - starts_s
    completed = ends[own]
    room = np.concatenate(
        [np.full(min(in_flight_max, count), -np.inf), np.sort(completed)[: max(0, count - in_flight_max)]]
    )
    issued = np.maximum(sent, np.minimum(room, completed - 1e-6))
    return Step(
        intended_s, issued, completed, is_read, size_bytes, issued > sent,
        _busy_s(at, ends), int((~own).sum()), int(size[~own].sum()),
    )  # fmt: skip


def _busy_s(starts: Floats, ends: Floats) -> float:
    """Length of the union of the stretches; ``starts`` rises."""
    reached = np.maximum.accumulate(ends)
    before = np.concatenate([[-np.inf], reached[:-1]])
    return float(np.maximum(0, reached - np.maximum(starts, before)).sum())


class DiskCounters:
    """The disk's running totals since boot, from which a replay notes two looks."""

    def __init__(self) -> None:
        self.totals = {"reads": 96_279, "read_bytes": 2_987_791_872, "writes": 67_209,
                       "written_bytes": 19_728_814_080, "in_flight": 0, "busy_ns": 48_276_000_000}  # fmt: skip

    def add(self, step: Step) -> dict[str, Any]:
        """Count a step in; returns what a manifest says of it."""
        before = dict(self.totals)
        reads = step.is_read
        self.totals["reads"] += int(reads.sum())
        self.totals["read_bytes"] += int(step.size_bytes[reads].sum())
        self.totals["writes"] += int((~reads).sum()) + step.others_ios
        self.totals["written_bytes"] += int(step.size_bytes[~reads].sum()) + step.others_bytes
        self.totals["busy_ns"] += round(step.busy_s * 1e3) * 1_000_000
        return {DISK: {"before": before, "after": dict(self.totals)}}


def write_step(
    path: Path,
    step: Step,
    *,
    rng: np.random.Generator,
    scale: float,
    source_uuid: str,
    counters: DiskCounters,
    starts_s: float = 0.0,
    title: str = "planted",
    window_ns: tuple[int, int] = (0, 60_000_000_000),
    repeat: int = 1,
) -> Recording:
    """Write a step as the recording of a replay."""
    intended, issued, completed = (
        np.round(one * 1e9).astype(np.int64) for one in (step.intended_s, step.issued_s, step.completed_s)
    )
    completed = np.maximum(completed, issued + 1)
    offset = rng.integers(0, (TARGET_BYTES - (1 << 20)) // 8192, len(intended)) * 8192
    with RecordingWriter(path) as writer:
        writer.append("io", pa.table({
            "layer": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(intended), np.int8)), pa.array(["block"])),
            "op": pa.DictionaryArray.from_arrays(
                pa.array(np.where(step.is_read, 0, 1).astype(np.int8)), pa.array(["read", "write"])
            ),
            "intended_ns": intended,
            "issued_ns": issued,
            "completed_ns": completed,
            "offset_bytes": offset.astype(np.uint64),
            "size_bytes": step.size_bytes.astype(np.uint32),
            "device_id": np.zeros(len(intended), np.int32),
            "flags": (int(IoFlags.NO_CACHE) | np.where(step.delayed, int(IoFlags.DELAYED), 0)).astype(np.uint32),
        }))  # fmt: skip
        writer.append("devices", pa.table({
            "device_id": [0], "name": [TARGET], "kind": ["file"], "size_bytes": [TARGET_BYTES],
            "logical_block_bytes": [512], "physical_block_bytes": [4096], "filesystem": ["xfs"], "write_cache": [False],
        }))  # fmt: skip
        writer.append("counters", counters_table(_seconds(intended, issued, completed, step)))
        facts = _figures(intended, issued, completed, step.delayed)
        shape = _shape(intended, offset, step.size_bytes)
        end_ns = facts["duration_ns"]
        quality = Quality()
        if facts["delayed_ios"]:
            quality.notes.append(f"{facts['delayed_ios']:,} I/Os were held back by the cap on I/Os in flight")
        if facts["generator_limited"]:
            quality.notes.append(
                "generator-limited: the replay itself ran late; do not judge the storage by its response times"
            )
        return writer.commit(Manifest(
            kind=Kind.REPLAYED,
            title=f"{title} at {scale:g}x",
            clock=Clock(START_UTC_NS + round(starts_s * 1e9), 1.0, "CLOCK_MONOTONIC"),
            window_end_ns=end_ns,
            host=Host("candidate", "Linux 6.18", machine="x86_64", processors=16, memory_bytes=8 << 30),
            sources=[Source("prod.iotrace", "recording", events=len(intended))],
            quality=quality.judge(len(intended)),
            replay=run_of({
                "source_uuid": source_uuid, "source_title": title, "scale": scale, "mode": "compress",
                "window_ns": list(window_ns), "layer": "block", "reads_only": False,
                "filters": {"roles": [], "files": [], "processes": [], "ops": []}, "seed": 0,
                "backend": "io_uring", "backend_reason": None, "direct": True, "addresses": "auto",
                "mapping": [{"device_id": 0, "name": "sdb", "target": TARGET, "mode": "identity", "base_bytes": 0,
                             "extents": 1, "touched_bytes": TARGET_BYTES}],
                "targets": [{"name": TARGET, "kind": "file", "bytes": TARGET_BYTES, "direct": True,
                             "logical_block_bytes": 512, "filesystem": "xfs", "filled": True, "fill": "incompressible",
                             "device": DISK, "model": "planted", "write_cache": False, "rotational": False,
                             "touched_bytes": TARGET_BYTES, "addresses": "identity"}],
                "scaling": {"before": _shape(np.round(intended * scale).astype(np.int64), offset, step.size_bytes),
                            "after": shape},
                "copies": 1, "footprint": None, "thinning": None, "dependencies": None,
                "planned_by_op": {"read": int(step.is_read.sum()), "write": int((~step.is_read).sum()), "flush": 0},
                "log_ios": 0, "repeat": repeat, "loop_seconds": None, "ramp_seconds": 0.0, **facts,
                "skipped_ios": 0, "skipped": {}, "max_in_flight": IN_FLIGHT_MAX, "max_errors": None,
                "preferred": True, "submitters": 1, "memory_registered": True, "ended": "normally",
                "interrupted": False, "device_counters": counters.add(step), "cpu_seconds": end_ns / 1e9 / 10,
            }),
        ))  # fmt: skip


Integers = npt.NDArray[np.int64]


def _figures(
    intended: Integers, issued: Integers, completed: Integers, delayed: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    lateness, response, service = issued - intended, completed - intended, completed - issued
    own = ~delayed
    own_lateness = {"p50": _quantile(lateness[own], 0.5), "p99": _quantile(lateness[own], 0.99)}
    own_response = {"p50": _quantile(response[own], 0.5), "p99": _quantile(response[own], 0.99)}
    count = len(intended)
    return {
        "planned_ios": count, "issued_ios": count, "completed_ios": count, "failed_ios": 0, "adjusted_ios": 0,
        "delayed_ios": int(delayed.sum()), "starved": 0, "waits_for_room": 0, "errors": {},
        "planned_duration_ns": int(intended[-1] - intended[0]), "issued_span_ns": int(issued.max() - issued.min()),
        "duration_ns": int(completed.max()),
        "lateness_ns_p50": _quantile(lateness, 0.5), "lateness_ns_p99": _quantile(lateness, 0.99),
        "lateness_ns_max": int(lateness.max()),
        "response_ns_p50": _quantile(response, 0.5), "service_ns_p50": _quantile(service, 0.5),
        "generator_lateness_ns": own_lateness, "generator_response_ns": own_response,
        "generator_limited": is_generator_limited(own_lateness, own_response),
    }  # fmt: skip


def _quantile(values: Integers, share: float) -> int | None:
    """The smallest value that at least ``share`` of all do not exceed."""
    return int(np.quantile(values, share, method="inverted_cdf")) if len(values) else None


def _seconds(intended: Integers, issued: Integers, completed: Integers, step: Step) -> list[dict[str, Any]]:
    length = int(max(completed.max(), issued.max()) // 1_000_000_000) + 1
    out, done = issued // 1_000_000_000, completed // 1_000_000_000
    counts = np.bincount(out, minlength=length)
    ends = np.bincount(done, minlength=length)
    moved = np.bincount(done, step.size_bytes, minlength=length)
    held = np.bincount(out, step.delayed, minlength=length)
    order = np.argsort(out, kind="stable")
    late = np.split((issued - intended)[order], np.cumsum(counts)[:-1])
    return [
        {"second": number, "issued": int(counts[number]), "completed": int(ends[number]), "failed": 0,
         "delayed": int(held[number]), "bytes": int(moved[number]),
         "lateness_ns_p50": _quantile(late[number], 0.5), "lateness_ns_p99": _quantile(late[number], 0.99),
         "lateness_ns_max": int(late[number].max()) if len(late[number]) else None,
         "processor_ns": 100_000_000}
        for number in range(length)
    ]  # fmt: skip


def _shape(at_ns: Integers, offset: Integers, size: Integers) -> dict[str, Any]:
    count, shape = len(at_ns), Shape()
    rows = Rows(**{name: constant(np.int64(0), count) for name in NAMES}).changed(
        at_ns=at_ns,
        op=np.full(count, READ, np.uint8),
        file_id=np.zeros(count, np.int32),
        offset_bytes=offset,
        size_bytes=size,
    )
    shape.add(rows)
    return asdict(shape.result())
