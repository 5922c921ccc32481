"""Tables of the page: those of answers as they stand, and what only the page shows."""

from collections.abc import Iterable
from typing import Final

from iotrace.analyze.describe.presentation import description_sections
from iotrace.analyze.knee.presentation import knee_sections
from iotrace.analyze.present import Section
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


def page_tables(sections: Iterable[Section], rows_max: int = _ROWS_MAX) -> list[Table]:
    """The tables of sections of an answer, details too, with what is said of them as their captions."""
    return [
        Table(
            "; ".join([section.heading, *(one.text for one in section.sentences), *section.notes]),
            tuple(column.head.replace(" /", "/") for column in table.columns),
            tuple(tuple(shortened(str(cell)) for cell in row) for row in table.rows[:rows_max]),
            table.text_columns,
        )
        for section in sections
        if (table := section.table) is not None
    ]
