"""One run of another tool's test as its output tells it, and the rows of a recording it becomes.

Figures that are not told are None, never 0. `Run.rows` gives rows of the table ``results`` (`iotrace.schemas.tables`),
`Run.counter_rows` those figures that have no column there.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from iotrace.capture.clocks.zones import Moment, settled_ns
from iotrace.schemas import counted
from iotrace.schemas.units import SECOND_NS

SERVICE: Final = "service"
"""The clock of a latency: from issue to completion."""
TOTAL: Final = "total"
"""From before the tool submitted it to completion."""
TRANSACTION: Final = "transaction"

TOTAL_OP: Final = "total"
HAMMERDB: Final = "hammerdb"
"""The tool that writes a run and its time profile into files of their own."""
MILLISECOND_NS: Final = 1_000_000
_REACH_NS: Final = 10 * 366 * 86_400 * SECOND_NS
"""No test runs for ten years: a figure dated further away is misread or damaged."""
_COUNT_MAX: Final = (1 << 63) - 1
_THREADS_MAX: Final = (1 << 31) - 1


@dataclass(slots=True)
class OpResult:
    """What was measured of one op; ``total`` is all of them, other words of transactions are their names."""

    op: str
    size_bytes: int | None = None
    ios: int | None = None
    bytes: int | None = None
    iops: float | None = None
    iops_stddev: float | None = None
    iops_intervals: int | None = None
    bytes_per_second: float | None = None
    transactions: int | None = None
    transactions_per_minute: float | None = None
    new_orders_per_minute: float | None = None
    errors: int | None = None
    latency_clock: str | None = None
    latency_ns_mean: float | None = None
    latency_ns_min: int | None = None
    latency_ns_max: int | None = None
    latency_ns_stddev: float | None = None
    quantiles: list[tuple[float, int]] = field(default_factory=list)
    histogram: list[tuple[int, int]] = field(default_factory=list)
    """Latency in ns and count of I/Os for each of the tool's bins."""

    def row(self) -> dict[str, Any]:
        """Its columns of ``results``."""
        has_latency = self.latency_ns_mean is not None or self.latency_ns_max is not None or self.quantiles
        return {
            "op": self.op,
            "size_bytes": self.size_bytes,
            "ios": self.ios,
            "bytes": self.bytes,
            "iops": self.iops,
            "iops_stddev": self.iops_stddev,
            "iops_intervals": self.iops_intervals,
            "bytes_per_second": self.bytes_per_second,
            "transactions": self.transactions,
            "transactions_per_minute": self.transactions_per_minute,
            "new_orders_per_minute": self.new_orders_per_minute,
            "errors": self.errors,
            "latency_clock": self.latency_clock if has_latency else None,
            "latency_ns_mean": self.latency_ns_mean,
            "latency_ns_min": self.latency_ns_min,
            "latency_ns_max": self.latency_ns_max,
            "latency_ns_stddev": self.latency_ns_stddev,
            "quantiles": [{"quantile": q, "latency_ns": ns} for q, ns in sorted(set(self.quantiles))] or None,
            "histogram": [{"latency_ns": ns, "ios": ios} for ns, ios in sorted(self.histogram)] or None,
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure without a column: a mean over the run, or over an interval of it that ends ``at_ns`` after its start."""

    object: str
    counter: str
    value: float
    unit: str
    instance: str | None = None
    at_ns: int | None = None
    interval_ns: int | None = None
    metric: str | None = None


@dataclass(slots=True)
class Run:
    """One run. ``started_utc_ns`` is the start of the measured time, None where nothing dates it."""

    test: str
    tool: str
    tool_version: str | None = None
    target: str | None = None
    started_utc_ns: int | None = None
    duration_ns: int | None = None
    threads: int | None = None
    outstanding: int | None = None
    virtual_users: int | None = None
    offered_iops: float | None = None
    access: str | None = None
    size_bytes: int | None = None
    command: str | None = None
    ops: list[OpResult] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    logs: set[str] = field(default_factory=set)
    """Names that logs of its single I/Os have in common."""
    ended_utc_ns: int | None = None
    """Where the end is dated and the start is not."""
    reckoned: str = ""
    """How its start was reckoned, where no line of its log tells it: said once it is dated."""
    zone: str | None = None
    """Its log's word for a time zone that is not known for sure: both times are local then, and date nothing yet."""

    def start(self, at: Moment) -> None:
        """Its measured time began then."""
        self.started_utc_ns, self.zone = at.ns, at.zone

    def end(self, at: Moment | None) -> None:
        """Its measured time ended then, if that is known."""
        self.ended_utc_ns, self.zone = (None, None) if at is None else (at.ns, at.zone)

    def settle_zone(self, timezone: str | None) -> None:
        """Take the zone that is not known for the ``timezone`` that the user named, or say that it has to be named."""
        self._settle(timezone)
        if self.reckoned and self.zone is None:
            self.notes.append(self.reckoned)

    def _settle(self, timezone: str | None) -> None:
        if self.zone is None:
            return
        if timezone is None:
            self.notes.append(
                f"it has no date: its log gives local times in '{self.zone}', which may mean several time zones, or "
                "none that is known; say which with --timezone, such as --timezone America/Chicago"
            )
            return
        settled = [
            None if local is None else settled_ns(local, timezone)
            for local in (self.started_utc_ns, self.ended_utc_ns)
        ]
        if settled == [None, None]:
            self.notes.append(
                f"it has no date: clocks in {timezone} went through that hour twice or not at all; name an offset from "
                "UTC, such as --timezone +0200"
            )
            return
        self.started_utc_ns, self.ended_utc_ns = settled
        self.notes.append(f"its log's time zone '{self.zone}' is taken as {timezone}, as --timezone says")
        self.zone = None

    def dated(self) -> int | None:
        """UTC of its start, from its end if need be; None while its time zone is not known."""
        if self.zone is not None:
            return None
        if self.started_utc_ns is not None:
            return self.started_utc_ns
        if self.ended_utc_ns is not None and self.duration_ns is not None:
            return self.ended_utc_ns - self.duration_ns
        return None

    def rows(self, number: int, zero_utc_ns: int) -> list[dict[str, Any]]:
        """Rows of ``results`` in a recording that starts at ``zero_utc_ns``."""
        started = self.dated()
        common = {
            "run": number,
            "test": self.test,
            "tool": self.tool,
            "tool_version": self.tool_version,
            "target": self.target,
            "started_ns": None if started is None else started - zero_utc_ns,
            "duration_ns": self.duration_ns,
            "threads": self.threads,
            "outstanding": self.outstanding,
            "virtual_users": self.virtual_users,
            "offered_iops": self.offered_iops,
            "access": self.access,
            "command": self.command,
        }
        rows = [common | one.row() for one in self.ops]
        for row in rows:
            is_transfer = row["op"] != "flush" and row["transactions_per_minute"] is None
            if row["size_bytes"] is None and is_transfer:
                row["size_bytes"] = self.size_bytes
        return rows

    def counter_rows(self, source: str, zero_utc_ns: int) -> list[dict[str, Any]]:
        """Rows of ``counters``; a figure without a moment stands for the whole run."""
        start_ns = (self.dated() or zero_utc_ns) - zero_utc_ns
        whole_ns = self.duration_ns or 0
        figures = [
            one
            for one in self.figures
            if one.at_ns is None or max(abs(one.at_ns), abs(one.interval_ns or 0)) <= _REACH_NS
        ]
        if len(figures) < len(self.figures):
            self.notes.append(
                f"{counted(len(self.figures) - len(figures), 'figure')} left out, dated years away from the run"
            )
        return [
            {
                "at_ns": start_ns + (whole_ns if one.at_ns is None else one.at_ns),
                "interval_ns": (self.duration_ns if one.at_ns is None else one.interval_ns),
                "source": source,
                "object": one.object,
                "instance": one.instance,
                "counter": one.counter,
                "value": one.value,
                "unit": one.unit,
                "layer": None,
                "metric": one.metric,
            }
            for one in figures
        ]


def attach_profile(run: Run, ops: Sequence[OpResult], notes: Iterable[str]) -> None:
    """Give a run the transactions of its time profile."""
    run.ops = [*ops, *run.ops]
    run.notes += [note for note in notes if note not in run.notes]


def nanoseconds(milliseconds: float | None) -> int | None:
    """Whole nanoseconds of ``milliseconds``; None where there are none or they are impossible."""
    if milliseconds is None or not 0 <= milliseconds < 1e12:
        return None
    return round(milliseconds * MILLISECOND_NS)


def real(value: object) -> float | None:
    """A finite number that is not negative, from text or JSON; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number < 1e300 else None


def whole(value: object, limit: int = _COUNT_MAX) -> int | None:
    """A whole number from 0 to ``limit``, from text or JSON; else None."""
    if isinstance(value, str):
        value = value.strip()
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 19 else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= limit else None


def small(value: object) -> int | None:
    """A whole number that a column of 32 bits takes; else None."""
    return whole(value, _THREADS_MAX)


def added(values: Iterable[int | None], limit: int = _COUNT_MAX) -> int | None:
    """Their sum; None where one is not known, there are none, or it is impossible."""
    known = list(values)
    total = 0
    for value in known:
        if value is None:
            return None
        total += value
    return total if known and total <= limit else None


def merged(parts: Sequence[OpResult], op: str) -> OpResult:
    """Several results added up: counts, rates, least and greatest; means and deviations by their counts.

    Quantiles only of a single part. A sum of which one part is not known is not known. Rates of parts that ran at the
    same time add up.
    """
    if len(parts) == 1:
        return _renamed(parts[0], op)
    busy = [one for one in parts if one.ios is None or one.ios > 0] or list(parts)
    result = OpResult(op) if len(busy) > 1 else _renamed(busy[0], op)
    for name in ("ios", "bytes"):
        setattr(result, name, added(getattr(one, name) for one in busy))
    result.errors = added(value for one in parts if (value := one.errors) is not None)
    for name in ("iops", "bytes_per_second"):
        rates = [getattr(one, name) for one in busy]
        setattr(result, name, None if None in rates else sum(rates))
    if len(busy) > 1:
        _merge_latency(result, busy)
    sizes = {one.size_bytes for one in busy}
    result.size_bytes = sizes.pop() if len(sizes) == 1 else None
    return result


def _merge_latency(result: OpResult, parts: Sequence[OpResult]) -> None:
    clocks = {one.latency_clock for one in parts}
    if len(clocks) > 1:
        return
    result.latency_clock = clocks.pop()
    least = [one.latency_ns_min for one in parts if one.latency_ns_min is not None]
    greatest = [one.latency_ns_max for one in parts if one.latency_ns_max is not None]
    result.latency_ns_min = min(least) if len(least) == len(parts) else None
    result.latency_ns_max = max(greatest) if len(greatest) == len(parts) else None
    weighted = [(one.ios, one.latency_ns_mean, one.latency_ns_stddev) for one in parts]
    known = [(ios, mean, dev) for ios, mean, dev in weighted if ios is not None and mean is not None]
    count = sum(ios for ios, _, _ in known)
    if len(known) < len(parts) or not count:
        return
    mean = sum(ios * value for ios, value, _ in known) / count
    result.latency_ns_mean = mean
    if all(dev is not None for _, _, dev in known):
        spread = sum(ios * ((dev or 0.0) ** 2 + (value - mean) ** 2) for ios, value, dev in known)
        result.latency_ns_stddev = math.sqrt(spread / count)


def _renamed(one: OpResult, op: str) -> OpResult:
    copied = OpResult(op)
    for name in OpResult.__slots__:
        if name != "op":
            setattr(copied, name, getattr(one, name))
    return copied
