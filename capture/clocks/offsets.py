"""How far one clock is from another, from I/Os that both saw.

An I/O is known by what it asked for: operation, offset, size, and file where both sources name it. Every pair of
equal I/Os votes for one difference of the clocks; true pairs agree and chance ones scatter, so the densest stretch of
votes is the offset. Where two stretches are of like size nothing tells which is right (a pattern that repeats, a clock
that was set), and the offset is refused.

The uncertainty is derived from the matched I/Os alone. Two sources of one layer stamp the same moments: it spans 95 %
of their differences and the steps of both clocks. A layer above another starts before it and ends after it, so each
I/O bounds the offset from both sides whatever the delays between the layers are; the bounds are intersected as in
K. Marzullo, *Maintaining the Time in a Distributed System* (1984), for stretches of the trace, and the uncertainty
spans them all. Drift is the Theil-Sen slope over such stretches (Sen 1968), with its 95 % interval.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

NO_TIME: Final = np.iinfo(np.int64).min
MATCHES_MIN: Final = 20
_REPEATS_MAX: Final = 8
_PAIRS_MAX: Final = 4_000_000
_WINDOW_NS: Final = 20e6
_DRIFT_MAX: Final = 2e-4
"""What two clocks run apart while they are disciplined; it widens the search, and limits nothing that is measured."""
_RUNAWAY: Final = 1e-3
_SOME_PAIRS: Final = 400
_RIVAL_SHARE: Final = 1 / 3
_STEP_SHARE: Final = 0.02
_BLOCK_PAIRS: Final = 50
_BLOCKS_MAX: Final = 40
_BLOCKS_FOR_DRIFT: Final = 8
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class IoSample:
    """I/Os of one layer that one clock stamped. Times are ns of UTC as that clock tells it, `NO_TIME` where unknown."""

    key: npt.NDArray[np.uint64]
    issued_ns: Integers
    completed_ns: Integers


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """What to add to the other clock's times to bring them onto the reference: ``offset_ns`` at its time ``at_ns``.

    ``uncertainty_ns`` is half the width of the 95 % interval anywhere between the first and the last matched I/O.
    ``drift`` is the reference's seconds per second of the other, less 1; None where too few I/Os tell.
    """

    offset_ns: int
    uncertainty_ns: int
    at_ns: int
    matched: int
    span_ns: int
    drift: float | None = None
    drift_uncertainty: float | None = None
    rival_offset_ns: int | None = None
    """Another offset that a small share of the I/Os agrees on: one of the clocks was set meanwhile."""

    @property
    def told_drift(self) -> float:
        """The drift where it is told from none, else 0: what is to be taken off."""
        if self.drift is None or self.drift_uncertainty is None or abs(self.drift) <= self.drift_uncertainty:
            return 0.0
        return self.drift


@dataclass(frozen=True, slots=True)
class NoOffset:
    """Why no offset can be told. ``matched`` I/Os agreed all the same."""

    reason: str
    matched: int = 0


def measure(reference: IoSample, other: IoSample, *, height: int = 0) -> ClockOffset | NoOffset:
    """The offset of ``other``'s clock; ``height`` > 0: the reference's layer is above the other's, < 0: below."""
    if height < 0:
        return _reversed(measure(other, reference, height=-height))
    pairs = _pairs(reference, other)
    if len(pairs.start) < MATCHES_MIN:
        return NoOffset("they have too few I/Os in common", len(pairs.start))
    if height > 0 and not pairs.has_ends.any():
        return NoOffset("one of them does not record when its I/Os ended", len(pairs.start))
    found = _densest(pairs)
    if isinstance(found, NoOffset):
        return found
    chosen, rival_ns = found
    pairs = _one_to_one(pairs.take(chosen))
    if height > 0:
        pairs = pairs.take(np.flatnonzero(pairs.has_ends))
    if len(pairs.start) < MATCHES_MIN:
        return NoOffset("too few of their common I/Os agree on an offset", len(pairs.start))
    if _runs_apart(pairs):
        return NoOffset("the clocks run at different speeds over their common I/Os", len(pairs.start))
    steps = _Steps.of(reference, other)
    votes = _Bounds(pairs, steps) if height > 0 else _Points(pairs, steps)
    return _fitted(pairs, votes, rival_ns)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Equal I/Os: their rows, when (by the other's clock), and by how much their starts and ends differ."""

    a: Integers
    b: Integers
    at: Integers
    start: Integers
    end: Integers
    has_ends: npt.NDArray[np.bool_]
    weight: Numbers

    def take(self, rows: npt.NDArray[np.intp]) -> "_Pairs":
        return _Pairs(
            self.a[rows], self.b[rows], self.at[rows], self.start[rows], self.end[rows], self.has_ends[rows],
            self.weight[rows],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Steps:
    """How coarse both sources' stamps are. Starts may also be off by the steps of durations they are derived from."""

    stamps: float
    starts: float

    @classmethod
    def of(cls, reference: IoSample, other: IoSample) -> "_Steps":
        stamps = starts = 0.0
        for sample in (reference, other):
            ended = sample.completed_ns[sample.completed_ns != NO_TIME]
            step = _step(ended) if len(ended) else _step(sample.issued_ns)
            ends = sample.completed_ns != NO_TIME
            durations = sample.completed_ns[ends] - sample.issued_ns[ends]
            stamps += step
            starts += max(step, _step(durations) if len(durations) and durations.any() else 0.0)
        return cls(stamps, starts)


def _step(moments: Integers) -> float:
    """The largest step that all moments are whole multiples of, apart from where they begin."""
    return float(np.gcd.reduce(np.unique(np.abs(moments - moments[0])))) or 1.0


def _pairs(reference: IoSample, other: IoSample) -> _Pairs:
    """All pairs of equal I/Os, but for those that occur too often to tell anything."""
    a_order, b_order = np.argsort(reference.key, kind="stable"), np.argsort(other.key, kind="stable")
    a_keys, a_first, a_count = np.unique(reference.key[a_order], return_index=True, return_counts=True)
    b_keys, b_first, b_count = np.unique(other.key[b_order], return_index=True, return_counts=True)
    _, in_a, in_b = np.intersect1d(a_keys, b_keys, assume_unique=True, return_indices=True)
    rare = (a_count[in_a] <= _REPEATS_MAX) & (b_count[in_b] <= _REPEATS_MAX)
    in_a, in_b = in_a[rare], in_b[rare]
    each = a_count[in_a] * b_count[in_b]
    # The rarest first: they tell most.
    order = np.argsort(each, kind="stable")
    order = order[np.cumsum(each[order]) <= _PAIRS_MAX]
    in_a, in_b, each = in_a[order], in_b[order], each[order]
    entry = np.repeat(np.arange(len(each)), each)
    number = np.arange(len(entry)) - np.repeat(np.cumsum(each) - each, each)
    a = a_order[a_first[in_a][entry] + number // b_count[in_b][entry]]
    b = b_order[b_first[in_b][entry] + number % b_count[in_b][entry]]
    ends = (reference.completed_ns[a] != NO_TIME) & (other.completed_ns[b] != NO_TIME)
    start = reference.issued_ns[a] - other.issued_ns[b]
    return _Pairs(
        a, b, other.issued_ns[b], start,
        np.where(ends, np.where(ends, reference.completed_ns[a], 0) - np.where(ends, other.completed_ns[b], 0), start),
        ends, 1.0 / each[entry],
    )  # fmt: skip


def _densest(pairs: _Pairs) -> tuple[npt.NDArray[np.intp], int | None] | NoOffset:
    """The pairs of the offset that most agree on, and a rival's offset if a few agree on another."""
    width = _WINDOW_NS + _DRIFT_MAX * float(np.ptp(pairs.at))
    order = np.argsort(pairs.start, kind="stable")
    votes, weight = pairs.start[order], pairs.weight[order]
    first, mass = _peak(votes, weight, width)
    middle = votes[first] + width / 2
    inside = (votes >= votes[first]) & (votes <= votes[first] + int(width))
    # Differences of chance pairs among neighbours of the peak lie around it; a rival is further away.
    outside = np.abs(votes - middle) > 1.5 * width
    chosen = order[inside]
    rival_ns = None
    if outside.any():
        rival_first, rival_mass = _peak(votes[outside], weight[outside], width)
        rival = int(votes[outside][rival_first])
        if rival_mass > _RIVAL_SHARE * mass:
            best, second = (int(votes[first]), rival) if rival_mass <= mass else (rival, int(votes[first]))
            return NoOffset(
                f"their common I/Os fit offsets of {best / 1e9:,.3f} s and {second / 1e9:,.3f} s about equally well: "
                "the pattern repeats, or a clock was set",
                len(chosen),
            )
        in_rival = int(((votes[outside] >= rival) & (votes[outside] <= rival + int(width))).sum())
        if in_rival >= MATCHES_MIN and rival_mass > _STEP_SHARE * mass:
            rival_ns = rival
    return chosen, rival_ns


def _peak(votes: Integers, weight: Numbers, width: float) -> tuple[int, float]:
    """Where the heaviest stretch of ``width`` begins in sorted votes, and its weight."""
    sums = np.concatenate([[0.0], np.cumsum(weight)])
    last = np.searchsorted(votes, votes + int(width), side="right")
    mass = sums[last] - sums[:-1]
    first = int(np.argmax(mass))
    return first, float(mass[first])


def _one_to_one(pairs: _Pairs) -> _Pairs:
    """Each I/O of either source in one pair at most: the one nearest to the middle of all votes."""
    away = np.abs(pairs.start - int(np.median(pairs.start)))
    order = np.argsort(away, kind="stable")
    for side in ("a", "b"):
        _, first = np.unique(getattr(pairs, side)[order], return_index=True)
        order = order[np.sort(first)]
    return pairs.take(np.sort(order))


def _runs_apart(pairs: _Pairs) -> bool:
    """Whether the votes run away faster than any clock does: two scans over the same addresses, not the same I/Os."""
    from scipy import stats  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    some = np.linspace(0, len(pairs.start) - 1, min(len(pairs.start), _SOME_PAIRS)).astype(np.intp)
    at = (pairs.at[some] - pairs.at[0]).astype(np.float64)
    if not np.ptp(at):
        return False
    _, _, low, high = stats.theilslopes((pairs.start[some] - pairs.start[0]).astype(np.float64), at)
    return bool(low > _RUNAWAY or high < -_RUNAWAY)


class _Points:
    """Votes of one layer seen twice: each difference is the offset itself, give or take."""

    def __init__(self, pairs: _Pairs, steps: _Steps) -> None:
        self._base = int(np.median(pairs.start))
        start = (pairs.start - self._base).astype(np.float64)
        end = (pairs.end - self._base).astype(np.float64)
        use_ends = bool(pairs.has_ends.all()) and _spread(end) <= _spread(start)
        self.base, self.values = self._base, end if use_ends else start
        # A stamp that is cut off to its step is half a step early on average.
        self._step = (steps.stamps if use_ends else steps.starts) / 2

    def keep(self, residual: Numbers) -> npt.NDArray[np.bool_]:
        """Which votes are no chance pairs, by their distance from the fit."""
        limit = max(8 * _spread(residual), 4 * self._step, 1.0)
        return np.asarray(np.abs(residual - np.median(residual)) <= limit)

    def block(self, rows: npt.NDArray[np.intp], away: Numbers) -> tuple[float, float]:
        middle = float(np.median(self.values[rows] - away[rows]))
        return middle, middle

    def interval(self, blocks: list[npt.NDArray[np.intp]], away: Numbers) -> tuple[float, float, float]:
        """Lower end, best value and upper end of the offset, once the drift ``away`` is taken off."""
        from scipy import stats  # noqa: PLC0415 - it takes long to import, and every command would wait for it

        residual = np.sort(np.concatenate([self.values[rows] - away[rows] for rows in blocks]))
        count = len(residual)
        # The order statistics that bracket the 2.5 % and 97.5 % quantiles with 97.5 % confidence each.
        rank = int(stats.binom.ppf(0.025, count, 0.025))
        low, high = residual[max(rank - 1, 0)], residual[min(count - rank, count - 1)]
        middles = [self.block(rows, away)[0] for rows in blocks]
        return (
            min(low, *middles) - self._step,
            float(np.median(residual)),
            max(high, *middles) + self._step,
        )


class _Bounds:
    """Votes of a layer above another: each I/O bounds the offset from both sides."""

    def __init__(self, pairs: _Pairs, steps: _Steps) -> None:
        self.base = int(np.median(pairs.start))
        self._low = (pairs.start - self.base) - steps.starts
        self._high = (pairs.end - self.base) + steps.stamps
        self.values = (self._low + self._high) / 2

    def keep(self, residual: Numbers) -> npt.NDArray[np.bool_]:
        """Which votes bound anything: those whose bounds are in order and hold the best common offset, or nearly."""
        away = self.values - residual
        low, high = self._low - away, self._high - away
        ordered = low <= high
        if not ordered.any():
            return ordered
        common = _common(low[ordered], high[ordered])
        slack = 8 * max(_spread(residual), 1.0)
        return np.asarray(ordered & (low <= common[1] + slack) & (high >= common[0] - slack))

    def block(self, rows: npt.NDArray[np.intp], away: Numbers) -> tuple[float, float]:
        return _common(self._low[rows] - away[rows], self._high[rows] - away[rows])

    def interval(self, blocks: list[npt.NDArray[np.intp]], away: Numbers) -> tuple[float, float, float]:
        """Lower end, middle and upper end of what holds in every block, once the drift ``away`` is taken off."""
        found = [self.block(rows, away) for rows in blocks]
        low, high = min(low for low, _ in found), max(high for _, high in found)
        return low, (low + high) / 2, high


def _common(low: Numbers, high: Numbers) -> tuple[float, float]:
    """The stretch within nearly as many intervals as any: one in a hundred may be wrong, and one more."""
    edges = np.concatenate([low, high])
    change = np.concatenate([np.ones(len(low), np.int64), -np.ones(len(high), np.int64)])
    order = np.lexsort((-change, edges))
    edges, depth = edges[order], np.cumsum(change[order])
    deep = np.flatnonzero(depth >= depth.max() - (1 + len(low) // 100))
    return float(edges[deep[0]]), float(edges[min(deep[-1] + 1, len(edges) - 1)])


def _fitted(pairs: _Pairs, votes: _Points | _Bounds, rival_ns: int | None) -> ClockOffset | NoOffset:
    from scipy import stats  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    middle = int(np.median(pairs.at))
    at = (pairs.at - middle).astype(np.float64)
    kept = np.arange(len(at))
    slope = error = 0.0
    has_drift = False
    for _ in range(_ROUNDS):
        blocks = _blocks(at, kept)
        has_drift = len(blocks) >= _BLOCKS_FOR_DRIFT
        if has_drift:
            # Within a stretch the drift blurs the votes, so each round takes off what the one before found.
            values = [sum(votes.block(rows, slope * at)) / 2 for rows in blocks]
            moments = [float(np.median(at[rows])) for rows in blocks]
            more, _, least, most = (float(found) for found in stats.theilslopes(values, moments))
            slope, error = slope + more, max(most - more, more - least)
        kept = kept[votes.keep(votes.values - slope * at)[kept]]
        if len(kept) < MATCHES_MIN:
            return NoOffset("too few of their common I/Os agree on an offset", len(kept))
    blocks = _blocks(at, kept)
    # A drift that is not told from none is not taken off: what it does lies within the spread.
    applied = slope if has_drift and abs(slope) > error else 0.0
    low, best, high = votes.interval(blocks, applied * at)
    if isinstance(votes, _Bounds) and applied:
        reach = error * float(np.abs(at[kept]).max())
        low, high = low - reach, high + reach
    return ClockOffset(
        offset_ns=votes.base + round(best),
        uncertainty_ns=int(np.ceil(max(high - best, best - low))),
        at_ns=middle,
        matched=len(kept),
        span_ns=int(np.ptp(pairs.at[kept])),
        drift=slope if has_drift else None,
        drift_uncertainty=error if has_drift else None,
        rival_offset_ns=rival_ns,
    )


def _blocks(at: Numbers, kept: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    """Rows in stretches of time with equally many I/Os each."""
    count = max(1, min(len(kept) // _BLOCK_PAIRS, _BLOCKS_MAX))
    return list(np.array_split(kept[np.argsort(at[kept], kind="stable")], count))


def _spread(values: Numbers) -> float:
    """Standard deviation as the median of the distances from the median tells it."""
    from scipy import stats  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    return float(stats.median_abs_deviation(values, scale="normal"))


def _reversed(found: ClockOffset | NoOffset) -> ClockOffset | NoOffset:
    """The same measurement told from the other clock's side."""
    if isinstance(found, NoOffset):
        return found
    drift = None if found.drift is None else 1 / (1 + found.drift) - 1
    rival = None if found.rival_offset_ns is None else -found.rival_offset_ns
    return ClockOffset(
        -found.offset_ns, found.uncertainty_ns, found.at_ns + found.offset_ns, found.matched, found.span_ns, drift,
        found.drift_uncertainty, rival,
    )  # fmt: skip
