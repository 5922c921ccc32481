"""Reading a recording's I/Os in order of time, as many at once as it takes and no more.

Row groups are read in order of their earliest I/O; a row is given out once no later group can hold an earlier one.
What a recording of iotrace's own takes is a few row groups of memory. A recording whose groups all overlap in time has
to be held whole.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Layer, Op, Recording

from .rows import FLUSH, NEVER, NO_ID, Rows, concatenate, constant, in_order
from .selection import Selection

_NO_WORD: Final = 255

_SURVEYED = ("op", "offset_bytes", "size_bytes", "device_id", "file_id")
_PLAYED = ("completed_ns", "process_id", "thread_id", "flags", "copy")


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group that may hold wanted rows, and the times of its first and last I/O."""

    path: Path
    number: int
    first_ns: int
    last_ns: int
    layer: str | None
    """The one layer in it, where its footer tells."""


@dataclass(slots=True)
class Source:
    """The I/Os of ``recording`` that ``selection`` wants."""

    recording: Recording
    selection: Selection
    space_is: Literal["device", "file", "file or device"] = "device"
    """What an address space is. A device that stands in for an unknown file has the number -2 - device_id."""
    time_column: str = "issued_ns"
    """When an I/O is wanted: for a replayed recording when it was meant to be issued, so that a replay of a replay
    plays the same plan."""
    keeps: Callable[[Rows], npt.NDArray[np.bool_]] | None = None
    """Which of the rows to play, where several generators share them."""
    _groups: list[_Group] = field(default_factory=list)
    _files: dict[Path, pq.ParquetFile] = field(default_factory=dict)

    @classmethod
    def open(cls, recording: Recording, selection: Selection, *, file_by_file: bool = False) -> "Source":
        """Look at the footers, and find what has to be read.

        Address spaces are files for the layers filesystem and sql, else devices; with ``file_by_file`` they are files
        wherever the recording tells which.
        """
        replayed = recording.manifest.is_played
        by_file = selection.layer in (Layer.FILESYSTEM, Layer.SQL)
        space_is: Literal["device", "file", "file or device"] = (
            "file" if by_file else "file or device" if file_by_file else "device"
        )
        source = cls(recording, selection, space_is, "intended_ns" if replayed else "issued_ns")
        for path in recording.parquet_paths("io"):
            with recording.reading("io"):
                source._files[path] = pq.ParquetFile(path)
                source._groups += _groups_of(path, source._files[path], source.time_column)
        source._groups.sort(key=lambda group: group.first_ns)
        return source

    def rows(
        self,
        skipped: dict[str, int] | None = None,
        window_ns: tuple[int, int] | None = None,
        columns: Sequence[str] = _PLAYED,
    ) -> Iterator[Rows]:
        """The I/Os in order of time, in pieces of any size.

        ``window_ns`` narrows the selection's own; ``skipped`` gathers what was left out, by reason. Of completed_ns,
        process_id, thread_id, flags and copy only ``columns`` are read; the others come as unknown.
        """
        first, last = _narrower(self.selection.window_ns, window_ns)
        if self.keeps is not None:
            columns = (*columns, *({"thread_id"} - set(columns)))
        left_out = {} if skipped is None else skipped
        wanted = [group for group in self._groups if group.first_ns < last and group.last_ns >= first]
        held: list[Rows] = []
        for position, read in enumerate(
            _ahead(lambda group: self._read(group, first, last, columns), wanted)
        ):
            piece = self.selection.apply(read, left_out)
            if self.keeps is not None and len(piece):
                piece = piece[self.keeps(piece)]
            if len(piece):
                held.append(piece)
            if not held:
                continue
            bound = wanted[position + 1].first_ns if position + 1 < len(wanted) else None
            rows = in_order(concatenate(held))
            cut = len(rows) if bound is None else int(np.searchsorted(rows.at_ns, bound, side="left"))
            held = [rows[cut:]] if cut < len(rows) else []
            if cut:
                yield rows[:cut]

    def _read(self, group: _Group, first_ns: int, last_ns: int, columns: Sequence[str]) -> Rows:
        one_layer = group.layer == self.selection.layer
        wanted_columns = {*_SURVEYED, *columns, self.time_column}
        if self.selection.process_ids is not None:
            wanted_columns.add("process_id")
        if not one_layer:
            wanted_columns.add("layer")
        with self.recording.reading("io"):
            file = self._files[group.path]
            present = [name for name in file.schema_arrow.names if name in wanted_columns]
            table = file.read_row_group(group.number, columns=present)
            if not one_layer:
                table = table.filter(pc.equal(table["layer"], self.selection.layer))
            if group.first_ns < first_ns or group.last_ns >= last_ns:
                at = table[self.time_column]
                table = table.filter(pc.and_(pc.greater_equal(at, first_ns), pc.less(at, last_ns)))
            return _to_rows(table, self.time_column, self.space_is)


def _ahead(read: Callable[[_Group], Rows], groups: Sequence[_Group]) -> Iterator[Rows]:
    """What ``read`` makes of each group in turn, the next being read while the last is used."""
    with ThreadPoolExecutor(1, "iotrace-reader") as reader:
        following = reader.submit(read, groups[0]) if groups else None
        for group in groups[1:]:
            assert following is not None
            rows = following.result()
            following = reader.submit(read, group)
            yield rows
        if following is not None:
            yield following.result()


def _groups_of(path: Path, file: pq.ParquetFile, time_column: str) -> list[_Group]:
    for name in (time_column, "layer", "op", "size_bytes"):
        if name not in file.schema_arrow.names:
            raise IotraceError(
                f"'{path}' has no column {name}", hint="iotrace validate shows what else is missing"
            )
    if file.schema_arrow.field(time_column).type != pa.int64():
        raise IotraceError(
            f"'{path}' has no times in column {time_column}, but {file.schema_arrow.field(time_column).type}",
            hint="iotrace validate shows what else is wrong",
        )
    leaves = [file.metadata.schema.column(leaf).path for leaf in range(file.metadata.num_columns)]
    column, layer = leaves.index(time_column), leaves.index("layer")
    groups = []
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if not group.num_rows:
            continue
        told = group.column(column).statistics
        if told is not None and told.has_min_max:
            first, last = int(told.min), int(told.max)
        else:
            bounds = pc.min_max(file.read_row_group(number, columns=[time_column])[time_column]).as_py()
            if bounds["min"] is None:
                continue
            first, last = bounds["min"], bounds["max"]
        layers = group.column(layer).statistics
        one = layers is not None and layers.has_min_max and layers.min == layers.max and not layers.null_count
        groups.append(_Group(path, number, first, last, str(layers.min) if one else None))
    return groups


def _narrower(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int]:
    everything = (np.iinfo(np.int64).min, NEVER)
    first, second = one or everything, other or everything
    return max(first[0], second[0]), min(first[1], second[1])


def _to_rows(table: pa.Table, time_column: str, space_is: str) -> Rows:
    rows = table.num_rows

    def numbers(name: str, type_: type[np.generic], null: int) -> npt.NDArray[Any]:
        if name not in table.column_names:
            return constant(np.dtype(type_).type(null), rows)
        column = table[name]
        if column.null_count == rows:
            return constant(np.dtype(type_).type(null), rows)
        if column.null_count:
            column = pc.fill_null(column, null)
        return np.ascontiguousarray(column.to_numpy(), dtype=type_)

    op = _op_numbers(table["op"])
    flush = op == FLUSH
    # What lies beyond 2^63 comes out negative, as what is unknown does, and neither can be played.
    offset = numbers("offset_bytes", np.uint64, np.iinfo(np.uint64).max).view(np.int64)
    at_ns = numbers(time_column, np.int64, 0)
    file_id, device_id = numbers("file_id", np.int32, NO_ID), numbers("device_id", np.int32, NO_ID)
    if space_is == "file or device":
        device_id = np.where(file_id != NO_ID, file_id, -2 - device_id)
    found = Rows(
        at_ns=at_ns,
        issued_ns=at_ns,
        completed_ns=numbers("completed_ns", np.int64, NEVER),
        op=op,
        space=file_id if space_is == "file" else device_id,
        offset_bytes=np.where(flush, 0, offset) if flush.any() else offset,
        size_bytes=numbers("size_bytes", np.int64, 0),
        flags=numbers("flags", np.uint32, 0),
        file_id=file_id,
        process_id=numbers("process_id", np.int32, NO_ID),
        thread_id=numbers("thread_id", np.int32, NO_ID),
        copy=numbers("copy", np.uint16, 0),
        overlap_bytes=constant(np.int64(0), rows),
    )
    return in_order(found)


def _op_numbers(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    pieces = []
    for chunk in column.chunks:
        if isinstance(chunk, pa.DictionaryArray):
            pieces.append(_positions(chunk.dictionary)[chunk.indices.to_numpy()])
        else:
            pieces.append(_positions(chunk))
    numbers = np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)
    if (numbers == _NO_WORD).any():
        raise ValueError("op holds what is no operation")
    return numbers


def _positions(words: pa.Array) -> npt.NDArray[np.uint8]:
    found = pc.index_in(words.cast(pa.string()), value_set=pa.array(list(Op), pa.string()))
    positions: npt.NDArray[np.int32] = pc.fill_null(found, _NO_WORD).to_numpy(zero_copy_only=False)
    return positions.astype(np.uint8)


def space_names(source: Source) -> dict[int, str]:
    """What the user knows each address space by: the source device's name, or the file's path."""
    files, devices = source.recording.read("files"), source.recording.read("devices")
    of_files = dict(zip(files["file_id"].to_pylist(), map(str, files["path"].to_pylist()), strict=True))
    of_devices = dict(
        zip(devices["device_id"].to_pylist(), map(str, devices["name"].to_pylist()), strict=True)
    )
    if source.space_is == "device":
        return of_devices
    return (
        of_files
        if source.space_is == "file"
        else of_files | {-2 - key: name for key, name in of_devices.items()}
    )
