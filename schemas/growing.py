"""A recording that grows while it is made, and of which a crash costs only the last moments.

It lies beside its later name, as ``NAME.iotrace.unfinished``, and holds for each table:

- ``TABLE/part-N.parquet``: finished parts;
- ``TABLE/tail-N.arrows``: rows of the parts to come, as Arrow IPC streams, the last of them growing. What a killed
  writer leaves of a stream is readable up to its last whole batch;
- or ``TABLE.parquet``, for small tables that are replaced as a whole.

``manifest.json`` says at every moment what would be true if nothing came after it. Files are replaced by renaming, so
whatever moment the writer dies at, `commit` of the same folder by another process yields a whole recording. A lock on
``writer.lock`` tells whether the writer lives.

Every `SYNC_SECONDS` a thread forces what there is to the disk, and keeps copies of the small files in ``synced/``; a
tail is removed only when its part is on the disk. So a power cut costs what was recorded since, and no more.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from .durable import FOLDER_MODE, create_private, create_private_folder, open_private, sync_tree
from .errors import IotraceError
from .locking import FileLock
from .manifest import Manifest
from .mending import (
    LEFT_IN_FOLDER,
    SMALL,
    SYNCED,
    BackgroundSync,
    find_manifest,
    mend_parts,
    mend_small_tables,
    refuse,
    refuse_strangers,
    sync_files,
)
from .partials import remove_given_names
from .recording import UNFINISHED_SUFFIX, Recording, parquet_paths_in, table_names_in
from .replacing import move_into_place, seal_folder
from .streams import StreamFile, read_stream, stream_bytes
from .tables import OPTIONAL_TABLES, TABLES, conform
from .writer import GROWING_LOCK, RECORDING, ROW_GROUP_ROWS, as_table, check_replaceable, parquet_writer

_RESERVE: Final = "reserve"
_RESERVE_BYTES: Final = 32 << 20
"""Room kept back to finish in when the disk is full: a part and a manifest."""
_RESERVE_SHARE: Final = 8
_FINISH_BYTES: Final = 48 << 10
"""What finishing writes whatever was recorded: tables without rows, footers of parts, starts of streams."""
_SMALL_COPIES: Final = 3
"""Small tables and the manifest are written anew beside themselves, copied to ``synced/``, and may have grown since."""


class GrowingRecording:
    """Context manager: `append`, `replace` and `flush` while it grows, then `commit`.

    Leaving without `commit` keeps the folder, so that nothing recorded is lost; `discard` removes it.
    """

    def __init__(self, path: str | Path, folder: Path, lock: FileLock, *, overwrite: bool) -> None:
        """Use `create` or `resume`."""
        self.path = Path(path)
        self.folder = folder
        self._lock = lock
        self._overwrite = overwrite
        self._tables: dict[str, _Table] = {}
        self._checked: dict[str, pa.Schema] = {}
        self._number = 0
        self._is_resumed = False
        self._small: set[str] = set()
        """Names of the files of small tables, all that there were at first and were written since."""
        self._sync = BackgroundSync(folder)
        self.damaged: list[str] = []
        """Parts that could not be read, and were left out."""
        self._find_tables()

    @classmethod
    def create(cls, path: str | Path, *, overwrite: bool = False) -> Self:
        """Start the recording ``path``. Raises `IotraceError` if it, or an unfinished one of that name, is there."""
        path = Path(path)
        check_replaceable(path, overwrite=overwrite)
        folder = unfinished_folder(path)
        if folder.exists() and not _is_bare(folder):
            raise _is_there(path, folder)
        try:
            if not folder.exists():
                create_private_folder(folder)
            lock = FileLock.take(folder / GROWING_LOCK)
        except OSError as problem:
            with suppress(OSError):
                folder.rmdir()  # there was no room for the lock
            raise IotraceError(
                f"cannot write '{path}': {problem.strerror}", hint="choose a folder you may write to with -o"
            ) from problem
        growing = cls(path, folder, lock, overwrite=overwrite)
        _reserve_room(folder)
        return growing

    @classmethod
    def resume(cls, path: str | Path, folder: Path, *, overwrite: bool = False) -> Self:
        """Take over what a writer that is gone left in ``folder``, to become ``path``.

        Raises `IotraceError` if the writer lives, or something lies there that no writer leaves: what it holds more
        than a recording is removed in the end.
        """
        refuse_strangers(folder)
        if not FileLock.is_free(folder / GROWING_LOCK):
            raise _is_there(Path(path), folder)
        lock = FileLock.take(folder / GROWING_LOCK)
        mend_small_tables(folder)
        growing = cls(path, folder, lock, overwrite=overwrite)
        growing._is_resumed = True
        return growing

    @classmethod
    def snapshot(cls, path: str | Path, source: Path, *, overwrite: bool = False) -> Self:
        """A second recording, ``path``, of what is in ``source``, whose writer goes on undisturbed."""
        growing = cls.create(path, overwrite=overwrite)
        try:
            growing.copy_of(source)
        except BaseException:
            growing.discard()
            raise
        return growing

    def copy_of(self, source: Path) -> None:
        """Take in what another writer's folder holds at this moment. Raises `IotraceError`."""
        with self._disk_errors_named():
            _copy_growing(source, self.folder)
            mend_small_tables(self.folder)
            self._find_tables()

    def append(self, table_name: str, data: pa.Table | pa.RecordBatch) -> None:
        """Add rows; `flush` makes them survive. See `conform` for what is accepted."""
        self._add(table_name, conform(data, table_name) if table_name in TABLES else as_table(data))

    def append_fast(self, table_name: str, data: pa.Table | pa.RecordBatch) -> None:
        """Add rows that come fast: they become what `conform` makes of them only when they become a part.

        Names and types are checked at once, values are not looked at; all data of one table is of one schema. Raises
        ``ValueError`` as `conform` does.
        """
        table = as_table(data)
        if self._checked.get(table_name) != table.schema:
            conform(table.slice(0, 0), table_name)
            self._checked[table_name] = table.schema
        self._add(table_name, table)

    def _add(self, table_name: str, table: pa.Table) -> None:
        if table.num_rows:
            if table_name not in self._tables:
                self._tables[table_name] = _Table(self.folder / table_name)
            self._tables[table_name].add(table)

    def replace(self, table_name: str, data: pa.Table | pa.RecordBatch) -> None:
        """Make ``data`` all that a small table holds. Raises `IotraceError` when the disk takes no more."""
        table = conform(data, table_name) if table_name in TABLES else as_table(data)
        target = self.folder / f"{table_name}.parquet"
        with (
            self._disk_errors_named(),
            _replacing(target) as new,
            parquet_writer(new, table.schema) as writer,
        ):
            writer.write_table(table)
        self._small.add(target.name)

    def flush(self, manifest: Manifest) -> None:
        """Make everything so far survive this process. Raises `IotraceError` when the disk takes no more.

        After such an error the rows are still pending: `release_reserve` and flush again.
        """
        with self._disk_errors_named():
            self._remove_tails(self._sync.take_synced())
            self._flush_tables(manifest)
            manifest.rows = self.rows
            self._write_manifest(manifest)
            if self._sync.is_due():
                self._sync.begin({file for table in self._tables.values() for file in table.take_unsynced()})

    def seal(self) -> int:
        """Let what comes next go to new tails; the number of the part that is complete with this."""
        for table in self._tables.values():
            table.close_tail()
        self._number += 1
        return self._number - 1

    def drop(self, number: int) -> None:
        """Remove part ``number`` of all tables, encoded or not."""
        for table in self._tables.values():
            table.drop(number)

    def encode_one(self) -> bool:
        """Turn the oldest sealed tail into a part; False if there is none. Raises `IotraceError`.

        The tail goes once the part is on the disk: by and by, or with `settle`.
        """
        for name, table in self._tables.items():
            for tail in table.sealed():
                with self._disk_errors_named():
                    table.encode(tail, sort_by="issued_ns" if name == "io" else None)
                return True
        return False

    def settle(self) -> bool:
        """Wait until all parts are on the disk, and remove their tails; False if there were none.

        Raises `IotraceError`.
        """
        with self._disk_errors_named():
            encoded = {part for table in self._tables.values() for part in table.encoded()}
            sync_files(encoded)
            self._remove_tails(encoded)
        return bool(encoded)

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each appended table that this process has added and not dropped."""
        return {name: sum(table.rows.values()) for name, table in self._tables.items()}

    @property
    def open_bytes(self) -> int:
        """Bytes of the tails that still grow."""
        return sum(table.open_bytes for table in self._tables.values())

    @property
    def sealed_bytes(self) -> int:
        """Bytes of tails that `encode_one` can turn into parts."""
        return sum(tail.stat().st_size for table in self._tables.values() for tail in table.sealed())

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, the reserve left out."""
        size = 0
        for file in self.folder.rglob("*"):
            with suppress(FileNotFoundError):  # replaced, or removed, meanwhile
                found = file.stat()
                size += found.st_size if stat.S_ISREG(found.st_mode) and file.name != _RESERVE else 0
        return size

    @property
    def pending_bytes(self) -> int:
        """Bytes that `flush` writes at most for the rows that wait for it."""
        return sum(table.pending_bytes for table in self._tables.values())

    def finish_bytes(self, more: int = 0) -> int:
        """Bytes beyond `size_bytes` that are needed at most until `commit` is through.

        With another ``more`` bytes of rows (`stream_bytes`): rows that wait for `flush`, the largest part beside the
        tail that it is made from, and the small tables. Small tables that more than double meanwhile are not foretold.
        """
        coming = more + self.pending_bytes
        sealed = [tail.stat().st_size for table in self._tables.values() for tail in table.sealed()]
        small = [
            file.stat().st_size for file in self.folder.iterdir() if file.suffix in {".parquet", ".json"}
        ]
        return coming + max([self.open_bytes + coming, *sealed]) + _SMALL_COPIES * sum(small) + _FINISH_BYTES

    def release_reserve(self) -> None:
        """Free the room kept back for finishing on a full disk."""
        (self.folder / _RESERVE).unlink(missing_ok=True)

    def finish(self) -> None:
        """Encode what is left. Raises `IotraceError`, losing nothing."""
        self.release_reserve()
        with self._disk_errors_named():
            self._flush_tables(None)
        self.seal()
        self._sync.wait()
        while self.encode_one():
            self.settle()  # on a disk that is full there is no room for all of them twice
        self.settle()

    def commit(self, manifest: Manifest) -> Recording:
        """`finish`, and move the recording to its place. Raises `IotraceError`, losing nothing.

        So it does where somebody else's file would become a part of the recording.
        """
        self.release_reserve()
        with self._disk_errors_named():
            self._flush_tables(None)
            refuse(self.folder, sorted(self._unknown()))
        self.finish()
        with self._disk_errors_named():
            for table in self._tables.values():
                table.move_single_part()
            self._small |= {entry.name for entry in self.folder.glob("*.parquet")}
            self._write_absent_tables()
            manifest.rows = {name: self._row_count(name) for name in table_names_in(self.folder)}
            self._write_manifest(manifest)
            _remove_foreign(self.folder)
            seal_folder(self.folder)
            sync_tree(self.folder)
            check_replaceable(self.path, overwrite=self._overwrite)
            move_into_place(self.folder, self.path, RECORDING)
        (self.path / GROWING_LOCK).unlink(missing_ok=True)
        self._lock.release()
        return Recording(self.path, manifest)

    def manifest(self) -> Manifest:
        """The manifest of the last `flush` that is left. Raises `IotraceError`."""
        manifest = find_manifest(self.folder)
        if manifest is None:
            raise IotraceError(
                f"'{self.path}' was cut off before anything was saved", hint=f"delete '{self.folder}'"
            )
        return manifest

    def discard(self) -> None:
        """Remove everything."""
        self._sync.wait()
        for table in self._tables.values():
            table.close_tail()
        remove_given_names(self.folder)
        self._lock.release()

    def _write_manifest(self, manifest: Manifest) -> None:
        with _replacing(self.folder / "manifest.json") as new:
            create_private(new)
            new.write_text(manifest.to_json(), "utf-8")

    def _remove_tails(self, parts: Iterable[Path]) -> None:
        for part in parts:
            self._tables[part.parent.name].remove_tail_of(part)

    def _flush_tables(self, manifest: Manifest | None) -> None:
        about = "" if manifest is None else manifest.to_json()
        while any(table.is_taken(self._number) for table in self._tables.values()):
            self.seal()
        try:
            for table in self._tables.values():
                table.flush(self._number, about)
        except OSError:
            self.seal()  # what the tails hold is whole, and they take no more
            raise

    def _find_tables(self) -> None:
        self._small = {entry.name for entry in self.folder.glob("*.parquet")}
        for entry in self.folder.iterdir():
            if entry.is_dir() and entry.name != SYNCED:
                self.damaged += [f"{entry.name}/{part}" for part in mend_parts(entry)]
                self._tables[entry.name] = _Table(entry)
        self._number = 1 + max((table.last_number() for table in self._tables.values()), default=-1)

    def _unknown(self) -> Iterator[str]:
        """Files that bear the names of a recording's, and that this one did not write."""
        for entry in self.folder.iterdir():
            if entry.suffix == ".parquet" and not entry.name.startswith("."):
                yield from [entry.name] * (entry.name not in self._small)
            elif entry.is_dir() and entry.name != SYNCED:
                table = self._tables.get(entry.name)
                yield from (
                    f"{entry.name}/{piece.name}"
                    for piece in entry.glob("[!.]*")
                    if table is None or piece.name not in table.known
                )

    def _row_count(self, name: str) -> int:
        return sum(pq.read_metadata(path).num_rows for path in parquet_paths_in(self.folder, name))

    def _write_absent_tables(self) -> None:
        present = table_names_in(self.folder)
        for name in set(TABLES) - OPTIONAL_TABLES - set(present):
            with suppress(OSError):
                (self.folder / name).rmdir()
            self.replace(name, TABLES[name].empty_table())

    @contextmanager
    def _disk_errors_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            reason = problem.strerror or str(problem).splitlines()[0][:200]
            is_full = problem.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(problem)
            raise OutputError(
                f"cannot write '{self.path}': {reason}", hint=self._what_is_kept(is_full), is_full=is_full
            ) from problem

    def _what_is_kept(self, is_full: bool) -> str:  # noqa: FBT001
        if not self._is_resumed and not any(self.rows.values()):
            return f"nothing was saved yet: {'make room' if is_full else 'see to the disk'}, and record again"
        recover = f"iotrace capture recover {self.path}"
        if is_full:
            return f"what was recorded so far is kept: make room, then {recover}"
        return f"what has reached the disk is kept: see to the disk, then {recover}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After `commit` or `discard` all of this is done already, and does no harm.
        self._sync.wait()
        for table in self._tables.values():
            table.close_tail()
        self._lock.release()


def _reserve_room(folder: Path) -> None:
    """Without room to reserve, or the means to, the recording just starts."""
    free = shutil.disk_usage(folder).free
    with suppress(OSError, AttributeError), open_private(folder / _RESERVE, "xb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, min(_RESERVE_BYTES, free // _RESERVE_SHARE)))


class OutputError(IotraceError):
    """The disk that the recording goes to takes no more; ``is_full`` tells whether for want of room."""

    def __init__(self, message: str, hint: str, *, is_full: bool) -> None:
        super().__init__(message, hint=hint)
        self.is_full = is_full


class _Table:
    """Parts and tails of one table, by number."""

    def __init__(self, folder: Path) -> None:
        """Go on from what is in ``folder``, after `mend_parts`."""
        self.folder = folder
        self.pending: list[pa.Table] = []
        self.pending_bytes = 0
        """What `flush` writes at most."""
        self.rows: dict[int, int] = {}
        """Rows of each part or tail."""
        self._stream: StreamFile | None = None
        self._stream_number = -1
        self._unsynced: set[Path] = set()
        self._encoded: set[int] = set()
        """Parts that are perhaps not on the disk yet, so that their tails stay."""
        self.known = {entry.name for entry in folder.glob("*-*")}
        """Names of all files that there were at first and were written since."""

    @property
    def open_bytes(self) -> int:
        """Bytes of the growing tail."""
        return 0 if self._stream is None else self._stream.size_bytes

    def last_number(self) -> int:
        """The highest number of a part or tail, -1 if there is none."""
        return max((_number(entry) for entry in self.folder.glob("*-*")), default=-1)

    def add(self, table: pa.Table) -> None:
        self.pending.append(table)
        self.pending_bytes += stream_bytes(table)

    def flush(self, number: int, about: str) -> None:
        """Append what is pending to tail ``number``; a new one keeps ``about``."""
        if not self.pending:
            return
        if self._stream is None:
            if not self.folder.is_dir():
                create_private_folder(self.folder)
            self._stream = StreamFile(self._tail(number), self.pending[0].schema, about)
            self.known.add(self._tail(number).name)
            self._stream_number = number
        self._stream.write(self.pending)
        self._unsynced.add(self._tail(self._stream_number))
        self.rows[number] = self.rows.get(number, 0) + sum(table.num_rows for table in self.pending)
        self.pending, self.pending_bytes = [], 0

    def is_taken(self, number: int) -> bool:
        """Whether somebody else put a file in the place of the tail ``number``, which is to be begun."""
        tail = self._tail(number)
        return self._stream is None and tail.name not in self.known and tail.exists()

    def close_tail(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream, self._stream_number = None, -1

    def sealed(self) -> list[Path]:
        """Tails that grow no more, oldest first; without those in whose place somebody else put a file."""
        left_out = {self._stream_number, *self._encoded}
        return [
            tail
            for tail in sorted(self.folder.glob("tail-*.arrows"))
            if tail.name in self.known
            and _number(tail) not in left_out
            and (self._part(_number(tail)).name in self.known or not self._part(_number(tail)).exists())
        ]

    def take_unsynced(self) -> set[Path]:
        """Files written to since the last call."""
        unsynced, self._unsynced = self._unsynced, set()
        return unsynced

    def encoded(self) -> set[Path]:
        """Parts whose tails are there as well."""
        return {self._part(number) for number in self._encoded}

    def remove_tail_of(self, part: Path) -> None:
        """``part``, if it is one, is on the disk."""
        number = _number(part)
        if part == self._part(number) and number in self._encoded:
            self._encoded.remove(number)
            self._tail(number).unlink(missing_ok=True)

    def encode(self, tail: Path, sort_by: str | None) -> None:
        table = read_stream(tail)
        if table is not None and table.num_rows:
            if self.folder.name in TABLES:
                table = conform(table, self.folder.name)
            if sort_by is not None:
                table = table.sort_by(sort_by)
            with _replacing(self._part(_number(tail))) as new, parquet_writer(new, table.schema) as writer:
                writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self.known.add(self._part(_number(tail)).name)
            self._unsynced.add(self._part(_number(tail)))
            self._encoded.add(_number(tail))
        else:
            tail.unlink()

    def move_single_part(self) -> None:
        """A table of one part is one file, as everywhere."""
        parts = list(self.folder.glob("part-*.parquet"))
        if len(parts) == 1:
            parts[0].rename(self.folder.with_name(f"{self.folder.name}.parquet"))
            self.folder.rmdir()

    def drop(self, number: int) -> None:
        self._part(number).unlink(missing_ok=True)
        self._tail(number).unlink(missing_ok=True)
        self._encoded.discard(number)
        self.rows.pop(number, None)

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:08}.parquet"

    def _tail(self, number: int) -> Path:
        return self.folder / f"tail-{number:08}.arrows"


def unfinished_folder(path: str | Path) -> Path:
    """Where the recording that is to become ``path`` grows. Raises `IotraceError` for a path without a name."""
    path = Path(path)
    if not path.name:
        raise IotraceError(
            f"'{path}' is not the name of a recording", hint="name it as its -o did: NAME.iotrace"
        )
    return path.with_name(path.name + UNFINISHED_SUFFIX)


def is_growing(folder: Path) -> bool:
    """Whether the writer of the unfinished recording in ``folder`` lives."""
    return not FileLock.is_free(folder / GROWING_LOCK)


def _is_bare(folder: Path) -> bool:
    """Whether a writer that is gone left nothing in ``folder`` but its lock and its reserve."""
    try:
        left = {entry.name for entry in folder.iterdir()}
    except OSError:
        return False
    return left <= {GROWING_LOCK, _RESERVE} and not is_growing(folder)


def _is_there(path: Path, folder: Path) -> IotraceError:
    if is_growing(folder):
        return IotraceError(
            f"'{path}' is being recorded just now",
            hint=f"iotrace capture snapshot {path} -o OTHER.iotrace makes a recording of what there is so far",
        )
    return IotraceError(
        f"a recording of '{path}' was cut off, and what it saved is in '{folder}'",
        hint=f"iotrace capture recover {path} makes a recording of it; or delete that folder",
    )


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A name to write to that takes the place of ``path`` when all went well."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # a killed writer's; the folder is locked, so nobody else's
    try:
        yield new
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _copy_growing(source: Path, target: Path) -> None:
    """Rows first, then what they refer to, so that nothing referred to is missing."""
    missed = True
    while missed:
        missed = False
        for file in sorted([*source.glob("*/part-*"), *source.glob("*/tail-*")]):
            copy = target / file.relative_to(source)
            if copy.exists():
                continue
            copy.parent.mkdir(FOLDER_MODE, exist_ok=True)
            try:
                # A tail may still grow, and rows would arrive in the copy that refer to what it lacks.
                _link_or_copy(file, copy) if file.suffix == ".parquet" else _copy(file, copy)
            except FileNotFoundError:
                missed = True  # encoded, or dropped, meanwhile
    for file in source.iterdir():
        if SMALL.fullmatch(file.name):
            _copy(file, target / file.name)


def _link_or_copy(file: Path, copy: Path) -> None:
    try:
        os.link(file, copy)
    except FileNotFoundError:
        raise
    except OSError:
        _copy(file, copy)


def _copy(file: Path, copy: Path) -> None:
    with file.open("rb") as source:
        create_private(copy)
        with copy.open("wb") as target:
            shutil.copyfileobj(source, target)


def _remove_foreign(folder: Path) -> None:
    """What belongs to growing alone, and empty folders of tables; what somebody else put there stays."""
    (folder / _RESERVE).unlink(missing_ok=True)
    for left in [*folder.glob(".*"), *(folder / SYNCED).glob("*")]:
        if LEFT_IN_FOLDER.fullmatch(left.name) and not left.is_dir():
            left.unlink()
    for entry in folder.iterdir():
        if entry.is_dir():
            with suppress(OSError):
                entry.rmdir()


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
