"""When the I/Os of a recording are wanted on the run's clock: divided, shifted, repeated, ramped up."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ramp:
    """The load climbs evenly from nothing to its full height over ``length_ns``.

    At the instant t the plan is played at t / length of its speed, so what was planned for p comes at
    sqrt(2 · length · p) while that is below the length, and half a length later than planned from then on.
    """

    length_ns: int

    def apply(self, at_ns: Times) -> Times:
        """The deadlines with the climb in front of them."""
        half = self.length_ns / 2
        climbing = np.sqrt(2.0 * self.length_ns * np.clip(at_ns, 0, None).astype(np.float64))
        climbed = np.rint(np.minimum(climbing, self.length_ns)).astype(np.int64)
        return np.where(at_ns < half, climbed, at_ns + round(half))


def divided(since_ns: Times, scale: float) -> Times:
    """Times divided by the factor: exact at 1x, to the nanosecond elsewhere."""
    return since_ns if scale == 1.0 else np.rint(since_ns / scale).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Cycle:
    """The stretch of the source's clock that one pass plays: start included, end not."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        """How long one pass lasts at 1x."""
        return self.end_ns - self.start_ns

    def shifted(self, shift_ns: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """The cycle turned by ``shift_ns``: two windows of the source in their new order, and what to add to each.

        Added to a time on the source's clock it gives the time since the start of the pass.
        """
        turn = self.end_ns - shift_ns
        return (turn, self.end_ns, -turn), (self.start_ns, turn, shift_ns - self.start_ns)
