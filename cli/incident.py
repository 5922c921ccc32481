"""The incident command."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze import validity
from iotrace.analyze.incident import Incidents, cut, incident, window_to_cut
from iotrace.analyze.incident.presentation import incident_answer
from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.present.trust import has_invalid
from iotrace.analyze.validity import Finding
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.writer import refuse_over_source

from . import console
from .amounts import parse_seconds
from .options import Full, Json, Overwrite, RecordingPath, Title
from .show import show
from .summary import Written, print_recording, written


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("incident")(incident_command)


@dataclass(frozen=True, kw_only=True)
class IncidentAnswer(ProgramAnswer):
    """What `incident` answers."""

    schema: Literal["iotrace.incident/1"] = "iotrace.incident/1"
    is_valid: bool
    found: Annotated[Incidents, INLINE]
    findings: list[Finding]
    cut: Written | None
    """The recording of the window that was cut out, where one was."""


def incident_command(
    recording: RecordingPath,
    cut_number: Annotated[
        int | None,
        typer.Option(
            "--cut",
            metavar="N",
            help="Write slow window N as a recording of its own, with as much before and after it.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="NAME.iotrace",
            help="Where --cut writes it.",
            show_default=False,
        ),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(
            "--margin",
            metavar="TIME",
            help="How much before and after the window --cut takes: 30s, 5m.",
            show_default=False,
        ),
    ] = None,
    overwrite: Overwrite = False,
    title: Title = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """Find slow windows: when, in which layer, load or storage.

    What is normal comes from the rest of the recording. Works on counter logs and DMV snapshots, too, as far as means
    tell. Exit status 0 whether or not there is a slow window.

    Example: iotrace incident prod.iotrace --cut 1 -o night.iotrace
    """
    if (cut_number is None) != (output is None):
        raise IotraceError(
            "--cut and --output go together",
            hint="for example --cut 1 -o incident.iotrace; without them the slow windows are listed",
        )
    if margin is not None and cut_number is None:
        raise IotraceError("--margin says how much --cut takes", hint="add --cut N -o NAME.iotrace")
    margin_ns = None if margin is None else parse_seconds(margin) * 1_000_000_000
    opened = Recording.open(recording)
    if output is not None:
        refuse_over_source(output, [recording])
    with console.working("looking for slow windows"):
        found = incident(opened)
        findings = validity.check(opened)
    taken = None
    if cut_number is not None and output is not None:
        window, start_ns, end_ns = window_to_cut(found, cut_number, margin_ns)
        name = title or f"{found.title}: slow window {window.number} ({window.cause})"
        with console.working("cutting it out"):
            taken = cut(opened, output, (start_ns, end_ns), title=name, overwrite=overwrite)
    if json:
        console.print_answer(
            IncidentAnswer(
                is_valid=not has_invalid(findings),
                found=found,
                findings=findings,
                cut=written(taken) if taken else None,
            )
        )
        return
    if taken is not None:
        print_recording(taken)
        return
    manifest = opened.manifest
    show(
        incident_answer(found, manifest.clock.start_utc_ns, recording.name, manifest.quality, findings),
        full=full,
    )
