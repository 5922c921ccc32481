"""What collectl prints of disks: the tables of ``-sD``, with and without times, and the lines of ``-P``.

Rates are per second, KBytes are of 1024, waits whole milliseconds: those under one are printed as 0, no more.
``SvcTim`` is left out, as sysstat's svctm is. Raw files (``-f``) are read as logs of /proc/diskstats (`diskstats`).

Sources: collectl's manual page, and the output of collectl 4.3.1.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from iotrace.capture.counters.names import Meaning
from iotrace.capture.formats.counters_trace import (
    Counters,
    Reading,
    Sample,
    meaning,
    plain,
    real,
)
from iotrace.capture.formats.text_blocks import TextBlocks, head_lines
from iotrace.schemas.units import DAY_NS, KIB, SECOND_NS

_MS = 1e6
_TABLE: Final = re.compile(
    r"#(?P<date>Date\s+)?(?P<time>Time\s+)?Name\s+KBytes\s+Merged\s+IOs\s+Size(?P<waits>\s+Wait)?"
    r"\s+KBytes\s+Merged\s+IOs\s+Size(?:\s+Wait)?\s+RWSize\s+QLen\s+Wait\s+SvcTim\s+Util\s*"
)
_RECORD: Final = re.compile(
    r"### RECORD\s+\d+ >>> (?P<host>\S+) <<< \((?P<s>\d{10})(?:\.(?P<part>\d{1,9}))?\).*"
)
_PLOT: Final = re.compile(r"#(?:UTC|Date(?P<separator>[ ,;|:\t])Time)\b.*\[DSK:.*")
_COLUMN: Final = re.compile(r"\[DSK:(?P<disk>[^\]]{1,100})\](?P<name>\w+)")
_CLOCK: Final = re.compile(r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,9}))?")


def _metric(name: str, factor: float = 1.0) -> Meaning:
    return meaning(name, "block", factor)


_FIELDS: Final[dict[str, tuple[str, Meaning]]] = {
    "Reads": ("reads/s", _metric("read_iops")),
    "RMerge": ("reads merged/s", plain("1/s", "block")),
    "RKBytes": ("KBytes read/s", _metric("read_bytes_per_second", KIB)),
    "RSize": ("mean read size", _metric("read_size_bytes", KIB)),
    "WaitR": ("mean read wait", _metric("read_latency_ns", _MS)),
    "Writes": ("writes/s", _metric("write_iops")),
    "WMerge": ("writes merged/s", plain("1/s", "block")),
    "WKBytes": ("KBytes written/s", _metric("write_bytes_per_second", KIB)),
    "WSize": ("mean write size", _metric("write_size_bytes", KIB)),
    "WaitW": ("mean write wait", _metric("write_latency_ns", _MS)),
    "Request": ("mean size", _metric("size_bytes", KIB)),
    "QueLen": ("mean queue", _metric("queue_length")),
    "Wait": ("mean wait", _metric("latency_ns", _MS)),
    "Util": ("busy", _metric("busy_percent")),
}
"""By the names of ``-P``. A mean of 0 is left out: of no I/O, or of one that was printed as 0."""
_MEANS: Final = frozenset({"RSize", "WaitR", "WSize", "WaitW", "Request", "Wait"})
_OF_TABLE: Final = ("RKBytes", "RMerge", "Reads", "RSize", "WaitR", "WKBytes", "WMerge", "Writes", "WSize", "WaitW",
                    "Request", "QueLen", "Wait", "", "Util")  # fmt: skip


@dataclass(slots=True)
class _Reports:
    """Where a text is: its columns, and the time of the report that lines belong to."""

    reading: Reading
    columns: tuple[str, ...] = ()
    has_date: bool = False
    has_time: bool = False
    host: str = ""
    at_ns: int | None = None
    before_ns: int | None = None
    is_dated: bool = False
    is_timed: bool = False
    plot: list[tuple[str, str]] | None = None
    separator: str | None = None
    _seen: set[str] = field(default_factory=set)
    _day_ns: int = 0

    def head(self, found: re.Match[str]) -> None:
        waits = found["waits"] is not None
        self.columns = tuple(name for name in _OF_TABLE if waits or name not in {"WaitR", "WaitW"})
        self.has_date, self.has_time, self.plot = found["date"] is not None, found["time"] is not None, None

    def lines(self, line: str) -> None:
        """The heading of ``-P``."""
        found = _PLOT.fullmatch(line)
        assert found is not None
        after_utc = line[4:5] if line.startswith("#UTC") else ""
        self.separator = (found["separator"] or after_utc or " ").replace("\t", " ")
        cells = line.lstrip("#").split(None if self.separator == " " else self.separator)
        self.plot = [
            (one["disk"], one["name"]) if (one := _COLUMN.fullmatch(cell)) else ("", cell) for cell in cells
        ]

    def turn(self, at_ns: int | None) -> None:
        """A report of another time begins."""
        if at_ns is not None and at_ns != self.at_ns:
            self.before_ns, self.at_ns = self.at_ns, at_ns

    def row(self, line: str) -> Iterator[Sample]:
        words = line.split()
        lead = self.has_date + self.has_time
        if len(words) != lead + 1 + len(self.columns):
            self.reading.left_out += bool(words)
            return
        if self.has_date:
            self.is_dated = self.is_timed = True
            self.turn(self.reading.times.utc_ns(f"{words[0]} {words[1]}"))
        elif self.has_time:
            self.is_timed = True
            self.turn(self._of_day(words[0]))
        elif not self.is_timed and words[0] in self._seen:
            self._seen.clear()
            self.at_ns = (self.at_ns or SECOND_NS) + SECOND_NS
        disk = words[lead]
        self._seen.add(disk)
        for name, word in zip(self.columns, words[lead + 1 :], strict=True):
            yield from self._value(disk, name, word)

    def plotted(self, line: str) -> Iterator[Sample]:
        assert self.plot is not None
        words = line.split(None if self.separator == " " else self.separator)
        if len(words) != len(self.plot):
            self.reading.left_out += bool(words)
            return
        self.is_dated = self.is_timed = True
        told = dict(zip((name for disk, name in self.plot if not disk), words, strict=False))
        if "UTC" in told:
            self.turn(
                round(float(told["UTC"]) * SECOND_NS)
                if re.fullmatch(r"\d{10}(\.\d{1,9})?", words[0])
                else None
            )
        else:
            self.turn(self.reading.times.utc_ns(f"{words[0]} {words[1]}"))
        for (disk, name), word in zip(self.plot, words, strict=True):
            if disk and name != "Name":
                yield from self._value(disk, name, word)

    def _value(self, disk: str, name: str, word: str) -> Iterator[Sample]:
        if name not in _FIELDS:
            return
        value = real(word)
        if value is None:
            self.reading.left_out += 1
            return
        if name in _MEANS and not value:
            return
        counter, sense = _FIELDS[name]
        at_ns = self.at_ns if self.at_ns is not None else SECOND_NS
        since_ns = 0 if self.before_ns is None else at_ns - self.before_ns
        yield Sample(at_ns, max(since_ns, 0), disk, counter, value, sense, self.host)

    def _of_day(self, word: str) -> int | None:
        found = _CLOCK.fullmatch(word)
        if found is None:
            return None
        seconds = int(found["hour"]) * 3600 + int(found["minute"]) * 60 + int(found["second"])
        at_ns = seconds * SECOND_NS + int((found["part"] or "0").ljust(9, "0")) + self._day_ns + SECOND_NS
        if self.at_ns is not None and at_ns < self.at_ns - DAY_NS // 2:
            self._day_ns += DAY_NS
            at_ns += DAY_NS
        return at_ns


def _recognises(head: bytes, _path: Path) -> bool:
    return any(_TABLE.fullmatch(line) or _PLOT.fullmatch(line) for line in head_lines(head, 2000))


def _samples(reading: Reading) -> Iterator[Sample]:
    reports, in_table = _Reports(reading), False
    blocks = TextBlocks(reading.path, reading.name, reading.progress)
    for block in blocks.blocks():
        for line in block.decode().split("\n"):
            if found := _TABLE.fullmatch(line):
                reports.head(found)
                in_table = True
            elif record := _RECORD.fullmatch(line):
                reports.host, reports.is_dated, reports.is_timed = record["host"], True, True
                reports.turn(int(record["s"]) * SECOND_NS + int((record["part"] or "0").ljust(9, "0")))
                in_table = False
            elif _PLOT.fullmatch(line):
                reports.lines(line)
                in_table = True
            elif not line.strip() or line.startswith("#"):
                in_table = in_table and reports.plot is not None
            elif in_table:
                yield from reports.row(line) if reports.plot is None else reports.plotted(line)
    reading.cut = blocks.cut_tail
    if not reports.is_dated:
        reading.notes.append(
            "the source has no date: its times are put on 1970-01-01"
            + ("" if reports.is_timed else ", one report a second, whatever time they are about")
        )


FORMAT: Final = Counters(
    "collectl",
    "disk",
    "collectl, whole seconds",
    1_000_000_000,
    _samples,
    ("collectl prints whole numbers: waits under 1 ms are 0, and left out",),
    "print the disks: collectl -sD -oD",
    system="Linux",
).format(_recognises)
