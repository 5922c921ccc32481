"""What stands before the readers: archives, folders, and mappings of columns, each inspected and imported whole.

An input of ``folder`` is its files, one after the other: a line ``==== NAME``, then the file's bytes. One of ``map`` is
a mapping of columns and, after a line of the same kind, the CSV that it is to be used for. One of ``recording`` is a
recording in the form of ``folder``, given to the commands that take one.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import commands

from iotrace.capture.importing.inspecting import inspect_path
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

MARK = b"\n==== "
NAME_BYTES_MAX = 200


@dataclass(frozen=True)
class Door:
    """A way in. ``lay`` puts an input into a folder: what the user then names, and mappings of columns."""

    name: str
    lay: Callable[[Path, bytes], tuple[Path, list[Path]]]

    def enter(self, data, room, check_words):
        """Rows that came; None where all of ``data`` was refused with a clear word."""
        with tempfile.TemporaryDirectory(dir=room) as folder:
            named, maps = self.lay(Path(folder), data)
            output = Path(folder) / "out.iotrace"
            refused = None
            try:
                inspect_path(named)
            except IotraceError as problem:
                check_words(problem, folder)
                refused = problem.message
            try:
                recording = import_files([named], output, maps=maps)
            except IotraceError as problem:
                check_words(problem, folder)
                assert sorted(Path(folder).glob("*.iotrace*")) == [], "something is left of a refused import"
                return None
            assert not refused or maps, f"inspect refuses what import takes: {refused}"
            assert validate(recording.path) == []
            commands.on_a_recording(commands.one_for(data), recording.path, folder)
            return sum(recording.manifest.rows.values())


def _zip(folder, data):
    path = folder / "traces.zip"
    path.write_bytes(data)
    return path, []


def _archive(folder, data):
    path = folder / "traces.7z"
    path.write_bytes(data)
    return path, []


def _folder(folder, data):
    top = folder / "traces"
    top.mkdir()
    for piece in (b"\n" + data).split(MARK)[1:]:
        name, _, content = piece.partition(b"\n")
        parts = [part for part in name.split(b"/") if part not in {b"", b".", b".."} and b"\0" not in part]
        if not parts or len(name) > NAME_BYTES_MAX:
            continue
        path = top.joinpath(*(part.decode("utf-8", "surrogateescape") for part in parts))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    return top, []


def _map(folder, data):
    mapping, mark, table = data.partition(MARK)
    path = folder / "export.csv"
    path.write_bytes(table.partition(b"\n")[2] if mark else b"When,LUN,Read\n2026-03-01 12:00:00,a,1.5\n")
    map_path = folder / "columns.toml"
    map_path.write_bytes(mapping)
    return path, [map_path]


@dataclass(frozen=True)
class RecordingDoor:
    """A recording's own files."""

    name: str

    def enter(self, data, room, _check_words):
        """1 if a command had an answer, None if each refused it."""
        with tempfile.TemporaryDirectory(dir=room) as folder:
            named, _ = _folder(Path(folder), data)
            recording = named.rename(named.with_name("r.iotrace"))
            found = {
                commands.on_a_recording(command, recording, folder)
                for command in ("validate {}", commands.one_for(data))
            }
        return None if found == {2} else 1


DOORS = [
    Door("zip", _zip),
    Door("archive", _archive),
    Door("folder", _folder),
    Door("map", _map),
    RecordingDoor("recording"),
]
