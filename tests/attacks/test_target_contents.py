"""Targets that hold what nobody would give up: databases, their logs and backups, disks of virtual machines.

Made by the programs themselves where these are there, else laid out as their formats are described. Each is tried
under a harmless name, with everything permitted.
"""

import os
import shutil
import sqlite3
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from iotrace.replay.targets.databases import find_database

from ..ordinary import USER, open_folder
from .playing_on import MIB, attached, refused, run, tool

PAGE_BYTES = 8192


# ---- SQL Server -----------------------------------------------------------------------------------------------------


def sql_server_page(number: int, kind: int, file: int = 1) -> bytes:
    """A page's header is 96 bytes: version 1, type, then among others its number and its file at 32."""
    header = bytearray(96)
    header[0], header[1] = 1, kind
    struct.pack_into("<IH", header, 32, number, file)
    return bytes(header) + os.urandom(PAGE_BYTES - 96)


def sql_server_file(kinds: dict[int, int], pages: int = 32) -> bytes:
    return b"".join(
        sql_server_page(number, kinds[number]) if number in kinds else bytes(PAGE_BYTES)
        for number in range(pages)
    )


SQL_SERVER = {
    "data file": sql_server_file({0: 15, 1: 11, 2: 8, 3: 9, 6: 16, 7: 17, 9: 13, 16: 1, 17: 2}),
    "secondary file": sql_server_file({0: 15, 1: 11, 2: 8, 3: 9, 8: 1}),
    "log file": sql_server_page(0, 15, 2) + os.urandom(30 * PAGE_BYTES),
    "header alone": sql_server_file({0: 15}),
    "boot page alone": sql_server_file({9: 13}),
    "header overwritten": sql_server_file({1: 11, 2: 8, 3: 9, 8: 1}),
    "backup": b"TAPE\0\0\x03\0" + bytes(200_000),
    "compressed backup": b"MSSQLBAK" + os.urandom(200_000),
}


@pytest.mark.parametrize("kind", SQL_SERVER)
def test_sql_server(tmp_path: Path, kind: str) -> None:
    (tmp_path / "renamed.bin").write_bytes(SQL_SERVER[kind])
    refused(tmp_path / "renamed.bin", "backup" if "backup" in kind else "it holds a SQL Server database file")


# ---- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """What initdb makes of a new cluster; it refuses to be root."""
    with open_folder() as folder:
        words = [tool("initdb"), "-D", str(folder / "data"), "-N"]
        if os.geteuid() == 0:
            words = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *words]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stderr
        yield folder / "data"


def test_every_file_of_a_postgresql_cluster(cluster: Path, tmp_path: Path) -> None:
    relations = [
        file
        for file in sorted((cluster / "base").rglob("*"))
        if file.is_file() and file.name.split("_")[0].isdigit() and file.stat().st_size
    ]
    assert len(relations) > 200
    unknown = []
    for file in relations:
        content = file.read_bytes()
        if any(content) and find_database(lambda at, size: content[at : at + size], len(content)) is None:  # noqa: B023
            unknown.append(file)
    assert unknown == []
    largest = sorted(relations, key=lambda file: file.stat().st_size)[-12:]
    for number, file in enumerate(largest):
        shutil.copyfile(file, tmp_path / f"renamed{number}")
        refused(
            tmp_path / f"renamed{number}", "it holds a PostgreSQL data file", at=tmp_path / f"renamed{number}"
        )


def test_the_log_and_the_control_file_of_postgresql(cluster: Path, tmp_path: Path) -> None:
    log = next(file for file in sorted((cluster / "pg_wal").iterdir()) if file.is_file())
    shutil.copyfile(log, tmp_path / "log")
    shutil.copyfile(cluster / "global" / "pg_control", tmp_path / "control")
    refused(tmp_path / "log", "it holds a PostgreSQL log")
    refused(tmp_path / "control", "it holds the control file of PostgreSQL")


# ---- SQLite ---------------------------------------------------------------------------------------------------------


def test_sqlite_its_log_and_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute("CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9999) "
                         "SELECT i FROM n")  # fmt: skip
        database.commit()
        shutil.copyfile(tmp_path / "a-wal", tmp_path / "log")
    database.close()
    with sqlite3.connect(path, isolation_level=None) as database:
        database.execute("PRAGMA journal_mode = delete")
        database.execute("PRAGMA cache_size = 2")  # so that it has to write before it commits
        database.execute("BEGIN")
        database.execute("UPDATE t SET i = i + 1")
        journal = (tmp_path / "a-journal").read_bytes()
        database.execute("ROLLBACK")
    database.close()
    refused(path, "it holds an SQLite database", at=path)
    refused(tmp_path / "log", "it holds the log of an SQLite database", at=tmp_path / "log")
    (tmp_path / "journal").write_bytes(journal)
    refused(tmp_path / "journal", "it holds the journal of an SQLite database", at=tmp_path / "journal")


# ---- others, as their formats are described -------------------------------------------------------------------------


def innodb(space: int, page_bytes: int = 16384) -> bytes:
    """FIL header of 38 bytes, big-endian: checksum, number, neighbours, LSN, type (8), LSN, space; then space, size."""
    header = struct.pack(">IIIIQHQI", 0xDEADBEEF, 0, 0, 0, 77, 8, 0, space) + struct.pack(">III", space, 0, 7)
    return header.ljust(page_bytes, b"\0") + os.urandom(15 * page_bytes)


def innodb_second_file(page_bytes: int, empty: int = 0) -> bytes:
    """Pages that follow those of the first file; the last 4 bytes of each repeat the lower half of its LSN."""
    pages = [bytes(page_bytes)] * empty
    for number in range(empty, 8):
        lsn = 0x1_0000_0000 + 4711 * (number + 1)
        header = struct.pack(">IIIIQHQI", 0xDEADBEEF, 768 + number, 0, 0, lsn, 17855, 0, 0)
        pages.append(header + os.urandom(page_bytes - 38 - 4) + struct.pack(">I", lsn & 0xFFFFFFFF))
    return b"".join(pages)


def oracle(order: str, kind: int = 0xA2) -> bytes:
    """Block 0: its type at 1, the block's size and the file's blocks at 20, and a magic number at 28."""
    head = bytes([0, kind]) + bytes(18) + struct.pack(f"{order}III", PAGE_BYTES, 64, 0x7A7B7C7D)
    return head.ljust(PAGE_BYTES, b"\0") + os.urandom(200_000)


def lying_at(offset: int, magic: bytes, size: int = 300_000) -> bytes:
    return bytes(offset) + magic + os.urandom(size - offset - len(magic))


LAID_OUT = {
    "innodb table": innodb(12),
    "innodb system": innodb(0),
    "innodb second system file": innodb_second_file(16384),
    "innodb second system file, one page empty": innodb_second_file(16384, empty=1),
    "innodb second system file, small pages": innodb_second_file(4096),
    "innodb second system file, large pages": innodb_second_file(65536),
    "myisam index": b"\xfe\xfe\x07\x01" + os.urandom(200_000),
    "aria index": b"\xfe\xfe\x09\x03" + os.urandom(200_000),
    "aria log": b"\xfe\xfe\x0b\x01MARIALOG" + os.urandom(200_000),
    "vmware sesparse": struct.pack("<QQ", 0xCAFEBABE, 0x2_0000_0001) + os.urandom(200_000),
    "innodb log": lying_at(16, b"MySQL 8.0.36"),
    "mariadb log": lying_at(16, b"MariaDB 10.11.6"),
    "mysql binary log": b"\xfebin" + os.urandom(200_000),
    "oracle": oracle("<"),
    "oracle big-endian": oracle(">"),
    "oracle redo log": oracle("<", 0x22),
    "oracle asm": lying_at(32, b"ORCLDISKDATA1"),
    "access": b"\0\1\0\0Standard ACE DB\0" + os.urandom(200_000),
    "exchange": lying_at(4, b"\xef\xcd\xab\x89"),
    "wiredtiger": b"\x41\xd8\x01\x00" + os.urandom(200_000),
    "lmdb": lying_at(16, b"\xde\xc0\xef\xbe"),
    "berkeley": lying_at(12, b"\x62\x31\x05\x00"),
    "duckdb": lying_at(8, b"DUCK"),
    "vmware flat disk": lying_at(510, b"\x55\xaa"),
    "vmware old": b"COWD" + os.urandom(200_000),
    "vmware descriptor": b"# Disk DescriptorFile\nversion=1\n" + b"#" * 20_000,
}


@pytest.mark.parametrize("kind", LAID_OUT)
def test_others(tmp_path: Path, kind: str) -> None:
    (tmp_path / "renamed").write_bytes(LAID_OUT[kind])
    refused(tmp_path / "renamed", "it holds")


def test_a_real_duckdb_database(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "renamed")).execute("CREATE TABLE t AS FROM range(100000)").close()
    refused(tmp_path / "renamed", "it holds a DuckDB database", at=tmp_path / "renamed")


# ---- disks of virtual machines --------------------------------------------------------------------------------------

IMAGES = {
    "qcow2": ("-f", "qcow2"), "qcow2 preallocated": ("-f", "qcow2", "-o", "preallocation=full"), "qed": ("-f", "qed"),
    "vmdk": ("-f", "vmdk"), "vmdk stream": ("-f", "vmdk", "-o", "subformat=streamOptimized"), "vdi": ("-f", "vdi"),
    "vdi fixed": ("-f", "vdi", "-o", "static=on"), "vhd": ("-f", "vpc"), "vhdx": ("-f", "vhdx"),
    "vhd fixed": ("-f", "vpc", "-o", "subformat=fixed"), "parallels": ("-f", "parallels"), "luks": ("-f", "luks"),
    "vhdx fixed": ("-f", "vhdx", "-o", "subformat=fixed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", IMAGES)
def test_images_made_by_qemu(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "renamed"
    secret = ("--object", "secret,id=s,data=x") if kind == "luks" else ()
    more = ("-o", "key-secret=s,iter-time=10") if kind == "luks" else ()
    command = [tool("qemu-img"), "create", "-q", *secret, *IMAGES[kind], *more, str(path), "8M"]
    for _ in range(20):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # It times a hash for luks, and gives up where the processor's clock did not move meanwhile.
        if "accurate CPU usage" not in done.stderr:
            break
    if done.returncode:
        pytest.skip(f"qemu-img makes no {kind} here: {done.stderr}")
    refused(path, "it holds")


@pytest.mark.parametrize("label", ["dos", "gpt", "sun", "sgi"])
def test_raw_images_with_a_partition_table(tmp_path: Path, label: str) -> None:
    path = tmp_path / "guest.raw"
    path.write_bytes(bytes(64 * MIB))
    run(
        "sfdisk",
        "--quiet",
        path,
        input=f"label: {label}\n,\n" if label in {"dos", "gpt"} else f"label: {label}\n",
    )
    refused(path, "partition table")


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "mkfs.ext2", "mkfs.xfs", "mkfs.btrfs", "mkfs.ntfs", "mkfs.vfat", "mkfs.exfat", "mkfs.f2fs", "mkfs.nilfs2",
        "mkfs.udf", "mkswap", "mkfs.minix", "mkfs.cramfs",
    ],
)  # fmt: skip
def test_raw_images_with_a_file_system(tmp_path: Path, program: str) -> None:
    path = tmp_path / "guest.raw"
    path.write_bytes(b"")
    os.truncate(path, 320 * MIB)
    words = {
        "mkfs.ext2": ["-q", "-F"],
        "mkfs.xfs": ["-q"],
        "mkfs.btrfs": ["-q"],
        "mkfs.ntfs": ["-q", "-F", "-Q"],
    }
    if program == "mkfs.cramfs":
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree" / "a").write_bytes(os.urandom(20_000))
        path.unlink()
        run(program, tmp_path / "tree", path)
    else:
        run(program, *words.get(program, []), path)
    refused(path, "it holds")


# ---- devices --------------------------------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.xdist_group("root")
@pytest.mark.parametrize("kind", ["data file", "innodb system", "oracle", "oracle asm"])
def test_databases_on_raw_devices(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes({**SQL_SERVER, **LAID_OUT}[kind].ljust(MIB, b"\0"))
    with attached(path) as device:
        refused(device, "it holds", at=path)


# ---- and what is none of it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [bytes(MIB), b"\1" * MIB, b"\xff" * MIB, b"a line of text\n" * 70_000,
    struct.pack(">262144I", *range(262_144)), struct.pack(">131072Q", *range(131_072)), b"\0\0\0\5" * 262_144,
])  # fmt: skip
def test_what_holds_no_database_is_not_taken_for_one(content: bytes) -> None:
    assert find_database(lambda at, size: content[at : at + size], len(content)) is None


def test_random_data_is_hardly_ever_taken_for_a_database() -> None:
    """Targets hold random data."""
    taken = 0
    for _ in range(500):
        content = os.urandom(131_072)
        taken += find_database(lambda at, size: content[at : at + size], len(content)) is not None  # noqa: B023
    assert taken <= 1
