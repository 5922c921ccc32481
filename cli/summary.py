"""What a recording is, in a few lines: shown after every command that wrote one."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from iotrace.schemas import Quality, Recording
from iotrace.schemas.run import ClosedLoop, Replay

from . import console
from .clocks import SourceClock, clock_sentences, source_clocks


@dataclass(frozen=True, slots=True)
class Written:
    """A recording that was written, for programs."""

    path: Path
    uuid: str
    kind: str
    title: str
    start_utc_ns: int
    window_start_ns: int
    window_end_ns: int
    rows: dict[str, int]
    """By table."""
    quality: Quality
    clocks: list[SourceClock]
    replay: Replay | ClosedLoop | None
    """How it was played, if it was."""
    bytes_on_disk: int


def written(recording: Recording) -> Written:
    """The same facts as `print_recording`, for programs."""
    manifest = recording.manifest
    return Written(
        path=recording.path,
        uuid=manifest.uuid,
        kind=manifest.kind,
        title=manifest.title,
        start_utc_ns=manifest.clock.start_utc_ns,
        window_start_ns=manifest.window_start_ns,
        window_end_ns=manifest.window_end_ns,
        rows=manifest.rows,
        quality=manifest.quality,
        clocks=source_clocks(manifest),
        replay=manifest.replay,
        bytes_on_disk=sum(file.stat().st_size for file in recording.path.rglob("*") if file.is_file()),
    )


def print_recording(recording: Recording) -> None:
    """Say what was written: how much, when, how long, how good."""
    manifest = recording.manifest
    start = datetime.fromtimestamp(manifest.clock.start_utc_ns / 1e9, UTC)
    counts = ", ".join(f"{rows:,} {name}" for name, rows in manifest.rows.items() if rows)
    console.paragraph(f"wrote {recording.path}: {written(recording).bytes_on_disk / 1024:,.0f} KiB")
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
