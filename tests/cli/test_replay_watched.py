"""A recorder watches the target during a replay: it sees exactly the plan, when the engine says that it happened."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

from iotrace.schemas import Recording, validate

from ..recordings import SDA, write_recording

INSTANCES = Path("/sys/kernel/tracing/instances")
SIZE_BYTES = 256 << 20
ROWS = 20_000
PATIENCE_S = 300
"""Until a recorder is taken for hung: on a machine at work elsewhere it starts in tens of seconds."""

pytestmark = [
    pytest.mark.root,
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


def make_plan(path: Path, rows: int = ROWS, seconds: int = 10) -> Recording:
    """Reads and writes of 4 to 256 KiB, some alone and some in bursts, none due together with a neighbour."""
    random = np.random.default_rng(3)
    sizes = random.choice([4096, 8192, 65536, 262_144], rows, p=[0.3, 0.5, 0.15, 0.05])
    offsets = random.integers(0, (SIZE_BYTES - 262_144) // 4096, rows) * 4096
    window_ns = seconds * 1_000_000_000
    io = {
        "op": random.choice(["read", "write"], rows, p=[0.7, 0.3]).tolist(),
        "issued_ns": np.sort(random.integers(0, window_ns, rows)),
        "offset_bytes": offsets,
        "size_bytes": sizes,
        "device_id": 0,
    }
    return write_recording(path, io, tables={"devices": SDA}, kind="synthetic", window_end_ns=window_ns)


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


def facts(io: pa.Table) -> list[tuple[Any, ...]]:
    columns = (io["op"].to_pylist(), io["offset_bytes"].to_pylist(), io["size_bytes"].to_pylist())
    return list(zip(*columns, strict=True))


def in_order_of_issue(recording: Recording, layer: str) -> pa.Table:
    io = recording.read("io")
    return io.filter(pa.compute.equal(io["layer"], layer)).sort_by("issued_ns")


@pytest.mark.slow
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


PARENT = """
import sys, time
from pathlib import Path
from iotrace.cli.watching import watched

with watched(sys.argv[1:2], Path(sys.argv[2])):
    time.sleep(3600)
"""


@pytest.mark.parametrize(("number", "is_recording"), [(signal.SIGKILL, False), (signal.SIGTERM, True)])
def test_the_recorder_ends_with_a_parent_that_is_killed(
    number: signal.Signals, is_recording: bool, loop_device: str, tmp_path: Path
) -> None:
    """Killed before the recorder has begun, and while it waits for the play."""
    command = [sys.executable, "-c", PARENT, loop_device, str(tmp_path / "seen.iotrace")]
    parent = subprocess.Popen(command)
    wait_for(psutil.Process(parent.pid).children)
    (recorder,) = psutil.Process(parent.pid).children()
    if is_recording:
        wait_for((tmp_path / "seen.iotrace.unfinished" / "manifest.json").exists)
        assert list(INSTANCES.glob(f"iotrace-{recorder.pid}-*/events"))
    parent.send_signal(number)
    parent.wait()
    try:
        wait_for(lambda: not recorder.is_running() or recorder.status() == psutil.STATUS_ZOMBIE)
    finally:
        with suppress(psutil.NoSuchProcess):
            recorder.kill()
    assert not list(INSTANCES.glob(f"iotrace-{recorder.pid}-*"))
    if is_recording:
        assert validate(tmp_path / "seen.iotrace") == []


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_watch_records_what_the_plan_did_to_the_device(loop_device: str, tmp_path: Path) -> None:
    """At the block layer, within the time of the load, the plan's I/Os and no others."""
    plan = make_plan(tmp_path / "plan.iotrace", rows=400, seconds=1)
    words = ["replay", plan.path, "--target", loop_device, "--allow-writes", "--destroy-data", loop_device]
    command = [sys.executable, "-m", "iotrace.cli", *words, "--watch", "--json", "-o", tmp_path / "a.iotrace"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    # 1 means that the run says nothing about the storage: on a busy machine it may be late.
    assert done.returncode in {0, 1}, done.stderr
    seen = Recording.open(json.loads(done.stdout)["watched"])
    assert seen.path == tmp_path / "a.watched.iotrace"
    assert seen.manifest.watched is not None
    assert seen.manifest.watched.replay_uuid == Recording.open(tmp_path / "a.iotrace").manifest.uuid
    theirs = in_order_of_issue(seen, "block")
    from_ns, until_ns = seen.manifest.watched.load_ns
    within = pa.compute.and_(
        pa.compute.greater_equal(theirs["issued_ns"], from_ns), pa.compute.less(theirs["issued_ns"], until_ns)
    )
    assert sorted(facts(theirs.filter(within))) == sorted(facts(plan.read("io")))
