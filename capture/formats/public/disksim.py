"""DiskSim ASCII traces and MQSim's of the same columns: time, device, address, sectors, type; no latency.

DiskSim's validation traces besides, recorded from real disks: ``R Hit 4583176 4 663.0 45422.0``, operation, whether the
disk's buffer had it, sector, sectors, service time and the time from its end to the next request, in microseconds: the
simulator issues the next request that long after one completes (disksim_iodriver.c and disksim_iotrace.c).

DiskSim: milliseconds with a fraction, type 0 write and 1 read (its reference manual, "Input: ASCII"); MQSim: whole
nanoseconds and the same types (the README of CMU-SAFARI/MQSim). Sectors of 512 bytes.
"""

import re
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.format import Format, Progress
from iotrace.capture.formats.io_lines import (
    NO_LATENCIES,
    READ,
    WRITE,
    Dialect,
    IoLinesTrace,
    Rows,
    bytes_of_sectors,
    decimals,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines, inspect_text
from iotrace.schemas.units import SECTOR_BYTES

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
    notes=(NO_LATENCIES,),
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
    notes=(NO_LATENCIES,),
    squeeze=True,
).format(_recognises_disksim)


_VALIDATION: Final = re.compile(r"[RW][ \t]+(Hit|Miss)[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+[0-9.]+[ \t]+[0-9.]+")
_MICROSECONDS_MAX: Final = 1e12


class _Validation:
    """Places each request after the one before, across blocks of lines."""

    def __init__(self) -> None:
        self._next_ns = 0

    def convert(self, columns: dict[str, pa.Array]) -> Rows:
        service, has_service = decimals(columns["service"])
        pause, has_pause = decimals(columns["pause"])
        valid = has_service & has_pause
        for times in (service, pause):
            valid &= (times >= 0) & (times < _MICROSECONDS_MAX)
        service_ns = np.round(np.where(valid, service, 0) * 1000).astype(np.int64)
        # Summed as decimals first: what is damaged may not reach the end of 64 bits.
        ends = self._next_ns + np.cumsum(
            service_ns.astype(np.float64) + np.round(np.where(valid, pause, 0) * 1000)
        )
        valid &= ends < 4e18
        steps = np.where(valid, service_ns + np.round(np.where(valid, pause, 0) * 1000).astype(np.int64), 0)
        after = self._next_ns + np.cumsum(steps)
        issued = after - steps
        if len(after):
            self._next_ns = int(after[-1])
        op, has_op = words(columns["op"], {"r": READ, "w": WRITE})
        sectors, has_address = numbers(columns["address"])
        count, has_count = numbers(columns["sectors"])
        offset, possible = bytes_of_sectors(sectors)
        size = np.clip(count, -1, 1 << 30) * SECTOR_BYTES
        device = pa.repeat("disk", len(issued))
        return Rows(
            valid & has_op & has_address & has_count & possible, issued, op, offset, size, device, service_ns
        )


def _read_validation(path: Path, name: str, progress: Progress) -> IoLinesTrace:
    dialect = Dialect(
        "disksim-validation",
        ["op", "buffer", "address", "sectors", "service", "pause"],
        " ",
        _Validation().convert,
        tick_ns=1,
        utc_ns=None,
        clock_name="DiskSim validation trace, nanoseconds from microseconds",
        layer="device",
        notes=("whether the disk's buffer had it (Hit, Miss) is not kept",),
        squeeze=True,
        first_ticks=0,
    )
    return IoLinesTrace(path, name, progress, dialect)


VALIDATION: Final = Format(
    "disksim-validation",
    lambda head, _path: _all(_VALIDATION, head),
    _read_validation,
    lambda path, name: inspect_text(path, name, "disksim-validation"),
)
