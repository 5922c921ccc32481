"""A log of runs: what was typed, what was said, how it ended. For whoever is asked a week later what was done."""

import logging
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError, distribution
from iotrace.schemas.text import printable

_LOGGER: Final = logging.getLogger("iotrace")
_LOGGER.propagate = False
_LOGGER.addHandler(logging.NullHandler())


def note(text: str, level: int = logging.INFO) -> None:
    """Add a line to the log, if one is kept."""
    _LOGGER.log(level, "%s", printable(" ".join(text.split())))


@contextmanager
def logged(name: str | None, arguments: Sequence[str]) -> Iterator[list[int]]:
    """Keep a log of the run in the file ``name``, if there is one; the block puts its exit status into the list.

    Raises `IotraceError` if nothing can be written there.
    """
    status: list[int] = []
    if name is None:
        yield status
        return
    path = Path(name).expanduser()
    try:
        # Names in it may be nobody else's business.
        handler = logging.StreamHandler(open(path, "a", encoding="utf-8", opener=_private))  # noqa: SIM115 - an opener of its own
    except OSError as problem:
        raise IotraceError(
            f"the log '{path}' cannot be written: {problem.strerror}",
            hint="IOTRACE_LOG or the settings name it: iotrace config",
        ) from problem
    form = logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    form.converter = time.gmtime
    handler.setFormatter(form)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    began = time.monotonic()
    note(f"iotrace {distribution.version()}: {shlex.join(arguments)}")
    try:
        yield status
    finally:
        ended = f"status {status[0]}" if status else "ended by itself"
        note(f"{ended} after {time.monotonic() - began:.1f} s")
        _LOGGER.removeHandler(handler)
        handler.stream.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
