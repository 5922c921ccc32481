"""describe and incident of a fleet: here and on Dask workers, against one DuckDB pass and pandas; how both grow.

Usage: bench_fleet.py FOLDER [HOSTS [ROWS]], 200 hosts with 500 million I/Os between them if not given, and no fewer
than 16 hosts. FOLDER keeps the recordings (about 12 bytes per I/O) and is built where it is missing; a second run
measures the same ones. Each host's I/Os are drawn from a seed of its own, with its own number, rate, mix, sizes and
latency; the hosts of one of five arrays slow down together for a minute. Processor time (user and system, of everything
that ran) stands beside the time on the clock, since others may be using the machine, and with it the highest sum of
memory (proportional set size) of all processes at once, looked at twice a second. One DuckDB pass and pandas find far
fewer figures.
"""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from distributed import Client

from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

_START_UTC_NS = 1_780_000_000_000_000_000
_WINDOW_NS = 1_800_000_000_000
_FILES = 20
_CHUNK = 1 << 19
_ARRAYS = 5
_SLOW_ARRAY = 2
_SLOW_NS = (900_000_000_000, 960_000_000_000)
_PANDAS_HOSTS = 4
"""All 200 would take some 100 GB of memory."""
_HOSTS_MIN = 16
"""An eighth of them are measured first, and one alone is no fleet."""
_WORKERS = 4


def synthesise(path: Path, seed: int, rows: int) -> None:
    """Half an hour of one SQL Server: a day's wave in the load, log-normal latencies, 16 data files and 4 of logs."""
    source = np.random.default_rng(seed)
    writes, median_ns, spread = (
        source.uniform(0.1, 0.6),
        source.uniform(150e3, 1.5e6),
        source.uniform(0.4, 0.9),
    )
    wave, phase = source.uniform(0.05, 0.4), source.uniform(0, 2 * np.pi)
    sizes = np.array([8192, 65536, 524288, 4096, 61440])
    mix = source.dirichlet([8, 4, 1, 2, 1])
    roles = ["data"] * 16 + ["log", "log", "tempdb_data", "tempdb_log"]
    manifest = Manifest(
        "synthetic", "bench", Clock(_START_UTC_NS + int(source.normal(0, 5e8)), 1.0, "synthetic")
    )
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
        base_gap_ns = _WINDOW_NS / rows
        now = 0
        for start in range(0, rows, _CHUNK):
            count = min(_CHUNK, rows - start)
            at = np.arange(start, start + count) / rows
            gap_ns = base_gap_ns * (1 + wave * np.sin(2 * np.pi * at + phase))
            issued = now + np.cumsum((source.standard_exponential(count) * gap_ns).astype(np.int64))
            now = int(issued[-1])
            file = source.integers(0, _FILES, count)
            took_ns = median_ns * np.exp(spread * source.standard_normal(count, np.float32))
            if seed % _ARRAYS == _SLOW_ARRAY:
                took_ns[(issued >= _SLOW_NS[0]) & (issued < _SLOW_NS[1])] *= 8
            columns = {
                "layer": np.full(count, 2, np.int8),
                "op": (source.random(count, np.float32) < writes).astype(np.int8),
                "issued_ns": issued,
                "completed_ns": issued + took_ns.astype(np.int64),
                "offset_bytes": (source.integers(0, 1 << 20, count) + file * (1 << 20)) * 8192,
                "size_bytes": sizes[np.searchsorted(np.cumsum(mix)[:-1], source.random(count, np.float32))],
                "device_id": (file >= 16).astype(np.int32),
                "file_id": file,
                "process_id": np.zeros(count, np.int32),
                "thread_id": source.integers(1000, 1100, count),
            }
            writer.append("io", pa.table(columns))
        manifest.window_end_ns = now + 1
        writer.commit(manifest)


def rows_of(hosts: int, rows: int) -> list[int]:
    """How many I/Os each host has: between a half and three halves of the mean, ``rows`` in all at least."""
    parts = np.random.default_rng(0).uniform(0.5, 1.5, hosts)
    return [int(part) + 1 for part in parts / parts.sum() * rows]


def build(folder: Path, hosts: int, rows: int) -> None:
    """The recordings that are not there yet, and hosts.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "hosts.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("host", "array"), *((_name(host), f"array{host % _ARRAYS}") for host in range(hosts))]
        )
    with ProcessPoolExecutor(2) as pool:
        waiting = [
            pool.submit(synthesise, _path(folder, host), host, count)
            for host, count in enumerate(rows_of(hosts, rows))
            if not _path(folder, host).exists()
        ]
        for one in waiting:
            one.result()


def _name(host: int) -> str:
    return f"host{host:03}"


def _path(folder: Path, host: int) -> Path:
    return folder / f"{_name(host)}.iotrace"


def run_duckdb(paths: list[Path]) -> None:
    """One pass that keeps of each host, device and operation its number, bytes, mean and quantiles (approximately)."""
    import duckdb

    parts = [str(part) for path in paths for part in Recording.open(path).parquet_paths("io")]
    found = duckdb.execute(
        "SELECT parse_path(filename)[-3], device_id, op, count(*), sum(size_bytes), avg(completed_ns - issued_ns), "
        "max(completed_ns - issued_ns), approx_quantile(completed_ns - issued_ns, [0.5, 0.9, 0.95, 0.99, 0.999]) "
        "FROM read_parquet(?, filename = true) GROUP BY ALL",
        [parts],
    ).fetchall()
    assert found


def run_pandas(paths: list[Path]) -> None:
    """The same of all hosts as one table in memory, quantiles exact."""
    import pandas as pd

    names = ["device_id", "op", "issued_ns", "completed_ns", "size_bytes"]
    frames = {
        path.stem: pd.read_parquet(part, columns=names)
        for path in paths
        for part in Recording.open(path).parquet_paths("io")
    }
    table = pd.concat(frames, names=["host"]).reset_index(level="host")
    table["latency_ns"] = table["completed_ns"] - table["issued_ns"]
    groups = table.groupby(["host", "device_id", "op"], observed=True)
    groups["size_bytes"].agg(["count", "sum"])
    groups["latency_ns"].agg(["mean", "max"])
    groups["latency_ns"].quantile([0.5, 0.9, 0.95, 0.99, 0.999])


class Used:
    """Time on the clock and of processors, and the most memory that ``processes`` and all under them held at once."""

    def __init__(self, *processes: int) -> None:
        self._processes = [psutil.Process(), *map(psutil.Process, processes)]
        self._before, self._start = self._processor_s(), time.perf_counter()
        self.peak_bytes = 0
        self.seconds = self.processor_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> None:
        self.seconds = time.perf_counter() - self._start
        self.processor_s = self._processor_s() - self._before
        self._ended.set()
        self._thread.join()

    def _processor_s(self) -> float:
        """Of children that ended (this process waits for them) and of the cluster's processes, which live on."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        living = [
            one.cpu_times() for top in self._processes[1:] for one in (top, *top.children(recursive=True))
        ]
        return ended.ru_utime + ended.ru_stime + sum(one.user + one.system for one in living)

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            held = 0
            every = {one.pid: one for top in self._processes for one in (top, *top.children(recursive=True))}
            for one in every.values():
                if one.pid != os.getpid():
                    try:
                        held += one.memory_full_info().pss
                    except psutil.Error:
                        continue
            self.peak_bytes = max(self.peak_bytes, held)

    def __str__(self) -> str:
        peak_gib = self.peak_bytes / 2**30
        return f"{self.seconds:.1f} s, {self.processor_s:.1f} s of processor time, peak {peak_gib:.2f} GiB"


def measured(words: list[str], *cluster: int) -> tuple[Used, str]:
    """What a command took, and what it printed."""
    used = Used(*cluster)
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        used.end()
    return used, done.stdout


def asked(
    command: str, paths: list[Path], folder: Path, *more: str, cluster: tuple[int, ...] = ()
) -> tuple[Used, str]:
    """``iotrace describe`` or ``incident`` of the recordings."""
    groups = ["--groups", str(folder / "hosts.csv")] if command == "incident" else []
    program = str(Path(sys.executable).with_name("iotrace"))
    return measured([program, command, *map(str, paths), *groups, "--json", *more], *cluster)


@contextmanager
def a_cluster(workers: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A Dask scheduler and its workers on this machine; gives its address and their process ids."""
    program = str(Path(sys.executable).with_name("dask"))
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "scheduler.json"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": kept}
        here = ["--host", "127.0.0.1", "--no-dashboard"]
        scheduler = subprocess.Popen(
            [program, "scheduler", "--port", "0", "--scheduler-file", str(file), *here], **quiet
        )
        while not file.exists():
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        count = ["--nworkers", str(workers), "--nthreads", "1", "--memory-limit", "5GB"]
        nannies = subprocess.Popen([program, "worker", address, *here, *count], **quiet)
        try:
            with Client(address, set_as_default=False) as client:
                client.wait_for_workers(workers)
            yield address, (scheduler.pid, nannies.pid)
        finally:
            for one in (nannies, scheduler):
                one.terminate()
                one.wait(30)


def report(what: str, paths: list[Path], used: Used) -> None:
    rows = sum(Recording.open(path).manifest.rows["io"] for path in paths)
    each_ns = used.processor_s / rows * 1e9
    print(f"{what}, {len(paths)} hosts, {rows:,} I/Os: {used}; {each_ns:.0f} ns per I/O", flush=True)


def main() -> None:
    if sys.argv[1] in PEERS:
        PEERS[sys.argv[1]]([Path(word) for word in sys.argv[2:]])
        return
    folder, hosts, rows = Path(sys.argv[1]), 200, 500_000_000
    if len(sys.argv) > 2:
        hosts = int(sys.argv[2])
    if len(sys.argv) > 3:
        rows = int(float(sys.argv[3]))
    if hosts < _HOSTS_MIN:
        sys.exit(f"HOSTS is {_HOSTS_MIN} or more")
    build(folder, hosts, rows)
    paths = [_path(folder, host) for host in range(hosts)]
    kept: dict[str, str] = {}
    for command in ("describe", "incident"):
        for share in (8, 4, 2, 1):
            some = paths[: hosts // share]
            used, kept[command] = asked(command, some, folder)
            report(f"{command}, processes of this machine", some, used)
        print(f"  its answer: {len(kept[command]):,} bytes of JSON", flush=True)
    for name in PEERS:
        some = paths if name == "duckdb" else paths[:_PANDAS_HOSTS]
        report(name, some, measured([sys.executable, __file__, name, *map(str, some)])[0])
    with a_cluster(_WORKERS) as (address, processes):
        for command in ("describe", "incident"):
            used, answer = asked(command, paths, folder, "--scheduler", address, cluster=processes)
            report(f"{command}, {_WORKERS} Dask workers", paths, used)
            print(f"  the same to the last digit: {answer == kept[command]}", flush=True)


PEERS = {"duckdb": run_duckdb, "pandas": run_pandas}

if __name__ == "__main__":
    main()
