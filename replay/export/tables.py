"""A recording's I/Os as one table for other programs: CSV, Parquet, or the columns of the MSR Cambridge traces.

DuckDB sorts and writes, out of core. The columns of the MSR Cambridge traces (SNIA IOTTA 388) are Timestamp (FILETIME,
100 ns ticks since 1601, when the I/O was issued), Hostname, DiskNumber, Type (Read or Write), Offset and Size (bytes),
and ResponseTime (100 ns ticks), without a heading, as the README published with them says.

No spreadsheet is to take a name out of a trace for a formula. A cell that begins with =, +, -, @ (or their full-width
forms), a tab or a line's end is a formula to a spreadsheet. As OWASP advises ("CSV Injection"), an apostrophe goes
before it, since quoting alone does not help. The same goes for a sign after a separator or a line's end inside of a
name: where a spreadsheet is set to another separator than the comma, a cell begins there, quoted or not. Numbers stay
as they are, also those that are text.
"""

import errno
import glob
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import psutil

from iotrace.replay.plan.selection import choose_layer
from iotrace.schemas import IoFlags, IotraceError, Layer, Recording
from iotrace.schemas.replacing import new_file
from iotrace.schemas.spilling import private_room
from iotrace.schemas.writer import refuse_over_source

KINDS: Final = ("csv", "parquet", "msr")
_MEMORY_BYTES: Final = 2 << 30
_FILETIME_OF_1970: Final = 116_444_736_000_000_000
_TICK_NS: Final = 100
_FORMATS: Final = {
    "csv": "FORMAT csv, HEADER true",
    "parquet": "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 262144",
    "msr": "FORMAT csv, HEADER false, QUOTE ''",
}
_POLL_SECONDS: Final = 0.2
_BLANKS: Final = "\t\r\n"
_SIGN: Final = '((?:^|[,;|\t\r\n])"*)([=+@\uff1d\uff0b\uff0d\uff20-])'
_NUMBER: Final = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_IS_SIGN: Final = re.compile(_SIGN)
_IS_NUMBER: Final = re.compile(_NUMBER)


@dataclass(frozen=True, slots=True)
class Written:
    """What an export holds. ``left_out`` counts the I/Os of the layer and window that the format cannot say."""

    path: Path
    ios: int
    """Rows: an I/O that was seen at several layers has one for each."""
    layers: dict[str, int]
    """Rows of each layer of the recording that was exported, those left out among them."""
    left_out: dict[str, int]


def export_table(
    recording: Recording,
    path: Path,
    kind: str,
    *,
    layer: str | None = None,
    window_ns: tuple[int, int] | None = None,
    overwrite: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Written:
    """Write the I/Os of ``recording`` in order of time. ``kind`` is one of `KINDS`.

    All layers, which the column ``layer`` tells apart, or one; the columns of MSR have room for one only. ``progress``
    is told the share done. Raises `IotraceError` for a layer or window without I/O, and for a path that is taken.
    """
    refuse_over_source(path, [recording.path])
    if kind == "msr" or layer is not None:
        layer = choose_layer(recording, layer)
    with new_file(path, overwrite=overwrite) as partial, _opened(recording) as connection:
        connection.sql(f"FROM io WHERE {_where(layer, window_ns)}").create_view("chosen")
        place = "file_id" if layer in (Layer.FILESYSTEM, Layer.SQL) else "device_id"
        layers, ios, left_out = _counts(connection, kind, place)
        if not ios:
            raise IotraceError(
                f"nothing in '{recording.path}' can be exported with these options",
                hint="choose another --layer or --window; iotrace describe shows what there is",
            )
        select = _msr(recording, place) if kind == "msr" else _all_columns(recording, kind)
        target = str(partial).replace("'", "''")
        try:
            _run(
                connection, f"COPY ({select}) TO '{target}' ({_FORMATS[kind]}, USE_TMP_FILE false)", progress
            )
        except duckdb.IOException as problem:
            # Else the user is told of a file that is not there any more.
            for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                if partial.name in str(problem) and (reason := os.strerror(number)) in str(problem):
                    raise OSError(number, reason) from problem
            raise
    return Written(path, ios, layers, left_out)


def _where(layer: str | None, window_ns: tuple[int, int] | None) -> str:
    """COPY takes no parameters: a layer is one of our own words here, and a window two whole numbers."""
    conditions = ["true"]
    if layer is not None:
        conditions.append(f"layer = '{Layer(layer)}'")
    if window_ns is not None:
        conditions.append(f"issued_ns >= {int(window_ns[0])} AND issued_ns < {int(window_ns[1])}")
    return " AND ".join(conditions)


_SAYABLE: Final = "op IN ('read', 'write') AND completed_ns IS NOT NULL AND offset_bytes IS NOT NULL"


def _counts(
    connection: duckdb.DuckDBPyConnection, kind: str, place: str
) -> tuple[dict[str, int], int, dict[str, int]]:
    counts = connection.execute("SELECT layer, count(*) FROM chosen GROUP BY layer ORDER BY layer").fetchall()
    layers = {str(layer): int(count) for layer, count in counts}
    if kind != "msr":
        return layers, sum(layers.values()), {}
    ((ios, flushes, discards, endless, nowhere, unknown),) = connection.execute(
        f"""
        SELECT
          count(*) FILTER (WHERE {_SAYABLE} AND {place} IS NOT NULL),
          count(*) FILTER (WHERE op = 'flush'),
          count(*) FILTER (WHERE op = 'discard'),
          count(*) FILTER (WHERE op IN ('read', 'write') AND completed_ns IS NULL),
          count(*) FILTER (WHERE op IN ('read', 'write') AND completed_ns IS NOT NULL AND offset_bytes IS NULL),
          count(*) FILTER (WHERE {_SAYABLE} AND {place} IS NULL)
        FROM chosen
        """  # noqa: S608 - our own words
    ).fetchall()
    reasons = {
        "flushes": flushes,
        "discards": discards,
        "never seen to end": endless,
        "offset unknown": nowhere,
        f"{place.removesuffix('_id')} unknown": unknown,
    }
    return layers, int(ios), {reason: int(count) for reason, count in reasons.items() if count}


def _all_columns(recording: Recording, kind: str) -> str:
    """Names out of a trace are no formulas in a CSV file, which spreadsheets open; Parquet has them as they are."""
    names = {
        name: defused_sql(name) if kind == "csv" else name
        for name in ("devices.name", "files.path", "files.database", "processes.name")
    }
    words = ", ".join(
        f"CASE WHEN flags & {flag.value} > 0 THEN '{str(flag.name).lower()}' END" for flag in IoFlags
    )
    start = recording.manifest.clock.start_utc_ns
    return f"""
        SELECT
          make_timestamp_ns(issued_ns + {int(start)}) AS issued_utc,
          layer::VARCHAR AS layer, op::VARCHAR AS op, intended_ns, issued_ns, completed_ns,
          completed_ns - issued_ns AS latency_ns, offset_bytes, chosen.size_bytes, {names["devices.name"]} AS device,
          {names["files.path"]} AS file, files.role::VARCHAR AS role, {names["files.database"]} AS database,
          {names["processes.name"]} AS process, processes.os_process_id, thread_id,
          concat_ws('+', {words}) AS flags, error, copy
        FROM chosen
        LEFT JOIN devices ON devices.device_id = chosen.device_id
        LEFT JOIN files ON files.file_id = chosen.file_id
        LEFT JOIN processes ON processes.process_id = chosen.process_id
        ORDER BY issued_ns, layer
        """  # noqa: S608 - our own words and a number


def _msr(recording: Recording, place: str) -> str:
    """Where offsets lie within files, each file stands for a disk: else they would lie on top of one another."""
    told = str(recording.manifest.host.name or recording.name)
    host = re.sub(r"[^A-Za-z0-9_.-]+", "-", told).strip("-") or "host"
    first = recording.manifest.clock.start_utc_ns
    return f"""
        SELECT
          (issued_ns + {int(first)}) // {_TICK_NS} + {_FILETIME_OF_1970}, '{host}', {place},
          CASE op WHEN 'read' THEN 'Read' ELSE 'Write' END, offset_bytes, size_bytes,
          greatest(completed_ns - issued_ns, 0) // {_TICK_NS}
        FROM chosen
        WHERE {_SAYABLE} AND {place} IS NOT NULL
        ORDER BY issued_ns
        """  # noqa: S608 - numbers, and a name of plain letters


@contextmanager
def _opened(recording: Recording) -> Iterator[duckdb.DuckDBPyConnection]:
    with private_room() as room, _connected(recording, room) as connection:
        yield connection


@contextmanager
def _connected(recording: Recording, room: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{min(_MEMORY_BYTES, psutil.virtual_memory().total // 2) // 1024} KiB",
            "temp_directory": str(room),
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    try:
        # DuckDB counts progress only for its own bar, which is not to be drawn.
        connection.execute("SET enable_progress_bar = true")
        connection.execute("SET enable_progress_bar_print = false")
        for name in ("io", "devices", "files", "processes"):
            # Folders may be called night[1] or year=2026: neither is a pattern here, nor a column.
            paths = [glob.escape(str(path)) for path in recording.parquet_paths(name)]
            connection.read_parquet(paths, hive_partitioning=False).create_view(name)
        yield connection
    except duckdb.OutOfMemoryException as problem:
        raise IotraceError(
            "not enough memory or temporary disk space to sort the I/Os",
            hint=f"free some room in {tempfile.gettempdir()}, set TMPDIR to a larger disk, or export a --window",
        ) from problem
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, UnicodeDecodeError, RuntimeError) as problem:
        raise IotraceError(
            f"'{recording.path}' cannot be exported: {str(problem).splitlines()[0][:300].rstrip('.')}",
            hint="check that the disk has room; iotrace validate shows whether the recording is whole",
        ) from problem
    finally:
        connection.close()


def _run(connection: duckdb.DuckDBPyConnection, sql: str, progress: Callable[[float], None] | None) -> None:
    """Run ``sql`` in a thread, so that progress can be told and Ctrl-C ends it."""
    problems: list[BaseException] = []

    def work() -> None:
        try:
            connection.execute(sql)
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that waits
            problems.append(problem)

    worker = threading.Thread(target=work, name="iotrace-export")
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_POLL_SECONDS)
            share = connection.query_progress()
            if progress is not None and share >= 0:
                progress(share / 100)
    except BaseException:
        connection.interrupt()
        worker.join()
        raise
    if problems:
        raise problems[0]


def defused(text: str) -> str:
    """``text`` as a cell that no spreadsheet computes."""
    if not text or _IS_NUMBER.fullmatch(text):
        return text
    return ("'" if text[0] in _BLANKS else "") + _IS_SIGN.sub(r"\1'\2", text)


def defused_sql(column: str) -> str:
    """The same as an SQL expression over a ``column`` of text, named by one of our own words."""
    return (
        f"CASE WHEN {column} = '' OR regexp_full_match({column}, '{_NUMBER}') THEN {column} "
        f"ELSE CASE WHEN contains('{_BLANKS}', left({column}, 1)) THEN '''' ELSE '' END "
        f"|| regexp_replace({column}, '{_SIGN}', '\\1''\\2', 'g') END"
    )
