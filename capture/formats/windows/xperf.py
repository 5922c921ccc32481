"""Text that xperf makes of Windows event traces: ``-a dumper`` and ``-a diskio -detail``.

The dumper's CSV is also the form of Microsoft's production traces (SNIA IOTTA 158). Its heading, between BeginHeader
and EndHeader, names each event's columns, which differ between Windows versions; times are microseconds since the
trace's start, a disk event's is that of its completion. Of ``diskio -detail`` the columns are found by the names in
its heading.
"""

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.format import HEAD_BYTES, SYSTEM_TICK_NS, Format, Outcome, Progress, naming
from iotrace.capture.formats.io_lines import (
    FLUSH,
    READ,
    WRITE,
    Dialect,
    Integers,
    IoLinesTrace,
    Rows,
    filetime_utc_ns,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines, inspect_text, lines_of, text_encoding
from iotrace.schemas import IoFlags
from iotrace.schemas.host import Host

_EVENTS: Final = {"diskread": READ, "diskwrite": WRITE, "diskflush": FLUSH}
_START: Final = re.compile(r"Trace Start:\s*([0-9]{18})")
_LOST: Final = re.compile(r"Events Lost:\s*([0-9]+),\s*Buffers lost:\s*([0-9]+)", re.IGNORECASE)
_VERSION: Final = re.compile(r"OS Version:\s*([0-9.]+)")
# IRP flags of ntddk.h as the ETW documentation lists them.
_IRP: Final = (
    (0x1, IoFlags.NO_CACHE),
    (0x2, IoFlags.PAGING),
    (0x4, IoFlags.SYNCHRONOUS),
    (0x40, IoFlags.SYNCHRONOUS),
)
_DETAIL: Final = {
    "iotype": "event",
    "starttime": "start",
    "endtime": "end",
    "iosize": "size",
    "size": "size",
    "offset": "offset",
    "byteoffset": "offset",
    "minoffset": "offset",
    "processnamepid": "process",
    "process": "process",
    "disk": "disk",
    "disknum": "disk",
    "filename": "file",
}
_DUMPER: Final = {
    "timestamp": "end",
    "processnamepid": "process",
    "threadid": "thread",
    "byteoffset": "offset",
    "iosize": "size",
    "elapsedtime": "elapsed",
    "disknum": "disk",
    "irpflags": "flags",
    "filename": "file",
}
_FIELDS: Final = [
    "event",
    "start",
    "end",
    "elapsed",
    "process",
    "thread",
    "offset",
    "size",
    "disk",
    "flags",
    "file",
]
Columns = dict[str, tuple[dict[str, int], int]]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _layout(cells: list[str], names: dict[str, str]) -> tuple[dict[str, int], int]:
    """Where each field stands, and how many cells there are."""
    found = {
        names[_plain(cell)]: place
        for place, cell in reversed(list(enumerate(cells)))
        if _plain(cell) in names
    }
    return found, len(cells)


def dumper_columns(lines: list[str]) -> Columns | None:
    """Columns of each disk event as the heading names them; None for text without such a heading."""
    if "BeginHeader" not in {line.strip() for line in lines[:20]}:
        return None
    columns: Columns = {}
    for line in lines:
        cells = line.split(",")
        event = cells[0].strip().lower()
        if event in _EVENTS and len(cells) > 1 and _plain(cells[1]) == "timestamp":
            columns[event] = _layout(cells, _DUMPER)
        if line.strip() == "EndHeader":
            break
    return columns


def detail_columns(lines: list[str]) -> tuple[dict[str, int], int] | None:
    """Columns of ``diskio -detail``; None for other text."""
    for line in lines[:40]:
        cells = line.split(",")
        plain = [_plain(cell) for cell in cells]
        if plain[0] == "iotype" and {"starttime", "endtime"} <= set(plain):
            return _layout(cells, _DETAIL)
    return None


def _recognises_dumper(head: bytes, _path: Path) -> bool:
    return dumper_columns(head_lines(head, 2000)) is not None


def _recognises_detail(head: bytes, _path: Path) -> bool:
    return detail_columns(head_lines(head, 40)) is not None


class XperfTrace(IoLinesTrace):
    """As every trace of lines, with what the heading tells of losses and of the start."""

    def __init__(self, path: Path, name: str, progress: Progress, dialect: Dialect, head: str) -> None:
        super().__init__(path, name, progress, dialect)
        lost = _LOST.search(head)
        self._lost = (int(lost[1]), int(lost[2])) if lost else (0, 0)
        version = _VERSION.search(head)
        self.host = Host(system=f"Windows {version[1]}" if version else None)

    def outcome(self) -> Outcome:
        """As of any trace of lines, with the trace's own losses."""
        outcome = super().outcome()
        outcome.quality.events_lost += self._lost[0]
        outcome.quality.buffers_lost = self._lost[1]
        if not outcome.events:
            outcome.quality.notes.append("the text holds no disk I/O")
        return outcome


def _read(path: Path, name: str, progress: Progress) -> XperfTrace:
    with naming(name), path.open("rb") as file:
        raw = file.read(HEAD_BYTES * 8)
    head = raw.decode(text_encoding(raw), "replace")
    lines = head_lines(raw, 20_000)
    dumper = dumper_columns(lines)
    start = _START.search(head)
    parser = _Parser(dumper, detail_columns(lines) if dumper is None else None)
    dialect = Dialect(
        "xperf",
        _FIELDS,
        ",",
        _rows,
        tick_ns=1000,
        utc_ns=(lambda _ticks: filetime_utc_ns(int(start[1]))) if start else None,
        anchor_ns=SYSTEM_TICK_NS if start else None,
        clock_name="Windows event trace, microseconds",
        parse=parser.fields,
        first_ticks=0,
    )
    return XperfTrace(path, name, progress, dialect, head)


class _Parser:
    """Picks the disk events out of a block of lines and brings their columns into one order."""

    def __init__(self, dumper: Columns | None, detail: tuple[dict[str, int], int] | None) -> None:
        self._events = dumper if dumper is not None else dict.fromkeys(_EVENTS, detail or ({}, 1))
        self._detail = dumper is None

    def fields(self, block: bytes) -> tuple[dict[str, pa.Array], int]:
        lines = pc.utf8_trim_whitespace(lines_of(block))
        event = pc.utf8_lower(
            pc.utf8_trim_whitespace(pc.list_element(pc.split_pattern(lines, ",", max_splits=1), 0))
        )
        if self._detail:
            short = pc.is_in(event, value_set=pa.array(["read", "write", "flush"]))
            event = pc.if_else(short, pc.binary_join_element_wise("disk", event, ""), event)
        pieces = []
        rejected = 0
        for kind, (places, cells) in self._events.items():
            chosen = lines.filter(pc.equal(event, kind))
            # The last cell, a path, may hold commas itself.
            parts = pc.split_pattern(chosen, ",", max_splits=max(cells - 1, 1))
            # A heading names its columns where an event has numbers; flushes leave out the file.
            heading = pc.match_substring_regex(chosen, r"(?i)^[^,]*,\s*(timestamp|start)")
            whole = pc.greater_equal(pc.list_value_length(parts), max(cells - 1, 2))
            kept = pc.and_(whole, pc.invert(heading))
            rejected += pc.sum(pc.and_(pc.invert(whole), pc.invert(heading))).as_py() or 0
            parts = parts.filter(kept)
            pieces.append(
                {name: _cell(parts, places.get(name)) for name in _FIELDS}
                | {"event": _repeat(kind, len(parts))}
            )
        if not pieces:  # the header names no event of ours
            return {name: pa.array([], pa.string()) for name in _FIELDS}, rejected
        return {name: pa.concat_arrays([piece[name] for piece in pieces]) for name in _FIELDS}, rejected


def _cell(parts: pa.Array, place: int | None) -> pa.Array:
    if place is None or not len(parts):
        return _repeat("", len(parts))
    lengths = pc.list_value_length(parts)
    padded = parts if pc.min(lengths).as_py() > place else None
    if padded is None:
        values = [row[place] if place < len(row) else "" for row in parts.to_pylist()]
        return pc.utf8_trim_whitespace(pa.array(values, pa.string()))
    return pc.utf8_trim_whitespace(pc.list_element(parts, place))


def _repeat(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _rows(columns: dict[str, pa.Array]) -> Rows:
    op, _ = words(columns["event"], _EVENTS)
    end, has_end = numbers(columns["end"])
    start, has_start = numbers(columns["start"])
    elapsed, has_elapsed = numbers(columns["elapsed"])
    elapsed = np.where(has_start, end - start, elapsed)
    known = (has_elapsed | has_start) & (elapsed >= 0)
    offset, has_offset = hexadecimals(columns["offset"])
    size, has_size = hexadecimals(columns["size"])
    flush = op == FLUSH
    _, has_disk = numbers(columns["disk"])
    flags, _ = hexadecimals(columns["flags"])
    thread, has_thread = numbers(columns["thread"])
    file = pc.utf8_trim(columns["file"], '" ')
    unknown = pc.match_substring_regex(file, r"(?i)^(unknown|n/a|none)?$")
    return Rows(
        has_end & has_disk & (flush | (has_offset & has_size)),
        np.where(known, end - elapsed, end),
        op,
        np.where(flush, 0, np.maximum(offset, 0)).astype(np.uint64),
        np.where(flush, 0, size),
        pc.binary_join_element_wise("disk", columns["disk"], " "),
        np.where(known, np.minimum(elapsed, 1 << 50) * 1000, -1),
        irp_flags(flags),
        np.where(has_thread, np.minimum(thread, 2**31 - 1), -1),
        columns["process"],
        pc.if_else(unknown, "", file),
    )


def hexadecimals(column: pa.Array) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Numbers written as 0x… or plain decimals, 0 where there is none, and where there is one."""
    encoded = pc.utf8_lower(pc.utf8_trim_whitespace(column)).dictionary_encode()
    values = [_number(text) for text in encoded.dictionary.to_pylist()]
    table = np.array([-1 if value is None else value for value in values] or [-1], np.int64)
    found = table[encoded.indices.to_numpy(zero_copy_only=False)] if len(column) else np.zeros(0, np.int64)
    return np.maximum(found, 0), found >= 0


def _number(text: str) -> int | None:
    try:
        value = int(text, 16) if text.startswith("0x") else int(text)
    except ValueError:
        return None
    return value if 0 <= value < 1 << 62 else None


def irp_flags(flags: Integers) -> Integers:
    """Bits of ``io.flags`` from a request packet's flags."""
    result = np.zeros(len(flags), np.int64)
    for bit, flag in _IRP:
        result |= np.where(flags & bit, int(flag), 0)
    return result


def _inspect(path: Path, name: str) -> dict[str, Any]:
    return inspect_text(path, name, "xperf")


DUMPER: Final = Format("xperf", _recognises_dumper, _read, _inspect)
DETAIL: Final = Format("xperf-diskio", _recognises_detail, _read, _inspect)
