"""The machine a recording was made on, its two clocks, and what may happen to it meanwhile.

A device goes away, the machine sleeps, the clock is set.
"""

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from iotrace.schemas.host import Host

from .devices import BlockDevice

_STEP_NS: Final = 100_000_000
_DRIFT: Final = 2000
"""One part in this many of the time gone by is the clock being slewed, not set."""


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


class DeviceWatch:
    """Tells which devices are gone, or have been replaced by others of the same name."""

    def __init__(self, disks: Sequence[BlockDevice]) -> None:
        self._marks = {disk.name: (disk, _mark(disk)) for disk in disks}

    def vanished(self) -> list[str]:
        """Names of devices that are no longer what they were."""
        return [name for name, (disk, mark) in self._marks.items() if _mark(disk) != mark]


def _mark(disk: BlockDevice) -> tuple[str, bool] | None:
    """What stays the same while a device is there. A loop device without a file has no size."""
    try:
        size = (disk.folder / "size").read_text("ascii").strip()
    except OSError:
        return None
    try:
        sequence = (disk.folder / "diskseq").read_text("ascii").strip()  # Linux 5.15 and later
    except OSError:
        sequence = ""
    return (sequence, size != "0")


class ClockWatch:
    """Compares the recording's clock, which stands still in sleep, with those of the day and since boot."""

    def __init__(self) -> None:
        self._asleep_ns = asleep_ns()
        self._utc_ns, self.uncertainty_ns = utc_offset_ns()
        self._noted_ns = self._utc_ns
        self._noted_at_ns = 0
        self.steps = 0
        self.notes: list[str] = []

    @property
    def start_offset_ns(self) -> int:
        """What to add to ``CLOCK_MONOTONIC`` to get UTC, as it was at the start."""
        return self._utc_ns

    def look(self, at_ns: int) -> None:
        """Note what has happened since the last look; ``at_ns`` is the time of the recording."""
        slept_ns = asleep_ns() - self._asleep_ns
        offset_ns = utc_offset_ns()[0]
        moved_ns = offset_ns - self._noted_ns
        where = f"{at_ns / 1e9:.0f} s into the recording"
        if slept_ns > _STEP_NS:
            self._asleep_ns += slept_ns
            self.steps += 1
            self.notes.append(
                f"the machine slept for {slept_ns / 1e9:,.1f} s, {where}: its clock stood still, so later "
                "times are that much behind UTC, and latencies across it are too short"
            )
            self._noted_ns, self._noted_at_ns = offset_ns, at_ns
        elif abs(moved_ns) > max(_STEP_NS, (at_ns - self._noted_at_ns) // _DRIFT):
            self.steps += 1
            self.notes.append(
                f"the host's clock was set by {moved_ns / 1e9:+,.3f} s, {where}; the recording's own clock was not"
            )
            self._noted_ns, self._noted_at_ns = offset_ns, at_ns


def asleep_ns() -> int:
    """Time the machine has slept since it was started (``CLOCK_BOOTTIME`` counts it, ``CLOCK_MONOTONIC`` does not)."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
