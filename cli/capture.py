"""Commands that turn traces into recordings, one a host of a folder too, and the group of those that record live."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from iotrace.analyze.describe.presentation import results_sections
from iotrace.analyze.describe.results import results_of
from iotrace.analyze.fleet import Unread, read_each
from iotrace.analyze.present import (
    Answer,
    Cell,
    Duration,
    Instant,
    Number,
    ProgramAnswer,
    Section,
    Sentence,
    Table,
)
from iotrace.analyze.present.answer import columns
from iotrace.analyze.present.program import INLINE
from iotrace.capture.importing.anonymizing import Anonymizer, copy_anonymously, is_recording
from iotrace.capture.importing.traces import import_any
from iotrace.schemas import IotraceError, Quality, Recording, Sweep, counted
from iotrace.schemas.durable import create_private_folder
from iotrace.schemas.sweep import SweepSettings
from iotrace.schemas.text import HOST_CHARACTERS, printable, shortened

from . import console
from .options import ANONYMIZE_KEY, Json, OutputPath, Overwrite, Title
from .show import show, show_section
from .summary import Written, print_recording, written

capture_group = typer.Typer(
    help="Record production I/O.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)
_SUFFIX: Final = ".iotrace"
_ARCHIVES: Final = (".zip", ".7z", ".cab", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst")


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("import")(import_command)
    app.add_typer(capture_group, name="capture")


def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Trace files, or folders or zips of them.", show_default=False),
    ],
    output: OutputPath,
    map_: Annotated[
        list[Path] | None,
        typer.Option(
            "--map",
            metavar="COLUMNS.toml|NAME",
            help="How to read an unknown CSV: a file, or a mapping that comes with iotrace, such as ontap.",
            show_default=False,
        ),
    ] = None,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Replace names by pseudonyms and leave text out.")
    ] = False,
    anonymize_key: Annotated[
        str | None,
        typer.Option(
            ANONYMIZE_KEY,
            metavar="SECRET",
            help="A key, to get the same pseudonyms again.",
            show_default=False,
        ),
    ] = None,
    apart_in_time: Annotated[
        bool, typer.Option("--apart-in-time", help="Accept sources that share no time.")
    ] = False,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone",
            metavar="ZONE",
            help="Time zone of logs that do not name theirs, or not clearly.",
            show_default=False,
        ),
    ] = None,
    hosts: Annotated[
        bool,
        typer.Option(
            "--hosts",
            help="FILE is a folder with a folder or zip for each host: make a recording of each, in the folder -o.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    title: Title = None,
    json: Json = False,
) -> int:
    """Turn trace files into a recording.

    iotrace recognises files by their content, puts several onto one clock, and takes every trace of a folder or
    zip. It also takes results of DiskSpd, fio, HammerDB, SQLIO, Iometer and vdbench; several runs become a sweep.
    With --anonymize it copies an existing recording without its names.

    Example: iotrace import kernel.etl -o prod.iotrace
    """
    anonymizer = Anonymizer(anonymize_key) if anonymize or anonymize_key else None
    if hosts:
        if title is not None:
            raise IotraceError(
                "--title is that of one recording, and --hosts makes one for each host", hint="leave it out"
            )
        options = ImportOptions(
            output=output,
            overwrite=overwrite,
            maps=tuple(map_ or ()),
            anonymizer=anonymizer,
            apart_in_time=apart_in_time,
            timezone=timezone,
        )
        return import_hosts(files, options, json=json)
    if anonymizer and (recordings := [path for path in files if is_recording(path)]):
        if len(files) > 1:
            raise IotraceError(
                f"'{recordings[0]}' is a recording, of which an anonymous copy is made by itself",
                hint=f"name it alone: iotrace import {recordings[0]} --anonymize -o {output}",
            )
        with console.working("copying"):
            copy = copy_anonymously(files[0], output, anonymizer, overwrite=overwrite, title=title)
        show_recording(copy, json=json)
        return 0
    with console.progress("importing") as meter:
        imported = import_any(
            files,
            output,
            overwrite=overwrite,
            title=title,
            progress=lambda name, done, total: meter.update(done, total, name),
            maps=map_ or [],
            anonymizer=anonymizer,
            apart_in_time=apart_in_time,
            timezone=timezone,
        )
    if isinstance(imported, Recording):
        show_recording(imported, json=json)
    else:
        show_sweep(imported, json=json)
    return 0


@dataclass(frozen=True, kw_only=True)
class ImportAnswer(ProgramAnswer):
    """A recording that was written: what `import` and `capture` answer."""

    schema: Literal["iotrace.import/1"] = "iotrace.import/1"
    imported: Annotated[Written, INLINE]


@dataclass(frozen=True, kw_only=True)
class ImportSweepAnswer(ProgramAnswer):
    """What `import` answers of runs at several loads."""

    schema: Literal["iotrace.import-sweep/1"] = "iotrace.import-sweep/1"
    path: Path
    title: str
    settings: SweepSettings
    steps: list[Written]


def show_recording(recording: Recording, *, json: bool) -> None:
    """What was made, for people or programs."""
    if json:
        console.print_answer(ImportAnswer(imported=written(recording)))
    else:
        print_recording(recording)
        console.say(f"next: iotrace describe {shlex.quote(str(recording.path))}")


def show_sweep(sweep: Sweep, *, json: bool) -> None:
    """The runs that became a sweep, for people or programs."""
    steps = sweep.recordings()
    if json:
        console.print_answer(
            ImportSweepAnswer(
                path=sweep.path,
                title=sweep.title,
                settings=sweep.settings,
                steps=[written(step) for step in steps],
            )
        )
        return
    console.paragraph(f"wrote {sweep.path}: {len(steps)} runs in order of {_axis(sweep)}")
    console.paragraph(sweep.title, indent=2)
    if differences := sweep.settings.unlike:
        console.paragraph(f"note: the runs differ in {differences} too", indent=2)
    for note in dict.fromkeys(note for step in steps for note in step.manifest.quality.notes):
        console.paragraph(f"note: {note}", indent=2)
    for section in results_sections(results_of(steps)):
        show_section(section)


def _axis(sweep: Sweep) -> str:
    words = {
        "outstanding": "I/Os outstanding",
        "offered_iops": "IOPS asked for",
        "virtual_users": "virtual users",
    }
    axis = str(sweep.settings.axis)
    return words.get(axis, "their files" if axis == "run" else axis)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostImported:
    """What was made of one host's folder or archive."""

    host: str
    path: str
    kind: Literal["recording", "sweep"]
    rows: dict[str, int]
    """By table, of all steps of a sweep."""
    start_utc_ns: int
    duration_ns: int
    quality: Quality | None
    """None of a sweep: its steps have their own."""


@dataclass(frozen=True, kw_only=True)
class ImportHostsAnswer(ProgramAnswer):
    """What `import --hosts` answers."""

    schema: Literal["iotrace.import-hosts/1"] = "iotrace.import-hosts/1"
    imported: list[HostImported]
    left_out: list[Unread]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOptions:
    """The options of `import` that are the same for every host."""

    output: Path
    overwrite: bool
    maps: tuple[Path, ...]
    anonymizer: Anonymizer | None
    apart_in_time: bool
    timezone: str | None


def import_hosts(words: Sequence[Path], options: ImportOptions, *, json: bool) -> int:
    """Make a recording of each host in the one folder of ``words``; exit status 1 if one could not be made.

    Raises `IotraceError`, before anything is read, for what is no folder of hosts and for an output in the way.
    """
    hosts = _hosts(words)
    _prepare(hosts, options)
    if not options.output.is_dir():  # its names are those of hosts
        create_private_folder(options.output)
    with console.progress("importing") as meter:
        found = read_each(
            partial(_import_one, options),
            hosts,
            lambda count: meter.update(count, len(hosts), f"{count} of {counted(len(hosts), 'host')}"),
        )
    imported = [one for one in found if isinstance(one, HostImported)]
    left_out = [one for one in found if isinstance(one, Unread)]
    if options.anonymizer is not None:
        _tell_terminal(hosts, options)
        imported.sort(key=lambda one: one.host)  # the order of the names tells something of them, too
        left_out = [_namelessly(one, options) for one in left_out]
    if json:
        console.print_answer(ImportHostsAnswer(imported=imported, left_out=left_out))
    else:
        show(_answer(imported, left_out, options.output))
    return 1 if left_out else 0


def _hosts(words: Sequence[Path]) -> list[Path]:
    hint = "name the one folder that holds a folder, or a zip, for each host"
    if len(words) != 1:
        raise IotraceError(f"--hosts takes one folder, and these are {len(words)} names", hint=hint)
    folder = words[0]
    if not folder.is_dir():
        problem = "is a file, not a folder of hosts" if folder.exists() else "does not exist"
        raise IotraceError(f"'{folder}' {problem}", hint=hint)
    held = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    hosts = [path for path in held if path.is_dir() or _is_archive(path)]
    if loose := [path for path in held if path not in hosts]:
        raise IotraceError(
            f"'{loose[0]}' lies beside the hosts' folders, and nothing says whose it is",
            hint="move it into its host's folder; for the files of one host leave --hosts out",
        )
    if not hosts:
        raise IotraceError(f"'{folder}' is empty", hint=hint)
    return hosts


def _is_archive(path: Path) -> bool:
    return path.suffix.lower() in _ARCHIVES


def _name(host: Path) -> str:
    name = host.name
    while not host.is_dir() and Path(name).suffix.lower() in _ARCHIVES:
        name = Path(name).stem
    return name


def _name_written(host: Path, options: ImportOptions) -> str:
    """What everything that is written calls the host: its pseudonym, where names are to go."""
    return _name(host) if options.anonymizer is None else options.anonymizer.host_name(_name(host))


def _written_to(host: Path, options: ImportOptions) -> Path:
    return options.output / f"{_name_written(host, options)}{_SUFFIX}"


def _tell_terminal(hosts: Sequence[Path], options: ImportOptions) -> None:
    """Which pseudonym is whose, on a screen alone: no file, pipe or log is to hold both."""
    if sys.stderr.isatty():
        for host in hosts:
            console.words.print(printable(f"{host.name} becomes {_name_written(host, options)}"))


def _namelessly(one: Unread, options: ImportOptions) -> Unread:
    """``one`` as an answer may hold it; what went wrong names files of the host, so only stderr says that."""
    console.warn(f"{Path(one.path).name} is left out: {one.problem}")
    return Unread(_name_written(Path(one.path), options), "could not be imported; its warning says why")


def _prepare(hosts: Sequence[Path], options: ImportOptions) -> None:
    """Refuse what would be found in the way only after some hosts have been imported."""
    output = options.output
    if output.suffix == _SUFFIX or (output.exists() and not output.is_dir()):
        raise IotraceError(
            f"'{output}' names one recording, and --hosts makes one for each host",
            hint="name a folder: -o fleet",
        )
    taken: dict[str, Path] = {}
    for host in hosts:
        other = taken.setdefault(_written_to(host, options).name.casefold(), host)
        if other is not host:
            raise IotraceError(
                f"'{host.name}' and '{other.name}' would both become {_written_to(host, options).name}",
                hint="put both into one folder if they are of one host, or rename one",
            )
        target = _written_to(host, options)
        if target.exists() and not options.overwrite:
            raise IotraceError(f"'{target}' exists", hint="choose another -o, or add --overwrite")


def _import_one(options: ImportOptions, host: Path) -> HostImported | Unread:
    try:
        made = import_any(
            [host],
            _written_to(host, options),
            overwrite=options.overwrite,
            maps=options.maps,
            anonymizer=options.anonymizer,
            apart_in_time=options.apart_in_time,
            timezone=options.timezone,
        )
    except IotraceError as problem:
        return Unread(str(host), problem.message)
    parts = [made] if isinstance(made, Recording) else made.recordings()
    rows: dict[str, int] = {}
    for one in parts:
        for table, count in one.manifest.rows.items():
            rows[table] = rows.get(table, 0) + count
    begin = min(one.manifest.clock.start_utc_ns for one in parts)
    end = max(one.manifest.clock.start_utc_ns + one.manifest.duration_ns for one in parts)
    return HostImported(
        host=_name_written(host, options),
        path=str(made.path),
        kind="recording" if isinstance(made, Recording) else "sweep",
        rows=rows,
        start_utc_ns=begin,
        duration_ns=end - begin,
        quality=made.manifest.quality if isinstance(made, Recording) else None,
    )


def _answer(imported: Sequence[HostImported], left_out: Sequence[Unread], output: Path) -> Answer:
    count = len(imported) + len(left_out)
    made = f"a recording of each of {counted(count, 'host')}"
    if left_out:
        made = f"recordings of {len(imported)} of {counted(count, 'host')}"
    said = [Sentence(f"wrote {output}: {made}", "bad" if left_out else "good")]
    said += [Sentence(f"Left out: {Path(one.path).name}: {one.problem}", "bad") for one in left_out]
    if flawed := [one for one in imported if one.quality is not None and one.quality.verdict != "good"]:
        names = ", ".join(shortened(one.host, HOST_CHARACTERS) for one in flawed)
        said.append(Sentence(f"With losses or flaws: {names}", "doubt"))
    if imported:
        said.append(Sentence(f"next: iotrace describe {output}", "aside"))
    heads = columns("host", "I/Os", "other rows", "began", "lasted", text=1)
    sections = [Section("", Table(heads, [_row(one) for one in imported]))] if imported else []
    return Answer(said, sections)


def _row(one: HostImported) -> tuple[Cell, ...]:
    ios = one.rows.get("io", 0)
    return (
        shortened(one.host, HOST_CHARACTERS),
        Number(ios),
        Number(sum(one.rows.values()) - ios),
        Instant(one.start_utc_ns),
        Duration(one.duration_ns),
    )
