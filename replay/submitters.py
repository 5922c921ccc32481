"""How many threads issue a plan: one, unless the plan is denser than one can issue."""

import math
import os
from collections.abc import Mapping
from typing import Any, Final

from .options import ReplayOptions

PER_SUBMITTER_PER_S: Final = 200_000
"""I/Os a second that one thread is trusted with: a submission costs it 2 to 3 µs, a completion about one."""


def allowed_processors() -> int:
    """Processors this process may run on; where the system cannot tell, those there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def submitters_for(options: ReplayOptions, shape: Mapping[str, Any], *, processors: int | None = None) -> int:
    """Threads for a load of ``shape`` (see `Shape.result`) as recorded, to be played with ``options``.

    The fullest second counts. Each submitter may spin on a processor of its own; half of them are left to the storage
    and to the rest of the replay, so a host with three or fewer gets one. I/Os that wait for others have one in any
    case.
    """
    if options.submitters is not None:
        return options.submitters
    if options.mode == "think" or not shape["rate_per_s"]:
        return 1
    fullest_per_s: float = shape["rate_per_s"] * (shape["peak_to_mean"]["1s"] or 1.0) * options.scale
    most = max(1, (processors or allowed_processors()) // 2)
    return min(most, math.ceil(fullest_per_s / PER_SUBMITTER_PER_S))
