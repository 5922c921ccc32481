"""The ceiling command: what the hardware of a path can do at most."""

from pathlib import Path
from typing import Annotated

import typer

from iotrace.analyze.ceiling import Ceiling, Limit, ceiling, example, read_path
from iotrace.analyze.ceiling.against_knee import BesideKnee
from iotrace.analyze.units import DASH, format_bytes
from iotrace.schemas import IotraceError

from . import console
from .amounts import parse_bytes
from .options import Json


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("ceiling")(ceiling_command)


def ceiling_command(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH.toml", help="What the path to the storage is made of.", show_default=False
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", metavar="SIZE", help="Work IOPS out for this mean size: 8K, 64K.", show_default=False
        ),
    ] = None,
    example_: Annotated[bool, typer.Option("--example", help="Print a commented PATH.toml to edit.")] = False,
    json: Json = False,
) -> int:
    """Say what the hardware can do at most.

    Every limit of cards, slots, ports, virtual machine, disks and queues, and the one that binds. Exit status 1 if
    nothing limits.

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
        console.print_json(found.to_dict())
    else:
        print_ceiling(found)
    return 0 if found.binding else 1


def print_ceiling(found: Ceiling) -> None:
    """The answer, every limit, and where the figures are from."""
    console.heading(f"Ceiling of {found.title}" if found.title else "Ceiling")
    if found.binding is None:
        console.paragraph("nothing in the description limits anything")
        return
    console.paragraph(_sentence(found))
    sources = list(dict.fromkeys(limit.source for limit in found.limits))
    heads = [
        "\nlimit",
        "MB/s\nby name",
        "\none way",
        "\nthis mix",
        f"IOPS of\n{format_bytes(found.size_bytes)}",
        "",
        "",
    ]
    console.table(heads, [_row(limit, found, sources) for limit in found.limits])
    for note in found.notes:
        console.paragraph(f"note: {note}")
    if found.one_at_a_time_iops:
        one = found.one_at_a_time_iops
        console.paragraph(
            f"one I/O at a time: {one:,.0f} IOPS, {one * found.size_bytes / 1e6:,.0f} MB/s; more takes more in flight"
        )
    for number, source in enumerate(sources, start=1):
        console.paragraph(f"[{number}] {source}", style="dim")


def print_beside_knee(found: BesideKnee) -> None:
    """A knee held against the ceiling: the sentence, where to look, and the limits."""
    console.heading("Beside the ceiling of the path")
    console.paragraph(found.sentence)
    for one in found.suggestions:
        console.paragraph(f"as if {one.what} ({one.mb_per_s:,.0f} MB/s): look at {one.look_at}", indent=2)
    print_ceiling(found.ceiling)


def _sentence(found: Ceiling) -> str:
    assert found.binding is not None
    share = found.read_share
    mix = "all one way" if share is None else f"{share * 100:.0f} % of the bytes read"
    assumed = ", a size nobody stated" if found.size_assumed else ""
    return (
        f"At most {found.binding.mb_per_s:,.0f} MB/s, {found.binding.iops:,.0f} IOPS of "
        f"{format_bytes(found.size_bytes)}{assumed} ({mix}). It binds: {found.binding.name}."
    )


def _row(limit: Limit, found: Ceiling, sources: list[str]) -> list[str]:
    assert found.binding is not None
    name = f"  {limit.name}" if limit.part else limit.name
    share = "binds" if limit is found.binding else f"{limit.mb_per_s / found.binding.mb_per_s:,.1f}x"
    return [
        name,
        _rate(limit.by_name_mb_per_s),
        _rate(limit.stated_mb_per_s),
        _rate(limit.mb_per_s),
        f"{limit.iops:,.0f}",
        DASH if limit.part else share,
        f"[{sources.index(limit.source) + 1}]",
    ]


def _rate(mb_per_s: float | None) -> str:
    return DASH if mb_per_s is None else f"{mb_per_s:,.0f}"
