"""Dates with times of day as tools of Windows and Linux write them, brought to UTC.

Taken are ISO 8601 with and without an offset, ``2026/03/01``, ``2026/3/1``, ``20260301``, ``01.03.2026``, ``3/1/2026``,
with and without AM or PM, ``Mar  1 2026 12:00PM`` as SQL Server converts times, and ``/Date(1772366400000)/`` as
PowerShell 5 writes JSON. Day and month of ``3/1/2026`` are told apart by the file's other times, or not at all: AM and
PM stand beside month-first dates in the United States and beside day-first dates in Australia.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Final

from iotrace.capture.clocks.zones import either_ns, settled_ns
from iotrace.schemas import Clock, IotraceError

_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,:](?P<fraction>\d{1,9}))?)?"
_HALF: Final = r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
_YEAR_FIRST: Final = re.compile(
    r"(?P<year>\d{4})[-/]?(?P<month>\d\d)[-/]?(?P<day>\d\d)(?:[ T]+"
    + _CLOCK
    + _HALF
    + r"\s*(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?)?"
)
_SHORT: Final = re.compile(
    r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})[ T]+" + _CLOCK + _HALF
)
_DOTTED: Final = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})[ ,]+" + _CLOCK)
_SLASHED: Final = re.compile(
    r"(?P<one>\d{1,2})[/-](?P<other>\d{1,2})[/-](?P<year>\d{2,4}),?\s+" + _CLOCK + _HALF
)
_NAMED: Final = re.compile(
    r"(?P<name>[A-Z][a-z]{2})\s+(?P<day>\d{1,2})\s+(?P<year>\d{4})\s+" + _CLOCK + _HALF
)
_POWERSHELL: Final = re.compile(r"\\?/Date\((?P<ms>\d{10,14})\)\\?/")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REMEMBERED_MAX: Final = 1 << 16
UTC_NS_MAX: Final = 9_183_110_400 * 10**9
"""1 January 2261: nanoseconds between two times have to fit into 64 bits."""


class TextTimes:
    """Times of one file. ``local`` is set once one of them named no offset: ``zone`` is needed to date it then."""

    def __init__(self, zone: str | None = None, *, is_utc: bool = False) -> None:
        self.zone, self._is_utc = zone, is_utc
        self.local = False
        self._is_day_first: bool | None = None
        self._known: dict[str, int | None] = {}
        self._twice: dict[str, tuple[int, int]] = {}
        self._either: list[tuple[int, int]] = []

    def learn(self, texts: Iterable[str], name: str, *, from_c_library: bool = False) -> None:
        """Find from some times whether days go before months. Raises `IotraceError` where they leave that open.

        Any day after the 12th tells. So does a log that goes on past midnight: read the wrong way, it leaps a month.
        ``from_c_library``: a program of Linux wrote them in its user's locale. Of glibc's English ones only that of
        the United States writes AM and PM beside slashes and a year of four digits.
        """
        found = [match for text in texts if (match := _SLASHED.fullmatch(text.strip().strip('"')))]
        if not found:
            return
        is_american = from_c_library and any(match["half"] and len(match["year"]) == 4 for match in found)
        if any(int(match["one"]) > 12 for match in found):
            self._is_day_first = True
        elif (
            is_american
            or any(int(match["other"]) > 12 for match in found)
            or all(match["one"] == match["other"] for match in found)
        ):
            self._is_day_first = False
        else:
            self._is_day_first = _day_first_by_steps(found)
        if self._is_day_first is None:
            raise IotraceError(
                f"'{name}' has dates such as {found[0][0]}, which can be read two ways",
                hint="write them year first (2026-03-01 12:00:05), or bring snapshots of a day after the 12th too",
            )

    def utc_ns(self, text: str) -> int | None:
        """Nanoseconds since 1970; None for no time of 1970 to 2260. A local time without a zone counts as UTC."""
        if text not in self._known:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
                self._twice.clear()
            self._either.clear()
            found = self._parsed(text.strip().strip('"').strip())
            self._known[text] = found if found is not None and 0 <= found < UTC_NS_MAX else None
            if self._either:
                self._twice[text] = self._either[0]
        return self._known[text]

    def either_ns(self, text: str) -> tuple[int, int] | None:
        """What a time may be that comes twice as the clocks go back, the earlier first; None for any other."""
        self.utc_ns(text)
        return self._twice.get(text)

    def _parsed(self, text: str) -> int | None:
        if match := _POWERSHELL.fullmatch(text):
            return int(match["ms"]) * 10**6
        for pattern in (_YEAR_FIRST, _SHORT, _DOTTED, _SLASHED, _NAMED):
            if match := pattern.fullmatch(text):
                try:
                    return self._moment(match)
                except (ValueError, OverflowError):
                    return None
        return None

    def _moment(self, match: re.Match[str]) -> int | None:
        parts = match.groupdict()
        if "one" in parts:
            day, month = (
                (parts["one"], parts["other"]) if self._is_day_first else (parts["other"], parts["one"])
            )
        else:
            day = parts["day"]
            month = parts.get("month") or str(_MONTHS.index(parts["name"]) + 1)
        year = int(parts["year"]) + (2000 if len(parts["year"]) == 2 else 0)
        moment = datetime(
            year,
            int(month),
            int(day),
            _hour(parts),
            int(parts["minute"] or 0),
            int(parts["second"] or 0),
            tzinfo=_offset(parts),
        )
        as_utc_ns = (moment - _EPOCH) // timedelta(seconds=1) * 10**9 + int(
            (parts["fraction"] or "0").ljust(9, "0")
        )
        if parts.get("zone") or self._is_utc:
            return as_utc_ns
        self.local = True
        if self.zone is None:
            return as_utc_ns
        settled = settled_ns(as_utc_ns, self.zone)
        if settled is None and (either := either_ns(as_utc_ns, self.zone)):
            self._either.append(either)
        return settled


def _day_first_by_steps(found: Iterable[re.Match[str]]) -> bool | None:
    """Whether times follow one another within half a day only with the day first (True) or the month first (False).

    Read the wrong way, two days of one log are a month apart. None where both ways or neither way are so.
    """

    def longest_step(day: str, month: str) -> timedelta:
        moments = sorted(
            datetime(
                int(match["year"]),
                int(match[month]),
                int(match[day]),
                _hour(match.groupdict()),
                int(match["minute"]),
                tzinfo=UTC,
            )
            for match in found
        )
        return max((later - earlier for earlier, later in pairwise(moments)), default=timedelta())

    try:
        day_first, month_first = longest_step("one", "other"), longest_step("other", "one")
    except ValueError:
        return None
    half_a_day = timedelta(hours=12)
    return None if (day_first < half_a_day) == (month_first < half_a_day) else day_first < half_a_day


def _hour(parts: dict[str, str | None]) -> int:
    hour, half = int(parts["hour"] or 0), parts.get("half")
    return hour if not half else hour % 12 + (12 if half in "Pp" else 0)


def _offset(parts: dict[str, str | None]) -> timezone:
    word = parts.get("zone")
    if not word or word in {"Z", "UTC"}:
        return UTC
    minutes = int(word[1:3]) * 60 + int(word[-2:])
    return timezone(timedelta(minutes=-minutes if word[0] == "-" else minutes))


class MayBeLocal:
    """A trace whose times may be local (`iotrace.capture.formats.format.LocalTimes`): the zone is settled here."""

    clock: Clock
    _name: str
    _is_local: bool = False
    _zone: str | None = None

    def settle_zone(self, timezone: str | None) -> None:
        """See `iotrace.capture.formats.format.LocalTimes`."""
        if not self._is_local:
            return
        if timezone is None:
            raise IotraceError(
                f"'{self._name}' gives local times without their time zone",
                hint="name it with --timezone, such as --timezone Europe/Berlin or --timezone +0200",
            )
        self._zone = timezone
        self.clock = self._first_clock()

    def _zone_notes(self) -> list[str]:
        """What a recording has to say of the zone that its user named."""
        return [] if self._zone is None else [f"its local times are taken as those of {self._zone}"]

    def _first_clock(self) -> Clock:
        """The clock from the first time of the file, taken to be of ``_zone``."""
        raise NotImplementedError
