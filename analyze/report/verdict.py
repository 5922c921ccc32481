"""The verdict in words; it claims only what the inputs support, so without a sweep it knows of no knee."""

from collections.abc import Sequence
from typing import Final

from iotrace.analyze.compare.comparison import Comparison, Verdict
from iotrace.analyze.compare.words import lifted
from iotrace.analyze.knee.answer import Cause, Knee, SloKnee
from iotrace.analyze.knee.causes import ceilings_by_size
from iotrace.analyze.knee.need import Need, need
from iotrace.analyze.knee.need import is_no as is_no_of_knee
from iotrace.analyze.knee.words import load_text, scale_text
from iotrace.analyze.slo import Objective
from iotrace.analyze.unfinished import Bounds
from iotrace.analyze.units import format_duration_ns, format_ratio_with_interval
from iotrace.schemas.text import shortened
from iotrace.schemas.vocabulary import counted, listed

from .facts import ComparisonFacts, FindingFacts, ObjectiveCheck, RecordingFacts, SweepFacts
from .incidents import incident_sentence, worst_sentence
from .tables import RECORDINGS_BRIEF


def sweep_verdict(knee: Knee, who: str) -> str:
    """Whether a sweep is enough: what it carries before an objective is missed, its knee, and the headroom at 1x.

    ``who`` is whose sweep it is, as `candidate` names it.
    """
    objective = _objective_clause(knee, who)
    parts = [clause for clause in (objective, _knee_clause(knee)) if clause]
    if not objective:
        parts[0] = f"{who}: {parts[0]}"
    words = _capital("; ".join(parts))
    return f"{words}. {_capital(knee.headroom)}." if knee.headroom else f"{words}."


def candidate(target: str | None, sweep_name: str) -> str:
    """Whose figures those of a sweep are: what was loaded, else what the sweep is called."""
    return f"The candidate {target or f'of sweep {sweep_name}'}"


def series_causes(sweeps: Sequence[SweepFacts]) -> list[Cause]:
    """Ceilings that show in series of closed loops on one target that differ in size only."""
    plateaus = [
        (
            (one.target, *(value for name, value in work.items() if name != "size_bytes")),
            int(work["size_bytes"]),
            iops.value,
        )
        for one in sweeps
        if (work := one.knee.work) and work["size_bytes"] and (iops := one.knee.iops) is not None
    ]
    return ceilings_by_size(plateaus)


def check_sentence(
    objective: Objective, metric: str, quantile_ns: int | None, bounds: Bounds, layer: str
) -> str:
    """Whether a recording meets an objective, and at which layer.

    ``quantile_ns`` is that of the I/Os that ended. Response is no layer's own: it runs from when an I/O is due.
    """
    at = f" at the {layer} layer" if metric == "service" else ""
    subject = objective.subject.replace("response", f"{metric} time") + at
    is_met, least_ns = bounds.is_within(objective.limit_ns), bounds.at_least_ns
    if least_ns is None or (quantile_ns is None and not bounds.unfinished_count):
        return f"Too few I/Os to tell the {subject}."
    open_ios = f"{counted(bounds.unfinished_count, 'I/O')} {'has' if bounds.unfinished_count == 1 else 'have'} no end"
    if is_met is None:
        those = (
            f"is {format_duration_ns(quantile_ns)} over the I/Os that ended"
            if quantile_ns
            else "is not known"
        )
        why = "may have been lost" if bounds.may_have_ended else "may come before or after that"
        return (
            f"Whether the {subject} is within the objective of {objective.limit_text} cannot be told: it {those}, but "
            f"{open_ios}, and the missing ends {why}."
        )
    if quantile_ns is None or (not is_met and least_ns > quantile_ns):
        return (
            f"The {subject} is at least {format_duration_ns(least_ns)}, above the objective of {objective.limit_text}: "
            f"{open_ios}, and each counts for as long as it had waited when the recording ended."
        )
    word = "within" if is_met else "above"
    return (
        f"The {subject} is {format_duration_ns(quantile_ns)}, {word} the objective of {objective.limit_text}."
    )


_STANDING: Final = {
    "faster": "{b} is faster than {a}",
    "slower": "{b} is slower than {a}",
    "no difference": "{b} shows no difference from {a}",
}


def _plural(op: str) -> str:
    return f"{op}es" if op.endswith("sh") else f"{op}s"


def comparison_sentence(found: Comparison) -> str:
    """How the second recording's latency stands to the first one's, whether they did the same work, and who is who."""
    a, b = found.a, found.b
    load = f", at {found.scale:g}x the recorded load" if found.scale is not None else ""
    layer = f", both at the {b.layer} layer" if lifted(a, b) else ""
    who = f"{a.label} is {a.title} ({a.kind}); {b.label} is {b.title} ({b.kind}){load}{layer}."
    if not found.verdicts:
        return f"{a.label} and {b.label} share too few I/Os to compare their latencies. {who}"
    directions = {one.direction for one in found.verdicts}
    words = _STANDING.get(directions.pop()) if len(directions) == 1 else None
    standing = (words or "{b} against {a}").format(a=a.label, b=b.label)
    parts = [_part(found, one) for one in found.verdicts if one.ratio]
    if untold := [one for one in found.verdicts if not one.ratio]:
        quantities = listed(list(dict.fromkeys(one.quantity for one in untold)))
        parts.append(
            f"of {listed([_plural(one.op) for one in untold])} it cannot be told: no limit of the model holds up their "
            f"{quantities}, and it states no time of the storage itself"
        )
    doubts = list(
        dict.fromkeys(one.reservation.rstrip(".") for one in found.verdicts if one.reservation and one.ratio)
    )
    doubt = f" {'. '.join(doubts)}." if doubts else ""
    return f"{standing}: {'; '.join(parts)}.{doubt} {who}"


def _part(found: Comparison, one: Verdict) -> str:
    ratio = format_ratio_with_interval(one.ratio, one.ratio_interval)
    unsure = ""
    if one.direction == "unknown":
        unsure = (
            ", which may be the replay's own doing"
            if one.ratio_interval
            else ", too few stretches of time to be sure"
        )
    entry = found.headline(one.op)
    rare = entry.rare if entry else None
    if rare and rare.may_have_ended and one.direction == "unknown":
        unsure = ", but I/Os have no end, which may have been lost"
    elif rare and not rare.may_have_ended and one.direction == rare.direction:
        label, open_count = max(
            (found.a.label, rare.a_unfinished_count),
            (found.b.label, rare.b_unfinished_count),
            key=lambda side: side[1],
        )
        waited = format_duration_ns(rare.at_least_ns)
        many = f"{counted(open_count, 'I/O')} of {label}'s waited {waited} or longer without an end"
        unsure = f", and {many}" if open_count else ""
    return f"at the {one.quantity} {_plural(one.op)} take {ratio} as long{_from_to(found, one)}{unsure}"


def overall(
    sweeps: Sequence[SweepFacts],
    comparisons: Sequence[ComparisonFacts],
    recordings: Sequence[RecordingFacts],
    spoiled: Sequence[str],
) -> tuple[str, list[str]]:
    """The sentence at the head of the report, and what else is to be known at once; each names whose figures it has.

    ``spoiled`` are findings that forbid to rely on figures, with the names of the inputs that they are of.
    """
    is_brief = len(recordings) > RECORDINGS_BRIEF
    checks = [
        _of(recording, check.sentence)
        for recording in recordings
        for check in recording.objectives
        if not (is_brief and check.is_met)
    ]
    slow = [
        _of(recording, (worst_sentence if is_brief else incident_sentence)(recording.slow_times))
        for recording in _slow(recordings)
        if recording.slow_times is not None
    ]
    if sweeps:
        sentence = " ".join(sweep.verdict for sweep in sweeps)
        also = [
            *_of_another_load(sweeps, recordings),
            *(cause.sentence for cause in series_causes(sweeps)),
            *(one.sentence for one in comparisons),
            *checks,
            *slow,
        ]
    else:
        said = [one.sentence for one in comparisons]
        if not said:
            said = [_of_many(recordings)] if is_brief else [one.sentence for one in recordings]
        is_alone = len(recordings) == 1 and not comparisons and not spoiled
        if is_alone and (times := recordings[0].slow_times) is not None and times.is_slow:
            # What was slow is why somebody asks.
            said, slow = [incident_sentence(times), *said], []
        sentence = said[0]
        also = [
            *said[1:],
            *checks,
            *slow,
            "No sweep is part of this report, so it says nothing of a knee or of headroom.",
        ]
    return (f"Not to be relied on: {'; '.join(spoiled)}. {sentence}" if spoiled else sentence), also


def _of_another_load(sweeps: Sequence[SweepFacts], recordings: Sequence[RecordingFacts]) -> list[str]:
    """What is said of a sweep that plays none of the recordings it stands beside: 1x is not their load."""
    here = {one.description.uuid for one in recordings}
    others = [one for one in sweeps if one.source_uuid and here and one.source_uuid not in here]
    return [
        f"{shortened(one.title, 60)} plays another recording than those here: 1x is that recording's load, not theirs."
        for one in others
    ]


def _slow(recordings: Sequence[RecordingFacts]) -> list[RecordingFacts]:
    return [one for one in recordings if one.slow_times is not None and one.slow_times.is_slow]


def _of_many(recordings: Sequence[RecordingFacts]) -> str:
    """How many of the recordings were slow for a time; each has a row in the table below."""
    slow, told = len(_slow(recordings)), sum(one.slow_times is not None for one in recordings)
    if not told:
        return f"{len(recordings)} recordings, none of which tells of latency over time."
    those = (
        f"of {len(recordings)} recordings"
        if told == len(recordings)
        else f"of {told} recordings with latencies"
    )
    if not slow:
        return f"No slow time stands out in any {those}."
    return f"{slow} {those} {'was' if slow == 1 else 'were'} slow for a time; the others show no slow time."


def _of(recording: RecordingFacts, sentence: str) -> str:
    """The sentence, and of which recording it speaks: production's figures stand beside the candidate's verdict."""
    description = recording.description
    return f"{description.title} ({description.kind}): {sentence}"


def answer(
    sweeps: Sequence[SweepFacts], recordings: Sequence[RecordingFacts], *, is_enough: bool | None
) -> str:
    """Whether every objective is met, and by what; empty where that cannot be told."""
    if is_enough is None:
        return ""
    names = [candidate(one.target, one.name) for one in sweeps] or [
        f"{one.description.title} ({one.description.kind})" for one in recordings if one.objectives
    ]
    at = " at 1x" if sweeps else ""
    who = " and ".join(dict.fromkeys(names))
    if is_enough:
        return f"{who} meet{'s' if len(set(names)) == 1 else ''} every objective{at}."
    missing = [
        name
        for name, met in zip(
            names,
            [one.knee.objectives_met for one in sweeps]
            or [
                not any(check.is_met is False for check in one.objectives)
                for one in recordings
                if one.objectives
            ],
            strict=True,
        )
        if met is False
    ]
    who = " and ".join(dict.fromkeys(missing))
    return f"{who} miss{'es' if len(set(missing)) == 1 else ''} an objective{at}."


def _from_to(found: Comparison, one: Verdict) -> str:
    entry = found.headline(one.op)
    figures = [figure for figure in entry.figures if figure.quantity == one.quantity] if entry else []
    if not figures:
        return ""
    return f" ({format_duration_ns(figures[0].a_ns)} → {format_duration_ns(figures[0].b_ns)})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def is_enough(sweeps: Sequence[SweepFacts], checks: Sequence[ObjectiveCheck]) -> bool | None:
    """Whether every objective holds: at 1x of every sweep, or without sweeps in every recording."""
    answers = (
        [sweep.knee.objectives_met for sweep in sweeps] if sweeps else [check.is_met for check in checks]
    )
    if not answers:
        return None
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def is_no(
    sweeps: Sequence[SweepFacts],
    checks: Sequence[ObjectiveCheck],
    needs: Sequence[Need],
    findings: Sequence[FindingFacts],
    *,
    is_asked: bool,
) -> bool:
    """Whether the answer is not yes: to ``needs``, else to the objectives; without either nothing was asked."""
    if needs or not is_asked:
        return any(one.verdict != "yes" for one in needs)
    spoilt = {entry.name for entry in findings if entry.level == "invalid"}
    if sweeps:
        return any(is_no_of_knee(one.knee, None, is_spoiled=one.name in spoilt) for one in sweeps)
    return bool(spoilt) or not all(check.is_met for check in checks)


def needs(
    sweeps: Sequence[SweepFacts], scale: float, findings: Sequence[FindingFacts]
) -> list[tuple[str, Need]]:
    """Whose storage, and whether it carries ``scale`` times the recorded load, for each sweep."""
    return [
        (
            candidate(one.target, one.name),
            need(
                one.knee,
                scale,
                spoiled=sorted(
                    {entry.title for entry in findings if entry.level == "invalid" and entry.name == one.name}
                ),
                model=one.model,
            ),
        )
        for one in sweeps
    ]


def is_carried(verdicts: Sequence[str]) -> bool | None:
    """One NO is no, and one CANNOT TELL among YES cannot be told."""
    if "no" in verdicts:
        return False
    return None if "cannot_tell" in verdicts else True


def _objective_clause(knee: Knee, who: str) -> str:
    """The tightest objective first: the one crossed at the lowest load."""
    by_state: dict[str, list[SloKnee]] = {}
    for one in knee.objectives:
        by_state.setdefault(one.state, []).append(one)
    if "missed_at_lowest" in by_state:
        one = by_state["missed_at_lowest"][0]
        return (
            f"{who} misses {one.objective.subject} under {one.objective.limit_text} "
            f"already at the lowest load judged"
        )
    crossed = [one for one in by_state.get("crossed", []) if one.iops is not None]
    if crossed:
        one = min(crossed, key=lambda each: each.iops.value if each.iops else 0.0)
        assert one.iops is not None
        of = " of the recorded load" if one.scale is not None else ""
        load = scale_text(one.scale) if one.scale is not None else load_text(one.iops, None)
        return f"{who} carries {load}{of} before {one.objective.subject} passes {one.objective.limit_text}"
    if "met_everywhere" in by_state:
        one = by_state["met_everywhere"][0]
        top = f"{one.highest_met_iops or 0:,.0f} IOPS"
        scale = f"{one.highest_met_scale:g}x ({top})" if one.highest_met_scale is not None else top
        return (
            f"{who} keeps {one.objective.subject} under {one.objective.limit_text} "
            f"at every load judged, up to {scale}"
        )
    if "too_few_ios" in by_state:
        one = by_state["too_few_ios"][0]
        return f"The steps hold too few I/Os to judge {one.objective.subject}"
    return ""


def _knee_clause(knee: Knee) -> str:
    sentence = knee.sentence.rstrip(".")
    if not knee.objectives:
        return sentence
    return (
        sentence.replace("The knee", "its knee", 1)
        if sentence.startswith("The knee")
        else sentence[:1].lower() + sentence[1:]
    )
