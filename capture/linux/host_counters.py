"""Counters of the machine rather than of a disk: processor time by mode, memory, and pressure stalls.

Field meanings: ``man 5 proc_stat``, ``man 5 proc_meminfo``, ``man 5 proc_vmstat`` and
Documentation/accounting/psi.rst of the Linux sources. What a kernel does not count is left out.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_PRESSURES: Final = ("io", "cpu", "memory")

# Guest time is part of user time in /proc/stat, so it is no mode of its own here.
_CPU_MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

_MEMORY_BYTES: Final = {
    "MemFree": "free",
    "MemAvailable": "available",
    "Cached": "page cache",
    "Dirty": "dirty",
    "Writeback": "being written back",
    "SwapFree": "swap free",
}
_MEMORY_RATES: Final = {
    "pgmajfault": ("major faults per second", "1/s", 1),
    "pgpgin": ("paged in per second", "bytes/s", 1024),
    "pgpgout": ("paged out per second", "bytes/s", 1024),
    "pswpin": ("pages swapped in per second", "1/s", 1),
    "pswpout": ("pages swapped out per second", "1/s", 1),
}

Rows = Iterator[tuple[str, str | None, str, float, str]]
"""Object, instance, counter, value, unit."""


class HostCounters:
    """One look at the counters of the machine."""

    def __init__(self, proc: Path = _PROC) -> None:
        self.cpu = _cpu(proc / "stat")
        self.rates = {
            name: value for name, value in _numbers(proc / "vmstat").items() if name in _MEMORY_RATES
        }
        self.memory = {
            name: value for name, value in _numbers(proc / "meminfo").items() if name in _MEMORY_BYTES
        }
        self.pressure = {
            (resource, kind): total
            for resource in _PRESSURES
            for kind, total in _pressure(proc / "pressure" / resource).items()
        }

    def means_since(self, before: "HostCounters", interval_ns: int) -> Rows:
        """What lies between an earlier look and this one, as means over the ``interval_ns`` nanoseconds."""
        spent = {mode: now - before.cpu.get(mode, now) for mode, now in self.cpu.items()}
        total = sum(spent.values())
        if total > 0 and min(spent.values()) >= 0:  # idle and iowait are known to go backwards
            for mode, ticks in spent.items():
                yield "cpu", None, mode, ticks * 100 / total, "percent"
        for (resource, kind), microseconds in self.pressure.items():
            if (resource, kind) in before.pressure:
                stalled = (microseconds - before.pressure[resource, kind]) * 1e5 / interval_ns
                yield "pressure", None, f"{resource} {kind} stalled", stalled, "percent"
        for name, value in self.rates.items():
            counter, unit, factor = _MEMORY_RATES[name]
            if name in before.rates:
                yield "memory", None, counter, (value - before.rates[name]) * factor * 1e9 / interval_ns, unit

    def levels(self) -> Rows:
        """What holds at this moment."""
        for name, kibibytes in self.memory.items():
            yield "memory", None, _MEMORY_BYTES[name], kibibytes * 1024, "bytes"


def _cpu(path: Path) -> dict[str, int]:
    """Ticks spent in each mode by all processors together."""
    for line in _lines(path):
        if line.startswith("cpu "):
            return dict(zip(_CPU_MODES, (int(word) for word in line.split()[1:]), strict=False))
    return {}


def _pressure(path: Path) -> dict[str, int]:
    """Microseconds for which some, or all, tasks have waited."""
    found = {}
    for line in _lines(path):
        kind, *fields = line.split()
        found[kind] = int(dict(field.split("=") for field in fields)["total"])
    return found


def _numbers(path: Path) -> Mapping[str, int]:
    """Lines such as ``MemFree: 123 kB`` or ``pgpgin 123``."""
    words = (line.replace(":", " ").split() for line in _lines(path))
    return {found[0]: int(found[1]) for found in words if len(found) >= 2 and found[1].isdigit()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii", "replace").splitlines()
    except OSError:
        return []  # e.g. pressure is not counted unless the kernel was told to
