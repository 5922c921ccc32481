"""Events for the stand-in of Windows' event tracing (`capture/agent/tests/stand-ins/trace/trace.c`).

Layouts of the constructed ones: Microsoft's documentation of the classes DiskIo_TypeGroup1, DiskIo_TypeGroup3,
FileIo_Name, FileIo_ReadWrite and FileIo_OpEnd, 64 bits; of StorPort's event 201 as Windows' manifest lists its fields.
"""

import gzip
import struct
import uuid
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

HERTZ = 10_000_000
"""Ticks a second of both real samples and of Wine's performance counter."""

DISK_IO = uuid.UUID("3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c").bytes_le
FILE_IO = uuid.UUID("90cbdc39-4a3e-11d1-84f4-0000f80464e3").bytes_le
STORPORT = uuid.UUID("c4636a1e-7986-4646-bf10-7bc3b4a76e8e").bytes_le
TRACE_HEADER = uuid.UUID("68fdd900-4a3e-11d1-84f4-0000f80464e3").bytes_le

READ, WRITE, FLUSH = 10, 11, 14
NAME_CREATED, NAME_DELETED, NAME_LISTED = 32, 35, 36


class When(IntEnum):
    """When the stand-in hands an event over."""

    AT_ITS_TIME = 0
    AT_STOP = 1
    AT_START = 2


def event(
    provider: bytes, opcode: int, version: int, payload: bytes, ticks: int = 0, when: When = When.AT_ITS_TIME
) -> bytes:
    """One event of the kernel, ``ticks`` after the play's start, with no thread or process in its header."""
    header = struct.pack(
        "<HHHHIIq16sHBBBBHQQ16s", 80 + len(payload), 0, 0x140, 0, 2**32 - 1, 2**32 - 1, ticks, provider, 0, version,
        0, 0, opcode, 0, 0, 0, bytes(16),
    )  # fmt: skip
    return _entry(when, 0, header, payload)


def disk_io(
    opcode: int, ticks: int, *, disk: int = 0, offset: int = 0, size: int = 8192, key: int = 0, response: int = 2_000,
    thread: int = 4_000,
) -> bytes:  # fmt: skip
    """A read or write of ``size`` bytes that took ``response`` ticks and was complete at ``ticks``."""
    payload = struct.pack(
        "<IIIIqQQQI", disk, 0x60043, size, 0, offset, key, 0xFFFF_9000_0000_0000 + ticks, response, thread
    )
    return event(DISK_IO, opcode, 3, payload, ticks)


def flush(ticks: int, *, disk: int = 0, response: int = 50_000, thread: int = 4_000) -> bytes:
    """A flush of ``disk``; the issuing thread lies behind the request, at 24."""
    return event(DISK_IO, FLUSH, 3, struct.pack("<IIQQI", disk, 0, response, 0xFFFF_9100, thread), ticks)


def file_read(
    ticks: int, took: int, *, key: int, offset: int, size: int = 8192, thread: int = 4_000, status: int = 0
) -> bytes:
    """A read of a file by a program, and its end ``took`` ticks later (FileIo_ReadWrite, FileIo_OpEnd version 3)."""
    request = 0xFFFF_A000_0000_0000 + ticks
    begin = struct.pack("<qQQQIIII", offset, request, 0xFFFF_B000, key, thread, size, 0x60900, 0)
    end = struct.pack("<QQi", request, size, status)
    return event(FILE_IO, 67, 3, begin, ticks) + event(FILE_IO, 76, 3, end, ticks + took)


def port_request(ticks: int, *, of: int, duration_us: int, size: int = 8192) -> bytes:
    """A read that the port driver completed (event 201), made for the disk I/O that completes at ``of``."""
    payload = struct.pack(
        "<QQBBQBBBBBIQQ",
        duration_us * 10,
        0xFFFF_C000,
        0x28,
        1,
        0xFFFF_9000_0000_0000 + of,
        0,
        0,
        0,
        0,
        0,
        size,
        0,
        0,
    )
    header = struct.pack(
        "<HHHHIIq16sHBBBBHQQ16s", 80 + len(payload), 0, 0x40, 0, 0, 0, ticks, STORPORT, 201, 2, 0, 4, 0, 0, 0x100000, 0,
        bytes(16),
    )  # fmt: skip
    return _entry(When.AT_ITS_TIME, 0, header, payload)


def name(opcode: int, key: int, path: str, ticks: int = 0, when: When = When.AT_ITS_TIME) -> bytes:
    """What file ``key`` stands for."""
    return event(
        FILE_IO, opcode, 2, struct.pack("<Q", key) + path.encode("utf-16-le") + bytes(2), ticks, when
    )


def sample(path: Path) -> bytes:
    """The events of a ``.btl.gz``, from its first record on, without that: a live session has no file header."""
    play, start = [], None
    for header, processor, payload in _records(gzip.decompress(path.read_bytes())):
        (ticks,) = struct.unpack_from("<q", header, 16)
        start = ticks if start is None else start
        if header[24:40] == TRACE_HEADER and header[45] == 0:
            continue
        play.append(
            _entry(
                When.AT_ITS_TIME,
                processor,
                header[:16] + struct.pack("<q", ticks - start) + header[24:],
                payload,
            )
        )
    return b"".join(play)


def _entry(when: When, processor: int, header: bytes, payload: bytes) -> bytes:
    return (
        struct.pack("<IIII", when, len(payload), processor, 0) + header + payload + bytes(-len(payload) % 16)
    )


def _records(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Header, processor and payload of each record: blocks at multiples of 4, in them records at multiples of 16."""
    place = 0
    while (place := place + (-place % 4)) + 8 <= len(data):
        (stored,) = struct.unpack_from("<i", data, place)
        block = data[place + 8 : place + 8 + stored]
        place += 8 + stored
        at = 0
        while at + 112 <= len(block):
            (length,) = struct.unpack_from("<H", block, at + 86)
            yield block[at : at + 80], block[at + 80], block[at + 112 : at + 112 + length]
            at += 112 + length + (-length % 8)
            at += -at % 16
