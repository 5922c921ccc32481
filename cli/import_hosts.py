"""`import --hosts`: a recording of each host of a folder, several made at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from iotrace.analyze.fleet import Unread, read_each
from iotrace.analyze.present import Answer, Cell, Duration, Instant, Number, Section, Sentence, Table
from iotrace.analyze.present.answer import columns
from iotrace.analyze.present.program import ProgramAnswer
from iotrace.capture.importing.anonymizing import Anonymizer
from iotrace.capture.importing.traces import import_any
from iotrace.schemas import IotraceError, Quality, Recording, counted
from iotrace.schemas.text import shortened

from . import console
from .show import show

_SUFFIX: Final = ".iotrace"
_ARCHIVES: Final = (".zip", ".7z", ".cab", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst")
_HOST_CHARACTERS: Final = 24


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
    options.output.mkdir(parents=True, exist_ok=True)
    with console.progress("importing") as meter:
        found = read_each(
            partial(_import_one, options),
            hosts,
            lambda count: meter.update(count, len(hosts), f"{count} of {counted(len(hosts), 'host')}"),
        )
    imported = [one for one in found if isinstance(one, HostImported)]
    left_out = [one for one in found if isinstance(one, Unread)]
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


def _written_to(host: Path, options: ImportOptions) -> Path:
    return options.output / f"{_name(host)}{_SUFFIX}"


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
        other = taken.setdefault(_name(host).casefold(), host)
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
        host=_name(host),
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
        names = ", ".join(shortened(one.host, _HOST_CHARACTERS) for one in flawed)
        said.append(Sentence(f"With losses or flaws: {names}", "doubt"))
    if imported:
        said.append(Sentence(f"next: iotrace describe {output}", "aside"))
    heads = columns("host", "I/Os", "other rows", "began", "lasted", text=1)
    sections = [Section("", Table(heads, [_row(one) for one in imported]))] if imported else []
    return Answer(said, sections)


def _row(one: HostImported) -> tuple[Cell, ...]:
    ios = one.rows.get("io", 0)
    return (
        shortened(one.host, _HOST_CHARACTERS),
        Number(ios),
        Number(sum(one.rows.values()) - ios),
        Instant(one.start_utc_ns),
        Duration(one.duration_ns),
    )
