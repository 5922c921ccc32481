"""Options and arguments that several commands share, so that they read and mean the same everywhere."""

import math
from pathlib import Path
from typing import Annotated, Final

import typer

from iotrace.schemas import IotraceError

COUNT_MAX: Final = (1 << 63) - 1
"""The greatest whole number that anything below takes."""


ANONYMIZE_KEY: Final = "--anonymize-key"
"""What it is given is a secret: it stands in no log."""

INTERRUPTED: Final = 130
"""Exit status of what Ctrl-C, or a request to terminate, ended: as shells have it."""


def finite(value: float | None) -> float | None:
    """For options that take a number: inf and nan pass any range, and are none."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number.")
    return value


_OTHER_KINDS: Final = (
    ".blg", ".csv", ".db", ".etl", ".gz", ".html", ".json", ".log", ".md", ".parquet", ".pdf", ".png", ".sql",
    ".toml", ".txt", ".xel", ".xlsx", ".xml", ".zip",
)  # fmt: skip
"""Ends of names that promise something which a recording is not."""


def recording_name(path: Path | None) -> Path | None:
    """For options that name a recording to be written: ``a.txt`` would be a folder, which nobody would expect."""
    if path is not None and path.suffix.lower() in _OTHER_KINDS:
        raise IotraceError(
            f"'{path.name}' is the name of a file, and a recording is a folder",
            hint=f"call it {path.stem}.iotrace; iotrace export makes a table of a recording, iotrace report a page",
        )
    return path


def recording_or_page(path: Path | None) -> Path | None:
    """The same for options that take NAME.html too, and write a report then."""
    return path if path is not None and path.suffix == ".html" else recording_name(path)


RecordingPath = Annotated[
    Path, typer.Argument(metavar="RECORDING", help="A recording, NAME.iotrace.", show_default=False)
]
OutputPath = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="NAME.iotrace",
        help="Where to write it.",
        show_default=False,
        callback=recording_name,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Full = Annotated[bool, typer.Option("--full", help="Show more tables, columns and rows.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier result of iotrace at --output.")
]
Title = Annotated[
    str | None, typer.Option("--title", help="A title to show in tables and reports.", show_default=False)
]
CeilingPath = Annotated[
    Path | None,
    typer.Option(
        "--ceiling",
        metavar="PATH.toml",
        help="A description of the hardware, to compare the knee with its limits; see iotrace ceiling.",
        show_default=False,
    ),
]
Need = Annotated[
    str | None,
    typer.Option(
        "--need",
        metavar="2x",
        help="The load that the storage must carry; the answer is YES, NO or CANNOT TELL.",
        show_default=False,
    ),
]
Slo = Annotated[
    str | None,
    typer.Option(
        "--slo",
        metavar="LIMITS",
        help="What the business needs, such as 'p99<15ms' or 'read p95<5ms, log write p99<2ms'.",
        show_default=False,
    ),
]
Groups = Annotated[
    Path | None,
    typer.Option(
        "--groups",
        metavar="HOSTS.csv",
        help="A CSV of what hosts share: a column host, and a column for each of array, hypervisor, …",
        show_default=False,
    ),
]
