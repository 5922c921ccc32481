"""Turns facts and sections into one HTML file that needs nothing else and runs nothing at all.

Text from traces cannot become markup: Jinja escapes every value, drawings escape theirs, and a content security policy
allows the page its own style sheet, by its hash, and else nothing: no script, no picture, no request.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import metadata, resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from iotrace.analyze.units import format_bytes, format_count, format_duration_ns
from iotrace.schemas.text import shortened

from . import svg
from .charts import plain
from .facts import ReportFacts
from .section import Section

DRAWN_BYTES_MAX: Final = 3_000_000
"""Charts beyond this are left to their tables, so that a report on many recordings stays a file to be mailed."""
_ORIGINS_MAX: Final = 60
_SOURCES_MAX: Final = 20
_TEXT_CHARS_MAX: Final = 2000


def render(facts: ReportFacts, sections: Sequence[Section]) -> str:
    """The page as text."""
    css = _asset("report.css")
    room = DRAWN_BYTES_MAX
    shown: list[dict[str, Any]] = []
    for number, section in enumerate(sections, 1):
        charts = []
        for chart in section.charts:
            drawing = svg.drawn(chart)
            room -= len(drawing)
            charts.append(
                {
                    "title": chart.title,
                    "shows": chart.shows,
                    "table": chart.table,
                    "legend": [(svg.swatch(key), key.words) for key in chart.legend],
                    "svg": drawing if room > 0 else None,
                }
            )
        shown.append(
            {
                "id": f"s{number}",
                "heading": section.heading,
                "sentence": section.sentence,
                "points": section.points,
                "notes": section.notes,
                "lead": section.lead,
                "charts": charts,
                "tables": section.tables,
            }
        )
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            facts=facts,
            sections=shown,
            origins=facts.origins[:_ORIGINS_MAX],
            sources_max=_SOURCES_MAX,
            version=metadata.version("iotrace"),
            css=Markup(css),  # noqa: S704 - our own file
            css_hash=_hash(css),
        )
    )


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
