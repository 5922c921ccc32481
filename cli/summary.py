"""What a recording is, in a few lines: shown after every command that wrote one."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from iotrace.schemas import Recording

from . import console
from .clocks import clock_facts, clock_sentences


def recording_facts(recording: Recording) -> dict[str, Any]:
    """The same facts as `print_recording`, for programs."""
    manifest = recording.manifest
    return {
        "path": str(recording.path),
        "uuid": manifest.uuid,
        "kind": manifest.kind,
        "title": manifest.title,
        "start_utc_ns": manifest.clock.start_utc_ns,
        "window_start_ns": manifest.window_start_ns,
        "window_end_ns": manifest.window_end_ns,
        "rows": manifest.rows,
        "quality": {
            "verdict": manifest.quality.verdict,
            "reasons": manifest.quality.reasons,
            "shared_time": manifest.quality.shared_time,
            "notes": manifest.quality.notes,
            "events_lost": manifest.quality.events_lost,
            "buffers_lost": manifest.quality.buffers_lost,
            "sequence_holes": manifest.quality.sequence_holes,
            "unpaired_issues": manifest.quality.unpaired_issues,
            "unpaired_completions": manifest.quality.unpaired_completions,
        },
        "clocks": clock_facts(manifest),
        "replay": manifest.replay and asdict(manifest.replay),
        "bytes_on_disk": sum(file.stat().st_size for file in recording.path.rglob("*") if file.is_file()),
    }


def print_recording(recording: Recording) -> None:
    """Say what was written: how much, when, how long, how good."""
    manifest = recording.manifest
    facts = recording_facts(recording)
    start = datetime.fromtimestamp(manifest.clock.start_utc_ns / 1e9, UTC)
    counts = ", ".join(f"{rows:,} {name}" for name, rows in manifest.rows.items() if rows)
    console.paragraph(f"wrote {recording.path}: {facts['bytes_on_disk'] / 1024:,.0f} KiB")
    console.paragraph(manifest.title, indent=2)
    console.paragraph(f"{start:%Y-%m-%d %H:%M:%S} UTC, {manifest.duration_ns / 1e9:,.1f} s", indent=2)
    console.paragraph(f"rows: {counts or 'none'}", indent=2)
    for sentence in manifest.quality.shared_time:
        console.paragraph(f"not the same time: {sentence}", indent=2)
    for sentence in clock_sentences(manifest):
        console.paragraph(sentence, indent=2)
    for note in manifest.quality.notes:
        console.paragraph(f"note: {note}", indent=2)
    console.quality(recording.path.name, manifest.quality)
