"""Limits of planted cgroups, as Linux writes them (Documentation/admin-guide/cgroup-v1/blkio-controller, cgroup-v2)."""

from pathlib import Path

import pytest

from iotrace.capture.linux import cgroups
from iotrace.capture.linux.cgroups import asked_disks, io_limits
from iotrace.capture.linux.devices import BlockDevice, Selection
from iotrace.schemas.host import IoLimit


def block_device(name, major, minor, disk_minor=None):
    number = major << 20 | minor
    disk = number if disk_minor is None else major << 20 | disk_minor
    return BlockDevice(name, number, disk, 0, 8, Path("/sys/block") / name)


SDB, SDC = block_device("sdb", 8, 16), block_device("sdc", 8, 32)


def plant(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


FIRST = {
    "blkio__throttle__read_iops_device": "", "blkio__throttle__write_iops_device": "",
    "blkio__throttle__read_bps_device": "", "blkio__throttle__write_bps_device": "",
}  # fmt: skip


def test_version_1_has_a_file_for_each_limit(tmp_path):
    root = plant(tmp_path / "blkio", **FIRST)
    plant(root / "docker/4f", **FIRST | {
        "blkio__throttle__read_iops_device": "8:16 200\n8:0 9\n", "blkio__throttle__write_bps_device": "8:16 1048576\n",
    })  # fmt: skip
    plant(root / "docker/50", **FIRST | {"blkio__throttle__write_iops_device": "8:32 7\n8:1 5\n"})
    assert io_limits([SDB, SDC], [root]) == [
        IoLimit("/docker/4f", "sdb", read_iops=200, write_bytes_per_s=1 << 20),
        IoLimit("/docker/50", "sdc", write_iops=7),
    ]


def test_version_2_has_one_file_in_which_max_is_no_limit(tmp_path):
    root = plant(tmp_path, cgroup__controllers="cpu io memory\n")
    plant(
        root / "system.slice/.hidden", io__max="8:16 rbps=max wbps=8388608 riops=max wiops=300\n8:0 riops=1\n"
    )
    plant(root / "system.slice", io__max="8:32 rbps=max wbps=max riops=max wiops=max\n")
    assert io_limits([SDB, SDC], [root]) == [
        IoLimit("/system.slice/.hidden", "sdb", write_iops=300, write_bytes_per_s=8 << 20)
    ]


def test_a_container_sees_the_limit_of_its_own_cgroup_as_that_of_the_root(tmp_path):
    plant(tmp_path, cgroup__controllers="io\n", io__max="8:16 riops=200\n")
    assert io_limits([SDB], [tmp_path]) == [IoLimit("/", "sdb", read_iops=200)]


def test_hierarchies_without_limits_and_mounts_that_are_gone_hold_none(tmp_path):
    plant(tmp_path / "cpu/deep", io__max="8:16 riops=200\n")
    assert io_limits([SDB], [tmp_path / "cpu", tmp_path / "gone"]) == []


@pytest.mark.parametrize(
    "text", ["", "\n", "8:16\n", "8:16 riops\n", "8:16 riops=-1\n", "8:16 other=5\n", "\xff\n"]
)
def test_lines_of_another_form_are_no_limit(tmp_path, text):
    plant(tmp_path, cgroup__controllers="io\n", io__max=text)
    plant(tmp_path, **FIRST | {"blkio__throttle__read_iops_device": text})
    assert io_limits([SDB], [tmp_path]) == []


def test_of_very_many_cgroups_the_outermost_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_CGROUPS_MAX", 4)
    plant(tmp_path, cgroup__controllers="io\n")
    for name in ("a", "a/1", "a/1/2", "b"):
        plant(tmp_path / name, io__max="8:16 riops=200\n")
    assert [limit.cgroup for limit in io_limits([SDB], [tmp_path])] == ["/a", "/b", "/a/1"]


def test_the_disks_beneath_a_volume_are_not_asked_for_and_that_of_a_partition_is():
    volume, part = block_device("dm-3", 253, 3), block_device("sdc1", 8, 33, 32)
    selection = Selection({"/data": volume, "/log": part}, [volume, SDC, SDB], {}, {"/data": [SDB]})
    assert asked_disks(selection) == [volume, SDC]
