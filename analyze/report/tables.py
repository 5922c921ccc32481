"""Tables of a recording as storage people know them, ready to print."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.compare.same_work import work_value_text
from iotrace.analyze.describe.description import Description, Flow, Latency, Workload
from iotrace.analyze.describe.results import result_tables
from iotrace.analyze.knee.answer import Vote
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_ns,
    format_figure,
    format_share,
)
from iotrace.schemas.manifest import QUALITY_WORDS
from iotrace.schemas.text import shortened

from .charts import Table
from .facts import RecordingFacts, SweepFacts
from .tables_places import drive_tables, place_tables

_ROWS_MAX: Final = 40


def sweep_tables(facts: SweepFacts) -> list[Table]:
    """Tables of a sweep that stand on the page rather than behind a chart."""
    return [_votes(facts)] if facts.knee.votes else []


def recording_tables(facts: RecordingFacts) -> list[Table]:
    """Tables of a recording, load and latency first; none where it holds no I/Os."""
    described = facts.description
    if described.total is None:
        return [*_results(described), *drive_tables(described)]
    tables = [_workloads(described), _latencies(described), *_results(described)]
    if described.busiest:
        tables.append(_busiest(described))
    if described.top_files:
        tables.append(_files(described))
    if described.top_processes:
        tables.append(_processes(described))
    return [*tables, *place_tables(described), *drive_tables(described)]


def _results(described: Description) -> list[Table]:
    """What another tool's test measured."""
    found = result_tables(described.results)
    if found is None:
        return []
    caption = f"Results of {found.tools}: {'; '.join(found.legends)}"
    tables = []
    if found.storage:
        tables.append(Table(caption, found.storage_columns, tuple(found.storage), 2))
    if found.database:
        tables.append(Table(caption, found.database_columns, tuple(found.database)))
    return tables


def sides_table(found: Comparison) -> Table:
    """What the two recordings of a comparison are."""
    rows = tuple(
        (
            name,
            side.title,
            side.kind,
            side.layer,
            format_count(sum(side.io_count.values())),
            f"{side.ios_per_s:,.0f}",
            format_bytes(side.size_bytes),
            format_duration_ns(side.span_ns),
            QUALITY_WORDS[side.quality_verdict],
        )
        for name, side in ((found.a.label, found.a), (found.b.label, found.b))
    )
    columns = ("", "recording", "kind", "layer", "I/Os", "IOPS", "moved", "length", "recorded")
    return Table("What is compared", columns, rows, 4)


def work_table(found: Comparison) -> Table:
    """Whether the two did the same work: a latency means little beside one of other work."""
    rows = tuple(
        (
            aspect.name,
            aspect.meaning or ("differs" if aspect.differs else "alike"),
            *(work_value_text(aspect, value) for value in (aspect.a, aspect.expected, aspect.b)),
        )
        for aspect in found.work
    )
    return Table(
        f"Did {found.b.label} do the same work? {'Yes' if found.same_work else 'No'}",
        ("", "what it means", found.a.label, "expected", found.b.label),
        rows,
        2,
    )


def _workloads(described: Description) -> Table:
    roles = Counter(each.device_id for each in described.workloads if each.role is not None)
    rows = [
        (
            _name(workload, described),
            f"{workload.ios_per_s:,.0f}",
            format_figure(workload.bytes_per_s / 1e6),
            format_bytes(workload.bytes_per_transfer),
            format_share(workload.read_share_of_ios),
            format_figure(workload.queue_length_mean),
            _mean(workload.read, described.headline_metric),
            _mean(workload.write, described.headline_metric),
            format_share(workload.read.sequential_share),
            format_share(workload.write.sequential_share),
            DASH if workload.interarrival_cv is None else f"{workload.interarrival_cv:.2g}",
            _peak(workload),
            format_bytes(workload.working_set_bytes),
        )
        for workload in described.workloads
        # A device with a single role has its row already, and it says the role.
        if workload.role is None or roles[workload.device_id] > 1
    ]
    caption = f"Load and mean {described.headline_metric} time at the {described.workload_layer} layer"
    if len(rows) > _ROWS_MAX:
        caption += f"; the first {_ROWS_MAX} of {len(rows)}, --json has them all"
    return Table(
        caption,
        (
            "device and role",
            "IOPS",
            "MB/s",
            "size",
            "reads",
            "queue length",
            "read latency",
            "write latency",
            "sequential reads",
            "sequential writes",
            "burstiness (CV)",
            "peak second / mean",
            "touched",
        ),
        tuple(rows[:_ROWS_MAX]),
    )


def _latencies(described: Description) -> Table:
    rows = [
        (
            entry.layer,
            f"{entry.op}s" if entry.op != "flush" else "flushes",
            entry.metric,
            format_count(entry.latency.io_count),
            format_duration_ns(entry.latency.mean_ns),
            *_quantiles(entry.latency),
            format_duration_ns(entry.latency.max_ns),
            entry.latency.grade if entry.metric != "lateness" and entry.latency.grade else "",
        )
        for entry in described.layer_latencies
    ]
    return Table(
        "Latency by layer and operation",
        (
            "layer",
            "operation",
            "metric",
            "I/Os",
            "mean",
            "p50",
            "p90",
            "p95",
            "p99",
            "p99.9",
            "max",
            "grade of the mean",
        ),
        tuple(rows),
        3,
    )


def _busiest(described: Description) -> Table:
    ranked = {"io_count": "most I/Os", "size_bytes": "most bytes"}
    rows = tuple(
        (
            f"{format_duration_ns(row['window_ns'])} with the {ranked.get(row['ranked_by'], row['ranked_by'])}",
            format_duration_ns(row["from_ns"] - described.window_start_ns),
            format_count(row["io_count"]),
            format_bytes(row["size_bytes"]),
            format_share(row["read_count"] / row["io_count"] if row["io_count"] else None),
            format_duration_ns(row["latency_mean_ns"]),
        )
        for row in described.busiest
    )
    return Table("The busiest windows", ("window", "from", "I/Os", "moved", "reads", "mean latency"), rows)


def _files(described: Description) -> Table:
    rows = tuple(
        (
            shortened(str(row["path"] or "files not known")),
            str(row["role"]).replace("_", " "),
            format_count(row["read_count"]),
            format_count(row["write_count"]),
            format_bytes(row["read_bytes"]),
            format_bytes(row["written_bytes"]),
            format_duration_ns(row["read_latency_mean_ns"]),
            format_duration_ns(row["write_latency_mean_ns"]),
        )
        for row in described.top_files
    )
    columns = ("file", "role", "reads", "writes", "read", "written", "read latency", "write latency")
    return Table("Files with the most I/O", columns, rows, 2)


def _processes(described: Description) -> Table:
    rows = tuple(
        (
            shortened(str(row["name"] or "not known")),
            DASH if row["os_process_id"] is None else str(row["os_process_id"]),
            format_count(row["read_count"]),
            format_count(row["write_count"]),
            format_bytes(row["read_bytes"]),
            format_bytes(row["written_bytes"]),
        )
        for row in described.top_processes
    )
    return Table("Processes with the most I/O", ("process", "id", "reads", "writes", "read", "written"), rows)


def _votes(facts: SweepFacts) -> Table:
    words = {True: "agrees", False: "differs", None: DASH}
    rows = tuple((vote.method, _vote(vote), words[vote.agrees]) for vote in facts.knee.votes)
    return Table("What other estimators say", ("method", "knee at", "with the knee above"), rows)


def _vote(vote: Vote) -> str:
    if vote.outstanding is not None:
        return f"{format_figure(vote.outstanding)} in flight"
    return "no knee" if vote.iops is None else f"{vote.iops:,.0f} IOPS"


def _name(workload: Workload, described: Description) -> str:
    if workload.is_total:
        return "everything"
    device = shortened(workload.device or "device not known")
    if workload.mount:
        device += f" ({workload.mount})"
    roles = [each.role for each in described.workloads if each.role and each.device_id == workload.device_id]
    role = workload.role or (roles[0] if len(roles) == 1 else None)
    return device if role is None else f"{device}, {role.replace('_', ' ')}"


def _mean(flow: Flow, metric: str) -> str:
    latency = flow.latency.get(metric)
    return DASH if latency is None else format_duration_ns(latency.mean_ns)


def _peak(workload: Workload) -> str:
    peak = workload.peak_to_mean.get("1s")
    return DASH if peak is None else f"{peak:.2g}"


def _quantiles(latency: Latency) -> Iterable[str]:
    return [format_duration_ns(latency.quantiles_ns[name]) for name in ("p50", "p90", "p95", "p99", "p99_9")]
