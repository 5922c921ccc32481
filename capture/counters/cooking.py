"""Raw values of Windows performance counters made into the values that Performance Monitor shows.

Formulas: the "Counter Types" pages of the Performance Counters documentation, one for each PERF_ type of winperf.h.
Two samples in a row give one value; a denominator that did not move gives 0 for a mean per operation, as PDH does; a
numerator or a clock that went backwards gives none. Scale factors of the display are not applied.
"""

from enum import IntEnum
from typing import Final

import numpy as np

from iotrace.schemas.arrays import Floats

from .series import Flags, Integers


class Rule(IntEnum):
    """How a value is made of N (first raw value), D (second: a base or a clock) and F (ticks per second)."""

    NONE = 0
    RAW = 1
    RAW_FRACTION = 2
    ELAPSED = 3
    DELTA = 4
    RATE = 5
    PER_CLOCK = 6
    PERCENT_OF_CLOCK = 7
    PERCENT_OF_CLOCK_INVERSE = 8
    PERCENT_OF_BASE = 9
    AVERAGE_SECONDS = 10
    AVERAGE = 11


class Second(IntEnum):
    """Where a whole-object block keeps a counter's second value."""

    NONE = 0
    BASE = 1
    PERF_CLOCK = 2
    CLOCK_100NS = 3
    OBJECT_CLOCK = 4


RULES: Final[dict[int, tuple[Rule, Second]]] = {
    0x00000000: (Rule.RAW, Second.NONE),  # PERF_COUNTER_RAWCOUNT_HEX
    0x00000100: (Rule.RAW, Second.NONE),  # PERF_COUNTER_LARGE_RAWCOUNT_HEX
    0x00010000: (Rule.RAW, Second.NONE),  # PERF_COUNTER_RAWCOUNT
    0x00010100: (Rule.RAW, Second.NONE),  # PERF_COUNTER_LARGE_RAWCOUNT
    0x20020400: (Rule.RAW_FRACTION, Second.BASE),  # PERF_RAW_FRACTION
    0x20020500: (Rule.RAW_FRACTION, Second.BASE),  # PERF_LARGE_RAW_FRACTION
    0x30240500: (Rule.ELAPSED, Second.OBJECT_CLOCK),  # PERF_ELAPSED_TIME
    0x00400400: (Rule.DELTA, Second.NONE),  # PERF_COUNTER_DELTA
    0x00400500: (Rule.DELTA, Second.NONE),  # PERF_COUNTER_LARGE_DELTA
    0x10410400: (Rule.RATE, Second.PERF_CLOCK),  # PERF_COUNTER_COUNTER
    0x10410500: (Rule.RATE, Second.PERF_CLOCK),  # PERF_COUNTER_BULK_COUNT
    0x00410400: (Rule.RATE, Second.PERF_CLOCK),  # PERF_SAMPLE_COUNTER
    0x00450400: (Rule.PER_CLOCK, Second.PERF_CLOCK),  # PERF_COUNTER_QUEUELEN_TYPE
    0x00450500: (Rule.PER_CLOCK, Second.PERF_CLOCK),  # PERF_COUNTER_LARGE_QUEUELEN_TYPE
    0x00550500: (Rule.PER_CLOCK, Second.CLOCK_100NS),  # PERF_COUNTER_100NS_QUEUELEN_TYPE
    0x00650500: (Rule.PER_CLOCK, Second.OBJECT_CLOCK),  # PERF_COUNTER_OBJ_TIME_QUEUELEN_TYPE
    0x20410500: (Rule.PERCENT_OF_CLOCK, Second.PERF_CLOCK),  # PERF_COUNTER_TIMER
    0x20510500: (Rule.PERCENT_OF_CLOCK, Second.CLOCK_100NS),  # PERF_100NSEC_TIMER
    0x20610500: (Rule.PERCENT_OF_CLOCK, Second.OBJECT_CLOCK),  # PERF_OBJ_TIME_TIMER
    0x21410500: (Rule.PERCENT_OF_CLOCK_INVERSE, Second.PERF_CLOCK),  # PERF_COUNTER_TIMER_INV
    0x21510500: (Rule.PERCENT_OF_CLOCK_INVERSE, Second.CLOCK_100NS),  # PERF_100NSEC_TIMER_INV
    0x20C20400: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_SAMPLE_FRACTION
    0x20470500: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_PRECISION_SYSTEM_TIMER
    0x20570500: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_PRECISION_100NS_TIMER
    0x20670500: (Rule.PERCENT_OF_BASE, Second.BASE),  # PERF_PRECISION_OBJECT_TIMER
    0x30020400: (Rule.AVERAGE_SECONDS, Second.BASE),  # PERF_AVERAGE_TIMER
    0x40020500: (Rule.AVERAGE, Second.BASE),  # PERF_AVERAGE_BULK
}

_INSTANT: Final = (Rule.RAW, Rule.RAW_FRACTION, Rule.ELAPSED)
_NEEDS_HERTZ: Final = (Rule.ELAPSED, Rule.RATE, Rule.AVERAGE_SECONDS)


def is_base(counter_type: int) -> bool:
    """Whether a definition only holds the second value of the one before it (PERF_COUNTER_BASE)."""
    return counter_type & 0x00070C00 == 0x00030400 and counter_type not in RULES


def is_instant(rules: Integers) -> Flags:
    """Which rules give the state at a moment, from one sample alone."""
    return np.isin(rules, [int(rule) for rule in _INSTANT])


def lacks_clock(rules: Integers, hertz: Floats) -> Flags:
    """Where a value takes ticks per second and none are told."""
    return np.isin(rules, [int(rule) for rule in _NEEDS_HERTZ]) & (hertz <= 0)


def cook(
    rules: Integers,
    numerator: Integers,
    second: Integers,
    hertz: Floats,
    before: tuple[Integers, Integers],
    is_next: Flags,
) -> tuple[Floats, Flags]:
    """Values for raw values ``numerator``, ``second`` and those ``before`` them, and where there is one.

    All arrays have one length; ``is_next`` is set where ``before`` comes from the sample just before. ``hertz`` are
    ticks per second of the numerator (mean times) or the clock (rates).
    """
    # Differences wrap as the counters do; as integers they are exact, as doubles they would not be.
    delta_numerator = (numerator - before[0]).astype(np.float64)
    delta_second = (second - before[1]).astype(np.float64)
    n, d = numerator.astype(np.float64), second.astype(np.float64)
    values = np.full(len(rules), np.nan)
    with np.errstate(all="ignore"):
        share = np.where(delta_second == 0, 0.0, delta_numerator / delta_second)
        for rule, result in (
            (Rule.RAW, n),
            (Rule.RAW_FRACTION, np.where(d == 0, 0.0, 100.0 * n / d)),
            (Rule.ELAPSED, (second - numerator).astype(np.float64) / hertz),
            (Rule.DELTA, delta_numerator),
            (Rule.RATE, delta_numerator / (delta_second / hertz)),
            (Rule.PER_CLOCK, delta_numerator / delta_second),
            (Rule.PERCENT_OF_CLOCK, 100.0 * (delta_numerator / delta_second)),
            (Rule.PERCENT_OF_CLOCK_INVERSE, 100.0 * (1.0 - delta_numerator / delta_second)),
            (Rule.PERCENT_OF_BASE, 100.0 * share),
            (Rule.AVERAGE_SECONDS, np.where(delta_second == 0, 0.0, delta_numerator / hertz / delta_second)),
            (Rule.AVERAGE, share),
        ):
            values = np.where(rules == rule, result, values)
    forwards = (delta_numerator >= 0) & ((delta_second >= 0) | (rules == Rule.DELTA))
    valid = np.isfinite(values) & ~lacks_clock(rules, hertz) & (is_instant(rules) | (is_next & forwards))
    return values, valid
