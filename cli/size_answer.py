"""What `size` says: the candidates that carry a load, for people and for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from iotrace.analyze import slo as objectives
from iotrace.analyze.fleet import Unread, hosts_text, left_out
from iotrace.analyze.present import Answer, Cell, Duration, Number, Ratio, Section, Sentence, Table
from iotrace.analyze.present.answer import columns
from iotrace.analyze.present.program import ProgramAnswer
from iotrace.analyze.units import DASH
from iotrace.replay.virtual.size import Sized, Tried
from iotrace.schemas import counted
from iotrace.schemas.models import Disk, Machine, catalogue_names
from iotrace.schemas.models import catalogue as catalogue_of
from iotrace.schemas.text import HOST_CHARACTERS, shortened

from .model import advice, age_words

_ON_CREDITS: Final = "on credits"
_IN_BURSTS: Final = "no: bursts"
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
    response_ns_slo: int | None
    """Of the I/Os, and at the percentile, of the objective's first clause."""
    headroom: float | None
    """Sustained rate over the demand of the busiest minute, of the limit where that is least."""
    binds: str
    """The limit that made I/Os wait longest, or has the least headroom where none did."""
    credits_end_share: float | None
    """Least of what is left of any credits."""
    credits_last_seconds: float | None
    """For how long full credits would carry the mean demand; None where what comes back carries it."""
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


@dataclass(frozen=True, kw_only=True)
class HostSized:
    """What carries the load of one host of a fleet; None where nothing that was tried does."""

    host: str
    recording: str
    path: str
    disks: Candidate | None
    with_machine: Candidate | None


@dataclass(frozen=True, kw_only=True)
class SizeFleetAnswer(ProgramAnswer):
    """What `size` answers of many hosts, each on disks of its own."""

    schema: Literal["iotrace.size-fleet/1"] = "iotrace.size-fleet/1"
    scale: float
    slo: str | None
    carries: bool
    """Whether every recording was read and some disks carry it."""
    hosts: list[HostSized]
    unread: list[Unread]


def size_answer(sized: Sized, scale: float, slo: str, costs: dict[str, float], machine: str | None) -> Answer:
    """The answer on one recording."""
    load = f"{scale:g}x with {slo}"
    order = "cheapest" if costs else "smallest"
    best = best_of(sized, costs)
    if best is None:
        count = len(sized.disks) + len(sized.splits)
        said = [
            Sentence(f"None of {count} candidates carries {load}.", "bad"),
            Sentence("By their models, never held against real storage.", "doubt"),
        ]
    else:
        if not best.on_credits:
            first = f"{best.name} is the {order} " + (
                f"that carries {load}"
                if best.response_ns_p50
                else f"whose limits keep {scale:g}x within {slo}"
            )
        elif best.response_ns_p50:
            first = f"Only on burst credits is {load} carried: by {best.name}, for as long as was recorded"
        else:
            first = (
                f"Only on burst credits do limits keep {scale:g}x within {slo}: those of {best.name}, for as long as "
                "was recorded"
            )
        own = "" if best.response_ns_p50 else "; the disk's own latency is not stated and comes on top"
        said = [
            Sentence(f"{first}{own}.", "doubt" if best.on_credits else "good"),
            Sentence(
                "By its model, never held against real storage; whether the database fits was not checked.",
                "doubt",
            ),
        ]
    sections = [_candidates(sized.disks, costs, machine, slo)]
    if any(one.carries for one in sized.splits):
        sections.append(_splits(sized.splits, costs, slo))
    behind = best_with_machine(sized)
    if best is not None and sized.machines_tried:
        if behind is None:
            said.append(Sentence(f"None of {sized.machines_tried} machines carries {load}.", "bad"))
        else:
            for_ever = ", on credits" if behind.on_credits else ""
            uncounted = ", the machine's own price left out" if costs and not _has_machines(costs) else ""
            sentence = f"With a machine, {behind.name} is the {order}{for_ever}{uncounted}."
            said.append(Sentence(sentence, "plain"))
            sections.append(_machines(sized, costs, slo))
    return Answer(said, sections)


def fleet_answer(
    hosts: Sequence[HostSized],
    unread: Sequence[Unread],
    scale: float,
    slo: str,
    costs: dict[str, float],
    machine: Machine | None,
) -> Answer:
    """The answer on many hosts: how many are carried and what that costs, who is not, then a row for each."""
    order = "cheapest" if costs else "smallest"
    carried = [one for one in hosts if one.disks is not None]
    behind = f" behind {machine.name}" if machine is not None else ""
    unstated = any(one.disks is not None and not one.disks.response_ns_p50 for one in carried)
    own = "as far as their limits go: the disks' own latency is not stated and comes on top"
    count = counted(len(hosts) + len(unread), "recording")
    said = [
        Sentence(
            f"{len(carried)} of {count} carried at {scale:g}x with {slo}, each by disks of its own{behind}"
            f"{f', {own}' if unstated else ''}.",
            "good" if len(carried) == len(hosts) and not unread else "bad",
        ),
        Sentence(
            "By their models, never held against real storage; whether the databases fit was not checked.",
            "doubt",
        ),
    ]
    said += left_out(unread)
    if len(carried) < len(hosts):
        none = hosts_text([one.host for one in hosts if one.disks is None])
        said.append(Sentence(f"Carried by none of the catalogue: {none}.", "bad"))
    saved = [one.host for one in carried if one.disks is not None and one.disks.on_credits]
    if saved:
        said.append(
            Sentence(f"Only on burst credits, for as long as was recorded: {hosts_text(saved)}.", "doubt")
        )
    if costs and carried:
        prices = [one.disks.price for one in carried if one.disks is not None]
        known = [price for price in prices if price is not None]
        unknown = len(prices) - len(known)
        without = f", without {counted(unknown, 'host')} whose disks have no price" if unknown else ""
        said.append(Sentence(f"The cheapest disks come to {sum(known):,.2f} together{without}."))
    days = [one.disks.date for one in carried if one.disks is not None]
    notes = [_no_storage(min(days))] if days else []
    rows = [(one.host, one.disks) for one in hosts]
    sections = [_fleet_table(f"The {order} disks of each host", rows, costs, slo, notes)]
    if machine is None and any(one.with_machine is not None for one in hosts):
        rows = [(one.host, one.with_machine) for one in hosts]
        sections.append(_fleet_table("With a machine", rows, costs, slo))
    return Answer(said, sections)


def _fleet_table(
    heading: str,
    rows: Sequence[tuple[str, Candidate | None]],
    costs: dict[str, float],
    slo: str,
    notes: Sequence[str] = (),
) -> Section:
    heads = ["host", "", "carries", *(["price"] if costs else []), _percentile(slo), "headroom", "held"]
    return Section(
        heading, Table(columns(*heads, text=3), [tuple(_fleet_row(*row, costs)) for row in rows]), notes=notes
    )


def _fleet_row(host: str, one: Candidate | None, costs: dict[str, float]) -> Iterator[Cell]:
    yield shortened(host, HOST_CHARACTERS)
    yield one.name.partition("/")[2] if one is not None else "none"
    yield "no" if one is None else _ON_CREDITS if one.on_credits else "yes"
    if costs:
        yield Number(one.price if one is not None else None, 2)
    yield DASH if one is None else _response(one)
    yield DASH if one is None else _room(one)
    yield DASH if one is None else _held(one)


def _candidates(tried: list[Tried], costs: dict[str, float], machine: str | None, slo: str) -> Section:
    carrying = [one for one in tried if one.carries]
    best = _best(tried)
    chosen = [*[one for one in tried if not one.carries][-_SHOWN_NOT:], *carrying[:_SHOWN]]
    shown = [one for one in tried if one in chosen or one is best]
    notes = [f"and {len(tried) - len(shown)} others, which --json has"] if len(tried) > len(shown) else []
    if machine is not None:
        notes.append(f"All of them are behind {machine}.")
    notes.append(
        "nearest limit: the one that I/Os waited for longest, or the one with the least headroom; headroom: the least "
        "that any limit's rate is of its load in the busiest minute; held: how long limits kept I/Os waiting"
    )
    first, *others = objectives.parse(slo)
    of = first.subject.partition(" of ")[2] or "reads and writes"
    notes.append(
        f"{first.percentile_name}: response of {of}" + (f"; {slo} is judged in full" if others else "")
    )
    said = {_carries(one) for one in shown}
    if _IN_BURSTS in said:
        notes.append("bursts: the busiest minute is below every limit, but I/Os wait in bursts within it")
    if _ON_CREDITS in said:
        notes.append(f"{_ON_CREDITS}: carried for as long as was recorded, by saved credits, not for ever")
    if any(
        one.carries and not one.on_credits and one.credits_end_share is not None and (one.headroom or 1) < 1
        for one in shown
    ):
        notes.append("yes below 1x: saved credits carry the busiest minute, and come back")
    lasting = any(one.credits_last_seconds is not None for one in shown)
    if lasting:
        notes.append("credits last: how long full credits carry the mean load")
    if any("burst" in one.binds for one in shown):
        notes.append("* a burst rate: above it no credits help")
    left_out = catalogue_of(tried[0].name.partition("/")[0]).left_out()
    notes += [f"{kind.name} was not tried: {advice(kind)}." for kind in left_out]
    notes.append(_no_storage(min(str(one.model.date) for one in tried)))
    heads = [
        "",
        "carries",
        "nearest limit",
        *(["price"] if costs else []),
        _percentile(slo),
        "headroom",
        "held",
        *(["credits last"] if lasting else []),
    ]
    return Section(
        "Candidates",
        Table(columns(*heads, text=3), [_row(one, costs, lasting=lasting) for one in shown]),
        notes=notes,
    )


def _no_storage(day: str) -> str:
    return (
        "No storage took part: where the provider states no latency, times are what limits add, and a dash is where "
        "they add none. "
        f"Figures are from {day} or later ({age_words(day)}); iotrace model list names their "
        "sources."
    )


def _percentile(slo: str) -> str:
    return objectives.parse(slo)[0].percentile_name


def _response(one: Tried | Candidate) -> Duration:
    """A dash for 0 ns: no limit held that I/O up, and its provider states no latency."""
    return Duration(one.response_ns_slo or None)


def _held(one: Tried | Candidate) -> Duration:
    return Duration(one.throttled_seconds * 1e9 or None)


def _splits(tried: list[Tried], costs: dict[str, float], slo: str) -> Section:
    carrying = [one for one in tried if one.carries]
    rows: list[tuple[Cell, ...]] = [
        (
            *_disks(one),
            *([Number(_price(one, costs), 2)] if costs else []),
            _carries(one),
            _response(one),
        )
        for one in carrying[:_COMBINED_SHOWN]
    ]
    heads = ["", "log", *(["price"] if costs else []), "carries", _percentile(slo)]
    notes = [f"The smallest disks that carry the log, and all else, of {len(tried)} combinations."]
    return Section("The log on a disk of its own", Table(columns(*heads, text=2), rows), notes=notes)


def _disks(one: Tried) -> tuple[str, str]:
    rest, _, log = one.name.partition("/")[2].partition("+")[0].partition(",")
    return rest, log.partition("=")[2]


def _machines(sized: Sized, costs: dict[str, float], slo: str) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (
            one.name.partition("/")[2].partition("+")[0],
            one.name.partition("+")[2],
            _carries(one),
            *([Number(_price(one, costs), 2)] if costs else []),
            _response(one),
            _room(one),
        )
        for one in sized.machines[:_COMBINED_SHOWN]
    ]
    heads = ["", "machine", "carries", *(["price"] if costs else []), _percentile(slo), "headroom"]
    notes = [
        f"The smallest of {sized.machines_tried} machines that carry the load, with the smallest disks that do."
    ]
    return Section("Behind a machine", Table(columns(*heads, text=3), rows), notes=notes)


def _carries(one: Tried) -> str:
    if one.carries:
        return _ON_CREDITS if one.on_credits else "yes"
    if one.headroom is not None and one.headroom < 1:
        return "no"
    return _IN_BURSTS if one.throttled_seconds else "no: too slow"


def _room(one: Tried | Candidate) -> Cell:
    return Ratio(one.headroom) if one.headroom is None or one.headroom < _ROOM_MAX else f">{_ROOM_MAX}x"


def _binds(one: Tried) -> str:
    owner, _, rate = one.binds.rpartition(": ")
    disks = {disk.name: disk.roles for disk in one.model.disks}
    of = "VM " if owner and owner not in disks else "log " if disks.get(owner) else ""
    return f"{of}{rate}".replace(" burst", "*")


def _row(one: Tried, costs: dict[str, float], *, lasting: bool) -> tuple[Cell, ...]:
    return (
        one.name.partition("/")[2].partition("+")[0],
        _carries(one),
        _binds(one) or "nothing",
        *([Number(_price(one, costs), 2)] if costs else []),
        _response(one),
        _room(one),
        _held(one),
        *(
            [Duration(None if (last_s := one.credits_last_seconds) is None else last_s * 1e9)]
            if lasting
            else []
        ),
    )


def candidate_of(one: Tried, costs: dict[str, float]) -> Candidate:
    """The facts of one that was tried, for programs."""
    return Candidate(
        name=one.name,
        carries=one.carries,
        on_credits=one.on_credits,
        why_not=one.why_not,
        throttled_seconds=one.throttled_seconds,
        response_ns_p50=one.response_ns_p50,
        response_ns_p99=one.response_ns_p99,
        response_ns_slo=one.response_ns_slo,
        headroom=one.headroom,
        binds=one.binds,
        credits_end_share=one.credits_end_share,
        credits_last_seconds=one.credits_last_seconds,
        price=_price(one, costs),
        source=one.model.source,
        date=str(one.model.date),
    )


def best_of(sized: Sized, costs: dict[str, float]) -> Tried | None:
    """The smallest, or cheapest, of disks and splits; None where none carries the load."""
    found = [one for one in (_best(sized.disks), _best(sized.splits)) if one is not None]
    return min(found, key=lambda one: (one.on_credits, *place_of(one, costs)), default=None)


def best_with_machine(sized: Sized) -> Tried | None:
    """The smallest, or cheapest, behind a machine; None where none was tried or none carries the load."""
    return _best(sized.machines)


def _best(tried: list[Tried]) -> Tried | None:
    """The first that carries the load for ever, else the first that does on credits."""
    carrying = [one for one in tried if one.carries]
    return next((one for one in carrying if not one.on_credits), carrying[0] if carrying else None)


def place_of(one: Tried, costs: dict[str, float]) -> tuple[float, float, float]:
    """Where it stands among others: by price where there are prices, then by size."""
    price = _price(one, costs) if costs else 0.0
    return float("inf") if price is None else price, one.iops, one.mb_per_s


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
