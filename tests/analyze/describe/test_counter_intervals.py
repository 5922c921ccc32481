"""Counters that were sampled at different intervals, one after another or over one another, still add up.

A disk serves the same reads for everyone who counts them, so two logs of different intervals have to agree. The first
report of it: DMV snapshots every 15 s beside perfmon every 5 s, at the same 867 I/Os/s, were said to have seen 47,667
and 134,867 I/Os, because 15 s of one log were put into one slot of 5 s.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrace.analyze import library
from iotrace.analyze.incident import incident
from iotrace.analyze.incident.counters import mean_slots

from ...recordings import write_recording

SECOND = 1_000_000_000
MS = 1_000_000
DMV = {"layer": "sql", "object_name": "sys.dm_io_virtual_file_stats", "instance": "db data.mdf"}


def sample(metric, at_ns, interval_ns, value, *, layer="block", object_name="PhysicalDisk", instance="0 D:"):
    return {
        "at_ns": int(at_ns), "interval_ns": int(interval_ns), "source": "HOST", "object": object_name,
        "instance": instance, "counter": metric, "value": float(value), "unit": "", "layer": layer, "metric": metric,
    }  # fmt: skip


def counters_only(path, rows, length_ns):
    return write_recording(path, tables={"counters": rows}, overwrite=True, window_end_ns=int(length_ns))


def log(rate, latency_ns, borders, **where):
    """What a log shows that samples at ``borders`` (s) a disk with such a rate and latency in each second."""
    rows = []
    for begin, end in borders:
        count, waited = rate[begin:end].sum(), (rate * latency_ns)[begin:end].sum()
        at, length = end * SECOND, (end - begin) * SECOND
        rows.append(sample("read_iops", at, length, count / (end - begin), **where))
        if count:
            rows.append(sample("read_latency_ns", at, length, waited / count, **where))
    return rows


def every(step, length, start=0):
    return [(begin, begin + step) for begin in range(start, length - step + 1, step)]


@pytest.mark.parametrize(
    ("fine", "coarse", "phase"), [(5, 15, 0), (1, 15, 0), (5, 15, 7), (10, 30, 5), (15, 60, 11)]
)
def test_two_logs_of_one_disk_agree_whatever_their_intervals(tmp_path, fine, coarse, phase):
    """867 I/Os/s of 1.5 ms, for ten minutes 10 times slower: SQL Server waits 0.5 ms more than the disk, always."""
    length = 3600
    noise = np.random.default_rng(7).lognormal(0, 0.05, length)
    rate, disk = np.full(length, 867.0), 1.5 * MS * noise
    disk[1800:2400] *= 10
    rows = log(rate, disk, every(fine, length)) + log(
        rate, disk + 0.5 * MS, every(coarse, length, phase), **DMV
    )
    found = incident(counters_only(tmp_path / "mixed.iotrace", rows, length * SECOND))
    (window,) = found.windows
    assert window.start_ns / SECOND == pytest.approx(1800, abs=coarse)
    assert window.end_ns / SECOND == pytest.approx(2400, abs=coarse)
    assert "most of it in the block layer" in window.headline
    assert window.slow_ns == pytest.approx(15 * MS, rel=0.015), "the disk's own, and not SQL Server's 15.5 ms"
    sql, block = window.layers
    assert (sql.layer, block.layer, window.layer) == ("sql", "block", "block")
    assert sql.problem is block.problem is None
    assert sql.slow_ns == pytest.approx(15.5 * MS, rel=0.03)
    assert block.slow_ns == pytest.approx(15 * MS, rel=0.03)
    assert block.share == pytest.approx(1, abs=0.03)
    assert sql.share == pytest.approx(0, abs=0.03)


WITHOUT_TIME = {
    "writes of a disk that only reads": [
        sample(metric, end * SECOND, 5 * SECOND, 0)
        for metric in ("write_iops", "write_latency_ns")
        for _, end in every(5, 900)
    ],
    "samples after the recording": [
        sample(metric, end * SECOND, 5 * SECOND, value)
        for metric, value in (("read_iops", 300), ("read_latency_ns", 900 * MS))
        for _, end in every(5, 1200, 900)
    ],
}


@pytest.mark.parametrize("more", WITHOUT_TIME.values(), ids=WITHOUT_TIME)
def test_what_stands_for_no_time_in_the_recording_changes_nothing(more, tmp_path):
    length = 900
    rate, disk = np.full(length, 300.0), 2 * MS * np.random.default_rng(7).lognormal(0, 0.05, length)
    disk[400:500] *= 6
    rows = log(rate, disk, every(5, length))
    alone, both = (
        incident(counters_only(tmp_path / f"{name}.iotrace", told, length * SECOND))
        for name, told in (("alone", rows), ("both", rows + more))
    )
    (window,), (same,) = alone.windows, both.windows
    assert (window.start_ns, window.end_ns) == (400 * SECOND, 500 * SECOND)
    assert window.factor == pytest.approx(6, rel=0.05)
    assert (same.start_ns, same.end_ns, same.factor, same.lost_ns) == (
        window.start_ns, window.end_ns, window.factor, window.lost_ns,
    )  # fmt: skip


def test_a_window_shorter_than_the_samples_of_one_log_does_not_share_its_growth_out(tmp_path):
    """Slow for 10 s: no sample of 60 s lies in that. The layers' parts cannot be told, and it says so."""
    length = 3600
    noise = np.random.default_rng(7).lognormal(0, 0.05, length)
    rate, disk = np.full(length, 867.0), 1.5 * MS * noise
    disk[1810:1820] *= 50
    rows = log(rate, disk, every(1, length)) + log(rate, disk + 0.5 * MS, every(60, length), **DMV)
    windows = incident(counters_only(tmp_path / "short.iotrace", rows, length * SECOND)).windows
    (window,) = [window for window in windows if window.start_ns < 1815 * SECOND < window.end_ns]
    assert (window.start_ns, window.end_ns) == (1810 * SECOND, 1820 * SECOND)
    assert all("is not known" in layer.problem and layer.share is None for layer in window.layers)
    assert window.layer == "block"


@st.composite
def logs(draw):
    """Stretches in ms, some with gaps between them, with a rate and a latency each."""
    found, at = [], draw(st.integers(0, 3000))
    for _ in range(draw(st.integers(1, 12))):
        length = draw(st.sampled_from([1000, 1003, 5000, 15000, 15016, 60000]))
        at += draw(st.sampled_from([0, 0, 0, 1, 777, 40000]))
        found.append((at, at + length, draw(st.integers(0, 5000)), draw(st.integers(1, 50))))
        at += length
    return found


@settings(max_examples=12)
@given(st.lists(logs(), min_size=1, max_size=3))
def test_amounts_are_conserved_for_any_intervals_and_gaps(tmp_path_factory, several):
    folder = tmp_path_factory.mktemp("logs")
    rows = []
    for number, one in enumerate(several):
        where = {"layer": ("sql", "filesystem", "block")[number], "object_name": f"object {number}"}
        for begin, end, rate, latency in one:
            rows.append(sample("read_iops", end * MS, (end - begin) * MS, rate, **where))
            rows.append(sample("read_latency_ns", end * MS, (end - begin) * MS, latency * MS, **where))
    length_ns = max(row["at_ns"] for row in rows)
    with library.opened(counters_only(folder / "r.iotrace", rows, length_ns)) as connection:
        slots = mean_slots(connection, (0, length_ns))
        drives = {row["object"]: row for row in library.run(connection, "counter_drives").to_pylist()}
    for number, one in enumerate(several):
        ios = sum((end - begin) / 1e3 * rate for begin, end, rate, _ in one)
        waited_ns = sum((end - begin) / 1e3 * rate * latency * MS for begin, end, rate, latency in one)
        layer = slots.layers[("sql", "filesystem", "block")[number]]
        assert layer.io_count.sum() == pytest.approx(ios, rel=1e-9, abs=1e-6)
        assert layer.latency_sum_ns.sum() == pytest.approx(waited_ns, rel=1e-9, abs=1e-3)
        drive = drives[f"object {number}"]
        sampled_ms = sum(end - begin for begin, end, *_ in one)
        assert drive["sampled_ns"] == sampled_ms * MS
        assert drive["read_ios_per_s"] == pytest.approx(ios / sampled_ms * 1e3)
        if ios:
            assert drive["read_latency_mean_ns"] == pytest.approx(waited_ns / ios)


@settings(max_examples=12)
@given(logs(), logs())
def test_rates_and_latencies_of_one_disk_from_two_logs_are_multiplied_moment_by_moment(
    tmp_path_factory, one, two
):
    """One log has the rate, another the latency: the mean is over what both cover, reckoned here by milliseconds."""
    rows = [sample("read_iops", end * MS, (end - begin) * MS, rate) for begin, end, rate, _ in one]
    rows += [sample("read_latency_ns", end * MS, (end - begin) * MS, lat * MS) for begin, end, _, lat in two]
    length = max(one[-1][1], two[-1][1])
    rate, latency = np.full(length, np.nan), np.full(length, np.nan)
    for begin, end, value, _ in one:
        rate[begin:end] = value
    for begin, end, _, value in two:
        latency[begin:end] = value * MS
    recording = counters_only(tmp_path_factory.mktemp("two") / "r.iotrace", rows, length * MS)
    with library.opened(recording) as connection:
        (drive,) = library.run(connection, "counter_drives").to_pylist()
    both = np.isfinite(rate) & np.isfinite(latency)
    assert drive["read_ios_per_s"] == pytest.approx(np.nanmean(rate))
    if rate[both].sum():
        assert drive["read_latency_mean_ns"] == pytest.approx((rate * latency)[both].sum() / rate[both].sum())
    assert drive["sampled_ns"] == (np.isfinite(rate) | np.isfinite(latency)).sum() * MS


def test_a_disk_in_two_logs_that_overlap_counts_once(tmp_path):
    """The same counter every second and every 15 s, under one name: 100 reads/s are 100, for the minute that it was."""
    rows = [sample("read_iops", at * SECOND, SECOND, 100) for at in range(1, 61)]
    rows += [sample("read_iops", at * SECOND, 15 * SECOND, 100) for at in range(15, 76, 15)]
    with library.opened(counters_only(tmp_path / "twice.iotrace", rows, 75 * SECOND)) as connection:
        (drive,) = library.run(connection, "counter_drives").to_pylist()
        segments = library.run(connection, "counter_segments").to_pylist()
    assert (drive["read_ios_per_s"], drive["sampled_ns"]) == (100, 75 * SECOND)
    assert all(later["from_ns"] >= earlier["until_ns"] for earlier, later in itertools.pairwise(segments))


@pytest.mark.parametrize("queue", ["one log", "a log of its own, finer"])
def test_what_is_queued_beyond_what_ended_has_waited(tmp_path, queue):
    """100 reads a second of 10 ms are one in the queue; ten there for 15 s are 100 ms for each read that ended."""
    rows = log(np.full(60, 100.0), np.full(60, 10.0 * MS), every(15, 60))
    step = 15 if queue == "one log" else 5
    rows += [
        sample("queue_length", end * SECOND, step * SECOND, 10 if begin >= 45 else 1)
        for begin, end in every(step, 60)
    ]
    with library.opened(counters_only(tmp_path / "r.iotrace", rows, 60 * SECOND)) as connection:
        block = mean_slots(connection, (0, 60 * SECOND)).layers["block"]
    assert np.exp(block.log_latency[0]) / MS == pytest.approx([10, 10, 10, 100])
    assert block.latency_sum_ns.sum() / MS == pytest.approx(1500 * (3 * 10 + 100))


def test_a_disk_of_which_only_the_queue_is_known_is_left_out(tmp_path):
    rows = log(np.full(60, 100.0), np.full(60, 10.0 * MS), every(15, 60))
    rows += [
        sample("queue_length", end * SECOND, 15 * SECOND, 1, instance="1 L:") for _, end in every(15, 60)
    ]
    with library.opened(counters_only(tmp_path / "r.iotrace", rows, 60 * SECOND)) as connection:
        block = mean_slots(connection, (0, 60 * SECOND)).layers["block"]
    assert [stream.instance for stream in block.streams] == ["0 D:"]


def test_what_was_in_flight_while_nothing_ended_hangs_whatever_the_mean_queue_length_says(tmp_path):
    """As Windows tells it: Avg. Disk Queue Length counts what ended, Current Disk Queue Length what is there."""
    rate = np.array([100.0] * 30 + [0.0] * 30)
    rows = log(rate, np.full(60, 10.0 * MS), every(15, 60))
    rows += [
        sample("queue_length", end * SECOND, 15 * SECOND, rate[begin] / 100) for begin, end in every(15, 60)
    ]
    rows += [sample("in_flight", at * SECOND, 0, 40 if at >= 30 else 1) for at in (0, 15, 30, 45, 60)]
    with library.opened(counters_only(tmp_path / "r.iotrace", rows, 60 * SECOND)) as connection:
        block = mean_slots(connection, (0, 60 * SECOND)).layers["block"]
    assert np.exp(block.log_latency[0]) / MS == pytest.approx([10, 10, 30_000, 30_000])
    assert block.measured_count[0] == pytest.approx([1500, 1500, 40, 40])


@pytest.mark.parametrize("moment_s", [37, 60])
def test_a_rest_is_no_hang_though_an_io_was_seen_in_it(tmp_path, moment_s):
    """What a single look finds may have begun just then."""
    rows = log(np.array([100.0] * 30 + [0.0] * 30), np.full(60, 10.0 * MS), every(15, 60))
    rows += [sample("in_flight", at * SECOND, 0, 1 if at == moment_s else 0) for at in (15, 30, moment_s)]
    with library.opened(counters_only(tmp_path / "r.iotrace", rows, 60 * SECOND)) as connection:
        block = mean_slots(connection, (0, 60 * SECOND)).layers["block"]
    assert np.isfinite(block.log_latency[0]).tolist() == [True, True, False, False]
