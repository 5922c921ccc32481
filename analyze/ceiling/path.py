"""The TOML that describes a path from server to storage, read and checked: every error names the key."""

# ruff: noqa: RUF009 - `_key` is dataclasses.field with a check

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib import resources
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

from iotrace.schemas import IotraceError
from iotrace.schemas.plain_files import read_plain

from . import constants

_BYTES_MAX: Final = 1 << 20
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


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ValueError("a number above 0")
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**6:
        raise ValueError("a whole number above 0")
    return value


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise ValueError("a text in quotation marks")
    return value


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


_Check = Callable[[object], Any]


def _key(check: _Check, default: Any = MISSING) -> Any:  # noqa: ANN401 - a dataclass field of any type
    return (
        field(default=default, metadata={"check": check})
        if default is not MISSING
        else field(metadata={"check": check})
    )


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
    count: int = _key(_whole, 1)
    iops: float | None = _key(_positive, None)
    mb_per_s: float | None = _key(_positive, None)
    iops_unit_kib: float | None = _key(_positive, None)
    """A larger I/O counts as several."""


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
    try:
        data = read_plain(path, _BYTES_MAX)
        if len(data) > _BYTES_MAX:
            raise IotraceError(
                f"'{path}' is over 1 MiB, no description of a path", hint="iotrace ceiling --example"
            )
        text = data.decode("utf-8")
    except OSError as problem:
        raise IotraceError(
            f"cannot read '{path}': {problem.strerror}",
            hint="iotrace ceiling --example > path.toml makes one to edit",
        ) from problem
    except UnicodeDecodeError as problem:
        raise IotraceError(f"'{path}' is not UTF-8 text", hint="save it as UTF-8") from problem
    return parse_path(text, str(path))


def parse_path(text: str, name: str) -> Path:
    """Read the text of a TOML called ``name``. Raises `IotraceError` naming the key."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise IotraceError(
            f"'{name}' is not TOML: {str(problem)[:200]}", hint="iotrace ceiling --example shows how it looks"
        ) from problem
    known = {"title", "workload", "cpu", "adapter", "array", "vm", "disk", "queue"}
    _refuse_unknown(data, known, name, "")
    found = Path(
        title=_checked(_text, data["title"], name, "title") if "title" in data else "",
        workload=_table(Workload, data, name, "workload"),
        cpu=_table(Cpu, data, name, "cpu"),
        adapters=_tables(Adapter, data, name, "adapter"),
        array=_table(Ports, data, name, "array"),
        vm=_table(Capped, data, name, "vm"),
        disks=_tables(Capped, data, name, "disk"),
        queues=_tables(Queue, data, name, "queue"),
    )
    _check_speeds(found, name)
    return found


_T = TypeVar("_T")


def _table(kind: type[_T], data: Mapping[str, Any], name: str, key: str) -> _T | None:
    return _one(kind, data[key], name, key, key) if key in data else None


def _tables(kind: type[_T], data: Mapping[str, Any], name: str, key: str) -> tuple[_T, ...]:
    entries = data.get(key, [])
    if not isinstance(entries, list):
        raise IotraceError(
            f"{key} in '{name}' is no list of sections", hint=f"write [[{key}]], in two pairs of brackets"
        )
    return tuple(
        _one(kind, entry, name, f"{key} {number}", f"[{key}]")
        for number, entry in enumerate(entries, start=1)
    )


def _one(kind: type[_T], entry: object, name: str, where: str, heading: str) -> _T:
    if not isinstance(entry, dict):
        raise IotraceError(
            f"{where} in '{name}' is no section", hint=f"write [{heading}] and its keys below it"
        )
    known = fields(kind)  # type: ignore[arg-type]
    _refuse_unknown(entry, {one.name for one in known}, name, where)
    values = {}
    for one in known:
        if one.name in entry:
            values[one.name] = _checked(one.metadata["check"], entry[one.name], name, f"{where}: {one.name}")
        elif one.default is MISSING:
            raise IotraceError(
                f"{where} in '{name}' has no {one.name}", hint="iotrace ceiling --example shows what it takes"
            )
    return kind(**values)


def _checked(check: _Check, value: object, name: str, where: str) -> Any:  # noqa: ANN401
    try:
        return check(value)
    except ValueError as problem:
        raise IotraceError(f"{where} in '{name}' is {value!r}", hint=f"it takes {problem}") from problem


def _refuse_unknown(entry: Mapping[str, Any], known: set[str], name: str, where: str) -> None:
    for key in entry:
        if key not in known:
            raise IotraceError(
                f"'{name}' has a key {f'{where}: ' if where else ''}{key}, which means nothing",
                hint=f"{where or 'it'} takes {', '.join(sorted(known))}",
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
