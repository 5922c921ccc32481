"""Turns facts and sections into one HTML file that opens offline, or into Markdown for a ticket or a wiki.

Text from traces cannot become markup: Jinja escapes every value, figures pass through `plot.words`. A content security
policy allows the page its own style sheet, its own script and Plotly, each by its hash, and pictures that it makes
itself; no request leaves it. Plotly lies in the page compressed, and so do the figures. Where scripts do not run, the
sentences and the tables, opened, remain. Markdown has the same sentences and tables, without charts.
"""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from iotrace.analyze.units import format_bytes, format_count, format_duration_ns
from iotrace.schemas import distribution
from iotrace.schemas.text import shortened

from .charts_time import COURSE
from .facts import ReportFacts
from .parts import Chart, Point, Section, Table, plain
from .plot import dark_of_light
from .tables import RECORDINGS_BRIEF, glance_table

DRAWN_BYTES_MAX: Final = 700_000
"""Figures beyond this, compressed, are left to their tables, so that a report stays a file to be mailed."""
_PICTURE_PX: Final = 540
_ALSO_MAX: Final = 6
_ANSWERS: Final = {"yes": "YES", "no": "NO", "cannot_tell": "CANNOT TELL"}
_ORIGINS_MAX: Final = 60
_SOURCES_MAX: Final = 20
_TEXT_CHARS_MAX: Final = 2000
_ROWS_MAX: Final = 40
_CHARACTERS_MAX: Final = 2000
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]#+!|~>@]|:(?=//)|(?<=[wW])\.)")
"""What begins markup, and what makes an address of words (``://``, ``www.``, ``@``)."""


def render(facts: ReportFacts, sections: Sequence[Section], *, is_served: bool = False) -> str:
    """The page as text; one that is served may ask its own server, and none else, for finer steps."""
    css, script = _asset("report.css"), _asset("report.js")
    plotly, plotly_hash = _plotly()
    room = DRAWN_BYTES_MAX
    is_brief = len(facts.recordings) > RECORDINGS_BRIEF
    first = _first(sections)
    shown: list[dict[str, Any]] = []
    picture = None
    drawings: dict[str, str] = {}
    for number, section in enumerate(sections, 1):
        charts = []
        for place, chart in enumerate(section.charts, 1):
            packed = _packed(json.dumps(_drawing(chart), allow_nan=False, separators=(",", ":")))
            name = f"f{number}-{place}"
            if len(packed) <= room:
                room -= len(packed)
                drawings[name] = packed
            entry: dict[str, Any] = {"id": name, "chart": chart, "is_drawn": name in drawings}
            if chart is first and name in drawings:
                picture = entry
            else:
                charts.append(entry)
        # What is read at once fills a screen; the rest is a click away.
        if is_brief:
            shown.append(_shown(f"s{number}", section, [], [], [*section.lead, *section.tables], charts))
        elif section.lead and charts and charts[0]["chart"].name == COURSE:
            shown.append(_shown(f"s{number}", section, section.lead, [], section.tables, charts[1:]))
            of_what = section.heading.partition(": ")[2]
            shown.append(_shown(f"s{number}-{COURSE}", Section(f"Over time: {of_what}", ""), [], charts[:1]))
        else:
            shown.append(_shown(f"s{number}", section, section.lead, charts[:1], section.tables, charts[1:]))
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            facts=facts,
            answers=_ANSWERS,
            also_max=_ALSO_MAX,
            glance=glance_table(facts.recordings),
            picture=picture,
            sections=shown,
            drawings={name: Markup(packed) for name, packed in drawings.items()},  # noqa: S704 - base64
            colours=Markup(_packed(json.dumps(dark_of_light()))),  # noqa: S704 - base64
            plotly=Markup(plotly) if drawings else "",  # noqa: S704 - base64
            origins=facts.origins[:_ORIGINS_MAX],
            sources_max=_SOURCES_MAX,
            version=distribution.version(),
            css=Markup(css),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            css_hash=_hash(css),
            nothing_hash=_hash(""),
            script_hash=_hash(script),
            plotly_hash=plotly_hash,
            is_served=is_served,
        )
    )


def _shown(
    name: str,
    section: Section,
    lead: Sequence[Table],
    charts: Sequence[dict[str, Any]],
    more_tables: Sequence[Table] = (),
    more_charts: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A section as the page lays it out: what is read at once, and what is a click away."""
    return {
        "id": name,
        "section": section,
        "lead": lead,
        "charts": charts,
        "more_tables": more_tables,
        "more_charts": more_charts,
    }


def _first(sections: Sequence[Section]) -> Chart | None:
    """The picture beside the verdict: the first one low enough to stand there."""
    charts = [chart for section in sections[:2] for chart in section.charts]
    low = [chart for chart in charts if chart.figure["layout"]["height"] <= _PICTURE_PX]
    return low[0] if low else None


def _drawing(chart: Chart) -> dict[str, Any]:
    """What the script needs to know of a chart."""
    return {
        "data": chart.figure["data"],
        "layout": chart.figure["layout"],
        "links": [
            {"low": link.low, "high": link.high, "label": plain(link.label), "anchor": link.anchor}
            for link in chart.links
        ],
        "levels": [
            {
                "low": level.low,
                "high": level.high,
                "x0": level.x0,
                "dx": level.dx,
                "traces": level.traces,
                "values": level.values,
            }
            for level in chart.levels
        ],
        "group": chart.group,
        "isCourse": chart.name == COURSE,
    }


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


@cache
def _plotly() -> tuple[str, str]:
    """Plotly as its Python package brings it, compressed, and its hash."""
    text = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    return _packed(text), _hash(text)


def _finalize(value: object) -> object:
    """Every value that is printed passes here: text is made plain and its length bounded, markup is ours already."""
    return shortened(plain(value), _TEXT_CHARS_MAX) if type(value) is str else value


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8").strip()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"report.html.j2": _asset("report.html.j2")}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": format_bytes, "count": format_count, "duration": format_duration_ns}
    return environment


def render_markdown(facts: ReportFacts, sections: Sequence[Section]) -> str:
    """The report as GitHub's Markdown. Text from traces stays text."""
    return "\n".join(_lines(facts, sections)) + "\n"


def _lines(facts: ReportFacts, sections: Sequence[Section]) -> Iterator[str]:
    yield from (f"# {_text(facts.title)}", "", f"Written {facts.created_utc} by iotrace.", "")
    if facts.answer:
        yield from (f"**{_text(facts.answer)}**", "")
    if not facts.needs:
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


def _items(lines: Sequence[str | Point]) -> Iterator[str]:
    for line in lines:
        point = Point(line, ()) if isinstance(line, str) else line
        yield f"- {_text(point.text)}"
        yield from (f"  - {_text(one)}" for one in point.evidence)
    if lines:
        yield ""


def _table(table: Table) -> Iterator[str]:
    rows = [table.rows[place] for place in _places(table)]
    left_out = f" ({len(rows)} of {len(table.rows)} rows)" if len(rows) < len(table.rows) else ""
    yield from (f"{_text(table.caption)}{left_out}:", "")
    yield from _items(table.points)
    yield f"| {' | '.join(_text(name) or ' ' for name in table.columns)} |"
    yield f"|{'|'.join(':--' if place < table.text_columns else '--:' for place in range(len(table.columns)))}|"
    yield from (f"| {' | '.join(_text(cell) for cell in row)} |" for row in rows)
    yield ""


def _places(table: Table) -> list[int]:
    """The rows that fit: the first ones, or over time those to be kept, and of the others every so many."""
    every = range(len(table.rows))
    if table.kept is None:
        return [*every[:_ROWS_MAX]]
    kept = _thinned([place for place in every if place in table.kept], _ROWS_MAX)
    others = [place for place in every if place not in table.kept]
    return sorted([*kept, *_thinned(others, _ROWS_MAX - len(kept))])


def _thinned(places: list[int], most: int) -> list[int]:
    count = min(most, len(places))
    return [places[step * len(places) // count] for step in range(count)]


def _text(text: str) -> str:
    escaped = shortened(plain(text), _CHARACTERS_MAX).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", escaped)
