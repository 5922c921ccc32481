"""Unpacking zip archives that strangers made: bounded in bytes, memory and members, and never by their names.

Limits, on what the archive declares and again on what really comes out, over all members taken: `BYTES_MAX`, and from
`RATIO_FREE_BYTES` on a ratio of at most `RATIO_MAX`. Traces deflate by 5 to 30; a bomb by 1,000.
"""

import errno
import hashlib
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError

from .formats.format import HEAD_BYTES

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
        infos = [info for info in self._file.infolist() if not info.is_dir()]
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
                    "holds members that overlap, like an archive made to fill disks",
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
        plain_bytes += self._plain_bytes
        packed_bytes += self._packed_bytes
        if plain_bytes > BYTES_MAX:
            raise self._refused(
                f"unpacks to more than {BYTES_MAX >> 30} GiB", "unpack it yourself and import what is inside"
            )
        if plain_bytes > RATIO_FREE_BYTES and plain_bytes > RATIO_MAX * max(packed_bytes, 1):
            raise self._refused(
                f"unpacks to more than {RATIO_MAX} times its size, like an archive made to fill disks",
                "if you trust it, unpack it yourself and import what is inside",
            )

    def _refused(self, what: str, hint: str) -> IotraceError:
        return IotraceError(f"'{self._name}' {what}", hint=hint)


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
            f"'{name}' is packed in a way that is not read: {problem}",
            hint="unpack it yourself and import what is inside",
        ) from problem


def _damaged(name: str, problem: Exception) -> IotraceError:
    return IotraceError(f"'{name}' is a damaged zip: {problem}", hint="copy it again, or unpack it yourself")
