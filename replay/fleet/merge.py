"""One recording of what several load generators measured at the same time.

Each one's times count from its own start, as agreed; how far these starts lay apart is known within some uncertainty
and kept beside, not mixed into times that are exact.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.replay import _engine
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.survey import shape_of
from iotrace.replay.run.result import is_generator_limited
from iotrace.schemas import (
    IoFlags,
    IotraceError,
    Manifest,
    Quality,
    Recording,
    RecordingWriter,
    counted,
)
from iotrace.schemas import Source as ManifestSource
from iotrace.schemas.run import DeviceCounters, DeviceLook, Quantiles, Replay, Scaling, Shard
from iotrace.schemas.writer import rewrite_manifest

from .conductor import PlayedPart, Together

_QUANTITIES: Final = ("lateness", "response", "service", "own_lateness", "own_response")


def merge(
    run: Together,
    output: Path,
    options: ReplayOptions,
    source: Recording | None,
    *,
    title: str,
    overwrite: bool = False,
) -> Recording:
    """Write what the generators of ``run`` measured to ``output``, as one recording.

    ``source`` is what they shared; None where each played its own. ``options`` are what they had in common. Raises
    `IotraceError` where nobody measured anything.
    """
    parts = [part for part in run.parts if part.recording is not None]
    if not parts:
        said = "; ".join(dict.fromkeys(part.said for part in run.parts if part.said))
        raise IotraceError(
            f"nothing that was measured has arrived: {run.why or said or 'nothing was played'}",
            hint="what a generator measured lies in its --folder, as its terminal says; or run it again",
        )
    times = {name: _engine.Times() for name in _QUANTITIES}
    bases = _bases(parts, is_shared=source is not None)
    with RecordingWriter(output, overwrite=overwrite) as writer:
        for part, base in zip(parts, bases, strict=True):
            for rows in _io(part):
                _count(rows, times)
                writer.append("io", _renumbered(rows, base))
        for name in ("devices", "files", "processes", "counters"):
            for table in _tables(name, parts, bases, is_shared=source is not None):
                writer.append(name, table)
        manifest = _manifest(run, parts, bases, times, options, source, title)
        merged = writer.commit(manifest)
    return _with_shape(merged, options, source)


@dataclass(frozen=True, slots=True)
class _Base:
    """What is added to a part's numbers so that no two parts have the same."""

    device_id: int
    file_id: int
    process_id: int
    devices: int


def _bases(parts: Sequence[PlayedPart], *, is_shared: bool) -> list[_Base]:
    found, devices, files, processes = [], 0, 0, 0
    for part in parts:
        recording = _recording(part)
        rows = {name: recording.read(name) for name in ("devices", "files", "processes")}
        found.append(_Base(devices, files, processes, rows["devices"].num_rows))
        devices += rows["devices"].num_rows
        if not is_shared:
            files += _next(rows["files"]["file_id"])
            processes += _next(rows["processes"]["process_id"])
    return found


def _next(numbers: pa.ChunkedArray) -> int:
    most = pc.max(numbers).as_py()
    return 0 if most is None else int(most) + 1


def _recording(part: PlayedPart) -> Recording:
    assert part.recording is not None
    return part.recording


def _io(part: PlayedPart) -> Iterator[pa.Table]:
    recording = _recording(part)
    for path in recording.parquet_paths("io"):
        with recording.reading("io"):
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)


def _renumbered(table: pa.Table, base: _Base) -> pa.Table:
    for name in ("device_id", "file_id", "process_id"):
        add = getattr(base, name)
        if add and name in table.column_names:
            place = table.schema.get_field_index(name)
            table = table.set_column(
                place, name, pc.add(table[name], pa.scalar(add, pa.int32())).cast(pa.int32())
            )
    return table


def _count(rows: pa.Table, times: Mapping[str, _engine.Times]) -> None:
    """Add to the distributions, as the engine's own tally does."""
    flags = rows["flags"].to_numpy()
    own = (flags & np.uint32(int(IoFlags.DELAYED))) == 0
    intended, issued = rows["intended_ns"].to_numpy(), rows["issued_ns"].to_numpy()
    ended = np.asarray(pc.is_valid(rows["completed_ns"]).to_numpy(), np.bool_)
    error = pc.fill_null(rows["error"], 0).to_numpy() != 0
    completed = pc.fill_null(rows["completed_ns"], 0).to_numpy()
    sound = ended & ~error
    taken = {
        "lateness": issued - intended,
        "own_lateness": (issued - intended)[own],
        "response": (completed - intended)[sound],
        "own_response": (completed - intended)[sound & own],
        "service": (completed - issued)[sound],
    }
    for name, values in taken.items():
        times[name].add(pa.record_batch({"ns": pa.array(values, pa.int64())}))


def _tables(
    name: str, parts: Sequence[PlayedPart], bases: Sequence[_Base], *, is_shared: bool
) -> Iterator[pa.Table]:
    tables = [_renumbered(_recording(part).read(name), base) for part, base in zip(parts, bases, strict=True)]
    if name == "devices":
        for part, table in zip(parts, tables, strict=True):
            yield _prefixed(table, "name", part.host)
    elif name == "counters":
        for part, table in zip(parts, tables, strict=True):
            yield _prefixed(table, "object", part.host)
    elif not is_shared or not tables[0].num_rows:
        yield from tables
    elif name == "processes":
        yield tables[0]
    else:
        # A file's streams may go to several generators: then it lies on no one device.
        places = [table["device_id"].to_pylist() for table in tables]
        homes = [
            next(iter(there)) if len(there := {home for home in row if home is not None}) == 1 else None
            for row in zip(*places, strict=True)
        ]
        place = tables[0].schema.get_field_index("device_id")
        yield tables[0].set_column(place, "device_id", pa.array(homes, pa.int32()))


def _prefixed(table: pa.Table, column: str, host: str) -> pa.Table:
    words = pa.array([f"{host}:{word}" for word in table[column].to_pylist()], pa.string())
    return table.set_column(table.schema.get_field_index(column), column, words)


def _manifest(
    run: Together,
    parts: Sequence[PlayedPart],
    bases: Sequence[_Base],
    times: Mapping[str, _engine.Times],
    options: ReplayOptions,
    source: Recording | None,
    title: str,
) -> Manifest:
    manifests = [_recording(part).manifest for part in parts]
    runs = [one.open_replay for one in manifests]
    first = runs[0]
    figures = {name: one.figures() for name, one in times.items()}
    own_lateness, own_response = (
        {"p50": figures[name]["p50_ns"], "p99": figures[name]["p99_ns"]}
        for name in ("own_lateness", "own_response")
    )
    limited = is_generator_limited(own_lateness, own_response) or any(one.generator_limited for one in runs)
    lost = [part for part in run.parts if part.recording is None]
    words = {one.ended for one in runs}
    ended = "lost" if lost else "stopped" if run.why else next(iter(words)) if len(words) == 1 else "stopped"
    whole = replace(
        first,
        source_uuid=source.manifest.uuid if source is not None else None,
        source_title=source.manifest.title if source is not None else title,
        window_ns=list(options.window_ns) if options.window_ns else None,
        targets=[
            replace(target, name=f"{part.host}:{target.name}")
            for part, one in zip(parts, runs, strict=True)
            for target in one.targets
        ],
        mapping=[
            replace(space, target=f"{part.host}:{space.target}")
            for part, one in zip(parts, runs, strict=True)
            for space in one.mapping
        ],
        **{name: sum(getattr(one, name) for one in runs) for name in _ADDED},
        **{name: max(getattr(one, name) for one in runs) for name in _MOST},
        skipped_ios=max(one.skipped_ios for one in runs)
        if source is not None
        else sum(one.skipped_ios for one in runs),
        errors=dict(sum((Counter(one.errors) for one in runs), Counter())),
        planned_by_op=dict(sum((Counter(one.planned_by_op) for one in runs), Counter())),
        lateness_ns_p50=figures["lateness"]["p50_ns"],
        lateness_ns_p99=figures["lateness"]["p99_ns"],
        lateness_ns_max=figures["lateness"]["max_ns"],
        response_ns_p50=figures["response"]["p50_ns"],
        service_ns_p50=figures["service"]["p50_ns"],
        generator_lateness_ns=Quantiles(**own_lateness),
        generator_response_ns=Quantiles(**own_response),
        generator_limited=limited,
        preferred=all(one.preferred for one in runs),
        memory_registered=all(one.memory_registered for one in runs),
        cpu_seconds=sum(one.cpu_seconds or 0.0 for one in runs),
        scaling=None,
        thinning=None,
        pacing=None,
        ended=ended,
        interrupted=bool(run.why) or bool(lost) or any(one.interrupted for one in runs),
        device_counters=_counters(parts, runs),
        shards=[_shard(run, part, parts, bases) for part in run.parts],
    )
    return Manifest(
        kind=manifests[0].kind,
        title=title,
        clock=replace(manifests[0].clock, start_utc_ns=run.start_utc_ns),
        window_start_ns=0,
        window_end_ns=whole.duration_ns,
        host=replace(manifests[0].host, name=", ".join(part.host for part in parts)),
        sources=_sources(manifests),
        quality=_quality(run, manifests, parts, whole),
        replay=whole,
    )


_ADDED: Final = (
    "planned_ios", "issued_ios", "completed_ios", "failed_ios", "adjusted_ios", "delayed_ios", "starved",
    "waits_for_room", "log_ios",
)  # fmt: skip
_MOST: Final = ("duration_ns", "planned_duration_ns", "issued_span_ns", "copies", "repeat")


def _sources(manifests: Sequence[Manifest]) -> list[ManifestSource]:
    found = {one.name: one for manifest in manifests for one in manifest.sources}
    return list(found.values())


def _quality(
    run: Together, manifests: Sequence[Manifest], parts: Sequence[PlayedPart], whole: Replay
) -> Quality:
    quality = Quality()
    quality.unpaired_issues = whole.issued_ios - whole.completed_ios
    played = f"after {whole.issued_ios:,} of {whole.planned_ios:,} I/Os"
    quality.ended = f"{run.why} {played}" if run.why else "normally"
    for part in run.parts:
        if part.recording is None:
            quality.notes.append(
                f"what '{part.host}' measured is not in here: {part.said or 'nothing was played'}"
            )
    for part, manifest in zip(parts, manifests, strict=True):
        own = manifest.quality
        if own.ended not in {"normally", None} and not run.why:
            quality.ended = f"'{part.host}': {own.ended}"
        quality.notes += [f"{part.host}: {note}" for note in own.notes]
    if whole.generator_limited and not any("generator-limited" in note for note in quality.notes):
        quality.notes.append(
            "generator-limited: the generators themselves ran late; do not judge the storage by its response times"
        )
    quality.notes.append(
        f"{counted(len(parts), 'generator')} played it together; times count from each one's own start"
    )
    return quality.judge(whole.issued_ios)


def _shard(run: Together, part: PlayedPart, parts: Sequence[PlayedPart], bases: Sequence[_Base]) -> Shard:
    if part.recording is None:
        return Shard(part.host, ended="lost", said=part.said)
    base = bases[list(parts).index(part)]
    manifest = part.recording.manifest
    own = manifest.open_replay
    began = own.start_ns
    offset = part.at(run.start_ns)
    known = began is not None and offset is not None
    return Shard(
        host=part.host,
        device_ids=list(range(base.device_id, base.device_id + base.devices)),
        source_uuid=own.source_uuid,
        planned_ios=own.planned_ios,
        issued_ios=own.issued_ios,
        completed_ios=own.completed_ios,
        ended=own.ended,
        said=part.said or ("" if own.ended == "normally" else manifest.quality.ended or ""),
        start_skew_ns=(began or 0) - (offset.offset_ns if offset else 0) - run.start_ns if known else None,
        start_skew_error_ns=offset.error_ns if offset and known else None,
        start_skew_bound_ns=offset.bound_ns if offset and known else None,
        round_trip_ns=offset.round_trip_ns if offset else None,
        clock_offset_ns=offset.offset_ns if offset else None,
        start_ns=began,
        lateness_ns_p50=own.lateness_ns_p50,
        lateness_ns_p99=own.lateness_ns_p99,
        lateness_ns_max=own.lateness_ns_max,
        generator_limited=own.generator_limited,
        cpu_seconds=own.cpu_seconds,
    )


def _counters(parts: Sequence[PlayedPart], runs: Sequence[Replay]) -> dict[str, DeviceLook]:
    """The devices' own counters. Generators on one machine look at the same ones, and are counted once."""
    looks: dict[tuple[str, str], list[DeviceLook]] = {}
    for part, one in zip(parts, runs, strict=True):
        for name, look in one.device_counters.items():
            looks.setdefault((part.kernel or part.host, name), []).append(look)
    names = {
        kernel: next(part.host for part in parts if (part.kernel or part.host) == kernel)
        for kernel, _ in looks
    }
    return {f"{names[kernel]}:{name}": _widest(found) for (kernel, name), found in looks.items()}


def _widest(looks: Sequence[DeviceLook]) -> DeviceLook:
    before = [look.before for look in looks if look.before is not None]
    after = [look.after for look in looks if look.after is not None]
    if len(before) < len(looks) or len(after) < len(looks):
        return DeviceLook(None, None)

    def moved(counters: DeviceCounters) -> int:
        return counters.read_bytes + counters.written_bytes

    return DeviceLook(min(before, key=moved), max(after, key=moved))


def _with_shape(merged: Recording, options: ReplayOptions, source: Recording | None) -> Recording:
    """What scaling did to the load, where one recording was shared: seen in what was played."""
    if source is None or not merged.manifest.open_replay.issued_ios:
        return merged
    before = shape_of(source, options)
    after = shape_of(merged)
    if before is not None and after is not None:
        merged.manifest.open_replay.scaling = Scaling(before, after)
        return rewrite_manifest(merged)
    return merged
