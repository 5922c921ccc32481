"""Opening a recording."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .errors import UNREADABLE, IotraceError
from .manifest import Manifest
from .tables import (
    KEY_MAX,
    KEYS,
    MOMENT_NS_MAX,
    TABLES,
    TIME_COLUMNS,
    misfit,
    refuse_unknown_words,
    whole_text,
)
from .vocabulary import counted

_MANIFEST_BYTES_MAX = 16 * 1024 * 1024
GROUP_ROWS_MAX: Final = 1 << 22
"""Rows of one row group, which are read at once; iotrace writes an eighth of that."""
CLAIM_FREE_ROWS: Final = 1 << 22
CLAIMED_ROWS_PER_BYTE_MAX: Final = 1
"""From `CLAIM_FREE_ROWS` on; recordings of I/O have a sixteenth."""
_SMALL_BYTES_MAX: Final = 256 << 20
"""Text of a column of a table that is read as a whole."""
UNFINISHED_SUFFIX: Final = ".unfinished"
"""Ends the name of the folder in which a live recording grows."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording on disk: its manifest in memory, its tables where they lie."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path, *, as_it_is: bool = False) -> Self:
        """Open the recording folder at ``path``. Raises `IotraceError` naming ``path``.

        Tables without a column, or with one of another kind, are refused unless it is wanted ``as_it_is``.
        """
        folder = Path(path)
        try:
            if not folder.exists():
                if folder.with_name(folder.name + UNFINISHED_SUFFIX).is_dir():
                    raise IotraceError(
                        f"'{path}' is still being recorded, or its recording was cut off",
                        hint=f"iotrace capture snapshot {path} -o OTHER.iotrace for what there is so far; "
                        f"iotrace capture recover {path} if nobody records it any more",
                    )
                raise IotraceError(
                    f"no recording at '{path}'", hint="check the path; recordings end in .iotrace"
                )
            if not folder.is_dir():
                raise IotraceError(
                    f"'{path}' is a file, not a recording",
                    hint=f"turn a trace into a recording first: iotrace import {path} -o NAME.iotrace",
                )
            if (folder / "sweep.json").is_file():
                raise IotraceError(
                    f"'{path}' is a sweep, not a recording",
                    hint=f"iotrace knee {path}, or use one of the recordings in {folder / 'steps'}",
                )
            manifest_path = folder / "manifest.json"
            if not manifest_path.is_file():
                raise IotraceError(
                    f"'{path}' is a folder without a manifest.json, not a recording",
                    hint="a recording is written by iotrace import, capture or replay",
                )
            if manifest_path.stat().st_size > _MANIFEST_BYTES_MAX:
                raise IotraceError(
                    f"'{path}' has a manifest.json over 16 MiB", hint="it is damaged, or not a recording"
                )
            text = manifest_path.read_text("utf-8")
        except OSError as problem:
            raise IotraceError(
                f"cannot read '{path}': {problem.strerror}",
                hint="check its permissions and that the disk is there",
            ) from problem
        except UnicodeDecodeError as problem:
            raise IotraceError(
                f"'{path}' has a damaged manifest.json: it is not UTF-8", hint="restore it from a copy"
            ) from problem
        recording = cls(folder, Manifest.from_json(text, str(path)))
        recording._check_files(as_it_is=as_it_is)
        return recording

    @property
    def name(self) -> str:
        """The folder's name without its suffix, as a title where none is given."""
        return self.path.name.removesuffix(".iotrace")

    def table_names(self) -> list[str]:
        """Names of the tables present, the standard ones first."""
        return table_names_in(self.path)

    def parquet_paths(self, table_name: str) -> list[Path]:
        """Files of a table in order: ``[NAME.parquet]`` or the parts ``NAME/part-*.parquet``.

        Raises `IotraceError` when the recording lacks the table.
        """
        paths = parquet_paths_in(self.path, table_name)
        if not paths:
            raise IotraceError(
                f"'{self.path}' has no table {table_name}",
                hint=f"it has: {', '.join(self.table_names()) or 'none'}",
            )
        return paths

    def read(self, table_name: str, columns: list[str] | None = None) -> pa.Table:
        """Read a whole table into memory. For small tables; ask DuckDB for anything over ``io``."""
        with self.reading(table_name):
            tables = [_read_small(path, columns) for path in self.parquet_paths(table_name)]
            table = pa.concat_tables(tables)
            refuse_unknown_words(table, table_name)
        for position, field in enumerate(table.schema):
            if field.type == pa.string():
                table = table.set_column(position, field, whole_text(table.column(position)))
        return table

    def _check_files(self, *, as_it_is: bool) -> None:
        for name in self.table_names():
            for path in parquet_paths_in(self.path, name):
                self._check_file(path, name, as_it_is=as_it_is)

    def _check_file(self, path: Path, table_name: str, *, as_it_is: bool) -> None:
        """Refuse a few bytes that unfold into very many rows, and what is not the table that it is named after.

        What cannot be read is told by who reads it.
        """
        try:
            told = pq.read_metadata(path)
            wrong = None if as_it_is else misfit(told.schema.to_arrow_schema(), table_name)
        except UNREADABLE:
            return
        largest = max((told.row_group(number).num_rows for number in range(told.num_row_groups)), default=0)
        if largest > GROUP_ROWS_MAX:
            raise IotraceError(
                f"'{self.path}' has {largest:,} rows of {table_name} in one row group, more than the "
                f"{GROUP_ROWS_MAX:,} that are read at once",
                hint="it is damaged, or another program wrote it: write it anew in smaller row groups",
            )
        size = path.stat().st_size
        if told.num_rows > CLAIM_FREE_ROWS and told.num_rows > CLAIMED_ROWS_PER_BYTE_MAX * size:
            raise IotraceError(
                f"'{self.path}' claims {told.num_rows:,} rows of {table_name} in {size:,} bytes, like a file made "
                "to fill memory",
                hint="recordings take some 16 bytes an I/O: import the original trace again",
            )
        if wrong is None and not as_it_is:
            try:
                wrong = misfit_values(path, told, table_name)
            except UNREADABLE:
                return
        if wrong is not None:
            raise IotraceError(
                f"'{self.path}' has a damaged table {table_name}: {wrong}",
                hint=f"iotrace validate {self.path} shows what is left; import the original trace again",
            )

    @contextmanager
    def reading(self, table_name: str) -> Iterator[None]:
        """While its files are read: turn what is wrong with them into an `IotraceError` that names the recording."""
        try:
            yield
        except UNREADABLE as problem:
            raise IotraceError(
                f"'{self.path}' has a damaged table {table_name}: "
                f"{str(problem).splitlines()[0][:200].rstrip('.')}",
                hint=f"iotrace validate {self.path} shows what is left; import the original trace again",
            ) from problem

    def row_count(self, table_name: str) -> int:
        """Rows of a table as its files' footers tell."""
        with self.reading(table_name):
            return sum(pq.read_metadata(path).num_rows for path in self.parquet_paths(table_name))


def _read_small(path: Path, columns: list[str] | None) -> pa.Table:
    """A table, of which texts are counted before they are unfolded: one long name may be there a million times."""
    texts = [field.name for field in pq.read_schema(path) if pa.types.is_string(field.type)]
    table = pq.read_table(path, columns=columns, read_dictionary=texts)
    for position, field in enumerate(table.schema):
        if field.name not in texts:
            continue
        folded = table.column(position)
        unfolded = sum(_unfolded_bytes(chunk) for chunk in folded.chunks)
        if unfolded > _SMALL_BYTES_MAX:
            raise OSError(
                f"{field.name} holds {unfolded:,} bytes of text, more than the {_SMALL_BYTES_MAX:,} that are read"
            )
        table = table.set_column(position, field.name, folded.cast(pa.string()))
    return table


def misfit_values(path: Path, told: pq.FileMetaData, table_name: str) -> str | None:
    """What the values of a Parquet file break of the format's promises; None if nothing.

    A column that requires a value has one, and whole numbers fit their width: tables are sized and written by these.
    Moments are within reach of each other, and keys are numbers that answers can keep a place for. What a column's type
    promises by itself is not looked at, and values are read only where the file has no statistics of them.
    """
    schema = told.schema.to_arrow_schema()
    for field in TABLES.get(table_name, ()):
        if field.name not in schema.names or pa.types.is_nested(field.type):
            continue
        found = schema.field(field.name)
        is_required = not field.nullable and found.nullable
        is_other_width = pa.types.is_integer(field.type) and found.type != field.type
        is_moment = field.name in TIME_COLUMNS
        is_key = KEYS.get(table_name) == field.name
        if not is_required and not is_other_width and not is_moment and not is_key:
            continue
        missing_rows = 0
        for number in range(told.num_row_groups):
            try:
                missing, least, most = _extremes(path, told, number, field.name)
                missing_rows += missing
                for value in (least, most) if is_other_width and least is not None else ():
                    pa.scalar(value, found.type).cast(field.type)
            except pa.ArrowInvalid as problem:
                return f"{field.name}: {problem}"
            if is_moment and least is not None and most is not None and max(-least, most) >= MOMENT_NS_MAX:
                return f"{field.name} is over a century away"
            if is_key and least is not None and most is not None and (least < 0 or most > KEY_MAX):
                return f"{field.name} is {least if least < 0 else most:,}, not from 0 to {KEY_MAX:,}"
        if is_required and missing_rows:
            return f"{field.name} is missing in {counted(missing_rows, 'row')}"
    return None


def _extremes(
    path: Path, told: pq.FileMetaData, number: int, name: str
) -> tuple[int, int | None, int | None]:
    """Of a column of whole numbers or words in a row group: how many are missing, the least and the greatest.

    Raises `pa.ArrowInvalid` where the row group has no column of the name that the schema has.
    """
    group = told.row_group(number)
    columns = map(group.column, range(group.num_columns))
    chunk = next((column for column in columns if column.path_in_schema == name), None)
    if chunk is None:
        raise pa.ArrowInvalid("the column is stored under another name")
    known = chunk.statistics
    if known is not None and known.has_null_count and known.null_count == group.num_rows:
        return known.null_count, None, None
    if known is not None and known.has_null_count and known.has_min_max:
        return known.null_count, known.min, known.max
    with pq.ParquetFile(path, metadata=told) as file:
        column = file.read_row_group(number, columns=[name]).column(0)
    if not pa.types.is_integer(column.type):
        return column.null_count, None, None
    bounds = pc.min_max(column).as_py()
    return column.null_count, bounds["min"], bounds["max"]


def _unfolded_bytes(column: pa.Array) -> int:
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    return int(pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0)


def table_names_in(folder: Path) -> list[str]:
    """Names of the tables in ``folder``, the standard ones first."""
    present = {entry.stem for entry in folder.glob("*.parquet")}
    present |= {entry.parent.name for entry in folder.glob("*/part-*.parquet")}
    return [name for name in TABLES if name in present] + sorted(present - set(TABLES))


def parquet_paths_in(folder: Path, table_name: str) -> list[Path]:
    """Files of a table in order; empty if it is not there."""
    single = folder / f"{table_name}.parquet"
    return (
        [single]
        if single.is_file()
        else sorted(path for path in (folder / table_name).glob("part-*.parquet") if path.is_file())
    )
