"""What a recording is, in a few lines: shown after every command that wrote one.

With it goes how the clocks of its sources were brought together, which is shown wherever their numbers meet.
"""

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Final

from iotrace.analyze import library
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.units import format_bytes, format_duration_ns, format_moment
from iotrace.schemas import Alignment, Manifest, Quality, Recording, counted
from iotrace.schemas.run import ClosedLoop, Replay

from . import console

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
_CLOCKS_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class SourceClock:
    """How the clock of one source was brought onto that of the others."""

    source: str
    alignment: Annotated[Alignment, INLINE]


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
    for sentence in (*manifest.quality.shared_time, *manifest.quality.part_recorded):
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
        rows = library.run(connection, "layers").to_pylist()
    (first, count), *others = [(row["layer"], row["io_count"]) for row in rows]
    if not others:
        return counted(count, "I/O")
    return ", ".join(
        [
            f"{counted(count, 'I/O')} at the {first} layer",
            *(f"{count:,} at {layer}" for layer, count in others),
        ]
    )


def source_clocks(manifest: Manifest) -> list[SourceClock]:
    """For programs: each source that was aligned, with how, by how much and how surely."""
    return [SourceClock(source.name, source.alignment) for source in manifest.sources if source.alignment]


def clock_sentences(manifest: Manifest) -> list[str]:
    """One for each source that was aligned with others; none where there is one clock only."""
    aligned = [(source.name, source.alignment) for source in manifest.sources if source.alignment]
    names = _short_names([name for name, _ in aligned])
    said: list[str] = []
    told = list(zip(names[:_CLOCKS_SHOWN], aligned, strict=False))
    for place, (name, (_, alignment)) in enumerate(told):
        words = _alignment_words(alignment)
        # What a basis leaves open, behind its semicolon, is said once: of the last source that rests on it.
        if any(later.basis == alignment.basis for _, (_, later) in told[place + 1 :]):
            words = words.replace(alignment.basis, alignment.basis.partition(";")[0])
        said.append(f"clock of {name}: {words}")
    if len(aligned) > _CLOCKS_SHOWN:
        said.append(f"clocks of {len(aligned) - _CLOCKS_SHOWN:,} more: see manifest.json")
    return said


def _short_names(names: list[str]) -> list[str]:
    """Files without their folders, where that tells them apart."""
    last = [PurePath(name).name for name in names]
    return last if len(set(last)) == len(last) else names


def _alignment_words(alignment: Alignment) -> str:
    if alignment.method == "reference":
        return "the one that others were measured against"
    about = (
        "uncertainty unknown"
        if alignment.uncertainty_ns is None
        else f"within {format_duration_ns(alignment.uncertainty_ns)}"
    )
    if alignment.method == "utc":
        return about if alignment.uncertainty_ns == 0 else f"{about}, {alignment.basis}"
    sign = "+" if alignment.offset_ns >= 0 else "-"
    words = f"moved by {sign}{format_duration_ns(abs(alignment.offset_ns))}, {about} (95 %) of {alignment.reference}, "
    words += f"by {alignment.matched_ios or 0:,} I/Os that both saw"
    if alignment.drift_ppm is not None and alignment.drift_uncertainty_ppm is not None:
        applied = abs(alignment.drift_ppm) > alignment.drift_uncertainty_ppm
        words += f"; drift {alignment.drift_ppm:+,.2f} ± {alignment.drift_uncertainty_ppm:,.2f} ppm" + (
            ", taken off" if applied else ""
        )
    return words
