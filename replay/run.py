"""Plays a recording on targets: plan, open, play, record."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from iotrace.schemas import Clock, IotraceError, Kind, Manifest, Recording, RecordingWriter, Source

from . import _engine, blockdevice, result, schedule
from .options import Progress, ReplayOptions
from .plan import Rows, load_rows, space_names
from .refusals import Permission
from .schedule import Assignment, Schedule
from .targets import Target, open_target

_GLANCE_SECONDS = 0.1


def replay(
    recording: Recording,
    output: Path | str,
    options: ReplayOptions,
    *,
    progress: Callable[[Progress], None] | None = None,
    overwrite: bool = False,
) -> Recording:
    """Play ``recording`` and write what came of it to ``output``.

    ``progress`` is called about ten times a second from the calling thread. Ctrl-C ends the run and keeps what was
    measured: the recording returned then says ``interrupted`` in its ``manifest.replay``; a second Ctrl-C does not
    wait for I/Os in flight. Ctrl-C while a target is being filled raises ``KeyboardInterrupt`` and leaves nothing.
    Takes about 300 bytes of memory per I/O of the part played, 120 more for each repetition of it, and up to 340 MiB
    for transfers (more only if a single I/O is larger).

    Raises `IotraceError` for a target that is refused, too small or not there, and for an output that is taken.
    """
    options.check()
    if not hasattr(_engine, "Engine"):
        raise IotraceError(
            "replay runs on Linux only", hint="copy the recording to a Linux machine and replay it there"
        )
    rows = load_rows(
        recording, layer=options.layer, window_ns=options.window_ns, reads_only=options.reads_only
    )
    spaces = space_names(recording, rows)
    assignment = schedule.assign(spaces, options)
    with RecordingWriter(output, overwrite=overwrite) as writer, ExitStack() as opened:
        targets = _open_targets(rows, assignment, options, opened, progress)
        plan = schedule.schedule(rows, spaces, assignment, targets, options)
        batch = plan.batch(rows, options.repeat)
        run = _play(batch, targets, options, progress)
        table = result.io_table(rows, plan, run["outcome"], targets)
        figures = result.figures(run["outcome"], table["flags"].to_numpy(), batch)
        manifest = _manifest(recording, rows, plan, targets, options, run, figures)
        writer.append("io", table)
        writer.append("devices", result.devices_table(targets))
        writer.append("files", result.files_table(recording, rows, assignment))
        writer.append("processes", result.processes_table(recording))
        return writer.commit(manifest)


def _open_targets(
    rows: Rows,
    assignment: Assignment,
    options: ReplayOptions,
    opened: ExitStack,
    progress: Callable[[Progress], None] | None,
) -> list[Target]:
    permission = Permission(options.allow_writes, options.destroy_data)
    targets = []
    for index, name in enumerate(assignment.names):
        spaces = [space for space, target in assignment.of_space.items() if target == index]

        def report(done: int, total: int, name: str = name) -> None:
            if progress is not None:
                progress(Progress("fill", target=name, fill_bytes=done, fill_bytes_total=total))

        target = open_target(
            name,
            writes=rows.writes_in(spaces),
            permission=permission,
            direct=not options.buffered,
            needed_bytes=schedule.touched(rows, assignment, index, 4096).compact_bytes,
            file_bytes=options.file_bytes,
            seed=options.seed,
            progress=report,
        )
        opened.callback(target.close)
        targets.append(target)
    return targets


def _play(
    batch: pa.RecordBatch,
    targets: list[Target],
    options: ReplayOptions,
    progress: Callable[[Progress], None] | None,
) -> dict[str, Any]:
    """Run the engine to its end: outcome, how it ended, how it was set up, and what it cost."""
    devices = {target.device_number: target.facts.name for target in targets if target.facts.name}
    before = {number: blockdevice.counters(number) for number in devices}
    cpu_before = time.process_time()
    try:
        engine = _engine.Engine(
            batch,
            [target.file for target in targets],
            in_flight_max=options.max_in_flight,
            errors_max=options.max_errors,
            drain_ns=round(options.drain_seconds * 1e9),
            backend=options.backend,
            seed=options.seed,
        )
    except OSError as problem:
        raise IotraceError(
            f"the backend '{options.backend}' does not start: {problem.strerror or problem}",
            hint="--backend auto falls back to threads",
        ) from problem
    set_up = engine.set_up()
    try:
        _watch(engine, batch, progress)
    except BaseException:
        engine.abandon()
        engine.finish()
        raise
    outcome, ended, reason = engine.finish()
    return {
        "outcome": outcome,
        "ended": ended,
        "reason": reason,
        "set_up": set_up,
        "cpu_seconds": time.process_time() - cpu_before,
        "device_counters": {
            name: {"before": before[number], "after": blockdevice.counters(number)}
            for number, name in devices.items()
        },
    }


def _watch(
    engine: _engine.Engine, batch: pa.RecordBatch, progress: Callable[[Progress], None] | None
) -> None:
    """Wait for the end, report on the way, and turn Ctrl-C into a stop that keeps what was measured."""
    planned_ns = batch["intended_ns"][-1].as_py()
    last = engine.snapshot()
    interrupts = 0
    while True:
        try:
            if engine.wait(_GLANCE_SECONDS):
                return
            now = engine.snapshot()
            if progress is not None:
                progress(_progress(now, last, planned_ns, batch.num_rows))
            last = now
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts == 1:
                engine.stop()
            else:
                engine.abandon()


def _progress(now: dict[str, int], last: dict[str, int], planned_ns: int, planned_ios: int) -> Progress:
    since = {name: now[name] - last[name] for name in now}
    seconds, completed = since["elapsed_ns"] / 1e9, since["completed"]
    return Progress(
        "play",
        elapsed_ns=now["elapsed_ns"],
        planned_ns=planned_ns,
        planned_ios=planned_ios,
        due_ios=now["due"],
        issued_ios=now["issued"],
        completed_ios=now["completed"],
        in_flight=now["issued"] - now["completed"],
        failed_ios=now["failed"],
        delayed_ios=now["delayed"],
        bytes=now["bytes"],
        rate_per_s=completed / seconds if seconds > 0 else None,
        offered_per_s=since["due"] / seconds if seconds > 0 else None,
        response_ns_mean=since["response_ns_sum"] / completed if completed else None,
        service_ns_mean=since["service_ns_sum"] / completed if completed else None,
    )


def _manifest(
    recording: Recording,
    rows: Rows,
    plan: Schedule,
    targets: list[Target],
    options: ReplayOptions,
    run: dict[str, Any],
    figures: dict[str, Any],
) -> Manifest:
    set_up, source = run["set_up"], recording.manifest
    quality = result.judge(figures, run["ended"], run["reason"], options.max_errors)
    if options.buffered:
        quality.notes.append("through the cache: some I/Os were answered by memory, not by the storage")
    if set_up["backend"] == "threads":
        quality.notes.append(f"played by threads, not io_uring: {set_up['reason'] or 'asked for'}")
    title = (
        options.title or f"{source.title} at {options.scale:g}x on {', '.join(one.name for one in targets)}"
    )
    return Manifest(
        kind=Kind.REPLAYED,
        title=title,
        clock=Clock(
            start_utc_ns=set_up["start_utc_ns"], resolution_ns=_clock_resolution_ns(), name="CLOCK_MONOTONIC"
        ),
        window_start_ns=0,
        window_end_ns=figures["duration_ns"],
        host=result.host_facts(),
        sources=[
            Source(name=str(recording.path), kind="recording", events=sum(source.rows.values()) or None)
        ],
        quality=quality,
        replay={
            "source_uuid": source.uuid,
            "source_title": source.title,
            "scale": options.scale,
            "mode": options.mode,
            "window_ns": list(options.window_ns) if options.window_ns else None,
            "repeat": options.repeat,
            "layer": rows.layer,
            "reads_only": options.reads_only,
            "seed": options.seed,
            "backend": set_up["backend"],
            "backend_reason": set_up["reason"],
            "direct": not options.buffered,
            "mapping": plan.mapping,
            "targets": [target.describe() for target in targets],
            **figures,
            "skipped_ios": sum(rows.skipped.values()),
            "skipped": rows.skipped,
            "max_in_flight": set_up["in_flight_max"],
            "max_errors": options.max_errors,
            "preferred": set_up["preferred"],
            "ended": run["ended"],
            "interrupted": run["ended"] == "stopped",
            "scaling": plan.load_shapes(rows),
            "device_counters": run["device_counters"],
            "cpu_seconds": run["cpu_seconds"],
        },
    )


def _clock_resolution_ns() -> float:
    return time.clock_getres(time.CLOCK_MONOTONIC) * 1e9
