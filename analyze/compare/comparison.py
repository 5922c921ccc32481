"""What `compare` finds out: plain figures, raw, each unit the last word of its name; a is the first recording."""

from dataclasses import dataclass
from typing import Literal

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity of a class in both recordings: ``quantity`` is mean, p50, p95 or p99.

    Differences are b - a, ratios b / a. Intervals are 95 %; None where a recording is too short for one, and everything
    else None where too few I/Os lie beyond the quantile.
    """

    quantity: str
    a_ns: float | None
    b_ns: float | None
    difference_ns: float | None
    difference_interval_ns: Interval | None
    ratio: float | None
    ratio_interval: Interval | None


@dataclass(frozen=True, slots=True)
class RareIos:
    """Very slow I/Os that quantiles need not show, and of which one of the two clearly has more.

    ``direction`` is that of b: slower where b has more of them. The longest are within 0.05 %. An I/O without an end
    counts for as long as it had waited when the recording ended.
    """

    at_least_ns: int
    a_io_count: int
    b_io_count: int
    a_longest_ns: int
    b_longest_ns: int
    direction: Literal["faster", "slower"]
    a_unfinished_count: int = 0
    """Of ``a_io_count``, those without an end: they are in no mean and no quantile."""
    b_unfinished_count: int = 0
    may_have_ended: bool = False
    """Whether ends may have been lost, and the answer depends on these I/Os: then it cannot be told."""


@dataclass(frozen=True, slots=True)
class ClassComparison:
    """Like with like: I/Os of one role, operation and size class. None as role and size class: all of that operation.

    ``a_metric`` and ``b_metric`` say which latency is meant: service or response.
    """

    op: str
    role: str | None
    size_class_bytes: int | None
    """Largest size in the class; 0 over 1 MiB."""
    size_class: str
    a_metric: str
    b_metric: str
    a_io_count: int
    b_io_count: int
    figures: list[Figure]
    rare: RareIos | None = None
    """Of a whole operation; None where neither of the two clearly has more."""


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """Mean latency of one layer and what of it the layer below does not explain. Intervals are 95 %."""

    layer: str
    op: str
    io_count: int
    mean_ns: float
    below: str | None
    residual_ns: float | None
    """Mean less the mean of the layer ``below``: time spent between the two clocks."""
    problem: str | None
    """Why the residual is not to be believed."""
    mean_interval_ns: Interval | None = None
    residual_interval_ns: Interval | None = None
    share: float | None = None
    """The residual, of the lowest layer its mean, as a share of the topmost layer's mean; negative as a residual."""
    share_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class WorkAspect:
    """One thing that two recordings should have alike for their latencies to be comparable.

    ``expected`` is what b had to show to have done a's work: a's own figure, or what a replay was asked for.
    """

    name: str
    unit: str
    a: float | None
    expected: float | None
    b: float | None
    differs: bool
    meaning: str = ""
    """What the difference means for the latencies; empty where there is none."""
    favours: Literal["a", "b"] | None = None
    """Whose latencies the difference makes look better."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said of one operation, by the headline metric, at the highest quantile that both can show."""

    op: str
    quantity: str
    direction: Literal["faster", "slower", "no difference", "unknown"]
    """Of b against a; unknown where there is no interval, or a replay's own lateness may be all of the difference."""
    ratio: float
    ratio_interval: Interval | None
    reservation: str
    """What in the work makes the direction doubtful; empty if nothing does."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Paired:
    """I/Os of one operation at one layer, each held against the same I/O of the recording that was replayed.

    ``ratio`` is the geometric mean of b's latency over a's: by what factor a typical I/O became slower. Intervals are
    95 %; None where there are too few stretches of time.
    """

    layer: str
    op: str
    by: str
    """What counterparts have in common."""
    pair_count: int
    recorded_count: int
    """I/Os of a that might have had a counterpart."""
    ratio: float
    ratio_interval: Interval | None
    difference_ns: float
    """Mean of b's latency less a's."""
    difference_interval_ns: Interval | None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the recordings, over the span that is compared. ``label`` is A for the base, then B, C, …"""

    label: str
    title: str
    uuid: str
    kind: str
    layer: str
    quality_verdict: str
    span_ns: int
    io_count: dict[str, int]
    """By operation."""
    size_bytes: int
    ios_per_s: float
    """Reads and writes."""
    footprint_bytes: int
    """Touched by reads and writes, in blocks of 4 KiB."""
    sequential_share: dict[str, float | None]
    """By operation: I/Os that begin where one of the last 16 of the same device, file and operation ended."""
    interarrival_cv: float | None
    """Standard deviation over mean of the gaps between arrivals: 1 is random, above is bursty."""
    waterfall: list[WaterfallStep]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything `compare` says of two recordings. `present.plain` gives the same, ready for JSON."""

    a: Side
    b: Side
    is_replay_of_a: bool
    scale: float | None
    """Load of b relative to a, as the replay meant it; None if b is no replay of a."""
    headline_metric: str
    headline_reason: str
    basis: list[str]
    """Which clock of a is held against which of b, and how far they are like with like; in words."""
    verdicts: list[Verdict]
    work: list[WorkAspect]
    mix_distance: float
    """Half the sum of differences between the shares of each operation and size, or role of files where that is more: 0
    the same mix, 1 nothing shared."""
    same_work: bool
    warnings: list[str]
    classes: list[ClassComparison]
    """Headline metric first; of each metric, whole operations first."""
    paired: list[Paired]
    """Where a recorder watched b's target: the lowest layer first. Empty where none did."""
    unpaired: list[str]
    """Where one did, what could not be paired and why, in words."""
    unmatched: list[str]
    """Classes that only one of the two has, in words."""

    def headline(self, op: str) -> ClassComparison | None:
        """The comparison of all I/Os of an operation by the headline metric."""
        return next(
            (
                entry
                for entry in self.classes
                if entry.op == op and entry.role is None and entry.b_metric == self.headline_metric
            ),
            None,
        )
