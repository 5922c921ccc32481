"""How exactly a replay keeps time, and what it adds to latency and to processor time, beside fio in the same run.

    .venv/bin/python tests/bench/bench_replay.py [PART…] [--scales 1,2,4] [--runs 5] [--peer-runs 3] [--folder DIR]

Parts: evenly (10,000 reads a second for 20 s), sparse (one read every 4 ms), bursts (of 100 every 10 ms), database
(the bundled recording): each replayed at several scales, and by fio from an iolog with time stamps (io_uring and
libaio). service: the latency of single reads beside fio's. peak: 8 KiB random reads, 32 in flight, as fast as they go.
large: a plan of 50 million I/Os on a simulated disk. Reads of 8 KiB at random places of one file of 1 GiB, direct.
Medians over the runs; players take turns. Nothing is asserted: a shared machine steals time.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from fio_peer import has_fio, play_log, read_closed_loop, write_log

from iotrace.replay import ReplayOptions, _engine, replay
from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

FILE_BYTES = 1 << 30
READ_BYTES = 8192
RATE_PER_S = 10_000
BUNDLED = Path(__file__).parents[2] / "cli" / "bundled"
CLOSED_SECONDS = 5


def record(path: Path, issued_ns: npt.NDArray[np.int64]) -> Recording:
    """A recording of reads at random places, at these times."""
    places = np.random.default_rng(1).permutation(FILE_BYTES // READ_BYTES)
    rows = len(issued_ns)
    with RecordingWriter(path) as writer:
        for start in range(0, rows, 1 << 20):
            count = min(1 << 20, rows - start)
            writer.append(
                "io",
                pa.table(
                    {
                        "layer": pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), ["block"]),
                        "op": pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), ["read"]),
                        "issued_ns": issued_ns[start : start + count],
                        "offset_bytes": np.resize(np.roll(places, -start), count) * READ_BYTES,
                        "size_bytes": np.full(count, READ_BYTES),
                        "device_id": np.zeros(count, np.int32),
                    }
                ),
            )
        writer.append("devices", pa.table({"device_id": [0], "name": ["sda"], "kind": ["disk"]}))
        clock = Clock(start_utc_ns=0, resolution_ns=1, name="planted")
        return writer.commit(Manifest("synthetic", path.stem, clock, window_end_ns=int(issued_ns[-1])))


def evenly(folder: Path, seconds: float) -> Recording:
    return record(folder / "evenly.iotrace", np.arange(int(seconds * RATE_PER_S)) * (10**9 // RATE_PER_S))


def sparse(folder: Path, seconds: float) -> Recording:
    return record(folder / "sparse.iotrace", np.arange(int(seconds * 250)) * 4_000_000)


def bursts(folder: Path, seconds: float) -> Recording:
    return record(folder / "bursts.iotrace", np.arange(int(seconds * RATE_PER_S)) // 100 * 10_000_000)


def database(_folder: Path, _seconds: float) -> Recording:
    return Recording.open(next(BUNDLED.glob("*.iotrace")))


LOADS: dict[str, tuple[Callable[[Path, float], Recording], str, int]] = {
    "evenly": (evenly, "evenly", 100),
    "sparse": (sparse, "one every 4 ms", 100),
    "bursts": (bursts, "bursts of 100", 300),
    "database": (database, "bundled database", 300),
}
"""How to record it, what it is called, the goal for its lateness p99 in µs."""


def pace(part: str, folder: Path, words: argparse.Namespace) -> None:
    """One replay per scale and run, and the same plan by fio."""
    make, title, goal_us = LOADS[part]
    source = make(folder, words.seconds)
    target = folder / f"{part}.target"
    for scale in words.scales:
        options = ReplayOptions(
            targets=(str(target),), scale=scale, file_bytes=FILE_BYTES if part != "database" else None
        )
        found: list[dict[str, Any]] = []
        peers: dict[str, list[tuple[float, float]]] = {"io_uring": [], "libaio": []}
        for run in range(words.runs):
            out = replay(source, folder / "out.iotrace", options, overwrite=True)
            facts = out.manifest.replay
            assert facts is not None
            found.append(facts | {"length_error": facts.issued_span_ns / facts.planned_duration_ns - 1})
            if run < words.peer_runs and has_fio():
                peer_target = folder / f"{part}.peer"
                if (
                    not peer_target.exists()
                ):  # one of its own: a target that others wrote to is not taken again
                    shutil.copyfile(target, peer_target)
                length_s = write_log(out, peer_target, folder / "plan.iolog")
                for engine, results in peers.items():
                    seconds, mean_ns = play_log(folder / "plan.iolog", engine)
                    results.append((seconds / length_s - 1, mean_ns))

        def own_p99_us(found: list[dict[str, Any]] = found) -> float:
            return statistics.median(float(facts.generator_lateness_ns["p99"] or 0) for facts in found) / 1e3

        def median(name: str, found: list[dict[str, Any]] = found) -> float:
            return statistics.median(float(facts[name]) for facts in found)

        print(
            f"{title}, {scale:g}x, {found[0]['issued_ios'] / (found[0]['planned_duration_ns'] / 1e9):,.0f} I/O/s: "
            f"length {median('length_error'):+.4%} (goal 0.1 %), lateness p50 {median('lateness_ns_p50') / 1e3:,.1f} "
            f"p99 {median('lateness_ns_p99') / 1e3:,.1f} (goal {goal_us}) "
            f"max {median('lateness_ns_max') / 1e3:,.0f} us, "
            f"p99 of what the disk did not hold back {own_p99_us():,.1f} us, "
            f"service p50 {median('service_ns_p50') / 1e3:,.1f} us, response p50 "
            f"{median('response_ns_p50') / 1e3:,.1f} us, delayed {median('delayed_ios'):,.0f} "
            f"(waits for room {median('waits_for_room'):,.0f}), "
            f"cpu {median('cpu_seconds'):.2f} s",
            flush=True,
        )
        for engine, results in peers.items():
            if results:
                length, mean_ns = (statistics.median(column) for column in zip(*results, strict=True))
                print(
                    f"    fio read_iolog, {engine}: length {length:+.2%}, mean latency {mean_ns / 1e3:,.1f} us",
                    flush=True,
                )


def closed_loop(target: Path, in_flight: int, seconds: float) -> dict[str, float]:
    """The engine unpaced, at random places: I/Os a second, median service, processor time per I/O."""
    file = os.open(target, os.O_RDONLY | os.O_DIRECT)
    random = np.random.default_rng(2)
    engine = _engine.Engine(
        [file],
        in_flight_max=in_flight,
        read_bytes_max=READ_BYTES,
        write_bytes_max=0,
        paced=False,
        issue_for_ns=round(seconds * 1e9),
    )
    rows = 1 << 16

    def batch() -> pa.RecordBatch:
        places = random.integers(0, FILE_BYTES // READ_BYTES, rows).astype(np.uint64)
        return pa.record_batch(
            {
                "intended_ns": np.zeros(rows, np.int64),
                "offset_bytes": places * np.uint64(READ_BYTES),
                "size_bytes": np.full(rows, READ_BYTES, np.uint32),
                "op": np.zeros(rows, np.uint8),
                "target": np.zeros(rows, np.uint16),
                "durable": pa.array(np.zeros(rows, np.bool_)),
            }
        )

    def feed() -> None:
        while engine.wanted() > 0:
            engine.offer(batch())

    feed()
    before = time.process_time()
    engine.start()
    while not engine.wait(0.25):
        feed()
        while engine.take() is not None:
            pass
    while engine.take() is not None:
        pass
    tally = engine.tally()
    span_s = (tally["last_completed_ns"] - tally["first_issued_ns"]) / 1e9
    os.close(file)
    return {
        "iops": tally["completed"] / span_s,
        "service_ns": tally["service"]["p50_ns"],
        "cpu_ns": (time.process_time() - before) * 1e9 / tally["completed"],
    }


def _direct(path: str) -> int:
    import os

    return os.open(path, os.O_RDONLY | os.O_DIRECT)


def _close(file: int) -> None:
    import os

    os.close(file)


def compare_closed(title: str, folder: Path, words: argparse.Namespace, in_flight: int) -> None:
    """The engine and fio by turns, as fast as they go."""
    target = filled(folder)
    ours, theirs = [], []
    for _ in range(words.runs):
        ours.append(closed_loop(target, in_flight, CLOSED_SECONDS))
        if has_fio():
            theirs.append(read_closed_loop(target, in_flight, CLOSED_SECONDS))

    def median(runs: list[dict[str, float]], name: str) -> float:
        return statistics.median(run[name] for run in runs)

    for who, runs in (("iotrace", ours), ("fio io_uring", theirs)):
        if runs:
            print(
                f"{title}, {who}: {median(runs, 'iops'):,.0f} IOPS, service p50 "
                f"{median(runs, 'service_ns') / 1e3:,.1f} us, "
                f"processor time {median(runs, 'cpu_ns') / 1e3:,.2f} us per I/O",
                flush=True,
            )
    if theirs:
        ratios = {name: median(ours, name) / median(theirs, name) for name in ours[0]}
        print(
            f"    ratio iotrace / fio: IOPS {ratios['iops']:.3f}, service {ratios['service_ns']:.3f}, "
            f"processor time {ratios['cpu_ns']:.3f}",
            flush=True,
        )


def peak(folder: Path, words: argparse.Namespace) -> None:
    compare_closed("32 in flight (goal IOPS >= 1, processor time <= 1)", folder, words, 32)


def service(folder: Path, words: argparse.Namespace) -> None:
    """Closed loop both; then paced, beside fio at the same pace."""
    compare_closed("1 in flight (goal service 0.9 to 1.1)", folder, words, 1)
    target = filled(folder)
    source = record(folder / "service.iotrace", np.arange(5 * RATE_PER_S) * (10**9 // RATE_PER_S))
    options = ReplayOptions(targets=(str(target),))
    ours, paced, polled = [], [], []
    for _ in range(words.runs):
        facts = replay(source, folder / "out.iotrace", options, overwrite=True).manifest.replay
        assert facts is not None
        ours.append(facts.service_ns_p50)
        if has_fio():
            rate = f"--rate_iops={RATE_PER_S}"
            paced.append(read_closed_loop(target, 1, CLOSED_SECONDS, rate)["service_ns"])
            poll = "--iodepth_batch_complete_min=0"
            polled.append(read_closed_loop(target, 1, CLOSED_SECONDS, poll)["service_ns"])
    print(f"replayed at 10,000 a second: service p50 {statistics.median(ours) / 1e3:,.1f} us")
    for title, results in (
        ("at the same pace", paced),
        ("back to back, polling instead of sleeping", polled),
    ):
        if results:
            print(
                f"    fio one at a time, {title}: {statistics.median(results) / 1e3:,.1f} us, "
                f"iotrace / fio {statistics.median(ours) / statistics.median(results):.3f}",
                flush=True,
            )


def filled(folder: Path) -> Path:
    """A file of incompressible data."""
    target = folder / "closed.target"
    if not target.exists():
        one_read = record(folder / "one.iotrace", np.zeros(1, np.int64))
        options = ReplayOptions(targets=(str(target),), file_bytes=FILE_BYTES)
        replay(one_read, folder / "out.iotrace", options, overwrite=True)
    return target


def large(folder: Path, words: argparse.Namespace) -> None:
    """Time to the first I/O, and memory, of a plan that grows tenfold; on a simulated disk, in simulated time."""
    target = filled(folder)
    for rows in (words.rows // 10, words.rows):
        source = record(folder / f"{rows}.iotrace", np.arange(rows) * 20_000)
        script = Path(__file__).with_name("replay_simulated.py")
        child = [sys.executable, script, source.path, target, folder / "large.iotrace"]
        done = subprocess.run([str(word) for word in child], capture_output=True, text=True, check=False)
        print(f"{rows:,} I/Os: {done.stdout.strip() or done.stderr.strip()[-500:]}", flush=True)


PARTS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    **{part: (lambda folder, words, part=part: pace(part, folder, words)) for part in LOADS},
    "service": service,
    "peak": peak,
    "large": large,
}


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all by default")
    parser.add_argument(
        "--folder", type=Path, default=Path(__file__).parent, help="where the file to read lies"
    )
    parser.add_argument("--seconds", type=float, default=20, help="length of a load at 1x")
    parser.add_argument(
        "--scales", type=lambda text: [float(word) for word in text.split(",")], default=[1.0, 2.0, 4.0]
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer-runs", type=int, default=1)
    parser.add_argument("--rows", type=int, default=50_000_000, help="I/Os of the large plan")
    words = parser.parse_args()
    for part in words.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=words.folder) as name:
            PARTS[part](Path(name), words)


if __name__ == "__main__":
    main()
