"""Text counter logs of Windows (PDH-CSV, PDH-TSV), as data collector sets, typeperf and relog write them.

Limits. Times are local and the header's bias is that of the first sample. Where the clock is set back or ahead by an
hour as daylight saving ends or begins, the rest is brought onto the old bias, and said so. Where the header names no
bias, local times are taken as UTC, and said so. A column that has no value in its first line is a rate or mean (it
needs two samples); others are instants unless their name tells. A cell below zero is no sample, if the counter is
one that cannot be negative: typeperf has been seen to write -1 where it has no value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from iotrace.capture.counters.names import Meaning, meaning
from iotrace.capture.counters.series import Flags, Integers, Series, median_of_counts, utc_text
from iotrace.capture.formats.format import SYSTEM_TICK_NS, Format, Outcome, Progress, naming, unreported
from iotrace.schemas import Clock, IotraceError, Quality, counted
from iotrace.schemas.host import Host

from .perfmon_text import DATA, HEADER, Header, TextLog, looks_like_text_log, milliseconds, read_header

_BLANKS: Final = ["", " "]
_HOUR_MS: Final = 3_600_000
_VALUE_MAX: Final = 1e200
"""No counter is larger, and in other units even this is a number."""


def recognises(head: bytes, _path: Path) -> bool:
    """Whether a line near the start of ``head`` is the header of a text log, in any of its encodings.

    The facts that a migration assessment keeps beside its counters are recognised too, so that `read` can name them.
    """
    return looks_like_text_log(head) or _is_assessment(head)


def _is_assessment(head: bytes) -> bool:
    """Tables of the SQL Server migration tools without counters: sizes of files, and the host's hardware."""
    first_line = head[:1024].partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf")
    return (
        first_line.startswith(b"ServerName,DatabaseName,")
        and b"TimeDataCollected" in first_line
        and b"CounterName" not in first_line
    )


def read(path: Path, name: str, progress: Progress) -> "PerfmonTrace":
    """Open the log at ``path``. Memory is bounded by the width of a line, not by their number."""
    with naming(name), path.open("rb") as file:
        if _is_assessment(file.read(1024)):
            raise IotraceError(
                f"'{name}' is a table of a SQL Server migration assessment without counters: sizes of files",
                hint="bring its PerformanceAggregated_Counters.csv; better, counters of perfmon or DMV snapshots",
            )
    return PerfmonTrace(path, name, progress)


def inspect(path: Path, name: str) -> dict[str, Any]:
    """Counters, samples and time of a log: the whole file is read, nothing is kept.

    Keys: kind, machines, objects (name → series), series, headers, samples, values, first_utc, last_utc (ISO 8601, null
    without samples), interval_s (median), time_zone, time_zone_bias_minutes (null: not told), encoding, whole, notes.
    Raises `IotraceError`.
    """
    trace = read(path, name, unreported)
    value_count = sum(batch.num_rows for _, batch in trace.batches())
    outcome = trace.outcome()
    objects: dict[str, int] = {}
    for object_name in trace.series.objects:
        objects[object_name] = objects.get(object_name, 0) + 1
    return {
        "kind": "text counter log of Windows",
        "machines": sorted(set(trace.series.sources)),
        "objects": objects,
        "series": len(trace.series),
        "headers": trace.headers,
        "samples": trace.samples,
        "values": value_count,
        "first_utc": trace.utc_text(outcome.window_start_ns),
        "last_utc": trace.utc_text(outcome.window_end_ns),
        "interval_s": trace.median_interval_s(),
        "time_zone": trace.header.zone,
        "time_zone_bias_minutes": trace.header.bias_minutes,
        "encoding": trace.header.encoding,
        "whole": not outcome.quality.truncated_tail,
        "notes": outcome.quality.notes,
    }


FORMAT: Final = Format("perfmon-csv", recognises, read, inspect, has_ios=False)


@dataclass(slots=True)
class _Segment:
    """What follows one header: its columns, and what was seen of them."""

    header: Header
    numbers: Integers
    never_negative: Flags
    """Per column: whether its meaning is known, and with it that it counts or measures something."""
    instant: Integers
    """Per column: 1 an instant, 0 a rate or mean, -1 not known before its first line."""
    last_ms: int | None = None
    shift_ms: int = 0
    usual_ms: int = 0
    """Usual time between lines."""


@dataclass(slots=True)
class _Counts:
    foreign_lines: int = 0
    cut_lines: int = 0
    bad_times: int = 0
    bad_values: int = 0
    below_zero: int = 0
    lines_below_zero: int = 0
    cells: int = 0
    equal_times: int = 0
    clock_steps: int = 0
    daylight_steps: int = 0
    intervals_ms: dict[int, int] = field(default_factory=dict)


class PerfmonTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress) -> None:
        self._path, self._name, self._progress = path, name, progress
        self._text = TextLog(path, name)
        self.series = Series(name)
        self.samples = self.headers = 0
        self._counts = _Counts()
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._first_ns: int | None = None
        self._last_ns = 0
        self._biases: set[int | None] = set()
        self.header, start_ms = self._start()
        self.clock = Clock(
            start_ms * 1_000_000,
            1e6,
            "Windows local time" if self.header.bias_minutes is None else "Windows text counter log",
            # Without a time zone nothing tells how far UTC is.
            None if self.header.bias_minutes is None else SYSTEM_TICK_NS + 1_000_000,
        )
        self.host = Host(utc_bias_minutes=self.header.bias_minutes)

    def _start(self) -> tuple[Header, int]:
        """The first header and the UTC milliseconds of the first line that follows it."""
        first: Header | None = None
        header: Header | None = None
        other: bytes = b""
        with naming(self._name):
            for kind, lines, is_utf8 in self._parts(unreported):
                if kind == "header":
                    header = read_header(lines, is_utf8=is_utf8, name=self._name)
                    first = first or header
                elif first is not None and header is not None:
                    delimiter = header.delimiter.encode()
                    other = other or next((one for one in lines.split(b"\n") if delimiter in one), b"")
                    cells = [line.split(delimiter, 1)[0].strip(b'" \t\r') for line in DATA.findall(lines)]
                    times = milliseconds(
                        pa.array([cell.decode("ascii", "replace") for cell in cells], pa.string())
                    )
                    if len(times := times.drop_null()):
                        return first, times[0].as_py() + (header.bias_minutes or 0) * 60_000
        if first is None:
            raise IotraceError(
                f"'{self._name}' has no header of a counter log", hint="check that it is whole"
            )
        if other:
            shown = other.decode("utf-8", "replace").strip()[:60]
            raise IotraceError(
                f"no line of '{self._name}' begins with a time as counter logs have it: {shown}",
                hint="a spreadsheet that saves a log again may write its times and numbers anew (13.03.2026, 1.5 as "
                "1. May): bring the log as it was recorded, or its .blg",
            )
        return first, 0

    def _parts(self, progress: Progress) -> Iterator[tuple[str, bytes, bool]]:
        """Header lines one by one, and the lines between them."""
        for piece, is_utf8 in self._text.pieces(progress):
            at = 0
            for found in HEADER.finditer(piece):
                if found.start() > at:
                    yield "lines", piece[at : found.start()], is_utf8
                end = piece.find(b"\n", found.start()) + 1
                at = end or len(piece)
                yield "header", piece[found.start() : at], is_utf8
            if at < len(piece):
                yield "lines", piece[at:], is_utf8

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows in the order of the file: all counters of a line, then the next line."""
        segment: _Segment | None = None
        with naming(self._name):
            for kind, text, is_utf8 in self._parts(self._progress):
                if kind == "header":
                    segment = self._segment(read_header(text, is_utf8=is_utf8, name=self._name), segment)
                    continue
                lines = DATA.findall(text)
                self._counts.foreign_lines += sum(
                    1 for line in text.split(b"\n") if line.strip(b"\0 \t\r\x1a")
                ) - len(lines)
                if segment is not None and lines:
                    yield from self._rows(segment, lines)

    def _segment(self, header: Header, before: _Segment | None) -> _Segment:
        self.headers += 1
        self._biases.add(header.bias_minutes)
        numbers, instant, never_negative = [], [], []
        for path in header.paths:
            sense: Meaning = meaning(path.object_name, path.counter)
            key = (path.host, path.object_name, path.instance, path.counter)
            if key not in self._numbers:
                self._numbers[key] = self.series.add(
                    path.host or self._name, path.object_name, path.instance, path.counter, sense
                )
            numbers.append(self._numbers[key])
            never_negative.append(sense.unit is not None)
            instant.append(-1 if sense.is_instant is None else int(sense.is_instant))
        segment = _Segment(
            header,
            np.array(numbers, np.int64),
            np.array(never_negative, np.bool_),
            np.array(instant, np.int64),
        )
        if before is not None and before.header.paths == header.paths:
            segment.instant = before.instant
        return segment

    def _rows(self, segment: _Segment, lines: list[bytes]) -> Iterator[tuple[str, pa.RecordBatch]]:
        table = self._table(segment, lines)
        times = milliseconds(table.column(0).combine_chunks())
        self._counts.bad_times += times.null_count
        table = table.filter(pc.is_valid(times))
        times = times.drop_null()
        if not len(times):
            return
        values = np.column_stack([self._numeric(column) for column in table.columns[1:]])
        below_zero = (values < 0) & segment.never_negative
        values[below_zero] = np.nan
        self._counts.cells += values.size
        self._counts.below_zero += int(below_zero.sum())
        self._counts.lines_below_zero += int(below_zero.any(axis=1).sum())
        local_ms: Integers = times.to_numpy()
        if (segment.instant < 0).any():
            filled = np.isfinite(values[0])
            segment.instant = np.where(segment.instant < 0, filled, segment.instant)
        utc_ms, interval_ms = self._clocked(segment, local_ms)
        at_ns = utc_ms * 1_000_000 - self.clock.start_utc_ns
        self.samples += len(at_ns)
        low, high = int(at_ns.min()), int(at_ns.max())
        self._first_ns = low if self._first_ns is None else min(self._first_ns, low)
        self._last_ns = max(self._last_ns, high) if self.samples > len(at_ns) else high
        # Wide logs are handed over in several batches: a value takes far more memory as a row than in the matrix.
        step = max(1, (1 << 18) // values.shape[1])
        for start in range(0, len(at_ns), step):
            part = values[start : start + step]
            row, column = np.nonzero(np.isfinite(part))
            interval_ns = np.where(segment.instant[column] == 1, 0, interval_ms[start + row] * 1_000_000)
            if len(row):
                yield (
                    "counters",
                    self.series.rows(
                        at_ns[start + row], interval_ns, segment.numbers[column], part[row, column]
                    ),
                )

    def _table(self, segment: _Segment, lines: list[bytes]) -> pa.Table:
        names = [str(number) for number in range(len(segment.header.paths) + 1)]
        cut = 0

        def skip(_row: object) -> str:
            nonlocal cut
            cut += 1
            return "skip"

        def parse(types: dict[str, pa.DataType]) -> pa.Table:
            nonlocal cut
            cut = 0
            data = b"\n".join(line.strip() for line in lines) + b"\n"
            return csv.read_csv(
                BytesIO(data),
                csv.ReadOptions(
                    column_names=names,
                    use_threads=False,
                    block_size=max(len(data) + 1, 1 << 16),
                    encoding="latin-1",
                ),
                csv.ParseOptions(delimiter=segment.header.delimiter, invalid_row_handler=skip),
                csv.ConvertOptions(
                    column_types=types,
                    null_values=_BLANKS,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )

        numbers = {names[0]: pa.string()} | dict.fromkeys(names[1:], pa.float64())
        try:
            table = parse(numbers)
        except pa.ArrowInvalid:
            # Some cell is no number: take all as text, and each that is one.
            table = parse(dict.fromkeys(names, pa.string()))
        if cut and self._text.is_unended:
            self._text.truncated = True
        else:
            self._counts.cut_lines += cut
        return table

    def _numeric(self, column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
        if not pa.types.is_floating(column.type):
            # Where Windows' region has a decimal comma some tools write it, within quotes; none of them groups digits.
            column = pc.replace_substring_regex(
                column, r"^(\s*[-+]?\d+),(\d+(?:[eE][-+]?\d{1,3})?\s*)$", r"\1.\2"
            )
            is_number = pc.match_substring_regex(column, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?\s*$")
            self._counts.bad_values += int(pc.sum(pc.invert(is_number)).as_py() or 0)
            column = pc.utf8_trim_whitespace(pc.if_else(is_number, column, None)).cast(pa.float64())
        numbers: np.ndarray[Any, np.dtype[np.float64]] = column.to_numpy().astype(np.float64)
        beyond = np.abs(numbers) > _VALUE_MAX
        self._counts.bad_values += int(beyond.sum())
        numbers[beyond] = np.nan
        return numbers

    def _clocked(self, segment: _Segment, local_ms: Integers) -> tuple[Integers, Integers]:
        """UTC and the time since the line before, in milliseconds; 0 where there is none or the clock went back."""
        first = local_ms[0] if segment.last_ms is None else segment.last_ms
        steps = np.diff(local_ms, prepend=first)
        self._counts.equal_times += int(np.count_nonzero(steps == 0)) - (segment.last_ms is None)
        if len(steps) > 4 or not segment.usual_ms:
            segment.usual_ms = int(np.median(steps[steps > 0])) if (steps > 0).any() else 0
        usual = segment.usual_ms
        shifts = np.zeros_like(local_ms)
        if 0 < usual < _HOUR_MS // 4:
            back = (steps < 0) & (np.abs(steps + _HOUR_MS - usual) <= usual)
            # Ahead: 02:00 to 03:00 is left out, and samples stand on both sides of it.
            ahead = (np.abs(steps - _HOUR_MS - usual) <= usual) & (
                (local_ms - steps) // _HOUR_MS + 2 == local_ms // _HOUR_MS
            )
            shifts = np.where(back, _HOUR_MS, 0) - np.where(ahead, _HOUR_MS, 0)
            self._counts.daylight_steps += int(np.count_nonzero(shifts))
        steps = steps + shifts
        self._counts.clock_steps += int(np.count_nonzero(steps < 0))
        shift = segment.shift_ms + np.cumsum(shifts)
        segment.shift_ms, segment.last_ms = int(shift[-1]), int(local_ms[-1])
        lengths, counts = np.unique((steps[steps > 0] + 5) // 10 * 10, return_counts=True)
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
            if len(self._counts.intervals_ms) < 100_000 or length in self._counts.intervals_ms:
                self._counts.intervals_ms[length] = self._counts.intervals_ms.get(length, 0) + count
        bias_minutes = segment.header.bias_minutes
        if bias_minutes is None:
            bias_minutes = self.header.bias_minutes or 0
        return local_ms + shift + bias_minutes * 60_000, np.maximum(steps, 0)

    def median_interval_s(self) -> float | None:
        """Median time between lines, to 10 ms."""
        median_ms = median_of_counts(self._counts.intervals_ms)
        return None if median_ms is None else median_ms / 1e3

    def utc_text(self, at_ns: int) -> str | None:
        """A time of the recording as ISO 8601 in UTC; None for a log without samples."""
        if not self.samples:
            return None
        return utc_text(self.clock.start_utc_ns + at_ns)

    def outcome(self) -> Outcome:
        """The window runs from the first line to the last."""
        start_ns = self._first_ns or 0
        quality = Quality(
            clock_steps=self._counts.clock_steps,
            truncated_tail=self._text.truncated,
            left_out=list(self._left_out()),
            notes=list(self._notes()),
        )
        return Outcome(start_ns, max(start_ns, self._last_ns), quality, self.samples)

    def _left_out(self) -> Iterator[str]:
        counts = self._counts
        if counts.below_zero:
            yield (
                f"{counts.below_zero:,} of {counted(counts.cells, 'cell')} are below zero, which their counters "
                f"never are: {counts.lines_below_zero:,} of {counted(self.samples, 'line')} lack a sample"
            )

    def _notes(self) -> Iterator[str]:
        if not self.samples:
            yield "this counter log holds no sample"
        if None in self._biases:
            yield "the file names no time zone: its local times are taken as UTC and may be hours off other traces"
        if self.header.is_guessed:
            yield f"names are not in UTF-8; they were read in the code page {self.header.encoding}, a guess"
        if self.series.has_untranslated():
            yield "some counters keep their localized names and have no metric"
        if len(self._biases) > 1:
            yield "headers in this file name different time zones"
        counts = self._counts
        for count, noun, words in (
            (counts.daylight_steps, "time", "the local clock was set by an hour; taken as daylight saving"),
            (counts.cut_lines, "line", "left out with more or fewer cells than the header"),
            (counts.bad_times, "line", "left out: the time cannot be right"),
            (counts.bad_values, "cell", "left out without a number"),
            (counts.below_zero, "cell", "left out below zero: the counter has no value there"),
            (counts.foreign_lines, "line", "of other text left out"),
            (counts.equal_times, "line", "with the moment of the line before"),
        ):
            if count:
                yield f"{counted(count, noun)} {words}"
