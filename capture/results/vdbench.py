"""vdbench's ``flatfile.html``: one run for each run definition and load, of raw I/O (wd=) or of files (fwd=).

Facts: vdbench's Flat.java and its manual. Columns are found by their names. A run is the row whose interval is
``avg_2-N``: the mean without the first interval; the rows before it become counters. Response times are milliseconds
from issue to completion; vdbench prints no percentiles. ``reqrate`` is a number just below
a million where no rate was asked for (999988 and 999977, it is said; not confirmed), and 9999988 for files.

Tests of files have columns of their own: `_OF_FILES`. Their rate counts the operations that were asked for; reads and
writes are told apart where these are all. Runs named ``format_for_…`` only make the files, and are left out.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from iotrace.capture.clocks.zones import Moment, moment
from iotrace.schemas import IotraceError
from iotrace.schemas.units import SECOND_NS

from .run import (
    MILLISECOND_NS,
    SERVICE,
    TOTAL_OP,
    Figure,
    OpResult,
    Run,
    nanoseconds,
    real,
    small,
)
from .trace import CutOff, lines_of, read_text, result_format

TOOL: Final = "vdbench"
_UNLIMITED: Final = 999_900.0
_AVERAGE: Final = re.compile(r"avg_(\d{1,9})-(\d{1,9})")
_TIME: Final = re.compile(r"(\d{2})/(\d{2})/(\d{4})-(\d{2}):(\d{2}):(\d{2})-(\S{1,40})")
_LATENCY: Final = {
    TOTAL_OP: ("resp", "resp_max", "resp_std"),
    "read": ("read_resp", "read_max", "read_std"),
    "write": ("write_resp", "write_max", "write_std"),
}

_OF_FILES: Final = {
    "xfersize": "Xfersize",
    "threads": "Threads",
    "reqrate": "Reqrate",
    "rate": "Rate",
    "resp": "Resp",
    "resp_max": "Resp_max",
    "resp_std": "Resp_std",
    "read_resp": "Read_resp",
    "read_max": "Read_resp_max",
    "read_std": "Read_resp_std",
    "write_resp": "Write_resp",
    "write_max": "Write_resp_max",
    "write_std": "Write_resp_std",
}
"""Columns of a test of raw I/O → those of a test of files that say the same."""

_FORMAT: Final = "format_for_"

Row = dict[str, str]


def _header(lines: list[str]) -> list[str] | None:
    for line in lines:
        words = line.split()
        # Older versions have no column timestamp, or not even the time of day.
        if words[:1] in (["tod"], ["Run"]) and {"Run", "Interval"} <= set(words[:4]):
            return words
    return None


def _recognises(text: str) -> bool:
    if "Vdbench generated information" in text:
        return True
    columns = _header(text.split("\n")[:200])
    return columns is not None and {"Run", "Interval"} <= set(columns)


def parse(path: Path, name: str) -> list[Run]:
    """One run for each average."""
    lines = lines_of(read_text(path, name))
    columns = _header(lines)
    if columns is None:
        raise CutOff([])
    is_of_files = "rate" not in columns and "Rate" in columns
    rows = [_of_files(row) if is_of_files else row for row in _rows(lines, columns)]
    tests = [row for row in rows if not row.get("Run", "").startswith(_FORMAT)]
    runs, is_whole = _runs(tests, Path(name).stem)
    if rows and not tests:
        raise IotraceError(
            f"'{name}' holds only vdbench's preparation of its files ({_FORMAT}…)",
            hint="bring the flatfile.html of the test itself",
        )
    if is_of_files:
        for run in runs:
            run.notes.append("it is a test of files (fwd=): rates and times are those of operations on files")
    names = [run.test for run in runs]
    for run in runs:
        if names.count(run.test) > 1:
            run.test += _load_words(run)
    if not is_whole or not runs:
        raise CutOff(runs)
    return runs


def _runs(rows: list[Row], stem: str) -> tuple[list[Run], bool]:
    """A run for each average, and whether no intervals without one are left."""
    runs: list[Run] = []
    before: list[Row] = []
    for row in rows:
        if _AVERAGE.fullmatch(row.get("Interval", "")):
            runs.append(_run(row, before, stem))
            before = []
        elif row.get("Interval", "").isdigit():
            before.append(row)
    return runs, not before


def _load_words(run: Run) -> str:
    if run.offered_iops is not None:
        return f" at {run.offered_iops:,.0f} IOPS"
    return "" if run.threads is None else f" with {run.threads} threads"


def _rows(lines: list[str], columns: list[str]) -> Iterator[Row]:
    for line in lines:
        cells = line.split()
        # A line that a cut left short is no row.
        if len(cells) == len(columns) and cells != columns and not line.startswith("*"):
            yield dict(zip(columns, cells, strict=True))


def _run(row: Row, before: list[Row], stem: str) -> Run:
    rate = real(row.get("reqrate"))
    run = Run(
        row.get("Run", stem)[:200],
        TOOL,
        None if (version := row.get("version", "n/a")) == "n/a" else version[:40],
        threads=small(row.get("threads")),
        outstanding=small(row.get("threads")) or None,
        offered_iops=rate if rate is not None and 0 < rate < _UNLIMITED else None,
        size_bytes=small(row.get("xfersize")) or None,
    )
    seek = real(row.get("seekpct"))
    run.access = None if seek is None else "random" if seek >= 100 else "mixed" if seek > 0 else "sequential"
    run.ops = list(_ops(row))
    measured = before[1:] or before
    step_s = _step_s(before)
    if step_s:
        run.duration_ns = step_s * len(measured) * SECOND_NS
        for number, each in enumerate(measured, 1):
            run.figures += _series(each, number * step_s, step_s)
    run.end(_moment(row.get("timestamp")))
    if (depth := real(row.get("queue_depth"))) is not None:
        run.figures.append(Figure("vdbench", "I/Os in flight mean", depth, "1"))
        if run.outstanding and depth > 1.1 * run.outstanding:
            run.notes.append(
                "more I/Os were in flight than its threads: they are given for each storage definition"
            )
            run.outstanding = None
    for column in ("cpu_used", "cpu_user", "cpu_kernel"):
        if (share := real(row.get(column))) is not None:
            run.figures.append(Figure("Processor", column.removeprefix("cpu_"), share, "%"))
    if not step_s:
        run.notes.append("the intervals behind its mean are missing: how long it ran is not known")
    run.notes.append("vdbench prints no percentiles")
    return run


def _of_files(line: Row) -> Row:
    """A row of a test of files with the names of raw I/O."""
    row = line | {name: line[own] for name, own in _OF_FILES.items() if own in line}
    total, reads, writes = (real(line.get(column)) for column in ("Rate", "Read_rate", "Write_rate"))
    if total and reads is not None and writes is not None and abs(reads + writes - total) <= 0.001 * total:
        row["read%"] = str(100 * reads / (reads + writes))
    return row


def _ops(row: Row) -> Iterator[OpResult]:
    iops, mib, share = real(row.get("rate")), real(row.get("MB/sec")), real(row.get("read%"))
    if iops is not None and share is not None and share <= 100:
        for op, part in (("read", share / 100), ("write", 1 - share / 100)):
            if part > 0:
                one = OpResult(op, iops=iops * part)
                _take_latency(one, row)
                yield one
    total = OpResult(TOTAL_OP, iops=iops, bytes_per_second=None if mib is None else mib * (1 << 20))
    _take_latency(total, row)
    yield total


def _take_latency(one: OpResult, row: Row) -> None:
    mean, most, spread = (nanoseconds(real(row.get(column))) for column in _LATENCY[one.op])
    if mean:
        one.latency_clock = SERVICE
        one.latency_ns_mean, one.latency_ns_max = float(mean), most
        one.latency_ns_stddev = None if spread is None else float(spread)


def _step_s(rows: list[Row]) -> int | None:
    """Seconds of an interval, by the clock of the rows."""
    moments = [moment for row in rows if (moment := _seconds_of_day(row.get("tod", ""))) is not None]
    if len(moments) < 2:
        return None
    steps = sorted((later - earlier) % 86_400 for earlier, later in pairwise(moments))
    return round(steps[len(steps) // 2]) or None


def _seconds_of_day(text: str) -> float | None:
    parts = [real(part) for part in text.split(":")]
    if len(parts) != 3 or None in parts:
        return None
    hours, minutes, seconds = (part or 0.0 for part in parts)
    return hours * 3600 + minutes * 60 + seconds if hours < 25 and minutes < 61 and seconds < 62 else None


def _series(row: Row, at_s: int, step_s: int) -> Iterator[Figure]:
    at_ns, interval_ns = at_s * SECOND_NS, step_s * SECOND_NS
    if (iops := real(row.get("rate"))) is not None:
        yield Figure(
            "vdbench", "I/Os per second", iops, "1/s", metric="iops", at_ns=at_ns, interval_ns=interval_ns
        )
    for op, prefix in ((TOTAL_OP, ""), ("read", "read_"), ("write", "write_")):
        if mean := real(row.get(_LATENCY[op][0])):
            yield Figure(
                "vdbench",
                f"mean {op} latency",
                mean * MILLISECOND_NS,
                "ns",
                metric=f"{prefix}latency_ns",
                at_ns=at_ns,
                interval_ns=interval_ns,
            )


def _moment(text: str | None) -> Moment | None:
    """The moment of ``12/04/2019-10:13:43-CET``."""
    found = _TIME.fullmatch(text or "")
    if not found:
        return None
    month, day, year, hour, minute, second = (int(part) for part in found.groups()[:6])
    try:
        return moment(datetime(year, month, day, hour, minute, second), found[7])  # noqa: DTZ001
    except ValueError:
        return None


FORMAT: Final = result_format("vdbench", TOOL, _recognises, parse)
