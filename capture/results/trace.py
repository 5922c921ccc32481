"""What the readers of results have in common: a file of bounded size as text, its runs as a `Trace`, and as one series.

A series is made of the runs of several files: what belongs together joined, and put in order of load.
"""

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from iotrace.capture.formats.format import Format, Outcome, Progress, Trace, naming
from iotrace.schemas import TABLES, Clock, IotraceError, Quality, Source
from iotrace.schemas.host import Host
from iotrace.schemas.vocabulary import RUN_AXES

from .run import HAMMERDB, TOTAL_OP, Run, attach_profile

TEXT_BYTES_MAX: Final = 128 << 20
Parse = Callable[[Path, str], list[Run]]
"""From where a file lies and the user's word for it to its runs. Raises `IotraceError` naming it."""
_SAME_END_NS: Final = 1800 * 10**9


class ResultsTrace:
    """See `iotrace.capture.formats.format.Trace`. The recording starts with its earliest run."""

    def __init__(self, runs: list[Run], source: str, *, truncated: bool = False) -> None:
        self.runs, self.source, self.truncated = runs, source, truncated
        dated = [started for run in runs if (started := run.dated()) is not None]
        self._zero_utc_ns = min(dated, default=0)
        self.clock = Clock(self._zero_utc_ns, 1e9, f"as {runs[0].tool} prints it")
        self.host = Host()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Results, and counters for what has no column there."""
        rows = [row for number, run in enumerate(self.runs) for row in run.rows(number, self._zero_utc_ns)]
        yield "results", self._table(rows, TABLES["results"])
        counters = [row for run in self.runs for row in run.counter_rows(self.source, self._zero_utc_ns)]
        if counters:
            yield "counters", self._table(counters, COUNTERS)

    def _table(self, rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_pylist(rows, schema=schema)
        except OverflowError as problem:
            raise IotraceError(
                f"'{self.source}' has impossible numbers or dates, such as dates years apart",
                hint=f"it may be damaged; compare it with what {self.runs[0].tool} wrote",
            ) from problem

    def outcome(self) -> Outcome:
        """The window ends with the last run that is dated."""
        ends = [
            ((run.dated() or self._zero_utc_ns) - self._zero_utc_ns) + (run.duration_ns or 0)
            for run in self.runs
        ]
        return Outcome(0, max(ends), self.quality(), sum(len(run.ops) for run in self.runs))

    def quality(self) -> Quality:
        """What the runs lack."""
        notes = list(dict.fromkeys(note for run in self.runs for note in run.notes))
        if any(run.dated() is None for run in self.runs):
            notes.append(
                "the source does not say when it ran" if len(self.runs) == 1 else "some runs have no date"
            )
        return Quality(notes=notes, truncated_tail=self.truncated)


COUNTERS: Final = pa.schema([pa.field(field.name, field.type) for field in TABLES["counters"]])


def result_format(name: str, tool: str, recognises: Callable[[str], bool], parse: Parse) -> Format:
    """A format whose files hold runs of ``tool``. ``recognises`` is shown the decoded start of a file."""

    def read(path: Path, file_name: str, progress: Progress) -> ResultsTrace:
        progress(f"reading {file_name}", 0, 1)
        trace = read_runs(parse, path, file_name, tool)
        progress(f"reading {file_name}", 1, 1)
        return trace

    def inspect(path: Path, file_name: str) -> dict[str, Any]:
        trace = read_runs(parse, path, file_name, tool)
        return {
            "format": name,
            "whole": not trace.truncated,
            "tool": tool,
            "tool_version": trace.runs[0].tool_version,
            "runs": len(trace.runs),
            "tests": [run.test for run in trace.runs],
        }

    return Format(name, lambda head, _path: recognises(head_text(head)), read, inspect, has_ios=False)


class CutOff(Exception):  # noqa: N818 - no fault: the runs before the cut are good
    """Raised by a parser at the end of a file that stops within a run; the runs before it are kept."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs


def read_runs(parse: Parse, path: Path, name: str, tool: str) -> ResultsTrace:
    """The runs of a file. Raises `IotraceError` if there is none."""
    truncated = False
    with naming(name):
        try:
            runs = parse(path, name)
        except CutOff as cut:
            runs, truncated = cut.runs, True
    if not runs:
        what = "ends before its results" if truncated else "holds no result"
        raise IotraceError(
            f"'{name}' is output of {tool} and {what}",
            hint="check that the run was not interrupted and its output copied whole",
        )
    return ResultsTrace(runs, Path(name).name, truncated=truncated)


def read_text(path: Path, name: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """A whole file as text, whichever shell redirected it. Raises `IotraceError` for one that is too big."""
    with path.open("rb") as file:
        # As much memory as it asks for is taken, however small the file.
        data = file.read(min(bytes_max, path.stat().st_size) + 1)
    if len(data) > bytes_max:
        raise IotraceError(f"'{name}' is over {bytes_max >> 20} MiB", hint="results of tests are smaller")
    return decode(data)


def decode(data: bytes) -> str:
    """Text of PowerShell (UTF-16 with its mark), of editors (UTF-8 with or without one) or in an old code page."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if data[1:64:2] and not any(data[1:64:2]):  # UTF-16 whose mark got lost
        return data.decode("utf-16-le", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        # The end of a head may lie within a character.
        if problem.start >= len(data) - 3:
            return data[: problem.start].decode("utf-8")
        return data.decode("cp1252", "replace")


def head_text(head: bytes) -> str:
    """The start of a file as text; empty where it is none."""
    text = decode(head)
    return "" if "\0" in text[:4096] else text


def lines_of(text: str) -> list[str]:
    """Lines without their ends, also where a redirection doubled the carriage returns."""
    return text.replace("\r", "").split("\n")


@runtime_checkable
class LogsOfRun(Protocol):
    """A trace of single I/Os that a test logged."""

    prefix: str
    """What the names of its logs have in common, by which the run that wrote them knows them."""


@dataclass(slots=True)
class SourcedRun:
    """A run and the files it was read from."""

    run: Run
    sources: list[Source] = field(default_factory=list)
    truncated: bool = False
    logs: list[Trace] = field(default_factory=list)
    """Logs of its single I/Os, on its own clock."""


def joined(runs: Sequence[SourcedRun]) -> list[SourcedRun]:
    """HammerDB writes time profiles into a file of their own: each goes to the run it is of.

    That is the run of as many virtual users, the one that ended when the profile was written if both are dated.
    """
    profiles = [one for one in runs if _is_profile(one.run)]
    rest = [one for one in runs if not _is_profile(one.run)]
    for profile in profiles:
        fitting = [
            one
            for one in rest
            if one.run.tool == HAMMERDB
            and [op.op for op in one.run.ops] == [TOTAL_OP]
            and (one.run.virtual_users == profile.run.virtual_users)
        ]
        fitting.sort(key=lambda one: _apart_ns(one.run, profile.run))
        if fitting and _apart_ns(fitting[0].run, profile.run) <= _SAME_END_NS:
            chosen = fitting[0]
            attach_profile(chosen.run, profile.run.ops, profile.run.notes)
            chosen.sources += [source for source in profile.sources if source not in chosen.sources]
            chosen.truncated |= profile.truncated
        else:
            profile.run.notes.append(
                "this is a time profile alone: no log with the NOPM of its run was found"
            )
            rest.append(profile)
    return rest


def _is_profile(run: Run) -> bool:
    return run.tool == HAMMERDB and not any(one.op == TOTAL_OP for one in run.ops)


def _apart_ns(run: Run, profile: Run) -> int:
    """How far their ends are apart; 0 where one of them is not dated."""
    started, ended = run.dated(), profile.ended_utc_ns
    if started is None or ended is None:
        return 0
    return abs(started + (run.duration_ns or 0) - ended)


def ordered(runs: Sequence[SourcedRun]) -> tuple[str, list[tuple[float, SourcedRun]]]:
    """The axis by which the runs differ, and each with its place on it, ascending.

    Runs of equal load stay in the order they came in. Where they differ by no load that all of them tell, the axis is
    *run* and places count from 1.
    """
    for axis in RUN_AXES:
        values = [getattr(one.run, axis) for one in runs]
        if None not in values and len(set(values)) > 1:
            places = sorted(range(len(runs)), key=lambda number: values[number])
            return axis, [(float(values[number]), runs[number]) for number in places]
    return "run", [(float(number), one) for number, one in enumerate(runs, 1)]


def unlike(runs: Sequence[SourcedRun]) -> str | None:
    """In what runs differ besides their load, in words; None if in nothing that is told."""
    words = []
    for name, what in (
        ("tool", "tools"),
        ("size_bytes", "sizes"),
        ("access", "patterns"),
        ("target", "targets"),
    ):
        if len({getattr(one.run, name) for one in runs}) > 1:
            words.append(what)
    if len({frozenset(op.op for op in one.run.ops if op.ios) for one in runs}) > 1:
        words.append("ops")
    return " and ".join(words) or None
