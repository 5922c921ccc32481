"""Commands of the Linux recorder: record, freeze what there is so far, and save what a killed recorder left."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.units import format_bytes, format_rate
from iotrace.capture import linux
from iotrace.schemas import IotraceError, counted

from . import console
from .amounts import parse_bytes
from .capture import capture_group, show_recording
from .live import live
from .options import Json, OutputPath, Overwrite, Title, finite
from .watching import stop_with_input

_SIZE_MIN: Final = 16 << 20


def register(_app: typer.Typer) -> None:
    """Add the commands to the group of capture commands."""
    capture_group.command("linux")(linux_command)
    capture_group.command("snapshot")(snapshot_command)
    capture_group.command("recover")(recover_command)
    capture_group.command("doctor")(doctor_command)


def linux_command(
    devices: Annotated[
        list[str],
        typer.Argument(
            metavar="DEVICE…", help="Devices, mount points, or files on them.", show_default=False
        ),
    ],
    output: OutputPath,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            min=0.1,
            callback=finite,
            help="How long to record; by default until Ctrl-C.",
            show_default=False,
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role", metavar="DEVICE=ROLE", help="What a device holds: data, log, …", show_default=False
        ),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(
            "--layers",
            metavar="LAYER,…",
            help="filesystem, block, device. filesystem adds calls on files, and which file each I/O belongs to.",
        ),
    ] = "block,device",
    ring: Annotated[
        float | None,
        typer.Option(
            "--ring",
            metavar="MINUTES",
            min=0.1,
            callback=finite,
            help="Keep only the last MINUTES minutes.",
            show_default=False,
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            help="Stop at this size on disk, such as 20G; with --ring drop the oldest part instead.",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="[HOST:]PORT",
            help="Serve latencies, rates and losses for Prometheus; to this machine only, unless you give a HOST.",
            show_default=False,
        ),
    ] = None,
    end_with_input: Annotated[
        bool, typer.Option("--end-with-input", hidden=True, help="Stop when standard input ends.")
    ] = False,
    overwrite: Overwrite = False,
    title: Title = None,
    json: Json = False,
) -> None:
    """Record the block layer of a Linux host live.

    The data survives a crash: iotrace capture recover makes a recording of it.

    Example: iotrace capture linux /dev/sdb --seconds 600 -o prod.iotrace
    """
    roles = dict(_split_role(text) for text in role or [])
    max_bytes = None if max_size is None else parse_bytes(max_size)
    if max_bytes is not None and max_bytes < _SIZE_MIN:
        raise IotraceError(f"--max-size {max_size} is too small to record in", hint="use at least 16M")
    counts = None if metrics is None else linux.Metrics()
    with ExitStack() as stack:
        if metrics is not None and counts is not None:
            url = stack.enter_context(linux.serving(counts, metrics))
            if linux.is_local(metrics):
                console.say(f"metrics at {url}")
            else:
                console.warn(f"whoever reaches this machine can read the metrics at {url}")
        meter = stack.enter_context(live("recording"))

        is_announced = seconds is not None

        def show(state: dict[str, Any]) -> None:
            nonlocal is_announced
            if not is_announced:
                console.say("recording until Ctrl-C")
                is_announced = True
            detail = (
                f"{state['ios']:,} I/Os, {format_rate(state['bytes_per_second'], 'B')}, "
                f"{format_bytes(state['size_bytes'])} on disk"
            )
            if state["events_lost"]:
                detail += f", {state['events_lost']:,} events lost"
            meter.load.take(state["elapsed_ns"], state["ios"], state["latency_ns_mean"])
            meter.update(state["elapsed_ns"] / 1e9, seconds, detail)

        recording = linux.record(
            devices,
            output,
            seconds=seconds,
            roles=roles,
            overwrite=overwrite,
            title=title,
            progress=show,
            stop=stop_with_input() if end_with_input else None,
            max_bytes=max_bytes,
            layers=[word.strip() for word in layers.split(",") if word.strip()],
            ring_seconds=None if ring is None else ring * 60,
            metrics=counts,
        )
    ended = recording.manifest.quality.ended
    if ended != "normally":
        console.warn(f"the recording ended early: {ended}; what was recorded until then is kept")
    show_recording(recording, json=json)


def snapshot_command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="NAME.iotrace",
            help="The recording that is being made, as given to its -o.",
            show_default=False,
        ),
    ],
    output: OutputPath,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Copy what a running recorder has so far.

    The recorder goes on. If it runs with --ring, this keeps the minutes before an incident.

    Example: iotrace capture snapshot ring.iotrace -o incident.iotrace
    """
    with console.working("taking a snapshot"):
        recording = linux.snapshot(path, output, overwrite=overwrite)
    show_recording(recording, json=json)


def recover_command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="NAME.iotrace",
            help="The recording that was cut off, as given to its -o.",
            show_default=False,
        ),
    ],
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Make a recording of what a killed recorder saved.

    Example: iotrace capture recover prod.iotrace
    """
    with console.working("recovering"):
        recording = linux.recover(path, overwrite=overwrite)
    ended = recording.manifest.quality.ended
    how = "was recorded to its end" if ended == "normally" else f"ended early: {ended}"
    console.say(f"'{recording.path}' {how}")
    show_recording(recording, json=json)


@dataclass(frozen=True, kw_only=True)
class DoctorAnswer(ProgramAnswer):
    """What `capture doctor` answers."""

    schema: Literal["iotrace.doctor/1"] = "iotrace.doctor/1"
    can_record: bool
    checks: list[linux.Check]


def doctor_command(
    mount: Annotated[
        bool,
        typer.Option(
            "--mount", help="Mount the kernel's trace file system first, if necessary (needs root)."
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Say what this host allows the recorder.

    Also says which events would be lost, and the least rights to grant. Exit status 1 if nothing can be recorded.

    Example: iotrace capture doctor
    """
    if mount:
        linux.mount_tracefs()
    checks = linux.examine()
    problems = sum(check.level == "problem" for check in checks)
    if json:
        console.print_answer(DoctorAnswer(can_record=not problems, checks=checks))
        return int(problems > 0)
    console.heading(
        f"Nothing can be recorded here yet: {counted(problems, 'problem')}, named below"
        if problems
        else "Everything needed to record is here"
    )
    for check in checks:
        console.check(check.level, check.name, check.found, check.advice)
    return int(problems > 0)


def _split_role(text: str) -> tuple[str, str]:
    device, equals, role = text.rpartition("=")
    if not equals or not device or not role:
        raise IotraceError(f"--role '{text}' is not DEVICE=ROLE", hint="for example --role /dev/sdb=log")
    return device, role
