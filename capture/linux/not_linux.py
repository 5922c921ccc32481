"""In place of the recorder where there is no Linux."""

from dataclasses import dataclass
from typing import NoReturn

from iotrace.schemas import IotraceError


@dataclass(frozen=True, slots=True)
class Check:
    """As on Linux."""

    name: str
    level: str
    found: str
    advice: str = ""


def examine() -> list[Check]:
    """There is one thing to say."""
    return [
        Check(
            "system", "problem", "this is no Linux", "iotrace capture plan writes scripts for Windows hosts"
        )
    ]


class Metrics:
    """As on Linux, without anything to count."""


def record(*_: object, **__: object) -> NoReturn:
    """Say what to use instead."""
    raise IotraceError(
        "live recording needs Linux",
        hint="on Windows record an event trace (logman or wpr with disk I/O) and import its .etl: iotrace import",
    )


is_local = mount_tracefs = recover = serving = snapshot = record
