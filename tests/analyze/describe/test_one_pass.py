"""The pass over all rows, held against the queries that say the same in SQL and against plain definitions."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.analyze import library, rows
from iotrace.analyze._tally import Tally
from iotrace.analyze.describe import one_pass
from iotrace.analyze.describe.one_pass import Subject, measure
from iotrace.analyze.describe.streams import Stream
from iotrace.analyze.stats import histogram
from iotrace.schemas import IotraceError, RecordingWriter, writer

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


def test_a_log_may_write_its_last_page_again():
    """Only a transaction log, and only its writes: operation 1."""
    for is_log, op, sequential in ((True, 1, 1), (False, 1, 0), (True, 0, 0)):
        streams = [(2, op, 0, 0, is_log, 0, (0, 0, 0, 0))]
        tally = Tally(streams, metrics=[], window_ns=(0, 9), cuts_ns=[], room_bytes=1)
        tally.add(
            **columns_of(issued_ns=[0, 1], op=[op] * 2, offset_bytes=[8192, 8192], size_bytes=[8192, 512])
        )
        tally.finish()
        assert tally.sequences() == [(2, sequential)]


def passed(recording, window_ns, metrics=("service",)):
    with library.opened(recording) as connection:
        streams = [
            Stream(layer, row["device_id"], row["file_id"], row["role"], row["op"])
            for layer in ("block", "device")
            for row in library.run(connection, "streams", layer=layer).to_pylist()
        ]
        subject = Subject("block", window_ns, metrics, has_errors=True)
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
    assert passed(recording, (0, SECOND)).seconds().to_pylist() == asked(recording, "io_per_second")


@pytest.mark.parametrize("room_bytes", [1 << 30, 1 << 12])
def test_touched_bytes_are_those_of_the_query(make_recording, monkeypatch, room_bytes):
    """Also where the blocks of hot spots have to be made larger for want of room."""
    monkeypatch.setattr(one_pass, "ROOM_BYTES", room_bytes)
    recording = make_recording(random_ios(4))
    found = passed(recording, (0, 4 * SECOND))
    assert (found.block_bytes > 65536) == (room_bytes < 1 << 20)
    block = 4096
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


KINDS = {"op": np.uint8, "issued_ns": np.int64, "completed_ns": np.int64, "offset_bytes": np.uint64,
         "size_bytes": np.uint32, "device_id": np.int32, "file_id": np.int32, "layer": np.uint8, "error": np.int32,
         "intended_ns": np.int64}  # fmt: skip
USUAL = {
    "op": 0,
    "completed_ns": -(1 << 63),
    "offset_bytes": 0,
    "size_bytes": 1,
    "device_id": 0,
    "file_id": 0,
}


def columns_of(**columns):
    """Arrays as the tally takes them; what is not given is the same for all I/Os."""
    count = len(columns["issued_ns"])
    whole = {name: np.full(count, value) for name, value in USUAL.items()} | columns
    arrays = {name: np.array(values, dtype=KINDS[name]) for name, values in whole.items()}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def tally_of(devices=1, files=1, window_ns=(0, 1 << 62), cuts_ns=(), room_bytes=1 << 30):
    """A tally of reads; each file is a kind."""
    streams = [
        (2, 0, device, file, False, device, (device * files + file, device, device, file))
        for device in range(devices)
        for file in range(files)
    ]
    return Tally(
        streams, metrics=["service"], window_ns=window_ns, cuts_ns=list(cuts_ns), room_bytes=room_bytes
    )


def counted(tally, *parts):
    for part in parts:
        tally.add(**columns_of(**part))
        if len(part["issued_ns"]):
            tally.advance(int(max(part["issued_ns"])))
    tally.finish()
    return tally


def test_the_working_set_over_time_is_that_of_plain_sets():
    source = np.random.default_rng(7)
    count, borders = 3000, np.array([0, 250, 500, 1000])
    times = np.sort(source.integers(0, 1000, count))
    offsets, sizes = source.integers(0, 1 << 27, count), source.choice([1, 65536, 5 << 20, 20 << 20], count)
    places, kinds = (
        source.integers(0, 2, count).astype(np.uint8),
        source.integers(0, 4, count).astype(np.uint8),
    )
    parts = [
        {"issued_ns": times[piece], "device_id": places[piece], "file_id": kinds[piece],
         "offset_bytes": offsets[piece], "size_bytes": sizes[piece]}
        for piece in np.array_split(np.arange(count), 7)
    ]  # fmt: skip
    tally = counted(tally_of(2, 4, cuts_ns=borders[1:-1].tolist()), *parts)
    ever = set()
    for (start, end), found in zip(pairwise(borders), tally.slices(), strict=True):
        now, begun = set(), {}
        for i in np.flatnonzero((times >= start) & (times < end)):
            first, last = offsets[i] // 4096, (offsets[i] + sizes[i] - 1) // 4096
            now |= {(places[i], granule) for granule in range(first, last + 1)}
            block = places[i], offsets[i] // 65536
            begun[block] = begun.get(block, 0) + 1
        busiest = sorted(begun.values())[-max(round(len(begun) / 100), 1) :]
        assert found[:3] == (sum(begun.values()), len(now) * 4096, len(now - ever) * 4096)
        assert found[3] == pytest.approx(sum(busiest) / sum(begun.values()))
        ever |= now
    ((area, offset_bytes, io_count, by_slice),) = tally.hot_pages(1)
    pages = {}
    for place, offset in zip(places.tolist(), offsets.tolist(), strict=True):
        pages[place, offset >> 24] = pages.get((place, offset >> 24), 0) + 1
    assert io_count == max(pages.values()) == pages[area, offset_bytes >> 24]
    assert sum(by_slice) == io_count


@given(st.lists(st.integers(0, (1 << 53) - 1), min_size=1, max_size=50), st.sampled_from([1, 300]))
def test_latencies_are_put_into_the_buckets_of_the_rule(values, times):
    values = values * times
    tally = counted(tally_of(), {"issued_ns": np.zeros(len(values)), "completed_ns": values})
    rows = np.frombuffer(tally.histogram("service"), dtype=np.int64).reshape(-1, 5)
    theirs, their_counts = np.unique(histogram.latency_bucket_ns(values), return_counts=True)
    assert (rows[:, 1].tolist(), rows[:, 2].tolist()) == (theirs.tolist(), their_counts.tolist())
    # A sum is as much as an int64 holds.
    assert rows[:, 3:].sum(axis=0).tolist() == [min(sum(values), (1 << 63) - 1), max(values)]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(-3, 40), st.integers(0, 1)), max_size=40),
    st.integers(0, 30),
    st.integers(1, 60),
    st.integers(0, 60),
)
def test_flight_is_that_of_one_nanosecond_after_another(ios, low, length, cut):
    """Any starts and lengths on two devices, given in two parts; I/Os that take no time are never in flight."""
    ios = sorted(ios)
    parts = [
        {"issued_ns": [io[0] for io in part], "completed_ns": [io[0] + io[1] for io in part],
         "device_id": [io[2] for io in part]}
        for part in ([io for io in ios if io[0] < cut], [io for io in ios if io[0] >= cut])
    ]  # fmt: skip
    devices, everything = counted(tally_of(2, window_ns=(low, low + length)), *parts).flight()
    for device, found in ((None, everything), (0, devices[0]), (1, devices[1])):
        mine = [io for io in ios if device in (None, io[2])]
        depths = [sum(s <= now < s + n for s, n, _ in mine) for now in range(low, low + length)]
        assert found == (max(depths), sum(depths))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=120), st.integers(0, 120))
def test_sequences_are_those_of_plain_looking_back(ios, cut):
    numbered = list(enumerate(ios))
    parts = [
        {"issued_ns": [at for at, _ in part], "file_id": [io[0] for _, io in part],
         "offset_bytes": [io[1] for _, io in part]}
        for part in (numbered[:cut], numbered[cut:])
    ]  # fmt: skip
    tally = counted(tally_of(files=3), *parts)
    ends, expected = {}, [(0, 0)] * 3
    for stream, offset in ios:
        last = ends.setdefault(stream, [])
        count, sequential = expected[stream]
        expected[stream] = (count + 1, sequential + (offset in last[-16:]))
        last.append(offset + 1)
    assert tally.sequences() == expected


@given(
    st.lists(st.tuples(st.integers(-SECOND, 5 * SECOND), st.integers(0, 1)), min_size=1, max_size=60),
    st.sampled_from([1, 4]),
)
def test_arrivals_are_those_of_plain_counting(ios, times):
    ios = sorted((at + more * SECOND, file) for at, file in ios for more in range(times))
    part = {"issued_ns": [at for at, _ in ios], "file_id": [file for _, file in ios]}
    groups, devices, everything = counted(tally_of(files=2), part).arrivals()
    assert devices == [everything]
    for file, found in ((None, everything), (0, groups[0]), (1, groups[1])):
        times = np.array([at for at, other in ios if file in (None, other)], dtype=np.int64)
        gaps, length = np.diff(times), int(times[-1] - times[0]) if len(times) else 0
        assert found[0] == len(times)
        if len(gaps) < 100 or not length:
            assert found[1] is None
        else:
            assert found[1] == pytest.approx(np.std(gaps) / np.mean(gaps), rel=1e-6, abs=1e-6)
        for width, peak in zip((10 * MS, 100 * MS, SECOND), found[2], strict=True):
            fullest = max((int(np.sum((times >= at) & (times < at + width))) for at in times), default=0)
            assert peak == (
                pytest.approx(fullest * length / width / len(gaps)) if length >= 10 * width else None
            )


def test_hostile_values_are_counted_in_little_room():
    """The ends of time and space, ends before starts, transfers of nothing and of 4 GiB."""
    ends = [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 63) - 1]
    count = len(ends)
    tally = tally_of(window_ns=(-(1 << 63), (1 << 63) - 1), room_bytes=1 << 16)
    for size in (0, 1, (1 << 32) - 1):
        for offset in (0, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1):
            for end in ends:
                columns = {
                    "offset_bytes": np.full(count, offset, np.uint64),
                    "size_bytes": np.full(count, size),
                }
                tally.add(**columns_of(issued_ns=ends, completed_ns=np.full(count, end), **columns))
    tally.finish()
    assert tally.arrivals()[2][0] == 15 * count * count
    assert tally.flight()[1][1] == (1 << 63) - 1
    # From 0 and from 2**62 on 4 GiB each, and the granule before the latter.
    assert tally.touched_bytes([0], None) == (2 << 32) + 4096
    assert np.frombuffer(tally.histogram("service"), np.int64).reshape(-1, 5)[:, 2].sum() == 15 * count * (
        count - 1
    )
    assert np.frombuffer(tally.seconds(), np.int64).reshape(-1, 7)[:, 2].sum() == 15 * count * count


def test_many_small_areas_keep_small_blocks():
    """Larger blocks make no room where each area has one page; a large one beside them still has to give way."""
    areas = 3000
    tally = tally_of(devices=areas, room_bytes=1 << 16)
    tally.add(**columns_of(issued_ns=np.arange(areas), device_id=np.arange(areas)))
    tally.advance(areas)
    assert tally.block_bytes() == 64 << 10
    far = np.arange(2 * areas, dtype=np.uint64) << np.uint64(24)
    tally.add(**columns_of(issued_ns=areas + np.arange(2 * areas), offset_bytes=far))
    tally.finish()
    assert tally.block_bytes() == 128 << 10


@pytest.mark.parametrize("name", list(KINDS))
def test_arrays_that_are_no_columns_are_refused(name):
    """Too short, of another type, with gaps, of two dimensions, writable: an error, and nothing is counted."""
    usual = columns_of(issued_ns=[1, 2, 3], layer=[2] * 3, error=[0] * 3, intended_ns=[0] * 3)
    wrong_type = usual[name].astype(np.float64)
    wrong_type.flags.writeable = False
    gaps = np.repeat(usual[name], 2)[::2]
    gaps.flags.writeable = False
    tally = tally_of()
    for wrong in (usual[name][:2], wrong_type, gaps, usual[name].reshape(1, 3), usual[name].copy(), b"", 5):
        with pytest.raises((ValueError, BufferError, TypeError)):
            tally.add(**usual | {name: wrong})
    tally.add(**usual)
    tally.finish()
    assert tally.sequences() == [(3, 0)]


def test_streams_that_cannot_be_are_refused():
    streams = (
        (2, 0, 0, 0, False, 1, None),
        (2, 0, 0, 0, False, 0, (0, 0, 1, None)),
        (2, 0, 0, 0, False, 0, (0, 0, 0, 256)),
    )
    for stream in streams:
        with pytest.raises(ValueError, match="numbered"):
            Tally([stream], metrics=[], window_ns=(0, 1), cuts_ns=[], room_bytes=1)
    for cuts in ([2, 1], list(range(30))):
        with pytest.raises(ValueError, match="slices"):
            Tally([], metrics=[], window_ns=(0, 1), cuts_ns=cuts, room_bytes=1)
    with pytest.raises(ValueError, match="metric"):
        Tally([], metrics=["waits"], window_ns=(0, 1), cuts_ns=[], room_bytes=1)


def test_ids_far_apart_are_told_apart():
    """Where a table of all combinations would be too large; null is not -1."""
    ids = [None, -1, 0, (1 << 31) - 1, 1 - (1 << 31)]
    streams = [(2, 0, device, file, False, 0, (0, 0, 0, 0)) for device in ids for file in ids]
    tally = Tally(streams, metrics=[], window_ns=(0, 1), cuts_ns=[], room_bytes=1)
    for number, (_, _, *pair, _, _, _) in enumerate(streams):
        device, file = (-(1 << 31) if one is None else one for one in pair)
        tally.add(**columns_of(issued_ns=[number], device_id=[device], file_id=[file]))
        with pytest.raises(ValueError, match="changed while it was read"):
            tally.add(**columns_of(issued_ns=[number], device_id=[device], file_id=[7]))
    tally.finish()
    assert tally.arrivals()[2][0] == len(streams)


def test_an_io_outside_the_times_of_its_row_group_is_damage(make_recording, monkeypatch):
    recording = make_recording([{"issued_ns": at} for at in range(10)])
    pieces = [(columns_of(issued_ns=[5]), 6), (columns_of(issued_ns=[4]), 7)]
    monkeypatch.setattr(one_pass, "pieces", lambda *_: iter(pieces))
    with library.opened(recording) as connection:
        subject = Subject("block", (0, 10), ("service",), has_errors=False)
        with pytest.raises(IotraceError, match="damaged table io: an I/O issued at 4 ns"):
            measure(connection, recording, [Stream("block", 0, 0, "data", "read")], subject)


def _same(one, other):
    assert one.all_flight == other.all_flight
    assert one.flight == other.flight
    assert one.all_arrivals == other.all_arrivals
    assert one.arrivals == other.arrivals
    assert one.sequence.sequential_count.tolist() == other.sequence.sequential_count.tolist()
    assert one.touched_slices() == other.touched_slices()


def test_rows_in_no_order_are_passed_in_order_of_time(make_recording, tmp_path, monkeypatch):
    """Three sources one after another in small row groups: each overlaps with those of the others."""
    recording = make_recording(random_ios(5))
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 64)
    io = recording.read("io")
    with RecordingWriter(tmp_path / "mixed.iotrace") as mixed:
        for start in (2, 0, 1):
            # I/Os of one nanosecond keep their order: no two of a source's have the same.
            mixed.append("io", io.take(list(range(start, io.num_rows, 3))))
        for name in ("devices", "files", "processes"):
            mixed.append(name, recording.read(name))
        shuffled = mixed.commit(recording.manifest)
    plain = passed(recording, (0, SECOND))
    assert plain.all_arrivals.count > 400
    _same(passed(shuffled, (0, SECOND)), plain)
    monkeypatch.setattr(rows, "_OVERLAP_ROWS_MAX", 10)
    _same(passed(shuffled, (0, SECOND)), plain)
