"""Writes a report: gathers, renders, and puts the file in its place whole."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from iotrace.schemas import IotraceError, Recording, Sweep

from .. import slo as slo_module
from . import verdict
from .facts import RecordingFacts, ReportFacts, SweepFacts
from .findings import findings_of
from .gather import Section, origin, recording_section, sweep_section
from .page import render


def write_report(
    inputs: Sequence[Recording | Sweep],
    output: Path | str,
    *,
    slo: str | Sequence[slo_module.Objective] | None = None,
    title: str | None = None,
    overwrite: bool = False,
) -> ReportFacts:
    """Write one self-contained HTML file on ``inputs``, sweeps first, and return what it says.

    ``slo`` is text as `slo.parse` takes it, or its result. Raises `IotraceError` for no inputs, unreadable ones, a bad
    objective, or an ``output`` that exists (without ``overwrite``) or cannot be written.
    """
    if not inputs:
        raise IotraceError(
            "there is nothing to report on",
            hint="name recordings or sweeps: iotrace report X.iotrace -o report.html",
        )
    path = Path(output)
    _check_free(path, overwrite=overwrite)
    objectives = slo_module.parse(slo) if isinstance(slo, str) else tuple(slo or ())
    sections = [sweep_section(one, objectives) for one in inputs if isinstance(one, Sweep)]
    sections += [recording_section(one, objectives) for one in inputs if isinstance(one, Recording)]
    facts = _facts(inputs, sections, objectives, title)
    text = render(facts, sections)
    _write(path, text)
    facts.path, facts.size_bytes = path, len(text.encode())
    return facts


def _facts(
    inputs: Sequence[Recording | Sweep],
    sections: Sequence[Section],
    objectives: Sequence[slo_module.Objective],
    title: str | None,
) -> ReportFacts:
    sweeps = [section.facts for section in sections if isinstance(section.facts, SweepFacts)]
    recordings = [section.facts for section in sections if isinstance(section.facts, RecordingFacts)]
    every: list[Recording] = []
    notes: list[str] = []
    for one in inputs:
        every += one.recordings() if isinstance(one, Sweep) else [one]
    for sweep in sweeps:
        notes += [f"{sweep.name}: {note}" for note in sweep.knee.notes]
    for recording in recordings:
        notes += [f"{recording.name}: {note}" for note in recording.description.notes]
    checks = [check for recording in recordings for check in recording.objectives]
    findings = findings_of(inputs, objectives)
    spoiled = sorted({finding.title for finding in findings if finding.level == "invalid"})
    return ReportFacts(
        title=title or (sweeps[0].title if sweeps else recordings[0].description.title),
        created_utc=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        verdict=verdict.overall(sweeps, recordings, spoiled),
        is_enough=None if spoiled else verdict.is_enough(sweeps, checks),
        sweeps=sweeps,
        recordings=recordings,
        findings=findings,
        origins=[origin(recording) for recording in every],
        notes=notes,
    )


def _check_free(path: Path, *, overwrite: bool) -> None:
    if path.is_dir():
        raise IotraceError(f"'{path}' is a folder", hint="name a file, such as report.html")
    if path.exists() and not overwrite:
        raise IotraceError(f"'{path}' exists already", hint="choose another name, or pass --overwrite")


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.write_text(text, "utf-8", newline="\n")
        partial.replace(path)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        raise IotraceError(
            f"cannot write '{path}': {problem.strerror}", hint="choose a folder you may write to with -o"
        ) from problem
