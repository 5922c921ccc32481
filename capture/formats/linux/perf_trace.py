"""Output of ``perf trace``: system calls that read, write and flush files, each with its begin and how long it took.

``1.234 ( 0.016 ms): mysqld/4097 pread64(fd: 37</data/a.ibd>, buf: 0x7f…, count: 16384, pos: 81920) = 16384``

Times are milliseconds since the first call (with ``-T`` of the kernel's clock), of the call's begin. An argument of 0
is not printed. A call while which others were printed comes twice: with ``...`` at its end, then as ``[continued]``.

Source: tools/perf/builtin-trace.c of Linux and tools/perf/Documentation/perf-trace.txt; tried on perf 6.1.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.capture.formats.format import HEAD_BYTES, Format, Outcome, Progress, naming
from iotrace.capture.formats.io_lines import FLUSH, READ, WRITE, Dialect, IoLinesTrace, Rows
from iotrace.capture.formats.text_blocks import head_lines, inspect_text
from iotrace.schemas import IotraceError, Layer, counted

_OPS: Final = {
    "pread64": READ,
    "preadv": READ,
    "preadv2": READ,
    "pwrite64": WRITE,
    "pwritev": WRITE,
    "pwritev2": WRITE,
    "fsync": FLUSH,
    "fdatasync": FLUSH,
    "sync_file_range": FLUSH,
}
_PLACELESS: Final = frozenset({"read", "write", "readv", "writev"})
_START: Final = r"\s*(?P<at>\d{1,12}\.\d{3}|\?)\s+\(\s*(?:(?P<took>\d{1,12}\.\d{3}) ms)?\s*\):\s+"
_WHO: Final = r"(?:(?P<comm>.{1,40}?)/)?(?:(?P<thread>\d{1,10})\s+)?"
_CALL: Final = re.compile(
    _START
    + _WHO
    + r"(?P<call>[a-z][a-z0-9_]{1,40})\((?P<arguments>.*)\)\s*(?:= (?P<result>-?\d{1,18})\b.*|\.\.\.\s*)"
)
_CONTINUED: Final = re.compile(
    _START
    + _WHO
    + r"\s*\.\.\. \[continued\]: (?P<call>[a-z][a-z0-9_]{1,40})\(\)\)\s*= (?P<result>-?\d{1,18})\b.*"
)
_LOST: Final = re.compile(r"LOST (?P<events>\d{1,12}) events!")
_FILE: Final = re.compile(r"fd: (?P<number>\d{1,9})(?:<(?P<path>.*?)>)?(?:, |\s*$)")
_NUMBER: Final = r"(?:0x(?P<hex>[0-9a-f]{1,16})|(?P<plain>\d{1,18}))\b"
_COUNT: Final = re.compile(r"\b(?:count|nbytes): " + _NUMBER)
_PLACE: Final = re.compile(r"\b(?:pos|pos_l|offset): " + _NUMBER)
_SUMMARY: Final = re.compile(rb"(?m)^\s*Summary of events:\s*$")
_FIELDS: Final = ["at", "took", "op", "offset", "size", "process", "thread", "file"]
_COMMAND: Final = "perf trace -p PID -e pread64,pwrite64,preadv,pwritev,fsync,fdatasync -o calls.txt"


class _Parser:
    """Calls of a text, block after block, and counts of what was left out."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str | None, str | None, str], str] = {}
        self.left_out: Counter[str] = Counter()
        self.without_path = 0

    def fields(self, block: bytes) -> tuple[dict[str, pa.Array], int]:
        rows: list[tuple[int, int, int, int, int, str, int, str]] = []
        lost = 0
        for line in block.decode("utf-8", "replace").split("\n"):
            lost += sum(int(one["events"]) for one in _LOST.finditer(line))
            lost += self._take(_LOST.sub("", line), rows)
        columns = list(zip(*rows, strict=True)) or [()] * len(_FIELDS)
        kinds = {"process": pa.string(), "file": pa.string()}
        arrays = {
            name: pa.array(values, kinds.get(name, pa.int64()))
            for name, values in zip(_FIELDS, columns, strict=True)
        }
        return arrays, lost

    def _take(self, line: str, rows: list[tuple[int, int, int, int, int, str, int, str]]) -> int:
        """Add the call of a line; 1 if it is one whose begin is not known."""
        if found := _CONTINUED.fullmatch(line):
            if found["call"] not in _OPS:
                return 0
            arguments = self._begun.pop((found["comm"], found["thread"], found["call"]), None)
            if arguments is None:
                return 1
        elif found := _CALL.fullmatch(line):
            arguments = found["arguments"]
            if found["call"] in _OPS and found["result"] is None:
                self._begun[found["comm"], found["thread"], found["call"]] = arguments
                return 0
        else:
            return 0
        if found["result"] is None or found["at"] == "?" or found["took"] is None:
            return int(found["call"] in _OPS)
        if reason := self._left_out(found):
            self.left_out[reason] += 1
        elif found["call"] in _OPS:
            rows.append(self._row(found, arguments))
        return 0

    @staticmethod
    def _left_out(found: re.Match[str]) -> str | None:
        call, result = found["call"], int(found["result"])
        if call in _PLACELESS:
            return "read and write, which show no offset"
        if call.startswith(("io_submit", "io_uring_enter")):
            return f"{call}, whose I/Os the trace does not list"
        if call in _OPS and result < 0:
            return "that failed"
        if call in _OPS and not result and _OPS[call] == READ:
            return "behind the end of a file"
        return None

    def _row(self, found: re.Match[str], arguments: str) -> tuple[int, int, int, int, int, str, int, str]:
        op = _OPS[found["call"]]
        size = _number(_COUNT.search(arguments), int(found["result"]))
        file = _FILE.search(arguments)
        path = (file["path"] if file else None) or ""
        self.without_path += not path
        thread = int(found["thread"] or -1)
        return (
            _nanoseconds(found["at"]),
            _nanoseconds(found["took"]),
            op,
            0 if op == FLUSH else _number(_PLACE.search(arguments), 0),
            0 if op == FLUSH else size,
            f"{found['comm']} ({thread})" if found["comm"] else "",
            min(thread, 2**31 - 1),
            path,
        )


def _number(found: re.Match[str] | None, otherwise: int) -> int:
    if found is None:
        return otherwise
    return int(found["hex"], 16) if found["hex"] else int(found["plain"])


def _nanoseconds(milliseconds: str) -> int:
    return int(milliseconds.replace(".", "")) * 1000


class _CallsTrace(IoLinesTrace):
    """As every trace of lines, with what was left out."""

    def __init__(self, path: Path, name: str, progress: Progress, dialect: Dialect, parser: _Parser) -> None:
        super().__init__(path, name, progress, dialect)
        self._parser = parser

    def outcome(self) -> Outcome:
        """As of any trace of lines, with the calls that are no I/O of a known place."""
        outcome = super().outcome()
        notes = [
            f"{counted(count, 'call')} left out: {what}" for what, count in self._parser.left_out.items()
        ]
        if self._parser.without_path:
            notes.append(
                f"of {counted(self._parser.without_path, 'call')} the file is not known: perf trace printed no path"
            )
        if outcome.quality.events_lost:
            notes.append(
                f"{counted(outcome.quality.events_lost, 'call')} lost: perf trace says so, or did not see them begin"
            )
        told = [note for note in outcome.quality.notes if not note.endswith("no I/O of this form")]
        outcome.quality.notes = [*notes, *told]
        return outcome


def _recognises(head: bytes, _path: Path) -> bool:
    lines = [line for line in head_lines(head, 60) if not _LOST.search(line)]
    known = sum(bool(_CALL.fullmatch(line) or _CONTINUED.fullmatch(line)) for line in lines)
    return known > 0 and known * 2 >= len(lines)


def _almost(head: bytes) -> tuple[str, str] | None:
    if _SUMMARY.search(head):
        return (
            "a summary of perf trace (-s): totals of calls, no single I/O and no time",
            f"trace the calls themselves: {_COMMAND}",
        )
    return None


def _read(path: Path, name: str, progress: Progress) -> _CallsTrace:
    with naming(name), path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    first = next(
        (found for line in head_lines(head, 10_000) if (found := _CALL.match(line)) and found["at"] != "?"),
        None,
    )
    parser = _Parser()
    dialect = Dialect(
        "perf-trace",
        _FIELDS,
        " ",
        _rows,
        tick_ns=1,
        utc_ns=None,
        clock_name="perf trace, milliseconds",
        layer=str(Layer.FILESYSTEM),
        notes=("sizes are what was asked for; a call may have been served from memory",),
        parse=parser.fields,
        first_ticks=_nanoseconds(first["at"]) if first else 0,
    )
    trace = _CallsTrace(path, name, progress, dialect, parser)
    if not any(call.encode() + b"(" in head for call in _OPS):
        raise IotraceError(
            f"'{name}' holds no call that reads, writes or flushes at a known place", hint=_COMMAND
        )
    return trace


def _rows(columns: dict[str, pa.Array]) -> Rows:
    values = {
        name: columns[name].to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("at", "took", "op", "offset", "size", "thread")
    }
    return Rows(
        np.ones(len(values["at"]), np.bool_),
        values["at"],
        values["op"],
        values["offset"].astype(np.uint64),
        values["size"],
        pa.repeat(pa.scalar("", pa.string()), len(values["at"])),
        values["took"],
        None,
        values["thread"],
        columns["process"],
        columns["file"],
    )


def _inspect(path: Path, name: str) -> dict[str, Any]:
    return inspect_text(path, name, "perf-trace")


FORMAT: Final = Format("perf-trace", _recognises, _read, _inspect, almost=_almost)
