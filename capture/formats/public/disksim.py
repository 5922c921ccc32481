"""DiskSim ASCII traces and MQSim's of the same columns: time, device, address, sectors, type; no latency.

DiskSim: milliseconds with a fraction, type 0 write and 1 read (its reference manual, "Input: ASCII"); MQSim: whole
nanoseconds and the same types (the README of CMU-SAFARI/MQSim). Sectors of 512 bytes.
"""

import re
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.io_lines import (
    READ,
    SECTOR_BYTES,
    WRITE,
    Dialect,
    Rows,
    bytes_of_sectors,
    decimals,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines

_COLUMNS: Final = ["time", "device", "address", "sectors", "type"]
_MQSIM: Final = re.compile(r"[0-9]{1,18}[ \t]+[0-9]{1,6}[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+[01]")
_DISKSIM: Final = re.compile(
    r"[0-9]{1,15}\.[0-9]+[ \t]+[0-9]{1,6}[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+[0-9a-fA-F]{1,8}"
)


def _recognises_mqsim(head: bytes, _path: Path) -> bool:
    return _all(_MQSIM, head)


def _recognises_disksim(head: bytes, _path: Path) -> bool:
    return _all(_DISKSIM, head)


def _all(pattern: re.Pattern[str], head: bytes) -> bool:
    lines = head_lines(head, 3)
    return bool(lines) and all(pattern.fullmatch(line.strip()) for line in lines)


def _convert_mqsim(columns: dict[str, pa.Array]) -> Rows:
    ticks, has_ticks = numbers(columns["time"])
    op, has_op = words(columns["type"], {"0": WRITE, "1": READ})
    return _rows(columns, ticks, has_ticks & (ticks >= 0), op, has_op)


def _convert_disksim(columns: dict[str, pa.Array]) -> Rows:
    milliseconds, has_ticks = decimals(columns["time"])
    flags, has_op = _hexadecimal(columns["type"])
    ticks = np.round(np.where(np.abs(milliseconds) < 1e12, milliseconds, 0) * 1e6).astype(np.int64)
    return _rows(columns, ticks, has_ticks, np.where(flags & 1, READ, WRITE), has_op)


def _hexadecimal(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The lowest bit of the flags, which DiskSim writes in hexadecimal: whether it is a read."""
    last = pc.utf8_lower(pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(column), -1))
    return words(last, {digit: int(digit, 16) for digit in "0123456789abcdef"})


def _rows(
    columns: dict[str, pa.Array], ticks: np.ndarray, has_ticks: np.ndarray, op: np.ndarray, has_op: np.ndarray
) -> Rows:
    sectors, has_address = numbers(columns["address"])
    count, has_count = numbers(columns["sectors"])
    offset, possible = bytes_of_sectors(sectors)
    device = pc.binary_join_element_wise("device", columns["device"], " ")
    size = np.clip(count, -1, 1 << 30) * SECTOR_BYTES
    return Rows(has_ticks & has_address & has_count & has_op & possible, ticks, op, offset, size, device)


MQSIM: Final = Dialect(
    "mqsim",
    _COLUMNS,
    " ",
    _convert_mqsim,
    tick_ns=1,
    utc_ns=None,
    clock_name="MQSim trace, nanoseconds",
    notes=("the source has no latencies",),
    squeeze=True,
).format(_recognises_mqsim)

DISKSIM: Final = Dialect(
    "disksim",
    _COLUMNS,
    " ",
    _convert_disksim,
    tick_ns=1,
    utc_ns=None,
    clock_name="DiskSim trace, milliseconds",
    notes=("the source has no latencies",),
    squeeze=True,
).format(_recognises_disksim)
