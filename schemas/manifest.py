"""``manifest.json``: where a recording comes from, what its clock means, and how far to trust it."""

import json
import uuid as uuid_module
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import metadata, resources
from typing import Any, Final, Self

import jsonschema

from .errors import IotraceError
from .tables import FORMAT_VERSION
from .vocabulary import Kind, counted

QUALITY_WORDS: Final = {
    "good": "without known loss",
    "usable": "with flaws",
    "poor": "with heavy loss",
}
"""How something was recorded, in words that say nothing of what its figures are worth."""
HEAVY_LOSS: Final = 0.01
"""Share of the events or I/Os from which on their loss is heavy."""
SHARED_TIME: Final = "time in common"
"""How reasons end that are about what sources share of their time."""


@dataclass(slots=True)
class Clock:
    """Anchors the recording's nanoseconds to UTC. ``name`` is the clock the source used."""

    start_utc_ns: int
    resolution_ns: float
    name: str
    start_utc_uncertainty_ns: int | None = None
    """How far ``start_utc_ns`` may be from what the source host's own clock showed; None where that is not known."""
    pairs: list[list[int]] = field(default_factory=list)
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

    method: str
    basis: str
    reference: str | None = None
    offset_ns: int = 0
    uncertainty_ns: int | None = None
    at_ns: int = 0
    matched_ios: int | None = None
    drift_ppm: float | None = None
    drift_uncertainty_ppm: float | None = None


@dataclass(slots=True)
class Source:
    """A file or device the recording was made from."""

    name: str
    kind: str
    bytes: int | None = None
    sha256: str | None = None
    events: int | None = None
    alignment: Alignment | None = None
    """None where it is the only source, or brought no clock of its own."""


@dataclass(slots=True)
class Quality:
    """What is known to be missing or wrong, in counts; `judge` turns them into a verdict."""

    events_lost: int = 0
    buffers_lost: int = 0
    sequence_holes: int = 0
    unpaired_issues: int = 0
    unpaired_completions: int = 0
    latencies_dropped: int = 0
    clock_steps: int = 0
    source_gaps: int = 0
    """Pairs of sources that share no time: rates over the whole are too low, and one explains nothing of the other."""
    damaged_buffers: int = 0
    counted_ios: int = 0
    """I/Os that the kernel's own counters of the disks show for the time of a live recording."""
    missing_ios: int = 0
    """Of these, how many the trace lacks beyond what was in flight when it began."""
    counted_bytes: int = 0
    missing_bytes: int = 0
    truncated_tail: bool = False
    ended: str = "normally"
    """How the recording ended: ``normally`` or a sentence on what cut it short."""
    shared_time: list[str] = field(default_factory=list)
    """What sources share of their time, where that is none or little: the first thing to be known of a recording."""
    losses: list[dict[str, Any]] = field(default_factory=list)
    """When losses were noticed, where the recorder told: ``at_ns``, ``events``, ``buffers`` since the look before, and
    ``source``."""
    notes: list[str] = field(default_factory=list)
    verdict: str = "good"
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
        if self.events_lost:
            kept = max(events, events_recorded)
            share = self.events_lost / (kept + self.events_lost)
            # Of nothing that was kept no share can be told.
            told = f" ({share:.2%})" if kept else ""
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
                f"{ios}{counted(self.missing_bytes, 'byte')} ({share:.2%}) that the kernel's own counters of the disks "
                "show are not in the trace"
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
        unpaired = self.unpaired_completions
        if unpaired > max(10, events // 1000):
            usable.append(f"{counted(unpaired, 'completion')} without their start")
        if self.truncated_tail:
            usable.append("the end of the source is cut off")
        if self.ended != "normally":
            usable.append(f"recording ended early: {self.ended}")
        self.verdict = "poor" if poor else "usable" if usable else "good"
        self.reasons = poor + usable
        return self


@dataclass(slots=True)
class Manifest:
    """Everything about a recording that is not a row of one of its tables."""

    kind: str
    title: str
    clock: Clock
    window_start_ns: int = 0
    window_end_ns: int = 0
    host: dict[str, Any] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    quality: Quality = field(default_factory=Quality)
    replay: dict[str, Any] | None = None
    """Settings and outcome of the replay where ``kind`` is replayed."""
    watched: dict[str, Any] | None = None
    """Where it was recorded beside a replay: ``replay_uuid``, ``replay`` (its settings and outcome) and ``load_ns``,
    from when until when its load lasted on this recording's clock; outside is the replay's own look at the target."""
    tools: dict[str, str] = field(default_factory=lambda: {"iotrace": metadata.version("iotrace")})
    uuid: str = field(default_factory=lambda: str(uuid_module.uuid4()))
    rows: dict[str, int] = field(default_factory=dict)
    """Rows per table, filled in by the writer: a file that lost its end is noticed."""
    format_version: int = FORMAT_VERSION

    @property
    def duration_ns(self) -> int:
        """Length of the recorded window."""
        return self.window_end_ns - self.window_start_ns

    @property
    def is_played(self) -> bool:
        """Whether a plan was played, on storage or on a model: its I/Os have a time at which they were due."""
        return self.kind in {Kind.REPLAYED, Kind.SIMULATED}

    @property
    def model(self) -> dict[str, Any] | None:
        """The model that answered where ``kind`` is simulated (`iotrace.schemas.models.tested_words`)."""
        return (self.replay or {}).get("model") if self.kind == Kind.SIMULATED else None

    def to_json(self) -> str:
        """Text of ``manifest.json``; checked against ``manifest.schema.json`` first.

        Raises `IotraceError` for times that no file can hold.
        """
        Kind(self.kind)
        data = _whole_text(asdict(self))
        try:
            _validator().validate(data)
        except jsonschema.ValidationError as problem:
            if problem.validator not in {"minimum", "maximum"}:
                raise
            raise IotraceError(
                f"what was read has a time or count that cannot be: {problem.json_path[2:]} is {problem.instance}",
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
            _validator().validate(data)
        except (json.JSONDecodeError, jsonschema.ValidationError, RecursionError) as problem:
            reason = problem.message if isinstance(problem, jsonschema.ValidationError) else str(problem)
            raise IotraceError(
                f"'{name}' has a damaged manifest.json: {reason[:200]}",
                hint="restore it from a copy, or import the original trace again",
            ) from problem
        return cls(
            **{
                **{key: value for key, value in data.items() if key in _names(cls)},
                "clock": Clock(**_known(Clock, data["clock"])),
                "sources": [_source(source) for source in data["sources"]],
                "quality": Quality(**_known(Quality, data["quality"])),
            }
        )


@cache
def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of ``manifest.json``."""
    text = resources.files(__package__).joinpath("manifest.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _validator() -> Any:  # noqa: ANN401 - the class depends on what the schema says it is written in
    schema = manifest_schema()
    return jsonschema.validators.validator_for(schema)(schema)


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


def _names(cls: type) -> set[str]:
    return {entry.name for entry in fields(cls)}


def _source(data: dict[str, Any]) -> Source:
    source = Source(**_known(Source, data))
    alignment = data.get("alignment")
    source.alignment = Alignment(**_known(Alignment, alignment)) if alignment else None
    return source


def _known(cls: type, data: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a later iotrace of the same format version may have added."""
    return {key: value for key, value in data.items() if key in _names(cls)}
