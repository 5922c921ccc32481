"""Turns facts and charts into one HTML file that needs nothing else and runs nothing but its own two scripts.

Text from traces cannot become markup: Jinja escapes every value, JSON is embedded without ``<``, ``>`` and ``&``, and a
content security policy names the two scripts by their hash, so that no other one runs and nothing is ever requested.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from ..units import DASH, format_bytes, format_count, format_duration_ns, format_rate, format_share
from .charts import Chart
from .facts import ReportFacts
from .gather import Section
from .tables import summary_tables


def render(facts: ReportFacts, sections: Sequence[Section]) -> str:
    """The page as text."""
    plotly, own = _plotly(), _asset("report.js")
    charts: list[Chart] = []
    shown: list[dict[str, Any]] = []
    for number, section in enumerate(sections, 1):
        drawn = []
        for chart in section.charts:
            drawn.append({"id": f"s{number}-{chart.name}", "chart": chart})
            charts.append(chart)
        shown.append(
            {
                "id": f"s{number}",
                "facts": section.facts,
                "is_sweep": hasattr(section.facts, "knee"),
                "charts": drawn,
                "tables": summary_tables(section.facts),
            }
        )
    figures = {
        entry["id"]: {"data": entry["chart"].data, "layout": entry["chart"].layout}
        for section_shown in shown
        for entry in section_shown["charts"]
    }
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            facts=facts,
            sections=shown,
            css=Markup(_asset("report.css")),  # noqa: S704 - our own file
            plotly=Markup(plotly),  # noqa: S704 - the installed package's own file
            script=Markup(own),  # noqa: S704 - our own file
            script_hashes=[_hash(plotly), _hash(own)],
            figures=embedded_json(figures),
        )
    )


def embedded_json(value: object) -> Markup:
    """JSON that can stand in a script element: without ``<``, ``>``, ``&`` and anything beyond ASCII."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - cannot hold markup any more


@cache
def _plotly() -> str:
    # A line end of another system would change the hash.
    return str(get_plotlyjs()).replace("\r\n", "\n").strip()


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8").strip()


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"report.html.j2": _asset("report.html.j2")}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": format_bytes,
        "count": format_count,
        "duration": format_duration_ns,
        "rate": format_rate,
        "share": format_share,
    }
    environment.globals["dash"] = DASH
    return environment
