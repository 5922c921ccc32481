"""A model as the simulator takes it (model/src/spec.rs), what its limits are called, and what stands for its disks."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from iotrace.replay.targets.block_device import DeviceFacts
from iotrace.replay.targets.target import Target
from iotrace.schemas.models.model import Cell, Disk, Limit, Model, Service
from iotrace.schemas.run import TargetFacts
from iotrace.schemas.units import KIB, MIB

_OPS: Final = ("read", "write", "flush")
_BLOCK_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit by its place among the simulator's: gate, and bucket (None: slices)."""

    gate: int
    bucket: int | None
    owner: str
    """The machine or the disk it is of; disks of one volume have one name."""
    counted: str
    """``iops`` or ``mb_per_s``."""
    rate: float
    """I/Os or MB a second that it gives for ever."""
    credits: float | None = None
    """What full credits hold, in I/Os or MB; None without bursts."""
    is_peak: bool = False
    """The burst rate beside credits."""

    @property
    def name(self) -> str:
        """``P30: 5,000 IOPS``."""
        rate = f"{self.rate:,.0f} {'IOPS' if self.counted == 'iops' else 'MB/s'}"
        return f"{self.owner}: {rate}{' burst' if self.is_peak else ''}"


@dataclass(slots=True)
class Compiled:
    """``spec`` for `_model.Simulator`; ``volumes`` are the model's disks in its order."""

    spec: dict[str, Any]
    volumes: tuple[Disk, ...]
    bounds: list[Bound] = field(default_factory=list)

    def json(self) -> str:
        """The spec as text."""
        return json.dumps(self.spec)


def compiled(model: Model) -> Compiled:
    """Resolve ``model`` into gates, disks and volumes."""
    made = Compiled({"gates": [], "volumes": [], "disks": []}, model.disks)
    machine_gates: dict[str, list[int]] = {"all": [], "cached": [], "uncached": []}
    if model.machine is not None:
        for limit in model.machine.limits:
            machine_gates[limit.of] += _gates(made, limit, limit.name or model.machine.name)
    for disk in model.disks:
        which = "cached" if disk.cached else "uncached"
        set_gates = [
            gate for limit in disk.set_limits for gate in _gates(made, limit, limit.name or disk.name)
        ]
        disks = []
        for _ in range(disk.count):
            gates = [gate for limit in disk.limits for gate in _gates(made, limit, limit.name or disk.name)]
            disks.append(len(made.spec["disks"]))
            made.spec["disks"].append(_disk(disk, gates))
        made.spec["volumes"].append(
            {
                "gates": [*machine_gates[which], *machine_gates["all"], *set_gates],
                "disks": disks,
                "stripe_bytes": round(disk.stripe_kib * KIB),
            }
        )
    return made


def _gates(made: Compiled, limit: Limit, owner: str) -> list[int]:
    """Add the gates of a limit; slices are one for bytes and one for I/Os, in the kernel's order."""
    covers = {"reads": limit.ops != "write", "writes": limit.ops != "read"}
    first = len(made.spec["gates"])
    if limit.slice_ms is not None:
        for counted, word, rate, unit in (
            ("bytes", "mb_per_s", limit.mb_per_s, 1e6),
            ("ios", "iops", limit.iops, 1.0),
        ):
            if rate is not None:
                made.bounds.append(Bound(len(made.spec["gates"]), None, owner, word, rate))
                slices = {
                    "counted": counted,
                    "rate_per_s": rate * unit,
                    "slice_ns": round(limit.slice_ms * 1e6),
                    "tick_ns": round(limit.tick_ms * 1e6),
                }
                made.spec["gates"].append(covers | {"slices": slices})
        return list(range(first, len(made.spec["gates"])))
    buckets: list[dict[str, Any]] = []
    for counted, word, rate, burst, credits_, unit in (
        ("ios", "iops", limit.iops, limit.burst_iops, limit.credit_ios, 1.0),
        ("bytes", "mb_per_s", limit.mb_per_s, limit.burst_mb_per_s, limit.credit_mb, 1e6),
    ):
        if rate is None:
            continue
        what: dict[str, Any] = {"counted": counted}
        if counted == "ios":
            what |= {"unit_bytes": round((limit.unit_kib or 0) * KIB)}
            what |= {"merge_bytes": round((limit.merge_kib or 0) * KIB)}
        depth = limit.depth_ms / 1e3
        if burst is None:
            made.bounds.append(Bound(first, len(buckets), owner, word, rate))
            buckets.append(what | _bucket(rate * unit, _least(rate * depth * unit), 1.0))
            continue
        # Credits last for burst_seconds at the burst rate while the base rate brings new ones.
        full = credits_ if credits_ is not None else (burst - rate) * (limit.burst_seconds or 0.0)
        made.bounds.append(Bound(first, len(buckets), owner, word, rate, credits=full))
        held = full * limit.credits_at_start + rate * depth
        capacity = _least((full + rate * depth) * unit)
        buckets.append(what | _bucket(rate * unit, capacity, min(1.0, held * unit / capacity)))
        made.bounds.append(Bound(first, len(buckets), owner, word, burst, is_peak=True))
        buckets.append(what | _bucket(burst * unit, _least(burst * depth * unit), 1.0))
    made.spec["gates"].append(covers | {"buckets": buckets})
    return [first]


def _least(capacity: float) -> float:
    """No bucket holds less than one I/O."""
    return max(1.0, capacity)


def _bucket(rate_per_s: float, capacity: float, start_share: float) -> dict[str, float]:
    return {"rate_per_s": rate_per_s, "capacity": capacity, "start": capacity * start_share}


def _disk(disk: Disk, gates: list[int]) -> dict[str, Any]:
    service = disk.service
    made: dict[str, Any] = {"gates": gates, "servers": service.parallelism or 0}
    for op, us in zip(_OPS, (service.read_us, service.write_us, service.flush_us), strict=True):
        made[op] = _law(service, op, us, disk.capacity_gib)
    if disk.cache is not None:
        made["cache"] = {
            "bytes": disk.cache.mib * MIB,
            "drain_bytes_per_s": disk.cache.drain_mb_per_s * 1e6,
            "write": {"shape": {"constant": {"ns": disk.cache.write_us * 1e3}}},
            "flush_drains": disk.cache.flush_drains,
        }
    if disk.slc is not None:
        made["slc"] = {
            "bytes": disk.slc.mib * MIB,
            "free_bytes_per_s": disk.slc.free_mb_per_s * 1e6,
            "write": {
                "shape": {"constant": {"ns": disk.slc.write_us * 1e3}},
                "ns_per_byte": 1e3 / disk.slc.mb_per_s if disk.slc.mb_per_s else 0.0,
            },
        }
    if disk.stall is not None:
        made["stall"] = {
            "every_ns": round((disk.stall.every_s or 0) * 1e9),
            "every_written_bytes": round((disk.stall.every_written_mib or 0) * MIB),
            "for_ns": round(disk.stall.ms * 1e6),
            "random": disk.stall.random,
        }
    return made


def _law(service: Service, op: str, us: float, capacity_gib: float | None) -> dict[str, Any]:
    ns = us * 1e3
    cells = [cell for cell in service.cells if cell.op == op]
    shape: dict[str, Any]
    if cells:
        shape = {"table": _table(cells, service.shares)}
    elif service.turns_per_minute is not None and op != "flush":
        assert service.seek_min_ms is not None
        assert service.seek_max_ms is not None
        shape = {
            "spindle": {
                "seek_min_ns": service.seek_min_ms * 1e6,
                "seek_max_ns": service.seek_max_ms * 1e6,
                "turn_ns": 60e9 / service.turns_per_minute,
                "capacity_bytes": (capacity_gib or 1.0) * (1 << 30),
            }
        }
    elif service.distribution == "exponential":
        shape = {"exponential": {"ns": ns}}
    elif service.distribution == "lognormal" and ns > 0:
        shape = {"lognormal": {"ns": ns, "cv": service.cv}}
    else:
        shape = {"constant": {"ns": ns}}
    per_byte = 1e3 / service.mb_per_s if service.mb_per_s is not None and op != "flush" else 0.0
    return {"shape": shape, "ns_per_byte": per_byte}


def _table(cells: Sequence[Cell], shares: tuple[float, ...]) -> dict[str, Any]:
    """A full grid: at a number in flight that a size was not measured at, what lies between its neighbours.

    Beyond the most that it was measured at it takes in proportion longer, as in the simulator.
    """
    of_size: dict[float, dict[float, Cell]] = defaultdict(dict)
    for cell in cells:
        of_size[cell.size_bytes][cell.in_flight] = cell
    numbers = sorted({cell.in_flight for cell in cells})
    sizes = sorted(of_size)
    grid = []
    for size in sizes:
        own = np.log(sorted(of_size[size]))
        logs = np.log([of_size[size][number].quantiles_us for number in sorted(of_size[size])])
        beyond = np.maximum(0.0, np.log(numbers) - own[-1])
        filled = np.stack([np.interp(np.log(numbers), own, column) + beyond for column in logs.T], axis=1)
        grid.append((np.exp(filled) * 1e3).tolist())
    return {"shares": list(shares), "sizes_bytes": sizes, "in_flight": numbers, "ns": grid}


@dataclass(slots=True)
class ModelTarget(Target):
    """What stands for a disk of a model, or for all of it, where a target is wanted: there is nothing to open."""

    @classmethod
    def of(cls, name: str, size_bytes: int) -> "ModelTarget":
        """A target of this size."""
        return cls(
            name=name,
            kind="disk",
            file=-1,
            bytes=size_bytes,
            direct=True,
            writable=False,
            fill=None,
            device_number=-1,
            facts=DeviceFacts("", _BLOCK_BYTES, None, "model", None, None, partition=False),
            filesystem=None,
            block_bytes=_BLOCK_BYTES,
        )

    def close(self) -> None:
        """There is nothing to close."""

    def describe(self) -> TargetFacts:
        """For the manifest: what a model has."""
        return TargetFacts(self.name, "model", self.bytes, logical_block_bytes=self.block_bytes)
