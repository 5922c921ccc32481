"""fio's I/O logs, version 2 and 3, as ``--write_iolog`` makes them; fio(1), "TRACE FILE FORMAT".

Version 3 gives each action a time, in microseconds as fio 3.33 writes them (its manual names no unit); version 2 has
times only as ``wait`` actions, each relative to the one before. Neither has latencies.
"""

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats.format import Format, Progress
from iotrace.capture.formats.io_lines import (
    DISCARD,
    FLUSH,
    NO_LATENCIES,
    READ,
    WRITE,
    Dialect,
    IoLinesTrace,
    Rows,
    matched,
    numbers,
    words,
)
from iotrace.capture.formats.text_blocks import head_lines, inspect_text, lines_of

_HEADING: Final = re.compile(r"fio version ([23]) iolog")
_LINE: Final = (
    r"^(?P<time>[0-9]{1,18} )?(?P<file>\S+) (?P<action>[a-z_]+)"
    r"(?: (?P<offset>[0-9]+))?(?: (?P<length>[0-9]+))?$"
)
_ACTIONS: Final = {
    "read": READ,
    "write": WRITE,
    "trim": DISCARD,
    "sync": FLUSH,
    "datasync": FLUSH,
    "sync_file_range": FLUSH,
}
_MANAGEMENT: Final = ["add", "open", "close", "wait"]
_FIELDS: Final = ["time", "file", "action", "offset", "length"]


def _version(head: bytes) -> int | None:
    lines = head_lines(head, 1)
    match = _HEADING.fullmatch(lines[0].strip()) if lines else None
    return int(match[1]) if match else None


def _recognises(head: bytes, _path: Path) -> bool:
    return _version(head) is not None


def _read(path: Path, name: str, progress: Progress) -> IoLinesTrace:
    with path.open("rb") as file:
        version = _version(file.read(100))
    log = _Log(version or 3)
    notes = [NO_LATENCIES]
    if version == 2:
        notes.append("version 2 logs have times only where they have wait actions: bursts look simultaneous")
    dialect = Dialect(
        "fio",
        _FIELDS,
        " ",
        log.rows,
        tick_ns=1000,
        utc_ns=None,
        clock_name=f"fio iolog version {version}",
        notes=tuple(notes),
        parse=log.fields,
        first_ticks=0,
    )
    return IoLinesTrace(path, name, progress, dialect)


class _Log:
    """Version 2 adds up waits, so one block needs what the blocks before it waited."""

    def __init__(self, version: int) -> None:
        self._has_times = version == 3
        self._waited = 0

    def fields(self, block: bytes) -> tuple[dict[str, pa.Array], int]:
        lines = lines_of(block)
        lines = pc.utf8_trim_whitespace(lines)
        lines = lines.filter(
            pc.and_(pc.not_equal(lines, ""), pc.invert(pc.starts_with(lines, "fio version ")))
        )
        return matched(lines, _LINE, _FIELDS)

    def rows(self, columns: dict[str, pa.Array]) -> Rows:
        op, is_io = words(columns["action"], _ACTIONS)
        manages = pc.is_in(columns["action"], value_set=pa.array(_MANAGEMENT)).to_numpy(zero_copy_only=False)
        offset, has_offset = numbers(columns["offset"])
        length, has_length = numbers(columns["length"])
        if self._has_times:
            ticks, has_ticks = numbers(columns["time"])
        else:
            waits = pc.equal(columns["action"], "wait").to_numpy(zero_copy_only=False)
            sums = self._waited + np.cumsum(np.where(waits, np.clip(offset, 0, 1 << 40), 0))
            ticks, has_ticks = sums, np.ones(len(op), np.bool_)
            self._waited = int(sums[-1]) if len(sums) else self._waited
        flush = op == FLUSH
        valid = is_io & has_ticks & ((has_offset & has_length) | (flush & is_io))
        kept = is_io | ~manages
        device = columns["file"].filter(pa.array(kept))
        return Rows(
            valid[kept],
            ticks[kept],
            op[kept],
            np.where(flush, 0, offset)[kept].astype("uint64"),
            np.where(flush, 0, length)[kept],
            device,
        )


def _inspect(path: Path, name: str) -> dict[str, Any]:
    return inspect_text(path, name, "fio iolog")


FORMAT: Final = Format("fio", _recognises, _read, _inspect)
