"""The model commands: what a model file looks like, what the catalogue holds, and a model made from measurements."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from iotrace.analyze.present.program import ProgramAnswer
from iotrace.analyze.units import DASH, format_share
from iotrace.replay.virtual.fit import fit, to_toml
from iotrace.schemas import Recording, Sweep, counted
from iotrace.schemas.models import BySize, Disk, Limit, Machine, catalogue, catalogue_names, example
from iotrace.schemas.replacing import check_file, new_file
from iotrace.schemas.run import ClosedLoop, ModelTest
from iotrace.schemas.text import shortened

from . import console
from .characterize_run import MARK, series_of
from .options import Json

_UNFIT: Final = 5.0
"""A model that may be so many times off is of no use for sizing; closed loops alone are taken to be 3.5 times off."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """A disk or machine that there is a model of."""

    name: str
    source: str
    """Where the provider states its limits."""
    date: str
    """When they were read."""
    iops: list[float | None]
    """Of each of its limits; None where it limits bytes only."""
    mb_per_s: list[float | None]


@dataclass(frozen=True, kw_only=True)
class HeldByProvider:
    """What the catalogue holds of one provider."""

    disks: list[Held]
    machines: list[Held]


@dataclass(frozen=True, kw_only=True)
class ModelListAnswer(ProgramAnswer):
    """What `model list` answers."""

    schema: Literal["iotrace.model-list/1"] = "iotrace.model-list/1"
    providers: dict[str, HeldByProvider]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Models of storage, to replay on.")
    group.command("example")(example_command)
    group.command("list")(list_command)
    group.command("fit")(fit_command)
    app.add_typer(group, name="model")


def example_command() -> int:
    """Print a commented model file to edit.

    Example: iotrace model example > new.toml
    """
    typer.echo(example(), nl=False)
    return 0


def list_command(
    provider: Annotated[
        str | None,
        typer.Argument(
            metavar="PROVIDER", help="Only this provider: azure, aws, google.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> int:
    """List the disks and machines of the catalogue.

    Shows the source of each one's figures, and how old they are.

    Example: iotrace model list azure
    """
    names = catalogue_names() if provider is None else [provider]
    if json:
        console.print_answer(ModelListAnswer(providers={name: _facts(name) for name in names}))
        return 0
    for name in names:
        _print(name)
    return 0


def _factor_off(tested: ModelTest) -> float:
    """How many times more or less than a model says may be measured, by its 90 % intervals."""
    ends = [*tested.response_p50_ratio, *tested.response_p99_ratio]
    return max((max(one, 1 / one) for one in ends), default=1.0)


def fit_command(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT",
            help="Replays, sweeps and characterizations of one real device.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE.toml", help="File for the model.", show_default=False),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> int:
    """Make a model of a device from measurements on it.

    The model has service times by operation, size and number in flight. Each run is compared with a model of the
    others. The model file states the largest errors, and what no run covered.

    Example: iotrace model fit sweep.iotrace -o disk.toml
    """
    check_file(output, overwrite=overwrite)
    recordings = [one for path in inputs for one in _recordings(path)]
    model = fit(recordings, name=shortened(output.stem.strip()) or "disk")
    with new_file(output, overwrite=overwrite) as partial:
        partial.write_text(to_toml(model), "utf-8", newline="\n")
    cells = model.disks[0].service.cells
    if model.tested is not None and (factor := _factor_off(model.tested)) >= _UNFIT:
        console.paragraph(
            f"Do not size with this model: what is measured may be {factor:.2g} times off what it says.",
            style="yellow",
        )
    console.paragraph(f"wrote {output}: {counted(len(cells), 'cell')} from {counted(len(recordings), 'run')}")
    if model.tested is None:
        console.paragraph("one run cannot show how good it is: give two or more", style="yellow")
        return 0
    tested = model.tested
    console.paragraph(
        f"each run predicted from the others: response off by up to "
        f"{format_share(tested.response_p50_error, 0)} at the p50 and "
        f"{format_share(tested.response_p99_error, 0)} at the p99"
    )
    within = (
        f"{low:.2g} to {high:.2g} times at the {name}"
        for name, (low, high) in (("p50", tested.response_p50_ratio), ("p99", tested.response_p99_ratio))
    )
    console.paragraph(f"90 % intervals of what is measured over what it says: {', '.join(within)}")
    if all(isinstance(one.manifest.replay, ClosedLoop) for one in recordings):
        console.paragraph(
            "closed loops alone: neither processor nor device falls asleep in them, so I/Os that come singly may take "
            "several times as long; with a replay among the results the intervals are narrower",
            style="yellow",
        )
    console.paragraph(f"not tested: {tested.beyond}")
    for limit in model.disks[0].limits:
        rates = [
            f"{rate:,.0f} {unit}" for rate, unit in ((limit.iops, "IOPS"), (limit.mb_per_s, "MB/s")) if rate
        ]
        slices = f", in slices of {limit.slice_ms:g} ms" if limit.slice_ms else ""
        console.paragraph(f"{limit.ops}s are capped at {' and '.join(rates)}{slices}")
    return 0


def _recordings(path: Path) -> list[Recording]:
    """A recording, or the steps of a sweep, or of all series of a characterization."""
    if (path / MARK).is_file():
        return [one for series in series_of(path) for one in Sweep.open(series).recordings()]
    if (path / "sweep.json").is_file():
        return Sweep.open(path).recordings()
    return [Recording.open(path)]


def _facts(name: str) -> HeldByProvider:
    held = catalogue(name)
    machines = [found for one in held.machines if (found := held.machine(one.name)) is not None]
    return HeldByProvider(
        disks=[_held(one) for one in held.listed()], machines=[_held(one) for one in machines]
    )


def _held(one: Disk | Machine) -> Held:
    return Held(
        name=one.name,
        source=one.source,
        date=str(one.date),
        iops=[limit.iops for limit in one.limits],
        mb_per_s=[limit.mb_per_s for limit in one.limits],
    )


def _print(name: str) -> None:
    held = catalogue(name)
    console.heading(held.title)
    machines = [found for one in held.machines if (found := held.machine(one.name)) is not None]
    entries: list[Disk | Machine] = [*held.listed(), *machines]
    sources = list(dict.fromkeys((one.source, one.date) for one in entries))
    rows = [
        [f"{name}/{one.name}", *_limits(one.limits), f"[{sources.index((one.source, one.date)) + 1}]"]
        for one in entries
    ]
    heads = ["", "IOPS", "MB/s", "burst IOPS", "burst MB/s", ""]
    # Where nothing bursts, names have the room.
    told = [any(row[place] != DASH for row in rows) for place in range(len(heads))]
    kept = [[cell for cell, shown in zip(row, told, strict=True) if shown] for row in (heads, *rows)]
    console.table(kept[0], kept[1:])
    for one in held.left_out():
        console.paragraph(f"{one.name} is not tried by iotrace size: {advice(one)}", style="dim")
    for number, (title, day) in enumerate(sources, start=1):
        console.paragraph(f"[{number}] {title}, {day}: {age_words(day)}", style="dim")


def _limits(limits: tuple[Limit, ...]) -> list[str]:
    columns = ([], [], [], [])  # type: tuple[list[float], ...]
    for limit in limits:
        values = (limit.iops, limit.mb_per_s, limit.burst_iops, limit.burst_mb_per_s)
        for column, value in zip(columns, values, strict=True):
            if value is not None:
                column.append(value)
    return [f"{min(column):,.0f}" if column else DASH for column in columns]


def advice(one: BySize) -> str:
    """Why a disk is left out where a database is sized."""
    return f"its provider advises against it for {one.advised_against_for}"


def age_words(day: str) -> str:
    """How old a figure is: providers change theirs."""
    months = (datetime.now(UTC).date() - date.fromisoformat(day)).days / 30.44
    return "new this month" if months < 1 else f"{months:,.0f} months old"
