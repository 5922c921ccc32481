"""Results of other tools' tests become recordings: one run a recording, several a sweep in order of load.

A capture that ran beside them is cut at each run's start and end, so that every step holds what its run measured and
what the host showed meanwhile, on the clock of the run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.clocks.alignment import Span, shared_time
from iotrace.capture.clocks.zones import OPTION
from iotrace.capture.results.run import Run
from iotrace.capture.results.trace import COUNTERS, SourcedRun, joined, ordered, unlike
from iotrace.schemas import (  # fmt: skip
    TABLES,
    Clock,
    IotraceError,
    Kind,
    Manifest,
    Quality,
    Recording,
    RecordingWriter,
    Source,
    Sweep,
    SweepWriter,
    counted,
)
from iotrace.schemas.partials import Partial
from iotrace.schemas.replacing import move_into_place
from iotrace.schemas.sweep import SweepSettings
from iotrace.schemas.tables import TIME_COLUMNS
from iotrace.schemas.writer import RECORDING, check_replaceable

from .anonymizing import Anonymizer

_ORDER: Final = {"io": "issued_ns"}
"""The column that says when a row is; ``at_ns`` for other tables, and none for those that hold for all of the time."""


@dataclass(slots=True)
class ResultsImport:
    """All that was named, read: ``runs``, and how to write what is no result to a path, if there is any."""

    runs: list[SourcedRun]
    title: str
    notes: list[str] = field(default_factory=list)
    anonymizer: Anonymizer | None = None
    capture: Callable[[Path], Recording] | None = None
    apart_in_time: bool = False
    timezone: str | None = None
    """What the user takes a time zone for that a log names and that is not known for sure."""

    def write(self, target: Path, *, series: bool, overwrite: bool) -> Recording | Sweep:
        """A recording at ``target``, or a sweep if there are several runs and ``series`` is wanted.

        Raises `IotraceError` if a capture is there and nothing dates the runs.
        """
        for one in self.runs:
            one.run.settle_zone(self.timezone)
        self.runs = joined(self.runs)
        if self.capture is None:
            if series and len(self.runs) > 1:
                return self._sweep(target, None, overwrite=overwrite)
            return self._recording(target, self.runs, None, overwrite=overwrite)
        with Partial.folder(target, private=True) as partial:
            beside = self.capture(partial.path / "capture.iotrace")
            if not self.apart_in_time:
                self._refuse_apart(beside)
            if series and len(self.runs) > 1:
                self._refuse_undated()
                return self._sweep(target, beside, overwrite=overwrite)
            return self._recording(target, self.runs, beside, overwrite=overwrite)

    def _refuse_apart(self, beside: Recording) -> None:
        """A capture that was there in none of the runs is of another time."""
        zero_ns = beside.manifest.clock.start_utc_ns
        first_ns, last_ns = _told(beside)
        capture = Span(beside.manifest.sources[0].name, "capture", first_ns + zero_ns, last_ns + zero_ns)
        runs = [
            Span(
                one.sources[0].name if one.sources else one.run.tool,
                "run",
                start_ns,
                start_ns + (one.run.duration_ns or 0),
            )
            for one in self.runs
            if (start_ns := one.run.dated()) is not None
        ]
        found = [shared_time([capture, run]) for run in runs]
        if found and all(one.apart for one in found):
            found[0].refuse()

    def _refuse_undated(self) -> None:
        if all(one.run.dated() is None for one in self.runs):
            raise IotraceError(
                f"nothing says when the runs of '{self.runs[0].run.test}' were, so the capture cannot be cut to them",
                hint=f"say their time zone with {OPTION}, such as {OPTION} America/Chicago"
                if any(one.run.zone is not None for one in self.runs)
                else "import them without the capture; HammerDB dates its log with the option Log Timestamps",
            )

    def _sweep(self, target: Path, beside: Recording | None, *, overwrite: bool) -> Sweep:
        axis, places = ordered(self.runs)
        check_replaceable(target, overwrite=overwrite)
        title = "anonymized import" if self.anonymizer else self.title
        tools = sorted({one.run.tool for one in self.runs})
        settings = SweepSettings(tool=", ".join(tools), axis=axis, unlike=unlike(self.runs))
        with Partial.folder(target, private=True) as partial:
            swept = partial.path / "sweep.iotrace"
            writer = SweepWriter(swept, title=title, source_uuid=None, settings=settings)
            for place, one in places:
                window = self._window(one, beside)
                step = self._recording(writer.step_path(place), [one], beside, window=window)
                writer.add(place, step)
            writer.seal()
            check_replaceable(target, overwrite=overwrite)
            move_into_place(swept, target, RECORDING)
        return Sweep.open(target)

    def _window(self, one: SourcedRun, beside: Recording | None) -> "tuple[int, int] | None":
        """Where a run lies on the capture's clock, in ns; None if nothing tells or the capture was not there then."""
        started = one.run.dated()
        if beside is None or started is None or one.run.duration_ns is None:
            return None
        start_ns = started - beside.manifest.clock.start_utc_ns
        end_ns = start_ns + one.run.duration_ns
        first_ns, last_ns = _told(beside)
        if end_ns <= first_ns or start_ns >= last_ns:
            return None
        return start_ns, end_ns

    def _recording(
        self,
        target: Path,
        runs: Sequence[SourcedRun],
        beside: Recording | None,
        *,
        window: tuple[int, int] | None = None,
        overwrite: bool = False,
    ) -> Recording:
        is_step = beside is not None and len(self.runs) > 1 and len(runs) == 1
        part = _Part(beside, window) if beside is not None and (window is not None or not is_step) else None
        dated = [started for one in runs if (started := one.run.dated()) is not None]
        zero_utc_ns = part.zero_utc_ns if part else min(dated, default=0)
        with RecordingWriter(target, overwrite=overwrite) as writer:
            if part is not None:
                for table_name, batch in part.batches():
                    writer.append(table_name, batch)
            for number, one in enumerate(runs):
                self._append(writer, number, one, zero_utc_ns)
                self._append_logs(writer, one, alone=part is None and len(runs) == 1)
            manifest = self._manifest(runs, part, zero_utc_ns)
            if is_step and part is None:
                manifest.quality.notes.append(
                    "the capture beside it does not cover this run, or nothing dates it"
                )
            manifest.quality.judge(writer.rows("io"))
            return writer.commit(manifest)

    def _append(self, writer: RecordingWriter, number: int, one: SourcedRun, zero_utc_ns: int) -> None:
        name = Path(one.sources[0].name).name if one.sources else one.run.tool
        for table_name, rows, schema in (
            ("results", one.run.rows(number, zero_utc_ns), TABLES["results"]),
            ("counters", one.run.counter_rows(name, zero_utc_ns), COUNTERS),
        ):
            if rows:
                batch = pa.RecordBatch.from_pylist(rows, schema=schema)
                self._append_rows(writer, table_name, batch)

    def _append_rows(self, writer: RecordingWriter, table_name: str, batch: pa.RecordBatch) -> None:
        rows = self.anonymizer.batch(table_name, batch) if self.anonymizer else batch
        if rows is not None:
            writer.append(table_name, rows)

    def _append_logs(self, writer: RecordingWriter, one: SourcedRun, *, alone: bool) -> None:
        """Single I/Os that the tool logged. Their ids are their own, so they go where nothing else has any."""
        for log in one.logs if alone else []:
            for table_name, batch in log.batches():
                self._append_rows(writer, table_name, batch)
        if one.logs and not alone:
            one.run.notes.append("fio's logs are left out: import the run by itself to have its single I/Os")

    def _manifest(self, runs: Sequence[SourcedRun], part: "_Part | None", zero_utc_ns: int) -> Manifest:
        sources = [
            replace(source) for source in {id(entry): entry for one in runs for entry in one.sources}.values()
        ]
        notes = list(dict.fromkeys(note for one in runs for note in one.run.notes))
        undated = sum(one.run.dated() is None for one in runs)
        if undated:
            notes.append(
                "the source does not say when it ran"
                if len(runs) == 1
                else f"{counted(undated, 'run')} without a date"
            )
        quality = Quality(truncated_tail=any(one.truncated for one in runs), notes=[*notes, *self.notes])
        outcomes = [log.outcome() for log in runs[0].logs] if part is None and len(runs) == 1 else []
        for outcome in outcomes:
            quality.events_lost += outcome.quality.events_lost
            quality.truncated_tail |= outcome.quality.truncated_tail
            quality.notes += outcome.quality.notes
        ends = [outcome.window_end_ns for outcome in outcomes]
        ends += [
            ((one.run.dated() or zero_utc_ns) - zero_utc_ns) + (one.run.duration_ns or 0) for one in runs
        ]
        title = self.title if len(runs) > 1 or len(self.runs) == 1 else runs[0].run.test
        manifest = Manifest(
            kind=Kind.TESTED,
            title="anonymized import" if self.anonymizer else title,
            clock=Clock(zero_utc_ns, 1e9, f"as {runs[0].run.tool} prints it"),
            window_start_ns=min((outcome.window_start_ns for outcome in outcomes), default=0),
            window_end_ns=max(ends),
            sources=sources,
            quality=quality,
        )
        if self.anonymizer:
            self.anonymizer.sources(manifest.sources, manifest.quality)
            manifest.clock = self.anonymizer.clock(manifest.clock)
        if part is not None:
            part.tell(manifest)
        return manifest


def _told(capture: Recording) -> tuple[int, int]:
    """From when to when ``capture`` tells anything: its counters may begin before its I/Os and go on after them."""
    first_ns, last_ns = capture.manifest.window_start_ns, capture.manifest.window_end_ns
    if "counters" in capture.table_names():
        ends = pc.min_max(capture.read("counters", ["at_ns"])["at_ns"]).as_py()
        if ends["min"] is not None:
            first_ns, last_ns = min(first_ns, ends["min"]), max(last_ns, ends["max"])
    return first_ns, last_ns


@dataclass(frozen=True, slots=True)
class _Part:
    """A capture, or the stretch of it that a run took, on the run's clock."""

    recording: Recording
    window: tuple[int, int] | None

    @property
    def zero_utc_ns(self) -> int:
        return self.recording.manifest.clock.start_utc_ns + (self.window[0] if self.window else 0)

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        # Not at the top: it brings pandas where that is installed, a second at the start of every command.
        import pyarrow.dataset as ds  # noqa: PLC0415

        for table_name in self.recording.table_names():
            paths = [str(path) for path in self.recording.parquet_paths(table_name)]
            table = ds.dataset(paths, format="parquet")
            moment = _ORDER.get(table_name, "at_ns")
            within = None
            if self.window is not None and moment in table.schema.names:
                within = (ds.field(moment) >= self.window[0]) & (ds.field(moment) < self.window[1])
            for batch in table.to_batches(filter=within):
                if len(batch):
                    yield table_name, self._shifted(batch)

    def _shifted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.window is None:
            return batch
        back = pa.scalar(self.window[0], pa.int64())
        columns = [
            pc.subtract(batch.column(name), back) if name in TIME_COLUMNS else batch.column(name)
            for name in batch.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def tell(self, manifest: Manifest) -> None:
        """Add what the capture's manifest says to ``manifest``."""
        own = self.recording.manifest
        manifest.kind = Kind.CAPTURED if self.window is None else Kind.TESTED
        manifest.host = own.host
        manifest.clock = Clock(
            self.zero_utc_ns, own.clock.resolution_ns, own.clock.name, own.clock.start_utc_uncertainty_ns
        )
        if self.window is None:
            manifest.window_start_ns = own.window_start_ns
            manifest.window_end_ns = max(own.window_end_ns, manifest.window_end_ns)
        manifest.sources = [*own.sources, *manifest.sources]
        manifest.quality = replace(
            own.quality,
            notes=[*own.quality.notes, *manifest.quality.notes],
            truncated_tail=own.quality.truncated_tail or manifest.quality.truncated_tail,
        )


def sourced(runs: Sequence[Run], sources: Sequence[Source], *, truncated: bool) -> list[SourcedRun]:
    """Runs of one trace with the files it was read from; the last one is that before a cut."""
    last = len(runs) - 1
    return [SourcedRun(run, list(sources), truncated and number == last) for number, run in enumerate(runs)]
