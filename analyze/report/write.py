"""Writes a report: decides which kind of file it becomes, gathers, renders, and puts the file in its place whole."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, get_args

from iotrace.analyze import slo as slo_module
from iotrace.analyze.ceiling import Path as HardwarePath
from iotrace.schemas import IotraceError, Recording, Sweep
from iotrace.schemas.plain_files import resolved
from iotrace.schemas.replacing import check_file, new_file, sealed_text

from . import gather, verdict
from .chromium import installed, print_pdf
from .facts import ComparisonFacts, RecordingFacts, ReportFacts, SweepFacts, findings_of, origin
from .page import render, render_markdown
from .parts import Section
from .tables import RECORDINGS_BRIEF
from .workbook import write_workbook

Kind = Literal["html", "md", "xlsx", "pdf"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_OF_SUFFIX: Final[dict[str, Kind]] = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".xlsx": "xlsx",
    ".pdf": "pdf",
}


def kind_of(path: Path, wanted: str | None = None) -> Kind:
    """The kind of the report that becomes ``path``.

    Raises `IotraceError` if ``wanted`` is no kind, contradicts the name, or neither says one.
    """
    names = ", ".join(KINDS[:-1]) + f" or {KINDS[-1]}"
    named = _OF_SUFFIX.get(path.suffix.lower())
    if wanted is None:
        if named is None and path.suffix:
            raise IotraceError(
                f"'{path.name}' does not end in a kind of report that iotrace writes",
                hint=f"end it in .{names.replace(', ', ', .').replace(' or ', ' or .')}, or say which with --to",
            )
        return named or "html"
    kind = next((kind for kind in KINDS if kind == wanted), None)
    if kind is None:
        raise IotraceError(f"'{wanted}' is not a kind of report", hint=f"--to takes {names}")
    if named is not None and named != kind:
        raise IotraceError(
            f"'{path.name}' is {kind} by --to, but {named} by its name",
            hint=f"leave --to out, or call it {path.stem}.{kind}",
        )
    return kind


def write_report(
    inputs: Sequence[Recording | Sweep],
    output: Path | str,
    *,
    slo: str | Sequence[slo_module.Objective] | None = None,
    need: float | None = None,
    title: str | None = None,
    ceiling: HardwarePath | None = None,
    overwrite: bool = False,
    kind: str | None = None,
) -> ReportFacts:
    """Write one self-contained file on ``inputs``, sweeps first, and return what it says.

    ``kind`` is html, md, xlsx or pdf; without it the end of ``output``'s name says which, and html it is by default.

    ``slo`` is text as `slo.parse` takes it, or its result; ``need`` is the load that sweeps have to carry, relative to
    the recorded one, which the verdict then answers; the knees of sweeps are held against ``ceiling``. Raises
    `IotraceError` for no inputs, unreadable ones, a bad objective, or an ``output`` that cannot be written or is taken,
    unless by a report as iotrace wrote it and ``overwrite`` is set.
    """
    if not inputs:
        raise IotraceError(
            "there is nothing to report on",
            hint="name recordings or sweeps: iotrace report X.iotrace -o report.html",
        )
    if need is not None and not any(isinstance(one, Sweep) for one in inputs):
        raise IotraceError(
            "without a sweep nothing shows which load the storage carries",
            hint="name a sweep too, as iotrace sweep makes it, or leave --need out",
        )
    path = Path(output)
    _check_free(path, [one.path for one in inputs], overwrite=overwrite)
    made = kind_of(path, kind)
    if made == "pdf":
        installed()  # before the minutes that a long night takes
    facts, sections = tell(inputs, slo=slo, need=need, title=title, ceiling=ceiling)
    with new_file(path, overwrite=overwrite) as partial:
        write_page(partial, made, facts, sections)
    facts.path, facts.size_bytes = path, path.stat().st_size
    return facts


def tell(
    inputs: Sequence[Recording | Sweep],
    *,
    slo: str | Sequence[slo_module.Objective] | None = None,
    need: float | None = None,
    title: str | None = None,
    ceiling: HardwarePath | None = None,
) -> tuple[ReportFacts, list[Section]]:
    """What a report on ``inputs`` says, and the sections of its page. Raises `IotraceError` as `write_report` does."""
    objectives = slo_module.parse(slo) if isinstance(slo, str) else tuple(slo or ())
    recordings = [one for one in inputs if isinstance(one, Recording)]
    swept = [gather.tell_sweep(one, objectives, ceiling, need) for one in inputs if isinstance(one, Sweep)]
    series = gather.tell_series([facts for facts, _ in swept])
    compared = gather.tell_comparisons(recordings)
    slots_max = gather.slots_for(len(recordings))
    recorded = [
        gather.tell_recording(one, objectives, title=called, number=number, slots_max=slots_max)
        for number, (one, called) in enumerate(
            zip(recordings, gather.distinct_titles(recordings), strict=True), 1
        )
    ]
    gather.leave_undrawn(recorded)
    facts = _facts(
        inputs,
        objectives,
        need,
        title,
        [one for one, _ in swept],
        [one for one, _ in compared],
        [one for one, _ in recorded],
    )
    sections = [section for _, section in swept]
    sections += [series] if series else []
    sections += [section for _, section in compared]
    sections += [section for _, some in recorded for section in some]
    return facts, sections


def write_page(path: Path, kind: Kind, facts: ReportFacts, sections: list[Section]) -> None:
    """Write ``facts`` and ``sections`` to ``path`` as a ``kind``."""
    if kind == "xlsx":
        write_workbook(path, facts, sections)
    elif kind == "md":
        path.write_text(sealed_text(render_markdown(facts, sections)), "utf-8", newline="\n")
    elif kind == "html":
        path.write_text(sealed_text(render(facts, sections)), "utf-8", newline="\n")
    else:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            page.write_text(render(facts, sections), "utf-8", newline="\n")
            path.write_bytes(print_pdf(page))


def _facts(
    inputs: Sequence[Recording | Sweep],
    objectives: Sequence[slo_module.Objective],
    need: float | None,
    title: str | None,
    sweeps: list[SweepFacts],
    comparisons: list[ComparisonFacts],
    recordings: list[RecordingFacts],
) -> ReportFacts:
    every: list[Recording] = []
    notes: list[str] = []
    for one in inputs:
        every += one.recordings() if isinstance(one, Sweep) else [one]
    for sweep in sweeps:
        notes += [f"{sweep.name}: {note}" for note in sweep.knee.notes]
    for recording in recordings:
        notes += [f"{recording.name}: {note}" for note in recording.description.notes]
    checks = [check for recording in recordings for check in recording.objectives]
    named = (one for one in inputs if isinstance(one, Recording))
    findings = findings_of(
        inputs,
        objectives,
        {one.comparison.b.uuid: one.comparison for one in comparisons},
        {one.path: facts.description for one, facts in zip(named, recordings, strict=True)},
    )
    spoiled = list(
        dict.fromkeys(
            f"{finding.name} ({finding.title})" for finding in findings if finding.level == "invalid"
        )
    )
    sentence, also = verdict.overall(sweeps, comparisons, recordings, spoiled)
    is_enough = None if spoiled else verdict.is_enough(sweeps, checks)
    answer = verdict.answer(sweeps, recordings, is_enough=is_enough)
    needs = [] if need is None else verdict.needs(sweeps, need, findings)
    if needs:
        is_enough = verdict.is_carried([one.verdict for _, one in needs])
        answer = " ".join(f"{name}: {one.sentence}" for name, one in needs)
    return ReportFacts(
        title=title or _title(sweeps, recordings),
        created_utc=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        verdict=sentence,
        also=also,
        is_enough=is_enough,
        is_no=verdict.is_no(sweeps, checks, [one for _, one in needs], findings, is_asked=bool(objectives)),
        answer=answer,
        needs=[one for _, one in needs],
        sweeps=sweeps,
        comparisons=comparisons,
        recordings=recordings,
        findings=findings,
        origins=[origin(recording) for recording in every],
        notes=notes,
    )


def _title(sweeps: Sequence[SweepFacts], recordings: Sequence[RecordingFacts]) -> str:
    if sweeps:
        return sweeps[0].title
    if len(recordings) > RECORDINGS_BRIEF:
        return f"{len(recordings)} recordings"
    return recordings[0].description.title


def _check_free(path: Path, sources: Sequence[Path], *, overwrite: bool) -> None:
    """Before anything is computed: a report of a long night takes minutes."""
    folder = resolved(path).parent
    if any(folder.is_relative_to(resolved(source)) for source in sources):
        raise IotraceError(
            f"'{path}' lies in what is reported on", hint="choose a place outside it, such as report.html"
        )
    check_file(path, overwrite=overwrite)
