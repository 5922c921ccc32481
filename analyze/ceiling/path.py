"""The TOML that describes a path from server to storage, read and checked: every error names the key."""

# ruff: noqa: RUF009 - `_key` is dataclasses.field with a check

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path as FilePath
from typing import Final

from iotrace.schemas import IotraceError
from iotrace.schemas.models import Disk, Machine
from iotrace.schemas.models.catalogue import find_disk, find_machine
from iotrace.schemas.sections import Reader, read_text
from iotrace.schemas.sections import key as _key
from iotrace.schemas.sections import positive as _positive
from iotrace.schemas.sections import share as _share
from iotrace.schemas.sections import text as _text
from iotrace.schemas.sections import whole as _whole

from . import constants

_MAKE: Final = "iotrace ceiling --example > path.toml makes one to edit"
PROTOCOLS: Final[Mapping[str, Sequence[float]]] = {
    "fc": tuple(constants.FIBRE_CHANNEL_MB_PER_S),
    "iscsi": constants.ETHERNET_GBIT,
    "nvme-tcp": constants.ETHERNET_GBIT,
    "nvme-roce": constants.ETHERNET_GBIT,
    "sas": tuple(constants.SAS_MB_PER_S),
}
ETHERNET: Final = ("iscsi", "nvme-tcp", "nvme-roce")


@dataclass(frozen=True, slots=True)
class Slot:
    """A PCI Express generation and its lanes."""

    generation: int
    lanes: int

    def __str__(self) -> str:
        return f"PCIe {self.generation}.0 x{self.lanes}"


def _protocol(value: object) -> str:
    if value not in PROTOCOLS:
        raise ValueError(f"one of {', '.join(PROTOCOLS)}")
    return str(value)


def _slot(value: object) -> Slot:
    words = value.lower().removeprefix("pcie").split() if isinstance(value, str) else []
    try:
        generation, lanes = words[0].removesuffix(".0"), words[1].removeprefix("x")
        slot = Slot(int(generation), int(lanes))
    except (IndexError, ValueError):
        slot = Slot(0, 0)
    if slot.generation not in constants.PCIE_GT_PER_S or slot.lanes not in constants.PCIE_LANES:
        raise ValueError('a generation and lanes such as "3.0 x8"')
    return slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The I/O that IOPS are worked out for."""

    mean_kib: float = _key(_positive)
    read_share: float | None = _key(_share, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """Processors that issue I/O."""

    cores: int = _key(_whole)
    clock_ghz: float = _key(_positive)
    cycles_per_io: float | None = _key(_positive, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of one speed, at the array's end."""

    name: str = _key(_text, "array")
    protocol: str | None = _key(_protocol, None)
    gbit: float | None = _key(_positive, None)
    ports: int | None = _key(_whole, None)
    mtu_bytes: int = _key(_whole, 1500)
    iops: float | None = _key(_positive, None)
    mb_per_s: float | None = _key(_positive, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Cards of one kind in the server."""

    name: str = _key(_text, "adapter")
    protocol: str = _key(_protocol)
    gbit: float = _key(_positive)
    ports: int = _key(_whole)
    cards: int = _key(_whole, 1)
    card_pcie: Slot | None = _key(_slot, None)
    slot_pcie: Slot | None = _key(_slot, None)
    pcie_payload_bytes: int = _key(_whole, constants.PCIE_PAYLOAD_BYTES)
    mtu_bytes: int = _key(_whole, 1500)

    @property
    def slot(self) -> Slot | None:
        """What card and slot come to together: the smaller generation, the fewer lanes."""
        known = [slot for slot in (self.card_pcie, self.slot_pcie) if slot is not None]
        if not known:
            return None
        return Slot(min(slot.generation for slot in known), min(slot.lanes for slot in known))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """Something whose limits a table of its maker states: a virtual machine's size, disks."""

    name: str = _key(_text, "")
    like: str | None = _key(_text, None)
    """A machine or disk of the catalogue that models are made of too: azure/P30. What is given here goes before."""
    count: int = _key(_whole, 1)
    iops: float | None = _key(_positive, None)
    mb_per_s: float | None = _key(_positive, None)
    iops_unit_kib: float | None = _key(_positive, None)
    """A larger I/O counts as several."""
    source: str | None = _key(_text, None)
    """Where the figures are from; None for the description itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Queues that hold so many I/Os each, and how long one takes."""

    name: str = _key(_text, "queue")
    count: int = _key(_whole, 1)
    depth: int = _key(_whole)
    latency_ms: float = _key(_positive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Everything between a server and its storage."""

    title: str = ""
    workload: Workload | None = None
    cpu: Cpu | None = None
    adapters: tuple[Adapter, ...] = ()
    array: Ports | None = None
    vm: Capped | None = None
    disks: tuple[Capped, ...] = ()
    queues: tuple[Queue, ...] = ()


def example() -> str:
    """A commented TOML that is read as it stands."""
    return resources.files(__package__).joinpath("example.toml").read_text("utf-8")


def read_path(path: FilePath) -> Path:
    """Read ``path``. Raises `IotraceError` naming the file and the key."""
    return parse_path(read_text(path, what="description of a path", hint=_MAKE), str(path))


def parse_path(text: str, name: str) -> Path:
    """Read the text of a TOML called ``name``. Raises `IotraceError` naming the key."""
    reader = Reader(name, "iotrace ceiling --example shows what it takes")
    data = reader.parse(text)
    known = {"title", "workload", "cpu", "adapter", "array", "vm", "disk", "queue"}
    reader.refuse_unknown(data, known, "")
    vm = reader.table(Capped, data, "vm")
    found = Path(
        title=reader.checked(_text, data["title"], "title") if "title" in data else "",
        workload=reader.table(Workload, data, "workload"),
        cpu=reader.table(Cpu, data, "cpu"),
        adapters=reader.tables(Adapter, data, "adapter"),
        array=reader.table(Ports, data, "array"),
        vm=None if vm is None else _of_catalogue(vm, find_machine, name),
        disks=tuple(_of_catalogue(disk, find_disk, name) for disk in reader.tables(Capped, data, "disk")),
        queues=reader.tables(Queue, data, "queue"),
    )
    _check_speeds(found, name)
    return found


def _of_catalogue(capped: Capped, find: Callable[[str, str], Disk | Machine], name: str) -> Capped:
    """With the sustained limits of what it is like: a ceiling is for ever, and credits are not."""
    if capped.like is None:
        return capped
    found = find(capped.like, name)
    iops = min((limit.iops for limit in found.limits if limit.iops), default=None)
    mb_per_s = min((limit.mb_per_s for limit in found.limits if limit.mb_per_s), default=None)
    unit_kib = next((limit.unit_kib for limit in found.limits if limit.unit_kib), None)
    return replace(
        capped,
        name=capped.name or found.name,
        iops=capped.iops or iops,
        mb_per_s=capped.mb_per_s or mb_per_s,
        iops_unit_kib=capped.iops_unit_kib or unit_kib,
        source=capped.source or f"{found.source}, {found.date}; sustained, without bursts",
    )


def _check_speeds(path: Path, name: str) -> None:
    """What one key alone does not tell: whether a protocol has that speed, and whether anything limits at all."""
    ends: list[tuple[str, str | None, float | None, int | None]] = [
        (f"adapter {number}", one.protocol, one.gbit, one.ports)
        for number, one in enumerate(path.adapters, start=1)
    ]
    if path.array is not None:
        ends.append(("array", path.array.protocol, path.array.gbit, path.array.ports))
    for where, protocol, gbit, ports in ends:
        given = [protocol is not None, gbit is not None, ports is not None]
        if any(given) and not all(given):
            raise IotraceError(
                f"{where} in '{name}' has only some of protocol, gbit and ports",
                hint="give all three, or none",
            )
        if protocol is not None and gbit not in PROTOCOLS[protocol]:
            speeds = ", ".join(f"{speed:g}" for speed in PROTOCOLS[protocol])
            raise IotraceError(
                f"{where}: gbit in '{name}' is {gbit:g}, which {protocol} does not have",
                hint=f"it takes {speeds}",
            )
    for where, mtu in [
        *((f"adapter {number}", one.mtu_bytes) for number, one in enumerate(path.adapters, start=1)),
        *([("array", path.array.mtu_bytes)] if path.array else []),
    ]:
        if not 576 <= mtu <= 65_536:
            raise IotraceError(f"{where}: mtu_bytes in '{name}' is {mtu}", hint="it takes 1500, 9000 or so")
    for number, one in enumerate(path.adapters, start=1):
        if one.pcie_payload_bytes not in (128, 256, 512, 1024, 2048, 4096):
            raise IotraceError(
                f"adapter {number}: pcie_payload_bytes in '{name}' is {one.pcie_payload_bytes}",
                hint="it takes 128, 256, 512, …, 4096",
            )
