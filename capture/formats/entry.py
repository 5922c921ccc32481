"""A line of the table of formats: what a file must look like for the module of its format to be loaded at all."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from .format import Format

GROUP: Final = "iotrace.formats"
"""The group of entry points by which an installed package brings formats: each gives a `Format`."""

TEXT: Final = rb"\A(?:\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|[^\0]{64}|[^\0]*\Z)"
"""Of a format whose lines have no word in common: any text, UTF-16 too."""


class Certainty(StrEnum):
    """How surely a file of a format is known."""

    CERTAIN = "certain"
    """By a mark or a structure that no other format has."""
    LIKELY = "likely"
    """By its columns, or by how its lines look."""
    GUESS = "a guess"
    """By its name; its lines could be of anything."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A format that can be loaded: ``point`` says from where. What ``may_be`` denies, the format must deny too."""

    point: EntryPoint
    content: re.Pattern[bytes] | None = None
    """What the start of every file of it has in it, the zeros of UTF-16 aside; None where nothing is known."""
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

    def may_be(self, head: bytes, path: Path) -> bool:
        """Whether a file at ``path`` that begins with ``head`` can be one of it."""
        if self.content is None or (self.names is not None and self.names.search(path.name)):
            return True
        return self.content.search(head) is not None or (
            _is_wide(head) and self.content.search(head.replace(b"\0", b"")) is not None
        )

    def load(self) -> Format:
        """The format. Its module is executed once."""
        return self.checked(self.point.load(), self)


def _is_wide(head: bytes) -> bool:
    """Whether ``head`` is text in UTF-16, with its mark or without."""
    one, other = head[0:8:2], head[1:8:2]
    is_bare = (all(one) and not any(other)) or (all(other) and not any(one))
    return is_bare or head.startswith((b"\xff\xfe", b"\xfe\xff"))


def entry(
    name: str,
    place: str,
    content: bytes | None = None,
    names: str | None = None,
    *,
    words: str,
    certainty: Certainty = Certainty.LIKELY,
) -> Entry:
    """One of our own formats: ``place`` is ``module:NAME``, the patterns are regular expressions."""
    return Entry(
        EntryPoint(name, place, GROUP),
        None if content is None else re.compile(content),
        None if names is None else re.compile(names, re.IGNORECASE),
        words=words,
        certainty=certainty,
    )
