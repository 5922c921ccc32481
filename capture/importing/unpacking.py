"""Archives and compressed files beside zip (.7z, .cab, .gz, .tar.gz, .bz2, .xz, .zst), unpacked by libarchive.

Members are written under numbers of ours, never under their own names, and counted as they come: what an archive
declares is not relied on. libarchive is the system's, and neither it nor the package ``libarchive-c`` need be there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from iotrace.schemas import IotraceError

_KINDS: Final[tuple[tuple[bytes, str, tuple[str, ...]], ...]] = (
    (b"7z\xbc\xaf\x27\x1c", "7z", ("7zip",)),
    (b"MSCF\0\0\0\0", "cab", ("cab",)),
    (b"\x1f\x8b\x08", "gzip", ("tar", "raw")),
    (b"BZh", "bzip2", ("tar", "raw")),
    (b"\xfd7zXZ\0", "xz", ("tar", "raw")),
    (b"\x28\xb5\x2f\xfd", "zstd", ("tar", "raw")),
)
"""How each begins, what it is called, and what libarchive is to take it for, in this order."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A member that was written to ``path``. ``name`` is for people."""

    name: str
    path: Path


def kind_of(head: bytes) -> str | None:
    """What a packed file that begins with ``head`` is called; None for any other."""
    return next((kind for magic, kind, _ in _KINDS if head.startswith(magic)), None)


def unpack(
    path: Path, name: str, room: Path, check: Callable[[int], None], members_max: int
) -> Iterator[Unpacked]:
    """Write each member into ``room``. ``check`` is told how many bytes have come in all, and may refuse.

    Raises `IotraceError` for what is damaged, encrypted, or holds over ``members_max`` files, and where libarchive is
    missing.
    """
    with path.open("rb") as file:
        head = file.read(16)
    kind, takings = next((kind, takings) for magic, kind, takings in _KINDS if head.startswith(magic))
    library = _library(name, kind)
    written = members = 0
    with _named(name, kind, library), _opened(library, path, takings) as archive:
        for entry in archive:
            if not entry.isfile and takings[-1] != "raw":
                continue
            members += 1
            if members > members_max:
                raise IotraceError(
                    f"'{name}' holds over {members_max:,} files",
                    hint="unpack it and import the traces themselves",
                )
            target = room / str(members)
            with target.open("xb") as output:
                for block in entry.get_blocks():
                    written += len(block)
                    check(written)
                    output.write(block)
            yield Unpacked(_inner(entry.pathname, path), target)


def _inner(told: str | None, path: Path) -> str:
    """A compressed file tells no name, which libarchive calls ``data``: it is the file's own, without its end."""
    name = (told or "data").replace("\\", "/")
    return path.stem if name == "data" else name


@contextmanager
def _opened(library: ModuleType, path: Path, takings: tuple[str, ...]) -> Iterator[Any]:
    for taking in takings[:-1]:
        try:
            with library.file_reader(str(path), taking, "all") as archive:
                next(iter(archive), None)
        except library.ArchiveError:
            continue
        takings = (taking,)
    with library.file_reader(str(path), takings[-1], "all") as archive:
        yield archive


def _library(name: str, kind: str) -> ModuleType:
    try:
        import libarchive  # noqa: PLC0415 - it looks for a library of the system's as it is loaded
    except (
        ImportError,
        OSError,
        TypeError,
        AttributeError,
    ) as problem:  # whichever it meets without the library
        raise IotraceError(
            f"'{name}' is a {kind} archive, and libarchive, which opens it, is not installed",
            hint="unpack it and import what is inside, or install the system's libarchive and pip's libarchive-c",
        ) from problem
    module: ModuleType = libarchive
    return module


@contextmanager
def _named(name: str, kind: str, library: ModuleType) -> Iterator[None]:
    try:
        yield
    except library.ArchiveError as problem:
        told = str(problem.msg or problem).strip()
        if "encrypt" in told.lower() or "passphrase" in told.lower():
            raise IotraceError(
                f"'{name}' is encrypted", hint="unpack it with its password and import the traces inside"
            ) from problem
        raise IotraceError(
            f"'{name}' is a damaged {kind} archive, or packed in a way that iotrace does not read: {told[:200]}",
            hint="copy it again, or unpack it yourself and import what is inside",
        ) from problem
    except (UnicodeError, ValueError) as problem:
        raise IotraceError(
            f"'{name}' is a damaged {kind} archive: {problem}", hint="copy it again, or unpack it yourself"
        ) from problem
