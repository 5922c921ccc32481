"""Whom a slow window hit: whose I/Os took longer than such I/Os normally take, and by more than chance.

Time in flight also grows where a group merely asks for more, and then nothing hit it. So each I/O of a window is held
against the mean of its like outside all windows: I/Os of the same file, process, operation and size class, or of any
process where these are few. What has no like, such as the first backup to a new file, tells nothing.

Two things make up chance. I/Os of a group scatter by themselves, which their scatter in the window shows. And those of
a device wait for one another, so that its mean of a while may be off for all of its groups: how far, stretches of
normal slots as long as the window show.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from iotrace.schemas.arrays import Floats

from .change_points import Flags
from .series import LayerSlots

Row = dict[str, Any]

_LIKE_LEAST: Final = 10
"""I/Os of the same process outside the windows, of which fewer do not say what its I/Os take."""
_SLOWER_LEAST: Final = 1.1
"""A group whose I/Os took less than a tenth longer was hardly hit, however sure that is."""
_CHANCE: Final = 0.00135
"""Of such a sum, to be as great by chance: three standard errors where I/Os are many."""
_ERRORS: Final = 3.0
_STRETCHES_LEAST: Final = 8
"""So many stretches of normal slots say how far a device's mean wanders; longer ones do not wander more."""
_NORMAL_90: Final = 1.2816
"""The 90th percentile of a normal distribution, in standard deviations from its middle."""

_KIND: Final = ("device_id", "file_id", "op", "size_class_bytes", "process_id")


class Usual:
    """What the like of each I/O takes outside all windows."""

    def __init__(self, whole: Iterable[Row], slow: Iterable[Row]) -> None:
        """From rows of ``incident_work_whole``, and of ``incident_work`` for the time in windows."""
        self._sums: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0, 0])
        for sign, rows in ((1, whole), (-1, slow)):
            for row in rows:
                for key in _kinds(row):
                    self._sums[key][0] += sign * row["measured_count"]
                    self._sums[key][1] += sign * row["latency_sum_ns"]

    def of(self, row: Row) -> tuple[float, int] | None:
        """Mean latency of the like of a row's I/Os, and how many these are; None if there are too few."""
        for key in _kinds(row):
            count, sum_ns = self._sums.get(key, (0, 0))
            if count >= _LIKE_LEAST:
                return sum_ns / count, count
        return None


def _kinds(row: Row) -> tuple[tuple[object, ...], ...]:
    kind = tuple(row[name] for name in _KIND)
    return kind, kind[:-1]


@dataclass(slots=True)
class Hit:
    """What I/Os of a group took in windows, and what their like normally takes."""

    expected_ns: float = 0.0
    added_ns: float = 0.0
    """Time in flight beyond that; less than 0 where they were faster."""
    _waited_ns: float = 0.0
    _ended: int = 0
    _ended_added_ns: float = 0.0
    _square: float = 0.0
    """Sum of the squares of what each took longer, of those that ended."""
    _like: float = 0.0
    """How much what their like takes is unsure itself: the variance of its sum, as a multiple of that of one I/O."""
    _by_device: dict[int | None, float] = field(default_factory=lambda: defaultdict(float))

    def take_in(self, row: Row, usual: Usual) -> None:
        """A row of ``incident_work``."""
        like = usual.of(row)
        if like is None:
            return
        mean_ns, count = like
        ended, took_ns = row["measured_count"], row["latency_sum_ns"]
        expected_ns = mean_ns * (ended + row["waiting_count"])
        self.expected_ns += expected_ns
        self.added_ns += took_ns + row["waiting_sum_ns"] - expected_ns
        self._waited_ns += row["waiting_sum_ns"]
        self._ended += ended
        self._ended_added_ns += took_ns - mean_ns * ended
        self._square += row["latency_square_sum"] - 2 * mean_ns * took_ns + ended * mean_ns**2
        self._like += ended**2 / count
        self._by_device[row["device_id"]] += expected_ns

    def is_clear(self, wander: Mapping[int | None, float]) -> bool:
        """Whether the group's own I/Os took longer, by a tenth at least and more than chance explains.

        ``wander`` has the standard deviation of each device's mean latency, as a share of it.
        """
        if self.expected_ns + self.added_ns < _SLOWER_LEAST * self.expected_ns or self.added_ns <= 0:
            return False
        if self._waited_ns > self.added_ns / 2:
            return True  # what hangs until the recording ends is no chance
        if self._ended < 2:
            return False
        from scipy.special import stdtrit  # noqa: PLC0415 - it takes long to import, and every command would wait for it

        scatter = max(self._square - self._ended_added_ns**2 / self._ended, 0.0) / (self._ended - 1)
        own_ns = -float(stdtrit(self._ended - 1, _CHANCE)) * float(
            np.sqrt(scatter * (self._ended + self._like))
        )
        shared_ns = _ERRORS * float(
            np.sqrt(sum((wander.get(device, 0.0) * ns) ** 2 for device, ns in self._by_device.items()))
        )
        return self.added_ns >= float(np.hypot(own_ns, shared_ns))


def wander_of(layer: LayerSlots, is_normal: Flags, slots: int) -> dict[int | None, float]:
    """How far the mean latency of each device strays from its usual one over so many normal slots, as a share of it.

    From the 90th percentile, which single stalls do not move.
    """
    found = {}
    for device in {stream.device_id for stream in layer.streams}:
        rows = [index for index, stream in enumerate(layer.streams) if stream.device_id == device]
        ios, took_ns = layer.begun_count[rows][:, is_normal], layer.latency_sum_ns[rows][:, is_normal]
        counts = ios.sum(axis=1)
        means = np.divide(took_ns.sum(axis=1), counts, out=np.zeros(len(rows)), where=counts > 0)
        found[device] = _wander(took_ns.sum(axis=0), (ios * means[:, None]).sum(axis=0), slots)
    return found


def _wander(took_ns: Floats, expected_ns: Floats, slots: int) -> float:
    length = int(max(min(slots, len(took_ns) // _STRETCHES_LEAST), 1))
    took, expected = (np.concatenate([[0.0], np.cumsum(values)]) for values in (took_ns, expected_ns))
    took, expected = took[length:] - took[:-length], expected[length:] - expected[:-length]
    if not (expected > 0).any():
        return 0.0
    middle, high = np.quantile(took[expected > 0] / expected[expected > 0], [0.5, 0.9])
    return float(high - middle) / _NORMAL_90
