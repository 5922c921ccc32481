"""describe on a synthetic recording: time, memory and bytes per I/O, against the same figures computed in memory.

Usage: bench_describe.py [ROWS [MORE_ROWS]], 10 million if not given. With MORE_ROWS (the goal speaks of 100 million)
describe is measured on these too, and how much longer it takes. Processor time stands beside the time on the clock,
since others may be using the machine. The peer reads the whole table into memory (pandas if it is there, else pyarrow
and numpy) and computes fewer figures: sizes, quantiles, I/Os in flight, burstiness and working set of everything
together, where describe gives them for each device and role. Each runs in a process of its own, so that peak memory
is its own.
"""

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.analyze.describe.recording import describe
from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

_FILES = 20
_CHUNK = 1 << 19


def synthesise(path: Path, rows: int) -> None:
    """50,000 I/Os a second at random, log-normal latencies, 20 files on two devices, SQL Server's usual sizes."""
    source = np.random.default_rng(1)
    roles = ["data"] * 16 + ["log", "log", "tempdb_data", "tempdb_log"]
    sizes = np.array([8192, 8192, 8192, 65536, 65536, 512 * 1024, 4096, 60 * 1024])
    manifest = Manifest("synthetic", "bench", Clock(0, 1.0, "synthetic"))
    with RecordingWriter(path) as writer:
        writer.append(
            "devices", pa.table({"device_id": [0, 1], "name": ["sda", "sdb"], "kind": ["disk", "disk"]})
        )
        paths = [f"D:\\file{number}" for number in range(_FILES)]
        device = [0] * 16 + [1] * 4
        writer.append(
            "files", pa.table({"file_id": range(_FILES), "path": paths, "role": roles, "device_id": device})
        )
        writer.append(
            "processes", pa.table({"process_id": [0], "os_process_id": [4], "name": ["sqlservr.exe"]})
        )
        now = 0
        for start in range(0, rows, _CHUNK):
            count = min(_CHUNK, rows - start)
            issued = now + np.cumsum(source.exponential(20_000, count).astype(np.int64))
            now = int(issued[-1])
            file = source.integers(0, _FILES, count)
            columns = {
                "layer": np.full(count, 2, np.int8),
                "op": (source.random(count) < 0.3).astype(np.int8),
                "issued_ns": issued,
                "completed_ns": issued + source.lognormal(np.log(300e3), 0.8, count).astype(np.int64),
                "offset_bytes": (source.integers(0, 1 << 20, count) + file * (1 << 20)) * 8192,
                "size_bytes": source.choice(sizes, count),
                "device_id": (file >= 16).astype(np.int32),
                "file_id": file,
                "process_id": np.zeros(count, np.int32),
                "thread_id": source.integers(1000, 1100, count),
            }
            writer.append("io", pa.table(columns))
        manifest.window_end_ns = now + 1
        writer.commit(manifest)


def run_ours(path: Path) -> str:
    """Everything that describe finds out."""
    found = describe(Recording.open(path))
    assert found.total is not None
    return "iotrace"


def run_peer(path: Path) -> str:
    """The same figures of everything together, on whole columns in memory."""
    table = pa.concat_tables(pq.read_table(part) for part in Recording.open(path).parquet_paths("io"))
    try:
        import pandas as pd  # noqa: F401

        name = "pandas"
        frame = {key: column.to_numpy() for key, column in table.to_pandas().items()}
    except ImportError:
        name = "numpy in memory"
        frame = {
            key: table[key].to_numpy()
            for key in table.column_names
            if key not in {"layer", "op", "intended_ns"}
        }
        frame["op"] = table["op"].combine_chunks().indices.to_numpy()
    issued, completed = frame["issued_ns"], frame["completed_ns"]
    latency = completed - issued
    for op in np.unique(frame["op"]):
        mine = frame["op"] == op
        np.quantile(latency[mine], [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999])
        np.unique(frame["size_bytes"][mine], return_counts=True)
        latency[mine].mean()
    gaps = np.diff(np.sort(issued))
    gaps.std() / gaps.mean()
    (np.arange(1, len(issued) + 1) - np.searchsorted(np.sort(completed), np.sort(issued), side="right")).max()
    blocks = frame["offset_bytes"] // 65536 + (frame["device_id"].astype(np.uint64) << np.uint64(48))
    len(np.unique(blocks))
    for width in (10**7, 10**8, 10**9):
        np.bincount(issued // width).max()
    return name


@dataclass(frozen=True)
class Run:
    """What one run took."""

    seconds: float
    processor_seconds: float
    peak_gib: float
    name: str

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.processor_seconds:.2f} s of processor time, peak {self.peak_gib:.2f} GiB"


def measured(what: str, path: Path) -> Run:
    """One run in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, what, str(path)], check=True, capture_output=True, text=True
    )
    *figures, name = done.stdout.strip().split("\t")
    return Run(*map(float, figures), name)


def described(path: Path, rows: int) -> Run:
    """Make a recording and describe it."""
    synthesise(path, rows)
    size_bytes = sum(part.stat().st_size for part in Recording.open(path).parquet_paths("io"))
    run = measured("ours", path)
    print(f"describe, {rows:,} I/Os: {run}; {size_bytes / rows:.1f} bytes per I/O on disk", flush=True)
    return run


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] in RUNS:
        start = time.perf_counter()
        name = RUNS[sys.argv[1]](Path(sys.argv[2]))
        used = resource.getrusage(resource.RUSAGE_SELF)
        figures = (time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / (1 << 20))
        print(*figures, name, sep="\t")
        return
    rows, *more_rows = [int(float(word)) for word in sys.argv[1:]] or [10_000_000]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.iotrace"
        ours, peer = described(path, rows), measured("peer", path)
        print(f"{peer.name}: {peer}")
        print(
            f"ratio: {ours.seconds / peer.seconds:.2f} x the time, "
            f"{ours.processor_seconds / peer.processor_seconds:.2f} x the processor time, "
            f"{ours.peak_gib / peer.peak_gib:.2f} x the memory"
        )
        for more in more_rows:
            larger = described(Path(folder) / "more.iotrace", more)
            print(
                f"growth, {more / rows:g} x the I/Os: {larger.seconds / ours.seconds:.1f} x the time, "
                f"{larger.processor_seconds / ours.processor_seconds:.1f} x the processor time"
            )


RUNS = {"ours": run_ours, "peer": run_peer}


if __name__ == "__main__":
    main()
