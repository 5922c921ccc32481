"""What recording costs in disk and events, worked out from the rate and the time it is planned for.

The bytes an event takes are estimates from the events' documented layouts, rounded up; a plan prints the rate they
were multiplied with. Every part has a hard limit at which the tool itself stops growing: the sum of the limits is what
the host must have free, and it holds whatever the real rate is.
"""

import math
from dataclasses import dataclass
from typing import Final

from .options import PlanOptions

MEBIBYTE: Final = 1 << 20
_LIMIT_STEP_MIB: Final = 256
_HEADROOM: Final = 1.5
XEL_FILE_MIB: Final = 256

# A disk event has 52 bytes of payload and 16 to 32 of header; names of files and processes come on top.
BLOCK_BYTES: Final = 100
# A file operation is two events, start and end, of about 80 and 60 bytes, by every program on the host.
FILESYSTEM_BYTES: Final = 250
# Up to four events of 80 bytes of header and 40 to 51 of payload: dispatch (which alone tells the position), time in
# the device, time in the driver stack, completion.
DEVICE_BYTES: Final = 520
_DEVICE_EVENTS: Final = 4
# Header, nine numbers, event_sequence, and the path of the file as UTF-16.
SQL_BYTES: Final = 300
# A host of 30 disks, 30 volumes and 200 databases: the log ends at its limit, so there has to be room for many.
_COUNTERS: Final = 2_000
_COUNTER_BYTES: Final = 40
_SNAPSHOT_LINE_BYTES: Final = 250
_SNAPSHOT_LINES: Final = 200 + 1_100

BASELINE_SECONDS: Final = 60
"""How long the counter log runs alone, so that it shows what the traces cost."""

MINUTES_AFTER_END: Final = 2
"""How long after the planned end what is still running is stopped a second time, from the task scheduler."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that writes to disk."""

    name: str
    title: str
    events_per_second: int
    """How many events the host has to write; 0 where it samples instead."""
    expected_bytes: int
    limit_mib: int
    """Where the tool stops growing."""
    memory_mib: int
    """Buffers it takes from the host's memory, at most."""
    when_full: str


@dataclass(frozen=True, slots=True)
class Budget:
    """What a plan costs."""

    parts: tuple[Part, ...]

    def limit_mib(self, name: str) -> int:
        """The limit of one part; 0 if it is not planned."""
        return sum(part.limit_mib for part in self.parts if part.name == name)

    @property
    def total_limit_mib(self) -> int:
        """What the parts may take together."""
        return sum(part.limit_mib for part in self.parts)

    @property
    def total_expected_bytes(self) -> int:
        """What the parts take at the assumed rate."""
        return sum(part.expected_bytes for part in self.parts)


def budget_of(options: PlanOptions) -> Budget:
    """The parts that ``options`` asks for, with their cost at ``options.iops`` over ``options.minutes``."""
    seconds = options.minutes * 60
    ios = options.iops * seconds
    layers = set(options.layers)
    oldest = "the oldest events are overwritten"
    parts: list[Part] = []
    if options.kernel_flags:
        per_io = BLOCK_BYTES + (FILESYSTEM_BYTES if "filesystem" in layers else 0)
        events = options.iops * (3 if "filesystem" in layers else 1)
        title = "kernel trace: disk, file names" + (", file operations" if "filesystem" in layers else "")
        parts.append(_part("kernel", title, events, ios * per_io, 256, oldest))
    if "device" in layers:
        parts.append(
            _part(
                "storport", "StorPort trace", options.iops * _DEVICE_EVENTS, ios * DEVICE_BYTES, 128, oldest
            )
        )
    if "sql" in layers:
        parts.append(
            _part("sql", "Extended Events", options.iops, ios * SQL_BYTES, 64, "the oldest file is deleted")
        )
    counters = (seconds + BASELINE_SECONDS) * _COUNTERS * _COUNTER_BYTES
    parts.append(_part("counters", "counter log", 0, counters, 1, "the log ends"))
    if options.instance:
        lines = seconds // options.snapshot_seconds * _SNAPSHOT_LINES
        snapshots = lines * _SNAPSHOT_LINE_BYTES
        parts.append(_part("snapshots", "DMV snapshots", 0, snapshots, 0, "sampling ends"))
    return Budget(tuple(parts))


def _part(name: str, title: str, events: int, expected_bytes: int, memory_mib: int, when_full: str) -> Part:
    limit = math.ceil(expected_bytes * _HEADROOM / MEBIBYTE / _LIMIT_STEP_MIB) * _LIMIT_STEP_MIB
    return Part(name, title, events, expected_bytes, limit, memory_mib, when_full)
