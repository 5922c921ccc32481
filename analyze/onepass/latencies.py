"""How long I/Os took, counted in the buckets of `histogram`."""

from typing import Final

import numpy as np
import numpy.typing as npt

from .rows import Int64s
from .streams import Ints

_BUCKETS: Final = (63 << 10) + 1


class LatencyCounts:
    """Adds up latencies of numbered groups, in any order; what two of them counted can be `join`ed."""

    def __init__(self, group_count: int) -> None:
        self.counts = np.zeros((group_count, _BUCKETS), dtype=np.int64)
        self.sums_ns = np.zeros(group_count, dtype=np.int64)
        self.maxima_ns = np.zeros(group_count, dtype=np.int64)

    def add(self, groups: Ints, latencies_ns: Int64s) -> None:
        """Take in latencies of at least 0, each of its group."""
        # A float's exponent and the first ten bits of its fraction are the bucket: each doubling is cut into 1,024.
        places = latencies_ns.astype(np.float64).view(np.int64)
        places >>= 42
        places -= (1023 << 10) - 1
        np.maximum(places, 0, out=places)
        np.add.at(self.sums_ns, groups, latencies_ns)
        np.maximum.at(self.maxima_ns, groups, latencies_ns)
        places += groups.astype(np.int64) * _BUCKETS
        np.add.at(self.counts.reshape(-1), places, 1)

    def join(self, other: "LatencyCounts") -> None:
        """Take in what another one counted."""
        self.counts += other.counts
        self.sums_ns += other.sums_ns
        np.maximum(self.maxima_ns, other.maxima_ns, out=self.maxima_ns)

    def of(self, group: int) -> tuple[Int64s, Int64s]:
        """Buckets of a group that hold anything, ascending, in nanoseconds; and their counts."""
        places = np.flatnonzero(self.counts[group])
        return bucket_ns_of(places), self.counts[group][places]


def latencies_of(
    begun_ns: Int64s, ended_ns: Int64s, is_measured: npt.NDArray[np.bool_] | None
) -> tuple[Int64s, npt.NDArray[np.bool_] | slice]:
    """Times from begin to end of the measured ones, at least 0, and which these are."""
    which = slice(None) if is_measured is None else is_measured
    return np.maximum(ended_ns[which] - begun_ns[which], 0), which


def bucket_ns_of(places: Int64s) -> Int64s:
    """Bucket by its position: 0, then 1,024 positions for each doubling, of which narrow doublings need fewer."""
    exponent, part = np.divmod(places - 1, 1024)
    shift = exponent - 10
    lower = (np.int64(1) << np.maximum(exponent, 0)) + np.where(
        shift >= 0, part << np.maximum(shift, 0), part >> np.maximum(-shift, 0)
    )
    middle = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    return np.asarray(np.where(places == 0, 0, lower + middle), dtype=np.int64)
