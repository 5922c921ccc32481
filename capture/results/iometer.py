"""Iometer's result CSV (``results.csv``), 2003 to 1.1: one run for each access specification and load.

Facts: Iometer's ManagerList.cpp. The row ``ALL`` is the run; its queue depth is that of each target. Times are local to
the machine that ran the GUI, whose zone is not told, so the runs have no date. Version 1.1 gives counts in 21 bins of
latency; each bin is told by its upper end, the last by the greatest latency.
"""

import csv
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
    added,
    real,
    small,
    whole,
)
from .trace import CutOff, lines_of, read_text, result_format

TOOL: Final = "iometer"
_HEADER: Final = "'Target Type,Target Name,Access Specification Name"
_SPEC: Final = "'Access specification name,default assignment"
_BIN: Final = re.compile(r"\s*(?:[\d.]+ to ([\d.]+)|(>= 10)) (uS|mS|s|S)\s*")
_BIN_NS: Final = {"uS": 1000, "mS": MILLISECOND_NS, "s": SECOND_NS, "S": SECOND_NS}
_PREFIX: Final = {"read": "Read ", "write": "Write ", TOTAL_OP: ""}

Row = dict[str, str]


def _recognises(text: str) -> bool:
    return "'Test Type,Test Description" in text[:4096] or _HEADER in text


def parse(path: Path, name: str) -> list[Run]:
    """One run for each results section."""
    lines = lines_of(read_text(path, name))
    runs = list(_runs(lines, Path(name).stem))
    if len(runs) > 1:
        for run in runs:
            run.test = f"{run.test}, {run.outstanding} outstanding" if run.outstanding else run.test
    # A section that is whole ends with its time stamp.
    if not runs or _is_cut(lines):
        raise CutOff(runs)
    return runs


def _is_cut(lines: list[str]) -> bool:
    last = max((place for place, line in enumerate(lines) if line.startswith(_HEADER)), default=0)
    return not any(line.startswith("'Time Stamp") for line in lines[last:])


def _runs(lines: list[str], stem: str) -> Iterator[Run]:
    version: str | None = None
    specs: dict[str, list[list[str]]] = {}
    for place, line in enumerate(lines):
        following = lines[place + 1].strip() if place + 1 < len(lines) else ""
        if line.startswith("'Version"):
            version = following[:40] or None
        elif line.startswith(_SPEC):
            specs[following.rpartition(",")[0] or following] = list(_lines_of_spec(lines, place + 3))
        elif line.startswith(_HEADER):
            rows = list(_rows(lines, place))
            run = _run(rows, specs, stem)
            if run is not None:
                run.tool_version = version
                yield run


def _lines_of_spec(lines: list[str], start: int) -> Iterator[list[str]]:
    """``size, % of size, % reads, % random, …`` of each line of an access specification."""
    for line in lines[start : start + 200]:
        cells = line.split(",")
        if line.startswith("'") or len(cells) < 4:
            return
        yield [cell.strip() for cell in cells]


def _rows(lines: list[str], place: int) -> Iterator[Row]:
    columns = [column.strip() for column in lines[place].lstrip("'").split(",")]
    for line in lines[place + 1 : place + 100_000]:
        if line.startswith("'") or not line.strip():
            return
        try:
            cells = next(csv.reader([line]))
        except csv.Error:
            return
        # Names may hold commas that Iometer does not quote: the columns after them are counted from the end.
        surplus = len(cells) - len(columns)
        if surplus > 0 and not any(cells[-surplus:]):
            cells = cells[:-surplus]
        elif surplus > 0:
            cells = [cells[0], ",".join(cells[1 : 2 + surplus]), *cells[2 + surplus :]]
        yield dict(zip(columns, cells, strict=False))


def _run(rows: list[Row], specs: dict[str, list[list[str]]], stem: str) -> Run | None:
    everything = next((row for row in rows if row.get("Target Type") == "ALL"), None)
    if everything is None or real(everything.get("IOps")) is None:
        return None
    name = everything.get("Access Specification Name", "").strip()
    disks = [row for row in rows if row.get("Target Type") == "DISK"]
    run = Run(
        name or stem,
        TOOL,
        target=", ".join(dict.fromkeys(row.get("Target Name", "") for row in disks))[:2000] or None,
        threads=small(everything.get("# Workers")),
        command=name or None,
    )
    run.ops = [one for op in _PREFIX if (one := _op(op, everything)) is not None]
    total = run.ops[-1]
    if total.ios and total.iops:
        # Nothing tells how long it ran; the total and its rate do.
        run.duration_ns = round(total.ios / total.iops * SECOND_NS)
    run.outstanding = _outstanding(everything, disks)
    _pattern(run, specs.get(name, []))
    run.figures += [
        Figure("Processor", column.lstrip("% "), value, "%")
        for column in ("% CPU Utilization", "% User Time", "% Privileged Time")
        if (value := real(everything.get(column))) is not None
    ]
    _take_bins(total, everything)
    return run


def _op(op: str, row: Row) -> OpResult | None:
    prefix = _PREFIX[op]
    one = OpResult(op, iops=real(row.get(f"{prefix}IOps")))
    binary, decimal = real(row.get(f"{prefix}MiBps (Binary)")), real(row.get(f"{prefix}MBps (Decimal)"))
    # Versions up to 2008 have one column, of 2^20 bytes; 1.1.0's first builds call them MBps (Binary).
    binary = (
        binary
        if binary is not None
        else real(row.get(f"{prefix}MBps (Binary)")) or real(row.get(f"{prefix}MBps"))
    )
    if decimal is not None:
        one.bytes_per_second = decimal * 1e6
    elif binary is not None:
        one.bytes_per_second = binary * (1 << 20)
    if op == TOTAL_OP:
        one.ios = added(whole(row.get(column)) for column in ("Read I/Os", "Write I/Os"))
        one.bytes = added(whole(row.get(column)) for column in ("Bytes Read", "Bytes Written"))
        one.errors = whole(row.get("Errors"))
    else:
        one.ios = whole(row.get(f"{prefix}I/Os"))
        one.bytes = whole(row.get("Bytes Read" if op == "read" else "Bytes Written"))
        one.errors = whole(row.get(f"{prefix}Errors"))
    mean, most = (
        real(row.get(f"Average {prefix}Response Time")),
        real(row.get(f"Maximum {prefix}Response Time")),
    )
    if one.ios and mean is not None and mean < 1e9:
        one.latency_clock = SERVICE
        one.latency_ns_mean = mean * MILLISECOND_NS
        one.latency_ns_max = None if most is None or most > 1e9 else round(most * MILLISECOND_NS)
    return one


def _outstanding(everything: Row, disks: list[Row]) -> int | None:
    depths = [small(row.get("Queue Depth")) for row in disks]
    if disks and (sum_of := added(depths)) is not None:
        return small(sum_of)
    depth, targets = small(everything.get("Queue Depth")), small(everything.get("# Disks"))
    return None if depth is None or targets is None else small(depth * targets)


def _pattern(run: Run, spec: list[list[str]]) -> None:
    sizes = {whole(line[0]) for line in spec}
    run.size_bytes = sizes.pop() if len(sizes) == 1 else None
    random = {line[3] for line in spec}
    if random:
        run.access = (
            {"100": "random", "0": "sequential"}.get(random.pop(), "mixed") if len(random) == 1 else "mixed"
        )


def _take_bins(one: OpResult, row: Row) -> None:
    for column, cell in row.items():
        if (found := _BIN.fullmatch(column)) and (ios := whole(cell)):
            upper = real(found[1]) if found[1] else None
            latency_ns = one.latency_ns_max if upper is None else round(upper * _BIN_NS[found[3]])
            if latency_ns is not None:
                one.histogram.append((latency_ns, ios))


FORMAT: Final = result_format("iometer", TOOL, _recognises, parse)
