"""What an incident analysis answers: the slow windows of a recording, each with its cause and evidence.

Times are nanoseconds since the recording's start, latencies nanoseconds, rates per second. A factor is the geometric
mean of latency over normal latency, with its 95 % interval. None is a figure that cannot be given.
"""

from dataclasses import dataclass, field
from typing import Literal

Cause = Literal["load-driven", "service-driven", "cannot tell"]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class SeenIn:
    """A layer, or one of its streams, that was slow during the window."""

    layer: str
    stream: str | None
    """Such as ``read of D:\\sales.mdf``; None for the layer as a whole."""
    op: str | None
    role: str | None
    path: str | None
    device: str | None
    start_ns: int
    end_ns: int
    factor: float
    factor_interval: Interval


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Mean latency of a layer, normally and in the window, and what of the growth it added itself.

    ``added_here_ns`` is the layer's growth less that of the layer below; ``problem`` says why it must not be believed.
    """

    layer: str
    normal_ns: float
    slow_ns: float
    below: str | None
    added_here_ns: float
    share: float | None
    """``added_here_ns`` as a share of the growth of the uppermost layer."""
    problem: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """A figure of load in the window against normal. ``lead_ns`` says how much earlier than latency it grew.

    ``bursts`` is how many I/Os begin together, itself included, as an I/O sees it: within ten times normal latency.
    """

    quantity: Literal["arrivals", "size", "bytes", "bursts", "in_flight"]
    normal: float
    slow: float
    ratio: float | None
    ratio_interval: Interval | None
    lead_ns: int | None = None


@dataclass(frozen=True, slots=True)
class BlameRow:
    """What a file, process, role, operation, size class or device asked for and took, normally and in the window."""

    dimension: Literal["file", "process", "role", "operation", "size", "device"]
    name: str
    normal_share: float
    """Of the I/Os of the layer."""
    slow_share: float
    normal_ios_per_s: float
    slow_ios_per_s: float
    normal_bytes_per_s: float
    slow_bytes_per_s: float
    normal_latency_ns: float | None
    slow_latency_ns: float | None
    growth_share: float
    """Its part of what grew, by the window's ``blamed_by``: load, or the time that I/Os took longer than their like.

    Of time, 0 where that may be chance.
    """
    usual_share: float
    """Its part of bytes or I/Os outside the windows; of time, the part it would have if all had got slower alike."""


@dataclass(frozen=True, slots=True)
class MarkerBeside:
    """A checkpoint, backup, autogrow or note that was under way, or shortly before.

    Of several the first one is that which began nearest the window's beginning.
    """

    kind: str
    text: str | None
    start_ns: int
    duration_ns: int | None


@dataclass(frozen=True, slots=True)
class WaitBeside:
    """Waits of one type that ended in the window, against the rest of the recording."""

    wait_type: str
    slow_count: int
    normal_per_s: float
    slow_per_s: float
    """Seconds waited per second."""
    ratio: float | None


@dataclass(frozen=True, slots=True)
class CounterBeside:
    """A counter whose mean in the window differs from its median elsewhere."""

    object: str
    instance: str | None
    counter: str
    unit: str | None
    layer: str | None
    normal: float
    slow: float


@dataclass(frozen=True, slots=True)
class Gradual:
    """How a slow change went."""

    from_ns: float
    """Latency that it left (geometric mean)."""
    to_ns: float
    """Latency at its height."""
    risen_ns: int | None
    """When it had reached its height; None where the recording begins in it."""
    falling_ns: int | None
    """When it began to go back; None where the recording ends in it."""


@dataclass(frozen=True, slots=True)
class SlowWindow:
    """One slow window, or a slow change that built up without a jump."""

    number: int
    """As ``--cut`` takes it: 1 is the one that cost most."""
    start_ns: int
    end_ns: int
    layer: str
    """Where the time was spent: the layer that added most of it."""
    cause: Cause
    headline: str
    factor: float
    factor_interval: Interval
    normal_ns: float
    """Normal latency of the strongest series at that time (geometric mean)."""
    normal_range_ns: Interval
    """The middle 90 % of its normal slots, brought to that time."""
    slow_ns: float
    lost_ns: float
    """I/Os of the window times what each took longer: time in flight that the window cost."""
    evidence: list[str]
    load: list[Change]
    layers: list[LayerTime]
    seen_in: list[SeenIn]
    """Layers and streams whose level shows it, the clearest first; of many, twenty."""
    blame: list[BlameRow]
    markers: list[MarkerBeside]
    waits: list[WaitBeside]
    counters: list[CounterBeside]
    blamed_by: Literal["load", "time"] = "time"
    """What ``growth_share`` of ``blame`` is a part of: load, where more or larger I/Os came, else time in flight."""
    is_most_of_recording: bool = False
    """It lasted for more than half the recording: which level is the normal one, the recording cannot tell."""
    caveats: list[str] = field(default_factory=list)
    """What to know before believing the window."""
    gradual: Gradual | None = None
    """How it built up, where it is a slow change. ``factor`` is then that of its height."""
    is_mean: bool = False
    """Few I/Os were very slow: ``factor``, ``normal_ns`` and ``slow_ns`` are of means, not of geometric means."""
    blamed_at: str | None = None
    """The layer whose I/Os ``blame`` is of: that of the load, or one above it where the time went; None of means."""
    unseen: list[str] = field(default_factory=list)
    """Layers below ``layer`` that were not recorded meanwhile: the time may have gone there."""


@dataclass(frozen=True, slots=True)
class Periodic:
    """Slow windows that come again and again at one distance in time: one answer for all of them."""

    period_ns: int
    length_ns: int
    """Of one of them, at the median."""
    factor: float
    """How many times slower than normal it is, at the median."""
    layer: str
    cause: Cause
    headline: str
    lost_ns: float
    """Time in flight that all of them cost."""
    starts_ns: list[int]
    blame: list[BlameRow]
    blamed_by: Literal["load", "time"]
    markers: list[str]
    """Kinds of markers under way in at least half of them."""
    blamed_at: str | None = None
    """As that of a window."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One layer slot by slot; lists of one length, None where a slot has no I/O."""

    layer: str
    at_ns: list[int]
    latency_ns: list[float | None]
    """Geometric mean, corrected for the mix of streams."""
    normal_ns: list[float | None]
    normal_range: Interval
    """The middle 90 % of normal slots, as factors of ``normal_ns``."""
    ios_per_s: list[float]
    bytes_per_s: list[float]
    in_flight: list[float]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The smallest factor that would have been found in a layer, by how long it lasts, nine times in ten.

    ``sudden`` begins within a slot or two. ``any`` shape: the factor is the mean over the length, however it builds up.
    """

    layer: str
    length_ns: int
    factor: float
    shape: Literal["sudden", "any"] = "sudden"


@dataclass(slots=True)
class Incidents:
    """The slow windows of one recording, what was normal, and what would have been seen."""

    title: str
    uuid: str
    kind: str
    quality_verdict: str
    quality_reasons: list[str]
    start_ns: int
    end_ns: int
    slot_ns: int
    basis: Literal["I/Os", "means"]
    """Whether single I/Os were there, or only means of counters."""
    load_layer: str | None
    windows: list[SlowWindow] = field(default_factory=list)
    drifts: list[SlowWindow] = field(default_factory=list)
    """Slow changes without a jump; their numbers go on where those of the windows end."""
    periodic: list[Periodic] = field(default_factory=list)
    timelines: list[Timeline] = field(default_factory=list)
    sensitivity: list[Sensitivity] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the reader must know; for means, what cannot be known from them."""

    @property
    def is_slow(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.windows or self.drifts or self.periodic)
