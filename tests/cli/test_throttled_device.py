"""A device of known capacity: the kernel holds a loop device to 2,000 I/Os per second; the sweep has to find that."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import make_recording

IOPS = 2000
SIZE_BYTES = 64 << 20

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.xdist_group("root")]


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        pytest.skip("loop devices need root and losetup")
    backing = tmp_path / "backing.img"
    backing.write_bytes(os.urandom(SIZE_BYTES))
    made = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", backing],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no loop device to be had: {made.stderr.strip()}")
    device = made.stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture
def throttled_group(loop_device: str) -> Iterator[Path]:
    """A cgroup whose members get IOPS reads per second from the device."""
    number = Path(loop_device).stat().st_rdev
    device = f"{os.major(number)}:{os.minor(number)}"
    first, second = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
    if (first / "blkio.throttle.read_iops_device").exists():
        group, limit = (
            first / f"iotrace-test-{os.getpid()}",
            ("blkio.throttle.read_iops_device", f"{device} {IOPS}"),
        )
    elif "io" in (second / "cgroup.subtree_control").read_text().split():
        group, limit = second / f"iotrace-test-{os.getpid()}", ("io.max", f"{device} riops={IOPS}")
    else:
        pytest.skip("no cgroup here throttles block devices")
    group.mkdir()
    (group / limit[0]).write_text(limit[1])
    yield group
    group.rmdir()


def sweep(
    source: Path, device: str, output: Path, *options: str, group: Path | None = None
) -> dict[str, object]:
    command = [
        sys.executable,
        "-m",
        "iotrace.cli",
        "sweep",
        str(source),
        "--target",
        device,
        "--json",
        *options,
    ]

    def join() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    done = subprocess.run(
        [*command, "-o", str(output)], capture_output=True, text=True, check=False, preexec_fn=join
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_a_closed_loop_saturates_at_the_throttle(
    loop_device: str, throttled_group: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "iotrace.cli", "characterize", "--target", loop_device, "--json"]
    words = ["--outstanding", "1..64", "--seconds", "4", "--warm-up", "1", "-o", str(tmp_path / "a.iotrace")]

    def join() -> None:
        (throttled_group / "cgroup.procs").write_text(str(os.getpid()))

    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, preexec_fn=join)

    assert done.returncode in (0, 1), done.stderr
    (series,) = json.loads(done.stdout)["series"]
    found = series["saturation"]
    # An idle machine reads faster than the throttle allows already with one outstanding.
    assert found["state"] in ("reached", "at_lowest")
    assert found["outstanding"]["high"] <= 32
    assert found["iops"]["value"] == pytest.approx(IOPS, rel=0.10)
    assert series["cells"][-1]["iops"] == pytest.approx(IOPS, rel=0.10)


def test_the_knee_lies_at_the_throttle_and_nowhere_without_it(
    loop_device: str, throttled_group: Path, tmp_path: Path
) -> None:
    source = make_recording(tmp_path / "prod.iotrace", reads_per_second=500, seconds=20).path

    throttled = sweep(
        source, loop_device, tmp_path / "a.iotrace", "--step-seconds", "5", group=throttled_group
    )

    assert throttled["state"] == "reached"
    assert throttled["iops"]["value"] == pytest.approx(IOPS, rel=0.10)
    assert throttled["iops"]["low"] <= IOPS * 1.1
    assert throttled["iops"]["high"] >= IOPS * 0.9

    scales = ",".join(f"{step['scale']:g}x" for step in throttled["steps"])
    free = sweep(source, loop_device, tmp_path / "b.iotrace", "--step-seconds", "5", "--scales", scales)
    assert free["state"] == "not_reached"
