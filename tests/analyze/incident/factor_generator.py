"""Recordings with one slow window of a known factor, on storage whose speed wanders and drifts.

Nothing here is taken from the detector: lengths, rates, noise and drift are drawn from wide ranges, and latency in the
window is what it would have been times the factor. There is no queue, so that the factor is exactly the one planted.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from iotrace.schemas import Clock, Manifest, RecordingWriter


@dataclass
class Planted:
    """Latencies in seconds of I/Os that begin at ``at_s``, and what was done to them."""

    at_s: np.ndarray
    latency_s: np.ndarray
    seconds: int
    start_s: float
    end_s: float
    factor: float
    conditions: str


def planted(random: np.random.Generator) -> Planted:
    """One draw of everything."""
    seconds = int(random.integers(180, 700))
    rate = float(np.exp(random.uniform(np.log(15), np.log(250))))
    at = np.sort(random.uniform(0, seconds, random.poisson(rate * seconds)))
    noise, own = _latency_of_one_io(random, len(at))
    wander, speed = _wander(random, seconds)
    bend, drift = _drift(random, seconds)
    latency = 0.001 * own * np.exp(speed[at.astype(int)] + drift(at / seconds))
    length = float(np.exp(random.uniform(np.log(8), np.log(seconds / 5))))
    start = float(random.uniform(25, seconds - length - 25))
    factor = float(np.exp(random.uniform(np.log(1.5), np.log(8))))
    latency[(at >= start) & (at < start + length)] *= factor
    return Planted(at, latency, seconds, start, start + length, factor, f"{noise}, {wander}, {bend}")


def _latency_of_one_io(random, count):
    match int(random.integers(4)):
        case 0:
            return "log-normal", np.exp(random.normal(0, 0.6, count))
        case 1:
            return "exponential", random.exponential(1, count) + 0.02
        case 2:
            return "cached or not", np.where(random.random(count) < 0.7, 0.3, 3.0) * random.gamma(
                6, 1 / 6, count
            )
        case _:
            tail = np.where(random.random(count) < 0.02, 1 + random.pareto(1.3, count), 1.0)
            return "heavy tail", random.gamma(8, 1 / 8, count) * tail


def _wander(random, seconds):
    """ln of the speed, second by second."""
    sigma = float(random.uniform(0.02, 0.15))
    match int(random.integers(4)):
        case 0:
            return "steady", np.zeros(seconds)
        case 1:
            return "independent seconds", random.normal(0, sigma, seconds)
        case 2:
            return "moving average", sigma * np.convolve(
                random.normal(size=seconds + 7), np.full(8, 8**-0.5), "valid"
            )
        case _:
            memory = float(random.uniform(0.3, 0.9))
            level = [float(random.normal(0, sigma))]
            for step in random.normal(0, sigma * np.sqrt(1 - memory**2), seconds - 1):
                level.append(memory * level[-1] + float(step))
            return "autoregressive", np.array(level)


def _drift(random, seconds):
    """ln of a slow change, over the recording as 0 to 1."""
    height = float(random.uniform(0.1, 0.4))
    phase = float(random.uniform(0, 2 * np.pi))
    match int(random.integers(3)):
        case 0:
            return "no drift", np.zeros_like
        case 1:
            return "rising", lambda x: height * x
        case _:
            return "swinging", lambda x: height * np.sin(2 * np.pi * x + phase)


def write(path, found: Planted):
    """The recording: reads of one file, seen at one layer."""
    issued = np.round(found.at_s * 1e9).astype(np.int64)
    table = {
        "layer": ["block"] * len(issued),
        "op": np.zeros(len(issued), np.int8),
        "issued_ns": issued,
        "completed_ns": issued + np.round(found.latency_s * 1e9).astype(np.int64),
        "offset_bytes": np.zeros(len(issued), np.uint64),
        "size_bytes": np.full(len(issued), 8192),
        "device_id": np.zeros(len(issued), np.int32),
    }
    with RecordingWriter(path, overwrite=True) as writer:
        writer.append("devices", pa.table({"device_id": [0], "name": ["disk 0"], "kind": ["disk"]}))
        writer.append("io", pa.table(table))
        manifest = Manifest("synthetic", "planted", Clock(1_790_000_000_000_000_000, 1.0, "planted"))
        manifest.window_end_ns = found.seconds * 1_000_000_000
        return writer.commit(manifest)
