"""From the engine's outcome to the replayed recording: its tables, its manifest, and how far to trust it."""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.schemas import IoFlags, Layer, Op, Quality, Recording

from .assignment import Assignment
from .source import Source
from .targets import Target

CARRIED = ("flags", "file_id", "process_id", "thread_id", "copy")
"""Columns of a plan that mean nothing to the engine and go into the recording as they are."""

_JUDGED = {"p50": 0.5, "p99": 0.99}
_LIMITED_SHARE = 0.1


def io_table(plan: pa.RecordBatch, outcome: pa.RecordBatch, targets: Sequence[Target]) -> pa.Table:
    """The ``io`` rows of a replay: one per I/O issued. ``device_id`` is the position of the target."""
    played = plan.slice(0, outcome.num_rows)
    target = played["target"].to_numpy()
    direct = np.array([int(IoFlags.NO_CACHE) if one.direct else 0 for one in targets], np.uint32)
    flags = played["flags"].to_numpy() | direct[target] | outcome["flags"].to_numpy()
    return pa.table(
        {
            "layer": pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(len(target), np.int8)), pa.array([Layer.BLOCK], pa.string())
            ),
            "op": pa.DictionaryArray.from_arrays(
                played["op"].cast(pa.int8()), pa.array(list(Op), pa.string())
            ),
            "intended_ns": outcome["intended_ns"],
            "issued_ns": outcome["issued_ns"],
            "completed_ns": outcome["completed_ns"],
            "offset_bytes": played["offset_bytes"],
            "size_bytes": played["size_bytes"],
            "device_id": target.astype(np.int32),
            "file_id": played["file_id"],
            "process_id": played["process_id"],
            "thread_id": played["thread_id"],
            "flags": flags,
            "error": outcome["error"],
            "copy": played["copy"],
        }
    )


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


def processes_table(source: Recording) -> pa.Table:
    """The source's processes without their times, which mean nothing on the replay's clock."""
    processes = source.read("processes")
    for name in ("started_ns", "ended_ns"):
        nothing = pa.nulls(processes.num_rows, pa.int64())
        processes = processes.set_column(processes.schema.get_field_index(name), name, nothing)
    return processes


def figures(
    outcome: pa.RecordBatch, flags: npt.NDArray[np.uint32], planned: pa.RecordBatch
) -> dict[str, Any]:
    """Counts, lengths, lateness and latencies of a run, for ``manifest.replay``.

    Percentiles are of this one run, exact (the smallest value that at least that share does not exceed); response
    and service over I/Os that completed without error. Null where there is nothing to say.
    """
    intended, issued = outcome["intended_ns"].to_numpy(), outcome["issued_ns"].to_numpy()
    seen = outcome["completed_ns"].is_valid().to_numpy(zero_copy_only=False)
    completed = outcome["completed_ns"].fill_null(0).to_numpy()
    error = outcome["error"].to_numpy()
    good = seen & (error == 0)
    lateness = issued - intended
    response = completed - intended
    # What the cap held back was late because the storage was slow, which is no fault of the generator.
    own = (flags & IoFlags.DELAYED) == 0
    own_lateness = {name: quantile(lateness[own], share) for name, share in _JUDGED.items()}
    own_response = {name: quantile(response[good & own], share) for name, share in _JUDGED.items()}
    deadlines = planned["intended_ns"].to_numpy()
    return {
        "planned_ios": planned.num_rows,
        "issued_ios": outcome.num_rows,
        "completed_ios": int(seen.sum()),
        "failed_ios": int((seen & (error != 0)).sum()),
        "adjusted_ios": int(((flags & IoFlags.ADJUSTED) != 0).sum()),
        "delayed_ios": int(((flags & IoFlags.DELAYED) != 0).sum()),
        "errors": {
            os.strerror(number): int(count)
            for number, count in zip(*np.unique(error[error != 0], return_counts=True), strict=True)
        },
        "planned_duration_ns": int(deadlines[-1] - deadlines[0]),
        "issued_span_ns": int(issued.max() - issued.min()) if len(issued) else 0,
        "duration_ns": int(max(issued.max(), completed[seen].max(initial=0))) if len(issued) else 0,
        "lateness_ns_p50": quantile(lateness, 0.5),
        "lateness_ns_p99": quantile(lateness, 0.99),
        "lateness_ns_max": int(lateness.max()) if len(lateness) else None,
        "response_ns_p50": quantile(response[good], 0.5),
        "service_ns_p50": quantile((completed - issued)[good], 0.5),
        "generator_lateness_ns": own_lateness,
        "generator_response_ns": own_response,
        "generator_limited": is_generator_limited(own_lateness, own_response),
    }


def is_generator_limited(
    lateness_ns: Mapping[str, int | None], response_ns: Mapping[str, int | None]
) -> bool:
    """Whether the replay's own lateness makes up over a tenth of a response quantile, the same quantile of both.

    Both are of the I/Os that the cap in flight did not hold back. Quantiles are compared with their like: a p99 of
    lateness above a tenth of the median response, on flash some microseconds, changes neither the median nor the p99.
    """
    return any(
        (lateness_ns[name] or 0) > _LIMITED_SHARE * (response_ns[name] or 0)
        for name in _JUDGED
        if lateness_ns[name] is not None and response_ns[name] is not None
    )


def quantile(values: npt.NDArray[np.int64], share: float) -> int | None:
    """The smallest of ``values`` that at least ``share`` of them do not exceed."""
    return int(np.quantile(values, share, method="inverted_cdf")) if len(values) else None


def judge(
    facts: Mapping[str, Any], ended: str, reason: str | None, options_max_errors: int | None
) -> Quality:
    """Quality of the replayed recording from `figures`, and how the engine says that the run ended."""
    quality = Quality()
    quality.unpaired_issues = facts["issued_ios"] - facts["completed_ios"]
    played = f"after {facts['issued_ios']:,} of {facts['planned_ios']:,} I/Os"
    quality.ended = {
        "normally": "normally",
        "stopped": f"interrupted {played}",
        "too_many_errors": f"more than {options_max_errors} errors {played}",
        "broken": f"the system took no more I/O {played}: {reason}",
    }[ended]
    if quality.unpaired_issues:
        quality.notes.append(
            f"{quality.unpaired_issues:,} I/Os had not completed when waiting for them was given up"
        )
    if facts["failed_ios"]:
        quality.notes.append(f"{facts['failed_ios']:,} I/Os failed")
    if facts["delayed_ios"]:
        quality.notes.append(f"{facts['delayed_ios']:,} I/Os were held back by the cap on I/Os in flight")
    if facts["generator_limited"]:
        quality.notes.append(
            "generator-limited: the replay itself ran late; do not judge the storage by its response times"
        )
    return quality.judge(facts["issued_ios"])


def host_facts() -> dict[str, Any]:
    """The machine the replay ran on. ``cpu_governor`` is there where the system tells it; virtual machines do not."""
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    told = {"cpu_governor": governor.read_text("ascii").strip()} if governor.exists() else {}
    return told | {
        "name": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
