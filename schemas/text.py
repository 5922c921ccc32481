"""Text from traces and users made fit to be shown, and shares as all rooms write them."""

import re
from collections.abc import Callable
from typing import Final

DASH: Final = "–"  # noqa: RUF001 (the dash is what is meant)

_PATH: Final = re.compile(r"(?:[A-Za-z]:|[a-z0-9]+:/|\.{0,2})[\\/]")
"""How a path begins: ``/``, ``./``, ``D:\\``, ``\\\\server``, ``s3://``."""


def printable(text: str) -> str:
    """Replace what could drive a terminal, turn its direction, or begin a line that only looks like ours."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


HOST_CHARACTERS: Final = 24
"""Of a host's name in a table or sentence."""


def shortened(text: str, most: int = 160, measure: Callable[[str], int] = len) -> str:
    """Leave out the middle of what is too long to look at; ``measure`` says how long that is, in characters by default.

    Of a path that is folders, so that its first ones and the name at its end stay whole: ``/var/tmp/…/pgwal``.
    """
    if measure(text) <= most:
        return text
    if _PATH.match(text) and (path := _without_folders(text, most, measure)):
        return path
    head = text[: most // 3]
    while measure(head) > most // 3:
        head = head[:-1]
    tail = text[len(text) - most :]
    while tail and measure(tail) > most - measure(head) - 1:
        tail = tail[1:]
    return f"{head}…{tail}"


def _without_folders(path: str, most: int, measure: Callable[[str], int]) -> str:
    """As many folders from its beginning as fit before its last name; empty where not even the first does."""
    ends = [found.end() for found in re.finditer(r"[\\/]", path[:-1])]
    name = path[ends[-1] - 1 :]
    room = most - measure(name) - 1
    for end in reversed(ends[:-1]):
        if end <= room and measure(path[:end]) <= room:
            return f"{path[:end]}…{name}"
    return ""


def beginning(text: str, most: int) -> str:
    """The first ``most`` characters of a title or sentence, to the end of a word if there is one."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    whole = kept.rpartition(" ")[0] if text[most - 1] != " " else kept
    return f"{(whole if len(whole) > most // 2 else kept).rstrip()}…"


def format_share(share: float | None, decimals: int = 1, *, signed: bool = False) -> str:
    """A share of 1 as a percentage: ``12.3 %``; ``signed``: ``+12.3 %``."""
    if share is None:
        return DASH
    # Adding 0 makes a nought of minus nought.
    percent = round(share * 100, decimals) + 0.0
    return f"{percent:{'+' if signed else ''},.{decimals}f} %"
