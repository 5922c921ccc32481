"""Options and arguments that several commands share, so that they read and mean the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

RecordingPath = Annotated[
    Path, typer.Argument(metavar="RECORDING", help="A recording, NAME.iotrace.", show_default=False)
]
OutputPath = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="NAME.iotrace", help="Where to write it.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier result of iotrace at --output.")
]
Title = Annotated[str | None, typer.Option("--title", help="A title for people.", show_default=False)]
Slo = Annotated[
    str | None,
    typer.Option(
        "--slo",
        metavar="LIMITS",
        help="What the business needs, such as 'p99<15ms' or 'read p95<5ms, log write p99<2ms'.",
        show_default=False,
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="T", help="File or block device to play on.", show_default=False),
]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="DEVICE=TARGET",
        help="Play one recorded device (id or name) on a target of its own.",
        show_default=False,
    ),
]
Buffered = Annotated[
    bool, typer.Option("--buffered", help="Go through the cache, knowingly: measures memory too.")
]
AllowWrites = Annotated[
    bool, typer.Option("--allow-writes", help="Write to a target that iotrace did not create.")
]
DestroyData = Annotated[
    list[str] | None,
    typer.Option(
        "--destroy-data",
        metavar="DEVICE",
        help="Repeat a device's name here to let a replay overwrite it.",
        show_default=False,
    ),
]
ReadsOnly = Annotated[
    bool, typer.Option("--reads-only", help="Leave out writes; nothing is changed on the target.")
]
MaxInFlight = Annotated[
    int, typer.Option("--max-in-flight", min=1, max=32768, help="Cap; I/Os it delays are counted.")
]
Backend = Annotated[str, typer.Option("--backend", help="auto, io_uring or threads.")]
Layer = Annotated[
    str | None,
    typer.Option("--layer", help="Layer of the recording to play.", show_default="block if recorded"),
]
Busiest = Annotated[
    str | None,
    typer.Option(
        "--busiest",
        metavar="TIME",
        help="Play only the busiest part of this length: 30s, 15m.",
        show_default=False,
    ),
]
FileBytes = Annotated[
    str | None,
    typer.Option(
        "--file-size",
        metavar="SIZE",
        help="Size of a target file that iotrace makes: 20G.",
        show_default="what the recording touches",
    ),
]
MaxErrors = Annotated[
    int | None,
    typer.Option(
        "--max-errors", min=0, help="Stop once more than this many I/Os failed.", show_default=False
    ),
]
