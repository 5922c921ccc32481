"""What a recording is, in a few lines: shown after every command that wrote one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iotrace.analyze import library
from iotrace.analyze.units import format_bytes, format_duration_ns, format_moment
from iotrace.schemas import Quality, Recording, counted
from iotrace.schemas.run import ClosedLoop, Replay

from . import console
from .clocks import SourceClock, clock_sentences, source_clocks

_ROWS: Final = {
    "counters": ("counter value", ""),
    "waits": ("wait", ""),
    "results": ("result of tests", "results of tests"),
    "markers": ("marker", ""),
    "devices": ("device", ""),
    "files": ("file", ""),
    "processes": ("process", "processes"),
}
"""Tables beside that of the I/Os, as people ask about them, and what a row of each is called: one, and several."""


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
    start = format_moment(manifest.clock.start_utc_ns + manifest.window_start_ns) or "at no known date"
    console.paragraph(f"wrote {recording.path}: {format_bytes(written(recording).bytes_on_disk)}")
    console.paragraph(manifest.title, indent=2)
    console.paragraph(f"{start}, {format_duration_ns(manifest.duration_ns)}", indent=2)
    console.paragraph(f"holds {row_words(recording)}", indent=2)
    for sentence in manifest.quality.shared_time:
        console.paragraph(f"not the same time: {sentence}", indent=2)
    for sentence in clock_sentences(manifest):
        console.paragraph(sentence, indent=2)
    for note in manifest.quality.notes:
        console.paragraph(f"note: {note}", indent=2)
    console.quality(recording.path.name, manifest.quality)


def row_words(recording: Recording) -> str:
    """What a recording holds, the I/Os first: ``1,231 I/Os; 2 devices, 38 files``.

    An I/O that was seen at several layers is one of each: the layers are told apart.
    """
    rows = recording.manifest.rows
    found = [counted(rows[name], *words) for name, words in _ROWS.items() if rows.get(name)]
    held = ", ".join(found)
    return (
        "; ".join(part for part in (_io_words(recording) if rows.get("io") else "", held) if part)
        or "nothing"
    )


def _io_words(recording: Recording) -> str:
    with library.opened(recording) as connection:
        counts = connection.execute("SELECT layer, count(*) FROM io GROUP BY layer ORDER BY layer").fetchall()
    (first, count), *others = counts
    if not others:
        return counted(count, "I/O")
    return ", ".join(
        [
            f"{counted(count, 'I/O')} at the {first} layer",
            *(f"{count:,} at {layer}" for layer, count in others),
        ]
    )
