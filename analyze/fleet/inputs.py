"""The recordings that a list of paths, folders and patterns names."""

import glob
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.stored import OWN_FILES, RECORDING_FILE, SUFFIX, Place, stored_at, stored_recordings

_DEPTHS: Final = ("*", "*/*")
"""A folder of recordings, or one of folders with the recordings of a host each."""


def named_recordings(words: Sequence[Path], wanted: Sequence[str] = (RECORDING_FILE,)) -> list[Place]:
    """Where the recordings lie that ``words`` name, in their order.

    A folder that is not a recording stands for the recordings in it and in its folders; a pattern with ``*``, ``?`` or
    ``[`` for what fits it (shells of Windows leave that to the program). Anything else stands for itself. All of that
    holds for object storage (``s3://bucket/fleet``), too. Of folders and patterns only what holds one of the files
    ``wanted`` is taken: `RECORDING_FILE`, or `SWEEP_FILE`.
    Raises `IotraceError` for a recording named twice, a pattern that nothing fits, and storage that does not answer.
    """
    found = [path for word in words for path in _named_by(word, wanted)]
    places: dict[Place, Place] = {}
    for path in found:
        if (place := path.resolve() if isinstance(path, Path) else path) in places:
            raise IotraceError(
                f"'{path}' and '{places[place]}' are the same recording, named twice", hint="name it once"
            )
        places[place] = path
    return found


def refuse_missing(paths: Sequence[Place]) -> None:
    """Raises `IotraceError` for a path with nothing at it, or a folder with no recordings in it.

    That is a slip of the pen, or a share that is not mounted here, and no damaged recording.
    """
    for path in paths:
        if isinstance(path, Path) and (not path.exists() or _is_plain_folder(path)):
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


def stands_for_many(word: Path) -> bool:
    """Whether ``word`` is a folder of recordings or a pattern, rather than a recording or a sweep."""
    return _named_by(word, OWN_FILES) != [stored_at(word) or word]


def _named_by(word: Path, wanted: Sequence[str]) -> Sequence[Place]:
    if (stored := stored_at(word)) is not None:
        return stored_recordings(stored, wanted)
    if _is_plain_folder(word):
        for depth in _DEPTHS:
            if inside := _holding(word.glob(depth + SUFFIX), wanted):
                return inside
    if not word.exists() and glob.has_magic(str(word)):
        fitting = _holding((Path(path) for path in glob.glob(str(word))), wanted)  # noqa: PTH207 - of any root
        if not fitting:
            raise IotraceError(
                f"no recording fits '{word}'", hint=f"recordings are folders that end in {SUFFIX}"
            )
        return fitting
    return [word]


def _is_plain_folder(path: Path) -> bool:
    """Whether it is a folder, and neither a recording nor a sweep."""
    return path.is_dir() and path.suffix != SUFFIX and not any((path / name).exists() for name in OWN_FILES)


def _holding(paths: Iterable[Path], wanted: Sequence[str]) -> list[Path]:
    return sorted(path for path in paths if any((path / name).is_file() for name in wanted))
