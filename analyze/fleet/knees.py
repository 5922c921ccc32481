"""Sweeps of many candidates, a row each: where each bends, and whether each carries the load that is needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from iotrace.analyze.knee.answer import State
from iotrace.analyze.knee.need import Need, is_no
from iotrace.analyze.knee.need import need as judge_need
from iotrace.analyze.knee.presentation import NEED_TONES
from iotrace.analyze.knee.series import knee_of_sweep
from iotrace.analyze.present import Answer, Cell, Number, Section, Sentence, Table
from iotrace.analyze.present.answer import columns
from iotrace.analyze.present.trust import disqualifying
from iotrace.analyze.stats.estimate import Estimate
from iotrace.analyze.units import DASH
from iotrace.analyze.validity.sweep import check_sweep
from iotrace.schemas import IotraceError, Sweep, counted
from iotrace.schemas.models import model_words
from iotrace.schemas.stored import Place, brought
from iotrace.schemas.text import shortened

from .presentation import hosts_text, left_out
from .summary import Unread

_NAME_CHARACTERS: Final = 24
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class SweptHost:
    """What a sweep of a fleet came to."""

    sweep: str
    path: str
    state: State
    knee_iops: Estimate | None
    knee_scale: Estimate | None
    highest_kept_up_scale: float | None
    """Where no knee was reached, the highest load that was carried."""
    objectives_met: bool | None
    need: Need | None
    """Where a load is needed."""
    is_no: bool
    """Whether it is not a YES: by ``need``, else because an objective is missed at 1x, or it cannot be told."""
    spoilt_by: tuple[str, ...]
    """Titles of the validity rules that say that its figures must not be used."""
    doubted_by: tuple[str, ...]
    """Titles of those that fired besides."""
    sentence: str


def knee_of(slo: str | None, needed: float | None, place: Place) -> SweptHost | Unread:
    """Judge one sweep. What is wrong with it is the result, so that the others' are not lost."""
    try:
        with brought(place) as path:
            return _swept(Sweep.open(path), str(place), slo, needed)
    except IotraceError as problem:
        return Unread(str(place), problem.message)


def _swept(sweep: Sweep, path: str, slo: str | None, needed: float | None) -> SweptHost:
    found = knee_of_sweep(sweep, slo=slo)
    steps = sweep.recordings()
    findings = check_sweep(steps)
    titles = tuple(dict.fromkeys(entry.title for entry in disqualifying(findings)))
    every = dict.fromkeys(entry.title for entry in findings)
    need = judge_need(found, needed, spoiled=titles, model=model_words(steps)) if needed is not None else None
    return SweptHost(
        sweep=sweep.path.name.removesuffix(".iotrace"),
        path=path,
        state=found.state,
        knee_iops=found.iops,
        knee_scale=found.scale,
        highest_kept_up_scale=found.highest_kept_up_scale,
        objectives_met=found.objectives_met,
        need=need,
        is_no=is_no(found, need, is_spoiled=bool(titles)),
        spoilt_by=titles,
        doubted_by=tuple(title for title in every if title not in titles),
        sentence=need.sentence if need is not None else found.sentence,
    )


def fleet_knees_answer(
    hosts: Sequence[SweptHost], unread: Sequence[Unread], needed: float | None, slo: str | None
) -> Answer:
    """The answer on many sweeps: how many carry it, who does not, then a row for each."""
    return Answer(
        list(_opening(hosts, unread, needed, slo)),
        [
            Section(
                "Each sweep",
                Table(
                    columns(
                        "sweep",
                        "carries it",
                        "knee IOPS",
                        "95 % from",
                        "to",
                        "knee at",
                        *([] if needed is None else [f"over {needed:g}x"]),
                        text=2,
                    ),
                    [tuple(_row(one)) for one in hosts],
                    _SHOWN,
                ),
                notes=[
                    *([] if needed is None else [f"over {needed:g}x: the headroom over what is needed"]),
                    "iotrace knee SWEEP says more of one",
                ],
            )
        ],
    )


def _opening(
    hosts: Sequence[SweptHost], unread: Sequence[Unread], needed: float | None, slo: str | None
) -> Iterator[Sentence]:
    yield from left_out(unread)
    count = counted(len(hosts) + len(unread), "sweep")
    with_slo = f" with {slo}" if slo else ""
    if needed is None:
        kept = sum(not one.is_no for one in hosts)
        yield Sentence(f"{count}: {kept} judged, and no objective missed at 1x{with_slo}", "answer")
    else:
        verdicts = {
            verdict: [one.sweep for one in hosts if one.need is not None and one.need.verdict == verdict]
            for verdict in ("yes", "no", "cannot_tell")
        }
        worst = "no" if verdicts["no"] else "cannot_tell" if verdicts["cannot_tell"] or unread else "yes"
        yield Sentence(
            f"{worst.replace('_', ' ').upper()}: {len(verdicts['yes'])} of {count} carry {needed:g}x{with_slo}",
            NEED_TONES[worst],
        )
        for verdict, words in (("no", "Not carried by"), ("cannot_tell", "Cannot be told of")):
            if verdicts[verdict]:
                yield Sentence(f"{words} {hosts_text(verdicts[verdict])}", NEED_TONES[verdict])
    spoilt = [one for one in hosts if one.spoilt_by]
    if spoilt:
        names = hosts_text([one.sweep for one in spoilt])
        yield Sentence(f"Not to be relied on: {names} ({spoilt[0].spoilt_by[0]})", "bad")
        return
    doubts = list(dict.fromkeys(title for one in hosts for title in one.doubted_by))
    if doubts:
        more = f"; {len(doubts) - 1} more, see iotrace knee SWEEP" if len(doubts) > 1 else ""
        doubted = [one.sweep for one in hosts if doubts[0] in one.doubted_by]
        of = f" ({hosts_text(doubted)})" if len(doubted) < len(hosts) else ""
        yield Sentence(f"Before you trust it: {doubts[0]}{of}{more}", "doubt")


def _row(one: SweptHost) -> Iterator[Cell]:
    yield shortened(one.sweep, _NAME_CHARACTERS)
    if one.need is not None:
        yield one.need.verdict.replace("_", " ").upper()
    else:
        yield {True: "met at 1x", False: "missed at 1x", None: "cannot tell" if one.is_no else DASH}[
            one.objectives_met
        ]
    at = one.knee_iops
    yield from (
        Number(at.value if at else None),
        Number(at.low if at else None),
        Number(at.high if at else None),
    )
    yield f"{one.knee_scale.value:.3g}x" if one.knee_scale is not None else _kept_up(one)
    if one.need is not None:
        room, least = one.need.headroom, one.need.headroom_at_least
        yield (
            f"{room.value:.2f}x"
            if room is not None
            else f"at least {least:.2f}x"
            if least is not None
            else DASH
        )


def _kept_up(one: SweptHost) -> str:
    return f"above {one.highest_kept_up_scale:.3g}x" if one.highest_kept_up_scale is not None else DASH
