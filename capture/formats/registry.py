"""Which formats there are: our own, folder by folder, and those of installed packages, which come in by the same door.

A package names its formats as entry points of the group ``iotrace.formats`` (docs/formats.md, "A format in a package of
your own"). They are loaded only for files that none of ours recognises, and a fault in one is told as that package's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.capture import results
from iotrace.schemas import Clock, IotraceError
from iotrace.schemas.host import Host

from . import array, linux, monitoring, public, windows
from .format import GROUP, Certainty, Entry, Format, Head, Outcome, Progress, Trace, entry

OURS: Final[tuple[Entry, ...]] = (
    entry(
        "arrow-streams",
        f"{__package__}.arrow_streams:FORMAT",
        rb"\A\xff{4}",
        r"\.arrows\Z|\Amanifest\.json\Z",
        words="streams of a recording",
        certainty=Certainty.CERTAIN,
    ),
    *windows.FORMATS,
    *linux.FORMATS,
    *array.FORMATS,
    *monitoring.FORMATS,
    *public.FORMATS,
    *results.FORMATS,
)
"""The first that recognises a file reads it. Each recognises its own files only: tests hold every file against all."""


@cache
def installed() -> tuple[Entry, ...]:
    """Formats of other packages, in order of their names. One that takes the name of one of ours is not among them."""
    taken = {one.name for one in OURS}
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return tuple(Entry(point, checked=_watched) for point in points if point.name not in taken)


def candidates(head: bytes, path: Path) -> Iterator[Format]:
    """Formats that a file at ``path`` that begins with ``head`` may have, ours first. Raises `IotraceError`."""
    start = Head(head)
    for one in (*OURS, *installed()):
        if one.may_be(start, path):
            yield one.load()


def families(names: Iterable[str]) -> list[Format]:
    """Formats of which several files are one trace together, and which files of these ``names`` may be of."""
    known = list(names)
    loaded = [one.load() for one in OURS if one.names is not None and any(map(one.names.search, known))]
    return [one for one in loaded if one.family is not None]


def told_of(name: str) -> tuple[str, Certainty]:
    """What a file of the format of that ``name`` is in people's words, and how surely it is known."""
    found = next((one for one in (*OURS, *installed()) if one.name == name), None)
    return (name, Certainty.LIKELY) if found is None else (found.words or name, found.certainty)


def of_name(name: str) -> Format:
    """Our format of that name."""
    return next(one.load() for one in OURS if one.name == name)


def mapped(map_path: Path) -> Format:
    """A format for tables whose columns the mapping at ``map_path`` tells. Raises `IotraceError` naming it."""
    load = EntryPoint("with_map", f"{array.__name__}.csv_files:with_map", GROUP).load()
    found: Format = load(map_path)
    return found


def _watched(format_: object, one: Entry) -> Format:
    """A format of another package: what goes wrong in it is told as that package's fault, not as a defect of ours."""
    if not isinstance(format_, Format):
        raise _fault(one, f"is no format: {one.point.value} gives {type(format_).__name__}")

    def recognises(head: bytes, path: Path) -> bool:
        try:
            return bool(format_.recognises(head, path))
        except Exception as problem:
            raise _fault(one, f"fails when it looks at '{path.name}': {_told(problem)}") from problem

    def read(path: Path, name: str, progress: Progress) -> Trace:
        try:
            return _WatchedTrace(format_.read(path, name, progress), one, name)
        except (IotraceError, OSError):
            raise
        except Exception as problem:
            raise _fault(one, f"fails when it reads '{name}': {_told(problem)}") from problem

    def inspect(path: Path, name: str) -> dict[str, Any]:
        try:
            assert format_.inspect is not None
            return format_.inspect(path, name)
        except (IotraceError, OSError):
            raise
        except Exception as problem:
            raise _fault(one, f"fails when it inspects '{name}': {_told(problem)}") from problem

    return replace(
        format_,
        name=one.name,
        recognises=recognises,
        read=read,
        inspect=None if format_.inspect is None else inspect,
        family=None,
    )


class _WatchedTrace:
    """A trace of another package's format."""

    def __init__(self, trace: Trace, one: Entry, name: str) -> None:
        self._trace, self._entry, self._name = trace, one, name
        self.clock: Clock = trace.clock
        self.host: Host = trace.host

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        try:
            yield from self._trace.batches()
        except (IotraceError, OSError, GeneratorExit):
            raise
        except Exception as problem:
            raise _fault(self._entry, f"fails when it reads '{self._name}': {_told(problem)}") from problem

    def outcome(self) -> Outcome:
        try:
            return self._trace.outcome()
        except Exception as problem:
            raise _fault(self._entry, f"fails at the end of '{self._name}': {_told(problem)}") from problem


def _fault(one: Entry, what: str) -> IotraceError:
    package = one.point.dist.name if one.point.dist is not None else one.point.module
    return IotraceError(
        f"the format '{one.name}' of the package {package} {what}",
        hint=f"tell its authors, or uninstall it: pip uninstall {package}",
    )


def _told(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:300]
