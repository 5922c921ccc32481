"""Containers no public trace shows: other compressions, wrapped, unclosed, cut, relogged and old logs."""

import heapq
import importlib.util
import random
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.capture import _readers
from iotrace.capture.formats.windows import etl as reader
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

_SPEC = importlib.util.spec_from_file_location(
    "etl_build", Path(__file__).parents[3] / "fixtures" / "etl" / "build.py"
)
etl = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(etl)
T0 = etl.T0


@pytest.fixture
def imported(tmp_path):
    def run(data, name="trace"):
        path = tmp_path / f"{name}.etl"
        path.write_bytes(data)
        recording = import_files([path], tmp_path / f"{name}.iotrace")
        assert validate(recording.path) == []
        return recording

    return run


def reads(*moments):
    return [etl.perfinfo(etl.READ, T0 + at, etl.transfer(offset=512 * at, response=1)) for at in moments]


def offsets(recording):
    return [row["offset_bytes"] // 512 for row in recording.read("io").to_pylist()]


def matches(data, start, at, end, *, longest, furthest):
    """The longest earlier occurrence of what stands at ``at``: distance and length, or None."""
    if at + 3 > end:
        return None
    found = data.rfind(data[at : at + 3], max(start, at - furthest), at + 2)
    if found < 0 or found >= at:
        return None
    length = 3
    while length < longest and at + length < end and data[found + length] == data[at + length]:
        length += 1
    return at - found, length


def lznt1(data):
    """[MS-XCA] 2.5, from its description: chunks of 4,096 bytes, distances taking more bits as they grow."""
    out = bytearray()
    for start in range(0, len(data), 4096):
        end = min(start + 4096, len(data))
        body, at = bytearray(), start
        while at < end:
            flag_at, flags = len(body), 0
            body.append(0)
            for bit in range(8):
                if at >= end:
                    break
                distance_bits = 4
                while (1 << distance_bits) < at - start:
                    distance_bits += 1
                longest = (1 << (16 - distance_bits)) + 2
                match = matches(data, start, at, end, longest=longest, furthest=1 << distance_bits)
                if match:
                    distance, length = match
                    body += struct.pack("<H", (distance - 1) << (16 - distance_bits) | (length - 3))
                    flags |= 1 << bit
                    at += length
                else:
                    body.append(data[at])
                    at += 1
            body[flag_at] = flags
        if len(body) < end - start:
            out += struct.pack("<H", 0xB000 | (len(body) - 1)) + body
        else:
            out += struct.pack("<H", 0x3000 | (end - start - 1)) + data[start:end]
    return bytes(out)


def code_lengths(counts):
    """Lengths of a Huffman code for 512 symbols, at most 15 bits: counts are flattened until that holds."""
    while True:
        heap = [(count, symbol, (symbol,)) for symbol, count in counts.items()]
        if len(heap) == 1:
            heap.append((0, 511 - heap[0][1], (511 - heap[0][1],)))
        heapq.heapify(heap)
        lengths = dict.fromkeys(symbol for _, symbol, _ in heap)
        depth = dict.fromkeys(lengths, 0)
        while len(heap) > 1:
            one, other = heapq.heappop(heap), heapq.heappop(heap)
            for symbol in one[2] + other[2]:
                depth[symbol] += 1
            heapq.heappush(heap, (one[0] + other[0], one[1], one[2] + other[2]))
        if max(depth.values()) <= 15:
            return depth
        counts = {symbol: count // 2 + 1 for symbol, count in counts.items()}


class BitWriter:
    """[MS-XCA] 2.1.4.3: two 16-bit words are always reserved ahead of the bytes that lie between them."""

    def __init__(self, out):
        self.out, self.word, self.free = out, 0, 16
        self.places = [len(out), len(out) + 2]
        out += bytes(4)

    def write(self, value, count):
        if count > self.free:
            over = count - self.free
            self._put((self.word << self.free | value >> over) & 0xFFFF)
            self.places.append(len(self.out))
            self.out += bytes(2)
            self.free = 16
            self.word = 0
            value, count = value & ((1 << over) - 1), over
        self.word = self.word << count | value
        self.free -= count

    def _put(self, word):
        place = self.places.pop(0)
        self.out[place : place + 2] = struct.pack("<H", word)

    def close(self):
        self._put(self.word << self.free & 0xFFFF)


def xpress_huffman(data):
    """[MS-XCA] 2.1, from its description: blocks of 65,536 bytes with a table of code lengths each."""
    out, at = bytearray(), 0
    while at < len(data):
        end, symbols, counts = min(at + 65_536, len(data)), [], {}
        while at < end:
            match = matches(data, 0, at, end, longest=65_000, furthest=65_535)
            if match:
                distance, length = match
                high = distance.bit_length() - 1
                symbol = 256 + (high << 4) + min(length - 3, 15)
                symbols.append((symbol, length - 3, distance - (1 << high), high))
                at += length
            else:
                symbols.append((data[at], 0, 0, 0))
                at += 1
            counts[symbols[-1][0]] = counts.get(symbols[-1][0], 0) + 1
        lengths = code_lengths(counts)
        table = bytearray(256)
        for symbol, bits in lengths.items():
            table[symbol // 2] |= bits << (4 * (symbol & 1))
        codes, code, previous = {}, 0, 0
        for bits, symbol in sorted((bits, symbol) for symbol, bits in lengths.items()):
            code <<= bits - previous
            codes[symbol], previous = (code, bits), bits
            code += 1
        out += table
        writer = BitWriter(out)
        for symbol, length, rest, high in symbols:
            writer.write(*codes[symbol])
            if symbol >= 256:
                if length >= 15 + 255:
                    out += struct.pack("<BH", 255, length)
                elif length >= 15:
                    out.append(length - 15)
                writer.write(rest, high)
        writer.close()
    return bytes(out)


COMPRESSIONS = {2: lznt1, 4: xpress_huffman}


@pytest.mark.parametrize(("number", "name"), [(2, "LZNT1"), (4, "Xpress with Huffman coding")])
def test_logs_in_every_compression(imported, tmp_path, number, name):
    """The same events, stored and compressed: the same payloads, byte for byte, and the same rows."""
    random_ = random.Random(number)
    noise = [etl.system(0xF2E, T0 + 5000, random_.randbytes(length)) for length in (1, 500, 9_000)]
    repeats = [etl.system(0xF2E, T0 + 5000, bytes([value]) * 20_000) for value in (0, 7)]
    buffers = [reads(*range(1, 500)), [*reads(*range(500, 600)), *noise, *repeats], noise[:1]]
    plain = etl.log(*buffers)
    packed = etl.log(*buffers, compression=COMPRESSIONS[number], compression_format=number)
    assert len(packed) < len(plain) / 2
    assert offsets(imported(packed, "packed")) == offsets(imported(plain, "plain")) == list(range(1, 600))
    found = [_readers.inspect_etl(tmp_path / f"{kind}.etl") for kind in ("plain", "packed")]
    crcs = [[summary["payload_crc32"] for summary in one["first_buffers"][1:]] for one in found]
    assert crcs[0] == crcs[1]
    assert found[1]["compressed_buffers"] == 3
    assert reader.inspect(tmp_path / "packed.etl", "x")["compression"] == name


@pytest.mark.parametrize("number", [2, 4])
def test_payloads_longer_than_a_block(tmp_path, number):
    """Sessions with buffers of 256 KiB: several chunks of LZNT1, several codes of Huffman."""
    random_ = random.Random(number)
    events = [
        etl.system(0xF2E, T0 + at, random_.choices(b"abcdefgh", k=random_.randrange(3_000)) and bytes(
            random_.choices(b"abcdefgh", [1, 1, 2, 4, 8, 16, 32, 64], k=random_.randrange(3_000))
        ))
        for at in range(120)
    ]  # fmt: skip
    crcs = []
    for compression in (None, COMPRESSIONS[number]):
        path = tmp_path / "a.etl"
        path.write_bytes(etl.log(events, compression=compression, compression_format=number, stride=262_144))
        found = _readers.inspect_etl(path)
        crcs.append([summary["payload_crc32"] for summary in found["first_buffers"][1:]])
        assert (found["events"], found["damaged_buffers"]) == (121, 0)
    assert crcs[0] == crcs[1]


@pytest.mark.parametrize("number", [2, 4])
def test_a_damaged_compressed_buffer_costs_only_itself(imported, number):
    data = bytearray(
        etl.log(reads(1), reads(2), reads(3), compression=COMPRESSIONS[number], compression_format=number)
    )
    (second,) = struct.unpack_from("<I", data, 1024)
    at = 1024 + second + 72
    data[at : at + 20] = b"\xff" * 20
    recording = imported(bytes(data))
    assert offsets(recording) == [1, 3]
    assert recording.manifest.quality.damaged_buffers == 1


def test_a_wrapped_circular_log(imported):
    """The file begins with the newest buffers: time is in the sequence numbers and stamps, not in the positions."""
    data = etl.log(reads(50, 51), reads(60), reads(30), reads(40), sequences=[8, 9, 6, 7], mode=0x2)
    recording = imported(data)
    assert offsets(recording) == [30, 40, 50, 51, 60]
    assert recording.manifest.quality.sequence_holes == 0
    assert recording.manifest.window_start_ns == 3_000
    assert any("circular" in note for note in recording.manifest.quality.notes)


def test_a_flight_recorder_is_circular(imported):
    recording = imported(etl.log(reads(5), sequences=[77], mode=0x400))
    assert recording.manifest.quality.sequence_holes == 0
    assert any("circular" in note for note in recording.manifest.quality.notes)


def test_ties_between_processors_and_inside_one(tmp_path):
    """At one tick: lowest processor first, then the order of its buffers by number, whatever lies first in the file."""

    def read(offset):
        return etl.perfinfo(etl.READ, T0 + 9, etl.transfer(offset=512 * offset, response=1, irp=offset))

    path = tmp_path / "a.etl"
    path.write_bytes(
        etl.log(
            [read(7), read(8)],
            [read(4)],
            [read(5), read(6)],
            [read(3)],
            sequences=[1, 4, 3, 2],
            processors=[300, 2, 2, 0],
        )
    )
    for kept_events in (100, 3, 0):
        trace = _readers.read_etl(path, kept_events=kept_events)
        rows = pa.record_batch(trace.next_io(100)).to_pylist()
        assert [row["offset_bytes"] // 512 for row in rows] == [3, 5, 6, 4, 7, 8]


def test_an_unclosed_log(imported, tmp_path):
    """No end time, no count of buffers, zeros behind: everything whole is read, and it says so."""
    data = etl.log(reads(1, 2), reads(3), end=0, written=0) + bytes(200_000)
    recording = imported(data)
    assert offsets(recording) == [1, 2, 3]
    quality = recording.manifest.quality
    assert "never closed" in quality.ended
    assert quality.verdict == "usable"
    assert recording.manifest.window_end_ns == 300
    found = reader.inspect(tmp_path / "trace.etl", "trace.etl")
    assert not found["whole"]
    assert "never closed" in found["problems"][0]


def test_a_log_cut_inside_a_buffer(imported, tmp_path):
    whole = etl.log(reads(1), reads(2))
    for cut in (1, 60_000, 65_536 - 71):
        recording = imported(whole[:-cut], f"cut-{cut}")
        assert offsets(recording) == [1]
        assert recording.manifest.quality.truncated_tail
        found = reader.inspect(tmp_path / f"cut-{cut}.etl", "x")
        assert found["problems"] == ["the file ends inside a buffer"]


@pytest.mark.parametrize("version", [(5, 2), (6, 0)])
def test_logs_of_vista_and_older_are_refused(tmp_path, version):
    path = tmp_path / "old.etl"
    path.write_bytes(etl.log(reads(1), os=version))
    for read in (
        lambda: import_files([path], tmp_path / "out.iotrace"),
        lambda: reader.inspect(path, "old.etl"),
    ):
        with pytest.raises(IotraceError, match="Vista") as caught:
            read()
        assert caught.value.hint


def test_a_relogged_log_carries_kernel_events_in_full_headers(imported):
    """And further log headers of the logs it was made of: only the first one anchors the clock."""
    file_guid, thread_guid = "90cbdc39-4a3e-11d1-84f4-0000f80464e3", "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c"
    second_header = etl.log_header(t0=T0 + 5, start=etl.START_FILETIME + 10**9)
    events = [
        etl.full(thread_guid, 3, T0 + 1, etl.thread(8, 100)),
        second_header,
        etl.full(etl.DISK_GUID, 10, T0 + 10, etl.transfer(key=4, response=5, thread=100)),
        etl.full(file_guid, 0x43, T0 + 20, etl.operation("read", irp=9, key=4, offset=3, thread=100)),
        etl.full(file_guid, 0x4C, T0 + 22, etl.operation_end(9)),
        etl.full(file_guid, 0x24, T0 + 30, etl.name(4, "\\x")),
    ]
    recording = imported(etl.log(events, mode=0x10001, session="Relogger"))
    table = recording.read("io").to_pylist()
    assert [(row["layer"], row["completed_ns"], row["file_id"]) for row in table] == [
        ("block", 1_000, 0),
        ("filesystem", 2_200, 0),
    ]
    assert [row["process_id"] for row in table] == [0, 0]


@pytest.mark.parametrize(("clock", "tick_ns"), [(1, 500), (2, 100), (3, 0.5)])
def test_every_clock_in_every_layer(imported, clock, tick_ns):
    """2 MHz counter, 2 GHz processor. Response times count the counter, requests 100 ns, whatever the clock."""
    t0 = etl.START_FILETIME if clock == 2 else T0
    events = [
        etl.manifest(etl.STORPORT_GUID, 201, t0 + 90_000, etl.request_timed(duration=10), version=2),
        etl.perfinfo(etl.READ, t0 + 100_000, etl.transfer(response=4)),
        etl.system(etl.OPERATIONS["read"], t0 + 110_000, etl.operation("read", irp=1)),
        etl.system(etl.OPERATION_END, t0 + 120_000, etl.operation_end(1, moved=4096)),
    ]
    recording = imported(etl.log(events, clock=clock, t0=t0, frequency=2_000_000, mhz=2_000))
    lengths = {
        row["layer"]: (row["completed_ns"], row["completed_ns"] - row["issued_ns"])
        for row in recording.read("io").to_pylist()
    }
    assert lengths == {
        "device": (90_000 * tick_ns, 1_000),
        "block": (100_000 * tick_ns, 2_000),
        "filesystem": (120_000 * tick_ns, 10_000 * tick_ns),
    }


def test_optical_drives_are_left_out_and_said(imported):
    events = [etl.perfinfo(0x137, T0 + 10, etl.transfer(response=1)), *reads(20)]
    recording = imported(etl.log(events))
    assert offsets(recording) == [20]
    assert "1 event of optical drives left out" in recording.manifest.quality.notes


def test_inspection_names_what_is_in_a_log(tmp_path):
    path = tmp_path / "a.etl"
    events = [
        *reads(1, 2),
        etl.system(etl.OPERATIONS["read"], T0 + 3, etl.operation("read")),
        etl.manifest(etl.STORPORT_GUID, 201, T0 + 4, etl.request_timed(duration=1), version=2),
        etl.system(0x0F2E, T0 + 5, b""),
        etl.manifest("00000000-0000-0000-0000-000000000005", 1, T0 + 6, b"", version=1),
    ]
    path.write_bytes(etl.log(events, reads(9), sequences=[1, 3], events_lost=2))
    found = reader.FORMAT.inspect(path, "a.etl")
    assert found["events_by_group"] == {"header": 1, "disk I/O": 3, "file I/O": 1}
    assert found["events_by_provider"] == {"Microsoft-Windows-StorPort": 1}
    assert found["other_events"] == 2, "of a group and of a provider that are not known"
    assert found["events"] == 8
    assert found["problems"] == ["2 events lost", "1 hole in the buffer sequence"]
    with pytest.raises(IotraceError, match="no file 'gone'"):
        reader.inspect(tmp_path / "gone", "gone")
