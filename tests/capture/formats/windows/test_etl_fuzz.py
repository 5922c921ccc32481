"""Any bytes give a table or a clear error: no panic, no hang, no memory beyond a bound. Seeded, so failures repeat."""

import importlib.util
import random
import struct
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.capture import _readers

_SPEC = importlib.util.spec_from_file_location(
    "etl_build", Path(__file__).parents[3] / "fixtures" / "etl" / "build.py"
)
etl = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(etl)
T0 = etl.T0

EXTREMES = [
    0,
    1,
    7,
    71,
    72,
    0x7F,
    0xFF,
    0xFFFF,
    0x10000,
    1 << 26,
    (1 << 26) + 1,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
]
MEMORY_MAX_BYTES = 600 << 20


def _everything(**options):
    """A log with every kind of event that is decoded."""
    events = [
        etl.extension(T0, 0x300),
        etl.mapping(T0, "\\Device\\HarddiskVolume1\\", "C:\\"),
        etl.system(etl.PROCESS_DC_START, T0, etl.process(8, "a.exe", command="a"), version=4),
        etl.system(etl.THREAD_DC_START, T0, etl.thread(8, 1)),
        etl.system(etl.FILE_CREATE, T0, etl.name(5, "\\Device\\HarddiskVolume1\\x.mdf")),
        etl.system(etl.READ_INIT, T0 + 5, etl.init(1)),
        etl.perfinfo(etl.READ, T0 + 9, etl.transfer(key=5, response=4)),
        etl.perfinfo(etl.WRITE, T0 + 10, etl.transfer(key=5, irp=2, response=4)),
        etl.perfinfo(etl.FLUSH, T0 + 11, etl.flush(irp=3)),
        etl.system(
            etl.OPERATIONS["create"], T0 + 11, etl.operation("create", path="\\Device\\HarddiskVolume1\\y")
        ),
        etl.system(etl.OPERATION_END, T0 + 11, etl.operation_end(1)),
        etl.system(etl.OPERATIONS["read"], T0 + 11, etl.operation("read", irp=7)),
        etl.manifest(etl.STORPORT_GUID, 202, T0 + 11, etl.request_dispatch(irp=8, original=4), version=2),
        etl.manifest(
            etl.STORPORT_GUID,
            201,
            T0 + 11,
            etl.request_timed(irp=8, original=4, duration=3),
            version=2,
            extended=etl.item(1, bytes(16)),
        ),
        etl.manifest(etl.STORPORT_GUID, 208, T0 + 11, etl.request_done(irp=8), version=1),
        etl.manifest(etl.STORPORT_GUID, 222, T0 + 11, etl.request_detailed(command=bytes(16)), version=1),
        etl.manifest(etl.KERNEL_DISK_GUID, 10, T0 + 12, etl.transfer(version=2)),
        etl.manifest(etl.KERNEL_FILE_GUID, 15, T0 + 12, etl.operation("read", irp=9, version=2)),
        etl.system(etl.OPERATION_END, T0 + 12, etl.operation_end(7, status=0xC0000011)),
        etl.full(etl.DISK_GUID, 10, T0 + 12, etl.transfer(key=5, irp=4, response=4)),
        etl.system(etl.PHYSICAL_DISK, T0 + 20, etl.physical_disk(0)),
        etl.system(etl.LOGICAL_DISK, T0 + 20, etl.logical_disk(0, 1, 0, 1 << 30, "C:")),
        etl.system(etl.PROCESS_END, T0 + 21, etl.process(8, "a.exe"), version=4),
    ]
    return etl.log(events, events[:7], stride=8192, **options)


def _literal_lznt1(payload):
    """Chunks that are stored, and one that is compressed without a match."""
    pieces = [payload[start : start + 4096] for start in range(0, len(payload), 4096)]
    stored = b"".join(struct.pack("<H", 0x3000 | (len(piece) - 1)) + piece for piece in pieces[1:])
    groups = [b"\0" + pieces[0][start : start + 8] for start in range(0, min(len(pieces[0]), 3000), 8)]
    body = b"".join(groups)
    if len(pieces[0]) > 3000:
        return b"".join(struct.pack("<H", 0x3000 | (len(piece) - 1)) + piece for piece in pieces)
    return struct.pack("<H", 0xB000 | (len(body) - 1)) + body + stored


def _literal_huffman(payload):
    """256 codes of 8 bits, each the byte it stands for."""
    words = payload + bytes(len(payload) % 2 + 4)
    swapped = b"".join(words[at : at + 2][::-1] for at in range(0, len(words) - 1, 2))
    return b"\x88" * 128 + bytes(128) + swapped


@pytest.fixture(scope="module")
def seeds(request):
    """Logs to mutate: constructed ones, and where there are samples, pieces of them."""
    logs = [
        _everything(),
        _everything(compression=etl.literal_xpress),
        _everything(pointer=4, clock=3),
        # No encoder of theirs: what follows the header decodes to anything or nothing.
        _everything(compression=etl.literal_xpress, compression_format=2),
        _everything(compression=_literal_lznt1, compression_format=2),
        _everything(compression=_literal_huffman, compression_format=4),
        _everything(mode=2),
    ]
    folder = Path(__file__).parents[5] / "shared" / "samples" / "etl"
    if folder.is_dir():
        logs.append((folder / "etlparser_lxcore_kernel.etl").read_bytes())
        for name, member in (("net.4.5.2.x64", "net.4.5.2.x64.etl"), ("net.4.5.x86", "PerfViewData.etl")):
            with zipfile.ZipFile(folder / f"perfview_{name}.etl.zip") as archive:
                data = archive.read(member)
            starts = [0]
            while starts[-1] + 4 <= len(data):
                starts.append(starts[-1] + struct.unpack_from("<I", data, starts[-1])[0])
            # The first buffers and some from the middle: with names, processes and disk I/O.
            middle = starts[len(starts) // 2]
            logs.append(data[: starts[4]] + data[middle : middle + 70_000])
    return logs


def _mutate(data, random_):  # noqa: C901 - one case for each way to damage a file
    data = bytearray(data)
    for _ in range(random_.choice([1, 1, 2, 5, 40])):
        at = random_.randrange(len(data))
        match random_.randrange(7):
            case 0:
                data[at] = random_.randrange(256)
            case 1:
                data[at : at + 4] = struct.pack("<I", random_.choice(EXTREMES))
            case 2:
                data[at : at + 8] = struct.pack("<q", random_.choice([-1, -(1 << 63), (1 << 63) - 1, 0, 1]))
            case 3:
                data[at:] = data[at : at + random_.randrange(1, 9)] if random_.random() < 0.2 else data[at:]
            case 4:
                del data[at : at + random_.randrange(1, 100)]
            case 5:
                data[at:at] = random_.randbytes(random_.randrange(1, 100))
            case 6:
                header = random_.choice([0, 4, 0x28, 0x2C, 0x30, 0x34, 72, 76, 100, 104, 136, 152, 380, 400])
                if header + 4 <= len(data):
                    data[header : header + 4] = struct.pack("<I", random_.choice(EXTREMES))
        if not data:
            return b"x"
    return bytes(data)


def _read(path, kept_events=1 << 19):
    """Everything a caller may ask; how many rows came, or None where the file was refused."""
    try:
        _readers.inspect_etl(path)
        trace = _readers.read_etl(path, threads=1, kept_events=kept_events)
    except _readers.UnreadableError as problem:
        what, hint = problem.args
        assert what
        assert hint
        assert "defect" not in what
        return None
    count = 0
    while (batch := trace.next_io(1000)) is not None:
        count += pa.record_batch(batch).num_rows
    for table in (trace.devices(), trace.files(0), trace.processes(0)):
        pa.record_batch(table).validate(full=True)
    trace.counts()
    return count


def _peak_bytes():
    try:
        import resource
    except ImportError:  # Windows does not tell
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _fuzz(seeds, path, rounds, seed):
    random_ = random.Random(seed)
    before = _peak_bytes()
    read = 0
    for _ in range(rounds):
        path.write_bytes(_mutate(random_.choice(seeds), random_))
        read += _read(path, random_.choice([0, 5, 1 << 19])) is not None
    assert read > rounds // 10  # else nothing behind the log header was reached
    assert _peak_bytes() - before < MEMORY_MAX_BYTES


def test_mutated_logs(seeds, tmp_path):
    _fuzz(seeds, tmp_path / "a.etl", rounds=600, seed=1)


def test_what_the_fuzzing_begins_with_is_whole(tmp_path):
    """Else mutations of it would reach nothing behind the container."""
    path = tmp_path / "a.etl"
    for number, compression in ((2, _literal_lznt1), (3, etl.literal_xpress), (4, _literal_huffman)):
        path.write_bytes(_everything(compression=compression, compression_format=number))
        found = _readers.inspect_etl(path)
        assert (found["damaged_buffers"], found["events"]) == (0, 31)
        # Five disk I/Os, one file operation, one request; their twins are silent.
        assert _read(path) == _read(path, 0) == 7


def test_every_truncation_of_a_small_log(tmp_path):
    path = tmp_path / "a.etl"
    data = _everything(compression=etl.literal_xpress)
    for length in range(0, len(data), 13):
        path.write_bytes(data[:length])
        _read(path)


def test_random_bytes(tmp_path):
    random_ = random.Random(5)
    path = tmp_path / "a.etl"
    for length in (1, 71, 72, 103, 104, 1000, 70_000):
        path.write_bytes(random_.randbytes(length))
        assert _read(path) is None


def test_random_bytes_after_a_good_header(tmp_path):
    random_ = random.Random(6)
    path = tmp_path / "a.etl"
    for stride in (72, 100, 4096, 65_536):
        path.write_bytes(etl.log(stride=max(stride, 1024)) + random_.randbytes(300_000))
        assert _read(path) == 0


def test_a_decompression_bomb_is_refused(tmp_path):
    """Buffers of 150 bytes that each claim, truly, to hold 64 MiB: a match that repeats one byte for ever."""
    size = 1 << 26
    match = bytes([0, 0, 0, 0x40, 0]) + b"\x07\x00\x0f\xff\0\0" + struct.pack("<I", size - 72 - 1 - 10 + 7)
    header = etl.log(compression=etl.literal_xpress, stride=size)
    bomb = bytearray(etl.buffer([], 1, compression=lambda _: match))
    bomb[0x30:0x34] = struct.pack("<I", size)
    path = tmp_path / "bomb.etl"
    path.write_bytes(header + bytes(bomb) * 1000)
    with pytest.raises(_readers.UnreadableError, match="100 times"):
        _readers.read_etl(path)
    with pytest.raises(_readers.UnreadableError, match="100 times"):
        _readers.inspect_etl(path)
