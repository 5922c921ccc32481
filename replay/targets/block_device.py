"""What the system says about a block device: who uses it, how large its blocks are, what it has done so far."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from iotrace.schemas.plain_files import kernel_lines
from iotrace.schemas.run import DeviceCounters

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """From sysfs. ``name`` is the kernel's: sda, dm-0; empty where there is no device behind a file."""

    name: str
    logical_block_bytes: int
    physical_block_bytes: int | None
    model: str | None
    write_cache: bool | None
    rotational: bool | None
    partition: bool


def facts(device_number: int, *, root: Path = _ROOT) -> DeviceFacts:
    """Facts on the block device with this number, as far as sysfs knows it; 4 KiB blocks where it does not."""
    folder = folder_of(device_number, root)
    if not folder.is_dir():
        return DeviceFacts("", 4096, None, None, None, None, partition=False)
    partition = (folder / "partition").exists()
    disk = folder.parent if partition else folder
    cache = word(disk / "queue/write_cache")
    rotational = word(disk / "queue/rotational")
    return DeviceFacts(
        name=folder.name,
        logical_block_bytes=int(word(disk / "queue/logical_block_size") or 4096),
        physical_block_bytes=int(word(disk / "queue/physical_block_size") or 0) or None,
        model=word(disk / "device/model"),
        write_cache=None if cache is None else cache == "write back",
        rotational=None if rotational is None else rotational == "1",
        partition=partition,
    )


def use(device_number: int, *, root: Path = _ROOT) -> str | None:
    """Why the device must not be written, in words, or None.

    Looks for mounts, swap, and RAID, LVM and other holders: of the device, its partitions, and the disk that it is a
    partition of.
    """
    if not folder_of(device_number, root).is_dir():
        return "the system does not know it as a block device"
    mounts, swaps = _mounts(root), _swaps(root)
    for part, label in overlapping(device_number, root=root):
        number = word(part / "dev") or ""
        if number in mounts:
            return f"{label} is mounted on {mounts[number]}"
        if number in swaps:
            return f"{label} is swap space in use"
        if holder := _first_holder(part):
            return f"{label} is part of {holder} (RAID, LVM or the like)"
    return None


def overlapping(device_number: int, *, root: Path = _ROOT) -> list[tuple[Path, str]]:
    """The device, its partitions and the disk that it is a partition of: folder in sysfs, and the word for it."""
    folder = folder_of(device_number, root)
    disks = [(folder.parent, f"its disk {folder.parent.name}")] if (folder / "partition").exists() else []
    return [(folder, "it"), *((part, f"its partition {part.name}") for part in _partitions(folder)), *disks]


def number_of(folder: Path) -> int | None:
    """The number of the device with that folder in sysfs."""
    told = word(folder / "dev")
    return os.makedev(*map(int, told.split(":"))) if told else None


def sequence(device_number: int, *, root: Path = _ROOT) -> int | None:
    """Which of the disks that have had this number it is now; the kernel counts them since boot. None: it does not."""
    folder = folder_of(device_number, root)
    disk = folder.parent if (folder / "partition").exists() else folder
    told = word(disk / "diskseq")
    return int(told) if told else None


def counters(device_number: int, *, root: Path = _ROOT) -> DeviceCounters | None:
    """The device's line of /proc/diskstats: I/Os, bytes, their time and busy time since boot, everybody's included."""
    wanted = [str(os.major(device_number)), str(os.minor(device_number))]
    try:
        lines = (root / "proc/diskstats").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if words[:2] == wanted and len(words) >= 14:
            numbers = [int(word) for word in words[3:14]]
            return DeviceCounters(
                reads=numbers[0],
                read_bytes=numbers[2] * 512,
                read_ns=numbers[3] * 1_000_000,
                writes=numbers[4],
                written_bytes=numbers[6] * 512,
                write_ns=numbers[7] * 1_000_000,
                in_flight=numbers[8],
                busy_ns=numbers[9] * 1_000_000,
            )
    return None


def filesystem_of(path: Path, *, root: Path = _ROOT) -> str | None:
    """Type of the file system that ``path`` lies on, by the longest mount point above it; None if it leads nowhere."""
    best, kind = -1, None
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a circle of links, or one replaced while it is followed (EINVAL)
        return None
    for fields in _mount_lines(root):
        point = Path(unescaped(fields[4]))
        if (real == point or point in real.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[fields.index("-") + 1]
    return kind


def filesystem_with(device_number: int, *, root: Path = _ROOT) -> str | None:
    """Type of the mounted file system of that number (``st_dev``); None where mounts do not tell it, as on btrfs."""
    number = f"{os.major(device_number)}:{os.minor(device_number)}"
    kinds = (fields[fields.index("-") + 1] for fields in _mount_lines(root) if fields[2] == number)
    return next(kinds, None)


def folder_of(device_number: int, root: Path = _ROOT) -> Path:
    """The device's folder in sysfs."""
    return (root / f"sys/dev/block/{os.major(device_number)}:{os.minor(device_number)}").resolve()


def _partitions(folder: Path) -> list[Path]:
    return sorted(entry.parent for entry in folder.glob("*/partition"))


def _first_holder(folder: Path) -> str | None:
    holders = sorted(entry.name for entry in (folder / "holders").glob("*"))
    return holders[0] if holders else None


def _mount_lines(root: Path, process: str = "self") -> list[list[str]]:
    return [line.split(" ") for line in kernel_lines(root / f"proc/{process}/mountinfo")]


def _mounts(root: Path) -> dict[str, str]:
    """Mount points by device number. A file system of several devices only names one: opening with O_EXCL tells."""
    found: dict[str, str] = {}
    for fields in _mount_lines(root):
        source = Path(unescaped(fields[fields.index("-") + 2]))
        found.setdefault(fields[2], unescaped(fields[4]))
        if source.is_absolute() and (number := _device_number(source)):
            found.setdefault(number, unescaped(fields[4]))
    return found


def swap_files(*, root: Path = _ROOT) -> list[Path]:
    """Files and devices that are swap space in use."""
    try:
        lines = kernel_lines(root / "proc/swaps")[1:]
    except OSError:
        return []
    return [Path(unescaped(line.partition(" ")[0])) for line in lines]


def mount_points(process: str = "self", *, root: Path = _ROOT) -> list[tuple[str, str, str]]:
    """Device number (major:minor) of the file system, path and type of every mount that the process sees."""
    return [
        (fields[2], unescaped(fields[4]), fields[fields.index("-") + 1])
        for fields in _mount_lines(root, process)
    ]


def _swaps(root: Path) -> set[str]:
    return {number for path in swap_files(root=root) if (number := _device_number(path))}


def _device_number(path: Path) -> str | None:
    try:
        number = path.stat().st_rdev
    except OSError:
        return None
    return f"{os.major(number)}:{os.minor(number)}" if number else None


def unescaped(text: str) -> str:
    """The kernel writes blanks and backslashes of paths as octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def word(path: Path) -> str | None:
    """What a small file of the system says; None where it is not there, empty or not to be read."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None
