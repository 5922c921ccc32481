"""Figures in tables: each keeps its value and its interval, and is printed in the unit that people use for it.

None, as a value, prints as a dash. Intervals are 95 %, in the unit of the value.
"""

import math
from dataclasses import dataclass

from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_with_interval,
    format_moment,
    format_rate,
    format_ratio_with_interval,
    format_share,
    format_share_with_interval,
)

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Duration:
    """A latency or a length of time, in nanoseconds."""

    ns: float | None
    interval_ns: Interval | None = None

    def __str__(self) -> str:
        return format_duration_with_interval(self.ns, self.interval_ns)


@dataclass(frozen=True, slots=True)
class Offset:
    """Time since the recording's start, in nanoseconds: ``+0:02:35``, as --window takes it."""

    ns: int

    def __str__(self) -> str:
        minutes, seconds = divmod(abs(self.ns) // 1_000_000_000, 60)
        return f"{'-' if self.ns < 0 else '+'}{minutes // 60}:{minutes % 60:02}:{seconds:02}"


@dataclass(frozen=True, slots=True)
class Instant:
    """Date and time, in nanoseconds since 1970; a dash where the sources named no date."""

    utc_ns: int

    def __str__(self) -> str:
        return format_moment(self.utc_ns) or DASH


@dataclass(frozen=True, slots=True)
class Rate:
    """Events, or with ``unit`` ``B`` bytes, a second."""

    per_second: float | None
    unit: str = ""

    def __str__(self) -> str:
        return format_rate(self.per_second, self.unit)


@dataclass(frozen=True, slots=True)
class Bytes:
    """An amount of bytes, or an offset of so many."""

    size: float | None

    def __str__(self) -> str:
        return format_bytes(self.size)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of 1."""

    of_1: float | None
    interval: Interval | None = None

    def __str__(self) -> str:
        if self.interval is None:
            return format_share(self.of_1)
        return format_share_with_interval(self.of_1, self.interval)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times one figure is another."""

    times: float | None
    interval: Interval | None = None

    def __str__(self) -> str:
        return format_ratio_with_interval(self.times, self.interval)


@dataclass(frozen=True, slots=True)
class Count:
    """How many."""

    number: float | None

    def __str__(self) -> str:
        return format_count(self.number)


@dataclass(frozen=True, slots=True)
class Number:
    """A figure whose unit stands at the head of its column."""

    value: float | None
    decimals: int = 0

    def __str__(self) -> str:
        if self.value is None or not math.isfinite(self.value):
            return DASH
        return f"{self.value:,.{self.decimals}f}"


Cell = str | Duration | Offset | Instant | Rate | Bytes | Share | Ratio | Count | Number
