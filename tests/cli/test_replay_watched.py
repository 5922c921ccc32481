"""A recorder watches the target during a replay: it sees exactly the plan, when the engine says that it happened."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

INSTANCES = Path("/sys/kernel/tracing/instances")
SIZE_BYTES = 256 << 20
ROWS = 20_000

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="tracing needs root"),
    pytest.mark.skipif(not INSTANCES.is_dir(), reason="tracefs is not mounted at /sys/kernel/tracing"),
    pytest.mark.skipif(shutil.which("losetup") is None, reason="losetup is not installed"),
]


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(image)]
    done = subprocess.run(attach, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device to be had: {done.stderr.strip()}")
    device = done.stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


def make_plan(path: Path) -> Recording:
    """Reads and writes of 4 to 256 KiB over 10 s, some alone and some in bursts, none due together with a neighbour."""
    random = np.random.default_rng(3)
    sizes = random.choice([4096, 8192, 65536, 262_144], ROWS, p=[0.3, 0.5, 0.15, 0.05])
    offsets = random.integers(0, (SIZE_BYTES - 262_144) // 4096, ROWS) * 4096
    with RecordingWriter(path) as writer:
        writer.append(
            "io",
            pa.table(
                {
                    "layer": ["block"] * ROWS,
                    "op": random.choice(["read", "write"], ROWS, p=[0.7, 0.3]).tolist(),
                    "issued_ns": np.sort(random.integers(0, 10_000_000_000, ROWS)),
                    "offset_bytes": offsets,
                    "size_bytes": sizes,
                    "device_id": [0] * ROWS,
                }
            ),
        )
        writer.append("devices", pa.table({"device_id": [0], "name": ["sda"], "kind": ["disk"]}))
        clock = Clock(start_utc_ns=0, resolution_ns=1, name="planted")
        return writer.commit(Manifest("synthetic", "plan", clock, window_end_ns=10_000_000_000))


def watched(device: str, path: Path) -> tuple[threading.Thread, threading.Event, list[Recording]]:
    from iotrace.capture.linux import record

    stop, outcome = threading.Event(), []

    def watch() -> None:
        # The replay runs in this very process, whose own I/O a recorder leaves out unless told otherwise.
        outcome.append(record([device], path, seconds=120, stop=stop))

    thread = threading.Thread(target=watch)
    thread.start()
    deadline = time.monotonic() + 10
    while not list(INSTANCES.glob(f"iotrace-{os.getpid()}-*/events")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    return thread, stop, outcome


REPLAY = """
import sys
from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import Recording

source, device, output = sys.argv[1:]
options = ReplayOptions(targets=(device,), allow_writes=True, destroy_data=(device,))
replay(Recording.open(source), output, options)
"""


def in_order_of_issue(recording: Recording, layer: str) -> pa.Table:
    io = recording.read("io")
    return io.filter(pa.compute.equal(io["layer"], layer)).sort_by("issued_ns")


def test_the_target_gets_exactly_the_plan_when_the_engine_says(loop_device: str, tmp_path: Path) -> None:
    plan = make_plan(tmp_path / "plan.iotrace")
    thread, stop, outcome = watched(loop_device, tmp_path / "seen.iotrace")
    try:
        command = [sys.executable, "-c", REPLAY, plan.path, loop_device, tmp_path / "played.iotrace"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        time.sleep(0.5)
    finally:
        stop.set()
        thread.join()
    seen, played = outcome[0], Recording.open(tmp_path / "played.iotrace")
    assert seen.manifest.quality.events_lost == 0
    planned = in_order_of_issue(plan, "block")
    ours = played.read("io").sort_by("intended_ns")
    theirs = in_order_of_issue(seen, "block")
    # Whatever else touched the device (a look for partitions, the check for signatures) came before the first I/O.
    offset_ns = played.manifest.clock.start_utc_ns - seen.manifest.clock.start_utc_ns
    began_ns = ours["issued_ns"][0].as_py() + offset_ns - 1_000_000
    theirs = theirs.filter(pa.compute.greater_equal(theirs["issued_ns"], began_ns))

    def facts(io: pa.Table) -> list[tuple[Any, ...]]:
        columns = (io["op"].to_pylist(), io["offset_bytes"].to_pylist(), io["size_bytes"].to_pylist())
        return list(zip(*columns, strict=True))

    assert facts(ours) == facts(planned)
    assert theirs.num_rows == ROWS
    # Some 2 % arrive in another order, perhaps overtaking one that the kernel gave to a worker: paired, not zipped.
    sent, seen_io = facts(planned), facts(theirs)
    assert sorted(seen_io) == sorted(sent), "the same I/Os"
    sent_order = sorted(range(ROWS), key=lambda row: (sent[row], row))
    seen_order = sorted(range(ROWS), key=lambda row: (seen_io[row], row))
    apart_ns = theirs["issued_ns"].to_numpy()[seen_order] - (
        ours["issued_ns"].to_numpy()[sent_order] + offset_ns
    )
    assert abs(np.median(apart_ns)) <= 50_000, f"median {np.median(apart_ns):,.0f} ns"
    assert np.percentile(np.abs(apart_ns), 90) <= 1_000_000
