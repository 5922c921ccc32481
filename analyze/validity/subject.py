"""What a rule of validity is, what it looks at, and what it says.

Several rules, and the knee, ask what others did to the device meanwhile, and whether several load generators played one
load: all of them, and at the same time.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Self

import duckdb
import pyarrow.compute as pc

from iotrace.analyze import library
from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.describe.description import Description
from iotrace.analyze.describe.figures import GRANULE_BYTES
from iotrace.analyze.units import format_duration_ns, format_share
from iotrace.schemas import Kind, Recording
from iotrace.schemas.run import Replay, Run
from iotrace.schemas.vocabulary import load_layer

Level = Literal["invalid", "warning"]
Scope = Literal["captured", "replay", "simulation", "characterization", "comparison"]
"""What a rule is about: recordings of production, replays of one on storage or on a model, cells of a characterization,
or a comparison."""
APART_SHARE_MAX: Final = 0.01
"""Of a run's length: for so long at each end the load is not that of all of them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired: what is wrong in a few words and in one sentence, and what to do about it."""

    rule: str
    level: Level
    title: str
    detail: str
    hint: str


@dataclass
class Subject:
    """A recording and what is known of it; facts that cost a query are asked for at most once.

    All queries share one connection, which leaving the subject as a context closes.
    """

    recording: Recording
    comparison: Comparison | None = None
    quantile: float = 0.99
    """The highest quantile that is quoted."""
    description: Description | None = None
    """What `describe` found, if it was asked: spares passing over the rows again."""
    connection: duckdb.DuckDBPyConnection | None = None
    """Has the recording open, where somebody asked it before and knows some of it already."""
    _opened: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def played(self) -> Run:
        """What a replay or a run of characterize says of itself; an empty one for what is neither."""
        return self.recording.manifest.replay or Run()

    @property
    def replay(self) -> Replay:
        """What a replay says of itself; an empty one for what is none."""
        return self.recording.manifest.open_replay

    @property
    def scope(self) -> Scope:
        """What made the recording. A closed loop without pauses is a cell of a characterization."""
        if not self.recording.manifest.is_played:
            return "captured"
        if self.recording.manifest.model is not None:
            return "simulation"
        return "characterization" if self.recording.manifest.is_closed_loop else "replay"

    @property
    def is_tested(self) -> bool:
        """Whether it holds what another tool's test printed."""
        return self.recording.manifest.kind == Kind.TESTED

    @cached_property
    def length_ns(self) -> int | None:
        """How long it lasted; of another tool's tests the shortest run, None where the tool does not say."""
        if not self.is_tested:
            return self.recording.manifest.duration_ns
        rows = self.recording.read("results", ["duration_ns"]).to_pylist()
        return min((row["duration_ns"] for row in rows if row["duration_ns"]), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing that figures of storage could come from."""
        telling = {"io", "counters", "results"}.intersection(self.recording.table_names())
        return not any(self.recording.row_count(name) for name in telling)

    @property
    def again(self) -> str:
        """What the user does to get another such recording, as a hint begins."""
        if self.is_tested:
            return "run the test for"
        words = {"captured": "record", "replay": "replay", "simulation": "replay"}
        return words.get(self.scope, "run characterize")

    @property
    def run(self) -> str:
        """What made the recording, as a noun."""
        words = {"captured": "recording", "replay": "replay", "simulation": "replay"}
        return words.get(self.scope, "run")

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Per operation at the workload layer: io_count, failed_count, size_bytes."""
        if self.description is not None:
            return {
                entry.op: {name: getattr(entry, name) for name in ("io_count", "failed_count", "size_bytes")}
                for entry in self.description.operations
            }
        names = ("io_count", "failed_count", "size_bytes")
        counts: dict[str, dict[str, int]] = {}
        for row in self._ask("streams", layer=self._layer):
            entry = counts.setdefault(row["op"], dict.fromkeys(names, 0))
            for name in entry:
                entry[name] += row[name]
        return counts

    @cached_property
    def unfinished_count(self) -> int:
        """I/Os at the workload layer that were not seen to end."""
        if self.description is None:
            return sum(row["unfinished_count"] for row in self._layers if row["layer"] == self._layer)
        layers = self.description.layers
        layer = load_layer(one.layer for one in layers)
        return sum(one.unfinished_count for one in layers if one.layer == layer)

    @cached_property
    def working_set_bytes(self) -> int:
        """Bytes touched at the workload layer, in whole 4 KiB."""
        if self.description is not None and self.description.total is not None:
            return self.description.total.working_set_bytes
        rows = self._ask("working_set", layer=self._layer, block_bytes=GRANULE_BYTES)
        return sum(int(row["touched_count"]) for row in rows if row["scope"] == "device") * GRANULE_BYTES

    @cached_property
    def fifths(self) -> list[tuple[int, float]]:
        """Of each fifth of the load: reads and writes wanted in it, and their mean response time in nanoseconds."""
        if not self._layer:
            return []
        found = {row["fifth"]: row for row in self._ask("fifths", layer=self._layer)}
        return [
            (found[slot]["io_count"], found[slot]["response_ns_mean"]) if slot in found else (0, 0.0)
            for slot in range(5)
        ]

    @cached_property
    def disk_counts(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of query ``disk_counts`` by disk; none where the recorder's own I/O was left out and not counted."""
        own = any("of iotrace itself left out" in note for note in self.recording.manifest.quality.notes)
        found: dict[str, list[dict[str, Any]]] = {}
        if not self._has_kernel_counts:
            return found
        rows = self._ask("disk_counts")
        for row in rows:
            found.setdefault(row["device"], []).append(row)
        return found if not own or any(row["has_own"] for row in rows) else {}

    @cached_property
    def _has_kernel_counts(self) -> bool:
        with self.recording.reading("counters"):
            return (
                self.recording.row_count("counters") > 0
                and pc.any(
                    pc.equal(self.recording.read("counters", ["object"])["object"], "diskstats")
                ).as_py()
            )

    @cached_property
    def _layers(self) -> list[dict[str, Any]]:
        return self._ask("layers")

    @property
    def _layer(self) -> str:
        """The one layer load is counted at; empty if there are no I/Os."""
        return load_layer(row["layer"] for row in self._layers) or ""

    def _ask(self, query_name: str, **parameters: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        """Rows of a query about I/Os; where there are none, as in another tool's results, DuckDB is not started."""
        if not self._has_ios:
            return []
        rows: list[dict[str, Any]] = library.run(self._connection, query_name, **parameters).to_pylist()
        return rows

    @cached_property
    def _has_ios(self) -> bool:
        with self.recording.reading("io"):
            return self.recording.row_count("io") > 0

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self.connection or self._opened.enter_context(library.opened(self.recording))


@dataclass(frozen=True, slots=True)
class Rule:
    """``judge`` gives the finding, if there is one; it is asked only about what is in ``scopes``."""

    id: str
    fires_when: str
    """The condition in words, as docs/methods.md has it."""
    means: str
    """What it does to the figures."""
    scopes: frozenset[Scope]
    judge: Callable[[Subject], Finding | None]


CAPTURED: frozenset[Scope] = frozenset({"captured"})
REPLAYS: frozenset[Scope] = frozenset({"replay"})
SIMULATIONS: frozenset[Scope] = frozenset({"simulation"})
PACED: frozenset[Scope] = REPLAYS | SIMULATIONS
CELLS: frozenset[Scope] = frozenset({"characterization"})
RUNS: frozenset[Scope] = REPLAYS | CELLS
ANY: frozenset[Scope] = CAPTURED | RUNS | SIMULATIONS
COMPARISONS: frozenset[Scope] = frozenset({"comparison"})


def others_bytes(run: Run | None, own_bytes: int) -> int | None:
    """Bytes that the device's own counters moved by beyond ``own_bytes``; None where they are not known.

    ``run`` is what a replay says of itself. Counters are there only where the target is a whole device, or the
    device of its file is known.
    """
    if run is None or not run.device_counters:
        return None
    seen = 0
    for look in run.device_counters.values():
        before, after = look.before, look.after
        if before is None or after is None:
            return None
        seen += after.read_bytes - before.read_bytes + after.written_bytes - before.written_bytes
    return seen - own_bytes


def lost(run: Replay) -> str | None:
    """Which generators' I/Os are missing, in words; None where none are."""
    gone = [shard.host for shard in run.shards if shard.ended == "lost"]
    if not gone:
        return None
    return f"what {' and '.join(gone)} played is not in it ({len(gone)} of {len(run.shards)} generators)"


def apart(run: Replay) -> str | None:
    """How far the starts lie apart, in words, where that is too far or not known; None where it is near enough.

    From the earliest start that is possible to the latest, with the bounds that hold whatever the network did.
    """
    started = [shard for shard in run.shards if shard.ended != "lost"]
    if len(started) < 2:
        return None
    spread_ns = spread(run)
    if spread_ns is None:
        return "the clocks of the generators could not be compared, so when each began is not known"
    if spread_ns <= APART_SHARE_MAX * run.duration_ns:
        return None
    share = format_share(spread_ns / max(run.duration_ns, 1))
    return f"their starts may lie {format_duration_ns(spread_ns)} apart, {share} of the run"


def spread(run: Replay) -> int | None:
    """The most that two generators' starts may lie apart; None where a clock could not be compared."""
    earliest, latest = [], []
    for shard in run.shards:
        if shard.ended == "lost":
            continue
        if shard.start_skew_ns is None or shard.start_skew_bound_ns is None:
            return None
        earliest.append(shard.start_skew_ns - shard.start_skew_bound_ns)
        latest.append(shard.start_skew_ns + shard.start_skew_bound_ns)
    return max(latest) - min(earliest) if earliest else None
