"""What an export says about itself: the contents of ``export.json``, and what programs get of it."""

from dataclasses import dataclass, field

from .places import Region
from .workload import Workload


@dataclass(frozen=True, slots=True)
class Exported:
    """The recording that was exported."""

    name: str
    title: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The load that the recording has in the exported part."""

    recording: Exported
    layer: str
    window_ns: tuple[int, int] | None
    seconds: float
    ios: int
    bytes: int
    iops: float
    bytes_per_s: float
    read_share: float
    touched_bytes: dict[str, int]
    """By group of files."""
    widened_ios: int
    """I/Os that were made as long as whole 512 bytes."""
    left_out: dict[str, int]
    """I/Os, by the reason why they are in no export."""


@dataclass(frozen=True, slots=True)
class DiskSpdClass:
    """One target of a DiskSpd profile."""

    group: str
    op: str
    pattern: str
    size_bytes: int
    share_ios: float
    share_bytes: float
    iops: float
    limited_to_iops: float
    bytes_per_ms: int
    outstanding: int
    command: str


@dataclass(frozen=True, slots=True)
class FioSide:
    """Reads or writes of a fio job."""

    iops: float
    bytes_per_s: int
    percent_of_size: dict[str, int]
    """By size in bytes."""
    random_percent: int


@dataclass(frozen=True, slots=True)
class FioJob:
    """One job of a fio job file."""

    job: str
    group: str
    share_ios: float
    iops: float
    bytes_per_s: int
    sides: dict[str, FioSide]
    """By operation."""


@dataclass(frozen=True, slots=True)
class IologFacts:
    """The log of every I/O."""

    ios: int
    needed_bytes: dict[str, int]
    """By path, how long its file has to be."""
    warning: str


@dataclass(kw_only=True, slots=True)
class Facts:
    """Of any tool; ``sha256`` holds the checksum of each file that was written."""

    tool: str
    workload: Measured
    targets: dict[str, Region]
    """Where the load of each group of files goes."""
    seconds: int
    run: str
    covered_ios: float
    """Share of the I/Os that the profile carries."""
    covered_bytes: float
    sha256: dict[str, str] = field(default_factory=dict)
    """Of each file that was written, by its name."""


@dataclass(kw_only=True, slots=True)
class DiskSpdFacts(Facts):
    """Of a folder for DiskSpd."""

    too_slow_classes: int
    """Classes left out because DiskSpd cannot go as slowly."""
    classes: list[DiskSpdClass]


@dataclass(kw_only=True, slots=True)
class FioFacts(Facts):
    """Of a folder for fio."""

    exact_size_ios: float
    """Share of the I/Os that keep their exact size."""
    classes: list[FioJob]
    iolog: IologFacts | None = None


def measured_load(workload: Workload) -> Measured:
    """The facts of a workload."""
    manifest = workload.recording.manifest
    return Measured(
        Exported(workload.recording.name, manifest.title, manifest.uuid),
        workload.layer,
        workload.window_ns,
        workload.seconds,
        workload.ios,
        workload.bytes,
        workload.ios / workload.seconds,
        workload.bytes / workload.seconds,
        workload.read_share,
        dict(workload.touched_bytes),
        workload.widened_ios,
        dict(workload.left_out),
    )
