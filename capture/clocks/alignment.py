"""Several sources on one clock: by the UTC that each states, and better where they saw the same I/Os.

Sources that show the same I/Os are measured against one another (`offsets`); the one whose UTC is told best is
the reference and the others move. All others stay where their own UTC puts them, as far as that can be trusted.

Here, too, is whether sources were taken at the same time, and of how much of it both tell. Sources that share no time
describe no common hour: rates over the whole are too low, and what one shows is no cause of what another shows. Pieces
of one kind that follow one another (a session's next file, the next day's snapshots) are one source here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

import numpy as np

from iotrace.schemas import Alignment, Clock, IotraceError, Layer
from iotrace.schemas.host import Host
from iotrace.schemas.text import format_share
from iotrace.schemas.units import DAY_NS

from .offsets import ClockOffset, NoOffset, measure
from .samples import IN_FILES, LayerSample, comparable, joined

_REPEATED_SHARE: Final = 0.9
_TOLD_OFFSET_NS: Final = 10**9
_LAYERS: Final = list(Layer)
CONTINUES_SHARE: Final = 0.05
"""A piece continues another one if the time between them is no longer than this share of the longer of both."""
CONTINUES_NS: Final = 60 * 10**9
LITTLE_SHARE: Final = 0.5
"""With less than this share of the shorter one in common, two sources are told to share little of their time."""
NEARLY_ALL_SHARE: Final = 0.9
NAMED_MAX: Final = 5
OPTION: Final = "--apart-in-time"
ALIGNED_BY: Final = {
    "measured": "I/Os that both saw",
    "utc": "by the UTC that each states; clocks of different hosts may differ by more",
    "reference": "others were measured against it",
}
"""What a method rests on, in words."""

_QUARTER_HOUR_NS: Final = 900 * 10**9
_ZONES_NS: Final = 14 * 4 * _QUARTER_HOUR_NS


@dataclass(slots=True)
class Clocked:
    """A source as far as its clock goes. ``samples`` are in its own time since its start, by layer."""

    name: str
    format_name: str
    clock: Clock
    host: Host
    samples: dict[str, LayerSample] = field(default_factory=dict)

    @property
    def has_date(self) -> bool:
        """Whether its clock names a date at all; one that does not starts in 1970."""
        return self.clock.start_utc_ns >= DAY_NS


@dataclass(slots=True)
class Placement:
    """Where a source's own times go: UTC = ``start_utc_ns`` + own + ``drift`` * (own - ``pivot_ns``)."""

    start_utc_ns: int
    alignment: Alignment | None = None
    host: object = None
    """Equal for sources known to be of one machine, which share disks, files and processes."""
    drift: float = 0.0
    pivot_ns: int = 0
    repeated: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Layers whose I/Os another source shows too, with the stretch of UTC in which it does."""
    notes: list[str] = field(default_factory=list)
    clock_steps: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when a source tells anything, in ns of one clock; ``kind`` is equal for pieces of one source."""

    name: str
    kind: object
    start_ns: int
    end_ns: int
    uncertainty_ns: int = 0
    """How far both may be off."""

    @property
    def length_ns(self) -> int:
        """How long that is."""
        return self.end_ns - self.start_ns


def align(sources: Sequence[Clocked]) -> list[Placement]:
    """A place for each source. Raises `IotraceError` for one without a date whose clock nothing tells."""
    if len(sources) == 1:
        return [Placement(sources[0].clock.start_utc_ns, host=0)]
    clocks = _clocks(sources)
    _measure(clocks)
    best = min(
        (clock for clock in clocks if clock.has_date), key=lambda clock: clock.anchor_ns, default=clocks[0]
    )
    hosts = _hosts(clocks)
    placements: dict[int, Placement] = {}
    for clock in clocks:
        if not clock.has_date and not clock.is_tied and len(clocks) > 1:
            problem = (
                clock.problems[0] if clock.problems else "nothing shows how far its clock is from theirs"
            )
            raise IotraceError(
                f"'{clock.names[0]}' has no date, and {problem}",
                hint="import it into a recording of its own",
            )
        for number, source in clock.members:
            placements[number] = clock.place(source, best, is_alone=len(clocks) == 1)
            placements[number].host = hosts[clock]
    return [placements[number] for number in range(len(sources))]


def in_recording(alignment: Alignment | None, start_utc_ns: int) -> Alignment | None:
    """``alignment`` with its moment as the recording tells it."""
    if alignment is None or alignment.method != "measured":
        return alignment
    return replace(alignment, at_ns=alignment.at_ns - start_utc_ns)


@dataclass(slots=True, eq=False)
class _OneClock:
    """Sources that one clock stamped: files of one session, of one boot."""

    members: list[tuple[int, Clocked]]
    samples: dict[str, LayerSample] = field(default_factory=dict)
    found: ClockOffset | None = None
    """Against the reference, in UTC as this clock tells it."""
    reference: "_OneClock | None" = None
    is_reference: bool = False
    problems: list[str] = field(default_factory=list)
    repeated: dict[str, tuple[int, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [source.name for _, source in self.members]

    @property
    def first(self) -> Clocked:
        return self.members[0][1]

    @property
    def has_date(self) -> bool:
        return self.first.has_date

    @property
    def is_tied(self) -> bool:
        return self.is_reference or self.found is not None

    @property
    def anchor_ns(self) -> float:
        """How well its UTC is told."""
        told = self.first.clock.start_utc_uncertainty_ns
        return float("inf") if told is None else told

    def place(self, source: Clocked, best: "_OneClock", *, is_alone: bool) -> Placement:
        start_utc_ns = source.clock.start_utc_ns
        if self.found is None:
            return Placement(start_utc_ns, self._by_utc(source, best, is_alone=is_alone))
        found = self.found
        pivot_ns = found.at_ns - start_utc_ns
        alignment = Alignment(
            "measured",
            ALIGNED_BY["measured"],
            reference=self.reference.first.name if self.reference else None,
            offset_ns=found.offset_ns,
            uncertainty_ns=found.uncertainty_ns,
            at_ns=found.at_ns + found.offset_ns,
            matched_ios=found.matched,
            drift_ppm=None if found.drift is None else found.drift * 1e6,
            drift_uncertainty_ppm=None if found.drift_uncertainty is None else found.drift_uncertainty * 1e6,
        )
        return Placement(
            start_utc_ns + found.offset_ns,
            alignment,
            drift=found.told_drift,
            pivot_ns=pivot_ns,
            repeated=dict(self.repeated),
            notes=self._notes(source),
            clock_steps=int(found.rival_offset_ns is not None and source is self.first),
        )

    def _by_utc(self, source: Clocked, best: "_OneClock", *, is_alone: bool) -> Alignment:
        if is_alone:
            return Alignment("utc", "one clock stamped all of them", uncertainty_ns=0)
        if self.is_reference:
            return Alignment("reference", ALIGNED_BY["reference"], uncertainty_ns=0)
        own, others = source.clock.start_utc_uncertainty_ns, best.first.clock.start_utc_uncertainty_ns
        both_ns = None if own is None or others is None else own + others
        basis = ALIGNED_BY["utc"]
        if self is best:
            return Alignment("utc", basis, uncertainty_ns=own)
        return Alignment("utc", basis, uncertainty_ns=both_ns)

    def _notes(self, source: Clocked) -> list[str]:
        assert self.found is not None
        assert self.reference is not None
        found, other = self.found, self.reference.first.name
        notes = list(self.notes) if source is self.first else []
        if source.has_date and self.reference.has_date and abs(found.offset_ns) >= _TOLD_OFFSET_NS:
            notes.append(
                f"{source.name}: its clock is {span_text(found.offset_ns)} "
                f"{'behind' if found.offset_ns > 0 else 'ahead of'} that of {other}: its times are moved"
            )
        if found.rival_offset_ns is not None:
            notes.append(
                f"{source.name}: some of its I/Os lie {span_text(found.rival_offset_ns - found.offset_ns)} away from "
                f"the rest of those it shares with {other}: one of the clocks was set meanwhile, and these are "
                "misplaced"
            )
        return notes


def _hosts(clocks: list[_OneClock]) -> dict[_OneClock, object]:
    """Which clocks are of one machine.

    Those that saw the same I/Os, files that continue one another, and snapshots beside one SQL Server's events.
    """
    hosts: dict[_OneClock, object] = {clock: id(clock.reference or clock) for clock in clocks}
    spans = sorted((entry for clock in clocks for entry in _span(clock)), key=lambda entry: entry[0].start_ns)
    for (before, earlier), (after, later) in combinations(spans, 2):
        overlap_ns = before.end_ns - after.start_ns
        is_next = overlap_ns <= CONTINUES_SHARE * min(before.length_ns, after.length_ns)
        if is_next and _continues([before], after):
            hosts = {clock: hosts[earlier] if host == hosts[later] else host for clock, host in hosts.items()}
    servers = {
        hosts[clock]
        for clock in clocks
        if clock.first.host.database and clock.first.host.boot_utc_ns is not None
    }
    if len(servers) == 1:
        (server,) = servers
        for clock in clocks:
            if clock.first.host.database:
                hosts[clock] = server
    return hosts


def _span(clock: _OneClock) -> Iterator[tuple[Span, _OneClock]]:
    """The time of a clock's I/Os, if it names a date and no start of its machine, which would tell machines apart."""
    host = clock.first.host
    if clock.samples and clock.has_date and host.boot_utc_ns is None:
        first_ns = min(sample.first_ns for sample in clock.samples.values())
        last_ns = max(sample.last_ns for sample in clock.samples.values())
        kind = (clock.first.format_name, host.name, host.system)
        yield Span(clock.first.name, kind, first_ns, last_ns), clock


def _clocks(sources: Sequence[Clocked]) -> list[_OneClock]:
    clocks: dict[object, _OneClock] = {}
    for number, source in enumerate(sources):
        boot = source.host.boot_utc_ns
        machine = (source.host.system, source.host.processors)
        identity: object = (source.format_name, boot, *machine) if boot is not None else number
        clocks.setdefault(identity, _OneClock([])).members.append((number, source))
    for clock in clocks.values():
        for layer in {layer for _, source in clock.members for layer in source.samples}:
            clock.samples[layer] = joined(
                [
                    source.samples[layer].shifted(source.clock.start_utc_ns)
                    for _, source in clock.members
                    if layer in source.samples
                ]
            )
    return list(clocks.values())


def _measure(clocks: list[_OneClock]) -> None:
    """Tie each clock to one that is tied already, beginning with the one whose UTC is told best."""
    waiting = sorted(
        (clock for clock in clocks if clock.samples), key=lambda clock: (not clock.has_date, clock.anchor_ns)
    )
    while waiting:
        root = waiting.pop(0)
        tied = [root]
        progress = True
        while progress:
            progress = False
            for clock in list(waiting):
                if any(_tie(clock, to, root) for to in tied):
                    waiting.remove(clock)
                    tied.append(clock)
                    progress = True
        root.is_reference = len(tied) > 1


def _tie(clock: _OneClock, to: _OneClock, root: _OneClock) -> bool:
    """Measure ``clock`` against ``to``; what is kept is against ``root``."""
    if clock.first.format_name == to.first.format_name and clock.first.host.boot_utc_ns is not None:
        return False  # two boots are two machines or two nights: no I/O is in both
    found: ClockOffset | None = None
    reason = NoOffset("")
    for above, below, height in _layer_pairs(to, clock):
        measured = measure(*comparable(to.samples[above], clock.samples[below]), height=height)
        if isinstance(measured, NoOffset):
            reason = measured if measured.matched >= reason.matched else reason
        elif found is None or measured.uncertainty_ns < found.uncertainty_ns:
            found = measured
    if found is None:
        if reason.matched:
            clock.problems.append(f"its clock cannot be set by '{to.first.name}': {reason.reason}")
        return False
    clock.found = found if to.found is None else _chained(found, to.found)
    clock.reference = root
    for layer in clock.samples.keys() & to.samples.keys():
        _mark_repeated(clock, to, layer, found)
    return True


def _layer_pairs(to: _OneClock, clock: _OneClock) -> list[tuple[str, str, int]]:
    """Layers of both that address the same things, the same layer first."""
    pairs = [
        (above, below, _LAYERS.index(Layer(below)) - _LAYERS.index(Layer(above)))
        for above in to.samples
        for below in clock.samples
        if (Layer(above) in IN_FILES) == (Layer(below) in IN_FILES)
    ]
    same = [pair for pair in pairs if pair[2] == 0]
    return same or pairs


def _chained(found: ClockOffset, to: ClockOffset) -> ClockOffset:
    """An offset against a clock that has one itself."""
    away = to.told_drift * (found.at_ns + found.offset_ns - to.at_ns)
    drift = None if found.drift is None else found.drift + to.told_drift
    error = (
        None if found.drift_uncertainty is None else found.drift_uncertainty + (to.drift_uncertainty or 0.0)
    )
    return ClockOffset(
        found.offset_ns + to.offset_ns + round(away), found.uncertainty_ns + to.uncertainty_ns, found.at_ns,
        found.matched, found.span_ns, drift, error, found.rival_offset_ns,
    )  # fmt: skip


def _mark_repeated(clock: _OneClock, to: _OneClock, layer: str, found: ClockOffset) -> None:
    """Whether ``to`` shows (nearly) all that ``clock`` shows of a layer while both ran: then it counts once."""
    theirs, own = comparable(to.samples[layer], clock.samples[layer])
    issued = own.issued_ns + found.offset_ns
    first_ns, last_ns = to.samples[layer].first_ns, to.samples[layer].last_ns
    together = (issued >= first_ns) & (issued <= last_ns)
    if not together.any():
        return
    share = float(np.mean(np.isin(own.key[together], theirs.key)))
    name, other = clock.first.name, to.first.name
    if share >= _REPEATED_SHARE:
        slack = found.uncertainty_ns
        to_root = to.found.offset_ns if to.found else 0
        clock.repeated[layer] = (first_ns - slack + to_root, last_ns + slack + to_root)
        clock.notes.append(
            f"{name}: its I/Os of layer {layer} are in {other} too ({format_share(share, 0)} of a sample) and are left "
            "out where both ran"
        )
    else:
        clock.notes.append(
            f"{name}: {format_share(share, 0)} of its I/Os of layer {layer} are in {other} too while both ran, and "
            "count twice"
        )


def span_text(span_ns: int) -> str:
    """A length of time in the unit that people would take."""
    seconds = abs(span_ns) / 1e9
    if seconds >= 2 * 365.25 * 86_400:
        return f"{seconds / (365.25 * 86_400):,.1f} years"
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.2f} {unit}"
    return f"{seconds:,.3f} s"


@dataclass(frozen=True, slots=True)
class SharedTime:
    """What sources share of their time: sentences, by how bad that is."""

    apart: list[str]
    """Of sources that share none."""
    little: list[str]
    part: list[str]

    def refuse(self) -> None:
        """Raise `IotraceError` if any share none."""
        if self.apart:
            more = f"; and {len(self.apart) - 1} more such pairs" if len(self.apart) > 1 else ""
            raise IotraceError(
                f"{self.apart[0]}{more}",
                hint="import each into a recording of its own; if they do belong together check the dates and time "
                f"zones that they state; to put them into one recording all the same, add {OPTION}",
            )


def shared_time(spans: Iterable[Span]) -> SharedTime:
    """Look at every pair of sources, pieces of one source taken together."""
    found = SharedTime([], [], [])
    for one, other in combinations(_sources(list(spans)), 2):
        first, second = sorted((one, other), key=lambda pieces: pieces[0].start_ns)
        gap_ns, early, late = min(
            ((max(a.start_ns, b.start_ns) - min(a.end_ns, b.end_ns), a, b) for a in first for b in second),
            key=lambda entry: entry[0],
        )
        common_ns = sum(
            max(min(a.end_ns, b.end_ns) - max(a.start_ns, b.start_ns), 0) for a in first for b in second
        )
        shorter = min(first, second, key=_length_ns)
        is_moment = not _length_ns(shorter)
        slack_ns = early.uncertainty_ns + late.uncertainty_ns
        if gap_ns > slack_ns or (gap_ns == slack_ns and not is_moment):
            before, after = sorted((early, late), key=lambda span: (span.start_ns, span.end_ns))
            found.apart.append(
                f"'{after.name}' begins {span_text(gap_ns)} after '{before.name}' ends: they share no time"
                f"{_zone_words(after, before)}"
            )
            continue
        share = common_ns / _length_ns(shorter) if _length_ns(shorter) else 1.0
        sentence = (
            f"'{first[0].name}' and '{second[0].name}' were both recording for {span_text(common_ns)}, "
            f"{format_share(share)} of the {span_text(_length_ns(shorter))} of '{shorter[0].name}'"
        )
        if share < LITTLE_SHARE:
            found.little.append(sentence)
        elif share < NEARLY_ALL_SHARE:
            found.part.append(sentence)
    return found


def _sources(spans: Sequence[Span]) -> list[list[Span]]:
    """Pieces that continue one another, in order of time."""
    found: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.start_ns, span.end_ns)):
        home = next((pieces for pieces in reversed(found) if _continues(pieces, span)), None)
        if home is None:
            found.append([span])
        else:
            home.append(span)
    return found


def _continues(pieces: Sequence[Span], span: Span) -> bool:
    if span.kind != pieces[0].kind:
        return False
    gap_ns = span.start_ns - max(piece.end_ns for piece in pieces)
    longer_ns = max(span.length_ns, *(piece.length_ns for piece in pieces))
    return gap_ns <= max(CONTINUES_SHARE * longer_ns, CONTINUES_NS)


def _length_ns(pieces: Sequence[Span]) -> int:
    """The time that any of them covers."""
    covered_ns, end_ns = 0, pieces[0].start_ns
    for piece in pieces:
        covered_ns += max(piece.end_ns - max(piece.start_ns, end_ns), 0)
        end_ns = max(end_ns, piece.end_ns)
    return covered_ns


def _zone_words(after: Span, before: Span) -> str:
    """Whether a time zone that one of them got wrong would explain it."""
    least_ns, most_ns = after.start_ns - before.end_ns, after.end_ns - before.start_ns
    quarters = range(
        -(-max(least_ns, 1) // _QUARTER_HOUR_NS), min(most_ns, _ZONES_NS) // _QUARTER_HOUR_NS + 1
    )
    hours = next((quarter / 4 for quarter in quarters if quarter % 4 == 0), None)
    if hours is None:
        return ""
    return f"; with {hours:g} h between their time zones they would"
