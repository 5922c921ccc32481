"""Targets that are exchanged for others between the look at them and their opening."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrace.replay.targets import block_device, target
from iotrace.replay.targets.refusals import Permission
from iotrace.replay.targets.target import open_target
from iotrace.schemas import IotraceError

MIB = 1 << 20

pytestmark = pytest.mark.xdist_group("root")


def attach(image: Path, device: str | None = None) -> str:
    words = ["losetup", device, str(image)] if device else ["losetup", "--find", "--show", str(image)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device can be had: {done.stderr}")
    return device or done.stdout.strip()


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[list[str]]:
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        pytest.skip("loop devices need root and losetup")
    devices = []
    try:
        for name in ("first", "second"):
            (tmp_path / name).write_bytes(bytes(8 * MIB))
            devices.append(attach(tmp_path / name))
        yield devices
    finally:
        for device in devices:
            backing = Path(f"/sys/block/{Path(device).name}/loop/backing_file")
            # Whoever was quicker may have got the number of a disk that was pulled.
            if backing.exists() and backing.read_text().startswith(str(tmp_path)):
                subprocess.run(["losetup", "--detach", device], capture_output=True, check=False)


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Let ``act`` happen after the device was looked at and before it is opened."""
    real = target.refuse_device_by_name

    def looked_at(*words: object) -> None:
        real(*words)  # type: ignore[arg-type]
        act()

    monkeypatch.setattr(target, "refuse_device_by_name", looked_at)


def refused(name: str) -> None:
    permission = Permission(allow_writes=True, destroy_data=(name,))
    with pytest.raises(IotraceError, match="changed while it was opened") as caught:
        open_target(name, writes=True, permission=permission, direct=False, needed_bytes=MIB)
    assert name in caught.value.message
    assert caught.value.hint


def test_a_name_that_comes_to_mean_another_disk(
    two_disks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "disk"
    try:
        os.mknod(node, 0o600 | 0o060000, Path(two_disks[0]).stat().st_rdev)
        os.close(os.open(node, os.O_RDONLY))
    except OSError as problem:
        pytest.skip(f"no device node can be made or used here: {problem}")

    def exchange() -> None:
        node.unlink()
        os.mknod(node, 0o600 | 0o060000, Path(two_disks[1]).stat().st_rdev)

    between(monkeypatch, exchange)
    refused(str(node))


def test_a_disk_that_is_pulled_and_another_put_in_its_place(
    two_disks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same name and the same number; only the kernel's count of disks tells."""
    device = two_disks[0]
    if block_device.sequence(Path(device).stat().st_rdev) is None:
        pytest.skip("this kernel does not count disks")
    precious = tmp_path / "precious"
    precious.write_bytes(bytes(8 * MIB))

    def exchange() -> None:
        subprocess.run(["losetup", "--detach", device], check=True)
        attach(precious, device)

    between(monkeypatch, exchange)
    refused(device)
    assert precious.read_bytes() == bytes(8 * MIB)


def test_a_file_that_is_exchanged_for_another_of_iotraces_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both could be written; but it is not the one that was looked at."""
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        open_target(str(path), writes=True, permission=Permission(), direct=False, needed_bytes=MIB).close()
    real = target._own_fill

    def exchanged(path: Path) -> object:
        found = real(path)
        other.replace(one)
        return found

    monkeypatch.setattr(target, "_own_fill", exchanged)
    refused(str(one))
