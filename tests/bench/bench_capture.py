"""What recording costs the workload, and what a recording misses, beside perf record and bpftrace's biosnoop.

    .venv/bin/python tests/bench/bench_capture.py [--rounds 5] [--seconds 3] [--rate 0]

fio reads 4 KiB at random, 32 at a time, from a loop device over a file in memory: as many as the machine can, or
`--rate` a second. Each round runs fio alone and beside every tool, in an order that turns
from round to round, and an IOPS ratio is taken within its round. The interval is a t interval over the rounds. "Trace
points" are those iotrace switches on, read by nobody: what the kernel takes before any recorder does. iotrace's own
processor time is that of its process while fio ran.

Then what the recordings say beside fio and beside the kernel's own counters of the device: counts and bytes, events
lost, and latency. fio's completion latency (clat) runs from the end of its system call, lat from before it, to its
reaping of the result; the device layer's from the hand-over to the driver to the driver's completion. So fio's is
longer by its own waking up and by what waits until fio has dealt with the results before it, which at the highest rate
is of the size of the I/O itself, even though fio takes all the results there are at once. Other runs therefore read
32 KiB, 128 at a time, where the device and not fio is the bottleneck, and one at a time from a file on this machine's
disk. The kernel's counters know no median: the mean is beside them. Nothing is asserted. Needs root.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psutil
from scipy import stats

from iotrace.capture.linux.devices import select
from iotrace.capture.linux.tracefs import BlockInstance
from iotrace.schemas import Recording

DEVICE_BYTES = 512 << 20
EVENTS = ("block_bio_queue", "block_rq_issue", "block_rq_complete")
# As biosnoop.bt, on trace points: its kernel functions are gone from newer kernels.
BIOSNOOP = """
tracepoint:block:block_rq_issue /args->dev == {dev}/ {{ @start[args->sector] = nsecs; @comm[args->sector] = comm; }}
tracepoint:block:block_rq_complete /args->dev == {dev} && @start[args->sector]/ {{
  printf("%-12u %-16s %-6d %7d\\n", nsecs / 1000000, @comm[args->sector], pid, (nsecs - @start[args->sector]) / 1000);
  delete(@start[args->sector]); delete(@comm[args->sector]); }}
"""


@contextmanager
def loop_device(folder: Path, *, direct: bool) -> Iterator[str]:
    """A loop device over a file full of random bytes."""
    image = folder / f"bench_capture-{os.getpid()}.img"
    try:
        with image.open("wb") as file:
            for _ in range(DEVICE_BYTES >> 24):
                file.write(os.urandom(1 << 24))
        options = ["--direct-io=on"] if direct else []
        command = ["losetup", "--find", "--show", *options, str(image)]
        device = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        try:
            yield device
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
    finally:
        image.unlink(missing_ok=True)


def fio(device: str, seconds: float, depth: int, rate: int = 0, size: str = "4k") -> dict[str, Any]:
    """fio's own account of its reads."""
    command = ["fio", "--name=reads", f"--filename={device}", "--direct=1", "--rw=randread", f"--bs={size}"]
    command += ["--ioengine=libaio", f"--iodepth={depth}", "--time_based", f"--runtime={seconds}"]
    command += ["--clat_percentiles=1", "--lat_percentiles=1", *([f"--rate_iops={rate}"] if rate else [])]
    command += [f"--iodepth_batch_complete_max={depth}"]  # else a result waits while fio deals with another
    done = subprocess.run([*command, "--output-format=json"], capture_output=True, text=True, check=True)
    reads: dict[str, Any] = json.loads(done.stdout)["jobs"][0]["read"]
    return reads


def wait_for(condition: Callable[[], Any]) -> None:
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            raise SystemExit("a tool did not start")
        time.sleep(0.1)


PROCESSOR_SECONDS: list[float] = []
"""Of each of iotrace's runs."""


def processor_seconds(process_id: int) -> float:
    times = psutil.Process(process_id).cpu_times()
    return float(times.user + times.system)


@contextmanager
def trace_points(device: str, _folder: Path) -> Iterator[None]:
    """What iotrace asks of the kernel, read by nobody; a full buffer drops its oldest, so that the kernel works on."""
    with BlockInstance(select([device])) as instance:
        instance.write("options/overwrite", "1")
        instance.start()
        yield
        instance.stop()


@contextmanager
def iotrace(device: str, folder: Path) -> Iterator[None]:
    path = folder / "bench.iotrace"
    shutil.rmtree(path, ignore_errors=True)
    code = f"from iotrace.capture.linux import record; record([{device!r}], {str(path)!r}, seconds=None)"
    process = subprocess.Popen([sys.executable, "-c", code])
    wait_for((folder / "bench.iotrace.unfinished" / "manifest.json").exists)
    time.sleep(0.5)
    before = processor_seconds(process.pid)
    yield
    PROCESSOR_SECONDS.append(processor_seconds(process.pid) - before)
    process.send_signal(signal.SIGINT)
    process.wait()


@contextmanager
def perf(device: str, folder: Path) -> Iterator[None]:
    output = folder / "perf.data"
    output.unlink(missing_ok=True)
    number = device_number(device)
    command = ["perf", "record", "-q", "-a", "-o", str(output)]
    for event in EVENTS:
        command += ["-e", f"block:{event}", "--filter", f"dev == {number}"]
    process = subprocess.Popen([*command, "--", "sleep", "1000"], stderr=subprocess.DEVNULL)
    wait_for(output.exists)
    time.sleep(0.5)
    yield
    process.send_signal(signal.SIGINT)
    process.wait()


@contextmanager
def biosnoop(device: str, folder: Path) -> Iterator[None]:
    program = BIOSNOOP.format(dev=device_number(device))
    with (folder / "biosnoop.txt").open("wb") as output:
        process = subprocess.Popen(["bpftrace", "-e", program], stdout=output, stderr=subprocess.DEVNULL)
        wait_for(lambda: (folder / "biosnoop.txt").stat().st_size)  # "Attaching 2 probes..."
        time.sleep(1)
        yield
        process.send_signal(signal.SIGINT)
        process.wait()


@contextmanager
def nothing(_device: str, _folder: Path) -> Iterator[None]:
    yield


TOOLS = {"trace points": trace_points, "iotrace": iotrace, "perf record": perf, "biosnoop": biosnoop}


def device_number(device: str) -> int:
    number = Path(device).stat().st_rdev
    return os.major(number) << 20 | os.minor(number)


def kernel_reads(device: str) -> tuple[int, int]:
    """Reads the kernel counted on the device, and the milliseconds they took in all."""
    words = Path("/sys/block", Path(device).name, "stat").read_text(encoding="utf-8").split()
    return int(words[0]), int(words[3])


def ratio_text(ratios: list[float]) -> str:
    """Mean and 95 % interval of the change, in percent."""
    changes = [100 * (ratio - 1) for ratio in ratios]
    mean = statistics.mean(changes)
    if len(changes) < 2:
        return f"{mean:+.1f} %"
    half = stats.t.ppf(0.975, len(changes) - 1) * statistics.stdev(changes) / len(changes) ** 0.5
    return (
        f"{mean:+.1f} % [{mean - half:+.1f}, {mean + half:+.1f}], median {statistics.median(changes):+.1f} %"
    )


def record_one(device: str, folder: Path, title: str, seconds: float, depth: int, size: str) -> None:
    """fio beside iotrace once, and what both and the kernel say of it."""
    before = kernel_reads(device)
    with iotrace(device, folder):
        job = fio(device, seconds, depth, size=size)
    count, milliseconds = (now - then for now, then in zip(kernel_reads(device), before, strict=True))
    print(f"{title}, {job['iops']:,.0f} I/Os a second:")
    tell_recording(folder / "bench.iotrace", job, 1e6 * milliseconds / count)


def tell_recording(path: Path, job: dict[str, Any], kernel_mean_ns: float) -> None:
    recording = Recording.open(path)
    files = [str(file) for file in recording.parquet_paths("io")]
    medians = {kind: job[f"{kind}_ns"]["percentile"]["50.000000"] for kind in ("lat", "clat")}
    for layer in ("block", "device"):
        count, size, median_ns, mean_ns = duckdb.execute(
            """SELECT count(*), sum(size_bytes)::BIGINT, median(completed_ns - issued_ns),
                      avg(completed_ns - issued_ns)
            FROM read_parquet($files) WHERE layer = $layer AND op = 'read'""",
            {"files": files, "layer": layer},
        ).fetchall()[0]
        print(
            f"  {layer:<7} {count:>9,} I/Os ({count - job['total_ios']:+,} against fio), "
            f"{size - job['io_bytes']:+,} bytes, median {median_ns / 1000:,.1f} us: "
            + ", ".join(
                f"{100 * (median_ns / value - 1):+.1f} % of fio's {kind}" for kind, value in medians.items()
            )
            + f"; mean {mean_ns / 1000:,.1f} us: {100 * (mean_ns / kernel_mean_ns - 1):+.1f} % of the kernel's"
        )
    quality = recording.manifest.quality
    print(
        f"  fio     {job['total_ios']:>9,} I/Os, median lat {medians['lat'] / 1000:,.1f} us, "
        f"clat {medians['clat'] / 1000:,.1f} us\n"
        f"  events lost: {quality.events_lost:,}; unpaired: {quality.unpaired_issues + quality.unpaired_completions}"
    )


def tell_overhead(device: str, folder: Path, tools: list[str], arguments: argparse.Namespace) -> None:
    """fio alone and beside each tool, round after round."""
    spent_us: list[float] = []
    lost: list[int] = []
    rates: dict[str, list[float]] = {tool: [] for tool in ("alone", *tools)}
    for number in range(arguments.rounds):
        order = ["alone", *tools]
        order = order[number % len(order) :] + order[: number % len(order)]
        for tool in order:
            # What the run before left to be written is not this one's burden.
            os.sync()
            with TOOLS.get(tool, nothing)(device, folder):
                job = fio(device, arguments.seconds, 32, arguments.rate)
            rates[tool].append(job["iops"])
            if tool == "iotrace":
                lost.append(Recording.open(folder / "bench.iotrace").manifest.quality.events_lost)
                spent_us.append(PROCESSOR_SECONDS[-1] * 1e6 / job["total_ios"])
    alone = rates["alone"]
    span = f"from {min(alone):,.0f} to {max(alone):,.0f}"
    print(f"fio alone: {statistics.median(alone):,.0f} I/Os a second ({span})")
    for tool in tools:
        ratios = [with_it / without for with_it, without in zip(rates[tool], alone, strict=True)]
        print(f"  beside {tool:<12} IOPS {ratio_text(ratios)}")
    if spent_us:
        span = f"from {min(spent_us):.2f} to {max(spent_us):.2f}"
        print(f"  iotrace's own processor time: {statistics.median(spent_us):.2f} us an I/O ({span})")
        rounds = f"{sum(count > 0 for count in lost)} of {len(lost)} rounds"
        print(f"  events that iotrace lost: {sum(lost):,}, in {rounds}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rate", type=int, default=0, help="I/Os a second; 0: as many as possible")
    parser.add_argument("--tools", default=",".join(TOOLS))
    arguments = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("fio") is None or shutil.which("losetup") is None:
        print("skipped: needs root, fio and losetup")
        return
    programs = {"trace points": "fio", "iotrace": "fio", "perf record": "perf", "biosnoop": "bpftrace"}
    tools = [name for name in arguments.tools.split(",") if shutil.which(programs[name])]
    memory = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix="bench_capture-") as name:
        folder = Path(name)
        with loop_device(memory, direct=False) as device:
            tell_overhead(device, folder, tools, arguments)
            for size, depth in (("4k", 32), ("32k", 128)):
                record_one(
                    device, folder, f"{depth} of {size} at a time from memory", arguments.seconds, depth, size
                )
        with loop_device(folder, direct=True) as device:
            for size in ("4k", "256k"):
                record_one(device, folder, f"{size} one at a time from the disk", arguments.seconds, 1, size)


if __name__ == "__main__":
    main()
