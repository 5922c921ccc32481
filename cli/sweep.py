"""Commands that walk the load up and say where it broke: sweep, and knee."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from iotrace.analyze import slo as objectives
from iotrace.analyze.ceiling import Path as HardwarePath
from iotrace.analyze.ceiling import read_path
from iotrace.analyze.ceiling.against_knee import BesideKnee, beside_knee
from iotrace.analyze.fleet import (
    SweptHost,
    Unread,
    distinct_hosts,
    fleet_knees_answer,
    knee_of,
    named_recordings,
    read_each,
)
from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.knee.need import Need as Needed
from iotrace.analyze.knee.need import is_no
from iotrace.analyze.knee.need import need as judge_need
from iotrace.analyze.knee.next_load import StepSummary
from iotrace.analyze.knee.presentation import knee_answer
from iotrace.analyze.knee.results import is_tested
from iotrace.analyze.knee.series import knee, knee_of_sweep
from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.present.trust import disqualifying, has_invalid
from iotrace.analyze.units import format_duration_ns
from iotrace.analyze.validity import Finding
from iotrace.analyze.validity.sweep import check_sweep
from iotrace.replay import Progress, parse_scale
from iotrace.schemas import IotraceError, Recording, Sweep, counted
from iotrace.schemas.models import is_model_target, model_words
from iotrace.schemas.run import PredictedNs, Prediction
from iotrace.schemas.stored import OWN_FILES, SWEEP_FILE, Place, brought

from . import cluster, console
from .cluster import Certificates, Scheduler
from .live import Point, live, say_what_stays, show_replay
from .options import (
    INTERRUPTED,
    CeilingPath,
    Full,
    Json,
    Need,
    OutputPath,
    Overwrite,
    RecordingPath,
    Slo,
    Title,
    finite,
)
from .play_options import HOW, GroupedCommand, PlayOptions, takes_play_options
from .show import show
from .sweep_run import STEP_SECONDS, STEPS_MAX, run_sweep, was_interrupted

Scales = Annotated[
    str | None,
    typer.Option(
        "--scales",
        metavar="LIST",
        help="Loads to try, such as 1x,2x,4x; by default doubled, then refined around the bend.",
        show_default=False,
        rich_help_panel=HOW,
    ),
]
StepSeconds = Annotated[
    float,
    typer.Option(
        "--step-seconds",
        min=0.5,
        max=86_400,
        callback=finite,
        metavar="S",
        help="Shortest length of a step; the recording repeats to fill it.",
        rich_help_panel=HOW,
    ),
]
Steps = Annotated[
    int,
    typer.Option("--steps", min=2, max=100, metavar="N", help="Most steps to run.", rich_help_panel=HOW),
]
MaxScale = Annotated[
    str | None,
    typer.Option(
        "--max-scale",
        metavar="K",
        help="Highest load to try, such as 8x; by default up to the limit of the storage or the load generator.",
        show_default=False,
        rich_help_panel=HOW,
    ),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("sweep", cls=GroupedCommand)(takes_play_options(sweep_command))
    app.command("knee")(knee_command)


@dataclass(frozen=True, kw_only=True)
class KneeAnswer(ProgramAnswer):
    """What `knee` answers, and `sweep` of its own steps."""

    schema: Literal["iotrace.knee/1"] = "iotrace.knee/1"
    is_valid: bool
    need: Needed | None
    """Where `--need` asks."""
    found: Annotated[Knee, INLINE]
    findings: list[Finding]
    beside_ceiling: BesideKnee | None
    """Where `--ceiling` describes the path."""


@dataclass(frozen=True, kw_only=True)
class KneeFleetAnswer(ProgramAnswer):
    """What `knee` answers of many sweeps."""

    schema: Literal["iotrace.knee-fleet/1"] = "iotrace.knee-fleet/1"
    scale: float | None
    """The load that is needed."""
    slo: str | None
    is_yes: bool
    """Whether every sweep was read and none is a no."""
    sweeps: list[SweptHost]
    unread: list[Unread]


def sweep_command(
    recording: RecordingPath,
    output: OutputPath,
    scales: Scales = None,
    step_seconds: StepSeconds = STEP_SECONDS,
    steps: Steps = STEPS_MAX,
    max_scale: MaxScale = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Also record the target's layers (needs root), to name the one that saturates; takes processor time.",
            rich_help_panel=HOW,
        ),
    ] = False,
    play: PlayOptions = PlayOptions(),  # noqa: B008 - frozen; stands for its fields
    need: Need = None,
    slo: Slo = None,
    overwrite: Overwrite = False,
    title: Title = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Raise the load on a target until its knee shows.

    Exit status with --need: 1 unless the answer is YES; without: 1 if an SLO is missed at 1x or cannot be judged,
    or too few steps can be judged. 130 if it was stopped.

    Example: iotrace sweep prod.iotrace --target /data/test.bin --busiest 60s -o sweep.iotrace
    """
    if slo:
        objectives.parse(slo)
    needed = parse_scale(need) if need is not None else None
    source = Recording.open(recording)
    ladder = parse_ladder(scales)
    options = play.build(source)
    if is_model_target(options.all_targets):
        console.say(
            "nothing is predicted before a step: a model answers it, and its answer is the prediction"
        )
    with live("sweep") as meter:

        def start(
            number: int, scale: float, _seconds: float, said: Prediction | None
        ) -> Callable[[Progress], None]:
            if said is not None and said.response_ns_p50 is not None:
                console.say(f"{scale:g}x: {_expected(said.response_ns_p50)}")
            return lambda state: show_replay(meter, state, f"step {number} at {scale:g}x: ")

        def done(summary: StepSummary, _step: Recording) -> None:
            meter.point(point_of(summary))

        sweep = run_sweep(
            source,
            output,
            options,
            scales=ladder,
            step_seconds=step_seconds,
            steps_max=steps,
            scale_max=parse_scale(max_scale) if max_scale is not None else None,
            title=title,
            overwrite=overwrite,
            watch=watch,
            load="1x" if options.window_ns is None else _load_words(play.window, play.busiest),
            on_start=start,
            on_done=done,
        )
    ended = f"; it ended because {sweep.settings.ended}" if sweep.settings.ended else ""
    console.say(f"wrote {sweep.path}: {counted(len(sweep.steps), 'step')}{ended}")
    say_what_stays(options.all_targets)
    status = answer_sweep(sweep, slo, need=needed, full=full, json=json)
    return INTERRUPTED if was_interrupted(sweep) else status


def parse_ladder(scales: str | None) -> list[float] | None:
    """The loads that ``--scales`` names."""
    if scales is None:
        return None
    ladder = [parse_scale(part.strip()) for part in scales.split(",") if part.strip()]
    if not ladder:
        raise IotraceError(f"--scales '{scales}' names no load", hint="for example --scales 1x,2x,4x,8x")
    return ladder


def point_of(summary: StepSummary) -> Point:
    """A step that is done, as the live display shows it.

    A model of limits alone adds no time to an I/O that meets none: that is no response of 0 ns.
    """
    is_mean = summary.response_ns_p50 is None
    return Point(
        summary.scale,
        summary.achieved_iops,
        summary.offered_iops,
        summary.latency_ns if is_mean else summary.response_ns_p50 or None,
        _why_again(summary),
        is_mean,
    )


def _expected(said: PredictedNs) -> str:
    """What is predicted of a step that is about to be played."""
    low, high = format_duration_ns(said.low), format_duration_ns(said.high)
    return f"response p50 of {format_duration_ns(said.value)} expected ({low} to {high})"


def _why_again(summary: StepSummary) -> str:
    """Why a step is run again, behind its load."""
    if summary.is_disturbed:
        return " (others used the device)"
    if summary.is_too_short:
        return " (too short to tell)"
    return " (slower from some moment on)" if summary.broke else ""


def knee_command(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="SWEEP",
            help="A sweep, replays of one recording at rising load, or imported results of a load test; "
            "or several sweeps, or a folder of them, for a row per sweep.",
            show_default=False,
        ),
    ],
    need: Need = None,
    slo: Slo = None,
    ceiling: CeilingPath = None,
    scheduler: Scheduler = None,
    certificates: Certificates = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Read a finished sweep: its knee, and whether that is enough.

    For several sweeps, or a folder of them, a row per candidate.

    Exit status with --need: 1 unless the answer is YES for each; without: 1 if an SLO is missed at 1x (without a 1x: at
    every load) or cannot be judged, or too few steps can be judged.

    Example: iotrace knee sweep.iotrace --need 2x --slo "p99<15ms"
    """
    needed = parse_scale(need) if need is not None else None
    path = read_path(ceiling) if ceiling is not None else None
    named = _named(inputs)
    cluster.refuse_for_one(named, scheduler)
    if len(named) > 1 and all(_is_sweep(one) for one in named):
        if path is not None:
            raise IotraceError(
                f"--ceiling describes the path to one storage, and these are {len(named)} sweeps",
                hint="name one",
            )
        return _knee_fleet(named, slo, needed, scheduler, certificates, full=full, json=json)
    if scheduler is not None:
        raise IotraceError(
            "--scheduler lets many sweeps be judged at once, and these are runs of one", hint="leave it out"
        )
    with ExitStack() as stack:
        paths = [stack.enter_context(brought(one)) for one in named]
        if len(paths) == 1 and not _is_tested(paths[0]):
            return answer_sweep(Sweep.open(paths[0]), slo, need=needed, path=path, full=full, json=json)
        runs = [Recording.open(one) for one in paths]
        return _answer(
            knee(runs, slo=slo),
            runs,
            need=needed,
            name=named[0].name if len(named) == 1 else "the runs",
            path=path,
            full=full,
            json=json,
        )


def _named(inputs: list[Path]) -> list[Place]:
    """The sweeps that ``inputs`` name; of a folder without any, its recordings are the runs of one."""
    named = named_recordings(inputs, (SWEEP_FILE,))
    if all(isinstance(one, Path) and one in inputs and not _is_either(one) for one in named):
        return named_recordings(inputs)
    return named


def _is_either(path: Path) -> bool:
    return any((path / name).is_file() for name in OWN_FILES)


def _is_sweep(place: Place) -> bool:
    return not isinstance(place, Path) or (place / SWEEP_FILE).is_file()


def _knee_fleet(
    places: list[Place],
    slo: str | None,
    needed: float | None,
    scheduler: str | None,
    certificates: Path | None,
    *,
    full: bool,
    json: bool,
) -> int:
    with (
        cluster.executor(scheduler, certificates) as pool,
        console.counting("finding knees", len(places)) as done,
    ):
        found = read_each(partial(knee_of, slo, needed), cluster.as_workers_see(places, pool), done, pool)
    unread = [one for one in found if isinstance(one, Unread)]
    read = [one for one in found if isinstance(one, SweptHost)]
    names = distinct_hosts([("", one.sweep, one.path) for one in read])
    sweeps = [replace(one, sweep=name) for one, name in zip(read, names, strict=True)]
    carried = not unread and not any(one.is_no for one in sweeps)
    if json:
        console.print_answer(
            KneeFleetAnswer(scale=needed, slo=slo, is_yes=carried, sweeps=sweeps, unread=unread)
        )
    else:
        show(fleet_knees_answer(sweeps, unread, needed, slo), full=full)
    return 0 if carried else 1


def _is_tested(path: Path) -> bool:
    return (path / "manifest.json").is_file() and is_tested(Recording.open(path))


def _load_words(window: str | None, busiest: str | None) -> str:
    """What 1x is: ``1x (the busiest 60m recorded)``."""
    if busiest is not None:
        return f"1x (the busiest {busiest} recorded)"
    return "1x" if window is None else f"1x ({window})"


def answer_sweep(
    sweep: Sweep,
    slo: str | None,
    *,
    need: float | None,
    path: HardwarePath | None = None,
    full: bool,
    json: bool,
) -> int:
    """Print what its steps come to; returns the exit status."""
    found = knee_of_sweep(sweep, slo=slo)
    return _answer(
        found, sweep.recordings(), need=need, name=sweep.path.name, path=path, full=full, json=json
    )


def _answer(
    found: Knee,
    steps: list[Recording],
    *,
    need: float | None,
    name: str,
    path: HardwarePath | None = None,
    full: bool,
    json: bool,
) -> int:
    findings = check_sweep(steps)
    model = model_words(steps)
    needed = judge_need(found, need, spoiled=_titles(findings), model=model) if need is not None else None
    held = beside_knee(path, found, steps) if path is not None else None
    if json:
        console.print_answer(
            KneeAnswer(
                is_valid=not has_invalid(findings),
                need=needed,
                found=found,
                findings=findings,
                beside_ceiling=held,
            )
        )
    else:
        show(knee_answer(found, name, steps, findings, needed, held), full=full)
        if path is not None and held is None:
            console.paragraph(
                "nothing can be held against the ceiling: no step tells of the storage, or nothing limits"
            )
    return 1 if is_no(found, needed, is_spoiled=has_invalid(findings)) else 0


def _titles(findings: list[Finding]) -> list[str]:
    return list(dict.fromkeys(entry.title for entry in disqualifying(findings)))
