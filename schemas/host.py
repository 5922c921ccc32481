"""The machine that a recording was made on."""

from dataclasses import dataclass, field
from typing import Any, Final

from .contract import Count, Nanoseconds

_EARLIER_NAMES: Final = {
    "hostname": "name", "os": "system", "architecture": "machine", "cpu_count": "processors",
}  # fmt: skip
"""As recordings of earlier versions spell them."""


@dataclass(slots=True)
class IoLimit:
    """What a Linux cgroup allows its programs on one disk, per second; None where it sets no limit."""

    cgroup: str
    """Its path below the mount: ``/system.slice/mssql-server.service``."""
    device: str
    """As ``devices.name`` has it."""
    read_iops: Count | None = None
    write_iops: Count | None = None
    read_bytes_per_s: Count | None = None
    write_bytes_per_s: Count | None = None


@dataclass(slots=True)
class Host:
    """Facts about the recorded machine; None where the source does not tell."""

    name: str | None = None
    system: str | None = None
    """Operating system and its version."""
    kernel: str | None = None
    machine: str | None = None
    """Processor architecture: ``x86_64``."""
    cpu_model: str | None = None
    processors: int | None = None
    """Logical processors."""
    memory_bytes: int | None = None
    cpu_governor: str | None = None
    """How Linux clocks the processors; empty where it should tell and does not."""
    database: str | None = None
    """The database system whose own view it is: ``SQL Server``."""
    boot_utc_ns: Nanoseconds | None = None
    utc_bias_minutes: int | None = None
    """Minutes that the machine's local time is behind UTC."""
    io_limits: list[IoLimit] = field(default_factory=list)
    """Limits of cgroups on the recorded disks, where a live recording on Linux found some."""


def host_with_todays_names(facts: dict[str, Any]) -> dict[str, Any]:
    """Host facts of a recording of any version, under the names that `Host` has."""
    return {_EARLIER_NAMES.get(name, name): value for name, value in facts.items()}
