"""HammerDB's logs of TPROC-C: its console or GUI log, and its time profile, in one file or in two.

Facts: HammerDB's genvu.tcl, tpcccommon, etprof and xtprof, 3.3 to 6.0, and its manual. A run is from *Timing test
period* to *TEST RESULT*; one log may hold many. Up to 3.3 the result names TPM before NOPM. For SQL Server TPM are
batch requests. Passwords, printed with its settings, are never kept.

HammerDB's time profiles: how long each kind of transaction took.

xtprof (4.1 and later) reports all virtual users in milliseconds, in a file of its own. Its deviation is in clock clicks
up to 5.0, whose length is not told: it is taken only where *ms* follows. It times from the first transaction on, so
ramp-up is in it. etprof (up to 4.0) follows one virtual user, in microseconds, with percentiles for 10 s at a time,
which cannot be made into those of a run.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from iotrace.capture.clocks.zones import Moment, moment
from iotrace.schemas import IotraceError, counted
from iotrace.schemas.units import SECOND_NS

from .run import (
    HAMMERDB,
    MILLISECOND_NS,
    TOTAL_OP,
    TRANSACTION,
    Figure,
    OpResult,
    Run,
    attach_profile,
    nanoseconds,
    real,
    small,
    whole,
)
from .trace import CutOff, lines_of, read_text, result_format

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


_QUERY_SETS: Final = " query set(s) in "
_COUNTER_LOG: Final = "Hammerdb Transaction Counter Log @"
_NOPM_FIRST: Final = re.compile(r"TEST RESULT : System achieved (\d+) NOPM from (\d+) (.{0,60}?) ?TPM")
_TPM_FIRST: Final = re.compile(r"TEST RESULT : System achieved (\d+) (.{0,60}?) ?TPM at (\d+) NOPM")
_USERS: Final = re.compile(r"Vuser \d+:(\d+) Active Virtual Users configured")
_SESSIONS: Final = re.compile(r"Vuser \d+:(\d+) VU \* (\d+) AC = (\d+) Active Sessions configured")
_RAMPUP: Final = re.compile(r"Beginning rampup time of (\d+) minutes")
_PERIOD: Final = re.compile(r"Timing test period of (\d+) in minutes")
_LOG_AT: Final = re.compile(r"Hammerdb Log @ (.{1,60})$")
_STAMP: Final = re.compile(r"Timestamp \d+ @ (.{1,60})$")
_CLI: Final = re.compile(r"HammerDB CLI v?(\d[\w.]{0,20})", re.IGNORECASE)
_SETTING: Final = re.compile(
    r"\s+(?:[a-z]+_)?(count_ware|rampup|duration|allwarehouse|keyandthink|driver|total_iterations)\s+=\s+(\S{1,40})\s*$"
)
_TCL_TIME: Final = re.compile(r"(\w{3} \w{3} \d{2} [\d:]{8}) (\S{1,40}) (\d{4})")
_MARKS: Final = (
    "Hammerdb Log @",
    "HammerDB CLI",
    "Hammerdb Time Profile Report @",
    "TEST RESULT : System achieved",
)


def _recognises(text: str) -> bool:
    if any(mark in text for mark in _MARKS):
        return True
    return (">>>>> PROC:" in text and "CALLS:" in text) or _QUERY_SETS in text or _COUNTER_LOG in text


def parse(path: Path, name: str) -> list[Run]:
    """One run for each result. A time profile without a result is a run of its transactions only."""
    text = read_text(path, name)
    log = _Log(lines_of(text), Path(name).stem)
    if not log.runs:
        _refuse_others(text, name)
        raise CutOff([])
    if log.is_open:
        raise CutOff(log.runs)
    return log.runs


def _refuse_others(text: str, name: str) -> None:
    """Name what HammerDB writes besides: it tells nothing of I/O."""
    if _QUERY_SETS in text or "TPROC-H" in text:
        raise IotraceError(
            f"'{name}' is a log of HammerDB's TPROC-H: it says how long queries took, nothing of I/O or transactions",
            hint="import the log of a TPROC-C run, or a capture of the host taken while the queries ran",
        )
    if _COUNTER_LOG in text:
        raise IotraceError(
            f"'{name}' is HammerDB's transaction counter alone, without the result of its run",
            hint="import the log of the run, which tells NOPM and TPM",
        )


@dataclass(slots=True)
class _Test:
    """A test that is going on."""

    rampup_s: int | None = None
    period_s: int | None = None
    began: Moment | None = None
    """When its measured time began, as a timestamp tells."""
    ended: Moment | None = None
    users: int | None = None
    sessions: int | None = None
    profile: list[str] = field(default_factory=list)


class _Log:
    """Goes through the lines once."""

    def __init__(self, lines: list[str], stem: str) -> None:
        self.runs: list[Run] = []
        self.is_open = False
        self._stem = stem
        self._version: str | None = None
        self._settings: dict[str, str] = {}
        self._test = _Test()
        self._log_at: Moment | None = None
        self._stamp: Moment | None = None
        self._failed = 0
        for line in lines:
            self._line(line)
        for number, summary in enumerate(summaries(lines)):
            self._profile(number, summary)
        if len(self.runs) > 1:
            for run in self.runs:
                users = "" if run.virtual_users is None else f" {run.virtual_users} virtual users"
                run.test = f"{self._stem}{users}"

    def _line(self, line: str) -> None:
        if found := _STAMP.match(line):
            self._stamp = moment_of(found[1])
            return
        if found := _CLI.search(line):
            self._version = found[1]
        elif found := _LOG_AT.search(line):
            self._log_at = moment_of(found[1])
        elif found := _SETTING.match(line):
            self._settings[found[1]] = found[2]
        elif line.startswith("Vuser"):
            self._user_line(line)
        if line.startswith("Vuser"):
            self._stamp = None

    def _user_line(self, line: str) -> None:
        test = self._test
        if found := _RAMPUP.search(line):
            self._test = _Test(rampup_s=(small(found[1]) or 0) * 60)
            self.is_open = True
        elif found := _PERIOD.search(line):
            self.is_open = True
            test.period_s = (small(found[1]) or 0) * 60
            test.began = self._stamp
        elif "Test complete, Taking end Transaction Count" in line:
            test.ended = self._stamp
        elif found := _USERS.match(line):
            test.users = small(found[1])
        elif found := _SESSIONS.match(line):
            test.users, test.sessions = small(found[1]), small(found[3])
        elif "FINISHED FAILED" in line:
            self._failed += self.is_open
        elif "|PERCENTILES" in line or "%-" in line or "|PROCNAME" in line or (test.profile and ":|" in line):
            test.profile.append(line)
            if not self.is_open and self.runs:
                self._close_profile(self.runs[-1])
        elif found := _NOPM_FIRST.search(line) or _TPM_FIRST.search(line):
            self._result(found)

    def _result(self, found: re.Match[str]) -> None:
        nopm, tpm, database = (
            (found[1], found[2], found[3]) if found.re is _NOPM_FIRST else (found[3], found[1], found[2])
        )
        test = self._test
        total = OpResult(TOTAL_OP, transactions_per_minute=real(tpm), new_orders_per_minute=real(nopm))
        run = Run(
            self._stem,
            HAMMERDB,
            self._version,
            target=database or None,
            duration_ns=test.period_s * SECOND_NS if test.period_s else None,
            virtual_users=test.users,
            threads=test.sessions,
            command=" ".join(f"{key}={value}" for key, value in self._settings.items()) or None,
            ops=[total],
        )
        self._place(run)
        if test.sessions:
            run.notes.append(
                f"{counted(test.sessions, 'session')} with keying and thinking time, which bounds NOPM"
            )
        if self._failed:
            run.notes.append(f"{counted(self._failed, 'virtual user')} failed during the test")
            total.errors = self._failed
        if total.transactions_per_minute == 0:
            run.notes.append("HammerDB could not count transactions per minute and prints 0")
        self.runs.append(run)
        run.figures += interval_figures(test.profile)
        self.is_open, self._failed = False, 0
        self._test = _Test(profile=test.profile)

    def _close_profile(self, run: Run) -> None:
        """Lines of the old profiler after the result: the sums of its one virtual user."""
        ops = profile_ops(self._test.profile)
        if ops:
            run.ops = [*ops, run.ops[-1]]
            if not any("first virtual user" in note for note in run.notes):
                run.notes.append(
                    "the profile is of the first virtual user and has percentiles of 10 s each only: see counters"
                )

    def _place(self, run: Run) -> None:
        test = self._test
        if test.began is not None:
            run.start(test.began)
        elif test.ended is not None:
            run.end(test.ended)
        elif self._log_at is not None and test.rampup_s is not None:
            run.start(self._log_at.shifted(test.rampup_s * SECOND_NS))
            run.reckoned = (
                "when it ran is worked out from the head of its log and its ramp-up, to about a minute"
            )
            self._log_at = None  # of the tests in a log it dates the first only

    def _profile(self, number: int, summary: Summary) -> None:
        """A time profile of all virtual users: of the run of this file that it followed, or one of its own."""
        fitting = [run for run in self.runs if run.virtual_users == summary.users and len(run.ops) == 1]
        if fitting:
            attach_profile(fitting[0], summary.ops, summary.notes)
        else:
            run = Run(
                self._stem if not number else f"{self._stem} {number + 1}",
                HAMMERDB,
                virtual_users=summary.users,
                duration_ns=None if summary.elapsed_ms is None else summary.elapsed_ms * MILLISECOND_NS,
                ops=list(summary.ops),
                notes=[*summary.notes],
            )
            run.end(None if summary.written is None else moment_of(summary.written))
            self.runs.append(run)


def moment_of(text: str) -> Moment | None:
    """The moment of ``Fri Jul 05 09:55:26 CEST 2019``, as Tcl writes times."""
    found = _TCL_TIME.fullmatch(text.strip())
    if found is None:
        return None
    try:
        return moment(datetime.strptime(f"{found[1]} {found[3]}", "%a %b %d %H:%M:%S %Y"), found[2])  # noqa: DTZ007
    except ValueError:
        return None


FORMAT: Final = result_format("hammerdb", HAMMERDB, _recognises, parse)
