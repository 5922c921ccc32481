"""Turns files that other tools wrote into one recording, whatever they are called."""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from iotrace.schemas import Clock, IotraceError, Manifest, Recording, RecordingWriter, Source
from iotrace.schemas.writer import check_replaceable

from .anonymizing import Anonymizer
from .archives import Archive, is_zip
from .formats.array_csv import with_map
from .formats.format import Format, Outcome, Progress, Trace, naming
from .merging import Merger, merge_quality
from .recognition import format_names, not_recognised, read_head, recognise

_DAY_NS: Final = 86_400_000_000_000


def import_files(
    paths: Sequence[Path | str],
    output: Path | str,
    *,
    overwrite: bool = False,
    title: str | None = None,
    progress: Progress | None = None,
    maps: Sequence[Path | str] = (),
    anonymizer: Anonymizer | None = None,
) -> Recording:
    """Read every file of ``paths`` into one new recording at ``output``.

    Files are recognised by content (`recognition`); a .zip is taken as it is, with every member that is recognised.
    Several traces go onto one clock by their UTC starts, the earliest being the recording's; their ids are re-keyed,
    and disks, files and processes that they share become one. ``maps`` are mappings of columns (`docs/formats.md`) for
    CSV files that no format knows; ``anonymizer`` takes names out. ``progress`` is called with what is being done, how
    much of it is done and how much there is. Raises `IotraceError` naming the file; nothing is left at ``output`` then.
    """
    report = progress or _silent
    if not paths:
        raise IotraceError(
            "no file to import", hint="name one or more traces, e.g. iotrace import trace.etl -o NAME.iotrace"
        )
    check_replaceable(Path(output), overwrite=overwrite)
    with ExitStack() as stack:
        opening = _Opening(Path(output), stack, report, [with_map(Path(path)) for path in maps])
        for path in paths:
            opening.add(Path(path), str(path))
        _refuse_undated_beside_dated(opening.traces)
        return _write(opening, Path(output), title or _title(paths), anonymizer, overwrite=overwrite)


class _Opening:
    """Finds the traces in what the user named. Files are unpacked beside the output, where room has to be anyway."""

    def __init__(self, output: Path, stack: ExitStack, progress: Progress, mapped: list[Format]) -> None:
        self._mapped = mapped
        self.traces: list[tuple[Source, Trace]] = []
        self.notes: list[str] = []
        self._sources: list[tuple[Source, Future[str] | None]] = []
        self._parent = output.parent if output.parent.is_dir() else None
        self._stack, self._progress = stack, progress
        # Checksums are computed beside the reading, in a thread: hashing gives up the interpreter.
        self._hashing = stack.enter_context(ThreadPoolExecutor(1))

    def add(self, path: Path, name: str) -> None:
        head = read_head(path, name)
        with naming(name):
            chosen = recognise(head, path, self._mapped)
            kind = chosen.name if chosen else "zip" if is_zip(head) else None
            if kind is None:
                raise not_recognised(head, name)
            source = Source(name, kind, path.stat().st_size)
            self._sources.append((source, self._hashing.submit(_sha256, path)))
            if chosen is None:
                self._add_members(path, name)
            else:
                self.traces.append((source, chosen.read(path, name, self._progress)))

    def sources(self) -> list[Source]:
        """Everything read, in the user's order, with its checksum."""
        for source, digest in self._sources:
            if digest is not None:
                with naming(source.name):
                    source.sha256 = digest.result()
        return [source for source, _ in self._sources]

    def _add_members(self, path: Path, name: str) -> None:
        problems: list[IotraceError] = []
        traces_before = len(self.traces)
        with Archive.open(path, name) as archive:
            room = self._stack.enter_context(
                tempfile.TemporaryDirectory(prefix=".iotrace-unpacked-", dir=self._parent)
            )
            for number, member in enumerate(archive.members()):
                chosen = recognise(member.head, Path(member.name), self._mapped)
                if chosen is None:
                    continue
                inner = f"{name}/{member.name}"
                target = Path(room) / str(number)
                digest = archive.unpack(member, target, _reporting(self._progress, f"unpacking {inner}"))
                try:
                    trace = chosen.read(target, inner, self._progress)
                except IotraceError as problem:
                    # One counter log beside the traces is no reason to refuse them all.
                    problems.append(problem)
                    target.unlink()
                    continue
                source = Source(inner, chosen.name, target.stat().st_size, digest)
                self._sources.append((source, None))
                self.traces.append((source, trace))
        if len(self.traces) > traces_before:
            self.notes += [f"left out: {problem.message}" for problem in problems]
        elif problems:
            raise problems[0]
        else:
            raise IotraceError(
                f"'{name}' holds no trace that iotrace reads", hint=f"it takes {format_names()} in a zip"
            )


def _refuse_undated_beside_dated(traces: list[tuple[Source, Trace]]) -> None:
    """A trace without a date starts in 1970; on one clock with a dated one it would lie decades away."""
    undated = [source.name for source, trace in traces if trace.clock.start_utc_ns < _DAY_NS]
    if undated and len(undated) < len(traces):
        raise IotraceError(
            f"'{undated[0]}' has no date, and others have", hint="import it into a recording of its own"
        )


def _write(
    opening: _Opening, output: Path, title: str, anonymizer: Anonymizer | None, *, overwrite: bool
) -> Recording:
    traces = sorted(opening.traces, key=lambda entry: entry[1].clock.start_utc_ns)
    clock = traces[0][1].clock
    merger = Merger()
    outcomes: list[tuple[str, int, Outcome]] = []
    with_io: set[str] = set()
    with RecordingWriter(output, overwrite=overwrite) as writer:
        for source, trace in traces:
            shift_ns = trace.clock.start_utc_ns - clock.start_utc_ns
            ios_before = writer.rows("io")
            into = merger.trace(trace.host, shift_ns)
            for table_name, batch in trace.batches():
                rows = into.rekey(table_name, batch)
                writer.append(table_name, anonymizer.batch(table_name, rows) if anonymizer else rows)
            if writer.rows("io") > ios_before:
                with_io.add(source.name)
            outcome = trace.outcome()
            source.events = outcome.events
            outcomes.append((source.name, shift_ns, outcome))
        quality = merge_quality(outcomes, with_io)
        quality.notes += opening.notes
        sources, host = opening.sources(), traces[0][1].host
        if anonymizer:
            title, host = "anonymized import", anonymizer.host(host)
            anonymizer.sources(sources, quality)
        manifest = Manifest(
            kind="captured",
            title=title,
            clock=Clock(
                clock.start_utc_ns, max(trace.clock.resolution_ns for _, trace in traces), clock.name
            ),
            window_start_ns=min(shift + outcome.window_start_ns for _, shift, outcome in outcomes),
            window_end_ns=max(shift + outcome.window_end_ns for _, shift, outcome in outcomes),
            host=host,
            sources=sources,
            quality=quality.judge(writer.rows("io")),
        )
        return writer.commit(manifest)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _title(paths: Sequence[Path | str]) -> str:
    first = Path(paths[0]).name
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _reporting(progress: Progress, what: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(what, done, total)


def _silent(_what: str, _done: int, _total: int) -> None:
    pass
