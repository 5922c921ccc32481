"""What time zones in logs mean: hours from UTC where that is certain, else that it is not known.

An abbreviation counts only if the IANA time zone database has it for one offset, at all times since 2000, and no other
use of it is common: EST is New York's and was Sydney's, CST is Chicago's, Shanghai's and Havana's, IST is India's,
Ireland's and Israel's. A test holds the list to the database.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from iotrace.schemas import IotraceError
from iotrace.schemas.units import SECOND_NS

ABBREVIATIONS: Final[dict[str, float]] = {
    "Z": 0, "UTC": 0, "UT": 0, "UCT": 0, "GMT": 0,
    "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "MET": 1, "MEST": 2, "EET": 2, "EEST": 3, "IDT": 3,
    "SAST": 2, "CAT": 2, "EAT": 3, "PKT": 5, "WIB": 7, "WITA": 8, "WIT": 9, "HKT": 8, "JST": 9,
    "AWST": 8, "ACST": 9.5, "ACDT": 10.5, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
    "HST": -10, "AKST": -9, "AKDT": -8, "PDT": -7, "MDT": -6, "NDT": -2.5,
}  # fmt: skip
"""Hours east of UTC of abbreviations that mean one thing."""

OPTION: Final = "--timezone"

_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?\s*([+\-−])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)  # noqa: RUF001
_EAST_MAX_S: Final = 14 * 3600
_WEST_MAX_S: Final = 12 * 3600
_LAST_YEAR: Final = 2200


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that a log tells: UTC, or local time (as if it were UTC) in a ``zone`` that is not known for sure."""

    ns: int
    zone: str | None = None

    def shifted(self, by_ns: int) -> "Moment":
        """So much later."""
        return Moment(self.ns + by_ns, self.zone)


def moment(local: datetime, zone: str) -> Moment | None:
    """What a log's local time means, whose zone it calls ``zone``; None for times that no log has."""
    if not 1970 < local.year < _LAST_YEAR:
        return None
    as_utc_ns = int(local.replace(tzinfo=UTC).timestamp()) * SECOND_NS
    east = seconds_east(zone, local)
    return Moment(as_utc_ns, zone) if east is None else Moment(as_utc_ns - east * SECOND_NS)


def seconds_east(zone: str, local: datetime) -> int | None:
    """Seconds that ``zone`` is ahead of UTC at that local time; None where that is not certain.

    Takes numeric offsets (``+0530``, ``-05``, ``UTC+5:30``), abbreviations that mean one thing, and names of the IANA
    database; not the hour that clocks go through twice as daylight saving ends, nor the one that they leave out.
    """
    word = zone.strip()
    if found := _OFFSET.fullmatch(word):
        seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60
        if found[1] == "+":
            return seconds if seconds <= _EAST_MAX_S else None
        return -seconds if seconds <= _WEST_MAX_S else None
    if (hours := ABBREVIATIONS.get(word.upper())) is not None:
        return round(hours * 3600)
    name = _place(word) if "/" in word else None
    return _of_iana(ZoneInfo(name), local) if name else None


def check_timezone(word: str) -> None:
    """Raise `IotraceError` unless ``word`` is something that the user can mean by a time zone."""
    if seconds_east(word, datetime(2026, 1, 1)) is None and _place(word) is None:  # noqa: DTZ001
        raise IotraceError(
            f"{OPTION} {word} is not a time zone with one certain meaning",
            hint="name a place as the IANA time zone database does, such as America/Chicago or Asia/Shanghai, or an "
            "offset from UTC such as +0530",
        )


def settled_ns(local_ns: int, timezone: str) -> int | None:
    """UTC of a local time in the time zone that the user named; None in an hour that clocks go through twice."""
    local = datetime(1970, 1, 1) + timedelta(microseconds=local_ns // 1000)  # noqa: DTZ001
    east = seconds_east(timezone, local)
    if east is None and (name := _place(timezone)):
        east = _of_iana(ZoneInfo(name), local)
    return None if east is None else local_ns - east * SECOND_NS


def either_ns(local_ns: int, timezone: str) -> tuple[int, int] | None:
    """Both times in UTC, the earlier first, that a local time may be in an hour that clocks go through twice."""
    name = _place(timezone)
    if name is None:
        return None
    local = datetime(1970, 1, 1) + timedelta(microseconds=local_ns // 1000)  # noqa: DTZ001
    first, second = (local.replace(tzinfo=ZoneInfo(name), fold=fold).utcoffset() for fold in (0, 1))
    if first is None or second is None or first <= second:
        return None  # the same, or an hour that clocks leave out
    return local_ns - round(first.total_seconds()) * SECOND_NS, local_ns - round(
        second.total_seconds()
    ) * SECOND_NS


@cache
def _place(word: str) -> str | None:
    """The name of a place in the database, whatever its case; not its names that are abbreviations, such as EST."""
    names = (name for name in available_timezones() if "/" in name or not name.isupper())
    return next((name for name in names if name.casefold() == word.strip().casefold()), None)


def _of_iana(zone: ZoneInfo, local: datetime) -> int | None:
    both = {local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
    if len(both) > 1:
        return None
    (offset,) = both
    return None if offset is None else round(offset.total_seconds())
