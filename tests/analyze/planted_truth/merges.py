"""Sources of one night that look at different intervals, or not at the same time: what may be said of them together.

Each writes the text files that Windows and sqlcmd leave, to be imported together.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from iotrace.schemas import Recording

from . import incidents
from .counters import dmv_table, perfmon_table, totals, write_counters, write_dmv_text, write_perfmon_csv
from .hosts import Host, Ios

Op = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class LayerTruth:
    """What one source counted of one operation, between two moments at which both sources looked."""

    ios: int
    bytes: int
    mean_ns: float


@dataclass(frozen=True, slots=True)
class MergeTruth:
    """What is true of a perfmon log and snapshots of SQL Server's files, taken of the same host."""

    window_s: tuple[float, float]
    """Between two looks of the slower source, within both: over it both sums are exact."""
    sql: dict[Op, LayerTruth]
    """Of all files together."""
    block: dict[Op, LayerTruth]
    """Of all disks together."""
    same_ios: bool
    """Whether SQL Server did all I/O there was. If not, the layers may not be subtracted."""

    @property
    def above_block_ns(self) -> dict[Op, float]:
        """Mean time spent above the block layer, where both saw the same I/Os."""
        return {op: self.sql[op].mean_ns - self.block[op].mean_ns for op in self.sql}


def counters_of_two_intervals(
    folder: Path,
    seed: int,
    *,
    perfmon_s: float = 5.0,
    dmv_s: float = 15.0,
    perfmon_first_s: float = 0.0,
    dmv_first_s: float = 0.0,
    above_block_s: float = 0.004,
    another_program: bool = False,
    **settings: Any,
) -> tuple[Path, Path, MergeTruth]:
    """A perfmon log, snapshots of SQL Server's files, and what is true of both; nothing goes wrong meanwhile.

    ``above_block_s`` is spent between SQL Server's clock and the block layer's. ``another_program`` writes to the data
    disk half as often as SQL Server does; PhysicalDisk counts that, SQL Server does not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    host, block_host = _hosts(seed, above_block_s, another_program, settings)
    perfmon = write_perfmon_csv(folder / "disks.csv", block_host, perfmon_s, perfmon_first_s)
    dmv = write_dmv_text(folder / "files.txt", host, dmv_s, dmv_first_s)
    return perfmon, dmv, _truth(host, block_host, perfmon_s, dmv_s, perfmon_first_s, dmv_first_s)


def merged_recording(
    path: Path, seed: int, *, perfmon_s: float = 5.0, dmv_s: float = 15.0, **settings: Any
) -> tuple[Recording, MergeTruth]:
    """The same as one recording, as an import of both files leaves it; returns it with its `MergeTruth`."""
    above_block_s = settings.pop("above_block_s", 0.004)
    another = settings.pop("another_program", False)
    host, block_host = _hosts(seed, above_block_s, another, settings)
    recording = write_counters(path, host, perfmon_table(block_host, perfmon_s), dmv_table(host, dmv_s))
    return recording, _truth(host, block_host, perfmon_s, dmv_s, 0.0, 0.0)


def apart(folder: Path, seed: int, *, gap_s: float, **settings: Any) -> tuple[Path, Path, bool]:
    """A perfmon log, snapshots that begin ``gap_s`` after it ended, and whether the two belong together: never.

    A negative ``gap_s`` is how long they overlap; then the last is true.
    """
    folder.mkdir(parents=True, exist_ok=True)
    host, _ = incidents.quiet(seed, **settings)
    perfmon = write_perfmon_csv(folder / "disks.csv", host, 5.0)
    dmv = write_dmv_text(folder / "files.txt", host, 15.0, shift_s=host.seconds + gap_s)
    return perfmon, dmv, gap_s < 0


def _hosts(
    seed: int, above_block_s: float, another_program: bool, settings: dict[str, Any]
) -> tuple[Host, Host]:
    host, _ = incidents.quiet(seed, **settings)
    for ios in host.devices:
        ios.filesystem_s += above_block_s
        ios.settle()
    if not another_program:
        return host, host
    rng = np.random.default_rng([seed, 14])
    data = host.devices[0]
    others = np.sort(rng.uniform(0, host.seconds, len(data.at_s) // 2))
    order = np.argsort(np.concatenate([data.at_s, others]), kind="stable")
    count = len(others)

    def both(mine: Any, added: Any) -> Any:
        return np.concatenate([mine, added])[order]

    mixed = Ios(
        data.disk, both(data.at_s, others), both(data.is_read, np.zeros(count, np.bool_)),
        both(data.size_bytes, np.full(count, 1 << 20)), both(data.device_s, rng.exponential(0.01, count)),
        both(data.host_s, np.full(count, 8e-6)), both(data.filesystem_s, np.zeros(count)),
    )  # fmt: skip
    mixed.settle()
    return host, Host(host.seconds, [mixed, *host.devices[1:]], host.layers, title=host.title)


def _truth(
    host: Host, block_host: Host, perfmon_s: float, dmv_s: float, perfmon_first_s: float, dmv_first_s: float
) -> MergeTruth:
    perfmon = np.arange(perfmon_first_s, host.seconds + 1e-6, perfmon_s)
    dmv = np.arange(dmv_first_s, host.seconds + 1e-6, dmv_s)
    inside = dmv[(dmv >= perfmon[0] - 1e-9) & (dmv <= perfmon[-1] + 1e-9)]
    window = (float(inside[0]), float(inside[-1]))
    layers = (("filesystem", host), ("block", block_host))
    found = [
        {word: _layer(seen, layer, word == "read", window) for word in ("read", "write")}
        for layer, seen in layers
    ]
    return MergeTruth(window, found[0], found[1], host is block_host)


def _layer(host: Host, layer: Any, reads: bool, window: tuple[float, float]) -> LayerTruth:
    sums = [
        totals(host, number, reads=reads, layer=layer, edges_s=np.array(window))
        for number in range(len(host.devices))
    ]
    ios = int(sum(one.ios[0] for one in sums))
    spent = sum(one.latency_s[0] for one in sums)
    return LayerTruth(ios, int(sum(one.bytes[0] for one in sums)), spent * 1e9 / ios if ios else 0.0)
