"""fio's own output as people keep it (``--output-format=normal``), versions 2 and 3: one run for each group of jobs.

Facts: show_thread_status_normal in fio's stat.c. It rounds: rates are reckoned here from the I/Os issued and the run's
milliseconds, bytes from I/Os and block size where that is one size. Latencies are ``clat``; ``slat`` and ``lat`` are
counters. With ``--status-interval`` each state is of the whole time so far: the last one counts. The date is when the
job ended, in the host's own time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from iotrace.capture.clocks.zones import Moment
from iotrace.schemas import counted

from . import fio_json as options
from .run import MILLISECOND_NS, SERVICE, TOTAL_OP, Figure, OpResult, Run, merged, real, whole
from .trace import CutOff, lines_of, read_text, result_format

TOOL: Final = "fio"
_OPTIONS: Final = re.compile(
    r"(?P<name>\S.{0,200}?): \(g=(?P<group>\d{1,6})\): rw=(?P<rw>\w+), bs=(?P<bs>.*?), ioengine=(?P<ioengine>\w+), "
    r"iodepth=(?P<iodepth>\d{1,7})\s*"
)
_VERSION: Final = re.compile(r"fio-(\d[\w.+-]{0,40})\s*")
_JOB: Final = re.compile(
    r"(?P<name>\S.{0,200}?): \(groupid=(?P<group>\d{1,6}), jobs=(?P<jobs>\d{1,7})\): err=\s*(?P<error>\d{1,7}).{0,200}?"
    r"pid=(?P<pid>\d{1,10}): (?P<ended>\w{3} \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4})\s*"
)
_OP: Final = re.compile(r"\s+(?P<op>read|write|trim) ?: ?(?P<told>(?:io|IOPS)=.*)")
_RUNTIME: Final = re.compile(r"(?:/|runt=\s*)(\d{1,15})msec")
_MOVED: Final = re.compile(r"(?:\bio=|\()(\d+(?:\.\d+)?)([KMGTP]?)i?B(?:/\d|,)")
_LATENCY: Final = re.compile(
    r"\s+(?P<what>[sc]?lat) \((?P<unit>[num]sec)\) ?: min=\s*(?P<min>\S+), max=\s*(?P<max>\S+), avg=\s*(?P<avg>\S+), "
    r"stdev=\s*(?P<stdev>\S+)\s*"
)
_PERCENTILES: Final = re.compile(r"\s+(?P<what>c?lat) percentiles \((?P<unit>[num]sec)\):\s*")
_CELL: Final = re.compile(r"(\d{1,3}\.\d{1,6})th=\[\s*(\d{1,15})([kKM]?)\]")
_ISSUED: Final = re.compile(
    r"\s+issued(?: rwts?)?\s*: total=(?:r=)?(\d{1,18})[,/](?:w=)?(\d{1,18})[,/](?:d=)?(\d{1,18}).*"
)
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)([kKMG]?),?")
_NS: Final = {"nsec": 1, "usec": 1000, "msec": MILLISECOND_NS}
_THOUSANDS: Final = {"": 1, "k": 1000, "K": 1000, "M": 10**6, "G": 10**9}
_SHIFT: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_OPS: Final = {"read": "read", "write": "write", "trim": "discard"}
_PLACES: Final = {"read": 0, "write": 1, "discard": 2}
_LOCAL: Final = "the host's own time"


@dataclass(slots=True)
class _Job:
    """One state of a job, or of all jobs of a group."""

    name: str
    group: tuple[int, int]
    """Which start of fio in the file, and the group's number."""
    jobs: int
    error: int
    ended: str
    ops: dict[str, OpResult] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    runtime_ms: int = 0
    figures: list[Figure] = field(default_factory=list)
    options: dict[str, Any] | None = None
    is_whole: bool = False


def _recognises(text: str) -> bool:
    # Where both were asked for, the JSON in it says the same more exactly.
    return '"fio version"' not in text and any(_JOB.fullmatch(line) for line in text.splitlines())


def parse(path: Path, name: str) -> list[Run]:
    """One run for each group of jobs."""
    reading = _Reading()
    for line in lines_of(read_text(path, name)):
        reading.take(line)
    runs, is_cut = list(reading.runs(Path(name).stem)), any(not job.is_whole for job in reading.jobs.values())
    if is_cut or not runs:
        raise CutOff(runs)
    return runs


class _Reading:
    """Goes through the lines once."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[object, ...], _Job] = {}
        self._options: dict[str, dict[str, Any]] = {}
        self._starts, self._version = 0, ""
        self._states = 0
        self._job: _Job | None = None
        self._op: OpResult | None = None
        self._unit_ns = 0

    def take(self, line: str) -> None:
        """The next line."""
        if found := _OPTIONS.fullmatch(line):
            self._options[found["name"]] = found.groupdict()
        elif found := _VERSION.fullmatch(line):
            self._starts, self._version = self._starts + 1, found[1]
        elif found := _JOB.fullmatch(line):
            self._begin(found)
        elif self._job is not None:
            self._figure(line, self._job)

    def _begin(self, found: re.Match[str]) -> None:
        group = (self._starts, int(found["group"]))
        key = (*group, found["name"], found["pid"])
        before = self.jobs.pop(key, None)
        if before is not None and not before.is_whole:
            before = None
        self._states += before is not None
        self._job = _Job(found["name"], group, int(found["jobs"]), int(found["error"]), found["ended"])
        self._job.options = self._options.get(found["name"])
        self.jobs[key], self._op, self._unit_ns = self._job, None, 0

    def _figure(self, line: str, job: _Job) -> None:
        if found := _OP.fullmatch(line):
            self._op = self._new_op(found, job)
        elif found := _ISSUED.fullmatch(line):
            for op, one in job.ops.items():
                one.ios = whole(found[1 + _PLACES[op]])
            job.is_whole, self._op = True, None
        elif self._op is not None and (found := _LATENCY.fullmatch(line)):
            self._latency(found, job, self._op)
        elif found := _PERCENTILES.fullmatch(line):
            self._unit_ns = _NS[found["unit"]] if found["what"] == "clat" else 0
        elif self._op is not None and self._unit_ns and line.lstrip().startswith("|"):
            self._percentiles(line, self._op)

    @staticmethod
    def _new_op(found: re.Match[str], job: _Job) -> OpResult:
        op = _OPS[found["op"]]
        if runtime := _RUNTIME.search(found["told"]):
            job.runtime_ms = max(job.runtime_ms, int(runtime[1]))
        if moved := _MOVED.search(found["told"]):
            job.moved[op] = round(float(moved[1]) * (1 << _SHIFT[moved[2]]))
        job.ops[op] = OpResult(op, latency_clock=SERVICE)
        return job.ops[op]

    def _percentiles(self, line: str, op: OpResult) -> None:
        for percentile, value, suffix in _CELL.findall(line):
            share, latency = real(percentile), whole(int(value) * _THOUSANDS[suffix] * self._unit_ns)
            if share is not None and 0 < share < 100 and latency is not None:
                op.quantiles.append((round(share / 100, 8), latency))

    def _latency(self, found: re.Match[str], job: _Job, op: OpResult) -> None:
        told = {word: _scaled(found[word], _NS[found["unit"]]) for word in ("min", "max", "avg", "stdev")}
        if found["what"] == "clat":
            op.latency_ns_min = None if told["min"] is None else whole(round(told["min"]))
            op.latency_ns_max = None if told["max"] is None else whole(round(told["max"]))
            op.latency_ns_mean, op.latency_ns_stddev = told["avg"], told["stdev"]
        elif told["avg"] is not None:
            job.figures.append(Figure(f"fio {job.name}", f"{op.op} {found['what']} mean", told["avg"], "ns"))

    def runs(self, stem: str) -> Iterator[Run]:
        """One for each group that was told whole."""
        groups: dict[tuple[int, int], list[_Job]] = {}
        for job in self.jobs.values():
            if job.is_whole and job.ops and job.runtime_ms:
                groups.setdefault(job.group, []).append(job)
        for jobs in groups.values():
            words = ", ".join(dict.fromkeys(job.name for job in jobs))[:200]
            yield self._run(jobs, stem if len(groups) == 1 else f"{stem} {words}")

    def _run(self, jobs: list[_Job], test: str) -> Run:
        run = Run(
            test,
            TOOL,
            self._version or None,
            duration_ns=max(job.runtime_ms for job in jobs) * MILLISECOND_NS,
        )
        told = [(self._options_of(job), job.jobs) for job in jobs]
        options.load(run, told)
        run.command = options.text([of_job for of_job, _ in told])
        run.end(_moment(jobs[-1].ended))
        for job in jobs:
            for op, one in job.ops.items():
                _rates(one, job.runtime_ms, run.size_bytes, job.moved.get(op))
        ops = [
            merged([job.ops[op] for job in jobs if op in job.ops], op)
            for op in _PLACES
            if any(op in job.ops for job in jobs)
        ]
        run.ops = [*ops, merged(ops, TOTAL_OP)]
        run.figures = [figure for job in jobs for figure in job.figures]
        if failed := [job.name for job in jobs if job.error]:
            run.notes.append(f"fio says that a job failed: {', '.join(failed)[:200]}")
        if self._states:
            run.notes.append(
                f"{counted(self._states, 'earlier state')} of the same jobs left out: the last is of all the time"
            )
        run.notes.append("fio's text rounds latencies to three digits or more; its JSON does not")
        return run

    @staticmethod
    def _options_of(job: _Job) -> dict[str, Any]:
        found = job.options
        if found is None:
            return {"name": job.name}
        sizes = set(re.findall(r"(\d+(?:\.\d+)?[KMGkmg]?)i?B?-(\d+(?:\.\d+)?[KMGkmg]?)i?B?", found["bs"]))
        size = next(iter(sizes)) if len(sizes) == 1 else ("", " ")
        own = {key: found[key] for key in ("name", "rw", "ioengine", "iodepth")}
        return own | ({"bs": size[0]} if size[0] == size[1] else {"bssplit": found["bs"]})


def _rates(one: OpResult, runtime_ms: int, size: int | None, moved: int | None) -> None:
    if one.ios is not None:
        one.iops = one.ios * 1000 / runtime_ms
    one.bytes = moved
    if size and one.ios is not None and moved is not None and abs(one.ios * size - moved) <= 0.01 * moved:
        one.bytes = whole(one.ios * size)
    one.bytes_per_second = None if one.bytes is None else one.bytes * 1000 / runtime_ms


def _scaled(text: str, unit_ns: int) -> float | None:
    found = _NUMBER.fullmatch(text)
    value = real(found[1]) if found else None
    return None if found is None or value is None or value > 1e12 else value * _THOUSANDS[found[2]] * unit_ns


def _moment(text: str) -> Moment | None:
    try:
        found = datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return None
    return Moment(round(found.timestamp()) * 10**9, _LOCAL)


FORMAT: Final = result_format("fio-text", TOOL, _recognises, parse)
