"""How many I/Os came over the seconds of a recording: its rate and how it changed, each with its uncertainty.

A load that comes as 200 and 400 I/Os per second in turn makes longer queues than a steady 300, though every figure of
the whole and every gap between two arrivals may be alike.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from iotrace.analyze.stats.bootstrap import SLOTS_MIN, resampled_errors
from iotrace.schemas.arrays import Floats

_ERRORS: Final = 3.3
"""Standard errors that two figures must lie apart to differ clearly: 1 in 1,000 do by chance."""


@dataclass(frozen=True, slots=True)
class Course:
    """I/Os in each slot of ``slot_ns``."""

    io_count: Floats
    slot_ns: int

    def in_slots_of(self, slot_ns: int) -> "Course":
        """The same in slots of about ``slot_ns``, a multiple of its own."""
        together = max(round(slot_ns / self.slot_ns), 1)
        count = len(self.io_count) // together
        summed = self.io_count[: count * together].reshape(count, together).sum(axis=1)
        return Course(summed, self.slot_ns * together)

    def rate_error(self) -> float:
        """Relative standard error of the rate: at least that of arrivals at random."""
        total = self.io_count.sum()
        errors = resampled_errors(self.io_count - self.io_count.mean(), np.random.default_rng(0))
        return float(max(errors.std(), np.sqrt(total)) / total)

    def variation(self) -> tuple[float, float]:
        """Squared coefficient of variation of the rate beyond that of arrivals at random, and its standard error.

        The error is that of chance arrivals around the rate as it was: what the load was to become another time is not
        asked. Neighbouring slots say how much chance there is, in clumps of arrivals more than of single ones.
        """
        mean, slots = self.io_count.mean(), len(self.io_count)
        value = float((self.io_count.var(ddof=1) - mean) / mean**2)
        clump = max(float(np.mean(np.diff(self.io_count) ** 2)) / 2 / mean, 1.0)
        error = np.sqrt(2 * (clump / mean) ** 2 + 4 * max(value, 0.0) * clump / mean) / np.sqrt(slots)
        return value, float(error)


def rates_differ(a: Course, b: Course) -> bool:
    """Whether the rates differ by clearly more than each is uncertain by, from one stretch of time to another."""
    if min(len(a.io_count), len(b.io_count)) < SLOTS_MIN:
        return False
    rates = [one.io_count.mean() / one.slot_ns for one in (a, b)]
    error = np.hypot(a.rate_error(), b.rate_error())
    return bool(abs(np.log(rates[1] / rates[0])) > _ERRORS * error)


@dataclass(frozen=True, slots=True)
class Variations:
    """Coefficients of variation of two rates over slots of one length, beyond those of arrivals at random."""

    a: float
    b: float
    are_apart: bool
    """Whether they differ clearly."""


def variations(a: Course, b: Course) -> Variations | None:
    """How much the rates changed; None where one has too few slots of the other's length."""
    slot_ns = max(a.slot_ns, b.slot_ns)
    sides = [one.in_slots_of(slot_ns) for one in (a, b)]
    if min(len(one.io_count) for one in sides) < SLOTS_MIN or not all(one.io_count.any() for one in sides):
        return None
    (left, left_error), (right, right_error) = (one.variation() for one in sides)
    are_apart = bool(abs(left - right) > _ERRORS * np.hypot(left_error, right_error))
    return Variations(float(np.sqrt(max(left, 0.0))), float(np.sqrt(max(right, 0.0))), are_apart)
