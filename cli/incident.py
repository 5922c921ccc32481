"""The incident command."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze import library, validity
from iotrace.analyze.fleet import (
    FleetIncidents,
    fleet_incidents_answer,
    incident_fleet,
    incidents_of_each,
    read_groups,
    refuse_missing,
)
from iotrace.analyze.incident import Incidents, cut, incident, window_to_cut
from iotrace.analyze.incident.presentation import incident_answer
from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.present.trust import has_invalid
from iotrace.analyze.validity import Finding
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.stored import Place, brought
from iotrace.schemas.writer import refuse_over_source

from . import cluster, console
from .amounts import parse_seconds
from .cluster import Certificates, Scheduler
from .options import Full, Groups, Json, Overwrite, Title, recording_name
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


@dataclass(frozen=True, kw_only=True)
class IncidentFleetAnswer(ProgramAnswer):
    """What `incident` answers of many recordings."""

    schema: Literal["iotrace.incident-fleet/1"] = "iotrace.incident-fleet/1"
    found: Annotated[FleetIncidents, INLINE]


def incident_command(
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDING…",
            help="A recording, NAME.iotrace; or several, or a folder of them, to see what hosts share.",
            show_default=False,
        ),
    ],
    groups: Groups = None,
    cut_number: Annotated[
        int | None,
        typer.Option(
            "--cut",
            metavar="N",
            help="Write slow window N as a recording of its own, with as much time before and after it as it lasted.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="NAME.iotrace",
            help="Where --cut writes the recording.",
            show_default=False,
            callback=recording_name,
        ),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(
            "--margin",
            metavar="TIME",
            help="Time before and after the window that --cut takes: 30s, 5m.",
            show_default=False,
        ),
    ] = None,
    overwrite: Overwrite = False,
    title: Title = None,
    scheduler: Scheduler = None,
    certificates: Certificates = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Find when it was slow, in which layer, and why.

    For many hosts: which slowed down together, and what they share.

    The rest of the recording defines what is normal. Works on counter logs and DMV snapshots, too, as far as means
    allow. Exit status 0 whether or not there is a slow window; 1 if one of several recordings cannot be read.

    Example: iotrace incident prod.iotrace --cut 1 -o night.iotrace
    """
    if (cut_number is None) != (output is None):
        raise IotraceError(
            "--cut and --output go together",
            hint="for example --cut 1 -o incident.iotrace; without them the slow windows are listed",
        )
    if margin is not None and cut_number is None:
        raise IotraceError("--margin says how much --cut takes", hint="add --cut N -o NAME.iotrace")
    named = cluster.named(recordings, scheduler, certificates)
    cluster.refuse_for_one(named, scheduler)
    if len(named) > 1:
        if cut_number is not None:
            raise IotraceError(
                f"--cut takes a window out of one recording, and these are {len(named)}", hint="name one"
            )
        said = read_groups(groups) if groups else {}
        return _incident_fleet(named, said, scheduler, certificates, full=full, json=json)
    if groups is not None:
        raise IotraceError(
            "--groups says what several hosts share, and this is one recording", hint="leave it out"
        )
    with brought(named[0]) as path:
        _incident_of_one(
            path,
            cut_number,
            output,
            None if margin is None else parse_seconds(margin) * 1_000_000_000,
            title,
            overwrite=overwrite,
            full=full,
            json=json,
        )
    return 0


def _incident_fleet(
    paths: list[Place],
    groups: dict[str, dict[str, str]],
    scheduler: str | None,
    certificates: Path | None,
    *,
    full: bool,
    json: bool,
) -> int:
    if scheduler is None:
        refuse_missing(paths)
    title = "looking for slow windows"
    with cluster.executor(scheduler, certificates) as pool, console.counting(title, len(paths)) as done:
        each = incidents_of_each(cluster.as_workers_see(paths, pool), done, pool)
    found = incident_fleet(each, groups)
    if json:
        console.print_answer(IncidentFleetAnswer(found=found))
    else:
        show(fleet_incidents_answer(found), full=full)
    return 1 if found.unread else 0


def _incident_of_one(
    recording: Path,
    cut_number: int | None,
    output: Path | None,
    margin_ns: int | None,
    title: str | None,
    *,
    overwrite: bool,
    full: bool,
    json: bool,
) -> None:
    opened = Recording.open(recording)
    if output is not None:
        refuse_over_source(output, [recording])
    with console.working("looking for slow windows"), library.opened(opened) as connection:
        found = incident(opened, connection)
        findings = validity.check(opened, connection=connection)
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
