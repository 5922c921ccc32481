"""Findings of the validity rules on the screen."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from iotrace.analyze.validity import Finding

from . import console


def print_findings(findings: Sequence[Finding]) -> None:
    """Say what would make the figures above lie; say so too when no rule fired."""
    if not findings:
        console.paragraph("no validity rule fired", style="green")
        return
    console.heading("Before you believe this")
    _print(findings)


def print_findings_by_name(findings: Mapping[str, Sequence[Finding]]) -> None:
    """The same for several recordings, each under its name."""
    if not any(findings.values()):
        print_findings([])
    for name, entries in findings.items():
        if entries:
            console.heading(f"Before you believe {name}")
            _print(entries)


def _print(findings: Sequence[Finding]) -> None:
    for entry in findings:
        style = "bold red" if entry.level == "invalid" else "yellow"
        console.data.print(Text.assemble((f"{entry.level}: ", style), console.printable(entry.title)))
        console.paragraph(entry.detail, indent=2)
        if entry.hint:
            console.paragraph(entry.hint, style="dim", indent=2)


def has_invalid(findings: Sequence[Finding]) -> bool:
    """Whether a finding says that the figures must not be used."""
    return any(entry.level == "invalid" for entry in findings)
