"""Turns files that other tools wrote into one recording, whatever they are called."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, TypedDict, Unpack

from iotrace.capture.clocks.alignment import Clocked, Placement, Span, align, in_recording, shared_time
from iotrace.capture.clocks.samples import Sampler
from iotrace.capture.clocks.zones import check_timezone
from iotrace.capture.formats import registry
from iotrace.capture.formats.format import Format, LocalTimes, Outcome, Progress, Trace, naming, unreported
from iotrace.capture.formats.windows import volumes
from iotrace.capture.formats.windows.volumes import NeedsVolumes, Volumes
from iotrace.capture.results.trace import LogsOfRun, ResultsTrace, SourcedRun
from iotrace.schemas import Clock, IotraceError, Kind, Manifest, Recording, RecordingWriter, Source, Sweep
from iotrace.schemas.writer import check_replaceable, refuse_over_source

from . import unpacking
from .anonymizing import Anonymizer
from .inputs import Gathering, Group, unpacking_room
from .merging import Merger, Shift, layers_in, merge_quality, window_of
from .results import ResultsImport, sourced

Place = tuple[str, str]

_FACTS_FOLDER: Final = "facts"


class HostVolumes:
    """Volumes by the folder, or folder in a zip, whose traces they are for."""

    def __init__(self) -> None:
        self._by_place: dict[Place, Volumes] = {}
        self._first: tuple[Path, str] | None = None

    def take(self, group: Group, paths: Sequence[Path]) -> bool:
        """Read ``group`` if it tells volumes; whether it does."""
        if group.format is not volumes.FORMAT:
            return False
        archive, folder = group.files[0].place
        inner = PurePosixPath(folder)
        # The plan's facts lie in a folder of their own, in that of the traces.
        root = inner.parent if inner.name == _FACTS_FOLDER else inner
        told = self._by_place.setdefault((archive, root.as_posix()), Volumes())
        volumes.read_volumes(paths[0], group.name, told)
        self._first = self._first or (paths[0], group.name)
        return True

    def refuse_alone(self, traces: Sequence[object]) -> None:
        """Say what is missing where volumes are told of no trace."""
        if self._first and not traces:
            volumes.FORMAT.read(*self._first, lambda _what, _done, _total: None)

    def tell(self, trace: Trace, place: Place, is_known: Callable[[str], bool]) -> None:
        """Let ``trace``, which lies at ``place``, use the volumes of its folder."""
        if isinstance(trace, NeedsVolumes) and (told := self._by_place.get(place)):
            trace.use_volumes(told, is_known)

    def one_host(self, hosts: Sequence[object], places: Sequence[Place]) -> list[object]:
        """``hosts`` of the traces at ``places``, where those beside the same volumes are of the same host."""
        joined = list(hosts)
        for root in self._by_place:
            same = {joined[number] for number, place in enumerate(places) if place == root}
            if same:
                (kept, *_) = (host for host in joined if host in same)
                joined = [kept if host in same else host for host in joined]
        return joined


_MACHINE_FACTS: Final = ("system", "processors", "name")
"""What tells machines apart, where a source has it."""


class ImportOptions(TypedDict, total=False):
    """What `import_files` and `import_any` take besides files and output; `import_any` says what each does."""

    overwrite: bool
    title: str | None
    progress: Progress | None
    maps: Sequence[Path | str]
    anonymizer: Anonymizer | None
    apart_in_time: bool
    timezone: str | None


def import_files(
    paths: Sequence[Path | str], output: Path | str, **options: Unpack[ImportOptions]
) -> Recording:
    """Read every file of ``paths`` into one new recording at ``output``; see `import_any`.

    Several results of tests are several runs in its table ``results``.
    """
    found = import_any(paths, output, series=False, **options)
    assert isinstance(found, Recording)
    return found


def import_any(
    paths: Sequence[Path | str],
    output: Path | str,
    *,
    series: bool = True,
    overwrite: bool = False,
    title: str | None = None,
    progress: Progress | None = None,
    maps: Sequence[Path | str] = (),
    anonymizer: Anonymizer | None = None,
    apart_in_time: bool = False,
    timezone: str | None = None,
) -> Recording | Sweep:
    """Read every file of ``paths`` into one new recording at ``output``, or a sweep of results in order of load.

    Files are recognised by content (`recognition`); of folders and .zip files all is taken that is recognised.
    Several traces go onto one clock (`alignment`); their ids are re-keyed, and disks, files and processes that
    they share become one. Several results of tests become a sweep, unless ``series`` is False. ``maps`` are mappings of
    columns (`docs/formats.md`) for CSV files that no format knows; ``anonymizer`` takes names out. Sources that
    share no time are refused, unless they are meant to be ``apart_in_time``; the recording says so then
    (`Quality.shared_time`). ``timezone`` is that of logs that name theirs ambiguously. ``progress`` is called with
    what is being done, how much of it is done and how much there is. Raises `IotraceError` naming the file; nothing
    is left at ``output`` then.
    """
    report = progress or unreported
    if not paths:
        raise IotraceError(
            "no file to import", hint="name one or more traces, e.g. iotrace import trace.etl -o NAME.iotrace"
        )
    if timezone is not None:
        check_timezone(timezone)
    target = Path(output)
    refuse_over_source(target, map(Path, paths))
    check_replaceable(target, overwrite=overwrite)
    parent = target.parent if target.parent.is_dir() else None
    with ExitStack() as stack:
        room = stack.enter_context(unpacking_room(parent))
        gathering = Gathering(room, [registry.mapped(Path(path)) for path in maps])
        opening = _Opening(gathering, stack, report, timezone)
        stack.callback(opening.close)
        for path in paths:
            opening.add(Path(path), str(path))
        runs = opening.take_runs()
        opening.volumes.refuse_alone(opening.traces)
        if not opening.traces and not runs:
            raise IotraceError("nothing is left to import", hint="name other files")

        def write_traces(where: Path, *, overwrite: bool = False) -> Recording:
            opening.mark_compared()
            placements = align([opened.clocked(report) for opened in opening.traces])
            return _write(
                opening, placements, where, title or _title(paths), anonymizer, overwrite=overwrite,
                apart_in_time=apart_in_time,
            )  # fmt: skip

        if not runs:
            return write_traces(target, overwrite=overwrite)
        results = ResultsImport(runs, title or _title(paths), opening.notes(), anonymizer, timezone=timezone)
        if opening.traces:
            results.capture, results.notes, results.apart_in_time = write_traces, [], apart_in_time
        else:
            opening.sources()
        return results.write(target, series=series, overwrite=overwrite)


@dataclass(slots=True)
class _Opened:
    """A trace, the files it is read from, and how to read it once more."""

    sources: list[Source]
    trace: Trace
    again: Callable[[], Trace]
    format: Format
    place: tuple[str, str]
    is_compared: bool = False

    @property
    def name(self) -> str:
        return self.sources[0].name

    def clocked(self, progress: Progress) -> Clocked:
        """What its clock is known by. Where there are others to compare it with, its I/Os are read once for that."""
        found = Clocked(self.name, self.format.name, self.trace.clock, self.trace.host)
        if self.is_compared:
            sampler = Sampler()
            progress(f"comparing the clock of {self.name}", 0, 1)
            for table_name, batch in self.again().batches():
                sampler.add(table_name, batch)
            found.samples = sampler.samples()
        return found


class _Opening:
    """Opens the traces in what the user named."""

    def __init__(
        self, gathering: Gathering, stack: ExitStack, progress: Progress, timezone: str | None
    ) -> None:
        self.traces: list[_Opened] = []
        self._timezone = timezone
        self.volumes = HostVolumes()
        self._gathering, self._progress = gathering, progress
        self._sources: list[tuple[Source, Future[str]]] = []
        self._of_results: set[int] = set()
        self._digests: dict[tuple[int, ...], list[tuple[str, list[Future[str]]]]] = {}
        # Checksums are computed beside the reading, in a thread: hashing gives up the interpreter.
        self._hashing = stack.enter_context(ThreadPoolExecutor(1))

    def add(self, path: Path, name: str) -> None:
        """Open all that is at ``path``; one bad trace in a folder or a zip is left out and told, if others are good."""
        problems: list[IotraceError] = []
        before = len(self.traces)
        for group in self._gathering.groups(path, name):
            self._tell_of_archives()
            # A damaged archive is no matter of one trace in it.
            paths = [file.path(_reporting(self._progress, f"unpacking {file.name}")) for file in group.files]
            try:
                self._open(group, paths)
            except IotraceError as problem:
                if group.is_named:
                    raise
                problems.append(problem)
                for file in group.files:
                    file.forget()
        if problems and len(self.traces) == before:
            raise problems[0]
        for left_out in problems:
            self._gathering.leave_out(left_out.message)

    def close(self) -> None:
        """Let the traces go: they keep their files open, and Windows removes no open file."""
        self.traces = []

    def take_runs(self) -> list[SourcedRun]:
        """Runs of other tools' tests. They are no traces: no I/O of theirs tells how their clocks lie."""
        runs: list[SourcedRun] = []
        rest: list[_Opened] = []
        for opened in self.traces:
            if isinstance(opened.trace, ResultsTrace):
                runs += sourced(opened.trace.runs, opened.sources, truncated=opened.trace.truncated)
                opened.sources[0].events = opened.trace.outcome().events
                self._of_results |= {id(source) for source in opened.sources}
            else:
                rest.append(opened)
        self.traces = [opened for opened in rest if not self._is_log_of(opened, runs)]
        return runs

    def _is_log_of(self, opened: _Opened, runs: Sequence[SourcedRun]) -> bool:
        """Give logs of fio to the run that wrote them, which tells when that was; False if none did."""
        trace = opened.trace
        if not isinstance(trace, LogsOfRun) or trace.clock.start_utc_ns:
            return False
        owners = [one for one in runs if trace.prefix in one.run.logs]
        if len(owners) != 1:
            return False
        owners[0].logs.append(trace)
        owners[0].sources += opened.sources
        self._of_results |= {id(source) for source in opened.sources}
        return True

    def sources(self) -> list[Source]:
        """Every trace read, in the user's order, with its checksum; those of results have theirs too then."""
        for source, digest in self._sources:
            source.sha256 = digest.result()
        return [source for source, _ in self._sources if id(source) not in self._of_results]

    def notes(self) -> list[str]:
        """What was left out."""
        return self._gathering.notes()

    def mark_compared(self) -> None:
        """Compare I/Os only where sources of several clocks can have any."""
        able = [opened for opened in self.traces if opened.format.has_ios]
        boots = [opened.trace.host.boot_utc_ns for opened in able]
        # Of one format and two boots they are of two machines or two nights, and have no I/O in common.
        strangers = len({opened.format.name for opened in able}) == 1 and None not in boots
        for opened in able:
            opened.is_compared = len(able) > 1 and not strangers

    def _open(self, group: Group, paths: list[Path]) -> None:
        sources = [Source(file.name, group.format.name, file.bytes()) for file in group.files]
        digests = [self._hashing.submit(file.sha256) for file in group.files]
        if twin := self._twin(sources, digests):
            self._gathering.leave_out(f"'{group.name}' is byte for byte the same as '{twin}'")
            return
        if self.volumes.take(group, paths):
            self._sources += zip(sources, digests, strict=True)
            return
        family, name, progress = group.format.family, group.name, self._progress
        names = [file.name for file in group.files]

        def read() -> Trace:
            if family is not None:
                trace = family.read(paths, names, progress)
            else:
                trace = group.format.read(paths[0], name, progress)
            if isinstance(trace, LocalTimes):
                trace.settle_zone(self._timezone)
            return trace

        with naming(name):
            self.traces.append(_Opened(sources, read(), read, group.format, group.files[0].place))
        self._sources += zip(sources, digests, strict=True)

    def _twin(self, sources: list[Source], digests: list[Future[str]]) -> str | None:
        """A trace of the same bytes that is open already. Only those of equal size are waited for."""
        same_size = self._digests.setdefault(tuple(source.bytes or 0 for source in sources), [])
        for name, others in same_size:
            if [digest.result() for digest in digests] == [digest.result() for digest in others]:
                return name
        same_size.append((sources[0].name, digests))
        return None

    def _tell_of_archives(self) -> None:
        for file in self._gathering.archives:
            source = Source(file.name, unpacking.kind_of(file.head) or "zip", file.bytes())
            self._sources.append((source, self._hashing.submit(file.sha256)))
        self._gathering.archives.clear()


def _write(
    opening: _Opening,
    placements: list[Placement],
    output: Path,
    title: str,
    anonymizer: Anonymizer | None,
    *,
    overwrite: bool,
    apart_in_time: bool,
) -> Recording:
    placed = sorted(zip(opening.traces, placements, strict=True), key=lambda entry: entry[1].start_utc_ns)
    # Counters and snapshots run before and after what is recorded I/O by I/O: the recording starts with its I/Os.
    of_ios = [entry for entry in placed if entry[0].format.has_ios] or placed
    start_utc_ns = of_ios[0][1].start_utc_ns
    clock = _anchor(of_ios)
    merger = Merger()
    hosts = opening.volumes.one_host(
        [placement.host for _, placement in placed], [opened.place for opened, _ in placed]
    )
    # What SQL Server itself says of its files goes before what their paths let others guess.
    order = sorted(range(len(placed)), key=lambda number: not placed[number][0].format.knows_files)
    found: dict[int, tuple[str, int, Outcome]] = {}
    layers: dict[str, set[str]] = {}
    with RecordingWriter(output, overwrite=overwrite) as writer:
        for number in order:
            opened, placement = placed[number]
            shift_ns = placement.start_utc_ns - start_utc_ns
            into = merger.trace(hosts[number], Shift.of(placement, start_utc_ns))
            opening.volumes.tell(opened.trace, opened.place, partial(merger.knows_file, hosts[number]))
            for table_name, batch in opened.trace.batches():
                rows = into.rekey(table_name, batch)
                if table_name == "io" and len(rows):
                    layers.setdefault(opened.name, set()).update(layers_in(rows))
                kept = anonymizer.batch(table_name, rows) if anonymizer else rows
                if kept is not None:
                    writer.append(table_name, kept)
            outcome = opened.trace.outcome()
            opened.sources[0].events = outcome.events
            for source in opened.sources:
                source.alignment = in_recording(placement.alignment, start_utc_ns)
            outcome.quality.notes += into.notes(opened.name)
            found[number] = (opened.name, shift_ns, outcome)
        outcomes = [found[number] for number in range(len(placed))]
        compared = {
            opened.name
            for opened, placement in placed
            if placement.alignment and placement.alignment.method != "utc"
        }
        shared = shared_time(_spans(placed, outcomes))
        if not apart_in_time:
            shared.refuse()
        quality = merge_quality(outcomes, layers, compared, shared)
        for name, _, outcome in outcomes:
            of = "" if len(outcomes) == 1 else f"{name}: "
            quality.left_out += [f"{of}{words}" for words in outcome.quality.left_out]
        for _, placement in placed:
            quality.notes += placement.notes
            quality.clock_steps += placement.clock_steps
        quality.notes += opening.notes()
        sources, host = opening.sources(), of_ios[0][0].trace.host
        window_start_ns, window_end_ns = window_of(
            [entry for entry in outcomes if entry[0] in layers] or outcomes
        )
        if anonymizer:
            title, host, clock = "anonymized import", anonymizer.host(host), anonymizer.clock(clock)
            anonymizer.sources(sources, quality)
        manifest = Manifest(
            kind=Kind.CAPTURED,
            title=title,
            clock=clock,
            window_start_ns=window_start_ns,
            window_end_ns=window_end_ns,
            host=host,
            sources=sources,
            quality=quality.judge(
                writer.rows("io"),
                sum(outcome.events for _, _, outcome in outcomes if outcome.quality.events_lost),
            ),
        )
        return writer.commit(manifest)


def _spans(
    placed: Sequence[tuple[_Opened, Placement]], outcomes: Sequence[tuple[str, int, Outcome]]
) -> Iterator[Span]:
    """From when to when each source tells anything, which one without events does not."""
    for (opened, placement), (name, shift_ns, outcome) in zip(placed, outcomes, strict=True):
        if outcome.events:
            host = opened.trace.host
            kind = (opened.format.name, *(getattr(host, fact) for fact in _MACHINE_FACTS))
            uncertainty_ns = (placement.alignment.uncertainty_ns if placement.alignment else None) or 0
            yield Span(
                name,
                kind,
                shift_ns + outcome.window_start_ns,
                shift_ns + outcome.window_end_ns,
                uncertainty_ns,
            )


def _anchor(placed: list[tuple[_Opened, Placement]]) -> Clock:
    """The clock of the first of the traces with I/Os, as exact as the coarsest of them; its UTC is the reference's."""
    first = placed[0][0].trace.clock
    references = [
        opened.trace.clock
        for opened, placement in placed
        if placement.alignment and placement.alignment.method == "reference"
    ]
    return Clock(
        placed[0][1].start_utc_ns,
        max(opened.trace.clock.resolution_ns for opened, _ in placed),
        first.name,
        (references[0] if references else first).start_utc_uncertainty_ns,
        # Of one clock they say something; of several, whose ticks differ, nothing.
        first.pairs if len(placed) == 1 else [],
    )


def _title(paths: Sequence[Path | str]) -> str:
    first = Path(paths[0]).name
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _reporting(progress: Progress, what: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(what, done, total)
