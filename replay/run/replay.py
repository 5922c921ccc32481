"""Plays a recording on targets: plan, open, play, record."""

import dataclasses
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from iotrace.replay.options import Progress, ReplayOptions
from iotrace.replay.plan.assignment import Assignment, assign, folder_target, needed_bytes
from iotrace.replay.plan.scale import needs_streams
from iotrace.replay.plan.schedule import Schedule, allowed_processors, refuse_endless_loop, schedule
from iotrace.replay.plan.selection import select
from iotrace.replay.plan.shards import narrow
from iotrace.replay.plan.source import Source, space_names
from iotrace.replay.plan.survey import Survey, shape_of, survey
from iotrace.replay.targets.fill import Fill
from iotrace.replay.targets.refusals import Permission, refuse_output_as_target, refuse_recording
from iotrace.replay.targets.silent_storage import refuse_silent
from iotrace.replay.targets.target import Target, changes_of, check_target, refuse_changed
from iotrace.replay.targets.windows_rules import refuse_name
from iotrace.replay.virtual.compiled import ModelTarget
from iotrace.replay.virtual.play import play_on_model, volume_of_files
from iotrace.schemas import Clock, IoFlags, IotraceError, Kind, Manifest, Recording, RecordingWriter, stopping
from iotrace.schemas import Source as ManifestSource
from iotrace.schemas.models import is_model_target, model_named
from iotrace.schemas.run import Filters, LoadShape, MappedSpace, ModelFacts, Replay, Scaling
from iotrace.schemas.writer import refuse_over_source, rewrite_manifest

from . import result
from .pacing import VIRTUAL, Pacing, choose_pacing
from .play import Gate, Plan, Played, play
from .result import counters_table

if sys.platform == "win32":
    from iotrace.replay.targets.windows_targets import open_target

    _CLOCK = "QueryPerformanceCounter"
else:
    from iotrace.replay.targets.target import open_target

    _CLOCK = "CLOCK_MONOTONIC"

_RESULT_BYTES_MIN = 4
"""An I/O of a result takes no less on the disk, and usually 8 to 20."""


def replay(
    recording: Recording,
    output: Path | str,
    options: ReplayOptions,
    *,
    progress: Callable[[Progress], None] | None = None,
    overwrite: bool = False,
    gate: Gate | None = None,
) -> Recording:
    """Play ``recording`` and write what came of it to ``output``.

    Where the target is a model (``model:NAME``) nothing is opened and no I/O done: the recording is of kind simulated.
    ``progress`` is called about ten times a second from the calling thread. Ctrl-C ends the run and keeps what was
    measured: the recording returned then says ``interrupted`` in its ``manifest.replay``; a second Ctrl-C does not
    wait for I/Os in flight. Ctrl-C while a target is being filled raises ``KeyboardInterrupt`` and leaves nothing.
    Memory does not grow with the number of I/Os: about 300 MB for a million of them ahead, and up to 340 MiB for
    transfers (more only if a single I/O is larger). Where several generators play together ``gate`` says when to start.

    Raises `IotraceError` for a target that is refused, too small or not there, and for an output that is taken.
    """
    options.check()
    refuse_over_source(Path(output), [recording.path])
    refuse_output_as_target(options.all_targets, Path(output))
    model = model_named(options.targets[0]) if is_model_target(options.all_targets) else None
    wanted = _wanted(recording, options, progress)
    source, found, names, assignment = wanted.source, wanted.found, wanted.names, wanted.assignment
    options = wanted.options
    with RecordingWriter(output, overwrite=overwrite) as writer, ExitStack() as opened:
        if model is None:
            targets = _open_targets(wanted, opened, progress)
        else:
            needed, _ = needed_bytes(assignment.stretches[0], options, whole_files=assignment.whole_files)
            targets = [ModelTarget.of(options.targets[0], options.file_bytes or max(needed, 4096))]
        plan, mapping = schedule(source, found, names, assignment, targets, options)
        _refuse_without_room(Path(output), plan.ios_estimate)
        adjusted_ios = 0
        pacing = (
            VIRTUAL
            if model is not None
            else choose_pacing(
                options.pacing,
                recording,
                source.selection.layer,
                submitters=plan.submitters,
                processors=allowed_processors(),
            )
        )
        disks = (
            targets
            if model is None
            else [ModelTarget.of(disk.name, targets[0].bytes) for disk in model.disks]
        )

        def write(outcome: pa.RecordBatch) -> None:
            nonlocal adjusted_ios
            table = result.io_table(outcome, disks)
            adjusted_ios += int(((table["flags"].to_numpy() & IoFlags.ADJUSTED) != 0).sum())
            writer.append("io", table)
            plan.note_played(outcome["intended_ns"].to_numpy())

        what = Plan(
            batches=plan.batches(),
            read_bytes_max=plan.read_bytes_max,
            write_bytes_max=plan.write_bytes_max,
            planned_ns=plan.length_ns,
            planned_ios=plan.ios_estimate,
            submitters=plan.submitters,
            pacing=pacing.used,
        )
        did: ModelFacts | None = None
        files = result.files_table(source, assignment)
        if model is None:
            refuse_changed(targets)
            opened.enter_context(stopping.deferred())  # from here on there is something to keep
            played = play(what, targets, options, sink=write, progress=progress, gate=gate)
        else:
            volume_of = volume_of_files(recording, model)
            opened.enter_context(stopping.deferred())
            played, did = play_on_model(what, model, options, volume_of, sink=write, progress=progress)
            files = result.files_on(files, volume_of)
        changes = changes_of(targets)
        figures = result.figures(played, adjusted_ios=adjusted_ios)
        manifest = _manifest(plan, mapping, targets, played, figures, pacing, did)
        manifest.quality.notes += changes
        if gate is not None:
            manifest.open_replay.start_ns = played.set_up["start_ns"]
        writer.append("counters", counters_table(played.tally["seconds"]))
        writer.append("devices", result.devices_table(disks))
        writer.append("files", files)
        writer.append("processes", result.processes_table(recording))
        return _with_played_shape(writer.commit(manifest), found.shape)


def _with_played_shape(done: Recording, before: LoadShape) -> Recording:
    """Of a run that was stopped early the load as it was played: the plan was made ahead of it."""
    after = shape_of(done) if done.manifest.open_replay.stopped_early else None
    if after is None:
        return done
    done.manifest.open_replay.scaling = Scaling(before, after)
    return rewrite_manifest(done)


def check_targets(
    recording: Recording, options: ReplayOptions, progress: Callable[[Progress], None] | None = None
) -> int:
    """Refuse what `replay` would before it plays, and make, fill and change nothing. Returns the I/Os of one pass.

    What a target holds may change until it is opened to be played on, so `replay` looks once more.
    Raises `IotraceError` for a target that is refused or not there.
    """
    options.check()
    wanted = _wanted(recording, options, progress)
    for name, asked in _asked(wanted):
        check_target(name, **asked)
    return wanted.found.ios


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be played, and where it goes."""

    source: Source
    found: Survey
    names: Mapping[int, str]
    assignment: Assignment
    options: ReplayOptions


def _wanted(
    recording: Recording, options: ReplayOptions, progress: Callable[[Progress], None] | None
) -> _Wanted:
    if not is_model_target(options.all_targets) and sys.platform == "win32":
        for name in options.all_targets:
            refuse_name(name)  # before anything asks the system about it
    source = Source.open(
        recording, select(recording, options), file_by_file=folder_target(options) is not None
    )
    if options.shard is not None:
        cycle = narrow(source, options, options.shard)
        options = dataclasses.replace(options, window_ns=(cycle.start_ns, cycle.end_ns))
    found = survey(
        source, count_streams=needs_streams(options), progress=_survey_progress(recording, progress)
    )
    refuse_endless_loop(source, found, options)
    names = space_names(source)
    return _Wanted(source, found, names, assign(source, found, names, options), options)


def _refuse_without_room(output: Path, ios: int) -> None:
    """Raise `IotraceError` where the result cannot fit: found out at the end, all that was measured would be lost."""
    folder = next(parent for parent in output.absolute().parents if parent.is_dir())
    free, least = shutil.disk_usage(folder).free, ios * _RESULT_BYTES_MIN
    if free < least:
        raise IotraceError(
            f"no room for the result '{output}': about {ios:,} I/Os take {least:,} bytes or more, {free:,} are free",
            hint="choose a place with more room with -o, or play a shorter --window",
        )


def _survey_progress(
    recording: Recording, progress: Callable[[Progress], None] | None
) -> Callable[[int], None] | None:
    if progress is None:
        return None
    total = recording.manifest.rows.get("io", 0)
    return lambda seen: progress(Progress("survey", planned_ios=max(total, seen), due_ios=seen))


def _asked(
    wanted: _Wanted, progress: Callable[[Progress], None] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each target and how to open it, once its storage has answered."""
    found, assignment, options = wanted.found, wanted.assignment, wanted.options
    for index, name in enumerate(assignment.names):

        def waiting(name: str = name) -> None:
            if progress is not None:
                progress(Progress("check", target=name))

        make_bytes, least_bytes = needed_bytes(
            assignment.stretches[index], options, whole_files=assignment.whole_files
        )
        writes, direct = not found.written.isdisjoint(assignment.spaces_of(index)), not options.buffered
        patience_seconds = options.stall_seconds
        refuse_silent(name, writes=writes, direct=direct, patience_seconds=patience_seconds, waiting=waiting)
        refuse_recording(name)
        yield (
            name,
            {
                "writes": writes,
                "permission": Permission(options.allow_writes, options.destroy_data),
                "direct": direct,
                "needed_bytes": make_bytes,
                "least_bytes": least_bytes,
                "file_bytes": options.file_bytes,
                "fill_with": Fill(options.compressible, options.dedupe),
                "seed": options.seed,
            },
        )


def _open_targets(
    wanted: _Wanted, opened: ExitStack, progress: Callable[[Progress], None] | None
) -> list[Target]:
    targets: list[Target] = []
    for name, asked in _asked(wanted, progress):

        def report(done: int, total: int, name: str = name) -> None:
            if progress is not None:
                progress(Progress("fill", target=name, fill_bytes=done, fill_bytes_total=total))

        target = open_target(name, **asked, progress=report, patience_seconds=wanted.options.stall_seconds)
        opened.callback(target.close)
        targets.append(target)
    return targets


def _manifest(
    plan: Schedule,
    mapping: list[MappedSpace],
    targets: list[Target],
    played: Played,
    figures: dict[str, Any],
    pacing: Pacing,
    model: ModelFacts | None,
) -> Manifest:
    options, recording, set_up = plan.options, plan.source.recording, played.set_up
    source = recording.manifest
    run = Replay(
        source_uuid=source.uuid,
        source_title=source.title,
        scale=options.scale,
        mode=options.mode,
        window_ns=list(options.window_ns) if options.window_ns else None,
        layer=plan.source.selection.layer,
        reads_only=options.reads_only,
        filters=Filters(list(options.roles), list(options.files), list(options.processes), list(options.ops)),
        seed=options.seed,
        backend=set_up["backend"],
        backend_reason=set_up["reason"],
        direct=not options.buffered,
        addresses=options.addresses,
        mapping=mapping,
        targets=[
            dataclasses.replace(target.describe(), touched_bytes=layout.bytes, addresses=layout.mode)
            for target, layout in zip(targets, plan.layouts, strict=True)
        ],
        **plan.describe(),
        **figures,
        skipped_ios=sum(plan.survey.skipped.values()),
        skipped=dict(plan.survey.skipped),
        max_in_flight=set_up["in_flight_max"],
        max_errors=options.max_errors,
        preferred=set_up["preferred"],
        pacing=result.pacing_facts(pacing, played, figures["duration_ns"]),
        submitters=set_up["submitters"],
        memory_registered=set_up["unregistered"] is None,
        ended=played.ended["word"],
        interrupted=played.ended["word"] == "stopped",
        device_counters=played.device_counters,
        cpu_seconds=played.cpu_seconds,
        model=model,
    )
    quality = result.judge(run, played.ended, targets, options)
    quality.notes += plan.notes()
    if options.buffered:
        quality.notes.append("through the cache: some I/Os were answered by memory, not by the storage")
    if set_up["backend"] == "threads":
        quality.notes.append(f"played by threads, not io_uring: {set_up['reason'] or 'asked for'}")
    if set_up["unregistered"]:
        quality.notes.append(
            "memory could not be registered with the kernel, which makes each I/O slower: "
            + set_up["unregistered"]
        )
    title = (
        options.title or f"{source.title} at {options.scale:g}x on {', '.join(one.name for one in targets)}"
    )
    return Manifest(
        kind=Kind.REPLAYED if model is None else Kind.SIMULATED,
        title=title,
        clock=Clock(start_utc_ns=set_up["start_utc_ns"], resolution_ns=_clock_resolution_ns(), name=_CLOCK)
        if model is None
        else Clock(start_utc_ns=set_up["start_utc_ns"], resolution_ns=1.0, name="virtual time"),
        window_start_ns=0,
        window_end_ns=figures["duration_ns"],
        host=result.host_facts(),
        sources=[
            ManifestSource(
                name=str(recording.path), kind="recording", events=sum(source.rows.values()) or None
            )
        ],
        quality=quality,
        replay=run,
    )


def _clock_resolution_ns() -> float:
    return time.get_clock_info("perf_counter").resolution * 1e9
