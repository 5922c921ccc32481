"""Commands that make recordings of production I/O: import, and capture."""

from pathlib import Path
from typing import Annotated, Any

import typer

from iotrace.analyze.units import format_rate
from iotrace.capture import linux
from iotrace.capture.importing import import_files
from iotrace.schemas import IotraceError, Recording

from . import console
from .options import Json, OutputPath, Overwrite, Title
from .summary import print_recording, recording_facts

capture_group = typer.Typer(
    help="Record production I/O.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("import")(import_command)
    app.add_typer(capture_group, name="capture")


def import_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Trace files, plain or zipped.", show_default=False)
    ],
    output: OutputPath,
    overwrite: Overwrite = False,
    title: Title = None,
    json: Json = False,
) -> None:
    """Turn trace files into a recording.

    Example: iotrace import kernel.etl -o prod.iotrace
    """
    with console.progress("importing") as meter:
        recording = import_files(
            files,
            output,
            overwrite=overwrite,
            title=title,
            progress=lambda name, done, total: meter.update(done, total, name),
        )
    _show(recording, json=json)


@capture_group.command("linux")
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
            "--seconds", min=0.1, help="How long to record; otherwise until Ctrl-C.", show_default=False
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role", metavar="DEVICE=ROLE", help="What a device holds: data, log, …", show_default=False
        ),
    ] = None,
    overwrite: Overwrite = False,
    title: Title = None,
    json: Json = False,
) -> None:
    """Record the block layer of a Linux host live.

    Example: iotrace capture linux /dev/sdb --seconds 600 -o prod.iotrace
    """
    roles = dict(_split_role(text) for text in role or [])
    if seconds is None:
        console.say("recording until Ctrl-C")
    with console.progress("recording") as meter:

        def show(state: dict[str, Any]) -> None:
            detail = f"{state['ios']:,} I/Os, {format_rate(state['bytes_per_second'], 'B')}"
            if state["events_lost"]:
                detail += f", {state['events_lost']:,} events lost"
            meter.update(state["elapsed_ns"] / 1e9, seconds, detail)

        recording = linux.record(
            devices,
            output,
            seconds=seconds,
            roles=roles,
            overwrite=overwrite,
            title=title,
            progress=show,
        )
    _show(recording, json=json)


def _split_role(text: str) -> tuple[str, str]:
    device, equals, role = text.rpartition("=")
    if not equals or not device or not role:
        raise IotraceError(f"--role '{text}' is not DEVICE=ROLE", hint="for example --role /dev/sdb=log")
    return device, role


def _show(recording: Recording, *, json: bool) -> None:
    if json:
        console.print_json(recording_facts(recording))
    else:
        print_recording(recording)
