"""The validate command: is a recording whole?"""

import typer

from iotrace.schemas import Recording, validate

from . import console
from .options import Json, RecordingPath


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("validate")(validate_command)


def validate_command(recording: RecordingPath, json: Json = False) -> int:
    """Check that a recording is whole.

    Exit status 1 if something is wrong with it.

    Example: iotrace validate prod.iotrace
    """
    findings = validate(recording)
    manifest = Recording.open(recording).manifest
    if json:
        console.print_json(
            {
                "path": str(recording),
                "whole": not findings,
                "findings": [
                    {"level": entry.level, "where": entry.where, "what": entry.what} for entry in findings
                ],
            }
        )
    else:
        for entry in findings:
            console.paragraph(f"{entry.level}: {entry.where}: {entry.what}")
        if not findings:
            rows = ", ".join(f"{rows:,} {name}" for name, rows in manifest.rows.items() if rows)
            console.paragraph(f"{recording} is whole: {rows or 'no rows'}")
        console.quality(recording.name, manifest.quality)
    return 1 if findings else 0
