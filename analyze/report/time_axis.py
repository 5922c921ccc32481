"""The time axis of figures: the date in UTC where the recording knows it, else seconds since its start."""

from dataclasses import dataclass
from typing import Any

from iotrace.analyze.units import format_moment


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Places on a figure for times of a recording, whose window begins ``start_ns`` after its clock's zero.

    ``start_utc_ns`` is that zero in UTC. Places are milliseconds since 1970 where it is a date, else seconds since the
    start of the window.
    """

    start_ns: int
    window_ns: int
    start_utc_ns: int | None

    @property
    def has_date(self) -> bool:
        """Whether the sources named a date."""
        return bool(format_moment(self.start_utc_ns))

    def at(self, time_ns: float) -> float:
        """The place of a time of the recording."""
        if self.has_date:
            assert self.start_utc_ns is not None
            whole, rest = divmod(self.start_utc_ns, 1_000_000)
            return float(whole) + (rest + time_ns) / 1e6
        return (time_ns - self.start_ns) / 1e9

    def time_ns(self, place: float) -> float:
        """The time of the recording that a place stands for: `at`, the other way about."""
        if self.has_date:
            assert self.start_utc_ns is not None
            whole, rest = divmod(self.start_utc_ns, 1_000_000)
            return (place - whole) * 1e6 - rest
        return place * 1e9 + self.start_ns

    def length(self, duration_ns: float) -> float:
        """A length of time in the units of the axis."""
        return duration_ns / (1e6 if self.has_date else 1e9)

    def axis(self) -> dict[str, Any]:
        """The horizontal axis as Plotly knows it."""
        whole = [self.at(self.start_ns), self.at(self.start_ns + max(self.window_ns, 1))]
        if self.has_date:
            return {
                "type": "date",
                "range": whole,
                "title": {"text": "time (UTC)"},
                "hoverformat": "%Y-%m-%d %H:%M:%S.%3f UTC",
                "showgrid": False,
            }
        return {
            "range": whole,
            "title": {"text": "seconds since the start"},
            "hoverformat": ",.6~f",
            "showgrid": False,
        }
