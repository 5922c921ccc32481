"""CrystalDiskMark's results as text (File, Save or Copy), versions 3 to 8: one run for each of its tests.

Each figure is the best of several passes, as its own documentation says; MB are of 10^6 bytes. Latency came with
version 7; until 6 sequential tests tell no size. The date is local time.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from iotrace.capture.clocks.zones import Moment

from .run import SERVICE, OpResult, Run, real, small
from .trace import CutOff, lines_of, read_text, result_format

TOOL: Final = "crystaldiskmark"
_BEGIN: Final = re.compile(r"\s*CrystalDiskMark (\d[\w.]*)(?: .{0,60})?\(C\) \d{4}")
_OP: Final = re.compile(r"\s*\[(Read|Write|Mix)\b[^\]]*\]\s*")
_NEW: Final = re.compile(
    r"\s*(?P<access>SEQ|RND)\s+(?P<size>\d{1,6})(?P<unit>KiB|MiB|KB|MB)\s*\(Q=\s*(?P<depth>\d+),\s*T=\s*(?P<threads>\d+)\s*\)"
    r"\s*:(?P<figures>.*)"
)
_OLD: Final = re.compile(
    r"\s*(?P<access>Sequential|Random) (?P<op>Read|Write)(?:\s+(?P<size>\d{1,6})\s*(?P<unit>KiB|KB|MiB|MB))?"
    r"(?:\s*\(Q=\s*(?P<depth>\d+),\s*T=\s*(?P<threads>\d+)\)|\s*\(QD=\s*(?P<old_depth>\d+)\))?\s*:(?P<figures>.*)"
)
_RATE: Final = re.compile(
    r"\s*(\d+(?:\.\d+)?) MB/s(?:\s*\[\s*(\d+(?:\.\d+)?) IOPS\])?(?:\s*<\s*(\d+(?:\.\d+)?) us>)?\s*"
)
_DATE: Final = re.compile(r"\s*Date ?: (\d{4}/\d{1,2}/\d{1,2} \d{1,2}:\d\d(?::\d\d)?)")
_TARGET: Final = re.compile(r"\s*Test ?: .{0,80}?\[(\w:)")
_UNITS: Final = {"KiB": 1 << 10, "KB": 1 << 10, "MiB": 1 << 20, "MB": 1 << 20}
_LOCAL: Final = "the computer's own time"


def _recognises(text: str) -> bool:
    return any(_BEGIN.match(line) for line in text[:4096].splitlines())


def parse(path: Path, name: str) -> list[Run]:
    """One run for each test that has a rate."""
    reading = _Reading()
    for line in lines_of(read_text(path, name)):
        reading.take(line)
    if not reading.runs:
        raise CutOff([])
    return reading.runs


@dataclass(slots=True)
class _Reading:
    """What was read so far; ``own`` are the runs of the result at work."""

    runs: list[Run] = field(default_factory=list)
    own: list[Run] = field(default_factory=list)
    version: str | None = None
    op: str = ""

    def take(self, line: str) -> None:
        """The next line."""
        if begin := _BEGIN.match(line):
            self.version, self.op, self.own = begin[1], "", []
        elif found := _OP.fullmatch(line):
            self.op = found[1].lower()
        elif found := _NEW.fullmatch(line) or _OLD.fullmatch(line):
            rate = _RATE.fullmatch(found["figures"])
            run = _run(found, rate, found.groupdict().get("op") or self.op, self.version) if rate else None
            self.own += [run] if run else []
            self.runs += [run] if run else []
        elif found := _TARGET.match(line):
            for run in self.own:
                run.target = found[1]
        elif found := _DATE.match(line):
            for run in self.own:
                run.end(_moment(found[1]))


def _run(found: re.Match[str], rate: re.Match[str], op: str, version: str | None) -> Run | None:
    op = op.lower()
    if op not in {"read", "write"}:
        return None  # its mixed tests tell no figures of reads and writes apart
    parts = found.groupdict()
    access = "random" if parts["access"] in {"RND", "Random"} else "sequential"
    size = int(parts["size"]) * _UNITS[parts["unit"]] if parts["size"] else None
    depth, threads = (
        small(parts.get("depth") or parts.get("old_depth") or "1") or 1,
        small(parts["threads"] or "1") or 1,
    )
    words = f"{access} {op}" + (f" {parts['size']} {parts['unit']}" if size else "") + f" Q{depth} T{threads}"
    run = Run(
        words,
        TOOL,
        version,
        threads=threads,
        outstanding=small(depth * threads),
        access=access,
        size_bytes=size,
    )
    megabytes, iops, microseconds = (real(word) for word in rate.groups())
    bytes_per_second = None if megabytes is None else megabytes * 1e6
    if iops is None and bytes_per_second is not None and size:
        iops = bytes_per_second / size
    run.ops = [
        OpResult(
            op,
            iops=iops,
            bytes_per_second=bytes_per_second,
            latency_clock=SERVICE,
            latency_ns_mean=None if microseconds is None else microseconds * 1000,
        )
    ]
    run.notes.append("CrystalDiskMark prints the best of several passes, not their mean, and no percentiles")
    return run


def _moment(text: str) -> Moment | None:
    form = "%Y/%m/%d %H:%M:%S" if text.count(":") == 2 else "%Y/%m/%d %H:%M"
    try:
        return Moment(round(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1e9), _LOCAL)
    except ValueError:
        return None


FORMAT: Final = result_format("crystaldiskmark", TOOL, _recognises, parse)
