"""What `compare` finds out: plain figures, raw, each unit the last word of its name; a is the first recording."""

from dataclasses import asdict, dataclass
from typing import Any

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
class ClassComparison:
    """Like with like: I/Os of one role, operation and size class. None as role and size class: all of that operation.

    ``a_metric`` and ``b_metric`` say which latency is meant: service or response.
    """

    op: str
    role: str | None
    size_class_bytes: int | None
    size_class: str
    a_metric: str
    b_metric: str
    a_io_count: int
    b_io_count: int
    figures: list[Figure]


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """Mean latency of one layer and what of it the layer below does not explain."""

    layer: str
    op: str
    io_count: int
    mean_ns: float
    below: str | None
    residual_ns: float | None
    """Mean less the mean of the layer ``below``: time spent between the two clocks."""
    problem: str | None
    """Why the residual is not to be believed."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two recordings, over the span that is compared."""

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
    waterfall: list[WaterfallStep]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything `compare` says of two recordings. `to_dict` gives the same, ready for JSON."""

    a: Side
    b: Side
    is_replay_of_a: bool
    scale: float | None
    """Load of b relative to a, as the replay meant it; None if b is no replay of a."""
    headline_metric: str
    headline_reason: str
    mix_distance: float
    """Half the sum of differences between the shares of each operation and size: 0 the same mix, 1 nothing shared."""
    same_work: bool
    warnings: list[str]
    classes: list[ClassComparison]
    """Headline metric first; of each metric, whole operations first."""
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

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries and lists under the names of the fields; nothing in it is rounded."""
        return asdict(self)
