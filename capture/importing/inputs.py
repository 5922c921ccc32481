"""Finds the traces in what a user names: files, folders, zips of either; files of one family are one trace.

What no format knows is an error where it was named itself, and is left out and told where it lay in a folder or a zip.

Unpacking archives that strangers made: bounded in bytes, memory and members, and never by their names.

Limits, of a zip on what it declares and again on what really comes out, over all members taken: `BYTES_MAX`, and from
`RATIO_FREE_BYTES` on a ratio of at most `RATIO_MAX`. Traces deflate by 5 to 30; a bomb by 1,000. Of other archives all
members are unpacked, since most can be read in one order only (`unpacking`).
"""

import errno
import hashlib
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from iotrace.capture.formats import registry
from iotrace.capture.formats.format import HEAD_BYTES, Format, naming
from iotrace.schemas import IotraceError
from iotrace.schemas.recording import UNFINISHED_SUFFIX
from iotrace.schemas.spilling import private_room

from . import unpacking
from .recognition import FAMILIES, lookalike, not_recognised, recognise

BYTES_MAX: Final = 64 << 30
RATIO_MAX: Final = 200
RATIO_FREE_BYTES: Final = 256 << 20
MEMBERS_MAX: Final = 10_000
_CHUNK_BYTES: Final = 1 << 20
_ENCRYPTED: Final = 0x1
_LOCAL_HEADER_BYTES: Final = 30
_HEADS_KEPT: Final = 64
_DAMAGE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive and its first bytes. ``name`` is for people: it is never used as a path."""

    name: str
    head: Callable[[], bytes]
    """Of 10,000 members they are not all kept."""
    info: zipfile.ZipInfo


def is_zip(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a zip archive."""
    return head[:4] in {b"PK\x03\x04", b"PK\x05\x06"}


class Archive:
    """An open zip archive. ``name`` is the user's word for it, for messages."""

    def __init__(self, file: zipfile.ZipFile, name: str) -> None:
        self._file, self._name = file, name
        self._plain_bytes = self._packed_bytes = 0
        self._heads: dict[int, bytes] = {}

    @classmethod
    @contextmanager
    def open(cls, path: Path, name: str) -> Iterator["Archive"]:
        """Open the archive at ``path``; inside the context, damage anywhere in it becomes an `IotraceError`."""
        with _damage_named(name), zipfile.ZipFile(path) as file:
            yield cls(file, name)

    def members(self) -> Iterator[Member]:
        """Yield each file with its first bytes, after checking that together they keep the limits."""
        infos = [info for info in self._file.infolist() if not info.filename.endswith("/")]
        if not all(info.filename for info in infos):
            raise self._refused(
                "holds a file without a name", "pack the traces again, or name them themselves"
            )
        if len(infos) > MEMBERS_MAX:
            raise self._refused(f"holds {len(infos):,} files", "unpack it and import the traces themselves")
        for info in infos:
            if info.flag_bits & _ENCRYPTED:
                raise self._refused("is encrypted", "unpack it with its password and import the .etl inside")
        self._refuse_overlaps(infos)
        for info in infos:
            yield Member(info.filename.replace("\\", "/"), partial(self._head, info), info)

    def _refuse_overlaps(self, infos: Sequence[zipfile.ZipInfo]) -> None:
        """Members that share their bytes make much of little, and no program that packs traces writes such."""
        ordered = sorted(infos, key=lambda info: info.header_offset)
        for info, following in pairwise(ordered):
            if info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size > following.header_offset:
                raise self._refused(
                    "holds members that overlap, as an archive made to fill disks does",
                    "pack the traces again, or name them themselves",
                )

    def _head(self, info: zipfile.ZipInfo) -> bytes:
        if info.header_offset not in self._heads:
            if len(self._heads) >= _HEADS_KEPT:
                self._heads.pop(next(iter(self._heads)))
            with _damage_named(self._name), self._file.open(info) as stream:
                self._heads[info.header_offset] = stream.read(HEAD_BYTES)
        return self._heads[info.header_offset]

    def unpack(self, member: Member, target: Path, progress: Callable[[int, int], None]) -> str:
        """Write a member to ``target`` and return its SHA-256. Stops as soon as a limit is passed."""
        with _damage_named(self._name):
            return self._unpack(member.info, target, progress)

    def _unpack(self, info: zipfile.ZipInfo, target: Path, progress: Callable[[int, int], None]) -> str:
        self._check(info.file_size, info.compress_size)
        digest = hashlib.sha256()
        written = 0
        with self._file.open(info) as stream, target.open("xb") as output:
            while chunk := stream.read(_CHUNK_BYTES):
                written += len(chunk)
                self._check(written, info.compress_size)
                digest.update(chunk)
                output.write(chunk)
                progress(written, info.file_size)
        self._plain_bytes += written
        self._packed_bytes += info.compress_size
        return digest.hexdigest()

    def _check(self, plain_bytes: int, packed_bytes: int) -> None:
        _check_bounds(self._name, self._plain_bytes + plain_bytes, self._packed_bytes + packed_bytes)

    def _refused(self, what: str, hint: str) -> IotraceError:
        return IotraceError(f"'{self._name}' {what}", hint=hint)


def _check_bounds(name: str, plain_bytes: int, packed_bytes: int) -> None:
    """Raises `IotraceError` where an archive unpacks to more than it may."""
    if plain_bytes > BYTES_MAX:
        raise IotraceError(
            f"'{name}' unpacks to more than {BYTES_MAX >> 30} GiB",
            hint="unpack it yourself and import what is inside",
        )
    if plain_bytes > RATIO_FREE_BYTES and plain_bytes > RATIO_MAX * max(packed_bytes, 1):
        raise IotraceError(
            f"'{name}' unpacks to more than {RATIO_MAX} times its size, as an archive made to fill disks does",
            hint="if you trust it, unpack it yourself and import what is inside",
        )


@contextmanager
def _damage_named(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as problem:
        raise _damaged(name, problem) from problem
    except OSError as problem:
        # bzip2's own word for damage has no number; a place before the file's start has this one.
        if problem.errno not in {None, errno.EINVAL}:
            raise
        raise _damaged(name, problem) from problem
    except NotImplementedError as problem:
        raise IotraceError(
            f"'{name}' is packed in a way that iotrace does not read: {problem}",
            hint="unpack it yourself and import what is inside",
        ) from problem


def _damaged(name: str, problem: Exception) -> IotraceError:
    return IotraceError(f"'{name}' is a damaged zip: {problem}", hint="copy it again, or unpack it yourself")


_NAMED_MAX: Final = 20
_FILES_MAX: Final = 100_000

Reporting = Callable[[int, int], None]


class File:
    """A file on disk or in a zip. ``name`` is the user's word for it."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path
        self.folder, self.base_name = path.parent.as_posix(), path.name
        self.place: tuple[str, str] = ("", path.absolute().parent.as_posix())
        """The zip it lies in, if any, and the folder: unlike ``folder`` the same for no two."""
        self.known_as = path
        """What formats may look at beside the content: a mapping of columns lies next to its file."""

    is_packed = False
    """Whether it lay in an archive: archives in archives are left alone."""

    @property
    def head(self) -> bytes:
        """Its first bytes. Raises `IotraceError` for what is no file with content, without waiting for any."""
        with naming(self.name):
            found = self._path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise IotraceError(
                    f"'{self.name}' is not a regular file",
                    hint="write its output to a file, and import that",
                )
            if not found.st_size:
                return b""  # also those that the kernel makes as they are read, some of which never end
            with self._path.open("rb") as file:
                return file.read(HEAD_BYTES)

    def path(self, _progress: Reporting) -> Path:
        """Where it lies on disk, once it is unpacked."""
        return self._path

    def sha256(self) -> str:
        """Of its bytes."""
        with naming(self.name), self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def bytes(self) -> int:
        """Its size."""
        with naming(self.name):
            return self._path.stat().st_size

    def forget(self) -> None:
        """It is needed no more."""


class PackedFile(File):
    """A file in a zip: unpacked when it is asked for, into ``room``."""

    is_packed = True

    def __init__(self, name: str, archive: Archive, member: Member, target: Path) -> None:
        inner = PurePosixPath(member.name)
        self.name, self._path = name, target
        self.folder, self.base_name = inner.parent.as_posix(), inner.name
        self.place = (name.removesuffix(member.name), self.folder)
        # Of what lies where iotrace was started, nothing belongs to it.
        self.known_as = target.parent / inner.name
        self._archive, self._member, self._digest = archive, member, ""

    @property
    def head(self) -> bytes:
        """Its first bytes."""
        return self._member.head()

    def path(self, progress: Reporting) -> Path:
        """Where it lies once it is unpacked, which it is now."""
        if not self._digest:
            self._digest = self._archive.unpack(self._member, self._path, progress)
        return self._path

    def sha256(self) -> str:
        """Of its bytes."""
        self.path(lambda _done, _total: None)
        return self._digest

    def bytes(self) -> int:
        """Its size."""
        return self._member.info.file_size

    def forget(self) -> None:
        """It is needed no more."""
        self._path.unlink(missing_ok=True)


class UnpackedFile(File):
    """A file of an archive that was unpacked as a whole."""

    is_packed = True

    def __init__(self, name: str, member: unpacking.Unpacked) -> None:
        super().__init__(name, member.path)
        inner = PurePosixPath(member.name)
        self.folder, self.base_name = inner.parent.as_posix(), inner.name
        self.place = (name.removesuffix(member.name), self.folder)
        self.known_as = member.path.parent / inner.name

    def forget(self) -> None:
        """It is needed no more."""
        self._path.unlink(missing_ok=True)


@dataclass(slots=True)
class Group:
    """One trace to be: a file, or all of its family in order. ``is_named``: the user named it, not where it lies."""

    format: Format
    files: list[File]
    is_named: bool = True

    @property
    def name(self) -> str:
        """What errors and progress call it: the first of its files."""
        return self.files[0].name


@dataclass(slots=True)
class Gathering:
    """Walks over what the user names. ``room`` gives a folder to unpack into; ``mapped`` formats are asked first."""

    room: Callable[[], Path]
    mapped: Sequence[Format] = ()
    archives: list[File] = field(default_factory=list)
    """The zips that were opened."""
    _unknown: list[str] = field(default_factory=list)
    _left_out: list[str] = field(default_factory=list)
    _files_unpacked: int = 0
    _read_with_others: set[Path] = field(default_factory=set)
    """Members of families that were read when another of them was named."""

    def groups(self, path: Path, name: str) -> Iterator[Group]:
        """The traces at ``path``. Packed ones stay readable until the next is asked for, unpacked ones for good."""
        with naming(name):
            is_folder = path.is_dir()
        if is_folder:
            _refuse_recording(path, name)
            yield from self._some(self._grouped(list(self._walk(path, name)), is_named=False), name, "folder")
        else:
            files = self._with_siblings(File(name, path))
            known = path.absolute() in self._read_with_others
            if len(files) > 1:
                self._read_with_others.update(file.path(_silent).absolute() for file in files)
            if not known:
                yield from self._grouped(files, is_named=True)

    def leave_out(self, words: str) -> None:
        """Say that something is left out, and why."""
        self._left_out.append(f"left out: {words}")

    def notes(self) -> list[str]:
        """What was left out so far."""
        notes = list(self._left_out)
        if self._unknown:
            more = len(self._unknown) - _NAMED_MAX
            names = ", ".join(self._unknown[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
            notes.append(f"left out, not a trace that iotrace knows: {names}")
        return notes

    def _some(self, groups: Iterator[Group], name: str, where: str) -> Iterator[Group]:
        count = 0
        for group in groups:
            count += 1
            yield group
        if not count:
            raise IotraceError(
                f"'{name}' holds no trace that iotrace can read", hint=f"it takes {FAMILIES} in a {where}"
            )

    def _walk(self, path: Path, name: str) -> Iterator[File]:
        """Files of a folder and of those in it, in order of their names; links to folders are not followed."""
        count = 0
        with naming(name):
            for top, folders, names in os.walk(path, onerror=_raised):
                root = Path(top)
                for folder in list(folders):
                    if folder.endswith(".iotrace") and (root / folder / "io.parquet").is_file():
                        self.leave_out(f"'{_inner(name, path, root / folder)}' is already a recording")
                        folders.remove(folder)
                folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
                for base_name in sorted(names):
                    file = root / base_name
                    if base_name.startswith(".") or not file.is_file():
                        continue
                    count += 1
                    if count > _FILES_MAX:
                        raise IotraceError(
                            f"'{name}' holds over {_FILES_MAX:,} files", hint="name the trace files in it"
                        )
                    yield File(_inner(name, path, file), file)

    def _with_siblings(self, file: File) -> list[File]:
        """All of the family that a named file belongs to, by the names in its folder; at least the file itself."""
        path = file.path(_silent)
        for format_ in registry.families([path.name]):
            assert format_.family is not None
            if (mine := format_.family.member(path.name)) is None:
                continue
            with naming(file.name):
                found = [
                    File(str(Path(file.name).with_name(other.name)), other)
                    for other in sorted(path.parent.iterdir())
                    if (member := format_.family.member(other.name))
                    and member[0] == mine[0]
                    and other.is_file()
                ]
            if any(format_.recognises(other.head, path) for other in found):
                return found
        return [file]

    def _grouped(self, files: list[File], *, is_named: bool) -> Iterator[Group]:
        rest = files
        for format_ in registry.families(file.base_name for file in files):
            assert format_.family is not None
            families: dict[tuple[str, str], list[tuple[int, File]]] = {}
            for file in rest:
                if member := format_.family.member(file.base_name):
                    families.setdefault((file.folder, member[0]), []).append((member[1], file))
            for members in families.values():
                ordered = [file for _, file in sorted(members, key=lambda entry: entry[0])]
                if any(format_.recognises(file.head, file.known_as) for file in ordered):
                    taken = {id(file) for file in ordered}
                    rest = [file for file in rest if id(file) not in taken]
                    yield Group(format_, ordered, is_named)
        for file in rest:
            yield from self._single(file, is_named=is_named)

    def _single(self, file: File, *, is_named: bool) -> Iterator[Group]:
        if not file.head:
            if is_named:
                raise IotraceError(
                    f"'{file.name}' is empty", hint="check that the trace was stopped and copied completely"
                )
            self.leave_out(f"'{file.name}' is empty")
            return
        chosen = recognise(file.head, file.known_as, self.mapped)
        if chosen is not None:
            yield Group(chosen, [file], is_named)
        elif file.is_packed and not is_named:
            self._unknown.append(file.name)
        elif is_zip(file.head) and lookalike(file.head) is None:
            yield from self._packed(file, is_named=is_named)
        elif unpacking.kind_of(file.head):
            yield from self._unpacked(file, is_named=is_named)
        elif is_named:
            raise not_recognised(file.head, file.name)
        else:
            self._unknown.append(file.name)

    def _packed(self, file: File, *, is_named: bool) -> Iterator[Group]:
        with Archive.open(file.path(_silent), file.name) as archive:
            room = self.room()
            self.archives.append(file)
            files: list[File] = []
            for member in archive.members():
                self._files_unpacked += 1
                files.append(
                    PackedFile(
                        f"{file.name}/{member.name}", archive, member, room / str(self._files_unpacked)
                    )
                )
            groups = self._grouped(files, is_named=False)
            yield from self._some(groups, file.name, "zip") if is_named else groups

    def _unpacked(self, file: File, *, is_named: bool) -> Iterator[Group]:
        path, packed_bytes = file.path(_silent), file.bytes()

        def check(plain_bytes: int) -> None:
            _check_bounds(file.name, plain_bytes, packed_bytes)

        try:
            with naming(file.name):
                members = list(unpacking.unpack(path, file.name, self.room(), check, MEMBERS_MAX))
        except IotraceError as problem:
            if is_named:
                raise
            self.leave_out(problem.message)
            return
        self.archives.append(file)
        files: list[File] = [UnpackedFile(f"{file.name}/{member.name}", member) for member in members]
        groups = self._grouped(files, is_named=False)
        yield from self._some(groups, file.name, "archive") if is_named else groups


@contextmanager
def unpacking_room(parent: Path | None) -> Iterator[Callable[[], Path]]:
    """Gives folders to unpack into, beside the output where room has to be anyway; all are gone on leaving."""
    with ExitStack() as rooms:
        yield lambda: rooms.enter_context(private_room(parent))


def _refuse_recording(path: Path, name: str) -> None:
    if path.name.endswith(UNFINISHED_SUFFIX):
        raise IotraceError(
            f"'{name}' is a recording that was not finished",
            hint=f"iotrace capture recover {name.removesuffix(UNFINISHED_SUFFIX)}",
        )
    if path.suffix == ".iotrace" and ((path / "io.parquet").exists() or not any(path.glob("*.arrows"))):
        raise IotraceError(
            f"'{name}' is already a recording",
            hint=f"use it as it is, e.g. iotrace describe {name}; --anonymize makes a copy without names",
        )


def _inner(name: str, folder: Path, path: Path) -> str:
    return f"{name.rstrip('/')}/{path.relative_to(folder).as_posix()}"


def _raised(problem: OSError) -> None:
    raise problem


def _silent(_done: int, _total: int) -> None:
    pass
