"""Writing a recording: streamed into a hidden folder, and in its place in one rename.

Until `RecordingWriter.commit` returns, nothing exists under the final name; whatever goes wrong before, the hidden
folder is removed and what stood there stays. Tables may be appended to in any number of pieces of any size.
"""

import hashlib
import json
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from .durable import create_private, create_private_folder, replace_text, sync_tree
from .errors import UNREADABLE, IotraceError
from .locking import FileLock
from .manifest import Manifest
from .mending import refuse_strangers
from .partials import Partial
from .plain_files import resolved
from .recording import UNFINISHED_SUFFIX, Recording, parquet_paths_in
from .replacing import (
    FolderKind,
    Written,
    check_folder,
    move_into_place,
    read_index,
    seal_folder,
    unchanged,
    unseal_folder,
)
from .tables import OPTIONAL_TABLES, TABLES, conform

ROW_GROUP_ROWS: Final = 1 << 19
GROWING_LOCK: Final = "writer.lock"
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
        self._room = Partial.folder(self.path, private=True)
        self._partial = self._room.path
        self._tables: dict[str, _TableWriter] = {}

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
            replace_text(self._partial / "manifest.json", manifest.to_json(), private=True)
            seal_folder(self._partial)
            sync_tree(self._partial)
            check_replaceable(self.path, overwrite=self._overwrite)
            move_into_place(self._partial, self.path, RECORDING)
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
        for table in self._tables.values():
            table.abandon()
        self._room.close()


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
            if not (self._folder / self._name).is_dir():
                create_private_folder(self._folder / self._name)
            path = self._folder / self._name / f"part-{self._parts:05}.parquet"
            self._writer = parquet_writer(path, self._schema)
            self._parts += 1
        return self._writer

    def _close_part(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer, self._part_rows = None, 0


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A file of a recording's table, encoded as all of them are, and readable to its owner alone."""
    if not path.exists():
        create_private(path)
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
    """Raise `IotraceError` unless ``path`` is free, or a recording or sweep as iotrace wrote it, to be overwritten."""
    check_folder(path, RECORDING, overwrite=overwrite)


_INDEXES: Final = {
    "manifest.json": {"format_version", "uuid", "kind"},
    "sweep.json": {"format_version", "steps"},
}


def is_output(folder: Path) -> bool:
    """Whether ``folder`` is a recording or a sweep.

    Many a program calls a file manifest.json: what ours says tells it apart.
    """
    return any(_index(folder / name, keys) is not None for name, keys in _INDEXES.items())


def _index(path: Path, keys: set[str]) -> dict[str, Any] | None:
    try:
        told = json.loads(read_index(path) or b"")
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and keys <= told.keys() else None


def _written_in(folder: Path) -> Written | None:
    """The files of a recording or a sweep."""
    sweep = _index(folder / "sweep.json", _INDEXES["sweep.json"])
    return _written_in_recording(folder) if sweep is None else _written_in_sweep(folder, sweep)


def _written_in_recording(folder: Path) -> Written | None:
    """Its manifest, and the tables that hold as many rows as that says, as far as they are as they were sealed."""
    text = read_index(folder / "manifest.json")
    try:
        manifest = None if text is None else Manifest.from_json(text.decode(), str(folder))
    except (IotraceError, UnicodeDecodeError):
        return None
    if manifest is None:
        return None
    written: dict[str, str | None] = {"manifest.json": None, GROWING_LOCK: hashlib.sha256(b"").hexdigest()}
    for name, rows in manifest.rows.items():
        paths = parquet_paths_in(folder, name) if Path(name).name == name else []
        if _rows_in(paths) == rows:
            written |= {path.relative_to(folder).as_posix(): None for path in paths}
    return unchanged(folder, written)


def _rows_in(paths: Sequence[Path]) -> int | None:
    try:
        if any(not stat.S_ISREG(path.lstat().st_mode) for path in paths):
            return None
        return sum(int(pq.read_metadata(path).num_rows) for path in paths)
    except UNREADABLE:
        return None


def _written_in_sweep(folder: Path, sweep: dict[str, Any]) -> Written | None:
    """Its index, the recordings that this names and any that a killed command had not yet noted, and who watched.

    Of the last, also what a recorder left that was killed.
    """
    written: dict[str, str | None] = {"sweep.json": None, "steps/": None}
    try:
        named = {str(step["folder"]).removesuffix(".iotrace") for step in sweep["steps"]}
        there = {f"steps/{path.stem}" for path in (folder / "steps").glob("[0-9][0-9][0-9]-*x.iotrace")}
        for name in sorted(named | there):
            for one in (f"{name}.iotrace", f"{name}.watched.iotrace"):
                found = _written_in_recording(folder / one) or {}
                written |= {f"{one}/{file}": known for file, known in found.items()}
        for left in (folder / "steps").glob(f"[0-9][0-9][0-9]-*x.watched.iotrace{UNFINISHED_SUFFIX}"):
            written |= {path.relative_to(folder).as_posix(): None for path in _left_by_recorder(left)}
    except (TypeError, KeyError):
        return None
    return unchanged(folder, written)


def _left_by_recorder(folder: Path) -> Iterable[Path]:
    """All files of an unfinished recording whose writer is gone; none if anything else lies there."""
    try:
        refuse_strangers(folder)
    except IotraceError:
        return ()
    if (folder / GROWING_LOCK).exists() and not FileLock.is_free(folder / GROWING_LOCK):
        return ()
    return (path for path in folder.rglob("*") if not path.is_dir())


RECORDING: Final = FolderKind("a recording", _written_in)
"""Sweeps included, which are folders of recordings."""


def refuse_over_source(output: Path, sources: Iterable[Path]) -> None:
    """Raise `IotraceError` if ``output`` is, or holds, one of ``sources``, or lies in a recording among them.

    Replacing it would destroy what is read; and nobody looks for a result inside a recording, or keeps it with one.
    """
    place = resolved(output)
    for source in sources:
        read = resolved(source)
        if _is_one_of(read, place.parents) and is_output(read):
            raise IotraceError(
                f"'{output}' lies in the recording that is read", hint="choose another place with -o"
            )
        is_read = _is_one_of(read, [place])
        if is_read or _is_one_of(place, read.parents):
            raise IotraceError(
                f"'{output}' {'is' if is_read else 'holds'} what is read, and is not overwritten",
                hint="choose another name with -o",
            )


def _is_one_of(path: Path, others: Iterable[Path]) -> bool:
    """By file system and inode: what is mounted in two places has two names."""
    for other in others:
        try:
            if path == other or path.samefile(other):
                return True
        except OSError:  # one of them is not there
            continue
    return False


def rewrite_manifest(recording: Recording) -> Recording:
    """Write the changed manifest of a finished recording; the old one stays until the new one is whole.

    Raises `IotraceError` when the disk takes no more.
    """
    try:
        unseal_folder(recording.path)
        replace_text(recording.path / "manifest.json", recording.manifest.to_json(), private=True)
        seal_folder(recording.path)
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{recording.path}': {problem.strerror or problem}",
            hint="free some room or choose another folder with -o",
        ) from problem
    return recording


def as_table(data: pa.Table | pa.RecordBatch) -> pa.Table:
    """A batch as a table; a table itself."""
    return pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
