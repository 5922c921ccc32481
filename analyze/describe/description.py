"""What `describe` finds out: plain figures, raw (nanoseconds, bytes, counts), each unit the last word of its name."""

from dataclasses import dataclass, field
from typing import Any, Final

from iotrace.analyze.stats.histogram import IOS_BEYOND_MIN, Histogram, quantiles_ns

WITHHELD: Final = f"– where fewer than {IOS_BEYOND_MIN} I/Os lie beyond a quantile: it would be noise"  # noqa: RUF001
"""Why a quantile is missing, in words for the foot of a table."""

GRADES: Final = (
    (1_000_000, "excellent"),
    (5_000_000, "very good"),
    (10_000_000, "good"),
    (20_000_000, "poor"),
    (100_000_000, "bad"),
    (500_000_000, "shockingly bad"),
)
"""Upper bound of a mean latency in nanoseconds and the word for it, as SQL Server people have it; above: wow."""


def grade(mean_ns: float) -> str:
    """The word for a mean latency."""
    return next((word for bound_ns, word in GRADES if mean_ns < bound_ns), "wow")


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies of ``io_count`` I/Os that succeeded. ``quantiles_ns`` has p50 … p99_99, None where not printable."""

    io_count: int
    mean_ns: float | None
    max_ns: int | None
    quantiles_ns: dict[str, int | None]
    grade: str | None

    @classmethod
    def of(cls, histogram: Histogram, metric: str = "service") -> "Latency":
        """Figures of a histogram; the mean and the maximum are exact, the quantiles within 0.05 %.

        Lateness gets no grade: it is a fault of the replay, not of the storage.
        """
        total = histogram.total
        if not total:
            return cls(0, None, None, quantiles_ns([], []), None)
        mean_ns = histogram.latency_sum_ns / total
        quantiles = quantiles_ns(histogram.bucket_ns, histogram.io_count)
        return cls(
            total,
            mean_ns,
            histogram.latency_max_ns,
            quantiles,
            None if metric == "lateness" else grade(mean_ns),
        )


@dataclass(frozen=True, slots=True)
class Flow:
    """Reads, or writes, of one device and role; ``latency`` by metric: service, of a replay also response, lateness."""

    io_count: int
    size_bytes: int
    failed_count: int
    ios_per_s: float
    bytes_per_s: float
    bytes_per_transfer: float | None
    sequential_share: float | None
    """I/Os that begin where one of the last 16 of the same device, file and operation ended, of those of known place.
    Several sequential streams that take turns count; so does a log that writes its last page again."""
    latency: dict[str, Latency]


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the table every DBA knows. A None device or role, with ``is_total``, means all of them together."""

    device_id: int | None
    device: str | None
    mount: str | None
    role: str | None
    is_total: bool
    read: Flow
    write: Flow
    flush_count: int
    discard_count: int
    ios_per_s: float
    bytes_per_s: float
    bytes_per_transfer: float | None
    queue_length_mean: float
    """Latencies added up over the window's length, as Avg. Disk Queue Length is."""
    read_share_of_ios: float | None
    read_share_of_bytes: float | None
    interarrival_cv: float | None
    """Standard deviation over mean of the gaps between arrivals: 1 is random, above is bursty."""
    peak_to_mean: dict[str, float | None]
    """Arrivals in the fullest 10 ms, 100 ms and 1 s, wherever they begin, over the mean from the first arrival to the
    last; None where that is shorter than ten of them."""
    working_set_bytes: int
    """Bytes touched at least once, in whole 4 KiB."""
    read_working_set_bytes: int
    written_working_set_bytes: int


@dataclass(frozen=True, slots=True)
class SizeCount:
    """How many I/Os of one device, role and operation had one size."""

    device_id: int | None
    role: str
    op: str
    size_bytes: int
    io_count: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """I/Os in flight, swept over all starts and ends in the window, and what Little's law says of the same I/Os.

    ``littles_law`` is arrival rate x mean latency (Little 1961). ``difference_share`` is (it - mean) / mean: what I/Os
    cut by the window's ends or never seen to end amount to; far from 0 the clock or the pairing is wrong.
    """

    device_id: int | None
    device: str | None
    is_total: bool
    mean: float
    peak: int
    arrivals_per_s: float
    latency_mean_ns: float | None
    littles_law: float | None
    difference_share: float | None


@dataclass(frozen=True, slots=True)
class LayerLatency:
    """Latency of one layer and operation, all devices; metric service, and of a replay response and lateness too."""

    layer: str
    op: str
    metric: str
    latency: Latency


@dataclass(frozen=True, slots=True)
class OpCount:
    """What was asked for of one operation at the workload layer."""

    op: str
    io_count: int
    failed_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LayerCount:
    """What one layer saw."""

    layer: str
    io_count: int
    failed_count: int
    unfinished_count: int


@dataclass(frozen=True, slots=True)
class TouchedSlice:
    """What one slice of time touched, in whole 4 KiB; new is what had not been touched before in the recording."""

    from_ns: int
    until_ns: int
    io_count: int
    touched_bytes: int
    new_bytes: int
    hottest_share: float | None
    """Share of its I/Os that began in the busiest hundredth of the blocks in which any began; None below 100 blocks."""


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A stretch of a device, or of a file above the block layer, in which many I/Os began."""

    device_id: int | None
    device: str | None
    file_id: int | None
    path: str | None
    offset_bytes: int
    size_bytes: int
    io_count: int
    share: float
    """Of all reads and writes of known place."""
    io_count_by_slice: list[int]
    """In the slices of ``touched_slices``."""


@dataclass(frozen=True, slots=True)
class Description:
    """Everything `describe` says of a recording. `present.plain` gives the same, ready for JSON."""

    title: str
    uuid: str
    kind: str
    start_utc_ns: int
    """When the window begins; before 1971 where the sources name no date."""
    quality_verdict: str
    quality_reasons: list[str]
    window_start_ns: int
    window_ns: int
    workload_layer: str | None
    """Every figure of load is taken at this one layer, so that no I/O counts twice; None if there are no I/Os."""
    headline_metric: str
    """service, or response for a replay: only that cannot hide queueing."""
    block_bytes: int
    """Granularity of hot spots."""
    layers: list[LayerCount] = field(default_factory=list)
    operations: list[OpCount] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    """Everything together first, then each device, then each device and role."""
    sizes: list[SizeCount] = field(default_factory=list)
    in_flight: list[InFlight] = field(default_factory=list)
    layer_latencies: list[LayerLatency] = field(default_factory=list)
    busiest: list[dict[str, Any]] = field(default_factory=list)
    """Of all windows of 1 s and of 60 s, wherever they begin, the one with the most reads and writes and that with the
    most bytes (``ranked_by``): ``from_ns``, ``window_ns``, and the columns of query window_load."""
    top_files: list[dict[str, Any]] = field(default_factory=list)
    """Rows of query top_files."""
    top_processes: list[dict[str, Any]] = field(default_factory=list)
    """Rows of query top_processes."""
    top_databases: list[dict[str, Any]] = field(default_factory=list)
    """Rows of query top_databases."""
    touched_slices: list[TouchedSlice] = field(default_factory=list)
    """The working set over time, in at most 30 slices of the window."""
    hot_spots: list[HotSpot] = field(default_factory=list)
    """Where most I/Os began, the busiest first."""
    busiest_hundredth_share: float | None = None
    """Share of the I/Os that began in the busiest hundredth of the blocks in which any did; None below 100 blocks."""
    drives: list[dict[str, Any]] = field(default_factory=list)
    """Rows of query counter_drives: what the counters, if any were recorded, show for each drive or file."""
    counters: list[dict[str, Any]] = field(default_factory=list)
    """Rows of query counter_summary."""
    waits: list[dict[str, Any]] = field(default_factory=list)
    """Rows of query wait_types: what SQL Server waited for, if that was recorded."""
    markers: list[dict[str, Any]] = field(default_factory=list)
    """Rows of query marker_kinds: checkpoints, backups and other events, if any were recorded."""
    results: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the table results, of another tool's test; see `results`."""
    shared_time: list[str] = field(default_factory=list)
    """What its sources share of their time where that is none or little, and for how much of it the layer of the load
    was recorded where that is not all: to be said before all else."""
    notes: list[str] = field(default_factory=list)
    """What to know before believing the figures."""

    @property
    def total(self) -> Workload | None:
        """The row for everything together."""
        return self.workloads[0] if self.workloads else None
