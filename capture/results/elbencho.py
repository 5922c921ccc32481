"""elbencho's CSV results (``--csvfile``): one run for each row that reads or writes.

Columns: docs/csv-docs.md of elbencho. Taken are the figures of all threads (``[last]``), not those until the first was
done. With ``--rwmixpct`` a row of writes tells its reads beside them. The date is when the row was written, in local
time.
"""

import csv
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from iotrace.capture.clocks.zones import Moment
from iotrace.schemas.units import MIB

from .run import MILLISECOND_NS, TOTAL, OpResult, Run, nanoseconds, real, small, whole
from .trace import CutOff, read_text, result_format

TOOL: Final = "elbencho"
_FIRST: Final = ("iso date", "label", "path type")
_OPERATIONS: Final = {"READ": "read", "WRITE": "write", "RWMIX": "write"}


def _recognises(text: str) -> bool:
    header = text.partition("\n")[0].strip().lower().split(",")
    return header[:3] == list(_FIRST) and "operation" in header and "iops [last]" in header


def parse(path: Path, name: str) -> list[Run]:
    """One run for each row of reads or writes."""
    text = read_text(path, name)
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as problem:
        raise CutOff([]) from problem
    runs: list[Run] = []
    is_cut = bool(text) and not text.endswith("\n")
    header: list[str] = []
    for number, cells in enumerate(rows):
        if [cell.strip().lower() for cell in cells[:3]] == list(_FIRST):
            header = [cell.strip() for cell in cells]
        elif len(cells) == len(header) and not (is_cut and number == len(rows) - 1):
            row = dict(zip(header, cells, strict=True))
            if row.get("operation", "").upper() in _OPERATIONS:
                runs.append(_run(row, len(runs) + 1, Path(name).stem))
    if is_cut:
        raise CutOff(runs)
    return runs


def _run(row: Mapping[str, str], number: int, stem: str) -> Run:
    run = Run(row.get("label") or f"{stem} {number}", TOOL, row.get("version") or None)
    hosts, threads = small(row.get("hosts", "")) or 1, small(row.get("threads", ""))
    run.threads = None if threads is None else small(hosts * threads)
    depth = small(row.get("IO depth", "")) or 1
    run.outstanding = None if run.threads is None else small(run.threads * depth)
    run.size_bytes = whole(row.get("block size", ""), (1 << 31) - 1) or None
    run.access = "random" if row.get("random") == "1" else "sequential"
    run.command = (row.get("command") or "")[:2000] or None
    run.duration_ns = nanoseconds(real(row.get("time ms [last]", "")))
    run.end(_moment(row.get("ISO date", "")))
    run.ops = [_op(_OPERATIONS[row["operation"].upper()], row, "")]
    if row.get("rwmix read IOPS [last]"):
        run.ops.append(_op("read", row, "rwmix read "))
    if row.get("operation", "").upper() == "RWMIX":
        run.notes.append("elbencho calls this mixed: its writes and reads are told apart")
    run.notes.append(
        "elbencho's latency is from the submission of an I/O to its completion; it prints no percentiles here"
    )
    return run


def _op(op: str, row: Mapping[str, str], prefix: str) -> OpResult:
    rate, done = real(row.get(f"{prefix}MiB/s [last]", "")), real(row.get(f"{prefix}MiB [last]", ""))
    least, mean, most = (real(row.get(f"{prefix}IO lat us [{word}]", "")) for word in ("min", "avg", "max"))
    return OpResult(
        op,
        iops=real(row.get(f"{prefix}IOPS [last]", "")),
        bytes_per_second=None if rate is None else rate * MIB,
        bytes=None if done is None or done > 1e12 else round(done * MIB),
        latency_clock=TOTAL,
        latency_ns_mean=None if mean is None else mean * 1000,
        latency_ns_min=_nanoseconds(least),
        latency_ns_max=_nanoseconds(most),
    )


def _nanoseconds(microseconds: float | None) -> int | None:
    return None if microseconds is None else nanoseconds(microseconds * 1000 / MILLISECOND_NS)


def _moment(text: str) -> Moment | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if found.tzinfo is not None:
        return Moment(round(found.timestamp() * 1e9), None)
    return Moment(round(found.replace(tzinfo=UTC).timestamp() * 1e9), "the host's own time")


FORMAT: Final = result_format("elbencho", TOOL, _recognises, parse)
