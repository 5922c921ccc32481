"""In place of the recorder where there is no Linux."""

from typing import NoReturn

from iotrace.schemas import IotraceError


def record(*_: object, **__: object) -> NoReturn:
    """Say what to use instead."""
    raise IotraceError(
        "live recording needs Linux",
        hint="on Windows record an event trace (logman or wpr with disk I/O) and import its .etl: iotrace import",
    )


snapshot = recover = record
