"""fio, the peer of the replay's benchmarks: plays a plan from a log with time stamps, and reads in a closed loop."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from iotrace.schemas import Recording


def has_fio() -> bool:
    """Whether it is installed."""
    return shutil.which("fio") is not None


def fio(*words: str) -> dict[str, Any]:
    """Run one fio job and return its JSON."""
    command = ["fio", "--name=peer", "--output-format=json", "--direct=1", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
    job: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return job


def write_log(played: Recording, target: Path, log: Path) -> float:
    """What a replay played, as fio's log; its length in seconds."""
    io = played.read("io", ["intended_ns", "op", "offset_bytes", "size_bytes"]).sort_by("intended_ns")
    at_us = (io["intended_ns"].to_numpy() // 1000).tolist()
    words = {"read": "read", "write": "write", "flush": "sync"}
    with log.open("w") as file:
        file.write(f"fio version 3 iolog\n0 {target} add\n0 {target} open\n")
        columns = (io["op"].to_pylist(), io["offset_bytes"].to_pylist(), io["size_bytes"].to_pylist())
        for at, op, offset, size in zip(at_us, *columns, strict=True):
            file.write(f"{at} {target} {words[op]} {offset} {size}\n")
        file.write(f"{at_us[-1]} {target} close\n")
    return (at_us[-1] - at_us[0]) / 1e6


def play_log(log: Path, engine: str) -> tuple[float, float]:
    """fio's own replay: seconds it took and mean latency in ns, over reads and writes."""
    job = fio(f"--ioengine={engine}", f"--read_iolog={log}", "--iodepth=1024")
    sides = [job["read"], job["write"]]
    total = sum(side["total_ios"] for side in sides)
    mean_ns = sum(side["total_ios"] * side["lat_ns"]["mean"] for side in sides) / total
    return max(side["runtime"] for side in sides) / 1e3, mean_ns


def read_closed_loop(target: Path, in_flight: int, seconds: float, *words: str) -> dict[str, float]:
    """Random reads of 8 KiB: I/Os a second, median latency from submission, processor time per I/O in ns."""
    job = fio(
        "--ioengine=io_uring", f"--filename={target}", "--rw=randread", "--bs=8192", f"--iodepth={in_flight}",
        "--time_based", f"--runtime={seconds}", "--lat_percentiles=1", "--norandommap", *words,
    )  # fmt: skip
    side = job["read"]
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * side["runtime"] / 1e3
    return {
        "iops": side["iops"],
        "service_ns": side["lat_ns"]["percentile"]["50.000000"],
        "cpu_ns": cpu_s * 1e9 / side["total_ios"],
    }
