"""Histograms of ``biolatency``: bcc's (``usecs : count distribution``) and bpftrace's (``@usecs:``, ``[256, 512)``).

Bins double, so nothing is known within one: of the mean and of each quantile the least and the most that it can be are
given, as counters without a common metric. Times of day (``-T``) name no date.

Sources: tools/biolatency_example.txt of iovisor/bcc and of bpftrace.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from iotrace.capture.counters.names import Meaning
from iotrace.capture.formats.counters_trace import (
    Bin,
    Counters,
    Reading,
    Sample,
    mean_bounds,
    plain,
    quantile_bounds,
)
from iotrace.capture.formats.text_blocks import TextBlocks, head_lines

_HEADING: Final = re.compile(r"\s*(?P<unit>usecs|msecs|nsecs)\s+:\s*count\s+distribution\s*")
_BCC: Final = re.compile(r"\s*(?P<from>\d{1,15})\s+->\s+(?P<to>\d{1,15})\s*:\s*(?P<count>\d{1,15})\s*\|.*")
_MAP: Final = re.compile(r"@(?P<unit>usecs|msecs|nsecs)\w*(?:\[(?P<disk>[^\]]{1,200})\])?:\s*")
_BPFTRACE: Final = re.compile(
    r"\[(?P<from>\d{1,15}(?P<from_unit>[KMG]?)), (?P<to>\d{1,15}(?P<to_unit>[KMG]?))\)\s+(?P<count>\d{1,15})\s*\|.*"
)
_DISK: Final = re.compile(r"(?:disk|flags) = (?P<disk>.{1,200}?)\s*")
_CLOCK: Final = re.compile(r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\s*")
_NS: Final = {"nsecs": 1, "usecs": 1000, "msecs": 1_000_000}
_SHIFTS: Final = {"": 0, "K": 10, "M": 20, "G": 30}
_DAY_S: Final = 86_400
_COUNT = plain("I/Os", "block")
_TIME = plain("ns", "block")


@dataclass(slots=True)
class _Histogram:
    """One histogram, its bins as they come."""

    at_s: int
    interval_s: int
    disk: str | None
    unit_ns: int
    bins: list[Bin] = field(default_factory=list)

    def samples(self) -> Iterator[Sample]:
        total = sum(one.count for one in self.bins)
        for counter, value, sense in self._figures(total) if total else ():
            yield Sample(self.at_s * 10**9, self.interval_s * 10**9, self.disk, counter, value, sense)

    def _figures(self, total: int) -> Iterator[tuple[str, float, Meaning]]:
        yield "I/Os", float(total), _COUNT
        for word, value in zip(("at least", "at most"), mean_bounds(self.bins), strict=True):
            yield f"mean latency, {word}", value * self.unit_ns, _TIME
        for quantile, least, most in quantile_bounds(self.bins):
            yield f"p{round(quantile * 100)} latency, at least", least * self.unit_ns, _TIME
            yield f"p{round(quantile * 100)} latency, at most", most * self.unit_ns, _TIME


def _recognises(head: bytes, _path: Path) -> bool:
    lines = head_lines(head, 60)
    heads = [number for number, line in enumerate(lines) if _HEADING.fullmatch(line) or _MAP.fullmatch(line)]
    return bool(heads) and any(
        _BCC.fullmatch(line) or _BPFTRACE.fullmatch(line) for line in lines[heads[0] :]
    )


def _samples(reading: Reading) -> Iterator[Sample]:
    blocks = TextBlocks(reading.path, reading.name, reading.progress)
    current: _Histogram | None = None
    at_s, last_s, day_s, disk = 1, 0, 0, None
    is_timed = False
    for block in blocks.blocks():
        for line in block.decode().split("\n"):
            if clock := _CLOCK.fullmatch(line):
                of_day = int(clock["hour"]) * 3600 + int(clock["minute"]) * 60 + int(clock["second"])
                last_s, before, disk = (at_s if is_timed else 0), at_s, None
                day_s += _DAY_S if is_timed and of_day + day_s < before - _DAY_S // 2 else 0
                at_s, is_timed = of_day + day_s + 1, True
            elif named := _DISK.fullmatch(line):
                disk = named["disk"].removeprefix("b").strip("'\"") if "'" in named["disk"] else named["disk"]
            elif started := (_HEADING.fullmatch(line) or _MAP.fullmatch(line)):
                yield from current.samples() if current else ()
                at_s += 0 if is_timed or current is None else 1
                own = started.groupdict().get("disk") or disk
                interval_s = max(at_s - last_s, 0) if is_timed and last_s else 0
                current = _Histogram(at_s, interval_s, own, _NS[started["unit"]])
            elif current is not None and (found := (_BCC.fullmatch(line) or _BPFTRACE.fullmatch(line))):
                current.bins.append(_bin(found))
    yield from current.samples() if current else ()
    reading.cut = blocks.cut_tail
    reading.notes.append("the source has no date: its times are put on 1970-01-01" + (
        "" if is_timed else ", one histogram a second, whatever time they are about"))  # fmt: skip


def _bin(found: re.Match[str]) -> Bin:
    parts = found.groupdict()
    least, most = (
        int(parts[name].rstrip("KMG")) << _SHIFTS[parts.get(f"{name}_unit") or ""] for name in ("from", "to")
    )
    # bcc's bins hold their ends too, in whole units: 255 stands for up to 256.
    return Bin(least, most + ("from_unit" not in parts), int(parts["count"]))


FORMAT: Final = Counters(
    "biolatency",
    "biolatency",
    "biolatency, seconds",
    None,
    _samples,
    ("latencies are known by bins that double: figures give the least and the most that they can be",),
    "let biolatency run until I/Os were traced, and end it with Ctrl-C",
    system="Linux",
).format(_recognises)
