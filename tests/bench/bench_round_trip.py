"""Round trip: what was recorded, played at 1x on the same storage, beside what was recorded. Linux, root.

    .venv/bin/python tests/bench/bench_round_trip.py [LOAD…] [--on loop,file,throttled] [--rounds 5] [--seconds 6]
        [--scale 1] [--pacing auto,think] [--without-peer] [--folder DIR [--only measure|judge] [--within SECONDS]]

Loads: mix (fio, Poisson, 2,900 IOPS, 70 % reads, 4 to 64 KiB), bursts, log (a sequential log beside random reads),
single (one at a time, 4,000 IOPS), pgbench (PostgreSQL on ext4; on a loop device only, restored before each turn).
The load is recorded once. Then the load itself, a replay of that recording for each pacing, and replays of the same
I/Os by fio (read_iolog) and btreplay take turns, one recorder watching them all. A pacing of `think` is --mode think.
For mix at --scale 2 the load is fio at the doubled rate. Printed: device-layer p50, p90, p95 and p99 of each, medians
over the rounds beside the range of the load's own, and their ratio to the load's; lateness; processor time per I/O
while they ran. What compare says of such replays is counted by bench_verdict.py.
Nothing is asserted: a shared machine steals time. With --folder the recordings stay, rounds add up over several
calls (no turn begins after --within), and measuring and judging can be done apart: the first wants the machine to
itself.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from btreplay_peer import has_btreplay, play_trace, write_trace
from fio_peer import has_fio, write_log

from iotrace.cli.watching import watched
from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import Recording

FILE_BYTES = 1 << 30
QUANTILES = (50, 90, 95, 99)
IOS_MIN = 500
"""A turn with fewer has no p99 worth its name."""
ANCHOR_NS = 2_000_000
"""How far two clocks anchored to UTC may be apart."""
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
        # Seeds that differ from run to run let this job of fio 3.33 sleep through the run.
        ["--rw=randread", "--bs=8k", "--iodepth=16", "--rate_iops=1500", "--rate_process=poisson", "--offset=25%",
         "--randrepeat=1"],
    ],
    "single": [["--rw=randread", "--bs=8k", "--iodepth=1", "--rate_iops=4000"]],
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


class Watched:
    """What a recorder saw at the device layer, to be cut into turns."""

    def __init__(self, seen: Recording) -> None:
        io = seen.read("io", ["layer", "op", "issued_ns", "completed_ns"])
        io = io.filter(pc.equal(io["layer"].cast("string"), "device")).drop_null()
        self._op = np.array(io["op"].cast("string").to_pylist())
        self._issued_utc_ns = io["issued_ns"].to_numpy() + seen.manifest.clock.start_utc_ns
        self._took_ns = io["completed_ns"].to_numpy() - io["issued_ns"].to_numpy()

    def quantiles(self, from_utc_ns: int, until_utc_ns: int) -> dict[str, list[float]]:
        """p50, p90, p95 and p99 in µs by operation, of the I/Os that were issued between the two."""
        inside = (self._issued_utc_ns >= from_utc_ns) & (self._issued_utc_ns < until_utc_ns)
        took = {op: self._took_ns[inside & (self._op == op)] for op in ("read", "write")}
        return {
            op: [float(value) / 1e3 for value in np.percentile(one, QUANTILES)]
            for op, one in took.items()
            if len(one) >= IOS_MIN
        }


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

    def restore(self, device: str) -> None:
        """Put everything back; ``device`` is the loop device over the image."""
        shutil.copyfile(self._saved, self.image)
        run("blockdev", "--flushbufs", device)

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

    def load(self, device: str, seconds: float, output: Path | None = None) -> tuple[int, int]:
        """pgbench for so long, recorded if ``output`` says where; from when to when it ran, UTC in ns."""
        recorder = watched([device], output) if output is not None else nullcontext()
        with self.running(device) as port, recorder:
            began_ns = time.time_ns()
            run("runuser", "-u", "postgres", "--", POSTGRES[-1] / "pgbench", "-h", self._mount, "-p", port,
                "-n", "-c", "8", "-T", round(seconds), "postgres")  # fmt: skip
            return began_ns, time.time_ns()


class Turns:
    """The load and its replays on one target, by turns."""

    def __init__(
        self, load: str, target: str, folder: Path, words: argparse.Namespace, database: Database | None
    ) -> None:
        self.load, self.target, self.folder, self.words, self.database = load, target, folder, words, database
        self.is_device = Path(target).is_block_device()
        has_peers = self.is_device and not words.without_peer
        self.peers = ("fio read_iolog", *(("btreplay",) if has_btreplay() else ())) if has_peers else ()
        self.made: list[dict[str, Any]] = []

    def measure(self, source: Path, until: float) -> None:
        """Record the load into ``source`` if that is not there yet, then take turns until all is done or late."""
        if not source.exists():
            if self.database is not None:
                self.database.restore(self.target)
                self.database.load(self.target, self.words.seconds, source)
            else:
                with watched([self.target], source):
                    fio(self.target, FIO[self.load], self.words.seconds)
        recorded = Recording.open(source)
        with watched([self.target], self.folder / "seen.iotrace"):
            for number in range(self.words.rounds):
                for name in ("recorded", *self.words.pacing, *self.peers):
                    if time.monotonic() > until:
                        break
                    if self.database is not None:
                        self.database.restore(self.target)
                        if name != "recorded":  # a replay writes on nothing that bears a file system's mark
                            run("wipefs", "--all", self.target)
                    self.take_turn(name, number, recorded)
        (self.folder / "turns.json").write_text(json.dumps(self.made))

    def take_turn(self, name: str, number: int, recorded: Recording) -> None:
        began_ns, ended_ns = time.time_ns(), None
        facts: dict[str, Any] = {}
        output = self.folder / f"{name}-{number:02}.iotrace"
        if name == "recorded":
            if self.database is not None:
                began_ns, ended_ns = self.database.load(self.target, self.words.seconds)
            else:
                speed = self.words.scale if self.load == "mix" else 1.0
                cpu_ns = fio(self.target, FIO[self.load], self.words.seconds, speed=speed)
                facts = {"processor time us per I/O": cpu_ns / 1e3}
        elif name == "fio read_iolog":
            log = self.folder / "plan.iolog"
            if not log.exists():
                write_log(self._first_replay(), Path(self.target), log)
            run("fio", "--name=peer", "--direct=1", "--ioengine=io_uring", "--iodepth=1024",
                f"--read_iolog={log}")  # fmt: skip
        elif name == "btreplay":
            trace = self.folder / "btreplay"
            if not trace.exists():
                write_trace(self._first_replay(), trace)
            play_trace(trace, Path(self.target))
        else:
            options = ReplayOptions(
                targets=(self.target,), scale=self.words.scale, allow_writes=True, layer="block",
                **({"mode": name} if name == "think" else {"pacing": name}),
                destroy_data=(self.target,) if self.is_device else (),
                addresses="identity" if self.is_device else "auto",
            )  # fmt: skip
            played = replay(recorded, output, options)
            began_ns, facts = played.manifest.clock.start_utc_ns - ANCHOR_NS, replay_facts(played)
        self.made.append(
            {"name": name, "from": began_ns, "until": ended_ns or time.time_ns(), "facts": facts}
        )

    def _first_replay(self) -> Recording:
        """What the peers play."""
        return Recording.open(self.folder / f"{self.words.pacing[-1]}-00.iotrace")


def replay_facts(played: Recording) -> dict[str, Any]:
    facts = asdict(played.manifest.open_replay)
    return {
        "pacing": facts["pacing"]["used"],
        "lateness p50 us": facts["lateness_ns_p50"] / 1e3,
        "lateness p99 us": facts["lateness_ns_p99"] / 1e3,
        "processor time us per I/O": facts["cpu_seconds"] * 1e6 / facts["issued_ios"],
        "length off by": facts["issued_span_ns"] / facts["planned_duration_ns"] - 1,
        "not issued": facts["planned_ios"] - facts["issued_ios"],
        "stolen share": facts["pacing"]["stolen_share"],
    }


def judge(title: str, folders: list[Path]) -> None:
    """Medians over all turns, the load's own range, and each replay's ratio to the load."""
    figures: dict[tuple[str, str], list[list[float]]] = {}
    facts: dict[str, list[dict[str, Any]]] = {}
    for folder in folders:
        watched_turns = Watched(Recording.open(folder / "seen.iotrace"))
        for turn in json.loads((folder / "turns.json").read_text()):
            facts.setdefault(turn["name"], []).append(turn["facts"])
            for op, found in watched_turns.quantiles(turn["from"], turn["until"]).items():
                figures.setdefault((turn["name"], op), []).append(found)
    print(f"{title}: device layer, p50 / p90 / p95 / p99 in us", flush=True)
    for (name, op), rows in figures.items():
        columns = list(zip(*rows, strict=True))
        medians = [statistics.median(column) for column in columns]
        own = list(zip(*figures.get(("recorded", op), rows), strict=True))
        if name == "recorded":
            beside = "range " + " / ".join(f"{min(column):,.0f}-{max(column):,.0f}" for column in own)
        else:
            beside = "ratio " + " / ".join(
                f"{median / statistics.median(column):.2f}" for median, column in zip(medians, own, strict=True)
            )  # fmt: skip
        shown = " / ".join(f"{median:,.0f}" for median in medians)
        print(f"    {name} {op}s, {len(rows)} turns: {shown}; {beside}", flush=True)
    for name, turns in facts.items():
        numbers = {
            key: [turn[key] for turn in turns if isinstance(turn.get(key), int | float)] for key in turns[0]
        }
        told = ", ".join(
            f"{key} {statistics.median(values):,.4g}" for key, values in numbers.items() if values
        )
        if told:
            print(f"    {name}: {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loads", nargs="*", metavar="LOAD", default=[*FIO, "pgbench"])
    for name, usual in (("on", "loop,file,throttled"), ("pacing", "auto")):
        parser.add_argument(f"--{name}", default=usual.split(","), type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--without-peer", action="store_true", help="no replay by fio and btreplay")
    parser.add_argument("--folder", type=Path, help="where all lies and stays; a temporary folder otherwise")
    parser.add_argument("--only", choices=("measure", "judge"))
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds; no turn begins later")
    words = parser.parse_args()
    if not has_fio():
        sys.exit("fio is not installed")
    if not has_btreplay():
        print("btreplay is not installed, so it is not a peer")
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
                    measured = sorted(folder.glob(f"{load}-{place}-{words.scale:g}x-*/turns.json"))
                    if measured:
                        judge(f"{load} on {place}, {words.scale:g}x", [one.parent for one in measured])


def measure(folder: Path, words: argparse.Namespace) -> None:
    """Add rounds to ``folder``, one load after the other."""
    until = time.monotonic() + words.within
    image = folder / "disk.img"
    if not image.exists():
        run("dd", "if=/dev/urandom", f"of={image}", "bs=1M", f"count={FILE_BYTES >> 20}")
    database = Database(folder) if "pgbench" in words.loads and POSTGRES else None
    for place in words.on:
        for load in words.loads:
            mine = database if load == "pgbench" else None
            if (load == "pgbench" and (mine is None or place != "loop")) or time.monotonic() > until:
                continue
            number = len(list(folder.glob(f"{load}-{place}-{words.scale:g}x-*")))
            one = folder / f"{load}-{place}-{words.scale:g}x-{number:02}"
            one.mkdir()
            # A file that a loop device has open is not played on.
            place_to_play = (
                nullcontext(str(image)) if place == "file" else loop_over(mine.image if mine else image)
            )
            with place_to_play as device:
                turns = Turns(load, device, one, words, mine)
                with throttle(Path(device)) if place == "throttled" else nullcontext():
                    turns.measure(folder / f"{load}-{place}.source.iotrace", until)


if __name__ == "__main__":
    main()
