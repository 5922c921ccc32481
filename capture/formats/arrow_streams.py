"""A recording as Arrow IPC streams: what an agent can write while it records, and a crash cannot spoil.

A folder with ``manifest.json``, as a recording has it, and for each table a stream ``TABLE.arrows`` with the columns of
`iotrace.schemas.tables`; or pieces of it in order, ``TABLE-NUMBER.arrows``, of which a writer that keeps the last hour
only drops the oldest. The manifest says what would be true if nothing came after it. A stream may be cut anywhere:
its whole batches are read. A writer may learn names late, and leaves to the reader what follows from them: rows of
``devices``, ``files`` and ``processes`` that agree in all but their key are one thing; a null ``path`` or
``os_process_id`` is one whose name was never learnt; a null ``role`` follows from the path, the ``metadata`` flag of an
I/O from its file's path, units and common metrics of ``counters`` without a ``metric`` from their names, and the device
of an I/O of the filesystem layer that names none from its file's. A stream ``raw_counters`` is no table: rows of
``counters`` are made of its raw values (`iotrace.capture.counters.samples`). A writer that ends well closes each stream
with the format's end mark (continuation and a length of 0; Arrow Columnar Format, "IPC Streaming Format"); where one
is missing, ``quality.ended`` says so.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.counters.names import PER_IO_METRICS, meaning
from iotrace.capture.counters.samples import RawCounters
from iotrace.capture.roles import classify, is_metadata
from iotrace.schemas import TABLES, IoFlags, IotraceError, Layer, Manifest, Role, conform, counted
from iotrace.schemas.tables import KEYS, REFERENCES

from .format import Family, Format, Outcome, Progress, Trace, naming

_CONTINUATION: Final = b"\xff\xff\xff\xff"
_END_MARK: Final = _CONTINUATION + bytes(4)
_SCHEMA_BYTES_MAX: Final = 1 << 24
_BATCH_BYTES_MAX: Final = 1 << 30
_MANIFEST_BYTES_MAX: Final = 1 << 24
_NAMES: Final = {"devices": "name", "files": "path", "processes": "os_process_id"}
_MANIFEST: Final = "manifest.json"
_SUFFIX: Final = ".arrows"
_RAW_COUNTERS: Final = "raw_counters"
_PIECE: Final = re.compile(r"(.+)-([0-9]{1,18})")
_UNCLOSED: Final = "its streams were never closed: their writer still ran, or was cut off"


def _member(name: str) -> tuple[str, int] | None:
    if name == _MANIFEST:
        return "", 0
    return ("", 1) if name.endswith(_SUFFIX) else None


def _recognises(head: bytes, _path: Path) -> bool:
    length = int.from_bytes(head[4:8], "little")
    return len(head) > 16 and head.startswith(_CONTINUATION) and 16 <= length <= _SCHEMA_BYTES_MAX


def _read(paths: Sequence[Path], names: Sequence[str], progress: Progress) -> "ArrowStreamsTrace":
    streams: dict[str, list[_Stream]] = {}
    manifest: Manifest | None = None
    for path, own in zip(paths, names, strict=True):
        base = Path(own).name
        if base == _MANIFEST:
            with naming(own):
                if path.stat().st_size > _MANIFEST_BYTES_MAX:
                    raise IotraceError(f"'{own}' is over 16 MiB", hint="it is damaged, or not a manifest")
                manifest = Manifest.from_json(path.read_text("utf-8", "replace"), own)
        else:
            stream = _Stream(path, own)
            streams.setdefault(stream.table, []).append(stream)
    if manifest is None:
        raise IotraceError(
            f"'{names[0]}' is an Arrow stream without the manifest.json of a recording beside it",
            hint="name the folder that holds both",
        )
    tables = {
        table: _Table(sorted(pieces, key=lambda piece: piece.number)) for table, pieces in streams.items()
    }
    return ArrowStreamsTrace(names[0], progress, manifest, tables)


class _Table:
    """All that there is of one table: a stream, or its pieces in order."""

    def __init__(self, pieces: list["_Stream"]) -> None:
        self.pieces = pieces
        self.name = pieces[0].name
        """Of the file that is being read."""

    @property
    def rows(self) -> int:
        """Read so far."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        """On disk."""
        return sum(piece.path.stat().st_size for piece in self.pieces)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Whole batches in order."""
        for piece in self.pieces:
            self.name = piece.name
            yield from piece.batches()


class _Stream:
    """A stream, read as far as it goes."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        whole = Path(name).name.removesuffix(_SUFFIX)
        piece = _PIECE.fullmatch(whole)
        self.table, self.number = (piece[1], int(piece[2])) if piece else (whole, -1)
        self.rows = 0
        self.is_closed = self.is_cut = False
        self.damage: str | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Whole batches in order, each checked: nothing of what follows reads outside of them."""
        self.rows, self.damage = 0, None
        self.is_closed = self.is_cut = False
        with naming(self.name), pa.OSFile(str(self.path)) as file:
            size = file.size()
            try:
                reader = pa.ipc.open_stream(file)
                while True:
                    batch = reader.read_next_batch()
                    batch.validate()  # even to count its bytes reads what its lengths say
                    if batch.nbytes > _BATCH_BYTES_MAX:
                        self.damage = "a batch is over 1 GiB"
                        return
                    batch.validate(full=True)
                    self.rows += len(batch)
                    yield batch
            except StopIteration:
                self.is_closed = _ends_with_mark(file, size)
            except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
                # What is missing at the end is a cut; what is wrong before it is damage.
                self.is_cut = file.closed or file.tell() >= size or not size
                if not self.is_cut:
                    self.damage = str(problem).splitlines()[0][:200]


def _ends_with_mark(file: pa.NativeFile, size: int) -> bool:
    if size < len(_END_MARK):
        return False
    file.seek(size - len(_END_MARK))
    return bytes(file.read(len(_END_MARK))) == _END_MARK


class ArrowStreamsTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, name: str, progress: Progress, manifest: Manifest, streams: dict[str, _Table]) -> None:
        self._name, self._progress, self._manifest, self._streams = name, progress, manifest, streams
        self.clock = manifest.clock
        self.host = manifest.host
        self._places: dict[str, tuple[pa.Array, pa.Array]] = {}
        """Keys of each table as its stream has them, and the ids they get; null for those without a name."""
        self._file_devices = pa.array([], pa.int32())
        self._metadata_files = pa.array([], pa.int32())
        self._dangling = self._repeated = self._rows = self._impossible = 0
        self._last_ns = manifest.window_end_ns
        self._raw_counters = RawCounters(name)

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Devices, files and processes first, whenever they were written, then every other table as it grew."""
        self._dangling = self._repeated = self._rows = self._impossible = 0
        self._raw_counters = RawCounters(self._name)
        total = sum(table.size_bytes for table in self._streams.values())
        done = 0
        for table_name in [*KEYS, *sorted(self._streams.keys() - KEYS.keys())]:
            stream = self._streams.get(table_name)
            pieces = stream.batches() if stream else iter(())
            if table_name in KEYS:
                yield table_name, self._keyed(table_name, list(pieces))
            elif table_name == _RAW_COUNTERS:
                for batch in pieces:
                    yield "counters", self._cooked(batch)
            else:
                for batch in pieces:
                    yield table_name, self._row_batch(table_name, batch)
            if stream:
                done += stream.size_bytes
                self._progress(f"reading {self._name}", done, total)

    def outcome(self) -> Outcome:
        """The manifest's window, up to the last I/O if that is later; its quality, and what the streams lack."""
        streams, manifest = self._pieces(), self._manifest
        quality = replace(manifest.quality, notes=[*manifest.quality.notes, *self._notes()])
        quality.latencies_dropped += self._impossible
        quality.damaged_buffers += sum(stream.damage is not None for stream in streams)
        quality.truncated_tail |= any(stream.is_cut for stream in streams)
        if not all(stream.is_closed for stream in streams) and quality.ended == "normally":
            quality.ended = _UNCLOSED
        return Outcome(manifest.window_start_ns, self._last_ns, quality, self._rows)

    def _pieces(self) -> list[_Stream]:
        return [piece for table in self._streams.values() for piece in table.pieces]

    def _keyed(self, table_name: str, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        """A table of things with a key: ids become dense; a key that comes again stands for the same thing."""
        named, nameless = self._named(table_name, batches)
        keys = named.column(KEYS[table_name]).combine_chunks()
        known = pc.unique(keys)
        self._repeated += len(keys) - len(known)
        table = named.take(pc.index_in(known, value_set=keys))
        ids, firsts = _same_things(table.drop_columns([KEYS[table_name]]))
        table = table.take(firsts)
        self._rows += len(table)
        nameless = nameless.filter(pc.invert(pc.is_in(nameless, value_set=known)))
        self._places[table_name] = (
            pa.concat_arrays([known, nameless]),
            pa.concat_arrays([ids, pa.nulls(len(nameless), pa.int32())]),
        )
        batch = self._renumbered(table.combine_chunks())
        if table_name == "files":
            paths = batch.column("path").to_pylist()
            own = [place for place, path in enumerate(paths) if is_metadata(path)]
            self._metadata_files = pa.array(own, pa.int32())
            self._file_devices = batch.column("device_id")
        return batch

    def _named(self, table_name: str, batches: list[pa.RecordBatch]) -> tuple[pa.Table, pa.Array]:
        """The rows that have a name, and the keys of those that have none."""
        key, name = KEYS[table_name], _NAMES[table_name]
        tables = [TABLES[table_name].empty_table()]
        nameless = [pa.array([], pa.int32())]
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if {key, name} <= set(rows.column_names):
                has_name = pc.is_valid(rows.column(name))
                with _conforming(self._streams[table_name].name):
                    without = rows.column(key).filter(pc.invert(has_name)).cast(pa.int32())
                nameless.append(without.combine_chunks())
                rows = rows.filter(has_name)
            tables.append(self._conformed(table_name, _with_roles(rows) if table_name == "files" else rows))
        return pa.concat_tables(tables), pc.unique(pa.concat_arrays(nameless))

    def _row_batch(self, table_name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._rows += len(batch)
        if table_name not in TABLES:
            return batch
        table = self._conformed(table_name, _with_meanings(batch) if table_name == "counters" else batch)
        if table_name == "io" and len(table):
            table = self._without_impossible_ends(table)
            last = pc.max(pc.coalesce(table.column("completed_ns"), table.column("issued_ns"))).as_py()
            self._last_ns = max(self._last_ns, last)
        if table_name == "io":
            return self._by_files(self._renumbered(table.combine_chunks()))
        return self._renumbered(table.combine_chunks())

    def _cooked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._rows += len(batch)
        with _conforming(self._streams[_RAW_COUNTERS].name):
            return self._raw_counters.rows(batch)

    def _by_files(self, io: pa.RecordBatch) -> pa.RecordBatch:
        """I/Os with what their files tell of them."""
        files = io.column("file_id")
        if len(self._metadata_files):
            of_metadata = pc.is_in(files, value_set=self._metadata_files)
            flags = pc.if_else(
                of_metadata, pa.scalar(int(IoFlags.METADATA), pa.uint32()), pa.scalar(0, pa.uint32())
            )
            io = _with_column(io, "flags", pc.bit_wise_or(io.column("flags"), flags))
        devices = io.column("device_id")
        if devices.null_count and self._file_devices.null_count < len(self._file_devices):
            layers = io.column("layer").cast(pa.string())
            takes = pc.and_(pc.equal(layers, str(Layer.FILESYSTEM)), pc.is_null(devices))
            io = _with_column(io, "device_id", pc.if_else(takes, self._file_devices.take(files), devices))
        return io

    def _without_impossible_ends(self, io: pa.Table) -> pa.Table:
        issued, completed = io.column("issued_ns"), io.column("completed_ns")
        # Damaged times may lie so far apart that their difference does not fit, and comes out negative.
        is_impossible = pc.or_(pc.less(completed, issued), pc.less(pc.subtract(completed, issued), 0))
        backwards = pc.fill_null(is_impossible, fill_value=False)
        count = pc.sum(backwards).as_py()
        if not count:
            return io
        self._impossible += count
        place = io.schema.get_field_index("completed_ns")
        kept = pc.if_else(backwards, pa.scalar(None, pa.int64()), completed)
        return io.set_column(place, io.schema.field(place), kept)

    def _renumbered(self, table: pa.Table) -> pa.RecordBatch:
        for position, name in enumerate(table.column_names):
            if name in REFERENCES and REFERENCES[name] in self._places:
                column = table.column(position)
                keys, ids = self._places[REFERENCES[name]]
                places = pc.index_in(column, value_set=keys, skip_nulls=True)
                places = pc.if_else(pc.is_valid(column), places, pa.scalar(None, pa.int32()))
                self._dangling += places.null_count - column.null_count
                table = table.set_column(position, table.schema.field(position), pc.take(ids, places))
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

    def _conformed(self, table_name: str, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        with _conforming(self._streams[table_name].name):
            return conform(batch, table_name)

    def _notes(self) -> Iterator[str]:
        for stream in self._pieces():
            if stream.is_cut:
                yield f"{stream.name} is cut off inside a batch: {counted(stream.rows, 'row')} before it kept"
            if stream.damage is not None:
                kept = counted(stream.rows, "row")
                yield f"{stream.name} is damaged after {kept}, the rest is left out: {stream.damage}"
        for name, rows in self._manifest.rows.items():
            found = self._streams[name].rows if name in self._streams else 0
            if found < rows:
                yield f"{counted(rows - found, 'row')} of {name} missing that the manifest counts"
        yield from self._raw_counters.notes()
        if self._dangling:
            yield f"{self._dangling:,} references name devices, files or processes that are missing, and are left empty"
        if self._repeated:
            yield f"{self._repeated:,} rows of devices, files and processes repeat a key; the first of each is kept"


def _same_things(table: pa.Table) -> tuple[pa.Array, pa.Array]:
    """For each row the number of the thing it tells of, in order of appearance, and the first row of each thing."""
    numbers: dict[tuple[object, ...], int] = {}
    ids: list[int] = []
    firsts: list[int] = []
    columns = [column.to_pylist() for column in table.columns]
    for place, row in enumerate(zip(*columns, strict=True)):
        number = numbers.setdefault(row, len(numbers))
        ids.append(number)
        if number == len(firsts):
            firsts.append(place)
    return pa.array(ids, pa.int32()), pa.array(firsts, pa.int64())


def _with_roles(files: pa.Table) -> pa.Table:
    """Files of which those without a role have the one, and the database, that follows from their path."""
    if "path" not in files.column_names:
        return files
    guesses = [classify(path) for path in files.column("path").to_pylist()]
    told = files.column("role") if "role" in files.column_names else pa.nulls(len(files), pa.string())
    if pa.types.is_dictionary(told.type):
        told = told.cast(pa.string())
    words = list(Role)
    roles = pa.array(
        [words.index(role) if pa.types.is_integer(told.type) else str(role) for role, _ in guesses]
    )
    databases = pa.array([database for _, database in guesses], pa.string())
    has_role = pc.is_valid(told)
    named = (
        files.column("database") if "database" in files.column_names else pa.nulls(len(files), pa.string())
    )
    files = files.drop_columns([name for name in ("role", "database") if name in files.column_names])
    files = files.append_column("role", pc.if_else(has_role, told, roles.cast(told.type)))
    return files.append_column("database", pc.if_else(has_role, named.cast(pa.string()), databases))


def _with_meanings(counters: pa.RecordBatch) -> pa.RecordBatch:
    """Counters as Windows shows them, with the unit, layer and metric that their names tell; values in that unit."""
    if "metric" in counters.schema.names or not {"object", "counter", "value"} <= set(counters.schema.names):
        return counters
    names = zip(counters.column("object").to_pylist(), counters.column("counter").to_pylist(), strict=True)
    senses = [meaning(object_name or "", counter or "") for object_name, counter in names]
    values = [
        None if value is None else value * sense.factor
        for value, sense in zip(counters.column("value").to_pylist(), senses, strict=True)
    ]
    # A mean over no I/O is shown as 0 by Windows; it is no latency and no size.
    metrics = [
        None if sense.metric in PER_IO_METRICS and not value else sense.metric
        for value, sense in zip(values, senses, strict=True)
    ]
    columns = {name: counters.column(name) for name in counters.schema.names} | {
        "value": pa.array(values, pa.float64()),
        "unit": pa.array([sense.unit for sense in senses], pa.string()),
        "layer": pa.array([sense.layer for sense in senses], pa.string()),
        "metric": pa.array(metrics, pa.string()),
    }
    return pa.record_batch(columns)


def _with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), values)


@contextmanager
def _conforming(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, pa.ArrowException) as problem:
        raise IotraceError(
            f"'{name}' is not a table of a recording: {str(problem).splitlines()[0][:200]}",
            hint="its columns and their types are in schemas/recording.json",
        ) from problem


def _inspect(paths: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    trace = _read(paths, names, lambda *_: None)
    rows: dict[str, int] = {}
    for table_name, batch in trace.batches():
        rows[table_name] = rows.get(table_name, 0) + len(batch)
    quality = trace.outcome().quality
    return {
        "format": "arrow-streams",
        "whole": not (quality.truncated_tail or quality.damaged_buffers) and quality.ended == "normally",
        "ended": quality.ended,
        "starts_utc_ns": trace.clock.start_utc_ns,
        "rows": rows,
        "notes": quality.notes,
    }


def _alone(path: Path, name: str, progress: Progress) -> Trace:
    return _read([path], [name], progress)


FORMAT: Final = Format(
    "arrow-streams",
    _recognises,
    _alone,
    lambda path, name: _inspect([path], [name]),
    Family(_member, _read, _inspect),
)
