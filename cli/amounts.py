"""Sizes, times and windows as users write them: 20G, 30s, 02:10..02:25."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from iotrace.analyze.describe.busiest import busiest_window_ns
from iotrace.analyze.units import format_duration_ns
from iotrace.schemas import IotraceError, Recording

from . import console

_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BYTES_MAX: Final = 1 << 60
_DIGITS_MAX: Final = 20
_SECONDS_MAX: Final = 366 * 86_400
_TIMES: Final = {"s": 1, "m": 60, "h": 3600}
_CLOCK: Final = re.compile(
    r"(?:(\d{4})-(\d{2})-(\d{2})[T ])?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?Z?"
)
_NOT_SAID_NS: Final = 1_000_000_000
"""Users give whole seconds or minutes: so much beyond the end is not worth a word."""
_SINCE_CLOCK: Final = re.compile(r"\+(\d{1,6}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?")
"""As tables show the time since the start."""
_SINCE: Final = re.compile(r"\+?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,8})(?:\.(\d{1,9}))?s)?")


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


def parse_window(text: str, recording: Recording) -> tuple[int, int]:
    """Start and end in nanoseconds on the recording's clock.

    Either side is a time of day in UTC, with a date where the recording is longer than a day; or the time since the
    recording's start (``90s``, ``+0:01:30``). A side left out, or beyond the recording, is the recording's own start or
    end: rates over time that was not recorded would come out too low. Raises `IotraceError` naming ``text``.
    """
    manifest = recording.manifest
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not dots:
        raise IotraceError(f"--window '{text}' is not FROM..TO", hint=_hint(recording))
    start_ns = (
        _instant(first, text, recording, manifest.window_start_ns) if first else manifest.window_start_ns
    )
    end_ns = _instant(last, text, recording, start_ns + 1) if last else manifest.window_end_ns + 1
    if start_ns >= end_ns:
        raise IotraceError(f"--window '{text}' ends before it starts", hint=_hint(recording))
    if start_ns > manifest.window_end_ns or end_ns <= manifest.window_start_ns:
        raise IotraceError(f"--window '{text}' lies outside the recording", hint=_hint(recording))
    first_ns, last_ns = max(start_ns, manifest.window_start_ns), min(end_ns, manifest.window_end_ns + 1)
    if start_ns < first_ns or end_ns > last_ns + _NOT_SAID_NS:
        recorded = (
            f"{_span(recording)}, so of --window '{text}' {format_duration_ns(last_ns - first_ns)} are taken"
        )
        console.warn(f"the recording runs from {recorded}")
    return first_ns, last_ns


def parse_busiest(text: str, recording: Recording, *, layer: str) -> tuple[int, int] | None:
    """The busiest stretch of the length ``text``; None for the whole of a recording that is no longer than that.

    Raises `IotraceError` naming ``text``.
    """
    seconds = parse_seconds(text)
    if seconds * 10**9 >= recording.manifest.duration_ns:
        whole = format_duration_ns(recording.manifest.duration_ns)
        console.warn(f"the recording lasts {whole}, so --busiest '{text}' takes all of it")
        return None
    return busiest_window_ns(recording, seconds, layer=layer)


def _instant(text: str, whole: str, recording: Recording, not_before_ns: int) -> int:
    since = _SINCE_CLOCK.fullmatch(text) or _SINCE.fullmatch(text)
    if since and any(since.groups()):
        hours, minutes, seconds = (int(since[group] or 0) for group in (1, 2, 3))
        return ((hours * 60 + minutes) * 60 + seconds) * 10**9 + _fraction_ns(since[4])
    clock = _CLOCK.fullmatch(text)
    if not clock:
        raise IotraceError(f"'{text}' in --window '{whole}' is not a time", hint=_hint(recording))
    zero_ns = recording.manifest.clock.start_utc_ns
    earliest = _utc(zero_ns + not_before_ns)
    try:
        day = (
            datetime(int(clock[1]), int(clock[2]), int(clock[3]), tzinfo=UTC)
            if clock[1]
            else earliest.replace(hour=0, minute=0, second=0, microsecond=0)
        )
        at = day.replace(hour=int(clock[4]), minute=int(clock[5]), second=int(clock[6] or 0))
    except ValueError as problem:
        raise IotraceError(
            f"'{text}' in --window '{whole}' is not a time", hint=_hint(recording)
        ) from problem
    if not clock[1] and at < earliest.replace(second=0, microsecond=0):
        try:
            at += timedelta(days=1)
        except OverflowError as problem:
            raise IotraceError(
                f"'{text}' in --window '{whole}' is not a time", hint=_hint(recording)
            ) from problem
    since_epoch = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 10**9 + _fraction_ns(clock[7]) - zero_ns


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "").ljust(9, "0")) if digits else 0


def _utc(at_ns: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_ns // 1000)


def _hint(recording: Recording) -> str:
    first, last = _ends(recording)
    return (
        f"the recording runs from {_span(recording)}; a window is such as "
        f"{first:%H:%M}..{last:%H:%M}, or since its start 90s..15m or +0:01:30..+0:15:00"
    )


def _span(recording: Recording) -> str:
    first, last = _ends(recording)
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"


def _ends(recording: Recording) -> tuple[datetime, datetime]:
    manifest = recording.manifest
    zero_ns = manifest.clock.start_utc_ns
    return _utc(zero_ns + manifest.window_start_ns), _utc(zero_ns + manifest.window_end_ns)
