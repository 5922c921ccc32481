"""The printout of biosnoop (bcc): one line per request with its device latency, at its completion.

Columns are found by the heading: TIME(s), COMM, PID, DISK, T, SECTOR, BYTES, QUE(ms) with -Q, LAT(ms), as the tool's
example page shows them. LAT is issue to completion: layer device. The heading is needed, and with it BYTES:
bpftrace's own biosnoop.bt prints no address and no size, so there is nothing to make an I/O of.
"""

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.format import Format, Progress, naming
from iotrace.capture.formats.io_lines import (
    DISCARD,
    FLUSH,
    READ,
    WRITE,
    Dialect,
    IoLinesTrace,
    Rows,
    bytes_of_sectors,
    decimals,
    matched,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines, inspect_text, lines_of
from iotrace.schemas import IotraceError

_HEADING: Final = re.compile(r"\s*TIME\((s|ms)\)\s+\S.*\bLAT\(ms\)\s*")
# A command's name may hold blanks; everything right of it may not.
_LINE: Final = (
    r"^\s*(?P<time>[0-9]+\.[0-9]+)\s+(?P<process>\S.*?)\s+(?P<number>[0-9]+)\s+(?P<disk>[^\s.]\S*)\s+(?P<type>[RWDF?])\S*"
    r"\s+(?P<sector>-?[0-9]+)\s+(?P<bytes>[0-9]+)(?:\s+[0-9.]+)*?\s+(?P<latency>[0-9.]+)\s*$"
)
_FIELDS: Final = ["time", "process", "number", "disk", "type", "sector", "bytes", "latency"]


def _heading(head: bytes) -> str | None:
    # bpftrace says first what it does, and warns.
    return next((line for line in head_lines(head, 20) if _HEADING.fullmatch(line)), None)


def _recognises(head: bytes, _path: Path) -> bool:
    return _heading(head) is not None


def _read(path: Path, name: str, progress: Progress) -> IoLinesTrace:
    with naming(name), path.open("rb") as file:
        heading = _heading(file.read(1 << 16)) or ""
    if not {"SECTOR", "BYTES"} <= set(heading.split()) or "TIME(s)" not in heading:
        raise IotraceError(
            f"'{name}' is a biosnoop printout without addresses and sizes",
            hint="record with iotrace capture linux, blktrace, or perf record -e 'block:*' instead",
        )
    dialect = Dialect(
        "biosnoop",
        _FIELDS,
        " ",
        _rows,
        tick_ns=1,
        utc_ns=None,
        clock_name="biosnoop",
        layer="device",
        notes=("latencies are printed in steps of 1 to 10 µs",),
        parse=_fields,
    )
    return IoLinesTrace(path, name, progress, dialect)


def _fields(block: bytes) -> tuple[dict[str, pa.Array], int]:
    lines = lines_of(block)
    heading = pc.match_substring_regex(lines, r"^\s*$|^\s*TIME\(|^Attach|^Tracing|WARNING|^ERROR|^stdin")
    lines = lines.filter(pc.invert(heading))
    return matched(lines, _LINE, _FIELDS)


def _rows(columns: dict[str, pa.Array]) -> Rows:
    seconds, has_time = decimals(columns["time"])
    latency_ms, has_latency = decimals(columns["latency"])
    sector, _ = numbers(columns["sector"])
    size, has_size = numbers(columns["bytes"])
    op, has_op = words(columns["type"], {"r": READ, "w": WRITE, "d": DISCARD, "f": FLUSH})
    op = np.where(has_op & (op == WRITE) & (size == 0), FLUSH, op)
    offset, possible = bytes_of_sectors(np.where(op == FLUSH, 0, sector))
    latency = np.where(has_latency, np.round(np.clip(latency_ms, 0, 1e9) * 1e6), -1).astype(np.int64)
    ended = np.round(np.clip(seconds, 0, 4e9) * 1e9).astype(np.int64)
    process = pc.binary_join_element_wise(
        columns["process"], pc.binary_join_element_wise("(", columns["number"], ")", ""), " "
    )
    thread, _ = numbers(columns["number"])
    return Rows(
        has_time & has_size & has_op & possible,
        ended - np.maximum(latency, 0),
        op,
        offset,
        size,
        columns["disk"],
        latency,
        process=process,
        thread=np.minimum(thread, 2**31 - 1),
    )


def _inspect(path: Path, name: str) -> dict[str, Any]:
    return inspect_text(path, name, "biosnoop")


FORMAT: Final = Format("biosnoop", _recognises, _read, _inspect)
