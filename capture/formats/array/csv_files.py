"""Performance exports of storage arrays: any CSV whose columns a mapping names, as counters of layer array.

A mapping is a TOML file (`docs/formats.md` describes it). Ready ones lie in ``maps/`` and are recognised by
their columns; for any other export a file ``NAME.columns.toml`` beside ``NAME.csv`` is taken, or one handed to
`with_map`. Rates and latencies of an array are means over the export's interval, never single I/Os. The interval is
the time since the same instance's row before; for the first row it is unknown.
"""

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from iotrace.capture.clocks.zones import settled_ns
from iotrace.capture.formats.format import HEAD_BYTES, Format, Outcome, Progress, naming
from iotrace.capture.formats.io_lines import Integers
from iotrace.capture.formats.text_blocks import TextBlocks, head_lines, inspect_text, text_encoding
from iotrace.capture.formats.text_times import MayBeLocal
from iotrace.schemas import Clock, IotraceError, Quality, counted
from iotrace.schemas.host import Host

from .mapping import (
    ASK,
    RATES,
    TIMES_NS,
    UNITS,
    Mapping,
    load_io_mapping,
    load_mapping,
    mapping_text,
    read_mapping,
    ready_mappings,
    shipped,
    shipped_names,
)

_SPAN_NS_MAX: Final = 4 * 10**18
_SECONDS_MAX: Final = 4 * 10**9
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - of a wall clock
_DAY_MINUTES: Final = 24 * 60
_MINUTES_MAX: Final = _SECONDS_MAX // 60 + _DAY_MINUTES


def with_map(map_path: Path) -> Format:
    """A format that reads any CSV by the mapping at ``map_path``, or by those shipped under that name.

    Raises `IotraceError` naming it.
    """
    if not map_path.exists() and not map_path.suffix and map_path.name == str(map_path):
        return _by_name(str(map_path))
    text = mapping_text(map_path)
    if (ios := load_io_mapping(text, str(map_path))) is not None:
        return ios.format()
    mapping = load_mapping(text, str(map_path))
    return Format(
        "array-csv",
        lambda head, _path: mapping.fits(_header(head, mapping.delimiter)),
        lambda path, name, progress: ArrayTrace(path, name, progress, mapping),
    )


def _by_name(word: str) -> Format:
    mappings = shipped(word)
    if not mappings:
        raise IotraceError(
            f"no file '{word}', and no mapping of that name comes with iotrace",
            hint=f"name a file of your own, or one of: {', '.join(shipped_names())}",
        )

    def fitting(head: bytes) -> Mapping | None:
        return next((one for one in mappings if one.fits(_header(head, one.delimiter))), None)

    def read(path: Path, name: str, progress: Progress) -> ArrayTrace:
        with naming(name), path.open("rb") as file:
            found = fitting(file.read(HEAD_BYTES))
        return ArrayTrace(path, name, progress, found or mappings[0])

    return Format("array-csv", lambda head, _path: fitting(head) is not None, read)


def _header(head: bytes, delimiter: str) -> list[str]:
    lines = head_lines(head, 1)
    try:
        return [cell.strip() for cell in next(csv.reader(lines, delimiter=delimiter))] if lines else []
    except csv.Error:
        return []


def _mapping_for(head: bytes, path: Path) -> Mapping | None:
    if path.suffix.lower() in {".csv", ".txt"} and (beside := path.with_suffix(".columns.toml")).is_file():
        return read_mapping(beside)
    return next((entry for entry in ready_mappings() if entry.fits(_header(head, entry.delimiter))), None)


def _recognises(head: bytes, path: Path) -> bool:
    return _mapping_for(head, path) is not None


def _read(path: Path, name: str, progress: Progress) -> "ArrayTrace":
    with naming(name), path.open("rb") as file:
        mapping = _mapping_for(file.read(HEAD_BYTES), path)
    assert mapping is not None
    return ArrayTrace(path, name, progress, mapping)


class ArrayTrace(MayBeLocal):
    """See `iotrace.capture.formats.format.Trace`."""

    _zone: str = "UTC"

    def __init__(self, path: Path, name: str, progress: Progress, mapping: Mapping) -> None:
        self._mapping, self._name = mapping, name
        if mapping.zone not in {None, ASK}:
            self._zone = str(mapping.zone)
        with naming(name), path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        self._columns = _header(head, mapping.delimiter)
        if not mapping.fits(self._columns):
            raise IotraceError(
                f"'{name}' lacks columns of {mapping.name}", hint=f"it has: {', '.join(self._columns)[:300]}"
            )
        if len(set(self._columns)) != len(self._columns):
            raise IotraceError(
                f"'{name}' has two columns of one name", hint="rename one of them in its first line"
            )
        text = head.decode(text_encoding(head), "replace").removeprefix("\ufeff").replace("\r", "")
        self._first = text[: text.rfind("\n") + 1].encode()
        self._is_local = mapping.zone == ASK
        self.clock = self._first_clock()
        self.host = Host()
        self._blocks = TextBlocks(path, name, progress)
        self._kept = self._rejected = self._end_ns = self._begin_ns = 0
        self._before: dict[str, int] = {}

    def _first_clock(self) -> Clock:
        times = self._times(self._table(self._first, 1)[0])
        usable = times[times >= 0]
        if not len(usable):
            raise IotraceError(
                f"'{self._name}' has no time in its column {self._mapping.time_column} that its mapping can read",
                hint=f"the mapping says: {self._mapping.time_format}, zone {self._mapping.zone or 'UTC'}",
            )
        self._start_ns = int(usable.min())
        return Clock(self._start_ns, 1e9, f"{self._mapping.name} export", 1_000_000_000)

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Counters, column by column within a block of the file."""
        skip = 1
        for block in self._blocks.blocks():
            table, rejected = self._table(block, skip)
            skip = 0
            self._rejected += rejected
            yield from self._counters(table)

    def outcome(self) -> Outcome:
        """The window runs from the first row's time to the last one's."""
        notes = ["its counters are means over the export's interval, not single I/Os"]
        if self._mapping.zone == ASK:
            notes += self._zone_notes()
        if self._blocks.cut_tail:
            notes.append("the last line is cut off and is left out")
        if self._rejected:
            notes.append(
                f"{counted(self._rejected, 'line')} without a readable time or with another number of columns"
            )
        quality = Quality(truncated_tail=self._blocks.cut_tail, events_lost=self._rejected, notes=notes)
        return Outcome(self._begin_ns, self._end_ns, quality, self._kept)

    def _table(self, block: bytes, skip: int) -> tuple[pa.Table, int]:
        rejected = 0

        def count(_row: object) -> str:
            nonlocal rejected
            rejected += 1
            return "skip"

        schema = pa.schema([(name, pa.string()) for name in self._columns])
        body = block[block.find(b"\n") + 1 :] if skip else block
        if not body.strip():
            return schema.empty_table(), 0
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(body),
                pa_csv.ReadOptions(
                    use_threads=False, block_size=max(len(body), 1 << 20), column_names=self._columns
                ),
                pa_csv.ParseOptions(delimiter=self._mapping.delimiter, invalid_row_handler=count),
                pa_csv.ConvertOptions(column_types=schema, strings_can_be_null=False),
            )
        except pa.ArrowInvalid as problem:
            raise IotraceError(
                f"'{self._name}' is not CSV: {str(problem).splitlines()[0][:200]}", hint="check its quotes"
            ) from problem
        return table, rejected

    def _times(self, table: pa.Table) -> Integers:
        """UTC in nanoseconds, -1 where there is none."""
        mapping = self._mapping
        column = pc.utf8_trim_whitespace(table.column(mapping.time_column).combine_chunks())
        if mapping.time_format == "epoch":
            values = _values(column) * TIMES_NS[mapping.time_unit]
            fits = (values > 0) & (values < _SPAN_NS_MAX)
            return np.where(fits, np.round(np.where(fits, values, 0)), -1).astype(np.int64)
        if mapping.time_format == "iso":
            zoned = pc.match_substring_regex(column, r"(Z|[+-]\d\d:?\d\d)$")
            shift = _zone_shift_ns(column)
            plain = pc.replace_substring(
                pc.replace_substring_regex(column, r"(Z|[+-]\d\d:?\d\d)$", ""), "T", " "
            )
            plain = pc.replace_substring_regex(plain, r"[.,]\d+$", "")
            local = pc.strptime(plain, "%Y-%m-%d %H:%M:%S", "s", error_is_null=True)
        else:
            zoned, shift = pa.array(np.zeros(len(column), np.bool_)), np.zeros(len(column), np.int64)
            local = pc.strptime(column, mapping.time_format, "s", error_is_null=True)
        as_zoned = pc.fill_null(local.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        as_local = np.where(local.is_valid(), self._local_seconds(as_zoned), -1)
        seconds = np.where(zoned.to_numpy(zero_copy_only=False), as_zoned, as_local)
        return np.where((seconds >= 0) & (seconds < _SECONDS_MAX), seconds * 10**9 - shift, -1)

    def _local_seconds(self, local: Integers) -> Integers:
        if self._mapping.zone != ASK:
            return _utc_seconds(local, self._zone)
        moments, places = np.unique(local, return_inverse=True)
        settled = (
            settled_ns(moment * 10**9, self._zone) if 0 <= moment < _SECONDS_MAX else None
            for moment in moments.tolist()
        )
        utc = np.fromiter((-1 if one is None else one // 10**9 for one in settled), np.int64, len(moments))
        return np.asarray(utc[places], np.int64)

    def _counters(self, table: pa.Table) -> Iterator[tuple[str, pa.RecordBatch]]:
        times = self._times(table)
        usable = times >= 0
        self._rejected += int((~usable).sum())
        times = times[usable]
        table = table.filter(pa.array(usable))
        if not len(times):
            return
        mapping = self._mapping
        column = mapping.instance_column
        instance = table.column(column).combine_chunks() if column else pa.nulls(len(times), pa.string())
        interval = self._intervals(times, instance)
        at = times - self._start_ns
        self._begin_ns, self._end_ns = min(self._begin_ns, int(at.min())), max(self._end_ns, int(at.max()))
        for name, metric in mapping.metrics.items():
            if name not in table.column_names:
                continue
            values = _values(table.column(name).combine_chunks()) * UNITS[metric.unit]
            told = ~np.isnan(values)
            if metric.metric.endswith("latency_ns"):
                # A mean over no I/O is written as 0 and is none.
                told &= values > 0
            count = int(told.sum())
            self._kept += count
            keep = pa.array(told)
            yield (
                "counters",
                pa.RecordBatch.from_pydict(
                    {
                        "at_ns": pa.array(at[told]),
                        "interval_ns": interval.filter(keep),
                        "source": pa.repeat(self._name, count),
                        "object": pa.repeat(mapping.object, count),
                        "instance": instance.filter(keep),
                        "counter": pa.repeat(name, count),
                        "value": pa.array(values[told]),
                        "unit": pa.repeat(_unit(metric.unit), count),
                        "layer": pa.repeat(mapping.layer, count),
                        "metric": pa.repeat(metric.metric, count),
                    }
                ),
            )

    def _intervals(self, times: Integers, instance: pa.Array) -> pa.Array:
        """Time since the row before of the same instance; null for its first, and where time does not rise."""
        codes = pc.fill_null(instance, "").dictionary_encode()
        names = codes.dictionary.to_pylist()
        index = codes.indices.to_numpy(zero_copy_only=False)
        order = np.lexsort((np.arange(len(times)), index))
        result = np.full(len(times), -1, np.int64)
        sorted_times, sorted_index = times[order], index[order]
        same = np.diff(sorted_index, prepend=-1) == 0
        result[order] = np.where(same, np.diff(sorted_times, prepend=sorted_times[0]), -1)
        for place in np.flatnonzero(~same):
            name = names[sorted_index[place]]
            if name in self._before:
                result[order[place]] = sorted_times[place] - self._before[name]
        ends = np.append(np.flatnonzero(~same)[1:] - 1, len(times) - 1)
        self._before |= {names[sorted_index[place]]: int(sorted_times[place]) for place in ends}
        return pa.array(result, mask=result <= 0)


def _values(column: pa.Array) -> np.ndarray:
    """Numbers, NaN where there is none. A comma is a decimal sign only where the cell has no point."""
    trimmed = pc.utf8_trim_whitespace(column)
    trimmed = pc.if_else(
        pc.match_substring_regex(trimmed, r"^-?[0-9]+,[0-9]+$"),
        pc.replace_substring(trimmed, ",", "."),
        trimmed,
    )
    fits = pc.match_substring_regex(
        trimmed, r"^[+-]?([0-9]{1,19}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$"
    )
    values = pc.if_else(fits, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _utc_seconds(local: Integers, zone: str) -> Integers:
    """UTC of seconds since 1970 by a wall clock in ``zone``; what is far out of range stays as it is.

    In the hour that comes twice the earlier moment is meant; in the one left out in spring, the moment that a clock
    which was not set shows (PEP 495, fold=0). Arrow is not asked: on Windows its time zones need Windows' own ICU,
    which came with Windows 10 1903 and Server 2022.
    """
    clock = ZoneInfo(zone)
    # Clocks have been set at whole minutes since 1972 (IANA time zone database).
    minutes, places = np.unique(np.clip(local // 60, -_DAY_MINUTES, _MINUTES_MAX), return_inverse=True)
    walls = (_EPOCH + timedelta(minutes=minute) for minute in minutes.tolist())
    offsets = (clock.utcoffset(wall.replace(tzinfo=clock)) or timedelta() for wall in walls)
    seconds = np.fromiter((offset // timedelta(seconds=1) for offset in offsets), np.int64, len(minutes))
    return np.asarray(local - seconds[places], np.int64)


def _zone_shift_ns(column: pa.Array) -> Integers:
    parts = pc.extract_regex(column, r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)$")
    hours, minutes = (
        pc.fill_null(pc.struct_field(parts, name), "0").cast(pa.int64()).to_numpy(zero_copy_only=False)
        for name in ("hours", "minutes")
    )
    minus = pc.fill_null(pc.equal(pc.struct_field(parts, "sign"), "-"), fill_value=False)
    sign = np.where(minus.to_numpy(zero_copy_only=False), -1, 1)
    return np.asarray(sign * (hours * 60 + minutes) * 60 * 10**9, np.int64)


def _unit(unit: str) -> str:
    return "ns" if unit in TIMES_NS else "bytes/s" if unit in RATES else unit


def _inspect(path: Path, name: str) -> dict[str, Any]:
    with naming(name), path.open("rb") as file:
        mapping = _mapping_for(file.read(HEAD_BYTES), path)
    return inspect_text(path, name, "array-csv") | {"mapping": mapping.name if mapping else None}


FORMAT: Final = Format("array-csv", _recognises, _read, _inspect, has_ios=False)
