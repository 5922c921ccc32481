"""Which format a file has: known by its content, whatever it is called."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError

from .formats import arrow_streams, blg, dmv, etl, perfmon_csv, text_formats, volumes, xel
from .formats.format import Format
from .lookalikes import lookalike
from .results import formats as result_formats

FORMATS: Final[tuple[Format, ...]] = (
    arrow_streams.FORMAT,
    blg.FORMAT,
    dmv.FORMAT,
    etl.FORMAT,
    perfmon_csv.FORMAT,
    volumes.FORMAT,
    xel.FORMAT,
    *text_formats.FORMATS,
    *result_formats.FORMATS,
)
"""Every format that can be imported; the first that recognises a file reads it."""


def recognise(head: bytes, path: Path, first: Sequence[Format] = ()) -> Format | None:
    """The format of a file that begins with ``head``; those of ``first`` are asked before all others."""
    return next((entry for entry in (*first, *FORMATS) if entry.recognises(head, path)), None)


def not_recognised(head: bytes, name: str) -> IotraceError:
    """What to tell of a file that nothing recognises."""
    known = f"files are recognised by content; it takes {format_names()}, or a zip or folder of them"
    if (found := lookalike(head)) is None:
        return IotraceError(f"'{name}' is no trace that iotrace knows", hint=known)
    return IotraceError(
        f"'{name}' is no trace that iotrace knows: it looks like {found.what}", hint=found.hint or known
    )


def format_names() -> str:
    """All formats, for a hint."""
    return ", ".join(entry.name for entry in FORMATS)
