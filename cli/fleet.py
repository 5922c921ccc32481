"""The fleet commands: one load from many machines, and who may command them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from iotrace.analyze import slo as objectives
from iotrace.analyze import validity
from iotrace.analyze.knee.next_load import StepSummary
from iotrace.analyze.present.trust import has_invalid
from iotrace.replay import Progress, ReplayOptions, parse_scale
from iotrace.replay.fleet import Conductor, merge
from iotrace.schemas import IotraceError, Recording, counted, stopping
from iotrace.schemas.partials import Partial
from iotrace.schemas.run import Prediction
from iotrace.schemas.writer import check_replaceable, refuse_over_source

from . import console
from .cluster import Certificates, connected
from .fleet_hosts import DAYS, make_certificates, own_name, serve_generator, serve_scheduler
from .fleet_plan import FleetLoad, example, load_of, read_plan
from .live import LiveMeter, live, show_replay
from .options import INTERRUPTED, Full, Json, Need, OutputPath, Overwrite, Slo, Title
from .replay import ReplayAnswer, replay_answer
from .show import show
from .summary import written
from .sweep import MaxScale, Scales, Steps, StepSeconds, answer_sweep, parse_ladder, point_of
from .sweep_run import STEP_SECONDS, STEPS_MAX, run_sweep, was_interrupted

PORT: Final = 8786

PlanPath = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN.toml",
        help="Plan of who plays what where; iotrace fleet plan --example prints one.",
        show_default=False,
    ),
]
NewScheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Where the generators are: tls://HOST:8786, or tcp://127.0.0.1:8786 on this machine.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Play one load from many machines on one storage.")
    group.command("plan")(plan_command)
    group.command("certificates")(certificates_command)
    group.command("scheduler")(scheduler_command)
    group.command("generator")(generator_command)
    group.command("replay")(replay_command)
    group.command("sweep")(sweep_command)
    app.add_typer(group, name="fleet")


def plan_command(
    plan: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN.toml", help="A plan to check.", show_default=False),
    ] = None,
    example_: Annotated[bool, typer.Option("--example", help="Print a commented PLAN.toml to edit.")] = False,
) -> int:
    """Check a plan, or print one to edit; asks no machine.

    Example: iotrace fleet plan --example > plan.toml
    """
    if example_:
        typer.echo(example(), nl=False)
        return 0
    if plan is None:
        raise IotraceError(
            "plan needs a PLAN.toml", hint="iotrace fleet plan --example > plan.toml makes one to edit"
        )
    load = load_of(read_plan(plan), plan.parent)
    play = "plays" if len(load.parts) == 1 else "play"
    console.paragraph(
        f"{counted(len(load.parts), 'generator')} {play} '{load.name}' at {load.options.scale:g}x "
        f"({load.options.mode}): {', '.join(load.options.targets)}"
    )
    return 0


def certificates_command(
    hosts: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME…",
            help="Names of the machines: scheduler, generators, and the one on which you run commands.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="A new folder for the certificates.", show_default=False
        ),
    ],
    days: Annotated[
        int, typer.Option("--days", min=1, max=825, metavar="N", help="Days until they expire.")
    ] = DAYS,
) -> int:
    """Make the certificates that the machines trust.

    Makes a folder for each machine. Copy it there and name it with --certificates. Anyone who has one of the keys
    commands every generator, so keep them private. The authority's own key is not kept: to add a machine, make a
    new set.

    Example: iotrace fleet certificates conductor gen1 gen2 -o certificates
    """
    made = make_certificates(output, hosts, days)
    console.paragraph(
        f"wrote {output}: certificates of {counted(len(made), 'machine')}, for {counted(days, 'day')}"
    )
    for folder in made:
        console.paragraph(f"{folder}: carry it to {folder.name} alone", indent=2)
    return 0


def scheduler_command(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address of this machine to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, metavar="N", help="Port to listen on.")
    ] = PORT,
    certificates: Certificates = None,
) -> int:
    """Run the scheduler that connects all machines, until Ctrl-C.

    Generators and commands name its address. Without certificates it listens to this machine only.

    Example: iotrace fleet scheduler --host 10.0.0.1 --certificates certificates/conductor
    """
    serve_scheduler(host, port, certificates, console.say)
    return 0


def generator_command(
    scheduler: NewScheduler,
    certificates: Certificates = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of this machine in plans; by default its host name.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            help="Folder for recordings that it receives, and for results until they are fetched.",
        ),
    ] = Path("iotrace-generator"),
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address of this machine to listen on; by default the one that leads to the scheduler.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Let this machine play for a fleet, until Ctrl-C.

    It plays on targets by the rules of iotrace replay: it writes to a target that iotrace did not make only if the
    plan allows that target by name. Anyone who may command it can run programs as its user. It stops when it no
    longer hears from the machine that conducts.

    Example: iotrace fleet generator --scheduler tls://10.0.0.1:8786 --certificates certificates/gen1 --name gen1
    """
    serve_generator(scheduler, certificates, name or own_name(), folder, host, console.say)
    return 0


def replay_command(
    plan: PlanPath,
    output: OutputPath,
    scheduler: NewScheduler,
    certificates: Certificates = None,
    overwrite: Overwrite = False,
    title: Title = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Play one load from several machines at once.

    All machines check their targets before any begins, and all begin at one instant. If a machine dies or falls
    silent, all stop. The result is one recording; in a query its I/Os have a column host. Exit status 1 if the run
    shows nothing about the storage or did not run to its end, 130 if it was stopped.

    Example: iotrace fleet replay plan.toml --scheduler tls://10.0.0.1:8786 --certificates keys/me -o new.iotrace
    """
    load = load_of(read_plan(plan), plan.parent, title=title)
    refuse_over_source(output, [part.recording.path for part in load.parts])
    check_replaceable(output, overwrite=overwrite)
    with live("replay") as meter, _stage(load, scheduler, certificates) as stage:
        result = stage.play(
            output, load.options, lambda state: show_replay(meter, state), overwrite=overwrite
        )
    findings = validity.check(result)
    if json:
        console.print_answer(
            ReplayAnswer(result=written(result), findings=findings, fidelity=None, watched=None)
        )
    else:
        last = f"wrote {result.path}: {written(result).bytes_on_disk / 1024:,.0f} KiB"
        show(replay_answer(result, output.name, None, findings, last), full=full)
    if stage.is_interrupted:
        return INTERRUPTED
    return 1 if has_invalid(findings) or result.manifest.was_interrupted else 0


def sweep_command(
    plan: PlanPath,
    output: OutputPath,
    scheduler: NewScheduler,
    certificates: Certificates = None,
    scales: Scales = None,
    step_seconds: StepSeconds = STEP_SECONDS,
    steps: Steps = STEPS_MAX,
    max_scale: MaxScale = None,
    need: Need = None,
    slo: Slo = None,
    overwrite: Overwrite = False,
    title: Title = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Raise the load of all machines until the knee shows.

    Exit status with --need: 1 unless the answer is YES; without: 1 if an SLO is missed at 1x or cannot be judged,
    too few steps can be judged, or a machine was lost. 130 if it was stopped.

    Example: iotrace fleet sweep plan.toml --scheduler tcp://127.0.0.1:8786 -o sweep.iotrace
    """
    if slo:
        objectives.parse(slo)
    needed = parse_scale(need) if need is not None else None
    ladder = parse_ladder(scales)
    load = load_of(read_plan(plan), plan.parent)
    with live("sweep") as meter, _stage(load, scheduler, certificates) as stage:

        def start(
            number: int, scale: float, _seconds: float, _said: Prediction | None
        ) -> Callable[[Progress], None]:
            return lambda state: show_replay(meter, state, f"step {number} at {scale:g}x: ")

        def done(summary: StepSummary, _step: Recording) -> None:
            _note(meter, summary)

        sweep = run_sweep(
            load.first,
            output,
            load.options,
            scales=ladder,
            step_seconds=step_seconds,
            steps_max=steps,
            scale_max=parse_scale(max_scale) if max_scale is not None else None,
            title=title or f"Sweep of {load.name} from {counted(len(load.parts), 'generator')}",
            overwrite=overwrite,
            load=load.load,
            play=stage.play,
            on_start=start,
            on_done=done,
        )
    ended = f"; it ended because {sweep.settings.ended}" if sweep.settings.ended else ""
    console.say(f"wrote {sweep.path}: {counted(len(sweep.steps), 'step')}{ended}")
    status = answer_sweep(sweep, slo, need=needed, full=full, json=json)
    if stage.is_interrupted or stopping.asked():
        return INTERRUPTED
    return 1 if was_interrupted(sweep) else status


def _note(meter: LiveMeter, summary: StepSummary) -> None:
    meter.point(point_of(summary))


class _Stage:
    """The generators of a plan, all checked, and what they are to play."""

    def __init__(self, conductor: Conductor, load: FleetLoad) -> None:
        self._conductor, self._load = conductor, load
        self._show: Callable[[Progress], None] | None = None
        self.is_interrupted = False

    def report(self, states: Mapping[str, Progress]) -> None:
        """Show how far all are."""
        if self._show is not None and (state := _all_together(states)) is not None:
            self._show(state)

    def check(self) -> None:
        """Refuse what one of them refuses, before any plays."""
        self._conductor.check(self._load.parts)

    def play(
        self,
        output: Path,
        options: ReplayOptions,
        progress: Callable[[Progress], None] | None,
        *,
        overwrite: bool = False,
    ) -> Recording:
        """Play with the scale and repeats of ``options``; what all measured becomes the recording ``output``."""
        load = self._load
        parts = [
            replace(part, options=replace(part.options, scale=options.scale, repeat=options.repeat))
            for part in load.parts
        ]
        self._show = progress
        parts_name = output.with_name(f"{output.name}.parts")
        # The conductor heeds requests itself; what it brings back is kept.
        with stopping.deferred(), Partial.folder(parts_name, private=True) as room:
            run = self._conductor.play(parts, room.path)
            self.is_interrupted |= run.is_interrupted
            if run.why:
                console.warn(f"the run ended early: {run.why}")
            return merge(
                run,
                output,
                options,
                load.source,
                title=options.title
                or f"{load.name} at {options.scale:g}x from {counted(len(parts), 'generator')}",
                overwrite=overwrite,
            )


@contextmanager
def _stage(load: FleetLoad, scheduler: str, certificates: Path | None) -> Iterator[_Stage]:
    with ExitStack() as stack:
        client = stack.enter_context(connected(scheduler, certificates))
        stage: list[_Stage] = []
        conductor = Conductor(
            client,
            [part.host for part in load.parts],
            silence_seconds=load.silence_seconds,
            progress=lambda states: stage[0].report(states) if stage else None,
        )
        stack.enter_context(conductor)
        stage.append(_Stage(conductor, load))
        stage[0].check()
        yield stage[0]


def _all_together(states: Mapping[str, Progress]) -> Progress | None:
    """Of all generators: the sums of what they play; or the one that is furthest from it."""
    if not states:
        return None
    order = ("survey", "check", "fill", "play")
    behind = min(states.values(), key=lambda state: order.index(state.phase))
    if behind.phase != "play":
        return behind
    all_of = list(states.values())
    completed = sum(state.rate_per_s or 0.0 for state in all_of)

    def mean(name: str) -> float | None:
        summed = sum((state.rate_per_s or 0.0) * (getattr(state, name) or 0.0) for state in all_of)
        return summed / completed if completed else None

    names = (
        "planned_ios",
        "due_ios",
        "issued_ios",
        "completed_ios",
        "in_flight",
        "failed_ios",
        "delayed_ios",
        "bytes",
    )
    return Progress(
        "play",
        elapsed_ns=min(state.elapsed_ns for state in all_of),
        planned_ns=max(state.planned_ns for state in all_of),
        rate_per_s=completed,
        offered_per_s=sum(state.offered_per_s or 0.0 for state in all_of),
        response_ns_mean=mean("response_ns_mean"),
        service_ns_mean=mean("service_ns_mean"),
        **{name: sum(getattr(state, name) for state in all_of) for name in names},
    )
