"""The machine a recording was made on, and its two clocks."""

import os
import platform
import time
from pathlib import Path

from iotrace.schemas.host import Host


def host_facts(name: str | None) -> Host:
    """Facts for ``manifest.host``; ``name`` in place of the machine's own, if given."""
    return Host(
        name=name or platform.node(),
        system=platform.system(),
        kernel=platform.release(),
        machine=platform.machine(),
        cpu_model=_first_value("/proc/cpuinfo", "model name"),
        processors=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )


def utc_offset_ns(readings: int = 9) -> tuple[int, int]:
    """What to add to ``CLOCK_MONOTONIC`` to get UTC, and how far that may be off (both nanoseconds).

    UTC is read between two readings of the monotonic clock; of several such pairs the closest is kept.
    """
    best: tuple[int, int] | None = None
    for _ in range(readings):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        utc = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        spread = after - before
        if best is None or spread < best[1]:
            best = (utc - (before + after) // 2, spread)
    assert best is not None
    return best


def _first_value(path: str, label: str) -> str | None:
    try:
        lines = Path(path).read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(label)), None)
