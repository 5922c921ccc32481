"""The report in a real browser, offline: drawn, quiet, dark when asked, whole on paper, deaf to what was planted."""

import re
import struct
import zlib

import numpy as np
import pytest

from iotrace.analyze.report import write_report

from .browser import CHROMIUM, browser

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


@pytest.fixture
def opened(page, whole_report):
    page.look()
    page.open(whole_report.path)
    return page


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
    assert opened.evaluate("document.scripts.length") == 0
    loaded_ms = opened.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")
    print(f"\nload event after {loaded_ms:.0f} ms, {whole_report.size_bytes:,} bytes")  # never asserted


def test_every_chart_is_drawn(opened):
    charts = opened.evaluate(
        """Array.from(document.querySelectorAll("svg.chart"), (chart) => {
            const box = chart.getBoundingClientRect();
            const marks = chart.querySelectorAll(".line, .box, .circle, .solid, .stroke");
            const seen = Array.from(marks, (mark) => mark.getBBox()).filter((b) => b.width + b.height > 0);
            const colours = new Set(Array.from(marks, (mark) => {
                const style = getComputedStyle(mark);
                return style.fill === "none" ? style.stroke : style.fill;
            }));
            return [box.width, box.height, seen.length, colours.has("rgb(0, 0, 0)"), chart.getAttribute("aria-label")];
        })"""
    )
    assert len(charts) >= 12
    for width, height, marks, is_black, name in charts:
        assert width > 600, name
        assert height > 100, name
        assert marks > 0, name
        assert not is_black, f"a style without a colour in {name}"


def test_nothing_overlaps_or_is_cut_off(opened):
    for width in (1200, 500):
        opened.look(width=width)
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        clashes = opened.evaluate(
            """Array.from(document.querySelectorAll("svg.chart"), (chart) => {
                const frame = chart.getBoundingClientRect();
                const texts = Array.from(chart.querySelectorAll("text:not(.hit text)"));
                const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
                const outside = boxes.filter(([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1
                    || b.top < frame.top - 1 || b.bottom > frame.bottom + 1).map(([words]) => words);
                const meet = (b, c) => Math.min(b.right, c.right) - Math.max(b.left, c.left) > 2
                    && Math.min(b.bottom, c.bottom) - Math.max(b.top, c.top) > 4;
                const clash = boxes.flatMap(([words, b], i) => boxes.slice(i + 1)
                    .filter(([, c]) => meet(b, c)).map(([other]) => words + " | " + other));
                return [chart.getAttribute("aria-label").slice(0, 40), outside, clash];
            }).filter(([, outside, clash]) => outside.length + clash.length)"""
        )
        assert clashes == [], f"at a width of {width}"


def test_words_show_under_the_pointer(opened):
    box = opened.evaluate(
        """(() => {
            const hit = document.querySelector("svg.chart .hit rect");
            hit.scrollIntoView({block: "center"});
            const b = hit.getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2];
        })()"""
    )
    words = "Array.from(document.querySelectorAll('.hit text'))"
    shown = f"{words}.filter(t => getComputedStyle(t).visibility === 'visible')"
    assert opened.evaluate(f"{shown}.length") == 0
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    assert re.search(r"1x, \d+ IOPS: median", opened.evaluate(f"{shown}.map(t => t.textContent).join()"))


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
    assert 6 <= pages <= 16
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


def test_a_screen_reader_is_told_what_each_chart_shows(opened, whole_report):
    nodes = opened.call("Accessibility.getFullAXTree")["nodes"]
    spoken = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]
    charts = [name for role, name in spoken if role == "image"]
    assert len(charts) >= 12
    assert any(name.startswith("Latency over load. Response time of all reads and writes") for name in charts)
    roles = {role for role, _ in spoken}
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
    assert ("region", "Verdict") in spoken


def test_nothing_planted_in_names_comes_alive(page, tmp_path, hostile_recording):
    write_report([hostile_recording], tmp_path / "report.html", title="<img src=x onerror=alert(1)>")
    page.look()
    page.open(tmp_path / "report.html")
    assert page.complaints == []
    assert len(page.requests) == 1
    planted = "script, img, b, link, iframe, [onmouseover], [onerror]"
    assert page.evaluate(f"document.querySelectorAll('{planted}').length") == 0
    assert page.evaluate("document.querySelector('h1').textContent") == "<img src=x onerror=alert(1)>"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "long names are folded"
    assert "<script>alert('script')</script>" in page.evaluate("document.body.textContent")
