"""What each part of a path allows at most, and which of them binds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from iotrace.analyze.present.program import figure

from . import constants
from .path import ETHERNET, Adapter, Capped, Path, Ports

ASSUMED_SIZE_BYTES: Final = 64 << 10
"""Size for which IOPS are worked out where nobody says."""
_STATED: Final = "stated in the description of the path"


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit. MB are 10^6 bytes."""

    stage: str
    """adapters, array, vm, disks, queues or processors: the stages lie in series."""
    name: str
    by_name_mb_per_s: float | None
    """What the label says: gigabits over eight, or a slot as it is usually quoted."""
    stated_mb_per_s: float | None
    """What it carries, one way where ``duplex``; None where it limits IOPS only."""
    stated_iops: float | None
    duplex: bool
    """Whether reads and writes each have that much."""
    source: str
    mb_per_s: float
    """At the workload's size and mix."""
    iops: float
    """At the workload's size and mix."""
    part: bool = False
    """One of several that add up: it does not bind by itself, their sum does."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The least of the limits, for I/O of one mean size."""

    title: str
    size_bytes: float
    size_assumed: bool
    read_share: float | None
    """Share of the bytes that are reads; None where it is taken that all go one way."""
    limits: tuple[Limit, ...]
    binding: Limit | None
    """None where nothing limits."""
    one_at_a_time_iops: float | None
    """One I/O in flight at the latency stated for the queues."""
    notes: tuple[str, ...]

    @figure
    def mb_per_s(self) -> float | None:
        """The most that the path carries."""
        return self.binding.mb_per_s if self.binding else None

    @figure
    def iops(self) -> float | None:
        """The most I/Os a second of that size."""
        return self.binding.iops if self.binding else None


def ceiling(path: Path, *, size_bytes: float | None = None, read_share: float | None = None) -> Ceiling:
    """Work out all limits of ``path``; what is given here goes before the path's own ``[workload]``."""
    told = path.workload
    size = size_bytes or (told.mean_kib * 1024 if told else ASSUMED_SIZE_BYTES)
    share = read_share if read_share is not None else (told.read_share if told else None)
    at = _At(size, share)
    limits = [
        *_processors(path, at),
        *_adapters(path, at),
        *_array(path, at),
        *_capped(path, at),
        *_queues(path, at),
    ]
    limits = [limit for limit in limits if math.isfinite(limit.mb_per_s)]
    binding = min(
        (limit for limit in limits if not limit.part), key=lambda limit: limit.mb_per_s, default=None
    )
    latency_ms = min((queue.latency_ms for queue in path.queues), default=None)
    return Ceiling(
        title=path.title,
        size_bytes=size,
        size_assumed=not size_bytes and told is None,
        read_share=share,
        limits=tuple(limits),
        binding=binding,
        one_at_a_time_iops=1000 / latency_ms if latency_ms else None,
        notes=tuple(_notes(path)),
    )


@dataclass(frozen=True, slots=True)
class _At:
    size_bytes: float
    read_share: float | None

    def limit(
        self,
        stage: str,
        name: str,
        source: str,
        *,
        mb_per_s: float | None = None,
        iops: float | None = None,
        by_name: float | None = None,
        duplex: bool = False,
        unit_bytes: float | None = None,
    ) -> Limit:
        """The limit at this size and mix. Of two directions the busier one fills first."""
        rates = []
        if mb_per_s is not None:
            busier = (
                max(self.read_share, 1 - self.read_share) if duplex and self.read_share is not None else 1.0
            )
            rates.append(mb_per_s / busier)
        if iops is not None:
            counted = math.ceil(self.size_bytes / unit_bytes) if unit_bytes else 1
            rates.append(iops / counted * self.size_bytes / 1e6)
        return self._of(
            stage, name, source, min(rates, default=math.inf), by_name, mb_per_s, iops, duplex=duplex
        )

    def together(self, stage: str, name: str, parts: Iterable[Limit]) -> Limit:
        """What parts side by side come to."""
        parts = list(parts)
        by_name = [part.by_name_mb_per_s for part in parts]
        known = [one for one in by_name if one is not None]
        return self._of(
            stage,
            name,
            "the sum of the parts above",
            sum(part.mb_per_s for part in parts),
            sum(known) if len(known) == len(parts) else None,
            None,
            None,
            duplex=False,
        )

    def _of(
        self,
        stage: str,
        name: str,
        source: str,
        mb_per_s: float,
        by_name: float | None,
        stated_mb: float | None,
        stated_iops: float | None,
        *,
        duplex: bool,
    ) -> Limit:
        return Limit(
            stage=stage,
            name=name,
            by_name_mb_per_s=by_name,
            stated_mb_per_s=stated_mb,
            stated_iops=stated_iops,
            duplex=duplex,
            source=source,
            mb_per_s=mb_per_s,
            iops=mb_per_s * 1e6 / self.size_bytes,
        )


def _processors(path: Path, at: _At) -> Iterable[Limit]:
    cpu = path.cpu
    if cpu is not None and cpu.cycles_per_io is not None:
        source = f"cores x clock / {cpu.cycles_per_io:,.0f} cycles an I/O, as stated"
        name = f"{cpu.cores} cores at {cpu.clock_ghz:g} GHz"
        yield at.limit("processors", name, source, iops=cpu.cores * cpu.clock_ghz * 1e9 / cpu.cycles_per_io)


def _adapters(path: Path, at: _At) -> Iterable[Limit]:
    alone = len(path.adapters) == 1
    least = []
    for adapter in path.adapters:
        of_one = [_ports(at, "adapters", adapter.name, adapter, adapter.ports * adapter.cards)]
        if adapter.slot is not None:
            of_one.append(_slot(at, adapter))
        yield from (limit if alone else replace(limit, part=True) for limit in of_one)
        least.append(min(of_one, key=lambda limit: limit.mb_per_s))
    if len(path.adapters) > 1:
        yield at.together("adapters", "all adapters together", least)


def _ports(at: _At, stage: str, name: str, end: Adapter | Ports, count: int) -> Limit:
    assert end.gbit is not None
    rate, source, word = _port(end.protocol or "", end.gbit, end.mtu_bytes)
    return at.limit(
        stage,
        f"{name}: {count} x {word}",
        source,
        mb_per_s=count * rate,
        by_name=count * end.gbit * 1e9 / 8 / 1e6,
        duplex=True,
    )


def _port(protocol: str, gbit: float, mtu_bytes: int) -> tuple[float, str, str]:
    """MB/s one way, where that is from, and what people call it."""
    if protocol == "fc":
        return constants.FIBRE_CHANNEL_MB_PER_S[int(gbit)], constants.FIBRE_CHANNEL_SOURCE, f"{gbit:g} Gb FC"
    if protocol == "sas":
        return constants.SAS_MB_PER_S[gbit], constants.SAS_SOURCE, f"{gbit:g} Gb SAS"
    assert protocol in ETHERNET
    headers = constants.ROCE_BYTES if protocol == "nvme-roce" else constants.TCP_IP_BYTES
    rate = constants.ethernet_mb_per_s(gbit, mtu_bytes, headers)
    return rate, constants.ETHERNET_SOURCE, f"{gbit:g} GbE {protocol}"


def _slot(at: _At, adapter: Adapter) -> Limit:
    slot = adapter.slot
    assert slot is not None
    rate = constants.pcie_mb_per_s(slot.generation, slot.lanes, adapter.pcie_payload_bytes)
    times = f"{adapter.cards} x " if adapter.cards > 1 else ""
    return at.limit(
        "adapters",
        f"{adapter.name} slot: {times}{slot}",
        constants.PCIE_SOURCE,
        mb_per_s=rate * adapter.cards,
        by_name=constants.pcie_by_name_mb_per_s(slot.generation, slot.lanes) * adapter.cards,
        duplex=True,
    )


def _array(path: Path, at: _At) -> Iterable[Limit]:
    array = path.array
    if array is None:
        return
    if array.protocol is not None and array.ports is not None:
        yield _ports(at, "array", array.name, array, array.ports)
    yield from _caps(at, "array", f"{array.name} limits", Capped(iops=array.iops, mb_per_s=array.mb_per_s))


def _caps(at: _At, stage: str, name: str, of: Capped) -> Iterable[Limit]:
    unit = of.iops_unit_kib * 1024 if of.iops_unit_kib else None
    if of.mb_per_s is not None:
        yield at.limit(
            stage,
            f"{name}: MB/s",
            of.source or _STATED,
            mb_per_s=of.mb_per_s * of.count,
            by_name=of.mb_per_s * of.count,
        )
    if of.iops is not None:
        yield at.limit(stage, f"{name}: IOPS", of.source or _STATED, iops=of.iops * of.count, unit_bytes=unit)


def _capped(path: Path, at: _At) -> Iterable[Limit]:
    if path.vm is not None:
        yield from _caps(at, "vm", path.vm.name or "virtual machine", path.vm)
    alone = len(path.disks) == 1
    least = []
    for number, disk in enumerate(path.disks, start=1):
        times = f"{disk.count} x " if disk.count > 1 else ""
        of_one = list(_caps(at, "disks", f"{times}{disk.name or f'disk {number}'}", disk))
        yield from (limit if alone else replace(limit, part=True) for limit in of_one)
        least.append(min(of_one, key=lambda limit: limit.mb_per_s, default=None))
    known = [limit for limit in least if limit is not None]
    # A disk without limits makes the sum of the others no limit.
    if not alone and path.disks and len(known) == len(path.disks):
        yield at.together("disks", "all disks together", known)


def _queues(path: Path, at: _At) -> Iterable[Limit]:
    for queue in path.queues:
        slots = queue.count * queue.depth
        times = f"{queue.count} x " if queue.count > 1 else ""
        name = f"{queue.name}: {times}{queue.depth} deep at {queue.latency_ms:g} ms"
        yield at.limit("queues", name, constants.LITTLE_SOURCE, iops=slots / (queue.latency_ms / 1000))


def _notes(path: Path) -> Iterable[str]:
    for adapter in path.adapters:
        card, slot = adapter.card_pcie, adapter.slot_pcie
        if card and slot and (slot.lanes < card.lanes or slot.generation < card.generation):
            yield f"{adapter.name}: a {card} card sits in a {slot} slot and runs as {adapter.slot}"
    if path.cpu is not None and path.cpu.cycles_per_io is None:
        yield "processors: nothing can be said without cycles_per_io, from a measurement"
    if path.array is None and path.adapters:
        yield "nothing is said of the array: its ports and limits may be lower than all of this"
