"""What a replay is asked to do, and what it tells while it does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from iotrace.schemas import IotraceError

from .run.pacing import PACINGS

BACKENDS = ("auto", "io_uring", "threads")
MODES = ("compress", "superpose", "think")
ADDRESSES = ("auto", "identity", "compact", "fold")
FOOTPRINTS = ("disjoint", "same")
COPIES_MAX = 256
SUBMITTERS_MAX = 64
RATIO_MAX = 100.0
IN_FLIGHT = 1024
"""Where nothing is said. A model needs no such cap, but for its memory: `IN_FLIGHT_MOST`."""
IN_FLIGHT_MOST = 16_384


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a recording that one of several load generators plays: whole streams (see `plan.shards`)."""

    number: int
    weights: tuple[float, ...]
    """How much of the load each of them takes, relative to one another."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of `replay`. Targets are paths of files or block devices."""

    targets: tuple[str, ...] = ()
    """The first is where every source device goes that ``maps`` does not name."""
    maps: Mapping[str | int, str] = field(default_factory=dict)
    """Source device (id or name; for the filesystem and sql layers the source file's id or path) to target."""
    scale: float = 1.0
    mode: str = "compress"
    footprint: Literal["disjoint", "same"] = "disjoint"
    """Whether superposed copies have addresses of their own."""
    window_ns: tuple[int, int] | None = None
    """The part of the recording to play, on its own clock: start included, end not."""
    repeat: int = 1
    """Play the plan so many times back to back."""
    loop_seconds: float | None = None
    """Play it again and again until so much time has passed; ``repeat`` is not looked at then."""
    ramp_seconds: float = 0.0
    """Let the load climb evenly from nothing for so long at the start."""
    roles: tuple[str, ...] = ()
    """Play only I/O of files with one of these roles; ``unattributed`` is I/O whose file is unknown."""
    files: tuple[str, ...] = ()
    """Play only I/O of files whose path matches one of these patterns."""
    processes: tuple[str, ...] = ()
    """Play only I/O of processes whose name matches, or whose number is, one of these."""
    ops: tuple[str, ...] = ()
    """Play only these of read, write and flush."""
    addresses: str = "auto"
    """See `addresses`: auto, identity, compact or fold."""
    layer: str | None = None
    """The layer whose I/Os to play; None for the first present of block, device, filesystem, sql."""
    buffered: bool = False
    """Go through the cache knowingly."""
    allow_writes: bool = False
    """Permit writing to what iotrace did not make."""
    destroy_data: tuple[str, ...] = ()
    """Devices whose data may be destroyed, each by the very name it has among the targets."""
    file_bytes: int | None = None
    """Size of file targets that iotrace makes; None for what the addresses need."""
    compressible: float = 1.0
    """How many bytes of the data on file targets a compressor makes one of."""
    dedupe: float = 1.0
    """How many bytes of the data on file targets there are for each unlike any other."""
    max_in_flight: int = IN_FLIGHT
    submitters: int | None = None
    """Threads that issue; None for as many as the plan's fullest second takes (see `submitters`)."""
    pacing: str = "auto"
    """What is done between two deadlines: spin (precise) or sleep (gentle); auto tries what this host is better at."""
    max_errors: int | None = None
    """Stop once more than this many I/Os failed; None for never."""
    backend: Literal["auto", "io_uring", "threads"] = "auto"
    reads_only: bool = False
    seed: int = 0
    drain_seconds: float = 30.0
    """How long to wait at the end for I/Os in flight."""
    stall_seconds: float = 120.0
    """End the run when a target with I/Os in flight completes nothing for so long; refuse one that does not answer for
    so long before it."""
    title: str | None = None
    shard: Shard | None = None
    """Play only this part of it; None for all."""

    @property
    def all_targets(self) -> tuple[str, ...]:
        """The targets and those of ``maps``."""
        return (*self.targets, *self.maps.values())

    def check(self) -> None:
        """Raise `IotraceError` for values that mean nothing."""
        rules = (
            (
                self.targets or self.maps,
                "a replay needs a target",
                "--target PATH names a file or a block device",
            ),
            (
                all(name.strip() for name in self.all_targets),
                "a target has an empty name",
                "--target PATH names a file or a block device",
            ),
            (self.mode in MODES, f"there is no mode '{self.mode}'", f"modes are {', '.join(MODES)}"),
            (
                self.mode != "superpose" or self.scale <= COPIES_MAX,
                f"{self.scale:g} copies are too many",
                f"superpose at most {COPIES_MAX}, or use --mode compress",
            ),
            (
                self.footprint in FOOTPRINTS,
                f"there is no footprint '{self.footprint}'",
                f"footprints are {' and '.join(FOOTPRINTS)}",
            ),
            (
                self.addresses in ADDRESSES,
                f"there is no way of mapping addresses called '{self.addresses}'",
                f"--addresses takes {', '.join(ADDRESSES)}",
            ),
            (
                self.loop_seconds is None or 0 < self.loop_seconds <= 10**7,
                f"{self.loop_seconds} s is not a time to loop for",
                "--loop takes a time such as 10m, or a number of passes",
            ),
            (
                0 <= self.ramp_seconds <= 10**6,
                f"{self.ramp_seconds:g} s is not a time to ramp up in",
                "--ramp takes a time such as 30s",
            ),
            (
                1 <= self.compressible <= RATIO_MAX,
                f"data cannot be compressible {self.compressible:g}:1",
                f"--compressible takes 1:1 to {RATIO_MAX:g}:1",
            ),
            (
                1 <= self.dedupe <= RATIO_MAX,
                f"data cannot be deduplicated {self.dedupe:g}:1",
                f"--dedupe takes 1:1 to {RATIO_MAX:g}:1",
            ),
            (
                not (self.reads_only and self.ops and "read" not in self.ops),
                f"reads only and only {' and '.join(self.ops)} leave nothing to play",
                "choose one of --reads-only and --op",
            ),
            (
                self.backend in BACKENDS,
                f"there is no backend '{self.backend}'",
                f"backends are {', '.join(BACKENDS)}",
            ),
            (
                self.pacing in PACINGS,
                f"there is no pacing '{self.pacing}'",
                f"--pacing takes {', '.join(PACINGS)}",
            ),
            (
                1e-4 <= self.scale <= 1e4,
                f"{self.scale:g} is not a scale",
                "a scale is a factor such as 2 or 0.25",
            ),
            (
                1 <= self.max_in_flight <= IN_FLIGHT_MOST,
                f"{self.max_in_flight} I/Os in flight are not possible",
                "--max-in-flight takes 1 to 16384",
            ),
            (
                self.submitters is None or 1 <= self.submitters <= SUBMITTERS_MAX,
                f"{self.submitters} submitters are not possible",
                f"--submitters takes 1 to {SUBMITTERS_MAX}",
            ),
            (
                self.submitters in {None, 1} or self.mode != "think",
                "with --mode think I/Os wait for one another, so one thread issues them all",
                "leave --submitters out, or choose another --mode",
            ),
            (
                self.shard is None or self.mode != "think",
                "with --mode think I/Os wait for one another, which they cannot on different machines",
                "give each generator a recording of its own, or choose another mode",
            ),
            (self.repeat >= 1, f"the plan cannot be played {self.repeat} times", "give at least 1"),
            (
                self.window_ns is None or self.window_ns[0] < self.window_ns[1],
                "the window ends before it starts",
                "give its start first",
            ),
            (
                self.max_errors is None or self.max_errors >= 0,
                f"{self.max_errors} errors cannot be allowed",
                "--max-errors takes 0 or more",
            ),
            (
                self.file_bytes is None or self.file_bytes >= 4096,
                f"a target file of {self.file_bytes} bytes is too small",
                "give at least 4096",
            ),
            (
                0 <= self.drain_seconds <= 86_400,
                f"{self.drain_seconds:g} s is not a time to wait at the end",
                "0 to 86400 seconds",
            ),
            (
                1 <= self.stall_seconds <= 86_400,
                f"{self.stall_seconds:g} s is not a time after which storage counts as dead",
                "--stall-timeout takes 1 to 86400 seconds",
            ),
        )
        for holds, message, hint in rules:
            if not holds:
                raise IotraceError(message, hint=hint)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is.

    ``phase`` is survey (I/Os of the recording seen: ``due_ios`` of ``planned_ios``), check (a target is waited for that
    has not answered yet), fill (bytes of a target being made) or play. Counts are totals since the start of play;
    ``response_ns_mean`` and ``rate_per_s`` stand for the time since the last report, and are None where nothing
    completed in it.
    """

    phase: Literal["survey", "check", "fill", "play"]
    elapsed_ns: int = 0
    planned_ns: int = 0
    planned_ios: int = 0
    due_ios: int = 0
    issued_ios: int = 0
    completed_ios: int = 0
    in_flight: int = 0
    failed_ios: int = 0
    delayed_ios: int = 0
    bytes: int = 0
    rate_per_s: float | None = None
    """I/Os completed per second."""
    offered_per_s: float | None = None
    """I/Os due per second."""
    response_ns_mean: float | None = None
    service_ns_mean: float | None = None
    target: str | None = None
    fill_bytes: int = 0
    fill_bytes_total: int = 0
