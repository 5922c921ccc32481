"""From the engine's outcome to the replayed recording: its tables, its manifest, and how far to trust it."""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa

from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.assignment import Assignment
from iotrace.replay.plan.source import Source
from iotrace.replay.targets.target import Target
from iotrace.replay.targets.windows_rules import error_word
from iotrace.schemas import IoFlags, Layer, Op, Quality, Recording, counted
from iotrace.schemas.host import Host
from iotrace.schemas.run import Pacing as PacingFacts
from iotrace.schemas.run import Quantiles, Run
from iotrace.schemas.units import SECOND_NS

from .pacing import Pacing
from .play import Played

_SOURCE: Final = "iotrace replay"

_COUNTERS: Final = (
    ("issued", "issued", "per second"),
    ("completed", "completed", "per second"),
    ("failed", "failed", "per second"),
    ("delayed", "delayed", "per second"),
    ("bytes", "transferred", "bytes per second"),
    ("lateness_ns_p50", "lateness p50", "ns"),
    ("lateness_ns_p99", "lateness p99", "ns"),
    ("lateness_ns_max", "lateness max", "ns"),
    ("processor_ns", "processor time", "ns per second"),
)
"""Name in the tally, counter, unit."""


def counters_table(seconds: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of ``counters`` from the tally's ``seconds``; ``at_ns`` is where the second ends."""
    rows = [
        (second["second"], counter, float(second[name]), unit)
        for second in seconds
        for name, counter, unit in _COUNTERS
        if second[name] is not None
    ]
    return pa.table(
        {
            "at_ns": pa.array([(row[0] + 1) * SECOND_NS for row in rows], pa.int64()),
            "interval_ns": pa.array([SECOND_NS] * len(rows), pa.int64()),
            "source": pa.array([_SOURCE] * len(rows), pa.string()),
            "object": pa.array(["generator"] * len(rows), pa.string()),
            "counter": pa.array([row[1] for row in rows], pa.string()),
            "value": pa.array([row[2] for row in rows], pa.float64()),
            "unit": pa.array([row[3] for row in rows], pa.string()),
        }
    )


_JUDGED = {"p50": "p50_ns", "p99": "p99_ns"}
_LIMITED_SHARE = 0.1
_OTHERS_SHARE = 0.02
"""I/Os of others on the target's devices, or merged ones, from which on the counters say nothing of the replay's."""


def io_table(outcome: pa.RecordBatch, targets: Sequence[Target]) -> pa.Table:
    """The ``io`` rows of a batch that was played: one per I/O issued. ``device_id`` is the position of the target."""
    target = outcome["target"].to_numpy()
    direct = np.array([int(IoFlags.NO_CACHE) if one.direct else 0 for one in targets], np.uint32)
    delayed = outcome["delayed"].to_numpy(zero_copy_only=False)
    flags = outcome["flags"].to_numpy() | direct[target] | np.where(delayed, np.uint32(IoFlags.DELAYED), 0)
    columns = {
        "layer": pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(target), np.int8)), pa.array([Layer.BLOCK], pa.string())
        ),
        "op": pa.DictionaryArray.from_arrays(outcome["op"].cast(pa.int8()), pa.array(list(Op), pa.string())),
        "device_id": target.astype(np.int32),
        "flags": flags.astype(np.uint32),
    }
    return pa.table(
        columns | {name: outcome[name] for name in _PLAYED_COLUMNS if name in outcome.schema.names}
    )


_PLAYED_COLUMNS = (
    "intended_ns", "issued_ns", "completed_ns", "offset_bytes", "size_bytes", "file_id", "process_id", "thread_id",
    "error", "copy",
)  # fmt: skip


def devices_table(targets: Sequence[Target]) -> pa.Table:
    """One row per target."""
    return pa.Table.from_pylist(
        [
            {
                "device_id": index,
                "name": target.name,
                "kind": target.kind,
                "size_bytes": target.bytes,
                "logical_block_bytes": target.block_bytes,
                "physical_block_bytes": target.facts.physical_block_bytes,
                "filesystem": target.filesystem,
                "model": target.facts.model,
                "write_cache": target.facts.write_cache,
            }
            for index, target in enumerate(targets)
        ]
    )


def files_table(source: Source, assignment: Assignment) -> pa.Table:
    """The source's files; ``device_id`` is the target that their device, or they themselves, went to."""
    files = source.recording.read("files")
    spaces = files["device_id" if source.space_is == "device" else "file_id"].to_pylist()
    went_to = pa.array([assignment.of_space.get(space) for space in spaces], pa.int32())
    return files.set_column(files.schema.get_field_index("device_id"), "device_id", went_to)


def files_on(files: pa.Table, volume_of: npt.NDArray[np.uint16]) -> pa.Table:
    """``files`` of a run on a model: ``device_id`` is the model's disk (see `volume_of_files`)."""
    disks = pa.array(volume_of[files["file_id"].to_numpy()].astype(np.int32))
    return files.set_column(files.schema.get_field_index("device_id"), "device_id", disks)


def processes_table(source: Recording) -> pa.Table:
    """The source's processes without their times, which mean nothing on the replay's clock."""
    processes = source.read("processes")
    for name in ("started_ns", "ended_ns"):
        nothing = pa.nulls(processes.num_rows, pa.int64())
        processes = processes.set_column(processes.schema.get_field_index(name), name, nothing)
    return processes


def figures(played: Played, *, adjusted_ios: int) -> dict[str, Any]:
    """Counts, lengths, lateness and latencies of a run, for ``manifest.replay``.

    Percentiles are of this one run, within 0.1 % (the smallest value that at least that share does not exceed);
    response and service over I/Os that completed without error. Null where there is nothing to say.
    """
    tally = played.tally
    # What the cap or a full disk queue held back is late because the storage was slow, not the generator.
    own_lateness = {name: tally["own_lateness"][field] for name, field in _JUDGED.items()}
    own_response = {name: tally["own_response"][field] for name, field in _JUDGED.items()}
    first, last = tally["first_issued_ns"] or 0, tally["last_issued_ns"] or 0
    return {
        "planned_ios": played.planned_ios,
        "issued_ios": tally["issued"],
        "completed_ios": tally["completed"],
        "failed_ios": tally["failed"],
        "adjusted_ios": adjusted_ios,
        "delayed_ios": tally["delayed"],
        "starved": played.starved,
        "waits_for_room": played.waits_for_room,
        "errors": {error_word(number): count for number, count in sorted(tally["errors"].items())},
        "planned_duration_ns": played.planned_duration_ns,
        "issued_span_ns": last - first,
        "duration_ns": max(last, tally["last_completed_ns"] or 0, 0),
        "lateness_ns_p50": tally["lateness"]["p50_ns"],
        "lateness_ns_p99": tally["lateness"]["p99_ns"],
        "lateness_ns_max": tally["lateness"]["max_ns"],
        "response_ns_p50": tally["response"]["p50_ns"],
        "service_ns_p50": tally["service"]["p50_ns"],
        "generator_lateness_ns": Quantiles(**own_lateness),
        "generator_response_ns": Quantiles(**own_response),
        "generator_limited": is_generator_limited(own_lateness, own_response),
    }


def pacing_facts(pacing: Pacing, played: Played, duration_ns: int) -> PacingFacts:
    """How the run waited, what it took from this host, and what of its service is its own doing.

    ``own_service_ns_mean``: mean service less the mean time that the devices' own counters say their requests took
    (from when the request was made to its end): handing over, waking up, and what lies between the replay and the
    block layer. None where the counters moved by 2 % more or less than what was played, since others' I/Os are in
    them, or where the system keeps none.
    """
    share = played.spun_ns / duration_ns / played.set_up["submitters"] if duration_ns else None
    return PacingFacts(
        asked=pacing.asked,
        used=pacing.used,
        reason=pacing.reason,
        trial=pacing.trial,
        spun_share=share,
        own_service_ns_mean=_own_service_ns(played),
        others_waited_share=played.host_load["others_waited_share"],
        stolen_share=played.host_load["stolen_share"],
    )


def _own_service_ns(played: Played) -> float | None:
    ios = took_ns = 0
    for look in played.device_counters.values():
        before, after = look.before, look.after
        if before is None or after is None:
            return None
        ios += after.reads - before.reads + after.writes - before.writes
        took_ns += after.read_ns - before.read_ns + after.write_ns - before.write_ns
    service = played.tally["service"]
    if not ios or not service["count"] or abs(ios - service["count"]) > _OTHERS_SHARE * service["count"]:
        return None
    return float(service["mean_ns"] - took_ns / ios)


def is_generator_limited(
    lateness_ns: Mapping[str, int | None], response_ns: Mapping[str, int | None]
) -> bool:
    """Whether the replay's own lateness makes up over a tenth of a response quantile, the same quantile of both.

    Both are of the I/Os that neither the cap in flight nor a full disk queue held back. Quantiles are compared with
    their like: a p99 of lateness above a tenth of the median response, on flash some microseconds, changes neither the
    median nor the p99.
    """
    return any(
        (lateness_ns[name] or 0) > _LIMITED_SHARE * (response_ns[name] or 0)
        for name in _JUDGED
        if lateness_ns[name] is not None and response_ns[name] is not None
    )


def judge(run: Run, ended: Mapping[str, Any], targets: Sequence[Target], options: ReplayOptions) -> Quality:
    """Quality of the replayed recording from what it says of itself, and how the engine says that it ended."""
    quality = Quality()
    quality.unpaired_issues = run.issued_ios - run.completed_ios
    played = f"after {run.issued_ios:,} of {run.planned_ios:,} I/Os"
    stalled = "" if ended["target"] is None else targets[ended["target"]].name
    quality.ended = {
        "normally": "normally",
        "stopped": f"{ended['reason'] or 'interrupted'} {played}",
        "too_many_errors": f"more than {options.max_errors} errors {played}",
        "stalled": f"'{stalled}' completed nothing for {options.stall_seconds:g} s {played}",
        "hung": f"a system call did not return for {options.stall_seconds:g} s {played}",
        "broken": f"the system took no more I/O {played}: {ended['reason']}",
    }[ended["word"]]
    if ended["threads_left_behind"]:
        quality.notes.append(
            f"{counted(ended['threads_left_behind'], 'thread')} still hang in the kernel, until the storage answers"
        )
    if quality.unpaired_issues:
        quality.notes.append(
            f"{counted(quality.unpaired_issues, 'I/O')} had not completed when the replay stopped waiting for them"
        )
    if run.starved:
        quality.notes.append(
            "the plan could not be read as fast as it was played: some I/Os are late for that reason"
        )
    if run.failed_ios:
        quality.notes.append(f"{counted(run.failed_ios, 'I/O')} failed")
    if run.delayed_ios:
        held = counted(run.delayed_ios, "I/O was", "I/Os were")
        why = " or a full disk queue" if run.waits_for_room else ""
        quality.notes.append(f"{held} held back by the cap on I/Os in flight{why}")
    if run.generator_limited:
        quality.notes.append(
            "generator-limited: the replay itself ran late; do not judge the storage by its response times"
        )
    return quality.judge(run.issued_ios)


def host_facts() -> Host:
    """The machine the replay ran on. ``cpu_governor`` is known where the system tells it; virtual machines do not."""
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return Host(
        name=platform.node(),
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processors=os.cpu_count(),
        memory_bytes=psutil.virtual_memory().total,
        cpu_governor=governor.read_text("ascii").strip() if governor.exists() else None,
    )
