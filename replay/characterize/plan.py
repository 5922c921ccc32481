"""The endless plan of a cell."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from iotrace.schemas import IoFlags

from .workload import Cell

_ROWS: Final = 1 << 16


def batches(cell: Cell, target_bytes: int, seed: int) -> Iterator[pa.RecordBatch]:
    """I/Os of ``cell`` on a target of ``target_bytes``, without end.

    Random: every whole block of the I/O's size is equally likely. Sequential: one stream from a random place on, over
    the whole target and round again, which all outstanding I/Os share.
    """
    random = np.random.default_rng([seed, cell.size_bytes, cell.outstanding])
    places = max(1, target_bytes // cell.size_bytes)
    next_place = int(random.integers(0, places))
    flags = int(IoFlags.WRITE_THROUGH) if cell.durable else 0
    while True:
        if cell.pattern == "random":
            place = random.integers(0, places, _ROWS)
        else:
            place = (next_place + np.arange(_ROWS)) % places
            next_place = (next_place + _ROWS) % places
        is_write = random.random(_ROWS) >= cell.read_share
        yield pa.record_batch(
            {
                "intended_ns": np.zeros(_ROWS, np.int64),
                "offset_bytes": place.astype(np.uint64) * np.uint64(cell.size_bytes),
                "size_bytes": np.full(_ROWS, cell.size_bytes, np.uint32),
                "op": is_write.astype(np.uint8),
                "target": np.zeros(_ROWS, np.uint16),
                "durable": pa.array(is_write & cell.durable),
                "flags": np.where(is_write, np.uint32(flags), np.uint32(0)),
            }
        )
