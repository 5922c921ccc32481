"""The query library: opens recordings in DuckDB and runs ``queries/NAME.sql`` on them with bound parameters.

How to use it::

    with library.opened(recording) as connection:             # io, devices, files, … are views
        table = library.run(connection, "size_distribution", layer="block")   # a pyarrow.Table

    with library.connected() as connection:                   # several recordings side by side
        library.attach(connection, before, prefix="a")        # a.io, a.devices, …
        library.attach(connection, after, prefix="b")
        table = library.run(connection, "size_distribution", prefix="b", layer="block")

A query file answers one question and looks like this; `list_queries` reads the head and a test holds every file to it::

    -- How often was each transfer size asked for?
    --
    -- op [text]: what was asked
    -- size_bytes [bytes]: bytes of one transfer
    -- io_count [I/Os]: how many transfers had that size
    --
    -- $layer [text]: the layer to count at
    --
    -- Reads: io_rollup
    WITH …

``Reads`` names queries without parameters whose results this one starts from: ``io_rollup`` and ``io_per_second`` add a
hundred million rows up once, and many questions are answered from that. They are made on first use and kept with the
connection.

Queries name the tables without a schema; ``prefix`` says whose are meant. ``latency_bucket_ns(value_ns)`` is there as a
macro (see `histogram`). Results carry the order the query asks for. Nothing is ever written to a recording; what does
not fit in memory goes to a temporary folder that disappears with the connection.
"""

import glob
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import duckdb
import psutil
import pyarrow as pa

from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.errors import NEEDS_MEMORY
from iotrace.schemas.spilling import private_room

from .stats.histogram import MACRO_SQL

MEMORY_LIMIT_BYTES: Final = 3 << 30
"""Leaves room below 4 GiB for Python and Arrow; smaller machines get half of what they have."""

_REFUSED_BY_SYSTEM: Final = re.compile("Allocation failure|bad allocation")
"""In DuckDB's words where the system gave no memory, not DuckDB's own limit."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_FIELD: Final = re.compile(r"-- (?P<name>\$?\w+) \[(?P<unit>[^\]]+)\]: (?P<meaning>.+)")
_OUR_ERRORS: Final = (duckdb.ParserException, duckdb.ResourceInUseException, duckdb.InterruptException)
# Progress is shown by whoever asked, on a terminal only. This is a setting of each cursor.
_QUIET: Final = "SET enable_progress_bar = false"
_READS: Final = "-- Reads: "
_ATTACHED: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[str, Path]]] = WeakKeyDictionary()
"""Which recording each prefix of a connection stands for, so that errors can name it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column a query returns, or a parameter it takes."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Query:
    """One file of ``queries/``: the question it answers, and what comes out and goes in."""

    name: str
    question: str
    columns: tuple[Column, ...]
    parameters: tuple[Column, ...]
    reads: tuple[str, ...]
    """Queries whose results this one starts from."""
    sql: str


def usual_memory_limit_bytes() -> int:
    """What DuckDB may take before it uses temporary files."""
    return min(MEMORY_LIMIT_BYTES, psutil.virtual_memory().total // 2)


@contextmanager
def connected(
    *, memory_limit_bytes: int | None = None, threads: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty in-memory DuckDB, closed and its spill folder removed on leaving."""
    limit = memory_limit_bytes or usual_memory_limit_bytes()
    config: dict[str, Any] = {
        "memory_limit": f"{limit // 1024} KiB",
        # Nothing is fetched from anywhere: an air-gapped laptop gives the same answers.
        "autoinstall_known_extensions": "false",
        # A name in SQL never means a variable of the program.
        "python_enable_replacements": "false",
    }
    if threads is not None:
        config["threads"] = threads
    with private_room() as room:
        connection = duckdb.connect(":memory:", config=config | {"temp_directory": str(room)})
        try:
            _be_quiet(connection)
            connection.execute(MACRO_SQL)
            yield connection
        finally:
            connection.close()


@contextmanager
def opened(
    recording: Recording, *, memory_limit_bytes: int | None = None, threads: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the tables of one recording as views. Raises `IotraceError` for a damaged one."""
    with connected(memory_limit_bytes=memory_limit_bytes, threads=threads) as connection:
        attach(connection, recording)
        yield connection


@contextmanager
def cursor(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A second connection to the same tables, for use in another thread."""
    with connection.cursor() as other:
        _be_quiet(other)
        _ATTACHED[other] = _ATTACHED.get(connection, {})
        yield other


def attach(connection: duckdb.DuckDBPyConnection, recording: Recording, prefix: str = "") -> None:
    """Make each table of ``recording`` a view: ``io``, or ``PREFIX.io`` when a prefix is given.

    ``prefix`` is letters, digits and underscores. Raises `IotraceError` when a table cannot be read.
    """
    _ATTACHED.setdefault(connection, {})[prefix] = recording.path
    with _in_schema(connection, prefix, create=True):
        for name in recording.table_names():
            with _readable(recording.path, name):
                # Folders may be called night[1] or year=2026: neither is a pattern here, nor a column.
                paths = [glob.escape(str(path)) for path in recording.parquet_paths(name)]
                try:
                    table = connection.read_parquet(paths, hive_partitioning=False)
                except RuntimeError as problem:  # DuckDB has no error of its own for that
                    raise duckdb.InvalidInputException("the name of a column is not text") from problem
                table.create_view(name)


def lend(
    connection: duckdb.DuckDBPyConnection, from_prefix: str, to_prefix: str, name: str, as_name: str
) -> None:
    """Let queries on the recording attached as ``to_prefix`` see a table of another one, under a name of its own."""
    for word in (from_prefix, to_prefix, name, as_name):
        if not _IDENTIFIER.fullmatch(word):
            raise ValueError(f"{word!r} is not a plain name")
    connection.execute(
        f'CREATE OR REPLACE VIEW "{to_prefix}"."{as_name}" AS SELECT * FROM "{from_prefix}"."{name}"'  # noqa: S608 - checked above; identifiers cannot be bound
    )


def run(
    connection: duckdb.DuckDBPyConnection,
    query_name: str,
    *,
    prefix: str = "",
    **parameters: Any,  # noqa: ANN401 (whatever DuckDB can bind)
) -> pa.Table:
    """Run ``queries/QUERY_NAME.sql`` on the recording attached as ``prefix``; parameters are bound, never pasted.

    Raises `IotraceError` when the recording's data cannot be read or the machine's memory and disk do not suffice,
    ``KeyError`` for an unknown query and ``TypeError`` for wrong parameters, which are defects of the caller.
    """
    query = load(query_name)
    wanted = {parameter.name for parameter in query.parameters}
    if wanted != set(parameters):
        raise TypeError(f"query {query_name} takes {sorted(wanted)}, not {sorted(parameters)}")
    path = _ATTACHED.get(connection, {}).get(prefix)
    with _in_schema(connection, prefix), _readable(path, query_name, is_query=True):
        for name in query.reads:
            _keep(connection, name, prefix or "main")
        return connection.sql(query.sql, params=parameters or None).to_arrow_table()


def provide(connection: duckdb.DuckDBPyConnection, query_name: str, table: pa.Table) -> None:
    """Let queries that read ``query_name`` start from ``table``, which somebody made faster than the query would.

    ``table`` has the columns that the query's head names.
    """
    relation = connection.from_arrow(table)
    relation.create(query_name)


@cache
def load(query_name: str) -> Query:
    """The query of that name. Raises ``KeyError`` if there is none."""
    source = resources.files(__package__).joinpath("queries", f"{query_name}.sql")
    if not _IDENTIFIER.fullmatch(query_name) or not source.is_file():
        raise KeyError(query_name)
    return parse(query_name, source.read_text("utf-8"))


def list_queries() -> list[Query]:
    """Every query of the library, by name."""
    folder = resources.files(__package__).joinpath("queries")
    names = sorted(
        entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql")
    )
    return [load(name) for name in names]


def parse(query_name: str, text: str) -> Query:
    """Read the head of a query file: the question, then ``-- name [unit]: meaning`` lines, ``$`` marking parameters."""
    head = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        head.append(line)
    fields = [Column(**match.groupdict()) for line in head if (match := _FIELD.fullmatch(line))]
    words = []
    for line in head:
        if line.strip() == "--":
            break
        words.append(line.removeprefix("--").strip())
    reads = [line.removeprefix(_READS) for line in head if line.startswith(_READS)]
    return Query(
        query_name,
        question=" ".join(words),
        columns=tuple(field for field in fields if not field.name.startswith("$")),
        parameters=tuple(
            replace(field, name=field.name[1:]) for field in fields if field.name.startswith("$")
        ),
        reads=tuple(name for names in reads for name in names.split(", ")),
        sql=text,
    )


def _keep(connection: duckdb.DuckDBPyConnection, query_name: str, schema: str) -> None:
    """Make the result of a query a table of its name, unless it is one already."""
    known = connection.sql(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = $schema AND table_name = $name",
        params={"schema": schema, "name": query_name},
    ).fetchall()
    if not known:
        connection.sql(load(query_name).sql).create(query_name)


def _be_quiet(connection: duckdb.DuckDBPyConnection) -> None:
    """Turn DuckDB's progress bar off. In a notebook without ipywidgets, where there is none, it refuses even that."""
    with suppress(duckdb.InvalidInputException):
        connection.execute(_QUIET)


@contextmanager
def _in_schema(connection: duckdb.DuckDBPyConnection, prefix: str, *, create: bool = False) -> Iterator[None]:
    """Let unqualified names mean the recording attached as ``prefix``; identifiers cannot be bound, so check it."""
    if not prefix:
        yield
        return
    if not _IDENTIFIER.fullmatch(prefix):
        raise ValueError(f"prefix {prefix!r} is not a plain name")
    if create:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{prefix}"')
    connection.execute(f'USE "{prefix}"')
    try:
        yield
    finally:
        connection.execute("USE main")


@contextmanager
def _readable(path: Path | None, what: str, *, is_query: bool = False) -> Iterator[None]:
    """Turn DuckDB's complaints about files, memory and disk into errors for users; ``what`` is a table or a query."""
    try:
        yield
    except duckdb.OutOfMemoryException as problem:
        if _REFUSED_BY_SYSTEM.search(str(problem)):
            raise IotraceError(f"not enough memory to answer {what}", hint=NEEDS_MEMORY) from problem
        raise IotraceError(
            f"not enough memory or temporary disk space to answer {what}",
            hint=f"free some room in {tempfile.gettempdir()} or set TMPDIR to a larger disk",
        ) from problem
    except _OUR_ERRORS:
        raise
    except duckdb.Error as problem:
        words = str(problem).splitlines()[0][:300]
        name = f"'{path}'" if path else "the recording"
        where = (
            f"{name} cannot be read while asking {what}" if is_query else f"{name} has a damaged table {what}"
        )
        raise IotraceError(
            f"{where}: {words}", hint=f"iotrace validate {path or 'RECORDING'} tells what is left of it"
        ) from problem
