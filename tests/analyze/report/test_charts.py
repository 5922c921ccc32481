"""What the charts draw is what was recorded: planted loads, latencies and layers found again in marks and tables."""

import re

import numpy as np
import pytest

from iotrace.analyze import library
from iotrace.analyze.compare.comparison import WaterfallStep
from iotrace.analyze.describe.description import SizeCount
from iotrace.analyze.knee.series import knee
from iotrace.analyze.report import axes, svg
from iotrace.analyze.report.charts import Band, Boxes, Chart, Key, Limit, Line, Note, Panel, Readout, Table
from iotrace.analyze.report.charts_knee import knee_charts
from iotrace.analyze.report.charts_latency import pair_chart, percentile_chart
from iotrace.analyze.report.charts_layers import layer_chart
from iotrace.analyze.report.charts_size import size_chart
from iotrace.analyze.report.charts_time import SLOTS_MAX, Marked, slot_ns, time_charts
from iotrace.analyze.stats.histogram import Histogram

from ..knee.test_results import published_sqlio

MS = 1_000_000
S = 1_000_000_000


def charts_over_time(recording, window, marked=()):
    with library.opened(recording) as connection:
        return time_charts(connection, "block", window, "service", marked)


@pytest.mark.parametrize(
    ("window_ns", "expected_ns"),
    [
        (1, MS),
        (100 * MS, MS),
        (3 * S, 50 * MS),
        (600 * S, 5 * S),
        (86_400 * S, 900 * S),
        (30 * 86_400 * S, 21_600 * S),
    ],
)
def test_slots_are_round_and_few(window_ns, expected_ns):
    assert slot_ns(window_ns) == expected_ns


def test_slots_stay_few_over_ten_years():
    assert 3650 * 86_400 * S / slot_ns(3650 * 86_400 * S) <= SLOTS_MAX


@pytest.fixture
def steady(make_recording):
    """100 reads a second of 1 MB for 10 s, each 25 ms long: 2.5 in flight (Little); the first began 5 ms before."""
    issued = np.arange(1000) * 10 * MS - 5 * MS
    rows = {"issued_ns": issued, "completed_ns": issued + 25 * MS, "size_bytes": [1_000_000] * 1000}
    return make_recording(rows)


def test_load_and_flight_over_time(steady):
    load, _ = charts_over_time(steady, (0, 10 * S))
    reads, moved, flight = (panel.marks[0] for panel in load.panels)
    middle = slice(1, -1)
    assert [y for _, y in reads.points[middle]] == pytest.approx([100] * 98)
    assert [y for _, y in moved.points[middle]] == pytest.approx([100] * 98)
    # Begun every 10 ms at 5, each 25 ms long: two or three are under way at a time, 2.5 on average.
    assert [y for _, y in load.panels[2].marks[0].points[middle]] == pytest.approx([2.5] * 98)
    assert flight.is_stepped
    assert load.table.rows[50] == ("5.00 s", "100", "0", "95.4 MiB/s", "0 B/s", "2.5")
    assert "100 IOPS on average" in load.shows


def test_a_last_slot_cut_short_counts_per_recorded_second(steady):
    load, _ = charts_over_time(steady, (0, 9_950 * MS))
    reads = [point[1] for point in load.panels[0].marks[0].points]
    assert len(reads) == 100
    assert reads[-1] == pytest.approx(100)
    assert load.panels[2].marks[0].points[-1][1] == pytest.approx(2.5)


def area(boxes):
    return sum((x1 - x0) * (y1 > y0) for x0, x1, y0, y1 in boxes)


def test_heat_map_holds_every_io(steady):
    _, heat = charts_over_time(steady, (0, 10 * S))
    cells = [mark for mark in heat.panels[0].marks if isinstance(mark, Boxes) and mark.boxes]
    # Everything took 25 ms, so there is one row of cells across the whole window.
    assert sum(area(mark.boxes) for mark in cells) == pytest.approx(10, rel=0.02)
    low, high = {(box[2], box[3]) for mark in cells for box in mark.boxes}.pop()
    assert low <= 25 <= high <= low * 1.26
    assert sum(int(row[1]) for row in heat.table.rows) == 999, (
        "the one from before the start is not in a column"
    )
    assert heat.table.rows[3][-1] == "25.12 ms", "at most the upper end of the row of cells"


def test_slow_windows_are_shaded_on_every_panel(steady):
    charts = charts_over_time(steady, (0, 10 * S), [Marked(2 * S, 3 * S, "slow 1")])
    for chart in charts:
        for number, panel in enumerate(chart.panels):
            (band,) = [mark for mark in panel.marks if isinstance(mark, Band)]
            assert (band.low, band.high) == (2, 3)
            assert band.words == ("slow 1" if number == 0 else "")
        assert Key("slow", "slow windows", "box") in chart.legend


def histogram(values_ns):
    buckets, counts = np.unique(np.asarray(values_ns, dtype=np.int64), return_counts=True)
    return Histogram(buckets, counts, int(np.sum(values_ns)), int(np.max(values_ns)))


def test_percentile_curves_follow_the_quantiles_and_end_where_few_ios_are_left():
    values_ns = np.arange(1, 100_001) * 1000
    chart = percentile_chart({"reads": histogram(values_ns)}, "service", "block")
    (line,) = chart.panels[0].marks
    for place, latency_ms in line.points:
        assert latency_ms == pytest.approx(
            np.quantile(values_ns, 1 - 10**-place, method="inverted_cdf") / 1e6, rel=1e-3
        )
    assert line.points[-1][0] == pytest.approx(3), "p99.9: 100 of 100,000 lie beyond"
    assert chart.table.rows == (
        ("reads", "50.00 ms", "75.00 ms", "90.00 ms", "95.00 ms", "99.00 ms", "99.90 ms"),
    )
    assert "half of the reads within 50.00 ms, 99 % within 99.00 ms" in chart.shows


def test_too_few_ios_have_no_curve():
    assert percentile_chart({"reads": histogram([1] * 199)}, "service", "block") is None
    few = histogram([1] * 150)
    assert pair_chart({"read": (few, histogram([1] * 1000))}, ("A", "B"), ("service", "response")) is None


def test_sizes_are_shares_of_the_role_and_operation():
    sizes = [
        SizeCount(0, "data", "read", 8192, 75),
        SizeCount(1, "data", "read", 65536, 25),
        SizeCount(0, "log", "write", 512, 10),
        SizeCount(0, "log", "write", 60 * 1024, 30),
    ]
    chart = size_chart(sizes)
    data, log = chart.panels
    names = [words for _, words in chart.axis.ticks]
    heights = {names[round((x0 + x1) / 2)]: height for x0, x1, _, height in data.marks[0].boxes}
    assert heights == {"8 KiB": 75, "64 KiB": 25}
    assert [box[3] for box in log.marks[0].boxes] == [25, 75]
    assert ("log writes", "60.0 KiB", "30", "75.0 %") in chart.table.rows
    assert "75 % of the data reads are 8.0 KiB" in chart.shows


def test_layers_add_up_from_the_bottom_and_keep_their_sign():
    steps = [
        WaterfallStep("sql", "read", 100, 6 * MS, "block", -2 * MS, "clock error: sql cannot take less time"),
        WaterfallStep("block", "read", 100, 8 * MS, "device", 3 * MS, None),
        WaterfallStep("device", "read", 100, 5 * MS, None, None, None),
    ]
    chart = layer_chart({"": steps})
    boxes = {mark.style: mark.boxes[0][:2] for mark in chart.panels[0].marks if isinstance(mark, Boxes)}
    assert boxes == {"third": (0, 5), "added": (5, 8), "other": (6, 8)}
    assert [row[5] for row in chart.table.rows] == ["–", "3.00 ms", "-2.00 ms"]  # noqa: RUF001
    assert "clock error" in chart.shows
    assert layer_chart({"": steps[2:]}) is None


@pytest.mark.parametrize(
    ("window_s", "unit", "last"),
    [(0.0005, "s", "0.0005"), (10, "s", "10"), (200, "s", "200"), (3600, "min", "60"), (86_400, "h", "24"),
     (30 * 86_400, "days", "30")],
)  # fmt: skip
def test_time_is_told_in_units_people_count_in(window_s, unit, last):
    axis = axes.elapsed(round(window_s * 1e9))
    assert axis.title == f"time since the start ({unit})"
    assert axis.ticks[-1][1] == last
    assert 2 <= len(axis.ticks) <= 12


def test_axes_reach_beyond_the_data():
    axis = axes.linear("IOPS", 4321)
    assert axis.high == axis.ticks[-1][0] == 5000
    wide = axes.logarithmic("ms", 0.02, 300)
    assert [words for _, words in wide.ticks] == ["0.1", "1", "10", "100"]
    assert wide.position(0.0001) == 0
    assert wide.position(1e9) == 1


def test_a_drawing_stays_within_its_frame():
    far = Line("read", ((0.0, 5.0), (10.0, 1e12), (20.0, -3.0)), "square", is_filled=True)
    marks = (far, Band("knee", 2, 400, "a band"), Limit(3, "a limit"), Note((9.9, 2.0), "a note"))
    panel = Panel(axes.linear("y", 10), marks, 100)
    table = Table("t", ("a",), ())
    chart = Chart(
        "c", "Title", "It shows 1.", axes.linear("x", 10), (panel, panel), table, (), (Readout(0, 5, "<b>"),)
    )
    drawing = svg.drawn(chart)
    _, _, width, height = map(float, re.search(r'viewBox="([^"]+)"', drawing)[1].split())
    for outline in re.findall(r' d="(M[^"]*)"', drawing):
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", outline):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height
    assert "<b>" not in drawing
    assert "&lt;b&gt;" in drawing


def test_a_closed_loop_shows_where_it_saturates_and_the_law_whole(tmp_path):
    found = knee(published_sqlio(tmp_path))
    (chart,) = knee_charts(found)
    line, law = (mark for mark in chart.panels[0].marks if isinstance(mark, Line))
    (band,) = (mark for mark in chart.panels[0].marks if isinstance(mark, Band))
    # The published table: 184 IOPS with one outstanding, flat at about 2,400 from 32 on.
    assert line.points[0] == (1, pytest.approx(184))
    assert band.low <= 32 <= band.high
    assert max(y for _, y in law.points) <= chart.panels[0].axis.high
    assert chart.table.rows[0][:2] == ("1", "184")
