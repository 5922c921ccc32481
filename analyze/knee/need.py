"""Does the storage carry N times the recorded load? The question of a migration: YES, NO or CANNOT TELL.

The load that is needed is held against every limit that the steps show: where the storage breaks, and where each
objective is missed. Below the interval of a limit it is carried, above it is not, within it cannot be told; nor can it
above the highest load that was run. One NO is the answer, and so is one CANNOT TELL among YES.

Storage may carry a load on the whole while its bursts queue. Without an objective nobody has said how long an I/O may
wait: where one in twenty waits for long, that the load is carried is no YES.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from iotrace.analyze.stats.estimate import Estimate
from iotrace.analyze.units import format_duration_ns

from .answer import Knee, SloKnee
from .judged_steps import left_out_words
from .step import Step
from .words import (
    NOT_EXCLUDED,
    SAME_LOAD,
    carried_at,
    carried_for_good,
    cause_clause,
    load_text,
    rate_text,
    seconds_text,
    spent_from,
    spent_words,
    step_text,
    waiting,
)

Verdict = Literal["yes", "no", "cannot_tell"]

_UNTOLD: Final = frozenset({"contradicted", "not_judged", "too_few_ios", "no_such_io"})
"""States of an objective of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Need:
    """Whether ``scale`` times the recorded load is carried, and by how much.

    ``headroom`` is the nearest limit over what is needed, with its interval; ``headroom_at_least`` is the same where no
    limit was reached. Each is None where it cannot be told. ``layer`` is the one that saturates, where it is known.
    """

    scale: float
    iops: float | None
    verdict: Verdict
    sentence: str
    headroom: Estimate | None = None
    headroom_at_least: float | None = None
    layer: str | None = None
    hint: str = ""
    """What to run for an answer."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """One limit: ``at`` where it lies, as far as that is known, or ``untold`` why nothing is."""

    words: str
    at: Estimate | None = None
    kept_iops: float | None = None
    """The highest load run that stays below it beyond doubt."""
    missed_iops: float | None = None
    """The lowest load run that passes it beyond doubt."""
    untold: str = ""
    advice: str | None = None
    """What to run to know more, where that is not a higher load; empty where more runs alone do not help."""

    def verdict(self, iops: float) -> Verdict:
        if self.untold:
            return "cannot_tell"
        if self.missed_iops is not None and iops >= self.missed_iops / SAME_LOAD:
            return "no"
        if self.at is not None and iops > self.at.high:
            return "no"
        kept_iops = max(SAME_LOAD * (self.kept_iops or 0.0), self.at.low if self.at is not None else 0.0)
        return "yes" if iops <= kept_iops else "cannot_tell"

    @property
    def iops(self) -> float:
        """Where it lies, or at the least."""
        return self.at.value if self.at is not None else self.kept_iops or self.missed_iops or 0.0


def need(found: Knee, scale: float, *, spoiled: Sequence[str] = (), model: str = "") -> Need:
    """Whether the storage of ``found`` carries ``scale`` times the recorded load, and meets its objectives there.

    ``spoiled`` are the findings that forbid to use the figures, in words; ``model`` is what must be said of the model
    that answered instead of storage (`iotrace.schemas.models.tested_words`).
    """
    judged = _judged(found, scale, spoiled)
    return replace(judged, sentence=f"{judged.sentence} That is {model}.") if model else judged


def is_no(found: Knee, need: Need | None, *, is_spoiled: bool) -> bool:
    """Whether a run on it ends as a no: by ``need``; else if nothing is known, or an objective does not hold at 1x.

    What cannot be told is no yes. Without a 1x an objective that is passed somewhere is told, and one that is missed at
    every load is a no. ``is_spoiled``: a finding forbids to use the figures.
    """
    if need is not None:
        return need.verdict != "yes"
    is_untold = any(one.state in _UNTOLD for one in found.objectives)
    if found.iops_at_1x is None:
        is_missed = any(one.state == "missed_at_lowest" for one in found.objectives)
    else:
        is_missed = bool(found.objectives) and found.objectives_met is not True
    return is_spoiled or found.state == "not_judged" or is_untold or is_missed


def _judged(found: Knee, scale: float, spoiled: Sequence[str]) -> Need:
    if spoiled:
        return _untold(scale, None, f"the figures must not be used ({'; '.join(spoiled)})")
    if found.iops_at_1x is None:
        return _untold(
            scale, None, "these runs do not say what 1x is; ask it of a sweep that replays a recording"
        )
    iops = scale * found.iops_at_1x
    limits = [_capacity(found), *_credits(found), *_objectives(found, iops)]
    layer = found.saturated_layer
    if no := [one for one in limits if one.verdict(iops) == "no"]:
        nearest = min(no, key=lambda one: one.iops)
        room = _headroom(nearest, iops)
        share = f", {room} of what is needed" if room else ""
        return Need(
            scale,
            iops,
            "no",
            f"NO: {rate_text(iops, scale)} is too much: {nearest.words}{share}{_cause(found)}.",
            headroom=nearest.at and nearest.at.scaled(1 / iops),
            layer=layer,
        )
    if untold := [one for one in limits if one.verdict(iops) == "cannot_tell"]:
        return _untold(scale, iops, "; ".join(_why(one, scale) for one in untold), layer)
    nearest = min(limits, key=lambda one: one.iops)
    share = f", {room} times what is needed" if (room := _headroom(nearest, iops)) else ""
    reason = f"{nearest.words}{share}{_cause(found)}."
    step = None if found.objectives else carried_at(found, iops)
    if step is not None and (waits := waiting(found, step)):
        return Need(
            scale,
            iops,
            "cannot_tell",
            f"CANNOT TELL whether {rate_text(iops, scale)} is fast enough: {waits}. On average the load is carried: "
            f"{reason}",
            layer=layer,
            hint="Say with --slo what is enough, for example --slo 'p95<20ms'.",
        )
    caveat = f" {NOT_EXCLUDED}" if found.state in {"not_reached", "onset"} else ""
    return Need(
        scale,
        iops,
        "yes",
        f"YES: {rate_text(iops, scale)} is carried: {reason}{_latency(step)}{caveat}",
        headroom=nearest.at and nearest.at.scaled(1 / iops),
        headroom_at_least=None if nearest.at is not None else nearest.iops / iops,
        layer=layer,
    )


def _latency(step: Step | None) -> str:
    """The latency that comes with a YES for which no objective was asked."""
    if step is None or not step.response_ns["p50"]:
        return ""
    p99_ns = step.response_ns["p99"]
    tail = f", the p99 {format_duration_ns(p99_ns)}" if p99_ns is not None else ""
    return (
        f" At {step.load_text} the median response was {format_duration_ns(step.response_ns['p50'])}{tail}."
    )


def _capacity(found: Knee) -> _Limit:
    if found.state == "not_judged":
        return _Limit("", untold="too few steps tell of the storage")
    if found.state == "reached" and found.iops is not None:
        return _Limit(f"the knee lies at {load_text(found.iops, found.scale)}", at=found.iops)
    if found.state == "before_range" and found.sustained_iops is not None:
        most = found.sustained_iops
        assert found.iops_at_1x is not None
        words = load_text(most, most.scaled(1 / found.iops_at_1x))
        # No step kept up, so nothing is known of latency below.
        return _Limit(f"the storage carries at most {words}", missed_iops=SAME_LOAD * most.high)
    kept = found.highest_kept_up_iops or 0.0
    load = rate_text(kept, found.highest_kept_up_scale)
    if higher := _untold_above(found, kept):
        return _Limit(
            f"the highest load that can be judged, {load}, was carried{_time(found)}; of those above it, "
            f"{left_out_words(higher)}",
            kept_iops=kept,
            advice=_again(higher),
        )
    return _Limit(f"the highest load that was run, {load}, was carried{_time(found)}", kept_iops=kept)


def _untold_above(found: Knee, iops: float) -> list[Step]:
    """Steps of higher loads that were run but tell nothing."""
    return [step for step in found.steps if step.offered_iops > SAME_LOAD * iops and not step.is_judged]


def _again(untold: Sequence[Step]) -> str:
    """What to run where steps tell nothing: they are no reason for a higher load."""
    is_short = any(step.is_too_short for step in untold)
    return "run these loads again, for longer (--step-seconds)" if is_short else ""


def _credits(found: Knee) -> Iterator[_Limit]:
    """What a model carries for good, by its own account: credits are spent sooner or later."""
    if spending := spent_from(found):
        kept = carried_for_good(found)
        yield _Limit(
            f"from {step_text(spending)} on, {spent_words(spending)}",
            kept_iops=kept.offered_iops if kept else None,
            missed_iops=spending.offered_iops,
        )


def _time(found: Knee) -> str:
    return f" for {seconds_text(found.watched_s)}" if found.watched_s else ""


def _objectives(found: Knee, iops: float) -> Iterator[_Limit]:
    for one in found.objectives:
        passes = f"{one.objective.subject}{_missed_there(found, one, iops)} passes {one.objective.limit_text}"
        if one.state == "crossed" and one.iops is not None:
            load = load_text(one.iops, one.scale)
            yield _Limit(
                f"{passes} at {load}",
                at=one.iops,
                kept_iops=one.surely_met_iops,
                missed_iops=one.surely_missed_iops,
            )
        elif one.state == "met_everywhere":
            kept = one.highest_met_iops or 0.0
            load = rate_text(kept, one.highest_met_scale)
            higher = _untold_above(found, kept)
            highest = "the highest load that can be judged" if higher else "the highest load run"
            yield _Limit(
                f"{one.objective.subject} stays under {one.objective.limit_text}{_time(found)} up to {load}, {highest}",
                kept_iops=kept,
                advice=_again(higher) if higher else None,
            )
        elif one.state == "missed_at_lowest":
            lowest = next(step for step in found.steps if step.is_judged)
            yield _Limit(
                f"{passes} already at the lowest load that was run, {step_text(lowest)}",
                missed_iops=lowest.offered_iops,
            )
        else:
            yield _Limit("", untold=_lowered(one))


def _missed_there(found: Knee, one: SloKnee, iops: float) -> str:
    """What was measured at the load that is needed, where a step ran it and missed the objective."""
    missed = [
        quantile_ns
        for step, quantile_ns in zip(found.steps, one.quantile_ns, strict=True)
        if step.is_judged
        and iops / SAME_LOAD <= step.offered_iops <= iops * SAME_LOAD
        and quantile_ns is not None
        and quantile_ns > one.objective.limit_ns
    ]
    return f" was {format_duration_ns(max(missed))} there, and" if missed else ""


def _lowered(one: SloKnee) -> str:
    words = one.sentence.rstrip(".")
    return words[:1].lower() + words[1:]


def _why(limit: _Limit, scale: float) -> str:
    if limit.untold:
        return limit.untold
    if limit.at is not None:
        return f"{limit.words}, and that interval holds it; longer steps (--step-seconds) make it narrower"
    if limit.missed_iops is not None:
        others = "lower loads" if limit.kept_iops is None else "loads between"
        return f"{limit.words}, and {others} were not run; run a sweep with --scales {scale:g}x"
    if limit.advice is not None:
        return "; ".join(filter(None, [limit.words, limit.advice]))
    return f"{limit.words}; run a sweep with --max-scale {max(scale * 1.2, 1.0):.2g}x"


def _cause(found: Knee) -> str:
    """What saturated, but not of a model that did so on saved credits: the limit that counts comes before."""
    return "" if spent_from(found) else cause_clause(found)


def _headroom(limit: _Limit, iops: float) -> str:
    if limit.at is not None:
        part = limit.at.scaled(1 / iops)
        return f"{part.value:.2f} [{part.low:.2f}, {part.high:.2f}]"
    is_above = limit.kept_iops is not None and limit.missed_iops is None
    return f"at least {limit.iops / iops:.2f}" if is_above else ""


def _untold(scale: float, iops: float | None, why: str, layer: str | None = None) -> Need:
    what = f"{scale:g}x" if iops is None else rate_text(iops, scale)
    return Need(scale, iops, "cannot_tell", f"CANNOT TELL whether {what} is carried: {why}.", layer=layer)
