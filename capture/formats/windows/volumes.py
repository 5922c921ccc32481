r"""What a Windows host calls its volumes: device name and path of each, as the plan's facts.ps1 writes it.

An unmerged kernel trace knows files only by ``\Device\HarddiskVolume3\…``; SQL Server knows them by ``D:\…`` or by
the folder that a volume is mounted in. There is no I/O in such a file: it only tells how to read the .etl files beside
it.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

from iotrace.capture.formats.format import Format, Progress, naming
from iotrace.schemas import IotraceError

_HEADER: Final = "volume_device,volume_path"
_BYTES_MAX: Final = 4 << 20
_DEVICE_PARTS_MAX: Final = 8


class Volumes:
    """Paths by device; filled from one file or several of the same host."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, device: str, path: str) -> None:
        r"""``device`` such as ``\Device\HarddiskVolume3`` is found at ``path``, such as ``C:\mnt\log\``."""
        paths = self._paths.setdefault(device.rstrip("\\").casefold(), [])
        path = path.rstrip("\\") + "\\"
        if path not in paths:
            paths.append(path)

    def user_path(self, path: str, is_known: Callable[[str], bool]) -> str:
        """``path`` as users know it, or as it is if its volume has no path.

        Of a volume in several places, the one is taken at which ``is_known`` knows the file, else the longest: who
        mounts a volume in a folder uses it there.
        """
        parts = path.split("\\")
        for count in range(min(len(parts) - 1, _DEVICE_PARTS_MAX), 1, -1):
            if found := self._paths.get("\\".join(parts[:count]).casefold()):
                rest = "\\".join(parts[count:])
                places = [place + rest for place in sorted(found, key=len, reverse=True)]
                return next((place for place in places if is_known(place)), places[0])
        return path


@runtime_checkable
class NeedsVolumes(Protocol):
    """A trace whose paths may be the kernel's."""

    def use_volumes(self, volumes: Volumes, is_known: Callable[[str], bool]) -> None:
        """Let such paths follow ``volumes``; ``is_known`` as in `Volumes.user_path`."""
        ...


def recognises(head: bytes, _path: Path) -> bool:
    """Whether ``head`` begins with the columns of a table of volumes."""
    return head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].rstrip(b"\r") == _HEADER.encode()


def read_volumes(path: Path, name: str, into: Volumes) -> int:
    """Add what ``path`` tells ``into``; how many of its lines tell no volume."""
    with naming(name), path.open("rb") as file:
        data = file.read(_BYTES_MAX + 1)
    if len(data) > _BYTES_MAX:
        raise IotraceError(f"'{name}' is too large for a list of volumes", hint="check where it comes from")
    left_out = 0
    lines = data.decode("utf-8-sig", "replace").replace("\0", "").splitlines()
    try:
        rows = list(csv.reader(lines[1:]))
    except csv.Error as problem:
        raise IotraceError(
            f"'{name}' cannot be read as text in columns: {problem}",
            hint="check that it was copied completely",
        ) from problem
    for row in rows:
        if len(row) == 2 and row[0].startswith("\\Device\\") and row[1].strip("\\"):
            into.add(*row)
        else:
            left_out += 1
    return left_out


def _read(_path: Path, name: str, _progress: Progress) -> NoReturn:
    raise IotraceError(
        f"'{name}' lists the paths of volumes and holds no I/O",
        hint="import the folder that it was packed in, with its .etl files",
    )


def inspect(path: Path, name: str) -> dict[str, Any]:
    """How many volumes have a path, and how many lines tell none."""
    volumes = Volumes()
    left_out = read_volumes(path, name, volumes)
    return {"format": "volumes", "whole": not left_out, "volumes": len(volumes), "lines_left_out": left_out}


FORMAT: Final = Format("volumes", recognises, _read, inspect, has_ios=False)
