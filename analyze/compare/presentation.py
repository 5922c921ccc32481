"""The answer of `compare`: faster or slower, by how much, and whether the work was the same; then the evidence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from iotrace.analyze.present import (
    Answer,
    Bytes,
    Cell,
    Count,
    Duration,
    Instant,
    Rate,
    Ratio,
    Section,
    Sentence,
    Share,
    Table,
)
from iotrace.analyze.present.answer import columns, notes_section, section
from iotrace.analyze.present.trust import (
    IF_RELIED_ON,
    disqualified,
    disqualifying,
    findings_section,
    trust_of_findings,
)
from iotrace.analyze.units import DASH, format_moment
from iotrace.analyze.validity import Finding, danger
from iotrace.schemas import LOAD_OPS, Recording
from iotrace.schemas.manifest import QUALITY_WORDS
from iotrace.schemas.text import shortened

from .comparison import ClassComparison, Comparison, Figure, Side
from .same_work import work_value_text
from .words import inconclusive_means, lifted, without_interval

_TITLE_CHARACTERS: Final = 24
_DIFFERENCES_NAMED: Final = 3
_SHOWN: Final = 16
"""Rows of latencies: those of whole operations, and of the roles and sizes with the most I/Os."""


def compare_answer(
    found: Sequence[Comparison],
    recordings: Mapping[str, tuple[str, Recording]],
    findings: Mapping[str, Sequence[Finding]],
) -> Answer:
    """The whole answer; ``recordings`` are names and recordings by label, ``findings`` those of each label."""
    named = {label: f"{label}: {name}" for label, (name, _) in recordings.items()}
    bad = {label for label, entries in findings.items() if disqualifying(entries)}
    spoiled = [one for one in found if {one.a.label, one.b.label} & bad]
    starts = {label: recording.manifest.clock.start_utc_ns for label, (_, recording) in recordings.items()}
    every = sorted(
        (entry for entries in findings.values() for entry in entries),
        key=lambda one: danger(one.level, one.rule),
    )
    return Answer(
        opening=[
            *disqualified({named[label]: entries for label, entries in findings.items()}),
            *(sentence for one in found if one not in spoiled for sentence in verdict_sentences(one)),
            *(Sentence(words) for words in _who(recordings, found)),
            *trust_of_findings(every),
        ],
        sections=[
            *(
                [
                    Section(
                        IF_RELIED_ON, sentences=[words for one in spoiled for words in verdict_sentences(one)]
                    )
                ]
                if spoiled
                else []
            ),
            *comparison_sections(found, starts),
            *(
                part
                for label, (_, recording) in recordings.items()
                for part in findings_section(named[label], recording.manifest.quality, findings[label])
            ),
        ],
    )


def comparison_sections(found: Sequence[Comparison], starts_utc_ns: Mapping[str, int]) -> list[Section]:
    """What is compared, whether it did the same work, latencies, and where the time goes."""
    metrics = dict.fromkeys(one.headline_metric for one in found)
    others = dict.fromkeys(entry.b_metric for one in found for entry in one.classes)
    basis = [Sentence(words) for words in dict.fromkeys(words for one in found for words in one.basis)]
    reasons = dict.fromkeys(one.headline_reason for one in found)
    return [
        _sides(found, starts_utc_ns),
        *(part for one in found for part in _work(one)),
        *(part for one in found for part in _paired(one)),
        *(part for metric in metrics | others for part in _latency(found, metric, metrics)),
        *(part for side in _looked_at(found) for part in _waterfall(side)),
        Section(
            "Which clocks are held against each other",
            sentences=[*basis, *map(Sentence, reasons)],
            detail=True,
        ),
        *notes_section(_notes(found)),
    ]


def headline_sections(found: Comparison) -> list[Section]:
    """Whole operations only, by the headline metric, and what keeps the two from being alike."""
    whole = [entry for entry in found.classes if entry.role is None]
    return [
        *([Section("", sentences=_warnings(found))] if found.warnings else []),
        *section(
            _heading([found], found.headline_metric),
            columns(*_heads(found), text=2),
            _pairs(whole, found.headline_metric),
        ),
    ]


def _warnings(found: Comparison) -> list[Sentence]:
    return [Sentence(f"warning: {words}", "doubt") for words in found.warnings]


def _who(recordings: Mapping[str, tuple[str, Recording]], found: Sequence[Comparison]) -> Iterator[str]:
    """Which recording each label stands for, when it was made, and whether it did the work of the first."""
    titles = [recording.manifest.title for _, recording in recordings.values()]
    work = {
        one.b.label: f"; {_same_work(one)}"
        + (f"; at the {one.b.layer} layer, which both have" if lifted(one.a, one.b) else "")
        for one in found
    }
    for label, (name, recording) in recordings.items():
        manifest = recording.manifest
        is_told = bool(manifest.title) and titles.count(manifest.title) == 1
        title = shortened(manifest.title if is_told else name, _TITLE_CHARACTERS)
        when = format_moment(manifest.clock.start_utc_ns)
        yield f"{label}: {title}, {manifest.kind}{f' {when}' if when else ''}{work.get(label, '')}"


def _same_work(found: Comparison) -> str:
    if found.same_work:
        return "the same work as A"
    names = [aspect.name for aspect in found.work if aspect.differs]
    more = len(names) - _DIFFERENCES_NAMED
    return f"not the same work as A: {', '.join(names[:_DIFFERENCES_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _looked_at(found: Sequence[Comparison]) -> list[Side]:
    """The base over each span that it was looked at, then the others."""
    bases: dict[tuple[str, int, int], Side] = {}
    for one in found:
        bases.setdefault((one.a.layer, one.a.span_ns, sum(one.a.io_count.values())), one.a)
    return [*bases.values(), *(one.b for one in found)]


def _sides(found: Sequence[Comparison], starts_utc_ns: Mapping[str, int]) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (
            side.label,
            side.title,
            side.layer,
            Count(sum(side.io_count.get(op, 0) for op in LOAD_OPS)),
            Rate(side.ios_per_s),
            Duration(side.span_ns),
            Instant(starts_utc_ns.get(side.label, 0)),
            Bytes(side.size_bytes),
            side.kind,
            QUALITY_WORDS[side.quality_verdict],
        )
        for side in _looked_at(found)
    ]
    heads = (
        "",
        "recording",
        "layer",
        "I/Os",
        "rate",
        "length",
        "recording began",
        "+moved",
        "+kind",
        "+quality",
    )
    return Section("What is compared", Table(columns(*heads, text=3), rows))


def verdict_sentences(found: Comparison) -> list[Sentence]:
    """The answer per operation, then what in the work makes it doubtful."""
    if not found.verdicts:
        words = f"A and {found.b.label} have too few I/Os of one operation in common for an answer"
        return [Sentence(words, "doubt")]
    doubts = dict.fromkeys(one.reservation for one in found.verdicts if one.reservation and one.ratio)
    return [
        *(Sentence(one.sentence, "doubt" if one.reservation else "answer") for one in found.verdicts),
        *(Sentence(words, "doubt") for words in doubts),
    ]


def _paired(found: Comparison) -> Iterator[Section]:
    """Each I/O against itself, where a recorder watched the replay."""
    label = found.b.label
    rows = [
        (
            one.layer,
            one.op,
            f"{one.pair_count:,} of {one.recorded_count:,}",
            Ratio(one.ratio, one.ratio_interval),
            Duration(one.difference_ns, one.difference_interval_ns),
            one.by,
        )
        for one in found.paired
    ]
    heads = ("", "", "paired", f"typical {label} / A", "mean difference", "+by")
    if found.unpaired:
        yield Section("", sentences=[Sentence(words, "doubt") for words in found.unpaired])
    heading = f"Each I/O of A against the same one of {label}, as recorded beside the replay"
    yield from section(heading, columns(*heads, text=2), rows)


def _work(found: Comparison) -> Iterator[Section]:
    # What was asked for is told only where it is another figure than A's own.
    asked = found.is_replay_of_a and any(
        work_value_text(aspect, aspect.expected) not in {DASH, work_value_text(aspect, aspect.a)}
        for aspect in found.work
    )
    rows = [
        (
            aspect.name,
            *(
                work_value_text(aspect, value)
                for value in (aspect.a, *([aspect.expected] if asked else []), aspect.b)
            ),
            "differs" if aspect.differs else "",
        )
        for aspect in found.work
    ]
    heads = ("", "A", *(["asked for"] if asked else []), found.b.label, "")
    heading = f"Did {found.b.label} do the same work? {'Yes' if found.same_work else 'No'}"
    yield Section(heading, Table(columns(*heads), rows))
    if found.warnings:
        yield Section("", sentences=_warnings(found))


def _heads(found: Comparison) -> Sequence[str]:
    return ("", "", "A", found.b.label, f"{found.b.label} / A")


def _latency(found: Sequence[Comparison], metric: str, headlines: Iterable[str]) -> Iterator[Section]:
    detail = metric not in headlines
    if len(found) == 1:
        rows = _pairs(found[0].classes, metric)
        yield from section(
            _heading(found, metric), columns(*_heads(found[0]), text=2), rows, shown=_SHOWN, detail=detail
        )
        return
    grouped: dict[tuple[str, str], list[tuple[str, Figure]]] = {}
    for one in found:
        for entry in one.classes:
            if entry.b_metric == metric:
                for figure in _given(entry):
                    grouped.setdefault((_class_name(entry), figure.quantity), []).append(
                        (one.b.label, figure)
                    )
    several: list[tuple[Cell, ...]] = []
    for (name, quantity), figures in grouped.items():
        several.append((name, quantity, "A", Duration(figures[0][1].a_ns), ""))
        several += [(name, quantity, label, _took(figure.b_ns), _ratio(figure)) for label, figure in figures]
    heads = columns("", "", "", "latency", "over A's", text=3)
    yield from section(_heading(found, metric), heads, several, shown=_SHOWN * len(found), detail=detail)


def _pairs(classes: Sequence[ClassComparison], metric: str) -> list[tuple[Cell, ...]]:
    return [
        (
            _class_name(entry),
            figure.quantity,
            _took(figure.a_ns),
            _took(figure.b_ns),
            _ratio(figure),
        )
        for entry in classes
        if entry.b_metric == metric
        for figure in _given(entry)
    ]


def _took(value_ns: float | None) -> Duration:
    """No storage answers in no time: a model that states none does, and a clock that is too coarse to tell."""
    return Duration(value_ns or None)


def _ratio(figure: Figure) -> Ratio:
    return Ratio(figure.ratio, figure.ratio_interval) if figure.b_ns else Ratio(None)


def _heading(found: Sequence[Comparison], metric: str) -> str:
    theirs = ", ".join(sorted({e.a_metric for one in found for e in one.classes if e.b_metric == metric}))
    whose = f"{found[0].b.label}'s" if len(found) == 1 else "the others'"
    return f"Latency: A's {theirs} against {whose} {metric}, 95 % interval of the ratio"


def _given(entry: ClassComparison) -> list[Figure]:
    return [figure for figure in entry.figures if figure.ratio is not None]


def _class_name(entry: ClassComparison) -> str:
    parts = [entry.role or "", entry.op, entry.size_class if entry.size_class_bytes is not None else ""]
    return " ".join(part for part in parts if part)


def _waterfall(side: Side) -> Iterator[Section]:
    if len({step.layer for step in side.waterfall}) < 2:
        return
    rows: list[tuple[Cell, ...]] = [
        (
            step.layer,
            step.op,
            Duration(step.mean_ns),
            Duration(step.residual_ns, step.residual_interval_ns)
            if step.below
            else Duration(step.mean_ns, step.mean_interval_ns),
            Share(step.share, step.share_interval),
        )
        for step in side.waterfall
    ]
    problems = [f"{step.layer} {step.op}: {step.problem}" for step in side.waterfall if step.problem]
    heading = f"Where the time goes in {side.label}: what each layer adds to the one below it"
    heads = columns("layer", "op", "mean", "adds", "share", text=2)
    yield from section(heading, heads, rows, notes=problems)


def _notes(found: Sequence[Comparison]) -> list[str]:
    missing = without_interval([entry for one in found for entry in one.classes])
    return [
        *(words for one in found if (words := inconclusive_means(one))),
        *([missing] if missing else []),
        *(f"not compared: {'; '.join(one.unmatched)}" for one in found if one.unmatched),
    ]
