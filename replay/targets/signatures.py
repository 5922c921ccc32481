"""Does a disk or file hold something? libblkid is asked where it is there, and in any case a table of our own.

The table has the marks that file systems, volume managers and the like leave; `databases` has those of databases.

Offsets and magics are those of the Linux kernel's on-disk headers (ext4 0x438, xfs 0, btrfs 0x10040, md 1.0/1.1/1.2
and 0.90, swap at the end of the first page, OCFS2 at its block 2 …) and of the formats' public descriptions (GPT, LUKS,
ZFS uberblocks).
Marks of two bytes are left to libblkid, except for ext2/3/4 and MBR: of random data, one in 65,536 bears such a one.
What bears no known mark may still hold data; that is why a device's name has to be repeated as well.
"""

import os
from collections.abc import Callable

from . import libblkid
from .databases import find_database

_AT_OFFSET: tuple[tuple[int, bytes, str], ...] = (
    (0x438, b"\x53\xef", "an ext2/3/4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a Btrfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"ReFS\0\0\0\0", "a ReFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (3, b"-FVE-FS-", "a BitLocker volume"),
    (0x36, b"FAT1", "a FAT file system"),
    (0x52, b"FAT32", "a FAT file system"),
    (0x400, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (0x400, b"\xe2\xe1\xf5\xe0", "an EROFS file system"),
    (0x8000, b"JFS1", "a JFS file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    *((0x8001, mark, "a UDF file system") for mark in (b"BEA01", b"NSR02", b"NSR03", b"BOOT2")),
    (0x10000, b"ReIsEr4", "a Reiser4 file system"),
    (0, b"\xce\xfa\xad\x1b", "a BFS file system"),
    *(
        (at, mark, "a cramfs file system")
        for at in (0, 512)
        for mark in (b"\x45\x3d\xcd\x28", b"\x28\xcd\x3d\x45")
    ),
    (0, b"-rom1fs-", "a romfs file system"),
    (0x1000, b"SPB5", "a NetWare file system"),
    (0, b"SFOZ", "a zonefs file system"),
    (0x10004, b"\x8b\x42\x3c\x10", "a ScoutFS file system"),
    (0, b"mpoolDev", "a member of a media pool (mpool)"),
    (0, b"UBI#", "a UBI volume"),
    (0, b"\x31\x18\x10\x06", "a UBIFS file system"),
    (0, b"\xfe\xed\xba\xbe", "the log of an XFS file system"),
    (0x2000, b"\xa5\x01\xfc\xf5", "a VxFS file system"),
    (0x200000, b"\x5e\xf1\xab\x2f", "a VMFS file system"),
    (0, b"$DRBDmgr=q", "a DRBD control volume"),
    (0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c", "a hibernated system (TuxOnIce)"),
    *((9 * 512 + 32, mark + b"\x16\x78\x5a", "a member of a HighPoint RAID") for mark in (b"\xf0", b"\xfd")),
    *(
        (at, mark, "a DASD of IBM's")
        for at in (0x400, 0x800, 0x1000, 0x2000)
        for mark in (b"\xe5\xd6\xd3\xf1", b"\xd3\xd5\xe7\xf1", b"\xc3\xd4\xe2\xf1")
    ),
    (0, b"\x0b\xe5\xa9\x41", "an SGI partition table"),
    *((at, b"\x57\x45\x56\x82", "a BSD disk label") for at in (0, 64, 128, 512)),
    (0x10034, b"ReIsEr", "a ReiserFS file system"),
    (0x10000, b"\x01\x16\x19\x70", "a GFS2 file system"),
    (0, b"hsqs", "a SquashFS file system"),
    (0x100000, b"\x0d\xd0\x01\xc0", "a VMFS volume"),
    (0, b"LUKS\xba\xbe", "an encrypted LUKS volume"),
    (0x4000, b"SKUL\xba\xbe", "an encrypted LUKS volume"),
    (0, b"integrt", "a dm-integrity volume"),
    (0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "a bcache device"),
    (0x1018, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", "a bcachefs file system"),
    *((block * 2, b"OCFSV2", "an OCFS2 file system") for block in (512, 1024, 2048, 4096)),
    (0x400, b"\xf5\xfc\x01\xa5", "a VxFS file system"),
    (0x255C, b"\x54\x19\x01\x00", "a UFS file system"),
    (0x1055C, b"\x19\x01\x54\x19", "a UFS file system"),
    (0x400, b"H+\0\4", "an HFS+ file system"),
    (0x400, b"HX\0\5", "an HFS+ file system"),
    (32, b"NXSB", "an APFS container"),
    (0, b"dmvdo001", "a VDO volume"),
    (0x204, b"!Stra0tis", "a Stratis pool"),
    (32, b"ORCLDISK", "an Oracle ASM disk"),
    (0, b"bluestore block device", "a Ceph OSD"),
    (0, b"\xfc\x4e\x2b\xa9", "a member of a Linux RAID"),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of a Linux RAID"),
    (0x200, b"EFI PART", "a GPT partition table"),
    (0x1000, b"EFI PART", "a GPT partition table"),
    *((sector * 512, b"LABELONE", "an LVM physical volume") for sector in range(4)),
    *(
        (page - 10, mark, "swap space")
        for page in (4096, 8192, 16384, 65536)
        for mark in (b"SWAPSPACE2", b"SWAP-SPACE")
    ),
    # Last: nearly every file system for Windows ends its first sector like this too.
    (510, b"\x55\xaa", "a partition table (MBR)"),
)
_ZFS_UBERBLOCKS = (0x20000, 0x40000)
_ZFS_MAGICS = (b"\x0c\xb1\xba\0\0\0\0\0", b"\0\0\0\0\0\xba\xb1\x0c")


def find_signature(read: Callable[[int, int], bytes], size_bytes: int) -> str | None:
    """What a device of ``size_bytes`` seems to hold, in words, or None.

    ``read(offset, length)`` returns that part of the device, shorter at its end.
    """
    for offset, magic, words in _AT_OFFSET:
        if offset + len(magic) <= size_bytes and read(offset, len(magic)) == magic:
            return words
    start, end = _ZFS_UBERBLOCKS
    uberblocks = read(start, end - start) if size_bytes >= end else b""
    if any(uberblocks[at : at + 8] in _ZFS_MAGICS for at in range(0, len(uberblocks), 1024)):
        return "a member of a ZFS pool"
    for offset, magic, words in _at_end(size_bytes):
        if offset >= 0 and read(offset, len(magic)) == magic:
            return words
    if read(8, 4) == b"\x01\0\x10\0" and read(88, 2) == b"CS":
        return "a volume of Apple's Core Storage"
    return find_database(read, size_bytes)


def signature_of(file: int, size_bytes: int) -> str | None:
    """What the open file or device seems to hold, in words, or None: what libblkid finds, and what we do."""

    def read(offset: int, length: int) -> bytes:
        os.lseek(file, offset, os.SEEK_SET)  # Windows has no pread
        return os.read(file, length)

    return find_signature(read, size_bytes) or libblkid.find(file)


def _at_end(size_bytes: int) -> tuple[tuple[int, bytes, str], ...]:
    raid = "a member of a Linux RAID"
    return (
        ((size_bytes // 65536 - 1) * 65536, b"\xfc\x4e\x2b\xa9", raid),
        ((size_bytes - 8192) // 4096 * 4096, b"\xfc\x4e\x2b\xa9", raid),
        (size_bytes - 1024, b"Intel Raid ISM Cfg Sig. ", "a member of an Intel RAID"),
        (size_bytes - 1024, b"NVIDIA", "a member of an NVIDIA RAID"),
        (size_bytes - 512, b"$XIDE$", "a member of an LSI RAID"),
        (size_bytes - 512, b"\x90\x07\x65\xc4", "a member of an Adaptec RAID"),
        *(
            (size_bytes - 11 * 512, mark + b"\x16\x78\x5a", "a member of a HighPoint RAID")
            for mark in (b"\xf3", b"\xfd")
        ),
        *(
            (size_bytes - sectors * 512, b"Promise Technology, Inc.", "a member of a Promise RAID")
            for sectors in (63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087)
        ),
        (size_bytes - 512, b"\xde\x11\xde\x11", "a member of a RAID (DDF)"),
        *(
            (size_bytes - 4096 + 60, b"\x83\x74\x02" + kind, "a DRBD device")
            for kind in (b"\x6b", b"\x6c", b"\x6d")
        ),
        (size_bytes - 512, b"EFI PART", "a GPT partition table"),
        (size_bytes - 4096, b"EFI PART", "a GPT partition table"),
    )
