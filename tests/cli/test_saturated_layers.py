"""Devices slowed down on purpose, at a layer that is known: the knee has to name it."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import IotraceError

from .conftest import make_recording

SIZE_BYTES = 64 << 20
DELAY_S = 0.002
THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device")
CPU = Path("/sys/fs/cgroup/cpu")

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.skipif(shutil.which("losetup") is None, reason="losetup is not installed"),
    pytest.mark.skipif(not Path("/sys/kernel/tracing/instances").is_dir(), reason="tracefs is not mounted"),
]


@contextmanager
def loop(backing: str | Path) -> Iterator[str]:
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(backing)]
    done = subprocess.run(attach, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device to be had: {done.stderr.strip()}")
    device = done.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def queue(device: str) -> Path:
    return Path("/sys/block") / Path(device).name / "queue"


@pytest.fixture
def slow_medium(tmp_path: Path) -> Iterator[str]:
    """A device over a device that the kernel holds to 1,000 reads a second: its driver is what waits."""
    if not THROTTLE.exists():
        pytest.skip("no cgroup of version 1 here throttles block devices")
    image = tmp_path / "medium.img"
    image.write_bytes(os.urandom(SIZE_BYTES))
    with loop(image) as medium, loop(medium) as device:
        number = (Path("/sys/block") / Path(medium).name / "dev").read_text().strip()
        THROTTLE.write_text(f"{number} 1000")
        try:
            yield device
        finally:
            THROTTLE.write_text(f"{number} 0")


@pytest.fixture
def few_requests(tmp_path: Path) -> Iterator[str]:
    """A device of 2 ms however much it has to do, to which the host gives at most four requests at a time."""
    if not Path("/dev/fuse").exists():
        pytest.skip("the kernel has no FUSE")
    image = tmp_path / "slow" / "disk"
    image.parent.mkdir()
    command = [sys.executable, Path(__file__).parent / "slow_file.py", image, SIZE_BYTES, DELAY_S]
    with subprocess.Popen([str(word) for word in command]) as server:
        try:
            deadline = time.monotonic() + 10
            while not image.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            with loop(image) as device:
                requests = queue(device) / "nr_requests"
                usual = requests.read_text()
                requests.write_text("4")
                try:
                    yield device
                finally:
                    # A loop device keeps its settings for whoever gets it next.
                    requests.write_text(usual)
        finally:
            server.terminate()


@pytest.fixture
def starved() -> Iterator[Path]:
    """A cgroup whose members get 3 % of one processor."""
    if not (CPU / "cpu.cfs_quota_us").exists():
        pytest.skip("no cgroup of version 1 here limits processor time")
    group = CPU / f"iotrace-test-{os.getpid()}"
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("3000")
    yield group
    group.rmdir()


def sweep(folder: Path, device: str, scales: str, *options: str) -> dict[str, Any]:
    source = make_recording(folder / "prod.iotrace", reads_per_second=100, seconds=20).path
    words = ["sweep", source, "--target", device, "--reads-only", "--json", "--scales", scales]
    command = [
        sys.executable,
        "-m",
        "iotrace.cli",
        *words,
        "--step-seconds",
        "3",
        "-o",
        folder / "a.iotrace",
        *options,
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_a_slow_device_is_named(slow_medium: str, tmp_path: Path) -> None:
    found = sweep(tmp_path, slow_medium, "1x,4x,20x", "--watch")

    assert found["state"] == "reached"
    assert found["saturated_layer"] == "device", found["causes"]
    assert "the device layer saturates" in found["sentence"]


def test_the_hosts_queue_is_named_where_it_gives_the_device_four_at_a_time(
    few_requests: str, tmp_path: Path
) -> None:
    found = sweep(tmp_path, few_requests, "1x,4x,40x", "--watch")

    assert found["saturated_layer"] == "block", found["causes"]
    assert found["causes"][0]["kind"] == "host_queue"
    last = found["steps"][-1]["layers"]
    assert last["device_in_flight_max"] == 4
    assert last["device_in_flight"] > 3


def test_a_starved_generator_is_named_and_the_storage_is_not_judged(
    few_requests: str, starved: Path, tmp_path: Path
) -> None:
    """The same device without its limit: thousands of reads a second are nothing to it, but to the replay."""
    (queue(few_requests) / "nr_requests").write_text("128")
    source = make_recording(tmp_path / "prod.iotrace", reads_per_second=2000, seconds=4).path
    replay = ["replay", source, "--target", few_requests, "--reads-only", "--json"]
    for scale in ("2x", "4x"):
        step = [
            sys.executable,
            "-m",
            "iotrace.cli",
            *replay,
            "--scale",
            scale,
            "-o",
            tmp_path / f"{scale}.iotrace",
        ]
        # Only the replay is starved, not the interpreter's start.
        with subprocess.Popen([str(word) for word in step], stdout=subprocess.DEVNULL) as player:
            time.sleep(1)
            (starved / "cgroup.procs").write_text(str(player.pid))
            player.wait()
    again = ["knee", tmp_path / "2x.iotrace", tmp_path / "4x.iotrace", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli", *(str(word) for word in again)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["state"] == "not_judged"
    assert found["causes"][0]["kind"] == "generator"
    assert "generator-limited" in found["causes"][0]["sentence"]


def test_a_full_disk_queue_hardly_holds_the_replay_up(slow_medium: str, tmp_path: Path) -> None:
    """Half more reads than the disk can serve: the file system would put to sleep whoever submits them."""
    subprocess.run(["mkfs.ext4", "-q", slow_medium], check=True)
    point = tmp_path / "mount"
    point.mkdir()
    source = make_recording(tmp_path / "prod.iotrace", reads_per_second=1500, seconds=2)
    requests = queue(slow_medium) / "nr_requests"
    usual = requests.read_text()
    requests.write_text("4")
    subprocess.run(["mount", slow_medium, point], check=True)
    try:
        options = ReplayOptions(targets=(str(point / "target"),), file_bytes=16 << 20, backend="io_uring")
        facts = replay(source, tmp_path / "out.iotrace", options).manifest.replay
    except IotraceError as problem:
        pytest.skip(problem.message)
    finally:
        subprocess.run(["umount", point], check=True)
        requests.write_text(usual)

    assert facts is not None
    assert facts.completed_ios == 3000
    assert facts.response_ns_p50 > 100e6  # served at 1,000 a second, the last ones wait for a second
    # Held up by each full batch, it would wait over a hundred times.
    assert 1 <= facts.waits_for_room <= 20
    assert not facts.generator_limited
