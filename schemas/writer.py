"""Writing a recording: streamed into a hidden folder, and in its place in one rename.

Until `RecordingWriter.commit` returns, nothing exists under the final name; whatever goes wrong before, the hidden
folder is removed and what stood there stays. Tables may be appended to in any number of pieces of any size.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import IotraceError
from .manifest import Manifest
from .recording import Recording
from .tables import OPTIONAL_TABLES, TABLES, conform

ROW_GROUP_ROWS: Final = 1 << 19
_PART_ROWS: Final = 1 << 25
"""A part of about half a gigabyte: long recordings stay partitioned by time."""

# Times rise and offsets repeat their high bytes, so differences are far shorter than values; word and id columns
# have few values. Together 16 bytes an I/O or less.
_DELTA_COLUMNS: Final = frozenset(
    {"intended_ns", "issued_ns", "completed_ns", "offset_bytes", "at_ns", "duration_ns"}
)


class RecordingWriter:
    """Context manager: `append` tables, then `commit`. Leaving without commit removes everything written."""

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Start writing the recording ``path``.

        Raises `IotraceError` if something is there already (only ever replaced if it is a recording and
        ``overwrite`` is set), or the folder cannot be written.
        """
        self.path = Path(path)
        self._overwrite = overwrite
        check_replaceable(self.path, overwrite=overwrite)
        self._partial = self.path.with_name(f".{self.path.name}.partial-{secrets.token_hex(4)}")
        try:
            self._partial.mkdir(parents=True)
        except OSError as problem:
            raise IotraceError(
                f"cannot write '{path}': {problem.strerror}", hint="choose a folder you may write to with -o"
            ) from problem
        self._tables: dict[str, _TableWriter] = {}
        self._done = False

    def append(self, table_name: str, data: pa.Table | pa.RecordBatch) -> None:
        """Add rows to a table; see `conform` for what is accepted. ``io`` rows of one call are put in order of issue.

        Rows of different calls stay in the order of the calls, so a table as a whole is in no order: several traces of
        one night follow one another. Who needs order takes it from the row groups' statistics, or sorts.

        Raises `IotraceError` when the disk takes no more.
        """
        table = conform(data, table_name) if table_name in TABLES else as_table(data)
        if table_name == "io":
            table = table.sort_by("issued_ns")
        with self._disk_errors_named():
            if table_name not in self._tables:
                self._tables[table_name] = _TableWriter(self._partial, table_name, table.schema)
            self._tables[table_name].append(table)

    def rows(self, table_name: str) -> int:
        """Rows appended to a table so far."""
        return self._tables[table_name].rows if table_name in self._tables else 0

    def commit(self, manifest: Manifest) -> Recording:
        """Finish all tables, write the manifest and move the recording to its place.

        Raises `IotraceError` when the disk takes no more, or the name was taken meanwhile.
        """
        for name in TABLES:
            if name not in self._tables and name not in OPTIONAL_TABLES:
                self.append(name, TABLES[name].empty_table())
        with self._disk_errors_named():
            for table in self._tables.values():
                table.close()
            manifest.rows = {name: table.rows for name, table in self._tables.items()}
            (self._partial / "manifest.json").write_text(manifest.to_json(), "utf-8")
            sync_tree(self._partial)
            check_replaceable(self.path, overwrite=self._overwrite)
            move_into_place(self._partial, self.path)
        self._done = True
        return Recording(self.path, manifest)

    @contextmanager
    def _disk_errors_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            reason = problem.strerror or str(problem).splitlines()[0][:200]
            raise IotraceError(
                f"cannot write '{self.path}': {reason}",
                hint="free some room or choose another folder with -o",
            ) from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._done:
            for table in self._tables.values():
                table.abandon()
            shutil.rmtree(self._partial, ignore_errors=True)


class _TableWriter:
    """One table: gathers rows into row groups of an even size, and row groups into parts."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self.rows = 0
        self._folder, self._name, self._schema = folder, name, schema
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._parts = 0
        self._writer: pq.ParquetWriter | None = None
        self._part_rows = 0

    def append(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        self._pending.append(table)
        self._pending_rows += table.num_rows
        if self._pending_rows >= ROW_GROUP_ROWS:
            self._write_pending()

    def close(self) -> None:
        self._write_pending(last=True)
        self._close_part()
        if self._parts == 1:
            (self._folder / self._name / "part-00000.parquet").rename(self._folder / f"{self._name}.parquet")
            (self._folder / self._name).rmdir()

    def abandon(self) -> None:
        if self._writer is not None:
            with suppress(
                OSError
            ):  # closing writes a footer, which a full disk refuses; the file goes anyway
                self._writer.close()

    def _write_pending(self, *, last: bool = False) -> None:
        table = pa.concat_tables(self._pending) if self._pending else self._schema.empty_table()
        start = 0
        while table.num_rows - start >= ROW_GROUP_ROWS or (
            last and (start < table.num_rows or self._parts == 0)
        ):
            if self._part_rows >= _PART_ROWS:
                self._close_part()
            group = table.slice(start, ROW_GROUP_ROWS)
            self._part_writer().write_table(group, row_group_size=ROW_GROUP_ROWS)
            self._part_rows += group.num_rows
            start += ROW_GROUP_ROWS
        self._pending = [table.slice(start)] if start < table.num_rows else []
        self._pending_rows = sum(piece.num_rows for piece in self._pending)

    def _part_writer(self) -> pq.ParquetWriter:
        if self._writer is None:
            (self._folder / self._name).mkdir(exist_ok=True)
            path = self._folder / self._name / f"part-{self._parts:05}.parquet"
            self._writer = parquet_writer(path, self._schema)
            self._parts += 1
        return self._writer

    def _close_part(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer, self._part_rows = None, 0


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A file of a recording's table, encoded as all of them are."""
    delta = [name for name in schema.names if name in _DELTA_COLUMNS]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in _DELTA_COLUMNS],
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED") or None,
        write_page_index=True,
    )


def check_replaceable(path: Path, *, overwrite: bool) -> None:
    """Raise `IotraceError` unless ``path`` is free, or is iotrace's own output and ``overwrite`` is set."""
    if not path.exists() and not path.is_symlink():
        return
    ours = path.is_dir() and not path.is_symlink() and is_output(path)
    if not overwrite:
        hint = "choose another name, or pass --overwrite" if ours else "choose another name"
        raise IotraceError(f"'{path}' exists already", hint=hint)
    if not ours:
        raise IotraceError(f"'{path}' is not a recording and is not overwritten", hint="choose another name")


_INDEXES: Final = {
    "manifest.json": {"format_version", "uuid", "kind"},
    "sweep.json": {"format_version", "steps"},
}


def is_output(folder: Path) -> bool:
    """Whether ``folder`` is a recording or a sweep.

    Many a program calls a file manifest.json: what ours says tells it apart.
    """
    for name, keys in _INDEXES.items():
        try:
            told = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(told, dict) and keys <= told.keys():
            return True
    return False


def refuse_over_source(output: Path, sources: Iterable[Path]) -> None:
    """Raise `IotraceError` if ``output`` is, or holds, one of ``sources``, or lies in a recording among them.

    Replacing it would destroy what is read; and nobody looks for a result inside a recording, or keeps it with one.
    """
    place = output.resolve()
    for source in sources:
        read = source.resolve()
        if read in place.parents and is_output(read):
            raise IotraceError(
                f"'{output}' lies in the recording that is read", hint="choose another place with -o"
            )
        if place == read or place in read.parents:
            raise IotraceError(
                f"'{output}' {'is' if place == read else 'holds'} what is read, and is not overwritten",
                hint="choose another name with -o",
            )


class Earlier:
    """What stood at ``path``, out of the way while something new grows there."""

    def __init__(self, path: Path) -> None:
        """Raises ``OSError``."""
        self._path = path
        self._aside: Path | None = None
        if path.exists():
            aside = path.with_name(f".{path.name}.old-{secrets.token_hex(4)}")
            path.rename(aside)
            self._aside = aside

    def settle(self, *, replaced: bool) -> None:
        """Remove it; or, if nothing came of the new, remove that and put it back."""
        if not replaced:
            shutil.rmtree(self._path, ignore_errors=True)
        if self._aside is not None:
            if replaced:
                shutil.rmtree(self._aside, ignore_errors=True)
            else:
                self._aside.rename(self._path)
            self._aside = None


def move_into_place(partial: Path, path: Path) -> None:
    """Rename ``partial`` to ``path``; what stood there is removed only once the new one is in its place."""
    old = path.with_name(f".{path.name}.old-{secrets.token_hex(4)}")
    replaced = path.exists()
    if replaced:
        path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        if replaced:
            old.rename(path)
        raise
    _sync(path.parent)
    if replaced:
        shutil.rmtree(old, ignore_errors=True)


def as_table(data: pa.Table | pa.RecordBatch) -> pa.Table:
    """A batch as a table; a table itself."""
    return pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data


def sync_tree(folder: Path) -> None:
    """Wait until everything below ``folder`` is on the disk."""
    for root, _, names in os.walk(folder):
        for name in names:
            _sync(Path(root) / name)
        _sync(Path(root))


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder for syncing; the rename is journalled by NTFS
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
