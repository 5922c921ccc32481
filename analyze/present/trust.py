"""Whether to believe an answer: how whole the recording is, and which validity rules fired."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from iotrace.analyze.validity import Finding
from iotrace.schemas import Quality
from iotrace.schemas.text import shortened

from .answer import Section, Sentence

IF_RELIED_ON: Final = "What the figures would say if they could be relied on"
"""Heading of an answer whose figures must not be used."""


def disqualifying(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that say that the figures must not be used."""
    return [entry for entry in findings if entry.level == "invalid"]


def has_invalid(findings: Sequence[Finding]) -> bool:
    """Whether a finding says that the figures must not be used."""
    return bool(disqualifying(findings))


def disqualified(findings: Mapping[str, Sequence[Finding]]) -> list[Sentence]:
    """What is said before any figure where a rule forbids to use them, for each recording by its name."""
    return [
        Sentence(f"Not to be relied on: {shortened(name, 36)}: {'; '.join(titles)}", "bad")
        for name, entries in findings.items()
        if (titles := dict.fromkeys(entry.title for entry in disqualifying(entries)))
    ]


def trust(quality: Quality, findings: Sequence[Finding], *, is_judged: bool = True) -> list[Sentence]:
    """The line of the opening on whether to trust it; none where `disqualified` has said not to.

    ``is_judged`` is false where no rule knows how to judge the answer.
    """
    if disqualifying(findings):
        return []
    # The reasons stand below, and need not be said twice.
    judged = _judged(quality, findings)
    recorded = f"recorded {judged.words}{f' ({judged.reasons[0]})' if judged.reasons else ''}"
    is_clean = not findings
    findings = [entry for entry in findings if entry.rule != "data-lost"]
    if not findings:
        rules = "; no validity rule fired" if is_judged else ""
        words = f"Trust: {recorded}{rules if is_clean else ', see below'}"
        return [Sentence(words, "good" if quality.verdict == "good" else "doubt")]
    if findings[0].rule == "answered-by-a-model":
        # Nothing was recorded.
        return [Sentence(f"Trust: {_titles(findings)}", "doubt")]
    return [Sentence(f"Trust: {recorded}, but {_titles(findings)}", "doubt")]


def trust_of_findings(findings: Sequence[Finding]) -> list[Sentence]:
    """The same line where there are several recordings, and only the rules tell."""
    if disqualifying(findings):
        return []
    if not findings:
        return [Sentence("Trust: no validity rule fired", "good")]
    return [Sentence(f"Before you trust it: {_titles(findings)}", "doubt")]


def findings_section(name: str, quality: Quality | None, findings: Sequence[Finding]) -> list[Section]:
    """What to know before believing the figures of one recording, in full; none where there is nothing."""
    if not findings:
        return []
    said = [quality_sentence(quality, findings, name)] if quality is not None else []
    for entry in findings:
        said.append(Sentence(f"{entry.level}: {entry.title}", "bad" if entry.level == "invalid" else "doubt"))
        said.append(Sentence(f"  {entry.detail}"))
        if entry.hint:
            said.append(Sentence(f"  {entry.hint}", "aside"))
    return [Section(f"Before you believe {name}", sentences=said)]


def quality_sentence(quality: Quality, findings: Sequence[Finding], name: str) -> Sentence:
    """How whole a recording is, in full."""
    quality = _judged(quality, findings)
    reasons = f" ({'; '.join(quality.reasons)})" if quality.reasons else ""
    return Sentence(f"{name}: recorded {quality.words}{reasons}")


def _judged(quality: Quality, findings: Sequence[Finding]) -> Quality:
    """How whole a recording is, by what its recorder knew and by what the disks' own counters show since."""
    lacks = [entry for entry in findings if entry.rule == "trace-lacks-ios"]
    if not lacks or quality.verdict != "good":
        return quality
    verdict: Literal["poor", "usable"] = "poor" if disqualifying(lacks) else "usable"
    return replace(quality, verdict=verdict, reasons=[*quality.reasons, lacks[0].title])


def _titles(findings: Sequence[Finding]) -> str:
    first, *rest = dict.fromkeys(entry.title for entry in findings)
    return f"{first}; {len(rest)} more below" if rest else first
