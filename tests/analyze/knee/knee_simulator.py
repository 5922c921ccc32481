"""Queues with a known capacity, written as recordings: planted truth for the knee."""

import numpy as np
import pyarrow as pa

from iotrace.schemas import Clock, Manifest, RecordingWriter
from iotrace.schemas.run import run_of


def first_come_first_served(arrival_s, service_s):
    """Completion times of a single server (Lindley's recursion, in its closed form)."""
    total = np.cumsum(service_s)
    return total + np.maximum.accumulate(arrival_s - total + service_s)


def token_bucket(arrival_s, rate_per_s, burst_count):
    """When a throttle of that rate, which lets a burst pass at once, releases each I/O."""
    tokens = np.zeros(len(arrival_s))
    theoretical = 0.0
    gap = 1 / rate_per_s
    for index, at in enumerate(arrival_s):
        theoretical = max(theoretical, at) + gap
        tokens[index] = max(at, theoretical - burst_count * gap)
    return tokens


def poisson(random, rate_per_s, count):
    return np.cumsum(random.exponential(1 / rate_per_s, count))


def bursty(random, rate_per_s, count, *, burst_s=0.02, share=0.2):
    """Arrivals only in a fifth of the time, in bursts of 20 ms at five times the rate."""
    busy = poisson(random, rate_per_s / share, count)
    return busy + np.floor(busy / burst_s) * burst_s * (1 / share - 1)


def device_latency_s(random, count, median_s=0.0002, sigma=0.25):
    return median_s * np.exp(random.normal(0, sigma, count))


def throttled(random, arrival_s, rate_per_s, burst_count=40):
    """A device of 0.2 ms behind a throttle; ``rate_per_s`` None is the same device without it."""
    released = arrival_s if rate_per_s is None else token_bucket(arrival_s, rate_per_s, burst_count)
    return released + device_latency_s(random, len(arrival_s))


def write_step(
    folder,
    arrival_s,
    completed_s,
    *,
    scale=None,
    name="step",
    issued_s=None,
    flags=0,
    replay=None,
    roles=None,
):
    """One replayed recording of 8 KiB I/Os; ``roles`` gives each I/O 0 for a data read, 1 for a log write."""
    intended = np.round(arrival_s * 1e9).astype(np.int64)
    issued = intended if issued_s is None else np.round(issued_s * 1e9).astype(np.int64)
    completed = np.maximum(np.round(completed_s * 1e9).astype(np.int64), issued + 1)
    roles = np.zeros(len(intended), dtype=np.int64) if roles is None else roles
    count = len(intended)
    manifest = Manifest(
        "replayed",
        name,
        Clock(1_700_000_000_000_000_000, 1.0, "simulated"),
        window_end_ns=int(completed.max()),
        replay=run_of(({} if scale is None else {"scale": scale}) | (replay or {})),
    )
    with RecordingWriter(folder / f"{name}.iotrace", overwrite=True) as writer:
        writer.append(
            "devices", pa.table({"device_id": [0, 1], "name": ["data", "log"], "kind": ["disk", "disk"]})
        )
        writer.append(
            "files",
            pa.table(
                {
                    "file_id": [0, 1],
                    "path": ["/data/base", "/log/wal"],
                    "role": ["data", "log"],
                    "device_id": [0, 1],
                }
            ),
        )
        writer.append(
            "io",
            pa.table(
                {
                    "layer": pa.array(["block"] * count),
                    "op": pa.array(np.where(roles == 0, "read", "write").tolist()),
                    "intended_ns": intended,
                    "issued_ns": issued,
                    "completed_ns": completed,
                    "offset_bytes": (np.arange(count) * 8192) % (1 << 30),
                    "size_bytes": np.full(count, 8192),
                    "device_id": roles,
                    "file_id": roles,
                    "flags": np.broadcast_to(flags, count),
                }
            ),
        )
        return writer.commit(manifest)


def sweep_of(folder, device, scales, *, rate_1x, count=6000, seed=1, arrivals=poisson):
    """Recordings of ``device(random, arrival_s)`` at ``scales`` x ``rate_1x``, named by scale."""
    steps = []
    for index, scale in enumerate(scales):
        random = np.random.default_rng([seed, index])
        arrival = arrivals(random, rate_1x * scale, count)
        steps.append(write_step(folder, arrival, device(random, arrival), scale=scale, name=f"{scale:g}x"))
    return steps
