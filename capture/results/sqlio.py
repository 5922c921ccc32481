"""SQLIO's text output: one run for each time it was started, as batch files append them to one log.

Facts: SQLIO's own documentation and published outputs. Latencies are whole milliseconds, cut off; of the histogram it
prints whole per cents, which are kept as counters because counts cannot be had from them. It prints no percentiles,
no counts and no date.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from iotrace.schemas.units import SECOND_NS

from .run import (
    MILLISECOND_NS,
    SERVICE,
    TOTAL_OP,
    Figure,
    OpResult,
    Run,
    real,
    small,
)
from .trace import CutOff, lines_of, read_text, result_format

TOOL: Final = "sqlio"
_BEGIN: Final = re.compile(r"^sqlio v(\S{1,40})\s*$")
_COMMAND: Final = re.compile(r"(?:^|[>\\/])sqlio(?:\.exe)? (-.*)$", re.IGNORECASE)
_WORK: Final = re.compile(r"^\s*(\d+) threads? (reading|writing) for (\d+) secs (?:to|from) files? (.*)$")
_SIZE: Final = re.compile(r"^\s*using (\d+)KB (random|sequential) IOs")
_DEPTH: Final = re.compile(r"^\s*enabling multiple I/Os per thread with (\d+) outstanding")
_METRIC: Final = re.compile(
    r"^\s*(IOs/sec|MBs/sec|Min_Latency\(ms\)|Avg_Latency\(ms\)|Max_Latency\(ms\)):\s*(\S+)\s*$"
)
_BINS: Final = re.compile(r"^ms:((?: +\d+)+) +(\d+)\+\s*$")
_SHARES: Final = re.compile(r"^%:((?: +\d+)+)\s*$")


def _recognises(text: str) -> bool:
    return re.search(r"^sqlio v\S", text, re.MULTILINE) is not None and "thread" in text


def parse(path: Path, name: str) -> list[Run]:
    """One run for each start of SQLIO that came to its metrics."""
    runs: list[Run] = []
    pieces = list(_pieces(lines_of(read_text(path, name))))
    cut = False
    for number, piece in enumerate(pieces):
        run = _run(piece, Path(name).stem if len(pieces) == 1 else f"{Path(name).stem} {number + 1}")
        if run is not None:
            runs.append(run)
        cut |= run is None
    if cut or not runs:
        raise CutOff(runs)
    return runs


def _pieces(lines: list[str]) -> Iterator[list[str]]:
    """Lines of each start, after the command line that a batch file echoes before it."""
    current: list[str] | None = None
    command: str | None = None
    for line in lines:
        if _BEGIN.match(line):
            if current is not None:
                yield current
            current, command = [line] + ([f"command {command}"] if command else []), None
        elif found := _COMMAND.search(line):
            command = found[1]
        elif current is not None:
            current.append(line)
    if current is not None:
        yield current


def _run(lines: list[str], test: str) -> Run | None:
    version = _BEGIN.match(lines[0])
    run = Run(test, TOOL, version[1] if version else None)
    each, op = 1, ""
    for line in lines[1:]:
        if line.startswith("command "):
            run.command = f"sqlio {line.removeprefix('command ')}"[:2000]
        elif found := _WORK.match(line):
            run.threads, op = small(found[1]), "read" if found[2] == "reading" else "write"
            run.duration_ns = (small(found[3]) or 0) * SECOND_NS or None
            run.target = found[4].strip()[:2000]
        elif found := _SIZE.match(line):
            run.size_bytes, run.access = (small(found[1]) or 0) << 10 or None, found[2]
        elif found := _DEPTH.match(line):
            each = small(found[1]) or 1
    metrics = _metrics(lines)
    if "IOs/sec" not in metrics or "MBs/sec" not in metrics or not op:
        return None
    run.outstanding = None if run.threads is None else small(run.threads * each)
    run.ops = [_op(one, metrics, run.size_bytes) for one in (op, TOTAL_OP)]
    run.figures = _histogram(lines)
    if run.ops[0].latency_clock:
        run.notes.append("SQLIO cuts latencies off to whole milliseconds and prints no percentiles")
    else:
        run.notes.append("latency was not measured: run SQLIO with -LS")
    return run


def _metrics(lines: list[str]) -> dict[str, float]:
    found = [match for line in lines if (match := _METRIC.match(line))]
    return {match[1]: value for match in found if (value := real(match[2])) is not None}


def _histogram(lines: list[str]) -> list[Figure]:
    heads = [found for line in lines if (found := _BINS.match(line))]
    rows = [found for line in lines if (found := _SHARES.match(line))]
    if not heads or not rows:
        return []
    bins = [f"{ms} ms" for ms in heads[-1][1].split()] + [f"{heads[-1][2]} ms or more"]
    shares = rows[-1][1].split()
    if len(bins) != len(shares):
        return []
    values = [(label, real(share)) for label, share in zip(bins, shares, strict=True)]
    return [
        Figure("SQLIO", "share of I/Os by latency", value, "%", label)
        for label, value in values
        if value is not None
    ]


def _op(op: str, metrics: dict[str, float], size_bytes: int | None) -> OpResult:
    iops = metrics["IOs/sec"]
    # Its MB are of 2^20 bytes, and rounded: the size times the rate says it more exactly.
    rate = iops * size_bytes if size_bytes else metrics["MBs/sec"] * (1 << 20)
    one = OpResult(op, iops=iops, bytes_per_second=rate)
    least, mean, most = (metrics.get(f"{word}_Latency(ms)") for word in ("Min", "Avg", "Max"))
    if mean is not None and mean < 1e9:
        one.latency_clock = SERVICE
        one.latency_ns_mean = mean * MILLISECOND_NS
        one.latency_ns_min = _whole_ns(least)
        one.latency_ns_max = _whole_ns(most)
    return one


def _whole_ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None or milliseconds > 1e9 else int(milliseconds * MILLISECOND_NS)


FORMAT: Final = result_format("sqlio", TOOL, _recognises, parse)
