"""From what a user calls a device (path, mount point, file on it) to kernel numbers, and what /sys tells of it."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from iotrace.schemas import TABLES, IotraceError, Role, conform
from iotrace.schemas.plain_files import kernel_lines
from iotrace.schemas.units import SECTOR_BYTES

_SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A disk or partition. ``number`` is the kernel's: major << 20 | minor; a disk is its own ``disk_number``."""

    name: str
    number: int
    disk_number: int
    start_sector: int
    sectors: int
    folder: Path
    """Its folder in /sys."""

    @property
    def is_partition(self) -> bool:
        """Whether it lies on a disk rather than being one."""
        return self.number != self.disk_number

    @property
    def takes_requests(self) -> bool:
        """Whether a driver queue exists; device-mapper, md and zram take bios and have no device layer."""
        return (_disk_folder(self) / "mq").is_dir()


@dataclass(frozen=True, slots=True)
class Selection:
    """What to record: the devices asked for, their disks in order of ``device_id``, and each disk's role."""

    words: Mapping[str, BlockDevice]
    disks: Sequence[BlockDevice]
    """Those asked for, then those beneath them."""
    roles: Mapping[int, tuple[str, Role]]
    """Position of the disk → (word, role)."""
    beneath: Mapping[str, Sequence[BlockDevice]] = field(default_factory=dict)
    """Word for a volume that takes no requests → what it lies on, whose requests are its device layer."""

    def positions(self) -> dict[int, int]:
        """Kernel number → position of the disk, for disks and their partitions."""
        at = {disk.number: index for index, disk in enumerate(self.disks)}
        return at | {part.number: index for index, disk in enumerate(self.disks) for part in partitions(disk)}

    def trace_filter(self, event: str) -> str:
        """Ftrace filter that passes the asked devices' events.

        Bio events of a partition carry its number, request events its disk's; sectors count from the disk's start in
        both. Flush requests carry no sector, so a partition's recording holds those of its whole disk.
        """
        clauses: list[str] = []
        of_requests = "_rq_" in event
        # A volume's bios are counted on the volume; those it sends to the disks beneath would be counted twice.
        beneath = [device for devices in self.beneath.values() for device in devices] if of_requests else []
        for device in (*self.words.values(), *beneath):
            if not device.is_partition:
                clauses += [f"dev == {number}" for number in (device.number, *_numbers(partitions(device)))]
                continue
            end = device.start_sector + device.sectors
            clauses.append(f"dev == {device.number}")
            clauses.append(
                f"(dev == {device.disk_number} && sector >= {device.start_sector} && sector < {end})"
            )
            if of_requests:
                clauses.append(f"(dev == {device.disk_number} && nr_sector == 0)")
        return " || ".join(dict.fromkeys(clauses))


def select(words: Sequence[str], roles: Mapping[str, str] | None = None) -> Selection:
    """Resolve the user's ``words``. Raises `IotraceError` naming the word that is no device."""
    if not words:
        raise IotraceError("no device to record", hint="name one: /dev/sdb, a mount point, or a file on it")
    found = {word: resolve(word) for word in words}
    disks: dict[int, BlockDevice] = {}
    for device in found.values():
        disks.setdefault(device.disk_number, disk_of(device))
    below = {word: lies_on(device) for word, device in found.items() if not device.takes_requests}
    for devices in below.values():
        for device in devices:
            disks.setdefault(device.disk_number, disk_of(device))
    below = {word: devices for word, devices in below.items() if devices}
    attributed = _attribute(roles or {}, list(disks))
    for word, devices in below.items():
        role = attributed.get(list(disks).index(found[word].disk_number))
        others = {part.disk_number for other, its in below.items() if other != word for part in its}
        for device in devices:
            if role is not None and device.disk_number not in others:
                attributed.setdefault(list(disks).index(device.disk_number), role)
    return Selection(found, list(disks.values()), attributed, below)


def _attribute(roles: Mapping[str, str], numbers: Sequence[int]) -> dict[int, tuple[str, Role]]:
    """Position in ``numbers``, which are disks', → (word, role)."""
    attributed: dict[int, tuple[str, Role]] = {}
    for word, role in roles.items():
        if role not in set(Role):
            raise IotraceError(f"'{role}' is no role", hint=f"roles are {', '.join(Role)}")
        device = resolve(word)
        if device.disk_number not in numbers:
            raise IotraceError(
                f"a role is given for '{word}', which is not recorded", hint="name the device, too"
            )
        position = numbers.index(device.disk_number)
        if position in attributed:
            raise IotraceError(
                f"'{word}' and '{attributed[position][0]}' lie on one disk and cannot have a role each",
                hint="roles are told apart by disk",
            )
        attributed[position] = (word, Role(role))
    return attributed


def resolve(word: str) -> BlockDevice:
    """The block device a path names, or the one it lies on. Raises `IotraceError`."""
    path = Path(word)
    if not path.exists() and "/" not in word and Path("/dev", word).exists():
        path = Path("/dev", word)
    try:
        status = path.stat()
    except OSError as problem:
        raise IotraceError(
            f"no device '{word}': {problem.strerror}", hint="lsblk lists the block devices of this machine"
        ) from problem
    if stat.S_ISCHR(status.st_mode):
        raise IotraceError(
            f"'{word}' is a character device, not a block device", hint="lsblk lists block devices"
        )
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
    if os.major(number) == 0:
        # btrfs and the like number their mounts themselves, but name a device in the mount table.
        source = next(
            (m.source for m in mounts() if m.number == number and m.source.startswith("/dev/")), None
        )
        if source is None or not Path(source).is_block_device():
            kind = next((m.filesystem for m in mounts() if m.number == number), "a file system in memory")
            raise IotraceError(
                f"no block device lies behind '{word}' ({kind})",
                hint="name a disk, or a path on one; see lsblk",
            )
        number = Path(source).stat().st_rdev
    return _from_sys(number, word)


def disk_of(device: BlockDevice) -> BlockDevice:
    """The disk a partition lies on; a disk itself."""
    return _describe(_disk_folder(device))


def lies_on(device: BlockDevice) -> list[BlockDevice]:
    """The disks and partitions that a volume (LVM, MD) is made of, down to those whose driver takes requests."""
    found: dict[int, BlockDevice] = {}
    for entry in sorted((_disk_folder(device) / "slaves").glob("*")):
        part = _describe(entry.resolve())
        for lower in [part] if part.takes_requests else lies_on(part):
            found.setdefault(lower.number, lower)
    return list(found.values())


def partitions(disk: BlockDevice) -> list[BlockDevice]:
    """Partitions of a disk in order of their start."""
    found = [_describe(entry.parent) for entry in disk.folder.glob("*/partition")]
    return sorted(found, key=lambda part: part.start_sector)


def devices_table(selection: Selection) -> pa.Table:
    """Rows of ``devices``: the disks, in order, then their partitions."""
    rows = [_row(index, disk, None) for index, disk in enumerate(selection.disks)]
    for index, disk in enumerate(selection.disks):
        for part in partitions(disk):
            rows.append(_row(len(rows), part, index))
    return conform(pa.Table.from_pylist(rows, schema=_plain_schema("devices")), "devices")


def files_table(selection: Selection) -> pa.Table:
    """Rows of ``files``: one for each disk that was given a role, so ``file_id`` means "on this device"."""
    rows = []
    for file_id, (position, (word, role)) in enumerate(sorted(selection.roles.items())):
        disk = selection.disks[position]
        device = resolve(word)
        path = mount_of(device) or mount_of(disk) or Mount(0, f"/dev/{device.name}", "", "")
        rows.append(
            {
                "file_id": file_id,
                "path": path.point,
                "role": str(role),
                "device_id": position,
                "size_bytes": device.sectors * SECTOR_BYTES,
            }
        )
    return conform(pa.Table.from_pylist(rows, schema=_plain_schema("files")), "files")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of the mount table."""

    number: int
    point: str
    filesystem: str
    source: str


def mounts() -> list[Mount]:
    """The mount table of this process (``man 5 proc_pid_mountinfo``)."""
    found = []
    for line in kernel_lines(Path("/proc/self/mountinfo"), "replace"):
        before, _, after = line.partition(" - ")
        fields, (filesystem, source, *_) = before.split(" "), after.split(" ")
        major, minor = fields[2].split(":")
        point = fields[4].replace("\\040", " ")
        found.append(Mount(os.makedev(int(major), int(minor)), point, filesystem, source))
    return found


def mount_of(device: BlockDevice) -> Mount | None:
    """Where a device is mounted first."""
    number = os.makedev(device.number >> 20, device.number & 0xFFFFF)
    return next((mount for mount in mounts() if mount.number == number), None)


def _from_sys(number: int, word: str) -> BlockDevice:
    link = _SYS / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
    if not link.exists():
        raise IotraceError(f"'{word}' has no block device in /sys", hint="lsblk lists the block devices")
    return _describe(link.resolve())


def _describe(folder: Path) -> BlockDevice:
    number = _number(folder)
    is_partition = (folder / "partition").exists()
    return BlockDevice(
        name=folder.name.replace("!", "/"),
        number=number,
        disk_number=_number(folder.parent) if is_partition else number,
        start_sector=int(_text(folder / "start") or 0) if is_partition else 0,
        sectors=int(_text(folder / "size") or 0),
        folder=folder,
    )


def _row(device_id: int, device: BlockDevice, parent: int | None) -> dict[str, object]:
    queue = _disk_folder(device) / "queue"
    mount = mount_of(device)
    cache = _text(queue / "write_cache")
    logical, physical = _text(queue / "logical_block_size"), _text(queue / "physical_block_size")
    return {
        "device_id": device_id,
        "name": device.name,
        "kind": "partition" if device.is_partition else "disk",
        "parent_device_id": parent,
        "start_bytes": device.start_sector * SECTOR_BYTES if device.is_partition else None,
        "size_bytes": device.sectors * SECTOR_BYTES,
        "logical_block_bytes": int(logical) if logical else None,
        "physical_block_bytes": int(physical) if physical else None,
        "mount": mount.point if mount else None,
        "filesystem": mount.filesystem if mount else None,
        "model": _model(device),
        "write_cache": None if cache is None else cache == "write back",
    }


def _model(device: BlockDevice) -> str | None:
    if below := lies_on(device):
        kind = _text(device.folder / "md/level") or "volume"
        return f"{kind} over {', '.join(part.name for part in below)}"
    backing = _text(device.folder / "loop/backing_file")
    if backing is not None:
        return f"loop device over {backing}"
    folder = _disk_folder(device) / "device"
    words = [_text(folder / name) for name in ("vendor", "model")]
    return " ".join(word for word in words if word) or None


def _disk_folder(device: BlockDevice) -> Path:
    return device.folder.parent if device.is_partition else device.folder


def _number(folder: Path) -> int:
    major, minor = (folder / "dev").read_text("ascii").strip().split(":")
    return int(major) << 20 | int(minor)


def _numbers(devices: Sequence[BlockDevice]) -> list[int]:
    return [device.number for device in devices]


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def _plain_schema(table_name: str) -> pa.Schema:
    """The table's schema with words as plain strings, as Python lists hold them."""
    return pa.schema(
        [
            column.with_type(pa.string()) if pa.types.is_dictionary(column.type) else column
            for column in TABLES[table_name]
        ]
    )
