"""Which rows belong together: streams (device, file, operation), and the groups figures are given for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas import Layer, Op

Ints = npt.NDArray[Any]

LAYERS: Final = tuple(Layer)
OPS: Final = tuple(Op)
_TABLE_KEYS_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """I/Os that could continue one another: one device, one file, one operation. Ids are None where unknown."""

    layer: str
    device_id: int | None
    file_id: int | None
    role: str
    op: str


class Streams:
    """Numbers the streams of a recording, so that a row's is found by looking it up."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        """``streams`` names every combination that occurs, each once."""
        self.streams = list(streams)
        self._devices = max((_id(stream.device_id) for stream in streams), default=-1) + 2
        self._files = max((_id(stream.file_id) for stream in streams), default=-1) + 2
        self._has_layers = len({stream.layer for stream in streams}) > 1
        keys = np.array([self._key(stream) for stream in streams], dtype=np.int64)
        self._kind = np.int32 if len(keys) == 0 or keys.max() < 1 << 30 else np.int64
        self._order = np.argsort(keys)
        self._sorted_keys = keys[self._order]
        self.number_kind: type[np.unsignedinteger] = (
            np.uint8 if len(keys) <= 1 << 8 else np.uint16 if len(keys) <= 1 << 16 else np.uint32
        )
        """Sorting by a narrow number is many times faster."""
        self._table: npt.NDArray[np.unsignedinteger] | None = None
        if len(keys) and keys.max() < _TABLE_KEYS_MAX:
            self._table = np.zeros(int(keys.max()) + 1, dtype=self.number_kind)
            self._table[keys] = np.arange(len(keys))

    def __len__(self) -> int:
        return len(self.streams)

    def numbers(self, layers: Ints | None, ops: Ints, device_ids: Ints, file_ids: Ints) -> Ints:
        """Position in ``streams`` of each I/O; ids are -1 where null, ``layers`` only matters if there are several."""
        key: Ints = device_ids.astype(self._kind)
        key += 1
        if self._has_layers and layers is not None:
            key += layers.astype(self._kind) * self._devices
        key *= self._files
        key += file_ids
        key += 1
        key *= len(OPS)
        key += ops
        if self._table is not None:
            return self._table[key]
        coded = pa.array(key).dictionary_encode()
        places = np.searchsorted(self._sorted_keys, coded.dictionary.to_numpy())
        numbers: Ints = self._order[places].astype(self.number_kind)
        return np.asarray(numbers[coded.indices.to_numpy()])

    def _key(self, stream: Stream) -> int:
        layer = LAYERS.index(stream.layer) if self._has_layers else 0
        device = layer * self._devices + _id(stream.device_id) + 1
        return (device * self._files + _id(stream.file_id) + 1) * len(OPS) + OPS.index(stream.op)


def _id(value: int | None) -> int:
    return -1 if value is None else value


def sorted_by(numbers: Ints, count: int) -> tuple[Ints, Ints]:
    """A stable order by ``numbers`` below ``count``, and where each number begins in it (``count`` + 1 borders)."""
    borders = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=borders[1:])
    if np.count_nonzero(np.diff(borders)) <= 1:
        return np.arange(len(numbers)), borders
    return np.argsort(numbers, kind="stable"), borders
