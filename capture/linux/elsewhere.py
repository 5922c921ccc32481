"""In place of the recorder where there is no Linux."""

from typing import NoReturn

from iotrace.schemas import IotraceError


def record(*_: object, **__: object) -> NoReturn:
    """Say what to use instead."""
    raise IotraceError(
        "live recording needs Linux",
        hint="for Windows: iotrace capture plan --output DIR, then iotrace import",
    )
