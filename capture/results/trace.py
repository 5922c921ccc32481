"""What the readers of results have in common: a file of bounded size as text, and its runs as a `Trace`."""

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.capture.formats.format import Format, Outcome, Progress, naming
from iotrace.schemas import TABLES, Clock, IotraceError, Quality
from iotrace.schemas.host import Host

from .run import Run

TEXT_BYTES_MAX: Final = 128 << 20
Parse = Callable[[Path, str], list[Run]]
"""From where a file lies and the user's word for it to its runs. Raises `IotraceError` naming it."""


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
