"""Damage that gets past the door: fields, lines and blocks are changed, and mostly the start is left alone."""

import re
import struct
import zlib

SIZE_MAX = 1 << 18
INTEGERS = [
    0,
    1,
    7,
    8,
    48,
    71,
    72,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x10000,
    1 << 26,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
]
LONG_INTEGERS = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 53, 116_444_736_000_000_000]
# What people, locales and machines write where a number, a time or a name is expected.
WORDS = [
    *(
        b"",
        b" ",
        b"-1",
        b"-0",
        b"0",
        b"+5",
        b"1.",
        b".5",
        b"1,5",
        b"1.234,5",
        b"0x10",
        b"1e308",
        b"1e999",
        b"nan",
        b"inf",
    ),
    *(
        b"9223372036854775807",
        b"9223372036854775808",
        b"18446744073709551616",
        b"9" * 400,
        b"4294967296",
        b"1_000",
    ),
    *(
        b"NULL",
        b"true",
        b"Read",
        b"WRITE",
        b"C",
        b"Q",
        b"+",
        b"/",
        b"[",
        b"(",
        b'"',
        b'""',
        b",",
        b";",
        b"\t",
        b"\r",
        b"\n",
    ),
    *(
        b"9999-12-31 23:59:59.999",
        b"0000-00-00 00:00",
        b"2020-02-30",
        b"12/31/1600",
        b"1970-01-01T00:00:00Z",
        b"24:61:61",
    ),
    *(
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        "\u0663".encode(),
        "\u00b2".encode(),
        "\u2028".encode(),
        b"\x85",
        b"\x1a",
        b"\xc3",
    ),
    *(
        b"<",
        b"&amp;",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
        b"]]>",
        b"</Event>",
        b"*",
        b"_Total",
        b"\\\\",
        b"#1",
    ),
]


def is_text(data):
    return b"\0" not in data[:4096]


def mutate(data, others, chance, entry_name):
    """``data`` damaged in some ways; ``others`` are inputs to take pieces from."""
    damage = _damage_text if is_text(data) else _damage_bytes
    kept = chance.choice([0, 0, 64, 200, 500, 2000])
    head, body = data[:kept], bytearray(data[kept:])
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        body = damage(body or bytearray(data), others, chance)
    made = (head + bytes(body))[:SIZE_MAX]
    return _with_right_checksums(made) if entry_name == "xel" and chance.random() < 0.7 else made


def _damage_bytes(body, others, chance):
    at = chance.randrange(len(body) + 1)
    match chance.randrange(9):
        case 0:
            body[at : at + 1] = bytes([chance.randrange(256)])
        case 1:
            body[at : at + 4] = struct.pack("<I", chance.choice(INTEGERS))
        case 2:
            body[at : at + 8] = struct.pack("<q", chance.choice(LONG_INTEGERS))
        case 3:
            body[at : at + 2] = struct.pack("<H", chance.choice(INTEGERS) & 0xFFFF)
        case 4:
            at &= ~7
            number = int.from_bytes(body[at : at + 4], "little") + chance.choice([-8, -1, 1, 8, 1 << 16])
            body[at : at + 4] = struct.pack("<I", number & 0xFFFFFFFF)
        case _:
            return _damage_blocks(body, others, chance, at)
    return body


def _damage_text(body, others, chance):
    lines = bytes(body).split(b"\n")
    line = chance.randrange(len(lines))
    match chance.randrange(9):
        case 0 | 1 | 2:
            cells = re.split(rb"([,;\t\" <>()=:\[\]]+)", lines[line])
            cells[chance.randrange(len(cells))] = chance.choice(WORDS)
            lines[line] = b"".join(cells)
        case 3:
            lines[line:line] = [lines[chance.randrange(len(lines))]] * chance.choice([1, 1, 30])
        case 4:
            del lines[line : line + chance.choice([1, 1, 5])]
        case 5:
            other = chance.choice(others).split(b"\n")
            lines[line:line] = [chance.choice(other)]
        case 6:
            lines[line] = bytes(
                chance.choice(b"0123456789-.") if byte in b"0123456789" and chance.random() < 0.2 else byte
                for byte in lines[line]
            )
        case _:
            return _damage_blocks(body, others, chance, chance.randrange(len(body) + 1))
    return bytearray(b"\n".join(lines))


def _damage_blocks(body, others, chance, at):
    length = chance.choice([1, 3, 8, 40, 100, 512, 4096])
    match chance.randrange(6):
        case 0:
            del body[at : at + length]
        case 1:
            body[at:at] = chance.randbytes(length)
        case 2:
            body[at:at] = body[at : at + length] * chance.choice([1, 2, 20])
        case 3:
            source = chance.randrange(len(body) + 1)
            body[at : at + length] = body[source : source + length]
        case 4:
            other = chance.choice(others)
            source = chance.randrange(len(other) + 1)
            body[at : at + length] = other[source : source + length]
        case 5:
            del body[at:]
    return body


def _with_right_checksums(data):
    """An .xel whose damage all checksums agree with: it goes deeper into the reader."""
    data = bytearray(data)
    at = 0x200
    while at + 0x30 <= len(data):
        length, start = struct.unpack_from("<I2xH", data, at + 0x10)
        (payload,) = struct.unpack_from("<I", data, at + 0x18)
        if length < 0x30 or at + length > len(data) or start + payload > length:
            at += 512
            continue
        tail = data[at + start : at + start + payload][-1024:]
        struct.pack_into("<I", data, at + 0x1C, zlib.crc32(tail) ^ 0xFFFFFFFF)
        at += -(-length // 512) * 512
    return bytes(data)
