"""Which part of a step's I/Os fell behind while the others kept up.

Storage is seldom one thing: a log has a disk of its own, a cache takes writes only, a tier holds what is cold. If the
smallest part falls behind, the load is too much, however little that takes from the sum of all I/Os: the part that
keeps up least decides. What the part carries while it is never idle, over its share of the load, is what the mix can
have of it.

A part is what a recording tells apart: an operation, a device, both, a file. It fell behind if at the end of the load
3 % of its I/Os were waiting, more than chance leaves of as many (3 standard deviations of a count that varies as this
one does); if they had become more all the while (Mann-Kendall trend, thirds), or storage had never been idle of them
for half of the step; and if the others had at most half as much waiting for their number: else all wait for the same
thing (`flow`).

Where none of these fell behind, the slow I/Os may be a part that nothing else tells apart, such as a cold tier. In a
queue that grows every I/O comes to be slow, from some moment on; its share of the load is that since then.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas.arrays import Bools, Floats, Int64s

from .flow import SLOTS_PER_BLOCK, Carried, Flow, carried_alone, share_error, without_drain

IOS_MIN: Final = 100
"""Of fewer I/Os it cannot be told that they fell behind."""
BEHIND_SHARE: Final = 0.03
"""Of a part that fell behind at least so many are waiting at the end of the load."""
SIGMAS: Final = 3.0
BUSY_SHARE_MIN: Final = 0.5
OTHERS_SHARE_MAX: Final = 0.5
SLOW_SHARE_MAX: Final = 0.5
"""If more of the I/Os are slow, all of them wait."""
SLOW_SPAN_SHARE: Final = 0.005
"""An I/O is slow if it took longer than this share of the step."""
SAME_RATE: Final = 0.98
"""Parts that carry the same share of their load as far as this are told apart by nothing: the larger one is named."""
FILES_MAX: Final = 32
"""The files with the most I/Os are looked at."""
_BEYOND_CAPACITY: Final = 1.02
_TREND_MIN: Final = 0.3
_TREND_P: Final = 0.01
_BLOCKS_MIN: Final = 9
_SETTLED_BLOCKS: Final = 2
_SLOTS_TIMES: Final = 4
"""How much longer than the load lasts parts are followed: a straggler would make it any length."""


@dataclass(frozen=True, slots=True)
class Cells:
    """I/Os by slot and by all that tells them apart: rows of `knee_flow`, up to ``count`` slots of ``slot_s``.

    ``wanted_slots`` are those until the last I/O was wanted.
    """

    slot_s: float
    wanted_slots: int
    count: int
    slot: Int64s
    op: npt.NDArray[np.object_]
    device_id: Int64s
    file_id: Int64s
    is_slow: Bools
    wanted: Floats
    completed: Floats
    size_bytes: Floats

    @classmethod
    def of(cls, table: pa.Table, slot_s: float) -> "Cells":
        """The rows of ``table``; what has no device or no file counts as one."""
        slot = np.asarray(table["slot"], dtype=np.int64)
        wanted = np.asarray(table["wanted_count"], dtype=np.float64)
        wanted_slots = int(slot[wanted > 0].max()) + 1
        op = table["op"].cast(pa.string()).combine_chunks().dictionary_encode()
        names = np.array(op.dictionary.to_pylist(), dtype=object)
        device_id, file_id = (
            np.asarray(table[name].combine_chunks().fill_null(-1), dtype=np.int64)
            for name in ("device_id", "file_id")
        )
        return cls(
            slot_s,
            wanted_slots,
            min(int(slot.max()) + 1, _SLOTS_TIMES * wanted_slots),
            slot,
            names[np.asarray(op.indices)],
            device_id,
            file_id,
            np.asarray(table["is_slow"], dtype=np.bool_),
            wanted,
            np.asarray(table["completed_count"], dtype=np.float64),
            np.asarray(table["completed_bytes"], dtype=np.float64),
        )

    def flow(self, mine: Bools | None = None) -> Flow:
        """What came and went of the rows that are meant, all by default."""
        kept = (self.slot >= 0) & (self.slot < self.count)
        kept = kept if mine is None else kept & mine
        slot = self.slot[kept]
        return Flow(
            self.slot_s,
            *(
                np.asarray(np.bincount(slot, column[kept], self.count), dtype=np.float64)
                for column in (self.wanted, self.completed, self.size_bytes)
            ),
        )


def slowest_part(
    cells: Cells, offered_iops: float, devices: Mapping[int, str], files: Mapping[int, str]
) -> Carried | None:
    """The part that fell behind furthest while the others kept up, its rates in I/Os of the whole mix; else None.

    ``devices`` and ``files`` are their names.
    """
    total = cells.flow()
    worst: Carried | None = None
    for name, mine in _parts(cells, devices, files):
        found = _behind(cells, total, mine, offered_iops)
        if found is not None and (worst is None or found.iops < SAME_RATE * worst.iops):
            worst = replace(found, part=name)
    if worst is not None:
        return worst
    found = _behind(cells, total, cells.is_slow, offered_iops, is_late=True)
    return found and replace(found, part="some of the I/Os, which nothing recorded tells apart,")


def _parts(cells: Cells, devices: Mapping[int, str], files: Mapping[int, str]) -> Iterator[tuple[str, Bools]]:
    """Every part with its name, the larger before those within it."""
    ops = {op: cells.op == op for op in sorted(set(cells.op.tolist()))}
    disks = {
        f"device {devices.get(one) or f'no. {one}'}": cells.device_id == one
        for one in sorted(set(cells.device_id.tolist()))
    }
    for disk, mine in disks.items():
        yield f"the I/Os of {disk}", mine
    for op, mine in ops.items():
        yield f"the {op}s", mine
    for disk, op in product(disks, ops):
        yield f"the {op}s of {disk}", disks[disk] & ops[op]
    by_file = np.bincount(cells.file_id + 1, cells.wanted)
    for one in np.argsort(-by_file, kind="stable")[:FILES_MAX].tolist():
        if one > 0:  # 0 are those of which no file is known
            yield f"the I/Os of {files.get(one - 1) or f'file no. {one - 1}'}", cells.file_id == one - 1


def _behind(
    cells: Cells, total: Flow, mine: Bools, offered_iops: float, *, is_late: bool = False
) -> Carried | None:
    """What a part carried that fell behind while the others kept up; None where it did not.

    ``is_late``: it is the slow I/Os, a part only since there are any.
    """
    wanted = float(cells.wanted[mine].sum())
    if wanted < IOS_MIN or (not is_late and wanted >= total.wanted.sum()):
        return None
    flow = cells.flow(mine)
    waiting = _waiting(flow)[: cells.wanted_slots]
    others = (_waiting(total)[: cells.wanted_slots] - waiting)[-SLOTS_PER_BLOCK:].mean()
    left = float(waiting[-SLOTS_PER_BLOCK:].mean())
    rest = float(total.wanted.sum()) - wanted
    is_alone = others * wanted <= OTHERS_SHARE_MAX * left * rest
    if left < BEHIND_SHARE * wanted or not is_alone:
        return None
    blocks = _blocks(flow.wanted[: cells.wanted_slots], np.sum)
    if left < SIGMAS * (wanted * max(1.0, float(blocks.var() / max(blocks.mean(), 1e-9)))) ** 0.5:
        return None
    first = int(np.flatnonzero(flow.wanted)[0]) if is_late else 0
    since = slice(first, cells.wanted_slots)
    share = float(flow.wanted[since].sum() / total.wanted[since].sum())
    if is_late and share > SLOW_SHARE_MAX:
        return None
    done = int(np.searchsorted(np.cumsum(flow.completed), 0.99 * flow.completed.sum())) + 1
    found = carried_alone(
        without_drain(flow.until(max(done, cells.wanted_slots))), _least_delay_s(flow, waiting)
    )
    if found is None or offered_iops <= _BEYOND_CAPACITY * found.iops / share:
        return None
    was_full = not is_late and found.busy_s > BUSY_SHARE_MIN * cells.wanted_slots * cells.slot_s
    if not was_full and not _kept_growing(waiting):
        return None
    return replace(
        found,
        rates=found.rates / share,
        bytes_per_s=found.bytes_per_s / share,
        burst_iops=found.burst_iops and found.burst_iops / share,
        share_error=share_error(share, float(total.wanted[since].sum())),
    )


def _waiting(flow: Flow) -> Floats:
    return np.cumsum(flow.wanted - flow.completed)


def _blocks(slots: Floats, how: Callable[..., Floats]) -> Floats:
    """A figure for each stretch of `SLOTS_PER_BLOCK` slots; a rest is left out."""
    count = len(slots) // SLOTS_PER_BLOCK
    return np.asarray(how(slots[: count * SLOTS_PER_BLOCK].reshape(count, SLOTS_PER_BLOCK), axis=1))


def _least_delay_s(flow: Flow, waiting: Floats) -> float:
    """How long its I/Os take where they wait least (Little's law), in stretches after the first, which begin empty."""
    waited = _blocks(waiting, np.mean)[_SETTLED_BLOCKS:]
    came = _blocks(flow.wanted[: len(waiting)], np.mean)[_SETTLED_BLOCKS:]
    return float(min((waited / np.maximum(came, 1e-9))[came > 0], default=0.0)) * flow.slot_s


def _kept_growing(waiting: Floats) -> bool:
    """Whether what waits grew from the first third of the load to the last, and not by a stall at its end."""
    first, middle, last = (float(part.mean()) for part in np.array_split(waiting, 3))
    # A queue that grows evenly has a mean of 1, 3 and 5 in the thirds; one of a stall in the last third has 0, 0 and 1.
    if not (last > 2 * first and last > 1.2 * middle and middle > 0.25 * last):
        return False
    levels = _blocks(waiting, np.mean)
    if len(levels) < _BLOCKS_MIN:
        return False
    from scipy import stats  # noqa: PLC0415 - as in `step`

    tau, p_value = stats.kendalltau(np.arange(len(levels)), levels)
    return bool(tau > _TREND_MIN and p_value < _TREND_P)
