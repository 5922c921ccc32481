"""The answer of `describe` in sentences: what and when, how busy, how slow, whose."""

from collections.abc import Iterator
from typing import Final

from iotrace.analyze.units import (
    format_bytes,
    format_count,
    format_duration_ns,
    format_figure,
    format_moment,
    format_share,
)

from .description import Description, Latency, Workload
from .results import result_tables

_MOUNT_CHARACTERS_MAX: Final = 12
"""A drive letter says more than the name of a device; a long path says less."""


def device_name(one: Workload) -> str:
    """A device as people know it: by where it is mounted, if that is short, else by its own name."""
    is_short = one.mount is not None and len(one.mount) <= _MOUNT_CHARACTERS_MAX
    return (one.mount if is_short else None) or one.device or "unknown device"


def opening(found: Description) -> list[str]:
    """At most four sentences, the first on what was recorded and when."""
    return [_what(found), *(_load(found, found.total) if found.total is not None else ())]


def _what(found: Description) -> str:
    if (results := result_tables(found.results)) is not None and found.total is None:
        runs = len(results.legends)
        words = f"{runs} run{'' if runs == 1 else 's'} of {results.tools}"
        return f"{found.title} holds results of {words}, and no I/Os."
    if found.total is None or not found.total.ios_per_s:
        return f"{found.title} holds no reads or writes."
    start = format_moment(found.start_utc_ns)
    when = f"from {start} for {format_duration_ns(found.window_ns)}" if start else ""
    undated = f"{format_duration_ns(found.window_ns)}, of no known date"
    return f"{found.title}: {found.kind} {when}." if when else f"{found.title}: {found.kind}, {undated}."


def _load(found: Description, total: Workload) -> Iterator[str]:
    if not total.ios_per_s:
        return
    fullest = next(
        (row for row in found.busiest if row["window_ns"] == 10**9 and row["ranked_by"] == "io_count"), None
    )
    peak = f"; {format_count(fullest['io_count'])} in the busiest second" if fullest else ""
    yield (
        f"Load: {format_figure(total.ios_per_s)} reads and writes a second on average{peak}. "
        f"{format_figure(total.bytes_per_s / 1e6)} MB/s, {format_share(total.read_share_of_ios)} reads, "
        f"{format_bytes(total.bytes_per_transfer)} each."
    )
    metric = found.headline_metric
    took = [
        f"{op}s {_took(latency)}"
        for op, flow in (("read", total.read), ("write", total.write))
        if (latency := flow.latency.get(metric)) is not None and latency.mean_ns is not None
    ]
    if took:
        yield f"Latency at the {found.workload_layer} layer: {', '.join(took)}."
    if whose := _whose(found, total):
        yield whose


def _took(latency: Latency) -> str:
    p99 = latency.quantiles_ns.get("p99")
    tail = f", p99 {format_duration_ns(p99)}" if p99 is not None else ""
    return f"{format_duration_ns(latency.mean_ns)} on average{tail} ({latency.grade})"


def _whose(found: Description, total: Workload) -> str:
    """The device that most of the time in I/O was spent on, where there are several."""
    devices = [one for one in found.workloads if not one.is_total and one.role is None]
    if len(devices) < 2 or not total.queue_length_mean:
        return ""
    most = max(devices, key=lambda one: one.queue_length_mean)
    roles = [one for one in found.workloads if one.device_id == most.device_id and one.role is not None]
    role = f" ({roles[0].role})" if len(roles) == 1 and roles[0].role != "unattributed" else ""
    time = format_share(most.queue_length_mean / total.queue_length_mean)
    ios = format_share(most.ios_per_s / total.ios_per_s)
    return f"Most of the time in I/O: {device_name(most)}{role}, {time}, with {ios} of the I/Os."
