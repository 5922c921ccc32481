"""A user's own questions: any SELECT over a recording's tables, or a query of the library by its name.

How to use it::

    with asking.opened(recording) as connection:
        for batch in asking.select(connection, "SELECT op, count(*) FROM io WHERE layer = 'block' GROUP BY op"): …
        for batch in asking.ask(connection, recording, "size_distribution", {"layer": "block"}): …

The connection reads the files of that recording and nothing else: no other file, no network, no setting of it can be
changed, and only statements that read are run. Answers are streamed, so what is asked for may be larger than memory.
"""

import glob
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.stored import Place, brought
from iotrace.schemas.vocabulary import load_layer

from . import library
from .describe.figures import GRANULE_BYTES
from .fleet.summary import distinct_hosts

BATCH_ROWS: Final = 1 << 14
ANSWER_BYTES_MAX: Final = 1 << 30
"""Of what a worker sends as one."""

STOP_S: Final = 3.0
"""How long DuckDB may go on once it has been told to stop."""

_HOSTS_SQL: Final = """
CREATE TABLE hosts (
    host VARCHAR, path VARCHAR, uuid VARCHAR, start_utc_ns BIGINT, window_start_ns BIGINT, window_end_ns BIGINT
)
"""
_NOT_OURS: Final = re.compile(r"^[A-Za-z ]+ Error: ")
_TOP: Final = re.compile(r"\bSELECT\s+(?:DISTINCT\s+)?TOP\b\s*\(?\s*(\d+)", re.IGNORECASE)
"""SQL Server's."""
_TIME: Final = re.compile(r"(-?\d+)(ns|us|ms|s|m|h)?")
_NS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


@contextmanager
def opened(recording: Recording) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the tables of ``recording`` as views, shut off from everything else.

    Raises `IotraceError` for a damaged recording.
    """
    with library.opened(recording) as connection:
        _name_generators(connection, recording)
        _shut_off(
            connection,
            [str(path) for name in recording.table_names() for path in recording.parquet_paths(name)],
        )
        yield connection


def _name_generators(connection: duckdb.DuckDBPyConnection, recording: Recording) -> None:
    """Give io, devices and counters a column ``host`` where several load generators played."""
    shards = recording.manifest.open_replay.shards
    if not shards:
        return
    devices = [(number, shard.host) for shard in shards for number in shard.device_ids]
    names = {"io", "devices"} & set(recording.table_names())
    known = ", ".join(f"({number}, {_text(host)})" for number, host in devices)
    for name in sorted(names) if devices else ():
        columns = ", ".join(
            f'played."{column[0]}"' for column in connection.sql(f'DESCRIBE "{name}"').fetchall()
        )
        connection.execute(f'ALTER VIEW "{name}" RENAME TO "{name} of all"')
        connection.execute(
            f'CREATE VIEW "{name}" AS SELECT generators.host, {columns} FROM "{name} of all" AS played '  # noqa: S608 - quoted
            f"LEFT JOIN (VALUES {known}) AS generators (device_id, host) USING (device_id)"
        )


@contextmanager
def opened_fleet(
    recordings: Sequence[Recording], places: Sequence[str] | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The same of several recordings: each table has the rows of all, and a column ``host``.

    Times, and numbers such as ``device_id``, are each recording's own; the view ``hosts`` says when each began, and
    where it lies: at ``places``, if what is read is a copy. Raises `IotraceError` for a damaged one.
    """
    named = list(places or (str(one.path) for one in recordings))
    hosts = distinct_hosts(
        [
            (one.manifest.host.name or "", one.name, place)
            for one, place in zip(recordings, named, strict=True)
        ]
    )
    with library.connected() as connection:
        paths: list[str] = []
        tables: dict[str, list[str]] = {}
        for number, (host, one) in enumerate(zip(hosts, recordings, strict=True)):
            library.attach(connection, one, f"r{number}")
            for name in one.table_names():
                paths += [str(path) for path in one.parquet_paths(name)]
                tables.setdefault(name, []).append(f'SELECT {_text(host)} AS host, * FROM r{number}."{name}"')  # noqa: S608 - quoted
        for name, parts in tables.items():
            connection.execute(f'CREATE VIEW "{name}" AS {" UNION ALL BY NAME ".join(parts)}')
        connection.execute(_HOSTS_SQL)
        connection.executemany(
            "INSERT INTO hosts VALUES (?, ?, ?, ?, ?, ?)",
            [
                [
                    host, place, one.manifest.uuid, one.manifest.clock.start_utc_ns,
                    one.manifest.window_start_ns, one.manifest.window_end_ns,
                ]
                for host, place, one in zip(hosts, named, recordings, strict=True)
            ],
        )  # fmt: skip
        _shut_off(connection, paths)
        yield connection


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _shut_off(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> None:
    """Let nothing be read but ``paths``, and no setting be changed."""
    # The views ask for them as patterns that match nothing else, which DuckDB checks before what they match.
    allowed = ", ".join(map(_text, [*paths, *map(glob.escape, paths)]))
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def select(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.RecordBatch]:
    """The answer to one statement that reads, batch by batch; at least one batch, which may be empty.

    Raises `IotraceError` with DuckDB's words, which name the user's.
    """
    with _mistakes_named("SHOW TABLES lists the tables, DESCRIBE io their columns", sql):
        statements = connection.extract_statements(sql)
        # Not EXPLAIN, which may carry out a COPY: the recording's files may be opened, so DuckDB lets it write them.
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise IotraceError(
                "only a single SELECT can be run on a recording",
                hint="recordings are read-only; DESCRIBE io lists columns",
            )
        if statements[0].named_parameters:
            names = ", ".join(sorted(statements[0].named_parameters))
            raise IotraceError(
                f"the SELECT has a parameter without a value: {names}", hint="write the value in its place"
            )
        yield from _batches(connection.sql(statements[0]))


def counts_layers_apart(recording: Recording, sql: str) -> bool:
    """Whether ``sql`` reads I/Os of several layers as if each row were an I/O of its own.

    By Parquet's statistics of the column, so that nothing is read for it.
    """
    if not re.search(r"\bio\b", sql, re.IGNORECASE) or re.search(r"\blayer\b", sql, re.IGNORECASE):
        return False
    seen: set[Any] = set()
    try:
        for path in recording.parquet_paths("io"):
            metadata = pq.read_metadata(path)
            column = metadata.schema.names.index("layer")
            for group in range(metadata.num_row_groups):
                told = metadata.row_group(group).column(column).statistics
                if told is not None and told.has_min_max:
                    seen |= {told.min, told.max}
    except (OSError, ValueError):  # damaged, or without the column: the answer itself says so
        return False
    return len(seen) > 1


def ask(
    connection: duckdb.DuckDBPyConnection, recording: Recording, query_name: str, words: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """The answer of a query of the library. ``words`` are its parameters as users write them, the rest has defaults.

    Raises `IotraceError` naming an unknown query or parameter, or a value that does not fit.
    """
    try:
        query = library.load(query_name)
    except KeyError:
        names = [entry.name for entry in library.list_queries()]
        near = get_close_matches(query_name, names, 1)
        raise IotraceError(
            f"the library has no query '{query_name}'",
            hint=(f"did you mean {near[0]}? " if near else "") + "iotrace query --list lists them",
        ) from None
    taken = {parameter.name: parameter for parameter in query.parameters}
    strange = sorted(set(words) - set(taken))
    if strange:
        raise IotraceError(
            f"query {query_name} has no parameter '{strange[0]}'",
            hint=f"it takes: {', '.join(taken) or 'none'}",
        )
    parameters: dict[str, Any] = {}
    for name, parameter in taken.items():
        if name in words:
            parameters[name] = _value(name, parameter.unit, words[name])
        elif name in _DEFAULTS:
            parameters[name] = _DEFAULTS[name](connection, recording)
        else:
            raise IotraceError(
                f"query {query_name} needs {name}: {parameter.meaning}",
                hint=f"for example iotrace query {recording.path.name} {query_name} {name}=…",
            )
    with _mistakes_named("iotrace validate RECORDING tells what is left of it"):
        table = library.run(connection, query_name, **parameters)
        yield from table.to_batches(BATCH_ROWS) or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def _layer(connection: duckdb.DuckDBPyConnection, _: Recording) -> str:
    rows = library.run(connection, "layers").to_pylist()
    return load_layer(row["layer"] for row in rows) or "block"


_Default = Callable[[duckdb.DuckDBPyConnection, Recording], Any]
_DEFAULTS: Final[dict[str, _Default]] = {
    "layer": _layer,
    "metric": lambda _, recording: "response" if recording.manifest.is_played else "service",
    "from_ns": lambda _, recording: recording.manifest.window_start_ns,
    "start_ns": lambda _, recording: recording.manifest.window_start_ns,
    "until_ns": lambda _, recording: recording.manifest.window_end_ns,
    "end_ns": lambda _, recording: recording.manifest.window_end_ns,
    "window_ns": lambda *_: 10**9,
    "slot_ns": lambda *_: 10**9,
    "block_bytes": lambda *_: GRANULE_BYTES,
    "row_limit": lambda *_: 20,
}
"""What a parameter of that name is where the user gives none."""


def defaults() -> frozenset[str]:
    """Names of the parameters that need no value."""
    return frozenset(_DEFAULTS)


def _value(name: str, unit: str, word: str) -> str | int:
    if unit == "text":
        return word
    match = _TIME.fullmatch(word)
    if not match or (match[2] and unit != "ns") or len(match[1]) > 18:
        example = "10s or 10000000000" if unit == "ns" else "a whole number"
        raise IotraceError(f"{name}={word} is not a value in {unit}", hint=f"{name} is such as {example}")
    return int(match[1]) * _NS[match[2] or "ns"]


def _batches(relation: duckdb.DuckDBPyRelation | None) -> Iterator[pa.RecordBatch]:
    if relation is None:
        return
    reader = relation.to_arrow_reader(BATCH_ROWS)
    empty = True
    for batch in reader:
        empty = False
        yield batch
    if empty:
        yield pa.RecordBatch.from_pylist([], schema=reader.schema)


def limited(
    connection: duckdb.DuckDBPyConnection,
    batches: Iterator[pa.RecordBatch],
    seconds: float,
    end: Callable[[IotraceError], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """``batches`` of `select` or `ask`, ended once they have been worked on for ``seconds``. Raises `IotraceError`.

    What whoever takes them makes of them is work, too, but not that a reader lets it wait. DuckDB looks for word to
    stop between steps only, and a step on a long list is as long as the list. ``end`` ends the process where DuckDB has
    not stopped `STOP_S` later; it is called in a thread of its own.
    """
    late = IotraceError(
        f"the query was stopped after {seconds:g} s",
        hint="give it longer with --timeout 1h, or ask for less: a time window, sums instead of rows",
    )
    left = seconds
    while True:
        is_over = threading.Event()
        watch = threading.Timer(left, _stop, (connection, is_over, partial(end, late) if end else None))
        watch.daemon = True
        begun = time.monotonic()
        watch.start()
        try:
            batch = next(batches, None)
        except (duckdb.InterruptException, OSError) as problem:
            # Arrow tells of an interruption between two batches as of a file that cannot be read.
            is_stop = isinstance(problem, duckdb.InterruptException) or "INTERRUPT Error" in str(problem)
            if not is_stop or time.monotonic() - begun < left:
                raise
            raise late from problem
        finally:
            is_over.set()
            watch.cancel()
            watch.join()  # what holds the connection when Python ends makes DuckDB complain of it at length
        left -= time.monotonic() - begun
        if batch is None:
            return
        worked = time.thread_time()
        yield batch
        left -= time.thread_time() - worked
        if left <= 0:
            connection.interrupt()
            raise late


def _stop(
    connection: duckdb.DuckDBPyConnection, is_over: threading.Event, end: Callable[[], None] | None
) -> None:
    connection.interrupt()
    if end is not None and not is_over.wait(STOP_S):
        end()


@contextmanager
def within_memory() -> Iterator[None]:
    """Let this process allocate little more than DuckDB may: DuckDB does not count lists and long texts.

    The limit is the system's, and only Linux has it. Raises `IotraceError` where the memory does not suffice.
    """
    with ExitStack() as stack:
        if sys.platform == "linux":
            import resource  # noqa: PLC0415 - Windows has none

            before = resource.getrlimit(resource.RLIMIT_DATA)
            most = psutil.Process().memory_info().data + library.usual_memory_limit_bytes() * 5 // 4
            if before[0] == resource.RLIM_INFINITY or most < before[0]:
                resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
                stack.callback(resource.setrlimit, resource.RLIMIT_DATA, before)
        try:
            yield
        except MemoryError as problem:
            raise _out_of_memory() from problem


def _out_of_memory() -> IotraceError:
    return IotraceError(
        "not enough memory or temporary disk space for this query",
        hint="ask for fewer columns, or for sums (GROUP BY) instead of rows",
    )


def python_values(column: pa.Array) -> list[Any]:
    """The values of ``column``; a time that Python has no value for is the text that DuckDB has for it."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # years beyond 9999 or before 1, nanoseconds
        with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
            relation = connection.from_arrow(pa.table({"value": column}))
            texts = relation.select(duckdb.ColumnExpression("value").cast(duckdb.sqltypes.VARCHAR)).fetchall()
        values = [_python_value(value, text) for value, (text,) in zip(column, texts, strict=True)]
    return values


def _python_value(value: pa.Scalar, text: str | None) -> Any:  # noqa: ANN401 - whatever DuckDB answers
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return text


@dataclass(frozen=True, slots=True)
class HostRows:
    """What one recording of a fleet answers."""

    host: str
    recording: str
    path: str
    rows: pa.Table


def ask_host(query_name: str, words: Mapping[str, str], seconds: float, place: Place) -> HostRows:
    """The answer of a query of the library on the recording at ``place``. Raises as `ask` and `limited`."""
    with brought(place) as path:
        recording = Recording.open(path)
        with opened(recording) as connection:
            batches = list(limited(connection, ask(connection, recording, query_name, words), seconds))
    return HostRows(
        recording.manifest.host.name or "", recording.name, str(place), pa.Table.from_batches(batches)
    )


def of_hosts(found: Sequence[HostRows]) -> pa.Table:
    """All their rows, with a column ``host`` before the others."""
    names = distinct_hosts([(one.host, one.recording, one.path) for one in found])
    return pa.concat_tables(
        [
            one.rows.add_column(0, "host", pa.array([name] * one.rows.num_rows, pa.string()))
            for name, one in zip(names, found, strict=True)
        ],
        promote_options="permissive",
    )


def select_all(places: Sequence[Place], sql: str, seconds: float) -> pa.Table:
    """The whole answer of a SELECT on all recordings at ``places``, for who runs elsewhere.

    Raises `IotraceError` as `select` and `limited`, and where it takes more than `ANSWER_BYTES_MAX`.
    """
    with ExitStack() as stack:
        recordings = [Recording.open(stack.enter_context(brought(place))) for place in places]
        connection = stack.enter_context(opened_fleet(recordings, [str(place) for place in places]))
        batches, size_bytes = [], 0
        for batch in limited(connection, select(connection, sql), seconds):
            batches.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > ANSWER_BYTES_MAX:
                raise IotraceError(
                    f"the answer takes more than {ANSWER_BYTES_MAX >> 20} MiB, which no worker sends",
                    hint="ask for sums (GROUP BY) instead of rows, or leave --scheduler out",
                )
    return pa.Table.from_batches(batches)


@contextmanager
def _mistakes_named(hint: str, sql: str = "") -> Iterator[None]:
    """DuckDB's complaint about a user's words as an error for users."""
    try:
        yield
    except (duckdb.InterruptException, duckdb.ResourceInUseException):
        raise
    except (duckdb.OutOfMemoryException, MemoryError) as problem:
        raise _out_of_memory() from problem
    except (duckdb.Error, pa.ArrowException, OSError) as problem:
        told = str(problem)
        if isinstance(problem, OSError):  # so Arrow tells of what happens to DuckDB between two batches
            if problem.errno is not None or "INTERRUPT Error" in told:
                raise
            if told.startswith("Out of Memory Error"):
                raise _out_of_memory() from problem
        lines = [line.strip() for line in told.splitlines() if line.strip()]
        first = _NOT_OURS.sub("", lines[0] if lines else type(problem).__name__)[:300].rstrip("!.")
        near = next((line for line in lines if line.startswith(("Did you mean", "Candidate bindings"))), hint)
        if top := _TOP.search(sql):
            near = f"DuckDB's SQL has LIMIT: SELECT … LIMIT {top[1]}"
        raise IotraceError(f"the query does not run: {first}", hint=near[:300]) from problem
