"""The recordings that a list of paths, folders and patterns names, and what is kept of each.

Kept are figures that add up, and how far to trust them.
"""

import glob
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.analyze import validity
from iotrace.analyze.describe.recording import Survey, survey
from iotrace.analyze.present.trust import disqualifying
from iotrace.analyze.stats.histogram import Histogram
from iotrace.analyze.units import is_dated
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.arrays import Int64s
from iotrace.schemas.plain_files import resolved
from iotrace.schemas.stored import (
    OWN_FILES,
    RECORDING_FILE,
    SUFFIX,
    Place,
    brought,
    stored_at,
    stored_recordings,
)

_DEPTHS: Final = ("*", "*/*")
"""A folder of recordings, or one of folders with the recordings of a host each."""
_NONE: Final = pa.nulls(0, pa.int64())


def named_recordings(words: Sequence[Path], wanted: Sequence[str] = (RECORDING_FILE,)) -> list[Place]:
    """Where the recordings lie that ``words`` name, in their order.

    A folder that is not a recording stands for the recordings in it and in its folders; a pattern with ``*``, ``?`` or
    ``[`` for what fits it (shells of Windows leave that to the program). Anything else stands for itself. All of that
    holds for object storage (``s3://bucket/fleet``), too. Of folders and patterns only what holds one of the files
    ``wanted`` is taken: `RECORDING_FILE`, or `SWEEP_FILE`.
    Raises `IotraceError` for a recording named twice, a pattern that nothing fits, and storage that does not answer.
    """
    found = [path for word in words for path in _named_by(word, wanted)]
    places: dict[Place, Place] = {}
    for path in found:
        if (place := resolved(path) if isinstance(path, Path) else path) in places:
            raise IotraceError(
                f"'{path}' and '{places[place]}' are the same recording, named twice", hint="name it once"
            )
        places[place] = path
    return found


def refuse_missing(paths: Sequence[Place]) -> None:
    """Raises `IotraceError` for a path with nothing at it, or a folder with no recordings in it.

    That is a slip of the pen, or a share that is not mounted here, and no damaged recording.
    """
    for path in paths:
        if isinstance(path, Path) and (not path.exists() or _is_plain_folder(path)):
            Recording.open(path)


def distinct_hosts(named: Sequence[tuple[str, str, str]]) -> list[str]:
    """A name for each recording, given its host's (empty where unknown), its own, and its path.

    A host recorded several times goes by its own name and the recording's, or by the path where both are alike.
    """
    hosts = [host or recording for host, recording, _ in named]
    times = Counter(hosts)
    longer = [
        f"{host} ({recording})" if times[host] > 1 else host
        for host, (_, recording, _) in zip(hosts, named, strict=True)
    ]
    times = Counter(longer)
    return [path if times[name] > 1 else name for name, (_, _, path) in zip(longer, named, strict=True)]


def stands_for_many(word: Path) -> bool:
    """Whether ``word`` is a folder of recordings or a pattern, rather than a recording or a sweep."""
    return _named_by(word, OWN_FILES) != [stored_at(word) or word]


def _named_by(word: Path, wanted: Sequence[str]) -> Sequence[Place]:
    if (stored := stored_at(word)) is not None:
        return stored_recordings(stored, wanted)
    if _is_plain_folder(word):
        for depth in _DEPTHS:
            if inside := _holding(word.glob(depth + SUFFIX), wanted):
                return inside
    if not word.exists() and glob.has_magic(str(word)):
        fitting = _holding((Path(path) for path in glob.glob(str(word))), wanted)  # noqa: PTH207 - of any root
        if not fitting:
            raise IotraceError(
                f"no recording fits '{word}'", hint=f"recordings are folders that end in {SUFFIX}"
            )
        return fitting
    return [word]


def _is_plain_folder(path: Path) -> bool:
    """Whether it is a folder, and neither a recording nor a sweep."""
    return path.is_dir() and path.suffix != SUFFIX and not any((path / name).exists() for name in OWN_FILES)


def _holding(paths: Iterable[Path], wanted: Sequence[str]) -> list[Path]:
    return sorted(path for path in paths if any((path / name).is_file() for name in wanted))


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
    counted_ios_per_s: float | None
    """By counters, where the recording holds no I/Os; None where those tell none either."""
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
        counted_ios_per_s=None if total is not None else counted_ios_per_s(description.drives),
        quality=manifest.quality.verdict,
        quality_words=manifest.quality.words,
        spoilt_by=tuple(entry.title for entry in disqualifying(findings)),
        findings=tuple(findings),
    )


def counted_ios_per_s(drives: Sequence[Mapping[str, Any]]) -> float | None:
    """Reads and writes a second by counters; ``drives`` are rows of query counter_drives.

    Objects count the same I/Os each in its way (physical and logical disks, files): that of the highest sum is taken.
    """
    each: dict[tuple[str, bool], float] = {}
    for one in drives:
        if one["ios_per_s"] is not None:
            key = one["object"], one["instance"] == "_Total"
            each[key] = each.get(key, 0.0) + float(one["ios_per_s"])
    return max(each.values(), default=None)
