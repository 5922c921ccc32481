"""What tracerpt makes of Windows event traces: CSV (``-of CSV``) and XML (``-of XML``).

Of the classic kernel events DiskIo Read, Write and FlushBuffers. The payload's order is that of the classes
DiskIo_TypeGroup1 and DiskIo_TypeGroup3 in Microsoft's ETW documentation; times are FILETIMEs, the event's being that
of the completion, and ``HighResResponseTime`` counts ticks of the performance counter, whose frequency stands in the
EventTrace Header event. Without that event responses stay unknown. File objects are not resolved: neither form has
paths here.
"""

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.format import HEAD_BYTES, SYSTEM_TICK_NS, Format, Progress, naming
from iotrace.capture.formats.io_lines import (
    FLUSH,
    READ,
    WRITE,
    Dialect,
    IoLinesTrace,
    Rows,
    filetime_utc_ns,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines, inspect_text, lines_of, text_encoding

from .xperf import hexadecimals, irp_flags

_HEADING: Final = (
    "event name,type,event id,version,channel,level,opcode,task,keyword,pid,tid,processor number"
)
_OPS: Final = {"read": READ, "write": WRITE, "flushbuffers": FLUSH}
_NAME, _TYPE, _PROCESS, _THREAD, _CLOCK, _PAYLOAD = 0, 1, 9, 10, 16, 19
_FIELDS: Final = ["type", "process", "thread", "clock", "disk", "flags", "size", "offset", "response"]
# Places in the payload; a flush has no size and no place.
_TRANSFER: Final = {"disk": 0, "flags": 1, "size": 2, "offset": 4, "response": 7, "thread": 8}
_FLUSH: Final = {"disk": 0, "flags": 1, "response": 2, "thread": 4}
# Fields of EventTrace Header's payload: BufferSize, Version, ProviderVersion, NumberOfProcessors, EndTime,
# TimerResolution, MaxFileSize, LogFileMode, BuffersWritten, StartBuffers, PointerSize, EventsLost, CPUSpeed,
# LoggerName, LogFileName, TimeZoneInformation, BootTime, PerfFreq, StartTime, ReservedFlags, BuffersLost.
_HEADER_FREQUENCY: Final = 17


def _recognises_csv(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 1)
    return bool(lines) and re.sub(r"\s*,\s*", ",", lines[0].strip().lower()).startswith(_HEADING)


def _recognises_xml(head: bytes, _path: Path) -> bool:
    start = head[:4096].decode(text_encoding(head), "replace").lstrip("\ufeff \r\n")
    return (
        start.startswith("<")
        and "<Events>" in start
        and ("http://schemas.microsoft.com/win/2004/08/events/event" in start)
    )


def _frequency(text: str) -> int | None:
    """Ticks of the performance counter in a second, as the header event tells in either form."""
    tag = re.search(r'<Data Name="PerfFreq">\s*(?:0x([0-9A-Fa-f]{1,16})|([0-9]{1,19}))\s*<', text)
    if tag:
        return (int(tag[1], 16) if tag[1] else int(tag[2])) or None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if (
            len(cells) > _PAYLOAD + _HEADER_FREQUENCY
            and cells[0].lower() == "eventtrace"
            and cells[1].lower() == "header"
        ):
            # A path of the log may hold commas: the frequency is found from its neighbours, boot and start.
            tail = cells[_PAYLOAD + 13 :]
            for boot, frequency, begin in zip(tail, tail[1:], tail[2:], strict=False):
                if len(boot) == 18 and len(begin) == 18 and frequency.isdecimal() and len(frequency) < 13:
                    return int(frequency) or None
    return None


def _read_csv(path: Path, name: str, progress: Progress) -> IoLinesTrace:
    return _trace(path, name, progress, _csv_fields, "tracerpt CSV")


def _read_xml(path: Path, name: str, progress: Progress) -> IoLinesTrace:
    return _trace(path, name, progress, _XmlEvents().fields, "tracerpt XML")


def _trace(path: Path, name: str, progress: Progress, parse: Any, clock: str) -> IoLinesTrace:  # noqa: ANN401
    with naming(name), path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    text = head.decode(text_encoding(head), "replace")
    frequency = _frequency(text)
    first = (
        re.search(r"(?m)^[^\n]*?,\s*(1[0-9]{17})\s*,", text) if "CSV" in clock else _XML_CLOCK.search(text)
    )
    notes = ["file objects are not resolved to paths: import the .etl itself for them"]
    if frequency is None:
        notes.append("the text does not give the counter's frequency: latencies are unknown")
    first_ticks = None
    if first:
        first_ticks = int(first[1]) if "CSV" in clock else _xml_ticks(pa.array([first[1]]))[0][0].item()
    dialect = Dialect(
        "tracerpt",
        _FIELDS,
        ",",
        lambda columns: _rows(columns, frequency),
        tick_ns=100,
        utc_ns=filetime_utc_ns,
        anchor_ns=SYSTEM_TICK_NS,
        clock_name=f"Windows FILETIME, {clock}",
        notes=tuple(notes),
        parse=parse,
        first_ticks=first_ticks,
    )
    return IoLinesTrace(path, name, progress, dialect)


def _csv_fields(block: bytes) -> tuple[dict[str, pa.Array], int]:
    lines = lines_of(block)
    lines = lines.filter(
        pc.match_substring_regex(lines, r"(?i)^\s*DiskIo\s*,\s*(Read|Write|FlushBuffers)\s*,")
    )
    parts = pc.split_pattern(lines, ",")
    pieces, rejected = [], 0
    kind = (
        pc.utf8_lower(pc.utf8_trim_whitespace(pc.list_element(parts, _TYPE)))
        if len(parts)
        else pa.array([], pa.string())
    )
    is_flush = pc.equal(kind, "flushbuffers")
    for places, chosen in ((_TRANSFER, pc.invert(is_flush)), (_FLUSH, is_flush)):
        rows = parts.filter(chosen)
        whole = pc.greater(pc.list_value_length(rows), _PAYLOAD + max(places["response"], 0))
        rejected += len(rows) - (pc.sum(whole).as_py() or 0)
        rows = rows.filter(whole)
        cells = {"type": _TYPE, "process": _PROCESS, "clock": _CLOCK}
        cells |= {name: _PAYLOAD + place for name, place in places.items() if name != "thread"}
        # Since Windows 8 the payload names the thread that asked; before, only the one that ran.
        asker = _PAYLOAD + places["thread"]
        has_asker = len(rows) and pc.min(pc.list_value_length(rows)).as_py() > asker
        cells["thread"] = asker if has_asker else _THREAD
        pieces.append({name: _cell(rows, cells.get(name)) for name in _FIELDS})
    return {name: pa.concat_arrays([piece[name] for piece in pieces]) for name in _FIELDS}, rejected


def _cell(rows: pa.Array, place: int | None) -> pa.Array:
    if place is None or not len(rows):
        return pa.repeat(pa.scalar("", pa.string()), len(rows))
    return pc.utf8_trim_whitespace(pc.list_element(rows, place))


_XML_CLOCK: Final = re.compile(r'<TimeCreated SystemTime="([^"]+)"')
_XML: Final = {
    "type": r"<Opcode>(?P<v>[^<]*)</Opcode>",
    "process": r'<Execution ProcessID="(?P<v>[^"]*)"',
    "thread": r'<Data Name="IssuingThreadId">(?P<v>[^<]*)<',
    "clock": r'<TimeCreated SystemTime="(?P<v>[^"]*)"',
    "disk": r'<Data Name="DiskNumber">(?P<v>[^<]*)<',
    "flags": r'<Data Name="IrpFlags">(?P<v>[^<]*)<',
    "size": r'<Data Name="TransferSize">(?P<v>[^<]*)<',
    "offset": r'<Data Name="ByteOffset">(?P<v>[^<]*)<',
    "response": r'<Data Name="HighResResponseTime">(?P<v>[^<]*)<',
}


class _XmlEvents:
    """Cuts a stream of blocks at the ends of events; the names and the operation stand in RenderingInfo."""

    def __init__(self) -> None:
        self._carry = ""

    def fields(self, block: bytes) -> tuple[dict[str, pa.Array], int]:
        text = self._carry + block.decode("utf-8", "replace")
        pieces = text.split("</Event>")
        self._carry = pieces.pop()[-(1 << 20) :]
        events = pa.array(pieces, pa.large_string()).cast(pa.string())
        named = pc.match_substring_regex(events, r"<EventName[^>]*>\s*DiskIo\s*</EventName>")
        events = events.filter(named)
        columns = {}
        for name, pattern in _XML.items():
            # The rendered opcode, a word, comes after the number of the header.
            source = (
                pc.replace_substring_regex(events, r"(?s)^.*<RenderingInfo", "") if name == "type" else events
            )
            found = pc.extract_regex(source, "(?s)" + pattern)
            columns[name] = pc.fill_null(pc.utf8_trim_whitespace(pc.struct_field(found, "v")), "")
        known = pc.is_in(pc.utf8_lower(columns["type"]), value_set=pa.array(list(_OPS)))
        columns["clock"] = pc.cast(pa.array(_xml_ticks(columns["clock"])[0]), pa.string())
        return {name: column.filter(known) for name, column in columns.items()}, 0


def _xml_ticks(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """FILETIMEs of ISO times with a zone, -1 where they make none."""
    parts = pc.extract_regex(
        column,
        r"^(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?"
        r"(?P<zone>Z|(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>\d\d))$",
    )
    fits = parts.is_valid().to_numpy(zero_copy_only=False)

    def filled(name: str, default: str) -> pa.Array:
        return pc.fill_null(pc.struct_field(parts, name), default)

    second = pc.strptime(
        filled("second", "1970-01-01T00:00:00"), "%Y-%m-%dT%H:%M:%S", "s", error_is_null=True
    )
    fits &= second.is_valid().to_numpy(zero_copy_only=False)
    seconds = pc.fill_null(second.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(filled("fraction", "0"), 7, "0"), 0, 7)
    hours, _ = numbers(filled("hours", "0"))
    minutes, _ = numbers(filled("minutes", "0"))
    sign = pc.equal(filled("sign", "+"), "-").to_numpy(zero_copy_only=False)
    shift = np.where(sign, -1, 1) * (hours * 3600 + minutes * 60)
    ticks = (seconds - shift + 11_644_473_600) * 10_000_000 + numbers(fraction)[0]
    return np.where(fits, ticks, -1), fits


def _rows(columns: dict[str, pa.Array], frequency: int | None) -> Rows:
    op, has_op = words(columns["type"], _OPS)
    clock, has_clock = numbers(columns["clock"])
    size, has_size = hexadecimals(columns["size"])
    offset, has_offset = hexadecimals(columns["offset"])
    _, has_disk = numbers(columns["disk"])
    flags, _ = hexadecimals(columns["flags"])
    response, has_response = hexadecimals(columns["response"])
    # The process of a completion is whoever ran when it came, so only the thread that asked is kept, where it is told.
    thread, has_thread = hexadecimals(columns["thread"])
    flush = op == FLUSH
    known = has_response & (frequency is not None) & (response < 1 << 44)
    nanoseconds = np.where(known, response.astype(np.float64) * 1e9 / (frequency or 1), 0)
    nanoseconds = np.round(np.minimum(nanoseconds, 9e17)).astype(np.int64)
    return Rows(
        has_op & has_clock & (clock > 0) & has_disk & (flush | (has_size & has_offset)),
        clock - nanoseconds // 100,
        op,
        np.where(flush, 0, offset).astype(np.uint64),
        np.where(flush, 0, size),
        pc.binary_join_element_wise("disk", columns["disk"], " "),
        np.where(known, nanoseconds, -1),
        irp_flags(flags),
        np.where(has_thread & (thread < 1 << 31), thread, -1),
    )


def _inspect(path: Path, name: str) -> dict[str, Any]:
    return inspect_text(path, name, "tracerpt")


CSV: Final = Format("tracerpt-csv", _recognises_csv, _read_csv, _inspect)
XML: Final = Format("tracerpt-xml", _recognises_xml, _read_xml, _inspect)
