"""Plays a recording on targets: plan, open, play, record."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from iotrace.schemas import Clock, IotraceError, Kind, Manifest, Recording, RecordingWriter
from iotrace.schemas import Source as ManifestSource

from . import _engine, blockdevice, result
from .assignment import Assignment, assign, folder_target, needed_bytes
from .fill import Fill
from .options import Progress, ReplayOptions
from .refusals import Permission
from .scale import needs_streams
from .schedule import Schedule, schedule
from .selection import select
from .source import Source, space_names
from .survey import Survey, survey
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
    if sys.platform != "linux":
        # The engine runs on Windows too. What a target there holds, and who uses it, nothing here can tell.
        raise IotraceError(
            "replay runs on Linux only: elsewhere it cannot be checked what a target holds",
            hint="copy the recording to a Linux machine and replay it there",
        )
    source = Source.open(
        recording, select(recording, options), file_by_file=folder_target(options) is not None
    )
    found = survey(
        source, count_streams=needs_streams(options), progress=_survey_progress(recording, progress)
    )
    names = space_names(source)
    assignment = assign(source, found, names, options)
    with RecordingWriter(output, overwrite=overwrite) as writer, ExitStack() as opened:
        targets = _open_targets(found, assignment, options, opened, progress)
        plan, mapping = schedule(source, found, names, assignment, targets, options)
        batch = pa.Table.from_batches(plan.batches(), plan.schema).combine_chunks().to_batches()[0]
        run = _play(batch, targets, options, progress)
        table = result.io_table(batch, run["outcome"], targets)
        figures = result.figures(run["outcome"], table["flags"].to_numpy(), batch)
        manifest = _manifest(plan, mapping, targets, run, figures)
        writer.append("io", table)
        writer.append("devices", result.devices_table(targets))
        writer.append("files", result.files_table(source, assignment))
        writer.append("processes", result.processes_table(recording))
        return writer.commit(manifest)


def _survey_progress(
    recording: Recording, progress: Callable[[Progress], None] | None
) -> Callable[[int], None] | None:
    if progress is None:
        return None
    total = recording.manifest.rows.get("io", 0)
    return lambda seen: progress(Progress("survey", planned_ios=max(total, seen), due_ios=seen))


def _open_targets(
    found: Survey,
    assignment: Assignment,
    options: ReplayOptions,
    opened: ExitStack,
    progress: Callable[[Progress], None] | None,
) -> list[Target]:
    permission = Permission(options.allow_writes, options.destroy_data)
    targets: list[Target] = []
    for index, name in enumerate(assignment.names):

        def report(done: int, total: int, name: str = name) -> None:
            if progress is not None:
                progress(Progress("fill", target=name, fill_bytes=done, fill_bytes_total=total))

        make_bytes, least_bytes = needed_bytes(
            assignment.stretches[index], options, whole_files=assignment.whole_files
        )
        target = open_target(
            name,
            writes=not found.written.isdisjoint(assignment.spaces_of(index)),
            permission=permission,
            direct=not options.buffered,
            needed_bytes=make_bytes,
            least_bytes=least_bytes,
            file_bytes=options.file_bytes,
            fill_with=Fill(options.compressible, options.dedupe),
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
            batch.select([name for name in batch.schema.names if name not in result.CARRIED]),
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
    plan: Schedule,
    mapping: list[dict[str, Any]],
    targets: list[Target],
    run: dict[str, Any],
    figures: dict[str, Any],
) -> Manifest:
    options, recording, set_up = plan.options, plan.source.recording, run["set_up"]
    source = recording.manifest
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
            ManifestSource(
                name=str(recording.path), kind="recording", events=sum(source.rows.values()) or None
            )
        ],
        quality=quality,
        replay={
            "source_uuid": source.uuid,
            "source_title": source.title,
            "scale": options.scale,
            "mode": options.mode,
            "window_ns": list(options.window_ns) if options.window_ns else None,
            "layer": plan.source.selection.layer,
            "reads_only": options.reads_only,
            "filters": {
                "roles": list(options.roles),
                "files": list(options.files),
                "processes": list(options.processes),
                "ops": list(options.ops),
            },
            "seed": options.seed,
            "backend": set_up["backend"],
            "backend_reason": set_up["reason"],
            "direct": not options.buffered,
            "addresses": options.addresses,
            "mapping": mapping,
            "targets": [
                target.describe() | {"touched_bytes": layout.bytes, "addresses": layout.mode}
                for target, layout in zip(targets, plan.layouts, strict=True)
            ],
            **plan.describe(),
            **figures,
            "skipped_ios": sum(plan.survey.skipped.values()),
            "skipped": dict(plan.survey.skipped),
            "max_in_flight": set_up["in_flight_max"],
            "max_errors": options.max_errors,
            "preferred": set_up["preferred"],
            "ended": run["ended"],
            "interrupted": run["ended"] == "stopped",
            "device_counters": run["device_counters"],
            "cpu_seconds": run["cpu_seconds"],
        },
    )


def _clock_resolution_ns() -> float:
    return time.clock_getres(time.CLOCK_MONOTONIC) * 1e9
