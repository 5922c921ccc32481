"""Traces that are one text line for each I/O: the part that every such format shares.

A format says how a block of lines becomes numbers (`Dialect`); here they become rows. Lines that are no I/O of the
form count as lost. A response that cannot be (negative, or over a day) leaves ``completed_ns`` null.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.clocks.steps_back import StepsBack
from iotrace.capture.roles import classify
from iotrace.schemas import Clock, IoFlags, IotraceError, Op, Quality, counted
from iotrace.schemas.host import Host
from iotrace.schemas.units import DAY_NS, FILETIME_1970, SECOND_NS, SECTOR_BYTES

from .format import HEAD_BYTES, Format, Outcome, Progress, naming, undated
from .text_blocks import TextBlocks, columns_of, inspect_text, text_encoding

READ: Final = list(Op).index(Op.READ)
WRITE: Final = list(Op).index(Op.WRITE)
FLUSH: Final = list(Op).index(Op.FLUSH)
DISCARD: Final = list(Op).index(Op.DISCARD)
NO_LATENCIES: Final = "the source has no latencies"
_SPAN_NS_MAX: Final = 100 * 366 * DAY_NS
_SECTORS_MAX: Final = 1 << 54
_PROCESS: Final = re.compile(r"(.*?)\s*\(\s*(-?[0-9]{1,10})\s*\)")

Integers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Rows:
    """A block of I/Os as its source tells them; ``valid`` marks the lines that are I/Os at all."""

    valid: npt.NDArray[np.bool_]
    ticks: Integers
    op: Integers
    offset_bytes: npt.NDArray[np.uint64]
    size_bytes: Integers
    device: pa.Array
    response_ns: Integers | None = None
    """-1 where unknown."""
    flags: Integers | None = None
    thread: Integers | None = None
    process: pa.Array | None = None
    """As ``name (number)``."""
    file: pa.Array | None = None
    """Paths, empty where unknown."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of writing I/Os as lines. ``notes`` say what every recording made from it lacks."""

    kind: str
    columns: list[str]
    delimiter: str
    convert: Callable[[dict[str, pa.Array]], Rows]
    tick_ns: int
    utc_ns: Callable[[int], int] | None
    """UTC of a moment in ticks; None if the source names no date."""
    clock_name: str
    layer: str = "block"
    notes: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    """What a line begins with that is a heading, in lower case."""
    squeeze: bool = False
    """Whether fields are parted by any run of blanks."""
    parse: Callable[[bytes], tuple[dict[str, pa.Array], int]] | None = None
    """Instead of ``columns`` and ``delimiter``: fields of a block, and how many lines are none."""
    anchor_ns: int | None = None
    """How far the UTC it names may be from the host's own clock; None where that is not known."""
    first_ticks: int | None = None
    """Where the clock starts; None for the first line's time."""
    in_order: bool = True
    """Whether lines stand in the order of their I/Os, so that where they do not is worth a word."""

    def format(self, recognises: Callable[[bytes, Path], bool]) -> Format:
        """The format, which the folder's table names."""
        return Format(
            self.kind,
            recognises,
            lambda path, name, progress: IoLinesTrace(path, name, progress, self),
            lambda path, name: inspect_text(path, name, self.kind),
        )


def matched(lines: pa.Array, pattern: str, fields: list[str]) -> tuple[dict[str, pa.Array], int]:
    """Columns of the named groups ``fields``, in this order in ``pattern``, and how many lines do not match it."""
    found = pc.extract_regex(lines, pattern)
    kept = found.drop_null()
    return {name: kept.field(place) for place, name in enumerate(fields)}, found.null_count


def numbers(column: pa.Array) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Whole numbers of up to 18 digits from strings, 0 where there is none, and where there is one."""
    trimmed = pc.utf8_trim_whitespace(column)
    fits = pc.match_substring_regex(trimmed, r"^-?[0-9]{1,18}$")
    values = pc.if_else(fits, trimmed, "0").cast(pa.int64())
    return values.to_numpy(zero_copy_only=False), fits.to_numpy(zero_copy_only=False)


def decimals(column: pa.Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Numbers with a fraction from strings, 0 where there is none, and where there is one."""
    trimmed = pc.utf8_trim_whitespace(column)
    fits = pc.match_substring_regex(trimmed, r"^-?[0-9]{1,15}(\.[0-9]{0,12})?$")
    values = pc.if_else(fits, trimmed, "0").cast(pa.float64())
    return values.to_numpy(zero_copy_only=False), fits.to_numpy(zero_copy_only=False)


def words(column: pa.Array, codes: dict[str, int]) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Codes of words in any case, and where the word is known."""
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    places = pc.fill_null(pc.index_in(lowered, value_set=pa.array(list(codes))), -1)
    index = places.to_numpy(zero_copy_only=False).astype(np.int64)
    table = np.array([*codes.values(), 0], np.int64)
    return table[index], index >= 0


def bytes_of_sectors(sectors: Integers) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Byte offsets of 512-byte sectors, and which are possible."""
    fits = (sectors >= 0) & (sectors < _SECTORS_MAX)
    return np.where(fits, sectors, 0).astype(np.uint64) * np.uint64(SECTOR_BYTES), fits


@dataclass(slots=True)
class IoRowMaker:
    """Turns `Rows` into rows of ``io`` and ``devices`` on one clock, and keeps count."""

    first_ticks: int
    tick_ns: int
    layer: str
    kept: int = 0
    rejected: int = 0
    responses_dropped: int = 0
    backwards: int = 0
    start_ns: int = 0
    end_ns: int = 0
    _devices: dict[str, int] = field(default_factory=dict)
    _files: dict[str, int] = field(default_factory=dict)
    _processes: dict[str, int] = field(default_factory=dict)
    _last_ns: int = 0
    _steps_back: StepsBack = field(default_factory=StepsBack)

    def batches(self, rows: Rows) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Devices that are new, then the I/Os."""
        away = rows.ticks - self.first_ticks
        possible = (
            rows.valid
            & (np.abs(away) < _SPAN_NS_MAX // self.tick_ns)
            & (rows.size_bytes >= 0)
            & (rows.size_bytes < 1 << 32)
        )
        self.rejected += int(len(possible) - possible.sum())
        if not possible.any():
            return
        keep = pa.array(possible)
        issued = away[possible] * self.tick_ns
        size, offset, op = rows.size_bytes[possible], rows.offset_bytes[possible], rows.op[possible]
        columns = {
            "layer": pa.repeat(self.layer, len(issued)),
            "op": pa.array(op.astype(np.int8)),
            "issued_ns": pa.array(issued),
            "completed_ns": self._completed(rows, possible, issued),
            "offset_bytes": pa.array(offset),
            "size_bytes": pa.array(size.astype(np.uint32)),
        }
        columns["device_id"], new = _interned(rows.device.filter(keep), self._devices)
        if new:
            yield "devices", _device_rows(new, self._devices)
        if rows.file is not None:
            columns["file_id"], new = _interned(rows.file.filter(keep), self._files)
            if new:
                yield "files", _file_rows(new, self._files)
        if rows.process is not None:
            columns["process_id"], new = _interned(rows.process.filter(keep), self._processes)
            if new:
                yield "processes", _process_rows(new, self._processes)
        if rows.thread is not None:
            columns["thread_id"] = pa.array(rows.thread[possible], mask=rows.thread[possible] < 0)
        unaligned = (size == 0) | (size % SECTOR_BYTES != 0) | (offset % np.uint64(SECTOR_BYTES) != 0)
        flags = np.where(unaligned & (op != FLUSH), int(IoFlags.UNALIGNED), 0)
        if rows.flags is not None:
            flags |= rows.flags[possible]
        columns["flags"] = pa.array(flags.astype(np.uint32))
        self._count(issued, columns["completed_ns"])
        ended = pc.fill_null(columns["completed_ns"], pa.array(issued)).to_numpy(zero_copy_only=False)
        self._steps_back.see(issued, ended, columns["device_id"].to_numpy(zero_copy_only=False))
        yield "io", pa.RecordBatch.from_pydict(columns)

    @property
    def steps_back(self) -> list[tuple[int, int]]:
        """See `StepsBack.found`."""
        return self._steps_back.found()

    def _count(self, issued: Integers, completed: pa.Array) -> None:
        steps = np.diff(issued, prepend=self._last_ns if self.kept else issued[0])
        self.kept += len(issued)
        self.backwards += int((steps < 0).sum())
        self._last_ns = int(issued[-1])
        self.start_ns = min(self.start_ns, int(issued.min()))
        self.end_ns = max(self.end_ns, int(issued.max()), pc.max(completed).as_py() or 0)

    def quality(self) -> Quality:
        """Counts so far as a recording tells them."""
        return Quality(events_lost=self.rejected, latencies_dropped=self.responses_dropped)

    def _completed(self, rows: Rows, possible: npt.NDArray[np.bool_], issued: Integers) -> pa.Array:
        if rows.response_ns is None:
            return pa.nulls(len(issued), pa.int64())
        response = rows.response_ns[possible]
        usable = (response >= 0) & (response < DAY_NS)
        self.responses_dropped += int((~usable).sum())
        return pa.array(issued + np.where(usable, response, 0), mask=~usable)


def _interned(column: pa.Array, known: dict[str, int]) -> tuple[pa.Array, list[str]]:
    """Ids of strings, null for empty ones, and those that are new."""
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    new = [name for name in names if name and name not in known]
    for name in new:
        known[name] = len(known)
    ids = pa.array([known.get(name) for name in names], pa.int32())
    return ids.take(encoded.indices), new


def _device_rows(names: list[str], ids: dict[str, int]) -> pa.RecordBatch:
    count = len(names)
    return pa.RecordBatch.from_pydict(
        {
            "device_id": pa.array([ids[name] for name in names], pa.int32()),
            "name": pa.array(names, pa.string()),
            "kind": pa.array([_device_kind(name) for name in names], pa.string()),
            "start_bytes": pa.nulls(count, pa.uint64()),
            "size_bytes": pa.nulls(count, pa.uint64()),
            "model": pa.nulls(count, pa.string()),
        }
    )


def _device_kind(name: str) -> str:
    return "file" if "/" in name and not name.startswith("/dev/") else "disk"


def _file_rows(paths: list[str], ids: dict[str, int]) -> pa.RecordBatch:
    guesses = [classify(path) for path in paths]
    return pa.RecordBatch.from_pydict(
        {
            "file_id": pa.array([ids[path] for path in paths], pa.int32()),
            "path": pa.array(paths, pa.string()),
            "role": pa.array([str(role) for role, _ in guesses], pa.string()),
            "database": pa.array([database for _, database in guesses], pa.string()),
        }
    )


def _process_rows(names: list[str], ids: dict[str, int]) -> pa.RecordBatch:
    """Rows of ``processes`` from ``name (number)``; -1 where there is no number."""
    parts = [_PROCESS.fullmatch(name.strip()) for name in names]
    count = len(names)
    return pa.RecordBatch.from_pydict(
        {
            "process_id": pa.array([ids[name] for name in names], pa.int32()),
            "os_process_id": pa.array([int(part[2]) if part else -1 for part in parts], pa.int64()),
            "name": pa.array(
                [part[1].strip() if part else name for part, name in zip(parts, names, strict=True)]
            ),
            "started_ns": pa.nulls(count, pa.int64()),
        }
    )


class IoLinesTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress, dialect: Dialect) -> None:
        self._dialect = dialect
        self._blocks = TextBlocks(path, name, progress)
        first = self._first_ticks(path, name) if dialect.first_ticks is None else dialect.first_ticks
        self._maker = IoRowMaker(first, dialect.tick_ns, dialect.layer)
        start_utc_ns = dialect.utc_ns(first) if dialect.utc_ns else 0
        self.clock = Clock(start_utc_ns, float(dialect.tick_ns), dialect.clock_name, dialect.anchor_ns)
        self.host = Host()
        self._name = name

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Devices as they turn up, and the I/Os in the file's order."""
        for block in self._blocks.blocks():
            rows, rejected = self._rows(block)
            self._maker.rejected += rejected
            yield from self._maker.batches(rows)

    def outcome(self) -> Outcome:
        """The window runs from the earliest issue to the last completion, or issue where none is told."""
        maker = self._maker
        quality = maker.quality()
        quality.truncated_tail = self._blocks.cut_tail
        quality.notes = text_notes(self._blocks, maker)
        if self._dialect.in_order:
            quality.clock_steps = len(maker.steps_back)
            quality.notes += order_notes(maker)
        quality.notes += self._dialect.notes
        if self._dialect.utc_ns is None:
            quality.notes.append(undated("I/O"))
        return Outcome(maker.start_ns, maker.end_ns, quality, maker.kept + maker.rejected)

    def _rows(self, block: bytes) -> tuple[Rows, int]:
        if self._dialect.parse is not None:
            columns, rejected = self._dialect.parse(block)
            return self._dialect.convert(columns), rejected
        if self._dialect.squeeze:
            block = re.sub(rb"[ \t]+", b" ", re.sub(rb"(?m)^[ \t]+|[ \t]+$", b"", block))
        if self._dialect.headers and block[:200].decode("utf-8", "replace").lower().lstrip().startswith(
            self._dialect.headers
        ):
            block = block[block.find(b"\n") + 1 :]
        if not block.strip():
            block = b""
        columns, rejected = (
            columns_of(block, self._dialect.columns, self._dialect.delimiter)
            if block
            else ({name: pa.array([], pa.string()) for name in self._dialect.columns}, 0)
        )
        return self._dialect.convert(columns), rejected

    def _first_ticks(self, path: Path, name: str) -> int:
        with naming(name), path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        text = head.decode(text_encoding(head), "replace").removeprefix("\ufeff").replace("\r", "").encode()
        rows, _ = self._rows(text[: text.rfind(b"\n") + 1])
        valid = rows.ticks[rows.valid]
        if not len(valid):
            raise IotraceError(
                f"'{name}' holds no complete line of {self._dialect.kind}",
                hint="check that the file was copied completely",
            )
        return int(valid[0])


def text_notes(blocks: TextBlocks, maker: IoRowMaker) -> list[str]:
    """What a reader of lines has to say about what it left out."""
    notes = []
    if blocks.cut_tail:
        notes.append("the last line is cut off and is left out")
    if maker.rejected:
        notes.append(f"{counted(maker.rejected, 'line')} left out: no I/O of this form")
    if blocks.overlong_lines:
        notes.append(f"{counted(blocks.overlong_lines, 'line')} of over 1 MiB left out")
    return notes


def order_notes(maker: IoRowMaker) -> list[str]:
    """What the order of the lines tells of their clock."""
    notes = [
        f"the times go back by {by_ns / SECOND_NS:,.1f} s at {at_ns / SECOND_NS:,.1f} s: the clock was set back, or "
        "the file holds several traces one after the other; what lies over one another there has too high a rate"
        for at_ns, by_ns in maker.steps_back
    ]
    if maker.backwards > len(notes):
        notes.append(f"{counted(maker.backwards, 'line is', 'lines are')} earlier than the line before")
    return notes


def filetime_utc_ns(ticks: int) -> int:
    """UTC of a Windows FILETIME."""
    return (ticks - FILETIME_1970) * 100
