"""The size command: which disks of a cloud carry a recorded load."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from iotrace.analyze import slo as objectives
from iotrace.analyze.present import Answer, Cell, Duration, Number, Section, Sentence, Table
from iotrace.analyze.present.answer import columns
from iotrace.analyze.report.sizing import Demand, write_sizing
from iotrace.analyze.units import DASH
from iotrace.replay import ReplayOptions, choose_layer, parse_scale
from iotrace.replay.virtual.size import Tried, Wanted, candidates, size
from iotrace.schemas import IotraceError, Recording, Role
from iotrace.schemas.models.catalogue import find_machine
from iotrace.schemas.sections import Reader, not_negative, read_text

from . import console
from .model import age_words
from .options import Json, Need, Overwrite, RecordingPath, Slo
from .show import show
from .window import parse_busiest, parse_window

_OPS: Final = ("read", "write", "flush")
_ROOM_MAX: Final = 100
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
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Write a page, too, with the demand against each limit over time.",
            show_default=False,
        ),
    ] = None,
    overwrite: Overwrite = False,
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
    answer = _answer(tried, carrying, scale, slo, costs)
    if report is not None:
        best = next((one for one in carrying if not one.on_credits), (carrying or tried[-1:])[0])
        demands = _demands(best)
        write_sizing(report, source, answer, demands, best.name, carries=bool(carrying), overwrite=overwrite)
        console.say(f"wrote {report}")
    if json:
        rows = [_facts(one, costs) for one in tried]
        facts = {"scale": scale, "slo": slo, "carries": bool(carrying), "candidates": rows}
        console.print_json({"schema": "iotrace.size/1"} | facts)
    else:
        show(answer)
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


def _answer(
    tried: list[Tried], carrying: list[Tried], scale: float, slo: str | None, costs: dict[str, float]
) -> Answer:
    load = f"{scale:g}x" + (f" with {slo}" if slo else "")
    lasting = [one for one in carrying if not one.on_credits]
    order = "cheapest" if costs else "smallest"
    if lasting:
        said = Sentence(f"{lasting[0].name} is the {order} that carries {load}, by its model.", "good")
    elif carrying:
        name = carrying[0].name
        said = Sentence(
            f"Only on burst credits is {load} carried: by {name}, for as long as was recorded.", "doubt"
        )
    else:
        said = Sentence(f"None of {len(tried)} candidates carries {load}, by their models.", "bad")
    shown = [*[one for one in tried if not one.carries][-_SHOWN_NOT:], *carrying[:_SHOWN]]
    shown = [one for one in tried if one in shown or one in lasting[:1]]
    notes = [f"and {len(tried) - len(shown)} others, which --json has"] if len(tried) > len(shown) else []
    if tried[0].model.machine is not None:
        notes.append(f"All of them are behind {tried[0].model.machine.name}.")
    if any("burst" in one.binds for one in shown):
        notes.append("* a burst rate: above it no credits help")
    day = min(one.model.date for one in tried)
    notes.append(
        "No storage took part: times are what limits add, where the provider states no latency. "
        f"Figures are from {day} or later ({age_words(day)}); iotrace model list names their sources."
    )
    heads = [
        "",
        "carries",
        "binds",
        *(["price"] if costs else []),
        "p99",
        "room",
        "seconds held",
        "credit left",
    ]
    table = Table(columns(*heads, text=3), [_row(one, costs) for one in shown])
    return Answer([said], [Section("Candidates", table, notes=notes)])


def _row(one: Tried, costs: dict[str, float]) -> tuple[Cell, ...]:
    owner, _, rate = one.binds.rpartition(": ")
    of = "" if owner in {"", one.model.disks[0].name} else "VM "
    binds = f"{of}{rate}".replace(" burst", "*")
    return (
        one.name.partition("/")[2].partition("+")[0],
        "no" if not one.carries else "credits" if one.on_credits else "yes",
        binds or "nothing",
        *([Number(_price(one, costs), 2)] if costs else []),
        Duration(one.response_ns_p99),
        Number(one.headroom, 2) if one.headroom is None or one.headroom < _ROOM_MAX else f">{_ROOM_MAX}",
        Number(one.throttled_seconds, 1),
        DASH if one.credits_end_share is None else f"{one.credits_end_share:.0%}",
    )


def _demands(one: Tried) -> list[Demand]:
    """Of disks alike those of the first: stripes share evenly."""
    units = {"iops": "IOPS", "mb_per_s": "MB/s"}
    found: dict[str, Demand] = {}
    for bound, per_second in one.demand():
        found.setdefault(bound.name, Demand(bound.name, units[bound.counted], bound.rate, per_second))
    return list(found.values())
