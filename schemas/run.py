"""What a replay, or a run of characterize, says of itself in ``manifest.replay``: its settings and its outcome."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .contract import load
from .sections import key, list_of, not_negative, positive, share, text, whole


@dataclass(slots=True)
class TargetFacts:
    """What was played on. ``device`` is the block device that a file lies on; None is unknown."""

    name: str
    kind: str | None = None
    bytes: int | None = None
    direct: bool | None = None
    """Whether I/O bypassed the host's page cache."""
    logical_block_bytes: int | None = None
    filesystem: str | None = None
    filled: bool | None = None
    fill: str | None = None
    device: str | None = None
    model: str | None = None
    write_cache: bool | None = None
    rotational: bool | None = None
    touched_bytes: int | None = None
    addresses: str | None = None
    """How recorded places were laid out on it: ``identity``, ``compact`` or ``fold``."""


@dataclass(slots=True)
class DeviceCounters:
    """A block device's own counters since it appeared."""

    reads: int = 0
    read_bytes: int = 0
    read_ns: int = 0
    writes: int = 0
    written_bytes: int = 0
    write_ns: int = 0
    in_flight: int = 0
    busy_ns: int = 0


@dataclass(slots=True)
class DeviceLook:
    """A device's counters before and after a run; None where the system keeps none."""

    before: DeviceCounters | None = None
    after: DeviceCounters | None = None


@dataclass(slots=True)
class Quantiles:
    """Median and 99th percentile."""

    p50: int | None = None
    p99: int | None = None


@dataclass(slots=True, kw_only=True)
class Run:
    """What every run says: on what, how, and what came of it. None is unknown, as of an older iotrace."""

    targets: list[TargetFacts] = field(default_factory=list)
    direct: bool | None = None
    seed: int | None = None
    backend: str | None = None
    backend_reason: str | None = None
    max_in_flight: int | None = None
    preferred: bool | None = None
    """Whether its threads ran with a real-time priority."""
    submitters: int | None = None
    memory_registered: bool | None = None
    planned_ios: int = 0
    issued_ios: int = 0
    completed_ios: int = 0
    failed_ios: int = 0
    adjusted_ios: int = 0
    """I/Os that were moved or resized to fit."""
    skipped_ios: int = 0
    delayed_ios: int = 0
    """I/Os that the cap on I/Os in flight or a full disk queue held back."""
    starved: int = 0
    waits_for_room: int = 0
    """How often the disk's queue was full."""
    errors: dict[str, int] = field(default_factory=dict)
    """Failed I/Os by the system's word for the error."""
    duration_ns: int = 0
    generator_limited: bool | None = None
    """Whether the replay itself was too slow to offer the load."""
    ended: str | None = None
    interrupted: bool = False
    device_counters: dict[str, DeviceLook] = field(default_factory=dict)
    cpu_seconds: float | None = None

    @property
    def stopped_early(self) -> bool:
        """Whether it lacks what came after, whoever or whatever ended it."""
        return self.interrupted or self.issued_ios < self.planned_ios


@dataclass(frozen=True, slots=True)
class Cell:
    """One load of characterize: ``outstanding`` I/Os of ``size_bytes`` kept in flight."""

    pattern: str
    read_share: float
    size_bytes: int
    outstanding: int
    durable: bool = False
    """Whether a write completes only when the medium has it (write-through), as SQL Server's all do."""


@dataclass(slots=True, kw_only=True)
class ClosedLoop(Run):
    """A run of characterize: an I/O is issued when one ends, so the load is a number in flight."""

    loop: Literal["closed"]
    cell: Cell | None = None
    seconds: float | None = None
    warm_up_seconds: float | None = None
    cpu_ns_per_io: float | None = None


@dataclass(slots=True)
class Filters:
    """Of what a recording holds, what was played: all of it where a list is empty."""

    roles: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MappedSpace:
    """Where a recorded device or file went: to which target, laid out how."""

    device_id: int
    name: str
    target: str
    base_bytes: int | None = None
    touched_bytes: int | None = None
    extents: int | None = None
    mode: str | None = None


PEAK_WIDTHS: Final = {"10ms": 10_000_000, "100ms": 100_000_000, "1s": 1_000_000_000}
"""Names and nanoseconds of the lengths of time whose fullest stretch is looked for (schemas/load/src/arrivals.rs)."""


@dataclass(slots=True)
class LoadShape:
    """Reads and writes of a load: how many, how fast, how bursty, over how much of the storage."""

    ios: int
    span_ns: int
    rate_per_s: float | None = None
    rate_bytes_per_s: float | None = None
    cv_interarrival: float | None = None
    """Coefficient of variation of the gaps between them; 1 is a Poisson stream's."""
    peak_to_mean: dict[str, float | None] = field(default_factory=dict)
    """The fullest stretch of each of `PEAK_WIDTHS` over the mean one."""
    sequential_share: float | None = None
    footprint_bytes: int | None = None


@dataclass(slots=True)
class Scaling:
    """The load as it was recorded and as it was played."""

    before: LoadShape
    after: LoadShape


@dataclass(slots=True)
class Thinning:
    """What a fraction of a workload was made of: whole streams. ``error`` is relative to the share asked for."""

    error: float | None = None
    asked_share: float | None = None
    achieved_share: float | None = None
    achieved_share_of_bytes: float | None = None
    streams: int = 0
    streams_kept: int = 0
    streams_are: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Dependencies:
    """In mode think: I/Os that waited for another, and I/Os that kept to the clock."""

    waiting_ios: int
    clocked_ios: int
    think_ns_mean: float | None = None


@dataclass(slots=True)
class Pacing:
    """How a replay waited between I/Os, what that took from the host, and what of the service is its own doing.

    ``trial`` is what `_engine.try_waiting` found, where it was asked. ``spun_share``: time that a submitter spun, as a
    share of the run. ``own_service_ns_mean``: mean service less the mean time that the devices' own counters say.
    """

    asked: str
    used: Literal["precise", "gentle"]
    reason: str
    trial: dict[str, int] | None = None
    spun_share: float | None = None
    own_service_ns_mean: float | None = None
    others_waited_share: float | None = None
    """Share of the time that some thread of the host waited for a processor."""
    stolen_share: float | None = None
    """Share of the time that the hypervisor took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTest:
    """What a model was held against, and how far off it was: ``[tested]`` of a model file."""

    on: str = key(text)
    """What was measured."""
    date: str = key(text)
    runs: int = key(whole)
    """Runs that were not used to make the model."""
    response_p50_error: float = key(not_negative)
    """Largest relative error over these runs."""
    response_p99_error: float = key(not_negative)
    response_p50_ratio: tuple[float, ...] = key(list_of(positive), ())
    """Measured over predicted lies between these two for 90 % of runs like those."""
    response_p99_ratio: tuple[float, ...] = key(list_of(positive), ())
    read_shares: tuple[float, ...] = key(list_of(share), ())
    """Least and largest share of reads among the I/Os of these runs."""
    beyond: str = key(text, "")
    """Where it was never tested."""


@dataclass(slots=True)
class PredictedNs:
    """What a model says of a quantile, and between what the measured one lies in 90 % of cases."""

    value: int
    low: int
    high: int


@dataclass(slots=True)
class Prediction:
    """Response to a load before it is played. A quantile is None where ``refused`` says why it is not known."""

    response_ns_p50: PredictedNs | None = None
    response_ns_p99: PredictedNs | None = None
    refused: str = ""
    runs: int = 0
    """Runs that were learnt from."""


@dataclass(slots=True)
class ModelLimit:
    """What one limit of a model did in a run: for how long it made I/Os wait, and what was left of its credits."""

    name: str
    counted: str
    rate: float
    waited_ios: int
    wait_ns_sum: float
    throttled_seconds: float
    credits: float | None = None
    credits_least: float | None = None
    credits_end: float | None = None
    overspent: bool = False
    """Whether more was asked of it than comes back, so that saved credits carried the rest and will not for ever."""


@dataclass(slots=True)
class ModelFacts:
    """The model that answered in place of storage, and what it did. ``seconds``: how long the simulation took."""

    title: str
    source: str | None = None
    date: str | None = None
    tested: ModelTest | None = None
    predicted: Prediction | None = None
    """Of a model with tests: response with its intervals."""
    limits: list[ModelLimit] = field(default_factory=list)
    seconds: float | None = None


@dataclass(slots=True)
class Shard:
    """What one of several load generators played at the same time.

    ``start_skew_ns`` and what follows are None where it did not start, or its clock could not be compared.
    """

    host: str
    """The generator's name."""
    device_ids: list[int] = field(default_factory=list)
    """Devices of the recording that it played on: which I/Os are its own."""
    source_uuid: str | None = None
    planned_ios: int = 0
    issued_ios: int = 0
    completed_ios: int = 0
    ended: str | None = None
    """As of a run; ``lost`` where it died or fell silent, and what it measured is not here."""
    said: str = ""
    """How it ended, in words, where that was not as planned."""
    start_skew_ns: int | None = None
    """How long after the agreed instant its run began; negative if before."""
    start_skew_error_ns: int | None = None
    """The skew is known within this, if the network takes as long there as back at its best."""
    start_skew_bound_ns: int | None = None
    """The skew is known within this, whatever the network does."""
    round_trip_ns: int | None = None
    """The shortest exchange of clocks."""
    clock_offset_ns: int | None = None
    """Its monotonic clock less the conductor's, at the start."""
    start_ns: int | None = None
    """Its monotonic clock at its start."""
    lateness_ns_p50: int | None = None
    lateness_ns_p99: int | None = None
    lateness_ns_max: int | None = None
    generator_limited: bool | None = None
    cpu_seconds: float | None = None


@dataclass(slots=True, kw_only=True)
class Replay(Run):
    """A replay of a recording: I/Os are issued when they are due."""

    loop: Literal["open"] = "open"
    source_uuid: str | None = None
    source_title: str | None = None
    scale: float | None = None
    mode: str | None = None
    window_ns: list[int] | None = None
    """From when until when of the recording, where a part was chosen."""
    layer: str | None = None
    reads_only: bool | None = None
    filters: Filters | None = None
    addresses: str | None = None
    mapping: list[MappedSpace] = field(default_factory=list)
    scaling: Scaling | None = None
    copies: int = 1
    footprint: str | None = None
    thinning: Thinning | None = None
    dependencies: Dependencies | None = None
    planned_by_op: dict[str, int] = field(default_factory=dict)
    log_ios: int = 0
    repeat: int = 1
    loop_seconds: float | None = None
    ramp_seconds: float = 0.0
    planned_duration_ns: int = 0
    issued_span_ns: int = 0
    lateness_ns_p50: int | None = None
    lateness_ns_p99: int | None = None
    lateness_ns_max: int | None = None
    response_ns_p50: int | None = None
    service_ns_p50: int | None = None
    generator_lateness_ns: Quantiles = field(default_factory=Quantiles)
    """Of the I/Os that neither the cap nor a full disk queue held back, as `generator_response_ns`."""
    generator_response_ns: Quantiles = field(default_factory=Quantiles)
    skipped: dict[str, int] = field(default_factory=dict)
    """I/Os of the recording that were not played, by reason."""
    max_errors: int | None = None
    pacing: Pacing | None = None
    model: ModelFacts | None = None
    """Where the target was a model."""
    start_ns: int | None = None
    """The machine's monotonic clock at the start, where several generators started together."""
    shards: list[Shard] = field(default_factory=list)
    """Where several load generators played it together: each one's part."""


@dataclass(slots=True)
class Watched:
    """The replay beside which a recording was made."""

    replay_uuid: str
    load_ns: list[int]
    """From when until when its load lasted on this recording's clock; outside is its own look at the target."""
    replay: Replay


def run_of(facts: dict[str, Any]) -> Replay | ClosedLoop:
    """A run from its JSON. Raises `contract.ContractError`."""
    return load(ClosedLoop, facts) if facts.get("loop") == "closed" else load(Replay, facts)
