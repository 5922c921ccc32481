"""What libblkid knows and we do not, what we know and libblkid does not, and what happens where it is not there."""

import os
import subprocess
from pathlib import Path

import pytest

from iotrace.replay.targets import libblkid, signatures

from .playing_on import MIB, attached, refused, tool

SIZE_BYTES = 16 * MIB

PLANTED = {
    "udf": (0x8001, b"BEA01"),
    "bfs": (0, b"\xce\xfa\xad\x1b"),
    "romfs": (0, b"-rom1fs-"),
    "ubi": (0, b"UBI#"),
    "xfs log": (0, b"\xfe\xed\xba\xbe"),
    "vxfs big-endian": (0x2000, b"\xa5\x01\xfc\xf5"),
    "vmfs": (0x200000, b"\x5e\xf1\xab\x2f"),
    "hibernated": (0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
    "sgi": (0, b"\x0b\xe5\xa9\x41"),
    "bsd": (512, b"\x57\x45\x56\x82"),
    "nvidia": (-1024, b"NVIDIA"),
    "lsi": (-512, b"$XIDE$"),
    "promise": (-63 * 512, b"Promise Technology, Inc."),
    "highpoint": (9 * 512 + 32, b"\xf0\x16\x78\x5a"),
    "netware": (0x1000, b"SPB5"),
    "zonefs": (0, b"SFOZ"),
    "drbd control": (0, b"$DRBDmgr=q"),
    "core storage": (8, b"\x01\0\x10\0" + bytes(76) + b"CS"),
}


def planted(path: Path, kind: str) -> Path:
    path.write_bytes(b"")
    os.truncate(path, SIZE_BYTES)
    offset, mark = PLANTED[kind]
    with path.open("r+b") as file:
        file.seek(offset % SIZE_BYTES)
        file.write(mark)
    return path


@pytest.mark.parametrize("kind", PLANTED)
def test_our_own_table_knows_them_without_libblkid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(libblkid, "_library", lambda: None)
    refused(planted(tmp_path / "disk", kind), "it holds")


@pytest.mark.root
@pytest.mark.xdist_group("root")
@pytest.mark.parametrize("kind", ["udf", "hibernated", "lsi", "core storage"])
def test_devices_that_bear_them(tmp_path: Path, kind: str) -> None:
    path = planted(tmp_path / "disk", kind)
    with attached(path) as device:
        refused(device, "it holds", at=path)


def test_what_only_libblkid_knows_is_refused(tmp_path: Path) -> None:
    """Its magic number has two bytes, which random data may have, too: libblkid looks at more."""
    if libblkid._library() is None:
        pytest.skip("libblkid is not there")
    path = tmp_path / "disk"
    path.write_bytes(bytes(SIZE_BYTES))
    done = subprocess.run([tool("mkfs.minix"), str(path)], capture_output=True, check=False)
    assert done.returncode == 0
    with path.open("rb") as file:
        ours = signatures.find_signature(lambda at, size: os.pread(file.fileno(), size, at), SIZE_BYTES)
    assert ours is None
    refused(path, "it holds a file system (minix)")


def test_an_empty_disk_has_none(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    for content in (bytes(SIZE_BYTES), b"\x5a" * SIZE_BYTES):
        path.write_bytes(content)
        with path.open("rb") as file:
            assert signatures.signature_of(file.fileno(), SIZE_BYTES) is None


def test_random_data_has_hardly_ever_one(tmp_path: Path) -> None:
    path, found = tmp_path / "disk", 0
    for _ in range(40):
        path.write_bytes(os.urandom(MIB))
        with path.open("rb") as file:
            found += signatures.signature_of(file.fileno(), MIB) is not None
    assert found <= 1


def test_where_libblkid_cannot_read_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"plain text\n" * 100_000)

    def fail(_file: int) -> str | None:
        raise libblkid.UnknownSignatureError("libblkid cannot read it")

    monkeypatch.setattr(libblkid, "find", fail)
    refused(path, "what it holds cannot be read")
