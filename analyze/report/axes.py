"""Axes of a chart: the range they span, where their ticks stand and what is written there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_TIME_STEPS: Final = (
    ("s", 1, (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30)),
    ("min", 60, (1, 2, 5, 10, 15, 20, 30)),
    ("h", 3600, (0.5, 1, 2, 3, 4, 6, 12)),
    ("days", 86400, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Unit of a time axis, its seconds, and distances between ticks that people count in."""
_TIME_TICKS: Final = 10


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high`` in the data's own unit; ``ticks`` are places and what is written there."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    is_log: bool = False
    has_grid: bool = True

    def position(self, value: float) -> float:
        """Where a value stands: 0 at the low end, 1 at the high end, never outside."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, at = math.log10(low), math.log10(high), math.log10(at)
        return (at - low) / (high - low) if high > low else 0.5


def linear(title: str, high: float, low: float = 0.0, ticks_wanted: int = 6) -> Axis:
    """From ``low`` to a round number not below ``high``."""
    step = _round_step(max(high - low, 1e-9) / ticks_wanted)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    ticks = tuple((number * step, _number(number * step)) for number in range(first, last + 1))
    return Axis(title, first * step, last * step, ticks)


def logarithmic(title: str, low: float, high: float) -> Axis:
    """From below ``low`` to above ``high``, with ticks that read 0.01, 0.1, 1; also 2 and 5 where decades are few."""
    low = max(low, 1e-9) / 1.25
    high = max(high, low) * 1.25
    decades = math.log10(high / low)
    factors = (1, 2, 5) if decades < 2.6 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    places = [factor * float(f"1e{power}") for power in powers for factor in factors]
    ticks = tuple((place, _number(place)) for place in places if low <= place <= high)
    return Axis(title, low, high, ticks, is_log=True)


def elapsed(window_ns: int) -> Axis:
    """Time since the start in seconds, its ticks in seconds, minutes, hours or days."""
    window_s = max(window_ns / 1e9, 1e-6)
    unit, unit_s, step = next(
        (
            (unit, unit_s, step)
            for unit, unit_s, steps in _TIME_STEPS
            for step in steps
            if window_s / (step * unit_s) <= _TIME_TICKS
        ),
        ("days", 86400, _round_step(window_s / 86400 / _TIME_TICKS)),
    )
    if window_s < 0.005:
        unit, unit_s, step = "s", 1, _round_step(window_s / _TIME_TICKS)
    count = int(window_s / (step * unit_s) + 1e-9)
    ticks = tuple((number * step * unit_s, _number(number * step)) for number in range(count + 1))
    return Axis(f"time since the start ({unit})", 0.0, window_s, ticks, has_grid=False)


def categories(title: str, names: Sequence[str]) -> Axis:
    """One place for each name: 0, 1, 2 … in the middle of the room it has."""
    ticks = tuple((float(place), name) for place, name in enumerate(names))
    return Axis(title, -0.5, len(names) - 0.5, ticks, has_grid=False)


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(nice * power for nice in (1, 2, 2.5, 5, 10) if nice * power >= step * (1 - 1e-9))


def _number(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:,.10g}" if abs(value) < 1e4 else f"{value:,.0f}"
