"""Hours of time zones that logs name by abbreviation."""

from email.utils import parsedate_tz
from typing import Final

_EUROPE: Final = {
    "WET": 0,
    "WEST": 1,
    "BST": 1,
    "CET": 1,
    "CEST": 2,
    "MET": 1,
    "MEST": 2,
    "EET": 2,
    "EEST": 3,
}
"""Hours east of UTC of abbreviations that RFC 5322 does not have. BST is Britain's: HammerDB's manual has it so."""


def seconds_east(zone: str) -> int | None:
    """Seconds a zone is ahead of UTC: UTC, GMT, North America's, Europe's and +0100; None where it is ambiguous."""
    if (hours := _EUROPE.get(zone)) is not None:
        return hours * 3600
    fields = parsedate_tz(f"1 Jan 2000 00:00:00 {zone}")
    return None if fields is None else fields[9]
