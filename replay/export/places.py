"""Where on the user's targets each group of a workload goes: regions laid end to end, as large as what was touched."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iotrace.schemas import IotraceError
from iotrace.schemas.text import beginning, printable

from .workload import Workload

_ROUND_BYTES = 1 << 20
_PATH_CHARACTERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a target. ``asked`` says that the user named the target."""

    path: str
    base_bytes: int
    bytes: int
    asked: bool

    @property
    def end_bytes(self) -> int:
        """First byte after it."""
        return self.base_bytes + self.bytes


def parse_targets(words: Sequence[str], groups: Sequence[str]) -> dict[str | None, str]:
    """What ``PATH`` and ``GROUP=PATH`` mean; the key None stands for all groups not named.

    Raises `IotraceError` for a group that is not there, a second target of one group, and a path that no job file can
    hold.
    """
    found: dict[str | None, str] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if equals and name not in groups and name.isidentifier():
            raise IotraceError(
                f"--target '{word}' belongs to no group here: '{name}'",
                hint=f"the groups are {', '.join(groups)}; write a path that contains = as ./{word}",
            )
        group: str | None = name if equals and name in groups else None
        target = path if group is not None else word
        if not target.strip() or any(not char.isprintable() for char in target):
            raise IotraceError(f"--target '{word}' names no target", hint="give a path, or GROUP=PATH")
        if len(target) > _PATH_CHARACTERS_MAX:
            raise IotraceError(
                f"--target '{one_line(target, 60)}' is too long for a job file",
                hint=f"at most {_PATH_CHARACTERS_MAX:,} characters: name it from a folder further in",
            )
        if group in found:
            what = f"the group {group}" if group is not None else "everything"
            raise IotraceError(
                f"--target '{word}' is a second target for {what}",
                hint=f"name a group before a path, GROUP=PATH; the groups are {', '.join(groups)}",
            )
        found[group] = target
    return found


def lay_out(
    workload: Workload,
    targets: Mapping[str | None, str],
    default: Callable[[int, str], str],
    groups: Sequence[str],
) -> dict[str, Region]:
    """The region of each of ``groups``. ``default`` names the target of the n-th, counted from 0, where none is given.

    A region is as large as what the group touched, in whole MiB, and never smaller than two of the largest transfers.
    """
    size_bytes_max = max(one.size_bytes for one in workload.classes)
    ends: dict[str, int] = {}
    regions = {}
    for number, group in enumerate(groups):
        asked = targets.get(group, targets.get(None))
        path = asked if asked is not None else default(number, group)
        wanted = max(workload.touched_bytes[group], 2 * size_bytes_max)
        size = -(-wanted // _ROUND_BYTES) * _ROUND_BYTES
        base = ends.get(path, 0)
        regions[group] = Region(path, base, size, asked is not None)
        ends[path] = base + size
    return regions


def bytes_by_path(regions: Mapping[str, Region]) -> dict[str, int]:
    """How large each target has to be."""
    needed: dict[str, int] = {}
    for region in regions.values():
        needed[region.path] = max(needed.get(region.path, 0), region.end_bytes)
    return needed


def one_line(text: str, characters_max: int = 200) -> str:
    """A foreign text as a part of one line, which nothing in it can end: control characters and line ends are replaced.

    Programs that read a line into a buffer take what does not fit for the next line, so it is short.
    """
    return beginning(printable(text), characters_max)


def plain(name: str) -> str:
    """A group's name as a part of a file's name or of a job's."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "group"
