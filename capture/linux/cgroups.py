"""Which cgroups limit the I/O of a disk.

The kernel holds back what goes beyond such a limit before it queues the bio, so before the first event of the block
layer: that wait is in no latency of the block and device layers, and without the filesystem layer nothing tells of it.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from iotrace.schemas.host import IoLimit

from .devices import BlockDevice, Selection, mounts

_CGROUPS_MAX: Final = 10_000
"""So many are looked at, the outermost first, which takes a second or two."""
_FIRST_VERSION: Final = {
    "read_iops": "blkio.throttle.read_iops_device",
    "write_iops": "blkio.throttle.write_iops_device",
    "read_bytes_per_s": "blkio.throttle.read_bps_device",
    "write_bytes_per_s": "blkio.throttle.write_bps_device",
}
_SECOND_VERSION: Final = {
    "riops": "read_iops", "wiops": "write_iops", "rbps": "read_bytes_per_s", "wbps": "write_bytes_per_s",
}  # fmt: skip
"""Keys of ``io.max``."""


def asked_disks(selection: Selection) -> list[BlockDevice]:
    """The disks that the user named. What holds back those beneath a volume is part of the volume's latency."""
    asked = {device.disk_number for device in selection.words.values()}
    return [disk for disk in selection.disks if disk.number in asked]


def io_limits(disks: Sequence[BlockDevice], roots: Sequence[Path] | None = None) -> list[IoLimit]:
    """Limits on the I/O of ``disks``, of each cgroup below ``roots`` (where cgroups are mounted, if not given).

    A container sees only the cgroups within its own.
    """
    names = {f"{disk.number >> 20}:{disk.number & 0xFFFFF}": disk.name for disk in disks}
    if roots is None:
        kinds = {"cgroup", "cgroup2"}
        roots = list(dict.fromkeys(Path(one.point) for one in mounts() if one.filesystem in kinds))
    return [
        limit
        for root in roots
        for folder in _folders(root)
        for limit in _limits_of(folder, str(Path("/") / folder.relative_to(root)), names)
    ]


def _folders(root: Path) -> Iterator[Path]:
    """The cgroups below ``root`` and itself, none if its hierarchy limits no I/O. Any may vanish meanwhile."""
    is_first = (root / _FIRST_VERSION["read_iops"]).exists()
    if not is_first and not (root / "cgroup.controllers").exists():
        return
    waiting = deque([root])
    for _ in range(_CGROUPS_MAX):
        if not waiting:
            return
        folder = waiting.popleft()
        yield folder
        try:
            with os.scandir(folder) as entries:
                waiting += sorted(Path(one) for one in entries if one.is_dir(follow_symlinks=False))
        except OSError:
            continue


def _limits_of(folder: Path, cgroup: str, names: dict[str, str]) -> Iterator[IoLimit]:
    limits: dict[str, IoLimit] = {}

    def limit(number: str, field: str, value: str) -> None:
        if number in names and value.isdecimal():
            setattr(limits.setdefault(number, IoLimit(cgroup, names[number])), field, int(value))

    for number, *pairs in _lines(folder / "io.max"):
        for key, _, value in (pair.partition("=") for pair in pairs):
            if key in _SECOND_VERSION:
                limit(number, _SECOND_VERSION[key], value)
    for field, file in _FIRST_VERSION.items():
        for number, *values in _lines(folder / file):
            limit(number, field, values[0] if values else "")
    yield from limits.values()


def _lines(path: Path) -> list[list[str]]:
    try:
        return [words for line in path.read_text("ascii", "replace").splitlines() if (words := line.split())]
    except OSError:
        return []
