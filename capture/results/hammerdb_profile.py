"""HammerDB's time profiles: how long each kind of transaction took.

xtprof (4.1 and later) reports all virtual users in milliseconds, in a file of its own. Its deviation is in clock clicks
up to 5.0, whose length is not told: it is taken only where *ms* follows. It times from the first transaction on, so
ramp-up is in it. etprof (up to 4.0) follows one virtual user, in microseconds, with percentiles for 10 s at a time,
which cannot be made into those of a run.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from .run import SECOND_NS, TRANSACTION, Figure, OpResult, nanoseconds, real, small, whole

_SUMMARY: Final = re.compile(
    r">>>>> (?:SUMMARY OF (\d+) ACTIVE VIRTUAL USERS(?: : MEDIAN ELAPSED TIME : (\d+)ms)?"
    r"|COMBINED METRICS ACROSS ALL USERS)"
)
_REPORT_AT: Final = re.compile(r"Hammerdb Time Profile Report @ (.{1,60})$")
_USER: Final = re.compile(r">>>>> VIRTUAL USER (\d+) :")
_PROC: Final = re.compile(r">>>>> PROC: (\w{1,64})")
_CELL: Final = re.compile(r"(CALLS|MIN|AVG|MAX|TOTAL|P\d\d|SD|RATIO): +(\d+(?:\.\d+)?)(ms|%)?")
_INTERVAL: Final = re.compile(r"\|PERCENTILES (\S+ \S+) to (\S+ \S+)")
_ETPROF: Final = re.compile(
    r"\|\s*(\w{1,64})\s*\|MIN-([\d.]+)\|P50%-([\d.]+)\|P95%-([\d.]+)\|P99%-([\d.]+)\|MAX-([\d.]+)\|SAMPLES-(\d+)"
)
_ETPROF_SUM: Final = re.compile(r"\|\s*(\w{1,64})\s*\|\s*\d+\s*\|\s*[\d.]+%\|\s*(\d+)\s*\|\s*(\d+)\s*\|")
_TRANSACTIONS: Final = frozenset({"NEWORD", "PAYMENT", "DELIVERY", "SLEV", "OSTAT"})


@dataclass(slots=True)
class Summary:
    """What a time profile says of all virtual users together. ``written`` is when, in HammerDB's words."""

    users: int | None
    elapsed_ms: int | None
    written: str | None = None
    ops: list[OpResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def summaries(lines: Sequence[str]) -> Iterator[Summary]:
    """Each summary in order."""
    users: set[str] = set()
    written: str | None = None
    for place, line in enumerate(lines):
        if found := _REPORT_AT.search(line):
            written = found[1]
        elif found := _USER.match(line):
            users.add(found[1])
        elif found := _SUMMARY.match(line):
            count = small(found[1]) if found[1] else len(users) or None
            summary = Summary(count, whole(found[2], 1 << 40) if found[2] else None, written)
            _take(summary, lines, place + 1)
            users = set()
            if summary.ops:
                yield summary


def _take(summary: Summary, lines: Sequence[str], start: int) -> None:
    cells: dict[str, tuple[str, str | None]] = {}
    name: str | None = None
    for line in [*lines[start : start + 400], "+-+"]:
        found = _PROC.match(line)
        if found or line.startswith(("+-+", ">>>>>")):
            if name and cells:
                _add(summary, name, cells)
            if not found:
                break
            name, cells = found[1], {}
        else:
            cells |= {key: (value, unit) for key, value, unit in _CELL.findall(line)}
    summary.notes.append("HammerDB's time profile counts the ramp-up too")


def _add(summary: Summary, name: str, cells: dict[str, tuple[str, str | None]]) -> None:
    def latency_ns(key: str) -> int | None:
        value, unit = cells.get(key, ("", None))
        return nanoseconds(real(value)) if unit == "ms" else None

    mean, stddev = latency_ns("AVG"), latency_ns("SD")
    quantiles = [
        (int(key[1:]) / 100, value)
        for key in cells
        if key[0] == "P" and (value := latency_ns(key)) is not None
    ]
    if mean is None and not quantiles:
        return
    if "P75" in cells and not any("sample" in note for note in summary.notes):
        summary.notes.append("its percentiles are of a random sample of at most xt_reservoir transactions")
    summary.ops.append(
        OpResult(
            name.upper(),
            transactions=whole(cells.get("CALLS", ("", None))[0]),
            latency_clock=TRANSACTION,
            latency_ns_mean=None if mean is None else float(mean),
            latency_ns_min=latency_ns("MIN"),
            latency_ns_max=latency_ns("MAX"),
            latency_ns_stddev=None if stddev is None else float(stddev),
            quantiles=quantiles,
        )
    )


def interval_figures(lines: Sequence[str]) -> list[Figure]:
    """Percentiles of the old profiler for each of its intervals. They lie from the first interval on."""
    figures: list[Figure] = []
    first: datetime | None = None
    at_ns = interval_ns = 0
    for line in lines:
        if found := _INTERVAL.search(line):
            began, ended = _local(found[1]), _local(found[2])
            if began is None or ended is None or ended <= began:
                continue
            first = first or began
            at_ns = int((ended - first).total_seconds()) * SECOND_NS
            interval_ns = int((ended - began).total_seconds()) * SECOND_NS
        elif (
            (found := _ETPROF.search(line))
            and found[1].upper() in _TRANSACTIONS
            and interval_ns > 0
            and at_ns >= 0
        ):
            for counter, value in zip(("min", "p50", "p95", "p99", "max"), found.groups()[1:6], strict=True):
                if (latency_ns := _microseconds(value)) is not None:
                    figures.append(
                        Figure(
                            "HammerDB",
                            f"{counter} latency",
                            latency_ns,
                            "ns",
                            found[1].upper(),
                            at_ns,
                            interval_ns,
                        )
                    )
    return figures


def profile_ops(lines: Sequence[str]) -> list[OpResult]:
    """Counts and means of the old profiler's last table, with the extremes of all its intervals."""
    least: dict[str, int] = {}
    greatest: dict[str, int] = {}
    for line in lines:
        if found := _ETPROF.search(line):
            name, low, high = found[1].upper(), _microseconds(found[2]), _microseconds(found[6])
            if low is not None and high is not None:
                least[name] = min(least.get(name, low), low)
                greatest[name] = max(greatest.get(name, high), high)
    ops = []
    for line in lines:
        found = _ETPROF_SUM.search(line)
        if found and (name := found[1].upper()) in _TRANSACTIONS:
            mean = _microseconds(found[3])
            ops.append(
                OpResult(
                    name,
                    transactions=whole(found[2]),
                    latency_clock=TRANSACTION,
                    latency_ns_mean=None if mean is None else float(mean),
                    latency_ns_min=least.get(name),
                    latency_ns_max=greatest.get(name),
                )
            )
    return ops


def _local(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _microseconds(text: str) -> int | None:
    number = real(text)
    return nanoseconds(None if number is None else number / 1000)
