"""What is in a file and whether it is whole, without importing it."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotrace.schemas import IotraceError

from .archives import Archive, is_zip
from .formats.format import naming
from .recognition import format_names, not_recognised, read_head, recognise


@dataclass(frozen=True, slots=True)
class Inspection:
    """One trace. ``facts`` are the format's own; None where it tells nothing without being imported."""

    name: str
    format: str
    bytes: int
    facts: dict[str, Any] | None
    problem: str | None = None
    """Why it cannot be read; None if it can."""


def inspect_file(path: Path | str) -> list[Inspection]:
    """The traces at ``path``: one, or those in a zip. Raises `IotraceError` for what is no trace at all."""
    file, name = Path(path), str(path)
    head = read_head(file, name)
    with naming(name):
        chosen = recognise(head, file)
        if chosen is not None:
            return [_inspect(chosen.name, chosen.inspect, file, name)]
        if is_zip(head):
            found = list(_members(file, name))
            if not found:
                raise IotraceError(
                    f"'{name}' holds no trace that iotrace reads", hint=f"it takes {format_names()} in a zip"
                )
            return found
        raise not_recognised(head, name)


def _members(path: Path, name: str) -> Iterator[Inspection]:
    with (
        Archive.open(path, name) as archive,
        tempfile.TemporaryDirectory(prefix=".iotrace-inspected-") as room,
    ):
        for number, member in enumerate(archive.members()):
            chosen = recognise(member.head, Path(member.name))
            if chosen is not None:
                target = Path(room) / str(number)
                archive.unpack(member, target, lambda _done, _total: None)
                yield _inspect(chosen.name, chosen.inspect, target, f"{name}/{member.name}")
                target.unlink()


def _inspect(kind: str, inspect: Any, path: Path, name: str) -> Inspection:  # noqa: ANN401 - see Format.inspect
    size = path.stat().st_size
    try:
        return Inspection(name, kind, size, inspect(path, name) if inspect else None)
    except IotraceError as problem:
        return Inspection(name, kind, size, None, problem.message)
