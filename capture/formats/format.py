"""What a reader of a file format hands over, and how it is found: the seam between `importing` and the formats.

`Entry` is a line of the table of formats: what a file must look like for the module of its format to be loaded at all.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from iotrace.capture import _readers
from iotrace.schemas import Clock, IotraceError, Quality
from iotrace.schemas.host import Host

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""
GROUP: Final = "iotrace.formats"
"""The group of entry points by which an installed package brings formats: each gives a `Format`."""

TEXT: Final = rb"\A(?:\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|[^\0]{64}|[^\0]*\Z)"
"""Of a format whose lines have no word in common: any text, UTF-16 too."""

_LINES_BYTES: Final = 1 << 15
"""Holds the first lines of a file: a row of numbers stands in them, or the format does not look so far either."""


def unreported(_what: str, _done: int, _total: int) -> None:
    """`Progress` that nobody wants to hear of."""


SYSTEM_TICK_NS = 15_625_000
"""Windows' system time moves in ticks of 0.5 to 15.625 ms and is as exact as one of them (KeQuerySystemTimePrecise)."""

HEAD_BYTES = 1 << 17
"""How much of a file's start `Format.recognises` is shown."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a trace once all its rows are handed over. Times are since the trace's own start."""

    window_start_ns: int
    window_end_ns: int
    quality: Quality
    events: int
    """Events of every kind in the file, kept or not."""


class Trace(Protocol):
    """One opened file. Rows come in batches, so a trace larger than memory need not be held as Python objects."""

    clock: Clock
    host: Host

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield table names and rows for them, as `iotrace.schemas.conform` takes them.

        Times are since the trace's own start, ids dense from 0 in this trace; a row comes before any row that
        names it.
        """
        ...

    def outcome(self) -> Outcome:
        """What remains to be told; only to be asked when `batches` is exhausted."""
        ...


@runtime_checkable
class LocalTimes(Protocol):
    """A trace whose times may be local, in a zone that its file does not name."""

    def settle_zone(self, timezone: str | None) -> None:
        """Take the zone that the user named, if it is needed; before the clock or rows are asked for.

        Raises `IotraceError` if it is needed and None.
        """
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """Files of one folder that are one trace together, such as one for each processor."""

    member: Callable[[str], tuple[str, int] | None]
    """From a file's name: what all of its family have in common, and its place among them; None if it is of none."""
    read: Callable[[Sequence[Path], Sequence[str], Progress], Trace]
    """Given where the members lie and the user's words for them, in order; the first is the trace's name."""
    inspect: Callable[[Sequence[Path], Sequence[str]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file. ``read`` raises `IotraceError` naming the file by its second argument, the user's word for it.

    A format with a ``family`` is given all members at once, wherever the user names one of them, their folder or a zip
    of it; ``recognises`` then need only know one.
    """

    name: str
    recognises: Callable[[bytes, Path], bool]
    read: Callable[[Path, str, Progress], Trace]
    inspect: Callable[[Path, str], dict[str, Any]] | None = None
    """What is in the file and whether it is whole, without importing it; raises as ``read`` does."""
    family: Family | None = None
    has_ios: bool = True
    """Whether its traces can hold single I/Os, by which clocks are compared."""
    knows_files: bool = False
    """Whether it tells of files what others guess from their paths, and so goes before them."""
    almost: Callable[[bytes], tuple[str, str] | None] | None = None
    """Of a file that nothing recognises: what it is, with its article, and what to do, if it is nearly one of these."""


def undated(first: str) -> str:
    """The note on a source whose times have no date, where the ``first`` of them (I/O, event) becomes 1970."""
    return f"the source has no date: its first {first} is put at 1970-01-01 00:00 UTC"


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn what the operating system or a native reader says of a file into words that name it as the user does."""
    try:
        yield
    except _readers.UnreadableError as problem:
        what, hint = problem.args
        raise IotraceError(f"'{name}' {what}", hint=hint) from problem
    except FileNotFoundError as problem:
        raise IotraceError(f"no file '{name}'", hint="check the path") from problem
    except PermissionError as problem:
        raise IotraceError(f"may not read '{name}'", hint="check its permissions") from problem
    except OSError as problem:
        raise IotraceError(
            f"cannot read '{name}': {problem.strerror or problem}", hint="check that it is there and whole"
        ) from problem


class Certainty(StrEnum):
    """How surely a file of a format is known."""

    CERTAIN = "certain"
    """By a mark or a structure that no other format has."""
    LIKELY = "likely"
    """By its columns, or by how its lines look."""
    GUESS = "a guess"
    """By its name; its lines could be of anything."""


class Head:
    """The start of a file, as the table looks at it; what many formats look at is made once."""

    def __init__(self, head: bytes) -> None:
        self.bytes = head

    @cached_property
    def narrow(self) -> bytes | None:
        """Without its zeros, if it is text in UTF-16, with its mark or without."""
        one, other = self.bytes[0:8:2], self.bytes[1:8:2]
        is_bare = (all(one) and not any(other)) or (all(other) and not any(one))
        is_wide = is_bare or self.bytes.startswith((b"\xff\xfe", b"\xfe\xff"))
        return self.bytes.replace(b"\0", b"") if is_wide else None

    @cached_property
    def small(self) -> bytes:
        """In small letters; nothing where it is mostly zeros, which no text is."""
        text = self.bytes if self.narrow is None else self.narrow
        return b"" if text.count(b"\0", 0, _LINES_BYTES) > min(len(text), _LINES_BYTES) // 2 else text.lower()


@dataclass(frozen=True, slots=True)
class Entry:
    """A format that can be loaded: ``point`` says from where. What ``may_be`` denies, the format must deny too."""

    point: EntryPoint
    content: re.Pattern[bytes] | tuple[bytes, ...] | None = None
    """What the start of every file of it has in it, the zeros of UTF-16 aside: a pattern in its first lines, or, which
    is found many times faster, one of some words in small letters; None where nothing is known."""
    names: re.Pattern[str] | None = None
    """Names of files by which it is asked too: those of its family, or of a form that has no mark."""
    checked: Callable[[Format, "Entry"], Format] = field(default=lambda format_, _entry: format_)
    words: str = ""
    """What its files are, as people call them; empty for formats of other packages."""
    certainty: Certainty = Certainty.LIKELY

    @property
    def name(self) -> str:
        """The format's."""
        return self.point.name

    def may_be(self, head: Head, path: Path) -> bool:
        """Whether a file at ``path`` that begins with ``head`` can be one of it."""
        if self.content is None or (self.names is not None and self.names.search(path.name)):
            return True
        if isinstance(self.content, tuple):
            return any(word in head.small for word in self.content)
        return self.content.search(head.bytes, 0, _LINES_BYTES) is not None or (
            head.narrow is not None and self.content.search(head.narrow, 0, _LINES_BYTES) is not None
        )

    def load(self) -> Format:
        """The format. Its module is executed once."""
        return self.checked(self.point.load(), self)


def entry(
    name: str,
    place: str,
    content: bytes | tuple[bytes, ...] | None = None,
    names: str | None = None,
    *,
    words: str,
    certainty: Certainty = Certainty.LIKELY,
) -> Entry:
    """One of our own formats: ``place`` is ``module:NAME``, ``names`` and a single ``content`` regular expressions."""
    return Entry(
        EntryPoint(name, place, GROUP),
        re.compile(content) if isinstance(content, bytes) else content,
        None if names is None else re.compile(names, re.IGNORECASE),
        words=words,
        certainty=certainty,
    )
