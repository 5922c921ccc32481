"""A description on the screen: the table every DBA knows first, then what it cannot show."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from iotrace.analyze.describe.description import WITHHELD, Description, Workload
from iotrace.analyze.describe.words import device_name, opening
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_ns,
    format_rate,
    format_share,
)
from iotrace.schemas.text import shortened

from . import console
from .describe_places import clock, print_drives, print_working_set

_BAR_CELLS: Final = 24
_NAME_CELLS: Final = 48
_PEAKS_SHOWN: Final = ("10ms", "1s")
"""Of the lengths peaks are counted in, those that fit 80 columns; JSON has all."""
_SIZE_CLASSES: Final = (
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
)


def print_opening(found: Description) -> None:
    """Print what was recorded and when, how busy and how slow it was, and whose I/O it was."""
    first, *rest = opening(found)
    console.paragraph(first, style="bold")
    for sentence in found.shared_time:
        console.paragraph(f"not of one time: {sentence}")
    for sentence in rest:
        console.paragraph(sentence)


def print_description(found: Description) -> None:
    """Print everything that fits a screen; `Description.to_dict` has the rest."""
    if not found.workloads:
        print_drives(found)
        _notes(found)
        return
    console.heading(f"Load, counted once, at the {found.workload_layer} layer")
    _load(found)
    _latency(found)
    _shape(found)
    _sizes(found)
    _in_flight(found)
    _busiest(found)
    print_working_set(found)
    _top(found)
    print_drives(found)
    _notes(found)


def _notes(found: Description) -> None:
    for note in found.notes:
        console.paragraph(f"note: {note}")


def print_overview(found: Description) -> None:
    """Print load and latency only."""
    console.heading(f"{found.title}  ({found.kind}, {format_duration_ns(found.window_ns)})")
    if found.workloads:
        _load(found)
        _latency(found)


def _named(loads: Iterable[Workload]) -> list[tuple[str, Workload]]:
    """Name the rows, and leave out those that only repeat another: the one role of a device, the one device of all."""
    roles: dict[int | None, list[Workload]] = defaultdict(list)
    devices: list[Workload] = []
    rows: list[tuple[str, Workload]] = []
    for load in loads:
        if load.is_total:
            rows.append(("all", load))
        elif load.role is None:
            devices.append(load)
        else:
            roles[load.device_id].append(load)
    if len(devices) == 1:
        rows.clear()
    for device in devices:
        where = device_name(device)
        parts = roles[device.device_id]
        if len(parts) == 1 and parts[0].role != "unattributed":
            rows.append((f"{where} {parts[0].role}", device))
        else:
            rows.append((where, device))
            rows += [(f"  {part.role}", part) for part in parts if len(parts) > 1]
    return rows


def _load(found: Description) -> None:
    metric = found.headline_metric
    rows = []
    for name, load in _named(found.workloads):
        reads, writes = load.read.latency.get(metric), load.write.latency.get(metric)
        rows.append(
            [
                name,
                f"{load.read.ios_per_s:,.0f}",
                f"{load.write.ios_per_s:,.0f}",
                f"{load.read.bytes_per_s / 1e6:,.1f}",
                f"{load.write.bytes_per_s / 1e6:,.1f}",
                DASH if load.bytes_per_transfer is None else f"{load.bytes_per_transfer / 1024:,.1f}",
                f"{load.queue_length_mean:,.2f}",
                format_duration_ns(reads.mean_ns if reads else None),
                format_duration_ns(writes.mean_ns if writes else None),
            ]
        )
    heads = ["", "reads\n/s", "writes\n/s", "read\nMB/s", "write\nMB/s", "KiB per\nI/O", "queue"]
    console.table([*heads, "read\nmean", "write\nmean"], rows)


def _latency(found: Description) -> None:
    rows = []
    for entry in found.layer_latencies:
        if not entry.latency.io_count:
            continue
        quantiles = entry.latency.quantiles_ns
        rows.append(
            [
                entry.layer,
                f"{entry.op} {entry.metric}" if entry.metric != "service" else entry.op,
                format_count(entry.latency.io_count),
                format_duration_ns(entry.latency.mean_ns),
                *(format_duration_ns(quantiles[name]) for name in ("p50", "p95", "p99", "p99_9")),
                entry.latency.grade or "",
            ]
        )
    console.heading("Latency by layer")
    console.table(["layer", "op", "I/Os", "mean", "p50", "p95", "p99", "p99.9", "grade"], rows, left=2)
    if any(DASH in row for row in rows):
        console.paragraph(WITHHELD, style="dim")


def _shape(found: Description) -> None:
    rows = []
    for name, load in _named(found.workloads):
        peaks = load.peak_to_mean
        rows.append(
            [
                name,
                _percent(load.read_share_of_ios),
                _percent(load.read_share_of_bytes),
                *(_percent(flow.sequential_share) for flow in (load.read, load.write)),
                DASH if load.interarrival_cv is None else f"{load.interarrival_cv:.2f}",
                *(DASH if peaks[name] is None else f"{peaks[name]:,.0f}x" for name in _PEAKS_SHOWN),
                format_bytes(load.working_set_bytes),
            ]
        )
    heads = ["", "reads\n% I/O", "reads\n% B", "seq.\nr %", "seq.\nw %", "gaps\nCV"]
    peak_heads = [f"peak\n{name}" for name in _PEAKS_SHOWN]
    console.heading("Mix, order and bursts")
    console.table([*heads, *peak_heads, "touched"], rows)
    console.paragraph(
        "seq.: begins where one of the last 16 I/Os of its file ended. gaps CV: 1 is random arrivals, more is bursty; "
        "peak: the fullest such stretch over the mean",
        style="dim",
    )


def _percent(share: float | None) -> str:
    """A percentage where the head of the column says so."""
    return DASH if share is None else f"{share * 100:.0f}" if share in (0, 1) else f"{share * 100:.1f}"


def _sizes(found: Description) -> None:
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(_SIZE_CLASSES) + 1))
    for entry in found.sizes:
        if entry.op in ("read", "write"):
            place = sum(entry.size_bytes > bound for bound in _SIZE_CLASSES)
            counts[entry.role, entry.op][place] += entry.io_count
    if not counts:
        return
    labels = [f"≤ {format_bytes(bound).replace('.0', '')}" for bound in _SIZE_CLASSES] + ["larger"]
    console.heading("I/O sizes, share of I/Os")
    for (role, op), per_class in sorted(counts.items()):
        total = sum(per_class)
        what = op if role == "unattributed" else f"{role} {op}"
        console.paragraph(f"{what}: {format_count(total)} I/O{'s' if total != 1 else ''}")
        rows = [
            [label, format_share(count / total), _bar(count / total)]
            for label, count in zip(labels, per_class, strict=True)
            if count
        ]
        console.bars(rows)


def _bar(share: float) -> str:
    return "█" * round(share * _BAR_CELLS) or "▏"


def _in_flight(found: Description) -> None:
    rows = [
        [
            "all" if entry.is_total else entry.device or "unknown device",
            f"{entry.mean:,.2f}",
            format_count(entry.peak),
            format_rate(entry.arrivals_per_s),
            format_duration_ns(entry.latency_mean_ns),
            DASH if entry.littles_law is None else f"{entry.littles_law:,.2f}",
            format_share(entry.difference_share),
        ]
        for entry in found.in_flight
    ]
    console.heading("In flight, checked against Little's law (arrivals x latency)")
    console.table(["", "mean", "peak", "arrivals", "latency", "Little", "differs"], rows)


def _busiest(found: Description) -> None:
    rows = [
        [
            f"{clock(entry['from_ns'])} for {format_duration_ns(entry['window_ns'])}",
            format_rate(entry["io_count"] * 1e9 / entry["window_ns"]),
            format_rate(entry["size_bytes"] * 1e9 / entry["window_ns"], "B"),
            format_share(entry["read_count"] / entry["io_count"]),
            format_duration_ns(entry["latency_mean_ns"]),
        ]
        for entry in found.busiest
        if entry["ranked_by"] == "io_count" and entry["io_count"]
    ]
    if rows:
        console.heading("Busiest stretches")
        console.table(["from", "I/Os", "bytes", "reads", "mean latency"], rows)


def _top(found: Description) -> None:
    for title, entries, name in (
        ("Top databases", found.top_databases, "database"),
        ("Top files", found.top_files, "path"),
        ("Top processes", found.top_processes, "name"),
    ):
        rows = [
            [
                _named_entry(entry, name),
                format_count(entry["read_count"]),
                format_bytes(entry["read_bytes"]),
                format_count(entry["write_count"]),
                format_bytes(entry["written_bytes"]),
                *(
                    format_duration_ns(entry[f"{op}_latency_mean_ns"])
                    for op in ("read", "write")
                    if name != "name"
                ),
            ]
            for entry in entries
            if entry[name] is not None
        ][:5]
        if rows:
            console.heading(title)
            means = [] if name == "name" else ["read\nmean", "write\nmean"]
            console.table(["", "reads", "", "writes", "", *means], rows)


def _named_entry(entry: dict[str, Any], name: str) -> str:
    words = shortened(str(entry[name]), _NAME_CELLS)
    return f"{words} ({entry['os_process_id']})" if name == "name" else words
