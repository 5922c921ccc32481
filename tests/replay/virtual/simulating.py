"""Arrivals by hand on a model by hand."""

import json

import numpy as np
import pyarrow as pa

from iotrace.replay import _model

MS = 1_000_000
SECOND = 1_000_000_000
BATCH = 1 << 20


def law(ns: float, shape: str = "constant", **more) -> dict:
    """Times of one shape."""
    return {"shape": {shape: {"ns": ns} | more}}


def disk(ns: float, shape: str = "constant", *, servers: int = 1, gates=(), **more) -> dict:
    """A disk that works on everything alike."""
    one = law(ns, shape)
    return {"gates": list(gates), "servers": servers, "read": one, "write": one, "flush": one} | more


def bucket(rate: float, capacity: float, *, start: float | None = None, counted: str = "ios", **more) -> dict:
    """Tokens."""
    start = capacity if start is None else start
    return {"counted": counted, "rate_per_s": rate, "capacity": capacity, "start": start} | more


def gate(*buckets: dict, **more) -> dict:
    """A limit."""
    return {"reads": True, "writes": True, "buckets": list(buckets)} | more


def spec(disks: list[dict], gates: list[dict] = (), *, stripe: int = 65536) -> str:
    """One volume over ``disks``, behind those gates that no disk has."""
    own = {number for one in disks for number in one["gates"]}
    rest = [number for number in range(len(gates)) if number not in own]
    volume = {"gates": rest, "disks": list(range(len(disks))), "stripe_bytes": stripe}
    return json.dumps({"gates": list(gates), "volumes": [volume], "disks": disks})


def simulate(
    text: str,
    at_ns,
    *,
    op=0,
    size=8192,
    offset=0,
    target=0,
    after=None,
    think_ns=0,
    in_flight_max=1 << 24,
    seed=1,
    keep=False,
):
    """Play; with ``keep`` the completions too. ``after`` and ``think_ns``: what each waits for, and for how long."""
    simulator = _model.Simulator(text, in_flight_max=in_flight_max, seed=seed, keep=keep)
    count = len(at_ns)
    columns = {
        "intended_ns": np.asarray(at_ns, np.int64),
        "offset_bytes": np.broadcast_to(np.asarray(offset, np.uint64), count),
        "size_bytes": np.broadcast_to(np.asarray(size, np.uint32), count),
        "op": np.broadcast_to(np.asarray(op, np.uint8), count),
        "target": np.broadcast_to(np.asarray(target, np.uint16), count),
    }
    if after is not None:
        columns["after"] = np.broadcast_to(np.asarray(after, np.uint32), count)
        columns["think_ns"] = np.broadcast_to(np.asarray(think_ns, np.int64), count)
    for start in range(0, count, BATCH):
        part = {name: np.ascontiguousarray(column[start : start + BATCH]) for name, column in columns.items()}
        simulator.offer(pa.record_batch(part))
    simulator.end()
    if not keep:
        return simulator.figures()
    ends = []
    while (outcome := simulator.take()) is not None:
        ends.append(outcome["completed_ns"].to_numpy())
    return simulator.figures(), np.concatenate(ends)


def poisson(rate: float, count: int, seed: int = 7):
    """Arrivals without memory."""
    gaps = np.random.default_rng(seed).exponential(SECOND / rate, count)
    return np.cumsum(gaps).astype(np.int64)
