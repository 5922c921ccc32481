"""Runs cells on a target: opens it once, keeps each cell as a recording."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from iotrace.replay.options import Progress, ReplayOptions
from iotrace.replay.run import result
from iotrace.replay.run.play import Plan, Played, play
from iotrace.replay.targets.fill import Fill
from iotrace.replay.targets.refusals import Permission, refuse_recording
from iotrace.replay.targets.silent_storage import refuse_silent
from iotrace.replay.targets.target import Target, changes_of, open_target, refuse_changed
from iotrace.schemas import Clock, IoFlags, IotraceError, Kind, Manifest, Recording, RecordingWriter, stopping
from iotrace.schemas.models import is_model_target
from iotrace.schemas.run import ClosedLoop, DeviceLook

from .workload import Cell, Series

_ROWS: Final = 1 << 16


def batches(cell: Cell, target_bytes: int, seed: int) -> Iterator[pa.RecordBatch]:
    """I/Os of ``cell`` on a target of ``target_bytes``, without end.

    Random: every whole block of the I/O's size is equally likely. Sequential: one stream from a random place on, over
    the whole target and round again, which all outstanding I/Os share.
    """
    random = np.random.default_rng([seed, cell.size_bytes, cell.outstanding])
    places = max(1, target_bytes // cell.size_bytes)
    next_place = int(random.integers(0, places))
    flags = int(IoFlags.WRITE_THROUGH) if cell.durable else 0
    while True:
        if cell.pattern == "random":
            place = random.integers(0, places, _ROWS)
        else:
            place = (next_place + np.arange(_ROWS)) % places
            next_place = (next_place + _ROWS) % places
        is_write = random.random(_ROWS) >= cell.read_share
        yield pa.record_batch(
            {
                "intended_ns": np.zeros(_ROWS, np.int64),
                "offset_bytes": place.astype(np.uint64) * np.uint64(cell.size_bytes),
                "size_bytes": np.full(_ROWS, cell.size_bytes, np.uint32),
                "op": is_write.astype(np.uint8),
                "target": np.zeros(_ROWS, np.uint16),
                "durable": pa.array(is_write & cell.durable),
                "flags": np.where(is_write, np.uint32(flags), np.uint32(0)),
            }
        )


FILE_BYTES: Final = 4 << 30
"""Size of a target file where nothing is asked for."""
PLACES_MIN: Final = 16
"""A target has to hold so many of the largest I/Os, or sequential I/O is none."""


@dataclass(frozen=True, slots=True)
class CellOptions:
    """How long each cell runs."""

    seconds: float = 10.0
    warm_up_seconds: float = 2.0
    """Runs before, and is left out of the recording."""

    def check(self) -> None:
        """Raise `IotraceError` for values that mean nothing."""
        if not 0.1 <= self.seconds <= 86_400:
            raise IotraceError(f"{self.seconds:g} s is not a length for a run", hint="0.1 to 86400 seconds")
        if not 0 <= self.warm_up_seconds <= 86_400:
            raise IotraceError(
                f"{self.warm_up_seconds:g} s is not a time to warm up", hint="0 to 86400 seconds"
            )


class Characterization:
    """An open target on which cells are run. Use as a context: leaving it closes the target."""

    def __init__(
        self,
        series: Sequence[Series],
        options: ReplayOptions,
        cells: CellOptions,
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Check and open the one target of ``options``, made and filled if it does not exist.

        Of ``options`` those count that say where and how to play, not what. Ctrl-C while the target is being filled
        raises ``KeyboardInterrupt`` and leaves nothing. Raises `IotraceError` for a target that is refused, too small
        or not there.
        """
        options.check()
        cells.check()
        if sys.platform != "linux":
            raise IotraceError(
                "characterize runs on Linux only: elsewhere iotrace cannot check what a target holds",
                hint="run it on a Linux machine that sees the same storage",
            )
        if len(options.targets) != 1:
            raise IotraceError("a characterization needs one target", hint="--target PATH names it")
        if is_model_target(options.targets):
            raise IotraceError(
                f"'{options.targets[0]}' is a model, and characterize measures storage",
                hint="iotrace replay, sweep and size play a recording on a model",
            )
        self.options, self.cells = options, cells
        largest = max(cell.size_bytes for one in series for cell in one.cells)
        least = PLACES_MIN * largest
        if options.file_bytes is not None and options.file_bytes < least:
            raise IotraceError(
                f"a target of {options.file_bytes:,} bytes is too small for I/Os of {largest:,}",
                hint=f"at least {least:,} bytes are needed",
            )
        name = options.targets[0]

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(Progress("fill", target=name, fill_bytes=done, fill_bytes_total=total))

        def waiting() -> None:
            if progress is not None:
                progress(Progress("check", target=name))

        writes, direct = (
            any(cell.read_share < 1 for one in series for cell in one.cells),
            not options.buffered,
        )
        patience_seconds = options.stall_seconds
        refuse_silent(name, writes=writes, direct=direct, patience_seconds=patience_seconds, waiting=waiting)
        refuse_recording(name)
        self.target: Target = open_target(
            name,
            writes=writes,
            permission=Permission(options.allow_writes, options.destroy_data),
            direct=direct,
            needed_bytes=max(FILE_BYTES, least),
            least_bytes=least,
            file_bytes=options.file_bytes,
            fill_with=Fill(options.compressible, options.dedupe),
            seed=options.seed,
            progress=report,
            patience_seconds=patience_seconds,
        )
        if self.target.bytes < least:
            self.target.close()
            raise IotraceError(
                f"target '{name}' of {self.target.bytes:,} bytes is too small for I/Os of {largest:,}",
                hint=f"at least {least:,} bytes are needed, or choose smaller ones with --size",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.target.close()

    def run(
        self, cell: Cell, output: Path, *, progress: Callable[[Progress], None] | None = None
    ) -> Recording:
        """Run one cell and write it to ``output``.

        Ctrl-C ends it and keeps what was measured: ``manifest.replay.interrupted`` says so. If nothing was, it raises
        ``KeyboardInterrupt``.
        """
        options = self._options(cell)
        warm_up_ns = round(self.cells.warm_up_seconds * 1e9)
        length_ns = warm_up_ns + round(self.cells.seconds * 1e9)
        kept = _Kept()
        with stopping.deferred(), RecordingWriter(output) as writer:

            def write(outcome: pa.RecordBatch) -> None:
                table = kept.take(outcome, warm_up_ns)
                if table.num_rows:
                    writer.append("io", result.io_table(table, [self.target]))

            plan = Plan(
                batches=batches(cell, self.target.bytes, options.seed),
                read_bytes_max=cell.size_bytes if cell.read_share > 0 else 0,
                write_bytes_max=cell.size_bytes if cell.read_share < 1 else 0,
                planned_ns=length_ns,
                planned_ios=0,
            )
            refuse_changed([self.target])
            played = play(
                plan, [self.target], options, sink=write, progress=progress, closed_loop_ns=length_ns
            )
            if stopping.asked() and not kept.issued:
                raise KeyboardInterrupt  # in its warm-up, of which nothing is kept
            # What making the plan and writing the recording took is no cost of an I/O.
            cpu_seconds = max(0.0, played.cpu_seconds - played.feeding_cpu_seconds)
            changes = changes_of([self.target])
            writer.append("devices", result.devices_table([self.target]))
            manifest = self._manifest(cell, played, kept, cpu_seconds, options)
            manifest.quality.notes += changes
            return writer.commit(manifest)

    def _options(self, cell: Cell) -> ReplayOptions:
        return replace(self.options, max_in_flight=cell.outstanding)

    def _manifest(
        self, cell: Cell, played: Played, kept: "_Kept", cpu_seconds: float, options: ReplayOptions
    ) -> Manifest:
        set_up, tally, target = played.set_up, played.tally, self.target
        warm_up_ns = round(self.cells.warm_up_seconds * 1e9)
        run = ClosedLoop(
            loop="closed",
            cell=cell,
            seconds=self.cells.seconds,
            warm_up_seconds=self.cells.warm_up_seconds,
            seed=options.seed,
            backend=set_up["backend"],
            backend_reason=set_up["reason"],
            direct=not options.buffered,
            targets=[target.describe()],
            max_in_flight=set_up["in_flight_max"],
            preferred=set_up["preferred"],
            submitters=set_up["submitters"],
            memory_registered=set_up["unregistered"] is None,
            ended=played.ended["word"],
            interrupted=played.ended["word"] == "stopped",
            device_counters=kept.without_warm_up(played.device_counters),
            cpu_seconds=cpu_seconds,
            cpu_ns_per_io=cpu_seconds * 1e9 / tally["issued"] if tally["issued"] else None,
            **kept.figures(),
            errors={os.strerror(number): count for number, count in sorted(tally["errors"].items())},
            starved=played.starved,
            waits_for_room=played.waits_for_room,
            generator_limited=False,
        )
        quality = result.judge(run, played.ended, [target], options)
        return Manifest(
            kind=Kind.REPLAYED,
            title=f"{cell.name} on {target.name}",
            clock=Clock(
                start_utc_ns=set_up["start_utc_ns"],
                resolution_ns=time.clock_getres(time.CLOCK_MONOTONIC) * 1e9,
                name="CLOCK_MONOTONIC",
            ),
            window_start_ns=warm_up_ns if kept.last_ns > warm_up_ns else 0,
            window_end_ns=max(kept.last_ns, 1),
            host=result.host_facts(),
            quality=quality,
            replay=run,
        )


class _Kept:
    """What is kept of a cell, and what its warm-up moved."""

    def __init__(self) -> None:
        self.issued = self.completed = self.failed = 0
        self.last_ns = 0
        self._warm_up_bytes = {"read_bytes": 0, "written_bytes": 0}

    def take(self, outcome: pa.RecordBatch, warm_up_ns: int) -> pa.RecordBatch:
        """The rows of a batch issued after the warm-up, counted."""
        issued_ns = outcome["issued_ns"].to_numpy()
        warm = issued_ns < warm_up_ns
        if warm.any():
            op, size = outcome["op"].to_numpy(), outcome["size_bytes"].to_numpy()
            for code, name in enumerate(("read_bytes", "written_bytes")):
                self._warm_up_bytes[name] += int(size[warm & (op == code)].sum(dtype=np.int64))
            outcome = outcome.filter(pa.array(~warm))
        if outcome.num_rows:
            completed = outcome["completed_ns"]
            self.issued += outcome.num_rows
            self.completed += outcome.num_rows - completed.null_count
            self.failed += int(np.count_nonzero(outcome["error"].to_numpy()))
            ends = completed.drop_null().to_numpy()
            last = max(int(ends.max(initial=0)), int(outcome["issued_ns"].to_numpy().max()))
            self.last_ns = max(self.last_ns, last)
        return outcome

    def figures(self) -> dict[str, Any]:
        """Counts for the manifest."""
        return {
            "planned_ios": self.issued,
            "issued_ios": self.issued,
            "completed_ios": self.completed,
            "failed_ios": self.failed,
            "adjusted_ios": 0,
            "skipped_ios": 0,
            "duration_ns": self.last_ns,
        }

    def without_warm_up(self, counters: dict[str, DeviceLook]) -> dict[str, DeviceLook]:
        """The device's own counters, those before moved on by what the warm-up did.

        They are compared with what the recording holds, which starts after it.
        """
        return {
            name: DeviceLook(
                look.before
                and replace(
                    look.before,
                    read_bytes=look.before.read_bytes + self._warm_up_bytes["read_bytes"],
                    written_bytes=look.before.written_bytes + self._warm_up_bytes["written_bytes"],
                ),
                look.after,
            )
            for name, look in counters.items()
        }
