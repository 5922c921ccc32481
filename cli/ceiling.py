"""The ceiling command: what the hardware of a path can do at most."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze.ceiling import Ceiling, ceiling, example, read_path
from iotrace.analyze.ceiling.presentation import ceiling_sections
from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.present.program import INLINE
from iotrace.schemas import IotraceError

from . import console
from .amounts import parse_bytes
from .options import Json
from .show import show_section


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("ceiling")(ceiling_command)


@dataclass(frozen=True, kw_only=True)
class CeilingAnswer(ProgramAnswer):
    """What `ceiling` answers."""

    schema: Literal["iotrace.ceiling/1"] = "iotrace.ceiling/1"
    found: Annotated[Ceiling, INLINE]


def ceiling_command(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH.toml", help="A description of the path to the storage.", show_default=False
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", metavar="SIZE", help="Calculate IOPS for this mean size: 8K, 64K.", show_default=False
        ),
    ] = None,
    example_: Annotated[bool, typer.Option("--example", help="Print a commented PATH.toml to edit.")] = False,
    json: Json = False,
) -> int:
    """Say what the hardware can do at most.

    Shows every limit of cards, slots, ports, virtual machine, disks and queues, and which one you hit first. Exit
    status 1 if there is no limit.

    Example: iotrace ceiling path.toml --size 64K
    """
    if example_:
        typer.echo(example(), nl=False)
        return 0
    if path is None:
        raise IotraceError(
            "ceiling needs a PATH.toml", hint="iotrace ceiling --example > path.toml makes one to edit"
        )
    found = ceiling(read_path(path), size_bytes=parse_bytes(size) if size is not None else None)
    if json:
        console.print_answer(CeilingAnswer(found=found))
    else:
        for section in ceiling_sections(found):
            show_section(section)
    return 0 if found.binding else 1
