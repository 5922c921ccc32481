"""DuckDB databases that somebody brings: opened read-only, without doors to other files, tables only.

A view or macro of a database is its author's program, so neither is ever run. What DuckDB itself says of a damaged
file, or of one that a newer version wrote, becomes an `IotraceError`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from iotrace.schemas import IotraceError

MAGIC: Final = b"DUCK"
"""Stands at byte 8 of a database."""

_MEMORY: Final = "512 MiB"


def is_database(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a DuckDB database."""
    return head[8:12] == MAGIC


@contextmanager
def opened(path: Path, name: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database at ``path``, which nothing changes; faults in it are told by ``name``, the user's word for it."""
    try:
        connection = duckdb.connect(
            str(path),
            read_only=True,
            config={
                "memory_limit": _MEMORY,
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "python_enable_replacements": "false",
                "threads": 1,
            },
        )
    except duckdb.Error as problem:
        raise _unreadable(name, problem) from problem
    try:
        connection.execute("SET enable_progress_bar = false")
        yield connection
    except duckdb.Error as problem:
        raise _unreadable(name, problem) from problem
    finally:
        connection.close()


def base_tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """Tables of the main schema and the names of their columns, no views."""
    rows = connection.execute(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "WHERE schema_name = 'main' AND NOT internal "
        "AND table_name IN (SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal) "
        "GROUP BY table_name ORDER BY table_name"
    ).fetchall()
    return dict(rows)


def has_rows(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    """Whether a table has any."""
    return bool(connection.execute(f"SELECT 1 FROM {_quoted(table)} LIMIT 1").fetchall())  # noqa: S608 - quoted


def rows_of(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Some columns of a table, ``rows`` at a time."""
    names = ", ".join(f"CAST({_quoted(column)} AS VARCHAR)" for column in columns)
    yield from connection.sql(f"SELECT {names} FROM {_quoted(table)}").to_arrow_reader(rows)  # noqa: S608 - quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable(name: str, problem: duckdb.Error) -> IotraceError:
    said = str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__
    hint = "export its tables: COPY file_io_stats TO 'file_io_stats.parquet', and wait_stats likewise"
    if "lock" in said.lower():
        hint = "close the program that has it open, or copy the file and bring the copy"
    return IotraceError(f"'{name}' cannot be read as a DuckDB database: {said}", hint=hint)
