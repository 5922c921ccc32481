"""The command that writes scripts with which a Windows host records itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.units import format_bytes, format_rate
from iotrace.capture.plan import LAYERS, PlanOptions, write_plan
from iotrace.capture.plan.options import DEFAULT_LAYERS, parse_layers
from iotrace.capture.plan.writing import sha256
from iotrace.schemas.units import MIB

from . import console
from .capture import capture_group
from .options import Json


def register(_app: typer.Typer) -> None:
    """Add the command to the group of capture commands."""
    capture_group.command("plan")(plan_command)


@dataclass(frozen=True, slots=True)
class PartFacts:
    """One recorder of the plan, and what it costs the host."""

    name: str
    events_per_second: float
    expected_bytes: float
    limit_bytes: int
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class PlanAnswer(ProgramAnswer):
    """What `capture plan` wrote."""

    schema: Literal["iotrace.plan/1"] = "iotrace.plan/1"
    path: Path
    name: str
    minutes: int
    layers: list[str]
    sql_instance: str | None
    assumed_iops: float
    files: list[str]
    parts: list[PartFacts]


def plan_command(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="A new folder for the scripts.", show_default=False
        ),
    ],
    sql_instance: Annotated[
        str | None,
        typer.Option(
            "--sql-instance",
            metavar="NAME",
            help=r"Instance on the host, such as SERVER\INST or tcp:host,1433.",
            show_default="the default instance, if a layer needs one",
        ),
    ] = None,
    minutes: Annotated[int, typer.Option("--minutes", help="How long to record.")] = 60,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            "--layers",
            metavar="LAYER,…",
            help=f"Of {', '.join(LAYERS)}.",
            show_default=",".join(DEFAULT_LAYERS),
        ),
    ] = None,
    iops: Annotated[
        int,
        typer.Option(
            "--iops", metavar="RATE", help="Expected I/Os per second; decides file limits and free space."
        ),
    ] = 10_000,
    folder: Annotated[
        str, typer.Option("--folder", metavar="PATH", help="Folder on the host for what it records.")
    ] = "C:\\iotrace",
    counter_format: Annotated[
        str, typer.Option("--counter-format", metavar="FORMAT", help="blg or csv.")
    ] = "blg",
    snapshot_seconds: Annotated[
        int, typer.Option("--snapshot-seconds", help="Time between DMV snapshots, 5 to 60.")
    ] = 15,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier plan at --output that nobody changed.")
    ] = False,
    json: Json = False,
) -> None:
    """Write scripts that record a Windows host with its own tools.

    Records SQL Server, too.

    Nothing is installed on the host. Read README.md in the folder before running anything.

    Example: iotrace capture plan --output plan --minutes 60
    """
    options = PlanOptions(
        layers=parse_layers(layers) if layers is not None else DEFAULT_LAYERS,
        sql_instance=sql_instance,
        minutes=minutes,
        iops=iops,
        folder=folder,
        counter_format=counter_format,
        snapshot_seconds=snapshot_seconds,
    )
    plan = write_plan(options, output, overwrite=overwrite)
    parts = plan.budget.parts
    if json:
        console.print_answer(
            PlanAnswer(
                path=output,
                name=plan.name,
                minutes=options.minutes,
                layers=list(options.layers),
                sql_instance=options.instance,
                assumed_iops=options.iops,
                files=sorted(plan.files),
                parts=[
                    PartFacts(
                        part.name,
                        part.events_per_second,
                        part.expected_bytes,
                        part.limit_mib * MIB,
                        part.memory_mib * MIB,
                    )
                    for part in parts
                ],
            )
        )
        return
    console.heading(f"{output}: {options.minutes:,} minutes of {', '.join(options.layers)}")
    console.table(
        ["on the host", "events", "expected", "at most"],
        [
            *(
                [
                    part.title,
                    format_rate(part.events_per_second or None),
                    format_bytes(part.expected_bytes),
                    format_bytes(part.limit_mib * MIB),
                ]
                for part in parts
            ),
            [
                "together",
                "",
                format_bytes(plan.budget.total_expected_bytes),
                format_bytes(plan.budget.total_limit_mib * MIB),
            ],
        ],
    )
    console.paragraph(f"sizes are for {options.iops:,} I/Os per second all the time; --iops changes that")
    console.paragraph("read README.md in the folder, then copy it to the server and run start.ps1 there")
    console.paragraph(
        f"SHA-256 of start.ps1, to compare with Get-FileHash there: {sha256(plan.files['start.ps1'])}"
    )
