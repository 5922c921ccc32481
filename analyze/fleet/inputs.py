"""The recordings that a list of paths, folders and patterns names."""

import glob
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError, Recording

_SUFFIX: Final = ".iotrace"
_OWN_FILES: Final = ("manifest.json", "sweep.json")
_DEPTHS: Final = ("*", "*/*")
"""A folder of recordings, or one of folders with the recordings of a host each."""


def named_recordings(words: Sequence[Path]) -> list[Path]:
    """Where the recordings lie that ``words`` name, in their order.

    A folder that is not a recording stands for the recordings in it and in its folders; a pattern with ``*``, ``?`` or
    ``[`` for what fits it (shells of Windows leave that to the program). Anything else stands for itself.
    Raises `IotraceError` for a recording named twice and a pattern that nothing fits.
    """
    found = [path for word in words for path in _named_by(word)]
    places: dict[Path, Path] = {}
    for path in found:
        if (place := path.resolve()) in places:
            raise IotraceError(
                f"'{path}' and '{places[place]}' are the same recording, named twice", hint="name it once"
            )
        places[place] = path
    return found


def refuse_missing(paths: Sequence[Path]) -> None:
    """Raises `IotraceError` for a path with nothing at it: a slip of the pen, and no damaged recording."""
    for path in paths:
        if not path.exists():
            Recording.open(path)


def distinct_hosts(named: Sequence[tuple[str, str, str]]) -> list[str]:
    """A name for each recording, given its host's (empty where unknown), its own, and its path.

    A host recorded several times goes by its own name and the recording's, or by the path where both are alike.
    """
    hosts = [host or recording for host, recording, _ in named]
    times = Counter(hosts)
    longer = [
        f"{host} ({recording})" if times[host] > 1 else host
        for host, (_, recording, _) in zip(hosts, named, strict=True)
    ]
    times = Counter(longer)
    return [path if times[name] > 1 else name for name, (_, _, path) in zip(longer, named, strict=True)]


def _named_by(word: Path) -> list[Path]:
    if word.is_dir() and word.suffix != _SUFFIX and not any((word / name).exists() for name in _OWN_FILES):
        for depth in _DEPTHS:
            if inside := _recordings(word.glob(depth + _SUFFIX)):
                return inside
    if not word.exists() and glob.has_magic(str(word)):
        fitting = _recordings(Path(path) for path in glob.glob(str(word)))  # noqa: PTH207 - of any root
        if not fitting:
            raise IotraceError(
                f"no recording fits '{word}'", hint=f"recordings are folders that end in {_SUFFIX}"
            )
        return fitting
    return [word]


def _recordings(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if (path / "manifest.json").is_file())
