"""Logs of ``/proc/diskstats``: the file printed again and again with a time before each, and collectl's raw files.

A time is a line of its own: seconds since 1970, ISO 8601, what ``date`` prints, or collectl's
``>>> 1368076380.001 <<<``.
Fields: Documentation/admin-guide/iostats.rst of the kernel; collectl's raw format is that of its own files.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from iotrace.capture.formats.counters_trace import Counters, Differences, Reading, Sample
from iotrace.capture.formats.text_blocks import TextBlocks, head_lines
from iotrace.schemas import counted
from iotrace.schemas.units import SECTOR_BYTES

_ROW: Final = re.compile(
    r"(?:disk\s+)?\s*\d{1,6}\s+\d{1,7}\s+(?P<disk>(?=\S*[A-Za-z])\S+)(?P<totals>(?:\s+\d{1,20}){11,17})\s*"
)
_EPOCH: Final = re.compile(r"(?:>>>|timestamp:|time:)?\s*(?P<s>1\d{9})(?:\.(?P<part>\d{1,9}))?\s*(?:<<<)?\s*")
_DATE: Final = re.compile(
    r"\w{3} (?P<month>\w{3}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?: (?P<half>[AP]M))? (?P<zone>\S{1,8}) (?P<year>\d{4})"
)
_HOST: Final = re.compile(r"# Host:\s+(\S+)")
_LOOKED_AT: Final = 200


def _recognises(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, _LOOKED_AT)
    return any(_ROW.fullmatch(line) for line in lines)


def _samples(reading: Reading) -> Iterator[Sample]:
    differences, host = Differences(), ""
    at_utc_ns: int | None = None
    before_any_time = 0
    blocks = TextBlocks(reading.path, reading.name, reading.progress)
    for block in blocks.blocks():
        for line in block.decode().split("\n"):
            if row := _ROW.fullmatch(line):
                if at_utc_ns is None:
                    before_any_time += 1
                else:
                    totals = _totals([int(word) for word in row["totals"].split()])
                    yield from differences.samples(at_utc_ns, host, row["disk"], totals)
            elif (moment := _moment(line, reading)) is not None:
                at_utc_ns = moment
            elif found := _HOST.match(line):
                host = found[1]
    reading.cut = blocks.cut_tail
    if before_any_time:
        reading.notes.append(f"{counted(before_any_time, 'line')} before the first time left out")
    reading.notes += differences.notes()


def _moment(line: str, reading: Reading) -> int | None:
    if found := _EPOCH.fullmatch(line):
        return int(found["s"]) * 10**9 + int((found["part"] or "0").ljust(9, "0"))
    if found := _DATE.fullmatch(line.strip()):
        half = found["half"] or ""
        local = f"{found['month']} {found['day']} {found['year']} {found['clock']}{half}"
        if found["zone"] not in {"UTC", "GMT"}:
            return reading.times.utc_ns(local)
        was_local = reading.times.local
        moment = type(reading.times)(is_utc=True).utc_ns(local)
        reading.times.local = was_local
        return moment
    return reading.times.utc_ns(line) if line[:1].isdigit() and ":" in line else None


def _totals(fields: list[int]) -> dict[str, float]:
    reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, in_flight, busy_ms, weighted_ms = (
        fields[:11]
    )
    return {
        "reads": reads,
        "read_bytes": sectors_read * SECTOR_BYTES,
        "read_s": read_ms / 1000,
        "writes": writes,
        "write_bytes": sectors_written * SECTOR_BYTES,
        "write_s": write_ms / 1000,
        "in_flight": in_flight,
        "busy_s": busy_ms / 1000,
        "weighted_s": weighted_ms / 1000,
    }


FORMAT: Final = Counters(
    "diskstats",
    "disk",
    "log of /proc/diskstats",
    1_000_000_000,
    _samples,
    ("counters are differences of totals between two moments, not single I/Os",),
    "two copies are needed, each after its time: while sleep 5; do date +%s; cat /proc/diskstats; done > disks.log",
    system="Linux",
).format(_recognises)
