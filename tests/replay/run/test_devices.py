"""Real block devices, as loop devices: written where told to and nowhere else, and only when told twice."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import IotraceError, Recording

from ..conftest import MakeRecording

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("root")]

SIZE_BYTES = 64 << 20
MARKED = b"\x5a"

MakeDevice = Callable[[], str]


def run(*words: str | Path) -> str:
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def make_device(disk: Path) -> Iterator[MakeDevice]:
    """Loop devices of 64 MiB, every byte 0x5a."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    if shutil.which("losetup") is None:
        pytest.skip("losetup is not installed")
    devices: list[str] = []

    def make() -> str:
        image = disk / f"disk{len(devices)}"
        image.write_bytes(MARKED * SIZE_BYTES)
        try:
            devices.append(run("losetup", "--find", "--show", "--direct-io=on", image))
        except subprocess.CalledProcessError as problem:
            pytest.skip(f"no loop device can be had: {problem.stderr}")
        return devices[-1]

    yield make
    for device in devices:
        run("losetup", "--detach", device)


def write_recording(make_recording: MakeRecording) -> Recording:
    """Ten writes of 8 KiB to every other 8 KiB from 1 MiB on, alternating between two devices, and a read between."""
    return make_recording(
        op=["write"] * 10 + ["read"],
        offset_bytes=[(1 << 20) + 16384 * row for row in range(10)] + [0],
        device_id=[row % 2 for row in range(10)] + [0],
        flags=[8] * 10 + [0],
    )


def destroying(*devices: str, **more: object) -> ReplayOptions:
    maps = {1: devices[1]} if len(devices) > 1 else {}
    return ReplayOptions(
        targets=devices[:1],
        maps=maps,
        allow_writes=True,
        destroy_data=devices,
        **more,  # type: ignore[arg-type]
    )


def changed_blocks(device: str) -> list[int]:
    """Offsets of the 4 KiB blocks that are not as they were made."""
    content = Path(device).read_bytes()
    return [at for at in range(0, SIZE_BYTES, 4096) if content[at : at + 4096] != MARKED * 4096]


def test_two_devices_are_written_where_told_and_nowhere_else(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path
) -> None:
    first, second = make_device(), make_device()
    out = replay(write_recording(make_recording), tmp_path / "out.iotrace", destroying(first, second))
    assert changed_blocks(first) == [
        (1 << 20) + 16384 * row + half for row in range(0, 10, 2) for half in (0, 4096)
    ]
    assert changed_blocks(second) == [
        (1 << 20) + 16384 * row + half for row in range(1, 10, 2) for half in (0, 4096)
    ]
    facts = out.manifest.replay
    assert facts is not None
    assert [entry.mode for entry in facts.mapping] == ["identity", "identity"]
    assert [entry.kind for entry in facts.targets] == ["disk", "disk"]
    counters = facts.device_counters[Path(first).name]
    assert counters.after.writes - counters.before.writes >= 5


def test_reading_a_device_needs_no_permission(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path
) -> None:
    device = make_device()
    plan = ReplayOptions(targets=(device,), reads_only=True)
    out = replay(write_recording(make_recording), tmp_path / "out.iotrace", plan)
    assert out.manifest.rows["io"] == 1
    assert changed_blocks(device) == []


@pytest.mark.parametrize("named", [(), ("/dev/loop999",)])
def test_a_device_not_named_again_is_refused(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path, named: tuple[str, ...]
) -> None:
    device = make_device()
    plan = ReplayOptions(targets=(device,), allow_writes=True, destroy_data=named)
    with pytest.raises(IotraceError):
        replay(write_recording(make_recording), tmp_path / "out.iotrace", plan)
    assert changed_blocks(device) == []


def refused(recording: Recording, device: str, output: Path, message: str) -> None:
    before = Path(device).read_bytes()
    with pytest.raises(IotraceError, match=message) as caught:
        replay(recording, output, destroying(device))
    assert f"'{device}'" in caught.value.message
    assert caught.value.hint
    assert Path(device).read_bytes() == before


def test_a_file_system_is_refused_mounted_or_not(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path
) -> None:
    device, mount = make_device(), tmp_path / "mount"
    run("mkfs.ext4", "-q", "-F", device)
    recording = write_recording(make_recording)
    refused(recording, device, tmp_path / "out.iotrace", "is not written: it holds an ext2/3/4 file system")
    mount.mkdir()
    try:
        run("mount", device, mount)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"mounting is not possible here: {problem.stderr}")
    try:
        with pytest.raises(IotraceError, match=f"it is mounted on {mount}"):
            replay(recording, tmp_path / "out.iotrace", destroying(device))
    finally:
        run("umount", mount)


def test_swap_in_use_is_refused(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path
) -> None:
    device = make_device()
    run("mkswap", device)
    recording = write_recording(make_recording)
    refused(recording, device, tmp_path / "out.iotrace", "it holds swap space")
    try:
        run("swapon", device)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"swapping is not possible here: {problem.stderr}")
    try:
        with pytest.raises(IotraceError, match="is not written: it is swap space in use"):
            replay(recording, tmp_path / "out.iotrace", destroying(device))
    finally:
        run("swapoff", device)


def test_a_device_somebody_holds_exclusively_is_refused(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path
) -> None:
    """As RAID, LVM, ZFS and the like do, whatever their names are."""
    device = make_device()
    holder = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        refused(write_recording(make_recording), device, tmp_path / "out.iotrace", "the system is using it")
    finally:
        os.close(holder)


def test_a_partition_in_use_protects_its_disk(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path
) -> None:
    """The table itself is wiped, so that only the partition the kernel still knows stands in the way."""
    device = make_device()
    first, length = 2048, 65536
    entry = bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) + first.to_bytes(4, "little") + length.to_bytes(4, "little")
    with Path(device).open("r+b") as file:
        file.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
    name = Path(device).name
    with contextlib.suppress(subprocess.CalledProcessError, FileNotFoundError):
        run("partx", "--add", device)
    partition = Path("/dev") / f"{name}p1"
    if not partition.exists():
        pytest.skip("partitions of loop devices cannot be had here")
    recording = write_recording(make_recording)
    mount = tmp_path / "mount"
    mount.mkdir()
    try:
        refused(recording, device, tmp_path / "out.iotrace", "it holds a partition table")
        run("mkfs.ext4", "-q", "-F", partition)
        run("mount", partition, mount)
        try:
            with pytest.raises(IotraceError, match=f"its partition {name}p1 is mounted on {mount}"):
                replay(recording, tmp_path / "out.iotrace", destroying(device))
        finally:
            run("umount", mount)
    finally:
        run("partx", "--delete", device)


def test_a_device_too_small_is_named(
    make_recording: MakeRecording, make_device: MakeDevice, tmp_path: Path
) -> None:
    device = make_device()
    recording = make_recording(size_bytes=[1 << 20] * 65, offset_bytes=[row << 20 for row in range(65)])
    with pytest.raises(
        IotraceError, match=f"target '{device}' is too small: .* 68,157,440 bytes, it has 67,108,864"
    ):
        replay(recording, tmp_path / "out.iotrace", ReplayOptions(targets=(device,)))
