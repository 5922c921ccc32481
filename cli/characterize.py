"""The characterize command."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import typer

from iotrace.analyze.knee.answer import Cause
from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.present.trust import has_invalid
from iotrace.analyze.report import write_report
from iotrace.analyze.units import format_bytes, format_duration_ns
from iotrace.analyze.validity import Finding
from iotrace.analyze.validity.sweep import check_sweep
from iotrace.replay import Progress, ReplayOptions, refuse_output_as_target
from iotrace.replay.characterize import (
    PRESETS,
    PROFILES,
    Cell,
    CellOptions,
    Characterization,
    Matrix,
    aligned,
    kind_text,
    size_text,
)
from iotrace.schemas import IotraceError, Recording, Sweep, counted
from iotrace.schemas.replacing import check_file
from iotrace.schemas.run import TargetFacts
from iotrace.schemas.spilling import private_room

from . import console
from .amounts import parse_bytes, parse_ratio, parse_seconds
from .characterize_answer import characterize_answer
from .characterize_run import (
    CellResult,
    SeriesFacts,
    SeriesResult,
    check_output,
    common_ceilings,
    facts_of,
    run_series,
    started_folder,
)
from .live import LiveMeter, live, say_what_stays, show_replay
from .options import COUNT_MAX, INTERRUPTED, Full, Json, Overwrite, recording_or_page
from .play_options import DATA, HOW, RUN, WHAT, WHERE, GroupedCommand
from .show import show

_EXPECTED_RULES: Final = frozenset({"interrupted"})
"""Of each cell; that a whole run was cut short is said once."""


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("characterize", cls=GroupedCommand)(characterize_command)


def _option(panel: str, name: str, meaning: str, **more: Any) -> Any:  # noqa: ANN401 - as typer's own
    return typer.Option(
        name, help=meaning, rich_help_panel=panel, show_default=more.pop("default", False), **more
    )


@dataclass(frozen=True, kw_only=True)
class CharacterizeAnswer(ProgramAnswer):
    """What `characterize` answers."""

    schema: Literal["iotrace.characterize/1"] = "iotrace.characterize/1"
    is_valid: bool
    target: TargetFacts
    interrupted: bool
    series: list[SeriesFacts]
    ceilings: list[Cause]
    """What only series that differ in size alone show, beside one another."""
    findings: list[Finding]


def characterize_command(
    target: Annotated[
        str,
        _option(
            WHERE, "--target", "File or block device to measure; a new file is made and filled.", metavar="T"
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="NAME.iotrace",
            help="Keep the runs as a folder of sweeps; with NAME.html write only a report.",
            show_default=False,
            callback=recording_or_page,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        _option(WHAT, "--profile", f"I/O as SQL Server does it: {', '.join(PROFILES)}.", metavar="NAME"),
    ] = None,
    preset: Annotated[
        str | None,
        _option(
            WHAT, "--preset", "A whole matrix: sqlio runs 220 tests, half of them writes.", metavar="NAME"
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        _option(
            WHAT, "--pattern", "random, sequential, or both with a comma.", metavar="LIST", default="random"
        ),
    ] = None,
    op: Annotated[
        str | None, _option(WHAT, "--op", "read, write, mix.", metavar="LIST", default="read")
    ] = None,
    mix: Annotated[
        str | None, _option(WHAT, "--mix", "Reads to writes, for --op mix.", metavar="R:W", default="60:40")
    ] = None,
    size: Annotated[
        str | None, _option(WHAT, "--size", "Bytes of an I/O: 8K,64K.", metavar="LIST", default="8K")
    ] = None,
    no_write_through: Annotated[
        bool, _option(WHAT, "--no-write-through", "Let writes complete in the device's volatile cache.")
    ] = False,
    outstanding: Annotated[
        str | None,
        _option(
            HOW,
            "--outstanding",
            "I/Os kept in flight: 1,8,32; or 1..256, doubling.",
            metavar="LIST",
            default="1..256",
        ),
    ] = None,
    seconds: Annotated[
        float, _option(HOW, "--seconds", "Length of each run.", metavar="S", default=True)
    ] = 10.0,
    warm_up: Annotated[
        float,
        _option(
            HOW, "--warm-up", "Seconds before each run that are not measured.", metavar="S", default=True
        ),
    ] = 2.0,
    file_size: Annotated[
        str | None,
        _option(
            DATA,
            "--file-size",
            "Size of a target file that iotrace makes: 20G.",
            metavar="SIZE",
            default="4G",
        ),
    ] = None,
    compressible: Annotated[
        str,
        _option(
            DATA,
            "--compressible",
            "How compressible the fill of target files is: 2:1.",
            metavar="RATIO",
            default=True,
        ),
    ] = "1:1",
    dedupe: Annotated[
        str,
        _option(
            DATA,
            "--dedupe",
            "How often blocks of the fill repeat: 3:1.",
            metavar="RATIO",
            default=True,
        ),
    ] = "1:1",
    allow_writes: Annotated[
        bool, _option(DATA, "--allow-writes", "Write to a target that iotrace did not create.")
    ] = False,
    destroy_data: Annotated[
        list[str] | None,
        _option(
            DATA, "--destroy-data", "Repeat a device's name here to let it be overwritten.", metavar="DEVICE"
        ),
    ] = None,
    buffered: Annotated[
        bool,
        _option(WHERE, "--buffered", "Go through the page cache. This measures memory as well as storage."),
    ] = False,
    max_errors: Annotated[
        int | None,
        _option(
            RUN,
            "--max-errors",
            "Stop a run once more than this many I/Os failed.",
            min=0,
            max=COUNT_MAX,
            metavar="N",
        ),
    ] = None,
    stall_timeout: Annotated[
        str,
        _option(
            RUN,
            "--stall-timeout",
            "Stop a run when nothing completes for this long.",
            metavar="TIME",
            default=True,
        ),
    ] = "120s",
    backend: Annotated[
        str, _option(RUN, "--backend", "auto, io_uring or threads.", metavar="NAME", default=True)
    ] = "auto",
    seed: Annotated[
        int,
        _option(RUN, "--seed", "Seed for random choices.", min=0, max=COUNT_MAX, metavar="N", default=True),
    ] = 0,
    overwrite: Overwrite = False,
    full: Full = False,
    json: Json = False,
) -> int:
    """Measure storage under synthetic load.

    Changes one parameter at a time, as with SQLIO or DiskSpd. Shows IOPS, MB/s and latency for each number of I/Os
    outstanding, and where the storage saturates.
    Reading needs no permission. Exit status 1 if a run says nothing about the storage.

    Example: iotrace characterize --target /data/test.bin --size 8K,64K --outstanding 1..256
    """
    matrix = _matrix(profile, preset, pattern, op, mix, size, outstanding)
    series = list(replace(matrix, durable=not no_write_through).series())
    options = ReplayOptions(
        targets=(target,),
        buffered=buffered,
        allow_writes=allow_writes,
        destroy_data=tuple(destroy_data or ()),
        file_bytes=None if file_size is None else parse_bytes(file_size),
        compressible=parse_ratio(compressible),
        dedupe=parse_ratio(dedupe),
        max_errors=max_errors,
        stall_seconds=float(parse_seconds(stall_timeout)),
        backend=cast("Literal['auto', 'io_uring', 'threads']", backend),
        seed=seed,
    )
    cells = CellOptions(seconds, warm_up)
    options.check()
    cells.check()
    to_html = output is not None and output.suffix == ".html"
    if output is not None:
        _check_output(output, options, overwrite=overwrite)
    with ExitStack() as stack:
        folder = stack.enter_context(private_room()) if output is None or to_html else output
        with live("") as meter:  # no title: what a run is takes the whole line
            running = stack.enter_context(
                Characterization(series, options, cells, progress=lambda state: show_replay(meter, state))
            )
            series, left_out = aligned(series, running.target.block_bytes)
            for size_bytes in left_out:
                console.warn(
                    f"{size_text(size_bytes)} is left out: '{target}' takes multiples of {running.target.block_bytes}"
                )
            count = sum(len(one.cells) for one in series)
            if not count:
                raise IotraceError("no size is left to run", hint="choose larger ones with --size")
            one_run = seconds + warm_up
            console.say(
                f"{counted(count, 'run')} of {seconds:g} s on '{target}' ({format_bytes(running.target.bytes)}): "
                f"{format_duration_ns(count * one_run * 1e9)}"
            )
            watch = _Watch(meter, count, one_run)
            kept = started_folder(folder, overwrite=overwrite) if folder == output else nullcontext()
            with kept:
                results, interrupted = run_series(
                    running, series, folder, on_start=watch.start, on_done=watch.done
                )
        findings = _findings(results)
        if json:
            console.print_answer(
                CharacterizeAnswer(
                    is_valid=not has_invalid(findings),
                    target=running.target.describe(),
                    interrupted=interrupted,
                    series=[facts_of(one) for one in results],
                    ceilings=common_ceilings(results),
                    findings=findings,
                )
            )
        else:
            show(characterize_answer(target, results, findings), full=full)
        measured = [one for one in results if one.cells]
        if interrupted:
            kept_words = "what was measured is kept" if watch.finished else "nothing was measured"
            console.warn(f"stopped after {watch.finished} of {count} runs; {kept_words}")
        if to_html and output is not None and measured:
            write_report(_inputs(measured), output, overwrite=overwrite)
            console.say(f"wrote {output}")
        elif output is not None and not to_html and any(one.sweep.steps for one in results):
            draw = any(one.series.axis == "outstanding" for one in measured)
            hint = f"; iotrace report {output}/*.iotrace -o report.html draws it" if draw else ""
            console.say(f"wrote {output}{hint}")
        say_what_stays(options.all_targets)
    return INTERRUPTED if interrupted else 1 if has_invalid(findings) or not measured else 0


def _check_output(output: Path, options: ReplayOptions, *, overwrite: bool) -> None:
    """Say before the first run what would else be known after the last, when all would be lost."""
    refuse_output_as_target(options.all_targets, output)
    if output.suffix != ".html":
        check_output(output, overwrite=overwrite)
        return
    check_file(output, overwrite=overwrite)
    if not os.access(output.parent, os.W_OK):
        raise IotraceError(
            f"'{output.parent}' is not a folder that can be written to",
            hint="create it, or choose another -o",
        )


class _Watch:
    """Says how far it is."""

    def __init__(self, meter: LiveMeter, count: int, run_seconds: float) -> None:
        self._meter, self._count, self._seconds = meter, count, run_seconds
        self._number = 0
        self.finished = 0

    def start(self, cell: Cell) -> Callable[[Progress], None]:
        """A cell starts; returns what to call with its progress."""
        self._number += 1
        number = self._number

        def show(state: Progress) -> None:
            done = (number - 1) * self._seconds + min(state.elapsed_ns / 1e9, self._seconds)
            left = _coarse(max(0.0, self._count * self._seconds - done))
            what = f"{kind_text(cell)} {size_text(cell.size_bytes)} x{cell.outstanding}"
            self._meter.load.take(
                state.elapsed_ns, state.completed_ios, state.response_ns_mean, in_flight=state.in_flight
            )
            self._meter.update(
                done, self._count * self._seconds, f"{number}/{self._count}, {left} left: {what}"
            )

        return show

    def done(self, result: CellResult) -> None:
        """A cell is measured."""
        self.finished += 1
        console.say(
            f"{result.cell.name}: {result.step.achieved_iops:,.0f} IOPS, "
            f"mean response {format_duration_ns(result.step.response_ns_mean)}"
        )


def _coarse(seconds: float) -> str:
    """Time left, as coarse as it is known."""
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def _inputs(results: Sequence[SeriesResult]) -> list[Sweep | Recording]:
    """What a report is made of: runs that differ in size have no knee, and stand each by itself."""
    found: list[Sweep | Recording] = []
    for one in results:
        if one.series.axis == "outstanding" and len(one.cells) > 1:
            found.append(one.sweep)
        else:
            found += [cell.recording for cell in one.cells]
    return found


def _findings(results: Sequence[SeriesResult]) -> list[Finding]:
    recordings = [cell.recording for one in results for cell in one.cells]
    return (
        [entry for entry in check_sweep(recordings) if entry.rule not in _EXPECTED_RULES]
        if recordings
        else []
    )


def _matrix(
    profile: str | None,
    preset: str | None,
    pattern: str | None,
    op: str | None,
    mix: str | None,
    size: str | None,
    outstanding: str | None,
) -> Matrix:
    """What to run: a profile's or preset's values, where the user gives no others."""
    if profile is not None and preset is not None:
        raise IotraceError("--profile and --preset each name what to run", hint="leave one of them out")
    matrix = Matrix()
    for option, word, known in (("--profile", profile, PROFILES), ("--preset", preset, PRESETS)):
        if word is not None:
            if word not in known:
                raise IotraceError(f"{option} knows no '{word}'", hint=f"it takes {', '.join(known)}")
            matrix = known[word]
    changes: dict[str, Any] = {}
    if pattern is not None:
        changes["patterns"] = _words(pattern)
    if op is not None:
        changes["ops"] = _words(op)
    if mix is not None:
        changes["read_share"] = _share(mix)
    if size is not None:
        changes["sizes_bytes"] = tuple(parse_bytes(word) for word in _words(size))
    if outstanding is not None:
        changes["outstanding"] = parse_counts(outstanding)
    matrix = replace(matrix, **changes)
    matrix.check()
    return matrix


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def parse_counts(text: str) -> tuple[int, ...]:
    """Numbers meant by ``1,8,32``, or ``1..256``, the doublings from the first to the last."""
    counts: list[int] = []
    for word in _words(text):
        match = re.fullmatch(r"([0-9]{1,6})(?:\.\.([0-9]{1,6}))?", word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise IotraceError(
                f"--outstanding '{word}' is not a number of I/Os",
                hint="for example --outstanding 1,8,32 or 1..256",
            )
        while first < last:
            counts.append(first)
            first *= 2
        counts.append(last)
    return tuple(counts)


def _share(text: str) -> float:
    match = re.fullmatch(r"\s*([0-9]{1,3})\s*:\s*([0-9]{1,3})\s*", text)
    total = int(match[1]) + int(match[2]) if match else 0
    if match is None or not total:
        raise IotraceError(f"--mix '{text}' is not READS:WRITES", hint="for example --mix 70:30")
    return int(match[1]) / total
