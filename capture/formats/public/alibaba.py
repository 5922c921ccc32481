"""Alibaba Cloud block traces (2020): ``device_id,opcode,offset,length,timestamp``, bytes and microseconds, no latency.

Field meanings: the README of the repository alibaba/block-traces.
"""

import re
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.io_lines import NO_LATENCIES, READ, WRITE, Dialect, Rows, numbers, words
from iotrace.capture.formats.text_blocks import head_lines

_LINE: Final = re.compile(r"[0-9]+,[RW],[0-9]+,[0-9]+,1[0-9]{15}")


def _recognises(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 3)
    body = lines[1:] if lines and lines[0].lower().startswith("device_id,opcode,") else lines
    return bool(body) and all(_LINE.fullmatch(line.strip()) for line in body)


def _convert(columns: dict[str, pa.Array]) -> Rows:
    ticks, has_ticks = numbers(columns["timestamp"])
    offset, has_offset = numbers(columns["offset"])
    size, has_size = numbers(columns["length"])
    op, has_op = words(columns["opcode"], {"r": READ, "w": WRITE})
    device = pc.binary_join_element_wise("volume", columns["device"], " ")
    valid = has_ticks & has_offset & has_size & has_op & (offset >= 0)
    return Rows(valid, ticks, op, offset.astype("uint64"), size, device)


FORMAT: Final = Dialect(
    "alibaba",
    ["device", "opcode", "offset", "length", "timestamp"],
    ",",
    _convert,
    tick_ns=1000,
    utc_ns=lambda ticks: ticks * 1000,
    clock_name="Alibaba block trace, microseconds",
    notes=(NO_LATENCIES,),
    headers=("device_id,opcode,",),
).format(_recognises)
