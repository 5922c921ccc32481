"""The catalogue of disks and machines that people move to: TOML beside this module, source and date for each figure.

Three kinds of disk: of fixed size, ``azure/P30``; with rates to choose, ``aws/gp3-6000-500`` (IOPS, MB/s; the least
there is without); and whose rates go with their size, ``aws/gp2-500`` (GiB).
"""

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Final

from iotrace.schemas.errors import IotraceError
from iotrace.schemas.sections import Reader, flag, key, list_of, positive, section, sections, text

from .model import Disk, Limit, Machine, Service

_SUFFIX: Final = ".catalogue.toml"
_MB_OF_MIB: Final = (1 << 20) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedSource:
    """A document, and its own date, or where it has none the day it was read."""

    name: str = key(text)
    title: str = key(text)
    date: str = key(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Disks with rates that their owner chooses."""

    name: str = key(text)
    source: str = key(text)
    iops_least: float = key(positive)
    iops_most: float = key(positive)
    mb_per_s_least: float | None = key(positive, None)
    """Without it MB/s are not chosen: they go with the IOPS."""
    mb_per_s_most: float = key(positive)
    mb_per_s_per_iops: float | None = key(positive, None)
    """MB/s that may be chosen for each IOPS chosen."""
    mb_per_s_least_per_iops: float | None = key(positive, None)
    """MB/s that have to be chosen for each IOPS chosen, where that is more than ``mb_per_s_least``."""
    iops_per_gib: float | None = key(positive, None)
    """IOPS that may be chosen for each GiB."""
    unit_kib: float | None = key(positive, None)
    merge_kib: float | None = key(positive, None)
    binary_mb: bool = key(flag, default=False)
    """Its MB/s are MiB/s."""
    steps_iops: tuple[float, ...] = key(list_of(positive))
    """What sizing tries, rising."""
    service: Service = section(Service, Service())


@dataclass(frozen=True, slots=True, kw_only=True)
class BySize:
    """Disks whose rates go with their size."""

    name: str = key(text)
    source: str = key(text)
    steps_gib: tuple[float, ...] = key(list_of(positive))
    """What sizing tries, rising."""
    advised_against_for: str = key(text, "")
    """What its provider advises against using it for, in that source. Sizing for a database leaves such disks out."""
    iops_per_gib: float | None = key(positive, None)
    iops_base: float | None = key(positive, None)
    """Added to what goes with the size."""
    iops_least: float | None = key(positive, None)
    iops_most: float | None = key(positive, None)
    mb_per_s_per_gib: float | None = key(positive, None)
    mb_per_s_base: float | None = key(positive, None)
    mb_per_s_most: float | None = key(positive, None)
    small_gib: float | None = key(positive, None)
    """Disks up to this size have ``small_mb_per_s_most`` instead of ``mb_per_s_most``."""
    small_mb_per_s_most: float | None = key(positive, None)
    burst_iops: float | None = key(positive, None)
    credit_ios: float | None = key(positive, None)
    burst_mb_per_s_per_gib: float | None = key(positive, None)
    burst_mb_per_s_most: float | None = key(positive, None)
    credit_mb_per_gib: float | None = key(positive, None)
    unit_kib: float | None = key(positive, None)
    merge_kib: float | None = key(positive, None)
    binary_mb: bool = key(flag, default=False)
    """Its MB are MiB."""
    service: Service = section(Service, Service())


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What one provider has."""

    title: str = key(text)
    sources: tuple[CitedSource, ...] = sections(CitedSource)
    disks: tuple[Disk, ...] = sections(Disk)
    chosens: tuple[Chosen, ...] = sections(Chosen)
    sizeds: tuple[BySize, ...] = sections(BySize)
    machines: tuple[Machine, ...] = sections(Machine)

    def dated(self, source: str) -> tuple[str, str]:
        """Title and date of a source."""
        for one in self.sources:
            if one.name == source:
                return one.title, one.date
        raise KeyError(source)

    def cited_disk(self, disk: Disk, source: str) -> Disk:
        """``disk`` with the title and date of its source."""
        title, date = self.dated(source)
        return replace(disk, source=title, date=date)

    def left_out(self) -> list[BySize]:
        """Disks that sizing does not try, since their provider advises against them for a database."""
        return [sized for sized in self.sizeds if sized.advised_against_for]

    def candidates(self) -> Iterator[Disk]:
        """Disks that sizing tries."""
        left_out = self.left_out()
        for disk in self.listed():
            if not any(disk.name.startswith(f"{one.name}-") for one in left_out):
                yield disk

    def listed(self) -> Iterator[Disk]:
        """Every disk, those with rates or sizes to choose at some of them."""
        for disk in self.disks:
            yield self.cited_disk(disk, disk.source)
        for chosen in self.chosens:
            for iops in chosen.steps_iops:
                most = _mb_most(chosen, iops)
                least = _mb_least(chosen, iops, most)
                # A thirtieth of what goes with the IOPS is nobody's choice.
                for mb_per_s in sorted({least if least * 30 > most else most, most}):
                    yield self._chosen(chosen, iops, mb_per_s)
        for sized in self.sizeds:
            for gib in sized.steps_gib:
                yield self._sized(sized, gib)

    def machine(self, name: str) -> Machine | None:
        """The machine of this name."""
        for machine in self.machines:
            if machine.name == name:
                title, date = self.dated(machine.source)
                return replace(machine, source=title, date=date)
        return None

    def disk(self, name: str) -> Disk | None:
        """The disk of this name; None where there is none. Raises ``ValueError`` for rates that cannot be chosen."""
        for disk in self.disks:
            if disk.name == name:
                return self.cited_disk(disk, disk.source)
        base, *numbers = re.split(r"-(?=\d+(?:-|$))", name)
        rates = [float(number) for number in numbers]
        for chosen in self.chosens:
            if chosen.name == base and len(rates) <= 2:
                iops = rates[0] if rates else chosen.iops_least
                most = _mb_most(chosen, iops)
                least = _mb_least(chosen, iops, most)
                mb_per_s = rates[1] if len(rates) == 2 else least
                if not chosen.iops_least <= iops <= chosen.iops_most:
                    raise ValueError(f"{chosen.iops_least:,.0f} to {chosen.iops_most:,.0f} IOPS")
                if not least <= mb_per_s <= most:
                    raise ValueError(f"{least:,.0f} to {most:,.0f} MB/s with {iops:,.0f} IOPS")
                return self._chosen(chosen, iops, mb_per_s)
        for sized in self.sizeds:
            if sized.name == base and len(rates) == 1:
                return self._sized(sized, rates[0])
        return None

    def _chosen(self, chosen: Chosen, iops: float, mb_per_s: float) -> Disk:
        gib = iops / chosen.iops_per_gib if chosen.iops_per_gib else None
        mb = _MB_OF_MIB if chosen.binary_mb else 1.0
        limit = Limit(iops=iops, mb_per_s=mb_per_s * mb, unit_kib=chosen.unit_kib, merge_kib=chosen.merge_kib)
        name = f"{chosen.name}-{iops:.0f}" + (f"-{mb_per_s:.0f}" if chosen.mb_per_s_least else "")
        return self.cited_disk(
            Disk(name=name, capacity_gib=gib, limits=(limit,), service=chosen.service), chosen.source
        )

    def _sized(self, sized: BySize, gib: float) -> Disk:
        iops = _by_size(gib, sized.iops_per_gib, sized.iops_base, sized.iops_least, sized.iops_most)
        is_small = sized.small_gib is not None and gib <= sized.small_gib
        mb_most = sized.small_mb_per_s_most if is_small else sized.mb_per_s_most
        mb_per_s = _by_size(gib, sized.mb_per_s_per_gib, sized.mb_per_s_base, None, mb_most)
        burst_mb = _by_size(gib, sized.burst_mb_per_s_per_gib, None, None, sized.burst_mb_per_s_most)
        bursts_iops = sized.burst_iops is not None and iops is not None and sized.burst_iops > iops
        bursts_mb = burst_mb is not None and mb_per_s is not None and burst_mb > mb_per_s
        mb = _MB_OF_MIB if sized.binary_mb else 1.0
        limit = Limit(
            iops=iops,
            mb_per_s=None if mb_per_s is None else mb_per_s * mb,
            unit_kib=sized.unit_kib,
            merge_kib=sized.merge_kib,
            burst_iops=sized.burst_iops if bursts_iops else None,
            credit_ios=sized.credit_ios if bursts_iops else None,
            burst_mb_per_s=burst_mb * mb if bursts_mb and burst_mb else None,
            credit_mb=sized.credit_mb_per_gib * gib * mb if bursts_mb and sized.credit_mb_per_gib else None,
        )
        disk = Disk(name=f"{sized.name}-{gib:.0f}", capacity_gib=gib, limits=(limit,), service=sized.service)
        return self.cited_disk(disk, sized.source)


def _mb_most(chosen: Chosen, iops: float) -> float:
    if chosen.mb_per_s_per_iops is None:
        return chosen.mb_per_s_most
    return max(chosen.mb_per_s_least or 0.0, min(chosen.mb_per_s_most, iops * chosen.mb_per_s_per_iops))


def _mb_least(chosen: Chosen, iops: float, most: float) -> float:
    if chosen.mb_per_s_least is None:
        return most
    return max(chosen.mb_per_s_least, float(math.ceil(iops * (chosen.mb_per_s_least_per_iops or 0.0))))


def _by_size(
    gib: float, per_gib: float | None, base: float | None, least: float | None, most: float | None
) -> float | None:
    if per_gib is None and base is None:
        return most
    value = (base or 0.0) + (per_gib or 0.0) * gib
    return min(max(value, least or 0.0), most or value)


def catalogue_names() -> list[str]:
    """Providers that there is a catalogue of."""
    folder = resources.files(__package__)
    return sorted(
        entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if entry.name.endswith(_SUFFIX)
    )


@cache
def catalogue(name: str) -> Catalogue:
    """The catalogue of the provider ``name``. Raises `IotraceError`."""
    if name not in catalogue_names():
        raise IotraceError(
            f"there is no catalogue '{name}'", hint=f"there are {', '.join(catalogue_names())}"
        )
    toml = resources.files(__package__).joinpath(name + _SUFFIX).read_text("utf-8")
    reader = Reader(name + _SUFFIX, "see the other entries")
    return reader.one(Catalogue, reader.parse(toml), "the catalogue", "catalogue")


def find_disk(name: str, where: str) -> Disk:
    """The disk ``provider/NAME``, which ``where`` names. Raises `IotraceError`."""
    provider, _, disk = name.partition("/")
    held = catalogue(provider)
    try:
        found = held.disk(disk)
    except ValueError as problem:
        raise IotraceError(
            f"'{where}': {disk} cannot be had like that", hint=f"it takes {problem}"
        ) from problem
    if found is None:
        names = [*(one.name for one in held.disks), *(f"{one.name}-IOPS-MBPS" for one in held.chosens)]
        names += [f"{one.name}-GIB" for one in held.sizeds]
        raise IotraceError(f"'{where}': {provider} has no disk '{disk}'", hint=f"it has {', '.join(names)}")
    return found


def find_machine(name: str, where: str) -> Machine:
    """The machine ``provider/NAME``. Raises `IotraceError`."""
    provider, _, machine = name.partition("/")
    held = catalogue(provider)
    found = held.machine(machine)
    if found is None:
        raise IotraceError(
            f"'{where}': the catalogue of {provider} has no machine '{machine}'",
            hint=f"it has {', '.join(one.name for one in held.machines) or 'none'}",
        )
    return found
