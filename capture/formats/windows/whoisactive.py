"""Logs of sp_WhoIsActive (its ``@destination_table``) as text: at each moment, how many tasks waited for what.

``wait_info`` is ``(Ax: B/C/Dms)E``: A tasks wait for E, for B ms the shortest, C the mean, D the longest; ``(Bms)E`` is
one task. What sessions did is not what files did: no figure here is an I/O's. A log has texts of queries and names of
people: they are not kept.

Source: the procedure's own description of its columns (``EXEC sp_WhoIsActive @help = 1``).
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Final

from iotrace.capture.formats.counters_trace import Counters, Reading, Sample, plain
from iotrace.capture.formats.text_blocks import head_lines, text_encoding
from iotrace.schemas import IotraceError

from .dmv_columns import IO_WAITS

_COLUMNS: Final = {"session_id", "wait_info", "collection_time"}
_WAIT: Final = re.compile(
    r"\((?:(?P<tasks>\d{1,6})x: ?)?(?P<ms>\d{1,12}(?:/\d{1,12}){0,2})ms\)(?P<type>[A-Z]\w{1,59})"
)
_BYTES_MAX: Final = 1 << 30
_CELL_CHARACTERS_MAX: Final = 16 << 20
"""Of a batch's whole text or a plan, which may stand in a cell."""
_MOMENTS_MAX: Final = 1_000_000
_TASKS, _LONGEST = plain("tasks", "sql"), plain("ms", "sql")


@dataclass(slots=True)
class _Moment:
    sessions: int = 0
    blocked: int = 0
    tasks: Counter[str] = field(default_factory=Counter)
    longest_ms: dict[str, int] = field(default_factory=dict)


def _cells(line: str) -> tuple[str, list[str]]:
    """What separates the cells of the line with the names, and the names."""
    separator = max(",;\t|", key=line.count)
    return separator, [cell.strip(' []"').lower() for cell in line.split(separator)]


def _recognises(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 1)
    return bool(lines) and set(_cells(lines[0])[1]) >= _COLUMNS


def _samples(reading: Reading) -> Iterator[Sample]:
    moments = _moments(reading)
    reading.times.learn(moments, reading.name)
    dated = {text: at_ns for text in moments if (at_ns := reading.times.utc_ns(text)) is not None}
    reading.left_out += sum(moment.sessions for text, moment in moments.items() if text not in dated)
    for text, at_ns in sorted(dated.items(), key=itemgetter(1)):
        moment = moments[text]
        for_io = [name for name in moment.tasks if name in IO_WAITS]
        yield Sample(at_ns, 0, None, "sessions", moment.sessions, plain("sessions", "sql"))
        yield Sample(at_ns, 0, None, "sessions blocked by another", moment.blocked, plain("sessions", "sql"))
        yield Sample(
            at_ns, 0, None, "tasks waiting for I/O", sum(moment.tasks[name] for name in for_io), _TASKS
        )
        if for_io:
            longest_ms = max(moment.longest_ms[name] for name in for_io)
            yield Sample(at_ns, 0, None, "longest wait for I/O", longest_ms, _LONGEST)
        for name, count in moment.tasks.items():
            yield Sample(at_ns, 0, name, "tasks waiting", count, _TASKS)
            yield Sample(at_ns, 0, name, "longest wait", moment.longest_ms[name], _LONGEST)


def _moments(reading: Reading) -> dict[str, _Moment]:
    """By the text of ``collection_time``, in the file's order."""
    found: dict[str, _Moment] = {}
    for row in _rows(reading):
        text = row["collection_time"].strip()
        if text not in found and len(found) >= _MOMENTS_MAX:
            raise IotraceError(
                f"'{reading.name}' has over {_MOMENTS_MAX:,} moments", hint="export a shorter time"
            )
        moment = found.setdefault(text, _Moment())
        moment.sessions += 1
        moment.blocked += row.get("blocking_session_id", "").strip() not in {"", "NULL", "0"}
        for wait in _WAIT.finditer(row["wait_info"]):
            times_ms = [int(part) for part in wait["ms"].split("/")]
            moment.tasks[wait["type"]] += int(wait["tasks"] or 1)
            moment.longest_ms[wait["type"]] = max(moment.longest_ms.get(wait["type"], 0), *times_ms)
    return found


def _rows(reading: Reading) -> Iterator[dict[str, str]]:
    path = reading.path
    if path.stat().st_size > _BYTES_MAX:
        raise IotraceError(f"'{reading.name}' is over {_BYTES_MAX >> 30} GiB", hint="export a shorter time")
    csv.field_size_limit(_CELL_CHARACTERS_MAX)
    with path.open("rb") as raw:
        encoding = text_encoding(raw.read(4))
        raw.seek(-min(4, raw.seek(0, 2)), 2)
        reading.cut = not raw.read().decode(encoding, "replace").endswith("\n")
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        heading = next((line for line in file if line.strip("\ufeff\r\n\t ")), "")
        separator, names = _cells(heading.lstrip("\ufeff").rstrip("\r\n"))
        if missing := sorted(_COLUMNS - set(names)):
            raise IotraceError(
                f"'{reading.name}' has no column {' and '.join(missing)} in its first line",
                hint="export the log's table with its column names in the first line",
            )
        before: dict[str, str] | None = None
        try:
            for cells in csv.reader(file, delimiter=separator):
                if before is not None:
                    yield before
                before = None
                if len(cells) == len(names):
                    before = dict(zip(names, cells, strict=True))
                elif cells:
                    reading.left_out += 1
        except csv.Error:
            reading.cut = True
        if before is not None and not reading.cut:
            yield before


FORMAT = Counters(
    "whoisactive",
    "sp_WhoIsActive",
    "SQL Server's own clock",
    None,
    _samples,
    (
        "what sessions waited for at single moments: waits between two moments are not in it, and none of it is an I/O",
        "texts of queries and names of logins, hosts and programs are not kept",
    ),
    "export the table that sp_WhoIsActive's @destination_table fills, with its column collection_time",
).format(_recognises)
