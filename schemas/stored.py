"""Recordings and sweeps in object storage: found there, and brought here for as long as they are read.

What reads a recording reads local files: memory-mapped by DuckDB and Arrow, and every guard against damage is made for
them. A pass over a recording needs most of its columns, so little is gained by reading parts over the network; and a
second way of reading would be a second set of results. So a recording is brought whole into a private folder, which
goes with the last look at it, and no more than one for each process that reads.
"""

import fnmatch
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from .errors import IotraceError
from .spilling import private_room

SCHEMES: Final = ("s3", "gs", "gcs", "abfs", "abfss")
"""Amazon's and whatever speaks its protocol, Google's, Azure's: as ``pyarrow.fs`` takes them."""
SUFFIX: Final = ".iotrace"
RECORDING_FILE: Final = "manifest.json"
SWEEP_FILE: Final = "sweep.json"
OWN_FILES: Final = (RECORDING_FILE, SWEEP_FILE)
"""One of them makes a folder a recording, or a sweep."""
_URL: Final = re.compile(rf"(?P<scheme>{'|'.join(SCHEMES)}):/+(?P<rest>[^?]+)(?P<options>\?.*)?", re.DOTALL)
_MAGIC: Final = re.compile(r"[*\[]")
_AT_ONCE: Final = 8
_PIECE_BYTES: Final = 8 << 20
_LEFT_FREE_BYTES: Final = 1 << 30
"""Of the disk that recordings are brought to."""
_GOOGLE_TRIES_S: Final = 60
_KEPT: Final = {".json", ".parquet"}
_HINT: Final = (
    "access is taken from where its own tools have it (such as AWS_PROFILE, AWS_ENDPOINT_URL); "
    "docs/fleet.md has examples"
)


@dataclass(frozen=True, slots=True, order=True)
class Stored:
    """A folder in object storage that holds a recording or a sweep."""

    url: str
    """Without its options."""
    options: str = ""
    """What follows the ``?``, such as ``?region=eu-central-1``."""

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """Of the folder."""
        return self.url.rpartition("/")[2]


Place = Path | Stored
"""Where a recording lies."""


def stored_at(word: str | Path) -> Stored | None:
    """What ``word`` names in object storage; None for a path. A ``Path`` has lost a slash of its URL."""
    match = _URL.fullmatch(word.as_posix() if isinstance(word, Path) else word)
    if match is None:
        return None
    return Stored(f"{match['scheme']}://{match['rest'].rstrip('/')}", match["options"] or "")


def stored_recordings(
    word: Stored, wanted: Sequence[str] = (RECORDING_FILE,), depths: int = 2
) -> list[Stored]:
    """The recordings that ``word`` names: one, those in a folder or in its folders, or what a pattern fits.

    Of folders and patterns only what holds one of the files ``wanted`` is taken. Raises `IotraceError` where there is
    none, or the storage cannot be read.
    """
    magic = _MAGIC.search(word.url)
    head = word.url[: magic.start()].rpartition("/")[0] if magic else word.url
    with _told(word):
        files, root = _opened(Stored(head, word.options))
        if magic:
            folders = _fitting(files, root, word.url.removeprefix(head + "/"))
        elif _own(files, [root], OWN_FILES):
            return [word]
        else:
            folders = [root]
            for _ in range(depths):
                folders = [name for folder in folders for name in _folders(files, folder)]
                if _own(files, folders, wanted):
                    break
        found = _own(files, [name for name in folders if name.endswith(SUFFIX)], wanted)
    if not found:
        raise IotraceError(f"no recording at '{word}'", hint=f"recordings are folders that end in {SUFFIX}")
    return sorted(Stored(head + name.removeprefix(root), word.options) for name in found)


@contextmanager
def brought(place: Place) -> Iterator[Path]:
    """Where ``place`` can be read as a folder: itself, or a copy that is gone afterwards.

    Raises `IotraceError` where it cannot be brought or there is no room. Errors within are made to name ``place``.
    """
    if isinstance(place, Path):
        yield place
        return
    with private_room() as room:
        folder = room / place.name
        with _told(place):
            _bring(place, folder)
        try:
            yield folder
        except IotraceError as problem:
            said = (words.replace(str(folder), str(place)) for words in (problem.message, problem.hint))
            message, hint = said
            raise IotraceError(message, hint=hint) from problem


def _bring(place: Stored, folder: Path) -> None:
    from pyarrow import fs  # noqa: PLC0415 - it loads the clients of three clouds

    files, root = _opened(place)
    found = [
        (one, PurePosixPath(one.path).relative_to(root))
        for one in files.get_file_info(fs.FileSelector(root, recursive=True))
        if one.type == fs.FileType.File
    ]
    # Names in a bucket may be anything.
    kept = [(one, path) for one, path in found if path.suffix in _KEPT and not {"..", "."} & set(path.parts)]
    size_bytes = sum(one.size for one, _ in kept)
    folder.mkdir(0o700)
    room_bytes = shutil.disk_usage(folder).free - _LEFT_FREE_BYTES
    if size_bytes > room_bytes:
        raise IotraceError(
            f"'{place}' takes {size_bytes / 1e9:,.1f} GB, and '{folder.parent}' has room for "
            f"{max(room_bytes, 0) / 1e9:,.1f} GB",
            hint="set TMPDIR to a larger disk",
        )
    for _, path in kept:
        (folder / path).parent.mkdir(0o700, parents=True, exist_ok=True)

    def bring_one(one: Any, path: PurePosixPath) -> None:  # noqa: ANN401 - a FileInfo
        with files.open_input_stream(one.path) as source, (folder / path).open("xb") as copy:
            shutil.copyfileobj(source, copy, _PIECE_BYTES)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(bring_one, *one) for one in kept]:
            done.result()


def _opened(place: Stored) -> tuple[Any, str]:
    """Its file system, and its path there."""
    from pyarrow import fs  # noqa: PLC0415 - it loads the clients of three clouds

    scheme, _, rest = place.url.partition("://")
    options = place.options
    if (
        scheme in {"gs", "gcs"} and "retry_limit_seconds" not in options
    ):  # Google's client tries for a quarter of an hour
        options += f"{'&' if options else '?'}retry_limit_seconds={_GOOGLE_TRIES_S}"
    files, root = fs.FileSystem.from_uri(f"{scheme}://{quote(rest, safe='/@:')}{options}")
    return files, root


def _own(files: Any, folders: Sequence[str], wanted: Sequence[str]) -> list[str]:  # noqa: ANN401 - a FileSystem
    """Those of ``folders`` that hold one of the files ``wanted``."""
    asked = [f"{folder}/{name}" for folder in folders for name in wanted]
    is_file = [one.is_file for one in files.get_file_info(asked)] if asked else []
    each = len(wanted)
    return [
        folder for number, folder in enumerate(folders) if any(is_file[each * number : each * (number + 1)])
    ]


def _folders(files: Any, folder: str) -> list[str]:  # noqa: ANN401 - a FileSystem
    from pyarrow import fs  # noqa: PLC0415 - it loads the clients of three clouds

    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(one.path for one in found if one.type == fs.FileType.Directory)


def _fitting(files: Any, root: str, pattern: str) -> list[str]:  # noqa: ANN401 - a FileSystem
    folders = [root]
    for part in pattern.split("/"):
        if _MAGIC.search(part):
            folders = [
                name
                for folder in folders
                for name in _folders(files, folder)
                if fnmatch.fnmatchcase(name.rpartition("/")[2], part)
            ]
        else:
            folders = [f"{folder}/{part}" for folder in folders]
    return folders


@contextmanager
def _told(place: Stored) -> Iterator[None]:
    """What the storage says against it, as an error for users."""
    import pyarrow as pa  # noqa: PLC0415 - with the module above

    try:
        yield
    except (OSError, pa.ArrowException, NotImplementedError) as problem:
        words = " ".join(str(problem).split())[:300].rstrip(".")
        raise IotraceError(f"cannot read '{place}': {words}", hint=_HINT) from problem
