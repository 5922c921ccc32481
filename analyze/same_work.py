"""Whether two recordings did the same work: a latency compared across different work compares the work."""

from dataclasses import dataclass
from typing import Any, Final

from .units import format_duration_ns

TOLERANCE: Final = 0.05
"""Relative difference from which on it is worth a warning."""


@dataclass(frozen=True, slots=True)
class Work:
    """What was asked for in ``span_ns``: ``mix`` counts I/Os by (operation, size_bytes)."""

    title: str
    layer: str
    span_ns: int
    mix: dict[tuple[str, int], int]

    def io_count(self) -> dict[str, int]:
        """I/Os by operation."""
        counts: dict[str, int] = {}
        for (op, _), count in self.mix.items():
            counts[op] = counts.get(op, 0) + count
        return counts

    def size_bytes(self) -> int:
        """Bytes read and written."""
        return sum(size * count for (op, size), count in self.mix.items() if op in {"read", "write"})

    def ios_per_s(self) -> float:
        """I/Os of any kind per second."""
        return sum(self.mix.values()) * 1e9 / self.span_ns if self.span_ns > 0 else 0.0


def mix_distance(a: Work, b: Work) -> float:
    """Half the L1 distance between the shares of each operation and size (total variation): 0 same, 1 disjoint."""
    a_total, b_total = max(sum(a.mix.values()), 1), max(sum(b.mix.values()), 1)
    return (
        sum(
            abs(a.mix.get(key, 0) / a_total - b.mix.get(key, 0) / b_total)
            for key in a.mix.keys() | b.mix.keys()
        )
        / 2
    )


def check_same_work(a: Work, b: Work, replay: dict[str, Any] | None) -> tuple[float, list[str]]:
    """Distance of the mixes, and warnings in words. ``replay`` is the manifest's entry if b is a replay of a."""
    distance = mix_distance(a, b)
    warnings = []
    if distance > TOLERANCE:
        warnings.append(
            f"the mix of operations and sizes differs: {distance:.0%} of the I/Os have no counterpart"
        )
    if a.layer != b.layer:
        warnings.append(
            f"a is measured at the {a.layer} layer, b at the {b.layer} layer: their clocks differ"
        )
    if replay is None:
        for what, left, right in (
            ("I/Os", sum(a.mix.values()), sum(b.mix.values())),
            ("bytes", a.size_bytes(), b.size_bytes()),
            ("I/Os per second", a.ios_per_s(), b.ios_per_s()),
            ("nanoseconds", a.span_ns, b.span_ns),
        ):
            if not _near(left, right):
                warnings.append(f"a has {left:,.0f} {what}, b {right:,.0f}")
        return distance, warnings
    return distance, warnings + _check_replay(a, b, replay)


def _check_replay(a: Work, b: Work, replay: dict[str, Any]) -> list[str]:
    """A replay does exactly what was asked of it: equal counts, in the time that was planned."""
    warnings = []
    scale = float(replay.get("scale") or 1.0)
    repeat = int(replay.get("repeat") or 1)
    # What a replay says that it planned counts copies, fractions, loops and filters; older ones do not say.
    planned_by_op: dict[str, int] | None = replay.get("planned_by_op")
    left, right = a.io_count(), b.io_count()
    for op in sorted(left.keys() | right.keys()):
        expected = 0 if replay.get("reads_only") and op != "read" else left.get(op, 0) * repeat
        if planned_by_op is not None and not replay.get("skipped_ios"):
            expected = planned_by_op.get(op, 0)
        if right.get(op, 0) != expected:
            reasons = [
                f"{replay[f'{why}_ios']:,} {why}" for why in ("skipped", "failed") if replay.get(f"{why}_ios")
            ]
            because = f" ({', '.join(reasons)})" if reasons else ""
            warnings.append(f"{right.get(op, 0):,} {op}s were replayed, {expected:,} were to be{because}")
    # Not the rate over the window: a replay leaves out the idle time before the first I/O.
    planned, span = replay.get("planned_duration_ns") or 0, replay.get("issued_span_ns") or 0
    # A closed loop takes as long as the storage makes it take.
    if replay.get("mode") != "think" and not _near(planned, span):
        warnings.append(
            f"the replay issued its I/Os in {format_duration_ns(span)}; "
            f"{format_duration_ns(planned)} were planned at {scale:g}x"
        )
    return warnings


def _near(left: float, right: float) -> bool:
    return abs(left - right) <= TOLERANCE * max(abs(left), abs(right))
