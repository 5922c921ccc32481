"""The size command: which disks of a cloud carry a recorded load."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from iotrace.analyze import slo as objectives
from iotrace.analyze.present import Answer, Cell, Duration, Number, Section, Sentence, Table
from iotrace.analyze.present.answer import columns
from iotrace.analyze.present.program import ProgramAnswer
from iotrace.analyze.report.sizing import Demand, write_sizing
from iotrace.analyze.units import DASH
from iotrace.replay import ReplayOptions, choose_layer, parse_scale
from iotrace.replay.virtual.size import Sized, Tried, Wanted, size_catalogue
from iotrace.schemas import IotraceError, Recording, Role
from iotrace.schemas.models import Disk, catalogue_names
from iotrace.schemas.models import catalogue as catalogue_of
from iotrace.schemas.models.catalogue import find_machine
from iotrace.schemas.sections import Reader, not_negative, read_text

from . import console
from .model import advice, age_words
from .options import Json, Need, Overwrite, RecordingPath, Slo
from .show import show
from .window import parse_busiest, parse_window

UNTESTED: Final = ", never held against real storage"
"""What must be said of the catalogue's models: their figures are what providers state."""
_OPS: Final = ("read", "write", "flush")
_ROOM_MAX: Final = 100
_SHOWN: Final = 10
"""Candidates that carry the load, smallest first, that are printed."""
_COMBINED_SHOWN: Final = 6
_SHOWN_NOT: Final = 4
"""And the largest of those that do not."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What came of one candidate, by its model."""

    name: str
    carries: bool
    on_credits: bool
    """Whether it carried this recording on credits only, and would not do so for ever."""
    why_not: str
    throttled_seconds: float
    response_ns_p50: int | None
    response_ns_p99: int | None
    headroom: float | None
    """Sustained rate over the demand of the busiest minute, of the limit where that is least."""
    binds: str
    """The limit that made I/Os wait longest, or has the least headroom where none did."""
    credits_end_share: float | None
    """Least of what is left of any credits."""
    price: float | None
    source: str
    """Where the provider states its limits."""
    date: str
    """When they were read."""


@dataclass(frozen=True, kw_only=True)
class SizeAnswer(ProgramAnswer):
    """What `size` answers."""

    schema: Literal["iotrace.size/1"] = "iotrace.size/1"
    scale: float
    slo: str | None
    carries: bool
    """Whether any of disks, and of the log on a disk of its own, carries the load."""
    candidates: list[Candidate]
    """Disks, then the log on a disk of its own, then those behind machines; the smallest, or cheapest, first."""


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
            help="Behind this machine of the catalogue, as Standard_E16bds_v5; else each is tried.",
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
            help='TOML of prices of one disk or machine each, such as "P30" = 122.88: cheapest first then.',
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

    Every disk of the catalogue is tried in virtual time (docs/virtual-replay.md says what that cannot see), the
    smallest first; then the log on a disk of its own, and machines. Exit status 1 if none carries it.

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
    sized = size_catalogue(source, options, catalogue, behind, wanted, rank=lambda one: _place(one, costs)[0])
    if costs:
        disks, splits, machines = (
            _cheapest_first(group, costs) for group in (sized.disks, sized.splits, sized.machines)
        )
        sized = Sized(disks, splits, machines, sized.machines_tried)
    best = _best_disks(sized, costs)
    answer = _answer(sized, scale, slo, costs, machine)
    if report is not None:
        named = best or sized.disks[-1]
        demands = _demands(named)
        write_sizing(
            report, source, answer, demands, named.name, carries=best is not None, overwrite=overwrite
        )
        console.say(f"wrote {report}")
    if json:
        rows = [_facts(one, costs) for one in (*sized.disks, *sized.splits, *sized.machines)]
        console.print_answer(SizeAnswer(scale=scale, slo=slo, carries=best is not None, candidates=rows))
    else:
        show(answer)
    return 0 if best is not None else 1


def _cheapest_first(tried: list[Tried], costs: dict[str, float]) -> list[Tried]:
    return sorted(tried, key=lambda one: _place(one, costs))


def _place(one: Tried, costs: dict[str, float]) -> tuple[float, float, float]:
    price = _price(one, costs) if costs else 0.0
    return float("inf") if price is None else price, one.iops, one.mb_per_s


def _best(tried: list[Tried]) -> Tried | None:
    """The first that carries the load for ever, else the first that does on credits."""
    carrying = [one for one in tried if one.carries]
    return next((one for one in carrying if not one.on_credits), carrying[0] if carrying else None)


def _best_disks(sized: Sized, costs: dict[str, float]) -> Tried | None:
    """The smallest, or cheapest, of disks and splits."""
    found = [one for one in (_best(sized.disks), _best(sized.splits)) if one is not None]
    return min(found, key=lambda one: (one.on_credits, *_place(one, costs)), default=None)


def _wanted(objective: objectives.Objective) -> Wanted:
    roles = (objective.role,) if objective.role is not None else (None, *(str(role) for role in Role))
    ops = tuple(number for number, op in enumerate(_OPS) if objective.op in {None, op})
    return Wanted(f"misses {objective}", roles, ops, objective.quantile, objective.limit_ns)


def _read_prices(path: Path) -> dict[str, float]:
    hint = 'it is TOML, such as "P30" = 122.88'
    reader = Reader(str(path), hint)
    data = reader.parse(read_text(path, what="list of prices", hint=hint))
    for name in data:
        if not any(_is_in(name, provider) for provider in catalogue_names()):
            raise IotraceError(
                f"'{path}' has a price of '{name}', and no catalogue has such a disk or machine",
                hint="iotrace model list shows what there is",
            )
    return {name: reader.checked(not_negative, price, f"the price of {name}") for name, price in data.items()}


def _is_in(name: str, provider: str) -> bool:
    held = catalogue_of(provider)
    try:
        return held.machine(name) is not None or held.disk(name) is not None
    except ValueError:
        return False


def _price(one: Tried, costs: dict[str, float]) -> float | None:
    """Of all disks, and of the machine where the list has machines at all; None where one of them has no price."""
    parts = [(disk.name.rpartition(" ")[2], disk.count) for disk in one.model.disks if disk != Disk()]
    if one.model.machine is not None and _has_machines(costs):
        parts.append((one.model.machine.name, 1))
    prices = [None if name not in costs else costs[name] * count for name, count in parts]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def _has_machines(costs: dict[str, float]) -> bool:
    return any(catalogue_of(one).machine(name) is not None for one in catalogue_names() for name in costs)


def _facts(one: Tried, costs: dict[str, float]) -> Candidate:
    return Candidate(
        name=one.name,
        carries=one.carries,
        on_credits=one.on_credits,
        why_not=one.why_not,
        throttled_seconds=one.throttled_seconds,
        response_ns_p50=one.response_ns_p50,
        response_ns_p99=one.response_ns_p99,
        headroom=one.headroom,
        binds=one.binds,
        credits_end_share=one.credits_end_share,
        price=_price(one, costs),
        source=one.model.source,
        date=str(one.model.date),
    )


def _answer(
    sized: Sized, scale: float, slo: str | None, costs: dict[str, float], machine: str | None
) -> Answer:
    load = f"{scale:g}x" + (f" with {slo}" if slo else "")
    order = "cheapest" if costs else "smallest"
    best = _best_disks(sized, costs)
    if best is None:
        count = len(sized.disks) + len(sized.splits)
        said = [Sentence(f"None of {count} candidates carries {load}, by their models{UNTESTED}.", "bad")]
    elif best.on_credits:
        said = [
            Sentence(
                f"Only on burst credits is {load} carried: by {best.name}, for as long as was recorded, by its model"
                f"{UNTESTED}.",
                "doubt",
            )
        ]
    else:
        said = [Sentence(f"{best.name} is the {order} that carries {load}, by its model{UNTESTED}.", "good")]
    sections = [_candidates(sized.disks, costs, machine)]
    if any(one.carries for one in sized.splits):
        sections.append(_splits(sized.splits, costs))
    behind = _best(sized.machines)
    if best is not None and sized.machines_tried:
        if behind is None:
            said.append(Sentence(f"None of {sized.machines_tried} machines carries {load}.", "bad"))
        else:
            for_ever = ", on credits" if behind.on_credits else ""
            uncounted = ", the machine's own price left out" if costs and not _has_machines(costs) else ""
            sentence = f"With a machine, {behind.name} is the {order}{for_ever}{uncounted}."
            said.append(Sentence(sentence, "plain"))
            sections.append(_machines(sized, costs))
    return Answer(said, sections)


def _candidates(tried: list[Tried], costs: dict[str, float], machine: str | None) -> Section:
    carrying = [one for one in tried if one.carries]
    best = _best(tried)
    chosen = [*[one for one in tried if not one.carries][-_SHOWN_NOT:], *carrying[:_SHOWN]]
    shown = [one for one in tried if one in chosen or one is best]
    notes = [f"and {len(tried) - len(shown)} others, which --json has"] if len(tried) > len(shown) else []
    if machine is not None:
        notes.append(f"All of them are behind {machine}.")
    if any("burst" in one.binds for one in shown):
        notes.append("* a burst rate: above it no credits help")
    left_out = catalogue_of(tried[0].name.partition("/")[0]).left_out()
    notes += [f"{kind.name} was not tried: {advice(kind)}." for kind in left_out]
    day = min(one.model.date for one in tried)
    notes.append(
        "No storage took part: where the provider states no latency, times are what limits add, and a dash is where "
        "they add none. "
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
    return Section(
        "Candidates", Table(columns(*heads, text=3), [_row(one, costs) for one in shown]), notes=notes
    )


def _p99(one: Tried) -> Duration:
    """A dash for 0 ns: no limit held that I/O up, and its provider states no latency."""
    return Duration(one.response_ns_p99 or None)


def _splits(tried: list[Tried], costs: dict[str, float]) -> Section:
    carrying = [one for one in tried if one.carries]
    rows: list[tuple[Cell, ...]] = [
        (
            *_disks(one),
            *([Number(_price(one, costs), 2)] if costs else []),
            _carries(one),
            _p99(one),
        )
        for one in carrying[:_COMBINED_SHOWN]
    ]
    heads = ["", "log", *(["price"] if costs else []), "carries", "p99"]
    notes = [f"The smallest disks that carry the log, and all else, of {len(tried)} combinations."]
    return Section("The log on a disk of its own", Table(columns(*heads, text=2), rows), notes=notes)


def _disks(one: Tried) -> tuple[str, str]:
    rest, _, log = one.name.partition("/")[2].partition("+")[0].partition(",")
    return rest, log.partition("=")[2]


def _machines(sized: Sized, costs: dict[str, float]) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (
            one.name.partition("/")[2].partition("+")[0],
            one.name.partition("+")[2],
            _carries(one),
            *([Number(_price(one, costs), 2)] if costs else []),
            _p99(one),
            _room(one),
        )
        for one in sized.machines[:_COMBINED_SHOWN]
    ]
    heads = ["", "machine", "carries", *(["price"] if costs else []), "p99", "room"]
    notes = [
        f"The smallest of {sized.machines_tried} machines that carry the load, with the smallest disks that do."
    ]
    return Section("Behind a machine", Table(columns(*heads, text=3), rows), notes=notes)


def _carries(one: Tried) -> str:
    return "no" if not one.carries else "credits" if one.on_credits else "yes"


def _room(one: Tried) -> Cell:
    return Number(one.headroom, 2) if one.headroom is None or one.headroom < _ROOM_MAX else f">{_ROOM_MAX}"


def _binds(one: Tried) -> str:
    owner, _, rate = one.binds.rpartition(": ")
    disks = {disk.name: disk.roles for disk in one.model.disks}
    of = "VM " if owner and owner not in disks else "log " if disks.get(owner) else ""
    return f"{of}{rate}".replace(" burst", "*")


def _row(one: Tried, costs: dict[str, float]) -> tuple[Cell, ...]:
    return (
        one.name.partition("/")[2].partition("+")[0],
        _carries(one),
        _binds(one) or "nothing",
        *([Number(_price(one, costs), 2)] if costs else []),
        _p99(one),
        _room(one),
        Number(one.throttled_seconds, 1),
        DASH if one.credits_end_share is None else f"{one.credits_end_share:.0%}",
    )


def _demands(one: Tried) -> list[Demand]:
    """Of disks alike those of the first: stripes share evenly."""
    units = {"iops": "IOPS", "mb_per_s": "MB/s"}
    found: dict[str, Demand] = {}
    for bound, per_second, step_s in one.demand():
        found.setdefault(bound.name, Demand(bound.name, units[bound.counted], bound.rate, per_second, step_s))
    return list(found.values())
