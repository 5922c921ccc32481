"""The validate command: is a recording whole?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from iotrace.analyze.present import ProgramAnswer
from iotrace.schemas import Recording, validate
from iotrace.schemas.validation import Flaw

from . import console
from .options import Json, RecordingPath
from .summary import row_words


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("validate")(validate_command)


@dataclass(frozen=True, kw_only=True)
class ValidateAnswer(ProgramAnswer):
    """What `validate` answers."""

    schema: Literal["iotrace.validate/1"] = "iotrace.validate/1"
    path: Path
    whole: bool
    findings: list[Flaw]


def validate_command(recording: RecordingPath, json: Json = False) -> int:
    """Check that a recording is complete and consistent.

    Exit status 1 if something is wrong with it.

    Example: iotrace validate prod.iotrace
    """
    findings = validate(recording)
    opened = Recording.open(recording, as_it_is=True)
    if json:
        console.print_answer(ValidateAnswer(path=recording, whole=not findings, findings=findings))
    else:
        for entry in findings:
            console.paragraph(f"{entry.level}: {entry.where}: {entry.what}")
        if not findings:
            console.paragraph(f"{recording} is whole: {row_words(opened)}")
        run = opened.manifest.replay
        if run is not None and run.stopped_early:
            console.paragraph("The files are whole, the run is not: it was stopped early, see below.")
        console.quality(recording.name, opened.manifest.quality)
    return 1 if findings else 0
