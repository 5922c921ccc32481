"""Any bytes give rows or a clear error: no crash, no endless loop, no memory beyond the file's own measure."""

import importlib.util
import random
import struct
from pathlib import Path

from iotrace.capture.formats.windows import xel
from iotrace.schemas import IotraceError, conform
from iotrace.schemas.tables import TABLES

_SPEC = importlib.util.spec_from_file_location(
    "xel_build", Path(__file__).parents[3] / "fixtures" / "xel" / "build.py"
)
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)
SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "xel"


def seeds():
    io = {"database_id": 7, "file_id": 1, "size": 8192, "duration": 3, "path": "D:\\a.mdf"}
    who = {"session_id": 61, "event_sequence": 5, "database_name": "Sales"}
    events = [
        [
            build.event("file_read_completed", 10 * at, io, who),
            build.event("checkpoint_begin", 10 * at, {}, who),
        ]
        for at in range(20)
    ]
    yield build.file(*events)
    yield from (path.read_bytes() for path in sorted(SAMPLES.glob("*.xel")))


def damaged(data, chance):
    """``data`` cut, with bytes changed, lengths replaced, and sectors moved; now and then with right checksums."""
    data = bytearray(data[: chance.randrange(1, len(data) + 1)] if chance.random() < 0.2 else data)
    for _ in range(chance.choice((1, 3, 30))):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                value = chance.choice((0, 1, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x1000_0000, 512))
                data[at : at + 4] = struct.pack("<I", value)
            case 2:
                length = chance.randrange(600)
                data[at : at + length] = bytes(length)
            case 3:
                source = chance.randrange(len(data)) & ~511
                data[at & ~511 : (at & ~511) + 512] = data[source : source + 512]
    if chance.random() < 0.7:
        put_checksums_right(data)
    return bytes(data)


def put_checksums_right(data):
    """Damage that every checksum agrees with goes deeper into the reader."""
    at = 0x200
    while at + 0x30 <= len(data):
        length, start, payload = (
            *struct.unpack_from("<I2xH", data, at + 0x10),
            *struct.unpack_from("<I", data, at + 0x18),
        )
        if length < 0x30 or at + length > len(data) or start + payload > length:
            at += 512
            continue
        tail = data[at + start : at + start + payload][-1024:]
        struct.pack_into("<I", data, at + 0x1C, build.zlib.crc32(tail) ^ 0xFFFFFFFF)
        at += -(-length // 512) * 512


def read_all(path):
    try:
        xel.inspect(path, "x.xel")
        trace = xel.read(path, "x.xel", lambda *_: None)
        rows = 0
        for table, batch in trace.batches():
            if table in TABLES:
                conform(batch, table)
            else:
                rows += len(batch)
        outcome = trace.outcome()
    except IotraceError as problem:
        if "defect" in problem.message:
            raise
        return None
    assert outcome.window_end_ns >= outcome.window_start_ns
    assert rows <= outcome.events
    return rows


def fuzz(tmp_path, rounds, seed):
    chance = random.Random(seed)
    path = tmp_path / "x.xel"
    originals = list(seeds())
    kept = 0
    for _ in range(rounds):
        path.write_bytes(damaged(chance.choice(originals), chance))
        kept += (read_all(path) or 0) > 0
    assert kept > rounds / 10


def test_fuzz_damaged_files(tmp_path):
    fuzz(tmp_path, 150, 1)


def test_fuzz_noise_after_the_magic(tmp_path):
    chance = random.Random(3)
    path = tmp_path / "x.xel"
    for length in (0, 4, 100, 512, 700, 5_000, 200_000):
        path.write_bytes(struct.pack("<IHH", 0xEFAB375A, 10, 0x200) + chance.randbytes(length))
        assert not read_all(path)


def test_every_cut_of_a_file_reads(tmp_path):
    data = next(seeds())
    path = tmp_path / "x.xel"
    least = 0
    for length in range(0x200, len(data) + 1, 97):
        path.write_bytes(data[:length])
        rows = read_all(path) or 0
        assert rows >= least
        least = rows
    assert least > 35
