"""Commands that answer questions about recordings: describe, compare, report."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze import validity
from iotrace.analyze.ceiling import read_path
from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.compare.presentation import compare_answer
from iotrace.analyze.compare.recordings import compare_all
from iotrace.analyze.describe.description import Description
from iotrace.analyze.describe.presentation import describe_answer
from iotrace.analyze.describe.recording import describe
from iotrace.analyze.fleet import (
    Fleet,
    describe_fleet,
    fleet_answer,
    named_recordings,
    read_groups,
    refuse_missing,
    stands_for_many,
    summaries,
    told_of_each,
)
from iotrace.analyze.knee.presentation import NEED_TONES
from iotrace.analyze.present import ProgramAnswer, Sentence
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.present.trust import has_invalid
from iotrace.analyze.report import ReportFacts, write_report
from iotrace.analyze.report.fleet import check_fleet_report, write_fleet_report
from iotrace.analyze.units import format_bytes
from iotrace.analyze.validity import Finding
from iotrace.replay import parse_scale
from iotrace.schemas import IotraceError, Recording, Sweep
from iotrace.schemas.stored import OWN_FILES, SWEEP_FILE, Place, brought

from . import cluster, console
from .cluster import Certificates, Scheduler
from .options import CeilingPath, Full, Groups, Json, Need, Overwrite, Slo, Title
from .show import say, show
from .summary import SourceClock, clock_sentences, source_clocks


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("describe")(describe_command)
    app.command("compare")(compare_command)
    app.command("report")(report_command)


@dataclass(frozen=True, kw_only=True)
class DescribeAnswer(ProgramAnswer):
    """What `describe` answers of one recording."""

    schema: Literal["iotrace.describe/1"] = "iotrace.describe/1"
    is_valid: bool
    found: Annotated[Description, INLINE]
    clocks: list[SourceClock]
    findings: list[Finding]


@dataclass(frozen=True, kw_only=True)
class DescribeFleetAnswer(ProgramAnswer):
    """What `describe` answers of many recordings."""

    schema: Literal["iotrace.describe-fleet/1"] = "iotrace.describe-fleet/1"
    fleet: Annotated[Fleet, INLINE]


@dataclass(frozen=True, slots=True)
class NamedFinding:
    """A validity rule that fired, and on which recording: its letter and name."""

    recording: str
    finding: Annotated[Finding, INLINE]


@dataclass(frozen=True, kw_only=True)
class CompareAnswer(ProgramAnswer):
    """What `compare` answers."""

    schema: Literal["iotrace.compare/1"] = "iotrace.compare/1"
    is_valid: bool
    comparisons: list[Comparison]
    """Of each recording after the first with that."""
    findings: list[NamedFinding]


@dataclass(frozen=True, kw_only=True)
class ReportAnswer(ProgramAnswer):
    """What `report` writes, for programs."""

    schema: Literal["iotrace.report/1"] = "iotrace.report/1"
    facts: Annotated[ReportFacts, INLINE]


def describe_command(
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDING…",
            help="A recording, NAME.iotrace; or several, or a folder of them, for a row per host.",
            show_default=False,
        ),
    ],
    scheduler: Scheduler = None,
    certificates: Certificates = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Show the load and latency of a recording, or of many hosts.

    For one recording: sizes, mix, bursts and latency by layer, per device and role. For many: a row per host, the
    peak of all together, and who stands out. Exit status 1 if a recording cannot be read.

    Example: iotrace describe prod.iotrace
    """
    found = cluster.named(recordings, scheduler, certificates)
    cluster.refuse_for_one(found, scheduler)
    if len(found) > 1:
        return _describe_fleet(found, scheduler, certificates, full=full, json=json)
    with brought(found[0]) as path:
        _describe_one(path, found[0].name, full=full, json=json)
    return 0


def _describe_fleet(
    paths: list[Place], scheduler: str | None, certificates: Path | None, *, full: bool, json: bool
) -> int:
    if scheduler is None:
        refuse_missing(paths)
    with (
        cluster.executor(scheduler, certificates) as pool,
        console.counting("describing", len(paths)) as done,
    ):
        fleet = describe_fleet(summaries(cluster.as_workers_see(paths, pool), done, pool))
    if json:
        console.print_answer(DescribeFleetAnswer(fleet=fleet))
    else:
        show(fleet_answer(fleet), full=full)
    return 1 if fleet.unread else 0


def _describe_one(recording: Path, name: str, *, full: bool, json: bool) -> None:
    opened = Recording.open(recording)
    with console.working("describing"):
        found = describe(opened)
        findings = validity.check(opened, description=found)
    if json:
        console.print_answer(
            DescribeAnswer(
                is_valid=not has_invalid(findings),
                found=found,
                clocks=source_clocks(opened.manifest),
                findings=findings,
            )
        )
        return
    quality, clocks = opened.manifest.quality, clock_sentences(opened.manifest)
    show(describe_answer(found, name, quality, findings, clocks), full=full)


def compare_command(
    base: Annotated[
        Path,
        typer.Argument(metavar="A", help="The recording to compare the others with.", show_default=False),
    ],
    others: Annotated[
        list[Path],
        typer.Argument(
            metavar="B…", help="A second recording to compare with, or several.", show_default=False
        ),
    ],
    full: Full = False,
    json: Json = False,
) -> int:
    """Compare recordings with the first one, like with like.

    Compares the same roles, operations and sizes, layer by layer, and says whether the recordings did the same
    work. First give the recording of the old storage, then its replays on new storage. Exit status 1 if a validity
    rule says that the figures must not be used.

    Example: iotrace compare prod.iotrace new.iotrace
    """
    paths = [base, *others]
    a, *opened = recordings = [Recording.open(path) for path in paths]
    with console.working("comparing"):
        found = compare_all(a, opened)
        findings = {"A": validity.check(a)} | {
            one.b.label: validity.check(other, comparison=one)
            for one, other in zip(found, opened, strict=True)
        }
    labelled = {
        label: (path.name, recording)
        for label, path, recording in zip(findings, paths, recordings, strict=True)
    }
    is_valid = not any(has_invalid(entries) for entries in findings.values())
    if json:
        named = [
            NamedFinding(f"{label}: {labelled[label][0]}", entry)
            for label, entries in findings.items()
            for entry in entries
        ]
        console.print_answer(CompareAnswer(is_valid=is_valid, comparisons=found, findings=named))
    else:
        show(compare_answer(found, labelled, findings), full=full)
    return 0 if is_valid else 1


def report_command(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="X…",
            help="Recordings and sweeps; or a folder of recordings, for one page about all hosts.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="REPORT.html", help="Where to write it.", show_default=False),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="KIND", help="html, md, xlsx or pdf (Chromium).", show_default="as -o ends"
        ),
    ] = None,
    need: Need = None,
    slo: Slo = None,
    ceiling: CeilingPath = None,
    groups: Groups = None,
    overwrite: Overwrite = False,
    title: Title = None,
    scheduler: Scheduler = None,
    certificates: Certificates = None,
    json: Json = False,
) -> int:
    """Write a report as HTML, Markdown, Excel workbook or PDF.

    Writes one file that needs nothing else, with the verdict first, then the evidence. For a folder of recordings
    it shows their load together, which slowed down together, and a row per host. Exit status with --need: 1 unless
    the answer is YES; without: 1 if an SLO is missed or cannot be judged.

    Example: iotrace report prod.iotrace sweep.iotrace -o report.html --need 2x --slo "p99<15ms"
    """
    needed = parse_scale(need) if need is not None else None
    path = read_path(ceiling) if ceiling is not None else None
    named = named_recordings(inputs, OWN_FILES)
    if _is_fleet(inputs, named):
        if need is not None or slo is not None or ceiling is not None:
            raise IotraceError(
                "--need, --slo and --ceiling are held against one storage, and these are many hosts",
                hint="name recordings and sweeps one by one; iotrace size and iotrace knee take --slo for many",
            )
        facts = _report_fleet(
            named,
            output,
            to,
            read_groups(groups) if groups else {},
            title,
            scheduler,
            certificates,
            overwrite=overwrite,
        )
    else:
        _refuse_fleet_options(groups, scheduler)
        with ExitStack() as stack:
            opened = [open_input(stack.enter_context(brought(one))) for one in named]
            with console.working("writing the report"):
                facts = write_report(
                    opened,
                    output,
                    slo=slo,
                    need=needed,
                    title=title,
                    ceiling=path,
                    overwrite=overwrite,
                    kind=to,
                )
    if json:
        console.print_answer(ReportAnswer(facts=facts))
    else:
        for one in facts.needs:
            say(Sentence(f"{one.sentence} {one.hint}".rstrip(), NEED_TONES[one.verdict]))
        if not facts.needs:
            console.paragraph(facts.verdict)
        titles = list(dict.fromkeys(one.title for one in facts.findings))
        if titles and not any(one.level == "invalid" for one in facts.findings):
            more = f"; {len(titles) - 1} more in the report" if titles[1:] else ""
            # What many hosts come to together has more I/Os than one of them.
            is_fleet = len(facts.origins) > 1 and not facts.comparisons and not facts.sweeps
            what = "a host by itself" if is_fleet else "it"
            say(Sentence(f"Before you trust {what}: {titles[0]}{more}", "doubt"))
        for sentence in facts.also:
            console.paragraph(sentence)
        console.paragraph(f"wrote {output}: {format_bytes(output.stat().st_size)}")
    return 1 if facts.is_no else 0


def _is_fleet(inputs: list[Path], named: list[Place]) -> bool:
    """Whether these are recordings of many hosts, rather than some to be held against each other."""
    is_many = len(named) > 1 and any(stands_for_many(one) for one in inputs)
    return is_many and not any(isinstance(one, Path) and (one / SWEEP_FILE).is_file() for one in named)


def _refuse_fleet_options(groups: Path | None, scheduler: str | None) -> None:
    for option, value in (("--groups", groups), ("--scheduler", scheduler)):
        if value is not None:
            raise IotraceError(
                f"{option} belongs to a report on many hosts", hint="name the folder of their recordings"
            )


def _report_fleet(
    places: list[Place],
    output: Path,
    kind: str | None,
    groups: dict[str, dict[str, str]],
    title: str | None,
    scheduler: str | None,
    certificates: Path | None,
    *,
    overwrite: bool,
) -> ReportFacts:
    check_fleet_report(output, overwrite=overwrite, kind=kind)
    with cluster.executor(scheduler, certificates) as pool, console.counting("reading", len(places)) as done:
        found = told_of_each(cluster.as_workers_see(places, pool), done, pool)
    return write_fleet_report(output, found, groups, title=title, overwrite=overwrite, kind=kind)


def open_input(path: Path) -> Recording | Sweep:
    """Open what the user named, whichever of the two it is."""
    return Sweep.open(path) if (path / "sweep.json").is_file() else Recording.open(path)
