"""The answer of `knee` and `sweep`: whether it is enough, where the storage bends, and the steps that show it."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from iotrace.analyze.ceiling.against_knee import BesideKnee
from iotrace.analyze.ceiling.presentation import beside_knee_sections
from iotrace.analyze.present import Answer, Cell, Duration, Number, Section, Sentence, Table
from iotrace.analyze.present.answer import Tone, columns, notes_section, section
from iotrace.analyze.present.trust import IF_RELIED_ON, disqualified, findings_section, trust_of_findings
from iotrace.analyze.units import DASH, format_moment
from iotrace.analyze.validity import Finding
from iotrace.schemas import Recording, counted
from iotrace.schemas.models import model_words

from .agreement import place, usl_text
from .answer import Knee
from .need import Need
from .predicted import predicted_sections
from .step import Step

NEED_TONES: Final[dict[str, Tone]] = {"yes": "good", "no": "bad", "cannot_tell": "doubt"}
"""How the answer to --need is shown."""
_NO_LAYERS: Final = (
    "Which layer ends it is not known: none was recorded. iotrace sweep --watch records them (it needs root)."
)


def knee_answer(
    found: Knee,
    name: str,
    steps: Sequence[Recording],
    findings: Sequence[Finding],
    need: Need | None = None,
    beside: BesideKnee | None = None,
) -> Answer:
    """The whole answer on ``steps``, which are called ``name``; ``beside`` is the knee held against its ceiling."""
    spoiled = disqualified({name: findings})
    knee = Sentence(found.sentence, "answer")
    # What was asked for comes first: a need, else the objectives, else the knee itself.
    asked = [Sentence(one.sentence, "answer") for one in found.objectives] or [knee]
    if need is not None:
        asked = [Sentence(f"{need.sentence} {need.hint}".rstrip(), NEED_TONES[need.verdict])]
    elif found.state == "not_judged":
        asked = [knee]  # it says why nothing can be said, of an objective neither
    elif spoiled:
        asked = []  # a rule forbids it
    every = [*(Sentence(one.sentence, "answer") for one in found.objectives), knee]
    more = [Sentence(f"{words}.") for words in [found.headroom] if words]
    more += [Sentence(cause.sentence) for cause in found.causes]
    if need is not None and found.state == "reached" and _has_no_layers(found, steps):
        more.append(Sentence(_NO_LAYERS))
    below = [*(one for one in every if one not in asked), *more]
    heading = IF_RELIED_ON if spoiled else "Knee"
    return Answer(
        opening=[
            *(asked if need is not None else []),
            *spoiled,
            *(asked if need is None else []),
            Sentence(_what(found, name, steps)),
            *trust_of_findings(findings),
        ],
        sections=[
            *([Section(heading, sentences=below)] if below else []),
            *knee_sections(found),
            *(beside_knee_sections(beside) if beside is not None else []),
            *notes_section(found.notes),
            *findings_section(name, None, findings),
        ],
    )


def _has_no_layers(found: Knee, steps: Sequence[Recording]) -> bool:
    """Whether storage was asked, which has layers, and nobody recorded them."""
    return not model_words(steps) and all(step.layers is None for step in found.steps)


def knee_sections(found: Knee) -> list[Section]:
    """The steps, and what other estimators say."""
    return [
        Section("Steps", _steps(found.steps) if found.per_minute is None else _transactions(found.steps)),
        *(predicted_sections(found.predicted) if found.predicted is not None else []),
        *_estimators(found),
    ]


def _what(found: Knee, name: str, steps: Sequence[Recording]) -> str:
    """What was run, and when."""
    moments = sorted({format_moment(step.manifest.clock.start_utc_ns) for step in steps} - {""})
    when = f", {moments[0]}" if moments else ""
    until = f" to {moments[-1][11:]}" if len(moments) > 1 and moments[0][:10] == moments[-1][:10] else ""
    counts = [step.outstanding for step in found.steps if step.outstanding is not None]
    loads = [f"{count:,}" for count in counts] or [_load(step) for step in found.steps]
    unit = f" {found.load_word}" if counts else ""
    reach = f" at {loads[0]} to {loads[-1]}{unit}" if len(loads) > 1 and DASH not in loads else ""
    return (
        f"{name}: {counted(len(steps), 'step')}{reach}{when.removesuffix(' UTC') if until else when}{until}"
    )


def _steps(steps: list[Step]) -> Table:
    """One line a step, by rising load. Response is completed - intended and cannot hide queueing.

    Where no step has a median, as with tools that print means, the column is the mean.
    """
    means_only = all(step.response_ns["p50"] is None for step in steps)
    longest_s = Counter[str]()
    for step in steps:
        longest_s[_load(step)] = max(longest_s[_load(step)], round(step.duration_s))
    repeated = {load for load, count in Counter(map(_load, steps)).items() if count > 1}

    def state(step: Step) -> str:
        """What came of it; where a load was run again, the longer run says how long it was."""
        length_s = round(step.duration_s)
        is_longer = _load(step) in repeated and length_s == longest_s[_load(step)]
        return f"{_state(step)} {length_s} s" if is_longer else _state(step)

    rows: list[tuple[Cell, ...]] = [
        (
            _load(step),
            state(step),
            Number(step.offered_iops),
            Number(step.achieved_iops),
            # No storage answers in no time: a model that states none does.
            Duration((step.response_ns_mean if means_only else step.response_ns["p50"]) or None),
            Duration(step.response_ns["p99"] or None),
            Duration(step.service_ns["p99"] or None),
            Number(step.in_flight_mean, 1),
            Number(step.achieved_mb_per_s, 1),
            Number(step.littles_law_ratio, 2),
        )
        for step in steps
    ]
    median = "response mean" if means_only else "response p50"
    heads = ("load", "state", "offered IOPS", "done IOPS", median, "response p99", "service p99", "in flight", "MB/s",
             "+Little law")  # fmt: skip
    return Table(columns(*heads, text=2), rows)


def _transactions(steps: list[Step]) -> Table:
    """One line a run, by rising number of virtual users; latencies are those of a new order."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{step.outstanding:,}",
            _state(step),
            Number(step.transactions.new_orders_per_minute),
            Number(step.transactions.transactions_per_minute),
            *(Duration(step.response_ns[name]) for name in ("p50", "p95", "p99")),
        )
        for step in steps
        if step.transactions is not None
    ]
    heads = ("users", "state", "NOPM", "TPM", "new order p50", "p95", "p99")
    return Table(columns(*heads, text=2), rows)


def _estimators(found: Knee) -> list[Section]:
    """What methods other than ours make of the same steps: for those who know them by name."""
    in_flight = "in flight" if found.load_word == "outstanding" else found.load_word
    words = {True: "agrees", False: "differs", None: DASH}
    rows = [
        (vote.method, place(vote, in_flight, found.per_minute_word or "IOPS"), words[vote.agrees])
        for vote in found.votes
    ]
    said = [Sentence(found.agreement)] if found.agreement else []
    notes = [usl_text(found.usl)] if found.usl is not None else []
    heads = columns("method", "knee at", "with the knee above")
    return list(section("Other estimators", heads, rows, sentences=said, notes=notes, detail=True))


def _load(step: Step) -> str:
    if step.outstanding is not None:
        return f"{step.load_word[0]}{step.outstanding}"
    return DASH if step.scale is None or math.isnan(step.scale) else f"{step.scale:g}x"


def _state(step: Step) -> str:
    if step.generator_limited:
        return "was late"
    if step.has_few_ios:
        return "too short"
    if step.set_aside:
        return "left out"
    if step.is_judged:
        return "on credits" if step.lives_on_credits else "saturated" if step.is_saturated else "kept up"
    if step.is_warming:
        return "settling"
    return "errors" if step.littles_law_holds else "cut off"
