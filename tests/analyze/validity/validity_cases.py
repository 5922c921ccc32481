"""For every rule of validity a case that makes it fire and one, as near to it as can be, that does not.

A case changes a sound subject: ``io`` its I/Os, ``manifest`` its manifest, ``replay`` the manifest's entry on a replay.
Sound are a replay, a captured recording, and a cell of a characterization.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.validity import Subject
from iotrace.schemas import Alignment, Clock, Quality, Source
from iotrace.schemas.host import Host, IoLimit

GIB = 1 << 30
MS = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
COUNT = 12_000
MOVED = {
    "before": {"read_bytes": 0, "written_bytes": 0},
    "after": {"read_bytes": 20 * GIB, "written_bytes": 0},
}
TARGET = {
    "name": "/dev/sdx",
    "kind": "device",
    "bytes": 100 * GIB,
    "direct": True,
    "filled": True,
    "addresses": "identity",
}
PLAYED = {
    "backend": "io_uring",
    "direct": True,
    "targets": [TARGET],
    "planned_ios": COUNT,
    "issued_ios": COUNT,
    "completed_ios": COUNT,
    "failed_ios": 0,
    "skipped_ios": 0,
    "adjusted_ios": 0,
    "delayed_ios": 0,
    "max_in_flight": 1024,
    "generator_limited": False,
    "interrupted": False,
    "device_counters": {
        "sdx": {
            "before": {"read_bytes": 0, "written_bytes": 0},
            "after": {"read_bytes": COUNT << 20, "written_bytes": 0},
        }
    },
}
REPLAY = PLAYED | {
    "mode": "compress",
    "scale": 1.0,
    "planned_duration_ns": MINUTE,
    "issued_span_ns": MINUTE,
}
CELL = PLAYED | {"loop": "closed", "seconds": 60.0}
MODELLED = {"model": {"title": "a cloud disk", "date": "2026-01-02", "tested": None}}
BASE = {"replay": REPLAY, "captured": None, "characterization": CELL}

_COLUMNS = ("issued_ns", "completed_ns", "offset_bytes", "size_bytes", "device_id", "error")


@dataclass(frozen=True)
class Case:
    """What to change about a sound subject of ``scope``."""

    scope: str = "replay"
    io: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    replay: dict[str, Any] = field(default_factory=dict)
    other: "Case | None" = None
    """What it is compared with, as the base."""

    def recording(self, make_recording: Callable) -> Any:
        """The subject's recording."""
        at = np.arange(COUNT) * (MINUTE // COUNT)
        io = {
            "issued_ns": at,
            "completed_ns": at + 300_000,
            "offset_bytes": np.arange(COUNT) << 20,
            "size_bytes": np.full(COUNT, 1 << 20),
            "device_id": np.zeros(COUNT, dtype=np.int32),
            "error": np.zeros(COUNT, dtype=np.int32),
        }
        if self.scope in {"replay", "simulation"}:
            io["intended_ns"] = at
        manifest = {"window_ns": MINUTE, "host": Host(cpu_governor="performance")} | self.manifest
        base = REPLAY | MODELLED if self.scope == "simulation" else BASE[self.scope]
        if base is not None:
            kind = "simulated" if self.scope == "simulation" else "replayed"
            manifest |= {"kind": kind, "replay": base | self.replay}
        clock = manifest.pop("clock", None)
        recording = make_recording(io | self.io, **manifest)
        if clock is not None:
            recording.manifest.clock = clock
        return recording

    def subject(self, make_recording: Callable) -> Subject:
        """What the rule is asked about."""
        recording = self.recording(make_recording)
        comparison = None
        if self.other is not None:
            base = recording if self.other is self else self.other.recording(make_recording)
            comparison = compare(base, recording)
        return Subject(recording, comparison)


@dataclass(frozen=True)
class Cases:
    """``fires`` makes the rule fire at ``level`` and with ``word`` in the detail; ``silent`` does not."""

    fires: Case
    silent: Case
    word: str
    level: str = "warning"


def io(**columns: Any) -> dict[str, Any]:
    """Columns that replace those of the sound subject."""
    return columns


def both_layers(block_ns: int, device_ns: int) -> dict[str, Any]:
    """Each I/O in two layers."""
    at = np.arange(COUNT // 2) * (2 * MINUTE // COUNT)
    return {
        "issued_ns": np.tile(at, 2),
        "completed_ns": np.concatenate([at + block_ns, at + device_ns]),
        "layer": np.repeat(["block", "device"], COUNT // 2),
        "offset_bytes": np.tile(np.arange(COUNT // 2) << 20, 2),
    }


def first(count: int, then: int, otherwise: int = 0) -> np.ndarray:
    """``then`` for the first ``count`` I/Os."""
    return np.where(np.arange(COUNT) < count, then, otherwise)


def ops(*names: str) -> np.ndarray:
    """These operations in turn."""
    return np.array(names)[np.arange(COUNT) % len(names)]


def growing(last: float) -> dict[str, Any]:
    """Service grows evenly from 1 ms to ``last`` times that."""
    at = np.arange(COUNT) * (MINUTE // COUNT)
    return {"completed_ns": at + (MS * np.linspace(1, last, COUNT)).astype(np.int64)}


def overloaded(share: float, cap: int | None = None) -> dict[str, Any]:
    """A server that carries ``share`` of the load and drains after the last arrival; at most ``cap`` in flight."""
    at = np.arange(COUNT) * (MINUTE // COUNT)
    ends = (np.arange(1, COUNT + 1) * (MINUTE / COUNT / share)).astype(np.int64)
    issued = at.copy()
    if cap is not None:
        issued[cap:] = np.maximum(at[cap:], ends[:-cap])
    return {"issued_ns": issued, "completed_ns": ends, "intended_ns": at}


def speeding_up(share: float) -> dict[str, Any]:
    """As many I/Os, ``share`` more of them in the last fifth than in the first, linear in between."""
    at = np.linspace(0, 1, COUNT)
    early = 1 - share / 2
    times = (-early + np.sqrt(early**2 + 2 * share * at)) / share * MINUTE
    return {"issued_ns": times.astype(np.int64), "completed_ns": times.astype(np.int64) + MS}


def disk_counted(share: float) -> dict[str, Any]:
    """Tables in which the kernel counts so many times the bytes that the sound subject holds, second by second."""
    disk = {"device_id": 0, "name": "sdx", "kind": "disk"}
    rows = [
        {
            "at_ns": (second + 1) * SECOND,
            "interval_ns": SECOND,
            "source": "host",
            "object": "diskstats",
            "instance": "sdx",
            "counter": "read bytes per second",
            "unit": "bytes/s",
            "value": COUNT / 60 * (1 << 20) * share,
        }
        for second in range(60)
    ]
    return {"tables": {"devices": [disk], "counters": rows}}


def source(uncertainty_ns: int | None, method: str = "utc") -> dict[str, Any]:
    """A second source beside the first."""
    one = Source("disk.etl", "etl", alignment=Alignment("reference", "disk.etl"))
    other = Source("files.xel", "xel", alignment=Alignment(method, "UTC", uncertainty_ns=uncertainty_ns))
    return {"sources": [one, other]}


CAPTURED = Case("captured")
UUID = "00000000-0000-4000-8000-000000000001"


def shard(skew_ms: int, bound_ms: int) -> dict[str, object]:
    """One of several generators, that started so late, as far as is known."""
    return {
        "host": f"gen{skew_ms}",
        "start_skew_ns": skew_ms * 1_000_000,
        "start_skew_bound_ns": bound_ms * 1_000_000,
    }


LATE_BY_A_TENTH = {"generator_limited": True, "generator_lateness_ns": {"p50": 10, "p99": 30_001}}

CASES = {
    "answered-by-a-model": Cases(
        Case("simulation"), Case(), "'a cloud disk' of 2026-01-02, which was never held"
    ),
    "cache-not-bypassed": Cases(
        Case(replay={"targets": [TARGET | {"direct": False}]}), Case(), "/dev/sdx", "invalid"
    ),
    "target-not-filled": Cases(
        Case(replay={"targets": [TARGET | {"filled": False}]}),
        Case(io=io(op=ops("write")), replay={"targets": [TARGET | {"filled": False}]}),
        "/dev/sdx",
    ),
    "small-footprint": Cases(
        Case(io=io(offset_bytes=np.arange(COUNT) << 13, size_bytes=np.full(COUNT, 8192))),
        Case(),
        "MiB were touched",
    ),
    "target-smaller-than-cache": Cases(
        Case("characterization", replay={"targets": [TARGET | {"bytes": 8 * GIB - 1}]}),
        Case("characterization", replay={"targets": [TARGET | {"bytes": 8 * GIB}]}),
        "/dev/sdx has 8.0 GiB",
    ),
    "addresses-folded": Cases(
        Case(replay={"targets": [TARGET | {"addresses": "fold"}]}),
        Case(replay={"targets": [TARGET | {"addresses": "compact"}]}),
        "/dev/sdx",
    ),
    "other-io": Cases(
        Case(replay={"device_counters": {"sdx": MOVED}}),
        Case(replay={"device_counters": {"sdx": {"before": None, "after": None}}}),
        "20.0 GiB",
    ),
    "unlike-work": Cases(
        Case("captured", io=io(size_bytes=np.full(COUNT, 8192)), other=CAPTURED),
        Case("captured", other=CAPTURED),
        "mix of operations and sizes differs",
        "invalid",
    ),
    "unlike-layers": Cases(
        Case("captured", io=io(layer=np.full(COUNT, "filesystem")), other=CAPTURED),
        Case("captured", other=CAPTURED),
        "B at the filesystem layer",
    ),
    "same-recording": Cases(
        Case("captured", manifest={"uuid": UUID}, other=Case("captured", manifest={"uuid": UUID})),
        Case("captured", other=CAPTURED),
        "no difference",
    ),
    "clock-error": Cases(
        Case("captured", io=both_layers(700, 900), other=Case("captured", io=both_layers(700, 500))),
        Case("captured", io=both_layers(700, 500), other=Case("captured", io=both_layers(700, 500))),
        "block cannot take less time than device",
        "invalid",
    ),
    "interrupted": Cases(Case(replay={"issued_ios": 11_000}), Case(), "11,000 of 12,000", "invalid"),
    "generator-limited": Cases(Case(replay=LATE_BY_A_TENTH), Case(), "p99 30.0 µs", "invalid"),
    "not-together": Cases(
        # Of the run's 60 s, 1 % is 600 ms: from 300 ms early to 301 ms late, or just that.
        Case(replay={"duration_ns": MINUTE, "shards": [shard(-200, 100), shard(201, 100)]}),
        Case(replay={"duration_ns": MINUTE, "shards": [shard(-200, 100), shard(200, 100)]}),
        "starts may lie 601 ms apart",
        "invalid",
    ),
    "delayed-by-cap": Cases(Case(replay={"delayed_ios": 1}), Case(), "1,024"),
    "not-as-recorded": Cases(
        Case(replay={"skipped_ios": 61, "adjusted_ios": 61, "skipped": {"over 256 MiB": 61}}),
        Case(replay={"skipped_ios": 60, "adjusted_ios": 60, "skipped": {"over 256 MiB": 60}}),
        "61 over 256 MiB",
    ),
    "discards-not-replayed": Cases(
        Case(replay={"skipped_ios": 1000, "skipped": {"discards": 1000}}),
        Case(replay={"skipped_ios": 100, "skipped": {"discards": 100}}),
        "1,000 discards",
    ),
    "load-not-as-asked": Cases(
        Case(replay={"issued_span_ns": 66 * SECOND}),
        Case(replay={"issued_span_ns": 63 * SECOND}),
        "66.0 s where 60.0 s",
    ),
    "closed-loop": Cases(Case(replay={"mode": "think"}), Case(replay={"mode": "superpose"}), "mode think"),
    "threads-backend": Cases(
        Case(replay={"backend": "threads", "backend_reason": "no io_uring here"}), Case(), "no io_uring here"
    ),
    "processor-slowed": Cases(
        Case(manifest={"host": Host(cpu_governor="powersave")}),
        Case(manifest={"host": Host("h")}),
        "powersave",
    ),
    "backlog-grew": Cases(Case(io=growing(4.0)), Case(io=growing(2.0)), "in the first fifth"),
    "not-steady": Cases(
        Case("characterization", io=speeding_up(0.3)),
        Case("characterization", io=speeding_up(0.08)),
        # From the middle of the first fifth to that of the last are four fifths of the way.
        "changed by +24 % from first to last",
    ),
    "nothing-recorded": Cases(
        Case("captured", io=dict.fromkeys(_COLUMNS, np.zeros(0, np.int64))),
        CAPTURED,
        "no I/Os, counters, waits, events or results",
    ),
    "limited-by-cgroup": Cases(
        Case("captured", manifest={"host": Host(io_limits=[IoLimit("/sql.slice", "sdb", read_iops=200)])}),
        CAPTURED,
        "cgroup /sql.slice has 200 reads/s at most on sdb",
    ),
    "data-lost": Cases(
        Case("captured", manifest={"quality": Quality(events_lost=1000).judge(1000)}),
        CAPTURED,
        "1,000 events lost",
        "invalid",
    ),
    "trace-lacks-ios": Cases(
        Case("captured", manifest=disk_counted(1.02)),
        Case("captured", manifest=disk_counted(1.0005)),
        "(2.0 %) of it is not in the recording",
        "invalid",
    ),
    "sources-apart": Cases(
        Case(
            "captured",
            manifest={"quality": Quality(source_gaps=1, shared_time=["b begins 3 h after a"]).judge(9)},
        ),
        CAPTURED,
        "b begins 3 h after a",
        "invalid",
    ),
    "too-short": Cases(
        Case(manifest={"window_ns": 29 * SECOND}), Case(manifest={"window_ns": 30 * SECOND}), "30.0 s"
    ),
    "too-few-ios": Cases(
        Case("captured", io=io(op=np.where(np.arange(COUNT) < 9_999, "read", "flush"))),
        Case("captured", io=io(op=np.where(np.arange(COUNT) < 10_000, "read", "flush"))),
        "9,999 reads",
    ),
    "failed-ios": Cases(Case(io=io(error=first(1, 5))), Case(), "1 of 12,000"),
    "unfinished-ios": Cases(
        Case(
            io=io(completed_ns=[None if row < 13 else row * (MINUTE // COUNT) + MS for row in range(COUNT)])
        ),
        Case(
            io=io(completed_ns=[None if row < 12 else row * (MINUTE // COUNT) + MS for row in range(COUNT)])
        ),
        "13 of 12,000",
    ),
    "coarse-clock": Cases(
        Case("captured", manifest={"clock": Clock(0, 1e6, "XE")}),
        Case("captured", manifest={"clock": Clock(0, 1e4, "ms / 100")}),
        "steps of 1.00 ms",
    ),
    "clocks-not-aligned": Cases(
        Case("captured", manifest=source(None)),
        Case("captured", manifest=source(1_000_000)),
        "files.xel (unknown)",
    ),
}
"""Under the identifier of each rule."""

FURTHER = [
    (
        "delayed-by-cap",
        Case(replay={"delayed_ios": 5, "waits_for_room": 2}),
        "warning",
        "the disk's own queue was full (2 times)",
    ),
    ("cache-not-bypassed", Case(replay={"direct": False}), "invalid", "page cache"),
    ("cache-not-bypassed", Case("characterization", replay={"direct": False}), "invalid", "page cache"),
    (
        "target-not-filled",
        Case(io=io(op=ops("read", "write")), replay={"targets": [TARGET | {"filled": False}]}),
        "invalid",
        "/dev/sdx",
    ),
    ("interrupted", Case(replay={"interrupted": True}), "warning", "12,000"),
    # A damaged manifest: of nothing that was planned no share was played.
    ("interrupted", Case(replay={"interrupted": True, "issued_ios": -1, "planned_ios": 0}), "warning", "-1"),
    ("interrupted", Case("characterization", replay={"issued_ios": 11_000}), "warning", "11,000"),
    ("not-as-recorded", Case(replay={"adjusted_ios": 500}), "warning", "500"),
    ("load-not-as-asked", Case(replay={"thinning": {"error": 0.2}}), "warning", "1.20 times"),
    ("processor-slowed", Case(manifest={"host": Host(cpu_governor="")}), "warning", "unknown"),
    (
        "data-lost",
        Case(manifest={"quality": Quality(truncated_tail=True).judge(1000)}),
        "warning",
        "truncated",
    ),
    (
        "data-lost",
        Case(
            "captured",
            manifest={
                "quality": Quality(events_lost=5, left_out=["all lines of D:\\big.mdf: rounded"]).judge(9)
            },
        ),
        "invalid",
        "all lines of D:\\big.mdf: rounded",
    ),
    (
        "sources-apart",
        Case("captured", manifest={"quality": Quality(shared_time=["1.0 % of the 5 min of a"]).judge(9)}),
        "warning",
        "1.0 % of",
    ),
    ("too-short", Case("characterization", manifest={"window_ns": 4 * SECOND}), "warning", "4.00 s"),
    *(
        ("backlog-grew", Case(io=overloaded(share, cap)), "warning", "in the first fifth")
        for share in (0.9, 0.8, 0.5)
        for cap in (None, 100)
    ),
    (
        "limited-by-cgroup",
        Case(
            "captured",
            manifest={
                "host": Host(
                    io_limits=[IoLimit("/", "sdb", None, 1500, 8 << 20, 1 << 20)]
                    + [IoLimit(f"/pod{number}", "sdb", 1) for number in range(4)]
                )
            },
        ),
        "warning",
        (
            "cgroup / has 1,500 writes/s, 8.0 MiB/s of reads and 1.0 MiB/s of writes at most on sdb; "
            "cgroup /pod0 has 1 read/s at most on sdb; cgroup /pod1 has 1 read/s at most on sdb; "
            "2 more in manifest.json."
        ),
    ),
    ("trace-lacks-ios", Case("captured", manifest=disk_counted(1.005)), "warning", "(0.5 %)"),
    ("failed-ios", Case(io=io(error=first(200, 5))), "invalid", "200 of 12,000"),
    ("clocks-not-aligned", Case("captured", manifest=source(5 * MS)), "warning", "5.00 ms"),
    (
        "unlike-work",
        Case("captured", io=io(op=np.where(np.arange(COUNT) % 10 == 0, "write", "read")), other=CAPTURED),
        "warning",
        "10 %",
    ),
]
"""More ways to fire: rule, case, level, a word of the detail."""
