"""What a rule of validity is, what it looks at, and what it says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from iotrace.schemas import Kind, Recording

from . import library
from .comparison import Comparison
from .describe import BLOCK_BYTES, workload_layer
from .description import Description

Level = Literal["invalid", "warning"]
Scope = Literal["captured", "replay", "characterization", "comparison"]
"""What a rule is about: recordings of production, replays of one, cells of a characterization, or a comparison."""


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
    """A recording and what is known of it; facts that cost a query are asked for at most once."""

    recording: Recording
    comparison: Comparison | None = None
    quantile: float = 0.99
    """The highest quantile that is quoted."""
    description: Description | None = None
    """What `describe` found, if it was asked: spares passing over the rows again."""
    replay: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.replay = self.recording.manifest.replay or {}

    @property
    def scope(self) -> Scope:
        """What made the recording. A closed loop without pauses is a cell of a characterization."""
        if self.recording.manifest.kind != "replayed":
            return "captured"
        return "characterization" if self.replay.get("loop") == "closed" else "replay"

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
    def again(self) -> str:
        """What the user does to get another such recording, as a hint begins."""
        if self.is_tested:
            return "run the test for"
        return {"captured": "record", "replay": "replay", "characterization": "run characterize"}[self.scope]

    @property
    def run(self) -> str:
        """What made the recording, as a noun."""
        return {"captured": "recording", "replay": "replay", "characterization": "run"}[self.scope]

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Per operation at the workload layer: io_count, failed_count, size_bytes."""
        if self.description is not None:
            return {
                entry.op: {name: getattr(entry, name) for name in ("io_count", "failed_count", "size_bytes")}
                for entry in self.description.operations
            }
        with library.opened(self.recording) as connection:
            layer = workload_layer(row["layer"] for row in library.run(connection, "layers").to_pylist())
            names = ("io_count", "failed_count", "size_bytes")
            counts: dict[str, dict[str, int]] = {}
            for row in library.run(connection, "streams", layer=layer or "").to_pylist():
                entry = counts.setdefault(row["op"], dict.fromkeys(names, 0))
                for name in entry:
                    entry[name] += row[name]
            return counts

    @cached_property
    def unfinished_count(self) -> int:
        """I/Os at the workload layer that were not seen to end."""
        if self.description is not None:
            layers: list[dict[str, Any]] = [
                {"layer": one.layer, "unfinished_count": one.unfinished_count}
                for one in self.description.layers
            ]
        else:
            with library.opened(self.recording) as connection:
                layers = library.run(connection, "layers").to_pylist()
        layer = workload_layer(row["layer"] for row in layers)
        return sum(row["unfinished_count"] for row in layers if row["layer"] == layer)

    @cached_property
    def working_set_bytes(self) -> int:
        """Bytes touched at the workload layer, in blocks of 64 KiB."""
        if self.description is not None and self.description.total is not None:
            return self.description.total.working_set_bytes
        with library.opened(self.recording) as connection:
            layer = workload_layer(row["layer"] for row in library.run(connection, "layers").to_pylist())
            rows = library.run(
                connection, "working_set", layer=layer or "", block_bytes=BLOCK_BYTES
            ).to_pylist()
            return sum(int(row["touched_count"]) for row in rows if row["scope"] == "device") * BLOCK_BYTES

    @cached_property
    def fifths(self) -> list[tuple[int, float]]:
        """Of each fifth of the run: I/Os that were issued in it, and their mean service time in nanoseconds."""
        with library.opened(self.recording) as connection:
            rows = library.run(connection, "layers").to_pylist()
            layer = workload_layer(row["layer"] for row in rows)
            span = next((row for row in rows if row["layer"] == layer), None)
            if span is None:
                return []
            from_ns, until_ns = span["first_issued_ns"], span["last_seen_ns"] + 1
            slot_ns = max(-(-(until_ns - from_ns) // 5), 1)
            table = library.run(
                connection, "layer_slots", from_ns=from_ns, until_ns=until_ns, slot_ns=slot_ns
            ).to_pylist()
        found = []
        for slot in range(5):
            mine = [row for row in table if row["slot"] == slot and row["layer"] == layer]
            count = sum(row["io_count"] for row in mine)
            found.append((count, sum(row["latency_sum_ns"] for row in mine) / max(count, 1)))
        return found

    def figure(self, name: str) -> float:
        """A number of the replay's manifest; 0 if it is not there."""
        value = self.replay.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def share(self, name: str) -> float:
        """A count of the replay's manifest as a share of the I/Os it issued."""
        return self.figure(name) / max(self.figure("issued_ios"), 1.0)


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
CELLS: frozenset[Scope] = frozenset({"characterization"})
RUNS: frozenset[Scope] = REPLAYS | CELLS
ANY: frozenset[Scope] = CAPTURED | RUNS
COMPARISONS: frozenset[Scope] = frozenset({"comparison"})
