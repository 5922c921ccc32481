"""fio's JSON output (``--output-format=json`` or ``json+``): one run for each reporting group.

Facts: fio's stat.c. Jobs of one group ran at the same time; a stonewall begins a new group. Before 2.99 latencies were
whole microseconds and ``io_bytes`` was in KiB. Latencies of the rows are ``clat``: from when the I/O was handed to the
engine to when fio saw it complete; ``slat`` (to hand it over) and ``lat`` (both together) are counters. Where the job
asked for percentiles of ``lat`` only, the row has those and its clock is *total*. Options of jobs, which say what the
load was, are those of fio(1).
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iotrace.schemas import IotraceError

from .run import (
    MILLISECOND_NS,
    SERVICE,
    TOTAL,
    TOTAL_OP,
    Figure,
    OpResult,
    Run,
    added,
    merged,
    real,
    small,
    whole,
)
from .trace import CutOff, read_text, result_format

_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b?)(?:/s)?\s*", re.IGNORECASE)
_SHIFT: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_SYNCHRONOUS: Final = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "net", "splice"})
"""Engines that hold one I/O at a time, whatever depth is asked for."""
_SEQUENTIAL: Final = frozenset({"read", "write", "rw", "readwrite", "trim", "trimwrite"})
_SHOWN: Final = (
    "name", "filename", "directory", "ioengine", "rw", "readwrite", "bs", "bssplit", "rwmixread", "rwmixwrite",
    "iodepth", "numjobs", "rate", "rate_iops", "direct", "sync", "fsync", "fdatasync", "size", "runtime",
    "time_based", "ramp_time",
)  # fmt: skip
_TEXT_MAX: Final = 2000
TOOL: Final = "fio"
_START: Final = re.compile(r"^\{", re.MULTILINE)
_VERSION: Final = re.compile(r'"fio version"\s*:')
_OPS: Final = {"read": "read", "write": "write", "trim": "discard", "mixed": TOTAL_OP}
_MICROSECOND_NS: Final = 1000
_FILE_BYTES_MAX: Final = 48 << 20
"""Decoded JSON takes some ten times its size in memory."""
_RATES: Final = {
    **dict.fromkeys(("bw_min", "bw_max", "bw_mean", "bw_dev"), "KiB/s"),
    **dict.fromkeys(("iops_min", "iops_max", "iops_mean"), "1/s"),
}


def number(value: object) -> int | None:
    """A number of fio's, with its letters for powers of 1024; None where it is none."""
    found = _NUMBER.fullmatch(str(value))
    base = real(found[1]) if found else None
    if found is None or base is None or base > 1e15:
        return None
    return int(base * (1 << _SHIFT[found[2].lower()]))


def text(jobs: Sequence[dict[str, Any]]) -> str | None:
    """The options that matter, in fio's words."""
    lines = []
    for options in jobs:
        words = [f"--{key}={options[key]}" for key in _SHOWN if key in options]
        lines.append(" ".join(words))
    return " ".join(dict.fromkeys(line for line in lines if line))[:_TEXT_MAX] or None


def targets(jobs: Sequence[dict[str, Any]]) -> str | None:
    """Files and devices that were named."""
    named = [str(options.get("filename") or options.get("directory") or "") for options in jobs]
    return ", ".join(dict.fromkeys(name for name in named if name))[:_TEXT_MAX] or None


def load(run: Run, jobs: Sequence[tuple[dict[str, Any], int | None]]) -> None:
    """Set what ``run`` knows of its load, from each job's options and how many threads it stands for."""
    threads = outstanding = 0
    offered: float | None = 0.0
    for options, count in jobs:
        each = _depth(options)
        if count is None or each is None:
            run.notes.append("the options do not say how many I/Os were outstanding")
            threads = outstanding = 0
            offered = None
            break
        threads += count
        outstanding += count * each
        rate = _rate_iops(options)
        offered = None if rate is None or offered is None else offered + rate * count
    run.threads, run.outstanding = small(threads) or None, small(outstanding) or None
    run.offered_iops = offered or None
    accesses = {_access(options) for options, _ in jobs}
    run.access = accesses.pop() if len(accesses) == 1 else "mixed"
    sizes = {_size(options) for options, _ in jobs}
    run.size_bytes = sizes.pop() if len(sizes) == 1 else None


def logs(jobs: Sequence[dict[str, Any]], names: Sequence[str]) -> set[str]:
    """What the names of the logs begin with that these jobs wrote: what was asked for, else the job's name."""
    found = set()
    for options, name in zip(jobs, names, strict=True):
        for key in ("write_lat_log", "write_bw_log", "write_iops_log"):
            if key in options:
                found.add(str(options[key] or name).replace("\\", "/").rpartition("/")[2])
    return found


def _depth(options: dict[str, Any]) -> int | None:
    if str(options.get("ioengine", "")) in _SYNCHRONOUS:
        return 1
    depth = small(number(options.get("iodepth", "1")))
    # Where none is named Linux gets psync, which holds one whatever is asked for, and Windows an engine that does not.
    return depth if "ioengine" in options or depth == 1 else None


def _access(options: dict[str, Any]) -> str | None:
    kind = str(options.get("rw") or options.get("readwrite") or "read").partition(":")[0]
    if kind.startswith("rand"):
        return "mixed" if str(options.get("percentage_random", "100")).split(",")[0] != "100" else "random"
    return "sequential" if kind in _SEQUENTIAL else None


def _size(options: dict[str, Any]) -> int | None:
    """Bytes of one I/O, where all have the same: 4 KiB if nothing is said."""
    if any(key in options for key in ("bssplit", "bsrange", "blocksize_range")):
        return None
    parts = {
        number(part) for part in str(options.get("bs") or options.get("blocksize") or "4k").split(",") if part
    }
    return parts.pop() if len(parts) == 1 else None


def _rate_iops(options: dict[str, Any]) -> float | None:
    """I/Os per second that one thread is limited to, reads and writes together."""
    if "rate_iops" in options:
        return _sum(str(options["rate_iops"]), options)
    size = _size(options)
    if "rate" in options and size:
        rate = _sum(str(options["rate"]), options)
        return None if rate is None else rate / size
    return None


def _sum(told: str, options: dict[str, Any]) -> float | None:
    """A rate for reads, writes and trims: one value counts for each of them that the job does."""
    parts = [number(part) if part else 0 for part in told.split(",")]
    if any(part is None for part in parts):
        return None
    kind = str(options.get("rw") or options.get("readwrite") or "read").partition(":")[0]
    directions = [
        kind in {"read", "randread", "rw", "readwrite", "randrw"},
        kind in {"write", "randwrite", "rw", "readwrite", "randrw", "trimwrite", "randtrimwrite"},
        "trim" in kind,
    ]
    values = [part or 0 for part in parts] if len(parts) > 1 else [parts[0] or 0] * 3
    values += [0] * (3 - len(values))
    return float(sum(value for value, does in zip(values, directions, strict=False) if does)) or None


def _recognises(text: str) -> bool:
    start = _START.search(text)
    return start is not None and _VERSION.search(text, start.start(), start.start() + 4096) is not None


def parse(path: Path, name: str) -> list[Run]:
    """One run for each group of jobs. Words that fio printed around the JSON do not matter."""
    text = read_text(path, name, _FILE_BYTES_MAX)
    start = _START.search(text)
    try:
        data, _ = json.JSONDecoder().raw_decode(text, start.start() if start else 0)
    except (ValueError, RecursionError):
        raise CutOff([]) from None
    if not isinstance(data, dict):
        raise CutOff([])
    jobs = [_Job.of(entry, data) for entry in _entries(data)]
    if not jobs:
        raise IotraceError(f"'{name}' is fio's JSON without jobs", hint="give fio a job that reads or writes")
    version = str(data.get("fio version", "")).removeprefix("fio-")[:40] or None
    groups: dict[object, list[_Job]] = {}
    for number, job in enumerate(jobs):
        # A group of its own without a stonewall still runs beside the others, but is reported by itself.
        groups.setdefault(job.group if job.group is not None else -1 - number, []).append(job)
    several = len(groups) > 1
    return [_run(members, version, Path(name).stem, several=several) for members in groups.values()]


def _entries(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    found = data.get("jobs")
    if not isinstance(found, list):
        found = data.get("client_stats")
    for entry in found if isinstance(found, list) else []:
        # Clients' sums of sums: their members are there too.
        if isinstance(entry, dict) and entry.get("jobname") != "All clients":
            yield entry


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    group: int | None
    entry: dict[str, Any]
    options: dict[str, Any]
    ended_ms: int | None

    @classmethod
    def of(cls, entry: dict[str, Any], data: dict[str, Any]) -> "_Job":
        common, own = data.get("global options"), entry.get("job options")
        merged_options = (common if isinstance(common, dict) else {}) | (own if isinstance(own, dict) else {})
        ended_ms = whole(data.get("timestamp_ms"), 1 << 43)
        if ended_ms is None and (seconds := whole(data.get("timestamp"), 1 << 33)) is not None:
            ended_ms = seconds * 1000
        return cls(
            str(entry.get("jobname", ""))[:200], small(entry.get("groupid")), entry, merged_options, ended_ms
        )

    def ops(self) -> list[OpResult]:
        """One result for each op that did anything; ``total`` only where fio was told to mix."""
        found = [_op(op, told) for tag, op in _OPS.items() if isinstance(told := self.entry.get(tag), dict)]
        busy = [one for one in found if one.ios]
        if flush := self._flush():
            busy.append(flush)
        return busy

    def _flush(self) -> OpResult | None:
        told = self.entry.get("sync")
        if not isinstance(told, dict):
            return None
        one = OpResult("flush", ios=whole(told.get("total_ios")), bytes=0)
        _take_latency(one, told.get("lat_ns"), 1, SERVICE)
        return one if one.ios else None

    def started_utc_ns(self) -> int | None:
        """Fio 3.35 and later say when a job started."""
        started_ms = whole(self.entry.get("job_start"), 1 << 43)
        return None if not started_ms else started_ms * MILLISECOND_NS

    def runtime_ms(self) -> int | None:
        """Of its longest op."""
        times = [
            whole(told.get("runtime"), 1 << 43)
            for tag in _OPS
            if isinstance(told := self.entry.get(tag), dict)
        ]
        return max((value for value in times if value), default=None)


def _op(op: str, told: dict[str, Any]) -> OpResult:
    one = OpResult(op, ios=whole(told.get("total_ios")), iops=real(told.get("iops")))
    size = whole(told.get("io_bytes"))
    is_kib = "io_kbytes" not in told
    one.bytes = whole(size << 10) if size is not None and is_kib else size
    rate = real(told.get("bw_bytes"))
    if rate is None and (kib := real(told.get("bw"))) is not None:
        rate = kib * 1024
    one.bytes_per_second = rate
    if samples := small(told.get("iops_samples")):
        one.iops_stddev, one.iops_intervals = real(told.get("iops_stddev")), samples
    scale = 1 if "clat_ns" in told or "lat_ns" in told else _MICROSECOND_NS
    suffix = "_ns" if scale == 1 else ""
    submitted, complete = told.get(f"clat{suffix}"), told.get(f"lat{suffix}")
    total_only = isinstance(complete, dict) and "percentile" in complete
    if total_only and not (isinstance(submitted, dict) and "percentile" in submitted):
        _take_latency(one, complete, scale, TOTAL)
    else:
        _take_latency(one, submitted, scale, SERVICE)
    return one


def _take_latency(one: OpResult, told: object, scale: int, clock: str) -> None:
    if not isinstance(told, dict) or not one.ios:
        return
    one.latency_clock = clock
    one.latency_ns_mean, one.latency_ns_stddev = (_scaled(told.get(key), scale) for key in ("mean", "stddev"))
    one.latency_ns_min, one.latency_ns_max = (_whole_ns(told.get(key), scale) for key in ("min", "max"))
    percentiles, bins = told.get("percentile"), told.get("bins")
    for key, value in percentiles.items() if isinstance(percentiles, dict) else ():
        quantile, latency_ns = _quantile(key), _whole_ns(value, scale)
        if quantile is not None and latency_ns is not None:
            one.quantiles.append((quantile, latency_ns))
    for key, value in bins.items() if isinstance(bins, dict) else ():
        latency_ns, ios = _whole_ns(whole(key), scale), whole(value)
        if latency_ns is not None and ios:
            one.histogram.append((latency_ns, ios))


def _scaled(value: object, scale: int) -> float | None:
    number = real(value)
    return None if number is None else number * scale


def _whole_ns(value: object, scale: int) -> int | None:
    number = whole(value)
    return None if number is None else whole(number * scale)


def _quantile(percentile: object) -> float | None:
    """A share of 1, as exact as fio writes it: six decimals of a per cent."""
    number = real(percentile)
    return round(number / 100, 8) if number is not None and 0 < number < 100 else None


def _run(jobs: list[_Job], version: str | None, stem: str, *, several: bool) -> Run:
    names = list(dict.fromkeys(job.name for job in jobs))
    own = [job.ops() for job in jobs]
    by_op: dict[str, list[OpResult]] = {}
    for one in (one for ops in own for one in ops):
        by_op.setdefault(one.op, []).append(one)
    mixed = by_op.pop(TOTAL_OP, [])
    ops = [_joined(parts, op) for op, parts in by_op.items()]
    moving = [one for one in ops if one.op != "flush"]
    ops.append(_joined(mixed or moving, TOTAL_OP) if mixed or moving else OpResult(TOTAL_OP, ios=0, bytes=0))
    ops[-1].errors = added([whole(job.entry.get("total_err")) for job in jobs])
    runtimes = [value for job in jobs if (value := job.runtime_ms())]
    started = [value for job in jobs if (value := job.started_utc_ns())]
    ended_ms = jobs[0].ended_ms
    run = Run(
        ", ".join(names)[:300] if several or len(names) == 1 else stem,
        TOOL,
        version,
        target=targets([job.options for job in jobs]),
        started_utc_ns=min(started, default=None),
        # The time printed is that of the output: of several groups it is the end of the last.
        ended_utc_ns=None if several or ended_ms is None else ended_ms * MILLISECOND_NS,
        duration_ns=max(runtimes) * MILLISECOND_NS if runtimes else None,
        command=text([job.options for job in jobs]),
        ops=ops,
        figures=[figure for job in jobs for figure in _figures(job)],
    )
    run.logs = logs([job.options for job in jobs], [job.name for job in jobs])
    load(run, [(job.options, _members(job, jobs)) for job in jobs])
    run.notes += _notes(jobs, own, runtimes)
    return run


def _members(job: _Job, jobs: list[_Job]) -> int | None:
    """How many threads this entry stands for: all of its job where they were reported as one."""
    count = small(number(job.options.get("numjobs", "1")))
    reported = sum(other.name == job.name for other in jobs)
    return 1 if reported > 1 else count


def _joined(parts: list[OpResult], op: str) -> OpResult:
    """Ops or jobs that ran at the same time as one; their quantiles from the bins where fio gives those."""
    busy = [one for one in parts if one.ios]
    one = merged(parts, op)
    if len(busy) > 1:
        one.iops_stddev = one.iops_intervals = None
        if all(part.histogram for part in busy) and len({part.latency_clock for part in busy}) == 1:
            bins: dict[int, int] = {}
            for part in busy:
                for latency_ns, ios in part.histogram:
                    bins[latency_ns] = bins.get(latency_ns, 0) + ios
            one.histogram = sorted(bins.items())
            wanted = sorted({quantile for part in busy for quantile, _ in part.quantiles})
            one.quantiles = quantiles_of(one.histogram, wanted)
    return one


def quantiles_of(bins: list[tuple[int, int]], wanted: list[float]) -> list[tuple[float, int]]:
    """As fio takes percentiles: the first bin with which at least that share of the I/Os is reached."""
    count = sum(ios for _, ios in bins)
    found, reached, place = [], 0, 0
    for quantile in wanted:
        while place < len(bins) and (reached == 0 or reached < quantile * count):
            reached += bins[place][1]
            place += 1
        found.append((quantile, bins[place - 1][0]))
    return found


def _figures(job: _Job) -> Iterator[Figure]:
    for tag, op in _OPS.items():
        told = job.entry.get(tag)
        if isinstance(told, dict) and whole(told.get("total_ios")):
            yield from _latency_figures(job.name, op, told)
            for key, unit in _RATES.items():
                if (value := real(told.get(key))) is not None:
                    yield Figure("fio", f"{op} {key.replace('_', ' ')}", value, unit, job.name)
    for key in ("usr_cpu", "sys_cpu"):
        if (value := real(job.entry.get(key))) is not None:
            yield Figure("fio", key.replace("_", " "), value, "%", job.name)


def _latency_figures(job: str, op: str, told: dict[str, Any]) -> Iterator[Figure]:
    for base in ("slat", "clat", "lat"):
        entry, scale = (told[f"{base}_ns"], 1) if f"{base}_ns" in told else (told.get(base), _MICROSECOND_NS)
        for key in ("min", "max", "mean", "stddev"):
            if isinstance(entry, dict) and (value := _scaled(entry.get(key), scale)) is not None:
                yield Figure("fio", f"{op} {base} {key}", value, "ns", job)


def _notes(jobs: list[_Job], own: list[list[OpResult]], runtimes: list[int]) -> Iterator[str]:
    failed = [job.name for job in jobs if job.entry.get("error")]
    if failed:
        yield f"fio says that a job failed: {', '.join(dict.fromkeys(failed))[:200]}"
    if runtimes and max(runtimes) > 1.05 * min(runtimes):
        yield "jobs of one group ran for different times: their rates are added up as if they had not"
    clocks = {one.latency_clock for ops in own for one in ops if one.latency_clock}
    if TOTAL in clocks:
        yield "percentiles are of lat, which includes the time to submit; clat was not asked for"


FORMAT: Final = result_format("fio-json", TOOL, _recognises, parse)
