"""Marks left by the tools that make file systems, where those tools are installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest

from iotrace.replay.targets.signatures import _AT_OFFSET, _at_end, find_signature

from ...attacks.playing_on import attached, run

SIZE_BYTES = 320 << 20
ENDIANS: tuple[Literal["little", "big"], ...] = ("little", "big")


def signature_of(path: Path) -> str | None:
    with path.open("rb") as image:
        return find_signature(
            lambda offset, length: os.pread(image.fileno(), length, offset), path.stat().st_size
        )


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["mkfs.ext4", "-q", "-F"], "an ext2/3/4 file system"),
        (["mkfs.xfs", "-q", "-f"], "an XFS file system"),
        (["mkfs.btrfs", "-q", "-f"], "a Btrfs file system"),
        (["mkfs.ntfs", "-q", "-F", "-Q"], "an NTFS file system"),
        (["mkfs.vfat"], "a FAT file system"),
        (["mkswap", "-q"], "swap space"),
        (["cryptsetup", "luksFormat", "-q", "--key-file", "/proc/self/comm"], "an encrypted LUKS volume"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_tools_make_is_recognised(tmp_path: Path, command: list[str], found: str) -> None:
    tool = shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip(f"{command[0]} is not installed")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    made = subprocess.run([tool, *command[1:], str(image)], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert signature_of(image) == found


@pytest.mark.root
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="LVM takes devices only, which needs root"
)
def test_what_lvm_makes_is_recognised(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    with attached(image) as device:
        run("pvcreate", "-qq", "--devices", device, device)
    assert signature_of(image) == "an LVM physical volume"


@pytest.mark.parametrize(
    ("offset", "mark", "kind", "found"),
    [
        (0x400, b"OCFSV2", "ocfs2", "an OCFS2 file system"),
        (0x2000, b"OCFSV2", "ocfs2", "an OCFS2 file system"),
        (0x400, b"\xf5\xfc\x01\xa5", "vxfs", "a VxFS file system"),
        (8192 + 0x55C, b"\x54\x19\x01\x00", "ufs", "a UFS file system"),
        (65536 + 0x55C, b"\x19\x01\x54\x19", "ufs", "a UFS file system"),
        (0, b"dmvdo001", "vdo", "a VDO volume"),
        (-1024, b"Intel Raid ISM Cfg Sig. ", "isw_raid_member", "a member of an Intel RAID"),
        (-512, b"\xde\x11\xde\x11", "ddf_raid_member", "a member of a RAID (DDF)"),
        (60 - 4096, b"\x83\x74\x02\x6b", "drbd", "a DRBD device"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_blkid_recognises_is_recognised(
    tmp_path: Path, offset: int, mark: bytes, kind: str, found: str
) -> None:
    """Planted where no tool for making it is at hand; blkid says whether it was planted right."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
        file.seek(offset % SIZE_BYTES)
        file.write(mark)
    assert signature_of(image) == found
    tool = shutil.which("blkid", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip("blkid is not installed")
    told = subprocess.run([tool, "-p", str(image)], capture_output=True, text=True, check=False)
    assert f'TYPE="{kind}"' in told.stdout


@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_partition_tables_made_by_sfdisk(tmp_path: Path, label: str) -> None:
    tool = shutil.which("sfdisk", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip("sfdisk is not installed")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    subprocess.run([tool, "--quiet", str(image)], input=f"label: {label}\n,\n", text=True, check=True)
    assert signature_of(image) == {"gpt": "a GPT partition table", "dos": "a partition table (MBR)"}[label]
    if label == "gpt":
        with image.open("r+b") as file:
            file.write(bytes(1 << 20))  # the copy at the end is still there
        assert signature_of(image) == "a GPT partition table"


@pytest.mark.parametrize("offset_from_end", [65536, 8192], ids=["0.90", "1.0"])
def test_a_raid_member_with_its_mark_at_the_end(tmp_path: Path, offset_from_end: int) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
        file.seek(SIZE_BYTES - offset_from_end)
        file.write(0xA92B4EFC.to_bytes(4, "little"))
    assert signature_of(image) == "a member of a Linux RAID"


def test_a_pool_member_of_zfs(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
        file.seek((128 << 10) + 37 * 1024)
        file.write(0x00BAB10C.to_bytes(8, "little"))
    assert signature_of(image) == "a member of a ZFS pool"


@pytest.mark.parametrize("size_bytes", [0, 512, 4096, 65536, SIZE_BYTES])
def test_an_empty_disk_of_any_size_has_none(tmp_path: Path, size_bytes: int) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(size_bytes)
    assert signature_of(image) is None


BY_LAYOUT: list[tuple[int, bytes, str]] = [
    (512, b"EFI PART", "a GPT partition table"),
    (510, b"\x55\xaa", "a partition table (MBR)"),
    (0, b"LUKS\xba\xbe\x00\x02", "an encrypted LUKS volume"),
    (512, b"LABELONE", "an LVM physical volume"),
    (0, b"\xeb\x52\x90NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (3, b"ReFS\0\0\0\0", "a ReFS file system"),
    (3, b"-FVE-FS-", "a BitLocker volume"),
    (0x52, b"FAT32   ", "a FAT file system"),
    (0x36, b"FAT16   ", "a FAT file system"),
    (0, b"XFSB", "an XFS file system"),
    (1024 + 56, 0xEF53.to_bytes(2, "little"), "an ext2/3/4 file system"),
    (1024, 0xF2F52010.to_bytes(4, "little"), "an F2FS file system"),
    (1024, 0xE0F5E1E2.to_bytes(4, "little"), "an EROFS file system"),
    (32768, b"JFS1", "a JFS file system"),
    (16 * 2048 + 1, b"CD001", "an ISO 9660 file system"),
    (16 * 2048 + 1, b"NSR03", "a UDF file system"),
    (64 << 10, bytes(52) + b"ReIsEr2Fs", "a ReiserFS file system"),
    (0x200000, 0x2FABF15E.to_bytes(4, "little"), "a VMFS file system"),
    (1 << 20, 0xC001D00D.to_bytes(4, "little"), "a VMFS volume"),
    (64 << 10, b"ReIsEr4", "a Reiser4 file system"),
    (0, 0x1BADFACE.to_bytes(4, "little"), "a BFS file system"),
    *((at, 0x28CD3D45.to_bytes(4, order), "a cramfs file system") for at in (0, 512) for order in ENDIANS),
    (0, b"-rom1fs-", "a romfs file system"),
    (4096, b"SPB5", "a NetWare file system"),
    (0, b"SFOZ", "a zonefs file system"),
    ((64 << 10) + 4, 0x103C428B.to_bytes(4, "little"), "a ScoutFS file system"),
    (0, b"UBI#", "a UBI volume"),
    (0, 0x06101831.to_bytes(4, "little"), "a UBIFS file system"),
    (0, 0xFEEDBABE.to_bytes(4, "big"), "the log of an XFS file system"),
    (1024, 0xA501FCF5.to_bytes(4, "little"), "a VxFS file system"),
    (8192, 0xA501FCF5.to_bytes(4, "big"), "a VxFS file system"),
    *(
        (9 * 512 + 32, one.to_bytes(4, "little"), "a member of a HighPoint RAID")
        for one in (0x5A7816F0, 0x5A7816FD)
    ),
    (0, 0x0BE5A941.to_bytes(4, "big"), "an SGI partition table"),
    *((at, 0x82564557.to_bytes(4, "little"), "a BSD disk label") for at in (0, 64, 128, 512)),
    ((64 << 10) + 52, b"ReIsErFs", "a ReiserFS file system"),
    (64 << 10, 0x01161970.to_bytes(4, "big"), "a GFS2 file system"),
    (0, b"hsqs", "a SquashFS file system"),
    (0x4000, b"SKUL\xba\xbe", "an encrypted LUKS volume"),
    *((block * 2, b"OCFSV2", "an OCFS2 file system") for block in (512, 1024, 2048, 4096)),
    (8192 + 1372, 0x00011954.to_bytes(4, "little"), "a UFS file system"),
    (65536 + 1372, 0x19540119.to_bytes(4, "little"), "a UFS file system"),
    (1024, b"H+\0\4", "an HFS+ file system"),
    (1024, b"HX\0\5", "an HFS+ file system"),
    (32, b"NXSB", "an APFS container"),
    (516, b"!Stra0tis", "a Stratis pool"),
    (32, b"ORCLDISK", "an Oracle ASM disk"),
    *((sector * 512, b"LABELONE", "an LVM physical volume") for sector in range(4)),
    *((page - 10, b"SWAPSPACE2", "swap space") for page in (4096, 8192, 16384, 65536)),
    (4096, b"EFI PART", "a GPT partition table"),
    (-1024, b"Intel Raid ISM Cfg Sig. ", "a member of an Intel RAID"),
    (-1024, b"NVIDIA", "a member of an NVIDIA RAID"),
    (-512, b"$XIDE$", "a member of an LSI RAID"),
    (-512, 0x900765C4.to_bytes(4, "big"), "a member of an Adaptec RAID"),
    *(
        (-11 * 512, one.to_bytes(4, "little"), "a member of a HighPoint RAID")
        for one in (0x5A7816F3, 0x5A7816FD)
    ),
    *(
        (-sectors * 512, b"Promise Technology, Inc.", "a member of a Promise RAID")
        for sectors in (63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087)
    ),
    (-512, 0xDE11DE11.to_bytes(4, "big"), "a member of a RAID (DDF)"),
    (-512, b"EFI PART", "a GPT partition table"),
    (-4096, b"EFI PART", "a GPT partition table"),
    (64 << 10, bytes(64) + b"_BHRfS_M", "a Btrfs file system"),
    (4096, 0xA92B4EFC.to_bytes(4, "little"), "a member of a Linux RAID"),
    # The volume recognition sequence of ECMA-167.
    *((16 * 2048 + 1, word, "a UDF file system") for word in (b"BEA01", b"NSR02", b"BOOT2")),
    (0, b"dmvdo001", "a VDO volume"),
    (0, b"mpoolDev", "a member of a media pool (mpool)"),
    (0, b"$DRBDmgr=q", "a DRBD control volume"),
    *((60 - 4096, one.to_bytes(4, "big"), "a DRBD device") for one in (0x8374026B, 0x8374026C, 0x8374026D)),
    (0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c", "a hibernated system (TuxOnIce)"),
    # In EBCDIC, at the third block.
    *(
        (2 * block, word.encode("cp037"), "a DASD of IBM's")
        for block in (512, 1024, 2048, 4096)
        for word in ("VOL1", "LNX1", "CMS1")
    ),
    (0, b"integrt\0", "a dm-integrity volume"),
    (4096 + 24, UUID("c68573f6-4e1a-45ca-8265-f57f48ba6d81").bytes, "a bcache device"),
    (4096 + 24, UUID("c68573f6-66ce-90a9-d96a-60cf803df7ef").bytes, "a bcachefs file system"),
    (0, b"bluestore block device", "a Ceph OSD"),
    *((at, 0xA92B4EFC.to_bytes(4, "little"), "a member of a Linux RAID") for at in (0, -65536, -8192)),
    *((page - 10, b"SWAP-SPACE", "swap space") for page in (4096, 8192, 16384, 65536)),
]
"""Marks of tools that are rarely installed, by the published layouts; places below zero are from the disk's end."""


@pytest.mark.parametrize(("offset", "mark", "found"), BY_LAYOUT)
def test_marks_where_their_formats_put_them(tmp_path: Path, offset: int, mark: bytes, found: str) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
        file.seek(offset % SIZE_BYTES)
        file.write(mark)
    assert signature_of(image) == found


def test_every_mark_that_is_looked_for_is_planted_somewhere() -> None:
    planted = {(offset % SIZE_BYTES, mark) for offset, mark, _ in BY_LAYOUT}
    for offset, mark, words in (*_AT_OFFSET, *_at_end(SIZE_BYTES)):
        assert any(at <= offset and content[offset - at :].startswith(mark) for at, content in planted), words


def test_a_volume_of_core_storage_bears_both_of_its_marks(tmp_path: Path) -> None:
    image = tmp_path / "image"
    version, word = (8, b"\x01\0\x10\0"), (88, b"CS")
    for marks, found in (
        ([version], None),
        ([word], None),
        ([version, word], "a volume of Apple's Core Storage"),
    ):
        with image.open("wb") as file:
            file.truncate(SIZE_BYTES)
            for offset, mark in marks:
                file.seek(offset)
                file.write(mark)
        assert signature_of(image) == found
