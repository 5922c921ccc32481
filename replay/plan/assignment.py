"""Which target each address space of the source goes to, and what it touches there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrace.replay.options import ReplayOptions
from iotrace.schemas import IotraceError, Recording

from .addresses import Stretches, compact_bytes, copies_bytes, identity_bytes, slot_of
from .scale import needs_streams, thinned, whole_and_part
from .source import Source
from .survey import Survey

FOLDER_SUFFIX = ".target"
"""After the traced file's own name, so that nothing iotrace makes is named like a database file."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which target each address space goes to. ``names`` are the targets in order of first use."""

    names: tuple[str, ...]
    of_space: Mapping[int, int]
    stretches: tuple[tuple[Stretches, ...], ...]
    """For each target what its spaces touch."""
    arrays: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    """Spaces, rising, and the target of each."""
    whole_files: bool = False
    """Whether files that are made get the size of the traced ones."""

    def spaces_of(self, target: int) -> list[int]:
        """The spaces that go to a target."""
        return [space for space, index in self.of_space.items() if index == target]


def assign(source: Source, survey: Survey, names: Mapping[int, str], options: ReplayOptions) -> Assignment:
    """Find the target of every address space, known to the user by its name in ``names``.

    Raises `IotraceError` for a map that names no source device, a device without a target, a target that nothing goes
    to, and a fraction that cannot be had.
    """
    if needs_streams(options):
        thinned(
            survey, options.scale, options.seed
        )  # what cannot be played is refused before any target is filled
    spaces = {space: names.get(space, f"unknown {space}") for space in survey.spaces}
    mapped = _mapped(spaces, options)
    folder = folder_target(options)
    inside = _names_in_folder(spaces, folder) if folder else {}
    targets: dict[str, int] = {}
    of_space: dict[int, int] = {}
    for space, name in spaces.items():
        target = mapped.get(space) or inside.get(space) or next(iter(options.targets), "")
        if not target:
            raise IotraceError(
                f"source device {space} ({name}) has no target",
                hint=f"--map {space}=PATH, or --target PATH for all",
            )
        of_space[space] = targets.setdefault(target, len(targets))
    for target in (*options.targets[1:], *options.destroy_data):
        if target not in targets:
            raise IotraceError(
                f"nothing is played on '{target}'", hint="--map DEVICE=PATH sends a source device to it"
            )
    whole_files = folder is not None and source.space_is == "file"
    sizes = _file_sizes(source.recording) if whole_files else {}
    return Assignment(
        names=tuple(targets),
        of_space=of_space,
        stretches=_stretches(survey, of_space, len(targets), sizes),
        arrays=(np.array(list(of_space), np.int64), np.array(list(of_space.values()), np.int64)),
        whole_files=whole_files,
    )


def needed_bytes(
    stretches: tuple[Stretches, ...], options: ReplayOptions, *, whole_files: bool
) -> tuple[int, int]:
    """What a file target should hold when it is made, and what one that exists has to."""
    copies = copies_in_addresses(options)
    whole = options.addresses == "identity" or (whole_files and options.addresses == "auto")
    one = identity_bytes(stretches) if whole else compact_bytes(stretches)
    needed = copies_bytes(one, copies)
    return needed, 4096 if options.addresses == "fold" else needed


def copies_in_addresses(options: ReplayOptions) -> int:
    """How many copies of the workload lie side by side on the targets."""
    if options.mode != "superpose" or options.footprint == "same":
        return 1
    whole, part = whole_and_part(options.scale)
    return max(1, whole + (part > 0))


def folder_target(options: ReplayOptions) -> Path | None:
    """The folder that stands for a file per address space, where the first target is one."""
    first = next(iter(options.targets), None)
    return Path(first) if first is not None and Path(first).is_dir() else None


def _file_sizes(recording: Recording) -> dict[int, int]:
    """Sizes of the traced files, as far as the recording tells."""
    files = recording.read("files", ["file_id", "size_bytes"])
    pairs = zip(files["file_id"].to_pylist(), files["size_bytes"].to_pylist(), strict=True)
    return {int(file_id): int(size) for file_id, size in pairs if size}


def _mapped(spaces: Mapping[int, str], options: ReplayOptions) -> dict[int, str]:
    words = {**{name: space for space, name in spaces.items()}, **{str(space): space for space in spaces}}
    mapped: dict[int, str] = {}
    for source, target in options.maps.items():
        if str(source) not in words:
            known = [f"{space} ({name})" for space, name in spaces.items()]
            raise IotraceError(
                f"the recording has no I/O on a device '{source}'",
                hint="it has " + ", ".join(known[:12]) + (", …" if len(known) > 12 else ""),
            )
        mapped[words[str(source)]] = target
    return mapped


def _names_in_folder(spaces: Mapping[int, str], folder: Path) -> dict[int, str]:
    """A file name for each space that says whose it is; two files of the same name are told apart by their number."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for space, name in spaces.items():
        last = re.split(r"[\\/]", name.rstrip("\\/"))[-1]
        clean = _cut(re.sub(r"[^\w.+-]", "_", last).lstrip(".")) or "space"
        told_apart = clean
        while told_apart.lower() in taken:
            told_apart = f"{clean}-{space}" if told_apart == clean else f"{told_apart}+"
        taken.add(told_apart.lower())
        found[space] = str(folder / f"{told_apart}{FOLDER_SUFFIX}")
    return found


def _cut(name: str) -> str:
    """As much of it as a file system takes in a name, whose limit of 255 is one of bytes."""
    return name[:100].encode()[:200].decode(errors="ignore")


def _stretches(
    survey: Survey, of_space: Mapping[int, int], targets: int, sizes: Mapping[int, int]
) -> tuple[tuple[Stretches, ...], ...]:
    slots = slot_of(survey.starts)
    bounds = np.searchsorted(slots, np.arange(len(survey.slots.ids) + 1))
    found: list[list[Stretches]] = [[] for _ in range(targets)]
    for slot, space in enumerate(survey.slots.ids):
        if space not in of_space:
            continue
        part = slice(int(bounds[slot]), int(bounds[slot + 1]))
        if part.start < part.stop:
            found[of_space[space]].append(
                Stretches(space, slot, survey.starts[part], survey.ends[part], sizes.get(space, 0))
            )
    # In the order in which they will lie side by side.
    return tuple(tuple(sorted(those, key=lambda one: one.space)) for those in found)
