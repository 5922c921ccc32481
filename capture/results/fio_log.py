"""fio's latency, bandwidth and IOPS logs (``write_lat_log``, ``write_bw_log``, ``write_iops_log``).

Facts: fio(1), "LOG FILE FORMATS", and flush_samples in fio's iolog.c. Nothing in a log tells what its values are: the
names that fio gives do (``NAME_clat.1.log``), so a log needs its name. All logs of one NAME are one trace. Without
``log_avg_msec`` each line is one I/O that completed at a whole millisecond after its job began: they become I/Os, of
the ``clat`` logs if there are any, else of ``lat``. With it each line is a mean over an interval, which is a counter.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.capture.formats.format import HEAD_BYTES, Family, Format, Outcome, Progress, naming
from iotrace.capture.formats.io_lines import DISCARD, READ, WRITE, Dialect, IoLinesTrace, Rows, numbers
from iotrace.capture.formats.text_blocks import TextBlocks, columns_of, head_lines
from iotrace.schemas import Clock, IotraceError, Quality
from iotrace.schemas.host import Host

from .run import MILLISECOND_NS
from .trace import COUNTERS

_NAME: Final = re.compile(r"(.+?)_(clat|slat|lat|bw|iops)(?:\.([0-9]{1,6}))?\.log")
_LINE: Final = re.compile(r"[0-9]{1,16}, -?[0-9]{1,18}(?:, (?:[0-9]{1,19}|0x[0-9a-fA-F]{1,8})){2,6}")
_KINDS: Final = ("clat", "lat", "slat", "bw", "iops")
_OPS: Final = ("read", "write", "trim")
_UNITS: Final = {"bw": "KiB/s", "iops": "1/s"}
_EPOCH_MS: Final = 10**12
_LATEST_MS: Final = 4_102_444_800_000
"""The year 2100."""
"""Times beyond are since 1970 (``log_unix_epoch``): no job runs for thirty years."""
_NO_TRIM: Final = frozenset({"read", "write"})


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns a log has, as its first lines tell."""

    columns: tuple[str, ...]
    is_averaged: bool
    is_dated: bool


def member(name: str) -> tuple[str, int] | None:
    """From the name of a log: its NAME, and its place among the logs of that."""
    found = _NAME.fullmatch(name)
    return (found[1], _KINDS.index(found[2]) * 1_000_000 + int(found[3] or 0)) if found else None


def _recognises(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 20)
    return bool(lines) and all(_LINE.fullmatch(line.strip()) for line in lines)


def _layout(head: bytes) -> _Layout | None:
    rows = [[cell.strip() for cell in line.split(",")] for line in head_lines(head, 200)]
    rows = [row for row in rows if len(row) == len(rows[0])]
    if not rows or not 4 <= len(rows[0]) <= 8:
        return None
    # With log_window_value=both the greatest value stands between the mean and the direction.
    has_most = any(row[2] not in {"0", "1", "2"} for row in rows)
    columns = ["time", "value", *(["most"] if has_most else []), "direction", "size"]
    rest = len(rows[0]) - len(columns)
    if rest == 1:
        place = len(columns)
        is_priority = all(row[place] in {"0", "1"} or row[place].startswith("0x") for row in rows)
        columns.append("priority" if is_priority else "offset")
    else:
        columns += ["offset", "priority", "issued"][:rest]
    if len(columns) != len(rows[0]):
        return None
    size = columns.index("size")
    return _Layout(tuple(columns), all(row[size] == "0" for row in rows), int(rows[0][0]) >= _EPOCH_MS)


class FioLogsTrace:
    """See `iotrace.capture.formats.format.Trace`. ``prefix`` is the NAME that all its logs have in common."""

    def __init__(self, paths: Sequence[Path], names: Sequence[str], progress: Progress) -> None:
        self.prefix = ""
        self._outcomes: list[Outcome] = []
        self._notes: list[str] = []
        self._end_ns = 0
        self._logs: list[tuple[str, str, Path, _Layout]] = []
        for path, name in zip(paths, names, strict=True):
            found = _NAME.fullmatch(Path(name).name)
            if found is None:
                raise IotraceError(
                    f"'{name}' is a log of fio, but its name does not say what it measures",
                    hint="give it the name that fio gives: NAME_clat.1.log, NAME_lat.1.log, NAME_bw.1.log, …",
                )
            self.prefix = found[1]
            with naming(name), path.open("rb") as file:
                layout = _layout(file.read(HEAD_BYTES))
            if layout is not None:
                self._logs.append((found[2], name, path, layout))
        self._single = self._of_single_ios()
        averaged = [log for log in self._logs if log[3].is_averaged]
        if not self._single and not averaged:
            raise IotraceError(
                f"'{names[0]}' and the logs beside it have no latencies of single I/Os and no means",
                hint="run fio with --write_lat_log, or with --log_avg_msec",
            )
        self._averaged = averaged
        self._progress = progress
        dated = [log for log in (*self._single, *averaged) if log[3].is_dated]
        self._zero_ms = min((self._first_ms(log[2]) for log in dated), default=0)
        if self._zero_ms >= _LATEST_MS:
            raise IotraceError(
                f"'{names[0]}' begins at {self._zero_ms:,} ms since 1970, which is not a date",
                hint="it is damaged; let fio write the log again",
            )
        self.clock = Clock(self._zero_ms * MILLISECOND_NS, 1e6, "fio log")
        self.host = Host()

    @property
    def has_ios(self) -> bool:
        """Whether single I/Os are logged."""
        return bool(self._single)

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """I/Os of the logs without means, counters of those with."""
        has_device = False
        for kind, name, path, layout in self._single:
            lines = IoLinesTrace(path, name, self._progress, self._dialect(kind, name, layout))
            for table_name, batch in lines.batches():
                # All logs of a NAME are of one job, so its target is one device.
                if table_name != "devices" or not has_device:
                    yield table_name, batch
                has_device = True
            self._outcomes.append(lines.outcome())
        for kind, name, path, layout in self._averaged:
            yield from self._means(kind, name, path, layout)

    def outcome(self) -> Outcome:
        """The window runs to the last completion or mean."""
        quality = Quality(notes=list(dict.fromkeys(self._notes)))
        for one in self._outcomes:
            quality.events_lost += one.quality.events_lost
            quality.latencies_dropped += one.quality.latencies_dropped
            quality.truncated_tail |= one.quality.truncated_tail
            quality.notes += [note for note in one.quality.notes if note not in quality.notes]
        if self._single:
            quality.notes.append(
                "fio's logs give completions in whole milliseconds: latencies are exact, times are not"
            )
        start_ns = min((one.window_start_ns for one in self._outcomes), default=0)
        end_ns = max((one.window_end_ns for one in self._outcomes), default=0)
        return Outcome(
            start_ns, max(end_ns, self._end_ns), quality, sum(one.events for one in self._outcomes)
        )

    def _of_single_ios(self) -> list[tuple[str, str, Path, _Layout]]:
        logs = [log for log in self._logs if not log[3].is_averaged]
        chosen = next((kind for kind in ("clat", "lat") if any(log[0] == kind for log in logs)), None)
        others = sorted({log[0] for log in logs} - {chosen})
        if chosen and others:
            self._notes.append(f"logs of {', '.join(others)} list the same I/Os again and are left out")
        return [log for log in logs if log[0] == chosen]

    def _first_ms(self, path: Path) -> int:
        with path.open("rb") as file:
            return int(head_lines(file.read(HEAD_BYTES), 1)[0].split(",")[0])

    def _dialect(self, kind: str, name: str, layout: _Layout) -> Dialect:
        thread = int((_NAME.fullmatch(Path(name).name) or [None, None, None, "0"])[3] or 0)
        notes = () if kind == "clat" else ("latencies are lat: they include the time to submit",)
        return Dialect(
            "fio log",
            list(layout.columns),
            ",",
            lambda columns: self._rows(columns, thread),
            tick_ns=1,
            utc_ns=lambda _ticks: self._zero_ms * MILLISECOND_NS,
            clock_name="fio log",
            layer="filesystem",
            notes=notes,
            first_ticks=self._zero_ms * MILLISECOND_NS,
            in_order=False,  # of completion, to the millisecond, each thread's after the other's
        )

    def _rows(self, columns: dict[str, pa.Array], thread: int) -> Rows:
        at_ms, has_at = numbers(columns["time"])
        latency_ns, has_latency = numbers(columns["value"])
        direction, has_direction = numbers(columns["direction"])
        size, has_size = numbers(columns["size"])
        offset, has_offset = (
            numbers(columns["offset"]) if "offset" in columns else (np.zeros_like(size), has_size)
        )
        valid = has_at & has_latency & has_direction & has_size & has_offset
        valid &= (latency_ns >= 0) & (direction >= 0) & (direction <= 2) & (size > 0) & (offset >= 0)
        valid &= at_ms < 10**13
        at_ms, latency_ns = np.where(valid, at_ms, 0), np.where(valid, latency_ns, 0)
        op = np.array([READ, WRITE, DISCARD])[np.where(valid, direction, 0)]
        device = pa.array([self.prefix] * len(at_ms), pa.string())
        threads = np.full(len(at_ms), thread, np.int64)
        offset_bytes = np.where(valid, offset, 0).astype(np.uint64)
        return Rows(
            valid,
            at_ms * MILLISECOND_NS - latency_ns,
            op,
            offset_bytes,
            size,
            device,
            latency_ns,
            thread=threads,
        )

    def _means(
        self, kind: str, name: str, path: Path, layout: _Layout
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        before: dict[int, int] = {}
        blocks = TextBlocks(path, name, self._progress)
        rejected = rows = 0
        for block in blocks.blocks():
            columns, bad = columns_of(block, list(layout.columns), ",")
            at_ms, has_at = numbers(columns["time"])
            value, has_value = numbers(columns["value"])
            direction, has_direction = numbers(columns["direction"])
            valid = has_at & has_value & has_direction & (value >= 0) & (direction >= 0) & (direction <= 2)
            valid &= (at_ms >= self._zero_ms) & (at_ms < 10**13)
            rejected += bad + int((~valid).sum())
            found = [
                self._counter(kind, int(at) - self._zero_ms, int(mean), int(way), before)
                for at, mean, way in zip(at_ms[valid], value[valid], direction[valid], strict=True)
            ]
            rows += len(found)
            if found:
                yield "counters", pa.RecordBatch.from_pylist(found, schema=COUNTERS)
        quality = Quality(events_lost=rejected, truncated_tail=blocks.cut_tail)
        self._outcomes.append(Outcome(0, self._end_ns, quality, rows))

    def _counter(self, kind: str, at_ms: int, value: int, way: int, before: dict[int, int]) -> dict[str, Any]:
        at_ns = at_ms * MILLISECOND_NS
        interval_ns = at_ns - before.get(way, 0)
        before[way] = at_ns
        self._end_ns = max(self._end_ns, at_ns)
        op = _OPS[way]
        metric = {"clat": "latency_ns", "bw": "bytes_per_second", "iops": "iops"}.get(kind)
        scale = 1024 if kind == "bw" else 1
        return {
            "at_ns": at_ns,
            "interval_ns": interval_ns if interval_ns > 0 else None,
            "source": "fio",
            "object": "fio log",
            "instance": self.prefix,
            "counter": f"{op} {kind}",
            "value": float(value * scale),
            "unit": "B/s" if kind == "bw" else _UNITS.get(kind, "ns"),
            "layer": None,
            "metric": f"{op}_{metric}" if metric and op in _NO_TRIM else None,
        }


def _read(paths: Sequence[Path], names: Sequence[str], progress: Progress) -> FioLogsTrace:
    return FioLogsTrace(paths, names, progress)


def _inspect(paths: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    trace = _read(paths, names, lambda *_: None)
    rows = {"io": 0, "counters": 0}
    for table_name, batch in trace.batches():
        if table_name in rows:
            rows[table_name] += len(batch)
    return {
        "format": "fio-log",
        "whole": not trace.outcome().quality.truncated_tail,
        "name": trace.prefix,
        "I/Os": rows["io"],
        "means": rows["counters"],
    }


FORMAT: Final = Format(
    "fio-log",
    _recognises,
    lambda path, name, progress: _read([path], [name], progress),
    lambda path, name: _inspect([path], [name]),
    Family(member, _read, _inspect),
)
