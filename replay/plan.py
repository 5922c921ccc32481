"""From a recording and the part of it to play, the rows of one layer in order of issue.

Which rows: one layer only, or each I/O would be played once per layer that saw it. The block layer is what the
operating system asked of its disks, cache and merging above it done; it is the default where present.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import IoFlags, IotraceError, Layer, Op, Recording

LAYER_PREFERENCE = (Layer.BLOCK, Layer.DEVICE, Layer.FILESYSTEM, Layer.SQL)
READ, WRITE, FLUSH, DISCARD = range(4)
SIZE_BYTES_MAX = 256 << 20
"""The largest single I/O the engine carries; longer ones are skipped and counted."""

_COLUMNS = (
    "layer",
    "op",
    "issued_ns",
    "offset_bytes",
    "size_bytes",
    "device_id",
    "file_id",
    "process_id",
    "thread_id",
    "flags",
)
_NO_ID = -1


@dataclass(slots=True)
class Rows:
    """The I/Os to play, one array element each, in order of issue.

    ``space`` is the address space an offset lies in: the source's device for the block and device layers, its file
    for filesystem and sql; -1 where the recording does not tell. ``process`` and the like are -1 where unknown.
    """

    layer: str
    issued_ns: npt.NDArray[np.int64]
    op: npt.NDArray[np.uint8]
    space: npt.NDArray[np.int32]
    offset_bytes: npt.NDArray[np.uint64]
    size_bytes: npt.NDArray[np.uint32]
    flags: npt.NDArray[np.uint32]
    file_id: npt.NDArray[np.int32]
    process_id: npt.NDArray[np.int32]
    thread_id: npt.NDArray[np.int32]
    skipped: dict[str, int] = field(default_factory=dict)
    """I/Os left out, by reason."""

    def __len__(self) -> int:
        return len(self.issued_ns)

    def writes_in(self, spaces: list[int]) -> bool:
        """Whether playing these changes what ``spaces`` are mapped to."""
        return bool(np.isin(self.space[self.op == WRITE], spaces).any())

    @property
    def transfers(self) -> npt.NDArray[np.bool_]:
        """Which rows move data: reads and writes."""
        return self.op <= WRITE

    def keep(self, chosen: npt.NDArray[np.bool_], reason: str) -> "Rows":
        """The rows where ``chosen`` is true; the others are counted as skipped for ``reason``."""
        left_out = len(self) - int(chosen.sum())
        if not left_out:
            return self
        arrays = {name: getattr(self, name)[chosen] for name in _ARRAYS}
        return Rows(
            self.layer, **arrays, skipped=self.skipped | {reason: self.skipped.get(reason, 0) + left_out}
        )


_ARRAYS = (
    "issued_ns", "op", "space", "offset_bytes", "size_bytes", "flags", "file_id", "process_id", "thread_id",
)  # fmt: skip


def choose_layer(recording: Recording, layer: str | None) -> str:
    """The layer to play: ``layer`` if the recording has it, or the first it has of block, device, filesystem, sql."""
    present: set[str] = set()
    for path in recording.parquet_paths("io"):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1 << 18, columns=["layer"]):
            present |= set(pc.unique(batch["layer"]).to_pylist())
    if layer is not None:
        if layer not in list(Layer):
            raise IotraceError(f"there is no layer '{layer}'", hint=f"layers are {', '.join(Layer)}")
        if layer not in present:
            raise IotraceError(
                f"'{recording.path}' has no I/O of the layer '{layer}'",
                hint=f"it has {', '.join(sorted(present)) or 'no I/O at all'}",
            )
        return layer
    for candidate in LAYER_PREFERENCE:
        if candidate in present:
            return str(candidate)
    raise IotraceError(
        f"'{recording.path}' holds no I/O to replay", hint="see iotrace describe for what it holds"
    )


def load_rows(
    recording: Recording,
    *,
    layer: str | None = None,
    window_ns: tuple[int, int] | None = None,
    reads_only: bool = False,
) -> Rows:
    """Read the I/Os of one layer issued within ``window_ns`` (start included, end not).

    Left out and counted: discards, I/Os without an offset or of no length, I/Os over 256 MiB, and with
    ``reads_only`` all but reads. About 60 bytes of memory per I/O. Raises `IotraceError` when nothing is left.
    """
    chosen_layer = choose_layer(recording, layer)
    pieces: list[pa.RecordBatch] = []
    for path in recording.parquet_paths("io"):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1 << 18, columns=list(_COLUMNS)):
            wanted = pc.equal(batch["layer"], chosen_layer)
            if window_ns is not None:
                issued = batch["issued_ns"]
                inside = pc.and_(pc.greater_equal(issued, window_ns[0]), pc.less(issued, window_ns[1]))
                wanted = pc.and_(wanted, inside)
            piece = batch.filter(wanted)
            if piece.num_rows:
                pieces.append(piece)
    if not pieces:
        where = f" between {window_ns[0]} and {window_ns[1]} ns" if window_ns else ""
        raise IotraceError(
            f"'{recording.path}' has no I/O of the layer '{chosen_layer}'{where}",
            hint="choose another window",
        )
    rows = _to_rows(pa.Table.from_batches(pieces), chosen_layer)
    rows = rows.keep(rows.op != DISCARD, "discards")
    if reads_only:
        rows = rows.keep(rows.op == READ, "not reads")
    known = (rows.offset_bytes != np.iinfo(np.uint64).max) | ~rows.transfers
    rows = rows.keep(known, "offset unknown")
    rows = rows.keep((rows.size_bytes > 0) | ~rows.transfers, "no length")
    rows = rows.keep((rows.size_bytes <= SIZE_BYTES_MAX) | ~rows.transfers, "over 256 MiB")
    rows = rows.keep(rows.offset_bytes <= np.uint64(1 << 62), "offset beyond any disk")
    if not len(rows):
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in rows.skipped.items())
        raise IotraceError(
            f"nothing in '{recording.path}' can be replayed: {reasons}", hint="choose another layer"
        )
    return rows


def _to_rows(table: pa.Table, layer: str) -> Rows:
    table = table.sort_by("issued_ns")

    def numbers(name: str, type_: npt.DTypeLike, null: int) -> npt.NDArray[Any]:
        column = table[name]
        if column.null_count:
            column = pc.fill_null(column, null)
        return np.ascontiguousarray(column.to_numpy(), dtype=type_)

    op = pc.index_in(table["op"].cast(pa.string()), value_set=pa.array(list(Op), pa.string()))
    kinds = op.to_numpy().astype(np.uint8)
    offset = np.where(
        kinds == FLUSH, np.uint64(0), numbers("offset_bytes", np.uint64, np.iinfo(np.uint64).max)
    )
    by_file = layer in (Layer.FILESYSTEM, Layer.SQL)
    return Rows(
        layer=layer,
        issued_ns=numbers("issued_ns", np.int64, 0),
        op=kinds,
        space=numbers("file_id" if by_file else "device_id", np.int32, _NO_ID),
        offset_bytes=offset,
        size_bytes=numbers("size_bytes", np.uint32, 0),
        flags=numbers("flags", np.uint32, 0),
        file_id=numbers("file_id", np.int32, _NO_ID),
        process_id=numbers("process_id", np.int32, _NO_ID),
        thread_id=numbers("thread_id", np.int32, _NO_ID),
    )


def space_names(recording: Recording, rows: Rows) -> dict[int, str]:
    """What the user knows each address space by: the source device's name, or the file's path."""
    by_file = rows.layer in (Layer.FILESYSTEM, Layer.SQL)
    table = recording.read(
        "files" if by_file else "devices", ["file_id", "path"] if by_file else ["device_id", "name"]
    )
    known = dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
    return {int(space): str(known.get(int(space), f"unknown {space}")) for space in np.unique(rows.space)}


def durable(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows are writes that the source wanted on stable media at their completion."""
    through = (rows.flags & np.uint32(IoFlags.WRITE_THROUGH)) != 0
    return np.asarray((rows.op == WRITE) & through, np.bool_)
