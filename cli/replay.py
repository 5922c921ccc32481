"""The replay command."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze import validity
from iotrace.analyze.compare.fidelity import Fidelity, fidelity
from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.present.trust import has_invalid
from iotrace.analyze.validity import Finding
from iotrace.replay import parse_scale, replay
from iotrace.schemas import Recording
from iotrace.schemas.sweep import watched_path

from . import console
from .amounts import parse_loop, parse_seconds
from .live import live
from .meters import show_replay
from .options import INTERRUPTED, Full, Json, OutputPath, Overwrite, RecordingPath, Title
from .play_options import HOW, RUN, GroupedCommand, PlayOptions, takes_play_options
from .replay_answer import replay_answer
from .show import show
from .summary import Written, written
from .watching import note_watched, watched


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("replay", cls=GroupedCommand)(takes_play_options(replay_command))


@dataclass(frozen=True, kw_only=True)
class ReplayAnswer(ProgramAnswer):
    """What `replay` answers."""

    schema: Literal["iotrace.replay/1"] = "iotrace.replay/1"
    result: Annotated[Written, INLINE]
    findings: list[Finding]
    fidelity: Fidelity | None
    """Of a replay at 1x in step with what was recorded."""
    watched: Path | None
    """What a recorder saw of the target, where it watched."""


def replay_command(
    recording: RecordingPath,
    output: OutputPath,
    scale: Annotated[
        str,
        typer.Option(
            "--scale", metavar="Nx", help="How much harder to play: 2x, 1.5x, 0.25x.", rich_help_panel=HOW
        ),
    ] = "1x",
    play: PlayOptions = PlayOptions(),  # noqa: B008 - frozen; stands for its fields
    loop: Annotated[
        str | None,
        typer.Option(
            "--loop",
            metavar="N|TIME",
            help="Play it this many times, or again and again for this long: 3, 30m.",
            show_default=False,
            rich_help_panel=HOW,
        ),
    ] = None,
    ramp: Annotated[
        str | None,
        typer.Option(
            "--ramp",
            metavar="TIME",
            help="Raise the load from nothing over this long: 30s.",
            show_default=False,
            rich_help_panel=HOW,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Also record the target's layers (needs root), as NAME.watched.iotrace, to compare the same layers.",
            rich_help_panel=RUN,
        ),
    ] = False,
    overwrite: Overwrite = False,
    title: Title = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Play a recording on a target, N times as hard.

    Exit status 1 if the run shows nothing about the storage, 130 if it was stopped.

    Example: iotrace replay prod.iotrace --target /data/test.bin --scale 2x -o new.iotrace
    """
    source = Recording.open(recording)
    repeat, loop_seconds = parse_loop(loop) if loop is not None else (1, None)
    options = play.build(
        source,
        scale=parse_scale(scale),
        repeat=repeat,
        loop_seconds=loop_seconds,
        ramp_seconds=0.0 if ramp is None else float(parse_seconds(ramp)),
        title=title,
    )
    seen_path = watched_path(output)
    beside = watched(options.all_targets, seen_path, overwrite=overwrite) if watch else nullcontext()
    with live("replay") as meter, beside:
        result = replay(
            source, output, options, overwrite=overwrite, progress=lambda state: show_replay(meter, state)
        )
    seen = note_watched(Recording.open(seen_path), result) if watch else None
    found = fidelity(source, result)
    findings = validity.check(result)
    if json:
        console.print_answer(
            ReplayAnswer(
                result=written(result), findings=findings, fidelity=found, watched=seen.path if seen else None
            )
        )
    else:
        last = f"wrote {result.path}: {written(result).bytes_on_disk / 1024:,.0f} KiB"
        show(replay_answer(result, output.name, found, findings, last), full=full)
        if seen is not None:
            console.say(f"what the recorder saw of the target: {seen.path}")
    if result.manifest.was_interrupted:
        return INTERRUPTED
    return 1 if has_invalid(findings) else 0
