"""The export command: a recording for other load tools and other programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from iotrace.analyze.present.program import INLINE, ProgramAnswer
from iotrace.analyze.units import format_bytes, format_share
from iotrace.replay import choose_layer
from iotrace.replay.export import (
    CLOSED_LOOP,
    LOST,
    TABLE_KINDS,
    DiskSpdClass,
    DiskSpdFacts,
    FioFacts,
    FioJob,
    Workload,
    Written,
    export_diskspd,
    export_fio,
    export_table,
    measure,
    parse_targets,
)
from iotrace.schemas import IotraceError, Recording, counted

from . import console
from .amounts import parse_busiest, parse_window
from .options import Json, RecordingPath

_TOOLS: Final = ("diskspd", "fio")
_SECONDS: Final = 60
_CLASSES: Final = 16
_IOLOG_IOS_MAX: Final = 1_000_000
"""Logs of more I/Os, some 40 bytes each, are written only when asked for."""


@dataclass(frozen=True, kw_only=True)
class ExportDiskSpdAnswer(ProgramAnswer):
    """What `export --to diskspd` answers, and ``export.json`` holds."""

    schema: Literal["iotrace.export-diskspd/1"] = "iotrace.export-diskspd/1"
    exported: Annotated[DiskSpdFacts, INLINE]


@dataclass(frozen=True, kw_only=True)
class ExportFioAnswer(ProgramAnswer):
    """What `export --to fio` answers, and ``export.json`` holds."""

    schema: Literal["iotrace.export-fio/1"] = "iotrace.export-fio/1"
    exported: Annotated[FioFacts, INLINE]


@dataclass(frozen=True, kw_only=True)
class ExportTableAnswer(ProgramAnswer):
    """What `export` of a table answers."""

    schema: Literal["iotrace.export-table/1"] = "iotrace.export-table/1"
    path: Path
    bytes: int
    ios: int
    layers: list[str]
    left_out: dict[str, int]
    """I/Os that the format cannot hold, by the reason."""


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("export")(export_command)


def export_command(
    recording: RecordingPath,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="|".join((*_TOOLS, *TABLE_KINDS)), help="Format to write.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR|FILE",
            help="Folder for a tool, file for a table.",
            show_default=False,
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="[GROUP=]PATH",
            help="What the tool will read and OVERWRITE; by default left open (diskspd) or new files (fio).",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            "--layer",
            metavar="LAYER",
            help="Layer to export; by default all for csv and parquet.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window", metavar="FROM..TO", help="Only this part: 02:10..02:25, 10m..25m.", show_default=False
        ),
    ] = None,
    busiest: Annotated[
        str | None,
        typer.Option(
            "--busiest",
            metavar="TIME",
            help="Only the busiest part of this length: 30s, 15m.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        int | None,
        typer.Option(
            "--seconds",
            min=1,
            max=10**6,
            metavar="S",
            help="How long the tool will run.",
            show_default=str(_SECONDS),
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(
            "--classes",
            min=1,
            max=64,
            metavar="N",
            help="Most targets of a DiskSpd profile.",
            show_default=str(_CLASSES),
        ),
    ] = None,
    iolog: Annotated[
        bool | None,
        typer.Option(
            "--iolog/--no-iolog",
            help="Also write every I/O as a fio log; by default for up to a million I/Os.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--replace", help="Replace what an earlier export wrote there.")
    ] = False,
    json: Json = False,
) -> None:
    """Export a recording for other tools.

    diskspd: a profile and command lines. fio: a job file and a log of every I/O. csv, parquet, msr: the I/Os as a
    table. Runs nothing and writes only the output.

    Example: iotrace export prod.iotrace --to diskspd --busiest 60s -o for-diskspd
    """
    _check_kind(to)
    source = Recording.open(recording)
    console.warn_of_model([source])
    window_ns = _window(source, window, busiest, layer)
    if to in TABLE_KINDS:
        _refuse(to, target=target, iolog=iolog, seconds=seconds, classes=classes)
        _table(source, output, to, layer, window_ns, overwrite=overwrite, json=json)
        return
    total = source.manifest.rows.get("io", 0)
    facts: DiskSpdFacts | FioFacts
    with console.progress("exporting") as meter:
        workload = measure(
            source,
            layer=layer,
            window_ns=window_ns,
            progress=lambda seen: meter.update(seen, total, f"{seen:,} I/Os read"),
        )
        targets = parse_targets(target or [], workload.groups)
        if to == "diskspd":
            _refuse(to, iolog=iolog)
            _, facts = export_diskspd(
                workload,
                output,
                targets,
                seconds=seconds or _SECONDS,
                most_classes=classes or _CLASSES,
                overwrite=overwrite,
            )
        else:
            _refuse(to, classes=classes)
            _, facts = export_fio(
                workload,
                output,
                targets,
                seconds=seconds or _SECONDS,
                iolog=workload.ios <= _IOLOG_IOS_MAX if iolog is None else iolog,
                overwrite=overwrite,
                progress=lambda seen: meter.update(seen, workload.ios, f"{seen:,} I/Os written"),
            )
    if json:
        console.print_answer(
            ExportDiskSpdAnswer(exported=facts)
            if isinstance(facts, DiskSpdFacts)
            else ExportFioAnswer(exported=facts)
        )
        return
    _print_load(workload, facts)
    console.say(f"wrote {output}: its README.txt says how to run it")
    for path in dict.fromkeys(one.path for one in facts.targets.values() if one.asked):
        if Path(path).exists() and any(one.op == "write" for one in workload.classes):
            console.warn(f"'{path}' exists; running the export overwrites it")
    if isinstance(facts, FioFacts) and facts.iolog is not None:
        console.warn(facts.iolog.warning)


def _check_kind(to: str) -> None:
    if to == "hammerdb":
        raise IotraceError(
            "--to hammerdb is not possible: HammerDB runs transactions, and neither virtual users nor warehouses can "
            "be told from disk I/O",
            hint="size HammerDB by its own documentation, record the disks while it runs, and hold the two recordings "
            "against each other: iotrace compare prod.iotrace hammerdb.iotrace",
        )
    if to not in (*_TOOLS, *TABLE_KINDS):
        raise IotraceError(
            f"there is no export to '{to}'", hint=f"--to takes {', '.join((*_TOOLS, *TABLE_KINDS))}"
        )


def _refuse(to: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None and value != []:
            raise IotraceError(f"--{name} has no effect with --to {to}", hint=f"leave --{name} out")


def _window(
    source: Recording, window: str | None, busiest: str | None, layer: str | None
) -> tuple[int, int] | None:
    if window is not None and busiest is not None:
        raise IotraceError(
            "--window and --busiest each name the part to export", hint="leave one of them out"
        )
    if window is not None:
        return parse_window(window, source)
    if busiest is None:
        return None
    return parse_busiest(busiest, source, layer=choose_layer(source, layer))


def _table(
    source: Recording,
    output: Path,
    kind: str,
    layer: str | None,
    window_ns: tuple[int, int] | None,
    *,
    overwrite: bool,
    json: bool,
) -> None:
    with console.progress("exporting") as meter:
        written = export_table(
            source,
            output,
            kind,
            layer=layer,
            window_ns=window_ns,
            overwrite=overwrite,
            progress=lambda share: meter.update(share, 1, format_share(share)),
        )
    size = output.stat().st_size
    if json:
        console.print_answer(
            ExportTableAnswer(
                path=output,
                bytes=size,
                ios=written.ios,
                layers=list(written.layers),
                left_out=dict(written.left_out),
            )
        )
        return
    console.paragraph(
        f"wrote {output}: {_rows_text(written)}, {format_bytes(size)}, layers {', '.join(written.layers)}"
    )
    if len(written.layers) > 1:
        console.say(
            "each layer has its own row for the same I/O; choose one before adding anything up (--layer)"
        )
    for reason, count in written.left_out.items():
        console.warn(f"{counted(count, 'I/O')} left out, which {kind} cannot hold: {reason}")


def _rows_text(written: Written) -> str:
    """How much was written: ``24,000 rows (12,000 I/Os at 2 layers)``; of one layer each row is an I/O."""
    if len(written.layers) < 2:
        return counted(written.ios, "I/O")
    counts = list(written.layers.values())
    if len(set(counts)) == 1:
        told = f"{counted(counts[0], 'I/O')} at {len(counts)} layers"
    else:
        told = ", ".join(f"{count:,} at {layer}" for layer, count in written.layers.items())
    return f"{counted(written.ios, 'row')} ({told})"


def _print_load(workload: Workload, facts: DiskSpdFacts | FioFacts) -> None:
    rows = [_row(entry) for entry in facts.classes]
    console.heading(f"{workload.recording.manifest.title}, for {facts.tool}")
    if facts.tool == "diskspd":
        columns = ["class", "size", "I/Os", "bytes", "IOPS", "limited to", "-g", "-o"]
    else:
        columns = ["job", "reads/s", "writes/s", "MB/s", "I/Os", "distinct sizes r/w", "random r/w"]
    console.table(columns, rows)
    of = facts.workload
    console.paragraph(
        f"covered: {format_share(facts.covered_ios)} of the I/Os, {format_share(facts.covered_bytes)} of the "
        f"bytes of the layer {workload.layer} ({of.iops:,.1f} IOPS, {of.bytes_per_s / 1e6:,.1f} MB/s)"
    )
    if isinstance(facts, FioFacts):
        console.paragraph(
            f"{format_share(facts.exact_size_ios)} of the I/Os keep their exact size, the others take one nearby"
        )
    for reason, count in of.left_out.items():
        console.paragraph(f"left out: {counted(count, 'I/O')}, {reason}")
    console.say(LOST)
    console.say(CLOSED_LOOP)


def _row(entry: DiskSpdClass | FioJob) -> list[str]:
    if isinstance(entry, DiskSpdClass):
        return [
            f"{entry.group} {entry.op} {entry.pattern}",
            format_bytes(entry.size_bytes),
            format_share(entry.share_ios),
            format_share(entry.share_bytes),
            _iops(entry.iops),
            _iops(entry.limited_to_iops),
            str(entry.bytes_per_ms),
            str(entry.outstanding),
        ]
    sides = entry.sides
    return [
        entry.job,
        *(_iops(sides[op].iops) if op in sides else "0" for op in ("read", "write")),
        f"{entry.bytes_per_s / 1e6:,.2f}",
        format_share(entry.share_ios),
        "/".join(str(len(side.percent_of_size)) for side in sides.values()),
        "/".join(f"{side.random_percent} %" for side in sides.values()),
    ]


def _iops(rate: float) -> str:
    return f"{rate:,.1f}" if rate >= 9.95 else f"{rate:.2f}"
