"""What the charts draw is what was recorded: planted loads, latencies and layers found again in figures and tables."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from iotrace.analyze import library
from iotrace.analyze.compare.comparison import WaterfallStep
from iotrace.analyze.describe.description import SizeCount
from iotrace.analyze.knee.series import knee
from iotrace.analyze.report.charts_knee import knee_charts
from iotrace.analyze.report.charts_latency import layer_chart, pair_chart, percentile_chart
from iotrace.analyze.report.charts_size import size_chart
from iotrace.analyze.report.charts_time import (
    SLOTS_MAX,
    CounterName,
    Marked,
    read_course,
    slot_ns,
    time_charts,
)
from iotrace.analyze.report.plot import (
    DARK,
    DASHES,
    LIGHT,
    Mark,
    Row,
    TimeAxis,
    dark_of_light,
    figure,
    linear,
    words,
)
from iotrace.analyze.stats.histogram import Histogram

from ..knee.test_results import published_sqlio

MS = 1_000_000
S = 1_000_000_000


def chart_over_time(recording, window, marked=(), **more):
    with library.opened(recording) as connection:
        (chart,) = time_charts(
            recording, connection, "block", TimeAxis(*window, None), "service", marked, **more
        )
    return chart


def traces(chart):
    return {trace["name"]: trace for trace in chart.figure["data"]}


def valid(chart):
    """The figure, as Plotly's own schema takes it; it raises where that knows of no such attribute or value."""
    return go.Figure(chart.figure)


@pytest.mark.parametrize(
    ("window_ns", "expected_ns"),
    [
        (1, MS),
        (100 * MS, MS),
        (3 * S, MS),
        (3600 * S, S),
        (86_400 * S, 30 * S),
        (30 * 86_400 * S, 900 * S),
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
    chart = chart_over_time(steady, (0, 10 * S))
    valid(chart)
    seen = traces(chart)
    middle = slice(1, -1)
    steps_s = seen["reads"]["dx"]
    assert seen["reads"]["x0"] == steps_s / 2
    assert seen["reads"]["y"][middle] == pytest.approx([100] * (round(10 / steps_s) - 2))
    assert set(seen["MB/s read"]["y"][middle]) == {100}
    assert set(seen["writes"]["y"]) == {0}
    # Begun every 10 ms at 5, each 25 ms long: two or three are under way at a time, 2.5 on average.
    assert seen["in flight"]["y"][middle] == pytest.approx([2.5] * (round(10 / steps_s) - 2))
    assert seen["longest"]["y"] == [25] * len(seen["longest"]["y"])
    assert {value for value in seen["median"]["y"] if value is not None} == {25}, "never above the longest"
    assert chart.table.rows[25][:6] == ("5.00 s", "100", "0", "100 MB/s", "0 MB/s", "2.5")
    assert "100 IOPS on average" in chart.shows


def test_a_last_slot_cut_short_counts_per_recorded_second(steady):
    seen = traces(chart_over_time(steady, (0, 9_990 * MS)))
    assert seen["reads"]["y"][-1] == pytest.approx(100)
    assert seen["in flight"]["y"][-1] == pytest.approx(2.5)


def test_heat_map_holds_every_io(steady):
    heat = traces(chart_over_time(steady, (0, 10 * S)))["I/Os"]
    cells = [[count or 0 for count in row] for row in heat["z"]]
    # The one from before the start has no column; everything took 25 ms, so there is one row.
    assert sum(map(sum, cells)) == 999
    (row,) = [place for place, counts in enumerate(cells) if sum(counts)]
    low, high = heat["y"][row], heat["y"][row + 1]
    assert low <= 25 <= high
    assert high == pytest.approx(low * 10**0.1, rel=1e-4)
    assert len(cells[0]) * heat["dx"] == pytest.approx(10, rel=0.05)


def test_slow_windows_are_shaded_and_lead_to_their_tables(steady):
    chart = chart_over_time(steady, (0, 10 * S), [Marked(2 * S, 3 * S, "slow 1", "r1-window-1")])
    (shade,) = [shape for shape in chart.figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert (shade["x0"], shade["x1"], shade["yref"]) == (2, 3, "paper")
    assert [(one.low, one.high, one.anchor) for one in chart.links] == [(2, 3, "r1-window-1")]
    assert "slow 1" in [one["text"] for one in chart.figure["layout"]["annotations"]]


def test_an_hour_is_told_by_the_second_and_a_slow_window_in_steps_of_10_ms(make_recording):
    """200 ms in every second of an hour: 2 reads; in one of 8 s they come twice as often."""
    issued = np.sort(
        np.concatenate([np.arange(7200) * 500 * MS, 1000 * S + np.arange(16) * 500 * MS + 250 * MS])
    )
    rows = {"issued_ns": issued, "completed_ns": issued + 3 * MS}
    chart = chart_over_time(make_recording(rows), (0, 3600 * S), [Marked(1000 * S, 1008 * S, "slow 1")])
    valid(chart)
    assert len(chart.figure["data"][0]["y"]) <= 360, "an overview that a screen can show"
    place = [trace["name"] for trace in chart.figure["data"]].index("reads")
    whole, window = chart.levels
    assert (whole.low, whole.high, whole.dx) == (0, 3600, 1)
    reads = whole.values[whole.traces.index(place)]
    assert reads[900:905] == [2] * 5
    assert reads[1000:1008] == [4] * 8
    assert window.dx == 0.01
    assert (window.low, window.high) == (998, 1010)
    reads = window.values[window.traces.index(place)]
    assert sum(reads) / 100 == 8 + 32, "two a second for 4 s, four a second for 8 s"
    assert reads[200] == reads[225] == 100


def test_waits_and_counters_stand_on_the_same_time_axis(make_recording):
    waits = [
        {"at_ns": place * S, "wait_type": "<b>WRITELOG</b>", "duration_ns": S // 2} for place in range(10)
    ]
    counters = [
        {"at_ns": place * S, "source": "host", "object": "PhysicalDisk", "instance": "0 D:", "value": place * 1e6,
         "counter": "<i>latency</i>", "unit": "ns"}
        for place in range(10)
    ]  # fmt: skip
    issued = np.arange(1000) * 10 * MS
    recording = make_recording(
        {"issued_ns": issued, "completed_ns": issued + MS}, tables={"waits": waits, "counters": counters}
    )
    named = [CounterName("PhysicalDisk", "0 D:", "<i>latency</i>"), CounterName("none", None, "none")]
    chart = chart_over_time(recording, (0, 10 * S), counters=named)
    valid(chart)
    seen = traces(chart)
    waited = seen["&lt;b&gt;WRITELOG&lt;/b&gt;"]
    assert sum(waited["y"]) * waited["dx"] == pytest.approx(5), "half a second in each of ten"
    counter = seen["PhysicalDisk 0 D: &lt;i&gt;latency&lt;/i&gt;"]
    assert list(zip(counter["x"], counter["y"], strict=True)) == [(place, place) for place in range(1, 10)]
    assert {trace.get("xaxis", "x") for trace in chart.figure["data"]} == {"x"}


def test_dates_are_told_where_they_are_known():
    at = 1_767_400_000_000_000_000
    axis = TimeAxis(5 * S, 10 * S, at)
    assert axis.axis()["type"] == "date"
    assert axis.at(6 * S) == 1_767_400_006_000
    assert axis.length(S) == 1000
    assert axis.words(6 * S) == "at 00:26:46 UTC"  # date -u -d @1767400006
    undated = TimeAxis(5 * S, 10 * S, 0)
    assert undated.at(6 * S) == 1
    assert undated.words(6 * S) == "1.00 s after the start"


def histogram(values_ns):
    buckets, counts = np.unique(np.asarray(values_ns, dtype=np.int64), return_counts=True)
    return Histogram(buckets, counts, int(np.sum(values_ns)), int(np.max(values_ns)))


def test_percentile_curves_follow_the_quantiles_and_end_where_few_ios_are_left():
    values_ns = np.arange(1, 100_001) * 1000
    chart = percentile_chart({"reads": histogram(values_ns)}, "service", "block")
    (line,) = valid(chart).data
    for place, latency_ms in zip(line.y, line.x, strict=True):
        assert latency_ms == pytest.approx(
            np.quantile(values_ns, 1 - 10**-place, method="inverted_cdf") / 1e6, rel=1e-3
        )
    assert line.y[-1] == pytest.approx(3), "p99.9: 100 of 100,000 lie beyond"
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
    data_reads, _, log_writes = valid(chart).data
    names = chart.figure["layout"]["xaxis"]["ticktext"]
    heights = {name: height for name, height in zip(names, data_reads.y, strict=True) if height}
    assert heights == {"8 KiB": 75, "64 KiB": 25}
    assert [height for height in log_writes.y if height] == [25, 75]
    assert log_writes.marker.pattern.fillmode == "overlay", "hatched over the colour, else white on white"
    assert ("log writes", "60.0 KiB", "30", "75.0 %") in chart.table.rows
    assert "75 % of the data reads are 8.0 KiB" in chart.shows


def test_layers_add_up_from_the_bottom_and_keep_their_sign():
    steps = [
        WaterfallStep("sql", "read", 100, 6 * MS, "block", -2 * MS, "clock error: sql cannot take less time"),
        WaterfallStep("block", "read", 100, 8 * MS, "device", 3 * MS, None),
        WaterfallStep("device", "read", 100, 5 * MS, None, None, None),
    ]
    chart = layer_chart({"": steps})
    bars = {bar.name.split()[0]: (bar.base[0], bar.x[0]) for bar in valid(chart).data}
    assert bars == {"the": (0, 5), "added": (5, 3), "not": (8, -2)}
    # Beside a short bar its value would lie over the name, and beside a long one outside of a narrow page.
    assert list(chart.figure["layout"]["yaxis"]["ticktext"]) == [
        "reads: sql<br>-2.00 ms → 6.00 ms", "reads: block<br>+3.00 ms → 8.00 ms", "reads: device<br>5.00 ms",
    ]  # fmt: skip
    assert not any(bar.text for bar in valid(chart).data)
    assert [row[5] for row in chart.table.rows] == ["–", "3.00 ms", "-2.00 ms"]  # noqa: RUF001
    assert "clock error" in chart.shows
    assert layer_chart({"": steps[2:]}) is None


def test_words_lose_every_meaning_that_plotly_gives_them():
    assert words("<a href='x'>&lt;b&gt;</a><br>") == "&lt;a href='x'&gt;&amp;lt;b&amp;gt;&lt;/a&gt;&lt;br&gt;"
    assert words("a\u202eb") == "a\\u202eb"
    assert len(words("x" * 4096)) == 80


def test_rows_share_an_axis_and_do_not_overlap():
    rows = [Row(title, height, []) for title, height in (("a", 100), ("b", 300), ("c", 50))]
    drawn = figure(rows, linear("x"), [Mark("knee", 1, 3, "<b>", 2)])
    go.Figure(drawn)
    domains = [drawn["layout"][name]["domain"] for name in ("yaxis", "yaxis2", "yaxis3")]
    assert domains[0][1] == 1
    assert domains[2][0] == 0
    assert domains[0][0] > domains[1][1] > domains[1][0] > domains[2][1]
    (low, high), (lower, upper) = domains[1], domains[0]
    assert (high - low) / (upper - lower) == pytest.approx(3)
    assert "&lt;b&gt;" in [one["text"] for one in drawn["layout"]["annotations"]]


def test_colours_are_told_apart_and_have_a_dark_one_each():
    assert len(set(LIGHT.values())) == len(LIGHT), "each is replaced by its own on dark pages"
    assert LIGHT.keys() == DARK.keys()
    assert dark_of_light()[LIGHT["read"]] == DARK["read"]
    assert len(set(DASHES.values())) == len(DASHES), "no series is told apart by colour alone"


def test_a_closed_loop_shows_where_it_saturates_and_the_law_whole(tmp_path):
    found = knee(published_sqlio(tmp_path))
    (chart,) = knee_charts(found)
    line, law = valid(chart).data
    (band,) = [shape for shape in chart.figure["layout"]["shapes"] if shape["type"] == "rect"]
    # The published table: 184 IOPS with one outstanding, flat at about 2,400 from 32 on.
    assert (line.x[0], line.y[0]) == (1, pytest.approx(184))
    assert band["x0"] <= 32 <= band["x1"]
    assert law.name == "Universal Scalability Law"
    assert chart.table.rows[0][:2] == ("1", "184")


def test_the_knee_has_its_interval_and_the_load_that_is_needed(sweep):
    found = knee(sweep.recordings(), scales=[step.scale for step in sweep.steps])
    latency, carried = knee_charts(found, need=2.0)
    valid(latency)
    valid(carried)
    (band,) = [shape for shape in latency.figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert (band["x0"], band["x1"]) == (found.iops.low, found.iops.high)
    lines = [shape["x0"] for shape in latency.figure["layout"]["shapes"] if shape["type"] == "line"]
    assert lines[:2] == [found.iops_at_1x, 2 * found.iops_at_1x]


def test_what_answers_at_once_is_shown_by_the_load_it_carries(sweep):
    found = knee(sweep.recordings(), scales=[step.scale for step in sweep.steps])
    at_once = [replace(step, response_ns=dict.fromkeys(step.response_ns, 0.0)) for step in found.steps]
    (carried,) = knee_charts(replace(found, steps=at_once))
    assert (carried.name, carried.table.columns[:2]) == ("carried", ("load", "judged as"))


def test_a_course_is_what_the_queries_ask(trace_of_all_kinds):
    """Counted in native code; the queries are checked by hand in ``queries/test_report.py``."""
    start_ns, end_ns, width_ns = 5 * MS, 100 * MS, 7 * MS
    asked = {"layer": "block", "start_ns": start_ns, "end_ns": end_ns, "slot_ns": width_ns}
    with library.opened(trace_of_all_kinds) as connection:
        timeline = library.run(connection, "report_timeline", **asked).to_pylist()
        heat = library.run(connection, "report_heat_map", **asked).to_pylist()
    course = read_course(trace_of_all_kinds, "block", (start_ns, end_ns - start_ns), width_ns)
    seconds = course.lengths_s()
    of_slot = {row["slot"]: row for row in timeline}
    for name, rate in (
        ("begun_read_count", course.read_iops),
        ("begun_write_count", course.write_iops),
        ("read_bytes", course.read_bytes_per_s),
        ("written_bytes", course.written_bytes_per_s),
    ):
        expected = [of_slot.get(slot, {}).get(name, 0) for slot in range(course.count)]
        assert (rate * seconds).tolist() == pytest.approx(expected)
    cells = {
        (slot, course.band_low + band): int(course.grid[band, slot])
        for band, slot in zip(*np.nonzero(course.grid), strict=True)
    }
    assert cells == {(row["slot"], row["band"]): row["io_count"] for row in heat if row["slot"] >= 0}
    for slot, longest_ns in enumerate(course.longest_ns):
        assert longest_ns == max((row["longest_ns"] for row in heat if row["slot"] == slot), default=0)


@pytest.fixture
def trace_of_all_kinds(make_recording):
    """Reads, writes and flushes of 1 ns to 50 ms, some failed, unfinished, of another layer, due before issued."""
    random = np.random.default_rng(4)
    rows = []
    for _ in range(600):
        issued = int(random.integers(-20 * MS, 120 * MS))
        rows.append(
            {
                "issued_ns": issued,
                "intended_ns": issued - int(random.integers(0, 9 * MS)) if random.random() < 0.5 else None,
                "completed_ns": issued + int(10 ** random.uniform(0, 7.7)) if random.random() < 0.9 else None,
                "op": str(random.choice(["read", "write", "flush"])),
                "size_bytes": 512 * int(random.integers(1, 99)),
                "error": 5 if random.random() < 0.1 else 0,
                "layer": "device" if random.random() < 0.1 else "block",
            }
        )
    return make_recording(rows, kind="replayed")
