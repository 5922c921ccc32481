"""The report as Markdown: the same sentences and tables, for a ticket or a wiki; charts are left to their tables."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from iotrace.schemas.text import shortened

from .charts import Table, plain
from .facts import ReportFacts
from .glance import glance_table
from .section import Section

_ROWS_MAX: Final = 40
_CHARACTERS_MAX: Final = 2000
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]#+!|~>@]|:(?=//)|(?<=[wW])\.)")
"""What begins markup, and what makes an address of words (``://``, ``www.``, ``@``)."""


def render_markdown(facts: ReportFacts, sections: Sequence[Section]) -> str:
    """The report as GitHub's Markdown. Text from traces stays text."""
    return "\n".join(_lines(facts, sections)) + "\n"


def _lines(facts: ReportFacts, sections: Sequence[Section]) -> Iterator[str]:
    yield from (f"# {_text(facts.title)}", "", f"Written {facts.created_utc} by iotrace.", "")
    if facts.answer:
        yield from (f"**{_text(facts.answer)}**", "")
    yield from (_text(facts.verdict), "")
    yield from _items(facts.also)
    glance = glance_table(facts.recordings)
    if glance is not None:
        yield from _table(glance)
    for section in sections:
        yield from (f"## {_text(section.heading)}", "", _text(section.sentence), "")
        yield from _items(section.points)
        yield from _items(section.notes)
        for table in section.lead:
            yield from _table(table)
        for chart in section.charts:
            yield from (f"### {_text(chart.title)}", "", _text(chart.shows), "")
            yield from _table(chart.table)
        for table in section.tables:
            yield from _table(table)
    yield from ("## Validity", "")
    if facts.findings:
        yield from _items(
            [
                f"{one.level.capitalize()}: {one.title} in {one.name}: {one.detail}. {one.hint} ({one.rule})"
                for one in facts.findings
            ]
        )
    else:
        yield from ("None of the rules that would make these figures misleading fired.", "")
    yield from ("## Provenance", "")
    yield from _items(
        [
            f"{one.name}: {one.kind}, {one.recorded_utc}, {one.uuid}, recorded {one.quality}"
            for one in facts.origins
        ]
    )


def _items(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {_text(line)}" for line in lines)
    if lines:
        yield ""


def _table(table: Table) -> Iterator[str]:
    rows = table.rows[:_ROWS_MAX]
    left_out = f" ({len(rows)} of {len(table.rows)} rows)" if len(rows) < len(table.rows) else ""
    yield from (f"{_text(table.caption)}{left_out}:", "")
    yield f"| {' | '.join(_text(name) or ' ' for name in table.columns)} |"
    yield f"|{'|'.join(':--' if place < table.text_columns else '--:' for place in range(len(table.columns)))}|"
    yield from (f"| {' | '.join(_text(cell) for cell in row)} |" for row in rows)
    yield ""


def _text(text: str) -> str:
    escaped = shortened(plain(text), _CHARACTERS_MAX).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", escaped)
