"""Compares recordings, like with like: the same role, operation and size class, with 95 % intervals.

The first recording is the base; each other one is held against it. A replay is held against what it replays by its
response time (completed - intended), and by its service time beside it. Response is the headline: a disk that falls
behind makes later I/Os wait before they are issued, and only response counts that wait. Service is what is like a
captured latency of the block layer: both clocks run from the I/O's start in the kernel to its end.

Intervals come from a block bootstrap over slots of time (`bootstrap`, `class_latency`), the recordings resampled
independently; with the same ``seed`` they are the same to the last digit. Memory does not grow with the recordings.
"""

import string
from collections.abc import Container, Sequence
from functools import partial
from typing import Final

from iotrace.analyze import library
from iotrace.analyze.stats.bootstrap import interval
from iotrace.analyze.stats.histogram import Histogram
from iotrace.schemas import LOAD_OPS, IotraceError, Recording
from iotrace.schemas.run import Replay
from iotrace.schemas.vocabulary import UNATTRIBUTED

from .class_latency import QUANTITIES, ClassKey, Estimate, estimate, estimate_together
from .comparison import ClassComparison, Comparison, Figure, Interval
from .paired import Pairs, pair_up, replay_facts, watched_beside
from .rare import rare_ios
from .same_work import SameWork, check_same_work
from .side import Ask, ComparedSide, Span, headline_metric, is_in_step, replayed_span, span_of
from .words import basis, verdicts

RECORDINGS_MAX: Final = len(string.ascii_uppercase)
_CLASS_IOS_MIN: Final = 200
"""Classes below this have not even a median to show on either side; they are only counted."""

Classes = dict[ClassKey, Histogram]


def compare(a: Recording, b: Recording, *, seed: int = 0) -> Comparison:
    """Compare ``b`` with ``a``. Raises `IotraceError` if either holds no I/Os or cannot be read."""
    return compare_all(a, [b], seed=seed)[0]


def compare_all(base: Recording, others: Sequence[Recording], *, seed: int = 0) -> list[Comparison]:
    """Compare each of ``others`` with ``base``, in their order.

    Raises `IotraceError` if one holds no I/Os or cannot be read, or there are more than `RECORDINGS_MAX`.
    """
    if not 1 <= len(others) < RECORDINGS_MAX:
        raise IotraceError(
            f"{len(others) + 1} recordings are too many to compare at once",
            hint=f"name 2 to {RECORDINGS_MAX}; the first one is what the others are held against",
        )
    # All in one DuckDB: its limit of memory holds for them together.
    with library.connected() as connection:
        asks = []
        for number, one in enumerate((base, *others)):
            library.attach(connection, one, f"r{number}")
            asks.append(partial(library.run, connection, prefix=f"r{number}"))
        bases = _Bases(asks[0], base, seed)
        found = []
        for number, other in enumerate(others, 1):
            ask = asks[number]
            shared = _shared_layers((asks[0], base), (ask, other))
            a = bases.against(other, shared)
            in_step = _is_replay(other, base) and is_in_step(replay_facts(other))
            b = ComparedSide(
                ask,
                other,
                span_of(ask, other, shared),
                seed=seed,
                number=number,
                alongside=a if in_step else None,
            )
            paired = Pairs()
            seen = watched_beside(other) if in_step else None
            if seen is not None:
                prefix = f"r{number}"
                if seen is not other:
                    prefix = f"w{number}"
                    library.attach(connection, seen, prefix)
                paired = pair_up(connection, ("r0", a.from_ns, a.until_ns), seen, prefix, seed=seed)
            found.append(_compare_pair(a, b, paired, string.ascii_uppercase[number]))
        return found


class _Bases:
    """The base over each span that it is looked at: what a replay played of it, or all of it."""

    def __init__(self, ask: Ask, base: Recording, seed: int) -> None:
        self._ask, self._base, self._seed = ask, base, seed
        self._sides: dict[Span, ComparedSide] = {}

    def against(self, other: Recording, shared: Container[str]) -> ComparedSide:
        if _is_replay(other, self._base):
            span = replayed_span(self._ask, self._base, replay_facts(other))
        else:
            span = span_of(self._ask, self._base, shared)
        if span not in self._sides:
            self._sides[span] = ComparedSide(self._ask, self._base, span, seed=self._seed, number=0)
        return self._sides[span]


def _shared_layers(one: tuple[Ask, Recording], other: tuple[Ask, Recording]) -> set[str]:
    """Layers that both were recorded at; none of what was played, which is measured from outside of any layer."""
    if one[1].manifest.is_played or other[1].manifest.is_played:
        return set()
    left, right = ({*ask("layers")["layer"].to_pylist()} for ask, _ in (one, other))
    return left & right


def _compare_pair(a: ComparedSide, b: ComparedSide, paired: Pairs, label: str) -> Comparison:
    replay = replay_facts(b.recording) if _is_replay(b.recording, a.recording) else None
    work = check_same_work(
        a.work(),
        b.work(),
        replay,
        label=label,
        is_watched=b.recording.manifest.watched is not None,
    )
    pairs = _metric_pairs(a.recording, b.recording)
    classes: list[ClassComparison] = []
    unmatched: list[str] = []
    for a_metric, b_metric in pairs:
        left, right = (
            side.histograms(metric, with_roles=True) for side, metric in ((a, a_metric), (b, b_metric))
        )
        # Roles that only one of the two knows are no difference of the work.
        with_roles = _roles_unknown(left) == _roles_unknown(right)
        if not with_roles:
            left, right = (
                side.histograms(metric, with_roles=False) for side, metric in ((a, a_metric), (b, b_metric))
            )
        classes += [
            compare_class(key, (a, a_metric), (b, b_metric), with_roles=with_roles)
            for key in sorted(left.keys() & right.keys(), key=_order)
            if _is_compared(key)
        ]
        if (a_metric, b_metric) == pairs[0]:
            unmatched = _unmatched(left, right, label)
    return _comparison(a, b, label, work, pairs[0], classes, paired, unmatched, replay)


def _comparison(
    a: ComparedSide,
    b: ComparedSide,
    label: str,
    work: SameWork,
    headline: tuple[str, str],
    classes: list[ClassComparison],
    paired: Pairs,
    unmatched: list[str],
    replay: Replay | None,
) -> Comparison:
    sides = a.figures("A"), b.figures(label)
    return Comparison(
        a=sides[0],
        b=sides[1],
        is_replay_of_a=replay is not None,
        scale=replay.scale if replay else None,
        headline_metric=headline[1],
        headline_reason=_headline_reason(headline),
        basis=basis(*sides, replay, is_watched=b.recording.manifest.watched is not None),
        verdicts=verdicts(label, classes, headline[1], work.aspects, paired.found, replay),
        work=work.aspects,
        mix_distance=work.mix_distance,
        same_work=not work.warnings,
        warnings=work.warnings,
        classes=classes,
        paired=paired.found,
        unpaired=paired.unpaired,
        unmatched=unmatched,
    )


def _is_replay(one: Recording, of: Recording) -> bool:
    return replay_facts(one).source_uuid == of.manifest.uuid


def _metric_pairs(a: Recording, b: Recording) -> list[tuple[str, str]]:
    """Which latency of a is held against which of b; the headline first."""
    headline = headline_metric(a), headline_metric(b)
    return [headline] if headline == ("service", "service") else [headline, ("service", "service")]


def _headline_reason(pair: tuple[str, str]) -> str:
    if "response" not in pair:
        return "neither recording says when its I/Os were due: service (completed - issued) is all there is"
    return (
        "response (completed - intended) counts the wait of an I/O that could not be issued in time; "
        "service (completed - issued) hides it when the storage falls behind"
    )


def _roles_unknown(classes: Classes) -> bool:
    return all(key.role in {None, UNATTRIBUTED} for key in classes)


def _is_compared(key: ClassKey) -> bool:
    return key.role is None or key.op in LOAD_OPS


def compare_class(
    key: ClassKey, left: tuple[ComparedSide, str], right: tuple[ComparedSide, str], *, with_roles: bool
) -> ClassComparison:
    """One class of both sides, each by its own latency (service or response)."""
    (a, _), (b, _) = left, right
    one, other = (side.latency(metric, key, with_roles=with_roles) for side, metric in (left, right))
    counts = [one.histogram.total, other.histogram.total]
    figures = []
    if min(counts) >= _CLASS_IOS_MIN:
        for quantity in ["mean", *QUANTITIES]:
            if b.is_paired:
                pair = estimate_together(one, other, quantity, b.seed(key, quantity))
            else:
                pair = (
                    estimate(one, quantity, a.seed(key, quantity)),
                    estimate(other, quantity, b.seed(key, quantity)),
                )
            figures.append(_figure(quantity, *pair))
    return ClassComparison(
        op=key.op,
        role=key.role,
        size_class_bytes=key.size_class_bytes,
        size_class=size_class_name(key.size_class_bytes),
        a_metric=left[1],
        b_metric=right[1],
        a_io_count=counts[0],
        b_io_count=counts[1],
        figures=figures,
        rare=rare_ios(one, other),
    )


def _figure(quantity: str, a: Estimate | None, b: Estimate | None) -> Figure:
    if a is None or b is None:
        return Figure(quantity, None, None, None, None, None, None)
    difference_ns = b.value_ns - a.value_ns
    ratio = b.value_ns / a.value_ns if a.value_ns > 0 else None
    difference_interval = ratio_interval = None
    if a.replicates_ns is not None and b.replicates_ns is not None:
        difference_interval = _holding(difference_ns, interval(b.replicates_ns - a.replicates_ns))
        if ratio is not None and a.replicates_ns.min() > 0:
            ratio_interval = _holding(ratio, interval(b.replicates_ns / a.replicates_ns))
    return Figure(quantity, a.value_ns, b.value_ns, difference_ns, difference_interval, ratio, ratio_interval)


def _holding(value: float, found: Interval) -> Interval:
    """The interval, stretched to the figure itself where it is narrower than a bucket of the histogram."""
    return min(found[0], value), max(found[1], value)


def _unmatched(left: Classes, right: Classes, label: str) -> list[str]:
    """A sentence for each operation of a role: whose it is, and the sizes."""
    sizes: dict[tuple[str, str], list[str]] = {}
    for key in sorted(left.keys() ^ right.keys(), key=_order):
        if _is_compared(key):
            many = f"{key.op}es" if key.op == "flush" else f"{key.op}s"
            what = f"{key.role} {many}" if key.role else many
            held = sizes.setdefault(("A" if key in left else label, what), [])
            held += [] if key.size_class_bytes is None else [size_class_name(key.size_class_bytes)]
    return [
        f"only {whose} has {what}" + (f" of {', '.join(held)}" if held else "")
        for (whose, what), held in sizes.items()
    ]


def _order(key: ClassKey) -> tuple[bool, str, str, int]:
    return (key.role is not None, key.op, key.role or "", key.size_class_bytes or 1 << 62)


def size_class_name(size_class_bytes: int | None) -> str:
    """A size class in words: its largest size; classes are the powers of two from 4 KiB to 1 MiB."""
    if size_class_bytes is None:
        return "all sizes"
    if size_class_bytes == 0:
        return "> 1 MiB"
    kib = size_class_bytes // 1024
    name = f"{kib} KiB" if kib < 1024 else "1 MiB"
    return f"≤ {name}" if kib == 4 else name
