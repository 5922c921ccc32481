"""How the columns of a table are read, of an array's performance export or of single I/Os: a TOML file, checked.

A mapping with a section ``io`` says what the columns of a table of single I/Os are (`docs/formats.md`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.format import HEAD_BYTES, Format, Progress, naming
from iotrace.capture.formats.io_lines import (
    READ,
    WRITE,
    Dialect,
    Integers,
    IoLinesTrace,
    Rows,
    decimals,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines, inspect_text
from iotrace.schemas import IotraceError, Layer
from iotrace.schemas.plain_files import read_plain
from iotrace.schemas.sections import toml_data
from iotrace.schemas.units import FILETIME_1970

TIMES_NS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "100ns": 100.0, "ns": 1.0}
RATES: Final = {"B/s": 1.0, "KB/s": 1e3, "KiB/s": 1024.0, "MB/s": 1e6, "MiB/s": 1024.0**2, "GB/s": 1e9}
_COUNTS: Final = {"1/s": 1.0, "1": 1.0, "%": 1.0}
DELIMITERS: Final = ",;|:\t ^~"
_BYTES_MAX: Final = 1 << 20
_HINT: Final = "docs/formats.md describes one"
LAYERS: Final = ("array", *map(str, Layer))
ASK: Final = "ask"
"""The zone of a mapping whose times are local, in a zone that the export does not tell."""

UNITS: Final = TIMES_NS | RATES | _COUNTS
_BYTES: Final = {"bytes": 1, "sectors": 512, "KiB": 1024, "pages": 4096}
_IO_HINT: Final = "docs/formats.md describes one"
_TICKS_MAX: Final = float(1 << 62)


@dataclass(frozen=True, slots=True)
class Metric:
    """What a column means: the common name, and what one of its units is in the name's own unit."""

    metric: str
    unit: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """How the columns of one vendor's export are read."""

    name: str
    object: str
    delimiter: str
    time_column: str
    time_format: str
    time_unit: str
    zone: str | None
    """None where times need none; `ASK` where only the user knows it."""
    instance_column: str | None
    metrics: dict[str, Metric] = field(default_factory=dict)
    layer: str = "array"
    """Which layer's figures they are."""

    def fits(self, header: list[str]) -> bool:
        """Whether a CSV with these columns is one this mapping is for."""
        needed = {column for column, metric in self.metrics.items() if not metric.optional}
        needed |= {self.time_column} | ({self.instance_column} if self.instance_column else set())
        return needed <= set(header)


def read_mapping(path: Path) -> Mapping:
    """The mapping at ``path``. Raises `IotraceError` naming it as `load_mapping` does."""
    return load_mapping(mapping_text(path), str(path))


def mapping_text(path: Path) -> str:
    """The text of a mapping. Raises `IotraceError` naming it."""
    with naming(str(path)):
        data = read_plain(path, _BYTES_MAX)
    if len(data) > _BYTES_MAX:
        raise IotraceError(f"'{path}' is not a column mapping: it is over 1 MiB", hint=_HINT)
    return data.decode("utf-8-sig", "replace")


def load_mapping(text: str, name: str) -> Mapping:
    """Parse a mapping. Raises `IotraceError` naming it by ``name``, and the entry that is wrong."""

    def wrong(what: str) -> IotraceError:
        return IotraceError(f"'{name}' is not a column mapping: {what}", hint=_HINT)

    try:
        data = toml_data(text)
        time = data["time"]
        metrics = {
            column: Metric(str(entry["metric"]), str(entry["unit"]), bool(entry.get("optional", False)))
            for column, entry in data["metrics"].items()
        }
        mapping = Mapping(
            str(data.get("name", "array")),
            str(data.get("object", "array volume")),
            str(data.get("delimiter", ",")),
            str(time["column"]),
            str(time.get("format", "iso")),
            str(time.get("unit", "s")),
            str(time["zone"]) if "zone" in time else None,
            str(data["instance"]["column"]) if "instance" in data else None,
            metrics,
            str(data.get("layer", "array")),
        )
    except ValueError as problem:
        raise wrong(str(problem)) from problem
    except RecursionError as problem:
        raise wrong("its values are nested too deeply") from problem
    except (KeyError, TypeError, AttributeError) as problem:
        raise wrong(f"{problem} is missing or of the wrong kind") from problem
    for what in _faults(mapping):
        raise wrong(what)
    return mapping


def _faults(mapping: Mapping) -> Iterator[str]:
    if not mapping.metrics:
        yield "it names no metrics"
    if len(mapping.delimiter) != 1 or mapping.delimiter not in DELIMITERS:
        yield "the delimiter is none of , ; | : ^ ~, a space or a tab"
    for column, metric in mapping.metrics.items():
        if metric.unit not in UNITS:
            yield f"{column} has the unit {metric.unit}, not one of {', '.join(UNITS)}"
        if metric.metric.endswith("_ns") != (metric.unit in TIMES_NS):
            yield f"{column} is {metric.metric} in {metric.unit}: a metric in _ns needs a unit of time"
    if mapping.time_format == "epoch" and mapping.time_unit not in TIMES_NS:
        yield f"the time's unit {mapping.time_unit} is not one of {', '.join(TIMES_NS)}"
    if mapping.layer not in LAYERS:
        yield f"the layer {mapping.layer} is not one of {', '.join(LAYERS)}"
    yield from _faults_of_zone(mapping)


def _faults_of_zone(mapping: Mapping) -> Iterator[str]:
    if mapping.time_format != "epoch" and mapping.zone is None:
        yield "a local time needs a zone, e.g. zone = 'Europe/Berlin' or 'UTC'"
    if mapping.zone not in {None, ASK}:
        try:
            ZoneInfo(str(mapping.zone))
        except (OSError, ValueError, KeyError):
            yield f"no time zone {mapping.zone}"


@cache
def ready_mappings() -> tuple[Mapping, ...]:
    """The mappings that come with iotrace."""
    return tuple(mapping for _, mapping in _shipped())


@cache
def _shipped() -> tuple[tuple[str, Mapping], ...]:
    folder = resources.files(__package__).joinpath("maps")
    if not folder.is_dir():
        return ()
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name
    )
    return tuple(
        (entry.name.removesuffix(".toml"), load_mapping(entry.read_text("utf-8"), entry.name))
        for entry in files
    )


def shipped_names() -> list[str]:
    """Names of the mappings that come with iotrace, as ``--map`` takes them: whole, or a vendor's alone."""
    return [name.replace("_", "-") for name, _ in _shipped()]


def shipped(word: str) -> tuple[Mapping, ...]:
    """The mappings that come with iotrace under this name, or of this vendor."""
    wanted = word.lower().replace("_", "-")
    return tuple(
        mapping
        for name, (_, mapping) in zip(shipped_names(), _shipped(), strict=True)
        if name == wanted or name.startswith(f"{wanted}-")
    )


@dataclass(frozen=True, slots=True)
class IoMapping:
    """Which column is what; None for those that a table lacks."""

    name: str
    delimiter: str
    time: str
    time_ns: float
    is_dated: bool
    origin: int
    """What a time of 1970 is in the unit of the table: Windows' file times count from 1601."""
    op: str
    codes: dict[str, int]
    offset: str
    offset_bytes: int
    size: str
    size_bytes: int
    latency: str | None
    latency_ns: float
    device: str | None

    def format(self) -> Format:
        """A format that reads any table with these columns."""
        return Format(
            "io-csv",
            lambda head, _path: self._fits(head),
            self._read,
            lambda path, name: inspect_text(path, name, "io-csv"),
        )

    def _columns(self, head: bytes) -> list[str]:
        lines = head_lines(head, 1)
        return [cell.strip() for cell in lines[0].split(self.delimiter)] if lines else []

    def _fits(self, head: bytes) -> bool:
        needed = {self.time, self.op, self.offset, self.size, self.latency, self.device} - {None}
        columns = self._columns(head)
        return needed <= set(columns) and len(set(columns)) == len(columns)

    def _read(self, path: Path, name: str, progress: Progress) -> IoLinesTrace:
        with naming(name), path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if not self._fits(head):
            raise IotraceError(
                f"'{name}' lacks columns of {self.name}",
                hint=f"it has: {', '.join(self._columns(head))[:300]}",
            )
        header = head_lines(head, 1)[0]
        dialect = Dialect(
            "io-csv", self._columns(head), self.delimiter, self._convert, tick_ns=1,
            utc_ns=(lambda ticks: ticks) if self.is_dated else None, clock_name=f"{self.name}'s time",
            headers=(header.strip().lower(),),
        )  # fmt: skip
        return IoLinesTrace(path, name, progress, dialect)

    def _convert(self, columns: dict[str, pa.Array]) -> Rows:
        ticks, has_time = _scaled(columns[self.time], self.time_ns, self.origin)
        op, has_op = words(columns[self.op], self.codes)
        offset, has_offset = _scaled(columns[self.offset], self.offset_bytes)
        size, has_size = _scaled(columns[self.size], self.size_bytes)
        valid = has_time & has_op & has_offset & has_size & (offset >= 0)
        response: Integers | None = None
        if self.latency is not None:
            told, has_latency = _scaled(columns[self.latency], self.latency_ns)
            response = np.where(has_latency, told, -1)
        count = len(ticks)
        device = (
            pa.repeat(self.name, count)
            if self.device is None
            else pc.utf8_trim_whitespace(columns[self.device])
        )
        return Rows(
            valid, ticks, op, np.where(offset < 0, 0, offset).astype(np.uint64), size, device, response
        )


def _scaled(column: pa.Array, factor: float, origin: int = 0) -> tuple[Integers, np.ndarray]:
    """Numbers over ``origin`` times ``factor``, exactly where both are whole; 0 where none is or none that fits."""
    whole, is_whole = numbers(column)
    whole = np.where(is_whole & (whole >= origin), whole - origin, whole) if origin else whole
    parts, is_number = decimals(column)
    near = np.where(is_number, parts, 0.0) * factor
    fits = (is_whole | is_number) & (np.abs(np.where(is_whole, whole * float(factor), near)) < _TICKS_MAX)
    exact = (
        np.where(fits & is_whole, whole, 0) * int(factor) if factor == int(factor) else np.zeros_like(whole)
    )
    rounded = np.round(np.where(fits & ~is_whole, near, 0.0)).astype(np.int64)
    return np.where(is_whole, exact, rounded), fits


def load_io_mapping(text: str, name: str) -> IoMapping | None:
    """The mapping in ``text``; None if it has no section ``io``. Raises `IotraceError` naming it and what is wrong."""

    def wrong(what: str) -> IotraceError:
        return IotraceError(f"'{name}' is not a column mapping: {what}", hint=_IO_HINT)

    try:
        data = toml_data(text)
    except ValueError as problem:
        raise wrong(str(problem)) from problem
    if not isinstance(data.get("io"), dict):
        return None
    io = data["io"]
    try:
        time = data["time"]
        codes = {
            str(word).lower(): code for key, code in (("reads", READ), ("writes", WRITE)) for word in io[key]
        }
        format_ = time.get("format", "epoch")
        is_filetime = format_ == "filetime"
        unit = "100ns" if is_filetime else time.get("unit", "s")
        found = IoMapping(
            str(data.get("name", "table")), str(data.get("delimiter", ",")), str(time["column"]),
            TIMES_NS[unit], format_ != "relative", FILETIME_1970 if is_filetime else 0,
            str(io["op"]), codes, str(io["offset"]),
            _BYTES[io.get("offset_unit", "bytes")], str(io["size"]), _BYTES[io.get("size_unit", "bytes")],
            str(io["latency"]) if "latency" in io else None, TIMES_NS[io.get("latency_unit", "us")],
            str(io["device"]) if "device" in io else None,
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError) as problem:
        raise wrong(f"{problem} is missing or of the wrong kind") from problem
    if format_ not in {"epoch", "filetime", "relative"}:
        raise wrong(
            "the time of single I/Os has the format epoch, filetime, or relative where it names no date"
        )
    if len(found.delimiter) != 1 or found.delimiter not in DELIMITERS or not codes:
        raise wrong(
            "it needs one of , ; | : ^ ~, a space or a tab as delimiter, and words for reads and writes"
        )
    return found
