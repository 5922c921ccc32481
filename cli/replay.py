"""The replay command, and the options it shares with sweep."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, cast

import typer

from iotrace.analyze import validity
from iotrace.analyze.busiest import busiest_window_ns
from iotrace.analyze.units import DASH, format_count, format_duration_ns, format_rate, format_share
from iotrace.replay import ReplayOptions, parse_scale, replay
from iotrace.schemas import IotraceError, Recording

from . import console
from .amounts import parse_bytes, parse_seconds
from .findings import has_invalid, print_findings
from .meters import show_replay
from .options import (
    AllowWrites,
    Backend,
    Buffered,
    Busiest,
    DestroyData,
    FileBytes,
    Json,
    Layer,
    Maps,
    MaxErrors,
    MaxInFlight,
    OutputPath,
    Overwrite,
    ReadsOnly,
    RecordingPath,
    Targets,
    Title,
)
from .summary import print_recording, recording_facts


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("replay")(replay_command)


def replay_command(
    recording: RecordingPath,
    output: OutputPath,
    target: Targets = None,
    map_: Maps = None,
    scale: Annotated[
        str, typer.Option("--scale", metavar="Nx", help="How much harder to play: 2x, 0.5x.")
    ] = "1x",
    mode: Annotated[
        str, typer.Option("--mode", help="How to scale; compress divides all times.")
    ] = "compress",
    busiest: Busiest = None,
    reads_only: ReadsOnly = False,
    buffered: Buffered = False,
    allow_writes: AllowWrites = False,
    destroy_data: DestroyData = None,
    file_size: FileBytes = None,
    layer: Layer = None,
    max_in_flight: MaxInFlight = 1024,
    max_errors: MaxErrors = None,
    backend: Backend = "auto",
    overwrite: Overwrite = False,
    title: Title = None,
    json: Json = False,
) -> int:
    """Play a recording on a target, N times as hard.

    Exit status 1 if the run says nothing about the storage.

    Example: iotrace replay prod.iotrace --target /data/test.bin --scale 2x -o new.iotrace
    """
    source = Recording.open(recording)
    options = build_options(
        source,
        target=target,
        map_=map_,
        scale=parse_scale(scale),
        mode=mode,
        busiest=busiest,
        reads_only=reads_only,
        buffered=buffered,
        allow_writes=allow_writes,
        destroy_data=destroy_data,
        file_size=file_size,
        layer=layer,
        max_in_flight=max_in_flight,
        max_errors=max_errors,
        backend=backend,
        title=title,
    )
    with console.progress("replay") as meter:
        result = replay(
            source, output, options, overwrite=overwrite, progress=lambda state: show_replay(meter, state)
        )
    findings = validity.check(result)
    if json:
        console.print_json(recording_facts(result) | {"findings": [asdict(entry) for entry in findings]})
    else:
        print_recording(result)
        print_run(result.manifest.replay or {})
        print_findings(findings)
    return 1 if has_invalid(findings) else 0


def build_options(
    source: Recording,
    *,
    target: list[str] | None,
    map_: list[str] | None,
    busiest: str | None,
    destroy_data: list[str] | None,
    file_size: str | None,
    backend: str,
    layer: str | None,
    **rest: Any,  # noqa: ANN401 - handed on as they are
) -> ReplayOptions:
    """Turn the words of the command line into `ReplayOptions`, checked before any target is touched."""
    maps: dict[str | int, str] = {}
    for text in map_ or []:
        device, equals, path = text.partition("=")
        if not equals or not device or not path:
            raise IotraceError(f"--map '{text}' is not DEVICE=TARGET", hint="for example --map 0=/dev/sdb")
        maps[device] = path
    options = ReplayOptions(
        targets=tuple(target or ()),
        maps=maps,
        destroy_data=tuple(destroy_data or ()),
        file_bytes=None if file_size is None else parse_bytes(file_size),
        backend=cast("Literal['auto', 'io_uring', 'threads']", backend),
        layer=layer,
        window_ns=None
        if busiest is None
        else busiest_window_ns(source, parse_seconds(busiest), layer=layer or played_layer(source)),
        **rest,
    )
    options.check()
    return options


def played_layer(source: Recording) -> str:
    """The layer a replay plays when none is asked for."""
    present = set(source.read("io", ["layer"])["layer"].unique().to_pylist())
    return next((layer for layer in ("block", "device", "filesystem", "sql") if layer in present), "block")


def print_run(run: dict[str, Any]) -> None:
    """What was played, how exactly, and what scaling did to the load."""
    played = f"{format_count(run['issued_ios'])} of {format_count(run['planned_ios'])} I/Os"
    planned, span = run["planned_duration_ns"], run["issued_span_ns"]
    off = (
        f" (off by {abs(span - planned) / planned:.3%})"
        if planned and run["issued_ios"] == run["planned_ios"]
        else ""
    )
    console.heading(f"Played at {run['scale']:g}x with {run['backend']}")
    console.paragraph(
        f"{played} issued in {format_duration_ns(span)} where {format_duration_ns(planned)} were planned{off}"
    )
    counts = {
        "failed": run["failed_ios"],
        "left out": run["skipped_ios"],
        "moved or resized to fit": run["adjusted_ios"],
        "held back by the cap in flight": run["delayed_ios"],
        "without an end": run["issued_ios"] - run["completed_ios"],
    }
    said = ", ".join(f"{format_count(count)} {name}" for name, count in counts.items() if count)
    if said:
        console.paragraph(said)
    console.paragraph(
        f"median response {format_duration_ns(run['response_ns_p50'])}, "
        f"service {format_duration_ns(run['service_ns_p50'])}; "
        f"lateness p50 {format_duration_ns(run['lateness_ns_p50'])}, p99 {format_duration_ns(run['lateness_ns_p99'])}, "
        f"max {format_duration_ns(run['lateness_ns_max'])}"
    )
    before, after = run["scaling"]["before"], run["scaling"]["after"]
    rows = [
        ["rate", *(format_rate(shape["rate_per_s"]) for shape in (before, after))],
        ["bytes", *(format_rate(shape["rate_bytes_per_s"], "B") for shape in (before, after))],
        ["gaps CV", *(_number(shape["cv_interarrival"]) for shape in (before, after))],
        *(
            [f"peak {width}", *(_number(shape["peak_to_mean"][width], "x") for shape in (before, after))]
            for width in before["peak_to_mean"]
        ),
        ["sequential", *(format_share(shape["sequential_share"]) for shape in (before, after))],
        ["touched", *(f"{shape['footprint_bytes'] / (1 << 20):,.0f} MiB" for shape in (before, after))],
    ]
    console.table(["the load", "as recorded", "as played"], rows)


def _number(value: float | None, unit: str = "") -> str:
    return DASH if value is None else f"{value:,.2f}{unit}"
