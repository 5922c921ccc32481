"""The size command: which disks of a cloud carry a recorded load."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from iotrace.analyze import slo as objectives
from iotrace.analyze.units import DASH, format_duration_ns
from iotrace.replay import ReplayOptions, choose_layer, parse_scale
from iotrace.replay.virtual.size import Tried, Wanted, candidates, size
from iotrace.schemas import IotraceError, Recording, Role
from iotrace.schemas.models.catalogue import find_machine
from iotrace.schemas.sections import Reader, not_negative, read_text

from . import console
from .model import age_words
from .options import Json, Need, RecordingPath, Slo
from .window import parse_busiest, parse_window

_OPS: Final = ("read", "write", "flush")
_WIDTH: Final = 112
_SHOWN: Final = 10
"""Candidates that carry the load, smallest first, that are printed."""
_SHOWN_NOT: Final = 4
"""And the largest of those that do not."""


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("size")(size_command)


def size_command(
    recording: RecordingPath,
    catalogue: Annotated[
        str,
        typer.Option("--catalogue", metavar="PROVIDER", help="azure, aws or google (iotrace model list)."),
    ],
    need: Need = None,
    slo: Slo = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME",
            help="A machine of the catalogue, whose limits hold too: Standard_E16bds_v5.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="FROM..TO", help="Only this part.", show_default=False),
    ] = None,
    busiest: Annotated[
        str | None,
        typer.Option(
            "--busiest", metavar="TIME", help="Only the busiest part of this length.", show_default=False
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            metavar="FILE",
            help='TOML of prices of one disk each, such as "P30" = 122.88: cheapest first then.',
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Say which disks of a cloud carry a recorded load.

    Every candidate of the catalogue is tried in virtual time (docs/virtual-replay.md says what that cannot see), the
    smallest first. Exit status 1 if none carries it.

    Example: iotrace size prod.iotrace --need 2x --slo "p99<15ms" --catalogue azure
    """
    source = Recording.open(recording)
    scale = parse_scale(need) if need is not None else 1.0
    wanted = [_wanted(one) for one in objectives.parse(slo)] if slo else []
    costs = _read_prices(prices) if prices is not None else {}
    if window is not None and busiest is not None:
        raise IotraceError("--window and --busiest each name the part to play", hint="leave one of them out")
    part = parse_window(window, source) if window is not None else None
    options = ReplayOptions(
        targets=("model:",),
        scale=scale,
        window_ns=part
        if busiest is None
        else parse_busiest(busiest, source, layer=choose_layer(source, None)),
    )
    behind = find_machine(f"{catalogue}/{machine}", f"--machine {machine}") if machine is not None else None
    tried = size(source, options, list(candidates(catalogue, behind)), wanted)
    if costs:
        tried.sort(
            key=lambda one: (price if (price := _price(one, costs)) is not None else float("inf"), one.iops)
        )
    carrying = [one for one in tried if one.carries]
    if json:
        rows = [_facts(one, costs) for one in tried]
        console.print_json({"scale": scale, "slo": slo, "carries": bool(carrying), "candidates": rows})
    else:
        _print(tried, carrying, scale, slo, costs)
    return 0 if carrying else 1


def _wanted(objective: objectives.Objective) -> Wanted:
    roles = (objective.role,) if objective.role is not None else (None, *(str(role) for role in Role))
    ops = tuple(number for number, op in enumerate(_OPS) if objective.op in {None, op})
    return Wanted(f"misses {objective}", roles, ops, objective.quantile, objective.limit_ns)


def _read_prices(path: Path) -> dict[str, float]:
    hint = 'it is TOML, such as "P30" = 122.88'
    reader = Reader(str(path), hint)
    data = reader.parse(read_text(path, what="list of prices", hint=hint))
    return {name: reader.checked(not_negative, price, f"the price of {name}") for name, price in data.items()}


def _price(one: Tried, costs: dict[str, float]) -> float | None:
    disk = one.model.disks[0]
    price = costs.get(disk.name)
    return None if price is None else price * disk.count


def _facts(one: Tried, costs: dict[str, float]) -> dict[str, Any]:
    names = (
        "name", "carries", "on_credits", "why_not", "throttled_seconds", "response_ns_p50", "response_ns_p99",
        "headroom", "binds", "credits_end_share",
    )  # fmt: skip
    facts = {name: getattr(one, name) for name in names}
    return facts | {"price": _price(one, costs), "source": one.model.source, "date": one.model.date}


def _print(
    tried: list[Tried], carrying: list[Tried], scale: float, slo: str | None, costs: dict[str, float]
) -> None:
    load = f"{scale:g}x" + (f" with {slo}" if slo else "")
    lasting = [one for one in carrying if not one.on_credits]
    order = "cheapest" if costs else "smallest"
    if lasting:
        console.paragraph(
            f"{lasting[0].name} is the {order} that carries {load}, by its model.", style="green"
        )
    elif carrying:
        console.paragraph(
            f"Only on burst credits is {load} carried: by {carrying[0].name}, for as long as was recorded.",
            style="yellow",
        )
    else:
        console.paragraph(f"None of {len(tried)} candidates carries {load}, by their models.", style="red")
    shown = [*[one for one in tried if not one.carries][-_SHOWN_NOT:], *carrying[:_SHOWN]]
    shown = [one for one in tried if one in shown or one in lasting[:1]]
    heads = ["candidate", "carries", "throttled", "p50, p99", "room", "credits", "binds"]
    grid = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate([*heads, *(["price"] if costs else [])]):
        grid.add_column(head, justify="left" if number in {0, 1, 6} else "right", no_wrap=True)
    for one in shown:
        grid.add_row(*_row(one, costs))
    console.print_whole(grid, _WIDTH)
    if len(tried) > len(shown):
        console.paragraph(f"and {len(tried) - len(shown)} others, which --json has")
    if tried[0].model.machine is not None:
        console.paragraph(f"All of them are behind {tried[0].model.machine.name}.")
    day = min(one.model.date for one in tried)
    console.paragraph(
        "No storage took part: times are what limits add, where the provider states no latency. "
        f"Figures are from {day} or later ({age_words(day)}); iotrace model list names their sources.",
        style="dim",
    )


def _row(one: Tried, costs: dict[str, float]) -> list[str]:
    price = _price(one, costs)
    return [
        one.name.partition("/")[2].partition("+")[0],
        "no" if not one.carries else "credits" if one.on_credits else "yes",
        f"{one.throttled_seconds:,.1f} s",
        f"{_time(one.response_ns_p50)}, {_time(one.response_ns_p99)}",
        DASH if one.headroom is None else f"{one.headroom:,.2f}" if one.headroom < 100 else ">100",
        DASH if one.credits_end_share is None else f"{one.credits_end_share:.0%}",
        one.binds.removeprefix(f"{one.model.disks[0].name}: ") or "nothing",
        *([DASH if price is None else f"{price:,.2f}"] if costs else []),
    ]


def _time(ns: int | None) -> str:
    return DASH if ns is None else format_duration_ns(ns)
