"""What a rule of validity looks at, and what it says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from iotrace.schemas import Recording

from . import library
from .comparison import Comparison
from .describe import BLOCK_BYTES, workload_layer
from .description import Description

Level = Literal["invalid", "warning"]


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
    def is_replay(self) -> bool:
        """Whether the recording tells of a replay."""
        return self.recording.manifest.kind == "replayed"

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Per operation at the workload layer: io_count and failed_count."""
        if self.description is not None:
            return {
                entry.op: {name: getattr(entry, name) for name in ("io_count", "failed_count", "size_bytes")}
                for entry in self.description.operations
            }
        with library.opened(self.recording) as connection:
            layer = workload_layer(row["layer"] for row in library.run(connection, "layers").to_pylist())
            counts: dict[str, dict[str, int]] = {}
            for row in library.run(connection, "streams", layer=layer or "").to_pylist():
                entry = counts.setdefault(row["op"], {"io_count": 0, "failed_count": 0, "size_bytes": 0})
                for name in entry:
                    entry[name] += row[name]
            return counts

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

    def figure(self, name: str) -> float:
        """A number of the replay's manifest; 0 if it is not there."""
        value = self.replay.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def share(self, name: str) -> float:
        """A count of the replay's manifest as a share of the I/Os it issued."""
        return self.figure(name) / max(self.figure("issued_ios"), 1.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """``judge`` gives the finding, if there is one; only replays are judged if ``replays_only``."""

    id: str
    judge: Callable[[Subject], Finding | None]
    replays_only: bool
