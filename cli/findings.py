"""Findings of the validity rules on the screen."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from rich.text import Text

from iotrace.analyze.validity import Finding
from iotrace.schemas import Quality
from iotrace.schemas.text import printable

from . import console

IF_RELIED_ON: Final = "What the figures would say if they could be relied on"
"""Heading of an answer whose figures must not be used."""


def print_findings(findings: Sequence[Finding], *, after_disqualification: bool = False) -> None:
    """Say what would make the figures above lie; say so too when no rule fired.

    ``after_disqualification``: what forbids to use them was said before them (`print_disqualification`).
    """
    if not findings:
        console.paragraph("no validity rule fired", style="green")
        return
    if after_disqualification and not (findings := reservations(findings)):
        return
    console.heading("Before you believe this")
    _print(findings)


def print_disqualification(findings: Mapping[str, Sequence[Finding]]) -> None:
    """Say before any figure why it must not be relied on, nothing where no rule forbids it."""
    spoiling = {name: disqualifying(entries) for name, entries in findings.items()}
    for name, entries in spoiling.items():
        if entries:
            console.heading(f"Not to be relied on: {name}")
            _print(entries)


def print_findings_by_name(findings: Mapping[str, Sequence[Finding]]) -> None:
    """The findings of several recordings, each under its name."""
    if not any(findings.values()):
        print_findings([])
    for name, entries in findings.items():
        if rest := reservations(entries):
            console.heading(f"Before you believe {name}")
            _print(rest)


def print_quality(name: str, quality: Quality, findings: Sequence[Finding]) -> None:
    """How whole a recording is, by what its recorder knew and by what the disks' own counters show since."""
    lacks = [entry for entry in findings if entry.rule == "trace-lacks-ios"]
    if lacks and quality.verdict == "good":
        verdict: Literal["poor", "usable"] = "poor" if has_invalid(lacks) else "usable"
        quality = replace(quality, verdict=verdict, reasons=[*quality.reasons, lacks[0].title])
    console.quality(name, quality)


def _print(findings: Sequence[Finding]) -> None:
    for entry in findings:
        style = "bold red" if entry.level == "invalid" else "yellow"
        console.data.print(Text.assemble((f"{entry.level}: ", style), printable(entry.title)))
        console.paragraph(entry.detail, indent=2)
        if entry.hint:
            console.paragraph(entry.hint, style="dim", indent=2)


def disqualifying(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that say that the figures must not be used."""
    return [entry for entry in findings if entry.level == "invalid"]


def reservations(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that leave the figures usable."""
    return [entry for entry in findings if entry.level != "invalid"]


def has_invalid(findings: Sequence[Finding]) -> bool:
    """Whether a finding says that the figures must not be used."""
    return bool(disqualifying(findings))
