"""Whose share changed: files, processes, roles, operations, sizes and devices, in a window against normal.

What is normal is everything outside all windows: sums over the whole recording less those over the windows.
``growth_share`` is a row's part of what grew, rows that shrank left out: of load (bytes per second, where bytes grew,
else I/Os per second) where more load drove a window, of time in flight otherwise. A share says who asked or who
waited, which need not be who is to blame for slow storage.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import duckdb

from iotrace.analyze import library
from iotrace.analyze.units import format_bytes
from iotrace.schemas import Recording

from .result import BlameRow

_TOP: Final = 5
_CHANGED_SHARE: Final = 0.02

Dimension = Literal["file", "process", "role", "operation", "size", "device"]
Row = dict[str, Any]
_DIMENSIONS: Final[tuple[Dimension, ...]] = ("file", "process", "role", "operation", "size", "device")


@dataclass(slots=True)
class _Sum:
    """What a group asked for and took."""

    io_count: int = 0
    size_bytes: int = 0
    measured_count: int = 0
    latency_sum_ns: int = 0

    def add(self, row: Row, sign: int = 1) -> None:
        """Take in a row of ``incident_work``, or out again."""
        self.io_count += sign * row["io_count"]
        self.size_bytes += sign * row["size_bytes"]
        self.measured_count += sign * row["measured_count"]
        self.latency_sum_ns += sign * row["latency_sum_ns"]

    @property
    def latency_ns(self) -> float | None:
        """Mean latency."""
        return self.latency_sum_ns / self.measured_count if self.measured_count else None


class Names:
    """What files, processes and devices are called."""

    def __init__(self, recording: Recording) -> None:
        files = recording.read("files", ["file_id", "path"]).to_pylist()
        self.files = {row["file_id"]: row["path"] for row in files}
        processes = recording.read("processes", ["process_id", "name", "os_process_id"]).to_pylist()
        self.processes = {
            row["process_id"]: row["name"] or f"process {row['os_process_id']}" for row in processes
        }
        devices = recording.read("devices", ["device_id", "name", "mount"]).to_pylist()
        self.devices = {row["device_id"]: row["mount"] or row["name"] for row in devices}

    def of(self, dimension: Dimension, row: Row) -> str:
        """The group a row belongs to."""
        match dimension:
            case "file":
                return str(self.files.get(row["file_id"], "unknown file"))
            case "process":
                return str(self.processes.get(row["process_id"], "unknown process"))
            case "device":
                return str(self.devices.get(row["device_id"], "unknown device"))
            case "role":
                return str(row["role"])
            case "operation":
                return str(row["op"])
            case "size":
                size = row["size_class_bytes"]
                return f"up to {format_bytes(size)}" if size else "over 1.0 MiB"


class Blame:
    """Sums over the whole span and over each window, from which any window's blame is told."""

    def __init__(
        self,
        names: Names,
        connection: duckdb.DuckDBPyConnection,
        layer: str,
        span_ns: tuple[int, int],
        windows_ns: Sequence[tuple[int, int]],
    ) -> None:
        self._names = names
        self._windows_ns = windows_ns
        self._windows: list[list[Row]] = [
            library.run(connection, "incident_work", layer=layer, from_ns=start, until_ns=end).to_pylist()
            for start, end in windows_ns
        ]
        self._whole: list[Row] = library.run(connection, "incident_work_whole", layer=layer).to_pylist()
        self._normal_s = max(span_ns[1] - span_ns[0] - sum(end - start for start, end in windows_ns), 1) / 1e9

    def of(self, indices: Sequence[int], *, by_load: bool) -> list[BlameRow]:
        """Rows of these windows whose part of the growth or share of the I/Os changed, the greatest first."""
        seconds = sum(self._windows_ns[index][1] - self._windows_ns[index][0] for index in indices) / 1e9
        found: list[BlameRow] = []
        for dimension in _DIMENSIONS:
            slow, normal = self._sums(dimension, indices)
            if len(slow.keys() | normal.keys()) < 2:
                continue
            found += _rows(dimension, slow, normal, seconds, self._normal_s, by_load=by_load)
        return found

    def _sums(self, dimension: Dimension, indices: Sequence[int]) -> tuple[dict[str, _Sum], dict[str, _Sum]]:
        slow: dict[str, _Sum] = defaultdict(_Sum)
        normal: dict[str, _Sum] = defaultdict(_Sum)
        for index in indices:
            for row in self._windows[index]:
                slow[self._names.of(dimension, row)].add(row)
        for row in self._whole:
            normal[self._names.of(dimension, row)].add(row)
        for rows in self._windows:
            for row in rows:
                normal[self._names.of(dimension, row)].add(row, -1)
        return slow, normal


def _rows(
    dimension: Dimension,
    slow: dict[str, _Sum],
    normal: dict[str, _Sum],
    slow_s: float,
    normal_s: float,
    *,
    by_load: bool,
) -> list[BlameRow]:
    slow_total = max(sum(entry.io_count for entry in slow.values()), 1)
    normal_total = max(sum(entry.io_count for entry in normal.values()), 1)
    names = sorted(slow.keys() | normal.keys())
    empty = _Sum()

    def growth(name: str, quantity: str) -> float:
        mine = float(getattr(slow.get(name, empty), quantity))
        return max(mine / slow_s - float(getattr(normal.get(name, empty), quantity)) / normal_s, 0.0)

    quantity = "latency_sum_ns"
    if by_load:
        bytes_slow = sum(entry.size_bytes for entry in slow.values()) / slow_s
        bytes_normal = sum(entry.size_bytes for entry in normal.values()) / normal_s
        quantity = "size_bytes" if bytes_slow > bytes_normal else "io_count"
    whole = sum(growth(name, quantity) for name in names)
    found = []
    for name in names:
        mine, usual = slow.get(name, empty), normal.get(name, empty)
        row = BlameRow(
            dimension,
            name,
            normal_share=usual.io_count / normal_total,
            slow_share=mine.io_count / slow_total,
            normal_ios_per_s=usual.io_count / normal_s,
            slow_ios_per_s=mine.io_count / slow_s,
            normal_bytes_per_s=usual.size_bytes / normal_s,
            slow_bytes_per_s=mine.size_bytes / slow_s,
            normal_latency_ns=usual.latency_ns,
            slow_latency_ns=mine.latency_ns,
            growth_share=growth(name, quantity) / whole if whole else 0.0,
        )
        if row.growth_share >= _CHANGED_SHARE or abs(row.slow_share - row.normal_share) >= _CHANGED_SHARE:
            found.append(row)
    found.sort(key=lambda row: (-row.growth_share, -abs(row.slow_share - row.normal_share), row.name))
    return found[:_TOP]
