"""What target files are made of, judged by compressors, by counting blocks, and by the file system."""

import os
import shutil
import subprocess
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.replay.targets import fill
from iotrace.replay.targets.fill import Fill, _unwritten_bytes, unallocated_bytes
from iotrace.replay.targets.refusals import Permission
from iotrace.replay.targets.target import open_target
from iotrace.schemas import IotraceError

MIB = 1 << 20


def made(path: Path, size: int, fill_with: Fill, seed: int = 1) -> bytes:
    fill.create(path, size, direct=False, seed=seed, fill_with=fill_with)
    return path.read_bytes()


def compressed(content: bytes, codec: str) -> int:
    """Bytes left by a compressor that sees 16 KiB at a time, as arrays do."""
    pieces = (content[at : at + 16384] for at in range(0, len(content), 16384))
    if codec == "zlib":
        return sum(len(zlib.compress(piece, 6)) for piece in pieces)
    return sum(len(pa.compress(piece, codec=codec, asbytes=True)) for piece in pieces)


@pytest.mark.parametrize("codec", ["zlib", "lz4_raw", "zstd"])
@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0, 4.0])
def test_every_compressor_finds_the_ratio_that_was_asked_for(
    tmp_path: Path, codec: str, ratio: float
) -> None:
    content = made(tmp_path / "t", 2 * MIB, Fill(compressible=ratio))
    assert len(content) / compressed(content, codec) == pytest.approx(ratio, rel=0.03)


@pytest.mark.parametrize("block_bytes", [4096, 8192, 32768])
@pytest.mark.parametrize("ratio", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("compressible", [1.0, 2.0])
def test_counting_blocks_finds_the_dedupe_ratio_at_any_block(
    tmp_path: Path, ratio: float, compressible: float, block_bytes: int
) -> None:
    content = made(tmp_path / "t", 12 * MIB, Fill(compressible, ratio))
    blocks = [content[at : at + block_bytes] for at in range(0, len(content), block_bytes)]
    assert len(blocks) / len(set(blocks)) == pytest.approx(ratio, rel=0.01)
    # And no compressor that looks at a few MiB sees the copies.
    assert len(content) / compressed(content, "zlib") == pytest.approx(compressible, rel=0.03)


def test_two_files_share_nothing(tmp_path: Path) -> None:
    one, other = (made(tmp_path / name, MIB, Fill(2.0)) for name in ("one", "other"))
    blocks = [{content[at : at + 4096] for at in range(0, MIB, 4096)} for content in (one, other)]
    assert not blocks[0] & blocks[1]


def opened(path: Path, fill_with: Fill, needed: int = MIB) -> tuple[int, Fill | None]:
    """Inode and fill of the target, as a replay that writes opens it."""
    target = open_target(
        str(path),
        writes=True,
        permission=Permission(),
        direct=False,
        needed_bytes=needed,
        fill_with=fill_with,
    )
    try:
        return os.fstat(target.file).st_ino, target.fill
    finally:
        target.close()


def test_a_file_is_used_again_if_it_holds_the_same_kind_of_data(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = opened(path, Fill(2.0, 3.0))
    content = path.read_bytes()
    assert first[1] == Fill(2.0, 3.0)
    assert opened(path, Fill(2.0, 3.0)) == first
    assert path.read_bytes() == content
    assert opened(path, Fill())[1] == Fill()
    assert path.read_bytes() != content


def test_a_mark_with_an_impossible_fill_is_none(tmp_path: Path) -> None:
    path = tmp_path / "t"
    opened(path, Fill())
    text = os.getxattr(path, fill.MARK).decode()
    for wrong in ('"compressible": "2"', '"compressible": 0.1', '"compressible": null'):
        os.setxattr(path, fill.MARK, text.replace('"compressible": 1.0', wrong).encode())
        with path.open("rb") as file:
            assert fill.fill_of(file.fileno()) is None


def test_what_is_filled_is_allocated(tmp_path: Path) -> None:
    made(tmp_path / "t", 5 * MIB, Fill())
    with (tmp_path / "t").open("rb") as file:
        assert unallocated_bytes(file.fileno()) == 0


def test_holes_are_seen(tmp_path: Path) -> None:
    with (tmp_path / "t").open("w+b") as file:
        file.write(b"x" * MIB)
        file.truncate(4 * MIB)
        file.seek(3 * MIB)
        file.write(b"y" * 65536)
        os.fsync(file.fileno())
        if (tmp_path / "t").stat().st_blocks * 512 >= 4 * MIB:
            pytest.skip("no sparse files here")
        assert unallocated_bytes(file.fileno()) == 3 * MIB - 65536


def test_space_reserved_but_never_written_is_seen(tmp_path: Path) -> None:
    with (tmp_path / "t").open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * MIB)
        os.pwrite(file.fileno(), b"x" * MIB, 0)
        os.fsync(file.fileno())
        found = unallocated_bytes(file.fileno())
    if not found:
        pytest.skip("this file system does not tell what was never written")
    assert found == 3 * MIB


def test_the_map_of_extents_says_what_filefrag_says(tmp_path: Path) -> None:
    """Apart from holes: some file systems report what was never written as a hole, and some do not."""
    if shutil.which("filefrag") is None:
        pytest.skip("filefrag is not installed")
    with (tmp_path / "t").open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * MIB)
        os.pwrite(file.fileno(), b"x" * MIB, 2 * MIB)
        os.fsync(file.fileno())
        told = subprocess.run(
            ["filefrag", "-v", "-b4096", file.name], capture_output=True, text=True, check=False
        )
        extents = [line.split(":") for line in told.stdout.splitlines() if line.strip()[:1].isdigit()]
        if told.returncode or not extents:
            pytest.skip(f"filefrag says nothing here: {told.stderr}")
        unwritten = sum(int(words[3]) for words in extents if "unwritten" in words[-1])
        assert _unwritten_bytes(file.fileno(), 4 * MIB) == unwritten * 4096


def test_a_file_system_that_keeps_less_than_was_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "unallocated_bytes", lambda _: MIB)
    with pytest.raises(IotraceError, match="only 3,145,728 of 4,194,304 bytes are allocated"):
        made(tmp_path / "t", 4 * MIB, Fill())
    assert not list(tmp_path.iterdir())
