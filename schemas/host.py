"""The machine that a recording was made on."""

from dataclasses import dataclass
from typing import Any, Final

from .contract import Nanoseconds

_EARLIER_NAMES: Final = {
    "hostname": "name", "os": "system", "architecture": "machine", "cpu_count": "processors",
}  # fmt: skip
"""As recordings of earlier versions spell them."""


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


def host_with_todays_names(facts: dict[str, Any]) -> dict[str, Any]:
    """Host facts of a recording of any version, under the names that `Host` has."""
    return {_EARLIER_NAMES.get(name, name): value for name, value in facts.items()}
