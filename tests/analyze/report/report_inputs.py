"""Inputs of a report with planted truth: a sweep whose storage carries 2,000 IOPS, and a night with its replay."""

import numpy as np
import pyarrow as pa

from iotrace.schemas import Clock, Manifest, RecordingWriter, Source, SweepWriter
from iotrace.schemas.host import Host
from iotrace.schemas.run import run_of
from iotrace.schemas.sweep import SweepSettings

from ..knee import knee_simulator as simulator

SLOW_FROM_S, SLOW_UNTIL_S, SLOW_FACTOR = 20.0, 28.0, 12.0
NIGHT_S = 60.0
REPLAY_FACTOR = 0.5
"""The replay's storage takes half the time, and is never slow."""


def write_sweep(path):
    """Scales 1x to 8x of 500 IOPS on storage that carries 2,000."""
    writer = SweepWriter(
        path, title="pgbench on the candidate", source_uuid=None, settings=SweepSettings(targets=["/dev/sdb"])
    )
    for index, scale in enumerate([1, 2, 3.8, 4.4, 8]):
        random = np.random.default_rng(index)
        arrival = simulator.poisson(random, 500 * scale, 4000)
        step = writer.step_path(scale)
        completed = simulator.throttled(random, arrival, 2000)
        name = step.name.removesuffix(".iotrace")
        writer.add(scale, simulator.write_step(step.parent, arrival, completed, scale=scale, name=name))
    writer.end("the loads were done")
    return writer.sweep


def write_night(path, *, replay_of=None):
    """A minute at 200 IOPS, data and log, two layers; slow from 20 to 28 s unless it is a replay."""
    count = int(200 * NIGHT_S)
    load, storage = np.random.default_rng(7), np.random.default_rng(8 if replay_of is None else 9)
    at_s = np.sort(load.uniform(0, NIGHT_S, count))
    is_log = load.random(count) < 0.3
    is_write = is_log | (load.random(count) < 0.3)
    size = np.where(is_log, 4096, load.choice([8192, 65536], count, p=[0.9, 0.1]))
    device_s = np.where(is_log, 0.0004, 0.002) * np.exp(storage.normal(0, 0.5, count))
    if replay_of is None:
        device_s[(at_s > SLOW_FROM_S) & (at_s < SLOW_UNTIL_S)] *= SLOW_FACTOR
    else:
        device_s *= REPLAY_FACTOR
    block_s = device_s + np.exp(storage.normal(np.log(0.00005), 0.3, count))
    replay = {"scale": 1.0, "source_uuid": replay_of, "direct": True, "issued_ios": count}
    manifest = Manifest(
        "captured" if replay_of is None else "replayed",
        "the night" if replay_of is None else "the candidate",
        Clock(1_767_400_000_000_000_000, 1.0, "simulated"),
        window_end_ns=int(NIGHT_S * 1e9),
        host=Host("SQLPROD01"),
        sources=[Source("night.etl", "etl", 123_456_789, "ab" * 32, 2 * count)],
        replay=None if replay_of is None else run_of(replay),
    )
    manifest.tools["iotrace"] = "0.0"
    with RecordingWriter(path) as writer:
        devices = {
            "device_id": [0, 1],
            "name": ["disk 0", "disk 1"],
            "kind": ["disk", "disk"],
            "mount": ["D:", "L:"],
        }
        writer.append("devices", pa.table(devices))
        files = {"file_id": [0, 1], "path": ["D:\\sales.mdf", "L:\\sales.ldf"], "role": ["data", "log"],
                 "database": ["sales", "sales"], "device_id": [0, 1]}  # fmt: skip
        writer.append("files", pa.table(files))
        writer.append(
            "processes", pa.table({"process_id": [0], "os_process_id": [4711], "name": ["sqlservr.exe"]})
        )
        for layer, latency_s in (("block", block_s), ("device", device_s)):
            issued = np.round(at_s * 1e9).astype(np.int64)
            io = {
                "layer": pa.array([layer] * count),
                "op": pa.array(np.where(is_write, "write", "read")),
                "issued_ns": issued,
                "completed_ns": issued + np.round(latency_s * 1e9).astype(np.int64),
                "offset_bytes": storage.integers(0, 10**6, count) * 8192,
                "size_bytes": size,
                "device_id": is_log.astype(int),
                "file_id": is_log.astype(int),
                "process_id": np.zeros(count, int),
            }
            if replay_of is not None:
                io["intended_ns"] = issued
            writer.append("io", pa.table(io))
        return writer.commit(manifest)
