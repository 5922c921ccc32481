"""The kernel's own counters beside the trace, as rows of ``counters`` and held against what was traced.

Of disks: /proc/diskstats. Field meanings: Documentation/admin-guide/iostats.rst of the Linux sources. Means over an
interval of one second; latencies come from millisecond counters and are as coarse.

Of the machine: processor time by mode, memory, and pressure stalls. Field meanings: ``man 5 proc_stat``, ``man 5
proc_meminfo``, ``man 5 proc_vmstat`` and Documentation/accounting/psi.rst. What a kernel does not count is left out.

`KernelCounts` compares. /proc/diskstats counts a request when it has ended, after merging and splitting, as the device
layer does; a flush that somebody asked for without data is a write of no sectors there, and the flushes that a driver
is given are counted apart. So the requests traced plus the flushes asked for equal its I/Os, and their bytes its
sectors. Between the two looks they can differ by what was in flight at the first one: whose start was not seen is not
recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from iotrace.schemas import TABLES, Quality, counted
from iotrace.schemas.units import SECTOR_BYTES

from .devices import BlockDevice, Selection

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
Ended = Sequence[Mapping[str, int]]
"""What ended on each disk: `BlockTrace.ended`."""

_SECTORS = 2
"""Position of the sectors after that of the I/Os."""
_REQUEST_BYTES_MAX = 1 << 20


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


# Positions after major, minor and name.
READS, _READ_MERGES, _READ_SECTORS, _READ_MS = 0, 1, 2, 3
WRITES, _WRITE_MERGES, _WRITE_SECTORS, _WRITE_MS = 4, 5, 6, 7
IN_FLIGHT, _BUSY_MS, _QUEUED_MS = 8, 9, 10
DISCARDS, _DISCARD_SECTORS, _FLUSHES = 11, 13, 15
_FIELDS_MAX = 17


class CounterSampler:
    """Differences between two looks at the counters. Times are nanoseconds on the recording's clock."""

    def __init__(self, disk_names: Sequence[str], at_ns: int) -> None:
        self._names = set(disk_names)
        self._at_ns = at_ns
        self._disks = dict(self._read_disks())
        self._host = HostCounters()
        self._own: dict[tuple[str, str], int] = {}

    def sample(self, at_ns: int, own: Sequence[tuple[str, str, int]] = ()) -> pa.Table:
        """Rows for the time since the last sample; ``own`` is what `KernelCounts.own` says so far."""
        interval_ns = at_ns - self._at_ns
        disks, host = dict(self._read_disks()), HostCounters()
        rows = [
            row
            for name, now in disks.items()
            if name in self._disks and interval_ns > 0
            for row in _disk_rows(name, self._disks[name], now, interval_ns)
        ]
        if interval_ns > 0:
            rows += [_row(*words) for words in host.means_since(self._host, interval_ns)]
        for name, layer, size_bytes in own if interval_ns > 0 else ():
            change = size_bytes - self._own.get((name, layer), 0)
            self._own[name, layer] = size_bytes
            rows.append(
                _row(
                    "recorder",
                    name,
                    "own bytes per second",
                    change * 1e9 / interval_ns,
                    "bytes/s",
                    layer=layer,
                )
            )
        moments = [
            _row("diskstats", name, "in flight", now[IN_FLIGHT], "I/Os", layer="block", metric="in_flight")
            for name, now in disks.items()
        ]
        moments += [_row(*words) for words in host.levels()]
        self._at_ns, self._disks, self._host = at_ns, disks, host
        complete = [{"at_ns": at_ns, "interval_ns": interval_ns, "source": "host"} | row for row in rows]
        complete += [{"at_ns": at_ns, "interval_ns": None, "source": "host"} | row for row in moments]
        return pa.Table.from_pylist(complete, schema=TABLES["counters"])

    def _read_disks(self) -> Iterator[tuple[str, list[int]]]:
        return ((name, numbers) for name, numbers in disk_lines() if name in self._names)


def disk_lines() -> Iterator[tuple[str, list[int]]]:
    """Every disk and partition of /proc/diskstats with its numbers."""
    for line in Path("/proc/diskstats").read_text("ascii", "replace").splitlines():
        fields = line.split()
        numbers = [int(field) for field in fields[3:]]
        yield fields[2], numbers + [0] * (_FIELDS_MAX - len(numbers))  # older kernels have fewer


def _disk_rows(name: str, before: list[int], now: list[int], interval_ns: int) -> Iterator[dict[str, object]]:
    change = [after - earlier for earlier, after in zip(before, now, strict=True)]
    seconds = interval_ns / 1e9

    def row(counter: str, value: float, unit: str, metric: str | None = None) -> dict[str, object]:
        return _row("diskstats", name, counter, value, unit, layer="block", metric=metric)

    for op, done, merged, sectors, spent_ms in (
        ("read", READS, _READ_MERGES, _READ_SECTORS, _READ_MS),
        ("write", WRITES, _WRITE_MERGES, _WRITE_SECTORS, _WRITE_MS),
    ):
        yield row(f"{op}s per second", change[done] / seconds, "1/s", f"{op}_iops")
        yield row(
            f"{op} bytes per second",
            change[sectors] * SECTOR_BYTES / seconds,
            "bytes/s",
            f"{op}_bytes_per_second",
        )
        yield row(f"{op} merges per second", change[merged] / seconds, "1/s")
        if change[done]:
            yield row(f"{op} latency", change[spent_ms] * 1e6 / change[done], "ns", f"{op}_latency_ns")
    yield row("flushes per second", change[_FLUSHES] / seconds, "1/s")
    yield row("discards per second", change[DISCARDS] / seconds, "1/s")
    yield row("discard bytes per second", change[_DISCARD_SECTORS] * SECTOR_BYTES / seconds, "bytes/s")
    yield row("queue length", change[_QUEUED_MS] * 1e6 / interval_ns, "I/Os", "queue_length")
    yield row("busy", min(100.0, change[_BUSY_MS] * 1e8 / interval_ns), "percent", "busy_percent")


def _row(
    object_: str,
    instance: str | None,
    counter: str,
    value: float,
    unit: str,
    *,
    layer: str | None = None,
    metric: str | None = None,
) -> dict[str, object]:
    return {
        "object": object_, "instance": instance, "counter": counter, "value": float(value), "unit": unit,
        "layer": layer, "metric": metric,
    }  # fmt: skip


@dataclass(slots=True)
class _Held:
    """A disk that is held, and the lines of /proc/diskstats that count what is traced of it."""

    disk: BlockDevice
    position: int
    lines: list[str]
    has_ios: bool
    """Whether I/Os can be held as well as bytes: what a volume sends down is traced as requests only."""

    @property
    def is_whole(self) -> bool:
        return self.lines == [self.disk.name]

    @property
    def layer(self) -> str:
        return "device" if self.disk.takes_requests else "block"

    def queue_setting(self, name: str) -> str:
        try:
            return (self.disk.folder / "queue" / name).read_text("ascii").strip()
        except OSError:
            return ""


@dataclass(slots=True)
class KernelCounts:
    """Looks at the counters of a selection's disks when tracing begins and before it ends."""

    selection: Selection
    _disks: list[_Held] = field(default_factory=list)
    _before: dict[str, list[int]] = field(default_factory=dict)
    _after: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        asked = list(self.selection.words.values())
        below = [part for parts in self.selection.beneath.values() for part in parts]
        for position, disk in enumerate(self.selection.disks):
            mine = [one for one in (*asked, *below) if one.disk_number == disk.number]
            is_volume = any(
                self.selection.words[word].disk_number == disk.number for word in self.selection.beneath
            )
            if is_volume:  # its requests are those of the disks beneath
                continue
            is_whole = any(one.number == disk.number for one in mine)
            lines = [disk.name] if is_whole else list(dict.fromkeys(one.name for one in mine))
            is_below = any(one.disk_number == disk.number for one in below)
            self._disks.append(_Held(disk, position, lines, disk.takes_requests and not is_below))

    def begin(self) -> None:
        """Look for the first time: tracing is on."""
        self._before = self._look()

    def end(self) -> None:
        """Look for the last time: tracing is still on."""
        self._after = self._look()

    def own(self, ended: Ended) -> list[tuple[str, str, int]]:
        """Disk, layer and bytes so far of iotrace's own I/O, of the disks that are traced as a whole."""
        word = {"device": "own_request_bytes", "block": "own_bio_bytes"}
        return [
            (held.disk.name, layer, ended[held.position][word[layer]])
            for held in self._disks
            if held.is_whole
            for layer in dict.fromkeys(("block", held.layer))
        ]

    def hold(self, ended: Ended, quality: Quality) -> None:
        """Say in ``quality`` how many I/Os were counted, and how many of them the trace lacks."""
        seen_ios = seen_bytes = 0
        for held in self._disks:
            if not all(line in self._before and line in self._after for line in held.lines):
                quality.notes.append(f"{held.disk.name} could not be held against the kernel's own counters")
                continue
            if held.queue_setting("iostats") == "0":
                quality.notes.append(
                    f"the kernel does not count the I/O of {held.disk.name} (queue/iostats is 0): "
                    "whether the trace is whole cannot be told from its counters"
                )
                continue
            change = [
                sum(self._after[line][index] - self._before[line][index] for line in held.lines)
                for index in range(len(self._before[held.lines[0]]))
            ]
            starts_unseen = sum(self._before[line][IN_FLIGHT] for line in held.lines)
            told = ended[held.position]
            groups = (READS, WRITES, DISCARDS)
            counted_bytes = sum(change[group + _SECTORS] for group in groups) * SECTOR_BYTES
            ended_bytes = told["request_bytes" if held.disk.takes_requests else "bio_bytes"]
            largest = int(held.queue_setting("max_sectors_kb") or 0) * 1024 or _REQUEST_BYTES_MAX
            quality.counted_bytes += counted_bytes
            seen_bytes += ended_bytes
            lacks_ios = False
            if held.has_ios:
                counted_ios = sum(change[group] for group in groups)
                ended_ios = told["requests"] + told["empty_flushes"]
                quality.counted_ios += counted_ios
                seen_ios += ended_ios
                if lacks_ios := counted_ios - ended_ios > starts_unseen:
                    quality.missing_ios += counted_ios - ended_ios
            missing = counted_bytes - ended_bytes
            if missing > 0 and (lacks_ios or missing > starts_unseen * largest):
                quality.missing_bytes += missing
        if quality.counted_ios or quality.counted_bytes:
            names = ", ".join(line for held in self._disks for line in held.lines)
            ios = f"{counted(quality.counted_ios, 'I/O')} and " if quality.counted_ios else ""
            seen = f"{counted(seen_ios, 'I/O')} and " if quality.counted_ios else ""
            quality.notes.append(
                f"the kernel's own counters of {names} show {ios}{counted(quality.counted_bytes, 'byte')}, "
                f"the trace {seen}{counted(seen_bytes, 'byte')}, iotrace's own included"
            )

    def _look(self) -> dict[str, list[int]]:
        names = {line for held in self._disks for line in held.lines}
        return {name: numbers for name, numbers in disk_lines() if name in names}
