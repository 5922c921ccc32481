"""Tencent CBS block traces (SNIA IOTTA 27917): ``Timestamp,Offset,Size,IOType,VolumeID``, sectors and whole seconds.

IOType is 0 for a read and 1 for a write; there is no latency. Field meanings: the description that
comes with the traces.
"""

import re
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.io_lines import (
    NO_LATENCIES,
    READ,
    WRITE,
    Dialect,
    Rows,
    bytes_of_sectors,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines
from iotrace.schemas.units import SECTOR_BYTES

_LINE: Final = re.compile(r"1[0-9]{9},[0-9]+,[0-9]+,[01],[0-9]+")


def _recognises(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 3)
    body = lines[1:] if lines and lines[0].lower().startswith("timestamp,offset,") else lines
    return bool(body) and all(_LINE.fullmatch(line.strip()) for line in body)


def _convert(columns: dict[str, pa.Array]) -> Rows:
    ticks, has_ticks = numbers(columns["timestamp"])
    sectors, has_offset = numbers(columns["offset"])
    count, has_size = numbers(columns["size"])
    op, has_op = words(columns["type"], {"0": READ, "1": WRITE})
    offset, possible = bytes_of_sectors(sectors)
    device = pc.binary_join_element_wise("volume", columns["volume"], " ")
    size = np.clip(count, -1, 1 << 30) * SECTOR_BYTES
    return Rows(has_ticks & has_offset & has_size & has_op & possible, ticks, op, offset, size, device)


FORMAT: Final = Dialect(
    "tencent",
    ["timestamp", "offset", "size", "type", "volume"],
    ",",
    _convert,
    tick_ns=10**9,
    anchor_ns=1_000_000_000,
    utc_ns=lambda ticks: ticks * 10**9,
    clock_name="Tencent block trace, seconds",
    notes=(
        NO_LATENCIES,
        "the source gives whole seconds only: I/Os of the same second look simultaneous",
    ),
    headers=("timestamp,offset,",),
).format(_recognises)
