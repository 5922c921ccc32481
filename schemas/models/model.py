"""A model of storage: limits, service times, caches and stripes, as TOML. Every error names the key.

MB are 10^6 bytes, KiB, MiB and GiB powers of two.
"""

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check

import re
from dataclasses import dataclass
from typing import Final

from iotrace.schemas.errors import IotraceError
from iotrace.schemas.run import ModelTest
from iotrace.schemas.sections import (
    flag,
    key,
    list_of,
    not_negative,
    one_of,
    positive,
    section,
    sections,
    share,
    text,
    whole,
)
from iotrace.schemas.vocabulary import Role

DEPTH_MS: Final = 100.0
"""Over how long a limit is counted where its provider does not say: what Linux does."""
TICK_MS: Final = 4.0
"""Step of the clock of a Linux kernel built with 250 Hz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit of I/Os and bytes a second: what is let go waits for both."""

    name: str = key(text, "")
    of: str = key(one_of("all", "cached", "uncached"), "all")
    """Of a machine: the disks whose I/Os count."""
    ops: str = key(one_of("both", "read", "write"), "both")
    iops: float | None = key(positive, None)
    unit_kib: float | None = key(positive, None)
    """A larger I/O counts as several."""
    merge_kib: float | None = key(positive, None)
    """I/Os that go on where the last one ended count as one with it, up to so much."""
    mb_per_s: float | None = key(positive, None)
    burst_iops: float | None = key(positive, None)
    burst_mb_per_s: float | None = key(positive, None)
    burst_seconds: float | None = key(positive, None)
    """How long full credits last at the burst rate."""
    credit_ios: float | None = key(positive, None)
    """Full credits in I/Os, instead of ``burst_seconds``."""
    credit_mb: float | None = key(positive, None)
    """Full credits in MB, instead of ``burst_seconds``."""
    credits_at_start: float = key(share, 1.0)
    """Share of the full credits."""
    depth_ms: float = key(positive, DEPTH_MS)
    """Over how long it is counted: so much of a second's worth may come at once."""
    slice_ms: float | None = key(positive, None)
    """Counted in slices of so long as Linux' block throttle does, instead."""
    tick_ms: float = key(positive, TICK_MS)
    """Step of that kernel's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Measured service times of one operation, size and number in flight."""

    op: str = key(one_of("read", "write", "flush"))
    size_bytes: float = key(positive)
    in_flight: float = key(positive)
    quantiles_us: tuple[float, ...] = key(list_of(positive))
    """At the shares of `Service.shares`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How long a disk works on an I/O. Without any figure it takes no time: what is left is waiting for limits."""

    read_us: float = key(not_negative, 0.0)
    write_us: float = key(not_negative, 0.0)
    flush_us: float = key(not_negative, 0.0)
    distribution: str = key(one_of("constant", "exponential", "lognormal"), "constant")
    cv: float = key(positive, 1.0)
    """Standard deviation over mean, of lognormal ones."""
    mb_per_s: float | None = key(positive, None)
    """Transfer, which comes on top."""
    parallelism: int | None = key(whole, None)
    """I/Os that are worked on at a time; any number where it is not given."""
    seek_min_ms: float | None = key(positive, None)
    """With the next two: an arm and a platter, instead of ``read_us`` and ``write_us``."""
    seek_max_ms: float | None = key(positive, None)
    turns_per_minute: float | None = key(positive, None)
    shares: tuple[float, ...] = key(list_of(share), ())
    """What the cells' quantiles are for, rising from 0 to 1."""
    cells: tuple[Cell, ...] = sections(Cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Memory that takes writes, those excepted that must be on the media."""

    mib: float = key(positive)
    drain_mb_per_s: float = key(positive)
    write_us: float = key(not_negative, 0.0)
    flush_drains: bool = key(flag, default=False)
    """Whether a flush waits until it is empty: it would lose its content without power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlcCache:
    """Flash that is written with one bit a cell: writes are fast until it is used up, and it becomes free in idle time.

    Beyond it a write takes what `Service` says, and so does a write that finds too little of it.
    """

    mib: float = key(positive)
    free_mb_per_s: float = key(positive)
    """How fast it becomes free while the disk has nothing to do."""
    write_us: float = key(not_negative, 0.0)
    mb_per_s: float | None = key(positive, None)
    """Transfer, which comes on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Times at which a disk stands still, as for garbage collection."""

    ms: float = key(positive)
    every_s: float | None = key(positive, None)
    every_written_mib: float | None = key(positive, None)
    random: bool = key(flag, default=False)
    """Times between are exponentially distributed about ``every_s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk, or several alike with stripes over them."""

    name: str = key(text, "disk")
    like: str | None = key(text, None)
    """A disk of the catalogue, whose limits and service it has; what is given here goes before."""
    count: int = key(whole, 1)
    stripe_kib: float = key(positive, 64.0)
    roles: tuple[str, ...] = key(list_of(one_of(*Role)), ())
    """Roles of the files that lie there; where none are given, all that no other disk names."""
    cached: bool = key(flag, default=False)
    """Whether it counts for the machine's cached limits."""
    capacity_gib: float | None = key(positive, None)
    source: str = key(text, "")
    date: str = key(text, "")
    limits: tuple[Limit, ...] = sections(Limit)
    """Of each of ``count`` disks."""
    set_limits: tuple[Limit, ...] = sections(Limit)
    """Of all of them together: of a storage pool, or a volume set."""
    service: Service = section(Service, Service())
    cache: Cache | None = section(Cache, None)
    slc: SlcCache | None = section(SlcCache, None)
    stall: Stall | None = section(Stall, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What stands between all disks and who uses them: a virtual machine's size."""

    name: str = key(text, "machine")
    like: str | None = key(text, None)
    """A machine of the catalogue."""
    source: str = key(text, "")
    date: str = key(text, "")
    disks: tuple[str, ...] = key(list_of(text), ())
    """Disks of the catalogue that its limits are stated for, by the name before any rates; all where none are named."""
    limits: tuple[Limit, ...] = sections(Limit)

    def takes(self, disk: Disk) -> bool:
        """Whether its limits are those that hold for ``disk``."""
        return not self.disks or re.split(r"-(?=\d)", disk.name)[0] in self.disks


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Disks behind a machine."""

    title: str = key(text, "")
    source: str = key(text, "")
    date: str = key(text, "")
    machine: Machine | None = section(Machine, None)
    disks: tuple[Disk, ...] = sections(Disk)
    tested: ModelTest | None = section(ModelTest, None)


def refuse_nonsense(model: Model, name: str) -> None:
    """Raise `IotraceError` for what no single key tells: a limit of nothing, a role on two disks."""
    owners: dict[str, str] = {}
    for number, disk in enumerate(model.disks, start=1):
        where = f"disk {number} in '{name}'"
        for role in disk.roles:
            if role in owners:
                raise IotraceError(
                    f"{where} takes the role {role}, as {owners[role]} does", hint="give a role to one disk"
                )
            owners[role] = disk.name
        for limit in (*disk.limits, *disk.set_limits):
            _check_limit(limit, where)
        _check_service(disk.service, where, disk.capacity_gib)
        if disk.stall is not None and disk.stall.every_s is None and disk.stall.every_written_mib is None:
            raise IotraceError(
                f"{where} has a stall that never happens", hint="give every_s or every_written_mib"
            )
    if sum(not disk.roles for disk in model.disks) > 1:
        raise IotraceError(
            f"'{name}' has several disks without roles", hint="say with roles = [...] what lies on which"
        )
    if all(disk.roles for disk in model.disks):
        raise IotraceError(
            f"in '{name}' every disk has roles, so that other files have no disk",
            hint="leave the roles of one disk out: it takes all the rest",
        )
    if model.machine is not None:
        for limit in model.machine.limits:
            _check_limit(limit, f"the machine in '{name}'")


def _check_limit(limit: Limit, where: str) -> None:
    if limit.iops is None and limit.mb_per_s is None:
        raise IotraceError(f"a limit of {where} limits nothing", hint="give iops or mb_per_s, or both")
    for burst, base, credits_, words in (
        (limit.burst_iops, limit.iops, limit.credit_ios, "iops"),
        (limit.burst_mb_per_s, limit.mb_per_s, limit.credit_mb, "mb_per_s"),
    ):
        if burst is None:
            continue
        if base is None or burst < base:
            raise IotraceError(
                f"a limit of {where} has burst_{words} = {burst:g} over {words} = {base}",
                hint="a burst has to be above the base rate",
            )
        if credits_ is None and limit.burst_seconds is None:
            raise IotraceError(
                f"a limit of {where} does not say how long its burst lasts",
                hint="give burst_seconds or credits",
            )
    if limit.slice_ms is not None and (limit.burst_iops or limit.burst_mb_per_s or limit.unit_kib):
        raise IotraceError(
            f"a limit of {where} in slices has neither bursts nor units", hint="leave slice_ms or those out"
        )


def _check_service(service: Service, where: str, capacity_gib: float | None) -> None:
    arm = (service.seek_min_ms, service.seek_max_ms, service.turns_per_minute)
    if any(arm) and not (all(arm) and capacity_gib):
        raise IotraceError(
            f"{where} has only some of seek_min_ms, seek_max_ms, turns_per_minute and capacity_gib",
            hint="give all four, or none",
        )
    if service.cells and (len(service.shares) < 2 or list(service.shares) != sorted(set(service.shares))):
        raise IotraceError(f"{where} has cells without rising shares", hint="shares = [0, 0.5, 1] and so on")
    for cell in service.cells:
        if len(cell.quantiles_us) != len(service.shares):
            raise IotraceError(
                f"{where} has a cell of {len(cell.quantiles_us)} quantiles for {len(service.shares)} shares",
                hint="give one for each",
            )
