"""Virtual against played: four workloads under four caps, on a loop device that a control group throttles (root).

Each workload is first replayed on the device without a cap; service times are fitted to that. The cap is what was
written to the control group. Then the same recording is played on the device under the cap, and on the model.

    .venv/bin/python tests/bench/bench_virtual_replay.py [FOLDER] [--workload 0..3] [--cap 0..3]

All 16 take about 8 minutes on a machine with nothing else to do. What the processors did for others, and what a
hypervisor took, stands in each row and at the end: a busy machine delays what is played, and not the model.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.replay.virtual.fit import fit, to_toml
from iotrace.schemas import Clock, Kind, Manifest, Recording, RecordingWriter
from iotrace.schemas.models import Limit

SECOND = 1_000_000_000
LENGTH_S = 12
DEVICE_BYTES = 256 << 20
WAITED_NS = 10_000_000
"""An I/O that takes so long was throttled: the device answers in a fraction of that."""
CGROUP = Path("/sys/fs/cgroup/blkio")
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
BOUNDS = {"p50": 0.1, "p90": 0.1, "p95": 0.1, "p99": 0.2, "throttled": 0.05}


def workloads(random: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """Arrivals, sizes and operations; offsets anywhere on the device."""
    made = {}
    steady = np.cumsum(random.exponential(SECOND / 500, 20_000))
    made["random reads"] = {"at": steady, "size": 8192, "write": 0.0}
    bursts = np.concatenate(
        [start + np.sort(random.exponential(0.35, 900)) for start in range(0, LENGTH_S, 2)]
    )
    made["read bursts"] = {"at": np.sort(bursts) * SECOND, "size": 8192, "write": 0.0}
    mixed = np.cumsum(random.gamma(0.2, SECOND / 600 / 0.2, 20_000))
    made["reads and writes"] = {
        "at": mixed,
        "size": random.choice([8192, 65536], 20_000, p=[0.8, 0.2]),
        "write": 0.3,
    }
    scan = np.cumsum(np.full(20_000, SECOND / 150))
    made["scan and log"] = {"at": scan, "size": random.choice([131072, 16384], 20_000), "write": 0.4}
    return made


def record(path: Path, at, size, write: float, random: np.random.Generator) -> Recording:
    """A workload as a recording."""
    at = np.asarray(at, np.int64)
    kept = at < LENGTH_S * SECOND
    count = int(kept.sum())
    size = np.broadcast_to(np.asarray(size, np.int64), len(at))[kept]
    places = random.integers(0, DEVICE_BYTES // 131072, count) * 131072
    ops = np.where(random.random(count) < write, "write", "read")
    columns = {
        "layer": pa.array(["block"] * count).dictionary_encode(),
        "op": pa.array(ops).dictionary_encode(),
        "device_id": np.zeros(count, np.int32),
        "offset_bytes": places.astype(np.uint64),
        "size_bytes": size.astype(np.uint32),
        "issued_ns": at[kept],
        "completed_ns": at[kept] + 100_000,
    }
    manifest = Manifest(Kind.CAPTURED, path.stem, Clock(0, 1.0, "made"), window_end_ns=LENGTH_S * SECOND)
    with RecordingWriter(path) as writer:
        writer.append("io", pa.table(columns))
        device = {"device_id": 0, "name": "made", "kind": "disk", "size_bytes": DEVICE_BYTES}
        writer.append("devices", pa.Table.from_pylist([device]))
        return writer.commit(manifest)


CAPS = {
    "I/Os at 0.8 of the mean": {"iops": 0.8},
    "I/Os at the mean": {"iops": 1.0},
    "bytes at 0.85 of the mean": {"bps": 0.85},
    "I/Os at 0.95, bytes at 0.9": {"iops": 0.95, "bps": 0.9},
}
"""Shares of the mean rate of each operation: a cap that seldom binds would compare a busy machine's noise."""


def cap_of(source: Recording, shares: dict[str, float]) -> dict[str, int]:
    """What to write to the control group."""
    io = source.read("io", ["op", "size_bytes"])
    cap = {}
    for op in ("read", "write"):
        sizes = io.filter(pc.equal(io["op"].cast(pa.string()), op))["size_bytes"].to_numpy().astype(np.int64)
        if len(sizes):
            mean = {"iops": len(sizes) / LENGTH_S, "bps": int(sizes.sum()) / LENGTH_S}
            cap |= {f"{op}_{name}": round(share * mean[name]) for name, share in shares.items()}
    return cap


def limits(cap: dict[str, int]) -> tuple[Limit, ...]:
    """The cap as limits of a model."""
    return tuple(
        Limit(
            ops=op,
            iops=cap.get(f"{op}_iops"),
            mb_per_s=cap[f"{op}_bps"] / 1e6 if f"{op}_bps" in cap else None,
            slice_ms=100,
        )
        for op in ("read", "write")
        if any(name.startswith(op) for name in cap)
    )


@contextmanager
def throttled(device: str, cap: dict[str, int]):
    """The device under a cap."""
    number = Path("/sys/class/block", Path(device).name, "dev").read_text().strip()
    try:
        for name, rate in cap.items():
            (CGROUP / f"blkio.throttle.{name}_device").write_text(f"{number} {rate}")
        yield
    finally:
        for name in cap:
            (CGROUP / f"blkio.throttle.{name}_device").write_text(f"{number} 0")


@contextmanager
def loop_device(folder: Path):
    """A loop device past the cache, all of it written."""
    image = folder / "device.img"
    with image.open("wb") as file:
        for _ in range(DEVICE_BYTES >> 20):
            file.write(np.random.default_rng(1).bytes(1 << 20))
    words = ["losetup", "--find", "--show", "--direct-io=on", image]
    device = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    try:
        with queue_settings(Path("/sys/class/block", Path(device).name, "queue")):
            yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextmanager
def queue_settings(queue: Path):
    """What the figures depend on, whatever the device's last user left; put back at the end.

    A larger I/O than max_sectors_kb would be split, and the throttle count each part; merged I/Os count as one; a
    scheduler and wbt hold writes back; and what finds no request waits before the device.
    """
    wanted = {
        "scheduler": "none",
        "max_sectors_kb": (queue / "max_hw_sectors_kb").read_text().strip(),
        "nomerges": "2",
        "wbt_lat_usec": "0",
        "nr_requests": (queue / "nr_requests").read_text().strip(),
    }
    before = {name: (queue / name).read_text().strip() for name in wanted}
    before["scheduler"] = before["scheduler"].partition("[")[2].partition("]")[0]
    try:
        for name, value in wanted.items():
            (queue / name).write_text(value)
        print(f"{queue.parent.name}: {wanted}; before: {before}", flush=True)
        yield
    finally:
        # nr_requests last: a scheduler sets it.
        for name, value in before.items():
            (queue / name).write_text(value)


class Machine:
    """What the processors of this machine did since it was made."""

    def __init__(self) -> None:
        """From now."""
        self._before, self._own = self._all(), self._of_this()

    @staticmethod
    def _all() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]

    @staticmethod
    def _of_this() -> float:
        """Seconds of this process and those that it waited for."""
        return sum(os.times()[:4])

    def words(self) -> str:
        """Shares of all processors' time, and the load."""
        spent = [after - before for after, before in zip(self._all(), self._before, strict=True)]
        hertz, whole = os.sysconf("SC_CLK_TCK"), max(1, sum(spent))
        idle, steal = spent[3] + spent[4], spent[7]
        others = max(0.0, whole - idle - steal - (self._of_this() - self._own) * hertz)
        return f"steal {steal / whole:.1%}, others {others / whole:.0%}, load {os.getloadavg()[0]:.1f}"


def iotrace(*words: object) -> None:
    """Run the command line; a finding is no error here."""
    subprocess.run([sys.executable, "-m", "iotrace.cli", *map(str, words)], check=False, capture_output=True)


def figures(recording: Recording) -> dict[str, float]:
    """Quantiles of response in ms, and the seconds during which an I/O waited."""
    io = recording.read("io", ["intended_ns", "issued_ns", "completed_ns"])
    due, done = io["intended_ns"].to_numpy(), io["completed_ns"].to_numpy()
    found = {name: float(np.quantile(done - due, share)) / 1e6 for name, share in SHARES.items()}
    long = done - due > WAITED_NS
    starts, ends = due[long], done[long]
    order = np.argsort(starts)
    covered, until = 0, -1
    for start, end in zip(starts[order].tolist(), ends[order].tolist(), strict=True):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return found | {"throttled": covered / SECOND}


def main(folder: Path, workload: int | None, only_cap: int | None) -> None:
    """Play all pairs, or those asked for, and print the table."""
    random = np.random.default_rng(11)
    rows = []
    whole, started = Machine(), time.monotonic()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors before the start", flush=True)
    with loop_device(folder) as device:
        play = [
            "--target",
            device,
            "--allow-writes",
            "--destroy-data",
            device,
            "--max-in-flight",
            16384,
            "--overwrite",
        ]
        for number, (name, made) in enumerate(workloads(random).items()):
            source = record(folder / f"w{number}.iotrace", random=random, **made)
            if workload not in {None, number}:
                continue
            free = folder / f"w{number}-free.iotrace"
            iotrace("replay", source.path, *play, "-o", free)
            for position, (words, shares) in enumerate(CAPS.items()):
                if only_cap not in {None, position}:
                    continue
                machine = Machine()
                cap = cap_of(source, shares)
                played, virtual = (
                    folder / f"w{number}c{position}.iotrace",
                    folder / f"v{number}c{position}.iotrace",
                )
                with throttled(device, cap):
                    iotrace("replay", source.path, *play, "-o", played)
                toml = folder / f"m{number}c{position}.toml"
                toml.write_text(to_toml(fit([Recording.open(free)], limits=limits(cap))))
                iotrace(
                    "replay", source.path, "--target", f"model:{toml}", "--max-in-flight", 16384, "--overwrite", "-o",
                    virtual,
                )  # fmt: skip
                rows.append(
                    row(name, words, figures(Recording.open(played)), figures(Recording.open(virtual)))
                )
                print(json.dumps(rows[-1] | {"machine": machine.words()}), flush=True)
    held = sum(one["holds"] for one in rows)
    print(f"{held} of {len(rows)} within bounds, in {time.monotonic() - started:.0f} s; {whole.words()}")


def row(name: str, cap: str, played: dict[str, float], virtual: dict[str, float]) -> dict[str, object]:
    """One line of the table."""
    off = {
        key: virtual[key] / played[key] - 1 if played[key] else float(bool(virtual[key])) for key in BOUNDS
    }
    holds = all(abs(off[key]) <= bound for key, bound in BOUNDS.items())
    cells = {key: [round(played[key], 2), round(virtual[key], 2), f"{off[key]:+.1%}"] for key in BOUNDS}
    return {"workload": name, "cap": cap, "holds": holds} | cells


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", help="where recordings stay")
    parser.add_argument("--workload", type=int, choices=range(4))
    parser.add_argument("--cap", type=int, choices=range(len(CAPS)))
    given = parser.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
        main(given.folder, given.workload, given.cap)
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place), given.workload, given.cap)
