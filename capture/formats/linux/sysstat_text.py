"""Reports of sysstat's tools: text of ``iostat`` and ``sar -d``, lines of ``sadf -d``, and JSON of both.

What their columns of a disk mean, in versions 9 to 12. Units: the manual pages of sysstat, and its sources where those
are silent: kB and MB are 1024 and 1024², a sector and a block are 512 bytes. ``svctm`` is left out: the manual itself
says not to trust it, and it is gone since 12.1.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from iotrace.capture.counters.names import METRICS, Meaning
from iotrace.capture.formats.text_times import TextTimes
from iotrace.schemas.units import DAY_NS, KIB, MIB, SECTOR_BYTES

_MS: Final = 1e6
BANNER: Final = re.compile(r"\s*Linux \S+ \((?P<host>[^)]*)\)\s+(?P<date>\S+)")
SADF: Final = re.compile(r"#?\s*hostname;interval;timestamp;DEV;(?P<columns>\S+)")
_CLOCK: Final = re.compile(
    r"(?P<hour>\d\d)(?::|时|時|시 ?)(?P<minute>\d\d)(?::|分|분 ?)(?P<second>\d\d)[秒초]?(?P<half> [AP]M)?(?=\s)"
)
TIME: Final = re.compile(r"Time: (?P<clock>\d\d:\d\d:\d\d)(?P<half> [AP]M)?\s*")
"""How ``iostat -t`` wrote times until sysstat 9: of the day, whose date the first line tells."""

Json = dict[str, Any]
_DEVICE: Final = ("Device", "Device:", "DEV")
_HALF_DAY_NS: Final = 12 * 3600 * 10**9


def _metric(name: str, factor: float = 1.0) -> Meaning:
    return Meaning(METRICS[name][0], "block", name, factor, is_instant=False)


def _plain(unit: str, factor: float = 1.0) -> Meaning:
    return Meaning(unit, "block", None, factor, is_instant=False)


COLUMNS: Final[dict[str, Meaning]] = {
    "r/s": _metric("read_iops"),
    "w/s": _metric("write_iops"),
    "tps": _metric("iops"),
    "d/s": _plain("1/s"),
    "f/s": _plain("1/s"),
    "rrqm/s": _plain("1/s"),
    "wrqm/s": _plain("1/s"),
    "drqm/s": _plain("1/s"),
    "rkB/s": _metric("read_bytes_per_second", KIB),
    "wkB/s": _metric("write_bytes_per_second", KIB),
    "dkB/s": _plain("bytes/s", KIB),
    "rMB/s": _metric("read_bytes_per_second", MIB),
    "wMB/s": _metric("write_bytes_per_second", MIB),
    "dMB/s": _plain("bytes/s", MIB),
    "rsec/s": _metric("read_bytes_per_second", SECTOR_BYTES),
    "wsec/s": _metric("write_bytes_per_second", SECTOR_BYTES),
    "rd_sec/s": _metric("read_bytes_per_second", SECTOR_BYTES),
    "wr_sec/s": _metric("write_bytes_per_second", SECTOR_BYTES),
    "kB_read/s": _metric("read_bytes_per_second", KIB),
    "kB_wrtn/s": _metric("write_bytes_per_second", KIB),
    "MB_read/s": _metric("read_bytes_per_second", MIB),
    "MB_wrtn/s": _metric("write_bytes_per_second", MIB),
    "kB_dscd/s": _plain("bytes/s", KIB),
    "MB_dscd/s": _plain("bytes/s", MIB),
    "Blk_read/s": _metric("read_bytes_per_second", SECTOR_BYTES),
    "Blk_wrtn/s": _metric("write_bytes_per_second", SECTOR_BYTES),
    "r_await": _metric("read_latency_ns", _MS),
    "w_await": _metric("write_latency_ns", _MS),
    "await": _metric("latency_ns", _MS),
    "d_await": _plain("ns", _MS),
    "f_await": _plain("ns", _MS),
    "rareq-sz": _metric("read_size_bytes", KIB),
    "wareq-sz": _metric("write_size_bytes", KIB),
    "dareq-sz": _plain("bytes", KIB),
    "areq-sz": _metric("size_bytes", KIB),
    "avgrq-sz": _metric("size_bytes", SECTOR_BYTES),
    "aqu-sz": _metric("queue_length"),
    "avgqu-sz": _metric("queue_length"),
    "%util": _metric("busy_percent"),
}
"""Columns that are kept. Others (shares, totals since boot) follow from these or tell nothing of an interval."""

_IN_JSON: Final = {
    "util": "%util",
    "util-percent": "%util",
    "rd_sec": "rd_sec/s",
    "wr_sec": "wr_sec/s",
    "rkB": "rkB/s",
    "wkB": "wkB/s",
    "dkB": "dkB/s",
}
_NUMBER: Final = re.compile(r"\d{1,15}(?:[.,]\d{1,9})?")


def column_of(name: str) -> str | None:
    """The column that a header or a key of JSON names; None for those that are not kept."""
    name = _IN_JSON.get(name, name)
    return name if name in COLUMNS else None


def number(text: object) -> float | None:
    """A cell's number, with a point or a comma; None for what is none, as with units behind it (``iostat -h``).

    Nothing that is kept can be negative.
    """
    if isinstance(text, int | float):
        return float(text) if 0 <= text <= sys.float_info.max else None
    word = str(text).strip()
    return float(word.replace(",", ".")) if _NUMBER.fullmatch(word) else None


@dataclass(slots=True)
class Report:
    """What a tool told at one time of all devices. Without a time ``at_ns`` is None."""

    at_ns: int | None
    host: str
    tool: str
    interval_ns: int | None = None
    since_boot: bool = False
    rows: list[tuple[str, str, float]] = field(default_factory=list)
    """Device, column, value."""


@dataclass(slots=True)
class Odd:
    """What was met and not understood."""

    lines: int = 0
    cells: int = 0
    restarts: int = 0


def kind_of(lines: Iterable[str]) -> str | None:
    """Which of the texts a file with these first lines is: iostat, sar or sadf."""
    has_banner = False
    for line in lines:
        if SADF.match(line):
            return "sadf"
        has_banner = has_banner or BANNER.match(line) is not None
        words = line.split()
        if not words:
            continue
        known = sum(column_of(word) is not None for word in words)
        if (words[0] in _DEVICE[:2] or words[-1] == "Device") and known >= 2:
            return "iostat"
        if "DEV" in words and "tps" in words and (has_banner or _CLOCK.match(line)):
            return "sar"
    return None


def reports(kind: str, lines: Iterator[str], times: TextTimes, odd: Odd) -> Iterator[Report]:
    """Reports of a text, in the order of the file."""
    yield from {"iostat": _iostat, "sar": _sar, "sadf": _sadf}[kind](lines, times, odd)


def _cells(report: Report, device: str, columns: list[str | None], words: list[str], odd: Odd) -> None:
    for column, word in zip(columns, words, strict=True):
        if column is None:
            continue
        value = number(word)
        if value is None:
            odd.cells += 1
        else:
            report.rows.append((device, column, value))


class _Iostat:
    """Tables of ``iostat`` that belong to one time."""

    def __init__(self, odd: Odd) -> None:
        self._odd = odd
        self._host = ""
        self._header: list[str] = []
        self._tables: set[tuple[str, ...]] = set()
        self._is_device_last = False
        self.report = Report(None, "", "iostat")  # without a banner it begins later than the tool

    def start(self, *, since_boot: bool = False, host: str | None = None, at_ns: int | None = None) -> Report:
        """Begin the next report; the one before."""
        before, self._tables, self._header = self.report, set(), []
        self._host = self._host if host is None else host
        self.report = Report(at_ns, self._host, "iostat", since_boot=since_boot)
        return before

    def is_new_table(self, words: list[str]) -> bool:
        """Whether a header is of a further table of this report."""
        return tuple(words) not in self._tables

    def head(self, words: list[str]) -> None:
        """A header: rows of devices follow."""
        self._tables.add(tuple(words))
        self._is_device_last = words[-1] == "Device"
        self._header = words[:-1] if self._is_device_last else words[1:]

    def row(self, words: list[str]) -> None:
        """A device, if a header stands above it."""
        if not self._header or not words:
            self._header = []
            return
        device, values = (words[-1], words[:-1]) if self._is_device_last else (words[0], words[1:])
        if len(values) == len(self._header):
            _cells(self.report, device, [column_of(name) for name in self._header], values, self._odd)
        else:
            self._odd.lines += 1


def _iostat(lines: Iterator[str], times: TextTimes, odd: Odd) -> Iterator[Report]:
    tables, date = _Iostat(odd), ""
    seen_ns: int | None = None
    for line in lines:
        words = line.split()
        report = tables.report
        if banner := BANNER.match(line):
            yield from _told(tables.start(since_boot=True, host=banner["host"]))
            date, seen_ns = _plain_date(banner["date"]), None
        elif words and (words[0] in _DEVICE[:2] or words[-1] == "Device"):
            if not tables.is_new_table(words):
                yield from _told(tables.start())
            tables.head(words)
        elif clock := TIME.fullmatch(line):
            at_ns = seen_ns = _after(times.utc_ns(f"{date} {clock['clock']}{clock['half'] or ''}"), seen_ns)
            yield from _told(tables.start(since_boot=report.since_boot and not report.rows, at_ns=at_ns))
        elif words and words[0] == "avg-cpu:":
            if report.rows:
                yield from _told(tables.start())
            tables.row([])
        elif words and (at_ns := times.utc_ns(line.strip())) is not None:
            yield from _told(tables.start(since_boot=report.since_boot and not report.rows, at_ns=at_ns))
        else:
            tables.row(words)
    yield from _told(tables.report)


def _told(report: Report) -> Iterator[Report]:
    if report.rows:
        yield report


def _sar(lines: Iterator[str], times: TextTimes, odd: Odd) -> Iterator[Report]:
    host = date = ""
    columns: list[str] = []
    report: Report | None = None
    last_ns: int | None = None  # the report before, if the machine ran since
    seen_ns: int | None = None  # the line before, by which days go on
    for line in lines:
        if banner := BANNER.match(line):
            host, date, columns = banner["host"], _plain_date(banner["date"]), []
            last_ns = seen_ns = None
            continue
        clock = _CLOCK.match(line)
        words = line[clock.end() :].split() if clock else []
        if not clock or not words:
            columns = []
            continue
        at_ns = seen_ns = _after(_moment(date, clock, times), seen_ns)
        if "RESTART" in line:
            odd.restarts += 1
            last_ns, columns = None, []
            continue
        if "DEV" in words:
            columns = words if "tps" in words else []
            last_ns = at_ns if last_ns is None else last_ns
        elif columns and len(words) == len(columns):
            if report is None or at_ns != report.at_ns:
                yield from _told(report) if report else ()
                report = Report(at_ns, host, "sar -d", _step(last_ns, at_ns))
                last_ns = at_ns
            device = words.pop(columns.index("DEV"))
            _cells(report, device, [column_of(name) for name in columns if name != "DEV"], words, odd)
        else:
            odd.lines += bool(columns)
    yield from _told(report) if report else ()


def _plain_date(word: str) -> str:
    return "-".join(re.findall(r"\d+", word)) if re.search(r"[年월년月]", word) else word


def _moment(date: str, clock: re.Match[str], times: TextTimes) -> int | None:
    return times.utc_ns(f"{date} {clock['hour']}:{clock['minute']}:{clock['second']}{clock['half'] or ''}")


def _after(at_ns: int | None, last_ns: int | None) -> int | None:
    """The next day's time, where the day changed since the report before: only the first line tells the date."""
    if at_ns is None or last_ns is None:
        return at_ns
    while at_ns < last_ns - _HALF_DAY_NS:
        at_ns += DAY_NS
    return at_ns


def _step(before_ns: int | None, at_ns: int | None) -> int | None:
    return None if before_ns is None or at_ns is None or at_ns <= before_ns else at_ns - before_ns


def _sadf(lines: Iterator[str], times: TextTimes, odd: Odd) -> Iterator[Report]:
    columns: list[str] = []
    report: Report | None = None
    for line in lines:
        if line.startswith(("#", "hostname;")):
            header = SADF.match(line.strip())
            columns = header["columns"].split(";") if header else []
            continue
        cells = line.strip().split(";")
        if not columns or len(cells) < 4:
            continue
        host, interval, moment, device, *values = cells
        if "RESTART" in device:
            odd.restarts += 1
            continue
        at_ns = int(moment) * 10**9 if moment.isdecimal() else times.utc_ns(moment)
        if at_ns is None or len(values) != len(columns):
            odd.lines += 1
            continue
        if report is None or (at_ns, host) != (report.at_ns, report.host):
            yield from _told(report) if report else ()
            seconds = number(interval)
            report = Report(at_ns, host, "sar -d", int(seconds * 1e9) if seconds and seconds > 0 else None)
        _cells(report, device, [column_of(name) for name in columns], values, odd)
    yield from _told(report) if report else ()


def json_reports(data: Json, times: TextTimes, odd: Odd) -> Iterator[Report]:
    """Reports of ``iostat -o JSON`` or ``sadf -j``."""
    for host in data["sysstat"]["hosts"]:
        is_first = True
        for entry in _objects(host.get("statistics")):
            if not isinstance(entry.get("disk"), list):
                continue
            disks = _objects(entry["disk"])
            odd.cells += len(entry["disk"]) - len(disks)
            stamp = entry.get("timestamp")
            report = Report(None, str(host.get("nodename", "")), "iostat")
            if isinstance(stamp, dict):
                zone = " UTC" if stamp.get("utc") == 1 or stamp.get("tz") == "UTC" else ""
                report.at_ns = times.utc_ns(f"{stamp.get('date')} {stamp.get('time')}{zone}")
                seconds = number(stamp.get("interval", ""))
                report.interval_ns = int(seconds * 1e9) if seconds and seconds > 0 else None
                report.tool = "sar -d"
            else:
                report.at_ns = None if stamp is None else times.utc_ns(str(stamp))
                report.since_boot = is_first
            for disk in disks:
                device = disk.get("disk_device") or disk.get("disk-device")
                names = [name for name in disk if column_of(name) is not None]
                # Newer sadf tells sectors and KiB of the same.
                names = [name for name in names if name not in {"rd_sec", "wr_sec", "avgrq-sz", "avgqu-sz"} or not
                         {"rkB", "wkB", "areq-sz", "aqu-sz"} & disk.keys()]  # fmt: skip
                _cells(
                    report,
                    str(device),
                    [column_of(name) for name in names],
                    [disk[name] for name in names],
                    odd,
                )
            is_first = False
            yield from _told(report)


def _objects(value: object) -> list[Json]:
    """The objects of a JSON array; damage may have left anything else in its place."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def load(text: str) -> Json | None:
    """JSON that is sysstat's; None for any other, and for what is cut."""
    try:
        data: Json = json.loads(text)
        hosts = data["sysstat"]["hosts"]
        return data if isinstance(hosts, list) and all(isinstance(host, dict) for host in hosts) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
