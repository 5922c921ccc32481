"""Recordings with incidents of known start, end and cause: planted truth.

A database of four data files and a log on two disks, seen at the block and at the device layer. Each disk serves one
I/O after another, so latency follows load as in a queue; service times are log-normal, one I/O in a hundred takes many
times as long (Pareto, index 1.5), and the speed of the disk wanders from second to second (AR(1) on its logarithm).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from iotrace.schemas import Clock, Manifest, RecordingWriter

FILES = ["D:\\a.mdf", "D:\\b.ndf", "D:\\c.ndf", "D:\\d.ndf", "L:\\a.ldf"]
PROCESSES = ["sqlservr.exe", "backup.exe"]
SERVICE_S = 0.0008
"""Median time a disk takes for an I/O of 8 KiB."""


@dataclass
class Truth:
    """What was planted: seconds, and the answers wanted."""

    start_s: float
    end_s: float
    cause: str
    factor: float | None = None
    """How many times slower, where that is planted and not made by a queue."""
    layer: str | None = None
    file: str | None = None


@dataclass
class Load:
    """I/Os to come, in order of time."""

    at_s: np.ndarray
    file: np.ndarray
    is_write: np.ndarray
    size: np.ndarray
    process: np.ndarray


def base_load(random, seconds, rate):
    """Poisson arrivals: four in five on the data files, mostly reads of 8 KiB, the rest log writes of 4 KiB."""
    return load_of(random, 0.0, seconds, rate)


def load_of(random, start_s, end_s, rate, *, size=8192, process=0):
    count = random.poisson(rate * (end_s - start_s))
    at = np.sort(random.uniform(start_s, end_s, count))
    file = random.choice(5, count, p=[0.3, 0.2, 0.2, 0.1, 0.2])
    is_log = file == 4
    is_write = is_log | (random.random(count) < 0.25)
    return Load(at, file, is_write, np.where(is_log, 4096, size), np.full(count, process))


def joined(*loads):
    order = np.argsort(np.concatenate([load.at_s for load in loads]), kind="stable")
    columns = {
        name: np.concatenate([getattr(load, name) for load in loads])[order]
        for name in ("at_s", "file", "is_write", "size", "process")
    }
    return Load(**columns)


def wander(random, seconds, sigma=0.08, correlation=0.6):
    """A factor for each second."""
    steps = random.normal(0, sigma * np.sqrt(1 - correlation**2), seconds + 1)
    level = np.zeros(seconds + 1)
    for index in range(1, seconds + 1):
        level[index] = correlation * level[index - 1] + steps[index]
    return np.exp(level)


def service_times(random, load, seconds, *, heavy_share=0.01):
    """Seconds that the disk needs for each I/O, without waiting for others."""
    count = len(load.at_s)
    service = SERVICE_S * np.exp(random.normal(0, 0.5, count)) * (0.8 + 0.2 * load.size / 8192)
    heavy = random.random(count) < heavy_share
    service[heavy] *= np.minimum(3 * (1 + random.pareto(1.5, heavy.sum())), 60)
    service[load.file == 4] *= 0.4
    return service * wander(random, seconds)[load.at_s.astype(int)]


def served(load, service):
    """When each I/O is done: each disk serves one after another (Lindley's recursion, in its closed form)."""
    done = np.empty(len(load.at_s))
    for disk in (load.file < 4, load.file == 4):
        total = np.cumsum(service[disk])
        done[disk] = total + np.maximum.accumulate(load.at_s[disk] - total + service[disk])
    return done


def write(path, load, done_s, seconds, *, above_s=None):
    """A recording; ``above_s`` is the time spent above the device, 20 µs if it is not given. NaN is never done."""
    issued = np.round(load.at_s * 1e9).astype(np.int64)
    above = np.full(len(issued), 20_000) if above_s is None else np.round(above_s * 1e9).astype(np.int64)
    ended = np.round(np.nan_to_num(done_s) * 1e9).astype(np.int64)
    completed = pa.array(np.maximum(ended, issued + above + 1), mask=np.isnan(done_s))
    with RecordingWriter(path, overwrite=True) as writer:
        writer.append(
            "devices", pa.table({"device_id": [0, 1], "name": ["disk 0", "disk 1"], "kind": ["disk"] * 2})
        )
        roles = ["data"] * 4 + ["log"]
        writer.append(
            "files",
            pa.table({"file_id": range(5), "path": FILES, "role": roles, "device_id": [0, 0, 0, 0, 1]}),
        )
        writer.append(
            "processes", pa.table({"process_id": [0, 1], "os_process_id": [100, 200], "name": PROCESSES})
        )
        for layer, first in (("block", issued), ("device", issued + above)):
            writer.append(
                "io",
                pa.table(
                    {
                        "layer": [layer] * len(issued),
                        "op": load.is_write.astype(np.int8),
                        "issued_ns": first,
                        "completed_ns": completed,
                        "offset_bytes": np.zeros(len(issued), np.uint64),
                        "size_bytes": load.size,
                        "device_id": (load.file == 4).astype(np.int32),
                        "file_id": load.file,
                        "process_id": load.process,
                    }
                ),
            )
        manifest = Manifest("synthetic", "planted", Clock(1_790_000_000_000_000_000, 1.0, "planted"))
        manifest.window_end_ns = int(seconds * 1e9)
        return writer.commit(manifest)


def _inside(load, start, end):
    return (load.at_s >= start) & (load.at_s < end)


def _when(random, seconds, length):
    start = float(random.uniform(40, seconds - length - 40))
    return start, start + length


def arrivals_grow(path, random, seconds=300):
    start, end = _when(random, seconds, 40)
    rate = random.uniform(300, 340)
    load = joined(base_load(random, seconds, rate), load_of(random, start, end, 2 * rate, process=1))
    done = served(load, service_times(random, load, seconds))
    late = done[load.at_s < end].max()
    return write(path, load, done, seconds), [Truth(start, max(end, min(late, end + 5)), "load-driven")]


def sizes_grow(path, random, seconds=300):
    start, end = _when(random, seconds, 40)
    load = base_load(random, seconds, random.uniform(100, 180))
    mine = _inside(load, start, end) & (load.file < 4)
    load.size[mine] = random.choice([65536, 131072], mine.sum())
    done = served(load, service_times(random, load, seconds))
    return write(path, load, done, seconds), [Truth(start, end, "load-driven")]


def bursts_grow(path, random, seconds=300):
    """As many I/Os a second as ever, but those of each fifth of a second all within 20 ms."""
    start, end = _when(random, seconds, 40)
    load = base_load(random, seconds, random.uniform(150, 250))
    mine = _inside(load, start, end)
    fifth = np.floor(load.at_s * 5) / 5
    load.at_s[mine] = np.maximum(fifth[mine], start) + (load.at_s - fifth)[mine] / 10
    load = joined(load)
    done = served(load, service_times(random, load, seconds))
    return write(path, load, done, seconds), [Truth(start, end, "load-driven")]


def device_slows(path, random, seconds=300, factor=5.0, length=40):
    start, end = _when(random, seconds, length)
    load = base_load(random, seconds, random.uniform(60, 110))
    service = service_times(random, load, seconds)
    service[_inside(load, start, end)] *= factor
    return write(path, load, served(load, service), seconds), [
        Truth(start, end, "service-driven", layer="device")
    ]


def gentle(path, random, seconds=300):
    """No queue, so that the factor is the one planted."""
    start, end = _when(random, seconds, 60)
    load = base_load(random, seconds, random.uniform(100, 250))
    latency = service_times(random, load, seconds)
    latency[_inside(load, start, end)] *= 1.5
    recording = write(path, load, load.at_s + latency, seconds)
    return recording, [Truth(start, end, "service-driven", factor=1.5, layer="device")]


def one_file(path, random, seconds=300):
    start, end = _when(random, seconds, 40)
    load = base_load(random, seconds, random.uniform(100, 250))
    latency = service_times(random, load, seconds)
    file = int(random.integers(0, 4))
    latency[_inside(load, start, end) & (load.file == file)] *= 5
    recording = write(path, load, load.at_s + latency, seconds)
    return recording, [Truth(start, end, "service-driven", file=FILES[file], layer="device")]


def one_layer(path, random, seconds=300):
    """The operating system's queue above the device, which is as fast as ever."""
    start, end = _when(random, seconds, 40)
    load = base_load(random, seconds, random.uniform(100, 250))
    latency = service_times(random, load, seconds)
    above = 0.00005 * np.exp(random.normal(0, 0.5, len(latency)))
    mine = _inside(load, start, end)
    above[mine] += 0.003 * np.exp(random.normal(0, 0.5, mine.sum()))
    recording = write(path, load, load.at_s + above + latency, seconds, above_s=above)
    return recording, [Truth(start, end, "service-driven", layer="block")]


def stall(path, random, seconds=300, length=3.0):
    """For three seconds the disks answer nothing."""
    start, end = _when(random, seconds, length)
    load = base_load(random, seconds, random.uniform(100, 250))
    done = load.at_s + service_times(random, load, seconds)
    hung = (done > start) & (load.at_s < end)
    done[hung] = np.maximum(done[hung], end + random.uniform(0, 0.05, hung.sum()))
    return write(path, load, done, seconds), [Truth(start, end, "service-driven", layer="device")]


def drift(path, random, seconds=600):
    """A day in ten minutes: load and latency swing slowly, by a factor of two."""
    load = base_load(random, seconds, random.uniform(60, 120))
    phase = 2 * np.pi * (load.at_s / seconds + random.random())
    keep = random.random(len(phase)) < 0.75 + 0.25 * np.sin(phase)
    load = Load(*(getattr(load, name)[keep] for name in ("at_s", "file", "is_write", "size", "process")))
    latency = service_times(random, load, seconds) * np.exp(np.log(2) / 2 * np.sin(phase[keep]))
    return write(path, load, load.at_s + latency, seconds), []


def drift_and_slow(path, random, seconds=600):
    """The same with an incident in it."""
    start, end = _when(random, seconds, 40)
    load = base_load(random, seconds, random.uniform(60, 120))
    phase = 2 * np.pi * (load.at_s / seconds + random.random())
    latency = service_times(random, load, seconds) * np.exp(np.log(2) / 2 * np.sin(phase))
    latency[_inside(load, start, end)] *= 3
    recording = write(path, load, load.at_s + latency, seconds)
    return recording, [Truth(start, end, "service-driven", factor=3.0)]


def heavy_tails(path, random, seconds=300):
    """Nothing happens, but one I/O in twenty takes many times as long."""
    load = base_load(random, seconds, random.uniform(20, 150))
    latency = service_times(random, load, seconds, heavy_share=0.05)
    return write(path, load, load.at_s + latency, seconds), []


def two(path, random, seconds=400):
    """The disk slows, and later load grows."""
    load = base_load(random, seconds, rate := random.uniform(290, 320))
    load = joined(load, load_of(random, 250, 285, 2 * rate, process=1))
    service = service_times(random, load, seconds)
    slow = _inside(load, 100, 130)
    service[slow] *= 2.2
    truths = [Truth(100, 130, "service-driven"), Truth(250, 285, "load-driven")]
    return write(path, load, served(load, service), seconds), truths


SCENARIOS = [
    arrivals_grow, sizes_grow, bursts_grow, device_slows, gentle, one_file, one_layer, stall, two,
    drift, drift_and_slow, heavy_tails,
]  # fmt: skip
