"""Commands that turn traces into recordings, and the group of those that record live."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze.describe.presentation import results_sections
from iotrace.analyze.describe.results import results_of
from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.present.program import INLINE
from iotrace.capture.importing.anonymizing import Anonymizer
from iotrace.capture.importing.anonymous_copy import copy_anonymously, is_recording
from iotrace.capture.importing.traces import import_any
from iotrace.schemas import IotraceError, Recording, Sweep
from iotrace.schemas.sweep import SweepSettings

from . import console
from .import_hosts import ImportOptions, import_hosts
from .options import Json, OutputPath, Overwrite, Title
from .show import show_section
from .summary import Written, print_recording, written

capture_group = typer.Typer(
    help="Record production I/O.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


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
            "--anonymize-key",
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
