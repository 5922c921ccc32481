"""``manifest.json``: where a recording comes from, what its clock means, and how far to trust it."""

import json
import uuid as uuid_module
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from . import distribution
from .contract import ContractError, Count, Nanoseconds, json_schema, load
from .errors import IotraceError
from .host import Host, host_with_todays_names
from .run import ClosedLoop, ModelFacts, Replay, Watched
from .tables import FORMAT_VERSION
from .text import format_share
from .units import SECOND_NS
from .vocabulary import Kind, counted

QUALITY_WORDS: Final = {
    "good": "without known loss",
    "usable": "with flaws",
    "poor": "with heavy loss",
}
"""How something was recorded, in words that say nothing of what its figures are worth."""
HEAVY_LOSS: Final = 0.01
"""Share of the events or I/Os from which on their loss is heavy."""
_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
SHARED_TIME: Final = "time in common"
"""How reasons end that are about what sources share of their time."""
OF_THE_TIME: Final = "of the time"
"""How reasons end that are about layers recorded for a part of it."""
ENDED_EARLY: Final = "recording ended early"
"""How the reason begins that says that it did."""


@dataclass(slots=True)
class Clock:
    """Anchors the recording's nanoseconds to UTC. ``name`` is the clock the source used."""

    start_utc_ns: Nanoseconds
    """UTC of the recording's nanosecond 0, since 1970."""
    resolution_ns: Annotated[float, Field(gt=0)]
    name: str
    start_utc_uncertainty_ns: Count | None = None
    """How far ``start_utc_ns`` may be from what the source host's own clock showed; None where that is not known."""
    pairs: list[Annotated[list[Nanoseconds], Field(min_length=2, max_length=2)]] = field(default_factory=list)
    """Moments at which a recorder read both: ticks of ``name`` and UTC in nanoseconds; drift follows from them."""


@dataclass(slots=True)
class Alignment:
    """How the clock of one source was brought onto that of the others.

    ``method``: ``measured`` (I/Os that this source and ``reference`` both saw), ``utc`` (the UTC that each of them
    states), or ``reference`` (others were measured against this one). At ``at_ns`` of the recording ``offset_ns`` was
    added to the source's own time; away from there ``drift_ppm`` more, where it exceeds its uncertainty.
    ``uncertainty_ns`` is half the width of the 95 % interval against the reference's clock (measured) or half the
    range that the formats leave open (utc); None where nothing tells.
    """

    method: Literal["reference", "measured", "utc"]
    basis: str
    reference: str | None = None
    offset_ns: int = 0
    uncertainty_ns: Count | None = None
    at_ns: int = 0
    matched_ios: Count | None = None
    drift_ppm: float | None = None
    drift_uncertainty_ppm: Annotated[float, Field(ge=0)] | None = None


@dataclass(slots=True)
class Source:
    """A file or device the recording was made from."""

    name: str
    kind: str
    bytes: Count | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    events: Count | None = None
    alignment: Alignment | None = None
    """None where it is the only source, or brought no clock of its own."""


@dataclass(slots=True)
class Loss:
    """Events and buffers lost since the look before, noticed at ``at_ns``."""

    at_ns: Nanoseconds
    events: Count
    buffers: Count
    source: str | None = None


@dataclass(frozen=True, slots=True)
class PartRecorded:
    """A layer that was recorded for a part of the recording alone."""

    layer: str
    recorded_ns: Nanoseconds
    window_ns: Nanoseconds

    @property
    def reason(self) -> str:
        """Why the recording has a flaw."""
        share = format_share(self.recorded_ns / max(self.window_ns, 1))
        return f"layer {self.layer} recorded for {share} {OF_THE_TIME}"

    def __str__(self) -> str:
        """What that means for its figures."""
        return (
            f"layer {self.layer} was recorded for {self.recorded_ns / SECOND_NS:,.1f} s of "
            f"{self.window_ns / SECOND_NS:,.1f} s: its rates over the whole are too low"
        )


@dataclass(slots=True)
class Quality:
    """What is known to be missing or wrong, in counts; `judge` turns them into a verdict."""

    events_lost: Count = 0
    buffers_lost: Count = 0
    sequence_holes: Count = 0
    unpaired_issues: Count = 0
    unpaired_completions: Count = 0
    latencies_dropped: Count = 0
    clock_steps: Count = 0
    source_gaps: Count = 0
    """Pairs of sources that share no time: rates over the whole are too low, and one explains nothing of the other."""
    damaged_buffers: Count = 0
    counted_ios: Count = 0
    """I/Os that the kernel's own counters of the disks show for the time of a live recording."""
    missing_ios: Count = 0
    """Of these, how many the trace lacks beyond what was in flight when it began."""
    counted_bytes: Count = 0
    missing_bytes: Count = 0
    truncated_tail: bool = False
    ended: str = "normally"
    """How the recording ended: ``normally`` or a sentence on what cut it short."""
    shared_time: list[str] = field(default_factory=list)
    """What sources share of their time, where that is none or little: the first thing to be known of a recording."""
    part_recorded: list[PartRecorded] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    """When losses were noticed, where the recorder told."""
    left_out: list[str] = field(default_factory=list)
    """What the sources hold and nothing could be made of: whose it is, how much, and why. ``events_lost`` counts what
    no figure covers any more."""
    notes: list[str] = field(default_factory=list)
    verdict: Literal["good", "usable", "poor"] = "good"
    reasons: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The verdict for people: recorded …"""
        return QUALITY_WORDS[self.verdict]

    def judge(self, events: int, events_recorded: int = 0) -> Self:
        """Set ``verdict`` and ``reasons``, given how many I/O rows were kept.

        ``events_recorded`` is how many of every kind the sources hold, if known: lost ones are a share of these.

        ``poor``: at least 1 % of the events or I/Os, or any whole buffer, is known lost. ``usable``: something is
        missing, so counts are lower bounds and tails are uncertain. ``good``: nothing known to be wrong.
        """
        poor: list[str] = []
        usable: list[str] = []
        left_out = list(self.left_out)
        if self.events_lost:
            kept = max(events, events_recorded)
            share = self.events_lost / (kept + self.events_lost)
            # Of nothing that was kept no share can be told.
            told = f" ({format_share(share, 2)})" if kept else ""
            # Openings show one reason: how much is lost is worth little without whose it is.
            told += f": {left_out.pop(0)}" if left_out else ""
            (poor if share >= HEAVY_LOSS else usable).append(
                f"{counted(self.events_lost, 'event')} lost{told}"
            )
        if self.buffers_lost:
            poor.append(f"{counted(self.buffers_lost, 'buffer')} lost")
        if self.missing_ios or self.missing_bytes:
            share = max(
                self.missing_ios / max(self.counted_ios, 1), self.missing_bytes / max(self.counted_bytes, 1)
            )
            ios = f"{counted(self.missing_ios, 'I/O')} and " if self.missing_ios else ""
            (poor if share >= HEAVY_LOSS else usable).append(
                f"{ios}{counted(self.missing_bytes, 'byte')} ({format_share(share, 2)}) that the kernel's own "
                "counters of the disks show are not in the trace"
            )
        for count, one, many, rest in (
            (self.sequence_holes, "hole", "holes", " in the buffer sequence"),
            (self.damaged_buffers, "damaged buffer", "damaged buffers", " skipped"),
            (self.latencies_dropped, "implausible latency", "implausible latencies", " dropped"),
            (self.clock_steps, "clock step", "clock steps", ""),
            (self.source_gaps, "pair of sources", "pairs of sources", f" without {SHARED_TIME}"),
        ):
            if count:
                usable.append(f"{counted(count, one, many)}{rest}")
        if len(self.shared_time) > self.source_gaps:
            little = counted(len(self.shared_time) - self.source_gaps, "pair of sources", "pairs of sources")
            usable.append(f"{little} with little {SHARED_TIME}")
        usable += [part.reason for part in self.part_recorded]
        usable += left_out
        unpaired = self.unpaired_completions
        if unpaired > max(10, events // 1000):
            usable.append(f"{counted(unpaired, 'completion')} without their start")
        if self.truncated_tail:
            usable.append("the source file is truncated")
        if self.ended != "normally":
            usable.append(f"{ENDED_EARLY}: {self.ended}")
        self.verdict = "poor" if poor else "usable" if usable else "good"
        self.reasons = poor + usable
        return self


@dataclass(slots=True)
class Manifest:
    """Everything about a recording that is not a row of one of its tables."""

    kind: Kind
    title: str
    clock: Clock
    window_start_ns: Nanoseconds = 0
    window_end_ns: Nanoseconds = 0
    host: Host = field(default_factory=Host)
    sources: list[Source] = field(default_factory=list)
    quality: Quality = field(default_factory=Quality)
    replay: Replay | ClosedLoop | None = None
    """Settings and outcome of the run where ``kind`` is replayed."""
    watched: Watched | None = None
    """Where it was recorded beside a replay: which, and when its load was."""
    tools: dict[str, str] = field(default_factory=lambda: {"iotrace": distribution.version()})
    uuid: Annotated[str, Field(pattern=_UUID)] = field(default_factory=lambda: str(uuid_module.uuid4()))
    rows: dict[str, Count] = field(default_factory=dict)
    """Rows per table, filled in by the writer: a file that lost its end is noticed."""
    format_version: Annotated[int, Field(ge=1)] = FORMAT_VERSION

    @property
    def open_replay(self) -> Replay:
        """Of a replay what it says of itself; of anything else an empty one."""
        return self.replay if isinstance(self.replay, Replay) else Replay()

    @property
    def is_closed_loop(self) -> bool:
        """Whether it is a run of characterize: a number in flight was kept, no rate was offered."""
        return isinstance(self.replay, ClosedLoop)

    @property
    def was_interrupted(self) -> bool:
        """Whether it is a run that the user stopped."""
        return self.replay is not None and self.replay.interrupted

    @property
    def duration_ns(self) -> int:
        """Length of the recorded window."""
        return self.window_end_ns - self.window_start_ns

    @property
    def is_played(self) -> bool:
        """Whether a plan was played, on storage or on a model: its I/Os have a time at which they were due."""
        return self.kind in {Kind.REPLAYED, Kind.SIMULATED}

    @property
    def model(self) -> ModelFacts | None:
        """The model that answered where ``kind`` is simulated (`iotrace.schemas.models.tested_words`)."""
        return self.open_replay.model if self.kind == Kind.SIMULATED else None

    def to_json(self) -> str:
        """Text of ``manifest.json``; checked against its own types first (docs: ``manifest.schema.json``).

        Raises `IotraceError` for times that no file can hold.
        """
        data = _whole_text(asdict(self))
        try:
            load(Manifest, data)
        except ContractError as problem:
            if not problem.is_out_of_range:
                raise
            raise IotraceError(
                f"what was read has a time or count that cannot be: {problem.where} is {problem.value}",
                hint="its source may be damaged",
            ) from problem
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> Self:
        """Parse a manifest. ``name`` is what the user calls the recording. Raises `IotraceError`."""
        try:
            data = _whole_text(json.loads(text))
            version = data.get("format_version") if isinstance(data, dict) else None
            if isinstance(version, int) and version > FORMAT_VERSION:
                raise IotraceError(
                    f"'{name}' was written by a newer iotrace (format {version}, this one reads {FORMAT_VERSION})",
                    hint="update iotrace on this machine",
                )
            if isinstance(data, dict) and isinstance(data.get("host"), dict):
                data["host"] = host_with_todays_names(data["host"])
            return load(cls, data)
        except (ValueError, ContractError, RecursionError) as problem:
            raise IotraceError(
                f"'{name}' has a damaged manifest.json: {str(problem)[:200]}",
                hint="restore it from a copy, or import the original trace again",
            ) from problem


def json_schema_text() -> str:
    """The JSON Schema of ``manifest.json``, as ``manifest.schema.json`` has it."""
    return json.dumps(json_schema(Manifest), indent=1, sort_keys=True) + "\n"


def _whole_text(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Replace half characters, which a name that is no valid UTF-16 leaves and no file and no screen can take."""
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, dict):
        return {_whole_text(key): _whole_text(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_text(entry) for entry in value]
    return value
