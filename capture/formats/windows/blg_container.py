"""The container of binary counter logs: buffers of one size, each with a 72-byte header and events of one provider.

The same container as an event trace's (.etl), never compressed in the files known. Field positions were worked out
from real files and agree with the public ``TRACE_LOGFILE_HEADER`` and ``EVENT_TRACE_HEADER``.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final
from uuid import UUID

from iotrace.capture.formats.format import Progress

PROVIDER: Final = UUID("933f3bb3-943e-490d-9ced-3cbb14c14479").bytes_le
BUFFER_HEADER_BYTES: Final = 72
_BUFFER_BYTES_MAX: Final = 1 << 26
_EVENT_HEADER_BYTES: Final = 48
_PART_HEADER_BYTES: Final = 24
_RECORD_BYTES_MAX: Final = 1 << 27

CATALOG, SAMPLE, INDEX, NAMES = 0x20, 0x22, 0x23, 0x24


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A Windows TIME_ZONE_INFORMATION: minutes to add to local time for UTC, and the rule of daylight saving."""

    bias_minutes: int
    standard_minutes: int
    daylight_minutes: int
    standard_begins: tuple[int, ...]
    daylight_begins: tuple[int, ...]

    def bias_at(self, local_filetime: int) -> int:
        """Minutes to add to this local time; in the hour that comes twice, those of daylight saving."""
        if not self.standard_begins[1] or not self.daylight_begins[1]:
            return self.bias_minutes
        local = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=local_filetime // 10)
        standard = _transition(self.standard_begins, local.year)
        daylight = _transition(self.daylight_begins, local.year)
        # South of the equator daylight saving spans the turn of the year.
        north = daylight < standard
        is_daylight = daylight <= local < standard if north else not standard <= local < daylight
        return self.bias_minutes + (self.daylight_minutes if is_daylight else self.standard_minutes)


@dataclass(frozen=True, slots=True)
class LogHeader:
    """Facts of the log's first record. Times are FILETIMEs in UTC, 0 where the log names none."""

    buffer_bytes: int
    os_version: tuple[int, int, int]
    zone: TimeZone
    end_filetime: int
    start_filetime: int
    mode: int
    buffers_written: int
    events_lost: int
    buffers_lost: int
    clock_number: int


@dataclass(slots=True)
class ContainerCounts:
    """What the walk met, kept or not."""

    buffers: int = 0
    damaged_buffers: int = 0
    sequence_holes: int = 0
    events: int = 0
    foreign_events: int = 0
    broken_records: int = 0
    truncated: bool = False
    wrapped: bool = False
    """The log is circular and has begun again: only the end of its session is left."""


def looks_like_container(head: bytes) -> bool:
    """Whether ``head`` begins with a first buffer whose first record is a log header."""
    if len(head) < 104:
        return False
    (buffer_bytes,) = struct.unpack_from("<I", head, 0)
    return (
        BUFFER_HEADER_BYTES + 300 <= buffer_bytes <= _BUFFER_BYTES_MAX
        and head[74] in {1, 2}
        and head[75] & 0xC0 == 0xC0
        and head[78:80] == b"\0\0"
    )


def read_header(head: bytes) -> LogHeader | None:
    """Facts of the log header at the start of ``head``; None if it is cut short or makes no sense."""
    body = BUFFER_HEADER_BYTES + 32
    try:
        (pointer_bytes,) = struct.unpack_from("<I", head, body + 44)
        if pointer_bytes not in {4, 8}:
            return None
        zone = body + 56 + 2 * pointer_bytes
        times = (zone + 172 - body + 7) // 8 * 8 + body
        _, _, start = struct.unpack_from("<qqq", head, times)
        clock_number, buffers_lost = struct.unpack_from("<II", head, times + 24)
        major, minor, _, _, build = struct.unpack_from("<BBBBI", head, body + 4)
        (end,) = struct.unpack_from("<q", head, body + 16)
        mode, written = struct.unpack_from("<II", head, body + 32)
        (lost,) = struct.unpack_from("<I", head, body + 48)
        (bias,) = struct.unpack_from("<i", head, zone)
        standard_begins = struct.unpack_from("<8H", head, zone + 68)
        (standard,) = struct.unpack_from("<i", head, zone + 84)
        daylight_begins = struct.unpack_from("<8H", head, zone + 152)
        (daylight,) = struct.unpack_from("<i", head, zone + 168)
    except struct.error:
        return None
    if max(abs(bias), abs(standard), abs(daylight)) > 24 * 60:
        return None
    return LogHeader(
        struct.unpack_from("<I", head, 0)[0],
        (major, minor, build),
        TimeZone(bias, standard, daylight, standard_begins, daylight_begins),
        end,
        start,
        mode,
        written,
        lost,
        buffers_lost,
        clock_number,
    )


def has_counters(head: bytes) -> bool:
    """Whether an event of the counter provider begins within ``head``, a log's first buffers.

    Where ``head`` ends within the first buffer, which holds only the log header, that must do: counter logs leave the
    header's version 0 and count time with the system clock.
    """
    (buffer_bytes,) = struct.unpack_from("<I", head, 0)
    if len(head) <= buffer_bytes:
        header = read_header(head)
        return header is not None and header.clock_number == 2 and head[72:74] == b"\0\0"
    for start in range(0, len(head) - BUFFER_HEADER_BYTES, buffer_bytes):
        # The first event counts even where the file ends within it.
        if head[start + BUFFER_HEADER_BYTES :][24:40] == PROVIDER:
            return True
        (used,) = struct.unpack_from("<I", head, start + 0x30)
        for _, event in _events(head[start : start + min(used, buffer_bytes)]):
            if event[24:40] == PROVIDER:
                return True
    return False


@dataclass(slots=True)
class _Parts:
    """A record that is split over several events."""

    of: int = 0
    pieces: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


class Container:
    """Walks a log once, handing out whole records of the counter provider; one buffer and one record in memory."""

    def __init__(self, file: BinaryIO, size_bytes: int, buffer_bytes: int) -> None:
        self.counts = ContainerCounts()
        self._file, self._buffer_bytes = file, buffer_bytes
        self.counts.truncated = size_bytes % buffer_bytes != 0
        self._offsets = self._order(range(0, size_bytes, buffer_bytes))
        self._parts: dict[int, _Parts] = {}

    def records(self, name: str, progress: Progress) -> Iterator[tuple[int, int, bytes]]:
        """Yield record type, local FILETIME and data of each record, in the order they were written."""
        for number, offset in enumerate(self._offsets):
            progress(f"reading {name}", number, len(self._offsets))
            self._file.seek(offset)
            data = self._file.read(self._buffer_bytes)
            self.counts.buffers += 1
            if len(data) < BUFFER_HEADER_BYTES:
                continue
            (used,) = struct.unpack_from("<I", data, 0x30)
            (size,) = struct.unpack_from("<I", data, 0)
            if size != self._buffer_bytes or not BUFFER_HEADER_BYTES <= used <= size:
                self.counts.damaged_buffers += 1
                continue
            cut = used > len(data)
            end = BUFFER_HEADER_BYTES
            for end, event in _events(data[:used]):  # noqa: B007 - the last one tells how far the walk came
                yield from self._event(event)
            # Records are padded to 8 bytes, so less than a header may be left over.
            if end + 8 <= min(used, len(data)) and not cut:
                self.counts.damaged_buffers += 1
        progress(f"reading {name}", len(self._offsets), len(self._offsets))
        self.counts.broken_records += sum(bool(parts.pieces) for parts in self._parts.values())

    def _event(self, event: bytes) -> Iterator[tuple[int, int, bytes]]:
        self.counts.events += 1
        if event[2] not in {10, 20} or event[24:40] != PROVIDER:
            self.counts.foreign_events += self.counts.events > 1
            return
        if len(event) < _EVENT_HEADER_BYTES + _PART_HEADER_BYTES:
            self.counts.broken_records += 1
            return
        kind = event[4]
        (at,) = struct.unpack_from("<q", event, 16)
        part, count = struct.unpack_from("<II", event, _EVENT_HEADER_BYTES + 16)
        data = event[_EVENT_HEADER_BYTES + _PART_HEADER_BYTES :]
        if count == 1:
            yield kind, at, data
            return
        parts = self._parts.setdefault(kind, _Parts())
        if part == 1:
            self.counts.broken_records += bool(parts.pieces)
            parts.of, parts.pieces, parts.size_bytes = count, [], 0
        elif part != len(parts.pieces) + 1 or count != parts.of or parts.size_bytes > _RECORD_BYTES_MAX:
            self.counts.broken_records += bool(parts.pieces)
            parts.pieces = []
            return
        parts.pieces.append(data)
        parts.size_bytes += len(data)
        if part == count:
            whole, parts.pieces = b"".join(parts.pieces), []
            yield kind, at, whole

    def _order(self, offsets: range) -> list[int]:
        """Offsets of the buffers as they were written; a circular log begins again at the front of its file."""
        numbers = []
        for offset in offsets:
            self._file.seek(offset + 0x18)
            field_bytes = self._file.read(8)
            numbers.append(struct.unpack("<Q", field_bytes)[0] if len(field_bytes) == 8 else None)
        known = [number for number in numbers if number is not None]
        falls = sum(later < earlier for earlier, later in pairwise(known))
        ordered = list(zip(numbers, offsets, strict=True))
        if falls == 1 and len(set(known)) == len(known) == len(numbers):
            ordered.sort()
            known.sort()
            self.counts.wrapped = True
        holes = sum(later > earlier + 1 for earlier, later in pairwise(known))
        # Of a circular log the first buffers are kept, and those that followed them are overwritten: no loss.
        self.counts.sequence_holes = max(0, holes - self.counts.wrapped)
        return [offset for _, offset in ordered]


def _events(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the end and the bytes of each record of a buffer, as far as their lengths make sense."""
    at = BUFFER_HEADER_BYTES
    while at + 32 <= len(data):
        # A system record keeps its size where a full one keeps its type.
        is_system = data[at + 2] in {1, 2}
        (size,) = struct.unpack_from("<H", data, at + (4 if is_system else 0))
        if size < (32 if is_system else _EVENT_HEADER_BYTES) or at + size > len(data):
            return
        end = at + (size + 7) // 8 * 8
        yield end, data[at : at + size]
        at = end


def _transition(rule: tuple[int, ...], year: int) -> datetime:
    """When a rule of TIME_ZONE_INFORMATION applies in a year: the n-th weekday of a month, 5 being the last."""
    fixed_year, month, weekday, day, hour, minute, second, _ = rule
    month = min(max(month, 1), 12)
    clock = timedelta(hours=min(hour, 23), minutes=min(minute, 59), seconds=min(second, 59))
    if fixed_year:
        return datetime(year, month, min(max(day, 1), 28), tzinfo=UTC) + clock
    first = datetime(year, month, 1, tzinfo=UTC)
    # Windows counts weekdays from Sunday, Python from Monday.
    begin = first + timedelta(days=(weekday % 7 - (first.weekday() + 1)) % 7)
    moment = begin + timedelta(weeks=min(max(day, 1), 5) - 1)
    return (moment if moment.month == month else moment - timedelta(weeks=1)) + clock


def open_log(path: Path, buffer_bytes: int) -> tuple[BinaryIO, Container]:
    """Open a log for one walk; the caller closes the file."""
    file = path.open("rb")
    return file, Container(file, path.stat().st_size, buffer_bytes)
