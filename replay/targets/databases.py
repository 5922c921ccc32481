"""Does a file or disk hold a database, a database's log or backup, or a disk image of a virtual machine?

Known by what their public descriptions, headers of free database systems and Microsoft's page header say; a name tells
nothing once a file is renamed. Numbers that a page states about itself are held against one another.
"""

from collections.abc import Callable
from typing import Final

Read = Callable[[int, int], bytes]
"""``read(offset, length)``: that part of a file, shorter at its end."""

_PAGE_BYTES: Final = 8192
_PAGES: Final = 16

_AT_OFFSET: Final = (
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"\x37\x7f\x06\x82", "the log of an SQLite database"),
    (0, b"\x37\x7f\x06\x83", "the log of an SQLite database"),
    (0, b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", "the journal of an SQLite database"),
    (8, b"DUCK", "a DuckDB database"),
    (0, b"TAPE\0", "a backup (Microsoft Tape Format)"),
    (0, b"MSSQLBAK", "a SQL Server backup"),
    (28, b"\x7d\x7c\x7b\x7a", "an Oracle database file"),
    (28, b"\x7a\x7b\x7c\x7d", "an Oracle database file"),
    (0, b"\xfebin", "a MySQL binary log"),
    *((16, maker, "a log of InnoDB") for maker in (b"MySQL ", b"MariaDB ", b"Percona ", b"Backup 8", b"MEB ")),
    *((0, mark, "a MyISAM table (MySQL)") for mark in (b"\xfe\xfe\x07\x01", b"\xfe\xfe\x08\x02")),
    *((0, mark, "an Aria table (MariaDB)") for mark in (b"\xfe\xfe\x09\x03", b"\xfe\xfe\x0a\x01")),
    (0, b"\xfe\xfe\x0b\x01MARIALOG", "a log of Aria (MariaDB)"),
    (4, b"Standard Jet DB\0", "an Access database"),
    (4, b"Standard ACE DB\0", "an Access database"),
    (4, b"\xef\xcd\xab\x89", "a database of Exchange or Active Directory (ESE)"),
    (0, b"\x41\xd8\x01\x00", "a MongoDB file (WiredTiger)"),
    (16, b"\xde\xc0\xef\xbe", "an LMDB database"),
    (12, b"\x62\x31\x05\x00", "a Berkeley DB database"),
    (12, b"\x61\x15\x06\x00", "a Berkeley DB database"),
    (0, b"vhdxfile", "a Hyper-V disk image (VHDX)"),
    (0, b"conectix", "a Hyper-V disk image (VHD)"),
    (0, b"KDMV", "a VMware disk image"),
    (0, b"COWD", "a VMware disk image"),
    (0, b"\xbe\xba\xfe\xca\0\0\0\0", "a VMware disk image"),
    (0, b"# Disk DescriptorFile", "a VMware disk image"),
    (0, b"QFI\xfb", "a QEMU disk image"),
    (0, b"QED\0", "a QEMU disk image"),
    (0x40, b"\x7f\x10\xda\xbe", "a VirtualBox disk image"),
    (0, b"WithoutFreeSpace", "a Parallels disk image"),
    (0, b"WithouFreSpacExt", "a Parallels disk image"),
    (0, b"Bochs Virtual HD Image", "a Bochs disk image"),
)  # fmt: skip
_AT_END: Final = (
    (512, b"conectix", "a Hyper-V disk image (VHD)"),
    (511, b"conectix", "a Hyper-V disk image (VHD)"),
    (512, b"koly", "a macOS disk image"),
)


def find_database(read: Read, size_bytes: int) -> str | None:
    """What a file of ``size_bytes`` seems to hold, in words, or None."""
    head = read(0, min(size_bytes, _PAGES * _PAGE_BYTES))
    for offset, magic, words in _AT_OFFSET:
        if head[offset : offset + len(magic)] == magic:
            return words
    for from_end, magic, words in _AT_END:
        if size_bytes >= from_end and read(size_bytes - from_end, len(magic)) == magic:
            return words
    pages = [head[at : at + _PAGE_BYTES] for at in range(0, len(head), _PAGE_BYTES)]
    for is_of, words in (
        (_is_sql_server, "a SQL Server database file"),
        (_is_postgresql, "a PostgreSQL data file"),
        (_is_postgresql_log, "a PostgreSQL log (WAL)"),
        (_is_postgresql_control, "the control file of PostgreSQL"),
        (_is_innodb, "a MySQL or MariaDB data file (InnoDB)"),
    ):
        if is_of(pages):
            return words
    return None


def _number(data: bytes, offset: int, length: int, order: str = "little") -> int:
    return int.from_bytes(data[offset : offset + length], "big" if order == "big" else "little")


def _is_sql_server(pages: list[bytes]) -> bool:
    """The file header (type 15) is page 0 and the boot page (13) page 9; every page states its type and number."""
    if pages and pages[0][:2] == b"\x01\x0f":
        return True
    if len(pages) > 9 and pages[9][:2] == b"\x01\x0d":
        return True
    numbered = [
        number
        for number, page in enumerate(pages)
        if number and page[:1] == b"\x01" and 1 <= page[1] <= 20 and _number(page, 32, 4) == number
    ]
    return len(numbered) >= 2


def _is_postgresql(pages: list[bytes]) -> bool:
    """Of each page: where free space begins and ends, and its size with the version of its layout, 8192 and 1 to 4."""
    for page in pages:
        if len(page) < 24:
            continue
        flags, lower, upper, special, size_and_version = (_number(page, at, 2) for at in range(10, 20, 2))
        page_bytes, version = size_and_version & 0xFF00, size_and_version & 0xFF
        if (
            1 <= version <= 4
            and page_bytes in {1024, 2048, 4096, 8192, 16384, 32768}
            and flags <= 7
            and 24 <= lower <= upper <= special <= page_bytes
        ):
            return True
    return False


def _is_postgresql_log(pages: list[bytes]) -> bool:
    """A long header: the segment's size is a power of two from 1 MiB, and the block's one from 1 KiB."""
    if not pages or len(pages[0]) < 40:
        return False
    segment, block = _number(pages[0], 32, 4), _number(pages[0], 36, 4)
    return (
        pages[0][1] in {0xD0, 0xD1}
        and bool(_number(pages[0], 2, 2) & 0x2)
        and 1 << 20 <= segment <= 1 << 30
        and segment & (segment - 1) == 0
        and 1024 <= block <= 65536
        and block & (block - 1) == 0
    )


def _is_postgresql_control(pages: list[bytes]) -> bool:
    """Version of the file, and the day that the catalogue's layout is from."""
    if not pages or len(pages[0]) < 16:
        return False
    return 800 <= _number(pages[0], 8, 4) <= 3000 and 2005_01_01_0 <= _number(pages[0], 12, 4) <= 2099_12_31_9


def _is_innodb(pages: list[bytes]) -> bool:
    """Page 0 of a tablespace: its number is 0, its type 8, and its space told twice. Or pages from its midst.

    A system tablespace of several files goes on in the second with the pages that follow those of the first.
    """
    if not pages or len(pages[0]) < 64:
        return False
    page = pages[0]
    if _number(page, 4, 4, "big") == 0 and _number(page, 24, 2, "big") == 8 and page[34:38] == page[38:42]:
        return True
    head = b"".join(pages)
    return any(_are_numbered_by_innodb(head, 1 << power) for power in range(12, 17))


def _are_numbered_by_innodb(head: bytes, page_bytes: int) -> bool:
    """Two pages of one space, numbered as they lie: each ends with the lower half of the log position at its head."""
    first_numbers = [
        (_number(page, 4, 4, "big") - index, page[34:38])
        for index in range(len(head) // page_bytes)
        if (page := head[index * page_bytes : (index + 1) * page_bytes])[20:24] == page[-4:]
        and any(page[16:24])
    ]
    return len(first_numbers) != len(set(first_numbers))
