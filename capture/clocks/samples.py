"""Which I/Os of a trace to compare with another's: a sample chosen by what an I/O asked for, never by when.

Two traces of the same I/Os therefore keep the same ones, however large they are and in whatever order they tell them.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.schemas import Layer, Op, conform

from .offsets import NO_TIME, Integers, IoSample

Hashes = npt.NDArray[np.uint64]

_ROWS_MAX: Final = 1 << 18
_REPEATS_MAX: Final = 64
_LAYERS: Final = list(Layer)
_OPS: Final = [list(Op).index(Op.READ), list(Op).index(Op.WRITE)]
IN_FILES: Final = frozenset({Layer.SQL, Layer.FILESYSTEM})
"""Layers whose offsets are in files; those of all others are on devices."""


@dataclass(slots=True)
class LayerSample:
    """Sampled I/Os of one layer, and from when to when the layer has any. Times are the trace's own."""

    key: Hashes
    name: Hashes
    """Of the file without its folders, 0 where it is not known."""
    issued_ns: Integers
    completed_ns: Integers
    threshold: int
    """Keys up to this one are kept, all others are not."""
    first_ns: int
    last_ns: int

    def shifted(self, by_ns: int) -> "LayerSample":
        """The same I/Os with all times later by ``by_ns``."""
        completed = np.where(self.completed_ns == NO_TIME, NO_TIME, self.completed_ns + by_ns)
        return LayerSample(
            self.key, self.name, self.issued_ns + by_ns, completed, self.threshold, self.first_ns + by_ns,
            self.last_ns + by_ns,
        )  # fmt: skip


def joined(samples: list[LayerSample]) -> LayerSample:
    """Samples of several files of one clock as one."""
    threshold = min(sample.threshold for sample in samples)
    kept = [sample.key <= np.uint64(threshold) for sample in samples]

    def column(of: str) -> npt.NDArray[np.uint64]:
        parts = [getattr(sample, of)[keep] for sample, keep in zip(samples, kept, strict=True)]
        return np.concatenate(parts)

    return LayerSample(
        column("key"), column("name"), column("issued_ns").astype(np.int64),
        column("completed_ns").astype(np.int64), threshold, min(sample.first_ns for sample in samples),
        max(sample.last_ns for sample in samples),
    )  # fmt: skip


def comparable(one: LayerSample, other: LayerSample) -> tuple[IoSample, IoSample]:
    """Both samples with the same choice of I/Os; files count by name where both traces name most of them."""
    threshold = np.uint64(min(one.threshold, other.threshold))
    by_name = all(len(sample.name) and np.mean(sample.name != 0) > 0.5 for sample in (one, other))
    return _chosen(one, threshold, by_name=by_name), _chosen(other, threshold, by_name=by_name)


def _chosen(sample: LayerSample, threshold: np.uint64, *, by_name: bool) -> IoSample:
    keep = sample.key <= threshold
    key = sample.key[keep]
    if by_name:
        named = sample.name[keep] != 0
        key = _mixed(key ^ sample.name[keep])[named]
        keep[keep] = named
    return IoSample(key, sample.issued_ns[keep], sample.completed_ns[keep])


class Sampler:
    """Takes the batches of a trace and keeps a bounded sample of each layer."""

    def __init__(self) -> None:
        self._names: dict[int, int] = {}
        self._layers: dict[int, _Kept] = {}

    def add(self, table_name: str, batch: pa.RecordBatch) -> None:
        """Look at rows of any table; only files and I/Os matter."""
        if table_name == "files":
            for file_id, path in zip(
                batch.column("file_id").to_pylist(), batch.column("path").to_pylist(), strict=True
            ):
                self._names[file_id] = _name_hash(path)
        elif table_name == "io" and len(batch):
            self._add_io(conform(batch, "io").combine_chunks())

    def samples(self) -> dict[str, LayerSample]:
        """What was kept, by layer."""
        return {str(_LAYERS[number]): kept.sample() for number, kept in self._layers.items()}

    def _add_io(self, io: pa.Table) -> None:
        layer, op = (_positions(io.column(name)) for name in ("layer", "op"))
        issued = io.column("issued_ns").to_numpy()
        completed = pc.fill_null(io.column("completed_ns"), NO_TIME).to_numpy()
        size = io.column("size_bytes").to_numpy().astype(np.uint64)
        offset = pc.fill_null(io.column("offset_bytes"), 0).to_numpy()
        usable = np.isin(op, _OPS) & (size > 0) & pc.is_valid(io.column("offset_bytes")).to_numpy()
        key = _mixed(offset ^ _mixed(size * np.uint64(4) + op.astype(np.uint64)))
        files = pc.fill_null(io.column("file_id"), -1).to_numpy()
        for number in np.unique(layer):
            rows = np.flatnonzero((layer == number) & usable)
            if not len(rows):
                continue
            if number not in self._layers:
                self._layers[number] = _Kept()
            kept = self._layers[number]
            moment = np.where(completed[rows] == NO_TIME, issued[rows], completed[rows])
            kept.span(int(moment.min()), int(moment.max()))
            rows = rows[key[rows] <= np.uint64(kept.threshold)]
            name = np.zeros(len(rows), np.uint64)
            if _LAYERS[number] in IN_FILES:
                known = {file: self._names.get(file, 0) for file in np.unique(files[rows]).tolist()}
                name = np.array([known[file] for file in files[rows].tolist()], np.uint64)
            kept.add(key[rows], name, issued[rows], completed[rows])


class _Kept:
    """The sample of one layer as it grows: when it is full, half of the keys go."""

    def __init__(self) -> None:
        self.threshold = (1 << 64) - 1
        self._parts: list[tuple[Hashes, Hashes, Integers, Integers]] = []
        self._rows = 0
        self._common = np.empty(0, np.uint64)
        self._first_ns: int | None = None
        self._last_ns = 0

    def span(self, first_ns: int, last_ns: int) -> None:
        self._last_ns = last_ns if self._first_ns is None else max(self._last_ns, last_ns)
        self._first_ns = first_ns if self._first_ns is None else min(self._first_ns, first_ns)

    def add(self, key: Hashes, name: Hashes, issued: Integers, completed: Integers) -> None:
        rare = ~np.isin(key, self._common)
        self._parts.append((key[rare], name[rare], issued[rare], completed[rare]))
        self._rows += int(rare.sum())
        if self._rows > _ROWS_MAX:
            self._thin()

    def sample(self) -> LayerSample:
        key, name, issued, completed = self._columns()
        return LayerSample(key, name, issued, completed, self.threshold, self._first_ns or 0, self._last_ns)

    def _columns(self) -> tuple[Hashes, Hashes, Integers, Integers]:
        key, name, issued, completed = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return key, name, issued, completed

    def _thin(self) -> None:
        columns = self._columns()
        # What comes back again and again tells no time, and no threshold would be rid of it.
        keys, counts = np.unique(columns[0], return_counts=True)
        self._common = np.union1d(self._common, keys[counts > _REPEATS_MAX])
        keep = ~np.isin(columns[0], self._common)
        while int(keep.sum()) > _ROWS_MAX // 2 and self.threshold:
            self.threshold //= 2
            keep &= columns[0] <= np.uint64(self.threshold)
        key, name, issued, completed = columns
        self._parts = [(key[keep], name[keep], issued[keep], completed[keep])]
        self._rows = int(keep.sum())


def _positions(column: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    return np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])


def _mixed(value: Hashes) -> Hashes:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit in depends on every bit out."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _name_hash(path: str | None) -> int:
    """Of the last part of a path, in any case; 0 for what is no path."""
    if not path or not ("/" in path or "\\" in path):
        return 0
    last = path.replace("\\", "/").rsplit("/", 1)[1].lower()
    return int.from_bytes(hashlib.blake2b(last.encode(), digest_size=8).digest()) | 1
