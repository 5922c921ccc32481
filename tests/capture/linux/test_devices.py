"""What a user may call a device, and what is refused."""

import os
import stat
from pathlib import Path

import pytest

from iotrace.capture.linux import record
from iotrace.capture.linux.devices import select
from iotrace.schemas import IotraceError

pytestmark = pytest.mark.skipif(not Path("/sys/dev/block").is_dir(), reason="Linux only")


def backed_by_a_disk(path):
    return os.major(path.stat().st_dev) != 0


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("/dev/no-such-disk", "no device '/dev/no-such-disk': No such file or directory", "lsblk"),
        ("/dev/null", "'/dev/null' is a character device, not a block device", "lsblk"),
        ("/proc", "no block device lies behind '/proc' (proc)", "name a disk"),
    ],
)
def test_words_that_are_no_device(word, message, hint, tmp_path):
    with pytest.raises(IotraceError) as raised:
        record([word], tmp_path / "x.iotrace", seconds=1)
    assert raised.value.message == message
    assert hint in raised.value.hint
    assert not list(tmp_path.iterdir())


def test_no_word_at_all(tmp_path):
    with pytest.raises(IotraceError, match="no device to record"):
        record([], tmp_path / "x.iotrace", seconds=1)


def test_a_path_means_the_device_beneath_it(tmp_path):
    if not backed_by_a_disk(tmp_path):
        pytest.skip("the temporary folder is not on a block device")
    number = tmp_path.stat().st_dev
    found = select([str(tmp_path)]).words[str(tmp_path)]
    assert found.number == os.major(number) << 20 | os.minor(number)


def test_roles_are_known_words_for_recorded_devices(tmp_path):
    if not backed_by_a_disk(tmp_path):
        pytest.skip("the temporary folder is not on a block device")
    here = str(tmp_path)
    with pytest.raises(IotraceError, match="'heap' is no role"):
        select([here], {here: "heap"})
    with pytest.raises(IotraceError, match="lie on one disk"):
        select([here], {here: "data", str(tmp_path / ".."): "log"})


@pytest.fixture
def volumes(tmp_path, monkeypatch):
    """A /sys of one's own: the volume data (LVM) on md0 (RAID 1) on sda2 and sdb, as Linux 6.1 shows such a stack."""
    if os.geteuid() != 0:
        pytest.skip("device nodes can only be made by root")
    sys = tmp_path / "sys"

    def device(path, number, sectors, *, queue=True, start=None, beneath=()):
        folder = sys / "devices" / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "dev").write_text(f"{number}\n")
        (folder / "size").write_text(f"{sectors}\n")
        if start is not None:
            (folder / "partition").write_text("1\n")
            (folder / "start").write_text(f"{start}\n")
        elif queue:
            (folder / "mq").mkdir()
        (folder / "slaves").mkdir()
        for name in beneath:
            (folder / "slaves" / Path(name).name).symlink_to(sys / "devices" / name)
        link = sys / "dev/block" / number
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
        node = tmp_path / Path(path).name
        major, minor = number.split(":")
        os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(int(major), int(minor)))
        return str(node)

    nodes = {
        "sda": device("sda", "8:0", 1000),
        "sda2": device("sda/sda2", "8:2", 600, start=400),
        "sdb": device("sdb", "8:16", 600),
        "md0": device("md0", "9:0", 600, queue=False, beneath=["sda/sda2", "sdb"]),
        "data": device("dm-3", "253:3", 500, queue=False, beneath=["md0"]),
    }
    monkeypatch.setattr("iotrace.capture.linux.devices._SYS", sys)
    return nodes


def test_a_volume_is_recorded_with_the_requests_of_what_it_lies_on(volumes):
    word = volumes["data"]
    selection = select([word], {word: "data"})
    assert [disk.name for disk in selection.disks] == ["dm-3", "sda", "sdb"]
    assert [device.name for device in selection.beneath[word]] == ["sda2", "sdb"]
    dm, sda, sda2, sdb = 253 << 20 | 3, 8 << 20, 8 << 20 | 2, 8 << 20 | 16
    assert selection.trace_filter("block_bio_queue") == f"dev == {dm}"
    assert selection.trace_filter("block_rq_issue") == " || ".join(
        [
            f"dev == {dm}",
            f"dev == {sda2}",
            f"(dev == {sda} && sector >= 400 && sector < 1000)",
            f"(dev == {sda} && nr_sector == 0)",
            f"dev == {sdb}",
        ]
    )
    assert {position: role for position, (_, role) in selection.roles.items()} == dict.fromkeys(
        range(3), "data"
    )


def test_a_disk_that_is_asked_for_beside_a_volume_on_it_keeps_its_bios(volumes):
    selection = select([volumes["md0"], volumes["sdb"]])
    assert [disk.name for disk in selection.disks] == ["md0", "sdb", "sda"]
    md, sdb = 9 << 20, 8 << 20 | 16
    assert selection.trace_filter("block_bio_queue") == f"dev == {md} || dev == {sdb}"
