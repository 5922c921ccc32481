"""Round trip: what was recorded, played at 1x on the same storage, beside what was recorded. Linux, root.

    .venv/bin/python tests/bench/bench_round_trip.py [LOAD…] [--on loop,file,throttled] [--rounds 5] [--seconds 6]
        [--scale 1] [--pacing auto,precise,gentle] [--folder DIR [--only measure|judge]]

Loads: mix (fio, Poisson, 2,900 IOPS, 70 % reads, 4 to 64 KiB), bursts, log (a sequential log beside random reads),
single (one at a time), pgbench (PostgreSQL on ext4; on a loop device only, whose image is restored before each round).
A round is one recording of the load and one watched replay per pacing, and fio's own replay of the same I/Os
(read_iolog); for mix at --scale 2 the original is fio at the doubled rate. btreplay is not among the peers. Printed:
device-layer p50, p90, p95 and p99 of each, medians over the rounds beside the spread; what compare says; lateness;
processor time per I/O. Nothing is asserted: a shared machine steals time. With --folder the recordings stay, rounds
add up over several calls, and measuring and judging can be done apart: the first wants the machine to itself.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from fio_peer import has_fio, write_log

from iotrace.analyze.compare.recordings import compare
from iotrace.cli.watching import note_watched, watched
from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import Recording
from iotrace.schemas.sweep import watched_path

FILE_BYTES = 1 << 30
QUANTILES = (50, 90, 95, 99)
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
MIX = [
    "--rw=randrw",
    "--rwmixread=70",
    "--bsrange=4k-64k",
    "--rate_process=poisson",
    "--iodepth=32",
    "--norandommap",
]
FIO = {
    "mix": [[*MIX, "--rate_iops=2030,870"]],
    "bursts": [["--rw=randread", "--bs=8k", "--iodepth=64", "--thinktime=20000", "--thinktime_blocks=40"]],
    "log": [
        ["--rw=write", "--bs=8k", "--iodepth=1", "--rate_iops=600", "--size=25%"],
        ["--rw=randread", "--bs=8k", "--iodepth=16", "--rate_iops=1500", "--rate_process=poisson", "--offset=25%"],
    ],
    "single": [["--rw=randread", "--bs=8k", "--iodepth=1"]],
}  # fmt: skip


def run(*words: object) -> str:
    """A program's output; an error if it fails."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


@contextmanager
def loop_over(image: Path) -> Iterator[str]:
    device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@contextmanager
def throttle(device: Path) -> Iterator[None]:
    """A cgroup (v1) in which this process and its children get 1,500 reads and writes a second of ``device``."""
    group = Path("/sys/fs/cgroup/blkio/iotrace-bench-round-trip")
    number = device.stat().st_rdev
    group.mkdir()
    try:
        for name in ("read", "write"):
            (group / f"blkio.throttle.{name}_iops_device").write_text(f"{number >> 8}:{number & 255} 1500")
        (group / "cgroup.procs").write_text("0")
        yield
    finally:
        (group.parent / "cgroup.procs").write_text("0")
        time.sleep(0.2)
        group.rmdir()


def fio(target: str, jobs: list[list[str]], seconds: float, *, speed: float = 1.0) -> float:
    """Run the jobs side by side; processor time per I/O in ns."""
    words = ["fio", "--output-format=json", "--direct=1", "--ioengine=io_uring", f"--filename={target}",
             f"--size={FILE_BYTES}", "--time_based", f"--runtime={seconds}", "--randrepeat=0"]  # fmt: skip
    for number, job in enumerate(jobs):
        faster = [
            "--rate_iops=" + ",".join(str(round(int(rate) * speed)) for rate in word.split("=")[1].split(","))
            if word.startswith("--rate_iops=") else word
            for word in job
        ]  # fmt: skip
        words += [f"--name=job{number}", *faster]
    text = run(*words)
    found = json.loads(text[text.index("{") :])["jobs"]
    spent = sum((job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] * 1e6 for job in found)
    return float(spent / sum(job[side]["total_ios"] for job in found for side in ("read", "write")))


def device_quantiles(seen: Recording, load_ns: tuple[int, int] | None) -> dict[str, list[float]]:
    """Device-layer p50, p90, p95 and p99 in µs by operation; of the I/Os within ``load_ns``."""
    io = seen.read("io", ["layer", "op", "issued_ns", "completed_ns"])
    io = io.filter(pc.equal(io["layer"].cast("string"), "device")).drop_null()
    if load_ns is not None:
        io = io.filter(
            pc.and_(pc.greater_equal(io["issued_ns"], load_ns[0]), pc.less(io["issued_ns"], load_ns[1]))
        )
    found = {}
    for op in ("read", "write"):
        rows = io.filter(pc.equal(io["op"].cast("string"), op))
        if rows.num_rows >= 1000:
            took = rows["completed_ns"].to_numpy() - rows["issued_ns"].to_numpy()
            found[op] = [float(value) / 1e3 for value in np.percentile(took, QUANTILES)]
    return found


class Database:
    """PostgreSQL with pgbench's tables on an ext4 of its own; every round begins from the same image."""

    def __init__(self, folder: Path) -> None:
        self._saved, self.image, self._mount = folder / "saved.img", folder / "database.img", folder / "mount"
        self._mount.mkdir(exist_ok=True)
        if self._saved.exists():
            return
        run("truncate", "-s", FILE_BYTES, self.image)
        run("mkfs.ext4", "-q", self.image)
        with self.running() as port:
            run("runuser", "-u", "postgres", "--", POSTGRES[-1] / "pgbench", "-h", self._mount, "-p", port,
                "-q", "-i", "-s", "20", "postgres")  # fmt: skip
        shutil.copyfile(self.image, self._saved)

    def restore(self) -> None:
        shutil.copyfile(self._saved, self.image)

    @contextmanager
    def running(self, device: str | None = None) -> Iterator[str]:
        port, data, as_postgres = "54329", self._mount / "data", ("runuser", "-u", "postgres", "--")
        run("mount", *([device] if device else ["-o", "loop", self.image]), self._mount)
        try:
            run("chown", "postgres", self._mount)
            if not data.exists():
                run(*as_postgres, POSTGRES[-1] / "initdb", "-D", data, "-A", "trust")
            settings = f"-p {port} -k {self._mount} -c listen_addresses= -c shared_buffers=32MB"
            control = (*as_postgres, POSTGRES[-1] / "pg_ctl", "-D", data, "-w")
            run(*control, "-l", self._mount / "log", "-o", settings, "start")
            try:
                yield port
            finally:
                run(*control, "-m", "fast", "stop")
        finally:
            run("umount", self._mount)

    def load(self, device: str, output: Path, seconds: float) -> None:
        with self.running(device) as port, watched([device], output, overwrite=True):
            run("runuser", "-u", "postgres", "--", POSTGRES[-1] / "pgbench", "-h", self._mount, "-p", port,
                "-n", "-c", "8", "-T", round(seconds), "postgres")  # fmt: skip


def measure_round(
    load: str, target: str, folder: Path, words: argparse.Namespace, database: Database | None
) -> None:
    """Record, then play with each pacing and with fio; everything stays in ``folder``."""
    source = folder / "source.iotrace"
    cpu: dict[str, float] = {}
    if database is None:
        with watched([target], source):
            cpu["recorded"] = fio(target, FIO[load], words.seconds)
    else:
        database.load(target, source, words.seconds)
    recorded = Recording.open(source)
    if words.scale != 1 and load == "mix":
        with watched([target], folder / "faster.iotrace"):
            cpu["recorded"] = fio(target, FIO[load], words.seconds, speed=words.scale)
    is_device = Path(target).is_block_device()
    played = None
    for pacing in words.pacing:
        if database is not None:
            database.restore()
        options = ReplayOptions(
            targets=(target,), scale=words.scale, pacing=pacing, allow_writes=True, layer="block",
            destroy_data=(target,) if is_device else (), addresses="identity" if is_device else "auto",
        )  # fmt: skip
        output = folder / f"{pacing}.iotrace"
        with watched([target], watched_path(output)):
            played = replay(recorded, output, options)
        note_watched(Recording.open(watched_path(output)), played)
    if played is not None and is_device and not words.without_peer:
        if database is not None:
            database.restore()
        write_log(played, Path(target), folder / "plan.iolog")
        with watched([target], folder / "peer.iotrace"):
            run("fio", "--name=peer", "--direct=1", "--ioengine=io_uring", "--iodepth=1024",
                f"--read_iolog={folder / 'plan.iolog'}")  # fmt: skip
    (folder / "cpu.json").write_text(json.dumps(cpu))


def judge_round(folder: Path, pacings: list[str]) -> dict[str, Any]:
    """What a round's recordings say."""
    found: dict[str, Any] = {"cpu fio": json.loads((folder / "cpu.json").read_text()).get("recorded")}
    recorded = Recording.open(folder / "source.iotrace")
    faster = folder / "faster.iotrace"
    found["recorded"] = device_quantiles(Recording.open(faster) if faster.exists() else recorded, None)
    for pacing in pacings:
        played = Recording.open(folder / f"{pacing}.iotrace")
        seen = Recording.open(watched_path(played.path))
        facts = asdict(played.manifest.open_replay)
        comparison = compare(recorded, seen)
        found[pacing] = device_quantiles(seen, tuple((seen.manifest.watched or {})["load_ns"]))
        found[f"facts {pacing}"] = {
            "used": facts["pacing"]["used"],
            "lateness p50 us": facts["lateness_ns_p50"] / 1e3,
            "lateness p99 us": facts["lateness_ns_p99"] / 1e3,
            "cpu us per I/O": facts["cpu_seconds"] * 1e6 / facts["issued_ios"],
            "length": facts["issued_span_ns"] / facts["planned_duration_ns"] - 1,
            "stolen": facts["pacing"]["stolen_share"],
            "says": [f"{one.op} {one.direction}" for one in comparison.verdicts],
            "same work": comparison.same_work,
        }
    if (folder / "peer.iotrace").exists():
        found["fio read_iolog"] = device_quantiles(Recording.open(folder / "peer.iotrace"), None)
    return found


def print_rounds(title: str, rounds: list[dict[str, Any]], pacings: list[str]) -> None:
    """Medians over the rounds, and for the original the range."""
    print(f"{title}, {len(rounds)} rounds, device layer, p50 / p90 / p95 / p99 in us", flush=True)
    for name in ("recorded", *pacings, "fio read_iolog"):
        for op in ("read", "write"):
            figures = [one[name][op] for one in rounds if op in one.get(name, {})]
            if figures:
                columns = list(zip(*figures, strict=True))
                shown = " / ".join(f"{statistics.median(column):,.0f}" for column in columns)
                spread = " / ".join(f"{min(column):,.0f}-{max(column):,.0f}" for column in columns)
                print(f"    {name} {op}: {shown}  ({spread})", flush=True)
    for pacing in pacings:
        facts = [one[f"facts {pacing}"] for one in rounds]
        numbers = {
            name: statistics.median(one[name] or 0 for one in facts)
            for name in ("lateness p50 us", "lateness p99 us", "cpu us per I/O", "length", "stolen")
        }
        said = Counter(word for one in facts for word in one["says"])
        same = sum(one["same work"] for one in facts)
        words = ", ".join(f"{name} {value:,.4g}" for name, value in numbers.items())
        print(
            f"    {pacing} ({facts[0]['used']}): {words}; compare: {dict(said)}, same work {same}", flush=True
        )
    own = [one["cpu fio"] for one in rounds if one["cpu fio"]]
    if own:
        print(f"    fio's processor time {statistics.median(own) / 1e3:,.1f} us per I/O", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loads", nargs="*", metavar="LOAD", default=[*FIO, "pgbench"])
    for name, usual in (("on", "loop,file,throttled"), ("pacing", "auto,precise,gentle")):
        parser.add_argument(f"--{name}", default=usual.split(","), type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--without-peer", action="store_true", help="no read_iolog of fio")
    parser.add_argument("--folder", type=Path, help="where all lies and stays; a temporary folder otherwise")
    parser.add_argument("--only", choices=("measure", "judge"))
    words = parser.parse_args()
    if not has_fio():
        sys.exit("fio is not installed")
    print(
        "btreplay is not a peer here: it plays on whole processors' traces of blktrace, by its own format only"
    )
    with ExitStack() as stack:
        folder = words.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="iotrace-round-trip-"))
        )
        folder.mkdir(exist_ok=True)
        if words.only != "judge":
            measure(folder, words)
        if words.only != "measure":
            for place in words.on:
                for load in words.loads:
                    measured = sorted(folder.glob(f"{load}-{place}-{words.scale:g}x-*/cpu.json"))
                    rounds = [judge_round(one.parent, words.pacing) for one in measured]
                    if rounds:
                        print_rounds(f"{load} on {place}, {words.scale:g}x", rounds, words.pacing)


def measure(folder: Path, words: argparse.Namespace) -> None:
    """Add rounds to ``folder``, the loads by turns."""
    image = folder / "disk.img"
    if not image.exists():
        run("dd", "if=/dev/urandom", f"of={image}", "bs=1M", f"count={FILE_BYTES >> 20}")
    database = Database(folder) if "pgbench" in words.loads and POSTGRES else None
    for _ in range(words.rounds):
        for place in words.on:
            for load in words.loads:
                mine = database if load == "pgbench" else None
                if load == "pgbench" and (mine is None or place != "loop"):
                    continue
                number = len(list(folder.glob(f"{load}-{place}-{words.scale:g}x-*")))
                one = folder / f"{load}-{place}-{words.scale:g}x-{number:02}"
                one.mkdir()
                if mine is not None:
                    mine.restore()
                with loop_over(mine.image if mine is not None else image) as device:
                    if place == "throttled":
                        with throttle(Path(device)):
                            measure_round(load, device, one, words, mine)
                    else:
                        measure_round(load, device if place == "loop" else str(image), one, words, mine)


if __name__ == "__main__":
    main()
