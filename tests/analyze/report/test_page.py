"""The page: one file that asks for nothing and runs only its own, for eyes, ears and paper, and small."""

import base64
import gzip
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import plotly.graph_objects as go
import pytest

from iotrace.analyze.present import Section, Sentence
from iotrace.analyze.present import Table as AnswerTable
from iotrace.analyze.present.answer import columns
from iotrace.analyze.report import page, write_report
from iotrace.analyze.report.parts import Table, plain
from iotrace.analyze.report.plot import DARK, LIGHT
from iotrace.analyze.report.tables import page_tables
from iotrace.analyze.report.write import tell
from iotrace.schemas.text import shortened

from ...hostile_names import HOSTILE_NAMES, LONE_SURROGATE
from ...recordings import write_recording
from .report_inputs import write_night

SIZE_MAX = 3_000_000
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Elements(HTMLParser):
    """Elements with their attributes, and the text of the page without its style sheet and its scripts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.said, self.scripts = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.said.append(data)
        if "script" in self.open:
            self.scripts.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def whole(whole_report):
    return whole_report.path.read_text("utf-8")


def hashed(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def test_it_asks_for_nothing_and_runs_only_its_own_script_and_plotly(whole):
    elements = Elements(whole)
    policy = next(meta["content"] for meta in elements.of("meta") if "http-equiv" in meta)
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    assert allowed.pop("default-src") == allowed.pop("base-uri") == allowed.pop("form-action") == "'none'"
    assert allowed.pop("img-src") == "data: blob:", "pictures that the page makes itself"
    own = elements.scripts[-1]
    plotly = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    assert allowed.pop("script-src") == f"'{hashed(own)}' '{hashed(plotly)}'"
    style = re.search(r"<style>(.*?)</style>", whole, re.DOTALL)[1]
    assert allowed.pop("style-src") == f"'{hashed(style)}' '{hashed('')}'"
    assert not allowed
    for tag in ("link", "img", "iframe", "object", "embed", "base", "form", "foreignObject", "use"):
        assert not elements.of(tag), tag
    *data, last = elements.of("script")
    assert last == {}
    assert {one["type"] for one in data} == {"application/gzip"}, "no browser runs that"
    attributes = [(name, value) for _, all_of in elements.found for name, value in all_of.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in {"style", "src", "srcset"}]
    assert all(value.startswith("#") for name, value in attributes if name in {"href", "xlink:href"})
    assert "http://" not in whole
    assert "https://" not in whole


def unpacked(text):
    return gzip.decompress(base64.b64decode(text))


def test_plotly_lies_in_the_page_as_its_package_brings_it(whole):
    elements = Elements(whole)
    library = next(data for one, data in zip(elements.of("script"), elements.scripts, strict=True)
                   if one.get("id") == "plotly")  # fmt: skip
    assert (
        unpacked(library) == resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    )


def test_every_chart_has_words_with_figures_and_a_table(whole):
    elements = Elements(whole)
    charts = [each for each in elements.of("div") if each.get("class") == "chart"]
    assert len(charts) == len(elements.of("figure")) == len(elements.of("figcaption")) >= 10
    for chart in charts:
        assert chart["role"] == "img"
        assert re.search(r"\d", chart["aria-label"]), chart["aria-label"]
        assert len(chart["aria-label"]) > 60
        assert "hidden" in chart, "without scripts there is no empty frame"
    figures = re.findall(r"<figure .*?</figure>", whole, re.DOTALL)
    assert all(figure.count("<table>") == 1 for figure in figures)
    assert all("<details open>" in figure for figure in figures), "without scripts the tables are open"
    assert len(elements.of("noscript")) == 1


def test_every_figure_is_one_that_plotly_knows(whole):
    elements = Elements(whole)
    packed = {one["data-figure"]: data for one, data in zip(elements.of("script"), elements.scripts, strict=True)
              if "data-figure" in one}  # fmt: skip
    assert len(packed) >= 10
    for name, data in packed.items():
        drawing = json.loads(unpacked(data))
        figure = go.Figure({"data": drawing["data"], "layout": drawing["layout"]})
        assert figure.data, name
        assert {link["anchor"] for link in drawing["links"]} <= {one.get("id") for one in elements.of("div")}


def test_a_screen_reader_finds_its_way(whole):
    elements = Elements(whole)
    assert elements.of("html")[0]["lang"] == "en"
    assert len(elements.of("h1")) == len(elements.of("main")) == len(elements.of("header")) == 1
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in zip([0, *levels], levels, strict=False))
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {section["aria-labelledby"] for section in elements.of("section")} <= set(ids)
    assert all(link["href"][1:] in ids for link in elements.of("a"))
    assert all(head["scope"] in {"col", "row"} for head in elements.of("th"))
    assert len(elements.of("caption")) == len(elements.of("table"))
    assert all(nav["aria-label"] for nav in elements.of("nav"))


def contrast(one, other):
    """Ratio of luminances as WCAG 2.2 defines it."""

    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out_on_light_and_dark_pages():
    css = page._asset("report.css")
    themes = [
        dict(re.findall(r"--([\w]+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    ]
    light, dark = themes[0], themes[1]
    for theme in (light, dark, light | themes[2]):
        for background in ("paper", "panel"):
            for words in ("ink", "soft", "link", "yes", "no", "warn"):
                assert contrast(theme[words], theme[background]) >= 4.5, (words, background)
    for theme, drawn in ((light, LIGHT), (dark, DARK)):
        assert drawn["paper"] == theme["paper"]
        for name in ("read", "write", "third", "fourth", "fifth", "sixth", "other", "knee", "onset", "slow"):
            assert contrast(drawn[name], theme["paper"]) >= 3, name
        for name in ("ink", "soft"):
            assert contrast(drawn[name], theme["paper"]) >= 4.5, name
    assert contrast("#ffffff", "#777777") == pytest.approx(4.48, abs=0.01), "the example everybody knows"


def test_hostile_names_stay_text(tmp_path, hostile_recording):
    title = HOSTILE_NAMES["end of an element"]
    facts = write_report([hostile_recording, hostile_recording], tmp_path / "report.html", title=title)
    text = (tmp_path / "report.html").read_bytes().decode("utf-8")
    bad = {char for char in text if not char.isprintable() and char != "\n"}
    assert not bad, sorted(map(hex, map(ord, bad)))
    elements = Elements(text)
    assert not elements.open, "every element is closed where it should be"
    for tag in ("img", "b", "link"):
        assert not elements.of(tag)
    drawn = [unpacked(data).decode() for data in elements.scripts[:-3]]
    assert len(drawn) == len([one for one in elements.of("script") if "data-figure" in one]) >= 3
    assert not [figure for figure in drawn if re.search(r"<(?!/?b>|br>|extra>|/extra>)", figure)]
    known = {"class", "id", "lang", "charset", "http-equiv", "content", "name", "href", "role", "tabindex", "scope",
             "open", "hidden", "type", "data-figure", "data-chart"}  # fmt: skip
    seen = {name for _, attributes in elements.found for name in attributes}
    assert {name for name in seen - known if not name.startswith("aria-")} == set()
    said = "".join(elements.said)
    assert "{{ 7*7 }}" in said
    assert "<script>alert('script')</script>" in said
    assert "sales\\u202efdm.exe" in said, "what turns the text round is spelled out"
    assert facts.title == title
    assert len(text) < SIZE_MAX, "paths of 4 KB are shortened"


def test_text_is_made_plain():
    assert plain("C:\\data.mdf 数据") == "C:\\data.mdf 数据"
    assert plain("a\u202eb\x00c\td") == "a\\u202eb\\u0000c d"
    assert plain(LONE_SURROGATE) == "sales\\ud800.mdf"
    long = "D:\\" + "folder\\" * 600 + "sales.mdf"
    assert shortened(long) == "D:\\" + "folder\\" * 20 + "…\\sales.mdf"


@pytest.mark.slow
def test_it_stays_small_whatever_is_behind_it(tmp_path):
    """A month, 60 devices, 400 files with long names, every size, latencies over eight decades."""
    count = 20_000
    random = np.random.default_rng(3)
    window_ns = 30 * 86_400_000_000_000
    issued = np.sort(random.integers(0, window_ns, count))
    roles = ["data", "log", "tempdb_data", "tempdb_log", "backup", "system", "other"]
    files = [
        {
            "file_id": number, "path": f"D:\\{'x' * 3000}\\{number}.mdf", "role": roles[number % 7],
            "device_id": number % 60,
        }
        for number in range(400)
    ]  # fmt: skip
    io = {
        "op": random.choice(["read", "write"], count),
        "issued_ns": issued,
        "completed_ns": issued + (10 ** random.uniform(3, 11, count)).astype(np.int64),
        "offset_bytes": random.integers(0, 10**9, count) * 512,
        "size_bytes": random.integers(1, 32768, count) * 512,
        "device_id": random.integers(0, 60, count),
        "file_id": random.integers(0, 400, count),
    }
    devices = [{"device_id": number, "name": f"disk {number}", "kind": "disk"} for number in range(60)]
    tables = {"devices": devices, "files": files}
    wide = write_recording(
        tmp_path / "wide.iotrace", io, tables=tables, title="wide", window_end_ns=window_ns
    )
    facts = write_report([wide], tmp_path / "one.html")
    assert facts.size_bytes < SIZE_MAX


def test_a_single_io_has_a_page(tmp_path, make_recording):
    only = make_recording([{"issued_ns": 5, "completed_ns": 5}])
    write_report([only], tmp_path / "report.html")
    assert "Latency, load and I/Os in flight over time" in (tmp_path / "report.html").read_text("utf-8")


def test_many_recordings_make_a_file_that_can_be_mailed(tmp_path, night, monkeypatch):
    monkeypatch.setattr(page, "DRAWN_BYTES_MAX", 20_000)
    write_report([night], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    drawn = text.count('<div class="chart"')
    assert 0 < drawn < text.count("<figure ")
    assert text.count("Not drawn, to keep the file small") == text.count("<figure ") - drawn
    assert text.count("<table>") > text.count("<figure "), "the figures are there all the same"


def test_of_many_recordings_those_are_drawn_that_were_slow(tmp_path):
    calm = [write_night(tmp_path / f"calm{number}.iotrace", replay_of="0" * 32) for number in range(4)]
    slow = write_night(tmp_path / "slow.iotrace")
    _, sections = tell([*calm, slow])
    drawn = [section for section in sections if section.heading.startswith("Recording") and section.charts]
    assert len(drawn) == 3
    assert drawn[-1] is sections[-1], "the slow one comes last and is drawn"
    left = [section for section in sections if any("iotrace report calm" in note for note in section.notes)]
    assert len(left) == 2
    assert not any(section.charts or section.tables for section in left)
    assert all(section.sentence and section.lead for section in left)


def test_of_many_recordings_the_verdict_counts_the_slow_ones_and_names_them(tmp_path):
    """Each has a row in the table below it; a paragraph for each would bury the answer."""
    issued = np.arange(0, 300 * 10**9, 10**8)
    io = {
        "issued_ns": issued,
        "completed_ns": issued + np.random.default_rng(3).integers(900_000, 1_100_000, 3000),
    }
    calm = [
        write_recording(tmp_path / f"calm{number}.iotrace", io, window_end_ns=300 * 10**9)
        for number in range(4)
    ]
    facts, sections = tell([*calm, write_night(tmp_path / "slow.iotrace")], slo="p95<5ms")
    assert facts.title == "5 recordings"
    assert facts.verdict == "1 of 5 recordings was slow for a time; the others show no slow time."
    told = [words for words in facts.also if "slower than normal" in words]
    assert len(told) == 1
    assert told[0].startswith(f"{facts.recordings[-1].description.title} (captured): From ")
    titles = [one.description.title for one in facts.recordings]
    assert len(set(titles)) == 5
    assert f"Slow windows: {titles[-1]}" in [section.heading for section in sections]
    # Of objectives, those that are missed.
    met = [check.is_met for one in facts.recordings for check in one.objectives]
    assert met == [True, True, True, True, False]
    (missed,) = [words for words in facts.also if "above the objective of 5 ms" in words]
    assert missed.startswith(titles[-1])


def rows_shown(table):
    return [line.split("|")[1].strip() for line in page._table(table) if line.startswith("| ")][1:]


@pytest.mark.parametrize(
    ("kept", "held"),
    [
        ({*range(60, 70)}, {*range(60, 70)}),
        ({*range(10, 100)}, {10, 12, 14, 97}),
        (set(), {0, 2, 5, 97}),
        (None, {*range(40)}),
    ],
)
def test_of_rows_over_time_markdown_keeps_the_slow_ones_and_thins_the_others(kept, held):
    rows = tuple((str(number), "1") for number in range(100))
    kept = None if kept is None else frozenset(kept)
    shown = [int(row) for row in rows_shown(Table("Over time", ("from", "n"), rows, kept=kept))]
    assert len(shown) == 40
    assert shown == sorted(shown)
    assert held <= {*shown}
    if kept is not None and len(kept) < 40:
        others = [number for number in range(100) if number not in kept]
        places = [others.index(number) for number in shown if number not in kept]
        assert {2, 3} >= {after - before for before, after in itertools.pairwise(places)}


def test_a_list_above_a_table_is_a_list_in_markdown_and_on_the_page():
    column = columns("", "n")
    section = Section(
        "What else",
        AnswerTable(column, [("a", "1")]),
        [Sentence("in all"), Sentence("  - <i>"), Sentence("  - b")],
    )
    (table,) = page_tables([section])
    assert (table.caption, table.points) == ("What else; in all", ("<i>", "b"))
    assert [*page._table(table)][:5] == ["What else; in all:", "", r"- &lt;i\>", "- b", ""]


def test_markdown_tells_a_slow_window_whole(tmp_path, night):
    """It lasts from 20 to 28 s of 60 s, in as many rows as there are seconds."""
    write_report([night], tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text("utf-8")
    table = text[text.index("| from | block |") :].partition("\n\n")[0]
    seconds = [float(line.split("|")[1].split()[0]) for line in table.splitlines()[2:]]
    assert {*range(20, 28)} <= {*seconds}
    assert len(seconds) == 40
    assert seconds[-1] > 55
