"""What is in a file, whether it is whole, and what an import would keep of it, without importing it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iotrace.capture.formats import registry
from iotrace.capture.formats.entry import Certainty
from iotrace.capture.formats.format import naming, unreported
from iotrace.capture.formats.windows import volumes
from iotrace.schemas import IotraceError

from .contents import Contents, contents_of
from .inputs import Gathering, Group, unpacking_room


@dataclass(frozen=True, slots=True)
class Inspection:
    """One trace. ``facts`` are the format's own; None where it has none."""

    name: str
    format: str
    bytes: int
    facts: dict[str, Any] | None
    problem: str | None = None
    """Why it cannot be read; None if it can."""
    contents: Contents | None = None
    """What an import would keep of it; None where it is no trace of its own, and where it cannot be read."""
    what: str = ""
    """What the file is, in people's words."""
    certainty: Certainty = Certainty.LIKELY
    """How surely that is known."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """All traces at one path, and words on what lay beside them and is none."""

    traces: list[Inspection]
    notes: list[str]


def inspect_path(path: Path | str) -> Inspected:
    """The traces at ``path``: one, or those in a folder or zip. Raises `IotraceError` for what is no trace at all."""
    with unpacking_room(None) as room:
        gathering = Gathering(room)
        traces = list(_traces(gathering, Path(path), str(path)))
        return Inspected(traces, gathering.notes())


def _traces(gathering: Gathering, path: Path, name: str) -> Iterator[Inspection]:
    for group in gathering.groups(path, name):
        with naming(group.name):
            what, certainty = registry.told_of(group.format.name)
            yield replace(_inspect(group), what=what, certainty=certainty)
        for file in group.files:
            file.forget()


def _inspect(group: Group) -> Inspection:
    paths = [file.path(lambda _done, _total: None) for file in group.files]
    size = sum(file.bytes() for file in group.files)
    chosen, name = group.format, group.name
    try:
        facts: dict[str, Any] | None
        if chosen.family is not None:
            facts = chosen.family.inspect(paths, [file.name for file in group.files])
        else:
            facts = chosen.inspect(paths[0], name) if chosen.inspect else None
        if chosen is volumes.FORMAT:
            return Inspection(name, chosen.name, size, facts)
        if chosen.family is not None:
            trace = chosen.family.read(paths, [file.name for file in group.files], unreported)
        else:
            trace = chosen.read(paths[0], name, unreported)
        contents = contents_of(trace)
    except IotraceError as problem:
        return Inspection(name, chosen.name, size, None, problem.message)
    return Inspection(name, chosen.name, size, facts, contents=contents)
