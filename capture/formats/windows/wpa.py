"""*Disk Usage* of Windows Performance Analyzer as CSV: exported from its table, or by ``wpaexporter`` with a profile.

Its columns are those that the table shows, in any order, with units behind their names (``Init Time (s)``). Numbers
are written as Windows' region has them: 1,234.5 or 1.234,5 or 1 234,5 or 1'234.5. Which mark parts off the fraction the
times tell, whose fractions are longer than the three digits of a group. They are since the start of the trace.

Source: Microsoft's page on the columns of Disk Usage, and a file of WPA 10.0.25931 in bgeneto/windows-disk-trace-vis.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from iotrace.capture.formats.format import HEAD_BYTES, Format, Progress, naming
from iotrace.capture.formats.io_lines import FLUSH, READ, WRITE, Dialect, IoLinesTrace, Rows, decimals, words
from iotrace.capture.formats.text_blocks import head_lines, inspect_text
from iotrace.schemas import IotraceError

from .xperf import hexadecimals

_OPS: Final = {"read": READ, "write": WRITE, "flush": FLUSH}
_NAMES: Final = {
    "io type": "op",
    "init time": "init",
    "complete time": "complete",
    "io time": "elapsed",
    "size": "size",
    "min offset": "offset",
    "disk": "disk",
    "count": "count",
    "process": "process",
    "process name": "process",
    "path name": "file",
    "path": "file",
    "path tree": "file",
    "thread id": "thread",
}
_FIELDS: Final = list(dict.fromkeys(_NAMES.values()))
_NEEDED: Final = {"op": "IO Type", "size": "Size", "offset": "Min Offset", "disk": "Disk"}
_HEADING: Final = re.compile(r"(?P<name>[^(]+?)\s*(?:\((?P<unit>[^)]*)\))?\s*(?:\((?:Sum|Avg|Max|Min)\))?")
_SECONDS_NS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_BYTES: Final = {"B": 1, "KB": 1 << 10, "KiB": 1 << 10, "MB": 1 << 20, "MiB": 1 << 20}
_NS_MAX: Final = 1e18
_GROUPS: Final = "[ \u00a0\u202f'\u2019]"
_FRACTION: Final = re.compile(rf"(?:\d|[.,]|{_GROUPS})*?(?P<mark>[.,])(?P<digits>\d+)")
_SETUP: Final = (
    "show the columns IO Type, Process, Init Time, Complete Time, Size, Min Offset, Disk, Count and Path Name, one row "
    "for each I/O, and export the table again; or import the .etl itself, which needs none of that"
)


@dataclass(frozen=True, slots=True)
class _Table:
    """How a file is written: its heading, where each field stands, and what a number in it is to be multiplied with."""

    heading: str
    delimiter: str
    cells: int
    places: dict[str, int]
    factors: dict[str, float]


def _table(lines: list[str]) -> _Table | None:
    for line in lines:
        for delimiter in (";", "\t", ","):
            cells = [cell.strip().strip('"') for cell in line.split(delimiter)]
            found = {}
            factors = {}
            for place, cell in enumerate(cells):
                parts = _HEADING.fullmatch(cell)
                field = _NAMES.get(parts["name"].lower()) if parts else None
                if parts is None or field is None or field in found:
                    continue
                found[field] = place
                factors[field] = _factor(field, parts["unit"] or "")
            if "op" in found and len(found.keys() & {"init", "complete", "elapsed", "offset", "size"}) >= 2:
                return _Table(line, delimiter, len(cells), found, factors)
    return None


def _factor(field: str, unit: str) -> float:
    if field == "size":
        return _BYTES.get(unit, 1)
    # A micro sign is one of two letters, and none at all once a code page took it for another.
    plain = unit if unit in _SECONDS_NS or len(unit) != 2 else "us"
    return _SECONDS_NS.get(plain, 1e9)


def _recognises(head: bytes, _path: Path) -> bool:
    return _table(head_lines(head, 20)) is not None


def _read(path: Path, name: str, progress: Progress) -> IoLinesTrace:
    with naming(name), path.open("rb") as file:
        lines = head_lines(file.read(HEAD_BYTES), 2000)
    table = _table(lines)
    assert table is not None
    missing = [word for field, word in _NEEDED.items() if field not in table.places]
    if not {"init", "complete"} & table.places.keys():
        missing.append("Init Time or Complete Time")
    if missing:
        raise IotraceError(f"'{name}' is WPA's Disk Usage without the column {missing[0]}", hint=_SETUP)
    parser = _Parser(table)
    rows, _ = parser.fields("\n".join(lines[lines.index(table.heading) :]).encode())
    mark = _decimal_mark(rows)
    if mark is None:
        raise IotraceError(
            f"'{name}' has times that do not tell whether a comma or a point parts off their fractions",
            hint="show Init Time or Complete Time in seconds, which has nine digits behind the mark",
        )
    dialect = Dialect(
        "wpa",
        _FIELDS,
        table.delimiter,
        lambda columns: _rows(columns, table, mark),
        tick_ns=1,
        utc_ns=None,
        clock_name="WPA, since the start of the trace",
        notes=("priorities, stacks and the time in the disk alone are not taken from WPA's table",),
        parse=parser.fields,
        first_ticks=0,
    )
    trace = IoLinesTrace(path, name, progress, dialect)
    if not _holds_single(_rows(rows, table, mark)):
        raise IotraceError(f"'{name}' holds sums over several I/Os, not single ones", hint=_SETUP)
    return trace


def _holds_single(rows: Rows) -> bool:
    return bool(rows.valid.any())


def _decimal_mark(columns: dict[str, pa.Array]) -> str | None:
    """A comma or a point; whichever stands before other than three digits, or behind the other."""
    seen = ""
    for field in ("init", "complete", "elapsed"):
        for text in columns[field].to_pylist():
            found = _FRACTION.fullmatch(text.strip())
            if found is None:
                continue
            other = "," if found["mark"] == "." else "."
            if len(found["digits"]) != 3 or other in text:
                return found["mark"]
            seen = found["mark"]
    return None if seen else "."


class _Parser:
    """Brings the columns of a block of lines into the order of `_FIELDS`."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    def fields(self, block: bytes) -> tuple[dict[str, pa.Array], int]:
        table, rejected = self._table, 0
        heading = table.heading.encode() + b"\n"
        if block.startswith(heading) or heading in block[:HEAD_BYTES]:
            block = block[block.index(heading) + len(heading) :]
        names = [str(number) for number in range(table.cells)]

        def skip(_row: object) -> str:
            nonlocal rejected
            rejected += 1
            return "skip"

        if not block.strip():
            return {field: pa.array([], pa.string()) for field in _FIELDS}, 0
        read = pa_csv.read_csv(
            pa.BufferReader(block),
            pa_csv.ReadOptions(use_threads=False, block_size=max(len(block), 1 << 20), column_names=names),
            pa_csv.ParseOptions(delimiter=table.delimiter, invalid_row_handler=skip),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
        empty = pa.repeat(pa.scalar("", pa.string()), len(read))
        columns = {
            field: read.column(str(table.places[field])).combine_chunks() if field in table.places else empty
            for field in _FIELDS
        }
        return columns, rejected


def _numbers(column: pa.Array, mark: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    groups = f"{_GROUPS}|{re.escape(_other(mark))}"
    plain = pc.replace_substring_regex(column, groups, "")
    return decimals(pc.replace_substring(plain, mark, "."))


def _offsets(column: pa.Array, mark: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Offsets as WPA shows them: in hexadecimal, or as decimals with their digits in groups."""
    return hexadecimals(pc.replace_substring_regex(column, f"{_GROUPS}|{re.escape(_other(mark))}", ""))


def _other(mark: str) -> str:
    return "," if mark == "." else "."


def _rows(columns: dict[str, pa.Array], table: _Table, mark: str) -> Rows:
    op, has_op = words(columns["op"], _OPS)
    flush = op == FLUSH
    init, has_init = _times(columns, "init", table, mark)
    complete, has_complete = _times(columns, "complete", table, mark)
    elapsed, has_elapsed = _times(columns, "elapsed", table, mark)
    elapsed = np.where(has_init & has_complete, complete - init, elapsed)
    known = ((has_init & has_complete) | has_elapsed) & (elapsed >= 0)
    size, has_size = _numbers(columns["size"], mark)
    offset, has_offset = _offsets(columns["offset"], mark)
    count, has_count = _numbers(columns["count"], mark)
    is_single = ~has_count | (count == 1) if "count" in table.places else np.ones(len(op), np.bool_)
    thread, has_thread = _numbers(columns["thread"], mark)
    disk = pc.utf8_trim_whitespace(columns["disk"])
    numbered = pc.match_substring_regex(disk, r"^[0-9]+$")
    has_disk = pc.not_equal(disk, "").to_numpy(zero_copy_only=False)
    file = pc.utf8_trim(columns["file"], '" ')
    return Rows(
        has_op
        & is_single
        & has_disk
        & (has_init | (has_complete & known))
        & (flush | (has_offset & has_size)),
        np.where(has_init, init, complete - elapsed),
        op,
        np.where(flush, 0, offset).astype(np.uint64),
        np.where(flush, 0, np.rint(np.clip(size * table.factors["size"], 0, 1 << 40))).astype(np.int64),
        pc.if_else(numbered, pc.binary_join_element_wise("disk", disk, " "), disk),
        np.where(known, elapsed, -1),
        None,
        np.where(has_thread, np.clip(thread, 0, 2**31 - 1), -1).astype(np.int64),
        columns["process"],
        pc.if_else(pc.match_substring_regex(file, r"(?i)^(unknown|n/a|none)?$"), "", file),
    )


def _times(
    columns: dict[str, pa.Array], field: str, table: _Table, mark: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    values, found = _numbers(columns[field], mark)
    nanoseconds = values * table.factors.get(field, 1.0)
    found &= np.abs(nanoseconds) < _NS_MAX
    return np.rint(np.where(found, nanoseconds, 0)).astype(np.int64), found


def _inspect(path: Path, name: str) -> dict[str, Any]:
    return inspect_text(path, name, "wpa")


FORMAT: Final = Format("wpa", _recognises, _read, _inspect)
