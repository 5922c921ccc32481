"""What came and went in a step: how fast it was carried while never idle, and whether that broke within the step.

Storage that always has something to do shows its capacity, whatever the load. A slot of time counts as *busy* when
more was waiting at its start than twice what completes in a slot and what is in flight at that rate anyway. The rate
over the busy slots is what the storage carries.

Storage with saved credits (a token bucket, a write cache, an SLC cache) carries more until they are spent. From then on
it is busy at a rate R, although it carried more before. Storage of a capacity R cannot carry more than R t in any
t seconds, so the proof is the *excess*: the most that any stretch of the step carried beyond R times its length. That
is as many I/Os as had been saved. (A token bucket of rate R and depth B lets through at most B + R t: Cruz 1991, A
calculus for network delay, IEEE Transactions on Information Theory 37:114.) The excess has to be above 5 standard
deviations of a Poisson count, 2 % of what the step could carry, and 3 times what R itself varies by afterwards:
storage that slows down and recovers has no credits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from iotrace.analyze.incident.change_points import segment
from iotrace.schemas.arrays import Bools, Floats

SLOTS_PER_BLOCK: Final = 20
BREAK_SHARE: Final = 0.93
"""A rate below this share of the one before it is another rate."""
EXCESS_SIGMAS: Final = 5.0
EXCESS_SHARE_MIN: Final = 0.02
EXCESS_OVER_WOBBLE: Final = 3.0
BATCHES: Final = 48
BATCH_IOS_MIN: Final = 25
_NEARLY: Final = 0.98
_WAITING_SLOTS: Final = 2.0
_OP_SHARE_MIN: Final = 0.05
_DRAINS_AS_BEFORE: Final = 0.8
"""Storage that, when no more is asked of it, goes on at less than this share of its rate is not what was waited for."""
_DRAIN_SIGMAS: Final = 3.0
_LAST_SLOTS: Final = 2 * SLOTS_PER_BLOCK
_COLUMNS: Final = ("wanted", "completed", "size_bytes")

Integers = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Flow:
    """I/Os wanted and completed in each slot, ``slot_s`` long, and bytes completed."""

    slot_s: float
    wanted: Floats
    completed: Floats
    size_bytes: Floats

    @classmethod
    def sum(cls, flows: "Iterable[Flow]") -> Self:
        """All of them together; they have the same slots."""
        every = list(flows)
        columns = [np.sum([getattr(one, name) for one in every], axis=0) for name in _COLUMNS]
        return cls(every[0].slot_s, *columns)

    def until(self, slots: int) -> Self:
        """The first ``slots`` slots."""
        return type(self)(self.slot_s, *(getattr(self, name)[:slots] for name in _COLUMNS))

    def per_second(self, column: str, blocks: int) -> Floats:
        """Rates of a column over the first ``blocks`` blocks of `SLOTS_PER_BLOCK` slots."""
        values = np.zeros(blocks * SLOTS_PER_BLOCK)
        have = getattr(self, column)[: len(values)]
        values[: len(have)] = have
        return np.asarray(values.reshape(blocks, SLOTS_PER_BLOCK).mean(axis=1) / self.slot_s)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a step carried while it was never idle.

    ``rates`` and ``bytes_per_s`` are those of its stretches, in I/Os and bytes per second, since ``from_s`` into the
    step. Where it broke, at ``from_s``, it had carried ``burst_iops`` before, ``credits_ios`` beyond the rate after.
    """

    rates: Floats
    bytes_per_s: Floats
    busy_s: float
    from_s: float
    burst_iops: float | None = None
    credits_ios: float | None = None
    limited_op: str | None = None
    """The operation that is held back where the other is not."""
    part: str | None = None
    """The part of the I/Os that fell behind while the others kept up, in words (`parts`)."""
    share_error: float = 0.0
    """How well the share of the load is known that the rates were divided by, relative: by its number of I/Os."""

    @property
    def iops(self) -> float:
        """The rate that is sustained."""
        return float(self.rates.mean())

    @property
    def is_break(self) -> bool:
        """Whether the step carried more at first."""
        return self.credits_ios is not None


def carried(flows: Mapping[str, Flow], total: Flow, base_s: float) -> Carried | None:
    """What the step of ``total``, and of each operation in ``flows``, carried while never idle; None where never busy.

    ``base_s`` is the latency of storage that is not loaded. Where one operation is held back and the other is not, as
    by a cache of writes, the rate is that at which all of the mix would be held back.
    """
    # Once 99 % have completed, stragglers alone keep the rest waiting.
    done = int(np.searchsorted(np.cumsum(total.completed), 0.99 * total.completed.sum())) + 1
    total, flows = total.until(done), {op: flow.until(done) for op, flow in flows.items()}
    total, flows = without_drain(total), {op: without_drain(flow) for op, flow in flows.items()}
    count = float(total.wanted.sum())
    shares = {op: float(flow.wanted.sum()) / count for op, flow in flows.items()}
    alone = {op: carried_alone(flows[op], base_s) for op, share in shares.items() if share > _OP_SHARE_MIN}
    rates = {op: found.iops / shares[op] for op, found in alone.items() if found is not None}
    if rates:
        op = min(rates, key=lambda name: rates[name])
        found = alone[op]
        # Where all wait, they wait for the same thing, and together they tell most exactly what it carries.
        if found is not None and (len(rates) < len(alone) or rates[op] < BREAK_SHARE * max(rates.values())):
            return Carried(
                found.rates / shares[op],
                found.bytes_per_s / shares[op],
                found.busy_s,
                found.from_s,
                found.burst_iops and found.burst_iops / shares[op],
                found.credits_ios,
                op,
                share_error=share_error(shares[op], count),
            )
    return carried_alone(total, base_s)


def share_error(share: float, count: float) -> float:
    """Relative standard error of a share of so many I/Os: another step has another number of the rare ones."""
    return float(((1 - share) / (share * count)) ** 0.5)


def without_drain(flow: Flow) -> Flow:
    """The flow until nothing more was wanted, if from then on it went slower.

    A queue that all I/Os share drains as fast as it was served before. Where it drains more slowly, some of the I/Os
    had not been waiting: what drains is the queue of the others, and its rate says nothing of all of them.
    """
    wanted = np.flatnonzero(flow.wanted)
    end = int(wanted[-1]) + 1 if len(wanted) else len(flow.wanted)
    drained = flow.completed[end:]
    before = flow.completed[max(end - _LAST_SLOTS, 0) : end]
    expected = _DRAINS_AS_BEFORE * float(before.mean()) * len(drained)
    is_slower = float(drained.sum()) < expected - _DRAIN_SIGMAS * expected**0.5
    return flow.until(end) if is_slower else flow


def carried_alone(flow: Flow, base_s: float) -> Carried | None:
    """What one flow was carried at while storage was never idle of it; None where it never was that busy."""
    busy = np.flatnonzero(_busy(flow, base_s))
    if flow.completed[busy].sum() < 2 * BATCH_IOS_MIN:
        return None
    credit = _credit(flow, busy)
    begin, end, excess = credit or (0, 0, 0.0)
    busy = busy[busy >= end]
    rates = _batches(flow.completed[busy], flow.completed[busy], flow.slot_s)
    moved = _batches(flow.size_bytes[busy], flow.completed[busy], flow.slot_s)
    busy_s = len(busy) * flow.slot_s
    if credit is None:
        return Carried(rates, moved, busy_s, float(busy[0]) * flow.slot_s)
    burst = float(flow.completed[begin:end].mean()) / flow.slot_s
    return Carried(rates, moved, busy_s, end * flow.slot_s, burst, excess)


def _busy(flow: Flow, base_s: float) -> Bools:
    """Slots that began with more waiting than the storage could carry in them."""
    waiting = np.concatenate([[0.0], np.cumsum(flow.wanted - flow.completed)[:-1]])
    busy = np.zeros(len(waiting), dtype=np.bool_)
    each = float(flow.completed.sum()) / max(len(waiting), 1)
    # What completes in a slot is known only from the busy ones: twice is enough to settle.
    for _ in range(2):
        busy = waiting >= each * (_WAITING_SLOTS + base_s / flow.slot_s)
        if not busy.any():
            return busy
        each = float(flow.completed[busy].mean())
    return busy


def _last_regime(completed: Floats) -> int:
    """Where, among busy slots, the rate fell for good: all levels after it are below all before; 0 where it did not."""
    size = _batch_slots(completed)
    count = len(completed) // size
    if count < 4:
        return 0
    sums = completed[: count * size].reshape(count, size).sum(axis=1)
    if sums.min() <= 0:
        return 0
    borders = segment(np.log(sums), 1 / sums).borders
    levels = [float(sums[begin:end].mean()) for begin, end in pairwise(borders)]
    for place in range(1, len(levels)):
        if max(levels[place:]) <= BREAK_SHARE * min(levels[:place]):
            return borders[place] * size
    return 0


def _credit(flow: Flow, busy: Integers) -> tuple[int, int, float] | None:
    """First and last slot of the stretch that lived on saved credits, and how many it took; None if unproven.

    ``busy`` are the slots in which the storage was. The rate after the break is at first that after the rate fell for
    good, then that after the stretch of the most excess beyond it, whose end is the break.
    """
    tail = int(busy[_last_regime(flow.completed[busy])])
    for _ in range(2):
        begin, end, excess = _most_beyond(flow.completed, float(flow.completed[busy[busy >= tail]].mean()))
        tail = max(tail, end)
        after = flow.completed[busy[busy >= tail]]
        if end <= begin or after.sum() < 2 * BATCH_IOS_MIN:
            return None
    rates = _batches(after, after, flow.slot_s)
    each = float(after.mean())
    known_to = float(rates.std()) * flow.slot_s / len(rates) ** 0.5 / each if len(rates) > 1 else 0.1
    _, _, surely = _most_beyond(flow.completed[begin:end], each * (1 + 3 * known_to))
    _, _, wobble = _most_beyond(flow.completed[end:], each)
    carried_then = float(flow.completed[begin:end].sum())
    proven = (
        surely >= EXCESS_SIGMAS * carried_then**0.5
        and surely >= EXCESS_SHARE_MIN * each * len(flow.completed)
        and surely >= EXCESS_OVER_WOBBLE * wobble
        and each <= BREAK_SHARE * carried_then / (end - begin)
        and not _was_as_slow(
            flow.completed[busy[busy < begin + _NEARLY * (end - begin)]], each, len(after) // 2
        )
    )
    return (begin, end, excess) if proven else None


def _was_as_slow(completed: Floats, each: float, slots: int) -> bool:
    """Whether ``completed`` was as low as ``each`` a slot for so many slots."""
    if len(completed) < max(slots, 1):
        return False
    means = np.convolve(completed, np.full(max(slots, 1), 1 / max(slots, 1)), "valid")
    return bool(means.min() * BREAK_SHARE < each)


def _most_beyond(completed: Floats, each: float) -> tuple[int, int, float]:
    """The stretch that carried the most beyond ``each`` a slot: first slot, the one after its last, and the excess.

    Once the credits are spent the excess stays where it is; so the stretch ends where it first came near its most.
    """
    path = np.concatenate([[0.0], np.cumsum(completed - each)])
    above = path - np.minimum.accumulate(path)
    end = int(np.argmax(above >= _NEARLY * above.max()))
    return int(np.argmin(path[: end + 1])), end, float(above.max())


def _batch_slots(completed: Floats) -> int:
    """Slots to a batch: at most `BATCHES` of them, of `BATCH_IOS_MIN` I/Os or more."""
    each = max(float(completed.mean()), 1e-9)
    return int(max(np.ceil(len(completed) / BATCHES), np.ceil(BATCH_IOS_MIN / each)))


def _batches(values: Floats, completed: Floats, slot_s: float) -> Floats:
    """Rates of ``values`` per second over batches of slots; a rest is left out."""
    size = min(_batch_slots(completed), len(values))
    count = len(values) // size
    return np.asarray(values[: count * size].reshape(count, size).mean(axis=1) / slot_s)
