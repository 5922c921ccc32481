"""The kernel's own counters beside the trace: /proc/diskstats and I/O pressure, as rows of ``counters``.

Field meanings: Documentation/admin-guide/iostats.rst and Documentation/accounting/psi.rst of the Linux sources.
Means over an interval of one second; latencies come from millisecond counters and are as coarse.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from iotrace.schemas import TABLES

_SECTOR_BYTES = 512
_PRESSURE: Final = Path("/proc/pressure/io")

# Positions after major, minor and name.
_READS, _READ_MERGES, _READ_SECTORS, _READ_MS = 0, 1, 2, 3
_WRITES, _WRITE_MERGES, _WRITE_SECTORS, _WRITE_MS = 4, 5, 6, 7
_IN_FLIGHT, _BUSY_MS, _QUEUED_MS = 8, 9, 10
_DISCARDS, _FLUSHES = 11, 15
_FIELDS_MAX = 17


class CounterSampler:
    """Differences between two looks at the counters. Times are nanoseconds on the recording's clock."""

    def __init__(self, disk_names: Sequence[str], at_ns: int) -> None:
        self._names = set(disk_names)
        self._at_ns = at_ns
        self._disks = dict(self._read_disks())
        self._pressure = dict(_read_pressure())

    def sample(self, at_ns: int) -> pa.Table:
        """Rows for the time since the last sample."""
        interval_ns = at_ns - self._at_ns
        disks, pressure = dict(self._read_disks()), dict(_read_pressure())
        rows = [
            row
            for name, now in disks.items()
            if name in self._disks and interval_ns > 0
            for row in _disk_rows(name, self._disks[name], now, interval_ns)
        ]
        rows += [
            _row(
                "pressure",
                None,
                f"io {kind} stalled",
                (total - self._pressure[kind]) * 1e5 / interval_ns,
                "percent",
            )
            for kind, total in pressure.items()
            if kind in self._pressure and interval_ns > 0
        ]
        self._at_ns, self._disks, self._pressure = at_ns, disks, pressure
        moment = {"at_ns": at_ns, "interval_ns": interval_ns, "source": "host"}
        instant = {"at_ns": at_ns, "interval_ns": None, "source": "host"}
        complete = [(instant if row["counter"] == "in flight" else moment) | row for row in rows]
        return pa.Table.from_pylist(complete, schema=TABLES["counters"])

    def _read_disks(self) -> Iterator[tuple[str, list[int]]]:
        for line in Path("/proc/diskstats").read_text("ascii", "replace").splitlines():
            fields = line.split()
            if fields[2] in self._names:
                numbers = [int(field) for field in fields[3:]]
                yield fields[2], numbers + [0] * (_FIELDS_MAX - len(numbers))  # older kernels have fewer


def _disk_rows(name: str, before: list[int], now: list[int], interval_ns: int) -> Iterator[dict[str, object]]:
    change = [after - earlier for earlier, after in zip(before, now, strict=True)]
    seconds = interval_ns / 1e9

    def row(counter: str, value: float, unit: str, metric: str | None = None) -> dict[str, object]:
        return _row("diskstats", name, counter, value, unit, layer="block", metric=metric)

    for op, done, merged, sectors, spent_ms in (
        ("read", _READS, _READ_MERGES, _READ_SECTORS, _READ_MS),
        ("write", _WRITES, _WRITE_MERGES, _WRITE_SECTORS, _WRITE_MS),
    ):
        yield row(f"{op}s per second", change[done] / seconds, "1/s", f"{op}_iops")
        yield row(
            f"{op} bytes per second",
            change[sectors] * _SECTOR_BYTES / seconds,
            "bytes/s",
            f"{op}_bytes_per_second",
        )
        yield row(f"{op} merges per second", change[merged] / seconds, "1/s")
        if change[done]:
            yield row(f"{op} latency", change[spent_ms] * 1e6 / change[done], "ns", f"{op}_latency_ns")
    yield row("flushes per second", change[_FLUSHES] / seconds, "1/s")
    yield row("discards per second", change[_DISCARDS] / seconds, "1/s")
    yield row("queue length", change[_QUEUED_MS] * 1e6 / interval_ns, "I/Os", "queue_length")
    yield row("busy", min(100.0, change[_BUSY_MS] * 1e8 / interval_ns), "percent", "busy_percent")
    yield row("in flight", now[_IN_FLIGHT], "I/Os", "in_flight")


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


def _read_pressure() -> Iterator[tuple[str, int]]:
    """Microseconds for which some, or all, tasks have waited for I/O; nothing where the kernel does not count it."""
    try:
        text = _PRESSURE.read_text("ascii")
    except OSError:
        return
    for line in text.splitlines():
        kind, *fields = line.split()
        yield kind, int(dict(field.split("=") for field in fields)["total"])
