"""The pass over all rows, held against the queries that say the same in SQL and against plain definitions."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.analyze import histogram, library
from iotrace.analyze.onepass import rows as onepass_rows
from iotrace.analyze.onepass import touched as onepass_touched
from iotrace.analyze.onepass.arrivals import Arrivals
from iotrace.analyze.onepass.flight import flights_of
from iotrace.analyze.onepass.latencies import LatencyCounts
from iotrace.analyze.onepass.measure import Subject, measure
from iotrace.analyze.onepass.sequence import Sequence
from iotrace.analyze.onepass.streams import Stream
from iotrace.analyze.onepass.touched import Touched
from iotrace.schemas import RecordingWriter, writer

MS = 1_000_000
SECOND = 1_000_000_000


def random_ios(seed, count=800):
    source = random.Random(seed)
    now, ios = -5 * MS, []
    for _ in range(count):
        now += int(source.expovariate(1 / (5 * MS)))
        op = source.choice(["read", "read", "write", "flush", "discard"])
        row = {
            "op": op,
            "offset_bytes": None if source.random() < 0.02 else source.randrange(1 << 26),
            "size_bytes": 0 if op == "flush" else source.choice([0, 512, 8192, 65536, 1 << 20, 40 << 20]),
            "device_id": source.choice([0, 1, None]),
            "file_id": source.choice([0, 1, None]),
            "error": source.choice([0, 0, 0, 5]),
        }
        for layer, lead in (("block", 0), ("device", 1000)):
            start = now + lead
            end = None if source.random() < 0.05 else start + int(source.lognormvariate(13, 2))
            intended = None if source.random() < 0.1 else start - source.randrange(MS)
            ios.append(
                row | {"layer": layer, "issued_ns": start, "completed_ns": end, "intended_ns": intended}
            )
    return ios


def passed(recording, window_ns, metrics=("service",)):
    with library.opened(recording) as connection:
        streams = [
            Stream(layer, row["device_id"], row["file_id"], row["role"], row["op"])
            for layer in ("block", "device")
            for row in library.run(connection, "streams", layer=layer).to_pylist()
        ]
        subject = Subject("block", window_ns, metrics, has_errors=True, has_unfinished=True)
        return measure(connection, recording, streams, subject)


def asked(recording, name, **parameters):
    with library.opened(recording) as connection:
        return library.run(connection, name, **parameters).to_pylist()


def test_histograms_are_those_of_the_query(make_recording):
    recording = make_recording(random_ios(1), kind="replayed")
    found = passed(recording, (0, SECOND), ("service", "response", "lateness"))
    for metric in ("service", "response", "lateness"):
        theirs = asked(recording, "latency_histogram", metric=metric)
        mine = found.histogram_table(metric).to_pylist()
        keys = ("layer", "device_id", "role", "op", "bucket_ns", "io_count")
        assert {tuple(row[key] for key in keys) for row in mine} == {
            tuple(row[key] for key in keys) for row in theirs
        }
        for group in {tuple(row[key] for key in keys[:4]) for row in theirs}:
            of_group = [
                [row for row in rows if tuple(row[key] for key in keys[:4]) == group]
                for rows in (mine, theirs)
            ]
            sums, maxima = (
                [pick(row[name] for row in rows) for rows in of_group]
                for pick, name in ((sum, "latency_sum_ns"), (max, "latency_max_ns"))
            )
            assert sums[0] == sums[1]
            assert maxima[0] == maxima[1]


def test_seconds_are_those_of_the_query(make_recording):
    recording = make_recording(random_ios(2))
    assert passed(recording, (0, SECOND)).seconds.to_pylist() == asked(recording, "io_per_second")


def test_peaks_are_those_of_the_query(make_recording):
    recording = make_recording(random_ios(3))
    found = passed(recording, (0, SECOND))
    for row in asked(recording, "arrival_peaks", layer="block"):
        mine = found.all_arrivals if row["scope"] == "all" else found.arrivals[row["device_id"], row["role"]]
        assert mine.peak_counts[row["bin_ns"]] == row["peak_count"]
        assert mine.count + 1 == row["io_count"]


@pytest.mark.parametrize("marks_max", [1 << 29, 1 << 13])
def test_touched_blocks_are_those_of_the_query(make_recording, monkeypatch, marks_max):
    """Also where blocks have to be made larger for want of room."""
    monkeypatch.setattr(onepass_touched, "_MARKS_MAX", marks_max)
    recording = make_recording(random_ios(4))
    found = passed(recording, (0, 4 * SECOND))
    block = found.touched.block_bytes
    assert (block > 65536) == (marks_max < 1 << 20)
    rows = asked(recording, "working_set", layer="block", block_bytes=block)
    for row in rows:
        for name, ops in (
            ("touched_count", ("read", "write")),
            ("read_touched_count", ("read",)),
            ("written_touched_count", ("write",)),
        ):
            assert (
                found.touched_bytes(row["device_id"], row["role"], ops, is_total=False) == row[name] * block
            )
    total = sum(row["touched_count"] for row in rows if row["scope"] == "device")
    assert found.touched_bytes(None, None, ("read", "write"), is_total=True) == total * block


def test_the_working_set_over_time_is_that_of_plain_sets():
    source = np.random.default_rng(7)
    count, borders = 3000, np.array([0, 250, 500, 1000])
    times = np.sort(source.integers(0, 1000, count))
    offsets, sizes = source.integers(0, 1 << 27, count), source.choice([1, 65536, 5 << 20, 20 << 20], count)
    places, kinds = (
        source.integers(0, 2, count).astype(np.uint8),
        source.integers(0, 4, count).astype(np.uint8),
    )
    touched = Touched(2, 4, borders)
    for piece in np.array_split(np.arange(count), 7):
        touched.add(times[piece], places[piece], kinds[piece], offsets[piece], sizes[piece])
    touched.finish()
    ever = set()
    for (start, end), found in zip(pairwise(borders), touched.slices, strict=True):
        now, begun = set(), {}
        for i in np.flatnonzero((times >= start) & (times < end)):
            first, last = offsets[i] // 65536, (offsets[i] + sizes[i] - 1) // 65536
            now |= {(places[i], block) for block in range(first, last + 1)}
            begun[places[i], first] = begun.get((places[i], first), 0) + 1
        busiest = sorted(begun.values())[-max(round(len(now) / 100), 1) :]
        assert (found.touched_bytes, found.new_bytes) == (len(now) * 65536, len(now - ever) * 65536)
        assert found.io_count == sum(begun.values())
        assert found.hottest_share == pytest.approx(sum(busiest) / sum(begun.values()))
        ever |= now
    (spot,) = touched.hot_pages(1)
    pages = {}
    for place, offset in zip(places.tolist(), offsets.tolist(), strict=True):
        pages[place, offset >> 24] = pages.get((place, offset >> 24), 0) + 1
    assert spot.io_count == max(pages.values()) == pages[spot.place, spot.offset_bytes >> 24]
    assert sum(spot.io_count_by_slice) == spot.io_count


@given(st.lists(st.integers(0, (1 << 62) - 1), min_size=1, max_size=50))
def test_latencies_are_put_into_the_buckets_of_the_rule(values):
    counts = LatencyCounts(1)
    counts.add(np.zeros(len(values), np.uint8), np.array(values, dtype=np.int64))
    exact = [value for value in values if value < 1 << 53]  # above, a float is not the whole number
    buckets, found = counts.of(0)
    if len(exact) == len(values):
        theirs, their_counts = np.unique(histogram.latency_bucket_ns(values), return_counts=True)
        assert (buckets.tolist(), found.tolist()) == (theirs.tolist(), their_counts.tolist())
    assert found.sum() == len(values)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(0, 1)), max_size=40),
    st.integers(1, 59),
)
def test_flight_is_that_of_one_event_after_another(ios, cut):
    """Any starts and lengths on two devices, cut in two anywhere."""
    ios = sorted(ios)
    parts = []
    for low, high in ((0, cut), (cut, 101)):
        begun = [(start, device) for start, _, device in ios if low <= start < high]
        ended = [(start + length, device) for start, length, device in ios if low <= start + length < high]
        events = [
            (np.array([at for at, _ in kind], np.int64), np.array([device for _, device in kind], np.uint8))
            for kind in (begun, ended)
        ]
        parts.append(flights_of(*events[0], *events[1], 2, low, high))
    for device in (None, 0, 1):
        first, second = (part[0] if device is None else part[1][device] for part in parts)
        first.join(second)
        mine = [(s, s + n) for s, n, d in ios if device in (None, d)]
        depth = peak = integral = last = 0
        for at, step in sorted([(s, 1) for s, _ in mine] + [(e, -1) for _, e in mine]):
            integral += depth * (at - last)
            last, depth = at, depth + step
            peak = max(peak, depth)
        assert (first.peak, first.integral_ns, first.net) == (peak, integral, 0)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=120),
    st.lists(st.integers(0, 120), max_size=3),
)
def test_sequences_join_in_any_grouping(ios, cuts):
    """Parts summarised apart and joined two by two say what plain looking back says."""

    def of(part):
        numbers = np.array([stream for stream, _ in part], dtype=np.uint8)
        order = np.argsort(numbers, kind="stable")
        offsets = np.array([offset for _, offset in part], dtype=np.int64)[order]
        borders = np.searchsorted(numbers[order], np.arange(4))
        return Sequence.of(numbers[order], borders, offsets, offsets + 1)

    borders = [0, *sorted(cuts), len(ios)]
    parts = [of(ios[low:high]) for low, high in pairwise(borders)]
    while len(parts) > 1:
        parts[-2].join(parts[-1])
        parts.pop()
    ends, following, near = {}, [0, 0, 0], [0, 0, 0]
    for stream, offset in ios:
        last = ends.setdefault(stream, [])
        following[stream] += last[-1:] == [offset]
        near[stream] += offset in last[-16:]
        last.append(offset + 1)
    assert (parts[0].next_count.tolist(), parts[0].near_count.tolist()) == (following, near)


@given(st.lists(st.integers(0, 5 * SECOND), min_size=1, max_size=60), st.integers(0, 60))
def test_arrivals_join_to_those_of_all(times, cut):
    times = np.array(sorted(times), dtype=np.int64)
    joined = Arrivals.of(times[:cut])
    joined.join(Arrivals.of(times[cut:]))
    assert joined.count == len(times) - 1
    assert joined.peak_counts == {
        bin_ns: np.bincount(times // bin_ns).max() for bin_ns in (10 * MS, 100 * MS, SECOND)
    }


def _same(one, other):
    assert one.all_flight == other.all_flight
    assert one.flight == other.flight
    assert replace(one.all_arrivals, square_sum_ns2=0) == replace(other.all_arrivals, square_sum_ns2=0)
    assert one.all_arrivals.square_sum_ns2 == pytest.approx(other.all_arrivals.square_sum_ns2)
    assert one.sequence.near_count.tolist() == other.sequence.near_count.tolist()
    assert one.touched.slices == other.touched.slices


def test_rows_in_no_order_are_passed_in_order_of_time(make_recording, tmp_path, monkeypatch):
    """Three sources one after another in small row groups: each overlaps with those of the others."""
    recording = make_recording(random_ios(5))
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 64)
    monkeypatch.setattr(onepass_rows, "_STRETCH_ROWS", 50)
    io = recording.read("io")
    with RecordingWriter(tmp_path / "mixed.iotrace") as mixed:
        for start in (2, 0, 1):
            # I/Os of one nanosecond keep their order: no two of a source's have the same.
            mixed.append("io", io.take(list(range(start, io.num_rows, 3))))
        for name in ("devices", "files", "processes"):
            mixed.append(name, recording.read(name))
        shuffled = mixed.commit(recording.manifest)
    plain = passed(recording, (0, SECOND))
    assert plain.all_arrivals.count > 700
    _same(passed(shuffled, (0, SECOND)), plain)
    monkeypatch.setattr(onepass_rows, "_OVERLAP_ROWS_MAX", 10)
    _same(passed(shuffled, (0, SECOND)), plain)
