"""MSR Cambridge traces (SNIA IOTTA 388): block-layer I/Os of Windows servers with their response times.

``Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime``; the timestamp is a FILETIME, the response time
is in the same 100 ns ticks and the timestamp is that of the issue, as the README published with the traces says.
"""

import re
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.io_lines import READ, WRITE, Dialect, Rows, filetime_utc_ns, numbers, words
from iotrace.capture.formats.text_blocks import head_lines

_COLUMNS: Final = ["timestamp", "host", "disk", "type", "offset", "size", "response"]
_LINE: Final = re.compile(r"1[0-9]{17},[^,]+,[0-9]+,(read|write),[0-9]+,[0-9]+,[0-9]+", re.IGNORECASE)


def _recognises(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 3)
    body = lines[1:] if lines and lines[0].lower().startswith("timestamp,hostname,") else lines
    return bool(body) and all(_LINE.fullmatch(line.strip()) for line in body)


def _convert(columns: dict[str, pa.Array]) -> Rows:
    ticks, has_ticks = numbers(columns["timestamp"])
    offset, has_offset = numbers(columns["offset"])
    size, has_size = numbers(columns["size"])
    response, has_response = numbers(columns["response"])
    op, has_op = words(columns["type"], {"read": READ, "write": WRITE})
    valid = has_ticks & has_offset & has_size & has_response & has_op & (offset >= 0)
    response = np.where((response < 0) | (response > 1 << 50), -1, response)
    device = pc.binary_join_element_wise(columns["host"], columns["disk"], " disk ")
    return Rows(valid, ticks, op, offset.astype("uint64"), size, device, response * 100)


FORMAT: Final = Dialect(
    "msr",
    _COLUMNS,
    ",",
    _convert,
    tick_ns=100,
    utc_ns=filetime_utc_ns,
    clock_name="Windows FILETIME",
    headers=("timestamp,hostname,",),
).format(_recognises)
