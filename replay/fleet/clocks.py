"""How far another machine's clock is from this one's, by exchanges: sent here, read there, back here.

What an exchange took out and back bounds the offset, whatever the network does: the other clock was read between
sending and receiving (Cristian 1989; NTP, RFC 5905). The shortest way out and the shortest way back need not be those
of one exchange, so that a few dozen of them come closer than the one with the shortest round trip (Convex hull methods
use the same bounds; Zhang, Liu and Xia 2002).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

EXCHANGES_MIN: Final = 20
"""With fewer, nothing but the bound is known."""
DRIFT_MAX: Final = 100e-6
"""How fast two quartz clocks drift apart at most: each is within 50 ppm."""
_PLACE: Final = 10
_CONFIDENCE: Final = 0.995
"""Each way; of both together at least 99 %."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One: when it was sent and received back on our clock, and what theirs read in between."""

    sent_ns: int
    there_ns: int
    back_ns: int


@dataclass(frozen=True, slots=True)
class Offset:
    """Their clock less ours, about ``at_ns`` on ours."""

    at_ns: int
    offset_ns: int
    error_ns: int
    """It is within this with 99 % where the shortest ways out and back are equally long."""
    bound_ns: int
    """It is within this in any case."""
    round_trip_ns: int
    """The shortest."""
    exchanges: int


def offset_of(exchanges: Sequence[Exchange]) -> Offset:
    """The offset that ``exchanges`` show; at least one.

    `Offset.error_ns` is how far the shortest way seen may still be from the shortest there is. Where delays are spread
    evenly next to the shortest, the distance to the k-th shortest tells: it is exceeded by the factor
    (1 - confidence)^(-1/(k-1)) - 1 too seldom to matter (ratio of an exponential to a sum of k-1 such).
    """
    sent, there, back = (
        np.array([getattr(one, name) for one in exchanges], np.int64)
        for name in ("sent_ns", "there_ns", "back_ns")
    )
    out, home = np.sort(there - sent), np.sort(back - there)
    low, high = -int(home[0]), int(out[0])
    bound = (high - low + 1) // 2
    error = bound
    if len(exchanges) >= EXCHANGES_MIN:
        error = min(bound, math.ceil(max(_beyond(out), _beyond(home)) / 2))
    drift = math.ceil(DRIFT_MAX * (int(back.max()) - int(sent.min())) / 2)
    return Offset(
        at_ns=int((int(sent.min()) + int(back.max())) // 2),
        offset_ns=(low + high) // 2,
        error_ns=error + drift,
        bound_ns=bound + drift,
        round_trip_ns=int((back - sent).min()),
        exchanges=len(exchanges),
    )


def _beyond(rising: npt.NDArray[np.int64]) -> float:
    """How much shorter than the shortest seen the shortest way may be."""
    factor: float = (1 - _CONFIDENCE) ** (-1 / (_PLACE - 1)) - 1
    return factor * float(rising[_PLACE - 1] - rising[0])


def at_instant(before: Offset, after: Offset | None, ours_ns: int) -> Offset:
    """The offset when our clock reads ``ours_ns``, between two measurements, or some time after the only one.

    Between two, the clocks drift apart evenly.
    """
    if after is None or after.at_ns <= before.at_ns:
        drift = math.ceil(DRIFT_MAX * abs(ours_ns - before.at_ns))
        return Offset(
            ours_ns, before.offset_ns, before.error_ns + drift, before.bound_ns + drift, before.round_trip_ns,
            before.exchanges,
        )  # fmt: skip
    share = min(max((ours_ns - before.at_ns) / (after.at_ns - before.at_ns), 0.0), 1.0)
    return Offset(
        at_ns=ours_ns,
        offset_ns=before.offset_ns + round(share * (after.offset_ns - before.offset_ns)),
        error_ns=max(before.error_ns, after.error_ns),
        bound_ns=max(before.bound_ns, after.bound_ns),
        round_trip_ns=min(before.round_trip_ns, after.round_trip_ns),
        exchanges=before.exchanges + after.exchanges,
    )
