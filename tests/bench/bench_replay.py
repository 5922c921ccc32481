"""How exactly a replay keeps time, and what it adds to latency, beside fio in the same run.

    .venv/bin/python tests/bench/bench_replay.py [--folder DIR] [--seconds 5] [--runs 5]

Reads of 8 KiB at random places of one file of 1 GiB, direct: evenly and in bursts of 100, at 10,000 a second and four
times that. Medians over the runs. fio plays the same plan from an iolog with time stamps, and reads closed-loop one at
a time for the latency of the bare device. Nothing is asserted: a shared machine steals time.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

FILE_BYTES = 1 << 30
READ_BYTES = 8192
RATE_PER_S = 10_000


def record(path: Path, seconds: float, burst: int) -> Recording:
    """A recording of reads at the usual rate, ``burst`` at a time."""
    count = int(seconds * RATE_PER_S)
    issued = np.arange(count) // burst * (burst * 1_000_000_000 // RATE_PER_S)
    places = np.random.default_rng(1).permutation(FILE_BYTES // READ_BYTES)
    with RecordingWriter(path) as writer:
        writer.append(
            "io",
            pa.table(
                {
                    "layer": ["block"] * count,
                    "op": ["read"] * count,
                    "issued_ns": issued,
                    "offset_bytes": np.resize(places, count) * READ_BYTES,
                    "size_bytes": [READ_BYTES] * count,
                    "device_id": [0] * count,
                }
            ),
        )
        writer.append("devices", pa.table({"device_id": [0], "name": ["sda"], "kind": ["disk"]}))
        clock = Clock(start_utc_ns=0, resolution_ns=1, name="planted")
        return writer.commit(Manifest("synthetic", path.stem, clock, window_end_ns=int(issued[-1])))


def play(source: Recording, target: Path, folder: Path, scale: float, runs: int) -> dict[str, float]:
    """Medians over the runs of one replay."""
    options = ReplayOptions(targets=(str(target),), scale=scale, file_bytes=FILE_BYTES)
    found: list[dict[str, Any]] = []
    for _ in range(runs):
        facts = replay(source, folder / "out.iotrace", options, overwrite=True).manifest.replay
        assert facts is not None
        found.append(facts | {"length_error": facts["issued_span_ns"] / facts["planned_duration_ns"] - 1})
    names = (
        "length_error",
        "lateness_ns_p50",
        "lateness_ns_p99",
        "service_ns_p50",
        "response_ns_p50",
        "cpu_seconds",
    )
    return {name: statistics.median(float(facts[name]) for facts in found) for name in names}


def fio(*words: str) -> dict[str, Any]:
    """Run one fio job and return its JSON."""
    command = ["fio", "--name=peer", "--output-format=json", "--ioengine=io_uring", "--direct=1", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    job: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return job


def fio_plays(source: Recording, target: Path, folder: Path, scale: float) -> tuple[float, float]:
    """Length error and median latency of fio's own replay of the plan, from an iolog with time stamps."""
    io = source.read("io", ["issued_ns", "offset_bytes"])
    issued, offsets = io["issued_ns"].to_numpy() / scale, io["offset_bytes"].to_numpy()
    log = folder / "plan.iolog"
    with log.open("w") as file:
        file.write(f"fio version 3 iolog\n0 {target} add\n0 {target} open\n")
        for at_us, offset in zip(np.rint(issued / 1000).astype(int), offsets, strict=True):
            file.write(f"{at_us} {target} read {offset} {READ_BYTES}\n")
        file.write(f"{at_us} {target} close\n")
    job = fio(f"--read_iolog={log}", "--iodepth=1024")["read"]
    return job["runtime"] / (issued[-1] / 1e6) - 1, job["lat_ns"]["mean"]


def fio_reads(target: Path, seconds: float, runs: int, words: tuple[str, ...]) -> float:
    """Median latency of the bare device, submission included, for reads issued one at a time."""
    job = (f"--filename={target}", "--rw=randread", f"--bs={READ_BYTES}", "--iodepth=1", "--time_based")
    return statistics.median(
        fio(*job, "--lat_percentiles=1", f"--runtime={seconds}", *words)["read"]["lat_ns"]["percentile"][
            "50.000000"
        ]
        for _ in range(runs)
    )


def main() -> None:
    """Print one line per load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(__file__).parent, help="where the file to read lies"
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    peer = shutil.which("fio") is not None
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=arguments.folder) as name:
        folder = Path(name)
        target = folder / "target"
        for load, burst in (("evenly", 1), ("bursts of 100", 100)):
            source = record(folder / f"{burst}.iotrace", arguments.seconds, burst)
            for scale in (1.0, 4.0):
                found = play(source, target, folder, scale, arguments.runs)
                print(
                    f"{load}, {RATE_PER_S * scale:,.0f} reads/s: "
                    f"length {found['length_error']:+.4%} (goal 0.1 %), "
                    f"lateness p50 {found['lateness_ns_p50'] / 1e3:,.1f} us "
                    f"p99 {found['lateness_ns_p99'] / 1e3:,.1f} us "
                    f"(goal {100 if burst == 1 else 300}), service p50 {found['service_ns_p50'] / 1e3:,.1f} us, "
                    f"response p50 {found['response_ns_p50'] / 1e3:,.1f} us, cpu {found['cpu_seconds']:.2f} s"
                )
                if not peer:
                    continue
                length_error, mean_ns = fio_plays(source, target, folder, scale)
                print(f"    fio read_iolog: length {length_error:+.2%}, mean latency {mean_ns / 1e3:,.1f} us")
                if burst == 1 and scale == 1.0:
                    paces = {"back to back": (), "10,000 a second": (f"--rate_iops={RATE_PER_S}",)}
                    for pace, words in paces.items():
                        bare_ns = fio_reads(target, arguments.seconds, arguments.runs, words)
                        print(
                            f"    fio randread, one at a time, {pace}: median latency {bare_ns / 1e3:,.1f} us; "
                            f"service / fio = {found['service_ns_p50'] / bare_ns:.2f} (goal 0.9 to 1.1)"
                        )


if __name__ == "__main__":
    main()
