"""Who uses a device, told by a planted /proc and /sys."""

import os
from pathlib import Path

import pytest

from iotrace.replay.targets import block_device
from iotrace.replay.targets.refusals import refuse_recording
from iotrace.schemas import IotraceError
from iotrace.schemas.run import DeviceCounters

SDA, SDA1, SDB, MD0 = (os.makedev(8, 0), os.makedev(8, 1), os.makedev(8, 16), os.makedev(9, 0))


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Disk sda with partition sda1, disk sdb; nothing mounted."""
    devices = {"8:0": "block/sda", "8:1": "block/sda/sda1", "8:16": "block/sdb"}
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    for number, folder in devices.items():
        (tmp_path / "sys" / folder / "holders").mkdir(parents=True)
        (tmp_path / "sys" / folder / "dev").write_text(f"{number}\n")
        (tmp_path / "sys/dev/block" / number).symlink_to(tmp_path / "sys" / folder)
    (tmp_path / "sys/block/sda/sda1/partition").write_text("1\n")
    queue = tmp_path / "sys/block/sda/queue"
    queue.mkdir()
    (queue / "logical_block_size").write_text("512\n")
    (queue / "physical_block_size").write_text("4096\n")
    (queue / "write_cache").write_text("write back\n")
    (queue / "rotational").write_text("0\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("22 1 254:0 / / rw - ext4 /dev/vda rw\n")
    (tmp_path / "proc/swaps").write_text("Filename Type Size Used Priority\n")
    return tmp_path


def test_a_device_nobody_uses(system: Path) -> None:
    assert block_device.use(SDA, root=system) is None
    assert block_device.use(SDA1, root=system) is None


def test_a_mounted_device(system: Path) -> None:
    (system / "proc/self/mountinfo").write_text("30 22 8:16 / /my\\040data rw - xfs /dev/sdb rw\n")
    assert block_device.use(SDB, root=system) == "it is mounted on /my data"


def test_a_disk_whose_partition_is_mounted(system: Path) -> None:
    (system / "proc/self/mountinfo").write_text("30 22 8:1 / /boot rw - ext4 /dev/sda1 rw\n")
    assert block_device.use(SDA, root=system) == "its partition sda1 is mounted on /boot"
    assert block_device.use(SDA1, root=system) == "it is mounted on /boot"


def test_a_disk_whose_partition_is_in_a_raid(system: Path) -> None:
    (system / "sys/block/sda/sda1/holders/md0").mkdir()
    assert block_device.use(SDA, root=system) == "its partition sda1 is part of md0 (RAID, LVM or the like)"


def test_a_partition_of_a_disk_that_is_held_as_a_whole(system: Path) -> None:
    (system / "sys/block/sda/holders/dm-0").mkdir()
    assert block_device.use(SDA1, root=system) == "its disk sda is part of dm-0"


def test_a_device_the_system_does_not_know(system: Path) -> None:
    assert block_device.use(MD0, root=system) == "the system does not know it as a block device"


def test_facts_of_a_partition_are_those_of_its_disk(system: Path) -> None:
    facts = block_device.facts(SDA1, root=system)
    assert (facts.name, facts.partition) == ("sda1", True)
    assert (facts.logical_block_bytes, facts.physical_block_bytes) == (512, 4096)
    assert (facts.write_cache, facts.rotational, facts.model) == (True, False, None)


def test_facts_where_there_is_no_device(system: Path) -> None:
    assert block_device.facts(os.makedev(0, 50), root=system).logical_block_bytes == 4096


def test_counters_are_in_bytes_and_nanoseconds(system: Path) -> None:
    """Fields as Documentation/admin-guide/iostats.rst of the kernel numbers them; sectors are 512 bytes."""
    (system / "proc/diskstats").write_text("   8       0 sda 10 1 80 5 20 2 400 7 3 11 12 0 0 0 0 0 0\n")
    assert block_device.counters(SDA, root=system) == DeviceCounters(
        reads=10,
        read_bytes=80 * 512,
        writes=20,
        written_bytes=400 * 512,
        read_ns=5_000_000,
        write_ns=7_000_000,
        in_flight=3,
        busy_ns=11_000_000,
    )
    assert block_device.counters(SDB, root=system) is None


def test_the_nearest_mount_point_tells_the_file_system(system: Path, tmp_path: Path) -> None:
    (system / "proc/self/mountinfo").write_text(
        f"1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:40 / {tmp_path}/fast rw shared:1 - tmpfs tmpfs rw\n"
    )
    assert block_device.filesystem_of(tmp_path / "fast/x", root=system) == "tmpfs"
    assert block_device.filesystem_of(tmp_path / "faster/x", root=system) == "ext4"


def test_the_file_system_of_a_name_that_leads_in_a_circle(tmp_path: Path) -> None:
    """Another program may replace a name with such a link between any two looks at it."""
    for name, other in (("one", "other"), ("other", "one")):
        (tmp_path / name).symlink_to(tmp_path / other)
    assert block_device.filesystem_of(tmp_path) is not None
    assert block_device.filesystem_of(tmp_path / "one") is None
    with pytest.raises(IotraceError, match="changed while it was opened"):
        refuse_recording(str(tmp_path / "one"))
