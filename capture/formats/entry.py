"""A line of the table of formats: what a file must look like for the module of its format to be loaded at all."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from .format import Format

GROUP: Final = "iotrace.formats"
"""The group of entry points by which an installed package brings formats: each gives a `Format`."""

TEXT: Final = rb"\A(?:\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|[^\0]{64}|[^\0]*\Z)"
"""Of a format whose lines have no word in common: any text, UTF-16 too."""

_LINES_BYTES: Final = 1 << 15
"""Holds the first lines of a file: a row of numbers stands in them, or the format does not look so far either."""


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
