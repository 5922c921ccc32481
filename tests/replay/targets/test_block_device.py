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


def test_a_partition_of_a_disk_that_is_mounted_as_a_whole(system: Path) -> None:
    (system / "proc/self/mountinfo").write_text("30 22 8:0 / /all rw - ext4 /dev/sda rw\n")
    assert block_device.use(SDA1, root=system) == "its disk sda is mounted on /all"


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
    assert block_device.use(SDA1, root=system) == "its disk sda is part of dm-0 (RAID, LVM or the like)"


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


@pytest.mark.parametrize(
    ("file", "text", "name", "value"),
    [
        ("queue/logical_block_size", "4096", "logical_block_bytes", 4096),
        ("queue/logical_block_size", "", "logical_block_bytes", 4096),
        ("queue/physical_block_size", "0", "physical_block_bytes", None),
        ("queue/physical_block_size", "8192", "physical_block_bytes", 8192),
        ("queue/write_cache", "write through", "write_cache", False),
        ("queue/write_cache", "", "write_cache", None),
        ("queue/rotational", "1", "rotational", True),
        ("queue/rotational", "", "rotational", None),
        ("device/model", " ST4000 \n", "model", "ST4000"),
    ],
)
def test_facts_as_the_system_words_them(system: Path, file: str, text: str, name: str, value: object) -> None:
    path = system / "sys/block/sda" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert getattr(block_device.facts(SDA, root=system), name) == value
    assert not block_device.facts(SDA, root=system).partition


def test_facts_of_a_disk_that_tells_nothing(system: Path) -> None:
    assert block_device.facts(SDB, root=system) == block_device.DeviceFacts(
        "sdb", 4096, None, None, None, None, partition=False
    )
    assert block_device.facts(MD0, root=system) == block_device.DeviceFacts(
        "", 4096, None, None, None, None, partition=False
    )


def test_swap_in_use_is_known_by_its_number(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"/dev/sdb": SDB, "/dev/sda 1": SDA1, "/swap.img": 0}
    real = Path.stat

    def planted(path: Path, **options: bool) -> os.stat_result:
        if str(path) in named:
            return os.stat_result([0] * 10, {"st_rdev": named[str(path)]})
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", planted)
    (system / "proc/swaps").write_text(
        "Filename Type\n/swap.img file 1\n/dev/sdb partition 1\n/dev/sda\\0401 x\n"
    )
    assert [str(path) for path in block_device.swap_files(root=system)] == [
        "/swap.img", "/dev/sdb", "/dev/sda 1",
    ]  # fmt: skip
    assert block_device.use(SDB, root=system) == "it is swap space in use"
    assert block_device.use(SDA, root=system) == "its partition sda1 is swap space in use"
    assert block_device.use(SDA1, root=system) == "it is swap space in use"


LIKE_A_LINE_S_END = ["\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\xa0", "\udcff"]
"""Python ends lines or words with them, or does not take them for text; the kernel writes them as they are."""


@pytest.mark.parametrize("sign", LIKE_A_LINE_S_END)
def test_a_name_like_a_line_s_end_hides_neither_a_mount_nor_swap(system: Path, sign: str) -> None:
    (system / "proc/self/mountinfo").write_bytes(
        f"30 22 8:32 / /a{sign}b rw - ext4 /dev/sdc rw\n31 22 8:16 / /data rw - xfs /dev/sdb rw\n".encode(
            "utf-8", "surrogateescape"
        )
    )
    (system / "proc/swaps").write_bytes(
        f"Filename Type\n/swap{sign}file   file 1\n".encode("utf-8", "surrogateescape")
    )
    assert block_device.use(SDB, root=system) == "it is mounted on /data"
    assert block_device.mount_points(root=system)[0] == ("8:32", f"/a{sign}b", "ext4")
    assert [str(path) for path in block_device.swap_files(root=system)] == [f"/swap{sign}file"]


def test_where_there_is_no_list_of_swap_there_is_none(system: Path) -> None:
    (system / "proc/swaps").unlink()
    assert block_device.swap_files(root=system) == []
    assert block_device.use(SDA, root=system) is None


def test_a_holder_of_the_device_itself(system: Path) -> None:
    for holder in ("md1", "dm-3"):
        (system / "sys/block/sdb/holders" / holder).mkdir()
    assert block_device.use(SDB, root=system) == "it is part of dm-3 (RAID, LVM or the like)"
    assert block_device.use(SDA, root=system) is None


def test_a_mount_is_known_by_its_source_too(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of btrfs, whose mounts have a number of no device."""
    (system / "proc/self/mountinfo").write_text(
        "1 0 0:50 / /data rw - btrfs /dev/sdb rw\n2 0 0:51 / /again rw - btrfs /dev/sdb rw\n"
        "3 0 0:52 / /run rw - tmpfs sdb rw\n"
    )
    real = Path.stat

    def planted(path: Path, **options: bool) -> os.stat_result:
        if str(path) in {"/dev/sdb", "sdb"}:
            return os.stat_result([0] * 10, {"st_rdev": SDB if path.is_absolute() else SDA})
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", planted)
    assert block_device.use(SDB, root=system) == "it is mounted on /data"
    assert block_device.use(SDA, root=system) is None


def test_every_mount_with_its_number(system: Path) -> None:
    (system / "proc/self/mountinfo").write_text(
        "1 0 8:16 / / rw shared:3 master:1 - xfs /dev/sdb rw\n2 0 8:1 / /my\\011data rw - ext4 /dev/sda1 rw\n"
        "3 0 8:1 / /again rw - vfat /dev/sda1 rw\n"
    )
    assert block_device.mount_points(root=system) == [
        ("8:16", "/", "xfs"), ("8:1", "/my\tdata", "ext4"), ("8:1", "/again", "vfat"),
    ]  # fmt: skip
    assert block_device.filesystem_with(SDB, root=system) == "xfs"
    assert block_device.filesystem_with(SDA1, root=system) == "ext4"
    assert block_device.filesystem_with(SDA, root=system) is None


def test_of_two_mounts_on_one_point_the_later_holds(system: Path, tmp_path: Path) -> None:
    (system / "proc/self/mountinfo").write_text(
        f"1 0 0:1 / {tmp_path} rw - ext4 a rw\n2 0 0:2 / {tmp_path} rw - xfs b rw\n3 0 0:3 / / rw - btrfs c rw\n"
    )
    assert block_device.filesystem_of(tmp_path, root=system) == "xfs"
    assert block_device.filesystem_of(tmp_path / "a/b", root=system) == "xfs"
    assert block_device.filesystem_of(tmp_path.parent, root=system) == "btrfs"


def test_the_number_of_a_disk_is_that_of_its_partitions(system: Path) -> None:
    assert block_device.sequence(SDA, root=system) is None
    (system / "sys/block/sda/diskseq").write_text("17\n")
    assert block_device.sequence(SDA, root=system) == 17
    assert block_device.sequence(SDA1, root=system) == 17
    assert block_device.sequence(SDB, root=system) is None


@pytest.mark.parametrize(("fields", "is_told"), [(13, False), (14, True), (20, True)])
def test_counters_of_a_kernel_that_counts_less_are_none(system: Path, fields: int, is_told: bool) -> None:
    line = " ".join(["8", "16", "sdb", *map(str, range(101, 120))][:fields])
    (system / "proc/diskstats").write_text(f"   8  0 sda {'1 ' * 11}\n   {line}\n")
    found = block_device.counters(SDB, root=system)
    told = DeviceCounters(
        101, 103 * 512, 104_000_000, 105, 107 * 512, 108_000_000, in_flight=109, busy_ns=110_000_000
    )
    assert found == (told if is_told else None)


def test_where_the_system_counts_nothing_there_are_no_counters(system: Path) -> None:
    assert block_device.counters(SDA, root=system) is None
