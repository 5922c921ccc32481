"""What Linux' own tools showed of disks: ``iostat``, ``sar -d`` and ``sadf``, as text or JSON (sysstat 9 to 12).

Values are means over the time since the report before, rounded to two digits as they were printed. The first report
of ``iostat`` is about the time since boot and is left out (``iostat -y`` shows none; then one true report is lost).
Reports without times (``iostat`` without ``-t``) keep their order: they are put one second apart, without an interval.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.capture.counters.series import Series
from iotrace.capture.formats.format import HEAD_BYTES, Format, Outcome, Progress, naming, undated, unreported
from iotrace.capture.formats.text_blocks import TextBlocks, head_lines, text_encoding
from iotrace.capture.formats.text_times import MayBeLocal, TextTimes
from iotrace.schemas import Clock, IotraceError, Quality, counted
from iotrace.schemas.host import Host
from iotrace.schemas.units import SECOND_NS

from .sysstat_text import BANNER, COLUMNS, TIME, Odd, Report, json_reports, kind_of, load, reports

_BATCH_VALUES: Final = 1 << 17
_JSON_BYTES_MAX: Final = 1 << 28
_LOOKED_AT: Final = 400


def _recognises(head: bytes, _path: Path) -> bool:
    return _kind(head) is not None


def _kind(head: bytes) -> str | None:
    lines = head_lines(head, _LOOKED_AT)
    start = "".join(lines[:8]).replace(" ", "").replace("\t", "")
    if start.startswith('{"sysstat":'):
        return "json" if '"disk"' in head.decode("utf-8", "replace") else None
    return kind_of(lines)


def _read(path: Path, name: str, progress: Progress) -> "SysstatTrace":
    with naming(name), path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return SysstatTrace(path, name, progress, _kind(head) or "iostat", head)


class SysstatTrace(MayBeLocal):
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress, kind: str, head: bytes) -> None:
        self._path, self._name, self._progress, self._kind = path, name, progress, kind
        self._samples = list(_dates(head, kind))
        self.series = Series(name)
        self._blocks = TextBlocks(path, name, progress)
        self._odd = Odd()
        self.reports = self._since_boot = self._last_ns = 0
        self.host = Host(system="Linux")
        self.clock = self._first_clock()

    @property
    def is_dated(self) -> bool:
        """Whether its reports tell when they were made."""
        return self.clock.start_utc_ns > 0

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Counters, report by report."""
        self.series, self._odd = Series(self._name), Odd()
        self.reports = self._since_boot = self._last_ns = 0
        numbers: dict[tuple[str, str, str, str], int] = {}
        rows: list[tuple[int, int, int, float]] = []
        last_ns: int | None = None
        for report in self._reports(TextBlocks(self._path, self._name, self._progress)):
            at_ns = self._place(report)
            if at_ns is None:
                self._odd.lines += 1
                continue
            interval_ns = report.interval_ns or (
                at_ns - last_ns if last_ns is not None and self.is_dated else 0
            )
            last_ns = at_ns
            if report.since_boot:
                self._since_boot += 1
                continue
            self.reports += 1
            self._last_ns = max(self._last_ns, at_ns)
            for device, column, value in report.rows:
                key = (report.host, report.tool, device, column)
                number = numbers.get(key)
                if number is None:
                    number = self.series.add(
                        report.host or self._name, report.tool, device, column, COLUMNS[column]
                    )
                    numbers[key] = number
                rows.append((at_ns, interval_ns, number, value))
            if len(rows) >= _BATCH_VALUES:
                yield "counters", self._rows(rows)
                rows = []
        if not self.reports:
            raise IotraceError(
                f"'{self._name}' holds no report of an interval",
                hint="the first report of iostat is about the time since boot; take more: iostat -xt 5",
            )
        if rows:
            yield "counters", self._rows(rows)

    def outcome(self) -> Outcome:
        """The window runs from the first report, or the time that it is about, to the last."""
        return Outcome(
            0,
            self._last_ns,
            Quality(truncated_tail=self._blocks.cut_tail, notes=list(self._notes())),
            self.reports,
        )

    def _notes(self) -> Iterator[str]:
        yield "counters are means between two reports, rounded as they were printed, not single I/Os"
        if not self.is_dated:
            yield (
                "its reports show no time (iostat without -t): they are put one second apart, whatever they were, "
                "and have no interval"
            )
            yield undated("report")
        yield from self._zone_notes()
        if self._since_boot:
            yield "the first report is about the time since boot, and is left out"
        for count, noun, what in (
            (self._odd.restarts, "restart", "of the machine between reports"),
            (self._odd.lines, "line", "left out: no row of their table"),
            (
                self._odd.cells,
                "value",
                "left out: no plain number (iostat -h and sar --human round them away)",
            ),
        ):
            if count:
                yield f"{counted(count, noun)} {what}"

    def _rows(self, rows: list[tuple[int, int, int, float]]) -> pa.RecordBatch:
        at_ns, interval_ns, numbers, values = zip(*rows, strict=True)
        return self.series.rows(
            np.array(at_ns, np.int64),
            np.array(interval_ns, np.int64),
            np.array(numbers, np.int64),
            np.array(values, np.float64),
        )

    def _place(self, report: Report) -> int | None:
        if not self.is_dated:
            return (self.reports + self._since_boot) * SECOND_NS
        return None if report.at_ns is None else report.at_ns - self.clock.start_utc_ns

    def _first_clock(self) -> Clock:
        start_ns = 0
        for report in islice(self._reports(TextBlocks(self._path, self._name, unreported)), 64):
            if report.at_ns is not None and report.at_ns > 0:
                start_ns = report.at_ns - (report.interval_ns or 0)
                break
        return Clock(start_ns, 1e9, "sysstat", SECOND_NS)

    def _reports(self, blocks: TextBlocks) -> Iterator[Report]:
        times = TextTimes(self._zone)
        times.learn(self._samples, self._name, from_c_library=True)
        self._blocks = blocks
        with naming(self._name):
            if self._kind == "json":
                yield from self._json(times)
            else:
                lines = (line for block in blocks.blocks() for line in block.decode().split("\n"))
                yield from self._watched(reports(self._kind, lines, times, self._odd), times)

    def _json(self, times: TextTimes) -> Iterator[Report]:
        if self._path.stat().st_size > _JSON_BYTES_MAX:
            raise IotraceError(f"'{self._name}' is over 256 MiB of JSON", hint="take it as text")
        data = self._path.read_bytes()
        found = load(data.decode(text_encoding(data), "replace").lstrip("\ufeff"))
        if found is None:
            raise IotraceError(
                f"'{self._name}' is not complete JSON of sysstat", hint="copy it again, or take text"
            )
        yield from self._watched(json_reports(found, times, self._odd), times)

    def _watched(self, found: Iterator[Report], times: TextTimes) -> Iterator[Report]:
        for report in found:
            self._is_local |= times.local and self._zone is None
            yield report


def _dates(head: bytes, kind: str) -> Iterator[str]:
    """Dates near a file's start, by which days and months are told apart."""
    lines = head_lines(head, _LOOKED_AT)
    if kind == "json":
        yield from re.findall(r'"timestamp"\s*:\s*"([^"]+)"', head.decode("utf-8", "replace"))
    elif kind == "sar":
        half = " AM" if any(re.match(r"\d\d:\d\d:\d\d [AP]M ", line) for line in lines) else ""
        yield from (f"{banner['date']} 00:00:00{half}" for line in lines if (banner := BANNER.match(line)))
    else:
        yield from (line.strip() for line in lines)
        clocks = [clock for line in lines if (clock := TIME.fullmatch(line))]
        half = " AM" if any(clock["half"] for clock in clocks) else ""
        yield from (
            f"{banner['date']} 00:00:00{half}" for line in lines if (banner := BANNER.match(line)) and clocks
        )


def _inspect(path: Path, name: str) -> dict[str, Any]:
    trace = _read(path, name, unreported)
    values = sum(len(batch) for _, batch in trace.batches())
    quality = trace.outcome().quality
    return {
        "format": "sysstat",
        "kind": trace.series.objects[0] if trace.series.objects else None,
        "hosts": sorted(set(trace.series.sources)),
        "devices": sorted({name or "" for name in trace.series.instances}),
        "reports": trace.reports,
        "values": values,
        "dated": trace.is_dated,
        "whole": not quality.truncated_tail,
        "notes": quality.notes,
    }


def _almost(head: bytes) -> tuple[str, str] | None:
    if any(BANNER.match(line) for line in head_lines(head, 4)):
        return (
            "a report of iostat, sar or their like without disks",
            "take one with disks: iostat -xt 5, or sar -d 5",
        )
    return None


FORMAT: Final = Format("sysstat", _recognises, _read, _inspect, has_ios=False, almost=_almost)
