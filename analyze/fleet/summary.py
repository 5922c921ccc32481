"""What is kept of each recording of a fleet: figures that add up, and how far to trust them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from iotrace.analyze import validity
from iotrace.analyze.describe.recording import Survey, survey
from iotrace.analyze.present.trust import disqualifying
from iotrace.analyze.stats.histogram import Histogram
from iotrace.analyze.units import is_dated
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.arrays import Int64s
from iotrace.schemas.stored import Place, brought

_NONE: Final = pa.nulls(0, pa.int64())


@dataclass(frozen=True, slots=True)
class Seconds:
    """Reads and writes by the second of UTC in which they were issued; seconds without any are left out."""

    utc_s: Int64s
    io_count: Int64s


@dataclass(frozen=True, slots=True)
class HostSummary:
    """One recording of a fleet. ``latency`` holds histograms of its headline metric by operation."""

    host: str
    recording: str
    path: str
    uuid: str
    kind: str
    metric: str
    """service, or response for a replay."""
    start_utc_ns: int | None
    """None where its sources named no date: it cannot be placed beside the others."""
    window_ns: int
    io_count: int
    read_count: int
    size_bytes: int
    ios_per_s: float
    bytes_per_s: float
    queue_length_mean: float
    latency: dict[str, Histogram]
    seconds: Seconds
    quality: str
    quality_words: str
    spoilt_by: tuple[str, ...]
    """Titles of the validity rules that say that its figures must not be used."""
    findings: tuple[validity.Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """A recording that could not be read, and why."""

    path: str
    problem: str


def summarise(place: Place) -> HostSummary | Unread:
    """Read one recording. What is wrong with it is the result, so that the others' figures are not lost."""
    try:
        with brought(place) as path:
            recording = Recording.open(path)
            found = survey(recording)
            findings = validity.check(recording, description=found.description)
    except IotraceError as problem:
        return Unread(str(place), problem.message)
    return _summary(recording, str(place), found, findings)


def _summary(
    recording: Recording, path: str, found: Survey, findings: Sequence[validity.Finding]
) -> HostSummary:
    description, manifest = found.description, recording.manifest
    total = description.total
    flows = (total.read, total.write) if total is not None else ()
    columns = found.seconds or {"utc_s": _NONE, "io_count": _NONE}
    return HostSummary(
        host=manifest.host.name or recording.name,
        recording=recording.name,
        path=path,
        uuid=manifest.uuid,
        kind=manifest.kind,
        metric=description.headline_metric,
        start_utc_ns=description.start_utc_ns if is_dated(description.start_utc_ns) else None,
        window_ns=description.window_ns,
        io_count=sum(flow.io_count for flow in flows),
        read_count=total.read.io_count if total is not None else 0,
        size_bytes=sum(flow.size_bytes for flow in flows),
        ios_per_s=total.ios_per_s if total is not None else 0.0,
        bytes_per_s=total.bytes_per_s if total is not None else 0.0,
        queue_length_mean=total.queue_length_mean if total is not None else 0.0,
        latency=found.latency,
        seconds=Seconds(*(columns[name].to_numpy() for name in ("utc_s", "io_count"))),
        quality=manifest.quality.verdict,
        quality_words=manifest.quality.words,
        spoilt_by=tuple(entry.title for entry in disqualifying(findings)),
        findings=tuple(findings),
    )
