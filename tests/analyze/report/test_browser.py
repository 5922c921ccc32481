"""The report in a real browser, offline: drawn, quiet, dark when asked, whole on paper, deaf to what was planted."""

import re
import struct
import zlib

import numpy as np
import pytest

from iotrace.analyze.report import write_report

from .browser import CHROMIUM, browser
from .report_inputs import SLOW_FROM_S, SLOW_UNTIL_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome is installed"),
]
DARK_MAX, LIGHT_MIN = 70, 200
OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}


@pytest.fixture(scope="module")
def page():
    with browser() as tab:
        tab.call("Network.emulateNetworkConditions", **OFFLINE)
        yield tab


READY = "document.documentElement.dataset.ready"
OVER_TIME = "Latency, load and I/Os in flight over time"


@pytest.fixture
def opened(page, whole_report):
    page.look()
    page.open(whole_report.path)
    page.wait_for(READY)
    return page


def draw_all(page):
    """Open all there is to open and bring every chart into sight, since none is drawn before."""
    page.evaluate("document.querySelectorAll('details.rest').forEach(one => { one.open = true; })")
    page.evaluate("window.scrollTo(0, 0)")
    for place in range(page.evaluate("document.querySelectorAll('.chart').length")):
        page.evaluate(f"document.querySelectorAll('.chart')[{place}].scrollIntoView()")
        page.wait_for(f"document.querySelectorAll('.chart')[{place}].querySelector('.main-svg')")


def chart_called(title, section=""):
    """An expression for the chart of that title, the first one after the heading of ``section``."""
    return (
        "Array.from(document.querySelectorAll('main section, .top'))"
        f".filter(s => s.matches('.top') || s.querySelector('h2').textContent.startsWith({section!r}))"
        ".flatMap(s => Array.from(s.querySelectorAll('.chart')))"
        f".find(c => c.getAttribute('aria-label').startsWith({title!r}))"
    )


def area_of(page, chart):
    """Where the uppermost row of a chart lies in the window, after it was brought there: left, top, right, bottom."""
    page.evaluate("document.querySelectorAll('details.rest').forEach(one => { one.open = true; })")
    page.evaluate(f"{chart}.scrollIntoView({{block: 'start'}})")
    page.wait_for(f"{chart}.querySelector('.nsewdrag')")
    return page.evaluate(
        f"(() => {{ const b = {chart}.querySelector('.nsewdrag').getBoundingClientRect();"
        " return [b.left, b.top, b.right, b.bottom]; })()"
    )


def range_of(page, chart):
    """The time that a chart shows, in ms since 1970."""
    return page.evaluate(f"{chart}._fullLayout.xaxis.range.map(v => {chart}._fullLayout.xaxis.r2l(v))")


def pixels(png):
    """Grey values [row, column] of a PNG of 8 bits a channel, without interlace."""
    place, width, height, channels, packed = 8, 0, 0, 0, b""
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        body = png[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[colour]
            assert depth == 8
        elif kind == b"IDAT":
            packed += body
        place += length + 12
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    found = np.zeros((height, width, channels), np.int64)
    for row in range(height):
        filtered, above = lines[row, 1:].reshape(width, channels).astype(np.int64), found[row - 1] * (row > 0)
        found[row] = unfiltered(int(lines[row, 0]), filtered, above)
    return found[:, :, :3] @ np.array([0.299, 0.587, 0.114])


def unfiltered(kind, line, above):
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0) % 256
    if kind == 2:
        return (line + above) % 256
    done = np.zeros_like(line)
    left = upper_left = np.zeros(line.shape[1], np.int64)
    for column in range(len(line)):
        up = above[column]
        if kind == 3:
            guess = (left + up) // 2
        else:
            paeth = left + up - upper_left
            distances = np.abs(np.stack([left, up, upper_left]) - paeth)
            guess = np.choose(distances.argmin(axis=0), [left, up, upper_left])
        done[column] = left = (line[column] + guess) % 256
        upper_left = up
    return done


def test_it_is_quiet_and_asks_for_nothing(opened, whole_report):
    assert opened.complaints == []
    assert opened.requests == [whole_report.path.as_uri()]
    draw_all(opened)
    assert opened.complaints == []
    assert opened.requests == [whole_report.path.as_uri()]
    print(
        f"\ncharts ready after {opened.evaluate('window.performance.now()'):.0f} ms, {whole_report.size_bytes:,} bytes"
    )


def test_every_chart_is_drawn(opened):
    draw_all(opened)
    charts = opened.evaluate(
        """Array.from(document.querySelectorAll(".chart"), (chart) => {
            const box = chart.querySelector(".main-svg").getBoundingClientRect();
            const marks = chart.querySelectorAll(".lines, .point, .heatmaplayer image, .points path");
            return [box.width, box.height, marks.length, chart.getAttribute("aria-label")];
        })"""
    )
    assert len(charts) >= 10
    for width, height, marks, name in charts:
        assert width > 500, name
        assert height > 100, name
        assert marks > 0, name


def test_nothing_is_cut_off(opened):
    for width in (1200, 400):
        opened.look(width=width)
        draw_all(opened)
        # The page draws again shortly after the last change of its width.
        opened.wait_for(
            "Array.from(document.querySelectorAll('.chart .main-svg'))"
            ".every(one => one.getBoundingClientRect().width <= one.closest('.chart').clientWidth + 1)"
        )
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        outside = opened.evaluate(
            """Array.from(document.querySelectorAll(".chart"), (chart) => {
                const frame = chart.getBoundingClientRect();
                const texts = Array.from(chart.querySelectorAll(".xtick text, .ytick text, .annotation-text, .xtitle"));
                return texts.map((text) => [text.textContent, text.getBoundingClientRect()])
                    .filter(([, b]) => b.width && (b.left < frame.left - 1 || b.right > frame.right + 1))
                    .map(([words]) => chart.getAttribute("aria-label").slice(0, 40) + ": " + words);
            }).flat()"""
        )
        assert outside == [], f"at a width of {width}"


def test_a_value_is_read_under_the_pointer(opened):
    chart = chart_called("Latency over load")
    left, top, right, bottom = area_of(opened, chart)
    point = opened.evaluate(
        f"(() => {{ const b = {chart}.querySelector('.point').getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    assert left <= point[0] <= right
    assert top <= point[1] <= bottom
    opened.mouse("mouseMoved", *point)
    opened.wait_for(f"{chart}.querySelector('.hoverlayer .hovertext')")
    said = opened.evaluate(f"{chart}.querySelector('.hoverlayer').textContent")
    assert re.search(r"ms1x, \d+ IOPS offered, \d+ carried", said)


def test_dragging_zooms_all_that_shares_the_time(opened):
    load = chart_called(OVER_TIME, "Over time: the night")
    slow = chart_called("Latency against normal", "Slow windows: the night")
    area_of(opened, load)
    area_of(opened, slow)
    before = range_of(opened, load)
    assert before[1] - before[0] == pytest.approx(60_000)
    assert range_of(opened, slow) == before
    left, top, right, _ = area_of(opened, load)
    width = right - left
    opened.drag(left + width / 4, top + 40, left + width / 2, top + 42)
    opened.wait_for(f"{load}._fullLayout.xaxis.r2l({load}._fullLayout.xaxis.range[0]) > {before[0] + 1000}")
    after = range_of(opened, load)
    assert [(at - before[0]) / 1000 for at in after] == pytest.approx([15, 30], abs=0.5)
    opened.wait_for(
        f"Math.abs({slow}._fullLayout.xaxis.r2l({slow}._fullLayout.xaxis.range[0]) - {after[0]}) < 1"
    )
    assert range_of(opened, slow) == pytest.approx(after)
    other = chart_called(OVER_TIME, "Over time: the candidate")
    area_of(opened, other)
    assert range_of(opened, other) == pytest.approx(before), "another recording has its own time"


def test_what_is_zoomed_into_fills_the_height(opened):
    """Before the slow window no I/O takes as long, and the axis ends where they do."""
    load = chart_called(OVER_TIME, "Over time: the night")
    left, top, right, _ = area_of(opened, load)
    ends = f"{load}._fullLayout.yaxis.range"
    before = opened.evaluate(ends)
    opened.drag(left + (right - left) * 0.05, top + 40, left + (right - left) * 0.25, top + 42)
    opened.wait_for(f"{ends}[1] < {before[1]}")
    low, high = opened.evaluate(ends)
    seen = opened.evaluate(
        f"{load}.data.filter(t => (t.yaxis ?? 'y') === 'y').flatMap(t => t.y).filter(v => v > 0)"
    )
    assert max(seen) > 10**high, "the slow window is beyond it"
    assert low < high


def test_a_slow_window_is_zoomed_into_in_finer_steps_and_leads_to_its_table(opened):
    load = chart_called(OVER_TIME, "Over time: the night")
    area_of(opened, load)
    steps = f"{load}.data[0].dx"
    coarse_ms = opened.evaluate(steps)
    opened.evaluate(
        f"Array.from({load}.nextElementSibling.querySelectorAll('button'))"
        ".find(b => b.textContent === 'Zoom to slow 1').click()"
    )
    low, high = range_of(opened, load)
    start_ms = 1_767_400_000_000
    assert (low - start_ms) / 1000 == pytest.approx(SLOW_FROM_S - 2, abs=1)
    assert (high - start_ms) / 1000 == pytest.approx(SLOW_UNTIL_S + 2, abs=1)
    assert opened.evaluate(steps) == pytest.approx(10)
    assert coarse_ms > 10
    left, top, right, bottom = area_of(opened, load)
    opened.mouse("mouseMoved", (left + right) / 2, top + 60)
    opened.wait_for(f"{load}.querySelector('.hoverlayer').textContent")
    opened.click((left + right) / 2, top + 60)
    opened.wait_for("document.querySelector('.pointed')")
    assert opened.evaluate("document.querySelector('.pointed caption').textContent").startswith("Window 1: ")
    top, bottom = opened.evaluate(
        "(() => { const b = document.querySelector('.pointed').getBoundingClientRect(); return [b.top, b.bottom]; })()"
    )
    assert 0 <= top < bottom <= 900


def test_without_scripts_the_verdict_sentences_and_tables_remain(page, whole_report):
    page.look()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(whole_report.path)
        # Plain words and boxes, read from outside: nothing runs in the page.
        tree = page.call("DOM.getDocument", depth=-1)["root"]
        boxes = page.call("DOM.querySelectorAll", nodeId=tree["nodeId"], selector="figure table")["nodeIds"]
        assert len(boxes) >= 10
        for node in boxes:
            assert page.call("DOM.getBoxModel", nodeId=node)["model"]["height"] > 20
        (first, *_) = page.call("DOM.querySelectorAll", nodeId=tree["nodeId"], selector=".chart")["nodeIds"]
        with pytest.raises(AssertionError, match="box model"):
            page.call("DOM.getBoxModel", nodeId=first)
        said = [name for _, name in spoken(page)]
        assert any("The charts need scripts" in name for name in said)
        assert any("The candidate /dev/sdb carries" in name for name in said)
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)


def test_it_is_dark_in_a_dark_room(opened):
    light = pixels(opened.screenshot(height=1500, scale=0.2))
    opened.look(dark=True)
    dark = pixels(opened.screenshot(height=1500, scale=0.2))
    assert np.median(light) > LIGHT_MIN
    assert np.median(dark) < DARK_MAX
    assert np.percentile(dark, 99.5) > 2 * DARK_MAX, "words and lines are light"


def test_it_prints_whole_on_few_pages(opened):
    opened.look(dark=True)
    printed = opened.pdf()
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 6 <= pages <= 24
    opened.look(media="print", dark=True)
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.evaluate("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"
    # A4 less the margins, at 96 to the inch.
    room_px = (297 - 2 * 15) / 25.4 * 96
    width_px = round((210 - 2 * 15) / 25.4 * 96)
    opened.look(width=width_px, media="print")
    heights = opened.evaluate(
        "Array.from(document.querySelectorAll('figure'), (f) => f.getBoundingClientRect().height)"
    )
    assert max(heights) < room_px
    assert opened.evaluate("document.documentElement.scrollWidth") <= width_px


WIDEST = (
    "Array.from(document.querySelectorAll('section .scroll'))"
    ".reduce((a, b) => b.scrollWidth - b.clientWidth > a.scrollWidth - a.clientWidth ? b : a)"
)


def edge(page, scrolled_px):
    """What most of the right edge of the widest table is: 255 is the paper."""
    page.evaluate(f"{WIDEST}.scrollLeft = {scrolled_px}")
    right, top, height = page.evaluate(
        f"(({{right, y, height}}) => [right, y + scrollY, height])({WIDEST}.getBoundingClientRect())"
    )
    shown = pixels(page.screenshot(top=round(top), height=round(height), width=390))
    return np.median(shown[:, round(right) - 4 : round(right) - 1])


def test_a_table_that_goes_on_beyond_a_narrow_screen_is_shaded_there(opened):
    opened.look(width=390)
    draw_all(opened)
    assert edge(opened, 0) < 240
    assert edge(opened, 100_000) > 250


def test_what_is_folded_stands_open_on_paper_and_only_there(opened):
    """Paper cannot be clicked on."""
    folded = "document.querySelectorAll('details.rest, details.paper')"
    states = f"Array.from({folded}, (one) => one.open)"
    before = opened.evaluate(states)
    assert not all(before)
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(opened.evaluate(states))
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.evaluate(states) == before


def spoken(page):
    """Role and name of what a screen reader meets."""
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]


def test_a_screen_reader_is_told_what_each_chart_shows(opened, whole_report):
    draw_all(opened)
    heard = spoken(opened)
    charts = [name for role, name in heard if role in {"image", "group"}]
    assert len(charts) >= 10
    assert any(name.startswith("Latency over load. Response time of all reads and writes") for name in charts)
    roles = {role for role, _ in heard}
    assert {
        "main",
        "banner",
        "navigation",
        "region",
        "heading",
        "table",
        "columnheader",
        "rowheader",
    } <= roles
    assert ("region", "Verdict") in heard


def test_nothing_planted_in_names_comes_alive(page, tmp_path, hostile_recording):
    write_report([hostile_recording], tmp_path / "report.html", title="<img src=x onerror=alert(1)>")
    page.look()
    page.open(tmp_path / "report.html")
    page.wait_for(READY)
    draw_all(page)
    chart = chart_called("Service time by percentile")
    area = area_of(page, chart)
    page.mouse("mouseMoved", (area[0] + area[2]) / 2, (area[1] + area[3]) / 2)
    assert page.complaints == []
    assert len(page.requests) == 1
    planted = "img, b, link, iframe, [onmouseover], [onerror], .chart a, .chart script"
    assert page.evaluate(f"document.querySelectorAll('{planted}').length") == 0
    assert page.evaluate("document.querySelector('h1').textContent") == "<img src=x onerror=alert(1)>"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "long names are folded"
    assert "<script>alert('script')</script>" in page.evaluate("document.body.textContent")
