"""The report as Markdown, as a workbook and as PDF: the same facts, and names from traces stay text there too."""

import re
import xml.etree.ElementTree as ET
import zipfile
from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest

from iotrace.analyze.report import chromium, write_report
from iotrace.analyze.report.write import kind_of
from iotrace.schemas import IotraceError

from ...hostile_names import HOSTILE_NAMES
from .browser import CHROMIUM

MS = 1_000_000
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [("r.html", None, "html"), ("r.MD", None, "md"), ("r.xlsx", "xlsx", "xlsx"), ("r", None, "html"),
     ("r", "pdf", "pdf")],
)  # fmt: skip
def test_a_name_says_what_it_becomes(tmp_path, name, wanted, expected):
    assert kind_of(tmp_path / name, wanted) == expected


@pytest.mark.parametrize(
    ("name", "wanted", "message"),
    [("r.txt", None, "'r.txt' does not end in a kind"), ("r.md", "html", "'r.md' is html by --to, but md"),
     ("r", "docx", "'docx' is not a kind of report")],
)  # fmt: skip
def test_what_it_cannot_become_is_refused(tmp_path, name, wanted, message):
    with pytest.raises(IotraceError, match=message):
        kind_of(tmp_path / name, wanted)


@pytest.fixture
def hostile_files(make_recording):
    """Reads of files that have each of the hostile names."""
    names = [HOSTILE_NAMES["formula"], *(name for name in HOSTILE_NAMES.values() if name.strip())]
    io = [
        {
            "issued_ns": (place * 20 + again) * MS,
            "completed_ns": (place * 20 + again) * MS + 500_000,
            "file_id": place,
        }
        for place in range(len(names))
        for again in range(10)
    ]
    files = [
        {"file_id": place, "path": name, "role": "data", "device_id": 0} for place, name in enumerate(names)
    ]
    return make_recording(io, tables={"files": files})


def test_markdown_holds_the_same_and_no_markup_of_others(tmp_path, hostile_files):
    facts = write_report([hostile_files], tmp_path / "r.md", title="<b>[x](y)</b>")
    text = facts.path.read_text("utf-8")
    assert text.startswith("# &lt;b\\>\\[x\\](y)&lt;/b\\>\n")
    assert facts.verdict.split(".")[0].replace("_", "\\_") in text
    body = text.rsplit("<!-- written by iotrace", 1)[0]
    assert "<" not in body
    assert not re.search(r"(?<!\\)(://|[`@])", body)
    rows = [line for line in body.splitlines() if line.startswith("|")]
    assert len(rows) > 20
    width = 0
    for line, before in zip(rows, ["", *rows], strict=False):
        bars = len(re.findall(r"(?<!\\)\|", line))
        if before and body.find(f"{before}\n{line}") >= 0:
            assert bars == width, line
        width = bars
    assert all(char.isprintable() or char == "\n" for char in text)


def _in_columns(row, shared):
    """Cells of a row by their columns; None where one is empty."""
    cells = {}
    for cell in row:
        value = cell.find(f"{SHEET}v")
        if value is not None:
            letters = re.match("[A-Z]+", cell.get("r"))[0]
            place = reduce(lambda total, letter: total * 26 + ord(letter) - 64, letters, 0) - 1
            cells[place] = shared[int(value.text)] if cell.get("t") == "s" else float(value.text)
    return [cells.get(place) for place in range(max(cells, default=-1) + 1)]


def references(path):
    """What the charts of a workbook refer to."""
    with zipfile.ZipFile(path) as book:
        charts = [name for name in book.namelist() if name.startswith("xl/charts/chart")]
        return [one for name in charts for one in re.findall(r"<c:f>([^<]*)</c:f>", book.read(name).decode())]


def test_a_title_of_a_chart_is_no_reference(tmp_path, hostile_files):
    """XlsxWriter takes some titles for one, and would have Excel look it up."""
    hostile_files.manifest.title = HOSTILE_NAMES["formula"]
    facts = write_report([hostile_files], tmp_path / "r.xlsx")
    found = references(facts.path)
    assert found
    assert all(re.fullmatch(r"(Sizes|'Over time')!(\$[A-Z]+\$\d+:?){1,2}", one) for one in found), found


def sheets(path):
    """Cells of each sheet by its name: rows of numbers and text."""
    with zipfile.ZipFile(path) as book:
        shared = ["".join(one.itertext()) for one in ET.fromstring(book.read("xl/sharedStrings.xml"))]
        names = [one.get("name") for one in ET.fromstring(book.read("xl/workbook.xml")).iter(f"{SHEET}sheet")]
        found = {}
        for number, name in enumerate(names, 1):
            sheet = ET.fromstring(book.read(f"xl/worksheets/sheet{number}.xml"))
            assert not list(sheet.iter(f"{SHEET}f")), "no formulas"
            assert not list(sheet.iter(f"{SHEET}hyperlink"))
            found[name] = [_in_columns(row, shared) for row in sheet.iter(f"{SHEET}row")]
        return found


def test_a_workbook_has_the_steps_as_numbers_and_charts_of_its_own(tmp_path, sweep):
    facts = write_report([sweep], tmp_path / "r.xlsx", need=2)
    found = sheets(facts.path)
    assert facts.answer in [row[-1] for row in found["Summary"] if row]
    head, *rows = found["Steps"]
    steps = facts.sweeps[0].knee.steps
    place = head.index("carried IOPS")
    assert [row[place] for row in rows] == pytest.approx([step.achieved_iops for step in steps])
    with zipfile.ZipFile(facts.path) as book:
        chart = book.read("xl/charts/chart1.xml").decode()
    assert "Steps!$E$2:$E$6" in chart, "over the load that was offered"


def test_a_workbook_has_files_sizes_and_the_course(tmp_path, hostile_files):
    facts = write_report([hostile_files], tmp_path / "r.xlsx")
    found = sheets(facts.path)
    head, *rows = found["Files"]
    assert {row[head.index("reads")] for row in rows} == {10}
    assert "=cmd|' /C calc'!A0" in [row[1] for row in rows], "as text"
    assert found["Sizes"][1][1:] == ["data", 8192, hostile_files.manifest.rows["io"], 0]
    head, *rows = found["Over time"]
    step_s = rows[1][0] - rows[0][0]
    reads = head.index("reads")
    assert sum(row[reads] or 0 for row in rows if len(row) > reads) > 0
    assert step_s > 0
    with zipfile.ZipFile(facts.path) as book:
        assert len([name for name in book.namelist() if name.startswith("xl/charts/chart")]) == 2


def test_a_workbook_says_when_how_slow_and_where_from(tmp_path, night):
    facts = write_report([night], tmp_path / "r.xlsx")
    found = sheets(facts.path)
    described = facts.recordings[0].description
    head, row = found["Recordings"]
    days = row[head.index("from (UTC)")]
    began = datetime(1899, 12, 30, tzinfo=UTC) + timedelta(days=days)
    assert abs(began.timestamp() - described.start_utc_ns / 1e9) < 1.1
    head, *rows = found["Latency by layer"]
    first = described.layer_latencies[0]
    assert rows[0][1:4] == [first.layer, first.op, first.metric]
    assert rows[0][head.index("p50 (ms)")] == pytest.approx(first.latency.quantiles_ns["p50"] / 1e6)
    head, row = found["Provenance"]
    assert row[head.index("identity")] == night.manifest.uuid


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome is installed")
def test_a_pdf_is_printed_whole(tmp_path, sweep):
    facts = write_report([sweep], tmp_path / "r.pdf")
    printed = facts.path.read_bytes()
    assert printed.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 8


def test_without_chromium_a_pdf_is_refused_before_anything_is_computed(tmp_path, monkeypatch, sweep):
    monkeypatch.setattr(chromium.shutil, "which", lambda _: None)
    with pytest.raises(IotraceError, match="Chromium, which is not installed"):
        write_report([sweep], tmp_path / "r.pdf")
    assert list(tmp_path.iterdir()) == []
