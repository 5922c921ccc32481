"""Tables of the page: those of answers as they stand, and several recordings beside one another."""

from collections.abc import Iterable, Sequence
from typing import Final

from iotrace.analyze.describe.description import Flow
from iotrace.analyze.describe.presentation import description_sections
from iotrace.analyze.knee.presentation import knee_sections
from iotrace.analyze.present import Section
from iotrace.analyze.units import DASH, format_count, format_duration_ns, format_moment, format_share
from iotrace.schemas.text import shortened

from .facts import RecordingFacts, SweepFacts
from .parts import Table

_ROWS_MAX: Final = 40
RECORDINGS_BRIEF: Final = 4
"""With more than this, a recording is told in a sentence, and the rest of it is opened on demand."""


def sweep_tables(facts: SweepFacts) -> list[Table]:
    """Tables of a sweep that stand on the page rather than behind a chart; `knee --full` has the other estimators."""
    return page_tables(one for one in knee_sections(facts.knee)[1:] if not one.detail)


def recording_tables(facts: RecordingFacts) -> list[Table]:
    """Tables of a recording, load and latency first; what counters say where it holds no I/Os."""
    return page_tables(description_sections(facts.description))


def page_tables(sections: Iterable[Section], rows_max: int = _ROWS_MAX) -> list[Table]:
    """The tables of sections of an answer, details too, with what is said of them as their captions."""
    return [
        Table(
            "; ".join([section.heading, *_said(section, is_listed=False), *section.notes]),
            tuple(column.head.replace(" /", "/") for column in table.columns),
            tuple(tuple(shortened(str(cell)) for cell in row) for row in table.rows[:rows_max]),
            table.text_columns,
            points=tuple(text.removeprefix("- ") for text in _said(section, is_listed=True)),
        )
        for section in sections
        if (table := section.table) is not None
    ]


def _said(section: Section, *, is_listed: bool) -> list[str]:
    """Its sentences that are items of a list, or the others."""
    texts = [one.text.strip() for one in section.sentences]
    return [text for text in texts if text.startswith("- ") == is_listed]


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
    # No storage answers in no time: a model that states none does.
    return format_duration_ns(None if latency is None else latency.mean_ns or None)
