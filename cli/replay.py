"""The replay command."""

from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer

from iotrace.analyze import validity
from iotrace.analyze.compare.fidelity import fidelity
from iotrace.replay import parse_scale, replay
from iotrace.schemas import Recording
from iotrace.schemas.sweep import watched_path

from . import console
from .amounts import parse_loop, parse_seconds
from .findings import has_invalid, print_disqualification, print_findings
from .meters import show_replay
from .options import INTERRUPTED, Json, OutputPath, Overwrite, RecordingPath, Title
from .play_options import HOW, RUN, GroupedCommand, PlayOptions, takes_play_options
from .replay_tables import print_fidelity, print_run
from .summary import print_recording, recording_facts
from .watching import note_watched, watched


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("replay", cls=GroupedCommand)(takes_play_options(replay_command))


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
            help="Play it so many times, or again and again for so long: 3, 30m.",
            show_default=False,
            rich_help_panel=HOW,
        ),
    ] = None,
    ramp: Annotated[
        str | None,
        typer.Option(
            "--ramp",
            metavar="TIME",
            help="Let the load climb from nothing for so long: 30s.",
            show_default=False,
            rich_help_panel=HOW,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Record the target's layers meanwhile (root) as NAME.watched.iotrace: compares like with like.",
            rich_help_panel=RUN,
        ),
    ] = False,
    overwrite: Overwrite = False,
    title: Title = None,
    json: Json = False,
) -> int:
    """Play a recording on a target, N times as hard.

    Exit status 1 if the run says nothing about the storage, 130 if it was stopped.

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
    with console.progress("replay") as meter, beside:
        result = replay(
            source, output, options, overwrite=overwrite, progress=lambda state: show_replay(meter, state)
        )
    seen = note_watched(Recording.open(seen_path), result) if watch else None
    found = fidelity(source, result)
    findings = validity.check(result)
    if json:
        facts = recording_facts(result) | {"findings": [asdict(entry) for entry in findings]}
        console.print_json(
            facts | {"fidelity": found and found.to_dict(), "watched": seen and str(seen.path)}
        )
    else:
        print_disqualification({output.name: findings})
        print_recording(result)
        print_run(result.manifest.open_replay, result.manifest.host)
        if found is not None:
            print_fidelity(found)
        if seen is not None:
            console.say(f"what the recorder saw of the target: {seen.path}")
        print_findings(findings, after_disqualification=True)
    if result.manifest.was_interrupted:
        return INTERRUPTED
    return 1 if has_invalid(findings) else 0
