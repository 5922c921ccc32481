"""A simulated SQL Server host: its I/Os on several devices as two or three layers see them, and what goes wrong.

Times are seconds since the recording's start. An I/O that never ends has an infinite end.

The normal time of an I/O at the device is (base of its operation + bytes / bandwidth) x log-normal noise x wavering
(two autoregressive processes on a grid of one second) / (1 - utilisation now). The last is the mean of M/G/1 processor
sharing for a job of that size, where utilisation = rate now / capacity. What is planted multiplies it or adds to it, so
that the same I/Os without the plant are known too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas import Clock, Kind, Manifest, Quality, Recording, RecordingWriter, Source
from iotrace.schemas.host import Host as HostFacts

from .laws import Floats
from .loads import Mix, at_rates

LayerName = Literal["filesystem", "block", "device"]
OpName = Literal["read", "write"]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

START_UTC_NS: Final = 1_790_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Disk:
    """A device, the one file on it, and what I/O there is normal."""

    name: str
    mount: str
    path: str
    role: str
    database: str
    mix: Mix
    iops: float
    """Mean rate."""
    read_s: float
    write_s: float
    """Base of an I/O's time at the device."""
    bytes_per_second: float = 500e6
    utilisation: float = 0.3
    """At the mean rate."""


def disks_of(rng: np.random.Generator, iops: float, count: int) -> tuple[Disk, ...]:
    """Data, log and tempdb devices, the first ``count`` of them, of ``iops`` in all."""
    read_s = float(np.exp(rng.uniform(np.log(2e-4), np.log(4e-3))))
    write_s = read_s * float(rng.uniform(0.4, 1.2))
    shares = np.array([0.6, 0.25, 0.15][:count])
    rates = shares / shares.sum() * iops
    utilisation = float(rng.uniform(0.1, 0.4))
    pages, ahead = float(rng.uniform(0.6, 0.9)), float(rng.uniform(0.02, 0.1))
    data = Mix(
        float(rng.uniform(0.6, 0.85)),
        ((8192, pages), (65536, 1 - pages - ahead), (524288, ahead)),
        ((8192, 0.7), (32768, 0.2), (131072, 0.1)),
    )
    log = Mix(0.02, ((65536, 1.0),), ((512, 0.2), (4096, 0.4), (16384, 0.3), (61440, 0.1)))
    tempdb = Mix(0.5, ((8192, 0.4), (65536, 0.6)), ((65536, 1.0),))
    made = (
        ("0 D:", "D:", "D:\\data\\sales.mdf", "data", "sales", data, read_s, write_s),
        ("1 L:", "L:", "L:\\log\\sales_log.ldf", "log", "sales", log, read_s, write_s * 0.6),
        ("2 T:", "T:", "T:\\tempdb\\tempdb.mdf", "tempdb_data", "tempdb", tempdb, read_s, write_s),
    )
    return tuple(
        Disk(*words, mix, float(rate), read, write, utilisation=utilisation)
        for (*words, mix, read, write), rate in zip(made, rates, strict=False)
    )


@dataclass(slots=True)
class Ios:
    """The I/Os of one device, one entry each, in order of arrival at the block layer."""

    disk: Disk
    at_s: Floats
    is_read: Flags
    size_bytes: Integers
    device_s: Floats
    """Time at the device."""
    host_s: Floats
    """From the block layer to the device."""
    filesystem_s: Floats
    """From the file system to the block layer."""
    normal_device_s: Floats = field(init=False)
    """What it would have been had nothing been planted; likewise the others."""
    normal_host_s: Floats = field(init=False)
    normal_filesystem_s: Floats = field(init=False)
    reaches_block_s: Floats = field(init=False)
    """When it leaves the file system; later than it should be where that holds it back."""
    reaches_device_s: Floats = field(init=False)
    ends_s: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.normal_device_s = self.device_s.copy()
        self.normal_host_s = self.host_s.copy()
        self.normal_filesystem_s = self.filesystem_s.copy()

    def settle(self) -> None:
        """Work out when each layer saw each I/O. Before that only durations are planted, after it only moments."""
        self.reaches_block_s = self.at_s + self.filesystem_s
        self.reaches_device_s = self.reaches_block_s + self.host_s
        self.ends_s = self.reaches_device_s + self.device_s

    def keep(self, chosen: Flags) -> None:
        """Forget the others."""
        for name in (
            "at_s", "is_read", "size_bytes", "device_s", "host_s", "filesystem_s", "normal_device_s", "normal_host_s",
            "normal_filesystem_s", "reaches_block_s", "reaches_device_s", "ends_s",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name)[chosen])

    def started_s(self, layer: LayerName) -> Floats:
        """When the clock of a layer starts; infinite for I/Os that never reach it."""
        if layer == "filesystem":
            return self.at_s
        return self.reaches_block_s if layer == "block" else self.reaches_device_s

    def normal_s(self, layer: LayerName) -> Floats:
        """How long each I/O would have taken at a layer had nothing been planted."""
        above = {
            "filesystem": self.normal_filesystem_s + self.normal_host_s,
            "block": self.normal_host_s,
            "device": 0,
        }
        return self.normal_device_s + above[layer]


Rates = Callable[[Floats], Floats]
"""Rate at each second as a multiple of the mean."""


def slow_noise(rng: np.random.Generator, seconds: int, deviation: float, memory_s: float) -> Floats:
    """A stationary autoregressive process of first order, a value a second."""
    keep = float(np.exp(-1 / memory_s))
    steps = rng.standard_normal(seconds) * deviation * np.sqrt(1 - keep**2)
    steps[0] = rng.standard_normal() * deviation
    values, last = np.empty(seconds), 0.0
    for index, step in enumerate(steps.tolist()):
        last = keep * last + step
        values[index] = last
    return values


def normal_ios(
    rng: np.random.Generator,
    disk: Disk,
    seconds: int,
    *,
    load: Rates | None = None,
    noise: float = 0.1,
    sigma: float = 0.4,
    burstiness: float = 0.15,
    late_mix: tuple[float, Mix] | None = None,
    host_s: float = 8e-6,
    filesystem_s: float = 15e-6,
) -> Ios:
    """What a healthy device does. ``late_mix`` is what is asked of it from a moment on instead of its own mix."""
    grid = np.arange(seconds) + 0.5
    relative = np.exp(slow_noise(rng, seconds, burstiness, 3.0) - burstiness**2 / 2)
    if load is not None:
        relative = relative * load(grid)
    at = at_rates(rng, disk.iops * relative, 1.0)
    count = len(at)
    is_read, size = disk.mix.draw(rng, count)
    if late_mix is not None:
        since, mix = late_mix
        new_read, new_size = mix.draw(rng, count)
        later = at >= since
        is_read, size = np.where(later, new_read, is_read), np.where(later, new_size, size)
    second = np.minimum(at.astype(int), seconds - 1)
    base = np.where(is_read, disk.read_s, disk.write_s) + size / disk.bytes_per_second
    queueing = 1 / (1 - np.minimum(disk.utilisation * relative, 0.9))
    drift = np.exp(slow_noise(rng, seconds, noise, 8.0) + slow_noise(rng, seconds, 0.3 * noise, 200.0))
    took = base * np.exp(sigma * rng.standard_normal(count)) * drift[second] * queueing[second]
    return Ios(
        disk, at, is_read, size, took,
        host_s * np.exp(0.5 * rng.standard_normal(count)), filesystem_s * np.exp(0.5 * rng.standard_normal(count)),
    )  # fmt: skip


@dataclass(slots=True)
class Host:
    """All devices of a host for ``seconds``, settled."""

    seconds: int
    devices: list[Ios]
    layers: tuple[LayerName, ...] = ("block", "device")
    markers: list[tuple[float, float, str, str]] = field(default_factory=list)
    """Moment, length, kind, text."""
    title: str = "planted"

    @property
    def rows(self) -> int:
        return len(self.layers) * sum(len(ios.at_s) for ios in self.devices)


def write_ios(path: Path, host: Host) -> Recording:
    """The host's I/Os as a recorder leaves them: those begun before the end, without an end where that comes later."""
    quality = Quality()
    with RecordingWriter(path) as writer:
        for number, ios in enumerate(host.devices):
            for layer in host.layers:
                started = ios.started_s(layer)
                seen = started < host.seconds
                quality.unpaired_issues += (
                    int((ios.ends_s[seen] > host.seconds).sum()) if layer == "block" else 0
                )
                writer.append("io", _rows(ios, number, layer, seen, host.seconds))
        write_tables(writer, host)
        return writer.commit(Manifest(
            kind=Kind.CAPTURED, title=host.title, clock=Clock(START_UTC_NS, 1.0, "planted"),
            window_end_ns=host.seconds * 1_000_000_000,
            host=HostFacts("SQL01", "Windows", processors=16, memory_bytes=128 << 30),
            sources=[Source("night.etl", "etl", events=2 * host.rows)], quality=quality.judge(host.rows),
        ))  # fmt: skip


def _rows(ios: Ios, number: int, layer: LayerName, seen: Flags, seconds: int) -> pa.Table:
    count = int(seen.sum())
    issued = np.round(ios.started_s(layer)[seen] * 1e9).astype(np.int64)
    ends = ios.ends_s[seen]
    open_ = ends > seconds
    done = np.maximum(np.round(np.where(open_, 0, ends) * 1e9).astype(np.int64), issued + 1)
    # An address of its own for every I/O, the same in all layers: random in 64 GiB, or one after another in a log.
    if ios.disk.role == "log":
        offset = np.concatenate([[0], np.cumsum(ios.size_bytes)[:-1]])[seen] % (1 << 34)
    else:
        offset = (np.arange(len(seen), dtype=np.int64) * 2_654_435_761 % (1 << 23) * 8192)[seen]
    return pa.table({
        "layer": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([layer])),
        "op": pa.DictionaryArray.from_arrays(
            pa.array(np.where(ios.is_read[seen], 0, 1).astype(np.int8)), pa.array(["read", "write"])
        ),
        "issued_ns": issued,
        "completed_ns": pa.array(done, mask=open_),
        "offset_bytes": offset.astype(np.uint64),
        "size_bytes": ios.size_bytes[seen].astype(np.uint32),
        "device_id": np.full(count, number, np.int32),
        "file_id": np.full(count, number, np.int32),
        "process_id": np.zeros(count, np.int32),
    })  # fmt: skip


def write_tables(writer: RecordingWriter, host: Host, *, devices: bool = True) -> None:
    """Devices and processes, where they are known; files and markers."""
    numbers = list(range(len(host.devices)))
    disks = [ios.disk for ios in host.devices]
    if devices:
        writer.append("devices", pa.table({
            "device_id": numbers, "name": [disk.name for disk in disks], "kind": ["disk"] * len(disks),
            "mount": [disk.mount for disk in disks], "size_bytes": [1 << 40] * len(disks),
            "logical_block_bytes": [512] * len(disks),
        }))  # fmt: skip
        writer.append(
            "processes", pa.table({"process_id": [0], "os_process_id": [2140], "name": ["sqlservr.exe"]})
        )
    writer.append("files", pa.table({
        "file_id": numbers, "path": [disk.path for disk in disks], "role": [disk.role for disk in disks],
        "database": [disk.database for disk in disks],
        "device_id": pa.array(numbers if devices else [None] * len(disks), pa.int32()),
    }))  # fmt: skip
    if host.markers:
        at, length, kind, text = zip(*host.markers, strict=True)
        writer.append("markers", pa.table({
            "at_ns": [round(one * 1e9) for one in at], "duration_ns": [round(one * 1e9) for one in length],
            "kind": list(kind), "text": list(text),
        }))  # fmt: skip
