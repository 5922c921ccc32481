"""Several recordings beside one another in one table, for whoever has to find the one to read on about."""

from collections.abc import Sequence
from typing import Final

from iotrace.analyze.describe.description import Flow
from iotrace.analyze.units import DASH, format_count, format_duration_ns, format_moment, format_share

from .charts import Table
from .facts import RecordingFacts

RECORDINGS_BRIEF: Final = 4
"""With more than this, a recording is told in a sentence, and the rest of it is opened on demand."""


def glance_table(recordings: Sequence[RecordingFacts]) -> Table | None:
    """A row for each recording; None for fewer than two."""
    if len(recordings) < 2:
        return None
    columns = (
        "recording",
        "kind",
        "from",
        "for",
        "IOPS",
        "reads",
        "mean read",
        "mean write",
        "slow windows",
        "objectives",
    )
    return Table("The recordings at a glance", columns, tuple(_row(one) for one in recordings), 3)


def _row(one: RecordingFacts) -> tuple[str, ...]:
    described = one.description
    total = described.total
    slow = one.slow_times
    met = [check.is_met for check in one.objectives]
    return (
        described.title,
        described.kind,
        format_moment(described.start_utc_ns) or DASH,
        format_duration_ns(described.window_ns),
        DASH if total is None else format_count(total.ios_per_s),
        DASH if total is None else format_share(total.read_share_of_ios),
        DASH if total is None else _mean(total.read, described.headline_metric),
        DASH if total is None else _mean(total.write, described.headline_metric),
        DASH if slow is None else str(len(slow.windows) + len(slow.drifts)),
        DASH if not met else "missed" if False in met else "cannot tell" if None in met else "met",
    )


def _mean(flow: Flow, metric: str) -> str:
    latency = flow.latency.get(metric)
    return format_duration_ns(None if latency is None else latency.mean_ns)
