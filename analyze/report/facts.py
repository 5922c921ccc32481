"""What a report says, as data; the page shows nothing that is not in here or in a table of its charts.

Here, too, are the facts that need no chart: which validity rules fired, and where each recording comes from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from iotrace.analyze import validity
from iotrace.analyze.ceiling.against_knee import BesideKnee
from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.describe.description import Description
from iotrace.analyze.incident import Incidents
from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.knee.need import Need
from iotrace.analyze.present.program import HIDDEN, figure
from iotrace.analyze.slo import Objective
from iotrace.analyze.validity.sweep import check_sweep
from iotrace.schemas import Recording, Sweep
from iotrace.schemas.run import ClosedLoop, Replay

_QUANTILE: Final = 0.95
"""Highest quantile the verdict on a recording speaks of unless an objective names a higher one."""
_SETTINGS = ("scale", "mode", "loop", "backend", "layer", "direct", "footprint", "seed")


@dataclass(frozen=True, slots=True)
class ObjectiveCheck:
    """An objective held against one recording.

    ``is_met`` is None where nothing tells, as the sentence says: under 100 I/Os lie beyond the quantile, or those
    without an end may decide either way.
    """

    objective: Objective
    metric: str
    quantile_ns: int | None
    """Of the ``io_count`` I/Os that ended. Where those without an end are why it is missed, what it is at the least."""
    io_count: int
    is_met: bool | None
    sentence: str
    layer: str | None = None
    """Where the quantile was measured; None of results of other tools, and where nothing tells."""
    unfinished_count: int = 0
    """I/Os without an end. Each counts for as long as it had waited, unless its end may have been lost."""


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """One recording: its description, and the objectives held against it."""

    name: str
    description: Description
    objectives: list[ObjectiveCheck]
    sentence: str
    slow_times: Annotated[Incidents | None, HIDDEN] = None
    """None where nothing in it tells of latency over time."""

    @figure
    def incidents(self) -> Incidents | None:
        """Slow windows, without timelines: a long recording's would fill megabytes, and `incident --json` has them."""
        return self.slow_times and replace(self.slow_times, timelines=[])


@dataclass(frozen=True, slots=True)
class SweepFacts:
    """One sweep and its knee. ``target`` is what was loaded, as far as the sweep noted it."""

    name: str
    title: str
    target: str | None
    settings: dict[str, Any]
    knee: Knee
    verdict: str
    beside_ceiling: BesideKnee | None = None
    """The knee held against what its path allows, where that was described."""
    model: str = ""
    """What must be said of the model that answered; empty where storage did."""
    source_uuid: str | None = None
    """Identity of the recording that it plays; None where none is known."""


@dataclass(frozen=True, slots=True)
class ComparisonFacts:
    """One recording held against another; ``before`` and ``after`` are the names of their folders."""

    before: str
    after: str
    sentence: str
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class FindingFacts:
    """A validity rule that fired on one input. ``level`` is invalid (do not rely on the verdict) or warning."""

    name: str
    level: str
    rule: str
    title: str
    detail: str
    hint: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one recording comes from. ``sources`` are name, kind, bytes, sha256 and events of what it was made from."""

    name: str
    uuid: str
    kind: str
    title: str
    recorded_utc: str
    duration_ns: int
    host: str
    quality: str
    reasons: list[str]
    replay: str
    """Settings of the replay, in words; empty for what was captured."""
    tools: dict[str, str]
    sources: list[dict[str, Any]]


@dataclass(slots=True)
class ReportFacts:
    """A whole report. ``path`` is the HTML file and ``size_bytes`` its length."""

    title: str
    created_utc: str
    verdict: str
    """One sentence for each sweep; without a sweep one on the first comparison, or on the first recording.

    Where a load is needed, the answer has said it, and the sweep's section says it at length."""
    also: list[str]
    """What else to know at once, and what the inputs cannot tell."""
    is_enough: bool | None
    """Whether the load that is needed is carried, else whether every objective is met at 1x; None where there is none,
    or the inputs do not tell."""
    is_no: bool = False
    """Whether a load or an objective was asked about, and the answer is not yes: no, or it cannot be told."""
    answer: str = ""
    """The same as a sentence that names what meets them; where a load is needed, whether it is carried."""
    needs: list[Need] = field(default_factory=list)
    """Whether each sweep's storage carries the load that is needed."""
    sweeps: list[SweepFacts] = field(default_factory=list)
    comparisons: list[ComparisonFacts] = field(default_factory=list)
    recordings: list[RecordingFacts] = field(default_factory=list)
    findings: list[FindingFacts] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    path: Path | None = None
    size_bytes: int = 0


def findings_of(
    inputs: Sequence[Recording | Sweep],
    objectives: Sequence[Objective],
    compared: Mapping[str, Comparison],
    described: Mapping[Path, Description],
) -> list[FindingFacts]:
    """Findings on all inputs, invalidating ones first; ``compared`` by the uuid of the recording that is its b.

    ``described``: what is known of recordings already, by path. Raises `IotraceError` if an input cannot be read.
    """
    quantile = max((objective.quantile for objective in objectives), default=_QUANTILE)
    found: list[FindingFacts] = []
    for one in inputs:
        if isinstance(one, Recording):
            comparison = compared.get(one.manifest.uuid)
            findings = validity.check(
                one, comparison=comparison, quantile=quantile, description=described.get(one.path)
            )
            found += [facts_of(one.name, finding) for finding in findings]
        else:
            name = one.path.name.removesuffix(".iotrace")
            found += [facts_of(name, finding) for finding in check_sweep(one.recordings())]
    return sorted(found, key=lambda one: validity.danger(one.level, one.rule))


def facts_of(name: str, finding: validity.Finding) -> FindingFacts:
    """A rule that fired on the input ``name``."""
    return FindingFacts(name, finding.level, finding.rule, finding.title, finding.detail, finding.hint)


def origin(recording: Recording) -> Origin:
    """Identity, start, quality, tools and sources, as the manifest has them."""
    manifest = recording.manifest
    seconds, rest_ns = divmod(manifest.clock.start_utc_ns, 1_000_000_000)
    try:
        at = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        at = "unknown"
    host = manifest.host.name or ""
    return Origin(
        recording.name,
        manifest.uuid,
        manifest.kind,
        manifest.title or recording.name,
        f"{at}.{rest_ns // 1_000_000:03} UTC" if at != "unknown" else at,
        manifest.duration_ns,
        str(host),
        manifest.quality.words,
        list(manifest.quality.reasons),
        _settings(manifest.replay),
        dict(manifest.tools),
        [
            {
                "name": source.name,
                "kind": source.kind,
                "bytes": source.bytes,
                "sha256": source.sha256,
                "events": source.events,
            }
            for source in manifest.sources
        ],
    )


def _settings(run: Replay | ClosedLoop | None) -> str:
    """The settings that decide what a replay's figures mean, in words."""
    parts = [
        f"{name} {value}" for name in _SETTINGS if (value := getattr(run, name, None)) not in (None, "open")
    ]
    if isinstance(run, Replay) and run.source_uuid:
        parts.append(f"of {run.source_uuid}")
    return ", ".join(parts)
