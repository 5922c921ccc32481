"""The answers people wait for, on large synthetic recordings: time, processor time and memory of whole commands.

Usage: bench_answers.py [ROWS [FOLDER]], 10 million if not given; the goal speaks of 100 million. Two recordings of that
many I/Os over four hours are made in FOLDER, where they stay for the next run, or in a temporary one. They are a busy
SQL Server before and after a move. Processor time stands beside the time on the clock, since others may be using the
machine.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from analyze.report.browser import CHROMIUM, browser

from iotrace.schemas import Clock, Manifest, RecordingWriter

_SECONDS = 4 * 3600
_CHUNK_SECONDS = 60
_ROLES = ["data"] * 16 + ["log", "log", "tempdb_data", "tempdb_log"]
_SIZES_BYTES = np.array([8192, 8192, 8192, 65536, 65536, 512 * 1024, 4096, 60 * 1024])
_SLOW = ((4000, 4240, 4.0), (9000, 9020, 8.0), (12500, 13100, 2.5))
"""First second, end and how many times slower."""


def synthesise(path: Path, rows: int, *, seed: int, latency_ns: float) -> None:
    """Load that swells and ebbs over the hours and from second to second, log-normal latencies, three slow windows."""
    source = np.random.default_rng(seed)
    second = np.arange(_SECONDS)
    load = (1 + 0.5 * np.sin(second / 2000)) * source.lognormal(0, 0.25, _SECONDS)
    slower = np.ones(_SECONDS)
    for first, end, factor in _SLOW:
        slower[first:end] = factor
    counts = source.multinomial(rows, load / load.sum())
    device_of = np.array([0] * 16 + [1] * 4, np.int32)
    manifest = Manifest("synthetic", "bench", Clock(0, 1.0, "synthetic"), window_end_ns=_SECONDS * 10**9)
    with RecordingWriter(path) as writer:
        writer.append(
            "devices", pa.table({"device_id": [0, 1], "name": ["sda", "sdb"], "kind": ["disk", "disk"]})
        )
        files = {
            "file_id": range(len(_ROLES)),
            "path": [f"D:\\file{number}" for number in range(len(_ROLES))],
            "role": _ROLES,
            "device_id": device_of,
        }
        writer.append("files", pa.table(files))
        writer.append(
            "processes", pa.table({"process_id": [0], "os_process_id": [4], "name": ["sqlservr.exe"]})
        )
        for start in range(0, _SECONDS, _CHUNK_SECONDS):
            of_second = np.repeat(
                second[start : start + _CHUNK_SECONDS], counts[start : start + _CHUNK_SECONDS]
            )
            count = len(of_second)
            issued = np.sort(of_second * 10**9 + source.integers(0, 10**9, count))
            latency = source.lognormal(np.log(latency_ns), 0.8, count) * slower[issued // 10**9]
            file = source.integers(0, len(_ROLES), count)
            columns = {
                "layer": np.full(count, 2, np.int8),
                "op": (source.random(count) < 0.3).astype(np.int8),
                "issued_ns": issued,
                "completed_ns": issued + latency.astype(np.int64),
                "offset_bytes": (source.integers(0, 1 << 20, count) + file * (1 << 20)) * 8192,
                "size_bytes": source.choice(_SIZES_BYTES, count),
                "device_id": device_of[file],
                "file_id": file,
                "process_id": np.zeros(count, np.int32),
                "thread_id": source.integers(1000, 1100, count),
            }
            writer.append("io", pa.table(columns))
        writer.commit(manifest)


def measure(name: str, *words: str | Path) -> None:
    """Run one command as a process of its own and print what it took."""
    command = [str(Path(sys.executable).parent / "iotrace"), *map(str, words)]
    start = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status, used = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    print(
        f"{name}: {seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processor time, "
        f"peak {used.ru_maxrss / (1 << 20):.2f} GiB, exit status {os.waitstatus_to_exitcode(status)}",
        flush=True,
    )


def first_chart(page: Path) -> str:
    """When the first chart stands on the page, from the start of navigation, in words; of five times the middle one."""
    if CHROMIUM is None:
        return "not opened, for want of Chromium"
    found = []
    with browser() as tab:
        for _ in range(5):
            tab.open(page)
            tab.wait_for("document.querySelector('.chart .main-svg')")
            found.append(tab.evaluate("window.performance.now()"))
    return f"first chart after {sorted(found)[2]:,.0f} ms ({min(found):,.0f} to {max(found):,.0f})"


def main() -> None:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(temporary)
        before, after = folder / "before.iotrace", folder / "after.iotrace"
        for path, seed, latency_ns in ((before, 1, 300e3), (after, 2, 200e3)):
            if not path.exists():
                synthesise(path, rows, seed=seed, latency_ns=latency_ns)
        page = folder / "report.html"
        print(f"{rows:,} I/Os over {_SECONDS / 3600:g} hours")
        measure("describe", "describe", before)
        measure("incident", "incident", before)
        measure("report", "report", before, "-o", page, "--overwrite")
        print(f"  the page: {page.stat().st_size / 1e6:.2f} MB, {first_chart(page)}")
        measure("compare of two", "compare", before, after)


if __name__ == "__main__":
    main()
