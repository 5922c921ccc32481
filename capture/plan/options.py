"""What a plan is asked to record, checked word by word, and what that costs in disk and events.

The cost is worked out from the rate and the time that are planned for. The bytes an event takes are estimates from the
events' documented layouts, rounded up; a plan prints the rate they were multiplied with. Every part has a hard limit at
which the tool itself stops growing: the sum of the limits is what the host must have free, and it holds whatever the
real rate is.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from iotrace.schemas import IotraceError, Layer
from iotrace.schemas.units import MIB

LAYERS: Final = tuple(map(str, Layer))
"""Layers that can be recorded per I/O: Extended Events, ETW file operations, ETW disk events, StorPort."""

DEFAULT_LAYERS: Final = ("sql", "block")
MINUTES_MAX: Final = 24 * 60
IOPS_MAX: Final = 5_000_000
_FOLDER_CHARACTERS_MAX: Final = 120
# Beside what Windows forbids: % begins a variable in a scheduled task; brackets and backticks are wildcards to
# PowerShell.
_FOLDER: Final = re.compile(r"[A-Za-z]:(\\[^\\/:*?\"<>|%`\[\]]+)+")
_INSTANCE_CHARACTERS_MAX: Final = 400
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
class PlanOptions:
    r"""What to record. Raises `IotraceError` for words that make no plan.

    ``sql_instance`` is a data source as SqlClient takes it (``SERVER\INST``, ``tcp:host,1433``); "." is the default
    instance of the host. None means no SQL Server at all, unless the sql layer is asked for. ``iops`` is the rate that
    sizes are computed for. ``folder`` is where the host keeps what it records, on a local disk.
    """

    layers: tuple[str, ...] = DEFAULT_LAYERS
    sql_instance: str | None = None
    minutes: int = 60
    iops: int = 10_000
    folder: str = "C:\\iotrace"
    counter_format: str = "blg"
    snapshot_seconds: int = 15

    def __post_init__(self) -> None:
        _check_layers(self.layers)
        _check_between("--minutes", self.minutes, 1, MINUTES_MAX)
        _check_between("--iops", self.iops, 100, IOPS_MAX)
        _check_between("--snapshot-seconds", self.snapshot_seconds, 5, 60)
        if self.counter_format not in {"blg", "csv"}:
            raise IotraceError(
                f"--counter-format '{self.counter_format}' is not known", hint="it takes blg or csv"
            )
        _check_folder(self.folder)
        if self.sql_instance is not None:
            _check_instance(self.sql_instance)

    @property
    def instance(self) -> str | None:
        """The SQL Server instance to ask, or None for none."""
        return self.sql_instance or ("." if "sql" in self.layers else None)

    @property
    def kernel_flags(self) -> int:
        """EVENT_TRACE_FLAG_* for the kernel trace; 0 for none.

        Process 0x1, thread 0x2, disk I/O 0x100, names of files 0x200; file operations' ends 0x2000000 and starts
        0x4000000. Disk events are part of file traces too: without them nothing tells where the time went.
        """
        flags = 0x303 if {"block", "filesystem"} & set(self.layers) else 0
        return flags | (0x6000000 if "filesystem" in self.layers else 0)


def parse_layers(words: Iterable[str]) -> tuple[str, ...]:
    """Layers from words that may each hold several, separated by commas; in the order of `LAYERS`."""
    wanted = [word.strip().lower() for text in words for word in text.split(",") if word.strip()]
    _check_layers(wanted)
    return tuple(layer for layer in LAYERS if layer in wanted)


def _check_layers(layers: Iterable[str]) -> None:
    layers = list(layers)
    for layer in layers:
        if layer not in LAYERS:
            raise IotraceError(
                f"--layers '{layer}' is not a layer of a Windows host", hint=f"it takes {', '.join(LAYERS)}"
            )
    if not layers:
        raise IotraceError("--layers names no layer", hint=f"it takes {', '.join(LAYERS)}")


def _check_between(option: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise IotraceError(f"{option} {value} is out of range", hint=f"it takes {lowest:,} to {highest:,}")


def _check_folder(folder: str) -> None:
    if not folder.isprintable() or not _FOLDER.fullmatch(folder):
        raise IotraceError(
            f"--folder '{_shown(folder)}' is not a folder on a local disk of the server",
            hint=r"name one below a drive letter, such as D:\iotrace, without / : * ? < > | % ` [ ] and quotes",
        )
    if len(folder) > _FOLDER_CHARACTERS_MAX:
        raise IotraceError(
            f"--folder '{folder[:40]}…' is too long",
            hint=f"Windows tools take short paths only: at most {_FOLDER_CHARACTERS_MAX} characters",
        )
    for part in folder.split("\\")[1:]:
        if part != part.strip(" .") or not part:
            raise IotraceError(
                f"--folder '{folder}' has a part that begins or ends with a space or dot",
                hint="Windows drops these; choose a plain name, such as D:\\iotrace",
            )


def _check_instance(instance: str) -> None:
    if not instance.strip() or not instance.isprintable() or len(instance) > _INSTANCE_CHARACTERS_MAX:
        raise IotraceError(
            f"--sql-instance '{_shown(instance)[:80]}' is not the name of an instance",
            hint=r"for example . or SERVER\INST or tcp:server,1433",
        )


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


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
    limit = math.ceil(expected_bytes * _HEADROOM / MIB / _LIMIT_STEP_MIB) * _LIMIT_STEP_MIB
    return Part(name, title, events, expected_bytes, limit, memory_mib, when_full)
