"""How the clocks of a recording's sources were brought together: shown wherever their numbers meet."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Final

from iotrace.analyze.present.program import INLINE
from iotrace.analyze.units import format_duration_ns
from iotrace.schemas import Alignment, Manifest

_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class SourceClock:
    """How the clock of one source was brought onto that of the others."""

    source: str
    alignment: Annotated[Alignment, INLINE]


def source_clocks(manifest: Manifest) -> list[SourceClock]:
    """For programs: each source that was aligned, with how, by how much and how surely."""
    return [SourceClock(source.name, source.alignment) for source in manifest.sources if source.alignment]


def clock_sentences(manifest: Manifest) -> list[str]:
    """One for each source that was aligned with others; none where there is one clock only."""
    aligned = [(source.name, source.alignment) for source in manifest.sources if source.alignment]
    names = _short([name for name, _ in aligned])
    said = [
        f"clock of {name}: {_words(alignment)}"
        for name, (_, alignment) in zip(names[:_SHOWN], aligned, strict=False)
    ]
    if len(aligned) > _SHOWN:
        said.append(f"clocks of {len(aligned) - _SHOWN:,} more: see manifest.json")
    return said


def _short(names: list[str]) -> list[str]:
    """Files without their folders, where that tells them apart."""
    last = [PurePath(name).name for name in names]
    return last if len(set(last)) == len(last) else names


def _words(alignment: Alignment) -> str:
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
