"""Tables of the page: those of answers as they stand, and what only the page shows."""

from collections.abc import Iterable
from typing import Final

from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.compare.same_work import work_value_text
from iotrace.analyze.describe.presentation import description_sections
from iotrace.analyze.knee.presentation import knee_sections
from iotrace.analyze.present import Section
from iotrace.analyze.units import format_bytes, format_count, format_duration_ns
from iotrace.schemas.manifest import QUALITY_WORDS
from iotrace.schemas.text import shortened

from .charts import Table
from .facts import RecordingFacts, SweepFacts

_ROWS_MAX: Final = 40


def sweep_tables(facts: SweepFacts) -> list[Table]:
    """Tables of a sweep that stand on the page rather than behind a chart."""
    return page_tables(knee_sections(facts.knee)[1:])


def recording_tables(facts: RecordingFacts) -> list[Table]:
    """Tables of a recording, load and latency first; what counters say where it holds no I/Os."""
    return page_tables(description_sections(facts.description))


def page_tables(sections: Iterable[Section]) -> list[Table]:
    """The tables of sections of an answer, details too, with what is said of them as their captions."""
    return [
        Table(
            "; ".join([section.heading, *(one.text for one in section.sentences), *section.notes]),
            tuple(column.head.replace(" /", "/") for column in table.columns),
            tuple(tuple(shortened(str(cell)) for cell in row) for row in table.rows[:_ROWS_MAX]),
            table.text_columns,
        )
        for section in sections
        if (table := section.table) is not None
    ]


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
