"""Whether two recordings did the same work: a latency compared across different work compares the work.

Each aspect of the work is held against what it had to be: a's own figure, or, where b replays a, what the replay was
asked for. A difference is said with what it does to latencies, and whose it makes look better.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

from iotrace.analyze.units import DASH, format_bytes, format_duration_ns, format_rate, format_share
from iotrace.schemas import LOAD_OPS
from iotrace.schemas.run import Replay

from .comparison import WorkAspect
from .course import Course, rates_differ, variations

MIX: Final = "operations and sizes"
"""Name of the aspect that holds the share of I/Os without a like of their operation and size on the other side."""
ROLES: Final = "roles of files"
"""The same for operations and roles of files: tempdb's I/Os on storage of its own are others than the data's."""
TOLERANCE: Final = 0.05
"""Relative difference of rates and sizes, and absolute difference of shares, from which on it is worth a warning."""
_TOLERANCE_OF: Final = {"footprint": 0.10, "gaps CV": 0.25, "length": 0.50}
"""Coarser ones: a few strays widen a footprint, and a CV of gaps rests on the longest ones."""
_CLEAR_RATE_TOLERANCE: Final = 0.02
"""For rates that differ by clearly more than they are uncertain by: near a limit a few percent make long queues."""
_CV_OF_RATE: Final = "CV of the rate"
_COURSE_TOLERANCE: Final = 0.10
"""Least difference of CVs of the rate, where it is clear; of larger ones as of those of gaps."""


@dataclass(frozen=True, slots=True)
class Work:
    """What was asked for in ``span_ns``: ``mix`` counts I/Os by (operation, size_bytes). None is unknown."""

    title: str
    layer: str
    span_ns: int
    mix: dict[tuple[str, int], int]
    footprint_bytes: int | None = None
    sequential_share: dict[str, float | None] = field(default_factory=dict)
    interarrival_cv: float | None = None
    course: Course | None = None
    """Reads and writes over time."""
    roles: dict[tuple[str, str], int] | None = None
    """I/Os by (operation, role of their file); None where no role is known."""

    def io_count(self) -> dict[str, int]:
        """I/Os by operation."""
        counts: dict[str, int] = {}
        for (op, _), count in self.mix.items():
            counts[op] = counts.get(op, 0) + count
        return counts

    def size_bytes(self, *ops: str) -> int:
        """Bytes moved by these operations; read and written, if none is named."""
        wanted = ops or LOAD_OPS
        return sum(size * count for (op, size), count in self.mix.items() if op in wanted)

    def transfer_count(self) -> int:
        """Reads and writes."""
        return sum(self.io_count().get(op, 0) for op in LOAD_OPS)

    def ios_per_s(self) -> float:
        """Reads and writes per second, as in `describe`: flushes are no load."""
        return self.transfer_count() * 1e9 / self.span_ns if self.span_ns else 0.0

    def bytes_per(self, op: str) -> float | None:
        """Mean size of an operation's I/Os."""
        count = self.io_count().get(op, 0)
        return self.size_bytes(op) / count if count else None

    def read_share(self) -> float | None:
        """Reads among reads and writes."""
        transfers = self.transfer_count()
        return self.io_count().get("read", 0) / transfers if transfers else None


@dataclass(frozen=True, slots=True)
class SameWork:
    """What `check_same_work` found.

    ``mix_distance``: 0 the same mix of operations and sizes, and of roles, 1 nothing shared of either.
    """

    mix_distance: float
    aspects: list[WorkAspect]
    warnings: list[str]


_MORE_LESS: Final[dict[str, tuple[str, str, Literal["a", "b"] | None]]] = {
    "rate": (
        "{b} carried more load: its queues are longer for that",
        "{b} carried less load: its queues are shorter for that",
        "a",
    ),
    "read share": (
        "reads and writes cost differently: judge them apart",
        "reads and writes cost differently: judge them apart",
        None,
    ),
    "bytes per read": ("larger transfers take longer", "smaller transfers take less time", "a"),
    "bytes per write": ("larger transfers take longer", "smaller transfers take less time", "a"),
    "footprint": ("{b}'s caches hold a smaller part of it", "{b}'s caches hold a larger part of it", "a"),
    "sequential reads": ("read-ahead helps {b} more", "read-ahead helps {b} less", "b"),
    "sequential writes": (
        "merging and full stripes help {b} more",
        "merging and full stripes help {b} less",
        "b",
    ),
    "gaps CV": (
        "{b}'s I/Os came in sharper bursts and queued for one another",
        "{b}'s I/Os came more evenly and queued less for one another",
        "a",
    ),
    "rate over time": (
        "{b}'s I/Os came in spells of more and of less load, and queued longer in those of more",
        "{b}'s I/Os came at a steadier rate, and queued less than in A's spells of more load",
        "a",
    ),
    "length": (
        "the shorter one saw fewer checkpoints, backups and cache flushes",
        "the shorter one saw fewer checkpoints, backups and cache flushes",
        None,
    ),
}
"""What it means that b has more, or less, of an aspect than it should; whose latencies look better with more of it.

``{b}`` stands for b's label.
"""


_Kind = TypeVar("_Kind")


def mix_distance(a: Mapping[_Kind, int], b: Mapping[_Kind, int]) -> float:
    """Half the L1 distance between the shares of each kind of I/O (total variation): 0 same, 1 disjoint."""
    a_total, b_total = max(sum(a.values()), 1), max(sum(b.values()), 1)
    return sum(abs(a.get(key, 0) / a_total - b.get(key, 0) / b_total) for key in a.keys() | b.keys()) / 2


def check_same_work(
    a: Work, b: Work, replay: Replay | None, *, label: str = "B", is_watched: bool = False
) -> SameWork:
    """Hold b's work against a's. ``replay`` is the manifest's entry if b is a replay of a; ``label`` is b's name.

    ``is_watched``: b is what a recorder saw of that replay, whose host may have split or merged I/Os.
    """
    mixes = {MIX: mix_distance(a.mix, b.mix)}
    if replay is None and a.roles and b.roles:
        mixes[ROLES] = mix_distance(a.roles, b.roles)
    aspects = [
        replace(aspect, meaning=aspect.meaning.replace("{b}", label))
        for aspect in (*itertools.starmap(_mix_aspect, mixes.items()), *_aspects(a, b, replay))
    ]
    warnings = [_in_words(aspect) for aspect in aspects if aspect.differs]
    if replay is not None and not is_watched:
        warnings += _check_replay(a, b, replay)
    return SameWork(max(mixes.values()), aspects, warnings)


def _mix_aspect(name: str, distance: float) -> WorkAspect:
    differs = distance > TOLERANCE
    meaning = "only classes that both have are like with like" if differs else ""
    return WorkAspect(name, "share", None, None, distance, differs=differs, meaning=meaning)


def _aspects(a: Work, b: Work, replay: Replay | None) -> list[WorkAspect]:
    closed = replay is not None and replay.mode == "think"
    footprint, gaps_cv = (
        None if one is None else one * _scaled(replay, name)
        for one, name in ((a.footprint_bytes, "footprint_bytes"), (a.interarrival_cv, "cv_interarrival"))
    )
    rate = (a.ios_per_s(), *_rates(a, b, replay))
    is_clear = (
        not replay and a.course is not None and b.course is not None and rates_differ(a.course, b.course)
    )
    rate_tolerance = _CLEAR_RATE_TOLERANCE if is_clear else TOLERANCE
    sequential_a, sequential_b = a.sequential_share, b.sequential_share
    found = [
        # A closed loop takes as long as the storage makes it take, which is an outcome and no work.
        _aspect("rate", "I/Os per second", *rate, asked=not closed, tolerance=rate_tolerance),
        _aspect("read share", "share", a.read_share(), a.read_share(), b.read_share()),
        *(
            _aspect(f"bytes per {op}", "bytes", a.bytes_per(op), a.bytes_per(op), b.bytes_per(op))
            for op in ("read", "write")
        ),
        _aspect("footprint", "bytes", a.footprint_bytes, footprint, b.footprint_bytes),
        *(
            _aspect(f"sequential {op}s", "share", sequential_a.get(op), sequential_a.get(op), sequential_b.get(op))
            for op in ("read", "write")
        ),
        _aspect("gaps CV", "CV of gaps", a.interarrival_cv, gaps_cv, b.interarrival_cv, asked=not closed),
    ]  # fmt: skip
    if replay is None:
        found.append(_aspect("length", "ns", a.span_ns, a.span_ns, b.span_ns))
        if a.course is not None and b.course is not None:
            found.append(_course_aspect(a.course, b.course))
    return [aspect for aspect in found if aspect.a is not None or aspect.b is not None]


def _scaled(replay: Replay | None, name: str) -> float:
    """By how much scaling was to change a figure of the load; 1 where the replay does not say."""
    if replay is None or replay.scaling is None or replay.stopped_early:
        return 1.0
    before, after = getattr(replay.scaling.before, name), getattr(replay.scaling.after, name)
    return float(after) / float(before) if before and after else 1.0


def _rates(a: Work, b: Work, replay: Replay | None) -> tuple[float | None, float]:
    """Rate that was to be, and that was; of a replay over the time it took to issue, as its plan is."""
    if replay is None:
        return a.ios_per_s(), b.ios_per_s()
    planned_ns, span_ns, planned_ios = replay.planned_duration_ns, replay.issued_span_ns, replay.planned_ios
    if not planned_ns or not span_ns or not planned_ios:
        return None, b.ios_per_s()
    # What was planned counts flushes, as many as there were among the recorded I/Os.
    transfers = planned_ios * a.transfer_count() / max(sum(a.mix.values()), 1)
    return transfers * 1e9 / planned_ns, b.transfer_count() * 1e9 / span_ns


def _aspect(
    name: str,
    unit: str,
    a: float | None,
    expected: float | None,
    b: float | None,
    *,
    asked: bool = True,
    tolerance: float | None = None,
) -> WorkAspect:
    more, less, better_with_more = _MORE_LESS[name]
    same = WorkAspect(name, unit, a, expected, b, differs=False)
    if not asked or expected is None or b is None:
        return same
    largest = 1.0 if unit in {"share", _CV_OF_RATE} else max(abs(expected), abs(b))
    if tolerance is None:
        tolerance = _TOLERANCE_OF.get(name, TOLERANCE)
    if abs(expected - b) <= tolerance * largest:
        return same
    favours = better_with_more
    if b < expected and better_with_more is not None:
        favours = "a" if better_with_more == "b" else "b"
    meaning = more if b > expected else less
    return WorkAspect(name, unit, a, expected, b, differs=True, meaning=meaning, favours=favours)


def _course_aspect(a: Course, b: Course) -> WorkAspect:
    found = variations(a, b)
    if found is None:
        return WorkAspect("rate over time", _CV_OF_RATE, None, None, None, differs=False)
    return _aspect(
        "rate over time", _CV_OF_RATE, found.a, found.a, found.b,
        asked=found.are_apart,
        tolerance=max(_COURSE_TOLERANCE, _TOLERANCE_OF["gaps CV"] * max(found.a, found.b)),
    )  # fmt: skip


def _in_words(aspect: WorkAspect) -> str:
    expected, b = aspect.expected, aspect.b
    assert b is not None
    if aspect.name in {MIX, ROLES}:
        return f"the mix of {aspect.name} differs: {format_share(b, 0)} of the I/Os have no counterpart"
    assert expected is not None
    if aspect.unit == "share":
        figures = f"{format_share(b, 0)} instead of {format_share(expected, 0)}"
    elif aspect.unit == "ns":
        figures = f"{format_duration_ns(b)} instead of {format_duration_ns(expected)}"
    elif aspect.unit in {"CV of gaps", _CV_OF_RATE}:
        figures = f"{b:.2f} instead of {expected:.2f}"
    elif aspect.unit == "bytes":
        figures = f"{format_bytes(b)} instead of {format_bytes(expected)}"
    else:
        figures = f"{b:,.0f} {aspect.unit} instead of {expected:,.0f}"
    return f"{aspect.name}: {figures}: {aspect.meaning}"


def _check_replay(a: Work, b: Work, replay: Replay) -> list[str]:
    """A replay does exactly what was asked of it: equal counts, in the time that was planned."""
    warnings = []
    scale = replay.scale or 1.0
    # What a replay says that it planned counts copies, fractions, loops and filters; older ones do not say.
    left, right = a.io_count(), b.io_count()
    for op in sorted(left.keys() | right.keys()):
        expected = 0 if replay.reads_only and op != "read" else left.get(op, 0) * replay.repeat
        if replay.planned_by_op and not replay.skipped_ios:
            expected = replay.planned_by_op.get(op, 0)
        if right.get(op, 0) != expected:
            reasons = [
                f"{count:,} {why}"
                for why, count in (("skipped", replay.skipped_ios), ("failed", replay.failed_ios))
                if count
            ]
            because = f" ({', '.join(reasons)})" if reasons else ""
            many = "flushes" if op == "flush" else f"{op}s"
            warnings.append(f"{right.get(op, 0):,} {many} were replayed, {expected:,} were to be{because}")
    planned, span = replay.planned_duration_ns, replay.issued_span_ns
    if replay.mode != "think" and abs(planned - span) > TOLERANCE * max(planned, span):
        warnings.append(
            f"the replay issued its I/Os in {format_duration_ns(span)}; "
            f"{format_duration_ns(planned)} were planned at {scale:g}x"
        )
    return warnings


def work_value_text(aspect: WorkAspect, value: float | None) -> str:
    """A figure of ``aspect`` in its unit, for a table."""
    if value is None:
        return DASH
    if aspect.unit == "share":
        return format_share(value) + (" differ" if aspect.name in {MIX, ROLES} else "")
    if aspect.unit == "bytes":
        return format_bytes(value)
    if aspect.unit == "ns":
        return format_duration_ns(value)
    return format_rate(value) if aspect.unit == "I/Os per second" else f"{value:.2f}"
