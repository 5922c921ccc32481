"""Sizes and times as users write them: 20G, 30s, 15m."""

import re
from typing import Final

from iotrace.schemas import IotraceError

_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BYTES_MAX: Final = 1 << 60
_DIGITS_MAX: Final = 20
_SECONDS_MAX: Final = 366 * 86_400
_TIMES: Final = {"s": 1, "m": 60, "h": 3600}


def parse_bytes(text: str) -> int:
    """Bytes meant by ``4096``, ``512M``, ``20G``, ``20GiB``. Raises `IotraceError` naming the text."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    known = match is not None and len(match[1]) <= _DIGITS_MAX
    amount = round(float(match[1]) * _SIZES[match[2].upper()]) if match and known else 0
    if not 1 <= amount <= _BYTES_MAX:
        raise IotraceError(
            f"'{text}' is not a size", hint="a size is a number of bytes, or such as 512M or 20G"
        )
    return amount


def parse_seconds(text: str) -> int:
    """Whole seconds meant by ``30s``, ``15m``, ``1h``, ``30``. Raises `IotraceError` naming the text."""
    match = re.fullmatch(r"\s*([0-9]+)\s*([smh]?)\s*", text)
    seconds = int(match[1]) * _TIMES[match[2] or "s"] if match and len(match[1]) < 10 else 0
    if not 1 <= seconds <= _SECONDS_MAX:
        raise IotraceError(f"'{text}' is not a length of time", hint="a length is such as 30s, 15m or 1h")
    return seconds


def parse_ratio(text: str) -> float:
    """The number meant by ``2:1``, ``1.5:1`` or ``2``. Raises `IotraceError` naming the text."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?::\s*1)?\s*", text)
    if not match or len(match[1]) > _DIGITS_MAX:
        raise IotraceError(f"'{text}' is not a ratio", hint="a ratio is such as 2:1 or 1.5:1")
    return float(match[1])


def parse_loop(text: str) -> tuple[int, float | None]:
    """Passes, or seconds, meant by ``3``, ``3x``, ``30m``. Raises `IotraceError` naming the text."""
    match = re.fullmatch(r"\s*([0-9]{1,6})\s*x?\s*", text)
    if match:
        return int(match[1]), None
    try:
        return 1, float(parse_seconds(text))
    except IotraceError:
        raise IotraceError(
            f"--loop '{text}' is neither a number of passes nor a time",
            hint="for example --loop 3 or --loop 30m",
        ) from None
