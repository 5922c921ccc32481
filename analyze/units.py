"""How figures look to people: three significant digits, units that fit, and a dash where there is no figure."""

import math
from datetime import UTC, datetime
from typing import Final

from iotrace.schemas import text

DASH: Final = text.DASH
format_share = text.format_share

_FIRST_DATE_NS: Final = 400 * 86_400 * 10**9
"""Recordings that name no date begin at 1970-01-01."""
_RATIO_TOLD_MAX: Final = 1_000_000
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_duration_ns(duration_ns: float | None) -> str:
    """A latency or gap as people say it: ``850 ns``, ``12.3 µs``, ``0.31 ms``, ``1.20 s``, ``4 min 05 s``.

    From 0.1 ms on everything is in ms, as storage latency usually is, up to one second.
    """
    if duration_ns is None or not math.isfinite(duration_ns):
        return DASH
    if duration_ns < 0:
        return f"-{format_duration_ns(-duration_ns)}"
    if duration_ns < 999.5:
        return f"{duration_ns:.0f} ns"
    if duration_ns < 1e5:
        return f"{_three_digits(duration_ns / 1e3)} µs"
    if duration_ns < 1e9:
        return f"{_two_decimals(duration_ns / 1e6)} ms"
    seconds = duration_ns / 1e9
    if seconds < 119.5:
        return f"{_three_digits(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def is_dated(utc_ns: int) -> bool:
    """Whether a time since 1970 is a date: recordings whose sources name none begin at 0."""
    return utc_ns >= _FIRST_DATE_NS


def format_moment(utc_ns: int | None) -> str:
    """Date and time: ``2026-01-03 02:14:05 UTC``; empty where the sources named no date."""
    if utc_ns is None or not is_dated(utc_ns):
        return ""
    try:
        return datetime.fromtimestamp(utc_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def format_bytes(size_bytes: float | None) -> str:
    """Bytes in binary units: ``512 B``, ``8.0 KiB``, ``1.4 GiB``."""
    if size_bytes is None:
        return DASH
    value, step = float(size_bytes), 0
    while abs(value) >= 1023.95 and step < len(_BINARY) - 1:
        value /= 1024
        step += 1
    if step == 0:
        return f"{value:.0f} B"
    return f"{value:.1f} {_BINARY[step]}" if abs(value) < 99.95 else f"{value:.0f} {_BINARY[step]}"


def format_count(count: float | None) -> str:
    """A count with thousands separated: ``1,234,567``."""
    return DASH if count is None else f"{count:,.0f}"


def format_figure(value: float) -> str:
    """A plain number of three significant digits, large ones in full: ``0.413``, ``20.7``, ``4,660``."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def format_rate(per_second: float | None, unit: str = "") -> str:
    """Events or bytes per second: ``1,250/s``, ``3.2/s``; with unit ``B``: ``105 MB/s``.

    Throughput is in MB/s, of a million bytes, as data sheets and clouds state it; what is small in kB/s.
    """
    if per_second is None:
        return DASH
    if unit == "B":
        is_small = 0 < abs(per_second) < 99_950
        return f"{format_figure(per_second / (1e3 if is_small else 1e6))} {'kB' if is_small else 'MB'}/s"
    number = f"{per_second:,.0f}" if abs(per_second) >= 99.95 else _three_digits(per_second)
    return f"{number}{' ' + unit if unit else ''}/s"


def format_quantity(value: float, unit: str | None) -> str:
    """A counter's value in the unit that it was recorded in: ``0.60 ms``, ``399 MB/s``, ``49.5/s``, ``2.5 I/Os``."""
    match unit:
        case "ns":
            return format_duration_ns(value)
        case "bytes":
            return format_bytes(value)
        case "bytes/s":
            return format_rate(value, "B")
        case "1/s":
            return format_rate(value)
        case "percent":
            return f"{format_figure(value)} %"
        case _:
            return f"{format_figure(value)} {unit or ''}".rstrip()


def interval_text(value: str, low: str, high: str) -> str:
    """`` [low, high]``, to follow a figure; empty where both ends print like the ``value`` itself, without its unit."""
    return "" if value == low == high else f" [{low}, {high}]"


def format_ratio_with_interval(ratio: float | None, interval: tuple[float, float] | None = None) -> str:
    """A ratio and its 95 % interval: ``1.52x [1.41, 1.66]``; the interval is left out when there is none.

    It is never left out for being narrow: where ratios are told, one without an interval is one that has none.
    Two decimals, but ``0.0012x`` where these would say nothing, and ``1,234x`` where they would say too much. From a
    million on the other figure is next to nothing, and neither digits nor interval mean anything.
    """
    if ratio is None:
        return DASH
    if ratio >= _RATIO_TOLD_MAX:
        return f"over {_RATIO_TOLD_MAX:,}x"
    if interval is None:
        return f"{_times(ratio)}x"
    return f"{_times(ratio)}x [{_times(interval[0])}, {_times(interval[1])}]"


def _times(ratio: float) -> str:
    if 0 < ratio < 0.095:
        return f"{ratio:.2g}"
    if ratio < 99.995:
        return f"{ratio:.2f}"
    return f"{ratio:,.0f}" if ratio < 999_999.5 else f"{ratio:.1e}"


def format_duration_with_interval(
    duration_ns: float | None, interval_ns: tuple[float, float] | None = None
) -> str:
    """A duration and its 95 % interval in one unit: ``29.4 µs [-4.12, 90.5]``; no brackets around nothing."""
    if duration_ns is None or interval_ns is None:
        return format_duration_ns(duration_ns)
    largest = max(abs(value) for value in (duration_ns, *interval_ns))
    scale, unit = next(
        ((scale, unit) for scale, unit in ((1.0, "ns"), (1e3, "µs"), (1e6, "ms")) if largest < scale * 1e3),
        (1e9, "s"),
    )
    value, low, high = (_three_digits_signed(one / scale) for one in (duration_ns, *interval_ns))
    return f"{value} {unit}{interval_text(value, low, high)}"


def format_share_with_interval(share: float | None, interval: tuple[float, float] | None = None) -> str:
    """A share of 1 and its 95 % interval in percent: ``93 % [90, 102]``."""
    if share is None:
        return DASH
    if interval is None:
        return format_share(share, 0)
    value = format_share(share, 0)
    return value + interval_text(value.removesuffix(" %"), *(f"{100 * end:.0f}" for end in interval))


def _three_digits_signed(value: float) -> str:
    return f"-{_three_digits(-value)}" if value < 0 else _three_digits(value)


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _two_decimals(value: float) -> str:
    return f"{value:.2f}" if value < 99.995 else f"{value:.0f}"
