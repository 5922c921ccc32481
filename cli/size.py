"""The size command: which disks of a cloud carry a recorded load, or those of many hosts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from iotrace.analyze import slo as objectives
from iotrace.analyze.fleet import Unread, distinct_hosts, read_each, refuse_missing
from iotrace.analyze.knee.words import WAITS_NS_MIN
from iotrace.analyze.report.sizing import Demand, write_sizing
from iotrace.analyze.stats.histogram import IOS_BEYOND_MIN
from iotrace.replay import ReplayOptions, choose_layer, parse_scale
from iotrace.replay.virtual.size import Sized, Tried, Wanted, size_catalogue
from iotrace.schemas import IotraceError, Recording, Role
from iotrace.schemas.models import Machine, catalogue_names
from iotrace.schemas.models import catalogue as catalogue_of
from iotrace.schemas.models.catalogue import find_machine
from iotrace.schemas.sections import Reader, not_negative, read_text
from iotrace.schemas.stored import Place, brought

from . import cluster, console
from .amounts import parse_busiest, parse_window
from .cluster import Certificates, Scheduler
from .options import Json, Need, Overwrite, Slo
from .show import show
from .size_answer import (
    HostSized,
    SizeAnswer,
    SizeFleetAnswer,
    best_of,
    best_with_machine,
    candidate_of,
    fleet_answer,
    place_of,
    size_answer,
)

_OPS: Final = ("read", "write", "flush")
_UNASKED_SLO: Final = f"p95<{WAITS_NS_MIN // 1_000_000}ms"
"""As for the knee's `need` without an objective: I/Os that take longer waited in a queue."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the user wants of the disks, the same for each recording."""

    catalogue: str
    scale: float
    wanted: tuple[Wanted, ...]
    machine: Machine | None
    window: str | None
    busiest: str | None
    costs: dict[str, float]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("size")(size_command)


def size_command(
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDING…",
            help="A recording, NAME.iotrace; or several, or a folder of them, for a row per host.",
            show_default=False,
        ),
    ],
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
            help="Machine of the catalogue in front of the disks, such as Standard_E16bds_v5; by default tries each.",
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
            help='A TOML of prices of one disk or machine each, such as "P30" = 122.88; then shows the cheapest first.',
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Also write a page with the demand on each limit over time.",
            show_default=False,
        ),
    ] = None,
    overwrite: Overwrite = False,
    scheduler: Scheduler = None,
    certificates: Certificates = None,
    json: Json = False,
) -> int:
    """Say which disks of a cloud carry a recorded load.

    Tries every disk of the catalogue in virtual time, the smallest first, then the log on a disk of its own, and
    machines. Without --slo, no more than one in twenty I/Os may take over 100 ms. docs/virtual-replay.md says what
    that cannot see. With many hosts, each gets disks of its own. Exit status 1 if no disk carries the load.

    Example: iotrace size prod.iotrace --need 2x --slo "p99<15ms" --catalogue azure
    """
    named = cluster.named(recordings, scheduler, certificates)
    cluster.refuse_for_one(named, scheduler)
    if window is not None and busiest is not None:
        raise IotraceError("--window and --busiest each name the part to play", hint="leave one of them out")
    wanted = tuple(_wanted(one) for one in objectives.parse(slo or _UNASKED_SLO))
    if slo is None:
        # Few I/Os show it as far as they go.
        slo, wanted = _UNASKED_SLO, tuple(replace(one, ios_min=0) for one in wanted)
    asked = _Asked(
        catalogue,
        parse_scale(need) if need is not None else 1.0,
        wanted,
        find_machine(f"{catalogue}/{machine}", f"--machine {machine}") if machine is not None else None,
        window,
        busiest,
        _read_prices(prices) if prices is not None else {},
    )
    if len(named) > 1:
        if report is not None:
            raise IotraceError(
                f"--report draws the demand of one recording, and these are {len(named)}", hint="name one"
            )
        return _size_fleet(named, asked, slo, scheduler, certificates, json=json)
    with brought(named[0]) as path:
        return _size_one(path, asked, slo, machine, report, overwrite=overwrite, json=json)


def _size_one(
    path: Path,
    asked: _Asked,
    slo: str,
    machine: str | None,
    report: Path | None,
    *,
    overwrite: bool,
    json: bool,
) -> int:
    source = Recording.open(path)
    sized = _size(source, asked)
    best = best_of(sized, asked.costs)
    answer = size_answer(sized, asked.scale, slo, asked.costs, machine)
    if report is not None:
        shown = best or sized.disks[-1]
        demands = _demands(shown)
        write_sizing(
            report, source, answer, demands, shown.name, carries=best is not None, overwrite=overwrite
        )
        console.say(f"wrote {report}")
    if json:
        rows = [candidate_of(one, asked.costs) for one in (*sized.disks, *sized.splits, *sized.machines)]
        console.print_answer(
            SizeAnswer(scale=asked.scale, slo=slo, carries=best is not None, candidates=rows)
        )
    else:
        show(answer)
    return 0 if best is not None else 1


def _size_fleet(
    paths: Sequence[Place],
    asked: _Asked,
    slo: str,
    scheduler: str | None,
    certificates: Path | None,
    *,
    json: bool,
) -> int:
    if scheduler is None:
        refuse_missing(paths)
    with (
        cluster.executor(scheduler, certificates) as pool,
        console.counting("trying disks", len(paths)) as done,
    ):
        found = read_each(partial(_size_host, asked), cluster.as_workers_see(paths, pool), done, pool)
    unread = [one for one in found if isinstance(one, Unread)]
    read = [one for one in found if not isinstance(one, Unread)]
    names = distinct_hosts([(one.host, one.recording, one.path) for one in read])
    hosts = [replace(one, host=name) for one, name in zip(read, names, strict=True)]
    carried = not unread and all(one.disks is not None for one in hosts)
    if json:
        console.print_answer(
            SizeFleetAnswer(scale=asked.scale, slo=slo, carries=carried, hosts=hosts, unread=unread)
        )
    else:
        show(fleet_answer(hosts, unread, asked.scale, slo, asked.costs, asked.machine))
    return 0 if carried else 1


def _size_host(asked: _Asked, place: Place) -> HostSized | Unread:
    try:
        with brought(place) as path:
            source = Recording.open(path)
            sized = _size(source, asked)
    except IotraceError as problem:
        return Unread(str(place), problem.message)
    disks, behind = best_of(sized, asked.costs), best_with_machine(sized)
    return HostSized(
        host=source.manifest.host.name or "",
        recording=source.name,
        path=str(place),
        disks=None if disks is None else candidate_of(disks, asked.costs),
        with_machine=None if behind is None else candidate_of(behind, asked.costs),
    )


def _size(source: Recording, asked: _Asked) -> Sized:
    part = parse_window(asked.window, source) if asked.window is not None else None
    if asked.busiest is not None:
        part = parse_busiest(asked.busiest, source, layer=choose_layer(source, None))
    options = ReplayOptions(targets=("model:",), scale=asked.scale, window_ns=part)
    costs = asked.costs
    sized = size_catalogue(
        source,
        options,
        asked.catalogue,
        asked.machine,
        asked.wanted,
        rank=lambda one: place_of(one, costs)[0],
    )
    if not costs:
        return sized
    disks, splits, machines = (
        _cheapest_first(group, costs) for group in (sized.disks, sized.splits, sized.machines)
    )
    return Sized(disks, splits, machines, sized.machines_tried)


def _cheapest_first(tried: list[Tried], costs: dict[str, float]) -> list[Tried]:
    return sorted(tried, key=lambda one: place_of(one, costs))


def _wanted(objective: objectives.Objective) -> Wanted:
    roles = (objective.role,) if objective.role is not None else (None, *(str(role) for role in Role))
    ops = tuple(number for number, op in enumerate(_OPS) if op in objective.ops)
    ios_min = math.ceil(IOS_BEYOND_MIN / min(objective.quantile, 1 - objective.quantile) - 1e-6)
    return Wanted(f"misses {objective}", roles, ops, objective.quantile, objective.limit_ns, ios_min)


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


def _demands(one: Tried) -> list[Demand]:
    """Of disks alike those of the first: stripes share evenly."""
    units = {"iops": "IOPS", "mb_per_s": "MB/s"}
    found: dict[str, Demand] = {}
    for bound, per_second, step_s in one.demand():
        found.setdefault(bound.name, Demand(bound.name, units[bound.counted], bound.rate, per_second, step_s))
    return list(found.values())
